"""Expected values for the metrics of hark-nearest where many scores are equal.

Writes crates/metrics/tests/golden/ties.json: small rankings with many relevant items and many equal scores, and

- `hashed`: what trec_eval (through pytrec_eval) finds in the order in which hark-nearest puts equal scores by default, a hash
  of both ids and a seed. The hash is computed here once more, from its definition in `hash_order`, and the peer is given
  that order as strictly falling scores. ranx is given the same and must agree to 1e-12, or the script stops.
- `keys`: what trec_eval finds for the equal scores themselves, which it orders by id, descending. The run leaves out items
  below the score `listed_from`, so that relevant items may be missing. ranx has no fixed order of ties and is not asked.

The measures mean the same in both peers: ranx's `map@k` divides by all relevant items as `map_cut_k` does, its `hit_rate@k` is
`success_k`, its `mrr` is `recip_rank`, and its `ndcg@k` is linear in the gains as `ndcg_cut_k` is (`ndcg_burges` is not).
Its relevance level of 1 and that of trec_eval are both "a gain of at least 1". Gains of 0 and below are given to
trec_eval, which takes them for not relevant, and not to ranx.

    pip install -r golden/requirements.txt
    python golden/ties.py
"""

import argparse
import json
import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytrec_eval
import ranx
from metrics import MASK, splitmix64

OUT = Path(__file__).parent.parent / "crates/metrics/tests/golden/ties.json"
VERSIONS = {"python": platform.python_version()} | {
    name: version(name) for name in ("numpy", "pytrec_eval-terrier", "ranx", "numba")
}
# trec_eval's name and ranx's, in the order of the numbers in the file.
MEASURES = {
    "map_cut_10": "map@10", "map_cut_16": "map@16", "recall_1": "recall@1", "recall_5": "recall@5",
    "recall_10": "recall@10", "success_1": "hit_rate@1", "success_5": "hit_rate@5", "success_10": "hit_rate@10",
    "ndcg_cut_10": "ndcg@10", "ndcg_cut_16": "ndcg@16", "recip_rank": "mrr",
}
ASKED = {"map_cut.10,16", "recall.1,5,10", "success.1,5,10", "ndcg_cut.10,16", "recip_rank"}
RANKINGS = 240


def query_id(query):
    return f"q{query}"


def item_id(item):
    """Ids whose order is neither that of their numbers nor that of a dictionary."""
    return f"{'dD_é'[item % 4]}{item}"


def id_key(name):
    name = name.encode()
    key = splitmix64(len(name))
    for start in range(0, len(name), 8):
        key = splitmix64(key ^ int.from_bytes(name[start:start + 8], "little"))
    return key


def finish(z):
    """SplitMix64's output function without the step of its state: 0 stays 0."""
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    return z ^ z >> 31


def hash_order(query, scores, seed):
    """Items, best first: by score, and where scores are equal by hash, lowest first."""
    of_query = splitmix64(id_key(query_id(query)) ^ finish(seed))
    return sorted(range(len(scores)), key=lambda item: (-scores[item], splitmix64(of_query ^ id_key(item_id(item)))))


def ranking(random, number):
    """Few levels of scores, exact in float32, and whole-number gains of which at least one is above 0."""
    items, queries = int(random.integers(1, 50)), int(random.integers(1, 4))
    levels = int(random.integers(1, 6))
    scores = random.integers(0, levels, size=(queries, items))
    # A gain of -1 is that of an item that was not judged.
    gains = random.integers(-1, 6, size=(queries, items)) * (random.random((queries, items)) < random.random())
    gains[np.arange(queries), random.integers(items, size=queries)] = random.integers(1, 6)
    return {
        "scores": scores.tolist(), "gains": gains.tolist(), "listed_from": int(random.integers(0, levels)),
        "seed": 0 if number % 2 == 0 else int(random.integers(2**64, dtype=np.uint64)),
    }


def found_by_trec_eval(qrels, run):
    """For each query the numbers in the order of MEASURES."""
    found = pytrec_eval.RelevanceEvaluator(qrels, ASKED).evaluate(run)
    return {query: [found[query][name] for name in MEASURES] for query in run}


def found_by_ranx(qrels, run):
    relevant = {query: {item: gain for item, gain in list_.items() if gain > 0} for query, list_ in qrels.items()}
    run = ranx.Run(run)
    ranx.evaluate(ranx.Qrels(relevant), run, list(MEASURES.values()), return_mean=False)
    return {query: [float(run.scores[name][query]) for name in MEASURES.values()] for query in run.keys()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    random = np.random.default_rng(parser.parse_args().seed)
    print(VERSIONS)
    rankings = [ranking(random, number) for number in range(RANKINGS)]
    qrels, hashed, keys = {}, {}, {}
    for number, case in enumerate(rankings):
        for query, (scores, gains) in enumerate(zip(case["scores"], case["gains"])):
            name = f"{number} {query}"
            qrels[name] = {item_id(item): gain for item, gain in enumerate(gains)}
            order = hash_order(query, scores, case["seed"])
            hashed[name] = {item_id(item): float(len(order) - place) for place, item in enumerate(order)}
            listed = {item_id(item): float(s) for item, s in enumerate(scores) if s >= case["listed_from"]}
            # A query with an empty list would not be in the run at all.
            keys[name] = listed or {item_id(0): float(scores[0])}
    by_hash, peer, by_key = found_by_trec_eval(qrels, hashed), found_by_ranx(qrels, hashed), found_by_trec_eval(qrels, keys)
    furthest = max(abs(a - b) for name in by_hash for a, b in zip(by_hash[name], peer[name], strict=True))
    print(f"{len(qrels)} queries, ranx and trec_eval differ by at most {furthest:.1e}")
    if not furthest < 1e-12:
        raise SystemExit("the peers do not agree")
    for number, case in enumerate(rankings):
        names = [f"{number} {query}" for query in range(len(case["scores"]))]
        case["hashed"] = [by_hash[name] for name in names]
        case["keys"] = [by_key[name] for name in names]
    differ = sum(by_hash[name] != by_key[name] for name in qrels)
    print(f"the order of ties changes a measure of {differ} queries")
    whole = {"versions": VERSIONS, "measures": list(MEASURES), "rankings": rankings}
    OUT.write_text(json.dumps(whole, separators=(",", ":")) + "\n")
    print(f"{OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
