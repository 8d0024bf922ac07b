//! What a process keeps in memory of a library's vectors: the index file, if there is a valid one, and the vectors of all newer
//! windows.
//!
//! It belongs to one generation of the library. A reader gets the generation first, in the same transaction as everything else; if
//! another process has written since, the state is updated by what was added and removed. A state is immutable: it is replaced by one
//! that shares the unchanged parts, so that running queries continue.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use half::f16;
use hark_nearest::HnswIndex;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};

use crate::prepare;
use crate::sqlite::schema::meta;

type Done<T> = Result<T, rusqlite::Error>;

/// Rows that are kept in one piece. A change copies the last piece at most.
const PIECE: usize = 8192;
/// Bytes of vectors that are held at most. What is beyond them is read for every question.
const HELD: usize = 1 << 30;

/// What the library knows of its index file. A file that does not agree is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// Windows up to this number are in the file, unless they were gone already. It is itself in the file.
    pub covered: i64,
    /// Vectors in the file.
    pub count: u64,
    /// Raised by each file that is made.
    pub edition: u64,
}

impl Record {
    pub(super) fn read(connection: &Connection) -> Done<Option<Self>> {
        let mut find = connection.prepare_cached("SELECT value FROM meta WHERE key = 'index'")?;
        let text: Option<String> = find.query_row([], |row| row.get(0)).optional()?;
        text.map(|text| serde_json::from_str(&text))
            .transpose()
            .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error)))
    }

    pub(super) fn write(&self, connection: &Connection) -> Done<()> {
        let text = serde_json::json!(self).to_string();
        connection.execute(
            "INSERT OR REPLACE INTO meta (key, value) VALUES ('index', ?1)",
            [text],
        )?;
        Ok(())
    }

    /// Whether an index is the one that was recorded. Numbers of windows are never given again and an index holds all that were
    /// there when it was made: two that have as many and share the newest are equal.
    pub(super) fn is_of(&self, index: &HnswIndex, dim: usize) -> bool {
        index.dim() == dim && index.len() as u64 == self.count && index.contains(self.covered as u64)
    }
}

/// Some consecutive windows.
#[derive(Debug, Clone, Default)]
pub(super) struct Piece {
    /// Their numbers, ascending.
    pub ids: Vec<i64>,
    /// The files of each.
    pub files: Vec<i64>,
    /// Their vectors, one after the other.
    pub rows: Vec<f16>,
}

impl Piece {
    pub(super) fn push(&mut self, row: &rusqlite::Row<'_>, dim: usize) -> Done<()> {
        self.ids.push(row.get(0)?);
        self.files.push(row.get(1)?);
        self.rows.extend(vector(row, 2, dim)?);
        Ok(())
    }

    fn keep(&self, dim: usize, keep: impl Fn(i64) -> bool) -> Self {
        let mut kept = Self::default();
        for ((&id, &file), row) in self.ids.iter().zip(&self.files).zip(self.rows.chunks_exact(dim)) {
            if keep(id) {
                kept.ids.push(id);
                kept.files.push(file);
                kept.rows.extend_from_slice(row);
            }
        }
        kept
    }
}

/// The numbers of a vector, which must be as many as the library's have.
pub(super) fn vector<'a>(
    row: &'a rusqlite::Row<'_>,
    column: usize,
    dim: usize,
) -> Done<impl ExactSizeIterator<Item = f16> + use<'a>> {
    let bytes = row.get_ref(column)?.as_blob()?;
    if bytes.len() != 2 * dim {
        return Err(rusqlite::Error::FromSqlConversionFailure(
            column,
            Type::Blob,
            "a vector of another length".into(),
        ));
    }
    Ok(prepare::halves(bytes))
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct State {
    pub generation: i64,
    removals: i64,
    record: Option<Record>,
    pub index: Option<Arc<HnswIndex>>,
    /// Windows up to this number are in the index; 0 without one.
    pub covered: i64,
    /// Those beyond it, in the order of their numbers.
    pub pieces: Vec<Arc<Piece>>,
    /// The newest window that is held.
    pub newest: i64,
    /// Whether there was no room for still newer ones.
    pub is_full: bool,
    /// All windows and their files, by window; made when it is first needed.
    windows: OnceLock<Vec<(i64, i64)>>,
}

impl State {
    /// Brings what is held up to date with what a connection sees within its transaction.
    pub(super) fn renewed(
        &self,
        connection: &Connection,
        generation: i64,
        index: &Path,
        dim: usize,
    ) -> Done<Self> {
        let removals = meta(connection, "removals")?;
        let record = Record::read(connection)?;
        let mut state = Self {
            generation,
            removals,
            record,
            index: self.index.clone(),
            covered: self.covered,
            pieces: self.pieces.clone(),
            newest: self.newest,
            is_full: self.is_full,
            windows: OnceLock::new(),
        };
        if record != self.record {
            // A file that is missing, damaged or of another time is as good as none: everything is then compared.
            let opened = record
                .zip(HnswIndex::open(index).ok())
                .filter(|(record, index)| record.is_of(index, dim));
            state.covered = opened.as_ref().map_or(0, |(record, _)| record.covered);
            state.index = opened.map(|(_, index)| Arc::new(index));
            state.is_full = false;
            if state.covered < self.covered {
                state.pieces.clear();
                state.newest = state.covered;
            }
        }
        if removals != self.removals || state.covered != self.covered {
            let live = if removals == self.removals {
                None
            } else {
                Some(all_windows(connection)?)
            };
            let is_live = |id: i64| live.as_ref().is_none_or(|live| place(live, id).is_some());
            let covered = state.covered;
            state.keep(dim, |id| id > covered && is_live(id));
            state.newest = state.newest.max(covered);
            if let Some(live) = live {
                let _ = state.windows.set(live);
            }
        }
        state.append(connection, dim)?;
        Ok(state)
    }

    fn keep(&mut self, dim: usize, keep: impl Fn(i64) -> bool) {
        for piece in &mut self.pieces {
            if !piece.ids.iter().all(|&id| keep(id)) {
                *piece = Arc::new(piece.keep(dim, &keep));
            }
        }
        self.pieces.retain(|piece| !piece.ids.is_empty());
    }

    /// Reads windows that are newer than those held.
    fn append(&mut self, connection: &Connection, dim: usize) -> Done<()> {
        if self.is_full {
            return Ok(());
        }
        let mut room = (HELD / 2 / dim).saturating_sub(self.pieces.iter().map(|piece| piece.ids.len()).sum());
        let mut find =
            connection.prepare_cached("SELECT id, file, vector FROM windows WHERE id > ?1 ORDER BY id")?;
        let mut rows = find.query([self.newest])?;
        let mut last: Option<Piece> = None;
        while let Some(row) = rows.next()? {
            if room == 0 {
                self.is_full = true;
                break;
            }
            let piece = match &mut last {
                Some(piece) if piece.ids.len() < PIECE => piece,
                _ => {
                    self.pieces.extend(last.take().map(Arc::new));
                    let begun = self.pieces.pop_if(|piece| piece.ids.len() < PIECE);
                    last.insert(begun.map(|piece| (*piece).clone()).unwrap_or_default())
                }
            };
            piece.push(row, dim)?;
            self.newest = piece.ids.last().copied().unwrap_or(self.newest);
            room -= 1;
        }
        self.pieces.extend(last.map(Arc::new));
        Ok(())
    }

    /// All windows and their files, by window. The connection must see the generation of this state.
    pub(super) fn windows(&self, connection: &Connection) -> Done<&[(i64, i64)]> {
        if let Some(windows) = self.windows.get() {
            return Ok(windows);
        }
        let windows = all_windows(connection)?;
        Ok(self.windows.get_or_init(|| windows))
    }
}

/// All windows and their files, by window. The index on files has both, so that no vector is read.
pub(super) fn all_windows(connection: &Connection) -> Done<Vec<(i64, i64)>> {
    let mut find = connection.prepare_cached("SELECT id, file FROM windows INDEXED BY windows_by_file")?;
    let found = find.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut windows: Vec<(i64, i64)> = found.collect::<Done<_>>()?;
    windows.sort_unstable();
    Ok(windows)
}

/// Where a window stands among all.
pub(super) fn place(windows: &[(i64, i64)], id: i64) -> Option<usize> {
    windows.binary_search_by_key(&id, |&(window, _)| window).ok()
}
