//! `hark describe`: ranks captions for a recording.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, ensure};
use clap::Args as ClapArgs;
use hark_library::{
    Classified, ClassifiedRecording, Classify, ClassifyEvent, LibraryModel, ModelEmbedder, classify,
};
use hark_models::EVERYDAY;
use serde_json::{Value, json};

use super::inputs::{CaptionArgs, ComputeArgs};
use crate::home::Home;
use crate::library::tell_of_default;
use crate::{output, progress};

const EXAMPLES: &str = "Examples:
  hark describe clip.wav --captions captions.csv
  hark describe *.wav --captions words.txt --model my-model -n 3 --json

Captions come from any file that hark reads; a plain text file has one caption per line. The best caption \
comes first. Scores are cosine similarities: they order captions and mean little by themselves.";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Recordings to describe
    #[arg(value_name = "RECORDING", required = true)]
    recordings: Vec<PathBuf>,
    #[command(flatten)]
    captions: CaptionArgs,
    /// Model: a name of `hark models list`, or a model folder [default: everyday, built in]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Maximum number of captions
    #[arg(short = 'n', long, value_name = "N", default_value = "5")]
    limit: usize,
    #[command(flatten)]
    compute: ComputeArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<()> {
    let set = args.captions.read()?;
    // A caption that several clips have is one description.
    let mut captions: Vec<String> = set.captions.into_iter().map(|caption| caption.text).collect();
    captions.sort_unstable();
    captions.dedup();
    ensure!(!captions.is_empty(), "no captions given");
    let asked = Classify {
        recordings: &args.recordings,
        texts: &captions,
        templates: &[],
        truth: None,
        limit: args.limit,
    };
    let described = rank(&asked, args.model.as_deref(), &args.compute)?;
    if args.json {
        let described = described.recordings.iter();
        let described =
            described.map(|one| json!({"recording": one.recording, "captions": captions_of(one)}));
        output::print_json(&described.collect::<Vec<_>>())?;
    } else {
        show(&described)?;
    }
    described.check()?;
    Ok(())
}

fn captions_of(recording: &ClassifiedRecording) -> Vec<Value> {
    let texts = recording.texts.iter();
    texts
        .map(|text| json!({"caption": text.text, "score": text.score}))
        .collect()
}

/// Finds the best texts for recordings, with progress on a terminal.
pub fn rank(asked: &Classify<'_>, model: Option<&str>, compute: &ComputeArgs) -> Result<Classified> {
    if model.is_none() {
        tell_of_default();
    }
    let model = LibraryModel::find(&Home::find()?.models(), model.unwrap_or(EVERYDAY))?;
    let embedder = ModelEmbedder::new(model, compute.compute()?).cancelled_by(Some(progress::stopped));
    let texts = progress::items("embedding texts");
    let bar = Mutex::new(progress::Recordings::new("embedding recordings"));
    let ranked = classify(&embedder, asked, &|event| {
        let mut bar = bar.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            ClassifyEvent::Texts { done, total } => return progress::show(&texts, done, total),
            ClassifyEvent::Recordings { done, total } => return bar.show(done as u64, total as u64),
            ClassifyEvent::Segment { seconds } => bar.heard(seconds),
            ClassifyEvent::Failed { message } => bar.print(&format!("hark: {}", output::sanitize(message))),
        }
        ControlFlow::Continue(())
    });
    texts.finish_and_clear();
    bar.into_inner().unwrap_or_else(PoisonError::into_inner).clear();
    Ok(ranked?)
}

/// Prints the texts of each recording, and how many are right.
pub fn show(classified: &Classified) -> Result<()> {
    for recording in &classified.recordings {
        output::print(&format!("{}\n", output::sanitize(&recording.recording)))?;
        for text in &recording.texts {
            output::print(&format!(
                "  {:.4}  {}\n",
                text.score,
                output::sanitize(&text.text)
            ))?;
        }
    }
    if let Some(accuracy) = &classified.accuracy {
        eprintln!("{accuracy}");
    }
    Ok(())
}
