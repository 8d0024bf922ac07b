//! The sentence encoder against the reference: token ids and vectors that `golden/sentence_tiny.py` wrote with the
//! `sentence-transformers` package, on small models with random weights.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use hark_encode::Error;
use hark_encode::sentence::{CachedSentenceEncoder, SentenceFolder, SentenceModel, TransformerEncoder};
use hark_encode::{Compute, SentenceEncoder};
use serde::Deserialize;

/// The reference and we both compute in 32 bits, in different order. The script measures how far the reference's own
/// result is from one in 64 bits (`float32_error`, below 1e-6); ten times that leaves room for our order.
const TOLERANCE: f32 = 1e-5;

#[derive(Deserialize)]
struct Expected {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    text: String,
    ids: Vec<u32>,
    tokens_before_truncation: usize,
    embedding: Vec<f32>,
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

fn expected(name: &str) -> Vec<Case> {
    let bytes = fs_err::read(golden(name).join("expected.json")).unwrap();
    serde_json::from_slice::<Expected>(&bytes).unwrap().cases
}

fn load(name: &str, threads: usize) -> TransformerEncoder {
    TransformerEncoder::load(
        &SentenceFolder::open(&golden(name)).unwrap(),
        &Compute::cpu(threads),
    )
    .unwrap()
}

fn embed(encoder: &TransformerEncoder, texts: &[&str]) -> Vec<f32> {
    encoder
        .embed(texts, &hark_work::progress::no_progress)
        .unwrap()
        .into_vec()
}

fn check_model(name: &str) {
    let cases = expected(name);
    assert!(cases.len() >= 20);
    let encoder = load(name, 2);
    let texts: Vec<&str> = cases.iter().map(|case| case.text.as_str()).collect();
    let tokens = encoder
        .tokenizer()
        .encode(&texts.iter().map(|text| text.trim()).collect::<Vec<_>>())
        .unwrap();
    let vectors = embed(&encoder, &texts);
    for ((case, tokens), vector) in cases.iter().zip(tokens).zip(vectors.chunks_exact(encoder.dim())) {
        assert_eq!(tokens.ids, case.ids, "{name}, {}", case.name);
        assert_eq!(
            tokens.cut,
            case.tokens_before_truncation > case.ids.len(),
            "{name}, {}",
            case.name
        );
        // A folder may end without its own normalisation; our vectors always have length 1.
        let norm = case.embedding.iter().map(|x| x * x).sum::<f32>().sqrt();
        for (got, expected) in vector.iter().zip(&case.embedding) {
            let difference = (got - expected / norm).abs();
            assert!(
                difference < TOLERANCE,
                "{name}, {}: {got} and {}, {difference:e}",
                case.name,
                expected / norm
            );
        }
    }
}

#[test]
fn mpnet_equals_the_reference() {
    check_model("mpnet-tiny");
}

#[test]
fn bert_equals_the_reference() {
    check_model("bert-tiny");
}

#[test]
fn first_token_pooling_equals_the_reference() {
    check_model("bert-tiny-cls");
}

/// The same bytes alone, among others, in any order, on any number of threads.
#[test]
fn a_vector_does_not_depend_on_its_company() {
    for name in ["mpnet-tiny", "bert-tiny"] {
        let cases = expected(name);
        let mut texts: Vec<&str> = cases.iter().map(|case| case.text.as_str()).collect();
        // Enough of one length that they fill more than one batch.
        texts.extend(std::iter::repeat_n(
            "a cat is crying and a person is speaking",
            300,
        ));
        let encoder = load(name, 2);
        let dim = encoder.dim();
        let together = embed(&encoder, &texts);
        let single = load(name, 1);
        assert_eq!(together, embed(&single, &texts), "{name}: one thread");
        let backwards: Vec<&str> = texts.iter().rev().copied().collect();
        let reversed = embed(&encoder, &backwards);
        for (nth, text) in texts.iter().enumerate() {
            let vector = &together[nth * dim..][..dim];
            let mirrored = texts.len() - 1 - nth;
            assert_eq!(
                vector,
                &reversed[mirrored * dim..][..dim],
                "{name}: backwards, {text:?}"
            );
            if nth < cases.len() {
                assert_eq!(vector, embed(&encoder, &[text]), "{name}: alone, {text:?}");
            }
        }
    }
}

#[test]
fn vectors_have_length_one() {
    let encoder = load("bert-tiny-cls", 1);
    let norm = embed(&encoder, &["rain"])
        .iter()
        .map(|x| x * x)
        .sum::<f32>()
        .sqrt();
    assert!((norm - 1.0).abs() < 1e-6, "{norm}");
}

#[test]
fn no_captions_is_no_work() {
    assert!(embed(&load("bert-tiny", 2), &[]).is_empty());
}

#[test]
fn breaking_off_is_an_error_and_keeps_what_was_done() {
    let cache = tempfile::tempdir().unwrap();
    let texts: Vec<String> = (0..2000).map(|nth| format!("dog number {nth}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let open = || {
        CachedSentenceEncoder::open(
            SentenceModel::open(&golden("bert-tiny")).unwrap(),
            Some(cache.path()),
            &Compute::cpu(2),
        )
        .unwrap()
    };
    let broken = open().embed(&texts, &|done, _| {
        if done > 1000 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert!(matches!(broken, Err(Error::Cancelled)), "{broken:?}");
    let resumed = open().embed(&texts, &hark_work::progress::no_progress).unwrap();
    assert!(
        resumed.computed > 0 && resumed.computed < 1000,
        "{} computed again",
        resumed.computed
    );
    let fresh = embed(&load("bert-tiny", 2), &texts);
    assert_eq!(resumed.embeddings.as_slice(), fresh);
}

#[test]
fn either_kind_of_encoder_answers_alike() {
    let captions = ["rain on a roof", "a dog barks", "rain on a roof"];
    for name in ["bert-tiny", "mpnet-tiny"] {
        let encoder = SentenceEncoder::open(&golden(name), &Compute::cpu(2)).unwrap();
        let embeddings = encoder.embed(&captions).unwrap();
        assert_eq!(embeddings.as_slice(), embed(&load(name, 1), &captions));
        assert_eq!((embeddings.len(), embeddings.dim()), (3, encoder.dim()));
    }
    let encoder = SentenceEncoder::built_in().unwrap();
    let embeddings = encoder.embed(&captions).unwrap();
    assert_eq!(embeddings.row(0), embeddings.row(2));
    assert_ne!(embeddings.row(0), embeddings.row(1));
    let stopped = encoder.embed_with(&captions, &|_, _| ControlFlow::Break(()));
    assert!(matches!(stopped, Err(hark_encode::Error::Cancelled)));
}

#[test]
fn a_second_run_computes_nothing() {
    let cache = tempfile::tempdir().unwrap();
    let texts = ["rain", "wind", "rain", "a dog barks", " wind "];
    let open = || {
        CachedSentenceEncoder::open(
            SentenceModel::open(&golden("mpnet-tiny")).unwrap(),
            Some(cache.path()),
            &Compute::cpu(1),
        )
        .unwrap()
    };
    let first = open().embed(&texts, &hark_work::progress::no_progress).unwrap();
    assert_eq!(first.computed, 3);
    let second = open().embed(&texts, &hark_work::progress::no_progress).unwrap();
    assert_eq!(second.computed, 0);
    assert_eq!(first.embeddings.as_slice(), second.embeddings.as_slice());
}

/// A copy of a golden folder that a test may damage.
fn copy(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let source = golden(name);
    fs_err::create_dir(folder.path().join("1_Pooling")).unwrap();
    for file in [
        "config.json",
        "modules.json",
        "1_Pooling/config.json",
        "sentence_bert_config.json",
        "tokenizer_config.json",
        "tokenizer.json",
        "model.safetensors",
    ] {
        fs_err::copy(source.join(file), folder.path().join(file)).unwrap();
    }
    folder
}

fn refused(folder: &Path) -> String {
    let result =
        SentenceFolder::open(folder).and_then(|folder| TransformerEncoder::load(&folder, &Compute::cpu(1)));
    result.expect_err("the folder must be refused").to_string()
}

fn edit(path: &Path, from: &str, to: &str) {
    let text = fs_err::read_to_string(path).unwrap();
    assert!(text.contains(from), "{text}");
    fs_err::write(path, text.replace(from, to)).unwrap();
}

#[test]
fn what_is_unsupported_is_refused_by_its_name() {
    let cases = [
        ("config.json", "\"mpnet\"", "\"electra\"", "model type `electra`"),
        ("config.json", "\"gelu\"", "\"relu\"", "activation `relu`"),
        (
            "config.json",
            "\"hidden_size\": 32",
            "\"hidden_size\": 33",
            "33 does not divide into 4 heads",
        ),
        (
            "config.json",
            "\"hidden_size\": 32",
            "\"hidden_size\": 64",
            "`embeddings.word_embeddings.weight` has shape",
        ),
        (
            "config.json",
            "\"num_hidden_layers\": 2",
            "\"num_hidden_layers\": 3",
            "`encoder.layer.2.attention.attn.q.weight` is missing",
        ),
        (
            "config.json",
            "\"num_hidden_layers\": 2",
            "\"num_hidden_layers\": 1",
            "tensors that the model does not use: `encoder.layer.1.",
        ),
        (
            "config.json",
            "\"num_hidden_layers\": 2",
            "\"num_hidden_layers\": 99999999",
            "layers is 99999999",
        ),
        (
            "config.json",
            "\"hidden_size\": 32",
            "\"hidden_sise\": 32",
            "missing field `hidden_size`",
        ),
        (
            "modules.json",
            "normalize.Normalize",
            "dense.Dense",
            "module `Dense`",
        ),
        ("1_Pooling/config.json", "\"mean\"", "\"max\"", "pooling by `max`"),
        ("tokenizer.json", "{", "[", "tokenizer.json"),
    ];
    for (file, from, to, said) in cases {
        let folder = copy("mpnet-tiny");
        edit(&folder.path().join(file), from, to);
        let message = refused(folder.path());
        assert!(message.contains(said), "{file}, {to}: {message}");
        assert!(
            message.contains(file) || message.contains("model.safetensors"),
            "no file named: {message}"
        );
    }
}

#[test]
fn a_missing_file_is_named() {
    for file in [
        "config.json",
        "modules.json",
        "1_Pooling/config.json",
        "tokenizer.json",
        "model.safetensors",
    ] {
        let folder = copy("bert-tiny");
        fs_err::remove_file(folder.path().join(file)).unwrap();
        let message = refused(folder.path());
        assert!(
            message.contains(file) && message.contains("cannot find"),
            "{message}"
        );
    }
}

#[test]
fn weights_cut_short_anywhere_are_refused() {
    let folder = copy("bert-tiny");
    let path = folder.path().join("model.safetensors");
    let bytes = fs_err::read(&path).unwrap();
    for length in [0, 4, 8, 9, 500, bytes.len() / 2, bytes.len() - 1] {
        fs_err::write(&path, &bytes[..length]).unwrap();
        let message = refused(folder.path());
        assert!(
            message.contains("model.safetensors: truncated or damaged safetensors file"),
            "{message}"
        );
    }
    // A header that promises more than memory holds.
    let mut lying = bytes.clone();
    lying[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    fs_err::write(&path, &lying).unwrap();
    assert!(refused(folder.path()).contains("truncated or damaged safetensors file"));
}

#[test]
fn a_tokenizer_of_another_model_is_refused() {
    let folder = copy("bert-tiny");
    // BERT's ids reach further than this model's table.
    edit(
        &folder.path().join("tokenizer.json"),
        "\"[CLS]\": 259",
        "\"[CLS]\": 5259",
    );
    let message = refused(folder.path());
    assert!(
        message.contains("ids up to 5259") && message.contains("do not belong together"),
        "{message}"
    );
}

/// Special tokens have their ids from another part of the file than the vocabulary.
#[test]
fn a_special_token_without_a_vector_is_refused() {
    let folder = copy("bert-tiny");
    let path = folder.path().join("tokenizer.json");
    let mut json: serde_json::Value = serde_json::from_slice(&fs_err::read(&path).unwrap()).unwrap();
    json["post_processor"]["special_tokens"]["[CLS]"]["ids"] = serde_json::json!([5259]);
    fs_err::write(&path, json.to_string()).unwrap();
    let encoder =
        TransformerEncoder::load(&SentenceFolder::open(folder.path()).unwrap(), &Compute::cpu(1)).unwrap();
    let error = encoder
        .embed(&["rain"], &hark_work::progress::no_progress)
        .unwrap_err()
        .to_string();
    assert!(error.contains("ids up to 5259"), "{error}");
}

/// Sizes in a configuration are believed only if the weights have them: they decide what is allocated.
#[test]
fn an_absurd_size_is_refused_before_anything_is_allocated() {
    let folder = copy("mpnet-tiny");
    edit(
        &folder.path().join("config.json"),
        "\"hidden_size\": 32",
        "\"hidden_size\": 16777216",
    );
    assert!(
        SentenceFolder::open(folder.path())
            .unwrap_err()
            .to_string()
            .contains("[263, 16777216]")
    );
}

#[test]
fn weights_that_are_not_numbers_are_noticed() {
    let folder = copy("bert-tiny");
    let path = folder.path().join("model.safetensors");
    let mut bytes = fs_err::read(&path).unwrap();
    let start = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    for number in bytes[start..].chunks_exact_mut(4) {
        number.copy_from_slice(&f32::NAN.to_le_bytes());
    }
    fs_err::write(&path, &bytes).unwrap();
    let encoder =
        TransformerEncoder::load(&SentenceFolder::open(folder.path()).unwrap(), &Compute::cpu(1)).unwrap();
    let error = encoder
        .embed(&["rain"], &hark_work::progress::no_progress)
        .unwrap_err()
        .to_string();
    assert!(error.contains("rain") && error.contains("damaged"), "{error}");
}

#[test]
fn the_fingerprint_follows_what_decides_the_numbers() {
    let folder = copy("bert-tiny");
    let print = || {
        SentenceFolder::open(folder.path())
            .unwrap()
            .fingerprint()
            .unwrap()
    };
    let before = print();
    assert_eq!(
        before,
        SentenceFolder::open(&golden("bert-tiny"))
            .unwrap()
            .fingerprint()
            .unwrap()
    );
    let path = folder.path().join("model.safetensors");
    let mut bytes = fs_err::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs_err::write(&path, bytes).unwrap();
    assert_ne!(before, print());
}

mod static_encoder {
    use super::*;
    use hark_encode::sentence::{Card, Parts, StaticEncoder};

    fn card() -> Card {
        Card {
            name: "tiny".to_owned(),
            teacher: "none".to_owned(),
            teacher_fingerprint: String::new(),
            captions: Vec::new(),
            command: "none".to_owned(),
            teacher_licence: "none".to_owned(),
            captions_licence: "none".to_owned(),
        }
    }

    fn parts() -> Parts {
        Parts {
            units: ["rain", "dog", "##s", "dog barks"].map(str::to_owned).to_vec(),
            vectors: vec![127, 0, 0, 127, 64, 64, -127, 0],
            scales: vec![1.0, 0.5, 0.25, 1.0],
            bias: vec![0.0, 1.0],
        }
    }

    fn write(folder: &Path, parts: &Parts) {
        fs_err::write(
            folder.join("model.safetensors"),
            StaticEncoder::to_bytes(parts, &card()).unwrap(),
        )
        .unwrap();
    }

    #[test]
    fn a_vector_is_the_weighted_sum_of_its_units() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &parts());
        let SentenceModel::Static(encoder) = SentenceModel::open(folder.path()).unwrap() else {
            panic!("a folder without a configuration is a static encoder");
        };
        assert_eq!((encoder.dim(), encoder.units()), (2, 4));
        // bias + rain, bias + dog + ##s, the bias alone.
        let sums = [[127.0_f32, 1.0], [16.0, 1.0 + 63.5 + 16.0], [0.0, 1.0]];
        let vectors = encoder.embed(&["Rain!", "dogs", "xyz"]).unwrap();
        for (vector, sum) in vectors.rows().zip(sums) {
            let norm = sum[0].hypot(sum[1]);
            assert!(
                (vector[0] - sum[0] / norm).abs() < 1e-6 && (vector[1] - sum[1] / norm).abs() < 1e-6,
                "{vector:?}"
            );
        }
    }

    #[test]
    fn damaged_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &parts());
        let path = folder.path().join("model.safetensors");
        let bytes = fs_err::read(&path).unwrap();
        for length in 0..bytes.len() {
            fs_err::write(&path, &bytes[..length]).unwrap();
            assert!(StaticEncoder::open(&path).is_err(), "cut at {length}");
        }
        let wrong = |change: fn(&mut Parts)| {
            let mut parts = parts();
            change(&mut parts);
            StaticEncoder::to_bytes(&parts, &card()).unwrap_err().to_string()
        };
        assert!(wrong(|parts| parts.scales[0] = f32::NAN).contains("not a number"));
        assert!(wrong(|parts| parts.scales.push(1.0)).contains("scales"));
        assert!(wrong(|parts| drop(parts.units.pop())).contains("vectors"));
        // A transformer's weights without their configuration are not one of ours.
        fs_err::copy(golden("bert-tiny/model.safetensors"), &path).unwrap();
        assert!(
            SentenceModel::open(folder.path())
                .unwrap_err()
                .to_string()
                .contains("that is not a static encoder")
        );
    }

    #[test]
    fn the_embedded_one_knows_captions() {
        let encoder = StaticEncoder::built_in().unwrap();
        assert_eq!(encoder.card().name, "caption-static");
        assert_eq!(encoder.card().teacher, "all-mpnet-base-v2");
        let readme = include_str!("../models/caption-static/README.md");
        let hash = hark_work::files::hex(&encoder.fingerprint());
        assert!(
            readme.contains(&hash),
            "the card's hash is that of the file: {hash}"
        );
        assert!(
            encoder
                .card()
                .captions
                .iter()
                .all(|file| file.file == "train.csv" && file.captions == 49_838)
        );
        let captions = [
            "A cat is crying and a person is speaking",
            "A man is talking and a cat crying",
            "A cat is crying",
            "Heavy rain falls on a metal roof",
            "a dog barks then a car passes",
            "a car passes then a dog barks",
        ];
        let vectors = encoder.embed(&captions).unwrap();
        let h = |a: usize, b: usize| -> f32 {
            let (a, b) = (vectors.row(a), vectors.row(b));
            a.iter().zip(b).map(|(x, y)| x * y).sum()
        };
        // The paper's Table I has 0.90 and 0.80.
        assert!((h(0, 1) - 0.90).abs() < 0.08, "{}", h(0, 1));
        assert!((h(0, 2) - 0.80).abs() < 0.08, "{}", h(0, 2));
        assert!(h(0, 3) < 0.3, "{}", h(0, 3));
        // Order tells a little, and only a little.
        assert!(h(4, 5) > 0.8 && h(4, 5) < 0.999, "{}", h(4, 5));
    }

    /// Words that nobody has heard of, and no words at all.
    #[test]
    fn any_text_has_a_vector() {
        let encoder = StaticEncoder::built_in().unwrap();
        let long = "rain ".repeat(5_000);
        let texts = [
            "",
            "!?",
            "zzyzxqwv",
            "雨が降っている",
            "дождь",
            "\u{1F415} barks",
            long.as_str(),
        ];
        let vectors = encoder.embed(&texts).unwrap();
        for vector in vectors.rows() {
            let norm: f32 = vector.iter().map(|x| x * x).sum();
            assert!((norm - 1.0).abs() < 1e-4, "{norm}");
        }
    }
}
