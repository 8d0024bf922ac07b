//! The recordings of AudioCaps: ten seconds of videos, which the user's own `yt-dlp` downloads and `ffmpeg` cuts.
//!
//! The programs are started with a list of arguments, never through a shell. A clip becomes FLAC of one channel at 32 kHz with 16
//! bits, `audio/SPLIT/ID_START.flac`; it has its name when it is complete. What cannot be had is listed with the reason in
//! `unavailable_SPLIT.csv`: `gone` is not asked for again as long as the list has it, `failed` is. A clip that is there is not
//! listed.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fs_err::{File, OpenOptions};
use hark_corpus::{CaptionSet, Format};
use hark_work::files;
use hark_work::workers::{in_order, lock};

use crate::Error;

/// Length of a clip.
const SECONDS: u32 = 10;
/// After so many failures in a row that are not the clips' own, the network or the program is at fault.
const MAX_FAILURES: usize = 10;
/// How long a program may work on one clip.
const PATIENCE: Duration = Duration::from_mins(10);
/// How much of a program's complaints is read.
const MAX_TEXT: u64 = 1 << 16;

/// The user's programs, by name or path.
#[derive(Debug, Clone)]
pub struct Programs {
    /// Downloads videos.
    pub yt_dlp: OsString,
    /// Cuts and converts.
    pub ffmpeg: OsString,
}

impl Default for Programs {
    fn default() -> Self {
        Self {
            yt_dlp: "yt-dlp".into(),
            ffmpeg: "ffmpeg".into(),
        }
    }
}

impl Programs {
    /// That both can be run.
    pub(crate) fn check(&self) -> Result<(), Error> {
        for (program, argument) in [(&self.yt_dlp, "--version"), (&self.ffmpeg, "-version")] {
            let mut command = Command::new(program);
            command
                .arg(argument)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            command.status().map_err(|source| Error::NoProgram {
                program: program.to_string_lossy().into_owned(),
                source,
            })?;
        }
        Ok(())
    }
}

/// What could not be had of a split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// The split.
    pub split: String,
    /// Its clips.
    pub clips: usize,
    /// Clips whose videos are gone.
    pub gone: usize,
    /// Clips that failed for another reason; the next pull tries them again.
    pub failed: usize,
    /// The list.
    pub list: PathBuf,
}

/// A split whose captions are there.
pub(crate) struct Job<'a> {
    pub(crate) folder: &'a Path,
    /// For files under way.
    pub(crate) work: &'a Path,
    pub(crate) split: &'a str,
    pub(crate) programs: &'a Programs,
    pub(crate) parallel: usize,
}

/// Called with the number of clips that are done, of all, and of those that could not be had.
pub(crate) type OnClips<'a> = &'a (dyn Fn(u64, u64, u64) -> ControlFlow<()> + Sync);

/// Ten seconds of a video.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Clip {
    /// `VIDEO_START`.
    id: String,
    video: String,
    start: u32,
}

/// Why a clip could not be had.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reason {
    is_gone: bool,
    text: String,
}

enum Outcome {
    There,
    Not(Reason),
    Stopped,
}

impl Job<'_> {
    /// Fetches what is not there.
    pub(crate) fn run(&self, on_clips: OnClips<'_>) -> Result<Unavailable, Error> {
        let captions = self.folder.join(format!("{}.csv", self.split));
        let set = CaptionSet::read(&captions, &Format::AudioCaps)?;
        let clips: Vec<Clip> = set.clips.iter().filter_map(|id| Clip::parse(id)).collect();
        let audio = self.folder.join("audio").join(self.split);
        fs_err::create_dir_all(&audio)?;
        // Programs of a run that was killed may still write to its folder: each run has its own, and what is left of others is
        // removed where that is possible.
        drop(fs_err::remove_dir_all(self.work));
        // The programs run in their folder: a path from here would lead them elsewhere.
        let own = std::path::absolute(self.work)?.join(std::process::id().to_string());
        fs_err::create_dir_all(&own)?;
        let is_here = |clip: &&Clip| {
            ["flac", "wav"]
                .iter()
                .any(|end| audio.join(format!("{}.{end}", clip.id)).is_file())
        };
        let here: HashSet<&str> = clips
            .iter()
            .filter(is_here)
            .map(|clip| clip.id.as_str())
            .collect();
        let list = self.folder.join(format!("unavailable_{}.csv", self.split));
        let mut list = List::open(list, &here)?;
        let is_gone = |clip: &Clip| list.reasons.get(&clip.id).is_some_and(|reason| reason.is_gone);
        let left: Vec<&Clip> = clips
            .iter()
            .filter(|clip| !here.contains(clip.id.as_str()) && !is_gone(clip))
            .collect();
        let total = clips.len() as u64;
        let mut done = total - left.len() as u64;
        let stop = AtomicBool::new(false);
        let turn = Mutex::new(());
        let shown = |done, unavailable| {
            let _turn = lock(&turn);
            on_clips(done, total, unavailable)
        };
        if shown(done, list.reasons.len() as u64).is_break() {
            return Err(Error::Cancelled);
        }
        let make = |number: u64| {
            let clip = left[number as usize];
            let work = own.join(number.to_string());
            self.clip(clip, &audio, &work, &|| stop.load(Ordering::Relaxed))
        };
        // A long video must not hold up the others.
        let ahead = 16 * self.parallel;
        let mut failures = 0;
        let mut take = |number: u64, outcome: Result<Outcome, Error>| {
            match outcome? {
                Outcome::Stopped => return Err(Error::Cancelled),
                Outcome::There => {
                    failures = 0;
                    list.reasons.remove(&left[number as usize].id);
                }
                Outcome::Not(reason) => {
                    failures = if reason.is_the_clips_own() {
                        0
                    } else {
                        failures + 1
                    };
                    let text = reason.text.clone();
                    list.add(&left[number as usize].id, reason)?;
                    if failures == MAX_FAILURES {
                        return Err(Error::Stuck {
                            program: self.programs.yt_dlp.to_string_lossy().into_owned(),
                            clips: failures,
                            reason: text,
                        });
                    }
                }
            }
            done += 1;
            match shown(done, list.reasons.len() as u64) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(Error::Cancelled),
            }
        };
        let count = left.len() as u64;
        let taken = in_order(
            0..count,
            self.parallel,
            ahead,
            &make,
            &mut |number, outcome, _| match take(number, outcome) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    ControlFlow::Break(error)
                }
            },
        );
        drop(fs_err::remove_dir_all(self.work));
        list.write(&clips)?;
        if let ControlFlow::Break(error) = taken {
            return Err(error);
        }
        let gone = list.reasons.values().filter(|reason| reason.is_gone).count();
        Ok(Unavailable {
            split: self.split.to_owned(),
            clips: clips.len(),
            gone,
            failed: list.reasons.len() - gone,
            list: list.path,
        })
    }

    /// One clip, by way of a folder of its own.
    fn clip(
        &self,
        clip: &Clip,
        audio: &Path,
        work: &Path,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Outcome, Error> {
        fs_err::create_dir_all(work)?;
        let section = format!("*{}-{}", clip.start, clip.start + SECONDS);
        let mut download = Command::new(&self.programs.yt_dlp);
        download
            .args(["--ignore-config", "--no-playlist", "--no-progress", "--quiet"])
            .args([
                "--format",
                "bestaudio/best",
                "--download-sections",
                &section,
                "--output",
            ])
            .arg(work.join("video.%(ext)s"))
            .args(["--", &format!("https://www.youtube.com/watch?v={}", clip.video)]);
        let not = |text: String| Ok(Outcome::Not(Reason::of(text)));
        match run(download, work, is_stopped)? {
            Run::Done => {}
            Run::Failed(text) => return not(text),
            Run::Stopped => return Ok(Outcome::Stopped),
        }
        let Some(video) = found(work)? else {
            return not("yt-dlp ended without an error and left no file".to_owned());
        };
        let target = work.join("clip.flac");
        let mut convert = Command::new(&self.programs.ffmpeg);
        convert
            .args(["-nostdin", "-hide_banner", "-loglevel", "error", "-y", "-i"])
            .arg(&video)
            .args([
                "-vn",
                "-t",
                &SECONDS.to_string(),
                "-ac",
                "1",
                "-ar",
                "32000",
                "-sample_fmt",
                "s16",
                "-c:a",
                "flac",
            ])
            .arg(&target);
        match run(convert, work, is_stopped)? {
            Run::Done => {}
            Run::Failed(text) => return not(format!("ffmpeg: {text}")),
            Run::Stopped => return Ok(Outcome::Stopped),
        }
        if hark_audio::probe(&target).is_err() {
            return not("ffmpeg ended without an error and left no recording".to_owned());
        }
        File::open(&target)?.sync_all()?;
        fs_err::rename(&target, audio.join(format!("{}.flac", clip.id)))?;
        fs_err::remove_dir_all(work)?;
        Ok(Outcome::There)
    }
}

impl Clip {
    /// The parts of an id as caption files give it; `None` for one that is not a video's.
    fn parse(id: &str) -> Option<Self> {
        let (video, start) = id.rsplit_once('_')?;
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (video.len() == 11 && video.bytes().all(is_letter)).then_some(())?;
        Some(Self {
            id: id.to_owned(),
            video: video.to_owned(),
            start: start.parse().ok().filter(|&start| start < 1 << 20)?,
        })
    }
}

impl Reason {
    /// What yt-dlp says of videos that nobody can have any more.
    const GONE: [&str; 10] = [
        "video unavailable",
        "private video",
        "has been removed",
        "been terminated",
        "no longer available",
        "this video is not available",
        "video is unavailable",
        "copyright",
        "members-only",
        "account has been closed",
    ];
    /// What it says of videos that another account or country can have.
    const RESTRICTED: [&str; 2] = ["confirm your age", "in your country"];
    /// What it says when YouTube refuses the caller. The same message may call the video unavailable.
    const REFUSED: [&str; 5] = [
        "try again later",
        "rate-limit",
        "not a bot",
        "error 429",
        "too many requests",
    ];

    fn of(text: String) -> Self {
        let mut reason = Self { is_gone: false, text };
        reason.is_gone =
            reason.says(&Self::GONE) && !reason.says(&Self::RESTRICTED) && !reason.says(&Self::REFUSED);
        reason
    }

    /// Whether other clips may do better: neither the network nor the program is at fault.
    fn is_the_clips_own(&self) -> bool {
        self.is_gone || self.says(&Self::RESTRICTED) && !self.says(&Self::REFUSED)
    }

    fn says(&self, any: &[&str]) -> bool {
        let lower = self.text.to_lowercase();
        any.iter().any(|words| lower.contains(words))
    }
}

/// The first file called `video` in a folder.
fn found(folder: &Path) -> Result<Option<PathBuf>, Error> {
    for entry in fs_err::read_dir(folder)? {
        let path = entry?.path();
        let is_part = path.extension().is_some_and(|end| end == "part" || end == "ytdl");
        if path.file_stem().is_some_and(|stem| stem == "video") && !is_part {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

enum Run {
    Done,
    /// With the last line that it wrote.
    Failed(String),
    Stopped,
}

/// A program that is ended when it is no longer waited for.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended already gives an error here.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Runs a program to its end.
fn run(mut command: Command, work: &Path, is_stopped: &dyn Fn() -> bool) -> Result<Run, Error> {
    let log = work.join("errors.txt");
    let errors = File::create(&log)?.into_parts().0;
    let program = command.get_program().to_string_lossy().into_owned();
    command
        .current_dir(work)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(errors);
    let child = command
        .spawn()
        .map_err(|source| Error::NoProgram { program, source })?;
    let (mut running, begun) = (Running(child), Instant::now());
    let status = loop {
        if let Some(status) = running.0.try_wait()? {
            break status;
        }
        if is_stopped() {
            return Ok(Run::Stopped);
        }
        if begun.elapsed() > PATIENCE {
            return Ok(Run::Failed(format!(
                "it took more than {} minutes",
                PATIENCE.as_secs() / 60
            )));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    if status.success() {
        return Ok(Run::Done);
    }
    let mut text = Vec::new();
    File::open(&log)?.take(MAX_TEXT).read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).rev();
    let last = lines
        .clone()
        .next()
        .unwrap_or("it ended with an error and said nothing");
    let line = lines.find(|line| line.starts_with("ERROR")).unwrap_or(last);
    Ok(Run::Failed(
        line.chars().filter(|letter| !letter.is_control()).collect(),
    ))
}

/// The list of clips that could not be had.
struct List {
    path: PathBuf,
    reasons: BTreeMap<String, Reason>,
    file: File,
}

impl List {
    const HEAD: &str = "youtube_id,start_time,status,reason\n";

    /// What the list has. Dropped are a last line that was cut off and clips that are `here`.
    fn open(path: PathBuf, here: &HashSet<&str>) -> Result<Self, Error> {
        let text = if path.is_file() {
            fs_err::read_to_string(&path)?
        } else {
            String::new()
        };
        let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        let whole = if whole.is_empty() { Self::HEAD } else { whole };
        let unreadable = |reason: String| Error::Record {
            path: path.clone(),
            reason,
        };
        let mut reasons = BTreeMap::new();
        for row in csv::Reader::from_reader(whole.as_bytes()).records() {
            let row = row.map_err(|error| unreadable(error.to_string()))?;
            let [Some(video), Some(start), Some(status), Some(text)] =
                [0, 1, 2, 3].map(|column| row.get(column))
            else {
                return Err(unreadable("a row of it is too short".to_owned()));
            };
            let reason = Reason {
                is_gone: status == "gone",
                text: text.to_owned(),
            };
            reasons.insert(format!("{video}_{start}"), reason);
        }
        let listed = reasons.len();
        reasons.retain(|id, _| !here.contains(id.as_str()));
        if whole != text || reasons.len() < listed {
            let mut text = Self::HEAD.as_bytes().to_vec();
            for (id, reason) in &reasons {
                text.extend(Self::row(id, reason));
            }
            files::write(&path, &text).map_err(|source| Error::writing(&path, source))?;
        }
        let file = OpenOptions::new().append(true).open(&path)?;
        Ok(Self { path, reasons, file })
    }

    fn row(id: &str, reason: &Reason) -> Vec<u8> {
        let (video, start) = id.rsplit_once('_').unwrap_or((id, ""));
        let status = if reason.is_gone { "gone" } else { "failed" };
        let mut writer = csv::Writer::from_writer(Vec::new());
        // Writing to memory does not fail.
        drop(writer.write_record([video, start, status, &reason.text]));
        writer.into_inner().unwrap_or_default()
    }

    fn add(&mut self, id: &str, reason: Reason) -> Result<(), Error> {
        use std::io::Write as _;
        let row = Self::row(id, &reason);
        self.file
            .write_all(&row)
            .map_err(|source| Error::writing(&self.path, source))?;
        self.reasons.insert(id.to_owned(), reason);
        Ok(())
    }

    /// Writes it anew, in the order of the captions.
    fn write(&self, clips: &[Clip]) -> Result<(), Error> {
        let mut text = Self::HEAD.as_bytes().to_vec();
        for clip in clips {
            if let Some(reason) = self.reasons.get(&clip.id) {
                text.extend(Self::row(&clip.id, reason));
            }
        }
        files::write(&self.path, &text).map_err(|source| Error::writing(&self.path, source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_videos() {
        let clip = Clip::parse("-a_B4567890_30").unwrap();
        assert_eq!((clip.video.as_str(), clip.start), ("-a_B4567890", 30));
        for id in [
            "short_30",
            "rm -rf /;xx_30",
            "abcdefghijk_x",
            "abcdefghijk",
            "../../../ab_3",
            "abcdefghijk_-3",
        ] {
            assert_eq!(Clip::parse(id), None, "{id}");
        }
    }

    #[test]
    fn what_is_gone_is_told_from_what_failed() {
        for (text, is_gone) in [
            (
                "ERROR: [youtube] abc: Video unavailable. This video is private",
                true,
            ),
            (
                "ERROR: [youtube] abc: Private video. Sign in if you've been granted access",
                true,
            ),
            (
                "ERROR: [youtube] abc: Video unavailable. This content isn't available, try again later. The current \
                 session has been rate-limited by YouTube for up to an hour. It is recommended to use `-t sleep`",
                false,
            ),
            ("ERROR: [youtube] abc: Sign in to confirm your age", false),
            (
                "ERROR: [youtube] abc: Video unavailable. The uploader has not made this video available in your country",
                false,
            ),
            ("ERROR: [youtube] abc: Sign in to confirm you're not a bot", false),
            (
                "ERROR: unable to download video data: HTTP Error 429: Too Many Requests",
                false,
            ),
            (
                "ERROR: Unable to download webpage: <urlopen error timed out>",
                false,
            ),
        ] {
            assert_eq!(Reason::of(text.to_owned()).is_gone, is_gone, "{text}");
        }
    }

    #[test]
    fn a_refusal_counts_as_a_failure_and_a_restriction_as_the_clips_own() {
        for (text, own) in [
            ("ERROR: [youtube] abc: Private video", true),
            ("ERROR: [youtube] abc: Sign in to confirm your age", true),
            (
                "ERROR: [youtube] abc: The uploader has not made this video available in your country",
                true,
            ),
            (
                "ERROR: [youtube] abc: Video unavailable. This content isn't available, try again later",
                false,
            ),
            ("ERROR: [youtube] abc: Sign in to confirm you're not a bot", false),
        ] {
            assert_eq!(Reason::of(text.to_owned()).is_the_clips_own(), own, "{text}");
        }
    }
}
