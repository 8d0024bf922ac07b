//! Waveform in, log-mel spectrogram out: the front end that PaSST was trained with.
//!
//! In come mono samples at the configured rate, full scale +-1. Out comes `[mels, frames]`, row-major. With
//! `p` the pre-emphasis, `N` the length of the transform, `W` of the window and `H` the hop:
//!
//! 1. `y[i] = x[i + 1] - p x[i]`, one sample shorter than `x`;
//! 2. `y` reflected by `N / 2` samples at either end, the end samples not repeated, so that frame `t` is centred
//!    on `y[t H]`;
//! 3. each frame times a symmetric Hann window of `W` samples that stands in the middle of the `N`;
//! 4. `|DFT|^2`, without scaling;
//! 5. triangular bands, linear in `mel(f) = 1127 ln(1 + f / 700)`, as Kaldi makes them: the corner points part
//!    `[mel(low), mel(high)]` evenly, each triangle has height 1, the bin at half the rate has weight 0;
//! 6. `(ln(e + 1e-5) + 4.5) / 5`.
//!
//! All of it is computed in f64 and rounded once, at the end. This is not caution: beside a full-scale tone a
//! 32-bit transform leaves errors in quiet bins that the logarithm shows, and 32-bit corner points move weights by
//! 1e-5, which shows where a loud bin lies at the foot of a quiet band. The reference (AugmentMelSTFT of the
//! Python package hear21passt) has both: run in 32 bits it is up to 2e-4 away from itself run in 64 bits on real
//! recordings, up to 6e-4 on a full-scale sweep, and farther on louder input. These values follow the 64-bit run.
//!
//! Refused: samples that are not finite, fewer samples than the reflection needs, more than [`MAX_VALUES`] values
//! of output, and settings that make no spectrogram.

// The loops must be inlined into the function that is compiled for the vector unit: that is their whole point.
#![allow(clippy::inline_always)]

use std::f64::consts::{LN_2, PI};
use std::ops::Range;
use std::sync::Arc;

use realfft::{RealFftPlanner, RealToComplex};
use serde::{Deserialize, Serialize};

use crate::kernels::{self, Vector, Work};
use crate::spectra::{Complex, Spectra};

/// The most values that one spectrogram may have (1 GiB of them; nearly six hours with PaSST's settings).
pub const MAX_VALUES: usize = 1 << 28;

/// The longest transform that is accepted.
const MAX_TRANSFORM: usize = 1 << 16;
/// The most bands that are accepted.
const MAX_MELS: usize = 1 << 10;
/// The highest sampling rate that is accepted.
const HIGHEST_RATE: u32 = 1 << 20;

/// Added to a band's energy before the logarithm.
const FLOOR: f64 = 1e-5;
/// Added to the logarithm.
pub(crate) const OFFSET: f64 = 4.5;
/// What the sum is divided by.
pub(crate) const DIVISOR: f64 = 5.0;

/// The most lanes of a vector.
const MAX_LANES: usize = 8;

/// What makes a log-mel spectrogram; the default is PaSST's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MelConfig {
    /// Samples per second.
    pub rate: u32,
    /// Length of the Fourier transform, in samples; even.
    pub n_fft: usize,
    /// Length of the Hann window, in samples; at most `n_fft`.
    pub window: usize,
    /// Samples from one frame to the next.
    pub hop: usize,
    /// Number of mel bands.
    pub mels: usize,
    /// Lower edge of the lowest band, in hertz.
    pub low: f64,
    /// Upper edge of the highest band, in hertz; at most half the rate.
    pub high: f64,
    /// How much of the previous sample is taken off each sample, 0 to 1.
    pub pre_emphasis: f64,
}

impl Default for MelConfig {
    fn default() -> Self {
        Self {
            rate: 32_000,
            n_fft: 1024,
            window: 800,
            hop: 320,
            mels: 128,
            low: 0.0,
            high: 15_000.0,
            pre_emphasis: 0.97,
        }
    }
}

/// Why no spectrogram was made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MelError {
    /// A whole-number setting is out of its range.
    #[error("`{name}` is {got}, but must be {least} to {most}")]
    Setting {
        /// The setting's name.
        name: &'static str,
        /// Its value.
        got: usize,
        /// The smallest value accepted.
        least: usize,
        /// The largest value accepted.
        most: usize,
    },
    /// The transform's length is odd.
    #[error("`n_fft` is {got}, but must be an even number")]
    OddTransform {
        /// The length given.
        got: usize,
    },
    /// The pre-emphasis is out of its range.
    #[error("`pre_emphasis` is {got}, but must be 0 to 1")]
    PreEmphasis {
        /// The value given.
        got: f64,
    },
    /// The edges of the bands do not fit the rate.
    #[error("the bands go from {low} Hz to {high} Hz, but the edges must rise within 0 to {nyquist} Hz")]
    Edges {
        /// The lower edge.
        low: f64,
        /// The upper edge.
        high: f64,
        /// Half the sampling rate.
        nyquist: f64,
    },
    /// Too few samples to reflect at the ends.
    #[error("the clip has {got} samples, but a spectrogram needs at least {needed}")]
    TooShort {
        /// How many samples there are.
        got: usize,
        /// How many it takes.
        needed: usize,
    },
    /// The spectrogram would take too much memory.
    #[error("the clip has {got} samples, but one spectrogram can take at most {most}: cut it into segments")]
    TooLong {
        /// How many samples there are.
        got: usize,
        /// How many there may be.
        most: usize,
    },
    /// A sample is infinite or not a number.
    #[error("sample {index} is not a finite number")]
    NotFinite {
        /// The first such sample, counted from 0.
        index: usize,
    },
}

impl MelConfig {
    /// Checks every setting.
    fn check(&self) -> Result<(), MelError> {
        within("rate", self.rate as usize, 2, HIGHEST_RATE as usize)?;
        within("n_fft", self.n_fft, 2, MAX_TRANSFORM)?;
        if !self.n_fft.is_multiple_of(2) {
            return Err(MelError::OddTransform { got: self.n_fft });
        }
        within("window", self.window, 2, self.n_fft)?;
        within("hop", self.hop, 1, MAX_TRANSFORM)?;
        within("mels", self.mels, 1, MAX_MELS)?;
        if !(0.0..=1.0).contains(&self.pre_emphasis) {
            return Err(MelError::PreEmphasis {
                got: self.pre_emphasis,
            });
        }
        Ok(())
    }
}

/// Refuses a whole-number setting outside its range.
fn within(name: &'static str, got: usize, least: usize, most: usize) -> Result<(), MelError> {
    if (least..=most).contains(&got) {
        Ok(())
    } else {
        Err(MelError::Setting {
            name,
            got,
            least,
            most,
        })
    }
}

/// A log-mel spectrogram.
#[derive(Debug, Clone, PartialEq)]
pub struct LogMel {
    /// Number of bands.
    pub mels: usize,
    /// Number of frames.
    pub frames: usize,
    /// `[mels, frames]`, row-major: all frames of the lowest band first.
    pub values: Vec<f32>,
}

/// Makes spectrograms of one configuration. Window, bands and transform are prepared once; one value serves
/// any number of threads.
///
/// A block of frames, as many as a vector has lanes, goes through all stages together: its values stand side by side, in the
/// spectra as in the output, so that inner loops run over frames.
#[derive(Clone)]
pub struct MelSpectrogram {
    config: MelConfig,
    /// Half of the window, see [`Spectra::powers`], in pairs; the last one is filled up with zero.
    window: Vec<[f64; 2]>,
    bank: Bank,
    transform: Transform,
}

/// What makes spectra of frames.
#[derive(Clone)]
enum Transform {
    /// Several at a time, for lengths that are powers of two: all that known models use.
    Together(Spectra),
    OneByOne(Arc<dyn RealToComplex<f64>>),
}

impl MelSpectrogram {
    /// Checks the settings and prepares what every spectrogram needs.
    ///
    /// # Errors
    ///
    /// If a setting is out of its range.
    pub fn new(config: MelConfig) -> Result<Self, MelError> {
        config.check()?;
        let bank = Bank::new(&config, config.low, config.high)?;
        let mut window = symmetric_hann(config.window);
        window.resize(window.len().next_multiple_of(2), 0.0);
        let window = window.as_chunks().0.iter();
        let window = window.map(|pair| pair.map(|weight: f64| weight / 2.0)).collect();
        let transform = Spectra::new(config.n_fft).map_or_else(
            || Transform::OneByOne(RealFftPlanner::new().plan_fft_forward(config.n_fft)),
            Transform::Together,
        );
        Ok(Self {
            config,
            window,
            bank,
            transform,
        })
    }

    /// The settings.
    pub fn config(&self) -> &MelConfig {
        &self.config
    }

    /// How many samples a clip needs at least: reflection at both ends takes `n_fft / 2 + 1`, and pre-emphasis
    /// one more.
    pub fn needed(&self) -> usize {
        self.config.n_fft / 2 + 2
    }

    /// How many frames a clip of so many samples gives; 0 if it is too short.
    pub fn frames(&self, samples: usize) -> usize {
        if samples < self.needed() {
            return 0;
        }
        (samples - 1) / self.config.hop + 1
    }

    /// The log-mel spectrogram of a clip.
    ///
    /// # Errors
    ///
    /// If the clip is too short or too long, or a sample is not finite.
    pub fn compute(&self, samples: &[f32]) -> Result<LogMel, MelError> {
        self.with_bank(samples, &self.bank)
    }

    /// The log-mel spectrogram of a clip with other edges of the bands, in hertz, as training uses them (see
    /// [`crate::augment::jitter`]).
    ///
    /// # Errors
    ///
    /// As [`MelSpectrogram::compute`], and if the edges do not rise within 0 and half the rate.
    pub fn compute_with_edges(&self, samples: &[f32], low: f64, high: f64) -> Result<LogMel, MelError> {
        self.with_bank(samples, &Bank::new(&self.config, low, high)?)
    }

    fn with_bank(&self, samples: &[f32], bank: &Bank) -> Result<LogMel, MelError> {
        let frames = self.checked_frames(samples)?;
        let mut values = vec![0.0; bank.bands.len() * frames];
        kernels::run(Blocks {
            mel: self,
            bank,
            samples,
            frames,
            values: &mut values,
        });
        Ok(LogMel {
            mels: bank.bands.len(),
            frames,
            values,
        })
    }

    /// The number of frames, if the samples are such that there is a spectrogram.
    fn checked_frames(&self, samples: &[f32]) -> Result<usize, MelError> {
        let got = samples.len();
        let frames = self.frames(got);
        if frames == 0 {
            return Err(MelError::TooShort {
                got,
                needed: self.needed(),
            });
        }
        let most = MAX_VALUES / self.config.mels;
        if frames > most {
            return Err(MelError::TooLong {
                got,
                most: most * self.config.hop,
            });
        }
        // Without an early end the check compiles to vector instructions; where it fails, time is no matter.
        if samples
            .iter()
            .fold(true, |finite, sample| finite & sample.is_finite())
        {
            return Ok(frames);
        }
        let index = samples.iter().position(|sample| !sample.is_finite()).unwrap_or(0);
        Err(MelError::NotFinite { index })
    }

    /// Writes the emphasised samples of `count` frames: those of the first, then, a hop later, of the second. What follows the
    /// last frame becomes zero.
    #[inline(always)]
    fn emphasise(&self, samples: &[f32], first: usize, count: usize, out: &mut [f64]) {
        let emphasis = self.config.pre_emphasis;
        let (used, unused) = out.split_at_mut((count - 1) * self.config.hop + self.config.window);
        unused.fill(0.0);
        let margin = (self.config.n_fft / 2) - (self.config.n_fft - self.config.window) / 2;
        let centre = first * self.config.hop;
        let inside = centre
            .checked_sub(margin)
            .and_then(|start| samples.get(start..=start + used.len()));
        if let Some(part) = inside {
            for (out, (&before, &now)) in used.iter_mut().zip(part.iter().zip(&part[1..])) {
                *out = f64::from(now) - emphasis * f64::from(before);
            }
        } else {
            for (offset, out) in used.iter_mut().enumerate() {
                let at = reflected(centre + offset, margin, samples.len() - 1);
                *out = f64::from(samples[at + 1]) - emphasis * f64::from(samples[at]);
            }
        }
    }
}

/// One clip's spectrogram, block by block.
struct Blocks<'a> {
    mel: &'a MelSpectrogram,
    bank: &'a Bank,
    samples: &'a [f32],
    frames: usize,
    /// `[mels, frames]`
    values: &'a mut [f32],
}

impl Work for Blocks<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self) {
        let (mel, bank, config) = (self.mel, self.bank, &self.mel.config);
        let mut signal = vec![0.0; (V::LANES - 1) * config.hop + 2 * mel.window.len()];
        let mut powers = vec![0.0; config.n_fft / 2 * V::LANES];
        let mut energies = vec![0.0; bank.bands.len() * V::LANES];
        let mut levels = vec![0.0; energies.len()];
        let mut block = vec![[V::splat(0.0); 2]; config.n_fft / 2];
        for first in (0..self.frames).step_by(V::LANES) {
            let count = V::LANES.min(self.frames - first);
            mel.emphasise(self.samples, first, count, &mut signal);
            match &mel.transform {
                Transform::Together(spectra) => {
                    mel.window_block(&signal, &mut block);
                    spectra.powers(&mut block, &mut powers);
                }
                Transform::OneByOne(transform) => {
                    mel.powers_one_by_one::<V>(&**transform, &signal, &mut powers);
                }
            }
            bank.energies::<V>(&powers, &mut energies);
            for (level, &energy) in levels.iter_mut().zip(&energies) {
                *level = ((logarithm(energy) + OFFSET) * (1.0 / DIVISOR)) as f32;
            }
            let rows = self.values.chunks_exact_mut(self.frames);
            for (row, levels) in rows.zip(levels.chunks_exact(V::LANES)) {
                if let Some(row) = row.get_mut(first..first + V::LANES) {
                    row.copy_from_slice(levels);
                } else {
                    row[first..].copy_from_slice(&levels[..count]);
                }
            }
        }
    }
}

impl MelSpectrogram {
    /// Windows the frames of a block, one in each lane.
    ///
    /// They stand at the beginning of the transform and the zeros after them, rather than on both sides: that
    /// turns the phases of the spectrum, of which only the power is used.
    #[inline(always)]
    fn window_block<V: Vector>(&self, signal: &[f64], block: &mut [Complex<V>]) {
        let length = 2 * self.window.len();
        let last = V::LANES - 1;
        let lanes: [&[f64]; MAX_LANES] =
            std::array::from_fn(|lane| &signal[lane.min(last) * self.config.hop..][..length]);
        let (used, unused) = block.split_at_mut(self.window.len());
        unused.fill([V::splat(0.0); 2]);
        for (m, (out, weights)) in used.iter_mut().zip(&self.window).enumerate() {
            for part in 0..2 {
                out[part] = V::from_fn(|lane| lanes[lane][2 * m + part]) * V::splat(weights[part]);
            }
        }
    }

    /// The powers of a block by transforms of its single frames.
    fn powers_one_by_one<V: Vector>(
        &self,
        transform: &dyn RealToComplex<f64>,
        signal: &[f64],
        powers: &mut [f64],
    ) {
        let (mut frame, mut spectrum) = (transform.make_input_vec(), transform.make_output_vec());
        for lane in 0..V::LANES {
            frame.fill(0.0);
            let weights = self.window.as_flattened().iter();
            for ((out, weight), sample) in frame
                .iter_mut()
                .zip(weights)
                .zip(&signal[lane * self.config.hop..])
            {
                *out = 2.0 * weight * sample;
            }
            // It refuses buffers of other lengths than those it made itself, and nothing else.
            let done = transform.process(&mut frame, &mut spectrum);
            debug_assert!(done.is_ok());
            for (powers, bin) in powers.chunks_exact_mut(V::LANES).zip(&spectrum) {
                powers[lane] = bin.norm_sqr();
            }
        }
    }
}

/// The position that `shifted - margin` has after reflection at both ends of `length` values, the end values
/// not repeated. The position may lie at most `length - 1` values outside.
fn reflected(shifted: usize, margin: usize, length: usize) -> usize {
    let position = shifted.abs_diff(margin);
    if shifted >= margin && position >= length {
        2 * (length - 1) - position
    } else {
        position
    }
}

/// `sin^2(pi i / (length - 1))`: 0 at both ends.
fn symmetric_hann(length: usize) -> Vec<f64> {
    let last = (length - 1) as f64;
    (0..length)
        .map(|i| (PI * i as f64 / last).sin().powi(2))
        .collect()
}

/// The bins of one band that have weight: from the first to the last.
#[derive(Debug, Clone, PartialEq)]
struct Band {
    bins: Range<usize>,
    /// Where its weights begin in the bank.
    weights: usize,
}

/// All bands; weights of zero are left out.
#[derive(Debug, Clone, PartialEq)]
struct Bank {
    bands: Vec<Band>,
    /// The weights of the lowest band, then of the next.
    weights: Vec<f64>,
}

impl Bank {
    fn new(config: &MelConfig, low: f64, high: f64) -> Result<Self, MelError> {
        let nyquist = f64::from(config.rate) / 2.0;
        if !(0.0 <= low && low < high && high <= nyquist) {
            return Err(MelError::Edges { low, high, nyquist });
        }
        let width = f64::from(config.rate) / config.n_fft as f64;
        let centres: Vec<f64> = (0..config.n_fft / 2).map(|bin| mel(width * bin as f64)).collect();
        let step = (mel(high) - mel(low)) / (config.mels + 1) as f64;
        let corner = |index: usize| mel(low) + index as f64 * step;
        let mut bank = Self {
            bands: Vec::with_capacity(config.mels),
            weights: Vec::with_capacity(config.n_fft),
        };
        for band in 0..config.mels {
            bank.push(&centres, corner(band), corner(band + 1), corner(band + 2));
        }
        Ok(bank)
    }

    /// Adds a triangle with these corners; `centres` are the mel values of the bins, rising.
    fn push(&mut self, centres: &[f64], left: f64, centre: f64, right: f64) {
        let first = centres.partition_point(|&mel| mel <= left);
        let end = centres.partition_point(|&mel| mel < right).max(first);
        let weights = self.weights.len();
        self.weights.extend(centres[first..end].iter().map(|mel| {
            let rising = (mel - left) / (centre - left);
            let falling = (right - mel) / (right - centre);
            // Edges that lie within rounding of each other leave no slope: such a band is silent.
            rising.min(falling).max(0.0)
        }));
        self.bands.push(Band {
            bins: first..end,
            weights,
        });
    }

    /// The energies `[mels, lanes]` of a block, the floor included, from its powers `[bins, lanes]`.
    #[inline(always)]
    fn energies<V: Vector>(&self, powers: &[f64], energies: &mut [f64]) {
        for (band, energy) in self.bands.iter().zip(energies.chunks_exact_mut(V::LANES)) {
            let powers = powers[band.bins.start * V::LANES..band.bins.end * V::LANES].chunks_exact(V::LANES);
            let weights = &self.weights[band.weights..band.weights + powers.len()];
            let mut sums = V::splat(FLOOR);
            for (&weight, power) in weights.iter().zip(powers) {
                sums = V::load(power).times_plus(V::splat(weight), sums);
            }
            sums.store(energy);
        }
    }
}

/// The natural logarithm of a positive normal number, within 1e-9.
///
/// With `x = 2^k m`, `m` in `[sqrt(1/2), sqrt(2))`, it is `k ln 2 + 2 artanh(s)` for `s = (m - 1) / (m + 1)`, and
/// five terms of the series of artanh leave less than `2 s^11 / 11 / (1 - s^2)`, which is 8e-10. It has no branch and
/// no table, so that a row of values compiles to vector instructions; and it is the same on every machine.
#[inline(always)]
fn logarithm(x: f64) -> f64 {
    const ONE: u64 = 0x3ff0_0000_0000_0000;
    const ROOT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
    const FRACTION: u64 = (1 << 52) - 1;
    // 2^52: the low bits of its fraction count whole numbers, which turns an integer into a float.
    const WHOLE: u64 = 0x4330_0000_0000_0000;
    let shifted = x.to_bits().wrapping_add(ONE - ROOT_HALF);
    let exponent = f64::from_bits(WHOLE | (shifted >> 52)) - (f64::from_bits(WHOLE) + 1023.0);
    let m = f64::from_bits((shifted & FRACTION) + ROOT_HALF);
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    let series = 1.0 + square * (1.0 / 3.0 + square * (0.2 + square * (1.0 / 7.0 + square * (1.0 / 9.0))));
    exponent * LN_2 + 2.0 * s * series
}

/// Hertz to mel.
fn mel(hertz: f64) -> f64 {
    1127.0 * (hertz / 700.0).ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::de::value::{Error as ValueError, MapDeserializer};

    /// Both sides compute in f64, so what remains is the rounding of values below 32 to f32 (1e-6) and the
    /// logarithm (2e-10).
    const ROUNDING: f32 = 2e-6;

    fn passt() -> MelSpectrogram {
        MelSpectrogram::new(MelConfig::default()).unwrap()
    }

    fn small(n_fft: usize, window: usize, hop: usize, mels: usize) -> MelConfig {
        MelConfig {
            rate: 1000,
            n_fft,
            window,
            hop,
            mels,
            low: 20.0,
            high: 480.0,
            pre_emphasis: 0.9,
        }
    }

    /// Samples in [-1, 1) from an integer hash.
    fn noise(length: usize) -> Vec<f32> {
        let hash = |i: usize| {
            (i as u64 + 1)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
                .wrapping_mul(0xbf58_476d_1ce4_e5b9)
        };
        (0..length)
            .map(|i| (hash(i) >> 40) as f32 / (1 << 23) as f32 - 1.0)
            .collect()
    }

    fn refusal(config: MelConfig) -> String {
        MelSpectrogram::new(config)
            .err()
            .expect("the settings are refused")
            .to_string()
    }

    /// The definition, step by step: the padded signal is written out, the window stands in the middle of its zeros,
    /// the transform is a sum of cosines and sines, every band looks at every bin.
    fn naive_frame(config: &MelConfig, samples: &[f32], frame: usize) -> Vec<f32> {
        let n = config.n_fft;
        let y: Vec<f64> = samples
            .windows(2)
            .map(|pair| f64::from(pair[1]) - config.pre_emphasis * f64::from(pair[0]))
            .collect();
        let mut padded: Vec<f64> = y[1..=n / 2].iter().rev().copied().collect();
        padded.extend(&y);
        padded.extend(y[y.len() - 1 - n / 2..y.len() - 1].iter().rev());
        let mut window = vec![0.0; n];
        let left = (n - config.window) / 2;
        for i in 0..config.window {
            window[left + i] = 0.5 - 0.5 * (2.0 * PI * i as f64 / (config.window - 1) as f64).cos();
        }
        let power: Vec<f64> = (0..=n / 2)
            .map(|bin| {
                let (mut re, mut im) = (0.0, 0.0);
                for i in 0..n {
                    let turn = 2.0 * PI * ((bin * i) % n) as f64 / n as f64;
                    let value = window[i] * padded[frame * config.hop + i];
                    re += value * turn.cos();
                    im -= value * turn.sin();
                }
                re * re + im * im
            })
            .collect();
        let mel = |hertz: f64| 1127.0 * (1.0 + hertz / 700.0).ln();
        let step = (mel(config.high) - mel(config.low)) / (config.mels as f64 + 1.0);
        (0..config.mels)
            .map(|band| {
                let left = mel(config.low) + band as f64 * step;
                let mut energy = 0.0;
                for (bin, power) in power.iter().enumerate().take(n / 2) {
                    let at = mel(bin as f64 * f64::from(config.rate) / n as f64);
                    energy += power * ((at - left) / step).min((left + 2.0 * step - at) / step).max(0.0);
                }
                (((energy + 1e-5).ln() + 4.5) / 5.0) as f32
            })
            .collect()
    }

    fn assert_follows_definition(config: &MelConfig, samples: &[f32], frames: impl Iterator<Item = usize>) {
        let made = MelSpectrogram::new(config.clone())
            .unwrap()
            .compute(samples)
            .unwrap();
        assert_eq!(made.values.len(), made.mels * made.frames);
        for frame in frames {
            for (band, expected) in naive_frame(config, samples, frame).into_iter().enumerate() {
                let got = made.values[band * made.frames + frame];
                assert!(
                    (got - expected).abs() < ROUNDING,
                    "band {band}, frame {frame}: {got} for {expected}"
                );
            }
        }
    }

    #[test]
    fn passts_settings_follow_the_definition() {
        // 20 frames: whole blocks of four, or two of eight and a part; the first two and the last two reach over an end.
        let samples = noise(320 * 19 + 7);
        assert_follows_definition(
            &MelConfig::default(),
            &samples,
            [0, 1, 2, 7, 8, 17, 18, 19].into_iter(),
        );
    }

    #[test]
    fn the_shortest_clip_follows_the_definition() {
        assert_follows_definition(&MelConfig::default(), &noise(514), 0..2);
    }

    #[test]
    fn the_bin_at_half_the_rate_has_no_weight() {
        // An alternating signal is all at half the rate; the highest band would hear it if that bin had weight.
        let config = MelConfig {
            high: 16_000.0,
            ..MelConfig::default()
        };
        let samples: Vec<f32> = (0..4000u16)
            .map(|i| if i % 2 == 0 { 1.0 } else { -1.0 })
            .collect();
        let bank = MelSpectrogram::new(config.clone()).unwrap().bank;
        assert_eq!(bank.bands.last().unwrap().bins.end, 512);
        assert_follows_definition(&config, &samples, [0, 6].into_iter());
    }

    #[test]
    fn frames_are_counted_as_the_reference_counts_them() {
        let mel = passt();
        assert_eq!(mel.needed(), 514);
        for (samples, frames) in [
            (0, 0),
            (513, 0),
            (514, 2),
            (640, 2),
            (641, 3),
            (320_000, 1000),
            (320_001, 1001),
        ] {
            assert_eq!(mel.frames(samples), frames, "{samples} samples");
        }
    }

    #[test]
    fn silence_is_the_floor_everywhere() {
        let made = passt().compute(&vec![0.0; 5000]).unwrap();
        assert_eq!((made.mels, made.frames), (128, 16));
        let floor = ((1e-5f64.ln() + 4.5) / 5.0) as f32;
        assert!(made.values.iter().all(|value| (value - floor).abs() < ROUNDING));
    }

    #[test]
    fn the_same_edges_give_the_same_values_and_others_do_not() {
        let (mel, samples) = (passt(), noise(3000));
        let plain = mel.compute(&samples).unwrap();
        assert_eq!(mel.compute_with_edges(&samples, 0.0, 15_000.0).unwrap(), plain);
        let other = mel.compute_with_edges(&samples, 5.0, 14_500.0).unwrap();
        assert_eq!((other.mels, other.frames), (plain.mels, plain.frames));
        assert_ne!(other, plain);
    }

    #[test]
    fn the_logarithm_is_within_its_bound() {
        let mut largest: f64 = 0.0;
        for step in 0..200_000 {
            // From the floor to the energy of the largest finite samples, many values in every octave.
            let x = 1e-5 * 1.0025f64.powi(step % 80_000) * (1.0 + f64::from(step) * 1e-8);
            largest = largest.max((logarithm(x) - x.ln()).abs());
        }
        assert!(largest < 1e-9, "{largest}");
        assert!(logarithm(1.0).abs() < 1e-15);
    }

    #[test]
    fn one_value_serves_many_threads() {
        fn shared<T: Send + Sync>(_: &T) {}
        shared(&passt());
    }

    #[test]
    fn clips_without_a_spectrogram_are_refused() {
        let mel = passt();
        assert_eq!(mel.compute(&[]), Err(MelError::TooShort { got: 0, needed: 514 }));
        let error = mel.compute(&[0.0; 513]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the clip has 513 samples, but a spectrogram needs at least 514"
        );
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut samples = vec![0.0; 2000];
            samples[1234] = bad;
            samples[1999] = bad;
            assert_eq!(mel.compute(&samples), Err(MelError::NotFinite { index: 1234 }));
        }
    }

    #[test]
    fn a_spectrogram_without_bound_is_refused() {
        let config = MelConfig {
            low: 0.0,
            high: 500.0,
            ..small(2, 2, 3, MAX_MELS)
        };
        let mel = MelSpectrogram::new(config).unwrap();
        let most = MAX_VALUES / MAX_MELS * 3;
        let samples = vec![0.0; most + 1];
        assert_eq!(
            mel.compute(&samples),
            Err(MelError::TooLong { got: most + 1, most })
        );
        assert_eq!(mel.checked_frames(&samples[..most]), Ok(MAX_VALUES / MAX_MELS));
    }

    #[test]
    fn settings_out_of_range_are_refused_by_name() {
        let passt = MelConfig::default;
        assert!(refusal(MelConfig { rate: 0, ..passt() }).starts_with("`rate` is 0"));
        assert!(refusal(MelConfig { n_fft: 0, ..passt() }).starts_with("`n_fft` is 0"));
        assert!(
            refusal(MelConfig {
                n_fft: usize::MAX,
                ..passt()
            })
            .starts_with("`n_fft`")
        );
        assert!(
            refusal(MelConfig {
                n_fft: 1023,
                ..passt()
            })
            .contains("even")
        );
        assert_eq!(
            refusal(MelConfig {
                window: 1025,
                ..passt()
            }),
            "`window` is 1025, but must be 2 to 1024"
        );
        assert!(refusal(MelConfig { window: 1, ..passt() }).starts_with("`window`"));
        assert!(refusal(MelConfig { hop: 0, ..passt() }).starts_with("`hop`"));
        assert!(
            refusal(MelConfig {
                hop: usize::MAX,
                ..passt()
            })
            .starts_with("`hop`")
        );
        assert!(refusal(MelConfig { mels: 0, ..passt() }).starts_with("`mels`"));
        assert!(
            refusal(MelConfig {
                mels: 1025,
                ..passt()
            })
            .starts_with("`mels`")
        );
        for pre_emphasis in [-0.1, 1.1, f64::NAN] {
            assert!(
                refusal(MelConfig {
                    pre_emphasis,
                    ..passt()
                })
                .starts_with("`pre_emphasis`")
            );
        }
    }

    #[test]
    fn edges_that_do_not_rise_within_half_the_rate_are_refused() {
        let mel = passt();
        for (low, high) in [
            (-1.0, 15e3),
            (5.0, 5.0),
            (9.0, 8.0),
            (0.0, 16_000.5),
            (f64::NAN, 15e3),
            (0.0, f64::NAN),
        ] {
            let config = MelConfig {
                low,
                high,
                ..MelConfig::default()
            };
            assert!(refusal(config).contains("rise within 0 to 16000 Hz"));
            let error = mel.compute_with_edges(&[0.0; 1000], low, high).unwrap_err();
            assert!(matches!(error, MelError::Edges { .. }));
        }
        assert!(mel.compute_with_edges(&[0.0; 1000], 0.0, 16_000.0).is_ok());
    }

    #[test]
    fn a_configuration_is_read_whole_and_without_unknown_names() {
        let read = |fields: &[(&'static str, u32)]| {
            MelConfig::deserialize(MapDeserializer::<_, ValueError>::new(fields.iter().copied()))
        };
        let all = [
            ("rate", 32_000),
            ("n_fft", 1024),
            ("window", 800),
            ("hop", 320),
            ("mels", 128),
            ("low", 0),
            ("high", 15_000),
            ("pre_emphasis", 1),
        ];
        let expected = MelConfig {
            pre_emphasis: 1.0,
            ..MelConfig::default()
        };
        assert_eq!(read(&all).unwrap(), expected);
        assert!(
            read(&all[..7])
                .unwrap_err()
                .to_string()
                .contains("missing field `pre_emphasis`")
        );
        assert!(
            read(&[("hop_length", 320)])
                .unwrap_err()
                .to_string()
                .contains("unknown field `hop_length`")
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn any_settings_follow_the_definition(
            half in 1usize..40, less in 0usize..20, hop in 1usize..30, mels in 1usize..12, extra in 0usize..60,
        ) {
            let n_fft = 2 * half;
            let config = small(n_fft, n_fft.saturating_sub(less).max(2), hop, mels);
            let samples = noise(half + 2 + extra);
            let frames = MelSpectrogram::new(config.clone()).unwrap().frames(samples.len());
            prop_assert_eq!(frames, (samples.len() - 1) / hop + 1);
            assert_follows_definition(&config, &samples, 0..frames);
        }

        #[test]
        fn a_shift_by_hops_shifts_the_frames(hops in 1usize..12, length in 4000usize..8000) {
            let (mel, samples) = (passt(), noise(12_000));
            let whole = mel.compute(&samples[..length + 320 * hops]).unwrap();
            let part = mel.compute(&samples[320 * hops..length + 320 * hops]).unwrap();
            // A frame reaches 400 samples to either side: the first two and the last two may see an end.
            for band in 0..128 {
                let shifted = &whole.values[band * whole.frames + hops..][2..part.frames - 2];
                prop_assert_eq!(shifted, &part.values[band * part.frames..][2..part.frames - 2]);
            }
        }

        #[test]
        fn finite_samples_give_finite_values(
            samples in proptest::collection::vec(
                prop_oneof![
                    proptest::num::f32::NORMAL | proptest::num::f32::SUBNORMAL | proptest::num::f32::ZERO,
                    Just(f32::MAX),
                    Just(f32::MIN),
                ],
                514..1500,
            ),
        ) {
            let made = passt().compute(&samples).unwrap();
            prop_assert!(made.values.iter().all(|value| value.is_finite()));
        }
    }
}
