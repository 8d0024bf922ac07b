//! The paired t-test where pairs come in clusters.

use super::{PairedTest, cluster_sums, differences, mean_and_deviation, scale_of, student, sum};
use crate::Error;

/// Tests whether the mean of `a - b` over paired values is zero, two-sided, where pairs with the same cluster
/// number are not independent of each other: the five captions of one clip, say.
///
/// With differences d of mean m over n pairs in G clusters, the standard error is
/// sqrt(G / (G - 1) * sum over clusters of (sum over the cluster of (d - m))^2) / n, and t has G - 1 degrees of
/// freedom. That is the cluster-robust test of the constant in a regression of the differences on a constant. With
/// clusters of equal size it is the [`paired_t_test`](super::paired_t_test) over the clusters' means, and with
/// clusters of one it is that test itself. [`PairedTest::n`] counts pairs. The effect size is that of the paired test:
/// the mean in sample deviations of all differences, whatever their clusters.
///
/// ```
/// use hark_metrics::significance::{clustered_t_test, paired_t_test};
///
/// let (a, b) = ([0.5, 1.0, 0.75, 0.75, 0.0, 0.5], [0.25, 0.5, 1.0, 0.5, 0.0, 0.0]);
/// let test = clustered_t_test(&a, &b, &[7, 7, 3, 3, 9, 9])?;
/// let of_means = paired_t_test(&[0.375, 0.0, 0.25], &[0.0; 3])?;
/// assert_eq!((test.n, test.degrees_of_freedom), (6, 2));
/// assert!((test.t - of_means.t).abs() < 1e-12);
/// # Ok::<(), hark_metrics::Error>(())
/// ```
///
/// # Errors
///
/// Those of [`paired_t_test`](super::paired_t_test), [`Error::ClustersMismatch`] and [`Error::TooFewClusters`].
pub fn clustered_t_test(a: &[f64], b: &[f64], clusters: &[u32]) -> Result<PairedTest, Error> {
    let differences = differences(a, b)?;
    let (mean, deviation) = mean_and_deviation(&differences)?;
    let n = differences.len();
    let scale = scale_of(&differences);
    let sums = cluster_sums(differences.iter().map(|value| (value - mean) / scale), clusters)?;
    let number = sums.len() as f64;
    let squares = sum(sums.iter().map(|sum| sum * sum));
    let standard_error = (number / (number - 1.0) * squares).sqrt() / n as f64 * scale;
    Ok(student(n, mean, deviation, standard_error, sums.len() - 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::paired_t_test;
    use super::*;

    #[track_caller]
    fn close(got: f64, expected: f64) {
        assert!(
            (got - expected).abs() <= 1e-9 * expected.abs().max(1e-3),
            "got {got}, expected {expected}"
        );
    }

    /// Differences 1, 3 in one cluster and 2, 2, 7 in another: the mean is 3, the deviations from it sum to -2
    /// and 2, so the variance of the sum is 2 / 1 * 8 = 16 and the error 4 / 5.
    #[test]
    fn unequal_clusters_by_hand() {
        let test = clustered_t_test(&[1.0, 2.0, 3.0, 2.0, 7.0], &[0.0; 5], &[0, 4, 0, 4, 4]).unwrap();
        assert_eq!(
            (test.n, test.degrees_of_freedom, test.mean_difference),
            (5, 1, 3.0)
        );
        close(test.standard_error, 0.8);
        close(test.t, 3.75);
    }

    #[test]
    fn what_cannot_be_tested_is_refused() {
        assert_eq!(
            clustered_t_test(&[1.0, 2.0], &[0.0; 2], &[1]),
            Err(Error::ClustersMismatch { expected: 2, got: 1 })
        );
        assert_eq!(
            clustered_t_test(&[1.0, 2.0], &[0.0; 2], &[3, 3]),
            Err(Error::TooFewClusters { got: 1 })
        );
        assert_eq!(
            clustered_t_test(&[], &[], &[]),
            Err(Error::TooFewValues { got: 0 })
        );
        assert!(matches!(
            clustered_t_test(&[1.0, f64::NAN], &[0.0; 2], &[0, 1]),
            Err(Error::PairNotFinite { position: 1, .. })
        ));
    }

    #[test]
    fn without_any_variation_it_is_the_paired_test() {
        let test = clustered_t_test(&[0.5; 4], &[0.5; 4], &[0, 0, 1, 1]).unwrap();
        assert_eq!((test.t, test.p), (0.0, 1.0));
        let test = clustered_t_test(&[0.5; 4], &[0.25; 4], &[0, 0, 1, 1]).unwrap();
        assert_eq!((test.t, test.p, test.standard_error), (f64::INFINITY, 0.0, 0.0));
    }

    proptest! {
        /// Clusters of one are no clusters, and the numbers of clusters do not matter.
        #[test]
        fn clusters_of_one_give_the_paired_test(
            pairs in prop::collection::vec((0.0..1.0_f64, 0.0..1.0_f64), 2..60),
        ) {
            let (a, b): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let clusters: Vec<_> = (0..a.len() as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
            let (got, expected) = (clustered_t_test(&a, &b, &clusters).unwrap(), paired_t_test(&a, &b).unwrap());
            close(got.standard_error, expected.standard_error);
            prop_assert_eq!(got.degrees_of_freedom, expected.degrees_of_freedom);
            prop_assert_eq!(got.effect_size, expected.effect_size);
        }

        /// Clusters of equal size: the paired test over the clusters' means.
        #[test]
        fn equal_clusters_give_the_test_of_their_means(
            values in prop::collection::vec(-1.0..1.0_f64, 10..60),
            size in 2..5_usize,
        ) {
            let values = &values[..values.len() / size * size];
            let number = values.len() / size;
            let clusters: Vec<_> = (0..values.len()).map(|i| (i % number) as u32).collect();
            let means: Vec<f64> = (0..number)
                .map(|cluster| values.iter().skip(cluster).step_by(number).sum::<f64>() / size as f64)
                .collect();
            let got = clustered_t_test(values, &vec![0.0; values.len()], &clusters).unwrap();
            let expected = paired_t_test(&means, &vec![0.0; number]).unwrap();
            close(got.mean_difference, expected.mean_difference);
            close(got.standard_error, expected.standard_error);
            close(got.interval_95.0, expected.interval_95.0);
        }

        #[test]
        fn no_values_make_it_panic(
            rows in prop::collection::vec((any::<f64>(), any::<f64>(), 0..3_u32), 0..8),
        ) {
            let a: Vec<_> = rows.iter().map(|row| row.0).collect();
            let b: Vec<_> = rows.iter().map(|row| row.1).collect();
            let clusters: Vec<_> = rows.iter().map(|row| row.2).collect();
            if let Ok(test) = clustered_t_test(&a, &b, &clusters) {
                prop_assert!((0.0..=1.0).contains(&test.p), "{:?}", test);
            }
        }
    }
}
