//! `hark embed`: caption vectors for use elsewhere.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use serde_json::json;

use super::inputs::{ColumnArgs, ModelArgs, gather};
use crate::{npy, output};

const EXAMPLES: &str = "Examples:
  hark embed --captions clotho_captions_evaluation.csv -o captions.npy
  hark embed --text 'a dog barks' --text 'rain on a tin roof' -o two.npy

The file holds one row a caption, in the order of the input, each of length 1: the product of two
rows is their similarity. Read it with numpy.load.";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A caption; may be given several times
    #[arg(long = "text", value_name = "CAPTION", required_unless_present = "files")]
    texts: Vec<String>,
    /// A file of captions, `-` for stdin; may be given several times
    #[arg(long = "captions", value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    columns: ColumnArgs,
    #[command(flatten)]
    model: ModelArgs,
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
    let captions = gather(&args.texts, &args.files, &args.columns)?;
    let captions: Vec<&str> = captions.iter().map(String::as_str).collect();
    let vectors = args.model.embed(&captions)?;
    let vectors = vectors.view()?;
    output::write_whole(&args.output, |file| {
        npy::write(file, &[vectors.rows(), vectors.dim()], vectors.as_slice())
    })?;
    if args.json {
        return output::print_json(&json!({
            "output": args.output, "rows": vectors.rows(), "dim": vectors.dim(), "model": args.model.name(),
        }));
    }
    eprintln!(
        "{}: {} vectors of {}",
        args.output.display(),
        output::count(vectors.rows()),
        vectors.dim()
    );
    Ok(())
}
