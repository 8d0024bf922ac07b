//! What the commands print and write.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::place::{Place, model, rated_set, text};

#[test]
fn help_of_every_command_has_an_example() {
    let place = Place::new();
    let commands: [&[&str]; 25] = [
        &["relevance", "similarity"],
        &["relevance", "compute"],
        &["relevance", "fit"],
        &["relevance", "agree"],
        &["relevance", "neighbours"],
        &["embed"],
        &["index"],
        &["search"],
        &["serve"],
        &["describe"],
        &["classify"],
        &["models", "bridge"],
        &["models", "list"],
        &["models", "pull"],
        &["models", "info"],
        &["models", "import"],
        &["models", "distil"],
        &["demo"],
        &["train"],
        &["eval"],
        &["compare"],
        &["reproduce"],
        &["completions"],
        &["man"],
        &["help", "embed"],
    ];
    for command in commands {
        let mut args = command.to_vec();
        if command[0] != "help" {
            args.push("--help");
        }
        let help = place.ok(&args);
        assert!(help.contains("Example"), "{command:?}: {help}");
        assert!(
            help.contains(&format!("hark {}", command.join(" ").replace("help ", ""))),
            "{command:?}"
        );
    }
    insta::assert_snapshot!("help", place.ok(&["--help"]));
    insta::assert_snapshot!("help-relevance", place.ok(&["relevance", "--help"]));
    insta::assert_snapshot!("help-relevance-fit", place.ok(&["relevance", "fit", "--help"]));
}

#[test]
fn every_shell_gets_completions() {
    let place = Place::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = place.ok(&["completions", shell]);
        for word in ["search", "relevance", "neighbours", "all-moments"] {
            assert!(script.contains(word), "{shell}: no {word}");
        }
    }
    let other = place.run(&["completions", "tcsh"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(text(&other.stderr).contains("bash"), "{}", text(&other.stderr));
}

#[test]
fn every_command_has_a_manual_page() {
    let place = Place::new();
    let said = place.ok(&["man", "share/man1"]);
    let mut pages: Vec<String> = fs_err::read_dir(place.path("share/man1"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    assert_eq!(said, format!("wrote {} pages to share/man1\n", pages.len()));
    let help = place.ok(&["--help"]);
    let listed = help.split_once("Commands:\n").unwrap().1;
    let listed = listed.split_once("\n\n").unwrap().0;
    for command in listed.lines().filter_map(|line| line.split_whitespace().next()) {
        let page = format!("hark-{command}.1");
        assert_eq!(pages.contains(&page), command != "help", "{page}");
    }
    let page = fs_err::read_to_string(place.path("share/man1/hark-relevance-fit.1")).unwrap();
    assert!(page.contains(".TH hark-relevance-fit 1"), "{page}");
    assert!(
        page.contains("hark relevance fit") && page.contains("Examples"),
        "{page}"
    );
}

#[test]
fn similarity_compares_the_first_with_the_rest() {
    let place = Place::new();
    let model = model();
    let args = [
        "relevance",
        "similarity",
        "--model",
        &model,
        "a cat cries",
        "a cat cries",
        "rain falls",
        "--json",
    ];
    let found = place.json(&args);
    let similarities: Vec<f64> = serde_json::from_value(found["similarities"].clone()).unwrap();
    assert_eq!(similarities.len(), 3);
    assert_eq!(found["similarities"][0], 1.0);
    assert!((similarities[1] - 1.0).abs() < 1e-6 && similarities[2] < 0.999);
    let expected = 1.0 / (1.0 + (2.73 - 4.58 * similarities[2]).exp());
    assert!((found["relevances"][2].as_f64().unwrap() - expected).abs() < 1e-9);
}

#[test]
fn captions_come_from_stdin_as_well() {
    let place = Place::new();
    let model = model();
    let args = ["relevance", "similarity", "--model", &model, "--captions", "-"];
    let mut child = place
        .command(&args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all("rain\nwind\n\nhail\n".as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(text(&output.stdout).lines().count(), 4);
}

#[test]
fn the_second_run_adds_nothing_to_the_cache() {
    let place = Place::new();
    let folder = place.path("model");
    copy_folder(Path::new(&model()), &folder);
    let folder = folder.display().to_string();
    let args = [
        "relevance",
        "similarity",
        "--model",
        &folder,
        "rain",
        "wind",
        "--json",
    ];
    let first = place.ok(&args);
    let caches: Vec<_> = fs_err::read_dir(place.path("home/embeddings")).unwrap().collect();
    assert_eq!(caches.len(), 1);
    let path = caches[0].as_ref().unwrap().path();
    let before = fs_err::read(&path).unwrap();
    assert_eq!(first, place.ok(&args));
    assert_eq!(before, fs_err::read(&path).unwrap());
    // What is not cached is computed by the same model, and added.
    place.ok(&["relevance", "similarity", "--model", &folder, "rain", "hail"]);
    assert!(fs_err::read(&path).unwrap().starts_with(&before));
}

fn copy_folder(from: &Path, to: &Path) {
    fs_err::create_dir_all(to).unwrap();
    for entry in fs_err::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_folder(&path, &target);
        } else {
            fs_err::copy(&path, &target).unwrap();
        }
    }
}

#[test]
fn fit_and_agree_report_on_ratings() {
    let place = Place::new();
    let (captions, ratings) = rated_set(&place);
    let model = model();
    let common = ["--captions", &captions, "--ratings", &ratings, "--model", &model];
    let fit = |more: &[&'static str]| [&["relevance", "fit"], &common[..], more].concat();
    let found = place.json(&fit(&["--json", "--plot", "fit.svg"]));
    for key in ["intercept", "slope", "log_precision", "log_likelihood"] {
        assert!(found[key].as_f64().unwrap().is_finite(), "{key}");
    }
    assert_eq!(found["observations"], 10);
    let each = place.json(&fit(&["--json", "--aggregate", "each"]));
    assert_eq!(each["observations"], 20);
    assert_ne!(each["slope"], found["slope"]);
    let squeezed = place.json(&fit(&["--json", "--bound", "squeeze"]));
    assert_ne!(squeezed["slope"], found["slope"]);
    let drawing = fs_err::read_to_string(place.path("fit.svg")).unwrap();
    assert!(drawing.starts_with("<svg") && drawing.contains("fitted:") && drawing.contains("paper:"));
    assert!(drawing.matches("<circle").count() >= 10);
    // What it prints for the command line is accepted there.
    let report = place.ok(&fit(&[]));
    let function = report
        .lines()
        .find_map(|line| line.strip_prefix("--function "))
        .unwrap();
    let agree = [
        &["relevance", "agree"],
        &common[..],
        &["--json", "--function", function],
    ]
    .concat();
    let agreement = place.json(&agree);
    let row = &agreement["agreement"][0];
    assert_eq!(row["spearman_similarity"], row["spearman_relevance"]);
    assert!((-1.0..=1.0).contains(&row["pearson_similarity"].as_f64().unwrap()));
}

#[test]
fn compute_writes_the_same_numbers_in_every_form() {
    let place = Place::new();
    let (captions, _) = rated_set(&place);
    let model = model();
    let common = ["relevance", "compute", "--captions", &captions, "--model", &model];
    for output in ["g.npy", "g.safetensors"] {
        place.ok(&[&common[..], &["-o", output]].concat());
    }
    place.ok(&[&common[..], &["-o", "g.npz", "--top-k", "9"]].concat());
    let npy = fs_err::read(place.path("g.npy")).unwrap();
    let dense = &npy[128..];
    assert_eq!(dense.len(), 10 * 10 * 4);
    let at = |i: usize, j: usize| f32::from_le_bytes(dense[(i * 10 + j) * 4..][..4].try_into().unwrap());
    assert!(
        (at(3, 3) - 0.864_127).abs() < 1e-5,
        "f(1) on the diagonal, {}",
        at(3, 3)
    );
    assert!((at(2, 7) - at(7, 2)).abs() < 1e-6 && at(2, 7) < at(2, 2));

    let bytes = fs_err::read(place.path("g.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(file.tensor("relevance").unwrap().data(), dense);
    assert_eq!(file.tensor("clip").unwrap().shape(), [10]);

    // With as many neighbours as there are captions, sparse rows are the dense ones.
    let (starts, columns, numbers) = read_csr(&place.path("g.npz"));
    assert_eq!(starts, (0..=10).map(|row| row * 10).collect::<Vec<i64>>());
    assert_eq!(columns, (0..100).map(|at| at % 10).collect::<Vec<i32>>());
    for (nth, number) in numbers.iter().enumerate() {
        assert!((number - at(nth / 10, nth % 10)).abs() < 1e-6, "{nth}");
    }

    // Binary relevance is decided by the clip: captions of a clip count however unlike they are.
    let binary = [
        "relevance",
        "compute",
        "--captions",
        &captions,
        "--model",
        &model,
        "-f",
        "binary",
        "--top-k",
        "1",
    ];
    place.ok(&[&binary[..], &["-o", "b.npz"]].concat());
    let (starts, columns, numbers) = read_csr(&place.path("b.npz"));
    assert_eq!(starts, (0..=10).map(|row| row * 2).collect::<Vec<i64>>());
    assert_eq!(columns[..4], [0, 1, 0, 1]);
    assert!(
        numbers
            .iter()
            .all(|&number| number.to_bits() == 1.0_f32.to_bits())
    );

    // Options that could only be ignored, and functions that only a batch can have, are refused before any work.
    assert!(
        place
            .fails(&[&common[..], &["-o", "x.npy", "--top-k", "3"]].concat())
            .contains("--top-k is for .npz")
    );
    assert!(
        place
            .fails(&[&common[..], &["-o", "x.npy", "-f", "minmax:per-batch"]].concat())
            .contains("batch")
    );
    let minmax = place.json(&[&common[..], &["-o", "m.npy", "-f", "minmax", "--json"]].concat());
    assert!(
        minmax["function"].as_str().unwrap().starts_with("minmax:lo="),
        "{minmax}"
    );
}

/// The three arrays of a sparse file.
fn read_csr(path: &Path) -> (Vec<i64>, Vec<i32>, Vec<f32>) {
    let mut archive = zip::ZipArchive::new(fs_err::File::open(path).unwrap()).unwrap();
    let mut member = |name: &str| {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut archive.by_name(name).unwrap(), &mut bytes).unwrap();
        bytes.split_off(128)
    };
    assert_eq!(member("format.npy"), b"csr");
    assert_eq!(member("shape.npy"), [10_i64, 10].map(i64::to_le_bytes).concat());
    let starts = member("indptr.npy")
        .as_chunks()
        .0
        .iter()
        .map(|b| i64::from_le_bytes(*b))
        .collect();
    let columns = member("indices.npy")
        .as_chunks()
        .0
        .iter()
        .map(|b| i32::from_le_bytes(*b))
        .collect();
    let numbers = member("data.npy")
        .as_chunks()
        .0
        .iter()
        .map(|b| f32::from_le_bytes(*b))
        .collect();
    (starts, columns, numbers)
}

#[test]
fn neighbours_lists_pairs_of_different_clips() {
    let place = Place::new();
    let (captions, _) = rated_set(&place);
    let model = model();
    let common = [
        "relevance",
        "neighbours",
        "--captions",
        &captions,
        "--model",
        &model,
        "--batch",
        "4",
    ];
    let found = place.json(
        &[
            &common[..],
            &["--threshold=-0.5", "--json", "-k", "3", "-o", "near.npz"],
        ]
        .concat(),
    );
    let pairs = found["pairs"].as_array().unwrap();
    // Ten captions of five clips: forty pairs of different clips, of which twenty are listed.
    assert!(pairs.len() <= 20 && found["pairs_above"].as_u64().unwrap() <= 40 && !pairs.is_empty());
    let score = |pair: &Value| pair["similarity"].as_f64().unwrap();
    assert!(pairs.windows(2).all(|two| score(&two[0]) >= score(&two[1])));
    assert!(
        pairs
            .iter()
            .all(|pair| pair["first"]["clip"] != pair["second"]["clip"])
    );
    let ids = |file: &str| {
        let mut archive = zip::ZipArchive::new(fs_err::File::open(place.path(file)).unwrap()).unwrap();
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut archive.by_name("ids.npy").unwrap(), &mut bytes).unwrap();
        bytes[128..]
            .as_chunks()
            .0
            .iter()
            .map(|b| u32::from_le_bytes(*b))
            .collect::<Vec<u32>>()
    };
    assert_eq!(ids("near.npz").len(), 30);
    place.ok(&[&common[..], &["-k", "9", "-o", "others.npz", "--other-clips"]].concat());
    // Captions 2n and 2n + 1 are of one clip: eight others for each, and never its own clip's.
    let others = ids("others.npz");
    assert_eq!(others.len(), 80);
    assert!(
        others
            .chunks(8)
            .enumerate()
            .all(|(row, ids)| ids.iter().all(|&id| id as usize / 2 != row / 2))
    );
    assert!(
        place
            .ok(&common)
            .contains("likely false negatives in a random batch of 4")
    );
}

#[test]
fn any_table_of_captions_will_do() {
    let place = Place::new();
    let model = model();
    let file = place.write(
        "coco.jsonl",
        "{\"image\": 7, \"sentence\": \"a dog\"}\n{\"image\": 8, \"sentence\": \"a cat\"}\n",
    );
    let args = [
        "embed",
        "--captions",
        &file,
        "--caption-column",
        "sentence",
        "--id-column",
        "image",
        "--model",
        &model,
    ];
    place.ok(&[&args[..], &["-o", "v.npy"]].concat());
    assert_eq!(
        fs_err::metadata(place.path("v.npy")).unwrap().len(),
        128 + 2 * 32 * 4
    );
}

/// Without a model named, the built-in one answers, and says so in one line.
#[test]
fn the_built_in_encoder_needs_no_download() {
    let place = Place::new();
    let output = place.run(&[
        "relevance",
        "similarity",
        "a cat is crying",
        "a cat cries",
        "an engine runs",
        "--json",
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let notice = text(&output.stderr);
    assert_eq!(notice.lines().count(), 1, "{notice}");
    assert!(
        notice.contains("caption-static") && notice.contains("hark models pull all-mpnet-base-v2"),
        "{notice}"
    );
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let h = |nth: usize| found["similarities"][nth].as_f64().unwrap();
    assert!(h(1) > 0.8 && h(2) < 0.5, "{found}");
    // Named, it says nothing, and is listed and described like any other.
    let named = place.run(&["relevance", "similarity", "a", "b", "--model", "caption-static"]);
    assert!(named.status.success() && named.stderr.is_empty());
    assert!(place.ok(&["models", "list"]).contains("caption-static"));
    assert!(
        place
            .ok(&["models", "info", "caption-static"])
            .contains("all-mpnet-base-v2")
    );
    assert!(!place.path("home").exists(), "nothing is stored");
}

#[test]
fn distilling_makes_an_encoder_and_the_same_one_twice() {
    let place = Place::new();
    let teacher = model();
    let nouns = ["dog", "cat", "car", "bird", "rain", "bell", "train", "man"];
    let verbs = [
        "barks", "cries", "passes", "sings", "falls", "rings", "talks", "runs",
    ];
    let mut captions = String::new();
    for noun in nouns {
        for verb in verbs {
            captions.push_str(&format!("a {noun} {verb}\nthe {noun} {verb} loudly\n"));
        }
    }
    let file = place.write("train.txt", captions);
    let distil = |out: &str, seed: &str| {
        let args = [
            "models",
            "distil",
            "--teacher",
            &teacher,
            "--captions",
            &file,
            "--out",
            out,
            "--seed",
            seed,
        ];
        let small = [
            "--dim", "16", "--units", "200", "--pieces", "40", "--pairs", "60", "--batch", "32", "--epochs",
            "8", "--json",
        ];
        place.json(&[&args[..], &small[..]].concat())
    };
    let made = distil("one", "1");
    let losses: Vec<f64> = serde_json::from_value(made["losses"].clone()).unwrap();
    assert!(losses.len() == 8 && losses[7] < 0.5 * losses[0], "{losses:?}");
    distil("two", "1");
    distil("three", "2");
    let bytes = |name: &str| fs_err::read(place.path(name).join("model.safetensors")).unwrap();
    let tensors = |name: &str| {
        let bytes = bytes(name);
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        file.tensor("vectors").unwrap().data().to_vec()
    };
    assert_eq!(tensors("one"), tensors("two"));
    assert_ne!(tensors("one"), tensors("three"));
    assert!(
        fs_err::read_to_string(place.path("one").join("README.md"))
            .unwrap()
            .contains("train.txt")
    );
    place.ok(&[
        "relevance",
        "similarity",
        "--model",
        "one",
        "a dog barks",
        "a dog sings",
    ]);

    let args = [
        "models",
        "distil",
        "--captions",
        &file,
        "--out",
        "one",
        "--teacher",
    ];
    assert!(
        place
            .fails(&[&args[..], &[&teacher]].concat())
            .contains("already exists")
    );
    let args = [
        "models",
        "distil",
        "--captions",
        &file,
        "--out",
        "four",
        "--teacher",
    ];
    assert!(
        place
            .fails(&[&args[..], &["caption-static"]].concat())
            .contains("is a static encoder")
    );
    assert!(
        place
            .fails(&[&args[..], &[&teacher, "--batch", "32"]].concat())
            .contains("at most the teacher's 32")
    );
    let message = place.fails(&[&args[..], &[&teacher, "--dim", "16", "--batch", "9999"]].concat());
    assert!(message.contains("128 different captions"), "{message}");
    assert!(!place.path("four").exists());
}
