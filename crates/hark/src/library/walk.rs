//! The sound files below a folder.
//!
//! A file is taken for a recording by the end of its name; whether it is one is seen when it is read. Hidden files and folders
//! are passed over (they are the system's: `._take1.wav` is no recording), and so are links, which could lead anywhere.

use std::path::Path;
use std::time::UNIX_EPOCH;

use hark_catalogue::Stat;
use walkdir::{DirEntry, WalkDir};

/// Ends of names, in lower case.
const KINDS: [&str; 22] = [
    "aac", "aif", "aifc", "aiff", "bwf", "caf", "flac", "m4a", "m4b", "mka", "mkv", "mp3", "mp4", "oga",
    "ogg", "opus", "rf64", "w64", "wav", "wave", "weba", "webm",
];

/// A file that may be a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScannedFile {
    /// Its absolute path.
    pub path: String,
    /// Its look.
    pub stat: Stat,
}

/// What a walk has found.
#[derive(Debug, Default)]
pub struct Scan {
    /// Files, by path.
    pub found: Vec<ScannedFile>,
    /// What could not be looked at, and why. What is known of it stays as it is.
    pub unseen: Vec<(String, String)>,
}

/// Walks the folder `root`, an absolute path, until `go_on` says no.
pub fn walk(root: &Path, go_on: &dyn Fn() -> bool) -> Scan {
    let mut walked = Scan::default();
    let entries = WalkDir::new(root).sort_by_file_name().into_iter();
    for entry in entries.filter_entry(|entry| entry.depth() == 0 || !is_hidden(entry)) {
        if !go_on() {
            break;
        }
        match entry {
            Ok(entry) if entry.file_type().is_file() && is_sound(entry.path()) => walked.take(&entry),
            Ok(_) => {}
            Err(error) => {
                let path = error.path().unwrap_or(root).display().to_string();
                walked.unseen.push((path, error.to_string()));
            }
        }
    }
    walked.found.sort_by(|a, b| a.path.cmp(&b.path));
    walked
}

impl Scan {
    fn take(&mut self, entry: &DirEntry) {
        let shown = entry.path().display().to_string();
        let Some(path) = entry.path().to_str() else {
            let why = "its name is not Unicode; rename it".to_owned();
            return self.unseen.push((shown, why));
        };
        match stat(entry.path()) {
            Ok(stat) => self.found.push(ScannedFile {
                path: path.to_owned(),
                stat,
            }),
            Err(error) => self.unseen.push((shown, error.to_string())),
        }
    }
}

/// The look of a file.
pub fn stat(path: &Path) -> std::io::Result<Stat> {
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

fn is_sound(path: &Path) -> bool {
    let kind = path.extension().and_then(|kind| kind.to_str());
    kind.is_some_and(|kind| KINDS.contains(&kind.to_ascii_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_are_found_by_their_names() {
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
        let walked = walk(root, &|| true);
        let names: Vec<&str> = walked
            .found
            .iter()
            .map(|found| found.path.strip_prefix(root.to_str().unwrap()).unwrap())
            .collect();
        assert_eq!(names, ["/Z.WAV", "/a.flac", "/b/c/x.Mp3"]);
        assert_eq!(walked.found[0].stat.size, 5);
        assert!(walked.found[0].stat.modified > 1_600_000_000_000_000_000);
        assert_eq!(walked.unseen, []);
    }

    #[test]
    fn a_folder_that_is_not_there_is_unseen_not_empty() {
        let walked = walk(Path::new("/no/such/folder"), &|| true);
        assert_eq!(walked.found, []);
        assert_eq!(walked.unseen.len(), 1);
        assert_eq!(walked.unseen[0].0, "/no/such/folder");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_name_that_is_no_text_is_told() {
        use std::os::unix::ffi::OsStrExt;
        let place = tempfile::tempdir().unwrap();
        let name = std::ffi::OsStr::from_bytes(b"caf\xe9.wav");
        fs_err::write(place.path().join(name), "").unwrap();
        let walked = walk(place.path(), &|| true);
        assert_eq!(walked.found, []);
        assert!(walked.unseen[0].1.contains("Unicode"));
    }
}
