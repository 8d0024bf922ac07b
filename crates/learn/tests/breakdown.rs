//! A device that breaks down in the middle of a training: an error that says what to do, and a checkpoint to go on from.
//!
//! The device is a second backend of the tensor library that runs out of memory, or is lost, after so many layer norms.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use hark_encode::{Breakdown, Compute, DeviceName, Fault};
use hark_learn::metrics_log::{MetricsLine, read};
use hark_learn::recipe::Recipe;
use hark_learn::{Error, Models, Run, Training, train};
use hark_soundscape as soundscape;

fn recipe(sounds: &Path) -> Recipe {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hark/tests/recipes/tiny.toml");
    let set = [
        "soundscapes.train=8",
        "soundscapes.validation=3",
        "soundscapes.test=3",
        "training.epochs=2",
        "training.checkpoint-steps=2",
        // No sentence encoder.
        "objective.name=infonce",
    ];
    let recipe = Recipe::read(&path, &set.map(ToOwned::to_owned)).unwrap();
    recipe.with_soundscapes_at(sounds)
}

fn trained(recipe: &Recipe, run: &Path, device: DeviceName, resume: bool) -> Result<(), Error> {
    let mut recipe = recipe.clone();
    recipe.training.device = device;
    if resume {
        // What the error advises.
        recipe.training.chunk = Some(2);
    }
    let training = Training {
        recipe,
        run,
        resume,
        workers: 1,
        compute: &Compute::on(device, 1).unwrap(),
        models: Models {
            folder: &|_| Err(Error::NoSide),
            sentence_encoder: &|_| Err(Error::NoSide),
        },
        tokenizer: None,
        cache: None,
        embeddings: None,
        written_by: "a test",
        unchecked: true,
    };
    train(training, &|_| ControlFlow::Continue(())).map(|_| ())
}

fn losses(run: &Path) -> Vec<f64> {
    let lines = read(&run.join("metrics.jsonl")).unwrap().into_iter();
    lines
        .filter_map(|line| match line {
            MetricsLine::Step { loss, .. } => Some(loss),
            MetricsLine::Epoch { .. } => None,
        })
        .collect()
}

/// What a run is made of, to compare before and after.
fn checkpoint(run: &Path) -> Vec<u8> {
    fs_err::read(run.join("checkpoint.safetensors")).unwrap()
}

#[test]
fn the_last_checkpoint_is_intact_and_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let sounds = folder.path().join("sounds");
    let recipe = recipe(&sounds);
    let config = recipe.soundscapes.clone().unwrap();
    soundscape::generate(&config, &sounds, 2, &hark_work::progress::no_progress).unwrap();
    let whole = folder.path().join("whole");
    trained(&recipe, &whole, DeviceName::Cpu, false).unwrap();
    let whole = losses(&whole);

    for (after, expected, advice) in [
        // Within the first epoch, within the second, and before anything was saved.
        (40, Breakdown::Memory, "smaller training.chunk"),
        (60, Breakdown::Lost, "another --device"),
        (1, Breakdown::Memory, "No checkpoint was saved yet"),
    ] {
        let fault = match expected {
            Breakdown::Lost => Fault::Lost { after },
            _ => Fault::Memory { after },
        };
        let run: PathBuf = folder.path().join(format!("broken-{after}"));
        let error = trained(&recipe, &run, DeviceName::NdArray { fault }, false).unwrap_err();
        let message = error.to_string();
        let Error::DeviceBroke {
            breakdown,
            saved: Some(saved),
            ..
        } = error
        else {
            panic!("{message}");
        };
        assert_eq!(breakdown, expected, "{message}");
        assert!(
            message.starts_with("ndarray:") && message.contains(advice) && message.contains("--resume"),
            "{message}"
        );
        let state = Run::at(&run).unwrap().state().unwrap();
        assert_eq!(state.as_ref().map_or(0, |state| state.batches), saved);
        assert_eq!(saved > 0, after > 1, "after {after}: {message}");
        if saved > 0 {
            // Whole: the failure came between two of them.
            assert!(!checkpoint(&run).is_empty());
            assert!(saved < 20, "{message}");
        }
        trained(&recipe, &run, DeviceName::Cpu, true).unwrap();
        let resumed = losses(&run);
        assert_eq!(resumed.len(), whole.len());
        for (resumed, whole) in resumed.iter().zip(&whole) {
            assert!((resumed - whole).abs() < 1e-3 * whole.abs(), "{resumed} {whole}");
        }
    }
}
