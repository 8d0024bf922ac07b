//! Real data and real weights: `HARK_DATA` (else `shared/data` beside the repository) has the caption and rating files, the user's
//! own store the models. A test fails without what it needs; `scripts/check` leaves it out and lists it.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn run(args: &[&str]) -> Value {
    run_in(None, args)
}

/// With another place for models and libraries than the user's.
fn run_in(home: Option<&Path>, args: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hark"));
    if let Some(home) = home {
        command.env("HARK_HOME", home);
    }
    let output = command.args(args).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

mod needs_data {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use super::{run, run_in};

    fn data(file: &str) -> String {
        let folder = std::env::var_os("HARK_DATA").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
            PathBuf::from,
        );
        let path = folder.join(file);
        assert!(path.is_file(), "needs {}: set HARK_DATA", path.display());
        path.display().to_string()
    }

    /// The built-in encoder on human ratings that it was not fitted to: within 0.04 of its teacher's 0.678.
    #[test]
    fn the_built_in_encoder_agrees_with_people() {
        let files = ["development", "validation"].map(|split| {
            let file = |kind: &str| data(&format!("clotho/clotho_{kind}_{split}.csv"));
            (file("captions"), file("ratings"))
        });
        let mut args = vec!["relevance", "agree", "--json", "--model", "caption-static"];
        for (captions, ratings) in &files {
            args.extend(["--captions", captions, "--ratings", ratings]);
        }
        let found = run(&args);
        let all = &found["agreement"][2];
        assert_eq!(all["observations"], 6800);
        let spearman = all["spearman_similarity"].as_f64().unwrap();
        assert!((spearman - 0.678).abs() < 0.04, "{spearman}");
    }

    /// The first two clips of each class in fold 3 of ESC-50, which no model here was trained on, and the table of their classes.
    fn esc50() -> (Vec<String>, String) {
        let table = data("esc50/esc50.csv");
        let mut clips: Vec<(String, String)> = Vec::new();
        for row in csv::Reader::from_path(&table).unwrap().records() {
            let row = row.unwrap();
            let (file, category) = (&row[0], row[2].to_owned());
            if &row[1] == "3" && clips.iter().filter(|(_, other)| *other == category).count() < 2 {
                clips.push((data(&format!("esc50/{file}")), category));
            }
        }
        assert_eq!(clips.len(), 100);
        (clips.into_iter().map(|(path, _)| path).collect(), table)
    }

    fn accuracy(home: &Path, model: &str) -> f64 {
        let (clips, table) = esc50();
        let clips = clips.iter().map(String::as_str);
        let args = ["classify", "--json", "--model", model, "--truth", &table];
        let found = run_in(Some(home), &args.into_iter().chain(clips).collect::<Vec<_>>());
        let accuracy = &found["accuracy"];
        assert_eq!(accuracy["recordings"], 100);
        accuracy["first"].as_f64().unwrap()
    }

    /// Zero-shot among 50 classes, where chance is 0.02.
    #[test]
    fn the_built_in_model_names_real_sounds() {
        let home = tempfile::tempdir().unwrap();
        let accuracy = accuracy(home.path(), "everyday");
        assert!(accuracy >= 0.5, "{accuracy}");
    }

    /// The file as its authors publish it: pulled, imported, bridged, used.
    #[test]
    fn a_released_tagger_becomes_a_dual_encoder() {
        let home = tempfile::tempdir().unwrap();
        let file = data("models/mn04_as_mAP_432.pt");
        let folder = Path::new(&file).parent().unwrap().display().to_string();
        run_in(
            Some(home.path()),
            &["models", "pull", "mn04-as", "--from", &folder, "--json"],
        );
        let made = run_in(
            Some(home.path()),
            &[
                "models", "bridge", "--audio", "mn04-as", "--name", "tags", "--json",
            ],
        );
        assert_eq!(made["card"]["audio"]["labels"].as_array().unwrap().len(), 527);
        let accuracy = accuracy(home.path(), "tags");
        assert!(accuracy >= 0.6, "{accuracy}");
    }

    #[test]
    fn audiocaps_embeds_with_the_built_in_encoder() {
        let captions = data("audiocaps/train.csv");
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
}

mod needs_weights {
    use super::run;

    /// The encoder that the paper used.
    const MODEL: &str = "all-mpnet-base-v2";

    /// Fails unless the model is in the user's store.
    fn demand(name: &str) {
        let listed = run(&["models", "list", "--json"]);
        let here = listed["models"]
            .as_array()
            .unwrap()
            .iter()
            .any(|model| model["name"] == name && model["state"] == "here");
        assert!(here, "needs {name}: run hark models pull {name}");
    }

    /// The paper's Table I, with the encoder that it used.
    #[test]
    fn the_papers_first_table() {
        demand(MODEL);
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
            MODEL,
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
        demand(MODEL);
        let folder = tempfile::tempdir().unwrap();
        let embed = |name: &str, captions: &[String]| {
            let path = folder.path().join(name).display().to_string();
            let mut args = vec!["embed", "--json", "--no-cache", "--model", MODEL, "-o", &path];
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
}
