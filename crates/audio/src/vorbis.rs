//! The order of coupled channels in the setup header of Vorbis.
//!
//! In: a setup header (Vorbis I specification, 4.2.4) and the number of channels. Out: the same header with the coupling steps of every
//! mapping in reverse. The specification undoes the steps from the last to the first (4.3.5); symphonia does so from the first to the
//! last, which differs where steps share a channel, as those of 5.1 do. Headers that make no sense are left as they are: the decoder
//! refuses them.

use symphonia::core::codecs::audio::AudioCodecParameters;
use symphonia::core::codecs::audio::well_known::CODEC_ID_VORBIS;

/// Bits from the lowest of each byte on.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn take(&mut self, count: u32) -> Option<u32> {
        let mut value = 0;
        for i in 0..count {
            let byte = self.bytes.get(self.at / 8)?;
            value |= u32::from(byte >> (self.at % 8) & 1) << i;
            self.at += 1;
        }
        Some(value)
    }

    fn flag(&mut self) -> Option<bool> {
        self.take(1).map(|bit| bit == 1)
    }

    /// Passes over so many fields of so many bits.
    fn skip(&mut self, fields: usize, bits: u32) -> Option<()> {
        self.at = self.at.checked_add(fields.checked_mul(bits as usize)?)?;
        (self.at <= self.bytes.len() * 8).then_some(())
    }
}

/// How many bits a number takes.
fn width(number: u32) -> u32 {
    u32::BITS - number.leading_zeros()
}

/// The setup header with the coupling steps in reverse.
fn reverse_coupling(setup: &[u8], channels: usize) -> Vec<u8> {
    let mut out = setup.to_vec();
    let field = width((channels as u32).saturating_sub(1));
    for (start, steps) in couplings(setup, channels).unwrap_or_default() {
        let step = 2 * field as usize;
        for i in 0..steps {
            let (from, to) = (start + (steps - 1 - i) * step, start + i * step);
            for bit in 0..step {
                let value = setup[(from + bit) / 8] >> ((from + bit) % 8) & 1;
                let at = to + bit;
                out[at / 8] = out[at / 8] & !(1 << (at % 8)) | value << (at % 8);
            }
        }
    }
    out
}

/// The first bit and the number of the steps of every mapping.
fn couplings(setup: &[u8], channels: usize) -> Option<Vec<(usize, usize)>> {
    let body = setup.strip_prefix(b"\x05vorbis")?;
    let mut bits = Bits { bytes: body, at: 0 };
    for _ in 0..=bits.take(8)? {
        codebook(&mut bits)?;
    }
    let times = bits.take(6)? as usize + 1;
    bits.skip(times, 16)?;
    for _ in 0..=bits.take(6)? {
        floor(&mut bits)?;
    }
    for _ in 0..=bits.take(6)? {
        residue(&mut bits)?;
    }
    let field = width((channels as u32).checked_sub(1)?);
    let mut found = Vec::new();
    for _ in 0..=bits.take(6)? {
        bits.take(16)?;
        let submaps = if bits.flag()? { bits.take(4)? + 1 } else { 1 };
        if bits.flag()? {
            let steps = bits.take(8)? as usize + 1;
            found.push((bits.at + 8 * b"\x05vorbis".len(), steps));
            bits.skip(steps, 2 * field)?;
        }
        bits.take(2)?;
        if submaps > 1 {
            bits.skip(channels, 4)?;
        }
        bits.skip(submaps as usize, 24)?;
    }
    Some(found)
}

fn codebook(bits: &mut Bits<'_>) -> Option<()> {
    if bits.take(24)? != 0x56_4342 {
        return None;
    }
    let dimensions = bits.take(16)?;
    let entries = bits.take(24)?;
    let ordered = bits.flag()?;
    if ordered {
        bits.take(5)?;
        let mut entry = 0;
        while entry < entries {
            // As many entries as are of one length; none is possible, and takes bits all the same.
            let number = bits.take(width(entries - entry))?;
            entry = entry.checked_add(number)?;
        }
    } else if bits.flag()? {
        for _ in 0..entries {
            if bits.flag()? {
                bits.take(5)?;
            }
        }
    } else {
        bits.skip(entries as usize, 5)?;
    }
    let lookup = bits.take(4)?;
    if lookup == 0 {
        return Some(());
    }
    bits.skip(2, 32)?;
    let value = bits.take(4)? + 1;
    bits.take(1)?;
    let values = match lookup {
        1 => lookup_values(entries, dimensions),
        2 => entries as usize * dimensions as usize,
        _ => return None,
    };
    bits.skip(values, value)
}

/// The greatest number whose power by the dimensions is not above the entries.
fn lookup_values(entries: u32, dimensions: u32) -> usize {
    let fits = |root: u64| {
        root.checked_pow(dimensions)
            .is_some_and(|power| power <= u64::from(entries))
    };
    if dimensions == 0 {
        return 0;
    }
    let mut root = f64::from(entries).powf(1.0 / f64::from(dimensions)) as u64;
    while root > 0 && !fits(root) {
        root -= 1;
    }
    while fits(root + 1) {
        root += 1;
    }
    root as usize
}

fn floor(bits: &mut Bits<'_>) -> Option<()> {
    match bits.take(16)? {
        0 => {
            bits.skip(1, 8 + 16 + 16 + 6 + 8)?;
            let books = bits.take(4)? as usize + 1;
            bits.skip(books, 8)
        }
        1 => {
            let partitions = bits.take(5)?;
            let classes: Option<Vec<u32>> = (0..partitions).map(|_| bits.take(4)).collect();
            let classes = classes?;
            let count = classes.iter().max().map_or(0, |class| class + 1);
            let mut dimensions = Vec::new();
            for _ in 0..count {
                dimensions.push(bits.take(3)? as usize + 1);
                let subclasses = bits.take(2)?;
                if subclasses > 0 {
                    bits.take(8)?;
                }
                bits.skip(1 << subclasses, 8)?;
            }
            bits.take(2)?;
            let range = bits.take(4)?;
            let points = classes.iter().map(|&class| dimensions[class as usize]).sum();
            bits.skip(points, range)
        }
        _ => None,
    }
}

fn residue(bits: &mut Bits<'_>) -> Option<()> {
    bits.skip(1, 16 + 3 * 24)?;
    let classes = bits.take(6)? + 1;
    bits.take(8)?;
    let mut books = 0;
    for _ in 0..classes {
        let low = bits.take(3)?;
        let high = if bits.flag()? { bits.take(5)? } else { 0 };
        books += (high << 3 | low).count_ones();
    }
    bits.skip(books as usize, 8)
}

/// Vorbis of more than two channels, as symphonia decodes it rightly. Its headers are those of identification, which has 30
/// bytes, and setup.
pub(crate) fn with_reversed_coupling(
    parameters: &AudioCodecParameters,
    channels: usize,
) -> Option<AudioCodecParameters> {
    if parameters.codec != CODEC_ID_VORBIS || channels <= 2 {
        return None;
    }
    let (identification, setup) = parameters.extra_data.as_deref()?.split_at_checked(30)?;
    let setup = reverse_coupling(setup, channels);
    let mut ordered = parameters.clone();
    ordered.with_extra_data([identification, setup.as_slice()].concat().into());
    Some(ordered)
}
