//! One step of AdamW over numbers in memory, and the sum of squares that a gradient's norm is the root of.

// Inlined into functions that are compiled for the vector unit.
#![allow(clippy::inline_always)]

use rayon::prelude::*;

use crate::PIECE;
use crate::raw::{Isa, Work};

/// The factors of a step, the same for all numbers of a parameter:
///
/// ```text
/// g ← scale g
/// m ← β₁ m + (1 - β₁) g,   v ← β₂ v + (1 - β₂) g²
/// x ← kept x - step m / (√v / root + ε)
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamStep {
    /// What gradients are multiplied by first.
    pub scale: f32,
    /// How much of the first moment stays.
    pub beta_1: f32,
    /// How much of the second moment stays.
    pub beta_2: f32,
    /// ε
    pub epsilon: f32,
    /// What weight decay leaves.
    pub kept: f32,
    /// The rate, corrected for the first moment's start at 0.
    pub step: f32,
    /// The correction for the second moment's.
    pub root: f32,
}

impl AdamStep {
    /// Changes a parameter and its moments, on all threads.
    ///
    /// # Panics
    /// If the four are not of one length.
    pub fn run(&self, x: &mut [f32], first: &mut [f32], second: &mut [f32], gradient: &[f32]) {
        let count = x.len();
        assert!(
            first.len() == count && second.len() == count && gradient.len() == count,
            "a parameter, its moments and its gradient"
        );
        let isa = Isa::here();
        x.par_chunks_mut(PIECE)
            .zip(first.par_chunks_mut(PIECE))
            .zip(second.par_chunks_mut(PIECE))
            .zip(gradient.par_chunks(PIECE))
            .for_each(|(((x, first), second), gradient)| {
                isa.run(Adam {
                    step: self,
                    x,
                    first,
                    second,
                    gradient,
                });
            });
    }
}

struct Adam<'a> {
    step: &'a AdamStep,
    x: &'a mut [f32],
    first: &'a mut [f32],
    second: &'a mut [f32],
    gradient: &'a [f32],
}

impl Work for Adam<'_> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        let AdamStep {
            scale,
            beta_1,
            beta_2,
            epsilon,
            kept,
            step,
            root,
        } = *self.step;
        let moments = self.first.iter_mut().zip(self.second);
        for ((x, (m, v)), g) in self.x.iter_mut().zip(moments).zip(self.gradient) {
            let g = g * scale;
            *m = beta_1 * *m + (1.0 - beta_1) * g;
            *v = beta_2 * *v + (1.0 - beta_2) * g * g;
            *x = *x * kept - step * *m / (v.sqrt() / root + epsilon);
        }
    }
}

/// The sum of the squares, in 64 bits, on all threads. How many there are changes no bit.
pub fn sum_of_squares(numbers: &[f32]) -> f64 {
    let isa = Isa::here();
    let pieces: Vec<f64> = numbers
        .par_chunks(PIECE)
        .map(|piece| isa.run(Squares(piece)))
        .collect();
    pieces.into_iter().sum()
}

struct Squares<'a>(&'a [f32]);

impl Work for Squares<'_> {
    type Result = f64;

    #[inline(always)]
    fn run(self) -> f64 {
        const LANES: usize = 16;
        let mut sums = [0.0_f64; LANES];
        let (whole, rest) = self.0.as_chunks::<LANES>();
        for chunk in whole {
            for (sum, &x) in sums.iter_mut().zip(chunk) {
                *sum += f64::from(x) * f64::from(x);
            }
        }
        for (sum, &x) in sums.iter_mut().zip(rest) {
            *sum += f64::from(x) * f64::from(x);
        }
        sums.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count)
            .map(|nth| ((nth * 7919 + seed * 31) % 2003) as f32 / 1001.0 - 1.0)
            .collect()
    }

    #[test]
    fn a_step_is_the_formula() {
        let count = 2 * PIECE + 77;
        let (mut x, mut m, mut v, g) = (
            numbers(count, 1),
            numbers(count, 2),
            numbers(count, 3).iter().map(|x| x.abs()).collect::<Vec<_>>(),
            numbers(count, 4),
        );
        let step = AdamStep {
            scale: 0.5,
            beta_1: 0.9,
            beta_2: 0.99,
            epsilon: 1e-8,
            kept: 0.999,
            step: 0.01,
            root: 0.3,
        };
        let before = (x.clone(), m.clone(), v.clone());
        step.run(&mut x, &mut m, &mut v, &g);
        for at in 0..count {
            let g = f64::from(g[at]) * 0.5;
            let first = 0.9 * f64::from(before.1[at]) + 0.1 * g;
            let second = 0.99 * f64::from(before.2[at]) + 0.01 * g * g;
            let new = f64::from(before.0[at]) * 0.999 - 0.01 * first / (second.sqrt() / 0.3 + 1e-8);
            assert!((f64::from(m[at]) - first).abs() < 1e-6);
            assert!((f64::from(v[at]) - second).abs() < 1e-6);
            assert!(
                (f64::from(x[at]) - new).abs() < 1e-5 * new.abs().max(1.0),
                "{at}: {} {new}",
                x[at]
            );
        }
    }

    #[test]
    fn squares_are_summed() {
        let numbers = numbers(PIECE + 41, 5);
        let exact: f64 = numbers.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
        assert!((sum_of_squares(&numbers) - exact).abs() < 1e-9 * exact);
        assert!(sum_of_squares(&[]).abs() < f64::MIN_POSITIVE);
    }
}
