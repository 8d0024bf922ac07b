"""The 100 nearest captions of every caption, exactly: faiss IndexFlatIP.

49,838 unit vectors of 768 numbers, as many as AudioCaps has captions for training, in clusters of about 50. The time is that of
the search alone: vectors are loaded, and added to the index, before. faiss is asked for one more, and the row itself is taken out.

A row differs if an id at some rank differs and the two scores, recomputed in 64 bits, are more than 2e-6 apart; if an id that only
one side has is more than 2e-6 better than the other side's last one; or if an id of ours is the row itself, out of range or there
twice.
"""

import warnings

from rows.row import Row, answer, peer_parser, silence, timed

K, DIM = 100, 768
TOLERANCE = 2e-6


def prepare(np, arguments):
    random = np.random.default_rng(7)
    centres = random.standard_normal((max(1, arguments.count // 50), DIM), dtype=np.float32)
    vectors = centres[random.integers(len(centres), size=arguments.count)]
    vectors = vectors + random.standard_normal(vectors.shape, dtype=np.float32)
    np.save(arguments.work / "vectors.npy", vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    answer()


def without_self(np, ids, k):
    """Takes the row's own id out of each row of [rows, k + 1] ids, or the last id if it is not there."""
    rows = np.arange(len(ids))
    own = ids == rows[:, None]
    # Duplicates of a row may fill all its places; then the last one goes.
    position = np.where(own.any(axis=1), own.argmax(axis=1), k)
    keep = np.ones_like(ids, dtype=bool)
    keep[rows, position] = False
    return ids[keep].reshape(len(ids), k)


def search(np, arguments):
    import faiss

    faiss.omp_set_num_threads(arguments.threads)
    vectors = np.load(arguments.work / "vectors.npy")
    index = faiss.IndexFlatIP(DIM)
    index.add(vectors)
    seconds, found = timed(lambda: index.search(vectors, K + 1)[1], arguments.repeat)
    np.save(arguments.output, without_self(np, found, K))
    answer(seconds=seconds, count=len(vectors))


def check(np, arguments):
    vectors = np.load(arguments.work / "vectors.npy")
    ours, theirs = (np.load(path).astype(np.int64) for path in (arguments.ours, arguments.output))
    if ours.shape != theirs.shape:
        return answer(wrong=f"ids of shape {ours.shape} against {theirs.shape}")
    for row in np.flatnonzero((ours != theirs).any(axis=1)):
        a, b = ours[row], theirs[row]
        if a.min() < 0 or a.max() >= len(vectors) or row in a or len(set(a.tolist())) != len(a):
            return answer(wrong=f"row {row} has ids that cannot be")
        query = vectors[row].astype(np.float64)
        score_a, score_b = (vectors[ids].astype(np.float64) @ query for ids in (a, b))
        ranks = np.abs(score_a - score_b)[a != b].max() <= TOLERANCE
        only_a, only_b = score_a[~np.isin(a, b)], score_b[~np.isin(b, a)]
        boundary = (only_a <= score_b.min() + TOLERANCE).all() and (only_b <= score_a.min() + TOLERANCE).all()
        if not (ranks and boundary):
            return answer(wrong=f"neighbours of row {row} differ")
    answer(wrong=None)


class Neighbours(Row):
    name = "neighbours"
    what = "100 nearest of each of 49,838 captions of 768 numbers, exactly"
    peers = ["faiss"]
    packages = ["faiss-cpu", "numpy"]

    def count(self, options):
        return 5_000 if options.quick else 49_838

    def settings(self, options):
        return {"count": self.count(options)}

    def peer(self, side, options, folder, *more):
        return [options.python, "-m", "rows.neighbours", side, "--work", folder, "--count", self.count(options),
                "--threads", options.threads, *more]

    def prepare(self, options, folder):
        return self.peer("prepare", options, folder)

    def ours(self, options, folder, output, check):
        return [options.bench, "neighbours", "--vectors", folder / "vectors.npy", "--k", K, "--threads", options.threads,
                "--output", output, "--warm-up"]

    def theirs(self, peer, options, folder, output, check, choice):
        return self.peer(peer, options, folder, "--output", output)

    def check_command(self, peer, options, folder, ours, theirs):
        return self.peer("check", options, folder, "--output", theirs, "--ours", ours)


ROWS = [Neighbours()]


def main():
    parser = peer_parser(__doc__)
    parser.add_argument("--ours")
    arguments = parser.parse_args()
    silence()
    warnings.filterwarnings("ignore")
    import numpy as np

    {"prepare": prepare, "check": check}.get(arguments.side, search)(np, arguments)


if __name__ == "__main__":
    main()
