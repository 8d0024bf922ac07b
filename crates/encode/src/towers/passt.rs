//! PaSST, the patchout spectrogram transformer (Koutini et al. 2022): log-mel to one vector a segment.
//!
//! In: log-mels `[segments, mels, frames]`. The spectrogram is cut into patches of `patch` × `patch`, one every `stride`
//! in both directions; a patch becomes a token by one matrix product, and the vectors of its row (frequency) and column
//! (time) are added. In front stand a class and a distillation token with positions of their own. Out:
//! `[segments, width]`, the mean of these two tokens behind the blocks and the final norm.
//!
//! A segment that is shorter than the time table uses the table's start; one that is longer is refused. In training,
//! patchout leaves out whole columns and rows of the grid (structured) and single patches (unstructured), the same for all
//! segments of a batch: they are dropped before anything is computed for them.

use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor, TensorData};
use hark_kernels::Precision;
use serde::{Deserialize, Serialize};

use super::{MelBatch, Tower};
use crate::Error;
use crate::arithmetic::Arithmetic;
use crate::dropout::Training;
use crate::layer_norm::LayerNorm;
use crate::linear::Linear;
use crate::ops::{linear, norm};
use crate::recompute::Recompute;
use crate::transformer::{Block, BlockNames, BlockSizes, Norms, Sequences, Transformer};
use crate::weights::{Init, TensorSource, linear_of_rows, parameter, transposed};
use crate::weights_file::FilePart;
use hark_work::random::{Random, key};

/// The sizes of a PaSST.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PasstConfig {
    /// Mel bands of the input.
    pub mels: usize,
    /// Side of a patch.
    pub patch: usize,
    /// From one patch to the next, in bands and in frames.
    pub stride: usize,
    /// Rows of the time table: the longest input, in patches.
    pub columns: usize,
    /// Of a token's features.
    pub width: usize,
    /// Of the feed-forward parts' inside.
    pub hidden: usize,
    /// Blocks.
    pub layers: usize,
    /// Of the attention.
    pub heads: usize,
    /// Of the norms.
    pub epsilon: f64,
    /// What training leaves out.
    #[serde(default)]
    pub patchout: Patchout,
}

/// How much of the grid of patches a training step leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Patchout {
    /// Columns.
    #[serde(default)]
    pub time: usize,
    /// Rows.
    #[serde(default)]
    pub frequency: usize,
    /// Single patches, of what the other two leave.
    #[serde(default)]
    pub unstructured: usize,
}

impl PasstConfig {
    /// PaSST-S with stride 16 (`passt_s_p16_s16_128_ap468`), with the patchout of the paper's training.
    pub fn small() -> Self {
        Self {
            mels: 128,
            patch: 16,
            stride: 16,
            columns: 62,
            width: 768,
            hidden: 3072,
            layers: 12,
            heads: 12,
            epsilon: 1e-6,
            patchout: Patchout {
                time: 15,
                frequency: 2,
                unstructured: 0,
            },
        }
    }

    /// Rows of the grid.
    pub fn rows(&self) -> usize {
        patches(self.mels, self.patch, self.stride)
    }

    /// Columns of the grid of an input of this many frames.
    pub fn columns_of(&self, frames: usize) -> usize {
        patches(frames, self.patch, self.stride)
    }

    /// The largest number of frames whose columns all have a position.
    pub fn max_frames(&self) -> usize {
        // One more column would begin at `columns * stride`.
        self.columns * self.stride + self.patch - 1
    }

    /// That a network of these sizes can be built.
    ///
    /// # Errors
    /// What is wrong with which size.
    pub fn check(&self) -> Result<(), String> {
        let sizes = [
            ("mels", self.mels),
            ("patch", self.patch),
            ("stride", self.stride),
            ("columns", self.columns),
            ("width", self.width),
            ("hidden", self.hidden),
            ("layers", self.layers),
            ("heads", self.heads),
        ];
        for (name, size) in sizes {
            // Far above any model that exists, and small enough that products of two fit a machine word.
            if size == 0 || size > 1 << 20 {
                return Err(format!("{name} is {size}"));
            }
        }
        if self.patch > self.mels || self.patch > 1 << 10 {
            return Err(format!("patches of {} in {} mel bands", self.patch, self.mels));
        }
        if !self.width.is_multiple_of(self.heads) {
            return Err(format!(
                "width {} does not divide into {} heads",
                self.width, self.heads
            ));
        }
        if !(self.epsilon > 0.0 && self.epsilon < 1.0) {
            return Err(format!("epsilon is {}", self.epsilon));
        }
        let Patchout { time, frequency, .. } = self.patchout;
        if time >= self.columns || frequency >= self.rows() {
            return Err(format!(
                "patchout of {time} columns and {frequency} rows leaves nothing of a grid of {} rows and {} columns",
                self.rows(),
                self.columns
            ));
        }
        Ok(())
    }
}

impl std::fmt::Display for PasstConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            width,
            layers,
            heads,
            patch,
            stride,
            ..
        } = self;
        write!(
            f,
            "PaSST, {width} wide, {layers} blocks, {heads} heads, patches of {patch} every {stride}"
        )
    }
}

fn patches(length: usize, patch: usize, stride: usize) -> usize {
    if length < patch {
        0
    } else {
        (length - patch) / stride + 1
    }
}

/// The network.
#[derive(Module, Debug)]
pub struct Passt {
    /// `[patch * patch, width]`.
    embed: Linear,
    class_token: Param<Tensor<1>>,
    distillation_token: Param<Tensor<1>>,
    /// `[2, width]`.
    token_positions: Param<Tensor<2>>,
    /// `[rows, width]`.
    row_positions: Param<Tensor<2>>,
    /// `[columns, width]`.
    column_positions: Param<Tensor<2>>,
    transformer: Transformer,
    norm: LayerNorm,
    #[module(skip)]
    config: PasstConfig,
}

const NAMES: BlockNames = BlockNames {
    query_key_value: &["attn.qkv"],
    attention_output: "attn.proj",
    attention_norm: "norm1",
    expand: "mlp.fc1",
    contract: "mlp.fc2",
    feed_norm: "norm2",
};

impl Tower for Passt {
    type Config = PasstConfig;
    type Input = MelBatch;

    fn build(config: &PasstConfig, source: &TensorSource<'_>) -> Result<Self, Error> {
        config
            .check()
            .map_err(|what| Error::Sizes { tower: "PaSST", what })?;
        let (width, rows, columns) = (config.width, config.rows(), config.columns);
        let device = source.device();
        let normal = Init::Normal(0.02);
        // [width, 1, patch, patch], a convolution whose steps do not overlap in what they learn: one matrix product.
        let shape = [width, 1, config.patch, config.patch];
        let kernel = source.numbers("patch_embed.proj.weight", &shape, normal)?;
        let bias = source.numbers("patch_embed.proj.bias", &[width], Init::Zeros)?;
        let token = |name| {
            let numbers = source.numbers(name, &[1, 1, width], normal)?;
            Ok::<_, Error>(parameter(numbers, [width], device))
        };
        // The reference keeps the two grid tables as [1, width, places, 1 or 1, places]: here a row is a place.
        let table = |name, shape: [usize; 4], places: usize| {
            let numbers = source.numbers(name, &shape, normal)?;
            Ok::<_, Error>(parameter(transposed(&numbers, places), [places, width], device))
        };
        let sizes = BlockSizes {
            width,
            hidden: config.hidden,
            heads: config.heads,
            epsilon: config.epsilon,
        };
        let blocks = (0..config.layers)
            .map(|nth| Block::build(&source.at(&format!("blocks.{nth}")), &NAMES, Norms::Before, sizes));
        let tokens = source.numbers("new_pos_embed", &[1, 2, width], normal)?;
        Ok(Self {
            embed: linear_of_rows(&kernel, bias, config.patch * config.patch, device),
            class_token: token("cls_token")?,
            distillation_token: token("dist_token")?,
            token_positions: parameter(tokens, [2, width], device),
            row_positions: table("freq_new_pos_embed", [1, width, rows, 1], rows)?,
            column_positions: table("time_new_pos_embed", [1, width, 1, columns], columns)?,
            transformer: Transformer::new(blocks.collect::<Result<_, _>>()?),
            norm: source.layer_norm("norm", width, config.epsilon)?,
            config: config.clone(),
        })
    }

    fn pack(&mut self, precision: Precision) -> Result<(), Error> {
        self.transformer.pack(precision)
    }

    fn leave_in(&mut self, file: &FilePart, _: bool) -> Vec<String> {
        vec![self.transformer.leave_in(&file.at("transformer"))]
    }

    fn set_arithmetic(&mut self, arithmetic: Arithmetic) {
        self.transformer.set_arithmetic(arithmetic);
    }

    fn width(&self) -> usize {
        self.config.width
    }

    fn max_input(&self) -> [usize; 2] {
        [self.config.mels, self.config.max_frames()]
    }

    fn forward(&self, batch: &MelBatch, training: Option<&Training>) -> Result<Tensor<2>, Error> {
        let columns = self.config.columns_of(batch.frames());
        if batch.mels() != self.config.mels || columns == 0 || columns > self.config.columns {
            return Err(Error::InputShape {
                what: "log-mels",
                expected: vec![batch.len(), self.config.mels, self.config.max_frames()],
                got: vec![batch.len(), batch.mels(), batch.frames()],
            });
        }
        let kept = match training {
            Some(training) => {
                Kept::at_random(self.config.rows(), columns, self.config.patchout, training.seed)
            }
            None => Kept::all(self.config.rows(), columns),
        };
        let recompute = training.and_then(|training| training.recompute.as_ref());
        self.forward_kept(batch, &kept, recompute)
    }
}

impl Passt {
    /// The network's sizes.
    pub fn config(&self) -> &PasstConfig {
        &self.config
    }

    /// Features from the patches that are kept; the batch has been checked.
    pub(crate) fn forward_kept(
        &self,
        batch: &MelBatch,
        kept: &Kept,
        recompute: Option<&Recompute>,
    ) -> Result<Tensor<2>, Error> {
        let (segments, width, patch) = (batch.len(), self.config.width, self.config.patch);
        let device = self.class_token.val().device();
        let places = kept.0.len();
        let mut cut = Vec::with_capacity(segments * places * patch * patch);
        for segment in 0..segments {
            let mel = batch.segment(segment);
            for &(row, column) in &kept.0 {
                for band in 0..patch {
                    let at = (row * self.config.stride + band) * batch.frames() + column * self.config.stride;
                    cut.extend_from_slice(&mel[at..at + patch]);
                }
            }
        }
        let cut = Tensor::<2>::from_data(TensorData::new(cut, [segments * places, patch * patch]), &device);
        let indices = |which: fn(&(usize, usize)) -> usize| {
            let numbers: Vec<i32> = kept.0.iter().map(|place| which(place) as i32).collect();
            Tensor::<1, Int>::from_data(TensorData::new(numbers, [places]), &device)
        };
        let grid = self.row_positions.val().select(0, indices(|place| place.0))
            + self.column_positions.val().select(0, indices(|place| place.1));
        let patches =
            linear(cut, &self.embed).reshape([segments, places, width]) + grid.reshape([1, places, width]);
        let tokens = Tensor::stack::<2>(vec![self.class_token.val(), self.distillation_token.val()], 0)
            + self.token_positions.val();
        let tokens = tokens.reshape([1, 2, width]).expand([segments, 2, width]);
        let x = Tensor::cat(vec![tokens, patches], 1).reshape([segments * (2 + places), width]);
        // Of all tokens only these two are used.
        let sequences = Sequences::new(vec![2 + places; segments]).first(2);
        let x = norm(
            self.transformer.forward(x, &sequences, None, recompute)?,
            &self.norm,
        );
        let tokens = x.reshape([segments, 2, width]);
        Ok(tokens.mean_dim(1).reshape([segments, width]))
    }
}

/// The patches of a grid that a forward pass computes, as (row, column), row after row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept(pub(crate) Vec<(usize, usize)>);

impl Kept {
    fn all(rows: usize, columns: usize) -> Self {
        Self::grid(&(0..rows).collect::<Vec<_>>(), &(0..columns).collect::<Vec<_>>())
    }

    pub(crate) fn grid(rows: &[usize], columns: &[usize]) -> Self {
        Self(
            rows.iter()
                .flat_map(|&row| columns.iter().map(move |&column| (row, column)))
                .collect(),
        )
    }

    /// A step's patchout. A short input loses no more than leaves one row, column and patch.
    fn at_random(rows: usize, columns: usize, patchout: Patchout, seed: u64) -> Self {
        let choose = |count: usize, dropped: usize, salt: u64| {
            let mut order: Vec<usize> = (0..count).collect();
            Random::new(key(&[seed, salt])).shuffle(&mut order);
            order.truncate(count.saturating_sub(dropped).max(1));
            order.sort_unstable();
            order
        };
        let columns = choose(columns, patchout.time, 1);
        let rows = choose(rows, patchout.frequency, 2);
        let grid = Self::grid(&rows, &columns);
        if patchout.unstructured == 0 {
            return grid;
        }
        let single = choose(grid.0.len(), patchout.unstructured, 3);
        Self(single.into_iter().map(|nth| grid.0[nth]).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patchout_leaves_the_numbers_that_it_says_in_order() {
        let patchout = Patchout {
            time: 15,
            frequency: 2,
            unstructured: 10,
        };
        let kept = Kept::at_random(8, 62, patchout, 3);
        assert_eq!(kept.0.len(), 6 * 47 - 10);
        assert!(kept.0.is_sorted());
        assert_eq!(kept, Kept::at_random(8, 62, patchout, 3));
        assert_ne!(kept, Kept::at_random(8, 62, patchout, 4));
        let rows: std::collections::BTreeSet<_> = kept.0.iter().map(|place| place.0).collect();
        assert!(rows.len() <= 6);
    }

    #[test]
    fn a_short_input_keeps_something() {
        let patchout = Patchout {
            time: 15,
            frequency: 2,
            unstructured: 100,
        };
        assert_eq!(Kept::at_random(8, 3, patchout, 1).0.len(), 1);
    }

    #[test]
    fn the_grid_of_the_published_model_is_8_by_62() {
        let config = PasstConfig::small();
        assert_eq!(
            (config.rows(), config.columns_of(1000), config.columns_of(998)),
            (8, 62, 62)
        );
        assert_eq!(config.columns_of(config.max_frames()), 62);
        assert_eq!(config.columns_of(config.max_frames() + 1), 63);
    }
}
