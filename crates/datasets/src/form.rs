//! What becomes of a recording.

use std::fmt;

/// In which form recordings are stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Form {
    /// As they are published.
    Original,
    /// As FLAC of one channel at 32 kHz with 16 bits. A recording that is damaged, or that would become larger, stays as it is.
    Flac32k {
        /// No more than this much of the start.
        seconds: f64,
    },
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Original => f.write_str("original"),
            Self::Flac32k { seconds } => write!(f, "flac-32k {seconds}"),
        }
    }
}
