#!/usr/bin/env python3
"""Finds the coefficients of the error function in crates/encode/src/kernels.rs, and prints them with their errors.

erf(x) is approximated by x P(x^2) / Q(x^2), P and Q of degree 5, for |x| up to the point where erf is 1 in 32 bits.
The fit is a linear least squares problem, P - f Q = 0 with Q(0) = 1, solved again and again: each point is weighted by
1 / Q of the solution before (which makes the residual that of the quotient) and by how far off it was (which evens the
errors out, as in Lawson's algorithm).

Run: python golden/erf_fit.py        (versions in golden/requirements.txt)
"""

import numpy as np
import scipy
from numpy.polynomial import polynomial
from scipy.special import erf

REACH = 3.9192059
DEGREE = 5
POINTS = 4000
ROUNDS = 60


def main() -> None:
    print(f"numpy {np.__version__}, scipy {scipy.__version__}")
    x = REACH * np.cos(np.pi * (np.arange(POINTS) + 0.5) / (2 * POINTS))
    t = (x / REACH) ** 2
    f = erf(x) / x
    powers = np.vander(t, DEGREE + 1, increasing=True)
    matrix = np.hstack([powers, -f[:, None] * powers[:, 1:]])
    quotient_weight, evening = np.ones(POINTS), np.ones(POINTS)
    best = (np.inf, None, None)
    for _ in range(ROUNDS):
        weight = np.sqrt(evening) * quotient_weight
        solution, *_ = np.linalg.lstsq(matrix * weight[:, None], f * weight, rcond=None)
        p, q = solution[: DEGREE + 1], np.r_[1.0, solution[DEGREE + 1 :]]
        denominator = polynomial.polyval(t, q)
        error = np.abs((polynomial.polyval(t, p) / denominator - f) * x)
        if error.max() < best[0]:
            best = (error.max(), p, q)
        quotient_weight = np.abs(x / denominator)
        evening *= np.sqrt(error / error.mean())
        evening /= evening.mean()
    error, p, q = best
    scale = (REACH**2) ** np.arange(DEGREE + 1)
    p, q = p / scale, q / scale
    print("P", [float(c) for c in p])
    print("Q", [float(c) for c in q])
    print(f"largest error of the fit {error:.2e}")

    wide = np.linspace(-6, 6, 2_000_001).astype(np.float32)
    cut = np.clip(wide, -np.float32(REACH), np.float32(REACH))
    rounded = cut * horner(p, cut * cut) / horner(q, cut * cut)
    print(f"largest error in 32 bits {np.abs(rounded - erf(wide.astype(np.float64))).max():.2e}")


def horner(coefficients: np.ndarray, x: np.ndarray) -> np.ndarray:
    total = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1].astype(np.float32):
        total = total * x + coefficient
    return total


if __name__ == "__main__":
    main()
