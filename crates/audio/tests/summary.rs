//! What a library keeps of a file: its summarize, its fingerprint, what it says of itself.

#![allow(unreachable_pub, reason = "modules that test binaries share")]

mod support;

use std::cell::Cell;
use std::collections::BTreeMap;

use hark_audio::{
    COLUMNS, Decoder, Error, Fingerprint, Fingerprinter, Peaks, Resampler, Stream, distance, probe,
    same_recording, summarize,
};
use hark_work::random::Random;
use support::{all_files, bytes, file};

const RATE: u32 = 44_100;

/// Seconds at [`RATE`].
fn samples(seconds: f64) -> usize {
    (seconds * f64::from(RATE)).round() as usize
}

/// A sound of strokes on things of some kind: decaying tones and noises at random times over a quiet hiss. The kind decides
/// on pitches, the seed on times, loudnesses and the hiss.
fn strokes(kind: u64, seed: u64, length: usize) -> Vec<f32> {
    let mut kinds = Random::new(1000 + kind);
    let pitches: Vec<f64> = (0..6).map(|_| 200.0 * 15_f64.powf(kinds.unit())).collect();
    let mut random = Random::new(seed);
    let mut sound: Vec<f32> = (0..length).map(|_| 0.003 * random.signed() as f32).collect();
    for _ in 0..2 + length * 5 / RATE as usize {
        let (start, pitch) = (random.below(length), pitches[random.below(pitches.len())]);
        let (loudness, decay) = (0.05 + 0.2 * random.unit(), 0.03 + 0.3 * random.unit());
        let noisy = random.unit() < 0.4;
        for (n, sample) in sound[start..].iter_mut().take(RATE as usize).enumerate() {
            let t = n as f64 / f64::from(RATE);
            let tone = (std::f64::consts::TAU * pitch * t).sin();
            let wave = if noisy { tone * random.signed() } else { tone };
            *sample += (loudness * (-t / decay).exp() * wave) as f32;
        }
    }
    sound
}

fn noise(seed: u64, length: usize) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..length).map(|_| 0.2 * random.signed() as f32).collect()
}

fn resampled(sound: &[f32], from: u32, to: u32) -> Vec<f32> {
    let mut resampler = Resampler::new(from, to).unwrap();
    let mut out = Vec::new();
    resampler.push(sound, &mut out);
    resampler.finish(&mut out);
    out
}

fn fingerprint(sound: &[f32], rate: u32) -> Fingerprint {
    let mut listener = Fingerprinter::new();
    listener.push(&resampled(sound, rate, Fingerprint::RATE));
    listener.finish()
}

fn of(sound: &[f32]) -> Fingerprint {
    fingerprint(sound, RATE)
}

/// Silence before and after, in seconds.
fn padded(sound: &[f32], before: f64, after: f64) -> Vec<f32> {
    [&vec![0.0; samples(before)], sound, &vec![0.0; samples(after)]].concat()
}

/// What codecs do, in a rough way: noise 30 dB below the sound wherever it is, a low-pass, another level.
fn coded(sound: &[f32], seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    let (mut smooth, mut power) = (0.0, 0.0_f32);
    let mut out = Vec::with_capacity(sound.len());
    for sample in sound {
        power += 0.002 * (sample * sample - power);
        // Uniform noise from -1 to 1 has a third of the power of full scale.
        let noise = (3.0 * power * 1e-3).sqrt() * random.signed() as f32;
        // One pole at about 7 kHz.
        smooth += 0.63 * (sample + noise - smooth);
        out.push(0.4 * smooth);
    }
    out
}

#[test]
fn copies_are_alike() {
    for (seed, seconds) in [
        (1, 0.2),
        (2, 0.2),
        (3, 0.5),
        (4, 1.0),
        (5, 2.0),
        (6, 4.0),
        (7, 9.0),
        (8, 33.0),
    ] {
        let sound = strokes(seed, seed, samples(seconds));
        let whole = of(&sound);
        let louder: Vec<f32> = sound.iter().map(|s| 3.0 * s).collect();
        let copies = [
            ("coded", of(&coded(&sound, seed))),
            ("late", of(&padded(&coded(&sound, seed), 0.095, 0.0))),
            ("padded", of(&padded(&coded(&sound, seed), 0.05, 0.07))),
            ("early", of(&coded(&sound, seed)[samples(0.02)..])),
            ("louder", of(&louder)),
            ("22050", fingerprint(&resampled(&sound, RATE, 22_050), 22_050)),
            ("8000", fingerprint(&resampled(&sound, RATE, 8000), 8000)),
            ("44101", fingerprint(&resampled(&sound, RATE, 44_101), 44_101)),
        ];
        for (name, copy) in copies {
            assert!(
                same_recording(&whole, &copy),
                "{seconds} s, {name}: {}",
                distance(&whole, &copy)
            );
        }
    }
}

/// At lengths where one more sample makes frames of twice the length, the copy may have other frames than the original.
#[test]
fn copies_are_alike_where_frames_are_merged() {
    for (seed, border) in [(1, 256.0 * 0.008), (2, 512.0 * 0.008), (3, 1024.0 * 0.008)] {
        for before in [0.001, 0.02, 0.1, 0.19] {
            let sound = strokes(seed, seed, samples(border - before));
            let longer = padded(&sound, 0.05, 0.1);
            let (a, b) = (of(&sound), of(&longer));
            assert!(
                same_recording(&a, &b),
                "{border} s less {before} s: {}",
                distance(&a, &b)
            );
        }
    }
}

fn none_alike(sounds: &[Fingerprint]) {
    for (i, a) in sounds.iter().enumerate() {
        for (j, b) in sounds[..i].iter().enumerate() {
            assert!(!same_recording(a, b), "{i} and {j}: {}", distance(a, b));
        }
    }
}

/// The same kind of sound with other strokes, as takes are.
#[test]
fn other_takes_are_not_alike() {
    for seconds in [0.2, 1.0, 3.0] {
        let takes: Vec<_> = (0..12)
            .map(|seed| of(&strokes(1, seed, samples(seconds))))
            .collect();
        none_alike(&takes);
    }
}

#[test]
fn other_parts_are_not_alike() {
    let sound = strokes(2, 5, samples(12.0));
    let part = |start: f64, seconds: f64| of(&sound[samples(start)..samples(start + seconds)]);
    none_alike(&(0..20).map(|n| part(f64::from(n) * 0.4, 3.0)).collect::<Vec<_>>());
    none_alike(&(0..20).map(|n| part(f64::from(n) * 0.5, 0.2)).collect::<Vec<_>>());
    // A part of it is not the whole.
    assert!(!same_recording(&part(0.0, 3.0), &part(0.0, 3.3)));
}

/// All noises have one spectrum, and short ones little to tell them by.
#[test]
fn noises_are_told_apart() {
    for seconds in [0.2, 0.5, 2.0, 20.0] {
        let noises: Vec<_> = (0..30).map(|seed| of(&noise(seed, samples(seconds)))).collect();
        none_alike(&noises);
        let copy = of(&padded(&coded(&noise(3, samples(seconds)), 1), 0.03, 0.0));
        assert!(
            same_recording(&noises[3], &copy),
            "{seconds} s: {}",
            distance(&noises[3], &copy)
        );
    }
}

#[test]
fn loops_are_told_by_what_they_repeat_and_where_they_begin() {
    let repeated = |kind, seed, start| {
        let period = strokes(kind, seed, samples(0.5));
        let turn = samples(start);
        of(&[&period[turn..], &period[..turn]].concat().repeat(8))
    };
    none_alike(&[
        repeated(3, 1, 0.0),
        repeated(3, 2, 0.0),
        repeated(3, 1, 0.25),
        repeated(4, 1, 0.0),
    ]);
    let once = strokes(3, 1, samples(0.5));
    let copy = of(&coded(&once.repeat(8), 9));
    assert!(same_recording(&repeated(3, 1, 0.0), &copy));
}

#[test]
fn empty_recordings_are_alike_if_they_are_of_one_length() {
    let silent = of(&vec![0.0; samples(2.0)]);
    let mut random = Random::new(1);
    // The dither of 16 bits.
    let dither = (0..samples(2.0)).map(|_| (random.signed() + random.signed()) as f32 / 65_536.0);
    let dither = of(&dither.collect::<Vec<_>>());
    assert!(silent.is_empty() && dither.is_empty() && same_recording(&silent, &dither));
    assert!(!same_recording(&silent, &of(&vec![0.0; samples(2.5)])));
    // 60 dB below the others here is quiet, but there.
    let quiet: Vec<f32> = noise(1, samples(2.0)).iter().map(|s| s / 1000.0).collect();
    let quiet = of(&quiet);
    assert!(!quiet.is_empty() && !same_recording(&silent, &quiet));
    assert!(same_recording(&quiet, &of(&noise(1, samples(2.0)))));
    assert!(same_recording(&of(&[]), &of(&[])));
    // A click between silences is a recording.
    let mut click = vec![0.0; samples(2.0)];
    click[5000] = 0.5;
    let mut later = vec![0.0; samples(2.0)];
    later[50_000] = 0.5;
    none_alike(&[silent, of(&click), of(&later)]);
}

#[test]
fn tones_are_told_by_their_pitch() {
    let tone = |pitch: f64| {
        let at = |n| 0.3 * (std::f64::consts::TAU * pitch * n as f64 / f64::from(RATE)).sin() as f32;
        of(&(0..samples(2.0)).map(at).collect::<Vec<_>>())
    };
    none_alike(&[tone(220.0), tone(440.0), tone(1000.0), tone(3000.0)]);
    assert!(same_recording(&tone(440.0), &tone(440.0)));
}

/// The files that hold the same second of sound: one of a single tone, one of two, in all codings that there are.
#[test]
fn real_codecs() {
    let of = |name: &str| summarize(&file(name), &|| true).unwrap().fingerprint;
    let mono = [
        "mono-16.wav",
        "mono-16.aiff",
        "mono-16.caf",
        "mono-16.flac",
        "flac.oga",
        "flac.mka",
        "alac.m4a",
        "a-law.wav",
        "mu-law.wav",
        "adpcm-ms.wav",
        "mono.mp3",
        "mono.ogg",
        "mono.opus",
        "mono.m4a",
        "mono.aac",
        "opus.webm",
        "vorbis.webm",
    ]
    .map(|name| (name, of(name)));
    let stereo = [
        "stereo-24.wav",
        "stereo-24.flac",
        "alac-24.m4a",
        "stereo.mp3",
        "stereo.ogg",
        "stereo.opus",
    ]
    .map(|name| (name, of(name)));
    for group in [&mono[..], &stereo[..]] {
        for (name, a) in group {
            for (other, b) in group {
                assert!(same_recording(a, b), "{name} and {other}: {}", distance(a, b));
            }
        }
    }
}

/// What version 1 wrote for a file stays readable and stays its fingerprint.
#[test]
fn fingerprints_of_version_1() {
    let kept = fs_err::read(file("../golden/fingerprint-1.bin")).unwrap();
    let kept = Fingerprint::from_bytes(&kept).unwrap();
    let now = summarize(&file("mono-16.flac"), &|| true).unwrap().fingerprint;
    // Other processors round differently, by which few of 2000 cells change.
    assert!(distance(&kept, &now) < 0.005, "{}", distance(&kept, &now));
}

#[test]
fn an_outline_is_what_separate_readings_give() {
    for name in all_files() {
        let found = summarize(&file(&name), &|| true).unwrap();
        let mut decoder = Decoder::open(&file(&name)).unwrap();
        let mut peaks = Peaks::new(COLUMNS, decoder.info().rate);
        while let Some(block) = decoder.next_block().unwrap() {
            peaks.push(block);
        }
        assert_eq!(&found.info, decoder.info(), "{name}");
        assert_eq!(found.damage.as_ref(), decoder.damage(), "{name}");
        assert!((found.seconds - peaks.seconds()).abs() < 1e-12, "{name}");
        assert_eq!(found.peaks.len(), 2 * COLUMNS);
        for (pair, (low, high)) in found.peaks.chunks(2).zip(peaks.columns()) {
            let values = [f32::from(pair[0] as i8) / 127.0, f32::from(pair[1] as i8) / 127.0];
            // Rounded outwards by less than one step.
            assert!(
                (values[0] - low).abs() < 1.0 / 127.0 && (values[1] - high).abs() < 1.0 / 127.0,
                "{name}"
            );
        }
        let mut stream = Stream::open(&file(&name), Fingerprint::RATE).unwrap();
        let mut listener = Fingerprinter::new();
        while let Some(block) = stream.next_block().unwrap() {
            listener.push(block);
        }
        assert_eq!(found.fingerprint, listener.finish(), "{name}");
        assert!(
            (found.fingerprint.seconds() - found.seconds).abs() < 1e-3,
            "{name}"
        );
    }
}

#[test]
fn an_outline_can_be_stopped_and_tells_damage() {
    let asked = Cell::new(0);
    let twice = || {
        asked.set(asked.get() + 1);
        asked.get() < 3
    };
    let stopped = summarize(&file("mono.ogg"), &twice);
    assert!(matches!(stopped, Err(Error::Stopped { .. })) && asked.get() == 3);
    assert!(matches!(
        summarize(&file("missing.wav"), &|| true),
        Err(Error::Read { .. })
    ));
    let folder = tempfile::tempdir().unwrap();
    let torn = folder.path().join("torn.wav");
    let whole = bytes("mono-16.wav");
    fs_err::write(&torn, &whole[..whole.len() / 2]).unwrap();
    let found = summarize(&torn, &|| true).unwrap();
    assert!(found.damage.is_some() && found.seconds < 0.6);
    // What is beyond full scale is cut, not wrapped.
    let loud: Vec<u8> = [3.0_f32, -3.0, 0.001, -0.001]
        .iter()
        .flat_map(|s| s.to_le_bytes())
        .collect();
    let loud = support::Wav::new(3, 1, 4000, 32, loud);
    let path = folder.path().join("loud.wav");
    fs_err::write(&path, loud.bytes()).unwrap();
    let peaks = summarize(&path, &|| true).unwrap().peaks;
    let column = |at: usize| (peaks[2 * at] as i8, peaks[2 * at + 1] as i8);
    assert_eq!(
        [column(0), column(100), column(200), column(300)],
        [(127, 127), (-127, -127), (1, 1), (-1, -1)]
    );
}

/// Titles, artists and years as the containers of these files write them, and the texts of a Broadcast WAV file.
#[test]
fn what_files_say_of_themselves() {
    for name in [
        "mono-16.wav",
        "mono-16.flac",
        "mono.mp3",
        "mono.ogg",
        "mono.m4a",
        "mono.opus",
    ] {
        let metadata = probe(&file(name)).unwrap().metadata;
        let fields = metadata.fields();
        let field = |name: &str| fields.get(name).map(String::as_str);
        assert_eq!(field("title"), Some("A rising tone"), "{name}");
        assert_eq!(
            (field("artist"), field("date")),
            (Some("Hark"), Some("2024")),
            "{name}"
        );
        let remark = field("comment").or(field("description"));
        assert_eq!(remark, Some("one second of a formula"), "{name}");
        assert_eq!(metadata.day().as_deref(), Some("2024-01-01"), "{name}");
    }
    let mut bext = vec![0; 602];
    for (at, text) in [
        (0, "Waves"),
        (256, "Recorder"),
        (288, "R-7"),
        (320, "2026:11:15"),
        (330, "07:08:09"),
    ] {
        bext[at..at + text.len()].copy_from_slice(text.as_bytes());
    }
    let ixml =
        b"<?xml version=\"1.0\"?><BWFXML><SCENE>4</SCENE><USER><CATEGORY>SEA</CATEGORY></USER></BWFXML>\0";
    let wav = support::Wav::new(1, 1, 8000, 16, vec![0; 200])
        .with(*b"bext", &bext)
        .with_last(*b"iXML", ixml);
    let metadata = support::decode_bytes(wav.bytes()).unwrap().info.metadata;
    let expected = [
        ("bext.date", "2026:11:15"),
        ("bext.description", "Waves"),
        ("bext.originator", "Recorder"),
        ("bext.originator_reference", "R-7"),
        ("bext.time", "07:08:09"),
        ("ixml.category", "SEA"),
        ("ixml.scene", "4"),
    ];
    let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert_eq!(metadata.fields(), BTreeMap::from(expected));
    assert_eq!(metadata.day().as_deref(), Some("2026-11-15"));
}
