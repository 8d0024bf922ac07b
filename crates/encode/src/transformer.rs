//! The transformer encoder that every model family here runs on.
//!
//! In: token features `[batch, tokens, width]`. Out: the same shape. One block, in the order of "Attention is all you
//! need" (norm after the residual sum):
//!
//! ```text
//! x ← norm(x + W_o · concat_h softmax(q_h k_hᵀ / √d + bias) v_h)
//! x ← norm(x + W_2 · gelu(W_1 x))
//! ```
//!
//! `gelu` is the exact one, x Φ(x). Query, key and value are one matrix product of three times the width. `bias` is
//! `[1, heads, tokens, tokens]` and added to the scores of every block: MPNet's relative positions. All sequences of a
//! batch have the same length, so that there is no padding to compute and none to mask.

use burn::module::Module;
use burn::nn::{LayerNorm, Linear};
use burn::tensor::Tensor;

use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;

use crate::kernels::gelu;

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
    /// `[width, 3 * width]`: query, key, value, in this order.
    pub query_key_value: Linear,
    /// `[width, width]`.
    pub attention_output: Linear,
    /// After the first residual sum.
    pub attention_norm: LayerNorm,
    /// `[width, hidden]`.
    pub expand: Linear,
    /// `[hidden, width]`.
    pub contract: Linear,
    /// After the second residual sum.
    pub output_norm: LayerNorm,
}

impl Transformer {
    /// Runs all blocks: `[batch, tokens, width]` to the same shape.
    pub fn forward(&self, mut x: Tensor<3>, bias: Option<&Tensor<4>>) -> Tensor<3> {
        for block in &self.blocks {
            x = block.forward(x, bias);
        }
        x
    }
}

impl Block {
    fn forward(&self, x: Tensor<3>, bias: Option<&Tensor<4>>) -> Tensor<3> {
        let attended = self.attend(x.clone(), bias);
        let x = self.attention_norm.forward(x + attended);
        let hidden = gelu(self.expand.forward(x.clone()));
        let fed = self.contract.forward(hidden);
        self.output_norm.forward(x + fed)
    }

    fn attend(&self, x: Tensor<3>, bias: Option<&Tensor<4>>) -> Tensor<3> {
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
        let options = AttentionModuleOptions::default();
        let mixed = attention(part(0), part(1), part(2), None, bias.cloned(), options);
        self.attention_output
            .forward(mixed.swap_dims(1, 2).reshape([batch, tokens, width]))
    }
}
