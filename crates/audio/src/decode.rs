//! A file's samples, mixed to one channel, at the file's own rate.
//!
//! In: a path, or any [`Source`] of bytes. The format is told by the content alone; the name is used for messages
//! only. Out: [`Info`] and blocks of `f32` samples, each the mean of all channels. A packet that cannot be decoded
//! is skipped and counted, and a file that breaks off gives what came before: both stand in [`Damage`]. Refused are
//! rates and channel counts outside the limits below, numbers that are not finite, and files without one sample.

pub(crate) mod seek;

use std::io::{self, BufReader, SeekFrom};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::adpcm::Adpcm;
use crate::error::Error;
use crate::extensions::{has_audio_extension, has_ffmpeg_extension};
use crate::ffmpeg::{Fallback, Ffmpeg, NoFfmpeg};
use crate::metadata::Metadata;
use crate::packets::{About, Opened, Packets};
use crate::pcm::{HIGHEST_RATE, LOWEST_RATE, MAX_CHANNELS, Pcm, Step};
use crate::sound::{Fault, Kind, Sound};
use crate::source::{Source, read_bounded};
use crate::track::{CUT, Refusal};
use crate::window::Window;
use crate::{aiff, au, caf, foreign, w64, wav};

/// How many packets in a row may bring no samples, such as those of a video beside the sound and those that
/// cannot be decoded, before the file is given up. It keeps a demuxer that no longer moves on from running
/// for ever.
pub const MAX_EMPTY_PACKETS: usize = 100_000;

/// Buffer of file reads.
const BUFFER: usize = 64 << 10;

/// What a file says about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Info {
    /// `wav`, `rifx`, `rf64`, `w64`, `aiff`, `au`, `caf`, `flac`, `mp3`, `ogg`, `mp4`, `matroska`, ...
    pub container: String,
    /// `pcm 16-bit`, `flac`, `vorbis`, `opus`, ...
    pub codec: String,
    /// Frames per second.
    pub rate: u32,
    /// How many channels are mixed into one.
    pub channels: usize,
    /// The length as the file declares it, which may be wrong. Of chained streams it is the first one's.
    pub seconds: Option<f64>,
    /// Title, description and the like.
    pub metadata: Metadata,
}

/// What is wrong with a file that could be read in part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Damage {
    /// How many seconds came out before the first fault.
    pub after_seconds: f64,
    /// The first fault, in words.
    pub what: String,
    /// How many packets were passed over. What follows them stands that much too early.
    pub skipped_packets: usize,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (after {:.1} s)", self.what, self.after_seconds)?;
        match self.skipped_packets {
            0 => Ok(()),
            1 => f.write_str(", one packet left out"),
            n => write!(f, ", {n} packets left out"),
        }
    }
}

enum Body {
    Pcm(Pcm),
    Adpcm(Box<Adpcm>),
    Packets(Box<Packets>),
    Ffmpeg(Box<Ffmpeg>),
}

/// Decodes one file from its beginning to its end.
pub struct Decoder {
    path: PathBuf,
    info: Info,
    body: Body,
    /// The declared length, if it is more than a guess, less what it may be off by.
    expected: Option<u64>,
    /// The header promises more bytes than there are.
    cut: bool,
    /// How many frames make the file whole, whatever follows them.
    enough: Option<u64>,
    block: Vec<f32>,
    /// The block is the first one and was not given yet.
    first: bool,
    /// How many samples have been decoded.
    frames: u64,
    ended: bool,
    damage: Option<Damage>,
}

impl Decoder {
    /// Opens a file, reads its header and decodes its first block. A file of which nothing here decodes one sample goes to
    /// `ffmpeg`, as [`Fallback::default`] says.
    ///
    /// # Errors
    /// If the file cannot be read, is of no known kind, lies outside the limits, or has no sound.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_with(path, &Fallback::default())
    }

    /// As [`Decoder::open`], with a choice of what to do with files that nothing here decodes.
    ///
    /// # Errors
    /// As [`Decoder::open`].
    pub fn open_with(path: &Path, fallback: &Fallback) -> Result<Self, Error> {
        let own = Self::open_own(path);
        // A file of plain samples that has none is empty: ffmpeg would make sound of what follows them.
        let plain = matches!(&own, Ok(decoder) if matches!(decoder.body, Body::Pcm(_) | Body::Adpcm(_)));
        let refused = match own.and_then(Self::with_first_block) {
            Err(refused @ (Error::Empty { .. } | Error::Decoder { .. })) if !plain => refused,
            Err(
                refused @ (Error::Unknown { .. }
                | Error::Foreign { .. }
                | Error::Header { .. }
                | Error::NoAudio { .. }
                | Error::Codec { .. }),
            ) => refused,
            other => return other,
        };
        // Every text file of a folder would start the program; only what is sound by its content or by its name may.
        let known = !matches!(refused, Error::Unknown { .. });
        if !known && !has_audio_extension(path) && !has_ffmpeg_extension(path) {
            return Err(refused);
        }
        let Fallback::Ffmpeg(program) = fallback else {
            return Err(refused);
        };
        // ffmpeg takes the samples of these for little-endian ones, and gives noise.
        if matches!(&refused, Error::Header { container, .. } if container == "rifx") {
            return Err(refused);
        }
        // Without the key ffmpeg gives noise.
        if matches!(&refused, Error::Codec { codec, .. } if codec == "encrypted") {
            return Err(refused);
        }
        let (body, told) = match Ffmpeg::open(program, path) {
            Ok(opened) => opened,
            Err(why) => return Err(with_complaint(refused, why)),
        };
        check_shape(path, told.rate, told.channels)?;
        let name = match &refused {
            Error::Codec { codec, .. } => codec.clone(),
            Error::Foreign { format, .. } => (*format).to_owned(),
            Error::Header { container, .. } => container.clone(),
            _ => "sound".to_owned(),
        };
        let info = Info {
            container: "ffmpeg".to_owned(),
            codec: format!("{name} (by ffmpeg)"),
            rate: told.rate,
            channels: told.channels,
            seconds: None,
            metadata: Metadata::default(),
        };
        let decoder = Self::new(path, info, Body::Ffmpeg(Box::new(body)), None).with_first_block();
        decoder.map_err(|error| match error {
            Error::Empty { what, .. } => with_complaint(refused, NoFfmpeg::Failed(what)),
            other => other,
        })
    }

    /// Decodes the first block, which [`Decoder::next_block`] gives next.
    fn with_first_block(mut self) -> Result<Self, Error> {
        self.advance()?;
        self.first = true;
        Ok(self)
    }

    fn open_own(path: &Path) -> Result<Self, Error> {
        let read = |source: io::Error| Error::Read {
            path: path.to_owned(),
            source,
        };
        let file = std::fs::File::open(path).map_err(read)?;
        if file.metadata().map_err(read)?.is_dir() {
            return Err(read(io::ErrorKind::IsADirectory.into()));
        }
        Self::from_source(Box::new(BufReader::with_capacity(BUFFER, file)), path)
    }

    /// As [`Decoder::open`], for bytes that are already there; `name` stands in messages only.
    ///
    /// # Errors
    /// As [`Decoder::open`].
    pub fn from_source(mut source: Box<dyn Source>, name: &Path) -> Result<Self, Error> {
        let read = |source: io::Error| Error::Read {
            path: name.to_owned(),
            source,
        };
        let length = source.seek(SeekFrom::End(0)).map_err(read)?;
        source.seek(SeekFrom::Start(0)).map_err(read)?;
        let mut length = length;
        let mut head = read_bounded(&mut source, foreign::HEAD as u64, foreign::HEAD).map_err(read)?;
        // Tags may stand before any format. What symphonia reads it finds behind them by itself.
        let behind = foreign::behind_tags(&head, &mut source).map_err(read)?;
        if behind > 0 {
            source.seek(SeekFrom::Start(behind)).map_err(read)?;
            let inner = read_bounded(&mut source, foreign::HEAD as u64, foreign::HEAD).map_err(read)?;
            if foreign::name(&inner).is_some() || has_own_header(&inner) {
                head = inner;
                let window = Window::new(source, vec![(behind, length.saturating_sub(behind))]);
                length = window.length();
                source = Box::new(window);
            }
        }
        if let Some(format) = foreign::name(&head) {
            return Err(Error::Foreign {
                path: name.to_owned(),
                format,
                ffmpeg: None,
            });
        }
        let (container, header) = if wav::is_wav(&head) {
            let container = if head.starts_with(b"RIFX") { "rifx" } else { "wav" };
            (container, wav::header(&mut source, length))
        } else if w64::is_w64(&head) {
            ("w64", w64::header(&mut source, length))
        } else if aiff::is_aiff(&head) {
            ("aiff", aiff::header(&mut source, length))
        } else if au::is_au(&head) {
            ("au", au::header(&mut source, length))
        } else if caf::is_caf(&head) {
            ("caf", caf::header(&mut source))
        } else {
            return Self::packets(source, length, name, Metadata::default());
        };
        let sound = header.map_err(|fault| match fault {
            Fault::Read(source) => read(source),
            Fault::What(what) => Error::Header {
                path: name.to_owned(),
                container: container.to_owned(),
                what,
            },
        })?;
        Self::sound(source, length, name, sound)
    }

    /// The sound of a file whose header has been read.
    fn sound(mut source: Box<dyn Source>, length: u64, name: &Path, sound: Sound) -> Result<Self, Error> {
        check_shape(name, sound.rate, sound.channels)?;
        let (mut start, mut bytes) = (sound.start, sound.bytes);
        let there = length.saturating_sub(start);
        let first = (start, bytes.map_or(there, |bytes| bytes.min(there)));
        if !sound.more.is_empty() {
            let window = Window::new(source, [&[first], &sound.more[..]].concat());
            (start, bytes) = (0, Some(window.length()));
            source = Box::new(window);
        }
        let path = name.to_owned();
        if let Err(source) = source.seek(SeekFrom::Start(start)) {
            return Err(Error::Read { path, source });
        }
        let (codec, expected, body) = match sound.kind {
            Kind::Linear(layout) => {
                let frames = bytes.map(|bytes| bytes / layout.frame_bytes() as u64);
                let body = Body::Pcm(Pcm::new(source, layout, bytes, sound.more.is_empty()));
                (layout.coding.name(), frames, body)
            }
            Kind::Adpcm(blocks, keep) => {
                let held = bytes.map(|bytes| blocks.frames_of(bytes));
                let frames = [held, keep].into_iter().flatten().min();
                let body = Body::Adpcm(Box::new(Adpcm::new(source, blocks, bytes, keep)));
                (blocks.name().to_owned(), frames, body)
            }
            Kind::Stream(codec) => {
                let part = if sound.more.is_empty() {
                    first
                } else {
                    (0, bytes.unwrap_or(0))
                };
                let window = Window::new(source, vec![part]);
                let length = window.length();
                let opened = Self::packets(Box::new(window), length, name, sound.metadata);
                let mut decoder = opened.map_err(|error| match error {
                    Error::Unknown { path } => Error::Codec {
                        path,
                        codec: codec.to_owned(),
                        what: "no frame of it is found".to_owned(),
                    },
                    error => error,
                })?;
                sound.container.clone_into(&mut decoder.info.container);
                let mut more = sound.more.iter();
                decoder.cut = sound.bytes.is_some_and(|bytes| bytes > there)
                    || more.any(|&(place, bytes)| place.saturating_add(bytes) > length);
                return Ok(decoder);
            }
            Kind::Table(plan) => {
                let opened = plan.open(source, length, sound.metadata);
                let opened = opened.and_then(|(format, heard)| Packets::open_demux(Box::new(format), heard));
                let (packets, about) = opened.map_err(|r| refusal(name, r))?;
                return Self::packets_of(Box::new(packets), about, name, Metadata::default());
            }
            Kind::Foreign(format) => {
                let ffmpeg = None;
                return Err(Error::Foreign { path, format, ffmpeg });
            }
            Kind::Unknown(codec) => {
                let what = "not supported".to_owned();
                return Err(Error::Codec { path, codec, what });
            }
        };
        let info = Info {
            container: sound.container.to_owned(),
            codec,
            rate: sound.rate,
            channels: sound.channels,
            seconds: expected.map(|frames| frames as f64 / f64::from(sound.rate)),
            metadata: sound.metadata,
        };
        Ok(Self::new(name, info, body, expected))
    }

    fn packets(source: Box<dyn Source>, length: u64, name: &Path, own: Metadata) -> Result<Self, Error> {
        match Packets::open(source, length).map_err(|r| refusal(name, r))? {
            Opened::Sound(source, sound, frames) => {
                let mut decoder = Self::sound(source, length, name, *sound)?;
                decoder.enough = frames;
                Ok(decoder)
            }
            Opened::Packets(packets, about) => Self::packets_of(packets, *about, name, own),
        }
    }

    fn packets_of(packets: Box<Packets>, about: About, name: &Path, own: Metadata) -> Result<Self, Error> {
        let About {
            container,
            codec,
            rate,
            channels,
            seconds,
            expected,
            metadata,
        } = about;
        check_shape(name, rate, channels)?;
        let metadata = if own == Metadata::default() { metadata } else { own };
        let info = Info {
            container: container.to_owned(),
            codec,
            rate,
            channels,
            seconds,
            metadata,
        };
        Ok(Self::new(name, info, Body::Packets(packets), expected))
    }

    fn new(name: &Path, info: Info, body: Body, expected: Option<u64>) -> Self {
        let path = name.to_owned();
        Self {
            path,
            info,
            body,
            expected,
            cut: false,
            enough: None,
            block: Vec::new(),
            first: false,
            frames: 0,
            ended: false,
            damage: None,
        }
    }

    /// What the header says.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// What was wrong so far; complete once [`Decoder::next_block`] has given `None`.
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    /// How many samples have been given.
    pub fn samples_so_far(&self) -> u64 {
        let waiting = if self.first { self.block.len() } else { 0 };
        self.frames - waiting as u64
    }

    fn seconds_so_far(&self) -> f64 {
        self.frames as f64 / f64::from(self.info.rate)
    }

    /// The next samples: at least one, at most a packet or some thousands. `None` at the end, ever after.
    ///
    /// # Errors
    /// If the file cannot be read any more, holds a number that is not finite, or ends without one sample.
    pub fn next_block(&mut self) -> Result<Option<&[f32]>, Error> {
        if !std::mem::take(&mut self.first) {
            self.advance()?;
        }
        Ok((!self.block.is_empty()).then_some(self.block.as_slice()))
    }

    /// Decodes into `self.block`, which stays empty only at the end.
    fn advance(&mut self) -> Result<(), Error> {
        self.block.clear();
        let mut empty = 0;
        while !self.ended && self.block.is_empty() {
            let step = match &mut self.body {
                Body::Packets(packets) => packets.next(&mut self.block),
                Body::Pcm(pcm) => pcm.next(&mut self.block),
                Body::Adpcm(adpcm) => adpcm.next(&mut self.block),
                Body::Ffmpeg(ffmpeg) => ffmpeg.next(&mut self.block),
            };
            let step = step.map_err(|source| {
                self.ended = true;
                Error::Read {
                    path: self.path.clone(),
                    source,
                }
            })?;
            empty += 1;
            if let Step::Skipped(what) = &step {
                let damage = self.note(what.clone());
                damage.skipped_packets += 1;
            }
            if let Step::Flawed(what) = &step {
                self.note(what.clone());
            }
            let go_on = empty < MAX_EMPTY_PACKETS || !self.block.is_empty();
            match step {
                Step::Samples | Step::Flawed(_) | Step::Skipped(_) if go_on => {}
                Step::Samples | Step::Flawed(_) | Step::Skipped(_) => {
                    self.stop("nothing but packets without sound follows".to_owned())?;
                }
                Step::Broken(what) => self.stop(what)?,
                Step::BrokeDown if self.frames == 0 => {
                    self.ended = true;
                    return Err(Error::Decoder {
                        path: self.path.clone(),
                    });
                }
                Step::BrokeDown => self.stop("the decoder failed on the data that follows".to_owned())?,
                Step::End => self.end()?,
            }
        }
        self.check_finite()?;
        self.frames += self.block.len() as u64;
        Ok(())
    }

    /// Keeps the first fault.
    fn note(&mut self, what: String) -> &mut Damage {
        let after_seconds = self.seconds_so_far();
        self.damage.get_or_insert(Damage {
            after_seconds,
            what,
            skipped_packets: 0,
        })
    }

    fn stop(&mut self, what: String) -> Result<(), Error> {
        if what != CUT || !self.is_enough() {
            self.note(what);
        }
        self.ended = true;
        self.check_not_empty()
    }

    fn end(&mut self) -> Result<(), Error> {
        self.ended = true;
        if let Some(expected) = self.expected.filter(|&expected| self.frames < expected) {
            let declared = self
                .info
                .seconds
                .unwrap_or(expected as f64 / f64::from(self.info.rate));
            let there = self.seconds_so_far();
            let (all, found) = (format!("{declared:.3} s"), format!("{there:.3} s"));
            let frames = (declared * f64::from(self.info.rate)).round();
            let found = if all == found {
                format!("{} of {frames} frames", self.frames)
            } else {
                found
            };
            self.note(format!("the header declares {all}, but only {found} are there"));
        } else if self.cut && !self.is_enough() {
            self.note(CUT.to_owned());
        }
        self.check_not_empty()
    }

    fn is_enough(&self) -> bool {
        let frames = self.frames + self.block.len() as u64;
        self.enough.is_some_and(|enough| frames >= enough)
    }

    fn check_not_empty(&self) -> Result<(), Error> {
        if self.frames > 0 {
            return Ok(());
        }
        let what = self
            .damage
            .as_ref()
            .map_or_else(|| "it holds no sound".to_owned(), |d| d.what.clone());
        Err(Error::Empty {
            path: self.path.clone(),
            what,
        })
    }

    /// Only floating-point files can hold such numbers: the other path has looked already.
    fn check_finite(&mut self) -> Result<(), Error> {
        let found = match &self.body {
            Body::Pcm(pcm) if !pcm.is_float() => None,
            Body::Packets(_) | Body::Adpcm(_) => None,
            Body::Pcm(_) | Body::Ffmpeg(_) => self.block.iter().position(|s| !s.is_finite()),
        };
        let Some(index) = found else { return Ok(()) };
        self.ended = true;
        let at_seconds = (self.frames + index as u64) as f64 / f64::from(self.info.rate);
        Err(Error::NotFinite {
            path: self.path.clone(),
            at_seconds,
        })
    }
}

/// What a file says about itself, without decoding any of it.
///
/// # Errors
/// As [`Decoder::open`].
pub fn probe(path: &Path) -> Result<Info, Error> {
    Decoder::open(path).map(|decoder| decoder.info)
}

/// Whether a file begins as one whose header is read here.
fn has_own_header(head: &[u8]) -> bool {
    let kinds = [wav::is_wav, w64::is_w64, aiff::is_aiff, au::is_au, caf::is_caf];
    kinds.iter().any(|is| is(head))
}

fn check_shape(path: &Path, rate: u32, channels: usize) -> Result<(), Error> {
    if !(1..=MAX_CHANNELS).contains(&channels) {
        return Err(Error::Channels {
            path: path.to_owned(),
            channels,
        });
    }
    if !(LOWEST_RATE..=HIGHEST_RATE).contains(&rate) {
        return Err(Error::Rate {
            path: path.to_owned(),
            rate,
        });
    }
    Ok(())
}

/// The refusal, with what ffmpeg says of the file where it was tried.
fn with_complaint(refused: Error, why: NoFfmpeg) -> Error {
    match (refused, why) {
        (Error::Foreign { path, format, .. }, NoFfmpeg::Failed(complaint)) => Error::Foreign {
            path,
            format,
            ffmpeg: Some(complaint),
        },
        (refused, _) => refused,
    }
}

fn refusal(path: &Path, refusal: Refusal) -> Error {
    let path = path.to_owned();
    match refusal {
        Refusal::Read(source) => Error::Read { path, source },
        Refusal::Unknown => Error::Unknown { path },
        Refusal::Header { container, what } => Error::Header {
            path,
            container,
            what,
        },
        Refusal::NoAudio => Error::NoAudio { path },
        Refusal::Codec { codec, what } => Error::Codec { path, codec, what },
        Refusal::BrokeDown => Error::Decoder { path },
        Refusal::Channels(channels) => Error::Channels { path, channels },
    }
}
