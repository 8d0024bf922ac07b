//! CAF.
//!
//! In: a source whose first bytes are `caff`. Out: where the sound is and how it is coded, and the texts of the chunk `info`.
//! Linear samples, A-law, mu-law and Apple's IMA ADPCM lie one after the other. ALAC, AAC, FLAC and Opus come in packets, whose
//! sizes stand in the chunk `pakt`, with the frames of run-up and padding. Files follow Apple's Core Audio Format
//! Specification 1.0.
//!
//! This is written here because symphonia refuses a CAF file that is cut short, and such a file still has sound; it also keeps
//! the run-up and padding, and does not know the header that Opus needs.

use std::io::{self, SeekFrom};

use symphonia::core::codecs::audio::AudioCodecId;
use symphonia::core::codecs::audio::well_known::{CODEC_ID_AAC, CODEC_ID_ALAC, CODEC_ID_FLAC, CODEC_ID_OPUS};

use crate::aiff::{big, compressed_kind};
use crate::metadata::{MAX_TEXT_BYTES, Metadata, clean, keep_first};
use crate::mp4::decoder_config;
use crate::pcm::{Coding, Layout, MAX_CHANNELS};
use crate::sound::{Fault, Kind, Sound};
use crate::source::{Places, Source, read_bounded, read_up_to};
use crate::track::{CUT, Coded, Demux, Heard, Refusal, Unit, flac_stream_info, header_fault, parameters};

/// Compressed packets are never as long as this, in bytes or in frames.
const MAX_PACKET: u64 = 1 << 20;

/// More chunks than this are not looked at.
const MAX_CHUNKS: usize = 4096;

/// The longest table of packets that is read: enough for some weeks of sound.
const MAX_TABLE: usize = 64 << 20;

/// The longest configuration of a decoder.
const MAX_COOKIE: usize = 64 << 10;

/// Bytes of the `pakt` chunk before the table.
const TABLE_HEAD: usize = 24;

pub(crate) fn is_caf(head: &[u8]) -> bool {
    head.starts_with(b"caff")
}

/// What the `desc` chunk says.
struct Description {
    rate: u32,
    channels: usize,
    kind: Kind,
}

pub(crate) fn header(source: &mut dyn Source) -> Result<Sound, Fault> {
    let mut next = 8_u64;
    let (mut description, mut data) = (None, None);
    let (mut table, mut cookie) = (None, None);
    let mut metadata = Metadata::default();
    for _ in 0..MAX_CHUNKS {
        source.seek(SeekFrom::Start(next))?;
        let mut head = [0; 12];
        if read_up_to(source, &mut head)? < head.len() {
            break;
        }
        let start = next + 12;
        let size = big(&head, 4, 8).unwrap_or(0);
        match &head[..4] {
            b"desc" if description.is_none() => {
                description = Some(parse_description(&read_bounded(source, size, 32)?)?);
            }
            // The first four bytes count the edits. A size of -1 stands for all that follows.
            b"data" if data.is_none() => {
                data = Some((start + 4, (size != u64::MAX).then(|| size.saturating_sub(4))));
            }
            b"pakt" if table.is_none() => table = Some(read_bounded(source, size, MAX_TABLE)?),
            b"kuki" if cookie.is_none() => cookie = Some(read_bounded(source, size, MAX_COOKIE)?),
            b"info" => take_texts(&read_bounded(source, size, 4 * MAX_TEXT_BYTES)?, &mut metadata),
            _ => {}
        }
        next = match start.checked_add(size) {
            Some(next) if i64::try_from(next).is_ok() => next,
            _ => break,
        };
    }
    let Description {
        rate,
        channels,
        mut kind,
    } = description.ok_or("there is no `desc` chunk")?;
    let (start, bytes) = data.ok_or("there is no `data` chunk")?;
    let counted = table.as_deref().and_then(Counts::parse);
    match &mut kind {
        Kind::Adpcm(_, keep) => *keep = counted.and_then(|counts| counts.valid),
        Kind::Table(plan) => {
            plan.place = start;
            plan.bytes = bytes;
            plan.cookie = cookie.unwrap_or_default();
            plan.has_table = table.is_some();
            plan.table = table.unwrap_or_default();
        }
        _ => {}
    }
    Ok(Sound {
        container: "caf",
        rate,
        channels,
        kind,
        start,
        bytes,
        more: Vec::new(),
        metadata,
    })
}

fn parse_description(body: &[u8]) -> Result<Description, Fault> {
    let field = |at, size| big(body, at, size).ok_or("the `desc` chunk is shorter than 32 bytes");
    let rate = f64::from_bits(field(0, 8)?).round();
    let rate = if (0.0..4e9).contains(&rate) {
        rate as u32
    } else {
        0
    };
    let letters = body.get(8..12).unwrap_or_default().to_ascii_lowercase();
    let (flags, packet_bytes, packet_frames) = (field(12, 4)?, field(16, 4)?, field(20, 4)?);
    let (channels, bits) = (field(24, 4)? as usize, field(28, 4)?);
    let linear = |coding, big_endian| {
        Kind::Linear(Layout {
            coding,
            big_endian,
            channels,
        })
    };
    let kind = match letters.as_slice() {
        b"lpcm" if !(1..=MAX_CHANNELS).contains(&channels) => {
            // That has its own error, for every container.
            linear(Coding::Unsigned8, true)
        }
        b"lpcm" => {
            let width = sample_bytes(packet_bytes, packet_frames, channels);
            let coding = match (flags & 1, bits, width) {
                (0, 1..=64, Some(width @ 1..=8)) if bits <= 8 * width => Coding::Integer(width as usize),
                (1, 32, Some(4)) => Coding::Float32,
                (1, 64, Some(8)) => Coding::Float64,
                _ => {
                    return Err(Fault::What(format!(
                        "samples of {bits} bits in packets of {packet_bytes} bytes, {packet_frames} frames and \
                         {channels} channels"
                    )));
                }
            };
            linear(coding, flags & 2 == 0)
        }
        b"alaw" => linear(Coding::ALaw, true),
        b"ulaw" => linear(Coding::MuLaw, true),
        letters => match Codec::of(letters) {
            Some(codec) => {
                if packet_bytes > MAX_PACKET || packet_frames > MAX_PACKET {
                    return Err(Fault::What(format!(
                        "packets of {packet_bytes} bytes and {packet_frames} frames"
                    )));
                }
                Kind::Table(Box::new(Plan::new(
                    codec,
                    rate,
                    channels,
                    packet_bytes,
                    packet_frames,
                )))
            }
            None => compressed_kind(letters, channels)?,
        },
    };
    Ok(Description { rate, channels, kind })
}

/// How many bytes one sample takes, which may be more than its bits need: 24 bits often stand in 4 bytes. The
/// format has no flag for where in them; they are taken to be the highest ones, as in WAV files. `None` if
/// the bytes of a packet cannot be shared out evenly.
fn sample_bytes(packet_bytes: u64, packet_frames: u64, channels: usize) -> Option<u64> {
    let samples = packet_frames.checked_mul(channels as u64)?;
    (samples > 0 && packet_bytes.is_multiple_of(samples)).then(|| packet_bytes / samples)
}

/// Pairs of texts that each end in a zero byte, after a count that is not needed.
fn take_texts(body: &[u8], metadata: &mut Metadata) {
    let mut texts = body.get(4..).unwrap_or_default().split(|&b| b == 0);
    while let (Some(key), Some(value)) = (texts.next(), texts.next()) {
        let field = match key.to_ascii_lowercase().as_slice() {
            b"title" => &mut metadata.title,
            b"artist" => &mut metadata.artist,
            b"description" | b"subject" => &mut metadata.description,
            b"comments" | b"comment" => &mut metadata.comment,
            b"recorded date" | b"date" | b"year" => &mut metadata.date,
            _ => continue,
        };
        keep_first(field, clean(value));
    }
}

/// Codecs whose packets have sizes in a table.
#[derive(Clone, Copy)]
enum Codec {
    Alac,
    Aac,
    Flac,
    Opus,
}

impl Codec {
    fn of(letters: &[u8]) -> Option<Self> {
        Some(match letters {
            b"alac" => Self::Alac,
            // The two with spectral band replication: their core is decoded.
            b"aac " | b"aach" | b"aacp" => Self::Aac,
            b"flac" => Self::Flac,
            b"opus" => Self::Opus,
            _ => return None,
        })
    }

    fn id(self) -> AudioCodecId {
        match self {
            Self::Alac => CODEC_ID_ALAC,
            Self::Aac => CODEC_ID_AAC,
            Self::Flac => CODEC_ID_FLAC,
            Self::Opus => CODEC_ID_OPUS,
        }
    }

    /// What the decoder wants to know, out of the chunk `kuki`.
    fn configuration(self, cookie: &[u8], channels: usize) -> Vec<u8> {
        match self {
            // Older files wrap it in the atoms `frma` and `alac`.
            Self::Alac if cookie.get(4..8) == Some(b"frma") => cookie.get(24..).unwrap_or_default().to_vec(),
            // Apple writes descriptors as MP4 has them, without version and flags; others the configuration alone.
            Self::Aac if cookie.first() == Some(&3) => {
                let esds = [&[0; 4], cookie].concat();
                decoder_config(&esds).map_or(Vec::new(), |(_, specific)| specific.to_vec())
            }
            Self::Alac | Self::Aac => cookie.to_vec(),
            Self::Flac => flac_stream_info(cookie)
                .or_else(|| cookie.len().checked_sub(34).and_then(|at| cookie.get(at..)))
                .unwrap_or_default()
                .to_vec(),
            Self::Opus if cookie.starts_with(b"OpusHead") => cookie.to_vec(),
            // Apple writes a header of its own, which repeats the description.
            Self::Opus => {
                let channels = u8::try_from(channels).unwrap_or(u8::MAX);
                let mut head = b"OpusHead\x01".to_vec();
                head.extend([channels, 0, 0, 0x80, 0xbb, 0, 0, 0, 0, 0]);
                head
            }
        }
    }
}

/// The counts before the table of packets.
#[derive(Clone, Copy)]
struct Counts {
    packets: u64,
    /// Frames to be heard.
    valid: Option<u64>,
    priming: u64,
}

impl Counts {
    fn parse(table: &[u8]) -> Option<Self> {
        Some(Self {
            packets: big(table, 0, 8)?,
            valid: big(table, 8, 8).filter(|&valid| valid > 0 && i64::try_from(valid).is_ok()),
            priming: big(table, 16, 4).filter(|&priming| priming < 1 << 31)?,
        })
    }
}

/// What is needed to read the packets.
pub(crate) struct Plan {
    codec: Codec,
    rate: u32,
    channels: usize,
    /// 0 where the table says it for each packet.
    packet_bytes: u64,
    packet_frames: u64,
    cookie: Vec<u8>,
    table: Vec<u8>,
    has_table: bool,
    /// Where the packets begin, and how many bytes they have if that is known.
    place: u64,
    bytes: Option<u64>,
}

impl Plan {
    fn new(codec: Codec, rate: u32, channels: usize, packet_bytes: u64, packet_frames: u64) -> Self {
        Self {
            codec,
            rate,
            channels,
            packet_bytes,
            packet_frames,
            cookie: Vec::new(),
            table: Vec::new(),
            has_table: false,
            place: 0,
            bytes: None,
        }
    }

    /// The stream information of FLAC, for files that leave it out: with the bits per sample of the first frame's header.
    fn stream_info(&self, frame: &[u8]) -> Option<Vec<u8>> {
        let bits = [0, 8, 12, 0, 16, 20, 24, 32][usize::from(*frame.get(3)? >> 1 & 7)];
        let channels = u64::try_from(self.channels)
            .ok()
            .filter(|n| (1..=8).contains(n))?;
        if bits == 0 {
            return None;
        }
        // Blocks of 16 to 65535 frames, and frames of any size.
        let mut info = vec![0, 16, 0xff, 0xff, 0, 0, 0, 0, 0, 0];
        // 20 bits of rate, 3 of channels, 5 of width, and a length of 0, which is not known.
        let fields = u64::from(self.rate) << 44 | (channels - 1) << 41 | (bits - 1) << 36;
        info.extend(fields.to_be_bytes());
        info.extend([0; 16]);
        Some(info)
    }

    pub(crate) fn open(
        self,
        source: Box<dyn Source>,
        length: u64,
        metadata: Metadata,
    ) -> Result<(Caf, Heard), Refusal> {
        if !self.has_table && self.packet_bytes == 0 {
            return Err(header_fault(
                "caf",
                "the table of packets (`pakt`) is missing: the file may be cut short",
            ));
        }
        let counts = Counts::parse(&self.table);
        let mut source = Places::new(source, length);
        let mut specific = self.codec.configuration(&self.cookie, self.channels);
        if specific.is_empty() && matches!(self.codec, Codec::Flac) {
            let frame = source.read(self.place, 4).map_err(Refusal::Read)?;
            specific = self.stream_info(&frame).unwrap_or_default();
        }
        let made = parameters(self.codec.id(), self.rate, self.channels, Some(&specific));
        let heard = Heard {
            container: "caf",
            coding: Coded::Packets(Box::new(made)),
            drop: counts.map(|c| c.priming).filter(|&priming| priming > 0),
            keep: counts.and_then(|c| c.valid),
            seconds: counts
                .and_then(|c| c.valid)
                .filter(|_| self.rate > 0)
                .map(|valid| valid as f64 / f64::from(self.rate)),
            metadata,
        };
        let end = self.bytes.map(|bytes| self.place.saturating_add(bytes));
        let caf = Caf {
            source,
            left: counts.map(|c| c.packets),
            at: TABLE_HEAD,
            place: self.place,
            end,
            packet_bytes: self.packet_bytes,
            states_frames: self.packet_frames == 0,
            table: self.table,
        };
        Ok((caf, heard))
    }
}

/// The packets of a CAF file.
pub(crate) struct Caf {
    source: Places,
    table: Vec<u8>,
    /// Where in the table the next packet is described.
    at: usize,
    /// Packets that are still to come, if the file counts them.
    left: Option<u64>,
    place: u64,
    end: Option<u64>,
    packet_bytes: u64,
    /// Whether the table has the frames of each packet.
    states_frames: bool,
}

impl Caf {
    /// A number of seven bits a byte, the highest first; `None` where the table ends.
    fn entry(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for _ in 0..9 {
            let byte = *self.table.get(self.at)?;
            self.at += 1;
            value = value << 7 | u64::from(byte & 127);
            if byte & 128 == 0 {
                return Some(value);
            }
        }
        None
    }
}

impl Demux for Caf {
    fn next(&mut self) -> io::Result<Unit> {
        let end = self.end.unwrap_or(u64::MAX).min(self.source.length());
        if self.left == Some(0) || (self.packet_bytes > 0 && self.place >= end) {
            let cut = self.left != Some(0) && self.end.is_some_and(|wanted| wanted > end);
            self.left = Some(0);
            return Ok(if cut {
                Unit::Broken(CUT.to_owned())
            } else {
                Unit::End
            });
        }
        let size = if self.packet_bytes == 0 {
            self.entry()
        } else {
            Some(self.packet_bytes)
        };
        let Some(size) = size.filter(|&size| size <= MAX_PACKET) else {
            self.left = Some(0);
            return Ok(Unit::Broken(
                "the table of packets ends before the sound".to_owned(),
            ));
        };
        if self.states_frames {
            let _ = self.entry();
        }
        self.left = self.left.map(|left| left - 1);
        let data = self.source.read(self.place, size as usize)?;
        self.place = self.place.saturating_add(size);
        if (data.len() as u64) < size {
            self.left = Some(0);
            return Ok(Unit::Broken(CUT.to_owned()));
        }
        Ok(Unit::Packet { data, trim: 0 })
    }
}
