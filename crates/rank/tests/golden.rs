//! Values of trec_eval and scipy. The script that made them is `golden/metrics.py`; the versions are in the file.

use hark_rank::metrics::{self, Keyed, Options, PerQuery, Relevant, id_key};
use hark_rank::significance::{mean_and_deviation, paired_t_test};
use hark_rank::{Vectors, unwatched};
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
    fn evaluate(&self, cut: usize) -> (Vec<PerQuery>, Vec<f64>) {
        let n = self.items();
        let mut axes = vec![0.0; n * n];
        axes.iter_mut().step_by(n + 1).for_each(|axis| *axis = 1.0);
        let scores = self.scores.concat();
        let item_keys: Vec<_> = (0..n).map(|item| id_key(&format!("d{item}"))).collect();
        let query_keys: Vec<_> = (0..self.scores.len())
            .map(|query| id_key(&format!("q{query}")))
            .collect();
        let items = Keyed::new(Vectors::new(&axes, n).unwrap(), &item_keys).unwrap();
        let queries = Keyed::new(Vectors::new(&scores, n).unwrap(), &query_keys).unwrap();
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
        let binary = metrics::evaluate(queries, items, &relevant, options, &unwatched).unwrap();
        let graded = metrics::evaluate_graded(queries, items, &gains, options, &unwatched).unwrap();
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
