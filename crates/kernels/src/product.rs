//! Matrix products C = A B + start, on all threads: in 32 bits, or in what a packed B and the processor agree on.
//!
//! A is cut into panels of a few rows and B into panels of as many columns as two vector registers hold; both are copied
//! ("packed") so that the innermost loop reads memory from front to back, whatever the order of the operands is. That loop keeps
//! a tile of C in registers (Goto and van de Geijn 2008, "Anatomy of high-performance matrix multiplication"). Sums over k
//! are cut into blocks of [`crate::blocks::DEPTH`], so that a panel of B stays in the first-level cache.
//!
//! ```text
//! for a strip of columns, one task each       B strip: packed by the task
//!   for a block of k
//!     for a block of rows                     A: packed beforehand by all threads, once
//!       for a panel of B, for a panel of A    tile of C
//! ```
//!
//! With bfloat16 two numbers, and with 8 bits four, make a word of 32 bits; panels are made of words of k. A is rounded while it
//! is packed, with 8 bits each row by a factor of its own.
//!
//! How the work is split does not change the order of any sum: the number of threads changes no bit. Processors with other
//! vector registers may round otherwise.

#![allow(unsafe_code)]

use std::cell::RefCell;

use rayon::prelude::*;

use crate::blocks::{Piece, pieces, room};
use crate::matrix::Matrix;
use crate::packed::{Columns, Packed};
use crate::raw::{Arithmetic, Output, Panels, Scales, Start, factor, pairs, quads, written};

/// Rows of A, times a block of k, that should stay in the second-level cache.
const ROWS: usize = 144;
/// Columns of a task, about.
const STRIP: usize = 192;
/// Multiply-adds below which a product is not worth a second thread.
const SPLIT_FROM: usize = 1 << 18;

/// The right operand of a product.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Right<'a> {
    Matrix(Matrix<'a>),
    Packed(&'a Packed),
}

impl Right<'_> {
    fn rows(&self) -> usize {
        match self {
            Self::Matrix(matrix) => matrix.rows(),
            Self::Packed(packed) => packed.rows(),
        }
    }

    fn columns(&self) -> usize {
        match self {
            Self::Matrix(matrix) => matrix.columns(),
            Self::Packed(packed) => packed.columns(),
        }
    }

    /// What is computed with.
    fn arithmetic(&self) -> Arithmetic {
        match self {
            Self::Matrix(_) => Arithmetic::f32(),
            Self::Packed(packed) => packed.arithmetic(),
        }
    }

    /// The panels of a strip of columns over a piece of k, with the help of a buffer.
    fn strip<'b>(
        &'b self,
        first: usize,
        count: usize,
        piece: &Piece,
        width: usize,
        buffer: &'b mut Vec<f32>,
    ) -> Columns<'b> {
        match self {
            Self::Matrix(matrix) => {
                let block = piece.block.clone();
                let packed = room(buffer, count.next_multiple_of(width) * block.len());
                matrix.pack_columns(first, count, block, width, packed);
                Columns {
                    panels: packed,
                    scales: None,
                }
            }
            Self::Packed(packed) => packed.strip(first, count, piece, buffer),
        }
    }
}

/// The left operand: what makes its words.
struct Left<'a> {
    matrix: Matrix<'a>,
    arithmetic: Arithmetic,
    /// Of 8-bit numbers, the factor of every row.
    factors: Vec<f32>,
}

impl<'a> Left<'a> {
    fn new(matrix: Matrix<'a>, arithmetic: Arithmetic) -> Self {
        let factors = if arithmetic.numbers_of_word() == 4 {
            (0..matrix.rows()).map(|row| factor(&matrix.row(row))).collect()
        } else {
            Vec::new()
        };
        Self {
            matrix,
            arithmetic,
            factors,
        }
    }

    /// Copies panels of some rows over a block of k: `[panel, word of k, row]`.
    fn pack(&self, first: usize, count: usize, block: &std::ops::Range<usize>, out: &mut [f32]) {
        let (width, _) = self.arithmetic.tile();
        match self.arithmetic.numbers_of_word() {
            1 => self.matrix.pack_rows(first, count, block.clone(), width, out),
            2 => {
                let words = |_, numbers: &[f32], out: &mut [f32]| pairs(numbers, out);
                self.matrix.pack_words(first, count, block, width, out, &words);
            }
            _ => {
                let words =
                    |row: usize, numbers: &[f32], out: &mut [f32]| quads(numbers, self.factors[row], out);
                self.matrix.pack_words(first, count, block, width, out, &words);
            }
        }
    }
}

/// A B + start, as a new matrix whose rows are next to each other. `Keep` counts as `Zero`.
///
/// # Panics
/// If the sizes do not fit together.
pub fn product(a: Matrix<'_>, b: Matrix<'_>, start: Start<'_>) -> Vec<f32> {
    new_product(a, Right::Matrix(b), start)
}

/// [`product`] with a right operand that was packed beforehand; with 32 bits a number the result is the same to the bit.
///
/// # Panics
/// If the sizes do not fit together.
pub fn product_packed(a: Matrix<'_>, b: &Packed, start: Start<'_>) -> Vec<f32> {
    new_product(a, Right::Packed(b), start)
}

/// [`product_packed`] on this thread alone: for callers that compute several items side by side.
///
/// # Panics
/// If the sizes do not fit together.
pub fn product_packed_here(a: Matrix<'_>, b: &Packed, start: Start<'_>) -> Vec<f32> {
    let start = match start {
        Start::Keep => Start::Zero,
        start => start,
    };
    // SAFETY: every tile of the output is written, first with `Zero` or `Row`.
    unsafe {
        written(a.rows(), b.columns(), |out| {
            on_this_thread(a, Right::Packed(b), start, out);
        })
    }
}

fn new_product(a: Matrix<'_>, b: Right<'_>, start: Start<'_>) -> Vec<f32> {
    let start = match start {
        Start::Keep => Start::Zero,
        start => start,
    };
    // SAFETY: every tile of the output is written, first with `Zero` or `Row`.
    unsafe { written(a.rows(), b.columns(), |out| run(a, b, start, out)) }
}

/// A B + start into a part of a matrix whose rows are `stride` apart.
///
/// # Panics
/// If the sizes do not fit together.
pub fn product_into(a: Matrix<'_>, b: Matrix<'_>, start: Start<'_>, out: &mut [f32], stride: usize) {
    let out = Output::new(out, a.rows(), b.columns(), stride);
    run(a, Right::Matrix(b), start, &out);
}

thread_local! {
    static PACKED: RefCell<(Vec<f32>, Vec<f32>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

fn check(a: Matrix<'_>, b: &Right<'_>, start: Start<'_>, out: &Output<'_>) {
    assert_eq!(a.columns(), b.rows(), "columns of A and rows of B");
    assert_eq!(
        (out.rows(), out.columns()),
        (a.rows(), b.columns()),
        "the output's size"
    );
    if let Start::Row(row) = start {
        assert_eq!(row.len(), b.columns(), "the row's length");
    }
}

/// A B + start on the threads of the pool that this runs in.
fn run(a: Matrix<'_>, b: Right<'_>, start: Start<'_>, out: &Output<'_>) {
    let (rows, columns, depth) = (a.rows(), b.columns(), a.columns());
    let threads = rayon::current_num_threads();
    if threads == 1 || rows * columns * depth < SPLIT_FROM {
        return on_this_thread(a, b, start, out);
    }
    check(a, &b, start, out);
    let arithmetic = b.arithmetic();
    let (tile_rows, tile_columns) = arithmetic.tile();
    let panels = rows.div_ceil(tile_rows);
    // Enough tasks that a thread that is held up does not hold up the others.
    let strip = STRIP
        .min(columns.div_ceil(2 * threads))
        .next_multiple_of(tile_columns);
    let strips = columns.div_ceil(strip);
    let cuts = (2 * threads).div_ceil(strips).min(panels);
    let panels_of_cut = panels.div_ceil(cuts);
    let pieces = pieces(depth, arithmetic.numbers_of_word());
    let left = Left::new(a, arithmetic);
    // [piece of k, panel, word of k, row]
    let mut kept = PACKED.with_borrow_mut(|(_, kept)| std::mem::take(kept));
    let words = pieces.last().map_or(0, |piece| piece.words.end);
    let packed = room(&mut kept, panels * tile_rows * words);
    let of_piece =
        |piece: &Piece| piece.words.start * panels * tile_rows..piece.words.end * panels * tile_rows;
    for piece in &pieces {
        let each = 16 * tile_rows;
        packed[of_piece(piece)]
            .par_chunks_mut((each * piece.words.len()).max(1))
            .enumerate()
            .for_each(|(nth, out)| {
                let count = rows.saturating_sub(nth * each).min(each);
                left.pack(nth * each, count, &piece.block, out);
            });
    }
    (0..strips * cuts).into_par_iter().for_each(|task| {
        let (strip_nth, cut) = (task / cuts, task % cuts);
        let first = strip_nth * strip;
        let count = strip.min(columns - first);
        let own = cut * panels_of_cut..panels.min((cut + 1) * panels_of_cut);
        PACKED.with_borrow_mut(|(buffer, _)| {
            for piece in &pieces {
                let b = b.strip(first, count, piece, tile_columns, buffer);
                let a = &packed[of_piece(piece)];
                tiles(&left, a, own.clone(), &b, first, count, piece, start, out);
            }
        });
    });
    PACKED.with_borrow_mut(|(_, buffer)| *buffer = kept);
}

/// A B + start on this thread.
pub(crate) fn serial(a: Matrix<'_>, b: Matrix<'_>, start: Start<'_>, out: &Output<'_>) {
    on_this_thread(a, Right::Matrix(b), start, out);
}

fn on_this_thread(a: Matrix<'_>, b: Right<'_>, start: Start<'_>, out: &Output<'_>) {
    check(a, &b, start, out);
    let (rows, columns) = (a.rows(), b.columns());
    let arithmetic = b.arithmetic();
    let (tile_rows, tile_columns) = arithmetic.tile();
    let left = Left::new(a, arithmetic);
    PACKED.with_borrow_mut(|(b_buffer, a_buffer)| {
        for piece in pieces(a.columns(), arithmetic.numbers_of_word()) {
            let a_packed = room(a_buffer, rows.next_multiple_of(tile_rows) * piece.words.len());
            left.pack(0, rows, &piece.block, a_packed);
            for first in (0..columns).step_by(STRIP) {
                let count = STRIP.min(columns - first);
                let b = b.strip(first, count, &piece, tile_columns, b_buffer);
                let panels = 0..rows.div_ceil(tile_rows);
                tiles(&left, a_packed, panels, &b, first, count, &piece, start, out);
            }
        }
    });
}

/// All tiles of some panels of A and a strip of B, over a piece of k.
#[allow(clippy::too_many_arguments)] // one place of call each in the two functions above
fn tiles(
    left: &Left<'_>,
    a: &[f32],
    panels: std::ops::Range<usize>,
    b: &Columns<'_>,
    first: usize,
    count: usize,
    piece: &Piece,
    start: Start<'_>,
    out: &Output<'_>,
) {
    let (tile_rows, tile_columns) = left.arithmetic.tile();
    let depth = piece.words.len();
    let begin = if piece.block.start > 0 { Start::Keep } else { start };
    let group = (ROWS / tile_rows).max(1);
    for panels in panels
        .clone()
        .step_by(group)
        .map(|from| from..panels.end.min(from + group))
    {
        for strip_nth in 0..count.div_ceil(tile_columns) {
            let own = strip_nth * tile_columns..(strip_nth + 1) * tile_columns;
            for panel in panels.clone() {
                let row = panel * tile_rows;
                let operands = Panels {
                    a: &a[row * depth..][..tile_rows * depth],
                    b: &b.panels[own.start * depth..own.end * depth],
                    scales: b.scales.map(|(columns, begin)| Scales {
                        rows: &left.factors[row..],
                        columns: &columns[own.clone()],
                        begin: &begin[own.clone()],
                    }),
                };
                // SAFETY: a task has its strip and its panels alone, and the piece before this one has written the tile.
                unsafe {
                    left.arithmetic
                        .multiply(operands, begin, out, row, first + own.start);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::Isa;
    use proptest::prelude::*;

    /// Numbers from -1 to 1 that look random.
    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count)
            .map(|nth| ((nth * 7919 + seed * 104_729) % 2003) as f32 / 1001.0 - 1.0)
            .collect()
    }

    fn at(matrix: &Matrix<'_>, row: usize, column: usize) -> f64 {
        f64::from(matrix.numbers[row * matrix.row + column * matrix.column])
    }

    /// One number at a time in 64 bits, with the sum of the sizes of its terms; `before` is what the output held.
    fn exact(
        a: &Matrix<'_>,
        b: &Matrix<'_>,
        start: Start<'_>,
        before: impl Fn(usize, usize) -> f32,
    ) -> Vec<(f64, f64)> {
        let mut out = Vec::new();
        for row in 0..a.rows() {
            for column in 0..b.columns() {
                let begin = match start {
                    Start::Zero => 0.0,
                    Start::Row(numbers) => numbers[column],
                    Start::Keep => before(row, column),
                };
                let terms = (0..a.columns()).map(|k| at(a, row, k) * at(b, k, column));
                let size: f64 = terms.clone().map(f64::abs).sum();
                out.push((f64::from(begin) + terms.sum::<f64>(), size + 1.0));
            }
        }
        out
    }

    /// A matrix of this size, in either order, with room between its lines.
    fn matrix(numbers: &[f32], rows: usize, columns: usize, room: usize, transposed: bool) -> Matrix<'_> {
        if transposed {
            Matrix::new(numbers, columns, rows, rows + room).transposed()
        } else {
            Matrix::new(numbers, rows, columns, columns + room)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn products_equal_the_sums_of_the_definition(
            rows in 0_usize..40, columns in 0_usize..70, depth in 0_usize..60, long in any::<bool>(), large in any::<bool>(),
            a_transposed in any::<bool>(), b_transposed in any::<bool>(), room in 0_usize..5, start in 0_usize..3, threads in 1_usize..4,
        ) {
            // More than one block of k, and more than one task, now and then.
            let depth = if long { depth + crate::blocks::DEPTH } else { depth };
            let (rows, columns) = if large { (rows + 160, columns + 200) } else { (rows, columns) };
            let a = numbers((rows + room) * (depth + room) + depth, 1);
            let b = numbers((depth + room) * (columns + room) + columns, 2);
            let a = matrix(&a, rows, depth, room, a_transposed);
            let b = matrix(&b, depth, columns, room, b_transposed);
            let row = numbers(columns, 3);
            let start = [Start::Zero, Start::Row(&row), Start::Keep][start];
            let stride = columns + room;
            let before = numbers(rows * stride + columns, 4);
            let mut out = before.clone();
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| product_into(a, b, start, &mut out, stride));
            let exact = exact(&a, &b, start, |row, column| before[row * stride + column]);
            for row in 0..rows {
                for column in 0..columns {
                    let ours = f64::from(out[row * stride + column]);
                    let (exact, size) = exact[row * columns + column];
                    // A rounding of 2⁻²⁴ for each of the terms.
                    let allowed = 6e-8 * (depth as f64 + 2.0) * size;
                    prop_assert!((ours - exact).abs() <= allowed, "{row} {column}: {ours} {exact}");
                }
                let between = &out[(row * stride + columns).min(out.len())..((row + 1) * stride).min(out.len())];
                prop_assert_eq!(between, &before[(row * stride + columns).min(out.len())..((row + 1) * stride).min(out.len())]);
            }
            if !matches!(start, Start::Keep) {
                let new = pool.install(|| product(a, b, start));
                for row in 0..rows {
                    prop_assert_eq!(&new[row * columns..(row + 1) * columns], &out[row * stride..row * stride + columns]);
                }
            }
        }
    }

    #[test]
    fn the_number_of_threads_changes_no_bit() {
        let (rows, depth, columns) = (301, 800, 533);
        let (a, b) = (numbers(rows * depth, 1), numbers(depth * columns, 2));
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            pool.install(|| {
                product(
                    Matrix::new(&a, rows, depth, depth),
                    Matrix::new(&b, depth, columns, columns),
                    Start::Zero,
                )
            })
        };
        let alone = on(1);
        assert!(on(2) == alone && on(7) == alone);
    }

    /// Every vector unit that this processor has, tile by tile: other tests see the best one only.
    #[test]
    fn tiles_of_all_vector_units_are_right() {
        for isa in Isa::all() {
            let arithmetic = Arithmetic::F32(isa);
            let (tile_rows, tile_columns) = arithmetic.tile();
            let depth = 37;
            let (a, b) = (numbers(depth * tile_rows, 1), numbers(depth * tile_columns, 2));
            for rows in 1..=tile_rows {
                for columns in [1, tile_columns / 2 + 1, tile_columns] {
                    let row = numbers(columns, 3);
                    for start in [Start::Zero, Start::Row(&row), Start::Keep] {
                        let mut out = numbers(rows * (columns + 3), 4);
                        let before = out.clone();
                        let output = Output::new(&mut out, rows, columns, columns + 3);
                        // SAFETY: there is no other thread.
                        let panels = Panels {
                            a: &a,
                            b: &b,
                            scales: None,
                        };
                        unsafe { arithmetic.multiply(panels, start, &output, 0, 0) };
                        for nth in 0..rows * (columns + 3) {
                            let (row_nth, column) = (nth / (columns + 3), nth % (columns + 3));
                            let begin = match start {
                                _ if column >= columns => before[nth],
                                Start::Zero => 0.0,
                                Start::Row(row) => row[column],
                                Start::Keep => before[nth],
                            };
                            let sum: f32 = (0..if column < columns { depth } else { 0 })
                                .map(|k| a[k * tile_rows + row_nth] * b[k * tile_columns + column])
                                .sum();
                            assert!(
                                (out[nth] - begin - sum).abs() < 1e-4,
                                "{isa:?} {rows} {columns} {nth}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "columns of A and rows of B")]
    fn sizes_that_do_not_fit_are_refused() {
        let numbers = [0.0; 12];
        product(
            Matrix::new(&numbers, 3, 4, 4),
            Matrix::new(&numbers, 3, 4, 4),
            Start::Zero,
        );
    }

    #[test]
    #[should_panic(expected = "needs 12 numbers")]
    fn a_slice_that_is_too_short_is_refused() {
        let _ = Matrix::new(&[0.0; 11], 3, 4, 4);
    }
}
