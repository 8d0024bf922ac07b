//! WAV, RF64, BW64 and Broadcast WAV.
//!
//! In: a source whose first bytes are `RIFF`, `RF64` or `BW64` and `WAVE`. Out: where the samples are and how they
//! are laid out, and the texts of the chunks `LIST INFO`, `bext` and `iXML`, which may stand before or after the
//! samples. Formats: integers of 8 to 32 bits, floats of 32 and 64 bits, A-law and mu-law, plain or extensible;
//! other codings are left to symphonia. Files follow the Multimedia Programming Interface 1.0 (1991), EBU Tech 3285
//! and EBU Tech 3306.
//!
//! This is written here, although symphonia reads WAV, because symphonia drops the texts, knows neither RF64 nor
//! more than 26 channels, and refuses a whole file whose outer size is wrong, as recorders leave it that lose power.

use std::io::{self, SeekFrom};

use crate::chunks::{Chunk, Walk};
use crate::metadata::{Bext, MAX_IXML_BYTES, MAX_TEXT_BYTES, Metadata};
use crate::pcm::{Coding, Layout};
use crate::source::{Source, read_bounded};

/// The longest `bext` and `LIST` chunk that is looked at: all that is kept of either stands at its beginning.
const MAX_CHUNK: usize = 4 * MAX_TEXT_BYTES;

/// A size that says "not known" or "see the `ds64` chunk".
const PLACEHOLDER: u64 = u32::MAX as u64;

/// What the header says.
pub(crate) struct Header {
    pub container: &'static str,
    pub rate: u32,
    pub channels: usize,
    /// `None` if the samples are coded in a way that is left to symphonia.
    pub coding: Option<Coding>,
    /// Where the samples begin.
    pub start: u64,
    /// How many bytes of them the header promises.
    pub bytes: Option<u64>,
    pub metadata: Metadata,
}

/// Why there is no header.
pub(crate) enum Fault {
    Read(io::Error),
    What(String),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

impl From<&str> for Fault {
    fn from(what: &str) -> Self {
        Self::What(what.to_owned())
    }
}

struct Format {
    rate: u32,
    channels: usize,
    coding: Option<Coding>,
}

pub(crate) fn is_wav(head: &[u8]) -> bool {
    matches!(head.get(..4), Some(b"RIFF" | b"RF64" | b"BW64")) && head.get(8..12) == Some(b"WAVE")
}

/// Reads the header and every chunk around the samples.
pub(crate) fn header(source: &mut dyn Source, length: u64) -> Result<Header, Fault> {
    source.seek(SeekFrom::Start(0))?;
    let outer = read_bounded(source, 12, 12)?;
    let riff_size = little(&outer, 4, 4).ok_or("the file ends within its first 12 bytes")?;
    let container = if outer.starts_with(b"RIFF") { "wav" } else { "rf64" };
    let mut walk = Walk::new(12, false);
    let (mut format, mut data, mut large_size) = (None, None, None);
    let mut metadata = Metadata::default();
    while let Some(chunk) = walk.next(source)? {
        match &chunk.name {
            b"ds64" => large_size = little(&read_bounded(source, chunk.size, 24)?, 8, 8),
            b"fmt " if format.is_none() => {
                format = Some(parse_format(&read_bounded(source, chunk.size, 40)?)?);
            }
            b"data" if data.is_none() => {
                let bytes = data_size(chunk, riff_size, large_size, length);
                data = Some((chunk.start, bytes));
                match bytes {
                    Some(bytes) => walk.pass(chunk.start, bytes),
                    None => break,
                }
            }
            _ => take_texts(source, chunk, &mut metadata)?,
        }
    }
    let format = format.ok_or("there is no `fmt ` chunk")?;
    let (start, bytes) = data.ok_or("there is no `data` chunk")?;
    let Format {
        rate,
        channels,
        coding,
    } = format;
    Ok(Header {
        container,
        rate,
        channels,
        coding,
        start,
        bytes,
        metadata,
    })
}

/// The size of the samples. `None` stands for all that follows: the size is a placeholder that no `ds64` chunk
/// resolves, or the recorder never came to write sizes at all, there or here.
fn data_size(chunk: Chunk, riff_size: u64, large_size: Option<u64>, length: u64) -> Option<u64> {
    let more = length > chunk.start;
    let never_written = chunk.size == 0 && (riff_size == 0 || riff_size == PLACEHOLDER) && more;
    match chunk.size {
        PLACEHOLDER => large_size.filter(|&size| size > 0 || !more),
        _ if never_written => None,
        size => Some(size),
    }
}

fn take_texts(source: &mut dyn Source, chunk: Chunk, metadata: &mut Metadata) -> io::Result<()> {
    match &chunk.name {
        b"LIST" => metadata.take_list(&read_bounded(source, chunk.size, MAX_CHUNK)?),
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

fn parse_format(body: &[u8]) -> Result<Format, Fault> {
    let field = |at, size| little(body, at, size).ok_or("the `fmt ` chunk is shorter than 16 bytes");
    let (tag, channels, rate) = (field(0, 2)?, field(2, 2)? as usize, field(4, 4)? as u32);
    let (align, bits) = (field(12, 2)? as usize, field(14, 2)?);
    // The first two bytes of the extensible format's identifier are the plain format's tag.
    let tag = match tag {
        0xfffe => little(body, 24, 2).ok_or("the extensible `fmt ` chunk is shorter than 40 bytes")?,
        tag => tag,
    };
    let coding = match (tag, bits) {
        (1, 1..=32) => Some(integer(bits, align, channels)),
        (1, _) => return Err(Fault::What(format!("integer samples of {bits} bits"))),
        (3, 32) => Some(Coding::Float32),
        (3, 64) => Some(Coding::Float64),
        (3, _) => return Err(Fault::What(format!("floating-point samples of {bits} bits"))),
        (6, _) => Some(Coding::ALaw),
        (7, _) => Some(Coding::MuLaw),
        _ => None,
    };
    Ok(Format {
        rate,
        channels,
        coding,
    })
}

/// Samples of, say, 20 bits stand in 3 bytes, or in 4 if the frame size says so; their lowest bits are zero.
fn integer(bits: u64, align: usize, channels: usize) -> Coding {
    let least = bits.div_ceil(8) as usize;
    let bytes = (least..=4)
        .find(|bytes| bytes * channels == align)
        .unwrap_or(least);
    if bytes == 1 {
        Coding::Unsigned8
    } else {
        Coding::Integer(bytes)
    }
}

impl Header {
    pub(crate) fn layout(&self) -> Option<Layout> {
        self.coding.map(|coding| Layout {
            coding,
            big_endian: false,
            channels: self.channels,
        })
    }
}

/// An unsigned number of `size` bytes, the lowest first.
fn little(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + size)?;
    Some(bytes.iter().rev().fold(0, |value, &b| value << 8 | u64::from(b)))
}
