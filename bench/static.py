#!/usr/bin/env python3
"""How closely a static encoder follows its teacher, and how much faster it is.

On captions that the static encoder was not fitted on:
- Pearson and Spearman correlation of its similarities with the teacher's, over random pairs and over near pairs (a
  caption and one of its ten nearest by the teacher), and over both together;
- overlap of the ten nearest captions with the teacher's;
- captions per second of both, alternated in one run on the same threads, as a ratio.

Run, for the one that is part of the program:
  cargo build --release -p hark -p hark-bench
  python bench/static.py --hark target/release/hark --bench target/release/hark-bench --teacher all-mpnet-base-v2 \\
      --pairs clotho_captions_evaluation.csv --nearest val.csv --speed train.csv
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

import numpy as np
import scipy
from scipy.stats import pearsonr, spearmanr

NEAREST = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hark", required=True, help="the program hark")
    parser.add_argument("--bench", help="the program hark-bench; needed for --speed")
    parser.add_argument("--teacher", required=True, help="a model's name or folder")
    parser.add_argument("--static", default="caption-static", help="a static encoder's name or folder")
    parser.add_argument("--pairs", required=True, help="captions for the correlations")
    parser.add_argument("--nearest", required=True, help="captions for the overlap")
    parser.add_argument("--speed", help="captions for the speeds; left out, none are measured")
    parser.add_argument("--count", type=int, default=20_000, help="pairs of each kind")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if args.speed and not args.bench:
        parser.error("--speed needs --bench")
    print(f"numpy {np.__version__}, scipy {scipy.__version__}")

    teacher, static = (embed(args, model, args.pairs) for model in (args.teacher, args.static))
    correlations(teacher, static, args.count)
    teacher, static = (nearest(embed(args, model, args.nearest)) for model in (args.teacher, args.static))
    overlap = np.mean([len(set(a) & set(b)) / NEAREST for a, b in zip(teacher, static)])
    print(f"{len(teacher)} captions: {NEAREST} nearest, share in common with the teacher's {overlap:.3f}")
    if args.speed:
        speeds(args)


def embed(args: argparse.Namespace, model: str, captions: str) -> np.ndarray:
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "vectors.npy"
        command = [args.hark, "embed", "--model", model, "--captions", captions, "--threads", str(args.threads)]
        subprocess.run([*command, "-o", out], check=True, stderr=subprocess.DEVNULL)
        return np.load(out)


def nearest(vectors: np.ndarray) -> np.ndarray:
    similarities = vectors @ vectors.T
    np.fill_diagonal(similarities, -2)
    return np.argpartition(-similarities, NEAREST, axis=1)[:, :NEAREST]


def correlations(teacher: np.ndarray, static: np.ndarray, count: int) -> None:
    random = np.random.default_rng(1)
    size = len(teacher)
    first = random.integers(0, size, count)
    second = (first + random.integers(1, size, count)) % size
    centre = random.integers(0, size, count)
    near = nearest(teacher)[centre, random.integers(0, NEAREST, count)]
    kinds = {
        "random": (first, second),
        "near": (centre, near),
        "both": (np.concatenate([first, centre]), np.concatenate([second, near])),
    }
    print(f"{size} captions: pairs, Pearson, Spearman of static against teacher")
    for kind, (a, b) in kinds.items():
        ours, theirs = (np.sum(vectors[a] * vectors[b], axis=1) for vectors in (static, teacher))
        print(f"  {kind:6}  {len(a):6}  {pearsonr(ours, theirs)[0]:.4f}  {spearmanr(ours, theirs)[0]:.4f}")


def folder_of(args: argparse.Namespace, model: str) -> str:
    """The folder of a model that hark knows by name; the built-in encoder has none."""
    if model == "caption-static" or pathlib.Path(model).is_dir():
        return model
    listed = subprocess.run([args.hark, "models", "list", "--json"], check=True, capture_output=True, text=True).stdout
    return str(pathlib.Path(json.loads(listed)["folder"]) / model)


def speeds(args: argparse.Namespace) -> None:
    rates = {args.teacher: [], args.static: []}
    for _ in range(3):
        for model, count in ((args.teacher, 500), (args.static, 1_000_000)):
            command = [args.bench, "encode", "--model", folder_of(args, model), "--captions", args.speed]
            command += ["--count", str(count), "--threads", str(args.threads)]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            rates[model].append(found["count"] / statistics.median(found["seconds"]))
    teacher, static = (statistics.median(rates[model]) for model in (args.teacher, args.static))
    print(f"captions per second, medians of three: static / teacher = {static / teacher:.0f}")


if __name__ == "__main__":
    main()
