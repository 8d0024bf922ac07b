"""Expected values for the correlations of hark-relevance.

Writes crates/relevance/tests/golden/agreement.json: small series, and what scipy's pearsonr and spearmanr find.

    pip install numpy scipy
    python golden/agreement.py
"""

import json
import platform
from pathlib import Path

import numpy as np
import scipy
from scipy.stats import pearsonr, spearmanr

OUT = Path(__file__).parent.parent / "crates/relevance/tests/golden/agreement.json"
VERSIONS = {"python": platform.python_version(), "numpy": np.__version__, "scipy": scipy.__version__}


def cases():
    random = np.random.default_rng(1)
    a = random.normal(size=40)
    yield "noisy line", a, 2 * a + random.normal(size=40)
    yield "independent", a, random.normal(size=40)
    yield "ties in both", np.round(a), np.round(a + random.normal(size=40))
    yield "most values equal", np.r_[np.zeros(30), a[:10]], np.r_[np.ones(25), a[:15]]
    yield "falling curve", a, np.exp(-3 * a)
    yield "far from zero", 1e6 + a, 1e6 + a + 0.1 * random.normal(size=40)
    yield "three values", np.array([1.0, 2.0, 3.0]), np.array([3.0, 1.0, 2.0])


def main():
    print(VERSIONS)
    found = []
    for name, a, b in cases():
        a, b = np.round(a, 6), np.round(b, 6)
        expected = {"pearson": pearsonr(a, b).statistic, "spearman": spearmanr(a, b).statistic}
        print(name, expected)
        found.append({"name": name, "a": a.tolist(), "b": b.tolist(), **expected})
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"versions": VERSIONS, "cases": found}) + "\n")


if __name__ == "__main__":
    main()
