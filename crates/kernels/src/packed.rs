//! A matrix that many products have on their right, in the order in which they read it, in 32, 16 or 8 bits a number.
//!
//! The numbers of 16 bits are bfloat16, rounded to the nearest; those of 8 bits are whole numbers from -127 to 127, each
//! column with a factor of its own. Products widen a strip of columns at a time to 32 bits, in the cache, and compute in 32
//! bits: what is saved is memory.

use rayon::prelude::*;

use crate::blocks::{blocks, room};
use crate::matrix::Matrix;
use crate::raw::Isa;

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

#[derive(Debug, Clone)]
enum Numbers {
    F32(Vec<f32>),
    Bf16(Vec<u16>),
    /// The numbers, and the factor of every column.
    Int8(Vec<i8>, Vec<f32>),
}

/// A packed matrix.
#[derive(Debug, Clone)]
pub struct Packed {
    rows: usize,
    columns: usize,
    /// Columns of a panel.
    width: usize,
    /// `[block of rows, panel, row, column]`, the last panel filled up with zeros.
    numbers: Numbers,
}

impl Packed {
    /// Packs a matrix for the vector unit of this processor.
    pub fn new(matrix: Matrix<'_>, precision: Precision) -> Self {
        let (rows, columns) = (matrix.rows(), matrix.columns());
        let (_, width) = Isa::here().tile();
        let padded = columns.next_multiple_of(width);
        let factors: Vec<f32> = match precision {
            Precision::Int8 => matrix
                .largest_of_columns()
                .iter()
                .map(|most| most / 127.0)
                .collect(),
            _ => Vec::new(),
        };
        let mut numbers = match precision {
            Precision::F32 => Numbers::F32(vec![0.0; rows * padded]),
            Precision::Bf16 => Numbers::Bf16(vec![0; rows * padded]),
            Precision::Int8 => Numbers::Int8(vec![0; rows * padded], factors.clone()),
        };
        for block in blocks(rows) {
            let place = block.start * padded..block.end * padded;
            let panel = (width * block.len()).max(1);
            let pack = |nth: usize, out: &mut [f32]| {
                let first = nth * width;
                matrix.pack_columns(first, width.min(columns - first), block.clone(), width, out);
            };
            match &mut numbers {
                Numbers::F32(numbers) => {
                    let panels = numbers[place].par_chunks_mut(panel).enumerate();
                    panels.for_each(|(nth, out)| pack(nth, out));
                }
                Numbers::Bf16(numbers) => {
                    let panels = numbers[place].par_chunks_mut(panel).enumerate();
                    panels.for_each(|(nth, out)| {
                        let mut wide = vec![0.0; out.len()];
                        pack(nth, &mut wide);
                        out.iter_mut().zip(wide).for_each(|(out, x)| *out = rounded(x));
                    });
                }
                Numbers::Int8(numbers, _) => {
                    let panels = numbers[place].par_chunks_mut(panel).enumerate();
                    panels.for_each(|(nth, out)| {
                        let mut wide = vec![0.0; out.len()];
                        pack(nth, &mut wide);
                        for (at, (out, x)) in out.iter_mut().zip(wide).enumerate() {
                            let factor = factors.get(nth * width + at % width).copied().unwrap_or(0.0);
                            *out = if factor > 0.0 {
                                (x / factor).round() as i8
                            } else {
                                0
                            };
                        }
                    });
                }
            }
        }
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
            Numbers::F32(numbers) => 4 * numbers.len(),
            Numbers::Bf16(numbers) => 2 * numbers.len(),
            Numbers::Int8(numbers, factors) => numbers.len() + 4 * factors.len(),
        }
    }

    /// The panels of a strip of columns, which begins with a panel, over a block of rows.
    pub(crate) fn strip<'a>(
        &'a self,
        first: usize,
        count: usize,
        block: &std::ops::Range<usize>,
        buffer: &'a mut Vec<f32>,
    ) -> &'a [f32] {
        let padded = self.columns.next_multiple_of(self.width);
        let start = block.start * padded + first * block.len();
        let size = count.next_multiple_of(self.width) * block.len();
        match &self.numbers {
            Numbers::F32(numbers) => &numbers[start..start + size],
            Numbers::Bf16(numbers) => {
                let out = room(buffer, size);
                for (out, &x) in out.iter_mut().zip(&numbers[start..start + size]) {
                    *out = f32::from_bits(u32::from(x) << 16);
                }
                out
            }
            Numbers::Int8(numbers, factors) => {
                let out = room(buffer, size);
                let panel = (self.width * block.len()).max(1);
                let mut row = vec![0.0; self.width];
                let panels = out
                    .chunks_exact_mut(panel)
                    .zip(numbers[start..start + size].chunks_exact(panel));
                for (nth, (out, numbers)) in panels.enumerate() {
                    let column = first + nth * self.width;
                    let own = &factors[column..self.columns.min(column + self.width)];
                    row[..own.len()].copy_from_slice(own);
                    row[own.len()..].fill(0.0);
                    for (out, numbers) in out
                        .chunks_exact_mut(self.width)
                        .zip(numbers.chunks_exact(self.width))
                    {
                        for ((out, &x), factor) in out.iter_mut().zip(numbers).zip(&row) {
                            *out = f32::from(x) * factor;
                        }
                    }
                }
                out
            }
        }
    }
}

/// The nearest bfloat16, the even one of two; NaN stays NaN.
fn rounded(x: f32) -> u16 {
    let bits = x.to_bits();
    if x.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    let odd = (bits >> 16) & 1;
    (bits.wrapping_add(0x7fff + odd) >> 16) as u16
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

    #[test]
    fn a_column_of_zeros_stays_one() {
        let numbers = [0.0, 1.0, 0.0, -2.0];
        let packed = Packed::new(Matrix::new(&numbers, 2, 2, 2), Precision::Int8);
        let out = product_packed(Matrix::new(&[1.0, 1.0], 1, 2, 2), &packed, Start::Zero);
        assert_eq!(out[0].to_bits(), 0);
        assert!((out[1] + 1.0).abs() < 0.02, "{}", out[1]);
    }
}
