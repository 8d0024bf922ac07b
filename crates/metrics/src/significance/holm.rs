//! Several tests at once.

use crate::Error;

/// Holm's (1979) step-down correction: adjusted p in the order given. A difference is significant at the level
/// alpha where its adjusted p is at most alpha, and then the chance of any false one among all is at most alpha.
///
/// With p ascending, the i-th of m (from 0) is multiplied by m - i, raised to the adjusted p before it if that is
/// higher, and cut at 1.
///
/// ```
/// assert_eq!(hark_metrics::significance::holm(&[0.03, 0.01, 0.5])?, [0.06, 0.03, 0.5]);
/// # Ok::<(), hark_metrics::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::NotProbability`] for the first value that is NaN or outside [0, 1].
pub fn holm(p: &[f64]) -> Result<Vec<f64>, Error> {
    if let Some(position) = p.iter().position(|value| !(0.0..=1.0).contains(value)) {
        return Err(Error::NotProbability {
            position,
            value: p[position],
        });
    }
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut adjusted = vec![0.0; p.len()];
    let mut least = 0.0_f64;
    for (before, position) in order.into_iter().enumerate() {
        least = least.max(p[position] * (p.len() - before) as f64).min(1.0);
        adjusted[position] = least;
    }
    Ok(adjusted)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_that_are_no_probabilities_are_refused() {
        assert_eq!(
            holm(&[0.5, 1.5, -1.0]),
            Err(Error::NotProbability {
                position: 1,
                value: 1.5
            })
        );
        assert!(matches!(
            holm(&[f64::NAN]),
            Err(Error::NotProbability { position: 0, .. })
        ));
        assert_eq!(holm(&[]), Ok(vec![]));
    }

    proptest! {
        /// At every level as many are significant as Holm's procedure rejects: it goes through ascending p and
        /// stops at the first above level / (number left).
        #[test]
        fn decisions_are_those_of_the_procedure(
            p in prop::collection::vec(0.0..=1.0_f64, 1..20), level in 0.001..0.999_f64,
        ) {
            let mut sorted = p.clone();
            sorted.sort_by(f64::total_cmp);
            let rejected = sorted
                .iter()
                .enumerate()
                .take_while(|&(i, &value)| value * (p.len() - i) as f64 <= level)
                .count();
            let adjusted = holm(&p).unwrap();
            prop_assert_eq!(adjusted.iter().filter(|&&value| value <= level).count(), rejected);
            prop_assert!(adjusted.iter().zip(&p).all(|(adjusted, p)| p <= adjusted && *adjusted <= 1.0));
        }
    }
}
