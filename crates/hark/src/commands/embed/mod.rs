//! `hark embed`: vectors of recordings and of texts, for use elsewhere.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use hark_encode::card::ClipLength;
use hark_encode::model::TextEncoder;
use hark_models::Model;
use hark_nearest::Vectors;
use serde_json::json;

use super::inputs::{ColumnArgs, ModelArgs, clip, gather};
use crate::home::Home;
use crate::{npy, output, progress};

mod recordings;

const EXAMPLES: &str = "Examples:
  hark embed rain.wav dog.mp3 --model my-model -o clips.npy
  hark embed --text 'a dog barks' --text 'rain on a tin roof' --model my-model -o queries.npy
  hark embed --captions clotho_captions_evaluation.csv -o captions.npy

The file holds one row a recording or caption, in the order of the input. Rows of a sentence encoder
and of a model with projections have length 1, and the product of two is their similarity; a tower
that was imported alone gives its features as they are. Read it with numpy.load.

For recordings, FILE.rows.csv beside FILE.npy says which row is which, how long it is, and what was wrong
with it. A recording that cannot be read is reported and left out, and the exit code is then 1. If you
stop the command, what is done is written; with --resume it goes on from there.";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Recordings of any usual kind
    #[arg(value_name = "RECORDING", required_unless_present_any = ["texts", "files"], conflicts_with_all = ["texts", "files"])]
    recordings: Vec<PathBuf>,
    /// A caption; may be given several times
    #[arg(long = "text", value_name = "CAPTION")]
    texts: Vec<String>,
    /// A file of captions, `-` for stdin; may be given several times
    #[arg(long = "captions", value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    columns: ColumnArgs,
    #[command(flatten)]
    model: ModelArgs,
    /// Which segments of a recording count: `true`, or a number of seconds to pad or crop to [default: as the model was trained]
    #[arg(long, value_name = "LENGTH", value_parser = clip, requires = "recordings")]
    clip: Option<ClipLength>,
    /// Keep the rows that the output file already has
    #[arg(long, requires = "recordings")]
    resume: bool,
    /// Where the vectors go, a NumPy file
    #[arg(short, long, value_name = "FILE.npy")]
    output: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<()> {
    if args.output.extension().is_none_or(|extension| extension != "npy") {
        bail!("{}: vectors are written as .npy", args.output.display());
    }
    // Hours of work are not to end in a folder that is not there.
    output::check_writable(&args.output)?;
    if !args.recordings.is_empty() {
        return recordings::run(args);
    }
    let captions = gather(&args.texts, &args.files, &args.columns)?;
    let captions: Vec<&str> = captions.iter().map(String::as_str).collect();
    match &args.model.model {
        Some(name) => match Home::find()?.models().open(name)? {
            Model::Towers(folder) => {
                let encoder = TextEncoder::open(&folder, &args.model.threads.compute())?;
                let bar = progress::items("embedding texts");
                let embedded = encoder.embed(&captions, &|done, total| progress::show(&bar, done, total));
                bar.finish_and_clear();
                let embedded = embedded?;
                if embedded.truncated() > 0 {
                    eprintln!(
                        "hark: warning: {} texts are longer than the model reads; their ends do not count",
                        output::group_digits(embedded.truncated())
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
    output::write_whole(&args.output, |file| npy::write(file, &[rows, dim], vectors))?;
    if args.json {
        return output::print_json(&json!({
            "output": args.output, "rows": rows, "dim": dim, "model": args.model.name(),
        }));
    }
    eprintln!(
        "{}: {} vectors of {dim}",
        args.output.display(),
        output::group_digits(rows)
    );
    Ok(())
}
