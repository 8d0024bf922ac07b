//! The trainings of a study, several at a time.
//!
//! A training that is done leaves `result.json` and the scored queries of both directions in its run; they are written last, in
//! this order: queries, then the result. What has no result is trained, or trained to its end, and a study that was stopped at any
//! moment goes on with exactly those.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use hark_corpus::{Dataset, DatasetConfig};
use hark_evaluate::retrieval::scored_queries;
use hark_evaluate::{Direction, DirectionMetrics, Truth, TruthSource};
use hark_learn::run::{self, Run};
use hark_learn::trainer::{TrainEvent, TrainResult};
use hark_work::files::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::plan::{Job, Plan};
use crate::commands::train::Training;
use crate::home::Home;
use crate::{output, progress};

/// The file that says that a training of a study is done.
pub const RESULT: &str = "result.json";
const FORMAT: &str = "hark result 1";

/// What is kept of one training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    format: String,
    pub objective: String,
    pub corpus: Option<u64>,
    pub seed: u64,
    /// From 1.
    pub best_epoch: u64,
    pub text_to_audio: DirectionMetrics,
    pub audio_to_text: DirectionMetrics,
    pub ndcg_10: Option<f64>,
    pub chance_text_to_audio: DirectionMetrics,
    pub chance_audio_to_text: DirectionMetrics,
    pub chance_ndcg_10: Option<f64>,
    /// Hashes of what was learned from and validated with, and of what was judged by.
    pub training_data: String,
    pub test_data: String,
    /// Of the test split.
    pub clips: usize,
    pub captions: usize,
    /// The program, and the models that it began with, by their fingerprints.
    pub made_by: String,
    pub models: Vec<(String, String)>,
    /// Recordings that were left out of the test.
    pub left_out: usize,
}

impl RunResult {
    /// The result of a run, if it is done.
    pub fn read(run: &Path) -> Result<Option<Self>> {
        let path = run.join(RESULT);
        if !path.exists() {
            return Ok(None);
        }
        let named = || format!("{}: not the result of a training of a study", path.display());
        let result: Self = serde_json::from_slice(&fs_err::read(&path)?).with_context(named)?;
        if result.format != FORMAT {
            bail!(
                "{}: {:?} was written by another version; this one writes {FORMAT:?}",
                path.display(),
                result.format
            );
        }
        Ok(Some(result))
    }
}

/// What stays of a run when it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Keep {
    /// Everything, checkpoints too
    All,
    /// The best model and all logs
    Best,
    /// Logs and figures, no weights
    None,
}

/// How the work is spread.
#[derive(Debug, Clone, Copy)]
pub struct Spread {
    pub jobs: usize,
    pub threads_each: usize,
    pub keep: Keep,
}

/// Trains what is not done yet.
pub fn run(plan: &Plan, home: &Home, spread: Spread) -> Result<()> {
    let mut left = Vec::new();
    for job in &plan.jobs {
        if RunResult::read(&job.folder)?.is_none() {
            left.push(job);
        } else {
            // It may have been stopped in the middle of that, or asked to keep more before.
            clear(&job.folder, spread.keep)?;
        }
    }
    let models = models_of(plan, home)?;
    let done_before = plan.jobs.len() - left.len();
    eprintln!(
        "{} trainings, {} of them done before; {} at a time with {} threads each",
        output::group_digits(plan.jobs.len()),
        output::group_digits(done_before),
        spread.jobs,
        spread.threads_each
    );
    let work = Work {
        plan,
        home,
        spread,
        next: AtomicUsize::new(0),
        failed: AtomicBool::new(false),
        shares: left.iter().map(|_| AtomicUsize::new(0)).collect(),
        done: AtomicUsize::new(done_before),
        bar: progress::share("training"),
        left,
        first_error: Mutex::new(None),
        models,
        warned: AtomicBool::new(false),
    };
    std::thread::scope(|scope| {
        for _ in 0..spread.jobs {
            scope.spawn(|| work.take_jobs());
        }
    });
    work.bar.finish_and_clear();
    match work.first_error.into_inner() {
        Ok(Some(error)) => Err(error),
        Ok(None) => Ok(()),
        Err(_) => bail!("a training broke off"),
    }
}

/// A training's share of the progress bar.
const SHARE: usize = 1000;

struct Work<'a> {
    plan: &'a Plan,
    home: &'a Home,
    spread: Spread,
    left: Vec<&'a Job>,
    next: AtomicUsize,
    failed: AtomicBool,
    /// How much of each is done.
    shares: Vec<AtomicUsize>,
    done: AtomicUsize,
    bar: indicatif::ProgressBar,
    first_error: Mutex<Option<anyhow::Error>>,
    /// What each variant begins with.
    models: Vec<Vec<(String, String)>>,
    /// Whether recordings that are left out were told of.
    warned: AtomicBool,
}

impl Work<'_> {
    fn take_jobs(&self) {
        loop {
            let nth = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = self.left.get(nth) else {
                return;
            };
            if self.failed.load(Ordering::Relaxed) {
                return;
            }
            if let Err(error) = self.one(nth, job) {
                let error = error.context(job.folder.display().to_string());
                // The first error is the reason; others are trainings that were asked to stop for it.
                if let Ok(mut first) = self.first_error.lock() {
                    first.get_or_insert(error);
                }
                self.failed.store(true, Ordering::Relaxed);
                return;
            }
        }
    }

    fn one(&self, nth: usize, job: &Job) -> Result<()> {
        let began = Instant::now();
        let mut recipe = self.plan.recipe(job)?;
        let mut has_scenes = false;
        if let Some(config) = &recipe.soundscapes {
            let folder = hark_soundscape::folder_for(config, &self.home.soundscapes())?;
            recipe = recipe.with_soundscapes_at(&folder);
            let is_made =
                |set: &DatasetConfig| matches!(set, DatasetConfig::Clotho { root, .. } if *root == folder);
            has_scenes = recipe.data.test.iter().all(is_made);
        }
        let test = recipe.data.test.clone();
        let training = Training {
            recipe,
            run: &job.folder,
            resume: job.folder.join(run::RECIPE).exists(),
            workers: self.spread.threads_each,
            threads: self.spread.threads_each,
            label: "",
            cache: self.home.training(),
        };
        let outcome = training.run_watched(self.home, &|told| {
            match told {
                TrainEvent::Step(step) => {
                    self.shares[nth].store(
                        SHARE * step.batches.0 as usize / step.batches.1.max(1) as usize,
                        Ordering::Relaxed,
                    );
                    self.show();
                }
                TrainEvent::Ready { left_out, .. } if left_out > 0 && !self.warned.swap(true, Ordering::Relaxed) => {
                    let folder = job.folder.display();
                    self.bar.suspend(|| {
                        eprintln!(
                            "hark: warning: {} recordings are left out of the training; {folder}/left-out.csv names them",
                            output::group_digits(left_out)
                        );
                    });
                }
                TrainEvent::Skipped { clip, reason } => {
                    self.bar
                        .suspend(|| eprintln!("hark: warning: {clip} is left out of a batch: {reason}"));
                }
                _ => {}
            }
            if progress::stopped() || self.failed.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        let scenes = has_scenes.then_some(test.as_slice());
        let result = judge(job, &outcome, scenes, &self.models[job.variant])?;
        clear(&job.folder, self.spread.keep)?;
        self.shares[nth].store(SHARE, Ordering::Relaxed);
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        self.show();
        let text = format!(
            "{done}/{}  {}{}, seed {}: mAP@10 {:.1} text to audio, {:.1} audio to text ({:.0} s)",
            self.plan.jobs.len(),
            self.plan.variants[job.variant].title,
            job.corpus
                .map_or_else(String::new, |corpus| format!(", corpus {corpus}")),
            job.seed,
            100.0 * result.text_to_audio.map,
            100.0 * result.audio_to_text.map,
            began.elapsed().as_secs_f64(),
        );
        self.bar.suspend(|| eprintln!("{text}"));
        Ok(())
    }

    fn show(&self) {
        let done: usize = self
            .shares
            .iter()
            .map(|share| share.load(Ordering::Relaxed))
            .sum();
        self.bar.set_length((self.left.len() * SHARE) as u64);
        self.bar.set_position(done as u64);
        let trainings = self.done.load(Ordering::Relaxed);
        self.bar
            .set_message(format!("{trainings} of {} done", self.plan.jobs.len()));
    }
}

/// Writes what a training reached: queries, then the result. `scenes` are the test sets, if they are soundscapes.
fn judge(
    job: &Job,
    outcome: &TrainResult,
    scenes: Option<&[DatasetConfig]>,
    models: &[(String, String)],
) -> Result<RunResult> {
    let judged = outcome
        .test
        .as_ref()
        .context("the recipe has no test split: a study needs data.test")?;
    let graded = match scenes {
        Some(sets) => Some(Truth::scenes(sets, &judged.data)?.graded(&judged.data, &judged.embedded)?),
        None => None,
    };
    let by = TruthSource::Scenes.to_string();
    let with_name = graded.as_ref().map(|graded| (graded, by.as_str()));
    let both = scored_queries(&judged.data, &judged.retrieval, with_name);
    for (direction, scores) in Direction::ALL.into_iter().zip(both) {
        scores.write(&job.folder.join(direction.file()))?;
    }
    let state = Run::at(&job.folder)?
        .state()?
        .context("the run has no checkpoint")?;
    let (there, back) = (&judged.retrieval.text_to_audio, &judged.retrieval.audio_to_text);
    let result = RunResult {
        format: FORMAT.into(),
        objective: outcome.recipe.objective.name.to_string(),
        corpus: job.corpus,
        seed: job.seed,
        best_epoch: outcome.best.epoch + 1,
        text_to_audio: (&there.mean).into(),
        audio_to_text: (&back.mean).into(),
        ndcg_10: graded.as_ref().map(|graded| graded.mean),
        chance_text_to_audio: (&there.chance).into(),
        chance_audio_to_text: (&back.chance).into(),
        chance_ndcg_10: graded.as_ref().map(|graded| graded.chance),
        training_data: state.data,
        test_data: hash(&judged.data),
        clips: judged.data.clips.len(),
        captions: judged.data.pairs.len(),
        made_by: concat!("hark ", env!("CARGO_PKG_VERSION")).into(),
        models: models.to_vec(),
        left_out: judged.data.left_out.len(),
    };
    output::write_whole(&job.folder.join(RESULT), |file| {
        Ok(serde_json::to_writer_pretty(file, &result)?)
    })?;
    Ok(result)
}

/// What the trainings of each variant begin with: the sentence encoder, weights, and the model to go on from.
fn models_of(plan: &Plan, home: &Home) -> Result<Vec<Vec<(String, String)>>> {
    let mut encoder = None;
    let mut all = Vec::new();
    for nth in 0..plan.variants.len() {
        let mut models = Vec::new();
        let job = plan
            .jobs
            .iter()
            .find(|job| job.variant == nth)
            .context("a variant without trainings")?;
        let recipe = plan.recipe(job)?;
        if recipe.objective.needs_teacher() {
            let name = recipe.objective.sentence_encoder.clone();
            if encoder.is_none() {
                encoder = Some(hex(&home.models().open_sentence_encoder(&name)?.fingerprint()?));
            }
            models.push((
                format!("sentence encoder {name}"),
                encoder.clone().unwrap_or_default(),
            ));
        }
        let sides = [
            recipe.audio.as_ref().and_then(|side| side.weights.clone()),
            recipe.text.as_ref().and_then(|side| side.weights.clone()),
        ];
        for name in sides.into_iter().flatten() {
            let print = hark_encode::model::fingerprint(&home.models().find(&name)?)?;
            models.push((format!("weights {name}"), print));
        }
        if let Some(name) = recipe.training.init_from {
            let print = hark_encode::model::fingerprint(&home.models().find(&name)?)?;
            models.push((format!("start {name}"), print));
        }
        all.push(models);
    }
    Ok(all)
}

/// Of the names and words of a split, in their order.
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
fn clear(run: &Path, keep: Keep) -> Result<()> {
    if keep == Keep::All {
        return Ok(());
    }
    let mut gone: Vec<PathBuf> = vec![
        run.join(run::CHECKPOINT),
        run.join("captions-train.f16"),
        run.join("captions-validation.f16"),
    ];
    let mut folders = vec![run.join(run::LAST)];
    if keep == Keep::None {
        folders.push(run.join(run::BEST));
    }
    gone.retain(|path| path.exists());
    for path in gone {
        fs_err::remove_file(path)?;
    }
    folders.retain(|path| path.exists());
    for path in folders {
        fs_err::remove_dir_all(path)?;
    }
    Ok(())
}
