//! A recipe, methods and seeds → trained runs → one report.
//!
//! | module | in → out |
//! |---|---|
//! | [`plan`] | recipe, methods, seeds, corpora → [`Plan`]: the runs and their recipes |
//! | [`runner`] | a plan → finished runs, each with a [`run_result`] |
//! | [`collect()`] | finished runs → [`Study`]: figures, curves, tests, provenance |
//! | [`Trainer`] | one run's recipe → its folder, with the models and caches of one place |
//! | [`report`] | a study → its files: [`tables`], [`comparisons`], [`plots`], [`page`] |
//!
//! The report is made by pure functions from a study to text. Figures are fractions and shown in percent. A figure that
//! is not a number is shown as `n/a` and never left out of a mean, so a failed run cannot make its method look better.

pub mod checkpoint_selection;
mod collect;
pub mod comparisons;
pub mod demo;
mod error;
mod escape;
pub mod page;
pub mod plan;
pub mod plots;
pub mod published;
pub mod report;
pub mod results;
pub mod run_result;
pub mod runner;
pub mod summary;
pub mod tables;
mod training;

#[cfg(test)]
mod examples;

pub use collect::collect;
pub use error::Error;
pub use plan::{Plan, StudyOverrides};
pub use results::Study;
pub use runner::{OnStudyEvent, RunOptions, StudyEvent, TrainRequest, run};
pub use training::{RehearseOptions, Trainer};
