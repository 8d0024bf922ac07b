//! Entering a FLAC file between its first frame and its last.
//!
//! [`Flac::walk_frames`] goes from frame to frame by their checksums and decodes none. It gives points only for a file in which
//! every frame follows the one before it, by place and by number, all have one shape, and nothing stands after the last: in
//! such a file the first sample of a frame is the sum of the frames before it. Every other file is decoded from its
//! beginning. A frame depends on no other, so that what is decoded from a point on is the same to the bit.

use std::io;

use super::{Flac, Frames, MAX_HEADER};
use crate::flac_frame::Header;
use crate::points::Points;
use crate::track::{Demux as _, Unit};

impl Flac {
    /// Points of the frames from here on, to the end.
    pub(super) fn walk_frames(&mut self) -> io::Result<Option<Points>> {
        let mut points = Points::new();
        if !self.ready.is_empty() || !self.begun {
            return Ok(None);
        }
        while let Some((header, length)) = self.frame_here()? {
            points.push(self.expected, self.frames.place());
            self.pass(&header, length);
        }
        points.frames = self.expected;
        // Tags may follow the last frame; what else can follow is no regular end.
        Ok((self.next()? == Unit::End).then_some(points))
    }

    /// Moves to the frame that holds a sample, from the point before it.
    pub(super) fn enter_at(&mut self, points: &Points, sample: u64) -> io::Result<Option<u64>> {
        let Some((first, place)) = points.before(sample).filter(|_| self.begun) else {
            return Ok(None);
        };
        self.ready.clear();
        self.frames = Frames::new(place);
        self.expected = first;
        while let Some((header, length)) = self.frame_here()? {
            if sample < self.expected.saturating_add(u64::from(header.block)) {
                return Ok(Some(self.expected));
            }
            self.pass(&header, length);
        }
        Ok(None)
    }

    fn pass(&mut self, header: &Header, length: usize) {
        self.frames.at += length;
        self.expected = self.expected.saturating_add(u64::from(header.block));
    }

    /// The frame that stands here and its length, if it is whole and continues the frames before it.
    fn frame_here(&mut self) -> io::Result<Option<(Header, usize)>> {
        self.frames.fill(&mut self.source, MAX_HEADER)?;
        let Some(header) = Header::parse(self.frames.rest()) else {
            return Ok(None);
        };
        // The last frame must end where the file does or where tags begin: elsewhere its checksum may be met by chance.
        let length = self.frames.length_of(&mut self.source, &header, false)?;
        let continues = header.shape(&self.info) == self.shape
            && header.block <= self.info.most_block
            && self.number_of(&header) == self.expected;
        Ok(length.filter(|_| continues).map(|length| (header, length)))
    }
}
