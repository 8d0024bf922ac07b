//! Every pass against the plain loop over all pairs, for many shapes, block sizes and numbers of threads.
//!
//! The vectors hold small whole numbers: every inner product is exact in `f32`, ties are frequent, and
//! results must be equal, not close.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Mutex;

use proptest::prelude::*;

use super::*;
use crate::blocks::BLOCK_ROWS;
use hark_work::progress::no_progress;

/// A set of vectors with its answers by the plain loop.
struct Naive<'a> {
    vectors: Vectors<'a>,
    groups: Option<&'a [u32]>,
}

impl Naive<'_> {
    fn score(&self, a: usize, b: usize) -> f32 {
        let products = self
            .vectors
            .row(a)
            .iter()
            .zip(self.vectors.row(b))
            .map(|(a, b)| a * b);
        // Adding zero turns -0.0 into 0.0: both are one score, and `total_cmp` below must not part them.
        products.sum::<f32>() + 0.0
    }

    fn comparable(&self, a: usize, b: usize) -> bool {
        a != b && self.groups.is_none_or(|groups| groups[a] != groups[b])
    }

    fn pairs(&self) -> Vec<Pair> {
        let rows = self.vectors.rows();
        (0..rows)
            .flat_map(|a| (a + 1..rows).map(move |b| (a, b)))
            .filter(|&(a, b)| self.comparable(a, b))
            .map(|(a, b)| Pair {
                first: a as u32,
                second: b as u32,
                score: self.score(a, b),
            })
            .collect()
    }

    fn neighbours(&self, row: usize, k: usize) -> Vec<(u32, f32)> {
        let mut others: Vec<_> = (0..self.vectors.rows())
            .filter(|&other| self.comparable(row, other))
            .map(|other| (other as u32, self.score(row, other)))
            .collect();
        others.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        others.truncate(k);
        others
    }
}

fn threads(count: usize) -> Option<NonZeroUsize> {
    NonZeroUsize::new(count)
}

fn check_all(data: &[f32], dim: usize, groups: Option<&[u32]>, k: usize, block_rows: usize, workers: usize) {
    let vectors = Vectors::new(data, dim).unwrap();
    let naive = Naive { vectors, groups };
    let options = Options {
        groups,
        threads: threads(workers),
    };
    let rows = vectors.rows();

    let found = nearest::in_blocks_of(block_rows, vectors, k, options, &no_progress).unwrap();
    assert_eq!((found.k(), found.rows()), (k, rows));
    for row in 0..rows {
        let (ids, scores) = found.row(row);
        let got: Vec<_> = ids.iter().copied().zip(scores.iter().copied()).collect();
        assert_eq!(got, naive.neighbours(row, k), "row {row} of {rows}");
    }

    let all = naive.pairs();
    let thresholds = [2.0, -3.0, 7.0];
    let counts = counts::in_blocks_of(block_rows, vectors, &thresholds, options, &no_progress).unwrap();
    for row in 0..rows {
        let expected = thresholds.map(|threshold| {
            let reached =
                |&other: &usize| naive.comparable(row, other) && naive.score(row, other) >= threshold;
            (0..rows).filter(reached).count() as u32
        });
        assert_eq!(counts.row(row), expected);
    }

    for limit in [0, 1, 5, usize::MAX] {
        let found = pairs::in_blocks_of(block_rows, vectors, 2.0, limit, options, &no_progress).unwrap();
        let mut expected: Vec<_> = all.iter().copied().filter(|pair| pair.score >= 2.0).collect();
        assert_eq!(found.total, expected.len() as u64);
        assert_eq!(found.total * 2, counts.ordered_pairs(0));
        expected.sort_by(|a, b| b.score.total_cmp(&a.score));
        expected.truncate(limit);
        assert_eq!(found.pairs, expected);
    }

    let found = score_range::in_blocks_of(block_rows, vectors, options, &no_progress).unwrap();
    let best = |better: fn(f32, f32) -> bool| {
        all.iter()
            .copied()
            .reduce(|a, b| if better(b.score, a.score) { b } else { a })
    };
    assert_eq!(found.map(|found| found.lowest), best(|a, b| a < b));
    assert_eq!(found.map(|found| found.highest), best(|a, b| a > b));
}

/// Small whole numbers, the same on every machine.
fn whole_numbers(len: usize) -> Vec<f32> {
    let mut state = 1_u32;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((state >> 24) % 7) as f32 - 3.0
        })
        .collect()
}

#[test]
fn equals_the_plain_loop_for_many_shapes() {
    for rows in [0, 1, 2, 3, 7, 8, 9, 23, 64] {
        for (dim, k, block_rows) in [(1, 1, 4), (3, 2, 1), (5, 20, 8), (3, 100, 7), (8, 3, 1000)] {
            let data = whole_numbers(rows * dim);
            let groups: Vec<u32> = (0..rows).map(|row| (row / 3) as u32 % 5).collect();
            check_all(&data, dim, None, k, block_rows, 1);
            check_all(&data, dim, Some(&groups), k, block_rows, 2);
        }
    }
}

#[test]
fn equals_the_plain_loop_with_the_real_blocks() {
    for rows in [BLOCK_ROWS, BLOCK_ROWS + 1, 2 * BLOCK_ROWS - 3] {
        let data = whole_numbers(rows * 5);
        let groups: Vec<u32> = (0..rows).map(|row| (row / 5) as u32).collect();
        check_all(&data, 5, Some(&groups), 17, BLOCK_ROWS, 2);
    }
}

#[test]
fn rows_that_are_all_equal_keep_the_order_of_their_ids() {
    let vectors = vec![1.0; 40 * 3];
    check_all(&vectors, 3, None, 2, 6, 2);
    let found = neighbours(
        Vectors::new(&vectors, 3).unwrap(),
        2,
        Options::default(),
        &no_progress,
    )
    .unwrap();
    assert_eq!(found.row(0).0, [1, 2]);
    assert_eq!(found.row(30).0, [0, 1]);
}

#[test]
fn one_group_leaves_nothing() {
    let data = whole_numbers(20);
    let vectors = Vectors::new(&data, 2).unwrap();
    let options = Options {
        groups: Some(&[4; 10]),
        threads: None,
    };
    let found = neighbours(vectors, 3, options, &no_progress).unwrap();
    assert!(
        found
            .iter()
            .all(|(ids, scores)| ids.is_empty() && scores.is_empty())
    );
    assert_eq!(found.starts(), [0; 11]);
    assert_eq!(score_range(vectors, options, &no_progress), Ok(None));
    assert_eq!(
        pairs_above(vectors, -100.0, 5, options, &no_progress)
            .unwrap()
            .total,
        0
    );
}

/// Fractions this time: the sums round, and the same rounding must come out wherever a row stands.
#[test]
fn equal_vectors_get_equal_scores_in_any_block_and_with_any_threads() {
    let (rows, dim) = (2 * BLOCK_ROWS + 300, 40);
    let mut data: Vec<f32> = (0..rows * dim).map(|i| ((i as f32) * 0.731).sin()).collect();
    let twin = BLOCK_ROWS + 77;
    data.copy_within(3 * dim..4 * dim, twin * dim);
    let vectors = Vectors::new(&data, dim).unwrap();
    let run = |count| {
        let options = Options {
            groups: None,
            threads: threads(count),
        };
        neighbours(vectors, rows, options, &no_progress).unwrap()
    };
    let one = run(1);
    for row in (0..rows).filter(|&row| row != 3 && row != twin) {
        let (ids, scores) = one.row(row);
        let place = |id: usize| ids.iter().position(|&other| other as usize == id).unwrap();
        assert_eq!(scores[place(3)].to_bits(), scores[place(twin)].to_bits());
        assert!(place(3) < place(twin));
    }
    let bits = |found: &Neighbours| {
        found
            .scores()
            .iter()
            .map(|score| score.to_bits())
            .collect::<Vec<_>>()
    };
    for count in [2, 3] {
        let other = run(count);
        assert_eq!(one.ids(), other.ids());
        assert_eq!(bits(&one), bits(&other));
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let data = whole_numbers(12);
    let vectors = Vectors::new(&data, 2).unwrap();
    let none = Options::default();
    let groups = Options {
        groups: Some(&[1, 2]),
        threads: None,
    };
    let mismatch = Error::GroupsMismatch { expected: 6, got: 2 };
    assert_eq!(neighbours(vectors, 0, none, &no_progress), Err(Error::ZeroK));
    assert_eq!(
        neighbours(vectors, 1, groups, &no_progress),
        Err(mismatch.clone())
    );
    assert_eq!(score_range(vectors, groups, &no_progress), Err(mismatch.clone()));
    assert_eq!(
        count_above(vectors, &[0.5], groups, &no_progress),
        Err(mismatch.clone())
    );
    assert_eq!(pairs_above(vectors, 0.5, 1, groups, &no_progress), Err(mismatch));
    assert_eq!(
        count_above(vectors, &[], none, &no_progress),
        Err(Error::NoThresholds)
    );
    let error = count_above(vectors, &[0.5, f32::NAN], none, &no_progress).unwrap_err();
    assert!(matches!(error, Error::BadThreshold { position: 1, value } if value.is_nan()));
    let error = pairs_above(vectors, f32::INFINITY, 1, none, &no_progress).unwrap_err();
    assert_eq!(
        error,
        Error::BadThreshold {
            position: 0,
            value: f32::INFINITY
        }
    );
    // A length beyond the number of rows is cut to it, however large.
    assert_eq!(
        neighbours(vectors, usize::MAX, none, &no_progress)
            .unwrap()
            .row(0)
            .0
            .len(),
        5
    );
}

#[test]
fn progress_grows_to_its_end() {
    let data = whole_numbers(50);
    let vectors = Vectors::new(&data, 2).unwrap();
    let seen = Mutex::new(Vec::new());
    let progress = |done: u64, total: u64| {
        seen.lock().unwrap().push((done, total));
        ControlFlow::Continue(())
    };
    let options = Options {
        groups: None,
        threads: threads(2),
    };
    nearest::in_blocks_of(5, vectors, 3, options, &progress).unwrap();
    let expected: Vec<_> = (1..=15).map(|done| (done, 15)).collect();
    assert_eq!(seen.into_inner().unwrap(), expected);
}

#[test]
fn a_pass_stops_when_told() {
    let data = whole_numbers(50);
    let vectors = Vectors::new(&data, 2).unwrap();
    let progress = |done: u64, _| {
        if done < 4 {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    };
    let options = Options {
        groups: None,
        threads: threads(1),
    };
    let error = nearest::in_blocks_of(5, vectors, 3, options, &progress).unwrap_err();
    assert_eq!(error, Error::Cancelled { done: 4, total: 15 });
}

proptest! {
    #[test]
    fn equals_the_plain_loop(
        (dim, data, groups) in (1_usize..6, 0_usize..40).prop_flat_map(|(dim, rows)| (
            Just(dim),
            prop::collection::vec((-3_i8..=3).prop_map(f32::from), rows * dim),
            prop::option::of(prop::collection::vec(0_u32..6, rows)),
        )),
        k in 1_usize..45,
        block_rows in 1_usize..20,
        workers in 1_usize..4,
    ) {
        check_all(&data, dim, groups.as_deref(), k, block_rows, workers);
    }
}
