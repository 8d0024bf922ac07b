//! Whether a dataset is complete, and what to do if it is not.
//!
//! In: a [`DatasetConfig`]. Out: how many recordings are expected, found, missing, broken and without captions, and
//! advice in words. A missing folder or caption file is advice too, not an error.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use super::listing::Listing;
use hark_work::files;
use hark_work::progress::{Progress, counted, no_progress};

use super::{Audio, Check, DatasetConfig, Gathered, Reason, Skipped, parent_of};
use crate::Error;

/// How many files are named as examples.
const EXAMPLES: usize = 5;

/// What a dataset has and lacks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completeness {
    /// What the set is called.
    pub name: String,
    /// The caption files that were read.
    pub caption_files: Vec<PathBuf>,
    /// The captions in them.
    pub captions: usize,
    /// How many recordings the captions name, without excluded ones.
    pub expected: usize,
    /// How many of them are there, whether or not they decode.
    pub found: usize,
    /// How many are excluded on purpose.
    pub excluded: usize,
    /// Those that are not there, with the expected path of each.
    pub missing: Vec<Skipped>,
    /// How many audio files no caption names.
    pub extra: usize,
    /// Some of them.
    pub extra_examples: Vec<PathBuf>,
    /// The folders that were searched for recordings.
    pub searched: Vec<PathBuf>,
    /// What to do, or to know, in words.
    pub advice: Vec<String>,
}

impl Completeness {
    /// Whether there is something to train on and nothing is missing.
    pub fn is_complete(&self) -> bool {
        self.expected > 0 && self.found == self.expected
    }
}

/// A dataset whose recordings were checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckedSet {
    /// What is there and what is not, with advice.
    pub state: Completeness,
    /// Recordings that are there and cannot be decoded.
    pub broken: Vec<Skipped>,
}

impl CheckedSet {
    /// Whether nothing is missing or broken.
    pub fn is_complete(&self) -> bool {
        self.state.is_complete() && self.broken.is_empty()
    }
}

impl DatasetConfig {
    /// Checks that the dataset is complete and that its recordings open, or decode, as `check` asks.
    ///
    /// A dataset that cannot be read at all is not complete; its error is the advice.
    ///
    /// # Errors
    /// [`Error::Cancelled`], and what changed on disk between one look and the next.
    pub fn check(&self, check: Check, threads: usize, progress: Progress<'_>) -> Result<CheckedSet, Error> {
        let mut checked = CheckedSet::default();
        match self.completeness() {
            Ok(state) => checked.state = state,
            Err(error) => {
                checked.state.name = self.name();
                checked.state.advice = advice_of(&error);
            }
        }
        if checked.state.found > 0 {
            checked.broken = self.broken(check, threads, progress)?;
        }
        if let Some(first) = checked.broken.first() {
            checked.state.advice.push(format!(
                "broken: {} of {}; download again or remove ({})",
                checked.broken.len(),
                counted(checked.state.found, "recording"),
                first.reason
            ));
        }
        Ok(checked)
    }

    /// The recordings that are there and cannot be decoded.
    fn broken(&self, check: Check, threads: usize, progress: Progress<'_>) -> Result<Vec<Skipped>, Error> {
        match self.load(check, threads, progress) {
            Ok(data) => {
                let is_broken = |left: &Skipped| matches!(left.reason, Reason::Broken(_));
                Ok(data.left_out.into_iter().filter(is_broken).collect())
            }
            // Not one is left: all that are there are broken.
            Err(Error::NoClips { .. }) => {
                let data = self.load(Check::Presence, 1, &no_progress)?;
                let captions = data.captions_by_clip();
                let broken = data
                    .clips
                    .into_iter()
                    .zip(captions)
                    .map(|(clip, captions)| Skipped {
                        id: clip.id,
                        path: Some(clip.path),
                        reason: Reason::Broken("no recording of the set can be decoded".to_owned()),
                        captions: captions.len(),
                    });
                Ok(broken.collect())
            }
            Err(error) => Err(error),
        }
    }

    /// Checks that all recordings are there. No recording is opened.
    ///
    /// # Errors
    /// What can be wrong within a caption file, and [`Error::TooManyFiles`].
    pub fn completeness(&self) -> Result<Completeness, Error> {
        match self.gather() {
            Ok(gathered) => report(self, &gathered),
            Err(
                error @ (Error::NoSetFolder { .. } | Error::NoCaptionFile { .. } | Error::NoCaptions { .. }),
            ) => Ok(Completeness {
                name: self.name(),
                advice: vec![not_there(&error)],
                ..Completeness::default()
            }),
            Err(error) => Err(error),
        }
    }
}

/// What is wrong with a dataset that cannot be read: several faults of a table one by one.
fn advice_of(error: &Error) -> Vec<String> {
    let Error::Faults { path, faults, more } = error else {
        return vec![files::explain(error)];
    };
    let mut advice: Vec<String> = faults.iter().map(|fault| files::explain(fault)).collect();
    if *more > 0 {
        advice.push(format!("{}: {} more", path.display(), counted(*more, "fault")));
    }
    advice
}

fn not_there(error: &Error) -> String {
    match error {
        Error::NoCaptionFile { path, layout, .. } => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let folder = parent_of(path);
            let told = if folder.is_dir() {
                format!("no {name} in {}; put it there", folder.display())
            } else {
                format!("cannot read {}: no such folder", folder.display())
            };
            format!("{told}. {layout}")
        }
        _ => files::explain(error),
    }
}

fn report(set: &DatasetConfig, gathered: &Gathered) -> Result<Completeness, Error> {
    let mut captions = vec![0_usize; gathered.wanted.len()];
    for (wanted, _) in &gathered.captions {
        if let Some(count) = captions.get_mut(*wanted) {
            *count += 1;
        }
    }
    let mut report = Completeness {
        name: gathered.name.clone(),
        caption_files: gathered.caption_files.clone(),
        captions: gathered.captions.len(),
        searched: gathered.searched.clone(),
        advice: gathered.remarks.clone(),
        ..Completeness::default()
    };
    let mut used: HashSet<&Path> = HashSet::new();
    for (wanted, &captions) in gathered.wanted.iter().zip(&captions) {
        match &wanted.audio {
            Audio::Found(path) => {
                report.found += 1;
                used.insert(path);
            }
            Audio::Missing(path) => report.missing.push(Skipped {
                id: wanted.id.clone(),
                path: Some(path.clone()),
                reason: Reason::Missing,
                captions,
            }),
            Audio::Excluded => report.excluded += 1,
        }
    }
    report.expected = report.found + report.missing.len();
    for path in gathered
        .listing
        .paths()
        .filter(|path| !used.contains(path.as_path()))
    {
        report.extra += 1;
        if report.extra_examples.len() < EXAMPLES {
            report.extra_examples.push(path);
        }
    }
    let advice = advise(set, &report)?;
    report.advice.extend(advice);
    Ok(report)
}

fn advise(set: &DatasetConfig, report: &Completeness) -> Result<Vec<String>, Error> {
    let Some(first) = report.missing.first().and_then(|left| left.path.as_deref()) else {
        return Ok(Vec::new());
    };
    let mut advice = vec![format!(
        "missing: {} of {}; the first is {}",
        report.missing.len(),
        counted(report.expected, "recording"),
        first.display()
    )];
    let vanish = match set {
        DatasetConfig::Audiocaps { .. } => Some("AudioCaps"),
        DatasetConfig::Wavcaps { .. } => Some("WavCaps"),
        _ => None,
    };
    if let (Some(name), true) = (vanish, report.found > 0) {
        advice.push(format!(
            "{name} clips disappear from their source; training works without the missing ones"
        ));
    }
    // Deep below the root of a set the missing recordings may lie in a folder that nobody looks in.
    let listing = Listing::deep(set.root())?;
    let mut elsewhere: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for left in &report.missing {
        if let Some(path) = names_of(set, left).iter().find_map(|name| listing.find(name)) {
            *elsewhere.entry(parent_of(&path).to_owned()).or_default() += 1;
        }
    }
    if let Some((folder, count)) = elsewhere.iter().max_by_key(|(_, count)| **count) {
        advice.push(format!(
            "found {count} of the missing recordings in {}; move to {}",
            folder.display(),
            parent_of(first).display()
        ));
    } else if let (0, Some(other)) = (report.found, listing.paths().next()) {
        advice.push(format!(
            "found audio in {}, such as {}, but the captions name {}",
            parent_of(&other).display(),
            other.file_name().unwrap_or_default().to_string_lossy(),
            first.file_name().unwrap_or_default().to_string_lossy()
        ));
    } else if report.found == 0 {
        let folders: Vec<String> = report
            .searched
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        advice.push(format!("no audio found; put it into {}", folders.join(", or ")));
    }
    Ok(advice)
}

/// The names under which a missing recording may lie elsewhere.
fn names_of(set: &DatasetConfig, left: &Skipped) -> Vec<String> {
    let expected = left.path.as_deref().and_then(Path::file_name);
    let mut names: Vec<String> = expected
        .and_then(|name| name.to_str())
        .map(str::to_owned)
        .into_iter()
        .collect();
    if let (DatasetConfig::Audiocaps { .. }, Some((video, _))) = (set, left.id.rsplit_once('_')) {
        names.extend([video.to_owned(), format!("Y{video}")]);
    }
    names
}
