//! `hark embed`: vectors of recordings and of texts, for use elsewhere.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use hark_encode::card::ClipLength;
use hark_encode::model::TextEncoder;
use hark_encode::{Compute, Precision};
use hark_models::Model;
use hark_nearest::{Vectors, npy};
use serde_json::json;

use super::inputs::{ColumnArgs, DeviceArgs, ModelArgs, gather};
use super::renamed::{Renamed, renamed_to};
use crate::home::Home;
use crate::{output, progress};

mod recordings;

const EXAMPLES: &str = "Examples:
  hark embed rain.wav dog.mp3 -o clips.npy
  hark embed --text 'a dog barks' --text rain --model my-model -o texts.npy
  hark embed --captions clotho_captions_evaluation.csv -o captions.npy

The output has one row for each recording or caption, in the order of the input; read it with numpy.load. \
Embeddings of sentence encoders and of models with projections have length 1: the dot product of two is their \
cosine similarity. A tower without a projection gives its features.

For recordings, FILE.rows.csv beside FILE.npy lists path, length, embedded length and damage of each row. A \
recording is embedded as a whole, as hark index does; --clip-seconds crops it. Recordings that cannot \
be decoded are reported and left out, and the exit code is 1. An interrupted run writes finished rows; --resume \
continues from there.";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Recordings to embed
    #[arg(value_name = "RECORDING", required_unless_present_any = ["texts", "files"], conflicts_with_all = ["texts", "files"])]
    recordings: Vec<PathBuf>,
    /// Text to embed (repeatable)
    #[arg(long = "text", value_name = "CAPTION")]
    texts: Vec<String>,
    /// File of captions to embed, `-` for stdin (repeatable)
    #[arg(long = "captions", value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    columns: ColumnArgs,
    #[command(flatten)]
    model: ModelArgs,
    /// Pad or crop recordings to this many seconds, or `full` for their true length [default: pad as the model was trained, never crop]
    #[arg(long, value_name = "SECONDS|full", requires = "recordings")]
    clip_seconds: Option<ClipLength>,
    /// Bits of weights: f32, bf16 or int8. Fewer take less memory, and less time on some processors
    #[arg(long, value_name = "BITS", default_value = "f32")]
    precision: Precision,
    #[command(flatten)]
    device: DeviceArgs,
    #[arg(long = "clip", hide = true, num_args = 0..=1, default_missing_value = "", value_parser = renamed_to("--clip-seconds"))]
    _clip: Option<Renamed>,
    /// Keep the rows of an earlier run with this output file
    #[arg(long, requires = "recordings")]
    resume: bool,
    /// Output file, in NumPy's format
    #[arg(short, long, value_name = "FILE.npy")]
    output: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    fn compute(&self) -> Result<Compute> {
        let compute = self.device.compute(&self.model.threads)?;
        Ok(compute.with_precision(self.precision))
    }
}

pub fn run(args: &Args) -> Result<()> {
    if args.output.extension().is_none_or(|extension| extension != "npy") {
        bail!(
            "cannot write {}: the output file must end in .npy",
            args.output.display()
        );
    }
    // A missing folder must not show only after hours of work.
    output::check_writable(&args.output)?;
    if !args.recordings.is_empty() {
        return recordings::run(args);
    }
    let captions = gather(&args.texts, &args.files, &args.columns)?;
    let captions: Vec<&str> = captions.iter().map(String::as_str).collect();
    match &args.model.model {
        Some(name) => match Home::find()?.models().open(name)? {
            Model::Towers(files) => {
                let encoder = TextEncoder::open(&files, &args.compute()?)?;
                let bar = progress::items("embedding texts");
                let embedded = encoder.embed(&captions, &|done, total| progress::show(&bar, done, total));
                bar.finish_and_clear();
                let embedded = embedded?;
                if embedded.truncated() > 0 {
                    eprintln!(
                        "hark: warning: truncated {} to the model's maximum length",
                        output::counted(embedded.truncated(), "text")
                    );
                }
                write(args, embedded.as_slice(), embedded.dim())
            }
            Model::Sentence(_) => sentences(args, &captions),
        },
        None => sentences(args, &captions),
    }
}

fn sentences(args: &Args, captions: &[&str]) -> Result<()> {
    let vectors = args.model.embed(captions)?;
    let vectors: Vectors<'_> = vectors.view();
    write(args, vectors.as_slice(), vectors.dim())
}

fn write(args: &Args, vectors: &[f32], dim: usize) -> Result<()> {
    let rows = vectors.len() / dim.max(1);
    output::write_whole(&args.output, |file| Ok(npy::write(file, dim, vectors)?))?;
    if args.json {
        return output::print_json(&json!({
            "output": args.output, "rows": rows, "dim": dim, "model": args.model.name(),
        }));
    }
    eprintln!(
        "{}: {} of dimension {dim}",
        args.output.display(),
        output::counted(rows, "embedding")
    );
    Ok(())
}
