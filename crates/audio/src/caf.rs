//! CAF.
//!
//! In: a source whose first bytes are `caff`. Out: where the sound is and how it is coded, and the texts of the chunk `info`.
//! Linear samples, A-law, mu-law and Apple's IMA ADPCM lie one after the other. ALAC, AAC, FLAC and Opus come in packets, whose
//! sizes stand in the chunk `pakt`, with the frames of run-up and padding. Files follow Apple's Core Audio Format
//! Specification 1.0.
//!
//! This is written here because symphonia refuses a CAF file that is cut short, and such a file still has sound; it also keeps
//! the run-up and padding, and does not know the header that Opus needs.

use std::io::SeekFrom;

use crate::aiff::compressed_kind;
use crate::caf_packets::{Codec, Counts, MAX_PACKET, Plan};
use crate::chunks::big;
use crate::metadata::{MAX_TEXT_BYTES, Metadata, clean, keep_first};
use crate::pcm::{Coding, Layout, MAX_CHANNELS};
use crate::sound::{Fault, Kind, Sound};
use crate::source::{Source, read_bounded, read_up_to};

/// More chunks than this are not looked at.
const MAX_CHUNKS: usize = 4096;

/// The longest table of packets that is read: enough for some weeks of sound.
const MAX_TABLE: usize = 64 << 20;

/// The longest configuration of a decoder.
const MAX_COOKIE: usize = 64 << 10;

pub(crate) fn is_caf(head: &[u8]) -> bool {
    head.starts_with(b"caff")
}

/// What the `desc` chunk says.
struct Description {
    rate: u32,
    channels: usize,
    kind: Kind,
}

pub(crate) fn header(source: &mut dyn Source) -> Result<Sound, Fault> {
    let mut next = 8_u64;
    let (mut description, mut data) = (None, None);
    let (mut table, mut cookie) = (None, None);
    let mut metadata = Metadata::default();
    for _ in 0..MAX_CHUNKS {
        source.seek(SeekFrom::Start(next))?;
        let mut head = [0; 12];
        if read_up_to(source, &mut head)? < head.len() {
            break;
        }
        let start = next + 12;
        let size = big(&head, 4, 8).unwrap_or(0);
        match &head[..4] {
            b"desc" if description.is_none() => {
                description = Some(parse_description(&read_bounded(source, size, 32)?)?);
            }
            // The first four bytes count the edits. A size of -1 stands for all that follows.
            b"data" if data.is_none() => {
                data = Some((start + 4, (size != u64::MAX).then(|| size.saturating_sub(4))));
            }
            b"pakt" if table.is_none() => table = Some(read_bounded(source, size, MAX_TABLE)?),
            b"kuki" if cookie.is_none() => cookie = Some(read_bounded(source, size, MAX_COOKIE)?),
            b"info" => take_texts(&read_bounded(source, size, 4 * MAX_TEXT_BYTES)?, &mut metadata),
            _ => {}
        }
        next = match start.checked_add(size) {
            Some(next) if i64::try_from(next).is_ok() => next,
            _ => break,
        };
    }
    let Description {
        rate,
        channels,
        mut kind,
    } = description.ok_or("there is no `desc` chunk")?;
    let (start, bytes) = data.ok_or("there is no `data` chunk")?;
    let counted = table.as_deref().and_then(Counts::parse);
    match &mut kind {
        Kind::Adpcm(_, keep) => *keep = counted.and_then(|counts| counts.valid),
        Kind::Table(plan) => {
            plan.place = start;
            plan.bytes = bytes;
            plan.cookie = cookie.unwrap_or_default();
            plan.has_table = table.is_some();
            plan.table = table.unwrap_or_default();
        }
        _ => {}
    }
    Ok(Sound {
        container: "caf",
        rate,
        channels,
        kind,
        start,
        bytes,
        more: Vec::new(),
        metadata,
    })
}

fn parse_description(body: &[u8]) -> Result<Description, Fault> {
    let field = |at, size| big(body, at, size).ok_or("the `desc` chunk is shorter than 32 bytes");
    let rate = f64::from_bits(field(0, 8)?).round();
    let rate = if (0.0..4e9).contains(&rate) {
        rate as u32
    } else {
        0
    };
    let letters = body.get(8..12).unwrap_or_default().to_ascii_lowercase();
    let (flags, packet_bytes, packet_frames) = (field(12, 4)?, field(16, 4)?, field(20, 4)?);
    let (channels, bits) = (field(24, 4)? as usize, field(28, 4)?);
    let linear = |coding, big_endian| {
        Kind::Linear(Layout {
            coding,
            big_endian,
            channels,
        })
    };
    let kind = match letters.as_slice() {
        b"lpcm" if !(1..=MAX_CHANNELS).contains(&channels) => {
            // That has its own error, for every container.
            linear(Coding::Unsigned8, true)
        }
        b"lpcm" => {
            let width = sample_bytes(packet_bytes, packet_frames, channels);
            let coding = match (flags & 1, bits, width) {
                (0, 1..=64, Some(width @ 1..=8)) if bits <= 8 * width => Coding::Integer(width as usize),
                (1, 32, Some(4)) => Coding::Float32,
                (1, 64, Some(8)) => Coding::Float64,
                _ => {
                    return Err(Fault::What(format!(
                        "samples of {bits} bits in packets of {packet_bytes} bytes, {packet_frames} frames and \
                         {channels} channels"
                    )));
                }
            };
            linear(coding, flags & 2 == 0)
        }
        b"alaw" => linear(Coding::ALaw, true),
        b"ulaw" => linear(Coding::MuLaw, true),
        letters => match Codec::of(letters) {
            Some(codec) => {
                if packet_bytes > MAX_PACKET || packet_frames > MAX_PACKET {
                    return Err(Fault::What(format!(
                        "packets of {packet_bytes} bytes and {packet_frames} frames"
                    )));
                }
                Kind::Table(Box::new(Plan::new(
                    codec,
                    rate,
                    channels,
                    packet_bytes,
                    packet_frames,
                )))
            }
            None => compressed_kind(letters, channels)?,
        },
    };
    Ok(Description { rate, channels, kind })
}

/// How many bytes one sample takes, which may be more than its bits need: 24 bits often stand in 4 bytes. The
/// format has no flag for where in them; they are taken to be the highest ones, as in WAV files. `None` if
/// the bytes of a packet cannot be shared out evenly.
fn sample_bytes(packet_bytes: u64, packet_frames: u64, channels: usize) -> Option<u64> {
    let samples = packet_frames.checked_mul(channels as u64)?;
    (samples > 0 && packet_bytes.is_multiple_of(samples)).then(|| packet_bytes / samples)
}

/// Pairs of texts that each end in a zero byte, after a count that is not needed.
fn take_texts(body: &[u8], metadata: &mut Metadata) {
    let mut texts = body.get(4..).unwrap_or_default().split(|&b| b == 0);
    while let (Some(key), Some(value)) = (texts.next(), texts.next()) {
        let field = match key.to_ascii_lowercase().as_slice() {
            b"title" => &mut metadata.title,
            b"artist" => &mut metadata.artist,
            b"description" | b"subject" => &mut metadata.description,
            b"comments" | b"comment" => &mut metadata.comment,
            b"recorded date" | b"date" | b"year" => &mut metadata.date,
            _ => continue,
        };
        keep_first(field, clean(value));
    }
}
