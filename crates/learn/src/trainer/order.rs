//! Which pairs an epoch goes over, in which order; and where everything random in a training comes from.

use hark_corpus::Dataset;
use hark_work::random::{Random, key};

use crate::Error;
use crate::recipe::{EpochOver, Recipe};

/// Coordinates that keep random numbers of different purposes apart. They must never change.
#[derive(Debug, Clone, Copy)]
#[repr(u64)]
pub(super) enum Purpose {
    Order = 1,
    Caption = 2,
    Example = 3,
    Masks = 4,
    Validation = 5,
    Shuffled = 6,
}

/// The pairs of an epoch, in their order.
pub(super) fn order(recipe: &Recipe, data: &Dataset, epoch: u64) -> Vec<usize> {
    let mut order: Vec<usize> = match recipe.training.epoch_over {
        EpochOver::Pairs => (0..data.pairs.len()).collect(),
        EpochOver::Clips => {
            let captions = data.captions_by_clip();
            let chosen = captions.iter().enumerate().filter(|(_, of)| !of.is_empty());
            let chosen = chosen.map(|(clip, of)| {
                let key = key(&[recipe.seed, Purpose::Caption as u64, epoch, clip as u64]);
                of[Random::new(key).below(of.len())]
            });
            chosen.collect()
        }
    };
    Random::new(key(&[recipe.seed, Purpose::Order as u64, epoch])).shuffle(&mut order);
    order
}

/// Whole batches in an epoch, a multiple of those that make one step.
pub(super) fn batches_per_epoch(recipe: &Recipe, data: &Dataset) -> Result<u64, Error> {
    let training = &recipe.training;
    let (what, items) = match training.epoch_over {
        EpochOver::Pairs => ("pairs", data.pairs.len()),
        EpochOver::Clips => ("clips", data.clips.len()),
    };
    let batches =
        (items / training.batch) as u64 / training.gradient_accumulation * training.gradient_accumulation;
    if batches == 0 {
        return Err(Error::SmallSet {
            what,
            got: items,
            needed: training.batch as u64 * training.gradient_accumulation,
        });
    }
    Ok(batches)
}
