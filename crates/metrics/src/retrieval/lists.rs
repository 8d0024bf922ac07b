//! The best items of every query, in order.

use std::num::NonZeroUsize;

use super::{Options, Scratch, WithIds, in_parts, over_stripes, stripes};
use hark_work::progress::Progress;
use hark_work::workers::lock;

use crate::Error;

/// For every query its best items, best first: query `q` takes the places `q * k..(q + 1) * k`.
#[derive(Debug, Clone, PartialEq)]
pub struct Lists {
    /// Items listed for each query: the number asked for, or all items where there are fewer.
    pub k: usize,
    /// Item numbers (from 0), `[queries, k]`.
    pub items: Vec<u32>,
    /// Their scores, `[queries, k]`.
    pub scores: Vec<f32>,
}

impl Lists {
    /// Items and scores of one query, best first. Empty where there is no such query.
    pub fn of(&self, query: usize) -> impl Iterator<Item = (u32, f32)> {
        let range = query.saturating_mul(self.k)..query.saturating_add(1).saturating_mul(self.k);
        let items = self.items.get(range.clone()).unwrap_or_default();
        let scores = self.scores.get(range).unwrap_or_default();
        items.iter().copied().zip(scores.iter().copied())
    }
}

/// The `k` best items of every query by inner product, in the order in which
/// [`evaluate`](super::evaluate) ranks them, ties included. [`Options::cut`] plays no part.
///
/// The table of scores is never held: beyond the result, a thread takes what `evaluate` takes and about 100 bytes
/// for each item of one list.
///
/// ```
/// use std::num::NonZeroUsize;
///
/// use hark_metrics::{self as metrics, WithIds, Options};
/// use hark_nearest::Vectors;
/// use hark_work::progress::no_progress;
///
/// let captions = WithIds::new(Vectors::new(&[1.0, 0.0, 0.0, 1.0], 2)?, &[1, 2])?;
/// let clips = WithIds::new(Vectors::new(&[0.6, 0.8, 1.0, 0.0], 2)?, &[3, 4])?;
/// let lists = metrics::lists(captions, clips, NonZeroUsize::MIN, Options::default(), &no_progress)?;
/// assert_eq!(lists.of(0).collect::<Vec<_>>(), [(1, 1.0)]);
/// assert_eq!(lists.of(1).collect::<Vec<_>>(), [(0, 0.8)]);
/// # Ok::<(), hark_metrics::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::NoQueries`], [`hark_nearest::Error::DimensionMismatch`], [`hark_nearest::Error::TooLarge`], [`hark_nearest::Error::Threads`], and
/// [`hark_nearest::Error::Cancelled`] when `progress` says so.
pub fn lists(
    queries: WithIds<'_>,
    items: WithIds<'_>,
    k: NonZeroUsize,
    options: Options,
    progress: Progress<'_>,
) -> Result<Lists, Error> {
    let cut = stripes(queries, items)?;
    let rows = queries.vectors().rows();
    let k = k.get().min(items.vectors().rows());
    let mut lists = Lists {
        k,
        items: filled(rows, k)?,
        scores: filled(rows, k)?,
    };
    if k == 0 {
        return Ok(lists);
    }
    let items_of = in_parts(&mut lists.items, cut, k);
    let scores_of = in_parts(&mut lists.scores, cut, k);
    over_stripes(
        queries,
        items,
        cut,
        options,
        progress,
        Scratch::default,
        |scratch, stripe| {
            let mut items = lock(&items_of[stripe.block]);
            let mut scores = lock(&scores_of[stripe.block]);
            let places = items.chunks_exact_mut(k).zip(scores.chunks_exact_mut(k));
            for ((items, scores), (_, ranking)) in places.zip(stripe.queries()) {
                let best = ranking.best(k, scratch);
                for ((item, score), best) in items.iter_mut().zip(scores).zip(best) {
                    (*item, *score) = best;
                }
            }
            Ok(())
        },
    )?;
    drop((items_of, scores_of));
    Ok(lists)
}

fn filled<T: Copy + Default>(rows: usize, width: usize) -> Result<Vec<T>, Error> {
    let mut places = Vec::new();
    match rows.checked_mul(width) {
        Some(size) if places.try_reserve_exact(size).is_ok() => places.resize(size, T::default()),
        _ => return Err(hark_nearest::Error::TooLarge { rows, width }.into()),
    }
    Ok(places)
}
