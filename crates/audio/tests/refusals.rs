//! MP4 files that cannot be decoded say why.

#![allow(unreachable_pub, reason = "modules that test binaries share")]

mod support;

use hark_audio::Error;
use support::{bytes, decode_bytes};

/// `mono.m4a` with another name for its codec.
fn named(name: [u8; 4]) -> Vec<u8> {
    let mut file = bytes("mono.m4a");
    let place = file.windows(4).position(|w| w == b"mp4a").unwrap();
    file[place..place + 4].copy_from_slice(&name);
    file
}

#[test]
fn codecs_are_refused_by_their_names() {
    for (theirs, ours) in [
        (b"enca", "encrypted"),
        (b"ac-3", "ac3"),
        (b"ec-3", "eac3"),
        (b"ac-4", "ac4"),
        (b"samr", "amr"),
        (b"sawb", "amr-wb"),
        (b"mlpa", "truehd"),
        (b"dtsc", "dts"),
        (b"mhm1", "mpeg-h"),
    ] {
        let result = decode_bytes(named(*theirs));
        let Err(Error::Codec { codec, .. }) = result else {
            panic!("{ours}: {result:?}")
        };
        assert_eq!(codec, ours);
    }
}

/// What a server sends after the initialization segment is of no use alone.
#[test]
fn a_media_segment_says_what_it_is() {
    let file = bytes("fragmented.mp4");
    let place = file.windows(4).position(|w| w == b"moof").unwrap() - 4;
    let error = decode_bytes(file[place..].to_vec()).unwrap_err().to_string();
    assert!(error.contains("without its initialization segment"), "{error}");
    let error = decode_bytes(file[..24].to_vec()).unwrap_err().to_string();
    assert!(!error.contains("initialization segment"), "{error}");
}
