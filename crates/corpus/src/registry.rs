//! Datasets by name: where the ones of this machine are.
//!
//! In: the folder that hark keeps its own files in, always an argument. Out: the folder of a dataset, by a name such as
//! `clotho`. `datasets.json` holds the names, with a format version; it is replaced as a whole, and changed by one process
//! at a time. Refused: names that could be paths, folders that are not there, and a file of another program or version.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use hark_work::files;
use serde::{Deserialize, Serialize};

use crate::{DatasetConfig, Error, Exclusion};

/// The file.
pub const REGISTRY: &str = "datasets.json";
const LOCK: &str = ".datasets.lock";
const FORMAT: &str = "hark-datasets";
const VERSION: u32 = 1;
/// A larger file is not a registry.
const MAX_BYTES: u64 = 1 << 20;

/// Names of datasets and their folders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Registry {
    folders: BTreeMap<String, PathBuf>,
}

/// What `datasets.json` says.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    format: String,
    version: u32,
    datasets: BTreeMap<String, PathBuf>,
}

/// Records that the dataset of this name is in `folder`, instead of where it was before.
///
/// ```
/// use hark_corpus::registry::{Registry, register};
///
/// # let home = tempfile::tempdir()?;
/// # let folder = tempfile::tempdir()?;
/// register(home.path(), "clotho", folder.path())?;
/// assert!(Registry::open(home.path())?.folder("clotho").is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::DatasetName`], [`Error::Open`] if the folder is not there, [`Error::Write`], and as [`Registry::open`].
pub fn register(home: &Path, name: &str, folder: &Path) -> Result<(), Error> {
    if !is_name(name) {
        return Err(Error::DatasetName {
            name: name.to_owned(),
        });
    }
    let folder = fs_err::canonicalize(folder).map_err(Error::Open)?;
    if !folder.is_dir() {
        return Err(Error::Read {
            path: folder.into(),
            source: std::io::ErrorKind::NotADirectory.into(),
        });
    }
    fs_err::create_dir_all(home).map_err(Error::Write)?;
    let lock = fs_err::File::create(home.join(LOCK)).map_err(Error::Write)?;
    lock.file().lock().map_err(Error::Write)?;
    let mut datasets = Registry::open(home)?.folders;
    datasets.insert(name.to_owned(), folder);
    let stored = Stored {
        format: FORMAT.to_owned(),
        version: VERSION,
        datasets,
    };
    files::replace_file(&home.join(REGISTRY), |file| {
        serde_json::to_writer_pretty(&mut *file, &stored)?;
        std::io::Write::write_all(file, b"\n")
    })
    .map_err(Error::Write)
}

/// Whether this is a name: letters, digits, `-`, `_` and `.`, and no path.
fn is_name(name: &str) -> bool {
    let known = |letter: char| letter.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&letter);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(known)
}

impl Registry {
    /// The datasets that were registered in this folder; none if nothing was.
    ///
    /// # Errors
    /// [`Error::Registry`] if the file is of another program or version, and what can be wrong with a JSON file.
    pub fn open(home: &Path) -> Result<Self, Error> {
        let path = home.join(REGISTRY);
        let bytes = match fs_err::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(Error::Open(error)),
            Ok(metadata) if metadata.len() > MAX_BYTES => {
                return Err(Error::TooLarge {
                    path: path.into(),
                    limit: MAX_BYTES,
                });
            }
            Ok(_) => fs_err::read(&path).map_err(Error::Open)?,
        };
        let stored: Stored = serde_json::from_slice(&bytes)
            .map_err(|error| Error::from_json(&path.as_path().into(), 0, error))?;
        if stored.format != FORMAT || stored.version != VERSION {
            return Err(Error::Registry {
                path,
                got: format!("{} {}", stored.format, stored.version),
                expected: format!("{FORMAT} {VERSION}"),
            });
        }
        Ok(Self {
            folders: stored.datasets,
        })
    }

    /// Where the dataset of this name is.
    pub fn folder(&self, name: &str) -> Option<&Path> {
        self.folders.get(name).map(PathBuf::as_path)
    }

    /// All names, in alphabetical order, with their folders.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.folders
            .iter()
            .map(|(name, folder)| (name.as_str(), folder.as_path()))
    }

    /// The dataset that a text names: `NAME`, `KIND:NAME`, or as [`DatasetConfig::named`]. The files in the folder of a
    /// name say which kind it is.
    ///
    /// # Errors
    /// As [`DatasetConfig::named`], [`Error::UnknownLayout`], and [`Error::NotRegistered`] for a name alone that is neither
    /// registered nor a file or folder.
    pub fn named(&self, text: &str, split: Option<&str>) -> Result<Option<DatasetConfig>, Error> {
        if let Some(folder) = self.folder(text) {
            let kind = kind_of(folder).ok_or_else(|| Error::UnknownLayout {
                name: text.to_owned(),
                path: folder.to_owned(),
            })?;
            return DatasetConfig::named(&format!("{kind}:{}", folder.display()), split);
        }
        let config = DatasetConfig::named(text, split)?;
        let path = Path::new(text);
        if config.is_none() && bare(path).is_some() && path.extension().is_none() && !path.exists() {
            return Err(Error::NotRegistered {
                name: text.to_owned(),
            });
        }
        // A folder of that name comes first, as it always did.
        Ok(config.map(|config| match config.unregistered() {
            Some(name) if Path::new(name).exists() => config,
            _ => config.located(self),
        }))
    }
}

/// The kind of a dataset, by the files in its folder.
fn kind_of(folder: &Path) -> Option<&'static str> {
    let has = |name: &str| folder.join(name).exists();
    let clotho = ["development", "validation", "evaluation"];
    if clotho
        .iter()
        .any(|split| has(&format!("clotho_captions_{split}.csv")))
    {
        Some("clotho")
    } else if has("json_files") {
        Some("wavcaps")
    } else if ["train.csv", "val.csv", "test.csv"].into_iter().any(has) {
        Some("audiocaps")
    } else {
        None
    }
}

/// The name in a path that is nothing but a name.
fn bare(path: &Path) -> Option<&str> {
    let mut parts = path.components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(name)), None) => name.to_str(),
        _ => None,
    }
}

impl DatasetConfig {
    /// With the folders of datasets that it names. A name that is not registered stays: see
    /// [`DatasetConfig::unregistered`].
    #[must_use]
    pub fn located(mut self, registry: &Registry) -> Self {
        for path in self.roots() {
            if let Some(folder) = bare(path).and_then(|name| registry.folder(name)) {
                folder.clone_into(path);
            }
        }
        self
    }

    /// The first name in it that stands for no folder. Paths of recipes are absolute, so that a root without a separator is
    /// the name of a dataset.
    pub fn unregistered(&self) -> Option<&str> {
        match self {
            Self::Clotho { root, .. } | Self::Audiocaps { root, .. } | Self::Folder { root } => bare(root),
            Self::Wavcaps { root, exclude, .. } => bare(root).or_else(|| match exclude {
                Some(Exclusion::Clotho(folder)) => bare(folder),
                _ => None,
            }),
            Self::Table { .. } => None,
        }
    }

    /// The paths that may be names.
    fn roots(&mut self) -> Vec<&mut PathBuf> {
        match self {
            Self::Clotho { root, .. } | Self::Audiocaps { root, .. } | Self::Folder { root } => vec![root],
            Self::Wavcaps { root, exclude, .. } => {
                let metadata = match exclude {
                    Some(Exclusion::Clotho(folder)) => Some(folder),
                    _ => None,
                };
                std::iter::once(root).chain(metadata).collect()
            }
            Self::Table { .. } => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clotho(root: &str) -> DatasetConfig {
        DatasetConfig::Clotho {
            root: root.into(),
            split: "evaluation".into(),
        }
    }

    #[test]
    fn names_are_kept_and_replaced() {
        let (home, first, second) = (
            tempfile::tempdir().unwrap(),
            tempfile::tempdir().unwrap(),
            tempfile::tempdir().unwrap(),
        );
        let home = home.path().join("new");
        assert_eq!(Registry::open(&home).unwrap(), Registry::default());
        register(&home, "clotho", first.path()).unwrap();
        register(&home, "sounds", first.path()).unwrap();
        register(&home, "clotho", second.path()).unwrap();
        let registry = Registry::open(&home).unwrap();
        let expected = second.path().canonicalize().unwrap();
        assert_eq!(registry.folder("clotho"), Some(expected.as_path()));
        assert_eq!(
            registry.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            ["clotho", "sounds"]
        );
    }

    #[test]
    fn what_cannot_be_registered_changes_nothing() {
        let (home, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for name in ["", ".", "..", "a/b", "a b", "a:b", ".x"] {
            let error = register(home.path(), name, folder.path()).unwrap_err();
            assert!(matches!(error, Error::DatasetName { .. }), "{name}: {error}");
        }
        let gone = register(home.path(), "clotho", &folder.path().join("gone")).unwrap_err();
        assert!(gone.to_string().contains("gone"), "{gone}");
        fs_err::write(folder.path().join("file"), "x").unwrap();
        register(home.path(), "clotho", &folder.path().join("file")).unwrap_err();
        assert!(!home.path().join(REGISTRY).exists());
    }

    #[test]
    fn a_file_of_another_kind_or_version_is_refused() {
        let home = tempfile::tempdir().unwrap();
        for (text, expected) in [
            (
                "{\"format\":\"hark-datasets\",\"version\":2,\"datasets\":{}}",
                "hark-datasets 2",
            ),
            ("{\"format\":\"x\",\"version\":1,\"datasets\":{}}", "x 1"),
            ("[]", "unexpected JSON"),
            ("{\"format\":", "unexpected JSON"),
        ] {
            fs_err::write(home.path().join(REGISTRY), text).unwrap();
            let error = Registry::open(home.path()).unwrap_err().to_string();
            assert!(
                error.contains(expected) && error.contains(REGISTRY),
                "{text}: {error}"
            );
            register(home.path(), "clotho", home.path()).unwrap_err();
        }
    }

    #[test]
    fn a_name_stands_for_its_folder_and_a_path_for_itself() {
        let (home, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        register(home.path(), "clotho", folder.path()).unwrap();
        let registry = Registry::open(home.path()).unwrap();
        let path = folder.path().canonicalize().unwrap();
        assert_eq!(
            clotho("clotho").located(&registry),
            clotho(path.to_str().unwrap())
        );
        for other in ["/data/clotho", "./clotho", "data/clotho", "audiocaps"] {
            assert_eq!(clotho(other).located(&registry), clotho(other));
        }
        assert_eq!(clotho("audiocaps").unregistered(), Some("audiocaps"));
        assert_eq!(clotho("/data/clotho").unregistered(), None);
        let wavcaps = DatasetConfig::Wavcaps {
            root: "/data/wavcaps".into(),
            sources: Vec::new(),
            exclude: Some(Exclusion::Clotho("clotho".into())),
            exclude_audioset: None,
        };
        assert_eq!(wavcaps.unregistered(), Some("clotho"));
        assert_eq!(wavcaps.located(&registry).unregistered(), None);
    }

    #[test]
    fn the_files_of_a_folder_say_which_kind_it_is() {
        let (home, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        register(home.path(), "mine", folder.path()).unwrap();
        let registry = Registry::open(home.path()).unwrap();
        let error = registry.named("mine", None).unwrap_err();
        assert!(matches!(error, Error::UnknownLayout { .. }), "{error}");
        fs_err::write(folder.path().join("clotho_captions_evaluation.csv"), "").unwrap();
        let found = registry.named("mine", None).unwrap().unwrap();
        let path = folder.path().canonicalize().unwrap();
        assert_eq!(found, clotho(path.to_str().unwrap()));
        assert_eq!(registry.named("clotho:mine", None).unwrap().unwrap(), found);
        assert_eq!(registry.named("recipe.toml", None).unwrap(), None);
        let error = registry.named("other", None).unwrap_err().to_string();
        assert!(error.contains("no dataset is called `other`"), "{error}");
    }
}
