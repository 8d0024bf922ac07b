//! Matrices in NumPy's `.npy` files.

use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result, bail};
use fs_err::File;
use npyz::{NpyFile, Order, WriterBuilder};

/// A matrix of 32-bit floats, row by row.
pub(crate) struct Matrix {
    pub(crate) numbers: Vec<f32>,
    pub(crate) columns: usize,
}

pub(crate) fn read(path: &Path) -> Result<Matrix> {
    let named = || format!("cannot read {} as a matrix of 32-bit floats", path.display());
    let file = NpyFile::new(BufReader::new(File::open(path)?)).with_context(named)?;
    let &[_, columns] = file.shape() else {
        bail!(
            "{}: shape {:?} is not that of a matrix",
            path.display(),
            file.shape()
        );
    };
    if file.order() != Order::C {
        bail!("{}: in Fortran order; save it in C order", path.display());
    }
    Ok(Matrix {
        numbers: file.into_vec().with_context(named)?,
        columns: columns as usize,
    })
}

pub(crate) fn write<T: npyz::AutoSerialize>(
    path: &Path,
    rows: usize,
    columns: usize,
    numbers: &[T],
) -> Result<()> {
    let file = File::create(path)?;
    let mut writer = npyz::WriteOptions::new()
        .default_dtype()
        .shape(&[rows as u64, columns as u64])
        .writer(file)
        .begin_nd()?;
    writer.extend(numbers)?;
    writer.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_numpy_writes_is_read_and_other_shapes_are_refused() {
        let folder = std::env::temp_dir().join(format!("hark-bench-npy-{}", std::process::id()));
        fs_err::create_dir_all(&folder).unwrap();
        let path = folder.join("matrix.npy");
        write(&path, 2, 2, &[1_u32, 2, 3, 4]).unwrap();
        // 32-bit whole numbers are no floats.
        assert!(read(&path).is_err());
        let mut bytes =
            b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }".to_vec();
        bytes.resize(127, b' ');
        bytes.push(b'\n');
        bytes.extend(
            [0.5_f32, -1.0, 2.0, 3.5, 4.0, 5.0]
                .iter()
                .flat_map(|number| number.to_le_bytes()),
        );
        fs_err::write(&path, &bytes).unwrap();
        let matrix = read(&path).unwrap();
        assert_eq!(
            (matrix.numbers, matrix.columns),
            (vec![0.5, -1.0, 2.0, 3.5, 4.0, 5.0], 3)
        );
        fs_err::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert!(read(&path).is_err());
        fs_err::remove_dir_all(&folder).unwrap();
    }
}
