//! Learning: from captions and what is known about them to models.
//!
//! | module | in → out |
//! |---|---|
//! | [`recipe`] | a TOML file → everything about a training |
//! | [`trainer`] | a recipe and data → a run's folder with models |
//! | [`objective`], [`step`] | scores and relevances of a batch → a loss, gradients |
//! | [`optimizer`], [`schedule`] | gradients → new weights |
//! | [`split`], [`clips`], [`feed`] | clips and captions → what the network reads, ahead of the trainer |
//! | [`teacher`] | captions → the sentence encoder's vectors, on disk |
//! | [`run`], [`tensorboard`], [`report`] | a training → files |
//! | [`distil`] | a sentence encoder → a static one that fits into the program |
//!
//! Nothing here prints or reads the environment. Seeds and progress are arguments, and the same seed gives the same
//! bytes.

pub mod clips;
pub mod distil;
mod error;
pub mod network;
pub mod objective;
pub mod optimizer;
pub mod recipe;
pub mod report;
pub mod run;
pub mod schedule;
pub mod split;
pub mod step;
pub mod teacher;
pub mod tensorboard;
pub mod trainer;

pub use error::Error;
