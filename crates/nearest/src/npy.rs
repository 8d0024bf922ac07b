//! Matrices in NumPy's `.npy` files, by the crate `npyz`.
//!
//! Read: 32-bit and 64-bit floats of either byte order, in C or in Fortran order, versions 1 to 3 of the format. The
//! numbers become `f32`, checked as all [`Embeddings`] are. A file is refused before anything is allocated for it
//! where its header claims more than the file holds: `npyz` alone would reserve whatever a header names, and multiply a
//! shape without a look at the overflow.
//!
//! Written: version 1, little-endian, C order, as `numpy.save` does.

use std::io::{self, BufReader, Read, Seek, Write};
use std::path::Path;

use npyz::{AutoSerialize, NpyFile, NpyHeader, Order, WriterBuilder};

use crate::{Embeddings, Error};

/// Real headers take 118 bytes.
const MAX_HEADER: usize = 1 << 16;
/// Brackets in a header: those of the dictionary, of the shape, and some.
const MAX_BRACKETS: usize = 8;

/// Reads a matrix, `[rows, dim]`.
///
/// # Errors
/// [`Error::Npy`] if the file cannot be read or is no such matrix, and those of [`Embeddings::new`].
pub fn read(path: &Path) -> Result<Embeddings, Error> {
    let failed = |reason: String| Error::Npy {
        path: path.to_owned(),
        reason,
    };
    let (rows, dim) = parse(path).map_err(|error| failed(error.to_string()))?;
    Embeddings::new(rows, dim).map_err(|error| failed(error.to_string()))
}

/// Writes a matrix of `numbers.len() / columns` rows.
///
/// # Errors
/// If the output cannot be written, or the numbers do not divide into rows.
pub fn write<T: AutoSerialize + Copy>(output: impl Write, columns: usize, numbers: &[T]) -> io::Result<()> {
    if columns == 0 || !numbers.len().is_multiple_of(columns) {
        return Err(invalid(format!(
            "{} numbers do not divide into rows of {columns}",
            numbers.len()
        )));
    }
    let mut writer = npyz::WriteOptions::new()
        .default_dtype()
        .shape(&[(numbers.len() / columns) as u64, columns as u64])
        .writer(output)
        .begin_nd()?;
    writer.extend(numbers.iter().copied())?;
    writer.finish()
}

fn parse(path: &Path) -> io::Result<(Vec<f32>, usize)> {
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    let header = read_header(&mut file, length)?;
    let &[rows, columns] = header.shape() else {
        return Err(invalid(format!(
            "an array of shape {:?} is no matrix",
            header.shape()
        )));
    };
    let dtype = header.dtype();
    let numbers = rows.checked_mul(columns);
    let expected = numbers
        .zip(dtype.num_bytes())
        .and_then(|(n, size)| n.checked_mul(size as u64));
    let got = length - file.stream_position()?;
    if expected != Some(got) {
        return Err(invalid(format!(
            "{got} bytes of numbers, but shape ({rows}, {columns}) needs {}",
            expected.map_or("more than can be addressed".to_owned(), |n| n.to_string())
        )));
    }
    let order = header.order();
    let file = NpyFile::with_header(header, BufReader::with_capacity(1 << 16, file));
    let numbers: Vec<f32> = match file.try_data::<f32>() {
        Ok(data) => data.collect::<Result<_, _>>()?,
        Err(file) => match file.try_data::<f64>() {
            Ok(data) => data
                .map(|number| number.map(|number| number as f32))
                .collect::<Result<_, _>>()?,
            Err(_) => {
                return Err(invalid(format!(
                    "its numbers are of type {}, not 32-bit or 64-bit floats",
                    dtype.descr()
                )));
            }
        },
    };
    let (rows, columns) = (rows as usize, columns as usize);
    Ok(match order {
        Order::C => (numbers, columns),
        Order::Fortran => {
            let row = |row: usize| (0..columns).map(move |column| column * rows + row);
            let turned = (0..rows).flat_map(row).map(|place| numbers[place]);
            (turned.collect(), columns)
        }
    })
}

/// The header of a file of this length; afterwards the file is at its first number.
fn read_header(file: &mut impl Read, length: u64) -> io::Result<NpyHeader> {
    let mut bytes = vec![0; 10];
    file.read_exact(&mut bytes)
        .map_err(|_| invalid("not a NumPy file: too short".to_owned()))?;
    if !bytes.starts_with(b"\x93NUMPY") {
        return Err(invalid("not a NumPy file".to_owned()));
    }
    let mut size = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    if bytes[6] > 1 {
        bytes.resize(12, 0);
        file.read_exact(&mut bytes[10..])?;
        size |= usize::from(u16::from_le_bytes([bytes[10], bytes[11]])) << 16;
    }
    if size > MAX_HEADER {
        return Err(invalid(format!("a header of {size} bytes")));
    }
    let start = bytes.len();
    bytes.resize(start + size, 0);
    file.read_exact(&mut bytes[start..])?;
    check_header(&bytes[start..], length)?;
    NpyHeader::from_reader(bytes.as_slice())
}

/// Refuses what the parser behind this should not see: brackets that nest deeply, and numbers whose product, which is
/// that of the shape and the size of a number, is more than a file of this length can hold.
fn check_header(header: &[u8], length: u64) -> io::Result<()> {
    if header.iter().filter(|byte| b"([{".contains(byte)).count() > MAX_BRACKETS {
        return Err(invalid("a header with too many brackets".to_owned()));
    }
    let mut product = 1_u64;
    for digits in header.split(|byte| !byte.is_ascii_digit()) {
        let number = digits.iter().try_fold(0_u64, |number, digit| {
            number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        });
        // An array without numbers may still have a shape of moderate size.
        product = number
            .and_then(|number| product.checked_mul(number.max(1)))
            .filter(|&product| product <= length.max(1 << 32))
            .ok_or_else(|| invalid("a shape that is larger than the file".to_owned()))?;
    }
    Ok(())
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A file as NumPy writes it.
    fn file(header: &str, numbers: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(numbers);
        bytes
    }

    fn read_bytes(bytes: &[u8]) -> Result<(Vec<f32>, usize), String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("matrix.npy");
        std::fs::write(&path, bytes).unwrap();
        let matrix = read(&path).map_err(|error| error.to_string())?;
        let dim = matrix.dim();
        Ok((matrix.into_vec(), dim))
    }

    #[test]
    fn what_is_written_is_read_and_nothing_cut_short() {
        let numbers = [0.5_f32, -1.0, 2.0, 3.5, 4.0, 5.0];
        let mut bytes = Vec::new();
        write(&mut bytes, 3, &numbers).unwrap();
        assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
        assert_eq!(read_bytes(&bytes), Ok((numbers.to_vec(), 3)));
        for length in 0..bytes.len() {
            assert!(read_bytes(&bytes[..length]).is_err(), "cut at {length}");
        }
        bytes.push(0);
        assert!(read_bytes(&bytes).is_err());
        assert!(write(&mut Vec::new(), 4, &numbers).is_err());
        assert!(write(&mut Vec::new(), 0, &numbers).is_err());
    }

    #[test]
    fn wide_numbers_both_byte_orders_and_fortran_order_are_read() {
        let expected = Ok((vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3));
        let rows = [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        let columns = [1.0_f32, 4.0, 2.0, 5.0, 3.0, 6.0];
        let header = |descr: &str, fortran: &str| {
            format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': (2, 3), }}\n")
        };
        for (fortran, numbers) in [("False", rows), ("True", columns)] {
            let wide = numbers.map(f64::from);
            for (descr, bytes) in [
                ("<f4", numbers.map(f32::to_le_bytes).concat()),
                (">f4", numbers.map(f32::to_be_bytes).concat()),
                ("<f8", wide.map(f64::to_le_bytes).concat()),
                (">f8", wide.map(f64::to_be_bytes).concat()),
            ] {
                let found = read_bytes(&file(&header(descr, fortran), &bytes));
                assert_eq!(found, expected, "{descr} {fortran}");
            }
        }
        // Version 2 has a longer length.
        let text = header("<f4", "False");
        let mut second = b"\x93NUMPY\x02\x00".to_vec();
        second.extend((text.len() as u32).to_le_bytes());
        second.extend(text.as_bytes());
        second.extend(rows.map(f32::to_le_bytes).concat());
        assert_eq!(read_bytes(&second), expected);
    }

    #[test]
    fn other_arrays_are_refused_by_what_they_are() {
        let header = |descr: &str, shape: &str| {
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}")
        };
        for (descr, shape, numbers, what) in [
            ("<i4", "(1, 1)", &[0_u8; 4][..], "type '<i4'"),
            ("<f4", "(1,)", &[0; 4], "shape [1]"),
            ("<f4", "(1, 1, 1)", &[0; 4], "shape [1, 1, 1]"),
            ("<f4", "(2, 1)", &[0; 4], "4 bytes of numbers"),
            ("<f4", "(1, 1)", &f32::NAN.to_le_bytes(), "row 0 holds NaN"),
            ("<f8", "(1, 1)", &1e300_f64.to_le_bytes(), "row 0 holds inf"),
            ("<f4", "(5, 0)", &[], "dimension 0"),
        ] {
            let error = read_bytes(&file(&header(descr, shape), numbers)).unwrap_err();
            assert!(error.contains(what), "{error}");
        }
        assert_eq!(
            read_bytes(&file(&header("<f4", "(0, 512)"), &[])),
            Ok((vec![], 512))
        );
    }

    #[test]
    fn hostile_headers_allocate_nothing() {
        let huge = "9".repeat(30);
        for header in [
            "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }".to_owned(),
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 1000), }".to_owned(),
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1000000000), }".to_owned(),
            format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({huge}, 1), }}"),
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 1), }".to_owned(),
            "(".repeat(60_000),
            "{'descr': '|O', 'fortran_order': False, 'shape': (1, 1), }".to_owned(),
            "{}".to_owned(),
            String::new(),
        ] {
            assert!(read_bytes(&file(&header, &[0; 4])).is_err(), "{header:.60}");
        }
        let mut long = b"\x93NUMPY\x02\x00".to_vec();
        long.extend(u32::MAX.to_le_bytes());
        assert!(
            read_bytes(&long)
                .unwrap_err()
                .contains("a header of 4294967295 bytes")
        );
        assert!(
            read_bytes(b"PK\x03\x04 no NumPy file at all")
                .unwrap_err()
                .contains("not a NumPy file")
        );
    }

    proptest! {
        #[test]
        fn any_header_is_read_or_refused(
            start in 0_u8..4,
            header in "[\\{\\}\\(\\), '<fdescr:shapTrueFal0-9]{0,80}",
            numbers in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut bytes = file(&header, &numbers);
            bytes[6] = start;
            let _ = read_bytes(&bytes);
        }
    }
}
