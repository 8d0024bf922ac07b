use hark_audio::{MelConfig, MelSpectrogram};

use super::*;
use crate::config::Config;
use crate::kind::{self, Kind, Style};
use crate::scene::{self, Attributes, Count, Described, Description, Loudness, Pace, Pitch};

/// All that can be said of a kind, plain first.
fn all_attributes(kind: &Kind) -> Vec<Attributes> {
    let plain = Attributes {
        count: kind.has(Style::Counted).then_some(Count::Twice),
        ..Attributes::default()
    };
    let mut out = vec![plain];
    if kind.has(Style::Paced) {
        out.extend([Pace::Slow, Pace::Fast].map(|pace| Attributes {
            pace: Some(pace),
            ..plain
        }));
    }
    if kind.pitched() {
        out.extend([Pitch::Low, Pitch::High].map(|pitch| Attributes {
            pitch: Some(pitch),
            ..plain
        }));
    }
    if kind.has(Style::Counted) {
        out.extend([Count::Once, Count::Many].map(|count| Attributes {
            count: Some(count),
            ..plain
        }));
    }
    out
}

fn one_event(kind: usize, attributes: Attributes) -> Description {
    Description {
        slots: 1,
        events: vec![Described {
            first: 0,
            left: 0,
            kind,
            attributes,
        }],
    }
}

#[test]
fn every_kind_sounds_at_every_length_and_rate() {
    let kinds = kind::synthesised(usize::MAX);
    for (number, kind) in kinds.iter().enumerate() {
        for attributes in all_attributes(kind) {
            for (seconds, rate) in [(1.0, 16_000), (4.0, 32_000), (9.0, 48_000)] {
                let config = Config {
                    seconds,
                    rate,
                    ..Config::default()
                };
                let mut random = Random::new(number as u64);
                let plan = scene::plan(
                    &one_event(number, attributes),
                    config.seconds,
                    &kinds,
                    None,
                    &mut random,
                );
                let event = &plan.events[0];
                let samples = render(kind.synthesis.unwrap().sound, event, rate, random);
                let what = format!("{} of {seconds} s at {rate} Hz, {attributes:?}", kind.name);
                assert_eq!(
                    samples.len(),
                    ((event.end - event.start) * f64::from(rate)).round() as usize
                );
                assert!(
                    samples
                        .iter()
                        .all(|sample| sample.is_finite() && sample.abs() <= 1.0),
                    "{what}"
                );
                // A click of a few milliseconds in a second has an effective value of a hundredth of its peak.
                let effective = (samples.iter().map(|x| x * x).sum::<f64>() / samples.len() as f64).sqrt();
                assert!(effective > 0.01, "{what}: {effective}");
            }
        }
    }
}

/// Which frames of a clip are looked at.
#[derive(Clone, Copy, PartialEq)]
enum Frames {
    All,
    /// Those in the upper half between the quietest and the loudest.
    Loud,
}

/// Mean and deviation over time of every band of the log-mel of a clip with one event, the mean without the clip's
/// level, which says nothing about the kind.
fn features(kinds: &[Kind], kind: usize, mel: &MelSpectrogram, seed: u64) -> [Vec<f64>; 2] {
    let config = Config::default();
    let mut random = Random::new(hark_work::random::key(&[seed, kind as u64]));
    let choices = all_attributes(&kinds[kind]);
    let mut attributes = choices[random.below(choices.len())];
    attributes.loudness = [None, Some(Loudness::Quiet), Some(Loudness::Loud)][random.below(3)];
    let plan = scene::plan(
        &one_event(kind, attributes),
        config.seconds,
        kinds,
        None,
        &mut random,
    );
    let event = &plan.events[0];
    let sound = kinds[kind].synthesis.unwrap().sound;
    let samples = render(sound, event, config.rate, Random::new(random.next()));
    let mut mix: Vec<f64> = noise((4.0 * f64::from(config.rate)) as usize, &mut random);
    // Noise from -1 to 1 has an effective value of 1 / sqrt(3).
    let floor = 10_f64.powf(plan.floor / 20.0) * 3_f64.sqrt();
    for sample in &mut mix {
        *sample *= floor;
    }
    let gain = 10_f64.powf(event.level / 20.0);
    add(&mut mix, f64::from(config.rate), event.start, &samples, gain);
    let mix: Vec<f32> = mix.iter().map(|&sample| sample as f32).collect();
    let log_mel = mel.compute(&mix).unwrap();
    let value = |band: usize, frame: usize| f64::from(log_mel.values[band * log_mel.frames + frame]);
    let level: Vec<f64> = (0..log_mel.frames)
        .map(|frame| (0..log_mel.mels).map(|band| value(band, frame)).sum())
        .collect();
    let (least, most) = level
        .iter()
        .fold((f64::MAX, f64::MIN), |(a, b), &x| (a.min(x), b.max(x)));
    [Frames::All, Frames::Loud].map(|frames| {
        let chosen: Vec<usize> = (0..log_mel.frames)
            .filter(|&frame| frames == Frames::All || level[frame] >= f64::midpoint(least, most))
            .collect();
        let mut features = Vec::new();
        for band in 0..log_mel.mels {
            let mean = chosen.iter().map(|&frame| value(band, frame)).sum::<f64>() / chosen.len() as f64;
            let squares: f64 = chosen
                .iter()
                .map(|&frame| (value(band, frame) - mean).powi(2))
                .sum();
            features.extend([mean, (squares / chosen.len() as f64).sqrt()]);
        }
        let mean = features.iter().step_by(2).sum::<f64>() / log_mel.mels as f64;
        features.iter_mut().step_by(2).for_each(|x| *x -= mean);
        features
    })
}

/// The kind whose mean is nearest, every feature measured by its deviation within kinds.
struct NearestMean {
    means: Vec<Vec<f64>>,
    deviations: Vec<f64>,
}

impl NearestMean {
    fn fit(examples: &[Vec<Vec<f64>>]) -> Self {
        let size = examples[0][0].len();
        let means: Vec<Vec<f64>> = examples
            .iter()
            .map(|of_kind| {
                (0..size)
                    .map(|place| of_kind.iter().map(|x| x[place]).sum::<f64>() / of_kind.len() as f64)
                    .collect()
            })
            .collect();
        let all = examples.iter().map(Vec::len).sum::<usize>() as f64;
        let deviations = (0..size)
            .map(|place| {
                let squares: f64 = examples
                    .iter()
                    .zip(&means)
                    .flat_map(|(of_kind, mean)| of_kind.iter().map(move |x| (x[place] - mean[place]).powi(2)))
                    .sum();
                (squares / all).sqrt().max(1e-3)
            })
            .collect();
        Self { means, deviations }
    }

    fn nearest(&self, features: &[f64]) -> usize {
        let distance = |mean: &[f64]| -> f64 {
            let parts = features.iter().zip(mean).zip(&self.deviations);
            parts
                .map(|((x, mean), deviation)| ((x - mean) / deviation).powi(2))
                .sum()
        };
        (0..self.means.len())
            .min_by(|&a, &b| distance(&self.means[a]).total_cmp(&distance(&self.means[b])))
            .unwrap()
    }
}

/// A network can learn the kinds if even the distance to the mean of each kind tells most of them apart, over all
/// loudnesses, paces, pitches and counts: from whole clips, most of which may be silence, and better from where they
/// sound. Chance is one in twenty-five.
#[test]
fn kinds_can_be_told_apart() {
    const TRAIN: u64 = 24;
    const TEST: usize = 12;
    let kinds = kind::synthesised(usize::MAX);
    let mel = MelSpectrogram::new(MelConfig {
        mels: 64,
        ..MelConfig::default()
    })
    .unwrap();
    let train: Vec<Vec<[Vec<f64>; 2]>> = (0..kinds.len())
        .map(|kind| {
            (0..TRAIN)
                .map(|seed| features(&kinds, kind, &mel, seed))
                .collect()
        })
        .collect();
    let test: Vec<Vec<[Vec<f64>; 2]>> = (0..kinds.len())
        .map(|kind| {
            (0..TEST)
                .map(|seed| features(&kinds, kind, &mel, 1000 + seed as u64))
                .collect()
        })
        .collect();
    for (frames, name, expected) in [(0, "all frames", 0.7), (1, "loud frames", 0.85)] {
        let examples: Vec<Vec<Vec<f64>>> = train
            .iter()
            .map(|of_kind| of_kind.iter().map(|both| both[frames].clone()).collect())
            .collect();
        let classifier = NearestMean::fit(&examples);
        let mut report = String::new();
        let mut right = Vec::new();
        for (kind, of_kind) in test.iter().enumerate() {
            let wrong: Vec<&str> = of_kind
                .iter()
                .map(|both| classifier.nearest(&both[frames]))
                .filter(|&found| found != kind)
                .map(|found| kinds[found].name.as_str())
                .collect();
            right.push(TEST - wrong.len());
            report.push_str(&format!("{}: {wrong:?}\n", kinds[kind].name));
        }
        let share = right.iter().sum::<usize>() as f64 / (TEST * kinds.len()) as f64;
        println!("{name}: {share:.3}\n{report}");
        assert!(share > expected, "{name}: {share}; taken for others:\n{report}");
    }
}
