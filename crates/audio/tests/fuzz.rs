//! Files with changed bytes: an error or some samples each, never a panic that comes out, never without end.
//!
//! Run for longer with `BOLERO_RANDOM_TEST_TIME_MS=600000 cargo test --release -p hark-audio --test fuzz`.

#![allow(unreachable_pub, reason = "modules that test binaries share")]

mod support;

use std::io::Cursor;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use hark_audio::Decoder;
use support::{all_files, bytes, mend_ogg};

/// How long each of the targets runs where nothing else is said.
const TIME: Duration = Duration::from_secs(4);

/// Decoding stops here: more of the same would only take time.
const MAX_SAMPLES: u64 = 200_000;

/// Changes to one of the files: which one, bytes at places counted from its beginning or in parts of its length,
/// and a length to cut it to.
type Changes = (u8, Vec<(u16, u8)>, Vec<(u16, u8)>, Option<u16>);

fn files() -> &'static [Vec<u8>] {
    static FILES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    FILES.get_or_init(|| all_files().iter().map(|name| bytes(name)).collect())
}

/// Returns how many samples came out.
fn decode(bytes: Vec<u8>) -> u64 {
    let Ok(mut decoder) = Decoder::from_source(Box::new(Cursor::new(bytes)), Path::new("fuzz")) else {
        return 0;
    };
    assert!(decoder.info().rate >= hark_audio::LOWEST_RATE);
    assert!((1..=hark_audio::MAX_CHANNELS).contains(&decoder.info().channels));
    while let Ok(Some(block)) = decoder.next_block() {
        assert!(!block.is_empty() && block.iter().all(|s| s.is_finite()));
        if decoder.samples_so_far() > MAX_SAMPLES {
            break;
        }
    }
    decoder.samples_so_far()
}

fn change(changes: &Changes) -> Vec<u8> {
    let (which, header, anywhere, cut) = changes;
    let mut file = files()[usize::from(*which) % files().len()].clone();
    let length = file.len();
    for &(at, byte) in header {
        file[usize::from(at) % 700 % length] = byte;
    }
    for &(part, byte) in anywhere {
        file[usize::from(part) * (length - 1) / usize::from(u16::MAX)] = byte;
    }
    if let Some(cut) = cut {
        file.truncate(usize::from(*cut) * length / usize::from(u16::MAX));
    }
    mend_ogg(&mut file);
    file
}

#[test]
fn changed_files() {
    bolero::check!()
        .with_type::<Changes>()
        .with_test_time(TIME)
        .for_each(|changes| {
            decode(change(changes));
        });
}

#[test]
fn a_few_changed_bytes() {
    bolero::check!()
        .with_type::<(u8, [(u16, u8); 3])>()
        .with_test_time(TIME)
        .for_each(|(which, places)| {
            decode(change(&(*which, Vec::new(), places.to_vec(), None)));
        });
}

#[test]
fn any_bytes() {
    bolero::check!()
        .with_type::<(u8, Vec<u8>)>()
        .with_test_time(TIME)
        .for_each(|(which, tail)| {
            let file = &files()[usize::from(*which) % files().len()];
            decode(tail.clone());
            // The beginning of a real file, so that the format is known, and then anything.
            decode([&file[..file.len().min(64)], tail].concat());
        });
}

/// The targets above would pass if nothing were ever decoded.
#[test]
fn unchanged_files_are_decoded() {
    for which in 0..files().len() {
        assert!(decode(change(&(which as u8, Vec::new(), Vec::new(), None))) >= 4_000);
    }
}
