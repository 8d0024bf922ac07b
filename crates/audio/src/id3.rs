//! ID3v2 tags before the sound, without their chapters.
//!
//! Symphonia's reader calls itself for a chapter within a chapter and for a table of contents that names
//! another one, as often as the tag says: a tag of some hundred kilobytes overflows the stack, which no
//! caller can catch. Chapters are not wanted here. In: a source at the beginning of a tag. Out: what
//! symphonia reads of the tag when the frames `CHAP` and `CTOC` have a name that it does not know and passes
//! over. A tag that is longer than [`MAX_TAG`] is passed over as a whole. Tags follow ID3v2.3.0 and
//! ID3v2.4.0 and the ID3v2 Chapter Frame Addendum 1.0.

use std::io::{self, Cursor};
use std::sync::LazyLock;

use symphonia::core::errors::Result;
use symphonia::core::formats::probe::{Probe, ProbeMetadataData, ProbeableMetadata, Score, Scoreable};
use symphonia::core::io::{MediaSourceStream, MediaSourceStreamOptions, ReadBytes, ScopedStream};
use symphonia::core::meta::well_known::METADATA_ID_ID3V2;
use symphonia::core::meta::{MetadataBuffer, MetadataBuilder, MetadataInfo, MetadataOptions, MetadataReader};
use symphonia::default::formats::{AdtsReader, CafReader, MpaReader, WavReader};
use symphonia::default::meta::{ApeReader, Id3v1Reader, Id3v2Reader};

use crate::metadata::Metadata;
use crate::source::Places;

/// The longest tag that is held in memory and read: 16 MiB. Only pictures make tags long.
const MAX_TAG: usize = 16 << 20;

/// How much of a tag is read at a time, so that the space grows with what is there and not with what is
/// claimed.
const PIECE: usize = 64 << 10;

/// Frames that may hold or name frames of their kind, and the shortest body with which they can: an
/// identifier that is empty, flags and a count.
const CHAPTERS: [&[u8]; 2] = [b"CHAP", b"CTOC"];
const SHORTEST_CHAPTER: usize = 3;

const INFO: MetadataInfo = MetadataInfo {
    metadata: METADATA_ID_ID3V2,
    short_name: "id3v2",
    long_name: "ID3v2",
};

/// Every format and tag that symphonia knows, but for the ID3v2 tags, which go through [`Id3`], and AIFF, FLAC, Ogg, MP4
/// and Matroska, which are read elsewhere in this crate.
pub(crate) fn probe() -> &'static Probe {
    static PROBE: LazyLock<Probe> = LazyLock::new(|| {
        let mut probe = Probe::new();
        probe.register_format::<AdtsReader<'_>>();
        probe.register_format::<CafReader<'_>>();
        probe.register_format::<MpaReader<'_>>();
        probe.register_format::<WavReader<'_>>();
        probe.register_metadata::<ApeReader<'_>>();
        probe.register_metadata::<Id3v1Reader<'_>>();
        probe.register_metadata::<Id3<'_>>();
        probe
    });
    &PROBE
}

struct Id3<'s> {
    source: MediaSourceStream<'s>,
}

impl Scoreable for Id3<'_> {
    fn score(source: ScopedStream<&mut MediaSourceStream<'_>>) -> Result<Score> {
        Id3v2Reader::score(source)
    }
}

impl ProbeableMetadata<'_> for Id3<'_> {
    fn try_probe_new(
        source: MediaSourceStream<'_>,
        _: MetadataOptions,
    ) -> Result<Box<dyn MetadataReader + '_>> {
        Ok(Box::new(Id3 { source }))
    }

    fn probe_data() -> &'static [ProbeMetadataData] {
        Id3v2Reader::probe_data()
    }
}

impl MetadataReader for Id3<'_> {
    fn metadata_info(&self) -> &MetadataInfo {
        &INFO
    }

    fn read_all(&mut self) -> Result<MetadataBuffer> {
        let mut head = [0; 10];
        self.source.read_buf_exact(&mut head)?;
        let [.., a, b, c, d] = head;
        let size = syncsafe([a, b, c, d]);
        if size > MAX_TAG {
            self.source.ignore_bytes(size as u64)?;
            let revision = MetadataBuilder::new(INFO).build();
            return Ok(MetadataBuffer {
                revision,
                side_data: Vec::new(),
            });
        }
        let mut tag = head.to_vec();
        while tag.len() < head.len() + size {
            let start = tag.len();
            tag.resize((start + PIECE).min(head.len() + size), 0);
            self.source.read_buf_exact(&mut tag[start..])?;
        }
        read_tag(tag)
    }

    fn into_inner<'s>(self: Box<Self>) -> MediaSourceStream<'s>
    where
        Self: 's,
    {
        self.source
    }
}

fn read_tag(mut tag: Vec<u8>) -> Result<MetadataBuffer> {
    hide_chapters(&mut tag);
    let tag = MediaSourceStream::new(Box::new(Cursor::new(tag)), MediaSourceStreamOptions::default());
    Id3v2Reader::try_new(tag, MetadataOptions::default())?.read_all()
}

/// The length of the tag that stands at a place, or 0.
fn tag_length(source: &mut Places, at: u64) -> io::Result<u64> {
    let head = source.read(at, 10)?;
    let Some(&[b'I', b'D', b'3', _, _, flags, a, b, c, d]) = head.first_chunk() else {
        return Ok(0);
    };
    let footer = if flags & 0x10 == 0 { 0 } else { 10 };
    Ok(10 + syncsafe([a, b, c, d]) as u64 + footer)
}

/// Where the tags at the beginning of a file end.
pub(crate) fn end_of_tags(source: &mut Places) -> io::Result<u64> {
    let mut at = 0;
    loop {
        match tag_length(source, at)? {
            0 => return Ok(at),
            length => at += length,
        }
    }
}

/// The texts of the tag at the beginning of a file, if there is one that can be read.
pub(crate) fn texts(source: &mut Places) -> io::Result<Option<Metadata>> {
    let length = tag_length(source, 0)?;
    if length == 0 || length > MAX_TAG as u64 {
        return Ok(None);
    }
    let tag = source.read(0, length as usize)?;
    Ok(read_tag(tag).ok().map(|buffer| {
        let mut metadata = Metadata::default();
        metadata.take_revision(&buffer.revision);
        metadata
    }))
}

/// Four bytes of seven bits each.
fn syncsafe(bytes: [u8; 4]) -> usize {
    bytes
        .iter()
        .fold(0, |value, &byte| value << 7 | usize::from(byte & 0x7f))
}

/// Renames every frame of chapters, at whatever depth it stands. A frame is told from a text with the same
/// letters by the size that follows the name, in either of the two ways in which sizes are written: letters
/// in its place would be far more than the tag has. The zeros that unsynchronised tags have within a size
/// only make it smaller.
fn hide_chapters(tag: &mut [u8]) {
    for at in 0..tag.len() {
        let Some((&[a, b, c, d, size @ ..], rest)) = tag[at..].split_first_chunk::<8>() else {
            return;
        };
        let possible = SHORTEST_CHAPTER..=rest.len();
        let fits = [u32::from_be_bytes(size) as usize, syncsafe(size)]
            .iter()
            .any(|size| possible.contains(size));
        if fits && CHAPTERS.contains(&&[a, b, c, d][..]) {
            tag[at] = b'X';
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_renamed_and_texts_are_not() {
        let mut tag = b"TIT2\0\0\0\x08\0\0\0CHAPLINCHAP\0\0\0\x80\0\0".to_vec();
        tag.extend([0; 130]);
        tag.extend(b"CTOC\0\0\0\x03\0\0a\0\x02CHAP\0\0\0\0\0\0");
        let mut wanted = tag.clone();
        wanted[18] = b'X';
        let second = 18 + 10 + 130;
        wanted[second] = b'X';
        hide_chapters(&mut tag);
        assert_eq!(tag, wanted);
    }
}
