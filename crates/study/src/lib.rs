//! A study's report: from its results ([`Study`]) to tables, plots and pages.
//!
//! Everything here is a pure function from a study to text: nothing is read, written or measured. Figures come in as
//! fractions and are shown in percent. A figure that is not a number is shown as `n/a` and never left out of a mean, so
//! a failed run cannot make its method look better.

pub mod checkpoint_selection;
pub mod comparisons;
mod error;
mod escape;
pub mod page;
pub mod plots;
pub mod published;
pub mod results;
pub mod summary;
pub mod tables;

#[cfg(test)]
mod examples;

pub use error::Error;
pub use results::Study;
