//! Whether a device computes what the CPU computes.
//!
//! Backends of GPUs have given wrong gradients without a word. Before a device is trained on, towers of every kind are therefore
//! computed on it and on the CPU, with the same weights and inputs: their outputs, the gradients of all parameters under dropout
//! and patchout, and the losses of a short training. The CPU's own values are held to PyTorch's by tests.
//!
//! In: a device. Out: the largest difference of each kind and what is allowed. Differences of outputs and gradients are relative to
//! the largest number of the tensor, those of losses to the loss.

use burn::module::Module;
use hark_encode::dropout::Training;
use hark_encode::dual::{DualEncoder, SideConfig};
use hark_encode::towers::bert::{BertConfig, Family, Pooling};
use hark_encode::towers::cnn::CnnConfig;
use hark_encode::towers::mn::MnConfig;
use hark_encode::towers::passt::{PasstConfig, Patchout};
use hark_encode::towers::roberta::RobertaConfig;
use hark_encode::towers::{AudioConfig, MelBatch, TextConfig, TokenBatch, Tower};
use hark_encode::weights::RandomInit;
use hark_encode::{Arithmetic, Compute, DeviceName};
use hark_nearest::Vectors;
use hark_relevance::RelevanceFunction;
use hark_work::progress::Progress;
use hark_work::random::{Random, key};
use serde_json::json;

use crate::Error;
use crate::guard::guarded;
use crate::objective::{Direction, Objective, Target};
use crate::optimizer::{AdamW, AdamWConfig, clip_factor};
use crate::recipe::TrainPrecision;
use crate::split::numbers;
use crate::step::{self, AudioInput, TextInput};

/// How much is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// One pair of towers and three steps: seconds.
    Short,
    /// Every kind of tower and twenty steps.
    Full,
}

/// One comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// What was compared.
    pub what: String,
    /// The largest difference; not a number if the device gave none.
    pub difference: f64,
    /// The largest that is allowed.
    pub allowed: f64,
}

impl Finding {
    /// Whether the difference is allowed.
    pub fn passed(&self) -> bool {
        self.difference <= self.allowed
    }
}

/// What a check has found.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceReport {
    /// The device.
    pub device: DeviceName,
    /// The numbers that its products are made of.
    pub arithmetic: Arithmetic,
    /// Every comparison.
    pub findings: Vec<Finding>,
}

impl DeviceReport {
    /// Whether all differences are allowed.
    pub fn passed(&self) -> bool {
        self.findings.iter().all(Finding::passed)
    }

    /// The comparison that is farthest from what is allowed.
    pub fn worst(&self) -> Option<&Finding> {
        let excess = |finding: &&Finding| {
            let excess = finding.difference / finding.allowed;
            if excess.is_nan() { f64::INFINITY } else { excess }
        };
        self.findings
            .iter()
            .max_by(|a, b| excess(a).total_cmp(&excess(b)))
    }
}

impl DeviceReport {
    /// The report for programs.
    pub fn json(&self) -> serde_json::Value {
        let findings = self.findings.iter().map(|finding| {
            json!({
                "what": finding.what, "difference": finding.difference, "allowed": finding.allowed,
                "passed": finding.passed(),
            })
        });
        json!({
            "device": self.device, "arithmetic": self.arithmetic.to_string(), "passed": self.passed(),
            "findings": findings.collect::<Vec<_>>(),
        })
    }
}

/// A line for each comparison.
impl std::fmt::Display for DeviceReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}, products in {}, against cpu", self.device, self.arithmetic)?;
        for finding in &self.findings {
            let Finding {
                what,
                difference,
                allowed,
            } = finding;
            let passed = if finding.passed() { "ok  " } else { "FAIL" };
            writeln!(f, "{passed}  {difference:8.1e} of {allowed:.0e} allowed  {what}")?;
        }
        Ok(())
    }
}

/// What is allowed: roundings of 32 or of 16 bits, gathered over the layers.
struct Bounds {
    output: f64,
    gradient: f64,
    loss: f64,
}

impl Bounds {
    fn of(arithmetic: Arithmetic) -> Self {
        match arithmetic {
            Arithmetic::F32 => Self {
                output: 1e-4,
                gradient: 1e-3,
                loss: 1e-3,
            },
            // 8 bits of a fraction in bf16.
            Arithmetic::Bf16 | Arithmetic::F16 => Self {
                output: 0.05,
                gradient: 0.25,
                loss: 0.05,
            },
        }
    }
}

/// Pairs of a batch.
const PAIRS: usize = 6;
const CAPTION_DIM: usize = 16;

/// Two sides, and inputs for them.
struct Case {
    name: &'static str,
    audio: AudioConfig,
    text: TextConfig,
    frames: usize,
    segments: usize,
}

fn roberta() -> TextConfig {
    TextConfig::Roberta(RobertaConfig {
        vocabulary: 90,
        positions: 40,
        width: 48,
        hidden: 96,
        layers: 2,
        heads: 3,
        dropout: 0.1,
        attention_dropout: 0.1,
        ..RobertaConfig::large()
    })
}

fn cnn() -> AudioConfig {
    AudioConfig::Cnn(CnnConfig {
        mels: 32,
        channels: vec![4, 8],
        width: 24,
    })
}

fn cases(extent: Extent) -> Vec<Case> {
    let passt = |width: usize, patchout: Patchout| {
        AudioConfig::Passt(PasstConfig {
            mels: 32,
            patch: 8,
            stride: 8,
            columns: 9,
            width,
            hidden: 2 * width,
            layers: 2,
            heads: 4,
            epsilon: 1e-6,
            patchout,
        })
    };
    let patchout = Patchout {
        time: 2,
        frequency: 1,
        unstructured: 1,
    };
    let mut cases = vec![Case {
        name: "PaSST and RoBERTa",
        audio: passt(64, patchout),
        text: roberta(),
        frames: 72,
        segments: 2,
    }];
    if extent == Extent::Short {
        return cases;
    }
    let sentence = |family, pooling, buckets| {
        TextConfig::Sentence(BertConfig {
            family,
            vocabulary: 90,
            positions: 40,
            width: 32,
            hidden: 64,
            layers: 2,
            heads: 4,
            epsilon: 1e-5,
            types: 2,
            buckets,
            pooling,
            dropout: 0.1,
            attention_dropout: 0.1,
        })
    };
    cases.push(Case {
        // Sizes that are no multiples of what kernels take at a time.
        name: "PaSST of odd sizes and BERT",
        audio: passt(100, Patchout::default()),
        text: sentence(Family::Bert, Pooling::Mean, None),
        frames: 65,
        segments: 1,
    });
    cases.push(Case {
        name: "CNN and MPNet",
        audio: cnn(),
        text: sentence(Family::Mpnet, Pooling::Mean, Some(16)),
        frames: 50,
        segments: 1,
    });
    cases.push(Case {
        name: "MN and RoBERTa",
        audio: AudioConfig::Mn(MnConfig {
            mels: 32,
            classes: 0,
            ..MnConfig::of_width(0.1)
        }),
        text: roberta(),
        frames: 64,
        segments: 1,
    });
    cases
}

impl Case {
    fn network(&self, seed: u64, compute: &Compute) -> Result<DualEncoder, Error> {
        let (audio, text) = (
            SideConfig {
                network: self.audio.clone(),
                projection: vec![40, 20],
            },
            SideConfig {
                network: self.text.clone(),
                projection: vec![20],
            },
        );
        // Weights that matter: with the small ones that trainings begin with, attention is flat.
        let weights = Lively(RandomInit(seed));
        Ok(DualEncoder::build(
            Some(&audio),
            Some(&text),
            &weights,
            compute.device(),
        )?)
    }

    fn mels(&self, network: &DualEncoder, seed: u64) -> Result<MelBatch, Error> {
        let bands = network.audio.as_ref().map_or(1, |side| side.tower.max_input()[0]);
        let mut random = Random::new(key(&[seed, 1]));
        let count = PAIRS * self.segments * bands * self.frames;
        let values = (0..count).map(|_| random.signed() as f32).collect();
        Ok(MelBatch::new(values, bands, self.frames)?)
    }
}

/// Random weights of a width that lets every part of a network matter.
struct Lively(RandomInit);

impl hark_encode::weights::Weights for Lively {
    fn numbers(
        &self,
        name: &str,
        shape: &[usize],
        init: hark_encode::weights::Init,
    ) -> Result<Vec<f32>, hark_encode::Error> {
        use hark_encode::weights::Init;
        // Running variances are above zero.
        if name.ends_with("running_var") {
            return self.0.numbers(name, shape, Init::Ones);
        }
        let mut numbers = self.0.numbers(name, shape, Init::Normal(1.0))?;
        let (around, deviation) = match init {
            Init::Ones => (1.0, 0.1),
            Init::Zeros => (0.0, 0.1),
            Init::Normal(_) | Init::Uniform(_) => {
                let inputs: usize = shape.iter().skip(1).product::<usize>().max(1);
                (0.0, 1.0 / (inputs as f32).sqrt())
            }
        };
        for x in &mut numbers {
            *x = around + deviation * *x;
        }
        Ok(numbers)
    }
}

fn tokens(seed: u64) -> Result<TokenBatch, Error> {
    let mut random = Random::new(key(&[seed, 2]));
    let texts: Vec<Vec<u32>> = (0..PAIRS)
        .map(|nth| {
            (0..5 + 3 * (nth % 4))
                .map(|_| 4 + random.below(80) as u32)
                .collect()
        })
        .collect();
    Ok(TokenBatch::new(texts.iter().map(Vec::as_slice))?)
}

fn captions(seed: u64) -> Vec<f32> {
    let mut random = Random::new(key(&[seed, 3]));
    let mut all = Vec::new();
    for _ in 0..PAIRS {
        let row: Vec<f64> = (0..CAPTION_DIM).map(|_| random.normal()).collect();
        let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
        all.extend(row.into_iter().map(|x| (x / norm) as f32));
    }
    all
}

fn objective() -> Objective {
    Objective {
        target: Target::Graded {
            function: RelevanceFunction::logistic(),
            omega: 0.05,
            binary_weight: 0.2,
        },
        direction: Direction::Both,
        tau: 0.1,
    }
}

/// Compares a device with the CPU.
///
/// # Errors
/// As [`Compute::on`]; if the device fails, [`Error::DeviceBroke`]; [`Error::Cancelled`].
pub fn check(
    device: DeviceName,
    precision: TrainPrecision,
    extent: Extent,
    progress: Progress<'_>,
) -> Result<DeviceReport, Error> {
    let (cpu, other) = (Compute::cpu(1), Compute::on(device, 1)?);
    let arithmetic = precision.on(device, &other)?;
    let cases = cases(extent);
    let total = cases.len() as u64 + 1;
    let mut findings = Vec::new();
    for (nth, case) in cases.iter().enumerate() {
        if progress(nth as u64, total).is_break() {
            return Err(Error::Cancelled);
        }
        findings.extend(guarded(device, None, || compare(case, &cpu, &other, arithmetic))?);
    }
    if progress(cases.len() as u64, total).is_break() {
        return Err(Error::Cancelled);
    }
    let steps = if extent == Extent::Full { 20 } else { 3 };
    let found = guarded(device, None, || {
        trained(&cases[0], steps, &cpu, &other, arithmetic)
    })?;
    findings.push(found);
    Ok(DeviceReport {
        device,
        arithmetic,
        findings,
    })
}

/// The largest difference, relative to the largest number of `theirs`.
fn difference(ours: &[f32], theirs: &[f32]) -> f64 {
    if ours.len() != theirs.len() {
        return f64::NAN;
    }
    let largest = theirs
        .iter()
        .fold(0.0_f64, |most, x| most.max(f64::from(x.abs())));
    let off = ours
        .iter()
        .zip(theirs)
        .map(|(a, b)| (f64::from(*a) - f64::from(*b)).abs());
    // A number that is none is farther than any other.
    let worst = off.fold(
        0.0,
        |most: f64, off| if most.is_nan() || off <= most { most } else { off },
    );
    worst / largest.max(f64::MIN_POSITIVE)
}

/// Outputs and gradients of a case.
fn compare(
    case: &Case,
    cpu: &Compute,
    other: &Compute,
    arithmetic: Arithmetic,
) -> Result<Vec<Finding>, Error> {
    let bounds = Bounds::of(arithmetic);
    let finding = |what: &str, difference: f64, allowed: f64| Finding {
        what: format!("{}: {what}", case.name),
        difference,
        allowed,
    };
    let side = |compute: &Compute| -> Result<_, Error> {
        let mut network = case.network(1, compute)?;
        if !compute.is_cpu() {
            network.set_arithmetic(arithmetic);
        }
        let (mels, tokens) = (case.mels(&network, 1)?, tokens(1)?);
        let segments = [case.segments; PAIRS];
        let (Some(audio), Some(text)) = (&network.audio, &network.text) else {
            return Err(Error::NoSide);
        };
        let outputs = (
            numbers(audio.forward(&mels, &segments, None)?)?,
            numbers(text.forward(&tokens, None)?)?,
        );
        let objective = objective();
        let clips: Vec<u32> = (0..PAIRS as u32).collect();
        let captions = captions(1);
        let targets = objective.targets(&clips, Some(Vectors::new(&captions, CAPTION_DIM)?))?;
        let found = step::gradients(
            &network.train(),
            &objective,
            &AudioInput::LogMels {
                mels: &mels,
                segments: &segments,
            },
            &TextInput::Tokens(tokens),
            &targets,
            Some(&Training::new(9, (0..PAIRS as u64).collect())),
            &step::Options::default(),
        )?;
        Ok((outputs, found.loss()?, found.gradients))
    };
    let (theirs, ours) = (side(cpu)?, side(other)?);
    let mut findings = vec![
        finding(
            "audio embeddings",
            difference(&ours.0.0, &theirs.0.0),
            bounds.output,
        ),
        finding(
            "text embeddings",
            difference(&ours.0.1, &theirs.0.1),
            bounds.output,
        ),
        finding(
            "loss in training",
            f64::from((ours.1 - theirs.1).abs() / theirs.1.abs().max(1e-6)),
            bounds.loss,
        ),
    ];
    // A parameter whose gradient is small beside all others is compared with these.
    let of_all = theirs
        .2
        .iter()
        .map(|(_, values)| largest(&values.to_vec()))
        .fold(0.0, f64::max);
    let mut worst = (0.0_f64, String::new());
    let mut count = 0;
    for (name, theirs) in theirs.2.iter() {
        let theirs = theirs.to_vec();
        let own = largest(&theirs);
        let share = own / (own + 1e-2 * of_all).max(f64::MIN_POSITIVE);
        let off = match ours.2.get(name) {
            Some(ours) => share * difference(&ours.to_vec(), &theirs),
            None => f64::NAN,
        };
        if off > worst.0 || off.is_nan() {
            worst = (off, name.to_owned());
        }
        count += 1;
    }
    let what = if worst.1.is_empty() {
        format!("gradients of {count} parameters")
    } else {
        format!("gradients of {count} parameters, worst at {}", worst.1)
    };
    findings.push(finding(&what, worst.0, bounds.gradient));
    Ok(findings)
}

fn largest(numbers: &[f32]) -> f64 {
    numbers
        .iter()
        .fold(0.0, |most: f64, x| most.max(f64::from(x.abs())))
}

/// The losses of a short training.
fn trained(
    case: &Case,
    steps: u64,
    cpu: &Compute,
    other: &Compute,
    arithmetic: Arithmetic,
) -> Result<Finding, Error> {
    let losses = |compute: &Compute| -> Result<Vec<f32>, Error> {
        let mut network = case.network(2, compute)?;
        if !compute.is_cpu() {
            network.set_arithmetic(arithmetic);
        }
        let mut network = network.train();
        let mut optimizer = AdamW::new(AdamWConfig::default());
        let objective = objective();
        let clips: Vec<u32> = (0..PAIRS as u32).collect();
        let segments = [case.segments; PAIRS];
        let mut losses = Vec::new();
        for nth in 0..steps {
            // Two batches in turns, so that there is something to learn.
            let seed = 10 + nth % 2;
            let mels = case.mels(&network, seed)?;
            let captions = captions(seed);
            let targets = objective.targets(&clips, Some(Vectors::new(&captions, CAPTION_DIM)?))?;
            let found = step::gradients(
                &network,
                &objective,
                &AudioInput::LogMels {
                    mels: &mels,
                    segments: &segments,
                },
                &TextInput::Tokens(tokens(seed)?),
                &targets,
                Some(&Training::new(nth, (0..PAIRS as u64).collect())),
                &step::Options::default(),
            )?;
            let (loss, norm) = found.loss_and_norm();
            losses.push(loss);
            let scale = clip_factor(norm, 1.0);
            network = optimizer.step(network, &found.gradients, scale, &|_| 1e-3)?;
        }
        Ok(losses)
    };
    let (theirs, ours) = (losses(cpu)?, losses(other)?);
    let worst = ours.iter().zip(&theirs).map(|(ours, theirs)| {
        let off = f64::from((ours - theirs).abs() / theirs.abs().max(1e-6));
        if off.is_nan() { f64::INFINITY } else { off }
    });
    Ok(Finding {
        what: format!("{}: losses of {steps} training steps", case.name),
        difference: worst.fold(0.0, f64::max),
        allowed: 10.0 * Bounds::of(arithmetic).loss,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_relative_and_nan_is_the_largest() {
        let close = |ours: &[f32]| (difference(ours, &[1.0, -4.0, 2.0]) - 0.25).abs() < 1e-12;
        assert!(close(&[1.0, -3.0, 2.0]) && close(&[2.0, -4.0, 2.0]));
        for place in 0..3 {
            let mut ours = [1.0, -4.0, 2.0];
            ours[place] = f32::NAN;
            assert!(difference(&ours, &[1.0, -4.0, 2.0]).is_nan(), "{place}");
        }
        assert!(difference(&[1.0], &[1.0, 2.0]).is_nan());
    }
}
