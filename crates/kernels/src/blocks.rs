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

/// A block of k, and where its words are among those of all, with so many numbers to a word. Every block begins with a new word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) block: std::ops::Range<usize>,
    pub(crate) words: std::ops::Range<usize>,
}

/// The blocks of k in words.
pub(crate) fn pieces(depth: usize, numbers_of_word: usize) -> Vec<Piece> {
    let mut first = 0;
    let pieces = blocks(depth).into_iter().map(|block| {
        let words = first..first + block.len().div_ceil(numbers_of_word);
        first = words.end;
        Piece { block, words }
    });
    pieces.collect()
}

/// At least `count` numbers of a buffer that is kept.
pub(crate) fn room(buffer: &mut Vec<f32>, count: usize) -> &mut [f32] {
    if buffer.len() < count {
        buffer.resize(count, 0.0);
    }
    &mut buffer[..count]
}
