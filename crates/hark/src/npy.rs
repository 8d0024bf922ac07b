//! NumPy's `.npy` files, version 1.0: a header in Python's syntax, then the numbers in C order, little-endian.

use std::io::{Read, Seek, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use fs_err::File;

/// A number type that an array can be written with.
pub trait Number: Copy {
    /// NumPy's name for it.
    const DTYPE: &'static str;
    /// Its bytes, appended.
    fn append(self, bytes: &mut Vec<u8>);
}

macro_rules! number {
    ($type:ty, $name:literal) => {
        impl Number for $type {
            const DTYPE: &'static str = $name;
            fn append(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }
        }
    };
}
number!(f32, "<f4");
number!(u32, "<u4");
number!(i32, "<i4");
number!(i64, "<i8");

/// Writes the header of an array of this shape; the numbers follow, with [`write_numbers`].
pub fn write_header<T: Number>(output: &mut impl Write, shape: &[usize]) -> Result<()> {
    let shape: String = shape.iter().map(|n| format!("{n},")).collect();
    let mut header = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({shape}), }}",
        T::DTYPE
    );
    // Magic, version, length and header together are a multiple of 64 bytes long.
    let padding = 63 - (10 + header.len()) % 64;
    header.push_str(&" ".repeat(padding));
    header.push('\n');
    output.write_all(b"\x93NUMPY\x01\x00")?;
    output.write_all(&u16::try_from(header.len())?.to_le_bytes())?;
    output.write_all(header.as_bytes())?;
    Ok(())
}

/// Writes numbers, as many and as often as the header promised.
pub fn write_numbers<T: Number>(output: &mut impl Write, numbers: &[T]) -> Result<()> {
    let mut bytes = Vec::new();
    for chunk in numbers.chunks(1 << 14) {
        bytes.clear();
        for &number in chunk {
            number.append(&mut bytes);
        }
        output.write_all(&bytes)?;
    }
    Ok(())
}

/// Writes a whole array.
pub fn write<T: Number>(output: &mut impl Write, shape: &[usize], numbers: &[T]) -> Result<()> {
    write_header::<T>(output, shape)?;
    write_numbers(output, numbers)
}

/// A matrix of `f32` as read from a file.
#[derive(Debug)]
pub struct Matrix {
    /// Its rows, one after the other.
    pub numbers: Vec<f32>,
    /// Length of a row.
    pub columns: usize,
}

/// Reads a matrix of `f32` from an `.npy` file.
pub fn read_matrix(path: &Path) -> Result<Matrix> {
    parse_matrix(path).with_context(|| {
        format!(
            "{}: not a NumPy file with a matrix of 32-bit floats",
            path.display()
        )
    })
}

fn parse_matrix(path: &Path) -> Result<Matrix> {
    let mut file = File::open(path)?;
    let mut start = [0; 8];
    file.read_exact(&mut start)?;
    if &start[..6] != b"\x93NUMPY" {
        bail!("it does not begin as one");
    }
    let length = if start[6] == 1 {
        let mut length = [0; 2];
        file.read_exact(&mut length)?;
        u32::from(u16::from_le_bytes(length))
    } else {
        let mut length = [0; 4];
        file.read_exact(&mut length)?;
        u32::from_le_bytes(length)
    };
    if length > 1 << 16 {
        bail!("a header of {length} bytes");
    }
    let mut header = vec![0; length as usize];
    file.read_exact(&mut header)?;
    let header = String::from_utf8(header)?;
    let value = |key: &str| {
        header
            .split_once(key)
            .map(|(_, rest)| rest.trim_start_matches([':', ' ', '\'']))
    };
    if !value("'descr'").is_some_and(|value| value.starts_with("<f4")) {
        bail!("its numbers are not of type <f4: {}", header.trim());
    }
    if !value("'fortran_order'").is_some_and(|value| value.starts_with("False")) {
        bail!("it is in Fortran order");
    }
    let shape = value("'shape'")
        .and_then(|value| value.strip_prefix('(')?.split_once(')'))
        .map(|(shape, _)| shape);
    let shape = shape.context("it has no shape")?;
    let shape = shape
        .split(',')
        .map(str::trim)
        .filter(|n| !n.is_empty())
        .map(str::parse)
        .collect::<Result<Vec<usize>, _>>()?;
    let [rows, columns] = shape[..] else {
        bail!("its shape is {shape:?}")
    };
    let expected = rows
        .checked_mul(columns)
        .and_then(|n| n.checked_mul(4))
        .context("its shape is too large")?;
    let here = file.stream_position()?;
    let got = file.metadata()?.len() - here;
    if got != expected as u64 {
        bail!("{got} bytes of numbers, shape {shape:?} asks for {expected}");
    }
    // Piece by piece, so that the numbers are in memory once.
    let mut numbers = Vec::with_capacity(rows * columns);
    let mut piece = vec![0; expected.min(1 << 20)];
    while numbers.len() < rows * columns {
        let rest = 4 * (rows * columns - numbers.len());
        let piece = &mut piece[..rest.min(1 << 20)];
        file.read_exact(piece)?;
        numbers.extend(
            piece
                .as_chunks::<4>()
                .0
                .iter()
                .map(|bytes| f32::from_le_bytes(*bytes)),
        );
    }
    Ok(Matrix { numbers, columns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_numpys() {
        let mut bytes = Vec::new();
        write(&mut bytes, &[2, 3], &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        // What numpy.save writes for numpy.arange(1, 7, dtype='<f4').reshape(2, 3), but for blanks in the shape.
        assert_eq!(&bytes[..10], b"\x93NUMPY\x01\x00\x76\x00");
        assert_eq!(bytes.len(), 128 + 24);
        assert!(bytes[10..].starts_with(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,3,), }"));
        assert_eq!(bytes[127], b'\n');
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("matrix.npy");
        let mut bytes = Vec::new();
        write(&mut bytes, &[2, 2], &[0.5_f32, -1.0, 2.0, 3.5]).unwrap();
        fs_err::write(&path, &bytes).unwrap();
        let matrix = read_matrix(&path).unwrap();
        assert_eq!((matrix.numbers, matrix.columns), (vec![0.5, -1.0, 2.0, 3.5], 2));
        for length in 0..bytes.len() {
            fs_err::write(&path, &bytes[..length]).unwrap();
            assert!(read_matrix(&path).is_err(), "cut at {length}");
        }
    }
}
