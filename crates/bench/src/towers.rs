//! The paper's towers and MN with random weights: clips per second and seconds per training step, driven by `bench/passt.py`,
//! `bench/mn.py` and `bench/step.py`.

use std::time::Instant;

use hark_encode::Compute;
use hark_encode::dropout::Training;
use hark_encode::dual::SideConfig;
use hark_encode::model::{AudioEncoder, EVERYDAY, ModelFiles};
use hark_encode::towers::mn::{MnConfig, Output};
use hark_encode::towers::passt::PasstConfig;
use hark_encode::towers::roberta::RobertaConfig;
use hark_encode::towers::{AudioConfig, MelBatch, TextConfig, TokenBatch};
use hark_learn::optimizer::{self, AdamW, AdamWConfig};
use hark_learn::recipe::ObjectiveRecipe;
use hark_learn::step::{self, AudioInput, TextInput};
use hark_nearest::Vectors;
use hark_work::random::Random;
use serde_json::json;

use crate::{Measured, ThreadArgs, memory};

/// A log-mel of 10 s: bands and frames.
const MELS: usize = 128;
const FRAMES: usize = 1000;
/// Tokens of a caption.
const TOKENS: usize = 32;

/// What is computed, and how.
#[derive(Debug, clap::Args)]
struct ClipArgs {
    /// Clips to compute
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    clips: u32,
    /// Clips in a batch; a batch is computed on one thread
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    #[command(flatten)]
    threads: ThreadArgs,
}

impl ClipArgs {
    fn compute(&self) -> Compute {
        Compute::cpu(self.threads.count().get())
    }

    /// Seconds for all clips, of log-mels that are ready beforehand.
    fn time(&self, encoder: &AudioEncoder) -> Measured {
        let mut random = Random::new(1);
        let batches = (0..self.clips.div_ceil(self.batch)).map(|nth| {
            let clips = self.batch.min(self.clips - nth * self.batch) as usize;
            noise(clips, &mut random)
        });
        let batches = batches.collect::<Result<Vec<_>, _>>()?;
        // Once before the clock starts: the first pass fills caches and pools.
        encoder.features(&batches[0])?;
        let start = Instant::now();
        std::hint::black_box(encoder.features_of_all(&batches)?);
        let seconds = start.elapsed().as_secs_f64();
        let threads = self.threads.count();
        Ok(json!({"seconds": seconds, "clips": self.clips, "batch": self.batch, "threads": threads}))
    }
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  hark-bench passt --clips 16 --threads 2")]
pub(crate) struct PasstArgs {
    #[command(flatten)]
    clips: ClipArgs,
}

pub(crate) fn passt(args: &PasstArgs) -> Measured {
    let config = AudioConfig::Passt(PasstConfig::small());
    args.clips
        .time(&AudioEncoder::untrained(config, 1, &args.clips.compute())?)
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  hark-bench mn --width 0.4 --clips 64 --threads 2")]
pub(crate) struct MnArgs {
    /// Width of the network, as in the names of the published ones; without it the built-in model is computed
    #[arg(long)]
    width: Option<f64>,
    #[command(flatten)]
    clips: ClipArgs,
}

pub(crate) fn mn(args: &MnArgs) -> Measured {
    let compute = args.clips.compute();
    let encoder = match args.width {
        Some(width) => {
            let mut config = MnConfig::of_width(width);
            config.output = Output::Classes;
            AudioEncoder::untrained(AudioConfig::Mn(config), 1, &compute)?
        }
        None => AudioEncoder::open(ModelFiles::BuiltIn(&EVERYDAY), &compute)?,
    };
    args.clips.time(&encoder)
}

fn noise(clips: usize, random: &mut Random) -> Result<MelBatch, hark_encode::Error> {
    let values = (0..clips * MELS * FRAMES)
        .map(|_| random.signed() as f32)
        .collect();
    MelBatch::new(values, MELS, FRAMES)
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  hark-bench step --batch 2 --steps 3 --threads 2")]
pub(crate) struct StepArgs {
    /// Pairs in a batch
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..))]
    batch: u32,
    /// Steps to take; the first one fills caches and pools
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    #[command(flatten)]
    threads: ThreadArgs,
}

pub(crate) fn step(args: &StepArgs) -> Measured {
    let threads = args.threads.count().get();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    pool.install(|| steps(args.batch as usize, args.steps, threads))
}

/// Forward, ListNet's loss over clips, backward, clipping and AdamW, with dropout and patchout as in the paper.
fn steps(batch: usize, steps: u32, threads: usize) -> Measured {
    let audio = SideConfig {
        network: AudioConfig::Passt(PasstConfig::small()),
        projection: vec![1024, 1024],
    };
    let text = SideConfig {
        network: TextConfig::Roberta(RobertaConfig::large()),
        projection: vec![1024, 1024],
    };
    let mut network = step::untrained(&audio, &text, 1, &Compute::cpu(threads))?;
    let objective = ObjectiveRecipe::default();
    let objective = objective.objective(objective.relevance_function()?, 0.0);
    let mut optimizer = AdamW::new(AdamWConfig::default());
    let mut random = Random::new(1);
    let mels = noise(batch, &mut random)?;
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
            step::gradients(&network, &objective, &audio, &text, &targets, Some(&training))?;
        optimizer::clip(&mut gradients, 1.0);
        network = optimizer.step(network, &gradients, &|_| 2e-5)?;
        seconds.push(start.elapsed().as_secs_f64());
        losses.push(loss);
    }
    Ok(json!({
        "seconds_per_step": seconds, "losses": losses, "batch": batch, "tokens": TOKENS, "threads": threads,
        "peak_memory_bytes": memory("VmHWM"),
    }))
}
