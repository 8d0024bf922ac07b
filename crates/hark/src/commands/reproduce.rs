//! `hark reproduce`: a recipe, methods and seeds in; tables, tests, curves and a page out.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args as ClapArgs, ValueEnum};
use hark_learn::objective::ObjectiveKind;
use hark_learn::trainer::OnEvent;
use hark_learn::{Machine, Recipe};
use hark_study::runner::{Keep, Program};
use hark_study::{Plan, RunOptions, StudyEvent, StudyOverrides, TrainRequest, comparisons, report, tables};
use indicatif::ProgressBar;

use super::inputs::ThreadArgs;
use super::train;
use crate::home::Home;
use crate::{output, progress};

const EXAMPLES: &str = "Examples:
  hark reproduce recipes/soundscape-full.toml
  hark reproduce recipes/clotho.toml --rehearse
  hark reproduce recipes/clotho.toml --folder studies/clotho
  hark reproduce recipes/clotho.toml --methods infonce,listnet-audio --seeds 3
  hark reproduce recipes/soundscape-full.toml --functions logistic,minmax --seeds 3
  hark reproduce recipes/soundscape-full.toml --omega 0.02,0.05,0.1 --seeds 3

Every training is a run in FOLDER/METHOD[/corpus-N]/seed-N. A study can be stopped at any moment, even with \
kill -9: run the same command again to continue, and it ends with the same tables. Raise --seeds, --corpora \
or --methods later, and only the new runs are trained. FOLDER has report.html (everything), report.md, \
table.md, table.tex, table.csv, runs.csv, tests.md, curves.svg, text-to-audio.svg, audio-to-text.svg and \
study.toml. For Clotho and AudioCaps the paper's figures are shown beside these. To compare other pairs of \
methods, give their folders to hark compare.";

/// What to keep of a finished training.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum KeepArg {
    /// Everything, checkpoints too
    All,
    /// The best model and all logs
    Best,
    /// Logs and figures, no weights
    None,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Recipe, a TOML file; its table `study` says what to repeat
    recipe: PathBuf,
    /// Objectives to compare, separated by commas [default: the recipe's, else the paper's four]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    methods: Vec<ObjectiveKind>,
    /// Compare relevance functions instead: graded methods with each of these, separated by commas
    #[arg(long, value_name = "FUNCTIONS", value_delimiter = ',')]
    functions: Vec<String>,
    /// Compare target temperatures instead: graded methods with each of these, separated by commas
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    omega: Vec<f32>,
    /// Trainings of each method [default: the recipe's, else 5]
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// Corpora of soundscapes to generate, each with its own seed [default: the recipe's, else 1]
    #[arg(long, alias = "corpus-seeds", value_name = "N")]
    corpora: Option<u64>,
    /// Trainings at a time [default: one per thread if both towers start untrained, else 1]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Method to compare the others with [default: infonce, or the recipe's own function and omega]
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    /// Folder of the study [default: studies/NAME]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Override a key of the recipe, such as training.epochs=3 (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Check everything the study needs, take three steps, estimate hours and disk, and throw it all away
    #[arg(long)]
    rehearse: bool,
    /// Continue although test recordings are missing; figures over fewer clips are not comparable
    #[arg(long)]
    allow_missing: bool,
    /// What to keep of a finished training
    #[arg(long, value_name = "WHAT", default_value = "best")]
    keep: KeepArg,
    #[command(flatten)]
    threads: ThreadArgs,
    #[command(flatten)]
    device: train::TrainDeviceArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<()> {
    let home = Home::find()?;
    let overrides = StudyOverrides {
        methods: args.methods.clone(),
        functions: args.functions.clone(),
        omegas: args.omega.clone(),
        seeds: args.seeds,
        corpora: args.corpora,
    };
    let mut set = args.set.clone();
    set.extend(
        args.device
            .device
            .map(|device| format!("training.device=\"{device}\"")),
    );
    let datasets = home.datasets()?;
    let plan = Plan::new(&args.recipe, &set, &overrides, &datasets, args.folder.as_deref())?;
    if let Some(warning) = Recipe::epochs_warning(&args.recipe, &args.set)? {
        eprintln!("hark: warning: {warning}");
    }
    let trainer = train::trainer(&home);
    let keep = match args.keep {
        KeepArg::All => Keep::All,
        KeepArg::Best => Keep::Best,
        KeepArg::None => Keep::None,
    };
    let baseline = plan.baseline(args.baseline.as_deref())?;
    if args.rehearse {
        let how = hark_study::RehearseOptions {
            jobs: args.jobs.map(NonZeroUsize::get),
            threads: args.threads.count().get(),
            keep,
            allow_missing: args.allow_missing,
            unchecked: args.device.unchecked,
        };
        return train::rehearsed(args.json, |on_event| {
            Ok(trainer.rehearse_study(&plan, how, Machine::here(), on_event)?)
        });
    }
    let options = RunOptions {
        jobs: args.jobs.map(NonZeroUsize::get),
        threads: args.threads.count().get(),
        keep,
        allow_missing: args.allow_missing,
        unchecked: args.device.unchecked,
        soundscapes: &home.soundscapes(),
        models: &home.models(),
        program: &Program {
            name: train::WRITTEN_BY.to_owned(),
            executable: std::env::current_exe().context("the program's own file")?,
            platform: format!("{} {}", std::env::consts::ARCH, std::env::consts::OS),
        },
    };
    let train = &|request: TrainRequest<'_>, on_event: OnEvent<'_>| trainer.train(request, on_event);
    let (generating, training) = (
        progress::items("generating soundscapes"),
        progress::share("training"),
    );
    let study = hark_study::run(&plan, baseline, &options, train, &|event| {
        show(&generating, &training, &event)
    });
    generating.finish_and_clear();
    training.finish_and_clear();
    let study = study?;
    if args.json {
        return output::print_json(&report::json(&plan.folder, &study));
    }
    output::print(&format!(
        "{}\n{}",
        tables::markdown(&study),
        comparisons::tests_markdown(&study)
    ))?;
    eprintln!("full report: {}", plan.folder.join(report::PAGE).display());
    Ok(())
}

/// Lines on stderr, and bars on a terminal.
fn show(generating: &ProgressBar, training: &ProgressBar, event: &StudyEvent<'_>) -> ControlFlow<()> {
    let line = |text: String| training.suspend(|| eprintln!("{text}"));
    match *event {
        StudyEvent::Generating { done, total } => return progress::show(generating, done, total),
        StudyEvent::Started {
            runs,
            finished,
            jobs,
            threads,
        } => {
            generating.finish_and_clear();
            line(format!(
                "{} trainings, {} of them done before; {jobs} at a time with {threads} threads each",
                output::group_digits(runs),
                output::group_digits(finished),
            ));
        }
        StudyEvent::Share {
            done,
            total,
            finished,
            runs,
        } => {
            training.set_message(format!("{finished} of {runs} done"));
            return progress::show(training, done, total);
        }
        StudyEvent::LeftOut { recordings, run } => line(format!(
            "hark: warning: left {} out of the training; see {}/left-out.csv",
            output::counted(recordings, "recording"),
            run.display(),
        )),
        StudyEvent::Skipped { clip, reason } => {
            line(format!("hark: warning: skipped {clip} in this batch: {reason}"));
        }
        StudyEvent::Finished {
            finished,
            runs,
            title,
            result,
            took,
        } => {
            let corpus = result
                .corpus
                .map_or_else(String::new, |corpus| format!(", corpus {corpus}"));
            line(format!(
                "{finished}/{runs}  {title}{corpus}, seed {}: mAP@10 {:.1} text to audio, {:.1} audio to text ({:.0} s)",
                result.seed,
                100.0 * result.text_to_audio.map,
                100.0 * result.audio_to_text.map,
                took.as_secs_f64(),
            ));
        }
    }
    if progress::stopped() {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}
