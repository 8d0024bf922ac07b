//! Loops compiled for the processor that runs them; this crate's one place with `unsafe`.
//!
//! A [`Work`] is written once, over any [`Vector`] of 64-bit floats, and [`run`] compiles it for AVX-512, for AVX2 with FMA
//! and for all others. The choice is made at run time. Lanes do not mix: a lane's result does not depend on the width of the
//! vector, only on whether products and sums round once (FMA) or twice. [`run_bits`] is for loops over bits, one after the
//! other.

#![allow(unsafe_code)]
// The loops must be inlined into the function that is compiled for the vector unit: that is their whole point.
#![allow(clippy::inline_always)]

use std::ops::{Add, Mul, Sub};

/// Some 64-bit floats that are computed with at a time.
pub(crate) trait Vector: Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> {
    /// How many there are.
    const LANES: usize;

    /// The same number in every lane.
    fn splat(number: f64) -> Self;

    /// The lanes' numbers by their positions.
    fn from_fn(number: impl FnMut(usize) -> f64) -> Self;

    /// `self * factor + term`.
    fn times_plus(self, factor: Self, term: Self) -> Self;

    /// `term - self * factor`.
    fn times_from(self, factor: Self, term: Self) -> Self;

    /// The first numbers of a slice.
    ///
    /// # Panics
    /// If there are fewer than lanes.
    fn load(numbers: &[f64]) -> Self;

    /// Writes the lanes to the start of `out`.
    ///
    /// # Panics
    /// If `out` is shorter than the vector.
    fn store(self, out: &mut [f64]);
}

/// What is compiled for each kind of processor. All that `run` calls in its loops must be inlined into it.
pub(crate) trait Work {
    type Output;

    fn run<V: Vector>(self) -> Self::Output;
}

/// Runs the version for this processor.
pub(crate) fn run<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        if has!("avx2") && has!("fma") {
            if has!("avx512f") {
                // SAFETY: the features that the function is compiled for have just been detected.
                return unsafe { x86::avx512(work) };
            }
            // SAFETY: as above.
            return unsafe { x86::avx2(work) };
        }
    }
    work.run::<Plain>()
}

/// Runs the work with instructions that count and shift bits, and without wide vectors: of sums over a few neighbours the
/// compiler would make vectors that wait for the single numbers written just before.
pub(crate) fn run_bits<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        if has!("lzcnt") && has!("bmi1") && has!("bmi2") {
            // SAFETY: the features that the function is compiled for have just been detected.
            return unsafe { x86::bits(work) };
        }
    }
    work.run::<Plain>()
}

/// Four lanes that the compiler maps to whatever there is.
#[derive(Clone, Copy)]
pub(crate) struct Plain([f64; 4]);

impl Plain {
    #[inline(always)]
    fn zip(self, other: Self, of: impl Fn(f64, f64) -> f64) -> Self {
        let (a, b) = (self.0, other.0);
        Self([of(a[0], b[0]), of(a[1], b[1]), of(a[2], b[2]), of(a[3], b[3])])
    }
}

impl Add for Plain {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }
}

impl Sub for Plain {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }
}

impl Mul for Plain {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }
}

impl Vector for Plain {
    const LANES: usize = 4;

    #[inline(always)]
    fn splat(number: f64) -> Self {
        Self([number; 4])
    }

    #[inline(always)]
    fn from_fn(mut number: impl FnMut(usize) -> f64) -> Self {
        Self([number(0), number(1), number(2), number(3)])
    }

    // Without an instruction for it, a fused product would be a call of a function.
    #[inline(always)]
    fn times_plus(self, factor: Self, term: Self) -> Self {
        self * factor + term
    }

    #[inline(always)]
    fn times_from(self, factor: Self, term: Self) -> Self {
        term - self * factor
    }

    #[inline(always)]
    fn load(numbers: &[f64]) -> Self {
        Self([numbers[0], numbers[1], numbers[2], numbers[3]])
    }

    #[inline(always)]
    fn store(self, out: &mut [f64]) {
        out[..4].copy_from_slice(&self.0);
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256d, __m512d, _mm256_add_pd, _mm256_fmadd_pd, _mm256_fnmadd_pd, _mm256_loadu_pd, _mm256_mul_pd,
        _mm256_set_pd, _mm256_set1_pd, _mm256_storeu_pd, _mm256_sub_pd, _mm512_add_pd, _mm512_fmadd_pd,
        _mm512_fnmadd_pd, _mm512_loadu_pd, _mm512_mul_pd, _mm512_set_pd, _mm512_set1_pd, _mm512_storeu_pd,
        _mm512_sub_pd,
    };
    use std::ops::{Add, Mul, Sub};

    use super::{Plain, Vector, Work};

    #[target_feature(enable = "lzcnt,bmi1,bmi2")]
    pub(super) fn bits<W: Work>(work: W) -> W::Output {
        work.run::<Plain>()
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn avx2<W: Work>(work: W) -> W::Output {
        work.run::<Avx2>()
    }

    #[target_feature(enable = "avx512f,avx2,fma")]
    pub(super) fn avx512<W: Work>(work: W) -> W::Output {
        work.run::<Avx512>()
    }

    /// A vector of one register. Values are made in [`avx2`] and [`avx512`] alone, so that whoever has one may compute with it.
    macro_rules! register {
        ($name:ident, $inner:ty, $lanes:literal, $add:ident, $sub:ident, $mul:ident, $fmadd:ident, $fnmadd:ident,
         $set1:ident, $set:ident($($lane:literal)*), $load:ident, $store:ident) => {
            #[derive(Clone, Copy)]
            pub(super) struct $name($inner);

            impl Add for $name {
                type Output = Self;
                #[inline(always)]
                fn add(self, other: Self) -> Self {
                    // SAFETY: there is a value of this type, so the processor has these instructions.
                    Self(unsafe { $add(self.0, other.0) })
                }
            }

            impl Sub for $name {
                type Output = Self;
                #[inline(always)]
                fn sub(self, other: Self) -> Self {
                    // SAFETY: as in `add`.
                    Self(unsafe { $sub(self.0, other.0) })
                }
            }

            impl Mul for $name {
                type Output = Self;
                #[inline(always)]
                fn mul(self, other: Self) -> Self {
                    // SAFETY: as in `add`.
                    Self(unsafe { $mul(self.0, other.0) })
                }
            }

            impl Vector for $name {
                const LANES: usize = $lanes;

                #[inline(always)]
                fn splat(number: f64) -> Self {
                    // SAFETY: the type is private to this module, and named only in the functions that are compiled for its
                    // instructions and called where these have been detected.
                    Self(unsafe { $set1(number) })
                }

                #[inline(always)]
                fn from_fn(mut number: impl FnMut(usize) -> f64) -> Self {
                    // SAFETY: as in `splat`.
                    Self(unsafe { $set($(number($lane)),*) })
                }

                #[inline(always)]
                fn times_plus(self, factor: Self, term: Self) -> Self {
                    // SAFETY: as in `add`.
                    Self(unsafe { $fmadd(self.0, factor.0, term.0) })
                }

                #[inline(always)]
                fn times_from(self, factor: Self, term: Self) -> Self {
                    // SAFETY: as in `add`.
                    Self(unsafe { $fnmadd(self.0, factor.0, term.0) })
                }

                #[inline(always)]
                fn load(numbers: &[f64]) -> Self {
                    let numbers = &numbers[..Self::LANES];
                    // SAFETY: as in `splat`, and there are numbers for all lanes.
                    Self(unsafe { $load(numbers.as_ptr()) })
                }

                #[inline(always)]
                fn store(self, out: &mut [f64]) {
                    let out = &mut out[..Self::LANES];
                    // SAFETY: as in `add`, and `out` has room for all lanes.
                    unsafe { $store(out.as_mut_ptr(), self.0) }
                }
            }
        };
    }

    register!(Avx2, __m256d, 4, _mm256_add_pd, _mm256_sub_pd, _mm256_mul_pd, _mm256_fmadd_pd, _mm256_fnmadd_pd,
        _mm256_set1_pd, _mm256_set_pd(3 2 1 0), _mm256_loadu_pd, _mm256_storeu_pd);
    register!(Avx512, __m512d, 8, _mm512_add_pd, _mm512_sub_pd, _mm512_mul_pd, _mm512_fmadd_pd, _mm512_fnmadd_pd,
        _mm512_set1_pd, _mm512_set_pd(7 6 5 4 3 2 1 0), _mm512_loadu_pd, _mm512_storeu_pd);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers whose sums and products are exact, so that every kind of processor gives the same.
    struct Arithmetic;

    impl Work for Arithmetic {
        type Output = Vec<Vec<f64>>;

        #[inline(always)]
        fn run<V: Vector>(self) -> Self::Output {
            let (a, b, c) = (
                V::from_fn(|l| l as f64 + 1.0),
                V::from_fn(|l| 10.0 - l as f64),
                V::splat(3.0),
            );
            [a + b, a - b, a * b, a.times_plus(b, c), a.times_from(b, c)]
                .map(|vector| {
                    let mut out = vec![0.0; V::LANES];
                    vector.store(&mut out);
                    out
                })
                .into()
        }
    }

    #[test]
    fn every_version_computes_the_same() {
        for got in [run(Arithmetic), run_bits(Arithmetic), Arithmetic.run::<Plain>()] {
            for lane in 0..got[0].len() {
                let (a, b) = (lane as f64 + 1.0, 10.0 - lane as f64);
                let lanes: Vec<f64> = got.iter().map(|row| row[lane]).collect();
                assert_eq!(
                    lanes,
                    [a + b, a - b, a * b, a * b + 3.0, 3.0 - a * b],
                    "lane {lane}"
                );
            }
        }
    }
}
