//! Reads files, windows and counts.

use std::ops::ControlFlow;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row};
use serde::de::DeserializeOwned;

use crate::overview::{MAX, Sounds, folders};
use crate::sqlite::passing::Passing;
use crate::{
    AudioInfo, Count, Entry, Failure, File, Filter, IndexedFile, Notes, Overview, Stat, Window, prepare,
};

type Done<T> = Result<T, rusqlite::Error>;

/// All of a file but its windows; [`to_file`] reads it.
const FILE: &str = "SELECT f.id, f.path, f.size, f.modified, f.content, f.seconds, f.rate, f.channels, f.container, f.codec, f.date, \
     d.metadata, d.damage, d.captions, d.peaks, d.fingerprint, \
     (SELECT json_group_array(tag ORDER BY tag) FROM tags WHERE tags.file = f.id AND NOT tags.heard), d.heard \
     FROM files AS f JOIN details AS d ON d.file = f.id";

fn to_file(row: &Row<'_>) -> Done<File> {
    let sound = AudioInfo {
        seconds: row.get(5)?,
        rate: row.get(6)?,
        channels: row.get(7)?,
        container: row.get(8)?,
        codec: row.get(9)?,
        date: row.get(10)?,
        metadata: json(row, 11)?,
        damage: row.get(12)?,
        heard: json(row, 17)?,
        peaks: row.get(14)?,
        fingerprint: row.get(15)?,
    };
    let notes = Notes {
        captions: json(row, 13)?,
        tags: json(row, 16)?,
    };
    Ok(File {
        id: row.get(0)?,
        path: row.get(1)?,
        stat: to_stat(row, 2)?,
        content: row.get(4)?,
        sound,
        notes,
    })
}

fn to_stat(row: &Row<'_>, column: usize) -> Done<Stat> {
    // A size is kept as the 64 bits that it is.
    Ok(Stat {
        size: row.get::<_, i64>(column)? as u64,
        modified: row.get(column + 1)?,
    })
}

fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Done<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error)))
}

fn to_window(row: &Row<'_>) -> Done<Window> {
    let vector = prepare::halves(row.get_ref(3)?.as_blob()?)
        .map(f32::from)
        .collect();
    Ok(Window {
        start: row.get(0)?,
        end: row.get(1)?,
        whole: row.get(2)?,
        vector,
    })
}

pub(super) fn roots(connection: &Connection) -> Done<Vec<String>> {
    let mut find = connection.prepare_cached("SELECT path FROM roots ORDER BY path")?;
    find.query_map([], |row| row.get(0))?.collect()
}

pub(super) fn vocabulary(connection: &Connection) -> Done<Vec<String>> {
    connection
        .prepare_cached("SELECT value FROM meta WHERE key = 'vocabulary'")?
        .query_row([], |row| json(row, 0))
        .optional()
        .map(Option::unwrap_or_default)
}

pub(super) fn known(connection: &Connection) -> Done<Vec<IndexedFile>> {
    let mut find = connection.prepare("SELECT id, path, size, modified, content FROM files ORDER BY path")?;
    let known = |row: &Row<'_>| {
        Ok(IndexedFile {
            id: row.get(0)?,
            path: row.get(1)?,
            stat: to_stat(row, 2)?,
            content: row.get(4)?,
        })
    };
    find.query_map([], known)?.collect()
}

pub(super) fn failures(connection: &Connection) -> Done<Vec<Failure>> {
    let mut find = connection.prepare("SELECT path, size, modified, message FROM failures ORDER BY path")?;
    find.query_map([], |row| {
        Ok(Failure {
            path: row.get(0)?,
            stat: to_stat(row, 1)?,
            message: row.get(3)?,
        })
    })?
    .collect()
}

pub(super) fn file(connection: &Connection, id: i64) -> Done<Option<File>> {
    connection
        .prepare_cached(&format!("{FILE} WHERE f.id = ?1"))?
        .query_row([id], to_file)
        .optional()
}

pub(super) fn find(connection: &Connection, path: &str) -> Done<Option<File>> {
    connection
        .prepare_cached(&format!("{FILE} WHERE f.path = ?1"))?
        .query_row([path], to_file)
        .optional()
}

pub(super) fn windows(connection: &Connection, file: i64) -> Done<Vec<Window>> {
    let sql = "SELECT start, \"end\", whole, vector FROM windows WHERE file = ?1 ORDER BY whole DESC, start, \"end\"";
    connection
        .prepare_cached(sql)?
        .query_map([file], to_window)?
        .collect()
}

pub(super) fn browse(connection: &Connection, filter: &Filter, skip: usize, limit: usize) -> Done<Vec<i64>> {
    if filter.matches_nothing() {
        return Ok(Vec::new());
    }
    let passing = Passing::new(filter);
    let bound = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let sql = format!(
        "SELECT id FROM files WHERE {} ORDER BY path LIMIT :limit OFFSET :skip",
        passing.condition
    );
    let mut find = connection.prepare_cached(&sql)?;
    passing.bind(&mut find)?;
    find.raw_bind_parameter(":limit", bound(limit))?;
    find.raw_bind_parameter(":skip", bound(skip))?;
    find.raw_query().mapped(|row| row.get(0)).collect()
}

pub(super) fn for_each_file(
    connection: &Connection,
    take: &mut dyn FnMut(File) -> ControlFlow<()>,
) -> Done<()> {
    let mut find = connection.prepare(&format!("{FILE} ORDER BY f.path"))?;
    let mut rows = find.query([])?;
    while let Some(row) = rows.next()? {
        if take(to_file(row)?).is_break() {
            break;
        }
    }
    Ok(())
}

pub(super) fn for_each_entry(
    connection: &Connection,
    take: &mut dyn FnMut(Entry) -> ControlFlow<()>,
) -> Done<()> {
    let mut fault = None;
    for_each_file(connection, &mut |file| match windows(connection, file.id) {
        Ok(windows) => take(file.into_entry(windows)),
        Err(error) => {
            fault = Some(error);
            ControlFlow::Break(())
        }
    })?;
    fault.map_or(Ok(()), Err)
}

pub(super) fn overview(connection: &Connection) -> Done<Overview> {
    let number = |sql: &str| {
        connection
            .query_row(sql, [], |row| row.get::<_, i64>(0))
            .map(|count| count as u64)
    };
    let counts = |sql: &str| -> Done<Vec<Count>> {
        let mut find = connection.prepare(sql)?;
        find.query_map([], |row| {
            Ok(Count {
                value: row.get(0)?,
                files: row.get::<_, i64>(1)? as u64,
            })
        })?
        .collect()
    };
    let roots = roots(connection)?;
    let mut find = connection.prepare("SELECT path FROM files ORDER BY path")?;
    let paths: Vec<String> = find.query_map([], |row| row.get(0))?.collect::<Done<_>>()?;
    let mut sounds = Sounds::default();
    let mut find = connection.prepare(
        "SELECT container, codec, channels, count(*) FROM files GROUP BY container, codec, channels",
    )?;
    let mut rows = find.query([])?;
    while let Some(row) = rows.next()? {
        let text = |column: usize| -> Done<&str> { Ok(row.get_ref(column)?.as_str()?) };
        sounds.add(text(0)?, text(1)?, row.get(2)?, row.get::<_, i64>(3)? as u64);
    }
    Ok(Overview {
        files: paths.len() as u64,
        windows: number("SELECT count(*) FROM windows")?,
        seconds: connection.query_row("SELECT total(seconds) FROM files", [], |row| row.get(0))?,
        failures: number("SELECT count(*) FROM failures")?,
        folders: folders(&roots, paths.iter().map(String::as_str)),
        roots,
        tags: counts(&format!(
            "SELECT tag, count(*) AS files FROM tags GROUP BY tag ORDER BY files DESC, tag LIMIT {MAX}"
        ))?,
        rates: counts("SELECT CAST(rate AS TEXT), count(*) FROM files GROUP BY rate ORDER BY rate")?,
        formats: sounds.formats(),
        channels: sounds.channels(),
    })
}
