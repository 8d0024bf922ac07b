//! A matrix that many products have on their right, in the order in which they read it, in 32, 16 or 8 bits a number.
//!
//! The numbers of 16 bits are bfloat16, rounded to the nearest; those of 8 bits are whole numbers from -127 to 127, each
//! column with a factor of its own. Where the processor multiplies such numbers (AVX-512 BF16, AVX-512 VNNI), products round
//! the left operand in the same way and use its instructions. Elsewhere they widen a strip of columns at a time to 32 bits, in
//! the cache, and compute in 32 bits: what is saved is memory.

use rayon::prelude::*;

use crate::blocks::{Piece, pieces, room};
use crate::matrix::Matrix;
use crate::raw::{Arithmetic, Isa, rounded};

/// Bits of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// 32 bits, as they are.
    #[default]
    F32,
    /// bfloat16.
    Bf16,
    /// 8 bits, with a factor for each column.
    Int8,
}

impl Precision {
    /// All of them, by their names.
    pub const ALL: [(&'static str, Self); 3] =
        [("f32", Self::F32), ("bf16", Self::Bf16), ("int8", Self::Int8)];

    /// Numbers in 32 bits.
    fn numbers_of_word(self) -> usize {
        match self {
            Self::F32 => 1,
            Self::Bf16 => 2,
            Self::Int8 => 4,
        }
    }
}

impl std::str::FromStr for Precision {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|(known, _)| *known == name);
        found
            .map(|(_, precision)| precision)
            .ok_or_else(|| "expected f32, bf16 or int8".to_owned())
    }
}

/// `[piece of rows, panel, word of rows, column]`, the last panel filled up with zeros.
#[derive(Debug, Clone)]
enum Numbers {
    /// A word is a number.
    F32(Vec<f32>),
    /// A word is two numbers.
    Bf16(Vec<f32>),
    /// A word is four numbers.
    Int8 {
        words: Vec<f32>,
        /// Of every column, those that fill up the last panel included.
        factors: Vec<f32>,
        /// -128 times the sum of a column's numbers, `[piece of rows, column]`.
        begin: Vec<i32>,
    },
}

/// A packed matrix.
#[derive(Debug, Clone)]
pub struct Packed {
    rows: usize,
    columns: usize,
    /// Columns of a panel.
    width: usize,
    numbers: Numbers,
}

/// Columns from which numbers of 16 and 8 bits are multiplied as they are.
const NARROW_FROM: usize = 512;

/// A strip of columns over a piece of the rows.
#[derive(Debug)]
pub(crate) struct Columns<'a> {
    /// `[panel, word of rows, column]`.
    pub(crate) panels: &'a [f32],
    /// Of numbers of 8 bits: the columns' factors, and what their sums begin with.
    pub(crate) scales: Option<(&'a [f32], &'a [i32])>,
}

impl Packed {
    /// Packs a matrix for the vector unit of this processor.
    pub fn new(matrix: Matrix<'_>, precision: Precision) -> Self {
        let (rows, columns) = (matrix.rows(), matrix.columns());
        let (_, width) = Isa::here().tile();
        let padded = columns.next_multiple_of(width);
        let each = precision.numbers_of_word();
        let pieces = pieces(rows, each);
        let mut factors = Vec::new();
        let mut begin = Vec::new();
        if precision == Precision::Int8 {
            factors = matrix
                .largest_of_columns()
                .iter()
                .map(|most| most / 127.0)
                .collect();
            factors.resize(padded, 0.0);
            begin = vec![0; pieces.len() * padded];
        }
        let mut words = vec![0.0; pieces.last().map_or(0, |piece| piece.words.end) * padded];
        for (nth_piece, piece) in pieces.iter().enumerate() {
            let place = &mut words[piece.words.start * padded..piece.words.end * padded];
            let panels = place
                .par_chunks_mut((width * piece.words.len()).max(1))
                .enumerate();
            let pack = |nth: usize, out: &mut [f32]| {
                let count = width.min(columns - nth * width);
                matrix.pack_columns(nth * width, count, piece.block.clone(), width, out);
            };
            match precision {
                Precision::F32 => panels.for_each(|(nth, out)| pack(nth, out)),
                Precision::Bf16 => panels.for_each(|(nth, out)| {
                    let mut wide = vec![0.0; width * piece.block.len()];
                    pack(nth, &mut wide);
                    join(&wide, width, each, out, |x, _| u32::from(rounded(x)));
                }),
                Precision::Int8 => {
                    let begin = begin[nth_piece * padded..][..padded].par_chunks_mut(width);
                    panels.zip(begin).for_each(|((nth, out), begin)| {
                        let mut wide = vec![0.0; width * piece.block.len()];
                        pack(nth, &mut wide);
                        let factors = &factors[nth * width..][..width];
                        join(&wide, width, each, out, |x, column| {
                            let number = byte(x, factors[column]);
                            begin[column] -= 128 * i32::from(number);
                            u32::from(number as u8)
                        });
                    });
                }
            }
        }
        let numbers = match precision {
            Precision::F32 => Numbers::F32(words),
            Precision::Bf16 => Numbers::Bf16(words),
            Precision::Int8 => Numbers::Int8 {
                words,
                factors,
                begin,
            },
        };
        Self {
            rows,
            columns,
            width,
            numbers,
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Bytes of the numbers.
    pub fn bytes(&self) -> usize {
        match &self.numbers {
            Numbers::F32(words) | Numbers::Bf16(words) => 4 * words.len(),
            Numbers::Int8 {
                words,
                factors,
                begin,
            } => 4 * (words.len() + factors.len() + begin.len()),
        }
    }

    /// What this processor multiplies the numbers with: as they are, if it has instructions for it, else in 32 bits. To round a row
    /// of the left operand takes the time of some tens of columns: with few of them 32 bits are faster.
    pub(crate) fn arithmetic(&self) -> Arithmetic {
        let own = match &self.numbers {
            _ if self.columns < NARROW_FROM => None,
            Numbers::F32(_) => None,
            Numbers::Bf16(_) => Arithmetic::bf16(),
            Numbers::Int8 { .. } => Arithmetic::int8(),
        };
        own.unwrap_or_else(Arithmetic::f32)
    }

    /// The panels of a strip of columns, which begins with a panel, over a piece of the rows, for [`Packed::arithmetic`].
    pub(crate) fn strip<'a>(
        &'a self,
        first: usize,
        count: usize,
        piece: &Piece,
        buffer: &'a mut Vec<f32>,
    ) -> Columns<'a> {
        self.strip_for(self.arithmetic(), first, count, piece, buffer)
    }

    fn strip_for<'a>(
        &'a self,
        arithmetic: Arithmetic,
        first: usize,
        count: usize,
        piece: &Piece,
        buffer: &'a mut Vec<f32>,
    ) -> Columns<'a> {
        let padded = self.columns.next_multiple_of(self.width);
        let count = count.next_multiple_of(self.width);
        let (words, each) = match &self.numbers {
            Numbers::F32(words) => (words, 1),
            Numbers::Bf16(words) => (words, 2),
            Numbers::Int8 { words, .. } => (words, 4),
        };
        let widened = each != arithmetic.numbers_of_word();
        // A piece of k in 32 bits is the same block of rows as one in words.
        let depth = piece.block.len().div_ceil(each);
        let before = if widened {
            pieces(self.rows, each)
                .into_iter()
                .find(|own| own.block == piece.block)
                .map_or(0, |own| own.words.start)
        } else {
            piece.words.start
        };
        let panels = &words[before * padded + first * depth..][..count * depth];
        match &self.numbers {
            Numbers::Int8 { factors, begin, .. } if !widened => {
                let nth = pieces(self.rows, each)
                    .iter()
                    .position(|own| own.words == piece.words)
                    .unwrap_or(0);
                Columns {
                    panels,
                    scales: Some((
                        &factors[first..][..count],
                        &begin[nth * padded + first..][..count],
                    )),
                }
            }
            _ if !widened => Columns { panels, scales: None },
            numbers => {
                let out = room(buffer, count * piece.block.len());
                let factors = match numbers {
                    Numbers::Int8 { factors, .. } => &factors[first..][..count],
                    _ => &[],
                };
                self.widen(panels, each, factors, piece.block.len(), out);
                Columns {
                    panels: out,
                    scales: None,
                }
            }
        }
    }

    /// Panels in 32 bits.
    fn widen(&self, panels: &[f32], each: usize, factors: &[f32], depth: usize, out: &mut [f32]) {
        let width = self.width;
        if depth == 0 {
            return;
        }
        let panels = panels.chunks_exact(depth.div_ceil(each) * width);
        for (nth, (panel, out)) in panels.zip(out.chunks_exact_mut(depth * width)).enumerate() {
            for (k, out) in out.chunks_exact_mut(width).enumerate() {
                let words = &panel[k / each * width..][..width];
                if each == 2 {
                    let shift = 16 * (k % 2) as u32;
                    for (out, word) in out.iter_mut().zip(words) {
                        *out = f32::from_bits(word.to_bits() >> shift << 16);
                    }
                } else {
                    let (shift, factors) = (8 * (k % 4) as u32, &factors[nth * width..][..width]);
                    for ((out, word), factor) in out.iter_mut().zip(words).zip(factors) {
                        *out = f32::from((word.to_bits() >> shift) as i8) * factor;
                    }
                }
            }
        }
    }
}

/// Words of `each` numbers that stand below each other: `number` is given a number and its column.
fn join(wide: &[f32], width: usize, each: usize, out: &mut [f32], mut number: impl FnMut(f32, usize) -> u32) {
    let bits = 32 / each as u32;
    for (rows, words) in wide.chunks(each * width).zip(out.chunks_exact_mut(width)) {
        for (column, word) in words.iter_mut().enumerate() {
            let mut joined = 0;
            for (nth, row) in rows.chunks_exact(width).enumerate() {
                joined |= number(row[column], column) << (bits * nth as u32);
            }
            *word = f32::from_bits(joined);
        }
    }
}

fn byte(x: f32, factor: f32) -> i8 {
    if factor > 0.0 {
        (x / factor).round() as i8
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::Start;
    use crate::{product, product_packed};

    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count)
            .map(|nth| ((nth * 7919 + seed * 104_729) % 2003) as f32 / 1001.0 - 1.0)
            .collect()
    }

    #[test]
    fn packed_products_equal_others() {
        for (rows, depth, columns) in [
            (1, 1, 1),
            (3, 17, 5),
            (20, 500, 70),
            (150, 800, 333),
            (4, 0, 3),
            (0, 4, 3),
        ] {
            let (a, b) = (numbers(rows * depth, 1), numbers(depth * columns, 2));
            let bias = numbers(columns, 3);
            let left = Matrix::new(&a, rows, depth, depth);
            let right = Matrix::new(&b, depth, columns, columns);
            let other: Vec<f32> = (0..columns * depth)
                .map(|nth| b[nth % depth * columns + nth / depth])
                .collect();
            let transposed = Matrix::new(&other, columns, depth, depth).transposed();
            let whole = product(left, right, Start::Row(&bias));
            for right in [right, transposed] {
                let packed = Packed::new(right, Precision::F32);
                assert!(product_packed(left, &packed, Start::Row(&bias)) == whole);
                // Each number of B is wrong by at most half of the last place that is kept, and none of A is above 1.
                for (precision, step) in [(Precision::Bf16, 1.0 / 256.0), (Precision::Int8, 1.0 / 254.0)] {
                    let packed = Packed::new(right, precision);
                    let ours = product_packed(left, &packed, Start::Row(&bias));
                    let mut wrong = 0.0_f32;
                    for (ours, exact) in ours.iter().zip(&whole) {
                        assert!(
                            (ours - exact).abs() <= 1.01 * step * depth as f32 + 1e-4,
                            "{ours} {exact}"
                        );
                        wrong = wrong.max((ours - exact).abs());
                    }
                    assert!(depth < 100 || rows == 0 || wrong > 0.0, "{precision:?} is exact");
                    assert!(
                        packed.bytes() < Packed::new(right, Precision::F32).bytes() || columns * depth < 16
                    );
                }
            }
        }
    }

    /// A strip for a processor without instructions for these numbers holds the numbers, and one with them the same numbers.
    #[test]
    fn words_hold_the_rounded_numbers() {
        let (rows, columns) = (crate::blocks::DEPTH + 19, 70);
        let b = numbers(rows * columns, 2);
        let matrix = Matrix::new(&b, rows, columns, columns);
        let packed = Packed::new(matrix, Precision::F32);
        let (_, width) = Isa::here().tile();
        for (precision, step) in [(Precision::Bf16, 1.0 / 256.0), (Precision::Int8, 1.0 / 254.0)] {
            let narrow = Packed::new(matrix, precision);
            for piece in pieces(rows, 1) {
                for first in [0, width] {
                    let count = columns - first;
                    let (mut exact, mut ours) = (Vec::new(), Vec::new());
                    let exact = packed.strip_for(Arithmetic::f32(), first, count, &piece, &mut exact);
                    let ours = narrow.strip_for(Arithmetic::f32(), first, count, &piece, &mut ours);
                    assert_eq!(exact.panels.len(), ours.panels.len());
                    let mut differs = false;
                    for (exact, ours) in exact.panels.iter().zip(ours.panels) {
                        assert!((exact - ours).abs() <= 1.001 * step, "{exact} {ours}");
                        differs |= exact.to_bits() != ours.to_bits();
                    }
                    assert!(differs, "{precision:?}");
                }
            }
        }
    }

    #[test]
    fn precisions_are_known_by_their_names() {
        for (name, precision) in Precision::ALL {
            assert_eq!(name.parse(), Ok(precision));
        }
        assert!("f16".parse::<Precision>().unwrap_err().contains("bf16"));
    }

    #[test]
    fn rounding_is_to_the_nearest_even() {
        for (x, nearest) in [
            (1.0, 1.0),
            (1.0 + 1.0 / 512.0, 1.0),
            (1.0 + 1.0 / 256.0, 1.0),
            (1.0 + 3.0 / 256.0, 1.0 + 1.0 / 64.0),
            (-3.0, -3.0),
            (f32::INFINITY, f32::INFINITY),
            (f32::MAX, f32::INFINITY),
        ] {
            assert_eq!(u32::from(rounded(x)) << 16, f32::to_bits(nearest), "{x}");
        }
        assert!(f32::from_bits(u32::from(rounded(f32::NAN)) << 16).is_nan());
    }

    /// With the processor's own instructions the left operand is rounded too; the sums are those of the rounded numbers.
    #[test]
    fn products_are_those_of_the_rounded_numbers() {
        let wide = |x: f32| f64::from(f32::from_bits(u32::from(rounded(x)) << 16));
        for (rows, depth, columns) in [
            (1, 3, 1),
            (5, 401, 33),
            (1, 3, 512),
            (5, 401, 530),
            (13, 1000, 640),
        ] {
            // Rows and columns of very different sizes.
            let a: Vec<f32> = numbers(rows * depth, 1)
                .iter()
                .enumerate()
                .map(|(nth, x)| x * 10_f32.powi((nth / depth % 5) as i32 - 2))
                .collect();
            let b: Vec<f32> = numbers(depth * columns, 2)
                .iter()
                .enumerate()
                .map(|(nth, x)| x * 10_f32.powi((nth % columns % 5) as i32 - 2))
                .collect();
            let bias = numbers(columns, 3);
            let (left, right) = (
                Matrix::new(&a, rows, depth, depth),
                Matrix::new(&b, depth, columns, columns),
            );
            for precision in [Precision::Bf16, Precision::Int8] {
                let packed = Packed::new(right, precision);
                let native = packed.arithmetic().numbers_of_word() > 1;
                let most = |numbers: &mut dyn Iterator<Item = f32>| {
                    numbers.fold(0.0, |most, x| x.abs().max(most)) / 127.0
                };
                let quantized = |x: f32, factor: f32| f64::from((x / factor).round()) * f64::from(factor);
                let ours = product_packed(left, &packed, Start::Row(&bias));
                for i in 0..rows {
                    let of_row = most(&mut a[i * depth..(i + 1) * depth].iter().copied());
                    for j in 0..columns {
                        let of_column = most(&mut (0..depth).map(|k| b[k * columns + j]));
                        let (mut exact, mut size) = (f64::from(bias[j]), 0.0);
                        for k in 0..depth {
                            let (x, y) = (a[i * depth + k], b[k * columns + j]);
                            let term = match precision {
                                Precision::Bf16 if native => wide(x) * wide(y),
                                Precision::Bf16 => f64::from(x) * wide(y),
                                _ if native => quantized(x, of_row) * quantized(y, of_column),
                                _ => f64::from(x) * quantized(y, of_column),
                            };
                            exact += term;
                            size += term.abs();
                        }
                        let ours = f64::from(ours[i * columns + j]);
                        // A rounding of 2⁻²⁴ for each of the terms; a number halfway between two may go either way.
                        let half = if precision == Precision::Int8 {
                            f64::from(of_row * of_column) * 254.0
                        } else {
                            0.0
                        };
                        let allowed = 6e-8 * (depth as f64 + 4.0) * (size + 1.0) + half;
                        assert!(
                            (ours - exact).abs() <= allowed,
                            "{precision:?} {i} {j}: {ours} {exact}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_not_finite_stays_so() {
        let b = numbers(40 * 520, 2);
        for bad in [f32::NAN, f32::INFINITY] {
            for precision in [Precision::F32, Precision::Bf16, Precision::Int8] {
                let mut a = numbers(2 * 40, 1);
                a[47] = bad;
                let packed = Packed::new(Matrix::new(&b, 40, 520, 520), precision);
                let out = product_packed(Matrix::new(&a, 2, 40, 40), &packed, Start::Zero);
                assert!(out[..520].iter().all(|x| x.is_finite()), "{precision:?}");
                assert!(out[520..].iter().all(|x| !x.is_finite()), "{precision:?} {bad}");
            }
        }
    }

    #[test]
    fn a_column_of_zeros_stays_one() {
        let numbers = [0.0, 1.0, 0.0, -2.0];
        let packed = Packed::new(Matrix::new(&numbers, 2, 2, 2), Precision::Int8);
        let out = product_packed(Matrix::new(&[1.0, 1.0], 1, 2, 2), &packed, Start::Zero);
        assert_eq!(out[0].to_bits(), 0);
        assert!((out[1] + 1.0).abs() < 0.02, "{}", out[1]);
    }
}
