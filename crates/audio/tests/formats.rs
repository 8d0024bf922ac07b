//! Every format, by files that hold a known formula.

#![allow(unreachable_pub, reason = "modules that test binaries share")]

mod support;

use std::path::PathBuf;

use hark_audio::{Bext, Error, Peaks, Stream, probe, read};
use support::{Wav, best_lag, bytes, decode, decode_bytes, expected, file, formula, samples};

/// Name, container, codec, rate, channels, bits.
const LOSSLESS: [(&str, &str, &str, u32, usize, u32); 13] = [
    ("mono-16.wav", "wav", "pcm 16-bit", 4_000, 1, 16),
    ("stereo-24.wav", "wav", "pcm 24-bit", 4_000, 2, 24),
    ("mono-16.aiff", "aiff", "pcm 16-bit", 4_000, 1, 16),
    ("stereo-24.aiff", "aiff", "pcm 24-bit", 4_000, 2, 24),
    ("sowt.aifc", "aiff", "pcm 16-bit", 4_000, 1, 16),
    ("mono-16.caf", "caf", "pcm 16-bit", 4_000, 1, 16),
    ("alac.caf", "caf", "alac", 8_000, 1, 16),
    ("mono-16.flac", "flac", "flac", 16_000, 1, 16),
    ("stereo-24.flac", "flac", "flac", 4_000, 2, 24),
    ("flac.oga", "ogg", "flac", 16_000, 1, 16),
    ("alac.m4a", "mp4", "alac", 8_000, 1, 16),
    ("alac-24.m4a", "mp4", "alac", 4_000, 2, 24),
    ("pcm.mov", "mp4", "pcm 24-bit", 4_000, 2, 24),
];

/// Every sample is the formula's, to the last bit.
#[test]
fn lossless_files_hold_the_formula_exactly() {
    for (name, container, codec, rate, channels, bits) in LOSSLESS {
        let found = decode(name).unwrap();
        assert_eq!(
            (found.info.container.as_str(), found.info.codec.as_str()),
            (container, codec),
            "{name}"
        );
        assert_eq!((found.info.rate, found.info.channels), (rate, channels), "{name}");
        assert_eq!(found.damage, None, "{name}");
        assert!(found.samples == expected(rate, channels, bits), "{name}");
        if name != "alac.caf" {
            assert_eq!(found.info.seconds, Some(1.0), "{name}");
        }
    }
    let found = decode("flac.mka").unwrap();
    assert!(found.samples == expected(16_000, 1, 16));
    assert_eq!(found.info.seconds, Some(1.0));
}

/// Name, rate, channels, samples, lag against the formula, least correlation. What these encoders reach at their low
/// bit rates was measured; the bounds leave half as much again.
const LOSSY: [(&str, u32, usize, usize, i64, f64); 22] = [
    ("a-law.wav", 4_000, 1, 4_000, 0, 0.9998),
    ("mu-law.wav", 4_000, 1, 4_000, 0, 0.9998),
    // ADPCM comes in whole blocks, and nothing in the file tells where the padding begins.
    ("adpcm-ms.wav", 8_000, 1, 8_144, 0, 0.999),
    ("adpcm-ima.wav", 8_000, 2, 8_136, 0, 0.998),
    ("mono.mp3", 44_100, 1, 44_100, 0, 0.9999),
    ("stereo.mp3", 44_100, 2, 44_100, 0, 0.9999),
    ("mono.ogg", 44_100, 1, 44_100, 0, 0.9999),
    ("stereo.ogg", 44_100, 2, 44_100, 0, 0.9998),
    // Opus shifts phases a little at 24 kbit/s: the best fit is one sample early, with every decoder.
    ("mono.opus", 48_000, 1, 48_000, -1, 0.997),
    ("stereo.opus", 48_000, 2, 48_000, 0, 0.999),
    ("surround.opus", 48_000, 6, 48_000, 0, 0.96),
    ("surround.ogg", 44_100, 6, 44_100, 0, 0.97),
    ("mono.m4a", 44_100, 1, 44_100, 0, 0.998),
    ("stereo.m4a", 44_100, 2, 44_100, 0, 0.98),
    // A bare AAC stream has no container that could tell the encoder's run-up of 1024 samples.
    ("mono.aac", 44_100, 1, 46_080, 1_024, 0.998),
    // Five channels and one for the bass, and the Main profile: symphonia decodes neither. The bass channel keeps nothing
    // above its band, with every decoder.
    ("surround.m4a", 48_000, 6, 48_000, 0, 0.91),
    ("main.aac", 44_100, 1, 46_080, 1_024, 0.998),
    ("faststart.m4a", 44_100, 1, 44_100, 0, 0.998),
    ("mp3.mp4", 44_100, 1, 44_100, 0, 0.9999),
    ("opus.mp4", 48_000, 1, 48_000, -1, 0.997),
    ("opus.webm", 48_000, 1, 48_000, -1, 0.997),
    ("vorbis.webm", 44_100, 1, 44_608, 0, 0.9999),
];

#[test]
fn lossy_files_hold_the_formula_nearly_and_at_its_place() {
    for (name, rate, channels, length, lag, least) in LOSSY {
        let found = decode(name).unwrap();
        assert_eq!((found.info.rate, found.info.channels), (rate, channels), "{name}");
        assert_eq!((found.samples.len(), &found.damage), (length, &None), "{name}");
        // A tenth of a second of the rising tone is enough to find the place.
        let wanted = expected(rate, channels, 24);
        let middle = rate as usize / 2..rate as usize * 6 / 10;
        let (found_lag, _) = best_lag(&found.samples, &wanted, middle, 1_100);
        assert!((found_lag - lag).abs() <= 1, "{name}: lag {found_lag}");
        let (_, correlation) = best_lag(
            &found.samples[lag.max(0) as usize..],
            &wanted,
            1..rate as usize,
            1,
        );
        assert!(correlation > least, "{name}: correlation {correlation}");
    }
}

/// Two streams, one after the other, in one file.
#[test]
fn chained_streams_are_read_to_the_end() {
    for (chained, single) in [("chained.ogg", "mono.ogg"), ("chained.opus", "mono.opus")] {
        let (both, one) = (decode(chained).unwrap(), decode(single).unwrap());
        assert_eq!(both.damage, None, "{chained}");
        assert!(
            both.samples == [&one.samples[..], &one.samples[..]].concat(),
            "{chained}"
        );
    }
    // Streams of unequal rates are given at the first one's.
    let found = decode_bytes([bytes("mono.opus"), bytes("mono.ogg")].concat()).unwrap();
    assert_eq!((found.samples.len(), &found.damage), (2 * 48_000, &None));
    let wanted = expected(48_000, 1, 24);
    let (lag, correlation) = best_lag(&found.samples[48_000..], &wanted, 24_000..28_800, 100);
    assert!(lag.abs() <= 1 && correlation > 0.999, "{lag} {correlation}");
}

/// Without its first frame, which holds the encoder's count, an MP3 file says nothing of its length.
fn without_count(mp3: &[u8]) -> Vec<u8> {
    let start = mpeg_frames(mp3)[0];
    let next = mpeg_frames(mp3)[1];
    [&mp3[..start], &mp3[next..]].concat()
}

/// Where the frames of an MP3 file of 44.1 kHz begin: after the ID3v2 tag, each as long as its bit rate says.
fn mpeg_frames(mp3: &[u8]) -> Vec<usize> {
    const KILOBITS: [usize; 15] = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320];
    let tag = mp3[6..10].iter().fold(0, |size, &b| size << 7 | usize::from(b));
    let mut at = 10 + tag;
    let mut found = Vec::new();
    while at + 4 <= mp3.len() && mp3[at] == 0xff {
        found.push(at);
        let padding = usize::from(mp3[at + 2] >> 1 & 1);
        at += 144_000 * KILOBITS[usize::from(mp3[at + 2] >> 4)] / 44_100 + padding;
    }
    found
}

/// Two files joined by `cat` are heard as two, although the first declares its own length only.
#[test]
fn joined_mp3_files_are_read_to_the_end() {
    let one = decode("mono.mp3").unwrap();
    let both = decode_bytes([bytes("mono.mp3"), bytes("mono.mp3")].concat()).unwrap();
    assert_eq!(both.damage, None);
    assert!(both.samples.starts_with(&one.samples));
    // The second file keeps its run-up and padding, which no header of its own tells any more.
    let more = both.samples.len() - 2 * one.samples.len();
    assert!((1..3 * 1152).contains(&more), "{more}");
}

/// The length of a file without a count can only be guessed from the first frames, and quiet ones are short.
#[test]
fn mp3_whose_bit_rate_changes_is_read_to_the_end() {
    let source = without_count(&bytes("mono.mp3"));
    let frames = mpeg_frames(&source);
    let whole = decode_bytes(source.clone()).unwrap();
    assert_eq!((whole.info.seconds, whole.damage), (None, None));
    assert_eq!(whole.samples.len(), frames.len() * 1152);
    // Twenty frames of 320 kbit/s that hold nothing, before those of 64 kbit/s.
    let mut silence = vec![0; 1044];
    silence[..4].copy_from_slice(&[0xff, 0xfb, 0xe0, 0xc4]);
    let file = [silence.repeat(20), source[frames[0]..].to_vec()].concat();
    let found = decode_bytes(file).unwrap();
    assert_eq!(found.samples.len(), (20 + frames.len()) * 1152);
}

/// Frames of a bare AAC file are of unequal size; their mean at four places says little about their number.
#[test]
fn bare_aac_is_read_to_the_end() {
    let source = bytes("mono.aac");
    let mut frames = Vec::new();
    let mut at = 0;
    while at + 7 <= source.len() {
        let size = usize::from(source[at + 3] & 3) << 11
            | usize::from(source[at + 4]) << 3
            | usize::from(source[at + 5] >> 5);
        frames.push(&source[at..at + size]);
        at += size;
    }
    frames.sort_by_key(|frame| std::cmp::Reverse(frame.len()));
    // A hundred long frames, and 400 of the shortest.
    let (longest, shortest) = (frames[0].repeat(100), frames[frames.len() - 1].repeat(400));
    let found = decode_bytes([longest, shortest].concat()).unwrap();
    assert_eq!((found.samples.len(), found.info.seconds), (500 * 1024, None));
    assert_eq!(found.damage, None);
}

/// A Matroska file of unknown size, as live streams are, with one more element before its first cluster.
fn with_element(name: &str, added: &[u8]) -> Vec<u8> {
    let mut file = bytes(name);
    let segment = file
        .windows(4)
        .position(|w| w == [0x18, 0x53, 0x80, 0x67])
        .unwrap();
    assert_eq!(file[segment + 4], 1, "a size of eight bytes");
    file[segment + 5..segment + 12].fill(0xff);
    let cluster = file
        .windows(4)
        .position(|w| w == [0x1f, 0x43, 0xb6, 0x75])
        .unwrap();
    file.splice(cluster..cluster, added.iter().copied());
    file
}

/// ffmpeg writes editions without a number of their own.
#[test]
fn matroska_with_chapters() {
    let chapter = [0xb6, 0x84, 0x91, 0x82, 0, 0];
    let edition = [&[0x45, 0xb9, 0x86][..], &chapter].concat();
    let chapters = [&[0x10, 0x43, 0xa7, 0x70, 0x89][..], &edition].concat();
    let found = decode_bytes(with_element("flac.mka", &chapters)).unwrap();
    assert!(found.samples == expected(16_000, 1, 16));
    assert_eq!(found.damage, None);
}

#[test]
fn matroska_cut_short_gives_what_is_there() {
    for name in ["flac.mka", "opus.webm", "vorbis.webm"] {
        let file = bytes(name);
        let sound = file
            .windows(4)
            .position(|w| w == [0x1f, 0x43, 0xb6, 0x75])
            .unwrap();
        for part in [4, 6, 7] {
            gives_a_beginning(name, sound + (file.len() - sound) * part / 8, part);
        }
    }
}

/// A file that is cut short gives the beginning of its sound, more than half of `part` eighths, and says that it is cut.
fn gives_a_beginning(name: &str, cut: usize, part: usize) {
    let whole = decode(name).unwrap();
    let found = decode_bytes(bytes(name)[..cut].to_vec()).unwrap();
    assert!(whole.samples.starts_with(&found.samples), "{name} {part}");
    assert!(
        found.samples.len() * 16 > whole.samples.len() * part,
        "{name} {part}"
    );
    let damage = found.damage.unwrap();
    assert!(damage.what.contains("ends before"), "{name} {part}: {damage:?}");
}

/// The length of a Matroska file is that of its longest track, which may be a video's.
#[test]
fn matroska_longer_than_its_sound_is_whole() {
    let mut file = bytes("vorbis.webm");
    let place = file.windows(3).position(|w| w == [0x44, 0x89, 0x88]).unwrap();
    file[place + 3..place + 11].copy_from_slice(&5_000_f64.to_be_bytes());
    let found = decode_bytes(file).unwrap();
    assert_eq!(
        (found.samples, found.damage),
        (decode("vorbis.webm").unwrap().samples, None)
    );
}

/// The index of a fragmented file is empty; the sound is in its fragments.
#[test]
fn fragmented_mp4_is_read_to_the_end() {
    let found = decode("fragmented.mp4").unwrap();
    assert_eq!((found.info.seconds, &found.damage), (None, &None));
    // Nothing tells how much of the last packet is padding.
    assert!(
        (44_100..44_100 + 2_048).contains(&found.samples.len()),
        "{}",
        found.samples.len()
    );
    let wanted = expected(44_100, 1, 24);
    let (lag, correlation) = best_lag(&found.samples, &wanted, 22_050..26_460, 1_100);
    assert!(
        (lag == 0 || lag == 1_024) && correlation > 0.998,
        "{lag} {correlation}"
    );
}

#[test]
fn mp4_cut_short_gives_what_is_there() {
    for name in ["faststart.m4a", "fragmented.mp4"] {
        for part in [5, 6, 7] {
            gives_a_beginning(name, bytes(name).len() * part / 8, part);
        }
    }
}

#[test]
fn texts_are_read() {
    for name in [
        "mono-16.wav",
        "mono-16.aiff",
        "mono-16.caf",
        "mono-16.flac",
        "mono.mp3",
        "mono.ogg",
        "mono.m4a",
        "mono.opus",
    ] {
        let metadata = probe(&file(name)).unwrap().metadata;
        assert_eq!(metadata.title.as_deref(), Some("A rising tone"), "{name}");
        // ffmpeg writes no artist into AIFF, and the comment as a description into Vorbis comments.
        assert_eq!(
            metadata.artist.as_deref(),
            (name != "mono-16.aiff").then_some("Hark"),
            "{name}"
        );
        let remark = metadata.comment.or(metadata.description);
        assert_eq!(remark.as_deref(), Some("one second of a formula"), "{name}");
        assert_eq!(
            metadata.date.as_deref(),
            (name != "mono-16.aiff").then_some("2024"),
            "{name}"
        );
    }
}

#[test]
fn the_name_does_not_matter() {
    let folder = tempfile::tempdir().unwrap();
    for (name, other) in [
        ("mono-16.flac", "UPPER.FLAC"),
        ("mono-16.flac", "wrong.mp3"),
        ("mono.mp3", "wrong.wav"),
        ("mono.opus", "wrong.flac"),
        ("mono-16.wav", "none"),
        ("mono.m4a", "wrong.ogg"),
    ] {
        let path: PathBuf = folder.path().join(other);
        fs_err::copy(file(name), &path).unwrap();
        let (found, right) = (
            read(&path, 16_000, None).unwrap(),
            read(&file(name), 16_000, None).unwrap(),
        );
        assert!(found == right, "{name} as {other}");
    }
}

#[test]
fn wav_of_every_width() {
    let rate = 8_000;
    for channels in [1_u16, 2, 5] {
        for bits in [8_u16, 16, 24, 32] {
            let n = usize::from(channels);
            let wav = Wav::new(1, channels, rate, bits, samples(rate, n, u32::from(bits)));
            let found = decode_bytes(wav.bytes()).unwrap();
            assert!(
                found.samples == expected(rate, n, u32::from(bits)),
                "{bits} bits, {channels} channels"
            );
            assert_eq!(found.damage, None);
        }
    }
}

/// One second of the formula as floats of either width.
fn floats(wide: bool) -> Vec<u8> {
    let values = (0..8_000).map(|n| formula(f64::from(n) / 8_000.0, 0));
    if wide {
        values.flat_map(f64::to_le_bytes).collect()
    } else {
        values.flat_map(|v| (v as f32).to_le_bytes()).collect()
    }
}

#[test]
fn wav_of_floats() {
    let wanted: Vec<f32> = (0..8_000)
        .map(|n| formula(f64::from(n) / 8_000.0, 0) as f32)
        .collect();
    for (bits, wide) in [(32, false), (64, true)] {
        let found = decode_bytes(Wav::new(3, 1, 8_000, bits, floats(wide)).bytes()).unwrap();
        assert!(found.samples == wanted, "{bits} bits");
        assert_eq!(found.info.codec, format!("pcm float {bits}-bit"));
    }
}

/// The extensible format: the true tag stands in the first two bytes of an identifier.
#[test]
fn wav_extensible() {
    for (tag, bits, body) in [(1_u16, 24_u16, samples(8_000, 3, 24)), (3, 32, floats(false))] {
        let channels = if tag == 1 { 3 } else { 1 };
        let mut wav = Wav::new(0xfffe, channels, 8_000, bits, body);
        let format = &mut wav.chunks[0].1;
        format.extend(22_u16.to_le_bytes());
        format.extend(bits.to_le_bytes());
        format.extend(7_u32.to_le_bytes());
        format.extend(tag.to_le_bytes());
        format.extend([0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xaa, 0, 0x38, 0x9b, 0x71]);
        let found = decode_bytes(wav.bytes()).unwrap();
        assert_eq!(
            (found.samples.len(), found.info.channels),
            (8_000, usize::from(channels))
        );
        if tag == 1 {
            assert!(found.samples == expected(8_000, 3, 24));
        }
        wav.chunks[0].1.truncate(20);
        assert!(decode_bytes(wav.bytes()).is_err());
    }
}

#[test]
fn broadcast_wav_with_texts_before_and_after() {
    let mut bext = vec![0; 605];
    for (at, text) in [
        (0, "rain on a tin roof"),
        (256, "H5"),
        (288, "H5-0001"),
        (320, "2023-11-05"),
        (330, "06:07:08"),
    ] {
        bext[at..at + text.len()].copy_from_slice(text.as_bytes());
    }
    let plain = || Wav::new(1, 1, 8_000, 16, samples(8_000, 1, 16));
    let ixml = b"<BWFXML><SCENE>12</SCENE></BWFXML>\n\0";
    let wanted = Bext {
        description: "rain on a tin roof".into(),
        originator: "H5".into(),
        originator_reference: "H5-0001".into(),
        date: "2023-11-05".into(),
        time: "06:07:08".into(),
    };
    let before = plain()
        .with(*b"bext", &bext)
        .with(*b"iXML", ixml)
        .with(*b"LIST", b"INFOINAM\x05\0\0\0a\0bcd\0");
    let after = plain()
        .with_last(*b"bext", &bext)
        .with_last(*b"iXML", ixml)
        .with_last(*b"LIST", b"INFOINAM\x01\0\0\0a");
    for wav in [before, after] {
        let found = decode_bytes(wav.bytes()).unwrap();
        assert!(found.samples == expected(8_000, 1, 16));
        assert_eq!(found.info.metadata.bext.as_ref(), Some(&wanted));
        assert_eq!(
            found.info.metadata.ixml.as_deref(),
            Some("<BWFXML><SCENE>12</SCENE></BWFXML>")
        );
        assert_eq!(found.info.metadata.title.as_deref(), Some("a"));
    }
    let long = plain().with(*b"iXML", &vec![b'x'; hark_audio::MAX_IXML_BYTES + 1]);
    assert_eq!(decode_bytes(long.bytes()).unwrap().info.metadata.ixml, None);
}

#[test]
fn odd_chunks_are_padded() {
    for length in [1, 3, 7] {
        let wav = Wav::new(1, 1, 8_000, 8, samples(8_000, 1, 8)[..7_999].to_vec())
            .with(*b"junk", &vec![b'f'; length])
            .with_last(*b"LIST", b"INFOINAM\x04\0\0\0last");
        let found = decode_bytes(wav.bytes()).unwrap();
        assert!(found.samples == expected(8_000, 1, 8)[..7_999]);
        assert_eq!(found.info.metadata.title.as_deref(), Some("last"));
    }
}

/// Sizes of 64 bits stand in `ds64`, and the usual ones are all ones.
#[test]
fn rf64() {
    let body = samples(8_000, 2, 16);
    let mut ds64 = Vec::new();
    for value in [0_u64, body.len() as u64, 8_000] {
        ds64.extend(value.to_le_bytes());
    }
    ds64.extend(0_u32.to_le_bytes());
    for outer in [*b"RF64", *b"BW64"] {
        let mut wav = Wav::new(1, 2, 8_000, 16, body.clone()).with_last(*b"LIST", b"INFOINAM\x04\0\0\0last");
        wav.outer = outer;
        wav.chunks.insert(0, (*b"ds64", ds64.clone()));
        let mut file = wav.bytes();
        file[4..8].fill(0xff);
        let data = file.windows(4).position(|w| w == b"data").unwrap();
        file[data + 4..data + 8].fill(0xff);
        let found = decode_bytes(file).unwrap();
        assert_eq!(
            (found.info.container.as_str(), found.info.seconds),
            ("rf64", Some(1.0))
        );
        assert!(found.samples == expected(8_000, 2, 16));
        assert_eq!(found.info.metadata.title.as_deref(), Some("last"));
    }
}

/// A recorder that lost power, and a program that wrote into a pipe, leave sizes of 0 or all ones.
#[test]
fn wav_whose_sizes_were_never_written() {
    for size in [0, 0xff] {
        let mut file = Wav::new(1, 1, 8_000, 16, samples(8_000, 1, 16)).bytes();
        file[4..8].fill(size);
        file[40..44].fill(size);
        let found = decode_bytes(file).unwrap();
        assert!(found.samples == expected(8_000, 1, 16));
        assert_eq!((found.info.seconds, found.damage), (None, None));
    }
    for outer in [*b"RF64", *b"BW64"] {
        let mut large = Wav::new(1, 1, 8_000, 16, samples(8_000, 1, 16));
        large.outer = outer;
        large.chunks.insert(0, (*b"ds64", vec![0; 28]));
        let mut file = large.bytes();
        file[4..8].fill(0xff);
        file[76..80].fill(0xff);
        let found = decode_bytes(file).unwrap();
        assert!(found.samples == expected(8_000, 1, 16));
        assert_eq!((found.info.seconds, found.damage), (None, None));
    }
}

/// A CAF file of one packet per frame.
fn caf(channels: u32, bits: u32, packet_bytes: u32, little: bool, body: &[u8]) -> Vec<u8> {
    let mut file = b"caff\0\x01\0\0desc\0\0\0\0\0\0\0\x20".to_vec();
    file.extend(8_000_f64.to_be_bytes());
    file.extend(b"lpcm");
    for field in [if little { 2 } else { 0 }, packet_bytes, 1, channels, bits] {
        file.extend(field.to_be_bytes());
    }
    file.extend(b"data");
    file.extend((body.len() as u64 + 4).to_be_bytes());
    file.extend([0; 4]);
    file.extend(body);
    file
}

#[test]
fn caf_samples_in_more_bytes_than_they_need() {
    for (channels, bits, bytes, little) in [
        (1, 24, 4, true),
        (2, 24, 4, false),
        (2, 24, 3, true),
        (1, 16, 3, false),
        (3, 16, 4, true),
    ] {
        let values = (0..8_000).flat_map(|n| support::quantised(n, 8_000, channels, bits));
        let body: Vec<u8> = values
            .flat_map(|value| {
                let high = (value << (32 - bits)).to_be_bytes();
                let mut sample = high[..bytes].to_vec();
                if little {
                    sample.reverse();
                }
                sample
            })
            .collect();
        let file = caf(channels as u32, bits, (bytes * channels) as u32, little, &body);
        let found = decode_bytes(file).unwrap();
        assert!(
            found.samples == expected(8_000, channels, bits),
            "{bits} bits in {bytes} bytes"
        );
        assert_eq!(found.damage, None);
    }
    // Bytes that do not divide, that are too few, none at all, and more than any sample has.
    for (channels, bits, bytes) in [(2, 16, 5), (2, 24, 4), (1, 16, 0), (1, 16, 9), (1, 32, u32::MAX)] {
        let result = decode_bytes(caf(channels, bits, bytes, true, &[0; 400]));
        assert!(matches!(result, Err(Error::Header { .. })), "{result:?}");
    }
}

#[test]
fn a_stream_gives_the_wished_rate_and_the_exact_length() {
    for (name, rate) in [
        ("mono-16.flac", 32_000),
        ("mono.opus", 32_000),
        ("stereo.mp3", 16_000),
        ("mono-16.wav", 4_000),
    ] {
        let mut stream = Stream::open(&file(name), rate).unwrap();
        let mut all = Vec::new();
        let mut peaks = Peaks::new(100, rate);
        while let Some(block) = stream.next_block().unwrap() {
            peaks.push(block);
            all.extend_from_slice(block);
        }
        assert_eq!(
            (stream.samples_so_far(), stream.rate()),
            (u64::from(rate), rate),
            "{name}"
        );
        assert_eq!(stream.damage(), None);
        assert!((peaks.seconds() - 1.0).abs() < 1e-9);
        assert_eq!(all, read(&file(name), rate, None).unwrap().samples);
        // The formula holds 600 Hz at most, and so does not care which rate it is sampled at. Away from the ends,
        // where the signal is cut off, the lossless file's own rounding to 16 bits is what remains.
        if name == "mono-16.flac" {
            let wanted = expected(rate, 1, 24);
            let worst = (3_000..29_000)
                .map(|n| (all[n] - wanted[n]).abs())
                .fold(0.0, f32::max);
            assert!(worst < 3e-5, "{worst}");
        }
    }
}
