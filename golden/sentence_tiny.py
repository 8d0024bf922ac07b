#!/usr/bin/env python3
"""Small golden sentence encoders with seeded random weights.

Writes three Sentence-Transformers folders, each with an `expected.json`:

  mpnet-tiny      transformers.MPNetModel, mean pooling, L2 norm, in the layout that the
                  installed sentence-transformers saves
  bert-tiny       transformers.BertModel, mean pooling, L2 norm, in the layout of the published
                  models (2021): `max_seq_length` in sentence_bert_config.json, one boolean per
                  pooling mode, and a tokenizer.json that still carries a truncation and a fixed
                  padding which the model does not use
  bert-tiny-cls   transformers.BertModel, smaller, first token, no norm; published layout

The weights come from a seeded generator, one tensor after the other in order of name, wide enough
that the outputs are far from trivial. The script then checks that every tensor matters, apart from
those that cannot (the pooler, and key biases, which a softmax cancels). The tokenizers are WordPiece
with a vocabulary made by hand below. No pickle is written.

`expected.json` holds, for 24 texts, the token ids and the embedding of SentenceTransformer.encode;
the hidden states of one text after every layer; for MPNet, the bucket of every relative position;
and `float32_error`, the largest difference between the float32 run and a float64 run of the same
model: a tolerance should stand well above it.

Run, from the root of the repository:

  pip install -r golden/requirements.txt
  python golden/sentence_tiny.py --out crates/encode/tests/golden
"""

import argparse
import json
import shutil
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch

# Nothing runs on a GPU, and torchaudio, which transformers loads, refuses a torch of another CUDA version.
torch.version.cuda = None
import sentence_transformers  # noqa: E402
import tokenizers
import transformers
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, MPNetConfig, MPNetModel

VERSIONS = {
    "torch": torch.__version__.split("+")[0],
    "transformers": transformers.__version__,
    "sentence-transformers": sentence_transformers.__version__,
    "tokenizers": tokenizers.__version__,
    "numpy": np.__version__,
}

LETTERS = "abcdefghijklmnopqrstuvwxyz"
DIGITS = "0123456789"
PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\u2013\u2014\u2019\u2026\u00b0\u20ac"
# Two of the CJK characters in the texts are known, the others are not.
CJK = "\u732b\u96e8"
WORDS = """
the is and of in on to with from as at by then while an it are near over into out up down for
cat dog man woman person people child bird birds rain water wind door car engine train bell music voice
speak speaks talk talks cry cries crying walk walks run runs bark barks sing sings ring rings pass passes
fall falls pour pours blow blows open opens close slam hum hums buzz crack loud soft quiet slow fast long short
metal wood glass paper road street room park sea wave fire storm thunder clock machine keys phone crowd baby
someone something background distance again other each another two three several many low high
""".split()
PIECES = """
##s ##ed ##ing ##ly ##er ##es ##le ##ow ##in ##on ##an ##ar ##en ##al ##at ##th ##ch ##sh ##st ##ck
##ous ##ness ##ment ##ation ##ight ##ound ##ter ##ble ##gly ##ard
""".split()

# Words of this text go through the vocabulary above mostly in pieces, so that it is well over the
# longest sequence of any of the models and reaches every relative position bucket of MPNet.
LONG = (
    "A heavy goods train rumbles slowly past a level crossing while the warning bell keeps ringing, a dog "
    "barks at the wheels, and two people shout to each other over the noise; afterwards the barrier lifts, "
    "the queue of cars starts moving, someone sounds a horn, a bicycle squeaks across the rails, birds "
    "return to the hedge, and in the far distance the locomotive whistles once more before everything "
    "becomes quiet again except for the wind in the telegraph wires and the gentle dripping of rain."
)
TEXTS = [
    ("short", "A cat is crying"),
    ("one word", "rain"),
    ("one letter", "a"),
    ("empty", ""),
    ("only blanks", " \t  "),
    ("only punctuation", "...!?"),
    ("plain", "A woman speaks while a dog barks in the background."),
    ("same words, other order", "A dog barks while a woman speaks in the background."),
    ("upper case", "LOUD THUNDER AND HEAVY RAIN"),
    ("lower case of the one before", "loud thunder and heavy rain"),
    ("repeated words", "tick tick tick tick tick tick tick tick"),
    ("punctuation inside", "Wind, waves (and gulls) - it's a harbour; isn't it? \"Yes!\""),
    ("digits", "3 bells ring 12 times at 07:45, 20% louder"),
    ("accents", "Un caf\u00e9 bruyant, na\u00efve fa\u00e7ade, \u00c5ngstr\u00f6m, cr\u00e8me br\u00fbl\u00e9e"),
    ("combining accent", "cafe\u0301 and caf\u00e9"),
    ("emoji", "a dog \U0001f415 barks \U0001f50a\U0001f50a"),
    ("CJK", "\u732b\u304c\u9cf4\u3044\u3066\u3044\u308b \u96e8 a cat cries in the rain"),
    ("other blanks", "rain\u00a0falls\tsoftly\non\u2003glass"),
    ("control and zero width", "rain\u0000 fal\u200bls\u00ad soft\ufeffly"),
    ("typographic punctuation", "the man\u2019s voice \u2014 low, slow\u2026 20\u00b0, 5\u20ac"),
    ("special tokens spelt out", "the sign reads </s> and [SEP] then <mask> or [MASK] <pad> [PAD]"),
    ("one long word", "br" + "r" * 40 + "um"),
    ("word over 100 letters", "z" * 101 + " then quiet"),
    ("over the longest sequence", LONG),
]


def vocabulary(first, unknown, last):
    """Token to id: the special tokens where the published vocabularies have them, then the rest."""
    listed = list(first)
    listed += list(PUNCTUATION)
    listed.append(unknown)  # in the middle, as in the published vocabularies
    listed += list(DIGITS) + list(LETTERS) + list(CJK)
    listed += ["##" + c for c in DIGITS + LETTERS]
    listed += WORDS + PIECES + list(last)
    listed = list(dict.fromkeys(listed))
    return {token: index for index, token in enumerate(listed)}


def wordpiece(vocab):
    """A WordPiece tokenizer with BERT's normaliser and splitter, no post-processing yet."""
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    return tokenizer


def mpnet_tokenizer():
    vocab = vocabulary(["<s>", "<pad>", "</s>", "<unk>"], "[UNK]", ["<mask>"])
    tokenizer = wordpiece(vocab)
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "[UNK]"])
    tokenizer.add_special_tokens([tokenizers.AddedToken("<unk>", normalized=True, special=True)])
    tokenizer.add_special_tokens([tokenizers.AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", vocab["</s>"]), ("<s>", vocab["<s>"]), trim_offsets=True, add_prefix_space=False
    )
    config = {
        "bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>",
        "unk_token": "[UNK]", "pad_token": "<pad>", "mask_token": "<mask>", "do_lower_case": True,
        "strip_accents": None, "tokenize_chinese_chars": True, "tokenizer_class": "MPNetTokenizer",
    }
    return tokenizer, config


def bert_tokenizer():
    vocab = vocabulary(["[PAD]"], "[UNK]", ["[CLS]", "[SEP]", "[MASK]"])
    tokenizer = wordpiece(vocab)
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])],
    )
    config = {
        "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]", "pad_token": "[PAD]",
        "mask_token": "[MASK]", "do_lower_case": True, "strip_accents": None,
        "tokenize_chinese_chars": True, "tokenizer_class": "BertTokenizer",
    }
    return tokenizer, config


def randomise(model, seed):
    """Draws every parameter in order of name: wide weights, biases and norms that are not trivial."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator)
            if name.endswith("LayerNorm.weight"):
                parameter.copy_(1.0 + 0.3 * noise)
            elif "relative_attention_bias" in name:
                parameter.copy_(1.0 * noise)
            elif "embeddings" in name and not name.endswith("LayerNorm.bias"):
                parameter.copy_(0.5 * noise)
            else:
                parameter.copy_(0.3 * noise)


def build(out, model, tokenizer, tokenizer_config, length, pooling, normalise):
    """Saves one folder by SentenceTransformer.save, replacing what was there."""
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        model.save_pretrained(scratch)
        tokenizer.save(str(scratch / "tokenizer.json"))
        (scratch / "tokenizer_config.json").write_text(json.dumps(tokenizer_config | {"model_max_length": length}))
        transformer = Transformer(str(scratch), max_seq_length=length)
        modules = [transformer, Pooling(model.config.hidden_size, pooling)]
        if normalise:
            modules.append(Normalize())
        if out.exists():
            shutil.rmtree(out)
        SentenceTransformer(modules=modules, device="cpu").save(str(out), create_model_card=False)
    (out / "model.safetensors").chmod(0o644)
    # The loader leaves two notes of where a tokenizer was read from; they say nothing about the model.
    path = out / "tokenizer_config.json"
    config = json.loads(path.read_text())
    for note in ("is_local", "local_files_only"):
        config.pop(note, None)
    write_json(path, config)


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def as_published(out, length, pooling, normalise, stale):
    """Rewrites a saved folder into the layout of the models published in 2021."""
    kinds = ["Transformer", "Pooling"] + (["Normalize"] if normalise else [])
    write_json(
        out / "modules.json",
        [
            {
                "idx": index,
                "name": str(index),
                "path": f"{index}_{kind}" if index else "",
                "type": f"sentence_transformers.models.{kind}",
            }
            for index, kind in enumerate(kinds)
        ],
    )
    shutil.rmtree(out / "2_Normalize", ignore_errors=True)
    width = json.loads((out / "config.json").read_text())["hidden_size"]
    write_json(
        out / "1_Pooling" / "config.json",
        {
            "word_embedding_dimension": width,
            "pooling_mode_cls_token": pooling == "cls",
            "pooling_mode_mean_tokens": pooling == "mean",
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
        },
    )
    write_json(out / "sentence_bert_config.json", {"max_seq_length": length, "do_lower_case": False})
    write_json(
        out / "config_sentence_transformers.json",
        {"__version__": {"sentence_transformers": "2.0.0", "transformers": "4.6.1", "pytorch": "1.8.1"}},
    )
    # The published models of that time say 512 here, whatever the sentence encoder was cut to.
    path = out / "tokenizer_config.json"
    config = json.loads(path.read_text())
    for key in ("max_length", "stride", "truncation_strategy", "truncation_side", "padding_side", "backend",
                "pad_to_multiple_of", "pad_token_type_id"):
        config.pop(key, None)
    positions = json.loads((out / "config.json").read_text())["max_position_embeddings"]
    write_json(path, config | {"model_max_length": positions})
    # Left over from somebody's training run in the published files: not what the model uses.
    tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
    tokenizer.enable_truncation(max_length=stale)
    tokenizer.enable_padding(length=stale, pad_id=tokenizer.token_to_id("[PAD]"), pad_token="[PAD]")
    tokenizer.save(str(out / "tokenizer.json"))
    # An integer buffer that newer versions of the class no longer write.
    tensors = load_file(out / "model.safetensors")
    tensors["embeddings.position_ids"] = torch.arange(positions).unsqueeze(0)
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    (out / "model.safetensors").chmod(0o644)


def numbers(tensor):
    """Nested lists of the exact values: a float32 printed as the float64 that equals it."""
    return np.asarray(tensor.detach().cpu().numpy(), dtype=np.float32).astype(np.float64).tolist()


def token_ids(model, text):
    features = model.preprocess([text])
    assert features["attention_mask"].min() == 1
    return features["input_ids"][0].tolist()


def check_tokenizer_file(out, model, unknown):
    """tokenizer.json alone must give the same ids once its own truncation and padding are replaced."""
    tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length=model.max_seq_length)
    missing = 0
    for name, text in TEXTS:
        ids = tokenizer.encode(text).ids
        assert ids == token_ids(model, text), f"{out.name}: {name}: the two tokenizers differ"
        missing += tokenizer.token_to_id(unknown) in ids
    assert 0 < missing < len(TEXTS) / 2, f"{out.name}: {missing} texts have unknown words"


def check_every_tensor(out, model):
    """Each tensor, set to zero, must move some embedding by far more than a tolerance."""
    texts = [text for _, text in TEXTS]
    before = model.encode(texts)
    silent = []
    for name, parameter in model[0].model.named_parameters():
        kept = parameter.detach().clone()
        with torch.no_grad():
            parameter.zero_()
            moved = np.abs(model.encode(texts) - before).max()
            parameter.copy_(kept)
        if not moved > 1e-2:
            silent.append(name)
    allowed = [n for n in silent if n.startswith("pooler.") or n.endswith(("attn.k.bias", "self.key.bias"))]
    assert silent == allowed, f"{out.name}: these tensors do not matter: {sorted(set(silent) - set(allowed))}"


def expected(out, seed, pooling, normalise):
    """Loads the folder as a user would and writes `expected.json` into it."""
    model = SentenceTransformer(str(out), device="cpu")
    texts = [text for _, text in TEXTS]
    embeddings = model.encode(texts, convert_to_tensor=True)
    single = torch.stack([model.encode(text, convert_to_tensor=True) for text in texts])
    check_tokenizer_file(out, model, "[UNK]")
    check_every_tensor(out, model)

    network = model[0].model
    case = 0
    hidden = network(**{k: v for k, v in model.preprocess([texts[case]]).items() if torch.is_tensor(v)},
                     output_hidden_states=True).hidden_states
    names = ["embeddings"] + [f"layer_{n}" for n in range(len(hidden) - 1)]
    extra = {}
    if network.config.model_type == "mpnet":
        reach = 150
        buckets = network.encoder.relative_position_bucket(torch.arange(-reach, reach + 1))
        extra["relative_position_buckets"] = {
            "note": "bucket of key position minus query position, from -reach to reach",
            "reach": reach,
            "buckets": buckets.tolist(),
        }
    exact = SentenceTransformer(str(out), device="cpu").double().encode(texts)
    error = float(np.abs(exact - embeddings.double().numpy()).max())

    cases = []
    tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    for (name, text), embedding in zip(TEXTS, embeddings):
        ids = token_ids(model, text)
        cases.append({
            "name": name, "text": text, "ids": ids, "tokens_before_truncation": len(tokenizer.encode(text).ids),
            "embedding": numbers(embedding),
        })
    document = {
        "made_by": "golden/sentence_tiny.py",
        "versions": VERSIONS,
        "seed": seed,
        "max_seq_length": model.max_seq_length,
        "pooling": pooling,
        "normalised": normalise,
        "float32_error": error,
        "hidden_states": {"case": case} | {n: numbers(h[0]) for n, h in zip(names, hidden)},
        **extra,
    }
    # One case per line, so that a change shows which text it touches.
    lines = [f"  {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in document.items()]
    rows = ",\n".join("    " + json.dumps(c, ensure_ascii=True) for c in cases)
    lines.append(f'  "cases": [\n{rows}\n  ]')
    (out / "expected.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")

    similarity = torch.nn.functional.cosine_similarity(embeddings[:, None], embeddings[None], dim=-1)
    off = similarity[~torch.eye(len(texts), dtype=torch.bool)]
    size = sum(f.stat().st_size for f in out.rglob("*") if f.is_file())
    print(f"{out.name}: {size} bytes, vocabulary {len(tokenizer.get_vocab())}, float32 error {error:.1e}, "
          f"one by one against batch {float((single - embeddings).abs().max()):.1e}, "
          f"cosine between texts {float(off.min()):.2f} to {float(off.max()):.2f}, "
          f"longest {max(c['tokens_before_truncation'] for c in cases)} tokens "
          f"cut to {max(len(c['ids']) for c in cases)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder that receives the three model folders")
    parser.add_argument("--seed", type=int, default=20240917, help="seed of the weights")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    print(", ".join(f"{k} {v}" for k, v in VERSIONS.items()))
    arguments.out.mkdir(parents=True, exist_ok=True)

    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}

    # MPNet numbers positions from the padding id + 1, so the table is two longer than the sequence.
    # 144 tokens reach past the distance of 128 where the relative position buckets end. The epsilon
    # of the layer norms is far wider than the published 1e-5, so that an ignored setting shows.
    length = 144
    tokenizer, config = mpnet_tokenizer()
    model = MPNetModel(MPNetConfig(vocab_size=tokenizer.get_vocab_size(), max_position_embeddings=length + 2,
                                   relative_attention_num_buckets=32, layer_norm_eps=1e-3, initializer_range=0.3,
                                   **shape))
    randomise(model, arguments.seed)
    out = arguments.out / "mpnet-tiny"
    build(out, model, tokenizer, config, length, "mean", True)
    expected(out, arguments.seed, "mean", True)

    for name, offset, shape, length, pooling, normalise in [
        ("bert-tiny", 1, shape, 32, "mean", True),
        ("bert-tiny-cls", 2, small, 24, "cls", False),
    ]:
        tokenizer, config = bert_tokenizer()
        model = BertModel(BertConfig(vocab_size=tokenizer.get_vocab_size(), max_position_embeddings=40,
                                     type_vocab_size=2, initializer_range=0.3, **shape))
        randomise(model, arguments.seed + offset)
        out = arguments.out / name
        build(out, model, tokenizer, config, length, pooling, normalise)
        as_published(out, length, pooling, normalise, stale=16)
        expected(out, arguments.seed + offset, pooling, normalise)


if __name__ == "__main__":
    main()
