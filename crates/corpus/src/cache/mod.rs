//! Decoded audio on disk, so that training decodes and resamples each recording once instead of in every epoch.
//!
//! In: paths of recordings. Out: their samples, mixed to one channel, at the rate of the cache: a [`Cached`] clip,
//! of which all or a part can be had. With the cache and without, on a hit and on a miss, the numbers are the same to
//! the bit: samples are kept as the 32-bit floats that the decoder gave. Sixteen bits would halve the size and change
//! every sample. A clip's length is bounded ([`AudioCache::with_max_seconds`]), so that a recording of ten hours
//! among the clips takes no gigabytes.
//!
//! # What is on disk
//! One file per clip (see [`entry`]) in `FOLDER/vVERSION-RATE/`, under a name made of the recording's real path, its
//! size and its modification time: a recording that changes is decoded again. Files are written under a temporary name
//! and then renamed, so runs and processes can share a folder. A damaged file is deleted and its recording decoded
//! again.
//!
//! # What is deleted
//! If the cache is full, files that this run has not used are deleted, least recently used first.
//! Files that this run has used stay, and what finds no room is decoded again each time. An epoch visits every clip
//! once: a cache that would delete the least recently used clip among those of the run would delete each shortly
//! before its turn. Processes that write at once may pass the bound by an eighth of it each.
//!
//! # What is refused
//! A recording that gives no samples, and a rate outside the decoder's. A folder that cannot be written, or a full
//! disk, is not an error: reading continues without the cache, and [`CacheStats`] reports it.

mod entry;
mod store;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use hark_audio::{HIGHEST_RATE, LOWEST_RATE};

use crate::Error;
use entry::Entry;
use store::{Key, Store};

/// How much of a recording is read unless the caller says otherwise, in seconds.
pub const DEFAULT_MAX_SECONDS: f64 = 600.0;

/// Decoded audio, kept on disk. It can be used by several threads at a time.
#[derive(Debug)]
pub struct AudioCache {
    rate: u32,
    /// No more of a recording than this is read.
    most: usize,
    store: Option<Store>,
    hits: AtomicU64,
    misses: AtomicU64,
    /// Why there is no store although one was asked for.
    no_store: Option<String>,
}

/// What a cache has done since it was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Clips that were read from the cache.
    pub hits: u64,
    /// Clips that were decoded.
    pub misses: u64,
    /// How many bytes the cache takes on disk, as far as this run knows.
    pub bytes: u64,
    /// Clips that were decoded and found no room.
    pub not_kept: u64,
    /// Files of earlier runs that were deleted to make room.
    pub evicted: u64,
    /// Damaged files that were deleted.
    pub damaged: u64,
    /// Clips that could not be written, because the disk is full or the folder cannot be written.
    pub failed_writes: u64,
    /// What the system said to the first of them, or to the making of the folder.
    pub first_failure: Option<String>,
}

impl AudioCache {
    /// Open a cache, or begin one. It takes no more than `max_bytes` of the disk; at 32 kHz a minute takes 7.7 MB.
    ///
    /// A folder that cannot be created or written is not an error: see [`CacheStats::first_failure`].
    ///
    /// # Errors
    /// [`Error::CacheRate`] for a rate at which no audio can be had.
    pub fn open(folder: &Path, rate: u32, max_bytes: u64) -> Result<Self, Error> {
        if !(LOWEST_RATE..=HIGHEST_RATE).contains(&rate) {
            return Err(Error::CacheRate { rate });
        }
        let mut cache = Self::without(rate);
        match Store::open(folder, rate, max_bytes) {
            Ok(store) => cache.store = Some(store),
            Err(error) => cache.no_store = Some(error.to_string()),
        }
        Ok(cache)
    }

    /// No cache: every clip is decoded each time. At a rate at which no audio can be had, every reading fails.
    pub fn without(rate: u32) -> Self {
        let cache = Self {
            rate,
            most: 0,
            store: None,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            no_store: None,
        };
        cache.with_max_seconds(DEFAULT_MAX_SECONDS)
    }

    /// Read no more of any recording than this, from its start. Files of a cache may hold more or less than a later
    /// run needs: more is cut, less is decoded again.
    #[must_use]
    pub fn with_max_seconds(mut self, seconds: f64) -> Self {
        // A float that is negative or not a number becomes 0 here, a huge one the largest integer.
        self.most = (seconds * f64::from(self.rate)).round() as usize;
        self
    }

    /// The rate of the samples.
    pub fn rate(&self) -> u32 {
        self.rate
    }

    /// A clip: from the cache if it is there, else decoded and put there.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("a.wav");
    /// # let mut wav = b"RIFF\x34\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\0\x7d\0\0\0\xfa\0\0\x02\0\x10\0data\x10\0\0\0".to_vec();
    /// # wav.extend([0, 32].repeat(8));
    /// # fs_err::write(&path, wav)?;
    /// use hark_corpus::AudioCache;
    ///
    /// let cache = AudioCache::open(&folder.path().join("cache"), 32_000, 1 << 30)?;
    /// let decoded = cache.read(&path)?.samples()?;
    /// let kept = cache.read(&path)?;
    /// assert_eq!(kept.samples()?, decoded);
    /// assert_eq!(kept.range(2, 3)?, &decoded[2..5]);
    /// assert_eq!((cache.stats().hits, cache.stats().misses), (1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Audio`] if the recording gives no samples.
    pub fn read(&self, path: &Path) -> Result<Cached<'_>, Error> {
        let key = self.store.as_ref().and_then(|_| Key::of(path));
        let content = match self.kept(key.as_ref()) {
            Some(entry) => {
                self.hits.fetch_add(1, Ordering::Relaxed);
                Content::Kept(entry)
            }
            None => Content::Decoded(self.decode(path, key.as_ref())?),
        };
        Ok(Cached {
            cache: self,
            path: path.to_owned(),
            content,
        })
    }

    /// The samples from `start` on, `length` of them or as many as there are. On a hit no more is read from disk than
    /// the blocks that hold them.
    ///
    /// # Errors
    /// As [`AudioCache::read`].
    pub fn read_range(&self, path: &Path, start: usize, length: usize) -> Result<Vec<f32>, Error> {
        self.read(path)?.range(start, length)
    }

    /// What the cache has done so far.
    pub fn stats(&self) -> CacheStats {
        let mut stats = CacheStats {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            first_failure: self.no_store.clone(),
            ..CacheStats::default()
        };
        if let Some(store) = &self.store {
            store.fill_in(&mut stats);
        } else if self.no_store.is_some() {
            stats.failed_writes = stats.misses;
        }
        stats
    }

    /// The file of a clip, if it is there, undamaged as far as its header tells, and long enough.
    fn kept(&self, key: Option<&Key>) -> Option<Entry> {
        let entry = self.store.as_ref()?.find(key?, self.rate)?;
        (entry.is_whole() || entry.len() >= self.most).then_some(entry)
    }

    fn decode(&self, path: &Path, key: Option<&Key>) -> Result<Decoded, Error> {
        self.misses.fetch_add(1, Ordering::Relaxed);
        let decoded = decode(path, self.rate, self.most)?;
        if let (Some(store), Some(key)) = (&self.store, key) {
            // A recording that changed while it was decoded is not kept under its old name.
            if Key::of(path).as_ref() == Some(key) {
                store.put(key, self.rate, &decoded.samples, !decoded.cut);
            }
        }
        Ok(decoded)
    }
}

/// A clip of an [`AudioCache`]: in memory if it was decoded just now, else a file of which parts can be read.
#[derive(Debug)]
pub struct Cached<'c> {
    cache: &'c AudioCache,
    path: PathBuf,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Decoded(Decoded),
    Kept(Entry),
}

#[derive(Debug)]
struct Decoded {
    samples: Vec<f32>,
    /// Whether the recording goes on after the samples.
    cut: bool,
}

impl Cached<'_> {
    /// How many samples there are, no more than the cache's bound.
    pub fn len(&self) -> usize {
        match &self.content {
            Content::Decoded(decoded) => decoded.samples.len(),
            Content::Kept(entry) => entry.len().min(self.cache.most),
        }
    }

    /// Whether there is no sample, as when the bound is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the recording is longer than the cache's bound.
    pub fn is_cut(&self) -> bool {
        match &self.content {
            Content::Decoded(decoded) => decoded.cut,
            Content::Kept(entry) => !entry.is_whole() || entry.len() > self.cache.most,
        }
    }

    /// All samples.
    ///
    /// # Errors
    /// As [`AudioCache::read`]; a damaged file of the cache is decoded again.
    pub fn samples(&self) -> Result<Vec<f32>, Error> {
        self.range(0, self.len())
    }

    /// The samples from `start` on, `length` of them or as many as there are.
    ///
    /// # Errors
    /// As [`Cached::samples`].
    pub fn range(&self, start: usize, length: usize) -> Result<Vec<f32>, Error> {
        let end = start.saturating_add(length).min(self.len());
        let start = start.min(end);
        let samples = match &self.content {
            Content::Decoded(decoded) => return Ok(part(&decoded.samples, start, end)),
            Content::Kept(entry) => entry.read(start, end),
        };
        if let Some(samples) = samples {
            return Ok(samples);
        }
        let key = Key::of(&self.path);
        if let (Some(store), Some(key)) = (&self.cache.store, &key) {
            store.drop_damaged(key);
        }
        let decoded = self.cache.decode(&self.path, key.as_ref())?;
        Ok(part(&decoded.samples, start, end))
    }
}

fn part(samples: &[f32], start: usize, end: usize) -> Vec<f32> {
    samples
        .get(start..end.min(samples.len()))
        .unwrap_or_default()
        .to_vec()
}

/// The samples of a recording, no more than `most`.
fn decode(path: &Path, rate: u32, most: usize) -> Result<Decoded, Error> {
    let mut stream = hark_audio::Stream::open(path, rate)?;
    let mut samples = Vec::new();
    while let Some(block) = stream.next_block()? {
        let room = most - samples.len();
        samples.extend_from_slice(block.get(..room).unwrap_or(block));
        if block.len() > room {
            return Ok(Decoded { samples, cut: true });
        }
    }
    Ok(Decoded { samples, cut: false })
}
