//! How high the relevant items rank when one set of vectors is ranked by another. The crate's header defines the
//! metrics.
//!
//! In: vectors of queries and of items, each row with a key; for every query its relevant items
//! ([`Relevant`]) or gains ([`Gains`]). Out: the metrics of every query, their means, and what chance would
//! give. The other direction is the same call with the two sets exchanged and [`Relevant::reversed`].
//!
//! Refused: sets without queries, a query without relevant items, items that do not exist, gains outside
//! [0, 1], two rows with one key. The table of scores is never held: a thread takes 16 MB for a stripe of it,
//! or 32 bytes for each item where that is more.

mod chance;
mod graded;
mod lists;
mod relevant;
mod ties;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Mutex;

pub use chance::chance;
pub(crate) use chance::ndcg as ndcg_chance;
use graded::discount;
pub use graded::{Gains, GradedReport, evaluate_graded};
pub(crate) use graded::{gain_of_placed, ideal_gain};
pub use lists::{Lists, lists};
pub use relevant::Relevant;
pub(crate) use ties::{RankedItem, Ranking, Scratch};
pub use ties::{Ties, name_keys, tie_key};

use hark_nearest::Vectors;
use hark_nearest::blocks::{BLOCK_ROWS, Cut, inner_products, spread};
use hark_work::progress::Progress;
use hark_work::workers::lock;

use crate::Error;

/// The cuts of R@k and hit@k, in the order of the fields that hold them.
pub const RECALL_CUTS: [usize; 3] = [1, 5, 10];

/// Scores that a thread holds at once, if the items are not so many that [`MIN_ROWS`] queries need more.
const STRIPE: usize = 4 << 20;

/// Queries in a stripe at least: below, the multiplication would wait for memory.
const MIN_ROWS: usize = 8;

/// Vectors with a key for each row, which stands for the row's id wherever scores are equal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WithIds<'a> {
    vectors: Vectors<'a>,
    keys: &'a [u64],
}

impl<'a> WithIds<'a> {
    /// Keys are made of ids by [`tie_key`], or are any numbers that stay with their rows when the order of the
    /// rows changes.
    ///
    /// # Errors
    ///
    /// [`hark_nearest::Error::KeysMismatch`] and [`hark_nearest::Error::DuplicateKey`].
    pub fn new(vectors: Vectors<'a>, keys: &'a [u64]) -> Result<Self, Error> {
        if keys.len() != vectors.rows() {
            return Err(hark_nearest::Error::KeysMismatch {
                expected: vectors.rows(),
                got: keys.len(),
            }
            .into());
        }
        check_different(keys)?;
        Ok(Self { vectors, keys })
    }

    /// The vectors.
    pub fn vectors(&self) -> Vectors<'a> {
        self.vectors
    }

    /// The key of each row.
    pub fn keys(&self) -> &'a [u64] {
        self.keys
    }
}

/// Equal keys would leave the order of equal scores open.
pub(crate) fn check_different(keys: &[u64]) -> Result<(), Error> {
    let mut sorted: Vec<_> = keys.iter().copied().zip(0_usize..).collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(hark_nearest::Error::DuplicateKey {
            first: pair[0].1,
            second: pair[1].1,
        }
        .into()),
        None => Ok(()),
    }
}

/// Where lists are cut, how equal scores are ordered, and where the work runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The k of AP@k and nDCG@k.
    pub cut: NonZeroUsize,
    /// Run on a separate pool of this many threads. `None` uses the caller's rayon pool.
    pub threads: Option<NonZeroUsize>,
    /// The order of items with equal scores.
    pub ties: Ties,
}

impl Default for Options {
    /// k = 10, on the caller's pool, ties by the hash with seed 0.
    fn default() -> Self {
        const TEN: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9);
        Self {
            cut: TEN,
            threads: None,
            ties: Ties::default(),
        }
    }
}

/// The metrics of one query.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct QueryMetrics {
    /// Rank of the first relevant item, from 1; 0 where a run's list holds none.
    pub first_rank: u32,
    /// AP@k.
    pub average_precision: f64,
    /// R@1, R@5, R@10.
    pub recall: [f64; 3],
    /// hit@1, hit@5, hit@10.
    pub hit: [bool; 3],
    /// 1 / `first_rank`; 0 where a run's list holds no relevant item.
    pub reciprocal_rank: f64,
}

/// Means over queries, or their expected values.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MeanMetrics {
    /// Mean AP@k: mAP@k.
    pub average_precision: f64,
    /// Mean R@1, R@5, R@10.
    pub recall: [f64; 3],
    /// Shares of queries with a hit in the first 1, 5, 10.
    pub hit: [f64; 3],
    /// Mean reciprocal rank.
    pub reciprocal_rank: f64,
}

impl MeanMetrics {
    fn add(&mut self, other: &Self, weight: f64) {
        let add = |sum: &mut f64, term: f64| *sum += weight * term;
        add(&mut self.average_precision, other.average_precision);
        add(&mut self.reciprocal_rank, other.reciprocal_rank);
        for i in 0..RECALL_CUTS.len() {
            add(&mut self.recall[i], other.recall[i]);
            add(&mut self.hit[i], other.hit[i]);
        }
    }
}

/// The metrics of a ranking.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The k of AP@k.
    pub cut: usize,
    /// In the order of the queries.
    pub queries: Vec<QueryMetrics>,
    /// Means over queries.
    pub mean: MeanMetrics,
    /// The expected values of the means when every order of the items is equally likely.
    pub chance: MeanMetrics,
    /// Median over queries of the rank of the first relevant item; between two middle ranks, their mean. Where
    /// a run's list holds no relevant item, the rank counts as infinite, and so may the median be.
    pub median_rank: f64,
}

impl Report {
    /// Evaluations with the same cut as one: their queries, one after the other. Each keeps its own chance, as
    /// where every query has a separate collection.
    ///
    /// # Errors
    ///
    /// [`Error::NoQueries`] and [`Error::CutsMismatch`].
    pub fn joined(reports: impl IntoIterator<Item = Self>) -> Result<Self, Error> {
        let reports: Vec<Self> = reports.into_iter().collect();
        let cut = same_cut(reports.iter().map(|report| report.cut))?;
        let count: usize = reports.iter().map(|report| report.queries.len()).sum();
        let mut chance = MeanMetrics::default();
        for report in &reports {
            chance.add(&report.chance, report.queries.len() as f64 / count as f64);
        }
        let queries = reports.into_iter().flat_map(|report| report.queries).collect();
        Ok(Self::new(cut, queries, chance))
    }
}

/// The cut that all reports have.
fn same_cut(cuts: impl Iterator<Item = usize>) -> Result<usize, Error> {
    let mut all = None;
    for cut in cuts {
        let first = *all.get_or_insert(cut);
        if first != cut {
            return Err(Error::CutsMismatch { first, second: cut });
        }
    }
    all.ok_or(Error::NoQueries)
}

/// Ranks all items for every query by inner product (the cosine, where rows are unit vectors) and measures
/// at which ranks the relevant ones are.
///
/// ```
/// use hark_metrics::{self as metrics, WithIds, Options, Relevant};
/// use hark_nearest::Vectors;
/// use hark_work::progress::no_progress;
///
/// let captions = WithIds::new(Vectors::new(&[1.0, 0.0, 0.8, 0.6], 2)?, &[1, 2])?;
/// let clips = WithIds::new(Vectors::new(&[1.0, 0.0, 0.0, 1.0], 2)?, &[3, 4])?;
/// let relevant = Relevant::new([[0], [1]], 2)?;
/// let report = metrics::evaluate(captions, clips, &relevant, Options::default(), &no_progress)?;
/// assert_eq!(report.queries[1].first_rank, 2);
/// assert_eq!(report.mean.average_precision, 0.75);
/// # Ok::<(), hark_metrics::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::NoQueries`], [`Error::RelevantMismatch`], [`hark_nearest::Error::DimensionMismatch`], [`hark_nearest::Error::TooLarge`],
/// [`hark_nearest::Error::Threads`], and [`hark_nearest::Error::Cancelled`] when `progress` says so.
pub fn evaluate(
    queries: WithIds<'_>,
    items: WithIds<'_>,
    relevant: &Relevant,
    options: Options,
    progress: Progress<'_>,
) -> Result<Report, Error> {
    if (relevant.queries(), relevant.items()) != (queries.vectors.rows(), items.vectors.rows()) {
        return Err(Error::RelevantMismatch {
            queries: relevant.queries(),
            items: relevant.items(),
            query_rows: queries.vectors.rows(),
            item_rows: items.vectors.rows(),
        });
    }
    let cut = options.cut.get();
    let of_queries = over_queries(
        queries,
        items,
        options,
        progress,
        Scratch::default,
        |scratch, query, ranking| {
            let wanted = relevant.of(query);
            let placed = ranking.ranks(wanted.iter().copied(), scratch);
            Ok(of_ranks(placed, wanted.len(), cut))
        },
    )?;
    let numbers = (0..relevant.queries()).map(|query| relevant.of(query).len());
    let chance = mean_chance(relevant.items(), numbers, cut);
    Ok(Report::new(cut, of_queries, chance))
}

impl Report {
    pub(crate) fn new(cut: usize, queries: Vec<QueryMetrics>, chance: MeanMetrics) -> Self {
        Self {
            cut,
            mean: mean_of(&queries),
            chance,
            median_rank: median_rank(&queries),
            queries,
        }
    }
}

/// The metrics of a query from the ranks of those of its relevant items that are ranked at all, best first,
/// and the number of its relevant items.
pub(crate) fn of_ranks(placed: &[RankedItem], relevant: usize, cut: usize) -> QueryMetrics {
    let relevant = relevant as f64;
    let within = |k: usize| placed.partition_point(|placed| placed.rank as usize <= k);
    let precisions = (1_u32..)
        .zip(&placed[..within(cut)])
        .map(|(hits, placed)| f64::from(hits) / f64::from(placed.rank));
    let first_rank = placed.first().map_or(0, |first| first.rank);
    QueryMetrics {
        first_rank,
        // A sum of nothing is -0.0.
        average_precision: (precisions.sum::<f64>() + 0.0) / relevant,
        recall: RECALL_CUTS.map(|k| within(k) as f64 / relevant),
        hit: RECALL_CUTS.map(|k| within(k) > 0),
        reciprocal_rank: placed.first().map_or(0.0, |first| 1.0 / f64::from(first.rank)),
    }
}

pub(crate) fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

fn mean_of(queries: &[QueryMetrics]) -> MeanMetrics {
    let each = || queries.iter();
    MeanMetrics {
        average_precision: mean(each().map(|query| query.average_precision)),
        recall: [0, 1, 2].map(|i| mean(each().map(|query| query.recall[i]))),
        hit: [0, 1, 2].map(|i| mean(each().map(|query| f64::from(u8::from(query.hit[i]))))),
        reciprocal_rank: mean(each().map(|query| query.reciprocal_rank)),
    }
}

/// The mean over queries of what chance gives, from the number of relevant items of each query.
pub(crate) fn mean_chance(items: usize, relevant: impl Iterator<Item = usize>, cut: usize) -> MeanMetrics {
    // Queries with as many relevant items have the same chance, and a set has few such numbers.
    let (mut numbers, mut queries) = (BTreeMap::<usize, usize>::new(), 0.0);
    for number in relevant {
        *numbers.entry(number).or_default() += 1;
        queries += 1.0;
    }
    let mut sum = MeanMetrics::default();
    for (number, times) in numbers {
        if let Some(of_number) = chance(items, number, cut) {
            sum.add(&of_number, times as f64 / queries);
        }
    }
    sum
}

fn median_rank(queries: &[QueryMetrics]) -> f64 {
    // What is not found wraps round to the highest rank.
    let mut ranks: Vec<_> = queries
        .iter()
        .map(|query| query.first_rank.wrapping_sub(1))
        .collect();
    ranks.sort_unstable();
    let at = |position: usize| match ranks.get(position) {
        None => f64::NAN,
        Some(&u32::MAX) => f64::INFINITY,
        Some(&rank) => f64::from(rank) + 1.0,
    };
    f64::midpoint(at((ranks.len().max(1) - 1) / 2), at(ranks.len() / 2))
}

/// Calls `measure` with each query's scores and gathers what it returns, in the order of the queries.
fn over_queries<S, T: Copy + Default + Send>(
    queries: WithIds<'_>,
    items: WithIds<'_>,
    options: Options,
    progress: Progress<'_>,
    scratch: impl Fn() -> S + Sync,
    measure: impl Fn(&mut S, usize, &Ranking<'_>) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    let cut = stripes(queries, items)?;
    let mut measured = vec![T::default(); queries.vectors.rows()];
    let parts = in_parts(&mut measured, cut, 1);
    over_stripes(
        queries,
        items,
        cut,
        options,
        progress,
        scratch,
        |scratch, stripe| {
            let mut part = lock(&parts[stripe.block]);
            for (out, (query, ranking)) in part.iter_mut().zip(stripe.queries()) {
                *out = measure(scratch, query, &ranking)?;
            }
            Ok(())
        },
    )?;
    drop(parts);
    Ok(measured)
}

/// How queries are cut into stripes: by the numbers of rows alone, so that the answers are the same for any
/// number of threads.
fn stripes(queries: WithIds<'_>, items: WithIds<'_>) -> Result<Cut, Error> {
    let (rows, width) = (queries.vectors.rows(), items.vectors.rows());
    if rows == 0 {
        return Err(Error::NoQueries);
    }
    if queries.vectors.dim() != items.vectors.dim() {
        return Err(hark_nearest::Error::DimensionMismatch {
            expected: queries.vectors.dim(),
            got: items.vectors.dim(),
        }
        .into());
    }
    let stripe_rows = (STRIPE / width.max(1)).clamp(MIN_ROWS, BLOCK_ROWS);
    Ok(Cut::new(rows, stripe_rows))
}

/// `out` holds `width` places for each query; the places of each stripe, to be written by one thread.
fn in_parts<T>(out: &mut [T], cut: Cut, width: usize) -> Vec<Mutex<&mut [T]>> {
    let mut rest = out;
    let mut parts = Vec::with_capacity(cut.blocks());
    for block in 0..cut.blocks() {
        let (part, after) = rest.split_at_mut(cut.range(block).len() * width);
        parts.push(Mutex::new(part));
        rest = after;
    }
    parts
}

/// Some queries with their scores with all items.
struct Stripe<'a> {
    block: usize,
    rows: Range<usize>,
    scores: &'a [f32],
    query_keys: &'a [u64],
    item_keys: &'a [u64],
    ties: Ties,
}

impl Stripe<'_> {
    /// The number of each query, and its scores.
    fn queries(&self) -> impl Iterator<Item = (usize, Ranking<'_>)> {
        let width = self.item_keys.len();
        self.rows.clone().enumerate().map(move |(position, query)| {
            let scores = &self.scores[position * width..(position + 1) * width];
            (
                query,
                Ranking::new(scores, self.query_keys[query], self.item_keys, self.ties),
            )
        })
    }
}

/// Scores every query with all items, in stripes of some queries by all items, and calls `visit` with each.
fn over_stripes<S>(
    queries: WithIds<'_>,
    items: WithIds<'_>,
    cut: Cut,
    options: Options,
    progress: Progress<'_>,
    scratch: impl Fn() -> S + Sync,
    visit: impl Fn(&mut S, &Stripe<'_>) -> Result<(), Error> + Sync,
) -> Result<(), Error> {
    let width = items.vectors.rows();
    spread(
        cut.blocks() as u64,
        options.threads,
        progress,
        || (scratch(), Vec::new()),
        |(scratch, scores), block| {
            let block = block as usize;
            let rows = cut.range(block);
            if scores.is_empty() {
                reserve(scores, cut.longest(), width)?;
            }
            let scores = &mut scores[..rows.len() * width];
            inner_products(
                queries.vectors.range(rows.clone()),
                items.vectors.as_slice(),
                items.vectors.dim(),
                scores,
            );
            let stripe = Stripe {
                block,
                rows,
                scores,
                query_keys: queries.keys,
                item_keys: items.keys,
                ties: options.ties,
            };
            visit(scratch, &stripe)
        },
    )
}

fn reserve(scores: &mut Vec<f32>, rows: usize, width: usize) -> Result<(), Error> {
    if rows
        .checked_mul(width)
        .is_none_or(|size| scores.try_reserve_exact(size).is_err())
    {
        return Err(hark_nearest::Error::TooLarge { rows, width }.into());
    }
    scores.resize(rows * width, 0.0);
    Ok(())
}

#[cfg(test)]
mod tests;
