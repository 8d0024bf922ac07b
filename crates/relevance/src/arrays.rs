//! NumPy's `.npz`: a zip archive of arrays.

use std::io::{Seek, Write};

use npyz::{AutoSerialize, DType, WriterBuilder};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::Error;

/// An archive that arrays are added to one by one.
pub(crate) struct Archive<W: Write + Seek>(ZipWriter<W>);

impl<W: Write + Seek> Archive<W> {
    pub(crate) fn new(out: W) -> Self {
        Self(ZipWriter::new(out))
    }

    /// Adds an array of one dimension.
    pub(crate) fn add<T: AutoSerialize + Copy>(&mut self, name: &str, numbers: &[T]) -> Result<(), Error> {
        self.start(name)?;
        let mut writer = npyz::WriteOptions::new()
            .default_dtype()
            .shape(&[numbers.len() as u64])
            .writer(&mut self.0)
            .begin_nd()?;
        writer.extend(numbers.iter().copied())?;
        Ok(writer.finish()?)
    }

    /// Adds a scalar of three bytes, the form in which SciPy says what kind of matrix an archive holds.
    pub(crate) fn add_name(&mut self, name: &str, value: [u8; 3]) -> Result<(), Error> {
        self.start(name)?;
        let bytes = "|S3".parse().expect("NumPy's type of three bytes");
        let mut writer = npyz::WriteOptions::new()
            .dtype(DType::Plain(bytes))
            .shape(&[])
            .writer(&mut self.0)
            .begin_nd()?;
        writer.push(&value[..])?;
        Ok(writer.finish()?)
    }

    pub(crate) fn finish(self) -> Result<(), Error> {
        self.0.finish().map_err(std::io::Error::from)?;
        Ok(())
    }

    fn start(&mut self, name: &str) -> Result<(), Error> {
        let options = SimpleFileOptions::default().large_file(true);
        let started = self.0.start_file(format!("{name}.npy"), options);
        Ok(started.map_err(std::io::Error::from)?)
    }
}
