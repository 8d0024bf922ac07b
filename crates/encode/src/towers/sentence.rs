//! A sentence encoder (BERT, MPNet or RoBERTa, with its own pooling) as a text tower.

use burn::module::Module;
use burn::tensor::Tensor;

use super::bert::{Bert, BertConfig};
use super::{TokenBatch, Tower};
use crate::Error;
use crate::dropout::Training;
use crate::weights::Source;

/// The tower.
#[derive(Module, Debug)]
pub struct Sentence {
    network: Bert,
}

impl Tower for Sentence {
    type Config = BertConfig;
    type Input = TokenBatch;

    fn build(config: &BertConfig, source: &Source<'_>) -> Result<Self, Error> {
        let network = Bert::build(config, source)?;
        Ok(Self { network })
    }

    fn width(&self) -> usize {
        self.network.config().width
    }

    fn reach(&self) -> [usize; 2] {
        [
            self.network.config().vocabulary,
            self.network.config().max_tokens(),
        ]
    }

    fn forward(&self, input: &TokenBatch, training: Option<&Training>) -> Result<Tensor<2>, Error> {
        self.network.forward(input, training)
    }
}
