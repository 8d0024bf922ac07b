//! A fitted encoder as a folder: the model, and a card for people.

use std::path::Path;

use hark_encode::sentence::{Card, StaticEncoder};
use hark_work::files::{self, hex};
use sha2::{Digest, Sha256};

use super::Distilled;
use crate::Error;

/// The model's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// Its size.
    pub bytes: usize,
    /// Its SHA-256.
    pub sha256: String,
}

impl Distilled {
    /// Writes the folder. The model comes last: a folder with one is complete.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn save(&self, folder: &Path, card: &Card) -> Result<Saved, Error> {
        let bytes = StaticEncoder::to_bytes(&self.parts, card)?;
        let saved = Saved {
            bytes: bytes.len(),
            sha256: hex(&Sha256::digest(&bytes)),
        };
        fs_err::create_dir_all(folder)?;
        files::write(&folder.join("README.md"), self.readme(card, &saved).as_bytes())?;
        files::write(&folder.join("model.safetensors"), &bytes)?;
        Ok(saved)
    }

    fn readme(&self, card: &Card, saved: &Saved) -> String {
        let captions = card.captions.iter();
        let captions = captions.map(|file| {
            format!(
                "- `{}`, {} captions, sha256 {}\n",
                file.file, file.captions, file.sha256
            )
        });
        format!(
            "# {}\n\nA static sentence encoder: vectors of {} units ({} words and word pieces, {} word pairs), {} \
             dimensions, 8 bits.\n\nTeacher: `{}` (licence {}, fingerprint {})\n\nFitted on {} different captions \
             (licence {}) of\n\n{}\nby\n\n```sh\n{}\n```\n\n`model.safetensors`: {} bytes, sha256 {}\n",
            card.name,
            self.words + self.pairs,
            self.words,
            self.pairs,
            self.parts.bias.len(),
            card.teacher,
            card.teacher_licence,
            card.teacher_fingerprint,
            self.captions,
            card.captions_licence,
            captions.collect::<String>(),
            card.command,
            saved.bytes,
            saved.sha256,
        )
    }
}
