//! Objectives, learning rates and whole trainings against values that PyTorch computed in 64 bits.
//!
//! `golden/objectives.py`, `golden/schedule.py` and `golden/training.py` write the files and say what their fields are.

use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use hark_encode::Compute;
use hark_encode::checkpoint::Checkpoint;
use hark_encode::dual::{DualEncoder, Side};
use hark_encode::import::{Imported, Options, import};
use hark_encode::towers::{MelBatch, TokenBatch};
use hark_encode::weights::{Init, TensorSource, Weights};
use hark_encode::weights_file;
use hark_learn::objective::{Direction, Objective, Target};
use hark_learn::optimizer::{AdamW, AdamWConfig, Gradients, clip_factor};
use hark_learn::schedule::Schedule;
use hark_nearest::Vectors;
use hark_relevance::RelevanceFunction;
use serde::Deserialize;
use serde::de::DeserializeOwned;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

/// The CPU, or the device that HARK_TEST_DEVICE names (scripts/device_tests.py).
fn compute() -> Compute {
    let name = std::env::var("HARK_TEST_DEVICE").unwrap_or_else(|_| "cpu".to_owned());
    Compute::on(name.parse().unwrap(), 1).unwrap()
}

/// A bound on other devices than the CPU, whose sums have other orders.
fn bound(on_cpu: f64, elsewhere: f64) -> f64 {
    if compute().is_cpu() { on_cpu } else { elsewhere }
}

fn json<T: DeserializeOwned>(name: &str) -> T {
    serde_json::from_slice(&std::fs::read(golden(name)).unwrap()).unwrap()
}

fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec::<f32>().unwrap()
}

/// The largest difference; a number that is none counts as infinitely far.
fn farthest(ours: impl IntoIterator<Item = f64>, theirs: &[f64]) -> f64 {
    let ours: Vec<f64> = ours.into_iter().collect();
    assert_eq!(ours.len(), theirs.len());
    let off = ours.iter().zip(theirs).map(|(a, b)| (a - b).abs());
    off.fold(0.0, |most, off| if off <= most { most } else { off })
}

// ---------------------------------------------------------------- objectives

#[derive(Deserialize)]
struct Objectives {
    batches: Vec<Batch>,
}

#[derive(Deserialize)]
struct Batch {
    name: String,
    clips: Vec<u32>,
    tau: f32,
    omega: f32,
    minmax: Limits,
    epsilon: f32,
    weight: f32,
    text: Vec<Vec<f32>>,
    audio: Vec<Vec<f32>>,
    captions: Vec<Vec<f32>>,
    float32_errors: BatchErrors,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Limits {
    lo: f64,
    hi: f64,
}

#[derive(Deserialize)]
struct BatchErrors {
    loss: f64,
    gradient: f64,
}

#[derive(Deserialize)]
struct Case {
    objective: String,
    direction: Direction,
    targets: String,
    loss: f64,
    text_gradient: Vec<Vec<f64>>,
    audio_gradient: Vec<Vec<f64>>,
}

/// A loss and its gradients with respect to the rows of both sides.
#[derive(Debug, PartialEq)]
struct Found {
    loss: f32,
    text_gradient: Vec<f32>,
    audio_gradient: Vec<f32>,
}

impl Batch {
    fn all() -> Vec<Self> {
        json::<Objectives>("objectives.json").batches
    }

    /// Whether no clip and no caption stands in it twice.
    fn is_distinct(&self) -> bool {
        let twice = |nth: usize| {
            let earlier = 0..nth;
            earlier.clone().any(|other| self.clips[other] == self.clips[nth])
                || earlier
                    .clone()
                    .any(|other| self.captions[other] == self.captions[nth])
        };
        !(0..self.clips.len()).any(twice)
    }

    fn graded(&self, function: &str, binary_weight: f32) -> Target {
        let function: RelevanceFunction = function.parse().unwrap();
        Target::Graded {
            function: if function.needs_range() {
                function.with_range(self.minmax.lo, self.minmax.hi).unwrap()
            } else {
                function
            },
            omega: self.omega,
            binary_weight,
        }
    }

    fn objective(&self, target: Target, direction: Direction) -> Objective {
        Objective {
            target,
            direction,
            tau: self.tau,
        }
    }

    fn objective_of(&self, case: &Case) -> Objective {
        let target = match (case.objective.split('-').next().unwrap(), case.targets.as_str()) {
            ("infonce", "binary") => Target::Binary,
            ("listnet", "mixed") => self.graded("logistic", self.weight),
            ("listnet", "smooth") => Target::Smooth {
                smoothing: self.epsilon,
            },
            ("listnet", function) => self.graded(function, 0.0),
            (other, targets) => panic!("objective {other} with targets {targets}"),
        };
        self.objective(target, case.direction)
    }

    fn targets(&self, objective: &Objective) -> Vec<f32> {
        let captions = self.captions.concat();
        let captions = Vectors::new(&captions, self.captions[0].len()).unwrap();
        objective.targets(&self.clips, Some(captions)).unwrap()
    }

    fn find(&self, objective: &Objective) -> Found {
        let device = compute().device().clone().autodiff();
        let leaf = |rows: &[Vec<f32>]| {
            let shape = [rows.len(), rows[0].len()];
            Tensor::<2>::from_data(TensorData::new(rows.concat(), shape), &device).require_grad()
        };
        let (text, audio) = (leaf(&self.text), leaf(&self.audio));
        let targets = self.targets(objective);
        let loss = objective.loss(text.clone(), audio.clone(), &targets, &device);
        let gradients = loss.backward();
        Found {
            loss: numbers(loss.inner())[0],
            text_gradient: numbers(text.grad(&gradients).unwrap()),
            audio_gradient: numbers(audio.grad(&gradients).unwrap()),
        }
    }
}

/// How much farther than PyTorch's own 32 bits ours may be from the exact value: sums are in another order.
/// The farthest loss is off by 1.8 times, the farthest gradient by 2.1 times the largest error of PyTorch in its batch.
const FARTHER: f64 = 4.0;

#[test]
fn objectives_have_the_references_losses_and_gradients() {
    let mut cases = 0;
    for batch in Batch::all() {
        for case in &batch.cases {
            let found = batch.find(&batch.objective_of(case));
            let what = format!("{}: {} {}", batch.name, case.objective, case.targets);
            let off = (f64::from(found.loss) - case.loss).abs();
            let allowed = FARTHER * batch.float32_errors.loss;
            assert!(off <= allowed, "{what}: loss off by {off:e} of {allowed:e}");
            let allowed = FARTHER * batch.float32_errors.gradient;
            for (ours, theirs) in [
                (&found.text_gradient, &case.text_gradient),
                (&found.audio_gradient, &case.audio_gradient),
            ] {
                let off = farthest(ours.iter().copied().map(f64::from), &theirs.concat());
                assert!(off <= allowed, "{what}: gradient off by {off:e} of {allowed:e}");
            }
            cases += 1;
        }
    }
    assert_eq!(cases, 264);
}

/// Scores and sums are of 64 bits; targets are of 32, and so are the temperatures: 0.05 is off by 1.5e-8 of itself, which
/// scores of up to 20 magnify. Losses are off by up to 3e-7 of themselves.
#[test]
fn values_for_validation_have_the_references_losses() {
    for batch in Batch::all() {
        for case in &batch.cases {
            let objective = batch.objective_of(case);
            let (text, audio) = (batch.text.concat(), batch.audio.concat());
            let value = objective.value(&text, &audio, batch.text[0].len(), &batch.targets(&objective));
            let off = (value - case.loss).abs();
            let allowed = 1e-6 * case.loss;
            let what = format!("{}: {} {}", batch.name, case.objective, case.targets);
            assert!(off <= allowed, "{what}: off by {off:e} of {allowed:e}");
        }
    }
}

#[test]
fn binary_relevances_are_infonce_to_the_bit() {
    for batch in Batch::all() {
        for direction in [Direction::Both, Direction::Audio, Direction::Text] {
            let infonce = batch.objective(Target::Binary, direction);
            let listnet = batch.objective(batch.graded("binary", 0.0), direction);
            assert_eq!(batch.find(&listnet), batch.find(&infonce), "{}", batch.name);
        }
    }
}

#[test]
fn graded_relevances_at_a_tiny_temperature_are_infonce_to_the_bit() {
    let mut batches = 0;
    for batch in Batch::all().into_iter().filter(Batch::is_distinct) {
        for direction in [Direction::Both, Direction::Audio, Direction::Text] {
            let infonce = batch.objective(Target::Binary, direction);
            let listnet = batch.objective(
                Target::Graded {
                    function: RelevanceFunction::default(),
                    omega: 1e-6,
                    binary_weight: 0.0,
                },
                direction,
            );
            let size = batch.clips.len();
            let one_hot = (0..size * size).map(|at| f32::from(u8::from(at / size == at % size)));
            assert_eq!(batch.targets(&listnet), one_hot.collect::<Vec<f32>>());
            assert_eq!(batch.find(&listnet), batch.find(&infonce), "{}", batch.name);
        }
        batches += 1;
    }
    // Of two, three, five and thirty-two clips.
    assert_eq!(batches, 4);
}

// ---------------------------------------------------------------- learning rates

#[derive(Deserialize)]
struct Schedules {
    schedules: Vec<Sampled>,
}

#[derive(Deserialize)]
struct Sampled {
    name: String,
    peak: f64,
    floor: f64,
    warm_up: f64,
    end: f64,
    points: Vec<Point>,
}

#[derive(Deserialize)]
struct Point {
    step: u64,
    steps_per_epoch: u64,
    rate: f64,
}

/// Four roundings of a number as large as the peak: 1 + cos cancels towards the end, so that the error is not relative to
/// the rate itself.
#[test]
fn rates_are_the_references() {
    let mut points = 0;
    for schedule in json::<Schedules>("schedule.json").schedules {
        let ours = Schedule {
            lr: schedule.peak,
            min_lr: schedule.floor,
            warmup_epochs: schedule.warm_up,
            decay_epochs: schedule.end,
        };
        let allowed = 4.0 * f64::EPSILON / 2.0 * schedule.peak;
        for point in schedule.points {
            let off = (ours.rate(point.step, point.steps_per_epoch) - point.rate).abs();
            let Point {
                step,
                steps_per_epoch,
                rate,
            } = point;
            assert!(
                off <= allowed,
                "{}: step {step} of {steps_per_epoch} an epoch: {rate} off by {off:e}",
                schedule.name
            );
            points += 1;
        }
    }
    assert_eq!(points, 200);
}

// ---------------------------------------------------------------- trainings

#[derive(Deserialize)]
struct Trainings {
    tau: f32,
    omega: f32,
    schedule: Rates,
    ids: Vec<Vec<u32>>,
    clips: Vec<usize>,
    batches: Vec<Vec<usize>>,
    cases: Vec<TrainingCase>,
}

#[derive(Deserialize)]
struct Rates {
    peak: f64,
    floor: f64,
    warm_up: f64,
    end: f64,
    steps_per_epoch: u64,
}

#[derive(Deserialize)]
struct TrainingCase {
    name: String,
    objective: String,
    weight_decay: f32,
    max_norm: Option<f64>,
    accumulate: usize,
    losses: Vec<f64>,
    rates: Vec<f64>,
    norms: Vec<f64>,
    float32_errors: TrainingErrors,
}

#[derive(Deserialize)]
struct TrainingErrors {
    weight: f64,
    weight_root_mean_square: f64,
}

/// The towers that every case begins with.
fn towers() -> Imported {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../encode/tests/golden/towers");
    let options = Options {
        audio_heads: Some(2),
        text_heads: Some(2),
        ..Options::default()
    };
    let tokenizer = folder.join("tokenizer-json");
    import(&folder.join("authors.pt"), Some(&tokenizer), &options, &compute()).unwrap()
}

/// The weights that a case ends with. What the file leaves out, the biases of keys, is no number.
struct Final(Checkpoint);

impl Weights for Final {
    fn numbers(&self, name: &str, shape: &[usize], _: Init) -> Result<Vec<f32>, hark_encode::Error> {
        if name.ends_with("self.key.bias") {
            return Ok(vec![f32::NAN; shape[0]]);
        }
        if name.ends_with("attn.qkv.bias") {
            let third = shape[0] / 3;
            let mut bias = self.0.take(name, &[2 * third])?;
            bias.splice(third..third, std::iter::repeat_n(f32::NAN, third));
            return Ok(bias);
        }
        self.0.take(name, shape)
    }
}

/// The final weights as a network of the same form: names, fused layers and layouts then need no second table.
fn final_network(imported: &Imported, case: &str, device: &Device) -> DualEncoder {
    let file = Final(Checkpoint::open(&golden("training/training.safetensors")).unwrap());
    let at = |part: &str| TensorSource::new(&file, &format!("{case}.{part}"), device);
    let audio = &imported.card.audio.as_ref().unwrap().side;
    let text = &imported.card.text.as_ref().unwrap().side;
    let network = DualEncoder {
        audio: Some(Side::build(audio, &at("audio_encoder.model.net."), &at("audio_proj.")).unwrap()),
        text: Some(Side::build(text, &at("text_encoder."), &at("text_proj.")).unwrap()),
    };
    let prefix = format!("{case}.");
    let left: Vec<&str> = file
        .0
        .untaken()
        .filter(|name| name.starts_with(&prefix))
        .collect();
    assert!(left.is_empty(), "not compared: {left:?}");
    network
}

/// What a training did.
struct Trained {
    network: DualEncoder,
    losses: Vec<f64>,
    rates: Vec<f64>,
    norms: Vec<f64>,
}

fn train(file: &Trainings, case: &TrainingCase, network: DualEncoder) -> Trained {
    let device = compute().device().clone().autodiff();
    let tensors = Checkpoint::open(&golden("training/training.safetensors")).unwrap();
    let mels = tensors.take("mels", &[12, 128, 112]).unwrap();
    let teacher = tensors.take("teacher", &[20, 8]).unwrap();
    let objective = Objective {
        target: Target::Graded {
            function: RelevanceFunction::default(),
            omega: file.omega,
            binary_weight: 0.0,
        },
        direction: match case.objective.as_str() {
            "listnet-audio" => Direction::Audio,
            "listnet-both" => Direction::Both,
            other => panic!("objective {other}"),
        },
        tau: file.tau,
    };
    let schedule = Schedule {
        lr: file.schedule.peak,
        min_lr: file.schedule.floor,
        warmup_epochs: file.schedule.warm_up,
        decay_epochs: file.schedule.end,
    };
    let mut optimizer = AdamW::new(AdamWConfig {
        weight_decay: case.weight_decay,
        ..AdamWConfig::default()
    });
    let mut trained = Trained {
        network: network.train(),
        losses: Vec::new(),
        rates: Vec::new(),
        norms: Vec::new(),
    };
    for update in 0..case.rates.len() {
        let mut gradients = Gradients::new();
        for part in 0..case.accumulate {
            let pairs = &file.batches[(update * case.accumulate + part) % file.batches.len()];
            let texts = TokenBatch::new(pairs.iter().map(|&pair| file.ids[pair].as_slice())).unwrap();
            let segment = 128 * 112;
            let clips = pairs.iter().map(|&pair| file.clips[pair]);
            let heard = clips.clone().flat_map(|clip| &mels[clip * segment..][..segment]);
            let heard = MelBatch::new(heard.copied().collect(), 128, 112).unwrap();
            let captions: Vec<f32> = pairs
                .iter()
                .flat_map(|&pair| &teacher[pair * 8..][..8])
                .copied()
                .collect();
            let clips: Vec<u32> = clips.map(|clip| clip as u32).collect();
            let targets = objective
                .targets(&clips, Some(Vectors::new(&captions, 8).unwrap()))
                .unwrap();

            let network = &trained.network;
            let audio = network.audio.as_ref().unwrap();
            let audio = audio.forward(&heard, &vec![1; pairs.len()], None).unwrap();
            let text = network.text.as_ref().unwrap().forward(&texts, None).unwrap();
            let loss = objective.loss(text, audio, &targets, &device);
            trained.losses.push(numbers(loss.clone().inner())[0].into());
            gradients.take(network, loss.backward());
        }
        let share = 1.0 / case.accumulate as f32;
        let norm = gradients.norm() * f64::from(share);
        trained.norms.push(norm);
        let scale = share * case.max_norm.map_or(1.0, |most| clip_factor(norm, most));
        let rate = schedule.rate(update as u64, file.schedule.steps_per_epoch);
        trained.rates.push(rate);
        trained.network = optimizer
            .step(trained.network, &gradients, scale, &|_| rate)
            .unwrap();
    }
    trained
}

/// Losses and norms may be off by this part of their value. They are off by up to 4e-6 and 7e-6 of it.
const TRAINED: f64 = 2e-5;
/// How much farther than those of PyTorch's 32 bits our final weights may be off. They are about as
/// far, by up to 1e-6, after moving by up to 7e-3.
const WEIGHTS_FARTHER: f64 = 3.0;

/// Twenty batches, each of which learns from where the last one led. The script sees to it that every tensor moves by more than
/// 1e-4 on the way, and that losses fall.
fn check_training(name: &str) {
    let file: Trainings = json("training/training.json");
    let case = file.cases.iter().find(|case| case.name == name).unwrap();
    let imported = towers();
    let trained = train(&file, case, imported.network.clone());

    assert_eq!(trained.losses.len(), 20);
    for (what, ours, theirs, allowed) in [
        (
            "losses",
            &trained.losses,
            &case.losses,
            bound(TRAINED, 5.0 * TRAINED),
        ),
        (
            "norms",
            &trained.norms,
            &case.norms,
            bound(TRAINED, 5.0 * TRAINED),
        ),
        ("rates", &trained.rates, &case.rates, 1e-15),
    ] {
        assert_eq!(ours.len(), theirs.len());
        let ratios = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs);
        let worst = farthest(ratios, &vec![1.0; theirs.len()]);
        assert!(worst <= allowed, "{what} off by {worst:e} of themselves");
    }

    let theirs = weights_file::parameters(&final_network(&imported, name, compute().device()));
    let ours = weights_file::parameters(&trained.network);
    assert_eq!(ours.len(), theirs.len());
    let errors = &case.float32_errors;
    let allowed = WEIGHTS_FARTHER * errors.weight;
    let (mut squares, mut compared, mut left_out) = (0.0, 0, 0);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!((&ours.name, &ours.shape), (&theirs.name, &theirs.shape));
        for (number, expected) in (ours.numbers)().into_iter().zip((theirs.numbers)()) {
            if expected.is_nan() {
                left_out += 1;
                continue;
            }
            let off = f64::from((number - expected).abs());
            assert!(off <= allowed, "{}: {number} instead of {expected}", ours.name);
            squares += off * off;
            compared += 1;
        }
    }
    // The keys' biases of two blocks of 16 in each tower.
    assert_eq!((compared, left_out), (23_896, 64));
    let root = (squares / f64::from(compared)).sqrt();
    let allowed = WEIGHTS_FARTHER * errors.weight_root_mean_square;
    assert!(root <= allowed, "root mean square {root:e} of {allowed:e}");
}

#[test]
fn a_training_goes_the_references_way() {
    check_training("plain");
}

#[test]
fn a_training_with_weight_decay_goes_the_references_way() {
    check_training("decay");
}

#[test]
fn a_training_with_clipped_gradients_goes_the_references_way() {
    check_training("clipped");
}

#[test]
fn a_training_with_gradients_clipped_at_times_goes_the_references_way() {
    check_training("clipped-at-ten");
}

#[test]
fn a_training_with_accumulated_gradients_goes_the_references_way() {
    check_training("accumulated");
}
