//! nDCG@k: how near a ranking comes to the ideal one when items are relevant by degrees.

use super::ties::{RankedItem, Ranking, Scratch};
use super::{Options, WithIds, chance, mean, over_queries, same_cut};
use hark_work::progress::Progress;

use crate::Error;

/// Writes the items with a gain for one query, in any order, into an empty list; items that are not named have
/// gain 0. Called once for each query, from any thread.
pub type Gains<'a> = &'a (dyn Fn(usize, &mut Vec<(u32, f64)>) + Sync);

/// nDCG@k of every query, and beside the mean what chance would give.
#[derive(Debug, Clone, PartialEq)]
pub struct GradedReport {
    /// The k of nDCG@k.
    pub cut: usize,
    /// In the order of the queries.
    pub queries: Vec<f64>,
    /// Mean over queries.
    pub mean: f64,
    /// Its expected value when every order of the items is equally likely.
    pub chance: f64,
}

impl GradedReport {
    /// Evaluations with the same cut as one, as [`Report::joined`](super::Report::joined) has it.
    ///
    /// # Errors
    ///
    /// [`Error::NoQueries`] and [`Error::CutsMismatch`].
    pub fn joined(reports: impl IntoIterator<Item = Self>) -> Result<Self, Error> {
        let reports: Vec<Self> = reports.into_iter().collect();
        let cut = same_cut(reports.iter().map(|report| report.cut))?;
        let count: usize = reports.iter().map(|report| report.queries.len()).sum();
        let chances = reports
            .iter()
            .map(|report| report.chance * report.queries.len() as f64);
        let chance = chances.sum::<f64>() / count as f64;
        let queries: Vec<f64> = reports.into_iter().flat_map(|report| report.queries).collect();
        Ok(Self {
            cut,
            mean: mean(queries.iter().copied()),
            chance,
            queries,
        })
    }
}

/// The weight of a rank (from 1).
pub(super) fn discount(rank: u32) -> f64 {
    1.0 / (f64::from(rank) + 1.0).log2()
}

/// nDCG@k of every query with gains from [0, 1]: the sum over the first k ranks of gain / log2(rank + 1),
/// divided by that sum for the best order of the query's own gains. Scores are inner products, ties are
/// ordered as in [`evaluate`](super::evaluate).
///
/// ```
/// use hark_metrics::{self as metrics, WithIds, Options};
/// use hark_nearest::Vectors;
/// use hark_work::progress::no_progress;
///
/// let query = WithIds::new(Vectors::new(&[1.0, 0.0], 2)?, &[1])?;
/// let items = WithIds::new(Vectors::new(&[0.6, 0.8, 1.0, 0.0], 2)?, &[1, 2])?;
/// // The item with the lower gain ranks first.
/// let gains = |_: usize, list: &mut Vec<(u32, f64)>| list.extend([(0, 1.0), (1, 0.5)]);
/// let report = metrics::evaluate_graded(query, items, &gains, Options::default(), &no_progress)?;
/// let second = 1.0 / 3_f64.log2();
/// assert!((report.mean - (0.5 + second) / (1.0 + 0.5 * second)).abs() < 1e-12);
/// # Ok::<(), hark_metrics::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::NoQueries`], [`hark_nearest::Error::DimensionMismatch`], [`hark_nearest::Error::TooLarge`], [`hark_nearest::Error::Threads`],
/// [`hark_nearest::Error::Cancelled`] when `progress` says so; for the first query with such a fault [`Error::NoSuchItem`],
/// [`Error::DuplicateRelevant`], [`Error::BadGain`], or [`Error::NoRelevant`] when no gain is above 0.
pub fn evaluate_graded(
    queries: WithIds<'_>,
    items: WithIds<'_>,
    gains: Gains<'_>,
    options: Options,
    progress: Progress<'_>,
) -> Result<GradedReport, Error> {
    let cut = options.cut.get();
    let of_queries = over_queries(
        queries,
        items,
        options,
        progress,
        || (Scratch::default(), Vec::new()),
        |(scratch, list), query, ranking| {
            list.clear();
            gains(query, list);
            check(query, list, items.vectors().rows())?;
            Ok(of_query(ranking, list, items.vectors().rows(), cut, scratch))
        },
    )?;
    Ok(GradedReport {
        cut,
        mean: mean(of_queries.iter().map(|&(ndcg, _)| ndcg)),
        chance: mean(of_queries.iter().map(|&(_, chance)| chance)),
        queries: of_queries.into_iter().map(|(ndcg, _)| ndcg).collect(),
    })
}

/// Leaves in `list` what has a gain.
fn check(query: usize, list: &mut Vec<(u32, f64)>, items: usize) -> Result<(), Error> {
    list.sort_unstable_by_key(|&(item, _)| item);
    for &(item, gain) in &*list {
        if item as usize >= items {
            return Err(Error::NoSuchItem { query, item, items });
        }
        if !(0.0..=1.0).contains(&gain) {
            return Err(Error::BadGain { query, item, gain });
        }
    }
    if let Some(pair) = list.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(Error::DuplicateRelevant {
            query,
            item: pair[0].0,
        });
    }
    list.retain(|&(_, gain)| gain > 0.0);
    if list.is_empty() {
        return Err(Error::NoRelevant { query });
    }
    Ok(())
}

/// nDCG@k and its expected value under chance.
fn of_query(
    ranking: &Ranking<'_>,
    list: &mut [(u32, f64)],
    items: usize,
    cut: usize,
    scratch: &mut Scratch,
) -> (f64, f64) {
    let placed = ranking.ranks(list.iter().map(|&(item, _)| item), scratch);
    let dcg = gain_of_placed(placed, |position| list[position].1, cut);
    list.sort_unstable_by(|a, b| b.1.total_cmp(&a.1));
    let ideal = ideal_gain(list.iter().map(|&(_, gain)| gain), cut);
    let sum = list.iter().map(|&(_, gain)| gain).sum();
    // Equal gains in another order may sum to a last bit more.
    ((dcg / ideal).min(1.0), chance::ndcg(items, cut, sum, ideal))
}

/// DCG@k of items at their ranks, best first; `gain` gives the gain of an item by its position in the list of
/// wanted items.
pub(crate) fn gain_of_placed(placed: &[RankedItem], gain: impl Fn(usize) -> f64, cut: usize) -> f64 {
    let gains = placed
        .iter()
        .take_while(|placed| placed.rank as usize <= cut)
        .map(|placed| gain(placed.position) * discount(placed.rank));
    // A sum of nothing is -0.0.
    gains.sum::<f64>() + 0.0
}

/// DCG@k of the ideal order: gains best first.
pub(crate) fn ideal_gain(best_first: impl Iterator<Item = f64>, cut: usize) -> f64 {
    let ranked = (1..).zip(best_first).take(cut);
    ranked.map(|(rank, gain)| gain * discount(rank)).sum()
}
