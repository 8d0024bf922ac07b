#!/usr/bin/env python3
"""Expected losses and gradients of the training objectives, on small batches.

Writes crates/learn/tests/golden/objectives.json. For a batch of B pairs (caption i, clip i), with unit text embeddings
x_i, unit audio embeddings y_j, the teacher's caption vectors c_i and clip ids:

  S[i][j] = x_i . y_j, of the rows as they are given: nothing is normalised within the loss
  h[i][j] = cosine(c_i, c_j);  G[i][j] = f(h[i][j])
  P       = softmax(G / omega) by rows for `logistic` and `minmax`
            G / row sum for `binary`, `threshold` and `steep`
            (1 - epsilon) binary + epsilon spread evenly over the columns of other clips, for `smooth`; where there is no
            other clip, binary
            weight * binary + (1 - weight) * logistic, for `mixed`
  audio   = mean over i of -sum_j P[i][j] log softmax_j(S[i][j] / tau)
  text    = mean over i of -sum_j P[i][j] log softmax_j(S[j][i] / tau)
  both    = (audio + text) / 2

A clip that stands twice in a batch stands in two columns. `infonce`, `infonce-audio` and `infonce-text` are the
directions both, audio and text with binary targets, and equal `listnet-*` with `binary`.

Everything is computed in float64 by torch, gradients by its automatic differentiation; the script asserts
that they equal the closed form dL/dS. `float32_errors` says how far torch's own float32 is off, over a batch. Inputs are
float32 numbers, printed as the float64 that equals them. No similarity is so near to the step of `threshold` that
float32 could fall on its other side.

Run, from the root of the repository:

  pip install -r golden/requirements.txt
  python golden/objectives.py
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch

OUT = Path(__file__).parent.parent / "crates/learn/tests/golden/objectives.json"
VERSIONS = {"torch": torch.__version__.split("+")[0], "numpy": np.__version__}
FUNCTIONS = {
    "logistic": {"intercept": -2.73, "slope": 4.58},
    "threshold": {"at": 0.7},
    "steep": {"slope": 25.0, "shift": 20.0},
}
TARGETS = ["logistic", "minmax", "threshold", "steep", "smooth", "mixed", "binary"]
# With a step at 0.7, and products of float32 vectors off by 1e-6 at most, this is far enough.
CLEARANCE = 1e-3

# Name, clip of each pair, width of the embeddings and of the caption vectors, (tau, omega), and what is special.
BATCHES = [
    ("two clips", [0, 1], 8, 4, (0.05, 0.05), {}),
    ("one clip twice", [4, 4], 4, 5, (0.1, 0.05), {}),
    ("three clips", [2, 0, 1], 16, 8, (0.05, 0.05), {}),
    ("three pairs, one clip twice", [9, 7, 9], 5, 4, (0.07, 0.2), {}),
    ("five clips", [0, 1, 2, 3, 4], 8, 6, (0.1, 0.05), {}),
    ("five times the same clip", [3, 3, 3, 3, 3], 4, 4, (0.05, 0.05), {}),
    ("five pairs, one clip thrice", [1, 5, 1, 1, 8], 6, 8, (0.07, 0.2), {}),
    ("eight clips, two of the same caption", [0, 1, 2, 3, 4, 5, 6, 7], 4, 5, (0.05, 0.05), {"same_caption": (2, 6)}),
    ("two captions of each of four clips", [0, 0, 1, 1, 2, 2, 3, 3], 8, 7, (0.1, 0.05), {}),
    ("two crops of each of four clips, shuffled", [6, 2, 4, 6, 0, 2, 0, 4], 12, 8, (0.07, 0.2), {"crops": True}),
    ("thirty-two clips", list(range(32)), 4, 8, (0.05, 0.05), {"few": True}),
    ("thirty-two pairs of eleven clips", [i * 7 % 11 for i in range(32)], 4, 6, (0.07, 0.2), {"few": True}),
]


# ---------------------------------------------------------------- inputs

def unit(rows):
    """Rows of length 1, rounded to float32."""
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32).astype(np.float64)


def by_clip(random, clips, width):
    """A random row for each pair, the same for pairs of the same clip."""
    rows = {clip: random.normal(size=width) for clip in sorted(set(clips))}
    return np.stack([rows[clip] for clip in clips])


def similarities(captions):
    """Cosines; that of a caption with itself is 1."""
    lengths = np.linalg.norm(captions, axis=1)
    table = np.clip(captions @ captions.T / np.outer(lengths, lengths), -1.0, 1.0)
    np.fill_diagonal(table, 1.0)
    return table


def draw_captions(random, clips, width, same_caption):
    """Caption vectors around their clip's: alike within a clip, some alike across clips, none at the step."""
    while True:
        noise = random.normal(size=(len(clips), width))
        captions = unit(by_clip(random, clips, width) + 0.5 * random.normal(size=width) + 0.4 * noise)
        if same_caption:
            first, second = same_caption
            captions[second] = captions[first]
        h = similarities(captions)
        off = h[~np.eye(len(clips), dtype=bool)]
        varied = len(clips) < 3 or (off.max() > 0.72 and off.min() < 0.68)
        if varied and np.abs(off - FUNCTIONS["threshold"]["at"]).min() > CLEARANCE:
            return captions


def draw_batch(seed, clips, width, caption_width, special):
    random = np.random.default_rng(seed)
    if special.get("crops"):
        audio = by_clip(random, clips, width) + 0.3 * random.normal(size=(len(clips), width))
    else:
        audio = by_clip(random, clips, width)
    # A half-trained model: a caption is somewhat nearer to its own clip.
    text = audio / np.linalg.norm(audio, axis=1, keepdims=True) + 0.8 * random.normal(size=(len(clips), width))
    captions = draw_captions(random, clips, caption_width, special.get("same_caption"))
    off = similarities(captions)[~np.eye(len(clips), dtype=bool)]
    # The range of `minmax` lies within that of the batch, so that both ends are clamped.
    low, high = np.quantile(off, [0.15, 0.9]) if len(clips) > 2 else (off.min() - 0.25, 0.95)
    limits = {"lo": round(float(low), 3), "hi": round(float(high) + 0.01, 3)}
    return {"text": unit(text), "audio": unit(audio), "captions": captions, "minmax": limits,
            "epsilon": [0.1, 0.2, 0.3][seed % 3], "weight": [0.25, 0.5, 0.8][seed % 3]}


# ---------------------------------------------------------------- targets and losses

def binary(clips, dtype):
    same = torch.tensor([[float(a == b) for b in clips] for a in clips], dtype=dtype)
    return same / same.sum(dim=1, keepdim=True)


def relevance(name, h, limits):
    """G of a graded function."""
    if name == "logistic":
        return torch.sigmoid(FUNCTIONS[name]["intercept"] + FUNCTIONS[name]["slope"] * h)
    if name == "minmax":
        return ((h - limits["lo"]) / (limits["hi"] - limits["lo"])).clamp(0.0, 1.0)
    if name == "threshold":
        return torch.where(h >= FUNCTIONS[name]["at"], h, 0.0)
    return torch.sigmoid(FUNCTIONS["steep"]["slope"] * h - FUNCTIONS["steep"]["shift"])


def targets(name, batch, clips, omega, dtype):
    """P, `[B, B]`, from float64 similarities."""
    plain = binary(clips, dtype)
    if name == "binary":
        return plain
    if name == "smooth":
        other = (plain == 0.0).to(dtype)
        count = other.sum(dim=1, keepdim=True)
        smoothed = (1.0 - batch["epsilon"]) * plain + batch["epsilon"] * other / count.clamp(min=1.0)
        return torch.where(count > 0.0, smoothed, plain)
    h = torch.from_numpy(similarities(batch["captions"])).to(dtype)
    if name == "mixed":
        graded = targets("logistic", batch, clips, omega, dtype)
        return batch["weight"] * plain + (1.0 - batch["weight"]) * graded
    g = relevance(name, h, batch["minmax"])
    if name in ("logistic", "minmax"):
        return torch.softmax(g / omega, dim=1)
    return g / g.sum(dim=1, keepdim=True)


def cross_entropy(p, scores, tau):
    return -(p * torch.log_softmax(scores / tau, dim=1)).sum(dim=1).mean()


def loss_of(direction, p, text, audio, tau):
    scores = text @ audio.T
    if direction == "audio":
        return cross_entropy(p, scores, tau)
    if direction == "text":
        return cross_entropy(p, scores.T, tau)
    return (cross_entropy(p, scores, tau) + cross_entropy(p, scores.T, tau)) / 2.0


def closed_form(direction, p, text, audio, tau):
    """dL/dS = (softmax(S / tau) - P) / (B tau), for the text direction transposed."""
    scores = text @ audio.T
    over_clips = (torch.softmax(scores / tau, dim=1) - p) / (len(text) * tau)
    over_captions = ((torch.softmax(scores.T / tau, dim=1) - p) / (len(text) * tau)).T
    slope = {"audio": over_clips, "text": over_captions, "both": (over_clips + over_captions) / 2.0}[direction]
    return slope @ audio, slope.T @ text


def cases_of(few):
    """Objective, direction and targets. The large batches have one direction of most targets, for the file's sake."""
    for objective, direction in (("infonce", "both"), ("infonce-audio", "audio"), ("infonce-text", "text")):
        yield objective, direction, "binary"
    for nth, name in enumerate(TARGETS):
        for turn, direction in enumerate(("audio", "text", "both")):
            if not few or name == "logistic" or turn == nth % 3:
                yield "listnet-" + direction, direction, name


def differentiate(batch, clips, tau, omega, direction, name, dtype):
    """The loss, and its gradients for text and audio."""
    p = targets(name, batch, clips, omega, dtype)
    text = torch.from_numpy(batch["text"]).to(dtype).requires_grad_()
    audio = torch.from_numpy(batch["audio"]).to(dtype).requires_grad_()
    loss = loss_of(direction, p, text, audio, tau)
    loss.backward()
    if dtype == torch.float64:
        assert torch.allclose(p.sum(dim=1), torch.ones(len(clips), dtype=dtype), rtol=0.0, atol=1e-14)
        with torch.no_grad():
            for found, formula in zip((text.grad, audio.grad), closed_form(direction, p, text, audio, tau)):
                assert torch.allclose(found, formula, rtol=0.0, atol=1e-12)
    return loss.detach(), text.grad, audio.grad


def compute(batch, clips, tau, omega, few):
    """All cases of a batch, and the largest error of a float32 run over them, of losses and of gradients."""
    cases, off = [], {"loss": 0.0, "gradient": 0.0}
    for objective, direction, name in cases_of(few):
        settings = (batch, clips, tau, omega, direction, name)
        loss, text, audio = differentiate(*settings, torch.float64)
        single = differentiate(*settings, torch.float32)
        off["loss"] = max(off["loss"], abs(single[0].item() - loss.item()))
        for exact, other in zip((text, audio), single[1:]):
            off["gradient"] = max(off["gradient"], float((other.double() - exact).abs().max()))
        cases.append({"objective": objective, "direction": direction, "targets": name, "loss": loss.item(),
                      "text_gradient": text.tolist(), "audio_gradient": audio.tolist()})
    return cases, off


# ---------------------------------------------------------------- the file

def document(seed):
    batches = []
    for nth, (name, clips, width, caption_width, (tau, omega), special) in enumerate(BATCHES):
        batch = draw_batch(seed + nth, clips, width, caption_width, special)
        cases, off = compute(batch, clips, tau, omega, special.get("few", False))
        losses = [case["loss"] for case in cases]
        print(f"{name}: {len(cases)} losses from {min(losses):.4f} to {max(losses):.4f}; float32 errors: "
              f"loss {off['loss']:.1e}, gradient {off['gradient']:.1e}")
        batches.append({
            "name": name, "clips": clips, "tau": tau, "omega": omega, "minmax": batch["minmax"],
            "epsilon": batch["epsilon"], "weight": batch["weight"], "text": batch["text"].tolist(),
            "audio": batch["audio"].tolist(), "captions": batch["captions"].tolist(), "float32_errors": off,
            "cases": cases,
        })
    return {"made_by": "golden/objectives.py", "versions": VERSIONS, "seed": seed, "functions": FUNCTIONS,
            "batches": batches}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT, help="the file to write")
    parser.add_argument("--seed", type=int, default=21, help="seed of the batches")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(document(arguments.seed), separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{arguments.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
