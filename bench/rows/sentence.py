"""Captions through a sentence encoder: sentence-transformers.

512 captions, generated or taken evenly from a file (--captions), through MPNet-base with random weights (the architecture of
all-mpnet-base-v2) or a model folder of your own (--sentence-model), tokenizing included. sentence-transformers encodes with its
defaults: batches of 32, sorted by length. Loading is not counted.
"""

import csv
import json
import random
import shutil
import tempfile
import warnings
from pathlib import Path

from rows.inference import enliven
from rows.row import Row, answer, load_torch, peer_parser, silence, timed

COUNT = 512
WHAT = ["a dog", "heavy rain", "an old engine", "a large crowd", "a small bird", "the wooden door", "a freight train", "strong wind",
        "a young child", "a wall clock", "a camp fire", "the shallow river", "a church bell", "someone", "a distant siren", "a motorcycle"]
DOES = ["barks", "falls steadily", "idles roughly", "cheers and claps", "sings", "creaks open", "passes by", "howls", "laughs out loud",
        "ticks slowly", "crackles", "flows over stones", "rings twice", "speaks quietly", "rises and falls", "accelerates"]
WHERE = ["in a large hall", "on a tin roof", "far away", "in the street", "in a forest", "behind a wall", "at night", "near the shore",
         "in a small room with an echo", "under a bridge", "as people talk in the background", "before it becomes quiet again"]


def generated(count):
    """Captions of one to three clauses; no two are the same."""
    source = random.Random(9)
    captions = {}
    while len(captions) < count:
        clauses = [" ".join(source.choice(words) for words in (WHAT, DOES, WHERE)) for _ in range(source.choice((1, 1, 2, 2, 3)))]
        captions[", while ".join(clauses).capitalize() + "."] = None
    return list(captions)


def read_captions(path):
    """All captions of a text or CSV file, in order, each on one line."""
    with open(path, encoding="utf-8", newline="") as file:
        if path.suffix.lower() != ".csv":
            return [line.strip() for line in file if line.strip()]
        rows = csv.DictReader(file)
        columns = [name for name in rows.fieldnames or [] if name == "caption" or name.startswith("caption_")]
        if not columns:
            raise SystemExit(f"{path}: no column is named `caption` or `caption_N`")
        return [" ".join(row[name].splitlines()) for row in rows for name in columns if row[name].strip()]


def tokenizer_of(captions):
    """A WordPiece tokenizer with MPNet's special tokens."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    special = ["<s>", "<pad>", "</s>", "<unk>", "[UNK]", "<mask>"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.train_from_iterator(captions, trainers.WordPieceTrainer(vocab_size=2000, special_tokens=special, show_progress=False))
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    return tokenizer


def make_model(torch, captions, folder):
    """MPNet-base with random weights, as sentence-transformers saves it."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Normalize, Pooling, Transformer
    from transformers import MPNetConfig, MPNetModel

    torch.manual_seed(1)
    model = MPNetModel(MPNetConfig(vocab_size=30527, max_position_embeddings=514), add_pooling_layer=False)
    enliven(torch, model, 10)
    with tempfile.TemporaryDirectory() as place:
        scratch = Path(place)
        model.save_pretrained(scratch)
        tokenizer_of(captions).save(str(scratch / "tokenizer.json"))
        config = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "unk_token": "[UNK]",
                  "pad_token": "<pad>", "mask_token": "<mask>", "do_lower_case": True, "tokenizer_class": "MPNetTokenizer",
                  "model_max_length": 128}
        (scratch / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
        modules = [Transformer(str(scratch), max_seq_length=128), Pooling(768, "mean"), Normalize()]
        shutil.rmtree(folder, ignore_errors=True)
        SentenceTransformer(modules=modules, device="cpu").save(str(folder), create_model_card=False)


def prepare(arguments):
    captions = read_captions(arguments.captions) if arguments.captions else generated(COUNT)
    count = min(COUNT, len(captions))
    captions = [captions[index * len(captions) // count] for index in range(count)]
    (arguments.work / "captions.txt").write_text("".join(caption + "\n" for caption in captions), encoding="utf-8")
    if not arguments.model:
        make_model(load_torch(arguments.threads), captions, arguments.work / "model")
    answer()


def encode(arguments):
    import numpy as np

    torch = load_torch(arguments.threads)
    from sentence_transformers import SentenceTransformer

    captions = (arguments.work / "captions.txt").read_text(encoding="utf-8").splitlines()[: arguments.count]
    model = SentenceTransformer(str(arguments.model or arguments.work / "model"), device="cpu")

    def work():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled="bf16" in arguments.side):
            return model.encode(captions, show_progress_bar=False, normalize_embeddings=True)

    seconds, embeddings = timed(work, arguments.repeat)
    np.save(arguments.output, np.asarray(embeddings, dtype=np.float32))
    answer(seconds=seconds, count=len(captions))


class Sentence(Row):
    name = "sentence"
    what = "captions through a sentence encoder, MPNet-base"
    peers = ["sentence-transformers", "sentence-transformers bf16"]
    precisions = ["bf16", "int8"]
    packages = ["sentence-transformers", "transformers", "tokenizers", "torch", "numpy"]

    def count(self, options):
        return 64 if options.quick else COUNT

    def settings(self, options):
        return {"captions": str(options.captions), "model": str(options.sentence_model)}

    def peer(self, side, options, folder, *more):
        given = ["--captions", options.captions] if options.captions else []
        given += ["--model", options.sentence_model] if options.sentence_model else []
        return [options.python, "-m", "rows.sentence", side, "--work", folder, "--threads", options.threads, *given, *more]

    def prepare(self, options, folder):
        return self.peer("prepare", options, folder)

    def ours(self, options, folder, output, check):
        return [options.bench, "encode", "--model", options.sentence_model or folder / "model", "--captions", folder / "captions.txt",
                "--format", "text", "--count", self.count(options), "--threads", options.threads, "--output", output, "--warm-up",
                *options.at_precision()]

    def theirs(self, peer, options, folder, output, check, choice):
        return self.peer(peer, options, folder, "--count", self.count(options), "--output", output)


ROWS = [Sentence()]


def main():
    parser = peer_parser(__doc__)
    parser.add_argument("--captions", type=Path)
    parser.add_argument("--model", type=Path)
    arguments = parser.parse_args()
    silence()
    warnings.filterwarnings("ignore")
    (prepare if arguments.side == "prepare" else encode)(arguments)


if __name__ == "__main__":
    main()
