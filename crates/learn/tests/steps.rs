//! A batch in chunks, with blocks computed again, and on another device: the same gradients.

use burn::module::Module;
use hark_encode::dropout::Training;
use hark_encode::dual::{DualEncoder, SideConfig};
use hark_encode::towers::bert::{BertConfig, Family, Pooling};
use hark_encode::towers::cnn::CnnConfig;
use hark_encode::towers::passt::{PasstConfig, Patchout};
use hark_encode::towers::roberta::RobertaConfig;
use hark_encode::towers::{AudioConfig, MelBatch, TextConfig, TokenBatch};
use hark_encode::weights::RandomInit;
use hark_encode::{Compute, DeviceName, Fault};
use hark_learn::objective::{Direction, Objective, ObjectiveKind, Target};
use hark_learn::optimizer::{AdamW, AdamWConfig, Gradients, clip_factor};
use hark_learn::split::Features;
use hark_learn::step::{AudioInput, Options, TextInput, gradients};
use hark_nearest::Vectors;
use hark_relevance::RelevanceFunction;
use hark_work::random::Random;

const BANDS: usize = 16;
const FRAMES: usize = 24;

fn passt() -> AudioConfig {
    AudioConfig::Passt(PasstConfig {
        mels: BANDS,
        patch: 8,
        stride: 8,
        columns: 3,
        width: 12,
        hidden: 20,
        layers: 2,
        heads: 2,
        epsilon: 1e-6,
        patchout: Patchout {
            time: 1,
            frequency: 0,
            unstructured: 1,
        },
    })
}

fn roberta() -> TextConfig {
    TextConfig::Roberta(RobertaConfig {
        vocabulary: 50,
        positions: 20,
        width: 12,
        hidden: 20,
        layers: 2,
        heads: 2,
        dropout: 0.2,
        attention_dropout: 0.2,
        ..RobertaConfig::large()
    })
}

fn mpnet() -> TextConfig {
    TextConfig::Sentence(BertConfig {
        family: Family::Mpnet,
        vocabulary: 50,
        positions: 20,
        width: 12,
        hidden: 20,
        layers: 2,
        heads: 2,
        epsilon: 1e-5,
        types: 0,
        buckets: Some(8),
        pooling: Pooling::Mean,
        dropout: 0.2,
        attention_dropout: 0.2,
    })
}

fn network(audio: AudioConfig, text: TextConfig, compute: &Compute) -> DualEncoder {
    let audio = SideConfig {
        network: audio,
        projection: vec![10, 8],
    };
    let text = SideConfig {
        network: text,
        projection: vec![8],
    };
    DualEncoder::build(Some(&audio), Some(&text), &RandomInit(4), compute.device())
        .unwrap()
        .train()
}

/// A batch of clips with one to three segments each.
struct Batch {
    mels: MelBatch,
    segments: Vec<usize>,
    tokens: Vec<Vec<u32>>,
    captions: Vec<f32>,
    clips: Vec<u32>,
}

impl Batch {
    fn random(pairs: usize) -> Self {
        let mut random = Random::new(6);
        let segments: Vec<usize> = (0..pairs).map(|nth| 1 + nth % 3).collect();
        let count = segments.iter().sum::<usize>() * BANDS * FRAMES;
        let values = (0..count).map(|_| random.signed() as f32).collect();
        let tokens = (0..pairs)
            .map(|nth| (0..2 + nth % 7).map(|_| 4 + random.below(40) as u32).collect())
            .collect();
        let mut captions = Vec::new();
        for _ in 0..pairs {
            let row: Vec<f64> = (0..5).map(|_| random.normal()).collect();
            let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
            captions.extend(row.into_iter().map(|x| (x / norm) as f32));
        }
        Self {
            mels: MelBatch::new(values, BANDS, FRAMES).unwrap(),
            segments,
            tokens,
            captions,
            // Some pairs are of the same clip.
            clips: (0..pairs as u32).map(|nth| nth / 2 * 2).collect(),
        }
    }

    fn gradients(&self, network: &DualEncoder, objective: &Objective, options: &Options) -> (f32, Gradients) {
        let audio = AudioInput::LogMels {
            mels: &self.mels,
            segments: &self.segments,
        };
        let text = TextInput::Tokens(TokenBatch::new(self.tokens.iter().map(Vec::as_slice)).unwrap());
        let captions = Vectors::new(&self.captions, 5).unwrap();
        let targets = objective.targets(&self.clips, Some(captions)).unwrap();
        let training = Training::new(3, (0..self.clips.len() as u64).map(|nth| 7 * nth).collect());
        let found = gradients(
            network,
            objective,
            &audio,
            &text,
            &targets,
            Some(&training),
            options,
        )
        .unwrap();
        (found.loss().unwrap(), found.gradients)
    }
}

fn objective(kind: ObjectiveKind) -> Objective {
    let direction = match kind {
        ObjectiveKind::Infonce | ObjectiveKind::ListnetBoth => Direction::Both,
        ObjectiveKind::InfonceText | ObjectiveKind::ListnetText => Direction::Text,
        ObjectiveKind::InfonceAudio | ObjectiveKind::ListnetAudio | ObjectiveKind::Smooth => Direction::Audio,
    };
    let target = match kind {
        ObjectiveKind::Smooth => Target::Smooth { smoothing: 0.1 },
        kind if kind.is_graded() => Target::Graded {
            function: RelevanceFunction::logistic(),
            omega: 0.05,
            binary_weight: 0.3,
        },
        _ => Target::Binary,
    };
    Objective {
        target,
        direction,
        tau: 0.05,
    }
}

/// The largest difference of any gradient, relative to the largest number of its tensor.
#[track_caller]
fn assert_near(ours: &Gradients, theirs: &Gradients, allowed: f32, what: &str) {
    assert_eq!(
        ours.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        theirs.iter().map(|(name, _)| name).collect::<Vec<_>>()
    );
    let size = |numbers: &[f32]| numbers.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    let of_all = theirs
        .iter()
        .map(|(_, theirs)| size(&theirs.to_vec()))
        .fold(0.0, f32::max);
    assert!(of_all > 1e-3, "{what}: gradients of {of_all} test nothing");
    for (name, ours) in ours.iter() {
        let (ours, theirs) = (ours.to_vec(), theirs.get(name).unwrap().to_vec());
        let bound = allowed * (size(&theirs) + 0.01 * of_all);
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert!((ours - theirs).abs() <= bound, "{what}: {name}: {ours} {theirs}");
        }
    }
}

/// 256 pairs in chunks of 16 against all at once, under dropout and patchout, with every objective. What is left is the order of
/// sums.
#[test]
fn chunks_give_the_gradients_of_the_whole_batch() {
    let compute = Compute::cpu(2);
    let network = network(passt(), roberta(), &compute);
    let batch = Batch::random(256);
    for kind in ObjectiveKind::ALL {
        let objective = objective(kind);
        let whole = batch.gradients(&network, &objective, &Options::default());
        for gradient_checkpointing in [false, true] {
            let options = Options {
                chunk: Some(16),
                gradient_checkpointing,
                ..Options::default()
            };
            let chunked = batch.gradients(&network, &objective, &options);
            assert!((chunked.0 - whole.0).abs() <= 1e-6 * whole.0.abs(), "{kind}");
            assert_near(&chunked.1, &whole.1, 1e-4, &kind.to_string());
        }
    }
}

/// Chunks that do not divide the batch, other towers, and one pair at a time.
#[test]
fn every_chunk_size_gives_the_same() {
    let compute = Compute::cpu(1);
    let cnn = AudioConfig::Cnn(CnnConfig {
        mels: BANDS,
        channels: vec![2, 3],
        width: 6,
    });
    for network in [
        network(cnn, mpnet(), &compute),
        network(passt(), mpnet(), &compute),
    ] {
        let batch = Batch::random(10);
        let objective = objective(ObjectiveKind::ListnetBoth);
        let whole = batch.gradients(&network, &objective, &Options::default());
        for chunk in [1, 3, 4, 9, 10, 11] {
            let options = Options {
                chunk: Some(chunk),
                gradient_checkpointing: true,
                ..Options::default()
            };
            let chunked = batch.gradients(&network, &objective, &options);
            assert_near(&chunked.1, &whole.1, 1e-4, &format!("chunks of {chunk}"));
        }
    }
}

/// Features of frozen towers are cut in the same way.
#[test]
fn features_can_be_chunked() {
    let network = network(passt(), roberta(), &Compute::cpu(1));
    let mut random = Random::new(2);
    let mut features = || Features {
        values: (0..7 * 12).map(|_| random.signed() as f32).collect(),
        width: 12,
    };
    let (audio, text) = (AudioInput::Features(features()), TextInput::Features(features()));
    let objective = objective(ObjectiveKind::Infonce);
    let targets = objective.targets(&[0, 1, 2, 3, 4, 5, 6], None).unwrap();
    let of = |chunk| {
        let options = Options {
            chunk,
            ..Options::default()
        };
        gradients(&network, &objective, &audio, &text, &targets, None, &options)
            .unwrap()
            .gradients
    };
    assert_near(&of(Some(3)), &of(None), 1e-4, "features");
}

/// The blocks are computed again by the same kernels: not a bit differs.
#[test]
fn recomputed_blocks_change_no_bit() {
    let network = network(passt(), roberta(), &Compute::cpu(2));
    let batch = Batch::random(6);
    let objective = objective(ObjectiveKind::ListnetBoth);
    let kept = batch.gradients(&network, &objective, &Options::default());
    let options = Options {
        gradient_checkpointing: true,
        ..Options::default()
    };
    let again = batch.gradients(&network, &objective, &options);
    assert_eq!(again.0.to_bits(), kept.0.to_bits());
    assert!(again.1 == kept.1);
}

/// A loss that is scaled gives scaled gradients, and its own value is told as it is.
#[test]
fn a_scaled_loss_scales_gradients_alone() {
    let network = network(passt(), roberta(), &Compute::cpu(1));
    let batch = Batch::random(5);
    let objective = objective(ObjectiveKind::Infonce);
    let plain = batch.gradients(&network, &objective, &Options::default());
    for chunk in [None, Some(2)] {
        let options = Options {
            chunk,
            loss_scale: Some(1024.0),
            ..Options::default()
        };
        let scaled = batch.gradients(&network, &objective, &options);
        assert!((scaled.0 - plain.0).abs() < 1e-5);
        let back: Gradients = scaled
            .1
            .iter()
            .map(|(name, values)| {
                let numbers = values.to_vec().into_iter().map(|x| x / 1024.0);
                (name.to_owned(), numbers.collect::<Vec<_>>())
            })
            .collect();
        assert_near(&back, &plain.1, 1e-4, "scaled");
    }
}

/// Gradients, moments and weights that stay on a device of its own are those of the CPU.
#[test]
fn steps_on_a_device_are_those_of_the_cpu() {
    let trained = |compute: &Compute| {
        let mut network = network(passt(), mpnet(), compute);
        let mut optimizer = AdamW::new(AdamWConfig {
            weight_decay: 0.1,
            ..AdamWConfig::default()
        });
        let batch = Batch::random(6);
        let objective = objective(ObjectiveKind::ListnetBoth);
        let mut losses = Vec::new();
        for nth in 0..4 {
            let options = Options {
                chunk: (nth > 1).then_some(4),
                gradient_checkpointing: nth % 2 == 1,
                ..Options::default()
            };
            let (loss, gradients) = batch.gradients(&network, &objective, &options);
            losses.push(loss);
            let scale = clip_factor(gradients.norm(), 1.0);
            network = optimizer
                .step(network, &gradients, scale, &|name| {
                    if name.starts_with("text") { 1e-3 } else { 2e-3 }
                })
                .unwrap();
        }
        let moments: Vec<Vec<f32>> = optimizer
            .moments
            .values()
            .flat_map(|moments| [moments.first.to_vec(), moments.second.to_vec()])
            .collect();
        (losses, moments)
    };
    let ndarray = Compute::on(DeviceName::NdArray { fault: Fault::None }, 1).unwrap();
    assert!(!ndarray.is_cpu());
    let (ours, theirs) = (trained(&ndarray), trained(&Compute::cpu(1)));
    for (ours, theirs) in ours.0.iter().zip(&theirs.0) {
        assert!((ours - theirs).abs() < 1e-4 * theirs.abs(), "{ours} {theirs}");
    }
    assert!(theirs.0[3] < theirs.0[0], "{:?}", theirs.0);
    assert_eq!(ours.1.len(), theirs.1.len());
    for (ours, theirs) in ours.1.iter().zip(&theirs.1) {
        let size = theirs.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        for (ours, theirs) in ours.iter().zip(theirs) {
            assert!((ours - theirs).abs() <= 1e-2 * size + 1e-9, "{ours} {theirs}");
        }
    }
}
