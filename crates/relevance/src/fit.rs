//! Beta regression of ratings on similarity, by maximum likelihood.
//!
//! In: observations (h, y) with y strictly between 0 and 1. Model (Ferrari and Cribari-Neto, 2004): y has a
//! beta distribution with mean mu and precision phi, y ~ Beta(mu phi, (1 - mu) phi), and
//!
//! ```text
//! eta = logit(mu) = intercept + slope h        log(phi) = log_precision
//! ```
//!
//! One observation adds the following to the log-likelihood l and to its derivatives by eta and by
//! g = log_precision. psi and psi' are the digamma and trigamma functions.
//!
//! ```text
//! p = mu phi    q = (1 - mu) phi    t = mu (1 - mu)    r = logit(y) - (psi(p) - psi(q))
//!
//! l            ln Gamma(phi) - ln Gamma(p) - ln Gamma(q) + (p - 1) ln y + (q - 1) ln(1 - y)
//! dl/d eta     phi t r
//! dl/d g       phi (mu r + ln(1 - y) - psi(q) + psi(phi))
//! d2l/d eta2   phi t (1 - 2 mu) r - phi^2 t^2 (psi'(p) + psi'(q))
//! d2l/d eta dg phi t r - phi^2 t (mu psi'(p) - (1 - mu) psi'(q))
//! d2l/d g2     dl/dg - phi^2 (mu^2 psi'(p) + (1 - mu)^2 psi'(q) - psi'(phi))
//! ```
//!
//! The expectation of r and of dl/dg is 0, so the expected second derivatives are the last terms alone.
//!
//! The maximum is found by Newton's method, falling back on the expected information (Fisher scoring) where
//! the observed one is not positive definite, with step halving. Standard errors come from the inverse of the
//! observed information at the maximum, as in statsmodels' `BetaModel`.

use statrs::function::gamma::{digamma, ln_gamma};

use crate::Error;
use crate::function::{RelevanceFunction, check_similarity};
use crate::ratings::Observation;
use crate::special::trigamma;

/// When to stop looking for the maximum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FitOptions {
    /// The most iterations before giving up. A fit takes about ten.
    pub max_iterations: usize,
    /// The fit has converged when one more step would raise the log-likelihood by less than this.
    pub tolerance: f64,
}

impl Default for FitOptions {
    fn default() -> Self {
        Self {
            max_iterations: 100,
            tolerance: 1e-10,
        }
    }
}

/// A fitted beta regression. It has converged: a fit that does not is an error.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct BetaFit {
    /// Log-odds of the mean rating at h = 0.
    pub intercept: f64,
    /// Log-odds gained over h from 0 to 1.
    pub slope: f64,
    /// Logarithm of the precision phi.
    pub log_precision: f64,
    /// Standard errors of intercept, slope and log precision.
    pub standard_errors: [f64; 3],
    /// Covariances of intercept, slope and log precision: the inverse of the observed information.
    pub covariance: [[f64; 3]; 3],
    /// Log-likelihood at the maximum.
    pub log_likelihood: f64,
    /// Observations used.
    pub observations: usize,
    /// Steps taken from the starting values.
    pub iterations: usize,
    /// Euclidean norm of the gradient at the maximum.
    pub gradient_norm: f64,
}

impl BetaFit {
    /// The fitted mean as a relevance function, `logistic`.
    ///
    /// # Errors
    ///
    /// [`Error::BadParameter`] when the slope is negative: ratings that fall as similarity grows give no
    /// relevance function.
    pub fn function(&self) -> Result<RelevanceFunction, Error> {
        let function = RelevanceFunction::Logistic {
            intercept: self.intercept,
            slope: self.slope,
        };
        function.check()?;
        Ok(function)
    }
}

/// Fits the regression. Ratings must be strictly between 0 and 1: see [`Bound`](crate::ratings::Bound).
///
/// ```
/// use hark_relevance::fit::{self, FitOptions};
/// use hark_relevance::ratings::Observation;
///
/// let data = [(0.1, 0.08), (0.2, 0.2), (0.4, 0.25), (0.5, 0.45), (0.7, 0.6), (0.9, 0.8)];
/// let data = data.map(|(similarity, rating)| Observation { similarity, rating });
/// let found = fit::beta_regression(&data, FitOptions::default())?;
/// assert!(found.intercept < -2.0 && found.slope > 4.0);
/// # Ok::<(), hark_relevance::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::TooFew`] with fewer than three observations; [`Error::NotFinite`] and [`Error::OutOfRange`] for a
/// similarity outside [-1, 1] or a rating not strictly inside (0, 1); [`Error::Constant`] when all
/// similarities are equal; [`Error::PerfectFit`] when the ratings have no spread around the curve;
/// [`Error::NoConvergence`].
pub fn beta_regression(observations: &[Observation], options: FitOptions) -> Result<BetaFit, Error> {
    check(observations)?;
    let mut parameters = start(observations)?;
    let mut here = Likelihood::at(parameters, observations);
    for iterations in 1..=options.max_iterations {
        let step = here.step();
        let gain = dot(here.gradient, step) / 2.0;
        let Some((next, there)) = climb(parameters, &here, step, observations) else {
            return Err(Error::NoConvergence {
                iterations,
                gradient_norm: here.gradient_norm(),
            });
        };
        (parameters, here) = (next, there);
        if parameters[2] > PERFECT {
            return Err(Error::PerfectFit);
        }
        if gain < options.tolerance {
            // The step just taken has squared the distance to the maximum once more.
            return here.report(parameters, observations.len(), iterations);
        }
    }
    Err(Error::NoConvergence {
        iterations: options.max_iterations,
        gradient_norm: here.gradient_norm(),
    })
}

/// Intercept, slope, log precision.
type Parameters = [f64; 3];

/// Ratings whose log precision exceeds this lie within a millionth of the curve: they are not ratings, and
/// the likelihood is lost in rounding.
const PERFECT: f64 = 27.0;

fn check(observations: &[Observation]) -> Result<(), Error> {
    if observations.len() < 3 {
        return Err(Error::TooFew {
            needed: 3,
            got: observations.len(),
        });
    }
    for (position, &Observation { similarity, rating }) in observations.iter().enumerate() {
        check_similarity(position, similarity)?;
        if !rating.is_finite() {
            return Err(Error::NotFinite {
                what: "rating",
                position,
                value: rating,
            });
        }
        if !(rating > 0.0 && rating < 1.0) {
            let (low, high) = (f64::MIN_POSITIVE, 1.0 - f64::EPSILON / 2.0);
            return Err(Error::OutOfRange {
                what: "rating",
                position,
                value: rating,
                low,
                high,
            });
        }
    }
    let first = observations[0].similarity;
    if observations
        .iter()
        .all(|observation| observation.similarity.total_cmp(&first).is_eq())
    {
        return Err(Error::Constant {
            what: "similarity",
            value: first,
        });
    }
    Ok(())
}

/// Starting values of Ferrari and Cribari-Neto: least squares on the logit scale, and the precision that
/// gives the variance of its residuals by the delta method, mean of 1 / (t sigma^2) - 1.
fn start(observations: &[Observation]) -> Result<Parameters, Error> {
    let n = observations.len() as f64;
    let mean = |value: &dyn Fn(&Observation) -> f64| observations.iter().map(value).sum::<f64>() / n;
    let (mean_h, mean_y) = (mean(&|o| o.similarity), mean(&|o| logit(o.rating)));
    let spread = mean(&|o| (o.similarity - mean_h).powi(2));
    let slope = mean(&|o| (o.similarity - mean_h) * (logit(o.rating) - mean_y)) / spread;
    let intercept = mean_y - slope * mean_h;
    let squares = mean(&|o| (logit(o.rating) - intercept - slope * o.similarity).powi(2));
    let variance = squares * n / (n - 2.0);
    let precision = mean(&|o| {
        let mu = sigmoid(intercept + slope * o.similarity);
        1.0 / (mu * (1.0 - mu) * variance)
    }) - 1.0;
    let log_precision = precision.max(0.1).ln();
    // No spread at all gives an infinite precision.
    if log_precision > PERFECT {
        return Err(Error::PerfectFit);
    }
    Ok([intercept, slope, log_precision])
}

/// The log-likelihood at some parameters, with its derivatives.
struct Likelihood {
    value: f64,
    /// How far rounding may have moved `value`.
    rounding: f64,
    gradient: [f64; 3],
    /// The negated matrix of second derivatives.
    observed: [[f64; 3]; 3],
    /// Its expectation under the model, which is positive definite everywhere.
    expected: [[f64; 3]; 3],
}

impl Likelihood {
    fn at([intercept, slope, log_precision]: Parameters, observations: &[Observation]) -> Self {
        let phi = log_precision.exp();
        let (ln_gamma_phi, psi_phi, c) = (ln_gamma(phi), digamma(phi), trigamma(phi));
        let mut sum = Self {
            value: 0.0,
            rounding: 8.0 * f64::EPSILON * observations.len() as f64 * (1.0 + ln_gamma_phi.abs()),
            gradient: [0.0; 3],
            observed: [[0.0; 3]; 3],
            expected: [[0.0; 3]; 3],
        };
        for &Observation {
            similarity: h,
            rating: y,
        } in observations
        {
            let mu = sigmoid(intercept + slope * h);
            // A step too far can push mu to 0 or 1 in rounding; the gamma functions need it strictly inside.
            let (p, q) = ((mu * phi).max(1e-200), ((1.0 - mu) * phi).max(1e-200));
            let (ln_y, ln_not_y) = (y.ln(), (-y).ln_1p());
            sum.value += ln_gamma_phi - ln_gamma(p) - ln_gamma(q) + (p - 1.0) * ln_y + (q - 1.0) * ln_not_y;

            let t = mu * (1.0 - mu);
            let psi_q = digamma(q);
            let r = ln_y - ln_not_y - (digamma(p) - psi_q);
            let d_eta = phi * t * r;
            let d_log_phi = phi * (mu * r + ln_not_y - psi_q + psi_phi);
            sum.gradient[0] += d_eta;
            sum.gradient[1] += d_eta * h;
            sum.gradient[2] += d_log_phi;

            let (a, b) = (trigamma(p), trigamma(q));
            let eta_eta = (phi * t).powi(2) * (a + b);
            let eta_phi = phi * phi * t * (mu * a - (1.0 - mu) * b);
            let phi_phi = phi * phi * (mu * mu * a + (1.0 - mu).powi(2) * b - c);
            add(&mut sum.expected, h, [eta_eta, eta_phi, phi_phi]);
            let residual = [phi * t * (1.0 - 2.0 * mu) * r, phi * t * r, d_log_phi];
            add(
                &mut sum.observed,
                h,
                [
                    eta_eta - residual[0],
                    eta_phi - residual[1],
                    phi_phi - residual[2],
                ],
            );
        }
        sum
    }

    /// Newton's step, or that of Fisher scoring where the likelihood does not curve down in every direction.
    fn step(&self) -> [f64; 3] {
        Cholesky::of(self.observed)
            .or_else(|| Cholesky::of(self.expected))
            .map_or([0.0; 3], |factor| factor.solve(self.gradient))
    }

    fn gradient_norm(&self) -> f64 {
        dot(self.gradient, self.gradient).sqrt()
    }

    fn report(
        &self,
        [intercept, slope, log_precision]: Parameters,
        observations: usize,
        iterations: usize,
    ) -> Result<BetaFit, Error> {
        let gradient_norm = self.gradient_norm();
        // At a maximum the observed information is positive definite; elsewhere there is none to report.
        let factor = Cholesky::of(self.observed).ok_or(Error::NoConvergence {
            iterations,
            gradient_norm,
        })?;
        let columns = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]].map(|unit| factor.solve(unit));
        let covariance = [0, 1, 2].map(|i| [0, 1, 2].map(|j| f64::midpoint(columns[i][j], columns[j][i])));
        Ok(BetaFit {
            intercept,
            slope,
            log_precision,
            standard_errors: [0, 1, 2].map(|i| covariance[i][i].sqrt()),
            covariance,
            log_likelihood: self.value,
            observations,
            iterations,
            gradient_norm,
        })
    }
}

/// Adds one observation's second derivatives, by (eta, eta), (eta, log phi), (log phi, log phi), to the
/// matrix over intercept, slope and log precision: eta changes by 1 with the intercept and by h with the
/// slope.
fn add(matrix: &mut [[f64; 3]; 3], h: f64, [eta_eta, eta_phi, phi_phi]: [f64; 3]) {
    matrix[0][0] += eta_eta;
    matrix[1][0] += eta_eta * h;
    matrix[1][1] += eta_eta * h * h;
    matrix[2][0] += eta_phi;
    matrix[2][1] += eta_phi * h;
    matrix[2][2] += phi_phi;
}

/// Goes along a step, halved until the likelihood does not fall.
fn climb(
    parameters: Parameters,
    here: &Likelihood,
    step: [f64; 3],
    observations: &[Observation],
) -> Option<(Parameters, Likelihood)> {
    let mut scale = 1.0;
    for _ in 0..60 {
        let next = [0, 1, 2].map(|i| parameters[i] + scale * step[i]);
        let there = Likelihood::at(next, observations);
        // Close to the maximum the gain drowns in rounding.
        if there.value >= here.value - here.rounding.max(there.rounding) {
            return Some((next, there));
        }
        scale /= 2.0;
    }
    None
}

/// The lower triangle L with L L' = A, for a symmetric A given by its lower triangle.
struct Cholesky([[f64; 3]; 3]);

impl Cholesky {
    /// `None` unless A is positive definite.
    fn of(a: [[f64; 3]; 3]) -> Option<Self> {
        let mut l = [[0.0; 3]; 3];
        for i in 0..3 {
            for j in 0..=i {
                let rest = a[i][j] - (0..j).map(|k| l[i][k] * l[j][k]).sum::<f64>();
                if i == j {
                    // What is left of a diagonal after cancellation is noise below this.
                    if !(rest > 1e-14 * a[i][i].abs() && rest.is_finite()) {
                        return None;
                    }
                    l[i][i] = rest.sqrt();
                } else {
                    l[i][j] = rest / l[j][j];
                }
            }
        }
        Some(Self(l))
    }

    /// x with A x = b.
    fn solve(&self, b: [f64; 3]) -> [f64; 3] {
        let l = &self.0;
        let mut x = b;
        for i in 0..3 {
            x[i] = (x[i] - (0..i).map(|k| l[i][k] * x[k]).sum::<f64>()) / l[i][i];
        }
        for i in (0..3).rev() {
            x[i] = (x[i] - (i + 1..3).map(|k| l[k][i] * x[k]).sum::<f64>()) / l[i][i];
        }
        x
    }
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn logit(y: f64) -> f64 {
    y.ln() - (-y).ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Vec<Observation> {
        [
            (0.05, 0.03),
            (0.1, 0.2),
            (0.3, 0.12),
            (0.35, 0.4),
            (0.5, 0.3),
            (0.62, 0.7),
            (0.8, 0.55),
            (0.93, 0.9),
        ]
        .map(|(similarity, rating)| Observation { similarity, rating })
        .to_vec()
    }

    /// Central differences of step 1e-5 leave an error of about 1e-10 times the third derivative, and 1e-11
    /// of rounding in the value.
    #[test]
    fn derivatives_match_differences() {
        let data = example();
        let parameters = [-2.0, 3.5, 1.2];
        let here = Likelihood::at(parameters, &data);
        for i in 0..3 {
            let moved = |by: f64| {
                let mut parameters = parameters;
                parameters[i] += by;
                Likelihood::at(parameters, &data)
            };
            let (up, down) = (moved(1e-5), moved(-1e-5));
            let slope = (up.value - down.value) / 2e-5;
            assert!(
                (slope - here.gradient[i]).abs() < 1e-6 * (1.0 + slope.abs()),
                "gradient {i}"
            );
            for j in 0..=i {
                let curve = -(up.gradient[j] - down.gradient[j]) / 2e-5;
                let got = here.observed[i][j];
                assert!(
                    (curve - got).abs() < 1e-6 * (1.0 + curve.abs()),
                    "{i}, {j}: {got}, {curve}"
                );
            }
        }
    }

    #[test]
    fn expected_information_is_positive_definite_far_from_the_maximum() {
        for parameters in [[-8.0, 9.0, 4.0], [3.0, -6.0, -2.0], [0.0, 0.0, 8.0]] {
            assert!(
                Cholesky::of(Likelihood::at(parameters, &example()).expected).is_some(),
                "{parameters:?}"
            );
        }
    }

    #[test]
    fn the_maximum_is_one() {
        let data = example();
        let found = beta_regression(&data, FitOptions::default()).unwrap();
        assert!(found.gradient_norm < 1e-8, "{found:?}");
        for i in 0..3 {
            for by in [-0.01, 0.01] {
                let mut moved = [found.intercept, found.slope, found.log_precision];
                moved[i] += by;
                assert!(Likelihood::at(moved, &data).value < found.log_likelihood);
            }
        }
    }

    #[test]
    fn cholesky_solves() {
        let factor = Cholesky::of([[4.0, 0.0, 0.0], [2.0, 5.0, 0.0], [1.0, 3.0, 6.0]]).unwrap();
        let x = factor.solve([4.0 + 4.0 + 3.0, 2.0 + 10.0 + 9.0, 1.0 + 6.0 + 18.0]);
        for (got, expected) in x.into_iter().zip([1.0, 2.0, 3.0]) {
            assert!((got - expected).abs() < 1e-12);
        }
        assert!(Cholesky::of([[1.0, 0.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]]).is_none());
    }

    #[test]
    fn bad_observations_are_refused() {
        let fit = |data: &[(f64, f64)]| {
            let data: Vec<_> = data
                .iter()
                .map(|&(similarity, rating)| Observation { similarity, rating })
                .collect();
            beta_regression(&data, FitOptions::default()).unwrap_err()
        };
        assert_eq!(
            fit(&[(0.1, 0.2), (0.2, 0.3)]),
            Error::TooFew { needed: 3, got: 2 }
        );
        assert_eq!(
            fit(&[(0.5, 0.2), (0.5, 0.3), (0.5, 0.9)]),
            Error::Constant {
                what: "similarity",
                value: 0.5
            }
        );
        for rating in [0.0, 1.0, -0.1, 20.0] {
            let error = fit(&[(0.1, 0.2), (0.2, rating), (0.3, 0.4)]);
            assert!(
                matches!(
                    error,
                    Error::OutOfRange {
                        what: "rating",
                        position: 1,
                        ..
                    }
                ),
                "{error}"
            );
        }
        let error = fit(&[(0.1, f64::NAN), (0.2, 0.3), (0.3, 0.4)]);
        assert!(matches!(
            error,
            Error::NotFinite {
                what: "rating",
                position: 0,
                ..
            }
        ));
        let error = fit(&[(0.1, 0.2), (0.2, 0.3), (f64::INFINITY, 0.4)]);
        assert!(matches!(
            error,
            Error::NotFinite {
                what: "similarity",
                position: 2,
                ..
            }
        ));
        assert!(matches!(
            fit(&[(0.1, 0.2), (0.2, 0.3), (1.5, 0.4)]),
            Error::OutOfRange { .. }
        ));
    }

    #[test]
    fn ratings_without_spread_have_no_precision() {
        let exact = |f: &dyn Fn(f64) -> f64| {
            let data: Vec<_> = (0..20)
                .map(|i| f64::from(i) / 20.0)
                .map(|similarity| Observation {
                    similarity,
                    rating: f(similarity),
                })
                .collect();
            beta_regression(&data, FitOptions::default())
        };
        assert_eq!(exact(&|h| sigmoid(-2.73 + 4.58 * h)), Err(Error::PerfectFit));
        assert_eq!(exact(&|_| 0.25), Err(Error::PerfectFit));
    }

    #[test]
    fn giving_up_says_where() {
        let error = beta_regression(
            &example(),
            FitOptions {
                max_iterations: 1,
                tolerance: 0.0,
            },
        )
        .unwrap_err();
        assert!(
            matches!(error, Error::NoConvergence { iterations: 1, gradient_norm } if gradient_norm > 0.0)
        );
    }

    #[test]
    fn a_falling_fit_is_no_relevance_function() {
        let falling: Vec<_> = example()
            .into_iter()
            .map(|o| Observation {
                rating: 1.0 - o.rating,
                ..o
            })
            .collect();
        let found = beta_regression(&falling, FitOptions::default()).unwrap();
        assert!(matches!(
            found.function(),
            Err(Error::BadParameter {
                parameter: "slope",
                ..
            })
        ));
    }
}
