//! What differs in training: dropout, and where its randomness comes from.
//!
//! A mask is a function of the seed of the step, the example, the layer, the site in the layer and the place in the
//! tensor. Places are counted so that neither padding nor the other examples of a batch change a mask.

use burn::tensor::{Tensor, TensorData};

use hark_work::random::{key, uniform};

/// A forward pass in training.
#[derive(Debug, Clone)]
pub struct Training {
    /// Of the run and the step.
    pub seed: u64,
    /// The examples in the batch, by numbers of their own.
    pub examples: Vec<u64>,
}

/// Where in a block values are dropped. The numbers are part of the mask's key: they must never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Site {
    /// The sum of the embeddings, after its norm.
    Embeddings = 0,
    /// The attention's weights.
    Attention = 1,
    /// The attention's output, before the residual sum.
    AttentionOutput = 2,
    /// The feed-forward part's output, before the residual sum.
    FeedForward = 3,
}

/// Dropout of one forward pass through one network.
#[derive(Debug, Clone, Copy)]
pub struct Dropout<'a> {
    /// Seed and examples.
    pub training: &'a Training,
    /// Rate for embeddings and for the outputs of the two parts of a block.
    pub hidden: f32,
    /// Rate for the attention's weights.
    pub attention: f32,
}

impl Dropout<'_> {
    /// Drops of `[batch, tokens, width]`.
    pub fn hidden(&self, x: Tensor<3>, layer: usize, site: Site) -> Tensor<3> {
        if self.hidden == 0.0 {
            return x;
        }
        let [batch, tokens, width] = x.dims();
        let mut mask = Vec::with_capacity(batch * tokens * width);
        for example in 0..batch {
            let key = self.key(example, layer, site);
            mask.extend((0..(tokens * width) as u64).map(|index| factor(key, index, self.hidden)));
        }
        let mask = Tensor::from_data(TensorData::new(mask, [batch, tokens, width]), &x.device());
        x * mask
    }

    /// Drops of `[batch, heads, queries, keys]`.
    pub fn attention(&self, x: Tensor<4>, layer: usize) -> Tensor<4> {
        if self.attention == 0.0 {
            return x;
        }
        let [batch, heads, queries, keys] = x.dims();
        let mut mask = Vec::with_capacity(batch * heads * queries * keys);
        for example in 0..batch {
            let key = self.key(example, layer, Site::Attention);
            for head in 0..heads as u64 {
                for query in 0..queries as u64 {
                    let place = (head << 40) | (query << 20);
                    mask.extend((0..keys as u64).map(|k| factor(key, place | k, self.attention)));
                }
            }
        }
        let mask = Tensor::from_data(TensorData::new(mask, [batch, heads, queries, keys]), &x.device());
        x * mask
    }

    fn key(&self, example: usize, layer: usize, site: Site) -> u64 {
        // A batch that is larger than the list of examples is a caller's mistake; its rows still get masks of their own.
        let example = self
            .training
            .examples
            .get(example)
            .copied()
            .unwrap_or(example as u64);
        key(&[self.training.seed, example, layer as u64, site as u64])
    }
}

/// 0 for what is dropped, else what keeps the expected value as it was.
fn factor(key: u64, index: u64, rate: f32) -> f32 {
    if uniform(key, index) < rate {
        0.0
    } else {
        1.0 / (1.0 - rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    fn masked(tokens: usize, examples: Vec<u64>) -> Vec<f32> {
        let training = Training { seed: 3, examples };
        let dropout = Dropout {
            training: &training,
            hidden: 0.2,
            attention: 0.0,
        };
        let x = Tensor::ones([training.examples.len(), tokens, 8], &Device::flex());
        dropout
            .hidden(x, 1, Site::FeedForward)
            .into_data()
            .try_into_vec()
            .unwrap()
    }

    #[test]
    fn a_mask_does_not_depend_on_padding_or_company() {
        let alone = masked(100, vec![17]);
        assert_eq!(masked(120, vec![17])[..800], alone[..]);
        assert_eq!(masked(100, vec![4, 17])[800..], alone[..]);
        assert_ne!(masked(100, vec![18]), alone);
    }

    #[test]
    fn the_rate_is_kept_and_so_is_the_mean() {
        let mask = masked(5_000, vec![0]);
        let dropped = mask.iter().filter(|&&x| x == 0.0).count() as f32 / 40_000.0;
        // Five standard errors of a share of 0.2 among 40,000.
        assert!((dropped - 0.2).abs() < 0.01, "{dropped}");
        assert!(mask.iter().all(|&x| x == 0.0 || (x - 1.25).abs() < 1e-6));
    }
}
