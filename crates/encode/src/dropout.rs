//! What differs in training: dropout, and where its randomness comes from.
//!
//! A mask is a function of the seed of the step, the example, the layer, the site in the layer and the place in the
//! tensor. Places are counted so that neither padding nor the other examples of a batch change a mask. hark's kernels make masks as
//! they go; other devices are sent them before a pass begins (`sent.rs`).

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use hark_work::random::{key, uniform};

use crate::recompute::Recompute;

mod sent;

use sent::SentMask;
pub(crate) use sent::{Dropping, Extent, Sent};

/// A forward pass in training.
#[derive(Debug, Clone)]
pub struct Training {
    /// Of the run and the step.
    pub seed: u64,
    /// The examples in the batch, by numbers of their own.
    pub examples: Vec<u64>,
    /// Where the blocks of transformers go that are computed again for the gradient; without it, what they compute is kept.
    pub recompute: Option<Recompute>,
}

impl Training {
    /// A pass that keeps what it computes.
    pub fn new(seed: u64, examples: Vec<u64>) -> Self {
        Self {
            seed,
            examples,
            recompute: None,
        }
    }
}

/// Where in a block values are dropped. The numbers are part of the mask's key: they must never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
    /// The masks, where they have been sent to a device.
    pub(crate) sent: Option<&'a Sent>,
}

impl Dropout<'_> {
    /// What is dropped of a layer's output, for sequences of so many rows; `None` if nothing is.
    pub(crate) fn hidden(&self, layer: usize, site: Site, rows: &Arc<[usize]>) -> Option<Mask> {
        (self.hidden > 0.0).then(|| self.mask(layer, site, rows, self.hidden))
    }

    /// What is dropped of the attention's weights.
    pub(crate) fn attention(&self, layer: usize, rows: &Arc<[usize]>) -> Option<Mask> {
        (self.attention > 0.0).then(|| self.mask(layer, Site::Attention, rows, self.attention))
    }

    fn mask(&self, layer: usize, site: Site, rows: &Arc<[usize]>, rate: f32) -> Mask {
        let key_of = |sequence: usize| {
            // A batch that is larger than the list of examples is a caller's mistake; its rows still get masks of their own.
            let example = self.training.examples.get(sequence).copied();
            let example = example.unwrap_or(sequence as u64);
            key(&[self.training.seed, example, layer as u64, site as u64])
        };
        Mask {
            keys: (0..rows.len()).map(key_of).collect(),
            rows: Arc::clone(rows),
            rate,
            sent: self.sent.and_then(|sent| sent.at(layer, site)),
        }
    }
}

/// Which numbers of a site are dropped.
#[derive(Debug, Clone)]
pub(crate) struct Mask {
    /// Of each sequence.
    keys: Arc<[u64]>,
    /// Rows of each sequence.
    rows: Arc<[usize]>,
    rate: f32,
    /// The same on a device, if it has been sent there.
    sent: Option<SentMask>,
}

/// Where the weights of a query begin in an attention's mask.
pub(crate) fn attention_place(head: usize, query: usize) -> u64 {
    ((head as u64) << 40) | ((query as u64) << 20)
}

impl Mask {
    /// Drops of the rows of all sequences, `width` numbers each.
    pub(crate) fn drop_rows(&self, numbers: &mut [f32], width: usize) {
        // (sequence, row within it) of every row.
        let places: Vec<(usize, usize)> = self
            .rows
            .iter()
            .enumerate()
            .flat_map(|(sequence, &rows)| (0..rows).map(move |row| (sequence, row)))
            .collect();
        numbers
            .par_chunks_mut(width.max(1))
            .zip(places)
            .for_each(|(numbers, (sequence, row))| self.drop_row(sequence, (row * width) as u64, numbers));
    }

    /// Drops of numbers that stand one after the other from a place.
    pub(crate) fn drop_row(&self, sequence: usize, place: u64, numbers: &mut [f32]) {
        let key = self.keys[sequence];
        for (index, x) in (place..).zip(numbers) {
            *x *= factor(key, index, self.rate);
        }
    }

    /// Marks which of the numbers from a place on are dropped.
    fn mark(&self, sequence: usize, place: u64, dropped: &mut [bool]) {
        let key = self.keys[sequence];
        for (index, dropped) in (place..).zip(dropped) {
            *dropped = is_dropped(key, index, self.rate);
        }
    }

    /// Drops of what stands from sequence `first` on, by the mask on its device.
    fn drop_there<const D: usize>(&self, x: Tensor<D>, sent: &SentMask, first: usize) -> Tensor<D> {
        let shape = x.shape();
        let dropped = sent.dropped(&self.rows[..first], shape.num_elements());
        x.mask_fill(dropped.reshape(shape), 0.0)
            .mul_scalar(scale(self.rate))
    }

    /// Drops of `[rows of all sequences, width]`, on any device.
    pub(crate) fn drop(&self, x: Tensor<2>) -> Tensor<2> {
        if let Some(sent) = &self.sent {
            return self.drop_there(x, sent, 0);
        }
        let [rows, width] = x.dims();
        let mut mask = vec![1.0; rows * width];
        self.drop_rows(&mut mask, width);
        let mask = Tensor::from_data(TensorData::new(mask, [rows, width]), &x.device());
        x * mask
    }

    /// Drops of the weights `[sequences, heads, queries, keys]` of some sequences, on any device.
    pub(crate) fn drop_weights(&self, x: Tensor<4>, first: usize) -> Tensor<4> {
        if let Some(sent) = &self.sent {
            return self.drop_there(x, sent, first);
        }
        let [sequences, heads, queries, keys] = x.dims();
        let mut mask = vec![1.0; sequences * heads * queries * keys];
        mask.par_chunks_exact_mut(keys.max(1))
            .enumerate()
            .for_each(|(nth, row)| {
                let (sequence, head, query) = (nth / (heads * queries), nth / queries % heads, nth % queries);
                self.drop_row(first + sequence, attention_place(head, query), row);
            });
        let mask = Tensor::from_data(
            TensorData::new(mask, [sequences, heads, queries, keys]),
            &x.device(),
        );
        x * mask
    }
}

fn is_dropped(key: u64, index: u64, rate: f32) -> bool {
    uniform(key, index) < rate
}

/// What keeps the expected value as it was.
fn scale(rate: f32) -> f32 {
    1.0 / (1.0 - rate)
}

/// 0 for what is dropped, else the scale.
fn factor(key: u64, index: u64, rate: f32) -> f32 {
    if is_dropped(key, index, rate) {
        0.0
    } else {
        scale(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensors::numbers;
    use burn::tensor::Device;

    fn masked(tokens: usize, examples: Vec<u64>) -> Vec<f32> {
        let training = Training::new(3, examples);
        let dropout = Dropout {
            training: &training,
            hidden: 0.2,
            attention: 0.0,
            sent: None,
        };
        let rows: Arc<[usize]> = vec![tokens; training.examples.len()].into();
        let mask = dropout.hidden(1, Site::FeedForward, &rows).unwrap();
        let mut numbers = vec![1.0; training.examples.len() * tokens * 8];
        mask.drop_rows(&mut numbers, 8);
        numbers
    }

    #[test]
    fn a_mask_does_not_depend_on_padding_or_company() {
        let alone = masked(100, vec![17]);
        assert_eq!(masked(120, vec![17])[..800], alone[..]);
        assert_eq!(masked(100, vec![4, 17])[800..], alone[..]);
        assert_ne!(masked(100, vec![18]), alone);
    }

    /// A mask that is sent to a device drops what the one in memory drops, whether all go in one transfer or in several.
    #[test]
    fn sent_masks_are_those_in_memory() {
        let device = Device::flex();
        let training = Training::new(3, vec![4, 17]);
        let rows: Arc<[usize]> = vec![3, 5].into();
        let site = |layer, site, extent| Dropping {
            layer,
            site,
            rows: Arc::clone(&rows),
            extent,
        };
        let weights = Extent::Weights {
            heads: 2,
            queries: None,
        };
        let sites = [
            site(0, Site::Embeddings, Extent::Rows { width: 7 }),
            site(1, Site::Attention, weights),
            site(1, Site::FeedForward, Extent::Rows { width: 6 }),
        ];
        let dropout = Dropout {
            training: &training,
            hidden: 0.4,
            attention: 0.3,
            sent: None,
        };
        for most in [1, 60, 1000] {
            let sent = Sent::in_transfers_of(most, &dropout, &sites, &device);
            let there = Dropout {
                sent: Some(&sent),
                ..dropout
            };
            for (layer, site, width) in [(0, Site::Embeddings, 7), (1, Site::FeedForward, 6)] {
                let of = |dropout: &Dropout<'_>| {
                    let mask = dropout.hidden(layer, site, &rows).unwrap();
                    numbers(mask.drop(Tensor::ones([8, width], &device)))
                };
                assert_eq!(of(&there), of(&dropout));
            }
            for (sequence, length) in [(0, 3), (1, 5)] {
                let of = |dropout: &Dropout<'_>| {
                    let mask = dropout.attention(1, &rows).unwrap();
                    numbers(mask.drop_weights(Tensor::ones([1, 2, length, length], &device), sequence))
                };
                assert_eq!(of(&there), of(&dropout));
            }
        }
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
