//! One pass over all pairs of rows, in blocks, each pair once.
//!
//! The inner products of a set with itself are symmetric, so only blocks on and above the diagonal are
//! computed: block `(a, b)` with `a <= b` serves the rows of `a` and the rows of `b`. That is half the
//! multiplications of a pass that ranks every row separately.
//!
//! Blocks are cut by the number of rows alone, never by the number of threads, and each inner product is
//! computed in one block. What a visitor sees is therefore the same for any number of threads; only the order
//! of the blocks varies, and visitors must give the same answer for any order.
//!
//! Public is what `hark-metrics` ranks one set by another with: [`Cut`], [`spread`], [`inner_products`] and
//! [`at_least`]. Programs want [`exact`](crate::exact).

use std::num::NonZeroUsize;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use hark_work::progress::Progress;
use hark_work::workers::lock;

pub use crate::exact::at_least;
pub use crate::kernels::inner_products;
use crate::{Error, Vectors};

/// Rows in a block. A multiple of 48, so that the micro-kernel of 16 by 6 products leaves no ragged edge:
/// blocks of 528 multiply at 93 % of the processor's peak where blocks of 509 reach 79 %. Two blocks of
/// vectors, their products and the lists of candidates of both stay within the second and third level caches;
/// larger blocks multiply no faster.
pub const BLOCK_ROWS: usize = 528;

/// How rows are cut: into full blocks and a rest. A rest below half a block shares evenly with the block
/// before it. With several blocks none is small, so every product goes through the same kernel with the same
/// order of additions, and equal vectors get equal scores wherever they are.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    rows: usize,
    block_rows: usize,
    blocks: usize,
    /// Where the last block starts.
    last: usize,
}

impl Cut {
    /// Cuts that many rows.
    pub fn new(rows: usize, block_rows: usize) -> Self {
        let blocks = rows.div_ceil(block_rows);
        let mut last = blocks.saturating_sub(1) * block_rows;
        let rest = rows - last;
        if blocks > 1 && rest < block_rows / 2 {
            last -= (block_rows - rest) / 2;
        }
        Self {
            rows,
            block_rows,
            blocks,
            last,
        }
    }

    /// How many blocks there are.
    pub fn blocks(self) -> usize {
        self.blocks
    }

    /// The rows of one block.
    pub fn range(self, block: usize) -> Range<usize> {
        let start = |block: usize| match self.blocks - block {
            0 => self.rows,
            1 => self.last,
            _ => block * self.block_rows,
        };
        start(block)..start(block + 1)
    }

    /// The longest block.
    pub fn longest(self) -> usize {
        self.block_rows.min(self.rows)
    }
}

/// The inner products of the rows of one block with the rows of another, or of the same one.
pub(crate) struct Tile<'a> {
    /// The two blocks, `first <= second`.
    pub(crate) first: usize,
    pub(crate) second: usize,
    /// Rows of `first`.
    pub(crate) rows: Range<usize>,
    /// Rows of `second`.
    pub(crate) columns: Range<usize>,
    /// `[rows, columns]`, row-major.
    scores: &'a [f32],
}

impl Tile<'_> {
    /// The pairs of each row, each once: (position of the row in its block, position of the first column in
    /// its block, scores from that column on). On the diagonal, only those right of it.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (usize, usize, &[f32])> {
        let width = self.columns.len();
        let diagonal = self.first == self.second;
        self.scores
            .chunks_exact(width.max(1))
            .enumerate()
            .map(move |(row, scores)| {
                let start = if diagonal { row + 1 } else { 0 };
                (row, start, &scores[start..])
            })
    }
}

/// Visits every pair of rows once, tile by tile, on the given number of threads or the caller's pool.
/// `scratch` makes what each worker needs for itself.
pub(crate) fn pass<S>(
    vectors: Vectors<'_>,
    block_rows: usize,
    threads: Option<NonZeroUsize>,
    progress: Progress<'_>,
    scratch: impl Fn() -> S + Sync,
    visit: impl Fn(&mut S, &Tile<'_>) + Sync,
) -> Result<(), Error> {
    let cut = Cut::new(vectors.rows(), block_rows);
    let order = Order::new(cut.blocks());
    spread(
        order.total(),
        threads,
        progress,
        || (scratch(), vec![0.0; cut.longest() * cut.longest()]),
        |(scratch, scores), position| {
            let Some((first, second)) = order.pair(position) else {
                return Ok(());
            };
            let (rows, columns) = (cut.range(first), cut.range(second));
            let size = rows.len() * columns.len();
            inner_products(
                vectors.range(rows.clone()),
                vectors.range(columns.clone()),
                vectors.dim(),
                &mut scores[..size],
            );
            visit(
                scratch,
                &Tile {
                    first,
                    second,
                    rows,
                    columns,
                    scores: &scores[..size],
                },
            );
            Ok(())
        },
    )
}

/// Does the steps `0..total`, each once, on the given number of threads or the caller's pool. Steps are taken
/// in order, so when one fails, all before it are still finished: the error returned is the one of the lowest
/// step that fails, for any number of threads.
///
/// # Errors
/// What `step` returns, [`Error::Cancelled`], or [`Error::Threads`].
pub fn spread<S, E: From<Error> + Send>(
    total: u64,
    threads: Option<NonZeroUsize>,
    progress: Progress<'_>,
    scratch: impl Fn() -> S + Sync,
    step: impl Fn(&mut S, u64) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let done = Mutex::new(0_u64);
    let failed = Mutex::new(None::<(u64, E)>);
    let work = || {
        let mut scratch = scratch();
        while !stop.load(Ordering::Relaxed) {
            let position = next.fetch_add(1, Ordering::Relaxed);
            if position >= total {
                break;
            }
            if let Err(error) = step(&mut scratch, position) {
                stop.store(true, Ordering::Relaxed);
                let mut failed = lock(&failed);
                if failed.as_ref().is_none_or(|&(lowest, _)| position < lowest) {
                    *failed = Some((position, error));
                }
                break;
            }
            // The lock makes the calls come one at a time, with `done` always growing.
            let mut done = lock(&done);
            *done += 1;
            if progress(*done, total) == ControlFlow::Break(()) {
                stop.store(true, Ordering::Relaxed);
            }
        }
    };
    let spawn = || {
        // A worker takes the next step when it is free; one that starts late finds nothing left.
        let workers = rayon::current_num_threads().min(usize::try_from(total).unwrap_or(usize::MAX));
        rayon::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|_| work());
            }
        });
    };
    match threads {
        None => spawn(),
        Some(threads) => rayon::ThreadPoolBuilder::new()
            .num_threads(threads.get())
            .build()
            .map_err(|error| Error::Threads {
                threads: threads.get(),
                reason: error.to_string(),
            })?
            .install(spawn),
    }
    if let Some((_, error)) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let done = *lock(&done);
    if done < total {
        Err(Error::Cancelled { done, total }.into())
    } else {
        Ok(())
    }
}

/// The order in which pairs of blocks are taken: by their distance from the diagonal. Neighbours in this
/// order share no block, so workers seldom wait for each other's lists.
struct Order {
    blocks: u64,
}

impl Order {
    fn new(blocks: usize) -> Self {
        Self {
            blocks: blocks as u64,
        }
    }

    fn total(&self) -> u64 {
        self.blocks * (self.blocks + 1) / 2
    }

    fn pair(&self, position: u64) -> Option<(usize, usize)> {
        if position >= self.total() {
            return None;
        }
        // Distance d holds blocks - d pairs, so d pairs of distances start at d * blocks - d * (d - 1) / 2.
        let start = |distance: u64| distance * self.blocks - distance * distance.saturating_sub(1) / 2;
        let (mut low, mut high) = (0, self.blocks);
        while high - low > 1 {
            let middle = u64::midpoint(low, high);
            if start(middle) <= position {
                low = middle;
            } else {
                high = middle;
            }
        }
        let first = position - start(low);
        Some((first as usize, (first + low) as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_in_one_block_and_no_block_is_small() {
        for rows in [0, 1, 2, 7, 527, 528, 529, 791, 792, 793, 1056, 1057, 49_838] {
            let cut = Cut::new(rows, 528);
            let mut next = 0;
            for block in 0..cut.blocks() {
                let range = cut.range(block);
                assert_eq!(range.start, next);
                assert!(range.len() <= cut.longest());
                assert!(
                    cut.blocks() == 1 || range.len() >= 264,
                    "{rows} rows: block of {}",
                    range.len()
                );
                next = range.end;
            }
            assert_eq!(next, rows);
        }
    }

    #[test]
    fn every_pair_of_blocks_is_taken_once() {
        for blocks in 0..20_usize {
            let order = Order::new(blocks);
            let mut seen: Vec<_> = (0..order.total())
                .filter_map(|position| order.pair(position))
                .collect();
            assert_eq!(order.pair(order.total()), None);
            seen.sort_unstable();
            let expected: Vec<_> = (0..blocks)
                .flat_map(|a| (a..blocks).map(move |b| (a, b)))
                .collect();
            assert_eq!(seen, expected);
        }
    }
}
