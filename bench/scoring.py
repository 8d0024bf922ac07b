#!/usr/bin/env python3
"""Scoring a retrieval model from its vectors: hark against numpy, in one run.

By default 5,225 captions and 1,045 clips of 1,024 numbers (five captions to a clip, the size of Clotho's evaluation split)
are scored in both directions: mAP@10 and R@1, R@5, R@10 of text to audio and of audio to text. Three ways take turns:

- `loop`: the way of most reference evaluations: for each query the inner products with all items, an argsort of the whole
  row, and a look at where the relevant items stand;
- `table`: the same with few calls: one matrix product, argpartition over rows, and an argsort of the ten best;
- `hark`: hark-bench scoring --clips clips.npy --captions captions.npy --repeat N --threads T, which prints
  {"seconds": [..], "peak_memory_bytes": n, "text_to_audio": {"map_10": x, ..}, "audio_to_text": {..}, ..} and gives more:
  every metric, and what chance would reach.

Seconds are those of both directions, without loading. Every turn is a process of its own, and the vectors are made in
another; the memory is the largest that was resident as the operating system counted it, with the interpreter, the
libraries and the vectors. The ratios
of the medians are printed. mAP@10 of all ways must agree to 1e-6, or the script ends with 1; shares of hits are
compared where a side has them.

The vectors are made by numpy.random.default_rng(seed): a clip is a normal vector of length 1, and a caption is its clip
plus `--noise` times another such vector, of length 1 again. With a noise of 12 mAP@10 is 0.38 and 0.25.

With --large hark alone scores 100,000 captions with 100,000 clips, one for each. Its time is printed as a ratio to that of the
matrix products alone, one for each direction, by numpy, measured on a sample of the rows; its memory as a share of
the full table of scores. This takes 1 GB of disk and of memory, and minutes.

Run, from the root of the repository:

  pip install -r bench/requirements.txt
  cargo build --release -p hark-bench
  python bench/scoring.py --bench target/release/hark-bench
  python bench/scoring.py --bench target/release/hark-bench --large --rounds 1
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from measure import run

CUT = 10
RECALLS = (1, 5, 10)
TOLERANCE = 1e-6
# Rows that are made, and in the sample multiplied, at a time.
BLOCK = 1000


# ---------------------------------------------------------------- numpy, in a process of its own

def make(np, arguments):
    """Writes clips.npy and captions.npy, block by block."""
    random = np.random.default_rng(arguments.seed)
    clips, per_clip = arguments.clips, arguments.per_clip

    def unit(rows):
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def file(name, rows):
        path = arguments.folder / name
        return np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(rows, arguments.dim))

    of_clips, of_captions = file("clips.npy", clips), file("captions.npy", clips * per_clip)
    for start in range(0, clips, BLOCK):
        block = unit(random.standard_normal((min(BLOCK, clips - start), arguments.dim)))
        owners = np.repeat(block, per_clip, axis=0)
        noise = arguments.noise * unit(random.standard_normal(owners.shape))
        of_clips[start:start + len(block)] = block
        of_captions[start * per_clip:start * per_clip + len(owners)] = unit(owners + noise)
    of_clips.flush()
    of_captions.flush()
    return {}


def of_ranks(ranks):
    """AP@10 and recalls of one query from the ranks (from 1) of its relevant items, ascending."""
    within = [rank for rank in ranks if rank <= CUT]
    precision = sum((place + 1) / rank for place, rank in enumerate(within)) / len(ranks)
    return [precision] + [sum(rank <= k for rank in ranks) / len(ranks) for k in RECALLS]


def named(means):
    return dict(zip(["map_10"] + [f"recall_{k}" for k in RECALLS], (float(mean) for mean in means)))


def loop(np, captions, clips):
    per_clip = len(captions) // len(clips)

    def direction(queries, items, relevant):
        found = []
        for number, query in enumerate(queries):
            order = np.argsort(-(items @ query))
            ranks = np.empty(len(items), dtype=np.int64)
            ranks[order] = np.arange(1, len(items) + 1)
            found.append(of_ranks(sorted(ranks[relevant(number)].tolist())))
        return named(np.mean(found, axis=0))

    return (direction(captions, clips, lambda caption: [caption // per_clip]),
            direction(clips, captions, lambda clip: np.arange(clip * per_clip, (clip + 1) * per_clip)))


def table(np, captions, clips):
    per_clip = len(captions) // len(clips)
    scores = captions @ clips.T

    def direction(scores, is_relevant, relevant):
        """`is_relevant` says of queries and items, given as arrays, which pairs belong together."""
        best = min(CUT, scores.shape[1])
        top = np.argpartition(-scores, best - 1, axis=1)[:, :best]
        order = np.argsort(-np.take_along_axis(scores, top, axis=1), axis=1)
        hits = is_relevant(np.arange(len(scores))[:, None], np.take_along_axis(top, order, axis=1))
        ranks = np.arange(1, best + 1)
        precision = (hits * np.cumsum(hits, axis=1) / ranks).sum(axis=1) / relevant
        return named([precision.mean()] + [hits[:, :k].sum(axis=1).mean() / relevant for k in RECALLS])

    return (direction(scores, lambda caption, clip: caption // per_clip == clip, 1),
            direction(scores.T, lambda clip, caption: caption // per_clip == clip, per_clip))


def products(np, captions, clips):
    """Seconds of the matrix product of a sample of the captions with all clips, as of all captions."""
    sample = np.ascontiguousarray(captions[:BLOCK])
    sample[:8] @ clips.T
    start = time.perf_counter()
    sample @ clips.T
    return (time.perf_counter() - start) / len(sample) * len(captions)


def scored(np, arguments):
    captions, clips = np.load(arguments.folder / "captions.npy"), np.load(arguments.folder / "clips.npy")
    if arguments.side == "products":
        return {"seconds": [products(np, captions, clips) for _ in range(arguments.repeat)]}
    way = {"loop": loop, "table": table}[arguments.side]
    seconds = []
    for _ in range(arguments.repeat):
        start = time.perf_counter()
        text_to_audio, audio_to_text = way(np, captions, clips)
        seconds.append(time.perf_counter() - start)
    return {"seconds": seconds, "text_to_audio": text_to_audio, "audio_to_text": audio_to_text}


def numpy_side(arguments):
    # Read by the linear algebra when it starts.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(arguments.threads)
    import numpy as np

    print(json.dumps((make if arguments.side == "make" else scored)(np, arguments)))


# ---------------------------------------------------------------- all sides, measured in the same way

def command_of(side, arguments, folder):
    count = ["--repeat", arguments.repeat, "--threads", arguments.threads]
    if side == "hark":
        return [arguments.bench, "scoring", "--clips", folder / "clips.npy", "--captions", folder / "captions.npy", *count]
    vectors = ["--clips", arguments.clips, "--per-clip", arguments.per_clip, "--dim", arguments.dim,
               "--noise", arguments.noise, "--seed", arguments.seed]
    return [sys.executable, __file__, "--side", side, "--folder", folder, *vectors, *count]


def take_turns(sides, arguments, folder):
    """For each side the median of the seconds, the largest memory and what it printed last."""
    seconds, memory, printed = {side: [] for side in sides}, {side: 0 for side in sides}, {}
    for turn in range(arguments.rounds):
        for side in sides:
            printed[side], peak = run(command_of(side, arguments, folder))
            if len(printed[side]["seconds"]) != arguments.repeat:
                sys.exit(f"{side} scored {len(printed[side]['seconds'])} times, expected {arguments.repeat}")
            seconds[side] += printed[side]["seconds"]
            memory[side] = max(memory[side], peak)
            own = printed[side].get("peak_memory_bytes")
            print(f"round {turn + 1}, {side}: " + ", ".join(f"{each:.3f}" for each in printed[side]["seconds"]) + " s"
                  + (f", {own / 1e6:.0f} MB by its own count" if own else ""), flush=True)
    return {side: statistics.median(each) for side, each in seconds.items()}, memory, printed


def differences(printed):
    """Prints every measure that several sides have; the number of those that differ."""
    differing = 0
    sides = list(printed)
    for direction in ("text_to_audio", "audio_to_text"):
        for measure in ["map_10"] + [f"recall_{k}" for k in RECALLS]:
            found = {side: printed[side][direction].get(measure) for side in sides}
            if measure == "map_10" and None in found.values():
                sys.exit(f"no {measure} of {direction}: {found}")
            values = [value for value in found.values() if value is not None]
            agree = max(values) - min(values) <= TOLERANCE
            differing += not agree
            print(f"{direction}, {measure}: {values[0]:.6f}" + ("" if agree else f", but the sides differ: {found}"))
    return differing


def compare(arguments, folder):
    sides = ["loop", "table"] + (["hark"] if arguments.bench else [])
    medians, memory, printed = take_turns(sides, arguments, folder)
    for side in sides:
        print(f"{side}: median {medians[side]:.3f} s, peak memory {memory[side] / 1e6:.0f} MB")
    differing = differences(printed)
    if arguments.bench:
        for side in ("loop", "table"):
            print(f"{side} / hark = {medians[side] / medians['hark']:.2f} in time (above 1: hark is faster), "
                  f"hark / {side} = {memory['hark'] / memory[side]:.2f} in memory")
    else:
        print(f"loop / table = {medians['loop'] / medians['table']:.2f} in time, "
              f"table / loop = {memory['table'] / memory['loop']:.2f} in memory")
    return differing


def large(arguments, folder):
    rows = arguments.clips
    sides = ["products"] + (["hark"] if arguments.bench else [])
    medians, memory, printed = take_turns(sides, arguments, folder)
    both = 2 * medians["products"]
    captions = rows * arguments.per_clip
    full = 4 * rows * captions
    print(f"matrix products of both directions by numpy: {both:.1f} s, from {min(BLOCK, captions)} rows of {captions}; "
          f"the full table of scores takes {full / 1e9:.1f} GB")
    if arguments.bench:
        print(f"hark: median {medians['hark']:.1f} s, peak memory {memory['hark'] / 1e9:.2f} GB, "
              f"of which the vectors are {4 * (rows + captions) * arguments.dim / 1e9:.2f} GB")
        print(f"hark / products = {medians['hark'] / both:.2f} in time, "
              f"hark / full table = {memory['hark'] / full:.3f} in memory")
        print(", ".join(f"{way}: mAP@10 {printed['hark'][way]['map_10']:.4f}" for way in ("text_to_audio", "audio_to_text")))
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=Path, metavar="BINARY", help="the program hark-bench; without it only numpy is measured")
    parser.add_argument("--clips", type=int, help="number of clips (default 1045, with --large 100,000)")
    parser.add_argument("--per-clip", type=int, help="captions of a clip (default 5, with --large 1)")
    parser.add_argument("--dim", type=int, default=1024, help="numbers in a vector (default 1024)")
    parser.add_argument("--noise", type=float, default=12.0, help="length of a caption's noise (default 12)")
    parser.add_argument("--seed", type=int, default=1, help="of the vectors (default 1)")
    parser.add_argument("--threads", type=int, default=2, help="threads for all sides (default 2)")
    parser.add_argument("--repeat", type=int, default=3, help="times that each turn scores (default 3)")
    parser.add_argument("--rounds", type=int, default=3, help="turns for each side (default 3)")
    parser.add_argument("--large", action="store_true", help="by hark alone, beside the matrix products")
    parser.add_argument("--side", choices=("make", "loop", "table", "products"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.clips is None:
        arguments.clips = 100_000 if arguments.large else 1045
    if arguments.per_clip is None:
        arguments.per_clip = 1 if arguments.large else 5
    numbers = (arguments.clips, arguments.per_clip, arguments.dim, arguments.threads, arguments.repeat, arguments.rounds)
    if min(numbers) < 1:
        parser.error("all numbers must be at least 1")
    if arguments.side:
        return numpy_side(arguments)

    print(f"numpy {version('numpy')}, {arguments.clips * arguments.per_clip} captions x {arguments.clips} clips of "
          f"{arguments.dim} numbers, {arguments.threads} threads, {arguments.rounds} rounds of {arguments.repeat}, "
          f"load average before {os.getloadavg()[0]:.1f}", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        run(command_of("make", arguments, folder))
        failed = (large if arguments.large else compare)(arguments, folder)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
