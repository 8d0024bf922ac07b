//! How well two series agree: the correlations of Pearson and Spearman, and both for ratings.
//!
//! In: two series of the same length, at least two values. Refused: NaN and infinities, and a series that
//! never changes, as its correlation is not defined.

use serde::Serialize;

use crate::ratings::Observation;
use crate::{Error, RelevanceFunction};

/// How well similarity and relevance agree with human ratings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Agreement {
    /// Ratings compared.
    pub observations: usize,
    /// Of similarity h and rating.
    pub spearman_similarity: f64,
    /// Of similarity h and rating.
    pub pearson_similarity: f64,
    /// Of relevance g = f(h) and rating.
    pub spearman_relevance: f64,
    /// Of relevance g = f(h) and rating.
    pub pearson_relevance: f64,
}

impl Agreement {
    /// Correlates ratings with similarities, and with what `function` makes of them.
    ///
    /// # Errors
    ///
    /// Those of [`pearson`], and of [`RelevanceFunction::apply`]. [`Error::NeedsClips`] for `binary`, which is no
    /// function of similarity.
    pub fn of(observations: &[Observation], function: &RelevanceFunction) -> Result<Self, Error> {
        if *function == RelevanceFunction::Binary {
            return Err(Error::NeedsClips);
        }
        let rating: Vec<f64> = observations.iter().map(|o| o.rating).collect();
        let h: Vec<f64> = observations.iter().map(|o| o.similarity).collect();
        let g = h
            .iter()
            .map(|&h| function.apply(h, false))
            .collect::<Result<Vec<f64>, _>>()?;
        Ok(Self {
            observations: observations.len(),
            spearman_similarity: spearman(&h, &rating)?,
            pearson_similarity: pearson(&h, &rating)?,
            spearman_relevance: spearman(&g, &rating)?,
            pearson_relevance: pearson(&g, &rating)?,
        })
    }
}

/// Pearson's correlation: how well a straight line relates two series, in [-1, 1].
///
/// ```
/// let r = hark_relevance::agreement::pearson(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0])?;
/// assert!((r - 1.0).abs() < 1e-12);
/// # Ok::<(), hark_relevance::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::LengthMismatch`], [`Error::TooFew`], [`Error::NotFinite`], [`Error::Constant`].
pub fn pearson(a: &[f64], b: &[f64]) -> Result<f64, Error> {
    check(a, b)?;
    correlation(a, b)
}

/// Spearman's correlation: Pearson's on ranks, equal values sharing the mean of their ranks.
///
/// ```
/// let r = hark_relevance::agreement::spearman(&[1.0, 2.0, 3.0], &[1.0, 10.0, 10.0])?;
/// assert!((r - 0.75_f64.sqrt()).abs() < 1e-12);
/// # Ok::<(), hark_relevance::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::LengthMismatch`], [`Error::TooFew`], [`Error::NotFinite`], [`Error::Constant`].
pub fn spearman(a: &[f64], b: &[f64]) -> Result<f64, Error> {
    check(a, b)?;
    correlation(&ranks(a), &ranks(b))
}

const NAMES: [&str; 2] = ["value of the first series", "value of the second series"];

#[expect(clippy::float_cmp, reason = "constant means equal")]
fn check(a: &[f64], b: &[f64]) -> Result<(), Error> {
    if a.len() != b.len() {
        return Err(Error::LengthMismatch {
            what: "values",
            expected: a.len(),
            got: b.len(),
        });
    }
    if a.len() < 2 {
        return Err(Error::TooFew {
            needed: 2,
            got: a.len(),
        });
    }
    for (what, series) in NAMES.into_iter().zip([a, b]) {
        if let Some(position) = series.iter().position(|value| !value.is_finite()) {
            return Err(Error::NotFinite {
                what,
                position,
                value: series[position],
            });
        }
        if series.iter().all(|&value| value == series[0]) {
            return Err(Error::Constant {
                what,
                value: series[0],
            });
        }
    }
    Ok(())
}

fn correlation(a: &[f64], b: &[f64]) -> Result<f64, Error> {
    // What differs in so few bits that its differences vanish is constant too.
    let constant = |series: usize, value| Error::Constant {
        what: NAMES[series],
        value,
    };
    let a = centred(a).ok_or_else(|| constant(0, a[0]))?;
    let b = centred(b).ok_or_else(|| constant(1, b[0]))?;
    let sum: f64 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
    Ok(sum.clamp(-1.0, 1.0))
}

/// A series moved to mean 0 and scaled to length 1; `None` when it never changes.
fn centred(series: &[f64]) -> Option<Vec<f64>> {
    // Differences to the first value keep the digits of a series far from 0. Halves of finite numbers have a
    // finite difference.
    let mut deviations: Vec<f64> = series.iter().map(|value| value / 2.0 - series[0] / 2.0).collect();
    // Dividing by the largest keeps sums and squares from overflowing or vanishing.
    rescale(&mut deviations)?;
    let mean = deviations.iter().sum::<f64>() / deviations.len() as f64;
    for value in &mut deviations {
        *value -= mean;
    }
    rescale(&mut deviations)?;
    let length = deviations.iter().map(|value| value * value).sum::<f64>().sqrt();
    for value in &mut deviations {
        *value /= length;
    }
    Some(deviations)
}

/// Divides by the largest absolute value; `None` when all are 0.
fn rescale(values: &mut [f64]) -> Option<()> {
    let largest = values
        .iter()
        .fold(0.0_f64, |largest, value| largest.max(value.abs()));
    for value in values {
        *value /= largest;
    }
    (largest > 0.0).then_some(())
}

/// Ranks from 1; equal values share the mean of the ranks that they take up.
#[expect(clippy::float_cmp, reason = "a tie is equality")]
fn ranks(series: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..series.len()).collect();
    order.sort_by(|&a, &b| series[a].total_cmp(&series[b]));
    let mut ranks = vec![0.0; series.len()];
    let mut first = 0;
    // Values are compared, not bits: zeros of either sign are equal and stand together in the order.
    for equal in order.chunk_by(|&a, &b| series[a] == series[b]) {
        let rank = first as f64 + f64::midpoint(equal.len() as f64, 1.0);
        for &position in equal {
            ranks[position] = rank;
        }
        first += equal.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_the_mean_of_their_ranks() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0, 3.0]), [4.0, 1.0, 4.0, 2.0, 4.0]);
        assert_eq!(ranks(&[0.0, -0.0, -1.0]), [2.5, 2.5, 1.0]);
    }

    #[test]
    fn scale_does_not_matter() {
        let (a, b) = ([1.0, 2.0, 4.0, 3.0], [1.0, 3.0, 2.0, 5.0]);
        let expected = pearson(&a, &b).unwrap();
        for scale in [1e-200, 1e200, 3e307, -3e307] {
            let scaled = b.map(|value| value * scale);
            let got = pearson(&a, &scaled).unwrap() * f64::signum(scale);
            assert!((got - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn a_function_that_keeps_the_order_keeps_spearman() {
        let observations: Vec<Observation> = [(0.1, 0.0), (0.4, 0.3), (0.5, 0.2), (0.9, 1.0)]
            .into_iter()
            .map(|(similarity, rating)| Observation { similarity, rating })
            .collect();
        let agreement = Agreement::of(&observations, &RelevanceFunction::logistic()).unwrap();
        assert_eq!(agreement.observations, 4);
        assert_eq!(agreement.spearman_similarity, agreement.spearman_relevance);
        assert!((agreement.spearman_similarity - 0.8).abs() < 1e-12);
        assert_ne!(agreement.pearson_similarity, agreement.pearson_relevance);
        assert_eq!(
            Agreement::of(&observations, &RelevanceFunction::Binary),
            Err(Error::NeedsClips)
        );
    }

    #[test]
    fn series_without_a_correlation_are_refused() {
        for correlation in [pearson, spearman] {
            assert_eq!(correlation(&[], &[]), Err(Error::TooFew { needed: 2, got: 0 }));
            assert_eq!(
                correlation(&[1.0], &[2.0]),
                Err(Error::TooFew { needed: 2, got: 1 })
            );
            assert!(matches!(
                correlation(&[1.0, 2.0], &[2.0]),
                Err(Error::LengthMismatch { .. })
            ));
            assert!(matches!(
                correlation(&[1.0, 2.0], &[2.0, 2.0]),
                Err(Error::Constant { value: 2.0, .. })
            ));
            let nan = correlation(&[1.0, f64::NAN], &[2.0, 3.0]);
            assert!(matches!(nan, Err(Error::NotFinite { position: 1, .. })));
        }
    }
}
