//! Values of trec_eval, ranx, scipy and statsmodels. The scripts that made them are `golden/metrics.py`,
//! `golden/ties.py` and `golden/significance.py`; the versions are in the files.

use std::path::Path;

use hark_metrics::significance::{
    clustered_t_test, holm, mean_and_deviation, paired_t_test, permutation_test,
};
use hark_metrics::trec::{self, Qrels, Run, write_qrels, write_run};
use hark_metrics::{self as metrics, Options, QueryMetrics, Relevant, Ties, WithIds, tie_key};
use hark_nearest::Vectors;
use hark_work::progress::no_progress;
use serde::Deserialize;

#[derive(Deserialize)]
struct File {
    rankings: Vec<Ranking>,
    tests: Vec<Test>,
}

/// One row for each query, one column for each item.
#[derive(Deserialize)]
struct Ranking {
    scores: Vec<Vec<f32>>,
    gains: Vec<Vec<u8>>,
    expected: Vec<Expected>,
}

#[derive(Deserialize)]
struct Expected {
    map_cut_10: f64,
    map_cut_16: f64,
    recall_1: f64,
    recall_5: f64,
    recall_10: f64,
    success_1: f64,
    success_5: f64,
    success_10: f64,
    ndcg_cut_10: f64,
    recip_rank: f64,
}

#[derive(Deserialize)]
struct Test {
    seed: u64,
    n: usize,
    weight: f64,
    shift: f64,
    t: f64,
    p: f64,
    df: usize,
    low: f64,
    high: f64,
    mean: f64,
    deviation: f64,
}

fn file() -> File {
    serde_json::from_str(include_str!("golden/metrics.json")).unwrap()
}

impl Ranking {
    fn items(&self) -> usize {
        self.scores[0].len()
    }

    /// Scores as vectors: each item is an axis, so that the inner product with an item is the query's score.
    fn evaluate(&self, cut: usize) -> (Vec<QueryMetrics>, Vec<f64>) {
        let n = self.items();
        let mut axes = vec![0.0; n * n];
        axes.iter_mut().step_by(n + 1).for_each(|axis| *axis = 1.0);
        let scores = self.scores.concat();
        let item_keys: Vec<_> = (0..n).map(|item| tie_key(&format!("d{item}"))).collect();
        let query_keys: Vec<_> = (0..self.scores.len())
            .map(|query| tie_key(&format!("q{query}")))
            .collect();
        let items = WithIds::new(Vectors::new(&axes, n).unwrap(), &item_keys).unwrap();
        let queries = WithIds::new(Vectors::new(&scores, n).unwrap(), &query_keys).unwrap();
        let with_gain = self.gains.iter().map(|row| {
            (0..)
                .zip(row)
                .filter(|&(_, &gain)| gain > 0)
                .map(|(item, _)| item)
        });
        let relevant = Relevant::new(with_gain, n).unwrap();
        // nDCG does not depend on the unit of the gains.
        let gains = |query: usize, list: &mut Vec<(u32, f64)>| {
            list.extend((0..).zip(self.gains[query].iter().map(|&gain| f64::from(gain) / 5.0)));
        };
        let options = Options {
            cut: cut.try_into().unwrap(),
            ..Options::default()
        };
        let binary = metrics::evaluate(queries, items, &relevant, options, &no_progress).unwrap();
        let graded = metrics::evaluate_graded(queries, items, &gains, options, &no_progress).unwrap();
        (binary.queries, graded.queries)
    }
}

/// Both sides add at most 16 numbers in the same order; what is left is the last bits.
#[test]
fn metrics_equal_trec_eval() {
    let rankings = file().rankings;
    assert_eq!(rankings.len(), 30);
    let mut several = 0;
    for (number, ranking) in rankings.iter().enumerate() {
        let (of_queries, ndcg) = ranking.evaluate(10);
        let (of_queries_16, _) = ranking.evaluate(16);
        assert_eq!(of_queries.len(), ranking.expected.len());
        for (query, expected) in ranking.expected.iter().enumerate() {
            several += usize::from(ranking.gains[query].iter().filter(|&&gain| gain > 0).count() > 1);
            let got = of_queries[query];
            let hit = got.hit.map(|hit| f64::from(u8::from(hit)));
            for (what, got, expected) in [
                ("map_cut_10", got.average_precision, expected.map_cut_10),
                (
                    "map_cut_16",
                    of_queries_16[query].average_precision,
                    expected.map_cut_16,
                ),
                ("recall_1", got.recall[0], expected.recall_1),
                ("recall_5", got.recall[1], expected.recall_5),
                ("recall_10", got.recall[2], expected.recall_10),
                ("success_1", hit[0], expected.success_1),
                ("success_5", hit[1], expected.success_5),
                ("success_10", hit[2], expected.success_10),
                ("ndcg_cut_10", ndcg[query], expected.ndcg_cut_10),
                ("recip_rank", got.reciprocal_rank, expected.recip_rank),
            ] {
                assert!(
                    (got - expected).abs() < 1e-12,
                    "ranking {number}, query {query}, {what}: got {got}, expected {expected}"
                );
            }
        }
    }
    assert!(several > 30, "only {several} queries have several relevant items");
}

fn splitmix64(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Test {
    fn series(&self) -> (Vec<f64>, Vec<f64>) {
        let uniform =
            |i: usize| (splitmix64((self.seed << 32) + i as u64) >> 40) as f64 / f64::from(1_u32 << 24);
        (0..self.n)
            .map(|i| {
                let a = uniform(2 * i);
                let b = (1.0 - self.weight) * uniform(2 * i + 1) + self.weight * a - self.shift;
                (a, b)
            })
            .unzip()
    }
}

#[track_caller]
fn close(what: &str, case: &Test, got: f64, expected: f64, tolerance: f64) {
    let error = (got - expected).abs() / expected.abs();
    assert!(
        error < tolerance,
        "{what} of {} pairs, seed {}: got {got}, expected {expected}, relative error {error:e}",
        case.n,
        case.seed
    );
}

/// Logarithms of gamma functions near 18,000 cost five digits of p; the other numbers are sums of at most 5,225
/// terms, of which the mean difference may be a small rest.
#[test]
fn the_paired_test_equals_scipy() {
    let tests = file().tests;
    assert_eq!(tests.len(), 20);
    for case in &tests {
        let (a, b) = case.series();
        let got = paired_t_test(&a, &b).unwrap();
        assert_eq!((got.n, got.degrees_of_freedom), (case.n, case.df));
        close("t", case, got.t, case.t, 1e-10);
        close("p", case, got.p, case.p, 1e-10);
        close("mean", case, got.mean_difference, case.mean, 1e-10);
        close("low", case, got.interval_95.0, case.low, 1e-10);
        close("high", case, got.interval_95.1, case.high, 1e-10);
        let root = (case.n as f64).sqrt();
        close(
            "standard error",
            case,
            got.standard_error,
            case.deviation / root,
            1e-12,
        );
        close(
            "effect size",
            case,
            got.effect_size,
            case.mean / case.deviation,
            1e-10,
        );
        let differences: Vec<_> = a.iter().zip(&b).map(|(a, b)| a - b).collect();
        let (_, deviation) = mean_and_deviation(&differences).unwrap();
        close("deviation", case, deviation, case.deviation, 1e-12);
    }
    let smallest = tests.iter().map(|case| case.p).fold(1.0, f64::min);
    assert!(
        smallest < 1e-200 && smallest > 0.0,
        "the far tail is covered: {smallest:e}"
    );
}

#[derive(Deserialize)]
struct TiesFile {
    measures: Vec<String>,
    rankings: Vec<Tied>,
}

/// One row for each query, one column for each item; `hashed` and `keys` have the numbers of each query.
#[derive(Deserialize)]
struct Tied {
    scores: Vec<Vec<f32>>,
    gains: Vec<Vec<i8>>,
    listed_from: f32,
    seed: u64,
    hashed: Vec<Vec<f64>>,
    keys: Vec<Vec<f64>>,
}

/// Of each query in the order of the file's measures, from the metrics with the cuts 10 and 16.
fn numbers(ten: &QueryMetrics, sixteen: &QueryMetrics, ndcg_10: f64, ndcg_16: f64) -> Vec<f64> {
    let mut numbers = vec![ten.average_precision, sixteen.average_precision];
    numbers.extend(ten.recall);
    numbers.extend(ten.hit.map(|hit| f64::from(u8::from(hit))));
    numbers.extend([ndcg_10, ndcg_16, ten.reciprocal_rank]);
    numbers
}

impl Tied {
    fn query_id(query: usize) -> String {
        format!("q{query}")
    }

    fn item_id(item: usize) -> String {
        format!("{}{item}", ['d', 'D', '_', 'é'][item % 4])
    }

    /// By vectors, whose scores are those of the file: each item is an axis.
    fn by_vectors(&self) -> Vec<Vec<f64>> {
        let n = self.scores[0].len();
        let mut axes = vec![0.0; n * n];
        axes.iter_mut().step_by(n + 1).for_each(|axis| *axis = 1.0);
        let scores = self.scores.concat();
        let item_keys: Vec<_> = (0..n).map(|item| tie_key(&Self::item_id(item))).collect();
        let query_keys: Vec<_> = (0..self.scores.len())
            .map(|query| tie_key(&Self::query_id(query)))
            .collect();
        let items = WithIds::new(Vectors::new(&axes, n).unwrap(), &item_keys).unwrap();
        let queries = WithIds::new(Vectors::new(&scores, n).unwrap(), &query_keys).unwrap();
        let with_gain = |query: usize| (0..).zip(&self.gains[query]).filter(|&(_, &gain)| gain > 0);
        let relevant = Relevant::new(
            (0..self.gains.len()).map(|query| with_gain(query).map(|(item, _)| item)),
            n,
        )
        .unwrap();
        let gains = |query: usize, list: &mut Vec<(u32, f64)>| {
            list.extend(with_gain(query).map(|(item, &gain)| (item, f64::from(gain) / 5.0)));
        };
        let ties = Ties::Hashed { seed: self.seed };
        let [ten, sixteen] = [10, 16].map(|cut| {
            let options = Options {
                cut: cut.try_into().unwrap(),
                ties,
                ..Options::default()
            };
            (
                metrics::evaluate(queries, items, &relevant, options, &no_progress).unwrap(),
                metrics::evaluate_graded(queries, items, &gains, options, &no_progress).unwrap(),
            )
        });
        (0..self.scores.len())
            .map(|query| {
                numbers(
                    &ten.0.queries[query],
                    &sixteen.0.queries[query],
                    ten.1.queries[query],
                    sixteen.1.queries[query],
                )
            })
            .collect()
    }

    /// Through files, where items below a score are not listed.
    fn by_files(&self, listed_from: f32, ties: Ties) -> Vec<Vec<f64>> {
        let ids: Vec<_> = (0..self.scores[0].len()).map(Self::item_id).collect();
        let (mut run, mut qrels) = (Vec::new(), Vec::new());
        for (query, (scores, gains)) in self.scores.iter().zip(&self.gains).enumerate() {
            let id = Self::query_id(query);
            let mut listed: Vec<_> = ids
                .iter()
                .map(String::as_str)
                .zip(scores.iter().copied())
                .collect();
            listed.retain(|&(_, score)| score >= listed_from);
            if listed.is_empty() {
                listed.push((&ids[0], scores[0]));
            }
            write_run(&mut run, &id, listed.into_iter(), "golden").unwrap();
            let gains = gains.iter().map(|&gain| f64::from(gain));
            write_qrels(&mut qrels, &id, ids.iter().map(String::as_str).zip(gains)).unwrap();
        }
        let run = Run::read(&*run, Path::new("run")).unwrap();
        let qrels = Qrels::read(&*qrels, Path::new("qrels")).unwrap();
        let [ten, sixteen] = [10, 16].map(|cut| {
            let options = trec::Options {
                cut: cut.try_into().unwrap(),
                ties,
                ..trec::Options::default()
            };
            trec::evaluate(&run, &qrels, options).unwrap()
        });
        let expected: Vec<_> = (0..self.scores.len()).map(Self::query_id).collect();
        assert_eq!(ten.queries, expected);
        (0..self.scores.len())
            .map(|query| {
                numbers(
                    &ten.report.queries[query],
                    &sixteen.report.queries[query],
                    ten.graded.queries[query],
                    sixteen.graded.queries[query],
                )
            })
            .collect()
    }
}

/// Both sides add at most 16 numbers in the same order; what is left is the last bits.
#[track_caller]
fn equal(what: &str, measures: &[String], got: &[Vec<f64>], expected: &[Vec<f64>]) {
    assert_eq!(got.len(), expected.len());
    for (query, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert_eq!((got.len(), expected.len()), (measures.len(), measures.len()));
        for ((measure, got), expected) in measures.iter().zip(got).zip(expected) {
            assert!(
                (got - expected).abs() < 1e-12,
                "{what}, query {query}, {measure}: got {got}, expected {expected}"
            );
        }
    }
}

/// In our order of ties as trec_eval and ranx see it, by vectors and through files; and in trec_eval's own.
#[test]
fn ties_equal_trec_eval_and_ranx() {
    let file: TiesFile = serde_json::from_str(include_str!("golden/ties.json")).unwrap();
    assert_eq!(file.rankings.len(), 240);
    assert_eq!(file.measures[..3], ["map_cut_10", "map_cut_16", "recall_1"]);
    assert_eq!(file.measures[8..], ["ndcg_cut_10", "ndcg_cut_16", "recip_rank"]);
    let (mut several, mut nothing_found) = (0, 0);
    for (number, ranking) in file.rankings.iter().enumerate() {
        let check = |what: &str, got: &[Vec<f64>], expected: &[Vec<f64>]| {
            equal(
                &format!("ranking {number}, {what}"),
                &file.measures,
                got,
                expected,
            );
        };
        let hashed = Ties::Hashed { seed: ranking.seed };
        check("by vectors", &ranking.by_vectors(), &ranking.hashed);
        check(
            "through files",
            &ranking.by_files(f32::MIN, hashed),
            &ranking.hashed,
        );
        check(
            "by id",
            &ranking.by_files(ranking.listed_from, Ties::Keys),
            &ranking.keys,
        );
        let relevant = ranking
            .gains
            .iter()
            .map(|row| row.iter().filter(|&&gain| gain > 0).count());
        several += relevant.filter(|&count| count > 1).count();
        nothing_found += ranking
            .keys
            .iter()
            .filter(|row| row.last().is_some_and(|&reciprocal| reciprocal < 1e-9))
            .count();
    }
    assert!(
        several > 300,
        "only {several} queries have several relevant items"
    );
    assert!(
        nothing_found > 5,
        "only {nothing_found} lists hold no relevant item"
    );
}

#[derive(Deserialize)]
struct SignificanceFile {
    clustered: Vec<Clustered>,
    permutation: Vec<Permuted>,
    holm: Vec<Holm>,
}

/// How a pair of series and their clusters are made.
#[derive(Deserialize)]
struct Made {
    seed: u64,
    n: usize,
    clusters: u32,
    fives: bool,
    effect: f64,
    shift: f64,
    grid: f64,
}

#[derive(Deserialize)]
struct Clustered {
    #[serde(flatten)]
    made: Made,
    mean: f64,
    error: f64,
    t: f64,
    p: f64,
    low: f64,
    high: f64,
    df: usize,
}

#[derive(Deserialize)]
struct Permuted {
    #[serde(flatten)]
    made: Made,
    units: usize,
    mean: f64,
    p: f64,
}

#[derive(Deserialize)]
struct Holm {
    p: Vec<f64>,
    adjusted: Vec<f64>,
}

impl Made {
    fn series(&self) -> (Vec<f64>, Vec<f64>, Vec<u32>) {
        let u = |i: u64| (splitmix64((self.seed << 32) + i) >> 40) as f64 / f64::from(1_u32 << 24);
        let clusters: Vec<_> = (0..self.n as u64)
            .map(|i| {
                if self.fives {
                    i as u32 / 5
                } else {
                    (u((1 << 30) + i) * f64::from(self.clusters)) as u32
                }
            })
            .collect();
        let on_grid = |value: f64| {
            if self.grid > 0.0 {
                (value * self.grid).floor() / self.grid
            } else {
                value
            }
        };
        let a = (0..)
            .zip(&clusters)
            .map(|(i, &cluster)| on_grid(u(2 * i) + self.effect * u((1 << 31) + u64::from(cluster))));
        let b = (0..self.n as u64).map(|i| on_grid(u(2 * i + 1) - self.shift));
        (a.collect(), b.collect(), clusters)
    }
}

fn significance() -> SignificanceFile {
    serde_json::from_str(include_str!("golden/significance.json")).unwrap()
}

/// Sums of at most 5,225 terms, of which the mean may be a small rest, and p from logarithms of gamma functions.
#[test]
fn the_clustered_test_equals_statsmodels() {
    let cases = significance().clustered;
    assert_eq!(cases.len(), 12);
    for case in &cases {
        let (a, b, clusters) = case.made.series();
        let got = clustered_t_test(&a, &b, &clusters).unwrap();
        assert_eq!((got.n, got.degrees_of_freedom), (case.made.n, case.df));
        for (what, got, expected) in [
            ("mean", got.mean_difference, case.mean),
            ("standard error", got.standard_error, case.error),
            ("t", got.t, case.t),
            ("p", got.p, case.p),
            ("low", got.interval_95.0, case.low),
            ("high", got.interval_95.1, case.high),
        ] {
            let error = (got - expected).abs() / expected.abs();
            assert!(
                error < 1e-10,
                "{what} of {} pairs, seed {}: got {got}, expected {expected}, relative error {error:e}",
                case.made.n,
                case.made.seed
            );
        }
        // The errors over clusters are not those over pairs, or the clusters would not be tested.
        let over_pairs = paired_t_test(&a, &b).unwrap().standard_error;
        assert!((got.standard_error / over_pairs - 1.0).abs() > 1e-3);
    }
}

#[test]
fn permutations_equal_scipy() {
    let cases = significance().permutation;
    assert_eq!(cases.len(), 12);
    for case in &cases {
        let (a, b, clusters) = case.made.series();
        let clusters = (case.made.clusters > 0).then_some(&clusters[..]);
        let all = 1_u64 << case.units;
        let got = permutation_test(&a, &b, clusters, all, 0).unwrap();
        assert!(got.exact);
        assert_eq!(
            (got.n, got.units, got.permutations),
            (case.made.n, case.units, all)
        );
        assert!((got.mean_difference - case.mean).abs() < 1e-12);
        // Both are a number of patterns over a power of two.
        assert!(
            (got.p - case.p).abs() < 1e-12,
            "{} units: {} {}",
            case.units,
            got.p,
            case.p
        );
        // One pattern less, and patterns are drawn. p is a share of the draws and one more.
        let drawn = all - 1;
        for seed in 0..3 {
            let got = permutation_test(&a, &b, clusters, drawn, seed).unwrap();
            assert!(!got.exact && got.permutations == drawn);
            let error = (case.p * (1.0 - case.p) / drawn as f64).sqrt();
            assert!(
                (got.p - case.p).abs() <= 4.0 * error + 1.0 / (1.0 + drawn as f64),
                "{} units, seed {seed}: {} is not {} within 4 x {error}",
                case.units,
                got.p,
                case.p
            );
        }
    }
}

/// A product of a p and a whole number.
#[test]
fn holm_equals_statsmodels() {
    let cases = significance().holm;
    assert_eq!(cases.len(), 8);
    for case in &cases {
        let got = holm(&case.p).unwrap();
        assert_eq!(got.len(), case.adjusted.len());
        for (got, expected) in got.iter().zip(&case.adjusted) {
            assert!((got - expected).abs() < 1e-14, "{got} {expected}");
        }
    }
}
