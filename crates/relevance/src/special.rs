//! The trigamma function, which `statrs` lacks.

/// The second derivative of ln Gamma, for x > 0.
///
/// psi'(x) = psi'(x + 1) + 1 / x^2 lifts x to where the asymptotic series with Bernoulli numbers, 1/x + 1/(2
/// x^2) + 1/(6 x^3) - 1/(30 x^5) + 1/(42 x^7) - 1/(30 x^9) + 5/(66 x^11) - ..., is exact to the last digits
/// of an `f64`: at x = 12 the first term left out, 691/(2730 x^13), is below 3e-15.
pub(crate) fn trigamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < 12.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    let series = 1.0 / 6.0 - y * (1.0 / 30.0 - y * (1.0 / 42.0 - y * (1.0 / 30.0 - y * 5.0 / 66.0)));
    sum + 1.0 / x + y / 2.0 + y / x * series
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::PI;

    #[test]
    fn known_values() {
        // Catalan's constant.
        let catalan = 0.915_965_594_177_219;
        for (x, expected) in [
            (1.0, PI * PI / 6.0),
            (2.0, PI * PI / 6.0 - 1.0),
            (0.5, PI * PI / 2.0),
            (1.5, PI * PI / 2.0 - 4.0),
            (0.25, PI * PI + 8.0 * catalan),
            (1e-8, 1e16),
            (1e10, 1e-10 + 5e-21),
        ] {
            let got = trigamma(x);
            assert!(
                (got / expected - 1.0).abs() < 1e-14,
                "trigamma({x}) = {got}, expected {expected}"
            );
        }
    }

    #[test]
    fn recurrence_and_reflection_hold() {
        for i in 1..2000_u32 {
            let x = f64::from(i) * 0.01;
            let step = trigamma(x) - trigamma(x + 1.0) - 1.0 / (x * x);
            assert!(step.abs() < 1e-13 * trigamma(x), "x = {x}");
            if x < 1.0 {
                let reflected = PI * PI / (PI * x).sin().powi(2);
                assert!(
                    ((trigamma(x) + trigamma(1.0 - x)) / reflected - 1.0).abs() < 1e-13,
                    "x = {x}"
                );
            }
        }
    }
}
