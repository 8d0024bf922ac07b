//! This crate's one place with `unsafe`: inner products for the vector unit, and the metric of approximate search.
//!
//! [`inner_products`] multiplies two sets of 32-bit vectors by the `gemm` crate: `left` `[m, dim]` and `right`
//! `[n, dim]`, both row-major, give `[m, n]`, `out[i][j] = left[i] . right[j]`. One thread: callers spread whole
//! blocks over threads.
//!
//! [`row_products`] multiplies rows of 16-bit numbers by queries of 32-bit ones. A product is the sum of [`LANES`]
//! sums, lane l of the numbers at l, l + 16, l + 32, .., each added in the order of its numbers; the lanes are then
//! added in pairs, (l, l + 8), (l, l + 4), (l, l + 2), (l, l + 1). However many rows and queries are multiplied at a
//! time, each product is computed like this, so that it has the same bits in every call on one machine. Processors
//! with FMA round once for each number, others twice.
//!
//! [`set_metric_f16`] and [`set_metric_i8`] give an index of the `usearch` crate the distance 1 - a . b over vectors
//! in the forms of [`pack_f16`] and [`pack_i8`].
//!
//! There are loops for AVX2 with F16C and FMA, which processors of this kind have had since 2013, and plain ones for
//! all others.

#![allow(unsafe_code)]
// Small pieces must be inlined into the function that is compiled for the vector unit: that is their whole point.
#![allow(clippy::inline_always)]

use half::f16;
use usearch::Index;

/// Sums that are added up side by side in a product of 16-bit rows. Rows and queries are filled up with zeros to a
/// multiple of it.
pub(crate) const LANES: usize = 16;
/// Rows, and queries, that are multiplied at a time: as many as there are registers for.
const ROWS_AT_ONCE: usize = 2;
const QUERIES_AT_ONCE: usize = 3;
/// Rows that are multiplied at a time where there is one query: their sums do not wait for one another.
const ROWS_OF_ONE: usize = 4;
/// Numbers of an 8-bit vector that are multiplied at a time: vectors are filled up with zeros to a multiple of it.
const BYTES: usize = 32;
/// The bytes at the end of an 8-bit vector: the number that its numbers are multiplied by.
const FACTOR: usize = 4;
/// The longest vector of [`pack_i8`]: its inner product with another, at most 127 * 127 * dim, is below 2^31.
pub(crate) const MAX_I8_DIM: usize = 1 << 17;

/// Writes all inner products of the rows of `left` with the rows of `right` into the start of `out`.
///
/// # Panics
///
/// When a length is not a multiple of `dim`, or `out` is shorter than `m * n`. The callers in this crate take
/// their slices from a checked `Vectors`.
pub fn inner_products(left: &[f32], right: &[f32], dim: usize, out: &mut [f32]) {
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

/// Queries `[count, dim]`, row-major, with every row filled up with zeros to a multiple of [`LANES`].
pub(crate) fn pad_queries(queries: &[f32], dim: usize) -> Vec<f32> {
    let padded = dim.next_multiple_of(LANES);
    let mut out = vec![0.0; queries.len() / dim.max(1) * padded];
    for (query, out) in queries.chunks_exact(dim.max(1)).zip(out.chunks_exact_mut(padded)) {
        out[..dim].copy_from_slice(query);
    }
    out
}

/// Writes the inner products of all rows with all queries: `out[row * queries + query]`.
///
/// `rows` is `[n, dim]`; `queries` comes from [`pad_queries`] with the same `dim`.
///
/// # Panics
///
/// When a length does not fit: callers have checked theirs.
pub(crate) fn row_products(rows: &[f16], dim: usize, queries: &[f32], out: &mut [f32]) {
    assert!(dim > 0, "vectors have a dimension");
    let padded = dim.next_multiple_of(LANES);
    let (n, m) = (rows.len() / dim, queries.len() / padded);
    assert_eq!(rows.len(), n * dim, "rows divide");
    assert_eq!(queries.len(), m * padded, "queries divide");
    assert_eq!(out.len(), n * m, "out holds all products");
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the features that the function is compiled for have just been detected.
        return unsafe { avx2::row_products(rows, dim, queries, out) };
    }
    row_products_plain(rows, dim, queries, out);
}

fn row_products_plain(rows: &[f16], dim: usize, queries: &[f32], out: &mut [f32]) {
    let padded = dim.next_multiple_of(LANES);
    let m = queries.len() / padded;
    for (row, out) in rows.chunks_exact(dim).zip(out.chunks_exact_mut(m.max(1))) {
        for (query, out) in queries.chunks_exact(padded).zip(out) {
            let mut sums = [0.0_f32; LANES];
            for (row, query) in row.chunks(LANES).zip(query.chunks(LANES)) {
                for ((sum, &number), &factor) in sums.iter_mut().zip(row).zip(query) {
                    *sum += widen(number) * factor;
                }
            }
            *out = add_lanes(sums);
        }
    }
}

/// The sum of all lanes, in pairs.
fn add_lanes(mut sums: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}

/// A 16-bit number in 32 bits, exactly, in steps that compile to vector instructions of any processor: the bits are
/// moved to their places and the exponent, whose bias is 15 there and 127 here, is corrected by a product with 2^112,
/// which also makes numbers out of those that have no leading one.
#[inline(always)]
fn widen(number: f16) -> f32 {
    const CORRECTION: f32 = f32::from_bits((127 + 112) << 23);
    let bits = u32::from(number.to_bits());
    let magnitude = (bits & 0x7fff) << 13;
    let special = (bits & 0x7c00) == 0x7c00;
    let corrected = (f32::from_bits(magnitude) * CORRECTION).to_bits();
    let value = if special {
        magnitude | 0x7f80_0000
    } else {
        corrected
    };
    f32::from_bits(value | ((bits & 0x8000) << 16))
}

/// How many numbers a packed vector of 16-bit numbers takes.
pub(crate) fn packed_f16(dim: usize) -> usize {
    dim.next_multiple_of(LANES)
}

/// How many bytes a packed vector of 8-bit numbers takes.
pub(crate) fn packed_i8(dim: usize) -> usize {
    dim.next_multiple_of(BYTES) + FACTOR
}

/// A vector times `scale` as the bits of 16-bit numbers, filled up with zeros.
pub(crate) fn pack_f16(vector: &[f32], scale: f32) -> Vec<i16> {
    let mut out: Vec<i16> = vector
        .iter()
        .map(|&value| f16::from_f32(value * scale).to_bits() as i16)
        .collect();
    out.resize(packed_f16(vector.len()), 0);
    out
}

/// A vector as 8-bit numbers between -127 and 127, the largest of which is 127 or -127, filled up with zeros, and the
/// factor that makes a unit vector of them. The vector must not be zero.
pub(crate) fn pack_i8(vector: &[f32]) -> Vec<i8> {
    let largest = vector
        .iter()
        .fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let step = 127.0 / f64::from(largest);
    let mut out: Vec<i8> = vector
        .iter()
        .map(|&value| (f64::from(value) * step).round() as i8)
        .collect();
    let squares: i64 = out.iter().map(|&value| i64::from(value) * i64::from(value)).sum();
    let factor = (1.0 / (squares.max(1) as f64).sqrt()) as f32;
    out.resize(packed_i8(vector.len()) - FACTOR, 0);
    out.extend(factor.to_le_bytes().map(u8::cast_signed));
    out
}

/// Makes the index measure by 1 - a . b over vectors of [`pack_f16`], of `words` numbers each.
pub(crate) fn set_metric_f16(index: &mut Index, words: usize) {
    // SAFETY, of all closures in this function and the next: the index calls its metric with the addresses of two
    // vectors that it keeps, or of one that is searched for or added. Each has as many numbers as it was made for:
    // `words`, which its own code checks of all that come in.
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: as above, and the features have just been detected.
        let metric = move |a: *const usearch::f16, b: *const usearch::f16| unsafe {
            1.0 - avx2::dot_f16(
                std::slice::from_raw_parts(a.cast(), words),
                std::slice::from_raw_parts(b.cast(), words),
            )
        };
        return index.change_metric::<usearch::f16>(Box::new(metric));
    }
    // SAFETY: as above.
    let metric = move |a: *const usearch::f16, b: *const usearch::f16| unsafe {
        1.0 - dot_f16_plain(
            std::slice::from_raw_parts(a.cast(), words),
            std::slice::from_raw_parts(b.cast(), words),
        )
    };
    index.change_metric::<usearch::f16>(Box::new(metric));
}

/// Makes the index measure by 1 - a . b over vectors of [`pack_i8`], of `bytes` bytes each.
pub(crate) fn set_metric_i8(index: &mut Index, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: as above.
        let metric = move |a: *const i8, b: *const i8| unsafe {
            distance_i8(
                std::slice::from_raw_parts(a, bytes),
                std::slice::from_raw_parts(b, bytes),
                |a, b| avx2::dot_i8(a, b),
            )
        };
        return index.change_metric::<i8>(Box::new(metric));
    }
    // SAFETY: as above.
    let metric = move |a: *const i8, b: *const i8| unsafe {
        distance_i8(
            std::slice::from_raw_parts(a, bytes),
            std::slice::from_raw_parts(b, bytes),
            dot_i8_plain,
        )
    };
    index.change_metric::<i8>(Box::new(metric));
}

#[inline(always)]
fn distance_i8(a: &[i8], b: &[i8], dot: impl FnOnce(&[i8], &[i8]) -> i32) -> f32 {
    let (Some((a, factor_a)), Some((b, factor_b))) = (a.split_last_chunk(), b.split_last_chunk()) else {
        return 1.0;
    };
    let factor = |bytes: &[i8; FACTOR]| f32::from_le_bytes(bytes.map(i8::cast_unsigned));
    1.0 - dot(a, b) as f32 * (factor(factor_a) * factor(factor_b))
}

fn dot_f16_plain(a: &[f16], b: &[f16]) -> f32 {
    let mut sums = [0.0_f32; LANES];
    for (a, b) in a.chunks(LANES).zip(b.chunks(LANES)) {
        for ((sum, &a), &b) in sums.iter_mut().zip(a).zip(b) {
            *sum += widen(a) * widen(b);
        }
    }
    add_lanes(sums)
}

fn dot_i8_plain(a: &[i8], b: &[i8]) -> i32 {
    a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum()
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("f16c")
        && std::arch::is_x86_feature_detected!("fma")
}

/// The loops for AVX2, F16C and FMA.
#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m128i, __m256, __m256i, _MM_HINT_T0, _mm_add_epi32, _mm_add_ps, _mm_add_ss, _mm_cvtsi128_si32,
        _mm_cvtss_f32, _mm_loadu_si128, _mm_movehl_ps, _mm_prefetch, _mm_shuffle_epi32, _mm_shuffle_ps,
        _mm256_abs_epi8, _mm256_add_epi32, _mm256_add_ps, _mm256_castps256_ps128, _mm256_castsi256_si128,
        _mm256_cvtph_ps, _mm256_extractf128_ps, _mm256_extracti128_si256, _mm256_fmadd_ps, _mm256_loadu_ps,
        _mm256_loadu_si256, _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_set1_epi16, _mm256_setzero_ps,
        _mm256_setzero_si256, _mm256_sign_epi8,
    };

    use half::f16;

    use super::{BYTES, LANES, QUERIES_AT_ONCE, ROWS_AT_ONCE, ROWS_OF_ONE};

    /// Sixteen sums in two registers.
    type Sums = [__m256; 2];

    #[target_feature(enable = "avx2,f16c,fma")]
    pub(super) fn row_products(rows: &[f16], dim: usize, queries: &[f32], out: &mut [f32]) {
        let padded = dim.next_multiple_of(LANES);
        let m = queries.len() / padded;
        // A few queries stay in the first-level cache while all rows pass by.
        let mut first = 0;
        while first < m {
            let count = if m - first >= QUERIES_AT_ONCE {
                QUERIES_AT_ONCE
            } else {
                1
            };
            let queries = &queries[first * padded..(first + count) * padded];
            let at_once = if count == 1 { ROWS_OF_ONE } else { ROWS_AT_ONCE };
            for (rows, out) in rows.chunks(at_once * dim).zip(out.chunks_mut(at_once * m)) {
                let mut block = Block {
                    rows,
                    dim,
                    queries,
                    out,
                    first,
                    m,
                };
                match (rows.len() / dim, count) {
                    (ROWS_AT_ONCE, QUERIES_AT_ONCE) => block.products::<ROWS_AT_ONCE, QUERIES_AT_ONCE>(),
                    (_, QUERIES_AT_ONCE) => block.products::<1, QUERIES_AT_ONCE>(),
                    (ROWS_OF_ONE, _) => block.products::<ROWS_OF_ONE, 1>(),
                    (3, _) => block.products::<3, 1>(),
                    (2, _) => block.products::<2, 1>(),
                    _ => block.products::<1, 1>(),
                }
            }
            first += count;
        }
    }

    /// A few rows and a few queries.
    struct Block<'a> {
        rows: &'a [f16],
        dim: usize,
        queries: &'a [f32],
        /// `[rows, m]`: the products of all queries.
        out: &'a mut [f32],
        /// Where these queries begin among all.
        first: usize,
        m: usize,
    }

    impl Block<'_> {
        #[inline]
        #[target_feature(enable = "avx2,f16c,fma")]
        fn products<const R: usize, const Q: usize>(&mut self) {
            let (dim, padded) = (self.dim, self.dim.next_multiple_of(LANES));
            let rows: [&[f16]; R] = std::array::from_fn(|r| &self.rows[r * dim..(r + 1) * dim]);
            let queries: [&[f32]; Q] = std::array::from_fn(|q| &self.queries[q * padded..(q + 1) * padded]);
            let mut sums = [[[_mm256_setzero_ps(); 2]; Q]; R];
            let whole = dim / LANES;
            for nth in 0..whole {
                let at = nth * LANES;
                // SAFETY: `at + LANES` is at most `dim`, the length of each row, and so of each query.
                let numbers: [Sums; R] =
                    std::array::from_fn(|r| unsafe { widened(rows[r].as_ptr().add(at)) });
                // SAFETY: as above.
                let factors: [Sums; Q] =
                    std::array::from_fn(|q| unsafe { loaded(queries[q].as_ptr().add(at)) });
                step(&mut sums, &numbers, &factors);
            }
            if whole * LANES < dim {
                let numbers: [Sums; R] = std::array::from_fn(|r| {
                    let mut end = [f16::ZERO; LANES];
                    end[..dim - whole * LANES].copy_from_slice(&rows[r][whole * LANES..]);
                    // SAFETY: the end has LANES numbers.
                    unsafe { widened(end.as_ptr()) }
                });
                // SAFETY: queries are filled up to a multiple of LANES.
                let factors: [Sums; Q] =
                    std::array::from_fn(|q| unsafe { loaded(queries[q].as_ptr().add(whole * LANES)) });
                step(&mut sums, &numbers, &factors);
            }
            for (r, sums) in sums.into_iter().enumerate() {
                for (q, sums) in sums.into_iter().enumerate() {
                    self.out[r * self.m + self.first + q] = add_lanes(sums);
                }
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c,fma")]
    fn step<const R: usize, const Q: usize>(
        sums: &mut [[Sums; Q]; R],
        numbers: &[Sums; R],
        factors: &[Sums; Q],
    ) {
        for (sums, numbers) in sums.iter_mut().zip(numbers) {
            for (sums, factors) in sums.iter_mut().zip(factors) {
                sums[0] = _mm256_fmadd_ps(numbers[0], factors[0], sums[0]);
                sums[1] = _mm256_fmadd_ps(numbers[1], factors[1], sums[1]);
            }
        }
    }

    /// Sixteen numbers of 16 bits, in 32.
    ///
    /// # Safety
    ///
    /// `at` points to sixteen numbers.
    #[inline]
    #[target_feature(enable = "avx2,f16c,fma")]
    unsafe fn widened(at: *const f16) -> Sums {
        // SAFETY: the caller's; an unaligned load needs no alignment.
        unsafe {
            [
                _mm256_cvtph_ps(_mm_loadu_si128(at.cast())),
                _mm256_cvtph_ps(_mm_loadu_si128(at.add(8).cast())),
            ]
        }
    }

    /// Sixteen numbers.
    ///
    /// # Safety
    ///
    /// `at` points to sixteen numbers.
    #[inline]
    #[target_feature(enable = "avx2,f16c,fma")]
    unsafe fn loaded(at: *const f32) -> Sums {
        // SAFETY: the caller's.
        unsafe { [_mm256_loadu_ps(at), _mm256_loadu_ps(at.add(8))] }
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c,fma")]
    fn add_lanes(sums: Sums) -> f32 {
        let eight = _mm256_add_ps(sums[0], sums[1]);
        let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
    }

    /// The inner product of two vectors of the same length, a multiple of [`LANES`]; what is beyond is left out.
    #[inline]
    #[target_feature(enable = "avx2,f16c,fma")]
    pub(super) fn dot_f16(a: &[f16], b: &[f16]) -> f32 {
        fetch(b);
        let mut sums = [[_mm256_setzero_ps(); 2]; 2];
        let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
        for (nth, (a, b)) in a.zip(b).enumerate() {
            // SAFETY: both chunks have LANES numbers.
            let (a, b) = unsafe { (widened(a.as_ptr()), widened(b.as_ptr())) };
            let sums = &mut sums[nth % 2];
            sums[0] = _mm256_fmadd_ps(a[0], b[0], sums[0]);
            sums[1] = _mm256_fmadd_ps(a[1], b[1], sums[1]);
        }
        add_lanes([
            _mm256_add_ps(sums[0][0], sums[1][0]),
            _mm256_add_ps(sums[0][1], sums[1][1]),
        ])
    }

    /// The inner product of two vectors of the same length, a multiple of [`BYTES`]; what is beyond is left out. No
    /// number is -128.
    #[inline]
    #[target_feature(enable = "avx2,f16c,fma")]
    pub(super) fn dot_i8(a: &[i8], b: &[i8]) -> i32 {
        fetch(b);
        let ones = _mm256_set1_epi16(1);
        let mut sums = [_mm256_setzero_si256(); 2];
        for (nth, (a, b)) in a.chunks_exact(BYTES).zip(b.chunks_exact(BYTES)).enumerate() {
            // SAFETY: both chunks have BYTES bytes, and the loads need no alignment.
            let (a, b): (__m256i, __m256i) = unsafe {
                (
                    _mm256_loadu_si256(a.as_ptr().cast()),
                    _mm256_loadu_si256(b.as_ptr().cast()),
                )
            };
            // The instruction multiplies unsigned by signed numbers: |a| by b with the sign of a. Two products of at
            // most 127 * 127 fit into 16 bits.
            let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(a), _mm256_sign_epi8(b, a));
            sums[nth % 2] = _mm256_add_epi32(sums[nth % 2], _mm256_madd_epi16(pairs, ones));
        }
        let eight = _mm256_add_epi32(sums[0], sums[1]);
        let four: __m128i = _mm_add_epi32(
            _mm256_castsi256_si128(eight),
            _mm256_extracti128_si256::<1>(eight),
        );
        let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
        _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<0b00_00_00_01>(two)))
    }

    /// Asks for all of a vector at once: neighbours in a graph are anywhere in memory, and the processor would else
    /// begin to guess what comes next only after the first few lines have arrived.
    #[inline]
    #[target_feature(enable = "avx2,f16c,fma")]
    fn fetch<T>(vector: &[T]) {
        let start = vector.as_ptr().cast::<i8>();
        for offset in (0..size_of_val(vector)).step_by(64) {
            // SAFETY: `offset` is within the vector; and a prefetch reads nothing that a program could see.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.add(offset)) };
        }
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

    /// Numbers that differ in all bits, without a generator's state: between -1 and 1.
    fn scattered(len: usize, seed: u64) -> Vec<f32> {
        (0..len as u64)
            .map(|i| {
                let mixed =
                    (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed.wrapping_mul(0xd1b5_4a32_d192_ed03);
                let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                ((mixed >> 40) as f32 / (1_u64 << 23) as f32) - 1.0
            })
            .collect()
    }

    fn halves(numbers: &[f32]) -> Vec<f16> {
        numbers.iter().map(|&number| f16::from_f32(number)).collect()
    }

    const DIMS: [usize; 12] = [1, 2, 7, 15, 16, 17, 31, 32, 33, 100, 512, 1023];

    #[test]
    fn widening_is_exact_for_every_number() {
        for bits in 0..=u16::MAX {
            let number = f16::from_bits(bits);
            let (got, expected) = (widen(number), number.to_f32());
            assert!(
                got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan(),
                "{bits:04x} is {expected}, not {got}"
            );
        }
    }

    /// Against the formula in 64 bits. A sum of n products of numbers below 1 in 32 bits is within n / 2^24 times the
    /// sum of magnitudes.
    #[test]
    fn row_products_equal_the_formula() {
        for dim in DIMS {
            for (n, m) in [
                (0, 1),
                (1, 0),
                (1, 1),
                (3, 1),
                (4, 1),
                (5, 2),
                (6, 3),
                (7, 4),
                (9, 8),
                (2, 16),
            ] {
                let (rows, queries) = (halves(&scattered(n * dim, 1)), scattered(m * dim, 2));
                for plain in [false, true] {
                    let mut out = vec![f32::NAN; n * m];
                    let padded = pad_queries(&queries, dim);
                    if plain {
                        row_products_plain(&rows, dim, &padded, &mut out);
                    } else {
                        row_products(&rows, dim, &padded, &mut out);
                    }
                    for row in 0..n {
                        for query in 0..m {
                            let terms = (0..dim)
                                .map(|i| rows[row * dim + i].to_f64() * f64::from(queries[query * dim + i]));
                            let magnitude: f64 = terms.clone().map(f64::abs).sum();
                            let error = (f64::from(out[row * m + query]) - terms.sum::<f64>()).abs();
                            assert!(
                                error <= magnitude * (dim as f64 + 16.0) / 1.6e7,
                                "dim {dim}, {n} by {m}, row {row}, query {query}: off by {error}"
                            );
                        }
                    }
                }
            }
        }
    }

    /// A product has the same bits alone and in company.
    #[test]
    fn a_product_does_not_depend_on_its_company() {
        for dim in DIMS {
            let (n, m) = (11, 10);
            let (rows, queries) = (halves(&scattered(n * dim, 3)), scattered(m * dim, 4));
            let mut all = vec![0.0; n * m];
            row_products(&rows, dim, &pad_queries(&queries, dim), &mut all);
            for (row, products) in rows.chunks_exact(dim).zip(all.chunks_exact(m)) {
                for (query, &product) in queries.chunks_exact(dim).zip(products) {
                    let mut alone = [0.0];
                    row_products(row, dim, &pad_queries(query, dim), &mut alone);
                    assert_eq!(alone[0].to_bits(), product.to_bits());
                }
            }
        }
    }

    #[test]
    fn infinities_and_nan_show_in_the_product() {
        for special in [f16::INFINITY, f16::NEG_INFINITY, f16::NAN] {
            for at in [0, 20] {
                let mut row = halves(&scattered(21, 5));
                row[at] = special;
                for plain in [false, true] {
                    let mut out = [0.0];
                    let query = pad_queries(&scattered(21, 6), 21);
                    if plain {
                        row_products_plain(&row, 21, &query, &mut out);
                    } else {
                        row_products(&row, 21, &query, &mut out);
                    }
                    assert!(!out[0].is_finite());
                }
            }
        }
    }

    /// The extremes of 8 bits, with which 16 bits would overflow first, and numbers of both signs; sums are whole,
    /// hence exact.
    #[test]
    fn eight_bit_products_are_exact() {
        let patterns: [fn(usize) -> i8; 4] = [
            |_| 127,
            |_| -127,
            |i| if i % 2 == 0 { 127 } else { -127 },
            |i| ((i * 37 + i * i) % 255) as i8,
        ];
        for len in [32, 64, 1024, 4096] {
            for a in patterns {
                for b in patterns {
                    let clean = |pattern: fn(usize) -> i8| -> Vec<i8> {
                        (0..len).map(|i| pattern(i).max(-127)).collect()
                    };
                    let (a, b) = (clean(a), clean(b));
                    let expected: i64 = a.iter().zip(&b).map(|(&a, &b)| i64::from(a) * i64::from(b)).sum();
                    assert_eq!(i64::from(dot_i8_plain(&a, &b)), expected);
                    #[cfg(target_arch = "x86_64")]
                    if has_avx2() {
                        // SAFETY: detected above.
                        assert_eq!(i64::from(unsafe { avx2::dot_i8(&a, &b) }), expected);
                    }
                }
            }
        }
    }

    /// Packed vectors multiply to the cosine, within what their numbers are rounded by: half a step of the largest
    /// number for 8 bits, 2^-11 of each for 16.
    #[test]
    fn packed_vectors_give_the_cosine() {
        for dim in [1, 5, 31, 32, 33, 384, 1024] {
            let (a, b) = (scattered(dim, 7), scattered(dim, 8));
            let norm = |v: &[f32]| v.iter().map(|x| f64::from(x * x)).sum::<f64>().sqrt();
            let dot: f64 = a.iter().zip(&b).map(|(a, b)| f64::from(a * b)).sum();
            let cosine = dot / norm(&a) / norm(&b);

            let packed = (pack_i8(&a), pack_i8(&b));
            assert_eq!(packed.0.len(), packed_i8(dim));
            let distance = f64::from(distance_i8(&packed.0, &packed.1, dot_i8_plain));
            // Each side is turned by at most half a step in every number, sqrt(dim) / 254 of its largest number over
            // its length.
            let turn = |v: &[f32]| {
                let largest = f64::from(v.iter().fold(0.0_f32, |m, x| m.max(x.abs())));
                largest * (dim as f64).sqrt() / 254.0 / norm(v)
            };
            assert!(
                (1.0 - distance - cosine).abs() <= 2.0 * (turn(&a) + turn(&b)) + 1e-6,
                "{dim}"
            );
            assert!(distance_i8(&packed.0, &packed.0, dot_i8_plain).abs() <= 1e-6);

            let half = |v: &[f32]| -> Vec<f16> {
                let bits = pack_f16(v, (1.0 / norm(v)) as f32);
                bits.into_iter()
                    .map(|bits| f16::from_bits(bits.cast_unsigned()))
                    .collect()
            };
            let (a, b) = (half(&a), half(&b));
            assert_eq!(a.len(), packed_f16(dim));
            let plain = dot_f16_plain(&a, &b);
            assert!((f64::from(plain) - cosine).abs() <= 1.1e-3, "{dim}");
            #[cfg(target_arch = "x86_64")]
            if has_avx2() {
                // SAFETY: detected above.
                let fast = unsafe { avx2::dot_f16(&a, &b) };
                // Two orders of additions of numbers whose magnitudes add up to at most 1.
                assert!((plain - fast).abs() <= 2e-6, "{dim}");
            }
        }
    }
}
