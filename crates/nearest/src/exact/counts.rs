//! How many rows reach a threshold with each row.

use std::sync::Mutex;

use super::{Options, at_least, check_threshold};
use crate::blocks::{self, BLOCK_ROWS, Cut};
use hark_work::progress::Progress;
use hark_work::workers::lock;

use crate::{Error, Vectors};

/// For every row and threshold, the number of other rows whose score is at least the threshold.
#[derive(Debug, Clone, PartialEq)]
pub struct Counts {
    thresholds: Vec<f32>,
    /// `[rows, thresholds]`.
    counts: Vec<u32>,
}

impl Counts {
    /// The thresholds, as given.
    pub fn thresholds(&self) -> &[f32] {
        &self.thresholds
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.counts.len() / self.thresholds.len()
    }

    /// The counts of one row, one for each threshold.
    ///
    /// # Panics
    ///
    /// When `row` is not below [`Counts::rows`], as indexing a slice does.
    pub fn row(&self, row: usize) -> &[u32] {
        let width = self.thresholds.len();
        &self.counts[row * width..(row + 1) * width]
    }

    /// The count of every row at one threshold, by its position in [`Counts::thresholds`].
    ///
    /// # Panics
    ///
    /// When there is no such threshold.
    pub fn at(&self, threshold: usize) -> impl ExactSizeIterator<Item = u32> {
        assert!(
            threshold < self.thresholds.len(),
            "threshold {threshold} of {}",
            self.thresholds.len()
        );
        self.counts
            .iter()
            .skip(threshold)
            .step_by(self.thresholds.len())
            .copied()
    }

    /// Ordered pairs of rows that reach a threshold: the sum of its counts, twice the number of pairs.
    ///
    /// # Panics
    ///
    /// When there is no such threshold.
    pub fn ordered_pairs(&self, threshold: usize) -> u64 {
        self.at(threshold).map(u64::from).sum()
    }
}

/// Counts, for every row and each of `thresholds`, the other rows whose inner product with it is at least
/// that threshold. Rows of the same group are left out. All pairs are counted; nothing is cut off.
///
/// ```
/// use hark_nearest::{Vectors, exact};
/// use hark_work::progress::no_progress;
///
/// let vectors = Vectors::new(&[1.0, 0.0, 0.8, 0.6, 0.0, 1.0], 2)?;
/// let counts = exact::count_above(vectors, &[0.7, 0.5], exact::Options::default(), &no_progress)?;
/// assert_eq!(counts.row(1), [1, 2]);
/// assert_eq!(counts.ordered_pairs(0), 2);
/// # Ok::<(), hark_nearest::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::NoThresholds`], [`Error::BadThreshold`], [`Error::GroupsMismatch`], [`Error::TooLarge`],
/// [`Error::Threads`], and [`Error::Cancelled`] when `progress` says so.
pub fn count_above(
    vectors: Vectors<'_>,
    thresholds: &[f32],
    options: Options<'_>,
    progress: Progress<'_>,
) -> Result<Counts, Error> {
    in_blocks_of(BLOCK_ROWS, vectors, thresholds, options, progress)
}

pub(super) fn in_blocks_of(
    block_rows: usize,
    vectors: Vectors<'_>,
    thresholds: &[f32],
    options: Options<'_>,
    progress: Progress<'_>,
) -> Result<Counts, Error> {
    for (position, &value) in thresholds.iter().enumerate() {
        check_threshold(position, value)?;
    }
    let Some(lowest) = thresholds.iter().copied().reduce(f32::min) else {
        return Err(Error::NoThresholds);
    };
    options.check(vectors)?;
    let (rows, width) = (vectors.rows(), thresholds.len());
    let mut counts = Vec::<u32>::new();
    if rows
        .checked_mul(width)
        .is_none_or(|size| counts.try_reserve_exact(size).is_err())
    {
        return Err(Error::TooLarge { rows, width });
    }
    counts.resize(rows * width, 0);
    let cut = Cut::new(rows, block_rows);
    let mut rest = counts.as_mut_slice();
    let mut parts = Vec::with_capacity(cut.blocks());
    for block in 0..cut.blocks() {
        let (part, after) = rest.split_at_mut(cut.range(block).len() * width);
        parts.push(Mutex::new(part));
        rest = after;
    }
    // A worker collects the counts of a tile for itself and adds them at the end, so that it holds one lock
    // at a time and only shortly.
    let scratch = || (Vec::<u32>::new(), Vec::<u32>::new());
    blocks::pass(
        vectors,
        block_rows,
        options.threads,
        progress,
        scratch,
        |(of_rows, of_columns), tile| {
            for (counts, len) in [
                (&mut *of_rows, tile.rows.len()),
                (&mut *of_columns, tile.columns.len()),
            ] {
                counts.clear();
                counts.resize(len * width, 0);
            }
            for (i, start, scores) in tile.pairs() {
                at_least(scores, lowest, |offset, score| {
                    let j = start + offset;
                    if options.same_group(tile.rows.start + i, tile.columns.start + j) {
                        return;
                    }
                    let row = &mut of_rows[i * width..(i + 1) * width];
                    let column = &mut of_columns[j * width..(j + 1) * width];
                    for ((&threshold, row), column) in thresholds.iter().zip(row).zip(column) {
                        let reached = u32::from(score >= threshold);
                        *row += reached;
                        *column += reached;
                    }
                });
            }
            add(&mut lock(&parts[tile.first]), of_rows);
            add(&mut lock(&parts[tile.second]), of_columns);
        },
    )?;
    drop(parts);
    Ok(Counts {
        thresholds: thresholds.to_vec(),
        counts,
    })
}

fn add(sums: &mut [u32], terms: &[u32]) {
    for (sum, term) in sums.iter_mut().zip(terms) {
        *sum += term;
    }
}
