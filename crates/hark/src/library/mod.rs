//! Libraries: where they are kept, which model made them, how recordings get into them.
//!
//! A library is named and kept in a folder below the home, or on a PostgreSQL server. [`indexing`] compares folders with what is
//! known ([`walk`], [`plan`]), and has what is new read and embedded.

mod ears;
pub mod indexing;
pub mod notes;
pub mod plan;
pub mod walk;
pub mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use hark_catalogue::sqlite::{self, SqliteStore};
use hark_catalogue::{Error, PostgresStore, Settings, Store};
use hark_encode::Compute;
use hark_encode::model::{AudioEncoder, TextEncoder, fingerprint};
use hark_models::Model;

pub use ears::ModelEmbedder;

use crate::home::Home;

/// The variable that names a server, so that its password need not be an argument, which others can see.
const STORE: &str = "HARK_STORE";

/// Which library.
#[derive(Debug, Args)]
pub struct LibraryArgs {
    /// The library's name
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub name: String,
    /// A PostgreSQL server with pgvector that keeps the library, instead of a folder on this machine [default: the variable HARK_STORE, if it is set]
    #[arg(long, value_name = "postgres://…")]
    pub store: Option<String>,
}

/// Where a library is kept.
#[derive(Debug)]
pub enum Place {
    /// A folder on this machine.
    Folder(PathBuf),
    /// A server, by its address, and the library's name there.
    Server(String, String),
}

impl LibraryArgs {
    /// Where the library is, or would be.
    pub fn place(&self, home: &Home) -> Result<Place> {
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        ensure!(
            !self.name.is_empty() && self.name.len() <= 40 && self.name.chars().all(allowed),
            "a library's name has up to 40 letters, digits, - and _"
        );
        let store = self
            .store
            .clone()
            .or_else(|| std::env::var(STORE).ok().filter(|url| !url.is_empty()));
        Ok(match store {
            Some(url) if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                Place::Server(url, self.name.clone())
            }
            Some(_) => {
                bail!("--store takes the address of a PostgreSQL server: postgres://user@host/database")
            }
            None => Place::Folder(home.libraries().join(&self.name)),
        })
    }

    /// Opens the library, which must be there.
    pub fn open(&self, home: &Home, threads: usize) -> Result<Arc<dyn Store>> {
        let place = self.place(home)?;
        if let Some(store) = place.open(threads)? {
            return Ok(store);
        }
        let others = match place {
            Place::Folder(_) => names(&home.libraries()),
            Place::Server(..) => Vec::new(),
        };
        let others = if others.is_empty() {
            String::new()
        } else {
            format!(" (there are: {})", others.join(", "))
        };
        bail!(
            "no library called {}{others}; make one with: hark index FOLDER --model MODEL",
            self.name
        );
    }
}

/// Names of the libraries in a folder of libraries.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs_err::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().join(sqlite::CATALOGUE).is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

impl Place {
    /// Opens the library, if it is there.
    pub fn open(&self, threads: usize) -> Result<Option<Arc<dyn Store>>, Error> {
        let opened: Result<Arc<dyn Store>, Error> = match self {
            Self::Folder(folder) => {
                SqliteStore::open(folder).map(|store| Arc::new(store.with_threads(threads)) as _)
            }
            Self::Server(url, name) => PostgresStore::open(url, name).map(|store| Arc::new(store) as _),
        };
        match opened {
            Ok(store) => Ok(Some(store)),
            Err(Error::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens the library for changes, and makes it if it is not there. In a folder, one process at a time changes a library; it
    /// holds the lock.
    pub fn open_or_create(
        &self,
        settings: &Settings,
        threads: usize,
    ) -> Result<(Arc<dyn Store>, Option<sqlite::Lock>)> {
        Ok(match self {
            Self::Folder(folder) => {
                let store = SqliteStore::open_or_create(folder, settings).with_context(way_out)?;
                let store = store.with_threads(threads);
                let lock = store.lock()?;
                (Arc::new(store), Some(lock))
            }
            Self::Server(url, name) => {
                let store = PostgresStore::open_or_create(url, name, settings).with_context(way_out)?;
                (Arc::new(store), None)
            }
        })
    }

    /// Drops all that the library has but its folders, and gives it these settings. One that cannot be read is removed.
    pub fn renew(&self, settings: &Settings) -> Result<()> {
        match self {
            Self::Folder(folder) => match SqliteStore::renew(folder, settings) {
                Ok(_) | Err(Error::Missing { .. }) => {}
                Err(error) if error.is_of_library() => SqliteStore::remove(folder)?,
                Err(error) => return Err(error.into()),
            },
            Self::Server(url, name) => {
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
    pub fn has_one_writer(&self) -> bool {
        matches!(self, Self::Folder(_))
    }
}

fn way_out() -> &'static str {
    "go on with the model and hop that the library has, or give the new one another --name, or --anew to make this one from nothing"
}

/// The model of a library: a folder with both towers.
#[derive(Debug)]
pub struct LibraryModel {
    /// The name that the user knows it by; a path is made absolute, so that it works from every folder.
    pub name: String,
    /// Where it is.
    pub folder: PathBuf,
    /// See [`fingerprint`].
    pub fingerprint: String,
}

impl LibraryModel {
    /// Finds the model that the user named.
    pub fn find(home: &Home, name: &str) -> Result<Self> {
        let Model::Towers(folder) = home.models().open(name)? else {
            bail!("{name} is a sentence encoder: it reads captions, and a library needs a model that hears");
        };
        let path = Path::new(name);
        let name = if folder == path {
            let folder = fs_err::canonicalize(path)?;
            folder.to_string_lossy().into_owned()
        } else {
            name.to_owned()
        };
        Ok(Self {
            name,
            fingerprint: fingerprint(&folder)?,
            folder,
        })
    }

    /// The model that a library was made with.
    pub fn of(home: &Home, settings: &Settings, named: Option<&str>) -> Result<Self> {
        let model = Self::find(home, named.unwrap_or(&settings.model)).with_context(|| {
            format!(
                "the library was made with the model {}; if it is elsewhere now, name it with --model",
                settings.model
            )
        })?;
        ensure!(
            model.fingerprint == settings.fingerprint,
            "the library was made with the model {} ({}), and {} is another one ({}): vectors of two models do not compare. \
             ObjectiveKind the model it was made with (--model), or index again with this one (hark index --anew --model {})",
            settings.model,
            settings.fingerprint,
            model.name,
            model.fingerprint,
            model.name
        );
        Ok(model)
    }

    /// What a library of this model is made with.
    pub fn settings(&self, encoder: &AudioEncoder, hop_seconds: f64) -> Settings {
        Settings {
            model: self.name.clone(),
            fingerprint: self.fingerprint.clone(),
            dim: encoder.dim(),
            window_seconds: encoder.segment_seconds(),
            hop_seconds,
        }
    }

    /// Its audio side.
    pub fn audio(&self, compute: &Compute) -> Result<AudioEncoder> {
        let encoder = AudioEncoder::open(&self.folder, compute)?;
        ensure!(
            encoder.is_projected(),
            "{}: an audio tower alone; a library needs a model whose texts and recordings share one space",
            self.name
        );
        Ok(encoder)
    }

    /// Its text side.
    pub fn text(&self, compute: &Compute) -> Result<TextEncoder> {
        Ok(TextEncoder::open(&self.folder, compute)?)
    }
}
