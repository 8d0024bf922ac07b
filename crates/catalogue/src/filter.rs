//! Which files a search considers.
//!
//! A folder contains the paths in a range that its name delimits, so no character of a path acts as a pattern.

use serde::{Deserialize, Serialize};

use crate::prepare;
use crate::{AudioInfo, File};

/// Ends of file names, and what recordings of this kind have as their container.
const CONTAINERS: [(&str, &str); 13] = [
    ("3gp", "mp4"),
    ("aif", "aiff"),
    ("aifc", "aiff"),
    ("bwf", "wav"),
    ("m4a", "mp4"),
    ("m4b", "mp4"),
    ("matroska", "mkv"),
    ("mka", "mkv"),
    ("mov", "mp4"),
    ("oga", "ogg"),
    ("wave", "wav"),
    ("weba", "mkv"),
    ("webm", "mkv"),
];

/// All conditions hold at once; one that is empty or absent holds for every file.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// In one of these folders, or in a folder within: absolute paths, with or without a `/` at the end.
    pub folders: Vec<String>,
    /// With all of these tags: given by people, or the names of what a model hears.
    pub tags: Vec<String>,
    /// At least as long, in seconds.
    pub min_seconds: Option<f64>,
    /// At most as long.
    pub max_seconds: Option<f64>,
    /// At least as many samples a second.
    pub min_rate: Option<u32>,
    /// At most as many.
    pub max_rate: Option<u32>,
    /// In one of these formats: a container such as `wav`, a codec such as `opus` or `pcm 24-bit`, or a family of codecs such as
    /// `pcm`. Case does not count, and `m4a` and other ends of names stand for their container.
    pub formats: Vec<String>,
    /// With one of these numbers of channels.
    pub channels: Vec<u32>,
    /// Recorded on this day or later: `2026-11-15`. A file that does not say when it was recorded counts as recorded when it was last changed.
    pub after: Option<String>,
    /// Recorded on this day or earlier. A file that does not say when it was recorded counts as recorded when it was last changed.
    pub before: Option<String>,
}

impl Filter {
    /// Whether every file passes.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether no file can pass: a length that is not a number is no bound that anything could keep to.
    pub(crate) fn matches_nothing(&self) -> bool {
        [self.min_seconds, self.max_seconds]
            .into_iter()
            .flatten()
            .any(f64::is_nan)
    }

    /// Whether a file passes. Stores ask their database instead; this is what it must answer.
    pub fn matches(&self, file: &File) -> bool {
        let folder = self.folders.is_empty()
            || self.folders.iter().any(|folder| {
                let (from, to) = range(folder);
                file.path >= from && file.path < to
            });
        let tags = self.tags().iter().all(|tag| file.has_tag(tag));
        let sound = &file.sound;
        let file_day = file.day();
        folder
            && tags
            && self.min_seconds.is_none_or(|least| sound.seconds >= least)
            && self.max_seconds.is_none_or(|most| sound.seconds <= most)
            && self.min_rate.is_none_or(|least| sound.rate >= least)
            && self.max_rate.is_none_or(|most| sound.rate <= most)
            && (self.formats.is_empty() || self.formats().iter().any(|format| has_format(sound, format)))
            && (self.channels.is_empty() || self.channels.contains(&sound.channels))
            && self.after.as_ref().is_none_or(|day| file_day >= *day)
            && self.before.as_ref().is_none_or(|day| file_day <= *day)
    }

    /// The paths of each folder: at or after the first text and before the second, by bytes.
    pub(crate) fn ranges(&self) -> Vec<(String, String)> {
        self.folders.iter().map(|folder| range(folder)).collect()
    }

    /// The tags, sorted, each once, as they are kept.
    pub(crate) fn tags(&self) -> Vec<String> {
        prepare::tags(&self.tags)
    }

    /// The formats as recordings have them.
    pub(crate) fn formats(&self) -> Vec<String> {
        self.formats.iter().map(|name| format_name(name)).collect()
    }
}

/// A format as recordings have it: `.M4A` is `mp4`.
pub(crate) fn format_name(name: &str) -> String {
    let name = prepare::text(name.trim().trim_start_matches('.')).to_lowercase();
    let container = CONTAINERS.iter().find(|(end, _)| *end == name);
    container.map_or(name, |(_, container)| (*container).to_owned())
}

/// Whether a recording has a format, given by [`format_name`].
fn has_format(sound: &AudioInfo, format: &str) -> bool {
    [&*sound.container, &*sound.codec, codec_family(&sound.codec)].contains(&format)
}

/// The first word of a codec: `pcm` of `pcm 24-bit`, `adpcm` of `adpcm_ms`.
pub(crate) fn codec_family(codec: &str) -> &str {
    codec.split([' ', '_']).next().unwrap_or(codec)
}

/// The paths in a folder, at any depth: from the first text to before the second, by bytes. `0` follows `/`.
pub(crate) fn range(folder: &str) -> (String, String) {
    let folder = prepare::folder(folder);
    let folder = folder.trim_end_matches('/');
    (format!("{folder}/"), format!("{folder}0"))
}

/// Whether a path is in a folder, at any depth. The folder may end in `/`; it does not contain itself.
pub fn folder_contains(folder: &str, path: &str) -> bool {
    path.strip_prefix(folder.trim_end_matches('/'))
        .is_some_and(|rest| rest.starts_with('/'))
}
