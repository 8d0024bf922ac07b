//! Where a library is kept, and how it is opened there.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hark_catalogue::sqlite::{self, SqliteStore};
use hark_catalogue::{Error as CatalogueError, PostgresStore, Settings, Store};
use hark_work::progress::{counted, group_digits};
use serde::Serialize;

use crate::error::Error;

/// Where a library is kept.
#[derive(Debug, Clone)]
pub enum LibraryLocation {
    /// A folder on this machine.
    Folder(PathBuf),
    /// A PostgreSQL server with pgvector, which several machines can share.
    Server {
        /// `postgres://user:password@host/database`.
        url: String,
        /// The library's name on the server.
        name: String,
    },
}

impl From<PathBuf> for LibraryLocation {
    fn from(folder: PathBuf) -> Self {
        Self::Folder(folder)
    }
}

impl From<&Path> for LibraryLocation {
    fn from(folder: &Path) -> Self {
        Self::Folder(folder.to_owned())
    }
}

/// Without the address of a server, which may contain a password.
impl fmt::Display for LibraryLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "{}", folder.display()),
            Self::Server { name, .. } => write!(f, "{name} on the server"),
        }
    }
}

impl LibraryLocation {
    /// Opens the catalogue; `None` if there is no library. `threads` search a folder's catalogue.
    ///
    /// # Errors
    /// If it cannot be read or is of a newer format.
    pub fn open(&self, threads: usize) -> Result<Option<Arc<dyn Store>>, CatalogueError> {
        let opened: Result<Arc<dyn Store>, CatalogueError> = match self {
            Self::Folder(folder) => {
                SqliteStore::open(folder).map(|store| Arc::new(store.with_threads(threads)) as _)
            }
            Self::Server { url, name } => PostgresStore::open(url, name).map(|store| Arc::new(store) as _),
        };
        match opened {
            Ok(store) => Ok(Some(store)),
            Err(CatalogueError::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens the catalogue for changes, and creates it if there is none. In a folder, one process at a time changes a
    /// library: the one that holds the lock.
    pub(crate) fn open_or_create(
        &self,
        settings: &Settings,
        threads: usize,
    ) -> Result<(Arc<dyn Store>, Option<sqlite::Lock>), Error> {
        Ok(match self {
            Self::Folder(folder) => {
                let store = SqliteStore::open_or_create(folder, settings).map_err(mismatch_hint)?;
                let store = store.with_threads(threads);
                let lock = store.lock()?;
                (Arc::new(store), Some(lock))
            }
            Self::Server { url, name } => {
                let store = PostgresStore::open_or_create(url, name, settings).map_err(mismatch_hint)?;
                (Arc::new(store), None)
            }
        })
    }

    /// Removes everything from the library but its folders, and gives it these settings. One that cannot be read is deleted.
    pub(crate) fn reset(&self, settings: &Settings) -> Result<(), Error> {
        match self {
            Self::Folder(folder) => match SqliteStore::renew(folder, settings) {
                Ok(_) | Err(CatalogueError::Missing { .. }) => {}
                Err(error) if error.is_of_library() => SqliteStore::remove(folder)?,
                Err(error) => return Err(error.into()),
            },
            Self::Server { url, name } => {
                let roots = self.open(1)?.map(|store| store.roots()).transpose()?;
                PostgresStore::remove(url, name)?;
                let store = PostgresStore::open_or_create(url, name, settings)?;
                for root in roots.unwrap_or_default() {
                    store.add_root(&root)?;
                }
            }
        }
        Ok(())
    }

    /// Whether one process at a time changes the library.
    pub(crate) fn has_one_writer(&self) -> bool {
        matches!(self, Self::Folder(_))
    }

    /// Deletes the library; nothing happens to its recordings. Whether there was one.
    ///
    /// # Errors
    /// If another process indexes it, or it cannot be reached.
    pub fn delete(&self) -> Result<bool, Error> {
        match self {
            Self::Folder(folder) => {
                let was_there = folder.join(sqlite::CATALOGUE).exists();
                SqliteStore::remove(folder)?;
                if was_there {
                    // Its locks are all that is left, unless somebody keeps files of their own here.
                    for lock in ["indexing.lock", "making.lock"] {
                        let _ = fs_err::remove_file(folder.join(lock));
                    }
                    let _ = fs_err::remove_dir(folder);
                }
                Ok(was_there)
            }
            Self::Server { url, name } => {
                let was_there = self.open(1)?.is_some();
                PostgresStore::remove(url, name)?;
                Ok(was_there)
            }
        }
    }

    /// Names of the libraries in a folder of libraries.
    pub fn names_in(folder: &Path) -> Vec<String> {
        let entries = fs_err::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter(|entry| entry.path().join(sqlite::CATALOGUE).is_file())
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// The libraries in a folder of libraries, each with what is in it.
    pub fn list_in(folder: &Path) -> Vec<ListedLibrary> {
        let listed = |name: String| {
            let opened = Self::Folder(folder.join(&name)).open(1);
            let content = opened.and_then(|store| {
                let Some(store) = store else { return Ok(None) };
                let seen = store.overview()?;
                Ok(Some(LibraryContent {
                    model: store.settings().model.clone(),
                    recordings: seen.files,
                    seconds: seen.seconds,
                    folders: seen.roots,
                }))
            });
            let (content, error) = match content {
                Ok(content) => (content, None),
                Err(error) => (None, Some(hark_work::files::explain(&error))),
            };
            ListedLibrary { name, content, error }
        };
        Self::names_in(folder).into_iter().map(listed).collect()
    }
}

/// A library in a folder of libraries.
#[derive(Debug, Serialize)]
pub struct ListedLibrary {
    /// Its name.
    pub name: String,
    /// What is in it; `None` if it is empty or cannot be read.
    #[serde(flatten)]
    pub content: Option<LibraryContent>,
    /// Why it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One line: its name, and what is in it or what is wrong with it.
impl std::fmt::Display for ListedLibrary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: ", self.name)?;
        match (&self.content, &self.error) {
            (Some(seen), _) => {
                let one = seen.folders.len() == 1;
                write!(
                    f,
                    "{}, {}, model {}, {} {}",
                    counted(seen.recordings, "recording"),
                    length(seen.seconds),
                    seen.model,
                    if one { "folder" } else { "folders" },
                    seen.folders.join(", ")
                )
            }
            (None, Some(error)) => f.write_str(error),
            (None, None) => f.write_str("empty"),
        }
    }
}

/// `2 h 05 min`, `3 min 20 s`.
pub(crate) fn length(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    if hours > 0 {
        format!("{} h {minutes:02} min", group_digits(hours))
    } else {
        format!("{minutes} min {seconds:02} s")
    }
}

/// What is in a library.
#[derive(Debug, Serialize)]
pub struct LibraryContent {
    /// The model that it was made with.
    pub model: String,
    /// Recordings.
    pub recordings: u64,
    /// Their length in all.
    pub seconds: f64,
    /// The folders that were indexed.
    pub folders: Vec<String>,
}

/// Tells a user whose settings differ from the library's what to do.
fn mismatch_hint(error: CatalogueError) -> Error {
    if matches!(
        error,
        CatalogueError::OtherModel { .. } | CatalogueError::OtherWindows { .. }
    ) {
        Error::Mismatch {
            source: Box::new(error),
        }
    } else {
        error.into()
    }
}
