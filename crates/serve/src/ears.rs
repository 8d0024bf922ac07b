//! What turns words and recordings into vectors. The server knows no model; whoever starts it brings one.

use std::path::Path;

/// Turns words and recordings into vectors of one space. Methods are called from several threads at once and may take long.
pub trait Embedder: Send + Sync {
    /// One vector of length 1 for each text, in the order of the texts.
    ///
    /// # Errors
    /// If the model fails.
    fn text(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError>;

    /// The vector of a whole recording, of length 1. The file is what somebody has sent: it may be anything.
    ///
    /// # Errors
    /// If the file is no recording, or the model fails.
    fn sound(&self, recording: &Path) -> Result<Vec<f32>, EmbedError>;
}

/// Why there is no vector.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The fault is the recording's: the client is told so.
    #[error("{what}")]
    Recording {
        /// What is wrong with it, in words for a person.
        what: String,
    },
    /// The fault is the model's.
    #[error("the model failed: {source}")]
    Model {
        /// What it says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
