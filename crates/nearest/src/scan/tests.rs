use proptest::prelude::*;

use super::*;

/// Rows whose numbers are small multiples of 1/8, so that products are exact in 32 bits and many scores are equal.
fn coarse(len: usize, seed: usize) -> Vec<f32> {
    (0..len)
        .map(|i| ((i * 7919 + seed * 104_729 + i * i % 31) % 17) as f32 / 8.0 - 1.0)
        .collect()
}

fn halves(numbers: &[f32]) -> Vec<f16> {
    numbers.iter().map(|&number| f16::from_f32(number)).collect()
}

/// Every product by the formula, all sorted.
fn naive(
    rows: &[f16],
    dim: usize,
    query: &[f32],
    k: usize,
    allow: impl Fn(usize) -> bool,
) -> Vec<(usize, f32)> {
    let mut all: Vec<(usize, f32)> = rows
        .chunks_exact(dim)
        .enumerate()
        .filter(|(row, _)| allow(*row))
        .map(|(row, numbers)| {
            let product = numbers.iter().zip(query).map(|(a, b)| a.to_f32() * b).sum();
            (row, product)
        })
        .collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    all.truncate(k);
    all
}

#[test]
fn equals_sorting_all_products() {
    for (n, dim) in [(1, 1), (3, 2), (100, 5), (700, 16), (257, 33), (2100, 1024)] {
        let rows = halves(&coarse(n * dim, 1));
        let query = coarse(dim, 2);
        for k in [1, 2, 10, 99, n, 5 * n] {
            for threads in [0, 1, 2, 5] {
                let found = nearest(&rows, dim, &query, k, threads, None).unwrap();
                assert_eq!(
                    found,
                    naive(&rows, dim, &query, k, |_| true),
                    "{n} x {dim}, k {k}, {threads} threads"
                );
                for allow in [|row: usize| row.is_multiple_of(3), |row| row % 7 != 0, |_| false] {
                    let found = nearest(&rows, dim, &query, k, threads, Some(&allow)).unwrap();
                    assert_eq!(
                        found,
                        naive(&rows, dim, &query, k, allow),
                        "{n} x {dim}, k {k}, some"
                    );
                }
            }
        }
    }
}

#[test]
fn no_rows_give_nothing() {
    assert_eq!(nearest(&[], 3, &[1.0, 2.0, 3.0], 5, 2, None).unwrap(), []);
    let none = Vectors::new(&[], 3).unwrap();
    assert!(
        nearest_many(&halves(&[1.0; 6]), 3, none, 5, 2, None)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn bad_input_is_refused() {
    let rows = halves(&[1.0; 6]);
    assert_eq!(nearest(&rows, 0, &[], 1, 1, None), Err(Error::ZeroDimension));
    assert_eq!(
        nearest(&rows, 4, &[1.0; 4], 1, 1, None),
        Err(Error::RaggedRows { len: 6, dim: 4 })
    );
    assert_eq!(
        nearest(&rows, 3, &[1.0; 2], 1, 1, None),
        Err(Error::DimensionMismatch { expected: 3, got: 2 })
    );
    assert_eq!(nearest(&rows, 3, &[1.0; 3], 0, 1, None), Err(Error::ZeroK));
    assert!(matches!(
        nearest(&rows, 3, &[1.0, f32::NAN, 0.0], 1, 1, None),
        Err(Error::QueryNotFinite { position: 1, .. })
    ));
    for special in [f16::NAN, f16::INFINITY, f16::NEG_INFINITY] {
        let mut rows = halves(&coarse(5000 * 20, 1));
        rows[4000 * 20 + 7] = special;
        for threads in [1, 3] {
            let fault = nearest(&rows, 20, &[1.0; 20], 3, threads, None).unwrap_err();
            assert!(
                matches!(
                    fault,
                    Error::NotFinite {
                        row: 4000,
                        column: 7,
                        ..
                    }
                ),
                "{fault}"
            );
        }
        // A row that is not looked at may hold anything.
        assert!(nearest(&rows, 20, &[1.0; 20], 3, 2, Some(&|row| row != 4000)).is_ok());
    }
}

#[test]
fn dot_takes_the_shorter_length() {
    assert_eq!(dot(&[], &[1.0]), 0.0);
    assert_eq!(dot(&halves(&[2.0, 3.0]), &[0.5]), 1.0);
    assert_eq!(dot(&halves(&[2.0; 33]), &[0.5; 40]), 33.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Alone, together, on any number of threads and by `dot`: the same bits.
    #[test]
    fn all_forms_agree(
        dim in 1_usize..70,
        n in 0_usize..300,
        m in 1_usize..9,
        k in 1_usize..20,
        threads in 1_usize..4,
        seed in 0_u32..1000,
    ) {
        let number = |i: usize| ((i as f32 + seed as f32) * 12.9898).sin();
        let rows = halves(&(0..n * dim).map(number).collect::<Vec<_>>());
        let queries: Vec<f32> = (0..m * dim).map(|i| number(i + 77)).collect();
        let queries = Vectors::new(&queries, dim).unwrap();
        let together = nearest_many(&rows, dim, queries, k, threads, None).unwrap();
        for (query, together) in queries.iter().zip(together) {
            prop_assert_eq!(&nearest(&rows, dim, query, k, 1, None).unwrap(), &together);
            for (row, score) in together {
                prop_assert_eq!(dot(&rows[row * dim..(row + 1) * dim], query).to_bits(), score.to_bits());
            }
        }
    }
}
