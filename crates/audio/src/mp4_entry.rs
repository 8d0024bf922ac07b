//! The sample description of MP4 and QuickTime: how the sound of a track is coded.
//!
//! In: the body of `stsd`. Out: the decoder's parameters or the layout of samples, of the first description. Refused are codecs that
//! nothing here decodes, by their names.

use symphonia::core::codecs::audio::well_known::{CODEC_ID_AAC, CODEC_ID_ALAC, CODEC_ID_FLAC, CODEC_ID_OPUS};

use crate::aac;
use crate::adpcm::{Blocks, Form};
use crate::chunks::big;
use crate::mp4_tables::within;
use crate::opus::head_of_mp4;
use crate::pcm::{Coding, Layout};
use crate::track::{Refusal, flac_stream_info, header_fault, parameters, unsupported};

/// Names of codecs that are not decoded here, as others call them.
const FOREIGN: [(&[u8; 4], &str); 20] = [
    (b"ac-3", "ac3"),
    (b"sac3", "ac3"),
    (b"ec-3", "eac3"),
    (b"ac-4", "ac4"),
    (b"dtsc", "dts"),
    (b"dtsh", "dts"),
    (b"dtsl", "dts"),
    (b"dtse", "dts"),
    (b"dtsx", "dts"),
    (b"mlpa", "truehd"),
    (b"samr", "amr"),
    (b"sawb", "amr-wb"),
    (b"sawp", "amr-wb+"),
    (b"sevc", "evrc"),
    (b"sqcp", "qcelp"),
    (b"mha1", "mpeg-h"),
    (b"mhm1", "mpeg-h"),
    (b"iamf", "iamf"),
    (b"QDM2", "qdesign"),
    (b"wma ", "wma"),
];

/// How samples are coded.
pub(crate) enum Entry {
    Linear(Layout, u32),
    /// In blocks of ADPCM.
    Adpcm(Blocks),
    Coded(Box<symphonia::core::codecs::audio::AudioCodecParameters>),
    /// MP3 and its relatives.
    Mpeg,
}

/// How QuickTime packs frames whose table counts them one by one: so many frames in so many bytes, of all channels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Packing {
    pub frames: u64,
    pub bytes: u64,
    pub rate: u32,
    pub channels: usize,
}

impl Entry {
    /// The first sample description (ISO/IEC 14496-12, 12.2.3, and QuickTime's versions 1 and 2 of it).
    pub(crate) fn parse(descriptions: &[u8]) -> Result<(Self, Option<Packing>), Refusal> {
        let short = || header_fault("mp4", "the sample description is too short");
        let plain = descriptions.first() == Some(&0);
        let (format, body) = descriptions
            .get(8..)
            .and_then(|d| within(d).next())
            .ok_or_else(short)?;
        let field = |at, size| big(body, at, size).ok_or_else(short);
        let version = field(8, 2)?;
        let (mut channels, mut bits) = (field(16, 2)? as usize, field(18, 2)?);
        let mut rate = field(24, 4)? as u32 >> 16;
        let mut float = false;
        let mut big_endian = true;
        let inner = match version {
            1 if plain => body.get(44..),
            2 if plain => {
                rate = f64::from_bits(field(32, 8)?).round().clamp(0.0, 4e9) as u32;
                channels = field(40, 4)? as usize;
                bits = field(48, 4)?;
                let flags = field(52, 4)?;
                (float, big_endian) = (flags & 1 != 0, flags & 2 != 0);
                body.get(64..)
            }
            _ => body.get(28..),
        };
        let inner = inner.unwrap_or_default();
        let find = |wanted: &[u8; 4]| {
            let nested = within(inner)
                .filter(|(name, _)| name == b"wave")
                .flat_map(|(_, wave)| within(wave));
            within(inner)
                .chain(nested)
                .find(|(name, _)| name == wanted)
                .map(|(_, body)| body)
        };
        if find(b"enda").and_then(|body| big(body, 0, 2)) == Some(1) {
            big_endian = false;
        }
        let coded =
            |codec, extra: Option<&[u8]>| Ok(Self::Coded(Box::new(parameters(codec, rate, channels, extra))));
        let stated = |at| {
            let is_stated = plain && version == 1;
            field(at, 4).ok().filter(|&number| is_stated && number > 0)
        };
        let mut packing = stated(28).zip(stated(36)).map(|(frames, bytes)| Packing {
            frames,
            bytes,
            rate,
            channels,
        });
        let mut adpcm = |form| {
            let blocks = blocks(form, channels, find(&format), packing)?;
            packing = Some(Packing {
                frames: blocks.frames() as u64,
                bytes: blocks.bytes() as u64,
                rate,
                channels,
            });
            Ok(Self::Adpcm(blocks))
        };
        if let Some((coding, big_endian)) = samples(format, bits, (float, big_endian), find(b"pcmC"))? {
            let layout = Layout {
                coding,
                big_endian,
                channels,
            };
            return Ok((Self::Linear(layout, rate), None));
        }
        let entry = match &format {
            b"mp4a" => match find(b"esds").map(decoder_config) {
                Some(Some((0x40 | 0x66..=0x68, specific))) => {
                    coded(CODEC_ID_AAC, Some(&aac::mended(specific)))
                }
                Some(Some((0x69 | 0x6b, _))) => Ok(Self::Mpeg),
                Some(Some((other, _))) => Err(unsupported(object_type(other))),
                _ => Err(header_fault(
                    "mp4",
                    "an `mp4a` track without a decoder configuration",
                )),
            },
            b".mp3" | b"mp3 " | b"ms\0\x55" => Ok(Self::Mpeg),
            b"ima4" => adpcm(Form::Apple),
            b"ms\0\x02" => adpcm(Form::Microsoft),
            b"ms\0\x11" => adpcm(Form::Ima),
            b"alac" => coded(CODEC_ID_ALAC, find(b"alac").and_then(|body| body.get(4..))),
            b"fLaC" => coded(
                CODEC_ID_FLAC,
                find(b"dfLa")
                    .and_then(|body| body.get(4..))
                    .and_then(flac_stream_info),
            ),
            b"Opus" => {
                let head = head_of_mp4(find(b"dOps").unwrap_or_default());
                coded(CODEC_ID_OPUS, Some(&head))
            }
            b"enca" => Err(unsupported("encrypted")),
            other => Err(unsupported(name_of(*other))),
        };
        Ok((entry?, packing))
    }
}

/// Uncompressed samples and whether the highest byte comes first; `None` for other codings. In: the format's name, the bits of a
/// sample, whether flags and extensions say that it is a float and that the highest byte comes first, and the body of `pcmC`.
fn samples(
    format: [u8; 4],
    bits: u64,
    (float, big_endian): (bool, bool),
    config: Option<&[u8]>,
) -> Result<Option<(Coding, bool)>, Refusal> {
    let width = bits.div_ceil(8) as usize;
    Ok(Some(match &format {
        b"sowt" if (1..=4).contains(&width) => (Coding::Integer(width), false),
        b"twos" | b"NONE" if (1..=4).contains(&width) => (Coding::Integer(width), true),
        b"raw " if width == 1 => (Coding::Unsigned8, true),
        b"in24" => (Coding::Integer(3), big_endian),
        b"in32" => (Coding::Integer(4), big_endian),
        b"fl32" => (Coding::Float32, big_endian),
        b"fl64" => (Coding::Float64, big_endian),
        b"alaw" => (Coding::ALaw, true),
        b"ulaw" => (Coding::MuLaw, true),
        b"lpcm" if float && bits == 64 => (Coding::Float64, big_endian),
        b"lpcm" if float => (Coding::Float32, big_endian),
        b"lpcm" if (1..=4).contains(&width) => (Coding::Integer(width), big_endian),
        b"ipcm" | b"fpcm" => {
            let (coding, little) = pcm(&format == b"fpcm", config.unwrap_or_default(), bits)?;
            (coding, !little)
        }
        _ => return Ok(None),
    }))
}

/// Blocks of ADPCM. A copy of the WAV header tells their size; where it is missing, the fields of QuickTime do.
fn blocks(
    form: Form,
    channels: usize,
    wave: Option<&[u8]>,
    packing: Option<Packing>,
) -> Result<Blocks, Refusal> {
    let little = |at: usize| {
        let two = wave.and_then(|wave| wave.get(at..at + 2));
        let number = two.map_or(0, |two| u64::from(two[0]) | u64::from(two[1]) << 8);
        Some(number).filter(|&number| number > 0)
    };
    let bytes = little(12).or(packing.map(|packing| packing.bytes));
    let frames = little(18).or(packing.map(|packing| packing.frames));
    let size = |number: Option<u64>| usize::try_from(number.unwrap_or(0)).unwrap_or(usize::MAX);
    Blocks::new(form, channels, size(bytes), size(frames)).map_err(|what| header_fault("mp4", what))
}

/// The name of a codec that is not decoded here.
fn name_of(format: [u8; 4]) -> String {
    let known = FOREIGN.iter().find(|(theirs, _)| **theirs == format);
    let name = || String::from_utf8_lossy(&format).trim().escape_debug().to_string();
    known.map_or_else(name, |&(_, ours)| ours.to_owned())
}

/// Samples as ISO/IEC 23003-5 configures them, and whether the low byte comes first.
fn pcm(float: bool, config: &[u8], bits: u64) -> Result<(Coding, bool), Refusal> {
    let little = big(config, 4, 1).unwrap_or(0) & 1 != 0;
    let bytes = big(config, 5, 1).unwrap_or(bits).div_ceil(8) as usize;
    let coding = match (float, bytes) {
        (true, 8) => Coding::Float64,
        (true, 4) => Coding::Float32,
        (false, 1..=4) => Coding::Integer(bytes),
        _ => return Err(header_fault("mp4", format!("samples of {bytes} bytes"))),
    };
    Ok((coding, little))
}

/// Codecs of the registry of object types that nothing here decodes.
fn object_type(number: u8) -> String {
    match number {
        0xa5 => "ac3".to_owned(),
        0xa6 => "eac3".to_owned(),
        0xa9..=0xac => "dts".to_owned(),
        0xd1 => "evrc".to_owned(),
        0xdd => "vorbis in mp4".to_owned(),
        0xe1 => "qcelp".to_owned(),
        number => format!("object type {number:#x}"),
    }
}

/// The object type and the decoder's own configuration out of an `esds` box (ISO/IEC 14496-1, 7.2.6).
pub(crate) fn decoder_config(esds: &[u8]) -> Option<(u8, &[u8])> {
    let (3, es, _) = descriptor(esds.get(4..)?)? else {
        return None;
    };
    let flags = *es.get(2)?;
    let mut skip = 3;
    skip += if flags & 0x80 != 0 { 2 } else { 0 };
    skip += if flags & 0x40 != 0 {
        1 + usize::from(*es.get(skip)?)
    } else {
        0
    };
    skip += if flags & 0x20 != 0 { 2 } else { 0 };
    let (4, config, _) = descriptor(es.get(skip..)?)? else {
        return None;
    };
    let kind = *config.first()?;
    let specific = match descriptor(config.get(13..).unwrap_or_default()) {
        Some((5, specific, _)) => specific,
        _ => &[],
    };
    Some((kind, specific))
}

/// A descriptor: its tag, its body, what follows. Sizes have seven bits a byte; bodies may be cut.
fn descriptor(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, mut rest) = bytes.split_first()?;
    let mut size = 0;
    for _ in 0..4 {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        size = size << 7 | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            break;
        }
    }
    let (body, after) = rest.split_at(size.min(rest.len()));
    Some((tag, body, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_with_sizes_of_every_length() {
        let long = [3, 0x80, 0x80, 0x80, 25, 0, 1, 0];
        let config = [
            4, 17, 0x40, 0x15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 2, 0x12, 0x10,
        ];
        let esds = [&[0; 4][..], &long, &config].concat();
        assert_eq!(decoder_config(&esds), Some((0x40, &[0x12, 0x10][..])));
        for length in 0..20 {
            let _ = decoder_config(&esds[..length]);
        }
    }
}
