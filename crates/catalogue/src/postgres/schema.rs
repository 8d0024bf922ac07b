//! Creates and checks the schema of a library, `hark_NAME`.
//!
//! The format version and the library's settings are in the table `meta`. Several processes may create a library at the same time:
//! it is created in one transaction, and those that come second find it.

use postgres::error::SqlState;

use super::pool::{Failed, Pool, Purpose, Session};
use super::sql;
use crate::{Error, Settings, prepare};

/// The format that is written and the newest that is read.
const FORMAT: i64 = 1;
/// PostgreSQL cuts longer names off, and two libraries would be one.
const MAX_NAME: usize = 63 - PREFIX.len();
const PREFIX: &str = "hark_";
/// The most numbers in a `halfvec`.
const WIDEST: usize = 16_000;
/// The most numbers in a `halfvec` that an index takes. A row with more does not fit on a page either.
pub(super) const WIDEST_INDEXED: usize = 4_000;
/// The first version of pgvector with `halfvec`.
const NEEDED: &str = "0.7";

/// What is known of a library's schema once it has been opened.
pub(super) struct Opened {
    pub settings: Settings,
    /// The schema that pgvector's types are in.
    pub vector_schema: String,
    /// Whether a search by the index goes on until enough windows have passed a filter: pgvector 0.8.
    pub iterates: bool,
}

/// The schema of a library.
///
/// # Errors
/// If a library cannot have this name.
pub(super) fn schema_of(library: &str) -> Result<String, Error> {
    let plain = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'_' || letter == b'-';
    if library.is_empty() || library.len() > MAX_NAME || !library.bytes().all(plain) {
        return Err(Error::LibraryName {
            name: library.to_owned(),
            most: MAX_NAME,
        });
    }
    Ok(format!("{PREFIX}{library}"))
}

/// A name as SQL takes it literally.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Looks at a library and makes it if it is not there and `settings` are given. The pool then looks names up in it.
pub(super) fn open(
    pool: &mut Pool,
    schema: &str,
    place: &str,
    settings: Option<&Settings>,
) -> Result<Opened, Error> {
    if let Some(settings) = settings {
        prepare::settings(settings)?;
        if settings.dim > WIDEST {
            return Err(Error::TooWide {
                dim: settings.dim,
                most: WIDEST,
            });
        }
    }
    // Whatever is there is only read, so that those who may not write, and servers that take no writes, can be asked.
    let missing = || Error::Missing {
        place: place.to_owned(),
    };
    let extension = match pool.run(Purpose::Read, |session| Ok(find_extension(session)?))? {
        Some(found) => Some(found),
        None if settings.is_some() => pool.run(Purpose::Write, add_extension)?,
        None => return Err(missing()),
    };
    let Some((version, vector_schema)) = extension else {
        return Err(no_vectors(
            pool,
            "the server does not offer it, or not to this user".to_owned(),
        ));
    };
    if !at_least(&version, (0, 7)) {
        return Err(no_vectors(pool, format!("version {version} is installed")));
    }
    pool.look_in(&[schema, &vector_schema]);
    let read = |session: &mut Session<'_>| {
        let made = session
            .query(sql::HAS_TABLE, &[&schema, &"meta"])?
            .iter()
            .any(|row| row.get(0));
        if made {
            read_meta(session, place).map(Some)
        } else {
            Ok(None)
        }
    };
    let ours = match (pool.run(Purpose::Read, read)?, settings) {
        (Some(ours), _) => ours,
        (None, None) => return Err(missing()),
        (None, Some(settings)) => pool.run(Purpose::Write, |session| {
            // Another may have made it in between.
            if let Some(ours) = read(session)? {
                return Ok(ours);
            }
            create(session, schema, settings)?;
            read_meta(session, place)
        })?,
    };
    if let Some(theirs) = settings {
        prepare::fits(&ours, theirs)?;
    }
    Ok(Opened {
        settings: ours,
        iterates: at_least(&version, (0, 8)),
        vector_schema,
    })
}

fn no_vectors(pool: &Pool, what: String) -> Error {
    Error::NoVectors {
        server: pool.address().name().to_owned(),
        needed: NEEDED,
        what,
    }
}

/// Version and schema of pgvector, if it is a part of the database.
fn find_extension(session: &mut Session<'_>) -> Result<Option<(String, String)>, postgres::Error> {
    let rows = session.query(sql::EXTENSION, &[])?;
    rows.first()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
        .transpose()
}

/// Makes pgvector a part of the database, if it may.
fn add_extension(session: &mut Session<'_>) -> Result<Option<(String, String)>, Failed> {
    match session.batch("CREATE EXTENSION IF NOT EXISTS vector") {
        Ok(()) => Ok(find_extension(session)?),
        // Not installed on the machine, or not for this user to add.
        Err(error)
            if error.code().is_some_and(|code| {
                [
                    SqlState::UNDEFINED_FILE,
                    SqlState::FEATURE_NOT_SUPPORTED,
                    SqlState::INSUFFICIENT_PRIVILEGE,
                    SqlState::UNDEFINED_OBJECT,
                ]
                .contains(code)
            }) =>
        {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether a version such as `0.8.5` is at least another.
fn at_least(version: &str, least: (u32, u32)) -> bool {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= least
}

fn create(session: &mut Session<'_>, schema: &str, settings: &Settings) -> Result<(), Failed> {
    // Whoever may use a schema that an administrator has made need not be allowed to make one.
    if !session
        .query(sql::HAS_SCHEMA, &[&schema])?
        .iter()
        .any(|row| row.get(0))
    {
        session.batch(&format!("CREATE SCHEMA IF NOT EXISTS {}", quoted(schema)))?;
    }
    session.batch(&sql::tables(settings.dim))?;
    if settings.dim <= WIDEST_INDEXED {
        session.batch(sql::VECTORS_IN_ROWS)?;
    }
    let text = serde_json::to_string(settings).map_err(|_| Error::BadSettings {
        dim: settings.dim,
        window_seconds: settings.window_seconds,
        hop_seconds: settings.hop_seconds,
    })?;
    session.execute(sql::SET_META, &[&"settings", &text])?;
    session.execute(sql::SET_META, &[&"format", &FORMAT.to_string()])?;
    Ok(())
}

/// The library's settings, if its format is known.
fn read_meta(session: &mut Session<'_>, place: &str) -> Result<Settings, Failed> {
    let mut value = |key: &str| -> Result<Option<String>, postgres::Error> {
        session
            .query(sql::GET_META, &[&key])?
            .first()
            .map(|row| row.try_get(0))
            .transpose()
    };
    let not_ours = || Error::NotCatalogue {
        place: place.to_owned(),
    };
    let format: i64 = value("format")?
        .and_then(|format| format.parse().ok())
        .ok_or_else(not_ours)?;
    if format > FORMAT {
        return Err(Error::NewerFormat {
            place: place.to_owned(),
            found: format,
            known: FORMAT,
        }
        .into());
    }
    let settings = value("settings")?.ok_or_else(not_ours)?;
    serde_json::from_str(&settings).map_err(|_| {
        Error::Damaged {
            place: place.to_owned(),
            fault: "its settings".to_owned(),
        }
        .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for name in ["a", "field-recordings_2026", "A", &"x".repeat(MAX_NAME)] {
            assert_eq!(schema_of(name).ok(), Some(format!("hark_{name}")));
        }
        for name in ["", "a b", "a\"b", "é", "a;DROP", "a.b", &"x".repeat(MAX_NAME + 1)] {
            assert!(
                matches!(schema_of(name), Err(Error::LibraryName { .. })),
                "{name:?}"
            );
        }
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
    }

    #[test]
    fn versions_are_compared_by_number() {
        assert!(at_least("0.8.5", (0, 8)) && at_least("0.10", (0, 8)) && at_least("1.0.0", (0, 8)));
        assert!(!at_least("0.7.4", (0, 8)) && !at_least("", (0, 7)) && !at_least("x", (0, 7)));
    }
}
