//! Searches by vector.
//!
//! Windows that the index covers and newer ones are searched separately. The newer ones are all compared. For the others, the index
//! proposes candidates, more than requested, and the vectors in the database decide: a removed window has none. If few windows pass the
//! filter, or so many are requested that an index saves nothing, all that pass are compared instead. The result is exact except for
//! what the index misses.

use half::f16;
use hark_nearest::scan;
use rusqlite::{Connection, OptionalExtension};

use crate::sqlite::held::{Piece, State, place, vector};
use crate::{Error, WindowHit};

/// Rows that are read from the database at a time.
const BLOCK: usize = 4096;
/// How many candidates an index names beyond two for each window that is asked for. Its cosines are right to about 0.002, and that
/// many others are seldom within as little.
const MARGIN: usize = 32;

/// A question, and what it is answered from.
pub(super) struct Question<'a> {
    pub connection: &'a Connection,
    pub state: &'a State,
    /// Of length 1.
    pub query: &'a [f32],
    /// How many windows are asked for, 1 at least.
    pub k: usize,
    /// Files that pass, ascending; none if all do.
    pub passing: Option<Vec<i64>>,
    /// How many windows are rather compared than sought in an index.
    pub few: usize,
    pub threads: usize,
    /// Puts what SQLite refuses into words.
    pub fault: &'a dyn Fn(rusqlite::Error) -> Error,
}

impl Question<'_> {
    /// The nearest windows, best first; equal ones by their numbers.
    pub(super) fn answer(&self) -> Result<Vec<WindowHit>, Error> {
        if self.passing.as_ref().is_some_and(Vec::is_empty) {
            return Ok(Vec::new());
        }
        let mut best = Best {
            k: self.k,
            found: Vec::new(),
        };
        for piece in &self.state.pieces {
            self.compare(piece, &mut best)?;
        }
        if self.state.is_full {
            self.compare_stored(self.state.newest, i64::MAX, &mut best)?;
        }
        if self.state.index.is_some() {
            self.covered(&mut best)?;
        }
        best.cut();
        self.described(&best.found)
    }

    /// Compares vectors in memory.
    fn compare(&self, piece: &Piece, best: &mut Best) -> Result<(), Error> {
        let passing = self.passing.as_deref();
        let matches = |row: usize| {
            let (file, passing) = (piece.files.get(row), passing.unwrap_or_default());
            file.is_some_and(|file| passing.binary_search(file).is_ok())
        };
        let allow: Option<&(dyn Fn(usize) -> bool + Sync)> = passing.map(|_| &matches as _);
        let dim = self.query.len();
        for (row, score) in scan::nearest(&piece.rows, dim, self.query, self.k, self.threads, allow)? {
            best.found.extend(piece.ids.get(row).map(|&id| (score, id)));
        }
        best.bound();
        Ok(())
    }

    /// Compares vectors in the database: of windows after the first number, up to the second.
    fn compare_stored(&self, after: i64, to: i64, best: &mut Best) -> Result<(), Error> {
        let fault = self.fault;
        let sql = "SELECT id, file, vector FROM windows WHERE id > ?1 AND id <= ?2 ORDER BY id";
        let mut find = self.connection.prepare_cached(sql).map_err(fault)?;
        let mut rows = find.query([after, to]).map_err(fault)?;
        let mut block = Piece::default();
        while let Some(row) = rows.next().map_err(fault)? {
            block.push(row, self.query.len()).map_err(fault)?;
            if block.ids.len() == BLOCK {
                self.compare(&std::mem::take(&mut block), best)?;
            }
        }
        self.compare(&block, best)
    }

    /// Windows that the index covers.
    fn covered(&self, best: &mut Best) -> Result<(), Error> {
        let covered = self.state.covered;
        let Some(index) = &self.state.index else {
            return Ok(());
        };
        let wanted = self.k.saturating_mul(2).saturating_add(MARGIN);
        if wanted > index.len() / 2 {
            return self.compare_stored(0, covered, best);
        }
        let Some(passing) = &self.passing else {
            return self.sought(wanted, self.k, None, best);
        };
        let windows = self.state.windows(self.connection).map_err(self.fault)?;
        let end = windows.partition_point(|&(id, _)| id <= covered);
        let within = windows.get(..end).unwrap_or_default();
        let admitted = within
            .iter()
            .filter(|(_, file)| passing.binary_search(file).is_ok());
        let count = admitted.clone().count();
        // Where nearly everything is passed over, a walk through the graph looks at more than a comparison does.
        if count <= self.few.max(index.len() / 50) {
            for &(id, _) in admitted {
                best.found.extend(self.score(id)?.map(|score| (score, id)));
            }
            best.bound();
            return Ok(());
        }
        let allow = |id: u64| {
            let file = place(within, id as i64)
                .and_then(|place| within.get(place))
                .map(|&(_, file)| file);
            file.is_some_and(|file| passing.binary_search(&file).is_ok())
        };
        self.sought(wanted.min(count), self.k.min(count), Some(&allow), best)
    }

    /// What the index names. It is asked for more until enough of what it names is there, and if it does not name enough, all is
    /// compared.
    fn sought(
        &self,
        mut wanted: usize,
        enough: usize,
        allow: Option<&(dyn Fn(u64) -> bool + Sync)>,
        best: &mut Best,
    ) -> Result<(), Error> {
        let Some(index) = &self.state.index else {
            return Ok(());
        };
        loop {
            let named = index.search(self.query, wanted, allow)?;
            let mut there = Vec::with_capacity(named.len());
            for &(id, _) in &named {
                // An index that was made a moment before its record may hold newer ones, which are compared anyway.
                if id as i64 <= self.state.covered {
                    there.extend(self.score(id as i64)?.map(|score| (score, id as i64)));
                }
            }
            if there.len() >= enough {
                best.found.append(&mut there);
                best.bound();
                return Ok(());
            }
            if named.len() < wanted || wanted > index.len() / 2 {
                return self.compare_stored(0, self.state.covered, best);
            }
            wanted *= 4;
        }
    }

    /// The cosine of a window in the database; none if it is gone.
    fn score(&self, id: i64) -> Result<Option<f32>, Error> {
        let dim = self.query.len();
        let cosine = |row: &rusqlite::Row<'_>| {
            let row: Vec<f16> = vector(row, 0, dim)?.collect();
            Ok(scan::dot(&row, self.query))
        };
        let find = self
            .connection
            .prepare_cached("SELECT vector FROM windows WHERE id = ?1");
        find.and_then(|mut find| find.query_row([id], cosine).optional())
            .map_err(self.fault)
    }

    fn described(&self, found: &[(f32, i64)]) -> Result<Vec<WindowHit>, Error> {
        let sql = "SELECT file, start, \"end\", whole FROM windows WHERE id = ?1";
        let mut find = self.connection.prepare_cached(sql).map_err(self.fault)?;
        let mut near = Vec::with_capacity(found.len());
        for &(score, id) in found {
            let window = find
                .query_row([id], |row| {
                    Ok(WindowHit {
                        file: row.get(0)?,
                        start: row.get(1)?,
                        end: row.get(2)?,
                        whole: row.get(3)?,
                        score,
                    })
                })
                .optional()
                .map_err(self.fault)?;
            near.extend(window);
        }
        Ok(near)
    }
}

/// The best so far.
struct Best {
    k: usize,
    found: Vec<(f32, i64)>,
}

impl Best {
    /// Leaves the `k` best, in order.
    fn cut(&mut self) {
        self.found
            .sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        self.found.truncate(self.k);
    }

    /// Keeps memory in bounds while more is compared.
    fn bound(&mut self) {
        if self.found.len() > self.k.saturating_mul(2) {
            self.cut();
        }
    }
}
