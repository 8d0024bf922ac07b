"""Expected values for the beta regression of hark-relevance.

Writes crates/relevance/tests/golden/beta_regression.json: small data sets, and what statsmodels' BetaModel
(logit link, constant precision with log link) finds for them. BetaModel's optimiser stops at a gradient of about
1e-5; a few Newton steps with its own score and Hessian bring the parameters to full precision. The covariance is
BetaModel's default, the inverse of the observed information.

    pip install numpy scipy statsmodels
    python golden/beta_regression.py
"""

import json
import platform
from pathlib import Path

import numpy as np
import scipy
import statsmodels
from statsmodels.othermod.betareg import BetaModel

OUT = Path(__file__).parent.parent / "crates/relevance/tests/golden/beta_regression.json"
VERSIONS = {
    "python": platform.python_version(),
    "numpy": np.__version__,
    "scipy": scipy.__version__,
    "statsmodels": statsmodels.__version__,
}


def simulate(seed, n, intercept, slope, precision):
    random = np.random.default_rng(seed)
    h = np.round(random.uniform(-0.1, 0.95, n), 4)
    mu = 1 / (1 + np.exp(-(intercept + slope * h)))
    return h, random.beta(mu * precision, (1 - mu) * precision)


def clip(y, by=0.001):
    return np.clip(y, by, 1 - by)


def squeeze(y):
    return (y * (len(y) - 1) + 0.5) / len(y)


def cases():
    # As in the paper: ratings in whole percent, many at the ends, clipped to [0.001, 0.999].
    h, y = simulate(1, 120, -2.73, 4.58, np.exp(0.31))
    percent = np.round(y * 100) / 100
    yield "paper, clipped", h, clip(percent)
    yield "paper, squeezed", h, squeeze(percent)
    h, y = simulate(2, 60, -1.0, 2.0, 80.0)
    yield "high precision", h, clip(y)
    h, y = simulate(3, 60, 0.5, 1.0, 0.3)
    yield "low precision, most ratings at the ends", h, clip(y)
    h, y = simulate(4, 40, 1.5, -3.0, 5.0)
    yield "falling", h, clip(y)
    h, y = simulate(5, 5, -1.0, 3.0, 10.0)
    yield "five observations", h, clip(y)
    h, y = simulate(6, 50, -6.0, 12.0, 4.0)
    yield "steep", h, clip(y)


def fit(h, y):
    model = BetaModel(y, np.column_stack([np.ones_like(h), h]))
    params = model.fit(disp=0, maxiter=500).params
    for _ in range(20):
        params = params - np.linalg.solve(model.hessian(params), model.score(params))
    assert np.linalg.norm(model.score(params)) < 1e-7
    covariance = np.linalg.inv(-model.hessian(params))
    return {
        "intercept": params[0],
        "slope": params[1],
        "log_precision": params[2],
        "standard_errors": np.sqrt(np.diag(covariance)).tolist(),
        "covariance": covariance.tolist(),
        "log_likelihood": model.loglike(params),
    }


def main():
    print(VERSIONS)
    found = []
    for name, h, y in cases():
        y = np.round(y, 6)
        expected = fit(h, y)
        print(name, len(h), expected["intercept"], expected["slope"], expected["log_precision"])
        found.append({"name": name, "similarity": h.tolist(), "rating": y.tolist(), "expected": expected})
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"versions": VERSIONS, "cases": found}) + "\n")


if __name__ == "__main__":
    main()
