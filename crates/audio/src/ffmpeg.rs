//! Files that nothing here decodes, by the program `ffmpeg`, where there is one.
//!
//! In: a path. Out: the first audio stream, mixed to one channel by the mean of all channels as everywhere else. The program
//! gets the path as an argument of its own, behind `file:`, so that no name is taken for an option or an address; it may open
//! files only, reads nothing from the standard input and goes through no shell. It is ended when it gives more than
//! [`MAX_SECONDS`] of sound, when nothing comes for [`PATIENCE`], and when the decoder is dropped. Samples are taken from a
//! pipe block by block. What it writes to its standard error is read up to [`MAX_COMPLAINT`] bytes.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use crate::pcm::{Coding, Layout, Step};

/// The longest sound that is taken from the program: a week.
const MAX_SECONDS: u64 = 7 * 24 * 3600;

/// How long the program may give nothing.
const PATIENCE: Duration = Duration::from_secs(30);

/// The most of its complaints that is read.
const MAX_COMPLAINT: u64 = 4096;

/// The most memory that one of its allocations may take, in bytes.
const MAX_ALLOCATION: &str = "268435456";

/// Bytes of one block, and how many blocks wait to be taken.
const BLOCK: usize = 64 << 10;
const WAITING: usize = 4;

/// What [`Fallback::set_default`] was given.
static DEFAULT: OnceLock<Fallback> = OnceLock::new();

/// What to do with a file that nothing here decodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// Refuse it.
    Refuse,
    /// Let this program decode it, which takes ffmpeg's arguments. A name without a folder is looked for on the `PATH`. If it is
    /// not there or cannot decode the file either, the file is refused as without it.
    Ffmpeg(PathBuf),
}

impl Default for Fallback {
    /// What [`Fallback::set_default`] set, or the program `ffmpeg`.
    fn default() -> Self {
        DEFAULT.get().cloned().unwrap_or_else(|| Self::named(None))
    }
}

impl Fallback {
    /// As a user's setting says: this program, none if it is empty, `ffmpeg` without a setting.
    pub fn named(program: Option<OsString>) -> Self {
        match program {
            Some(program) if program.is_empty() => Self::Refuse,
            Some(program) => Self::Ffmpeg(program.into()),
            None => Self::Ffmpeg("ffmpeg".into()),
        }
    }

    /// Makes this the default of the whole process, for a program whose user decides it. Only the first call has an effect.
    pub fn set_default(self) {
        let _ = DEFAULT.set(self);
    }

    /// Whether there is a program to fall back on, which is started to find out.
    pub fn is_there(&self) -> bool {
        let Self::Ffmpeg(program) = self else {
            return false;
        };
        let mut command = Command::new(program);
        command.arg("-version").stdin(Stdio::null()).stdout(Stdio::null());
        let status = command.stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }
}

/// Why the program does not decode a file.
pub(crate) enum NoFfmpeg {
    /// It cannot be started.
    Missing,
    /// It gives no sound; what it says, in one line.
    Failed(String),
}

/// What the program says of the stream.
pub(crate) struct Told {
    pub rate: u32,
    pub channels: usize,
}

pub(crate) struct Ffmpeg {
    child: Child,
    blocks: Receiver<io::Result<Vec<u8>>>,
    complaint: Receiver<String>,
    layout: Layout,
    rest: Vec<u8>,
    left: u64,
}

impl Ffmpeg {
    /// Starts the program and reads up to the first sample.
    pub(crate) fn open(program: &Path, path: &Path) -> Result<(Self, Told), NoFfmpeg> {
        let mut child = command(program, path).spawn().map_err(|_| NoFfmpeg::Missing)?;
        let pipes = child.stdout.take().zip(child.stderr.take());
        let (out, err) = pipes.ok_or(NoFfmpeg::Missing)?;
        let (blocks_in, blocks) = sync_channel(WAITING);
        let (complaint_in, complaint) = sync_channel(1);
        std::thread::spawn(move || pump(out, &blocks_in));
        std::thread::spawn(move || {
            let mut text = Vec::new();
            let mut err = err;
            let _ = err.by_ref().take(MAX_COMPLAINT).read_to_end(&mut text);
            let _ = complaint_in.try_send(String::from_utf8_lossy(&text).into_owned());
            let _ = io::copy(&mut err, &mut io::sink());
        });
        let mut opened = Self {
            child,
            blocks,
            complaint,
            layout: Layout {
                coding: Coding::Float32,
                big_endian: false,
                channels: 1,
            },
            rest: Vec::new(),
            left: 0,
        };
        let Some(told) = opened.header() else {
            let _ = opened.child.kill();
            return Err(NoFfmpeg::Failed(opened.first_complaint().unwrap_or_default()));
        };
        opened.layout.channels = told.channels;
        opened.left = MAX_SECONDS * u64::from(told.rate) * told.channels as u64 * 4;
        Ok((opened, told))
    }

    /// Reads the header of the WAV stream up to its samples.
    fn header(&mut self) -> Option<Told> {
        while self.rest.len() < 1 << 16 {
            if let Some((told, start)) = parse_header(&self.rest) {
                self.rest.drain(..start);
                return Some(told);
            }
            self.rest.extend(self.blocks.recv_timeout(PATIENCE).ok()?.ok()?);
        }
        None
    }

    pub(crate) fn next(&mut self, out: &mut Vec<f32>) -> io::Result<Step> {
        let frame = self.layout.frame_bytes();
        if self.rest.len() < frame {
            match self.blocks.recv_timeout(PATIENCE) {
                Ok(block) => self.rest.extend(block?),
                Err(RecvTimeoutError::Timeout) => {
                    let _ = self.child.kill();
                    return Ok(Step::Broken("ffmpeg gives nothing any more".to_owned()));
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(self.end()),
            }
        }
        let whole = self.rest.len() / frame * frame;
        if whole as u64 > self.left {
            let _ = self.child.kill();
            return Ok(Step::Broken("ffmpeg gives more than a week of sound".to_owned()));
        }
        self.left -= whole as u64;
        self.layout.mix(&self.rest[..whole], out);
        self.rest.drain(..whole);
        Ok(Step::Samples)
    }

    /// The program has closed its output. A complaint on the way is damage.
    fn end(&mut self) -> Step {
        let complaint = self.first_complaint();
        let _ = self.child.wait();
        complaint.map_or(Step::End, |line| Step::Broken(format!("ffmpeg: {line}")))
    }

    /// The first line that it wrote to its standard error, without what it says of itself: `[ape @ 0x5581c8]`.
    fn first_complaint(&self) -> Option<String> {
        let complaint = self.complaint.recv_timeout(PATIENCE).unwrap_or_default();
        let line = complaint.lines().map(str::trim).find(|line| !line.is_empty())?;
        let line = match line.split_once("] ") {
            Some((before, after)) if before.starts_with('[') => after,
            _ => line,
        };
        Some(line.chars().filter(|c| !c.is_control()).take(200).collect())
    }
}

impl Drop for Ffmpeg {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(program: &Path, path: &Path) -> Command {
    let mut address = OsString::from("file:");
    let absolute = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
    address.push(absolute);
    let mut command = Command::new(program);
    command
        .args([
            "-nostdin",
            "-hide_banner",
            "-v",
            "error",
            "-max_alloc",
            MAX_ALLOCATION,
        ])
        .args(["-protocol_whitelist", "file", "-threads", "1", "-i"])
        .arg(address)
        .args([
            "-map",
            "0:a:0",
            "-vn",
            "-sn",
            "-dn",
            "-map_metadata",
            "-1",
            "-c:a",
            "pcm_f32le",
        ])
        .args(["-fflags", "+bitexact", "-f", "wav", "pipe:1"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Hands blocks on until the program ends or nobody takes them.
fn pump(mut out: impl Read, blocks: &SyncSender<io::Result<Vec<u8>>>) {
    loop {
        let mut block = vec![0; BLOCK];
        let got = out.read(&mut block);
        let (send, last) = match got {
            Ok(0) => return,
            Ok(n) => {
                block.truncate(n);
                (Ok(block), false)
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => (Err(e), true),
        };
        if blocks.send(send).is_err() || last {
            return;
        }
    }
}

/// The rate and the channels of a WAV stream, and where its samples begin.
fn parse_header(bytes: &[u8]) -> Option<(Told, usize)> {
    let number = |at: usize, size: usize| {
        let field = bytes.get(at..at + size)?;
        Some(
            field
                .iter()
                .rev()
                .fold(0_u64, |value, &b| value << 8 | u64::from(b)),
        )
    };
    let mut at = 12;
    let mut told = None;
    loop {
        let name = bytes.get(at..at + 4)?;
        let size = number(at + 4, 4)? as usize;
        match name {
            b"fmt " => {
                told = Some(Told {
                    rate: number(at + 12, 4)? as u32,
                    channels: number(at + 10, 2)? as usize,
                });
            }
            b"data" => return told.map(|told| (told, at + 8)),
            _ => {}
        }
        at = at.checked_add(8 + size + (size & 1))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_of_a_stream() {
        let format = [3, 0, 2, 0, 0x40, 0x1f, 0, 0, 0, 0, 0, 0, 8, 0, 32, 0];
        let head = [
            &b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0"[..],
            &format,
            b"LIST\x01\0\0\0x\0data\xff\xff\xff\xffab",
        ]
        .concat();
        let (told, start) = parse_header(&head).unwrap();
        assert_eq!((told.rate, told.channels, start), (8_000, 2, head.len() - 2));
        for length in 0..head.len() - 2 {
            assert!(parse_header(&head[..length]).is_none());
        }
    }
}
