//! RoBERTa (Liu et al. 2019) as a text tower: the first token's features.

use burn::module::Module;
use burn::tensor::Tensor;
use hark_kernels::Precision;
use serde::{Deserialize, Serialize};

use super::bert::{Bert, BertConfig, Family, Pooling};
use super::{TokenBatch, Tower};
use crate::Error;
use crate::arithmetic::Arithmetic;
use crate::dropout::Training;
use crate::weights::TensorSource;
use crate::weights_file::FilePart;

/// The sizes of a RoBERTa.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RobertaConfig {
    /// Tokens that have a vector.
    pub vocabulary: usize,
    /// Rows of the position table, the first two of which are no token's.
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
    /// Rows of the token type table.
    pub types: usize,
    /// Dropout of embeddings and block outputs in training.
    pub dropout: f32,
    /// Dropout of the attention's weights in training.
    pub attention_dropout: f32,
}

impl RobertaConfig {
    /// RoBERTa-large, with the dropout of the paper's training.
    pub fn large() -> Self {
        Self {
            vocabulary: 50_265,
            positions: 514,
            width: 1024,
            hidden: 4096,
            layers: 24,
            heads: 16,
            epsilon: 1e-5,
            types: 1,
            dropout: 0.2,
            attention_dropout: 0.2,
        }
    }

    pub(crate) fn network(&self) -> BertConfig {
        BertConfig {
            family: Family::Roberta,
            vocabulary: self.vocabulary,
            positions: self.positions,
            width: self.width,
            hidden: self.hidden,
            layers: self.layers,
            heads: self.heads,
            epsilon: self.epsilon,
            types: self.types,
            buckets: None,
            pooling: Pooling::First,
            dropout: self.dropout,
            attention_dropout: self.attention_dropout,
        }
    }
}

impl std::fmt::Display for RobertaConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.network().fmt(f)
    }
}

/// The tower.
#[derive(Module, Debug)]
pub struct Roberta {
    network: Bert,
}

impl Tower for Roberta {
    type Config = RobertaConfig;
    type Input = TokenBatch;

    fn build(config: &RobertaConfig, source: &TensorSource<'_>) -> Result<Self, Error> {
        let network = Bert::build(&config.network(), source)?;
        Ok(Self { network })
    }

    fn pack(&mut self, precision: Precision) -> Result<(), Error> {
        self.network.pack(precision)
    }

    fn leave_in(&mut self, file: &FilePart, tables: bool) -> Vec<String> {
        self.network.leave_in(&file.at("network"), tables)
    }

    fn set_arithmetic(&mut self, arithmetic: Arithmetic) {
        self.network.set_arithmetic(arithmetic);
    }

    fn width(&self) -> usize {
        self.network.width()
    }

    fn max_input(&self) -> [usize; 2] {
        self.network.max_input()
    }

    fn forward(&self, input: &TokenBatch, training: Option<&Training>) -> Result<Tensor<2>, Error> {
        self.network.forward(input, training)
    }
}
