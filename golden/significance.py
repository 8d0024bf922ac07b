"""Expected values for the tests over clusters, by permutation and of several hypotheses of hark-nearest.

Writes crates/metrics/tests/golden/significance.json: paired series given by a formula with

- `clustered`: what statsmodels finds for the constant in a regression of the differences on a constant, with
  cov_type="cluster" and its default correction for few clusters, by Student's t;
- `permutation`: the exact two-sided p of scipy's permutation_test with permutation_type="samples", over pairs, or over the
  sums of clusters, which flip as one;
- `holm`: lists of p with what statsmodels' multipletests(method="holm") makes of them.

    pip install -r golden/requirements.txt
    python golden/significance.py
"""

import argparse
import json
import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np
import statsmodels.api as sm
from metrics import splitmix64
from scipy.stats import permutation_test
from statsmodels.stats.multitest import multipletests

OUT = Path(__file__).parent.parent / "crates/metrics/tests/golden/significance.json"
VERSIONS = {"python": platform.python_version()} | {name: version(name) for name in ("numpy", "scipy", "statsmodels")}
FORMULA = (
    "u(i) = (splitmix64(seed * 2^32 + i) >> 40) / 2^24; cluster[i] = i div 5 where `fives`, else floor(u(2^30 + i) * clusters); "
    "a[i] = u(2i) + effect * u(2^31 + cluster[i]); b[i] = u(2i + 1) - shift; with a `grid`, both are rounded down to multiples of 1 / grid"
)
# n, number of clusters, whether they are five neighbours each, how much a cluster has in common, shift.
CLUSTERED = [
    (4, 2, False, 0.0, 0.1), (10, 2, True, 1.0, 0.0), (10, 4, False, 0.5, 0.3), (25, 5, True, 0.5, -0.2), (60, 12, True, 2.0, 0.0),
    (61, 7, False, 1.0, 0.1), (200, 150, False, 0.5, 0.0), (500, 100, True, 0.3, 0.05), (5225, 1045, True, 0.5, -0.25),
    (5225, 1045, True, 0.0, 0.005), (5225, 30, False, 0.2, 0.1), (5225, 1045, True, 0.5, 0.05),
]
# n, number of clusters (0: none), whether they are five neighbours each, effect, shift, grid (0: none).
PERMUTATION = [
    (2, 0, False, 0.0, 0.0, 0), (5, 0, False, 0.0, 0.3, 0), (10, 0, False, 0.0, 0.1, 0), (14, 0, False, 0.0, 0.0, 0),
    (14, 0, False, 0.0, 0.2, 0), (14, 0, False, 0.0, 0.3, 4), (13, 0, False, 0.0, 0.0, 8), (12, 0, False, 0.0, 0.5, 2),
    (60, 12, True, 0.5, 0.0, 0), (65, 13, True, 0.5, -0.1, 0), (40, 9, False, 1.0, -0.3, 8), (65, 13, True, 0.3, 0.0, 4),
]


def series(case):
    """The two series and their clusters, by the formula."""
    n = case["n"]

    def u(i):
        return (splitmix64(case["seed"] * 2**32 + i) >> 40) / 2**24

    clusters = [i // 5 if case["fives"] else int(u(2**30 + i) * case["clusters"]) for i in range(n)]
    a = np.array([u(2 * i) + case["effect"] * u(2**31 + cluster) for i, cluster in enumerate(clusters)])
    b = np.array([u(2 * i + 1) - case["shift"] for i in range(n)])
    if case["grid"]:
        a, b = np.floor(a * case["grid"]) / case["grid"], np.floor(b * case["grid"]) / case["grid"]
    return a, b, np.array(clusters)


def clustered(seed, n, clusters, fives, effect, shift):
    case = {"seed": seed, "n": n, "clusters": clusters, "fives": fives, "effect": effect, "shift": shift, "grid": 0}
    a, b, groups = series(case)
    fit = sm.OLS(a - b, np.ones(n)).fit(cov_type="cluster", cov_kwds={"groups": groups}, use_t=True)
    low, high = fit.conf_int(0.05)[0]
    found = {
        "mean": fit.params[0], "error": fit.bse[0], "t": fit.tvalues[0], "p": fit.pvalues[0], "low": low, "high": high,
        "df": len(set(groups.tolist())) - 1,
    }
    return case | {name: value if name == "df" else float(value) for name, value in found.items()}


def permuted(seed, n, clusters, fives, effect, shift, grid):
    case = {"seed": seed, "n": n, "clusters": clusters, "fives": fives, "effect": effect, "shift": shift, "grid": grid}
    a, b, groups = series(case)
    if clusters:
        names = np.unique(groups)
        a, b = (np.array([values[groups == name].sum() for name in names]) for values in (a, b))

    def mean_difference(x, y, axis):
        return np.sum(x - y, axis=axis) / n

    found = permutation_test((a, b), mean_difference, permutation_type="samples", n_resamples=np.inf, vectorized=True)
    return case | {"units": len(a), "mean": float(found.statistic), "p": float(found.pvalue)}


def adjusted(random, number):
    # Some are equal, some are 0 or 1.
    p = np.round(random.random(number) ** 3, int(random.integers(1, 9)))
    return {"p": p.tolist(), "adjusted": multipletests(p, method="holm")[1].tolist()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    random = np.random.default_rng(parser.parse_args().seed)
    print(VERSIONS)
    whole = {
        "versions": VERSIONS, "formula": FORMULA,
        "clustered": [clustered(seed, *case) for seed, case in enumerate(CLUSTERED)],
        "permutation": [permuted(100 + seed, *case) for seed, case in enumerate(PERMUTATION)],
        "holm": [adjusted(random, number) for number in (1, 2, 3, 5, 8, 13, 21, 34)],
    }
    for found in whole["clustered"] + whole["permutation"]:
        print(found)
    OUT.write_text(json.dumps(whole, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
