//! The one error type of this crate.

use std::io;
use std::path::{Path, PathBuf};

use hark_work::progress::{counted, group_digits};

/// Why a dataset was not pulled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name every field
pub enum Error {
    /// A file could not be opened, read or written; the source names the path.
    #[error(transparent)]
    Io(#[from] io::Error),

    #[error(transparent)]
    Download(#[from] hark_download::Error),

    /// A caption file that was downloaded, or the check of the result.
    #[error(transparent)]
    Corpus(#[from] hark_corpus::Error),

    #[error(
        "cannot write {}: the disk is full; free some space and run the command again to continue",
        path.display()
    )]
    DiskFull { path: PathBuf },

    #[error("no dataset {name} to pull (known: {})", known.join(", "))]
    Unknown { name: String, known: Vec<&'static str> },

    #[error("{dataset} has no split {split} (known: {})", known.join(", "))]
    UnknownSplit {
        dataset: &'static str,
        split: String,
        known: Vec<&'static str>,
    },

    #[error(
        "not enough disk in {}: {what} needs {} bytes, {} are free; free some space, or name a folder on another disk",
        folder.display(),
        group_digits(*needed),
        group_digits(*free)
    )]
    NoRoom {
        folder: PathBuf,
        what: String,
        needed: u64,
        free: u64,
    },

    #[error("{} holds {found}; pull {asked} to another folder", folder.display())]
    OtherDataset {
        folder: PathBuf,
        found: String,
        asked: String,
    },

    #[error("{} already holds recordings {}, or pull to another folder", folder.display(), as_before(found))]
    OtherForm { folder: PathBuf, found: String },

    /// An option that would do nothing.
    #[error("{option} does not apply to {dataset}: {reason}; leave it out")]
    NotApplicable {
        option: &'static str,
        dataset: &'static str,
        reason: &'static str,
    },

    /// A file at the place of one to pull, which its user put there.
    #[error("{} differs from the published file; move it, or pull to another folder", path.display())]
    InTheWay { path: PathBuf },

    /// A file that was pulled and that its user changed.
    #[error("{} has changed since it was pulled; move it, or pull to another folder", path.display())]
    Changed { path: PathBuf },

    #[error("another process is pulling to {}; wait until it has finished", folder.display())]
    InUse { folder: PathBuf },

    /// A file of hark's own that cannot be read.
    #[error("cannot read {}: {reason}; remove it and run the command again", path.display())]
    Record { path: PathBuf, reason: String },

    #[error("cannot read the list of files at {url}: {reason}")]
    Listing { url: String, reason: String },

    #[error("cannot unpack {}: {reason}; delete the archive and run the command again", archive.display())]
    Archive { archive: PathBuf, reason: String },

    #[error(
        "cannot unpack {}: its entry {name:?} would be written outside the folder; nothing was unpacked. The \
         archive is not the published one",
        archive.display()
    )]
    UnsafeName { archive: PathBuf, name: String },

    #[error("refusing to unpack {}: {reason}. Nothing was unpacked", archive.display())]
    Bomb { archive: PathBuf, reason: String },

    #[error(
        "cannot unpack {}: its entry {name:?} is damaged: {reason}; delete the archive and run the command again",
        archive.display()
    )]
    Entry {
        archive: PathBuf,
        name: String,
        reason: String,
    },

    #[error("cannot run {program}: {source}; install it and run the command again")]
    NoProgram { program: String, source: io::Error },

    #[error(
        "{program} failed on {} in a row; last error: {reason}. Fix that, then run the command again to continue",
        counted(*clips, "clip")
    )]
    Stuck {
        program: String,
        clips: usize,
        reason: String,
    },

    /// The caller's callback asked to stop.
    #[error("cancelled")]
    Cancelled,
}

impl Error {
    /// An error of writing `path`.
    pub(crate) fn writing(path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull {
                path: path.to_owned(),
            },
            _ => Self::Io(source),
        }
    }

    /// Whether the caller asked to stop.
    pub fn is_cancelled(&self) -> bool {
        matches!(
            self,
            Self::Cancelled
                | Self::Download(hark_download::Error::Cancelled)
                | Self::Corpus(hark_corpus::Error::Cancelled)
        )
    }
}

/// How the recordings of a folder are stored, and what to do for more of the same.
fn as_before(form: &str) -> String {
    match form.split_once(' ') {
        Some((form, seconds)) => {
            format!("as {form} (first {seconds} s); add --as {form} --seconds {seconds}")
        }
        None => "as they are published; leave out --as".to_owned(),
    }
}

impl From<hark_work::progress::Cancelled> for Error {
    fn from(_: hark_work::progress::Cancelled) -> Self {
        Self::Cancelled
    }
}
