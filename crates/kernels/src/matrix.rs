//! Matrices in memory that others own, and their copies in panels.

/// Makes the words of a row: its number and its numbers in, the words out.
pub(crate) type Words<'a> = &'a dyn Fn(usize, &[f32], &mut [f32]);

/// A matrix that is read: element (i, j) is at `i * row + j * column`.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    pub(crate) numbers: &'a [f32],
    rows: usize,
    columns: usize,
    pub(crate) row: usize,
    pub(crate) column: usize,
}

impl<'a> Matrix<'a> {
    /// A matrix whose rows are `stride` numbers apart and whose columns are next to each other.
    ///
    /// # Panics
    /// If the slice is too short.
    pub fn new(numbers: &'a [f32], rows: usize, columns: usize, stride: usize) -> Self {
        let needed = if rows == 0 || columns == 0 {
            0
        } else {
            (rows - 1) * stride + columns
        };
        assert!(
            numbers.len() >= needed,
            "a matrix of {rows} by {columns} needs {needed} numbers"
        );
        Self {
            numbers,
            rows,
            columns,
            row: stride,
            column: 1,
        }
    }

    /// Rows and columns exchanged; nothing is copied.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row: self.column,
            column: self.row,
            ..self
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

    /// The largest absolute value of every column.
    pub(crate) fn largest_of_columns(&self) -> Vec<f32> {
        let mut most = vec![0.0_f32; self.columns];
        for row in 0..self.rows {
            for (column, most) in most.iter_mut().enumerate() {
                *most = most.max(self.numbers[row * self.row + column * self.column].abs());
            }
        }
        most
    }

    /// Copies panels of `width` rows: `[panel, k, width]`, filled up with zeros.
    pub(crate) fn pack_rows(
        &self,
        first: usize,
        count: usize,
        depth: std::ops::Range<usize>,
        width: usize,
        out: &mut [f32],
    ) {
        pack(
            self.numbers,
            self.row,
            self.column,
            first,
            count,
            depth,
            width,
            out,
        );
    }

    /// Copies panels of `width` rows in words, `[panel, word of k, width]`, filled up with zeros: `words` makes the words of a row
    /// over this depth, whose number is given first.
    pub(crate) fn pack_words(
        &self,
        first: usize,
        count: usize,
        depth: &std::ops::Range<usize>,
        width: usize,
        out: &mut [f32],
        words: Words<'_>,
    ) {
        let panels = count.div_ceil(width);
        if panels == 0 || out.is_empty() {
            return;
        }
        let size = out.len() / panels / width;
        let (mut line, mut made) = (Vec::new(), vec![0.0; size]);
        for (panel, out) in out.chunks_exact_mut(size * width).enumerate() {
            let start = first + panel * width;
            let rows = width.min(first + count - start);
            if rows < width {
                out.fill(0.0);
            }
            for nth in 0..rows {
                let at = (start + nth) * self.row + depth.start * self.column;
                let numbers = if self.column == 1 {
                    &self.numbers[at..at + depth.len()]
                } else {
                    line.clear();
                    line.extend(
                        depth
                            .clone()
                            .map(|k| self.numbers[at + (k - depth.start) * self.column]),
                    );
                    &line
                };
                words(start + nth, numbers, &mut made);
                for (out, &word) in out.iter_mut().skip(nth).step_by(width).zip(&made) {
                    *out = word;
                }
            }
        }
    }

    /// A row's numbers, one after another.
    pub(crate) fn row(&self, row: usize) -> std::borrow::Cow<'a, [f32]> {
        let at = row * self.row;
        if self.column == 1 {
            return self.numbers[at..at + self.columns].into();
        }
        (0..self.columns)
            .map(|column| self.numbers[at + column * self.column])
            .collect()
    }

    /// The same with panels of columns.
    pub(crate) fn pack_columns(
        &self,
        first: usize,
        count: usize,
        depth: std::ops::Range<usize>,
        width: usize,
        out: &mut [f32],
    ) {
        pack(
            self.numbers,
            self.column,
            self.row,
            first,
            count,
            depth,
            width,
            out,
        );
    }
}

/// Panels of `width` lines, `lane` apart, over `depth`, whose steps are `step` apart; one of the two is 1.
#[allow(clippy::too_many_arguments)] // the two functions above are its callers
fn pack(
    numbers: &[f32],
    lane: usize,
    step: usize,
    first: usize,
    count: usize,
    depth: std::ops::Range<usize>,
    width: usize,
    out: &mut [f32],
) {
    // Widths that are known when this is compiled: those of the tiles.
    let pack = match width {
        4 => pack_panels::<4>,
        6 => pack_panels::<6>,
        12 => pack_panels::<12>,
        16 => pack_panels::<16>,
        _ => pack_panels::<32>,
    };
    if !depth.is_empty() {
        pack(numbers, lane, step, first, count, depth, out);
    }
}

fn pack_panels<const W: usize>(
    numbers: &[f32],
    lane: usize,
    step: usize,
    first: usize,
    count: usize,
    depth: std::ops::Range<usize>,
    out: &mut [f32],
) {
    let size = depth.len();
    let (out, _) = out.as_chunks_mut::<W>();
    if lane == 1 {
        // Lines that lie beside each other: step by step, so that memory is read from front to back.
        for (nth, k) in depth.enumerate() {
            let (whole, rest) = numbers[first + k * step..][..count].as_chunks::<W>();
            for (panel, lanes) in whole.iter().enumerate() {
                out[panel * size + nth] = *lanes;
            }
            if !rest.is_empty() {
                let out = &mut out[whole.len() * size + nth];
                out[..rest.len()].copy_from_slice(rest);
                out[rest.len()..].fill(0.0);
            }
        }
        return;
    }
    for (panel, out) in out.chunks_exact_mut(size).enumerate() {
        let start = first + panel * W;
        let line = |nth: usize| &numbers[(start + nth) * lane + depth.start..][..size];
        let lanes = W.min((first + count).saturating_sub(start));
        if lanes == W {
            let lines: [&[f32]; W] = std::array::from_fn(line);
            for (k, out) in out.iter_mut().enumerate() {
                *out = std::array::from_fn(|nth| lines[nth][k]);
            }
            continue;
        }
        out.fill([0.0; W]);
        for nth in 0..lanes {
            for (out, x) in out.iter_mut().zip(line(nth)) {
                out[nth] = *x;
            }
        }
    }
}
