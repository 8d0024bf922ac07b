//! Formats that nothing here decodes: refused by name, or decoded by a program in ffmpeg's place.

#![cfg(unix)]
#![allow(unreachable_pub, reason = "modules that test binaries share")]

mod support;

use std::path::{Path, PathBuf};

use hark_audio::{Decoder, Error, Fallback};
use support::{Wav, drain, expected};

/// A program that writes down its arguments and does what the script says. Another process writes it: a file that this one has
/// open for writing, even in a fork of another test, cannot be run.
fn program(folder: &Path, script: &str) -> PathBuf {
    let path = folder.join("ffmpeg");
    let log = folder.join("arguments");
    let text = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$@\" > '{}'\n{script}\n",
        log.display()
    );
    let mut writer = std::process::Command::new("sh");
    writer.args(["-c", "printf '%s' \"$1\" > \"$0\" && chmod +x \"$0\""]);
    assert!(writer.arg(&path).arg(text).status().unwrap().success());
    path
}

/// One second of the formula as 32-bit floats, of which nothing tells the length.
fn stream(folder: &Path) -> String {
    let body = expected(8_000, 1, 16)
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    let mut wav = Wav::new(3, 1, 8_000, 32, body).bytes();
    wav[4..8].fill(0xff);
    wav[40..44].fill(0xff);
    let path = folder.join("stream.wav");
    fs_err::write(&path, wav).unwrap();
    format!("cat '{}'", path.display())
}

#[test]
fn known_formats_are_refused_by_name_and_give_no_noise() {
    // Behind the mark stands a whole MP3 file, which a search for frames would find.
    let mp3 = support::bytes("mono.mp3");
    for (mark, name) in [
        (&b"MAC \x96\x0f\0\0"[..], "Monkey's Audio"),
        (b"wvpk\0\0\0\0", "WavPack"),
        (b"tBaK\x01\0\0\0", "TAK"),
        (b"RIFF\0\0\0\0AVI LIST", "AVI"),
        (b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "ASF"),
        (b"#!AMR\n", "AMR"),
        (b"MThd\0\0\0\x06", "MIDI"),
    ] {
        let result = support::decode_bytes([mark, &mp3].concat());
        let Err(error @ Error::Foreign { .. }) = result else {
            panic!("{name}: {result:?}")
        };
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn a_program_decodes_what_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let script = stream(folder.path());
    let program = program(folder.path(), &script);
    let file = folder.path().join("-old take.ape");
    fs_err::write(&file, b"MAC \x96\x0f\0\0").unwrap();
    assert!(matches!(
        Decoder::open_with(&file, &Fallback::Refuse),
        Err(Error::Foreign { .. })
    ));
    let found = drain(Decoder::open_with(&file, &Fallback::Ffmpeg(program.clone())).unwrap()).unwrap();
    assert!(found.samples == expected(8_000, 1, 16));
    assert_eq!(found.info.codec, "Monkey's Audio (by ffmpeg)");
    assert_eq!(
        (found.info.rate, found.info.channels, found.damage),
        (8_000, 1, None)
    );
    let arguments = fs_err::read_to_string(folder.path().join("arguments")).unwrap();
    let arguments: Vec<&str> = arguments.lines().collect();
    assert!(
        arguments.contains(&format!("file:{}", file.display()).as_str()),
        "{arguments:?}"
    );
    assert!(
        arguments
            .windows(2)
            .any(|pair| pair == ["-protocol_whitelist", "file"])
    );
    assert!(arguments.contains(&"-nostdin"));
    // Of these ffmpeg would make noise.
    let swapped = folder.path().join("swapped.wav");
    fs_err::write(&swapped, b"RIFX\0\0\0\x24WAVEfmt ").unwrap();
    assert!(matches!(
        Decoder::open_with(&swapped, &Fallback::Ffmpeg(program.clone())),
        Err(Error::Header { .. })
    ));
    // A text is no sound, whatever the program would make of it.
    let text = folder.path().join("notes.txt");
    fs_err::write(&text, "nothing to be heard\n".repeat(100)).unwrap();
    assert!(matches!(
        Decoder::open_with(&text, &Fallback::Ffmpeg(program)),
        Err(Error::Unknown { .. })
    ));
}

#[test]
fn a_program_that_fails_or_is_missing_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("take.wma");
    fs_err::write(&file, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11").unwrap();
    let failing = program(folder.path(), "echo no >&2; exit 1");
    for fallback in [failing, folder.path().join("none")] {
        assert!(matches!(
            Decoder::open_with(&file, &Fallback::Ffmpeg(fallback)),
            Err(Error::Foreign { .. })
        ));
    }
}

#[test]
fn complaints_are_damage_and_endless_sound_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("take.wv");
    fs_err::write(&file, b"wvpk").unwrap();
    let script = format!("{}; echo 'a block is broken' >&2", stream(folder.path()));
    let complaining = program(folder.path(), &script);
    let found = drain(Decoder::open_with(&file, &Fallback::Ffmpeg(complaining)).unwrap()).unwrap();
    assert_eq!(found.samples.len(), 8_000);
    assert!(found.damage.unwrap().what.contains("a block is broken"));
    let endless = program(
        folder.path(),
        &format!("{}; exec cat /dev/zero", stream(folder.path())),
    );
    let mut decoder = Decoder::open_with(&file, &Fallback::Ffmpeg(endless)).unwrap();
    while decoder.samples_so_far() < 1_000_000 {
        assert!(decoder.next_block().unwrap().is_some());
    }
}

/// Where ffmpeg is installed, it decodes a VOC file, which nothing here does.
#[test]
fn the_real_program_where_it_is_there() {
    if !Fallback::Ffmpeg("ffmpeg".into()).is_there() {
        return;
    }
    let body: Vec<u8> = (0..8_000_u32).map(|i| (i * i / 64) as u8).collect();
    let mut file = b"Creative Voice File\x1a\x1a\0\x0a\x01\x29\x11".to_vec();
    // A block of sound: its length, the rate as 256 - 1,000,000 / 8,000, and unsigned bytes.
    file.push(1);
    file.extend_from_slice(&(body.len() as u32 + 2).to_le_bytes()[..3]);
    file.extend([131, 0]);
    file.extend(&body);
    file.push(0);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("take.voc");
    fs_err::write(&path, file).unwrap();
    let found = drain(Decoder::open_with(&path, &Fallback::Ffmpeg("ffmpeg".into())).unwrap()).unwrap();
    let wanted: Vec<f32> = body.iter().map(|&b| (f32::from(b) - 128.0) / 128.0).collect();
    assert!(found.samples == wanted);
    assert_eq!(
        (found.info.codec.as_str(), found.damage),
        ("VOC (by ffmpeg)", None)
    );
}

/// A known container whose sound cannot be decoded at all goes to the program as well, and is decoded once.
#[test]
fn a_file_without_one_sample_goes_to_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), &stream(folder.path()));
    let fallback = Fallback::Ffmpeg(program);
    // An Ogg file whose pages behind the headers are gone.
    let mut bytes = support::bytes("mono.ogg");
    let pages: Vec<usize> = (0..bytes.len() - 4)
        .filter(|&at| bytes[at..].starts_with(b"OggS"))
        .collect();
    bytes.truncate(pages[2]);
    let file = folder.path().join("take.ogg");
    fs_err::write(&file, bytes).unwrap();
    assert!(Decoder::open_with(&file, &Fallback::Refuse).is_err());
    let decoder = Decoder::open_with(&file, &fallback).unwrap();
    assert_eq!(decoder.samples_so_far(), 0);
    let found = drain(decoder).unwrap();
    assert!(found.samples == expected(8_000, 1, 16));
    // Plain samples of which there are none are nothing to be decoded.
    let file = folder.path().join("take.wav");
    fs_err::write(&file, Wav::new(1, 1, 8_000, 16, Vec::new()).bytes()).unwrap();
    assert!(matches!(
        Decoder::open_with(&file, &fallback),
        Err(Error::Empty { .. })
    ));
}

#[test]
fn what_the_program_says_is_in_the_message() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("take.ape");
    fs_err::write(&file, b"MAC \x96\x0f\0\0").unwrap();
    let refused = |fallback| {
        let result = Decoder::open_with(&file, &fallback);
        result.err().map(|error| error.to_string()).unwrap_or_default()
    };
    let failing = program(folder.path(), "echo '[ape @ 0x55] no frames' >&2; exit 1");
    let message = refused(Fallback::Ffmpeg(failing));
    assert!(
        message.ends_with("Monkey's Audio is not supported, and ffmpeg says: no frames"),
        "{message}"
    );
    let message = refused(Fallback::Refuse);
    assert!(message.ends_with("not supported without ffmpeg"), "{message}");
}

#[test]
fn a_program_is_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Fallback::Ffmpeg(program(folder.path(), "exit 0")).is_there());
    assert!(!Fallback::Ffmpeg(program(folder.path(), "exit 1")).is_there());
    assert!(!Fallback::Ffmpeg(folder.path().join("none")).is_there());
    assert!(!Fallback::Refuse.is_there());
}
