//! Vectors in, nearest neighbours out, exact and approximate.
//!
//! Vectors cross as flat `&[f32]`, row-major, checked once by [`Vectors`]; [`Embeddings`] owns them, with the ids of
//! its rows. [`top_k`] answers one question. [`exact`] compares a set with itself
//! without ever holding the full table of scores: the nearest rows of every row, counts of rows above a threshold,
//! the most similar pairs, the lowest and the highest score. Scores are inner products; on unit vectors they are
//! cosines. [`scan`] finds the rows nearest to a query among rows of 16-bit numbers, all of which it looks at;
//! [`approximate`] keeps an index that finds nearly all of them and looks at few. [`blocks`] is what other crates
//! rank large sets with.
//!
//! Nothing here prints, reads the environment or finds a random seed. Seeds, threads, progress and cancellation are
//! arguments. The same vectors give the same bytes on one machine for any number of threads.

#![cfg_attr(
    test,
    allow(clippy::float_cmp, reason = "tests of exact results compare them exactly")
)]

pub mod approximate;
pub mod blocks;
mod embeddings;
mod error;
pub mod exact;
mod kernels;
pub mod scan;
mod top_k;
mod vectors;

pub use embeddings::{Embeddings, Failure};
pub use error::Error;
pub use exact::Neighbours;
pub use top_k::{Scored, top_k};
pub use vectors::Vectors;
