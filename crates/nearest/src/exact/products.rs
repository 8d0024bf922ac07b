//! The dense table of scores, for sets small enough to hold it.

use crate::kernels::inner_products;
use crate::{Error, Vectors};

/// All inner products of two sets, `[left rows, right rows]`, row-major, on the calling thread.
///
/// ```
/// use hark_nearest::{Vectors, exact};
///
/// let left = Vectors::new(&[1.0, 2.0], 2)?;
/// let right = Vectors::new(&[3.0, 4.0, 5.0, 6.0], 2)?;
/// assert_eq!(exact::products(left, right)?, [11.0, 17.0]);
/// # Ok::<(), hark_nearest::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::DimensionMismatch`], and [`Error::TooLarge`] when the table does not fit in memory.
pub fn products(left: Vectors<'_>, right: Vectors<'_>) -> Result<Vec<f32>, Error> {
    if left.dim() != right.dim() {
        return Err(Error::DimensionMismatch {
            expected: left.dim(),
            got: right.dim(),
        });
    }
    let (rows, width) = (left.rows(), right.rows());
    let mut out = Vec::new();
    if rows
        .checked_mul(width)
        .is_none_or(|size| out.try_reserve_exact(size).is_err())
    {
        return Err(Error::TooLarge { rows, width });
    }
    out.resize(rows * width, 0.0);
    inner_products(left.as_slice(), right.as_slice(), left.dim(), &mut out);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_must_agree() {
        let (left, right) = ([1.0; 4], [1.0; 6]);
        let (left, right) = (Vectors::new(&left, 2).unwrap(), Vectors::new(&right, 3).unwrap());
        assert_eq!(
            products(left, right),
            Err(Error::DimensionMismatch { expected: 2, got: 3 })
        );
    }

    #[test]
    fn an_empty_side_gives_an_empty_table() {
        let (none, some) = (
            Vectors::new(&[], 2).unwrap(),
            Vectors::new(&[1.0, 2.0], 2).unwrap(),
        );
        assert_eq!(products(none, some), Ok(vec![]));
        assert_eq!(products(some, none), Ok(vec![]));
    }
}
