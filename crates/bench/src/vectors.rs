//! Exact nearest neighbours of every row, driven by `bench/neighbours.py`.

use std::path::PathBuf;
use std::time::Instant;

use hark_nearest::{exact, npy};
use hark_work::progress::no_progress;
use serde_json::json;

use crate::{Measured, ThreadArgs};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  hark-bench neighbours --vectors captions.npy --k 100 --out ids.npy")]
pub(crate) struct Args {
    /// Vectors of length 1, a NumPy matrix of 32-bit floats
    #[arg(long, value_name = "FILE.npy")]
    vectors: PathBuf,
    /// Neighbours of each row
    #[arg(long, default_value_t = 100)]
    k: usize,
    /// Write the neighbours' row numbers, a NumPy matrix
    #[arg(long, value_name = "FILE.npy")]
    out: Option<PathBuf>,
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
    let start = Instant::now();
    let found = exact::neighbours(vectors, args.k, options, &no_progress)?;
    let seconds = start.elapsed().as_secs_f64();
    if let Some(path) = &args.out {
        let columns = found.k().min(found.rows().saturating_sub(1));
        npy::write(fs_err::File::create(path)?, columns, found.ids())?;
    }
    Ok(json!({
        "seconds": seconds, "rows": vectors.rows(), "dim": vectors.dim(), "k": args.k, "threads": threads,
    }))
}
