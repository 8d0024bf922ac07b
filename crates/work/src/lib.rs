//! Long work: reported, stopped, and resumed to the same bytes.
//!
//! Four modules and no fifth: [`progress`] (how work reports and is cancelled), [`workers`] (pieces side by side, handed
//! over in order), [`files`] (files that are replaced as a whole), [`random`] (seeded numbers without a state).

pub mod files;
pub mod progress;
pub mod random;
pub mod workers;
