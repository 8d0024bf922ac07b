//! A safetensors file: its header, checked, and numbers from any place in it.
//!
//! In: a path, or bytes that are part of the program. Out: `f32` numbers (`F16` and `BF16` are widened, `I8` multiplied by the
//! scales beside it), of a whole tensor or of some of its rows. Every read names its place in the file, so that threads read side
//! by side. The file stays open: replacing it by another changes nothing for who has opened it.

use std::path::{Path, PathBuf};

use fs_err::File;
use hark_torchfile::nearest_name;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

use crate::Error;

/// The header may not be longer than this; the format's own limit.
const MAX_HEADER: u64 = 100_000_000;
/// `NAME` of 8-bit integers has the factors of its rows, along its first dimension, in `NAME.scales`.
pub(crate) const SCALES: &str = ".scales";
/// Bytes that are read at a time: they pass through the cache and not through memory.
const PIECE: usize = 1 << 18;

/// An open file.
#[derive(Debug)]
pub(crate) struct SafetensorsFile {
    path: PathBuf,
    source: Source,
    /// Where the tensors begin.
    data_start: u64,
    metadata: Metadata,
}

#[derive(Debug)]
enum Source {
    Disk(File),
    Memory(&'static [u8]),
}

impl Source {
    fn read_at(&self, start: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        match self {
            Self::Disk(file) => read_exact_at(file.file(), start, bytes),
            Self::Memory(all) => {
                let start = usize::try_from(start).unwrap_or(usize::MAX);
                let from = all.get(start..).and_then(|rest| rest.get(..bytes.len()));
                bytes.copy_from_slice(from.ok_or(std::io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }

    /// The numbers of `length` bytes from `start` on, `N` bytes each.
    fn numbers<const N: usize>(
        &self,
        start: u64,
        length: usize,
        number: impl Fn([u8; N]) -> f32,
    ) -> std::io::Result<Vec<f32>> {
        let mut piece = vec![0_u8; PIECE.min(length)];
        let mut numbers = Vec::with_capacity(length / N);
        for done in (0..length).step_by(PIECE) {
            let bytes = &mut piece[..PIECE.min(length - done)];
            self.read_at(start + done as u64, bytes)?;
            numbers.extend(bytes.as_chunks::<N>().0.iter().map(|&bytes| number(bytes)));
        }
        Ok(numbers)
    }
}

#[cfg(unix)]
fn read_exact_at(file: &std::fs::File, start: u64, bytes: &mut [u8]) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, start)
}

#[cfg(windows)]
fn read_exact_at(file: &std::fs::File, mut start: u64, mut bytes: &mut [u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, start) {
            Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                bytes = &mut bytes[count..];
                start += count as u64;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl SafetensorsFile {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the header cannot be parsed or does not fit the file's length.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Self::read_header(Source::Disk(file), length, path)
    }

    /// A file that is in memory. `path` is what errors name.
    ///
    /// # Errors
    /// As [`SafetensorsFile::open`].
    pub(crate) fn of_bytes(bytes: &'static [u8], path: &Path) -> Result<Self, Error> {
        Self::read_header(Source::Memory(bytes), bytes.len() as u64, path)
    }

    fn read_header(source: Source, length: u64, path: &Path) -> Result<Self, Error> {
        let damaged = |what: String| Error::Damaged {
            path: path.to_owned(),
            what,
        };
        let mut prefix = [0_u8; 8];
        if length < 8 {
            return Err(damaged(format!("{length} bytes")));
        }
        source.read_at(0, &mut prefix)?;
        let header_length = u64::from_le_bytes(prefix);
        if header_length > MAX_HEADER || header_length.saturating_add(8) > length {
            return Err(damaged(format!(
                "a header of {header_length} bytes in a file of {length}"
            )));
        }
        let mut header = vec![0_u8; header_length as usize];
        source.read_at(8, &mut header)?;
        // Deserialising checks that the tensors' extents follow each other and fit their shapes.
        let metadata: Metadata = serde_json::from_slice(&header).map_err(|e| damaged(e.to_string()))?;
        let data_start = 8 + header_length;
        let expected = data_start + metadata.data_len() as u64;
        if length != expected {
            return Err(damaged(format!("{length} bytes, the header says {expected}")));
        }
        Ok(Self {
            path: path.to_owned(),
            source,
            data_start,
            metadata,
        })
    }

    /// What the header says.
    pub(crate) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// All numbers of a tensor, row after row.
    ///
    /// # Errors
    /// [`Error::MissingTensor`], [`Error::Unsupported`] for numbers of another type, or if the file cannot be read.
    pub(crate) fn numbers(&self, name: &str) -> Result<Vec<f32>, Error> {
        let rows = self.info(name)?.shape.first().copied().unwrap_or(1);
        let mut numbers = self.stored(name, 0..rows)?;
        if let Some(factors) = self.scales(name)? {
            let row = numbers.len() / rows.max(1);
            for (row, factor) in numbers.chunks_exact_mut(row.max(1)).zip(factors) {
                for number in row {
                    *number *= factor;
                }
            }
        }
        Ok(numbers)
    }

    /// Some rows of a tensor, one after the other.
    ///
    /// # Errors
    /// As [`SafetensorsFile::numbers`], and [`Error::InputShape`] for a row that there is not.
    pub(crate) fn rows(&self, name: &str, rows: impl Iterator<Item = usize>) -> Result<Vec<f32>, Error> {
        let count = self.info(name)?.shape.first().copied().unwrap_or(1);
        let factors = self.scales(name)?;
        let mut numbers = Vec::new();
        for row in rows {
            if row >= count {
                return Err(Error::InputShape {
                    what: "rows of a table",
                    expected: vec![count],
                    got: vec![row],
                });
            }
            let factor = factors.as_ref().and_then(|factors| factors.get(row));
            let factor = factor.copied().unwrap_or(1.0);
            numbers.extend(self.stored(name, row..row + 1)?.into_iter().map(|x| x * factor));
        }
        Ok(numbers)
    }

    /// The factors of a tensor's rows, where it has such.
    fn scales(&self, name: &str) -> Result<Option<Vec<f32>>, Error> {
        let scales = format!("{name}{SCALES}");
        if self.metadata.info(&scales).is_none() {
            return Ok(None);
        }
        let rows = self.info(&scales)?.shape.iter().product();
        Ok(Some(self.stored(&scales, 0..rows)?))
    }

    fn info(&self, name: &str) -> Result<&TensorInfo, Error> {
        self.metadata.info(name).ok_or_else(|| Error::MissingTensor {
            path: self.path.clone(),
            name: name.to_owned(),
            nearest: nearest_name(self.metadata.tensors().keys().map(String::as_str), name),
        })
    }

    /// The numbers of some rows as they are stored, widened. A tensor without dimensions is one row.
    fn stored(&self, name: &str, rows: std::ops::Range<usize>) -> Result<Vec<f32>, Error> {
        let TensorInfo {
            dtype,
            shape,
            data_offsets: (start, end),
        } = self.info(name)?;
        // The header has been checked, so that nothing remains.
        let row = (end - start) / shape.first().copied().unwrap_or(1).max(1);
        let place = self.data_start + (start + rows.start * row) as u64;
        let (source, length) = (&self.source, rows.len() * row);
        let read = match dtype {
            Dtype::F32 => source.numbers(place, length, f32::from_le_bytes),
            Dtype::F16 => source.numbers(place, length, |b| half::f16::from_le_bytes(b).to_f32()),
            Dtype::BF16 => source.numbers(place, length, |b| half::bf16::from_le_bytes(b).to_f32()),
            Dtype::I8 => source.numbers(place, length, |b| f32::from(i8::from_le_bytes(b))),
            other => {
                return Err(Error::Unsupported {
                    path: self.path.clone(),
                    what: format!("tensor `{name}` of type {other:?}"),
                    supported: "F32, F16, BF16, I8",
                });
            }
        };
        Ok(read.map_err(|source| {
            std::io::Error::new(source.kind(), format!("{}: {source}", self.path.display()))
        })?)
    }
}
