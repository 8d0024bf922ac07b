//! What reading the recordings of a training takes: disk for the cache, and time for decoding.
//!
//! In: paths. Out: a [`ReadingCost`], told from some recordings that are decoded as the training will decode them. Those lie
//! evenly spaced among all, so that the same recordings are taken each time; one that cannot be decoded counts for nothing.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use hark_work::progress::{Progress, counted, report};
use serde::Serialize;

use super::{AudioCache, CacheFormat, LONG, entry};
use crate::Error;

/// Recordings that are decoded.
const SAMPLED: usize = 32;

/// How recordings are read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// The rate of samples, in Hz.
    pub rate: u32,
    /// No more of a recording than this is read.
    pub longest_seconds: f64,
    /// How long a crop is, drawn at random; without it, recordings are read as a whole.
    pub crop_seconds: Option<f64>,
}

/// What reading recordings takes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ReadingCost {
    /// Recordings that there are.
    pub recordings: usize,
    /// Of which so many were decoded to tell what follows.
    pub sampled: usize,
    /// The share of recordings of which a crop is decoded alone each time, and nothing is kept.
    pub entered: f64,
    /// Bytes of a cache of 32-bit floats that holds all others.
    pub f32_bytes: u64,
    /// Bytes of a cache of FLAC.
    pub flac_bytes: u64,
    /// Seconds of one thread that decode all recordings once, as in the first epoch.
    pub cpu_seconds: f64,
}

impl Reading {
    /// What reading these recordings takes.
    ///
    /// # Errors
    /// [`Error::Cancelled`].
    pub fn cost(&self, paths: &[&Path], progress: Progress<'_>) -> Result<ReadingCost, Error> {
        let count = paths.len().min(SAMPLED);
        let mut cost = ReadingCost {
            recordings: paths.len(),
            ..ReadingCost::default()
        };
        let mut cache = AudioCache::without(self.rate).with_max_seconds(self.longest_seconds);
        // As if there were a cache on disk.
        cache.long = LONG;
        let crop = self
            .crop_seconds
            .map(|seconds| (seconds * f64::from(self.rate)).round() as usize);
        let (mut bytes, mut took, mut entered) = ([0; 2], Duration::ZERO, 0);
        for nth in 0..count {
            report(progress, nth, count)?;
            let since = Instant::now();
            let Ok(kept) = cache.kept_samples(paths[nth * paths.len() / count], crop) else {
                continue;
            };
            took += since.elapsed();
            cost.sampled += 1;
            match kept {
                Some(samples) => {
                    for (format, bytes) in CacheFormat::ALL.into_iter().zip(&mut bytes) {
                        *bytes += packed_bytes(format, self.rate, &samples);
                    }
                }
                None => entered += 1,
            }
        }
        report(progress, count, count)?;
        let all = paths.len() as f64 / cost.sampled.max(1) as f64;
        cost.entered = f64::from(entered) / cost.sampled.max(1) as f64;
        [cost.f32_bytes, cost.flac_bytes] = bytes.map(|bytes| (all * bytes as f64) as u64);
        cost.cpu_seconds = all * took.as_secs_f64();
        Ok(cost)
    }
}

/// The size of a clip's file.
fn packed_bytes(format: CacheFormat, rate: u32, samples: &[f32]) -> u64 {
    struct Count(u64);
    impl Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // What is counted cannot fail to be written.
    let _ = entry::write(&mut count, format, rate, samples, true);
    count.0
}

/// Some lines.
impl fmt::Display for ReadingCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            recordings,
            sampled,
            entered,
            f32_bytes,
            flac_bytes,
            cpu_seconds,
        } = self;
        let gigabytes = |bytes: &u64| *bytes as f64 / 1e9;
        writeln!(
            f,
            "reading {} in training, estimated from {} that were decoded:",
            counted(*recordings, "recording"),
            counted(*sampled, "recording")
        )?;
        let [floats, flac] = [f32_bytes, flac_bytes].map(gigabytes);
        writeln!(
            f,
            "  cache on disk         {floats:.2} GB with data.cache = \"f32\", {flac:.2} GB with \"flac\""
        )?;
        if *entered > 0.0 {
            let share = 100.0 * entered;
            writeln!(
                f,
                "  not cached            {share:.0} % of the recordings are long and can be sought: crops are decoded each time"
            )?;
        }
        let minutes = cpu_seconds / 60.0;
        let (number, unit) = if minutes < 120.0 {
            (minutes, "minutes")
        } else {
            (minutes / 60.0, "hours")
        };
        writeln!(
            f,
            "  decoding              {number:.1} CPU-{unit} for the first epoch"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_audio::encode_flac;
    use hark_work::progress::no_progress;
    use std::ops::ControlFlow;

    const RATE: u32 = 8000;

    fn put(path: &Path, seconds: usize) {
        let samples: Vec<i16> = (0..seconds * RATE as usize)
            .map(|at| ((at as f64 * 0.05).sin() * 8000.0) as i16)
            .collect();
        fs_err::write(path, encode_flac(&samples, RATE).unwrap()).unwrap();
    }

    #[test]
    fn sizes_are_those_of_the_cache() {
        let folder = tempfile::tempdir().unwrap();
        // More recordings than are decoded, of two lengths in turns.
        let paths: Vec<_> = (0..2 * SAMPLED)
            .map(|nth| folder.path().join(format!("{nth}.flac")))
            .collect();
        for (nth, path) in paths.iter().enumerate() {
            put(path, 1 + 2 * (nth / 2 % 2));
        }
        let mut paths: Vec<&Path> = paths.iter().map(AsRef::as_ref).collect();
        let reading = Reading {
            rate: RATE,
            longest_seconds: 600.0,
            crop_seconds: None,
        };
        let cost = reading.cost(&paths, &no_progress).unwrap();
        assert_eq!(
            (cost.recordings, cost.sampled, cost.entered),
            (2 * SAMPLED, SAMPLED, 0.0)
        );
        for (format, told) in [
            (CacheFormat::F32, cost.f32_bytes),
            (CacheFormat::Flac, cost.flac_bytes),
        ] {
            let place = folder.path().join(format!("{format:?}"));
            let cache = AudioCache::open(&place, RATE, 1 << 30)
                .unwrap()
                .with_format(format);
            for path in &paths {
                cache.read(path).unwrap();
            }
            assert_eq!(cache.stats().bytes, told);
        }
        assert!(cost.cpu_seconds > 0.0 && cost.flac_bytes < cost.f32_bytes / 3);

        // Half of them are long beside the crop, and none is kept of these.
        let cropped = Reading {
            crop_seconds: Some(1.0),
            ..reading
        };
        let cropped = cropped.cost(&paths, &no_progress).unwrap();
        assert!((cropped.entered - 0.5).abs() < 1e-9);
        assert!(cropped.f32_bytes < cost.f32_bytes / 3);
        assert!(cropped.to_string().contains("50 %"), "{cropped}");

        let missing = folder.path().join("none.flac");
        paths.truncate(3);
        paths.push(&missing);
        let cost = reading.cost(&paths, &no_progress).unwrap();
        assert_eq!((cost.recordings, cost.sampled), (4, 3));
        assert!(matches!(
            reading.cost(&paths, &|_, _| ControlFlow::Break(())),
            Err(Error::Cancelled)
        ));
        assert_eq!(reading.cost(&[], &no_progress).unwrap(), ReadingCost::default());
    }
}
