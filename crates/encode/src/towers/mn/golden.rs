//! An MN against EfficientAT's own, of two widths, with weights given by formulas. The values are written by
//! `golden/mn.py`.

use std::collections::BTreeMap;
use std::path::Path;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use hark_kernels::Precision;
use serde::Deserialize;

use super::{Mn, MnConfig, Output};
use crate::Error;
use crate::dropout::Training;
use crate::tensors::numbers;
use crate::towers::{MelBatch, Tower};
use crate::weights::{Init, TensorSource, Weights};
use crate::weights_file;
use hark_work::random::mix;

#[derive(Deserialize)]
struct Golden {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    width: f64,
    frames: usize,
    segments: usize,
    features: Vec<f32>,
    probabilities: Vec<f32>,
    batch_features: Vec<f32>,
    batch_probabilities: Vec<f32>,
    running: BTreeMap<String, Vec<f32>>,
    gradients: BTreeMap<String, Vec<f32>>,
}

/// The script's formula for weights.
struct Formula;

fn formula(start: u64, count: usize) -> impl Iterator<Item = f32> {
    (0..count as u64).map(move |nth| {
        let bits = mix(start.wrapping_add(nth)) >> 40;
        (bits as f64 / f64::from(1 << 24) * 2.0 - 1.0) as f32
    })
}

impl Weights for Formula {
    fn numbers(&self, name: &str, shape: &[usize], _: Init) -> Result<Vec<f32>, Error> {
        let start = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let numbers = formula(start >> 1, shape.iter().product());
        let inputs: usize = shape.iter().skip(1).product();
        Ok(if shape.len() > 1 {
            let scale = (3.0 / inputs as f64) as f32;
            numbers.map(|x| x * scale.sqrt()).collect()
        } else if name.ends_with("running_var") {
            numbers.map(|x| 1.0 + 0.5 * x).collect()
        } else if name.ends_with("weight") {
            numbers.map(|x| 1.0 + 0.1 * x).collect()
        } else {
            numbers.map(|x| 0.1 * x).collect()
        })
    }
}

fn cases() -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/mn.json");
    let golden: Golden = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    golden.cases
}

impl Case {
    fn mels(&self) -> MelBatch {
        let values = formula(1 << 40, self.segments * 128 * self.frames);
        MelBatch::new(values.collect(), 128, self.frames).unwrap()
    }

    fn network(&self, output: Output, device: &Device) -> Mn {
        let config = MnConfig {
            output,
            ..MnConfig::of_width(self.width)
        };
        Mn::build(&config, &TensorSource::new(&Formula, "", device)).unwrap()
    }
}

fn training(case: &Case) -> Training {
    Training::new(1, (0..case.segments as u64).collect())
}

#[track_caller]
fn assert_near(ours: &[f32], theirs: &[f32], allowed: f32, what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    let largest = theirs.iter().fold(1.0_f32, |most, x| most.max(x.abs()));
    for (nth, (a, b)) in ours.iter().zip(theirs).enumerate() {
        assert!(
            (a - b).abs() <= allowed * largest,
            "{what}, number {nth}: {a}, not {b}"
        );
    }
}

/// Both, `[segments, classes + features]`, taken apart.
fn parts(case: &Case, both: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let rows: Vec<&[f32]> = both.chunks_exact(both.len() / case.segments).collect();
    (
        rows.iter().flat_map(|row| &row[..527]).copied().collect(),
        rows.iter().flat_map(|row| &row[527..]).copied().collect(),
    )
}

#[test]
fn outputs_equal_the_reference_in_both_forms() {
    for case in cases() {
        let network = case.network(Output::Both, &Device::flex());
        let plain = numbers(network.forward(&case.mels(), None).unwrap());
        let folded = network
            .inference(Precision::F32)
            .unwrap()
            .forward(&case.mels())
            .unwrap();
        for (form, both) in [("network", plain), ("folded", folded)] {
            let (probabilities, features) = parts(&case, &both);
            let what = format!("{form} of width {}", case.width);
            assert_near(
                &probabilities,
                &case.probabilities,
                1e-5,
                &format!("{what}, classes"),
            );
            assert_near(&features, &case.features, 1e-5, &format!("{what}, features"));
        }
    }
}

#[test]
fn each_output_is_its_part() {
    let case = &cases()[1];
    let of = |output| {
        let network = case.network(output, &Device::flex());
        assert_eq!(
            Tower::width(&network) * case.segments,
            numbers(network.forward(&case.mels(), None).unwrap()).len()
        );
        network
            .inference(Precision::F32)
            .unwrap()
            .forward(&case.mels())
            .unwrap()
    };
    let (probabilities, features) = parts(case, &of(Output::Both));
    assert_eq!(of(Output::Classes), probabilities);
    assert_eq!(of(Output::Features), features);
}

#[test]
fn a_training_step_equals_the_reference() {
    for case in cases() {
        let device = Device::flex().autodiff();
        let network = case.network(Output::Both, &device).train();
        let training = training(&case);
        let out: Tensor<2> = network.forward(&case.mels(), Some(&training)).unwrap();
        let (probabilities, features) = parts(&case, &numbers(out.clone().inner()));
        let what = format!("width {}", case.width);
        assert_near(&probabilities, &case.batch_probabilities, 3e-5, &what);
        assert_near(&features, &case.batch_features, 3e-5, &what);
        let loss = out.slice([0..case.segments, 0..527]).sum();
        let mut gradients = BTreeMap::new();
        weights_file::gradients(&network, loss.backward(), &mut |name, gradient| {
            gradients.insert(name, numbers(gradient));
        });
        for (theirs, ours) in [
            ("features.0.0.weight", "stem.weight"),
            ("features.1.block.0.0.weight", "blocks.0.depthwise.weight"),
            ("features.16.1.weight", "last.norm.scale"),
            ("classifier.5.bias", "classifier.output.bias"),
        ] {
            assert_near(
                &gradients[ours],
                &case.gradients[theirs],
                3e-4,
                &format!("{what}, gradient of {theirs}"),
            );
        }
        let after: BTreeMap<String, Vec<f32>> = weights_file::parameters(&network)
            .into_iter()
            .map(|tensor| (tensor.name.clone(), (tensor.numbers)()))
            .collect();
        for (theirs, ours) in [
            ("features.0.1.running_mean", "stem.norm.mean"),
            ("features.0.1.running_var", "stem.norm.variance"),
            ("features.16.1.running_mean", "last.norm.mean"),
            ("features.16.1.running_var", "last.norm.variance"),
        ] {
            assert_near(
                &after[ours],
                &case.running[theirs],
                1e-5,
                &format!("{what}, {theirs}"),
            );
        }
    }
}

#[test]
fn frozen_statistics_stay_as_they_are() {
    let case = &cases()[1];
    let config = MnConfig {
        statistics: super::Statistics::Frozen,
        ..MnConfig::of_width(case.width)
    };
    let device = Device::flex().autodiff();
    let network = Mn::build(&config, &TensorSource::new(&Formula, "", &device))
        .unwrap()
        .train();
    let out = network.forward(&case.mels(), Some(&training(case))).unwrap();
    assert_near(&numbers(out.inner()), &case.features, 1e-5, "features");
}
