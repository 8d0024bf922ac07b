//! `hark train`: a recipe in, a run's folder with models out.

use std::io::IsTerminal as _;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use hark_encode::DeviceName;
use hark_learn::metrics_log::LoggedMetrics;
use hark_learn::rehearse::Trainings;
use hark_learn::trainer::OnEvent;
use hark_learn::{Error, Machine, Recipe, Rehearsed, TrainEvent, TrainResult, report, run};
use hark_soundscape as soundscape;
use hark_study::{TrainRequest, Trainer};
use hark_work::workers::lock;
use indicatif::ProgressBar;
use serde_json::json;

use super::inputs::ThreadArgs;
use crate::home::Home;
use crate::{output, progress};

const EXAMPLES: &str = "Examples:
  hark train recipes/soundscape-quick.toml
  hark train recipes/clotho.toml --run runs/clotho \\
      --set data.train='[{kind=\"clotho\",root=\"/data/clotho\",split=\"development\"}]'
  hark train recipes/soundscape-quick.toml --set objective.name=infonce
  hark train recipes/soundscape-quick.toml --resume
  hark train recipes/clotho.toml --device cuda:0 --set training.precision=bf16
  hark train recipes/clotho.toml --device cuda:0 --rehearse

A run is a folder: recipe.toml (resolved), metrics.jsonl, TensorBoard events, checkpoint.safetensors, the \
models best/ and last/, report.md. A training that was interrupted, even with kill -9, continues with \
--resume and ends with the same bytes. Use the model anywhere: hark embed --model RUN/best.";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Recipe (TOML)
    recipe: PathBuf,
    /// Folder of the run [default: runs/NAME-OBJECTIVE-SEED]
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
    /// Override a key of the recipe, such as training.epochs=3 (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Continue an interrupted training; its earlier --set changes and its device still apply
    #[arg(long)]
    resume: bool,
    /// Check everything the training needs, take three steps, estimate hours and disk, and throw it all away
    #[arg(long, conflicts_with = "resume")]
    rehearse: bool,
    /// Threads that read recordings ahead of training [default: same as --threads]
    #[arg(long, value_name = "N")]
    workers: Option<NonZeroUsize>,
    #[command(flatten)]
    threads: ThreadArgs,
    #[command(flatten)]
    device: TrainDeviceArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Which device to train on.
#[derive(Debug, ClapArgs)]
pub struct TrainDeviceArgs {
    /// Where the network computes: cpu, cuda:N, rocm:N, vulkan, metal, torch or torch:cuda:N; see hark devices [default: the recipe's training.device, else cpu]
    #[arg(long, value_name = "NAME")]
    pub device: Option<DeviceName>,
    /// Skip the comparison of the device with the CPU
    #[arg(long)]
    pub unchecked: bool,
}

pub fn run(args: &Args) -> Result<()> {
    let home = Home::find()?;
    let mut recipe = Recipe::read(&args.recipe, &args.set)?.with_datasets(&home.datasets()?);
    if let Some(warning) = Recipe::epochs_warning(&args.recipe, &args.set)? {
        eprintln!("hark: warning: {warning}");
    }
    let name = format!("{}-{}-{}", recipe.name, recipe.objective.name, recipe.seed);
    let folder = args.run.clone().unwrap_or_else(|| Path::new("runs").join(name));
    let threads = args.threads.count().get();
    // What was changed with --set or --device when the training began need not be said again.
    let began = folder.join(run::RECIPE);
    if args.resume && began.is_file() {
        recipe = Recipe::read_resolved(&began, &args.set)?;
    }
    recipe.training.device = args.device.device.unwrap_or(recipe.training.device);
    let mut request = TrainRequest {
        recipe,
        run: &folder,
        resume: args.resume,
        threads,
        workers: args.workers.map_or(threads, NonZeroUsize::get),
        unchecked: args.device.unchecked,
    };
    let trainer = trainer(&home);
    if args.rehearse {
        return rehearsed(args.json, |on_event| {
            Ok(trainer.rehearse(request, Trainings::ONE, Machine::here(), on_event)?)
        });
    }
    request.recipe = with_soundscapes(request.recipe, &home.soundscapes(), threads)?;
    let outcome = shown(&trainer, request, "training")?;
    if args.json {
        let test = outcome.test.as_ref().map(|test| {
            json!({
                "clips": test.data.clips.len(), "captions": test.data.pairs.len(),
                "text_to_audio": LoggedMetrics::from(&test.retrieval.text_to_audio.mean),
                "audio_to_text": LoggedMetrics::from(&test.retrieval.audio_to_text.mean),
                "chance": {
                    "text_to_audio": LoggedMetrics::from(&test.retrieval.text_to_audio.chance),
                    "audio_to_text": LoggedMetrics::from(&test.retrieval.audio_to_text.chance),
                },
            })
        });
        return output::print_json(&json!({
            "run": folder, "model": folder.join(run::BEST), "best_epoch": outcome.best.epoch + 1,
            "validation_loss": outcome.best.loss, "test": test,
            "seconds": outcome.feeding.seconds, "waited_seconds": outcome.feeding.waited,
        }));
    }
    output::print(&report::markdown(
        &outcome.recipe,
        &outcome.best,
        outcome.test.as_ref(),
    ))?;
    eprintln!("{}", outcome.feeding);
    eprintln!("saved the model to {}", folder.join(run::BEST).display());
    Ok(())
}

/// Shows a rehearsal and prints what it found; an error if anything is missing.
pub fn rehearsed(json: bool, rehearse: impl FnOnce(OnEvent<'_>) -> Result<Rehearsed>) -> Result<()> {
    let line = Mutex::new(Line::new("rehearsal"));
    let rehearsed = rehearse(&|event| lock(&line).show(&event));
    lock(&line).clear();
    let rehearsed = rehearsed?;
    if json {
        let mut value = serde_json::to_value(&rehearsed)?;
        value["ready"] = rehearsed.is_ready().into();
        output::print_json(&value)?;
    } else {
        output::print(&rehearsed.to_string())?;
    }
    match rehearsed.findings.len() {
        0 => Ok(()),
        missing => bail!("not ready: {} found", output::counted(missing, "problem")),
    }
}

/// What cards and results name as their writer.
pub const WRITTEN_BY: &str = concat!("hark ", env!("CARGO_PKG_VERSION"));

/// Trainings with the models and caches of this machine.
pub fn trainer(home: &Home) -> Trainer {
    Trainer {
        models: home.models(),
        cache: home.training(),
        embeddings: home.embeddings(),
        written_by: WRITTEN_BY.to_owned(),
    }
}

/// Trains, with a progress line on a terminal.
pub fn shown(trainer: &Trainer, request: TrainRequest<'_>, label: &str) -> Result<TrainResult, Error> {
    let line = Mutex::new(Line::new(label));
    let outcome = trainer.train(request, &|event| lock(&line).show(&event));
    lock(&line).clear();
    outcome
}

/// The progress line of a training.
struct Line {
    label: String,
    preparing: Option<(&'static str, ProgressBar)>,
    training: Option<ProgressBar>,
    validation: String,
    waited: f64,
    took: f64,
    /// When the last line was printed; `None` on a terminal, where the bar tells everything.
    told: Option<Instant>,
}

/// Without a terminal, how often a training says how far it is.
const TELL_EVERY: Duration = Duration::from_mins(1);

impl Line {
    fn new(label: &str) -> Self {
        Self {
            label: label.to_owned(),
            preparing: None,
            training: None,
            validation: String::new(),
            waited: 0.0,
            took: 0.0,
            told: (!std::io::stderr().is_terminal()).then(Instant::now),
        }
    }

    fn clear(&mut self) {
        for bar in [self.preparing.take().map(|(_, bar)| bar), self.training.take()]
            .into_iter()
            .flatten()
        {
            bar.finish_and_clear();
        }
    }

    fn show(&mut self, told: &TrainEvent<'_>) -> ControlFlow<()> {
        match told {
            TrainEvent::Preparing { what, done, total } => {
                if self.preparing.as_ref().is_none_or(|(name, _)| name != what) {
                    self.clear();
                    self.preparing = Some((what, progress::items(what)));
                }
                if let Some((_, bar)) = &self.preparing {
                    return progress::show(bar, *done, *total);
                }
            }
            TrainEvent::Ready {
                batches, left_out, ..
            } => {
                self.clear();
                if *left_out > 0 {
                    eprintln!(
                        "hark: warning: left {} out of the training; see left-out.csv in the run's folder",
                        output::counted(*left_out, "recording")
                    );
                }
                let bar = progress::training(&self.label);
                // Of a resumed training, only what is still to do counts for the time left.
                bar.set_length(batches.1);
                bar.set_position(batches.0);
                bar.reset_eta();
                self.training = Some(bar);
            }
            TrainEvent::Skipped { clip, reason } => {
                eprintln!("hark: warning: skipped {clip} in this batch: {reason}");
            }
            TrainEvent::Step(step) => {
                self.waited = 0.98 * self.waited + step.waited.as_secs_f64();
                self.took = 0.98 * self.took + step.took.as_secs_f64();
                let waiting = 100.0 * self.waited / self.took.max(1e-9);
                if let Some(told) = self.told.as_mut().filter(|told| told.elapsed() >= TELL_EVERY) {
                    *told = Instant::now();
                    let (done, all) = step.batches;
                    eprintln!(
                        "{}: batch {done} of {all}, epoch {}, loss {:.3}, waiting {waiting:.0}%",
                        self.label,
                        step.epoch + 1,
                        step.loss
                    );
                }
                if let Some(bar) = &self.training {
                    bar.set_message(format!(
                        "epoch {}, loss {:.3}, rate {:.1e}, waiting {waiting:.0}%{}",
                        step.epoch + 1,
                        step.loss,
                        step.rate,
                        self.validation
                    ));
                    return progress::show(bar, step.batches.0, step.batches.1);
                }
            }
            TrainEvent::Validating { .. } => {}
            TrainEvent::Epoch(epoch) => {
                if self.told.is_some() {
                    self.told = Some(Instant::now());
                    eprintln!(
                        "{}: epoch {}, loss {:.3}, validation loss {:.3}, mAP@10 {:.3}{}",
                        self.label,
                        epoch.epoch + 1,
                        epoch.loss,
                        epoch.validation_loss,
                        epoch.validation.text_to_audio.mean.average_precision,
                        if epoch.best { ", best so far" } else { "" }
                    );
                }
                self.validation = format!(
                    ", validation {:.3}, mAP@10 {:.3}",
                    epoch.validation_loss, epoch.validation.text_to_audio.mean.average_precision
                );
            }
        }
        if progress::stopped() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// Generates the soundscapes that a recipe asks for, with a progress bar.
pub fn with_soundscapes(recipe: Recipe, place: &Path, threads: usize) -> Result<Recipe> {
    let bar = progress::items("generating soundscapes");
    let recipe =
        recipe.with_generated_soundscapes(place, threads, &|done, total| progress::show(&bar, done, total));
    bar.finish_and_clear();
    Ok(recipe?)
}

/// Generates soundscapes in a folder, with a progress bar.
pub fn generate_soundscapes(
    config: &soundscape::Config,
    folder: &Path,
    threads: usize,
) -> Result<soundscape::Generated> {
    let bar = progress::items("generating soundscapes");
    let generated = soundscape::generate(config, folder, threads, &|done, total| {
        progress::show(&bar, done, total)
    });
    bar.finish_and_clear();
    Ok(generated?)
}
