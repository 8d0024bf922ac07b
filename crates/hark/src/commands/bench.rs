//! `hark bench`: our side of the speed figures. The scripts under `bench/` run the peer beside it.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::Subcommand;
use hark_encode::sentence::{CaptionEncoder, SentenceEncoder, SentenceModel};
use hark_rank::{Vectors, exact};
use serde_json::json;

use super::inputs::{ColumnArgs, ThreadArgs};
use crate::home::Home;
use crate::{models, npy, output};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Seconds to find the nearest neighbours of every vector
    #[command(after_help = "Example:\n  hark bench neighbours --vectors captions.npy --k 100 --out ids.npy")]
    Neighbours {
        /// Vectors of length 1, a NumPy matrix of 32-bit floats
        #[arg(long, value_name = "FILE.npy")]
        vectors: PathBuf,
        /// Neighbours of each
        #[arg(long, default_value_t = 100)]
        k: usize,
        /// Write the neighbours' row numbers, a NumPy matrix
        #[arg(long, value_name = "FILE.npy")]
        out: Option<PathBuf>,
        #[command(flatten)]
        threads: ThreadArgs,
    },
    /// Seconds to embed captions, without loading the model and without the cache
    #[command(
        after_help = "Example:\n  hark bench encode --model all-mpnet-base-v2 --captions train.csv --count 2000"
    )]
    Encode {
        /// A name of `hark models list`, or a folder
        #[arg(long, value_name = "NAME")]
        model: String,
        /// A file of captions
        #[arg(long, value_name = "FILE")]
        captions: PathBuf,
        #[command(flatten)]
        columns: ColumnArgs,
        /// Embed the first N captions of the file
        #[arg(long, value_name = "N")]
        count: Option<usize>,
        #[command(flatten)]
        threads: ThreadArgs,
    },
}

pub fn run(command: Command) -> Result<()> {
    match command {
        Command::Neighbours {
            vectors,
            k,
            out,
            threads,
        } => {
            let matrix = npy::read_matrix(&vectors)?;
            let vectors = Vectors::new(&matrix.numbers, matrix.columns)?;
            let options = exact::Options {
                groups: None,
                threads: Some(threads.count()),
            };
            let start = Instant::now();
            let found = exact::neighbours(vectors, k, options, &hark_rank::unwatched)?;
            let seconds = start.elapsed().as_secs_f64();
            if let Some(path) = out {
                let columns = found.k().min(found.rows().saturating_sub(1));
                output::write_whole(&path, |file| {
                    npy::write(file, &[found.rows(), columns], found.ids())
                })?;
            }
            output::print_json(&json!({
                "seconds": seconds, "rows": vectors.rows(), "dim": vectors.dim(), "k": k, "threads": threads.count(),
            }))
        }
        Command::Encode {
            model,
            captions,
            columns,
            count,
            threads,
        } => {
            let model = models::open(&Home::find()?, &model)?;
            let set = columns.read(&captions)?;
            let mut texts = set.texts();
            texts.truncate(count.unwrap_or(texts.len()));
            let (start, vectors) = match &model {
                SentenceModel::Transformer(folder) => {
                    let encoder = SentenceEncoder::load(folder, threads.count().get())?;
                    let start = Instant::now();
                    (
                        start,
                        encoder.embed(&texts, &mut |_, _| ControlFlow::Continue(()))?,
                    )
                }
                SentenceModel::Static(_) => {
                    let mut encoder = CaptionEncoder::open(model, None, threads.count().get())?;
                    let start = Instant::now();
                    (
                        start,
                        encoder
                            .embed(&texts, &mut |_, _| ControlFlow::Continue(()))?
                            .vectors,
                    )
                }
            };
            let seconds = start.elapsed().as_secs_f64();
            output::print_json(&json!({
                "seconds": seconds, "captions": texts.len(), "dim": vectors.len() / texts.len().max(1),
                "threads": threads.count(),
            }))
        }
    }
}
