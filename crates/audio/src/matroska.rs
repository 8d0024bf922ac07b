//! Matroska and WebM.
//!
//! In: a source whose first bytes are an EBML header. Out: the packets of the first audio track, with the run-up of
//! `CodecDelay` and the padding of `DiscardPadding`, and the texts of `Info` and `Tags`. Files follow RFC 8794 and
//! RFC 9559. Elements of unknown size, as live streams have them, are read; so are files that are cut short. After
//! bytes that make no sense, reading goes on at the next cluster. Chapters, cues and attachments are passed over.
//! Refused are encrypted tracks and those compressed by other means than removed headers.
//!
//! This is written here because symphonia refuses files with chapters and files that are cut short, and does not tell
//! the padding.

use std::collections::VecDeque;
use std::io;

use symphonia::core::codecs::audio::well_known::{
    CODEC_ID_AAC, CODEC_ID_ALAC, CODEC_ID_FLAC, CODEC_ID_MP1, CODEC_ID_MP2, CODEC_ID_MP3, CODEC_ID_OPUS,
    CODEC_ID_VORBIS,
};

use crate::metadata::{Metadata, clean, keep_first};
use crate::pcm::{Coding, Layout};
use crate::source::Places;
use crate::track::{
    CUT, Coded, Demux, Heard, Refusal, Unit, flac_stream_info, header_fault, parameters, unsupported,
};

const EBML: u32 = 0x1a45_dfa3;
const SEGMENT: u32 = 0x1853_8067;
const SEEK_HEAD: u32 = 0x114d_9b74;
const INFO: u32 = 0x1549_a966;
const TRACKS: u32 = 0x1654_ae6b;
const TAGS: u32 = 0x1254_c367;
const CLUSTER: u32 = 0x1f43_b675;
const SIMPLE_BLOCK: u32 = 0xa3;
const BLOCK_GROUP: u32 = 0xa0;

/// The longest element that is read as a whole: blocks of audio have less than 1 MiB.
const MAX_ELEMENT: u64 = 16 << 20;

/// More elements than this before the first cluster are not looked at.
const MAX_ELEMENTS: usize = 4096;

/// How far a cluster is searched for after bytes that make no sense.
const MAX_SEARCH: u64 = 64 << 20;

/// Names of codecs that are not decoded here, as others call them.
const FOREIGN: [(&str, &str); 11] = [
    ("A_AC3", "ac3"),
    ("A_EAC3", "eac3"),
    ("A_DTS", "dts"),
    ("A_TRUEHD", "truehd"),
    ("A_MLP", "mlp"),
    ("A_TTA1", "tta"),
    ("A_WAVPACK4", "wavpack"),
    ("A_REAL", "realaudio"),
    ("A_QUICKTIME", "quicktime"),
    ("A_MS/ACM", "ms-acm"),
    ("A_MPC", "musepack"),
];

pub(crate) fn is_matroska(head: &[u8]) -> bool {
    head.starts_with(&EBML.to_be_bytes())
}

/// An element's name and where its body is; `end` is `None` if the size is unknown.
struct Element {
    id: u32,
    start: u64,
    end: Option<u64>,
}

pub(crate) struct Matroska {
    source: Places,
    track: u64,
    /// Bytes that were removed from the beginning of every packet.
    prefix: Vec<u8>,
    /// The next element.
    at: u64,
    /// Where the segment ends by its own account.
    end: Option<u64>,
    ready: VecDeque<Unit>,
}

impl Matroska {
    pub(crate) fn open(mut source: Places) -> Result<(Self, Heard), Refusal> {
        let fault = |what: &str| header_fault("matroska", what);
        let segment = find_segment(&mut source)
            .map_err(Refusal::Read)?
            .ok_or_else(|| fault("there is no segment"))?;
        let parts = Parts::read(&mut source, &segment).map_err(Refusal::Read)?;
        let tracks = parts.tracks.ok_or_else(|| fault("there is no list of tracks"))?;
        let mut entries: Vec<Track> = children(&tracks)
            .filter(|&(id, _)| id == 0xae)
            .map(|(_, body)| Track::parse(body))
            .collect();
        let has_video = entries.iter().any(|track| track.kind == 1);
        entries.retain(|track| track.kind == 2);
        let chosen = entries.iter().position(|track| track.default).unwrap_or(0);
        let Some(track) = entries.get(chosen) else {
            return Err(Refusal::NoAudio);
        };
        let (coding, rate) = track.coding()?;
        let mut metadata = Metadata::default();
        let mut seconds = None;
        if let Some(info) = &parts.info {
            seconds = duration(info).filter(|_| !has_video);
            let title = children(info).find(|&(id, _)| id == 0x7ba9);
            keep_first(&mut metadata.title, title.and_then(|(_, text)| clean(text)));
        }
        for tags in &parts.tags {
            take_tags(tags, &mut metadata);
        }
        let delay = u128::from(track.delay) * u128::from(rate) / 1_000_000_000;
        let heard = Heard {
            container: "matroska",
            coding,
            drop: (delay > 0).then(|| u64::try_from(delay).unwrap_or(u64::MAX)),
            keep: None,
            seconds,
            metadata,
        };
        let opened = Self {
            track: track.number,
            prefix: track.prefix.clone(),
            at: parts.first_cluster.unwrap_or(source.length()),
            end: segment.end,
            ready: VecDeque::new(),
            source,
        };
        Ok((opened, heard))
    }

    /// Goes to the next cluster after bytes that make no sense.
    fn search(&mut self) -> io::Result<Unit> {
        let name = CLUSTER.to_be_bytes();
        let from = self.at + 1;
        let mut at = from;
        while at < self.source.length() && at - from < MAX_SEARCH {
            let piece = self.source.read(at, 32 << 10)?;
            if let Some(found) = piece.windows(4).position(|bytes| bytes == name) {
                self.at = at + found as u64;
                return Ok(Unit::Gap("the container is damaged".to_owned()));
            }
            at += (piece.len().max(4) - 3) as u64;
        }
        self.at = self.source.length();
        Ok(Unit::Broken("the container is damaged".to_owned()))
    }

    /// The packets of a block, if it is one of the track.
    fn take_block(&mut self, block: &[u8], trim: u64) {
        let Some((number, rest)) = vint(block) else { return };
        if number != self.track {
            return;
        }
        let Some((&[_, _, flags], body)) = rest.split_first_chunk::<3>() else {
            return;
        };
        match laces(flags >> 1 & 3, body) {
            Some(packets) => {
                let last = packets.len().saturating_sub(1);
                let prefix = &self.prefix;
                self.ready
                    .extend(packets.into_iter().enumerate().map(|(i, packet)| {
                        let data = [prefix, packet].concat();
                        let trim = if i == last { trim } else { 0 };
                        Unit::Packet { data, trim }
                    }));
            }
            None => self
                .ready
                .push_back(Unit::Gap("a block of packets makes no sense".to_owned())),
        }
    }
}

impl Demux for Matroska {
    fn next(&mut self) -> io::Result<Unit> {
        loop {
            if let Some(unit) = self.ready.pop_front() {
                return Ok(unit);
            }
            let length = self.source.length();
            if self.at >= length || self.end.is_some_and(|end| self.at >= end) {
                let cut = self.end.is_some_and(|end| end > length);
                return Ok(if cut {
                    Unit::Broken(CUT.to_owned())
                } else {
                    Unit::End
                });
            }
            let Some(element) = read_element(&mut self.source, self.at)? else {
                return self.search();
            };
            match (element.id, element.end) {
                (SEGMENT | CLUSTER, _) => self.at = element.start,
                (_, None) => return self.search(),
                (SIMPLE_BLOCK | BLOCK_GROUP, Some(end)) if end > length => {
                    self.at = length;
                    return Ok(Unit::Broken(CUT.to_owned()));
                }
                (id @ (SIMPLE_BLOCK | BLOCK_GROUP), Some(end)) if end - element.start <= MAX_ELEMENT => {
                    self.at = end;
                    let body = self.source.read(element.start, (end - element.start) as usize)?;
                    if id == SIMPLE_BLOCK {
                        self.take_block(&body, 0);
                    } else {
                        let part = |wanted| children(&body).find(|&(id, _)| id == wanted);
                        let trim = part(0x75a2).map_or(0, |(_, body)| signed(body));
                        let block = part(0xa1).map_or(&[][..], |(_, block)| block).to_vec();
                        self.take_block(&block, u64::try_from(trim).unwrap_or(0));
                    }
                }
                (_, Some(end)) => self.at = end,
            }
        }
    }
}

/// What stands around the clusters.
#[derive(Default)]
struct Parts {
    info: Option<Vec<u8>>,
    tracks: Option<Vec<u8>>,
    tags: Vec<Vec<u8>>,
    first_cluster: Option<u64>,
}

impl Parts {
    fn read(source: &mut Places, segment: &Element) -> io::Result<Self> {
        let mut parts = Self::default();
        let mut elsewhere = Vec::new();
        let mut at = segment.start;
        for _ in 0..MAX_ELEMENTS {
            let Some(element) = read_element(source, at)? else {
                break;
            };
            if element.id == CLUSTER {
                parts.first_cluster = Some(at);
                break;
            }
            let Some(end) = element.end else { break };
            if element.id == SEEK_HEAD {
                elsewhere.extend(seek_head(&body(source, &element)?));
            } else {
                parts.take(source, &element)?;
            }
            at = end;
        }
        // What stands behind the clusters is found by the table at the beginning.
        for offset in elsewhere.into_iter().take(64) {
            let place = segment.start.saturating_add(offset);
            if place >= at
                && let Some(element) = read_element(source, place)?
            {
                parts.take(source, &element)?;
            }
        }
        Ok(parts)
    }

    fn take(&mut self, source: &mut Places, element: &Element) -> io::Result<()> {
        match element.id {
            INFO if self.info.is_none() => self.info = Some(body(source, element)?),
            TRACKS if self.tracks.is_none() => self.tracks = Some(body(source, element)?),
            TAGS if self.tags.len() < 16 => self.tags.push(body(source, element)?),
            _ => {}
        }
        Ok(())
    }
}

fn find_segment(source: &mut Places) -> io::Result<Option<Element>> {
    let mut at = 0;
    for _ in 0..16 {
        let Some(element) = read_element(source, at)? else {
            break;
        };
        if element.id == SEGMENT {
            return Ok(Some(element));
        }
        let Some(end) = element.end else { break };
        at = end;
    }
    Ok(None)
}

/// The element at a place; `None` if there is none.
fn read_element(source: &mut Places, at: u64) -> io::Result<Option<Element>> {
    let head = source.read(at, 12)?;
    Ok(element_head(&head).and_then(|(id, size, length)| {
        let start = at.checked_add(length as u64)?;
        let end = match size {
            Some(size) => Some(start.checked_add(size)?),
            None => None,
        };
        Some(Element { id, start, end })
    }))
}

fn body(source: &mut Places, element: &Element) -> io::Result<Vec<u8>> {
    let size = element.end.map_or(0, |end| end - element.start);
    source.read(element.start, size.min(MAX_ELEMENT) as usize)
}

/// The name, the size and the length of both. Unknown sizes are all ones.
fn element_head(bytes: &[u8]) -> Option<(u32, Option<u64>, usize)> {
    let length = bytes.first()?.leading_zeros() as usize + 1;
    if length > 4 {
        return None;
    }
    let id = bytes
        .get(..length)?
        .iter()
        .fold(0, |id, &b| id << 8 | u32::from(b));
    let rest = &bytes[length..];
    let (size, after) = vint(rest)?;
    let width = rest.len() - after.len();
    let unknown = size == (1 << (7 * width)) - 1;
    Some((id, (!unknown).then_some(size), length + width))
}

/// A number whose leading zero bits tell its length, and what follows it.
fn vint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let first = *bytes.first()?;
    let length = first.leading_zeros() as usize + 1;
    if length > 8 {
        return None;
    }
    let (number, rest) = bytes.split_at_checked(length)?;
    let value = number.iter().fold(0, |value, &b| value << 8 | u64::from(b));
    Some((value & !(1 << (7 * length)), rest))
}

/// The elements within one that is in memory. The last may be cut.
fn children(mut body: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    std::iter::from_fn(move || {
        let (id, size, length) = element_head(body)?;
        let rest = &body[length..];
        let size = usize::try_from(size?).ok()?.min(rest.len());
        let (inner, after) = rest.split_at(size);
        body = after;
        Some((id, inner))
    })
}

fn unsigned(body: &[u8]) -> u64 {
    body.iter().take(8).fold(0, |value, &b| value << 8 | u64::from(b))
}

fn signed(body: &[u8]) -> i64 {
    let bits = 8 * body.len().min(8) as u32;
    match bits {
        0 => 0,
        bits => (unsigned(body) << (64 - bits)).cast_signed() >> (64 - bits),
    }
}

fn float(body: &[u8]) -> f64 {
    match *body {
        [a, b, c, d] => f64::from(f32::from_be_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => f64::from_be_bytes([a, b, c, d, e, f, g, h]),
        _ => 0.0,
    }
}

/// The length in seconds: ticks of so many nanoseconds.
fn duration(info: &[u8]) -> Option<f64> {
    let field = |wanted| children(info).find(|&(id, _)| id == wanted).map(|(_, body)| body);
    let scale = field(0x2a_d7b1).map_or(1_000_000, unsigned);
    let seconds = float(field(0x4489)?) * scale as f64 / 1e9;
    (seconds.is_finite() && seconds > 0.0).then_some(seconds)
}

/// Places of other elements, counted from the segment's first byte.
fn seek_head(body: &[u8]) -> Vec<u64> {
    children(body)
        .filter(|&(id, _)| id == 0x4dbb)
        .filter_map(|(_, seek)| children(seek).find(|&(id, _)| id == 0x53ac))
        .map(|(_, place)| unsigned(place))
        .collect()
}

/// Texts with a name. Those of chapters and attachments are not of the recording.
fn take_tags(tags: &[u8], metadata: &mut Metadata) {
    for (_, tag) in children(tags).filter(|&(id, _)| id == 0x7373) {
        let target = children(tag).find(|&(id, _)| id == 0x63c0);
        let elsewhere = |id| [0x63c9, 0x63c4, 0x63c6].contains(&id);
        if target.is_some_and(|(_, target)| children(target).any(|(id, _)| elsewhere(id))) {
            continue;
        }
        for (_, simple) in children(tag).filter(|&(id, _)| id == 0x67c8) {
            let text = |wanted| {
                let found = children(simple).find(|&(id, _)| id == wanted);
                found.and_then(|(_, text)| clean(text))
            };
            let Some(name) = text(0x45a3) else { continue };
            let field = match name.to_ascii_uppercase().as_str() {
                "TITLE" => &mut metadata.title,
                "ARTIST" => &mut metadata.artist,
                "DESCRIPTION" | "SUMMARY" => &mut metadata.description,
                "COMMENT" | "COMMENTS" => &mut metadata.comment,
                "DATE_RECORDED" | "DATE_RELEASED" | "DATE" | "YEAR" => &mut metadata.date,
                _ => continue,
            };
            keep_first(field, text(0x4487));
        }
    }
}

/// The packets of a block: one, or several with their sizes in Xiph's way, equally long, or with EBML's differences.
fn laces(kind: u8, body: &[u8]) -> Option<Vec<&[u8]>> {
    if kind == 0 {
        return Some(vec![body]);
    }
    let (&count, mut rest) = body.split_first()?;
    let mut sizes = Vec::new();
    match kind {
        1 => {
            for _ in 0..count {
                let mut size = 0;
                loop {
                    let (&byte, after) = rest.split_first()?;
                    rest = after;
                    size += usize::from(byte);
                    if byte < 255 {
                        break;
                    }
                }
                sizes.push(size);
            }
        }
        2 => {
            let packets = usize::from(count) + 1;
            return (rest.len() % packets == 0 && rest.len() >= packets)
                .then(|| rest.chunks(rest.len() / packets).collect());
        }
        _ => {
            let mut size = 0_i64;
            for i in 0..count {
                let (value, after) = vint(rest)?;
                let width = rest.len() - after.len();
                rest = after;
                let value = i64::try_from(value).ok()?;
                size = if i == 0 {
                    value
                } else {
                    size.checked_add(value - ((1 << (7 * width - 1)) - 1))?
                };
                sizes.push(usize::try_from(size).ok()?);
            }
        }
    }
    let mut packets = Vec::new();
    for size in sizes {
        let (packet, after) = rest.split_at_checked(size)?;
        packets.push(packet);
        rest = after;
    }
    packets.push(rest);
    Some(packets)
}

/// One entry of the list of tracks.
#[derive(Default)]
struct Track {
    number: u64,
    kind: u64,
    default: bool,
    codec: String,
    private: Vec<u8>,
    /// Nanoseconds.
    delay: u64,
    rate: f64,
    channels: u64,
    bits: u64,
    prefix: Vec<u8>,
    /// What was done to the packets that cannot be undone here.
    wrapped: Option<&'static str>,
}

impl Track {
    fn parse(entry: &[u8]) -> Self {
        let mut track = Self {
            default: true,
            rate: 8_000.0,
            channels: 1,
            ..Self::default()
        };
        for (id, body) in children(entry) {
            match id {
                0xd7 => track.number = unsigned(body),
                0x83 => track.kind = unsigned(body),
                0x88 => track.default = unsigned(body) != 0,
                0x86 => track.codec = clean(body).unwrap_or_default(),
                0x63a2 => track.private = body.to_vec(),
                0x56aa => track.delay = unsigned(body),
                0xe1 => track.take_audio(body),
                0x6d80 => children(body).for_each(|(_, encoding)| track.take_encoding(encoding)),
                _ => {}
            }
        }
        track
    }

    fn take_audio(&mut self, audio: &[u8]) {
        for (id, body) in children(audio) {
            match id {
                0xb5 => self.rate = float(body),
                0x9f => self.channels = unsigned(body),
                0x6264 => self.bits = unsigned(body),
                _ => {}
            }
        }
    }

    fn take_encoding(&mut self, encoding: &[u8]) {
        for (id, body) in children(encoding) {
            match id {
                0x5034 => {
                    let field = |wanted| children(body).find(|&(id, _)| id == wanted);
                    match field(0x4254).map_or(0, |(_, algorithm)| unsigned(algorithm)) {
                        3 => self.prefix = field(0x4255).map_or_else(Vec::new, |(_, p)| p.to_vec()),
                        _ => self.wrapped = Some("compressed packets"),
                    }
                }
                0x5035 => self.wrapped = Some("encrypted"),
                _ => {}
            }
        }
    }

    /// How to decode it, and its rate.
    fn coding(&self) -> Result<(Coded, u32), Refusal> {
        let rate = self.rate.round().clamp(0.0, 4e9) as u32;
        let channels = usize::try_from(self.channels).unwrap_or(usize::MAX);
        if let Some(what) = self.wrapped {
            return Err(unsupported(what));
        }
        let linear = |coding, big_endian| {
            let layout = Layout {
                coding,
                big_endian,
                channels,
            };
            Ok((Coded::Linear(layout, rate), rate))
        };
        let private = self.private.as_slice();
        let (codec, extra) = match self.codec.as_str() {
            "A_OPUS" => (CODEC_ID_OPUS, Some(private)),
            "A_VORBIS" => {
                let headers = vorbis_headers(private)
                    .ok_or_else(|| header_fault("matroska", "the Vorbis headers are incomplete"))?;
                let made = parameters(CODEC_ID_VORBIS, rate, channels, Some(&headers));
                return Ok((Coded::Packets(Box::new(made)), rate));
            }
            "A_FLAC" => (CODEC_ID_FLAC, flac_stream_info(private)),
            "A_ALAC" => (CODEC_ID_ALAC, Some(private)),
            "A_MPEG/L1" => (CODEC_ID_MP1, None),
            "A_MPEG/L2" => (CODEC_ID_MP2, None),
            "A_MPEG/L3" => (CODEC_ID_MP3, None),
            name if name.starts_with("A_AAC") => (CODEC_ID_AAC, Some(private)),
            "A_PCM/INT/LIT" | "A_PCM/INT/BIG" if (1..=32).contains(&self.bits) => {
                let coding = match self.bits.div_ceil(8) as usize {
                    1 => Coding::Unsigned8,
                    bytes => Coding::Integer(bytes),
                };
                return linear(coding, self.codec.ends_with("BIG"));
            }
            "A_PCM/FLOAT/IEEE" if self.bits == 64 => return linear(Coding::Float64, false),
            "A_PCM/FLOAT/IEEE" => return linear(Coding::Float32, false),
            name => {
                let known = FOREIGN.iter().find(|(theirs, _)| name.starts_with(theirs));
                return Err(unsupported(known.map_or(name, |&(_, ours)| ours)));
            }
        };
        Ok((
            Coded::Packets(Box::new(parameters(codec, rate, channels, extra))),
            rate,
        ))
    }
}

/// The first and the last of the three headers, laced as in a block, one after the other: what symphonia wants.
fn vorbis_headers(private: &[u8]) -> Option<Vec<u8>> {
    let headers = laces(1, private)?;
    let of = |kind: u8| headers.iter().find(|header| header.first() == Some(&kind));
    Some([*of(1)?, *of(5)?].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length() {
        assert_eq!(vint(&[0x81]), Some((1, &[][..])));
        assert_eq!(vint(&[0x40, 0x02, 9]), Some((2, &[9][..])));
        assert_eq!(vint(&[1, 0, 0, 0, 0, 0, 0, 5]), Some((5, &[][..])));
        assert_eq!(vint(&[0]), None);
        assert_eq!(vint(&[0x40]), None);
        assert_eq!(element_head(&[0xa3, 0xff]), Some((0xa3, None, 2)));
        assert_eq!(element_head(&[0xa3, 0x82]), Some((0xa3, Some(2), 2)));
        assert_eq!(
            (signed(&[0xff]), signed(&[0x7f, 0xff]), signed(&[])),
            (-1, 32_767, 0)
        );
    }

    #[test]
    fn blocks_of_several_packets() {
        let xiph = [2, 1, 2, b'a', b'b', b'c', b'd'];
        assert_eq!(laces(1, &xiph).unwrap(), [&b"a"[..], b"bc", b"d"]);
        assert_eq!(laces(2, &[1, b'a', b'b', b'c', b'd']).unwrap(), [b"ab", b"cd"]);
        // 2, then 2 - 1, then what is left.
        let ebml = [2, 0x82, 0xbe, b'a', b'b', b'c', b'd'];
        assert_eq!(laces(3, &ebml).unwrap(), [&b"ab"[..], b"c", b"d"]);
        for (kind, body) in [(1, &[3, 255][..]), (2, &[2, 1, 2]), (3, &[2, 0x82]), (1, &[])] {
            assert_eq!(laces(kind, body), None);
        }
    }
}
