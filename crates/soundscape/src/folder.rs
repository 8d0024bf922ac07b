//! The folder of a generated dataset: what it holds, and whether it is complete.
//!
//! Every file is replaced as a whole, so a file under its own name is complete. `soundscape.part.json` is written first
//! and says which dataset is being generated; `soundscape.json`, with the same content, is written last and replaces it.
//! Refused: a folder with either file of another dataset, and a folder with neither that is not empty.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hark_work::files::{is_temporary, replace_file};
use serde::{Deserialize, Serialize};

use super::config::Config;
use crate::{Error, Split};

const WHOLE: &str = "soundscape.json";
const BEGUN: &str = "soundscape.part.json";
const FORMAT: &str = "hark-soundscape";
/// The version of the layout of the files.
const VERSION: u32 = 1;
/// The version of the content: other sounds or words for the same settings need another number.
pub(super) const GENERATOR: u32 = 1;
/// A larger file is not a manifest.
const MAX_MANIFEST_BYTES: u64 = 1 << 20;

/// What `soundscape.json` says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Manifest {
    format: String,
    version: u32,
    generator: u32,
    /// Of the settings, the generator and the recordings.
    pub(super) hash: String,
    config: Config,
}

impl Manifest {
    pub(super) fn new(config: &Config, hash: String) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            generator: GENERATOR,
            hash,
            config: config.clone(),
        }
    }
}

/// Only the part that tells sets apart, so that a set of another version is known for what it is.
#[derive(Deserialize)]
struct Header {
    format: String,
    version: u32,
    hash: String,
}

/// The folder of one set.
pub(super) struct Folder {
    root: PathBuf,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Begun,
    Whole,
}

impl Folder {
    /// Inspects the folder, which need not exist, without changing anything.
    pub(super) fn look(root: &Path, manifest: &Manifest) -> Result<Self, Error> {
        let folder = |state| Self {
            root: root.to_owned(),
            state,
        };
        for (name, state) in [(WHOLE, State::Whole), (BEGUN, State::Begun)] {
            if let Some(hash) = told(&root.join(name))? {
                if hash != manifest.hash {
                    return Err(Error::OtherSettings { folder: root.into() });
                }
                return Ok(folder(state));
            }
        }
        let entries = match fs_err::read_dir(root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(folder(State::New)),
            Err(error) => return Err(Error::Open(error)),
        };
        // A temporary file that a crash left of the very first file does not count.
        for entry in entries {
            if !is_temporary(&entry.map_err(Error::Open)?.file_name()) {
                return Err(Error::FolderNotEmpty { folder: root.into() });
            }
        }
        Ok(folder(State::New))
    }

    /// Whether the dataset was completed here.
    pub(super) fn is_whole(&self) -> bool {
        self.state == State::Whole
    }

    /// Creates the folder and notes in it which dataset is being generated.
    pub(super) fn begin(&self, manifest: &Manifest) -> Result<(), Error> {
        fs_err::create_dir_all(&self.root).map_err(Error::Write)?;
        match self.state {
            State::New => self.write_manifest(BEGUN, manifest),
            State::Begun | State::Whole => Ok(()),
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.path(name).is_file()
    }

    pub(super) fn create_below(&self, name: &str) -> Result<(), Error> {
        fs_err::create_dir_all(self.path(name)).map_err(Error::Write)
    }

    /// Writes a file as a whole or not at all.
    pub(super) fn write(
        &self,
        name: &str,
        fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    ) -> Result<(), Error> {
        replace_file(&self.path(name), |file| fill(file)).map_err(Error::Write)
    }

    /// Marks the dataset as complete, once every other file is written, and removes what a killed process left.
    pub(super) fn finish(&self, manifest: &Manifest) -> Result<(), Error> {
        let below = Split::ALL.map(|split| self.path(split.name()));
        for folder in below.iter().chain([&self.root]) {
            for entry in fs_err::read_dir(folder).map_err(Error::Open)? {
                let entry = entry.map_err(Error::Open)?;
                if is_temporary(&entry.file_name()) {
                    fs_err::remove_file(entry.path()).map_err(Error::Write)?;
                }
            }
        }
        self.write_manifest(WHOLE, manifest)?;
        match fs_err::remove_file(self.path(BEGUN)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::Write(error)),
            _ => Ok(()),
        }
    }

    fn write_manifest(&self, name: &str, manifest: &Manifest) -> Result<(), Error> {
        self.write(name, |out| {
            serde_json::to_writer_pretty(&mut *out, manifest)?;
            out.write_all(b"\n")
        })
    }
}

/// The hash in a manifest, or `None` if there is no such file.
fn told(path: &Path) -> Result<Option<String>, Error> {
    let size = match fs_err::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::Open(error)),
    };
    let shared: Arc<Path> = path.into();
    if size > MAX_MANIFEST_BYTES {
        return Err(hark_corpus::Error::TooLarge {
            path: shared,
            limit: MAX_MANIFEST_BYTES,
        }
        .into());
    }
    let bytes = fs_err::read(path).map_err(Error::Open)?;
    let told: Header =
        serde_json::from_slice(&bytes).map_err(|error| hark_corpus::Error::from_json(&shared, 0, error))?;
    if told.format != FORMAT || told.version != VERSION {
        return Err(Error::Version {
            path: shared,
            got: format!("{} {}", told.format, told.version),
            expected: format!("{FORMAT} {VERSION}"),
        });
    }
    Ok(Some(told.hash))
}
