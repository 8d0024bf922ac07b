#!/usr/bin/env python3
"""Searching a library's vectors: hark against hnswlib and faiss at equal recall, in one run.

By default 100,000 vectors of 1,024 numbers and 1,000 queries that are not among them. What is asked for are the ten nearest by
inner product; the truth is numpy's, over all products in 32 bits. Six sides, each in a process of its own, one after the other:

- `hark-i8`, `hark-f16`: `hark-bench search index`: the index keeps numbers in 8 or 16 bits; the first asks for `--again`
  candidates and ranks them again by the vectors' 16-bit numbers, which it holds in memory besides;
- `hnswlib`: 32-bit numbers;
- `faiss`: IndexHNSWFlat, 32-bit numbers; `faiss-f16` and `faiss-sq8`: IndexHNSWSQ with numbers of 16 and of 8 bits; the last gets
  as many candidates ranked again by the 32-bit vectors in their file, in one call of numpy for all queries.

All have the same links and the same effort of adding, and build on `--threads` threads. The effort of searching is raised until
recall@10 is at least `--target`; at that point queries a second are measured, on one thread and on `--threads`. Peers get all
queries in one call, which spares them Python's own time. A side that stays below the target is reported at its best, in
brackets.

Memory is the largest that was resident as the operating system counted it, less what the process held before it read
vectors (interpreter and libraries), less the file of vectors that it was given: 16-bit ones for hark, 32-bit ones for the others.

Then exact search over `--exact` of the vectors: hark's scan of 16-bit rows against faiss IndexFlatIP, one query at a time and in
batches of 16, on `--threads` threads.

The vectors are made by numpy.random.default_rng(seed): one centre for each hundred vectors, normal vectors of length 1; a vector is a
centre drawn at random plus `--sigma` times a normal vector of expected length 1, and made length 1 again. With a sigma of 1
two vectors of a centre have a cosine of about 0.5, and the ten nearest of a hundred such differ in the second digit.

Run, from the root of the repository:

  pip install -r bench/requirements.txt
  cargo build --release -p hark-bench
  python bench/search.py --bench target/release/hark-bench
  python bench/search.py --bench target/release/hark-bench --count 1000000 --sides hark-i8,hnswlib
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from measure import run

K = 10
# Rows that are made, and multiplied for the truth, at a time.
BLOCK = 10_000
EFFORTS = (10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
SIDES = ("hark-i8", "hark-f16", "hnswlib", "faiss", "faiss-f16", "faiss-sq8")
EXACT_QUERIES = 96


# ---------------------------------------------------------------- peers, each in a process of its own

def resident():
    import psutil
    return psutil.Process().memory_info().rss


def queries_of(np, arguments):
    return np.fromfile(arguments.folder / "queries.f32", dtype=np.float32).reshape(-1, arguments.dim)


def rows_of(np, arguments):
    return np.memmap(arguments.folder / "rows.f32", dtype=np.float32, mode="r").reshape(-1, arguments.dim)


def make(np, arguments):
    """Writes vectors in 32 and 16 bits, queries, and the truth."""
    random = np.random.default_rng(arguments.seed)
    dim, count = arguments.dim, arguments.count

    def unit(rows):
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows

    centres = unit(random.standard_normal((max(1, count // 100), dim), dtype=np.float32))

    def vectors(rows):
        noise = random.standard_normal((rows, dim), dtype=np.float32)
        noise *= arguments.sigma / dim ** 0.5
        return unit(noise + centres[random.integers(len(centres), size=rows)])

    queries = vectors(arguments.queries)
    queries.tofile(arguments.folder / "queries.f32")
    scores = np.full((len(queries), 0), 0, dtype=np.float32)
    ids = np.zeros((len(queries), 0), dtype=np.uint32)
    with open(arguments.folder / "rows.f32", "wb") as wide, open(arguments.folder / "rows.f16", "wb") as narrow:
        for start in range(0, count, BLOCK):
            block = vectors(min(BLOCK, count - start))
            block.tofile(wide)
            block.astype(np.float16).tofile(narrow)
            scores = np.hstack([scores, queries @ block.T])
            new = np.arange(start, start + len(block), dtype=np.uint32)
            ids = np.hstack([ids, np.broadcast_to(new, (len(queries), len(block)))])
            best = np.argsort(-scores, axis=1, kind="stable")[:, :K]
            scores, ids = np.take_along_axis(scores, best, axis=1), np.take_along_axis(ids, best, axis=1)
    ids.tofile(arguments.folder / "truth.u32")
    return {"tenth": float(np.median(scores[:, -1])), "first": float(np.median(scores[:, 0]))}


class Hnswlib:
    def __init__(self, arguments):
        import hnswlib
        self.before = resident()
        self.index = hnswlib.Index(space="ip", dim=arguments.dim)
        self.index.init_index(max_elements=arguments.count, M=arguments.links, ef_construction=arguments.effort_adding,
                              random_seed=arguments.seed)
        self.threads = arguments.threads

    def add(self, rows):
        self.index.add_items(rows, num_threads=self.threads)

    def effort(self, effort):
        self.index.set_ef(effort)

    def search(self, queries, k, threads):
        return self.index.knn_query(queries, k=k, num_threads=threads)[0]


class Faiss:
    def __init__(self, arguments):
        import faiss
        self.faiss = faiss
        self.before = resident()
        faiss.omp_set_num_threads(arguments.threads)
        inner = faiss.METRIC_INNER_PRODUCT
        kind = {"faiss-f16": faiss.ScalarQuantizer.QT_fp16, "faiss-sq8": faiss.ScalarQuantizer.QT_8bit}.get(arguments.side)
        self.index = faiss.IndexHNSWFlat(arguments.dim, arguments.links, inner) if kind is None \
            else faiss.IndexHNSWSQ(arguments.dim, kind, arguments.links, inner)
        self.index.hnsw.efConstruction = arguments.effort_adding

    def add(self, rows):
        if not self.index.is_trained:
            self.index.train(rows[:10 * BLOCK])
        for start in range(0, len(rows), BLOCK):
            self.index.add(rows[start:start + BLOCK])

    def effort(self, effort):
        self.index.hnsw.efSearch = effort

    def search(self, queries, k, threads):
        self.faiss.omp_set_num_threads(threads)
        return self.index.search(queries, k)[1]


def ranked_again(np, rows, queries, found):
    scores = np.einsum("qkd,qd->qk", rows[found], queries)
    return np.take_along_axis(found, np.argsort(-scores, axis=1)[:, :K], axis=1)


def peer(np, arguments):
    library = (Hnswlib if arguments.side == "hnswlib" else Faiss)(arguments)
    queries, rows = queries_of(np, arguments), rows_of(np, arguments)
    truth = np.fromfile(arguments.folder / "truth.u32", dtype=np.uint32).reshape(-1, K)
    again = arguments.side == "faiss-sq8" and arguments.again

    def search(threads):
        if again:
            return ranked_again(np, rows, queries, library.search(queries, again, threads))
        return library.search(queries, K, threads)

    start = time.perf_counter()
    library.add(rows)
    build = time.perf_counter() - start
    sweep = []
    for effort in arguments.efforts:
        library.effort(effort)
        found = search(arguments.threads)
        hits = (found[:, :, None] == truth[:, None, :]).any(axis=2)
        sweep.append({"effort": effort, "recall": float(hits.mean())})
        if sweep[-1]["recall"] >= arguments.target:
            break

    def speed(threads):
        seconds = []
        for _ in range(arguments.repeat):
            start = time.perf_counter()
            search(threads)
            seconds.append(time.perf_counter() - start)
        return len(queries) / statistics.median(seconds)

    return {"build_seconds": build, "sweep": sweep, "resident_before": library.before,
            "queries_per_second": {str(threads): speed(threads) for threads in sorted({1, arguments.threads})}}


def flat(np, arguments):
    import faiss
    before = resident()
    faiss.omp_set_num_threads(arguments.threads)
    queries = queries_of(np, arguments)[:EXACT_QUERIES]
    index = faiss.IndexFlatIP(arguments.dim)
    index.add(rows_of(np, arguments)[:arguments.exact])
    measured = {"rows": index.ntotal, "resident_before": before}
    for batch in (1, 16):
        seconds = []
        for _ in range(arguments.repeat):
            start = time.perf_counter()
            for first in range(0, len(queries), batch):
                index.search(queries[first:first + batch], K)
            seconds.append(time.perf_counter() - start)
        measured[f"milliseconds_in_batches_of_{batch}"] = statistics.median(seconds) * 1e3 / len(queries)
    measured["first"] = index.search(queries[:1], K)[1][0].tolist()
    return measured


def python_side(arguments):
    # Read by the libraries when they start.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(arguments.threads)
    import numpy as np

    print(json.dumps({"make": make, "flat": flat}.get(arguments.side, peer)(np, arguments)))


# ---------------------------------------------------------------- all sides, measured in the same way

def command_of(side, arguments, folder):
    given = ["--folder", folder, "--dim", arguments.dim, "--threads", arguments.threads, "--repeat", arguments.repeat]
    graph = ["--links", arguments.links, "--effort-adding", arguments.effort_adding, "--target", arguments.target,
             "--efforts", ",".join(map(str, arguments.efforts))]
    if side == "scan":
        return [arguments.bench, "search", "exact", *given, "--rows", arguments.exact]
    if side.startswith("hark-"):
        again = arguments.again if side == "hark-i8" else 0
        return [arguments.bench, "search", "index", *given, *graph, "--numbers", side.removeprefix("hark-"), "--again", again, "--exact-too"]
    return [sys.executable, __file__, "--side", side, *given, *graph, "--again", arguments.again, "--count", arguments.count,
            "--queries", arguments.queries, "--sigma", arguments.sigma, "--seed", arguments.seed, "--exact", arguments.exact]


def measured(side, arguments, folder):
    print(f"{side} ..", file=sys.stderr, flush=True)
    result, peak = run(command_of(side, arguments, folder))
    rows = result.get("rows", arguments.count)
    given = rows * arguments.dim * (2 if side == "scan" or side.startswith("hark-") else 4)
    result["memory_bytes"] = peak - (result["resident_before"] or 0) - given
    return result


def table(results, arguments):
    """Markdown: each side, and its ratio to hark's first."""
    first = next(iter(results))
    several = str(arguments.threads)

    def speed(side, threads):
        return results[side]["queries_per_second"][threads]

    lines = [f"| | recall@10 (effort) | q/s, 1 thread | q/s, {several} threads | build, s | memory, MB | "
             f"{first} is faster: 1 / {several} threads | build | memory |", "|---|" + "---:|" * 8]
    for side, result in results.items():
        last = result["sweep"][-1]
        recall = f"{last['recall']:.4f} ({last['effort']})"
        if last["recall"] < arguments.target:
            recall = f"[{recall}]"
        ratios = [speed(first, "1") / speed(side, "1"), speed(first, several) / speed(side, several)]
        lines.append(f"| {side} | {recall} | {speed(side, '1'):.0f} | {speed(side, several):.0f} | {result['build_seconds']:.1f} | "
                     f"{result['memory_bytes'] / 1e6:.0f} | {ratios[0]:.2f} / {ratios[1]:.2f} | "
                     f"{result['build_seconds'] / results[first]['build_seconds']:.2f} | "
                     f"{result['memory_bytes'] / max(1, results[first]['memory_bytes']):.2f} |")
    return "\n".join(lines)


def exact_table(scan, flat):
    lines = ["| exact, ms a query | hark | faiss IndexFlatIP | hark is faster |", "|---|---:|---:|---:|"]
    for batch in (1, 16):
        name = f"milliseconds_in_batches_of_{batch}"
        lines.append(f"| batches of {batch} | {scan[name]:.2f} | {flat[name]:.2f} | {flat[name] / scan[name]:.2f} |")
    return "\n".join(lines)


def compare(arguments, folder):
    made, _ = run(command_of("make", arguments, folder))
    print(f"cosines of a query with its nearest {made['first']:.3f} and with its tenth {made['tenth']:.3f}, medians\n", flush=True)
    results = {side: measured(side, arguments, folder) for side in arguments.sides}
    everything = {"count": arguments.count, "dim": arguments.dim, "links": arguments.links,
                  "effort_adding": arguments.effort_adding, "sigma": arguments.sigma, "made": made, "sides": results}
    if results:
        print(table(results, arguments), flush=True)
    differing = False
    if arguments.exact:
        scan, flat = measured("scan", arguments, folder), measured("flat", arguments, folder)
        print("\n" + exact_table(scan, flat), flush=True)
        everything["exact"] = {"scan": scan, "flat": flat}
        differing = scan["first"][0] != flat["first"][0]
    print("\n" + json.dumps(everything))
    if differing:
        print("the sides' nearest rows of the first query differ", file=sys.stderr)
    return differing


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=Path, metavar="BINARY", help="the program hark-bench, built for release")
    parser.add_argument("--count", type=int, default=100_000, help="vectors (default 100,000)")
    parser.add_argument("--queries", type=int, default=1000, help="queries (default 1000)")
    parser.add_argument("--dim", type=int, default=1024, help="numbers in a vector (default 1024)")
    parser.add_argument("--sigma", type=float, default=1.0, help="length of the noise around a centre (default 1)")
    parser.add_argument("--seed", type=int, default=1, help="of the vectors (default 1)")
    parser.add_argument("--links", type=int, default=16, help="neighbours of a vector (default 16)")
    parser.add_argument("--effort-adding", type=int, default=128, help="candidates while adding (default 128)")
    parser.add_argument("--efforts", type=lambda text: [int(each) for each in text.split(",")], default=list(EFFORTS),
                        help="efforts of searching to try, ascending")
    parser.add_argument("--target", type=float, default=0.99, help="recall@10 that is searched for (default 0.99)")
    parser.add_argument("--again", type=int, default=20, help="candidates that 8-bit sides rank again (default 20)")
    parser.add_argument("--exact", type=int, default=50_000, help="rows of exact search (default 50,000; 0: none)")
    parser.add_argument("--threads", type=int, default=2, help="threads for all sides (default 2)")
    parser.add_argument("--repeat", type=int, default=5, help="times that speeds are measured; the median counts (default 5)")
    parser.add_argument("--sides", type=lambda text: [each for each in text.split(",") if each], default=list(SIDES),
                        help=f"which, in this order (default {','.join(SIDES)})")
    parser.add_argument("--scratch", type=Path, help="where vectors are written, 6 KB for each (default: a temporary folder)")
    parser.add_argument("--side", choices=(*SIDES, "make", "flat"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        return python_side(arguments)

    if arguments.bench is None:
        parser.error("--bench is needed")
    if unknown := set(arguments.sides) - set(SIDES):
        parser.error(f"no such side: {', '.join(sorted(unknown))}")
    if min(arguments.count, arguments.queries, arguments.dim, arguments.threads, arguments.repeat) < 1:
        parser.error("numbers must be at least 1")
    arguments.exact = min(arguments.exact, arguments.count)
    print(f"faiss {version('faiss-cpu')}, hnswlib {version('hnswlib')}, {arguments.count} vectors of {arguments.dim} numbers, "
          f"{arguments.queries} queries, {arguments.links} links, effort of adding {arguments.effort_adding}, "
          f"load average before {os.getloadavg()[0]:.1f}", flush=True)
    folder = Path(tempfile.mkdtemp(dir=arguments.scratch))
    try:
        failed = compare(arguments, folder)
    finally:
        shutil.rmtree(folder)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
