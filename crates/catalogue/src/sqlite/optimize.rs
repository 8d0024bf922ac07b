//! Builds or extends the index file.
//!
//! The file is built from the snapshot of one transaction, moved into place as a whole, and recorded afterwards. A crash between the
//! two leaves a file that does not match its record; nobody uses it, and the next run rebuilds it.

use hark_work::progress::Progress;
use std::path::Path;

use hark_nearest::HnswIndex;
use hark_nearest::Vectors;
use hark_nearest::approximate::Options;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::Error;
use crate::sqlite::Alone;
use crate::sqlite::held::{Record, all_windows, place, vector};

/// Vectors that are added at a time.
const BLOCK: usize = 4096;

/// What an index is made for.
pub(super) struct Tidy<'a> {
    pub index: &'a Path,
    pub folder: &'a Path,
    pub dim: usize,
    /// From how many windows on there is an index.
    pub worthwhile: usize,
    pub threads: usize,
    pub fault: &'a dyn Fn(rusqlite::Error) -> Error,
}

impl Tidy<'_> {
    pub(super) fn run(&self, connection: &mut Connection, progress: Progress<'_>) -> Result<(), Error> {
        // Two who tidy at once would replace each other's file: the second one waits and finds little to do.
        let _alone = Alone::wait(self.folder)?;
        self.locked(connection, progress)
    }

    fn locked(&self, connection: &mut Connection, progress: Progress<'_>) -> Result<(), Error> {
        let fault = self.fault;
        let seen = connection.transaction().map_err(fault)?;
        let live = all_windows(&seen).map_err(fault)?;
        let record = Record::read(&seen).map_err(fault)?;
        let edition = record.map_or(0, |record| record.edition) + 1;
        let made = match live.last() {
            Some(&(newest, _)) if live.len() >= self.worthwhile => {
                let (index, covered) = self.begun(record, &live)?;
                let added = self.extend(&seen, &index, &live, covered, progress)?;
                let changed = added || record.is_none_or(|record| index.len() as u64 != record.count);
                if !changed && covered > 0 {
                    return Ok(());
                }
                index.save(self.index)?;
                Some(Record {
                    covered: newest,
                    count: index.len() as u64,
                    edition,
                })
            }
            _ => None,
        };
        drop(seen);
        if made.is_none() && record.is_none() {
            return Ok(());
        }
        let transaction = Transaction::new(connection, TransactionBehavior::Immediate).map_err(fault)?;
        record_made(&transaction, made)
            .and_then(|()| transaction.commit())
            .map_err(fault)?;
        if made.is_none() {
            // A library that has become small is compared as a whole. Who still has the file open keeps it.
            let _ = fs_err::remove_file(self.index);
        }
        Ok(())
    }

    /// The index that is there, without windows that are gone, and up to where it reaches; or a new one, if there is none that
    /// fits or a good part of it is gone.
    fn begun(&self, record: Option<Record>, live: &[(i64, i64)]) -> Result<(HnswIndex, i64), Error> {
        let fresh = || Ok((HnswIndex::new(self.dim, Options::default())?, 0));
        let Some(record) = record else { return fresh() };
        let Ok(index) = HnswIndex::load(self.index) else {
            return fresh();
        };
        if !record.is_of(&index, self.dim) {
            return fresh();
        }
        let within = live.partition_point(|&(id, _)| id <= record.covered);
        let gone = index.len().saturating_sub(within);
        // Looking for what is gone takes a look at every number there was.
        if gone > index.len() / 4 || record.covered as u64 / 64 > index.len() as u64 {
            return fresh();
        }
        if gone > 0 {
            for id in (1..=record.covered).filter(|&id| place(live, id).is_none()) {
                index.remove(id as u64)?;
            }
        }
        Ok((index, record.covered))
    }

    /// Adds windows after a number; whether there were any.
    fn extend(
        &self,
        seen: &Connection,
        index: &HnswIndex,
        live: &[(i64, i64)],
        covered: i64,
        progress: Progress<'_>,
    ) -> Result<bool, Error> {
        let fault = self.fault;
        let total = (live.len() - live.partition_point(|&(id, _)| id <= covered)) as u64;
        let mut done = 0;
        let mut find = seen
            .prepare("SELECT id, vector FROM windows WHERE id > ?1 ORDER BY id")
            .map_err(fault)?;
        let mut rows = find.query([covered]).map_err(fault)?;
        let mut ids: Vec<u64> = Vec::with_capacity(BLOCK);
        let mut block: Vec<f32> = Vec::with_capacity(BLOCK * self.dim);
        loop {
            let row = rows.next().map_err(fault)?;
            let is_last = row.is_none();
            if let Some(row) = row {
                ids.push(row.get::<_, i64>(0).map_err(fault)? as u64);
                block.extend(vector(row, 1, self.dim).map_err(fault)?.map(f32::from));
            }
            if ids.len() == BLOCK || (is_last && !ids.is_empty()) {
                let mut stopped = None;
                let outcome = index.add(
                    &ids,
                    Vectors::new(&block, self.dim)?,
                    self.threads,
                    &mut |added, _| {
                        let flow = progress(done + added, total);
                        if flow.is_break() {
                            stopped = Some(done + added);
                        }
                        flow
                    },
                );
                if let Some(done) = stopped {
                    return Err(Error::Stopped { done, total });
                }
                outcome?;
                done += ids.len() as u64;
                ids.clear();
                block.clear();
            }
            if is_last {
                return Ok(total > 0);
            }
        }
    }
}

/// Tells every process of another index file, or of none.
fn record_made(transaction: &Transaction<'_>, made: Option<Record>) -> Result<(), rusqlite::Error> {
    match made {
        Some(record) => record.write(transaction)?,
        None => _ = transaction.execute("DELETE FROM meta WHERE key = 'index'", [])?,
    }
    transaction.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'", [])?;
    Ok(())
}
