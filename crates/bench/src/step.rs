//! Seconds per training step (`bench/rows/step.py`).
//!
//! A step is forward, ListNet's loss over clips, backward, clipping and AdamW, with dropout and patchout as in the paper.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use clap::ValueEnum;
use hark_encode::checkpoint::Checkpoint;
use hark_encode::dropout::Training;
use hark_encode::dual::{DualEncoder, SideConfig};
use hark_encode::towers::cnn::CnnConfig;
use hark_encode::towers::passt::{PasstConfig, Patchout};
use hark_encode::towers::roberta::RobertaConfig;
use hark_encode::towers::{AudioConfig, MelBatch, TextConfig, TokenBatch};
use hark_encode::{Compute, DeviceName};
use hark_learn::optimizer::{self, AdamW, AdamWConfig};
use hark_learn::recipe::{ObjectiveRecipe, TrainPrecision};
use hark_learn::step::{self, AudioInput, TextInput};
use hark_work::random::Random;
use serde_json::json;

use crate::measured::{read_rows, read_tokens};
use crate::{Measured, ThreadArgs, flops, memory};

/// Tokens of a random caption.
const TOKENS: usize = 32;
/// Numbers of a random caption embedding.
const CAPTION_DIM: usize = 768;

/// What is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Size {
    /// PaSST-S and RoBERTa-large on clips of 10 s
    Full,
    /// The model of recipes/soundscape-full.toml on clips of 4 s
    Small,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  hark-bench step --size full --batch 2 --steps 3 --threads 2")]
pub(crate) struct Args {
    /// Model to train
    #[arg(long, default_value = "full")]
    size: Size,
    /// Pairs in a batch
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..))]
    batch: u32,
    /// Steps to take; the first one fills caches and pools
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// Segments of each clip
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    segments: u32,
    /// Pairs that go through the towers at a time [default: the batch]
    #[arg(long, value_name = "PAIRS")]
    chunk: Option<usize>,
    /// Compute blocks again for the gradient instead of keeping them
    #[arg(long)]
    gradient_checkpointing: bool,
    /// Device to train on
    #[arg(long, value_name = "NAME", default_value = "cpu")]
    device: DeviceName,
    /// Numbers of the towers' products: f32, bf16 or mixed
    #[arg(long, value_name = "NUMBERS", default_value = "f32")]
    precision: TrainPrecision,
    /// Leave out dropout and patchout
    #[arg(long)]
    without_dropout: bool,
    /// Weights under audio., audio-projection., text. and text-projection., with the reference's tensor names [default: random]
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Folder of mels.npy, tokens.npy and captions.npy, one row for each pair [default: random]
    #[arg(long, value_name = "FOLDER")]
    inputs: Option<PathBuf>,
    #[command(flatten)]
    threads: ThreadArgs,
}

struct Model {
    audio: SideConfig<AudioConfig>,
    text: SideConfig<TextConfig>,
    mels: usize,
    frames: usize,
    vocabulary: usize,
    learning_rate: f64,
}

impl Size {
    fn model(self) -> Model {
        match self {
            Self::Full => Model {
                audio: SideConfig {
                    network: AudioConfig::Passt(PasstConfig::small()),
                    projection: vec![1024, 1024],
                },
                text: SideConfig {
                    network: TextConfig::Roberta(RobertaConfig::large()),
                    projection: vec![1024, 1024],
                },
                mels: 128,
                frames: 1000,
                vocabulary: 50_265,
                learning_rate: 2e-5,
            },
            Self::Small => Model {
                audio: SideConfig {
                    network: AudioConfig::Cnn(CnnConfig {
                        mels: 64,
                        channels: vec![16, 32, 64, 128],
                        width: 256,
                    }),
                    projection: vec![128],
                },
                text: SideConfig {
                    network: TextConfig::Roberta(RobertaConfig {
                        vocabulary: 1000,
                        positions: 34,
                        width: 128,
                        hidden: 256,
                        layers: 2,
                        heads: 4,
                        dropout: 0.1,
                        attention_dropout: 0.1,
                        ..RobertaConfig::large()
                    }),
                    projection: vec![128],
                },
                mels: 64,
                frames: 100,
                vocabulary: 1000,
                learning_rate: 1e-3,
            },
        }
    }
}

impl Model {
    /// Operations of a step: backward takes twice as many as forward.
    fn flops(&self, tokens: &[Vec<u32>], segments: usize, dropout: bool) -> f64 {
        let audio = match &self.audio.network {
            AudioConfig::Passt(config) => {
                let (rows, columns) = (config.rows(), config.columns_of(self.frames));
                let out = if dropout {
                    config.patchout
                } else {
                    Patchout::default()
                };
                let kept = flops::passt(config, rows - out.frequency, columns - out.time);
                kept + flops::projection(&[&[config.width], self.audio.projection.as_slice()].concat())
            }
            AudioConfig::Cnn(config) => {
                flops::cnn(config, self.frames)
                    + flops::projection(&[&[config.width], self.audio.projection.as_slice()].concat())
            }
            AudioConfig::Mn(_) => 0.0,
        };
        // A batch is padded to its longest caption.
        let longest = tokens.iter().map(Vec::len).max().unwrap_or(0);
        let text = match &self.text.network {
            TextConfig::Roberta(config) => {
                flops::roberta(config, longest)
                    + flops::projection(&[&[config.width], self.text.projection.as_slice()].concat())
            }
            TextConfig::Sentence(_) => 0.0,
        };
        3.0 * tokens.len() as f64 * (segments as f64 * audio + text)
    }

    fn network(&self, weights: Option<&Path>, compute: &Compute) -> Result<DualEncoder> {
        let Some(path) = weights else {
            return Ok(step::untrained(&self.audio, &self.text, 1, compute)?);
        };
        let weights = Checkpoint::open(path)?;
        // On this device parameters have gradients.
        let device = compute.device().clone().autodiff();
        Ok(DualEncoder::build(
            Some(&self.audio),
            Some(&self.text),
            &weights,
            &device,
        )?)
    }
}

struct Inputs {
    mels: MelBatch,
    tokens: Vec<Vec<u32>>,
    /// Unit vectors, one for each pair.
    captions: hark_nearest::Embeddings,
}

impl Inputs {
    fn read(folder: &Path, batch: usize, model: &Model) -> Result<Self> {
        let mels = read_rows(&folder.join("mels.npy"), batch)?;
        ensure!(
            mels.dim() == model.mels * model.frames,
            "log-mels of {} numbers, needed {} bands x {} frames",
            mels.dim(),
            model.mels,
            model.frames
        );
        Ok(Self {
            mels: MelBatch::new(mels.as_slice().to_vec(), model.mels, model.frames)?,
            tokens: read_tokens(&folder.join("tokens.npy"), batch)?,
            captions: read_rows(&folder.join("captions.npy"), batch)?,
        })
    }

    fn random(batch: usize, segments: usize, model: &Model) -> Result<Self> {
        let mut random = Random::new(1);
        let mels = (0..batch * segments * model.mels * model.frames).map(|_| random.signed() as f32);
        let mels = MelBatch::new(mels.collect(), model.mels, model.frames)?;
        let token = |random: &mut Random| 4 + random.below(model.vocabulary - 4) as u32;
        let tokens = (0..batch).map(|_| (0..TOKENS).map(|_| token(&mut random)).collect());
        let tokens = tokens.collect();
        let mut captions = Vec::with_capacity(batch * CAPTION_DIM);
        for _ in 0..batch {
            let row: Vec<f64> = (0..CAPTION_DIM).map(|_| random.normal()).collect();
            let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
            captions.extend(row.into_iter().map(|x| (x / norm) as f32));
        }
        let captions = hark_nearest::Embeddings::new(captions, CAPTION_DIM)?;
        Ok(Self {
            mels,
            tokens,
            captions,
        })
    }
}

pub(crate) fn step(args: &Args) -> Measured {
    let threads = args.threads.count().get();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    pool.install(|| steps(args, threads))
}

fn steps(args: &Args, threads: usize) -> Measured {
    let (batch, segments) = (args.batch as usize, args.segments as usize);
    let model = args.size.model();
    ensure!(
        args.inputs.is_none() || segments == 1,
        "--inputs has one segment for each clip"
    );
    let compute = Compute::on(args.device, threads)?;
    let inputs = match &args.inputs {
        Some(folder) => Inputs::read(folder, batch, &model)?,
        None => Inputs::random(batch, segments, &model)?,
    };
    let mut network = model.network(args.weights.as_deref(), &compute)?;
    network.set_arithmetic(args.precision.on(args.device, &compute)?);
    let options = step::Options {
        chunk: args.chunk,
        gradient_checkpointing: args.gradient_checkpointing,
        loss_scale: None,
    };
    let objective = ObjectiveRecipe::default();
    let objective = objective.objective(objective.relevance_function()?, 0.0);
    let mut optimizer = AdamW::new(AdamWConfig::default());
    let clips: Vec<u32> = (0..batch as u32).collect();
    let targets = objective.targets(&clips, Some(inputs.captions.view()))?;
    let (mut seconds, mut losses, mut norms) = (Vec::new(), Vec::new(), Vec::new());
    for nth in 0..args.steps {
        let start = Instant::now();
        let training =
            (!args.without_dropout).then(|| Training::new(u64::from(nth), (0..batch as u64).collect()));
        let audio = AudioInput::LogMels {
            mels: &inputs.mels,
            segments: &vec![segments; batch],
        };
        let text = TextInput::Tokens(TokenBatch::new(inputs.tokens.iter().map(Vec::as_slice))?);
        let found = step::gradients(
            &network,
            &objective,
            &audio,
            &text,
            &targets,
            training.as_ref(),
            &options,
        )?;
        let (loss, norm) = found.loss_and_norm();
        norms.push(norm);
        let scale = optimizer::clip_factor(norm, 1.0);
        network = optimizer.step(network, &found.gradients, scale, &|_| model.learning_rate)?;
        // What was asked of a device is done when this returns.
        compute.device().sync().map_err(|error| anyhow!("{error:?}"))?;
        seconds.push(start.elapsed().as_secs_f64());
        losses.push(loss);
    }
    // The first step allocates the optimizer's moments.
    let counted = if seconds.len() > 1 {
        &seconds[1..]
    } else {
        &seconds
    };
    Ok(json!({
        "seconds": counted, "first_step_seconds": seconds[0], "losses": losses, "norms": norms, "count": batch,
        "flops": model.flops(&inputs.tokens, segments, !args.without_dropout), "threads": threads, "device": args.device,
        "peak_memory_bytes": memory("VmHWM"),
    }))
}
