//! A small convolutional network over log-mels: the audio tower of trainings from nothing on a CPU.
//!
//! In: log-mels `[segments, mels, frames]` of any number of frames. Each stage is a convolution of 3 × 3 that halves bands
//! and frames, then ReLU. What is left of the bands becomes features of their frame, `[frames, channels * bands]`: which
//! bands sound tells kinds of sound apart, so that they are not averaged. A linear layer with ReLU stands behind it. Out:
//! `[segments, width]`, the sum of the mean and of the maximum over frames: how much there is of something, and whether
//! there is any.
//!
//! There is no batch normalisation: a clip's features do not depend on the other clips of the batch.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use serde::{Deserialize, Serialize};

use super::{MelBatch, Tower};
use crate::Error;
use crate::dropout::Training;
use crate::linear::Linear;
use crate::ops;
use crate::weights::{Init, TensorSource, linear_of_rows};

/// Side of every kernel.
const KERNEL: usize = 3;
/// The longest input that is accepted, in frames.
const MAX_FRAMES: usize = 1 << 16;

/// The sizes of a convolutional network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CnnConfig {
    /// Mel bands of the input.
    pub mels: usize,
    /// Channels of each stage.
    pub channels: Vec<usize>,
    /// Length of the vector.
    pub width: usize,
}

impl CnnConfig {
    /// Bands that are left behind the last stage.
    fn bands(&self) -> usize {
        self.channels.iter().fold(self.mels, |size, _| halved(size))
    }

    fn check(&self) -> Result<(), String> {
        let sizes = [("mels", self.mels), ("width", self.width)];
        let channels = self.channels.iter().map(|&size| ("channels", size));
        for (name, size) in sizes.into_iter().chain(channels) {
            if size == 0 || size > 1 << 14 {
                return Err(format!("{name} is {size}"));
            }
        }
        if self.channels.is_empty() || self.channels.len() > 16 {
            return Err(format!("{} stages", self.channels.len()));
        }
        Ok(())
    }
}

impl std::fmt::Display for CnnConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let channels: Vec<String> = self.channels.iter().map(ToString::to_string).collect();
        write!(
            f,
            "convolutional, {} channels, {} wide",
            channels.join("-"),
            self.width
        )
    }
}

/// What a stride of 2 leaves, with one place of padding at either end.
fn halved(size: usize) -> usize {
    (size + 2 - KERNEL) / 2 + 1
}

/// The network.
#[derive(Module, Debug)]
pub struct Cnn {
    stages: Vec<Stage>,
    gather: Linear,
    #[module(skip)]
    config: CnnConfig,
}

/// One convolution.
#[derive(Module, Debug)]
struct Stage {
    /// `[output, input, 3, 3]`.
    weight: Param<Tensor<4>>,
    /// `[output]`.
    bias: Param<Tensor<1>>,
}

impl Tower for Cnn {
    type Config = CnnConfig;
    type Input = MelBatch;

    fn build(config: &CnnConfig, source: &TensorSource<'_>) -> Result<Self, Error> {
        config.check().map_err(|what| Error::Sizes {
            tower: "convolutional network",
            what,
        })?;
        // He et al. 2015: the deviation that keeps the size of what goes through layers with ReLU.
        let start = |inputs: usize| Init::Normal((2.0 / inputs as f32).sqrt());
        let inputs = std::iter::once(&1).chain(&config.channels);
        let stages = inputs
            .zip(&config.channels)
            .enumerate()
            .map(|(nth, (&input, &output))| {
                let source = source.at(&format!("stages.{nth}"));
                let shape = [output, input, KERNEL, KERNEL];
                Ok::<_, Error>(Stage {
                    weight: source.parameter("weight", shape, start(input * KERNEL * KERNEL))?,
                    bias: source.parameter("bias", [output], Init::Zeros)?,
                })
            });
        let stages = stages.collect::<Result<Vec<_>, _>>()?;
        let input = config.channels.last().copied().unwrap_or(1) * config.bands();
        let rows = source.numbers("gather.weight", &[config.width, input], start(input))?;
        let bias = source.numbers("gather.bias", &[config.width], Init::Zeros)?;
        Ok(Self {
            stages,
            gather: linear_of_rows(&rows, bias, input, source.device()),
            config: config.clone(),
        })
    }

    fn width(&self) -> usize {
        self.config.width
    }

    fn max_input(&self) -> [usize; 2] {
        [self.config.mels, MAX_FRAMES]
    }

    fn forward(&self, batch: &MelBatch, _: Option<&Training>) -> Result<Tensor<2>, Error> {
        batch.check(self.config.mels, MAX_FRAMES)?;
        let device = self.gather.weight.val().device();
        let segments = batch.len();
        let mut x = batch.tensor(&device);
        for stage in &self.stages {
            x = ops::convolution(x, stage.weight.val(), stage.bias.val(), 2, 1);
        }
        let [_, channels, bands, frames] = x.dims();
        // [segments, channels, bands, frames] to [segments, frames, channels * bands].
        let x = x
            .reshape([segments, channels * bands, frames])
            .swap_dims(1, 2)
            .reshape([segments * frames, channels * bands]);
        let x = relu(ops::linear(x, &self.gather)).reshape([segments, frames, self.config.width]);
        let pooled = x.clone().mean_dim(1) + x.max_dim(1);
        Ok(pooled.squeeze_dim(1))
    }
}
