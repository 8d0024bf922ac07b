//! An archive's entries become files of the dataset's folder.
//!
//! In: an archive, and a [`Layout`], which says where an entry belongs. Before the first byte is written, all names and stated
//! sizes are checked; while it is read, an entry must have the stated length and checksum. Every file is written under a temporary
//! name and renamed. Out: files, and a journal of them.

use std::collections::{HashMap, HashSet};
use std::io::{self, Cursor, Read, Seek as _, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};

use hark_audio::{Source, has_audio_extension};
use hark_work::files;
use hark_work::progress::group_digits;
use hark_work::workers::{in_order, lock};

use crate::journal::{Adding, Journal, Line};
use crate::zip::Zip;
use crate::{Error, Form, convert, names, sevenz, space};

/// The most entries of an archive: four times as many as the largest real one has.
const MAX_ENTRIES: usize = 1 << 20;
/// The most bytes of one entry: 4 GiB, six hours of CD sound.
const MAX_ENTRY_BYTES: u64 = 4 << 30;
/// How many times as large as the archive its contents may be, beyond 64 MiB. Sound hardly compresses.
const MAX_RATIO: u64 = 100;
const FREE_BYTES: u64 = 64 << 20;
/// Up to this many bytes, an entry to convert is held in memory.
const MAX_IN_MEMORY: u64 = 64 << 20;

/// Which format an archive has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    SevenZ,
    /// Whole or in parts.
    Zip,
}

/// Where entries belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Every recording in one folder, whatever folders the archive has.
    Into(&'static str),
    /// Recordings in one folder, and files of other kinds that end with the first name at the second.
    IntoWith(&'static str, &'static [(&'static str, &'static str)]),
}

impl Layout {
    /// The place of an entry, given by the parts of its name; `None` if it is not needed.
    fn place(self, parts: &[&str]) -> Option<String> {
        let name = parts.last().filter(|name| !name.starts_with('.'))?;
        let (folder, others) = match self {
            Self::Into(folder) => (folder, &[][..]),
            Self::IntoWith(folder, others) => (folder, others),
        };
        if has_audio_extension(Path::new(name)) {
            return Some(format!("{folder}/{name}"));
        }
        let whole = parts.join("/");
        let found = others.iter().find(|(end, _)| whole.ends_with(end));
        found.map(|(_, place)| (*place).to_owned())
    }
}

/// An archive on disk, and what becomes of it.
pub(crate) struct Job<'a> {
    pub(crate) format: Format,
    /// One, or several in their order.
    pub(crate) parts: &'a [PathBuf],
    pub(crate) layout: Layout,
    pub(crate) folder: &'a Path,
    pub(crate) journal: &'a Path,
    pub(crate) form: Form,
    pub(crate) threads: usize,
}

/// What an entry says of itself.
#[derive(Debug, Clone)]
pub(crate) struct Stated {
    pub(crate) name: String,
    pub(crate) size: u64,
    /// 0 where many entries are compressed together.
    pub(crate) packed: u64,
    pub(crate) is_folder: bool,
}

/// An entry to unpack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Its number in the archive.
    pub(crate) number: usize,
    pub(crate) size: u64,
    pub(crate) place: String,
}

impl Wanted {
    fn line(&self, written: u64, file: String) -> Line {
        Line {
            original: self.size,
            written,
            place: self.place.clone(),
            file,
        }
    }
}

/// Called with the number of unpacked entries and of all.
pub(crate) type OnEntries<'a> = &'a (dyn Fn(u64, u64) -> ControlFlow<()> + Sync);

impl Job<'_> {
    /// The archive's name in messages.
    pub(crate) fn archive(&self) -> PathBuf {
        self.parts.last().cloned().unwrap_or_default()
    }

    /// Unpacks what is not unpacked yet.
    pub(crate) fn run(&self, on_entries: OnEntries<'_>) -> Result<(), Error> {
        let mut journal = Journal::read(self.journal, self.folder, &self.form.to_string())?;
        if journal.is_complete {
            return Ok(());
        }
        match self.format {
            Format::SevenZ => self.seven_z(&mut journal, on_entries),
            Format::Zip => self.zip(&mut journal, on_entries),
        }
    }

    /// Entries come one after the other; those to convert are handed to the threads.
    fn seven_z(&self, journal: &mut Journal, on_entries: OnEntries<'_>) -> Result<(), Error> {
        let archive = sevenz::open(&self.archive())?;
        let stated: Vec<Stated> = archive
            .files
            .iter()
            .map(|entry| Stated {
                name: entry.name().to_owned(),
                size: entry.size(),
                packed: 0,
                is_folder: entry.is_directory() || entry.is_anti_item(),
            })
            .collect();
        let wanted = self.wanted(&stated)?;
        let by_name: HashMap<&str, &Wanted> = wanted
            .iter()
            .map(|wanted| (stated[wanted.number].name.as_str(), wanted))
            .collect();
        let mut work = self.begin(journal, &wanted)?;
        let unpacked = std::thread::scope(|scope| {
            let (held, to_convert) = mpsc::sync_channel::<(&Wanted, Held)>(self.threads);
            let (lines, converted) = mpsc::channel();
            // The threads alone keep this end: if none is left, the other one gets an error instead of waiting.
            let to_convert = Arc::new(Mutex::new(to_convert));
            for _ in 0..self.threads {
                let (to_convert, lines) = (Arc::clone(&to_convert), lines.clone());
                scope.spawn(move || {
                    loop {
                        let next = lock(&to_convert).recv();
                        let Ok((wanted, held)) = next else { break };
                        if lines.send(self.store(wanted, &held)).is_err() {
                            break;
                        }
                    }
                });
            }
            drop((to_convert, lines));
            let read = sevenz::read(&archive, &self.archive(), self.threads, &mut |name, entry| {
                for line in converted.try_iter() {
                    work.add(self, line?)?;
                }
                if on_entries(work.done, work.total).is_break() {
                    return Err(Error::Cancelled);
                }
                match by_name.get(name).filter(|wanted| !work.is_done(wanted)) {
                    Some(wanted) if self.form == Form::Original => {
                        let line = self.write(wanted, entry)?;
                        work.add(self, line)
                    }
                    Some(wanted) => {
                        let entry = (*wanted, self.hold(wanted, entry)?);
                        held.send(entry).map_err(|_| Error::Cancelled)
                    }
                    None => Ok(()),
                }
            });
            drop(held);
            let rest = converted.iter().try_for_each(|line| work.add(self, line?));
            read.and(rest)
        });
        work.end(self, unpacked, on_entries)
    }

    /// Entries are read on all threads at a time.
    fn zip(&self, journal: &mut Journal, on_entries: OnEntries<'_>) -> Result<(), Error> {
        let zip = Zip::open(self.parts)?;
        let stated: Vec<Stated> = zip
            .entries
            .iter()
            .map(|entry| Stated {
                name: entry.name.clone(),
                size: entry.size,
                packed: entry.packed,
                is_folder: entry.name.ends_with(['/', '\\']),
            })
            .collect();
        let wanted = self.wanted(&stated)?;
        let mut work = self.begin(journal, &wanted)?;
        let left: Vec<&Wanted> = wanted.iter().filter(|wanted| !work.is_done(wanted)).collect();
        let make = |number: u64| {
            let wanted = left[number as usize];
            let entry = &zip.entries[wanted.number];
            let damaged = |reason: String| Error::Entry {
                archive: zip.path_of(entry).clone(),
                name: entry.name.clone(),
                reason,
            };
            let mut reader = zip.read(entry).map_err(damaged)?;
            self.write(wanted, &mut reader)
        };
        let (count, ahead) = (left.len() as u64, 2 * self.threads);
        let taken = in_order(0..count, self.threads, ahead, &make, &mut |_, line, _| {
            let added = line.and_then(|line| work.add(self, line));
            match added {
                Ok(()) if on_entries(work.done, work.total).is_continue() => ControlFlow::Continue(()),
                Ok(()) => ControlFlow::Break(Error::Cancelled),
                Err(error) => ControlFlow::Break(error),
            }
        });
        let unpacked = match taken {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error),
        };
        work.end(self, unpacked, on_entries)
    }

    /// The entries that have a place. All names and sizes are checked, those of other entries too.
    fn wanted(&self, stated: &[Stated]) -> Result<Vec<Wanted>, Error> {
        let archive = self.archive();
        let bomb = |reason: String| {
            Err(Error::Bomb {
                archive: archive.clone(),
                reason,
            })
        };
        if stated.len() > MAX_ENTRIES {
            return bomb(format!(
                "it has {} entries, more than any dataset",
                group_digits(stated.len())
            ));
        }
        let mut archive_bytes = 0;
        for part in self.parts {
            archive_bytes += fs_err::metadata(part)?.len();
        }
        let (mut size, mut packed) = (0_u64, 0_u64);
        let (mut wanted, mut places) = (Vec::new(), HashSet::new());
        for (number, entry) in stated.iter().enumerate() {
            let Some(parts) = names::parts(&entry.name) else {
                return Err(Error::UnsafeName {
                    archive,
                    name: entry.name.clone(),
                });
            };
            if entry.size > MAX_ENTRY_BYTES {
                return bomb(format!(
                    "its entry {:?} would expand to {} bytes",
                    entry.name,
                    group_digits(entry.size)
                ));
            }
            size = size.saturating_add(entry.size);
            packed = packed.saturating_add(entry.packed);
            let Some(place) = self.layout.place(&parts).filter(|_| !entry.is_folder) else {
                continue;
            };
            // Converted, `a.wav` and `a.mp3` would become one file.
            let file = match self.form {
                Form::Original => place.clone(),
                Form::Flac32k { .. } => Path::new(&place).with_extension("").display().to_string(),
            };
            if !places.insert(file) {
                return Err(Error::Archive {
                    archive,
                    reason: format!("it has two entries for {place}"),
                });
            }
            wanted.push(Wanted {
                number,
                size: entry.size,
                place,
            });
        }
        if size > archive_bytes.saturating_mul(MAX_RATIO).saturating_add(FREE_BYTES) {
            return bomb(format!(
                "{} bytes would expand to {}",
                group_digits(archive_bytes),
                group_digits(size)
            ));
        }
        if packed > archive_bytes {
            return bomb(format!(
                "its entries overlap: they state {} compressed bytes, and it has {}",
                group_digits(packed),
                group_digits(archive_bytes)
            ));
        }
        if wanted.is_empty() {
            return Err(Error::Archive {
                archive,
                reason: "it has no recording".to_owned(),
            });
        }
        Ok(wanted)
    }

    /// Makes room and folders, and opens the journal.
    fn begin(&self, journal: &mut Journal, wanted: &[Wanted]) -> Result<Work, Error> {
        let done: HashSet<String> = journal.lines.keys().cloned().collect();
        let left = wanted.iter().filter(|wanted| !done.contains(&wanted.place));
        let needed: u64 = left.map(|wanted| wanted.size).sum();
        if self.form == Form::Original {
            let what = format!("unpacking {}", self.archive().display());
            space::need(self.folder, needed, what)?;
        }
        let folders: HashSet<PathBuf> = wanted
            .iter()
            .filter_map(|wanted| self.folder.join(&wanted.place).parent().map(Path::to_owned))
            .collect();
        for folder in folders {
            fs_err::create_dir_all(&folder)?;
            sweep(&folder)?;
        }
        Ok(Work {
            adding: journal.begin()?,
            done: done.len() as u64,
            total: wanted.len() as u64,
            before: done,
        })
    }

    /// Writes one entry in the form that was asked for.
    fn write(&self, wanted: &Wanted, entry: &mut dyn Read) -> Result<Line, Error> {
        if self.form != Form::Original {
            return self.store(wanted, &self.hold(wanted, entry)?);
        }
        self.copy(&self.folder.join(&wanted.place), wanted, entry)?;
        Ok(wanted.line(wanted.size, wanted.place.clone()))
    }

    /// Writes one entry converted.
    fn store(&self, wanted: &Wanted, held: &Held) -> Result<Line, Error> {
        let place = self.folder.join(&wanted.place);
        let converted = match self.form {
            Form::Flac32k { seconds } if has_audio_extension(&place) => {
                convert::flac(held.source()?, &place, seconds)
            }
            _ => None,
        };
        // Of a recording that would become larger, or cannot be decoded, the archive's own file is kept.
        let Some(bytes) = converted.filter(|bytes| (bytes.len() as u64) < wanted.size) else {
            self.copy(&place, wanted, &mut held.source()?)?;
            return Ok(wanted.line(wanted.size, wanted.place.clone()));
        };
        replace(&place.with_extension("flac"), |out| out.write_all(&bytes))?;
        let file = Path::new(&wanted.place).with_extension("flac");
        Ok(wanted.line(bytes.len() as u64, file.to_string_lossy().into_owned()))
    }

    fn copy(&self, path: &Path, wanted: &Wanted, entry: &mut dyn Read) -> Result<(), Error> {
        let mut fault = None;
        replace(path, |out| {
            copy(entry, wanted.size, out).map_err(|error| match error {
                CopyError::Read(source) => {
                    fault = Some(source.to_string());
                    source
                }
                CopyError::Write(source) => source,
            })
        })
        .map_err(|error| match fault {
            Some(reason) => self.damaged(wanted, reason),
            None => error,
        })
    }

    /// An entry's contents, in memory or in a file without name.
    fn hold(&self, wanted: &Wanted, entry: &mut dyn Read) -> Result<Held, Error> {
        let explain = |error: CopyError, path: &Path| match error {
            CopyError::Read(source) => self.damaged(wanted, source.to_string()),
            CopyError::Write(source) => Error::writing(path, source),
        };
        if wanted.size <= MAX_IN_MEMORY {
            let mut bytes = Vec::with_capacity(wanted.size as usize);
            copy(entry, wanted.size, &mut bytes).map_err(|error| explain(error, self.folder))?;
            return Ok(Held::Memory(bytes.into()));
        }
        let mut file = tempfile::tempfile_in(self.folder)?;
        copy(entry, wanted.size, &mut file).map_err(|error| explain(error, self.folder))?;
        Ok(Held::File(file))
    }

    fn damaged(&self, wanted: &Wanted, reason: String) -> Error {
        Error::Entry {
            archive: self.archive(),
            name: wanted.place.clone(),
            reason,
        }
    }
}

/// Contents that are read twice.
enum Held {
    Memory(Arc<[u8]>),
    File(std::fs::File),
}

impl Held {
    fn source(&self) -> io::Result<Box<dyn Source>> {
        Ok(match self {
            Self::Memory(bytes) => Box::new(Cursor::new(Arc::clone(bytes))),
            Self::File(file) => {
                let mut file = file.try_clone()?;
                file.rewind()?;
                Box::new(file)
            }
        })
    }
}

/// What is done, and where it is noted.
struct Work {
    adding: Adding,
    before: HashSet<String>,
    done: u64,
    total: u64,
}

impl Work {
    fn is_done(&self, wanted: &Wanted) -> bool {
        self.before.contains(&wanted.place)
    }

    fn add(&mut self, job: &Job<'_>, line: Line) -> Result<(), Error> {
        self.done += 1;
        self.adding.add(job.folder, line)
    }

    /// After an error, what is on disk is noted and not unpacked again.
    fn end(
        mut self,
        job: &Job<'_>,
        unpacked: Result<(), Error>,
        on_entries: OnEntries<'_>,
    ) -> Result<(), Error> {
        if let Err(error) = unpacked {
            self.adding.flush(job.folder)?;
            return Err(error);
        }
        if self.done != self.total {
            return Err(Error::Archive {
                archive: job.archive(),
                reason: format!("{} of its {} entries could be read", self.done, self.total),
            });
        }
        self.adding.complete(job.folder)?;
        match on_entries(self.total, self.total) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Cancelled),
        }
    }
}

/// Removes the files of a folder that a killed run had not finished.
pub(crate) fn sweep(folder: &Path) -> Result<(), Error> {
    for entry in fs_err::read_dir(folder)? {
        let entry = entry?;
        if files::is_temporary(&entry.file_name()) && entry.file_type()?.is_file() {
            fs_err::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Replaces a file; a full disk is told from other faults.
pub(crate) fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Error> {
    files::replace_cached(path, |out| write(out)).map_err(|source| Error::writing(path, source))
}

enum CopyError {
    Read(io::Error),
    Write(io::Error),
}

/// Copies an entry, which must have the stated size.
fn copy(entry: &mut dyn Read, size: u64, out: &mut dyn Write) -> Result<(), CopyError> {
    let mut buffer = vec![0; 1 << 16];
    let mut copied = 0;
    let invalid = |reason: &str| CopyError::Read(io::Error::new(io::ErrorKind::InvalidData, reason));
    loop {
        let count = match entry.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(CopyError::Read(error)),
        };
        copied += count as u64;
        if copied > size {
            return Err(invalid("it is longer than the archive states"));
        }
        if count == 0 {
            break;
        }
        out.write_all(&buffer[..count]).map_err(CopyError::Write)?;
    }
    if copied < size {
        return Err(invalid("it is shorter than the archive states"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_have_their_place_and_other_files_none() {
        let layout = Layout::IntoWith("audio", &[("meta/esc50.csv", "meta/esc50.csv")]);
        for (name, place) in [
            ("ESC-50-master/audio/1-1-A-0.wav", Some("audio/1-1-A-0.wav")),
            ("ESC-50-master/meta/esc50.csv", Some("meta/esc50.csv")),
            ("ESC-50-master/meta/other.csv", None),
            ("__MACOSX/._1-1-A-0.wav", None),
            ("x.FLAC", Some("audio/x.FLAC")),
        ] {
            let parts = names::parts(name).unwrap();
            assert_eq!(layout.place(&parts).as_deref(), place, "{name}");
        }
    }

    fn job<'a>(folder: &'a Path, parts: &'a [PathBuf]) -> Job<'a> {
        Job {
            format: Format::Zip,
            parts,
            layout: Layout::Into("audio"),
            folder,
            journal: folder,
            form: Form::Original,
            threads: 1,
        }
    }

    #[test]
    fn archives_that_state_too_much_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let parts = [folder.path().join("x.zip")];
        fs_err::write(&parts[0], vec![0; 1000]).unwrap();
        let converted = Job {
            form: Form::Flac32k { seconds: 1.0 },
            ..job(folder.path(), &parts)
        };
        let job = job(folder.path(), &parts);
        let entry = |name: &str, size, packed| Stated {
            name: name.to_owned(),
            size,
            packed,
            is_folder: false,
        };
        let refused = |stated: &[Stated]| job.wanted(stated).unwrap_err().to_string();
        assert!(refused(&[entry("a.wav", 5 << 30, 10)]).contains("would expand to 5,368,709,120 bytes"));
        let text = refused(&[entry("a.wav", 70 << 20, 10)]);
        assert!(
            text.starts_with("refusing to unpack")
                && text.ends_with("x.zip: 1,000 bytes would expand to 73,400,320. Nothing was unpacked"),
            "{text}"
        );
        // Entries that lie over each other.
        assert!(
            refused(&[entry("a.wav", 10, 600), entry("b.wav", 10, 600)])
                .contains("its entries overlap: they state 1,200 compressed bytes, and it has 1,000")
        );
        assert!(refused(&[entry("../a.wav", 10, 10)]).contains("outside the folder"));
        assert!(refused(&[entry("a.wav", 10, 10), entry("/etc/x", 1, 1)]).contains("outside the folder"));
        assert!(
            refused(&[entry("a/x.wav", 1, 1), entry("b/x.wav", 1, 1)])
                .contains("two entries for audio/x.wav")
        );
        let twice = [entry("x.wav", 1, 1), entry("x.mp3", 1, 1)];
        assert!(
            converted
                .wanted(&twice)
                .unwrap_err()
                .to_string()
                .contains("two entries for audio/x.mp3")
        );
        assert_eq!(job.wanted(&twice).unwrap().len(), 2);
        assert!(refused(&[entry("readme.txt", 1, 1)]).contains("no recording"));
        assert_eq!(
            job.wanted(&[entry("a/x.wav", 1, 1), entry("y.txt", 1, 1)])
                .unwrap()
                .len(),
            1
        );
    }
}
