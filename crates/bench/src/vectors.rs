//! Exact nearest neighbours of every row (`bench/rows/neighbours.py`).

use std::path::PathBuf;

use hark_nearest::{exact, npy};
use hark_work::progress::no_progress;
use serde_json::json;

use crate::measured::RepeatArgs;
use crate::{Measured, ThreadArgs};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  hark-bench neighbours --vectors captions.npy --k 100 --output ids.npy")]
pub(crate) struct Args {
    /// Vectors of length 1, a NumPy matrix of 32-bit floats
    #[arg(long, value_name = "FILE.npy")]
    vectors: PathBuf,
    /// Neighbours of each row
    #[arg(long, default_value_t = 100)]
    k: usize,
    /// Write the neighbours' row numbers, a NumPy matrix
    #[arg(long, value_name = "FILE.npy")]
    output: Option<PathBuf>,
    #[command(flatten)]
    repeat: RepeatArgs,
    #[command(flatten)]
    threads: ThreadArgs,
}

pub(crate) fn neighbours(args: &Args) -> Measured {
    let embeddings = npy::read(&args.vectors)?;
    let vectors = embeddings.view();
    let threads = args.threads.count();
    let options = exact::Options {
        groups: None,
        threads: Some(threads),
    };
    let (seconds, found) = args
        .repeat
        .time(|| Ok(exact::neighbours(vectors, args.k, options, &no_progress)?))?;
    if let Some(path) = &args.output {
        let columns = found.k().min(found.rows().saturating_sub(1));
        npy::write(fs_err::File::create(path)?, columns, found.ids())?;
    }
    Ok(json!({
        "seconds": seconds, "count": vectors.rows(), "dim": vectors.dim(), "k": args.k, "threads": threads,
    }))
}
