//! Embeddings that are held in memory: rows of one length, what they are embeddings of, and what could not be embedded.
//!
//! In: flat, row-major numbers, `[rows, dim]`. They are checked once, as [`Vectors`] are, so that [`Embeddings::view`]
//! costs nothing. Something that could not be embedded has no row; with ids, which row belongs to what stays known.

use std::sync::Arc;

use crate::{Error, Vectors};

/// Rows of one length, perhaps with ids.
///
/// ```
/// use hark_nearest::{Embeddings, top_k};
///
/// let clips = Embeddings::new(vec![1.0, 0.0, 0.6, 0.8], 2)?.with_ids(["dog.wav", "rain.wav"])?;
/// let hits = top_k(&[0.0, 1.0], clips.view(), 1)?;
/// assert_eq!(clips.id(hits[0].row), Some("rain.wav"));
/// # Ok::<(), hark_nearest::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Embeddings {
    rows: Vec<f32>,
    dim: usize,
    ids: Vec<String>,
    failures: Vec<Failure>,
    truncated: usize,
}

/// Something that could not be embedded.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Its id: for a recording its path.
    pub id: String,
    /// Why.
    pub error: Arc<dyn std::error::Error + Send + Sync>,
}

impl Embeddings {
    /// Rows without ids, `[rows, dim]`.
    ///
    /// # Errors
    /// Those of [`Vectors::new`].
    pub fn new(rows: Vec<f32>, dim: usize) -> Result<Self, Error> {
        Vectors::new(&rows, dim)?;
        Ok(Self {
            rows,
            dim,
            ids: Vec::new(),
            failures: Vec::new(),
            truncated: 0,
        })
    }

    /// Names the rows, in their order.
    ///
    /// # Errors
    /// [`Error::IdsMismatch`] unless there is one id for each row.
    pub fn with_ids(mut self, ids: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, Error> {
        self.ids = ids.into_iter().map(Into::into).collect();
        if self.ids.len() != self.len() {
            return Err(Error::IdsMismatch {
                expected: self.len(),
                got: self.ids.len(),
            });
        }
        Ok(self)
    }

    /// Adds what has no row, and why.
    #[must_use]
    pub fn with_failures(mut self, failures: Vec<Failure>) -> Self {
        self.failures = failures;
        self
    }

    /// Says how many inputs were longer than the encoder reads.
    #[must_use]
    pub fn with_truncated(mut self, truncated: usize) -> Self {
        self.truncated = truncated;
        self
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len() / self.dim
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Numbers in a row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// One row.
    ///
    /// # Panics
    /// When `row` is not below [`Embeddings::len`], as indexing a slice does.
    pub fn row(&self, row: usize) -> &[f32] {
        self.view().row(row)
    }

    /// The rows in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.view().iter()
    }

    /// The rows as searches and metrics take them.
    pub fn view(&self) -> Vectors<'_> {
        Vectors::checked(&self.rows, self.dim)
    }

    /// All numbers, row after row.
    pub fn as_slice(&self) -> &[f32] {
        &self.rows
    }

    /// All numbers, row after row.
    pub fn into_vec(self) -> Vec<f32> {
        self.rows
    }

    /// The ids in the order of the rows; empty where rows have none.
    pub fn ids(&self) -> &[String] {
        &self.ids
    }

    /// The id of a row, if rows have ids.
    pub fn id(&self, row: usize) -> Option<&str> {
        self.ids.get(row).map(String::as_str)
    }

    /// What could not be embedded, in the order of the input.
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// How many inputs were longer than the encoder reads: their ends had no part in their rows.
    pub fn truncated(&self) -> usize {
        self.truncated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_their_ids_and_failures_have_none() {
        let failure = Failure {
            id: "b".to_owned(),
            error: Arc::new(Error::ZeroQuery),
        };
        let embeddings = Embeddings::new(vec![1.0, 2.0, 3.0, 4.0], 2)
            .and_then(|embeddings| embeddings.with_ids(["a", "c"]))
            .unwrap()
            .with_failures(vec![failure])
            .with_truncated(1);
        assert_eq!((embeddings.len(), embeddings.dim()), (2, 2));
        assert_eq!(embeddings.rows().collect::<Vec<_>>(), [[1.0, 2.0], [3.0, 4.0]]);
        assert_eq!(
            (embeddings.id(1), embeddings.row(1)),
            (Some("c"), &[3.0, 4.0][..])
        );
        assert_eq!(embeddings.id(2), None);
        assert_eq!(embeddings.failures()[0].id, "b");
        assert_eq!(
            embeddings.view(),
            Vectors::new(embeddings.as_slice(), embeddings.dim()).unwrap()
        );
        assert_eq!(embeddings.truncated(), 1);
    }

    #[test]
    fn shapes_numbers_and_ids_are_checked() {
        assert!(matches!(
            Embeddings::new(vec![1.0; 3], 2),
            Err(Error::RaggedRows { len: 3, dim: 2 })
        ));
        assert!(matches!(
            Embeddings::new(vec![1.0, f32::NAN], 2),
            Err(Error::NotFinite {
                row: 0,
                column: 1,
                ..
            })
        ));
        let mismatch = Embeddings::new(vec![1.0; 4], 2).unwrap().with_ids(["a"]);
        assert!(matches!(
            mismatch,
            Err(Error::IdsMismatch { expected: 2, got: 1 })
        ));
        assert!(Embeddings::new(Vec::new(), 2).unwrap().is_empty());
    }
}
