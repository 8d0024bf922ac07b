//! Power spectra of real frames, several frames at a time.
//!
//! In: frames of N samples, N a power of two, one in each lane of a vector. Out: `|DFT|^2` of bins 0 to N / 2 - 1 of each. All of
//! it is in f64. The lanes are computed apart, so a frame's spectrum has the same bits whatever stands beside it; and since all
//! loops run over lanes, no number ever changes its place in a register.
//!
//! With H = N / 2, the samples of a frame are taken for H complex numbers `z[m] = y[2 m] + i y[2 m + 1]`, whose transform Z
//! gives that of the frame:
//!
//! ```text
//! E = (Z[k] + conj Z[H - k]) / 2,   O = (Z[k] - conj Z[H - k]) / 2i,   w = exp(-2 pi i k / N)
//! Y[k] = E + w O,   Y[H - k] = conj (E - w O)
//! ```
//!
//! Z is computed in place by decimation in frequency: steps by 4 down to a length of 1, 2, 4 or 8, which is then done at
//! once. That leaves bins in the order of their reversed digits, from where they are read.

// The loops must be inlined into the function that is compiled for the vector unit: that is their whole point.
#![allow(clippy::inline_always)]

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use crate::kernels::Vector;

/// A complex number in each lane.
pub(crate) type Complex<V> = [V; 2];

/// What transforms of one length need.
#[derive(Debug, Clone)]
pub(crate) struct Spectra {
    /// Factors of one step after the other, for lengths H, H / 4, ..: w, w^2, w^3 for each place of a quarter.
    steps: Vec<Vec<[[f64; 2]; 3]>>,
    /// Where each bin stands after the steps.
    places: Vec<usize>,
    /// `exp(-2 pi i k / N)` for k below H / 2.
    turns: Vec<[f64; 2]>,
}

impl Spectra {
    /// For frames of `samples`; `None` if that is not a power of two of at least 2.
    pub(crate) fn new(samples: usize) -> Option<Self> {
        if !samples.is_power_of_two() || samples < 2 {
            return None;
        }
        let half = samples / 2;
        let mut steps = Vec::new();
        let mut length = half;
        while length > 8 {
            let step = (0..length / 4).map(|j| [1, 2, 3].map(|power| turn(j * power, length)));
            steps.push(step.collect());
            length /= 4;
        }
        let mut places = vec![0; half];
        for (place, bin) in order(half).into_iter().enumerate() {
            places[bin] = place;
        }
        let turns = (0..half.div_ceil(2)).map(|k| turn(k, samples)).collect();
        Some(Self { steps, places, turns })
    }

    /// Complex numbers of a frame.
    pub(crate) fn half(&self) -> usize {
        self.places.len()
    }

    /// The powers `[bins, lanes]`, for `frames` of complex numbers that are half of what the samples are: the factor 1 / 2 of
    /// E and O belongs to the caller's window, where it costs nothing. `frames` is overwritten.
    ///
    /// # Panics
    /// If either slice is not as long as a frame has complex numbers.
    #[inline(always)]
    pub(crate) fn powers<V: Vector>(&self, frames: &mut [Complex<V>], powers: &mut [f64]) {
        let half = self.half();
        assert!(
            frames.len() == half && powers.len() == half * V::LANES,
            "one frame's length in every lane"
        );
        self.transform(frames);
        let place = |bin: usize| frames[self.places[bin]];
        let mut put = |bin: usize, power: V| power.store(&mut powers[bin * V::LANES..]);
        let [re, im] = place(0);
        // Y[0] is the sum of the two, not of their halves.
        let sum = (re + im) + (re + im);
        put(0, sum * sum);
        for (k, turn) in self.turns.iter().enumerate().skip(1) {
            let ([a, b], [c, d]) = (place(k), place(half - k));
            let (even, odd) = ([a + c, b - d], [b + d, c - a]);
            let odd = times(odd, turn);
            put(k, square(plus(even, odd)));
            put(half - k, square(minus(even, odd)));
        }
        if half > 1 {
            // Here w is -i, and Y the conjugate of Z.
            let [re, im] = place(half / 2);
            put(half / 2, square([re + re, im + im]));
        }
    }

    #[inline(always)]
    fn transform<V: Vector>(&self, data: &mut [Complex<V>]) {
        let Some((first, others)) = self.steps.split_first() else {
            return last(data);
        };
        step(data, first);
        // A quarter is small enough for the fastest cache.
        for quarter in data.chunks_exact_mut(first.len()) {
            let mut length = quarter.len();
            for factors in others {
                for part in quarter.chunks_exact_mut(length) {
                    step(part, factors);
                }
                length /= 4;
            }
            for part in quarter.chunks_exact_mut(length) {
                last(part);
            }
        }
    }
}

/// `exp(-2 pi i j / length)`.
fn turn(j: usize, length: usize) -> [f64; 2] {
    let (sine, cosine) = (2.0 * PI * j as f64 / length as f64).sin_cos();
    [cosine, -sine]
}

/// The bins in the order in which the steps leave them.
fn order(length: usize) -> Vec<usize> {
    if length <= 8 {
        // The last step puts its bins in order by itself.
        return (0..length).collect();
    }
    let quarter = order(length / 4);
    (0..4)
        .flat_map(|rest| quarter.iter().map(move |bin| 4 * bin + rest))
        .collect()
}

/// One step by 4: each quarter becomes the input of the transform for bins 4 k + rest.
#[inline(always)]
fn step<V: Vector>(data: &mut [Complex<V>], factors: &[[[f64; 2]; 3]]) {
    let (low, high) = data.split_at_mut(2 * factors.len());
    let (a, b) = low.split_at_mut(factors.len());
    let (c, d) = high.split_at_mut(factors.len());
    for ((((a, b), c), d), [w1, w2, w3]) in a.iter_mut().zip(b).zip(c).zip(d).zip(factors) {
        let [y0, y1, y2, y3] = quad([*a, *b, *c, *d]);
        (*a, *b, *c, *d) = (y0, times(y1, w1), times(y2, w2), times(y3, w3));
    }
}

/// The transform of 1, 2, 4 or 8 numbers.
#[inline(always)]
fn last<V: Vector>(data: &mut [Complex<V>]) {
    match data {
        [a, b] => (*a, *b) = (plus(*a, *b), minus(*a, *b)),
        [a, b, c, d] => [*a, *b, *c, *d] = quad([*a, *b, *c, *d]),
        [a, b, c, d, e, f, g, h] => {
            let even = quad([*a, *c, *e, *g]);
            let [p, q, r, s] = quad([*b, *d, *f, *h]);
            // Turned by one eighth; s is turned by two more below, with r.
            let root = V::splat(FRAC_1_SQRT_2);
            let q = [(q[0] + q[1]) * root, (q[1] - q[0]) * root];
            let s = [(s[0] + s[1]) * root, (s[1] - s[0]) * root];
            (*a, *e) = (plus(even[0], p), minus(even[0], p));
            (*b, *f) = (plus(even[1], q), minus(even[1], q));
            (*c, *g) = (minus_i_times(even[2], r), plus_i_times(even[2], r));
            (*d, *h) = (minus_i_times(even[3], s), plus_i_times(even[3], s));
        }
        _ => {}
    }
}

/// The transform of four numbers.
#[inline(always)]
fn quad<V: Vector>([a, b, c, d]: [Complex<V>; 4]) -> [Complex<V>; 4] {
    let (sum, difference) = (plus(a, c), minus(a, c));
    let (other, turned) = (plus(b, d), minus(b, d));
    [
        plus(sum, other),
        minus_i_times(difference, turned),
        minus(sum, other),
        plus_i_times(difference, turned),
    ]
}

#[inline(always)]
fn plus<V: Vector>(a: Complex<V>, b: Complex<V>) -> Complex<V> {
    [a[0] + b[0], a[1] + b[1]]
}

#[inline(always)]
fn minus<V: Vector>(a: Complex<V>, b: Complex<V>) -> Complex<V> {
    [a[0] - b[0], a[1] - b[1]]
}

/// a + i b
#[inline(always)]
fn plus_i_times<V: Vector>(a: Complex<V>, b: Complex<V>) -> Complex<V> {
    [a[0] - b[1], a[1] + b[0]]
}

/// a - i b
#[inline(always)]
fn minus_i_times<V: Vector>(a: Complex<V>, b: Complex<V>) -> Complex<V> {
    [a[0] + b[1], a[1] - b[0]]
}

#[inline(always)]
fn times<V: Vector>([re, im]: Complex<V>, &[cosine, sine]: &[f64; 2]) -> Complex<V> {
    let (cosine, sine) = (V::splat(cosine), V::splat(sine));
    [im.times_from(sine, re * cosine), re.times_plus(sine, im * cosine)]
}

#[inline(always)]
fn square<V: Vector>([re, im]: Complex<V>) -> V {
    re.times_plus(re, im * im)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{self, Plain, Work};

    struct Powers<'a>(&'a [f64]);

    impl Work for Powers<'_> {
        type Output = Vec<Vec<f64>>;

        /// Lane l gets the samples in the order that begins at sample l.
        #[inline(always)]
        fn run<V: Vector>(self) -> Self::Output {
            let (samples, n) = (self.0, self.0.len());
            let spectra = Spectra::new(n).unwrap();
            let at = |m: usize| V::from_fn(|lane| samples[(m + lane) % n] / 2.0);
            let mut frames: Vec<Complex<V>> = (0..n / 2).map(|m| [at(2 * m), at(2 * m + 1)]).collect();
            let mut powers = vec![0.0; n / 2 * V::LANES];
            spectra.powers(&mut frames, &mut powers);
            let lane = |lane: usize| powers.iter().skip(lane).step_by(V::LANES).copied().collect();
            (0..V::LANES).map(lane).collect()
        }
    }

    fn naive(samples: &[f64], bin: usize) -> f64 {
        let n = samples.len();
        let terms = samples.iter().enumerate().map(|(i, y)| {
            let (sine, cosine) = (2.0 * PI * ((bin * i) % n) as f64 / n as f64).sin_cos();
            (y * cosine, y * sine)
        });
        let (re, im) = terms.fold((0.0, 0.0), |(re, im), (a, b)| (re + a, im + b));
        re * re + im * im
    }

    /// Every version against the sum of cosines and sines. The power does not depend on where a circle of samples begins, so
    /// all lanes have the same.
    #[test]
    fn powers_follow_the_definition() {
        for n in (1..=11).map(|log| 1_usize << log) {
            let samples: Vec<f64> = (0..n as u64)
                .map(|i| ((i * i + 3 * i) % 101) as f64 / 50.0 - 1.0)
                .collect();
            for lanes in [kernels::run(Powers(&samples)), Powers(&samples).run::<Plain>()] {
                for bin in 0..n / 2 {
                    let expected = naive(&samples, bin);
                    for lane in &lanes {
                        let error = (lane[bin] - expected).abs();
                        assert!(
                            error < 1e-10 * n as f64,
                            "{n} samples, bin {bin}: {} for {expected}",
                            lane[bin]
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn other_lengths_are_refused() {
        for n in [0, 1, 3, 6, 12, 1000] {
            assert!(Spectra::new(n).is_none(), "{n}");
        }
    }
}
