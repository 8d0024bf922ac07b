"""Searching a library's vectors: hnswlib and faiss at equal recall, and exactly.

100,000 vectors of 1,024 numbers and 1,000 queries that are not among them; the ten nearest by inner product, whose truth is numpy's
over all products in 32 bits. hark's index keeps 8 bits of each number and ranks 20 candidates again by the vectors' 16-bit numbers.
hnswlib and faiss IndexHNSWFlat keep 32 bits; faiss IndexHNSWSQ keeps 8 and ranks as many again. All have the same links and the same
effort of adding, and build on all threads. Each is searched with the least effort that reaches a recall@10 of 0.99: with all threads,
and with one. Peers get all queries in one call, which spares them Python's own time. Memory includes the vectors, of 16 bits for hark
and of 32 bits for the others.

`search-exact` compares every query with all of 50,000 vectors: hark's scan of 16-bit rows against faiss IndexFlatIP, one query at a
time and 16 at a time.

Vectors are seeded: one centre for each hundred vectors, normal vectors of length 1; a vector is a centre drawn at random plus a
normal vector of expected length 1, and made length 1 again. Two vectors of a centre have a cosine of about 0.5.
"""

import time

from rows.row import Row, answer, peer_parser, silence, timed

K, DIM = 10, 1024
LINKS, EFFORT_ADDING, AGAIN, TARGET = 16, 128, 20, 0.99
# Rows that are made, and multiplied for the truth, at a time.
BLOCK = 10_000
EFFORTS = (10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
EXACT_QUERIES = 96


def prepare(np, arguments):
    """Writes vectors in 32 and 16 bits, queries, and the truth."""
    random = np.random.default_rng(1)
    count = arguments.count

    def unit(rows):
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows

    centres = unit(random.standard_normal((max(1, count // 100), DIM), dtype=np.float32))

    def vectors(rows):
        noise = random.standard_normal((rows, DIM), dtype=np.float32) / DIM ** 0.5
        return unit(noise + centres[random.integers(len(centres), size=rows)])

    queries = vectors(arguments.queries)
    queries.tofile(arguments.work / "queries.f32")
    scores = np.zeros((len(queries), 0), dtype=np.float32)
    ids = np.zeros((len(queries), 0), dtype=np.uint32)
    with open(arguments.work / "rows.f32", "wb") as wide, open(arguments.work / "rows.f16", "wb") as narrow:
        for start in range(0, count, BLOCK):
            block = vectors(min(BLOCK, count - start))
            block.tofile(wide)
            block.astype(np.float16).tofile(narrow)
            scores = np.hstack([scores, queries @ block.T])
            new = np.arange(start, start + len(block), dtype=np.uint32)
            ids = np.hstack([ids, np.broadcast_to(new, (len(queries), len(block)))])
            best = np.argsort(-scores, axis=1, kind="stable")[:, :K]
            scores, ids = np.take_along_axis(scores, best, axis=1), np.take_along_axis(ids, best, axis=1)
    ids.tofile(arguments.work / "truth.u32")
    answer()


class Hnswlib:
    def __init__(self, arguments, count):
        import hnswlib

        self.index = hnswlib.Index(space="ip", dim=DIM)
        self.index.init_index(max_elements=count, M=LINKS, ef_construction=EFFORT_ADDING, random_seed=1)
        self.threads = arguments.threads

    def add(self, rows):
        self.index.add_items(rows, num_threads=self.threads)

    def effort(self, effort):
        self.index.set_ef(effort)

    def search(self, queries, k, threads):
        return self.index.knn_query(queries, k=k, num_threads=threads)[0]


class Faiss:
    def __init__(self, arguments, count):
        import faiss

        self.faiss = faiss
        faiss.omp_set_num_threads(arguments.threads)
        inner = faiss.METRIC_INNER_PRODUCT
        if arguments.side == "faiss, 8 bits":
            self.index = faiss.IndexHNSWSQ(DIM, faiss.ScalarQuantizer.QT_8bit, LINKS, inner)
        else:
            self.index = faiss.IndexHNSWFlat(DIM, LINKS, inner)
        self.index.hnsw.efConstruction = EFFORT_ADDING

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


def read(np, arguments):
    rows = np.memmap(arguments.work / "rows.f32", dtype=np.float32, mode="r").reshape(-1, DIM)
    return rows, np.fromfile(arguments.work / "queries.f32", dtype=np.float32).reshape(-1, DIM)


def approximate(np, arguments):
    rows, queries = read(np, arguments)
    library = (Hnswlib if arguments.side == "hnswlib" else Faiss)(arguments, len(rows))
    truth = np.fromfile(arguments.work / "truth.u32", dtype=np.uint32).reshape(-1, K)

    def search(threads):
        if arguments.side != "faiss, 8 bits":
            return library.search(queries, K, threads)
        found = library.search(queries, AGAIN, threads)
        scores = np.einsum("qkd,qd->qk", rows[found], queries)
        return np.take_along_axis(found, np.argsort(-scores, axis=1)[:, :K], axis=1)

    start = time.perf_counter()
    library.add(rows)
    build = time.perf_counter() - start
    for effort in EFFORTS:
        library.effort(effort)
        found = search(arguments.threads)
        recall = float((found[:, :, None] == truth[:, None, :]).any(axis=2).mean())
        if recall >= TARGET:
            break
    several, one = (timed(lambda: search(threads), arguments.repeat)[0] for threads in (arguments.threads, 1))
    answer(seconds=several, parts={"one thread": one, "build": [build]}, count=len(queries), recall=recall, effort=effort)


def exact(np, arguments):
    import faiss

    faiss.omp_set_num_threads(arguments.threads)
    rows, queries = read(np, arguments)
    queries = queries[:EXACT_QUERIES]
    index = faiss.IndexFlatIP(DIM)
    index.add(rows[:arguments.count])

    def search(batch):
        return np.concatenate([index.search(queries[first:first + batch], K)[1] for first in range(0, len(queries), batch)])

    one, found = timed(lambda: search(1), arguments.repeat)
    answer(seconds=one, parts={"16 at a time": timed(lambda: search(16), arguments.repeat)[0]}, count=len(queries),
           nearest=found[:, 0].tolist())


class Vectors(Row):
    folder = "search"
    packages = ["faiss-cpu", "hnswlib", "numpy"]

    def count(self, options):
        return 10_000 if options.quick else 100_000

    def settings(self, options):
        return {"count": self.count(options)}

    def peer(self, side, options, folder, *more):
        return [options.python, "-m", "rows.search", side, "--work", folder, "--threads", options.threads, *more]

    def prepare(self, options, folder):
        return self.peer("prepare", options, folder, "--count", self.count(options), "--queries", 1000)

    def hark(self, command, options, folder, check):
        return [options.bench, "search", command, "--folder", folder, "--dim", DIM, "--threads", options.threads,
                "--repeat", 1 if check else 5]


class Search(Vectors):
    name = "search"
    what = "1,000 queries to an index of 100,000 vectors of 1,024 numbers"
    peers = ["hnswlib", "faiss", "faiss, 8 bits"]

    def ours(self, options, folder, output, check):
        return [*self.hark("index", options, folder, check), "--numbers", "i8", "--again", AGAIN, "--links", LINKS,
                "--effort-adding", EFFORT_ADDING, "--target", TARGET, "--efforts", ",".join(map(str, EFFORTS))]

    def theirs(self, peer, options, folder, output, check, choice):
        return self.peer(peer, options, folder, "--repeat", 1 if check else 5)

    def disagreement(self, peer, ours, theirs, our_output, their_output):
        for side, found in (("hark", ours), (peer, theirs)):
            if not found["recall"] >= TARGET:
                return f"{side} reaches a recall of {found['recall']:.4f}, expected {TARGET}"
        return None


class SearchExact(Vectors):
    name = "search-exact"
    what = "96 queries compared with 50,000 vectors of 1,024 numbers"
    peers = ["faiss flat"]

    def rows(self, options):
        return min(50_000, self.count(options))

    def ours(self, options, folder, output, check):
        return [*self.hark("exact", options, folder, check), "--rows", self.rows(options)]

    def theirs(self, peer, options, folder, output, check, choice):
        return self.peer(peer, options, folder, "--repeat", 1 if check else 5, "--count", self.rows(options))

    def disagreement(self, peer, ours, theirs, our_output, their_output):
        differing = [nth for nth, (a, b) in enumerate(zip(ours["nearest"], theirs["nearest"], strict=True)) if a != b]
        # 16 bits may exchange two rows that are equally near.
        if len(differing) > len(ours["nearest"]) // 20:
            return f"the nearest rows of {len(differing)} queries differ"
        return None


ROWS = [Search(), SearchExact()]


def main():
    parser = peer_parser(__doc__)
    parser.add_argument("--queries", type=int, default=1000)
    arguments = parser.parse_args()
    silence()
    import numpy as np

    {"prepare": prepare, "faiss flat": exact}.get(arguments.side, approximate)(np, arguments)


if __name__ == "__main__":
    main()
