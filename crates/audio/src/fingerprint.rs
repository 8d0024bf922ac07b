//! A fingerprint of a recording, by which the same recording is recognised in other formats.
//!
//! In: one channel of samples at [`Fingerprint::RATE`], block by block, of a length that nobody knows beforehand. Out: a
//! [`Fingerprint`] of at most some 1.6 KB, and how far two of them are from each other ([`distance`], [`same_recording`]). Nothing
//! is refused but bytes that are no fingerprint.
//!
//! It follows J. Haitsma and T. Kalker, "A Highly Robust Audio Fingerprinting System" (ISMIR 2002): what is kept is in
//! which direction the difference between neighbouring bands changes over time, which no gain and hardly any codec alters.
//! With E(n, b) the energy of band b in frame n, the mean over W = 4 frames written as a bar,
//!
//! ```text
//! X(n, b) = (Ē(n, b) - Ē(n, b + 1)) - (Ē(n - W, b) - Ē(n - W, b + 1))
//! ```
//!
//! and a cell is the sign of X(n, b), or 0 where X is small beside the four energies, or these are small beside those of the
//! other bands or beside the loudest of the recording. The zeros differ from the paper: its bits are noise where there is nothing to be heard, and
//! sound libraries are full of pauses. Before its beginning and after its end a recording counts as silence, so that a sound
//! that never changes still has its edges.
//!
//! Frames are 8 ms apart at first. When there are more than 256, neighbours are merged pair by pair, so that between
//! 128 and 256 remain of any longer recording, and the memory is bounded. Two recordings of nearly the same length may so
//! come to frames of different lengths; where the length is as near to such a border as the lengths of two formats of one
//! recording are, the cells for both are kept.
//!
//! Two recordings are alike if all of this holds:
//!
//! - Their lengths differ by no more than [`LENGTHS`] seconds.
//! - Their mean spectra are alike. This tells most pairs apart and takes no more than 17 differences.
//! - For some delay of up to [`DELAY`] seconds either way, the cells agree.
//!
//! A recording in which no frame reaches -90 dB of full scale is empty: it is alike to other empty ones of its length and
//! to nothing else. A copy so quiet that it falls below is not recognised. A sound that does not change within some seconds,
//! as a test tone, is told from others by its spectrum and length alone, and two equal tones are one sound. Recordings that
//! differ in a small part only, as by one word cut out by a bleep, are alike.
//!
//! The same samples give the same bytes on one machine. Processors with other instructions may round the transform
//! differently, by which a cell in some thousands may change.

use std::sync::{Arc, OnceLock};

use realfft::num_complex::Complex;
use realfft::{RealFftPlanner, RealToComplex};

/// Samples from frame to frame before any merging: 8 ms.
const HOP: usize = 128;
/// Samples of a frame's Hann window: 32 ms.
const WINDOW: usize = 512;
/// Energies of a frame. They stand at equal distances on the mel scale between [`LOWEST`] and [`HIGHEST`].
const BANDS: usize = 17;
/// Edges of the bands, in Hz. What is below is rumble, and what is above is lost at low rates and bit rates.
const LOWEST: f64 = 150.0;
const HIGHEST: f64 = 7000.0;
/// Frames of a mean.
const MEAN: usize = 4;
/// Frames that are kept at most.
const MAX_FRAMES: usize = 256;
/// A recording is empty if no frame has this power within the bands; the square of full scale is 1. Dither of 16 bits has 2e-10.
const SILENCE: f64 = 1e-9;
/// Cells whose energies are below this share of the loudest are 0.
const QUIET: f64 = 1e-4;
/// Cells whose energies are below this share of all bands' at that time are 0: codecs have their noise there.
const MASKED: f64 = 1e-3;
/// Cells whose difference is below this share of their energies are 0.
const SMALL: f64 = 0.02;
/// Steps of the mean spectrum: half decibels, at most so many below the loudest band.
const STEPS_PER_DB: f64 = 2.0;
const MAX_STEPS: u8 = 80;
/// A difference in one band counts for no more than this: a low-pass takes away some bands altogether.
const MAX_STEPS_APART: u8 = 24;
/// Short recordings have few cells, which are alike by chance more often: with r rows, distances grow by the factor
/// 1 + FEW / r^2, which is 1.15 for 0.2 s and 1.38 for 0.1 s.
const FEW: f64 = 150.0;
/// Recordings are not compared by fewer bands than this, of which the highest ends at 1.9 kHz.
const LEAST_BANDS: usize = 8;

/// The greatest delay that is looked for, in seconds either way.
pub const DELAY: f64 = 0.1;
/// Lengths of two formats of one recording differ by no more than this, in seconds.
pub const LENGTHS: f64 = 0.2;
/// Recordings are alike whose [`distance`] is below. Chosen on two folds of ESC-10 (`bench/duplicates.py`).
pub const LIMIT: f64 = 0.33;
/// The distance of mean spectra, in decibels, that counts as [`LIMIT`].
const SPECTRA_LIMIT: f64 = 3.5;

/// The version of the bytes and of what they mean.
const VERSION: u8 = 1;
/// Bytes before the spectrum: the version, whether there is sound, the number of samples.
const HEAD: usize = 10;

/// A band's energies; sums of many frames, hence in double precision.
type Energies = [f64; BANDS];

/// What a recording sounds like, in few bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    samples: u64,
    /// The mean spectrum; `None` if the recording is empty.
    spectrum: Option<Spectrum>,
    /// Cells for one length of frames, and at a border for its double.
    levels: Vec<Level>,
}

/// The mean spectrum of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spectrum {
    /// How far each band is below the loudest one.
    steps: [u8; BANDS],
    /// Bands up to the highest in which there is something.
    bands: usize,
}

/// The cells for one length of frames.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Level {
    /// Frames were merged so often.
    merged: u32,
    /// A row for each time: the cells above 0 in the lower half, those below 0 in the upper one. The number of bits in which
    /// two rows differ is then the sum of the differences of their cells.
    rows: Vec<u32>,
    /// Bits that are set.
    bits: u32,
}

/// Why bytes are no fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FingerprintError {
    /// Another version of this program made it, or it never was one.
    #[error("fingerprint of version {got}; this program knows version {VERSION}")]
    Version {
        /// The first byte; 0 if there is none.
        got: u8,
    },
    /// It is not as long as its head says.
    #[error("a fingerprint of {got} bytes, where {expected} are needed")]
    Length {
        /// How long it should be.
        expected: usize,
        /// How long it is.
        got: usize,
    },
    /// A number in it is none that a fingerprint has.
    #[error("a fingerprint with an impossible byte at {at}")]
    Value {
        /// Where.
        at: usize,
    },
}

impl Fingerprint {
    /// The rate of the samples that a [`Fingerprinter`] takes, in Hz.
    pub const RATE: u32 = 16_000;

    /// The length of the recording.
    pub fn seconds(&self) -> f64 {
        self.samples as f64 / f64::from(Self::RATE)
    }

    /// Whether there is nothing to be heard.
    pub fn is_empty(&self) -> bool {
        self.spectrum.is_none()
    }

    /// The bytes to keep: the version, whether there is sound, the number of samples, the spectrum, the cells. The numbers
    /// of levels and rows follow from that of samples.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION, u8::from(self.spectrum.is_some())];
        bytes.extend(self.samples.to_le_bytes());
        bytes.extend(self.spectrum.iter().flat_map(|spectrum| spectrum.steps));
        for row in self.levels.iter().flat_map(|level| &level.rows) {
            bytes.extend(row.to_le_bytes());
        }
        bytes
    }

    /// Reads what [`Fingerprint::to_bytes`] wrote.
    ///
    /// # Errors
    /// If the bytes are of another version, too few or too many, or hold what no fingerprint has.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FingerprintError> {
        let got = bytes.len();
        let (head, rest) = match bytes.split_first_chunk::<HEAD>() {
            Some((head @ [VERSION, ..], rest)) => (head, rest),
            None if bytes.first() == Some(&VERSION) => {
                return Err(FingerprintError::Length { expected: HEAD, got });
            }
            _ => {
                let got = bytes.first().copied().unwrap_or_default();
                return Err(FingerprintError::Version { got });
            }
        };
        let [_, sound, samples @ ..] = *head;
        let samples = u64::from_le_bytes(samples);
        let (spectrum, rest) = match (sound, rest.split_first_chunk::<BANDS>()) {
            (0, _) => (None, rest),
            (1, Some((steps, rest))) => (Some(Spectrum::new(*steps)), rest),
            (1, None) => {
                let expected = HEAD + BANDS;
                return Err(FingerprintError::Length { expected, got });
            }
            _ => return Err(FingerprintError::Value { at: 1 }),
        };
        let mut steps = spectrum.iter().flat_map(|spectrum| &spectrum.steps);
        if let Some(at) = steps.position(|&step| step > MAX_STEPS) {
            return Err(FingerprintError::Value { at: HEAD + at });
        }
        let sizes = if spectrum.is_some() {
            sizes(samples)
        } else {
            Vec::new()
        };
        let expected = got - rest.len() + 4 * sizes.iter().map(|(_, rows)| rows).sum::<usize>();
        if got != expected {
            return Err(FingerprintError::Length { expected, got });
        }
        let mut rows = rest.as_chunks::<4>().0.iter().map(|row| u32::from_le_bytes(*row));
        let levels: Vec<Level> = sizes
            .into_iter()
            .map(|(merged, count)| Level::new(merged, rows.by_ref().take(count).collect()))
            .collect();
        let both = |row: &u32| row & (row >> 16) & 0xffff != 0;
        if let Some(row) = levels.iter().flat_map(|level| &level.rows).position(both) {
            let at = got - rest.len() + 4 * row;
            return Err(FingerprintError::Value { at });
        }
        Ok(Self {
            samples,
            spectrum,
            levels,
        })
    }
}

impl Spectrum {
    fn new(steps: [u8; BANDS]) -> Self {
        let highest = steps.iter().rposition(|&step| step < MAX_STEPS);
        let bands = highest.map_or(0, |band| band + 1);
        Self { steps, bands }
    }

    /// How many bands to compare, from the lowest. Where one recording has nothing in the highest of the other, a low
    /// rate or bit rate may have taken it away, and the bands that are left decide, if they are not too few.
    fn shared(&self, other: &Self) -> usize {
        let least = self.bands.min(other.bands);
        if self.bands == other.bands || least < LEAST_BANDS {
            BANDS
        } else {
            least
        }
    }

    /// The mean difference over so many bands, [`LIMIT`] if it is [`SPECTRA_LIMIT`].
    fn distance(&self, other: &Self, bands: usize) -> f64 {
        let (a, b) = (&self.steps[..bands], &other.steps[..bands]);
        let loudest = |steps: &[u8]| steps.iter().copied().min().unwrap_or_default();
        let (top_a, top_b) = (loudest(a), loudest(b));
        let apart = |(a, b): (&u8, &u8)| u32::from((a - top_a).abs_diff(b - top_b).min(MAX_STEPS_APART));
        let sum: u32 = a.iter().zip(b).map(apart).sum();
        let decibels = f64::from(sum) / (bands as f64 * STEPS_PER_DB);
        (LIMIT / SPECTRA_LIMIT * decibels).min(1.0)
    }
}

/// How often frames are merged and how many rows of cells there are, for each level of so many samples.
fn sizes(samples: u64) -> Vec<(u32, usize)> {
    let hops = samples.div_ceil(HOP as u64);
    let mut merged = 0;
    while frames(hops, merged) > MAX_FRAMES as u64 {
        merged += 1;
    }
    // A recording that is longer by as much as a format may add might have been merged once more.
    let longer = samples.saturating_add((LENGTHS * f64::from(Fingerprint::RATE)).ceil() as u64);
    let at_border = frames(longer.div_ceil(HOP as u64), merged) > MAX_FRAMES as u64;
    (merged..=merged + u32::from(at_border))
        .map(|merged| (merged, frames(hops, merged) as usize + 2 * MEAN - 1))
        .collect()
}

/// How many frames so many hops make after so many merges.
fn frames(hops: u64, merged: u32) -> u64 {
    hops.div_ceil(1 << merged)
}

impl Level {
    fn new(merged: u32, rows: Vec<u32>) -> Self {
        let bits = ones(&rows);
        Self { merged, rows, bits }
    }

    /// The cells of frames, see the head of this file.
    fn of(frames: &[Energies], merged: u32) -> Self {
        let silent = [0.0; BANDS];
        let at = |n: usize, back: usize| n.checked_sub(back).and_then(|n| frames.get(n)).unwrap_or(&silent);
        let sum = |n: usize, first: usize| {
            (first..first + MEAN).fold([0.0; BANDS], |mut sum: Energies, back| {
                sum.iter_mut()
                    .zip(at(n, back))
                    .for_each(|(sum, energy)| *sum += energy);
                sum
            })
        };
        let times = 0..frames.len() + 2 * MEAN - 1;
        let means: Vec<_> = times.map(|n| (sum(n, 0), sum(n, MEAN))).collect();
        let energy =
            |(now, before): &(Energies, Energies), b: usize| now[b] + now[b + 1] + before[b] + before[b + 1];
        let loudest = means
            .iter()
            .flat_map(|both| (1..BANDS).map(move |b| energy(both, b - 1)))
            .fold(0.0, f64::max);
        let floor = (QUIET * loudest).max(SILENCE / 100.0 * MEAN as f64);
        let row = |both: &(Energies, Energies)| {
            let (now, before) = both;
            let floor = floor.max(MASKED * now.iter().chain(before).sum::<f64>());
            (0..BANDS - 1).fold(0, |row, b| {
                let change = (now[b] - now[b + 1]) - (before[b] - before[b + 1]);
                let energy = energy(both, b);
                match energy > floor && change.abs() > SMALL * energy {
                    true if change > 0.0 => row | 1_u32 << b,
                    true => row | 1_u32 << (b + 16),
                    false => row,
                }
            })
        };
        Self::new(merged, means.iter().map(row).collect())
    }

    /// The cells of the lowest bands alone.
    fn below(&self, bands: usize) -> Self {
        let cells = (1_u32 << bands.saturating_sub(1)) - 1;
        let mask = cells | cells << 16;
        Self::new(self.merged, self.rows.iter().map(|row| row & mask).collect())
    }

    /// The time from row to row, in seconds.
    fn hop(&self) -> f64 {
        HOP as f64 * 2_f64.powi(self.merged as i32) / f64::from(Fingerprint::RATE)
    }

    /// The distance for the best delay, 0 for equal cells, about 0.5 for those of two sounds that have nothing to do with
    /// each other, 1 for cells that never are in one place: the sum of differences as a share of the greatest that it could be.
    fn distance(&self, other: &Self) -> f64 {
        let all = self.bits + other.bits;
        if all == 0 {
            return 0.0;
        }
        let most = (DELAY / self.hop()).round() as usize;
        let later = (0..=most).map(|delay| apart(self, other, delay));
        let earlier = (1..=most).map(|delay| apart(other, self, delay));
        let least = later.chain(earlier).min().unwrap_or(all);
        f64::from(least) / f64::from(all)
    }
}

/// Bits in which the rows differ, if those of `late` are moved to so many rows earlier.
fn apart(late: &Level, early: &Level, delay: usize) -> u32 {
    let (before, late) = late.rows.split_at(delay.min(late.rows.len()));
    let shared = late.len().min(early.rows.len());
    let differing: u32 = late
        .iter()
        .zip(&early.rows)
        .map(|(a, b)| (a ^ b).count_ones())
        .sum();
    ones(before) + differing + ones(&late[shared..]) + ones(&early.rows[shared..])
}

fn ones(rows: &[u32]) -> u32 {
    rows.iter().map(|row| row.count_ones()).sum()
}

/// How far two recordings are from each other, from 0 to 1; below [`LIMIT`] they are alike. See the head of this file.
pub fn distance(a: &Fingerprint, b: &Fingerprint) -> f64 {
    match before_cells(a, b) {
        Before::Known(distance) => distance,
        Before::Spectra { distance, bands } => distance.max(cells(a, b, bands)),
    }
}

/// Whether two fingerprints are of one recording. The same as asking whether the [`distance`] is below [`LIMIT`], but mostly
/// decided by lengths and spectra.
pub fn same_recording(a: &Fingerprint, b: &Fingerprint) -> bool {
    match before_cells(a, b) {
        Before::Known(distance) => distance < LIMIT,
        Before::Spectra { distance, bands } => distance < LIMIT && cells(a, b, bands) < LIMIT,
    }
}

/// What is known of a distance before cells are compared.
enum Before {
    Known(f64),
    /// That of the spectra, which is the least that it is, and how many bands the cells are to be compared in.
    Spectra {
        distance: f64,
        bands: usize,
    },
}

fn before_cells(a: &Fingerprint, b: &Fingerprint) -> Before {
    if a.samples.abs_diff(b.samples) as f64 > LENGTHS * f64::from(Fingerprint::RATE) {
        return Before::Known(1.0);
    }
    match (&a.spectrum, &b.spectrum) {
        (None, None) => Before::Known(0.0),
        (Some(a), Some(b)) => {
            let bands = a.shared(b);
            let distance = a.distance(b, bands);
            Before::Spectra { distance, bands }
        }
        _ => Before::Known(1.0),
    }
}

/// The distance of the cells for frames of one length, which recordings of nearly one length have.
fn cells(a: &Fingerprint, b: &Fingerprint, bands: usize) -> f64 {
    let same = |x: &Level| b.levels.iter().find(|y| x.merged == y.merged);
    let Some((x, y)) = a.levels.iter().find_map(|x| same(x).map(|y| (x, y))) else {
        return 1.0;
    };
    let found = if bands == BANDS {
        x.distance(y)
    } else {
        x.below(bands).distance(&y.below(bands))
    };
    let rows = x.rows.len().min(y.rows.len()) as f64;
    (found * (1.0 + FEW / (rows * rows))).min(1.0)
}

/// What does not depend on the recording.
struct Plan {
    transform: Arc<dyn RealToComplex<f32>>,
    window: Vec<f32>,
    /// For each band its first bin and the weights from there on.
    bands: Vec<(usize, Vec<f64>)>,
}

impl Plan {
    /// The one plan of this process.
    fn get() -> &'static Self {
        static PLAN: OnceLock<Plan> = OnceLock::new();
        PLAN.get_or_init(Self::new)
    }

    fn new() -> Self {
        let hann = |n: usize| 0.5 - 0.5 * (std::f64::consts::TAU * n as f64 / WINDOW as f64).cos();
        let window: Vec<f64> = (0..WINDOW).map(hann).collect();
        // With this the sum over all bins is the mean square of the samples.
        let scale = 2.0 / (WINDOW as f64 * window.iter().map(|w| w * w).sum::<f64>());
        let edge = |b: usize| hertz(mel(LOWEST) + (mel(HIGHEST) - mel(LOWEST)) * b as f64 / BANDS as f64);
        Self {
            transform: RealFftPlanner::new().plan_fft_forward(WINDOW),
            window: window.into_iter().map(|w| w as f32).collect(),
            bands: (0..BANDS).map(|b| band(edge(b), edge(b + 1), scale)).collect(),
        }
    }
}

fn mel(hertz: f64) -> f64 {
    2595.0 * (1.0 + hertz / 700.0).log10()
}

fn hertz(mel: f64) -> f64 {
    700.0 * (10_f64.powf(mel / 2595.0) - 1.0)
}

/// The bins between two frequencies: each with the share of its width that is between them, times `scale`.
fn band(low: f64, high: f64, scale: f64) -> (usize, Vec<f64>) {
    let width = f64::from(Fingerprint::RATE) / WINDOW as f64;
    let below = |bin: usize, edge: f64| (edge / width - bin as f64 + 0.5).clamp(0.0, 1.0);
    let first = (low / width).round() as usize;
    let last = (high / width).round() as usize;
    let weights = (first..=last).map(|bin| scale * (below(bin, high) - below(bin, low)));
    (first, weights.collect())
}

/// Makes the fingerprint of one recording from its samples.
pub struct Fingerprinter {
    plan: &'static Plan,
    /// Samples that a frame still needs.
    pending: Vec<f32>,
    frame: Vec<f32>,
    scratch: Vec<Complex<f32>>,
    spectrum: Vec<Complex<f32>>,
    samples: u64,
    /// Frames so far, each the sum of up to 2^`merged` hops.
    frames: Vec<Energies>,
    merged: u32,
    hops: u64,
    loudest: f64,
}

impl Default for Fingerprinter {
    fn default() -> Self {
        Self::new()
    }
}

impl Fingerprinter {
    /// At the beginning of a recording.
    pub fn new() -> Self {
        let plan = Plan::get();
        Self {
            plan,
            // The first frame's middle is that of the first hop.
            pending: vec![0.0; (WINDOW - HOP) / 2],
            frame: vec![0.0; WINDOW],
            scratch: plan.transform.make_scratch_vec(),
            spectrum: plan.transform.make_output_vec(),
            samples: 0,
            frames: Vec::new(),
            merged: 0,
            hops: 0,
            loudest: 0.0,
        }
    }

    /// Takes the next samples, mono and at [`Fingerprint::RATE`]. Those that are not finite count as 0.
    pub fn push(&mut self, block: &[f32]) {
        self.samples += block.len() as u64;
        for part in block.chunks(WINDOW) {
            self.take(part);
        }
    }

    /// The fingerprint of all samples so far.
    pub fn finish(mut self) -> Fingerprint {
        let hops = self.samples.div_ceil(HOP as u64);
        while self.hops < hops {
            self.take(&[0.0; HOP]);
        }
        let spectrum = (self.loudest >= SILENCE).then(|| self.mean_spectrum());
        let mut levels = Vec::new();
        if spectrum.is_some() {
            for (merged, _) in sizes(self.samples) {
                while self.merged < merged {
                    self.merge();
                }
                levels.push(Level::of(&self.means(), merged));
            }
        }
        Fingerprint {
            samples: self.samples,
            spectrum,
            levels,
        }
    }

    fn take(&mut self, samples: &[f32]) {
        // Bounded, so that no square is infinite.
        let bounded = |sample: &f32| {
            if sample.is_finite() {
                sample.clamp(-1e6, 1e6)
            } else {
                0.0
            }
        };
        self.pending.extend(samples.iter().map(bounded));
        let mut start = 0;
        while let Some(samples) = self.pending.get(start..start + WINDOW) {
            for ((out, sample), weight) in self.frame.iter_mut().zip(samples).zip(&self.plan.window) {
                *out = sample * weight;
            }
            self.transform();
            start += HOP;
        }
        self.pending.drain(..start);
    }

    fn transform(&mut self) {
        // It fails only on buffers of the wrong length, and these are the planner's own.
        let done =
            self.plan
                .transform
                .process_with_scratch(&mut self.frame, &mut self.spectrum, &mut self.scratch);
        debug_assert!(done.is_ok());
        let power = |(bin, weight): (&Complex<f32>, &f64)| {
            f64::from(bin.re)
                .powi(2)
                .mul_add(*weight, f64::from(bin.im).powi(2) * weight)
        };
        let mut energies = [0.0; BANDS];
        for (energy, (first, weights)) in energies.iter_mut().zip(&self.plan.bands) {
            let bins = self.spectrum.get(*first..).unwrap_or_default();
            *energy = bins.iter().zip(weights).map(power).sum();
        }
        self.loudest = self.loudest.max(energies.iter().sum());
        self.add(&energies);
    }

    /// Adds a hop to the last frame, or begins one; when there is no room, merges all pairs first.
    fn add(&mut self, energies: &Energies) {
        if self.hops.is_multiple_of(1 << self.merged) {
            if self.frames.len() == MAX_FRAMES {
                self.merge();
            }
            self.frames.push([0.0; BANDS]);
        }
        if let Some(frame) = self.frames.last_mut() {
            frame
                .iter_mut()
                .zip(energies)
                .for_each(|(sum, energy)| *sum += energy);
        }
        self.hops += 1;
    }

    fn merge(&mut self) {
        self.frames = self
            .frames
            .chunks(2)
            .map(|pair| std::array::from_fn(|b| pair.iter().map(|frame| frame[b]).sum()))
            .collect();
        self.merged += 1;
    }

    /// The frames as means over their hops. What is missing of the last one is silence.
    fn means(&self) -> Vec<Energies> {
        let scale = 0.5_f64.powi(self.merged as i32);
        self.frames
            .iter()
            .map(|frame| frame.map(|energy| energy * scale))
            .collect()
    }

    /// The energies of the whole recording in steps below the loudest band.
    fn mean_spectrum(&self) -> Spectrum {
        let sums: Energies = std::array::from_fn(|b| self.frames.iter().map(|frame| frame[b]).sum());
        let loudest = sums.iter().copied().fold(0.0, f64::max);
        Spectrum::new(sums.map(|sum| {
            let below = -10.0 * (sum / loudest).log10() * STEPS_PER_DB;
            below.round().clamp(0.0, f64::from(MAX_STEPS)) as u8
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_work::random::Random;
    use proptest::prelude::*;

    fn noise(seed: u64, samples: usize) -> Vec<f32> {
        let mut random = Random::new(seed);
        (0..samples).map(|_| 0.3 * random.signed() as f32).collect()
    }

    fn of(samples: &[f32]) -> Fingerprint {
        let mut listener = Fingerprinter::new();
        listener.push(samples);
        listener.finish()
    }

    /// The distance as the sum over cells of -1, 0 and 1, without any bits.
    fn by_cells(a: &Level, b: &Level) -> f64 {
        let cells = |level: &Level, n: i64| -> [i32; 16] {
            let row = usize::try_from(n)
                .ok()
                .and_then(|n| level.rows.get(n))
                .copied()
                .unwrap_or(0);
            std::array::from_fn(|b| (row >> b & 1) as i32 - (row >> (b + 16) & 1) as i32)
        };
        let size = |level: &Level| {
            (0..level.rows.len())
                .flat_map(|n| cells(level, n as i64))
                .map(i32::abs)
                .sum::<i32>()
        };
        let length = a.rows.len().max(b.rows.len()) as i64;
        let most = (DELAY / a.hop()).round() as i64;
        let apart = |delay: i64| -> i32 {
            (-length..2 * length)
                .map(|n| {
                    cells(a, n + delay)
                        .iter()
                        .zip(cells(b, n))
                        .map(|(x, y)| (x - y).abs())
                        .sum::<i32>()
                })
                .sum()
        };
        let least = (-most..=most).map(apart).min().unwrap();
        f64::from(least) / f64::from(size(a) + size(b))
    }

    #[test]
    fn bits_count_what_cells_differ_by() {
        for (a, b) in [(3000, 3500), (20_000, 20_000), (31_000, 32_900), (50_000, 49_000)] {
            let (a, b) = (of(&noise(1, a)), of(&noise(2, b)));
            let (x, y) = (&a.levels[0], &b.levels[0]);
            assert!((x.distance(y) - by_cells(x, y)).abs() < 1e-12);
            assert!((y.distance(x) - by_cells(x, y)).abs() < 1e-12);
        }
    }

    /// A tone at the middle of each band has nearly all of its energy there, and that is its mean square.
    #[test]
    fn a_tone_is_in_its_band() {
        let step = (mel(HIGHEST) - mel(LOWEST)) / BANDS as f64;
        for band in 0..BANDS {
            let frequency = hertz(mel(LOWEST) + step * (band as f64 + 0.5));
            let tone = |n: usize| (std::f64::consts::TAU * frequency * n as f64 / 16_000.0).sin() as f32;
            let mut listener = Fingerprinter::new();
            listener.push(&(0..8000).map(tone).collect::<Vec<_>>());
            let frame = listener.frames[20];
            // The window's main lobe is 4 bins wide, which is more than the lowest bands are.
            assert!(
                frame[band] > 0.3 && frame.iter().sum::<f64>() < 0.51,
                "{band}: {frame:?}"
            );
            assert!(
                frame.iter().all(|&energy| energy <= frame[band]),
                "{band}: {frame:?}"
            );
        }
    }

    #[test]
    fn frames_are_bounded_and_their_number_follows_from_the_length() {
        let minute = noise(3, 60 * 16_000);
        let mut listener = Fingerprinter::new();
        for minutes in 1..=4_u64 {
            listener.push(&minute);
            assert!(listener.frames.len() <= MAX_FRAMES && listener.frames.len() > MAX_FRAMES / 2);
            assert!(listener.pending.len() < 2 * WINDOW);
            assert_eq!(listener.samples, minutes * 960_000);
        }
        let found = listener.finish();
        assert_eq!(found.levels.len(), 1);
        assert_eq!(
            (found.levels[0].merged, found.levels[0].rows.len()),
            sizes(4 * 960_000)[0]
        );
        // No length gives more, not even one that no file has.
        for samples in [0, 1, HOP as u64, 32_768, 32_769, 1 << 40, u64::MAX] {
            let sizes = sizes(samples);
            assert!(matches!(sizes.len(), 1 | 2), "{samples}");
            assert!(
                sizes.iter().all(|&(_, rows)| rows < MAX_FRAMES + 2 * MEAN),
                "{samples}"
            );
        }
    }

    #[test]
    fn bytes_come_back() {
        for samples in [0, 1, 3200, 32_000, 32_769, 80_000] {
            let fingerprint = of(&noise(4, samples));
            assert_eq!(fingerprint.is_empty(), samples == 0);
            let bytes = fingerprint.to_bytes();
            assert!(bytes.len() < 1650, "{}", bytes.len());
            assert_eq!(Fingerprint::from_bytes(&bytes), Ok(fingerprint));
        }
    }

    #[test]
    fn bytes_that_are_no_fingerprint() {
        let good = of(&noise(5, 16_000)).to_bytes();
        assert_eq!(
            Fingerprint::from_bytes(&[]),
            Err(FingerprintError::Version { got: 0 })
        );
        for length in 1..good.len() {
            let error = Fingerprint::from_bytes(&good[..length]).unwrap_err();
            assert!(
                matches!(error, FingerprintError::Length { got, .. } if got == length),
                "{error}"
            );
        }
        let changed = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            Fingerprint::from_bytes(&bytes)
        };
        assert_eq!(changed(0, 2), Err(FingerprintError::Version { got: 2 }));
        assert_eq!(changed(1, 2), Err(FingerprintError::Value { at: 1 }));
        assert_eq!(
            changed(12, MAX_STEPS + 1),
            Err(FingerprintError::Value { at: 12 })
        );
        // A longer recording would have more rows; one without sound has none.
        assert!(matches!(changed(4, 1), Err(FingerprintError::Length { .. })));
        assert!(matches!(changed(1, 0), Err(FingerprintError::Length { .. })));
        let mut both = good.clone();
        both[27..31].copy_from_slice(&0x0001_0001_u32.to_le_bytes());
        assert_eq!(
            Fingerprint::from_bytes(&both),
            Err(FingerprintError::Value { at: 27 })
        );
        let mut longer = good;
        longer.push(0);
        assert!(matches!(
            Fingerprint::from_bytes(&longer),
            Err(FingerprintError::Length { .. })
        ));
    }

    #[test]
    fn samples_that_are_no_numbers_count_as_silence() {
        let broken = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY].repeat(3000);
        assert!(of(&broken).is_empty());
        let loud = of(&vec![f32::MAX; 9000]);
        assert!(distance(&loud, &loud) < 1e-12);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn blocks_do_not_matter(seed: u64, length in 0_usize..60_000, cuts in prop::collection::vec(1_usize..9000, 1..9)) {
            let signal = noise(seed, length);
            let mut listener = Fingerprinter::new();
            let mut rest = &signal[..];
            for &cut in cuts.iter().cycle() {
                let (block, after) = rest.split_at(cut.min(rest.len()));
                listener.push(block);
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            let found = listener.finish();
            prop_assert_eq!(found.samples, length as u64);
            prop_assert_eq!(&found, &of(&signal));
            prop_assert_eq!(Fingerprint::from_bytes(&found.to_bytes()), Ok(found));
        }

        /// Whatever is accepted is what it would be written as, and can be compared.
        #[test]
        fn any_bytes(mut bytes in prop::collection::vec(any::<u8>(), 0..200), samples in 0_u64..5000, sound in 0_u8..3) {
            if let Some(head) = bytes.first_chunk_mut::<HEAD>() {
                head[0] = VERSION;
                head[1] = sound;
                head[2..].copy_from_slice(&samples.to_le_bytes());
            }
            if let Ok(found) = Fingerprint::from_bytes(&bytes) {
                prop_assert_eq!(found.to_bytes(), bytes);
                prop_assert!((0.0..=1.0).contains(&distance(&found, &of(&noise(1, samples as usize)))));
            }
        }

        #[test]
        fn a_distance_has_no_sides(seeds: (u64, u64), a in 0_usize..40_000, more in 0_usize..4000) {
            let (a, b) = (of(&noise(seeds.0, a)), of(&noise(seeds.1, a + more)));
            let found = distance(&a, &b);
            prop_assert!((0.0..=1.0).contains(&found));
            prop_assert!((found - distance(&b, &a)).abs() < 1e-12);
            prop_assert_eq!(found < LIMIT, same_recording(&a, &b));
            prop_assert!(distance(&a, &a) < 1e-12);
        }
    }
}
