//! `hark models import`: a checkpoint of another program becomes a model of ours.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args as ClapArgs;
use fs_err as fs;
use hark_encode::Compute;
use hark_encode::card::ClipLength;
use hark_encode::import::{Options, import};
use serde_json::json;

use super::towers;
use crate::commands::inputs::clip;
use crate::home::Home;
use crate::models::IndexedFile;
use crate::{output, progress};

#[derive(Debug, ClapArgs)]
pub struct Args {
    /// A checkpoint file, or a model folder
    path: PathBuf,
    /// What the model is to be called here
    #[arg(long)]
    name: String,
    /// The folder of the tokenizer: tokenizer.json, or vocab.json and merges.txt
    #[arg(long, value_name = "DIR")]
    tokenizer: Option<PathBuf>,
    /// Which segments of a clip count: `true`, or a number of seconds that clips are padded or cropped to [default: as the checkpoint's own program does]
    #[arg(long, value_name = "LENGTH", value_parser = clip)]
    clip: Option<ClipLength>,
    /// Length of a segment, in seconds [default: the most that the tower hears at once: 10 for most]
    #[arg(long, value_name = "SECONDS")]
    segment_seconds: Option<f64>,
    /// At how many tokens texts are cut [default: 32 for dual encoders, else what the tower reads]
    #[arg(long, value_name = "N")]
    max_tokens: Option<usize>,
    /// Attention heads of the audio tower [default: its width divided by 64]
    #[arg(long, value_name = "N")]
    audio_heads: Option<usize>,
    /// Attention heads of the text tower [default: its width divided by 64]
    #[arg(long, value_name = "N")]
    text_heads: Option<usize>,
    /// Stride of the audio tower's patches, where several fit
    #[arg(long, value_name = "N")]
    stride: Option<usize>,
    /// Terms under which the model may be used, for its card
    #[arg(long, value_name = "TEXT")]
    licence: Option<String>,
    /// What the model was trained on, for its card; may be given several times
    #[arg(long, value_name = "TEXT")]
    trained_on: Vec<String>,
    /// Replace a model of this name
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(home: &Home, args: Args) -> Result<()> {
    let name = &args.name;
    if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', ':']) {
        bail!("{name:?} cannot be a model's name: it becomes a folder's");
    }
    if IndexedFile::find(name).is_some() || name == crate::models::BUILT_IN {
        bail!("{name} is the name of a model that hark knows; choose another");
    }
    let place = home.models().join(name);
    if place.exists() && !args.force {
        bail!(
            "{}: there is a model of this name; give --force to replace it",
            place.display()
        );
    }
    let options = Options {
        audio_heads: args.audio_heads,
        text_heads: args.text_heads,
        stride: args.stride,
        clip: args.clip,
        segment_seconds: args.segment_seconds,
        max_tokens: args.max_tokens,
        licence: args.licence,
        training_data: args.trained_on,
    };
    let spinner = progress::spinner("importing");
    let imported = import(&args.path, args.tokenizer.as_deref(), &options, &Compute::cpu(1))?;
    // Written aside and moved into place in one step: a model folder is whole or absent.
    fs::create_dir_all(home.partial())?;
    fs::create_dir_all(home.models())?;
    let aside = tempfile::Builder::new()
        .prefix("import-")
        .tempdir_in(home.partial())?;
    let fresh = aside.path().join("new");
    fs::create_dir(&fresh)?;
    hark_encode::model::save(
        &fresh,
        &imported.card,
        &imported.network,
        imported.tokenizer.as_deref(),
    )
    .with_context(|| format!("{}: cannot be written", fresh.display()))?;
    let old = aside.path().join("old");
    if place.exists() {
        fs::rename(&place, &old)?;
    }
    if let Err(error) = fs::rename(&fresh, &place) {
        // The folder aside is removed with all that is in it: the old model must not be.
        if old.exists() {
            fs::rename(&old, &place)?;
        }
        return Err(error.into());
    }
    spinner.finish_and_clear();
    if args.json {
        return output::print_json(
            &json!({"name": name, "path": place, "unused": imported.unused, "card": imported.card}),
        );
    }
    if !imported.unused.is_empty() {
        eprintln!(
            "hark: {} tensors of the file belong to no tower and were left out: {}",
            imported.unused.len(),
            imported.unused.join(", ")
        );
    }
    towers::info(&place, false)
}
