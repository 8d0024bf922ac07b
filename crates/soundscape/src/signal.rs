//! What the sounds are built of: noise, tones, filters and envelopes on plain buffers of samples.
//!
//! Filters are of the second order, with the coefficients of the bilinear transform. Frequencies above 0.45 of the
//! rate are lowered to it, so that every kind can be made at every rate.

use std::f64::consts::{PI, TAU};

use hark_work::random::Random;

/// Samples from -1 to 1, all values equally likely.
pub(super) fn noise(length: usize, random: &mut Random) -> Vec<f64> {
    (0..length).map(|_| random.signed()).collect()
}

#[derive(Clone, Copy)]
enum Pass {
    Low,
    High,
    Band,
}

/// Keep what is below a frequency.
pub(super) fn low_pass(samples: &mut [f64], rate: f64, frequency: f64) {
    filter(
        samples,
        rate,
        frequency,
        std::f64::consts::FRAC_1_SQRT_2,
        Pass::Low,
    );
}

/// Keep what is above a frequency.
pub(super) fn high_pass(samples: &mut [f64], rate: f64, frequency: f64) {
    filter(
        samples,
        rate,
        frequency,
        std::f64::consts::FRAC_1_SQRT_2,
        Pass::High,
    );
}

/// Keep what is around a frequency; the higher `sharpness`, the less of it.
pub(super) fn band_pass(samples: &mut [f64], rate: f64, frequency: f64, sharpness: f64) {
    filter(samples, rate, frequency, sharpness, Pass::Band);
}

fn filter(samples: &mut [f64], rate: f64, frequency: f64, sharpness: f64, pass: Pass) {
    let (sine, cosine) = (TAU * (frequency / rate).clamp(1e-5, 0.45)).sin_cos();
    let alpha = sine / (2.0 * sharpness);
    let (b0, b1, b2) = match pass {
        Pass::Low => (0.5 - 0.5 * cosine, 1.0 - cosine, 0.5 - 0.5 * cosine),
        Pass::High => (0.5 + 0.5 * cosine, -1.0 - cosine, 0.5 + 0.5 * cosine),
        Pass::Band => (alpha, 0.0, -alpha),
    };
    let (a0, a1, a2) = (1.0 + alpha, -2.0 * cosine, 1.0 - alpha);
    let (mut x1, mut x2, mut y1, mut y2) = (0.0, 0.0, 0.0, 0.0);
    for sample in samples {
        let x = *sample;
        let y = (b0 * x + b1 * x1 + b2 * x2 - a1 * y1 - a2 * y2) / a0;
        (x2, x1, y2, y1) = (x1, x, y1, y);
        *sample = y;
    }
}

/// A tone with overtones: `strengths[k]` belongs to `k + 1` times the frequency, which changes with time (0 to 1 over
/// the length). Overtones above 0.45 of the rate are left out.
pub(super) fn voice(length: usize, rate: f64, strengths: &[f64], frequency: impl Fn(f64) -> f64) -> Vec<f64> {
    let mut phase = 0.0;
    (0..length)
        .map(|at| {
            let frequency = frequency(at as f64 / length as f64).min(0.45 * rate);
            phase = (phase + frequency / rate).fract();
            let most = (0.45 * rate / frequency) as usize;
            strengths
                .iter()
                .take(most.max(1))
                .zip(1..)
                .map(|(strength, number)| strength * (TAU * phase * f64::from(number)).sin())
                .sum()
        })
        .collect()
}

/// A sum of tones that each die away: frequency, strength, seconds to fall to 1/e.
pub(super) fn ringing(length: usize, rate: f64, partials: &[(f64, f64, f64)]) -> Vec<f64> {
    let mut out = vec![0.0; length];
    for &(frequency, strength, seconds) in partials {
        let frequency = frequency.min(0.45 * rate);
        for (at, sample) in out.iter_mut().enumerate() {
            let time = at as f64 / rate;
            *sample += strength * (-time / seconds).exp() * (TAU * frequency * time).sin();
        }
    }
    out
}

/// Multiply by a function of time in seconds.
pub(super) fn shape(samples: &mut [f64], rate: f64, envelope: impl Fn(f64) -> f64) {
    for (at, sample) in samples.iter_mut().enumerate() {
        *sample *= envelope(at as f64 / rate);
    }
}

/// From 0 to 1 within `attack` seconds, then down to 1/e in every `decay` seconds.
pub(super) fn pluck(time: f64, attack: f64, decay: f64) -> f64 {
    if time < attack {
        time / attack
    } else {
        (-(time - attack) / decay).exp()
    }
}

/// A hill over `length` seconds: up within `edge`, level, down within `edge`.
pub(super) fn hill(time: f64, length: f64, edge: f64) -> f64 {
    let edge = edge.min(length / 2.0).max(1e-6);
    let rise = (time / edge).clamp(0.0, 1.0);
    let fall = ((length - time) / edge).clamp(0.0, 1.0);
    0.5 - 0.5 * (PI * rise.min(fall)).cos()
}

/// Add a piece from a time on, as far as there is room.
pub(super) fn add(out: &mut [f64], rate: f64, start: f64, piece: &[f64], gain: f64) {
    let start = (start * rate).round().max(0.0) as usize;
    for (sample, &value) in out.iter_mut().skip(start).zip(piece) {
        *sample += gain * value;
    }
}

/// Slow random movement between 0 and 1: numbers drawn `per_second`, joined by half waves of a cosine.
pub(super) fn drift(seconds: f64, per_second: f64, random: &mut Random) -> impl Fn(f64) -> f64 + use<> {
    let knots: Vec<f64> = (0..(seconds * per_second) as usize + 3)
        .map(|_| random.unit())
        .collect();
    move |time: f64| {
        let place = (time * per_second).max(0.0);
        let knot = (place as usize).min(knots.len() - 2);
        let weight = 0.5 - 0.5 * (PI * (place - knot as f64).clamp(0.0, 1.0)).cos();
        knots[knot] + (knots[knot + 1] - knots[knot]) * weight
    }
}

/// Scale so that the largest magnitude is 1; silence stays silence.
pub(super) fn to_full_scale(samples: &mut [f64]) {
    let peak = samples
        .iter()
        .fold(0.0, |peak, sample| f64::max(peak, sample.abs()));
    if peak > 0.0 {
        for sample in samples {
            *sample /= peak;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn power(samples: &[f64]) -> f64 {
        samples.iter().map(|sample| sample * sample).sum::<f64>() / samples.len() as f64
    }

    #[test]
    fn filters_pass_and_stop_what_they_should() {
        let tone = |frequency: f64| voice(32_000, 32_000.0, &[1.0], |_| frequency);
        let gain = |filter: fn(&mut [f64], f64, f64), frequency: f64| {
            let mut samples = tone(frequency);
            let before = power(&samples);
            filter(&mut samples, 32_000.0, 1000.0);
            10.0 * (power(&samples) / before).log10()
        };
        // Twelve dB an octave: three octaves away are 36 dB, at the edge itself 3 dB.
        assert!((gain(low_pass, 1000.0) + 3.0).abs() < 0.2);
        assert!(gain(low_pass, 100.0).abs() < 0.1 && gain(low_pass, 8000.0) < -34.0);
        assert!(gain(high_pass, 8000.0).abs() < 0.1 && gain(high_pass, 125.0) < -34.0);
        let band = |samples: &mut [f64], rate, frequency| band_pass(samples, rate, frequency, 2.0);
        assert!(gain(band, 1000.0).abs() < 0.1 && gain(band, 250.0) < -15.0 && gain(band, 4000.0) < -15.0);
    }

    #[test]
    fn envelopes_stay_between_0_and_1() {
        let movement = drift(1.0, 8.0, &mut Random::new(1));
        for step in 0..300 {
            let time = f64::from(step) / 100.0;
            for value in [hill(time, 1.0, 0.1), pluck(time, 0.01, 0.2), movement(time)] {
                assert!((0.0..=1.0).contains(&value), "{value} at {time}");
            }
        }
    }
}
