//! The one error type of this crate.

use std::io;
use std::path::Path;
use std::sync::Arc;

/// Why soundscapes cannot be generated or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A table or a caption file is not what it must be.
    #[error(transparent)]
    Corpus(#[from] hark_corpus::Error),

    /// A file or folder cannot be read. The message of the source names the path.
    #[error(transparent)]
    Open(io::Error),

    /// A file or folder cannot be written. The message of the source names the path.
    #[error(transparent)]
    Write(io::Error),

    /// A setting of a soundscape is out of its range.
    #[error("soundscapes: `{name}` is {got}, but must be {expected}")]
    Setting {
        /// The setting's name.
        name: &'static str,
        /// Its value.
        got: String,
        /// What is accepted.
        expected: String,
    },

    /// The settings hold a path that is not UTF-8.
    #[error("cannot store the settings of soundscapes: {0}")]
    Settings(#[source] serde_json::Error),

    /// So few scenes are possible that one split would have none.
    #[error("too few different scenes for the {split} clips; allow more kinds, events or attributes")]
    TooFewScenes {
        /// The split.
        split: &'static str,
    },

    /// The folder holds soundscapes of other settings.
    #[error("{} holds soundscapes with other settings; choose another folder or empty it", folder.display())]
    OtherSettings {
        /// The folder.
        folder: Arc<Path>,
    },

    /// The folder holds something other than soundscapes.
    #[error("{} is not empty and holds no soundscapes; choose another folder", folder.display())]
    FolderNotEmpty {
        /// The folder.
        folder: Arc<Path>,
    },

    /// Soundscapes of a layout that is not known.
    #[error("cannot read {}: {}, expected {expected}", path.display(), hark_corpus::quoted(got))]
    Version {
        /// The file.
        path: Arc<Path>,
        /// Its format and version.
        got: String,
        /// Those that can be read.
        expected: String,
    },

    /// A row of a table of recordings or relevances that cannot be right.
    #[error("{}: line {line}: {column} is {}, expected {expected}", path.display(), hark_corpus::quoted(got))]
    Row {
        /// The file.
        path: Arc<Path>,
        /// The line.
        line: u64,
        /// The column.
        column: &'static str,
        /// The field as in the file.
        got: String,
        /// What it should be.
        expected: &'static str,
    },

    /// A file of relevances in which a clip's own caption is not entirely true of it.
    #[error("cannot read {}: a caption of {} does not have relevance 1 to it; is the file complete?", path.display(), hark_corpus::quoted(clip))]
    OwnCaption {
        /// The file.
        path: Arc<Path>,
        /// The clip.
        clip: String,
    },

    /// A split has no recording of a category.
    #[error("{}: no recording of {} is left for the {split} clips; choose other folds or add recordings", path.display(), hark_corpus::quoted(category))]
    NoRecording {
        /// The table.
        path: Arc<Path>,
        /// The category.
        category: String,
        /// The split.
        split: &'static str,
    },

    /// A recording without sound.
    #[error("cannot use {}: silent, or shorter than 0.03 s", path.display())]
    SilentRecording {
        /// The file.
        path: Arc<Path>,
    },

    /// A recording cannot be read. The message of the source names the path.
    #[error(transparent)]
    Recording(hark_audio::Error),

    /// The threads cannot be started.
    #[error("cannot start threads")]
    Threads(#[source] rayon::ThreadPoolBuildError),

    /// The caller cancelled the work.
    #[error("cancelled")]
    Cancelled,
}

impl From<hark_work::progress::Cancelled> for Error {
    fn from(_: hark_work::progress::Cancelled) -> Self {
        Self::Cancelled
    }
}
