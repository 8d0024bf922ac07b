//! One training, with everything that depends on where it runs as an argument: models by name, caches, threads.
//!
//! In: a recipe whose data sets are named. Out: a run's folder, and the figures of its best model. The work is done by
//! [`crate::trainer`]; this opens the sentence encoder when the first caption needs it and bounds the threads.

use std::path::{Path, PathBuf};

use hark_encode::Compute;
use hark_encode::sentence::{CachedSentenceEncoder, SentenceModel};

use crate::Error;
use crate::device_check::{self, Extent};
use crate::guard::guarded;
use crate::recipe::Recipe;
use crate::trainer::{self, OnEvent, TrainEvent, TrainOptions, TrainResult};

/// Finds models by name, as far as a training asks for them.
#[derive(Clone, Copy)]
pub struct Models<'a> {
    /// The folder of a model with towers.
    pub folder: &'a (dyn Fn(&str) -> Result<PathBuf, Error> + Sync),
    /// A sentence encoder.
    pub sentence_encoder: &'a (dyn Fn(&str) -> Result<SentenceModel, Error> + Sync),
}

/// One training.
#[derive(Clone)]
pub struct Training<'a> {
    /// With its data sets named: see [`Recipe::with_generated_soundscapes`].
    pub recipe: Recipe,
    /// The run's folder.
    pub run: &'a Path,
    /// Whether to go on with what is there.
    pub resume: bool,
    /// Threads that read recordings ahead of the trainer.
    pub workers: usize,
    /// The device, and the threads that compute.
    pub compute: &'a Compute,
    /// Where the models that the recipe names are found.
    pub models: Models<'a>,
    /// A tokenizer's file, instead of the one that comes with the text tower's weights or is trained.
    pub tokenizer: Option<&'a Path>,
    /// Where decoded recordings and the features of frozen towers are kept between runs.
    pub cache: Option<&'a Path>,
    /// Where the sentence encoder's embeddings are kept between runs.
    pub embeddings: Option<&'a Path>,
    /// The program's name and version, for the card of the model.
    pub written_by: &'a str,
    /// Whether to train on a device that was not compared with the CPU.
    pub unchecked: bool,
}

/// Trains as the recipe says, on a pool of as many threads as `compute` has.
///
/// # Errors
/// As [`trainer::train`]; [`Error::Model`] if a model cannot be found.
pub fn train(training: Training<'_>, on_event: OnEvent<'_>) -> Result<TrainResult, Error> {
    let device = training.recipe.training.device;
    if !training.compute.is_cpu() && !training.unchecked {
        let precision = training.recipe.training.precision;
        let report = device_check::check(device, precision, Extent::Short, &|done, total| {
            on_event(TrainEvent::Preparing {
                what: "check of the device",
                done,
                total,
            })
        })?;
        if let Some(worst) = report.worst().filter(|_| !report.passed()) {
            return Err(Error::DeviceFailed {
                device,
                what: worst.what.clone(),
                difference: worst.difference,
                allowed: worst.allowed,
            });
        }
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(training.compute.threads())
        .build()
        .map_err(hark_encode::Error::from)?;
    if training.compute.is_cpu() {
        return pool.install(|| train_here(training, on_event));
    }
    // Libraries of devices panic where these are lost or have no memory left.
    let run = Some(training.run);
    guarded(device, run, || pool.install(|| train_here(training, on_event)))
}

fn train_here(training: Training<'_>, on_event: OnEvent<'_>) -> Result<TrainResult, Error> {
    let Training {
        recipe,
        run,
        resume,
        workers,
        compute,
        models,
        tokenizer,
        cache,
        embeddings,
        written_by,
        unchecked,
    } = training;
    let name = recipe.objective.sentence_encoder.clone();
    let mut encoder: Option<CachedSentenceEncoder> = None;
    let mut embed = |captions: &[&str]| {
        let encoder = match &mut encoder {
            Some(encoder) => encoder,
            none => {
                let model = (models.sentence_encoder)(&name)?;
                none.insert(CachedSentenceEncoder::open(model, embeddings, compute)?)
            }
        };
        let what = "captions";
        let embedded = encoder.embed(captions, &|done, total| {
            on_event(TrainEvent::Preparing { what, done, total })
        });
        match embedded {
            Ok(embedded) => Ok(embedded.embeddings.into_vec()),
            Err(hark_encode::Error::Cancelled) => Err(Error::Cancelled),
            Err(other) => Err(other.into()),
        }
    };
    let options = TrainOptions {
        recipe,
        run,
        resume,
        cache,
        workers,
        compute,
        find: models.folder,
        tokenizer,
        embed: &mut embed,
        written_by,
        unchecked,
    };
    trainer::train(options, on_event)
}
