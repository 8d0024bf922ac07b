//! Towers: what turns log-mels or tokens into one vector each, and the registry of those that there are.
//!
//! A tower is a module that implements [`Tower`]: what its configuration is, how it is built from tensors, what it
//! computes. A new one is a file beside these and one line in the registry at the end of this file; cards, checkpoints,
//! embedding and training then know it by its name.

pub mod bert;
pub mod cnn;
#[cfg(test)]
mod golden;
pub mod mn;
pub mod passt;
pub(crate) mod positions;
pub mod roberta;

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use hark_kernels::Precision;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::arithmetic::Arithmetic;
use crate::dropout::Training;
use crate::weights::TensorSource;
use crate::weights_file::FilePart;

/// A network from an input to one vector for each of its items.
pub trait Tower: Module {
    /// Its sizes, as a model's card has them; shown, they are one line on the tower.
    type Config: std::fmt::Display;
    /// [`MelBatch`] or [`TokenBatch`].
    type Input;

    /// Builds the network from tensors of the reference's names.
    ///
    /// # Errors
    /// [`Error::Sizes`] if the configuration is impossible; what the source says if a tensor is missing or misshapen.
    fn build(config: &Self::Config, source: &TensorSource<'_>) -> Result<Self, Error>;

    /// Length of the vectors.
    fn width(&self) -> usize;

    /// What an input can be at most: `[mel bands, frames]` of a segment, or `[vocabulary, tokens]` of a text.
    fn max_input(&self) -> [usize; 2];

    /// Vectors `[items, width]`.
    ///
    /// # Errors
    /// [`Error::InputShape`] if the input is larger than the network, with both shapes.
    fn forward(&self, input: &Self::Input, training: Option<&Training>) -> Result<Tensor<2>, Error>;

    /// Brings the weights into the form in which a CPU embeds fastest, with so many bits a number; the network cannot learn
    /// or be written then. Networks that gain nothing stay as they are.
    ///
    /// # Errors
    /// If weights that were left in a file cannot be read.
    fn pack(&mut self, _: Precision) -> Result<(), Error> {
        Ok(())
    }

    /// Leaves the tensors of the blocks in the file that the network was written to, and with `tables` those of which a text needs a
    /// few rows. They are read when they are packed, or else whenever the network runs. Returns how their names begin. Networks
    /// without transformers leave nothing.
    fn leave_in(&mut self, _: &FilePart, _tables: bool) -> Vec<String> {
        Vec::new()
    }

    /// Sets the numbers that products are made of, on devices beside the CPU. Networks without transformers stay as they are.
    fn set_arithmetic(&mut self, _: Arithmetic) {}

    /// A form of the network as it is now that embeds faster on a CPU, with so many bits a weight, where there is one.
    fn inference(&self, _: Precision) -> Option<Box<dyn Inference<Self::Input>>> {
        None
    }
}

/// A network that only embeds, on a CPU: what [`Tower::forward`] gives without a training, as numbers.
pub trait Inference<Input>: std::fmt::Debug + Send + Sync {
    /// Vectors `[items, width]`, one after the other.
    ///
    /// # Errors
    /// As [`Tower::forward`].
    fn forward(&self, input: &Input) -> Result<Vec<f32>, Error>;
}

/// Log-mels of segments of one length, `[segments, mels, frames]`.
#[derive(Debug, Clone, PartialEq)]
pub struct MelBatch {
    mels: usize,
    frames: usize,
    values: Vec<f32>,
}

impl MelBatch {
    /// Segments one after the other, each `[mels, frames]`.
    ///
    /// # Errors
    /// [`Error::InputShape`] if the values are not a whole number of segments, at least one.
    pub fn new(values: Vec<f32>, mels: usize, frames: usize) -> Result<Self, Error> {
        let size = mels.saturating_mul(frames);
        if size == 0 || values.is_empty() || !values.len().is_multiple_of(size) {
            return Err(Error::InputShape {
                what: "log-mels",
                expected: vec![values.len().div_ceil(size.max(1)), mels, frames],
                got: vec![values.len()],
            });
        }
        Ok(Self { mels, frames, values })
    }

    /// Number of segments, at least 1.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.values.len() / (self.mels * self.frames)
    }

    /// Mel bands.
    pub fn mels(&self) -> usize {
        self.mels
    }

    /// Frames of each segment.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// That a network of this many bands and at most this many frames can take the segments.
    pub(crate) fn check(&self, mels: usize, max_frames: usize) -> Result<(), Error> {
        if self.mels == mels && self.frames <= max_frames {
            return Ok(());
        }
        Err(Error::InputShape {
            what: "log-mels",
            expected: vec![self.len(), mels, max_frames],
            got: vec![self.len(), self.mels, self.frames],
        })
    }

    /// All segments, `[segments, 1, mels, frames]`.
    pub(crate) fn tensor(&self, device: &Device) -> Tensor<4> {
        let shape = [self.len(), 1, self.mels, self.frames];
        Tensor::from_data(TensorData::new(self.values.clone(), shape), device)
    }

    /// Some of the segments.
    ///
    /// # Errors
    /// [`Error::InputShape`] if there are none in the range.
    pub fn part(&self, segments: std::ops::Range<usize>) -> Result<Self, Error> {
        let size = self.mels * self.frames;
        let end = segments.end.min(self.len());
        let values = &self.values[segments.start.min(end) * size..end * size];
        Self::new(values.to_vec(), self.mels, self.frames)
    }

    /// One segment, `[mels, frames]`.
    pub fn segment(&self, nth: usize) -> &[f32] {
        let size = self.mels * self.frames;
        &self.values[nth * size..][..size]
    }
}

/// Token ids of texts, `[texts, tokens]`, shorter ones padded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenBatch {
    ids: Vec<i32>,
    tokens: usize,
    /// Own tokens of each text.
    lengths: Vec<usize>,
}

impl TokenBatch {
    /// Texts of any lengths, padded to the longest.
    ///
    /// # Errors
    /// [`Error::InputShape`] if there is no text or one of them has no tokens.
    pub fn new<'a>(texts: impl IntoIterator<Item = &'a [u32]>) -> Result<Self, Error> {
        let texts: Vec<&[u32]> = texts.into_iter().collect();
        let tokens = texts.iter().map(|ids| ids.len()).max().unwrap_or(0);
        Self::padded_to(&texts, tokens)
    }

    /// Texts padded to a given number of tokens.
    ///
    /// # Errors
    /// As [`TokenBatch::new`], and if a text is longer.
    pub fn padded_to(texts: &[&[u32]], tokens: usize) -> Result<Self, Error> {
        let mut ids = Vec::with_capacity(texts.len() * tokens);
        for text in texts {
            if text.is_empty() || text.len() > tokens {
                return Err(Error::InputShape {
                    what: "token ids",
                    expected: vec![texts.len(), tokens],
                    got: vec![1, text.len()],
                });
            }
            ids.extend(text.iter().map(|&id| id as i32));
            ids.extend(std::iter::repeat_n(positions::PADDING, tokens - text.len()));
        }
        if ids.is_empty() {
            return Err(Error::InputShape {
                what: "token ids",
                expected: vec![1, 1],
                got: vec![texts.len(), tokens],
            });
        }
        let lengths = texts.iter().map(|ids| ids.len()).collect();
        Ok(Self { ids, tokens, lengths })
    }

    /// Some of the texts, padded to the longest of them.
    ///
    /// # Errors
    /// [`Error::InputShape`] if there are none in the range.
    pub fn part(&self, texts: std::ops::Range<usize>) -> Result<Self, Error> {
        let end = texts.end.min(self.len());
        let lengths = self.lengths[texts.start.min(end)..end].to_vec();
        let tokens = lengths.iter().copied().max().unwrap_or(0);
        if tokens == 0 {
            return Err(Error::InputShape {
                what: "texts",
                expected: vec![self.len()],
                got: vec![texts.start, texts.end],
            });
        }
        let rows = self.ids[texts.start * self.tokens..end * self.tokens].chunks_exact(self.tokens);
        Ok(Self {
            ids: rows.flat_map(|row| &row[..tokens]).copied().collect(),
            tokens,
            lengths,
        })
    }

    /// Number of texts, at least 1.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Tokens of each text, padding included.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// All ids, text after text.
    pub fn ids(&self) -> &[i32] {
        &self.ids
    }

    fn is_padded(&self) -> bool {
        self.lengths.iter().any(|&length| length < self.tokens)
    }

    /// Added to attention scores, `[texts, 1, 1, tokens]`: nothing for a text's own tokens, and for padding so much that
    /// its weight is zero.
    pub(crate) fn padding_bias(&self, device: &Device) -> Option<Tensor<4>> {
        if !self.is_padded() {
            return None;
        }
        let row =
            |&length: &usize| (0..self.tokens).map(move |token| if token < length { 0.0 } else { -1e30_f32 });
        let numbers: Vec<f32> = self.lengths.iter().flat_map(row).collect();
        Some(Tensor::from_data(
            TensorData::new(numbers, [self.len(), 1, 1, self.tokens]),
            device,
        ))
    }

    /// Own tokens of each text.
    pub(crate) fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// The share of each token in the mean over a text's own tokens, `[texts, tokens of all texts]`.
    pub(crate) fn shares(&self, padded: bool, device: &Device) -> Tensor<2> {
        let rows_of = |length: usize| if padded { self.tokens } else { length };
        let rows = self.lengths.iter().map(|&length| rows_of(length)).sum();
        let mut shares = vec![0.0; self.len() * rows];
        let mut start = 0;
        for (text, &length) in self.lengths.iter().enumerate() {
            shares[text * rows + start..][..length].fill(1.0 / length as f32);
            start += rows_of(length);
        }
        Tensor::from_data(TensorData::new(shares, [self.len(), rows]), device)
    }
}

/// Makes the enums over all towers of one kind, so that the list of them stands in one place.
macro_rules! registry {
    ($(#[$doc:meta])* $tower:ident, $(#[$config_doc:meta])* $config:ident, $input:ty { $($variant:ident($module:ty),)+ }) => {
        $(#[$doc])*
        // A program holds one or two of them: their size does not matter.
        #[allow(clippy::large_enum_variant)]
        #[derive(Module, Debug)]
        pub enum $tower {
            $(
                #[doc = concat!("See [`", stringify!($module), "`].")]
                $variant($module),
            )+
        }

        $(#[$config_doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "tower", rename_all = "kebab-case")]
        pub enum $config {
            $(
                #[doc = concat!("Of a [`", stringify!($module), "`].")]
                $variant(<$module as Tower>::Config),
            )+
        }

        impl std::fmt::Display for $config {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Self::$variant(config) => config.fmt(f),)+
                }
            }
        }

        impl Tower for $tower {
            type Config = $config;
            type Input = $input;

            fn build(config: &$config, source: &TensorSource<'_>) -> Result<Self, Error> {
                match config {
                    $($config::$variant(config) => Ok(Self::$variant(<$module>::build(config, source)?)),)+
                }
            }

            fn width(&self) -> usize {
                match self {
                    $(Self::$variant(tower) => Tower::width(tower),)+
                }
            }

            fn max_input(&self) -> [usize; 2] {
                match self {
                    $(Self::$variant(tower) => Tower::max_input(tower),)+
                }
            }

            fn forward(&self, input: &$input, training: Option<&Training>) -> Result<Tensor<2>, Error> {
                match self {
                    $(Self::$variant(tower) => Tower::forward(tower, input, training),)+
                }
            }

            fn pack(&mut self, precision: Precision) -> Result<(), Error> {
                match self {
                    $(Self::$variant(tower) => Tower::pack(tower, precision),)+
                }
            }

            fn leave_in(&mut self, file: &FilePart, tables: bool) -> Vec<String> {
                match self {
                    $(Self::$variant(tower) => Tower::leave_in(tower, file, tables),)+
                }
            }

            fn set_arithmetic(&mut self, arithmetic: Arithmetic) {
                match self {
                    $(Self::$variant(tower) => Tower::set_arithmetic(tower, arithmetic),)+
                }
            }

            fn inference(&self, precision: Precision) -> Option<Box<dyn Inference<$input>>> {
                match self {
                    $(Self::$variant(tower) => Tower::inference(tower, precision),)+
                }
            }
        }
    };
}

registry! {
    /// Every audio tower.
    AudioTower,
    /// The configuration of an audio tower, with its name.
    AudioConfig, MelBatch {
        Passt(passt::Passt),
        Cnn(cnn::Cnn),
        Mn(mn::Mn),
    }
}

registry! {
    /// Every text tower.
    TextTower,
    /// The configuration of a text tower, with its name.
    TextConfig, TokenBatch {
        Roberta(roberta::Roberta),
        // A sentence encoder of any of the families, with its own pooling.
        Sentence(bert::Bert),
    }
}
