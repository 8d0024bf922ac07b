//! What each metric is worth under chance: its expected value when all orders of the items are equally likely.
//!
//! With `n` items of which `r` are relevant, exactly:
//!
//! - AP@k: rank j holds a relevant item with probability r/n, and given that, each of the j-1 ranks before it
//!   holds one with probability (r-1)/(n-1). AP@k sums the precision at each hit and divides by r, so
//!   E = sum over j = 1..min(k, n) of (1 + (j-1)(r-1)/(n-1)) / (j n).
//! - R@k: each of the first k ranks holds a relevant item with probability r/n, so E = min(k, n) / n.
//! - hit@k: the first k ranks hold none with probability C(n-r, k) / C(n, k) (hypergeometric).
//! - Reciprocal rank: the first relevant item has rank f with probability C(n-f, r-1) / C(n, r).
//! - DCG@k: each rank holds the mean gain on average, so E = sum of gains / n * sum of discounts; the ideal
//!   does not depend on the order.

use super::{MeanMetrics, RECALL_CUTS, discount};

/// Expected metrics under a uniformly random order of `items` items of which `relevant` are relevant to the
/// query. `cut` is the k of AP@k. `None` unless there are items and at least one of them, at most all, is
/// relevant.
///
/// ```
/// let chance = hark_metrics::chance(1045, 1, 10).expect("one relevant clip of 1045");
/// // With one relevant item AP@10 is 1/rank: (1 + 1/2 + ... + 1/10) / 1045.
/// assert!((chance.average_precision - 0.002_803).abs() < 1e-6);
/// assert!((chance.recall[2] - 10.0 / 1045.0).abs() < 1e-15);
/// ```
pub fn chance(items: usize, relevant: usize, cut: usize) -> Option<MeanMetrics> {
    if relevant == 0 || relevant > items {
        return None;
    }
    let n = items as f64;
    Some(MeanMetrics {
        average_precision: average_precision(items, relevant, cut),
        recall: RECALL_CUTS.map(|k| k.min(items) as f64 / n),
        hit: RECALL_CUTS.map(|k| hit(items, relevant, k)),
        reciprocal_rank: reciprocal_rank(items, relevant),
    })
}

fn average_precision(items: usize, relevant: usize, cut: usize) -> f64 {
    // Of a single item there is no other to be relevant.
    let other = (relevant - 1) as f64 / (items - 1).max(1) as f64;
    let precisions = (1..=cut.min(items)).map(|j| (1.0 + (j - 1) as f64 * other) / j as f64);
    precisions.sum::<f64>() / items as f64
}

fn hit(items: usize, relevant: usize, cut: usize) -> f64 {
    let others = items - relevant;
    if cut > others {
        return 1.0;
    }
    let none: f64 = (0..cut)
        .map(|i| (others - i) as f64 / (items - i) as f64)
        .product();
    1.0 - none
}

fn reciprocal_rank(items: usize, relevant: usize) -> f64 {
    let others = items - relevant;
    let mut first_here = relevant as f64 / items as f64;
    let mut sum = 0.0;
    for rank in 1..=others + 1 {
        sum += first_here / rank as f64;
        // The ratio of the next probability to this one; 0 after the last.
        first_here *= (others + 1 - rank) as f64 / (items - rank).max(1) as f64;
    }
    sum
}

/// Expected nDCG@k, given the sum of all gains and the DCG of the ideal order.
pub(crate) fn ndcg(items: usize, cut: usize, gains: f64, ideal: f64) -> f64 {
    let discounts: f64 = (1..=cut.min(items)).map(|rank| discount(rank as u32)).sum();
    gains / items as f64 * discounts / ideal
}
