//! The one error type of this crate.

use std::path::PathBuf;

use hark_catalogue::Settings;
use hark_work::progress::{counted, group_digits};

/// Why a library was not opened, indexed or searched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name every field
pub enum Error {
    /// A file or folder could not be read; the source names the path.
    #[error(transparent)]
    Io(#[from] std::io::Error),

    #[error(transparent)]
    Catalogue(#[from] hark_catalogue::Error),

    #[error(transparent)]
    Encode(#[from] hark_encode::Error),

    #[error(transparent)]
    Models(#[from] hark_models::Error),

    /// The library does not exist.
    #[error("no library in {location}; create it with: hark index FOLDER")]
    Missing { location: String },

    /// A new library was asked for without folders.
    #[error("no library in {location} yet; name the folders to index: hark index FOLDER")]
    NoFolders { location: String },

    /// The model that a library names cannot be opened.
    #[error(
        "cannot open the library's model {model}: {source}; if it has moved, pass its new name or folder with --model"
    )]
    ModelGone {
        model: String,
        source: Box<hark_models::Error>,
    },

    /// Vectors of two models cannot be compared.
    #[error(
        "the library was made with the model {} (fingerprint {}), but {model} is another one (fingerprint {fingerprint}). Pass the library's model with --model, or index again with this one: hark index --rebuild --model {model}",
        settings.model,
        settings.fingerprint
    )]
    OtherModel {
        settings: Box<Settings>,
        model: String,
        fingerprint: String,
    },

    /// The library was made with other settings than those asked for.
    #[error(
        "{source}; keep the library's model and hop, choose another --name, or pass --rebuild to index everything again"
    )]
    Mismatch { source: Box<hark_catalogue::Error> },

    #[error(
        "model {name} has no projection; a library needs a model that embeds recordings and texts in one space. A tagger becomes one with: hark models bridge --audio {name} --name NEW"
    )]
    NoProjection { name: String },

    #[error("--hop must be {least} to {window} seconds for this model, whose windows are {window} s long")]
    Hop { least: f64, window: f64 },

    #[error("cannot read {}: no such folder", path.display())]
    NoFolder { path: PathBuf },

    #[error("{} is not a folder; name the folder that holds the recordings", path.display())]
    NotAFolder { path: PathBuf },

    #[error("{}: the path is not Unicode", path.display())]
    NotUnicode { path: PathBuf },

    #[error("{folder} is not a folder of the library, which has: {}", folders.join(", "))]
    NotInLibrary { folder: String, folders: Vec<String> },

    #[error("cannot read {}: no samples", path.display())]
    Empty { path: PathBuf },

    #[error("{}: {source}", path.display())]
    Csv { path: PathBuf, source: csv::Error },

    #[error("{}: no column names the file (such as {expected})", path.display())]
    NoFileColumn { path: PathBuf, expected: String },

    #[error("{}: no column of tags (such as {expected}); name it with --tag-column", path.display())]
    NoTagColumn { path: PathBuf, expected: String },

    #[error("{}: no column {column}", path.display())]
    NoColumn { path: PathBuf, column: String },

    #[error("cannot read {} of {}", group_digits(*failed), counted(*all, "recording"))]
    Unread { failed: usize, all: usize },

    #[error("the template {template:?} has no {{}} for the name of a class")]
    BadTemplate { template: String },

    #[error("{recording} is tagged {truth}, which is none of the labels")]
    UnknownTruth { recording: String, truth: String },

    #[error("cannot watch for changes on this system: {0}")]
    Watch(#[from] notify::Error),

    /// The caller's callback asked to stop. Finished work is stored.
    #[error("cancelled")]
    Cancelled,
}

impl From<hark_work::progress::Cancelled> for Error {
    fn from(_: hark_work::progress::Cancelled) -> Self {
        Self::Cancelled
    }
}
