//! Captions per second of a sentence encoder (`bench/rows/sentence.py`, `bench/static.py`).

use std::path::{Path, PathBuf};

use anyhow::Result;
use hark_corpus::{CaptionSet, Format};
use hark_encode::sentence::{SentenceModel, StaticEncoder};
use hark_encode::{Compute, Precision, SentenceEncoder};
use hark_nearest::npy;
use serde_json::json;

use crate::measured::RepeatArgs;
use crate::{Measured, ThreadArgs};

/// The encoder that is part of hark.
const BUILT_IN: &str = "caption-static";

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  hark-bench encode --model ~/.cache/hark/models/all-mpnet-base-v2 --captions train.csv --count 2000"
)]
pub(crate) struct Args {
    /// A model folder, or caption-static, which is built in
    #[arg(long, value_name = "FOLDER")]
    model: String,
    /// A caption file of any form that hark recognizes
    #[arg(long, value_name = "FILE")]
    captions: PathBuf,
    /// Form of the file, if its first line does not tell [auto, clotho, audiocaps, wavcaps, text]
    #[arg(long, value_name = "NAME", default_value = "auto", hide_default_value = true)]
    format: Format,
    /// Embed the first N captions of the file
    #[arg(long, value_name = "N")]
    count: Option<usize>,
    /// Write the embeddings, a NumPy matrix
    #[arg(long, value_name = "FILE.npy")]
    output: Option<PathBuf>,
    /// Bits of a transformer's weights
    #[arg(long, default_value = "f32")]
    precision: Precision,
    #[command(flatten)]
    repeat: RepeatArgs,
    #[command(flatten)]
    threads: ThreadArgs,
}

fn open(name: &str) -> Result<SentenceModel> {
    if name == BUILT_IN {
        return Ok(SentenceModel::Static(Box::new(StaticEncoder::built_in()?)));
    }
    Ok(SentenceModel::open(Path::new(name))?)
}

pub(crate) fn encode(args: &Args) -> Measured {
    let model = open(&args.model)?;
    let set = CaptionSet::read(&args.captions, &args.format)?;
    let mut texts = set.texts();
    texts.truncate(args.count.unwrap_or(texts.len()));
    let threads = args.threads.count().get();
    let compute = Compute::cpu(threads).with_precision(args.precision);
    let encoder = SentenceEncoder::load(model, &compute)?;
    let (seconds, embeddings) = args.repeat.time(|| Ok(encoder.embed(&texts)?))?;
    if let Some(path) = &args.output {
        npy::write(
            fs_err::File::create(path)?,
            embeddings.dim(),
            embeddings.as_slice(),
        )?;
    }
    Ok(json!({
        "seconds": seconds, "count": texts.len(), "dim": embeddings.dim(), "threads": threads,
    }))
}
