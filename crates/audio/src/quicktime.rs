//! What only QuickTime files have: compressed indexes, and tables that count the frames of compressed sound one by one.
//!
//! In: an index (`moov`), or a track of it. Out: the index in full, and the place of the sound. Follows the QuickTime File Format
//! Specification, "Compressed Movie Resources" and "Sound Sample Descriptions". The sound of such tracks is a run of bytes in chunks:
//! blocks of ADPCM, or frames of MP3 that need not end where a chunk does.

use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;

use crate::metadata::Metadata;
use crate::mp4_entry::{Entry, Packing};
use crate::mp4_tables::{Part, Track, load, parts, within};
use crate::sound::{Kind, Sound};
use crate::source::Places;
use crate::track::{Refusal, header_fault};

/// The longest index, compressed or not.
const MAX_INDEX: usize = 16 << 20;

/// The index in full: as it is, or decompressed, beside the file.
pub(crate) fn expanded(source: &mut Places, moov: Part) -> Result<Part, Refusal> {
    let first = parts(source, moov.start, moov.end).map_err(Refusal::Read)?;
    let Some(&cmov) = first.iter().find(|part| &part.name == b"cmov") else {
        return Ok(moov);
    };
    let body = load(source, cmov, MAX_INDEX as u64).map_err(Refusal::Read)?;
    let find = |wanted: &[u8; 4]| {
        within(&body)
            .find(|(name, _)| name == wanted)
            .map(|(_, body)| body)
    };
    if find(b"dcom").is_some_and(|method| !method.starts_with(b"zlib")) {
        return Err(header_fault("mp4", "the index is compressed in an unknown way"));
    }
    let compressed = find(b"cmvd").and_then(|body| body.get(4..)).unwrap_or_default();
    let damaged = || header_fault("mp4", "the compressed index is damaged");
    let index = decompress_to_vec_zlib_with_limit(compressed, MAX_INDEX).map_err(|_| damaged())?;
    let place = source.put_beside(index);
    let inner = parts(source, place.start, place.end).map_err(Refusal::Read)?;
    let moov = inner.into_iter().find(|part| &part.name == b"moov");
    moov.ok_or_else(damaged)
}

/// Where the sound is, if the table of sizes does not tell its packets.
pub(crate) fn sound(
    track: &Track,
    entry: &Entry,
    packing: Option<Packing>,
    length: u64,
    metadata: &Metadata,
) -> Option<Sound> {
    let packing = packing?;
    let kind = match entry {
        Entry::Adpcm(blocks) => Kind::Adpcm(*blocks, None),
        Entry::Mpeg if track.same_size().is_some_and(|same| same < packing.bytes) => Kind::Stream("MP3"),
        _ => return None,
    };
    let mut places = chunks(track, packing, length).into_iter();
    let (start, bytes) = places.next()?;
    Some(Sound {
        container: "mp4",
        rate: packing.rate,
        channels: packing.channels,
        kind,
        start,
        bytes: Some(bytes),
        more: places.collect(),
        metadata: metadata.clone(),
    })
}

/// Places and sizes of the chunks; those that lie one behind the other are one.
fn chunks(track: &Track, packing: Packing, length: u64) -> Vec<(u64, u64)> {
    let mut found: Vec<(u64, u64)> = Vec::new();
    let (mut run, mut sample, mut total) = (0, 0_u64, 0_u64);
    let packed = track.same_size().is_some_and(|same| same < packing.bytes);
    // An index may name the same bytes again and again.
    let most = length.saturating_mul(2);
    for chunk in 0.. {
        let Some(place) = track.offset(chunk) else { break };
        while track.run(run + 1).is_some_and(|(first, ..)| first <= chunk) {
            run += 1;
        }
        let Some((_, count, _)) = track.run(run) else {
            break;
        };
        let count = count.min(track.samples().saturating_sub(sample));
        let bytes = if packed {
            count
                .div_ceil(packing.frames.max(1))
                .saturating_mul(packing.bytes)
        } else {
            let sizes = (0..count.min(length)).map_while(|n| track.size(sample + n));
            sizes.fold(0, u64::saturating_add)
        };
        sample = sample.saturating_add(count);
        total = total.saturating_add(bytes);
        if total > most || (total == 0 && chunk > length) {
            break;
        }
        match found.last_mut() {
            Some((last, size)) if last.saturating_add(*size) == place => *size += bytes,
            _ if bytes > 0 => found.push((place, bytes)),
            _ => {}
        }
    }
    found
}
