//! Trainings, and rehearsals of trainings, that share one place for models and caches.

use std::fmt::Display;
use std::path::PathBuf;

use hark_encode::Compute;
use hark_learn::rehearse::{Finding, Kept, Kind, Trainings};
use hark_learn::trainer::OnEvent;
use hark_learn::{Error, Machine, Models, Rehearsal, Rehearsed, TrainResult, Training, rehearse, train};
use hark_models::ModelStore;
use hark_work::files::explain;

use crate::plan::Plan;
use crate::runner::{Keep, TrainRequest, default_jobs};

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

/// How the study that is rehearsed will be run; see [`crate::RunOptions`].
#[derive(Debug, Clone, Copy)]
pub struct RehearseOptions {
    /// Runs at a time.
    pub jobs: Option<usize>,
    /// Threads of all runs together.
    pub threads: usize,
    /// What stays of a finished run.
    pub keep: Keep,
    /// Whether to train although test recordings are missing.
    pub allow_missing: bool,
    /// Whether to train on a device that was not compared with the CPU.
    pub unchecked: bool,
}

impl Trainer {
    /// Trains one run.
    ///
    /// # Errors
    /// As [`hark_learn::train()`].
    pub fn train(&self, request: TrainRequest<'_>, on_event: OnEvent<'_>) -> Result<TrainResult, Error> {
        let compute = Compute::on(request.recipe.training.device, request.threads)?;
        self.with(request, &compute, |training| train(training, on_event))
    }

    /// Rehearses one run for all `trainings`.
    ///
    /// # Errors
    /// As [`hark_learn::rehearse()`].
    pub fn rehearse(
        &self,
        request: TrainRequest<'_>,
        trainings: Trainings,
        machine: Machine<'_>,
        on_event: OnEvent<'_>,
    ) -> Result<Rehearsed, Error> {
        let opened = Compute::on(request.recipe.training.device, request.threads);
        let (compute, device) = match opened {
            Ok(compute) => (compute, None),
            Err(error) => (Compute::cpu(request.threads), Some(explain(&error))),
        };
        self.with(request, &compute, |training| {
            let rehearsal = Rehearsal {
                training,
                trainings,
                device,
                machine,
            };
            rehearse(rehearsal, on_event)
        })
    }

    /// Rehearses a study: its first training with graded relevance, if it has one, for all of them.
    ///
    /// # Errors
    /// As [`Trainer::rehearse`].
    pub fn rehearse_study(
        &self,
        plan: &Plan,
        options: RehearseOptions,
        machine: Machine<'_>,
        on_event: OnEvent<'_>,
    ) -> Result<Rehearsed, crate::Error> {
        let mut recipes = Vec::new();
        for variant in 0..plan.variants.len() {
            if let Some(job) = plan.jobs.iter().find(|job| job.variant == variant) {
                recipes.push((job, plan.recipe(job)?));
            }
        }
        let graded = recipes
            .iter()
            .position(|(_, recipe)| recipe.objective.needs_teacher());
        let (job, recipe) = recipes.swap_remove(graded.unwrap_or(0));
        let jobs = options
            .jobs
            .unwrap_or_else(|| default_jobs(&plan.base, options.threads))
            .clamp(1, plan.jobs.len().max(1));
        // As a run has them beside the others.
        let threads = (options.threads / jobs).max(1);
        let request = TrainRequest {
            recipe,
            run: &job.folder,
            resume: false,
            threads,
            workers: threads,
            unchecked: options.unchecked,
        };
        let trainings = Trainings {
            count: plan.jobs.len() as u64,
            at_a_time: jobs as u64,
            kept: match options.keep {
                Keep::All => Kept::All,
                Keep::Best => Kept::Model,
                Keep::None => Kept::Nothing,
            },
            allow_missing: options.allow_missing,
        };
        let mut rehearsed = self.rehearse(request, trainings, machine, on_event)?;
        // Others may start from models of their own.
        for (_, recipe) in recipes {
            if let Some(name) = recipe.training.init_from
                && let Err(error) = self.models.find(&name)
            {
                rehearsed.findings.push(Finding {
                    kind: Kind::Weights,
                    what: format!(
                        "training.init-from of {}: {}",
                        recipe.objective.name,
                        explain(&error)
                    ),
                    remedy: "train it first, or set training.init-from".into(),
                });
            }
        }
        Ok(rehearsed)
    }

    /// A request as a training, with what it finds in the models of this machine.
    fn with<T>(
        &self,
        request: TrainRequest<'_>,
        compute: &Compute,
        work: impl FnOnce(Training<'_>) -> T,
    ) -> T {
        let refused = |what: &str, error: &dyn Display| Error::Model {
            what: format!("{what}{error:#}"),
        };
        let folder = |name: &str| self.models.find(name).map_err(|error| refused("", &error));
        let sentence_encoder = |name: &str| {
            let opened = self.models.open_sentence_encoder(name);
            opened.map_err(|error| refused("objective.sentence-encoder: ", &error))
        };
        work(Training {
            recipe: request.recipe,
            run: request.run,
            resume: request.resume,
            workers: request.workers,
            compute,
            models: Models {
                folder: &folder,
                sentence_encoder: &sentence_encoder,
            },
            tokenizer: None,
            cache: Some(&self.cache),
            embeddings: Some(&self.embeddings),
            written_by: &self.written_by,
            unchecked: request.unchecked,
        })
    }
}
