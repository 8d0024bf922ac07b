//! The smallest study: one recipe on generated soundscapes, trained once with hard pairs and once with graded relevance.
//!
//! One training of each shows what a comparison looks like, not which objective is better: that takes seeds, as in
//! [`crate::run`]. What a folder holds from an earlier call is used again.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hark_evaluate::Truth;
use hark_learn::objective::ObjectiveKind;
use hark_learn::recipe::Recipe;
use hark_learn::run;
use hark_learn::trainer::SplitResult;
use hark_metrics::GradedReport;
use hark_metrics::significance::{PairedTest, paired_t_test};
use hark_soundscape::{self as soundscape, Config, Generated, Split};

use crate::Error;
use crate::runner::{Train, TrainRequest};

/// Hard pairs, then graded relevance.
pub const OBJECTIVES: [ObjectiveKind; 2] = [ObjectiveKind::Infonce, ObjectiveKind::ListnetAudio];

/// One objective's run.
#[derive(Debug)]
pub struct DemoRun {
    /// What it was trained with.
    pub objective: ObjectiveKind,
    /// The run's folder.
    pub run: PathBuf,
    /// The best model on the test split.
    pub test: SplitResult,
    /// nDCG, text to audio, against the scenes.
    pub graded: GradedReport,
    /// Epochs of the training.
    pub epochs: u64,
    /// From 1.
    pub best_epoch: u64,
    /// Whether it was trained by an earlier call.
    pub reused: bool,
    /// How long it took.
    pub took: Duration,
}

impl DemoRun {
    fn average_precisions(&self) -> Vec<f64> {
        let queries = &self.test.retrieval.text_to_audio.queries;
        queries.iter().map(|query| query.average_precision).collect()
    }
}

/// What happens meanwhile.
#[derive(Debug, Clone, Copy)]
pub enum DemoEvent<'a> {
    /// Soundscapes are being generated.
    Generating {
        /// Recordings.
        done: u64,
        /// Recordings of all splits.
        total: u64,
    },
    /// They are there.
    Generated {
        /// Their settings.
        config: &'a Config,
        /// How many.
        generated: &'a Generated,
        /// How long it took.
        took: Duration,
    },
    /// A training is done.
    Trained {
        /// The training.
        run: &'a DemoRun,
        /// Clips to learn from.
        clips: usize,
    },
}

/// Two trainings and their comparison.
#[derive(Debug)]
pub struct Demo {
    /// Where the soundscapes are.
    pub soundscapes: PathBuf,
    /// What the test clips really sound like.
    pub truth: soundscape::Truth,
    /// In the order of [`OBJECTIVES`].
    pub runs: [DemoRun; 2],
    /// Average precision of every caption: graded relevance minus hard pairs.
    pub test: PairedTest,
}

/// Generates soundscapes, trains both objectives on them and compares them on the test split, all in `folder`.
///
/// # Errors
/// [`Error::NoSoundscapes`] if the recipe generates none; [`Error::Cancelled`] if the callback asked to stop.
pub fn train_and_compare(
    recipe: &Recipe,
    folder: &Path,
    threads: usize,
    train: Train<'_>,
    on_event: &(dyn Fn(DemoEvent<'_>) -> ControlFlow<()> + Sync),
) -> Result<Demo, Error> {
    let tell = |event: DemoEvent<'_>| match on_event(event) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::Cancelled),
    };
    let config = recipe.soundscapes.clone().ok_or(Error::NoSoundscapes)?;
    fs_err::create_dir_all(folder)?;
    let begun = Instant::now();
    let soundscapes = folder.join("soundscapes");
    let generated = soundscape::generate(&config, &soundscapes, threads, &|done, total| {
        on_event(DemoEvent::Generating { done, total })
    })
    .map_err(|error| match error {
        soundscape::Error::Cancelled => Error::Cancelled,
        other => other.into(),
    })?;
    tell(DemoEvent::Generated {
        config: &config,
        generated: &generated,
        took: begun.elapsed(),
    })?;
    let truth = soundscape::Truth::read(&soundscapes, Split::Test)?;
    let one = |objective: ObjectiveKind| -> Result<DemoRun, Error> {
        let mut recipe = recipe.clone().with_soundscapes_at(&soundscapes);
        recipe.objective.name = objective;
        let run = folder.join(objective.to_string());
        let begun = Instant::now();
        let reused = run.join(run::REPORT).exists();
        let request = TrainRequest {
            recipe,
            run: &run,
            resume: run.join(run::RECIPE).exists(),
            threads,
        };
        let trained = train(request, &|_| ControlFlow::Continue(())).map_err(|error| match error {
            hark_learn::Error::Cancelled => Error::Cancelled,
            other => other.into(),
        })?;
        let test = trained.test.ok_or(Error::NoTestSplit)?;
        let took = begun.elapsed();
        let done = DemoRun {
            objective,
            graded: Truth::of_scenes(&truth, &test.data)?.graded(&test.data, &test.embedded)?,
            run,
            test,
            epochs: trained.recipe.training.epochs,
            best_epoch: trained.best.epoch + 1,
            reused,
            took,
        };
        tell(DemoEvent::Trained {
            run: &done,
            clips: generated.clips[0],
        })?;
        Ok(done)
    };
    let runs = [one(OBJECTIVES[0])?, one(OBJECTIVES[1])?];
    let test = paired_t_test(&runs[1].average_precisions(), &runs[0].average_precisions())?;
    Ok(Demo {
        soundscapes,
        truth,
        runs,
        test,
    })
}
