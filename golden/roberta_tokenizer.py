"""A byte-level BPE tokenizer with RoBERTa's special tokens, for the scripts that make golden towers.

Not a script: `towers_tiny.py` and `towers_full.py` import it. The vocabulary is trained on the sound
captions below, as no published one comes as a package. It is written in both layouts of the published
models: one tokenizer.json, and vocab.json with merges.txt.

What RoBERTa's tokenizer has always given is more than the installed class gives. Read from vocab.json and
merges.txt, transformers 5 forgets that `<mask>` takes the blanks before it, which version 4 set in the
class. So the ids of the packages are checked against `PlainTokenizer`, which follows the definition.
"""

import json

import regex
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
MASK = "<mask>"

SOUNDS = """
A dog barks twice and a door slams shut.
Rain is falling on a tin roof while thunder rolls in the distance.
A woman is speaking and a child is laughing.
Someone is typing on a keyboard in a quiet room.
Birds are singing in the trees as the wind blows.
A car engine starts, idles for a while and then drives away.
Water is running from a tap into a metal sink.
A crowd is cheering and clapping after a song.
Footsteps are walking slowly over gravel.
A train passes by at high speed with its horn blowing.
The clock is ticking and then the bell rings three times.
A man is talking on the phone while music is playing.
Waves are crashing on the beach and seagulls are calling.
A fire is crackling and the wood is popping.
An aeroplane is flying overhead and fades away.
A cat is meowing loudly and someone is laughing.
A baby is crying in the background and a woman is talking.
Heavy machinery is humming with a low steady drone.
A glass breaks on the floor and someone gasps.
Leaves are rustling in the wind near a busy street.
A saw is cutting through a piece of wood.
The siren of an ambulance is coming closer and going away.
A bee is buzzing around a flower.
Frogs are croaking and crickets are chirping at night.
A church bell is ringing in the distance.
Somebody is walking on dry leaves and twigs are snapping.
A motorcycle is revving its engine and driving off.
Paper is being crumpled and thrown away.
Water is dripping slowly into a bucket.
The wind is howling through an open window.
A sheep is bleating and a rooster is crowing.
People are speaking in a large room with an echo.
Coins are dropping on a table one after the other.
A drill is running, stops and starts running again.
The door of a car is opened and closed.
A helicopter is hovering above the sea.
A child is running up the stairs and shouting.
Someone is washing dishes and stacking the plates.
A horse is trotting along a paved road.
An old radio is hissing and crackling between stations.
A kettle is boiling and begins to whistle.
Rain is pouring down and cars are passing on the wet street.
A person is snoring while a fan is humming.
The keys are jingling and a lock is turning.
Many voices are chattering in a restaurant, and plates are clinking.
A stream is flowing over the rocks in a forest.
A man is coughing and clearing his throat.
Someone is sweeping the floor with a broom.
A ship is sounding its horn in the harbour.
The guitar is being tuned, string by string.
A lawn mower is starting and cutting the grass.
Ducks are quacking and splashing in the water.
A telephone is ringing, but nobody is answering.
Ice is falling into a glass and a drink is poured.
A helper is hammering nails into a wooden board.
Wind chimes are ringing softly in the breeze.
The washing machine is spinning faster and faster.
A truck is beeping while it is reversing.
Fireworks are exploding and people are cheering.
An owl is hooting in the silence of the night.
""".strip().splitlines()


def train_vocabulary(size):
    """Token to id, and the merges: trained on SOUNDS, special tokens at RoBERTa's places."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=size - 1, special_tokens=SPECIAL, show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    trained.train_from_iterator(SOUNDS, trainer)
    model = json.loads(trained.to_str())["model"]
    vocabulary = dict(sorted(model["vocab"].items(), key=lambda entry: entry[1]))
    vocabulary[MASK] = len(vocabulary)
    assert list(vocabulary.values()) == list(range(size))
    return vocabulary, [tuple(pair) for pair in model["merges"]]


def roberta_tokenizer(vocabulary, merges):
    """The tokenizer of the published models: `<mask>` takes the blanks before it, the others take none."""
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, continuing_subword_prefix="",
                                     end_of_word_suffix="", fuse_unk=False))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", vocabulary["</s>"]), ("<s>", vocabulary["<s>"]), trim_offsets=True, add_prefix_space=False
    )
    tokenizer.add_special_tokens([AddedToken(token, normalized=True, special=True) for token in SPECIAL])
    tokenizer.add_special_tokens([AddedToken(MASK, lstrip=True, normalized=False, special=True)])
    return tokenizer


def write_vocabulary(folder, vocabulary, merges):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(vocabulary) + "\n", encoding="utf-8")
    lines = ["#version: 0.2"] + [f"{left} {right}" for left, right in merges]
    (folder / "merges.txt").write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def write_tokenizer(folder, tokenizer):
    """One tokenizer.json as published: on one line, merges as text. (The package now saves them as pairs.)"""
    folder.mkdir(parents=True, exist_ok=True)
    document = json.loads(tokenizer.to_str())
    document["model"]["merges"] = [" ".join(pair) for pair in document["model"]["merges"]]
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")


class PlainTokenizer:
    """RoBERTa's tokenizer by its definition, to check the packages by: split, bytes to letters, merge.

    Splits at the special tokens, `<mask>` taking the blanks before it, then by GPT-2's pattern; merges the
    pair with the lowest rank until none is left.
    """

    PATTERN = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")

    def __init__(self, vocabulary, merges):
        self.vocabulary = vocabulary
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        self.special = regex.compile(r"\s*<mask>|<s>|<pad>|</s>|<unk>")
        printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
        others = [byte for byte in range(256) if byte not in printable]
        self.letters = {byte: chr(byte) for byte in printable}
        self.letters |= {byte: chr(256 + index) for index, byte in enumerate(others)}

    def word(self, word):
        parts = [self.letters[byte] for byte in word.encode("utf-8")]
        while len(parts) > 1:
            ranked = [(self.ranks.get(pair, len(self.ranks)), at) for at, pair in enumerate(zip(parts, parts[1:]))]
            rank, at = min(ranked)
            if rank == len(self.ranks):
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return [self.vocabulary[part] for part in parts]

    def plain(self, text):
        return [index for word in self.PATTERN.findall(text) for index in self.word(word)]

    def ids(self, text):
        out, start = [], 0
        for found in self.special.finditer(text):
            out += self.plain(text[start : found.start()])
            out.append(self.vocabulary[found.group().strip()])
            start = found.end()
        return [self.vocabulary["<s>"]] + out + self.plain(text[start:]) + [self.vocabulary["</s>"]]
