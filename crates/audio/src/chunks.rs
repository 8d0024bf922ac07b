//! A walk over the chunks of RIFF (little-endian sizes) and IFF (big-endian sizes) files.
//!
//! In: a source that stands at the first chunk's header. Out: each chunk's name, where its body begins and how
//! long it claims to be. A chunk with an odd size is followed by one byte of padding. The walk ends quietly at the
//! end of the file, whatever the sizes say, and after [`MAX_CHUNKS`].

use std::io::{self, SeekFrom};

use crate::source::{Source, read_up_to};

/// A file with more chunks than this is not read further: real ones have fewer than a hundred.
const MAX_CHUNKS: usize = 4096;

/// One chunk: its name, the place of its first byte after the header, the claimed size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    pub name: [u8; 4],
    pub start: u64,
    pub size: u64,
}

/// The walk. [`Walk::next`] goes to the next header by itself, wherever the source stands.
pub(crate) struct Walk {
    big_endian: bool,
    next: u64,
    seen: usize,
}

impl Walk {
    pub(crate) fn new(first: u64, big_endian: bool) -> Self {
        Self {
            big_endian,
            next: first,
            seen: 0,
        }
    }

    /// The next chunk, with the source at its body.
    pub(crate) fn next(&mut self, source: &mut dyn Source) -> io::Result<Option<Chunk>> {
        if self.seen == MAX_CHUNKS {
            return Ok(None);
        }
        self.seen += 1;
        source.seek(SeekFrom::Start(self.next))?;
        let mut header = [0; 8];
        if read_up_to(source, &mut header)? < header.len() {
            return Ok(None);
        }
        let [a, b, c, d, size @ ..] = header;
        let size = u64::from(if self.big_endian {
            u32::from_be_bytes(size)
        } else {
            u32::from_le_bytes(size)
        });
        let chunk = Chunk {
            name: [a, b, c, d],
            start: self.next + 8,
            size,
        };
        self.pass(chunk.start, size);
        Ok(Some(chunk))
    }

    /// Sets the true size of the chunk that begins at `start`, for files whose 32-bit size is a placeholder.
    pub(crate) fn pass(&mut self, start: u64, size: u64) {
        self.next = start.saturating_add(size).saturating_add(size & 1);
        if self.next > i64::MAX as u64 {
            self.seen = MAX_CHUNKS;
        }
    }
}

/// The chunks within a chunk that is already in memory.
pub(crate) fn within(mut body: &[u8], big_endian: bool) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    std::iter::from_fn(move || {
        let (header, rest) = body.split_first_chunk::<8>()?;
        let [a, b, c, d, size @ ..] = *header;
        let size = if big_endian {
            u32::from_be_bytes(size)
        } else {
            u32::from_le_bytes(size)
        };
        let size = (size as usize).min(rest.len());
        let (inner, rest) = rest.split_at(size);
        body = rest.get(size & 1..).unwrap_or_default();
        Some(([a, b, c, d], inner))
    })
}

/// An unsigned number of `size` bytes, the highest first.
pub(crate) fn big(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + size)?;
    Some(bytes.iter().fold(0, |value, &b| value << 8 | u64::from(b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn odd_chunks_are_padded_and_the_last_may_be_cut() {
        let bytes = b"abcd\x03\0\0\0xyz\0efgh\xff\xff\xff\x7fq".to_vec();
        let mut source = Cursor::new(bytes);
        let mut walk = Walk::new(0, false);
        let first = walk.next(&mut source).unwrap().unwrap();
        assert_eq!((&first.name, first.start, first.size), (b"abcd", 8, 3));
        let second = walk.next(&mut source).unwrap().unwrap();
        assert_eq!(
            (&second.name, second.start, second.size),
            (b"efgh", 20, 0x7fff_ffff)
        );
        assert!(walk.next(&mut source).unwrap().is_none());
    }

    #[test]
    fn empty_chunks_without_end_are_not_followed_for_ever() {
        let mut source = Cursor::new(b"abcd\0\0\0\0".repeat(MAX_CHUNKS + 10));
        let mut walk = Walk::new(0, true);
        let mut count = 0;
        while walk.next(&mut source).unwrap().is_some() {
            count += 1;
        }
        assert_eq!(count, MAX_CHUNKS);
    }

    #[test]
    fn chunks_in_memory() {
        let found: Vec<_> = within(b"INAM\x03\0\0\0abc\0IART\xff\0\0\0de", false).collect();
        assert_eq!(found, [(*b"INAM", &b"abc"[..]), (*b"IART", &b"de"[..])]);
        let turned: Vec<_> = within(b"INAM\0\0\0\x03abc\0", true).collect();
        assert_eq!(turned, [(*b"INAM", &b"abc"[..])]);
        assert_eq!(within(b"short", false).count(), 0);
    }
}
