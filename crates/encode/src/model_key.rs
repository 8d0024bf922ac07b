//! Keys that tell apart what different models computed.
//!
//! | function | reads | for |
//! |---|---|---|
//! | [`fingerprint`] | card, tokenizer, 64 pieces of the weights | libraries and tables, which store it and check it whenever they are opened |
//! | [`folder_hash`] | card, tokenizer, all of the weights | caches: a training may change only some of the weights |
//! | [`tower_hash`] | the parameters of one tower in memory | features of towers that a training leaves as they are |
//! | [`file_sha256`] | one file | a card's note of the file that it was imported from |
//!
//! [`SentenceFolder::fingerprint`](crate::sentence::SentenceFolder::fingerprint) is that of sentence encoders.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use burn::module::Module;
use hark_work::files::hex;
use sha2::{Digest, Sha256};

use crate::model_files::{CARD, ModelFiles, SENTENCE, TOKENIZER, WEIGHTS};
use crate::sentence::SentenceModel;
use crate::{Error, weights_file};

impl ModelFiles {
    /// A key of 16 hexadecimal digits that tells two models apart, see [`fingerprint`].
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn fingerprint(&self) -> Result<String, Error> {
        match self {
            Self::Folder(folder) => fingerprint(folder),
            Self::BuiltIn(_) => Ok(hex(&self.hash()?[..8])),
        }
    }

    /// A SHA-256 over everything that decides what the model computes.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn hash(&self) -> Result<[u8; 32], Error> {
        match self {
            Self::Folder(folder) => folder_hash(folder),
            Self::BuiltIn(model) => Ok(model.sha256),
        }
    }
}

/// A key of 16 hexadecimal digits that is quick to compute: it looks at pieces from all over the weights, not at all of
/// them. Libraries store it, so it stays the same in every version of hark.
///
/// # Errors
/// If a file cannot be read.
pub fn fingerprint(folder: &Path) -> Result<String, Error> {
    const PIECES: u64 = 64;
    const PIECE: usize = 1 << 14;
    let mut hash = Sha256::new();
    hash.update(fs_err::read(folder.join(CARD))?);
    let tokenizer = folder.join(TOKENIZER);
    if tokenizer.is_file() {
        hash.update(fs_err::read(tokenizer)?);
    }
    let sentence = folder.join(SENTENCE);
    if sentence.is_dir() {
        hash.update(SentenceModel::open(&sentence)?.fingerprint()?);
    }
    let mut weights = fs_err::File::open(folder.join(WEIGHTS))?;
    let length = weights.metadata()?.len();
    hash.update(length.to_le_bytes());
    let mut piece = Vec::with_capacity(PIECE);
    for nth in 0..PIECES {
        piece.clear();
        weights.seek(SeekFrom::Start(length / PIECES * nth))?;
        (&mut weights).take(PIECE as u64).read_to_end(&mut piece)?;
        hash.update(&piece);
    }
    Ok(hex(&hash.finalize()[..8]))
}

/// A SHA-256 over everything that decides what a model computes. It reads all of the weights.
///
/// # Errors
/// If a file cannot be read.
pub fn folder_hash(folder: &Path) -> Result<[u8; 32], Error> {
    let mut hash = Sha256::new();
    for name in [CARD, TOKENIZER, WEIGHTS] {
        let path = folder.join(name);
        if path.is_file() {
            let mut file = fs_err::File::open(path)?;
            // The length first: no bytes can move from one file to the next without a change.
            hash.update(file.metadata()?.len().to_le_bytes());
            std::io::copy(&mut file, &mut hash)?;
        }
        hash.update([0]);
    }
    let sentence = folder.join(SENTENCE);
    if sentence.is_dir() {
        hash.update(SentenceModel::open(&sentence)?.fingerprint()?);
    }
    Ok(hash.finalize().into())
}

/// A SHA-256 over the names and numbers of all parameters whose names begin with `prefix`, such as `audio.tower.`.
pub fn tower_hash(network: &impl Module, prefix: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    for tensor in weights_file::parameters(network) {
        if tensor.name.starts_with(prefix) {
            hash.update(tensor.name.as_bytes());
            for number in (tensor.numbers)() {
                hash.update(number.to_le_bytes());
            }
        }
    }
    hash.finalize().into()
}

/// The SHA-256 of a file, as 64 hexadecimal digits.
///
/// # Errors
/// If it cannot be read.
pub fn file_sha256(path: &Path) -> Result<String, Error> {
    let mut hash = Sha256::new();
    std::io::copy(&mut fs_err::File::open(path)?, &mut hash)?;
    Ok(hex(&hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model_files::EVERYDAY;

    fn folder(card: &str, tokenizer: Option<&str>, weights: &[u8]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs_err::write(folder.path().join(CARD), card).unwrap();
        if let Some(tokenizer) = tokenizer {
            fs_err::write(folder.path().join(TOKENIZER), tokenizer).unwrap();
        }
        fs_err::write(folder.path().join(WEIGHTS), weights).unwrap();
        folder
    }

    /// Libraries hold this value: it must never change.
    #[test]
    fn the_fingerprint_is_the_one_that_libraries_store() {
        let weights: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        let model = folder("{}", Some("tokens"), &weights);
        let mut expected = Sha256::new();
        expected.update(b"{}tokens");
        expected.update(3_000_000_u64.to_le_bytes());
        for nth in 0..64 {
            let start = 3_000_000 / 64 * nth;
            expected.update(&weights[start..start + (1 << 14)]);
        }
        assert_eq!(fingerprint(model.path()).unwrap(), hex(&expected.finalize()[..8]));
    }

    #[test]
    fn any_byte_of_a_model_changes_its_hash() {
        let weights = vec![7; 3_000_000];
        let base = folder("{}", Some("ab"), &weights);
        let key = |folder: &tempfile::TempDir| folder_hash(folder.path()).unwrap();
        let mut changed = weights.clone();
        // Between two of the pieces that the fingerprint reads.
        changed[3_000_000 / 64 + (1 << 14) + 5] = 8;
        let other = folder("{}", Some("ab"), &changed);
        assert_ne!(key(&base), key(&other));
        assert_eq!(
            fingerprint(base.path()).unwrap(),
            fingerprint(other.path()).unwrap()
        );
        assert_ne!(key(&base), key(&folder("{}a", Some("b"), &weights)));
        assert_ne!(key(&base), key(&folder("{}ab", None, &weights)));
        assert_eq!(key(&base), key(&folder("{}", Some("ab"), &weights)));
    }

    #[test]
    fn a_files_hash_is_its_sha256() {
        let model = folder("abc", None, b"");
        assert_eq!(
            file_sha256(&model.path().join(CARD)).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn the_built_in_model_has_the_hash_that_is_stated() {
        let sentence = ModelFiles::BuiltIn(&EVERYDAY).sentence().unwrap();
        let mut hash = Sha256::new();
        hash.update(EVERYDAY.card);
        hash.update(EVERYDAY.weights);
        hash.update(sentence.fingerprint().unwrap());
        assert_eq!(<[u8; 32]>::from(hash.finalize()), EVERYDAY.sha256);
    }
}
