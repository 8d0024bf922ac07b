//! The recordings in some folders, listed once and looked up by name.
//!
//! In: folders. Out: a sorted list of audio files, some hundred bytes for each, found again by their name without
//! extension and without the white space around it: one of Clotho's names begins with a blank, which unpackers and
//! spreadsheets drop. Letters keep their case, as YouTube's ids differ by it alone; extensions do not.
//!
//! Folders, pipes and devices are not recordings, whatever their name. Links are followed; a folder that was visited
//! is not visited again, so that links in a circle end. Refused: more than [`MAX_FILES`] files. A folder that cannot
//! be read counts as empty, and names that are not UTF-8 are skipped, since no caption file can name them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::Error;

pub use hark_audio::AUDIO_EXTENSIONS;

/// The most files that are listed for one dataset: 4,194,304, ten times the largest of the known sets.
pub const MAX_FILES: usize = 1 << 22;

/// How many folders within each other are walked.
pub const MAX_DEPTH: usize = 16;

/// A file that was listed.
struct Entry {
    /// The name without extension and without white space around it.
    key: Box<str>,
    name: Box<str>,
    /// Index into the folders.
    folder: u32,
}

/// The audio files of some folders.
#[derive(Default)]
pub(super) struct Listing {
    folders: Vec<PathBuf>,
    /// Sorted by key, then by folder in the order of listing, then by name.
    entries: Vec<Entry>,
}

impl Listing {
    /// The audio files of folders, without those within them. A folder named earlier wins.
    pub(super) fn flat<'p>(folders: impl IntoIterator<Item = &'p Path>) -> Result<Self, Error> {
        let mut listing = Self::default();
        let mut seen = HashSet::new();
        for folder in folders {
            listing.add(folder, 0, Files::Audio, &mut seen)?;
        }
        Ok(listing.sorted())
    }

    /// The audio files of a folder and all folders within it.
    pub(super) fn deep(folder: &Path) -> Result<Self, Error> {
        Self::deep_all([folder])
    }

    /// As [`Listing::deep`], of several folders. A folder named earlier wins.
    pub(super) fn deep_all<'p>(folders: impl IntoIterator<Item = &'p Path>) -> Result<Self, Error> {
        let mut listing = Self::default();
        let mut seen = HashSet::new();
        for folder in folders {
            listing.add(folder, MAX_DEPTH, Files::Audio, &mut seen)?;
        }
        Ok(listing.sorted())
    }

    /// The files of a folder and all within it that end in `.txt`, those of one folder together.
    pub(super) fn texts(folder: &Path) -> Result<Vec<PathBuf>, Error> {
        let mut listing = Self::default();
        listing.add(folder, MAX_DEPTH, Files::Text, &mut HashSet::new())?;
        let mut paths: Vec<PathBuf> = listing.entries.iter().map(|entry| listing.path(entry)).collect();
        paths.sort_unstable_by(|a, b| (a.parent(), a).cmp(&(b.parent(), b)));
        Ok(paths)
    }

    /// All files of one folder, whatever their names.
    pub(super) fn everything(folder: &Path) -> Result<Self, Error> {
        let mut listing = Self::default();
        listing.add(folder, 0, Files::All, &mut HashSet::new())?;
        Ok(listing.sorted())
    }

    /// The recording of a name, which may have an extension or none. Exactly that file if it is there, else one with
    /// the same name and another extension.
    pub(super) fn find(&self, name: &str) -> Option<PathBuf> {
        let key = key_of(name);
        let first = self.entries.partition_point(|entry| &*entry.key < key);
        let same = self.entries[first..]
            .iter()
            .take_while(|entry| &*entry.key == key);
        let best = same.min_by_key(|entry| {
            let exact = &*entry.name == name;
            let blank = stem_of(&entry.name) == stem_of(name);
            (!exact, !blank, entry.folder, rank_of(&entry.name))
        })?;
        Some(self.path(best))
    }

    /// Every file, in the order of the list.
    pub(super) fn paths(&self) -> impl Iterator<Item = PathBuf> + '_ {
        self.entries.iter().map(|entry| self.path(entry))
    }

    /// The audio files of several lists.
    pub(super) fn join(lists: impl IntoIterator<Item = Self>) -> Self {
        let mut joined = Self::default();
        for list in lists {
            let before = joined.folders.len() as u32;
            joined.folders.extend(list.folders);
            let audio = list
                .entries
                .into_iter()
                .filter(|entry| audio_extension(&entry.name).is_some());
            joined.entries.extend(audio.map(|entry| Entry {
                folder: before + entry.folder,
                ..entry
            }));
        }
        joined.sorted()
    }

    fn path(&self, entry: &Entry) -> PathBuf {
        let folder = self.folders.get(entry.folder as usize);
        folder.map_or_else(|| PathBuf::from(&*entry.name), |folder| folder.join(&*entry.name))
    }

    fn sorted(mut self) -> Self {
        self.entries
            .sort_unstable_by(|a, b| (&a.key, a.folder, &a.name).cmp(&(&b.key, b.folder, &b.name)));
        self
    }

    fn add(
        &mut self,
        folder: &Path,
        depth: usize,
        files: Files,
        seen: &mut HashSet<PathBuf>,
    ) -> Result<(), Error> {
        let Ok(real) = std::fs::canonicalize(folder) else {
            return Ok(());
        };
        if !seen.insert(real) {
            return Ok(());
        }
        let Ok(entries) = std::fs::read_dir(folder) else {
            return Ok(());
        };
        let number = self.folders.len() as u32;
        self.folders.push(folder.to_owned());
        let mut within = Vec::new();
        for entry in entries.flatten() {
            let Some((is_file, is_folder)) = kind_of(&entry) else {
                continue;
            };
            if is_folder && depth > 0 {
                within.push(entry.path());
            }
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| is_file && files.take(name)) else {
                continue;
            };
            if self.entries.len() == MAX_FILES {
                return Err(Error::TooManyFiles {
                    path: folder.to_owned(),
                    limit: MAX_FILES,
                });
            }
            self.entries.push(Entry {
                key: key_of(name).into(),
                name: name.into(),
                folder: number,
            });
        }
        // The system lists folders in any order; the same set must load in the same order everywhere.
        within.sort();
        for folder in within {
            self.add(&folder, depth - 1, files, seen)?;
        }
        Ok(())
    }
}

/// Which files are listed.
#[derive(Clone, Copy)]
enum Files {
    Audio,
    Text,
    All,
}

impl Files {
    fn take(self, name: &str) -> bool {
        // macOS leaves such files on drives of other systems: they hold no sound.
        if name.starts_with("._") {
            return false;
        }
        match self {
            Self::Audio => audio_extension(name).is_some(),
            Self::Text => split_extension(name).is_some_and(|(_, ending)| ending.eq_ignore_ascii_case("txt")),
            Self::All => true,
        }
    }
}

/// Whether an entry is a file, and whether it is a folder, with links followed. Most systems know without another
/// call, unless it is a link.
fn kind_of(entry: &std::fs::DirEntry) -> Option<(bool, bool)> {
    let kind = entry.file_type().ok()?;
    if kind.is_symlink() {
        let target = std::fs::metadata(entry.path()).ok()?;
        return Some((target.is_file(), target.is_dir()));
    }
    Some((kind.is_file(), kind.is_dir()))
}

fn split_extension(name: &str) -> Option<(&str, &str)> {
    name.rsplit_once('.').filter(|(stem, _)| !stem.trim().is_empty())
}

/// The rank of a name's extension among the known ones.
fn audio_extension(name: &str) -> Option<usize> {
    let (_, ending) = split_extension(name)?;
    AUDIO_EXTENSIONS
        .iter()
        .position(|known| known.eq_ignore_ascii_case(ending))
}

fn rank_of(name: &str) -> usize {
    audio_extension(name).unwrap_or(AUDIO_EXTENSIONS.len())
}

/// A name without its audio extension. Other dots belong to the name.
pub(super) fn stem_of(name: &str) -> &str {
    match split_extension(name) {
        Some((stem, _)) if audio_extension(name).is_some() => stem,
        _ => name,
    }
}

fn key_of(name: &str) -> &str {
    stem_of(name.trim()).trim()
}

/// Names of files that may hold captions, for messages.
pub(super) fn caption_files_in(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let names = entries.flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let (_, ending) = split_extension(&name)?;
        let known = ["csv", "tsv", "json", "jsonl"]
            .iter()
            .any(|known| known.eq_ignore_ascii_case(ending));
        known.then_some(name)
    });
    let mut names: Vec<String> = names.take(1000).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(folder: &Path, name: &str) {
        let path = folder.join(name);
        fs_err::create_dir_all(parent(&path)).unwrap();
        fs_err::write(path, b"").unwrap();
    }

    fn parent(path: &Path) -> &Path {
        path.parent().unwrap()
    }

    fn found(listing: &Listing, name: &str) -> Option<String> {
        let path = listing.find(name)?;
        Some(path.file_name()?.to_str()?.to_owned())
    }

    #[test]
    fn names_are_found_with_and_without_extension_blank_and_case() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "a.WAV", " b.wav", "c.2.flac", "d.mp3", "d.wav", "e.txt", "._f.wav", ".wav", "G.wav", "h.wav",
            "h.flac",
        ] {
            touch(folder.path(), name);
        }
        fs_err::create_dir(folder.path().join("i.wav")).unwrap();
        let listing = Listing::flat([folder.path()]).unwrap();
        for (name, file) in [
            ("a.wav", Some("a.WAV")),
            ("a", Some("a.WAV")),
            ("a.Mp3", Some("a.WAV")),
            ("b.wav", Some(" b.wav")),
            (" b", Some(" b.wav")),
            ("c.2", Some("c.2.flac")),
            ("c", None),
            ("d.mp3", Some("d.mp3")),
            ("d.ogg", Some("d.wav")),
            ("e", None),
            ("e.txt", None),
            ("f", None),
            ("", None),
            (".wav", None),
            ("g", None),
            ("h", Some("h.wav")),
            ("h.flac", Some("h.flac")),
            ("i", None),
        ] {
            assert_eq!(found(&listing, name).as_deref(), file, "{name:?}");
        }
        assert_eq!(listing.paths().count(), 8);
    }

    #[test]
    fn a_name_with_a_blank_and_one_without_stay_apart_where_both_are_there() {
        let folder = tempfile::tempdir().unwrap();
        touch(folder.path(), " a.flac");
        touch(folder.path(), "a.flac");
        let listing = Listing::flat([folder.path()]).unwrap();
        for name in [" a.wav", " a.flac"] {
            assert_eq!(found(&listing, name).unwrap(), " a.flac");
        }
        assert_eq!(found(&listing, "a.wav").unwrap(), "a.flac");
    }

    #[test]
    fn earlier_folders_win_and_absent_ones_are_empty() {
        let folder = tempfile::tempdir().unwrap();
        touch(folder.path(), "one/a.wav");
        touch(folder.path(), "two/a.wav");
        touch(folder.path(), "two/b.wav");
        let [none, one, two] = ["none", "one", "two"].map(|name| folder.path().join(name));
        let listing = Listing::flat([&*none, &*two, &*one]).unwrap();
        assert_eq!(listing.find("a"), Some(two.join("a.wav")));
        let listing = Listing::flat([&*one, &*two]).unwrap();
        assert_eq!(listing.find("a"), Some(one.join("a.wav")));
        assert_eq!(listing.find("b"), Some(two.join("b.wav")));
    }

    #[cfg(unix)]
    #[test]
    fn links_in_a_circle_end() {
        let folder = tempfile::tempdir().unwrap();
        touch(folder.path(), "within/deeper/a.wav");
        for name in ["within/up", "within/deeper/up", "within/deeper/again"] {
            std::os::unix::fs::symlink(folder.path(), folder.path().join(name)).unwrap();
        }
        std::os::unix::fs::symlink("nowhere", folder.path().join("b.wav")).unwrap();
        let listing = Listing::deep(folder.path()).unwrap();
        assert_eq!(listing.paths().count(), 1);
        assert!(listing.find("a").is_some() && listing.find("b").is_none());
    }
}
