//! AIFF and AIFF-C.
//!
//! In: a source whose first bytes are `FORM` and `AIFF` or `AIFC`. Out: where the sound is and how it is coded, and the texts of
//! the chunks `NAME`, `AUTH` and `ANNO`. Besides linear samples, A-law, mu-law, Apple's IMA ADPCM and MP3 are known; other
//! compressed sound is told by name. Files follow Audio Interchange File Format 1.3 (1989) and the AIFF-C draft of 1991.
//!
//! This is written here because symphonia refuses an AIFF file that is cut short, and such a file still has sound.

use std::io::SeekFrom;

use crate::adpcm::{Blocks, Form};
use crate::chunks::{Walk, big};
use crate::metadata::{MAX_TEXT_BYTES, Metadata, clean, keep_first};
use crate::pcm::{Coding, Layout, MAX_CHANNELS};
use crate::sound::{Fault, Kind, Sound, chunk_follows};
use crate::source::{Source, read_bounded};

pub(crate) fn is_aiff(head: &[u8]) -> bool {
    head.starts_with(b"FORM") && matches!(head.get(8..12), Some(b"AIFF" | b"AIFC"))
}

/// What the `COMM` chunk says.
struct Common {
    rate: u32,
    channels: usize,
    frames: u64,
    kind: Kind,
}

pub(crate) fn header(source: &mut dyn Source, length: u64) -> Result<Sound, Fault> {
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
                let start = chunk.start + 8 + offset;
                // A size that was never written, or that says so, stands for all that follows.
                let never = match chunk.size {
                    0 => length > start && !chunk_follows(source, chunk.start, length, true)?,
                    8 => length > start && !chunk_follows(source, start, length, true)?,
                    size => size == u64::from(u32::MAX),
                };
                sound = Some((start, (!never).then(|| chunk.size.saturating_sub(8 + offset))));
                if never {
                    break;
                }
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
    let Common {
        rate,
        channels,
        frames,
        kind,
    } = common.ok_or("there is no `COMM` chunk")?;
    let (start, bytes) = sound.ok_or("there is no `SSND` chunk")?;
    let bytes = match &kind {
        // The smaller of the two counts: the chunk may hold padding after the last frame.
        Kind::Linear(layout) if frames > 0 => {
            let counted = frames.saturating_mul(layout.frame_bytes() as u64);
            bytes.map(|bytes| bytes.min(counted))
        }
        _ => bytes,
    };
    Ok(Sound {
        container: "aiff",
        rate,
        channels,
        kind,
        start,
        bytes,
        more: Vec::new(),
        metadata,
    })
}

fn parse_common(body: &[u8], compressed: bool) -> Result<Common, Fault> {
    let field = |at, size| big(body, at, size).ok_or("the `COMM` chunk is too short");
    let (channels, frames, bits) = (field(0, 2)? as usize, field(2, 4)?, field(6, 2)?);
    let rate = extended(field(8, 2)?, field(10, 8)?);
    let kind = if compressed {
        body.get(18..22).ok_or("the `COMM` chunk is too short")?
    } else {
        b"NONE"
    };
    let plain = match bits {
        1..=64 => Some(Coding::Integer(bits.div_ceil(8) as usize)),
        _ => None,
    };
    let (coding, big_endian) = match kind.to_ascii_lowercase().as_slice() {
        b"none" | b"twos" => (plain, true),
        b"sowt" => (plain, false),
        b"in16" => (Some(Coding::Integer(2)), true),
        b"in24" => (Some(Coding::Integer(3)), true),
        b"in32" => (Some(Coding::Integer(4)), true),
        b"42ni" => (Some(Coding::Integer(3)), false),
        b"23ni" => (Some(Coding::Integer(4)), false),
        b"fl32" => (Some(Coding::Float32), true),
        b"fl64" => (Some(Coding::Float64), true),
        b"raw " if bits == 8 => (Some(Coding::Unsigned8), true),
        b"alaw" => (Some(Coding::ALaw), true),
        b"ulaw" => (Some(Coding::MuLaw), true),
        other => {
            let kind = compressed_kind(other, channels)?;
            return Ok(Common {
                rate,
                channels,
                frames,
                kind,
            });
        }
    };
    let coding = coding.ok_or_else(|| Fault::What(format!("integer samples of {bits} bits")))?;
    let kind = Kind::Linear(Layout {
        coding,
        big_endian,
        channels,
    });
    Ok(Common {
        rate,
        channels,
        frames,
        kind,
    })
}

/// The four letters of compressed sound, in lower case, as AIFF-C and CAF have them.
pub(crate) fn compressed_kind(letters: &[u8], channels: usize) -> Result<Kind, Fault> {
    Ok(match letters {
        // Too many channels have their own error.
        b"ima4" if (1..=MAX_CHANNELS).contains(&channels) => Kind::Adpcm(
            Blocks::new(Form::Apple, channels, 0, 0).map_err(Fault::What)?,
            None,
        ),
        b"ima4" => Kind::Foreign("IMA ADPCM"),
        b".mp3" | b"mp3 " | b"ms\0\x55" => Kind::Stream("MP3"),
        b".mp2" => Kind::Stream("MP2"),
        b".mp1" => Kind::Stream("MP1"),
        b"mac3" => Kind::Foreign("MACE 3:1"),
        b"mac6" => Kind::Foreign("MACE 6:1"),
        b"qdmc" => Kind::Foreign("QDesign Music"),
        b"qdm2" => Kind::Foreign("QDesign Music 2"),
        b"qclp" => Kind::Foreign("QCELP"),
        b"agsm" | b"gsm " | b"ms\0\x31" => Kind::Foreign("GSM 6.10"),
        b"g721" => Kind::Foreign("G.721 ADPCM"),
        b"g722" => Kind::Foreign("G.722 ADPCM"),
        b"g723" => Kind::Foreign("G.723 ADPCM"),
        b"g726" => Kind::Foreign("G.726 ADPCM"),
        b"g728" => Kind::Foreign("G.728 CELP"),
        b"dwvw" => Kind::Foreign("DWVW"),
        b"ace2" | b"ace8" => Kind::Foreign("ACE"),
        b"sdx2" => Kind::Foreign("SDX2 DPCM"),
        b"cbd2" => Kind::Foreign("CBD2 DPCM"),
        b"adp4" => Kind::Foreign("ADP4 ADPCM"),
        b"dvi4" | b"ms\0\x11" => Kind::Foreign("DVI ADPCM"),
        b"ms\0\x02" => Kind::Foreign("Microsoft ADPCM"),
        b"rt24" | b"rt29" => Kind::Foreign("Voxware MetaVoice"),
        b"ilbc" => Kind::Foreign("iLBC"),
        b"samr" => Kind::Foreign("AMR"),
        b"sawb" => Kind::Foreign("AMR-WB"),
        b"ac-3" => Kind::Foreign("AC-3"),
        b"ec-3" => Kind::Foreign("E-AC-3"),
        b"aacl" => Kind::Foreign("AAC-LD"),
        b"aace" | b"aacf" => Kind::Foreign("AAC-ELD"),
        b"usac" => Kind::Foreign("xHE-AAC"),
        other => Kind::Unknown(String::from_utf8_lossy(other).trim().escape_debug().to_string()),
    })
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
