"""Scoring a retrieval model from its embeddings, both directions: numpy.

5,225 captions and 1,045 clips of 1,024 numbers (five captions to a clip, the size of Clotho's evaluation split): mAP@10 and R@1, R@5,
R@10 of text to audio and of audio to text, without loading. hark gives more: every metric, and what chance would reach. Peers:

- numpy, query by query: the way of most reference evaluations. For each query the inner products with all items, an argsort of the
  whole row, and a look at where the relevant items stand;
- numpy, one product: one matrix product, argpartition over rows, and an argsort of the ten best.

All metrics that several sides have must agree to 1e-6. `scoring-large` scores 100,000 captions with 100,000 clips, one for each,
beside the matrix products alone, one for each direction, which numpy computes for a sample of the rows. That peer computes less than
scoring does; it bounds what can be gained.

The vectors are seeded: a clip is a normal vector of length 1, and a caption is its clip plus 12 times another such vector, of length
1 again.
"""

import time

from harness import agreement
from rows.row import Row, answer, peer_parser, silence, timed

CUT = 10
RECALLS = (1, 5, 10)
TOLERANCE = 1e-6
NOISE, DIM = 12.0, 1024
# Rows that are made, and in the sample multiplied, at a time.
BLOCK = 1000
LOOP, TABLE, PRODUCTS = "numpy, query by query", "numpy, one product", "numpy, matrix products alone"


def prepare(np, arguments):
    """Writes clips.npy and captions.npy, block by block."""
    random = np.random.default_rng(1)
    clips, per_clip = arguments.count, arguments.per_clip

    def unit(rows):
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def file(name, rows):
        return np.lib.format.open_memmap(arguments.work / name, mode="w+", dtype=np.float32, shape=(rows, DIM))

    of_clips, of_captions = file("clips.npy", clips), file("captions.npy", clips * per_clip)
    for start in range(0, clips, BLOCK):
        block = unit(random.standard_normal((min(BLOCK, clips - start), DIM)))
        owners = np.repeat(block, per_clip, axis=0)
        noise = NOISE * unit(random.standard_normal(owners.shape))
        of_clips[start:start + len(block)] = block
        of_captions[start * per_clip:start * per_clip + len(owners)] = unit(owners + noise)
    answer()


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
    """Seconds of both matrix products, from a sample of the rows."""
    sample = np.ascontiguousarray(captions[:BLOCK])
    sample[:8] @ clips.T
    start = time.perf_counter()
    sample @ clips.T
    return 2 * (time.perf_counter() - start) / len(sample) * len(captions)


def score(np, arguments):
    captions, clips = np.load(arguments.work / "captions.npy"), np.load(arguments.work / "clips.npy")
    if arguments.side == PRODUCTS:
        return answer(seconds=[products(np, captions, clips) for _ in range(arguments.repeat)], count=len(captions))
    way = {LOOP: loop, TABLE: table}[arguments.side]
    seconds, found = timed(lambda: way(np, captions, clips), arguments.repeat)
    answer(seconds=seconds, count=len(captions), text_to_audio=found[0], audio_to_text=found[1])


class Scoring(Row):
    packages = ["numpy"]

    def __init__(self, name, what, peers, clips, per_clip, repeat):
        self.name, self.what, self.peers = name, what, peers
        self.clips, self.per_clip, self.repeat = clips, per_clip, repeat

    def count(self, options):
        return min(self.clips, 2_000) if options.quick else self.clips

    def settings(self, options):
        return {"clips": self.count(options)}

    def peer(self, side, options, folder, *more):
        return [options.python, "-m", "rows.scoring", side, "--work", folder, "--threads", options.threads, *more]

    def prepare(self, options, folder):
        return self.peer("prepare", options, folder, "--count", self.count(options), "--per-clip", self.per_clip)

    def ours(self, options, folder, output, check):
        return [options.bench, "scoring", "--clips", folder / "clips.npy", "--captions", folder / "captions.npy",
                "--repeat", 1 if check else self.repeat, "--threads", options.threads, *(["--warm-up"] if self.repeat > 1 else [])]

    def theirs(self, peer, options, folder, output, check, choice):
        return self.peer(peer, options, folder, "--repeat", 1 if check else self.repeat)

    def disagreement(self, peer, ours, theirs, our_output, their_output):
        if peer == PRODUCTS:
            return None
        for direction in ("text_to_audio", "audio_to_text"):
            shared = [name for name in theirs[direction] if name == "map_10" or name in ours[direction]]
            if wrong := agreement.figures(ours[direction], theirs[direction], dict.fromkeys(shared, TOLERANCE)):
                return f"{direction}: {wrong}"
        return None


ROWS = [
    Scoring("scoring", "scoring 5,225 captions x 1,045 clips of 1,024 numbers, both directions", [LOOP, TABLE], 1045, 5, 3),
    Scoring("scoring-large", "scoring 100,000 captions x 100,000 clips, both directions", [PRODUCTS], 100_000, 1, 1),
]


def main():
    parser = peer_parser(__doc__)
    parser.add_argument("--per-clip", type=int, default=5)
    arguments = parser.parse_args()
    silence()
    import numpy as np

    (prepare if arguments.side == "prepare" else score)(np, arguments)


if __name__ == "__main__":
    main()
