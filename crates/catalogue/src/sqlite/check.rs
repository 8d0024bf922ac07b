//! Checks consistency: the file, the relations between tables, each recording, and the index file.

use std::path::Path;

use hark_nearest::HnswIndex;
use rusqlite::Connection;

use crate::prepare::{self, OVERHANG};
use crate::sqlite::held::{Record, all_windows, place};

type Done<T> = Result<T, rusqlite::Error>;

/// How far the length of a vector of 16-bit numbers may be from 1: each number is right to 2^-11 of itself, and what was put in
/// to 0.001.
const UNIT: f64 = 2e-3;
/// Faults of one kind that are told.
const MAX: usize = 20;

/// Everything that is wrong. The connection must be a new one: the full-text index of one that has been in use checks what it
/// remembers of it.
pub(super) fn check(connection: &Connection, index: &Path, dim: usize) -> Done<Vec<String>> {
    let mut faults = Vec::new();
    let told = texts(connection, "PRAGMA integrity_check(20)")?;
    // This looks at the index of words, too, which is derived from the other tables: everything else can be fine.
    let (words, file): (Vec<String>, Vec<String>) = told
        .into_iter()
        .filter(|text| text != "ok")
        .partition(|text| text.to_ascii_lowercase().contains("fts5"));
    faults.extend(
        file.iter()
            .map(|text| format!("the database file is damaged: {text}")),
    );
    if !faults.is_empty() {
        // What a damaged file says of anything else is not worth telling.
        return Ok(faults);
    }
    faults.extend(
        words
            .iter()
            .map(|text| format!("the index of words does not agree with the words: {text}")),
    );
    for (sql, what) in QUESTIONS {
        let found = texts(connection, sql)?;
        faults.extend(found.into_iter().take(MAX).map(|text| format!("{text}: {what}")));
    }
    windows(connection, dim, &mut faults)?;
    indexed(connection, index, dim, &mut faults)?;
    Ok(faults)
}

/// Each gives names of what is wrong in the same way.
const QUESTIONS: [(&str, &str); 8] = [
    (
        "SELECT \"table\" || ' ' || coalesce(rowid, '') FROM pragma_foreign_key_check",
        "a row of the database belongs to nothing",
    ),
    (
        "SELECT path FROM files WHERE id NOT IN (SELECT rowid FROM words)",
        "the file cannot be found by words",
    ),
    (
        "SELECT rowid FROM words WHERE rowid NOT IN (SELECT id FROM files)",
        "words are kept for a file that is gone",
    ),
    (
        "SELECT path FROM files WHERE id NOT IN (SELECT file FROM details)",
        "the details of the file are missing",
    ),
    (
        "SELECT path FROM files WHERE (SELECT count(*) FROM windows WHERE file = files.id AND whole) <> 1",
        "there is not exactly one vector of the whole recording",
    ),
    (
        "SELECT path FROM files WHERE path IN (SELECT path FROM failures)",
        "the file was read and could not be read",
    ),
    (
        "SELECT path FROM files WHERE seconds < 0",
        "the length is negative",
    ),
    (
        "SELECT key FROM (SELECT 'generation' AS key UNION ALL SELECT 'removals') WHERE key NOT IN (SELECT key FROM meta WHERE \
         typeof(value) = 'integer')",
        "the number of changes is missing",
    ),
];

fn texts(connection: &Connection, sql: &str) -> Done<Vec<String>> {
    let mut find = connection.prepare(sql)?;
    let mut rows = find.query([])?;
    let mut texts = Vec::new();
    while let Some(row) = rows.next()? {
        let text = match row.get_ref(0)? {
            rusqlite::types::ValueRef::Integer(number) => number.to_string(),
            other => String::from_utf8_lossy(other.as_bytes().unwrap_or_default()).into_owned(),
        };
        texts.push(text);
    }
    Ok(texts)
}

/// Times and vectors of all windows.
fn windows(connection: &Connection, dim: usize, faults: &mut Vec<String>) -> Done<()> {
    let sql = "SELECT files.path, files.seconds, windows.start, windows.\"end\", windows.whole, windows.vector, windows.id \
               FROM files JOIN windows ON windows.file = files.id ORDER BY files.id, windows.whole DESC, windows.id";
    let mut find = connection.prepare(sql)?;
    let mut rows = find.query([])?;
    let mut before: Option<(String, f64)> = None;
    let mut told = 0;
    while let Some(row) = rows.next()?
        && told < MAX
    {
        let path: String = row.get(0)?;
        let (seconds, start, end): (f64, f64, f64) = (row.get(1)?, row.get(2)?, row.get(3)?);
        let whole: bool = row.get(4)?;
        let mut tell = |what: String| {
            told += 1;
            faults.push(format!("{path}: the window at {start} s {what}"));
        };
        if !(start >= 0.0 && end >= start && end <= seconds + OVERHANG) {
            tell(format!("ends at {end} s, in a recording of {seconds} s"));
        }
        let bytes = row.get_ref(5)?.as_blob()?;
        if bytes.len() == 2 * dim {
            let vector: Vec<f32> = prepare::halves(bytes).map(f32::from).collect();
            let norm = prepare::norm(&vector);
            if norm.is_nan() || (norm - 1.0).abs() > UNIT {
                tell(format!("has a vector of length {norm}, not 1"));
            }
        } else {
            tell(format!("has a vector of {} bytes, not {}", bytes.len(), 2 * dim));
        }
        if !whole {
            if let Some((of, at)) = &before
                && *of == path
                && start <= *at
            {
                tell(format!("was kept after the one at {at} s"));
            }
            before = Some((path, start));
        }
    }
    Ok(())
}

/// The index file and what is recorded of it.
fn indexed(connection: &Connection, path: &Path, dim: usize, faults: &mut Vec<String>) -> Done<()> {
    let Some(record) = Record::read(connection)? else {
        return Ok(());
    };
    let name = path.display();
    let index = match HnswIndex::open(path) {
        Ok(index) => index,
        Err(error) => {
            faults.push(format!(
                "the index cannot be used, and searching is slow until the library is tidied: {error}"
            ));
            return Ok(());
        }
    };
    if index.dim() != dim {
        faults.push(format!(
            "{name}: vectors of {} numbers, where the library has {dim}",
            index.dim()
        ));
    } else if !record.is_of(&index, dim) {
        faults.push(format!(
            "{name}: the index is of another time, and searching is slow until the library is tidied"
        ));
    } else {
        let live = all_windows(connection)?;
        let within = live.partition_point(|&(id, _)| id <= record.covered);
        let missing = live
            .iter()
            .take(within)
            .filter(|&&(id, _)| !index.contains(id as u64))
            .count();
        if missing > 0 {
            faults.push(format!("{name}: {missing} windows are missing in the index"));
        }
        // All that are there and gone windows make up the index; more would be a window twice.
        let gone = (1..=record.covered)
            .filter(|&id| place(&live, id).is_none() && index.contains(id as u64))
            .count();
        if index.len() != within - missing + gone {
            faults.push(format!(
                "{name}: the index counts {} vectors and has {}",
                index.len(),
                within - missing + gone
            ));
        }
    }
    Ok(())
}
