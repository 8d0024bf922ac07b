"""Expected values for the retrieval metrics and the paired t-test of hark-nearest.

Writes crates/metrics/tests/golden/metrics.json: small rankings with many relevant items and what trec_eval (through
pytrec_eval) finds, and paired series given by a formula with what scipy's ttest_rel finds.

    pip install numpy scipy pytrec_eval-terrier
    python golden/metrics.py
"""

import argparse
import json
import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytrec_eval
import scipy
from scipy.stats import ttest_rel

OUT = Path(__file__).parent.parent / "crates/metrics/tests/golden/metrics.json"
VERSIONS = {
    "python": platform.python_version(),
    "numpy": np.__version__,
    "scipy": scipy.__version__,
    "pytrec_eval-terrier": version("pytrec_eval-terrier"),
}
MEASURES = {"map_cut.10,16", "recall.1,5,10", "success.1,5,10", "ndcg_cut.10", "recip_rank"}
FORMULA = (
    "u(i) = (splitmix64(seed * 2^32 + i) >> 40) / 2^24; a[i] = u(2i); "
    "b[i] = (1 - weight) * u(2i + 1) + weight * a[i] - shift"
)
# n, how alike the series are, and how far apart: p from nearly 1 to below 1e-200.
SERIES = [
    (2, 0.0, 0.0), (2, 0.5, 3.0), (3, 0.0, 0.1), (4, 0.9, 0.02), (5, 0.0, 0.5), (5, 0.99, 1.0), (10, 0.5, 0.0),
    (10, 0.9, 0.5), (30, 0.0, 0.1), (30, 0.8, 0.3), (100, 0.0, 0.0), (100, 0.5, 0.7), (1000, 0.0, 0.05),
    (1000, 0.9, 0.01), (1045, 0.3, 0.0), (4700, 0.5, 0.0), (5225, 0.0, 0.0), (5225, 0.5, 0.02), (5225, 0.0, 0.07),
    (5225, 0.5, 0.09),
]
MASK = 2**64 - 1


def splitmix64(number):
    z = (number + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    return z ^ z >> 31


def ranking(random):
    """Distinct scores, which are exact in float32, and whole-number gains of which at least one is above 0."""
    items = int(random.integers(1, 60))
    queries = int(random.integers(1, 5))
    scores = np.array([random.permutation(items) for _ in range(queries)]) / 64 - 0.25
    gains = random.integers(1, 6, size=(queries, items)) * (random.random((queries, items)) < random.random())
    gains[np.arange(queries), random.integers(items, size=queries)] = random.integers(1, 6)
    relevance = {f"q{q}": {f"d{d}": int(g) for d, g in enumerate(row) if g} for q, row in enumerate(gains)}
    run = {f"q{q}": {f"d{d}": float(s) for d, s in enumerate(row)} for q, row in enumerate(scores)}
    found = pytrec_eval.RelevanceEvaluator(relevance, MEASURES).evaluate(run)
    expected = [found[f"q{q}"] for q in range(queries)]
    return {"scores": scores.tolist(), "gains": gains.tolist(), "expected": expected}


def test(seed, n, weight, shift):
    u = np.array([splitmix64(seed * 2**32 + i) >> 40 for i in range(2 * n)]) / 2**24
    a = u[::2]
    b = (1 - weight) * u[1::2] + weight * a - shift
    found = ttest_rel(a, b)
    interval = found.confidence_interval(0.95)
    return {
        "seed": seed, "n": n, "weight": weight, "shift": shift,
        "t": found.statistic, "p": found.pvalue, "df": int(found.df), "low": interval.low, "high": interval.high,
        "mean": np.mean(a - b), "deviation": np.std(a - b, ddof=1),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    seed = parser.parse_args().seed
    print(VERSIONS)
    random = np.random.default_rng(seed)
    rankings = [ranking(random) for _ in range(30)]
    tests = [test(seed, *series) for seed, series in enumerate(SERIES)]
    for found in tests:
        print(found)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    whole = {"versions": VERSIONS, "formula": FORMULA, "rankings": rankings, "tests": tests}
    OUT.write_text(json.dumps(whole, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
