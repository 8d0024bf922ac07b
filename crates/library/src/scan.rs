//! The audio files in a folder and all folders within it.
//!
//! Files are chosen by their extension; whether one is a recording shows when it is decoded. Hidden files and folders are
//! skipped (they are the system's: `._take1.wav` is no recording), and so are links, which could lead anywhere.

use std::path::Path;
use std::time::UNIX_EPOCH;

use hark_catalogue::Stat;
use walkdir::{DirEntry, WalkDir};

/// A file that may be a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScannedFile {
    /// Absolute.
    pub(crate) path: String,
    pub(crate) stat: Stat,
}

/// What a scan found.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Sorted by path.
    pub(crate) files: Vec<ScannedFile>,
    /// Files and folders that could not be read, and why. Their index entries are kept.
    pub(crate) unreadable: Vec<(String, String)>,
}

/// Scans a folder, given by its absolute path, until `goes_on` says no.
pub(crate) fn scan(root: &Path, goes_on: &dyn Fn() -> bool) -> Scan {
    let mut scan = Scan::default();
    let entries = WalkDir::new(root).sort_by_file_name().into_iter();
    for entry in entries.filter_entry(|entry| entry.depth() == 0 || !is_hidden(entry)) {
        if !goes_on() {
            break;
        }
        match entry {
            Ok(entry) if entry.file_type().is_file() && hark_audio::has_audio_extension(entry.path()) => {
                scan.take(&entry);
            }
            Ok(_) => {}
            Err(error) => {
                let path = error.path().unwrap_or(root).display().to_string();
                scan.unreadable.push((path, error.to_string()));
            }
        }
    }
    scan.files.sort_by(|a, b| a.path.cmp(&b.path));
    scan
}

impl Scan {
    fn take(&mut self, entry: &DirEntry) {
        let shown = entry.path().display().to_string();
        let Some(path) = entry.path().to_str() else {
            let why = "the name is not Unicode; rename it".to_owned();
            return self.unreadable.push((shown, why));
        };
        match stat(entry.path()) {
            Ok(stat) => self.files.push(ScannedFile {
                path: path.to_owned(),
                stat,
            }),
            Err(error) => self.unreadable.push((shown, error.to_string())),
        }
    }
}

/// Size and modification time of a file.
pub(crate) fn stat(path: &Path) -> std::io::Result<Stat> {
    let file = fs_err::metadata(path)?;
    let modified = file.modified()?;
    let modified = match modified.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos),
    };
    Ok(Stat {
        size: file.len(),
        modified,
    })
}

fn is_hidden(entry: &DirEntry) -> bool {
    entry.file_name().as_encoded_bytes().starts_with(b".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audio_files_are_found_by_their_extension() {
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
        ] {
            fs_err::write(root.join(file), file).unwrap();
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink("/", root.join("b/all.wav")).unwrap();
        let found = scan(root, &|| true);
        let names: Vec<&str> = found
            .files
            .iter()
            .map(|file| file.path.strip_prefix(root.to_str().unwrap()).unwrap())
            .collect();
        assert_eq!(names, ["/Z.WAV", "/a.flac", "/b/c/x.Mp3"]);
        assert_eq!(found.files[0].stat.size, 5);
        assert!(found.files[0].stat.modified > 1_600_000_000_000_000_000);
        assert_eq!(found.unreadable, []);
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
