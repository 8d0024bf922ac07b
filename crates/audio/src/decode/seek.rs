//! Entering a file at a later frame than its first.
//!
//! Uncompressed sound is entered by arithmetic. Whether floating-point samples are finite only reading all of them tells, so these
//! are read once. Files of packets are entered where their demuxer can do so without changing one sample.

use std::io;

use super::{Body, Decoder};
use crate::error::Error;
use crate::points::Points;

/// How the sound of a file can be entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entrance {
    /// At any of so many frames.
    Anywhere(u64),
    /// At packets.
    Packets(Points),
}

impl Entrance {
    /// How many frames the file has.
    pub(crate) fn frames(&self) -> u64 {
        match self {
            Self::Anywhere(frames) => *frames,
            Self::Packets(points) => points.frames,
        }
    }
}

impl Decoder {
    /// How the file can be entered, and how many frames it gives if it is decoded from its beginning to its end. `None` if only
    /// decoding tells the latter, or if the file is damaged. The decoder must have been opened just now; it is used up.
    ///
    /// # Errors
    /// As [`Decoder::next_block`].
    pub(crate) fn entrance(mut self) -> Result<Option<Entrance>, Error> {
        if let Body::Pcm(pcm) = &self.body
            && pcm.is_float()
        {
            while self.next_block()?.is_some() {}
        }
        let found = match &mut self.body {
            Body::Pcm(pcm) => {
                let decoded = self.frames;
                pcm.frames_left()
                    .map(|left| left.map(|left| Entrance::Anywhere(decoded.saturating_add(left))))
            }
            Body::Packets(_) if self.damage.is_some() => Ok(None),
            Body::Packets(packets) => packets.walk().map(|points| points.map(Entrance::Packets)),
            Body::Adpcm(_) | Body::Ffmpeg(_) => Ok(None),
        };
        found.map_err(|source| self.unreadable(source))
    }

    /// Moves a decoder that was opened just now to a frame at or before `frame`, and returns it: the next block begins there.
    /// `None` if the file cannot be entered and the decoder must not be used.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn enter(&mut self, entrance: &Entrance, frame: u64) -> Result<Option<u64>, Error> {
        // The first block is decoded already.
        if frame < self.frames {
            return Ok(Some(0));
        }
        let entered = match (&mut self.body, entrance) {
            (Body::Pcm(pcm), Entrance::Anywhere(frames)) => {
                let decoded = self.frames;
                pcm.frames_left().and_then(|left| {
                    // As many as when the file was looked through, or it is another one now.
                    if left != frames.checked_sub(decoded) {
                        return Ok(None);
                    }
                    pcm.skip(frame - decoded).map(|()| Some(frame))
                })
            }
            (Body::Packets(packets), Entrance::Packets(points)) => packets.enter(points, frame),
            _ => Ok(None),
        };
        let entered = entered.map_err(|source| self.unreadable(source))?;
        if let Some(at) = entered {
            self.first = false;
            self.block.clear();
            self.frames = at;
        }
        Ok(entered)
    }

    fn unreadable(&self, source: io::Error) -> Error {
        Error::Read {
            path: self.path.clone(),
            source,
        }
    }
}
