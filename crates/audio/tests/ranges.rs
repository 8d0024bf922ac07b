//! Parts of files: what is read by seeking is what decoding the whole file gives there, to the bit.

#![allow(unreachable_pub, reason = "modules that test binaries share")]

mod support;

use std::path::{Path, PathBuf};

use hark_audio::{Error, SeekIndex, read, read_range};
use proptest::prelude::*;
use support::{PlainFlac, Wav, all_files, bytes, file, noise};

/// The committed files that can be entered. All others are decoded from their beginning.
const SEEKABLE: [&str; 10] = [
    "a-law.wav",
    "mono-16.aiff",
    "mono-16.caf",
    "mono-16.flac",
    "mono-16.wav",
    "mu-law.wav",
    "sowt.aifc",
    "stereo-24.aiff",
    "stereo-24.flac",
    "stereo-24.wav",
];

fn bits(samples: &[f32]) -> Vec<u32> {
    samples.iter().map(|sample| sample.to_bits()).collect()
}

/// Compares parts of a file with the whole, with the index and without.
fn check(path: &Path, rate: u32, ranges: &[(usize, usize)]) {
    let index = SeekIndex::of(path).unwrap();
    let whole = read(path, rate, None).unwrap().samples;
    if let Some(index) = &index {
        assert_eq!(
            index.samples(rate),
            whole.len() as u64,
            "{} at {rate}",
            path.display()
        );
    }
    for &(start, length) in ranges {
        let end = start.saturating_add(length).min(whole.len());
        let wanted = &whole[start.min(end)..end];
        for index in [None, index.as_ref()]
            .into_iter()
            .take(1 + usize::from(index.is_some()))
        {
            let found = read_range(path, rate, start as u64, length, index).unwrap();
            assert!(
                bits(&found) == bits(wanted),
                "{} at {rate}: {length} from {start}, index {}",
                path.display(),
                index.is_some()
            );
        }
    }
}

fn written(folder: &tempfile::TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    fs_err::write(&path, bytes).unwrap();
    path
}

#[test]
fn parts_of_every_format_are_parts_of_the_whole() {
    for name in all_files() {
        let path = file(&name);
        let index = SeekIndex::of(&path).unwrap();
        assert_eq!(index.is_some(), SEEKABLE.contains(&name.as_str()), "{name}");
        for rate in [16_000, 32_000] {
            let second = rate as usize;
            let ranges = [
                (second / 3, second / 4),
                (second / 2, usize::MAX),
                (usize::MAX, usize::MAX),
                (17, 0),
            ];
            check(&path, rate, &ranges);
        }
    }
}

#[derive(Debug, Clone)]
enum Made {
    Wav { channels: u16, bits: u16 },
    Float,
    Flac { channels: u8, blocks: Vec<usize> },
}

fn make(made: &Made, rate: u32, frames: usize) -> Vec<u8> {
    match made {
        &Made::Wav { channels, bits } => {
            let samples = noise(frames * usize::from(channels), 3);
            let data = samples.iter().flat_map(|&sample| match bits {
                8 => vec![(sample >> 8) as u8],
                16 => sample.to_le_bytes().to_vec(),
                _ => (i32::from(sample) * 77).to_le_bytes()[..3].to_vec(),
            });
            Wav::new(1, channels, rate, bits, data.collect()).bytes()
        }
        Made::Float => {
            let samples = noise(frames, 4).into_iter().map(|s| f32::from(s) / 40_000.0);
            Wav::new(3, 1, rate, 32, samples.flat_map(f32::to_le_bytes).collect()).bytes()
        }
        Made::Flac { channels, blocks } => {
            let flac = PlainFlac {
                rate,
                channels: *channels,
                blocks,
                total: frames as u64,
            };
            flac.parts(&noise(frames * usize::from(*channels), 5)).concat()
        }
    }
}

fn any_file() -> impl Strategy<Value = Made> {
    prop_oneof![
        (1_u16..4, prop::sample::select(vec![8, 16, 24]))
            .prop_map(|(channels, bits)| Made::Wav { channels, bits }),
        Just(Made::Float),
        (
            1_u8..3,
            prop::sample::select(vec![vec![4096], vec![577], vec![1024, 16, 4608]])
        )
            .prop_map(|(channels, blocks)| Made::Flac { channels, blocks }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_part_at_any_rate_is_that_of_the_whole(
        made in any_file(),
        frames in 1_usize..90_000,
        // By transforms, by exact phases, by mixed ones, and unchanged.
        pair in prop::sample::select(vec![
            (44_100, 32_000), (48_000, 32_000), (8_000, 32_000), (44_101, 32_000), (11_025, 44_100), (32_000, 32_000),
        ]),
        starts in prop::collection::vec((0.0..1.1_f64, 0_usize..20_000), 3),
    ) {
        let (from, to) = pair;
        let folder = tempfile::tempdir().unwrap();
        let path = written(&folder, "x", &make(&made, from, frames));
        let all = frames as f64 * f64::from(to) / f64::from(from);
        let ranges: Vec<_> = starts.iter().map(|&(start, length)| ((start * all) as usize, length)).collect();
        prop_assert!(SeekIndex::of(&path).unwrap().is_some());
        check(&path, to, &ranges);
    }
}

/// Some minutes, so that points are thinned out.
#[test]
fn a_long_file_is_entered_at_its_points() {
    let folder = tempfile::tempdir().unwrap();
    let made = Made::Flac {
        channels: 1,
        blocks: vec![4096],
    };
    let path = written(&folder, "x.flac", &make(&made, 4_000, 4_800_000));
    let ranges = [
        (0, 10),
        (3_000_001, 50_000),
        (7_199_000, 5000),
        (4096 * 1000, 4096),
    ];
    check(&path, 8_000, &ranges);
    check(&path, 4_000, &ranges);
}

#[test]
fn wrong_lengths_in_headers_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let made = Made::Wav {
        channels: 2,
        bits: 16,
    };
    let good = make(&made, 16_000, 30_000);
    let at = good.windows(4).position(|name| name == b"data").unwrap() + 4;
    for size in [0_u32, 1, 4, 60_001, 120_004, 1 << 20, u32::MAX - 1, u32::MAX] {
        let mut bytes = good.clone();
        bytes[at..at + 4].copy_from_slice(&size.to_le_bytes());
        // The file may also end within a frame.
        for cut in [0, 1, 3, 40_001] {
            let path = written(&folder, "x.wav", &bytes[..bytes.len() - cut]);
            let Ok(whole) = read(&path, 16_000, None) else {
                assert!(SeekIndex::of(&path).is_err(), "{size} less {cut}");
                continue;
            };
            let count = whole.samples.len();
            check(&path, 16_000, &[(count / 2, 999), (count - 1, 9), (count, 1)]);
            check(&path, 32_000, &[(count, 999), (2 * count - 1, 9)]);
        }
    }
}

#[test]
fn numbers_that_are_not_finite_are_refused_wherever_they_stand() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = make(&Made::Float, 16_000, 50_000);
    let last = bytes.len() - 4;
    bytes[last..].copy_from_slice(&f32::NAN.to_le_bytes());
    let path = written(&folder, "x.wav", &bytes);
    assert!(matches!(SeekIndex::of(&path), Err(Error::NotFinite { .. })));
}

#[test]
fn damaged_flac_files_are_decoded_from_their_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let flac = |total| PlainFlac {
        rate: 16_000,
        channels: 1,
        blocks: &[1000],
        total,
    };
    let parts = flac(50_000).parts(&noise(50_000, 1));
    let ranges = [(0, 3000), (21_500, 4000), (46_000, 9000)];
    let all = parts.concat();
    let mut damaged = vec![
        // A frame is missing, is there twice, or is damaged; the end is missing; another file follows; the rate changes.
        [&parts[..20], &parts[21..]].concat().concat(),
        [&parts[..20], &parts[19..]].concat().concat(),
        all[..all.len() - 1500].to_vec(),
        [all.clone(), all.clone()].concat(),
        [all.clone(), flac(0).parts(&noise(3000, 2))[1..].concat()].concat(),
    ];
    for (place, with) in [(all.len() / 2, 1), (all.len() / 3, 0x80), (all.len() - 1, 4)] {
        let mut bytes = all.clone();
        bytes[place] ^= with;
        damaged.push(bytes);
    }
    let mut longer = all.clone();
    longer[8 + 17] ^= 0x80;
    damaged.push(longer);
    for (nth, bytes) in damaged.iter().enumerate() {
        let path = written(&folder, "x.flac", bytes);
        assert_eq!(SeekIndex::of(&path).unwrap(), None, "{nth}");
        check(&path, 16_000, &ranges);
    }
    // Tags after the last frame are no damage. A length that is not stated, or too small, misleads nobody.
    let tagged = [&all[..], b"TAG", &[b'x'; 125]].concat();
    let open_end = flac(0).parts(&noise(50_000, 1)).concat();
    let mut shorter = all.clone();
    shorter[8 + 17] ^= 0x40;
    for bytes in [tagged, open_end, shorter] {
        let path = written(&folder, "x.flac", &bytes);
        assert!(SeekIndex::of(&path).unwrap().is_some());
        check(&path, 16_000, &ranges);
        check(&path, 32_000, &ranges);
    }
}

/// A file that is replaced after its index was made is read as it is now.
#[test]
fn an_index_of_another_file_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        make(
            &Made::Flac {
                channels: 1,
                blocks: vec![4096],
            },
            16_000,
            80_000,
        ),
        make(
            &Made::Flac {
                channels: 2,
                blocks: vec![577],
            },
            16_000,
            90_000,
        ),
        make(
            &Made::Flac {
                channels: 1,
                blocks: vec![4096],
            },
            8_000,
            80_000,
        ),
        bytes("mono.mp3"),
    ];
    for (a, first) in files.iter().enumerate() {
        let path = written(&folder, "x", first);
        let Some(index) = SeekIndex::of(&path).unwrap() else {
            continue;
        };
        for (b, second) in files.iter().enumerate().filter(|&(b, _)| b != a) {
            let path = written(&folder, "x", second);
            let whole = read(&path, 16_000, None).unwrap().samples;
            let length = 4000;
            let found = read_range(&path, 16_000, 11_000, length, Some(&index)).unwrap();
            assert!(
                bits(&found) == bits(&whole[11_000..11_000 + length]),
                "{b} by {a}"
            );
        }
    }
}

#[test]
fn what_cannot_be_read_is_told_as_by_the_decoder() {
    let missing = Path::new("no such file.wav");
    assert!(matches!(SeekIndex::of(missing), Err(Error::Read { .. })));
    assert!(matches!(
        read_range(missing, 16_000, 0, 1, None),
        Err(Error::Read { .. })
    ));
    let path = file("mono-16.wav");
    let index = SeekIndex::of(&path).unwrap();
    assert!(matches!(
        read_range(&path, 1, 0, 1, index.as_ref()),
        Err(Error::Resample { .. })
    ));
}
