//! `hark data pull`: download a dataset, unpack it, and check what is there.
//!
//! What it takes and the report of the download go to stderr, the report of the check to stdout.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::builder::PossibleValuesParser;
use clap::{Args as ClapArgs, ValueEnum};
use hark_corpus::{Check, DEFAULT_MAX_SECONDS, registry};
use hark_datasets::{DATASETS, Event, Form, Programs, Published, Request};
use hark_download::Client;
use hark_work::progress::counted;
use serde_json::json;

use super::check::{Checked, report, told};
use crate::commands::inputs::ThreadArgs;
use crate::home::Home;
use crate::output;
use crate::progress;

const EXAMPLES: &str = "Examples:
  hark data pull clotho data/clotho
  hark data pull clotho data/clotho --only captions --splits evaluation
  hark data pull wavcaps data/wavcaps --splits SoundBible,BBC_Sound_Effects --as flac-32k
  hark data pull audiocaps data/audiocaps --parallel 8
  hark data pull esc50 data/esc50 --dry-run

Recipes and commands then find the dataset by its name (hark data list). Run it again after an \
interruption: it continues. Checksums that publishers state are compared; the \
SHA-256 of every file is kept in FOLDER/hark-pull.json. The recordings of audiocaps come through your own \
yt-dlp and ffmpeg; what is gone is listed in FOLDER/unavailable_SPLIT.csv.";

/// What to pull of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Only {
    Captions,
}

/// A form of recordings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum As {
    #[value(name = "flac-32k")]
    Flac32k,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Name of the dataset
    #[arg(value_parser = PossibleValuesParser::new(DATASETS.iter().map(|dataset| dataset.name)))]
    name: String,
    /// Folder for the dataset
    folder: PathBuf,
    /// Pull captions and metadata, no recordings
    #[arg(long, value_name = "WHAT")]
    only: Option<Only>,
    /// Only these splits (of wavcaps: sources), separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    splits: Vec<String>,
    /// Keep archives in FOLDER/archives after unpacking
    #[arg(long, conflicts_with = "only")]
    keep_archives: bool,
    /// Store recordings as FLAC: one channel, 32 kHz, 16 bits
    #[arg(long = "as", value_name = "FORM", conflicts_with = "only")]
    form: Option<As>,
    /// With --as: keep only the first S seconds of each recording
    #[arg(long, value_name = "S", default_value_t = DEFAULT_MAX_SECONDS, value_parser = seconds)]
    #[arg(allow_negative_numbers = true, requires = "form")]
    seconds: f64,
    /// Download from this address instead of the published hosts
    #[arg(long, value_name = "URL")]
    mirror: Option<String>,
    /// Downloads at a time
    #[arg(long, value_name = "N", default_value = "4")]
    parallel: NonZeroUsize,
    /// Show what would be downloaded, then exit
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    threads: ThreadArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<()> {
    let dataset = Published::find(&args.name)?;
    let request = Request {
        dataset,
        folder: args.folder.clone(),
        splits: args.splits.clone(),
        captions_only: args.only.is_some(),
        keep_archives: args.keep_archives,
        form: args.form.map_or(Form::Original, |As::Flac32k| Form::Flac32k {
            seconds: args.seconds,
        }),
        parallel: args.parallel,
        threads: args.threads.count(),
        programs: Programs::default(),
    };
    let client = match &args.mirror {
        Some(address) => Client::new().mirror(address),
        None => Client::new(),
    };
    let plan = request.plan(&client, &progress::go_on)?;
    eprint!("{plan}");
    match (args.dry_run, args.json) {
        (true, true) => return output::print_json(&plan.to_json()),
        (true, false) => return Ok(()),
        (false, _) => {}
    }
    let bar = progress::Downloads::new();
    let pulled = plan.run(&|event| match event {
        Event::Download(event) => bar.show(event),
        Event::Unpacking { archive, done, total } => bar.count(format!("unpacking {archive}"), done, total),
        Event::Videos {
            split,
            done,
            total,
            unavailable,
        } => bar.count(
            format!("clips of {split} ({unavailable} unavailable)"),
            done,
            total,
        ),
    });
    bar.clear();
    let pulled = pulled?;
    eprint!("{pulled}");
    if !request.captions_only {
        registry::register(Home::find()?.data(), dataset.name, &args.folder)?;
    }
    let sets = if request.captions_only {
        Vec::new()
    } else {
        checked(args, dataset)?
    };
    // Of captions alone nothing is checked.
    let complete = (!request.captions_only).then(|| sets.iter().all(|checked| checked.set.is_complete()));
    if args.json {
        let sets: Vec<_> = sets.iter().map(told).collect();
        let files: serde_json::Map<_, _> = pulled
            .files
            .iter()
            .map(|(name, file)| (name.clone(), json!(file)))
            .collect();
        output::print_json(
            &json!({"dataset": dataset.name, "complete": complete, "files": files, "sets": sets}),
        )?;
    } else {
        let reports: Vec<String> = sets.iter().map(|set| report(set, Check::Opens)).collect();
        output::print(&reports.join("\n"))?;
    }
    let failed: usize = pulled.unavailable.iter().map(|split| split.failed).sum();
    if failed > 0 {
        bail!(
            "{} failed; run the command again to retry",
            counted(failed, "clip")
        );
    }
    // Of videos that are gone, nothing more can be had.
    if complete == Some(false) && pulled.unavailable.iter().all(|split| split.gone == 0) {
        bail!("{} is not complete", dataset.name);
    }
    eprintln!(
        "next: {}",
        dataset.next.replace("FOLDER", &args.folder.display().to_string())
    );
    Ok(())
}

/// A length of recordings.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds.is_finite() && seconds > 0.0 => Ok(seconds),
        _ => Err("it must be a number above 0".to_owned()),
    }
}

fn checked(args: &Args, dataset: &'static Published) -> Result<Vec<Checked>> {
    let bar = progress::items("opening recordings");
    let threads = args.threads.count().get();
    let sets = hark_datasets::check(dataset, &args.folder, &args.splits, threads, &|done, total| {
        progress::show(&bar, done, total)
    });
    bar.finish_and_clear();
    let named = |set: hark_corpus::CheckedSet| Checked {
        title: set.state.name.clone(),
        part: None,
        set,
    };
    Ok(sets?.into_iter().map(named).collect())
}
