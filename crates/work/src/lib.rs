//! Long work: reported, cancelled, and resumed to the same bytes.
//!
//! Four modules and no fifth, which a check of the repository enforces:
//!
//! - [`progress`]: how work reports to its caller, and how the caller cancels it;
//! - [`workers`]: pieces of work on several threads, with results that do not depend on how many;
//! - [`files`]: files that are replaced as a whole;
//! - [`random`]: seeded random numbers that no dependency can change.

pub mod files;
pub mod progress;
pub mod random;
pub mod workers;
