//! `hark models import`: a checkpoint of another program becomes a model in the store.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args as ClapArgs;
use hark_encode::card::ClipLength;
use hark_encode::import::Options;
use hark_models::ModelStore;
use serde_json::json;

use super::show;
use crate::commands::renamed::{Renamed, renamed_to};
use crate::{output, progress};

#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Checkpoint file or model folder
    path: PathBuf,
    /// Name of the new model
    #[arg(long)]
    name: String,
    /// Folder of the tokenizer: tokenizer.json, or vocab.json and merges.txt
    #[arg(long, value_name = "DIR")]
    tokenizer: Option<PathBuf>,
    /// Pad or crop recordings to this many seconds, or `full` to use all of them [default: as the checkpoint's own program does]
    #[arg(long, value_name = "SECONDS|full")]
    clip_seconds: Option<ClipLength>,
    #[arg(long = "clip", hide = true, num_args = 0..=1, default_missing_value = "", value_parser = renamed_to("--clip-seconds"))]
    _clip: Option<Renamed>,
    /// Length of a segment, in seconds [default: the tower's maximum input, 10 for most]
    #[arg(long, value_name = "SECONDS")]
    segment_seconds: Option<f64>,
    /// Maximum length of a text, in tokens [default: 32 for dual encoders, else the tower's maximum input]
    #[arg(long, value_name = "N")]
    max_tokens: Option<usize>,
    /// Attention heads of the audio tower [default: its width divided by 64]
    #[arg(long, value_name = "N")]
    audio_heads: Option<usize>,
    /// Attention heads of the text tower [default: its width divided by 64]
    #[arg(long, value_name = "N")]
    text_heads: Option<usize>,
    /// Stride of the audio tower's patches, if the checkpoint allows several
    #[arg(long, value_name = "N")]
    stride: Option<usize>,
    /// Licence of the model, for its card
    #[arg(long, value_name = "TEXT")]
    licence: Option<String>,
    /// Training data of the model, for its card (repeatable)
    #[arg(long, value_name = "TEXT")]
    trained_on: Vec<String>,
    /// Replace an existing model of this name
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(models: &ModelStore, args: Args) -> Result<()> {
    let options = Options {
        audio_heads: args.audio_heads,
        text_heads: args.text_heads,
        stride: args.stride,
        clip: args.clip_seconds,
        segment_seconds: args.segment_seconds,
        max_tokens: args.max_tokens,
        licence: args.licence,
        training_data: args.trained_on,
    };
    let spinner = progress::spinner("importing");
    let imported = models.import(
        &args.name,
        &args.path,
        args.tokenizer.as_deref(),
        &options,
        args.force,
    );
    spinner.finish_and_clear();
    let imported = imported?;
    if args.json {
        return output::print_json(&json!({
            "name": args.name,
            "path": imported.path,
            "unused": imported.unused,
            "card": imported.card,
        }));
    }
    if !imported.unused.is_empty() {
        eprintln!(
            "hark: left out {} of no tower: {}",
            output::counted(imported.unused.len(), "tensor"),
            hark_encode::name_list(&imported.unused)
        );
    }
    output::print(&show::info(&models.info(&args.name)?))
}
