#!/usr/bin/env python3
"""Clips per second through PaSST-S: hark against hear21passt on torch, in one run.

Both sides embed log-mels of 10 s (128 bands, 1000 frames) that are ready beforehand, with random
weights in the architecture `passt_s_p16_s16_128_ap468`: 498 tokens, 768 wide, 12 blocks. Loading and
building are left out on both sides. On the one side stands hear21passt's model in evaluation mode without
gradients, which is tried with batches of 1, 4 and 8 before the rounds begin: the fastest is kept. On the
other stands `hark-bench passt --clips N --threads T`, which prints {"clips": .., "seconds": ..}. The two
take turns, so that a change in the load of the machine meets both, and the ratio of the medians is printed.
Run it on an idle machine all the same: with other programs on its cores torch slows down out of proportion.

Run, from the root of the repository:

  pip install -r bench/requirements.txt
  cargo build --release -p hark-bench
  python bench/passt.py --bench target/release/hark-bench
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
from importlib.metadata import version
from pathlib import Path

BATCHES = [1, 4, 8]


def build(torch):
    """PaSST-S as the package initialises it; what it prints is left out."""
    # Nothing runs on a GPU. Without this, torchaudio refuses to start where it was built for another CUDA version.
    torch.version.cuda = None
    from hear21passt.models import passt

    torch.manual_seed(1)
    with contextlib.redirect_stdout(io.StringIO()):
        model = passt.get_model(arch="passt_s_p16_s16_128_ap468", pretrained=False, fstride=16, tstride=16,
                                input_tdim=1000)
    passt.first_RUN = False
    return model.eval()


def embed(torch, model, clips, batch):
    """Seconds for all clips, `batch` at a time."""
    start = time.perf_counter()
    with torch.no_grad():
        for first in range(0, len(clips), batch):
            model(clips[first : first + batch])
    return time.perf_counter() - start


def ask_hark(bench, clips, threads):
    printed = subprocess.run([bench, "passt", "--clips", str(clips), "--threads", str(threads)],
                             check=True, stdout=subprocess.PIPE, text=True).stdout
    timing = json.loads(printed)
    if timing["clips"] != clips:
        sys.exit(f"hark embedded {timing['clips']} clips, expected {clips}")
    return timing["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=16, help="clips in each round (default 16)")
    parser.add_argument("--bench", type=Path, metavar="BINARY",
                        help="the program hark-bench; without it only hear21passt is measured")
    parser.add_argument("--threads", type=int, default=2, help="threads for both sides (default 2)")
    parser.add_argument("--rounds", type=int, default=3, help="turns for each side (default 3)")
    arguments = parser.parse_args()
    if arguments.clips < 1:
        parser.error("--clips must be at least 1")

    # Read by torch when it starts.
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(arguments.threads)
    import torch

    torch.set_num_threads(arguments.threads)
    model = build(torch)
    clips = torch.randn(arguments.clips, 1, 128, 1000, generator=torch.Generator().manual_seed(2))
    print(f"torch {torch.__version__}, hear21passt {version('hear21passt')}")
    print(f"{arguments.clips} clips, {arguments.threads} threads, {arguments.rounds} rounds, "
          f"load average before {os.getloadavg()[0]:.1f}")

    sizes = [size for size in BATCHES if size <= len(clips)]
    for size in sizes:
        embed(torch, model, clips[:size], size)
    # The better of two passes, in turns.
    passes = [{size: embed(torch, model, clips, size) for size in sizes} for _ in range(2)]
    tried = {size: len(clips) / min(each[size] for each in passes) for size in sizes}
    batch = max(tried, key=tried.get)
    print("hear21passt: " + ", ".join(f"batches of {size} {rate:.2f}/s" for size, rate in tried.items())
          + f"; {batch} taken", flush=True)

    rates = {name: [] for name in (["hark"] if arguments.bench else []) + ["hear21passt"]}
    if arguments.bench:
        ask_hark(arguments.bench, min(2, arguments.clips), arguments.threads)
    for turn in range(arguments.rounds):
        if arguments.bench:
            rates["hark"].append(arguments.clips / ask_hark(arguments.bench, arguments.clips, arguments.threads))
        rates["hear21passt"].append(arguments.clips / embed(torch, model, clips, batch))
        print(f"round {turn + 1}: " + ", ".join(f"{name} {rate[-1]:.2f}/s" for name, rate in rates.items()), flush=True)

    medians = {name: statistics.median(rate) for name, rate in rates.items()}
    print("medians: " + ", ".join(f"{name} {rate:.2f} clips/s" for name, rate in medians.items()))
    if arguments.bench:
        print(f"hark / hear21passt = {medians['hark'] / medians['hear21passt']:.2f} (above 1: hark is faster)")


if __name__ == "__main__":
    main()
