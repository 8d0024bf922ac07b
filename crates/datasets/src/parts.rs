//! A file that was cut into parts, read as one without being joined.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;

use fs_err::File;

/// The parts and where each begins.
#[derive(Debug, Clone)]
pub(crate) struct PartList {
    paths: Arc<[PathBuf]>,
    /// One more than there are parts: the last is the length of the whole.
    starts: Arc<[u64]>,
}

impl PartList {
    /// The parts in their order.
    pub(crate) fn new(paths: &[PathBuf]) -> io::Result<Self> {
        let mut starts = vec![0];
        let mut end = 0;
        for path in paths {
            end += fs_err::metadata(path)?.len();
            starts.push(end);
        }
        Ok(Self {
            paths: paths.into(),
            starts: starts.into(),
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.paths.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.starts[self.paths.len()]
    }

    /// Where the byte at `offset` of a part is in the whole; `None` beyond the end.
    pub(crate) fn position(&self, part: u64, offset: u64) -> Option<u64> {
        let start = *self.starts.get(usize::try_from(part).ok()?)?;
        start.checked_add(offset).filter(|&at| at <= self.bytes())
    }

    /// The file with the byte at a position.
    pub(crate) fn path_at(&self, at: u64) -> &PathBuf {
        &self.paths[self.part_at(at).min(self.paths.len() - 1)]
    }

    fn part_at(&self, at: u64) -> usize {
        self.starts.partition_point(|&start| start <= at) - 1
    }

    /// Reads the whole, with a place of its own.
    pub(crate) fn open(&self) -> Parts {
        Parts {
            list: self.clone(),
            file: None,
            at: 0,
        }
    }
}

/// Reads parts as one file.
pub(crate) struct Parts {
    list: PartList,
    /// The open part, and where in it the file stands.
    file: Option<(usize, File, u64)>,
    at: u64,
}

impl Read for Parts {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.list.bytes() || buffer.is_empty() {
            return Ok(0);
        }
        // Empty parts begin where the next one does; the last part that begins here has the byte.
        let part = self.list.part_at(self.at);
        let within = self.at - self.list.starts[part];
        let left = self.list.starts[part + 1] - self.at;
        if self.file.as_ref().is_none_or(|(open, ..)| *open != part) {
            self.file = Some((part, File::open(&self.list.paths[part])?, 0));
        }
        let Some((_, file, stands)) = &mut self.file else {
            return Ok(0);
        };
        if *stands != within {
            file.seek(SeekFrom::Start(within))?;
            *stands = within;
        }
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let count = file.read(&mut buffer[..most])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        *stands += count as u64;
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for Parts {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.list.bytes().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn parts_read_as_the_whole(lengths in prop::collection::vec(0_usize..50, 1..6), seeks in prop::collection::vec(0_u64..300, 1..20)) {
            let folder = tempfile::tempdir().unwrap();
            let whole: Vec<u8> = (0..lengths.iter().sum::<usize>()).map(|at| at as u8).collect();
            let (mut paths, mut start) = (Vec::new(), 0);
            for (number, length) in lengths.iter().enumerate() {
                paths.push(folder.path().join(format!("{number}")));
                fs_err::write(&paths[number], &whole[start..start + length]).unwrap();
                start += length;
            }
            let list = PartList::new(&paths).unwrap();
            let mut parts = list.open();
            let mut all = Vec::new();
            parts.read_to_end(&mut all).unwrap();
            prop_assert_eq!(&all, &whole);
            for at in seeks {
                parts.seek(SeekFrom::Start(at)).unwrap();
                let mut some = Vec::new();
                (&mut parts).take(60).read_to_end(&mut some).unwrap();
                let from = whole.len().min(at as usize);
                prop_assert_eq!(&some[..], &whole[from..whole.len().min(from + 60)]);
            }
        }
    }

    #[test]
    fn a_place_is_a_part_and_an_offset() {
        let folder = tempfile::tempdir().unwrap();
        let paths = [folder.path().join("z01"), folder.path().join("zip")];
        fs_err::write(&paths[0], [0; 10]).unwrap();
        fs_err::write(&paths[1], [0; 5]).unwrap();
        let list = PartList::new(&paths).unwrap();
        assert_eq!((list.count(), list.bytes()), (2, 15));
        let positions = [
            (0, 3),
            (1, 0),
            (1, 5),
            (1, 6),
            (2, 0),
            (u64::MAX, 0),
            (1, u64::MAX),
        ];
        let found = positions.map(|(part, offset)| list.position(part, offset));
        assert_eq!(found, [Some(3), Some(10), Some(15), None, Some(15), None, None]);
        assert_eq!(
            [0, 9, 10, 99].map(|at| list.path_at(at) == &paths[1]),
            [false, false, true, true]
        );
        assert!(list.open().seek(SeekFrom::Current(-1)).is_err());
    }
}
