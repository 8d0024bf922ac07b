//! MN: the small audio taggers of EfficientAT (Schmid et al. 2023), MobileNetV3 over log-mels.
//!
//! In: log-mels `[segments, mels, frames]` of any number of frames. Out: `[segments, width]`, by [`Output`] the mean of
//! the last map over bands and frames, the probabilities of the classes, or both.
//!
//! ```text
//! stem     convolution 3 x 3, stride 2, norm, hard-swish
//! block    1 x 1 to `expanded` channels, norm, activation   (absent where there are as many already)
//!          depthwise k x k, norm, activation
//!          squeeze-and-excitation                           (in some)
//!          1 x 1 to `output` channels, norm; plus the input where the shapes agree
//! last     convolution 1 x 1, norm, hard-swish; mean over bands and frames: the features
//! classes  linear, hard-swish, linear, sigmoid
//! ```
//!
//! The layout of the fifteen blocks is MobileNetV3-large's (`LAYOUT`); a configuration says how many channels they have.
//! Norms are batch norms. A training takes the statistics of its batch and keeps running means, or leaves those of the
//! checkpoint as they are ([`Statistics`]). Embedding uses the running means, folded into the convolutions (`folded.rs`).

mod folded;
#[cfg(test)]
mod golden;
mod kernels;

use burn::module::{Module, Param, RunningState};
use burn::tensor::activation::{relu, sigmoid};
use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Tensor, TensorData};
use hark_kernels::Precision;
use serde::{Deserialize, Serialize};

use self::kernels::Activation;
use super::{Inference, MelBatch, Tower};
use crate::Error;
use crate::dropout::Training;
use crate::linear::Linear;
use crate::ops;
use crate::weights::{Init, TensorSource, linear_of_rows};

/// The longest input that is accepted, in frames.
const MAX_FRAMES: usize = 1 << 16;
/// Added to variances.
const EPSILON: f32 = 1e-3;
/// The share of a batch in the running means.
const MOMENTUM: f32 = 0.01;

/// What is the same in blocks of all widths.
struct BlockLayout {
    kernel: usize,
    stride: usize,
    squeeze: bool,
    activation: Activation,
    /// Channels at width 1: between the convolutions, and behind them.
    expanded: usize,
    output: usize,
}

const fn block(
    kernel: usize,
    expanded: usize,
    output: usize,
    squeeze: bool,
    activation: Activation,
    stride: usize,
) -> BlockLayout {
    BlockLayout {
        kernel,
        stride,
        squeeze,
        activation,
        expanded,
        output,
    }
}

/// The blocks of MobileNetV3-large.
const LAYOUT: [BlockLayout; 15] = [
    block(3, 16, 16, false, Activation::Relu, 1),
    block(3, 64, 24, false, Activation::Relu, 2),
    block(3, 72, 24, false, Activation::Relu, 1),
    block(5, 72, 40, true, Activation::Relu, 2),
    block(5, 120, 40, true, Activation::Relu, 1),
    block(5, 120, 40, true, Activation::Relu, 1),
    block(3, 240, 80, false, Activation::HardSwish, 2),
    block(3, 200, 80, false, Activation::HardSwish, 1),
    block(3, 184, 80, false, Activation::HardSwish, 1),
    block(3, 184, 80, false, Activation::HardSwish, 1),
    block(3, 480, 112, true, Activation::HardSwish, 1),
    block(3, 672, 112, true, Activation::HardSwish, 1),
    block(5, 672, 160, true, Activation::HardSwish, 2),
    block(5, 960, 160, true, Activation::HardSwish, 1),
    block(5, 960, 160, true, Activation::HardSwish, 1),
];

/// Channels of the stem at width 1.
const STEM: usize = 16;
/// Width of the classifier's inner layer at width 1.
const HIDDEN: usize = 1280;
/// Classes of AudioSet.
const AUDIOSET: usize = 527;

/// The sizes of an MN.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", try_from = "Sizes")]
pub struct MnConfig {
    /// Mel bands of the input.
    pub mels: usize,
    /// Channels of the stem.
    pub stem: usize,
    /// Channels of each block: between its convolutions, and behind them.
    pub blocks: Vec<[usize; 2]>,
    /// Channels of the last convolution: the length of the features.
    pub last: usize,
    /// Width of the classifier's inner layer.
    pub hidden: usize,
    /// Classes; 0 where there is no classifier.
    pub classes: usize,
    /// What the tower gives.
    pub output: Output,
    /// Which statistics norms use in a training.
    pub statistics: Statistics,
}

/// A configuration as people write it: `width` stands for all channels of a published network.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Sizes {
    width: Option<f64>,
    mels: Option<usize>,
    stem: Option<usize>,
    blocks: Option<Vec<[usize; 2]>>,
    last: Option<usize>,
    hidden: Option<usize>,
    classes: Option<usize>,
    #[serde(default)]
    output: Output,
    #[serde(default)]
    statistics: Statistics,
}

impl TryFrom<Sizes> for MnConfig {
    type Error = String;

    fn try_from(sizes: Sizes) -> Result<Self, String> {
        let width = sizes.width.unwrap_or(1.0);
        if !(0.05..=16.0).contains(&width) {
            return Err(format!("width is {width}, it can be 0.05 to 16"));
        }
        let published = Self::of_width(width);
        Ok(Self {
            mels: sizes.mels.unwrap_or(published.mels),
            stem: sizes.stem.unwrap_or(published.stem),
            blocks: sizes.blocks.unwrap_or(published.blocks),
            last: sizes.last.unwrap_or(published.last),
            hidden: sizes.hidden.unwrap_or(published.hidden),
            classes: sizes.classes.unwrap_or(published.classes),
            output: sizes.output,
            statistics: sizes.statistics,
        })
    }
}

/// What the tower gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Output {
    /// The features before the classifier.
    #[default]
    Features,
    /// The probability of each class.
    Classes,
    /// The probabilities, then the features.
    Both,
}

/// Which statistics norms use in a training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Statistics {
    /// Those of the batch; running means of them are kept for embedding.
    #[default]
    Batch,
    /// The running means, which stay as they are: for small batches.
    Frozen,
}

impl Activation {
    fn forward<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        match self {
            Self::None => x,
            Self::Relu => relu(x),
            Self::HardSwish => hard_swish(x),
        }
    }
}

/// `channels` times `width`, as the reference rounds it: to the nearest multiple of 8, and up where that loses more than a tenth.
fn divisible(channels: f64) -> usize {
    let nearest = (((channels + 4.0) / 8.0).floor() * 8.0).max(8.0);
    let rounded = if nearest < 0.9 * channels {
        nearest + 8.0
    } else {
        nearest
    };
    rounded as usize
}

/// Channels between the two layers of a squeeze-and-excitation.
fn squeezed(channels: usize) -> usize {
    divisible((channels / 4) as f64)
}

impl MnConfig {
    /// The published network of this width, over 128 mel bands, with the classes of AudioSet.
    pub fn of_width(width: f64) -> Self {
        let scaled = |channels: usize| divisible(channels as f64 * width);
        let blocks: Vec<[usize; 2]> = LAYOUT
            .iter()
            .map(|block| [scaled(block.expanded), scaled(block.output)])
            .collect();
        Self {
            mels: 128,
            stem: scaled(STEM),
            last: 6 * blocks.last().map_or(0, |&[_, output]| output),
            blocks,
            hidden: scaled(HIDDEN),
            classes: AUDIOSET,
            output: Output::default(),
            statistics: Statistics::default(),
        }
    }

    fn check(&self) -> Result<(), String> {
        if self.blocks.len() != LAYOUT.len() {
            return Err(format!("{} blocks, not {}", self.blocks.len(), LAYOUT.len()));
        }
        let blocks = self.blocks.iter().flatten().map(|&size| ("blocks", size));
        let sizes = [("mels", self.mels), ("stem", self.stem), ("last", self.last)];
        for (name, size) in sizes.into_iter().chain(blocks) {
            if size == 0 || size > 1 << 14 {
                return Err(format!("{name} is {size}"));
            }
        }
        if self.classes > 0 && (self.hidden == 0 || self.hidden.max(self.classes) > 1 << 20) {
            return Err(format!(
                "{} classes behind a layer of {}",
                self.classes, self.hidden
            ));
        }
        if self.classes == 0 && self.output != Output::Features {
            return Err("its output is classes, and it has none".to_owned());
        }
        Ok(())
    }

    fn width(&self) -> usize {
        match self.output {
            Output::Features => self.last,
            Output::Classes => self.classes,
            Output::Both => self.classes + self.last,
        }
    }
}

impl std::fmt::Display for MnConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MN, features of {} numbers", self.last)?;
        if self.classes > 0 {
            write!(f, ", {} classes", self.classes)?;
        }
        Ok(())
    }
}

/// The network.
#[derive(Module, Debug)]
pub struct Mn {
    stem: Conv,
    blocks: Vec<Block>,
    last: Conv,
    classifier: Option<Classifier>,
    #[module(skip)]
    config: MnConfig,
}

/// A convolution without a bias, and its norm.
#[derive(Module, Debug)]
struct Conv {
    /// `[output, input / groups, kernel, kernel]`.
    weight: Param<Tensor<4>>,
    norm: Norm,
}

/// A batch norm.
#[derive(Module, Debug)]
struct Norm {
    scale: Param<Tensor<1>>,
    shift: Param<Tensor<1>>,
    mean: RunningState<Tensor<1>>,
    variance: RunningState<Tensor<1>>,
}

#[derive(Module, Debug)]
struct Block {
    expand: Option<Conv>,
    depthwise: Conv,
    squeeze: Option<Squeeze>,
    project: Conv,
}

/// Squeeze-and-excitation: channels times what their means over bands and frames say.
#[derive(Module, Debug)]
struct Squeeze {
    reduce: Linear,
    restore: Linear,
}

#[derive(Module, Debug)]
struct Classifier {
    hidden: Linear,
    output: Linear,
}

/// How a convolution is applied.
#[derive(Clone, Copy)]
struct Shape {
    kernel: usize,
    stride: usize,
    groups: usize,
}

const POINTWISE: Shape = Shape {
    kernel: 1,
    stride: 1,
    groups: 1,
};
const STEM_SHAPE: Shape = Shape {
    kernel: 3,
    stride: 2,
    groups: 1,
};

impl Conv {
    /// From `AT.0.weight` and the norm `AT.1`.
    fn build(source: &TensorSource<'_>, input: usize, output: usize, shape: Shape) -> Result<Self, Error> {
        let Shape { kernel, groups, .. } = shape;
        let fan = (kernel * kernel * output / groups) as f32;
        let size = [output, input / groups, kernel, kernel];
        Ok(Self {
            weight: source.parameter("0.weight", size, Init::Normal((2.0 / fan).sqrt()))?,
            norm: Norm::build(&source.at("1"), output)?,
        })
    }

    fn forward(&self, x: Tensor<4>, shape: Shape, batch_statistics: bool) -> Tensor<4> {
        let padding = (shape.kernel - 1) / 2;
        let options = ConvOptions::new([shape.stride; 2], [padding; 2], [1, 1], shape.groups);
        let x = conv2d(x, self.weight.val(), None, options);
        self.norm.forward(x, batch_statistics)
    }
}

impl Norm {
    fn build(source: &TensorSource<'_>, channels: usize) -> Result<Self, Error> {
        let state = |name: &str, init| {
            let numbers = source.numbers(name, &[channels], init)?;
            let tensor = Tensor::from_data(TensorData::new(numbers, [channels]), source.device());
            Ok::<_, Error>(RunningState::new(tensor))
        };
        Ok(Self {
            scale: source.parameter("weight", [channels], Init::Ones)?,
            shift: source.parameter("bias", [channels], Init::Zeros)?,
            mean: state("running_mean", Init::Zeros)?,
            variance: state("running_var", Init::Ones)?,
        })
    }

    fn forward(&self, x: Tensor<4>, batch_statistics: bool) -> Tensor<4> {
        let [items, channels, height, width] = x.dims();
        let across = |numbers: Tensor<1>| numbers.reshape([1, channels, 1, 1]);
        let (mean, variance) = if batch_statistics {
            let count = items * height * width;
            let per_channel = |x: Tensor<4>| x.mean_dim(3).mean_dim(2).mean_dim(0);
            let mean = per_channel(x.clone());
            let centred = x.clone() - mean.clone();
            let variance = per_channel(centred.clone() * centred);
            // The running variance is that of the population, as far as a batch tells it.
            let unbiased = count as f32 / (count.max(2) - 1) as f32;
            keep(&self.mean, mean.clone().reshape([channels]), 1.0);
            keep(&self.variance, variance.clone().reshape([channels]), unbiased);
            (mean, variance)
        } else {
            (across(self.mean.value_sync()), across(self.variance.value_sync()))
        };
        let scale = across(self.scale.val()) / (variance + EPSILON).sqrt();
        (x - mean) * scale + across(self.shift.val())
    }
}

/// Takes a batch's statistic, times `factor`, into the running mean.
fn keep(state: &RunningState<Tensor<1>>, of_batch: Tensor<1>, factor: f32) {
    let before = state.value_sync();
    let of_batch = of_batch.detach() * factor;
    state.update(before * (1.0 - MOMENTUM) + of_batch * MOMENTUM);
    // What is saved is the state's value, which a mere update does not change yet.
    state.value_sync();
}

impl Squeeze {
    fn build(source: &TensorSource<'_>, channels: usize) -> Result<Self, Error> {
        let inner = squeezed(channels);
        Ok(Self {
            reduce: linear(source, "fc1", channels, inner)?,
            restore: linear(source, "fc2", inner, channels)?,
        })
    }

    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let [items, channels, ..] = x.dims();
        let means = mean_over_map(x.clone());
        let factors = sigmoid(ops::linear(relu(ops::linear(means, &self.reduce)), &self.restore));
        x * factors.reshape([items, channels, 1, 1])
    }
}

/// `NAME.weight` and `NAME.bias`, which begin as the reference's do.
fn linear(source: &TensorSource<'_>, name: &str, input: usize, output: usize) -> Result<Linear, Error> {
    let rows = source.numbers(&format!("{name}.weight"), &[output, input], Init::Normal(0.01))?;
    let bias = source.numbers(&format!("{name}.bias"), &[output], Init::Zeros)?;
    Ok(linear_of_rows(&rows, bias, input, source.device()))
}

/// `[items, channels]`.
fn mean_over_map(x: Tensor<4>) -> Tensor<2> {
    let [items, channels, ..] = x.dims();
    x.mean_dim(3).mean_dim(2).reshape([items, channels])
}

fn hard_swish<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    x.clone() * (x + 3.0).clamp(0.0, 6.0) / 6.0
}

impl Block {
    /// From `block.0`, `block.1`, ...: those layers that the block has, in their order.
    fn build(source: &TensorSource<'_>, layout: &BlockLayout, channels: [usize; 3]) -> Result<Self, Error> {
        let [input, expanded, output] = channels;
        let mut next = (0..).map(|nth| source.at(&format!("block.{nth}")));
        let mut next = || {
            next.next()
                .unwrap_or_else(|| unreachable!("the numbers do not end"))
        };
        let expand = (expanded != input).then(|| Conv::build(&next(), input, expanded, POINTWISE));
        let expand = expand.transpose()?;
        let depthwise = Conv::build(&next(), expanded, expanded, depthwise(layout, expanded))?;
        let squeeze = layout
            .squeeze
            .then(|| Squeeze::build(&next().at("conc_se_layers.0"), expanded));
        let squeeze = squeeze.transpose()?;
        Ok(Self {
            expand,
            depthwise,
            squeeze,
            project: Conv::build(&next(), expanded, output, POINTWISE)?,
        })
    }

    fn forward(
        &self,
        input: Tensor<4>,
        layout: &BlockLayout,
        [expanded, output]: [usize; 2],
        batch_statistics: bool,
    ) -> Tensor<4> {
        let act = |x| layout.activation.forward(x);
        let mut x = input.clone();
        if let Some(expand) = &self.expand {
            x = act(expand.forward(x, POINTWISE, batch_statistics));
        }
        let shape = depthwise(layout, expanded);
        x = act(self.depthwise.forward(x, shape, batch_statistics));
        if let Some(squeeze) = &self.squeeze {
            x = squeeze.forward(x);
        }
        x = self.project.forward(x, POINTWISE, batch_statistics);
        if adds_input(layout, input.dims()[1], output) {
            x = x + input;
        }
        x
    }
}

fn depthwise(layout: &BlockLayout, channels: usize) -> Shape {
    Shape {
        kernel: layout.kernel,
        stride: layout.stride,
        groups: channels,
    }
}

/// Whether a block adds its input to its output.
fn adds_input(layout: &BlockLayout, input: usize, output: usize) -> bool {
    layout.stride == 1 && input == output
}

impl Mn {
    /// The same network with another output.
    pub(crate) fn with_output(mut self, output: Output) -> Self {
        self.config.output = output;
        self
    }
}

impl Tower for Mn {
    type Config = MnConfig;
    type Input = MelBatch;

    fn build(config: &MnConfig, source: &TensorSource<'_>) -> Result<Self, Error> {
        config
            .check()
            .map_err(|what| Error::Sizes { tower: "MN", what })?;
        let stem = Conv::build(&source.at("features.0"), 1, config.stem, STEM_SHAPE)?;
        let mut input = config.stem;
        let mut blocks = Vec::new();
        for (nth, (layout, &[expanded, output])) in LAYOUT.iter().zip(&config.blocks).enumerate() {
            let source = source.at(&format!("features.{}", nth + 1));
            blocks.push(Block::build(&source, layout, [input, expanded, output])?);
            input = output;
        }
        let last = source.at(&format!("features.{}", LAYOUT.len() + 1));
        let last = Conv::build(&last, input, config.last, POINTWISE)?;
        let classifier = (config.classes > 0).then(|| {
            let source = source.at("classifier");
            Ok::<_, Error>(Classifier {
                hidden: linear(&source, "2", config.last, config.hidden)?,
                output: linear(&source, "5", config.hidden, config.classes)?,
            })
        });
        Ok(Self {
            stem,
            blocks,
            last,
            classifier: classifier.transpose()?,
            config: config.clone(),
        })
    }

    fn width(&self) -> usize {
        self.config.width()
    }

    fn max_input(&self) -> [usize; 2] {
        [self.config.mels, MAX_FRAMES]
    }

    fn forward(&self, batch: &MelBatch, training: Option<&Training>) -> Result<Tensor<2>, Error> {
        batch.check(self.config.mels, MAX_FRAMES)?;
        let batch_statistics = training.is_some() && self.config.statistics == Statistics::Batch;
        let mut x = batch.tensor(&self.stem.weight.val().device());
        x = hard_swish(self.stem.forward(x, STEM_SHAPE, batch_statistics));
        for ((block, layout), &channels) in self.blocks.iter().zip(&LAYOUT).zip(&self.config.blocks) {
            x = block.forward(x, layout, channels, batch_statistics);
        }
        let x = hard_swish(self.last.forward(x, POINTWISE, batch_statistics));
        let features = mean_over_map(x);
        let classes = self.classifier.as_ref().map(|classifier| {
            let hidden = hard_swish(ops::linear(features.clone(), &classifier.hidden));
            sigmoid(ops::linear(hidden, &classifier.output))
        });
        Ok(match (self.config.output, classes) {
            (Output::Classes, Some(classes)) => classes,
            (Output::Both, Some(classes)) => Tensor::cat(vec![classes, features], 1),
            _ => features,
        })
    }

    fn inference(&self, precision: Precision) -> Option<Box<dyn Inference<MelBatch>>> {
        Some(Box::new(folded::FoldedMn::new(self, precision)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_widths_have_the_published_channels() {
        let mn04 = MnConfig::of_width(0.4);
        assert_eq!((mn04.stem, mn04.last, mn04.hidden), (8, 384, 512));
        assert_eq!(mn04.blocks[10], [192, 48]);
        let mn10 = MnConfig::of_width(1.0);
        assert_eq!((mn10.stem, mn10.last, mn10.hidden), (16, 960, 1280));
        assert_eq!(mn10.blocks[11], [672, 112]);
    }

    #[test]
    fn a_width_stands_for_all_channels() {
        let read = |json: &str| serde_json::from_str::<MnConfig>(json);
        assert_eq!(read(r#"{"width": 0.4}"#).unwrap(), MnConfig::of_width(0.4));
        let written = serde_json::to_string(&MnConfig::of_width(0.5)).unwrap();
        assert_eq!(read(&written).unwrap(), MnConfig::of_width(0.5));
        for wrong in [
            r#"{"width": 0}"#,
            r#"{"width": 1e9}"#,
            r#"{"widht": 1}"#,
            r#"{"output": "x"}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
