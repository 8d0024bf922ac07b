//! A loop of fused multiply-adds on registers, with the widest vectors that the processor has: its arithmetic peak, which
//! `hark-bench peak` measures. This crate's one place with `unsafe`.
//!
//! Each step of a chain needs the result of the one before it. There are as many chains as hide that latency: two units
//! that take four or five cycles need ten, and 16 registers leave room for twelve beside the two factors.

#![allow(unsafe_code)]

/// Accumulators that do not depend on each other.
const CHAINS: usize = 12;

/// The vector unit that the loop uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// What the compiler makes of plain code.
    Plain,
}

impl Unit {
    /// The widest that this processor has.
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                return Self::Avx512;
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                return Self::Avx2;
            }
        }
        Self::Plain
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => "AVX-512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "AVX2 and FMA",
            Self::Plain => "plain",
        }
    }

    /// Numbers in a vector.
    fn lanes(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => 16,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => 8,
            Self::Plain => 4,
        }
    }

    /// Operations of so many steps.
    pub(crate) fn operations(self, steps: u64) -> f64 {
        steps as f64 * (2 * CHAINS * self.lanes()) as f64
    }

    /// Takes so many steps on every chain. The sum depends on all of them, so that none can be left out.
    pub(crate) fn run(self, steps: u64) -> f32 {
        match self {
            // SAFETY: `detect` found the features; the enum's other values are private to this crate's tests.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => unsafe { x86::avx512(steps) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => unsafe { x86::avx2(steps) },
            Self::Plain => plain(steps),
        }
    }
}

/// Below 1, so that sums stay finite however many steps there are.
const FACTOR: f32 = 0.999_999;
const SUMMAND: f32 = 1e-6;

fn plain(steps: u64) -> f32 {
    let mut sums = [[1.0_f32; 4]; CHAINS];
    let (factor, summand) = std::hint::black_box((FACTOR, SUMMAND));
    for _ in 0..steps {
        for chain in &mut sums {
            for sum in chain {
                // Without fused instructions `mul_add` would call a function.
                *sum = if cfg!(target_arch = "aarch64") {
                    sum.mul_add(factor, summand)
                } else {
                    *sum * factor + summand
                };
            }
        }
    }
    sums.iter().flatten().sum()
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        _mm256_fmadd_ps, _mm256_set1_ps, _mm256_storeu_ps, _mm512_fmadd_ps, _mm512_reduce_add_ps,
        _mm512_set1_ps,
    };
    use std::hint::black_box;

    use super::{CHAINS, FACTOR, SUMMAND};

    #[target_feature(enable = "avx512f")]
    pub(super) fn avx512(steps: u64) -> f32 {
        let (factor, summand) = (
            _mm512_set1_ps(black_box(FACTOR)),
            _mm512_set1_ps(black_box(SUMMAND)),
        );
        let mut sums = [_mm512_set1_ps(1.0); CHAINS];
        for _ in 0..steps {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, factor, summand);
            }
        }
        sums.into_iter().map(|sum| _mm512_reduce_add_ps(sum)).sum()
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn avx2(steps: u64) -> f32 {
        let (factor, summand) = (
            _mm256_set1_ps(black_box(FACTOR)),
            _mm256_set1_ps(black_box(SUMMAND)),
        );
        let mut sums = [_mm256_set1_ps(1.0); CHAINS];
        for _ in 0..steps {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, factor, summand);
            }
        }
        let mut numbers = [0.0; 8 * CHAINS];
        for (place, sum) in numbers.chunks_exact_mut(8).zip(sums) {
            // SAFETY: the place has eight numbers.
            unsafe { _mm256_storeu_ps(place.as_mut_ptr(), sum) };
        }
        numbers.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_units_compute_the_same_chain() {
        let steps = 1000;
        let expected = (0..steps).fold(1.0_f32, |sum, _| sum.mul_add(FACTOR, SUMMAND));
        for unit in [Unit::detect(), Unit::Plain] {
            let chains = (CHAINS * unit.lanes()) as f32;
            let got = unit.run(steps) / chains;
            assert!(
                (got - expected).abs() < 1e-4,
                "{unit:?}: {got}, expected {expected}"
            );
            assert!((unit.operations(steps) - f64::from(chains) * 2000.0).abs() < 1e-6);
        }
    }
}
