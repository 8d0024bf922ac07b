//! Trainings that share one place for models and caches.

use std::fmt::Display;
use std::path::PathBuf;

use hark_encode::Compute;
use hark_learn::trainer::OnEvent;
use hark_learn::{Error, Models, TrainResult, Training, train};
use hark_models::ModelStore;

use crate::runner::TrainRequest;

/// Trains runs; what a recipe names, it finds in `models`.
#[derive(Debug)]
pub struct Trainer {
    /// The models of this machine.
    pub models: ModelStore,
    /// Where decoded recordings and the features of frozen towers are kept between runs.
    pub cache: PathBuf,
    /// Where the sentence encoder's embeddings are kept between runs.
    pub embeddings: PathBuf,
    /// The program's name and version, for the card of the model.
    pub written_by: String,
}

impl Trainer {
    /// Trains one run.
    ///
    /// # Errors
    /// As [`hark_learn::train()`].
    pub fn train(&self, request: TrainRequest<'_>, on_event: OnEvent<'_>) -> Result<TrainResult, Error> {
        let refused = |what: &str, error: &dyn Display| Error::Model {
            what: format!("{what}{error:#}"),
        };
        let folder = |name: &str| self.models.find(name).map_err(|error| refused("", &error));
        let sentence_encoder = |name: &str| {
            let opened = self.models.open_sentence_encoder(name);
            opened.map_err(|error| refused("objective.sentence-encoder: ", &error))
        };
        let compute = Compute::on(request.recipe.training.device, request.threads)?;
        let training = Training {
            recipe: request.recipe,
            run: request.run,
            resume: request.resume,
            workers: request.workers,
            compute: &compute,
            models: Models {
                folder: &folder,
                sentence_encoder: &sentence_encoder,
            },
            cache: Some(&self.cache),
            embeddings: Some(&self.embeddings),
            written_by: &self.written_by,
            unchecked: request.unchecked,
        };
        train(training, on_event)
    }
}
