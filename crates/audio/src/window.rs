//! Parts of a source, as a source of their own: the sound within a WAV file, or a file behind a tag.

use std::io::{self, Read, Seek, SeekFrom};

use crate::source::Source;

/// Reads some parts of `inner` as if they stood one after the other and nothing else were there.
pub(crate) struct Window {
    inner: Box<dyn Source>,
    /// Place in `inner`, size.
    parts: Vec<(u64, u64)>,
    /// Where each part ends here.
    ends: Vec<u64>,
    length: u64,
    position: u64,
    /// Where `inner` stands, if it does not need to be moved.
    stands: Option<u64>,
}

impl Window {
    pub(crate) fn new(inner: Box<dyn Source>, parts: Vec<(u64, u64)>) -> Self {
        let mut length = 0_u64;
        let add = |&(_, size): &(u64, u64)| {
            length = length.saturating_add(size);
            length
        };
        let ends = parts.iter().map(add).collect();
        Self {
            inner,
            parts,
            ends,
            length,
            position: 0,
            stands: None,
        }
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The place in `inner` of the position, and how many bytes follow it in its part.
    fn place(&self) -> Option<(u64, u64)> {
        let part = self.ends.partition_point(|&end| end <= self.position);
        let (&(start, size), &end) = (self.parts.get(part)?, self.ends.get(part)?);
        let left = end - self.position;
        Some((start.checked_add(size.checked_sub(left)?)?, left))
    }
}

impl Read for Window {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some((place, left)) = self.place() else {
            return Ok(0);
        };
        if self.stands.take() != Some(place) {
            self.inner.seek(SeekFrom::Start(place))?;
        }
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let got = self.inner.read(&mut buffer[..most])?;
        self.position += got as u64;
        self.stands = place.checked_add(got as u64);
        Ok(got)
    }
}

impl Seek for Window {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let place = match to {
            SeekFrom::Start(place) => Some(place),
            SeekFrom::End(offset) => self.length.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = place.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn parts_are_read_as_one() {
        let inner = Box::new(Cursor::new(b"..abc....de".to_vec()));
        let mut window = Window::new(inner, vec![(2, 3), (5, 0), (9, 2)]);
        assert_eq!(window.length(), 5);
        let mut all = String::new();
        window.read_to_string(&mut all).unwrap();
        assert_eq!(all, "abcde");
        for (to, rest) in [
            (SeekFrom::Start(2), "cde"),
            (SeekFrom::End(-1), "e"),
            (SeekFrom::Current(-2), "de"),
            (SeekFrom::Start(9), ""),
        ] {
            window.seek(to).unwrap();
            all.clear();
            window.read_to_string(&mut all).unwrap();
            assert_eq!(all, rest);
        }
        assert!(window.seek(SeekFrom::End(-6)).is_err());
    }

    #[test]
    fn a_part_beyond_the_end_is_short() {
        let mut window = Window::new(Box::new(Cursor::new(b"abc".to_vec())), vec![(1, u64::MAX)]);
        let mut all = String::new();
        window.read_to_string(&mut all).unwrap();
        assert_eq!(all, "bc");
    }
}
