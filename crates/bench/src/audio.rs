//! From file to log-mel, driven by `bench/audio.py`.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Result, bail};
use hark_audio::{MelConfig, MelSpectrogram};
use serde_json::json;

use crate::{Measured, ThreadArgs};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  hark-bench mel esc10/*.flac --threads 2")]
pub(crate) struct Args {
    /// Recordings
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    threads: ThreadArgs,
}

pub(crate) fn mel(args: &Args) -> Measured {
    let config = MelConfig::default();
    let rate = config.rate;
    let mel = MelSpectrogram::new(config)?;
    let next = AtomicUsize::new(0);
    let threads = args.threads.count().get();
    let start = Instant::now();
    let one_thread = || -> Result<f64> {
        let mut seconds = 0.0;
        while let Some(path) = args.files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let waveform = hark_audio::read(path, rate, None)?;
            seconds += waveform.samples.len() as f64 / f64::from(rate);
            std::hint::black_box(mel.compute(&waveform.samples)?);
        }
        Ok(seconds)
    };
    let audio = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(one_thread)).collect();
        workers
            .into_iter()
            .map(|worker| {
                worker
                    .join()
                    .unwrap_or_else(|_| bail!("a worker thread panicked"))
            })
            .sum::<Result<f64>>()
    })?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(json!({
        "seconds": seconds, "files": args.files.len(), "audio_seconds": audio, "threads": threads,
    }))
}
