//! What training changes about a spectrogram at random: the edges of the bands, and masks over bands and frames.
//!
//! The distributions are those of AugmentMelSTFT of the Python package hear21passt and of the maskings of
//! torchaudio that it uses; the numbers are not, for a generator of its own would be hidden state. Here a seed
//! comes in, and the same seed always gives the same change. Nothing is refused.

use std::ops::Range;

use crate::mel::{DIVISOR, LogMel, OFFSET};
use hark_work::random::{Random, STEP, mix};
use serde::{Deserialize, Serialize};

/// PaSST's lower edge is raised by less than this, in whole hertz.
const LOW_RANGE: usize = 10;
/// PaSST's upper edge moves within a range of this width around its middle, in whole hertz.
const HIGH_RANGE: usize = 2000;
/// The upper edge that moves.
const HIGH: f64 = 15_000.0;

/// What a masked value becomes: a logarithm of 0, normalised like every other.
pub const MASKED: f32 = (OFFSET / DIVISOR) as f32;

/// The widest masks; 0 for none. PaSST was trained with 192 frames and 48 bands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Masking {
    /// A time mask is narrower than this, in frames.
    pub time: usize,
    /// A frequency mask is narrower than this, in bands.
    pub frequency: usize,
}

/// Edges of the bands for one training clip, in hertz: the lower one of 0, 1 ... 9 and the upper one of
/// 14001, 14002 ... 16000, both uniform. For [`crate::mel::MelSpectrogram::compute_with_edges`] at 32 kHz.
pub fn jitter(seed: u64) -> (f64, f64) {
    let mut draws = draws(seed, 0x6a69_7474_6572);
    let low = draws.below(LOW_RANGE) as f64;
    let high = HIGH + (HIGH_RANGE / 2) as f64 - draws.below(HIGH_RANGE) as f64;
    (low, high)
}

/// Masks one run of bands and one run of frames with [`MASKED`].
///
/// A width is uniform in `[0, limit)` and a start uniform in `[0, size - width)`, both drawn as real numbers
/// and cut to whole ones. Where the limit is above the size, as a time mask's may be on a short clip, a mask
/// can be wider than the spectrogram: then it begins before it and covers what it reaches.
pub fn mask(log_mel: &mut LogMel, masking: Masking, seed: u64) {
    let mut draws = draws(seed, 0x6d61_736b);
    let bands = run(&mut draws, masking.frequency, log_mel.mels);
    let frames = run(&mut draws, masking.time, log_mel.frames);
    for (band, row) in log_mel.values.chunks_exact_mut(log_mel.frames.max(1)).enumerate() {
        if bands.contains(&band) {
            row.fill(MASKED);
        } else if let Some(masked) = row.get_mut(frames.clone()) {
            masked.fill(MASKED);
        }
    }
}

/// The draws of one purpose: a word of its own keeps them apart from those of another under the same seed.
fn draws(seed: u64, purpose: u64) -> Random {
    // As the first draws were made, whose numbers must not change: each word is scrambled without a step before.
    Random::new(mix(seed.wrapping_sub(STEP)) ^ mix(purpose.wrapping_sub(STEP)))
}

/// A run within `0..size` and narrower than `limit`.
fn run(draws: &mut Random, limit: usize, size: usize) -> Range<usize> {
    let width = draws.unit() * limit as f64;
    let start = draws.unit() * (size as f64 - width);
    // Both casts cut towards zero, also where the start is negative.
    let (start, width) = (start as i64, width as i64);
    let end = start.saturating_add(width).clamp(0, size as i64);
    let start = start.clamp(0, end);
    start as usize..end as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn blank(mels: usize, frames: usize) -> LogMel {
        LogMel {
            mels,
            frames,
            values: vec![-1.0; mels * frames],
        }
    }

    fn is_masked(value: f32) -> bool {
        (value - 0.9).abs() < 1e-6
    }

    #[test]
    fn edges_are_uniform_over_the_references_whole_numbers() {
        let mut lows = [0usize; 10];
        let mut highs = vec![0usize; 2000];
        for seed in 0..40_000 {
            let (low, high) = jitter(seed);
            assert!(low.fract().abs() < f64::EPSILON && high.fract().abs() < f64::EPSILON);
            lows[low as usize] += 1;
            highs[high as usize - 14_001] += 1;
        }
        // 4000 and 20 expected, five standard deviations (60 and 4.5) either way; every value is met.
        assert!(lows.iter().all(|count| (3700..4300).contains(count)), "{lows:?}");
        assert!(highs.iter().all(|count| (1..46).contains(count)));
        assert_eq!(jitter(7), jitter(7));
    }

    #[test]
    fn widths_and_starts_have_the_references_distribution() {
        let (mut width, mut start, mut widest) = (0.0, 0.0, 0);
        for seed in 0..20_000 {
            let run = run(&mut draws(seed, 1), 48, 128);
            width += run.len() as f64 / 20_000.0;
            start += run.start as f64 / 20_000.0;
            widest = widest.max(run.len());
            assert!(run.end <= 128);
        }
        // floor(U 48) has mean 23.5 and deviation 13.9; floor(U' (128 - 48 U)) has mean 51.5 and deviation 31:
        // five standard errors are 0.5 and 1.1.
        assert!((width - 23.5).abs() < 0.5, "{width}");
        assert!((start - 51.5).abs() < 1.1, "{start}");
        assert_eq!(widest, 47);
    }

    #[test]
    fn no_masking_changes_nothing() {
        let mut log_mel = blank(128, 100);
        mask(
            &mut log_mel,
            Masking {
                time: 0,
                frequency: 0,
            },
            3,
        );
        assert_eq!(log_mel, blank(128, 100));
    }

    #[test]
    fn a_mask_wider_than_the_clip_covers_what_it_reaches() {
        let (mut whole, mut none) = (0, 0);
        for seed in 0..2000 {
            let run = run(&mut draws(seed, 2), 192, 20);
            assert!(run.end <= 20);
            whole += usize::from(run.len() == 20);
            none += usize::from(run.is_empty());
        }
        // A width over 20 has probability 172/192; it then reaches from -(width - 20) U to beyond the end.
        assert!(whole > 1700, "{whole}");
        assert!(none < 40, "{none}");
    }

    #[test]
    fn empty_spectrograms_stay_empty() {
        for (mels, frames) in [(0, 0), (0, 5), (5, 0)] {
            let mut log_mel = blank(mels, frames);
            mask(
                &mut log_mel,
                Masking {
                    time: 192,
                    frequency: 48,
                },
                1,
            );
            assert_eq!(log_mel, blank(mels, frames));
        }
    }

    proptest! {
        #[test]
        fn a_mask_is_one_run_of_bands_and_one_of_frames(
            seed: u64, mels in 1usize..140, frames in 1usize..300, time in 0usize..200, frequency in 0usize..60,
        ) {
            let masking = Masking { time, frequency };
            let mut log_mel = blank(mels, frames);
            mask(&mut log_mel, masking, seed);
            let mut again = blank(mels, frames);
            mask(&mut again, masking, seed);
            prop_assert_eq!(&log_mel, &again);
            let bands: Vec<usize> =
                (0..mels).filter(|m| log_mel.values[m * frames..(m + 1) * frames].iter().all(|&v| is_masked(v))).collect();
            let columns: Vec<usize> =
                (0..frames).filter(|t| (0..mels).all(|m| is_masked(log_mel.values[m * frames + t]))).collect();
            let contiguous = |run: &[usize]| run.windows(2).all(|pair| pair[1] == pair[0] + 1);
            prop_assert!(contiguous(&bands) && contiguous(&columns));
            for band in 0..mels {
                for frame in 0..frames {
                    let expected = bands.contains(&band) || columns.contains(&frame);
                    let value = log_mel.values[band * frames + frame];
                    prop_assert_eq!(is_masked(value), expected);
                    prop_assert!(expected || (value + 1.0).abs() < 1e-6);
                }
            }
            // Where one run covers everything, the other cannot be seen.
            if columns.len() < frames && bands.len() < mels {
                prop_assert!(bands.len() < frequency.max(1) && columns.len() < time.max(1));
            }
        }
    }
}
