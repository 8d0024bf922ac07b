//! The rows nearest to one query, for sets that are held in memory.

use std::cmp::Ordering;

use crate::{Error, Vectors};

/// A row and its inner product with the query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scored {
    /// The row's place in the set, from 0.
    pub row: usize,
    /// On unit vectors the cosine.
    pub score: f32,
}

/// The `k` rows with the highest inner products, highest first; of equal scores the lower row first. Fewer where the
/// set is smaller. Products are summed in 64 bits on the calling thread.
///
/// ```
/// use hark_nearest::{Vectors, top_k};
///
/// let clips = Vectors::new(&[1.0, 0.0, 0.6, 0.8, 0.0, -1.0], 2)?;
/// let rows: Vec<usize> = top_k(&[0.0, 1.0], clips, 2)?.iter().map(|hit| hit.row).collect();
/// assert_eq!(rows, [1, 0]);
/// # Ok::<(), hark_nearest::Error>(())
/// ```
///
/// # Errors
/// [`Error::ZeroK`], [`Error::DimensionMismatch`], [`Error::QueryNotFinite`].
pub fn top_k(query: &[f32], vectors: Vectors<'_>, k: usize) -> Result<Vec<Scored>, Error> {
    if k == 0 {
        return Err(Error::ZeroK);
    }
    if query.len() != vectors.dim() {
        return Err(Error::DimensionMismatch {
            expected: vectors.dim(),
            got: query.len(),
        });
    }
    if let Some(position) = query.iter().position(|value| !value.is_finite()) {
        return Err(Error::QueryNotFinite {
            position,
            value: query[position],
        });
    }
    let mut scored: Vec<Scored> = vectors
        .iter()
        .enumerate()
        .map(|(row, values)| {
            let products = values
                .iter()
                .zip(query)
                .map(|(&a, &b)| f64::from(a) * f64::from(b));
            // Without the sign of zero, which would part scores that are equal.
            let score = products.sum::<f64>() as f32 + 0.0;
            Scored { row, score }
        })
        .collect();
    if k < scored.len() {
        scored.select_nth_unstable_by(k - 1, order);
        scored.truncate(k);
    }
    scored.sort_unstable_by(order);
    Ok(scored)
}

fn order(a: &Scored, b: &Scored) -> Ordering {
    b.score.total_cmp(&a.score).then(a.row.cmp(&b.row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every row scored, all of them sorted.
    fn naive(query: &[f32], rows: &[f32], k: usize) -> Vec<(usize, f32)> {
        let mut all: Vec<(usize, f32)> = rows
            .chunks(query.len())
            .map(|row| row.iter().zip(query).fold(0.0, |sum, (a, b)| sum + a * b))
            .enumerate()
            .collect();
        // Stable: of equal scores the lower row stays first.
        all.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap());
        all.truncate(k);
        all
    }

    proptest! {
        /// Small whole numbers: sums are exact in any order, and there are many ties.
        #[test]
        fn it_is_the_sorted_list_cut_off(
            rows in proptest::collection::vec(-3_i8..=3, 0..60),
            query in proptest::collection::vec(-3_i8..=3, 3),
            k in 1_usize..25,
        ) {
            let rows: Vec<f32> = rows[..rows.len() / 3 * 3].iter().map(|&x| f32::from(x)).collect();
            let query: Vec<f32> = query.iter().map(|&x| f32::from(x)).collect();
            let found = top_k(&query, Vectors::new(&rows, 3).unwrap(), k).unwrap();
            let found: Vec<(usize, f32)> = found.iter().map(|hit| (hit.row, hit.score)).collect();
            prop_assert_eq!(found, naive(&query, &rows, k));
        }
    }

    #[test]
    fn impossible_questions_are_refused() {
        let vectors = Vectors::new(&[1.0, 0.0], 2).unwrap();
        assert_eq!(top_k(&[1.0, 0.0], vectors, 0), Err(Error::ZeroK));
        assert_eq!(
            top_k(&[1.0], vectors, 1),
            Err(Error::DimensionMismatch { expected: 2, got: 1 })
        );
        assert!(matches!(
            top_k(&[1.0, f32::NAN], vectors, 1),
            Err(Error::QueryNotFinite { position: 1, .. })
        ));
    }
}
