//! The one error type of this crate.

use std::path::PathBuf;

/// Why a PyTorch file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened or read; the source names the path.
    #[error(transparent)]
    Io(#[from] std::io::Error),

    /// The file is cut short, contradicts itself, or is not a PyTorch file at all.
    #[error("{path}: truncated or damaged PyTorch file: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },

    /// The file is well formed and of a kind that is not read.
    #[error("{path}: {what} is not supported (supported: {supported})")]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What is not supported, by name.
        what: String,
        /// What is.
        supported: &'static str,
    },

    /// The file does not have this tensor.
    #[error("{path}: tensor `{name}` is missing; the file has {nearest}")]
    MissingTensor {
        /// The file.
        path: PathBuf,
        /// The tensor's name.
        name: String,
        /// The name in the file that is most like it.
        nearest: String,
    },
}

/// For an error: the stored name with the longest common ending, which shows a prefix that differs.
pub fn nearest_name<'a>(names: impl Iterator<Item = &'a str>, wanted: &str) -> String {
    let common = |name: &str| {
        name.bytes()
            .rev()
            .zip(wanted.bytes().rev())
            .take_while(|(a, b)| a == b)
            .count()
    };
    names
        .max_by_key(|name| common(name))
        .map_or_else(|| "no tensors".to_owned(), |name| format!("`{name}`"))
}
