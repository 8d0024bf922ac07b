//! An MN for embedding on a CPU: norms folded into the convolutions, maps with the channels of a place side by side.
//!
//! A map is `[places, channels]`, places being bands times frames in the order of bands. A convolution of 1 x 1 is then one
//! matrix product, and a depthwise one adds rows of numbers. One segment at a time, on the calling thread.

use hark_kernels::{Matrix, Packed, Precision, Start, product_packed_here};

use super::kernels::{self, Activation, Convolution};
use super::{Conv, LAYOUT, MAX_FRAMES, Mn, Output, STEM_SHAPE, Squeeze, adds_input};
use crate::Error;
use crate::linear::Linear;
use crate::tensors::numbers;
use crate::towers::{Inference, MelBatch};
use crate::weights::transposed;

/// The network, folded.
#[derive(Debug)]
pub(super) struct FoldedMn {
    /// `[9, channels]`, and the bias.
    stem: (Vec<f32>, Vec<f32>),
    blocks: Vec<FoldedBlock>,
    last: Dense,
    classifier: Option<[Dense; 2]>,
    mels: usize,
    output: Output,
}

#[derive(Debug)]
struct FoldedBlock {
    expand: Option<Dense>,
    /// `[kernel², channels]`, and the bias.
    depthwise: (Vec<f32>, Vec<f32>),
    squeeze: Option<[Dense; 2]>,
    project: Dense,
    adds_input: bool,
}

/// A matrix `[input, output]` and a bias.
#[derive(Debug)]
struct Dense {
    weight: Packed,
    bias: Vec<f32>,
}

/// A map in memory.
struct Map {
    values: Vec<f32>,
    height: usize,
    width: usize,
}

impl Dense {
    /// A linear layer, stored as `[input, output]`.
    fn linear(layer: &Linear, precision: Precision) -> Self {
        let [input, output] = layer.weight.val().dims();
        let weight = numbers(layer.weight.val().inner());
        let bias = layer.bias.as_ref().map(|bias| numbers(bias.val().inner()));
        Self {
            weight: Packed::new(Matrix::new(&weight, input, output, output), precision),
            bias: bias.unwrap_or_else(|| vec![0.0; output]),
        }
    }

    /// A convolution of 1 x 1, stored as `[output, input]`.
    fn pointwise(conv: &Conv, precision: Precision) -> Self {
        let input = conv.weight.dims()[1];
        let (weight, bias) = fold(conv);
        let matrix = Matrix::new(&weight, bias.len(), input, input);
        Self {
            weight: Packed::new(matrix.transposed(), precision),
            bias,
        }
    }

    fn output(&self) -> usize {
        self.bias.len()
    }

    /// Rows `[n, input]` to `[n, output]`, then bias and activation.
    fn forward(&self, rows: &[f32], activation: Activation) -> Vec<f32> {
        let input = self.weight.rows();
        let rows = Matrix::new(rows, rows.len() / input, input, input);
        let mut out = product_packed_here(rows, &self.weight, Start::Row(&self.bias));
        kernels::activate(&mut out, activation);
        out
    }
}

/// A convolution's weights times its norm's scale, row by row, and what is added.
fn fold(conv: &Conv) -> (Vec<f32>, Vec<f32>) {
    let mut weight = numbers(conv.weight.val().inner());
    let norm = &conv.norm;
    let scale = numbers(norm.scale.val().inner());
    let shift = numbers(norm.shift.val().inner());
    let mean = numbers(norm.mean.value_sync().inner());
    let variance = numbers(norm.variance.value_sync().inner());
    let row = weight.len() / scale.len();
    let mut bias = Vec::with_capacity(scale.len());
    for (channel, row) in weight.chunks_exact_mut(row).enumerate() {
        let factor =
            f64::from(scale[channel]) / (f64::from(variance[channel]) + f64::from(super::EPSILON)).sqrt();
        for weight in row {
            *weight = (f64::from(*weight) * factor) as f32;
        }
        bias.push((f64::from(shift[channel]) - f64::from(mean[channel]) * factor) as f32);
    }
    (weight, bias)
}

/// Weights of a convolution with one input for each channel, `[kernel², channels]`, and its bias.
fn fold_depthwise(conv: &Conv) -> (Vec<f32>, Vec<f32>) {
    let (weight, bias) = fold(conv);
    let taps = weight.len() / bias.len();
    (transposed(&weight, taps), bias)
}

impl FoldedMn {
    pub(super) fn new(mn: &Mn, precision: Precision) -> Self {
        let linear = |layer: &Linear| Dense::linear(layer, precision);
        let pointwise = |conv: &Conv| Dense::pointwise(conv, precision);
        let squeeze = |squeeze: &Squeeze| [linear(&squeeze.reduce), linear(&squeeze.restore)];
        let mut input = mn.config.stem;
        let blocks = mn.blocks.iter().zip(&LAYOUT).map(|(block, layout)| {
            let project = pointwise(&block.project);
            let adds_input = adds_input(layout, input, project.output());
            input = project.output();
            FoldedBlock {
                expand: block.expand.as_ref().map(pointwise),
                depthwise: fold_depthwise(&block.depthwise),
                squeeze: block.squeeze.as_ref().map(squeeze),
                project,
                adds_input,
            }
        });
        Self {
            blocks: blocks.collect(),
            stem: fold_depthwise(&mn.stem),
            last: pointwise(&mn.last),
            classifier: mn
                .classifier
                .as_ref()
                .map(|classifier| [linear(&classifier.hidden), linear(&classifier.output)]),
            mels: mn.config.mels,
            output: mn.config.output,
        }
    }

    fn segment(&self, log_mel: &[f32], frames: usize) -> Vec<f32> {
        let mut map = self.stem(log_mel, frames);
        for (block, layout) in self.blocks.iter().zip(&LAYOUT) {
            map = block.forward(&map, layout);
        }
        let values = self.last.forward(&map.values, Activation::HardSwish);
        let features = means(&values, self.last.output());
        let classes = self.classifier.as_ref().map(|[hidden, output]| {
            let mut classes = output.forward(
                &hidden.forward(&features, Activation::HardSwish),
                Activation::None,
            );
            for x in &mut classes {
                *x = sigmoid(*x);
            }
            classes
        });
        match (self.output, classes) {
            (Output::Classes, Some(classes)) => classes,
            (Output::Both, Some(mut classes)) => {
                classes.extend(features);
                classes
            }
            _ => features,
        }
    }

    fn stem(&self, log_mel: &[f32], frames: usize) -> Map {
        let (weight, bias) = &self.stem;
        let convolution = Convolution {
            height: self.mels,
            width: frames,
            channels: bias.len(),
            spread: true,
            kernel: STEM_SHAPE.kernel,
            stride: STEM_SHAPE.stride,
        };
        let [height, width] = convolution.output();
        Map {
            values: convolution.forward(log_mel, weight, bias, Activation::HardSwish),
            height,
            width,
        }
    }
}

impl FoldedBlock {
    fn forward(&self, input: &Map, layout: &super::BlockLayout) -> Map {
        let activation = layout.activation;
        let expanded = self
            .expand
            .as_ref()
            .map(|expand| expand.forward(&input.values, activation));
        let (weight, bias) = &self.depthwise;
        let depthwise = Convolution {
            height: input.height,
            width: input.width,
            channels: bias.len(),
            spread: false,
            kernel: layout.kernel,
            stride: layout.stride,
        };
        let expanded = expanded.as_ref().unwrap_or(&input.values);
        let mut values = depthwise.forward(expanded, weight, bias, activation);
        if let Some([reduce, restore]) = &self.squeeze {
            let means = means(&values, bias.len());
            let mut factors = restore.forward(&reduce.forward(&means, Activation::Relu), Activation::None);
            for x in &mut factors {
                *x = sigmoid(*x);
            }
            kernels::multiply(&mut values, &factors);
        }
        let mut values = self.project.forward(&values, Activation::None);
        if self.adds_input {
            for (x, input) in values.iter_mut().zip(&input.values) {
                *x += input;
            }
        }
        let [height, width] = depthwise.output();
        Map {
            values,
            height,
            width,
        }
    }
}

impl Inference<MelBatch> for FoldedMn {
    fn forward(&self, batch: &MelBatch) -> Result<Vec<f32>, Error> {
        batch.check(self.mels, MAX_FRAMES)?;
        Ok((0..batch.len())
            .flat_map(|nth| self.segment(batch.segment(nth), batch.frames()))
            .collect())
    }
}

/// The mean of rows.
fn means(rows: &[f32], channels: usize) -> Vec<f32> {
    let mut sums = vec![0.0_f32; channels];
    let mut totals = vec![0.0_f64; channels];
    let count = rows.len() / channels;
    // Sums of some rows at a time, so that they are as exact as those of the reference.
    for piece in rows.chunks(channels * 64) {
        sums.fill(0.0);
        for row in piece.chunks_exact(channels) {
            for (sum, x) in sums.iter_mut().zip(row) {
                *sum += x;
            }
        }
        for (total, &sum) in totals.iter_mut().zip(&sums) {
            *total += f64::from(sum);
        }
    }
    totals.iter().map(|total| (total / count as f64) as f32).collect()
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}
