//! The metrics of a run against judgements.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::{Qrels, Run, escape, unescape};
use crate::Error;
use crate::retrieval::{
    GradedReport, Ranking, Report, Scratch, Ties, check_different, gain_of_placed, ideal_gain, mean,
    mean_chance, name_keys, ndcg_chance, of_ranks, tie_key,
};

/// How a run is scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The k of AP@k and nDCG@k.
    pub cut: NonZeroUsize,
    /// The order of items with equal scores. [`Ties::Keys`] is trec_eval's. [`Ties::Hashed`] takes the
    /// [`tie_key`] of ids; of ids that [`escape`] has written, the key of the id before it, so that a run
    /// written by [`write_run`](super::write_run) has the order it had.
    pub ties: Ties,
    /// Size of the collection, for chance. `None` takes all items that either file names.
    pub items: Option<usize>,
    /// Score only the queries that the run lists and that have a relevant item, instead of refusing others.
    /// trec_eval also scores only queries of both files, but counts one whose items are all not relevant as 0.
    pub partial: bool,
}

impl Default for Options {
    /// k = 10, ties by the hash with seed 0, all items that are named, every query.
    fn default() -> Self {
        const TEN: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9);
        Self {
            cut: TEN,
            ties: Ties::default(),
            items: None,
            partial: false,
        }
    }
}

/// What a run reaches.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// The ids of the queries as the files have them, in the order of the judgements: two runs scored with the
    /// same judgements are paired query by query. `report` and `graded` have the same order.
    pub queries: Vec<String>,
    /// Whether relevant items have different gains.
    pub is_graded: bool,
    /// Queries of either file that are not scored.
    pub left_out: usize,
    /// How many relevant items each has.
    pub relevant: Vec<usize>,
    /// The metrics where items with a gain above 0 are relevant.
    pub report: Report,
    /// nDCG with the gains.
    pub graded: GradedReport,
}

/// Scores a run. An item is relevant if its gain is above 0; nDCG takes the gains themselves, and of these only
/// ratios count. A relevant item that the run does not list is not found and adds nothing.
///
/// ```
/// use std::path::Path;
///
/// use hark_metrics::trec::{Options, Qrels, Run, evaluate};
///
/// let run = "q1 Q0 a 1 0.9 hark\nq1 Q0 b 2 0.8 hark\n";
/// let qrels = "q1 0 b 1\nq1 0 c 1\n";
/// let run = Run::read(run.as_bytes(), Path::new("run.txt"))?;
/// let qrels = Qrels::read(qrels.as_bytes(), Path::new("qrels.txt"))?;
/// let scored = evaluate(&run, &qrels, Options::default())?;
/// assert_eq!(scored.report.mean.average_precision, 0.25);
/// # Ok::<(), hark_metrics::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::QueriesNotRun`] and [`Error::QueriesNotJudged`] unless [`Options::partial`];
/// [`Error::NoQueries`] when no query is left; [`Error::CollectionTooSmall`], and [`hark_nearest::Error::TooManyRows`] for a
/// collection of more items than 32-bit ids can name; [`hark_nearest::Error::DuplicateKey`] if two ids have one hash.
pub fn evaluate(run: &Run, qrels: &Qrels, options: Options) -> Result<Scored, Error> {
    let pairs = paired(run, qrels, options.partial)?;
    let items = collection(run, qrels, options.items)?;
    let keys = Keys::new(run, options.ties)?;
    let in_run: Vec<_> = qrels
        .0
        .items
        .list
        .iter()
        .map(|id| run.0.items.number(id))
        .collect();
    let cut = options.cut.get();
    let mut space = Space::default();
    let mut of_queries = Vec::with_capacity(pairs.len());
    let (mut ndcg, mut chance) = (Vec::with_capacity(pairs.len()), Vec::with_capacity(pairs.len()));
    let mut numbers = Vec::with_capacity(pairs.len());
    for pair in &pairs {
        space.fill(run, qrels, *pair, &in_run, &keys);
        let ranking = Ranking::new(&space.scores, keys.queries[pair.run], &space.keys, options.ties);
        let placed = ranking.ranks(
            space.found.iter().map(|&(position, _)| position),
            &mut space.scratch,
        );
        of_queries.push(of_ranks(placed, space.gains.len(), cut));
        let dcg = gain_of_placed(placed, |position| space.found[position].1, cut);
        let ideal = ideal_gain(space.gains.iter().copied(), cut);
        // Equal gains in another order may sum to a last bit more.
        ndcg.push((dcg / ideal).min(1.0));
        chance.push(ndcg_chance(items, cut, space.gains.iter().sum(), ideal));
        numbers.push(space.gains.len());
    }
    let of_chance = mean_chance(items, numbers.iter().copied(), cut);
    let only_run = |id: &&Arc<str>| qrels.0.queries.number(id).is_none();
    let named = qrels.queries() + run.0.queries.list.iter().filter(only_run).count();
    let mut gains = qrels
        .0
        .lists
        .iter()
        .flatten()
        .map(|&(_, gain)| gain)
        .filter(|&gain| gain > 0.0);
    let first = gains.next().unwrap_or(1.0);
    Ok(Scored {
        is_graded: gains.any(|gain| gain.to_bits() != first.to_bits()),
        left_out: named - pairs.len(),
        queries: pairs
            .iter()
            .map(|pair| qrels.0.queries.list[pair.qrels].to_string())
            .collect(),
        relevant: numbers,
        report: Report::new(cut, of_queries, of_chance),
        graded: GradedReport {
            cut,
            mean: mean(ndcg.iter().copied()),
            chance: mean(chance.into_iter()),
            queries: ndcg,
        },
    })
}

/// One query by its numbers in both files.
#[derive(Debug, Clone, Copy)]
struct Pair {
    run: usize,
    qrels: usize,
}

/// The queries to score, in the order of the judgements.
fn paired(run: &Run, qrels: &Qrels, partial: bool) -> Result<Vec<Pair>, Error> {
    let relevant = |number: usize| qrels.0.lists[number].iter().any(|&(_, gain)| gain > 0.0);
    let judgements = &qrels.0.queries;
    if !partial {
        let missing = |id: &Arc<str>| run.0.queries.number(id).is_none();
        if let Some((count, first)) = count_and_first(&judgements.list, missing) {
            return Err(Error::QueriesNotRun { count, first });
        }
        let unjudged = |id: &Arc<str>| {
            !judgements
                .number(id)
                .is_some_and(|number| relevant(number as usize))
        };
        if let Some((count, first)) = count_and_first(&run.0.queries.list, unjudged) {
            return Err(Error::QueriesNotJudged { count, first });
        }
    }
    let pairs: Vec<_> = judgements
        .list
        .iter()
        .enumerate()
        .filter(|&(number, _)| relevant(number))
        .filter_map(|(number, id)| {
            Some(Pair {
                run: run.0.queries.number(id)? as usize,
                qrels: number,
            })
        })
        .collect();
    if pairs.is_empty() {
        return Err(Error::NoQueries);
    }
    Ok(pairs)
}

/// How many ids have a fault, and the first of them.
fn count_and_first(ids: &[Arc<str>], fault: impl Fn(&Arc<str>) -> bool) -> Option<(usize, String)> {
    let mut faulty = ids.iter().filter(|id| fault(id));
    let first = faulty.next()?.to_string();
    Some((1 + faulty.count(), first))
}

/// The number of items that chance draws from.
fn collection(run: &Run, qrels: &Qrels, given: Option<usize>) -> Result<usize, Error> {
    let only_judged = |id: &&Arc<str>| run.0.items.number(id).is_none();
    let named = run.items() + qrels.0.items.list.iter().filter(only_judged).count();
    let limit = u32::MAX as usize;
    match given {
        None => Ok(named),
        Some(items) if items < named => Err(Error::CollectionTooSmall { items, named }),
        Some(rows) if rows > limit => Err(hark_nearest::Error::TooManyRows { rows, limit }.into()),
        Some(items) => Ok(items),
    }
}

/// The keys of a run's ids, by their numbers.
struct Keys {
    queries: Vec<u64>,
    items: Vec<u64>,
}

impl Keys {
    fn new(run: &Run, ties: Ties) -> Result<Self, Error> {
        let (queries, items) = (&run.0.queries, &run.0.items);
        match ties {
            Ties::Keys => Ok(Self {
                queries: vec![0; queries.list.len()],
                items: name_keys(&items.list),
            }),
            Ties::Hashed { .. } => {
                // One rule for the whole file, so that different fields are different ids.
                let mut ids = queries.list.iter().chain(&items.list);
                let ours = ids.all(|id| escape(&unescape(id)) == **id);
                let key = |id: &Arc<str>| tie_key(&if ours { unescape(id) } else { (&**id).into() });
                let keys = Self {
                    queries: queries.list.iter().map(key).collect(),
                    items: items.list.iter().map(key).collect(),
                };
                check_different(&keys.items)?;
                Ok(keys)
            }
        }
    }
}

/// What one query takes, kept from query to query.
#[derive(Default)]
struct Space {
    /// Of the items that the run lists.
    scores: Vec<f32>,
    keys: Vec<u64>,
    /// The relevant ones among them, by their position, with their gains.
    found: Vec<(u32, f64)>,
    /// Of all relevant items, best first.
    gains: Vec<f64>,
    scratch: Scratch,
}

impl Space {
    fn fill(&mut self, run: &Run, qrels: &Qrels, pair: Pair, in_run: &[Option<u32>], keys: &Keys) {
        let list = &run.0.lists[pair.run];
        self.scores.clear();
        self.scores.extend(list.iter().map(|&(_, score)| score));
        self.keys.clear();
        self.keys
            .extend(list.iter().map(|&(item, _)| keys.items[item as usize]));
        let relevant = || qrels.0.lists[pair.qrels].iter().filter(|&&(_, gain)| gain > 0.0);
        let largest = relevant().fold(0.0, |largest: f64, &(_, gain)| largest.max(gain));
        self.gains.clear();
        self.gains.extend(relevant().map(|&(_, gain)| gain / largest));
        self.gains.sort_unstable_by(|a, b| b.total_cmp(a));
        self.found.clear();
        self.found.extend(relevant().filter_map(|&(item, gain)| {
            let item = in_run[item as usize]?;
            let position = list.binary_search_by_key(&item, |&(item, _)| item).ok()?;
            Some((position as u32, gain / largest))
        }));
    }
}
