//! Ogg files with Opus, Vorbis or FLAC.
//!
//! In: a source whose first bytes, after ID3v2 tags or none, are an Ogg page. Out: the packets of the first audio stream that can be
//! decoded, then those of the streams chained to it, and the texts of the comment header. Pages follow RFC 3533, the mappings RFC 7845
//! (Opus), the Vorbis I specification and RFC 9639 (FLAC). Streams beside the chosen one are passed over. A page whose checksum
//! is wrong and pages that are missing by their numbers are reported; packets with parts in them are left out. Pages that are missing
//! right after the headers are not: such a file was recorded from a broadcast. A file whose last stream has no last page is cut short.
//!
//! This is written here because symphonia leaves out pages with wrong checksums without saying so and refuses files that are cut within
//! the first pages.

use std::collections::VecDeque;
use std::io;

use symphonia::core::codecs::audio::AudioCodecParameters;
use symphonia::core::codecs::audio::well_known::{CODEC_ID_OPUS, CODEC_ID_VORBIS};

use crate::metadata::{Metadata, vorbis_comments};
use crate::opus::Head;
use crate::source::Places;
use crate::track::{CUT, Coded, Demux, Heard, Refusal, Unit, header_fault, parameters, unsupported};
use crate::{flac, id3};

/// The largest page: its header, its table and 255 segments of 255 bytes.
const LARGEST_PAGE: usize = 27 + 255 + 255 * 255;

/// Flags of a page: it goes on with a packet, begins a stream, ends a stream.
const CONTINUED: u8 = 1;
const FIRST: u8 = 2;
const LAST: u8 = 4;

/// The longest packet. Those of sound have less than 1 MiB; comments with pictures are longer.
const MAX_PACKET: usize = 16 << 20;

/// How far the headers of a stream are searched for.
const MAX_BYTES_OF_HEADERS: u64 = 64 << 20;

/// As many pages are not lost, but were sent before a recording began.
const MANY_PAGES: u32 = 100;

/// First packets of streams that are not decoded here.
const FOREIGN: [(&[u8], &str); 4] = [
    (b"Speex   ", "speex"),
    (b"CELT    ", "celt"),
    (b"PCM     ", "ogg-pcm"),
    (b"\x7fMIDI", "midi"),
];

/// Where the first page stands, if the file is one of Ogg.
pub(crate) fn start(source: &mut Places) -> io::Result<Option<u64>> {
    let at = id3::end_of_tags(source)?;
    Ok(source.read(at, 5)?.starts_with(b"OggS\0").then_some(at))
}

struct Page {
    flags: u8,
    /// What the codec counts, at the end of the last packet that ends here; `None` if none does.
    granule: Option<u64>,
    serial: u32,
    sequence: u32,
    /// The parts of packets, and whether the packet ends with them.
    parts: Vec<(Vec<u8>, bool)>,
}

impl Page {
    /// The page at the beginning of `bytes` and its length; `None` if there is none or its checksum is wrong.
    fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let (head, rest) = bytes.split_first_chunk::<27>()?;
        if !head.starts_with(b"OggS\0") {
            return None;
        }
        let lengths = rest.get(..usize::from(head[26]))?;
        let size = 27 + lengths.len() + lengths.iter().map(|&length| usize::from(length)).sum::<usize>();
        let page = bytes.get(..size)?;
        let four = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let sum = crc32(crc32(crc32(0, &page[..22]), &[0; 4]), &page[26..]);
        if sum != four(22) {
            return None;
        }
        let granule = u64::from(four(10)) << 32 | u64::from(four(6));
        let page = Self {
            flags: head[5],
            granule: (granule != u64::MAX).then_some(granule),
            serial: four(14),
            sequence: four(18),
            parts: parts(lengths, &page[27 + lengths.len()..]),
        };
        Some((page, size))
    }

    /// A page that is longer than the rest of the file: the packets that are whole in it. No checksum tells of these.
    fn parse_cut(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<27>()?;
        let (lengths, body) = rest.split_at_checked(usize::from(head[26]))?;
        let whole = lengths.iter().map(|&length| usize::from(length)).sum::<usize>();
        let other = body.windows(5).any(|mark| mark == b"OggS\0");
        if !head.starts_with(b"OggS\0") || body.len() >= whole || other {
            return None;
        }
        let four = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        Some(Self {
            flags: head[5] & !LAST,
            granule: None,
            serial: four(14),
            sequence: four(18),
            parts: parts(lengths, body),
        })
    }
}

/// The parts of packets in the body of a page, as far as it goes.
fn parts(lengths: &[u8], mut body: &[u8]) -> Vec<(Vec<u8>, bool)> {
    let mut parts = Vec::new();
    let mut length = 0;
    for (i, &segment) in lengths.iter().enumerate() {
        length += usize::from(segment);
        let ends = segment < 255;
        if ends || i + 1 == lengths.len() {
            let Some((part, after)) = body.split_at_checked(length) else {
                break;
            };
            parts.push((part.to_vec(), ends));
            body = after;
            length = 0;
        }
    }
    parts
}

static CRC32: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = (byte as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            sum = sum << 1 ^ if sum >> 31 == 1 { 0x04c1_1db7 } else { 0 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
};

fn crc32(sum: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(sum, |sum, &byte| {
        sum << 8 ^ CRC32[usize::from((sum >> 24) as u8 ^ byte)]
    })
}

/// The pages of a file, one after the other.
struct Pages {
    source: Places,
    at: u64,
    /// How many more bytes may be looked at in vain.
    effort: u64,
}

/// What stands at a place.
enum Found {
    Page(Page),
    /// A page, behind bytes that are none.
    Behind(Page),
    /// The end; true if bytes stand before it that began as a page.
    End(bool),
}

impl Pages {
    fn new(source: Places, at: u64) -> Self {
        let effort = source.length().saturating_mul(8).saturating_add(16 << 20);
        Self { source, at, effort }
    }

    fn next(&mut self) -> io::Result<Found> {
        let bytes = self.source.read(self.at, LARGEST_PAGE)?;
        if let Some((page, size)) = Page::parse(&bytes) {
            self.at += size as u64;
            return Ok(Found::Page(page));
        }
        if bytes.len() < LARGEST_PAGE
            && let Some(page) = Page::parse_cut(&bytes)
        {
            self.at = self.source.length();
            return Ok(Found::Page(page));
        }
        let cut = bytes.starts_with(b"OggS") || b"OggS".starts_with(&bytes[..bytes.len().min(4)]);
        let cut = cut && !bytes.is_empty();
        self.search(cut)
    }

    /// The next page behind bytes that are none.
    fn search(&mut self, mut cut: bool) -> io::Result<Found> {
        let mut from = self.at + 1;
        while from < self.source.length() && self.effort > 0 {
            let piece = self.source.read(from, LARGEST_PAGE)?;
            let Some(found) = piece.windows(5).position(|bytes| bytes == b"OggS\0") else {
                from += piece.len().max(5) as u64 - 4;
                if piece.len() < LARGEST_PAGE {
                    break;
                }
                continue;
            };
            let at = from + found as u64;
            let bytes = self.source.read(at, LARGEST_PAGE)?;
            self.effort = self.effort.saturating_sub(bytes.len() as u64);
            if let Some((page, size)) = Page::parse(&bytes) {
                self.at = at + size as u64;
                return Ok(Found::Behind(page));
            }
            cut = true;
            from = at + 1;
        }
        self.at = self.source.length();
        Ok(Found::End(cut))
    }
}

/// The codecs that are decoded here.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Opus,
    Vorbis,
    Flac,
}

impl Kind {
    fn of(first_packet: &[u8]) -> Option<Self> {
        [
            (&b"OpusHead"[..], Self::Opus),
            (b"\x01vorbis", Self::Vorbis),
            (b"\x7fFLAC", Self::Flac),
        ]
        .into_iter()
        .find(|(mark, _)| first_packet.starts_with(mark))
        .map(|(_, kind)| kind)
    }
}

/// The stream that is being read.
struct Stream {
    serial: u32,
    kind: Kind,
    /// The header packets so far.
    headers: Vec<Vec<u8>>,
    ready: bool,
    /// The number that the next page should have.
    sequence: u32,
    /// A packet that goes on with the next page.
    part: Vec<u8>,
    /// Whether a part of the packet is lost.
    torn: bool,
    ended: bool,
    /// Pages with packets of sound so far.
    heard: u64,
}

impl Stream {
    fn new(serial: u32, kind: Kind) -> Self {
        Self {
            serial,
            kind,
            headers: Vec::new(),
            ready: false,
            sequence: 0,
            part: Vec::new(),
            torn: false,
            ended: false,
            heard: 0,
        }
    }

    /// Takes a header packet. False if the packet is one of sound.
    fn take_header(&mut self, packet: &[u8]) -> bool {
        let is_header = self.headers.is_empty()
            || match self.kind {
                // Some files repeat the first header.
                Kind::Opus => packet.starts_with(b"OpusTags") || packet.starts_with(b"OpusHead"),
                Kind::Vorbis => packet.first().is_some_and(|kind| kind & 1 == 1),
                Kind::Flac => packet.first().is_some_and(|&kind| kind != 0xff),
            };
        if !is_header {
            return false;
        }
        // A stream has a few headers; pictures of FLAC are not kept.
        let kept = packet.len() <= 1 << 20 || self.kind != Kind::Flac;
        if kept && self.headers.len() < 64 {
            self.headers.push(packet.to_vec());
        }
        self.ready = match self.kind {
            Kind::Opus => true,
            Kind::Vorbis => self
                .headers
                .iter()
                .any(|header| header.starts_with(b"\x05vorbis")),
            // The first packet has a block's header behind a mark of 13 bytes, the others begin with theirs.
            Kind::Flac => {
                let at = if packet.starts_with(b"\x7fFLAC") { 13 } else { 0 };
                packet.get(at).is_some_and(|kind| kind & 0x80 != 0)
            }
        };
        true
    }

    fn parameters(&self) -> Result<AudioCodecParameters, Refusal> {
        let fault = |what: &str| header_fault("ogg", what);
        let first = self.headers.first().map_or(&[][..], Vec::as_slice);
        match self.kind {
            Kind::Opus => Ok(parameters(CODEC_ID_OPUS, 0, 0, Some(first))),
            Kind::Vorbis => {
                let setup = self
                    .headers
                    .iter()
                    .find(|header| header.starts_with(b"\x05vorbis"));
                let setup = setup.ok_or_else(|| fault("the Vorbis headers are incomplete"))?;
                let rate = first.get(12..16).and_then(|rate| rate.first_chunk::<4>());
                let rate = rate.map_or(0, |&rate| u32::from_le_bytes(rate));
                let channels = first.get(11).map_or(0, |&channels| usize::from(channels));
                let headers = [first, setup.as_slice()].concat();
                Ok(parameters(CODEC_ID_VORBIS, rate, channels, Some(&headers)))
            }
            Kind::Flac => first
                .get(17..)
                .and_then(flac::parameters_of)
                .ok_or_else(|| fault("the FLAC header is cut short")),
        }
    }

    /// The length that the headers state or the last page's count tells, in seconds.
    fn seconds(&self, last: Option<u64>) -> Option<f64> {
        let first = self.headers.first()?;
        match self.kind {
            Kind::Opus => {
                let skip = Head::parse(first).map_or(0, |head| head.pre_skip);
                Some(last?.saturating_sub(skip) as f64 / 48_000.0)
            }
            Kind::Vorbis => {
                let rate = u32::from_le_bytes(*first.get(12..16)?.first_chunk()?);
                Some(last? as f64 / f64::from(rate.max(1)))
            }
            Kind::Flac => flac::seconds_of(first.get(17..)?, last),
        }
    }

    fn texts(&self) -> Metadata {
        let mut metadata = Metadata::default();
        for header in &self.headers {
            let block = match self.kind {
                Kind::Opus => header.strip_prefix(b"OpusTags"),
                Kind::Vorbis => header.strip_prefix(b"\x03vorbis"),
                Kind::Flac if header.first().is_some_and(|kind| kind & 0x7f == 4) => header.get(4..),
                Kind::Flac => None,
            };
            if let Some(block) = block {
                vorbis_comments(block, &mut metadata);
            }
        }
        metadata
    }
}

/// An Ogg file, packet by packet.
pub(crate) struct Ogg {
    pages: Pages,
    stream: Stream,
    ready: VecDeque<Unit>,
}

impl Ogg {
    /// `at` is where the first page stands, see [`start`].
    pub(crate) fn open(source: Places, at: u64) -> Result<(Self, Heard), Refusal> {
        let mut pages = Pages::new(source, at);
        let mut foreign = None;
        let mut stream: Option<Stream> = None;
        let mut ready = VecDeque::new();
        let mut sound = false;
        while pages.at - at < MAX_BYTES_OF_HEADERS {
            let (page, lost) = match pages.next().map_err(Refusal::Read)? {
                Found::Page(page) => (page, false),
                Found::Behind(page) => (page, true),
                Found::End(_) => break,
            };
            let first_packet = page.parts.first().map_or(&[][..], |(part, _)| part.as_slice());
            if page.flags & FIRST != 0 && !sound {
                if foreign.is_none() {
                    let known = FOREIGN.iter().find(|(mark, _)| first_packet.starts_with(mark));
                    foreign = known.map(|&(_, name)| name);
                }
                let kind = Kind::of(first_packet);
                if let Some(kind) = kind.filter(|_| stream.as_ref().is_none_or(|stream| !stream.ready)) {
                    // A second audio stream beside the first is not listened to.
                    stream.get_or_insert(Stream::new(page.serial, kind));
                }
            }
            let Some(stream) = stream.as_mut().filter(|stream| stream.serial == page.serial) else {
                continue;
            };
            take_page(stream, page, lost, &mut ready);
            sound = stream.ready;
            if ready.iter().any(|unit| matches!(unit, Unit::Packet { .. })) || stream.ended {
                break;
            }
        }
        let Some(stream) = stream else {
            return Err(foreign.map_or(Refusal::NoAudio, unsupported));
        };
        let parameters = stream.parameters()?;
        let last = last_granule(&mut pages.source, stream.serial).map_err(Refusal::Read)?;
        let heard = Heard {
            container: "ogg",
            coding: Coded::Packets(Box::new(parameters)),
            drop: None,
            keep: None,
            seconds: stream.seconds(last),
            metadata: stream.texts(),
        };
        Ok((Self { pages, stream, ready }, heard))
    }

    fn take(&mut self, page: Page, lost: bool) {
        if page.flags & FIRST != 0 && self.stream.ready {
            let first_packet = page.parts.first().map_or(&[][..], |(part, _)| part.as_slice());
            // The headers of streams side by side all stand before the sound: this one is chained.
            let Some(kind) = Kind::of(first_packet) else {
                return;
            };
            self.stream = Stream::new(page.serial, kind);
        }
        if page.serial != self.stream.serial {
            return;
        }
        let was_ready = self.stream.ready;
        let mut found = VecDeque::new();
        take_page(&mut self.stream, page, lost, &mut found);
        if !was_ready && self.stream.ready {
            self.ready.push_back(Unit::Next);
        }
        self.ready.extend(found);
    }
}

/// Appends the packets of a page. `lost`: bytes before it were passed over.
fn take_page(stream: &mut Stream, page: Page, lost: bool, out: &mut VecDeque<Unit>) {
    let begun = page.flags & FIRST == 0;
    let missing = page.sequence.wrapping_sub(stream.sequence);
    stream.sequence = page.sequence.wrapping_add(1);
    // Damage that leaves the numbers whole lies between the pages of the stream, or in those of another one.
    let torn = begun && missing != 0;
    // A recording of a broadcast has the headers and then the pages from the moment on when it began.
    let joined = stream.heard == 0 && !lost && missing > MANY_PAGES;
    if torn && stream.ready && !joined {
        let how = if lost { "damaged" } else { "missing" };
        let what = match missing {
            1 => format!("an Ogg page is {how}"),
            n if n < 1 << 16 => format!("{n} Ogg pages are {how}"),
            _ => "the Ogg pages are out of order".to_owned(),
        };
        out.push_back(Unit::Gap(what));
    }
    if page.flags & CONTINUED == 0 || torn {
        stream.part.clear();
        stream.torn = page.flags & CONTINUED != 0;
    }
    let sound = stream.ready;
    let last = page.flags & LAST != 0;
    if let Some(granule) = page
        .granule
        .filter(|_| last && sound && stream.kind != Kind::Flac)
    {
        out.push_back(Unit::Until(granule));
    }
    let mut given = false;
    for (part, ends) in page.parts {
        if stream.part.len() + part.len() <= MAX_PACKET {
            stream.part.extend_from_slice(&part);
        } else {
            stream.torn = true;
        }
        if !ends {
            continue;
        }
        let data = std::mem::take(&mut stream.part);
        if std::mem::take(&mut stream.torn) {
            continue;
        }
        let may_be_header = !stream.ready || stream.kind != Kind::Flac;
        if may_be_header && stream.take_header(&data) {
            continue;
        }
        // Some writers do not mark the last header of FLAC.
        stream.ready |= stream.kind == Kind::Flac;
        if stream.ready {
            out.push_back(Unit::Packet { data, trim: 0 });
            given = true;
        }
    }
    stream.heard += u64::from(given);
    let counted = given || (last && sound);
    if let Some(granule) = page.granule.filter(|_| counted && stream.kind != Kind::Flac) {
        out.push_back(Unit::At(granule));
    }
    stream.ended |= last;
}

impl Demux for Ogg {
    fn next(&mut self) -> io::Result<Unit> {
        loop {
            if let Some(unit) = self.ready.pop_front() {
                return Ok(unit);
            }
            match self.pages.next()? {
                Found::Page(page) => self.take(page, false),
                Found::Behind(page) => self.take(page, true),
                Found::End(cut) => {
                    return Ok(if cut || !self.stream.ended {
                        Unit::Broken(CUT.to_owned())
                    } else {
                        Unit::End
                    });
                }
            }
        }
    }

    fn parameters(&self) -> Option<AudioCodecParameters> {
        self.stream.parameters().ok()
    }
}

/// The count of the stream's last page, if it is one of the file's last.
fn last_granule(source: &mut Places, serial: u32) -> io::Result<Option<u64>> {
    let tail = source.length().saturating_sub(2 * LARGEST_PAGE as u64);
    let bytes = source.read(tail, 2 * LARGEST_PAGE)?;
    let marks = bytes
        .windows(5)
        .enumerate()
        .rev()
        .filter(|(_, mark)| mark == b"OggS\0");
    let mut pages = marks.filter_map(|(at, _)| Page::parse(&bytes[at..]));
    Ok(pages
        .find(|(page, _)| page.serial == serial && page.granule.is_some())
        .and_then(|(page, _)| page.granule))
}
