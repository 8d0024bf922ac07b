//! `hark bench`: our side of the speed figures. The scripts under `bench/` run the peer beside it.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Subcommand;
use hark_audio::{MelConfig, MelSpectrogram};
use hark_encode::model::AudioEncoder;
use hark_encode::random::Random;
use hark_encode::sentence::{CaptionEncoder, SentenceEncoder, SentenceModel};
use hark_encode::towers::passt::PasstConfig;
use hark_encode::towers::{AudioConfig, MelBatch};
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
    /// Seconds to decode, resample and compute log-mels of recordings, as PaSST's front end does
    #[command(after_help = "Example:\n  hark bench mel esc10/*.flac --threads 2")]
    Mel {
        /// Recordings
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        #[command(flatten)]
        threads: ThreadArgs,
    },
    /// Seconds to compute PaSST-S features of 10 s clips, with random weights; log-mels and loading are not counted
    #[command(after_help = "Example:\n  hark bench passt --clips 16 --threads 2")]
    Passt {
        /// How many clips
        #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
        clips: u32,
        /// Clips computed together on a thread
        #[arg(long, default_value_t = 1)]
        batch: u32,
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
        Command::Mel { files, threads } => mel(&files, threads.count().get()),
        Command::Passt {
            clips,
            batch,
            threads,
        } => passt(clips, batch.max(1), threads.count().get()),
    }
}

fn mel(files: &[PathBuf], threads: usize) -> Result<()> {
    let config = MelConfig::default();
    let rate = config.rate;
    let mel = MelSpectrogram::new(config)?;
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    let one_thread = || -> Result<f64> {
        let mut seconds = 0.0;
        while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
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
            .map(|worker| worker.join().unwrap_or_else(|_| bail!("a worker thread failed")))
            .sum::<Result<f64>>()
    })?;
    let seconds = start.elapsed().as_secs_f64();
    output::print_json(&json!({
        "seconds": seconds, "files": files.len(), "audio_seconds": audio, "threads": threads,
    }))
}

fn passt(clips: u32, batch: u32, threads: usize) -> Result<()> {
    let config = AudioConfig::Passt(PasstConfig::small());
    let encoder = AudioEncoder::untrained(config, 1, threads)?;
    let mut random = Random::new(1);
    let batches = (0..clips.div_ceil(batch)).map(|nth| {
        let clips = batch.min(clips - nth * batch) as usize;
        let values = (0..clips * 128 * 1000).map(|_| random.signed() as f32).collect();
        MelBatch::new(values, 128, 1000)
    });
    let batches = batches.collect::<Result<Vec<_>, _>>()?;
    // Once before the clock starts: the first pass fills caches and pools.
    encoder.features(&batches[0])?;
    let start = Instant::now();
    std::hint::black_box(encoder.features_of_all(&batches)?);
    let seconds = start.elapsed().as_secs_f64();
    output::print_json(&json!({
        "seconds": seconds, "clips": clips, "batch": batch, "threads": threads,
    }))
}
