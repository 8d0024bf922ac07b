//! Values of statsmodels and scipy. The scripts that made them are `golden/beta_regression.py` and
//! `golden/agreement.py`; the versions are in the files.

use hark_relevance::agreement::{pearson, spearman};
use hark_relevance::fit::{FitOptions, beta_regression};
use hark_relevance::ratings::Observation;
use serde::Deserialize;

#[derive(Deserialize)]
struct File<T> {
    cases: Vec<T>,
}

#[derive(Deserialize)]
struct Regression {
    name: String,
    similarity: Vec<f64>,
    rating: Vec<f64>,
    expected: Expected,
}

#[derive(Deserialize)]
struct Expected {
    intercept: f64,
    slope: f64,
    log_precision: f64,
    standard_errors: [f64; 3],
    covariance: [[f64; 3]; 3],
    log_likelihood: f64,
}

#[derive(Deserialize)]
struct Agreement {
    name: String,
    a: Vec<f64>,
    b: Vec<f64>,
    pearson: f64,
    spearman: f64,
}

#[track_caller]
fn close(what: &str, got: f64, expected: f64, tolerance: f64) {
    let error = (got - expected).abs() / expected.abs();
    assert!(
        error < tolerance,
        "{what}: got {got}, expected {expected}, relative error {error:e}"
    );
}

/// Both sides are at the maximum to full precision; what is left is the rounding of the gamma functions.
#[test]
fn beta_regression_equals_statsmodels() {
    let file: File<Regression> = serde_json::from_str(include_str!("golden/beta_regression.json")).unwrap();
    assert!(file.cases.len() > 5);
    for Regression {
        name,
        similarity,
        rating,
        expected,
    } in file.cases
    {
        let data: Vec<_> = similarity
            .into_iter()
            .zip(rating)
            .map(|(similarity, rating)| Observation { similarity, rating })
            .collect();
        let found =
            beta_regression(&data, FitOptions::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let check = |what: &str, got, expected| close(&format!("{name}, {what}"), got, expected, 1e-7);
        check("intercept", found.intercept, expected.intercept);
        check("slope", found.slope, expected.slope);
        check("log precision", found.log_precision, expected.log_precision);
        check("log-likelihood", found.log_likelihood, expected.log_likelihood);
        for i in 0..3 {
            check(
                "standard error",
                found.standard_errors[i],
                expected.standard_errors[i],
            );
            for j in 0..3 {
                check("covariance", found.covariance[i][j], expected.covariance[i][j]);
            }
        }
        assert!(found.iterations < 30, "{name}: {} iterations", found.iterations);
    }
}

#[test]
fn correlations_equal_scipy() {
    let file: File<Agreement> = serde_json::from_str(include_str!("golden/agreement.json")).unwrap();
    assert!(file.cases.len() > 5);
    for case in file.cases {
        // Values near 1e6 that differ by about 1 lose 6 of 16 digits to their mean.
        close(&case.name, pearson(&case.a, &case.b).unwrap(), case.pearson, 1e-9);
        close(
            &case.name,
            spearman(&case.a, &case.b).unwrap(),
            case.spearman,
            1e-12,
        );
    }
}
