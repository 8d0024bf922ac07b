//! Real data and real weights: `HARK_DATA` (else `shared/data` beside the repository) has the caption and rating files, the user's
//! own store the models. A test fails without what it needs; `scripts/check` leaves it out and lists it.

use std::process::Command;

use serde_json::Value;

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

mod needs_data {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use super::run;

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
