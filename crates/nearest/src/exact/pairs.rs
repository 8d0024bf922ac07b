//! The most similar pairs.

use std::cmp::Ordering;
use std::sync::Mutex;

use super::{Options, Pair, at_least, check_threshold};
use crate::blocks::{self, BLOCK_ROWS};
use hark_work::progress::Progress;
use hark_work::workers::lock;

use crate::{Error, Vectors};

/// Pairs that reach a threshold.
#[derive(Debug, Clone, PartialEq)]
pub struct Pairs {
    /// The best pairs, at most as many as asked for: score descending, then first row, then second row.
    pub pairs: Vec<Pair>,
    /// How many pairs reach the threshold, listed or not.
    pub total: u64,
}

/// All pairs of rows of different groups whose inner product is at least `threshold`, best first. At most
/// `limit` are listed, the best ones; all are counted. Takes memory for twice `limit` pairs.
///
/// ```
/// use hark_nearest::{Vectors, exact};
/// use hark_work::progress::no_progress;
///
/// let vectors = Vectors::new(&[1.0, 0.0, 0.8, 0.6, 0.0, 1.0], 2)?;
/// let found = exact::pairs_above(vectors, 0.5, 1, exact::Options::default(), &no_progress)?;
/// assert_eq!((found.pairs[0].first, found.pairs[0].second), (0, 1));
/// assert_eq!(found.total, 2);
/// # Ok::<(), hark_nearest::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::BadThreshold`], [`Error::GroupsMismatch`], [`Error::Threads`], and [`Error::Cancelled`] when
/// `progress` says so.
pub fn pairs_above(
    vectors: Vectors<'_>,
    threshold: f32,
    limit: usize,
    options: Options<'_>,
    progress: Progress<'_>,
) -> Result<Pairs, Error> {
    in_blocks_of(BLOCK_ROWS, vectors, threshold, limit, options, progress)
}

pub(super) fn in_blocks_of(
    block_rows: usize,
    vectors: Vectors<'_>,
    threshold: f32,
    limit: usize,
    options: Options<'_>,
    progress: Progress<'_>,
) -> Result<Pairs, Error> {
    check_threshold(0, threshold)?;
    options.check(vectors)?;
    let found = Mutex::new(Pairs {
        pairs: Vec::new(),
        total: 0,
    });
    // A worker gathers the pairs of a tile for itself and hands them over at its end.
    blocks::pass(
        vectors,
        block_rows,
        options.threads,
        progress,
        Vec::new,
        |tile_pairs, tile| {
            tile_pairs.clear();
            for (i, start, scores) in tile.pairs() {
                let first = tile.rows.start + i;
                at_least(scores, threshold, |offset, score| {
                    let second = tile.columns.start + start + offset;
                    if !options.same_group(first, second) {
                        tile_pairs.push(Pair {
                            first: first as u32,
                            second: second as u32,
                            score,
                        });
                    }
                });
            }
            let mut found = lock(&found);
            found.total += tile_pairs.len() as u64;
            keep_best(tile_pairs, limit);
            found.pairs.extend_from_slice(tile_pairs);
            if found.pairs.len() > limit.saturating_mul(2) {
                keep_best(&mut found.pairs, limit);
            }
        },
    )?;
    let mut found = found
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    keep_best(&mut found.pairs, limit);
    found.pairs.sort_unstable_by(best_first);
    Ok(found)
}

/// Throws away all but the best `limit`, in no particular order.
fn keep_best(pairs: &mut Vec<Pair>, limit: usize) {
    if limit < pairs.len() {
        pairs.select_nth_unstable_by(limit, best_first);
        pairs.truncate(limit);
    }
}

fn best_first(a: &Pair, b: &Pair) -> Ordering {
    // Scores are never NaN, and zeros of either sign are one score.
    let by_score = b.score.partial_cmp(&a.score).unwrap_or(Ordering::Equal);
    by_score.then_with(|| (a.first, a.second).cmp(&(b.first, b.second)))
}
