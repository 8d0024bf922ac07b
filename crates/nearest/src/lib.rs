//! Vectors in, nearest neighbours out, exact and approximate.
//!
//! Vectors are flat `&[f32]`, row-major, checked once by [`Vectors`]; [`Embeddings`] owns them, with the ids of its rows.
//! Scores are inner products; on unit vectors they are cosines.
//!
//! - [`top_k()`] finds the rows nearest to one query;
//! - [`exact`] compares a set with itself without ever holding the full table of scores: the nearest rows of every
//!   row, counts of rows above a threshold, the most similar pairs, the lowest and the highest score;
//! - [`scan`] compares a query with every row of a set of 16-bit numbers;
//! - [`approximate`] is an HNSW index, [`HnswIndex`], that finds nearly all neighbours and looks at few rows;
//! - [`npy`] reads and writes matrices as NumPy does;
//! - [`blocks`] is what `hark-metrics` ranks large sets with.
//!
//! Nothing here prints, reads the environment or picks a random seed: seeds, threads, progress and cancellation are
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
pub mod npy;
pub mod scan;
mod top_k;
mod vectors;

pub use approximate::HnswIndex;
pub use embeddings::{Embeddings, Failure};
pub use error::Error;
pub use exact::{Neighbours, neighbours};
pub use top_k::{Scored, top_k};
pub use vectors::Vectors;
