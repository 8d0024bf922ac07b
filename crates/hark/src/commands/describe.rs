//! `hark describe`: ranks captions for a recording.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use hark_library::{LibraryModel, ModelEmbedder};
use serde_json::json;

use super::inputs::{CaptionArgs, ThreadArgs};
use crate::home::Home;
use crate::{output, progress};

const EXAMPLES: &str = "Examples:
  hark describe clip.wav --captions captions.csv --model my-model
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
    /// Model: a name of `hark models list`, or a model folder
    #[arg(long, value_name = "NAME")]
    model: String,
    /// Maximum number of captions
    #[arg(short = 'n', long, value_name = "N", default_value = "5")]
    limit: usize,
    #[command(flatten)]
    threads: ThreadArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<()> {
    let set = args.captions.read()?;
    // A caption that several clips have is one description.
    let mut captions: Vec<&str> = set.texts();
    captions.sort_unstable();
    captions.dedup();
    if captions.is_empty() {
        bail!("no captions given");
    }
    let model = LibraryModel::find(&Home::find()?.models(), &args.model)?;
    let embedder = ModelEmbedder::new(model, args.threads.compute()).cancelled_by(Some(progress::stopped));
    // A model without an audio tower fails before thousands of captions are embedded.
    embedder.audio_encoder()?;
    let bar = progress::items("embedding captions");
    let embedded = embedder
        .text_encoder()?
        .embed(&captions, &|done, total| progress::show(&bar, done, total));
    bar.finish_and_clear();
    let embedded = embedded?;
    let mut described = Vec::new();
    let mut failed = 0;
    for path in &args.recordings {
        let vector = match embedder.embed_audio(path) {
            Ok(vector) => vector,
            Err(error) if !progress::stopped() => {
                output::tell(&error);
                failed += 1;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let scores = embedded.rows();
        let scores = scores.map(|caption| caption.iter().zip(&vector).map(|(a, b)| a * b).sum::<f32>());
        let mut ranked: Vec<(f32, &str)> = scores.zip(captions.iter().copied()).collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
        ranked.truncate(args.limit);
        if !args.json {
            let lines = ranked
                .iter()
                .map(|(score, caption)| format!("  {score:.4}  {}\n", output::sanitize(caption)));
            let lines: String = lines.collect();
            output::print(&format!(
                "{}\n{lines}",
                output::sanitize(&path.display().to_string())
            ))?;
        }
        let ranked: Vec<_> = ranked
            .iter()
            .map(|(score, caption)| json!({"caption": caption, "score": score}))
            .collect();
        described.push(json!({"recording": path.display().to_string(), "captions": ranked}));
    }
    if args.json {
        output::print_json(&described)?;
    }
    if failed > 0 {
        bail!(
            "cannot read {} of {}",
            output::group_digits(failed as u64),
            output::counted(args.recordings.len(), "recording")
        );
    }
    Ok(())
}
