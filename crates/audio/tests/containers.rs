//! WAV and its relatives, AU, AIFF-C and CAF: files that are built here, byte by byte.

#![allow(unreachable_pub, reason = "modules that test binaries share")]

mod support;

use hark_audio::Error;
use support::{Wav, best_lag, bytes, decode, decode_bytes, expected, formula, quantised, samples};

/// The formula's samples with the highest byte first, signed; of 1 to 4 bytes.
fn big_samples(rate: u32, channels: usize, bits: u32) -> Vec<u8> {
    let frames = (0..rate as usize).flat_map(|n| quantised(n, rate, channels, bits));
    frames
        .flat_map(|v| {
            (v << (32 - bits))
                .to_be_bytes()
                .into_iter()
                .take(bits as usize / 8)
        })
        .collect()
}

fn refused(file: Vec<u8>) -> String {
    decode_bytes(file).unwrap_err().to_string()
}

/// Turns every number of a WAV file's chunk heads and `fmt ` chunk; samples and texts are left as they are.
fn rifx(format: &[u8], chunks: &[(&[u8; 4], Vec<u8>)]) -> Vec<u8> {
    let mut turned = Vec::new();
    for &(at, size) in &[(0, 2), (2, 2), (4, 4), (8, 4), (12, 2), (14, 2)] {
        turned.extend(format[at..at + size].iter().rev());
    }
    turned.extend(&format[16..]);
    let mut body = b"WAVE".to_vec();
    for (name, chunk) in [&[(b"fmt ", turned)], chunks].concat() {
        body.extend(name);
        body.extend((chunk.len() as u32).to_be_bytes());
        body.extend(&chunk);
        body.resize(body.len().next_multiple_of(2), 0);
    }
    [b"RIFX", &(body.len() as u32).to_be_bytes()[..], &body].concat()
}

#[test]
fn rifx_has_the_highest_byte_first() {
    for bits in [16_u16, 24, 32] {
        for channels in [1_u16, 2] {
            let (n, width) = (usize::from(channels), u32::from(bits));
            let format = Wav::format(1, channels, 8_000, bits);
            let list = b"INFOINAM\0\0\0\x04rain".to_vec();
            let file = rifx(
                &format,
                &[(b"data", big_samples(8_000, n, width)), (b"LIST", list)],
            );
            let found = decode_bytes(file).unwrap();
            assert!(found.samples == expected(8_000, n, width), "{bits} bits");
            assert_eq!(
                (found.info.container.as_str(), found.info.seconds, found.damage),
                ("rifx", Some(1.0), None)
            );
            assert_eq!(found.info.metadata.title.as_deref(), Some("rain"));
        }
    }
    let floats: Vec<u8> = [0.5_f32, -0.25].iter().flat_map(|v| v.to_be_bytes()).collect();
    let file = rifx(&Wav::format(3, 1, 8_000, 32), &[(b"data", floats)]);
    assert_eq!(decode_bytes(file).unwrap().samples, [0.5, -0.25]);
    let small = rifx(&Wav::format(1, 1, 8_000, 8), &[(b"data", vec![0, 128, 192])]);
    assert_eq!(decode_bytes(small).unwrap().samples, [-1.0, 0.0, 0.5]);
    // The tag within the extensible format's identifier, in either order.
    for tag in [[0, 0, 0, 1], [1, 0, 0, 0]] {
        let mut format = Wav::format(0xfffe, 1, 8_000, 16);
        format.extend([0, 22, 0, 16, 0, 0, 0, 4]);
        format.extend(tag);
        format.extend([0, 0, 0, 16, 128, 0, 0, 170, 0, 56, 155, 113]);
        let found = decode_bytes(rifx(&format, &[(b"data", big_samples(8_000, 1, 16))])).unwrap();
        assert!(found.samples == expected(8_000, 1, 16));
    }
    // A RIFX file that is cut short, and one without any sound.
    let whole = rifx(
        &Wav::format(1, 1, 8_000, 16),
        &[(b"data", big_samples(8_000, 1, 16))],
    );
    let cut = decode_bytes(whole[..8_044].to_vec()).unwrap();
    assert!(cut.samples == expected(8_000, 1, 16)[..4_000] && cut.damage.is_some());
    let message = refused(whole[..30].to_vec());
    assert!(message.contains("rifx header"), "{message}");
}

#[test]
fn wav_of_up_to_64_bits() {
    for bytes in [5_usize, 6, 7, 8] {
        let values = (0..8_000).map(|n| quantised(n, 8_000, 1, 24)[0]);
        let body: Vec<u8> = values
            .flat_map(|v| {
                let high = (i64::from(v) << 40).to_be_bytes();
                let mut sample = high[..bytes].to_vec();
                sample.reverse();
                sample
            })
            .collect();
        // All bits, or fewer of them in the same bytes.
        for bits in [8 * bytes as u16, 8 * bytes as u16 - 4, 24] {
            let mut format = Wav::format(1, 1, 8_000, bits);
            format[12..14].copy_from_slice(&(bytes as u16).to_le_bytes());
            let wav = Wav {
                outer: *b"RIFF",
                chunks: vec![(*b"fmt ", format), (*b"data", body.clone())],
            };
            let found = decode_bytes(wav.bytes()).unwrap();
            assert!(
                found.samples == expected(8_000, 1, 24),
                "{bits} bits in {bytes} bytes"
            );
            assert_eq!(found.info.codec, format!("pcm {}-bit", 8 * bytes));
        }
    }
    // A header without a width: the frame's size tells it.
    let mut file = Wav::new(1, 2, 8_000, 16, samples(8_000, 2, 16)).bytes();
    file[34..36].fill(0);
    assert!(decode_bytes(file).unwrap().samples == expected(8_000, 2, 16));
    // Neither: the extensible format counts the valid bits besides.
    let mut format = Wav::format(0xfffe, 1, 8_000, 0);
    format.extend([22, 0, 32, 0, 4, 0, 0, 0, 3, 0, 0, 0]);
    format.extend([0, 0, 16, 0, 128, 0, 0, 170, 0, 56, 155, 113]);
    let body = [0.5_f32, -0.25].iter().flat_map(|v| v.to_le_bytes()).collect();
    let wav = Wav {
        outer: *b"RIFF",
        chunks: vec![(*b"fmt ", format), (*b"data", body)],
    };
    assert_eq!(decode_bytes(wav.bytes()).unwrap().samples, [0.5, -0.25]);
}

/// One chunk of a Wave64 file.
fn w64_chunk(name: &[u8], body: &[u8]) -> Vec<u8> {
    let mut chunk = name.to_vec();
    chunk.extend([
        0xf3, 0xac, 0xd3, 0x11, 0x8c, 0xd1, 0x00, 0xc0, 0x4f, 0x8e, 0xdb, 0x8a,
    ]);
    chunk.extend((body.len() as u64 + 24).to_le_bytes());
    chunk.extend(body);
    chunk.resize(chunk.len().next_multiple_of(8), 0);
    chunk
}

fn w64(format: &[u8], body: &[u8]) -> Vec<u8> {
    let inner = [w64_chunk(b"fmt ", format), w64_chunk(b"data", body)].concat();
    let mut file = b"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\0\0".to_vec();
    file.extend((inner.len() as u64 + 40).to_le_bytes());
    file.extend(b"wave\xf3\xac\xd3\x11\x8c\xd1\0\xc0\x4f\x8e\xdb\x8a");
    file.extend(inner);
    file
}

#[test]
fn wave64() {
    for (channels, bits) in [(1_u16, 16_u16), (2, 24), (1, 8)] {
        let (n, width) = (usize::from(channels), u32::from(bits));
        let file = w64(&Wav::format(1, channels, 8_000, bits), &samples(8_000, n, width));
        let found = decode_bytes(file).unwrap();
        assert!(found.samples == expected(8_000, n, width), "{bits} bits");
        assert_eq!(
            (found.info.container.as_str(), found.info.seconds, found.damage),
            ("w64", Some(1.0), None)
        );
    }
    let whole = w64(&Wav::format(1, 1, 8_000, 16), &samples(8_000, 1, 16));
    let data = whole.windows(4).position(|w| w == b"data").unwrap();
    // Sizes that were never written.
    for size in [0_u64, 24, u64::MAX, i64::MAX as u64] {
        let mut file = whole.clone();
        file[data + 16..data + 24].copy_from_slice(&size.to_le_bytes());
        let found = decode_bytes(file).unwrap();
        assert!(found.samples == expected(8_000, 1, 16), "{size}");
        assert_eq!(found.damage, None);
    }
    let cut = decode_bytes(whole[..data + 24 + 8_000].to_vec()).unwrap();
    assert!(cut.samples == expected(8_000, 1, 16)[..4_000] && cut.damage.is_some());
    let empty = w64(&Wav::format(1, 1, 8_000, 16), &[]);
    assert!(matches!(decode_bytes(empty), Err(Error::Empty { .. })));
    for length in (0..data + 24).step_by(3) {
        assert!(decode_bytes(whole[..length].to_vec()).is_err(), "{length}");
    }
}

#[test]
fn mpeg_and_aac_within_wav() {
    for (tag, name, codec) in [
        (0x55, "mono.mp3", "mp3"),
        (0x50, "stereo.mp3", "mp3"),
        (0xff, "mono.aac", "aac"),
    ] {
        let alone = decode(name).unwrap();
        let channels = alone.info.channels as u16;
        let wav =
            Wav::new(tag, channels, 44_100, 0, bytes(name)).with_last(*b"LIST", b"INFOINAM\x04\0\0\0rain");
        let found = decode_bytes(wav.bytes()).unwrap();
        assert!(found.samples == alone.samples, "{name}");
        assert_eq!(
            (
                found.info.container.as_str(),
                found.info.codec.as_str(),
                found.damage
            ),
            ("wav", codec, None)
        );
        assert_eq!(found.info.metadata.title.as_deref(), Some("rain"));
    }
    let whole = Wav::new(0x55, 1, 44_100, 0, bytes("mono.mp3")).bytes();
    let cut = decode_bytes(whole[..whole.len() / 2].to_vec()).unwrap();
    assert!(!cut.samples.is_empty() && cut.damage.is_some());
    // The same without the encoder's count, where only the header of the WAV file tells.
    let mp3 = bytes("mono.mp3");
    let frame = mp3.windows(2).rposition(|w| w == [0xff, 0xfb]).unwrap();
    let bare = mp3[frame..].repeat(10);
    let whole = Wav::new(0x55, 1, 44_100, 0, bare).bytes();
    assert_eq!(decode_bytes(whole.clone()).unwrap().damage, None);
    let cut = decode_bytes(whole[..whole.len() - 1_000].to_vec()).unwrap();
    assert!(cut.damage.is_some());
    let flac = Wav::new(0xf1ac, 1, 16_000, 16, bytes("mono-16.flac")).bytes();
    assert!(decode_bytes(flac).unwrap().samples == expected(16_000, 1, 16));
    let none = Wav::new(0x55, 1, 44_100, 0, vec![0; 1_000]).bytes();
    let message = refused(none);
    assert!(message.contains("MP3"), "{message}");
}

#[test]
fn codings_that_are_not_decoded_have_names() {
    for (tag, name) in [
        (0x31_u16, "GSM 6.10"),
        (0x22, "TrueSpeech"),
        (0x28f, "G.722"),
        (0x45, "G.726"),
        (0x64, "G.726"),
        (0x20, "Yamaha ADPCM"),
        (0x161, "WMA 2"),
        (0x2000, "AC-3"),
        (0x270, "ATRAC3"),
        (0x69, "Xbox ADPCM"),
        (0x28e, "MSN Siren"),
        (0x1610, "AAC"),
    ] {
        let message = refused(Wav::new(tag, 1, 8_000, 0, vec![0; 100]).bytes());
        assert!(
            message.contains(name) && message.contains("without ffmpeg"),
            "{tag:#x}: {message}"
        );
    }
    for (kind, name) in [
        (b"MAC3", "MACE 3:1"),
        (b"MAC6", "MACE 6:1"),
        (b"GSM ", "GSM 6.10"),
        (b"QDM2", "QDesign"),
        (b"G722", "G.722"),
        (b"dwvw", "DWVW"),
    ] {
        let message = refused(aifc(kind, 1, 16, 100, &[0; 100]));
        assert!(message.contains(name), "{message}");
    }
    let message = refused(aifc(b"wxyz", 1, 16, 100, &[0; 100]));
    assert!(message.contains("wxyz"), "{message}");
    for (coding, name) in [
        (23, "G.721"),
        (24, "G.722"),
        (25, "G.723"),
        (26, "G.723"),
        (99, "99"),
    ] {
        let message = refused(au(true, coding, 1, u32::MAX, b"", &[0; 100]));
        assert!(message.contains(name), "{message}");
    }
    let message = refused(caf(b"ilbc", [0, 50, 240, 1, 0], &[], &[0; 100], None));
    assert!(message.contains("iLBC"), "{message}");
}

/// Recorders that lose power leave a `data` chunk of size 0, whatever the outer size says.
#[test]
fn wav_whose_data_size_is_zero() {
    let whole = Wav::new(1, 1, 8_000, 16, samples(8_000, 1, 16)).bytes();
    for outer in [0_u32, 8, 36, 16_036, 1 << 30, u32::MAX] {
        for size in [0_u32, 0x7fff_f000, 0x7fff_ffff, 0xffff_ff9b, u32::MAX] {
            let mut file = whole.clone();
            file[4..8].copy_from_slice(&outer.to_le_bytes());
            file[40..44].copy_from_slice(&size.to_le_bytes());
            let found = decode_bytes(file).unwrap();
            assert!(found.samples == expected(8_000, 1, 16), "{outer} {size}");
            assert_eq!((found.info.seconds, found.damage), (None, None));
        }
    }
    // A size of 0 that is true: chunks follow, not samples.
    let empty = || Wav::new(1, 1, 8_000, 16, Vec::new());
    for wav in [
        empty(),
        empty().with_last(*b"LIST", b"INFOINAM\x04\0\0\0rain"),
        empty()
            .with_last(*b"id3 ", &[0; 1_001])
            .with_last(*b"bext", &[0; 700]),
    ] {
        let message = refused(wav.bytes());
        assert!(message.contains("it holds no sound"), "{message}");
    }
}

/// Some recorders close the `data` chunk and begin another one.
#[test]
fn wav_whose_sound_is_in_two_chunks() {
    let all = samples(8_000, 2, 16);
    let wav = Wav::new(1, 2, 8_000, 16, all[..12_000].to_vec())
        .with_last(*b"junk", &[7; 33])
        .with_last(*b"data", &all[12_000..]);
    let found = decode_bytes(wav.bytes()).unwrap();
    assert!(found.samples == expected(8_000, 2, 16));
    assert_eq!((found.info.seconds, found.damage), (Some(1.0), None));
    let wav = Wav::new(1, 2, 8_000, 16, Vec::new())
        .with_last(*b"junk", &[7; 33])
        .with_last(*b"data", &all);
    assert!(decode_bytes(wav.bytes()).unwrap().samples == expected(8_000, 2, 16));
}

/// An AU file; `size` is what the header says of the sound.
fn au(big: bool, coding: u32, channels: u32, size: u32, annotation: &[u8], body: &[u8]) -> Vec<u8> {
    let start = 24 + annotation.len() as u32;
    let mut file = if big { b".snd" } else { b"dns." }.to_vec();
    for field in [start, size, coding, 8_000, channels] {
        file.extend(if big {
            field.to_be_bytes()
        } else {
            field.to_le_bytes()
        });
    }
    [&file, annotation, body].concat()
}

#[test]
fn au_of_every_linear_coding() {
    for (coding, bits) in [(3, 16), (4, 24), (5, 32)] {
        for big in [true, false] {
            let body = if big {
                big_samples(8_000, 2, bits)
            } else {
                samples(8_000, 2, bits)
            };
            for size in [body.len() as u32, u32::MAX, 0] {
                let found = decode_bytes(au(big, coding, 2, size, b"rain on a roof\0\0", &body)).unwrap();
                assert!(found.samples == expected(8_000, 2, bits), "{bits} bits");
                assert_eq!((found.info.container.as_str(), found.damage), ("au", None));
                assert_eq!(found.info.metadata.comment.as_deref(), Some("rain on a roof"));
            }
        }
    }
    let bytes = decode_bytes(au(true, 2, 1, 3, b"", &[0x80, 0, 0x40])).unwrap();
    assert_eq!(bytes.samples, [-1.0, 0.0, 0.5]);
    let float: Vec<u8> = [0.5_f32, -0.25].iter().flat_map(|v| v.to_be_bytes()).collect();
    assert_eq!(
        decode_bytes(au(true, 6, 1, 8, b"", &float)).unwrap().samples,
        [0.5, -0.25]
    );
    let double: Vec<u8> = [0.5_f64, -0.25].iter().flat_map(|v| v.to_be_bytes()).collect();
    assert_eq!(
        decode_bytes(au(true, 7, 1, 16, b"", &double)).unwrap().samples,
        [0.5, -0.25]
    );
    for (coding, name, wav) in [(1, "mu-law", "mu-law.wav"), (27, "a-law", "a-law.wav")] {
        let body = data_of(wav);
        let found = decode_bytes(au(true, coding, 1, body.len() as u32, b"text", &body)).unwrap();
        assert!(found.samples == decode(wav).unwrap().samples);
        assert_eq!(found.info.codec, name);
    }
    let cut = decode_bytes(au(true, 3, 1, 16_000, b"", &big_samples(8_000, 1, 16)[..8_000])).unwrap();
    assert!(cut.samples == expected(8_000, 1, 16)[..4_000] && cut.damage.is_some());
    for length in 0..24 {
        assert!(decode_bytes(au(true, 3, 1, 3, b"", b"")[..length].to_vec()).is_err());
    }
}

/// The samples of a committed WAV file.
fn data_of(name: &str) -> Vec<u8> {
    let file = bytes(name);
    let data = file.windows(4).position(|w| w == b"data").unwrap();
    let size = u32::from_le_bytes(*file[data + 4..].first_chunk().unwrap()) as usize;
    file[data + 8..data + 8 + size].to_vec()
}

/// An AIFF-C file of 8 kHz.
fn aifc(kind: &[u8], channels: u16, bits: u16, frames: u32, body: &[u8]) -> Vec<u8> {
    let mut common = channels.to_be_bytes().to_vec();
    common.extend(frames.to_be_bytes());
    common.extend(bits.to_be_bytes());
    common.extend([0x40, 0x0b, 0xfa, 0, 0, 0, 0, 0, 0, 0]);
    common.extend(kind);
    common.extend([0, 0]);
    let sound = [&[0; 8], body].concat();
    let mut inner = b"AIFC".to_vec();
    for (name, chunk) in [(b"COMM", &common), (b"SSND", &sound)] {
        inner.extend(name);
        inner.extend((chunk.len() as u32).to_be_bytes());
        inner.extend(chunk);
        inner.resize(inner.len().next_multiple_of(2), 0);
    }
    [b"FORM", &(inner.len() as u32).to_be_bytes()[..], &inner].concat()
}

#[test]
fn aifc_codings() {
    for (kind, wav) in [
        (b"ulaw", "mu-law.wav"),
        (b"ULAW", "mu-law.wav"),
        (b"alaw", "a-law.wav"),
        (b"ALAW", "a-law.wav"),
    ] {
        let body = data_of(wav);
        let found = decode_bytes(aifc(kind, 1, 16, body.len() as u32, &body)).unwrap();
        assert!(found.samples == decode(wav).unwrap().samples);
    }
    let found = decode_bytes(aifc(b"sowt", 2, 16, 8_000, &samples(8_000, 2, 16))).unwrap();
    assert!(found.samples == expected(8_000, 2, 16));
    for (kind, bits) in [(b"in16", 16), (b"in24", 24), (b"in32", 32)] {
        let found = decode_bytes(aifc(kind, 2, 16, 8_000, &big_samples(8_000, 2, bits))).unwrap();
        assert!(found.samples == expected(8_000, 2, bits), "{bits} bits");
    }
    let raw = decode_bytes(aifc(b"raw ", 1, 8, 3, &[0, 128, 192])).unwrap();
    assert_eq!(raw.samples, [-1.0, 0.0, 0.5]);
    // The chunk's size was never written.
    let mut file = aifc(b"NONE", 1, 16, 0, &big_samples(8_000, 1, 16));
    let sound = file.windows(4).position(|w| w == b"SSND").unwrap();
    file[4..8].fill(0);
    for size in [0_u32, 8] {
        file[sound + 4..sound + 8].copy_from_slice(&size.to_be_bytes());
        let found = decode_bytes(file.clone()).unwrap();
        assert!(found.samples == expected(8_000, 1, 16) && found.damage.is_none());
    }
}

/// A plain encoder of Apple's IMA ADPCM: the nearest nibble for each sample, in packets of 64.
fn ima4(channels: usize, frames: usize) -> Vec<u8> {
    let steps: Vec<i32> = {
        let mut steps = vec![
            7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 19, 21, 23, 25, 28, 31, 34, 37, 41, 45, 50, 55, 60, 66, 73,
            80, 88, 97, 107, 118, 130, 143, 157, 173, 190, 209, 230, 253, 279, 307, 337, 371, 408, 449, 494,
            544, 598, 658, 724, 796, 876, 963, 1060, 1166, 1282, 1411, 1552, 1707, 1878, 2066, 2272, 2499,
            2749, 3024, 3327, 3660, 4026, 4428, 4871, 5358, 5894, 6484, 7132, 7845, 8630, 9493, 10442, 11487,
            12635, 13899, 15289, 16818, 18500, 20350, 22385, 24623, 27086, 29794,
        ];
        steps.push(32767);
        steps
    };
    let mut states = vec![(0_i32, 0_usize); channels];
    let mut out = Vec::new();
    for packet in 0..frames.div_ceil(64) {
        for (channel, (sample, index)) in states.iter_mut().enumerate() {
            *sample &= -128;
            out.extend((*sample as i16 | *index as i16).to_be_bytes());
            let mut nibbles = Vec::new();
            for n in packet * 64..packet * 64 + 64 {
                let wanted = (formula(n as f64 / 8_000.0, channel) * 32768.0) as i32;
                let step = steps[*index];
                let change = |nibble: i32| {
                    let size = (step >> 3)
                        + if nibble & 4 != 0 { step } else { 0 }
                        + if nibble & 2 != 0 { step >> 1 } else { 0 }
                        + if nibble & 1 != 0 { step >> 2 } else { 0 };
                    if nibble & 8 != 0 { -size } else { size }
                };
                let after = |nibble: i32| (*sample + change(nibble)).clamp(-32768, 32767);
                let best = (0..16).min_by_key(|&n| (after(n) - wanted).abs()).unwrap();
                *sample = after(best);
                let moved = *index as i32 + [-1, -1, -1, -1, 2, 4, 6, 8][best as usize & 7];
                *index = moved.clamp(0, 88) as usize;
                nibbles.push(best as u8);
            }
            out.extend(nibbles.chunks(2).map(|pair| pair[0] | pair[1] << 4));
        }
    }
    out
}

#[test]
fn apple_adpcm_in_aiff_and_caf() {
    for channels in [1, 2] {
        let body = ima4(channels, 8_000);
        let packets = body.len() / 34 / channels;
        let file = aifc(b"ima4", channels as u16, 16, packets as u32, &body);
        let within_caf = caf(
            b"ima4",
            [0, 34 * channels as u32, 64, channels as u32, 0],
            &[],
            &body,
            None,
        );
        for file in [file, within_caf] {
            let found = decode_bytes(file).unwrap();
            assert_eq!((found.samples.len(), found.damage), (packets * 64, None));
            let (lag, correlation) = best_lag(&found.samples, &expected(8_000, channels, 24), 100..8_000, 2);
            assert!(lag == 0 && correlation > 0.999, "{lag} {correlation}");
        }
    }
    // The table of packets says how many frames are to be heard.
    let body = ima4(1, 8_000);
    let mut table = Vec::new();
    table.extend(125_u64.to_be_bytes());
    table.extend(7_990_u64.to_be_bytes());
    table.extend([0; 8]);
    let file = caf(b"ima4", [0, 34, 64, 1, 0], &[(b"pakt", &table)], &body, None);
    let found = decode_bytes(file.clone()).unwrap();
    assert_eq!((found.samples.len(), found.damage), (7_990, None));
    let cut = decode_bytes(file[..file.len() - 34 * 25].to_vec()).unwrap();
    assert_eq!((cut.samples.len(), cut.damage.is_some()), (6_400, true));
}

/// A CAF file of 8 kHz: the five fields after the format's name, chunks before the sound, the sound, and its declared size.
fn caf(
    kind: &[u8],
    fields: [u32; 5],
    chunks: &[(&[u8; 4], &[u8])],
    body: &[u8],
    size: Option<u64>,
) -> Vec<u8> {
    caf_at(8_000.0, kind, fields, chunks, body, size)
}

fn caf_at(
    rate: f64,
    kind: &[u8],
    fields: [u32; 5],
    chunks: &[(&[u8; 4], &[u8])],
    body: &[u8],
    size: Option<u64>,
) -> Vec<u8> {
    let mut file = b"caff\0\x01\0\0desc\0\0\0\0\0\0\0\x20".to_vec();
    file.extend(rate.to_be_bytes());
    file.extend(kind);
    for field in fields {
        file.extend(field.to_be_bytes());
    }
    for (name, chunk) in chunks {
        file.extend(*name);
        file.extend((chunk.len() as u64).to_be_bytes());
        file.extend(*chunk);
    }
    file.extend(b"data");
    file.extend(size.unwrap_or(body.len() as u64 + 4).to_be_bytes());
    file.extend([0; 4]);
    file.extend(body);
    file
}

/// A table of packets: their number, the frames to be heard, run-up and padding, and the sizes of seven bits a byte.
fn table(packets: &[Vec<u8>], valid: u64, priming: u32) -> Vec<u8> {
    let mut table = (packets.len() as u64).to_be_bytes().to_vec();
    table.extend(valid.to_be_bytes());
    table.extend(priming.to_be_bytes());
    table.extend([0; 4]);
    for packet in packets {
        assert!(packet.len() < 1 << 14);
        if packet.len() > 127 {
            table.push((packet.len() >> 7) as u8 | 128);
        }
        table.push((packet.len() & 127) as u8);
    }
    table
}

#[test]
fn caf_of_a_law_and_mu_law() {
    for (kind, wav) in [(b"ulaw", "mu-law.wav"), (b"alaw", "a-law.wav")] {
        let body = data_of(wav);
        for size in [None, Some(u64::MAX)] {
            let found = decode_bytes(caf_at(4_000.0, kind, [0, 1, 1, 1, 8], &[], &body, size)).unwrap();
            assert!(found.samples == decode(wav).unwrap().samples);
            assert_eq!(found.damage, None);
        }
    }
}

/// The packets of an Ogg file with one stream, the two headers left out.
fn ogg_packets(name: &str) -> Vec<Vec<u8>> {
    let file = bytes(name);
    let (mut packets, mut packet, mut at) = (Vec::new(), Vec::new(), 0);
    while at < file.len() {
        let count = usize::from(file[at + 26]);
        let mut place = at + 27 + count;
        for &size in &file[at + 27..at + 27 + count] {
            packet.extend(&file[place..place + usize::from(size)]);
            place += usize::from(size);
            if size < 255 {
                packets.push(std::mem::take(&mut packet));
            }
        }
        at = place;
    }
    packets.split_off(2)
}

#[test]
fn caf_of_opus() {
    let packets = ogg_packets("mono.opus");
    let body = packets.concat();
    let alone = decode("mono.opus").unwrap();
    let table = table(&packets, 48_000, 312);
    let file = caf_at(
        48_000.0,
        b"opus",
        [0, 0, 960, 1, 0],
        &[(b"pakt", &table)],
        &body,
        None,
    );
    let found = decode_bytes(file.clone()).unwrap();
    assert_eq!(
        (found.info.codec.as_str(), found.info.seconds, found.damage),
        ("opus", Some(1.0), None)
    );
    assert!(found.samples == alone.samples);
    // Cut short: what is there, and a word about it.
    let cut = decode_bytes(file[..file.len() - body.len() / 2].to_vec()).unwrap();
    assert!(alone.samples.starts_with(&cut.samples) && cut.samples.len() > 15_000);
    assert!(cut.damage.unwrap().what.contains("ends before"));
    // Without the table nobody knows where packets begin.
    let message = refused(caf_at(48_000.0, b"opus", [0, 0, 960, 1, 0], &[], &body, None));
    assert!(message.contains("pakt"), "{message}");
}

#[test]
fn caf_of_aac() {
    let source = bytes("mono.aac");
    let (mut packets, mut at) = (Vec::new(), 0);
    while at + 7 <= source.len() {
        let size = usize::from(source[at + 3] & 3) << 11
            | usize::from(source[at + 4]) << 3
            | usize::from(source[at + 5] >> 5);
        packets.push(source[at + 7..at + size].to_vec());
        at += size;
    }
    // AAC-LC, 44.1 kHz, one channel: as it is, and within the descriptors that Apple writes.
    let plain = [0x12, 0x08];
    let mut wrapped = vec![3, 22, 0, 0, 0, 4, 17, 0x40];
    wrapped.extend([0; 12]);
    wrapped.extend([5, 2, 0x12, 0x08]);
    let (body, table) = (packets.concat(), table(&packets, 44_100, 1_024));
    for cookie in [&plain[..], &wrapped] {
        let file = caf_at(
            44_100.0,
            b"aac ",
            [0, 0, 1024, 1, 0],
            &[(b"kuki", cookie), (b"pakt", &table)],
            &body,
            None,
        );
        let found = decode_bytes(file).unwrap();
        assert_eq!(
            (found.samples.len(), found.info.seconds, found.damage),
            (44_100, Some(1.0), None)
        );
        let alone = decode("mono.aac").unwrap();
        assert!(found.samples == alone.samples[1_024..1_024 + 44_100]);
    }
}

/// An ID3v2 tag of 300 bytes.
fn tagged(file: &[u8]) -> Vec<u8> {
    [b"ID3\x04\0\0\0\0\x02\x2c", &[0; 300][..], file].concat()
}

#[test]
fn formats_behind_a_tag() {
    for (mark, name) in [
        (&b"MAC \x96\x0f"[..], "Monkey's Audio"),
        (b"wvpk", "WavPack"),
        (b"MPCK", "Musepack"),
        (b"TTA1", "True Audio"),
    ] {
        let message = refused(tagged(&[mark, &[0; 2_000]].concat()));
        assert!(message.contains(name), "{message}");
    }
    let wav = Wav::new(1, 1, 8_000, 16, samples(8_000, 1, 16)).bytes();
    let found = decode_bytes(tagged(&wav)).unwrap();
    assert!(found.samples == expected(8_000, 1, 16) && found.damage.is_none());
}

/// IMA ADPCM in blocks whose size fits neither the declared samples nor a multiple of four.
#[test]
fn adpcm_of_odd_blocks() {
    let whole = bytes("adpcm-ima.wav");
    let plain = decode("adpcm-ima.wav").unwrap();
    let format = whole.windows(4).position(|w| w == b"fmt ").unwrap() + 8;
    let mut file = whole.clone();
    // Samples per block that are not stated, or are more than there is room for.
    for frames in [0_u16, u16::MAX] {
        file[format + 18..format + 20].copy_from_slice(&frames.to_le_bytes());
        let found = decode_bytes(file.clone()).unwrap();
        assert!(found.samples == plain.samples && found.damage.is_none());
    }
    // Six channels, each the same silence but for its first sample.
    let mut block: Vec<u8> = (0..6)
        .flat_map(|_| 600_i16.to_le_bytes().into_iter().chain([0, 0]))
        .collect();
    block.extend([0; 24]);
    let mut wav = Wav::new(0x11, 6, 8_000, 4, block.repeat(3));
    wav.chunks[0].1[12..14].copy_from_slice(&48_u16.to_le_bytes());
    let found = decode_bytes(wav.bytes()).unwrap();
    assert_eq!((found.samples.len(), found.damage), (27, None));
    assert_eq!(found.samples[9..10], [600.0 / 32768.0]);
}

/// FLAC without its stream information, as ffmpeg writes it: the first frame tells what is missing.
#[test]
fn caf_of_flac() {
    let source = bytes("mono-16.flac");
    let mut at = 4;
    loop {
        let last = source[at] & 0x80 != 0;
        at += 4 + usize::from(source[at + 2]) * 256 + usize::from(source[at + 3]);
        if last {
            break;
        }
    }
    // Frames begin with the same four bytes and their number.
    let head = source[at..at + 4].to_vec();
    let mut starts = vec![at];
    for place in at + 1..source.len() - 5 {
        let next = source[place..].starts_with(&head[..2]) && usize::from(source[place + 4]) == starts.len();
        if next && source[place + 3] == head[3] {
            starts.push(place);
        }
    }
    let ends = starts[1..].iter().copied().chain([source.len()]);
    let packets: Vec<Vec<u8>> = starts
        .iter()
        .zip(ends)
        .map(|(&start, end)| source[start..end].to_vec())
        .collect();
    let (info, table) = (source[8..42].to_vec(), table(&packets, 16_000, 0));
    for cookie in [&info[..], &[]] {
        let file = caf_at(
            16_000.0,
            b"flac",
            [0, 0, 4096, 1, 0],
            &[(b"kuki", cookie), (b"pakt", &table)],
            &packets.concat(),
            None,
        );
        let found = decode_bytes(file).unwrap();
        assert!(found.samples == expected(16_000, 1, 16));
        assert_eq!(found.damage, None);
    }
}

/// DTS as it is on compact discs goes by the name of 16-bit samples; played as such, it is noise.
#[test]
fn compressed_sound_that_looks_like_samples_is_named() {
    let mut noise = 1_u32;
    let mut body: Vec<u8> = (0..80_000)
        .map(|_| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (noise >> 24) as u8
        })
        .collect();
    let plain = Wav::new(1, 2, 44_100, 16, body.clone()).bytes();
    assert_eq!(decode_bytes(plain).unwrap().samples.len(), 20_000);
    for (mark, name) in [(b"\xff\x1f\x00\xe8", "DTS"), (b"\x72\xf8\x1f\x4e", "S/PDIF")] {
        // One mark alone may be chance.
        body[2_000..2_004].copy_from_slice(mark);
        let once = Wav::new(1, 2, 44_100, 16, body.clone()).bytes();
        assert!(decode_bytes(once).is_ok());
        for at in (2_000..70_000).step_by(4_096) {
            body[at..at + 4].copy_from_slice(mark);
        }
        let message = refused(Wav::new(1, 2, 44_100, 16, body.clone()).bytes());
        assert!(message.contains(name), "{message}");
        for at in (2_000..70_000).step_by(4_096) {
            body[at..at + 4].fill(0);
        }
    }
}

/// Cut at every place of the header and set to extremes there, each gives sound or an error.
#[test]
fn wild_headers_give_an_error_or_sound() {
    let opus = ogg_packets("mono.opus");
    let opus_table = table(&opus, 48_000, 312);
    let small = samples(8_000, 1, 16)[..2_000].to_vec();
    let adpcm = ima4(2, 640);
    let files = [
        rifx(&Wav::format(1, 1, 8_000, 16), &[(b"data", small.clone())]),
        w64(&Wav::format(1, 1, 8_000, 16), &small),
        au(true, 3, 1, 2_000, b"text", &small),
        aifc(b"ima4", 2, 16, 10, &adpcm),
        caf(b"ima4", [0, 68, 64, 2, 0], &[], &adpcm, None),
        caf_at(
            48_000.0,
            b"opus",
            [0, 0, 960, 1, 0],
            &[(b"pakt", &opus_table)],
            &opus.concat(),
            None,
        ),
        Wav::new(0x55, 1, 44_100, 0, bytes("mono.mp3")).bytes(),
        Wav::new(1, 1, 8_000, 16, small.clone())
            .with_last(*b"data", &small)
            .bytes(),
        tagged(&Wav::new(1, 1, 8_000, 16, small.clone()).bytes()),
    ];
    for file in files {
        assert!(decode_bytes(file.clone()).is_ok());
        for cut in 0..file.len().min(200) {
            let _ = decode_bytes(file[..cut].to_vec());
        }
        for at in 0..file.len().min(200) {
            for value in [
                [0xff; 4],
                [0x7f, 0xff, 0xff, 0xff],
                [0; 4],
                [0xff, 0xff, 0xff, 0x7f],
            ] {
                let mut wild = file.clone();
                wild[at..at + 4].copy_from_slice(&value);
                let _ = decode_bytes(wild);
            }
        }
    }
}
