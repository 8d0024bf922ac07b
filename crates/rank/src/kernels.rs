//! This crate's one place with `unsafe`: the inner products of two small sets of vectors, by the `gemm` crate.
//!
//! In: `left` `[m, dim]` and `right` `[n, dim]`, both row-major. Out: `[m, n]`, row-major,
//! `out[i][j] = left[i] . right[j]`. One thread: callers spread whole blocks over threads.

#![allow(unsafe_code)]

/// Writes all inner products of the rows of `left` with the rows of `right` into the start of `out`.
///
/// # Panics
///
/// When a length is not a multiple of `dim`, or `out` is shorter than `m * n`. The callers in this crate take
/// their slices from a checked `Vectors`.
pub(crate) fn inner_products(left: &[f32], right: &[f32], dim: usize, out: &mut [f32]) {
    assert!(dim > 0, "vectors have a dimension");
    assert!(left.len().is_multiple_of(dim), "left divides into rows");
    assert!(right.len().is_multiple_of(dim), "right divides into rows");
    let (m, n) = (left.len() / dim, right.len() / dim);
    assert!(
        m.checked_mul(n).is_some_and(|size| size <= out.len()),
        "out holds all products"
    );
    let (dim_stride, out_stride) = (dim as isize, n as isize);
    // SAFETY: `gemm` reads `left[i * dim + k]` and `right[j * dim + k]` for i < m, j < n, k < dim, and writes
    // `out[i * n + j]`. The assertions above put all three inside their slices. A slice is at most isize::MAX
    // bytes long, so no offset overflows. `out` is borrowed mutably, so it overlaps neither input. With
    // `read_dst` false the old contents of `out` are never used.
    unsafe {
        gemm::gemm(
            m,
            n,
            dim,
            out.as_mut_ptr(),
            1,
            out_stride,
            false,
            left.as_ptr(),
            1,
            dim_stride,
            right.as_ptr(),
            dim_stride,
            1,
            0.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small whole numbers: every sum is exact in `f32`, so the order of additions cannot matter.
    fn whole_numbers(len: usize, seed: usize) -> Vec<f32> {
        (0..len)
            .map(|i| ((i * 7 + seed * 13 + i * i % 11) % 9) as f32 - 4.0)
            .collect()
    }

    #[test]
    fn equals_the_naive_loop() {
        for (m, n, dim) in [
            (0, 3, 2),
            (3, 0, 2),
            (1, 1, 1),
            (1, 9, 5),
            (7, 1, 3),
            (5, 6, 8),
            (33, 70, 129),
            (65, 97, 768),
        ] {
            let (left, right) = (whole_numbers(m * dim, 1), whole_numbers(n * dim, 2));
            let mut out = vec![f32::NAN; m * n + 3];
            inner_products(&left, &right, dim, &mut out);
            for i in 0..m {
                for j in 0..n {
                    let naive: f32 = (0..dim).map(|k| left[i * dim + k] * right[j * dim + k]).sum();
                    assert_eq!(out[i * n + j], naive, "{m} x {n} x {dim} at {i}, {j}");
                }
            }
            assert!(
                out[m * n..].iter().all(|value| value.is_nan()),
                "nothing is written past the end"
            );
        }
    }

    #[test]
    #[should_panic(expected = "out holds all products")]
    fn a_short_output_is_refused() {
        inner_products(&[1.0; 4], &[1.0; 4], 2, &mut [0.0; 3]);
    }
}
