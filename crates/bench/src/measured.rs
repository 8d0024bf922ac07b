//! What the rows of `bench/compare` have in common: repetitions that are timed one by one, weights and inputs that both
//! sides read, and the result that is compared.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use hark_nearest::{Embeddings, npy};

/// How often to measure.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct RepeatArgs {
    /// Times to repeat the measurement
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Run once before the clock starts, so that caches and pools are filled
    #[arg(long)]
    warm_up: bool,
}

impl RepeatArgs {
    /// Seconds of each repetition, and the result of the last.
    pub(crate) fn time<T>(self, mut work: impl FnMut() -> Result<T>) -> Result<(Vec<f64>, T)> {
        if self.warm_up {
            work()?;
        }
        let mut seconds = Vec::with_capacity(self.repeat as usize);
        loop {
            let start = Instant::now();
            let result = std::hint::black_box(work()?);
            seconds.push(start.elapsed().as_secs_f64());
            if seconds.len() == self.repeat as usize {
                return Ok((seconds, result));
            }
        }
    }
}

/// What both sides of a comparison read and write.
#[derive(Debug, clap::Args)]
pub(crate) struct FileArgs {
    /// Weights, safetensors or PyTorch, with the reference's tensor names [default: random]
    #[arg(long, value_name = "FILE")]
    pub(crate) weights: Option<PathBuf>,
    /// Inputs, a NumPy matrix with one row for each item [default: random]
    #[arg(long, value_name = "FILE.npy")]
    pub(crate) inputs: Option<PathBuf>,
    /// Write the result, a NumPy matrix
    #[arg(long, value_name = "FILE.npy")]
    pub(crate) output: Option<PathBuf>,
}

impl FileArgs {
    /// Writes a result whose rows are `columns` wide, if asked to.
    pub(crate) fn write(&self, numbers: &[f32], columns: usize) -> Result<()> {
        if let Some(path) = &self.output {
            npy::write(fs_err::File::create(path)?, columns, numbers)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

/// The first `rows` rows of a matrix.
pub(crate) fn read_rows(path: &Path, rows: usize) -> Result<Embeddings> {
    let matrix = npy::read(path)?;
    let (got, dim) = (matrix.view().rows(), matrix.dim());
    ensure!(rows <= got, "{} has {got} rows, needed {rows}", path.display());
    Ok(Embeddings::new(matrix.as_slice()[..rows * dim].to_vec(), dim)?)
}

/// Token ids of `rows` texts. A row of the matrix is padded with zeros; a text begins with the id 0, so the padding is
/// what follows its last other id.
pub(crate) fn read_tokens(path: &Path, rows: usize) -> Result<Vec<Vec<u32>>> {
    let matrix = read_rows(path, rows)?;
    let texts = matrix.as_slice().chunks_exact(matrix.dim()).map(|row| {
        let length = row.iter().rposition(|&id| id > 0.0).map_or(0, |last| last + 1);
        row[..length].iter().map(|&id| id as u32).collect()
    });
    Ok(texts.collect())
}
