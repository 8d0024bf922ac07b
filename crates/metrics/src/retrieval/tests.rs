//! Metrics against plain sorting, chance against all permutations, ties, and what is refused.
//!
//! Most vectors hold small whole numbers: every inner product is exact in `f32` and ties are frequent.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use proptest::prelude::*;

use super::*;
use hark_work::progress::no_progress;

fn whole_numbers(len: usize, seed: usize) -> Vec<f32> {
    (0..len)
        .map(|i| ((i * 7 + seed * 13 + i * i % 11) % 5) as f32 - 2.0)
        .collect()
}

fn keys(prefix: &str, count: usize) -> Vec<u64> {
    (0..count).map(|i| tie_key(&format!("{prefix}{i}"))).collect()
}

fn options(cut: usize, threads: usize) -> Options {
    Options {
        cut: NonZeroUsize::new(cut).unwrap(),
        threads: NonZeroUsize::new(threads),
        ..Options::default()
    }
}

/// A small set of its own, which tests change and evaluate.
#[derive(Clone)]
struct Case {
    dim: usize,
    queries: Vec<f32>,
    items: Vec<f32>,
    query_keys: Vec<u64>,
    item_keys: Vec<u64>,
    relevant: Vec<Vec<u32>>,
}

impl Case {
    fn new(queries: usize, items: usize, dim: usize, relevant: Vec<Vec<u32>>) -> Self {
        Self {
            dim,
            queries: whole_numbers(queries * dim, 1),
            items: whole_numbers(items * dim, 2),
            query_keys: keys("query ", queries),
            item_keys: keys("item ", items),
            relevant,
        }
    }

    /// Every query has the same score with all items.
    fn constant(queries: usize, items: usize, relevant: Vec<Vec<u32>>) -> Self {
        Self {
            queries: vec![1.0; queries],
            items: vec![1.0; items],
            ..Self::new(queries, items, 1, relevant)
        }
    }

    fn sets(&self) -> (WithIds<'_>, WithIds<'_>) {
        (
            WithIds::new(Vectors::new(&self.queries, self.dim).unwrap(), &self.query_keys).unwrap(),
            WithIds::new(Vectors::new(&self.items, self.dim).unwrap(), &self.item_keys).unwrap(),
        )
    }

    fn relevant(&self) -> Relevant {
        Relevant::new(self.relevant.iter().cloned(), self.item_keys.len()).unwrap()
    }

    fn evaluate(&self, options: Options) -> Report {
        let (queries, items) = self.sets();
        evaluate(queries, items, &self.relevant(), options, &no_progress).unwrap()
    }

    /// nDCG with the gain that `gain` gives each relevant item.
    fn evaluate_graded(&self, gain: impl Fn(u32) -> f64 + Sync, options: Options) -> GradedReport {
        let (queries, items) = self.sets();
        let gains = |query: usize, list: &mut Vec<(u32, f64)>| {
            list.extend(self.relevant[query].iter().map(|&item| (item, gain(item))));
        };
        evaluate_graded(queries, items, &gains, options, &no_progress).unwrap()
    }

    fn score(&self, query: usize, item: u32) -> f32 {
        let row = |data: &[f32], row: usize| data[row * self.dim..(row + 1) * self.dim].to_vec();
        let (left, right) = (row(&self.queries, query), row(&self.items, item as usize));
        left.iter().zip(&right).map(|(a, b)| a * b).sum()
    }

    /// All items of one query, best first, by sorting.
    fn order(&self, query: usize) -> Vec<u32> {
        let place = |item: u32| {
            let score = self.score(query, item);
            // A bijection of (query, item) written out once more, with a score of whole numbers.
            let step = |z: u64| {
                let z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                z ^ (z >> 31)
            };
            (
                -(score as i64),
                step(step(self.query_keys[query]) ^ self.item_keys[item as usize]),
            )
        };
        let mut order: Vec<_> = (0..self.item_keys.len() as u32).collect();
        order.sort_by_key(|&item| place(item));
        order
    }

    fn items_as(&self, order: &[usize]) -> Self {
        let mut back = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            back[old] = new as u32;
        }
        Self {
            items: order
                .iter()
                .flat_map(|&i| self.items[i * self.dim..(i + 1) * self.dim].to_vec())
                .collect(),
            item_keys: order.iter().map(|&i| self.item_keys[i]).collect(),
            relevant: self
                .relevant
                .iter()
                .map(|list| list.iter().map(|&item| back[item as usize]).collect())
                .collect(),
            ..self.clone()
        }
    }
}

/// The definitions, read off the sorted list of hits.
fn by_definition(hits: &[bool], relevant: usize, cut: usize) -> QueryMetrics {
    let count = |k: usize| hits.iter().take(k).filter(|&&hit| hit).count();
    let first = hits.iter().position(|&hit| hit).unwrap() + 1;
    let mut sum = 0.0;
    for rank in 1..=cut.min(hits.len()) {
        if hits[rank - 1] {
            sum += count(rank) as f64 / rank as f64;
        }
    }
    QueryMetrics {
        first_rank: first as u32,
        average_precision: sum / relevant as f64,
        recall: [1, 5, 10].map(|k| count(k) as f64 / relevant as f64),
        hit: [1, 5, 10].map(|k| count(k) > 0),
        reciprocal_rank: 1.0 / first as f64,
    }
}

fn check(case: &Case, options: Options) {
    let report = case.evaluate(options);
    let gain = |item: u32| f64::from(item % 4 + 1) / 4.0;
    let graded = case.evaluate_graded(gain, options);
    let cut = options.cut.get();
    assert_eq!(report.queries.len(), case.query_keys.len());
    for (query, list) in case.relevant.iter().enumerate() {
        let order = case.order(query);
        let hits: Vec<_> = order.iter().map(|item| list.contains(item)).collect();
        assert_eq!(
            report.queries[query],
            by_definition(&hits, list.len(), cut),
            "query {query}"
        );
        let dcg = |gains: &[f64]| -> f64 {
            let terms = gains.iter().take(cut).zip(2..);
            terms.map(|(gain, place)| gain / f64::from(place).log2()).sum()
        };
        let found: Vec<_> = order
            .iter()
            .map(|&item| if list.contains(&item) { gain(item) } else { 0.0 })
            .collect();
        let mut best = found.clone();
        best.sort_by(|a, b| b.total_cmp(a));
        // A product with a reciprocal and a quotient differ in the last bits.
        assert!((graded.queries[query] - dcg(&found) / dcg(&best)).abs() < 1e-12);
    }
    let mean = report
        .queries
        .iter()
        .map(|query| query.average_precision)
        .sum::<f64>()
        / report.queries.len() as f64;
    assert_eq!(report.mean.average_precision, mean);
}

#[test]
fn metrics_equal_those_of_the_sorted_list() {
    for (queries, items, dim) in [
        (1, 1, 1),
        (1, 40, 3),
        (7, 2, 1),
        (40, 33, 4),
        (30, 700, 2),
        (600, 20, 8),
    ] {
        let relevant = (0..queries)
            .map(|query| {
                let mut list: Vec<_> = (0..=query % 7)
                    .map(|i| ((query * 31 + i * 17) % items) as u32)
                    .collect();
                list.sort_unstable();
                list.dedup();
                list
            })
            .collect();
        let case = Case::new(queries, items, dim, relevant);
        check(&case, options(10, 1));
        check(&case, options(16, 2));
        check(&case, options(1, 3));
        assert_eq!(case.evaluate(options(10, 1)), case.evaluate(options(10, 2)));
    }
}

proptest! {
    #[test]
    fn any_small_set_equals_the_sorted_list(
        dim in 1..4_usize,
        queries in prop::collection::vec(-2..3_i8, 1..30),
        items in prop::collection::vec(-2..3_i8, 1..80),
        picks in prop::collection::vec(prop::collection::btree_set(any::<u32>(), 1..9), 30),
        cut in 1..20_usize,
    ) {
        let whole = |values: &[i8]| -> Vec<f32> {
            let rows = values.len().div_ceil(dim);
            values.iter().map(|&value| f32::from(value)).chain(std::iter::repeat(1.0)).take(rows * dim).collect()
        };
        let (queries, items) = (whole(&queries), whole(&items));
        let (query_rows, item_rows) = (queries.len() / dim, items.len() / dim);
        let relevant = picks.iter().take(query_rows).map(|set| {
            let list: std::collections::BTreeSet<_> = set.iter().map(|pick| pick % item_rows as u32).collect();
            list.into_iter().collect()
        }).collect();
        let case = Case { queries, items, ..Case::new(query_rows, item_rows, dim, relevant) };
        check(&case, options(cut, 2));
    }

    /// Turning the list of items round or about changes nothing, however many scores are equal.
    #[test]
    fn the_order_of_items_does_not_matter(
        items in 2..60_usize,
        relevant in 1..6_usize,
        step in 1..60_usize,
        constant in any::<bool>(),
    ) {
        let relevant = relevant.min(items) as u32;
        let lists = vec![(0..relevant).collect(); 3];
        let case = if constant {
            Case::constant(3, items, lists)
        } else {
            Case::new(3, items, 2, lists)
        };
        let turned: Vec<_> = (0..items).map(|i| (i + step) % items).rev().collect();
        prop_assert_eq!(
            case.evaluate(Options::default()).queries,
            case.items_as(&turned).evaluate(Options::default()).queries
        );
    }

    /// Metrics are shares, hits are at least recalls, and none falls as its list grows.
    #[test]
    fn metrics_are_shares_that_grow_with_the_cut(
        items in 1..200_usize, relevant in 1..20_usize, queries in 1..20_usize,
    ) {
        let lists = vec![(0..relevant.min(items) as u32).collect(); queries];
        let report = Case::new(queries, items, 3, lists).evaluate(Options::default());
        for means in [report.mean, report.chance] {
            for k in 0..3 {
                prop_assert!(0.0 <= means.recall[k] && means.recall[k] <= means.hit[k] + 1e-12);
                prop_assert!(means.hit[k] <= 1.0);
                prop_assert!(k == 0 || means.hit[k] >= means.hit[k - 1]);
                prop_assert!(k == 0 || means.recall[k] >= means.recall[k - 1]);
            }
            prop_assert!(0.0 <= means.average_precision && means.average_precision <= 1.0 + 1e-12);
            prop_assert!(means.hit[0] <= means.reciprocal_rank + 1e-12 && means.reciprocal_rank <= 1.0 + 1e-12);
        }
    }
}

/// The lists are the start of the whole order by sorting, at every length, also where the reservoir is cut.
#[test]
fn lists_equal_the_sorted_list() {
    for (queries, items, dim) in [(1, 1, 1), (7, 2, 1), (40, 33, 4), (600, 20, 8), (5, 3000, 2)] {
        let case = Case::new(queries, items, dim, vec![vec![0]; queries]);
        let (query_set, item_set) = case.sets();
        for k in [1, 2, 10, 300, 5000] {
            let found = lists(
                query_set,
                item_set,
                NonZeroUsize::new(k).unwrap(),
                options(1, 2),
                &no_progress,
            )
            .unwrap();
            assert_eq!(
                (found.k, found.items.len(), found.scores.len()),
                (k.min(items), queries * k.min(items), queries * k.min(items))
            );
            for query in 0..queries {
                let expected: Vec<_> = case
                    .order(query)
                    .into_iter()
                    .take(k)
                    .map(|item| (item, case.score(query, item)))
                    .collect();
                assert_eq!(
                    found.of(query).collect::<Vec<_>>(),
                    expected,
                    "{items} items, k {k}"
                );
            }
            assert_eq!(found.of(queries).count(), 0);
            assert_eq!(found.of(usize::MAX).count(), 0);
        }
    }
}

/// With every order of ties an item's place in the list is its rank.
#[test]
fn lists_and_ranks_have_the_same_order_of_ties() {
    let case = Case::constant(9, 700, (0..9).map(|query| vec![query * 70]).collect());
    let (queries, items) = case.sets();
    for ties in [Ties::default(), Ties::Hashed { seed: 5 }, Ties::Keys] {
        let options = Options {
            ties,
            ..Options::default()
        };
        let all = NonZeroUsize::new(700).unwrap();
        let found = lists(queries, items, all, options, &no_progress).unwrap();
        for (query, per_query) in case.evaluate(options).queries.iter().enumerate() {
            let wanted = case.relevant[query][0];
            let place = found.of(query).position(|(item, _)| item == wanted);
            assert_eq!(place.unwrap() + 1, per_query.first_rank as usize, "{ties:?}");
        }
    }
}

#[test]
fn lists_without_items_are_empty_and_without_queries_refused() {
    let case = Case::new(3, 2, 2, vec![vec![0]; 3]);
    let (queries, _) = case.sets();
    let none = WithIds::new(Vectors::new(&[], 2).unwrap(), &[]).unwrap();
    let run = |queries, items| {
        lists(
            queries,
            items,
            NonZeroUsize::MIN,
            Options::default(),
            &no_progress,
        )
    };
    let found = run(queries, none).unwrap();
    assert_eq!((found.k, found.of(0).count()), (0, 0));
    assert_eq!(run(none, queries), Err(Error::NoQueries));
    let long = WithIds::new(Vectors::new(&[1.0; 3], 3).unwrap(), &[1]).unwrap();
    assert_eq!(
        run(queries, long),
        Err(hark_nearest::Error::DimensionMismatch { expected: 2, got: 3 }.into())
    );
    let stop = |_, _| ControlFlow::Break(());
    assert_eq!(
        lists(queries, queries, NonZeroUsize::MIN, Options::default(), &stop).map(|_| ()),
        Ok(()),
        "one stripe is done when the caller is asked"
    );
}

/// Seed 0 is today's order, other seeds are other orders, and keys stand highest first.
#[test]
fn ties_follow_their_option() {
    let case = Case::constant(2, 50, vec![vec![0]; 2]);
    let (queries, items) = case.sets();
    let order = |ties| {
        let options = Options {
            ties,
            ..Options::default()
        };
        let found = lists(
            queries,
            items,
            NonZeroUsize::new(50).unwrap(),
            options,
            &no_progress,
        );
        let found = found.unwrap();
        [0, 1].map(|query| found.of(query).map(|(item, _)| item).collect::<Vec<_>>())
    };
    let hashed = order(Ties::Hashed { seed: 0 });
    assert_eq!(hashed, [case.order(0), case.order(1)]);
    assert_ne!(hashed, order(Ties::Hashed { seed: 1 }));
    assert_ne!(hashed[0], hashed[1]);
    let mut by_key: Vec<u32> = (0..50).collect();
    by_key.sort_by_key(|&item| std::cmp::Reverse(case.item_keys[item as usize]));
    assert_eq!(order(Ties::Keys), [by_key.clone(), by_key]);
}

/// Scores that are no whole numbers: copies of an item must tie wherever they stand, for any number of
/// queries and items, or the hash would not decide between them.
#[test]
fn copies_of_an_item_tie_wherever_they_stand() {
    for (queries, items, dim) in [(1, 97, 7), (2, 530, 129), (9, 61, 1024), (530, 17, 40), (3, 2, 5)] {
        let fraction = |i: usize| (i as f32 * 0.737_1).sin() / 3.0;
        let vector: Vec<f32> = (0..dim).map(fraction).collect();
        let mut case = Case::constant(queries, items, vec![vec![0]; queries]);
        let expected = case.evaluate(Options::default()).queries;
        case.dim = dim;
        case.queries = (0..queries * dim).map(|i| fraction(i + 1000)).collect();
        case.items = vector.repeat(items);
        assert_eq!(
            case.evaluate(Options::default()).queries,
            expected,
            "{queries} x {items} x {dim}"
        );
    }
}

/// One relevant clip at rank 1, 4 and 11: AP@10 is 1/rank or nothing.
#[test]
fn text_to_audio_by_hand() {
    let clips = 12;
    let mut case = Case::constant(3, clips, vec![vec![0], vec![3], vec![10]]);
    case.dim = clips;
    // Each clip is an axis; every query scores the clips in falling order.
    case.items = (0..clips * clips)
        .map(|i| f32::from(u8::from(i % (clips + 1) == 0)))
        .collect();
    case.queries = (0..clips)
        .rev()
        .map(|score| score as f32)
        .collect::<Vec<_>>()
        .repeat(3);
    let report = case.evaluate(Options::default());
    let precisions: Vec<_> = report
        .queries
        .iter()
        .map(|query| query.average_precision)
        .collect();
    assert_eq!(precisions, [1.0, 0.25, 0.0]);
    let ranks: Vec<_> = report.queries.iter().map(|query| query.first_rank).collect();
    assert_eq!((ranks, report.median_rank), (vec![1, 4, 11], 4.0));
    assert_eq!(report.mean.recall, [1.0 / 3.0, 2.0 / 3.0, 2.0 / 3.0]);
    assert_eq!(report.mean.hit, report.mean.recall);
    assert_eq!(report.queries[2].reciprocal_rank, 1.0 / 11.0);
    // With the cut of recent challenges the last one counts.
    assert_eq!(
        case.evaluate(options(16, 1)).queries[2].average_precision,
        1.0 / 11.0
    );
}

/// Five relevant captions at ranks 1, 3, 4, 10 and 12 of 20: the paper's convention.
#[test]
fn audio_to_text_by_hand() {
    let captions = 20;
    let mut case = Case::constant(1, captions, vec![vec![0, 2, 3, 9, 11]]);
    case.items = (0..captions).rev().map(|score| score as f32).collect();
    let report = case.evaluate(Options::default());
    let query = report.queries[0];
    let expected = (1.0 + 2.0 / 3.0 + 3.0 / 4.0 + 4.0 / 10.0) / 5.0;
    assert!((query.average_precision - expected).abs() < 1e-15);
    assert_eq!(query.recall, [0.2, 0.6, 0.8]);
    assert_eq!(query.hit, [true; 3]);
    // Two queries: the median lies between their ranks.
    case.queries = vec![1.0, -1.0];
    case.query_keys = vec![1, 2];
    case.relevant.push(vec![0, 2, 3, 9, 11]);
    // In the falling order the last relevant one comes first: rank 20 - 11.
    assert_eq!(case.evaluate(Options::default()).median_rank, 5.0);
}

/// A clip's five captions stand together. With equal scores everything must look like chance, in both
/// directions; by position, audio to text would reach 2.3 times chance.
#[test]
fn constant_scores_give_chance() {
    let clips = 400;
    let captions = Case::constant(
        clips * 5,
        clips,
        (0..clips as u32 * 5).map(|i| vec![i / 5]).collect(),
    );
    let forth = captions.evaluate(Options::default());
    let (queries, items) = captions.sets();
    let reversed = captions.relevant().reversed().unwrap();
    let back = evaluate(items, queries, &reversed, Options::default(), &no_progress).unwrap();
    for report in [forth, back] {
        type Pick = fn(&QueryMetrics) -> f64;
        let picks: [(Pick, f64, f64); 4] = [
            (
                |query| query.average_precision,
                report.mean.average_precision,
                report.chance.average_precision,
            ),
            (
                |query| query.recall[2],
                report.mean.recall[2],
                report.chance.recall[2],
            ),
            (
                |query| f64::from(u8::from(query.hit[2])),
                report.mean.hit[2],
                report.chance.hit[2],
            ),
            (
                |query| query.reciprocal_rank,
                report.mean.reciprocal_rank,
                report.chance.reciprocal_rank,
            ),
        ];
        for (pick, mean, chance) in picks {
            let values: Vec<_> = report.queries.iter().map(pick).collect();
            let (_, deviation) = crate::significance::mean_and_deviation(&values).unwrap();
            let error = deviation / (values.len() as f64).sqrt();
            assert!(
                (mean - chance).abs() < 3.0 * error,
                "{mean} is not {chance} within 3 x {error}"
            );
        }
    }
}

/// Every metric that a report has, with its name, once measured and once expected.
fn all_metrics(report: &Report, graded: &GradedReport) -> Vec<(&'static str, f64, f64)> {
    let (mean, chance) = (&report.mean, &report.chance);
    let mut all = vec![
        ("AP@10", mean.average_precision, chance.average_precision),
        ("reciprocal rank", mean.reciprocal_rank, chance.reciprocal_rank),
        ("nDCG@10", graded.mean, graded.chance),
    ];
    for (i, name) in ["R@1", "R@5", "R@10"].into_iter().enumerate() {
        all.push((name, mean.recall[i], chance.recall[i]));
    }
    for (i, name) in ["hit@1", "hit@5", "hit@10"].into_iter().enumerate() {
        all.push((name, mean.hit[i], chance.hit[i]));
    }
    all
}

/// Over seeds of the hash, a scorer that gives every pair the same score reaches chance within 3 standard errors in
/// every metric and both directions. The error is the one of the mean over 400 seeds.
#[test]
fn constant_scores_give_chance_over_seeds() {
    let (clips, seeds) = (30, 400);
    let forth = Case::constant(
        clips * 5,
        clips,
        (0..clips as u32 * 5).map(|i| vec![i / 5]).collect(),
    );
    let back = Case {
        query_keys: forth.item_keys.clone(),
        item_keys: forth.query_keys.clone(),
        ..Case::constant(
            clips,
            clips * 5,
            (0..clips as u32).map(|i| (i * 5..i * 5 + 5).collect()).collect(),
        )
    };
    for (direction, case) in [("text to audio", forth), ("audio to text", back)] {
        let gain = |item: u32| f64::from(item % 5 + 1) / 5.0;
        let of_seeds: Vec<_> = (0..seeds)
            .map(|seed| {
                let options = Options {
                    ties: Ties::Hashed { seed },
                    ..Options::default()
                };
                all_metrics(&case.evaluate(options), &case.evaluate_graded(gain, options))
            })
            .collect();
        for metric in 0..of_seeds[0].len() {
            let (name, _, chance) = of_seeds[0][metric];
            let values: Vec<_> = of_seeds.iter().map(|all| all[metric].1).collect();
            let (mean, deviation) = crate::significance::mean_and_deviation(&values).unwrap();
            let error = deviation / (values.len() as f64).sqrt();
            assert!(deviation > 0.0, "{direction}, {name}: seeds change nothing");
            assert!(
                (mean - chance).abs() < 3.0 * error,
                "{direction}, {name}: {mean} is not {chance} within 3 x {error}"
            );
        }
    }
}

/// A ranking of 20 items with the relevant ones at the given ranks.
fn relevant_at(ranks: &[u32], cut: usize) -> QueryMetrics {
    let mut case = Case::constant(1, 20, vec![ranks.iter().map(|rank| rank - 1).collect()]);
    case.items = (0..20_u8).map(|item| -f32::from(item)).collect();
    case.evaluate(options(cut, 1)).queries[0]
}

/// Text to audio, one relevant clip: AP@10 is 1/rank within the first ten, else 0.
#[test]
fn one_relevant_item_at_every_rank() {
    for rank in 1..=20 {
        let got = relevant_at(&[rank], 10);
        let within = f64::from(u8::from(rank <= 10));
        assert_eq!(got.average_precision, within / f64::from(rank));
        assert_eq!(got.recall, [1, 5, 10].map(|k| f64::from(u8::from(rank <= k))));
        assert_eq!(got.reciprocal_rank, 1.0 / f64::from(rank));
    }
}

/// Audio to text, five relevant captions: the sum of the precisions at those within the cut, over five; and R@1 is
/// at most 0.2.
#[test]
fn five_relevant_items_by_hand() {
    let best = relevant_at(&[1, 2, 3, 4, 5], 10);
    assert_eq!((best.average_precision, best.recall), (1.0, [0.2, 1.0, 1.0]));
    let got = relevant_at(&[2, 3, 9, 12, 16], 10);
    assert_eq!(got.average_precision, (1.0 / 2.0 + 2.0 / 3.0 + 3.0 / 9.0) / 5.0);
    assert_eq!(got.recall, [0.0, 2.0 / 5.0, 3.0 / 5.0]);
    assert_eq!((got.hit, got.first_rank), ([false, true, true], 2));
    // With the cut at 16 all five count.
    let got = relevant_at(&[2, 3, 9, 12, 16], 16);
    assert_eq!(
        got.average_precision,
        (1.0 / 2.0 + 2.0 / 3.0 + 3.0 / 9.0 + 4.0 / 12.0 + 5.0 / 16.0) / 5.0
    );
    assert_eq!(
        got.recall,
        [0.0, 2.0 / 5.0, 3.0 / 5.0],
        "which have cuts of their own"
    );
}

/// Seventeen relevant items cannot all stand within a cut of 16: the division is still by all of them.
#[test]
fn a_cut_shorter_than_the_relevant_items_divides_by_all() {
    let ranks: Vec<_> = (1..=17).collect();
    assert_eq!(relevant_at(&ranks, 16).average_precision, 16.0 / 17.0);
    assert_eq!(relevant_at(&ranks, 17).average_precision, 1.0);
}

/// Calls `visit` with every order of the numbers below `n`.
fn permutations(n: usize, visit: &mut impl FnMut(&[usize])) {
    fn place(order: &mut [usize], from: usize, visit: &mut impl FnMut(&[usize])) {
        if from == order.len() {
            visit(order);
        }
        for other in from..order.len() {
            order.swap(from, other);
            place(order, from + 1, visit);
            order.swap(from, other);
        }
    }
    place(&mut (0..n).collect::<Vec<_>>(), 0, visit);
}

#[test]
fn chance_is_the_mean_over_all_permutations() {
    for n in 1..=7 {
        for r in 1..=n {
            for cut in [1, 3, 10] {
                let gains: Vec<_> = (0..r).map(|i| (i + 1) as f64 / r as f64).collect();
                let best_first = gains.iter().rev().zip(1..).take(cut);
                let ideal: f64 = best_first.map(|(gain, rank)| gain * discount(rank)).sum();
                let (mut sum, mut ndcg, mut orders) = (MeanMetrics::default(), 0.0, 0.0);
                permutations(n, &mut |order| {
                    let hits: Vec<_> = order.iter().map(|&item| item < r).collect();
                    let query = by_definition(&hits, r, cut);
                    sum.add(&mean_of(&[query]), 1.0);
                    let ranked = order.iter().zip(1..).take(cut).filter(|&(&item, _)| item < r);
                    ndcg += ranked
                        .map(|(&item, rank)| gains[item] * discount(rank))
                        .sum::<f64>()
                        / ideal;
                    orders += 1.0;
                });
                let got = chance(n, r, cut).unwrap();
                let close = |got: f64, sum: f64| {
                    assert!(
                        (got - sum / orders).abs() < 1e-12,
                        "n {n}, r {r}, k {cut}: {got}, {}",
                        sum / orders
                    );
                };
                close(got.average_precision, sum.average_precision);
                close(got.reciprocal_rank, sum.reciprocal_rank);
                for k in 0..3 {
                    close(got.recall[k], sum.recall[k]);
                    close(got.hit[k], sum.hit[k]);
                }
                close(chance::ndcg(n, cut, gains.iter().sum(), ideal), ndcg);
            }
        }
    }
    assert_eq!(
        (chance(3, 0, 10), chance(3, 4, 10), chance(0, 0, 10)),
        (None, None, None)
    );
}

#[test]
fn chance_is_averaged_over_numbers_of_relevant_items() {
    let report = Case::new(3, 9, 2, vec![vec![0], vec![1, 2, 3], vec![4]]).evaluate(options(4, 1));
    let (one, three) = (chance(9, 1, 4).unwrap(), chance(9, 3, 4).unwrap());
    let expected = (2.0 * one.average_precision + three.average_precision) / 3.0;
    assert!((report.chance.average_precision - expected).abs() < 1e-15);
}

#[test]
fn sets_that_do_not_fit_are_refused() {
    let case = Case::new(2, 3, 2, vec![vec![0], vec![1]]);
    let (queries, items) = case.sets();
    let run = |queries, items, relevant: &Relevant| {
        evaluate(queries, items, relevant, Options::default(), &no_progress).map(|report| report.cut)
    };
    assert_eq!(
        run(queries, items, &Relevant::new([[0], [1]], 4).unwrap()),
        Err(Error::RelevantMismatch {
            queries: 2,
            items: 4,
            query_rows: 2,
            item_rows: 3
        })
    );
    let none = WithIds::new(Vectors::new(&[], 2).unwrap(), &[]).unwrap();
    assert_eq!(
        run(none, items, &Relevant::new([[0]; 0], 3).unwrap()),
        Err(Error::NoQueries)
    );
    let long = WithIds::new(Vectors::new(&[1.0; 6], 3).unwrap(), &[1, 2]).unwrap();
    assert_eq!(
        run(long, items, &case.relevant()),
        Err(hark_nearest::Error::DimensionMismatch { expected: 3, got: 2 }.into())
    );
    let vectors = Vectors::new(&[1.0; 4], 1).unwrap();
    assert_eq!(
        WithIds::new(vectors, &[1, 2, 3]),
        Err(hark_nearest::Error::KeysMismatch { expected: 4, got: 3 }.into())
    );
    assert_eq!(
        WithIds::new(vectors, &[5, 2, 3, 5]),
        Err(hark_nearest::Error::DuplicateKey { first: 0, second: 3 }.into())
    );
}

#[test]
fn bad_gains_are_named_with_the_first_query_that_has_them() {
    // Enough queries for several stripes and both threads.
    let case = Case::new(1200, 4, 2, vec![vec![0]; 1200]);
    let (queries, items) = case.sets();
    let run = |bad: fn(&mut Vec<(u32, f64)>)| {
        let gains = |query: usize, list: &mut Vec<(u32, f64)>| {
            list.push((1, 0.5));
            if query % 100 == 77 {
                bad(list);
            }
        };
        evaluate_graded(queries, items, &gains, options(10, 2), &no_progress).map(|report| report.mean)
    };
    let query = 77;
    assert_eq!(
        run(|list| list.push((4, 0.1))),
        Err(Error::NoSuchItem {
            query,
            item: 4,
            items: 4
        })
    );
    assert_eq!(
        run(|list| list.push((1, 0.1))),
        Err(Error::DuplicateRelevant { query, item: 1 })
    );
    assert_eq!(
        run(|list| list.push((3, 1.5))),
        Err(Error::BadGain {
            query,
            item: 3,
            gain: 1.5
        })
    );
    assert!(matches!(
        run(|list| list.push((3, f64::NAN))),
        Err(Error::BadGain { query: 77, item: 3, gain }) if gain.is_nan()
    ));
    assert_eq!(
        run(|list| *list = vec![(2, 0.0)]),
        Err(Error::NoRelevant { query })
    );
    assert_eq!(run(Vec::clear), Err(Error::NoRelevant { query }));
}

#[test]
fn progress_is_told_and_the_caller_can_stop() {
    let case = Case::new(1200, 4, 2, vec![vec![0]; 1200]);
    let (queries, items) = case.sets();
    let seen = Mutex::new(Vec::new());
    let progress = |done: u64, total: u64| {
        lock(&seen).push((done, total));
        ControlFlow::Continue(())
    };
    evaluate(queries, items, &case.relevant(), options(10, 2), &progress).unwrap();
    assert_eq!(*lock(&seen), [(1, 3), (2, 3), (3, 3)]);
    let stop = |_, _| ControlFlow::Break(());
    assert_eq!(
        evaluate(queries, items, &case.relevant(), options(10, 1), &stop),
        Err(hark_nearest::Error::Cancelled { done: 1, total: 3 }.into())
    );
}

/// Queries evaluated one by one, each against the same items, are one evaluation.
#[test]
fn reports_are_joined_query_by_query() {
    let relevant: Vec<Vec<u32>> = (0..30).map(|query| (0..=query % 4).collect()).collect();
    let case = Case::new(30, 25, 6, relevant.clone());
    let (queries, items) = case.sets();
    let whole = evaluate(queries, items, &case.relevant(), options(10, 1), &no_progress).unwrap();
    let dim = queries.vectors().dim();
    let alone = |query: usize| {
        let row = Vectors::new(&queries.vectors().as_slice()[query * dim..][..dim], dim).unwrap();
        let key = &queries.keys()[query..=query];
        let relevant = Relevant::new([relevant[query].clone()], 25).unwrap();
        evaluate(
            WithIds::new(row, key).unwrap(),
            items,
            &relevant,
            options(10, 1),
            &no_progress,
        )
        .unwrap()
    };
    let joined = Report::joined((0..30).map(alone)).unwrap();
    assert_eq!(
        (&joined.queries, joined.mean, joined.median_rank),
        (&whole.queries, whole.mean, whole.median_rank)
    );
    assert!((joined.chance.average_precision - whole.chance.average_precision).abs() < 1e-12);
    assert!((joined.chance.recall[2] - whole.chance.recall[2]).abs() < 1e-12);
    assert_eq!(Report::joined([]), Err(Error::NoQueries));
    let other = Report {
        cut: 16,
        ..whole.clone()
    };
    assert_eq!(
        Report::joined([whole, other]),
        Err(Error::CutsMismatch {
            first: 10,
            second: 16
        })
    );
    let graded = |cut, queries: Vec<f64>, chance| GradedReport {
        cut,
        mean: mean(queries.iter().copied()),
        queries,
        chance,
    };
    let both = GradedReport::joined([graded(10, vec![1.0], 0.5), graded(10, vec![0.0, 0.5], 0.2)]).unwrap();
    assert_eq!((both.mean, both.queries), (0.5, vec![1.0, 0.0, 0.5]));
    assert!((both.chance - 0.3).abs() < 1e-12);
}
