//! Scoring a retrieval model from its embeddings (`bench/rows/scoring.py`).

use std::path::PathBuf;

use anyhow::bail;
use hark_learn::metrics_log::LoggedMetrics;
use hark_metrics::{self as metrics, Options, Relevant, WithIds};
use hark_nearest::npy;
use hark_work::progress::no_progress;
use serde_json::json;

use crate::measured::RepeatArgs;
use crate::{Measured, ThreadArgs, memory};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  hark-bench scoring --clips clips.npy --captions captions.npy --repeat 5")]
pub(crate) struct Args {
    /// Clip embeddings of length 1, a NumPy matrix of 32-bit floats
    #[arg(long, value_name = "FILE.npy")]
    clips: PathBuf,
    /// Caption embeddings, the same number for each clip, in the order of the clips
    #[arg(long, value_name = "FILE.npy")]
    captions: PathBuf,
    #[command(flatten)]
    repeat: RepeatArgs,
    #[command(flatten)]
    threads: ThreadArgs,
}

pub(crate) fn score(args: &Args) -> Measured {
    let (clips, captions) = (npy::read(&args.clips)?, npy::read(&args.captions)?);
    let (clips, captions) = (clips.view(), captions.view());
    if clips.rows() == 0 || !captions.rows().is_multiple_of(clips.rows()) {
        bail!(
            "{} captions cannot be split evenly among {} clips",
            captions.rows(),
            clips.rows()
        );
    }
    let each = captions.rows() / clips.rows();
    let keys = |rows: usize| -> Vec<u64> { (0..rows as u64).collect() };
    let (clip_keys, caption_keys) = (keys(clips.rows()), keys(captions.rows()));
    let clips = WithIds::new(clips, &clip_keys)?;
    let captions = WithIds::new(captions, &caption_keys)?;
    let owners = (0..captions.vectors().rows()).map(|caption| [(caption / each) as u32]);
    let relevant = Relevant::new(owners, clips.vectors().rows())?;
    let back = relevant.reversed()?;
    let threads = args.threads.count();
    let options = Options {
        threads: Some(threads),
        ..Options::default()
    };
    let (seconds, found) = args.repeat.time(|| {
        let there = metrics::evaluate(captions, clips, &relevant, options, &no_progress)?;
        let back = metrics::evaluate(clips, captions, &back, options, &no_progress)?;
        Ok([there, back])
    })?;
    let means = found.map(|report| LoggedMetrics::from(&report.mean));
    Ok(json!({
        "seconds": seconds, "clips": clips.vectors().rows(), "count": captions.vectors().rows(),
        "dim": clips.vectors().dim(), "threads": threads, "peak_memory_bytes": memory("VmHWM"),
        "text_to_audio": means[0], "audio_to_text": means[1],
    }))
}
