//! Similarity h of captions: the cosine of their vectors.
//!
//! In: unit vectors, `[captions, dim]`. Out: numbers in [-1, 1]. Vectors whose norm is not 1 within
//! [`UNIT_TOLERANCE`] are refused, as their inner products would not be cosines. Rounding can push a cosine
//! past 1 by a few units in the last place; every similarity is clamped.

use std::collections::HashMap;
use std::num::NonZeroUsize;

use hark_nearest::{Vectors, exact};
use hark_work::progress::Progress;

use crate::Error;

/// How far a norm may be from 1. Wide enough for vectors that were stored with 16 bits, narrow enough to
/// refuse vectors that were never normalised.
pub const UNIT_TOLERANCE: f64 = 2e-3;

/// Inner product of two vectors, summed in 64 bits.
///
/// # Errors
///
/// [`Error::LengthMismatch`].
pub fn dot(a: &[f32], b: &[f32]) -> Result<f64, Error> {
    if a.len() != b.len() {
        return Err(Error::LengthMismatch {
            what: "numbers in a vector",
            expected: a.len(),
            got: b.len(),
        });
    }
    Ok(a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum())
}

/// Cosine of two vectors of any length.
///
/// ```
/// let h = hark_relevance::similarity::cosine(&[3.0, 0.0], &[1.0, 1.0])?;
/// assert!((h - 0.5_f64.sqrt()).abs() < 1e-12);
/// # Ok::<(), hark_relevance::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::LengthMismatch`], [`Error::ZeroVector`], and [`Error::NotFinite`] when a vector holds NaN or an
/// infinity.
pub fn cosine(a: &[f32], b: &[f32]) -> Result<f64, Error> {
    for vector in [a, b] {
        if let Some(position) = vector.iter().position(|value| !value.is_finite()) {
            let value = f64::from(vector[position]);
            return Err(Error::NotFinite {
                what: "number",
                position,
                value,
            });
        }
    }
    let product = dot(a, b)?;
    // Squares of finite f32 numbers do not overflow an f64.
    let norms = dot(a, a)?.sqrt() * dot(b, b)?.sqrt();
    if norms == 0.0 {
        return Err(Error::ZeroVector);
    }
    Ok((product / norms).clamp(-1.0, 1.0))
}

/// Similarity of one unit vector to each of a set, `[captions]`.
///
/// # Errors
///
/// [`Error::Nearest`] when the dimensions differ or a vector is not a unit vector.
pub fn row(query: &[f32], vectors: Vectors<'_>) -> Result<Vec<f32>, Error> {
    let query = Vectors::unit(query, vectors.dim(), UNIT_TOLERANCE)?;
    if query.rows() != 1 {
        return Err(Error::LengthMismatch {
            what: "queries",
            expected: 1,
            got: query.rows(),
        });
    }
    vectors.check_unit(UNIT_TOLERANCE)?;
    let mut similarities = exact::products(query, vectors)?;
    clamp(&mut similarities);
    Ok(similarities)
}

/// Similarity of every pair, `[captions, captions]`: symmetric, with ones on the diagonal. For sets small
/// enough to hold the table, such as a training batch.
///
/// ```
/// use hark_relevance::{Vectors, similarity};
///
/// let captions = Vectors::new(&[1.0, 0.0, 0.6, 0.8], 2)?;
/// assert_eq!(similarity::matrix(captions)?, [1.0, 0.6, 0.6, 1.0]);
/// # Ok::<(), hark_relevance::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Nearest`] when a vector is not a unit vector, or the table does not fit in memory.
pub fn matrix(vectors: Vectors<'_>) -> Result<Vec<f32>, Error> {
    vectors.check_unit(UNIT_TOLERANCE)?;
    let mut similarities = exact::products(vectors, vectors)?;
    clamp(&mut similarities);
    let size = vectors.rows();
    for i in 0..size {
        similarities[i * size + i] = 1.0;
        // The two halves may differ in the last bit on some processors; a symmetric table must not.
        for j in 0..i {
            similarities[i * size + j] = similarities[j * size + i];
        }
    }
    Ok(similarities)
}

fn clamp(similarities: &mut [f32]) {
    for similarity in similarities {
        *similarity = similarity.clamp(-1.0, 1.0);
    }
}

/// A number for each text, the same for equal texts: numbered from 0 in order of first appearance.
///
/// ```
/// assert_eq!(hark_relevance::similarity::same_text(&["rain", "wind", "rain"]), [0, 1, 0]);
/// ```
///
/// # Panics
///
/// With more than 2^32 different texts.
pub fn same_text<T: AsRef<str>>(texts: &[T]) -> Vec<u32> {
    let mut numbers = HashMap::new();
    texts
        .iter()
        .map(|text| {
            let next = u32::try_from(numbers.len()).expect("fewer than 2^32 texts");
            *numbers.entry(text.as_ref()).or_insert(next)
        })
        .collect()
}

/// The smallest and the largest similarity between different captions, and where they are.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct SimilarityRange {
    /// The smallest similarity.
    pub lo: f32,
    /// The largest similarity.
    pub hi: f32,
    /// The least similar pair.
    pub lowest: (u32, u32),
    /// The most similar pair of different captions.
    pub highest: (u32, u32),
}

/// The range of similarities between different captions: the default `lo` and `hi` of `minmax`.
///
/// `texts` says which captions are the same, one number for each (see [`same_text`]): a text that occurs
/// twice is one caption, and its similarity of 1 with itself does not count. All pairs are compared in
/// blocks; the full table is never held. `threads` of `None` uses the caller's rayon pool.
///
/// ```
/// use hark_relevance::{Vectors, similarity, no_progress};
///
/// let captions = Vectors::new(&[1.0, 0.0, 0.6, 0.8, 0.0, 1.0, 1.0, 0.0], 2)?;
/// let texts = similarity::same_text(&["rain", "wind", "birds", "rain"]);
/// let range = similarity::similarity_range(captions, &texts, None, &no_progress)?;
/// assert_eq!((range.lo, range.hi), (0.0, 0.8));
/// assert_eq!(range.highest, (1, 2));
/// # Ok::<(), hark_relevance::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::NoDifferentCaptions`], [`Error::Nearest`] for vectors that are not unit vectors, for a wrong number
/// of `texts`, and
/// [`Error::Cancelled`].
pub fn similarity_range(
    vectors: Vectors<'_>,
    texts: &[u32],
    threads: Option<NonZeroUsize>,
    progress: Progress<'_>,
) -> Result<SimilarityRange, Error> {
    vectors.check_unit(UNIT_TOLERANCE)?;
    let options = exact::Options {
        groups: Some(texts),
        threads,
    };
    let found = exact::score_range(vectors, options, progress)?.ok_or(Error::NoDifferentCaptions {
        captions: vectors.rows(),
    })?;
    Ok(SimilarityRange {
        lo: found.lowest.score.clamp(-1.0, 1.0),
        hi: found.highest.score.clamp(-1.0, 1.0),
        lowest: (found.lowest.first, found.lowest.second),
        highest: (found.highest.first, found.highest.second),
    })
}

#[cfg(test)]
mod tests {
    use hark_work::progress::no_progress;

    use super::*;

    #[test]
    fn cosine_of_any_length() {
        assert_eq!(cosine(&[2.0, 0.0], &[0.0, 3.0]), Ok(0.0));
        assert_eq!(cosine(&[f32::MAX, f32::MAX], &[-f32::MAX, -f32::MAX]), Ok(-1.0));
        assert_eq!(cosine(&[0.0, 0.0], &[1.0, 0.0]), Err(Error::ZeroVector));
        assert!(matches!(
            cosine(&[1.0], &[1.0, 0.0]),
            Err(Error::LengthMismatch { .. })
        ));
        let nan = cosine(&[1.0, f32::NAN], &[1.0, 0.0]);
        assert!(matches!(nan, Err(Error::NotFinite { position: 1, .. })));
    }

    /// Unit vectors of 32-bit numbers, some of them the same.
    fn unit_vectors(rows: usize, dim: usize) -> Vec<f32> {
        let mut data = Vec::new();
        for row in 0..rows {
            let raw: Vec<f32> = (0..dim)
                .map(|i| ((row % 7 * dim + i) as f32 * 0.37).sin())
                .collect();
            let norm = dot(&raw, &raw).unwrap().sqrt() as f32;
            data.extend(raw.iter().map(|value| value / norm));
        }
        data
    }

    #[test]
    fn the_table_is_symmetric_with_ones() {
        let (rows, dim) = (37, 19);
        let data = unit_vectors(rows, dim);
        let vectors = Vectors::new(&data, dim).unwrap();
        let table = matrix(vectors).unwrap();
        for i in 0..rows {
            assert_eq!(table[i * rows + i], 1.0);
            let by_row = row(vectors.row(i), vectors).unwrap();
            for j in 0..rows {
                assert_eq!(table[i * rows + j], table[j * rows + i]);
                assert!(table[i * rows + j].abs() <= 1.0);
                let expected = cosine(vectors.row(i), vectors.row(j)).unwrap();
                assert!((f64::from(table[i * rows + j]) - expected).abs() < 1e-6);
                assert!((f64::from(by_row[j]) - expected).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn vectors_that_are_not_unit_vectors_are_refused() {
        let data = [0.6, 0.8, 3.0, 4.0];
        let vectors = Vectors::new(&data, 2).unwrap();
        let not_unit = Error::Nearest(hark_nearest::Error::NotUnit { row: 1, norm: 5.0 });
        assert_eq!(matrix(vectors), Err(not_unit.clone()));
        assert_eq!(row(&[1.0, 0.0], vectors), Err(not_unit.clone()));
        assert_eq!(
            similarity_range(vectors, &[0, 1], None, &no_progress),
            Err(not_unit)
        );
        let unit = Vectors::new(&data[..2], 2).unwrap();
        assert!(matches!(
            row(&[1.0, 0.0, 0.0, 1.0], unit),
            Err(Error::LengthMismatch { .. })
        ));
        assert!(matches!(row(&[1.0, 0.0, 0.0], unit), Err(Error::Nearest(_))));
    }

    #[test]
    fn a_text_that_occurs_twice_does_not_set_the_range() {
        let data = unit_vectors(30, 5);
        let vectors = Vectors::new(&data, 5).unwrap();
        let texts: Vec<String> = (0..30).map(|row| format!("caption {}", row % 7)).collect();
        let range = similarity_range(vectors, &same_text(&texts), None, &no_progress).unwrap();
        assert!(range.hi < 0.999_99, "{range:?}");
        let table = matrix(vectors).unwrap();
        let different = (0..900)
            .filter(|place| place / 30 % 7 != place % 30 % 7)
            .map(|place| table[place]);
        let (lo, hi) = different.fold((1.0_f32, -1.0_f32), |(lo, hi), h| (lo.min(h), hi.max(h)));
        assert!((range.lo - lo).abs() < 1e-6 && (range.hi - hi).abs() < 1e-6);
        let (a, b) = range.highest;
        assert!((table[a as usize * 30 + b as usize] - hi).abs() < 1e-6);

        let same = similarity_range(vectors, &[0; 30], None, &no_progress);
        assert_eq!(same, Err(Error::NoDifferentCaptions { captions: 30 }));
    }
}
