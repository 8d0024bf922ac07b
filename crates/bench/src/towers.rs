//! Audio towers: clips per second of PaSST-S and MN (`bench/rows/passt.py`, `bench/rows/mn.py`).

use anyhow::{Result, ensure};
use hark_audio::MelConfig;
use hark_encode::card::{AudioCard, ClipLength};
use hark_encode::checkpoint::Checkpoint;
use hark_encode::dual::{Side, SideConfig};
use hark_encode::model::{AudioEncoder, EVERYDAY, ModelFiles};
use hark_encode::towers::mn::{MnConfig, Output};
use hark_encode::towers::passt::PasstConfig;
use hark_encode::towers::{AudioConfig, AudioTower, MelBatch, Tower};
use hark_encode::weights::TensorSource;
use hark_encode::{Compute, DeviceName, Precision};
use hark_work::random::Random;
use serde_json::json;

use crate::measured::{FileArgs, RepeatArgs, read_rows};
use crate::{Measured, ThreadArgs, flops};

/// A log-mel of 10 s: bands and frames.
const MELS: usize = 128;
const FRAMES: usize = 1000;

/// What is computed, and how.
#[derive(Debug, clap::Args)]
struct ClipArgs {
    /// Clips to compute
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    clips: u32,
    /// Clips in a batch; a batch is computed on one thread
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// Bits of the transformers' weights
    #[arg(long, default_value = "f32")]
    precision: Precision,
    /// Device to compute on
    #[arg(long, value_name = "NAME", default_value = "cpu")]
    device: DeviceName,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    repeat: RepeatArgs,
    #[command(flatten)]
    threads: ThreadArgs,
}

impl ClipArgs {
    fn compute(&self) -> Result<Compute> {
        Ok(Compute::on(self.device, self.threads.count().get())?.with_precision(self.precision))
    }

    /// The tower behind PaSST's front end.
    fn encoder(&self, network: AudioConfig) -> Result<AudioEncoder> {
        let compute = self.compute()?;
        let Some(path) = &self.files.weights else {
            return Ok(AudioEncoder::untrained(network, 1, &compute)?);
        };
        let side = SideConfig {
            network,
            projection: Vec::new(),
        };
        let weights = Checkpoint::open(path)?;
        let source = TensorSource::new(&weights, "", compute.device());
        let mut built: Side<AudioTower> = Side::build(&side, &source, &source)?;
        built.tower.pack(compute.precision())?;
        let card = AudioCard {
            side,
            front_end: MelConfig::default(),
            segment_seconds: 10.0,
            clip: ClipLength::Full,
            labels: Vec::new(),
        };
        Ok(AudioEncoder::new(built, card, &compute)?)
    }

    /// Log-mels in batches.
    fn batches(&self) -> Result<Vec<MelBatch>> {
        let clips = self.clips as usize;
        let values = match &self.files.inputs {
            Some(path) => {
                let matrix = read_rows(path, clips)?;
                ensure!(
                    matrix.dim() == MELS * FRAMES,
                    "rows of {} numbers, needed {MELS} bands x {FRAMES} frames",
                    matrix.dim()
                );
                matrix.as_slice().to_vec()
            }
            None => noise(clips * MELS * FRAMES),
        };
        let batches = values.chunks(self.batch as usize * MELS * FRAMES);
        Ok(batches
            .map(|batch| MelBatch::new(batch.to_vec(), MELS, FRAMES))
            .collect::<Result<_, _>>()?)
    }

    /// Times features of all clips, of log-mels that are ready beforehand. `flops` are those of one clip.
    fn time(&self, encoder: &AudioEncoder, flops: Option<f64>) -> Measured {
        let batches = self.batches()?;
        let (seconds, features) = self.repeat.time(|| Ok(encoder.features_of_all(&batches)?))?;
        let features = features.concat();
        self.files
            .write(&features, features.len() / self.clips as usize)?;
        Ok(json!({
            "seconds": seconds, "count": self.clips, "flops": flops.map(|flops| flops * f64::from(self.clips)),
            "batch": self.batch, "threads": self.threads.count(),
        }))
    }
}

fn noise(count: usize) -> Vec<f32> {
    let mut random = Random::new(1);
    (0..count).map(|_| random.signed() as f32).collect()
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  hark-bench passt --clips 16 --threads 2")]
pub(crate) struct PasstArgs {
    #[command(flatten)]
    clips: ClipArgs,
}

pub(crate) fn passt(args: &PasstArgs) -> Measured {
    let config = PasstConfig::small();
    let flops = flops::passt(&config, config.rows(), config.columns_of(FRAMES));
    let encoder = args.clips.encoder(AudioConfig::Passt(config))?;
    args.clips.time(&encoder, Some(flops))
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
    let encoder = match args.width {
        Some(width) => {
            let mut config = MnConfig::of_width(width);
            config.output = Output::Classes;
            args.clips.encoder(AudioConfig::Mn(config))?
        }
        None => AudioEncoder::open(ModelFiles::BuiltIn(&EVERYDAY), &args.clips.compute()?)?,
    };
    args.clips.time(&encoder, None)
}
