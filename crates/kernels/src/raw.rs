//! The processor's vector unit, and memory that several threads write at the same time: this crate's one place with `unsafe`.

#![allow(unsafe_code)]
// The loops must be inlined into the function that is compiled for the vector unit: that is their whole point.
#![allow(clippy::inline_always)]

use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Keeps memory that was freed, for the rest of the process, instead of giving it back to the system.
///
/// A training step frees what the next one allocates again. The system's allocator takes large blocks from the kernel one by
/// one, gives them back when they are freed, and the kernel clears every page anew: more than a third of the CPU time of a step
/// at full size. For programs that compute and end; a server that idles would hold its peak for ever. It has an effect with
/// glibc's allocator only, and should come before there are other threads.
pub fn keep_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: `mallopt` changes numbers of the allocator and may be called at any time. A setting that is turned down changes
    // nothing.
    unsafe {
        // No block from the kernel on its own; never give back; grow by much at a time.
        libc::mallopt(libc::M_MMAP_MAX, 0);
        libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
        libc::mallopt(libc::M_TOP_PAD, 64 << 20);
        // One arena: those of other threads hold at most 64 MiB, take larger blocks from the kernel one by one and give them back.
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Gives memory that was freed and kept back to the system: between two pieces of work that share nothing. It has an effect
/// with glibc's allocator only.
pub fn release_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: `malloc_trim` touches only memory that is free, and may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// What a product is added to.
#[derive(Debug, Clone, Copy)]
pub enum Start<'a> {
    /// Nothing.
    Zero,
    /// A row, the same for all rows.
    Row(&'a [f32]),
    /// What the output holds.
    Keep,
}

/// A matrix that is written, by several threads at a time: rows are `stride` numbers apart.
///
/// It stands for an exclusive borrow of the numbers. Who writes to it sees to it that no two threads write the same place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output<'a> {
    numbers: *mut f32,
    rows: usize,
    columns: usize,
    stride: usize,
    borrowed: PhantomData<&'a mut [f32]>,
}

// SAFETY: the pointer is used in unsafe functions alone, whose callers promise that threads write different places.
unsafe impl Send for Output<'_> {}
// SAFETY: as above.
unsafe impl Sync for Output<'_> {}

impl<'a> Output<'a> {
    /// # Panics
    /// If the slice is too short.
    pub(crate) fn new(numbers: &'a mut [f32], rows: usize, columns: usize, stride: usize) -> Self {
        assert!(columns <= stride || rows <= 1, "rows overlap");
        let needed = if rows == 0 || columns == 0 {
            0
        } else {
            (rows - 1) * stride + columns
        };
        assert!(
            numbers.len() >= needed,
            "an output of {rows} by {columns} needs {needed} numbers"
        );
        Self {
            numbers: numbers.as_mut_ptr(),
            rows,
            columns,
            stride,
            borrowed: PhantomData,
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// A part of the matrix.
    ///
    /// # Panics
    /// If it reaches beyond the whole.
    pub(crate) fn part(&self, row: usize, rows: usize, column: usize, columns: usize) -> Self {
        assert!(
            row + rows <= self.rows && column + columns <= self.columns,
            "a part of the output"
        );
        // SAFETY: the part begins within the whole, or it is empty and at its end.
        let numbers = unsafe {
            self.numbers.add(if rows == 0 || columns == 0 {
                0
            } else {
                row * self.stride + column
            })
        };
        Self {
            numbers,
            rows,
            columns,
            ..*self
        }
    }

    /// A row of the matrix to be written.
    ///
    /// # Safety
    /// No other thread uses this row, and the slice is gone before anyone asks for the row again.
    ///
    /// # Panics
    /// If there is no such row.
    pub(crate) unsafe fn fresh_row(&self, row: usize) -> &'a mut [MaybeUninit<f32>] {
        assert!(row < self.rows, "a row of the output");
        // SAFETY: the row lies within the numbers that `new` checked; the caller promises the rest.
        unsafe { std::slice::from_raw_parts_mut(self.numbers.add(row * self.stride).cast(), self.columns) }
    }

    /// A row of the matrix that has been written.
    ///
    /// # Safety
    /// No other thread uses this row, and the slice is gone before anyone asks for the row again. Its numbers have been
    /// written.
    ///
    /// # Panics
    /// If there is no such row.
    pub(crate) unsafe fn row(&self, row: usize) -> &'a mut [f32] {
        assert!(row < self.rows, "a row of the output");
        // SAFETY: the row lies within the numbers that `new` checked; the caller promises the rest.
        unsafe { std::slice::from_raw_parts_mut(self.numbers.add(row * self.stride), self.columns) }
    }
}

/// New numbers, every one of which `write` writes; they are not cleared before.
///
/// # Safety
/// `write` writes all numbers of the matrix of `rows` by `columns`, and reads none before.
pub(crate) unsafe fn written(rows: usize, columns: usize, write: impl FnOnce(&Output<'_>)) -> Vec<f32> {
    let count = rows.checked_mul(columns).expect("a matrix that fits in memory");
    let mut numbers = Vec::with_capacity(count);
    write(&Output {
        numbers: numbers.as_mut_ptr(),
        rows,
        columns,
        stride: columns,
        borrowed: PhantomData,
    });
    // SAFETY: the capacity is at least this, and the caller promises that all have been written.
    unsafe { numbers.set_len(count) };
    numbers
}

/// What the processor's vector unit can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isa {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Plain,
}

impl Isa {
    /// The best of this processor.
    pub(crate) fn here() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let avx2 = has!("avx2") && has!("fma");
            if avx2 && has!("avx512f") && has!("avx512dq") && has!("avx512vl") && has!("avx512bw") {
                return Self::Avx512;
            }
            if avx2 {
                return Self::Avx2;
            }
        }
        Self::Plain
    }

    /// All that this processor can do.
    #[cfg(test)]
    pub(crate) fn all() -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        match Self::here() {
            Self::Avx512 => return vec![Self::Avx512, Self::Avx2, Self::Plain],
            Self::Avx2 => return vec![Self::Avx2, Self::Plain],
            Self::Plain => {}
        }
        vec![Self::Plain]
    }

    /// Rows and columns of the tile that a product keeps in registers.
    pub(crate) fn tile(self) -> (usize, usize) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => (12, 32),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => (6, 16),
            Self::Plain => (4, 16),
        }
    }

    /// Runs loops compiled for this vector unit.
    #[inline(always)]
    pub(crate) fn run<W: Work>(self, work: W) -> W::Result {
        match self {
            // SAFETY: `here` has detected the features that the function is compiled for.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => unsafe { run_avx512(work) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => unsafe { run_avx2(work) },
            Self::Plain => work.run(),
        }
    }
}

/// What a product computes with, tile by tile. A panel is made of words of 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    /// 32-bit floats: a word is a number.
    F32(Isa),
    /// A word is two numbers of bfloat16, multiplied exactly and summed in 32 bits.
    #[cfg(target_arch = "x86_64")]
    Avx512Bf16,
    /// A word is four numbers of 8 bits, those of A without a sign and 128 too large; sums are whole numbers of 32 bits.
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni,
}

/// Two panels: `[word of k, rows]` of A and `[word of k, columns]` of B.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Panels<'a> {
    pub(crate) a: &'a [f32],
    pub(crate) b: &'a [f32],
    /// Of numbers of 8 bits.
    pub(crate) scales: Option<Scales<'a>>,
}

/// What makes sums of 8-bit numbers the sums of the numbers that they stand for: a tile's rows and columns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scales<'a> {
    /// The factor of every row of A.
    pub(crate) rows: &'a [f32],
    /// The factor of every column of B.
    pub(crate) columns: &'a [f32],
    /// What every column's sum begins with: it takes away the 128 by which the numbers of A are too large.
    pub(crate) begin: &'a [i32],
}

impl Arithmetic {
    /// The best for 32 bits.
    pub(crate) fn f32() -> Self {
        Self::F32(Isa::here())
    }

    /// The processor's instructions for bfloat16, if it has them.
    pub(crate) fn bf16() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if Isa::here() == Isa::Avx512 && std::arch::is_x86_feature_detected!("avx512bf16") {
            return Some(Self::Avx512Bf16);
        }
        None
    }

    /// The processor's instructions for sums of 8-bit products, if it has them.
    pub(crate) fn int8() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if Isa::here() == Isa::Avx512 && std::arch::is_x86_feature_detected!("avx512vnni") {
            return Some(Self::Avx512Vnni);
        }
        None
    }

    /// Rows and columns of a tile.
    pub(crate) fn tile(self) -> (usize, usize) {
        match self {
            Self::F32(isa) => isa.tile(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Bf16 | Self::Avx512Vnni => Isa::Avx512.tile(),
        }
    }

    /// Numbers that one word holds.
    pub(crate) fn numbers_of_word(self) -> usize {
        match self {
            Self::F32(_) => 1,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Bf16 => 2,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni => 4,
        }
    }

    /// One tile of a product, to where it stands in the output. What reaches beyond the output is left out.
    ///
    /// # Safety
    /// No other thread uses this tile of the output. With `Start::Keep` its numbers have been written.
    pub(crate) unsafe fn multiply(
        self,
        panels: Panels<'_>,
        start: Start<'_>,
        out: &Output<'_>,
        row: usize,
        column: usize,
    ) {
        let (tile_rows, tile_columns) = self.tile();
        let depth = panels.b.len() / tile_columns;
        assert!(
            panels.a.len() == depth * tile_rows && panels.b.len() == depth * tile_columns,
            "panels of one depth"
        );
        assert!(row < out.rows && column < out.columns, "a tile of the output");
        let rows = tile_rows.min(out.rows - row);
        let columns = tile_columns.min(out.columns - column);
        // SAFETY: the tile's first place is within the output.
        let place = unsafe { out.numbers.add(row * out.stride + column) };
        if columns < tile_columns {
            // SAFETY: as for this function.
            return unsafe { self.multiply_edge(panels, start, out, row, column) };
        }
        let tile = Tile {
            depth,
            a: panels.a.as_ptr(),
            b: panels.b.as_ptr(),
            out: place,
            stride: out.stride,
            start: match start {
                Start::Zero => Begin::Zero,
                Start::Row(row) => Begin::Row(row[column..column + columns].as_ptr()),
                Start::Keep => Begin::Keep,
            },
        };
        // SAFETY: the panels hold `depth` times a tile's rows and columns, `rows` is no more than a tile's, and the place has
        // room for `rows` by a tile's columns. The features were detected where the arithmetic was chosen.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Self::F32(Isa::Avx512) => avx512::multiply(&tile, rows),
                #[cfg(target_arch = "x86_64")]
                Self::F32(Isa::Avx2) => avx2::multiply(&tile, rows),
                Self::F32(Isa::Plain) => plain(&tile, rows),
                #[cfg(target_arch = "x86_64")]
                Self::Avx512Bf16 => avx512_bf16::multiply(&tile, rows),
                #[cfg(target_arch = "x86_64")]
                Self::Avx512Vnni => {
                    let scales = panels.scales.expect("8-bit numbers have scales");
                    assert!(
                        scales.rows.len() >= rows
                            && scales.columns.len() >= tile_columns
                            && scales.begin.len() >= tile_columns,
                        "scales of a tile"
                    );
                    avx512_vnni::multiply(&tile, rows, &scales);
                }
            }
        }
    }

    /// The same for a tile that reaches beyond the last column: through a whole one.
    ///
    /// # Safety
    /// As for [`Arithmetic::multiply`].
    #[cold]
    unsafe fn multiply_edge(
        self,
        panels: Panels<'_>,
        start: Start<'_>,
        out: &Output<'_>,
        row: usize,
        column: usize,
    ) {
        let (tile_rows, tile_columns) = self.tile();
        let mut whole = [0.0_f32; MOST_OF_A_TILE];
        let rows = tile_rows.min(out.rows - row);
        let edge = Output::new(&mut whole, rows, tile_columns, tile_columns);
        // SAFETY: the array is this function's own.
        unsafe { self.multiply(panels, Start::Zero, &edge, 0, 0) };
        let part = out.part(row, rows, column, out.columns - column);
        for (nth, line) in whole.chunks_exact(tile_columns).take(part.rows).enumerate() {
            for (at, &x) in line[..part.columns].iter().enumerate() {
                // SAFETY: within the part, which is this tile.
                unsafe {
                    let place = part.numbers.add(nth * part.stride + at);
                    *place = match start {
                        Start::Zero => x,
                        Start::Row(row) => x + row[column + at],
                        Start::Keep => x + *place,
                    };
                }
            }
        }
    }
}

/// Numbers as bfloat16, two to a word; the last word of an odd count is filled up with a zero.
pub(crate) fn pairs(numbers: &[f32], out: &mut [f32]) {
    assert_eq!(out.len(), numbers.len().div_ceil(2), "a word for two numbers");
    #[cfg(target_arch = "x86_64")]
    if Arithmetic::bf16().is_some() {
        // SAFETY: the features have been detected.
        return unsafe { pairs_avx512(numbers, out) };
    }
    for (out, pair) in out.iter_mut().zip(numbers.chunks(2)) {
        *out = pair_of(pair[0], pair.get(1).copied().unwrap_or(0.0));
    }
}

fn pair_of(low: f32, high: f32) -> f32 {
    f32::from_bits(u32::from(rounded(low)) | u32::from(rounded(high)) << 16)
}

/// The nearest bfloat16, the even one of two; NaN stays NaN.
pub(crate) fn rounded(x: f32) -> u16 {
    let bits = x.to_bits();
    if x.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    let odd = (bits >> 16) & 1;
    (bits.wrapping_add(0x7fff + odd) >> 16) as u16
}

/// Numbers of the largest tile.
const MOST_OF_A_TILE: usize = 12 * 32;

/// Loops that are compiled once for each vector unit. `run` must be `#[inline(always)]`.
pub(crate) trait Work {
    /// What comes out.
    type Result;
    /// Does the work.
    fn run(self) -> Self::Result;
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
fn run_avx512<W: Work>(work: W) -> W::Result {
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_avx2<W: Work>(work: W) -> W::Result {
    work.run()
}

/// The operands of one tile.
struct Tile {
    depth: usize,
    a: *const f32,
    b: *const f32,
    out: *mut f32,
    stride: usize,
    start: Begin,
}

#[derive(Clone, Copy)]
enum Begin {
    Zero,
    /// As many numbers as a tile has columns.
    Row(*const f32),
    Keep,
}

/// # Safety
/// As [`Arithmetic::multiply`] says of the tile.
unsafe fn plain(tile: &Tile, rows: usize) {
    let (tile_rows, tile_columns) = (4, 16);
    let mut sums = [[0.0_f32; 16]; 4];
    for k in 0..tile.depth {
        // SAFETY: the panels hold `depth` times a tile's rows and columns.
        let (a, b) = unsafe {
            (
                std::slice::from_raw_parts(tile.a.add(k * tile_rows), tile_rows),
                std::slice::from_raw_parts(tile.b.add(k * tile_columns), tile_columns),
            )
        };
        for (sums, &a) in sums.iter_mut().zip(a) {
            for (sum, &b) in sums.iter_mut().zip(b) {
                *sum += a * b;
            }
        }
    }
    for (nth, sums) in sums.iter().take(rows).enumerate() {
        for (at, &sum) in sums.iter().enumerate() {
            // SAFETY: there is room for `rows` by a tile's columns.
            unsafe {
                let place = tile.out.add(nth * tile.stride + at);
                *place = match tile.start {
                    Begin::Zero => sum,
                    Begin::Row(row) => sum + *row.add(at),
                    Begin::Keep => sum + *place,
                };
            }
        }
    }
}

/// A module with the tile of a vector unit: `$rows` by two registers of `$lanes` words.
#[cfg(target_arch = "x86_64")]
macro_rules! tile {
    ($name:ident, $features:literal, $rows:literal, $lanes:literal, $zero:ident, $load:ident, $store:ident, $set:ident,
     $add:ident, |$x:ident, $y:ident, $sum:ident| $fma:expr, [$($count:literal)*]) => {
        #[allow(clippy::wildcard_imports)] // which intrinsics there are is the macro's argument
        mod $name {
            use super::{Begin, Tile};
            use std::arch::x86_64::*;

            /// # Safety
            /// As [`super::Arithmetic::multiply`] says of the tile; the processor has the features.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn multiply(tile: &Tile, rows: usize) {
                // SAFETY: as the caller promises.
                unsafe {
                    match rows {
                        $($count => rows_of::<$count>(tile),)*
                        _ => {}
                    }
                }
            }

            #[target_feature(enable = $features)]
            unsafe fn rows_of<const R: usize>(tile: &Tile) {
                let mut sums = [[$zero(); 2]; R];
                let (mut a, mut b) = (tile.a, tile.b);
                // SAFETY: the panels hold `depth` times a tile's rows and columns, and there is room for `R` by a tile's
                // columns.
                unsafe {
                    for _ in 0..tile.depth {
                        let (low, high) = ($load(b), $load(b.add($lanes)));
                        for nth in 0..R {
                            let $x = $set(*a.add(nth));
                            for (half, $y) in [low, high].into_iter().enumerate() {
                                let $sum = sums[nth][half];
                                sums[nth][half] = $fma;
                            }
                        }
                        a = a.add($rows);
                        b = b.add(2 * $lanes);
                    }
                    for nth in 0..R {
                        for half in 0..2 {
                            let place = tile.out.add(nth * tile.stride + half * $lanes);
                            let sum = sums[nth][half];
                            let sum = match tile.start {
                                Begin::Zero => sum,
                                Begin::Row(row) => $add(sum, $load(row.add(half * $lanes))),
                                Begin::Keep => $add(sum, $load(place)),
                            };
                            $store(place, sum);
                        }
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
tile!(avx2, "avx2,fma", 6, 8, _mm256_setzero_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, _mm256_add_ps,
      |x, y, sum| _mm256_fmadd_ps(x, y, sum), [1 2 3 4 5 6]);
#[cfg(target_arch = "x86_64")]
tile!(avx512, "avx512f", 12, 16, _mm512_setzero_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps, _mm512_add_ps,
      |x, y, sum| _mm512_fmadd_ps(x, y, sum), [1 2 3 4 5 6 7 8 9 10 11 12]);
#[cfg(target_arch = "x86_64")]
tile!(avx512_bf16, "avx512f,avx512bf16", 12, 16, _mm512_setzero_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps, _mm512_add_ps,
      |x, y, sum| _mm512_dpbf16_ps(sum, std::mem::transmute::<__m512, __m512bh>(x), std::mem::transmute::<__m512, __m512bh>(y)),
      [1 2 3 4 5 6 7 8 9 10 11 12]);

/// The tile of 8-bit numbers.
#[cfg(target_arch = "x86_64")]
mod avx512_vnni {
    use super::{Begin, Scales, Tile};
    use std::arch::x86_64::{
        _mm512_add_ps, _mm512_castps_si512, _mm512_cvtepi32_ps, _mm512_dpbusd_epi32, _mm512_loadu_ps,
        _mm512_loadu_si512, _mm512_mul_ps, _mm512_set1_ps, _mm512_storeu_ps,
    };

    macro_rules! by_rows {
        ($rows:ident, $tile:ident, $scales:ident, [$($count:literal)*]) => {
            match $rows {
                $($count => rows_of::<$count>($tile, $scales),)*
                _ => {}
            }
        };
    }

    /// # Safety
    /// As [`super::Arithmetic::multiply`] says of the tile, and the scales are those of a tile; the processor has the features.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) unsafe fn multiply(tile: &Tile, rows: usize, scales: &Scales<'_>) {
        // SAFETY: as the caller promises.
        unsafe { by_rows!(rows, tile, scales, [1 2 3 4 5 6 7 8 9 10 11 12]) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn rows_of<const R: usize>(tile: &Tile, scales: &Scales<'_>) {
        let (mut a, mut b) = (tile.a, tile.b);
        // SAFETY: the panels hold `depth` times a tile's rows and columns, the scales as many, and there is room for `R` by a
        // tile's columns.
        unsafe {
            let begin = scales.begin.as_ptr();
            let begin = [0, 16].map(|at| _mm512_loadu_si512(begin.add(at).cast()));
            let mut sums = [begin; R];
            for _ in 0..tile.depth {
                let columns = [0, 16].map(|at| _mm512_castps_si512(_mm512_loadu_ps(b.add(at))));
                for (nth, sums) in sums.iter_mut().enumerate() {
                    let x = _mm512_castps_si512(_mm512_set1_ps(*a.add(nth)));
                    for (sum, &y) in sums.iter_mut().zip(&columns) {
                        *sum = _mm512_dpbusd_epi32(*sum, x, y);
                    }
                }
                a = a.add(12);
                b = b.add(32);
            }
            for (nth, sums) in sums.iter().enumerate() {
                let row = _mm512_set1_ps(scales.rows[nth]);
                for (half, &sum) in sums.iter().enumerate() {
                    let column = _mm512_loadu_ps(scales.columns.as_ptr().add(16 * half));
                    let sum = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(row, column));
                    let place = tile.out.add(nth * tile.stride + 16 * half);
                    let sum = match tile.start {
                        Begin::Zero => sum,
                        Begin::Row(row) => _mm512_add_ps(sum, _mm512_loadu_ps(row.add(16 * half))),
                        Begin::Keep => _mm512_add_ps(sum, _mm512_loadu_ps(place)),
                    };
                    _mm512_storeu_ps(place, sum);
                }
            }
        }
    }
}

/// [`pairs`] by the processor's instruction.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bf16")]
fn pairs_avx512(numbers: &[f32], out: &mut [f32]) {
    use std::arch::x86_64::{__m512, __m512bh, _mm512_cvtne2ps_pbh, _mm512_loadu_ps, _mm512_storeu_ps};
    let (whole, rest) = numbers.as_chunks::<32>();
    let (words, last) = out.split_at_mut(16 * whole.len());
    for (numbers, words) in whole.iter().zip(words.as_chunks_mut::<16>().0) {
        // SAFETY: 32 numbers are read and 16 words written.
        unsafe {
            let (low, high) = (
                _mm512_loadu_ps(numbers.as_ptr()),
                _mm512_loadu_ps(numbers.as_ptr().add(16)),
            );
            let pairs = std::mem::transmute::<__m512bh, __m512>(_mm512_cvtne2ps_pbh(high, low));
            _mm512_storeu_ps(words.as_mut_ptr(), pairs);
        }
    }
    for (out, pair) in last.iter_mut().zip(rest.chunks(2)) {
        *out = pair_of(pair[0], pair.get(1).copied().unwrap_or(0.0));
    }
}

/// The factor of a line of 8-bit numbers: by it the largest is 127. It is NaN if a number is not finite.
pub(crate) fn factor(numbers: &[f32]) -> f32 {
    struct Largest<'a>(&'a [f32]);
    impl Work for Largest<'_> {
        type Result = f32;
        #[inline(always)]
        fn run(self) -> f32 {
            let (mut most, mut zero) = ([0.0_f32; 32], [0.0_f32; 32]);
            let (whole, rest) = self.0.as_chunks::<32>();
            for numbers in whole {
                for ((most, zero), x) in most.iter_mut().zip(&mut zero).zip(numbers) {
                    *most = if x.abs() > *most { x.abs() } else { *most };
                    // What is not finite times nothing is not a number, and stays so.
                    *zero += x * 0.0;
                }
            }
            for ((most, zero), x) in most.iter_mut().zip(&mut zero).zip(rest) {
                *most = if x.abs() > *most { x.abs() } else { *most };
                *zero += x * 0.0;
            }
            most.into_iter().fold(0.0, f32::max) / 127.0 + zero.into_iter().sum::<f32>()
        }
    }
    Isa::here().run(Largest(numbers))
}

/// Numbers divided by their factor and rounded, 128 added, four to a word; the last word is filled up with what stands for zero.
pub(crate) fn quads(numbers: &[f32], factor: f32, out: &mut [f32]) {
    struct Quads<'a>(&'a [f32], f32, &'a mut [f32]);
    impl Work for Quads<'_> {
        type Result = ();
        #[inline(always)]
        fn run(self) {
            let Self(numbers, inverse, out) = self;
            // -127 to 127 plus 128, by the rounding of a sum: in the last place of numbers from 2²³ on there are whole ones.
            let byte = |x: f32| (x * inverse + (128.0 + 12_582_912.0)).to_bits() as u8;
            let (whole, rest) = numbers.as_chunks::<4>();
            let (words, last) = out.split_at_mut(whole.len());
            for (numbers, word) in whole.iter().zip(words) {
                *word = f32::from_bits(u32::from_le_bytes(numbers.map(byte)));
            }
            if let Some(last) = last.first_mut() {
                let mut bytes = [128_u8; 4];
                for (byte_of, &x) in bytes.iter_mut().zip(rest) {
                    *byte_of = byte(x);
                }
                *last = f32::from_bits(u32::from_le_bytes(bytes));
            }
        }
    }
    assert_eq!(out.len(), numbers.len().div_ceil(4), "a word for four numbers");
    let inverse = if factor > 0.0 { 1.0 / factor } else { 0.0 };
    Isa::here().run(Quads(numbers, inverse, out));
}
