//! Where the files of a model are: in a folder, or in the program.

use std::path::{Path, PathBuf};

use crate::Error;
use crate::card::Card;
use crate::checkpoint::Checkpoint;
use crate::sentence::{SentenceModel, StaticEncoder};

/// Files of a model folder.
pub const CARD: &str = "card.json";
/// See [`CARD`].
pub const WEIGHTS: &str = "model.safetensors";
/// See [`CARD`].
pub const TOKENIZER: &str = "tokenizer.json";
/// See [`CARD`].
pub const SENTENCE: &str = "sentence";

/// The files of a model. A path becomes one of a folder: `AudioEncoder::open(path, ..)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelFiles {
    /// A folder, as [`model::save`](crate::model::save) writes it.
    Folder(PathBuf),
    /// Part of the program.
    BuiltIn(&'static BuiltIn),
}

/// A model that is part of the program. Its texts are embedded by the sentence encoder that is part of it, too.
#[derive(Debug, PartialEq, Eq)]
pub struct BuiltIn {
    /// Its name.
    pub name: &'static str,
    /// `card.json`.
    pub card: &'static [u8],
    /// `model.safetensors`.
    pub weights: &'static [u8],
    /// See [`ModelFiles::hash`]; a search need not compute it, a test does.
    pub sha256: [u8; 32],
}

/// The dual encoder that knows everyday sounds.
pub static EVERYDAY: BuiltIn = BuiltIn {
    name: "everyday",
    card: include_bytes!("../models/everyday/card.json"),
    weights: include_bytes!("../models/everyday/model.safetensors"),
    sha256: [
        0xec, 0xc0, 0xd6, 0xf2, 0x88, 0x3f, 0x99, 0x45, 0xf0, 0x57, 0xe1, 0xdc, 0xb0, 0x77, 0x9a, 0xd8, 0x1b,
        0xca, 0x48, 0x52, 0x08, 0xdd, 0x87, 0x8a, 0xfa, 0x3b, 0x7d, 0xc0, 0x8c, 0x57, 0x25, 0xf4,
    ],
};

impl From<&Path> for ModelFiles {
    fn from(folder: &Path) -> Self {
        Self::Folder(folder.to_owned())
    }
}

impl From<&PathBuf> for ModelFiles {
    fn from(folder: &PathBuf) -> Self {
        Self::Folder(folder.clone())
    }
}

impl From<&ModelFiles> for ModelFiles {
    fn from(files: &ModelFiles) -> Self {
        files.clone()
    }
}

impl ModelFiles {
    /// The folder, where there is one.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Self::Folder(folder) => Some(folder),
            Self::BuiltIn(_) => None,
        }
    }

    /// Where a file is; for one in the program, the model's name and the file's, which messages show.
    pub fn path(&self, file: &str) -> PathBuf {
        match self {
            Self::Folder(folder) => folder.join(file),
            Self::BuiltIn(model) => Path::new(model.name).join(file),
        }
    }

    /// The model's card.
    ///
    /// # Errors
    /// As [`Card::read`].
    pub fn card(&self) -> Result<Card, Error> {
        match self {
            Self::Folder(folder) => Card::read(&folder.join(CARD)),
            Self::BuiltIn(model) => Card::parse(model.card, &self.path(CARD)),
        }
    }

    /// The model's weights.
    ///
    /// # Errors
    /// As [`Checkpoint::open`], and [`Error::MissingFile`].
    pub fn weights(&self) -> Result<Checkpoint, Error> {
        let path = self.path(WEIGHTS);
        match self {
            Self::Folder(_) if path.is_file() => Checkpoint::open(&path),
            Self::Folder(_) => Err(Error::MissingFile { path }),
            Self::BuiltIn(model) => Checkpoint::of_bytes(model.weights, &path),
        }
    }

    /// Bytes of the weights.
    ///
    /// # Errors
    /// If the file cannot be looked at.
    pub fn weights_bytes(&self) -> Result<u64, Error> {
        match self {
            Self::Folder(folder) => Ok(fs_err::metadata(folder.join(WEIGHTS))?.len()),
            Self::BuiltIn(model) => Ok(model.weights.len() as u64),
        }
    }

    /// The sentence encoder that embeds the model's texts.
    ///
    /// # Errors
    /// As [`SentenceModel::open`].
    pub fn sentence(&self) -> Result<SentenceModel, Error> {
        match self {
            Self::Folder(folder) => SentenceModel::open(&folder.join(SENTENCE)),
            Self::BuiltIn(_) => Ok(SentenceModel::Static(Box::new(StaticEncoder::built_in()?))),
        }
    }
}
