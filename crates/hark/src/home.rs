//! Where hark keeps what it downloads and computes.

use std::path::PathBuf;

use anyhow::{Context, Result};

/// The folder of models and caches: `HARK_HOME`, or `hark` in the user's cache folder as the XDG specification has it.
#[derive(Debug, Clone)]
pub struct Home(PathBuf);

impl Home {
    /// Finds the folder; it need not exist yet.
    pub fn find() -> Result<Self> {
        let set = |name| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let path = set("HARK_HOME")
            .or_else(|| {
                set("XDG_CACHE_HOME")
                    .filter(|path| path.is_absolute())
                    .map(|path| path.join("hark"))
            })
            .or_else(|| set("HOME").map(|path| path.join(".cache").join("hark")))
            .context("no place for models and caches: set HARK_HOME to a folder")?;
        Ok(Self(path))
    }

    /// A home in this folder, for tests.
    #[cfg(test)]
    pub fn at(folder: &std::path::Path) -> Self {
        Self(folder.to_owned())
    }

    /// Models, one folder each.
    pub fn models(&self) -> PathBuf {
        self.0.join("models")
    }

    /// Downloads that are not complete.
    pub fn partial(&self) -> PathBuf {
        self.0.join("partial")
    }

    /// Decoded recordings and features that trainings share.
    pub fn training(&self) -> PathBuf {
        self.0.join("training")
    }

    /// Soundscapes that recipes asked for, one folder for each setting.
    pub fn soundscapes(&self) -> PathBuf {
        self.0.join("soundscapes")
    }

    /// Vectors of splits that were evaluated before.
    pub fn evaluations(&self) -> PathBuf {
        self.0.join("evaluations")
    }

    /// Caption vectors that were computed before.
    pub fn embeddings(&self) -> PathBuf {
        self.0.join("embeddings")
    }
}
