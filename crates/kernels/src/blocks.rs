//! How sums are cut, and buffers that are kept.

/// Longest piece of a sum that is made in registers.
pub(crate) const DEPTH: usize = 384;
/// The blocks of k. A product over nothing has one, so that its start is written.
pub(crate) fn blocks(depth: usize) -> Vec<std::ops::Range<usize>> {
    let count = depth.div_ceil(DEPTH).max(1);
    (0..count)
        .map(|nth| nth * depth / count..(nth + 1) * depth / count)
        .collect()
}

/// At least `count` numbers of a buffer that is kept.
pub(crate) fn room(buffer: &mut Vec<f32>, count: usize) -> &mut [f32] {
    if buffer.len() < count {
        buffer.resize(count, 0.0);
    }
    &mut buffer[..count]
}
