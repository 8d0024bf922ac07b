//! Real data and real weights, where they are: `HARK_DATA` (else `shared/data` beside the repository) has the caption and
//! rating files, the user's own store the models. Where they are absent, a test says that it was skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn data(file: &str) -> Option<String> {
    let folder = std::env::var_os("HARK_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let path = folder.join(file);
    if !path.is_file() {
        eprintln!(
            "skipped: {} is not here; HARK_DATA names the folder",
            path.display()
        );
        return None;
    }
    Some(path.display().to_string())
}

fn run(args: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_hark"))
        .args(args)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Whether a model is in the user's store.
fn here(name: &str) -> bool {
    let listed = run(&["models", "list", "--json"]);
    let here = listed["models"]
        .as_array()
        .unwrap()
        .iter()
        .any(|model| model["name"] == name && model["state"] == "here");
    if !here {
        eprintln!("skipped: {name} is not here; hark models pull {name} gets it");
    }
    here
}

/// The built-in encoder on human ratings that it was not fitted to: within 0.04 of its teacher's 0.678.
#[test]
fn the_built_in_encoder_agrees_with_people() {
    let files = ["development", "validation"].map(|split| {
        let file = |kind: &str| data(&format!("clotho/clotho_{kind}_{split}.csv"));
        file("captions").zip(file("ratings"))
    });
    let [Some(first), Some(second)] = files else {
        return;
    };
    let mut args = vec!["relevance", "agree", "--json", "--model", "caption-static"];
    for (captions, ratings) in [&first, &second] {
        args.extend(["--captions", captions, "--ratings", ratings]);
    }
    let found = run(&args);
    let all = &found["agreement"][2];
    assert_eq!(all["observations"], 6800);
    let spearman = all["spearman_similarity"].as_f64().unwrap();
    assert!((spearman - 0.678).abs() < 0.04, "{spearman}");
}

#[test]
fn audiocaps_embeds_with_the_built_in_encoder() {
    let Some(captions) = data("audiocaps/train.csv") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("captions.npy");
    let status = Command::new(env!("CARGO_BIN_EXE_hark"))
        .args([
            "embed",
            "--model",
            "caption-static",
            "--no-cache",
            "--captions",
            &captions,
            "-o",
        ])
        .arg(&out)
        .status()
        .unwrap();
    assert!(status.success());
    let header = 128;
    assert_eq!(out.metadata().unwrap().len(), header + 49_838 * 256 * 4);
}

/// The paper's Table I, with the encoder that it used.
#[test]
fn the_papers_first_table() {
    if !here("all-mpnet-base-v2") {
        return;
    }
    let captions = [
        "A cat is crying and a person is speaking",
        "A man is talking and a cat crying",
        "A cat is crying",
        "A woman speaks then a cat sighs",
        "People speak to each other, and a cat wails angrily",
    ];
    let args = [
        "relevance",
        "similarity",
        "--json",
        "--no-cache",
        "--model",
        "all-mpnet-base-v2",
    ];
    let found = run(&[&args[..], &captions].concat());
    for (nth, expected) in [1.0, 0.898, 0.790, 0.778, 0.772].into_iter().enumerate() {
        let got = found["similarities"][nth].as_f64().unwrap();
        assert!((got - expected).abs() < 0.001, "{}: {got}", captions[nth]);
    }
}

/// The same bytes alone and in company, at full size.
#[test]
fn a_real_vector_does_not_depend_on_its_company() {
    if !here("all-mpnet-base-v2") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let embed = |name: &str, captions: &[String]| {
        let path = folder.path().join(name).display().to_string();
        let mut args = vec![
            "embed",
            "--json",
            "--no-cache",
            "--model",
            "all-mpnet-base-v2",
            "-o",
            &path,
        ];
        for caption in captions {
            args.extend(["--text", caption.as_str()]);
        }
        run(&args);
        fs_err::read(&path).unwrap().split_off(128)
    };
    let captions: Vec<String> = (0..24)
        .map(|nth| {
            format!(
                "A dog barks {} as rain falls",
                ["", "loudly", "at a car", "again"][nth % 4]
            )
        })
        .collect();
    let together = embed("together.npy", &captions);
    for nth in [0, 1, 23] {
        assert_eq!(
            embed("alone.npy", &captions[nth..=nth]),
            together[nth * 768 * 4..][..768 * 4],
            "{nth}"
        );
    }
}
