//! Relevance between all captions of a dataset, as a file.
//!
//! Rows and columns are the captions; entry (i, j) is the relevance of caption j's clip to caption i, or their
//! similarity. The extension of the file decides its form:
//!
//! | extension | form | holds |
//! |---|---|---|
//! | `.npy` | dense, for `numpy.load` | every pair |
//! | `.safetensors` | dense; tensors `relevance` (or `similarity`) and `clip`, each caption's clip | every pair |
//! | `.npz` | sparse, for `scipy.sparse.load_npz` | each caption with itself and its nearest others |
//!
//! Dense files are computed and written a few rows at a time: memory holds the vectors and one block of rows.
//! Refused: another extension, and more than [`MAX_DENSE`] captions in a dense file.

use std::collections::HashMap;
use std::io::{Seek, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use hark_nearest::{Vectors, exact};
use hark_work::files::{NewFile, replace_file};
use hark_work::progress::{Progress, report};
use npyz::WriterBuilder;
use serde_json::json;

use crate::arrays::Archive;
use crate::similarity::UNIT_TOLERANCE;
use crate::{Error, RelevanceFunction};

/// The most captions of a dense file: 20,000 take 1.6 GB.
pub const MAX_DENSE: usize = 20_000;

/// Rows that are computed at a time.
const BLOCK: usize = 256;

/// A file that a table can be written to, of a form that its extension tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableFile {
    path: PathBuf,
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Npy,
    Safetensors,
    Npz,
}

impl TableFile {
    /// # Errors
    ///
    /// [`Error::UnknownExtension`].
    pub fn new(path: &Path) -> Result<Self, Error> {
        let form = match path.extension().and_then(|extension| extension.to_str()) {
            Some("npy") => Form::Npy,
            Some("safetensors") => Form::Safetensors,
            Some("npz") => Form::Npz,
            _ => return Err(Error::UnknownExtension { path: path.into() }),
        };
        Ok(Self {
            path: path.into(),
            form,
        })
    }

    /// Whether the file keeps the nearest captions alone.
    pub fn is_sparse(&self) -> bool {
        self.form == Form::Npz
    }

    /// Checks that this many captions can be written to it, before they are embedded.
    ///
    /// # Errors
    ///
    /// [`Error::TooManyForDense`].
    pub fn check_size(&self, captions: usize) -> Result<(), Error> {
        if self.is_sparse() || captions <= MAX_DENSE {
            return Ok(());
        }
        Err(Error::TooManyForDense {
            captions,
            limit: MAX_DENSE,
        })
    }
}

/// The relevances, or similarities, between all captions of a dataset.
///
/// ```
/// use hark_relevance::table::{Table, TableFile};
/// use hark_relevance::{RelevanceFunction, Vectors, no_progress};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("relevance.npy");
/// let vectors = Vectors::new(&[1.0, 0.0, 0.6, 0.8], 2)?;
/// let table = Table::new(vectors, &[0, 1], Some(RelevanceFunction::logistic()))?;
/// table.save(&TableFile::new(&path)?, "my-encoder", 100, &no_progress)?;
/// # Ok::<(), hark_relevance::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Table<'a> {
    vectors: Vectors<'a>,
    clips: &'a [u32],
    function: Option<RelevanceFunction>,
    threads: Option<NonZeroUsize>,
}

impl<'a> Table<'a> {
    /// A table of unit vectors `[captions, dim]` and the clip of each caption. Without a function, its entries are
    /// similarities. A `minmax` must have its range: see [`RelevanceFunction::resolved`].
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`], [`Error::Nearest`] for vectors that are not unit vectors, and those of
    /// [`RelevanceFunction::apply`] for the function.
    pub fn new(
        vectors: Vectors<'a>,
        clips: &'a [u32],
        function: Option<RelevanceFunction>,
    ) -> Result<Self, Error> {
        if clips.len() != vectors.rows() {
            return Err(Error::LengthMismatch {
                what: "clip ids",
                expected: vectors.rows(),
                got: clips.len(),
            });
        }
        vectors.check_unit(UNIT_TOLERANCE)?;
        if let Some(function) = &function {
            function.apply(0.0, false)?;
        }
        Ok(Self {
            vectors,
            clips,
            function,
            threads: None,
        })
    }

    /// The threads that look for nearest captions; without it, those of the caller's rayon pool.
    #[must_use]
    pub fn threads(self, threads: NonZeroUsize) -> Self {
        Self {
            threads: Some(threads),
            ..self
        }
    }

    /// What the entries are: the function as it would be typed, or `similarity`.
    pub fn entries(&self) -> String {
        self.function
            .map_or_else(|| "similarity".to_owned(), |function| function.to_string())
    }

    /// Writes the table as a whole or not at all. `model` is what the file says of where the vectors come from;
    /// `top_k` is how many nearest captions a sparse file keeps for each.
    ///
    /// # Errors
    ///
    /// [`TableFile::check_size`], [`Error::NotWritten`], [`Error::Cancelled`].
    pub fn save(
        &self,
        file: &TableFile,
        model: &str,
        top_k: usize,
        progress: Progress<'_>,
    ) -> Result<(), Error> {
        file.check_size(self.vectors.rows())?;
        let write = |out: &mut NewFile<'_>| match file.form {
            Form::Npy => self.write_npy(out, progress),
            Form::Safetensors => self.write_safetensors(out, model, progress),
            Form::Npz => self.write_npz(out, top_k, progress),
        };
        replace_file(&file.path, |out| {
            write(out).map_err(|error| error.while_writing(&file.path))
        })
    }

    /// The entry at row `i`, column `j`, where the similarity is `h`.
    fn entry(&self, i: usize, j: usize, h: f32) -> Result<f32, Error> {
        let h = if i == j { 1.0 } else { h.clamp(-1.0, 1.0) };
        match &self.function {
            None => Ok(h),
            Some(function) => Ok(function.value(f64::from(h), self.clips[i] == self.clips[j])? as f32),
        }
    }

    /// All rows, from the first.
    fn for_each_row(
        &self,
        progress: Progress<'_>,
        mut write: impl FnMut(&[f32]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (rows, dim) = (self.vectors.rows(), self.vectors.dim());
        for (nth, block) in self.vectors.as_slice().chunks(BLOCK * dim).enumerate() {
            let mut entries = exact::products(Vectors::new(block, dim)?, self.vectors)?;
            for (row, entries) in entries.chunks_exact_mut(rows).enumerate() {
                for (j, entry) in entries.iter_mut().enumerate() {
                    *entry = self.entry(nth * BLOCK + row, j, *entry)?;
                }
                write(entries)?;
            }
            report(progress, ((nth + 1) * BLOCK).min(rows), rows)?;
        }
        Ok(())
    }

    fn write_npy(&self, out: &mut impl Write, progress: Progress<'_>) -> Result<(), Error> {
        let rows = self.vectors.rows() as u64;
        let mut writer = npyz::WriteOptions::new()
            .default_dtype()
            .shape(&[rows, rows])
            .writer(out)
            .begin_nd()?;
        self.for_each_row(progress, |row| Ok(writer.extend(row.iter().copied())?))?;
        Ok(writer.finish()?)
    }

    /// The header of a safetensors file is its length and a JSON object; the numbers follow in the order it gives.
    /// Written by hand because the safetensors crate takes tensors that are in memory.
    fn write_safetensors(
        &self,
        out: &mut impl Write,
        model: &str,
        progress: Progress<'_>,
    ) -> Result<(), Error> {
        let rows = self.vectors.rows();
        let split = rows * rows * 4;
        let name = if self.function.is_some() {
            "relevance"
        } else {
            "similarity"
        };
        let header = json!({
            "__metadata__": {"hark_format": "1", "function": self.entries(), "model": model},
            name: {"dtype": "F32", "shape": [rows, rows], "data_offsets": [0, split]},
            "clip": {"dtype": "U32", "shape": [rows], "data_offsets": [split, split + rows * 4]},
        });
        let mut header = header.to_string().into_bytes();
        header.resize(header.len().next_multiple_of(8), b' ');
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(&header)?;
        self.for_each_row(progress, |row| {
            for entry in row {
                out.write_all(&entry.to_le_bytes())?;
            }
            Ok(())
        })?;
        for clip in self.clips {
            out.write_all(&clip.to_le_bytes())?;
        }
        Ok(())
    }

    /// The members that `scipy.sparse.save_npz` writes.
    fn write_npz(
        &self,
        out: &mut (impl Write + Seek),
        top_k: usize,
        progress: Progress<'_>,
    ) -> Result<(), Error> {
        let Sparse {
            starts,
            columns,
            entries,
        } = self.sparse(top_k, progress)?;
        let rows = self.vectors.rows() as i64;
        let mut archive = Archive::new(out);
        archive.add_name("format", *b"csr")?;
        archive.add("shape", &[rows, rows])?;
        archive.add("indptr", &starts)?;
        archive.add("indices", &columns)?;
        archive.add("data", &entries)?;
        archive.finish()
    }

    fn sparse(&self, top_k: usize, progress: Progress<'_>) -> Result<Sparse, Error> {
        let mut sparse = Sparse {
            starts: vec![0],
            columns: Vec::new(),
            entries: Vec::new(),
        };
        if self.function == Some(RelevanceFunction::Binary) {
            // All captions of the clip, however dissimilar: similarity does not count.
            let mut by_clip: HashMap<u32, Vec<i32>> = HashMap::new();
            for (caption, &clip) in self.clips.iter().enumerate() {
                by_clip.entry(clip).or_default().push(caption as i32);
            }
            for clip in self.clips {
                sparse.push(by_clip[clip].iter().map(|&caption| (caption, 1.0)).collect());
            }
            return Ok(sparse);
        }
        let options = exact::Options {
            groups: None,
            threads: self.threads,
        };
        let found = exact::neighbours(self.vectors, top_k, options, progress)?;
        for (i, (ids, scores)) in found.iter().enumerate() {
            let mut row = vec![(i as i32, self.entry(i, i, 1.0)?)];
            for (&j, &h) in ids.iter().zip(scores) {
                row.push((j as i32, self.entry(i, j as usize, h)?));
            }
            sparse.push(row);
        }
        Ok(sparse)
    }
}

/// Compressed sparse rows: where each begins, its columns in ascending order, its entries.
struct Sparse {
    starts: Vec<i64>,
    columns: Vec<i32>,
    entries: Vec<f32>,
}

impl Sparse {
    fn push(&mut self, mut row: Vec<(i32, f32)>) {
        row.sort_unstable_by_key(|&(column, _)| column);
        self.columns.extend(row.iter().map(|&(column, _)| column));
        self.entries.extend(row.iter().map(|&(_, entry)| entry));
        self.starts.push(self.columns.len() as i64);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::ops::ControlFlow;

    use hark_work::progress::no_progress;

    use super::*;

    const DATA: [f32; 6] = [1.0, 0.0, 0.6, 0.8, 0.0, 1.0];
    const CLIPS: [u32; 3] = [7, 7, 9];

    fn table(function: Option<&str>) -> Table<'static> {
        let vectors = Vectors::new(&DATA, 2).unwrap();
        Table::new(vectors, &CLIPS, function.map(|text| text.parse().unwrap())).unwrap()
    }

    fn rows(table: &Table<'_>) -> Vec<f32> {
        let mut all = Vec::new();
        table
            .for_each_row(&no_progress, |row| {
                all.extend_from_slice(row);
                Ok(())
            })
            .unwrap();
        all
    }

    #[test]
    fn entries_are_similarities_or_the_function_of_them() {
        let similarities = rows(&table(None));
        for (got, h) in similarities
            .iter()
            .zip([1.0, 0.6, 0.0, 0.6, 1.0, 0.8, 0.0, 0.8, 1.0])
        {
            assert!((got - h).abs() < 1e-6);
        }
        let expected =
            crate::batch::from_similarity(&"threshold:at=0.7".parse().unwrap(), &similarities, &CLIPS);
        assert_eq!(rows(&table(Some("threshold:at=0.7"))), expected.unwrap());
        assert_eq!(rows(&table(Some("binary"))), crate::batch::same_clip(&CLIPS));
    }

    #[test]
    fn what_numpy_reads_is_what_was_computed() {
        let table = table(Some("logistic"));
        let mut bytes = Vec::new();
        table.write_npy(&mut bytes, &no_progress).unwrap();
        let file = npyz::NpyFile::new(bytes.as_slice()).unwrap();
        assert_eq!(file.shape(), [3, 3]);
        assert_eq!(file.into_vec::<f32>().unwrap(), rows(&table));
    }

    #[test]
    fn a_sparse_row_holds_the_caption_and_its_nearest() {
        let mut bytes = Cursor::new(Vec::new());
        table(None).write_npz(&mut bytes, 1, &no_progress).unwrap();
        let mut archive = zip::ZipArchive::new(bytes).unwrap();
        let starts: Vec<i64> = member(&mut archive, "indptr.npy");
        let columns: Vec<i32> = member(&mut archive, "indices.npy");
        let entries: Vec<f32> = member(&mut archive, "data.npy");
        assert_eq!(starts, [0, 2, 4, 6]);
        assert_eq!(columns, [0, 1, 1, 2, 1, 2]);
        for (got, h) in entries.iter().zip([1.0, 0.6, 1.0, 0.8, 0.8, 1.0]) {
            assert!((got - h).abs() < 1e-6);
        }
        let sparse = table(Some("binary")).sparse(1, &no_progress).unwrap();
        assert_eq!(sparse.columns, [0, 1, 0, 1, 2]);
    }

    fn member<T: npyz::Deserialize>(archive: &mut zip::ZipArchive<Cursor<Vec<u8>>>, name: &str) -> Vec<T> {
        let file = npyz::NpyFile::new(archive.by_name(name).unwrap()).unwrap();
        file.into_vec().unwrap()
    }

    #[test]
    fn what_cannot_be_written_is_refused_before_any_work() {
        let error = TableFile::new(Path::new("g.csv")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot write g.csv: the extension must be .npy, .safetensors or .npz"
        );
        let dense = TableFile::new(Path::new("g.npy")).unwrap();
        assert!(dense.check_size(MAX_DENSE).is_ok());
        let error = dense.check_size(MAX_DENSE + 1).unwrap_err().to_string();
        assert!(error.contains("1.6 GB") && error.contains(".npz"), "{error}");
        let sparse = TableFile::new(Path::new("g.npz")).unwrap();
        assert!(sparse.check_size(10 * MAX_DENSE).is_ok());
        let vectors = Vectors::new(&DATA, 2).unwrap();
        for function in ["minmax", "minmax:per-batch"] {
            let error = Table::new(vectors, &CLIPS, Some(function.parse().unwrap())).unwrap_err();
            assert!(matches!(error, Error::RangeUnknown { .. }), "{error}");
        }
    }

    #[test]
    fn a_cancelled_table_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        // Three captions are one block: the pass behind a sparse file is over before it can be cancelled.
        for name in ["g.npy", "g.safetensors"] {
            let file = TableFile::new(&folder.path().join(name)).unwrap();
            let cancel = |_, _| ControlFlow::Break(());
            let saved = table(None).save(&file, "m", 1, &cancel);
            assert_eq!(saved, Err(Error::Cancelled), "{name}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
