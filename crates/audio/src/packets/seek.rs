//! Entering a file of packets, for demuxers that can.

use std::io;

use super::{Container, Packets, shielded};
use crate::points::Points;

impl Packets {
    /// Goes through the rest of the packets without decoding them, after the first; see [`crate::track::Demux::walk`].
    pub(crate) fn walk(&mut self) -> io::Result<Option<Points>> {
        if !self.is_plain() {
            return Ok(None);
        }
        let Container::Own(format) = &mut self.format else {
            return Ok(None);
        };
        shielded(|| format.walk()).unwrap_or(Ok(None))
    }

    /// Moves to the packet that holds a frame and returns its first frame; `None` if that fails, after which the file must be
    /// opened again.
    pub(crate) fn enter(&mut self, points: &Points, frame: u64) -> io::Result<Option<u64>> {
        if !self.is_plain() {
            return Ok(None);
        }
        let Container::Own(format) = &mut self.format else {
            return Ok(None);
        };
        shielded(|| format.enter(points, frame)).unwrap_or(Ok(None))
    }

    /// Whether every frame of every packet is given: no run-up, no padding, no change of the rate.
    fn is_plain(&self) -> bool {
        self.drop == 0
            && self.keep.is_none()
            && self.until.is_none()
            && self.padding.is_empty()
            && self.resampler.is_none()
            && self.ahead.is_empty()
            && self.after_tail.is_none()
    }
}
