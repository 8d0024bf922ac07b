#!/usr/bin/env python3
"""What the paper's trainings need: FLOPs, memory and hours, by formula.

Prints the tables of docs/training.md ("What the paper's trainings need"). Everything follows from the sizes of the networks, the
sizes of the datasets, and the figures under MEASURED, which name the command that gave each. Times on GPUs are estimates: a share of
the peak that the maker states, which nobody has measured with hark.

  python3 bench/cost.py                     the tables
  python3 bench/cost.py --share 0.25        GPUs at another share of their peak
  python3 bench/cost.py --check             whether docs/training.md has these tables

A multiplication and an addition are two operations; matrix products alone are counted, as by `hark-bench step` (its "flops").
"""

import argparse
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs/training.md"
BATCH, EPOCHS, TOKENS = 32, 25, 32

# Two cores of an AMD EPYC (AVX-512, Zen 4 class).
MEASURED = {
    # hark-bench peak --threads 2: GFLOP/s
    "peak": 230.7,
    # /usr/bin/time -v hark-bench step --size full --batch 32 --segments 3 --chunk 2 --steps 1 --threads 2: user and system time of both
    # cores, with the random weights. Other work took more than half of the cores meanwhile; on idle ones the step takes half of it.
    "cpu seconds": 294.2,
    "cores": 2,
}

# Operations per second in 32 bits and in bf16 (dense), bytes per second and bytes of memory, as the makers state them.
DEVICES = {
    "A100 80 GB": {"f32": 19.5e12, "bf16": 312e12, "bandwidth": 2.04e12, "memory": 80e9},
    "RTX 4090": {"f32": 82.6e12, "bf16": 165e12, "bandwidth": 1.01e12, "memory": 24e9},
    "M2 Max, 38 cores": {"f32": 13.6e12, "bf16": 13.6e12, "bandwidth": 0.4e12, "memory": 64e9},
}
# Of a device's memory, what a training may take; the rest is the system's and the allocator's.
USABLE = 0.85

# Recordings that a split has, its captions in training, and segments of 10 s that each clip is padded or cropped to.
SPLITS = {
    "Clotho": {"pairs": 19_195, "validation": (1_045, 5_225), "segments": 3},
    "AudioCaps": {"pairs": 49_838, "validation": (495, 2_475), "segments": 1},
    "all three": {"pairs": 19_195 + 49_838 + 401_195, "validation": (1_045, 5_225), "segments": 3},
}
# The recipe, the split, and the trainings of the paper: methods by seeds.
TRAININGS = {
    "clotho.toml": ("Clotho", 4, 5),
    "audiocaps.toml": ("AudioCaps", 4, 5),
    "pretrain.toml": ("all three", 2, 1),
    "clotho-finetune.toml": ("Clotho", 2, 5),
    "audiocaps-finetune.toml": ("AudioCaps", 2, 5),
}


class Transformer:
    def __init__(self, width, hidden, layers, heads, dropout):
        self.width, self.hidden, self.layers, self.heads, self.dropout = width, hidden, layers, heads, dropout

    def flops(self, tokens):
        """Forward, on one sequence."""
        products = 2 * tokens * (4 * self.width**2 + 2 * self.width * self.hidden)
        return self.layers * (products + 4 * tokens**2 * self.width)

    def parameters(self):
        w, h = self.width, self.hidden
        return self.layers * (4 * w * w + 4 * w + 2 * w * h + h + w + 4 * w)

    def kept(self, tokens):
        """Bytes that the forward pass keeps for the gradient, composed of plain operations as on GPUs: inputs of both norms and
        what they give, of all products and of GELU, and the attention's weights."""
        weights = (3 if self.dropout else 2) * self.heads * tokens
        return 4 * tokens * self.layers * (10 * self.width + 5 * self.hidden + weights)

    def kept_recomputed(self, tokens):
        """The same with blocks that are computed again: their inputs, and one block's own."""
        return 4 * tokens * self.layers * self.width + self.kept(tokens) / self.layers


PASST = Transformer(768, 3072, 12, 12, dropout=False)
ROBERTA = Transformer(1024, 4096, 24, 16, dropout=True)
PATCH = 16 * 16
ROWS, COLUMNS = 8, 62
# Patchout drops 2 rows and 15 columns in training.
KEPT, ALL = (ROWS - 2) * (COLUMNS - 15) + 2, ROWS * COLUMNS + 2


def segment_flops(tokens):
    return 2 * (tokens - 2) * PATCH * PASST.width + PASST.flops(tokens) + 2 * (768 * 1024 + 1024 * 1024)


def caption_flops():
    return ROBERTA.flops(TOKENS) + 2 * 2 * 1024 * 1024


def parameters():
    passt = PASST.parameters() + (PATCH + 1) * 768 + (2 + 2 + ROWS + COLUMNS) * 768 + 2 * 768
    roberta = ROBERTA.parameters() + (50_265 + 514 + 1) * 1024 + 2 * 1024
    projections = 768 * 1024 + 3 * 1024 * 1024 + 4 * 1024
    return passt + roberta + projections


def pair_flops(segments):
    """Forward, of a clip and a caption in training."""
    return segments * segment_flops(KEPT) + caption_flops()


def steps(split):
    return SPLITS[split]["pairs"] // BATCH * EPOCHS


def validation_flops(split):
    clips, captions = SPLITS[split]["validation"]
    segments = SPLITS[split]["segments"]
    return EPOCHS * (clips * segments * segment_flops(ALL) + captions * caption_flops())


def training_flops(split, passes):
    """`passes`: 3 for forward and backward, one more for chunks, one more for blocks that are computed again."""
    return steps(split) * BATCH * passes * pair_flops(SPLITS[split]["segments"]) + validation_flops(split)


def memory(segments, chunk, recompute):
    """Bytes: weights, gradients and two moments in 32 bits, and what the forward pass of a chunk keeps."""
    kept = [tower.kept_recomputed if recompute else tower.kept for tower in (PASST, ROBERTA)]
    return 16 * parameters() + chunk * (segments * kept[0](KEPT) + kept[1](TOKENS))


def plan(device, segments):
    """The largest chunk that fits: (chunk, whether blocks are computed again)."""
    usable = USABLE * DEVICES[device]["memory"]
    chunk = BATCH
    while chunk > 1 and memory(segments, chunk, False) > usable:
        chunk //= 2
    return chunk


def step_bytes(chunk):
    """Through the memory in a step: AdamW reads weights, gradients and moments and writes all but the gradients; each chunk reads the
    weights three times and adds to the gradients."""
    return 4 * parameters() * (7 + 5 * BATCH / chunk)


def hours(device, numbers, split, share):
    segments = SPLITS[split]["segments"]
    chunk = plan(device, segments)
    flops = training_flops(split, 3 if chunk == BATCH else 4)
    seconds = flops / (share * DEVICES[device][numbers])
    return (seconds + steps(split) * step_bytes(chunk) / DEVICES[device]["bandwidth"]) / 3600


def duration(hours):
    if hours < 10:
        return f"{hours:.1f} h"
    return f"{hours:,.0f} h" if hours < 240 else f"{hours / 24:,.0f} days"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def work():
    rows = []
    for recipe, (split, methods, seeds) in TRAININGS.items():
        rows.append(
            [
                f"`{recipe}`",
                f"{SPLITS[split]['pairs']:,}",
                f"{steps(split):,}",
                f"{3 * pair_flops(SPLITS[split]['segments']) / 1e9:.0f}",
                f"{training_flops(split, 3) / 1e15:,.0f}",
                f"{methods} x {seeds}",
            ]
        )
    return table(["recipe", "pairs", "steps", "GFLOP per pair", "PFLOP per training", "methods x seeds"], rows)


def fits():
    rows = []
    for device, limits in DEVICES.items():
        for name, segments in [("30 s", 3), ("10 s", 1)]:
            chunk = plan(device, segments)
            chunked = "whole batch" if chunk == BATCH else f"`chunk = {chunk}`"
            bytes_ = memory(segments, chunk, False)
            rows.append([f"{device}, clips of {name}", chunked, f"{bytes_ / 1e9:.0f} GB of {limits['memory'] / 1e9:.0f} GB"])
    return table(["device", "setting", "memory"], rows)


def times(share):
    head = ["recipe", *(f"{device}, {numbers}" for device in DEVICES for numbers in ("f32", "bf16") if not (device.startswith("M2") and numbers == "bf16"))]
    rows = []
    for recipe, (split, methods, seeds) in TRAININGS.items():
        cells = []
        for column in head[1:]:
            device, numbers = column.rsplit(", ", 1)
            one = hours(device, numbers, split, share)
            cells.append(f"{duration(one)}; {duration(methods * seeds * one)}")
        rows.append([f"`{recipe}`", *cells, *cpu(split, methods * seeds)])
    return table([*head, "2 cores of an EPYC"], rows)


def step_seconds():
    """Of 32 pairs of 30 s on idle cores."""
    return MEASURED["cpu seconds"] / MEASURED["cores"]


def cpu_share():
    """Of the processor's peak in that step: chunks take a fourth forward pass."""
    return 4 * BATCH * pair_flops(3) / step_seconds() / MEASURED["peak"] / 1e9


def cpu(split, trainings):
    """By the measured step of 32 pairs of 30 s; others by their share of its operations."""
    share = pair_flops(SPLITS[split]["segments"]) / pair_flops(3)
    one = steps(split) * step_seconds() * share / 3600
    return [f"{duration(one)}; {duration(trainings * one)}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=0.4, help="share of a GPU's peak that a training reaches [default: 0.4]")
    parser.add_argument("--check", action="store_true", help="fail if docs/training.md has other tables")
    arguments = parser.parse_args()
    tables = {
        "work": work(),
        "memory": fits(),
        "time (one training; all of the paper's)": times(arguments.share),
    }
    if arguments.check:
        text = DOCS.read_text(encoding="utf-8")
        missing = [name for name, content in tables.items() if content not in text]
        for name in missing:
            print(f"cost: docs/training.md lacks the table of {name} that bench/cost.py prints", file=sys.stderr)
        return 1 if missing else 0
    print(f"parameters: {parameters() / 1e6:.0f} million; weights, gradients and moments: {16 * parameters() / 1e9:.1f} GB")
    print(f"PaSST-S, forward, a segment of 10 s: {segment_flops(KEPT) / 1e9:.1f} GFLOP under patchout ({KEPT} tokens), {segment_flops(ALL) / 1e9:.1f} without")
    print(f"RoBERTa-large, forward, {TOKENS} tokens: {caption_flops() / 1e9:.1f} GFLOP")
    print(f"kept for the gradient on a GPU: {PASST.kept(KEPT) / 1e6:.0f} MB a segment, {ROBERTA.kept(TOKENS) / 1e6:.0f} MB a caption; {PASST.kept_recomputed(KEPT) / 1e6:.0f} and {ROBERTA.kept_recomputed(TOKENS) / 1e6:.0f} MB with gradient-checkpointing")
    print(f"measured step on the CPU: {step_seconds():.0f} s, {100 * cpu_share():.0f} % of the peak")
    for name, content in tables.items():
        print(f"\n{name}\n\n{content}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
