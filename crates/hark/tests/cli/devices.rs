//! Devices through the program: what is there, what is refused, and trainings that move from one to another.
//!
//! `ndarray` is a second backend of the tensor library that test builds have: it computes by the operations that GPUs compute by.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::place::{Place, text, wav};
use crate::towers::{matrix, with_model};

fn tiny() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recipes/tiny.toml");
    path.display().to_string()
}

#[test]
fn devices_are_listed_with_what_they_take() {
    let place = Place::new();
    let said = place.ok(&["devices"]);
    let (here, absent) = said.split_once("not part of this build:").unwrap();
    assert!(here.contains("  cpu\n") && here.contains("  ndarray\n"), "{said}");
    assert!(
        absent.contains("cuda") && absent.contains("--features cuda"),
        "{said}"
    );
    let json = place.json(&["devices", "--json"]);
    assert_eq!(json["devices"][0], "cpu");
}

#[test]
fn devices_that_are_not_there_are_refused_by_name() {
    let place = Place::new();
    let recipe = tiny();
    let error = place.fails(&["train", &recipe, "--device", "cuda:0"]);
    assert!(
        error.contains("cuda:0") && error.contains("--features cuda") && error.contains("Devices here: cpu"),
        "{error}"
    );
    assert!(!place.path("runs").exists());
    let error = place.fails(&["embed", "a.wav", "--device", "metal", "-o", "a.npy"]);
    assert!(error.contains("--features metal"), "{error}");
    let output = place.run(&["train", &recipe, "--device", "gpu"]);
    assert_eq!(output.status.code(), Some(2));
    let error = text(&output.stderr);
    assert!(error.contains("gpu") && error.contains("cuda:N"), "{error}");
    let error = place.fails(&["train", &recipe, "--set", "training.device=gpu"]);
    assert!(error.contains("unknown device"), "{error}");
    // The CPU's kernels compute in 32 bits.
    let error = place.fails(&["train", &recipe, "--set", "training.precision=bf16"]);
    assert!(
        error.contains("training.precision") && error.contains("f32 on cpu"),
        "{error}"
    );
}

#[test]
fn a_device_that_computes_rightly_passes() {
    let place = Place::new();
    let said = place.ok(&["devices", "check", "ndarray"]);
    assert!(
        said.contains("PaSST") && said.contains("losses of 20 training steps") && !said.contains("FAIL"),
        "{said}"
    );
    let json = place.json(&["devices", "check", "cpu", "--json"]);
    assert_eq!(json["passed"], true);
    let findings = json["findings"].as_array().unwrap();
    assert!(findings.len() >= 15, "{json}");
    // Against itself.
    assert!(
        findings.iter().all(|finding| finding["difference"] == 0.0),
        "{json}"
    );
}

/// The output of the broken kernel is right, its gradient is not.
#[test]
fn a_device_that_computes_wrongly_is_found_and_refused() {
    let place = Place::new();
    let output = place.run(&["devices", "check", "ndarray:broken"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    let line = |what: &str| said.lines().find(|line| line.contains(what)).unwrap().to_owned();
    assert!(line("RoBERTa: text embeddings").starts_with("ok"), "{said}");
    assert!(line("RoBERTa: gradients").starts_with("FAIL"), "{said}");
    let error = text(&output.stderr);
    assert!(
        error.contains("does not compute what the CPU computes"),
        "{error}"
    );

    let recipe = tiny();
    let error = place.fails(&["train", &recipe, "--run", "run", "--device", "ndarray:broken"]);
    assert!(
        error.contains("gives wrong results: ")
            && error.contains("gradients")
            && error.contains("--unchecked"),
        "{error}"
    );
    assert!(!place.path("run").join("checkpoint.safetensors").exists());
    let unchecked = [
        "--run",
        "run",
        "--device",
        "ndarray:broken",
        "--unchecked",
        "--set",
        "training.epochs=1",
    ];
    place.ok(&[&["train", recipe.as_str()], &unchecked[..]].concat());
    let card = fs_err::read_to_string(place.path("run/best/card.json")).unwrap();
    assert!(card.contains("was not compared with the CPU"), "{card}");
}

/// Losses of all steps.
fn losses(run: &Path) -> Vec<f64> {
    let log = fs_err::read_to_string(run.join("metrics.jsonl")).unwrap();
    let lines = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .filter(|line| line["kind"] == "step")
        .map(|line| line["loss"].as_f64().unwrap())
        .collect()
}

/// Trains until there is a checkpoint, and kills the training then.
fn killed(place: &Place, recipe: &str, device: &str) -> PathBuf {
    let run = place.path("moved");
    let arguments = [
        "train",
        recipe,
        "--run",
        "moved",
        "--device",
        device,
        "--set",
        "training.checkpoint-steps=3",
    ];
    let mut child = place
        .command(&arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !run.join("checkpoint.safetensors").exists() {
        assert!(
            child.try_wait().unwrap().is_none(),
            "the training ended before its checkpoint"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    run
}

/// Killed on one device and resumed on the other, in both directions: the losses are those of a training on the CPU alone.
#[test]
fn a_training_moves_from_one_device_to_another() {
    let recipe = tiny();
    let place = Place::new();
    place.ok(&["train", &recipe, "--run", "whole"]);
    let whole = losses(&place.path("whole"));
    for (from, to) in [("ndarray", "cpu"), ("cpu", "ndarray")] {
        let run = killed(&place, &recipe, from);
        place.ok(&["train", &recipe, "--run", "moved", "--resume", "--device", to]);
        let moved = losses(&run);
        assert_eq!(moved.len(), whole.len());
        for (nth, (moved, whole)) in moved.iter().zip(&whole).enumerate() {
            assert!(
                (moved - whole).abs() < 1e-3 * whole.abs(),
                "{from} to {to}, step {nth}: {moved} {whole}"
            );
        }
        fs_err::remove_dir_all(run).unwrap();
    }
}

/// A batch in chunks with blocks computed again learns the same.
#[test]
fn chunks_and_checkpointing_train_alike() {
    let recipe = tiny();
    let place = Place::new();
    place.ok(&["train", &recipe, "--run", "whole", "--set", "training.epochs=1"]);
    let saving = [
        "--set",
        "training.epochs=1",
        "--set",
        "training.chunk=3",
        "--set",
        "training.gradient-checkpointing=true",
    ];
    place.ok(&[&["train", recipe.as_str(), "--run", "saving"], &saving[..]].concat());
    for (saving, whole) in losses(&place.path("saving"))
        .iter()
        .zip(losses(&place.path("whole")))
    {
        assert!((saving - whole).abs() < 1e-4 * whole.abs(), "{saving} {whole}");
    }
}

/// A device that runs out of memory or is lost in the middle of a training: an error that says what to do, and a checkpoint from
/// which the training goes on to the same losses.
#[test]
fn a_device_that_breaks_down_leaves_the_last_checkpoint() {
    let recipe = tiny();
    let place = Place::new();
    place.ok(&["train", &recipe, "--run", "whole"]);
    let whole = losses(&place.path("whole"));
    let trained = |device: &str| {
        place.fails(&[
            "train",
            &recipe,
            "--run",
            "broken",
            "--unchecked",
            "--device",
            device,
        ])
    };
    for (device, said, todo) in [
        (
            "ndarray:memory:100",
            "ran out of memory",
            "smaller training.chunk",
        ),
        ("ndarray:lost:150", "was lost", "another --device"),
    ] {
        let error = trained(device);
        assert!(
            error.contains(&format!("hark: {device} {said}: "))
                && error.contains("is intact; continue from there with --resume")
                && error.contains(todo)
                && !error.contains("panicked"),
            "{error}"
        );
        let run = place.path("broken");
        let before = losses(&run).len();
        assert!((1..whole.len()).contains(&before), "{before}");
        // The device is remembered, whatever else is set; a comparison with the CPU comes first and meets the fault again.
        let again = [
            "train",
            &recipe,
            "--run",
            "broken",
            "--resume",
            "--set",
            "training.chunk=2",
        ];
        let error = place.fails(&again);
        assert!(error.contains(&format!("hark: {device} {said}: ")), "{error}");
        let resume = ["train", &recipe, "--run", "broken", "--resume", "--device", "cpu"];
        place.ok(&[&resume[..], &["--set", "training.chunk=2"]].concat());
        let resumed = losses(&run);
        assert_eq!(resumed.len(), whole.len());
        for (resumed, whole) in resumed.iter().zip(&whole) {
            assert!((resumed - whole).abs() < 1e-3 * whole.abs(), "{resumed} {whole}");
        }
        // The model says that a device was not compared, although another one ended the training.
        let card: Value =
            serde_json::from_str(&fs_err::read_to_string(run.join("best/card.json")).unwrap()).unwrap();
        let warnings = card["warnings"].as_array().unwrap();
        let not_compared = |warning: &&Value| warning.as_str().unwrap().contains("was not compared");
        assert_eq!(warnings.iter().filter(not_compared).count(), 1, "{card}");
        fs_err::remove_dir_all(run).unwrap();
    }
    // Before the first checkpoint there is nothing to lose.
    let error = trained("ndarray:memory:3");
    assert!(error.contains("No checkpoint was saved yet"), "{error}");
    place.ok(&["train", &recipe, "--run", "broken", "--resume", "--device", "cpu"]);
    assert_eq!(losses(&place.path("broken")), whole);
}

/// The same while recordings and texts are embedded: the command ends, the fault is not blamed on a recording, and what was
/// done is kept.
#[test]
fn a_device_that_breaks_down_ends_embedding_and_indexing() {
    let place = with_model();
    fs_err::create_dir_all(place.path("sounds")).unwrap();
    let files = [0, 1, 2, 3].map(|nth| format!("sounds/{nth}.wav"));
    for (nth, file) in files.iter().enumerate() {
        let samples: Vec<i16> = (0..32_000_u32)
            .map(|t| t.wrapping_mul(331 + 97 * nth as u32) as i16)
            .collect();
        place.write(file, wav(32_000, &samples));
    }
    let embed = |matrix: &'static str, more: &[&str]| {
        let mut args = vec!["embed", "--model", "tiny", "-o", matrix, "--threads", "1"];
        args.extend(files.iter().map(String::as_str));
        args.extend(more);
        args.into_iter().map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let run = |command: &[String]| place.run(&command.iter().map(String::as_str).collect::<Vec<_>>());
    let broken = |command: &[String], said: &str| {
        let output = run(command);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{command:?}: {error}");
        assert!(
            error.contains(said) && !error.contains("panicked") && !error.contains(".wav"),
            "{error}"
        );
    };
    assert!(run(&embed("whole.npy", &[])).status.success());
    broken(
        &embed("broken.npy", &["--device", "ndarray:memory:14"]),
        "hark: ndarray:memory:14 ran out of memory: CUDA_ERROR_OUT_OF_MEMORY",
    );
    assert!(run(&embed("broken.npy", &["--resume"])).status.success());
    let (whole, resumed) = (
        matrix(&place.path("whole.npy")),
        matrix(&place.path("broken.npy")),
    );
    assert_eq!((resumed.0, resumed.1), (4, whole.1));
    for (resumed, whole) in resumed.2.iter().zip(&whole.2) {
        assert!((resumed - whole).abs() < 1e-4, "{resumed} {whole}");
    }

    let index = ["index", "sounds", "--model", "tiny"];
    let error = place.fails(&[&index[..], &["--device", "ndarray:lost:14"]].concat());
    assert!(
        error.contains("hark: ndarray:lost:14 was lost: ") && !error.contains("panicked"),
        "{error}"
    );
    place.ok(&index);
    let indexed = place.ok(&["index", "--dump"]);
    assert!(files.iter().all(|file| indexed.contains(file)), "{indexed}");
    place.ok(&["index", "--check"]);

    let error = place.fails(&[
        "embed",
        "--text",
        "rain",
        "--model",
        "tiny",
        "-o",
        "text.npy",
        "--device",
        "ndarray:memory:1",
    ]);
    assert!(error.contains("ran out of memory"), "{error}");
}
