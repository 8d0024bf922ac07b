//! Where hark keeps what it downloads and computes: the one place that asks the environment for folders.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hark_corpus::Registry;
use hark_models::{ModelStore, Network};

/// Caches are in `HARK_HOME`, or in `hark` in the user's cache folder by the XDG specification. Libraries and models take hours to
/// make and are not a cache: they are in `HARK_HOME` too, or in `hark` in the user's data folder.
#[derive(Debug, Clone)]
pub struct Home {
    cache: PathBuf,
    data: PathBuf,
}

impl Home {
    /// The folders of the environment; they need not exist yet.
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
                .context("no folder for models and caches: set HARK_HOME to one")
        };
        Ok(Self {
            cache: place("XDG_CACHE_HOME", ".cache")?,
            data: place("XDG_DATA_HOME", ".local/share")?,
        })
    }

    /// The models of this machine. They take hours to download or train and are not a cache; those of earlier versions of hark,
    /// which kept them there, are used where they are.
    pub fn models(&self) -> ModelStore {
        let before = ModelStore::at(&self.cache);
        let store = ModelStore::at(&self.data);
        if before.folder().is_dir() && !store.folder().is_dir() {
            before
        } else {
            store
        }
    }

    /// The folder of what is no cache; the registry of datasets is in it.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The datasets that have a name on this machine.
    pub fn datasets(&self) -> Result<Registry> {
        Ok(Registry::open(&self.data)?)
    }

    /// Decoded recordings and features that trainings share.
    pub fn training(&self) -> PathBuf {
        self.cache.join("training")
    }

    /// Soundscapes of recipes, one folder for each setting.
    pub fn soundscapes(&self) -> PathBuf {
        self.cache.join("soundscapes")
    }

    /// Embeddings of splits that were evaluated before.
    pub fn evaluations(&self) -> PathBuf {
        self.cache.join("evaluations")
    }

    /// Libraries, one folder each.
    pub fn libraries(&self) -> PathBuf {
        self.data.join("libraries")
    }

    /// Caption embeddings that were computed before.
    pub fn embeddings(&self) -> PathBuf {
        self.cache.join("embeddings")
    }
}

/// `KIND:~/PATH` with the user's folder: a shell puts it in for a tilde at the beginning of a word alone.
pub fn with_tilde(data: &str) -> String {
    match (data.split_once(":~/"), std::env::var("HOME")) {
        (Some((kind, path)), Ok(home)) => format!("{kind}:{home}/{path}"),
        _ => data.to_owned(),
    }
}

/// The network of the environment: `HF_ENDPOINT` names a mirror of the hub, `HF_TOKEN` is for a hub that asks for it.
pub fn network() -> Network {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    Network::new(
        set("HF_ENDPOINT").as_deref().unwrap_or(Network::PUBLIC_HUB),
        set("HF_TOKEN"),
    )
}

#[cfg(test)]
mod tests {
    use super::with_tilde;

    #[test]
    fn a_tilde_behind_a_kind_is_the_users_folder() {
        if let Ok(home) = std::env::var("HOME") {
            assert_eq!(with_tilde("clotho:~/data"), format!("clotho:{home}/data"));
        }
        for other in ["clotho:/data/~/x", "clotho", "~/recipe.toml"] {
            assert_eq!(with_tilde(other), other);
        }
    }
}
