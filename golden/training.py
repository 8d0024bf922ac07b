#!/usr/bin/env python3
"""Twenty steps of training two small towers, as torch makes them.

Writes into crates/learn/tests/golden/training/:

  training.safetensors   the log-mels of twelve clips, the teacher's vectors of twenty captions, and the weights that
                         each case ends with
  training.json          token ids, batches, settings, and the losses, rates and norms of every step

The towers are those of crates/encode/tests/golden/towers/authors.pt, which towers_tiny.py writes: hear21passt's PaSST and
transformers' RobertaModel, each with its projection. Nothing is random: no dropout, no patchout. Five batches of
four pairs follow each other four times, under torch's AdamW, the schedule of schedule.py and torch's clipping.
golden/README.md says what each case is and what cannot be compared.

All numbers come from a float64 run, which begins with the float32 weights of the file; weights are stored
as float32. A float32 run of the same classes follows, and how far it is off is stored with each case.

Run, from the root of the repository, after towers_tiny.py:

  pip install -r golden/requirements.txt
  python golden/training.py
"""

import argparse
import copy
import json
import warnings
from pathlib import Path

import numpy as np
import torch

# Before anything that loads torchaudio: see towers_tiny.py, which does the same.
torch.version.cuda = None

from safetensors.torch import save_file  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

from schedule import rate  # noqa: E402
from towers_tiny import MAX_TOKENS, VERSIONS, load_authors, log_mel, reference_passt  # noqa: E402

ROOT = Path(__file__).parent.parent
TOWERS = ROOT / "crates/encode/tests/golden/towers"
OUT = ROOT / "crates/learn/tests/golden/training"

FRAMES = 112
TEACHER_WIDTH = 8
TAU = OMEGA = 0.05
ADAMW = {"betas": (0.9, 0.999), "eps": 1e-8}
SCHEDULE = {"peak": 1e-3, "floor": 1e-5, "warm_up": 1.0, "end": 4.0}
STEPS_PER_EPOCH = 4
BATCHES_IN_ALL = 20

# The clip of each caption; captions 4 n to 4 n + 3 are batch n. One batch has two captions of a clip.
CLIPS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 8, 10, 11, 0, 3, 5, 1, 10, 2, 7]
CAPTIONS = [
    "Rain is falling on a tin roof", "A dog barks twice and stops", "Someone is typing on a keyboard", "Waves hit the shore",
    "A train passes by with its horn blowing", "Birds sing", "A door slams shut and a man is talking",
    "Water is running into a sink", "Children are laughing and playing outdoors", "A clock ticks slowly",
    "Several kids shout while they play", "An engine starts, idles and dies", "Wind howls through a narrow gap",
    "Heavy rain drums on metal", "The sea rolls in and out", "A bird is chirping in a tree", "A barking dog",
    "A car is started but will not go", "Keys of a keyboard click", "The tap is open and water flows",
]

CASES = [
    {"name": "plain", "objective": "listnet-audio", "weight_decay": 0.0, "max_norm": None, "accumulate": 1},
    {"name": "decay", "objective": "listnet-audio", "weight_decay": 0.01, "max_norm": None, "accumulate": 1},
    {"name": "clipped", "objective": "listnet-audio", "weight_decay": 0.0, "max_norm": 1.0, "accumulate": 1},
    {"name": "clipped-at-ten", "objective": "listnet-audio", "weight_decay": 0.0, "max_norm": 10.0, "accumulate": 1},
    {"name": "accumulated", "objective": "listnet-both", "weight_decay": 0.0, "max_norm": None, "accumulate": 2},
]


# ---------------------------------------------------------------- inputs

def token_ids():
    tokenizer = Tokenizer.from_file(str(TOWERS / "tokenizer-json" / "tokenizer.json"))
    tokenizer.enable_truncation(MAX_TOKENS)
    tokenizer.no_padding()
    return [tokenizer.encode(caption).ids for caption in CAPTIONS]


def teacher_vectors(seed):
    """Unit vectors, rounded to float32: captions of a clip are near to each other."""
    random = np.random.default_rng(seed)
    clips = random.normal(size=(max(CLIPS) + 1, TEACHER_WIDTH))
    rows = clips[CLIPS] + 0.5 * random.normal(size=(len(CLIPS), TEACHER_WIDTH))
    rows += 0.6 * random.normal(size=TEACHER_WIDTH)
    return torch.from_numpy((rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32))


def batch_of(nth, ids, mels, teacher, dtype):
    """Batch number `nth` of the five: padded ids, their mask, log-mels and caption vectors."""
    pairs = range(4 * nth, 4 * nth + 4)
    length = max(len(ids[pair]) for pair in pairs)
    padded = torch.tensor([ids[pair] + [1] * (length - len(ids[pair])) for pair in pairs])
    mask = torch.tensor([[1] * len(ids[pair]) + [0] * (length - len(ids[pair])) for pair in pairs])
    return padded, mask, mels[[CLIPS[pair] for pair in pairs]].to(dtype), teacher[list(pairs)].to(dtype)


# ---------------------------------------------------------------- training

def loss_of(objective, model, batch):
    ids, mask, mels, teacher = batch
    _, audio = model.audio(mels)
    _, text = model.text(ids, mask)
    h = torch.nn.functional.cosine_similarity(teacher[:, None], teacher[None], dim=2)
    target = torch.softmax(torch.sigmoid(4.58 * h - 2.73) / OMEGA, dim=1)
    scores = text @ audio.T / TAU
    over_clips = -(target * torch.log_softmax(scores, dim=1)).sum(dim=1).mean()
    if objective == "listnet-audio":
        return over_clips
    over_captions = -(target * torch.log_softmax(scores.T, dim=1)).sum(dim=1).mean()
    return (over_clips + over_captions) / 2.0


def train(model, case, inputs):
    """One run, in the number format of the model: a loss for each batch, a rate and a norm for each update."""
    dtype = next(model.parameters()).dtype
    model.eval()  # Gradients all the same; only dropout and patchout are off.
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, weight_decay=case["weight_decay"], **ADAMW)
    losses, rates, norms = [], [], []
    for update in range(BATCHES_IN_ALL // case["accumulate"]):
        optimizer.zero_grad(set_to_none=True)
        for part in range(case["accumulate"]):
            nth = (update * case["accumulate"] + part) % 5
            loss = loss_of(case["objective"], model, batch_of(nth, *inputs, dtype))
            (loss / case["accumulate"]).backward()
            losses.append(loss.item())
        # Without a bound this only measures.
        bound = float("inf") if case["max_norm"] is None else case["max_norm"]
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), bound).item())
        rates.append(rate(update, STEPS_PER_EPOCH, **SCHEDULE))
        for group in optimizer.param_groups:
            group["lr"] = rates[-1]
        optimizer.step()
    # Classifier heads and the like have no gradient and are never updated, not even by decay.
    weights = {name: parameter.detach() for name, parameter in model.named_parameters() if parameter.grad is not None}
    return {"losses": losses, "rates": rates, "norms": norms}, weights


def settled(name, values):
    """What of a tensor is determined: the biases of keys have no effect, so that rounding alone moves them."""
    if name.endswith("self.key.bias"):
        return values[:0]
    if name.endswith("attn.qkv.bias"):
        query, _, content = values.chunk(3)
        return torch.cat([query, content])
    return values


def float32_errors(exact, exact_weights, single, single_weights):
    def worst(series):
        return max(abs(a - b) for a, b in zip(exact[series], single[series]))

    by_tensor = {}
    for name, value in exact_weights.items():
        off = settled(name, single_weights[name].double() - value).abs()
        if off.numel() > 0:
            by_tensor[name] = float(off.max())
    largest = max(by_tensor, key=by_tensor.get)
    squares = sum(float((settled(name, single_weights[name].double() - value) ** 2).sum())
                  for name, value in exact_weights.items())
    count = sum(settled(name, value).numel() for name, value in exact_weights.items())
    return {"loss": worst("losses"), "norm": worst("norms"), "weight": by_tensor[largest], "weight_at": largest,
            "weight_root_mean_square": (squares / count) ** 0.5}


def check(case, found, initial, weights):
    """That the run says something: losses fall, every tensor moves, and clipping clips, the looser bound not always."""
    losses = found["losses"]
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5]), losses
    for name, value in weights.items():
        moved = settled(name, value - initial[name]).abs()
        assert moved.numel() == 0 or float(moved.max()) > 1e-4, name
    if case["max_norm"] is not None:
        clipped = sum(norm > case["max_norm"] for norm in found["norms"])
        assert clipped == len(found["norms"]) if case["max_norm"] == 1.0 else 5 <= clipped <= 15, found["norms"]


# ---------------------------------------------------------------- the files

def write_json(path, head, cases):
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    rows = []
    for case in cases:
        fields = ",\n".join(f"      {json.dumps(key)}: {json.dumps(value)}" for key, value in case.items())
        rows.append("    {\n" + fields + "\n    }")
    lines.append('  "cases": [\n' + ",\n".join(rows) + "\n  ]")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT, help="folder that receives both files")
    parser.add_argument("--seed", type=int, default=41, help="seed of the caption vectors")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", message="Input image size")
    reference_passt.first_RUN = False  # otherwise it prints the shapes of its first input
    torch.set_num_threads(1)

    start = load_authors(TOWERS / "authors.pt")
    mels = log_mel(max(CLIPS) + 1, FRAMES).to(torch.float32)
    teacher = teacher_vectors(arguments.seed)
    ids = token_ids()
    tensors = {"mels": mels, "teacher": teacher}
    cases = []
    for case in CASES:
        exact_model = copy.deepcopy(start).double()
        initial = {name: value.detach().clone() for name, value in exact_model.named_parameters()}
        exact, weights = train(exact_model, case, (ids, mels, teacher))
        single, single_weights = train(copy.deepcopy(start), case, (ids, mels, teacher))
        check(case, exact, initial, weights)
        errors = float32_errors(exact, weights, single, single_weights)
        print(f"{case['name']}: losses {exact['losses'][0]:.4f} to {exact['losses'][-1]:.4f}, norms "
              f"{min(exact['norms']):.3f} to {max(exact['norms']):.3f}")
        print(f"  float32 errors: {errors}")
        cases.append(case | exact | {"float32_errors": errors})
        tensors |= {f"{case['name']}.{name}": settled(name, value).to(torch.float32).contiguous()
                    for name, value in weights.items() if settled(name, value).numel() > 0}

    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "training.safetensors"
    # One entry of metadata: several would be written in an order that changes from run to run.
    ordered = {name: tensors[name] for name in sorted(tensors)}
    save_file(ordered, path, metadata={"made_by": "golden/training.py, in float64"})
    path.chmod(0o644)
    head = {
        "made_by": "golden/training.py", "versions": VERSIONS, "seed": arguments.seed, "towers": "authors.pt",
        "tau": TAU, "omega": OMEGA, "function": {"name": "logistic", "intercept": -2.73, "slope": 4.58},
        "adamw": ADAMW, "schedule": SCHEDULE | {"steps_per_epoch": STEPS_PER_EPOCH},
        "captions": CAPTIONS, "ids": ids, "clips": CLIPS,
        "batches": [list(range(first, first + 4)) for first in range(0, len(CLIPS), 4)],
    }
    write_json(arguments.out / "training.json", head, cases)
    sizes = {each.name: each.stat().st_size for each in sorted(arguments.out.iterdir())}
    print(sizes)
    assert sum(sizes.values()) < 1_500_000


if __name__ == "__main__":
    main()
