//! BERT and its kin: token ids to one vector a text. BERT, RoBERTa and MPNet differ in names, in how positions are
//! counted and in MPNet's relative positions; around that they share the [transformer](crate::transformer).
//!
//! In: token ids `[batch, tokens]`, padded or not. Out: `[batch, width]`, the first token's features or the mean over
//! the text's own tokens. Padding changes nothing: padded tokens get no attention and count in no mean.

use std::sync::Arc;

use burn::module::{Module, Param};
use burn::tensor::{Device, Int, Tensor, TensorData};
use hark_kernels::Precision;
use serde::{Deserialize, Serialize};

use super::{TokenBatch, Tower, positions};
use crate::Error;
use crate::arithmetic::Arithmetic;
use crate::dropout::{Dropout, Dropping, Extent, Sent, Site, Training};
use crate::layer_norm::LayerNorm;
use crate::ops::norm;
use crate::transformer::{Block, BlockNames, BlockSizes, Norms, Sequences, Transformer};
use crate::weights::{Init, TensorSource, parameter};
use crate::weights_file::FilePart;

/// The model family, by the name that its configuration gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// BERT: learned positions, token types.
    Bert,
    /// MPNet: learned positions behind a padding offset, and relative positions added to the attention scores.
    Mpnet,
    /// RoBERTa: learned positions behind a padding offset.
    Roberta,
}

/// How the vectors of a text's tokens become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// Their mean.
    Mean,
    /// The first token's.
    First,
}

/// The sizes of a network of the BERT family.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BertConfig {
    /// Which of the families.
    pub family: Family,
    /// Tokens that have a vector.
    pub vocabulary: usize,
    /// Rows of the position table; RoBERTa and MPNet use none of the first two.
    pub positions: usize,
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
    /// Rows of the token type table; MPNet has none.
    pub types: usize,
    /// Buckets of MPNet's relative positions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buckets: Option<usize>,
    /// How token vectors become one.
    pub pooling: Pooling,
    /// Dropout of embeddings and block outputs in training.
    #[serde(default)]
    pub dropout: f32,
    /// Dropout of the attention's weights in training.
    #[serde(default)]
    pub attention_dropout: f32,
}

impl BertConfig {
    /// How many tokens a text may have.
    pub fn max_tokens(&self) -> usize {
        match self.family {
            Family::Bert => self.positions,
            Family::Mpnet | Family::Roberta => self.positions.saturating_sub(positions::POSITION_OFFSET),
        }
    }

    /// That a network of these sizes can be built.
    ///
    /// # Errors
    /// What is wrong with which size.
    pub fn check(&self) -> Result<(), String> {
        let sizes = [
            ("vocabulary", self.vocabulary),
            ("positions", self.positions),
            ("width", self.width),
            ("hidden", self.hidden),
            ("layers", self.layers),
            ("heads", self.heads),
        ];
        for (name, size) in sizes {
            // Far above any model that exists, and small enough that products of two fit a machine word.
            if size == 0 || size > 1 << 24 {
                return Err(format!("{name} is {size}"));
            }
        }
        // MPNet has no table of types.
        if self.family != Family::Mpnet && !(1..=1 << 24).contains(&self.types) {
            return Err(format!("types is {}", self.types));
        }
        if !self.width.is_multiple_of(self.heads) {
            return Err(format!(
                "width {} does not divide into {} heads",
                self.width, self.heads
            ));
        }
        if self.family == Family::Mpnet
            && !self
                .buckets
                .is_some_and(|n| n.is_multiple_of(4) && (4..=256).contains(&n))
        {
            return Err(format!(
                "buckets of relative positions are {:?}, not a multiple of 4 up to 256",
                self.buckets
            ));
        }
        if !(self.epsilon > 0.0 && self.epsilon < 1.0) {
            return Err(format!("epsilon is {}", self.epsilon));
        }
        for (name, rate) in [
            ("dropout", self.dropout),
            ("attention-dropout", self.attention_dropout),
        ] {
            if !(0.0..1.0).contains(&rate) {
                return Err(format!("{name} is {rate}, not from 0 up to 1"));
            }
        }
        if self.max_tokens() < 3 {
            return Err(format!(
                "positions for {} tokens leave no room between the special tokens",
                self.max_tokens()
            ));
        }
        Ok(())
    }
}

impl std::fmt::Display for BertConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let family = match self.family {
            Family::Bert => "BERT",
            Family::Mpnet => "MPNet",
            Family::Roberta => "RoBERTa",
        };
        let pooling = match self.pooling {
            Pooling::Mean => "mean of the tokens",
            Pooling::First => "first token",
        };
        let Self {
            width, layers, heads, ..
        } = self;
        write!(
            f,
            "{family}, {width} wide, {layers} blocks, {heads} heads, {pooling}"
        )
    }
}

/// The network.
#[derive(Module, Debug)]
pub struct Bert {
    /// `[vocabulary, width]`.
    tokens: Param<Tensor<2>>,
    /// `[positions, width]`.
    positions: Param<Tensor<2>>,
    /// `[types, width]`; the tokens of a single text are all of type 0.
    types: Option<Param<Tensor<2>>>,
    norm: LayerNorm,
    /// `[buckets, heads]`.
    relative: Option<Param<Tensor<2>>>,
    transformer: Transformer,
    /// Where the token vectors are if they stay on disk.
    #[module(skip)]
    file: Option<FilePart>,
    #[module(skip)]
    config: BertConfig,
}

const BERT: BlockNames = BlockNames {
    query_key_value: &[
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
    ],
    attention_output: "attention.output.dense",
    attention_norm: "attention.output.LayerNorm",
    expand: "intermediate.dense",
    contract: "output.dense",
    feed_norm: "output.LayerNorm",
};

const MPNET: BlockNames = BlockNames {
    query_key_value: &["attention.attn.q", "attention.attn.k", "attention.attn.v"],
    attention_output: "attention.attn.o",
    attention_norm: "attention.LayerNorm",
    ..BERT
};

impl Tower for Bert {
    type Config = BertConfig;
    type Input = TokenBatch;

    fn build(config: &BertConfig, source: &TensorSource<'_>) -> Result<Self, Error> {
        config.check().map_err(|what| Error::Sizes {
            tower: "text transformer",
            what,
        })?;
        let width = config.width;
        let embeddings = source.at("embeddings");
        let table = |name: &str, rows: usize| {
            embeddings.parameter(&format!("{name}.weight"), [rows, width], Init::Normal(0.02))
        };
        let names = match config.family {
            Family::Bert | Family::Roberta => &BERT,
            Family::Mpnet => &MPNET,
        };
        let sizes = BlockSizes {
            width,
            hidden: config.hidden,
            heads: config.heads,
            epsilon: config.epsilon,
        };
        let encoder = source.at("encoder");
        let block =
            |nth: usize| Block::build(&encoder.at(&format!("layer.{nth}")), names, Norms::After, sizes);
        let relative = match (config.family, config.buckets) {
            (Family::Mpnet, Some(buckets)) => {
                let shape = [buckets, config.heads];
                let numbers =
                    encoder.numbers("relative_attention_bias.weight", &shape, Init::Normal(0.02))?;
                Some(parameter(numbers, shape, source.device()))
            }
            _ => None,
        };
        Ok(Self {
            tokens: table("word_embeddings", config.vocabulary)?,
            positions: table("position_embeddings", config.positions)?,
            types: match config.family {
                Family::Mpnet => None,
                _ => Some(table("token_type_embeddings", config.types)?),
            },
            norm: embeddings.layer_norm("LayerNorm", width, config.epsilon)?,
            relative,
            transformer: Transformer::new((0..config.layers).map(block).collect::<Result<_, _>>()?),
            file: None,
            config: config.clone(),
        })
    }

    fn pack(&mut self, precision: Precision) -> Result<(), Error> {
        self.transformer.pack(precision)
    }

    fn leave_in(&mut self, file: &FilePart, tables: bool) -> Vec<String> {
        let mut left = vec![self.transformer.leave_in(&file.at("transformer"))];
        if tables {
            self.file = Some(file.clone());
            left.push(file.name_of("tokens"));
        }
        left
    }

    fn set_arithmetic(&mut self, arithmetic: Arithmetic) {
        self.transformer.set_arithmetic(arithmetic);
    }

    fn width(&self) -> usize {
        self.config.width
    }

    fn max_input(&self) -> [usize; 2] {
        [self.config.vocabulary, self.config.max_tokens()]
    }

    fn forward(&self, batch: &TokenBatch, training: Option<&Training>) -> Result<Tensor<2>, Error> {
        // Padding is computed only where sequences of one length are faster.
        let padded = self.tokens.val().device() != Device::flex();
        self.forward_as(batch, training, padded)
    }
}

impl Bert {
    /// The forward pass, with the padding of the batch or without it; the result is the same.
    fn forward_as(
        &self,
        batch: &TokenBatch,
        training: Option<&Training>,
        padded: bool,
    ) -> Result<Tensor<2>, Error> {
        let (texts, tokens) = (batch.len(), batch.tokens());
        if tokens > self.config.max_tokens() {
            return Err(Error::InputShape {
                what: "token ids",
                expected: vec![texts, self.config.max_tokens()],
                got: vec![texts, tokens],
            });
        }
        let table = self.tokens.val();
        let device = table.device();
        let lengths: Arc<[usize]> = if padded {
            vec![tokens; texts].into()
        } else {
            batch.lengths().into()
        };
        let mut ids = Vec::new();
        let mut places = Vec::new();
        for (text, &length) in batch.ids().chunks_exact(tokens).zip(&*lengths) {
            let text = &text[..length];
            ids.extend_from_slice(text);
            match self.config.family {
                Family::Bert => places.extend(0..length as i32),
                Family::Mpnet | Family::Roberta => places.extend(positions::positions(text)),
            }
        }
        let indices = |numbers: Vec<i32>| {
            let count = numbers.len();
            Tensor::<1, Int>::from_data(TensorData::new(numbers, [count]), &device)
        };
        let tokens_of = |ids: Vec<i32>| match &self.file {
            Some(file) => {
                let shape = [ids.len(), self.config.width];
                Ok::<_, Error>(Tensor::from_data(
                    TensorData::new(file.rows("tokens", &ids)?, shape),
                    &device,
                ))
            }
            None => Ok(table.select(0, indices(ids))),
        };
        let mut summed = tokens_of(ids)? + self.positions.val().select(0, indices(places));
        if let Some(types) = &self.types {
            summed = summed + types.val().narrow(0, 0, 1);
        }
        let mut x = norm(summed, &self.norm);
        let mut sequences = Sequences::new(Arc::clone(&lengths));
        if self.config.pooling == Pooling::First {
            sequences = sequences.first(1);
        }
        let mut dropout = training.map(|training| Dropout {
            training,
            hidden: self.config.dropout,
            attention: self.config.attention_dropout,
            sent: None,
        });
        // hark's kernels make their masks as they go.
        let sent = dropout
            .filter(|_| device != Device::flex())
            .map(|dropout| self.send_masks(&dropout, &sequences, &lengths, &device));
        if let Some(dropout) = &mut dropout {
            dropout.sent = sent.as_ref();
        }
        if let Some(mask) = dropout
            .as_ref()
            .and_then(|dropout| dropout.hidden(0, Site::Embeddings, &lengths))
        {
            x = mask.drop(x);
        }
        let relative = self.relative.as_ref().map(|table| {
            let [count, heads] = table.val().dims();
            let buckets = positions::buckets(tokens, count);
            let bias = table
                .val()
                .select(0, indices(buckets))
                .reshape([1, tokens, tokens, heads]);
            bias.permute([0, 3, 1, 2])
        });
        let padding = if padded { batch.padding_bias(&device) } else { None };
        let learned = relative.is_some();
        let bias = match (relative, padding) {
            (Some(relative), Some(padding)) => Some(relative + padding),
            (relative, padding) => relative.or(padding),
        };
        if let Some(bias) = bias {
            sequences = sequences.with_bias(bias, learned);
        }
        let recompute = training.and_then(|training| training.recompute.as_ref());
        let x = self
            .transformer
            .forward(x, &sequences, dropout.as_ref(), recompute)?;
        Ok(match self.config.pooling {
            Pooling::First => x,
            Pooling::Mean => batch.shares(padded, &device).matmul(x),
        })
    }

    fn send_masks(
        &self,
        dropout: &Dropout<'_>,
        sequences: &Sequences,
        lengths: &Arc<[usize]>,
        device: &Device,
    ) -> Sent {
        let width = self.config.width;
        let mut sites = self.transformer.droppings(sequences, width);
        sites.push(Dropping {
            layer: 0,
            site: Site::Embeddings,
            rows: Arc::clone(lengths),
            extent: Extent::Rows { width },
        });
        Sent::new(dropout, &sites, device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensors::numbers;
    use crate::weights::RandomInit;

    /// Texts of several lengths, with the padding computed and without it, in all families, with dropout and its gradients.
    #[test]
    fn padding_changes_nothing() {
        let device = Device::flex().autodiff();
        let texts: [&[u32]; 3] = [&[5, 6, 7, 8, 9], &[10, 11], &[12, 13, 14]];
        let batch = TokenBatch::new(texts).unwrap();
        let training = Training::new(3, vec![4, 5, 6]);
        for (family, pooling) in [
            (Family::Bert, Pooling::Mean),
            (Family::Roberta, Pooling::First),
            (Family::Mpnet, Pooling::Mean),
        ] {
            let config = BertConfig {
                family,
                vocabulary: 20,
                positions: 12,
                width: 8,
                hidden: 16,
                layers: 2,
                heads: 2,
                epsilon: 1e-5,
                types: 1,
                buckets: (family == Family::Mpnet).then_some(8),
                pooling,
                dropout: 0.2,
                attention_dropout: 0.1,
            };
            let weights = RandomInit(1);
            let network = Bert::build(&config, &TensorSource::new(&weights, "", &device)).unwrap();
            let of = |padded| {
                let out = network.forward_as(&batch, Some(&training), padded).unwrap();
                let grads = out.clone().powi_scalar(3).sum().backward();
                let table = numbers(network.tokens.val().grad(&grads).unwrap());
                let relative = network
                    .relative
                    .as_ref()
                    .map(|table| numbers(table.val().grad(&grads).unwrap()));
                (numbers(out.inner()), table, relative.unwrap_or_default())
            };
            let (padded, own) = (of(true), of(false));
            for (padded, own) in [(&padded.0, &own.0), (&padded.1, &own.1), (&padded.2, &own.2)] {
                assert_eq!(padded.len(), own.len());
                for (padded, own) in padded.iter().zip(own) {
                    assert!(
                        (padded - own).abs() < 1e-5 * own.abs().max(1.0),
                        "{family:?}: {padded} {own}"
                    );
                }
            }
        }
    }
}
