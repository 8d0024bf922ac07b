//! What turns questions into vectors. This crate does not depend on any model; the caller provides one.

use std::path::Path;

/// Embeds texts and recordings in one space. Methods are called from several threads at once and may take long.
pub trait Embedder: Send + Sync {
    /// One vector of norm 1 for each text, in the order of the texts.
    ///
    /// # Errors
    /// If the model fails.
    fn embed_text(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError>;

    /// Whether the model knows a word of a text. If not, the text's vector means nothing. By default it knows all.
    ///
    /// # Errors
    /// If the model fails.
    fn knows(&self, text: &str) -> Result<bool, EmbedError> {
        let _ = text;
        Ok(true)
    }

    /// The vector of a whole recording, of norm 1. The file may come from a stranger: it can be anything.
    ///
    /// # Errors
    /// If the file is not a recording that can be decoded, or the model fails.
    fn embed_audio(&self, recording: &Path) -> Result<Vec<f32>, EmbedError>;
}

/// Why there is no vector.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The recording cannot be used: the fault of whoever gave it.
    #[error("{what}")]
    Recording {
        /// What is wrong with it, without its path: a server must not tell where uploads are.
        what: String,
    },
    /// The model failed.
    #[error(transparent)]
    Model {
        /// The model's own error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
