//! A library in a folder on this machine: `catalogue.sqlite`, the source of truth, and `windows.usearch`, an index that speeds up
//! large libraries and may be missing, stale or damaged without making an answer wrong.
//!
//! Changes are atomic and durable, even through a power failure. Several threads and processes may read at any time and see a
//! consistent state; writers wait for each other. Files that are not a library, are damaged or have a newer format, and settings other
//! than the library's, are errors.
//!
//! The folder must be on a local disk: the journal that lets readers work beside a writer uses shared memory.

mod changes;
mod check;
mod held;
mod optimize;
mod passing;
mod read;
mod schema;
mod search_text;
mod search_vector;

use hark_work::progress::Progress;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LockResult, Mutex, MutexGuard, PoisonError};

use hark_nearest::approximate::MIN_ROWS_FOR_HNSW;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::{
    Change, Entry, Error, Failure, File, Filter, IndexedFile, Overview, Settings, Store, TextHit, TextQuery,
    Window, WindowHit, prepare,
};
use changes::Writer;
use held::State;
use optimize::Tidy;
use schema::Kind;
use search_vector::Question;

/// The index beside it.
const INDEX: &str = "windows.usearch";

/// The file that makes a folder a library.
pub const CATALOGUE: &str = "catalogue.sqlite";

/// Reading a vector from the database takes some five times as long as reading it from memory: so many fewer windows are rather
/// compared one by one than sought in an index.
const FEW: usize = 5;
/// Connections that are kept for the next question.
const IDLE: usize = 16;

/// See the module.
pub struct SqliteStore {
    folder: PathBuf,
    path: PathBuf,
    settings: Settings,
    worthwhile: usize,
    threads: usize,
    idle: Mutex<Vec<Connection>>,
    held: Mutex<Arc<State>>,
    /// Held by the one who brings the state up to date: others wait for it rather than do the same.
    renewing: Mutex<()>,
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore")
            .field("folder", &self.folder)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// The right to index a library, which one process has at a time. It ends when this is dropped, or with the process.
#[derive(Debug)]
pub struct Lock {
    file: std::fs::File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The system does it, too, when the file is closed.
        let _ = self.file.unlock();
    }
}

/// The right to make a library or its index file. Whoever wants it waits.
struct Alone(#[expect(dead_code, reason = "the system gives it back when the file is closed")] std::fs::File);

impl Alone {
    fn wait(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("making.lock");
        let io = |source| Error::Io {
            path: path.clone(),
            source,
        };
        let file = lock_file(&path).map_err(io)?;
        file.lock().map_err(io)?;
        Ok(Self(file))
    }
}

fn lock_file(path: &Path) -> std::io::Result<std::fs::File> {
    std::fs::File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
}

/// See [`SqliteStore::lock`].
fn lock(folder: &Path) -> Result<Lock, Error> {
    let path = folder.join("indexing.lock");
    let io = |source| Error::Io {
        path: path.clone(),
        source,
    };
    let file = lock_file(&path).map_err(io)?;
    match file.try_lock() {
        Ok(()) => Ok(Lock { file }),
        Err(std::fs::TryLockError::WouldBlock) => Err(Error::Locked {
            place: folder.display().to_string(),
        }),
        Err(std::fs::TryLockError::Error(source)) => Err(io(source)),
    }
}

impl SqliteStore {
    /// Makes a library in a folder, which is made if need be.
    ///
    /// # Errors
    /// [`Error::Exists`] if there is one, [`Error::NotCatalogue`] if another file has its name, [`Error::BadSettings`], and what
    /// the system or SQLite refuse.
    pub fn create(folder: &Path, settings: &Settings) -> Result<Self, Error> {
        match Self::make(folder, settings)? {
            (_, false) => Err(Error::Exists {
                place: folder.display().to_string(),
            }),
            (store, true) => Ok(store),
        }
    }

    /// Opens a library.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is none, [`Error::NotCatalogue`], [`Error::NewerFormat`], [`Error::Damaged`], and what the
    /// system or SQLite refuse.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(CATALOGUE);
        if !path.try_exists().map_err(|source| Error::Io {
            path: path.clone(),
            source,
        })? {
            return Err(Error::Missing {
                place: folder.display().to_string(),
            });
        }
        let fault = |error| schema::fault(&path, error);
        let mut connection = schema::connect(&path, false).map_err(fault)?;
        let place = || path.display().to_string();
        match schema::kind(&connection).map_err(fault)? {
            Kind::Empty => return Err(Error::Missing { place: place() }),
            Kind::Foreign => return Err(Error::NotCatalogue { place: place() }),
            Kind::Library(found) if found > schema::FORMAT => {
                return Err(Error::NewerFormat {
                    place: place(),
                    found,
                    known: schema::FORMAT,
                });
            }
            Kind::Library(schema::FORMAT) => {}
            Kind::Library(1) => schema::update(&mut connection).map_err(fault)?,
            Kind::Library(found) => {
                return Err(Error::Damaged {
                    place: place(),
                    fault: format!("there never was a format {found}"),
                });
            }
        }
        let settings = schema::settings(&connection).map_err(fault)?;
        let damaged = |error: Error| Error::Damaged {
            place: place(),
            fault: error.to_string(),
        };
        prepare::settings(&settings).map_err(damaged)?;
        Ok(Self {
            folder: folder.to_owned(),
            path,
            settings,
            worthwhile: MIN_ROWS_FOR_HNSW,
            threads: std::thread::available_parallelism().map_or(1, NonZero::get),
            idle: Mutex::new(vec![connection]),
            held: Mutex::default(),
            renewing: Mutex::default(),
        })
    }

    /// Opens a library, or makes it if there is none.
    ///
    /// # Errors
    /// Those of [`SqliteStore::open`], and [`Error::OtherModel`], [`Error::Dimension`] or [`Error::OtherWindows`] if it was made
    /// with other settings.
    pub fn open_or_create(folder: &Path, settings: &Settings) -> Result<Self, Error> {
        let (store, made) = match Self::open(folder) {
            Err(Error::Missing { .. }) => Self::make(folder, settings)?,
            store => (store?, false),
        };
        if !made {
            prepare::fits(&store.settings, settings)?;
        }
        Ok(store)
    }

    /// Makes a library, unless there is one; whether there was none.
    fn make(folder: &Path, settings: &Settings) -> Result<(Self, bool), Error> {
        prepare::settings(settings)?;
        fs_err::create_dir_all(folder).map_err(|source| Error::Io {
            path: folder.to_owned(),
            source,
        })?;
        let path = folder.join(CATALOGUE);
        let fault = |error| schema::fault(&path, error);
        let made = {
            let _alone = Alone::wait(folder)?;
            let mut connection = schema::connect(&path, true).map_err(fault)?;
            // A file of somebody else must not even get another kind of journal.
            match schema::kind(&connection).map_err(fault)? {
                Kind::Empty => schema::make(&mut connection, settings).map_err(fault)?,
                _ => false,
            }
        };
        Ok((Self::open(folder)?, made))
    }

    /// Removes a library from a folder, if there is one; other files of the folder stay.
    ///
    /// # Errors
    /// [`Error::Locked`] if somebody indexes it, and what the system refuses.
    pub fn remove(folder: &Path) -> Result<(), Error> {
        if !folder.join(CATALOGUE).exists() {
            return Ok(());
        }
        let _lock = lock(folder)?;
        let _alone = Alone::wait(folder)?;
        // The database first: what is left without it is no library.
        for name in [CATALOGUE, "catalogue.sqlite-wal", "catalogue.sqlite-shm", INDEX] {
            let path = folder.join(name);
            match fs_err::remove_file(&path) {
                Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::Io { path, source });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Empties the library of a folder, and gives it other settings, in one step. The folders that it indexes stay. Whoever has it open
    /// is told when asking next.
    ///
    /// # Errors
    /// Those of [`SqliteStore::open`], and [`Error::Locked`] if somebody indexes it.
    pub fn renew(folder: &Path, settings: &Settings) -> Result<Self, Error> {
        prepare::settings(settings)?;
        let store = Self::open(folder)?;
        let _lock = store.lock()?;
        store.write(|writer| writer.renew(settings))?;
        drop(store);
        Self::open(folder)
    }

    /// Takes the right to index this library, without waiting for it. Reading and changing go without; it keeps two who look
    /// through the same folders from doing the same work.
    ///
    /// # Errors
    /// [`Error::Locked`] if another has it.
    pub fn lock(&self) -> Result<Lock, Error> {
        lock(&self.folder)
    }

    /// The folder that the library is in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// From how many windows on [`Store::optimize`] makes an index. Below, all vectors are kept in memory and compared.
    #[must_use]
    pub fn with_index_from(mut self, windows: usize) -> Self {
        self.worthwhile = windows.max(1);
        self
    }

    /// How many threads compare vectors and build an index; as many as the machine has if nothing is said.
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    fn index(&self) -> PathBuf {
        self.folder.join(INDEX)
    }

    fn fault(&self, error: rusqlite::Error) -> Error {
        schema::fault(&self.path, error)
    }

    /// Lends a connection to a question or a change.
    fn with<T>(&self, work: impl FnOnce(&mut Connection) -> Result<T, Error>) -> Result<T, Error> {
        let idle = unpoisoned(self.idle.lock()).pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => schema::connect(&self.path, false).map_err(|error| self.fault(error))?,
        };
        let outcome = work(&mut connection);
        let mut idle = unpoisoned(self.idle.lock());
        // One that is still within a transaction, which cannot be, would show the next one the past.
        if idle.len() < IDLE && connection.is_autocommit() {
            idle.push(connection);
        }
        outcome
    }

    /// Reads from one state of the library, whatever is written meanwhile.
    fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T, rusqlite::Error>) -> Result<T, Error> {
        self.with(|connection| {
            let transaction = connection.transaction().map_err(|error| self.fault(error))?;
            work(&transaction).map_err(|error| self.fault(error))
        })
    }

    /// Changes the library, all or nothing.
    fn write(&self, work: impl FnOnce(&mut Writer<'_>) -> Result<(), rusqlite::Error>) -> Result<(), Error> {
        self.with(|connection| {
            let changed = || {
                let mut writer = Writer::new(Transaction::new(connection, TransactionBehavior::Immediate)?);
                work(&mut writer)?;
                writer.commit()
            };
            changed().map_err(|error| self.fault(error))
        })
    }

    /// What is held of the generation that a transaction sees; none if another thread already holds what came after it.
    fn state(&self, transaction: &Transaction<'_>) -> Result<Option<Arc<State>>, rusqlite::Error> {
        let generation: i64 = schema::meta(transaction, "generation")?;
        // A new library has the generation 0, as has a state of nothing: they agree.
        let current = || unpoisoned(self.held.lock()).clone();
        let state = current();
        if state.generation == generation {
            return Ok(Some(state));
        }
        let _alone = unpoisoned(self.renewing.lock());
        let state = current();
        if state.generation >= generation {
            return Ok((state.generation == generation).then_some(state));
        }
        let renewed = Arc::new(state.renewed(transaction, generation, &self.index(), self.settings.dim)?);
        unpoisoned(self.held.lock()).clone_from(&renewed);
        Ok(Some(renewed))
    }

    fn search_vector_in(
        &self,
        connection: &mut Connection,
        query: &[f32],
        k: usize,
        filter: &Filter,
    ) -> Result<Vec<WindowHit>, Error> {
        let fault = |error| self.fault(error);
        // Another thread may hold a newer state than this one sees, a few times. One that is never seen is that of another file.
        for _ in 0..1000 {
            let transaction = connection.transaction().map_err(fault)?;
            if schema::settings(&transaction).map_err(fault)? != self.settings {
                break;
            }
            let Some(state) = self.state(&transaction).map_err(fault)? else {
                continue;
            };
            let question = Question {
                connection: &transaction,
                state: &state,
                query,
                k,
                passing: passing::passing(&transaction, filter).map_err(fault)?,
                few: self.worthwhile / FEW,
                threads: self.threads,
                fault: &fault,
            };
            return question.answer();
        }
        Err(Error::Renewed {
            place: self.folder.display().to_string(),
        })
    }
}

/// Nothing that is behind these locks is ever left half-changed.
fn unpoisoned<T>(lock: LockResult<MutexGuard<'_, T>>) -> MutexGuard<'_, T> {
    lock.unwrap_or_else(PoisonError::into_inner)
}

impl Store for SqliteStore {
    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn vocabulary(&self) -> Result<Vec<String>, Error> {
        self.read(read::vocabulary)
    }

    fn set_vocabulary(&self, words: &[String]) -> Result<(), Error> {
        self.write(|writer| writer.set_vocabulary(words))
    }

    fn roots(&self) -> Result<Vec<String>, Error> {
        self.read(read::roots)
    }

    fn add_root(&self, root: &str) -> Result<(), Error> {
        self.write(|writer| writer.add_root(root))
    }

    fn remove_root(&self, root: &str) -> Result<(), Error> {
        self.write(|writer| writer.remove_root(root))
    }

    fn known(&self) -> Result<Vec<IndexedFile>, Error> {
        self.read(read::known)
    }

    fn failures(&self) -> Result<Vec<Failure>, Error> {
        self.read(read::failures)
    }

    fn apply(&self, changes: &[Change]) -> Result<(), Error> {
        changes::validate(changes, &self.settings)?;
        self.write(|writer| changes.iter().try_for_each(|change| writer.change(change)))
    }

    fn search_vector(&self, query: &[f32], k: usize, filter: &Filter) -> Result<Vec<WindowHit>, Error> {
        let query = prepare::question(query, &self.settings)?;
        if k == 0 {
            return Ok(Vec::new());
        }
        self.with(|connection| self.search_vector_in(connection, &query, k, filter))
    }

    fn search_text(&self, query: &TextQuery<'_>, k: usize, filter: &Filter) -> Result<Vec<TextHit>, Error> {
        self.read(|connection| search_text::search_text(connection, query, k, filter))
    }

    fn browse(&self, filter: &Filter, skip: usize, limit: usize) -> Result<Vec<i64>, Error> {
        self.read(|connection| read::browse(connection, filter, skip, limit))
    }

    fn files(&self, ids: &[i64]) -> Result<Vec<File>, Error> {
        self.read(|connection| {
            ids.iter()
                .filter_map(|&id| read::file(connection, id).transpose())
                .collect()
        })
    }

    fn find(&self, path: &str) -> Result<Option<File>, Error> {
        self.read(|connection| read::find(connection, &prepare::text(path)))
    }

    fn windows(&self, file: i64) -> Result<Vec<Window>, Error> {
        self.read(|connection| read::windows(connection, file))
    }

    fn overview(&self) -> Result<Overview, Error> {
        self.read(read::overview)
    }

    fn for_each_entry(&self, take: &mut dyn FnMut(Entry) -> ControlFlow<()>) -> Result<(), Error> {
        self.read(|connection| read::for_each_entry(connection, take))
    }

    fn for_each_file(&self, take: &mut dyn FnMut(File) -> ControlFlow<()>) -> Result<(), Error> {
        self.read(|connection| read::for_each_file(connection, take))
    }

    fn optimize(&self, progress: Progress<'_>) -> Result<(), Error> {
        let fault = |error| self.fault(error);
        let tidy = Tidy {
            index: &self.index(),
            folder: &self.folder,
            dim: self.settings.dim,
            worthwhile: self.worthwhile,
            threads: self.threads,
            fault: &fault,
        };
        self.with(|connection| tidy.run(connection, progress))
    }

    fn check(&self) -> Result<Vec<String>, Error> {
        let checked = || {
            let mut connection = schema::connect(&self.path, false)?;
            let transaction = connection.transaction()?;
            check::check(&transaction, &self.index(), self.settings.dim)
        };
        checked().map_err(|error| self.fault(error))
    }
}
