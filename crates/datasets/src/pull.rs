//! A dataset to a folder: the plan first, then files, archives one list after the other, and recordings of videos.
//!
//! | in the folder | |
//! |---|---|
//! | `hark-pull.json` | what was downloaded, with its checksums |
//! | `.hark-pull` | archives under way, and which of their entries are unpacked |
//! | `archives` | archives that are kept |

use std::fs::TryLockError;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use fs_err::File;
use hark_download::{Client, Fetched, GoOn, Remote, digest_file, free_disk};
use hark_work::workers::{lock, map};

use crate::journal::Journal;
use crate::published::{Kind, Needed, Origin, Packed, Published};
use crate::record::{Record, RecordedFile};
use crate::unpack::{Job, sweep};
use crate::videos::{self, Programs, Unavailable};
use crate::{Error, Form, space};

/// The folder for what is under way.
const WORK: &str = ".hark-pull";
/// The folder for archives that are kept.
const ARCHIVES: &str = "archives";

/// What to pull, where to and how.
#[derive(Debug, Clone)]
pub struct Request {
    /// The dataset.
    pub dataset: &'static Published,
    /// Its folder, which need not exist.
    pub folder: PathBuf,
    /// The splits to pull; all, if none is named.
    pub splits: Vec<String>,
    /// No recordings.
    pub captions_only: bool,
    /// Archives stay in `archives` when they are unpacked.
    pub keep_archives: bool,
    /// Form of the recordings.
    pub form: Form,
    /// Downloads at a time.
    pub parallel: NonZeroUsize,
    /// Threads that unpack and convert.
    pub threads: NonZeroUsize,
    /// What fetches the recordings of videos.
    pub programs: Programs,
}

/// What a pull is doing.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// Of a file on its way.
    Download(hark_download::Event<'a>),
    /// Entries of an archive become files.
    Unpacking {
        /// Name of the archive.
        archive: &'a str,
        /// Entries that are done.
        done: u64,
        /// All entries.
        total: u64,
    },
    /// Recordings of videos are fetched.
    Videos {
        /// The split.
        split: &'a str,
        /// Clips that are done.
        done: u64,
        /// All clips.
        total: u64,
        /// Clips that could not be had.
        unavailable: u64,
    },
}

/// Called for every [`Event`], from any thread but never from two at once; `Break` cancels the pull, which a later one
/// continues.
pub type OnEvent<'a> = &'a (dyn Fn(Event<'_>) -> ControlFlow<()> + Sync);

/// What a pull will take.
#[derive(Debug)]
pub struct Plan<'a> {
    request: &'a Request,
    client: &'a Client,
    needed: Needed,
    /// Every file that will be downloaded.
    pub files: Vec<PlannedFile>,
    /// Files that are here already, and archives that are unpacked.
    pub done: usize,
    /// Free bytes of the folder's disk, where the system says it.
    pub free: Option<u64>,
}

/// A file that will be downloaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFile {
    /// Its name.
    pub name: String,
    /// Its length, if the server says it.
    pub bytes: Option<u64>,
    /// Bytes of it that an earlier run has left.
    pub here: u64,
    /// Whether its publisher states a checksum.
    pub is_checked: bool,
}

/// What a pull did.
#[derive(Debug, Default)]
pub struct Pulled {
    /// All files that were downloaded to the folder, now or before, by name.
    pub files: Vec<(String, RecordedFile)>,
    /// Recordings out of archives.
    pub recordings: u64,
    /// Bytes that these recordings have in the archives.
    pub original_bytes: u64,
    /// Bytes that they have in the folder.
    pub written_bytes: u64,
    /// What could not be had, by split of AudioCaps.
    pub unavailable: Vec<Unavailable>,
    /// What went wrong without ending the pull, in words.
    pub remarks: Vec<String>,
}

impl Request {
    /// What the pull will take. Servers are asked for the lengths of files; nothing is downloaded or written. While they are
    /// waited for, `go_on` is asked.
    ///
    /// # Errors
    /// [`Error::UnknownSplit`], [`Error::NotApplicable`], [`Error::OtherDataset`], [`Error::OtherForm`], [`Error::NoProgram`],
    /// [`Error::Cancelled`], and what the network does.
    pub fn plan<'a>(&'a self, client: &'a Client, go_on: GoOn<'_>) -> Result<Plan<'a>, Error> {
        let splits = self.dataset.splits(&self.splits)?;
        self.check_options()?;
        let record = self.record()?;
        let mut needed = self.dataset.needed(&splits, self.captions_only, client, go_on)?;
        if !needed.videos.is_empty() {
            self.programs.check()?;
        }
        let mut done = 0;
        let mut wanted: Vec<(&mut Origin, bool)> = Vec::new();
        let files = needed.files.iter_mut().map(|file| (file, false));
        for ((origin, place), is_extra) in files.chain(needed.extras.iter_mut().map(|file| (file, true))) {
            if is_here(&record, origin, &self.folder.join(place)) {
                done += 1;
            } else {
                wanted.push((origin, is_extra));
            }
        }
        for packed in needed.archives.iter_mut().flatten() {
            if Journal::read(&self.journal(&packed.name), &self.folder, &self.form.to_string())?.is_complete {
                done += 1;
            } else {
                wanted.extend(packed.parts.iter_mut().map(|part| (part, false)));
            }
        }
        let lengths = map(
            &wanted,
            self.parallel.get(),
            &|_, _| go_on(),
            |(origin, is_extra)| match origin.bytes {
                // Not every server answers this question; what is there is seen when it is downloaded.
                None => match client.length(&origin.url, None, go_on) {
                    Err(hark_download::Error::Status { .. }) => Ok(None),
                    Err(error) if *is_extra && error.is_remote() => Ok(None),
                    other => other,
                },
                known => Ok(known),
            },
        )?;
        let mut files = Vec::new();
        for ((origin, _), length) in wanted.iter_mut().zip(lengths) {
            origin.told = length?;
            let at = self.archive(&origin.name);
            files.push(PlannedFile {
                name: origin.name.clone(),
                bytes: origin.told,
                here: size(&at).max(size(&at.with_added_extension("part"))),
                is_checked: origin.checksum.is_some(),
            });
        }
        Ok(Plan {
            request: self,
            client,
            needed,
            files,
            done,
            free: free_disk(&self.folder),
        })
    }

    /// Refuses options that would do nothing.
    fn check_options(&self) -> Result<(), Error> {
        let refuse = |option, reason| {
            Err(Error::NotApplicable {
                option,
                dataset: self.dataset.name,
                reason,
            })
        };
        if matches!(self.dataset.kind, Kind::AudioCaps(_)) {
            if self.form != Form::Original {
                return refuse("--as", "its clips are always stored as mono FLAC at 32 kHz");
            }
            if self.keep_archives {
                return refuse("--keep-archives", "it has no archives");
            }
        }
        Ok(())
    }

    /// What is recorded of the folder. Captions alone go with recordings in any form.
    fn record(&self) -> Result<Record, Error> {
        let form = (!self.captions_only).then(|| self.form.to_string());
        Record::open(&self.folder, self.dataset.name, form.as_deref())
    }

    fn work(&self) -> PathBuf {
        self.folder.join(WORK)
    }

    /// Where archives are kept.
    fn archives(&self) -> PathBuf {
        self.folder.join(ARCHIVES)
    }

    /// Where an archive is, or is downloaded to. One that is among the kept ones is used and stays. A new one joins them when
    /// it is unpacked, so that nothing is lost if the next run asks for something else.
    fn archive(&self, name: &str) -> PathBuf {
        let kept = self.archives().join(name);
        if kept.is_file() {
            kept
        } else {
            self.work().join(name)
        }
    }

    fn journal(&self, archive: &str) -> PathBuf {
        self.work().join(format!("{archive}.unpacked"))
    }
}

/// The length of a file; 0 if there is none.
fn size(path: &Path) -> u64 {
    fs_err::metadata(path).map_or(0, |metadata| metadata.len())
}

/// Whether a file was downloaded and is as long as it was.
fn is_here(record: &Record, origin: &Origin, path: &Path) -> bool {
    record
        .files
        .get(&origin.name)
        .is_some_and(|file| fs_err::metadata(path).is_ok_and(|metadata| metadata.len() == file.bytes))
}

impl Plan<'_> {
    /// Bytes that are still to come, of the files whose length is known.
    pub fn bytes_left(&self) -> u64 {
        let left = self
            .files
            .iter()
            .filter_map(|file| Some(file.bytes?.saturating_sub(file.here)));
        left.sum()
    }

    /// Splits of which recordings are fetched one by one.
    pub fn videos(&self) -> &[&'static str] {
        &self.needed.videos
    }

    /// What was asked for.
    pub fn request(&self) -> &Request {
        self.request
    }

    /// Downloads what is not here, and unpacks it. Killed or cancelled, the same call continues and ends with the same files.
    ///
    /// # Errors
    /// Any [`Error`]. What is finished stays.
    ///
    /// # Panics
    /// If `on_event` panics.
    pub fn run(&self, on_event: OnEvent<'_>) -> Result<Pulled, Error> {
        let request = self.request;
        fs_err::create_dir_all(request.work())?;
        let path = request.work().join("lock");
        let turn = File::create(path)?;
        match turn.file().try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::InUse {
                    folder: request.folder.clone(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        sweep(&request.folder)?;
        sweep(&request.work())?;
        let pulling = Pulling {
            request,
            client: self.client,
            record: Mutex::new(request.record()?),
            fault: Mutex::new(None),
            on_event,
        };
        let mut pulled = Pulled::default();
        pulling.files(&self.needed.files)?;
        for extra in &self.needed.extras {
            match pulling.files(std::slice::from_ref(extra)) {
                Err(Error::Download(error)) if error.is_remote() => {
                    let remark = format!("{error} (optional file; the dataset does not need it)");
                    pulled.remarks.push(remark);
                }
                other => other?,
            }
        }
        for list in &self.needed.archives {
            pulling.archives(list, &mut pulled)?;
        }
        for split in &self.needed.videos {
            let on_clips = |done, total, unavailable| {
                on_event(Event::Videos {
                    split,
                    done,
                    total,
                    unavailable,
                })
            };
            let job = videos::Job {
                folder: &request.folder,
                work: &request.work().join("videos"),
                split,
                programs: &request.programs,
                parallel: request.parallel.get(),
            };
            pulled.unavailable.push(job.run(&on_clips)?);
        }
        let record = lock(&pulling.record);
        record.write(&request.folder)?;
        pulled.files = record.files.clone().into_iter().collect();
        Ok(pulled)
    }
}

/// A pull under way.
struct Pulling<'a> {
    request: &'a Request,
    client: &'a Client,
    record: Mutex<Record>,
    /// Why the record could not be written.
    fault: Mutex<Option<Error>>,
    on_event: OnEvent<'a>,
}

impl Pulling<'_> {
    /// Downloads files, each of which takes its place when it is complete. A file that is there and was not pulled is recorded
    /// if it is the published one; no file is replaced.
    fn files(&self, list: &[(Origin, String)]) -> Result<(), Error> {
        let request = self.request;
        let mut missing = Vec::new();
        for (origin, place) in list {
            let target = request.folder.join(place);
            if is_here(&lock(&self.record), origin, &target) {
                continue;
            }
            let is_recorded = lock(&self.record).files.contains_key(&origin.name);
            if target.is_file() {
                let digest = digest_file(&target, origin.checksum.as_ref())?;
                match &origin.checksum {
                    Some(expected) if digest.has(expected) => {
                        self.note(origin, &digest)?;
                        continue;
                    }
                    _ if is_recorded => return Err(Error::Changed { path: target }),
                    Some(_) => return Err(Error::InTheWay { path: target }),
                    // Compared with what comes.
                    None => {}
                }
            }
            missing.push((origin, target));
        }
        let aside = |origin: &Origin| request.work().join(&origin.name);
        let wanted: Vec<_> = missing
            .iter()
            .map(|(origin, _)| (*origin, aside(origin)))
            .collect();
        let fetched = self.fetch(&wanted, &|_, _| Ok(()))?;
        for ((origin, target), fetched) in missing.into_iter().zip(fetched) {
            if target.is_file() {
                fs_err::remove_file(aside(origin))?;
                if digest_file(&target, None)?.sha256 != fetched.sha256 {
                    return Err(Error::InTheWay { path: target });
                }
            } else {
                if let Some(parent) = target.parent() {
                    fs_err::create_dir_all(parent)?;
                }
                fs_err::rename(aside(origin), target)?;
            }
            self.note(origin, &fetched)?;
        }
        Ok(())
    }

    /// Downloads files to their places, and tells `on_file` of each when it is complete.
    fn fetch(
        &self,
        files: &[(&Origin, PathBuf)],
        on_file: &(dyn Fn(&Origin, &Fetched) -> Result<(), Error> + Sync),
    ) -> Result<Vec<Fetched>, Error> {
        let (mut remotes, mut left) = (Vec::new(), 0);
        for (origin, target) in files {
            if let Some(parent) = target.parent() {
                fs_err::create_dir_all(parent)?;
            }
            let here = size(target).max(size(&target.with_added_extension("part")));
            left += origin
                .bytes
                .or(origin.told)
                .unwrap_or_default()
                .saturating_sub(here);
            remotes.push(Remote {
                name: origin.name.clone(),
                url: origin.url.clone(),
                target: target.clone(),
                bytes: origin.bytes,
                checksum: origin.checksum.clone(),
                token: None,
                // Archives that are kept may be the user's own.
                replace: target.starts_with(self.request.work()),
            });
        }
        space::need(&self.request.folder, left, "the download".to_owned())?;
        let on_event = |event: hark_download::Event<'_>| {
            if let hark_download::Event::Finished { file, fetched } = event
                && let Some((origin, _)) = files.iter().find(|(origin, _)| origin.name == file)
                && let Err(error) = on_file(origin, fetched)
            {
                *lock(&self.fault) = Some(error);
                return ControlFlow::Break(());
            }
            (self.on_event)(Event::Download(event))
        };
        let fetched = self.client.fetch_all(&remotes, self.request.parallel, &on_event);
        if let Some(fault) = lock(&self.fault).take() {
            return Err(fault);
        }
        Ok(fetched?)
    }

    fn note(&self, origin: &Origin, fetched: &Fetched) -> Result<(), Error> {
        let stated = origin.checksum.as_ref().map(ToString::to_string);
        let mut record = lock(&self.record);
        let file = RecordedFile::new(&origin.url, fetched, stated);
        record.files.insert(origin.name.clone(), file);
        record.write(&self.request.folder)
    }

    /// Records the form of the recordings, before the first of them is written.
    fn note_form(&self, form: &str) -> Result<(), Error> {
        let mut record = lock(&self.record);
        if record.form.as_deref() == Some(form) {
            return Ok(());
        }
        record.form = Some(form.to_owned());
        record.write(&self.request.folder)
    }

    /// The archives of these parts that are not here. Refused: a kept one that changed since it was recorded.
    fn missing<'o>(
        &self,
        parts: impl Iterator<Item = &'o Origin>,
    ) -> Result<Vec<(&'o Origin, PathBuf)>, Error> {
        let record = lock(&self.record);
        let mut missing = Vec::new();
        for origin in parts {
            let at = self.request.archive(&origin.name);
            if is_here(&record, origin, &at) {
                continue;
            }
            let is_kept = at.starts_with(self.request.archives());
            if is_kept && origin.checksum.is_none() && record.files.contains_key(&origin.name) {
                return Err(Error::Changed { path: at });
            }
            missing.push((origin, at));
        }
        Ok(missing)
    }

    /// Downloads and unpacks the archives of a list that are not unpacked.
    fn archives(&self, list: &[Packed], pulled: &mut Pulled) -> Result<(), Error> {
        let request = self.request;
        let form = request.form.to_string();
        let unpacked =
            |packed: &Packed| Journal::read(&request.journal(&packed.name), &request.folder, &form);
        let mut left = Vec::new();
        for packed in list {
            if !unpacked(packed)?.is_complete {
                left.push(packed);
            }
        }
        let missing = self.missing(left.iter().flat_map(|packed| &packed.parts))?;
        self.fetch(&missing, &|origin, fetched| self.note(origin, fetched))?;
        for packed in list {
            let at = |origin: &Origin| request.archive(&origin.name);
            let paths: Vec<PathBuf> = packed.parts.iter().map(at).collect();
            self.note_form(&form)?;
            let job = Job {
                format: packed.format,
                parts: &paths,
                layout: packed.layout,
                folder: &request.folder,
                journal: &request.journal(&packed.name),
                form: request.form,
                threads: request.threads.get(),
            };
            job.run(&|done, total| {
                (self.on_event)(Event::Unpacking {
                    archive: &packed.name,
                    done,
                    total,
                })
            })?;
            for (origin, path) in packed.parts.iter().zip(&paths) {
                if !path.starts_with(request.work()) || !path.exists() {
                    continue;
                }
                if request.keep_archives {
                    fs_err::create_dir_all(request.archives())?;
                    fs_err::rename(path, request.archives().join(&origin.name))?;
                } else {
                    fs_err::remove_file(path)?;
                }
            }
            for line in unpacked(packed)?.lines.values() {
                pulled.recordings += 1;
                pulled.original_bytes += line.original;
                pulled.written_bytes += line.written;
            }
        }
        Ok(())
    }
}
