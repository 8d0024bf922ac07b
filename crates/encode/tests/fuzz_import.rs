//! Checkpoints of whole models with changed bytes: an error or a model each, never a panic.
//!
//! Run for longer with `BOLERO_RANDOM_TEST_TIME_MS=600000 cargo test --release -p hark-encode --test fuzz_import`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hark_encode::Compute;
use hark_encode::checkpoint::Checkpoint;
use hark_encode::import::{Options, import};

/// How long the target runs where nothing else is said.
const TIME: Duration = Duration::from_secs(4);

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/towers")
        .join(name)
}

fn as_safetensors(file: &Path, scratch: &Path) -> Vec<u8> {
    let file = Checkpoint::open(file).unwrap();
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = file
        .names()
        .filter(|name| !name.ends_with("position_ids"))
        .map(|name| {
            let shape = file.shape(name).unwrap().to_vec();
            let numbers = file.take(name, &shape).unwrap();
            let bytes = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
            (name.to_owned(), shape, bytes)
        })
        .collect();
    let views = tensors.iter().map(|(name, shape, bytes)| {
        let view =
            safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape.clone(), bytes).unwrap();
        (name, view)
    });
    safetensors::serialize_to_file(views, None, scratch).unwrap();
    fs_err::read(scratch).unwrap()
}

#[test]
fn changed_checkpoints_are_errors_or_models() {
    let options = Options {
        audio_heads: Some(2),
        text_heads: Some(2),
        ..Options::default()
    };
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("changed");
    let tokenizer = golden("tokenizer-json");
    // As safetensors, which have no checksums: what is changed is then met by the import itself, and not by the zip reader.
    let files = ["passt.pt", "authors.pt", "winner.ckpt"].map(|name| as_safetensors(&golden(name), &path));
    for file in &files {
        fs_err::write(&path, file).unwrap();
        import(&path, Some(&tokenizer), &options, &Compute::cpu(1)).unwrap();
    }
    bolero::check!()
        .with_test_time(TIME)
        .with_type::<(u8, Vec<(u32, u8)>, Option<u32>)>()
        .for_each(|(which, changes, cut)| {
            let mut bytes = files[usize::from(*which) % files.len()].clone();
            for &(at, byte) in changes {
                // Most of a file is numbers, which may be any; names, shapes and offsets stand at its ends.
                let length = bytes.len() as u32;
                let at = if at % 2 == 0 {
                    at / 2 % 16_384
                } else {
                    length - 1 - at / 2 % 16_384
                };
                bytes[(at % length) as usize] = byte;
            }
            if let Some(cut) = cut {
                bytes.truncate(*cut as usize % (bytes.len() + 1));
            }
            fs_err::write(&path, &bytes).unwrap();
            let _ = import(&path, Some(&tokenizer), &options, &Compute::cpu(1));
        });
}
