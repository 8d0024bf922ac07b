//! The one error type of this crate.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::Checksum;

/// Why a file was not downloaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name every field
pub enum Error {
    /// A file could not be opened, read or written; the source names the path.
    #[error(transparent)]
    Io(#[from] io::Error),

    #[error(
        "cannot write {}: the disk is full; free some space and run the command again to resume",
        path.display()
    )]
    DiskFull { path: PathBuf },

    /// No connection, or no answer that is HTTP.
    #[error("cannot download {url}: {source}")]
    Request { url: String, source: Box<ureq::Error> },

    #[error("cannot download {url}: the server answered {status}{}", meaning(*status))]
    Status {
        url: String,
        status: u16,
        /// How long the server asks to wait.
        wait: Option<Duration>,
    },

    #[error(
        "cannot download {url}: the server sent a web page instead of the file; open the address in a browser to see why"
    )]
    WebPage { url: String },

    #[error("cannot download {url}: the server's file has {got} bytes, the published one {expected}")]
    Size { url: String, got: u64, expected: u64 },

    #[error("cannot download {url}: the answer is longer than {limit} bytes")]
    TooLong { url: String, limit: u64 },

    #[error("cannot read the answer of {url}: it is not text in UTF-8")]
    NotText { url: String },

    #[error("download of {url} was interrupted: {source}; run the command again to resume")]
    Interrupted { url: String, source: io::Error },

    #[error("download of {url} ended after {got} of {expected} bytes; run the command again to resume")]
    Truncated { url: String, got: u64, expected: u64 },

    /// The server's file is another one than the one that was begun.
    #[error("cannot resume {url}: the file has changed on the server; run the command again to restart")]
    StalePart { url: String },

    #[error(
        "checksum mismatch for {url}: got {got}, expected {}. The download was deleted; run the command again. If this \
         repeats, the server no longer has the published file",
        expected.digits()
    )]
    Checksum {
        url: String,
        expected: Checksum,
        got: Checksum,
    },

    /// A file at the place of the one to download, which must not be replaced.
    #[error("{} differs from the published file; move it, or pull to another folder", path.display())]
    InTheWay { path: PathBuf },

    /// The caller's callback asked to stop.
    #[error("cancelled")]
    Cancelled,
}

impl Error {
    /// Whether another attempt may end better.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Request { .. } | Self::Interrupted { .. } | Self::Truncated { .. } => true,
            Self::Status { status, .. } => matches!(status, 408 | 429 | 500..=599),
            _ => false,
        }
    }

    /// Whether it is the server's or the network's: without this file, others may still be had.
    pub fn is_remote(&self) -> bool {
        !matches!(
            self,
            Self::Io(_) | Self::DiskFull { .. } | Self::InTheWay { .. } | Self::Cancelled
        )
    }

    /// An error of writing `path`.
    pub(crate) fn writing(path: &std::path::Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull {
                path: path.to_owned(),
            },
            _ => Self::Io(source),
        }
    }
}

impl From<hark_work::progress::Cancelled> for Error {
    fn from(_: hark_work::progress::Cancelled) -> Self {
        Self::Cancelled
    }
}

fn meaning(status: u16) -> &'static str {
    match status {
        401 | 403 => " (access is restricted)",
        404 | 410 => " (no such file)",
        429 => " (too many requests; try again later)",
        500..=599 => " (a fault of the server; try again later)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_other_faults_of_writing() {
        let path = std::path::Path::new("a.7z.part");
        let full = Error::writing(path, io::ErrorKind::StorageFull.into());
        assert!(matches!(&full, Error::DiskFull { .. }) && !full.is_passing());
        let denied = Error::writing(path, io::ErrorKind::PermissionDenied.into());
        assert!(matches!(denied, Error::Io(_)));
    }
}
