//! The lowest and the highest score of any pair.

use std::cmp::Ordering;
use std::sync::Mutex;

use super::{Options, Pair};
use crate::blocks::{self, BLOCK_ROWS, Tile};
use hark_work::progress::Progress;
use hark_work::workers::lock;

use crate::{Error, Vectors};

/// The pairs with the lowest and the highest score. Of several with the same score, the one with the lowest
/// first row, then the lowest second row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreRange {
    /// The least similar pair.
    pub lowest: Pair,
    /// The most similar pair.
    pub highest: Pair,
}

/// The lowest and the highest inner product between two rows of different groups. `None` when there is no
/// such pair.
///
/// ```
/// use hark_nearest::{Vectors, exact};
/// use hark_work::progress::no_progress;
///
/// let vectors = Vectors::new(&[1.0, 0.0, 0.8, 0.6, 0.0, 1.0], 2)?;
/// let found = exact::score_range(vectors, exact::Options::default(), &no_progress)?.expect("three pairs");
/// assert_eq!((found.lowest.first, found.lowest.second, found.lowest.score), (0, 2, 0.0));
/// assert_eq!(found.highest.score, 0.8);
/// # Ok::<(), hark_nearest::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::GroupsMismatch`], [`Error::Threads`], and [`Error::Cancelled`] when `progress` says so.
pub fn score_range(
    vectors: Vectors<'_>,
    options: Options<'_>,
    progress: Progress<'_>,
) -> Result<Option<ScoreRange>, Error> {
    in_blocks_of(BLOCK_ROWS, vectors, options, progress)
}

pub(super) fn in_blocks_of(
    block_rows: usize,
    vectors: Vectors<'_>,
    options: Options<'_>,
    progress: Progress<'_>,
) -> Result<Option<ScoreRange>, Error> {
    options.check(vectors)?;
    let found = Mutex::new(None::<ScoreRange>);
    blocks::pass(
        vectors,
        block_rows,
        options.threads,
        progress,
        || (),
        |(), tile| {
            // Starting from what is known already lets most rows be dismissed by their own range.
            let known = *lock(&found);
            let Some(of_tile) = widest(known, tile, &options) else {
                return;
            };
            let mut found = lock(&found);
            *found = Some(found.map_or(of_tile, |known| merge(known, of_tile)));
        },
    )?;
    Ok(found
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner))
}

fn widest(known: Option<ScoreRange>, tile: &Tile<'_>, options: &Options<'_>) -> Option<ScoreRange> {
    let mut known = known;
    for (i, start, scores) in tile.pairs() {
        if let Some(ScoreRange { lowest, highest }) = known {
            let (low, high) = range(scores);
            // Equal scores are looked at too: the pair with the lower rows wins.
            if low > lowest.score && high < highest.score {
                continue;
            }
        }
        for (j, &score) in (start..).zip(scores) {
            let (first, second) = (tile.rows.start + i, tile.columns.start + j);
            if options.same_group(first, second) {
                continue;
            }
            let pair = Pair {
                first: first as u32,
                second: second as u32,
                score,
            };
            let one = ScoreRange {
                lowest: pair,
                highest: pair,
            };
            known = Some(known.map_or(one, |known| merge(known, one)));
        }
    }
    known
}

/// Lowest and highest of some scores. Sixteen minima and maxima side by side, so that it compiles to vector
/// instructions.
fn range(scores: &[f32]) -> (f32, f32) {
    let (mut lows, mut highs) = ([f32::INFINITY; 16], [f32::NEG_INFINITY; 16]);
    let (chunks, rest) = scores.as_chunks::<16>();
    let mut take = |values: &[f32]| {
        for ((low, high), &value) in lows.iter_mut().zip(&mut highs).zip(values) {
            *low = if value < *low { value } else { *low };
            *high = if value > *high { value } else { *high };
        }
    };
    for chunk in chunks {
        take(chunk);
    }
    take(rest);
    (
        lows.into_iter().fold(f32::INFINITY, f32::min),
        highs.into_iter().fold(f32::NEG_INFINITY, f32::max),
    )
}

fn merge(a: ScoreRange, b: ScoreRange) -> ScoreRange {
    // Scores are never NaN.
    let by_score = |a: &Pair, b: &Pair| a.score.partial_cmp(&b.score).unwrap_or(Ordering::Equal);
    let by_rows = |a: &Pair, b: &Pair| (a.first, a.second).cmp(&(b.first, b.second));
    let lowest = [a.lowest, b.lowest]
        .into_iter()
        .min_by(|a, b| by_score(a, b).then(by_rows(a, b)));
    let highest = [a.highest, b.highest]
        .into_iter()
        .min_by(|a, b| by_score(b, a).then(by_rows(a, b)));
    ScoreRange {
        lowest: lowest.unwrap_or(a.lowest),
        highest: highest.unwrap_or(a.highest),
    }
}
