//! The paired permutation test: signs of differences are flipped.

use super::{cluster_sums, differences, mean_and_deviation, scale_of, sum};
use crate::Error;
use hark_work::random::{STEP, mix};

/// The result of [`permutation_test`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PermutationTest {
    /// Number of pairs.
    pub n: usize,
    /// What flips its sign as one: clusters, or pairs.
    pub units: usize,
    /// Mean of first minus second.
    pub mean_difference: f64,
    /// Two-sided.
    pub p: f64,
    /// Patterns of signs that were compared.
    pub permutations: u64,
    /// Whether these are all patterns that there are.
    pub exact: bool,
}

/// Differences that are added up side by side, so that no addition waits for the one before.
const LANES: usize = 8;

/// Tests whether the mean of `a - b` over paired values is zero, two-sided: if the methods do not differ, each
/// difference could as well have the other sign. With `clusters` the signs of all pairs of a cluster flip together.
///
/// p is the share of sign patterns whose mean is at least as far from 0 as the observed one. Where there are at most
/// `permutations` patterns, all are compared. Otherwise as many are drawn with SplitMix64 from `seed`, and the
/// observed pattern counts as one more on both sides of the fraction, so that p is never 0. With 10,000 patterns a p
/// of 0.05 is known to within 0.004, and 1e-4 is the least that can be found.
///
/// Two means count as equal within 100 roundings of the sum of all sizes: patterns that are equal in exact arithmetic
/// must not be told apart by the order of additions. (scipy takes 100 roundings of the statistic itself.)
///
/// ```
/// let test = hark_metrics::significance::permutation_test(&[3.0, 5.0, 4.0], &[1.0, 1.0, 1.0], None, 1000, 0)?;
/// // Of the eight patterns only all plus and all minus are as far from 0.
/// assert_eq!((test.p, test.permutations, test.exact), (0.25, 8, true));
/// # Ok::<(), hark_metrics::Error>(())
/// ```
///
/// # Errors
///
/// Those of [`paired_t_test`](super::paired_t_test), [`Error::NoPermutations`], and with clusters
/// [`Error::ClustersMismatch`] and [`Error::TooFewClusters`].
pub fn permutation_test(
    a: &[f64],
    b: &[f64],
    clusters: Option<&[u32]>,
    permutations: u64,
    seed: u64,
) -> Result<PermutationTest, Error> {
    let differences = differences(a, b)?;
    let (mean_difference, _) = mean_and_deviation(&differences)?;
    if permutations == 0 {
        return Err(Error::NoPermutations);
    }
    // Scaled, so that no sum overflows.
    let scale = scale_of(&differences);
    let scaled = differences.iter().map(|value| value / scale);
    let sums = match clusters {
        Some(clusters) => cluster_sums(scaled, clusters)?,
        None => scaled.collect(),
    };
    let all = u32::try_from(sums.len())
        .ok()
        .and_then(|units| 1_u64.checked_shl(units))
        .filter(|&all| all <= permutations);
    let flips = Flips::new(&sums);
    let (p, permutations) = if let Some(all) = all {
        let far = (0..all).filter(|&pattern| flips.is_far(|_| pattern)).count();
        (far as f64 / all as f64, all)
    } else {
        let far = flips.far_of_drawn(permutations, seed);
        ((1 + far) as f64 / (1.0 + permutations as f64), permutations)
    };
    Ok(PermutationTest {
        n: differences.len(),
        units: sums.len(),
        mean_difference,
        p,
        permutations,
        exact: all.is_some(),
    })
}

/// The units' sums, which are summed with all kinds of signs.
struct Flips {
    /// Padded with zeros to whole words of 64 signs.
    sums: Vec<f64>,
    /// A sum of at least this size is as far from 0 as the observed one.
    far: f64,
}

impl Flips {
    fn new(sums: &[f64]) -> Self {
        let sizes = sum(sums.iter().map(|sum| sum.abs()));
        let mut padded = sums.to_vec();
        padded.resize(sums.len().next_multiple_of(64), 0.0);
        let mut flips = Self {
            sums: padded,
            far: 0.0,
        };
        flips.far = flips.sum(|_| 0).abs() - 100.0 * f64::EPSILON * sizes;
        flips
    }

    /// The sum with signs flipped where a bit is set. `signs` gives the bits of each 64 units, and is called with
    /// their number.
    fn sum(&self, signs: impl Fn(u64) -> u64) -> f64 {
        let mut lanes = [0.0; LANES];
        for (word, sums) in (0..).zip(self.sums.chunks_exact(64)) {
            let mut bits = signs(word);
            for sums in sums.chunks_exact(LANES) {
                for (lane, (sum, value)) in lanes.iter_mut().zip(sums).enumerate() {
                    let sign = (bits >> lane & 1) << 63;
                    *sum += f64::from_bits(value.to_bits() ^ sign);
                }
                bits >>= LANES;
            }
        }
        lanes.iter().sum()
    }

    fn is_far(&self, signs: impl Fn(u64) -> u64) -> bool {
        self.sum(signs).abs() >= self.far
    }

    /// How many of the drawn patterns are far. Each takes the next numbers of the generator, one for 64 units.
    fn far_of_drawn(&self, permutations: u64, seed: u64) -> u64 {
        let words = (self.sums.len() / 64) as u64;
        let mut far = 0;
        for permutation in 0..permutations {
            let first = permutation.wrapping_mul(words);
            let signs = |word| mix(seed.wrapping_add(first.wrapping_add(word).wrapping_mul(STEP)));
            far += u64::from(self.is_far(signs));
        }
        far
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every sign pattern, added up plainly.
    fn by_definition(sums: &[f64]) -> f64 {
        let observed = sums.iter().sum::<f64>().abs();
        let all = 1_u32 << sums.len();
        let far = (0..all).filter(|pattern| {
            let signed = |(unit, sum): (usize, &f64)| if pattern >> unit & 1 == 1 { -sum } else { *sum };
            let flipped: f64 = sums.iter().enumerate().map(signed).sum();
            flipped.abs() >= observed
        });
        far.count() as f64 / f64::from(all)
    }

    #[test]
    fn clusters_flip_together() {
        // Sums 4 and -1: patterns 3, 5, -5, -3, all at least 3 from 0. Over pairs 4 of 16 sums lie within 1.
        let a = [1.0, -1.0, 3.0, 0.0];
        let test = permutation_test(&a, &[0.0; 4], Some(&[5, 2, 5, 2]), 4, 0).unwrap();
        assert_eq!(
            (test.n, test.units, test.permutations, test.exact),
            (4, 2, 4, true)
        );
        assert_eq!((test.p, test.mean_difference), (1.0, 0.75));
        let pairs = permutation_test(&a, &[0.0; 4], None, 16, 0).unwrap();
        assert_eq!((pairs.p, pairs.units), (by_definition(&a), 4));
        assert_eq!(pairs.p, 0.75);
    }

    #[test]
    fn no_difference_is_no_evidence() {
        let values = [0.25, 0.5, 1.0];
        for permutations in [7, 8] {
            let test = permutation_test(&values, &values, None, permutations, 3).unwrap();
            assert_eq!((test.p, test.mean_difference), (1.0, 0.0));
            assert_eq!(test.exact, permutations == 8);
        }
    }

    /// In exact arithmetic 0.1 + 0.2 - 0.3 is 0; in f64 it is not, and some patterns come nearer to 0.
    #[test]
    fn rounding_makes_no_evidence() {
        let a = [0.1, 0.2, -0.3, 0.1, 0.2, -0.3];
        assert_ne!(a.iter().sum::<f64>(), 0.0);
        assert_eq!(permutation_test(&a, &[0.0; 6], None, 64, 0).unwrap().p, 1.0);
    }

    #[test]
    fn what_cannot_be_tested_is_refused() {
        let run = |a: &[f64], b: &[f64], clusters, permutations| {
            permutation_test(a, b, clusters, permutations, 0).map(|test| test.p)
        };
        assert_eq!(run(&[1.0, 2.0], &[0.0; 2], None, 0), Err(Error::NoPermutations));
        assert_eq!(
            run(&[1.0], &[0.0; 2], None, 1),
            Err(Error::PairsMismatch { first: 1, second: 2 })
        );
        assert_eq!(run(&[1.0], &[0.0], None, 1), Err(Error::TooFewValues { got: 1 }));
        assert_eq!(
            run(&[1.0, 2.0], &[0.0; 2], Some(&[1, 1]), 1),
            Err(Error::TooFewClusters { got: 1 })
        );
        assert_eq!(
            run(&[1.0, 2.0], &[0.0; 2], Some(&[1]), 1),
            Err(Error::ClustersMismatch { expected: 2, got: 1 })
        );
        assert!(matches!(
            run(&[1.0, 2.0], &[0.0, f64::INFINITY], None, 1),
            Err(Error::PairNotFinite { position: 1, .. })
        ));
    }

    /// The same seed gives the same p, another seed another, and p is within 4 standard errors of the normal limit:
    /// 600 differences of +-1, of which 330 are +1, sum to 60, and a sum of 600 signs has the deviation 24.5. Sums are
    /// even, so the limit is taken half a step nearer: 59 / 24.495 = 2.409, p = 0.01601.
    #[test]
    fn drawn_patterns_follow_the_seed() {
        let a: Vec<f64> = (0..600).map(|i| if i < 330 { 1.0 } else { -1.0 }).collect();
        let run = |seed| permutation_test(&a, &[0.0; 600], None, 10_000, seed).unwrap();
        assert_eq!(run(1), run(1));
        let error = (0.016_01_f64 * (1.0 - 0.016_01) / 10_000.0).sqrt();
        let mut different = std::collections::BTreeSet::new();
        for seed in 0..5 {
            let test = run(seed);
            assert!(!test.exact && test.permutations == 10_000);
            assert!((test.p - 0.016_01).abs() < 4.0 * error, "seed {seed}: {}", test.p);
            different.insert(test.p.to_bits());
        }
        assert!(different.len() > 1);
    }

    proptest! {
        /// Whole numbers, whose sums are exact: every pattern is compared, with clusters or without.
        #[test]
        fn exact_p_is_the_share_of_patterns(
            values in prop::collection::vec(-9..10_i32, 2..10), clustered in any::<bool>(), seed in any::<u64>(),
        ) {
            let a: Vec<f64> = values.iter().map(|&value| f64::from(value)).collect();
            let clusters: Vec<u32> = (0..a.len() as u32).map(|i| i % a.len().min(3) as u32).collect();
            let mut sums = a.clone();
            if clustered {
                sums = vec![0.0; a.len().min(3)];
                for (cluster, value) in clusters.iter().zip(&a) {
                    sums[*cluster as usize] += value;
                }
            }
            let test = permutation_test(&a, &vec![0.0; a.len()], clustered.then_some(&clusters), 1 << 10, seed);
            let test = test.unwrap();
            prop_assert!(test.exact);
            prop_assert_eq!(test.p, by_definition(&sums));
        }

        #[test]
        fn no_values_make_it_panic(
            pairs in prop::collection::vec((any::<f64>(), any::<f64>()), 0..80),
            clusters in prop::option::of(prop::collection::vec(0..9_u32, 0..80)),
            permutations in 0..600_u64,
            seed in any::<u64>(),
        ) {
            let (a, b): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            if let Ok(test) = permutation_test(&a, &b, clusters.as_deref(), permutations, seed) {
                prop_assert!(test.p > 0.0 && test.p <= 1.0, "{:?}", test);
            }
        }
    }
}
