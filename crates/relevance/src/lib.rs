//! Caption vectors in, graded relevance out; ratings in, a fitted function out.
//!
//! Two captions that say nearly the same thing describe nearly the same sound. From the similarity h of captions i
//! and j this crate computes how relevant clip j is to caption i, g = f(h), with f non-decreasing:
//!
//! - [`similarity`]: cosines of caption vectors, and their range over a whole set;
//! - [`function`]: the choices of f, by name and parameters;
//! - [`batch`]: the relevances of a training batch and the targets made of them;
//! - [`table`]: relevance between all captions of a dataset, as a file;
//! - [`ratings`] and [`fit`]: crowd ratings to the parameters of f, by beta regression;
//! - [`agreement`]: how well similarities agree with ratings;
//! - [`neighbours`]: captions of different clips that say the same thing, and how often a batch holds such a pair.
//!
//! This crate depends on no model and no tensor library: vectors are flat `&[f32]`, row-major, and must be unit
//! vectors. Nothing prints, reads the environment or draws random numbers.

#![cfg_attr(
    test,
    allow(clippy::float_cmp, reason = "tests of exact results compare them exactly")
)]

pub mod agreement;
mod arrays;
pub mod batch;
mod error;
pub mod fit;
pub mod function;
pub mod neighbours;
pub mod ratings;
pub mod similarity;
mod spec;
mod special;
pub mod table;

pub use batch::targets;
pub use error::Error;
pub use function::RelevanceFunction;
pub use hark_nearest::Vectors;
pub use hark_work::progress::{Progress, no_progress};
pub use table::Table;
