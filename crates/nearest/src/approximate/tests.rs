use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use super::*;

const BOTH: [Quantization; 2] = [Quantization::F16, Quantization::I8];

/// Vectors around centres, as the sounds of a library are around kinds. A mixed counter is the only source of chance.
struct Cluster {
    dim: usize,
    state: u64,
    centres: Vec<Vec<f32>>,
}

impl Cluster {
    fn new(dim: usize, centres: usize, seed: u64) -> Self {
        let mut all = Self {
            dim,
            state: seed,
            centres: Vec::new(),
        };
        all.centres = (0..centres).map(|_| all.normal()).collect();
        all
    }

    fn uniform(&mut self) -> f32 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 40) as f32 / (1_u64 << 24) as f32
    }

    /// Near enough to normal: the sum of four uniform numbers.
    fn normal(&mut self) -> Vec<f32> {
        (0..self.dim)
            .map(|_| (0..4).map(|_| self.uniform() - 0.5).sum())
            .collect()
    }

    fn vectors(&mut self, count: usize) -> Vec<f32> {
        let mut out = Vec::with_capacity(count * self.dim);
        for _ in 0..count {
            let centre = (self.uniform() * self.centres.len() as f32) as usize;
            let noise = self.normal();
            out.extend(
                self.centres[centre]
                    .iter()
                    .zip(noise)
                    .map(|(centre, noise)| centre + 0.6 * noise),
            );
        }
        out
    }
}

fn never(_: u64, _: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn options(quantization: Quantization) -> Options {
    Options {
        quantization,
        ..Options::default()
    }
}

/// An index of these vectors, whose keys are their rows plus `first`.
fn built(vectors: &[f32], dim: usize, options: Options, threads: usize) -> HnswIndex {
    let index = HnswIndex::new(dim, options).unwrap();
    let keys: Vec<u64> = (0..(vectors.len() / dim) as u64).collect();
    index
        .add(&keys, Vectors::new(vectors, dim).unwrap(), threads, &mut never)
        .unwrap();
    index
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let sum = |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum() };
    sum(a, b) / (sum(a, a) * sum(b, b)).sqrt()
}

/// The keys of the k nearest of those in the map, by the formula.
fn exact(vectors: &HashMap<u64, Vec<f32>>, query: &[f32], k: usize) -> HashSet<u64> {
    let mut all: Vec<(f64, u64)> = vectors
        .iter()
        .map(|(&key, vector)| (-cosine(vector, query), key))
        .collect();
    all.sort_by(|a, b| a.partial_cmp(b).unwrap());
    all.into_iter().take(k).map(|(_, key)| key).collect()
}

fn by_key(vectors: &[f32], dim: usize) -> HashMap<u64, Vec<f32>> {
    vectors
        .chunks_exact(dim)
        .enumerate()
        .map(|(row, vector)| (row as u64, vector.to_vec()))
        .collect()
}

/// The share of the ten nearest that are among the first `k` found.
fn recall(index: &HnswIndex, vectors: &HashMap<u64, Vec<f32>>, queries: &[f32], k: usize) -> f64 {
    let (mut hits, mut all) = (0, 0);
    for query in queries.chunks_exact(index.dim()) {
        let found = index.search(query, k, None).unwrap();
        assert!(found.windows(2).all(|pair| pair[0].1 >= pair[1].1), "best first");
        let expected = exact(vectors, query, 10);
        hits += found.iter().filter(|(key, _)| expected.contains(key)).count();
        all += expected.len();
    }
    f64::from(hits as u32) / f64::from(all as u32)
}

#[test]
fn nearly_all_neighbours_are_found() {
    let mut cluster = Cluster::new(48, 30, 1);
    let (vectors, queries) = (cluster.vectors(3000), cluster.vectors(100));
    for numbers in BOTH {
        for threads in [1, 3] {
            let index = built(&vectors, 48, options(numbers), threads);
            assert_eq!(index.len(), 3000);
            // Among twice as many as are wanted, as a caller who ranks them again would ask.
            let recall = recall(&index, &by_key(&vectors, 48), &queries, 20);
            assert!(recall >= 0.98, "{numbers:?}, {threads} threads: {recall}");
        }
    }
}

/// Cosines are those of the formula, within what the numbers are rounded by.
#[test]
fn scores_are_cosines() {
    let mut cluster = Cluster::new(100, 5, 2);
    let (vectors, queries) = (cluster.vectors(200), cluster.vectors(10));
    // 8 bits: see `packed_vectors_give_the_cosine` in the kernels for the bound; these vectors' largest numbers are
    // about three times their mean ones.
    for (numbers, allowed) in [(Quantization::F16, 1e-3), (Quantization::I8, 1.5e-2)] {
        let index = built(&vectors, 100, options(numbers), 1);
        for query in queries.chunks_exact(100) {
            for (key, score) in index.search(query, 20, None).unwrap() {
                let row = key as usize;
                let expected = cosine(&vectors[row * 100..(row + 1) * 100], query);
                assert!(
                    (f64::from(score) - expected).abs() <= allowed,
                    "{numbers:?}: {score}, not {expected}"
                );
            }
        }
    }
}

/// The length of a vector and of a query does not matter, however small or large.
#[test]
fn only_directions_count() {
    let mut cluster = Cluster::new(20, 10, 3);
    let (vectors, queries) = (cluster.vectors(300), cluster.vectors(20));
    for numbers in BOTH {
        let plain = built(&vectors, 20, options(numbers), 1);
        let stretched: Vec<f32> = vectors.iter().map(|value| value * 16_777_216.0).collect();
        let stretched = built(&stretched, 20, options(numbers), 1);
        for query in queries.chunks_exact(20) {
            let tiny: Vec<f32> = query.iter().map(|value| value / 1_073_741_824.0).collect();
            assert_eq!(
                plain.search(query, 5, None).unwrap(),
                stretched.search(&tiny, 5, None).unwrap()
            );
        }
    }
}

fn bytes_of(index: &HnswIndex) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    index.save(&path).unwrap();
    fs::read(path).unwrap()
}

/// One thread: the same bytes, also if others search meanwhile.
#[test]
fn one_thread_gives_the_same_index() {
    let mut cluster = Cluster::new(24, 10, 4);
    let vectors = cluster.vectors(800);
    for numbers in BOTH {
        let quiet = built(&vectors, 24, options(numbers), 1);
        let busy = HnswIndex::new(24, options(numbers)).unwrap();
        let keys: Vec<u64> = (0..800).collect();
        let mut search = |done: u64, _: u64| {
            for nth in 0..done % 7 {
                busy.search(&vectors[nth as usize * 24..][..24], 3, None).unwrap();
            }
            ControlFlow::Continue(())
        };
        busy.add(&keys, Vectors::new(&vectors, 24).unwrap(), 1, &mut search)
            .unwrap();
        assert!(bytes_of(&quiet) == bytes_of(&busy), "{numbers:?}");
    }
}

#[test]
fn a_filter_is_kept_to() {
    let mut cluster = Cluster::new(16, 10, 5);
    let (vectors, queries) = (cluster.vectors(1000), cluster.vectors(20));
    for numbers in BOTH {
        let index = built(&vectors, 16, options(numbers), 1);
        let some: HashMap<u64, Vec<f32>> = by_key(&vectors, 16)
            .into_iter()
            .filter(|(key, _)| key.is_multiple_of(5))
            .collect();
        let (mut hits, mut all) = (0, 0);
        for query in queries.chunks_exact(16) {
            let found = index
                .search(query, 20, Some(&|key| key.is_multiple_of(5)))
                .unwrap();
            assert_eq!(found.len(), 20);
            assert!(found.iter().all(|(key, _)| key.is_multiple_of(5)));
            let expected = exact(&some, query, 10);
            hits += found.iter().filter(|(key, _)| expected.contains(key)).count();
            all += 10;
        }
        assert!(hits * 100 >= all * 97, "{hits} of {all}");
        assert_eq!(index.search(&queries[..16], 5, Some(&|_| false)).unwrap(), []);
    }
}

#[test]
fn a_panic_of_the_filter_comes_through() {
    let index = built(&Cluster::new(8, 3, 6).vectors(50), 8, Options::default(), 1);
    let search = || {
        index.search(
            &[1.0; 8],
            5,
            Some(&|key| if key < 1000 { panic!("no") } else { true }),
        )
    };
    let panic = catch_unwind(AssertUnwindSafe(search)).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"no"));
    // And the index is as good as before.
    assert_eq!(index.search(&[1.0; 8], 5, None).unwrap().len(), 5);
    assert!(index.remove(3).unwrap());
}

/// Half of the vectors are replaced, again and again: what is there is found, what is gone is not.
#[test]
fn vectors_come_and_go() {
    let mut cluster = Cluster::new(32, 20, 7);
    let first = cluster.vectors(1000);
    for numbers in BOTH {
        let index = built(&first, 32, options(numbers), 1);
        let mut present = by_key(&first, 32);
        let mut next = 1000_u64;
        for round in 0..4_u64 {
            let gone: Vec<u64> = {
                let mut keys: Vec<u64> = present.keys().copied().collect();
                keys.sort_unstable();
                keys.into_iter().skip(round as usize % 2).step_by(2).collect()
            };
            for key in &gone {
                assert!(index.contains(*key) && index.remove(*key).unwrap());
                assert!(!index.contains(*key) && !index.remove(*key).unwrap());
                present.remove(key);
            }
            assert_eq!(index.len(), present.len());
            let fresh = cluster.vectors(gone.len());
            let keys: Vec<u64> = (next..next + gone.len() as u64).collect();
            next += gone.len() as u64;
            let threads = 1 + round as usize % 3;
            index
                .add(&keys, Vectors::new(&fresh, 32).unwrap(), threads, &mut never)
                .unwrap();
            present.extend(
                keys.iter()
                    .copied()
                    .zip(fresh.chunks_exact(32).map(<[f32]>::to_vec)),
            );
            assert_eq!(index.len(), 1000);
            // Places are taken again: the graph has not grown.
            assert_eq!(*index.lock(), Places { taken: 1000, free: 0 });
        }
        let queries = cluster.vectors(50);
        let recall = recall(&index, &present, &queries, 20);
        assert!(recall >= 0.97, "{numbers:?}: {recall}");
    }
}

#[test]
fn an_index_may_become_empty_and_be_filled_again() {
    let vectors = Cluster::new(12, 4, 8).vectors(40);
    for numbers in BOTH {
        let index = built(&vectors, 12, options(numbers), 1);
        for key in 0..40 {
            assert!(index.remove(key).unwrap());
        }
        assert!(index.is_empty());
        assert_eq!(index.search(&[1.0; 12], 3, None).unwrap(), []);
        let keys: Vec<u64> = (100..140).collect();
        index
            .add(&keys, Vectors::new(&vectors, 12).unwrap(), 2, &mut never)
            .unwrap();
        let found = index.search(&vectors[..12], 40, None).unwrap();
        assert_eq!(found[0].0, 100);
        assert!(found.len() >= 39, "{}", found.len());
    }
}

#[test]
fn bad_input_is_refused_before_anything_is_added() {
    assert_eq!(
        HnswIndex::new(0, Options::default()).unwrap_err(),
        Error::ZeroDimension
    );
    for (options, what) in [
        (
            Options {
                links: 1,
                ..Options::default()
            },
            "the number of links",
        ),
        (
            Options {
                ef_construction: 0,
                ..Options::default()
            },
            "the effort of adding",
        ),
        (
            Options {
                ef_search: usize::MAX,
                ..Options::default()
            },
            "the effort of searching",
        ),
    ] {
        let fault = HnswIndex::new(3, options).unwrap_err();
        assert!(
            matches!(fault, Error::IndexOption { what: got, .. } if got == what),
            "{fault}"
        );
    }
    assert!(matches!(
        HnswIndex::new(usize::MAX, Options::default()),
        Err(Error::IndexOption { .. })
    ));

    let mut index = built(&[1.0, 0.0, 0.0, 1.0], 2, Options::default(), 1);
    let add = |keys: &[u64], numbers: &[f32], dim: usize| {
        index
            .add(keys, Vectors::new(numbers, dim).unwrap(), 1, &mut never)
            .unwrap_err()
    };
    assert_eq!(
        add(&[7], &[1.0; 3], 3),
        Error::DimensionMismatch { expected: 2, got: 3 }
    );
    assert_eq!(
        add(&[7], &[1.0; 4], 2),
        Error::KeysMismatch { expected: 2, got: 1 }
    );
    assert_eq!(
        add(&[7, 8], &[1.0, 1.0, 0.0, 0.0], 2),
        Error::ZeroVector { row: 1 }
    );
    assert_eq!(
        add(&[7, 7], &[1.0; 4], 2),
        Error::DuplicateKey { first: 0, second: 1 }
    );
    assert_eq!(add(&[7, 1], &[1.0; 4], 2), Error::KeyTaken { row: 1, key: 1 });
    assert_eq!(
        add(&[7, u64::MAX], &[1.0; 4], 2),
        Error::KeyReserved {
            row: 1,
            key: u64::MAX
        }
    );
    assert_eq!(
        (index.len(), index.contains(7), index.contains(u64::MAX)),
        (2, false, false)
    );
    assert!(!index.remove(u64::MAX).unwrap());

    assert_eq!(index.search(&[1.0, 0.0], 0, None), Err(Error::ZeroK));
    assert_eq!(
        index.search(&[1.0], 1, None),
        Err(Error::DimensionMismatch { expected: 2, got: 1 })
    );
    assert_eq!(index.search(&[0.0, 0.0], 1, None), Err(Error::ZeroQuery));
    assert!(matches!(
        index.search(&[0.0, f32::INFINITY], 1, None),
        Err(Error::QueryNotFinite { position: 1, .. })
    ));
    assert_eq!(index.search(&[1.0, 0.1], usize::MAX, None).unwrap().len(), 2);
    assert!(index.set_effort_searching(0).is_err());
    assert!(
        HnswIndex::new(2, Options::default())
            .unwrap()
            .search(&[1.0, 0.0], 5, None)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn adding_can_be_stopped() {
    let vectors = Cluster::new(8, 3, 9).vectors(500);
    let index = HnswIndex::new(8, Options::default()).unwrap();
    let keys: Vec<u64> = (0..500).collect();
    let mut told = Vec::new();
    let mut stop = |done: u64, total: u64| {
        told.push((done, total));
        if done >= 128 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let fault = index
        .add(&keys, Vectors::new(&vectors, 8).unwrap(), 1, &mut stop)
        .unwrap_err();
    assert_eq!(
        fault,
        Error::AddingStopped {
            added: 128,
            total: 500
        }
    );
    assert_eq!(told, [(64, 500), (128, 500)]);
    assert_eq!(index.len(), 128);
    // What is missing can be added later.
    let rest = Vectors::new(&vectors[128 * 8..], 8).unwrap();
    index.add(&keys[128..], rest, 1, &mut never).unwrap();
    assert_eq!(index.len(), 500);
}

/// More threads search than there are places for, while vectors are added and removed.
#[test]
fn many_search_while_one_changes() {
    let vectors = Cluster::new(16, 10, 10).vectors(1500);
    let index = built(&vectors[..500 * 16], 16, Options::default(), 1);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..SEARCHES + 16 {
            let (index, vectors, done) = (&index, &vectors, &done);
            scope.spawn(move || {
                let mut row = thread;
                let mut searched = 0;
                while !done.load(Ordering::Relaxed) || searched == 0 {
                    row = (row + 37) % 400 + 100;
                    let found = index.search(&vectors[row * 16..(row + 1) * 16], 5, None).unwrap();
                    // Its own vector, or one that is as near within the rounding to 8 bits.
                    assert!(found[0].1 > 0.99);
                    searched += 1;
                }
            });
        }
        let keys: Vec<u64> = (500..1500).collect();
        index
            .add(
                &keys,
                Vectors::new(&vectors[500 * 16..], 16).unwrap(),
                2,
                &mut never,
            )
            .unwrap();
        for key in 0..100 {
            assert!(index.remove(key).unwrap());
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(index.len(), 1400);
}

struct Saved {
    folder: tempfile::TempDir,
}

impl Saved {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("near.index")
    }
}

#[test]
fn a_saved_index_answers_the_same() {
    let mut cluster = Cluster::new(33, 10, 11);
    let (vectors, queries) = (cluster.vectors(600), cluster.vectors(30));
    for numbers in BOTH {
        let saved = Saved::new();
        let mut index = built(
            &vectors,
            33,
            Options {
                links: 12,
                ..options(numbers)
            },
            1,
        );
        index.set_effort_searching(50).unwrap();
        for key in [3, 77, 500] {
            index.remove(key).unwrap();
        }
        index.save(&saved.path()).unwrap();
        let (opened, loaded) = (
            HnswIndex::open(&saved.path()).unwrap(),
            HnswIndex::load(&saved.path()).unwrap(),
        );
        for other in [&opened, &loaded] {
            assert_eq!(
                (other.len(), other.dim(), other.options()),
                (597, 33, index.options())
            );
            assert!(other.contains(4) && !other.contains(77));
            for query in queries.chunks_exact(33) {
                assert_eq!(
                    other.search(query, 10, None).unwrap(),
                    index.search(query, 10, None).unwrap()
                );
            }
            assert!(bytes_of(other) == bytes_of(&index), "saved again, it is the same");
        }
        let one = Vectors::new(&queries[..33], 33).unwrap();
        assert_eq!(opened.add(&[9000], one, 1, &mut never), Err(Error::IndexReadOnly));
        assert_eq!(opened.remove(4), Err(Error::IndexReadOnly));

        // A loaded one can be added to: first the free places, then new ones, and saved over the file that is open.
        let keys: Vec<u64> = (9000..9030).collect();
        loaded
            .add(&keys, Vectors::new(&queries, 33).unwrap(), 1, &mut never)
            .unwrap();
        assert_eq!(*loaded.lock(), Places { taken: 627, free: 0 });
        assert_eq!(loaded.search(&queries[..33], 1, None).unwrap()[0].0, 9000);
        loaded.save(&saved.path()).unwrap();
        assert_eq!(opened.len(), 597);
        assert_eq!(
            opened.search(&queries[..33], 10, None).unwrap(),
            index.search(&queries[..33], 10, None).unwrap()
        );
        assert_eq!(HnswIndex::open(&saved.path()).unwrap().len(), 627);
        assert_eq!(
            fs::read_dir(saved.folder.path()).unwrap().count(),
            1,
            "nothing else is left"
        );
    }
}

#[test]
fn an_empty_index_can_be_saved() {
    let saved = Saved::new();
    HnswIndex::new(5, Options::default())
        .unwrap()
        .save(&saved.path())
        .unwrap();
    assert!(
        HnswIndex::open(&saved.path())
            .unwrap()
            .search(&[1.0; 5], 3, None)
            .unwrap()
            .is_empty()
    );
    let loaded = HnswIndex::load(&saved.path()).unwrap();
    loaded
        .add(&[1], Vectors::new(&[1.0; 5], 5).unwrap(), 1, &mut never)
        .unwrap();
    // All removed is another kind of empty: the graph has places.
    loaded.remove(1).unwrap();
    loaded.save(&saved.path()).unwrap();
    assert!(
        HnswIndex::open(&saved.path())
            .unwrap()
            .search(&[1.0; 5], 3, None)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn what_cannot_be_written_leaves_what_was_there() {
    let saved = Saved::new();
    let index = built(&[1.0, 2.0], 2, Options::default(), 1);
    let nowhere = saved.folder.path().join("no such folder").join("index");
    assert!(matches!(index.save(&nowhere), Err(Error::IndexNotWritten { .. })));
    assert!(matches!(HnswIndex::open(&nowhere), Err(Error::IndexFile { .. })));
    fs::create_dir(saved.path()).unwrap();
    assert!(index.save(&saved.path()).is_err(), "a folder is not replaced");
    assert!(HnswIndex::open(&saved.path()).is_err());
    assert_eq!(fs::read_dir(saved.folder.path()).unwrap().count(), 1);
}

fn both_ways(path: &Path) -> [Result<HnswIndex, Error>; 2] {
    [HnswIndex::open(path), HnswIndex::load(path)]
}

#[test]
fn a_foreign_file_is_refused() {
    let saved = Saved::new();
    for content in [&b""[..], b"harknear", b"no index at all", &[0; 64], &[0xff; 4096]] {
        fs::write(saved.path(), content).unwrap();
        for opened in both_ways(&saved.path()) {
            assert_eq!(opened.unwrap_err(), Error::NotAnIndex { path: saved.path() });
        }
    }
}

/// Every byte of a small file, changed; and the file, cut at every length.
#[test]
fn a_damaged_file_is_refused() {
    let saved = Saved::new();
    for numbers in BOTH {
        let vectors = Cluster::new(7, 3, 12).vectors(12);
        built(
            &vectors,
            7,
            Options {
                links: 3,
                ..options(numbers)
            },
            1,
        )
        .save(&saved.path())
        .unwrap();
        let whole = fs::read(saved.path()).unwrap();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1 << (at % 8);
            fs::write(saved.path(), &changed).unwrap();
            let fault = HnswIndex::open(&saved.path()).unwrap_err();
            assert!(
                matches!(fault, Error::IndexDamaged { .. } | Error::NotAnIndex { .. }),
                "{at}: {fault}"
            );
            fs::write(saved.path(), &whole[..at]).unwrap();
            assert!(HnswIndex::load(&saved.path()).is_err(), "cut at {at}");
        }
    }
}

#[test]
fn another_version_is_named() {
    let saved = Saved::new();
    built(&[1.0, 2.0], 2, Options::default(), 1)
        .save(&saved.path())
        .unwrap();
    let mut bytes = fs::read(saved.path()).unwrap();
    let at = bytes.len() - 64;
    bytes[at + 8] = 9;
    seal(&mut bytes);
    fs::write(saved.path(), bytes).unwrap();
    let expected = Error::IndexVersion {
        path: saved.path(),
        expected: 1,
        got: 9,
    };
    assert_eq!(HnswIndex::open(&saved.path()).unwrap_err(), expected);
}

/// Makes both checksums right.
fn seal(bytes: &mut [u8]) {
    let at = bytes.len() - 64;
    let crc = crc32fast::hash(&bytes[..at]).to_le_bytes();
    bytes[at + 52..at + 56].copy_from_slice(&crc);
    let crc = crc32fast::hash(&bytes[at..at + 60]).to_le_bytes();
    bytes[at + 60..].copy_from_slice(&crc);
}

/// Somebody who changes a file and makes its checksums right gets an error, or an index that can be searched and
/// added to: no crash.
#[test]
fn a_forged_file_does_no_harm() {
    let saved = Saved::new();
    let mut refused = 0;
    for numbers in BOTH {
        let vectors = Cluster::new(7, 3, 13).vectors(9);
        let index = built(
            &vectors,
            7,
            Options {
                links: 2,
                ..options(numbers)
            },
            1,
        );
        index.remove(5).unwrap();
        index.save(&saved.path()).unwrap();
        let whole = fs::read(saved.path()).unwrap();
        for at in 0..whole.len() {
            for value in [0, whole[at].wrapping_add(1), 0xff] {
                let mut forged = whole.clone();
                forged[at] = value;
                seal(&mut forged);
                fs::write(saved.path(), &forged).unwrap();
                let Ok(loaded) = HnswIndex::load(&saved.path()) else {
                    assert!(HnswIndex::open(&saved.path()).is_err(), "both refuse");
                    refused += 1;
                    continue;
                };
                for index in [&loaded, &HnswIndex::open(&saved.path()).unwrap()] {
                    for vector in vectors.chunks_exact(index.dim()).take(3) {
                        assert!(index.search(vector, 5, None).unwrap().len() <= 5);
                    }
                }
                let two = Vectors::new(&vectors[..2 * loaded.dim()], loaded.dim()).unwrap();
                // An error is as good: what matters is that nothing worse happens.
                _ = loaded.add(&[0xabcd_ef01, 0xabcd_ef02], two, 1, &mut never);
            }
        }
    }
    assert!(refused > 500, "{refused}");
}
