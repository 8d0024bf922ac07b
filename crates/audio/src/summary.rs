//! What a library keeps of a recording besides its embeddings, from one pass over it.
//!
//! In: a path ([`summarize`]), or decoded blocks ([`Summarizer`]), so that who decodes a recording for another purpose need
//! not decode it again. Out: the file's metadata, its true length, the peaks of its waveform at a fixed width, its
//! fingerprint, and what was wrong with it. Blocks are not kept: memory does not grow with the recording's length.

use std::path::{Path, PathBuf};

use crate::decode::{Damage, Decoder, Info};
use crate::error::Error;
use crate::fingerprint::{Fingerprint, Fingerprinter};
use crate::peaks::Peaks;
use crate::resample::Resampler;

/// Columns of a summary's waveform.
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
    let mut summarizer = Summarizer::new(decoder.info().clone())?;
    loop {
        if !go_on() {
            let path: PathBuf = path.to_owned();
            return Err(Error::Stopped { path });
        }
        let Some(block) = decoder.next_block()? else { break };
        summarizer.push(block);
    }
    Ok(summarizer.finish(decoder.damage().cloned()))
}

/// Makes a summary of decoded blocks.
pub struct Summarizer {
    info: Info,
    peaks: Peaks,
    resampler: Resampler,
    fingerprinter: Fingerprinter,
    resampled: Vec<f32>,
}

impl Summarizer {
    /// For the blocks of a recording of which `info` is known.
    ///
    /// # Errors
    /// As [`Resampler::new`].
    pub fn new(info: Info) -> Result<Self, Error> {
        Ok(Self {
            peaks: Peaks::new(COLUMNS, info.rate),
            resampler: Resampler::new(info.rate, Fingerprint::RATE)?,
            fingerprinter: Fingerprinter::new(),
            resampled: Vec::new(),
            info,
        })
    }

    /// Takes the next block as [`Decoder::next_block`] gives it: at the file's own rate, mixed to one channel.
    pub fn push(&mut self, block: &[f32]) {
        self.peaks.push(block);
        self.resampler.push(block, &mut self.resampled);
        self.fingerprinter.push(&self.resampled);
        self.resampled.clear();
    }

    /// The summary, once all blocks are in.
    pub fn finish(mut self, damage: Option<Damage>) -> AudioSummary {
        self.resampler.finish(&mut self.resampled);
        self.fingerprinter.push(&self.resampled);
        AudioSummary {
            info: self.info,
            seconds: self.peaks.seconds(),
            peaks: self
                .peaks
                .columns()
                .into_iter()
                .flat_map(|(low, high)| [byte(low), byte(high)])
                .collect(),
            fingerprint: self.fingerprinter.finish(),
            damage,
        }
    }
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
