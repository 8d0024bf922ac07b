//! WAV, RIFX, RF64, BW64 and Broadcast WAV.
//!
//! In: a source whose first bytes are `RIFF`, `RIFX`, `RF64` or `BW64` and `WAVE`. Out: where the sound is and how it is coded,
//! and the texts of the chunks `LIST INFO`, `bext` and `iXML`, which may stand before or after the samples. RIFX files have all
//! numbers and samples with the highest byte first. Files follow the Multimedia Programming Interface 1.0 (1991), EBU Tech 3285
//! and EBU Tech 3306.
//!
//! This is written here, although symphonia reads WAV, because symphonia drops the texts, knows neither RF64 nor
//! more than 26 channels, and refuses a whole file whose outer size is wrong, as recorders leave it that lose power.

use std::io::{self, SeekFrom};

use crate::chunks::{Chunk, Walk};
use crate::foreign;
use crate::metadata::{Bext, MAX_IXML_BYTES, MAX_TEXT_BYTES, Metadata};
use crate::pcm::{Coding, Layout};
use crate::sound::{Fault, Kind, Sound, chunk_follows, number};
use crate::source::{Source, read_bounded};
use crate::wave_format::{Format, MAX_FORMAT};

/// The longest `bext` and `LIST` chunk that is looked at: all that is kept of either stands at its beginning.
const MAX_CHUNK: usize = 4 * MAX_TEXT_BYTES;

/// A size that says "not known" or "see the `ds64` chunk".
const PLACEHOLDER: u64 = u32::MAX as u64;

pub(crate) fn is_wav(head: &[u8]) -> bool {
    matches!(head.get(..4), Some(b"RIFF" | b"RIFX" | b"RF64" | b"BW64")) && head.get(8..12) == Some(b"WAVE")
}

/// Reads the header and every chunk around the samples.
pub(crate) fn header(source: &mut dyn Source, length: u64) -> Result<Sound, Fault> {
    source.seek(SeekFrom::Start(0))?;
    let outer = read_bounded(source, 12, 12)?;
    let container = match outer.get(..4) {
        Some(b"RIFF") => "wav",
        Some(b"RIFX") => "rifx",
        _ => "rf64",
    };
    let big_endian = container == "rifx";
    let mut walk = Walk::new(12, big_endian);
    let (mut format, mut large_size) = (None, None);
    let (mut first, mut more) = (None, Vec::new());
    let mut metadata = Metadata::default();
    while let Some(chunk) = walk.next(source)? {
        match &chunk.name {
            b"ds64" => large_size = number(&read_bounded(source, chunk.size, 24)?, 8, 8, big_endian),
            b"fmt " if format.is_none() => {
                let body = read_bounded(source, chunk.size, MAX_FORMAT)?;
                format = Some(Format::parse(&body, big_endian)?);
            }
            b"data" => {
                let bytes = data_size(source, chunk, large_size, length, big_endian)?;
                match (&first, bytes) {
                    (None | Some((_, Some(0))), _) => first = Some((chunk.start, bytes)),
                    (Some(_), Some(bytes @ 1..)) => more.push((chunk.start, bytes)),
                    _ => {}
                }
                // What follows the first chunk is not resolved by the one size of `ds64`.
                large_size = None;
                match bytes {
                    Some(bytes) => walk.pass(chunk.start, bytes),
                    None => break,
                }
            }
            _ => take_texts(source, chunk, &mut metadata, big_endian)?,
        }
    }
    let format = format.ok_or("there is no `fmt ` chunk")?;
    let (start, bytes) = first.ok_or("there is no `data` chunk")?;
    sound(source, container, format, (start, bytes), more, metadata)
}

/// What the chunks come to. A coding that shows itself at the beginning of the sound is believed more than its tag.
pub(crate) fn sound(
    source: &mut dyn Source,
    container: &'static str,
    format: Format,
    (start, mut bytes): (u64, Option<u64>),
    mut more: Vec<(u64, u64)>,
    metadata: Metadata,
) -> Result<Sound, Fault> {
    let mut kind = format.kind;
    if let Kind::Foreign(name) = kind {
        source.seek(SeekFrom::Start(start))?;
        let head = read_bounded(source, 4, 4)?;
        let framed = name == "AAC" && matches!(head.get(..2), Some(&[0xff, second]) if second & 0xf6 == 0xf0);
        if framed || head.starts_with(b"OggS") || head.starts_with(b"fLaC") {
            kind = Kind::Stream(name);
        }
    }
    if let Kind::Linear(Layout {
        coding: Coding::Integer(2),
        channels: 2,
        ..
    }) = kind
    {
        source.seek(SeekFrom::Start(start))?;
        let most = foreign::HIDDEN;
        let samples = read_bounded(source, bytes.unwrap_or(u64::MAX), most)?;
        kind = foreign::hidden(&samples).map_or(kind, Kind::Foreign);
    }
    // Chunks that are continued hold whole frames.
    if !more.is_empty() && format.align > 1 {
        let whole = |bytes: u64| bytes - bytes % format.align as u64;
        bytes = bytes.map(whole);
        for (_, bytes) in &mut more {
            *bytes = whole(*bytes);
        }
    }
    Ok(Sound {
        container,
        rate: format.rate,
        channels: format.channels,
        kind,
        start,
        bytes,
        more,
        metadata,
    })
}

/// The size of the samples. `None` stands for all that follows: the size is a placeholder that no `ds64` chunk
/// resolves, it was never written, or it does not fit 32 bits and has lost the higher ones.
fn data_size(
    source: &mut dyn Source,
    chunk: Chunk,
    large_size: Option<u64>,
    length: u64,
    big_endian: bool,
) -> io::Result<Option<u64>> {
    let there = length.saturating_sub(chunk.start);
    Ok(match chunk.size {
        PLACEHOLDER => large_size.filter(|&size| size > 0 || there == 0),
        0 if there > 0 && !chunk_follows(source, chunk.start, length, big_endian)? => None,
        size if size > there && is_streamed(size) => None,
        size if there > size.saturating_add(PLACEHOLDER)
            && !chunk_follows(source, chunk.start + size + (size & 1), length, big_endian)? =>
        {
            None
        }
        size => Some(size),
    })
}

/// Sizes that programs write into a pipe, where they cannot come back to write the true one: the largest number of 31 or 32
/// bits or a little less, of which SoX rounds one down.
fn is_streamed(size: u64) -> bool {
    matches!(size, 0x7fff_f000 | 0x7fff_ff00..=0x8000_0000 | 0xffff_ff00..)
}

fn take_texts(
    source: &mut dyn Source,
    chunk: Chunk,
    metadata: &mut Metadata,
    big_endian: bool,
) -> io::Result<()> {
    match &chunk.name {
        b"LIST" => metadata.take_list(&read_bounded(source, chunk.size, MAX_CHUNK)?, big_endian),
        b"bext" if metadata.bext.is_none() => {
            metadata.bext = Bext::parse(&read_bounded(source, chunk.size, MAX_CHUNK)?);
        }
        b"iXML" if metadata.ixml.is_none() && chunk.size <= MAX_IXML_BYTES as u64 => {
            let body = read_bounded(source, chunk.size, MAX_IXML_BYTES)?;
            let text = String::from_utf8_lossy(&body);
            let text = text.trim_matches(|c: char| c == '\0' || c.is_whitespace());
            metadata.ixml = (!text.is_empty()).then(|| text.to_owned());
        }
        _ => {}
    }
    Ok(())
}
