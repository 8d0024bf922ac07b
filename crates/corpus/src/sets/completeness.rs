//! Whether a data set's folder is complete, and what to do if it is not.
//!
//! In: a [`DatasetConfig`]. Out: how many recordings are expected, found, missing and without captions, and advice in
//! words. A folder or caption file that is not there is advice too, not an error.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use super::listing::Listing;
use super::{Audio, DatasetConfig, Gathered, Reason, Skipped, parent_of};
use crate::Error;

/// How many files are named as examples.
const EXAMPLES: usize = 5;

/// What a data set's folder has and lacks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completeness {
    /// What the set is called.
    pub name: String,
    /// The caption files that were read.
    pub caption_files: Vec<PathBuf>,
    /// The captions in them.
    pub captions: usize,
    /// How many recordings the captions name, without those to be left out on purpose.
    pub expected: usize,
    /// How many of them are there. Whether they decode is not looked at.
    pub found: usize,
    /// How many are left out on purpose.
    pub excluded: usize,
    /// Those that are not there, with the path where each should lie.
    pub missing: Vec<Skipped>,
    /// How many audio files no caption names.
    pub extra: usize,
    /// Some of them.
    pub extra_examples: Vec<PathBuf>,
    /// Where recordings were looked for.
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

impl DatasetConfig {
    /// Look whether the set's folder is complete. No recording is opened.
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

fn not_there(error: &Error) -> String {
    match error {
        Error::NoCaptionFile { path, .. } => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let folder = parent_of(path).display();
            format!("no {name}: put it into {folder} ({error})")
        }
        _ => error.to_string(),
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
        "{} of {} recordings are missing, first: {}",
        report.missing.len(),
        report.expected,
        first.display()
    )];
    let vanish = match set {
        DatasetConfig::Audiocaps { .. } => Some("AudioCaps"),
        DatasetConfig::Wavcaps { .. } => Some("WavCaps"),
        _ => None,
    };
    if let (Some(name), true) = (vanish, report.found > 0) {
        advice.push(format!(
            "{name} clips vanish from their source: training goes on without those that are missing"
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
            "{count} of the missing recordings lie in {}: move them to {}",
            folder.display(),
            parent_of(first).display()
        ));
    } else if let (0, Some(other)) = (report.found, listing.paths().next()) {
        advice.push(format!(
            "audio lies in {}, such as {}, but the captions name {}",
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
        advice.push(format!(
            "no audio is there: put it into {}",
            folders.join(", or ")
        ));
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
