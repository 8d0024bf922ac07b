//! Elementwise work that the CPU backend leaves slow, written for the vector units; this crate's one place with `unsafe`.
//!
//! Burn's CPU backend computes GELU one number at a time through a scalar error function: a quarter of the time of a
//! sentence encoder. [`gelu`] does it for whole vectors. Other devices, and tensors that carry gradients, go to Burn.
//!
//! The error function is x P(x²) / Q(x²) with polynomials of degree 5, fitted to |x| ≤ 3.92 by iteratively reweighted
//! least squares (`golden/erf_fit.py`); beyond that its f32 value is ±1. The fit is within 2e-8, 32-bit rounding within
//! 5e-7.

#![allow(unsafe_code)]
// The loops must be inlined into the function that is compiled for the vector unit: that is their whole point.
#![allow(clippy::inline_always)]
// P begins near 2/sqrt(pi) because erf does; it is a fitted number all the same.
#![allow(clippy::approx_constant)]

use burn::tensor::{Device, Tensor, TensorData, activation};

/// Where the error function reaches 1 in 32 bits.
const REACH: f32 = 3.919_206;
/// P and Q, constant terms first.
const P: [f32; 6] = [
    1.128_379,
    0.192_718_88,
    0.053_054_82,
    0.003_866_474_8,
    0.000_287_453_06,
    2.035_289_2e-6,
];
const Q: [f32; 6] = [
    1.0,
    0.504_124_34,
    0.115_066_23,
    0.015_168_575,
    0.001_187_694_2,
    3.807_498_5e-5,
];

/// x Φ(x), the exact GELU.
pub(crate) fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let device = x.device();
    if x.is_autodiff() || device != Device::flex() {
        return activation::gelu(x);
    }
    let shape = x.shape();
    // On this backend the numbers are moved out and in again, not copied.
    match x.into_data().try_into_vec::<f32>() {
        Ok(mut numbers) => {
            gelu_in_place(&mut numbers);
            Tensor::from_data(TensorData::new(numbers, shape), &device)
        }
        Err(_) => unreachable!("the CPU device computes in f32"),
    }
}

fn gelu_in_place(numbers: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: the two features that the function is compiled for have just been detected.
        unsafe { gelu_avx2(numbers) };
        return;
    }
    gelu_loop(numbers);
}

/// The same loop, compiled for eight numbers at a time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn gelu_avx2(numbers: &mut [f32]) {
    gelu_loop(numbers);
}

#[inline(always)]
fn gelu_loop(numbers: &mut [f32]) {
    for x in numbers {
        *x = 0.5 * *x * (1.0 + erf(*x * std::f32::consts::FRAC_1_SQRT_2));
    }
}

#[inline(always)]
fn erf(x: f32) -> f32 {
    let x = x.clamp(-REACH, REACH);
    let square = x * x;
    // At the ends rounding may pass 1 by a last place, which would turn the sign of gelu(-infinity).
    (x * polynomial(&P, square) / polynomial(&Q, square)).clamp(-1.0, 1.0)
}

#[inline(always)]
fn polynomial(coefficients: &[f32; 6], x: f32) -> f32 {
    let mut sum = coefficients[5];
    for nth in (0..5).rev() {
        // Not `mul_add`, which is a function call where the processor has no such instruction.
        sum = sum * x + coefficients[nth];
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against Burn's own GELU, which calls a scalar error function that is right to the last place.
    #[test]
    fn gelu_equals_the_scalar_one() {
        let device = Device::flex();
        let numbers: Vec<f32> = (-120_000..=120_000).map(|n| n as f32 * 1e-4).collect();
        let count = numbers.len();
        let x = || Tensor::<1>::from_data(TensorData::new(numbers.clone(), [count]), &device);
        let ours = gelu(x()).into_data().try_into_vec::<f32>().unwrap();
        let theirs = activation::gelu(x()).into_data().try_into_vec::<f32>().unwrap();
        for ((x, ours), theirs) in numbers.iter().zip(&ours).zip(&theirs) {
            // The rounding of the error function, times half of x.
            let allowed = 5e-7 * (0.5 * x.abs()).max(0.2);
            assert!(
                (ours - theirs).abs() <= allowed,
                "gelu({x}) is {theirs}, not {ours}"
            );
        }
    }

    #[test]
    fn not_a_number_stays_so() {
        let mut numbers = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0];
        gelu_in_place(&mut numbers);
        assert!(numbers[0].is_nan());
        assert!(
            numbers[1] == f32::INFINITY && numbers[3].to_bits() == 0,
            "{numbers:?}"
        );
        // -infinity times zero: not a number, as in the reference, and never +infinity.
        assert!(numbers[2].is_nan(), "{numbers:?}");
    }
}
