//! The exact GELU and its gradient.
//!
//! ```text
//! gelu(x)         = x Φ(x)               Φ(-y) = exp(-y² / 2) M(y), Φ(y) = 1 - Φ(-y), y ≥ 0
//! gradient(g, x)  = g (Φ(x) + x φ(x))    φ(x) = exp(-x² / 2) / √(2π)
//! ```
//!
//! M is A / B with polynomials of degree 4 and 5, fitted to y ≤ 15 by iteratively reweighted least squares
//! (`golden/tail_fit.py`); beyond that the tail's f32 value is 0. The fit is within 7e-9 and 32-bit rounding within 5e-7,
//! relative: unlike 1 + erf(x / √2), the tail keeps its leading digits, and with it the gradients of weights behind
//! units that are nearly shut, which Adam makes as large as all others.
//!
//! The exponential is 2ⁿ exp(r) with n the nearest whole number to t / ln 2 and |r| ≤ ln 2 / 2, where Taylor's
//! polynomial of degree 7 is within 6e-9 of exp(r), relative; with 32-bit rounding the whole is within 2.5e-7 on
//! [-88, 0].
//!
//! NaN stays NaN in both. gelu(+∞) is +∞ and gelu(-∞) is NaN, as in Burn. The gradient at ±∞ is its
//! limit, 1 or 0 times g, where Burn's is NaN.
//!
//! No product and sum is contracted, so that every processor and every number of threads gives the same bits.

// The loops must be inlined into the function that is compiled for the vector unit: that is their whole point.
#![allow(clippy::inline_always)]

use rayon::prelude::*;

use crate::raw::{Isa, Work};
use crate::{PIECE, SPLIT_FROM};

/// Where the tail is 0 in 32 bits.
const REACH: f32 = 15.0;
/// A and B, constant terms first.
const A: [f32; 5] = [0.5, 0.439_279_02, 0.183_965_64, 0.040_879_883, 0.004_153_026_7];
const B: [f32; 6] = [
    1.0,
    1.676_443_1,
    1.205_534_2,
    0.471_399_4,
    0.102_476_78,
    0.010_409_983,
];
/// Taylor's coefficients of the exponential.
const TAYLOR: [f32; 8] = [
    1.0,
    1.0,
    1.0 / 2.0,
    1.0 / 6.0,
    1.0 / 24.0,
    1.0 / 120.0,
    1.0 / 720.0,
    1.0 / 5040.0,
];
/// ln 2 as a number of nine bits, whose product with n is exact, and the rest.
const LN_2_HIGH: f32 = 355.0 / 512.0;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// 1.5 · 2²³: between 2²³ and 2²⁴ the numbers of 32 bits are the whole ones.
const WHOLE: f32 = 12_582_912.0;
/// The exponent of 2⁶⁴, and 2⁻⁶⁴.
const LIFT: i32 = 64;
const LOWER: f32 = 5.421_011e-20;
/// 1 / √(2π)
const DENSITY_PEAK: f32 = 0.398_942_3;

/// gelu(x), as new numbers.
pub fn gelu(x: &[f32]) -> Vec<f32> {
    let mut out = vec![0.0; x.len()];
    Pass::Forward(x, &mut out).run_all();
    out
}

/// x becomes gelu(x).
pub fn gelu_in_place(x: &mut [f32]) {
    Pass::ForwardInPlace(x).run_all();
}

/// The gradient by gelu(x) becomes that by x.
///
/// # Panics
/// If the two are not of the same length.
pub fn gelu_gradient(grad: &mut [f32], x: &[f32]) {
    assert_eq!(grad.len(), x.len(), "gradient and input");
    Pass::Gradient(grad, x).run_all();
}

/// One pass over numbers. The slices of a pass are of the same length.
enum Pass<'a> {
    /// x becomes gelu(x).
    ForwardInPlace(&'a mut [f32]),
    /// gelu(x) goes to the second slice.
    Forward(&'a [f32], &'a mut [f32]),
    /// The gradient by gelu(x), the first slice, becomes that by x, the second.
    Gradient(&'a mut [f32], &'a [f32]),
}

impl Pass<'_> {
    /// All of the work: on all threads if it is long, in pieces of a fixed length.
    fn run_all(self) {
        let isa = Isa::here();
        if self.len() < SPLIT_FROM {
            return isa.run(self);
        }
        match self {
            Pass::ForwardInPlace(x) => {
                x.par_chunks_mut(PIECE)
                    .for_each(|x| isa.run(Pass::ForwardInPlace(x)));
            }
            Pass::Forward(x, out) => x
                .par_chunks(PIECE)
                .zip(out.par_chunks_mut(PIECE))
                .for_each(|(x, out)| isa.run(Pass::Forward(x, out))),
            Pass::Gradient(grad, x) => grad
                .par_chunks_mut(PIECE)
                .zip(x.par_chunks(PIECE))
                .for_each(|(grad, x)| isa.run(Pass::Gradient(grad, x))),
        }
    }

    fn len(&self) -> usize {
        match self {
            Pass::ForwardInPlace(x) => x.len(),
            Pass::Forward(x, _) | Pass::Gradient(_, x) => x.len(),
        }
    }
}

impl Work for Pass<'_> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        match self {
            Pass::ForwardInPlace(numbers) => {
                for x in numbers {
                    *x *= normal(*x).0;
                }
            }
            Pass::Forward(numbers, out) => {
                for (x, out) in numbers.iter().zip(out) {
                    *out = x * normal(*x).0;
                }
            }
            Pass::Gradient(grad, numbers) => {
                for (grad, x) in grad.iter_mut().zip(numbers) {
                    let (cumulative, density_term) = normal(*x);
                    *grad *= cumulative + density_term;
                }
            }
        }
    }
}

/// Φ(x) and x φ(x).
#[inline(always)]
fn normal(x: f32) -> (f32, f32) {
    let x = x.clamp(-REACH, REACH);
    let y = x.abs();
    let bell = exp(-0.5 * x * x);
    let tail = bell * (polynomial(&A, y) / polynomial(&B, y));
    let cumulative = if x > 0.0 { 1.0 - tail } else { tail };
    (cumulative, x * (DENSITY_PEAK * bell))
}

/// The exponential of t in [-130, 0].
#[inline(always)]
pub(crate) fn exp(t: f32) -> f32 {
    // The sum is rounded to a whole number, which its lowest bits then are: no conversion is needed.
    let shifted = t * std::f32::consts::LOG2_E + WHOLE;
    let n = shifted - WHOLE;
    let r = (t - n * LN_2_HIGH) - n * LN_2_LOW;
    // 2ⁿ may be too small for the bits of an exponent, so that it is made 2⁶⁴ too large and rounded once, at the end.
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(((127 + LIFT) as u32) << 23));
    polynomial(&TAYLOR, r) * power * LOWER
}

/// The polynomial with these coefficients, constant term first.
#[inline(always)]
fn polynomial<const N: usize>(coefficients: &[f32; N], x: f32) -> f32 {
    let mut sum = coefficients[N - 1];
    for nth in (0..N - 1).rev() {
        // Not `mul_add`, which is a function call where the processor has no such instruction.
        sum = sum * x + coefficients[nth];
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// -12 to 12; long enough that the work is split over threads, and not into equal pieces.
    fn grid() -> Vec<f32> {
        (-120_000..=120_000).map(|n| n as f32 * 1e-4).collect()
    }

    #[test]
    fn the_exponential_is_right() {
        for nth in 0..=880_000 {
            let t = -1e-4 * nth as f32;
            let expected = f64::from(t).exp();
            let error = (f64::from(exp(t)) - expected).abs() / expected;
            // What Taylor's polynomial leaves out and the rounding of eight sums, as the header says. The last of these
            // numbers are so small that they have a bit less than the others.
            assert!(error <= 2.5e-7, "exp({t}) is off by {error}");
        }
        assert_eq!(exp(0.0).to_bits(), 1_f32.to_bits());
        assert_eq!(exp(-0.5 * REACH * REACH).to_bits(), 0);
    }

    #[test]
    fn the_vector_unit_changes_no_bit() {
        let x = grid();
        let weights: Vec<f32> = x.iter().map(|x| x.cos()).collect();
        let mut plain = x.clone();
        Pass::ForwardInPlace(&mut plain).run();
        let mut in_place = x.clone();
        gelu_in_place(&mut in_place);
        let apart = gelu(&x);
        let mut plain_gradient = weights.clone();
        Pass::Gradient(&mut plain_gradient, &x).run();
        let mut gradient = weights;
        gelu_gradient(&mut gradient, &x);
        let bits = |numbers: &[f32]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert!(bits(&in_place) == bits(&plain));
        assert!(bits(&apart) == bits(&plain));
        assert!(bits(&gradient) == bits(&plain_gradient));
    }
}
