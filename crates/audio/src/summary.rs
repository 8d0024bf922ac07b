//! What a library keeps of a recording's sound, from one pass over it.
//!
//! In: a path. Out: what the file says of itself, its true length, the peaks of its waveform at a fixed width, its
//! fingerprint, and what was wrong with it. The file is decoded once and block by block, so that memory does not grow with its length.
//! Refused is what [`Decoder`] refuses.

use std::path::{Path, PathBuf};

use crate::decode::{Damage, Decoder, Info};
use crate::error::Error;
use crate::fingerprint::{Fingerprint, Fingerprinter};
use crate::peaks::Peaks;
use crate::resample::Resampler;

/// Columns of an outline's waveform.
pub const COLUMNS: usize = 400;

/// The greatest value of a peak's byte, which stands for full scale.
const FULL: f32 = 127.0;

/// A recording as a library shows and compares it.
#[derive(Clone, Debug, PartialEq)]
pub struct AudioSummary {
    /// What the file says of itself.
    pub info: Info,
    /// The length of what was decoded.
    pub seconds: f64,
    /// The lowest and the highest sample of each of [`COLUMNS`] columns of the mix of all channels, in 127ths of full scale, as signed
    /// bytes in two's complement. What is beyond full scale is cut.
    pub peaks: Vec<u8>,
    /// By which the same recording is recognised in other formats.
    pub fingerprint: Fingerprint,
    /// What was wrong, if it could be read only in part.
    pub damage: Option<Damage>,
}

/// Reads a recording from its beginning to its end. `go_on` is asked before every block; once it says no, reading stops.
///
/// # Errors
/// As [`Decoder::open`] and [`Decoder::next_block`]; [`Error::Stopped`] if `go_on` said no.
pub fn summarize(path: &Path, go_on: &dyn Fn() -> bool) -> Result<AudioSummary, Error> {
    summarize_decoder(Decoder::open(path)?, path, go_on)
}

fn summarize_decoder(
    mut decoder: Decoder,
    path: &Path,
    go_on: &dyn Fn() -> bool,
) -> Result<AudioSummary, Error> {
    let info = decoder.info().clone();
    let mut peaks = Peaks::new(COLUMNS, info.rate);
    let mut resampler = Resampler::new(info.rate, Fingerprint::RATE)?;
    let mut listener = Fingerprinter::new();
    let mut resampled = Vec::new();
    loop {
        if !go_on() {
            let path: PathBuf = path.to_owned();
            return Err(Error::Stopped { path });
        }
        let Some(block) = decoder.next_block()? else { break };
        peaks.push(block);
        resampler.push(block, &mut resampled);
        listener.push(&resampled);
        resampled.clear();
    }
    resampler.finish(&mut resampled);
    listener.push(&resampled);
    Ok(AudioSummary {
        info,
        seconds: peaks.seconds(),
        peaks: peaks
            .columns()
            .into_iter()
            .flat_map(|(low, high)| [byte(low), byte(high)])
            .collect(),
        fingerprint: listener.finish(),
        damage: decoder.damage().cloned(),
    })
}

/// A sample in 127ths. Rounded away from zero, so that what can be heard can be seen.
fn byte(sample: f32) -> u8 {
    let scaled = (sample * FULL).clamp(-FULL, FULL);
    let whole = if scaled < 0.0 {
        scaled.floor()
    } else {
        scaled.ceil()
    };
    (whole as i8) as u8
}
