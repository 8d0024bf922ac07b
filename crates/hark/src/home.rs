//! Where hark keeps what it downloads and computes.

use std::path::PathBuf;

use anyhow::{Context, Result};

/// The folder of models and caches: `HARK_HOME`, or `hark` in the user's cache folder as the XDG specification has it; and that
/// of libraries, which took hours to make and are no cache: in `HARK_HOME` too, or `hark` in the user's data folder.
#[derive(Debug, Clone)]
pub struct Home {
    cache: PathBuf,
    data: PathBuf,
}

impl Home {
    /// Finds the folder; it need not exist yet.
    pub fn find() -> Result<Self> {
        let set = |name| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        if let Some(home) = set("HARK_HOME") {
            return Ok(Self {
                cache: home.clone(),
                data: home,
            });
        }
        let place = |variable, below: &str| {
            set(variable)
                .filter(|path| path.is_absolute())
                .or_else(|| set("HOME").map(|home| home.join(below)))
                .map(|path| path.join("hark"))
                .context("no place for models and caches: set HARK_HOME to a folder")
        };
        Ok(Self {
            cache: place("XDG_CACHE_HOME", ".cache")?,
            data: place("XDG_DATA_HOME", ".local/share")?,
        })
    }

    /// A home in this folder, for tests.
    #[cfg(test)]
    pub fn at(folder: &std::path::Path) -> Self {
        Self {
            cache: folder.to_owned(),
            data: folder.to_owned(),
        }
    }

    /// Models, one folder each.
    pub fn models(&self) -> PathBuf {
        self.cache.join("models")
    }

    /// Downloads that are not complete.
    pub fn partial(&self) -> PathBuf {
        self.cache.join("partial")
    }

    /// Decoded recordings and features that trainings share.
    pub fn training(&self) -> PathBuf {
        self.cache.join("training")
    }

    /// Soundscapes that recipes asked for, one folder for each setting.
    pub fn soundscapes(&self) -> PathBuf {
        self.cache.join("soundscapes")
    }

    /// Vectors of splits that were evaluated before.
    pub fn evaluations(&self) -> PathBuf {
        self.cache.join("evaluations")
    }

    /// Libraries, one folder each.
    pub fn libraries(&self) -> PathBuf {
        self.data.join("libraries")
    }

    /// Caption vectors that were computed before.
    pub fn embeddings(&self) -> PathBuf {
        self.cache.join("embeddings")
    }
}
