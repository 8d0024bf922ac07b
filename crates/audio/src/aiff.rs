//! AIFF and AIFF-C with uncompressed samples.
//!
//! In: a source whose first bytes are `FORM` and `AIFF` or `AIFC`. Out: where the samples are and how they are laid
//! out, and the texts of the chunks `NAME`, `AUTH` and `ANNO`. It refuses compressed sound other than A-law and
//! mu-law. Files follow Audio Interchange File Format 1.3 (1989) and the AIFF-C draft of 1991.
//!
//! This is written here because symphonia refuses an AIFF file that is cut short, and such a file still has sound.

use std::io::SeekFrom;

use crate::chunks::Walk;
use crate::metadata::{MAX_TEXT_BYTES, Metadata, clean, keep_first};
use crate::pcm::{Coding, Layout};
use crate::source::{Source, read_bounded};
use crate::wav::Fault;

pub(crate) fn is_aiff(head: &[u8]) -> bool {
    head.starts_with(b"FORM") && matches!(head.get(8..12), Some(b"AIFF" | b"AIFC"))
}

/// What the header says.
pub(crate) struct Header {
    pub rate: u32,
    pub layout: Layout,
    pub start: u64,
    pub bytes: u64,
    pub metadata: Metadata,
}

pub(crate) fn header(source: &mut dyn Source) -> Result<Header, Fault> {
    source.seek(SeekFrom::Start(0))?;
    let compressed = read_bounded(source, 12, 12)?.ends_with(b"AIFC");
    let mut walk = Walk::new(12, true);
    let (mut common, mut sound) = (None, None);
    let mut metadata = Metadata::default();
    while let Some(chunk) = walk.next(source)? {
        match &chunk.name {
            b"COMM" if common.is_none() => {
                common = Some(parse_common(&read_bounded(source, chunk.size, 22)?, compressed)?);
            }
            b"SSND" if sound.is_none() => {
                let offset = big(&read_bounded(source, chunk.size, 8)?, 0, 4).unwrap_or(0);
                sound = Some((chunk.start + 8 + offset, chunk.size.saturating_sub(8 + offset)));
            }
            b"NAME" | b"AUTH" | b"ANNO" => {
                let text = clean(&read_bounded(source, chunk.size, MAX_TEXT_BYTES)?);
                let field = match &chunk.name {
                    b"NAME" => &mut metadata.title,
                    b"AUTH" => &mut metadata.artist,
                    _ => &mut metadata.comment,
                };
                keep_first(field, text);
            }
            _ => {}
        }
    }
    let (rate, layout, frames) = common.ok_or("there is no `COMM` chunk")?;
    let (start, bytes) = sound.ok_or("there is no `SSND` chunk")?;
    // The smaller of the two counts: the chunk may hold padding after the last frame.
    let counted = frames.saturating_mul(layout.frame_bytes() as u64);
    let bytes = if frames == 0 { bytes } else { bytes.min(counted) };
    Ok(Header {
        rate,
        layout,
        start,
        bytes,
        metadata,
    })
}

fn parse_common(body: &[u8], compressed: bool) -> Result<(u32, Layout, u64), Fault> {
    let field = |at, size| big(body, at, size).ok_or("the `COMM` chunk is too short");
    let (channels, frames, bits) = (field(0, 2)? as usize, field(2, 4)?, field(6, 2)?);
    let rate = extended(field(8, 2)?, field(10, 8)?);
    let kind = if compressed {
        body.get(18..22).ok_or("the `COMM` chunk is too short")?
    } else {
        b"NONE"
    };
    let plain = match bits {
        1..=32 => Some(Coding::Integer(bits.div_ceil(8) as usize)),
        _ => None,
    };
    let (coding, big_endian) = match kind.to_ascii_lowercase().as_slice() {
        b"none" | b"twos" => (plain, true),
        b"sowt" => (plain, false),
        b"in24" => (Some(Coding::Integer(3)), true),
        b"in32" => (Some(Coding::Integer(4)), true),
        b"42ni" => (Some(Coding::Integer(3)), false),
        b"23ni" => (Some(Coding::Integer(4)), false),
        b"fl32" => (Some(Coding::Float32), true),
        b"fl64" => (Some(Coding::Float64), true),
        b"raw " if bits == 8 => (Some(Coding::Unsigned8), true),
        b"alaw" => (Some(Coding::ALaw), true),
        b"ulaw" => (Some(Coding::MuLaw), true),
        _ => {
            let kind = String::from_utf8_lossy(kind);
            return Err(Fault::What(format!(
                "sound compressed as `{}`",
                kind.escape_debug()
            )));
        }
    };
    let coding = coding.ok_or_else(|| Fault::What(format!("integer samples of {bits} bits")))?;
    Ok((
        rate,
        Layout {
            coding,
            big_endian,
            channels,
        },
        frames,
    ))
}

/// The 80-bit float of the sample rate, rounded to whole hertz: sign and exponent in 16 bits with a bias of 16383,
/// then 64 bits with the leading one written out. What is no rate at all becomes 0, which the limits refuse.
fn extended(sign_and_exponent: u64, significand: u64) -> u32 {
    let exponent = sign_and_exponent as i64 - 16383 - 63;
    let value = significand as f64 * (exponent.clamp(-2000, 2000) as f64).exp2();
    if value.is_finite() && value < f64::from(u32::MAX) {
        value.round() as u32
    } else {
        0
    }
}

/// An unsigned number of `size` bytes, the highest first.
pub(crate) fn big(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + size)?;
    Some(bytes.iter().fold(0, |value, &b| value << 8 | u64::from(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_in_eighty_bits() {
        assert_eq!(extended(0x400e, 0xac44_0000_0000_0000), 44_100);
        assert_eq!(extended(0x400e, 0xbb80_0000_0000_0000), 48_000);
        assert_eq!(extended(0x400c, 0xac44_0000_0000_0000), 11_025);
        assert_eq!(extended(0, 0), 0);
        assert_eq!(extended(0x7fff, u64::MAX), 0);
        assert_eq!(extended(0xffff, u64::MAX), 0);
    }
}
