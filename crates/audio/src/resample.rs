//! One sample rate to another, by a windowed sinc.
//!
//! In: samples at `from` Hz, in blocks of any size. Out: samples at `to` Hz, the same whatever the blocks were.
//! Output sample n stands at the time n / `to` exactly, without delay, and there are ceil(length * `to` / `from`) of
//! them; before its beginning and after its end the signal counts as silence.
//!
//! It is written here, although `rubato` resamples well, because all three properties would have to be added around
//! it: output that does not depend on block sizes, its exact length, and a delay that is taken out. That wrapper would
//! be longer than the filter.
//!
//! With L / M the ratio `to` / `from` in lowest terms, output n is the inner product of the input around n M / L with
//! one of L phases of the low-pass
//!
//! ```text
//! h(t) = c sinc(c t) kaiser(t / T),   c = 0.965 min(1, to / from)
//! ```
//!
//! in units of input samples. The pass band ends at 0.93 of the lower of the two Nyquist frequencies, the stop band
//! begins at that frequency itself, and the Kaiser window is made for 110 dB between them (J. F. Kaiser, 1974), so
//! that images and aliases lie below -100 dB after rounding to `f32`. Where L and M are small, as with all pairs of
//! common rates, the filter is applied to whole blocks by Fourier transforms (module `blocks`). Otherwise it is an
//! inner product per output sample: exact phases where their table is of moderate size, and where it would not be, as
//! with 44101 Hz, a mixture of the two nearest of 2048 c, whose error is below (pi / 2048)^2 / 8, that is -130 dB.

use std::f64::consts::PI;

use crate::blocks::{Blocks, Filter, Sizes};
use crate::error::Error;
use crate::pcm::{HIGHEST_RATE, LOWEST_RATE};

/// Phases that are tabulated where the exact ones are too many, for a filter of the full band.
const MIXED_PHASES: f64 = 2048.0;

/// The largest table of exact phases, in coefficients: 4 MiB. All pairs of common rates stay below, as 11025 Hz to
/// 32 kHz with 1280 phases of 208 taps.
const MAX_COEFFICIENTS: u64 = 1 << 20;

/// The attenuation that the window is made for, in dB.
const ATTENUATION: f64 = 110.0;

/// Where the pass band ends, as a fraction of the lower Nyquist frequency, at which the stop band begins.
const PASS: f64 = 0.93;

/// Lanes of the inner product: the number of taps is a multiple of it.
const LANES: usize = 16;

/// Converts one signal, or one after the other.
pub struct Resampler {
    /// `from` / `to` in lowest terms: input samples per output samples.
    step: u64,
    denominator: u64,
    way: Way,
    input: u64,
    output: u64,
}

/// Where a signal can be entered so that the output is the same to the bit as from the signal's beginning: at every
/// multiple of `input`, which becomes the same multiple of `output`, and after the first `lead` samples of output, which
/// miss what came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub input: u64,
    pub output: u64,
    pub lead: u64,
}

enum Way {
    /// The rates are equal: nothing is done.
    Same,
    /// Transforms of whole blocks, for ratios of small numbers.
    Blocks(Box<Blocks>),
    /// One inner product for each output sample.
    Taps(Taps),
}

impl Resampler {
    /// Prepares the filter.
    ///
    /// # Errors
    /// If a rate is outside [`LOWEST_RATE`]..=[`HIGHEST_RATE`].
    pub fn new(from: u32, to: u32) -> Result<Self, Error> {
        let allowed = LOWEST_RATE..=HIGHEST_RATE;
        if !allowed.contains(&from) || !allowed.contains(&to) {
            return Err(Error::Resample { from, to });
        }
        let divisor = greatest_common_divisor(from, to);
        let (step, denominator) = (u64::from(from / divisor), u64::from(to / divisor));
        let ratio = f64::from(to.min(from)) / f64::from(from);
        let half = half_length(ratio);
        let way = if step == denominator {
            Way::Same
        } else if let Some(sizes) = Sizes::new(step, denominator, half) {
            let filter = Filter::shared(sizes, || {
                let mut taps = vec![0.0; 2 * half];
                fill_row(&mut taps, ratio, 0.0);
                // Without its last tap the row is even around its middle.
                taps.truncate(2 * half - 1);
                taps
            });
            Way::Blocks(Box::new(Blocks::new(filter)))
        } else {
            Way::Taps(Taps::new(step, denominator, ratio))
        };
        Ok(Self {
            step,
            denominator,
            way,
            input: 0,
            output: 0,
        })
    }

    /// Where a signal can be entered, see [`Grid`].
    pub(crate) fn grid(&self) -> Grid {
        let (input, output, lead) = match &self.way {
            Way::Same => (1, 1, 0),
            Way::Blocks(blocks) => {
                let (from, to) = blocks.hops();
                (from as u64, to as u64, to as u64)
            }
            Way::Taps(taps) => {
                let lead = (taps.length as u64 * self.denominator).div_ceil(self.step);
                (self.step, self.denominator, lead)
            }
        };
        Grid { input, output, lead }
    }

    /// Takes a block and appends all output that it completes.
    pub fn push(&mut self, block: &[f32], out: &mut Vec<f32>) {
        let before = out.len();
        match &mut self.way {
            Way::Same => out.extend_from_slice(block),
            Way::Blocks(blocks) => blocks.push(block, out),
            Way::Taps(taps) => taps.push(block, out),
        }
        self.input += block.len() as u64;
        self.output += (out.len() - before) as u64;
    }

    /// Appends the rest of the output. The resampler then stands at the beginning of a new signal.
    pub fn finish(&mut self, out: &mut Vec<f32>) {
        let length = (u128::from(self.input) * u128::from(self.denominator)).div_ceil(u128::from(self.step));
        let missing = (length as u64).saturating_sub(self.output) as usize;
        let end = out.len() + missing;
        match &mut self.way {
            Way::Same => {}
            Way::Blocks(blocks) => {
                while out.len() < end {
                    blocks.flush(out);
                }
                blocks.reset();
            }
            Way::Taps(taps) => {
                taps.push(&vec![0.0; taps.length], out);
                taps.reset();
            }
        }
        out.truncate(end);
        (self.input, self.output) = (0, 0);
    }
}

/// The filter as inner products.
struct Taps {
    /// The input steps per output: a whole part, and a remainder of `denominator`.
    whole: usize,
    remainder: u64,
    denominator: u64,
    length: usize,
    phases: Phases,
    /// Input that is still needed, with `length / 2 - 1` zeros before the first sample.
    pending: Vec<f32>,
    /// Where the next output's first tap is within `pending`, and how far the output stands behind it.
    at: usize,
    phase: u64,
}

/// The filter at each of the places between two input samples.
enum Phases {
    /// One row of taps for each phase.
    Exact(Vec<f32>),
    /// Rows at i / `count`, one more than `count`, to be mixed.
    Mixed { rows: Vec<f32>, count: u64 },
}

impl Taps {
    fn new(step: u64, denominator: u64, ratio: f64) -> Self {
        let half = half_length(ratio);
        let phases = if denominator * 2 * half as u64 <= MAX_COEFFICIENTS {
            Phases::Exact(rows(half, ratio, denominator, denominator))
        } else {
            let count = (MIXED_PHASES * ratio).ceil() as u64;
            Phases::Mixed {
                rows: rows(half, ratio, count + 1, count),
                count,
            }
        };
        Self {
            whole: (step / denominator) as usize,
            remainder: step % denominator,
            denominator,
            length: 2 * half,
            phases,
            pending: vec![0.0; half - 1],
            at: 0,
            phase: 0,
        }
    }

    /// Makes output while its taps are there.
    fn push(&mut self, block: &[f32], out: &mut Vec<f32>) {
        self.pending.extend_from_slice(block);
        while let Some(input) = self.pending.get(self.at..self.at + self.length) {
            out.push(self.phases.filter(input, self.phase, self.denominator));
            self.at += self.whole;
            self.phase += self.remainder;
            if self.phase >= self.denominator {
                self.phase -= self.denominator;
                self.at += 1;
            }
        }
        // Moving the rest to the front costs its length, so it waits until that is little beside what was used.
        if self.at >= 4 * self.length || self.at >= self.pending.len() {
            let used = self.at.min(self.pending.len());
            self.pending.drain(..used);
            self.at -= used;
        }
    }

    /// Back to the beginning of a signal.
    fn reset(&mut self) {
        self.pending.clear();
        self.pending.resize(self.length / 2 - 1, 0.0);
        (self.at, self.phase) = (0, 0);
    }
}

impl Phases {
    fn filter(&self, input: &[f32], phase: u64, denominator: u64) -> f32 {
        let row = |rows: &[f32], index: u64| {
            let first = index as usize * input.len();
            inner_product(input, rows.get(first..first + input.len()).unwrap_or_default())
        };
        match self {
            Self::Exact(rows) => row(rows, phase),
            Self::Mixed { rows, count } => {
                let place = phase * count;
                let (index, rest) = (place / denominator, place % denominator);
                let share = rest as f64 / denominator as f64;
                let (a, b) = (row(rows, index), row(rows, index + 1));
                (f64::from(a) * (1.0 - share) + f64::from(b) * share) as f32
            }
        }
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

/// Kaiser's formula for the length, rounded up to whole lanes on the two sides together.
fn half_length(ratio: f64) -> usize {
    let transition = (1.0 - PASS) / 2.0 * ratio;
    let taps = (ATTENUATION - 7.95) / (14.36 * transition) + 1.0;
    (taps as usize).div_ceil(LANES) * LANES / 2
}

/// `count` rows of `2 half` taps; row r is for outputs that stand r / `parts` behind an input sample. Each row sums
/// to one, so that a constant stays what it is. Row `parts` - r is row r backwards.
fn rows(half: usize, ratio: f64, count: u64, parts: u64) -> Vec<f32> {
    let (taps, count, parts) = (2 * half, count as usize, parts as usize);
    let mut all = vec![0.0; count * taps];
    let mut row = vec![0.0; taps];
    for r in 0..=parts / 2 {
        fill_row(&mut row, ratio, r as f64 / parts as f64);
        for (place, &tap) in all[r * taps..][..taps].iter_mut().zip(&row) {
            *place = tap as f32;
        }
        if let Some(mirror) = all
            .get_mut((parts - r) * taps..)
            .and_then(|rest| rest.get_mut(..taps))
        {
            for (place, &tap) in mirror.iter_mut().zip(row.iter().rev()) {
                *place = tap as f32;
            }
        }
    }
    all
}

/// The taps at whole steps, `behind` an input sample.
fn fill_row(row: &mut [f64], ratio: f64, behind: f64) {
    let half = row.len() as f64 / 2.0;
    let cutoff = f64::midpoint(1.0, PASS) * ratio;
    let beta = 0.1102 * (ATTENUATION - 8.7);
    // The sine of an angle that grows in equal steps is turned on, step by step, which is much faster than to compute
    // it and loses less than 1e-12 over the longest row.
    let first = -(half - 1.0) - behind;
    let (mut sine, mut cosine) = (PI * cutoff * first).sin_cos();
    let (step_sine, step_cosine) = (PI * cutoff).sin_cos();
    for (k, tap) in row.iter_mut().enumerate() {
        let t = first + k as f64;
        *tap = if t == 0.0 { 1.0 } else { sine / (PI * cutoff * t) };
        (sine, cosine) = (
            sine * step_cosine + cosine * step_sine,
            cosine * step_cosine - sine * step_sine,
        );
    }
    for (c, taps) in row.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let window = kaiser(std::array::from_fn(|i| (first + (8 * c + i) as f64) / half), beta);
        for (tap, weight) in taps.iter_mut().zip(window) {
            *tap *= weight;
        }
    }
    let sum: f64 = row.iter().sum();
    for tap in row {
        *tap /= sum;
    }
}

/// The Kaiser window at eight places of [-1, 1], up to a constant factor: the modified Bessel function of order zero
/// by its power series, the sum of ((x / 2)^k / k!)^2. With x below 12, as here, the terms after the 32nd no longer
/// count in `f64`.
fn kaiser(places: [f64; 8], beta: f64) -> [f64; 8] {
    const INVERSE_SQUARES: [f64; 32] = {
        let mut all = [0.0; 32];
        let mut k = 0;
        while k < 32 {
            all[k] = 1.0 / ((k + 1) * (k + 1)) as f64;
            k += 1;
        }
        all
    };
    let quarter = places.map(|x| beta * beta * (1.0 - x * x).max(0.0) / 4.0);
    INVERSE_SQUARES.iter().rev().fold([1.0; 8], |sums, inverse| {
        std::array::from_fn(|i| 1.0 + quarter[i] * inverse * sums[i])
    })
}

/// Sixteen sums side by side, which the compiler turns into vector instructions, and which always add up in the
/// same order.
fn inner_product(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0_f32; LANES];
    for (a, b) in a.as_chunks::<LANES>().0.iter().zip(b.as_chunks::<LANES>().0) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            sums[i] += sums[i + width];
        }
        width /= 2;
    }
    sums[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(from: u32, to: u32, input: &[f32]) -> Vec<f32> {
        let mut resampler = Resampler::new(from, to).unwrap();
        let mut out = Vec::new();
        resampler.push(input, &mut out);
        resampler.finish(&mut out);
        out
    }

    fn sine(rate: u32, frequency: f64, length: usize) -> Vec<f32> {
        (0..length)
            .map(|n| (2.0 * PI * frequency * n as f64 / f64::from(rate)).sin() as f32)
            .collect()
    }

    /// The largest difference from a sine of the same frequency, away from the two ends, in dB.
    fn error_of_sine(from: u32, to: u32, frequency: f64) -> f64 {
        let out = all(from, to, &sine(from, frequency, from as usize));
        let expected = sine(to, frequency, out.len());
        let edge = out.len() / 4;
        let middle = edge..out.len() - edge;
        let largest = middle
            .map(|n| f64::from((out[n] - expected[n]).abs()))
            .fold(0.0, f64::max);
        20.0 * largest.max(1e-12).log10()
    }

    fn sinc(x: f64) -> f64 {
        if x == 0.0 { 1.0 } else { (PI * x).sin() / (PI * x) }
    }

    /// The window by the series as it is written in books.
    fn naive_kaiser(x: f64, beta: f64) -> f64 {
        let quarter = beta * beta * (1.0 - x * x) / 4.0;
        let (mut sum, mut term) = (1.0, 1.0);
        for k in 1..60 {
            term *= quarter / f64::from(k * k);
            sum += term;
        }
        sum
    }

    const PAIRS: [(u32, u32); 9] = [
        (44_100, 32_000),
        (48_000, 32_000),
        (22_050, 32_000),
        (16_000, 32_000),
        (8_000, 32_000),
        (96_000, 32_000),
        (44_101, 32_000),
        (11_025, 32_000),
        (32_000, 44_100),
    ];

    /// The window is made for 110 dB; 100 dB leaves room for the rounding of f32 over some hundred taps.
    #[test]
    fn sines_of_the_pass_band_keep_their_height_and_their_place() {
        for (from, to) in PAIRS {
            let nyquist = f64::from(from.min(to)) / 2.0;
            for part in [0.01, 0.31, 0.7, 0.92] {
                let error = error_of_sine(from, to, nyquist * part);
                assert!(error < -100.0, "{from} -> {to}, {part} of Nyquist: {error:.1} dB");
            }
        }
    }

    #[test]
    fn sines_above_the_new_nyquist_frequency_vanish() {
        for (from, to) in [
            (44_100, 32_000),
            (48_000, 32_000),
            (96_000, 32_000),
            (44_101, 32_000),
        ] {
            for frequency in [16_001.0, 17_000.0, 19_000.0, 21_900.0] {
                let out = all(from, to, &sine(from, frequency, from as usize));
                let edge = out.len() / 4;
                let largest = out[edge..out.len() - edge]
                    .iter()
                    .fold(0.0_f32, |m, s| m.max(s.abs()));
                let decibels = 20.0 * largest.max(1e-12).log10();
                assert!(
                    decibels < -100.0,
                    "{from} -> {to}, {frequency} Hz: {decibels:.1} dB"
                );
            }
        }
    }

    /// The formula itself, in f64, tap by tap, without tables.
    #[test]
    fn the_tables_are_the_formula() {
        for (from, to) in [(44_100, 32_000), (8_000, 11_025), (44_101, 32_000)] {
            let input: Vec<f32> = (0..900_u32)
                .map(|n| ((n * n % 3001 * 7919) % 2001) as f32 / 1000.0 - 1.0)
                .collect();
            let out = all(from, to, &input);
            let ratio = f64::from(from.min(to)) / f64::from(from);
            let (half, cutoff) = (half_length(ratio), f64::midpoint(1.0, PASS) * ratio);
            let beta = 0.1102 * (ATTENUATION - 8.7);
            for n in [0, 1, 17, 200, out.len() - 1] {
                let place = n as f64 * f64::from(from) / f64::from(to);
                let (mut sum, mut weight) = (0.0, 0.0);
                let first = place.floor() as i64 - half as i64 + 1;
                for i in first..first + 2 * half as i64 {
                    let t = i as f64 - place;
                    let h = sinc(cutoff * t) * naive_kaiser(t / half as f64, beta);
                    weight += h;
                    sum += h * input.get(i as usize).map_or(0.0, |&s| f64::from(s));
                }
                // Sums of some hundred products in f32, and -130 dB where phases are mixed.
                let error = (sum / weight - f64::from(out[n])).abs();
                assert!(error < 3e-6, "{from} -> {to}, sample {n}: {error:e}");
            }
        }
    }

    #[test]
    fn a_constant_stays_and_equal_rates_change_nothing() {
        let out = all(44_100, 32_000, &vec![0.5; 44_100]);
        assert!(out[8000..24_000].iter().all(|s| (s - 0.5).abs() < 1e-6));
        let input = sine(32_000, 440.0, 1000);
        assert_eq!(all(32_000, 32_000, &input), input);
    }

    #[test]
    fn nothing_in_nothing_out_and_rates_outside_the_limits_are_refused() {
        assert_eq!(all(44_100, 32_000, &[]), []);
        for (from, to) in [(999, 32_000), (32_000, 768_001), (0, 0)] {
            assert!(
                matches!(Resampler::new(from, to), Err(Error::Resample { .. })),
                "{from} -> {to}"
            );
        }
    }

    #[test]
    fn the_widest_ratios_stay_within_their_table() {
        for (from, to) in [
            (767_999, 1_000),
            (1_000, 767_999),
            (767_999, 32_000),
            (44_101, 32_000),
        ] {
            let Way::Taps(taps) = Resampler::new(from, to).unwrap().way else {
                panic!("{from} -> {to}")
            };
            let (Phases::Exact(rows) | Phases::Mixed { rows, .. }) = taps.phases;
            assert!(
                rows.len() as u64 <= MAX_COEFFICIENTS,
                "{from} -> {to}: {}",
                rows.len()
            );
        }
    }

    /// Noise at full level. The two differ by what the window leaves of it beyond the stop band, at -110 dB, and by the
    /// rounding of either.
    #[test]
    fn transforms_and_inner_products_agree() {
        let input: Vec<f32> = (0..9000_u32)
            .map(|n| ((n * n % 3001 * 7919) % 2001) as f32 / 1000.0 - 1.0)
            .collect();
        for (from, to) in [
            (44_100, 32_000),
            (48_000, 32_000),
            (11_025, 32_000),
            (32_000, 44_100),
            (96_000, 32_000),
        ] {
            let mut resampler = Resampler::new(from, to).unwrap();
            assert!(matches!(resampler.way, Way::Blocks(_)), "{from} -> {to}");
            let ratio = f64::from(to.min(from)) / f64::from(from);
            let fast = all(from, to, &input);
            resampler.way = Way::Taps(Taps::new(resampler.step, resampler.denominator, ratio));
            let mut slow = Vec::new();
            resampler.push(&input, &mut slow);
            resampler.finish(&mut slow);
            assert_eq!(fast.len(), slow.len());
            let worst = fast
                .iter()
                .zip(&slow)
                .map(|(a, b)| (a - b).abs())
                .fold(0.0, f32::max);
            assert!(worst < 5e-6, "{from} -> {to}: {worst:e}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn blocks_do_not_matter_and_the_length_is_exact(
            input in prop::collection::vec(-1.0_f32..1.0, 0..3000),
            cuts in prop::collection::vec(1_usize..700, 1..20),
            pair in prop::sample::select(PAIRS.to_vec()),
        ) {
            let (from, to) = pair;
            let whole = all(from, to, &input);
            let exact = (input.len() as u64 * u64::from(to)).div_ceil(u64::from(from));
            prop_assert_eq!(whole.len() as u64, exact);
            let mut resampler = Resampler::new(from, to).unwrap();
            // Twice, since a finished resampler begins afresh.
            for _ in 0..2 {
                let mut out = Vec::new();
                let mut rest = &input[..];
                for &cut in cuts.iter().cycle() {
                    let (block, after) = rest.split_at(cut.min(rest.len()));
                    resampler.push(block, &mut out);
                    rest = after;
                    if rest.is_empty() {
                        break;
                    }
                }
                resampler.finish(&mut out);
                let same = whole.iter().map(|s| s.to_bits()).eq(out.iter().map(|s| s.to_bits()));
                prop_assert!(same);
            }
        }
    }
}
