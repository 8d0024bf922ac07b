#!/usr/bin/env python3
"""Small golden audio and text towers with seeded random weights, in every layout that is read.

Writes into one folder:

  authors.pt         torch.save of the tuple (model, optimizer, scaler) of the paper's authors: PaSST and
                     RoBERTa, each with a projection Linear-ReLU-Linear. The towers of all files below
                     but `winner.ckpt` have the weights of this one.
  passt.pt           the PaSST state dict alone, with its classifier heads
  hf-roberta/        RobertaModel with a pooler, as save_pretrained writes it
  hf-roberta-lm/     RobertaForMaskedLM, whose names begin with `roberta.`, brought into the layout of the
                     published models: an integer buffer `position_ids`, vocab.json and merges.txt
  winner.ckpt        a Lightning dict of the 2024 challenge winner: PaSST with stride 10, both towers of
                     one layer, other weights, one linear layer on each side, and tensors that are not used
  tokenizer-json/    a byte-level BPE tokenizer with RoBERTa's special tokens as one tokenizer.json, in the
  vocab-merges/      layout of the published models, and as vocab.json with merges.txt
  expected.json      token ids of many texts
  towers.json        the captions with their token ids, and the errors of a float32 run
  expected.safetensors, winner.safetensors
                     features, embeddings, losses and the gradient of every parameter

golden/README.md says what each tensor is, how the inputs are made (by a formula: none is stored), and by
what rule the elements are dropped in the set `masked.`

All numbers come from float64 runs of the reference classes on the float32 weights of the files, and are
stored as float32. The script asserts that every parameter has a gradient far above rounding, apart from
those that cannot have one (biases of keys, which a softmax cancels).

Run, from the root of the repository:

  pip install -r golden/requirements.txt
  python golden/towers_tiny.py --out crates/encode/tests/golden/towers
"""

import argparse
import contextlib
import copy
import json
import shutil
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

# Nothing runs on a GPU here. Without this, torchaudio, which the packages below load, refuses to start
# where it was built for another CUDA version than torch.
torch.version.cuda = None

import tokenizers  # noqa: E402
import transformers  # noqa: E402
from hear21passt.models import passt as reference_passt  # noqa: E402
from hear21passt.wrapper import PasstBasicWrapper  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from tokenizers import AddedToken, Tokenizer  # noqa: E402
from transformers import RobertaConfig, RobertaForMaskedLM, RobertaModel, RobertaTokenizerFast  # noqa: E402

from roberta_tokenizer import (  # noqa: E402
    MASK, PlainTokenizer, roberta_tokenizer, train_vocabulary, write_tokenizer, write_vocabulary,
)

VERSIONS = {
    "torch": torch.__version__.split("+")[0],
    "transformers": transformers.__version__,
    "tokenizers": tokenizers.__version__,
    "hear21passt": version("hear21passt"),
    "safetensors": version("safetensors"),
    "numpy": np.__version__,
}

VOCABULARY = 400
MAX_TOKENS = 32
WIDTH = 16
EMBEDDING = 12
TAU = 0.05
RATE = 0.2
DROPOUT_SEED = 7
KEPT_TIMES = [0, 2, 3, 5, 6]
KEPT_ROWS = [0, 1, 3, 4, 6, 7]

# The four captions of the batch: no two of the same number of tokens.
CAPTIONS = [
    "Rain is falling on a tin roof.",
    "A dog barks",
    "Birds are singing while a train passes by in the distance.",
    "A woman is talking, then a door slams shut",
]
# The second file's captions are without punctuation, as its authors prepare them.
WINNER_CAPTIONS = ["a dog barks while rain is falling", "water is running"]

LONG = (
    "A goods train is rumbling past a crossing while the bell keeps ringing, a dog is barking at the wheels "
    "and two people are shouting to each other; then the gate opens, the cars start moving, a bicycle squeaks "
    "across the rails, birds return to the trees and everything is quiet again except for the wind."
)
TEXTS = [
    ("plain", "A dog barks twice and a door slams shut."),
    ("plain, no full stop", "rain is falling on a tin roof"),
    ("one word", "rain"),
    ("one word after a blank", " rain"),
    ("one letter", "a"),
    ("upper case", "LOUD THUNDER AND HEAVY RAIN"),
    ("unknown words", "A zeppelin quietly vanishes beyond Kyrgyzstan"),
    ("empty", ""),
    ("one blank", " "),
    ("only blanks", "    "),
    ("leading blanks", "   a dog barks"),
    ("trailing blank", "a dog barks "),
    ("trailing blanks", "a dog barks   "),
    ("several blanks within", "a dog   barks  twice"),
    ("newline", "a dog barks\na cat meows"),
    ("newlines and blanks", "a dog barks \n\n a cat meows\r\n"),
    ("tabs", "a\tdog\t\tbarks"),
    ("no-break and wide blanks", "a\u00a0dog\u2003barks\u3000twice"),
    ("punctuation", "Wind, waves (and gulls) - a harbour; is it? \"Yes!\" ... [inaudible] #3 @home"),
    ("only punctuation", "...!?"),
    ("blank before punctuation", "rain , wind ; and thunder ."),
    ("contractions", "It's raining, they're singing, I'll wait, we've heard he'd say I'm late and isn't she?"),
    ("contractions in capitals", "IT'S LOUD, THEY'RE HERE, DON'T"),
    ("typographic apostrophe", "the dog\u2019s bark isn\u2019t loud \u2014 it\u2019s soft\u2026"),
    ("apostrophe alone", "the dogs' barks ' s 't"),
    ("numbers", "3 bells ring 12 times at 07:45, 20.5% louder than in 1984"),
    ("letters and numbers", "mp3 file 2of4 x86 \u00bd \u00b2 \u2167 \u0664\u0662"),
    ("accents", "Un caf\u00e9 bruyant, na\u00efve fa\u00e7ade, \u00c5ngstr\u00f6m, cr\u00e8me br\u00fbl\u00e9e"),
    ("combining accent", "cafe\u0301 and caf\u00e9"),
    ("emoji", "a dog \U0001f415 barks \U0001f50a\U0001f50a"),
    ("emoji of several parts", "\U0001f468\u200d\U0001f469\u200d\U0001f467 sing \U0001f1ee\U0001f1ea\u2764\ufe0f"),
    ("CJK", "\u732b\u304c\u9cf4\u3044\u3066\u3044\u308b\u3001\u96e8"),
    ("CJK and Latin", "\u72d7\u53ebdog barks\uac1c\uac00 \u0441\u043e\u0431\u0430\u043a\u0430"),
    ("right to left", "\u0643\u0644\u0628 \u05db\u05dc\u05d1 barks"),
    ("control characters", "rain\u0000 fal\u200bls\u00ad soft\ufeffly\u0085on\u001fglass"),
    ("special <s>", "<s>a dog barks <s> twice"),
    ("special </s>", "a dog barks</s> </s>a cat"),
    ("special <mask>", "a dog <mask> barks"),
    ("special <mask> after several blanks", "a dog \t  <mask> barks<mask>.\n<mask>"),
    ("special <pad> and <unk>", "the sign reads <pad> and <unk>, <PAD> < mask > <mask"),
    ("like vocabulary entries", "\u0120dog \u010a \u0120barks \u00c3\u00a9"),
    ("one long word", "b" + "r" * 40 + "um"),
    ("long", LONG),
]

# ---------------------------------------------------------------- inputs and the dropping rule, by formula

WORD = (1 << 64) - 1


def splitmix64(z):
    """The usual generator's output for the state z: an integer or an array of uint64, modulo 2^64."""
    if isinstance(z, int):
        z = (z + 0x9E3779B97F4A7C15) & WORD
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
        return z ^ (z >> 31)
    u = np.uint64
    z = z + u(0x9E3779B97F4A7C15)
    z = (z ^ (z >> u(30))) * u(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> u(27))) * u(0x94D049BB133111EB)
    return z ^ (z >> u(31))


def unit_interval(bits):
    """The top 24 bits as a number in [0, 1): exact in float32 and in float64."""
    return (bits >> np.uint64(40)).astype(np.float64) / 2.0**24


def log_mel(segments, frames, bands=128):
    """A stand-in for log-mel spectrograms, `[segments, bands, frames]` within [-1, 1)."""
    b, m, t = np.meshgrid(*(np.arange(n, dtype=np.uint64) for n in (segments, bands, frames)), indexing="ij")
    state = b * np.uint64(1000003) + m * np.uint64(1009) + t
    return torch.from_numpy(unit_interval(splitmix64(state)) * 2.0 - 1.0)


def kept_elements(layer, site, shape):
    """Which elements of one place in the text tower stay, as 0 or 1, for the whole batch.

    `[batch, tokens, width]` for sites 0, 2, 3 and `[batch, heads, queries, keys]` for site 1.
    """
    u = np.uint64
    if site == 1:
        heads, queries, keys = (np.arange(n, dtype=u) for n in shape[1:])
        index = (heads[:, None, None] << u(40)) | (queries[:, None] << u(20)) | keys
    else:
        tokens, width = shape[1:]
        index = np.arange(tokens, dtype=u)[:, None] * u(width) + np.arange(width, dtype=u)
    kept = []
    for example in range(shape[0]):
        key = splitmix64(DROPOUT_SEED)
        for part in (example, layer, site):
            key = splitmix64(key ^ part)
        kept.append(unit_interval(splitmix64(u(key) + index)) >= RATE)
    return torch.from_numpy(np.stack(kept).astype(np.float64))


@contextlib.contextmanager
def dropout_by_rule(roberta):
    """Within it, every dropout of the text tower follows the rule instead of torch's generator.

    Each module says who it is right before it calls torch.nn.functional.dropout: the Dropout modules for
    themselves, and the self-attention for its probabilities, which it drops without a module.
    """
    place, seen, hooks = [], [], []

    def announce(layer, site):
        return lambda module, arguments: place.append((layer, site))

    hooks.append(roberta.embeddings.dropout.register_forward_pre_hook(announce(0, 0)))
    for number, layer in enumerate(roberta.encoder.layer):
        hooks.append(layer.attention.self.register_forward_pre_hook(announce(number, 1)))
        hooks.append(layer.attention.output.dropout.register_forward_pre_hook(announce(number, 2)))
        hooks.append(layer.output.dropout.register_forward_pre_hook(announce(number, 3)))

    def rule(values, p=0.5, training=True, inplace=False):
        if not training or p == 0.0:
            return values
        assert p == RATE and len(place) == 1
        layer, site = place.pop()
        seen.append((layer, site))
        return values * (kept_elements(layer, site, values.shape).to(values.dtype) / (1.0 - RATE))

    original = torch.nn.functional.dropout
    torch.nn.functional.dropout = rule
    try:
        yield
    finally:
        torch.nn.functional.dropout = original
        for hook in hooks:
            hook.remove()
    layers = len(roberta.encoder.layer)
    assert seen == [(0, 0)] + [(n, site) for n in range(layers) for site in (1, 2, 3)], seen


@contextlib.contextmanager
def patchout(net, times=None, rows=None, patches=None):
    """Within it, a PaSST in training mode keeps the given columns, rows and patches of its sequence."""
    wanted = [kept for kept in (times, rows, patches) if kept is not None]

    def permutation(count):
        kept = wanted.pop(0)
        dropped = [index for index in range(count) if index not in kept]
        return torch.tensor(kept + dropped)

    grid = net.patch_embed.grid_size
    net.s_patchout_t = grid[1] - len(times) if times is not None else 0
    net.s_patchout_f = grid[0] - len(rows) if rows is not None else 0
    net.u_patchout = grid[0] * grid[1] - len(patches) if patches is not None else 0
    original = torch.randperm
    torch.randperm = permutation
    try:
        yield
    finally:
        torch.randperm = original
        net.s_patchout_t = net.s_patchout_f = net.u_patchout = 0
    assert not wanted


# ---------------------------------------------------------------- the tokenizer

def make_tokenizer(out):
    """Writes both layouts and `expected.json`; gives the vocabulary's size and the loaded tokenizer."""
    vocabulary, merges = train_vocabulary(VOCABULARY)
    write_vocabulary(out / "vocab-merges", vocabulary, merges)
    write_tokenizer(out / "tokenizer-json", roberta_tokenizer(vocabulary, merges))

    file = Tokenizer.from_file(str(out / "tokenizer-json" / "tokenizer.json"))
    by_json = RobertaTokenizerFast.from_pretrained(out / "tokenizer-json")
    # From vocab.json and merges.txt transformers 5 forgets that `<mask>` takes the blanks before it, which
    # version 4 set by itself, in the class: so it is said here, and what comes without is kept beside it.
    mask = AddedToken(MASK, lstrip=True, normalized=False, special=True)
    by_parts = RobertaTokenizerFast.from_pretrained(out / "vocab-merges", mask_token=mask)
    forgetful = RobertaTokenizerFast.from_pretrained(out / "vocab-merges")
    plain = PlainTokenizer(vocabulary, merges)

    cases = []
    for name, text in TEXTS:
        ids = by_json(text)["input_ids"]
        assert ids == by_parts(text)["input_ids"] == file.encode(text).ids == plain.ids(text), name
        cut = by_json(text, truncation=True, max_length=MAX_TOKENS)["input_ids"]
        assert cut == by_parts(text, truncation=True, max_length=MAX_TOKENS)["input_ids"], name
        assert cut == (ids if len(ids) <= MAX_TOKENS else ids[: MAX_TOKENS - 1] + [ids[-1]]), name
        case = {"name": name, "text": text, "ids": ids, "ids_cut": cut}
        without = forgetful(text)["input_ids"]
        if without != ids:
            case["ids_of_transformers_5_from_vocab_and_merges"] = without
        cases.append(case)
    assert sum(case["ids"] != case["ids_cut"] for case in cases) >= 3
    assert {case["name"] for case in cases if "ids_of_transformers_5_from_vocab_and_merges" in case} == {
        "special <mask>", "special <mask> after several blanks"}

    head = {"made_by": "golden/towers_tiny.py", "versions": VERSIONS, "vocabulary": len(vocabulary),
            "merges": len(merges), "max_tokens": MAX_TOKENS}
    rows = ",\n".join("    " + json.dumps(case, ensure_ascii=True) for case in cases)
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    lines.append(f'  "cases": [\n{rows}\n  ]')
    (out / "expected.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"tokenizer: vocabulary {len(vocabulary)}, {len(merges)} merges, {len(cases)} texts, "
          f"longest {max(len(case['ids']) for case in cases)} tokens")
    return vocabulary, merges, by_json


# ---------------------------------------------------------------- the networks

def build_passt(img_size, stride, depth):
    return reference_passt.PaSST(img_size=img_size, patch_size=16, stride=stride, embed_dim=WIDTH, depth=depth,
                                 num_heads=2, distilled=True, num_classes=4)


def roberta_config(layers=2):
    return RobertaConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=layers, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=40, type_vocab_size=1, layer_norm_eps=1e-5,
        hidden_dropout_prob=RATE, attention_probs_dropout_prob=RATE, pad_token_id=1, bos_token_id=0,
        eos_token_id=2, attn_implementation="eager",
    )


class AudioEncoder(torch.nn.Module):
    """Only for the names: `model` is the wrapper that the hear21passt package gives.

    Its front end has no parameters and is not run here, so an empty module stands in for it.
    """

    def __init__(self):
        super().__init__()
        mel = torch.nn.Identity()
        mel.sr = 32000
        self.model = PasstBasicWrapper(mel=mel, net=build_passt((128, 112), (16, 16), 2), mode="embed_only")


class Authors(torch.nn.Module):
    """The dual encoder under the names of the paper's authors."""

    def __init__(self):
        super().__init__()
        self.audio_encoder = AudioEncoder()
        self.text_encoder = RobertaModel(roberta_config(), add_pooling_layer=False)
        # Transformers up to 4.30 saved this buffer.
        self.text_encoder.embeddings._non_persistent_buffers_set.discard("position_ids")
        self.audio_proj = projection()
        self.text_proj = projection()

    @property
    def net(self):
        return self.audio_encoder.model.net

    def audio(self, mel):
        """Features before the projection, and unit embeddings."""
        _, features = self.net(mel.unsqueeze(1))
        return features, torch.nn.functional.normalize(self.audio_proj(features), dim=-1)

    def text(self, ids, mask):
        features = self.text_encoder(input_ids=ids, attention_mask=mask).last_hidden_state[:, 0]
        return features, torch.nn.functional.normalize(self.text_proj(features), dim=-1)


def projection():
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, 24), torch.nn.ReLU(), torch.nn.Linear(24, EMBEDDING))


class Segments(torch.nn.Module):
    """Only for the names."""

    def __init__(self, inner):
        super().__init__()
        self.model = inner


class Winner(torch.nn.Module):
    """The dual encoder under the names of the challenge winner, with the tensors that nothing reads."""

    def __init__(self):
        super().__init__()
        self.tau = torch.nn.Parameter(torch.tensor(0.05))
        self.timing_tau = torch.nn.Parameter(torch.tensor(0.05))
        self.audio_token = torch.nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.audio_embedding_model = Segments(Segments(build_passt((128, 98), (10, 10), 1)))
        self.sentence_embedding_model = RobertaModel(roberta_config(1), add_pooling_layer=False)
        self.project_audio = torch.nn.Sequential(torch.nn.Linear(WIDTH, EMBEDDING))
        self.project_sentence = torch.nn.Sequential(torch.nn.Linear(WIDTH, EMBEDDING))
        self.posencode = torch.nn.Embedding(8, WIDTH)
        self.audio_output_projection = torch.nn.Linear(WIDTH, WIDTH)

    def audio(self, mel):
        _, features = self.audio_embedding_model.model.model(mel.unsqueeze(1))
        return features, torch.nn.functional.normalize(self.project_audio(features), dim=-1)

    def text(self, ids, mask):
        features = self.sentence_embedding_model(input_ids=ids, attention_mask=mask).last_hidden_state[:, 0]
        return features, torch.nn.functional.normalize(self.project_sentence(features), dim=-1)


def randomise(model, seed):
    """Draws every parameter in order of name: wide weights, biases and norms that are not trivial."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator)
            if name.endswith("device_proxy") or name.endswith("tau"):
                continue  # one is always zero, the others are settings
            if ("norm" in name.lower() or name.endswith("head.0.weight")) and name.endswith("weight"):
                parameter.copy_(1.0 + 0.3 * noise)
            elif name.endswith("patch_embed.proj.weight"):
                parameter.copy_(0.2 * noise)  # 256 inputs to each output
            elif (".attn." in name or ".attention." in name) and name.endswith("weight"):
                parameter.copy_(0.6 * noise)  # flat attention would average the input away
            elif "embeddings" in name or "embed" in name.rsplit(".", 1)[-1] or name.endswith("token"):
                parameter.copy_(0.7 * noise)
            elif name.endswith("bias"):
                parameter.copy_(0.2 * noise)
            else:
                parameter.copy_(0.35 * noise)


# ---------------------------------------------------------------- checkpoints

def one_step(optimizer, parameters, seed):
    """One update of some parameters, so that the optimizer has a state for them and none for the rest."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def save_authors(path, seed):
    model = Authors()
    randomise(model, seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    one_step(optimizer, model.text_proj.parameters(), seed + 1)
    torch.save((model.state_dict(), optimizer.state_dict(), {}), path)
    return model


def save_winner(path, seed):
    model = Winner()
    randomise(model, seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, weight_decay=0.0)
    one_step(optimizer, model.project_audio.parameters(), seed + 1)
    settings = argparse.Namespace(
        seed=-1, batch_size=64, max_lr=2e-5, min_lr=1e-7, audio_features="passt", sentence_features="roberta-large",
        patchout=[2, 15], compile=False, checkpoint=None, note="caf\u00e9", steps=2**40, crop=(10, 30),
    )
    progress = {"total": {"ready": 2, "completed": 1, "started": 2, "processed": 1},
                "current": {"ready": 2, "completed": 1, "started": 2, "processed": 1}}
    document = {
        "epoch": 1,
        "global_step": 120,
        "pytorch-lightning_version": "2.2.1",
        "state_dict": model.state_dict(),
        "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": progress},
                  "validate_loop": {"state_dict": {}}, "test_loop": {"state_dict": {}}},
        "callbacks": {
            "ModelCheckpoint{'monitor': 'val/mAP@10', 'mode': 'max'}": {
                "monitor": "val/mAP@10", "best_model_score": torch.tensor(0.25), "best_model_path": "last.ckpt",
                "best_k_models": {}, "dirpath": "checkpoints",
            },
        },
        "optimizer_states": [optimizer.state_dict()],
        "lr_schedulers": [],
        "hparams_name": "kwargs",
        "hyper_parameters": {"args": settings, "lr": 2e-5},
    }
    torch.save(document, path)


def save_folders(out, authors, vocabulary, merges, seed):
    """RoBERTa alone, with the authors' text weights, in the two layouts of Hugging Face."""
    weights = {name: tensor for name, tensor in authors.text_encoder.state_dict().items()
               if name != "embeddings.position_ids"}
    pooled = RobertaModel(roberta_config(), add_pooling_layer=True)
    randomise(pooled, seed)
    missing = pooled.load_state_dict(weights, strict=False)
    assert not missing.unexpected_keys and all(name.startswith("pooler.") for name in missing.missing_keys)
    folder = out / "hf-roberta"
    pooled.save_pretrained(folder)
    tokenizer = RobertaTokenizerFast.from_pretrained(out / "tokenizer-json", model_max_length=MAX_TOKENS)
    tokenizer.save_pretrained(folder)
    # Notes of where the tokenizer was read from say nothing about the model.
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    for note in ("is_local", "local_files_only"):
        config.pop(note, None)
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")

    masked = RobertaForMaskedLM(roberta_config())
    randomise(masked, seed + 1)
    missing = masked.load_state_dict({"roberta." + name: tensor for name, tensor in weights.items()}, strict=False)
    assert not missing.unexpected_keys and all(name.startswith("lm_head.") for name in missing.missing_keys)
    folder = out / "hf-roberta-lm"
    masked.save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    tensors["roberta.embeddings.position_ids"] = torch.arange(40).unsqueeze(0)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    write_vocabulary(folder, vocabulary, merges)

    for name in ("hf-roberta", "hf-roberta-lm"):
        (out / name / "model.safetensors").chmod(0o644)
        again = RobertaModel.from_pretrained(out / name, add_pooling_layer=False).state_dict()
        assert all(torch.equal(again[key], weights[key]) for key in weights), name
        keys = load_file(out / name / "model.safetensors")
        print(f"{name}: {len(keys)} tensors, such as {sorted(keys)[0]} and {sorted(keys)[-1]}")


# ---------------------------------------------------------------- expected values

def relevance(size):
    """The graded relevance of caption i and clip j, by formula."""
    return torch.tensor([[1.0 if i == j else 0.1 + 0.2 * ((i * 3 + j * 5) % 4) / 4 for j in range(size)]
                         for i in range(size)], dtype=torch.float64)


def listnet_audio(text, audio):
    """Each caption is a list over clips: mean over captions of the cross entropy from P to Q."""
    target = torch.softmax(relevance(len(text)).to(text.dtype) / TAU, dim=1)
    return -(target * torch.log_softmax(text @ audio.T / TAU, dim=1)).sum(dim=1).mean()


def with_gradients(model, mel, ids, mask, prefix):
    """Features, embeddings, loss and the gradients of all parameters that the loss depends on."""
    model.zero_grad(set_to_none=True)
    audio_features, audio = model.audio(mel)
    text_features, text = model.text(ids, mask)
    loss = listnet_audio(text, audio)
    loss.backward()
    values = {"audio_features": audio_features, "audio_embeddings": audio, "text_features": text_features,
              "text_embeddings": text, "loss": loss}
    values |= {"grad." + name: parameter.grad for name, parameter in model.named_parameters()
               if parameter.grad is not None}
    return {prefix + name: value.detach().clone() for name, value in values.items()}


def run_authors(model, ids, mask):
    """All sets of `expected.safetensors`, in the number format of the model."""
    dtype = next(model.parameters()).dtype
    mel = log_mel(4, 112).to(dtype)
    model.eval()
    values = with_gradients(model, mel, ids, mask, "")
    with torch.no_grad():
        values["short.audio_features"] = model.audio(log_mel(3, 80).to(dtype))[0]
    model.train()
    with dropout_by_rule(model.text_encoder), patchout(model.net, times=KEPT_TIMES, rows=KEPT_ROWS):
        values |= with_gradients(model, mel, ids, mask, "masked.")
    patches = [index for index in range(8 * 7) if index % 3 != 1]
    with torch.no_grad(), patchout(model.net, patches=patches):
        values["unstructured.audio_features"] = model.audio(mel)[0]
    model.eval()
    return values


def run_winner(model, ids, mask):
    dtype = next(model.parameters()).dtype
    model.eval()
    with torch.no_grad():
        audio_features, audio = model.audio(log_mel(2, 98).to(dtype))
        text_features, text = model.text(ids, mask)
    return {"audio_features": audio_features, "audio_embeddings": audio, "text_features": text_features,
            "text_embeddings": text}


def errors(exact, single):
    """Largest difference of the float32 run, over all tensors of a kind."""
    found = {}
    for name, value in exact.items():
        head, _, _ = name.partition("grad.")
        kind = head + "grad" if "grad." in name else name
        found[kind] = max(found.get(kind, 0.0), float((single[name].double() - value).abs().max()))
    return found


def check_values(values):
    """Outputs that differ between inputs, and gradients far above rounding."""
    for name in ("audio_embeddings", "text_embeddings", "masked.audio_embeddings", "masked.text_embeddings"):
        cosine = values[name] @ values[name].T
        off = cosine[~torch.eye(len(cosine), dtype=torch.bool)]
        print(f"  {name}: cosine between inputs {float(off.min()):.2f} to {float(off.max()):.2f}")
        assert float(off.max()) < 0.95, name
    silent = {name for name, value in values.items() if "grad." in name and float(value.abs().max()) < 1e-3}
    assert all(name.endswith("self.key.bias") for name in silent), silent
    for name, value in values.items():
        if name.endswith("qkv.bias"):  # query, key, value: the middle third is the bias of the keys
            query, key, content = value.chunk(3)
            assert key.abs().max() < 1e-12 and query.abs().max() > 1e-3 and content.abs().max() > 1e-3, name
    sizes = [float(value.abs().max()) for name, value in values.items() if "grad." in name and name not in silent]
    print(f"  largest gradient of a tensor: {min(sizes):.1e} to {max(sizes):.1e}, losses "
          f"{float(values['loss']):.4f} and {float(values['masked.loss']):.4f}")


def write_tensors(path, values):
    """As float32. One entry of metadata: several would be written in an order that changes from run to run."""
    tensors = {name: values[name].to(torch.float32).contiguous() for name in sorted(values)}
    save_file(tensors, path, metadata={"made_by": "golden/towers_tiny.py, in float64"})
    path.chmod(0o644)


def padded(tokenizer, captions, extra):
    """Token ids and attention mask, padded to the longest caption and `extra` more."""
    listed = [tokenizer(caption, truncation=True, max_length=MAX_TOKENS)["input_ids"] for caption in captions]
    assert len({len(ids) for ids in listed}) == len(listed), "two captions have the same number of tokens"
    length = max(len(ids) for ids in listed) + extra
    ids = torch.tensor([ids + [1] * (length - len(ids)) for ids in listed])
    mask = torch.tensor([[1] * len(ids) + [0] * (length - len(ids)) for ids in listed])
    return ids, mask


def load_authors(path):
    state, optimizer, scaler = torch.load(path, weights_only=True)
    assert scaler == {} and len(optimizer["state"]) == 4
    model = Authors()
    model.load_state_dict(state)
    return model


def load_winner(path):
    model = Winner()
    model.load_state_dict(torch.load(path, weights_only=False)["state_dict"])
    return model


def write_towers_json(path, seed, parts):
    document = {"made_by": "golden/towers_tiny.py", "versions": VERSIONS, "seed": seed}
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in document.items()]
    for name, values in parts.items():
        rows = ",\n".join(f"    {json.dumps(key)}: {json.dumps(value)}" for key, value in values.items())
        lines.append(f"  {json.dumps(name)}: {{\n{rows}\n  }}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder that receives everything; replaced")
    parser.add_argument("--seed", type=int, default=11, help="seed of the weights")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", message="Input image size")
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    reference_passt.first_RUN = False  # otherwise it prints the shapes of its first input
    torch.set_num_threads(1)
    print(", ".join(f"{name} {value}" for name, value in VERSIONS.items()))
    out, seed = arguments.out, arguments.seed
    if out.exists():
        shutil.rmtree(out)
    out.mkdir(parents=True)

    vocabulary, merges, tokenizer = make_tokenizer(out)
    authors = save_authors(out / "authors.pt", seed)
    torch.save(authors.net.state_dict(), out / "passt.pt")
    save_folders(out, authors, vocabulary, merges, seed + 10)
    save_winner(out / "winner.ckpt", seed + 20)

    parts = {}
    for name, load, run, captions in [
        ("authors", load_authors, run_authors, CAPTIONS),
        ("winner", load_winner, run_winner, WINNER_CAPTIONS),
    ]:
        model = load(out / ("authors.pt" if name == "authors" else "winner.ckpt"))
        ids, mask = padded(tokenizer, captions, 3)
        single = run(model, ids, mask)
        exact = run(copy.deepcopy(model).double(), ids, mask)
        write_tensors(out / ("expected.safetensors" if name == "authors" else "winner.safetensors"), exact)
        parts[name] = {"captions": captions, "ids": ids.tolist(), "attention_mask": mask.tolist(),
                       "float32_errors": errors(exact, single)}
        print(f"{name}: {len(model.state_dict())} tensors, "
              f"tokens {mask.sum(dim=1).tolist()} padded to {ids.shape[1]}")
        for kind, error in parts[name]["float32_errors"].items():
            print(f"  float32 error of {kind}: {error:.1e}")
        if name == "authors":
            check_values(exact)
    write_towers_json(out / "towers.json", seed, parts)

    sizes = {path: path.stat().st_size for path in sorted(out.rglob("*")) if path.is_file()}
    for path, size in sizes.items():
        print(f"{size:8d} {path.relative_to(out)}")
    print(f"{sum(sizes.values()):8d} bytes in all")
    assert sum(sizes.values()) < 700_000


if __name__ == "__main__":
    main()
