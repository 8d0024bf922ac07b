//! CAF with linear samples.
//!
//! In: a source whose first bytes are `caff`. Out: where the samples are and how they are laid out, and the texts of
//! the chunk `info`. Compressed sound is left to symphonia after a look at the numbers that it multiplies. Files
//! follow Apple's Core Audio Format Specification 1.0.
//!
//! Linear sound is read here because symphonia refuses a CAF file that is cut short, and such a file still has
//! sound.

use std::io::SeekFrom;

use crate::aiff::big;
use crate::metadata::{MAX_TEXT_BYTES, Metadata, clean, keep_first};
use crate::pcm::{Coding, Layout, MAX_CHANNELS};
use crate::source::{Source, read_bounded, read_up_to};
use crate::wav::Fault;

/// Compressed packets are never as long as this, in bytes or in frames; symphonia multiplies with what stands here.
const MAX_PACKET: u64 = 1 << 20;

/// More chunks than this are not looked at.
const MAX_CHUNKS: usize = 4096;

/// What the header says.
pub(crate) struct Header {
    pub rate: u32,
    pub channels: usize,
    /// `None` if the sound is compressed.
    pub layout: Option<Layout>,
    pub start: u64,
    pub bytes: Option<u64>,
    pub metadata: Metadata,
}

pub(crate) fn is_caf(head: &[u8]) -> bool {
    head.starts_with(b"caff")
}

pub(crate) fn header(source: &mut dyn Source) -> Result<Header, Fault> {
    let mut next = 8_u64;
    let (mut description, mut data) = (None, None);
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
            b"info" => take_texts(&read_bounded(source, size, 4 * MAX_TEXT_BYTES)?, &mut metadata),
            _ => {}
        }
        next = match start.checked_add(size) {
            Some(next) if i64::try_from(next).is_ok() => next,
            _ => break,
        };
    }
    let (rate, channels, layout) = description.ok_or("there is no `desc` chunk")?;
    let (start, bytes) = data.ok_or("there is no `data` chunk")?;
    Ok(Header {
        rate,
        channels,
        layout,
        start,
        bytes,
        metadata,
    })
}

fn parse_description(body: &[u8]) -> Result<(u32, usize, Option<Layout>), Fault> {
    let field = |at, size| big(body, at, size).ok_or("the `desc` chunk is shorter than 32 bytes");
    let rate = f64::from_bits(field(0, 8)?).round();
    let rate = if (0.0..4e9).contains(&rate) {
        rate as u32
    } else {
        0
    };
    let (flags, packet_bytes, packet_frames) = (field(12, 4)?, field(16, 4)?, field(20, 4)?);
    let (channels, bits) = (field(24, 4)? as usize, field(28, 4)?);
    if body.get(8..12) != Some(b"lpcm") {
        if packet_bytes > MAX_PACKET || packet_frames > MAX_PACKET {
            return Err(Fault::What(format!(
                "packets of {packet_bytes} bytes and {packet_frames} frames"
            )));
        }
        return Ok((rate, channels, None));
    }
    if !(1..=MAX_CHANNELS).contains(&channels) {
        // That has its own error, for every container.
        return Ok((rate, channels, None));
    }
    let width = sample_bytes(packet_bytes, packet_frames, channels);
    let coding = match (flags & 1, bits, width) {
        (0, 1..=32, Some(width @ 1..=4)) if bits <= 8 * width => Coding::Integer(width as usize),
        (1, 32, Some(4)) => Coding::Float32,
        (1, 64, Some(8)) => Coding::Float64,
        _ => {
            return Err(Fault::What(format!(
                "samples of {bits} bits in packets of {packet_bytes} bytes, {packet_frames} frames and \
                 {channels} channels"
            )));
        }
    };
    Ok((
        rate,
        channels,
        Some(Layout {
            coding,
            big_endian: flags & 2 == 0,
            channels,
        }),
    ))
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
