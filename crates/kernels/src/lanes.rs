//! Sums and maxima over a row, in as many parts as the widest vector register has numbers, twice: the compiler may not reorder a
//! sum by itself, so the order is spelled out. It is the same for every processor.

// Inlined into functions that are compiled for the vector unit.
#![allow(clippy::inline_always)]

const LANES: usize = 32;

/// The sum of `term` over two rows of the same length.
#[inline(always)]
pub(crate) fn sum2(a: &[f32], b: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
    let mut sums = [0.0_f32; LANES];
    let (a_rest, b_rest) = (
        a.chunks_exact(LANES).remainder(),
        b.chunks_exact(LANES).remainder(),
    );
    for (a, b) in a.chunks_exact(LANES).zip(b.chunks_exact(LANES)) {
        for lane in 0..LANES {
            sums[lane] += term(a[lane], b[lane]);
        }
    }
    for (lane, (a, b)) in a_rest.iter().zip(b_rest).enumerate() {
        sums[lane] += term(*a, *b);
    }
    folded(sums, |a, b| a + b)
}

/// The sum of `term` over a row.
#[inline(always)]
pub(crate) fn sum(row: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    sum2(row, row, |x, _| term(x))
}

/// The largest number of a row; NaN does not count.
#[inline(always)]
pub(crate) fn largest(row: &[f32]) -> f32 {
    let mut most = [f32::NEG_INFINITY; LANES];
    let rest = row.chunks_exact(LANES).remainder();
    for chunk in row.chunks_exact(LANES) {
        for lane in 0..LANES {
            most[lane] = larger(chunk[lane], most[lane]);
        }
    }
    for (lane, x) in rest.iter().enumerate() {
        most[lane] = larger(*x, most[lane]);
    }
    folded(most, larger)
}

/// Not `max`, which must look out for NaN on both sides.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

#[inline(always)]
fn folded(mut parts: [f32; LANES], join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            parts[lane] = join(parts[lane], parts[lane + half]);
        }
        half /= 2;
    }
    parts[0]
}
