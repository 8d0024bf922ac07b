//! What a library stores of a recording.

use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use crate::day;

/// What makes the vectors of a library comparable. Fixed when it is made; everything that is added must fit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The model, by the name that its user knows it by: for messages.
    pub model: String,
    /// The model, by a hash over it: two models of one name are told apart by it.
    pub fingerprint: String,
    /// Numbers in a vector.
    pub dim: usize,
    /// Length of a window, in seconds.
    pub window_seconds: f64,
    /// Time from the beginning of one window to that of the next.
    pub hop_seconds: f64,
}

/// What a look at a file tells without reading it. A file whose look has not changed is taken to be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stat {
    /// Its length in bytes.
    pub size: u64,
    /// When it was last changed, in nanoseconds since 1970 (UTC).
    pub modified: i64,
}

impl Stat {
    /// What a file's metadata says.
    ///
    /// # Errors
    /// If the system does not tell when a file was changed.
    pub fn of(file: &std::fs::Metadata) -> std::io::Result<Self> {
        let modified = match file.modified()?.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos),
        };
        Ok(Self {
            size: file.len(),
            modified,
        })
    }

    /// The day of the last change, in UTC: `2026-11-15`.
    pub fn day(&self) -> String {
        day::day_of(self.modified)
    }
}

/// A recording with everything that is kept of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Where the file is: an absolute path with `/` between its parts.
    pub path: String,
    /// The look of the file when it was read.
    pub stat: Stat,
    /// SHA-256 of its bytes, in hexadecimal.
    pub content: String,
    /// What it sounds and looks like.
    pub sound: AudioInfo,
    /// What people wrote about it.
    pub notes: Notes,
    /// Vectors: one of the whole recording, and, if it is longer than a window, one for each window, in the order of time.
    pub windows: Vec<Window>,
}

/// What decoding a recording tells.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AudioInfo {
    /// Its length.
    pub seconds: f64,
    /// Samples a second, in the file.
    pub rate: u32,
    /// Channels in the file.
    pub channels: u32,
    /// The file's container, such as `wav`.
    pub container: String,
    /// The codec, such as `pcm_s16le`.
    pub codec: String,
    /// When it was recorded, if the file says so: `2026-11-15`; else empty.
    pub date: String,
    /// What the file says of itself: title, artist, description, comment, and the fields of bext and iXML, by names such as
    /// `title` and `bext.originator`.
    pub metadata: BTreeMap<String, String>,
    /// What was wrong with the file, if its sound could be read only in part.
    pub damage: Option<String>,
    /// What a model hears in it, the strongest first.
    #[serde(default)]
    pub heard: Vec<Heard>,
    /// The outline of its waveform: the lowest and the highest sample of each column, in 127ths, as signed bytes in two's complement.
    #[serde(skip)]
    pub peaks: Vec<u8>,
    /// A fingerprint of the sound, by which the same sound in other formats is recognised.
    #[serde(skip)]
    pub fingerprint: Vec<u8>,
}

/// A kind of sound that a model hears in a recording. Its name is a tag that nobody wrote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Heard {
    /// The name of the class, or of a word of the library's vocabulary, in lower case.
    pub name: String,
    /// How strongly, in the window where it is strongest: a probability, or a cosine for words of a vocabulary.
    pub score: f32,
    /// Where the windows begin in which it is one of the strongest, in seconds.
    pub starts: Vec<f64>,
}

/// What people wrote about a recording, outside of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Notes {
    /// Captions.
    pub captions: Vec<String>,
    /// Tags, sorted, each once.
    pub tags: Vec<String>,
}

/// A stretch of a recording and its vector.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// Where it begins, in seconds.
    pub start: f64,
    /// Where it ends.
    pub end: f64,
    /// Whether it stands for the whole recording.
    pub whole: bool,
    /// Of length 1. Stores keep 16 bits of each number.
    pub vector: Vec<f32>,
}

/// A recording as a search shows it: an [`Entry`] without vectors, with its number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct File {
    /// The number by which the store knows it. It is never given to another file.
    pub id: i64,
    /// See [`Entry::path`].
    pub path: String,
    /// See [`Entry::stat`].
    #[serde(flatten)]
    pub stat: Stat,
    /// See [`Entry::content`].
    pub content: String,
    /// See [`Entry::sound`].
    #[serde(flatten)]
    pub sound: AudioInfo,
    /// See [`Entry::notes`].
    #[serde(flatten)]
    pub notes: Notes,
}

impl File {
    /// The entry of this file, with the vectors of its windows.
    pub(crate) fn into_entry(self, windows: Vec<Window>) -> Entry {
        Entry {
            path: self.path,
            stat: self.stat,
            content: self.content,
            sound: self.sound,
            notes: self.notes,
            windows,
        }
    }

    /// Whether it has a tag: one that people gave it, or the name of something that is heard in it.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.notes.tags.iter().any(|own| own == tag) || self.sound.heard.iter().any(|heard| heard.name == tag)
    }

    /// The day that it was recorded on, or else last changed on.
    pub fn day(&self) -> String {
        if self.sound.date.is_empty() {
            self.stat.day()
        } else {
            self.sound.date.clone()
        }
    }
}

/// As much of a file as it takes to see whether it has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedFile {
    /// See [`File::id`].
    pub id: i64,
    /// See [`Entry::path`].
    pub path: String,
    /// See [`Entry::stat`].
    pub stat: Stat,
    /// See [`Entry::content`].
    pub content: String,
}

/// A file that could not be read. It is tried again when its look has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// See [`Entry::path`].
    pub path: String,
    /// See [`Entry::stat`].
    #[serde(flatten)]
    pub stat: Stat,
    /// What is wrong with it.
    pub message: String,
}
