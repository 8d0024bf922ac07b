//! A part of a file at a wished rate, without decoding what comes before it where the format allows.
//!
//! In: a path, a rate, the first sample and a number of samples, both counted at that rate. Out: the samples that decoding the
//! whole file and taking that part of it would give, the same to the bit. Two things make this so. A [`SeekIndex`] exists only for
//! files that can be entered without changing one sample: uncompressed sound, and FLAC files in which no frame is missing or
//! damaged. And the resampler is started on its own grid ([`crate::resample::Grid`]), early enough that its filter sees all of the input
//! that it would have seen. Every other file is decoded from its beginning, and what comes before the part is dropped block by
//! block.
//!
//! One thing only decoding would find: a FLAC frame whose checksum is right and which cannot be decoded all the same, as no encoder
//! writes it. Decoding from the beginning leaves it out; here, what follows it stays in its place unless the frame lies within the part.

use std::path::Path;

use crate::decode::Decoder;
use crate::decode::seek::Entrance;
use crate::error::Error;
use crate::resample::Resampler;

/// How many samples a file has, and where it can be entered. For [`read_range`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeekIndex {
    rate: u32,
    entrance: Entrance,
}

impl SeekIndex {
    /// Looks through a file without decoding it. `None` if it has to be decoded from its beginning: because of its format, or
    /// because it is damaged.
    ///
    /// # Errors
    /// As [`Decoder::open`], and for numbers that are not finite.
    pub fn of(path: &Path) -> Result<Option<Self>, Error> {
        Self::of_longer(path, 0.0)
    }

    /// As [`SeekIndex::of`], but `None` also for a file that declares to be shorter than so many seconds, which is not looked
    /// through.
    ///
    /// # Errors
    /// As [`SeekIndex::of`].
    pub fn of_longer(path: &Path, seconds: f64) -> Result<Option<Self>, Error> {
        let decoder = Decoder::open(path)?;
        let rate = decoder.info().rate;
        if decoder.info().seconds.is_some_and(|declared| declared < seconds) {
            return Ok(None);
        }
        let entrance = decoder.entrance()?;
        Ok(entrance.map(|entrance| Self { rate, entrance }))
    }

    /// How many samples the file has at a rate.
    pub fn samples(&self, rate: u32) -> u64 {
        let frames = u128::from(self.entrance.frames());
        let samples = (frames * u128::from(rate)).div_ceil(u128::from(self.rate.max(1)));
        u64::try_from(samples).unwrap_or(u64::MAX)
    }
}

/// The samples of a file from `start` on, `length` of them or as many as there are, at `rate`. With an index the file is
/// entered shortly before them; without, it is decoded from its beginning.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("a.wav");
/// # let mut wav = b"RIFF\x34\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\0\x7d\0\0\0\xfa\0\0\x02\0\x10\0data\x10\0\0\0".to_vec();
/// # wav.extend([0, 32, 0, 16].repeat(4));
/// # std::fs::write(&path, wav)?;
/// use hark_audio::{SeekIndex, read, read_range};
///
/// let index = SeekIndex::of(&path)?;
/// let all = read(&path, 32_000, None)?.samples;
/// assert_eq!(index.as_ref().map(|index| index.samples(32_000)), Some(8));
/// assert_eq!(read_range(&path, 32_000, 3, 4, index.as_ref())?, all[3..7]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`Decoder::open`], [`Resampler::new`] and [`Decoder::next_block`].
pub fn read_range(
    path: &Path,
    rate: u32,
    start: u64,
    length: usize,
    index: Option<&SeekIndex>,
) -> Result<Vec<f32>, Error> {
    if let Some(index) = index
        && let Some(samples) = entered(path, rate, start, length, index)?
    {
        return Ok(samples);
    }
    let decoder = Decoder::open(path)?;
    let resampler = Resampler::new(decoder.info().rate, rate)?;
    take(decoder, resampler, [0, start], length).map(|(samples, _)| samples)
}

/// The part, from a place shortly before it; `None` if the file is not the one that the index was made of, or turns out to be
/// damaged.
fn entered(
    path: &Path,
    rate: u32,
    start: u64,
    length: usize,
    index: &SeekIndex,
) -> Result<Option<Vec<f32>>, Error> {
    let mut decoder = Decoder::open(path)?;
    let resampler = Resampler::new(decoder.info().rate, rate)?;
    if decoder.info().rate != index.rate {
        return Ok(None);
    }
    let all = index.samples(rate);
    let length = length.min(usize::try_from(all.saturating_sub(start)).unwrap_or(usize::MAX));
    if length == 0 {
        return Ok(Some(Vec::new()));
    }
    let grid = resampler.grid();
    let steps = start.saturating_sub(grid.lead) / grid.output;
    let first = steps * grid.input;
    let Some(at) = decoder.enter(&index.entrance, first)? else {
        return Ok(None);
    };
    let skip = [first - at, start - steps * grid.output];
    let (samples, damaged) = take(decoder, resampler, skip, length)?;
    Ok((!damaged && samples.len() == length).then_some(samples))
}

/// Decodes and resamples, drops some frames of the one and some samples of the other, and takes what follows, no more than
/// `length`. Also tells whether a packet was left out.
fn take(
    mut decoder: Decoder,
    mut resampler: Resampler,
    [mut frames, mut samples]: [u64; 2],
    length: usize,
) -> Result<(Vec<f32>, bool), Error> {
    let (mut taken, mut block) = (Vec::new(), Vec::new());
    let mut ended = false;
    while taken.len() < length && !ended {
        block.clear();
        if let Some(decoded) = decoder.next_block()? {
            resampler.push(without_first(decoded, &mut frames), &mut block);
        } else {
            resampler.finish(&mut block);
            ended = true;
        }
        let rest = without_first(&block, &mut samples);
        taken.extend_from_slice(rest.get(..length - taken.len()).unwrap_or(rest));
    }
    let damaged = decoder.damage().is_some_and(|damage| damage.skipped_packets > 0);
    Ok((taken, damaged))
}

/// The block without as many samples as are to be dropped, which become fewer by those.
fn without_first<'b>(block: &'b [f32], drop: &mut u64) -> &'b [f32] {
    let dropped = block.len().min(usize::try_from(*drop).unwrap_or(usize::MAX));
    *drop -= dropped as u64;
    &block[dropped..]
}
