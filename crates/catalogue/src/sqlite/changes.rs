//! Applies changes within the caller's transaction.

use std::ops::Deref;

use rusqlite::{OptionalExtension, Transaction, params};

use crate::filter::{folder_contains, range};
use crate::words::Columns;
use crate::{AudioInfo, Change, Entry, Failure, Heard, Notes, Settings, Stat, Window, prepare};
use crate::{Error, sqlite::read};

type Done<T = ()> = Result<T, rusqlite::Error>;

/// Whatever an entry may be refused for is looked for before anything is changed.
pub(super) fn validate(changes: &[Change], settings: &Settings) -> Result<(), Error> {
    for change in changes {
        if let Change::Upsert(entry) = change {
            prepare::windows(entry, settings)?;
        }
    }
    Ok(())
}

/// A transaction that changes a library.
pub(super) struct Writer<'a> {
    transaction: Transaction<'a>,
    /// Whether windows went.
    removed: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(transaction: Transaction<'a>) -> Self {
        Self {
            transaction,
            removed: false,
        }
    }

    /// Keeps all changes.
    pub(super) fn commit(self) -> Done {
        let raise = "UPDATE meta SET value = value + 1 WHERE key = ?1";
        self.prepare_cached(raise)?.execute(["generation"])?;
        if self.removed {
            self.prepare_cached(raise)?.execute(["removals"])?;
        }
        self.transaction.commit()
    }

    /// Drops all but the folders, and gives the library other settings.
    pub(super) fn renew(&mut self, settings: &Settings) -> Done {
        self.removed = true;
        self.execute_batch(
            "DELETE FROM words; DELETE FROM tags; DELETE FROM windows; DELETE FROM details; DELETE FROM files; \
             DELETE FROM failures; DELETE FROM meta WHERE key = 'index'",
        )?;
        let mut update = self.prepare("UPDATE meta SET value = ?2 WHERE key = ?1")?;
        update.execute(params!["model", settings.model])?;
        update.execute(params!["fingerprint", settings.fingerprint])?;
        update.execute(params!["dim", settings.dim as i64])?;
        update.execute(params!["window_seconds", settings.window_seconds])?;
        update.execute(params!["hop_seconds", settings.hop_seconds])?;
        Ok(())
    }

    /// Makes one change, which has been validated.
    pub(super) fn change(&mut self, change: &Change) -> Done {
        match change {
            Change::Upsert(entry) => self.put(entry),
            Change::Copy {
                of,
                path,
                stat,
                notes,
            } => self.copy(*of, &prepare::text(path), *stat, notes),
            Change::Move { id, path, stat } => self.relocate(*id, &prepare::text(path), *stat),
            Change::UpdateStat { id, stat } => {
                let sql = "UPDATE files SET size = ?2, modified = ?3 WHERE id = ?1";
                self.prepare_cached(sql)?
                    .execute(params![id, stat.size as i64, stat.modified])?;
                Ok(())
            }
            Change::SetNotes { id, notes } => self.annotate(*id, notes),
            Change::SetHeard { id, heard } => self.set_heard(*id, heard),
            Change::Remove { id } => self.drop_file(*id),
            Change::AddFailure(failure) => self.fail(failure),
            Change::ClearFailure { path } => self.forget(&prepare::text(path)),
        }
    }

    fn put(&mut self, entry: &Entry) -> Done {
        let path = prepare::text(&entry.path);
        let content = prepare::text(&entry.content);
        let sound = prepare::sound(&entry.sound);
        let id = self.place(&path, entry.stat, &content, &sound)?;
        let whole = entry.windows.iter().filter(|window| window.whole);
        for window in whole.chain(entry.windows.iter().filter(|window| !window.whole)) {
            self.window(id, window)?;
        }
        self.notes(id, &path, &sound, &prepare::notes(&entry.notes))
    }

    /// Makes room for a recording at a path: the number of the path, or a new one, with nothing but what `files` and `details` keep.
    fn place(&mut self, path: &str, stat: Stat, content: &str, sound: &AudioInfo) -> Done<i64> {
        self.forget(path)?;
        let columns = "size = ?2, modified = ?3, content = ?4, seconds = ?5, rate = ?6, channels = ?7, container = ?8, \
                       codec = ?9, date = ?10";
        let sql = format!(
            "INSERT INTO files (path, size, modified, content, seconds, rate, channels, container, codec, date) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (path) DO UPDATE SET {columns} RETURNING id"
        );
        let id: i64 = self.prepare_cached(&sql)?.query_row(
            params![
                path,
                stat.size as i64,
                stat.modified,
                content,
                sound.seconds,
                sound.rate,
                sound.channels,
                sound.container,
                sound.codec,
                sound.date
            ],
            |row| row.get(0),
        )?;
        self.drop_windows(id)?;
        let sql = "INSERT OR REPLACE INTO details (file, metadata, damage, captions, peaks, fingerprint, heard) \
                   VALUES (?1, ?2, ?3, '[]', ?4, ?5, ?6)";
        let metadata = serde_json::json!(sound.metadata).to_string();
        self.prepare_cached(sql)?.execute(params![
            id,
            metadata,
            sound.damage,
            sound.peaks,
            sound.fingerprint,
            serde_json::json!(sound.heard).to_string()
        ])?;
        Ok(id)
    }

    fn window(&self, file: i64, window: &Window) -> Done {
        let sql = "INSERT INTO windows (file, start, \"end\", whole, vector) VALUES (?1, ?2, ?3, ?4, ?5)";
        let vector = prepare::bytes(&window.vector);
        self.prepare_cached(sql)?
            .execute(params![file, window.start, window.end, window.whole, vector])?;
        Ok(())
    }

    /// Replaces notes, and the words that a file is found by.
    fn notes(&self, id: i64, path: &str, sound: &AudioInfo, notes: &Notes) -> Done {
        let captions = serde_json::json!(notes.captions).to_string();
        self.prepare_cached("UPDATE details SET captions = ?2 WHERE file = ?1")?
            .execute(params![id, captions])?;
        self.prepare_cached("DELETE FROM tags WHERE file = ?1")?
            .execute([id])?;
        for tag in &notes.tags {
            self.prepare_cached("INSERT INTO tags (file, tag) VALUES (?1, ?2)")?
                .execute(params![id, tag])?;
        }
        for heard in &sound.heard {
            self.prepare_cached("INSERT OR IGNORE INTO tags (file, tag, heard) VALUES (?1, ?2, 1)")?
                .execute(params![id, heard.name])?;
        }
        let Columns {
            name,
            folders,
            tags,
            captions,
            metadata,
        } = Columns::new(path, sound, notes);
        self.prepare_cached("DELETE FROM words WHERE rowid = ?1")?
            .execute([id])?;
        let sql = "INSERT INTO words (rowid, name, folders, tags, captions, metadata) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        self.prepare_cached(sql)?
            .execute(params![id, name, folders, tags, captions, metadata])?;
        Ok(())
    }

    fn copy(&mut self, of: i64, path: &str, stat: Stat, notes: &Notes) -> Done {
        let Some(file) = read::file(self, of)? else {
            return Ok(());
        };
        let notes = prepare::notes(notes);
        if file.path == path {
            self.change(&Change::UpdateStat { id: of, stat })?;
            return self.notes(of, path, &file.sound, &notes);
        }
        let id = self.place(path, stat, &file.content, &file.sound)?;
        let sql = "INSERT INTO windows (file, start, \"end\", whole, vector) \
                   SELECT ?2, start, \"end\", whole, vector FROM windows WHERE file = ?1 ORDER BY id";
        self.prepare_cached(sql)?.execute([of, id])?;
        self.notes(id, path, &file.sound, &notes)
    }

    fn relocate(&mut self, id: i64, path: &str, stat: Stat) -> Done {
        let Some(file) = read::file(self, id)? else {
            return Ok(());
        };
        self.forget(path)?;
        if let Some(other) = self.number(path)?
            && other != id
        {
            self.drop_file(other)?;
        }
        let sql = "UPDATE files SET path = ?2, size = ?3, modified = ?4 WHERE id = ?1";
        self.prepare_cached(sql)?
            .execute(params![id, path, stat.size as i64, stat.modified])?;
        self.notes(id, path, &file.sound, &file.notes)
    }

    fn annotate(&self, id: i64, notes: &Notes) -> Done {
        match read::file(self, id)? {
            Some(file) => self.notes(id, &file.path, &file.sound, &prepare::notes(notes)),
            None => Ok(()),
        }
    }

    fn set_heard(&self, id: i64, heard: &[Heard]) -> Done {
        let Some(mut file) = read::file(self, id)? else {
            return Ok(());
        };
        file.sound.heard = prepare::heard(heard);
        self.prepare_cached("UPDATE details SET heard = ?2 WHERE file = ?1")?
            .execute(params![id, serde_json::json!(file.sound.heard).to_string()])?;
        self.notes(id, &file.path, &file.sound, &file.notes)
    }

    pub(super) fn set_vocabulary(&self, words: &[String]) -> Done {
        let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES ('vocabulary', ?1)";
        self.prepare_cached(sql)?
            .execute([serde_json::json!(words).to_string()])?;
        Ok(())
    }

    fn fail(&mut self, failure: &Failure) -> Done {
        let path = prepare::text(&failure.path);
        if let Some(id) = self.number(&path)? {
            self.drop_file(id)?;
        }
        let sql = "INSERT OR REPLACE INTO failures (path, size, modified, message) VALUES (?1, ?2, ?3, ?4)";
        let Failure { stat, message, .. } = failure;
        self.prepare_cached(sql)?.execute(params![
            path,
            stat.size as i64,
            stat.modified,
            prepare::text(message)
        ])?;
        Ok(())
    }

    fn forget(&self, path: &str) -> Done {
        self.prepare_cached("DELETE FROM failures WHERE path = ?1")?
            .execute([path])?;
        Ok(())
    }

    fn number(&self, path: &str) -> Done<Option<i64>> {
        let mut find = self.prepare_cached("SELECT id FROM files WHERE path = ?1")?;
        find.query_row([path], |row| row.get(0)).optional()
    }

    fn drop_windows(&mut self, file: i64) -> Done {
        let gone = self
            .prepare_cached("DELETE FROM windows WHERE file = ?1")?
            .execute([file])?;
        self.removed |= gone > 0;
        Ok(())
    }

    fn drop_file(&mut self, id: i64) -> Done {
        self.drop_windows(id)?;
        self.prepare_cached("DELETE FROM words WHERE rowid = ?1")?
            .execute([id])?;
        // What else is known of it goes with it.
        self.prepare_cached("DELETE FROM files WHERE id = ?1")?
            .execute([id])?;
        Ok(())
    }

    pub(super) fn add_root(&self, root: &str) -> Done {
        let root = prepare::folder(root);
        self.prepare_cached("INSERT OR IGNORE INTO roots (path) VALUES (?1)")?
            .execute([root])?;
        Ok(())
    }

    pub(super) fn remove_root(&mut self, root: &str) -> Done {
        let root = prepare::folder(root);
        let gone = self
            .prepare_cached("DELETE FROM roots WHERE path = ?1")?
            .execute([&root])?;
        if gone == 0 {
            return Ok(());
        }
        let others = read::roots(self)?;
        let (from, to) = range(&root);
        let orphan = |path: &str| !others.iter().any(|other| folder_contains(other, path));
        let mut find = self.prepare("SELECT id, path FROM files WHERE path >= ?1 AND path < ?2")?;
        let found = find.query_map([&from, &to], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
        })?;
        let found: Vec<(i64, String)> = found.collect::<Done<_>>()?;
        drop(find);
        for (id, _) in found.iter().filter(|(_, path)| orphan(path)) {
            self.drop_file(*id)?;
        }
        let mut find = self.prepare("SELECT path FROM failures WHERE path >= ?1 AND path < ?2")?;
        let found: Vec<String> = find
            .query_map([&from, &to], |row| row.get(0))?
            .collect::<Done<_>>()?;
        drop(find);
        for path in found.iter().filter(|path| orphan(path)) {
            self.forget(path)?;
        }
        Ok(())
    }
}

impl<'a> Deref for Writer<'a> {
    type Target = Transaction<'a>;

    fn deref(&self) -> &Self::Target {
        &self.transaction
    }
}
