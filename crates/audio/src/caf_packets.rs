//! The packets of a CAF file, by its table.
//!
//! In: the codec, the decoder's configuration (`kuki`) and the table of packets (`pakt`). Out: the packets of ALAC, AAC, FLAC
//! and Opus, with the frames of run-up and padding.

use std::io;

use symphonia::core::codecs::audio::AudioCodecId;
use symphonia::core::codecs::audio::well_known::{CODEC_ID_AAC, CODEC_ID_ALAC, CODEC_ID_FLAC, CODEC_ID_OPUS};

use crate::chunks::big;
use crate::metadata::Metadata;
use crate::mp4_entry::decoder_config;
use crate::source::{Places, Source};
use crate::track::{CUT, Coded, Demux, Heard, Refusal, Unit, flac_stream_info, header_fault, parameters};

/// Compressed packets are never as long as this, in bytes or in frames.
pub(crate) const MAX_PACKET: u64 = 1 << 20;

/// Bytes of the `pakt` chunk before the table.
const TABLE_HEAD: usize = 24;

/// Codecs whose packets have sizes in a table.
#[derive(Clone, Copy)]
pub(crate) enum Codec {
    Alac,
    Aac,
    Flac,
    Opus,
}

impl Codec {
    pub(crate) fn of(letters: &[u8]) -> Option<Self> {
        Some(match letters {
            b"alac" => Self::Alac,
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
pub(crate) struct Counts {
    pub packets: u64,
    /// Frames to be heard.
    pub valid: Option<u64>,
    pub priming: u64,
}

impl Counts {
    pub(crate) fn parse(table: &[u8]) -> Option<Self> {
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
    pub cookie: Vec<u8>,
    pub table: Vec<u8>,
    pub has_table: bool,
    /// Where the packets begin, and how many bytes they have if that is known.
    pub place: u64,
    pub bytes: Option<u64>,
}

impl Plan {
    pub(crate) fn new(
        codec: Codec,
        rate: u32,
        channels: usize,
        packet_bytes: u64,
        packet_frames: u64,
    ) -> Self {
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
