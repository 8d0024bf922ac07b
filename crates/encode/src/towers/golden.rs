//! Both towers against the reference classes: outputs, and the gradient of every parameter under a ListNet loss, with and
//! without dropout and patchout. Weights and expected values are written by `golden/towers_tiny.py`.

use std::path::{Path, PathBuf};

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::activation::{log_softmax, softmax};
use burn::tensor::{Device, Gradients, Tensor, TensorData};

use super::passt::Kept;
use super::{AudioTower, MelBatch, TokenBatch, Tower};
use crate::checkpoint::Checkpoint;
use crate::dropout::Training;
use crate::dual::{DualEncoder, Side, SideConfig};
use crate::import::{Imported, Options, import};
use crate::tensors::numbers;
use crate::weights::TensorSource;
use crate::weights_file;
use hark_work::random::mix;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/towers")
}

fn imported(file: &str) -> Imported {
    let options = Options {
        audio_heads: Some(2),
        text_heads: Some(2),
        ..Options::default()
    };
    import(
        &folder().join(file),
        Some(&folder().join("tokenizer-json")),
        &options,
        &compute(),
    )
    .unwrap()
}

/// The CPU, or the device that HARK_TEST_DEVICE names (scripts/device_tests.py).
fn compute() -> crate::Compute {
    let name = std::env::var("HARK_TEST_DEVICE").unwrap_or_else(|_| "cpu".to_owned());
    crate::Compute::on(name.parse().unwrap(), 1).unwrap()
}

/// The script's formula for log-mels.
fn mels(segments: u64, frames: u64) -> MelBatch {
    let mut values = Vec::new();
    for b in 0..segments {
        for m in 0..128 {
            for t in 0..frames {
                let bits = mix(b * 1_000_003 + m * 1009 + t) >> 40;
                values.push((bits as f64 / f64::from(1 << 24) * 2.0 - 1.0) as f32);
            }
        }
    }
    MelBatch::new(values, 128, frames as usize).unwrap()
}

/// The captions' ids without their padding, and the padded length.
fn texts(of: &str) -> (Vec<Vec<u32>>, usize) {
    let file = std::fs::read(folder().join("towers.json")).unwrap();
    let file: serde_json::Value = serde_json::from_slice(&file).unwrap();
    let ids: Vec<Vec<u32>> = serde_json::from_value(file[of]["ids"].clone()).unwrap();
    let mask: Vec<Vec<usize>> = serde_json::from_value(file[of]["attention_mask"].clone()).unwrap();
    let padded = ids[0].len();
    let own = ids
        .into_iter()
        .zip(mask)
        .map(|(ids, mask)| ids[..mask.iter().sum()].to_vec())
        .collect();
    (own, padded)
}

fn padded(of: &str) -> TokenBatch {
    let (texts, padded) = texts(of);
    let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
    TokenBatch::padded_to(&texts, padded).unwrap()
}

fn expected(file: &str, name: &str) -> Vec<f32> {
    let file = Checkpoint::open(&folder().join(file)).unwrap();
    let shape = file.shape(name).unwrap().to_vec();
    file.take(name, &shape).unwrap()
}

#[track_caller]
fn assert_near(ours: &[f32], theirs: &[f32], allowed: f32, what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    let worst = ours
        .iter()
        .zip(theirs)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max);
    assert!(
        worst <= allowed && !worst.is_nan(),
        "{what}: off by {worst}, {allowed} are allowed"
    );
}

fn passt_of(network: &DualEncoder) -> &super::passt::Passt {
    let AudioTower::Passt(passt) = &network.audio.as_ref().unwrap().tower else {
        panic!("the audio tower is no PaSST");
    };
    passt
}

const TOLERANCE: f32 = 1e-5;

#[test]
fn outputs_equal_the_reference() {
    let network = imported("authors.pt").network;
    let (audio, text) = (network.audio.as_ref().unwrap(), network.text.as_ref().unwrap());
    let (mels, tokens) = (mels(4, 112), padded("authors"));
    let check = |ours: Tensor<2>, name: &str| {
        assert_near(
            &numbers(ours),
            &expected("expected.safetensors", name),
            TOLERANCE,
            name,
        );
    };
    check(audio.tower.forward(&mels, None).unwrap(), "audio_features");
    check(text.tower.forward(&tokens, None).unwrap(), "text_features");
    check(audio.forward(&mels, &[1; 4], None).unwrap(), "audio_embeddings");
    check(text.forward(&tokens, None).unwrap(), "text_embeddings");
    check(
        audio.tower.forward(&self::mels(3, 80), None).unwrap(),
        "short.audio_features",
    );
    let every = Kept::grid(&(0..8).collect::<Vec<_>>(), &(0..7).collect::<Vec<_>>());
    let kept = Kept(
        every
            .0
            .into_iter()
            .enumerate()
            .filter(|(nth, _)| nth % 3 != 1)
            .map(|(_, place)| place)
            .collect(),
    );
    check(
        passt_of(&network).forward_kept(&mels, &kept, None).unwrap(),
        "unstructured.audio_features",
    );
}

#[test]
fn the_winners_layout_gives_the_references_embeddings() {
    let imported = imported("winner.ckpt");
    let network = imported.network;
    let card = imported.card.text.unwrap();
    assert!(card.strip_punctuation);
    let check = |ours: Tensor<2>, name: &str| {
        assert_near(
            &numbers(ours),
            &expected("winner.safetensors", name),
            TOLERANCE,
            name,
        );
    };
    let audio = network.audio.unwrap();
    check(
        audio.forward(&mels(2, 98), &[1, 1], None).unwrap(),
        "audio_embeddings",
    );
    check(
        network.text.unwrap().forward(&padded("winner"), None).unwrap(),
        "text_embeddings",
    );
    let super::AudioConfig::Passt(config) = imported.card.audio.unwrap().side.network else {
        panic!("the audio tower is no PaSST");
    };
    assert_eq!((config.stride, config.rows(), config.columns), (10, 12, 9));
    let mut unused: Vec<&str> = imported
        .unused
        .iter()
        .map(|name| name.split('.').next().unwrap())
        .collect();
    unused.dedup();
    for known in [
        "tau",
        "timing_tau",
        "audio_token",
        "posencode",
        "audio_output_projection",
    ] {
        assert!(unused.contains(&known), "{known} is not in {unused:?}");
    }
}

#[test]
fn padding_and_company_change_no_text() {
    let network = imported("authors.pt").network;
    let text = network.text.unwrap();
    let (ids, _) = texts("authors");
    let together = numbers(text.forward(&padded("authors"), None).unwrap());
    for (nth, ids) in ids.iter().enumerate() {
        let alone = TokenBatch::new([ids.as_slice()]).unwrap();
        let alone = numbers(text.forward(&alone, None).unwrap());
        // Sums over more (zero) terms may round otherwise in their last place.
        assert_near(&alone, &together[nth * 12..][..12], 1e-6, "a caption alone");
    }
}

/// The script's loss: listnet-audio with its formula for G.
fn loss(text: Tensor<2>, audio: Tensor<2>) -> Tensor<1> {
    let device = text.device();
    let relevance = (0..4).flat_map(|i| {
        (0..4).map(move |j| {
            if i == j {
                1.0
            } else {
                0.1 + 0.2 * ((i * 3 + j * 5) % 4) as f32 / 4.0
            }
        })
    });
    let relevance = Tensor::<2>::from_data(TensorData::new(relevance.collect::<Vec<f32>>(), [4, 4]), &device);
    let target = softmax(relevance.div_scalar(0.05), 1);
    let similarity = text.matmul(audio.transpose());
    let lists = (target * log_softmax(similarity.div_scalar(0.05), 1)).sum_dim(1);
    lists.mean().neg()
}

/// Gradients in the order of the parameters.
struct Gather<'a> {
    gradients: &'a Gradients,
    found: Vec<Option<Vec<f32>>>,
}

impl ModuleVisitor for Gather<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.found.push(param.val().grad(self.gradients).map(numbers));
    }
}

/// The reference's gradients as a network of the same form: names, fused layers and layouts then need no second table.
fn expected_gradients(imported: &Imported, set: &str) -> DualEncoder {
    let file = Checkpoint::open(&folder().join("expected.safetensors")).unwrap();
    let device = Device::flex();
    let at = |part: &str| TensorSource::new(&file, &format!("{set}grad.{part}"), &device);
    let audio: &SideConfig<_> = &imported.card.audio.as_ref().unwrap().side;
    let text = &imported.card.text.as_ref().unwrap().side;
    DualEncoder {
        audio: Some(Side::build(audio, &at("audio_encoder.model.net."), &at("audio_proj.")).unwrap()),
        text: Some(Side::build(text, &at("text_encoder."), &at("text_proj.")).unwrap()),
    }
}

fn check_gradients(set: &str, training: Option<&Training>, kept: Option<&Kept>) {
    let imported = imported("authors.pt");
    let network = imported.network.clone().train();
    let (mels, tokens) = (mels(4, 112), padded("authors"));
    let (audio, text) = (network.audio.as_ref().unwrap(), network.text.as_ref().unwrap());
    let audio = match kept {
        None => audio.forward(&mels, &[1; 4], None).unwrap(),
        Some(kept) => {
            let features = passt_of(&network).forward_kept(&mels, kept, None).unwrap();
            let projected = audio.projection.forward(features);
            let norm = (projected.clone() * projected.clone()).sum_dim(1).sqrt();
            projected / norm
        }
    };
    let text = text.forward(&tokens, training).unwrap();
    for (ours, name) in [(&audio, "audio_embeddings"), (&text, "text_embeddings")] {
        let theirs = expected("expected.safetensors", &format!("{set}{name}"));
        assert_near(&numbers(ours.clone().inner()), &theirs, TOLERANCE, name);
    }
    let loss = loss(text, audio);
    let theirs = expected("expected.safetensors", &format!("{set}loss"));
    assert_near(&numbers(loss.clone().inner()), &theirs, 1e-5, "loss");

    let gradients = loss.backward();
    let mut gather = Gather {
        gradients: &gradients,
        found: Vec::new(),
    };
    network.visit(&mut gather);
    let expected = weights_file::parameters(&expected_gradients(&imported, set));
    assert_eq!(gather.found.len(), expected.len());
    let largest = |numbers: &[f32]| numbers.iter().fold(0.0_f32, |a, b| a.max(b.abs()));
    let of_all = expected
        .iter()
        .map(|stored| largest(&(stored.numbers)()))
        .fold(0.0, f32::max);
    assert!(of_all > 0.1, "gradients of {of_all} test nothing");
    for (ours, stored) in gather.found.iter().zip(&expected) {
        let theirs = (stored.numbers)();
        let ours = ours
            .as_ref()
            .unwrap_or_else(|| panic!("{} has no gradient", stored.name));
        assert_near(
            ours,
            &theirs,
            1e-4 * largest(&theirs) + 1e-6 * of_all,
            &stored.name,
        );
    }
}

#[test]
fn gradients_equal_the_reference() {
    check_gradients("", None, None);
}

#[test]
fn gradients_under_dropout_and_patchout_equal_the_reference() {
    let training = Training::new(7, (0..4).collect());
    let kept = Kept::grid(&[0, 1, 3, 4, 6, 7], &[0, 2, 3, 5, 6]);
    check_gradients("masked.", Some(&training), Some(&kept));
}

#[test]
fn a_short_or_wide_input_is_refused_with_both_shapes() {
    let network = imported("authors.pt").network;
    let audio = network.audio.unwrap();
    let refuse = |mels, frames, shown: &str| {
        let batch = MelBatch::new(vec![0.0; mels * frames], mels, frames).unwrap();
        let error = audio.tower.forward(&batch, None).unwrap_err().to_string();
        assert!(error.contains(shown), "{error}");
    };
    refuse(128, 15, "[1, 128, 15]");
    refuse(128, 128, "[1, 128, 128], the network takes at most [1, 128, 127]");
    refuse(64, 112, "[1, 64, 112]");
    let long = TokenBatch::new([[5_u32; 39].as_slice()]).unwrap();
    let error = network
        .text
        .unwrap()
        .forward(&long, None)
        .unwrap_err()
        .to_string();
    assert!(error.contains("[1, 39]") && error.contains("[1, 38]"), "{error}");
}
