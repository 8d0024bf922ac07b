//! Brings a library up to date with its folders.
//!
//! Files with unchanged size and modification time are skipped. A file that is new or changed is hashed: if an indexed file
//! with the same bytes is gone, it was moved; if one is still there, this is a copy; otherwise it is decoded and embedded,
//! its waveform and fingerprint coming from the same decoding. Files that cannot be read from the disk keep their entries
//! and are tried again by the next run.
//!
//! Results are stored about every second, in transactions: a crash loses the work under way, and the next run continues
//! from there. Entries of files that are gone are removed last, when all moves are known.

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hark_audio::AudioSummary;
use hark_catalogue::{AudioInfo, Change, Entry, Failure, IndexedFile, Notes, Store, Window};
use hark_encode::model::{ClipVector, EmbedEvent};
use hark_work::files::{explain, hex};
use hark_work::progress::Cancelled;
use hark_work::workers;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::annotations::{Annotations, Matched};
use crate::error::Error;
use crate::hearing::{Vocabulary, heard};
use crate::model::ModelEmbedder;
use crate::plan::{Plan, Shard, is_within, plan};
use crate::scan::{Scan, ScannedFile, SkipReason, scan, stat};

/// Files that are hashed before they are embedded together.
const BATCH: usize = 32;
/// How long finished work may wait to be stored, and how many changes.
const STORE_EVERY: Duration = Duration::from_secs(1);
const MAX_CHANGES: usize = 64;

/// What an indexing did. Serializes to the `outcome` that `hark index --json` prints.
#[derive(Debug, Default, Serialize)]
pub struct Outcome {
    /// Files that had no entry.
    pub new: usize,
    /// Files whose bytes changed.
    pub changed: usize,
    /// Files that were renamed or moved.
    pub moved: usize,
    /// Entries whose files are gone.
    pub removed: usize,
    /// Files whose bytes did not change.
    pub unchanged: usize,
    /// Unchanged files that got other captions or tags.
    pub annotated: usize,
    /// Files that were tagged again, by another vocabulary.
    pub retagged: usize,
    /// How many of the names in tables of captions and tags are names of recordings; `None` without such tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<Matched>,
    /// Files that could not be decoded or embedded.
    pub failed: Vec<Failure>,
    /// Files that failed in an earlier run and have not changed since.
    pub still_failing: Vec<Failure>,
    /// Files and folders that could not be read from the disk, and why. Their entries are kept.
    #[serde(rename = "unseen")]
    pub unreadable: Vec<(String, String)>,
    /// Files and links that were left out on purpose, and why.
    pub skipped: Vec<(String, SkipReason)>,
    /// Files of which only a part could be decoded, and why.
    pub damaged: Vec<(String, String)>,
    /// Files that changed while they were read. The next run indexes them.
    #[serde(rename = "restless")]
    pub changed_while_reading: Vec<String>,
}

/// What an indexing is doing.
#[derive(Debug)]
pub enum IndexEvent<'a> {
    /// Looking for audio files.
    Scanning {
        /// Files found so far.
        files: usize,
    },
    /// Reading and embedding.
    Indexing {
        /// Files that are finished.
        done: usize,
        /// Files that are new or changed.
        total: usize,
        /// Seconds of audio embedded so far.
        seconds: f64,
    },
    /// Tagging files by another vocabulary.
    Tagging {
        /// Files that are finished.
        done: usize,
        /// All files.
        total: usize,
    },
    /// Making the catalogue fast to search.
    Optimizing {
        /// Finished steps.
        done: u64,
        /// All steps.
        total: u64,
    },
    /// Sent often and from any thread, with nothing to show: a chance to cancel.
    Working,
    /// [`Library::watch`](crate::Library::watch) cannot get changes of a folder reported, and scans it every minute.
    NotWatched {
        /// The folder.
        folder: &'a str,
        /// What the operating system says.
        reason: &'a str,
    },
    /// [`Library::watch`](crate::Library::watch) has finished a pass.
    Indexed {
        /// A failed pass does not end the watch.
        outcome: Result<&'a Outcome, &'a Error>,
    },
    /// [`Library::watch`](crate::Library::watch) waits for changes.
    Watching {
        /// The folders of the library.
        folders: &'a [String],
    },
}

/// Called for every [`IndexEvent`]; `Break` cancels the work.
pub type OnIndexEvent<'a> = &'a (dyn Fn(IndexEvent<'_>) -> ControlFlow<()> + Sync);

/// The caller's callback, and whether it has cancelled.
pub(crate) struct Control<'a> {
    on_event: OnIndexEvent<'a>,
    cancelled: AtomicBool,
}

impl<'a> Control<'a> {
    pub(crate) fn new(on_event: OnIndexEvent<'a>) -> Self {
        Self {
            on_event,
            cancelled: AtomicBool::new(false),
        }
    }

    pub(crate) fn tell(&self, event: IndexEvent<'_>) {
        if (self.on_event)(event).is_break() {
            self.cancelled.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the caller has not cancelled, which it is asked again.
    pub(crate) fn goes_on(&self) -> bool {
        self.tell(IndexEvent::Working);
        !self.cancelled.load(Ordering::Relaxed)
    }

    pub(crate) fn flow(&self) -> ControlFlow<()> {
        if self.cancelled.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn check(&self) -> Result<(), Cancelled> {
        if self.goes_on() { Ok(()) } else { Err(Cancelled) }
    }
}

/// What is indexed, and how.
pub(crate) struct Indexing<'a> {
    pub(crate) store: &'a dyn Store,
    /// Its audio tower is loaded only if there is something to embed.
    pub(crate) embedder: &'a ModelEmbedder,
    /// Files that are hashed side by side.
    pub(crate) threads: usize,
    pub(crate) notes: Option<&'a Annotations>,
    /// Whether a file with the bytes of an indexed one takes over its entry.
    pub(crate) reuse_duplicates: bool,
    pub(crate) shard: Shard,
    /// Words to tag recordings by; empty for the classes of the model.
    pub(crate) words: Vec<String>,
    /// Their vectors, once something is to be tagged.
    pub(crate) vocabulary: OnceLock<Vocabulary>,
}

/// A file that was hashed.
struct Hashed {
    file: ScannedFile,
    before: Option<IndexedFile>,
    content: String,
}

/// The state of a run.
struct Run<'r, 'a> {
    indexing: &'r Indexing<'a>,
    control: &'r Control<'r>,
    outcome: Outcome,
    /// Entries by content: those whose files are gone, and those whose files are there.
    gone: HashMap<String, Vec<IndexedFile>>,
    there: HashMap<String, i64>,
    changes: Vec<Change>,
    stored: Instant,
    done: usize,
    total: usize,
    seconds: f64,
}

impl Indexing<'_> {
    /// Brings the library up to date.
    pub(crate) fn run(&self, control: &Control<'_>) -> Result<Outcome, Error> {
        let roots = self.store.roots()?;
        let known = self.store.known()?;
        let scan = scan_all(&roots, &known, control);
        control.check()?;
        let (unreadable, skipped) = (scan.unreadable.clone(), scan.skipped.clone());
        let all: Vec<(String, i64)> = known.iter().map(|file| (file.content.clone(), file.id)).collect();
        let annotated = self.annotate(&known)?;
        let plan = plan(known, self.store.failures()?, scan, &roots, self.shard);
        let mut run = Run::new(self, control, &plan, all);
        run.outcome.unreadable = unreadable;
        run.outcome.skipped = skipped;
        run.outcome.annotated = annotated;
        run.work(plan)?;
        let mut outcome = run.outcome;
        if let Some(annotations) = self.notes {
            let known = self.store.known()?;
            outcome.notes = Some(annotations.matched(known.iter().map(|file| file.path.as_str())));
        }
        Ok(outcome)
    }

    /// Gives indexed files the captions and tags of the annotations.
    fn annotate(&self, known: &[IndexedFile]) -> Result<usize, Error> {
        let Some(annotations) = self.notes else {
            return Ok(0);
        };
        let mut count = 0;
        for files in known.chunks(1000) {
            let ids: Vec<i64> = files.iter().map(|file| file.id).collect();
            let mut changes = Vec::new();
            for file in self.store.files(&ids)? {
                let notes = annotations.merged_with(&file.path, file.notes.clone());
                if notes != file.notes {
                    changes.push(Change::SetNotes { id: file.id, notes });
                }
            }
            count += changes.len();
            if !changes.is_empty() {
                self.store.apply(&changes)?;
            }
        }
        Ok(count)
    }

    fn vocabulary(&self) -> Result<Option<&Vocabulary>, Error> {
        if self.words.is_empty() {
            return Ok(None);
        }
        if let Some(vocabulary) = self.vocabulary.get() {
            return Ok(Some(vocabulary));
        }
        let vocabulary = Vocabulary::new(&self.words, self.embedder)?;
        Ok(Some(self.vocabulary.get_or_init(|| vocabulary)))
    }

    /// Tags all indexed files by the vocabulary, from their vectors. The library has the vocabulary once all are tagged: if it is
    /// interrupted, the same command begins again.
    pub(crate) fn retag(&self, control: &Control<'_>) -> Result<usize, Error> {
        let Some(vocabulary) = self.vocabulary()? else {
            return Ok(0);
        };
        let known = self.store.known()?;
        for (nth, files) in known.chunks(MAX_CHANGES).enumerate() {
            control.check()?;
            let mut changes = Vec::new();
            for file in files {
                let windows = self.store.windows(file.id)?;
                let alone = windows.len() == 1;
                let parts = windows.iter().filter(|window| alone || !window.whole);
                let heard = vocabulary.heard(parts.map(|window| (window.start, &window.vector[..])));
                changes.push(Change::SetHeard { id: file.id, heard });
            }
            self.store.apply(&changes)?;
            control.tell(IndexEvent::Tagging {
                done: nth * MAX_CHANGES + files.len(),
                total: known.len(),
            });
        }
        self.store.set_vocabulary(&self.words)?;
        Ok(known.len())
    }

    /// The notes of a path whose entry, perhaps under another path, is `before`.
    fn notes(&self, path: &str, before: Option<i64>) -> Result<Notes, Error> {
        let before = match before {
            Some(id) => self.store.files(&[id])?.pop(),
            None => None,
        };
        let before = before.map(|file| file.notes).unwrap_or_default();
        Ok(match self.notes {
            Some(annotations) => annotations.merged_with(path, before),
            None => before,
        })
    }
}

fn scan_all(roots: &[String], known: &[IndexedFile], control: &Control<'_>) -> Scan {
    let mut all = Scan::default();
    for root in roots {
        // A root within another one is scanned with that, unless it is hidden there.
        if roots.iter().any(|other| is_scanned_with(root, other)) {
            continue;
        }
        control.tell(IndexEvent::Scanning {
            files: all.files.len(),
        });
        let mut found = scan(Path::new(root), &|| control.goes_on());
        // A drive that is not mounted leaves an empty folder.
        if found.files.is_empty()
            && found.unreadable.is_empty()
            && known.iter().any(|file| is_within(&file.path, root))
        {
            let why = "the folder is empty; if that is intended, remove it from the library with hark index --remove-folder";
            found.unreadable.push((root.clone(), why.to_owned()));
        }
        all.files.extend(found.files);
        all.unreadable.extend(found.unreadable);
        all.skipped.extend(found.skipped);
    }
    all.files.sort_by(|a, b| a.path.cmp(&b.path));
    all.files.dedup_by(|a, b| a.path == b.path);
    all
}

impl<'r, 'a> Run<'r, 'a> {
    fn new(
        indexing: &'r Indexing<'a>,
        control: &'r Control<'r>,
        plan: &Plan,
        all: Vec<(String, i64)>,
    ) -> Self {
        let mut gone: HashMap<String, Vec<IndexedFile>> = HashMap::new();
        for file in &plan.gone {
            gone.entry(file.content.clone()).or_default().push(file.clone());
        }
        // A file that changed may have other bytes now.
        let changed = plan.to_read.iter().filter_map(|(_, before)| before.as_ref());
        let uncertain: HashSet<i64> = plan.gone.iter().chain(changed).map(|file| file.id).collect();
        let there = all
            .into_iter()
            .filter(|(_, id)| !uncertain.contains(id))
            .collect();
        Self {
            indexing,
            control,
            outcome: Outcome {
                unchanged: plan.unchanged,
                still_failing: plan.still_failing.clone(),
                ..Outcome::default()
            },
            gone,
            there,
            changes: Vec::new(),
            stored: Instant::now(),
            done: 0,
            total: plan.to_read.len(),
            seconds: 0.0,
        }
    }

    fn work(&mut self, plan: Plan) -> Result<(), Error> {
        let outcome = plan
            .to_read
            .chunks(BATCH)
            .try_for_each(|files| self.index_batch(files));
        // Finished work is kept, whatever ended it.
        let stored = self.store_changes();
        outcome?;
        stored?;
        self.control.check()?;
        let gone: Vec<Change> = (self.gone.values().flatten())
            .map(|file| Change::Remove { id: file.id })
            .chain(
                plan.gone_failures
                    .into_iter()
                    .map(|path| Change::ClearFailure { path }),
            )
            .collect();
        self.outcome.removed = self.gone.values().map(Vec::len).sum();
        for changes in gone.chunks(1000) {
            self.indexing.store.apply(changes)?;
        }
        Ok(())
    }

    /// Hashes some files, decides what each is, and embeds those with new content.
    fn index_batch(&mut self, files: &[(ScannedFile, Option<IndexedFile>)]) -> Result<(), Error> {
        let control = self.control;
        let contents = workers::map(
            files,
            self.indexing.threads,
            &|_, _| {
                control.tell(IndexEvent::Working);
                control.flow()
            },
            |(file, _)| hash(Path::new(&file.path), control),
        )?;
        let mut new = Vec::new();
        for ((file, before), content) in files.iter().zip(contents) {
            self.control.check()?;
            match content {
                Err(message) => self.unreadable(file, message),
                Ok(content) => {
                    let hashed = Hashed {
                        file: file.clone(),
                        before: before.clone(),
                        content,
                    };
                    if self.take_known(&hashed)? {
                        self.finished();
                    } else {
                        new.push(hashed);
                    }
                }
            }
        }
        self.embed(&new)?;
        self.store_when_due()
    }

    /// One more file is finished.
    fn finished(&mut self) {
        self.done += 1;
        self.report();
    }

    fn report(&self) {
        self.control.tell(IndexEvent::Indexing {
            done: self.done,
            total: self.total,
            seconds: self.seconds,
        });
    }

    /// Handles a file whose content has an entry; `false` if it has none.
    fn take_known(&mut self, hashed: &Hashed) -> Result<bool, Error> {
        let (path, stat) = (hashed.file.path.clone(), hashed.file.stat);
        let content = hashed.content.as_str();
        if let Some(before) = hashed.before.as_ref().filter(|before| before.content == content) {
            self.outcome.unchanged += 1;
            self.changes.push(Change::UpdateStat { id: before.id, stat });
            return Ok(true);
        }
        // A path that has an entry keeps its id and its notes: its content is replaced, not moved there.
        if hashed.before.is_none()
            && let Some(moved) = self.gone.get_mut(content).and_then(Vec::pop)
        {
            self.outcome.moved += 1;
            self.there.insert(content.to_owned(), moved.id);
            let (id, named) = (moved.id, path.clone());
            self.changes.push(Change::Move { id, path, stat });
            if self.indexing.notes.is_some() {
                let notes = self.indexing.notes(&named, Some(id))?;
                self.changes.push(Change::SetNotes { id, notes });
            }
            return Ok(true);
        }
        let Some(&of) = self.there.get(content).filter(|_| self.indexing.reuse_duplicates) else {
            return Ok(false);
        };
        let notes = self
            .indexing
            .notes(&path, hashed.before.as_ref().map(|file| file.id))?;
        self.count(hashed.before.is_some());
        self.changes.push(Change::Copy {
            of,
            path,
            stat,
            notes,
        });
        Ok(true)
    }

    fn count(&mut self, before: bool) {
        if before {
            self.outcome.changed += 1;
        } else {
            self.outcome.new += 1;
        }
    }

    fn embed(&mut self, files: &[Hashed]) -> Result<(), Error> {
        if files.is_empty() {
            return Ok(());
        }
        let encoder = self.indexing.embedder.audio_encoder()?;
        let hop = self.indexing.store.settings().hop_seconds;
        let paths: Vec<PathBuf> = files.iter().map(|file| PathBuf::from(&file.file.path)).collect();
        let mut broken = None;
        let outcome = encoder.embed_and_summarize(&paths, hop, &mut |event| {
            match event {
                EmbedEvent::Segment { seconds } => {
                    self.seconds += seconds;
                    self.report();
                }
                EmbedEvent::Recording { file, result } => {
                    let taken = self.take_embedded(&files[file], result);
                    if let Err(error) = taken.and_then(|()| self.store_when_due()) {
                        broken = Some(error);
                    }
                }
            }
            if broken.is_some() {
                ControlFlow::Break(())
            } else {
                self.control.flow()
            }
        });
        match (broken, outcome) {
            (Some(error), _) => Err(error),
            (None, Err(hark_encode::Error::Cancelled)) => Err(Error::Cancelled),
            (None, outcome) => Ok(outcome?),
        }
    }

    fn take_embedded(
        &mut self,
        hashed: &Hashed,
        result: Result<ClipVector, hark_encode::Error>,
    ) -> Result<(), Error> {
        match result {
            Ok(mut clip) => {
                if let Some(summary) = clip.summary.take() {
                    return self.put(hashed, &summary, clip);
                }
                self.fail(
                    &hashed.file,
                    format!("cannot read {}: no samples", hashed.file.path),
                );
                Ok(())
            }
            Err(hark_encode::Error::Audio(error @ hark_audio::Error::Read { .. })) => {
                self.unreadable(&hashed.file, explain(&error));
                Ok(())
            }
            Err(error) => {
                self.fail(&hashed.file, explain(&error));
                Ok(())
            }
        }
    }

    fn put(&mut self, hashed: &Hashed, summary: &AudioSummary, clip: ClipVector) -> Result<(), Error> {
        self.finished();
        let path = &hashed.file.path;
        // What was hashed and what was embedded must be the same file.
        if stat(Path::new(path)).ok() != Some(hashed.file.stat) {
            self.outcome.changed_while_reading.push(path.clone());
            return Ok(());
        }
        let notes = self
            .indexing
            .notes(path, hashed.before.as_ref().map(|file| file.id))?;
        let damage = summary.damage.as_ref().map(ToString::to_string);
        if let Some(damage) = &damage {
            self.outcome.damaged.push((path.clone(), damage.clone()));
        }
        self.count(hashed.before.is_some());
        let labels = self.indexing.embedder.audio_encoder()?.labels();
        let heard = heard(&clip, self.indexing.vocabulary()?, labels);
        self.changes.push(Change::Upsert(Box::new(Entry {
            path: path.clone(),
            stat: hashed.file.stat,
            content: hashed.content.clone(),
            sound: AudioInfo {
                heard,
                ..audio_info(summary, damage)
            },
            notes,
            windows: windows(clip, summary.seconds),
        })));
        Ok(())
    }

    /// A file that could not be read from the disk keeps its entry and is tried again.
    fn unreadable(&mut self, file: &ScannedFile, message: String) {
        self.finished();
        self.outcome.unreadable.push((file.path.clone(), message));
    }

    fn fail(&mut self, file: &ScannedFile, message: String) {
        self.finished();
        let failure = Failure {
            path: file.path.clone(),
            stat: file.stat,
            message,
        };
        self.outcome.failed.push(failure.clone());
        self.changes.push(Change::AddFailure(failure));
    }

    fn store_when_due(&mut self) -> Result<(), Error> {
        if self.changes.len() >= MAX_CHANGES || self.stored.elapsed() >= STORE_EVERY {
            self.store_changes()?;
        }
        Ok(())
    }

    fn store_changes(&mut self) -> Result<(), Error> {
        let changes = std::mem::take(&mut self.changes);
        self.stored = Instant::now();
        if changes.is_empty() {
            return Ok(());
        }
        let store = self.indexing.store;
        match store.apply(&changes) {
            // An entry that is refused does not take its neighbours with it.
            Err(error) if error.is_of_entry() => changes.iter().try_for_each(|change| {
                match (store.apply(std::slice::from_ref(change)), change) {
                    (Err(error), Change::Upsert(entry)) if error.is_of_entry() => {
                        self.outcome.failed.push(Failure {
                            path: entry.path.clone(),
                            stat: entry.stat,
                            message: explain(&error),
                        });
                        Ok(())
                    }
                    (applied, _) => Ok(applied?),
                }
            }),
            applied => Ok(applied?),
        }
    }
}

/// Whether scanning `other` finds the files of `root`: hidden folders are skipped.
fn is_scanned_with(root: &str, other: &str) -> bool {
    let within = other != root && is_within(root, other);
    let rest = root.strip_prefix(other.trim_end_matches('/')).unwrap_or_default();
    within && !rest.split('/').any(|part| part.starts_with('.'))
}

/// SHA-256 of a file's bytes, or a message that names the file.
fn hash(path: &Path, control: &Control<'_>) -> Result<String, String> {
    let read = || -> std::io::Result<String> {
        let mut file = std::fs::File::open(path)?;
        let mut hash = Sha256::new();
        let mut bytes = vec![0; 1 << 18];
        loop {
            let read = file.read(&mut bytes)?;
            if !control.goes_on() {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            if read == 0 {
                return Ok(hex(&hash.finalize()));
            }
            hash.update(&bytes[..read]);
        }
    };
    read().map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn audio_info(summary: &AudioSummary, damage: Option<String>) -> AudioInfo {
    let info = &summary.info;
    AudioInfo {
        seconds: summary.seconds,
        rate: info.rate,
        channels: u32::try_from(info.channels).unwrap_or(u32::MAX),
        container: info.container.clone(),
        codec: info.codec.clone(),
        date: info.metadata.day().unwrap_or_default(),
        metadata: info.metadata.fields(),
        damage,
        peaks: summary.peaks.clone(),
        fingerprint: summary.fingerprint.to_bytes(),
        heard: Vec::new(),
    }
}

/// The whole recording as a window, then its windows.
fn windows(clip: ClipVector, seconds: f64) -> Vec<Window> {
    let whole = Window {
        start: 0.0,
        end: seconds,
        whole: true,
        vector: clip.vector,
    };
    let windows = clip.windows.into_iter().map(|window| Window {
        start: window.start,
        end: window.end.min(seconds.max(window.start)),
        whole: false,
        vector: window.vector,
    });
    std::iter::once(whole).chain(windows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_roots_are_scanned_by_themselves() {
        assert!(is_scanned_with("/a/b", "/a"));
        assert!(is_scanned_with("/a/b", "/"));
        assert!(!is_scanned_with("/a", "/a"));
        assert!(!is_scanned_with("/ab", "/a"));
        assert!(!is_scanned_with("/a/.cache/sounds", "/a"));
    }
}
