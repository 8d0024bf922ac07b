//! The audio files in a folder and all folders within it.
//!
//! Files are chosen by their extension or, if they have none, by their first bytes; whether one is a recording shows when it is
//! decoded. Hidden files and folders are skipped (they are the system's: `._take1.wav` is no recording).
//!
//! Links are followed, and what is behind them keeps the path that leads through the link. A link that leads back into a folder
//! that is scanned anyway, or to one that contains it, is skipped: the first would list recordings twice, the second never end.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use hark_catalogue::Stat;
use hark_work::files::explain;
use serde::Serialize;
use walkdir::{DirEntry, WalkDir};

/// A file that may be a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScannedFile {
    /// Absolute.
    pub(crate) path: String,
    pub(crate) stat: Stat,
}

/// Why something in a folder was not indexed though it may hold sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkipReason {
    /// A link to a file or folder that is scanned anyway.
    LinkInside,
    /// A link to a folder that contains the link.
    LinkToParent,
    /// A format that hark reads only with ffmpeg, which is not there.
    NeedsFfmpeg,
}

impl SkipReason {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::LinkInside, Self::LinkToParent, Self::NeedsFfmpeg];

    /// What one such thing is.
    pub fn about(self) -> &'static str {
        match self {
            Self::LinkInside => "link to what is indexed anyway",
            Self::LinkToParent => "link to a folder around it",
            Self::NeedsFfmpeg => "file in a format that hark reads only if ffmpeg is installed",
        }
    }
}

/// What a scan found.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Sorted by path.
    pub(crate) files: Vec<ScannedFile>,
    /// Files and folders that could not be read, and why. Their index entries are kept.
    pub(crate) unreadable: Vec<(String, String)>,
    /// Files and links that were left out on purpose.
    pub(crate) skipped: Vec<(String, SkipReason)>,
}

/// Scans a folder, given by its absolute path, until `goes_on` says no.
pub(crate) fn scan(root: &Path, goes_on: &dyn Fn() -> bool) -> Scan {
    scan_with(root, hark_audio::Fallback::default().is_there(), goes_on)
}

fn scan_with(root: &Path, ffmpeg: bool, goes_on: &dyn Fn() -> bool) -> Scan {
    let mut scan = Scan::default();
    // Its own true path, so that links back into it are recognised.
    let own = fs_err::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    let mut folders = Folders {
        seen: vec![own.clone()],
        within: vec![own],
        ffmpeg,
    };
    scan.walk(root, &mut folders, goes_on);
    scan.files.sort_by(|a, b| a.path.cmp(&b.path));
    scan
}

/// True paths of the folders that the scan was led to: the first by its caller, the others by links.
struct Folders {
    /// All of them.
    seen: Vec<PathBuf>,
    /// Those that it is in now, one behind a link in the other.
    within: Vec<PathBuf>,
    /// Whether files that need ffmpeg are wanted.
    ffmpeg: bool,
}

impl Scan {
    /// Scans one folder.
    fn walk(&mut self, root: &Path, folders: &mut Folders, goes_on: &dyn Fn() -> bool) {
        let entries = WalkDir::new(root).sort_by_file_name().into_iter();
        for entry in entries.filter_entry(|entry| entry.depth() == 0 || !is_hidden(entry)) {
            if !goes_on() {
                return;
            }
            match entry {
                Ok(entry) if entry.depth() > 0 && entry.path_is_symlink() => {
                    self.follow(&entry, folders, goes_on);
                }
                Ok(entry) if entry.file_type().is_file() => self.take(entry.path(), folders.ffmpeg),
                Ok(_) => {}
                Err(error) => {
                    let path = error.path().unwrap_or(root).display().to_string();
                    let reason = error
                        .io_error()
                        .map_or_else(|| explain(&error), |error| explain(error));
                    self.unreadable.push((path, reason));
                }
            }
        }
    }

    fn follow(&mut self, link: &DirEntry, folders: &mut Folders, goes_on: &dyn Fn() -> bool) {
        let path = link.path();
        let target = match std::fs::canonicalize(path) {
            Ok(target) => target,
            // A link to nothing is no recording, unless its name says so.
            Err(_) if !hark_audio::has_audio_extension(path) => return,
            Err(error) => {
                let reason = format!("broken link: {}", explain(&error));
                return self.unreadable.push((path.display().to_string(), reason));
            }
        };
        let skip = if folders.seen.iter().any(|folder| target.starts_with(folder)) {
            SkipReason::LinkInside
        } else if target.is_file() {
            return self.take(path, folders.ffmpeg);
        } else if folders.within.iter().any(|folder| folder.starts_with(&target)) {
            SkipReason::LinkToParent
        } else {
            folders.seen.push(target.clone());
            folders.within.push(target);
            self.walk(path, folders, goes_on);
            folders.within.pop();
            return;
        };
        // A link to a text file is none of our business.
        if target.is_dir() || is_audio(path) {
            self.skipped.push((path.display().to_string(), skip));
        }
    }

    fn take(&mut self, file: &Path, ffmpeg: bool) {
        let shown = file.display().to_string();
        let by_ffmpeg = hark_audio::has_ffmpeg_extension(file);
        if by_ffmpeg && !ffmpeg {
            return self.skipped.push((shown, SkipReason::NeedsFfmpeg));
        }
        if !by_ffmpeg && !is_audio(file) {
            return;
        }
        let Some(path) = file.to_str() else {
            let why = "the name is not Unicode; rename it".to_owned();
            return self.unreadable.push((shown, why));
        };
        match stat(file) {
            Ok(stat) => self.files.push(ScannedFile {
                path: path.to_owned(),
                stat,
            }),
            Err(error) => self.unreadable.push((shown, explain(&error))),
        }
    }
}

/// By the extension or, without one, by the first bytes. A file without an extension that cannot be opened is not known to be
/// one.
fn is_audio(file: &Path) -> bool {
    if file.extension().is_some() {
        return hark_audio::has_audio_extension(file);
    }
    let mut header = Vec::with_capacity(hark_audio::HEADER_BYTES);
    // Pipes and devices would block.
    let is_file = std::fs::metadata(file).is_ok_and(|file| file.is_file());
    let read = std::fs::File::open(file).and_then(|file| {
        file.take(hark_audio::HEADER_BYTES as u64)
            .read_to_end(&mut header)
    });
    is_file && read.is_ok() && hark_audio::looks_like_audio(&header)
}

/// Size and modification time of a file.
pub(crate) fn stat(path: &Path) -> std::io::Result<Stat> {
    Stat::of(&fs_err::metadata(path)?)
}

fn is_hidden(entry: &DirEntry) -> bool {
    entry.file_name().as_encoded_bytes().starts_with(b".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names<'a>(found: &'a Scan, root: &Path) -> Vec<&'a str> {
        let names = found.files.iter();
        names
            .map(|file| file.path.strip_prefix(root.to_str().unwrap()).unwrap())
            .collect()
    }

    #[test]
    fn audio_files_are_found_by_extension_or_first_bytes() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        for folder in ["b", "b/c", ".trash", "empty"] {
            fs_err::create_dir(root.join(folder)).unwrap();
        }
        for file in [
            "Z.WAV",
            "a.flac",
            "b/._a.wav",
            "b/c/x.Mp3",
            "b/notes.txt",
            ".trash/gone.wav",
            "wav",
            "old.wma",
        ] {
            fs_err::write(root.join(file), file).unwrap();
        }
        fs_err::write(root.join("b/take 7"), b"RIFF\0\0\0\0WAVEfmt ").unwrap();
        let found = scan_with(root, false, &|| true);
        assert_eq!(
            names(&found, root),
            ["/Z.WAV", "/a.flac", "/b/c/x.Mp3", "/b/take 7"]
        );
        assert_eq!(found.files[0].stat.size, 5);
        assert!(found.files[0].stat.modified > 1_600_000_000_000_000_000);
        assert_eq!(found.unreadable, []);
        let old = root.join("old.wma").display().to_string();
        assert_eq!(found.skipped, [(old, SkipReason::NeedsFfmpeg)]);
        let found = scan_with(root, true, &|| true);
        assert_eq!(
            names(&found, root),
            ["/Z.WAV", "/a.flac", "/b/c/x.Mp3", "/b/take 7", "/old.wma"]
        );
        assert_eq!(found.skipped, []);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_once() {
        use std::os::unix::fs::symlink;
        let place = tempfile::tempdir().unwrap();
        let (root, other) = (place.path().join("library"), place.path().join("other"));
        for folder in [&root.join("a"), &other.join("deep")] {
            fs_err::create_dir_all(folder).unwrap();
        }
        for file in [
            root.join("a/1.wav"),
            other.join("2.wav"),
            other.join("deep/3.wav"),
            place.path().join("4.wav"),
        ] {
            fs_err::write(file, "x").unwrap();
        }
        symlink(&other, root.join("linked")).unwrap();
        symlink("../4.wav", root.join("4.wav")).unwrap();
        symlink(place.path().join("gone.wav"), root.join("gone.wav")).unwrap();
        // Circles: to the folder itself, to one above it, from the other folder back, and into what is scanned already.
        symlink(".", root.join("a/self")).unwrap();
        symlink("/", root.join("z-all")).unwrap();
        symlink(&root, other.join("deep/back")).unwrap();
        symlink(other.join("deep"), root.join("z-deep")).unwrap();
        symlink(root.join("a/1.wav"), root.join("z.wav")).unwrap();
        let found = scan(&root, &|| true);
        assert_eq!(
            names(&found, &root),
            ["/4.wav", "/a/1.wav", "/linked/2.wav", "/linked/deep/3.wav"]
        );
        let mut skipped: Vec<(&str, SkipReason)> = found
            .skipped
            .iter()
            .map(|(path, reason)| (path.strip_prefix(root.to_str().unwrap()).unwrap(), *reason))
            .collect();
        skipped.sort();
        assert_eq!(
            skipped,
            [
                ("/a/self", SkipReason::LinkInside),
                ("/linked/deep/back", SkipReason::LinkInside),
                ("/z-all", SkipReason::LinkToParent),
                ("/z-deep", SkipReason::LinkInside),
                ("/z.wav", SkipReason::LinkInside),
            ]
        );
        assert_eq!(found.unreadable.len(), 1);
        assert!(
            found.unreadable[0].0.ends_with("/gone.wav") && found.unreadable[0].1.starts_with("broken link")
        );
    }

    #[test]
    fn a_missing_folder_is_unreadable_not_empty() {
        let found = scan(Path::new("/no/such/folder"), &|| true);
        assert_eq!(found.files, []);
        assert_eq!(found.unreadable.len(), 1);
        assert_eq!(found.unreadable[0].0, "/no/such/folder");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_name_that_is_not_unicode_is_reported() {
        use std::os::unix::ffi::OsStrExt;
        let place = tempfile::tempdir().unwrap();
        let name = std::ffi::OsStr::from_bytes(b"caf\xe9.wav");
        fs_err::write(place.path().join(name), "").unwrap();
        let found = scan(place.path(), &|| true);
        assert_eq!(found.files, []);
        assert!(found.unreadable[0].1.contains("Unicode"));
    }
}
