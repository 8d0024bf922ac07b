//! Exact search over rows of 16-bit numbers: every row is multiplied by the query.
//!
//! In come rows `[n, dim]`, row-major, as a store keeps them, and one query or several of 32-bit numbers; out come
//! the rows with the largest inner products, best first: score descending, then row ascending. On unit vectors the
//! scores are cosines. Refused are shapes that do not fit, queries with a number that is not finite, and such a
//! number in any row that is looked at.
//!
//! A product has the same bits in [`dot`], [`nearest`] and [`nearest_many`] and on any number of threads, so that all
//! of them agree on the order. Reading the rows takes longer than multiplying them, and 16 bits are half of what 32
//! would have to be read; several queries at once share the reading.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use half::f16;
use hark_work::workers::lock;

use crate::kernels::{LANES, pad_queries, row_products};
use crate::{Error, Vectors};

/// Bytes of rows that a thread takes at a time: they stay in its second-level cache while several queries pass.
const BLOCK_BYTES: usize = 1 << 17;
/// Numbers below which another thread costs more than it brings: 4,096 rows of 1,024, a quarter of a millisecond of
/// work.
const NUMBERS_PER_THREAD: usize = 1 << 22;

/// The inner product of a row and a query of the same length; of different lengths, that of the shorter.
///
/// ```
/// let row = [half::f16::from_f32(0.5), half::f16::from_f32(-2.0)];
/// assert_eq!(hark_nearest::scan::dot(&row, &[4.0, 1.0]), 0.0);
/// ```
pub fn dot(row: &[f16], query: &[f32]) -> f32 {
    let dim = row.len().min(query.len());
    if dim == 0 {
        return 0.0;
    }
    let mut out = [0.0];
    if dim.is_multiple_of(LANES) {
        row_products(&row[..dim], dim, &query[..dim], &mut out);
    } else {
        row_products(&row[..dim], dim, &pad_queries(&query[..dim], dim), &mut out);
    }
    out[0]
}

/// The `k` rows with the largest inner product with `query`, best first, on at most `threads` threads. `allow` says
/// of a row whether it may be among them; rows that may not are not multiplied.
///
/// ```
/// use half::f16;
/// use hark_nearest::scan;
///
/// let rows = [1.0, 0.0, 0.8, 0.6, 0.0, 1.0].map(f16::from_f32);
/// let found = scan::nearest(&rows, 2, &[0.0, 1.0], 2, 1, None)?;
/// assert_eq!(found.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [2, 1]);
/// let found = scan::nearest(&rows, 2, &[0.0, 1.0], 2, 1, Some(&|row| row < 2))?;
/// assert_eq!(found.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [1, 0]);
/// # Ok::<(), hark_nearest::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::ZeroDimension`], [`Error::RaggedRows`], [`Error::DimensionMismatch`], [`Error::ZeroK`];
/// [`Error::QueryNotFinite`] and [`Error::NotFinite`], which names the first such row that was met.
pub fn nearest(
    rows: &[f16],
    dim: usize,
    query: &[f32],
    k: usize,
    threads: usize,
    allow: Option<&(dyn Fn(usize) -> bool + Sync)>,
) -> Result<Vec<(usize, f32)>, Error> {
    if query.len() != dim && dim > 0 {
        return Err(Error::DimensionMismatch {
            expected: dim,
            got: query.len(),
        });
    }
    if let Some(position) = query.iter().position(|value| !value.is_finite()) {
        return Err(Error::QueryNotFinite {
            position,
            value: query[position],
        });
    }
    let mut found = nearest_many(rows, dim, Vectors::new(query, dim)?, k, threads, allow)?;
    Ok(found.pop().unwrap_or_default())
}

/// As [`nearest`] for several queries, which share the reading of the rows: a list for each query, equal to that of
/// [`nearest`].
///
/// # Errors
///
/// Those of [`nearest`].
pub fn nearest_many(
    rows: &[f16],
    dim: usize,
    queries: Vectors<'_>,
    k: usize,
    threads: usize,
    allow: Option<&(dyn Fn(usize) -> bool + Sync)>,
) -> Result<Vec<Vec<(usize, f32)>>, Error> {
    if dim == 0 {
        return Err(Error::ZeroDimension);
    }
    if !rows.len().is_multiple_of(dim) {
        return Err(Error::RaggedRows { len: rows.len(), dim });
    }
    if queries.dim() != dim {
        return Err(Error::DimensionMismatch {
            expected: dim,
            got: queries.dim(),
        });
    }
    if k == 0 {
        return Err(Error::ZeroK);
    }
    let pass = Pass {
        rows,
        dim,
        queries: pad_queries(queries.as_slice(), dim),
        count: queries.rows(),
        k: k.min(rows.len() / dim).max(1),
        block_rows: (BLOCK_BYTES / 2 / dim).max(1),
        allow,
        next: AtomicUsize::new(0),
        found: Mutex::new(vec![Best::default(); queries.rows()]),
        fault: Mutex::new(None),
    };
    let useful = 1 + rows.len().saturating_mul(queries.rows()) / NUMBERS_PER_THREAD;
    std::thread::scope(|scope| {
        for _ in 1..threads.min(useful) {
            // Where the system gives no more threads, those that run do the work.
            let _ = std::thread::Builder::new().spawn_scoped(scope, || pass.run());
        }
        pass.run();
    });
    if let Some(fault) = pass.fault.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(fault);
    }
    let found = pass.found.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(found.into_iter().map(|best| best.sorted(pass.k)).collect())
}

/// One pass over all rows, which any number of threads take part in.
struct Pass<'a> {
    rows: &'a [f16],
    dim: usize,
    queries: Vec<f32>,
    count: usize,
    k: usize,
    block_rows: usize,
    allow: Option<&'a (dyn Fn(usize) -> bool + Sync)>,
    /// The first row that no thread has taken.
    next: AtomicUsize,
    found: Mutex<Vec<Best>>,
    fault: Mutex<Option<Error>>,
}

impl Pass<'_> {
    fn run(&self) {
        let n = self.rows.len() / self.dim;
        let mut best = vec![Best::default(); self.count];
        let mut products = Vec::new();
        loop {
            let start = self.next.fetch_add(self.block_rows, Ordering::Relaxed);
            if start >= n {
                break;
            }
            let end = n.min(start + self.block_rows);
            if let Err(fault) = self.block(start, end, &mut products, &mut best) {
                self.next.store(n, Ordering::Relaxed);
                lock(&self.fault).get_or_insert(fault);
                return;
            }
        }
        let mut found = lock(&self.found);
        for (all, best) in found.iter_mut().zip(best) {
            for (score, row) in best.candidates {
                all.offer(score, row, self.k);
            }
        }
    }

    /// The rows of a block that may be found, in runs without a gap.
    fn block(
        &self,
        start: usize,
        end: usize,
        products: &mut Vec<f32>,
        best: &mut [Best],
    ) -> Result<(), Error> {
        let Some(allow) = self.allow else {
            return self.multiply(start, end, products, best);
        };
        let mut row = start;
        while row < end {
            if !allow(row) {
                row += 1;
                continue;
            }
            let first = row;
            row += 1;
            let mut stop = row;
            while row < end {
                row += 1;
                if !allow(row - 1) {
                    break;
                }
                stop = row;
            }
            self.multiply(first, stop, products, best)?;
        }
        Ok(())
    }

    fn multiply(
        &self,
        start: usize,
        end: usize,
        products: &mut Vec<f32>,
        best: &mut [Best],
    ) -> Result<(), Error> {
        products.resize((end - start) * self.count, 0.0);
        let rows = &self.rows[start * self.dim..end * self.dim];
        row_products(rows, self.dim, &self.queries, products);
        for (row, scores) in (start..end).zip(products.chunks_exact(self.count.max(1))) {
            for (best, &score) in best.iter_mut().zip(scores) {
                // Queries are finite, and no sum of finite products reaches infinity.
                if !score.is_finite() {
                    return Err(self.not_finite(row));
                }
                best.offer(score, row, self.k);
            }
        }
        Ok(())
    }

    fn not_finite(&self, row: usize) -> Error {
        let numbers = &self.rows[row * self.dim..(row + 1) * self.dim];
        let column = numbers.iter().position(|number| !number.is_finite()).unwrap_or(0);
        Error::NotFinite {
            row,
            column,
            value: numbers[column].to_f32(),
        }
    }
}

/// The best candidates so far: up to twice as many as are wanted, then cut.
#[derive(Debug, Clone)]
struct Best {
    candidates: Vec<(f32, usize)>,
    /// What a candidate must reach to be among the best.
    floor: f32,
}

impl Default for Best {
    fn default() -> Self {
        Self {
            candidates: Vec::new(),
            floor: f32::NEG_INFINITY,
        }
    }
}

/// Score descending, then row ascending. Zeros of either sign are one score.
fn order(a: &(f32, usize), b: &(f32, usize)) -> std::cmp::Ordering {
    b.0.partial_cmp(&a.0)
        .unwrap_or(std::cmp::Ordering::Equal)
        .then(a.1.cmp(&b.1))
}

impl Best {
    #[inline]
    fn offer(&mut self, score: f32, row: usize, k: usize) {
        if score < self.floor {
            return;
        }
        self.candidates.push((score, row));
        if self.candidates.len() >= k.saturating_mul(2).max(k + 16) {
            self.cut(k);
        }
    }

    fn cut(&mut self, k: usize) {
        if self.candidates.len() > k {
            let (_, last, _) = self.candidates.select_nth_unstable_by(k - 1, order);
            self.floor = last.0;
            self.candidates.truncate(k);
        }
    }

    fn sorted(mut self, k: usize) -> Vec<(usize, f32)> {
        self.cut(k);
        self.candidates.sort_unstable_by(order);
        self.candidates
            .into_iter()
            .map(|(score, row)| (row, score))
            .collect()
    }
}

#[cfg(test)]
mod tests;
