#!/usr/bin/env python3
"""Finds the coefficients of the normal distribution's tail in crates/kernels/src/gelu.rs, and prints them with their errors.

The tail from y >= 0 on is exp(-y^2 / 2) M(y), and M is approximated by A(y) / B(y), of degree 4 and 5, for y up to where
the exponential is 0 in 32 bits. The fit is a linear least squares problem, A - M B = 0 with B(0) = 1, solved again and
again: each point is weighted by 1 / (M B) of the solution before (which makes the residual the relative error of the
quotient) and by how far off it was (which evens the errors out, as in Lawson's algorithm).

Run: python golden/tail_fit.py        (versions in golden/requirements.txt)
"""

import numpy as np
import scipy
from numpy.polynomial import polynomial
from scipy.special import erfcx, log_ndtr

REACH = 15.0
ABOVE, BELOW = 4, 5
POINTS = 4000
ROUNDS = 200


def main() -> None:
    print(f"numpy {np.__version__}, scipy {scipy.__version__}")
    # Denser towards 0, where M bends most.
    y = REACH * (0.5 - 0.5 * np.cos(np.pi * (np.arange(POINTS) + 0.5) / POINTS)) ** 1.5
    u = y / REACH
    m = 0.5 * erfcx(y / np.sqrt(2))
    matrix = np.hstack(
        [np.vander(u, ABOVE + 1, increasing=True), -m[:, None] * np.vander(u, BELOW + 1, increasing=True)[:, 1:]]
    )
    quotient_weight, evening = 1 / m, np.ones(POINTS)
    best = (np.inf, None, None)
    for _ in range(ROUNDS):
        weight = np.sqrt(evening) * quotient_weight
        rows = matrix * weight[:, None]
        size = np.linalg.norm(rows, axis=0)
        solution, *_ = np.linalg.lstsq(rows / size, m * weight, rcond=None)
        solution /= size
        a, b = solution[: ABOVE + 1], np.r_[1.0, solution[ABOVE + 1 :]]
        denominator = polynomial.polyval(u, b)
        error = np.abs(polynomial.polyval(u, a) / denominator / m - 1)
        if error.max() < best[0]:
            best = (error.max(), a, b)
        quotient_weight = 1 / np.abs(m * denominator)
        evening *= np.sqrt(error / error.mean())
        evening /= evening.mean()
    error, a, b = best
    a, b = a / REACH ** np.arange(ABOVE + 1), b / REACH ** np.arange(BELOW + 1)
    print("A", [str(np.float32(c)) for c in a])
    print("B", [str(np.float32(c)) for c in b])
    print(f"largest relative error of the fit {error:.2e}")

    wide = np.linspace(0, 12, 2_000_001).astype(np.float32)
    rounded = (horner(a, wide) / horner(b, wide)).astype(np.float64)
    expected = np.exp(log_ndtr(-wide.astype(np.float64)) + wide.astype(np.float64) ** 2 / 2)
    print(f"largest relative error in 32 bits {np.abs(rounded / expected - 1).max():.2e}")


def horner(coefficients: np.ndarray, x: np.ndarray) -> np.ndarray:
    total = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1].astype(np.float32):
        total = total * x + coefficient
    return total


if __name__ == "__main__":
    main()
