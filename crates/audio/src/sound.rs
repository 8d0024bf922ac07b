//! Where the sound of a file is and how it is coded: what the headers of WAV, Wave64, AIFF, AU and CAF files come to.

use std::io;

use crate::adpcm::Blocks;
use crate::caf_packets::Plan;
use crate::metadata::Metadata;
use crate::pcm::Layout;
use crate::source::{Source, read_up_to};
use std::io::SeekFrom;

/// What a header says.
pub(crate) struct Sound {
    pub container: &'static str,
    pub rate: u32,
    pub channels: usize,
    pub kind: Kind,
    /// Where the sound begins.
    pub start: u64,
    /// How many bytes of it the header promises; `None` stands for all that follows.
    pub bytes: Option<u64>,
    /// Places and sizes of sound that continues the first.
    pub more: Vec<(u64, u64)>,
    pub metadata: Metadata,
}

/// How the sound is coded.
pub(crate) enum Kind {
    Linear(Layout),
    /// With the number of frames to be heard, where the header tells it.
    Adpcm(Blocks, Option<u64>),
    /// By a format of its own, whose frames are found by their content: MP3, AAC with headers, FLAC or Ogg. The name is for
    /// messages.
    Stream(&'static str),
    /// In packets of which a table gives the sizes.
    Table(Box<Plan>),
    /// In a known way that nothing here decodes.
    Foreign(&'static str),
    /// In a way that has no known name.
    Unknown(String),
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

/// An unsigned number of `size` bytes, at most eight, in either order.
pub(crate) fn number(bytes: &[u8], at: usize, size: usize, big_endian: bool) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(size)?)?;
    let add = |value: u64, &b: &u8| value << 8 | u64::from(b);
    Some(if big_endian {
        bytes.iter().fold(0, add)
    } else {
        bytes.iter().rev().fold(0, add)
    })
}

/// Whether a chunk begins at `place` rather than samples: a name in ASCII, a size that fits the file, and after it the end or
/// another name.
pub(crate) fn chunk_follows(
    source: &mut dyn Source,
    place: u64,
    length: u64,
    big_endian: bool,
) -> io::Result<bool> {
    let mut head = [0; 8];
    source.seek(SeekFrom::Start(place))?;
    if read_up_to(source, &mut head)? < head.len() || !is_name(&head[..4]) {
        return Ok(false);
    }
    let size = number(&head, 4, 4, big_endian).unwrap_or(0);
    let end = place.saturating_add(8).saturating_add(size);
    let padded = end.saturating_add(size & 1);
    if end > length || padded >= length {
        return Ok(end <= length);
    }
    let mut name = [0; 4];
    source.seek(SeekFrom::Start(padded))?;
    Ok(read_up_to(source, &mut name)? < name.len() || is_name(&name))
}

fn is_name(name: &[u8]) -> bool {
    name.iter().all(|b| (b' '..=b'~').contains(b)) && name.iter().any(u8::is_ascii_alphabetic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn chunks_are_told_from_samples() {
        let is = |bytes: &[u8]| {
            let mut source = Cursor::new(bytes.to_vec());
            chunk_follows(&mut source, 0, bytes.len() as u64, false).unwrap()
        };
        assert!(is(b"LIST\x04\0\0\0INFO") && is(b"id3 \x01\0\0\0x\0bext\0\0\0\0") && is(b"junk\x01\0\0\0x"));
        assert!(!is(b"LIST\x05\0\0\0INFO") && !is(b"\0\0\0\0\0\0\0\0") && !is(b"LIST") && !is(b""));
        assert!(!is(b"LIST\x04\0\0\0INFO\x01\x02\x03\x04samples"));
    }

    #[test]
    fn numbers_in_both_orders() {
        let bytes = [1, 2, 3, 4];
        assert_eq!(number(&bytes, 1, 2, true), Some(0x203));
        assert_eq!(number(&bytes, 1, 2, false), Some(0x302));
        assert_eq!(number(&bytes, 3, 2, true), None);
        assert_eq!(number(&bytes, usize::MAX, 2, true), None);
    }
}
