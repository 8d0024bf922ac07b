//! The cache of decoded audio: the same numbers with it and without, whatever happens to its files.

#![allow(unreachable_pub, reason = "modules that test binaries share")]

mod wav;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hark_corpus::{AudioCache, CacheFormat, Error};
use wav::{put, wav};

const RATE: u32 = 32_000;
const PLENTY: u64 = 1 << 30;

fn bits(samples: &[f32]) -> Vec<u32> {
    samples.iter().map(|sample| sample.to_bits()).collect()
}

/// What the recording decodes to, without any cache.
fn truth(path: &Path) -> Vec<f32> {
    hark_audio::read(path, RATE, None).unwrap().samples
}

fn same(read: &[f32], expected: &[f32]) {
    assert_eq!(read.len(), expected.len());
    assert!(bits(read) == bits(expected), "samples differ");
}

/// The files of the cache.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                all.push(path);
            }
        }
    }
    all.sort();
    all
}

fn bytes(folder: &Path) -> u64 {
    files(folder)
        .iter()
        .map(|path| fs_err::metadata(path).unwrap().len())
        .sum()
}

/// The last use of all files, put back by an hour, as if a run had ended long ago.
fn age(folder: &Path) {
    let then = SystemTime::now() - Duration::from_hours(1);
    for path in files(folder) {
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(then).unwrap();
    }
}

#[test]
fn hit_miss_and_no_cache_give_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("cache");
    // One that is resampled, and one that is not; both of several blocks.
    for (number, (rate, samples)) in [(44_100, 70_000), (RATE, 50_001)].into_iter().enumerate() {
        let path = folder.path().join(format!("{number}.wav"));
        put(&path, wav(rate, samples, number as u32));
        let expected = truth(&path);
        let cache = AudioCache::open(&kept, RATE, PLENTY).unwrap();
        let miss = cache.read(&path).unwrap();
        let hit = cache.read(&path).unwrap();
        let none = AudioCache::without(RATE);
        let without = none.read(&path).unwrap();
        assert_eq!((cache.stats().hits, cache.stats().misses), (1, 1));
        assert_eq!(
            (none.stats().hits, none.stats().misses, none.stats().bytes),
            (0, 1, 0)
        );
        for clip in [&miss, &hit, &without] {
            assert_eq!(
                (clip.len(), clip.is_cut(), clip.is_empty()),
                (expected.len(), false, false)
            );
            same(&clip.samples().unwrap(), &expected);
            for (start, length) in [
                (0_usize, 10_usize),
                (16_380, 10),
                (40_000, 1 << 40),
                (1 << 40, 5),
                (7, 0),
                (0, usize::MAX),
            ] {
                let end = start.saturating_add(length).min(expected.len());
                same(
                    &clip.range(start, length).unwrap(),
                    &expected[start.min(end)..end],
                );
            }
        }
        same(
            &cache.read_range(&path, 20_000, 321).unwrap(),
            &expected[20_000..20_321],
        );
        // A later run finds it again.
        let later = AudioCache::open(&kept, RATE, PLENTY).unwrap();
        same(&later.read(&path).unwrap().samples().unwrap(), &expected);
        assert_eq!((later.stats().hits, later.stats().misses), (1, 0));
        assert_eq!(later.stats().bytes, bytes(&kept));
    }
}

#[test]
fn rates_are_kept_apart() {
    let folder = tempfile::tempdir().unwrap();
    let (path, kept) = (folder.path().join("a.wav"), folder.path().join("cache"));
    put(&path, wav(RATE, 3_200, 1));
    for rate in [RATE, 16_000] {
        let cache = AudioCache::open(&kept, rate, PLENTY).unwrap();
        assert_eq!(cache.read(&path).unwrap().len(), rate as usize / 10);
        assert_eq!(cache.stats().misses, 1);
    }
    for rate in [0, 999, 768_001] {
        let error = AudioCache::open(&kept, rate, PLENTY).unwrap_err();
        assert!(matches!(error, Error::CacheRate { .. }), "{error}");
        assert!(AudioCache::without(rate).read(&path).is_err());
    }
}

#[test]
fn clips_are_no_longer_than_asked() {
    let folder = tempfile::tempdir().unwrap();
    let (path, kept) = (folder.path().join("a.wav"), folder.path().join("cache"));
    put(&path, wav(44_100, 88_200, 3));
    let expected = truth(&path);
    // From short to long, and back: what is kept is too short at first, and longer than needed then.
    for (seconds, hits) in [
        (0.5, 0),
        (1.5, 0),
        (1.0, 1),
        (2.0, 0),
        (9.0, 1),
        (0.25, 1),
        (0.0, 1),
        (-1.0, 1),
    ] {
        let most = (f64::max(seconds, 0.0) * f64::from(RATE)) as usize;
        for cache in [
            AudioCache::open(&kept, RATE, PLENTY).unwrap(),
            AudioCache::without(RATE),
        ] {
            let cache = cache.with_max_seconds(seconds);
            let clip = cache.read(&path).unwrap();
            same(&clip.samples().unwrap(), &expected[..most.min(expected.len())]);
            assert_eq!(clip.is_cut(), most < expected.len(), "{seconds} s");
            if cache.stats().bytes > 0 {
                assert_eq!(cache.stats().hits, hits, "{seconds} s");
            }
        }
    }
    assert_eq!(files(&kept).len(), 1);
}

#[test]
fn a_recording_that_changes_is_decoded_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (path, kept) = (folder.path().join("a.wav"), folder.path().join("cache"));
    let cache = AudioCache::open(&kept, RATE, PLENTY).unwrap();
    // The same size and another time of change, which is set, as clocks of file systems are coarse.
    for seed in [1, 2, 3] {
        put(&path, wav(RATE, 5_000, seed));
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(seed)))
            .unwrap();
        same(&cache.read(&path).unwrap().samples().unwrap(), &truth(&path));
    }
    assert_eq!((cache.stats().hits, cache.stats().misses), (0, 3));
    // Another name for the same file is the same recording.
    let roundabout = folder.path().join("cache/../a.wav");
    same(
        &cache.read(&roundabout).unwrap().samples().unwrap(),
        &truth(&path),
    );
    assert_eq!(cache.stats().hits, 1);
}

#[test]
fn damaged_files_are_dropped_and_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let (path, kept) = (folder.path().join("a.wav"), folder.path().join("cache"));
    put(&path, wav(RATE, 50_000, 1));
    let expected = truth(&path);
    AudioCache::open(&kept, RATE, PLENTY)
        .unwrap()
        .read(&path)
        .unwrap();
    let file = files(&kept).remove(0);
    let good = fs_err::read(&file).unwrap();
    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 4;
        bytes
    };
    let damaged = [
        Vec::new(),
        good[..20].to_vec(),
        good[..good.len() - 1].to_vec(),
        [&good[..], b"x"].concat(),
        vec![0; good.len()],
        flipped(17),
        flipped(33),
        flipped(good.len() - 1),
    ];
    for (number, bytes) in damaged.into_iter().enumerate() {
        fs_err::write(&file, bytes).unwrap();
        let cache = AudioCache::open(&kept, RATE, PLENTY).unwrap();
        same(&cache.read(&path).unwrap().samples().unwrap(), &expected);
        assert_eq!(
            (cache.stats().damaged, cache.stats().misses),
            (1, 1),
            "damage {number}"
        );
        assert!(fs_err::read(&file).unwrap() == good, "damage {number}");
    }
}

#[test]
fn old_files_make_room_and_those_of_the_run_stay() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("cache");
    let paths: Vec<PathBuf> = (0..10).map(|i| folder.path().join(format!("{i}.wav"))).collect();
    for (seed, path) in paths.iter().enumerate() {
        put(path, wav(RATE, 1_000, seed as u32));
    }
    // Header, checksum of one block, samples.
    let clip = 32 + 4 + 4_000;
    let max = 4 * clip;
    let first = AudioCache::open(&kept, RATE, max).unwrap();
    for path in &paths[..6] {
        same(&first.read(path).unwrap().samples().unwrap(), &truth(path));
    }
    let stats = first.stats();
    assert_eq!(
        (stats.misses, stats.not_kept, stats.evicted, stats.bytes),
        (6, 2, 0, max)
    );
    assert_eq!(bytes(&kept), max);
    for path in &paths[..6] {
        first.read(path).unwrap();
    }
    assert_eq!(first.stats().hits, 4);

    age(&kept);
    let second = AudioCache::open(&kept, RATE, max).unwrap();
    // Used again, so not to be deleted.
    second.read(&paths[0]).unwrap();
    for path in &paths[6..] {
        same(&second.read(path).unwrap().samples().unwrap(), &truth(path));
    }
    let stats = second.stats();
    assert_eq!(
        (stats.hits, stats.misses, stats.evicted, stats.not_kept),
        (1, 4, 3, 1)
    );
    assert!(stats.bytes <= max && bytes(&kept) <= max);
    second.read(&paths[0]).unwrap();
    assert_eq!(second.stats().hits, 2);

    // A lower bound holds from the start, and a clip that is larger than it is never kept.
    age(&kept);
    let third = AudioCache::open(&kept, RATE, clip - 1).unwrap();
    assert_eq!((third.stats().bytes, bytes(&kept)), (0, 0));
    same(
        &third.read(&paths[0]).unwrap().samples().unwrap(),
        &truth(&paths[0]),
    );
    assert_eq!(third.stats().not_kept, 1);
}

#[test]
fn the_oldest_use_goes_first() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("cache");
    let paths: Vec<PathBuf> = (0..4).map(|i| folder.path().join(format!("{i}.wav"))).collect();
    let clip = 32 + 4 + 4_000;
    let max = 3 * clip;
    let mut uses = Vec::new();
    for (seed, path) in paths.iter().enumerate().take(3) {
        put(path, wav(RATE, 1_000, seed as u32));
        let before = files_or_none(&kept);
        AudioCache::open(&kept, RATE, max).unwrap().read(path).unwrap();
        uses.extend(files(&kept).into_iter().filter(|file| !before.contains(file)));
    }
    // The second was used longest ago.
    for (file, hours) in uses.iter().zip([2, 3, 1]) {
        let file = std::fs::File::options().write(true).open(file).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_hours(hours))
            .unwrap();
    }
    put(&paths[3], wav(RATE, 1_000, 3));
    let cache = AudioCache::open(&kept, RATE, max).unwrap();
    cache.read(&paths[3]).unwrap();
    let left: Vec<bool> = uses.iter().map(|file| file.exists()).collect();
    // One clip must go for the new one, and one more for the tenth that is left free.
    assert_eq!((left, cache.stats().evicted), (vec![false, false, true], 2));
}

fn files_or_none(folder: &Path) -> Vec<PathBuf> {
    if folder.exists() {
        files(folder)
    } else {
        Vec::new()
    }
}

#[test]
fn threads_and_caches_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("cache");
    let paths: Vec<PathBuf> = (0..8).map(|i| folder.path().join(format!("{i}.wav"))).collect();
    let mut expected = Vec::new();
    for (seed, path) in paths.iter().enumerate() {
        put(path, wav(22_050, 12_000, seed as u32));
        expected.push(truth(path));
    }
    let clip = 32 + 8 + 4 * expected[0].len() as u64;
    // Two caches stand for two processes; there is room for half of the clips, so both delete what the other wrote
    // before it opened, and a third thread deletes files at random.
    AudioCache::open(&kept, RATE, PLENTY)
        .unwrap()
        .read(&paths[0])
        .unwrap();
    age(&kept);
    let caches = [(); 2].map(|()| AudioCache::open(&kept, RATE, 4 * clip).unwrap());
    std::thread::scope(|scope| {
        for worker in 0..4_usize {
            let (caches, paths, expected) = (&caches, &paths, &expected);
            scope.spawn(move || {
                for turn in 0..40 {
                    let index = (turn * 3 + worker) % paths.len();
                    let read = caches[worker % 2].read(&paths[index]).unwrap();
                    same(&read.range(100, 9_000).unwrap(), &expected[index][100..9_100]);
                }
            });
        }
        let kept = &kept;
        scope.spawn(move || {
            for _ in 0..40 {
                for folder in std::fs::read_dir(kept.join("v1-32000"))
                    .into_iter()
                    .flatten()
                    .flatten()
                {
                    for file in std::fs::read_dir(folder.path()).into_iter().flatten().flatten() {
                        let unfinished = file.file_name().to_string_lossy().starts_with('.');
                        if !unfinished {
                            let _ = std::fs::remove_file(file.path());
                        }
                    }
                }
            }
        });
    });
    for cache in &caches {
        let stats = cache.stats();
        assert_eq!(stats.hits + stats.misses, 80);
        assert_eq!(
            (stats.damaged, stats.failed_writes),
            (0, 0),
            "{:?}",
            stats.first_failure
        );
    }
    assert!(
        files(&kept)
            .iter()
            .all(|file| file.extension().is_some_and(|ending| ending == "pcm"))
    );
}

#[test]
fn a_folder_that_cannot_be_made_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (path, kept) = (folder.path().join("a.wav"), folder.path().join("cache"));
    put(&path, wav(RATE, 1_000, 1));
    put(&kept, "a file where the folder should be");
    let cache = AudioCache::open(&kept, RATE, PLENTY).unwrap();
    for _ in 0..2 {
        same(&cache.read(&path).unwrap().samples().unwrap(), &truth(&path));
    }
    let stats = cache.stats();
    assert_eq!((stats.hits, stats.misses, stats.failed_writes), (0, 2, 2));
    assert!(stats.first_failure.is_some_and(|reason| reason.contains("cache")));
}

#[test]
fn writes_that_fail_are_counted_and_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("cache");
    let cache = AudioCache::open(&kept, RATE, PLENTY).unwrap();
    // The folder turns into a file under the cache's feet, as a drive that is taken away would.
    fs_err::remove_dir_all(&kept).unwrap();
    put(&kept, "");
    for seed in 0..20 {
        let path = folder.path().join(format!("{seed}.wav"));
        put(&path, wav(RATE, 1_000, seed));
        same(&cache.read(&path).unwrap().samples().unwrap(), &truth(&path));
    }
    let stats = cache.stats();
    assert_eq!((stats.misses, stats.failed_writes, stats.bytes), (20, 20, 0));
    assert!(stats.first_failure.is_some());
}

#[test]
fn what_is_no_recording_is_refused_and_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("cache");
    let cache = AudioCache::open(&kept, RATE, PLENTY).unwrap();
    let text = folder.path().join("a.wav");
    put(&text, "no sound");
    for path in [&text, &folder.path().join("none.wav"), &folder.path().to_owned()] {
        let error = cache.read(path).unwrap_err();
        assert!(matches!(error, Error::Audio(_)), "{error}");
    }
    assert!(files(&kept).is_empty());
}

/// Rounded to 16 bits, as FLAC keeps samples.
fn rounded(samples: &[f32]) -> Vec<f32> {
    let round = |sample: &f32| f32::from((sample * 32_768.0).round() as i16) / 32_768.0;
    samples.iter().map(round).collect()
}

/// Every way to the same crop gives the same bits: decoded, kept, entered in the middle, with the cache and without.
#[test]
fn crops_are_the_same_with_the_cache_and_without() {
    const LENGTH: usize = 10_000;
    let folder = tempfile::tempdir().unwrap();
    for format in CacheFormat::ALL {
        // Shorter than the crop, a little longer, and many times as long; resampled and not.
        for (number, (rate, samples)) in [(RATE, 9_000), (RATE, 15_000), (44_100, 90_000), (RATE, 70_000)]
            .into_iter()
            .enumerate()
        {
            let path = folder.path().join(format!("{number}.wav"));
            let kept = folder.path().join(format!("{number}-{format:?}"));
            put(&path, wav(rate, samples, number as u32));
            let all = match format {
                CacheFormat::F32 => truth(&path),
                CacheFormat::Flac => rounded(&truth(&path)),
            };
            let caches = [
                AudioCache::open(&kept, RATE, PLENTY).unwrap(),
                AudioCache::without(RATE),
            ];
            for cache in caches.map(|cache| cache.with_format(format)) {
                // The second round finds what the first has kept.
                for round in 0..2 {
                    for share in [0, 1, 2] {
                        let place = |places: usize| (places - 1) * share / 2;
                        let crop = cache.crop(&path, LENGTH, Some(&place)).unwrap();
                        let is_longer = all.len() > LENGTH;
                        assert_eq!(crop.is_drawn, is_longer, "{number} round {round}");
                        let start = if is_longer {
                            place(all.len() - LENGTH + 1)
                        } else {
                            0
                        };
                        same(&crop.samples, &all[start..all.len().min(start + LENGTH)]);
                    }
                    let first = cache.crop(&path, LENGTH, None).unwrap();
                    assert!(!first.is_drawn);
                    same(&first.samples, &all[..LENGTH.min(all.len())]);
                    same(&cache.read(&path).unwrap().samples().unwrap(), &all);
                }
            }
        }
    }
}

#[test]
fn crops_of_long_recordings_are_entered_and_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (path, kept) = (folder.path().join("a.wav"), folder.path().join("cache"));
    put(&path, wav(RATE, 50_000, 1));
    let counts = |cache: &AudioCache| {
        let stats = cache.stats();
        (stats.hits, stats.misses, stats.sought)
    };
    let last = |places: usize| places - 1;
    let cache = AudioCache::open(&kept, RATE, PLENTY).unwrap();
    // A fifth of the recording: entered each time.
    for _ in 0..3 {
        cache.crop(&path, 10_000, Some(&last)).unwrap();
    }
    assert_eq!((counts(&cache), files(&kept).len()), ((0, 0, 3), 0));
    // Its beginning is decoded once and kept, and is too short for anything else.
    for _ in 0..2 {
        cache.crop(&path, 10_000, None).unwrap();
    }
    assert_eq!((counts(&cache), files(&kept).len()), ((1, 1, 3), 1));
    assert!(bytes(&kept) < 41_000);
    cache.crop(&path, 10_000, Some(&last)).unwrap();
    assert_eq!(counts(&cache), (1, 1, 4));
    // More than half of it: decoded once, and kept.
    let cache = AudioCache::open(&kept, RATE, PLENTY).unwrap();
    for _ in 0..3 {
        cache.crop(&path, 30_000, Some(&last)).unwrap();
    }
    assert_eq!(counts(&cache), (2, 1, 0));
    // Without a cache it is entered all the same.
    let none = AudioCache::without(RATE);
    none.crop(&path, 30_000, Some(&last)).unwrap();
    assert_eq!(counts(&none), (0, 0, 1));
    // Of a bounded recording, what lies beyond the bound is no place.
    let bounded = AudioCache::without(RATE).with_max_seconds(1.0);
    let crop = bounded.crop(&path, 30_000, Some(&last)).unwrap();
    same(&crop.samples, &truth(&path)[2_000..32_000]);
    let crop = bounded.crop(&path, 32_000, Some(&last)).unwrap();
    assert!(!crop.is_drawn);
    same(&crop.samples, &truth(&path)[..32_000]);
}

#[test]
fn flac_takes_less_of_the_disk_and_shares_the_bound() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("cache");
    let path = folder.path().join("a.wav");
    // A slow tone in 16 bits, as FLAC is made for.
    let tone = (0..100_000).map(|at| ((f64::from(at) * 0.01).sin() * 9_000.0) as i16);
    let mut file = wav(RATE, 100_000, 1);
    file.truncate(44);
    file.extend(tone.flat_map(i16::to_le_bytes));
    put(&path, file);
    let [floats, flac] = CacheFormat::ALL.map(|format| {
        let cache = AudioCache::open(&kept, RATE, PLENTY).unwrap().with_format(format);
        for _ in 0..2 {
            same(&cache.read(&path).unwrap().samples().unwrap(), &truth(&path));
        }
        assert_eq!((cache.stats().hits, cache.stats().misses), (1, 1));
        cache.stats().bytes
    });
    assert_eq!((floats, flac), (400_060, bytes(&kept)));
    assert!(4 * (flac - floats) < floats, "{floats} and {flac} bytes");
    // Files of both formats count, and the oldest of either is deleted.
    age(&kept);
    let cache = AudioCache::open(&kept, RATE, floats).unwrap();
    assert!(cache.stats().evicted > 0 && bytes(&kept) <= floats);
}

#[test]
fn damaged_flac_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let (path, kept) = (folder.path().join("a.wav"), folder.path().join("cache"));
    put(&path, wav(44_100, 90_000, 1));
    let expected = rounded(&truth(&path));
    let open = || {
        AudioCache::open(&kept, RATE, PLENTY)
            .unwrap()
            .with_format(CacheFormat::Flac)
    };
    open().read(&path).unwrap();
    let file = files(&kept).remove(0);
    let good = fs_err::read(&file).unwrap();
    for at in [3, 20, 40, 70, good.len() / 2, good.len() - 1] {
        let mut damaged = good.clone();
        damaged[at] ^= 4;
        fs_err::write(&file, damaged).unwrap();
        let cache = open();
        same(&cache.read(&path).unwrap().samples().unwrap(), &expected);
        assert_eq!(cache.stats().damaged, 1, "byte {at}");
        assert!(fs_err::read(&file).unwrap() == good, "byte {at}");
    }
}
