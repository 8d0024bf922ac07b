//! The meaning of a store in as few words as possible: everything in memory, every question answered by looking at every file.

use std::collections::{BTreeMap, BTreeSet};

use hark_catalogue::{Change, Entry, Failure, File, Filter, Window};

use super::dot;

/// A file and its windows.
#[derive(Debug, Clone)]
pub struct Kept {
    pub file: File,
    pub windows: Vec<Window>,
}

/// A library in memory, by path. Files have no numbers here: changes name them by path.
#[derive(Debug, Clone, Default)]
pub struct Naive {
    pub files: BTreeMap<String, Kept>,
    pub failures: BTreeMap<String, Failure>,
}

impl Naive {
    /// Makes a change. Its numbers are those of `numbers`, which says what path each has before any change of the batch; `moved`
    /// follows them through it.
    pub fn apply(&mut self, changes: &[Change], numbers: &BTreeMap<i64, String>) {
        let mut at = numbers.clone();
        for change in changes {
            self.change(change, &mut at);
        }
    }

    fn change(&mut self, change: &Change, at: &mut BTreeMap<i64, String>) {
        match change {
            Change::Upsert(entry) => {
                self.failures.remove(&entry.path);
                self.files.insert(entry.path.clone(), kept(entry));
            }
            Change::Copy {
                of,
                path,
                stat,
                notes,
            } => {
                let Some(mut kept) = at.get(of).and_then(|path| self.files.get(path)).cloned() else {
                    return;
                };
                kept.file.path.clone_from(path);
                kept.file.stat = *stat;
                kept.file.notes = notes.clone();
                self.failures.remove(path);
                self.files.insert(path.clone(), kept);
            }
            Change::Move { id, path, stat } => {
                let Some(mut kept) = at.get(id).and_then(|path| self.files.remove(path)) else {
                    return;
                };
                kept.file.path.clone_from(path);
                kept.file.stat = *stat;
                self.failures.remove(path);
                self.files.insert(path.clone(), kept);
                at.retain(|number, at| number == id || at != path);
                at.insert(*id, path.clone());
            }
            Change::UpdateStat { id, stat } => {
                if let Some(kept) = at.get(id).and_then(|path| self.files.get_mut(path)) {
                    kept.file.stat = *stat;
                }
            }
            Change::SetNotes { id, notes } => {
                if let Some(kept) = at.get(id).and_then(|path| self.files.get_mut(path)) {
                    kept.file.notes = notes.clone();
                }
            }
            Change::SetHeard { id, heard } => {
                if let Some(kept) = at.get(id).and_then(|path| self.files.get_mut(path)) {
                    kept.file.sound.heard.clone_from(heard);
                }
            }
            Change::Remove { id } => {
                if let Some(path) = at.remove(id) {
                    self.files.remove(&path);
                }
            }
            Change::AddFailure(failure) => {
                self.files.remove(&failure.path);
                at.retain(|_, at| *at != failure.path);
                self.failures.insert(failure.path.clone(), failure.clone());
            }
            Change::ClearFailure { path } => _ = self.failures.remove(path),
        }
    }

    /// Every window of the files that pass, with its cosine, best first.
    pub fn search_vector(&self, query: &[f32], filter: &Filter) -> Vec<(f32, String, f64, bool)> {
        let norm = dot(query, query).sqrt();
        let passing = self.files.values().filter(|kept| filter.matches(&kept.file));
        let mut all: Vec<_> = passing
            .flat_map(|kept| {
                kept.windows.iter().map(move |window| {
                    let score = dot(query, &window.vector) / norm;
                    (score, kept.file.path.clone(), window.start, window.whole)
                })
            })
            .collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        all
    }

    /// Which share of the words each file that passes and has one has. Words are those between what is no letter or digit, and
    /// there is no stemming: it is asked for words whose stems are themselves.
    pub fn search_text(&self, words: &[&str], without: &[&str], filter: &Filter) -> BTreeMap<String, f64> {
        let passing = self.files.values().filter(|kept| filter.matches(&kept.file));
        passing
            .filter_map(|kept| {
                let has = words_of(&kept.file);
                if without.iter().any(|word| has.contains(*word)) {
                    return None;
                }
                let found = words.iter().filter(|&&word| has.contains(word)).count();
                (found > 0).then(|| (kept.file.path.clone(), found as f64 / words.len() as f64))
            })
            .collect()
    }
}

fn kept(entry: &Entry) -> Kept {
    let file = File {
        id: 0,
        path: entry.path.clone(),
        stat: entry.stat,
        content: entry.content.clone(),
        sound: entry.sound.clone(),
        notes: entry.notes.clone(),
    };
    Kept {
        file,
        windows: entry.windows.clone(),
    }
}

fn words_of(file: &File) -> BTreeSet<String> {
    let path = file.path.trim_end_matches(".wav");
    let texts = [path]
        .into_iter()
        .chain(file.notes.captions.iter().map(String::as_str));
    let texts = texts.chain(file.notes.tags.iter().map(String::as_str));
    let texts = texts.chain(file.sound.metadata.values().map(String::as_str));
    let texts = texts.chain(file.sound.heard.iter().map(|heard| heard.name.as_str()));
    texts
        .flat_map(|text| text.split(|letter: char| !letter.is_alphanumeric()))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}
