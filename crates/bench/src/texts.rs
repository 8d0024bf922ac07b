//! Texts through RoBERTa (`bench/rows/roberta.py`). Texts are tokens already.

use anyhow::Result;
use clap::ValueEnum;
use hark_encode::checkpoint::Checkpoint;
use hark_encode::dual::{Side, SideConfig};
use hark_encode::tokenize::Tokens;
use hark_encode::towers::roberta::RobertaConfig;
use hark_encode::towers::{TextConfig, TextTower, Tower};
use hark_encode::weights::{RandomInit, TensorSource, Weights};
use hark_encode::{Compute, Precision};
use hark_work::progress::no_progress;
use hark_work::random::Random;
use serde_json::json;

use crate::measured::{FileArgs, RepeatArgs, read_tokens};
use crate::{Measured, ThreadArgs, flops};

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Size {
    Base,
    Large,
}

impl Size {
    fn config(self) -> RobertaConfig {
        match self {
            Self::Base => RobertaConfig {
                width: 768,
                hidden: 3072,
                layers: 12,
                heads: 12,
                ..RobertaConfig::large()
            },
            Self::Large => RobertaConfig::large(),
        }
    }
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  hark-bench roberta --size base --texts 64 --batch 32 --threads 2")]
pub(crate) struct Args {
    #[arg(long)]
    size: Size,
    /// Texts to embed
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    texts: u32,
    /// Texts to embed at a time
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// Bits of the weights
    #[arg(long, default_value = "f32")]
    precision: Precision,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    repeat: RepeatArgs,
    #[command(flatten)]
    threads: ThreadArgs,
}

pub(crate) fn roberta(args: &Args) -> Measured {
    let config = args.size.config();
    let compute = Compute::cpu(args.threads.count().get()).with_precision(args.precision);
    let side = SideConfig {
        network: TextConfig::Roberta(config.clone()),
        projection: Vec::new(),
    };
    let weights: Box<dyn Weights> = match &args.files.weights {
        Some(path) => Box::new(Checkpoint::open(path)?),
        None => Box::new(RandomInit(1)),
    };
    let source = TensorSource::new(weights.as_ref(), "", compute.device());
    let mut side: Side<TextTower> = Side::build(&side, &source, &source)?;
    drop(weights);
    side.tower.pack(compute.precision())?;
    let mut texts: Vec<Tokens> = ids(args)?
        .into_iter()
        .map(|ids| Tokens { ids, cut: false })
        .collect();
    // As programs sort what they embed in batches; the results are in this order, too.
    texts.sort_by_key(|text| text.ids.len());
    let (seconds, features) = args.repeat.time(|| {
        let mut features = Vec::new();
        for batch in texts.chunks(args.batch as usize) {
            features.extend(side.token_features(batch, &compute, &no_progress)?);
        }
        Ok(features)
    })?;
    args.files.write(&features, config.width)?;
    let flops: f64 = texts
        .iter()
        .map(|text| flops::roberta(&config, text.ids.len()))
        .sum();
    Ok(json!({
        "seconds": seconds, "count": args.texts, "flops": flops, "batch": args.batch,
        "threads": args.threads.count(),
    }))
}

/// Captions of 8 to 30 tokens where no file has any.
fn ids(args: &Args) -> Result<Vec<Vec<u32>>> {
    if let Some(path) = &args.files.inputs {
        return read_tokens(path, args.texts as usize);
    }
    let mut random = Random::new(1);
    let text = |_| {
        let length = 8 + random.below(23);
        (0..length).map(|_| 4 + random.below(50_000) as u32).collect()
    };
    Ok((0..args.texts).map(text).collect())
}
