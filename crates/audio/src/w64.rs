//! Sony Wave64.
//!
//! In: a source that begins with Wave64's identifiers. Out: what [`crate::wav`] gives. Chunks have identifiers of 16 bytes, of
//! which the first four spell the name that WAV has for them, and sizes of 64 bits that count the 24 bytes of the chunk's own
//! head. They begin at multiples of eight. Files follow Sony's Wave64 file format (2004).

use std::io::SeekFrom;

use crate::metadata::{Bext, MAX_TEXT_BYTES, Metadata};
use crate::sound::{Fault, Sound, number};
use crate::source::{Source, read_bounded, read_up_to};
use crate::wav;
use crate::wave_format::{Format, MAX_FORMAT};

/// What follows the name in the identifiers of the file itself and of lists, and in all others.
const OUTER: [u8; 12] = [
    0x2e, 0x91, 0xcf, 0x11, 0xa5, 0xd6, 0x28, 0xdb, 0x04, 0xc1, 0x00, 0x00,
];
const INNER: [u8; 12] = [
    0xf3, 0xac, 0xd3, 0x11, 0x8c, 0xd1, 0x00, 0xc0, 0x4f, 0x8e, 0xdb, 0x8a,
];

/// Bytes of a chunk's head, and of the file's head before the first chunk.
const HEAD: u64 = 24;
const FIRST: u64 = 40;

/// More chunks than this are not looked at.
const MAX_CHUNKS: usize = 4096;

pub(crate) fn is_w64(head: &[u8]) -> bool {
    head.starts_with(b"riff") && head.get(4..16) == Some(&OUTER)
}

pub(crate) fn header(source: &mut dyn Source, length: u64) -> Result<Sound, Fault> {
    let mut next = FIRST;
    let (mut format, mut data) = (None, None);
    let mut metadata = Metadata::default();
    for _ in 0..MAX_CHUNKS {
        let mut head = [0; HEAD as usize];
        source.seek(SeekFrom::Start(next))?;
        if read_up_to(source, &mut head)? < head.len() {
            break;
        }
        let start = next + HEAD;
        let total = number(&head, 16, 8, false).unwrap_or(0);
        let size = total.saturating_sub(HEAD);
        let known = head[4..16] == INNER || head[4..16].starts_with(&[0x2f, 0x91, 0xcf, 0x11]);
        match &head[..4] {
            b"fmt " if known && format.is_none() => {
                format = Some(Format::parse(&read_bounded(source, size, MAX_FORMAT)?, false)?);
            }
            b"data" if known && data.is_none() => {
                // A size that was never written, or the largest one.
                let never = total <= HEAD && length > start && !chunk_at(source, start)?;
                let streamed = total >= i64::MAX as u64;
                data = Some((start, (!never && !streamed).then_some(size)));
                if never {
                    break;
                }
            }
            b"bext" if known && metadata.bext.is_none() => {
                metadata.bext = Bext::parse(&read_bounded(source, size, 4 * MAX_TEXT_BYTES)?);
            }
            b"list" if known => metadata.take_list(&read_bounded(source, size, 4 * MAX_TEXT_BYTES)?, false),
            _ => {}
        }
        next = match next
            .checked_add(total.max(HEAD))
            .map(|end| end.checked_next_multiple_of(8))
        {
            Some(Some(next)) if i64::try_from(next).is_ok() => next,
            _ => break,
        };
    }
    let format = format.ok_or("there is no `fmt ` chunk")?;
    let data = data.ok_or("there is no `data` chunk")?;
    wav::sound(source, "w64", format, data, Vec::new(), metadata)
}

/// Whether a chunk's identifier stands there.
fn chunk_at(source: &mut dyn Source, place: u64) -> Result<bool, Fault> {
    let mut head = [0; 16];
    source.seek(SeekFrom::Start(place))?;
    Ok(read_up_to(source, &mut head)? == head.len() && head[4..] == INNER)
}
