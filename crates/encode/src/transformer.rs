//! The transformer encoder that every model family here runs on.
//!
//! In: token features `[batch, tokens, width]`. Out: the same shape. One block is attention and a feed-forward part,
//!
//! ```text
//! attend(x) = W_o · concat_h softmax(q_h k_hᵀ / √d + bias) v_h
//! feed(x)   = W_2 · gelu(W_1 x)
//! ```
//!
//! with the norm in one of two places: behind the residual sum, as in "Attention is all you need" and in BERT,
//! x ← norm(x + attend(x)), x ← norm(x + feed(x)); or before the part, as in vision transformers and PaSST,
//! x ← x + attend(norm(x)), x ← x + feed(norm(x)).
//!
//! `gelu` is the exact one, x Φ(x). Query, key and value are one matrix product of three times the width. `bias` is
//! `[1 or batch, 1 or heads, 1 or tokens, tokens]` and added to the scores of every block: MPNet's relative positions, or a
//! large negative number where a padded token stands.

use burn::module::Module;
use burn::nn::{LayerNorm, Linear};
use burn::tensor::Tensor;
use burn::tensor::activation::softmax;
use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::dropout::{Dropout, Site};
use crate::kernels::gelu;
use crate::weights::{LinearInit, TensorSource};

/// A stack of blocks of the same width.
#[derive(Module, Debug)]
pub struct Transformer {
    /// The blocks, first to last.
    pub blocks: Vec<Block>,
}

/// Self-attention and a feed-forward part, each with a residual sum and a norm.
#[derive(Module, Debug)]
pub struct Block {
    /// Heads of the attention.
    pub heads: usize,
    /// Where the norms stand.
    #[module(skip)]
    pub norms: Norms,
    /// `[width, 3 * width]`: query, key, value, in this order.
    pub query_key_value: Linear,
    /// `[width, width]`.
    pub attention_output: Linear,
    /// The attention's norm.
    pub attention_norm: LayerNorm,
    /// `[width, hidden]`.
    pub expand: Linear,
    /// `[hidden, width]`.
    pub contract: Linear,
    /// The feed-forward part's norm.
    pub feed_norm: LayerNorm,
}

/// Where the norms of a block stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Norms {
    /// Before attention and feed-forward part.
    Before,
    /// Behind the residual sums.
    After,
}

/// The sizes of a block.
#[derive(Debug, Clone, Copy)]
pub struct BlockSizes {
    /// Of a token's features.
    pub width: usize,
    /// Of the feed-forward part's inside.
    pub hidden: usize,
    /// Of the attention.
    pub heads: usize,
    /// Of the norms.
    pub epsilon: f64,
}

/// What the tensors of a block are called in a model family.
#[derive(Debug)]
pub struct BlockNames {
    /// One fused layer, or query, key and value.
    pub query_key_value: &'static [&'static str],
    /// Behind the attention.
    pub attention_output: &'static str,
    /// The attention's norm.
    pub attention_norm: &'static str,
    /// Into the feed-forward part.
    pub expand: &'static str,
    /// Out of it.
    pub contract: &'static str,
    /// The feed-forward part's norm.
    pub feed_norm: &'static str,
}

impl Transformer {
    /// Runs all blocks: `[batch, tokens, width]` to the same shape.
    pub fn forward(
        &self,
        mut x: Tensor<3>,
        bias: Option<&Tensor<4>>,
        dropout: Option<&Dropout<'_>>,
    ) -> Tensor<3> {
        for (layer, block) in self.blocks.iter().enumerate() {
            x = block.forward(x, bias, dropout, layer);
        }
        x
    }
}

impl Block {
    /// Builds a block from the tensors of its family's names.
    ///
    /// # Errors
    /// As [`TensorSource::numbers`].
    pub fn build(
        source: &TensorSource<'_>,
        names: &BlockNames,
        norms: Norms,
        sizes: BlockSizes,
    ) -> Result<Self, Error> {
        let BlockSizes {
            width,
            hidden,
            heads,
            epsilon,
        } = sizes;
        let linear = |name, input, output| source.linear(&[name], input, output, LinearInit::Transformer);
        let fused = names.query_key_value;
        let part = 3 * width / fused.len().max(1);
        Ok(Self {
            heads,
            norms,
            query_key_value: source.linear(fused, width, part, LinearInit::Transformer)?,
            attention_output: linear(names.attention_output, width, width)?,
            attention_norm: source.layer_norm(names.attention_norm, width, epsilon)?,
            expand: linear(names.expand, width, hidden)?,
            contract: linear(names.contract, hidden, width)?,
            feed_norm: source.layer_norm(names.feed_norm, width, epsilon)?,
        })
    }

    fn forward(
        &self,
        x: Tensor<3>,
        bias: Option<&Tensor<4>>,
        dropout: Option<&Dropout<'_>>,
        layer: usize,
    ) -> Tensor<3> {
        let drop = |part: Tensor<3>, site| match dropout {
            Some(dropout) => dropout.hidden(part, layer, site),
            None => part,
        };
        match self.norms {
            Norms::After => {
                let attended = drop(
                    self.attend(x.clone(), bias, dropout, layer),
                    Site::AttentionOutput,
                );
                let x = self.attention_norm.forward(x + attended);
                let fed = drop(self.feed(x.clone()), Site::FeedForward);
                self.feed_norm.forward(x + fed)
            }
            Norms::Before => {
                let normed = self.attention_norm.forward(x.clone());
                let x = x + drop(self.attend(normed, bias, dropout, layer), Site::AttentionOutput);
                let normed = self.feed_norm.forward(x.clone());
                x + drop(self.feed(normed), Site::FeedForward)
            }
        }
    }

    fn feed(&self, x: Tensor<3>) -> Tensor<3> {
        self.contract.forward(gelu(self.expand.forward(x)))
    }

    fn attend(
        &self,
        x: Tensor<3>,
        bias: Option<&Tensor<4>>,
        dropout: Option<&Dropout<'_>>,
        layer: usize,
    ) -> Tensor<3> {
        let [batch, tokens, width] = x.dims();
        let head_width = width / self.heads;
        // [batch, tokens, 3 * width] -> three of [batch, heads, tokens, head_width].
        let projected = self
            .query_key_value
            .forward(x)
            .reshape([batch, tokens, 3 * self.heads, head_width]);
        let part = |nth: usize| {
            projected
                .clone()
                .narrow(2, nth * self.heads, self.heads)
                .swap_dims(1, 2)
        };
        let scale = 1.0 / (head_width as f32).sqrt();
        let mixed = if let Some(dropout) = dropout.filter(|dropout| dropout.attention > 0.0) {
            // The backend's own attention does not hand out its weights.
            let scores = part(0).matmul(part(1).swap_dims(2, 3)).mul_scalar(scale);
            let scores = match bias {
                Some(bias) => scores + bias.clone(),
                None => scores,
            };
            dropout.attention(softmax(scores, 3), layer).matmul(part(2))
        } else {
            let options = AttentionModuleOptions::default();
            attention(part(0), part(1), part(2), None, bias.cloned(), options)
        };
        self.attention_output
            .forward(mixed.swap_dims(1, 2).reshape([batch, tokens, width]))
    }
}
