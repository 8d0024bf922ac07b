//! Brings a library up to date with its folders.
//!
//! Files that look as they did cost no more than that look. A file that is new or looks different is read for its hash: if
//! another file of these bytes is gone, it has moved; if one is there that looks as it did, this is a copy; only else is it decoded
//! and embedded. What cannot be reached or read from the disk stays as it was, and is tried again.
//! What is done is stored every second or so, in transactions: a kill costs what was under way, and the next run goes on from
//! there. Files that are gone are dropped last, when all moves are known.

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use hark_audio::AudioSummary;
use hark_catalogue::{AudioInfo, Change, Entry, Failure, IndexedFile, Notes, Store, Window};
use hark_encode::model::{AudioEncoder, ClipVector, EmbedEvent};
use hark_work::files::hex;
use indicatif::ProgressBar;
use rayon::prelude::*;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::notes::Annotations;
use super::plan::{Plan, Shard, is_within, plan};
use super::walk::{Scan, ScannedFile, stat, walk};
use crate::{output, progress};

/// Files that are read before they are embedded together.
const AT_ONCE: usize = 32;
/// How long what is done may wait to be stored, and how many files.
const STORE_EVERY: Duration = Duration::from_secs(1);
const STORE_AT_MOST: usize = 64;

/// What an indexing has done.
#[derive(Debug, Default, Serialize)]
pub struct Outcome {
    /// Files that were not known.
    pub new: usize,
    /// Files with other bytes than before.
    pub changed: usize,
    /// Files that are elsewhere now.
    pub moved: usize,
    /// Files that are gone.
    pub removed: usize,
    /// Files as they were.
    pub unchanged: usize,
    /// Files whose notes are others now.
    pub annotated: usize,
    /// Files that could not be read, now.
    pub failed: Vec<Failure>,
    /// Files that could not be read before and look as they did.
    pub still_failing: Vec<Failure>,
    /// Files and folders that could not be looked at, and why. What is known of them stays.
    pub unseen: Vec<(String, String)>,
    /// Files that could be read only in part, and why.
    pub damaged: Vec<(String, String)>,
    /// Files that changed while they were read: the next run takes them.
    pub restless: Vec<String>,
}

/// An indexing.
pub struct Indexing<'a> {
    /// The library.
    pub store: &'a dyn Store,
    /// The audio side of its model, which is loaded only if there is something to hear.
    pub listener: &'a dyn Fn() -> Result<&'a AudioEncoder>,
    /// What people wrote about recordings; what it does not name keeps its notes.
    pub notes: Option<&'a Annotations>,
    /// Whether a file with the bytes of another may take over what is known of that. Where others write too, the other one may be
    /// something else by then.
    pub copies: bool,
    /// Which files are this process's.
    pub part: Shard,
}

/// A file that has been read for its hash.
struct Hashed {
    found: ScannedFile,
    before: Option<IndexedFile>,
    content: Result<String, String>,
}

/// The state of a run.
struct Run<'r, 'a> {
    indexing: &'r Indexing<'a>,
    outcome: Outcome,
    /// Known files by their bytes: those that are gone, and those that are there.
    gone: HashMap<String, Vec<IndexedFile>>,
    there: HashMap<String, i64>,
    changes: Vec<Change>,
    stored: Instant,
    bar: ProgressBar,
    begun: Instant,
    heard: f64,
}

impl Indexing<'_> {
    /// Brings the library up to date.
    pub fn run(&self) -> Result<Outcome> {
        let roots = self.store.roots()?;
        let spinner = progress::spinner("looking for recordings");
        let mut walked = Scan::default();
        let known = self.store.known()?;
        for root in &roots {
            // A root within another one is walked with that, unless it is hidden there.
            if roots.iter().any(|other| is_walked_with(root, other)) {
                continue;
            }
            let mut more = walk(Path::new(root), &|| !progress::stopped());
            // A drive that is not mounted leaves an empty folder.
            if more.found.is_empty()
                && more.unseen.is_empty()
                && known.iter().any(|file| is_within(&file.path, root))
            {
                let why = "there is nothing in it now; if that is so, hark index --forget drops what the library has of it";
                more.unseen.push((root.clone(), why.to_owned()));
            }
            walked.found.extend(more.found);
            walked.unseen.extend(more.unseen);
            spinner.set_message(format!("{} files", output::group_digits(walked.found.len())));
        }
        spinner.finish_and_clear();
        anyhow::ensure!(!progress::stopped(), "stopped");
        walked.found.sort_by(|a, b| a.path.cmp(&b.path));
        walked.found.dedup_by(|a, b| a.path == b.path);
        let unseen = walked.unseen.clone();
        let all: Vec<(String, i64)> = known.iter().map(|file| (file.content.clone(), file.id)).collect();
        let annotated = self.annotate(&known)?;
        let plan = plan(known, self.store.failures()?, walked, &roots, self.part);
        let mut run = Run::new(self, &plan, all);
        run.outcome.unseen = unseen;
        run.outcome.annotated = annotated;
        run.work(plan)?;
        Ok(run.outcome)
    }

    /// Gives known files the notes that the note book has now.
    fn annotate(&self, known: &[IndexedFile]) -> Result<usize> {
        let Some(book) = self.notes else { return Ok(0) };
        let mut count = 0;
        for files in known.chunks(1000) {
            let ids: Vec<i64> = files.iter().map(|file| file.id).collect();
            let mut changes = Vec::new();
            for file in self.store.files(&ids)? {
                let notes = book.over(&file.path, file.notes.clone());
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

    /// The notes of a path, of which a file was known before, perhaps elsewhere.
    fn notes(&self, path: &str, before: Option<i64>) -> Result<Notes> {
        let before = match before {
            Some(id) => self.store.files(&[id])?.pop(),
            None => None,
        };
        let before = before.map(|file| file.notes).unwrap_or_default();
        Ok(match self.notes {
            Some(book) => book.over(path, before),
            None => before,
        })
    }
}

impl<'r, 'a> Run<'r, 'a> {
    fn new(indexing: &'r Indexing<'a>, plan: &Plan, all: Vec<(String, i64)>) -> Self {
        let mut gone: HashMap<String, Vec<IndexedFile>> = HashMap::new();
        for file in &plan.gone {
            gone.entry(file.content.clone()).or_default().push(file.clone());
        }
        // What looks different may be something else by now.
        let seen_anew = plan.look.iter().filter_map(|(_, before)| before.as_ref());
        let unsure: HashSet<i64> = plan.gone.iter().chain(seen_anew).map(|file| file.id).collect();
        let there = all.into_iter().filter(|(_, id)| !unsure.contains(id)).collect();
        let bar = progress::recordings("indexing");
        bar.set_length(plan.look.len() as u64);
        Self {
            indexing,
            outcome: Outcome {
                unchanged: plan.unchanged,
                still_failing: plan.still_failing.clone(),
                ..Outcome::default()
            },
            gone,
            there,
            changes: Vec::new(),
            stored: Instant::now(),
            bar,
            begun: Instant::now(),
            heard: 0.0,
        }
    }

    fn work(&mut self, plan: Plan) -> Result<()> {
        let mut outcome = Ok(());
        for files in plan.look.chunks(AT_ONCE) {
            outcome = self.take(files);
            if outcome.is_err() || progress::stopped() {
                break;
            }
        }
        self.bar.finish_and_clear();
        // What is done is kept, whatever ended the work.
        let stored = self.store_changes();
        outcome?;
        stored?;
        anyhow::ensure!(!progress::stopped(), "stopped");
        let gone: Vec<Change> = (self.gone.values().flatten())
            .map(|file| Change::Remove { id: file.id })
            .chain(
                plan.forgotten
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

    /// Takes some files: reads them, decides what each is, embeds those that are new.
    fn take(&mut self, files: &[(ScannedFile, Option<IndexedFile>)]) -> Result<()> {
        let hashed: Vec<Hashed> = files
            .par_iter()
            .map(|(found, before)| Hashed {
                found: found.clone(),
                before: before.clone(),
                content: hash(Path::new(&found.path)),
            })
            .collect();
        let mut unheard = Vec::new();
        for file in hashed {
            if progress::stopped() {
                return Ok(());
            }
            match &file.content {
                Err(message) => self.unseen(&file.found, message.clone()),
                Ok(content) => {
                    let content = content.clone();
                    if self.take_known(&file, &content)? {
                        self.bar.inc(1);
                    } else {
                        unheard.push((file, content));
                    }
                }
            }
        }
        let outlines: Vec<_> = unheard
            .par_iter()
            .map(|(file, _)| hark_audio::summarize(Path::new(&file.found.path), &|| !progress::stopped()))
            .collect();
        let mut heard = Vec::new();
        for ((file, content), outline) in unheard.into_iter().zip(outlines) {
            match outline {
                Ok(outline) => heard.push((file, content, outline)),
                Err(_) if progress::stopped() => return Ok(()),
                Err(error @ hark_audio::Error::Read { .. }) => self.unseen(&file.found, error.to_string()),
                Err(error) => self.fail(&file.found, error.to_string()),
            }
        }
        self.embed(&heard)?;
        self.store_when_due()
    }

    /// Takes a file whose bytes are known already; whether they are.
    fn take_known(&mut self, file: &Hashed, content: &str) -> Result<bool> {
        let (path, stat) = (file.found.path.clone(), file.found.stat);
        if let Some(before) = file.before.as_ref().filter(|before| before.content == content) {
            self.outcome.unchanged += 1;
            self.changes.push(Change::UpdateStat { id: before.id, stat });
            return Ok(true);
        }
        // A path that was known keeps its number and its notes: what is there now is put, not moved there.
        if file.before.is_none()
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
        let Some(&of) = self.there.get(content).filter(|_| self.indexing.copies) else {
            return Ok(false);
        };
        let notes = self
            .indexing
            .notes(&path, file.before.as_ref().map(|file| file.id))?;
        self.count(file.before.is_some());
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

    fn embed(&mut self, files: &[(Hashed, String, AudioSummary)]) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        let encoder = (self.indexing.listener)()?;
        let hop = self.indexing.store.settings().hop_seconds;
        let paths: Vec<PathBuf> = files
            .iter()
            .map(|(file, ..)| PathBuf::from(&file.found.path))
            .collect();
        let mut broken = None;
        let outcome = encoder.embed_windows(&paths, hop, &mut |told| {
            match told {
                EmbedEvent::Segment { seconds } => {
                    self.heard += seconds;
                    let rate = self.heard / self.begun.elapsed().as_secs_f64().max(1e-3);
                    self.bar.set_message(format!("{rate:.0}"));
                }
                EmbedEvent::Recording { file, result } => {
                    let (file, content, outline) = &files[file];
                    let taken = match result {
                        Ok(clip) => self.put(file, content, outline, clip),
                        Err(error) => {
                            self.fail(&file.found, error.to_string());
                            Ok(())
                        }
                    };
                    if let Err(error) = taken.and_then(|()| self.store_when_due()) {
                        broken = Some(error);
                    }
                }
            }
            if broken.is_some() || progress::stopped() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        match (broken, outcome) {
            (Some(error), _) => Err(error),
            (None, Err(_)) if progress::stopped() => Ok(()),
            (None, outcome) => Ok(outcome?),
        }
    }

    fn put(&mut self, file: &Hashed, content: &str, outline: &AudioSummary, clip: ClipVector) -> Result<()> {
        self.bar.inc(1);
        let path = &file.found.path;
        // What was hashed, outlined and embedded must be one and the same file.
        if stat(Path::new(path)).ok() != Some(file.found.stat) {
            self.outcome.restless.push(path.clone());
            return Ok(());
        }
        let notes = self
            .indexing
            .notes(path, file.before.as_ref().map(|file| file.id))?;
        let damage = outline
            .damage
            .as_ref()
            .map(ToString::to_string)
            .or(clip.damage.clone());
        if let Some(damage) = &damage {
            self.outcome.damaged.push((path.clone(), damage.clone()));
        }
        self.count(file.before.is_some());
        self.changes.push(Change::Upsert(Box::new(Entry {
            path: path.clone(),
            stat: file.found.stat,
            content: content.to_owned(),
            sound: sound(outline, damage),
            notes,
            windows: windows(clip, outline.seconds),
        })));
        Ok(())
    }

    /// A file that could not be read from the disk: what is known of it stays, and it is tried again.
    fn unseen(&mut self, file: &ScannedFile, message: String) {
        self.bar.inc(1);
        self.outcome.unseen.push((file.path.clone(), message));
    }

    fn fail(&mut self, file: &ScannedFile, message: String) {
        self.bar.inc(1);
        let failure = Failure {
            path: file.path.clone(),
            stat: file.stat,
            message,
        };
        self.outcome.failed.push(failure.clone());
        self.changes.push(Change::AddFailure(failure));
    }

    fn store_when_due(&mut self) -> Result<()> {
        if self.changes.len() >= STORE_AT_MOST || self.stored.elapsed() >= STORE_EVERY {
            self.store_changes()?;
        }
        Ok(())
    }

    fn store_changes(&mut self) -> Result<()> {
        let changes = std::mem::take(&mut self.changes);
        self.stored = Instant::now();
        if changes.is_empty() {
            return Ok(());
        }
        let store = self.indexing.store;
        match store.apply(&changes) {
            // One that cannot be kept is no reason to lose its neighbours.
            Err(error) if error.is_of_entry() => changes.iter().try_for_each(|change| {
                match (store.apply(std::slice::from_ref(change)), change) {
                    (Err(error), Change::Upsert(entry)) if error.is_of_entry() => {
                        self.outcome.failed.push(Failure {
                            path: entry.path.clone(),
                            stat: entry.stat,
                            message: error.to_string(),
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

/// Whether walking `other` comes by `root`: hidden folders are passed over.
fn is_walked_with(root: &str, other: &str) -> bool {
    let within = other != root && is_within(root, other);
    let rest = root.strip_prefix(other.trim_end_matches('/')).unwrap_or_default();
    within && !rest.split('/').any(|part| part.starts_with('.'))
}

/// SHA-256 of a file's bytes.
fn hash(path: &Path) -> Result<String, String> {
    let read = || -> std::io::Result<String> {
        let mut file = std::fs::File::open(path)?;
        let mut hash = Sha256::new();
        let mut bytes = vec![0; 1 << 18];
        loop {
            let read = file.read(&mut bytes)?;
            if progress::stopped() {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            if read == 0 {
                return Ok(hex(&hash.finalize()));
            }
            hash.update(&bytes[..read]);
        }
    };
    read().map_err(|error| format!("{}: {error}", path.display()))
}

fn sound(outline: &AudioSummary, damage: Option<String>) -> AudioInfo {
    let info = &outline.info;
    AudioInfo {
        seconds: outline.seconds,
        rate: info.rate,
        channels: u32::try_from(info.channels).unwrap_or(u32::MAX),
        container: info.container.clone(),
        codec: info.codec.clone(),
        date: info.metadata.day().unwrap_or_default(),
        metadata: info.metadata.fields(),
        damage,
        peaks: outline.peaks.clone(),
        fingerprint: outline.fingerprint.to_bytes(),
    }
}

/// The whole recording, and its windows.
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
    fn hidden_roots_are_walked_by_themselves() {
        assert!(is_walked_with("/a/b", "/a"));
        assert!(is_walked_with("/a/b", "/"));
        assert!(!is_walked_with("/a", "/a"));
        assert!(!is_walked_with("/ab", "/a"));
        assert!(!is_walked_with("/a/.cache/sounds", "/a"));
    }
}
