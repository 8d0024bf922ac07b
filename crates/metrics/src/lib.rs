//! Rankings in, figures and tests out.
//!
//! [`evaluate`] ranks one set of vectors by another and says how high the relevant rows stand, beside what chance would
//! give; [`significance`] tests whether two methods differ over the same queries; [`trec`] reads, writes and scores
//! rankings that are files, of this program or another.

#![cfg_attr(
    test,
    allow(clippy::float_cmp, reason = "tests of exact results compare them exactly")
)]

mod error;
mod retrieval;
pub mod significance;
pub mod trec;

pub use error::Error;
pub use retrieval::*;
