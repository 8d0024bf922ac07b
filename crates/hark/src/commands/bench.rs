//! `hark bench`: our side of the speed figures. The scripts under `bench/` run the peer beside it.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Subcommand;
use hark_audio::{MelConfig, MelSpectrogram};
use hark_encode::Compute;
use hark_encode::dropout::Training;
use hark_encode::dual::SideConfig;
use hark_encode::model::AudioEncoder;
use hark_encode::sentence::{CachedSentenceEncoder, SentenceEncoder, SentenceModel};
use hark_encode::towers::passt::PasstConfig;
use hark_encode::towers::roberta::RobertaConfig;
use hark_encode::towers::{AudioConfig, MelBatch, TextConfig, TokenBatch};
use hark_learn::optimizer::{self, AdamW, AdamWConfig};
use hark_learn::recipe::ObjectiveRecipe;
use hark_learn::report;
use hark_learn::step::{self as learn_step, AudioInput, TextInput};
use hark_metrics::{self as metrics, Options, Relevant, WithIds};
use hark_nearest::{Vectors, exact};
use hark_work::random::Random;
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
    /// Seconds to rank and judge both directions: every caption against all clips, every clip against all captions
    #[command(
        after_help = "Example:\n  hark bench scoring --clips clips.npy --captions captions.npy --repeat 5"
    )]
    Scoring {
        /// Vectors of clips of length 1, a NumPy matrix of 32-bit floats
        #[arg(long, value_name = "FILE.npy")]
        clips: PathBuf,
        /// Vectors of captions, as many for each clip, in the order of the clips
        #[arg(long, value_name = "FILE.npy")]
        captions: PathBuf,
        /// How often
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
        repeat: u32,
        #[command(flatten)]
        threads: ThreadArgs,
    },
    /// Seconds of training steps of PaSST-S and RoBERTa-large on 10 s clips, with random weights
    #[command(after_help = "Example:\n  hark bench step --batch 2 --steps 3 --threads 2")]
    Step {
        /// Pairs in a batch
        #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..))]
        batch: u32,
        /// How many steps, the first of which fills caches and pools
        #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
        steps: u32,
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
            let found = exact::neighbours(vectors, k, options, &hark_work::progress::no_progress)?;
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
                    let encoder = SentenceEncoder::load(folder, &threads.compute())?;
                    let start = Instant::now();
                    (start, encoder.embed(&texts, &hark_work::progress::no_progress)?)
                }
                SentenceModel::Static(_) => {
                    let mut encoder = CachedSentenceEncoder::open(model, None, &threads.compute())?;
                    let start = Instant::now();
                    (
                        start,
                        encoder.embed(&texts, &hark_work::progress::no_progress)?.vectors,
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
        Command::Scoring {
            clips,
            captions,
            repeat,
            threads,
        } => scoring(&clips, &captions, repeat, threads.count()),
        Command::Step {
            batch,
            steps,
            threads,
            ..
        } => {
            let threads = threads.count().get();
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
            pool.install(|| step(batch as usize, steps, threads))
        }
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

fn scoring(clips: &Path, captions: &Path, repeat: u32, threads: NonZeroUsize) -> Result<()> {
    let (clips, captions) = (npy::read_matrix(clips)?, npy::read_matrix(captions)?);
    let clips = Vectors::new(&clips.numbers, clips.columns)?;
    let captions = Vectors::new(&captions.numbers, captions.columns)?;
    if clips.rows() == 0 || !captions.rows().is_multiple_of(clips.rows()) {
        bail!(
            "{} captions are not as many for each of {} clips",
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
    let options = Options {
        threads: Some(threads),
        ..Options::default()
    };
    let watch = &hark_work::progress::no_progress;
    let (mut seconds, mut found) = (Vec::new(), Vec::new());
    for _ in 0..repeat {
        let start = Instant::now();
        let there = metrics::evaluate(captions, clips, &relevant, options, watch)?;
        found = vec![there, metrics::evaluate(clips, captions, &back, options, watch)?];
        seconds.push(start.elapsed().as_secs_f64());
    }
    let means: Vec<_> = found.iter().map(|report| report::json(&report.mean)).collect();
    output::print_json(&json!({
        "seconds": seconds, "clips": clips.vectors().rows(), "captions": captions.vectors().rows(),
        "dim": clips.vectors().dim(), "threads": threads, "peak_memory_bytes": peak_memory(),
        "text_to_audio": means[0], "audio_to_text": means[1],
    }))
}

fn passt(clips: u32, batch: u32, threads: usize) -> Result<()> {
    let config = AudioConfig::Passt(PasstConfig::small());
    let encoder = AudioEncoder::untrained(config, 1, &Compute::cpu(threads))?;
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

/// Forward, ListNet's loss over clips, backward, clipping and AdamW, with dropout and patchout as in the paper.
fn step(batch: usize, steps: u32, threads: usize) -> Result<()> {
    const TOKENS: usize = 32;
    let audio = SideConfig {
        network: AudioConfig::Passt(PasstConfig::small()),
        projection: vec![1024, 1024],
    };
    let text = SideConfig {
        network: TextConfig::Roberta(RobertaConfig::large()),
        projection: vec![1024, 1024],
    };
    let mut network = learn_step::untrained(&audio, &text, 1, &Compute::cpu(threads))?;
    let objective = ObjectiveRecipe::default();
    let objective = objective.objective(objective.relevance_function()?, 0.0);
    let mut optimizer = AdamW::new(AdamWConfig::default());
    let mut random = Random::new(1);
    let mels = MelBatch::new(
        (0..batch * 128 * 1000).map(|_| random.signed() as f32).collect(),
        128,
        1000,
    )?;
    let tokens: Vec<Vec<u32>> = (0..batch)
        .map(|_| (0..TOKENS).map(|_| 4 + random.below(50_000) as u32).collect())
        .collect();
    let teacher: Vec<f32> = (0..batch)
        .flat_map(|nth| (0..batch).map(move |place| f32::from(u8::from(place == nth))))
        .collect();
    let clips: Vec<u32> = (0..batch as u32).collect();
    let targets = objective.targets(&clips, Some(Vectors::new(&teacher, batch)?))?;
    let mut seconds = Vec::new();
    let mut losses = Vec::new();
    for nth in 0..steps {
        let start = Instant::now();
        let training = Training {
            seed: u64::from(nth),
            examples: (0..batch as u64).collect(),
        };
        let audio = AudioInput::LogMels {
            mels: &mels,
            segments: &vec![1; batch],
        };
        let text = TextInput::Tokens(TokenBatch::new(tokens.iter().map(Vec::as_slice))?);
        let (loss, mut gradients) =
            learn_step::gradients(&network, &objective, &audio, &text, &targets, Some(&training))?;
        optimizer::clip(&mut gradients, 1.0);
        network = optimizer.step(network, &gradients, &|_| 2e-5)?;
        seconds.push(start.elapsed().as_secs_f64());
        losses.push(loss);
    }
    output::print_json(&json!({
        "seconds_per_step": seconds, "losses": losses, "batch": batch, "tokens": TOKENS, "threads": threads,
        "peak_memory_bytes": peak_memory(),
    }))
}

/// The most memory that this process has held, where the system tells.
fn peak_memory() -> Option<u64> {
    let status = fs_err::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
