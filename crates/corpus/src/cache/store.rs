//! The folder of a cache: its names, its size, and what is deleted when it is full.
//!
//! In: keys and samples. Out: open files. A file's modification time is the time of its last use: a run sets it when it
//! reads the file for the first time. A file that another process deleted is never an error here.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use hark_work::files::{hex, is_temporary, replace_cached};
use hark_work::workers::lock;
use sha2::{Digest as _, Sha256};

use super::entry::{self, Entry, Opened};
use super::{CacheFormat, CacheStats};

/// What a killed process left behind is deleted after this time; no clip takes as long to write.
const ABANDONED: Duration = Duration::from_hours(1);
/// After this many failures in a row nothing more is written: a full disk would cost a write for every clip.
const MAX_FAILURES: u64 = 8;
/// A full cache is listed again after this many clips found no room: another process may have freed some.
const PATIENCE: u64 = 1000;

/// What a recording is known by: its real path, size and time of change.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key(String);

impl Key {
    /// `None` if the file is not there; decoding it will say so.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let real = std::fs::canonicalize(path).ok()?;
        let metadata = std::fs::metadata(&real).ok()?;
        let mut hasher = Sha256::new();
        hasher.update(real.as_os_str().as_encoded_bytes());
        hasher.update([0]);
        hasher.update(metadata.len().to_le_bytes());
        let changed = metadata.modified().ok()?;
        let (sign, distance) = match changed.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => (1, after),
            Err(before) => (0, before.duration()),
        };
        hasher.update([sign]);
        hasher.update(distance.as_nanos().to_le_bytes());
        // 128 of the 256 bits: two of a million recordings share them once in 10^26 times.
        Some(Self(hex(&hasher.finalize()[..16])))
    }

    /// Names begin with two digits that are a folder, so that no folder holds more than a few thousand files.
    fn path(&self, folder: &Path, format: CacheFormat) -> PathBuf {
        let (first, rest) = self.0.split_at(2.min(self.0.len()));
        folder.join(first).join(format!("{rest}.{}", format.ending()))
    }
}

#[derive(Debug)]
pub(super) struct Store {
    folder: PathBuf,
    /// Of the files that are read and written. Those of other formats are there as well, and count.
    format: CacheFormat,
    max_bytes: u64,
    opened: SystemTime,
    /// What the folder holds, as far as this run knows.
    bytes: AtomicU64,
    /// What is being written, and so not yet to be seen in the folder.
    under_way: AtomicU64,
    counts: Counts,
    /// Held while the folder is looked through: one thread is enough for it.
    sweep: Mutex<Sweep>,
    full: AtomicBool,
}

#[derive(Debug, Default)]
struct Counts {
    evicted: AtomicU64,
    damaged: AtomicU64,
    not_kept: AtomicU64,
    failed: AtomicU64,
    failed_in_a_row: AtomicU64,
    first_failure: Mutex<Option<String>>,
}

#[derive(Debug, Default)]
struct Sweep {
    /// Bytes written since the folder was looked through.
    written: u64,
    /// Clips that found no room since.
    refused: u64,
}

/// A file of the folder.
struct Found {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

impl Store {
    pub(super) fn open(folder: &Path, rate: u32, max_bytes: u64) -> io::Result<Self> {
        let folder = folder.join(format!("v{}-{rate}", entry::VERSION));
        fs_err::create_dir_all(&folder)?;
        let store = Self {
            folder,
            format: CacheFormat::default(),
            max_bytes,
            opened: SystemTime::now(),
            bytes: AtomicU64::new(0),
            under_way: AtomicU64::new(0),
            counts: Counts::default(),
            sweep: Mutex::default(),
            full: AtomicBool::new(false),
        };
        let mut sweep = lock(&store.sweep);
        // A bound that was lowered since the last run holds from the start.
        store.make_room(0, &mut sweep);
        drop(sweep);
        Ok(store)
    }

    pub(super) fn set_format(&mut self, format: CacheFormat) {
        self.format = format;
    }

    /// The file of a recording. One that is damaged is deleted.
    pub(super) fn find(&self, key: &Key, rate: u32) -> Option<Entry> {
        let path = key.path(&self.folder, self.format);
        match Entry::open(&path, self.format, rate) {
            Opened::Entry(entry) => {
                self.mark_used(&path);
                Some(entry)
            }
            Opened::Absent => None,
            Opened::Damaged => {
                self.drop_damaged(key);
                None
            }
        }
    }

    pub(super) fn drop_damaged(&self, key: &Key) {
        let path = key.path(&self.folder, self.format);
        let bytes = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
        if std::fs::remove_file(path).is_ok() {
            self.counts.damaged.fetch_add(1, Ordering::Relaxed);
            self.shrink(bytes);
        }
    }

    /// Once in a run. A folder that cannot be written keeps its old times, which does no harm.
    fn mark_used(&self, path: &Path) {
        let old = std::fs::metadata(path)
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|used| used < self.opened);
        if old && let Ok(file) = File::options().write(true).open(path) {
            let _ = file.set_modified(SystemTime::now());
        }
    }

    /// Keep a clip if there is room. Whatever goes wrong is counted and no more.
    pub(super) fn put(&self, key: &Key, rate: u32, samples: &[f32], whole: bool) {
        if self.counts.failed_in_a_row.load(Ordering::Relaxed) >= MAX_FAILURES {
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let size = entry::most_bytes(self.format, samples.len());
        if !self.reserve(size) {
            self.counts.not_kept.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let written = self.write(key, rate, samples, whole);
        self.under_way.fetch_sub(size, Ordering::Relaxed);
        match written {
            Ok((replaced, written)) => {
                self.shrink(replaced + size.saturating_sub(written));
                self.counts.failed_in_a_row.store(0, Ordering::Relaxed);
            }
            Err(error) => {
                self.shrink(size);
                self.counts.failed.fetch_add(1, Ordering::Relaxed);
                self.counts.failed_in_a_row.fetch_add(1, Ordering::Relaxed);
                let mut first = lock(&self.counts.first_failure);
                first.get_or_insert_with(|| format!("{}: {error}", self.folder.display()));
            }
        }
    }

    /// Gives the size of the file that was there before, such as that of another thread at the same clip, and of the new one.
    fn write(&self, key: &Key, rate: u32, samples: &[f32], whole: bool) -> io::Result<(u64, u64)> {
        let path = key.path(&self.folder, self.format);
        std::fs::create_dir_all(path.parent().unwrap_or(&self.folder))?;
        let size = || std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
        let replaced = size();
        replace_cached(&path, |file| {
            entry::write(file, self.format, rate, samples, whole)?;
            file.flush()?;
            // The clock of a file system is coarse and may lie before the opening of the store, as if an earlier run
            // had written the file.
            let _ = file.get_ref().as_file().set_modified(SystemTime::now());
            io::Result::Ok(())
        })?;
        Ok((replaced, size()))
    }

    /// Count a file of this size in, if there is room for it or room can be made.
    fn reserve(&self, size: u64) -> bool {
        if size > self.max_bytes {
            return false;
        }
        let mut sweep = lock(&self.sweep);
        let fits = |store: &Self| store.bytes.load(Ordering::Relaxed).saturating_add(size) <= store.max_bytes;
        // Other processes may write to the folder too, so it has to be listed.
        let overdue = sweep.written > self.max_bytes / 8;
        if overdue || !fits(self) {
            let known_full = self.full.load(Ordering::Relaxed) && sweep.refused < PATIENCE;
            if overdue || !known_full {
                self.make_room(size, &mut sweep);
            }
        }
        if !fits(self) {
            self.full.store(true, Ordering::Relaxed);
            sweep.refused += 1;
            return false;
        }
        self.full.store(false, Ordering::Relaxed);
        sweep.written += size;
        self.bytes.fetch_add(size, Ordering::Relaxed);
        self.under_way.fetch_add(size, Ordering::Relaxed);
        true
    }

    /// Look through the folder, and if `size` bytes do not fit, delete files of earlier runs, oldest use first, until
    /// a tenth of the bound is free: looking through is slow.
    fn make_room(&self, size: u64, sweep: &mut Sweep) {
        *sweep = Sweep::default();
        let mut files = self.files();
        let mut bytes: u64 = files.iter().map(|file| file.bytes).sum();
        bytes += self.under_way.load(Ordering::Relaxed);
        if bytes.saturating_add(size) > self.max_bytes {
            let target = (self.max_bytes - self.max_bytes / 10).saturating_sub(size);
            files.retain(|file| file.used < self.opened);
            files.sort_unstable_by(|a, b| (a.used, &a.path).cmp(&(b.used, &b.path)));
            for file in files {
                if bytes <= target {
                    break;
                }
                if std::fs::remove_file(&file.path).is_ok() {
                    self.counts.evicted.fetch_add(1, Ordering::Relaxed);
                }
                // A file that could not be deleted is gone already, or will be counted by the next look.
                bytes -= file.bytes;
            }
        }
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// All files of the folder, and the end of those that a process left unfinished long ago.
    fn files(&self) -> Vec<Found> {
        let mut files = Vec::new();
        let folders = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for entry in
            folders.flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten().flatten())
        {
            let Ok(metadata) = entry.metadata() else { continue };
            let (path, name) = (entry.path(), entry.file_name());
            let unfinished = is_temporary(&name);
            let ours = CacheFormat::ALL
                .iter()
                .any(|format| path.extension().is_some_and(|ending| ending == format.ending()));
            if !metadata.is_file() || !(unfinished || ours) {
                continue;
            }
            let used = metadata.modified().unwrap_or(self.opened);
            if unfinished {
                // Those of this process are counted as under way.
                let age = self.opened.duration_since(used).unwrap_or_default();
                if age > ABANDONED {
                    let _ = std::fs::remove_file(path);
                }
                continue;
            }
            files.push(Found {
                path,
                bytes: metadata.len(),
                used,
            });
        }
        files
    }

    fn shrink(&self, bytes: u64) {
        let less = |now: u64| Some(now.saturating_sub(bytes));
        let _ = self
            .bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    pub(super) fn fill_in(&self, stats: &mut CacheStats) {
        stats.bytes = self.bytes.load(Ordering::Relaxed);
        stats.evicted = self.counts.evicted.load(Ordering::Relaxed);
        stats.damaged = self.counts.damaged.load(Ordering::Relaxed);
        stats.not_kept = self.counts.not_kept.load(Ordering::Relaxed);
        stats.failed_writes = self.counts.failed.load(Ordering::Relaxed);
        let first = lock(&self.counts.first_failure);
        stats.first_failure.clone_from(&first);
    }
}
