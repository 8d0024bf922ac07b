//! The `fmt ` chunk of WAV, RIFX and Wave64 files: rate, channels and coding.
//!
//! In: the chunk's body. Out: [`Format`]. Codings that nothing here decodes are told by name; the names follow the registry of
//! RFC 2361 and the tags that encoders write besides.

use crate::adpcm::{Blocks, Form};
use crate::pcm::{Coding, Layout, MAX_CHANNELS};
use crate::sound::{Fault, Kind, number};

/// The bytes of the chunk that are looked at.
pub(crate) const MAX_FORMAT: usize = 64;

/// What the chunk says.
pub(crate) struct Format {
    pub rate: u32,
    pub channels: usize,
    /// Bytes of a frame or block as they are stated; may be 0.
    pub align: usize,
    pub kind: Kind,
}

impl Format {
    pub(crate) fn parse(body: &[u8], big_endian: bool) -> Result<Self, Fault> {
        let field =
            |at, size| number(body, at, size, big_endian).ok_or("the `fmt ` chunk is shorter than 16 bytes");
        let (tag, channels, rate) = (field(0, 2)?, field(2, 2)? as usize, field(4, 4)? as u32);
        let align = field(12, 2)? as usize;
        // Version 1 of the chunk had no width.
        let bits = field(14, 2).unwrap_or(0);
        let extensible = tag == 0xfffe;
        let tag = match tag {
            0xfffe => extended_tag(body, big_endian)
                .ok_or("the extensible `fmt ` chunk is shorter than 40 bytes")?,
            tag => tag,
        };
        let linear = |coding| {
            Kind::Linear(Layout {
                coding,
                big_endian,
                channels,
            })
        };
        // Where the width is missing, the frame's size tells it, or the count of valid bits.
        let bits = match (bits, align.checked_div(channels)) {
            (0, Some(width @ 1..=8)) if align.is_multiple_of(channels) => 8 * width as u64,
            (0, _) if extensible => number(body, 18, 2, big_endian).unwrap_or(0),
            (bits, _) => bits,
        };
        let kind = match (tag, bits) {
            (1, 1..=64) => linear(integer(bits, align, channels)),
            (1, _) => return Err(Fault::What(format!("integer samples of {bits} bits"))),
            (3, 32) => linear(Coding::Float32),
            (3, 64) => linear(Coding::Float64),
            (3, _) => {
                return Err(Fault::What(format!("floating-point samples of {bits} bits")));
            }
            (6 | 0x102, _) => linear(Coding::ALaw),
            (7 | 0x101, _) => linear(Coding::MuLaw),
            // Too many channels have their own error, for every coding.
            (2 | 0x11, _) if !(1..=MAX_CHANNELS).contains(&channels) => Kind::Foreign("ADPCM"),
            (2 | 0x11, 0 | 4) => {
                let form = if tag == 2 { Form::Microsoft } else { Form::Ima };
                let frames = number(body, 18, 2, big_endian).unwrap_or(0) as usize;
                let blocks = Blocks::new(form, channels, align, frames).map_err(Fault::What)?;
                Kind::Adpcm(blocks, None)
            }
            (0x11, bits) => Kind::Unknown(format!("IMA ADPCM of {bits} bits")),
            (0x50 | 0x55, _) => Kind::Stream(if tag == 0x50 { "MP2" } else { "MP3" }),
            (tag, _) => match name(tag) {
                Some(name) => Kind::Foreign(name),
                None => Kind::Unknown(format!("wav format {tag:#06x}")),
            },
        };
        Ok(Self {
            rate,
            channels,
            align,
            kind,
        })
    }
}

/// The first four bytes of the extensible format's identifier are the plain format's tag. Writers of RIFX files turn them or
/// leave them as they are.
fn extended_tag(body: &[u8], big_endian: bool) -> Option<u64> {
    let turned = number(body, 24, 4, big_endian)?;
    if turned <= 0xffff {
        return Some(turned);
    }
    number(body, 24, 2, false)
}

/// Samples of, say, 20 bits stand in 3 bytes, or in 4 if the frame size says so; their lowest bits are zero.
fn integer(bits: u64, align: usize, channels: usize) -> Coding {
    let least = bits.div_ceil(8) as usize;
    let bytes = (least..=8)
        .find(|bytes| bytes * channels == align)
        .unwrap_or(least);
    if bytes == 1 {
        Coding::Unsigned8
    } else {
        Coding::Integer(bytes)
    }
}

/// Codings that nothing here decodes out of a WAV file, unless the sound itself shows what it is.
fn name(tag: u64) -> Option<&'static str> {
    Some(match tag {
        0x05 => "IBM CVSD",
        0x08 | 0x2001 => "DTS",
        0x0a => "WMA Voice",
        0x10 => "OKI ADPCM",
        0x12 => "Mediaspace ADPCM",
        0x13 => "Sierra ADPCM",
        0x14 => "G.723 ADPCM",
        0x17 => "Dialogic OKI ADPCM",
        0x20 => "Yamaha ADPCM",
        0x22 | 0x1501 => "DSP Group TrueSpeech",
        0x24 => "APTX",
        0x30 => "AC-2",
        0x31 | 0x1500 => "GSM 6.10",
        0x3b => "Rockwell ADPCM",
        0x40 => "G.721 ADPCM",
        0x41 => "G.728 CELP",
        0x42 | 0x111 | 0xa100 => "G.723.1",
        0x45 | 0x64 | 0x85 | 0x140 => "G.726 ADPCM",
        0x57 => "AMR",
        0x58 | 0x7361 => "AMR-WB",
        0x61 => "Duck DK4 ADPCM",
        0x62 => "Duck DK3 ADPCM",
        0x65 | 0x28f => "G.722 ADPCM",
        0x69 => "Xbox ADPCM",
        0x75 => "Voxware RT29 MetaSound",
        0x83 => "G.729",
        0x92 => "AC-3 over S/PDIF",
        0x97 => "ZyXEL ADPCM",
        0xff | 0x1600 | 0x1602 | 0x1610 | 0x4143 | 0xa106 | 0x706d => "AAC",
        0x130 | 0x132 => "ACELP.net",
        0x131 | 0x133..=0x135 => "Sipro",
        0x160 => "WMA 1",
        0x161 => "WMA 2",
        0x162 => "WMA Pro",
        0x163 => "WMA Lossless",
        0x200 | 0x202 => "Creative ADPCM",
        0x215 | 0x216 => "DV audio",
        0x270 => "ATRAC3",
        0x28e => "MSN Siren",
        0x401 => "Intel Music Coder",
        0x402 => "Indeo Audio",
        0x450 => "QDesign Music",
        0x500 | 0x501 => "On2 AVC",
        0x566f | 0x674f..=0x6751 | 0x676f..=0x6771 => "Vorbis",
        0x704f => "Opus",
        0x2000 => "AC-3",
        0x5756 => "WavPack",
        0xa109 => "Speex",
        0xf1ac => "FLAC",
        _ => return None,
    })
}
