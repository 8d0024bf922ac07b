//! A study's report: from what was found ([`results::Study`]) to tables, drawings and pages.
//!
//! Everything here is a pure function from a study to text: nothing is read, written or measured. DirectionMetrics
//! come in as fractions and are shown in percent. What is not a number is shown as `n/a` and never left out
//! of a mean, so that a run that failed cannot make its method look better.

pub mod comparisons;
mod escape;
pub mod kept;
pub mod page;
pub mod plots;
pub mod published;
pub mod results;
pub mod summary;
pub mod tables;

#[cfg(test)]
mod examples;
