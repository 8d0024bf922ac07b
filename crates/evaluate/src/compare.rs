//! Two methods over the same queries.
//!
//! In: the scored queries of each method's runs. Out: each query's figure, averaged over a method's runs, and paired tests
//! between the methods. Runs on different corpora have different queries: runs belong to one corpus when they have the
//! same queries with the same text, and both methods must have run on the same corpora. Otherwise they are refused, with
//! the first query that only one of them has. Runs of other systems may lack text: then ids alone decide. Refused too:
//! runs that were judged by different truths.

use std::collections::{BTreeMap, HashMap};

use hark_metrics::significance::{PairedTest, clustered_t_test, holm, paired_t_test, permutation_test};
use serde::Serialize;
use serde::ser::SerializeMap;

use crate::Error;
use crate::scored::{Kind, Metric, ScoredQueries, ScoredQuery};

/// Sign patterns of a permutation test where there are too many to try them all.
const PERMUTATIONS: u64 = 10_000;
const PERMUTATION_SEED: u64 = 1;

/// [`Test::over`] of the paper's test, which takes queries as independent.
pub const OVER_QUERIES: &str = "queries";
/// [`Test::over`] where the captions of one clip form a cluster.
pub const OVER_CLIPS: &str = "clips";
/// [`Test::over`] of the permutation test.
pub const BY_PERMUTATION: &str = "permutation over clips";
/// [`Test::over`] of the test of run against run.
pub const OVER_SEEDS: &str = "seeds";

/// A method and its runs in one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Method {
    /// As comparisons call it.
    pub name: String,
    /// One for each seed and corpus.
    pub runs: Vec<ScoredQueries>,
}

/// The tests between two methods, for one direction and metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Title of the first method.
    pub first: String,
    /// Title of the second.
    pub second: String,
    /// `text to audio` or `audio to text`.
    pub direction: String,
    /// `mAP@10` or `nDCG@10`.
    pub metric: String,
    /// In the order queries, clips, permutation, seeds, as far as the runs allow them.
    pub tests: Vec<Test>,
}

/// What one test says about the difference of two methods.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Test {
    /// What was paired: `queries`, `clips`, `permutation over clips`, `seeds`.
    pub over: String,
    /// How many such pairs.
    pub pairs: usize,
    /// Of first minus second, as a fraction.
    pub difference: f64,
    /// 95 % interval of the difference, where the test has one.
    #[serde(rename = "interval_95")]
    pub interval: Option<(f64, f64)>,
    /// t and its degrees of freedom, where the test has them.
    #[serde(flatten, serialize_with = "t_and_freedom")]
    pub t: Option<(f64, usize)>,
    /// Cohen's d_z, where the test has one.
    #[serde(rename = "effect_size")]
    pub effect: Option<f64>,
    /// Two-sided.
    pub p: f64,
    /// After Holm's correction over the comparisons of this test.
    #[serde(rename = "p_holm")]
    pub holm: f64,
}

/// t as two keys, both there whether the test has them or not.
#[expect(clippy::ref_option, reason = "serde passes the field by reference")]
fn t_and_freedom<S: serde::Serializer>(t: &Option<(f64, usize)>, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(2))?;
    map.serialize_entry("t", &t.map(|(t, _)| t))?;
    map.serialize_entry("degrees_of_freedom", &t.map(|(_, freedom)| freedom))?;
    map.end()
}

/// Compares pairs of methods, each given by its place in `methods`, and corrects p over these comparisons (Holm).
///
/// # Errors
/// If two methods cannot be paired, or a test is not possible.
pub fn compare<'a>(
    methods: &'a [Method],
    pairs: &[(usize, usize)],
    metric: Metric,
) -> Result<Vec<(Comparison, Paired<'a>)>, Error> {
    let mut comparisons = Vec::with_capacity(pairs.len());
    let mut paired = Vec::with_capacity(pairs.len());
    for &(first, second) in pairs {
        let (first, second) = (&methods[first], &methods[second]);
        let both = pair(&first.runs, &second.runs, metric).map_err(|error| Error::Methods {
            first: first.name.clone(),
            second: second.name.clone(),
            source: Box::new(error),
        })?;
        comparisons.push(Comparison {
            first: first.name.clone(),
            second: second.name.clone(),
            direction: first.runs[0].kind.direction.title().into(),
            metric: both.metric.clone(),
            tests: both.tests()?,
        });
        paired.push(both);
    }
    apply_holm(&mut comparisons)?;
    Ok(comparisons.into_iter().zip(paired).collect())
}

/// Two methods, query by query.
#[derive(Debug)]
pub struct Paired<'a> {
    /// The first method's runs have them in this order, corpus after corpus.
    pub queries: Vec<&'a ScoredQuery>,
    /// Each query's figure, averaged over the runs of the first method.
    pub first: Vec<f64>,
    /// And of the second.
    pub second: Vec<f64>,
    /// The clip that each query belongs to, numbered.
    pub clusters: Vec<u32>,
    /// The means of single runs that belong together, where both methods have as many.
    pub seeds: Option<(Vec<f64>, Vec<f64>)>,
    /// How many runs each has.
    pub runs: (usize, usize),
    /// On how many corpora.
    pub corpora: usize,
    /// With its cutoff: `mAP@10`.
    pub metric: String,
}

/// The runs of one method that have the same queries.
struct Corpus<'a> {
    runs: Vec<&'a ScoredQueries>,
}

type Key<'a> = BTreeMap<(&'a str, &'a str), usize>;

/// A method's runs, by the queries that they have.
fn corpora(runs: &[ScoredQueries], by_words: bool) -> Vec<(Key<'_>, Corpus<'_>)> {
    let mut found: Vec<(Key<'_>, Corpus<'_>)> = Vec::new();
    for run in runs {
        let queries = run.queries.iter().enumerate();
        let key: Key<'_> = queries
            .map(|(nth, query)| {
                (
                    (query.id.as_str(), if by_words { query.text.as_str() } else { "" }),
                    nth,
                )
            })
            .collect();
        let same = |(other, _): &&mut (Key<'_>, Corpus<'_>)| other.keys().eq(key.keys());
        match found.iter_mut().find(same) {
            Some((_, corpus)) => corpus.runs.push(run),
            None => found.push((key, Corpus { runs: vec![run] })),
        }
    }
    found
}

/// Whether figures of two runs mean the same.
fn same_kind(a: &Kind, b: &Kind, metric: Metric) -> bool {
    let truth = match metric {
        Metric::Ndcg => a.gains == b.gains,
        _ => a.relevance == b.relevance,
    };
    a.direction == b.direction && truth
}

fn describe(kind: &Kind) -> String {
    let gains = if kind.gains.is_empty() {
        String::new()
    } else {
        format!(", gains by {}", kind.gains)
    };
    format!("{} by {}{gains}", kind.direction.title(), kind.relevance)
}

/// A run's mean, with its seed if it is known.
type OfRun = (Option<u64>, f64);

/// Each query's mean over runs, in the order of `order`, and every run's mean.
fn averaged(
    corpus: &Corpus<'_>,
    order: &[&ScoredQuery],
    metric: Metric,
) -> Result<(Vec<f64>, Vec<OfRun>), Error> {
    let mut sums = vec![0.0; order.len()];
    let mut means = Vec::new();
    for run in &corpus.runs {
        let values = run.values(metric)?;
        means.push((run.seed, values.iter().sum::<f64>() / values.len() as f64));
        let by_id: HashMap<&str, (&ScoredQuery, f64)> = run
            .queries
            .iter()
            .zip(values)
            .map(|(query, value)| (query.id.as_str(), (query, value)))
            .collect();
        for (sum, wanted) in sums.iter_mut().zip(order) {
            let (query, value) = by_id[wanted.id.as_str()];
            if query.relevant != wanted.relevant {
                return Err(Error::OtherRelevant {
                    query: query.id.clone(),
                    first: query.relevant,
                    second: wanted.relevant,
                });
            }
            *sum += value;
        }
    }
    let runs = corpus.runs.len() as f64;
    Ok((sums.into_iter().map(|sum| sum / runs).collect(), means))
}

/// Runs of both methods that belong together: those of the same seed, or where no seed is known, in their order. None where that
/// leaves any alone.
fn by_seed(mut first: Vec<OfRun>, mut second: Vec<OfRun>) -> Option<(Vec<f64>, Vec<f64>)> {
    first.sort_by_key(|(seed, _)| *seed);
    second.sort_by_key(|(seed, _)| *seed);
    let seeds = |runs: &[OfRun]| runs.iter().map(|(seed, _)| *seed).collect::<Vec<_>>();
    let means = |runs: Vec<OfRun>| runs.into_iter().map(|(_, mean)| mean).collect();
    (seeds(&first) == seeds(&second)).then(|| (means(first), means(second)))
}

/// Pairs two methods' runs.
///
/// # Errors
/// If they have different queries, cutoffs or truths.
pub fn pair<'a>(
    first: &'a [ScoredQueries],
    second: &'a [ScoredQueries],
    metric: Metric,
) -> Result<Paired<'a>, Error> {
    if first.is_empty() || second.is_empty() {
        return Err(Error::NoRuns);
    }
    let cut = first[0].cut;
    if let Some(other) = first.iter().chain(second).find(|run| run.cut != cut) {
        return Err(Error::OtherCutoff {
            first: cut,
            second: other.cut,
        });
    }
    let kind = &first[0].kind;
    let all = || first.iter().chain(second);
    if let Some(other) = all().find(|run| !same_kind(&run.kind, kind, metric)) {
        return Err(Error::OtherTruth {
            first: describe(kind),
            second: describe(&other.kind),
        });
    }
    let by_words = all().all(|run| run.queries.iter().any(|query| !query.text.is_empty()));
    let (of_first, of_second) = (corpora(first, by_words), corpora(second, by_words));
    let mut paired = Paired {
        queries: Vec::new(),
        first: Vec::new(),
        second: Vec::new(),
        clusters: Vec::new(),
        seeds: Some((Vec::new(), Vec::new())),
        runs: (first.len(), second.len()),
        corpora: of_first.len(),
        metric: metric.title(cut),
    };
    if let Some((key, _)) = of_second.iter().find(|(key, _)| !has(&of_first, key)) {
        return Err(different(key, &of_first));
    }
    let mut clusters: HashMap<(usize, &str), u32> = HashMap::new();
    for (number, (key, corpus)) in of_first.iter().enumerate() {
        let Some((_, other)) = of_second.iter().find(|(other, _)| other.keys().eq(key.keys())) else {
            return Err(different(key, &of_second));
        };
        let order: Vec<&ScoredQuery> = corpus.runs[0].queries.iter().collect();
        let (values, means) = averaged(corpus, &order, metric)?;
        let (other_values, other_means) = averaged(other, &order, metric)?;
        paired.first.extend(values);
        paired.second.extend(other_values);
        paired.seeds = match (paired.seeds.take(), by_seed(means, other_means)) {
            (Some(mut seeds), Some((a, b))) => {
                seeds.0.extend(a);
                seeds.1.extend(b);
                Some(seeds)
            }
            _ => None,
        };
        for query in &order {
            let next = clusters.len() as u32;
            paired
                .clusters
                .push(*clusters.entry((number, query.clip.as_str())).or_insert(next));
        }
        paired.queries.extend(order);
    }
    Ok(paired)
}

fn has(corpora: &[(Key<'_>, Corpus<'_>)], key: &Key<'_>) -> bool {
    corpora.iter().any(|(other, _)| other.keys().eq(key.keys()))
}

/// Says how queries differ from the nearest of the other method's.
fn different(key: &Key<'_>, others: &[(Key<'_>, Corpus<'_>)]) -> Error {
    let missing = |other: &Key<'_>| key.keys().filter(|query| !other.contains_key(*query)).count();
    let nearest = others
        .iter()
        .map(|(other, _)| other)
        .min_by_key(|other| missing(other));
    let Some(nearest) = nearest else {
        return Error::NoRuns;
    };
    // Either may be the one that has more.
    let only_in = |one: &Key<'_>, other: &Key<'_>| -> Vec<(String, String)> {
        let queries = one.keys().filter(|query| !other.contains_key(*query));
        queries
            .map(|(id, text)| ((*id).to_owned(), (*text).to_owned()))
            .collect()
    };
    let mut only = only_in(key, nearest);
    if only.is_empty() {
        only = only_in(nearest, key);
    }
    let count = only.len();
    let (id, text) = only.into_iter().next().unwrap_or_default();
    Error::OtherQueries { count, id, text }
}

impl Paired<'_> {
    /// The queries that the first method wins by most, and those that it loses by most, best and worst first.
    pub fn extremes(&self, count: usize) -> (Vec<usize>, Vec<usize>) {
        let gain = |&query: &usize| self.first[query] - self.second[query];
        let mut order: Vec<usize> = (0..self.queries.len()).collect();
        order.sort_by(|a, b| gain(b).total_cmp(&gain(a)).then(a.cmp(b)));
        let won = order
            .iter()
            .copied()
            .filter(|query| gain(query) > 0.0)
            .take(count)
            .collect();
        let lost = order
            .iter()
            .rev()
            .copied()
            .filter(|query| gain(query) < 0.0)
            .take(count)
            .collect();
        (won, lost)
    }

    /// All tests that these runs allow; `holm` of each is still its own p.
    ///
    /// # Errors
    /// If a test is not possible, such as over a single query.
    pub fn tests(&self) -> Result<Vec<Test>, Error> {
        let mut tests = Vec::new();
        let (a, b) = (&self.first, &self.second);
        tests.push(of_t(OVER_QUERIES, a.len(), &paired_t_test(a, b)?));
        let clips = self.clusters.iter().max().map_or(0, |last| *last as usize + 1);
        // Where every query has a clip of its own, the test over clips is the one over queries.
        if clips >= 2 && clips < a.len() {
            tests.push(of_t(OVER_CLIPS, clips, &clustered_t_test(a, b, &self.clusters)?));
        }
        let found = permutation_test(
            a,
            b,
            Some(&self.clusters).filter(|_| clips >= 2).map(Vec::as_slice),
            PERMUTATIONS,
            PERMUTATION_SEED,
        )?;
        tests.push(Test {
            over: BY_PERMUTATION.into(),
            pairs: found.units,
            difference: found.mean_difference,
            interval: None,
            t: None,
            effect: None,
            p: found.p,
            holm: found.p,
        });
        if let Some((a, b)) = self.seeds.as_ref().filter(|(a, _)| a.len() >= 2) {
            tests.push(of_t(OVER_SEEDS, a.len(), &paired_t_test(a, b)?));
        }
        Ok(tests)
    }
}

fn of_t(over: &str, pairs: usize, test: &PairedTest) -> Test {
    Test {
        over: over.into(),
        pairs,
        difference: test.mean_difference,
        interval: Some(test.interval_95),
        t: Some((test.t, test.degrees_of_freedom)),
        effect: Some(test.effect_size),
        p: test.p,
        holm: test.p,
    }
}

/// Corrects the p of comparisons of one direction and metric for their number, test by test.
///
/// # Errors
/// If a p is not a probability.
pub fn apply_holm(comparisons: &mut [Comparison]) -> Result<(), Error> {
    let mut families: BTreeMap<(String, String, String), Vec<(usize, usize)>> = BTreeMap::new();
    for (nth, comparison) in comparisons.iter().enumerate() {
        for (test, found) in comparison.tests.iter().enumerate() {
            let family = (
                comparison.direction.clone(),
                comparison.metric.clone(),
                found.over.clone(),
            );
            families.entry(family).or_default().push((nth, test));
        }
    }
    for places in families.into_values() {
        let p: Vec<f64> = places
            .iter()
            .map(|&(nth, test)| comparisons[nth].tests[test].p)
            .collect();
        for (&(nth, test), corrected) in places.iter().zip(holm(&p)?) {
            comparisons[nth].tests[test].holm = corrected;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use hark_metrics::QueryMetrics;

    use super::*;
    use crate::scored::{Direction, PAIRS};

    fn run(values: &[(&str, &str, f64)]) -> ScoredQueries {
        let queries = values.iter().map(|&(id, text, ap)| ScoredQuery {
            id: id.into(),
            clip: id.split('#').next().unwrap_or_default().into(),
            text: text.into(),
            relevant: 1,
            found: QueryMetrics {
                average_precision: ap,
                ..QueryMetrics::default()
            },
            ndcg: None,
        });
        ScoredQueries {
            kind: Kind {
                direction: Direction::TextToAudio,
                relevance: PAIRS.into(),
                gains: String::new(),
            },
            cut: 10,
            queries: queries.collect(),
            seed: None,
        }
    }

    #[test]
    fn runs_are_averaged_query_by_query_in_any_order() {
        let first = [
            run(&[("a#1", "x", 1.0), ("a#2", "y", 0.0), ("b#1", "z", 0.5)]),
            run(&[("b#1", "z", 0.5), ("a#2", "y", 1.0), ("a#1", "x", 0.0)]),
        ];
        let second = [run(&[("a#2", "y", 0.25), ("a#1", "x", 0.25), ("b#1", "z", 0.0)])];
        let paired = pair(&first, &second, Metric::Ap).unwrap();
        assert_eq!(paired.first, [0.5, 0.5, 0.5]);
        assert_eq!(paired.second, [0.25, 0.25, 0.0]);
        assert_eq!(paired.clusters, [0, 0, 1]);
        assert!(paired.seeds.is_none(), "two runs against one are not pairs");
        let over: Vec<String> = paired
            .tests()
            .unwrap()
            .into_iter()
            .map(|test| test.over)
            .collect();
        assert_eq!(over, [OVER_QUERIES, OVER_CLIPS, BY_PERMUTATION]);
    }

    /// The same ids with other words are the queries of another corpus.
    #[test]
    fn corpora_are_told_apart_by_what_queries_say() {
        let runs = |shift: f64| {
            [
                run(&[("a#1", "x", 0.1 + shift), ("b#1", "y", 0.2)]),
                run(&[("a#1", "u", 0.3 + shift), ("b#1", "v", 0.4)]),
            ]
        };
        let (first, second) = (runs(0.2), runs(0.0));
        let paired = pair(&first, &second, Metric::Ap).unwrap();
        assert_eq!((paired.corpora, paired.queries.len()), (2, 4));
        assert_eq!(paired.clusters, [0, 1, 2, 3]);
        assert!((paired.tests().unwrap()[0].difference - 0.1).abs() < 1e-12);
        assert_eq!(paired.seeds.as_ref().unwrap().0.len(), 2);
    }

    #[test]
    fn runs_are_paired_by_their_seeds() {
        let seeded = |seed: u64, ap: f64| {
            let mut scores = run(&[("a#1", "x", ap), ("b#1", "y", ap)]);
            scores.seed = Some(seed);
            scores
        };
        let first = [seeded(1, 0.1), seeded(2, 0.2)];
        let turned = [seeded(2, 0.5), seeded(1, 0.4)];
        let paired = pair(&first, &turned, Metric::Ap).unwrap();
        assert_eq!(paired.seeds, Some((vec![0.1, 0.2], vec![0.4, 0.5])));
        let others = [seeded(1, 0.5), seeded(3, 0.4)];
        assert_eq!(pair(&first, &others, Metric::Ap).unwrap().seeds, None);
    }

    /// Another system's run has names and no words; figures by another truth are other figures.
    #[test]
    fn names_alone_pair_runs_without_words_and_truths_must_be_the_same() {
        let ours = [run(&[("a#1", "x", 0.1), ("b#1", "y", 0.3)])];
        let mut theirs = [run(&[("b#1", "", 0.2), ("a#1", "", 0.0)])];
        let paired = pair(&ours, &theirs, Metric::Ap).unwrap();
        assert_eq!(paired.second, [0.0, 0.2]);
        theirs[0].kind.relevance = "other pairs".into();
        let error = pair(&ours, &theirs, Metric::Ap).unwrap_err().to_string();
        assert!(
            error.contains("annotated pairs") && error.contains("other pairs"),
            "{error}"
        );
        theirs[0].kind.relevance = PAIRS.into();
        theirs[0].queries[0].relevant = 2;
        let error = pair(&ours, &theirs, Metric::Ap).unwrap_err().to_string();
        assert!(
            error.contains("2 relevant items") || error.contains("1 relevant items"),
            "{error}"
        );
    }

    /// All queries of one clip: nothing can be clustered, and the other tests still are made.
    #[test]
    fn one_clip_alone_is_tested_over_queries() {
        let (first, second) = (
            [run(&[("a#1", "x", 0.1), ("a#2", "y", 0.3)])],
            [run(&[("a#1", "x", 0.2), ("a#2", "y", 0.1)])],
        );
        let tests = pair(&first, &second, Metric::Ap).unwrap().tests().unwrap();
        let over: Vec<&str> = tests.iter().map(|test| test.over.as_str()).collect();
        assert_eq!(over, [OVER_QUERIES, BY_PERMUTATION]);
    }

    #[test]
    fn different_queries_are_refused() {
        let first = [run(&[("a#1", "x", 1.0), ("b#1", "y", 1.0)])];
        for (second, expected) in [
            (run(&[("a#1", "x", 1.0)]), "b#1"),
            (
                run(&[("a#1", "x", 1.0), ("b#1", "y", 1.0), ("c#1", "z", 1.0)]),
                "c#1",
            ),
            (
                run(&[("a#1", "x", 1.0), ("b#1", "other words", 1.0)]),
                "other words",
            ),
        ] {
            let error = pair(&first, &[second], Metric::Ap).unwrap_err().to_string();
            assert!(
                error.contains("different queries") && error.contains(expected),
                "{error}"
            );
        }
        assert!(pair(&first, &[], Metric::Ap).is_err());
        assert!(pair(&first, &first, Metric::Ndcg).is_err());
    }

    #[test]
    fn p_is_corrected_among_comparisons_of_one_kind() {
        let test = |over: &str, p: f64| Test {
            over: over.into(),
            pairs: 2,
            difference: 0.0,
            interval: None,
            t: None,
            effect: None,
            p,
            holm: p,
        };
        let comparison = |p: f64| Comparison {
            first: "a".into(),
            second: "b".into(),
            direction: "text to audio".into(),
            metric: "mAP@10".into(),
            tests: vec![test(OVER_QUERIES, p), test(OVER_CLIPS, 2.0 * p)],
        };
        let mut all = [comparison(0.01), comparison(0.04)];
        apply_holm(&mut all).unwrap();
        assert!((all[0].tests[0].holm - 0.02).abs() < 1e-15);
        assert!((all[1].tests[0].holm - 0.04).abs() < 1e-15);
        assert!((all[1].tests[1].holm - 0.08).abs() < 1e-15);
    }
}
