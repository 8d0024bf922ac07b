//! Which entries of an archive are unpacked: one line for each, written when its file is on disk. A killed unpacking goes on
//! behind the last line.
//!
//! The file is `NAME.unpacked` in the folder's `.hark-pull`. Its first line has the version and the form of the files, its last
//! one says that nothing is left. A line that was cut off does not count.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use fs_err::{File, OpenOptions};
use hark_work::files;

use crate::Error;

const VERSION: &str = "hark-unpacked 1";
const COMPLETE: &str = "complete";

/// An unpacked entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// Bytes of the entry.
    pub(crate) original: u64,
    /// Bytes of the file.
    pub(crate) written: u64,
    /// Where the entry belongs, as a path from the folder with `/` between its parts.
    pub(crate) place: String,
    /// The path of the file, which may have another extension.
    pub(crate) file: String,
}

/// What is unpacked of one archive.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    form: String,
    /// By place.
    pub(crate) lines: BTreeMap<String, Line>,
    pub(crate) is_complete: bool,
}

impl Journal {
    /// What a journal says of files in `folder` that are there with the length they had; nothing if it is not there or its files
    /// have another form.
    pub(crate) fn read(path: &Path, folder: &Path, form: &str) -> Result<Self, Error> {
        let mut journal = Self {
            path: path.to_owned(),
            form: form.to_owned(),
            lines: BTreeMap::new(),
            is_complete: false,
        };
        if !path.is_file() {
            return Ok(journal);
        }
        let text = fs_err::read_to_string(path)?;
        let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        let mut lines = whole.lines();
        if lines.next() != Some(&journal.head()) {
            return Ok(journal);
        }
        let mut is_lost = false;
        for line in lines {
            if line == COMPLETE {
                journal.is_complete = true;
                continue;
            }
            let damaged = || Error::Record {
                path: path.to_owned(),
                reason: "a line of it is damaged".to_owned(),
            };
            let line = Line::parse(line).ok_or_else(damaged)?;
            let file = fs_err::metadata(folder.join(&line.file));
            if file.is_ok_and(|file| file.is_file() && file.len() == line.written) {
                journal.lines.insert(line.place.clone(), line);
            } else {
                is_lost = true;
            }
        }
        journal.is_complete &= !is_lost;
        Ok(journal)
    }

    fn head(&self) -> String {
        format!("{VERSION} {}", self.form)
    }

    /// Writes what is known as a whole, and opens the file to add to it.
    pub(crate) fn begin(&mut self) -> Result<Adding, Error> {
        let mut text = format!("{}\n", self.head());
        for line in self.lines.values() {
            text.push_str(&line.text());
        }
        files::write(&self.path, text.as_bytes()).map_err(|source| Error::writing(&self.path, source))?;
        self.is_complete = false;
        Ok(Adding {
            file: OpenOptions::new().append(true).open(&self.path)?,
            waiting: Vec::new(),
        })
    }
}

impl Line {
    fn text(&self) -> String {
        format!(
            "{}\t{}\t{}\t{}\n",
            self.original, self.written, self.place, self.file
        )
    }

    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split('\t');
        let line = Self {
            original: fields.next()?.parse().ok()?,
            written: fields.next()?.parse().ok()?,
            place: fields.next()?.to_owned(),
            file: fields.next()?.to_owned(),
        };
        fields.next().is_none().then_some(line)
    }
}

/// Adds to a journal. Files are brought to disk before their lines, many at a time.
pub(crate) struct Adding {
    file: File,
    waiting: Vec<Line>,
}

impl Adding {
    /// How many files wait for the disk together.
    const BATCH: usize = 64;

    pub(crate) fn add(&mut self, folder: &Path, line: Line) -> Result<(), Error> {
        self.waiting.push(line);
        if self.waiting.len() < Self::BATCH {
            return Ok(());
        }
        self.flush(folder)
    }

    pub(crate) fn flush(&mut self, folder: &Path) -> Result<(), Error> {
        let mut text = String::new();
        for line in self.waiting.drain(..) {
            let path = folder.join(&line.file);
            File::open(&path)?
                .sync_all()
                .map_err(|source| Error::writing(&path, source))?;
            text.push_str(&line.text());
        }
        self.append(&text)
    }

    pub(crate) fn complete(mut self, folder: &Path) -> Result<(), Error> {
        self.flush(folder)?;
        self.append(&format!("{COMPLETE}\n"))
    }

    fn append(&mut self, text: &str) -> Result<(), Error> {
        let path = self.file.path().to_owned();
        let written = self
            .file
            .write_all(text.as_bytes())
            .and_then(|()| self.file.sync_data());
        written.map_err(|source| Error::writing(&path, source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str) -> Line {
        Line {
            original: 7,
            written: 3,
            place: format!("a/{name}.wav"),
            file: format!("a/{name}.flac"),
        }
    }

    #[test]
    fn lines_count_once_they_are_whole_and_their_files_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let (folder, path) = (folder.path(), folder.path().join("x.unpacked"));
        fs_err::create_dir(folder.join("a")).unwrap();
        for name in ["one", "two"] {
            fs_err::write(folder.join(format!("a/{name}.flac")), "abc").unwrap();
        }
        let mut journal = Journal::read(&path, folder, "flac").unwrap();
        let mut adding = journal.begin().unwrap();
        for name in ["one", "two"] {
            adding.add(folder, line(name)).unwrap();
        }
        adding.flush(folder).unwrap();
        let read = |form: &str| Journal::read(&path, folder, form).unwrap();
        assert_eq!(read("flac").lines.len(), 2);
        assert!(!read("flac").is_complete);
        assert_eq!(read("other").lines.len(), 0);
        // A line that was cut off.
        let text = fs_err::read_to_string(&path).unwrap();
        fs_err::write(&path, &text[..text.len() - 2]).unwrap();
        let mut journal = read("flac");
        assert_eq!(journal.lines.keys().collect::<Vec<_>>(), ["a/one.wav"]);
        let mut adding = journal.begin().unwrap();
        adding.add(folder, line("two")).unwrap();
        adding.complete(folder).unwrap();
        assert!(read("flac").is_complete);
        assert_eq!(read("flac").lines["a/two.wav"], line("two"));
        // An entry without a byte is unpacked, too.
        fs_err::write(folder.join("a/empty.wav"), "").unwrap();
        let empty = Line {
            original: 0,
            written: 0,
            place: "a/empty.wav".to_owned(),
            file: "a/empty.wav".to_owned(),
        };
        let mut journal = read("flac");
        let mut adding = journal.begin().unwrap();
        adding.add(folder, empty).unwrap();
        adding.complete(folder).unwrap();
        assert!(read("flac").is_complete && read("flac").lines.len() == 3);
        // A file that is gone.
        fs_err::remove_file(folder.join("a/two.flac")).unwrap();
        assert!(!read("flac").is_complete);
        fs_err::write(&path, "hark-unpacked 1 flac\n1\tx\n").unwrap();
        let error = Journal::read(&path, folder, "flac").unwrap_err();
        assert!(error.to_string().contains("remove it and run"), "{error}");
    }
}
