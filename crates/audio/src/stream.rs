//! A file's samples at a wished rate.
//!
//! In: a path and a rate. Out: what [`Decoder`] gives, put through a [`Resampler`]. Refused is what either refuses.

use std::path::Path;

use crate::decode::{Damage, Decoder, Info};
use crate::error::Error;
use crate::resample::Resampler;
use crate::source::Source;
use crate::summary::{AudioSummary, Summarizer};

/// Memory is taken ahead for no more than this of a file that is read as a whole.
const MAX_SECONDS_AHEAD: f64 = 60.0;

/// Decodes and resamples one file, block after block.
pub struct Stream {
    decoder: Decoder,
    resampler: Resampler,
    rate: u32,
    block: Vec<f32>,
    samples: u64,
    finished: bool,
    summarizer: Option<Summarizer>,
}

impl Stream {
    /// Opens a file.
    ///
    /// # Errors
    /// As [`Decoder::open`] and [`Resampler::new`].
    pub fn open(path: &Path, rate: u32) -> Result<Self, Error> {
        Self::new(Decoder::open(path)?, rate)
    }

    /// As [`Stream::open`], for bytes that are already there; `name` stands in messages only.
    ///
    /// # Errors
    /// As [`Stream::open`].
    pub fn from_source(source: Box<dyn Source>, name: &Path, rate: u32) -> Result<Self, Error> {
        Self::new(Decoder::from_source(source, name)?, rate)
    }

    /// As [`Stream::open`], and makes a summary of the file from the same decoding, see [`Stream::summary`].
    ///
    /// # Errors
    /// As [`Stream::open`].
    pub fn open_summarized(path: &Path, rate: u32) -> Result<Self, Error> {
        let mut stream = Self::open(path, rate)?;
        stream.summarizer = Some(Summarizer::new(stream.info().clone())?);
        Ok(stream)
    }

    /// The summary of a stream that was opened for one, once [`Stream::next_block`] has given `None`; it can be taken once.
    pub fn summary(&mut self) -> Option<AudioSummary> {
        let damage = self.decoder.damage().cloned();
        self.summarizer
            .take_if(|_| self.finished)
            .map(|summarizer| summarizer.finish(damage))
    }

    fn new(decoder: Decoder, rate: u32) -> Result<Self, Error> {
        let resampler = Resampler::new(decoder.info().rate, rate)?;
        Ok(Self {
            decoder,
            resampler,
            rate,
            block: Vec::new(),
            samples: 0,
            finished: false,
            summarizer: None,
        })
    }

    /// What the file says about itself. The rate there is the file's own.
    pub fn info(&self) -> &Info {
        self.decoder.info()
    }

    /// What was wrong so far; complete once [`Stream::next_block`] has given `None`.
    pub fn damage(&self) -> Option<&Damage> {
        self.decoder.damage()
    }

    /// The rate of the blocks.
    pub fn rate(&self) -> u32 {
        self.rate
    }

    /// How many samples have been given.
    pub fn samples_so_far(&self) -> u64 {
        self.samples
    }

    /// The next samples, at least one; `None` at the end, ever after.
    ///
    /// # Errors
    /// As [`Decoder::next_block`].
    pub fn next_block(&mut self) -> Result<Option<&[f32]>, Error> {
        self.block.clear();
        while self.block.is_empty() && !self.finished {
            if let Some(block) = self.decoder.next_block()? {
                self.resampler.push(block, &mut self.block);
                if let Some(summarizer) = &mut self.summarizer {
                    summarizer.push(block);
                }
            } else {
                self.resampler.finish(&mut self.block);
                self.finished = true;
            }
        }
        self.samples += self.block.len() as u64;
        Ok((!self.block.is_empty()).then_some(self.block.as_slice()))
    }
}

/// A short file as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Waveform {
    /// The samples, mixed to one channel.
    pub samples: Vec<f32>,
    /// Samples per second.
    pub rate: u32,
    /// What the file says about itself.
    pub info: Info,
    /// What was wrong, as far as it was read.
    pub damage: Option<Damage>,
}

/// Reads a file into memory, no more of it than `max_seconds`.
///
/// # Errors
/// As [`Stream::open`] and [`Stream::next_block`].
pub fn read(path: &Path, rate: u32, max_seconds: Option<f64>) -> Result<Waveform, Error> {
    let mut stream = Stream::open(path, rate)?;
    // A float that is negative or not a number becomes 0 here, a huge one the largest integer.
    let most = max_seconds.map_or(usize::MAX, |seconds| (seconds * f64::from(rate)).round() as usize);
    // What the file says of its length is a guess, and none to take much memory for.
    let seconds = stream.info().seconds.unwrap_or(0.0).clamp(0.0, MAX_SECONDS_AHEAD);
    let mut samples = Vec::with_capacity(most.min((seconds * f64::from(rate)).ceil() as usize + 1));
    while samples.len() < most {
        let Some(block) = stream.next_block()? else { break };
        samples.extend_from_slice(&block[..block.len().min(most - samples.len())]);
    }
    let (info, damage) = (stream.info().clone(), stream.damage().cloned());
    Ok(Waveform {
        samples,
        rate,
        info,
        damage,
    })
}
