#!/usr/bin/env python3
"""Clips per second through MN, the taggers of EfficientAT: hark against the original code on torch, in one run.

Both sides compute class probabilities of log-mels of 10 s (128 bands, 1000 frames) that are ready beforehand. Weights are
random, as they do not matter to time; loading and building are left out. The original is in evaluation mode without
gradients, tried with batches of 1, 4, 8 and 16 before the rounds begin: the fastest is kept. hark's side is
`hark-bench mn --width W`, and without a width the built-in model everyday. They take turns, and the ratios of the medians
are printed. Run it on an idle machine: with other programs on its cores torch slows down out of proportion.

Run, from the root of the repository, with a checkout of fschmid56/EfficientAT:

  pip install -r bench/requirements.txt torchvision
  cargo build --release -p hark-bench
  python bench/mn.py EFFICIENTAT --bench target/release/hark-bench
"""

import argparse
import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

BATCHES = [1, 4, 8, 16]


def embed(torch, model, clips, batch):
    """Seconds for all clips, `batch` at a time."""
    start = time.perf_counter()
    with torch.no_grad():
        for first in range(0, len(clips), batch):
            torch.sigmoid(model(clips[first : first + batch])[0])
    return time.perf_counter() - start


def ask_hark(arguments, width):
    chosen = [] if width is None else ["--width", str(width)]
    printed = subprocess.run([arguments.bench, "mn", *chosen, "--clips", str(arguments.clips), "--threads", str(arguments.threads)],
                             check=True, stdout=subprocess.PIPE, text=True).stdout
    timing = json.loads(printed)
    if timing["clips"] != arguments.clips:
        sys.exit(f"hark computed {timing['clips']} clips, expected {arguments.clips}")
    return arguments.clips / timing["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("efficientat", type=Path)
    parser.add_argument("--bench", type=Path, required=True, metavar="BINARY", help="the program hark-bench")
    parser.add_argument("--width", type=float, default=0.4, help="width of the network (default 0.4, as mn04)")
    parser.add_argument("--clips", type=int, default=64, help="clips in each round (default 64)")
    parser.add_argument("--threads", type=int, default=2, help="threads for both sides (default 2)")
    parser.add_argument("--rounds", type=int, default=5, help="turns for each side (default 5)")
    arguments = parser.parse_args()

    # Read by torch when it starts.
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(arguments.threads)
    import torch

    torch.set_num_threads(arguments.threads)
    sys.path.insert(0, str(arguments.efficientat))
    os.chdir(arguments.efficientat)
    arguments.bench = arguments.bench if arguments.bench.is_absolute() else Path(os.environ["PWD"]) / arguments.bench
    from models.mn.model import get_model

    with contextlib.redirect_stdout(io.StringIO()):
        model = get_model(width_mult=arguments.width, head_type="mlp", se_dims="c").eval()
    clips = torch.randn(arguments.clips, 1, 128, 1000, generator=torch.Generator().manual_seed(2))
    print(f"torch {torch.__version__}, {arguments.clips} clips, {arguments.threads} threads, {arguments.rounds} rounds, "
          f"load average before {os.getloadavg()[0]:.1f}")
    sizes = [size for size in BATCHES if size <= len(clips)]
    for size in sizes:
        embed(torch, model, clips[:size], size)
    passes = [{size: embed(torch, model, clips, size) for size in sizes} for _ in range(2)]
    tried = {size: len(clips) / min(each[size] for each in passes) for size in sizes}
    batch = max(tried, key=tried.get)
    print("EfficientAT: " + ", ".join(f"batches of {size} {rate:.1f}/s" for size, rate in tried.items()) + f"; {batch} taken", flush=True)

    rates = {"hark": [], "EfficientAT": [], "everyday": []}
    for turn in range(arguments.rounds):
        rates["hark"].append(ask_hark(arguments, arguments.width))
        rates["EfficientAT"].append(len(clips) / embed(torch, model, clips, batch))
        rates["everyday"].append(ask_hark(arguments, None))
        print(f"round {turn + 1}: " + ", ".join(f"{name} {rate[-1]:.1f}/s" for name, rate in rates.items()), flush=True)
    medians = {name: statistics.median(rate) for name, rate in rates.items()}
    print(f"hark / EfficientAT, width {arguments.width:g} = {medians['hark'] / medians['EfficientAT']:.2f}")
    print(f"everyday / EfficientAT = {medians['everyday'] / medians['EfficientAT']:.2f} (above 1: hark is faster)")


if __name__ == "__main__":
    main()
