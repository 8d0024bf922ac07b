//! Decoded audio on disk, so that training decodes and resamples each recording once instead of in every epoch.
//!
//! In: paths of recordings. Out: their samples, mixed to one channel, at the rate of the cache: a [`Cached`] clip,
//! of which all or a part can be had, or a [`Crop`]. With the cache and without, on a hit and on a miss, the numbers are
//! the same to the bit. In [`CacheFormat::F32`] they are the floats that the decoder gave. [`CacheFormat::Flac`] takes a
//! quarter of the disk or so, and rounds every sample to 16 bits, also of what is not kept. A clip's length is bounded
//! ([`AudioCache::with_max_seconds`]), so that a recording of ten hours among the clips takes no gigabytes.
//!
//! # What is not kept
//! A random crop of a long recording is another one in each epoch. If the recording can be entered in its middle
//! ([`SeekIndex`]) and is at least twice as long as the crop, the crop is decoded alone, each time, and nothing is kept: that
//! takes less time than a recording of many minutes takes to decode once, and no disk. Of a crop at the start, only the crop is
//! decoded and kept.
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
mod reading;
mod store;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use hark_audio::{HIGHEST_RATE, LOWEST_RATE, SeekIndex};
use hark_work::workers::lock;
use serde::{Deserialize, Serialize};

use crate::Error;
pub use reading::{Reading, ReadingCost};

use entry::Entry;
use store::{Key, Store};

/// How much of a recording is read unless the caller says otherwise, in seconds.
pub const DEFAULT_MAX_SECONDS: f64 = 600.0;

/// With a cache on disk, only recordings of so many times the length of a crop are entered; shorter ones are kept.
const LONG: f64 = 2.0;

/// Recordings of which it is known where they can be entered; each takes a kilobyte of memory at most.
const MAX_INDEXES: usize = 1 << 19;

/// How samples are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheFormat {
    /// 32-bit floats, as they were decoded and resampled.
    #[default]
    F32,
    /// FLAC of 16 bits. Samples are rounded to 16 bits, and those beyond full scale are clipped to it.
    Flac,
}

impl CacheFormat {
    /// All formats.
    pub const ALL: [Self; 2] = [Self::F32, Self::Flac];

    /// What the format makes of samples, whether or not they are kept.
    fn round(self, samples: &mut [f32]) {
        if self == Self::Flac {
            for sample in samples {
                *sample = f32::from(sixteen_bits(*sample)) / FULL_SCALE;
            }
        }
    }
}

const FULL_SCALE: f32 = 32_768.0;

fn sixteen_bits(sample: f32) -> i16 {
    // A float beyond the integers becomes the nearest of them.
    (sample * FULL_SCALE).round() as i16
}

/// Decoded audio, kept on disk. It can be used by several threads at a time.
#[derive(Debug)]
pub struct AudioCache {
    rate: u32,
    /// No more of a recording than this is read.
    most: usize,
    format: CacheFormat,
    /// Recordings of so many times the length of a crop are entered.
    long: f64,
    store: Option<Store>,
    hits: AtomicU64,
    misses: AtomicU64,
    sought: AtomicU64,
    /// Where recordings can be entered; none for those that must be decoded, or are too short to be worth it.
    indexes: Mutex<HashMap<Key, Option<Arc<SeekIndex>>>>,
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
    /// Crops that were decoded alone, by entering the recording shortly before them.
    pub sought: u64,
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
            Ok(store) => {
                cache.store = Some(store);
                cache.long = LONG;
            }
            Err(error) => cache.no_store = Some(error.to_string()),
        }
        Ok(cache)
    }

    /// No cache: every clip is decoded each time. At a rate at which no audio can be had, every reading fails.
    pub fn without(rate: u32) -> Self {
        let cache = Self {
            rate,
            most: 0,
            format: CacheFormat::default(),
            long: 1.0,
            store: None,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            sought: AtomicU64::new(0),
            indexes: Mutex::default(),
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

    /// Keep samples in this format. It also decides what samples are, kept or not: see [`CacheFormat`].
    #[must_use]
    pub fn with_format(mut self, format: CacheFormat) -> Self {
        self.format = format;
        if let Some(store) = &mut self.store {
            store.set_format(format);
        }
        self
    }

    /// How samples are kept.
    pub fn format(&self) -> CacheFormat {
        self.format
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
        match self.kept(key.as_ref(), self.most) {
            Some(entry) => Ok(self.hit(path, entry)),
            None => self.miss(path, key.as_ref(), self.most),
        }
    }

    /// A part of `length` samples of a recording, or the whole of a shorter one. `place` is told how many places there are where
    /// the part can begin, and chooses one; without it, the part is the beginning.
    ///
    /// A long recording that can be entered in its middle is not decoded from its beginning, see the module's text.
    ///
    /// # Errors
    /// As [`AudioCache::read`].
    pub fn crop(
        &self,
        path: &Path,
        length: usize,
        place: Option<&dyn Fn(usize) -> usize>,
    ) -> Result<Crop, Error> {
        let key = Key::of(path);
        let Some(place) = place.filter(|_| length < self.most) else {
            let length = length.min(self.most);
            let clip = match self.kept(key.as_ref(), length) {
                Some(entry) => self.hit(path, entry),
                None => self.miss(path, key.as_ref(), length)?,
            };
            return Ok(Crop {
                samples: clip.range(0, length)?,
                is_drawn: false,
            });
        };
        let clip = match self.kept(key.as_ref(), self.most) {
            Some(entry) => self.hit(path, entry),
            None => match self.enter(path, key.as_ref(), length, place) {
                Some(crop) => return Ok(crop),
                None => self.miss(path, key.as_ref(), self.most)?,
            },
        };
        let is_drawn = clip.len() > length;
        let start = if is_drawn {
            place(clip.len() - length + 1)
        } else {
            0
        };
        Ok(Crop {
            samples: clip.range(start, length)?,
            is_drawn,
        })
    }

    /// A crop of a recording that is decoded shortly before it; `None` if it must be decoded from its beginning, or is too short.
    fn enter(
        &self,
        path: &Path,
        key: Option<&Key>,
        length: usize,
        place: &dyn Fn(usize) -> usize,
    ) -> Option<Crop> {
        let index = self.index(path, key?, length)?;
        let all = usize::try_from(index.samples(self.rate))
            .unwrap_or(usize::MAX)
            .min(self.most);
        let places = all.checked_sub(length)? + 1;
        let start = if places > 1 { place(places) } else { 0 };
        // Whatever goes wrong, decoding from the beginning tells.
        let mut samples = hark_audio::read_range(path, self.rate, start as u64, length, Some(&index)).ok()?;
        if samples.len() != length {
            return None;
        }
        self.sought.fetch_add(1, Ordering::Relaxed);
        self.format.round(&mut samples);
        Some(Crop {
            samples,
            is_drawn: places > 1,
        })
    }

    /// What of a recording would be kept for crops of this length; `None` if a crop is decoded alone.
    fn kept_samples(&self, path: &Path, crop: Option<usize>) -> Result<Option<Vec<f32>>, Error> {
        let middle = |places: usize| places / 2;
        let entered = crop
            .filter(|&length| length < self.most)
            .and_then(|length| self.enter(path, Key::of(path).as_ref(), length, &middle));
        match entered {
            Some(_) => Ok(None),
            None => Ok(Some(decode(path, self.rate, self.most)?.samples)),
        }
    }

    /// Where a recording can be entered, if crops of this length make it worth it.
    fn index(&self, path: &Path, key: &Key, length: usize) -> Option<Arc<SeekIndex>> {
        if let Some(known) = lock(&self.indexes).get(key) {
            return known.clone();
        }
        let seconds = self.long * length as f64 / f64::from(self.rate);
        let index = SeekIndex::of_longer(path, seconds).ok().flatten().map(Arc::new);
        let mut indexes = lock(&self.indexes);
        if indexes.len() < MAX_INDEXES {
            indexes.insert(key.clone(), index.clone());
        }
        index
    }

    fn hit(&self, path: &Path, entry: Entry) -> Cached<'_> {
        self.hits.fetch_add(1, Ordering::Relaxed);
        Cached {
            cache: self,
            path: path.to_owned(),
            content: Content::Kept(entry),
        }
    }

    /// A clip of no more than `most` samples, decoded.
    fn miss(&self, path: &Path, key: Option<&Key>, most: usize) -> Result<Cached<'_>, Error> {
        Ok(Cached {
            cache: self,
            path: path.to_owned(),
            content: Content::Decoded(self.decode(path, key, most)?),
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
            sought: self.sought.load(Ordering::Relaxed),
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

    /// The file of a clip, if it is there, undamaged as far as its header tells, and whole or of so many samples at least.
    fn kept(&self, key: Option<&Key>, least: usize) -> Option<Entry> {
        let entry = self.store.as_ref()?.find(key?, self.rate)?;
        (entry.is_whole() || entry.len() >= least).then_some(entry)
    }

    fn decode(&self, path: &Path, key: Option<&Key>, most: usize) -> Result<Decoded, Error> {
        self.misses.fetch_add(1, Ordering::Relaxed);
        let mut decoded = decode(path, self.rate, most)?;
        self.format.round(&mut decoded.samples);
        if let (Some(store), Some(key)) = (&self.store, key) {
            // A recording that changed while it was decoded is not kept under its old name.
            if Key::of(path).as_ref() == Some(key) {
                store.put(key, self.rate, &decoded.samples, !decoded.cut);
            }
        }
        Ok(decoded)
    }
}

/// A part of a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Crop {
    /// Its samples.
    pub samples: Vec<f32>,
    /// Whether its place was chosen, because the recording is longer.
    pub is_drawn: bool,
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
        let decoded = self.cache.decode(&self.path, key.as_ref(), self.cache.most)?;
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
