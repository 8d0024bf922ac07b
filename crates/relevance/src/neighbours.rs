//! Captions of different clips that say the same, and how often a training batch holds one.
//!
//! A contrastive objective treats every clip of the batch but the caption's own as wrong. Where another
//! caption of the batch says the same as this one, its clip is probably right too: a likely false negative.
//!
//! Let N captions be given, each with its clip, and let c_i be the number of captions of other clips whose
//! similarity to caption i is at least a threshold. A batch is B of the N captions, drawn at random without
//! replacement, each with its clip. Then
//!
//! - the expected number of ordered pairs (caption, clip of another caption) in the batch that are likely
//!   false negatives is B (B - 1) / (N (N - 1)) times the sum of c_i: every ordered pair of captions is drawn
//!   with the same probability;
//! - the expected share of captions of the batch with at least one likely false negative is the mean over i
//!   of 1 - C(N - 1 - c_i, B - 1) / C(N - 1, B - 1): given that caption i is drawn, the other B - 1 come from
//!   the remaining N - 1, and none of them may be one of the c_i.
//!
//! Captions of the same clip are not false negatives and do not count in c_i. Both figures are exact: c_i
//! counts all pairs, not a list cut at some length.

use std::num::NonZeroUsize;
use std::path::Path;

use hark_nearest::exact::{Counts, Neighbours, Options, Pairs};
use hark_nearest::{Vectors, exact};
use hark_work::files::{NewFile, replace_file};
use hark_work::progress::Progress;

use crate::Error;
use crate::arrays::Archive;
use crate::similarity::UNIT_TOLERANCE;

/// Pairs of captions of different clips whose similarity is at least `threshold`, the most similar first. At
/// most `limit` are listed; all are counted.
///
/// # Errors
///
/// [`Error::Nearest`] for vectors that are not unit vectors, a wrong number of clips, a threshold that is not
/// finite, and
/// [`Error::Cancelled`].
pub fn similar_pairs(
    captions: Vectors<'_>,
    clips: &[u32],
    threshold: f32,
    limit: usize,
    threads: Option<NonZeroUsize>,
    progress: Progress<'_>,
) -> Result<Pairs, Error> {
    captions.check_unit(UNIT_TOLERANCE)?;
    let options = Options {
        groups: Some(clips),
        threads,
    };
    let mut found = exact::pairs_above(captions, threshold, limit, options, progress)?;
    for pair in &mut found.pairs {
        pair.score = pair.score.clamp(-1.0, 1.0);
    }
    Ok(found)
}

/// For every caption, how many captions of other clips say the same, at several thresholds.
#[derive(Debug, Clone, PartialEq)]
pub struct FalseNegatives {
    counts: Counts,
}

/// What to expect of a random batch at one threshold.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Expected {
    /// The least similarity at which two captions say the same.
    pub threshold: f32,
    /// Captions in the set, N.
    pub captions: usize,
    /// Captions in a batch, B.
    pub batch: usize,
    /// Ordered pairs of captions of different clips that say the same, in the whole set.
    pub ordered_pairs: u64,
    /// Captions of the set with at least one such partner.
    pub captions_with_any: usize,
    /// Expected number of likely false negatives in a batch, over all its ordered pairs.
    pub pairs_per_batch: f64,
    /// Expected share of the captions of a batch with at least one likely false negative.
    pub share_of_captions: f64,
}

/// For each of several sets of captions what to expect of a random batch of it; `None` for a set that is smaller than a
/// batch. `captions` has the vectors of all sets, one set after the other, and `sets` the clip of each caption.
///
/// # Errors
/// As [`false_negatives`].
pub fn expected_false_negatives(
    captions: Vectors<'_>,
    sets: &[Vec<u32>],
    (threshold, batch): (f32, usize),
    threads: Option<NonZeroUsize>,
    progress: Progress<'_>,
) -> Result<Vec<Option<Expected>>, Error> {
    let mut rest = captions.as_slice();
    let mut expected = Vec::with_capacity(sets.len());
    for clips in sets {
        let (own, others) = rest.split_at(clips.len() * captions.dim());
        rest = others;
        expected.push(if clips.len() < batch {
            None
        } else {
            let own = Vectors::new(own, captions.dim())?;
            let counted = false_negatives(own, clips, &[threshold], threads, progress)?;
            Some(counted.expected(0, batch)?)
        });
    }
    Ok(expected)
}

/// Counts, for every caption and threshold, the captions of other clips that are at least that similar.
///
/// ```
/// use hark_relevance::{Vectors, neighbours, no_progress};
///
/// // Three captions of three clips; the first two say the same.
/// let captions = Vectors::new(&[1.0, 0.0, 1.0, 0.0, 0.0, 1.0], 2)?;
/// let false_negatives = neighbours::false_negatives(captions, &[0, 1, 2], &[0.9], None, &no_progress)?;
/// let expected = false_negatives.expected(0, 2)?;
/// // One of the three possible batches holds the pair, once in each direction.
/// assert!((expected.pairs_per_batch - 2.0 / 3.0).abs() < 1e-12);
/// assert!((expected.share_of_captions - 1.0 / 3.0).abs() < 1e-12);
/// # Ok::<(), hark_relevance::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Nearest`] for vectors that are not unit vectors, a wrong number of clips, thresholds that are
/// missing or not finite, and
/// [`Error::Cancelled`].
pub fn false_negatives(
    captions: Vectors<'_>,
    clips: &[u32],
    thresholds: &[f32],
    threads: Option<NonZeroUsize>,
    progress: Progress<'_>,
) -> Result<FalseNegatives, Error> {
    captions.check_unit(UNIT_TOLERANCE)?;
    let options = Options {
        groups: Some(clips),
        threads,
    };
    Ok(FalseNegatives {
        counts: exact::count_above(captions, thresholds, options, progress)?,
    })
}

impl FalseNegatives {
    /// The counts c_i of every caption at every threshold.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What to expect of a batch of `batch` captions at each threshold.
    ///
    /// # Errors
    ///
    /// [`Error::BadBatch`] when such a batch cannot be drawn.
    pub fn expected_at_all(&self, batch: usize) -> Result<Vec<Expected>, Error> {
        (0..self.counts.thresholds().len())
            .map(|threshold| self.expected(threshold, batch))
            .collect()
    }

    /// What to expect of a batch of `batch` captions, at a threshold given by its position.
    ///
    /// # Errors
    ///
    /// [`Error::BadBatch`] when such a batch cannot be drawn, [`Error::OutOfRange`] when there is no such
    /// threshold.
    pub fn expected(&self, threshold: usize, batch: usize) -> Result<Expected, Error> {
        let captions = self.counts.rows();
        if batch == 0 || batch > captions {
            return Err(Error::BadBatch { batch, captions });
        }
        let thresholds = self.counts.thresholds();
        let Some(&value) = thresholds.get(threshold) else {
            return Err(Error::OutOfRange {
                what: "threshold",
                position: threshold,
                value: threshold as f64,
                low: 0.0,
                high: (thresholds.len() - 1) as f64,
            });
        };
        let ordered_pairs = self.counts.ordered_pairs(threshold);
        let (n, b) = (captions as f64, batch as f64);
        // A batch of one has no pairs; with one caption the formula would divide by 0.
        let pairs_per_batch = if batch == 1 {
            0.0
        } else {
            ordered_pairs as f64 * (b / n) * ((b - 1.0) / (n - 1.0))
        };
        // Few different counts occur, so each is worked out once.
        let mut counts: Vec<u32> = self.counts.at(threshold).collect();
        counts.sort_unstable();
        let mut sum = 0.0;
        for equal in counts.chunk_by(|a, b| a == b) {
            sum += equal.len() as f64 * share_with_any(captions, batch, equal[0] as usize);
        }
        Ok(Expected {
            threshold: value,
            captions,
            batch,
            ordered_pairs,
            captions_with_any: counts.iter().filter(|&&count| count > 0).count(),
            pairs_per_batch,
            share_of_captions: sum / n,
        })
    }
}

/// Writes the nearest captions of every caption as a NumPy archive, as a whole or not at all: `ids` and
/// `similarities` of the neighbours, and `starts`, where those of each caption begin (and the last end).
///
/// # Errors
///
/// [`Error::NotWritten`].
pub fn save(path: &Path, neighbours: &Neighbours) -> Result<(), Error> {
    let starts: Vec<i64> = neighbours.starts().iter().map(|&start| start as i64).collect();
    let write = |file: &mut NewFile<'_>| {
        let mut archive = Archive::new(file);
        archive.add("ids", neighbours.ids())?;
        archive.add("similarities", neighbours.scores())?;
        archive.add("starts", &starts)?;
        archive.finish()
    };
    replace_file(path, |file| {
        write(file).map_err(|error| error.while_writing(path))
    })
}

/// 1 - C(N - 1 - c, B - 1) / C(N - 1, B - 1): the probability that at least one of c partners is among the B
/// - 1 others of a batch.
fn share_with_any(captions: usize, batch: usize, partners: usize) -> f64 {
    let (others, drawn) = (captions - 1, batch - 1);
    if partners + drawn > others {
        // Too few others are left for a batch without any partner.
        return f64::from(u8::from(partners > 0 && drawn > 0));
    }
    // The quotient is symmetric in partners and drawn: the product over the smaller one is shorter.
    // Logarithms keep a share near 0 exact to the last digits.
    let (terms, removed) = (partners.min(drawn), partners.max(drawn));
    let log: f64 = (0..terms)
        .map(|term| (-(removed as f64) / (others - term) as f64).ln_1p())
        .sum();
    -log.exp_m1()
}

#[cfg(test)]
mod tests {
    use hark_work::progress::no_progress;

    use super::*;

    /// Captions on a circle at these angles, in degrees.
    fn circle(angles: &[f32]) -> Vec<f32> {
        angles
            .iter()
            .flat_map(|angle| [angle.to_radians().cos(), angle.to_radians().sin()])
            .collect()
    }

    /// All batches of `size` out of `count`.
    fn batches(count: usize, size: usize) -> Vec<Vec<usize>> {
        (0..1_usize << count)
            .filter(|set| set.count_ones() as usize == size)
            .map(|set| (0..count).filter(|item| set >> item & 1 == 1).collect())
            .collect()
    }

    #[test]
    fn expectations_equal_the_mean_over_all_batches() {
        let angles = [0.0, 3.0, 5.0, 40.0, 41.0, 90.0, 92.0, 170.0, 2.0];
        let clips = [0, 0, 1, 2, 3, 4, 4, 5, 6];
        let data = circle(&angles);
        let vectors = Vectors::new(&data, 2).unwrap();
        let thresholds = [0.99, -1.0, 0.999_999];
        let false_negatives = false_negatives(vectors, &clips, &thresholds, None, &no_progress).unwrap();
        for (position, &threshold) in thresholds.iter().enumerate() {
            let same = |a: usize, b: usize| {
                clips[a] != clips[b] && (angles[a] - angles[b]).to_radians().cos() >= threshold
            };
            for batch in 1..=angles.len() {
                let (mut pairs, mut share) = (0.0, 0.0);
                let all = batches(angles.len(), batch);
                for drawn in &all {
                    let partners = |&a: &usize| drawn.iter().filter(|&&b| same(a, b)).count();
                    pairs += drawn.iter().map(partners).sum::<usize>() as f64;
                    let with_any = drawn.iter().filter(|a| partners(a) > 0).count();
                    share += with_any as f64 / batch as f64;
                }
                let expected = false_negatives.expected(position, batch).unwrap();
                let count = all.len() as f64;
                assert!(
                    (expected.pairs_per_batch - pairs / count).abs() < 1e-10,
                    "{expected:?}"
                );
                assert!(
                    (expected.share_of_captions - share / count).abs() < 1e-10,
                    "{expected:?}"
                );
            }
        }
    }

    #[test]
    fn a_caption_in_millions_is_still_exact() {
        // One partner, 31 others drawn from 999 999: 31 / 999 999.
        assert!((share_with_any(1_000_000, 32, 1) / (31.0 / 999_999.0) - 1.0).abs() < 1e-12);
        assert_eq!(share_with_any(1_000_000, 1, 500), 0.0);
        assert_eq!(share_with_any(10, 10, 1), 1.0);
        assert_eq!(share_with_any(10, 5, 0), 0.0);
        assert_eq!(share_with_any(1, 1, 0), 0.0);
    }

    #[test]
    fn pairs_of_the_same_clip_are_left_out() {
        let data = circle(&[0.0, 0.0, 1.0, 60.0]);
        let vectors = Vectors::new(&data, 2).unwrap();
        let found = similar_pairs(vectors, &[7, 7, 8, 9], 0.9, 10, None, &no_progress).unwrap();
        let pairs: Vec<_> = found.pairs.iter().map(|pair| (pair.first, pair.second)).collect();
        assert_eq!((pairs, found.total), (vec![(0, 2), (1, 2)], 2));
    }

    #[test]
    fn batches_that_cannot_be_drawn_are_refused() {
        let data = circle(&[0.0, 10.0]);
        let vectors = Vectors::new(&data, 2).unwrap();
        let false_negatives = false_negatives(vectors, &[0, 1], &[0.5], None, &no_progress).unwrap();
        assert_eq!(
            false_negatives.expected(0, 0),
            Err(Error::BadBatch {
                batch: 0,
                captions: 2
            })
        );
        assert_eq!(
            false_negatives.expected(0, 3),
            Err(Error::BadBatch {
                batch: 3,
                captions: 2
            })
        );
        assert!(matches!(
            false_negatives.expected(1, 2),
            Err(Error::OutOfRange { .. })
        ));
    }

    #[test]
    fn bad_input_is_refused() {
        let vectors = Vectors::new(&[1.0, 0.0, 0.0, 2.0], 2).unwrap();
        let error = false_negatives(vectors, &[0, 1], &[0.5], None, &no_progress).unwrap_err();
        assert!(matches!(
            error,
            Error::Nearest(hark_nearest::Error::NotUnit { row: 1, .. })
        ));
        let vectors = Vectors::new(&[1.0, 0.0, 0.0, 1.0], 2).unwrap();
        let error = similar_pairs(vectors, &[0], 0.5, 1, None, &no_progress).unwrap_err();
        assert!(matches!(
            error,
            Error::Nearest(hark_nearest::Error::GroupsMismatch { .. })
        ));
    }
}
