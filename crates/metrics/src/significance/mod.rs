//! Whether two methods differ over the same queries.
//!
//! In: one number for each query and method, such as AP@10, and where queries are not independent (five captions
//! of one clip) the cluster that each belongs to. Out: [`paired_t_test`] and [`clustered_t_test`] give the mean
//! difference with its 95 % interval, t, the two-sided p and the effect size; [`permutation_test`] a two-sided p
//! without an assumption on the distribution; [`holm()`] corrects several p. Refused: series of different
//! lengths, fewer than two values or clusters, values that are not finite, and p outside [0, 1].
//!
//! With differences d of mean m and sample deviation s over n pairs, t = m / (s / sqrt(n)) has n - 1 degrees
//! of freedom. p is the regularised incomplete beta function I_x(v/2, 1/2) at x = v / (v + t^2), computed as
//! such: as 1 minus a cumulative distribution it would be lost in rounding below 1e-16. The relative error of
//! p is below 1e-10 up to fifty thousand pairs and near 1e-9 with a million: what is lost is the last bits of
//! logarithms of gamma functions that nearly cancel.

mod clustered;
mod holm;
mod permutation;

pub use clustered::clustered_t_test;
pub use holm::holm;
pub use permutation::{PermutationTest, permutation_test};
use statrs::function::beta::checked_beta_reg;

use crate::Error;

/// The result of [`paired_t_test`] and [`clustered_t_test`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedTest {
    /// Number of pairs.
    pub n: usize,
    /// Mean of first minus second.
    pub mean_difference: f64,
    /// Standard error of the mean difference.
    pub standard_error: f64,
    /// Mean difference in standard errors.
    pub t: f64,
    /// n - 1; with clusters, one less than their number.
    pub degrees_of_freedom: usize,
    /// Two-sided.
    pub p: f64,
    /// 95 % confidence interval of the mean difference.
    pub interval_95: (f64, f64),
    /// Cohen's d_z: mean difference in sample deviations of the differences.
    pub effect_size: f64,
}

/// Tests whether the mean of `a - b` over paired values is zero, two-sided.
///
/// Where all differences are zero, t, p and the effect size are 0, 1 and 0: there is no evidence of a
/// difference. (scipy's `ttest_rel` gives NaN.) Where all are the same but not zero, the standard error is 0,
/// t and the effect size are infinite and p is 0, as in scipy.
///
/// ```
/// let test = hark_metrics::significance::paired_t_test(&[0.5, 1.0, 0.75, 1.0], &[0.25, 0.5, 1.0, 0.5])?;
/// assert_eq!((test.mean_difference, test.degrees_of_freedom), (0.25, 3));
/// assert!((test.t - 2_f64.sqrt()).abs() < 1e-12);
/// # Ok::<(), hark_metrics::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::PairsMismatch`], [`Error::TooFewValues`], and [`Error::PairNotFinite`] for the first pair with NaN,
/// an infinity or a difference beyond the range of `f64`.
pub fn paired_t_test(a: &[f64], b: &[f64]) -> Result<PairedTest, Error> {
    let differences = differences(a, b)?;
    let (mean, deviation) = mean_and_deviation(&differences)?;
    let n = differences.len();
    let root = (n as f64).sqrt();
    let freedom = n - 1;
    Ok(student(n, mean, deviation, deviation / root, freedom))
}

/// What follows from a mean with its standard error.
fn student(n: usize, mean: f64, deviation: f64, standard_error: f64, freedom: usize) -> PairedTest {
    // A mean of 0 is no evidence, even where nothing varies. A mean without error is certain.
    let ratio = |error: f64| if mean == 0.0 { 0.0 } else { mean / error };
    let t = ratio(standard_error);
    let margin = critical_95(freedom as f64) * standard_error;
    PairedTest {
        n,
        mean_difference: mean,
        standard_error,
        t,
        degrees_of_freedom: freedom,
        p: two_sided(t, freedom as f64),
        interval_95: (mean - margin, mean + margin),
        effect_size: ratio(deviation),
    }
}

/// First minus second, pair by pair.
fn differences(a: &[f64], b: &[f64]) -> Result<Vec<f64>, Error> {
    if a.len() != b.len() {
        return Err(Error::PairsMismatch {
            first: a.len(),
            second: b.len(),
        });
    }
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    match differences.iter().position(|value| !value.is_finite()) {
        Some(position) => Err(Error::PairNotFinite {
            position,
            first: a[position],
            second: b[position],
        }),
        None => Ok(differences),
    }
}

/// The sum of the values of each cluster, in the order of cluster numbers. There must be at least 2 clusters.
fn cluster_sums(values: impl ExactSizeIterator<Item = f64>, clusters: &[u32]) -> Result<Vec<f64>, Error> {
    if clusters.len() != values.len() {
        return Err(Error::ClustersMismatch {
            expected: values.len(),
            got: clusters.len(),
        });
    }
    let mut sorted: Vec<_> = clusters.iter().copied().zip(values).collect();
    // Stable, so that each sum is taken in the order given.
    sorted.sort_by_key(|&(cluster, _)| cluster);
    let sums: Vec<_> = sorted
        .chunk_by(|a, b| a.0 == b.0)
        .map(|cluster| sum(cluster.iter().map(|&(_, value)| value)))
        .collect();
    if sums.len() < 2 {
        return Err(Error::TooFewClusters { got: sums.len() });
    }
    Ok(sums)
}

/// Mean and sample standard deviation (divisor n - 1), as of the five runs of a method.
///
/// # Errors
///
/// [`Error::TooFewValues`] below two values, and [`Error::ValueNotFinite`].
pub fn mean_and_deviation(values: &[f64]) -> Result<(f64, f64), Error> {
    if values.len() < 2 {
        return Err(Error::TooFewValues { got: values.len() });
    }
    if let Some(position) = values.iter().position(|value| !value.is_finite()) {
        return Err(Error::ValueNotFinite {
            position,
            value: values[position],
        });
    }
    let n = values.len() as f64;
    // Equal values have no deviation, and their mean must not invent one by rounding.
    if values.iter().all(|value| {
        value
            .partial_cmp(&values[0])
            .is_some_and(std::cmp::Ordering::is_eq)
    }) {
        return Ok((values[0], 0.0));
    }
    let scale = scale_of(values);
    let scaled = || values.iter().map(|value| value / scale);
    let mean = sum(scaled()) / n;
    let squares = sum(scaled().map(|value| (value - mean) * (value - mean)));
    Ok((mean * scale, (squares / (n - 1.0)).sqrt() * scale))
}

/// A power of two near the largest value.
fn scale_of(values: &[f64]) -> f64 {
    power_of_two(
        values
            .iter()
            .fold(0.0_f64, |largest, value| largest.max(value.abs())),
    )
}

/// The power of two at or below a positive number. Dividing by it is exact and keeps squares in range.
fn power_of_two(value: f64) -> f64 {
    let exponent_only = f64::from_bits(value.to_bits() & f64::INFINITY.to_bits());
    exponent_only.max(f64::MIN_POSITIVE)
}

/// A sum that keeps what each addition rounds away (Neumaier 1974).
fn sum(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0_f64, 0.0);
    for value in values {
        let next = sum + value;
        lost += if sum.abs() >= value.abs() {
            (sum - next) + value
        } else {
            (value - next) + sum
        };
        sum = next;
    }
    sum + lost
}

/// The probability that Student's t is at least as far from 0 as `t`.
fn two_sided(t: f64, freedom: f64) -> f64 {
    // t^2 / v. Where it overflows, p comes out as 0.
    let ratio = (t / freedom.sqrt()).powi(2);
    let p = if ratio * (freedom + 2.0) < 3.0 {
        // Near 0 the argument is written from the side where it is small: 1 - x would be rounded away.
        checked_beta_reg(0.5, freedom / 2.0, ratio / (1.0 + ratio)).map(|inside| 1.0 - inside)
    } else {
        checked_beta_reg(freedom / 2.0, 0.5, 1.0 / (1.0 + ratio))
    };
    // The arguments are in range for every finite t and at infinity; a NaN cannot come from finite values.
    p.unwrap_or(f64::NAN)
}

/// The t that 95 % of Student's distribution lie within. By bisection: it is needed once for each test, and
/// inherits the accuracy of [`two_sided`].
fn critical_95(freedom: f64) -> f64 {
    // With one degree of freedom it is 12.7, with more it is less.
    let (mut low, mut high) = (0.0, 13.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if two_sided(middle, freedom) > 0.05 {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Student's t has a closed form with one and with two degrees of freedom.
    #[test]
    fn tails_equal_their_closed_forms() {
        for t in [
            1e-12_f64, 1e-6, 1e-3, 0.1, 0.9, 1.0, 1.7, 3.0, 12.706, 1e3, 1e8, 1e20,
        ] {
            let one = std::f64::consts::FRAC_2_PI * (1.0 / t).atan();
            // 1 - t / sqrt(2 + t^2), written so that nothing cancels.
            let root = (2.0 + t * t).sqrt();
            let two = 2.0 / (root * (root + t));
            for (got, expected) in [(two_sided(t, 1.0), one), (two_sided(-t, 2.0), two)] {
                assert!((got / expected - 1.0).abs() < 1e-12, "t {t}: {got} {expected}");
            }
        }
    }

    /// The approach to the normal distribution: with v degrees of freedom, t = 1.96 is off by about 1/v.
    #[test]
    fn the_95_percent_points_are_those_of_the_tables() {
        for (freedom, expected) in [
            (1.0, 12.706),
            (4.0, 2.776),
            (30.0, 2.042),
            (5224.0, 1.960),
            (1e6, 1.960),
        ] {
            let got = critical_95(freedom);
            assert!((got - expected).abs() < 6e-4, "{freedom}: {got}");
            assert!((two_sided(got, freedom) - 0.05).abs() < 1e-12);
        }
    }

    #[test]
    fn no_difference_is_no_evidence() {
        let values = [0.25, 0.5, 1.0];
        let test = paired_t_test(&values, &values).unwrap();
        assert_eq!((test.t, test.p, test.effect_size), (0.0, 1.0, 0.0));
        assert_eq!((test.standard_error, test.interval_95), (0.0, (0.0, 0.0)));
        let balanced = paired_t_test(&[1.0, 0.0], &[0.0, 1.0]).unwrap();
        assert_eq!((balanced.t, balanced.p), (0.0, 1.0));
        assert!(balanced.standard_error > 0.0);
    }

    #[test]
    fn one_and_the_same_difference_is_certain() {
        let test = paired_t_test(&[1.0, 2.0, 3.0], &[1.5, 2.5, 3.5]).unwrap();
        assert_eq!((test.t, test.p), (f64::NEG_INFINITY, 0.0));
        assert_eq!(test.interval_95, (-0.5, -0.5));
        // A third of 0.1 three times is not 0.1: the sum rounds.
        assert_eq!(mean_and_deviation(&[0.1; 3]), Ok((0.1, 0.0)));
    }

    #[test]
    fn what_cannot_be_tested_is_refused() {
        assert_eq!(
            paired_t_test(&[1.0], &[1.0, 2.0]),
            Err(Error::PairsMismatch { first: 1, second: 2 })
        );
        assert_eq!(paired_t_test(&[1.0], &[2.0]), Err(Error::TooFewValues { got: 1 }));
        assert_eq!(paired_t_test(&[], &[]), Err(Error::TooFewValues { got: 0 }));
        assert!(matches!(
            paired_t_test(&[1.0, 2.0], &[0.0, f64::NAN]),
            Err(Error::PairNotFinite { position: 1, .. })
        ));
        assert!(matches!(
            paired_t_test(&[f64::MAX, 2.0], &[-f64::MAX, 0.0]),
            Err(Error::PairNotFinite { position: 0, .. })
        ));
        assert!(matches!(
            mean_and_deviation(&[0.0, f64::INFINITY]),
            Err(Error::ValueNotFinite { position: 1, .. })
        ));
    }

    #[test]
    fn deviations_divide_by_one_less() {
        assert_eq!(mean_and_deviation(&[2.0, 4.0, 6.0]), Ok((4.0, 2.0)));
        // Squares of these leave the range of f64.
        assert_eq!(mean_and_deviation(&[2e300, 4e300, 6e300]), Ok((4e300, 2e300)));
        let (mean, deviation) = mean_and_deviation(&[2e-200, 4e-200, 6e-200]).unwrap();
        assert!((mean / 4e-200 - 1.0).abs() < 1e-14 && (deviation / 2e-200 - 1.0).abs() < 1e-14);
    }

    proptest! {
        #[test]
        fn exchanging_the_series_turns_the_sign(
            pairs in prop::collection::vec((0.0..1.0_f64, 0.0..1.0_f64), 2..60),
        ) {
            let (a, b): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let (forth, back) = (paired_t_test(&a, &b).unwrap(), paired_t_test(&b, &a).unwrap());
            prop_assert_eq!(forth.t, -back.t);
            prop_assert_eq!(forth.p, back.p);
            prop_assert!((0.0..=1.0).contains(&forth.p));
            prop_assert!(forth.interval_95.0 <= forth.mean_difference);
            // p is below 0.05 exactly where the interval leaves 0 out.
            let (low, high) = forth.interval_95;
            if (forth.p - 0.05).abs() > 1e-9 {
                prop_assert_eq!(forth.p < 0.05, low > 0.0 || high < 0.0);
            }
        }

        #[test]
        fn no_values_make_it_panic(
            pairs in prop::collection::vec((any::<f64>(), any::<f64>()), 0..8),
        ) {
            let (a, b): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            if let Ok(test) = paired_t_test(&a, &b) {
                prop_assert!((0.0..=1.0).contains(&test.p), "{:?}", test);
            }
        }
    }
}
