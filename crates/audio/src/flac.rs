//! FLAC files: metadata blocks and frames.
//!
//! In: a source with `fLaC`, metadata blocks and frames, or with frames alone, after ID3v2 tags or none. Out: one packet per frame
//! for `flac_decode`, and the texts of the comment block. Files follow RFC 9639. A frame begins with a sync code and a header
//! that its CRC-8 confirms, and ends where its CRC-16 is met and the file ends or another header stands. Data between such frames is
//! passed over and reported with the length that is missing by the numbers of the frames. Blocks other than STREAMINFO and comments
//! are skipped unread. A frame whose rate, channels or width differ from those before it starts a new stream.
//!
//! This is written here because symphonia refuses files for faults in blocks that hold no sound (cue sheets, tables), stops at damage,
//! and ignores the sample rate of frames.

mod seek;

use std::collections::VecDeque;
use std::io;

use symphonia::core::codecs::audio::AudioCodecParameters;
use symphonia::core::codecs::audio::well_known::CODEC_ID_FLAC;

use crate::flac_decode::FlacDecoder;
use crate::flac_frame::Header;
use crate::id3;
use crate::metadata::{Metadata, vorbis_comments};
use crate::points::Points;
use crate::source::Places;
use crate::track::{CUT, Coded, Demux, Heard, Refusal, Unit, header_fault, parameters};

/// The length of STREAMINFO.
const INFO: usize = 34;

/// The longest header of a frame.
const MAX_HEADER: usize = 16;

/// The longest comment block that is read.
const MAX_COMMENTS: usize = 1 << 20;

/// More blocks than this are not read.
const MAX_BLOCKS: usize = 65_536;

/// The largest block that symphonia decodes, in samples.
const MAX_BLOCK: u32 = 65_535;

/// How far the first frame is searched for in a file that does not begin with one, and how many headers may be no frame's.
const MAX_SEARCH: u64 = 64 << 10;
const MAX_ATTEMPTS: usize = 16;

/// How other files begin in which frames need not be searched for.
const OTHERS: [&[u8]; 6] = [b"RIFF", b"RF64", b"caff", b"OggS", b"TAG", b"APETAGEX"];

/// How much is read at a time.
const PIECE: usize = 64 << 10;

/// What follows the last frame in some files: tags of other formats.
const TAGS: [&[u8]; 4] = [b"TAG", b"APETAGEX", b"ID3", b"fLaC"];

/// Where a FLAC stream begins: after tags, at `fLaC`, or at a frame that is whole. `None` if there is none. In a file that begins like
/// no other format, bytes before the first frame are passed over.
pub(crate) fn start(source: &mut Places) -> io::Result<Option<u64>> {
    let at = id3::end_of_tags(source)?;
    let head = source.read(at, MAX_HEADER)?;
    if head.starts_with(b"fLaC") {
        return Ok(Some(at));
    }
    let other = at > 0 || OTHERS.iter().any(|mark| head.starts_with(mark));
    let synced = head.first() == Some(&0xff);
    if other || (synced && Header::parse(&head).is_none()) {
        return Ok(None);
    }
    let last = if synced { at } else { at + MAX_SEARCH };
    let mut frames = Frames::new(at);
    let mut attempts = 0;
    while frames.place() <= last && attempts < MAX_ATTEMPTS {
        frames.fill(source, MAX_HEADER)?;
        if frames.rest().is_empty() {
            break;
        }
        if let Some(header) = Header::parse(frames.rest()) {
            if frames.length_of(source, &header, false)?.is_some() {
                return Ok(Some(frames.place()));
            }
            attempts += 1;
        }
        frames.skip_to_sync();
    }
    Ok(None)
}

/// What STREAMINFO says, and what of it may be needed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Info {
    shape: Shape,
    least_block: u32,
    most_block: u32,
    total: Option<u64>,
    md5: [u8; 16],
}

/// What a decoder is made for.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shape {
    rate: u32,
    channels: u32,
    bits: u32,
}

impl Info {
    fn parse(block: &[u8]) -> Option<Self> {
        let block: &[u8; INFO] = block.first_chunk()?;
        let wide = |from: usize, count: usize| {
            let bytes = &block[from..from + count];
            bytes
                .iter()
                .fold(0_u64, |value, &byte| value << 8 | u64::from(byte))
        };
        let packed = wide(10, 8);
        let shape = Shape {
            rate: (packed >> 44) as u32,
            channels: (packed >> 41 & 7) as u32 + 1,
            bits: (packed >> 36 & 31) as u32 + 1,
        };
        let total = packed & 0xf_ffff_ffff;
        Some(Self {
            shape,
            least_block: wide(0, 2) as u32,
            most_block: wide(2, 2) as u32,
            total: (total > 0).then_some(total),
            md5: *block.last_chunk()?,
        })
    }

    /// Of a stream without STREAMINFO, by its first frame.
    fn of_frame(header: &Header) -> Option<Self> {
        Some(Self {
            shape: Shape {
                rate: header.rate?,
                channels: header.channels,
                bits: header.bits?,
            },
            least_block: header.block,
            most_block: MAX_BLOCK,
            total: None,
            md5: [0; 16],
        })
    }

    /// The block as symphonia accepts it: without the bounds that some writers get wrong and no decoder needs.
    fn bytes(&self) -> Vec<u8> {
        let most = if self.most_block < 16 {
            MAX_BLOCK
        } else {
            self.most_block
        };
        let mut out = 16_u16.to_be_bytes().to_vec();
        out.extend((most as u16).to_be_bytes());
        out.extend([0; 6]);
        let Shape { rate, channels, bits } = self.shape;
        let packed = u64::from(rate) << 44 | u64::from(channels - 1) << 41 | u64::from(bits - 1) << 36;
        out.extend((packed | self.total.unwrap_or(0)).to_be_bytes());
        out.extend(self.md5);
        out
    }

    fn parameters(&self) -> AudioCodecParameters {
        let Shape { rate, channels, .. } = self.shape;
        parameters(CODEC_ID_FLAC, rate, channels as usize, Some(&self.bytes()))
    }
}

/// The decoder's parameters for a STREAMINFO that stands in another container.
pub(crate) fn parameters_of(block: &[u8]) -> Option<AudioCodecParameters> {
    Info::parse(block).map(|info| info.parameters())
}

/// The decoder for a STREAMINFO; `None` if it is cut.
pub(crate) fn decoder(block: &[u8]) -> Option<FlacDecoder> {
    let Info { shape, md5, .. } = Info::parse(block)?;
    let Shape { rate, channels, bits } = shape;
    Some(FlacDecoder::new(rate, channels as usize, bits, md5))
}

/// The length that STREAMINFO states, or that of so many samples.
pub(crate) fn seconds_of(block: &[u8], samples: Option<u64>) -> Option<f64> {
    let info = Info::parse(block)?;
    Some(info.total.or(samples)? as f64 / f64::from(info.shape.rate.max(1)))
}

impl Header {
    fn shape(&self, info: &Info) -> Shape {
        Shape {
            rate: self.rate.unwrap_or(info.shape.rate),
            channels: self.channels,
            bits: self.bits.unwrap_or(info.shape.bits),
        }
    }

    /// More bytes than any encoder makes of the block: twice what it takes uncompressed, and some.
    fn most_bytes(&self) -> usize {
        let sample = (self.bits.unwrap_or(32) as usize + 1).div_ceil(8);
        2 * sample * self.channels as usize * self.block as usize + PIECE
    }
}

/// Eight bytes at a time: `CRC16[n]` is `CRC16[0]` so many zero bytes later.
static CRC16: [[u16; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            sum = sum << 1 ^ if sum >> 15 == 1 { 0x8005 } else { 0 };
            bit += 1;
        }
        tables[0][byte] = sum;
        byte += 1;
    }
    let mut n = 1;
    while n < 8 {
        byte = 0;
        while byte < 256 {
            let sum = tables[n - 1][byte];
            tables[n][byte] = sum << 8 ^ tables[0][(sum >> 8) as usize];
            byte += 1;
        }
        n += 1;
    }
    tables
};

/// Over a whole frame it gives 0, because the frame's own sum stands at its end.
fn crc16(sum: u16, bytes: &[u8]) -> u16 {
    let (eights, rest) = bytes.as_chunks::<8>();
    let sum = eights.iter().fold(sum, |sum, &[a, b, eight @ ..]| {
        let [high, low] = sum.to_be_bytes();
        let first = CRC16[7][usize::from(a ^ high)] ^ CRC16[6][usize::from(b ^ low)];
        let others = eight.iter().zip(CRC16[..6].iter().rev());
        others.fold(first, |sum, (&byte, table)| sum ^ table[usize::from(byte)])
    });
    rest.iter().fold(sum, |sum, &byte| crc16_of(sum, byte))
}

fn crc16_of(sum: u16, byte: u8) -> u16 {
    sum << 8 ^ CRC16[0][usize::from((sum >> 8) as u8 ^ byte)]
}

/// Where the next two bytes of a sync code stand, from `from` on. A first byte at the very end counts.
fn next_sync(bytes: &[u8], from: usize) -> Option<usize> {
    let is_sync = |(&a, &b): (&u8, &u8)| a == 0xff && b & 0xfe == 0xf8;
    let mut at = from;
    loop {
        let rest = bytes.get(at..)?;
        let count = rest.len().checked_sub(1)?.min(256);
        if count == 0 {
            return (rest[0] == 0xff).then_some(at);
        }
        let pairs = || rest[..count].iter().zip(&rest[1..]);
        // Without a way out in between, many bytes are looked at at once.
        let found = pairs().map(|(&a, &b)| u8::from(a == 0xff) & u8::from(b & 0xfe == 0xf8));
        if found.fold(0, |any, this| any | this) != 0 {
            return pairs().position(is_sync).map(|found| at + found);
        }
        at += count;
    }
}

/// The part of a file that is looked at.
struct Frames {
    held: Vec<u8>,
    /// Where the first held byte stands in the file.
    place: u64,
    /// The held bytes before this one are done with.
    at: usize,
    ended: bool,
}

impl Frames {
    fn new(place: u64) -> Self {
        Self {
            held: Vec::new(),
            place,
            at: 0,
            ended: false,
        }
    }

    fn rest(&self) -> &[u8] {
        &self.held[self.at..]
    }

    fn place(&self) -> u64 {
        self.place + self.at as u64
    }

    /// Holds at least `count` bytes of the rest, or all of it.
    fn fill(&mut self, source: &mut Places, count: usize) -> io::Result<()> {
        while !self.ended && self.rest().len() < count {
            if self.at > PIECE {
                self.held.drain(..self.at);
                self.place += self.at as u64;
                self.at = 0;
            }
            let piece = source.read(self.place + self.held.len() as u64, PIECE)?;
            self.ended = piece.is_empty();
            self.held.extend_from_slice(&piece);
        }
        Ok(())
    }

    /// Moves on to the next place within what is held where a frame may begin.
    fn skip_to_sync(&mut self) {
        let next = next_sync(&self.held, self.at + 1).unwrap_or(self.held.len());
        self.at = next.min(self.held.len());
    }

    /// The length of the frame whose header stands here; `None` if no end meets its checksum. What follows a frame that
    /// `may_end` the stream may be anything.
    fn length_of(
        &mut self,
        source: &mut Places,
        header: &Header,
        may_end: bool,
    ) -> io::Result<Option<usize>> {
        let most = header.most_bytes();
        let (mut sum, mut summed) = (0, 0);
        let mut from = header.length;
        while from <= most {
            let next = next_sync(self.rest(), from);
            let seen = next.unwrap_or(self.rest().len());
            if self.rest().len() < seen + MAX_HEADER && !self.ended {
                from = seen.max(from);
                self.fill(source, seen + MAX_HEADER)?;
                continue;
            }
            let Some(next) = next else {
                return Ok(self.length_of_last(header, may_end));
            };
            if Header::parse(&self.rest()[next..]).is_some() {
                sum = crc16(sum, &self.rest()[summed..next]);
                summed = next;
                if sum == 0 {
                    return Ok(Some(next));
                }
            }
            from = next + 1;
        }
        Ok(None)
    }

    /// As [`Frames::length_of`], where no other frame follows.
    fn length_of_last(&self, header: &Header, may_end: bool) -> Option<usize> {
        let rest = self.rest();
        let mut sum = 0;
        let mut last = None;
        for (i, &byte) in rest.iter().enumerate() {
            sum = crc16_of(sum, byte);
            let end = i + 1;
            if sum != 0 || end <= header.length {
                continue;
            }
            let after = &rest[end..];
            if after.is_empty() || TAGS.iter().any(|tag| after.starts_with(tag)) {
                return Some(end);
            }
            // A sum that is met by chance makes the frame too long at worst, which does no harm.
            last = may_end.then_some(end);
        }
        last
    }
}

/// A FLAC file, frame by frame.
pub(crate) struct Flac {
    source: Places,
    frames: Frames,
    info: Info,
    /// What the decoder was last made for.
    shape: Shape,
    /// Samples by the numbers of the frames: where the next frame should begin.
    expected: u64,
    /// Whether a frame has been given.
    begun: bool,
    /// The samples of the first frame.
    first_block: u32,
    /// How many more bytes may be looked at in vain.
    effort: u64,
    ready: VecDeque<Unit>,
}

impl Flac {
    /// `at` is where the stream begins, see [`start`].
    pub(crate) fn open(mut source: Places, at: u64) -> Result<(Self, Heard), Refusal> {
        let mut metadata = Metadata::default();
        let (info, first) = blocks(&mut source, at, &mut metadata).map_err(Refusal::Read)?;
        if let Some(tags) = id3::texts(&mut source).map_err(Refusal::Read)? {
            metadata.fill_from(tags);
        }
        let mut frames = Frames::new(first);
        let info = match info {
            Some(mut info) => {
                // Where the two disagree, the frames are right: they have a checksum, and STREAMINFO has none.
                let head = source.read(first, MAX_HEADER).map_err(Refusal::Read)?;
                let stated = Header::parse(&head).and_then(|header| header.rate);
                info.shape.rate = stated.unwrap_or(info.shape.rate);
                info
            }
            None => first_shape(&mut source, &mut frames)
                .map_err(Refusal::Read)?
                .ok_or_else(|| header_fault("flac", "there is no STREAMINFO"))?,
        };
        let shape = info.shape;
        let heard = Heard {
            container: "flac",
            coding: Coded::Packets(Box::new(info.parameters())),
            drop: None,
            keep: None,
            seconds: info
                .total
                .map(|total| total as f64 / f64::from(shape.rate.max(1))),
            metadata,
        };
        let effort = source.length().saturating_mul(8).saturating_add(16 << 20);
        let opened = Self {
            source,
            frames,
            info,
            shape,
            expected: 0,
            begun: false,
            first_block: 0,
            effort,
            ready: VecDeque::new(),
        };
        Ok((opened, heard))
    }

    /// Hands out the frame of this length that stands here.
    fn take(&mut self, header: &Header, length: usize, lost: bool) {
        let data = self.frames.rest()[..length].to_vec();
        self.frames.at += length;
        if !self.begun {
            self.first_block = header.block;
        }
        let number = self.number_of(header);
        let missing = number.saturating_sub(self.expected);
        let rate = f64::from(self.shape.rate.max(1));
        if lost && (self.begun || number > 0) {
            let seconds = missing as f64 / rate;
            self.ready.push_back(Unit::Gap(format!(
                "the FLAC data is damaged; {seconds:.3} s of sound are missing"
            )));
        } else if self.begun && missing > 0 && number < self.info.total.unwrap_or(u64::MAX) {
            let seconds = missing as f64 / rate;
            self.ready.push_back(Unit::Gap(format!(
                "FLAC frames are left out of the file; {seconds:.3} s of sound are missing"
            )));
        }
        self.begun = true;
        self.expected = number.saturating_add(u64::from(header.block));
        let shape = header.shape(&self.info);
        if shape != self.shape || header.block > self.info.most_block {
            self.shape = shape;
            self.info.most_block = MAX_BLOCK;
            self.ready.push_back(Unit::Next);
        }
        self.ready.push_back(Unit::Packet { data, trim: 0 });
    }

    /// The number of the frame's first sample. Streams of one block size count frames; some old ones with several do too,
    /// and are not counted on.
    fn number_of(&self, header: &Header) -> u64 {
        if header.variable {
            return header.number;
        }
        let fixed = self.first_block;
        if (self.info.least_block, self.info.most_block) == (fixed, fixed) {
            return header.number.saturating_mul(u64::from(fixed));
        }
        self.expected
    }

    fn end(&mut self, cut: bool) -> Unit {
        let short = self.info.total.is_some_and(|total| self.expected < total);
        let complete = self.info.total.is_some_and(|total| self.expected >= total);
        self.frames.at = self.frames.held.len();
        if short || (cut && !complete) {
            return Unit::Broken(CUT.to_owned());
        }
        Unit::End
    }

    /// Another file is joined to this one.
    fn next_stream(&mut self) -> io::Result<()> {
        let (info, first) = blocks(&mut self.source, self.frames.place(), &mut Metadata::default())?;
        self.frames = Frames::new(first);
        if let Some(info) = info {
            self.info = info;
            self.shape = info.shape;
            self.ready.push_back(Unit::Next);
        }
        self.expected = 0;
        self.begun = false;
        Ok(())
    }
}

impl Demux for Flac {
    fn next(&mut self) -> io::Result<Unit> {
        let mut lost = false;
        let mut cut = false;
        loop {
            if let Some(unit) = self.ready.pop_front() {
                return Ok(unit);
            }
            self.frames.fill(&mut self.source, MAX_HEADER)?;
            if self.frames.rest().is_empty() {
                return Ok(self.end(cut));
            }
            if self.begun && self.frames.rest().starts_with(b"fLaC") {
                self.next_stream()?;
                continue;
            }
            if let Some(header) = Header::parse(self.frames.rest()) {
                let end = self.expected.saturating_add(u64::from(header.block));
                let may_end = self.info.total.is_some_and(|total| end >= total);
                let found = self.frames.length_of(&mut self.source, &header, may_end)?;
                if let Some(length) = found {
                    self.take(&header, length, lost);
                    continue;
                }
                cut = true;
                let seen = header.most_bytes().min(self.frames.rest().len());
                self.effort = self.effort.saturating_sub(seen as u64);
                if self.effort == 0 {
                    return Ok(Unit::Broken("the FLAC data is damaged".to_owned()));
                }
            }
            lost = true;
            self.frames.skip_to_sync();
        }
    }

    fn walk(&mut self) -> io::Result<Option<Points>> {
        self.walk_frames()
    }

    fn enter(&mut self, points: &Points, frame: u64) -> io::Result<Option<u64>> {
        self.enter_at(points, frame)
    }

    fn parameters(&self) -> Option<AudioCodecParameters> {
        let info = Info {
            shape: self.shape,
            // The checksum is one of samples of one shape.
            md5: if self.shape == self.info.shape && !self.begun {
                self.info.md5
            } else {
                [0; 16]
            },
            ..self.info
        };
        Some(info.parameters())
    }
}

/// STREAMINFO, if there is one, and where the frames begin.
fn blocks(source: &mut Places, at: u64, metadata: &mut Metadata) -> io::Result<(Option<Info>, u64)> {
    let mut info = None;
    let mut after_info = at;
    if !source.read(at, 4)?.starts_with(b"fLaC") {
        return Ok((None, at));
    }
    let mut at = at + 4;
    for _ in 0..MAX_BLOCKS {
        let head = source.read(at, 4)?;
        let &[kind, a, b, c] = head.as_slice() else { break };
        // No block has this number: it is how the sync code of a frame begins.
        if kind == 0xff {
            break;
        }
        let size = u64::from(u32::from_be_bytes([0, a, b, c]));
        let start = at + 4;
        if start + size > source.length() {
            break;
        }
        match kind & 0x7f {
            0 if info.is_none() => {
                info = Info::parse(&source.read(start, INFO)?);
                after_info = start;
            }
            4 => vorbis_comments(&source.read(start, (size as usize).min(MAX_COMMENTS))?, metadata),
            _ => {}
        }
        at = start + size;
        if kind & 0x80 != 0 {
            break;
        }
    }
    // Where a block's length is wrong, the first frame is searched for from here.
    let found = Header::parse(&source.read(at, MAX_HEADER)?).is_some();
    Ok((info, if found { at } else { after_info }))
}

/// What the first frame says, where STREAMINFO is missing.
fn first_shape(source: &mut Places, frames: &mut Frames) -> io::Result<Option<Info>> {
    let from = frames.place();
    while frames.place() - from < MAX_SEARCH {
        frames.fill(source, MAX_HEADER)?;
        if frames.rest().is_empty() {
            break;
        }
        if let Some(header) = Header::parse(frames.rest()) {
            return Ok(Info::of_frame(&header));
        }
        frames.skip_to_sync();
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the sum bit by bit, at every length around the eight bytes.
    #[test]
    fn the_sum_by_tables_is_the_sum_by_bits() {
        let bytes: Vec<u8> = (0..61_u32).map(|n| (n * n * 37 / 8) as u8).collect();
        for length in 0..bytes.len() {
            let by_bits = bytes[..length].iter().fold(0_u16, |sum, &byte| {
                (0..8).fold(sum ^ u16::from(byte) << 8, |s, _| {
                    s << 1 ^ if s >> 15 == 1 { 0x8005 } else { 0 }
                })
            });
            assert_eq!(crc16(0, &bytes[..length]), by_bits, "{length}");
        }
    }

    #[test]
    fn sync_codes_are_found_at_every_place() {
        for at in 0..600 {
            let mut bytes = vec![0xff; 600];
            bytes[at] = 0xff;
            if let Some(next) = bytes.get_mut(at + 1) {
                *next = 0xf9;
            }
            assert_eq!(next_sync(&bytes, 0), Some(at), "{at}");
            assert_eq!(next_sync(&bytes, 600), None);
        }
        assert_eq!(next_sync(&[0; 600], 0), None);
    }
}
