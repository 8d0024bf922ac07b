//! The masks of a forward pass on a device beside the CPU.
//!
//! All of them are made before the pass begins and copied to the device together: whether a number is dropped, site after site, row
//! after row. A site then takes its part. Blocks that are computed again for the gradient find theirs still there.

use std::collections::BTreeMap;
use std::sync::Arc;

use burn::tensor::{Bool, Device, Tensor, TensorData};
use rayon::prelude::*;

use super::{Dropout, Mask, Site, attention_place};

/// Numbers of a transfer. More go in several: drivers bound the size of a buffer, WebGPU by 128 MiB where it promises no more, and
/// some devices hold a truth value in 32 bits.
const MOST: usize = 1 << 25;

/// A site, and what it drops of.
#[derive(Debug)]
pub(crate) struct Dropping {
    pub(crate) layer: usize,
    pub(crate) site: Site,
    /// Rows of each sequence.
    pub(crate) rows: Arc<[usize]>,
    pub(crate) extent: Extent,
}

/// How the numbers of a site stand on a device.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Extent {
    /// `[rows of all sequences, width]`.
    Rows {
        /// Numbers of a row.
        width: usize,
    },
    /// `[heads, queries, rows]` of one sequence after the other.
    Weights {
        /// Of the attention.
        heads: usize,
        /// The first so many rows of a sequence ask; without it, all.
        queries: Option<usize>,
    },
}

impl Extent {
    /// How many numbers there are for a sequence of so many rows.
    fn of(self, rows: usize) -> usize {
        match self {
            Self::Rows { width } => rows * width,
            Self::Weights { heads, queries } => heads * queries.map_or(rows, |most| most.min(rows)) * rows,
        }
    }

    /// Calls `each` for every stretch of a sequence's numbers: the place of its first number in the mask, and how many there are.
    fn stretches(self, rows: usize, each: &mut dyn FnMut(u64, usize)) {
        match self {
            Self::Rows { width } => each(0, rows * width),
            Self::Weights { heads, queries } => {
                for head in 0..heads {
                    for query in 0..queries.map_or(rows, |most| most.min(rows)) {
                        each(attention_place(head, query), rows);
                    }
                }
            }
        }
    }
}

/// The masks of a forward pass, on its device.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sent(BTreeMap<(usize, Site), SentMask>);

/// A mask on a device.
#[derive(Debug, Clone)]
pub(super) struct SentMask {
    dropped: Tensor<1, Bool>,
    extent: Extent,
}

impl SentMask {
    /// Which of `count` numbers are dropped, behind those of sequences of these rows.
    pub(super) fn dropped(&self, before: &[usize], count: usize) -> Tensor<1, Bool> {
        let start = before.iter().map(|&rows| self.extent.of(rows)).sum();
        self.dropped.clone().narrow(0, start, count)
    }
}

impl Sent {
    /// Makes the masks of these sites and copies them to the device.
    pub(crate) fn new(dropout: &Dropout<'_>, sites: &[Dropping], device: &Device) -> Self {
        Self::in_transfers_of(MOST, dropout, sites, device)
    }

    /// The same with at most so many numbers at a time, but for a site that has more.
    pub(super) fn in_transfers_of(
        most: usize,
        dropout: &Dropout<'_>,
        sites: &[Dropping],
        device: &Device,
    ) -> Self {
        let masks: Vec<(&Dropping, Mask, usize)> = sites
            .iter()
            .filter_map(|at| {
                let mask = match at.site {
                    Site::Attention => dropout.attention(at.layer, &at.rows),
                    site => dropout.hidden(at.layer, site, &at.rows),
                };
                let count = at.rows.iter().map(|&rows| at.extent.of(rows)).sum();
                Some((at, mask?, count))
            })
            .collect();
        let mut sent = Self::default();
        let mut rest = &masks[..];
        while !rest.is_empty() {
            let mut total = 0;
            let fitting = rest.iter().take_while(|(_, _, count)| {
                total += count;
                total <= most
            });
            let (now, later) = rest.split_at(fitting.count().max(1));
            sent.transfer(now, device);
            rest = later;
        }
        sent
    }

    fn transfer(&mut self, masks: &[(&Dropping, Mask, usize)], device: &Device) {
        let total: usize = masks.iter().map(|(_, _, count)| count).sum();
        let mut dropped = vec![false; total];
        let mut parts = Vec::with_capacity(masks.len());
        let mut rest = &mut dropped[..];
        for (at, mask, count) in masks {
            let (part, behind) = rest.split_at_mut(*count);
            parts.push((at, mask, part));
            rest = behind;
        }
        parts.into_par_iter().for_each(|(at, mask, mut part)| {
            for (sequence, &rows) in at.rows.iter().enumerate() {
                at.extent.stretches(rows, &mut |place, count| {
                    let (now, behind) = std::mem::take(&mut part).split_at_mut(count);
                    mask.mark(sequence, place, now);
                    part = behind;
                });
            }
        });
        let dropped = Tensor::<1, Bool>::from_data(TensorData::new(dropped, [total]), device);
        let mut start = 0;
        for (at, _, count) in masks {
            let mask = SentMask {
                dropped: dropped.clone().narrow(0, start, *count),
                extent: at.extent,
            };
            self.0.insert((at.layer, at.site), mask);
            start += count;
        }
    }

    /// The mask of a site.
    pub(super) fn at(&self, layer: usize, site: Site) -> Option<SentMask> {
        self.0.get(&(layer, site)).cloned()
    }
}
