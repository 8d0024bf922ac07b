//! `hark models bridge`: a dual encoder from a tagger and a sentence encoder.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args as ClapArgs;
use hark_encode::read_labels;
use hark_models::{BUILT_IN, BridgeOptions, ModelStore};

use crate::commands::inputs::ThreadArgs;
use crate::{output, progress};

const EXAMPLE: &str = "Example:
  hark models bridge --audio mn40-as-ext --name better

The embedding of a recording is the sum of its classes' names, embedded by the sentence encoder and weighted by \
their probabilities; that of a text is the sentence encoder's. Nothing is trained. The labels file has one name a \
line, or is a CSV file with a column display_name, name or label.";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// Model with classes: an MN of `hark models pull` or `hark models import`, or its folder
    #[arg(long, value_name = "NAME")]
    audio: String,
    /// Sentence encoder
    #[arg(long, value_name = "NAME", default_value = BUILT_IN)]
    sentence: String,
    /// File with the names of the classes, in their order [default: the model's own, or those of AudioSet]
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Name of the new model
    #[arg(long)]
    name: String,
    /// Subtract the mean of the class names' embeddings: helps where all texts are similar, as with all-mpnet-base-v2
    #[arg(long)]
    centre: bool,
    /// Length of a segment, in seconds [default: the tagger's]
    #[arg(long, value_name = "SECONDS")]
    segment_seconds: Option<f64>,
    /// Replace an existing model of this name
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    threads: ThreadArgs,
}

pub fn run(models: &ModelStore, args: &Args) -> Result<()> {
    let labels = args.labels.as_deref().map(read_labels).transpose()?;
    let options = BridgeOptions {
        tagger: &args.audio,
        sentence: &args.sentence,
        labels: labels.as_deref(),
        centred: args.centre,
        segment_seconds: args.segment_seconds,
        compute: &args.threads.compute(),
    };
    let spinner = progress::spinner("embedding class names");
    let made = models.bridge(&args.name, &options, args.force);
    spinner.finish_and_clear();
    let made = made?;
    if args.json {
        return output::print_json(
            &serde_json::json!({"name": args.name, "path": made.path, "card": made.card}),
        );
    }
    let classes = made.card.audio.map_or(0, |audio| audio.labels.len());
    eprintln!(
        "{}: a dual encoder of {}",
        made.path.display(),
        output::counted(classes, "class")
    );
    Ok(())
}
