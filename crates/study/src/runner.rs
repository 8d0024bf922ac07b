//! Trains what a study has not trained yet, several runs at a time.
//!
//! A finished run has `result.json` and the scored queries of both directions in its folder. The result is written last,
//! so a run without one is not finished: it is trained, or resumed. A study can be killed at any moment and continues
//! with exactly those runs.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hark_corpus::{Dataset, DatasetConfig};
use hark_evaluate::retrieval::scored_queries;
use hark_evaluate::{Direction, DirectionMetrics, Truth, TruthSource};
use hark_learn::recipe::Recipe;
use hark_learn::run::{self, Run};
use hark_learn::trainer::{OnEvent, TrainEvent, TrainResult};
use hark_models::ModelStore;
use hark_work::files::{self, hex};
use hark_work::progress::Progress;
use sha2::{Digest, Sha256};

use crate::plan::{Job, Plan, identity_text};
use crate::run_result::{FORMAT, RunResult};
use crate::{Error, Study, collect, report};

/// The recipe that a study was begun with.
pub const STUDY: &str = "study.toml";

/// What stays of a finished run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Everything, with checkpoints.
    All,
    /// The best model and all logs.
    Best,
    /// Logs and figures, no weights.
    None,
}

/// How a study is run.
#[derive(Debug, Clone, Copy)]
pub struct RunOptions<'a> {
    /// Runs at a time; none trains one on each thread if both towers start untrained, else one.
    pub jobs: Option<usize>,
    /// Threads of all runs together.
    pub threads: usize,
    /// What stays of a finished run.
    pub keep: Keep,
    /// Whether to train although test recordings are missing.
    pub allow_missing: bool,
    /// Whether to train on a device that was not compared with the CPU.
    pub unchecked: bool,
    /// Where the soundscapes of recipes are generated.
    pub soundscapes: &'a Path,
    /// The models that recipes name; their fingerprints are recorded.
    pub models: &'a ModelStore,
    /// Recorded in every result and in the report.
    pub program: &'a Program,
}

/// The program that trains and reports.
#[derive(Debug, Clone)]
pub struct Program {
    /// Name and version.
    pub name: String,
    /// Its file, whose hash the report has.
    pub executable: std::path::PathBuf,
    /// Architecture and operating system.
    pub platform: String,
}

/// One training that the caller's [`Train`] does.
#[derive(Debug)]
pub struct TrainRequest<'a> {
    /// With its datasets named.
    pub recipe: Recipe,
    /// The run's folder.
    pub run: &'a Path,
    /// Whether a training has begun there.
    pub resume: bool,
    /// Threads to compute with.
    pub threads: usize,
    /// Threads that read recordings ahead of the trainer.
    pub workers: usize,
    /// Whether to train on a device that was not compared with the CPU.
    pub unchecked: bool,
}

/// Trains one run; caches and the way to the models are the caller's.
pub type Train<'a> =
    &'a (dyn Fn(TrainRequest<'_>, OnEvent<'_>) -> Result<TrainResult, hark_learn::Error> + Sync);

/// What happens while a study runs.
#[derive(Debug, Clone, Copy)]
pub enum StudyEvent<'a> {
    /// Soundscapes are being generated.
    Generating {
        /// Recordings.
        done: u64,
        /// Recordings of this corpus.
        total: u64,
    },
    /// The trainings begin.
    Started {
        /// Of the whole study.
        runs: usize,
        /// Of them, finished before.
        finished: usize,
        /// At a time.
        jobs: usize,
        /// Of each.
        threads: usize,
    },
    /// Some steps are done.
    Share {
        /// Of what is to be trained now, in thousandths of a run.
        done: u64,
        /// See `done`.
        total: u64,
        /// Runs that are finished.
        finished: usize,
        /// Of the whole study.
        runs: usize,
    },
    /// Recordings are left out of the trainings. Told once.
    LeftOut {
        /// How many.
        recordings: usize,
        /// The run whose `left-out.csv` names them.
        run: &'a Path,
    },
    /// A recording was left out of a batch.
    Skipped {
        /// Its id.
        clip: &'a str,
        /// Why.
        reason: &'a str,
    },
    /// A run is finished.
    Finished {
        /// Runs that are finished.
        finished: usize,
        /// Of the whole study.
        runs: usize,
        /// Title of its method.
        title: &'a str,
        /// What it reached.
        result: &'a RunResult,
        /// How long it took.
        took: Duration,
    },
}

/// Called with each event; `Break` stops the study after every run has saved its state.
pub type OnStudyEvent<'a> = &'a (dyn Fn(StudyEvent<'_>) -> ControlFlow<()> + Sync);

/// Trains what is not trained yet, and writes the report of the whole study into its folder.
///
/// # Errors
/// [`Error::Run`] if a training failed, [`Error::Cancelled`] if the callback asked to stop; what was trained is kept.
pub fn run(
    plan: &Plan,
    baseline: usize,
    options: &RunOptions<'_>,
    train: Train<'_>,
    on_event: OnStudyEvent<'_>,
) -> Result<Study, Error> {
    let _lock = Run::at(&plan.folder)?.lock()?;
    begin(plan)?;
    if !options.allow_missing {
        refuse_missing(plan)?;
    }
    let generating: Progress<'_> = &|done, total| on_event(StudyEvent::Generating { done, total });
    for job in plan.jobs.iter().filter(|job| job.seed == 1 && job.variant == 0) {
        plan.recipe(job)?
            .with_generated_soundscapes(options.soundscapes, options.threads, generating)
            .map_err(uncancelled)?;
    }
    train_all(plan, options, train, on_event)?;
    let study = collect(plan, baseline, options.program)?;
    report::write(&plan.folder, &study)?;
    Ok(study)
}

/// One form of "the callback asked to stop".
fn uncancelled(error: hark_learn::Error) -> Error {
    match error {
        hark_learn::Error::Cancelled => Error::Cancelled,
        other => other.into(),
    }
}

/// Marks the folder as this recipe's study; that of another recipe is refused.
fn begin(plan: &Plan) -> Result<(), Error> {
    let text = plan.recipe_text()?;
    let path = plan.folder.join(STUDY);
    if !path.exists() {
        return Ok(files::write(&path, text.as_bytes())?);
    }
    // Of studies that were begun when the whole recipe was written, the same part is compared.
    if identity_text(&Recipe::read_resolved(&path, &[])?)? != text {
        return Err(Error::OtherRecipe {
            folder: plan.folder.clone(),
            file: STUDY,
            recipe: plan.base.name.clone(),
        });
    }
    Ok(())
}

/// Fails before anything is trained if test recordings are missing.
fn refuse_missing(plan: &Plan) -> Result<(), Error> {
    let data = &plan.base.data;
    let (mut missing, mut expected) = (0, 0);
    for set in &data.test {
        if let Some(name) = set.unregistered() {
            let name = name.to_owned();
            return Err(hark_corpus::Error::NotRegistered { name }.into());
        }
        let state = set.completeness()?;
        missing += state.expected - state.found;
        expected += state.expected;
    }
    if missing > data.max_missing_test {
        return Err(Error::MissingRecordings {
            missing,
            expected,
            set: data
                .test
                .iter()
                .map(DatasetConfig::name)
                .collect::<Vec<_>>()
                .join("+"),
            allowed: data.max_missing_test,
        });
    }
    Ok(())
}

/// Large towers take the memory of one training and all threads.
pub(crate) fn default_jobs(recipe: &Recipe, threads: usize) -> usize {
    let starts_untrained = recipe.training.init_from.is_none()
        && recipe.audio.as_ref().is_some_and(|side| side.weights.is_none())
        && recipe.text.as_ref().is_some_and(|side| side.weights.is_none());
    if starts_untrained { threads } else { 1 }
}

fn train_all(
    plan: &Plan,
    options: &RunOptions<'_>,
    train: Train<'_>,
    on_event: OnStudyEvent<'_>,
) -> Result<(), Error> {
    let mut left = Vec::new();
    for job in &plan.jobs {
        if RunResult::read(&job.folder)?.is_none() {
            left.push(job);
        } else {
            // It may have been stopped in the middle of that, or asked to keep more before.
            clear(&job.folder, options.keep)?;
        }
    }
    let jobs = options
        .jobs
        .unwrap_or_else(|| default_jobs(&plan.base, options.threads))
        .clamp(1, plan.jobs.len().max(1));
    let finished = plan.jobs.len() - left.len();
    let work = Work {
        plan,
        options,
        train,
        on_event,
        threads: (options.threads / jobs).max(1),
        next: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        shares: left.iter().map(|_| AtomicUsize::new(0)).collect(),
        finished: AtomicUsize::new(finished),
        left,
        first_error: Mutex::new(None),
        models: models_of(plan, options.models)?,
        warned: AtomicBool::new(false),
    };
    work.tell(StudyEvent::Started {
        runs: plan.jobs.len(),
        finished,
        jobs,
        threads: work.threads,
    })?;
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| work.take_jobs());
        }
    });
    match work.first_error.into_inner() {
        Ok(Some(error)) => Err(error),
        Ok(None) => Ok(()),
        Err(_) => Err(Error::Panicked),
    }
}

/// A run's share of the progress.
const SHARE: usize = 1000;

struct Work<'a> {
    plan: &'a Plan,
    options: &'a RunOptions<'a>,
    train: Train<'a>,
    on_event: OnStudyEvent<'a>,
    threads: usize,
    left: Vec<&'a Job>,
    next: AtomicUsize,
    /// A run failed, or the callback asked to stop.
    stop: AtomicBool,
    /// How much of each is done.
    shares: Vec<AtomicUsize>,
    finished: AtomicUsize,
    first_error: Mutex<Option<Error>>,
    /// What each variant starts from.
    models: Vec<Vec<(String, String)>>,
    /// Whether recordings that are left out were told of.
    warned: AtomicBool,
}

impl Work<'_> {
    /// Calls the callback, and stops all runs if it asks to.
    fn tell(&self, event: StudyEvent<'_>) -> Result<(), Error> {
        if (self.on_event)(event).is_break() {
            self.stop.store(true, Ordering::Relaxed);
            return Err(Error::Cancelled);
        }
        Ok(())
    }

    fn take_jobs(&self) {
        loop {
            let nth = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = self.left.get(nth) else {
                return;
            };
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            if let Err(error) = self.one(nth, job) {
                let error = match error {
                    Error::Cancelled => error,
                    other => Error::Run {
                        run: job.folder.clone(),
                        source: Box::new(other),
                    },
                };
                // The first error is the reason; others are trainings that were asked to stop for it.
                if let Ok(mut first) = self.first_error.lock() {
                    first.get_or_insert(error);
                }
                self.stop.store(true, Ordering::Relaxed);
                return;
            }
        }
    }

    fn one(&self, nth: usize, job: &Job) -> Result<(), Error> {
        let began = Instant::now();
        let mut recipe = self.plan.recipe(job)?;
        let mut has_scenes = false;
        if let Some(config) = &recipe.soundscapes {
            let folder = hark_soundscape::folder_for(config, self.options.soundscapes)?;
            recipe = recipe.with_soundscapes_at(&folder);
            let is_generated =
                |set: &DatasetConfig| matches!(set, DatasetConfig::Clotho { root, .. } if *root == folder);
            has_scenes = recipe.data.test.iter().all(is_generated);
        }
        let test = recipe.data.test.clone();
        let request = TrainRequest {
            recipe,
            run: &job.folder,
            resume: job.folder.join(run::RECIPE).exists(),
            threads: self.threads,
            workers: self.threads,
            unchecked: self.options.unchecked,
        };
        let trained = (self.train)(request, &|event| {
            let told = match event {
                TrainEvent::Step(step) => {
                    let share = SHARE * step.batches.0 as usize / step.batches.1.max(1) as usize;
                    self.shares[nth].store(share, Ordering::Relaxed);
                    self.share()
                }
                TrainEvent::Ready { left_out, .. }
                    if left_out > 0 && !self.warned.swap(true, Ordering::Relaxed) =>
                {
                    self.tell(StudyEvent::LeftOut {
                        recordings: left_out,
                        run: &job.folder,
                    })
                }
                TrainEvent::Skipped { clip, reason } => self.tell(StudyEvent::Skipped { clip, reason }),
                _ => self.share(),
            };
            if told.is_err() || self.stop.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
        .map_err(uncancelled)?;
        let scenes = has_scenes.then_some(test.as_slice());
        let result = self.score(job, &trained, scenes)?;
        clear(&job.folder, self.options.keep)?;
        self.shares[nth].store(SHARE, Ordering::Relaxed);
        let finished = self.finished.fetch_add(1, Ordering::Relaxed) + 1;
        self.share()?;
        self.tell(StudyEvent::Finished {
            finished,
            runs: self.plan.jobs.len(),
            title: &self.plan.variants[job.variant].title,
            result: &result,
            took: began.elapsed(),
        })
    }

    fn share(&self) -> Result<(), Error> {
        let shares = self.shares.iter().map(|share| share.load(Ordering::Relaxed));
        self.tell(StudyEvent::Share {
            done: shares.sum::<usize>() as u64,
            total: (self.left.len() * SHARE) as u64,
            finished: self.finished.load(Ordering::Relaxed),
            runs: self.plan.jobs.len(),
        })
    }

    /// Writes what a training reached: queries, then the result. `scenes` are the test sets, if they are soundscapes.
    fn score(
        &self,
        job: &Job,
        trained: &TrainResult,
        scenes: Option<&[DatasetConfig]>,
    ) -> Result<RunResult, Error> {
        let test = trained.test.as_ref().ok_or(Error::NoTestSplit)?;
        let graded = match scenes {
            Some(sets) => Some(Truth::scenes(sets, &test.data)?.graded(&test.data, &test.embedded)?),
            None => None,
        };
        let gains = TruthSource::Scenes.name();
        let with_name = graded.as_ref().map(|graded| (graded, gains.as_str()));
        let both = scored_queries(&test.data, &test.retrieval, with_name);
        for (direction, queries) in Direction::ALL.into_iter().zip(both) {
            queries.write(&job.folder.join(direction.file()))?;
        }
        let state = Run::at(&job.folder)?
            .state()?
            .ok_or_else(|| Error::NoCheckpoint {
                run: job.folder.clone(),
            })?;
        let (there, back) = (&test.retrieval.text_to_audio, &test.retrieval.audio_to_text);
        let result = RunResult {
            format: FORMAT.to_owned(),
            objective: trained.recipe.objective.name.to_string(),
            corpus: job.corpus,
            seed: job.seed,
            best_epoch: trained.best.epoch + 1,
            text_to_audio: DirectionMetrics::from(&there.mean),
            audio_to_text: DirectionMetrics::from(&back.mean),
            ndcg_10: graded.as_ref().map(|graded| graded.mean),
            chance_text_to_audio: DirectionMetrics::from(&there.chance),
            chance_audio_to_text: DirectionMetrics::from(&back.chance),
            chance_ndcg_10: graded.as_ref().map(|graded| graded.chance),
            training_data: state.data,
            test_data: hash(&test.data),
            clips: test.data.clips.len(),
            captions: test.data.pairs.len(),
            made_by: self.options.program.name.clone(),
            models: self.models[job.variant].clone(),
            left_out: test.data.left_out.len(),
        };
        result.write(&job.folder)?;
        Ok(result)
    }
}

/// What the trainings of each variant start from: the sentence encoder, weights, and the model to continue.
fn models_of(plan: &Plan, store: &ModelStore) -> Result<Vec<Vec<(String, String)>>, Error> {
    let fingerprint =
        |name: &str| -> Result<String, Error> { Ok(hark_encode::model::fingerprint(&store.find(name)?)?) };
    let mut encoder: Option<String> = None;
    let mut all = Vec::new();
    for nth in 0..plan.variants.len() {
        let mut models = Vec::new();
        let Some(job) = plan.jobs.iter().find(|job| job.variant == nth) else {
            continue;
        };
        let recipe = plan.recipe(job)?;
        if recipe.objective.needs_teacher() {
            let name = &recipe.objective.sentence_encoder;
            let print = match &encoder {
                Some(known) => known.clone(),
                None => hex(&store.open_sentence_encoder(name)?.fingerprint()?),
            };
            models.push((format!("sentence encoder {name}"), print.clone()));
            encoder = Some(print);
        }
        let sides = [
            recipe.audio.as_ref().and_then(|side| side.weights.clone()),
            recipe.text.as_ref().and_then(|side| side.weights.clone()),
        ];
        for name in sides.into_iter().flatten() {
            models.push((format!("weights {name}"), fingerprint(&name)?));
        }
        if let Some(name) = recipe.training.init_from {
            models.push((format!("start {name}"), fingerprint(&name)?));
        }
        all.push(models);
    }
    Ok(all)
}

/// Of the ids and captions of a split, in their order.
fn hash(data: &Dataset) -> String {
    let mut hash = Sha256::new();
    for pair in &data.pairs {
        for text in [&data.clips[pair.clip].id, &pair.caption] {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
    }
    hex(&hash.finalize())
}

/// Removes what a finished training is not kept for. It cannot be resumed then, and need not be.
fn clear(run: &Path, keep: Keep) -> Result<(), Error> {
    if keep == Keep::All {
        return Ok(());
    }
    for file in [run::CHECKPOINT, "captions-train.f16", "captions-validation.f16"] {
        let path = run.join(file);
        if path.exists() {
            fs_err::remove_file(path)?;
        }
    }
    for folder in [run::LAST, run::BEST] {
        let path = run.join(folder);
        if (folder == run::LAST || keep == Keep::None) && path.exists() {
            fs_err::remove_dir_all(path)?;
        }
    }
    Ok(())
}
