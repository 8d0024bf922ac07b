//! A training that is stopped after every single step, and within every validation, ends as one that is not.

use std::ops::ControlFlow;
use std::path::Path;

use hark_learn::Error;
use hark_learn::recipe::Recipe;
use hark_learn::trainer::{TrainEvent, TrainOptions, train};
use hark_soundscape as soundscape;

fn recipe(sounds: &Path) -> Recipe {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hark/tests/recipes/tiny.toml");
    let set = [
        "soundscapes.train=8",
        "soundscapes.validation=3",
        "soundscapes.test=3",
        "training.epochs=2",
        // Only what stopping itself saves.
        "training.checkpoint-steps=1000",
    ];
    let recipe = Recipe::read(&path, &set.map(ToOwned::to_owned)).unwrap();
    recipe.with_soundscapes_at(sounds)
}

/// Trains, asking to stop where `stop` says so.
fn run(
    recipe: &Recipe,
    folder: &Path,
    stop: &mut (dyn FnMut(&TrainEvent<'_>) -> bool + Send),
) -> Result<(), Error> {
    // Any unit vectors do for a teacher: here by the number of letters.
    let mut embed = |captions: &[&str]| {
        let angles = captions.iter().map(|caption| caption.len() as f32 * 0.1);
        Ok(angles.flat_map(|angle| [angle.cos(), angle.sin()]).collect())
    };
    let setup = TrainOptions {
        recipe: recipe.clone(),
        run: folder,
        resume: folder.join("recipe.toml").exists(),
        cache: None,
        workers: 2,
        compute: &hark_encode::Compute::cpu(1),
        find: &|_| Err(Error::NoSide),
        tokenizer: None,
        embed: &mut embed,
        written_by: "a test",
        unchecked: false,
    };
    let stop = std::sync::Mutex::new(stop);
    let on_event = &|told: TrainEvent<'_>| {
        if stop.lock().unwrap()(&told) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    train(setup, on_event).map(|_| ())
}

#[test]
fn stopped_after_every_step_it_is_the_same_training() {
    let folder = tempfile::tempdir().unwrap();
    let sounds = folder.path().join("sounds");
    let recipe = recipe(&sounds);
    let config = recipe.soundscapes.clone().unwrap();
    soundscape::generate(&config, &sounds, 2, &hark_work::progress::no_progress).unwrap();

    let whole = folder.path().join("whole");
    run(&recipe, &whole, &mut |_| false).unwrap();

    let stopped = folder.path().join("stopped");
    let (mut steps, mut validations) = (0, 0);
    // One step, or one validation that is broken off and then let through, in each round.
    let mut broken_off = false;
    for _ in 0..100 {
        let result = run(&recipe, &stopped, &mut |told| match told {
            TrainEvent::Step(_) => {
                steps += 1;
                broken_off = false;
                true
            }
            TrainEvent::Validating { .. } if !broken_off => {
                validations += 1;
                broken_off = true;
                true
            }
            _ => false,
        });
        match result {
            Ok(()) => break,
            Err(Error::Cancelled) => {}
            Err(other) => panic!("{other}"),
        }
    }
    // Eight clips of five captions in batches of four, two batches a step, two epochs.
    assert_eq!((steps, validations), (10, 2));
    for name in [
        "checkpoint.safetensors",
        "best/model.safetensors",
        "last/model.safetensors",
        "report.md",
    ] {
        let bytes = |run: &Path| fs_err::read(run.join(name)).unwrap();
        assert!(bytes(&whole) == bytes(&stopped), "{name}");
    }
    let lines = |run: &Path| {
        let text = fs_err::read_to_string(run.join("metrics.jsonl")).unwrap();
        let of = |line: &str| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            ["kind", "epoch", "batches", "loss", "validation_loss"].map(|key| line[key].clone())
        };
        text.lines().map(of).collect::<Vec<_>>()
    };
    assert_eq!(lines(&whole), lines(&stopped));
}
