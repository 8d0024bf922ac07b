//! Files that `golden/torch_files.py` wrote, against what PyTorch itself reads from them. Every number has to be the
//! same: nothing is computed, and the conversions round as PyTorch's do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hark_torchfile::Error;
use hark_torchfile::{Dtype, TorchFile};
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    files: BTreeMap<String, BTreeMap<String, Tensor>>,
}

#[derive(Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<usize>,
    values: Option<Vec<Number>>,
}

/// JSON has no infinities: those are texts.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Finite(f64),
    Text(String),
}

impl Number {
    fn value(&self) -> f32 {
        match self {
            Self::Finite(value) => *value as f32,
            Self::Text(text) => text.parse().unwrap(),
        }
    }
}

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/torch")
}

fn expected() -> BTreeMap<String, BTreeMap<String, Tensor>> {
    let bytes = fs_err::read(folder().join("expected.json")).unwrap();
    serde_json::from_slice::<Expected>(&bytes).unwrap().files
}

fn check(file: &TorchFile, name: &str, tensor: &Tensor, context: &str) {
    let info = &file.tensors()[name];
    assert_eq!(info.dtype.to_string(), tensor.dtype, "{context}");
    assert_eq!(info.shape, tensor.shape, "{context}");
    assert_eq!(
        info.elements(),
        tensor.shape.iter().product::<usize>(),
        "{context}"
    );
    let Some(values) = &tensor.values else {
        let refused = file.read_f32(name).unwrap_err().to_string();
        assert!(!info.dtype.is_float(), "{context}");
        assert!(refused.contains(&tensor.dtype), "{context}: {refused}");
        return;
    };
    let got = file.read_f32(name).unwrap();
    assert_eq!(got.len(), values.len(), "{context}");
    for (got, expected) in got.iter().zip(values.iter().map(Number::value)) {
        assert!(
            got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan()),
            "{context}: {got} and {expected}"
        );
    }
}

#[test]
fn every_number_is_the_one_that_pytorch_reads() {
    let files = expected();
    assert!(files.len() >= 15);
    for (file_name, tensors) in files {
        let file = TorchFile::open(&folder().join(&file_name)).unwrap();
        let names: Vec<&String> = file.tensors().keys().collect();
        assert_eq!(names, tensors.keys().collect::<Vec<_>>(), "{file_name}");
        for (name, tensor) in &tensors {
            check(&file, name, tensor, &format!("{file_name}, {name}"));
        }
    }
}

#[test]
fn tensors_can_be_read_in_any_order_and_again() {
    let file = TorchFile::open(&folder().join("views.pt")).unwrap();
    let first: Vec<_> = file
        .tensors()
        .keys()
        .map(|name| file.read_f32(name).unwrap())
        .collect();
    let mut again: Vec<_> = file
        .tensors()
        .keys()
        .rev()
        .map(|name| file.read_f32(name).unwrap())
        .collect();
    again.reverse();
    assert_eq!(first, again);
}

#[test]
fn only_the_model_is_seen() {
    for name in ["tuple.pt", "lightning.ckpt", "model_part.pth"] {
        let file = TorchFile::open(&folder().join(name)).unwrap();
        assert_eq!(file.tensors().len(), 8, "{name}");
        assert!(file.others().is_empty(), "{name}: {:?}", file.others());
    }
}

#[test]
fn entries_that_are_no_tensors_are_listed_with_what_they_are() {
    let file = TorchFile::open(&folder().join("foreign_entries.pt")).unwrap();
    assert_eq!(file.tensors().keys().collect::<Vec<_>>(), ["weight"]);
    let others: Vec<(&str, &str)> = file
        .others()
        .iter()
        .map(|(k, v)| (k.as_str(), v.as_str()))
        .collect();
    assert_eq!(
        others,
        [
            ("(an integer)", "a tensor"),
            ("conjugated", "a tensor to be conjugated or negated"),
            ("count", "an integer"),
            (
                "meta",
                "an object of class `torch._utils._rebuild_meta_tensor_no_storage`"
            ),
            ("nested", "a dictionary"),
            ("nothing", "nothing (None)"),
            ("own", "an object of class `__main__.Settings`"),
            ("quantised", "an object of class `torch._utils._rebuild_qtensor`"),
            (
                "sparse",
                "an object of class `torch._utils._rebuild_sparse_tensor`"
            ),
            ("text", "a text"),
        ]
    );
    let refused = file.read_f32("own").unwrap_err().to_string();
    assert!(
        refused.contains("`__main__.Settings` as tensor `own`"),
        "{refused}"
    );
}

#[test]
fn a_name_that_is_not_there_shows_the_one_most_like_it() {
    let file = TorchFile::open(&folder().join("lightning.ckpt")).unwrap();
    let error = file.read_f32("linear.weight").unwrap_err();
    assert!(
        matches!(&error, Error::MissingTensor { nearest, .. } if nearest == "`net.linear.weight`"),
        "{error}"
    );
}

#[test]
fn a_model_as_an_object_and_torchscript_are_refused_by_name() {
    for (name, what) in [
        (
            "whole_model.pt",
            "an object of class `torch.nn.modules.linear.Linear`",
        ),
        ("script.pt", "TorchScript"),
    ] {
        let error = TorchFile::open(&folder().join(name)).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn integers_are_known_for_what_they_are() {
    let file = TorchFile::open(&folder().join("plain.pt")).unwrap();
    assert_eq!(file.tensors()["norm.num_batches_tracked"].dtype, Dtype::I64);
    assert_eq!(file.path(), folder().join("plain.pt"));
}
