//! Whether an Ogg file ends where it should.
//!
//! Symphonia takes a file for complete when its streams so far have ended, even if another stream had just begun. In:
//! a source and its length. Out: true if the file begins as Ogg and its last page is cut short or does not end a
//! stream. Pages follow RFC 3533; bytes after the last page, such as tags, do not count.

use std::io::{self, SeekFrom};

use crate::source::{Source, read_bounded};

/// The largest page: its header, its table and 255 segments of 255 bytes.
const LARGEST_PAGE: u64 = 27 + 255 + 255 * 255;

/// The flag of a stream's last page.
const LAST: u8 = 4;

pub(crate) fn is_cut(source: &mut dyn Source, length: u64) -> io::Result<bool> {
    source.seek(SeekFrom::Start(0))?;
    if read_bounded(source, 4, 4)? != b"OggS" {
        return Ok(false);
    }
    // Two pages' length holds at least one whole page, wherever the file was cut.
    let tail = (2 * LARGEST_PAGE).min(length);
    source.seek(SeekFrom::Start(length - tail))?;
    let tail = read_bounded(source, tail, tail as usize)?;
    let Some(last) = tail.windows(5).rposition(|bytes| bytes == b"OggS\0") else {
        return Ok(true);
    };
    Ok(!is_whole_and_last(&tail[last..]))
}

fn is_whole_and_last(page: &[u8]) -> bool {
    let (Some(flags), Some(&count)) = (page.get(5), page.get(26)) else {
        return false;
    };
    let Some(lengths) = page.get(27..27 + usize::from(count)) else {
        return false;
    };
    let size = 27 + lengths.len() + lengths.iter().map(|&l| usize::from(l)).sum::<usize>();
    flags & LAST != 0 && page.len() >= size
}
