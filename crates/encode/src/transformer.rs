//! The transformer encoder that every model family here runs on.
//!
//! In: token features `[tokens of all sequences, width]`, sequence after sequence, each of its own length: no padding is
//! computed. Out: the same, or the first tokens of each sequence where no others are used. One block is attention and a feed-forward part,
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
//! `[1 or sequences, 1 or heads, 1 or tokens, tokens]` and added to the scores of every block: MPNet's relative positions, or a
//! large negative number where a padded token stands, on devices that want sequences of one length.

use std::sync::Arc;

use burn::module::Module;
use burn::tensor::activation::softmax;
use burn::tensor::module::attention as scaled_dot_product;
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Int, Tensor, TensorData};
use hark_kernels::Precision;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::arithmetic::Arithmetic;
use crate::dropout::{Dropout, Dropping, Extent, Mask, Site, Training};
use crate::layer_norm::LayerNorm;
use crate::linear::Linear;
use crate::ops::{
    AttentionBias, AttentionShape, attention, can_attend, gelu, has_own_inference, linear, norm, residual,
};
use crate::recompute::Recompute;
use crate::weights::{LinearInit, TensorSource};
use crate::weights_file::{FilePart, in_memory};

/// A stack of blocks of the same width.
#[derive(Module, Debug)]
pub struct Transformer {
    /// The blocks, first to last.
    blocks: Vec<Block>,
    /// Where the blocks' tensors are if they stay on disk.
    #[module(skip)]
    file: Option<FilePart>,
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

/// The sequences of a batch, one after the other.
#[derive(Debug, Clone)]
pub struct Sequences {
    lengths: Arc<[usize]>,
    /// The first so many tokens are used of what the blocks give.
    first: Option<usize>,
    bias: Option<Tensor<4>>,
    /// The bias as the loops of this processor take it; none where it is learned.
    in_memory: Option<Arc<AttentionBias>>,
    learned: bool,
}

impl Sequences {
    /// Sequences of these lengths, which attend to their own tokens.
    pub fn new(lengths: impl Into<Arc<[usize]>>) -> Self {
        Self {
            lengths: lengths.into(),
            first: None,
            bias: None,
            in_memory: None,
            learned: false,
        }
    }

    /// Only the first so many tokens of each sequence are wanted: the last block computes no others.
    #[must_use]
    pub fn first(mut self, count: usize) -> Self {
        self.first = Some(count);
        self
    }

    /// With numbers that are added to the scores of every block. If they are `learned`, they get gradients.
    #[must_use]
    pub fn with_bias(mut self, bias: Tensor<4>, learned: bool) -> Self {
        self.learned = learned && bias.device().is_autodiff();
        // On other devices the numbers stay where they are: reading them would wait for the device.
        if !self.learned && in_memory(&bias) {
            self.in_memory = Some(Arc::new(AttentionBias::new(bias.clone())));
        }
        self.bias = Some(bias);
        self
    }

    /// The same without a tape.
    fn inner(&self) -> Self {
        Self {
            bias: self.bias.clone().map(Tensor::inner),
            ..self.clone()
        }
    }

    /// The rows of each sequence that the last block gives.
    fn wanted(&self) -> Arc<[usize]> {
        match self.first {
            Some(first) => self.lengths.iter().map(|&length| length.min(first)).collect(),
            None => Arc::clone(&self.lengths),
        }
    }

    /// Those rows of all rows.
    fn select(&self, x: Tensor<2>, first: usize) -> Tensor<2> {
        let mut rows = Vec::new();
        let mut start = 0;
        for &length in &*self.lengths {
            rows.extend((start..start + length.min(first)).map(|row| row as i32));
            start += length;
        }
        let count = rows.len();
        let rows = Tensor::<1, Int>::from_data(TensorData::new(rows, [count]), &x.device());
        x.select(0, rows)
    }
}

impl Transformer {
    /// A stack of these blocks, first to last.
    pub fn new(blocks: Vec<Block>) -> Self {
        Self { blocks, file: None }
    }

    /// Leaves the blocks' tensors in the file, to be read when they are packed or computed. Returns how their names begin.
    pub(crate) fn leave_in(&mut self, file: &FilePart) -> String {
        self.file = Some(file.clone());
        file.name_of("blocks.")
    }

    /// Packs the weights of all linear layers: the blocks then compute faster and cannot learn. Blocks that were left in the file are
    /// read one by one, so that one of them at a time is in memory twice.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn pack(&mut self, precision: Precision) -> Result<(), Error> {
        let file = self.file.take();
        for (layer, block) in self.blocks.iter_mut().enumerate() {
            if let Some(file) = &file {
                *block = file.at(&format!("blocks.{layer}")).fill(block.clone())?;
            }
            for layer in block.linears() {
                layer.pack(precision);
            }
        }
        Ok(())
    }

    /// Sets the numbers that products are made of, on devices beside the CPU.
    pub(crate) fn set_arithmetic(&mut self, arithmetic: Arithmetic) {
        for layer in self.blocks.iter_mut().flat_map(Block::linears) {
            layer.set_arithmetic(arithmetic);
        }
    }

    /// Runs all blocks: `[tokens of all sequences, width]` to the same, or to the tokens that are wanted.
    ///
    /// With `recompute`, blocks keep their input alone and are computed again for the gradient, unless they share a bias that is
    /// learned.
    ///
    /// # Errors
    /// If the blocks' tensors are on disk and cannot be read.
    pub fn forward(
        &self,
        mut x: Tensor<2>,
        sequences: &Sequences,
        dropout: Option<&Dropout<'_>>,
        recompute: Option<&Recompute>,
    ) -> Result<Tensor<2>, Error> {
        if let Some(recompute) = recompute
            && x.device().is_autodiff()
            && !sequences.learned
            && !self.blocks.is_empty()
        {
            return Ok(self.forward_again(x, sequences, dropout, recompute));
        }
        for (layer, block) in self.blocks.iter().enumerate() {
            let pass = self.pass(layer, sequences, dropout);
            x = match &self.file {
                Some(file) => file
                    .at(&format!("blocks.{layer}"))
                    .fill(block.clone())?
                    .forward(x, &pass),
                None => block.forward(x, &pass),
            };
        }
        if self.blocks.is_empty() {
            x = match sequences.first {
                Some(first) => sequences.select(x, first),
                None => x,
            };
        }
        Ok(x)
    }
}

impl Transformer {
    /// What dropout drops of in a pass through blocks of this width.
    pub(crate) fn droppings(&self, sequences: &Sequences, width: usize) -> Vec<Dropping> {
        let of_block = |(layer, block): (usize, &Block)| {
            let pass = self.pass(layer, sequences, None);
            let weights = Extent::Weights {
                heads: block.heads,
                queries: pass.first,
            };
            [
                (Site::Attention, Arc::clone(&sequences.lengths), weights),
                (Site::AttentionOutput, pass.rows(), Extent::Rows { width }),
                (Site::FeedForward, pass.rows(), Extent::Rows { width }),
            ]
            .map(|(site, rows, extent)| Dropping {
                layer,
                site,
                rows,
                extent,
            })
        };
        self.blocks.iter().enumerate().flat_map(of_block).collect()
    }

    fn pass<'a>(&self, layer: usize, sequences: &'a Sequences, dropout: Option<&'a Dropout<'a>>) -> Pass<'a> {
        let is_last = layer + 1 == self.blocks.len();
        Pass {
            sequences,
            dropout,
            layer,
            first: if is_last { sequences.first } else { None },
        }
    }

    /// The forward pass without a tape, and what it takes to do it again.
    fn forward_again(
        &self,
        x: Tensor<2>,
        sequences: &Sequences,
        dropout: Option<&Dropout<'_>>,
        recompute: &Recompute,
    ) -> Tensor<2> {
        // Without the place where blocks go, which holds these blocks.
        let training = dropout.map(|Dropout { training, .. }| {
            Arc::new(Training::new(training.seed, training.examples.clone()))
        });
        let rest = dropout.map(|dropout| (dropout.hidden, dropout.attention, dropout.sent.cloned()));
        let plain = Arc::new(self.valid());
        let taped = Arc::new(self.clone());
        let (inner, sequences) = (Arc::new(sequences.inner()), Arc::new(sequences.clone()));
        let run =
            |network: &Arc<Self>, sequences: &Arc<Sequences>, layer: usize| {
                let (network, sequences, training, rest) = (
                    Arc::clone(network),
                    Arc::clone(sequences),
                    training.clone(),
                    rest.clone(),
                );
                Box::new(move |x: Tensor<2>| {
                    let dropout = training.as_deref().zip(rest.as_ref()).map(
                        |(training, (hidden, attention, sent))| Dropout {
                            training,
                            hidden: *hidden,
                            attention: *attention,
                            sent: sent.as_ref(),
                        },
                    );
                    let pass = network.pass(layer, &sequences, dropout.as_ref());
                    network.blocks[layer].forward(x, &pass)
                }) as Box<dyn Fn(Tensor<2>) -> Tensor<2> + Send>
            };
        let blocks =
            (0..self.blocks.len()).map(|layer| (run(&plain, &inner, layer), run(&taped, &sequences, layer)));
        recompute.forward(x, blocks)
    }
}

/// What a block's forward pass depends on.
struct Pass<'a> {
    sequences: &'a Sequences,
    dropout: Option<&'a Dropout<'a>>,
    layer: usize,
    /// The tokens of each sequence that go on behind this block.
    first: Option<usize>,
}

impl Pass<'_> {
    fn mask(&self, site: Site) -> Option<Mask> {
        self.dropout?.hidden(self.layer, site, &self.rows())
    }

    /// The rows of each sequence behind the attention.
    fn rows(&self) -> Arc<[usize]> {
        if self.first.is_some() {
            self.sequences.wanted()
        } else {
            Arc::clone(&self.sequences.lengths)
        }
    }

    fn wanted(&self, x: Tensor<2>) -> Tensor<2> {
        match self.first {
            Some(first) => self.sequences.select(x, first),
            None => x,
        }
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

    fn linears(&mut self) -> [&mut Linear; 4] {
        let Self {
            query_key_value,
            attention_output,
            expand,
            contract,
            ..
        } = self;
        [query_key_value, attention_output, expand, contract]
    }

    fn forward(&self, x: Tensor<2>, pass: &Pass<'_>) -> Tensor<2> {
        match self.norms {
            Norms::After => {
                let attended = self.attend(x.clone(), pass);
                let x = residual(pass.wanted(x), attended, pass.mask(Site::AttentionOutput));
                let x = norm(x, &self.attention_norm);
                let fed = self.feed(x.clone());
                norm(residual(x, fed, pass.mask(Site::FeedForward)), &self.feed_norm)
            }
            Norms::Before => {
                let attended = self.attend(norm(x.clone(), &self.attention_norm), pass);
                let x = residual(pass.wanted(x), attended, pass.mask(Site::AttentionOutput));
                let fed = self.feed(norm(x.clone(), &self.feed_norm));
                residual(x, fed, pass.mask(Site::FeedForward))
            }
        }
    }

    fn feed(&self, x: Tensor<2>) -> Tensor<2> {
        linear(gelu(linear(x, &self.expand)), &self.contract)
    }

    fn attend(&self, x: Tensor<2>, pass: &Pass<'_>) -> Tensor<2> {
        let [_, width] = x.dims();
        let sequences = pass.sequences;
        // [tokens of all sequences, 3 * width].
        let projected = linear(x, &self.query_key_value);
        let shape = AttentionShape {
            heads: self.heads,
            head_width: width / self.heads,
            lengths: Arc::clone(&sequences.lengths),
            queries: pass.first,
            bias: sequences.in_memory.clone(),
            mask: pass
                .dropout
                .and_then(|dropout| dropout.attention(pass.layer, &sequences.lengths)),
        };
        let mixed = if can_attend(&projected) && !sequences.learned {
            attention(projected, shape)
        } else {
            let arithmetic = self.query_key_value.arithmetic();
            composed_attention(&projected, &shape, sequences.bias.as_ref(), arithmetic)
        };
        linear(mixed, &self.attention_output)
    }
}

/// [`attention`] of Burn's operations, for every device, with gradients by the bias.
fn composed_attention(
    projected: &Tensor<2>,
    shape: &AttentionShape,
    bias: Option<&Tensor<4>>,
    arithmetic: Arithmetic,
) -> Tensor<2> {
    let (lengths, heads, head_width) = (&shape.lengths, shape.heads, shape.head_width);
    // Sequences of one length are done together.
    let together = if lengths.iter().all(|&length| length == lengths[0]) {
        lengths.len()
    } else {
        1
    };
    let mut parts = Vec::new();
    let mut start = 0;
    for first in (0..lengths.len()).step_by(together) {
        let tokens = lengths[first];
        let queries = shape.queries.map_or(tokens, |most| most.min(tokens));
        let rows = projected.clone().narrow(0, start, together * tokens);
        start += together * tokens;
        let rows = rows.reshape([together, tokens, 3 * heads, head_width]);
        let part = |nth: usize| rows.clone().narrow(2, nth * heads, heads).swap_dims(1, 2);
        let query = part(0).narrow(2, 0, queries);
        if bias.is_none()
            && shape.mask.is_none()
            && arithmetic == Arithmetic::F32
            && has_own_inference(projected)
        {
            let options = AttentionModuleOptions::default();
            let mixed = scaled_dot_product(query, part(1), part(2), None, None, options).swap_dims(1, 2);
            parts.push(mixed.reshape([together * queries, heads * head_width]));
            continue;
        }
        // The query is smaller than the scores.
        let query = query.mul_scalar(1.0 / (head_width as f32).sqrt());
        let mut scores = arithmetic.product(query, part(1).swap_dims(2, 3));
        if let Some(bias) = bias {
            let [sequences, _, rows, _] = bias.dims();
            let mut bias = bias.clone().narrow(3, 0, tokens);
            if rows > 1 {
                bias = bias.narrow(2, 0, queries);
            }
            if sequences > 1 {
                bias = bias.narrow(0, first, together);
            }
            scores = scores + bias;
        }
        let mut weights = softmax(scores, 3);
        if let Some(mask) = &shape.mask {
            weights = mask.drop_weights(weights, first);
        }
        let mixed = arithmetic.product(weights, part(2)).swap_dims(1, 2);
        parts.push(mixed.reshape([together * queries, heads * head_width]));
    }
    Tensor::cat(parts, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dropout::Sent;
    use crate::tensors::numbers;
    use crate::weights::RandomInit;
    use burn::tensor::Device;
    use proptest::prelude::*;

    fn random(rows: usize, columns: usize, seed: u64, device: &Device) -> Tensor<2> {
        let mut random = hark_work::random::Random::new(seed);
        let numbers: Vec<f32> = (0..rows * columns).map(|_| random.signed() as f32).collect();
        Tensor::from_data(TensorData::new(numbers, [rows, columns]), device)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]

        /// Values and gradients of the loops against those of Burn's operations.
        #[test]
        fn attention_equals_its_composed_form(
            lengths in prop::collection::vec(1_usize..12, 1..4), heads in 1_usize..4, equal in any::<bool>(),
            queries in prop::option::of(1_usize..4), rate in prop::option::of(0.1_f32..0.6), bias in 0..3, seed in any::<u64>(),
        ) {
            let lengths: Arc<[usize]> = if equal { vec![lengths[0]; lengths.len()].into() } else { lengths.into() };
            let device = Device::flex().autodiff();
            let (count, longest) = (lengths.len(), *lengths.iter().max().unwrap());
            let head_width = 5;
            let rows: usize = lengths.iter().sum();
            let bias = match bias {
                0 => None,
                1 => Some(random(heads * longest, longest, seed ^ 1, &device).reshape([1, heads, longest, longest])),
                _ => Some(random(count, longest, seed ^ 1, &device).reshape([count, 1, 1, longest])),
            };
            let training = Training::new(seed, (0..count as u64).collect());
            let dropout = Dropout { training: &training, hidden: 0.0, attention: rate.unwrap_or(0.0), sent: None };
            let shape = AttentionShape {
                heads,
                head_width,
                lengths: Arc::clone(&lengths),
                queries,
                bias: bias.clone().map(|bias| Arc::new(AttentionBias::new(bias))),
                mask: dropout.attention(1, &lengths),
            };
            let of = |f: &dyn Fn(Tensor<2>) -> Tensor<2>| {
                let x = random(rows, 3 * heads * head_width, seed, &device).require_grad();
                let out = f(x.clone());
                let [rows, width] = out.dims();
                let grads = (out.clone() * random(rows, width, seed ^ 2, &device)).sum().backward();
                (numbers(out.inner()), numbers(x.grad(&grads).unwrap()))
            };
            let ours = of(&|x| attention(x, shape.clone()));
            let theirs = of(&|x| composed_attention(&x, &shape, bias.as_ref(), Arithmetic::F32));
            // With the mask as other devices get it.
            let extent = Extent::Weights { heads, queries };
            let at = Dropping { layer: 1, site: Site::Attention, rows: Arc::clone(&lengths), extent };
            let sent = Sent::new(&dropout, &[at], &device);
            let dropout = Dropout { sent: Some(&sent), ..dropout };
            let shape = AttentionShape { mask: dropout.attention(1, &lengths), ..shape.clone() };
            let with_sent = of(&|x| composed_attention(&x, &shape, bias.as_ref(), Arithmetic::F32));
            prop_assert_eq!(&with_sent, &theirs);
            prop_assert_eq!(ours.0.len(), theirs.0.len());
            for (ours, theirs) in ours.0.iter().zip(&theirs.0).chain(ours.1.iter().zip(&theirs.1)) {
                prop_assert!((ours - theirs).abs() < 2e-5, "{ours} {theirs}");
            }
        }
    }

    fn transformer(norms: Norms, device: &Device) -> Transformer {
        let sizes = BlockSizes {
            width: 12,
            hidden: 20,
            heads: 3,
            epsilon: 1e-5,
        };
        let names = BlockNames {
            query_key_value: &["qkv"],
            attention_output: "out",
            attention_norm: "n1",
            expand: "e",
            contract: "c",
            feed_norm: "n2",
        };
        let weights = RandomInit(3);
        let blocks = (0..2).map(|nth| {
            let source = TensorSource::new(&weights, &format!("{nth}."), device);
            Block::build(&source, &names, norms, sizes).unwrap()
        });
        Transformer::new(blocks.collect())
    }

    /// The last block computes less, and what it computes is the same, in training too.
    #[test]
    fn the_first_tokens_are_those_of_all() {
        let device = Device::flex();
        let lengths = vec![4, 1, 6];
        let training = Training::new(5, vec![1, 2, 3]);
        let dropout = Dropout {
            training: &training,
            hidden: 0.2,
            attention: 0.3,
            sent: None,
        };
        for norms in [Norms::Before, Norms::After] {
            let network = transformer(norms, &device);
            for dropout in [None, Some(&dropout)] {
                let x = random(11, 12, 1, &device);
                let all = numbers(
                    network
                        .forward(x.clone(), &Sequences::new(lengths.clone()), dropout, None)
                        .unwrap(),
                );
                let first = numbers(
                    network
                        .forward(x, &Sequences::new(lengths.clone()).first(2), dropout, None)
                        .unwrap(),
                );
                let rows = [0, 1, 4, 5, 6]
                    .into_iter()
                    .flat_map(|row| &all[row * 12..(row + 1) * 12]);
                assert_eq!(first.len(), 5 * 12);
                for (ours, all) in first.iter().zip(rows) {
                    assert!((ours - all).abs() < 1e-5, "{ours} {all}");
                }
            }
        }
    }

    /// The company of other sequences changes no sequence.
    #[test]
    fn sequences_do_not_see_each_other() {
        let device = Device::flex();
        let network = transformer(Norms::After, &device);
        let x = random(9, 12, 1, &device);
        let together = numbers(
            network
                .forward(x.clone(), &Sequences::new(vec![5, 4]), None, None)
                .unwrap(),
        );
        let alone = numbers(
            network
                .forward(x.narrow(0, 5, 4), &Sequences::new(vec![4]), None, None)
                .unwrap(),
        );
        for (ours, alone) in together[5 * 12..].iter().zip(&alone) {
            assert!((ours - alone).abs() < 1e-5, "{ours} {alone}");
        }
    }
}
