//! Applies changes.
//!
//! A batch is one transaction. It locks its rows at the beginning in the order of their paths, and recordings are written in that
//! order, so that writers of the same paths queue instead of deadlocking. If two write the same path, one of the two remains, complete:
//! the row in `files` is locked until the commit, and what belongs to it is changed only under that lock.

use std::borrow::Cow;

use postgres::types::ToSql;

use super::pool::{Failed, Session};
use super::rows::{self, Half};
use super::sql;
use crate::words::Columns;
use crate::{
    AudioInfo, Change, Entry, Error, Failure, Heard, Notes, Settings, Stat, Window, filter, prepare,
};

/// Windows in one statement: with 4,000 numbers each, 8 MB.
const WINDOWS_AT_ONCE: usize = 1_000;
/// Bytes of each kind of text that are searched: what PostgreSQL keeps of a file's words has a bound of 1 MB.
const WORDS: usize = 50_000;
/// Bytes of a tag that tell it from others: the index of tags has a bound.
const TAG: usize = 500;
/// Bytes of a path: the index of paths has a bound.
const PATH: usize = 2_600;

/// Whether changes can be kept. Nothing has been asked of the server yet.
pub(super) fn verify(changes: &[Change], settings: &Settings) -> Result<(), Error> {
    for change in changes {
        let path = match change {
            Change::Upsert(entry) => {
                prepare::windows(entry, settings)?;
                &entry.path
            }
            Change::Copy { path, .. } | Change::Move { path, .. } => path,
            Change::AddFailure(failure) => &failure.path,
            Change::UpdateStat { .. }
            | Change::SetNotes { .. }
            | Change::SetHeard { .. }
            | Change::Remove { .. }
            | Change::ClearFailure { .. } => continue,
        };
        // Three bytes for a NUL that was one.
        let got = prepare::text(path).len();
        if got > PATH {
            return Err(Error::LongPath {
                path: path.clone(),
                got,
                most: PATH,
            });
        }
    }
    Ok(())
}

/// Changes in the order in which they are made: neighbours that put recordings are sorted by path.
pub(super) fn ordered(changes: &[Change]) -> Vec<&Change> {
    let mut ordered: Vec<&Change> = changes.iter().collect();
    let is_put = |change: &&Change| matches!(change, Change::Upsert(_));
    for run in ordered.chunk_by_mut(|a, b| is_put(a) && is_put(b)) {
        run.sort_by_key(|change| match change {
            Change::Upsert(entry) => entry.path.as_str(),
            _ => "",
        });
    }
    ordered
}

/// Makes changes, in one transaction.
pub(super) fn apply(
    session: &mut Session<'_>,
    changes: &[&Change],
    settings: &Settings,
    place: &str,
) -> Result<(), Failed> {
    hold(session, changes)?;
    for change in changes {
        match change {
            Change::Upsert(entry) => put(session, entry, settings)?,
            Change::Copy {
                of,
                path,
                stat,
                notes,
            } => copy(session, *of, path, *stat, notes, place)?,
            Change::Move { id, path, stat } => relocate(session, *id, path, *stat, place)?,
            Change::UpdateStat { id, stat } => {
                session.execute(sql::TOUCH, &[id, &(stat.size as i64), &stat.modified])?;
            }
            Change::SetNotes { id, notes } => annotate(session, *id, notes, place)?,
            Change::SetHeard { id, heard } => set_heard(session, *id, heard, place)?,
            Change::Remove { id } => drop_by(session, sql::DROP_FILE, &[id])?,
            Change::AddFailure(failure) => fail(session, failure)?,
            Change::ClearFailure { path } => forget(session, path)?,
        }
    }
    Ok(())
}

/// Takes a root and the files that were there for it.
pub(super) fn remove_root(session: &mut Session<'_>, root: &str) -> Result<(), Failed> {
    let root = prepare::folder(root);
    if session.execute(sql::REMOVE_ROOT, &[&root])? == 0 {
        return Ok(());
    }
    let (from, to) = filter::range(&root);
    session.execute(sql::REMOVE_FAILURES_OF_ROOT, &[&from, &to])?;
    drop_by(session, sql::REMOVE_FILES_OF_ROOT, &[&from, &to])
}

fn hold(session: &mut Session<'_>, changes: &[&Change]) -> Result<(), Failed> {
    let (mut paths, mut ids): (Vec<Cow<'_, str>>, Vec<i64>) = (Vec::new(), Vec::new());
    for change in changes {
        match change {
            Change::Upsert(entry) => paths.push(prepare::text(&entry.path)),
            Change::Copy { of, path, .. } => {
                ids.push(*of);
                paths.push(prepare::text(path));
            }
            Change::Move { id, path, .. } => {
                ids.push(*id);
                paths.push(prepare::text(path));
            }
            Change::UpdateStat { id, .. }
            | Change::SetNotes { id, .. }
            | Change::SetHeard { id, .. }
            | Change::Remove { id } => {
                ids.push(*id);
            }
            Change::AddFailure(failure) => paths.push(prepare::text(&failure.path)),
            Change::ClearFailure { .. } => {}
        }
    }
    session.query(sql::HOLD, &[&paths, &ids])?;
    Ok(())
}

fn put(session: &mut Session<'_>, entry: &Entry, settings: &Settings) -> Result<(), Failed> {
    let windows = prepare::windows(entry, settings)?;
    let (path, sound, notes) = (
        prepare::text(&entry.path),
        prepare::sound(&entry.sound),
        prepare::notes(&entry.notes),
    );
    let id = put_file(
        session,
        &FileRow {
            path: &path,
            stat: entry.stat,
            content: &prepare::text(&entry.content),
            sound: &sound,
            notes: &notes,
            windows: windows.len() as i32,
        },
    )?;
    put_windows(session, id, &windows)
}

/// A row of `files` with its row of `sounds`.
struct FileRow<'a> {
    path: &'a str,
    stat: Stat,
    content: &'a str,
    sound: &'a AudioInfo,
    notes: &'a Notes,
    windows: i32,
}

/// Writes a file without its windows; gives its number. A failure of its path, and windows that it had, are gone.
fn put_file(session: &mut Session<'_>, row: &FileRow<'_>) -> Result<i64, Failed> {
    forget(session, row.path)?;
    let (size, rate) = (row.stat.size as i64, i64::from(row.sound.rate));
    let tags = all_tags(row.sound, row.notes);
    let values: [&(dyn ToSql + Sync); 9] = [
        &row.path,
        &size,
        &row.stat.modified,
        &row.content,
        &row.sound.seconds,
        &rate,
        &row.sound.date,
        &tags,
        &row.windows,
    ];
    let rows = session.query(sql::PUT_FILE, &values)?;
    let id: i64 = rows
        .first()
        .map(|row| row.try_get(0))
        .transpose()?
        .unwrap_or_default();
    let words = Words::new(row.path, row.sound, row.notes);
    let (sound, notes) = (json(row.sound), json(row.notes));
    let values: [&(dyn ToSql + Sync); 8] = [
        &id,
        &sound,
        &notes,
        &row.sound.peaks,
        &row.sound.fingerprint,
        &words.main,
        &words.captions,
        &words.rest,
    ];
    session.execute(sql::PUT_SOUND, &values)?;
    session.execute(sql::DROP_OLD_WINDOWS, &[&id])?;
    Ok(id)
}

fn put_windows(session: &mut Session<'_>, id: i64, windows: &[&Window]) -> Result<(), Failed> {
    for (block, part) in windows.chunks(WINDOWS_AT_ONCE).enumerate() {
        let first = (block * WINDOWS_AT_ONCE) as i32;
        let numbers: Vec<i32> = (first..).take(part.len()).collect();
        let starts: Vec<f64> = part.iter().map(|window| window.start).collect();
        let ends: Vec<f64> = part.iter().map(|window| window.end).collect();
        let wholes: Vec<bool> = part.iter().map(|window| window.whole).collect();
        let vectors: Vec<Half> = part.iter().map(|window| Half(window.vector.clone())).collect();
        session.execute(
            sql::PUT_WINDOWS,
            &[&id, &numbers, &starts, &ends, &wholes, &vectors],
        )?;
    }
    Ok(())
}

fn copy(
    session: &mut Session<'_>,
    of: i64,
    path: &str,
    stat: Stat,
    notes: &Notes,
    place: &str,
) -> Result<(), Failed> {
    let Some(file) = known(session, of, place)? else {
        return Ok(());
    };
    let (path, notes) = (prepare::text(path), prepare::notes(notes));
    if file.path == path {
        session.execute(sql::TOUCH, &[&of, &(stat.size as i64), &stat.modified])?;
        return annotate(session, of, &notes, place);
    }
    let counted = session.query(sql::WINDOWS_OF_FILE, &[&of])?;
    let windows: i32 = counted
        .first()
        .map(|row| row.try_get(0))
        .transpose()?
        .unwrap_or_default();
    let id = put_file(
        session,
        &FileRow {
            path: &path,
            stat,
            content: &file.content,
            sound: &file.sound,
            notes: &notes,
            windows,
        },
    )?;
    session.execute(sql::COPY_WINDOWS, &[&id, &of])?;
    Ok(())
}

fn relocate(session: &mut Session<'_>, id: i64, path: &str, stat: Stat, place: &str) -> Result<(), Failed> {
    let Some(file) = known(session, id, place)? else {
        return Ok(());
    };
    let path = prepare::text(path);
    forget(session, &path)?;
    drop_by(session, sql::DROP_PATH_OF_OTHERS, &[&path, &id])?;
    session.execute(sql::MOVE, &[&id, &path, &(stat.size as i64), &stat.modified])?;
    describe(session, id, &path, &file.sound, &file.notes)
}

fn annotate(session: &mut Session<'_>, id: i64, notes: &Notes, place: &str) -> Result<(), Failed> {
    let Some(file) = known(session, id, place)? else {
        return Ok(());
    };
    let notes = prepare::notes(notes);
    session.execute(sql::TAG, &[&id, &all_tags(&file.sound, &notes)])?;
    describe(session, id, &file.path, &file.sound, &notes)
}

fn set_heard(session: &mut Session<'_>, id: i64, heard: &[Heard], place: &str) -> Result<(), Failed> {
    let Some(mut file) = known(session, id, place)? else {
        return Ok(());
    };
    file.sound.heard = prepare::heard(heard);
    session.execute(sql::TAG, &[&id, &all_tags(&file.sound, &file.notes)])?;
    session.execute(sql::SET_SOUND, &[&id, &json(&file.sound)])?;
    describe(session, id, &file.path, &file.sound, &file.notes)
}

/// Tags that people gave and names of what is heard, sorted, each once, as the index of tags has them.
fn all_tags<'a>(sound: &'a AudioInfo, notes: &'a Notes) -> Vec<&'a str> {
    let heard = sound.heard.iter().map(|heard| cut(&heard.name, TAG));
    let mut tags: Vec<&str> = tag_keys(&notes.tags).into_iter().chain(heard).collect();
    tags.sort_unstable();
    tags.dedup();
    tags
}

/// Renews notes and words.
fn describe(
    session: &mut Session<'_>,
    id: i64,
    path: &str,
    sound: &AudioInfo,
    notes: &Notes,
) -> Result<(), Failed> {
    let words = Words::new(path, sound, notes);
    session.execute(
        sql::ANNOTATE,
        &[&id, &json(notes), &words.main, &words.captions, &words.rest],
    )?;
    Ok(())
}

fn known(session: &mut Session<'_>, id: i64, place: &str) -> Result<Option<crate::File>, Failed> {
    session
        .query(sql::FILES, &[&vec![id]])?
        .first()
        .map(|row| rows::file(row, place))
        .transpose()
}

fn fail(session: &mut Session<'_>, failure: &Failure) -> Result<(), Failed> {
    let (path, message) = (prepare::text(&failure.path), prepare::text(&failure.message));
    drop_by(session, sql::DROP_PATH, &[&path])?;
    let size = failure.stat.size as i64;
    session.execute(sql::FAIL, &[&path, &size, &failure.stat.modified, &message])?;
    Ok(())
}

fn forget(session: &mut Session<'_>, path: &str) -> Result<(), Failed> {
    session.execute(sql::FORGET, &[&prepare::text(path)])?;
    Ok(())
}

/// Drops the files whose numbers a statement returns that has deleted their rows.
fn drop_by(
    session: &mut Session<'_>,
    sql: &'static str,
    values: &[&(dyn ToSql + Sync)],
) -> Result<(), Failed> {
    let rows = session.query(sql, values)?;
    let ids: Vec<i64> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    if !ids.is_empty() {
        session.execute(sql::DROP_SOUNDS, &[&ids])?;
        session.execute(sql::DROP_WINDOWS, &[&ids])?;
    }
    Ok(())
}

/// Tags as the index of tags has them.
pub(super) fn tag_keys(tags: &[String]) -> Vec<&str> {
    tags.iter().map(|tag| cut(tag, TAG)).collect()
}

fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// What a file is found by, by what a word there counts.
struct Words {
    main: String,
    captions: String,
    rest: String,
}

impl Words {
    fn new(path: &str, sound: &AudioInfo, notes: &Notes) -> Self {
        let columns = Columns::new(path, sound, notes);
        let both = |a: &str, b: &str| format!("{} {}", cut(a, WORDS), cut(b, WORDS));
        Self {
            main: both(&columns.name, &columns.tags),
            captions: cut(&columns.captions, WORDS).to_owned(),
            rest: both(&columns.folders, &columns.metadata),
        }
    }
}

/// Text and numbers, of which none is infinite, always have a form in JSON.
fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
