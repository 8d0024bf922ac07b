//! Layer norm and its gradient, and sums over the rows of a matrix.
//!
//! ```text
//! y = γ x̂ + β        x̂ = (x - mean) r        r = 1 / √(variance + ε)
//! dx = r (γ g - mean(γ g) - x̂ mean(γ g x̂))   dγ = Σ g x̂   dβ = Σ g   over rows
//! ```
//!
//! Mean and variance are computed again for the gradient: keeping them would save little.

// Inlined into functions that are compiled for the vector unit.
#![allow(clippy::inline_always, unsafe_code)]

use rayon::prelude::*;

use crate::lanes::{sum, sum2};
use crate::raw::{Isa, Output, Work, written};

/// Rows that one thread does at a time; sums over rows are made of the sums over so many.
const ROWS: usize = 32;

/// Scale and shift of a norm, and what is added to a variance.
#[derive(Debug, Clone, Copy)]
pub struct Norm<'a> {
    /// γ, as long as a row.
    pub scale: &'a [f32],
    /// β, as long as a row.
    pub shift: &'a [f32],
    /// ε
    pub epsilon: f32,
}

/// What a norm's gradient is by.
#[derive(Debug, Clone, PartialEq)]
pub struct NormGradient {
    /// By the input.
    pub input: Vec<f32>,
    /// By γ.
    pub scale: Vec<f32>,
    /// By β.
    pub shift: Vec<f32>,
}

impl Norm<'_> {
    fn check(&self, x: &[f32]) -> usize {
        let width = self.scale.len();
        assert!(
            width > 0 && self.shift.len() == width,
            "scale and shift of one length"
        );
        assert!(x.len().is_multiple_of(width), "rows of the norm's width");
        width
    }

    /// The norm of every row.
    ///
    /// # Panics
    /// If `x` is not rows of the norm's width.
    pub fn forward(&self, x: &[f32]) -> Vec<f32> {
        let width = self.check(x);
        let isa = Isa::here();
        // SAFETY: every row is written, each by one task.
        unsafe {
            written(x.len() / width, width, |out| {
                x.par_chunks(ROWS * width).enumerate().for_each(|(nth, x)| {
                    isa.run(Forward {
                        norm: self,
                        x,
                        out: &out.part(nth * ROWS, x.len() / width, 0, width),
                    });
                });
            })
        }
    }

    /// The gradients, given that by the output.
    ///
    /// # Panics
    /// If `x` is not rows of the norm's width, or `grad` is of another length.
    pub fn gradient(&self, x: &[f32], grad: &[f32]) -> NormGradient {
        let width = self.check(x);
        assert_eq!(x.len(), grad.len(), "gradient and input");
        let isa = Isa::here();
        let mut parts = Vec::new();
        // SAFETY: every row is written, each by one task.
        let input = unsafe {
            written(x.len() / width, width, |out| {
                x.par_chunks(ROWS * width)
                    .zip(grad.par_chunks(ROWS * width))
                    .enumerate()
                    .map(|(nth, (x, grad))| {
                        let out = &out.part(nth * ROWS, x.len() / width, 0, width);
                        isa.run(Backward {
                            norm: self,
                            x,
                            grad,
                            out,
                        })
                    })
                    .collect_into_vec(&mut parts);
            })
        };
        let (mut scale, mut shift) = (vec![0.0; width], vec![0.0; width]);
        for (part_scale, part_shift) in parts {
            add(&mut scale, &part_scale);
            add(&mut shift, &part_shift);
        }
        NormGradient { input, scale, shift }
    }

    /// Mean and r of a row.
    #[inline(always)]
    fn moments(&self, row: &[f32]) -> (f32, f32) {
        let count = row.len() as f32;
        let mean = sum(row, |x| x) / count;
        let variance = sum(row, |x| (x - mean) * (x - mean)) / count;
        (mean, 1.0 / (variance + self.epsilon).sqrt())
    }
}

struct Forward<'a> {
    norm: &'a Norm<'a>,
    x: &'a [f32],
    out: &'a Output<'a>,
}

impl Work for Forward<'_> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        let Norm { scale, shift, .. } = *self.norm;
        for (nth, x) in self.x.chunks_exact(scale.len()).enumerate() {
            let (mean, r) = self.norm.moments(x);
            // SAFETY: this part of the output is this task's alone.
            let out = unsafe { self.out.fresh_row(nth) };
            for (((out, x), scale), shift) in out.iter_mut().zip(x).zip(scale).zip(shift) {
                out.write(scale * ((x - mean) * r) + shift);
            }
        }
    }
}

struct Backward<'a> {
    norm: &'a Norm<'a>,
    x: &'a [f32],
    grad: &'a [f32],
    out: &'a Output<'a>,
}

impl Work for Backward<'_> {
    type Result = (Vec<f32>, Vec<f32>);

    #[inline(always)]
    fn run(self) -> Self::Result {
        let scale = self.norm.scale;
        let width = scale.len();
        let count = width as f32;
        let (mut by_scale, mut by_shift) = (vec![0.0; width], vec![0.0; width]);
        let mut centred = vec![0.0; width];
        let mut scaled = vec![0.0; width];
        for (nth, (x, grad)) in self
            .x
            .chunks_exact(width)
            .zip(self.grad.chunks_exact(width))
            .enumerate()
        {
            let (mean, r) = self.norm.moments(x);
            for at in 0..width {
                centred[at] = (x[at] - mean) * r;
                scaled[at] = scale[at] * grad[at];
                by_scale[at] += grad[at] * centred[at];
                by_shift[at] += grad[at];
            }
            let first = sum(&scaled, |x| x) / count;
            let second = sum2(&scaled, &centred, |a, b| a * b) / count;
            // SAFETY: this part of the output is this task's alone.
            let out = unsafe { self.out.fresh_row(nth) };
            for ((out, scaled), centred) in out.iter_mut().zip(&scaled).zip(&centred) {
                out.write(r * (scaled - first - centred * second));
            }
        }
        (by_scale, by_shift)
    }
}

/// The sum of all rows.
///
/// # Panics
/// If `x` is not rows of this width.
pub fn sum_of_rows(x: &[f32], width: usize) -> Vec<f32> {
    assert!(width > 0 && x.len().is_multiple_of(width), "rows of the width");
    let isa = Isa::here();
    let parts: Vec<Vec<f32>> = x
        .par_chunks(ROWS * width)
        .map(|x| isa.run(Sum { x, width }))
        .collect();
    let mut sum = vec![0.0; width];
    for part in parts {
        add(&mut sum, &part);
    }
    sum
}

struct Sum<'a> {
    x: &'a [f32],
    width: usize,
}

impl Work for Sum<'_> {
    type Result = Vec<f32>;

    #[inline(always)]
    fn run(self) -> Vec<f32> {
        let mut sum = vec![0.0; self.width];
        for row in self.x.chunks_exact(self.width) {
            add(&mut sum, row);
        }
        sum
    }
}

#[inline(always)]
fn add(sum: &mut [f32], row: &[f32]) {
    for (sum, x) in sum.iter_mut().zip(row) {
        *sum += x;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exact(norm: &Norm<'_>, x: &[f32]) -> Vec<f64> {
        let width = norm.scale.len();
        let mut out = Vec::new();
        for row in x.chunks_exact(width) {
            let mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / width as f64;
            let variance = row.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / width as f64;
            for (at, &x) in row.iter().enumerate() {
                let normed = (f64::from(x) - mean) / (variance + f64::from(norm.epsilon)).sqrt();
                out.push(f64::from(norm.scale[at]) * normed + f64::from(norm.shift[at]));
            }
        }
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// Values against the definition, gradients against differences of it.
        #[test]
        fn norms_equal_the_definition(rows in 1_usize..70, width in 1_usize..70, seed in any::<u32>()) {
            let random = |count: usize, salt: u32| -> Vec<f32> {
                (0..count as u32)
                    .map(|nth| (nth.wrapping_mul(2_654_435_761) ^ seed.wrapping_mul(salt)).wrapping_mul(40503) as f32 / u32::MAX as f32 * 4.0 - 2.0)
                    .collect()
            };
            let (x, grad, scale, shift) = (random(rows * width, 3), random(rows * width, 5), random(width, 7), random(width, 9));
            let norm = Norm { scale: &scale, shift: &shift, epsilon: 1e-3 };
            for (ours, exact) in norm.forward(&x).iter().zip(exact(&norm, &x)) {
                prop_assert!((f64::from(*ours) - exact).abs() < 1e-4, "{ours} {exact}");
            }
            let ours = norm.gradient(&x, &grad);
            let loss = |x: &[f32], scale: &[f32], shift: &[f32]| -> f64 {
                let norm = Norm { scale, shift, epsilon: 1e-3 };
                exact(&norm, x).iter().zip(&grad).map(|(y, &g)| y * f64::from(g)).sum()
            };
            let difference = |numbers: &[f32], at: usize, loss: &dyn Fn(&[f32]) -> f64| {
                let (mut less, mut more) = (numbers.to_vec(), numbers.to_vec());
                less[at] -= 1e-3;
                more[at] += 1e-3;
                (loss(&more) - loss(&less)) / (f64::from(more[at]) - f64::from(less[at]))
            };
            let near = |ours: f32, exact: f64| (f64::from(ours) - exact).abs() < 1e-2 * exact.abs().max(1.0);
            for at in [0, rows * width / 2, rows * width - 1] {
                // A row of nearly equal numbers has a gradient that differences do not follow.
                let row = &x[at / width * width..][..width];
                let spread = row.iter().fold(0.0_f32, |most, x| most.max((x - row[0]).abs()));
                prop_assume!(spread > 0.5);
                let exact = difference(&x, at, &|x| loss(x, &scale, &shift));
                prop_assert!(near(ours.input[at], exact), "{} {exact}", ours.input[at]);
            }
            for at in [0, width - 1] {
                let exact = difference(&scale, at, &|scale| loss(&x, scale, &shift));
                prop_assert!(near(ours.scale[at], exact), "{} {exact}", ours.scale[at]);
                let exact = difference(&shift, at, &|shift| loss(&x, &scale, shift));
                prop_assert!(near(ours.shift[at], exact), "{} {exact}", ours.shift[at]);
            }
            let summed = sum_of_rows(&grad, width);
            for (ours, shift) in summed.iter().zip(&ours.shift) {
                prop_assert!((ours - shift).abs() < 1e-4);
            }
        }
    }
}
