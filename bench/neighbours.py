#!/usr/bin/env python3
"""Exact k nearest neighbours by inner product: hark against faiss.IndexFlatIP, in one run.

Both sides search every row of an .npy file of float32 unit vectors for its k best other rows. The
time is that of the search alone: vectors are loaded, and added to the index, before. Faiss is asked
for k + 1 and the row itself is taken out. The two take turns, so that a change in the load of the
machine meets both, and the ratio of the medians is printed.

Then the ids are compared. A row differs for real if an id at some rank differs and the two scores,
recomputed in float64, are more than 2e-6 apart; if an id that only one side has is more than 2e-6
better than the other side's last one; or if an id of ours is the row itself, out of range or there
twice. Ends with 1 if there is such a row.

Our side is `hark-bench neighbours --vectors FILE --k K --threads N --out IDS`, which prints
{"seconds": .., "rows": .., "k": ..} and writes integer ids [rows, k].

Run, from the root of the repository:

  pip install -r bench/requirements.txt
  cargo build --release -p hark-bench
  python bench/neighbours.py --vectors vectors.npy --k 100 --bench target/release/hark-bench
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOLERANCE = 2e-6


def without_self(ids, k):
    """Takes the row's own id out of each row of [rows, k + 1] ids, or the last id if it is not there."""
    import numpy as np

    rows = np.arange(len(ids))
    own = ids == rows[:, None]
    # Duplicates of a row may fill all its places; then the last one goes.
    position = np.where(own.any(axis=1), own.argmax(axis=1), k)
    keep = np.ones_like(ids, dtype=bool)
    keep[rows, position] = False
    return ids[keep].reshape(len(ids), k)


def real_differences(vectors, ours, theirs):
    """The rows whose ids differ by more than rounding can explain, and how many differ at all."""
    import numpy as np

    differing = np.flatnonzero((ours != theirs).any(axis=1))
    real = []
    for row in differing:
        a, b = ours[row], theirs[row]
        if a.min() < 0 or a.max() >= len(vectors) or row in a or len(set(a.tolist())) != len(a):
            real.append(row)
            continue
        query = vectors[row].astype(np.float64)
        score_a = vectors[a].astype(np.float64) @ query
        score_b = vectors[b].astype(np.float64) @ query
        ranks = np.abs(score_a - score_b)[a != b].max() <= TOLERANCE
        only_a = score_a[~np.isin(a, b)]
        only_b = score_b[~np.isin(b, a)]
        boundary = (only_a <= score_b.min() + TOLERANCE).all() and (only_b <= score_a.min() + TOLERANCE).all()
        if not (ranks and boundary):
            real.append(row)
    return real, len(differing)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=Path, required=True, metavar="NPY",
                        help="float32 unit vectors, [rows, width]")
    parser.add_argument("--k", type=int, default=100, help="neighbours per row (default 100)")
    parser.add_argument("--bench", type=Path, required=True, metavar="BINARY", help="the program hark-bench")
    parser.add_argument("--threads", type=int, default=2, help="threads for both sides (default 2)")
    parser.add_argument("--rounds", type=int, default=3, help="turns for each side (default 3)")
    arguments = parser.parse_args()

    # Read by faiss and its linear algebra when they start.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(arguments.threads)
    import faiss
    import numpy as np

    faiss.omp_set_num_threads(arguments.threads)
    vectors = np.ascontiguousarray(np.load(arguments.vectors), dtype=np.float32)
    rows, width = vectors.shape
    k = arguments.k
    if not 0 < k < rows:
        sys.exit(f"k must be between 1 and {rows - 1}, got {k}")
    print(f"faiss {faiss.__version__} ({faiss.get_compile_options().strip()}), numpy {np.__version__}")
    print(f"{rows} rows x {width}, k {k}, {arguments.threads} threads, {arguments.rounds} rounds, "
          f"load average before {os.getloadavg()[0]:.1f}")
    index = faiss.IndexFlatIP(width)
    index.add(vectors)

    seconds = {"hark": [], "faiss": []}
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "ids.npy"
        for turn in range(arguments.rounds):
            printed = subprocess.run(
                [arguments.bench, "neighbours", "--vectors", arguments.vectors, "--k", str(k),
                 "--threads", str(arguments.threads), "--out", out],
                check=True, stdout=subprocess.PIPE, text=True,
            ).stdout
            timing = json.loads(printed)
            if (timing["rows"], timing["k"]) != (rows, k):
                sys.exit(f"hark searched {timing['rows']} rows for {timing['k']}, expected {rows} for {k}")
            seconds["hark"].append(timing["seconds"])

            start = time.perf_counter()
            _, found = index.search(vectors, k + 1)
            seconds["faiss"].append(time.perf_counter() - start)
            print(f"round {turn + 1}: hark {seconds['hark'][-1]:.3f} s, faiss {seconds['faiss'][-1]:.3f} s", flush=True)
        ours = np.load(out).astype(np.int64)

    hark, peer = (statistics.median(seconds[name]) for name in ("hark", "faiss"))
    print(f"medians: hark {hark:.3f} s, faiss {peer:.3f} s; faiss / hark = {peer / hark:.2f} (above 1: hark is faster)")

    if ours.shape != (rows, k):
        sys.exit(f"hark wrote ids of shape {ours.shape}, expected {(rows, k)}")
    real, differing = real_differences(vectors, ours, without_self(found, k))
    print(f"ids: {rows - differing} rows equal, {differing - len(real)} differ by ties or rounding, "
          f"{len(real)} differ for real" + (f", first {[int(row) for row in real[:5]]}" if real else ""))
    sys.exit(1 if real else 0)


if __name__ == "__main__":
    main()
