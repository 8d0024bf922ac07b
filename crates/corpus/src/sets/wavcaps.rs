//! WavCaps on disk: four sources, each with a JSON file of captions and a folder of recordings.
//!
//! A clip's id is `SOURCE/ID`, since FreeSound and SoundBible both count from 1. Recordings are looked for anywhere
//! below `audio/SOURCE` (the archives unpack into folders within folders), then below `SOURCE`, under the id with any
//! audio extension; AudioSet's ids carry one of their own.
//!
//! Seven recordings that the captions name do not exist and are always left out; so are the FreeSound recordings of
//! an [`Exclusion`], and clips of AudioSet by a list of YouTube ids.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::listing::{self, Listing};
use super::{Audio, Exclusion, Gathered, Wanted, exclusion, need_folder};
use crate::{CaptionSet, Error, Format};

const LAYOUT: &str = "WavCaps' folder holds json_files/SOURCE/*.json and audio/SOURCE/*.flac, SOURCE being \
                      AudioSet_SL, BBC_Sound_Effects, FreeSound and SoundBible";

/// One of the collections that WavCaps is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WavcapsSource {
    /// `AudioSet_SL`: the part of AudioSet with strong labels.
    #[serde(rename = "AudioSet_SL")]
    AudioSet,
    /// `BBC_Sound_Effects`.
    #[serde(rename = "BBC_Sound_Effects")]
    Bbc,
    /// `FreeSound`, which Clotho is made of too.
    #[serde(rename = "FreeSound")]
    FreeSound,
    /// `SoundBible`.
    #[serde(rename = "SoundBible")]
    SoundBible,
}

impl WavcapsSource {
    /// All four, in the order in which they are loaded.
    pub const ALL: [Self; 4] = [Self::AudioSet, Self::Bbc, Self::FreeSound, Self::SoundBible];

    /// The name of its folders.
    pub fn folder(self) -> &'static str {
        match self {
            Self::AudioSet => "AudioSet_SL",
            Self::Bbc => "BBC_Sound_Effects",
            Self::FreeSound => "FreeSound",
            Self::SoundBible => "SoundBible",
        }
    }

    /// The name of its caption file, as it is published.
    pub fn json(self) -> &'static str {
        match self {
            Self::AudioSet => "as_final.json",
            Self::Bbc => "bbc_final.json",
            Self::FreeSound => "fsd_final.json",
            Self::SoundBible => "sb_final.json",
        }
    }

    /// Recordings that the captions name and that do not exist.
    fn never_there(self) -> &'static [&'static str] {
        match self {
            Self::AudioSet => &[
                "Y06-g5jz-OGc",
                "Y3sSblRfEG2o",
                "YFli8wjBFV2M",
                "YVcu0pVF1npM",
                "YWudGD6ZHRoY",
                "YmW3S0u8bj58",
            ],
            Self::FreeSound => &["592228"],
            Self::Bbc | Self::SoundBible => &[],
        }
    }
}

impl fmt::Display for WavcapsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.folder())
    }
}

/// Pairs that the reference trains on, after its exclusions.
const REFERENCE_PAIRS: usize = 401_195;

/// Ids that are left out.
struct Excluded {
    freesound: HashSet<String>,
    youtube: HashSet<String>,
}

impl Excluded {
    fn has(&self, source: WavcapsSource, name: &str) -> bool {
        source.never_there().contains(&name)
            || match source {
                WavcapsSource::FreeSound => self.freesound.contains(name),
                // Its files are named by `Y` and the id.
                WavcapsSource::AudioSet => self.youtube.contains(name.strip_prefix('Y').unwrap_or(name)),
                WavcapsSource::Bbc | WavcapsSource::SoundBible => false,
            }
    }
}

pub(super) fn gather(
    root: &Path,
    sources: &[WavcapsSource],
    exclude: Option<&Exclusion>,
    exclude_audioset: Option<&Path>,
) -> Result<Gathered, Error> {
    need_folder(root, LAYOUT)?;
    let listed = exclude.map(Exclusion::ids).transpose()?.unwrap_or_default();
    let excluded = Excluded {
        freesound: listed.ids,
        youtube: exclude_audioset
            .map(exclusion::youtube_ids)
            .transpose()?
            .unwrap_or_default(),
    };
    let mut gathered = Gathered::default();
    if listed.unknown > 0 {
        gathered.remarks.push(format!(
            "{} of Clotho's recordings have no FreeSound id in its metadata and cannot be excluded by it; the published \
             list of overlapping ids has them",
            listed.unknown
        ));
    }
    let mut seen = HashSet::new();
    for source in WavcapsSource::ALL {
        if !sources.is_empty() && !sources.contains(&source) {
            continue;
        }
        let files = json_files(root, source);
        if files.is_empty() && sources.is_empty() {
            gathered.remarks.push(format!(
                "no captions of {source}: {}",
                expected_json(root, source).display()
            ));
            continue;
        }
        if files.is_empty() {
            return Err(no_captions(root, source));
        }
        add_source(root, source, files, &excluded, &mut seen, &mut gathered)?;
    }
    if gathered.caption_files.is_empty() {
        return Err(no_captions(root, WavcapsSource::SoundBible));
    }
    let is_left = |(wanted, _): &&(usize, String)| !matches!(gathered.wanted[*wanted].audio, Audio::Excluded);
    let left = gathered.captions.iter().filter(is_left).count();
    // All of WavCaps is told from a part of it by its size.
    if left.abs_diff(REFERENCE_PAIRS) < REFERENCE_PAIRS / 50 && left != REFERENCE_PAIRS {
        gathered.remarks.push(format!(
            "{left} pairs are left after exclusions; the reference has {REFERENCE_PAIRS}: check the list of excluded ids"
        ));
    }
    Ok(gathered)
}

fn add_source(
    root: &Path,
    source: WavcapsSource,
    files: Vec<PathBuf>,
    excluded: &Excluded,
    seen: &mut HashSet<String>,
    gathered: &mut Gathered,
) -> Result<(), Error> {
    let folders = [
        root.join("audio").join(source.folder()),
        root.join(source.folder()),
    ];
    let listing = Listing::deep_all(folders.iter().map(AsRef::as_ref))?;
    for file in files {
        let set = CaptionSet::read(&file, &Format::WavCaps)?;
        let mut wanted_of = Vec::with_capacity(set.clips.len());
        for clip in set.clips {
            let id = format!("{source}/{clip}");
            // Other versions of a source's file hold the same clips again; the first one counts.
            if !seen.insert(id.clone()) {
                wanted_of.push(None);
                continue;
            }
            let name = listing::stem_of(clip.trim());
            let expected = || folders[0].join(format!("{name}.flac"));
            let audio = match (excluded.has(source, name), listing.find(&clip)) {
                (true, _) => Audio::Excluded,
                (false, Some(path)) => Audio::Found(path),
                (false, None) => Audio::Missing(expected()),
            };
            wanted_of.push(Some(gathered.wanted.len()));
            gathered.wanted.push(Wanted { id, audio });
        }
        let captions = set.captions.into_iter().filter_map(|caption| {
            let wanted = wanted_of.get(caption.clip).copied().flatten()?;
            Some((wanted, caption.text))
        });
        gathered.captions.extend(captions);
        gathered.caption_files.push(file);
    }
    gathered.searched.extend(folders);
    gathered.listing = Listing::join([std::mem::take(&mut gathered.listing), listing]);
    Ok(())
}

fn expected_json(root: &Path, source: WavcapsSource) -> PathBuf {
    root.join("json_files").join(source.folder()).join(source.json())
}

fn no_captions(root: &Path, source: WavcapsSource) -> Error {
    Error::NoCaptionFile {
        path: expected_json(root, source),
        found: listing::caption_files_in(root),
        layout: LAYOUT,
    }
}

/// The file under its published name wherever people put it, or else all JSON files of the source's folder.
fn json_files(root: &Path, source: WavcapsSource) -> Vec<PathBuf> {
    let folder = root.join("json_files").join(source.folder());
    let known = [
        folder.join(source.json()),
        root.join("json_files").join(source.json()),
        root.join(source.folder()).join(source.json()),
        root.join(source.json()),
    ];
    if let Some(file) = known.into_iter().find(|file| file.is_file()) {
        return vec![file];
    }
    let names = listing::caption_files_in(&folder);
    let json = names
        .iter()
        .filter(|name| name.to_ascii_lowercase().ends_with(".json"));
    json.map(|name| folder.join(name))
        .filter(|file| file.is_file())
        .collect()
}
