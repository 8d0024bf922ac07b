//! The `k` best rows for every row.
//!
//! Order: score descending, then id ascending. It is a total order, so the `k` best of a row are one definite
//! list however the blocks come in. Each candidate is packed into one `u64` whose natural order is that
//! order.
//!
//! Every row has a reservoir of `k` places and a quarter more. A candidate that beats the row's floor is
//! appended; when the reservoir is full, a selection throws all but the best `k` away and raises the floor.
//! That costs a few comparisons for each candidate at any `k`, where a heap would take `log k` unpredictable
//! ones.

use std::sync::Mutex;

use super::{CHUNK, Options};
use crate::blocks::{self, BLOCK_ROWS, Cut, Tile};
use hark_work::progress::Progress;
use hark_work::workers::lock;

use crate::{Error, Vectors};

/// For every row its nearest rows, best first: `ids` and `scores` are flat, and row `i` takes the places
/// `starts[i]..starts[i + 1]`. A row is shorter than `k` where fewer candidates exist.
#[derive(Debug, Clone, PartialEq)]
pub struct Neighbours {
    k: usize,
    starts: Vec<usize>,
    ids: Vec<u32>,
    scores: Vec<f32>,
}

impl Neighbours {
    /// The length asked for.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// Where each row starts in [`Neighbours::ids`] and [`Neighbours::scores`]; one more than rows, the last
    /// is their length.
    pub fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// The ids of all rows, one after the other.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The scores of all rows, one after the other.
    pub fn scores(&self) -> &[f32] {
        &self.scores
    }

    /// Ids and scores of one row, best first.
    ///
    /// # Panics
    ///
    /// When `row` is not below [`Neighbours::rows`], as indexing a slice does.
    pub fn row(&self, row: usize) -> (&[u32], &[f32]) {
        let range = self.starts[row]..self.starts[row + 1];
        (&self.ids[range.clone()], &self.scores[range])
    }

    /// Ids and scores of the rows in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u32], &[f32])> {
        (0..self.rows()).map(|row| self.row(row))
    }
}

/// The `k` rows with the largest inner product with each row, itself and its group left out; score
/// descending, then id ascending.
///
/// Takes, beyond vectors and result, a quarter of the size of the result and about 2 MB for each thread: 12
/// MB for 49 838 rows, `k` = 100 and two threads.
///
/// ```
/// use hark_nearest::{Vectors, exact};
/// use hark_work::progress::no_progress;
///
/// let vectors = Vectors::new(&[1.0, 0.0, 0.8, 0.6, 0.0, 1.0], 2)?;
/// let found = exact::neighbours(vectors, 1, exact::Options::default(), &no_progress)?;
/// assert_eq!(found.row(0), (&[1][..], &[0.8][..]));
/// assert_eq!(found.row(2), (&[1][..], &[0.6][..]));
/// # Ok::<(), hark_nearest::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::ZeroK`], [`Error::GroupsMismatch`], [`Error::TooLarge`], [`Error::Threads`], and
/// [`Error::Cancelled`] when `progress` says so.
pub fn neighbours(
    vectors: Vectors<'_>,
    k: usize,
    options: Options<'_>,
    progress: Progress<'_>,
) -> Result<Neighbours, Error> {
    in_blocks_of(BLOCK_ROWS, vectors, k, options, progress)
}

pub(super) fn in_blocks_of(
    block_rows: usize,
    vectors: Vectors<'_>,
    k: usize,
    options: Options<'_>,
    progress: Progress<'_>,
) -> Result<Neighbours, Error> {
    if k == 0 {
        return Err(Error::ZeroK);
    }
    options.check(vectors)?;
    let rows = vectors.rows();
    let cut = Cut::new(rows, block_rows);
    let shortlists = (0..cut.blocks())
        .map(|block| Shortlists::new(cut.range(block).len(), k, rows).map(Mutex::new))
        .collect::<Result<Vec<_>, _>>()?;
    blocks::pass(
        vectors,
        block_rows,
        options.threads,
        progress,
        || (),
        |(), tile| {
            // Blocks are always locked in ascending order, so no two workers can wait for each other.
            let mut first = lock(&shortlists[tile.first]);
            if tile.first == tile.second {
                offer_within(&mut first, tile, &options);
            } else {
                offer(&mut first, &mut lock(&shortlists[tile.second]), tile, &options);
            }
        },
    )?;
    collect(k, rows, shortlists)
}

/// The candidates of the rows of one block.
struct Shortlists {
    k: usize,
    /// Places for each row; more than `k` unless no row can have that many candidates.
    places: usize,
    /// `[rows, places]`, packed candidates.
    keys: Vec<u64>,
    /// Places taken in each row.
    taken: Vec<usize>,
    /// A candidate below this score cannot be among the best `k` of the row.
    floors: Vec<f32>,
}

impl Shortlists {
    fn new(rows: usize, k: usize, all_rows: usize) -> Result<Self, Error> {
        // A row has at most all others as candidates; then it never fills up and nothing is thrown away.
        let places = k.saturating_add((k / 4).max(16)).min(all_rows.saturating_sub(1));
        let mut keys = Vec::new();
        let size = rows.checked_mul(places);
        if size.is_none_or(|size| keys.try_reserve_exact(size).is_err()) {
            return Err(Error::TooLarge {
                rows: all_rows,
                width: k,
            });
        }
        keys.resize(rows * places, 0);
        Ok(Self {
            k,
            places,
            keys,
            taken: vec![0; rows],
            floors: vec![f32::NEG_INFINITY; rows],
        })
    }

    /// Appends a candidate to a row; the caller has tested it against the row's floor.
    #[inline]
    fn push(&mut self, row: usize, score: f32, id: usize) {
        let start = row * self.places;
        let taken = self.taken[row];
        self.keys[start + taken] = pack(score, id);
        self.taken[row] = taken + 1;
        if taken + 1 == self.places && self.places > self.k {
            let places = &mut self.keys[start..start + self.places];
            let (_, worst, _) = places.select_nth_unstable_by(self.k - 1, |a, b| b.cmp(a));
            self.floors[row] = unpack(*worst).0;
            self.taken[row] = self.k;
        }
    }
}

/// One number whose order is: score ascending, then id descending. Zeros of either sign are one score.
#[inline]
fn pack(score: f32, id: usize) -> u64 {
    // Adding zero turns -0.0 into 0.0. Flipping the sign bit of positive numbers, and all bits of negative
    // ones, makes the order of the bits the order of the numbers.
    let bits = (score + 0.0).to_bits();
    let ordered = bits ^ (((bits as i32 >> 31) as u32) | 0x8000_0000);
    (u64::from(ordered) << 32) | u64::from(!(id as u32))
}

fn unpack(key: u64) -> (f32, u32) {
    let ordered = (key >> 32) as u32;
    let bits = if ordered >> 31 == 1 {
        ordered ^ 0x8000_0000
    } else {
        !ordered
    };
    (f32::from_bits(bits), !(key as u32))
}

/// Offers every pair of a tile off the diagonal to both of its rows.
#[expect(
    clippy::needless_bitwise_bool,
    reason = "a lazy operator is a branch, and a branch stops vectorisation"
)]
fn offer(rows: &mut Shortlists, columns: &mut Shortlists, tile: &Tile<'_>, options: &Options<'_>) {
    for (i, start, scores) in tile.pairs() {
        debug_assert_eq!(start, 0, "the whole row lies off the diagonal");
        for first in (0..scores.len()).step_by(CHUNK) {
            let last = (first + CHUNK).min(scores.len());
            let row_floor = rows.floors[i];
            // No branch inside: the test over a chunk compiles to vector instructions.
            let any = scores[first..last]
                .iter()
                .zip(&columns.floors[first..last])
                .fold(false, |any, (&score, &floor)| {
                    any | (score >= row_floor) | (score >= floor)
                });
            if !any {
                continue;
            }
            for (j, &score) in (first..last).zip(&scores[first..last]) {
                let (to_row, to_column) = (score >= rows.floors[i], score >= columns.floors[j]);
                if !(to_row || to_column) {
                    continue;
                }
                let (a, b) = (tile.rows.start + i, tile.columns.start + j);
                if options.same_group(a, b) {
                    continue;
                }
                if to_row {
                    rows.push(i, score, b);
                }
                if to_column {
                    columns.push(j, score, a);
                }
            }
        }
    }
}

/// The same for a tile on the diagonal, where rows and columns are the same lists. There are few such tiles.
fn offer_within(lists: &mut Shortlists, tile: &Tile<'_>, options: &Options<'_>) {
    for (i, start, scores) in tile.pairs() {
        for (j, &score) in (start..).zip(scores) {
            let (a, b) = (tile.rows.start + i, tile.columns.start + j);
            if options.same_group(a, b) {
                continue;
            }
            if score >= lists.floors[i] {
                lists.push(i, score, b);
            }
            if score >= lists.floors[j] {
                lists.push(j, score, a);
            }
        }
    }
}

/// Sorts every list and cuts it to `k`. Each block's candidates are freed as soon as they are copied out.
fn collect(k: usize, rows: usize, shortlists: Vec<Mutex<Shortlists>>) -> Result<Neighbours, Error> {
    let mut starts = Vec::with_capacity(rows + 1);
    starts.push(0);
    let (mut ids, mut scores) = (Vec::<u32>::new(), Vec::<f32>::new());
    let most = k.min(rows.saturating_sub(1)).saturating_mul(rows);
    if ids.try_reserve_exact(most).is_err() || scores.try_reserve_exact(most).is_err() {
        return Err(Error::TooLarge { rows, width: k });
    }
    for lists in shortlists {
        let mut lists = lists
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        for (row, &taken) in lists.taken.iter().enumerate() {
            let start = row * lists.places;
            let keys = &mut lists.keys[start..start + taken];
            keys.sort_unstable_by(|a, b| b.cmp(a));
            for &key in keys.iter().take(k) {
                let (score, id) = unpack(key);
                scores.push(score);
                ids.push(id);
            }
            starts.push(ids.len());
        }
    }
    Ok(Neighbours {
        k,
        starts,
        ids,
        scores,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_order_is_score_then_id() {
        let scores = [f32::MIN, -2.5, -1e-40, 0.0, 1e-40, 0.5, 0.500_000_1, f32::MAX];
        for pair in scores.windows(2) {
            assert!(
                pack(pair[0], 0) < pack(pair[1], 9),
                "{} below {}",
                pair[0],
                pair[1]
            );
        }
        for score in scores {
            assert!(pack(score, 3) > pack(score, 4));
            assert_eq!(unpack(pack(score, 7)), (score, 7));
        }
        assert_eq!(pack(0.0, 5), pack(-0.0, 5));
    }
}
