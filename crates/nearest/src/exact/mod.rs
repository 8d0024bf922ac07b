//! A set of vectors against itself, exactly: every pair of rows is compared once.
//!
//! All passes walk the same blocks of inner products (half of the full table, as it is symmetric) and keep
//! only their answer. None holds the table: beyond the vectors and the answer a pass takes about 2 MB for
//! each thread and what its own docs say.

mod counts;
mod nearest;
mod pairs;
mod products;
mod score_range;

use std::num::NonZeroUsize;

pub use counts::{Counts, count_above};
pub use nearest::{Neighbours, neighbours};
pub use pairs::{Pairs, pairs_above};
pub use products::products;
pub use score_range::{ScoreRange, score_range};

use crate::{Error, Vectors};

/// What a pass leaves out, and where it runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options<'a> {
    /// A group number for each row: rows of the same group are not compared. A row is never compared with
    /// itself.
    pub groups: Option<&'a [u32]>,
    /// Run on a separate pool of this many threads. `None` uses the caller's rayon pool.
    pub threads: Option<NonZeroUsize>,
}

impl Options<'_> {
    fn check(&self, vectors: Vectors<'_>) -> Result<(), Error> {
        match self.groups {
            Some(groups) if groups.len() != vectors.rows() => Err(Error::GroupsMismatch {
                expected: vectors.rows(),
                got: groups.len(),
            }),
            _ => Ok(()),
        }
    }

    fn same_group(&self, a: usize, b: usize) -> bool {
        self.groups.is_some_and(|groups| groups[a] == groups[b])
    }
}

/// Two rows and their score, `first < second`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// The lower row.
    pub first: u32,
    /// The higher row.
    pub second: u32,
    /// Their inner product.
    pub score: f32,
}

fn check_threshold(position: usize, value: f32) -> Result<(), Error> {
    if value.is_finite() {
        Ok(())
    } else {
        Err(Error::BadThreshold { position, value })
    }
}

/// Columns tested at once, before any one is.
const CHUNK: usize = 16;

/// Calls `hit` with the position of every score that is at least `floor`. Most chunks hold none, and the test
/// over a whole chunk has no branch, so that it compiles to vector instructions.
#[expect(
    clippy::needless_bitwise_bool,
    reason = "a lazy operator is a branch, and a branch stops vectorisation"
)]
pub fn at_least(scores: &[f32], floor: f32, mut hit: impl FnMut(usize, f32)) {
    for (chunk, values) in scores.chunks(CHUNK).enumerate() {
        if values.iter().fold(false, |any, &score| any | (score >= floor)) {
            for (i, &score) in values.iter().enumerate() {
                if score >= floor {
                    hit(chunk * CHUNK + i, score);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
