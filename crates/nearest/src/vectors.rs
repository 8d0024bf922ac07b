//! A checked view of a flat, row-major slice of vectors, shape `[rows, dim]`.
//!
//! All checks are made once, here. What leaves this module is finite, divides into rows, and is short enough
//! that no inner product of two rows can overflow: by Cauchy and Schwarz every partial sum of products is at
//! most the product of the two norms. The passes over blocks need no further checks, and no score is NaN.

use crate::Error;

/// The longest row accepted: its square is a tenth of what an `f32` holds, which leaves room for rounding.
const NORM_LIMIT: f64 = 5.8e18;

/// A checked view of vectors, shape `[rows, dim]`, row-major.
///
/// ```
/// let vectors = hark_nearest::Vectors::new(&[1.0, 0.0, 0.0, 1.0], 2)?;
/// assert_eq!(vectors.rows(), 2);
/// assert_eq!(vectors.row(1), [0.0, 1.0]);
/// # Ok::<(), hark_nearest::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Vectors<'a> {
    data: &'a [f32],
    dim: usize,
}

impl<'a> Vectors<'a> {
    /// Checks the shape and every number. No rows at all is a valid set.
    ///
    /// # Errors
    ///
    /// [`Error::ZeroDimension`], [`Error::RaggedRows`], [`Error::TooManyRows`] for the shape;
    /// [`Error::NotFinite`] and [`Error::TooLong`] for the first offending row.
    pub fn new(data: &'a [f32], dim: usize) -> Result<Self, Error> {
        if dim == 0 {
            return Err(Error::ZeroDimension);
        }
        if !data.len().is_multiple_of(dim) {
            return Err(Error::RaggedRows { len: data.len(), dim });
        }
        let rows = data.len() / dim;
        let limit = u32::MAX as usize;
        if rows > limit {
            return Err(Error::TooManyRows { rows, limit });
        }
        for (row, values) in data.chunks_exact(dim).enumerate() {
            let norm = norm(values);
            // A NaN or an infinity anywhere in the row makes the norm NaN or infinite.
            if norm.is_finite() && norm <= NORM_LIMIT {
                continue;
            }
            return Err(match values.iter().position(|value| !value.is_finite()) {
                Some(column) => Error::NotFinite {
                    row,
                    column,
                    value: values[column],
                },
                None => Error::TooLong {
                    row,
                    norm,
                    limit: NORM_LIMIT,
                },
            });
        }
        Ok(Self { data, dim })
    }

    /// A view of numbers that [`Vectors::new`] has accepted before.
    pub(crate) fn checked(data: &'a [f32], dim: usize) -> Self {
        Self { data, dim }
    }

    /// As [`Vectors::new`], and every row must have norm 1 within `tolerance`: inner products are then
    /// cosines.
    ///
    /// # Errors
    ///
    /// Those of [`Vectors::new`], and [`Error::NotUnit`] for the first row that is not a unit vector.
    pub fn unit(data: &'a [f32], dim: usize, tolerance: f64) -> Result<Self, Error> {
        let vectors = Self::new(data, dim)?;
        vectors.check_unit(tolerance)?;
        Ok(vectors)
    }

    /// Whether every row has norm 1 within `tolerance`.
    ///
    /// # Errors
    ///
    /// [`Error::NotUnit`] for the first row that has not.
    pub fn check_unit(&self, tolerance: f64) -> Result<(), Error> {
        for (row, values) in self.iter().enumerate() {
            let norm = norm(values);
            if (norm - 1.0).abs() > tolerance {
                return Err(Error::NotUnit { row, norm });
            }
        }
        Ok(())
    }

    /// Number of vectors.
    pub fn rows(&self) -> usize {
        self.data.len() / self.dim
    }

    /// Numbers in each vector.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Whether there are no vectors.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// One vector.
    ///
    /// # Panics
    ///
    /// When `row` is not below [`Vectors::rows`], as indexing a slice does.
    pub fn row(&self, row: usize) -> &'a [f32] {
        &self.data[row * self.dim..(row + 1) * self.dim]
    }

    /// The vectors in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [f32]> + use<'a> {
        self.data.chunks_exact(self.dim)
    }

    /// The flat slice.
    pub fn as_slice(&self) -> &'a [f32] {
        self.data
    }

    /// The flat slice of some consecutive rows.
    pub fn range(&self, rows: std::ops::Range<usize>) -> &'a [f32] {
        &self.data[rows.start * self.dim..rows.end * self.dim]
    }
}

fn norm(values: &[f32]) -> f64 {
    // Eight sums side by side: one chain of additions would wait for itself.
    let mut sums = [0.0_f64; 8];
    let (chunks, rest) = values.as_chunks::<8>();
    for chunk in chunks {
        for (sum, &value) in sums.iter_mut().zip(chunk) {
            *sum += f64::from(value) * f64::from(value);
        }
    }
    let rest: f64 = rest
        .iter()
        .map(|&value| f64::from(value) * f64::from(value))
        .sum();
    (sums.iter().sum::<f64>() + rest).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_checked() {
        assert_eq!(Vectors::new(&[], 0), Err(Error::ZeroDimension));
        assert_eq!(
            Vectors::new(&[1.0; 5], 2),
            Err(Error::RaggedRows { len: 5, dim: 2 })
        );
        assert_eq!(Vectors::new(&[], 3).map(|vectors| vectors.rows()), Ok(0));
    }

    #[test]
    fn the_first_bad_number_is_named() {
        let mut data = [0.5_f32; 30];
        data[23] = f32::NEG_INFINITY;
        let error = Vectors::new(&data, 10).unwrap_err();
        assert_eq!(
            error,
            Error::NotFinite {
                row: 2,
                column: 3,
                value: f32::NEG_INFINITY
            }
        );
        data[13] = f32::NAN;
        let error = Vectors::new(&data, 10).unwrap_err();
        assert!(matches!(error, Error::NotFinite { row: 1, column: 3, value } if value.is_nan()));
    }

    #[test]
    fn rows_whose_products_could_overflow_are_refused() {
        assert!(matches!(
            Vectors::new(&[f32::MAX, 0.0], 2),
            Err(Error::TooLong { row: 0, .. })
        ));
        assert!(Vectors::new(&[5e18, 0.0], 2).is_ok());
    }

    #[test]
    fn unit_vectors_are_checked_on_request() {
        assert!(Vectors::unit(&[0.6, 0.8, 1.0, 0.0], 2, 1e-6).is_ok());
        let error = Vectors::unit(&[0.6, 0.8, 2.0, 0.0], 2, 1e-6).unwrap_err();
        assert_eq!(error, Error::NotUnit { row: 1, norm: 2.0 });
    }
}
