//! The tables of a library, and how a file is recognized as one.
//!
//! The header of an SQLite file has a number for the application (`application_id`, here the letters `hark`) and one for the version
//! of its tables (`user_version`). Both are written with the tables, in one transaction.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior, params};

use crate::{Error, Settings};

/// The letters `hark`.
pub(super) const APPLICATION: i64 = 0x6861_726b;
/// The version of the tables.
pub(super) const FORMAT: i64 = 2;
/// How long a change waits for another process to end its own.
const PATIENCE: Duration = Duration::from_mins(1);

/// What is looked through to tell which files pass stands apart from what is shown of one. Windows are found by their file without
/// a look at their vectors.
const TABLES: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID;
CREATE TABLE roots (path TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TABLE files (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL UNIQUE,
    size INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    content TEXT NOT NULL,
    seconds REAL NOT NULL,
    rate INTEGER NOT NULL,
    channels INTEGER NOT NULL,
    container TEXT NOT NULL,
    codec TEXT NOT NULL,
    date TEXT NOT NULL
) STRICT;
CREATE TABLE details (
    file INTEGER PRIMARY KEY REFERENCES files (id) ON DELETE CASCADE,
    metadata TEXT NOT NULL,
    damage TEXT,
    captions TEXT NOT NULL,
    peaks BLOB NOT NULL,
    fingerprint BLOB NOT NULL,
    heard TEXT NOT NULL DEFAULT '[]'
) STRICT;
CREATE TABLE windows (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    file INTEGER NOT NULL REFERENCES files (id) ON DELETE CASCADE,
    start REAL NOT NULL,
    \"end\" REAL NOT NULL,
    whole INTEGER NOT NULL,
    vector BLOB NOT NULL
) STRICT;
CREATE INDEX windows_by_file ON windows (file, whole DESC, start, \"end\");
CREATE TABLE tags (
    file INTEGER NOT NULL REFERENCES files (id) ON DELETE CASCADE,
    tag TEXT NOT NULL,
    heard INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (file, tag)
) STRICT, WITHOUT ROWID;
CREATE INDEX tags_by_name ON tags (tag, file);
CREATE TABLE failures (
    path TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    message TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5 (
    name, folders, tags, captions, metadata,
    tokenize = \"porter unicode61 remove_diacritics 2 categories 'L* N* Co M*'\",
    prefix = '2 3'
);
";

/// What format 2 has and format 1 has not.
const FROM_1: &str = "
ALTER TABLE details ADD COLUMN heard TEXT NOT NULL DEFAULT '[]';
ALTER TABLE tags ADD COLUMN heard INTEGER NOT NULL DEFAULT 0;
PRAGMA user_version = 2;
";

/// Brings the tables of an older format up to date. Another process may be about to do so, too.
pub(super) fn update(connection: &mut Connection) -> Result<(), rusqlite::Error> {
    let transaction = Transaction::new(connection, TransactionBehavior::Immediate)?;
    if kind(&transaction)? == Kind::Library(1) {
        transaction.execute_batch(FROM_1)?;
    }
    transaction.commit()
}

/// Opens the file of a library, which must exist.
pub(super) fn connect(path: &Path, make: bool) -> Result<Connection, rusqlite::Error> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if make {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let mut connection = Connection::open_with_flags(path, flags)?;
    // Readers of this journal write to shared memory beside the file. Where nothing can be written, nobody else writes either,
    // and the file can be read as it is, unless a writer left changes in the journal: then SQLite reads both or says why not.
    if !make && connection.is_readonly("main")? && !has_journal(path) {
        flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        connection = Connection::open_with_flags(immutable(path), flags)?;
    }
    connection.busy_timeout(PATIENCE)?;
    connection.set_prepared_statement_cache_capacity(64);
    // What a change has returned from must outlast a power cut; the default of this journal is less. A file of unknown origin
    // gets no functions to call.
    connection.execute_batch(
        "PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF; PRAGMA cache_size = -16000;",
    )?;
    Ok(connection)
}

/// Whether a journal beside the file holds changes.
fn has_journal(path: &Path) -> bool {
    let mut journal = path.as_os_str().to_owned();
    journal.push("-wal");
    std::fs::metadata(journal).is_ok_and(|journal| journal.len() > 0)
}

/// The address of a file that nobody changes.
fn immutable(path: &Path) -> String {
    let mut address = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(byte) {
            address.push(char::from(*byte));
        } else {
            address.push_str(&format!("%{byte:02x}"));
        }
    }
    address.push_str("?immutable=1");
    address
}

/// What a file says that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing was ever kept in it.
    Empty,
    /// A library, of this format.
    Library(i64),
    /// Of another program.
    Foreign,
}

/// Tells what a file is.
pub(super) fn kind(connection: &Connection) -> Result<Kind, rusqlite::Error> {
    let number = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, i64>(0));
    let application = number("PRAGMA application_id")?;
    let format = number("PRAGMA user_version")?;
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    Ok(match (application, tables) {
        (APPLICATION, _) => Kind::Library(format),
        (0, 0) if format == 0 => Kind::Empty,
        _ => Kind::Foreign,
    })
}

/// Makes the tables; whether they were not there before. Another process may be about to make them, too.
pub(super) fn make(connection: &mut Connection, settings: &Settings) -> Result<bool, rusqlite::Error> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    let transaction = Transaction::new(connection, TransactionBehavior::Immediate)?;
    if kind(&transaction)? != Kind::Empty {
        return Ok(false);
    }
    transaction.execute_batch(TABLES)?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    {
        let mut insert = transaction.prepare("INSERT INTO meta (key, value) VALUES (?1, ?2)")?;
        insert.execute(params!["model", settings.model])?;
        insert.execute(params!["fingerprint", settings.fingerprint])?;
        insert.execute(params!["dim", settings.dim as i64])?;
        insert.execute(params!["window_seconds", settings.window_seconds])?;
        insert.execute(params!["hop_seconds", settings.hop_seconds])?;
        // Each change raises the first number; each in which windows go raises the second.
        insert.execute(params!["generation", 0])?;
        insert.execute(params!["removals", 0])?;
    }
    transaction.commit()?;
    Ok(true)
}

/// What a library was made with.
pub(super) fn settings(connection: &Connection) -> Result<Settings, rusqlite::Error> {
    Ok(Settings {
        model: meta(connection, "model")?,
        fingerprint: meta(connection, "fingerprint")?,
        // A number that is no size makes settings that no library can have, which is told.
        dim: usize::try_from(meta::<i64>(connection, "dim")?).unwrap_or(0),
        window_seconds: meta(connection, "window_seconds")?,
        hop_seconds: meta(connection, "hop_seconds")?,
    })
}

/// A value that must be there.
pub(super) fn meta<T: rusqlite::types::FromSql>(
    connection: &Connection,
    key: &str,
) -> Result<T, rusqlite::Error> {
    connection
        .prepare_cached("SELECT value FROM meta WHERE key = ?1")?
        .query_row([key], |row| row.get(0))
}

/// What SQLite refuses, in the words of this crate.
pub(super) fn fault(path: &Path, source: rusqlite::Error) -> Error {
    use rusqlite::{Error as Sqlite, ErrorCode};
    let place = || path.display().to_string();
    match &source {
        Sqlite::SqliteFailure(failure, _) => match failure.code {
            ErrorCode::NotADatabase => Error::NotCatalogue { place: place() },
            ErrorCode::DatabaseCorrupt => Error::Damaged {
                place: place(),
                fault: source.to_string(),
            },
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Error::Locked { place: place() },
            _ => Error::Sqlite {
                path: path.to_owned(),
                source,
            },
        },
        Sqlite::FromSqlConversionFailure(..)
        | Sqlite::IntegralValueOutOfRange(..)
        | Sqlite::InvalidColumnType(..)
        | Sqlite::QueryReturnedNoRows
        | Sqlite::SqlInputError { .. }
        | Sqlite::Utf8Error(..) => Error::Damaged {
            place: place(),
            fault: source.to_string(),
        },
        _ => Error::Sqlite {
            path: path.to_owned(),
            source,
        },
    }
}
