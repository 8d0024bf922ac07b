//! The one error type of this crate.

use std::path::PathBuf;

/// What can go wrong between a model on disk and a vector.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be opened, read or written; the source names the path.
    #[error(transparent)]
    Io(#[from] std::io::Error),

    /// A file of a model folder is missing.
    #[error("{path}: not found; a Sentence-Transformers folder needs it")]
    MissingFile {
        /// The file that was looked for.
        path: PathBuf,
    },

    /// A JSON file does not say what it must.
    #[error("{path}: {source}")]
    Json {
        /// The file.
        path: PathBuf,
        /// What the parser says, with line and column.
        source: serde_json::Error,
    },

    /// The model is well formed, and of a kind that hark does not run.
    #[error("{path}: {what} is not supported (supported: {supported})")]
    Unsupported {
        /// The file that says so.
        path: PathBuf,
        /// What is not supported, by name.
        what: String,
        /// What is.
        supported: &'static str,
    },

    /// A configuration holds a value that no model can have.
    #[error("{path}: {what}")]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },

    /// A weights file is damaged, or not a safetensors file at all.
    #[error("{path}: not a whole safetensors file: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },

    /// The model needs a tensor that the file does not have.
    #[error("{path}: tensor `{name}` is missing; the file has {nearest}")]
    MissingTensor {
        /// The file.
        path: PathBuf,
        /// The tensor's name.
        name: String,
        /// The name in the file that is most like it.
        nearest: String,
    },

    /// A tensor's shape is not the one that the configuration asks for.
    #[error("{path}: tensor `{name}` has shape {got:?}, the configuration asks for {expected:?}")]
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor's name.
        name: String,
        /// What the configuration asks for.
        expected: Vec<usize>,
        /// What the file has.
        got: Vec<usize>,
    },

    /// Tensors that no part of the model uses: the file is of another architecture than its configuration says.
    #[error("{path}: {} tensors that the model does not use: {}", names.len(), list(names))]
    UnexpectedTensors {
        /// The file.
        path: PathBuf,
        /// Their names.
        names: Vec<String>,
    },

    /// The tokenizer file cannot be used.
    #[error("{path}: {what}")]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// What the tokenizer library says.
        what: String,
    },

    /// The tokenizer makes ids that the model has no vector for.
    #[error(
        "{path}: the tokenizer has ids up to {largest}, the model has vectors for {rows} tokens: they do not belong together"
    )]
    TokenizerMismatch {
        /// The tokenizer file.
        path: PathBuf,
        /// The largest id.
        largest: u32,
        /// Rows of the embedding table.
        rows: usize,
    },

    /// The model gave a vector that has no direction: zero, infinite or not a number.
    #[error("the model gives no usable vector for the caption {caption:?}: are its weights damaged?")]
    NoDirection {
        /// The caption, cut to its first words.
        caption: String,
    },

    /// The embedding cache is of another version or for another model.
    #[error("{path}: {what}; delete the file to start anew")]
    Cache {
        /// The cache file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },

    /// The caller's progress callback asked to stop.
    #[error("cancelled")]
    Cancelled,

    /// The thread pool could not be made.
    #[error("cannot start worker threads: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

/// The first few names, and how many more there are.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let mut text = names
        .iter()
        .take(SHOWN)
        .map(|n| format!("`{n}`"))
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    text
}
