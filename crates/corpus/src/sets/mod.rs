//! Datasets on disk, captions and recordings together: one file for each layout.
//!
//! In: a [`DatasetConfig`], which names the layout and the folder. Out: a [`Dataset`] of the recordings that are there
//! and their captions, and the recordings that were skipped, with the reason. A missing or broken recording never ends
//! the loading, since clips disappear from the sources of AudioCaps and WavCaps; whether too many are gone is for the
//! caller to decide.
//!
//! Refused: a folder that is not there or has another layout ([`Error::NoSetFolder`], [`Error::NoCaptionFile`]), a set of
//! which no recording is left ([`Error::NoClips`]), and caption files with faults, as
//! [`CaptionSet::read`](crate::CaptionSet::read) refuses them.
//!
//! Folders are listed once and recordings looked up in the list: a `stat` for every name that a clip may have would
//! take many minutes for 400,000 clips on a network drive. Recordings are found by their name without extension, in
//! any extension of [`AUDIO_EXTENSIONS`] and any case of it, so that converted copies of a dataset work as they are.

mod audiocaps;
mod check;
mod clotho;
mod completeness;
mod exclusion;
mod folder;
mod listing;
mod stats;
mod table;
mod wavcaps;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use check::Check;
pub use completeness::{CheckedSet, Completeness};
pub use exclusion::{ExcludedIds, Exclusion};
pub use listing::{AUDIO_EXTENSIONS, MAX_DEPTH, MAX_FILES};
pub use stats::{AudioStats, Spread, TextStats};
pub use wavcaps::WavcapsSource;

use crate::Error;
use hark_work::progress::Progress;
use listing::Listing;

/// A dataset on disk: its layout and its folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case",
    deny_unknown_fields
)]
pub enum DatasetConfig {
    /// Clotho: `clotho_captions_SPLIT.csv`, and the recordings in `SPLIT`, `audio/SPLIT`, `clotho_audio_SPLIT` or
    /// `clotho_audio_SPLIT/SPLIT`.
    Clotho {
        /// The folder of the caption files.
        root: PathBuf,
        /// `development`, `validation` or `evaluation`.
        split: String,
    },
    /// AudioCaps: `SPLIT.csv`, and recordings named by `audiocap_id`, `youtube_id`, `Y` and `youtube_id`, or
    /// `youtube_id` and `start_time` joined by `_`, in `audio/SPLIT`, `SPLIT`, `audio` or the root.
    Audiocaps {
        /// The folder of the caption files.
        root: PathBuf,
        /// `train`, `val` or `test`.
        split: String,
        /// The folder of the recordings, if it is another one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        audio: Option<PathBuf>,
    },
    /// WavCaps: `json_files/SOURCE/*.json`, and the recordings anywhere below `audio/SOURCE`.
    Wavcaps {
        /// The folder that holds `json_files` and `audio`.
        root: PathBuf,
        /// Which of the four sources; none named: all whose JSON file is there.
        #[serde(default)]
        sources: Vec<WavcapsSource>,
        /// Which FreeSound recordings to leave out, since Clotho is made of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exclude: Option<Exclusion>,
        /// A list of YouTube ids to leave out of AudioSet's part, which holds clips that AudioCaps tests on. AudioCaps' own
        /// `test.csv` is such a list.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exclude_audioset: Option<PathBuf>,
    },
    /// Any CSV, TSV or JSON Lines table with a column of paths and one or more of captions.
    Table {
        /// The table.
        file: PathBuf,
        /// The folder that paths are relative to; without it, the table's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        audio_folder: Option<PathBuf>,
        /// The column of paths; without it, the first of `path`, `file`, `file_name`, `filename`, `audio`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path_column: Option<String>,
        /// The columns of captions; none named: `caption`, `captions`, `text`, or all `caption_N`.
        #[serde(default)]
        caption_columns: Vec<String>,
    },
    /// A folder of recordings, each beside a `.txt` file of the same name with one caption a line.
    Folder {
        /// The folder; those within it belong to the set too.
        root: PathBuf,
    },
}

/// Recordings that are there, and their captions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    /// What the set is called, such as `clotho-development`; of several, the names joined by `+`.
    pub name: String,
    /// The recordings, in the order in which the captions name them.
    pub clips: Vec<Clip>,
    /// Recordings with captions, in the order of the caption files: a clip with five captions occurs five times.
    pub pairs: Vec<Pair>,
    /// Recordings that the captions name and the set lacks.
    pub left_out: Vec<Skipped>,
}

/// A recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clip {
    /// Its name within the dataset, which differs from that of all others.
    pub id: String,
    /// Its file.
    pub path: PathBuf,
    /// Which of the merged sets it comes from, from 0.
    pub set: usize,
}

/// A recording and one caption of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The recording: an index into [`Dataset::clips`].
    pub clip: usize,
    /// What the caption says.
    pub caption: String,
}

/// A recording that the captions name and that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Its name within the dataset.
    pub id: String,
    /// Its file, if there is one; for a missing recording, the expected path.
    pub path: Option<PathBuf>,
    /// Why.
    pub reason: Reason,
    /// How many captions go with it.
    pub captions: usize,
}

/// Why a recording is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// It is not where it should be.
    Missing,
    /// It cannot be decoded; why not.
    Broken(String),
    /// It is on a list of excluded recordings.
    Excluded,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing => f.write_str("missing"),
            Self::Broken(what) => f.write_str(what),
            Self::Excluded => f.write_str("excluded"),
        }
    }
}

impl DatasetConfig {
    /// The dataset that `KIND:PATH` names, such as `clotho:data/clotho`, or a table by its extension; `None` for other text. Without
    /// a split, it is the one that Clotho or AudioCaps is evaluated on.
    ///
    /// # Errors
    /// [`Error::UnknownKind`], and [`Error::NoSplits`] if a split is asked of a kind that has none.
    pub fn named(text: &str, split: Option<&str>) -> Result<Option<Self>, Error> {
        let Some((kind, path)) = text.split_once(':') else {
            let extension = Path::new(text)
                .extension()
                .and_then(|extension| extension.to_str());
            let is_table = extension.is_some_and(|extension| {
                ["csv", "tsv", "jsonl", "ndjson"]
                    .iter()
                    .any(|known| known.eq_ignore_ascii_case(extension))
            });
            return if is_table {
                Self::named(&format!("table:{text}"), split)
            } else {
                Ok(None)
            };
        };
        if !kind.chars().all(char::is_alphanumeric) {
            return Ok(None);
        }
        let root = PathBuf::from(path);
        let or = |default: &str| split.unwrap_or(default).to_owned();
        Ok(Some(match kind {
            "clotho" => Self::Clotho {
                root,
                split: or("evaluation"),
            },
            "audiocaps" => Self::Audiocaps {
                root,
                split: or("test"),
                audio: None,
            },
            "table" | "folder" if split.is_some() => {
                return Err(Error::NoSplits {
                    kind: kind.to_owned(),
                });
            }
            "table" => Self::Table {
                file: root,
                audio_folder: None,
                path_column: None,
                caption_columns: Vec::new(),
            },
            "folder" => Self::Folder { root },
            other => {
                return Err(Error::UnknownKind {
                    kind: other.to_owned(),
                });
            }
        }))
    }

    /// Reads the captions, finds the recordings and checks them on several threads.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let root = folder.path().to_owned();
    /// use hark_corpus::{Check, DatasetConfig, Reason};
    /// use hark_work::progress::no_progress;
    ///
    /// fs_err::write(root.join("rain.txt"), "Rain falls\nWater drips on a roof\n")?;
    /// fs_err::write(root.join("rain.WAV"), b"RIFF....WAVE")?;
    /// fs_err::write(root.join("dog.txt"), "A dog barks\n")?;
    /// let set = DatasetConfig::Folder { root };
    /// let data = set.load(Check::Presence, 2, &no_progress)?;
    /// assert_eq!((data.clips.len(), data.pairs.len()), (1, 2));
    /// assert_eq!((data.left_out[0].id.as_str(), &data.left_out[0].reason), ("dog", &Reason::Missing));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSetFolder`], [`Error::NoCaptionFile`], [`Error::NoClips`], [`Error::TooManyFiles`],
    /// [`Error::Cancelled`], and what can be wrong with a caption file.
    pub fn load(&self, check: Check, threads: usize, progress: Progress<'_>) -> Result<Dataset, Error> {
        let gathered = self.gather()?;
        let verdicts = check::run(check, &gathered.found_paths(), threads, progress)?;
        gathered.into_dataset(verdicts)
    }

    /// What the set is called.
    pub fn name(&self) -> String {
        let last = |path: &Path, fallback: &str| {
            let name = path.file_stem().map(|name| name.to_string_lossy().into_owned());
            name.unwrap_or_else(|| fallback.to_owned())
        };
        match self {
            Self::Clotho { split, .. } => format!("clotho-{split}"),
            Self::Audiocaps { split, .. } => format!("audiocaps-{split}"),
            Self::Wavcaps { .. } => "wavcaps".to_owned(),
            Self::Table { file, .. } => last(file, "table"),
            Self::Folder { root } => last(root, "folder"),
        }
    }

    fn gather(&self) -> Result<Gathered, Error> {
        let mut gathered = match self {
            Self::Clotho { root, split } => clotho::gather(root, split),
            Self::Audiocaps { root, split, audio } => audiocaps::gather(root, split, audio.as_deref()),
            Self::Wavcaps {
                root,
                sources,
                exclude,
                exclude_audioset,
            } => wavcaps::gather(root, sources, exclude.as_ref(), exclude_audioset.as_deref()),
            Self::Table {
                file,
                audio_folder,
                path_column,
                caption_columns,
            } => table::gather(
                file,
                audio_folder.as_deref(),
                path_column.as_deref(),
                caption_columns,
            ),
            Self::Folder { root } => folder::gather(root),
        }?;
        gathered.name = self.name();
        Ok(gathered)
    }

    /// The folder that holds the whole dataset.
    fn root(&self) -> &Path {
        match self {
            Self::Clotho { root, .. }
            | Self::Audiocaps { root, .. }
            | Self::Wavcaps { root, .. }
            | Self::Folder { root } => root,
            Self::Table {
                file, audio_folder, ..
            } => audio_folder.as_deref().unwrap_or_else(|| parent_of(file)),
        }
    }
}

impl Dataset {
    /// Loads several sets into one, in their order. Where there are several, every clip's id becomes `SET:ID`, since
    /// datasets share ids; sets of the same name are told apart by a number after it.
    ///
    /// `progress` counts the recordings of one set after the other, from 0 for each.
    ///
    /// # Errors
    /// As [`DatasetConfig::load`], and [`Error::NoSets`] for an empty list.
    pub fn load_all(
        sets: &[DatasetConfig],
        check: Check,
        threads: usize,
        progress: Progress<'_>,
    ) -> Result<Self, Error> {
        if sets.is_empty() {
            return Err(Error::NoSets);
        }
        let loaded = sets
            .iter()
            .map(|set| set.load(check, threads, progress))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self::merge(loaded))
    }

    /// Merges several sets into one, as [`Dataset::load_all`] does. What was merged before counts as one set.
    pub fn merge(sets: Vec<Self>) -> Self {
        let several = sets.len() > 1;
        let mut uses: HashMap<String, usize> = HashMap::new();
        let mut merged = Self {
            name: String::new(),
            clips: Vec::new(),
            pairs: Vec::new(),
            left_out: Vec::new(),
        };
        for (number, mut set) in sets.into_iter().enumerate() {
            let count = uses.entry(set.name.clone()).or_default();
            *count += 1;
            if *count > 1 {
                set.name = format!("{}#{count}", set.name);
            }
            let rename = |id: &mut String| {
                if several {
                    *id = format!("{}:{id}", set.name);
                }
            };
            let before = merged.clips.len();
            merged.clips.extend(set.clips.into_iter().map(|mut clip| {
                rename(&mut clip.id);
                clip.set = number;
                clip
            }));
            merged.left_out.extend(set.left_out.into_iter().map(|mut left| {
                rename(&mut left.id);
                left
            }));
            merged.pairs.extend(set.pairs.into_iter().map(|pair| Pair {
                clip: before + pair.clip,
                ..pair
            }));
            if number > 0 {
                merged.name.push('+');
            }
            merged.name.push_str(&set.name);
        }
        merged
    }

    /// The captions of one clip, in order. It looks through all pairs: for many clips, see
    /// [`Dataset::captions_by_clip`].
    pub fn captions_of(&self, clip: usize) -> impl Iterator<Item = &str> {
        let of_clip = self.pairs.iter().filter(move |pair| pair.clip == clip);
        of_clip.map(|pair| pair.caption.as_str())
    }

    /// For every clip, the indices of its pairs.
    pub fn captions_by_clip(&self) -> Vec<Vec<usize>> {
        let mut lists = vec![Vec::new(); self.clips.len()];
        for (index, pair) in self.pairs.iter().enumerate() {
            if let Some(list) = lists.get_mut(pair.clip) {
                list.push(index);
            }
        }
        lists
    }

    /// The clip of each pair.
    pub fn clips_of_pairs(&self) -> Vec<u32> {
        self.pairs.iter().map(|pair| pair.clip as u32).collect()
    }

    /// How many recordings are left out because they are missing, because they are broken, and on purpose.
    pub fn left_out_counts(&self) -> SkippedCounts {
        SkippedCounts::of(&self.left_out)
    }
}

/// Recordings left out, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SkippedCounts {
    /// Not where they should be.
    pub missing: usize,
    /// There, and not to be decoded.
    pub broken: usize,
    /// Left out on purpose.
    pub excluded: usize,
}

impl SkippedCounts {
    fn of(left_out: &[Skipped]) -> Self {
        let mut counts = Self::default();
        for left in left_out {
            match left.reason {
                Reason::Missing => counts.missing += 1,
                Reason::Broken(_) => counts.broken += 1,
                Reason::Excluded => counts.excluded += 1,
            }
        }
        counts
    }
}

/// What a set's caption files say, and which files were found for it.
#[derive(Default)]
struct Gathered {
    name: String,
    wanted: Vec<Wanted>,
    /// Captions with the index of their recording in `wanted`, in the order of the files.
    captions: Vec<(usize, String)>,
    caption_files: Vec<PathBuf>,
    /// The folders in which recordings were looked for, best first, whether they are there or not.
    searched: Vec<PathBuf>,
    /// What they hold.
    listing: Listing,
    /// What a user should know about the layout.
    remarks: Vec<String>,
}

impl Gathered {
    /// A set with one caption file, whose recordings are all in a few folders.
    fn new(
        (file, captions): (PathBuf, Vec<crate::Caption>),
        wanted: Vec<Wanted>,
        (searched, listing): (Vec<PathBuf>, Listing),
    ) -> Self {
        let captions = captions.into_iter();
        Self {
            wanted,
            captions: captions.map(|caption| (caption.clip, caption.text)).collect(),
            caption_files: vec![file],
            searched,
            listing,
            ..Self::default()
        }
    }
}

/// A recording that captions speak of.
struct Wanted {
    id: String,
    audio: Audio,
}

enum Audio {
    Found(PathBuf),
    /// Where it was expected.
    Missing(PathBuf),
    Excluded,
}

impl Gathered {
    fn found_paths(&self) -> Vec<&Path> {
        let found = self.wanted.iter().filter_map(|wanted| match &wanted.audio {
            Audio::Found(path) => Some(path.as_path()),
            _ => None,
        });
        found.collect()
    }

    /// `verdicts`: for every recording found, in order, what is wrong with it.
    fn into_dataset(self, verdicts: Vec<Option<String>>) -> Result<Dataset, Error> {
        let mut captions = vec![0_usize; self.wanted.len()];
        for (wanted, _) in &self.captions {
            if let Some(count) = captions.get_mut(*wanted) {
                *count += 1;
            }
        }
        let expected = self.wanted.len();
        let mut example = None;
        let (mut clips, mut left_out) = (Vec::new(), Vec::new());
        let mut clip_of = Vec::with_capacity(expected);
        let mut verdicts = verdicts.into_iter();
        for (wanted, captions) in self.wanted.into_iter().zip(captions) {
            let Wanted { id, audio } = wanted;
            let (path, reason) = match audio {
                Audio::Found(path) => {
                    let Some(what) = verdicts.next().flatten() else {
                        clip_of.push(Some(clips.len()));
                        clips.push(Clip { id, path, set: 0 });
                        continue;
                    };
                    (Some(path), Reason::Broken(what))
                }
                Audio::Missing(path) => {
                    example.get_or_insert_with(|| path.clone());
                    (Some(path), Reason::Missing)
                }
                Audio::Excluded => (None, Reason::Excluded),
            };
            clip_of.push(None);
            left_out.push(Skipped {
                id,
                path,
                reason,
                captions,
            });
        }
        if clips.is_empty() {
            let example = example.or_else(|| left_out.iter().find_map(|left| left.path.clone()));
            return Err(Error::NoClips {
                set: self.name,
                counts: SkippedCounts::of(&left_out),
                searched: self.searched,
                example,
            });
        }
        let pairs = self.captions.into_iter().filter_map(|(wanted, caption)| {
            let clip = clip_of.get(wanted).copied().flatten()?;
            Some(Pair { clip, caption })
        });
        Ok(Dataset {
            name: self.name,
            clips,
            pairs: pairs.collect(),
            left_out,
        })
    }
}

/// The folder of a file; of a bare name, the current one.
fn parent_of(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Refuses a root that is not a folder, with the layout that is expected.
fn need_folder(root: &Path, layout: &'static str) -> Result<(), Error> {
    if root.is_dir() {
        return Ok(());
    }
    Err(Error::NoSetFolder {
        path: root.to_owned(),
        layout,
    })
}

/// Refuses a caption file that is not there, and names those that are.
fn need_caption_file(file: &Path, layout: &'static str) -> Result<(), Error> {
    if file.is_file() {
        return Ok(());
    }
    Err(Error::NoCaptionFile {
        path: file.to_owned(),
        found: listing::caption_files_in(parent_of(file)),
        layout,
    })
}
