//! Log-mel spectrograms against AugmentMelSTFT of the Python package hear21passt, run in float64.
//!
//! `golden/mel.txt` lists the spectrograms, `golden/mel.f32` holds them one after the other; `golden/mel.py` at the
//! root of the repository wrote both. The signals are made by the same formulas here and there.
#![allow(
    clippy::cast_possible_truncation,
    reason = "samples are rounded to f32 as the script rounds them"
)]

use std::f64::consts::PI;

use hark_audio::mel::{MelConfig, MelSpectrogram};

const LIST: &str = include_str!("golden/mel.txt");
const VALUES: &[u8] = include_bytes!("golden/mel.f32");

/// The bound that is asked for is 1e-4. Found: 1.2e-7, the rounding of f32. A tenth of the bound leaves room for a
/// sine of another mathematics library, which can round a sample differently: 6e-8, and beside a tone that
/// gives 4e-6 in a quiet band.
const TOLERANCE: f32 = 1e-5;

struct Case {
    name: &'static str,
    samples: usize,
    low: f64,
    high: f64,
    frames: usize,
}

fn cases() -> Vec<Case> {
    let lines = LIST.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let [name, samples, low, high, frames, _float32_error] = fields[..] else {
                panic!("six fields in `{line}`");
            };
            Case {
                name,
                samples: samples.parse().unwrap(),
                low: low.parse().unwrap(),
                high: high.parse().unwrap(),
                frames: frames.parse().unwrap(),
            }
        })
        .collect()
}

/// SplitMix64's output function on multiples of its increment; uniform in [-1, 1), in steps of 2^-23.
fn noise(i: u64) -> f64 {
    let mut z = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (z >> 40) as f64 / f64::from(1 << 23) - 1.0
}

/// The sine of `part / whole` of a turn.
fn turn(part: u64, whole: u64) -> f64 {
    (2.0 * PI * ((part % whole) as f64 / whole as f64)).sin()
}

fn sample(name: &str, i: u64) -> f64 {
    const RATE: u64 = 32_000;
    match name {
        "constant" => 0.75,
        "tone-50" => turn(50 * i, RATE),
        "tone-1000" => 0.5 * turn(1000 * i, RATE),
        "tone-15000" => turn(15_000 * i, RATE),
        "loud-tone-8000" => 100.0 * turn(8000 * i + 4000, RATE),
        "noise" => noise(i),
        "faint-noise" => noise(i) / 4096.0,
        "clicks" => f64::from(u8::from(i % 701 == 350)),
        "sweep" => turn(54 * i * i + 655 * i, 1 << 20),
        "burst" if (1600..3200).contains(&i) => 0.9 * turn(3000 * i, RATE),
        "burst" | "silence" => 0.0,
        other => panic!("no signal is called `{other}`"),
    }
}

#[test]
fn spectrograms_equal_the_references() {
    let mel = MelSpectrogram::new(MelConfig::default()).unwrap();
    let mut expected = VALUES
        .chunks_exact(4)
        .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
    let mut found = Vec::new();
    for case in cases() {
        let samples: Vec<f32> = (0..case.samples as u64)
            .map(|i| sample(case.name, i) as f32)
            .collect();
        let made = mel.compute_with_edges(&samples, case.low, case.high).unwrap();
        assert_eq!((made.mels, made.frames), (128, case.frames), "{}", case.name);
        if (case.low, case.high) == (0.0, 15_000.0) {
            assert_eq!(mel.compute(&samples).unwrap(), made, "{}", case.name);
        }
        let mut largest: f32 = 0.0;
        for value in made.values {
            let difference = (value - expected.next().expect("as many values as the list says")).abs();
            assert!(difference.is_finite());
            largest = largest.max(difference);
        }
        found.push((
            largest,
            format!("{} {} {} {}", case.name, case.samples, case.low, case.high),
        ));
    }
    assert_eq!(expected.next(), None, "values are left over");
    assert_eq!(found.len(), 22);
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("the largest difference is {:e}, in `{}`", found[0].0, found[0].1);
    assert!(found[0].0 < TOLERANCE, "{found:?}");
}
