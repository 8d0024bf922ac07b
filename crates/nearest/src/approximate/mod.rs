//! Nearly all of the nearest vectors at the cost of few comparisons: an index after Malkov and Yashunin, "Efficient and robust
//! approximate nearest neighbor search using hierarchical navigable small world graphs" (2018), by the library
//! `usearch`.
//!
//! In come vectors with keys; what counts of a vector is its direction, and one without, or with a number that is not
//! finite, is refused, as is a key that is there already. Out come keys and approximate cosines, best first. The
//! numbers are kept in 16 or in 8 bits ([`Quantization`]); whoever has the vectors ranks what was found by them
//! ([`crate::scan::dot`]) and asks for a few more than needed.
//!
//! Any number of threads may search at a time: [`SEARCHES`] walk the graph, others wait. Changes wait for one another
//! and for searches to end, and are made in small pieces between which searches get their turn.
//!
//! **Same vectors, same index?** Vectors that are added in the same order by calls with one thread give the same
//! bytes in the file and the same answers, whatever is searched meanwhile. With several threads, what becomes a
//! neighbour of what depends on which thread is faster: two builds differ in a few of their answers, and are equally
//! good.

mod file;
mod gate;

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::{ControlFlow, Range};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;
use usearch::{IndexOptions, MetricKind, ScalarKind};

use crate::kernels::{MAX_I8_DIM, pack_f16, pack_i8, packed_f16, packed_i8, set_metric_f16, set_metric_i8};
use crate::{Error, Vectors};
use file::Record;
use gate::Gate;

/// How many searches walk a graph at a time, and how many threads add to it. Each needs
/// separate memory, which is set aside for this many.
pub const SEARCHES: usize = 32;

/// From how many rows on an index is worth its while.
///
/// With vectors of 1,024 numbers and the default options, a search and ranking 20 candidates again took 0.11 ms in an
/// index of 2,000 vectors, 0.14 ms of 5,000, 0.17 ms of 10,000 and 0.22 ms of 20,000. [`crate::scan::nearest`] took
/// 0.10, 0.36, 1.9 and 4.9 ms on one thread, and on two, which share the way to the memory, 0.10, 0.55, 1.5 and 3.5 ms
/// (x86-64 with AVX2, two cores that others used too; the fastest twentieth of all queries). The index is faster from about
/// 2,500 rows on. Until there are four times as many a search of all rows stays below 2 ms, misses none, and spares the
/// kilobyte and the millisecond of building that each vector takes.
pub const MIN_ROWS_FOR_HNSW: usize = 10_000;

/// Vectors that a thread adds before searches get their turn: some hundredths of a second of work.
const PIECE: usize = 64;
/// The library's mark of a vector that was removed.
const RESERVED: u64 = u64::MAX;
/// The library numbers vectors in 32 bits.
const MAX: usize = u32::MAX as usize - 1;

/// How the numbers of vectors are kept in an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quantization {
    /// In 16 bits: cosines of vectors of 1,024 numbers are right to about 0.0001, and what was found needs no second
    /// ranking.
    F16,
    /// In 8 bits, with a scale for each vector: half the memory. Cosines are right to about 0.001. Ask for twice as
    /// many as are needed and rank them again; without that 1 to 2 in 100 of the ten nearest are missed, however hard
    /// the index searches.
    I8,
}

/// How an index is built and searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Options {
    /// The precision of stored vectors.
    pub quantization: Quantization,
    /// Neighbours that a vector is linked with: 2 to 256, and twice as many on the lowest level. More take memory and
    /// make hard sets searchable.
    pub links: usize,
    /// Candidates that are kept while the neighbours of a new vector are sought: 1 to 65,536. More make a better
    /// graph, more slowly.
    pub ef_construction: usize,
    /// Candidates that are kept in a search, or as many as are asked for: 1 to 65,536. More find more, more slowly.
    pub ef_search: usize,
}

/// 8 bits, 16 links, an effort of 128 while adding and of 64 while searching.
///
/// Chosen on the vectors of `bench/rows/search.py`. Of 100,000 of them it finds 99.9 in 100 of the ten nearest among 20
/// candidates that are ranked again (an effort of 32: 98.7; of 48: 99.9). At equal recall, 8 bits answer a quarter more
/// queries than 16, are built in two thirds of the time and take 1,176 bytes for each vector where 16 bits take 2,196.
impl Default for Options {
    fn default() -> Self {
        Self {
            quantization: Quantization::I8,
            links: 16,
            ef_construction: 128,
            ef_search: 64,
        }
    }
}

fn check(dim: usize, options: &Options) -> Result<(), Error> {
    if dim == 0 {
        return Err(Error::ZeroDimension);
    }
    let bounds = [
        ("the dimension", dim, 1, MAX_I8_DIM),
        ("the number of links", options.links, 2, 256),
        ("the effort of adding", options.ef_construction, 1, 1 << 16),
        ("the effort of searching", options.ef_search, 1, 1 << 16),
    ];
    for (what, got, least, most) in bounds {
        if !(least..=most).contains(&got) {
            return Err(Error::IndexOption {
                what,
                got,
                least,
                most,
            });
        }
    }
    Ok(())
}

/// Numbers in a packed vector.
fn words(numbers: Quantization, dim: usize) -> usize {
    match numbers {
        Quantization::F16 => packed_f16(dim),
        Quantization::I8 => packed_i8(dim),
    }
}

/// Places for vectors in the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Places {
    /// Those that were ever taken.
    taken: usize,
    /// Those whose vectors were removed. The next vectors go there.
    free: usize,
}

/// An index of vectors.
///
/// ```
/// use std::ops::ControlFlow;
/// use hark_nearest::Vectors;
/// use hark_nearest::approximate::{HnswIndex, Options};
///
/// let index = HnswIndex::new(2, Options::default())?;
/// let vectors = Vectors::new(&[1.0, 0.0, 0.8, 0.6, 0.0, 1.0], 2)?;
/// index.add(&[10, 11, 12], vectors, 1, &mut |_, _| ControlFlow::Continue(()))?;
/// let found = index.search(&[0.0, 2.0], 2, None)?;
/// assert_eq!(found.iter().map(|(key, _)| *key).collect::<Vec<_>>(), [12, 11]);
/// # Ok::<(), hark_nearest::Error>(())
/// ```
pub struct HnswIndex {
    native: usearch::Index,
    dim: usize,
    options: Options,
    read_only: bool,
    gate: Gate,
    /// Held by whoever changes or saves.
    places: Mutex<Places>,
    count: AtomicUsize,
}

impl std::fmt::Debug for HnswIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HnswIndex")
            .field("dim", &self.dim)
            .field("len", &self.len())
            .field("options", &self.options)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

impl HnswIndex {
    /// An empty index for vectors of `dim` numbers.
    ///
    /// # Errors
    ///
    /// [`Error::ZeroDimension`], [`Error::IndexOption`], and [`Error::Index`] where memory is short.
    pub fn new(dim: usize, options: Options) -> Result<Self, Error> {
        let mut native = native(dim, &options)?;
        measure(&mut native, dim, options.quantization);
        let empty = Record {
            dim,
            options,
            count: 0,
            slots: 0,
        };
        Ok(Self::of(native, empty, false))
    }

    fn of(native: usearch::Index, record: Record, read_only: bool) -> Self {
        Self {
            native,
            dim: record.dim,
            options: record.options,
            read_only,
            gate: Gate::new(SEARCHES),
            places: Mutex::new(Places {
                taken: record.slots,
                free: record.slots - record.count,
            }),
            count: AtomicUsize::new(record.count),
        }
    }

    /// Vectors in the index.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Numbers in a vector.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// How it is built and searched.
    pub fn options(&self) -> Options {
        self.options
    }

    /// Changes how hard it searches from now on, in this process and in files that are saved later.
    ///
    /// # Errors
    ///
    /// [`Error::IndexOption`].
    pub fn set_effort_searching(&mut self, effort: usize) -> Result<(), Error> {
        let options = Options {
            ef_search: effort,
            ..self.options
        };
        check(self.dim, &options)?;
        self.options = options;
        self.native.change_expansion_search(effort);
        Ok(())
    }

    /// Whether a vector has this key.
    pub fn contains(&self, key: u64) -> bool {
        key != RESERVED && self.native.contains(key)
    }

    /// Adds vectors, each under its key, on at most `threads` threads ([`SEARCHES`] at most).
    ///
    /// `progress` counts vectors and may cancel; what was added by then stays. It
    /// may search, but must neither change nor save this index, which would wait for itself.
    ///
    /// # Errors
    ///
    /// Before anything is added: [`Error::IndexReadOnly`], [`Error::DimensionMismatch`], [`Error::KeysMismatch`],
    /// [`Error::ZeroVector`], [`Error::KeyReserved`], [`Error::DuplicateKey`], [`Error::KeyTaken`],
    /// [`Error::IndexFull`], [`Error::Threads`]. On the way: [`Error::AddingStopped`], and [`Error::Index`] where
    /// memory is short; what was added stays.
    pub fn add(
        &self,
        keys: &[u64],
        vectors: Vectors<'_>,
        threads: usize,
        progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let mut places = self.lock_for_change()?;
        self.check_new(keys, vectors)?;
        let rows = vectors.rows();
        let needed = places.taken + rows.saturating_sub(places.free);
        if needed > MAX {
            return Err(Error::IndexFull {
                got: needed,
                limit: MAX,
            });
        }
        let threads = threads.clamp(1, SEARCHES);
        let pool = (threads > 1).then(|| pool(threads)).transpose()?;
        for start in (0..rows).step_by(PIECE * threads) {
            let piece = start..rows.min(start + PIECE * threads);
            let end = piece.end;
            self.add_piece(keys, vectors, piece, needed, pool.as_ref(), &mut places)?;
            if progress(end as u64, rows as u64).is_break() && end < rows {
                return Err(Error::AddingStopped {
                    added: end as u64,
                    total: rows as u64,
                });
            }
        }
        Ok(())
    }

    fn check_new(&self, keys: &[u64], vectors: Vectors<'_>) -> Result<(), Error> {
        if vectors.dim() != self.dim {
            return Err(Error::DimensionMismatch {
                expected: self.dim,
                got: vectors.dim(),
            });
        }
        if keys.len() != vectors.rows() {
            return Err(Error::KeysMismatch {
                expected: vectors.rows(),
                got: keys.len(),
            });
        }
        if let Some(row) = vectors.iter().position(|vector| direction(vector).is_none()) {
            return Err(Error::ZeroVector { row });
        }
        let mut seen = HashMap::with_capacity(keys.len());
        for (row, &key) in keys.iter().enumerate() {
            if key == RESERVED {
                return Err(Error::KeyReserved { row, key });
            }
            if let Some(first) = seen.insert(key, row) {
                return Err(Error::DuplicateKey { first, second: row });
            }
            if self.native.contains(key) {
                return Err(Error::KeyTaken { row, key });
            }
        }
        Ok(())
    }

    fn add_piece(
        &self,
        keys: &[u64],
        vectors: Vectors<'_>,
        piece: Range<usize>,
        needed: usize,
        pool: Option<&rayon::ThreadPool>,
        places: &mut Places,
    ) -> Result<(), Error> {
        let _alone = self.gate.change();
        // Also where there is room enough: the library hands its working memory out in turn, levels are drawn from
        // it, and this makes the turn begin anew, whatever was searched meanwhile.
        let capacity = self.native.capacity();
        let room = if needed > capacity {
            needed.max(capacity + capacity / 4).min(MAX)
        } else {
            capacity
        };
        self.native
            .reserve_capacity_and_threads(room, SEARCHES)
            .map_err(failed)?;
        let added = AtomicUsize::new(0);
        let one = |row: usize| -> Result<(), Error> {
            self.add_one(keys[row], vectors.row(row))?;
            added.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let done = match pool {
            Some(pool) => pool.install(|| piece.into_par_iter().with_max_len(1).try_for_each(one)),
            None => piece.into_iter().try_for_each(one),
        };
        let added = added.into_inner();
        self.count.fetch_add(added, Ordering::AcqRel);
        let reused = added.min(places.free);
        places.free -= reused;
        places.taken += added - reused;
        done
    }

    fn add_one(&self, key: u64, vector: &[f32]) -> Result<(), Error> {
        match self.options.quantization {
            Quantization::F16 => {
                let packed = pack_f16(vector, direction(vector).unwrap_or(0.0));
                self.native.add(key, usearch::f16::from_i16s(&packed))
            }
            Quantization::I8 => self.native.add(key, &pack_i8(vector)),
        }
        .map_err(failed)
    }

    /// Removes the vector of a key; whether there was one. The next vector that is added takes its place.
    ///
    /// # Errors
    ///
    /// [`Error::IndexReadOnly`], and [`Error::Index`] where memory is short.
    pub fn remove(&self, key: u64) -> Result<bool, Error> {
        let mut places = self.lock_for_change()?;
        if !self.contains(key) {
            return Ok(false);
        }
        let _alone = self.gate.change();
        let removed = self.native.remove(key).map_err(failed)?;
        places.free += removed;
        self.count.fetch_sub(removed, Ordering::AcqRel);
        Ok(removed > 0)
    }

    /// The keys whose vectors are nearest to `query`, at most `k`, with approximate cosines: best first, equal ones
    /// by key.
    ///
    /// `allow` says of a key whether it may be found; the search walks over those that may not. If fewer may than the
    /// effort of searching, or nearly so, it walks over the whole graph, and [`crate::scan::nearest`] is faster.
    ///
    /// # Errors
    ///
    /// [`Error::ZeroK`], [`Error::DimensionMismatch`], [`Error::QueryNotFinite`], [`Error::ZeroQuery`], and
    /// [`Error::Index`] where memory is short.
    ///
    /// # Panics
    ///
    /// If `allow` does.
    pub fn search(
        &self,
        query: &[f32],
        k: usize,
        allow: Option<&(dyn Fn(u64) -> bool + Sync)>,
    ) -> Result<Vec<(u64, f32)>, Error> {
        if k == 0 {
            return Err(Error::ZeroK);
        }
        if query.len() != self.dim {
            return Err(Error::DimensionMismatch {
                expected: self.dim,
                got: query.len(),
            });
        }
        if let Some(position) = query.iter().position(|value| !value.is_finite()) {
            return Err(Error::QueryNotFinite {
                position,
                value: query[position],
            });
        }
        let scale = direction(query).ok_or(Error::ZeroQuery)?;
        match self.options.quantization {
            Quantization::F16 => {
                self.search_packed(usearch::f16::from_i16s(&pack_f16(query, scale)), k, allow)
            }
            Quantization::I8 => self.search_packed(&pack_i8(query), k, allow),
        }
    }

    fn search_packed<T: usearch::VectorType>(
        &self,
        query: &[T],
        k: usize,
        allow: Option<&(dyn Fn(u64) -> bool + Sync)>,
    ) -> Result<Vec<(u64, f32)>, Error> {
        let here = self.gate.search();
        let k = k.min(self.len());
        if k == 0 {
            return Ok(Vec::new());
        }
        let found = match allow {
            None => self.native.search(query, k),
            Some(allow) => {
                // A panic must not pass through code of another language: it is held up here and goes on below.
                let panicked: RefCell<Option<Box<dyn Any + Send>>> = RefCell::new(None);
                let careful = |key| match catch_unwind(AssertUnwindSafe(|| allow(key))) {
                    Ok(allowed) => allowed,
                    Err(panic) => {
                        panicked.replace(Some(panic));
                        false
                    }
                };
                let found = self.native.filtered_search(query, k, careful);
                if let Some(panic) = panicked.into_inner() {
                    drop(here);
                    resume_unwind(panic);
                }
                found
            }
        }
        .map_err(failed)?;
        let mut found: Vec<(u64, f32)> = found
            .keys
            .into_iter()
            .zip(found.distances.into_iter().map(|distance| 1.0 - distance))
            .collect();
        found.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        Ok(found)
    }

    /// Writes the index to a file, which takes the place of what was there only when it is complete and on the disk.
    ///
    /// # Errors
    ///
    /// [`Error::IndexNotWritten`], [`Error::PathNotUnicode`].
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let places = self.lock();
        let record = Record {
            dim: self.dim,
            options: self.options,
            count: self.len(),
            slots: places.taken,
        };
        file::write(path, record, |unfinished| {
            if places.taken == 0 {
                return Ok(0);
            }
            let saved = self.native.save(unfinished);
            saved.map_err(|error| file::not_written(path, error))?;
            Ok(self.native.serialized_length())
        })
    }

    /// Opens a file for reading. It is checked, then mapped: the system reads what searches need, and may drop it
    /// again when memory is short. The file may be replaced while it is open, as [`HnswIndex::save`] does; it must not be
    /// written to in place.
    ///
    /// # Errors
    ///
    /// [`Error::IndexFile`], [`Error::PathNotUnicode`]; [`Error::NotAnIndex`], [`Error::IndexVersion`] and
    /// [`Error::IndexDamaged`] for what is in it; [`Error::Index`] where memory is short.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::from_file(path, true)
    }

    /// Reads a file into memory. The index can be added to.
    ///
    /// # Errors
    ///
    /// Those of [`HnswIndex::open`].
    pub fn load(path: &Path) -> Result<Self, Error> {
        Self::from_file(path, false)
    }

    fn from_file(path: &Path, read_only: bool) -> Result<Self, Error> {
        let text = file::text_of(path)?;
        let record = file::read(path)?;
        let Record { dim, options, .. } = record;
        let mut native = native(dim, &options)?;
        if record.slots > 0 {
            if read_only {
                native.view(text).map_err(failed)?;
            } else {
                native.load(text).map_err(failed)?;
            }
            // The file may have been replaced since it was checked: then it is another sound file, but of what?
            let expected = (
                words(options.quantization, dim),
                scalar(options.quantization),
                record.count,
                false,
            );
            if (
                native.dimensions(),
                native.scalar_kind(),
                native.size(),
                native.multi(),
            ) != expected
            {
                return Err(Error::IndexDamaged {
                    path: path.to_owned(),
                    what: "it holds other vectors than its record says",
                });
            }
        }
        measure(&mut native, dim, options.quantization);
        Ok(Self::of(native, record, read_only))
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        // A panic of somebody's progress leaves the places as they are.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_for_change(&self) -> Result<MutexGuard<'_, Places>, Error> {
        if self.read_only {
            return Err(Error::IndexReadOnly);
        }
        Ok(self.lock())
    }
}

fn native(dim: usize, options: &Options) -> Result<usearch::Index, Error> {
    check(dim, options)?;
    let native = usearch::Index::new(&IndexOptions {
        dimensions: words(options.quantization, dim),
        metric: MetricKind::IP,
        quantization: scalar(options.quantization),
        connectivity: options.links,
        expansion_add: options.ef_construction,
        expansion_search: options.ef_search,
        multi: false,
    })
    .map_err(failed)?;
    native.reserve_capacity_and_threads(0, SEARCHES).map_err(failed)?;
    Ok(native)
}

/// The library's name for the numbers.
fn scalar(numbers: Quantization) -> ScalarKind {
    match numbers {
        Quantization::F16 => ScalarKind::F16,
        Quantization::I8 => ScalarKind::I8,
    }
}

/// Gives the index our metric. Reading a file would replace it by the library's own.
fn measure(native: &mut usearch::Index, dim: usize, numbers: Quantization) {
    match numbers {
        Quantization::F16 => set_metric_f16(native, words(numbers, dim)),
        Quantization::I8 => set_metric_i8(native, words(numbers, dim)),
    }
}

/// What makes a unit vector of this one; none if it is zero. Sums and squares are in 64 bits, where no vector of
/// 32-bit numbers is too short or too long.
fn direction(vector: &[f32]) -> Option<f32> {
    let squares: f64 = vector
        .iter()
        .map(|&value| f64::from(value) * f64::from(value))
        .sum();
    let scale = (1.0 / squares.sqrt()) as f32;
    (squares > 0.0 && scale.is_finite() && scale > 0.0).then_some(scale)
}

fn pool(threads: usize) -> Result<rayon::ThreadPool, Error> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|error| Error::Threads {
            threads,
            reason: error.to_string(),
        })
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Index {
        reason: error.to_string(),
    }
}

#[cfg(test)]
mod tests;
