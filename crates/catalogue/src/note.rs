//! What to know about an answer: filters that no recording can pass, words that mean nothing to the model.
//!
//! A mistyped folder gives the same empty answer as a folder without a match. A note tells the two apart.

use std::fmt;

use strsim::osa_distance;

use crate::filter::format_name;
use crate::{Count, Error, Filter, Overview, Store};

/// Notes of one kind that an answer has at most.
const MAX: usize = 5;
/// Longer names are not compared with others.
const MAX_LETTERS: usize = 200;

/// Something to know about an answer. Its text is a sentence without a full stop.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// A folder of the filter has no recordings.
    NoFolder {
        /// As the filter has it.
        folder: String,
        /// The folder that was probably meant.
        nearest: Option<String>,
    },
    /// No recording has a tag of the filter.
    NoTag {
        /// As the filter has it.
        tag: String,
        /// The tag that was probably meant.
        nearest: Option<String>,
    },
    /// No recording has a format of the filter.
    NoFormat {
        /// As the filter has it.
        format: String,
        /// The format that was probably meant.
        nearest: Option<String>,
    },
    /// No recording has a number of channels of the filter.
    NoChannels {
        /// As the filter has it.
        channels: u32,
    },
    /// The model knows no word of the text, so that its embedding means nothing.
    UnknownWords {
        /// Without its exclusions.
        text: String,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nearest = match self {
            Self::NoFolder { folder, nearest } => {
                write!(f, "the library has no recordings in {folder}")?;
                nearest
            }
            Self::NoTag { tag, nearest } => {
                write!(f, "no recording of the library has the tag {tag}")?;
                nearest
            }
            Self::NoFormat { format, nearest } => {
                write!(f, "no recording of the library has the format {format}")?;
                nearest
            }
            Self::UnknownWords { text } => return write!(f, "the model knows none of these words: {text}"),
            Self::NoChannels { channels: 1 } => {
                return f.write_str("no recording of the library has 1 channel");
            }
            Self::NoChannels { channels } => {
                return write!(f, "no recording of the library has {channels} channels");
            }
        };
        match nearest {
            Some(nearest) => write!(f, "; did you mean {nearest}?"),
            None => Ok(()),
        }
    }
}

/// The values of a filter that no file has. Where any of several may match, they are looked up even if there were hits.
pub(crate) fn absent(store: &dyn Store, filter: &Filter, found_none: bool) -> Result<Vec<Note>, Error> {
    let looks = |several: bool| found_none || several;
    let any = |filter: Filter| Ok::<_, Error>(!store.browse(&filter, 0, 1)?.is_empty());
    let (mut folders, mut tags, mut formats, mut channels) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for folder in first(&filter.folders).filter(|_| looks(filter.folders.len() > 1)) {
        let folders_alone = vec![folder.clone()];
        if !any(Filter {
            folders: folders_alone,
            ..Filter::default()
        })? {
            folders.push(folder);
        }
    }
    for tag in first(&filter.tags).filter(|_| found_none) {
        let tags_alone = vec![tag.clone()];
        if !any(Filter {
            tags: tags_alone,
            ..Filter::default()
        })? {
            tags.push(tag);
        }
    }
    for format in first(&filter.formats).filter(|_| looks(filter.formats.len() > 1)) {
        let formats_alone = vec![format.clone()];
        if !any(Filter {
            formats: formats_alone,
            ..Filter::default()
        })? {
            formats.push(format);
        }
    }
    for &count in first(&filter.channels).filter(|_| looks(filter.channels.len() > 1)) {
        let channels_alone = vec![count];
        if !any(Filter {
            channels: channels_alone,
            ..Filter::default()
        })? {
            channels.push(Note::NoChannels { channels: count });
        }
    }
    if folders.is_empty() && tags.is_empty() && formats.is_empty() {
        return Ok(channels);
    }
    let overview = store.overview()?;
    let mut notes: Vec<Note> = Vec::new();
    notes.extend(folders.into_iter().map(|folder| Note::NoFolder {
        folder: folder.clone(),
        nearest: nearest_folder(folder, &overview),
    }));
    notes.extend(tags.into_iter().map(|tag| Note::NoTag {
        tag: tag.clone(),
        nearest: nearest(tag, &overview.tags, |value| value),
    }));
    notes.extend(formats.into_iter().map(|format| Note::NoFormat {
        format: format.clone(),
        nearest: nearest(&format_name(format), &overview.formats, |value| value),
    }));
    notes.extend(channels);
    Ok(notes)
}

fn first<T>(values: &[T]) -> impl Iterator<Item = &T> {
    values.iter().take(MAX)
}

/// The folder whose path is nearest, or else the one whose name is.
fn nearest_folder(folder: &str, overview: &Overview) -> Option<String> {
    let folder = folder.trim_end_matches('/');
    let known: Vec<Count> = overview
        .folders
        .iter()
        .filter(|count| count.files > 0)
        .cloned()
        .collect();
    nearest_within(folder, name(folder), &known, |value| value)
        .or_else(|| nearest(name(folder), &known, name))
}

/// The last part of a path.
fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The value whose key differs least from what was typed, if it differs little. Case does not count.
fn nearest(typed: &str, known: &[Count], key: impl Fn(&str) -> &str) -> Option<String> {
    nearest_within(typed, typed, known, key)
}

/// As [`nearest`]; how much may differ follows from the length of `name`.
fn nearest_within(typed: &str, name: &str, known: &[Count], key: impl Fn(&str) -> &str) -> Option<String> {
    let typed = typed.to_lowercase();
    let length = typed.chars().count();
    if length > MAX_LETTERS {
        return None;
    }
    let most = 1 + name.chars().count() / 4;
    let distance = |count: &Count| {
        let key = key(&count.value).to_lowercase();
        // Letters that one has more than the other are no fewer changes.
        if key.chars().count().abs_diff(length) > most {
            return None;
        }
        Some(osa_distance(&typed, &key)).filter(|&distance| distance <= most)
    };
    known
        .iter()
        .filter_map(|count| Some((distance(count)?, count)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, count)| count.value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(values: &[&str]) -> Vec<Count> {
        let count = |value: &&str| Count {
            value: (*value).to_owned(),
            files: 1,
        };
        values.iter().map(count).collect()
    }

    #[test]
    fn what_differs_little_is_near() {
        let known = counts(&["weather", "field", "Animal"]);
        let near = |typed: &str| nearest(typed, &known, |value| value);
        assert_eq!(near("wether").as_deref(), Some("weather"));
        assert_eq!(near("animal").as_deref(), Some("Animal"));
        assert_eq!(near("feild").as_deref(), Some("field"));
        assert_eq!(near("music"), None);
        assert_eq!(near(""), None);
        assert_eq!(near(&"weather".repeat(100)), None);
    }

    #[test]
    fn folders_are_near_by_path_or_name() {
        let overview = Overview {
            files: 3,
            windows: 3,
            seconds: 3.0,
            failures: 0,
            roots: vec!["/lib".to_owned()],
            folders: counts(&["/lib", "/lib/Rain", "/lib/Rain/Heavy", "/lib/Dogs"]),
            tags: Vec::new(),
            rates: Vec::new(),
            formats: Vec::new(),
            channels: Vec::new(),
        };
        let near = |typed: &str| nearest_folder(typed, &overview);
        assert_eq!(near("/lib/Rian/").as_deref(), Some("/lib/Rain"));
        assert_eq!(near("/lib/rain/").as_deref(), Some("/lib/Rain"));
        assert_eq!(near("/home/me/Heavy").as_deref(), Some("/lib/Rain/Heavy"));
        assert_eq!(near("/lib/Cats"), None);
    }
}
