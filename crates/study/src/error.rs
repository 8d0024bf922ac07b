//! The one error type of this crate.

use std::error::Error as StdError;

/// Why a study could not be run or reported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The plotting library gave up.
    #[error("cannot draw {plot}: {source}")]
    Plot {
        /// Which plot.
        plot: &'static str,
        /// What the library says.
        source: Box<dyn StdError + Send + Sync>,
    },
}
