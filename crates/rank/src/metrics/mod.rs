//! How high the relevant items stand when one set of vectors is ranked by another.
//!
//! In: vectors of queries and of items, each row with a key; for every query its relevant items
//! ([`Relevant`]) or gains ([`Gains`]). Out: the metrics of every query, their means, and what chance would
//! give. The other direction is the same call with the two sets exchanged and [`Relevant::reversed`].
//!
//! The definitions are those of trec_eval, k being the cut:
//!
//! - AP@k: the sum of the precisions at the ranks of the relevant items among the first k, divided by the
//!   number of *all* relevant items (`map_cut_k`). With one relevant item this is 1/rank within the first k,
//!   else 0.
//! - R@k: the share of the relevant items that stand among the first k (`recall_k`). With five relevant items
//!   R@1 is at most 0.2.
//! - hit@k: whether any relevant item stands among the first k (`success_k`). Much of the field calls this
//!   recall; with one relevant item the two are the same.
//! - reciprocal rank: 1/rank of the first relevant item, without a cut (`recip_rank`).
//! - nDCG@k: with linear gains and a discount of log2(rank + 1) (`ndcg_cut_k`).
//!
//! Where scores are equal, a fixed hash of both keys orders the items, never their position: related items
//! stand together in most lists, and an order by position would then favour or punish all of them at once.
//!
//! Refused: sets without queries, a query without relevant items, items that do not exist, gains outside
//! [0, 1], two rows with one key. The table of scores is never held: a thread takes 16 MB for a stripe of it,
//! or 32 bytes for each item where that is more.

mod chance;
mod graded;
mod relevant;
mod ties;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Mutex;

pub use chance::chance;
use graded::discount;
pub use graded::{Gains, GradedReport, evaluate_graded};
pub use relevant::Relevant;
pub use ties::id_key;
use ties::{Contest, Placed, Scratch};

use crate::blocks::{BLOCK_ROWS, Cut, lock, spread};
use crate::kernels::inner_products;
use crate::{Error, Vectors, Watch};

/// The cuts of R@k and hit@k, in the order of the fields that hold them.
pub const RECALL_CUTS: [usize; 3] = [1, 5, 10];

/// Scores that a thread holds at once, if the items are not so many that [`LEAST_ROWS`] queries need more.
const STRIPE: usize = 4 << 20;

/// Queries in a stripe at least: below, the multiplication would wait for memory.
const LEAST_ROWS: usize = 8;

/// Vectors with a key for each row, which stands for the row's id wherever scores are equal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Keyed<'a> {
    vectors: Vectors<'a>,
    keys: &'a [u64],
}

impl<'a> Keyed<'a> {
    /// Keys are made of ids by [`id_key`], or are any numbers that stay with their rows when the order of the
    /// rows changes.
    ///
    /// # Errors
    ///
    /// [`Error::KeysMismatch`] and [`Error::DuplicateKey`].
    pub fn new(vectors: Vectors<'a>, keys: &'a [u64]) -> Result<Self, Error> {
        if keys.len() != vectors.rows() {
            return Err(Error::KeysMismatch {
                expected: vectors.rows(),
                got: keys.len(),
            });
        }
        let mut sorted: Vec<_> = keys.iter().copied().zip(0_usize..).collect();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(Error::DuplicateKey {
                first: pair[0].1,
                second: pair[1].1,
            }),
            None => Ok(Self { vectors, keys }),
        }
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

/// Where lists are cut, and where the work runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The k of AP@k and nDCG@k.
    pub cut: NonZeroUsize,
    /// Run on a pool of this many threads of its own. `None` uses the caller's rayon pool.
    pub threads: Option<NonZeroUsize>,
}

impl Default for Options {
    /// k = 10, on the caller's pool.
    fn default() -> Self {
        const TEN: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9);
        Self {
            cut: TEN,
            threads: None,
        }
    }
}

/// The metrics of one query.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PerQuery {
    /// Rank of the first relevant item, from 1.
    pub first_rank: u32,
    /// AP@k.
    pub average_precision: f64,
    /// R@1, R@5, R@10.
    pub recall: [f64; 3],
    /// hit@1, hit@5, hit@10.
    pub hit: [bool; 3],
    /// 1 / `first_rank`.
    pub reciprocal_rank: f64,
}

/// Means over queries, or their expected values.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Means {
    /// Mean AP@k: mAP@k.
    pub average_precision: f64,
    /// Mean R@1, R@5, R@10.
    pub recall: [f64; 3],
    /// Shares of queries with a hit in the first 1, 5, 10.
    pub hit: [f64; 3],
    /// Mean reciprocal rank.
    pub reciprocal_rank: f64,
}

impl Means {
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
    pub queries: Vec<PerQuery>,
    /// Means over queries.
    pub mean: Means,
    /// The expected values of the means when every order of the items is equally likely.
    pub chance: Means,
    /// Median over queries of the rank of the first relevant item; between two middle ranks, their mean.
    pub median_rank: f64,
}

/// Ranks all items for every query by inner product (the cosine, where rows are unit vectors) and measures
/// where the relevant ones stand.
///
/// ```
/// use hark_rank::metrics::{self, Keyed, Options, Relevant};
/// use hark_rank::{Vectors, unwatched};
///
/// let captions = Keyed::new(Vectors::new(&[1.0, 0.0, 0.8, 0.6], 2)?, &[1, 2])?;
/// let clips = Keyed::new(Vectors::new(&[1.0, 0.0, 0.0, 1.0], 2)?, &[3, 4])?;
/// let relevant = Relevant::new([[0], [1]], 2)?;
/// let report = metrics::evaluate(captions, clips, &relevant, Options::default(), &unwatched)?;
/// assert_eq!(report.queries[1].first_rank, 2);
/// assert_eq!(report.mean.average_precision, 0.75);
/// # Ok::<(), hark_rank::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::NoQueries`], [`Error::RelevantMismatch`], [`Error::DimensionMismatch`], [`Error::TooLarge`],
/// [`Error::Threads`], and [`Error::Cancelled`] when `watch` says so.
pub fn evaluate(
    queries: Keyed<'_>,
    items: Keyed<'_>,
    relevant: &Relevant,
    options: Options,
    watch: Watch<'_>,
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
        options.threads,
        watch,
        Scratch::default,
        |scratch, query, contest| {
            let wanted = relevant.of(query);
            Ok(of_ranks(contest.ranks(wanted.iter().copied(), scratch), cut))
        },
    )?;
    Ok(Report {
        cut,
        mean: mean_of(&of_queries),
        chance: mean_chance(relevant, cut),
        median_rank: median_rank(&of_queries),
        queries: of_queries,
    })
}

/// The metrics of a query from the ranks of all its relevant items, best first.
fn of_ranks(placed: &[Placed], cut: usize) -> PerQuery {
    let relevant = placed.len() as f64;
    let within = |k: usize| placed.partition_point(|placed| placed.rank as usize <= k);
    let precisions = (1_u32..)
        .zip(&placed[..within(cut)])
        .map(|(hits, placed)| f64::from(hits) / f64::from(placed.rank));
    let first_rank = placed.first().map_or(0, |first| first.rank);
    PerQuery {
        first_rank,
        average_precision: precisions.sum::<f64>() / relevant,
        recall: RECALL_CUTS.map(|k| within(k) as f64 / relevant),
        hit: RECALL_CUTS.map(|k| within(k) > 0),
        reciprocal_rank: 1.0 / f64::from(first_rank),
    }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

fn mean_of(queries: &[PerQuery]) -> Means {
    let each = || queries.iter();
    Means {
        average_precision: mean(each().map(|query| query.average_precision)),
        recall: [0, 1, 2].map(|i| mean(each().map(|query| query.recall[i]))),
        hit: [0, 1, 2].map(|i| mean(each().map(|query| f64::from(u8::from(query.hit[i]))))),
        reciprocal_rank: mean(each().map(|query| query.reciprocal_rank)),
    }
}

fn mean_chance(relevant: &Relevant, cut: usize) -> Means {
    // Queries with as many relevant items have the same chance, and a set has few such numbers.
    let mut numbers = BTreeMap::<usize, usize>::new();
    for query in 0..relevant.queries() {
        *numbers.entry(relevant.of(query).len()).or_default() += 1;
    }
    let mut sum = Means::default();
    for (number, queries) in numbers {
        if let Some(of_number) = chance(relevant.items(), number, cut) {
            sum.add(&of_number, queries as f64 / relevant.queries() as f64);
        }
    }
    sum
}

fn median_rank(queries: &[PerQuery]) -> f64 {
    let mut ranks: Vec<_> = queries.iter().map(|query| query.first_rank).collect();
    ranks.sort_unstable();
    let at = |position: usize| ranks.get(position).copied().map_or(f64::NAN, f64::from);
    f64::midpoint(at((ranks.len().max(1) - 1) / 2), at(ranks.len() / 2))
}

/// Scores every query with all items, in stripes of some queries by all items, and calls `measure` with each
/// query's scores. Stripes are cut by the numbers of rows alone, so that the answers are the same for any
/// number of threads.
fn over_queries<S, T: Copy + Default + Send>(
    queries: Keyed<'_>,
    items: Keyed<'_>,
    threads: Option<NonZeroUsize>,
    watch: Watch<'_>,
    scratch: impl Fn() -> S + Sync,
    measure: impl Fn(&mut S, usize, &Contest<'_>) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    let (rows, width) = (queries.vectors.rows(), items.vectors.rows());
    if rows == 0 {
        return Err(Error::NoQueries);
    }
    if queries.vectors.dim() != items.vectors.dim() {
        return Err(Error::DimensionMismatch {
            expected: queries.vectors.dim(),
            got: items.vectors.dim(),
        });
    }
    let stripe_rows = (STRIPE / width.max(1)).clamp(LEAST_ROWS, BLOCK_ROWS);
    let cut = Cut::new(rows, stripe_rows);
    let longest = cut.longest();
    let mut measured = vec![T::default(); rows];
    let mut rest = measured.as_mut_slice();
    let mut parts = Vec::with_capacity(cut.blocks());
    for block in 0..cut.blocks() {
        let (part, after) = rest.split_at_mut(cut.range(block).len());
        parts.push(Mutex::new(part));
        rest = after;
    }
    spread(
        cut.blocks() as u64,
        threads,
        watch,
        || (scratch(), Vec::new()),
        |(scratch, scores), block| {
            let block = block as usize;
            let range = cut.range(block);
            if scores.is_empty() {
                reserve(scores, longest, width)?;
            }
            let scores = &mut scores[..range.len() * width];
            inner_products(
                queries.vectors.range(range.clone()),
                items.vectors.as_slice(),
                items.vectors.dim(),
                scores,
            );
            let mut part = lock(&parts[block]);
            for (position, (out, query)) in part.iter_mut().zip(range).enumerate() {
                let row = &scores[position * width..(position + 1) * width];
                *out = measure(
                    scratch,
                    query,
                    &Contest::new(row, queries.keys[query], items.keys),
                )?;
            }
            Ok(())
        },
    )?;
    drop(parts);
    Ok(measured)
}

fn reserve(scores: &mut Vec<f32>, rows: usize, width: usize) -> Result<(), Error> {
    if rows
        .checked_mul(width)
        .is_none_or(|size| scores.try_reserve_exact(size).is_err())
    {
        return Err(Error::TooLarge { rows, width });
    }
    scores.resize(rows * width, 0.0);
    Ok(())
}

#[cfg(test)]
mod tests;
