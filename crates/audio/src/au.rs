//! AU, the sound files of Sun and NeXT.
//!
//! In: a source whose first bytes are `.snd`, or `dns.` where all numbers have the lowest byte first, as DEC wrote them. Out:
//! where the sound is and how it is coded, and the annotation as a comment. Linear integers and floats, mu-law and A-law are
//! decoded; the others are told by name. Files follow Sun's manual page `audio.h(3HEAD)`.

use std::io::SeekFrom;

use crate::metadata::{MAX_TEXT_BYTES, Metadata, clean};
use crate::pcm::{Coding, Layout};
use crate::sound::{Fault, Kind, Sound, number};
use crate::source::{Source, read_bounded};

/// Bytes of the header before the annotation.
const HEADER: u64 = 24;

pub(crate) fn is_au(head: &[u8]) -> bool {
    head.starts_with(b".snd") || head.starts_with(b"dns.")
}

pub(crate) fn header(source: &mut dyn Source, length: u64) -> Result<Sound, Fault> {
    source.seek(SeekFrom::Start(0))?;
    let head = read_bounded(source, HEADER, HEADER as usize)?;
    let big_endian = head.starts_with(b".snd");
    let field = |n: usize| number(&head, 4 * n, 4, big_endian).ok_or("the file ends within its header");
    let (start, size, coding) = (field(1)?, field(2)?, field(3)?);
    let (rate, channels) = (field(4)? as u32, field(5)? as usize);
    if start < HEADER {
        return Err(Fault::What(format!("the sound begins at byte {start}")));
    }
    let metadata = Metadata {
        comment: clean(&read_bounded(source, start - HEADER, MAX_TEXT_BYTES)?),
        ..Metadata::default()
    };
    let linear = |coding| {
        Kind::Linear(Layout {
            coding,
            big_endian,
            channels,
        })
    };
    let kind = match coding {
        1 => linear(Coding::MuLaw),
        2..=5 => linear(Coding::Integer(coding as usize - 1)),
        6 => linear(Coding::Float32),
        7 => linear(Coding::Float64),
        8 => Kind::Foreign("AU of fragments"),
        10..=22 => Kind::Foreign("AU for signal processors"),
        23 => Kind::Foreign("G.721 ADPCM"),
        24 => Kind::Foreign("G.722 ADPCM"),
        25 | 26 => Kind::Foreign("G.723 ADPCM"),
        27 => linear(Coding::ALaw),
        // The letters `7262`.
        0x3732_3632 => Kind::Foreign("G.726 ADPCM"),
        other => Kind::Unknown(format!("au coding {other}")),
    };
    // All ones stand for a size that is not known; zero is one that was never written.
    let unknown = size == u64::from(u32::MAX) || (size == 0 && length > start);
    Ok(Sound {
        container: "au",
        rate,
        channels,
        kind,
        start,
        bytes: (!unknown).then_some(size),
        more: Vec::new(),
        metadata,
    })
}
