//! `hark relevance compute`: write relevance between all captions of a dataset to a file.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use hark_relevance::RelevanceFunction;
use hark_relevance::table::{Table, TableFile};
use serde_json::json;

use crate::commands::inputs::{CaptionArgs, ModelArgs};
use crate::{output, progress};

const EXAMPLES: &str = "Examples:
  hark relevance compute --captions captions.csv -o relevance.npy
  hark relevance compute --captions train.csv --top-k 100 -o relevance.npz
  hark relevance compute --captions coco.jsonl --caption-column caption \\
      --id-column image -o coco.npz

Rows and columns are the captions in the order of the input. Entry (i, j) is the relevance of \
caption j's clip to caption i. FILE.npy: numpy.load. FILE.safetensors: tensors `relevance` and \
`clip` (the number of each caption's clip). FILE.npz: scipy.sparse.load_npz; each row holds the \
caption itself and its --top-k nearest others.";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    captions: CaptionArgs,
    /// Relevance function: logistic, minmax, binary, threshold or steep, with parameters as in threshold:at=0.6
    #[arg(long, short, value_name = "FUNCTION", default_value = "logistic")]
    function: RelevanceFunction,
    /// Write the similarity h instead of the relevance
    #[arg(long, conflicts_with = "function")]
    similarity: bool,
    /// Number of nearest captions to keep in each row of a sparse file [default: 100]
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    #[command(flatten)]
    model: ModelArgs,
    /// Output file: .npy or .safetensors (dense), .npz (sparse)
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<()> {
    let file = TableFile::new(&args.output)?;
    if !file.is_sparse() && args.top_k.is_some() {
        bail!(
            "--top-k is for .npz files; {} holds every pair",
            args.output.display()
        );
    }
    if !args.function.needs_range() {
        // Fails for a function that only a training batch can have.
        args.function.apply(0.0, false)?;
    }
    let set = args.captions.read()?;
    let count = set.captions.len();
    file.check_size(count)?;
    let vectors = args.model.embed(&set.texts())?;
    let vectors = vectors.view();
    let threads = args.model.threads.count();

    let bar = progress::items("range of similarities");
    let function = args
        .function
        .resolved(vectors, &set.texts(), Some(threads), &|done, total| {
            progress::show(&bar, done, total)
        })?;
    bar.finish_and_clear();
    if args.function.needs_range() {
        eprintln!("function: {function}");
    }
    let clips: Vec<u32> = set.captions.iter().map(|caption| caption.clip as u32).collect();
    let table = Table::new(vectors, &clips, (!args.similarity).then_some(function))?.threads(threads);
    let bar = progress::items("computing relevance");
    table.save(
        &file,
        args.model.name(),
        args.top_k.unwrap_or(100),
        &|done, total| progress::show(&bar, done, total),
    )?;
    bar.finish_and_clear();

    if args.json {
        return output::print_json(&json!({
            "output": args.output,
            "captions": count,
            "clips": set.clips.len(),
            "model": args.model.name(),
            "function": table.entries(),
        }));
    }
    eprintln!(
        "{}: {} of {}",
        args.output.display(),
        output::counted(count, "caption"),
        output::counted(set.clips.len(), "clip")
    );
    Ok(())
}
