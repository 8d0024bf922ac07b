//! A library on a PostgreSQL server with pgvector, which several processes and machines read and write at once.
//!
//! In come the server's address (`postgres://user:password@host:port/database?sslmode=require`) and the name of a library, which is
//! the schema `hark_NAME` there. Servers without pgvector 0.7, libraries of a newer format, and settings other than the library's are
//! errors. Vectors are stored with 16 bits per number (`halfvec`), words as a `tsvector`; the server computes cosines and word scores.
//! Only plain SQL is used, so the server may be a distributed one.
//!
//! A lost connection is reopened and the transaction repeated; searches time out after 30 s.

mod address;
mod pool;
mod rows;
mod schema;
mod search;
mod sql;
mod upkeep;
mod write;

use hark_work::progress::Progress;
use std::collections::HashMap;
use std::ops::ControlFlow;

use address::Address;
use pool::{Failed, Pool, Purpose, Session};
use upkeep::Scene;

use crate::words::QueryWords;
use crate::{
    Change, Count, Entry, Error, Failure, File, Filter, IndexedFile, Overview, Settings, Store, TextHit,
    TextQuery, Window, WindowHit, overview, prepare,
};

/// Files that are read at a time when all are.
const PAGE: i64 = 200;
/// Windows that are read at a time.
const WINDOWS: i32 = 2_000;

/// Unwanted words that count.
const UNWANTED: usize = 500;

/// A library on a PostgreSQL server.
pub struct PostgresStore {
    pool: Pool,
    settings: Settings,
    schema: String,
    vector_schema: String,
    iterates: bool,
    /// Server and library, as messages name them.
    place: String,
}

impl PostgresStore {
    /// Opens a library; makes it if it is not there. Several processes may do so at once.
    ///
    /// # Errors
    /// If the server cannot be reached or has no pgvector, or if the library there has other settings.
    pub fn open_or_create(url: &str, library: &str, settings: &Settings) -> Result<Self, Error> {
        Self::connect(url, library, Some(settings))
    }

    /// Opens a library that is there.
    ///
    /// # Errors
    /// If the server cannot be reached, or there is no library of this name.
    pub fn open(url: &str, library: &str) -> Result<Self, Error> {
        Self::connect(url, library, None)
    }

    /// Removes a library from a server, if it is there.
    ///
    /// # Errors
    /// If the server cannot be reached, or refuses.
    pub fn remove(url: &str, library: &str) -> Result<(), Error> {
        let schema = schema::schema_of(library)?;
        let pool = Pool::new(Address::parse(url)?);
        pool.greet()?;
        pool.run(Purpose::Write, |session| {
            Ok(session.batch(&format!(
                "DROP SCHEMA IF EXISTS {} CASCADE",
                schema::quoted(&schema)
            ))?)
        })
    }

    fn connect(url: &str, library: &str, settings: Option<&Settings>) -> Result<Self, Error> {
        let schema = schema::schema_of(library)?;
        let address = Address::parse(url)?;
        let place = format!("{}, library {library}", address.name());
        let mut pool = Pool::new(address);
        pool.greet()?;
        let opened = schema::open(&mut pool, &schema, &place, settings)?;
        Ok(Self {
            pool,
            settings: opened.settings,
            schema,
            vector_schema: opened.vector_schema,
            iterates: opened.iterates,
            place,
        })
    }

    /// How the server goes about [`Store::search_vector`] if it does not compare all windows that pass: its plan, line by line. For
    /// those who wonder why a search is slow.
    ///
    /// # Errors
    /// As [`Store::search_vector`].
    pub fn plan(&self, query: &[f32], k: usize, filter: &Filter) -> Result<Vec<String>, Error> {
        let question = prepare::question(query, &self.settings)?;
        self.pool.run(Purpose::Search, |session| {
            search::plan(session, question.clone(), k, filter, self.iterates)
        })
    }

    fn scene(&self) -> Scene<'_> {
        Scene {
            pool: &self.pool,
            schema: &self.schema,
            vector_schema: &self.vector_schema,
            dim: self.settings.dim,
        }
    }

    /// Hands over all files by path, in pages, all from one moment's state.
    ///
    /// A connection that is lost is made anew, and the rest read from a later state: `take` sees no file twice.
    fn pages(
        &self,
        mut take: impl FnMut(&mut Session<'_>, File) -> Result<ControlFlow<()>, Failed>,
    ) -> Result<(), Error> {
        let mut after: Option<String> = None;
        self.pool.run(Purpose::Read, |session| {
            loop {
                let rows = match &after {
                    None => session.query(sql::FILES_FIRST, &[&PAGE])?,
                    Some(path) => session.query(sql::FILES_AFTER, &[path, &PAGE])?,
                };
                for row in &rows {
                    let file = rows::file(row, &self.place)?;
                    let path = file.path.clone();
                    let flow = take(session, file)?;
                    after = Some(path);
                    if flow.is_break() {
                        return Ok(());
                    }
                }
                if (rows.len() as i64) < PAGE {
                    return Ok(());
                }
            }
        })
    }
}

/// All windows of a file, in their order.
fn windows_of(session: &mut Session<'_>, file: i64) -> Result<Vec<Window>, Failed> {
    let mut windows = Vec::new();
    loop {
        let rows = session.query(
            sql::WINDOWS,
            &[&file, &(windows.len() as i32), &i64::from(WINDOWS)],
        )?;
        for row in &rows {
            windows.push(rows::window(row)?);
        }
        if rows.len() < WINDOWS as usize {
            return Ok(windows);
        }
    }
}

/// Values and how many files have each.
fn counts<T: std::fmt::Display>(
    rows: &[::postgres::Row],
    read: impl Fn(&::postgres::Row) -> Result<T, ::postgres::Error>,
) -> Result<Vec<Count>, Failed> {
    rows.iter()
        .map(|row| {
            Ok(Count {
                value: read(row)?.to_string(),
                files: row.try_get::<_, i64>(1)? as u64,
            })
        })
        .collect()
}

fn overview(session: &mut Session<'_>) -> Result<Overview, Failed> {
    let most = overview::MAX as i64;
    let totals = session.one(sql::TOTALS, &[])?;
    let roots = roots(session)?;
    let own = session.query(sql::COUNT_FOLDERS, &[])?;
    let own = counts(&own, |row| row.try_get::<_, String>(0))?;
    let folders = overview::counted(
        &roots,
        own.iter().map(|count| (count.value.as_str(), count.files)),
    );
    let tags = session.query(sql::COUNT_TAGS, &[&most])?;
    let rates = session.query(sql::COUNT_RATES, &[])?;
    let mut sounds = overview::Sounds::default();
    for row in session.query(sql::COUNT_SOUNDS, &[])? {
        let files = row.try_get::<_, i64>(3)? as u64;
        sounds.add(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, files);
    }
    Ok(Overview {
        files: totals.try_get::<_, i64>(0)? as u64,
        windows: totals.try_get::<_, i64>(1)? as u64,
        seconds: totals.try_get(2)?,
        failures: totals.try_get::<_, i64>(3)? as u64,
        roots,
        folders,
        tags: counts(&tags, |row| row.try_get::<_, String>(0))?,
        rates: counts(&rates, |row| row.try_get::<_, i64>(0))?,
        formats: sounds.formats(),
        channels: sounds.channels(),
    })
}

fn roots(session: &mut Session<'_>) -> Result<Vec<String>, Failed> {
    let rows = session.query(sql::ROOTS, &[])?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}

impl Store for PostgresStore {
    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn vocabulary(&self) -> Result<Vec<String>, Error> {
        self.pool.run(Purpose::Read, |session| {
            let rows = session.query(sql::GET_META, &[&"vocabulary"])?;
            let Some(row) = rows.first() else {
                return Ok(Vec::new());
            };
            let damaged = |_| Error::Damaged {
                place: self.place.clone(),
                fault: "its vocabulary".to_owned(),
            };
            Ok(serde_json::from_str(row.try_get(0)?).map_err(damaged)?)
        })
    }

    fn set_vocabulary(&self, words: &[String]) -> Result<(), Error> {
        let text = serde_json::json!(words).to_string();
        self.pool.run(Purpose::Write, |session| {
            session.execute(sql::REPLACE_META, &[&"vocabulary", &text])?;
            Ok(())
        })
    }

    fn roots(&self) -> Result<Vec<String>, Error> {
        self.pool.run(Purpose::Read, roots)
    }

    fn add_root(&self, root: &str) -> Result<(), Error> {
        let root = prepare::folder(root);
        self.pool.run(Purpose::Write, |session| {
            session.execute(sql::ADD_ROOT, &[&root])?;
            Ok(())
        })
    }

    fn remove_root(&self, root: &str) -> Result<(), Error> {
        self.pool
            .run(Purpose::Write, |session| write::remove_root(session, root))
    }

    fn known(&self) -> Result<Vec<IndexedFile>, Error> {
        self.pool.run(Purpose::Read, |session| {
            Ok(session
                .query(sql::KNOWN, &[])?
                .iter()
                .map(rows::known)
                .collect::<Result<_, _>>()?)
        })
    }

    fn failures(&self) -> Result<Vec<Failure>, Error> {
        self.pool.run(Purpose::Read, |session| {
            Ok(session
                .query(sql::FAILURES, &[])?
                .iter()
                .map(rows::failure)
                .collect::<Result<_, _>>()?)
        })
    }

    fn apply(&self, changes: &[Change]) -> Result<(), Error> {
        if changes.is_empty() {
            return Ok(());
        }
        write::verify(changes, &self.settings)?;
        let ordered = write::ordered(changes);
        self.pool.run(Purpose::Write, |session| {
            write::apply(session, &ordered, &self.settings, &self.place)
        })
    }

    fn search_vector(&self, query: &[f32], k: usize, filter: &Filter) -> Result<Vec<WindowHit>, Error> {
        let question = prepare::question(query, &self.settings)?;
        if k == 0 || filter.matches_nothing() {
            return Ok(Vec::new());
        }
        self.pool.run(Purpose::Search, |session| {
            search::search_vector(session, question.clone(), k, filter, self.iterates)
        })
    }

    fn search_text(&self, query: &TextQuery<'_>, k: usize, filter: &Filter) -> Result<Vec<TextHit>, Error> {
        let asked = QueryWords::new(query.text, query.prefix);
        let mut excluded = QueryWords::all(query.exclude);
        excluded.terms.truncate(UNWANTED);
        if asked.is_empty() || k == 0 || filter.matches_nothing() {
            return Ok(Vec::new());
        }
        self.pool.run(Purpose::Search, |session| {
            search::search_text(session, &asked, &excluded, k, filter)
        })
    }

    fn browse(&self, filter: &Filter, skip: usize, limit: usize) -> Result<Vec<i64>, Error> {
        if filter.matches_nothing() {
            return Ok(Vec::new());
        }
        self.pool.run(Purpose::Search, |session| {
            search::browse(session, filter, skip, limit)
        })
    }

    fn files(&self, ids: &[i64]) -> Result<Vec<File>, Error> {
        let mut found: HashMap<i64, File> = self.pool.run(Purpose::Search, |session| {
            let rows = session.query(sql::FILES, &[&ids])?;
            rows.iter()
                .map(|row| rows::file(row, &self.place).map(|file| (file.id, file)))
                .collect()
        })?;
        // A number that is asked for twice is answered twice.
        let mut again: HashMap<i64, usize> = HashMap::new();
        for id in ids {
            *again.entry(*id).or_default() += 1;
        }
        let mut files = Vec::with_capacity(found.len());
        for id in ids {
            let left = again.get_mut(id).map_or(0, |left| {
                *left -= 1;
                *left
            });
            files.extend(if left == 0 {
                found.remove(id)
            } else {
                found.get(id).cloned()
            });
        }
        Ok(files)
    }

    fn find(&self, path: &str) -> Result<Option<File>, Error> {
        let path = prepare::text(path);
        self.pool.run(Purpose::Search, |session| {
            session
                .query(sql::FILE_OF_PATH, &[&path])?
                .first()
                .map(|row| rows::file(row, &self.place))
                .transpose()
        })
    }

    fn windows(&self, file: i64) -> Result<Vec<Window>, Error> {
        self.pool
            .run(Purpose::Search, |session| windows_of(session, file))
    }

    fn overview(&self) -> Result<Overview, Error> {
        self.pool.run(Purpose::Read, overview)
    }

    fn for_each_entry(&self, take: &mut dyn FnMut(Entry) -> ControlFlow<()>) -> Result<(), Error> {
        self.pages(|session, file| {
            let windows = windows_of(session, file.id)?;
            Ok(take(file.into_entry(windows)))
        })
    }

    fn for_each_file(&self, take: &mut dyn FnMut(File) -> ControlFlow<()>) -> Result<(), Error> {
        self.pages(|_, file| Ok(take(file)))
    }

    fn optimize(&self, progress: Progress<'_>) -> Result<(), Error> {
        upkeep::optimize(&self.scene(), progress)
    }

    fn check(&self) -> Result<Vec<String>, Error> {
        upkeep::check(&self.scene())
    }
}
