//! Captions per second of a sentence encoder, driven by `bench/encode.py` and `bench/static.py`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use hark_corpus::{CaptionSet, Format};
use hark_encode::sentence::{SentenceModel, StaticEncoder};
use hark_encode::{Compute, SentenceEncoder};
use serde_json::json;

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
    let encoder = SentenceEncoder::load(model, &Compute::cpu(threads))?;
    let start = Instant::now();
    let embeddings = encoder.embed(&texts)?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(json!({
        "seconds": seconds, "captions": texts.len(), "dim": embeddings.dim(), "threads": threads,
    }))
}
