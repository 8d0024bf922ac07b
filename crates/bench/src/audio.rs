//! From file to log-mel (`bench/rows/mel.py`).

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, bail};
use hark_audio::{MelConfig, MelSpectrogram};
use hark_nearest::npy;
use serde_json::json;

use crate::measured::RepeatArgs;
use crate::{Measured, ThreadArgs};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  hark-bench mel esc10/*.flac --threads 2")]
pub(crate) struct Args {
    /// Recordings
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write each recording's log-mel, averaged over frames, a NumPy matrix
    #[arg(long, value_name = "FILE.npy")]
    output: Option<PathBuf>,
    #[command(flatten)]
    repeat: RepeatArgs,
    #[command(flatten)]
    threads: ThreadArgs,
}

/// A recording's place among the files, the seconds of its sound, and the mean of its log-mel over frames.
type Heard = (usize, f64, Vec<f32>);

pub(crate) fn mel(args: &Args) -> Measured {
    let config = MelConfig::default();
    let bands = config.mels;
    let mel = MelSpectrogram::new(config)?;
    let threads = args.threads.count().get();
    let (seconds, mut heard) = args.repeat.time(|| all(&args.files, &mel, threads))?;
    heard.sort_by_key(|&(nth, ..)| nth);
    let audio: f64 = heard.iter().map(|(_, seconds, _)| seconds).sum();
    if let Some(path) = &args.output {
        let means: Vec<f32> = heard.into_iter().flat_map(|(.., mean)| mean).collect();
        npy::write(fs_err::File::create(path)?, bands, &means)?;
    }
    Ok(json!({
        "seconds": seconds, "count": args.files.len(), "audio_seconds": audio, "threads": threads,
    }))
}

fn all(files: &[PathBuf], mel: &MelSpectrogram, threads: usize) -> Result<Vec<Heard>> {
    let rate = mel.config().rate;
    let next = AtomicUsize::new(0);
    let one_thread = || -> Result<Vec<Heard>> {
        let mut heard = Vec::new();
        loop {
            let nth = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = files.get(nth) else {
                return Ok(heard);
            };
            let waveform = hark_audio::read(path, rate, None)?;
            let mel = mel.compute(&waveform.samples)?;
            let means = mel
                .values
                .chunks_exact(mel.frames)
                .map(|band| band.iter().sum::<f32>() / mel.frames as f32);
            heard.push((
                nth,
                waveform.samples.len() as f64 / f64::from(rate),
                means.collect(),
            ));
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(one_thread)).collect();
        let mut heard = Vec::new();
        for worker in workers {
            heard.extend(
                worker
                    .join()
                    .unwrap_or_else(|_| bail!("a worker thread panicked"))?,
            );
        }
        Ok(heard)
    })
}
