//! Files that lie, break off or hold nonsense: an error or a damage each, never a panic, never much memory.
//!
//! How much memory was held is counted by an allocator, and the trait for one has unsafe functions only. This
//! is the one place of the crate with `unsafe` in it; it is part of no library and no program, and hands
//! every call on to the system's allocator.

#![allow(unreachable_pub, reason = "modules that test binaries share")]
#![allow(
    unsafe_code,
    reason = "an allocator that counts can only be written with unsafe functions"
)]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;

use hark_audio::{Decoder, Error, MAX_EMPTY_PACKETS, Stream, probe, read};
use support::{Wav, all_files, bytes, decode_bytes, file, samples};

/// Counts what each thread holds, so that tests beside each other do not disturb the count.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(change: isize) {
    // A thread that is ending has no counters any more, and nothing to count.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + change);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// SAFETY: every call is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most that any of these small files may take: the demuxer reads ahead 4 MiB at once, the tables of the
/// decoders are smaller, and the samples are not kept.
const MAX_MEMORY: isize = 32 << 20;

/// Runs `work` and returns its result and the most memory it held at a time.
fn measured<T>(work: impl FnOnce() -> T) -> (T, isize) {
    let before = HELD.get();
    PEAK.set(before);
    let result = work();
    (result, PEAK.get() - before)
}

/// Decodes without keeping samples; returns how many there were and whether damage was found.
fn run(bytes: Vec<u8>) -> Result<(u64, bool), Error> {
    let (result, peak) = measured(|| {
        let mut decoder = Decoder::from_source(Box::new(std::io::Cursor::new(bytes)), Path::new("hostile"))?;
        while decoder.next_block()?.is_some() {}
        assert!(
            decoder.samples_so_far() > 0,
            "a file without one sample is an error"
        );
        Ok((decoder.samples_so_far(), decoder.damage().is_some()))
    });
    assert!(peak < MAX_MEMORY, "{peak} bytes of memory");
    result
}

#[test]
fn nothing_text_and_noise_are_no_sound() {
    assert!(matches!(run(Vec::new()), Err(Error::Unknown { .. })));
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("notes.wav");
    fs_err::write(
        &text,
        "RIFF is how such a file would begin, but this is a text.\n".repeat(100),
    )
    .unwrap();
    assert!(
        matches!(probe(&text), Err(Error::Unknown { .. })),
        "{:?}",
        probe(&text)
    );
    assert!(matches!(probe(folder.path()), Err(Error::Read { .. })));
    assert!(matches!(
        probe(&folder.path().join("none.wav")),
        Err(Error::Read { .. })
    ));
    let message = probe(&text).unwrap_err().to_string();
    assert!(
        message.contains("notes.wav") && message.contains("unknown format"),
        "{message}"
    );
}

#[test]
fn noise_gives_an_error_or_little() {
    let mut state = 1_u64;
    for length in [1, 2, 3, 11, 12, 100, 5_000, 70_000] {
        for _ in 0..20 {
            let noise: Vec<u8> = (0..length)
                .map(|_| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    (state >> 56) as u8
                })
                .collect();
            let _ = run(noise);
        }
    }
}

/// Where a file may be cut: everywhere in the first bytes, then here and there.
fn cuts(length: usize) -> impl Iterator<Item = usize> {
    (0..length.min(300))
        .chain((300..length).step_by(197))
        .chain(length.saturating_sub(10)..length)
}

#[test]
fn files_cut_short_give_an_error_or_say_so() {
    for name in all_files() {
        let whole = bytes(&name);
        let (full, damaged) = run(whole.clone()).unwrap();
        assert!(!damaged, "{name}");
        let rate = u64::from(probe(&file(&name)).unwrap().rate);
        for cut in cuts(whole.len()) {
            let Ok((found, damaged)) = run(whole[..cut].to_vec()) else {
                continue;
            };
            // A twentieth of a second is what the declared length of lossy files may be off by. Raw AAC files
            // have no header at all, so that nobody can tell what is missing.
            let unnoticed = found + rate / 20 < full && !damaged;
            assert!(
                !unnoticed || ["mono.aac", "main.aac"].contains(&name.as_str()),
                "{name} cut at {cut}: {found} of {full} samples, not noticed"
            );
        }
    }
}

#[test]
fn a_cut_wav_gives_exactly_what_is_there() {
    let whole = Wav::new(1, 2, 8_000, 16, samples(8_000, 2, 16)).bytes();
    let complete = decode_bytes(whole.clone()).unwrap();
    for cut in [48, 49, 1_000, 20_003, whole.len() - 1] {
        let found = decode_bytes(whole[..cut].to_vec()).unwrap();
        let frames = (cut - 44) / 4;
        assert_eq!(found.samples, complete.samples[..frames]);
        let damage = found.damage.unwrap();
        assert!((damage.after_seconds - frames as f64 / 8_000.0).abs() < 1e-9);
        assert!(damage.what.contains("declares 1.000 s"), "{}", damage.what);
        // Two lengths that would be written alike are told apart by their frames.
        assert!(!damage.what.contains("only 1.000 s"), "{}", damage.what);
        assert_eq!(damage.skipped_packets, 0);
    }
    for cut in [44, 45, 47] {
        assert!(matches!(
            decode_bytes(whole[..cut].to_vec()),
            Err(Error::Empty { .. })
        ));
    }
}

#[test]
fn ten_thousand_channels_are_refused_before_anything_is_reserved() {
    for (tag, bits) in [(1, 16), (1, 32), (3, 64), (2, 4), (0x11, 4), (0x55, 0)] {
        for channels in [0, 65, 10_000, 65_535] {
            let wav = Wav::new(tag, channels, 44_100, bits, vec![0; 4_000]).bytes();
            let (result, peak) = measured(|| decode_bytes(wav));
            let Err(Error::Channels { channels: found, .. }) = result else {
                panic!("{channels}: {result:?}")
            };
            assert_eq!(found, usize::from(channels));
            assert!(peak < 100_000, "{peak} bytes");
        }
    }
    let many = Wav::new(1, 64, 44_100, 16, vec![0; 64 * 2 * 10]).bytes();
    assert_eq!(decode_bytes(many).unwrap().samples.len(), 10);
}

#[test]
fn rates_outside_the_limits_are_refused() {
    for rate in [0, 999, 768_001, u32::MAX] {
        let wav = Wav::new(1, 1, rate, 16, vec![0; 100]).bytes();
        assert!(matches!(decode_bytes(wav), Err(Error::Rate { rate: found, .. }) if found == rate));
    }
    for rate in [1_000, 768_000] {
        assert!(decode_bytes(Wav::new(1, 1, rate, 16, vec![0; 100]).bytes()).is_ok());
    }
    assert!(matches!(
        Stream::open(&file("mono-16.wav"), 7),
        Err(Error::Resample { .. })
    ));
}

#[test]
fn numbers_that_are_not_finite_are_an_error_that_says_where() {
    let mut floats = vec![0.25_f32; 20_000];
    for (bad, at) in [
        (f32::NAN, 12_345),
        (f32::INFINITY, 5),
        (f32::NEG_INFINITY, 19_999),
    ] {
        let before = std::mem::replace(&mut floats[at], bad);
        let body: Vec<u8> = floats.iter().flat_map(|v| v.to_le_bytes()).collect();
        let result = decode_bytes(Wav::new(3, 1, 8_000, 32, body).bytes());
        let Err(Error::NotFinite { at_seconds, .. }) = result else {
            panic!("{result:?}")
        };
        assert!((at_seconds - at as f64 / 8_000.0).abs() < 1e-9);
        floats[at] = before;
    }
    // Too large for f32, and so infinite in it.
    let body: Vec<u8> = [0.0, 1e300].iter().flat_map(|v: &f64| v.to_le_bytes()).collect();
    assert!(matches!(
        decode_bytes(Wav::new(3, 1, 8_000, 64, body).bytes()),
        Err(Error::NotFinite { .. })
    ));
}

#[test]
fn absurd_sizes_do_not_reserve_memory() {
    let plain = Wav::new(1, 1, 8_000, 16, samples(8_000, 1, 16));
    for at in [4, 16, 40] {
        for size in [0_u32, 1, 3, 0x7fff_ffff, 0xffff_fff0, u32::MAX] {
            let mut wav = plain.bytes();
            wav[at..at + 4].copy_from_slice(&size.to_le_bytes());
            let _ = run(wav);
        }
    }
    // Four bytes at every place of every header, set to one of the extremes.
    let values = [
        [0xff; 4],
        [0x7f, 0xff, 0xff, 0xff],
        [0, 0, 0, 0],
        [0xff, 0xff, 0xff, 0x7f],
    ];
    for name in all_files() {
        let whole = bytes(&name);
        for (at, value) in (0..160).zip(values.iter().cycle()) {
            let mut wild = whole.clone();
            wild[at..at + 4].copy_from_slice(value);
            support::mend_ogg(&mut wild);
            let _ = run(wild);
        }
    }
}

#[test]
fn a_header_without_sound_is_an_error() {
    let none = Wav::new(1, 1, 8_000, 16, Vec::new()).bytes();
    let message = decode_bytes(none).unwrap_err().to_string();
    assert!(message.contains("no samples"), "{message}");
    for (tag, bits) in [(1, 0), (1, 65), (3, 16), (3, 0)] {
        let wav = Wav::new(tag, 1, 8_000, bits, vec![0; 100]).bytes();
        assert!(
            matches!(decode_bytes(wav), Err(Error::Header { .. })),
            "{tag} {bits}"
        );
    }
    let unknown = Wav::new(0x1234, 1, 8_000, 16, vec![0; 100]).bytes();
    let message = decode_bytes(unknown).unwrap_err().to_string();
    assert!(message.contains("wav format 0x1234"), "{message}");
}

#[test]
fn a_broken_packet_in_the_middle_is_skipped_and_counted() {
    let mut skipped = 0;
    for name in ["mono.m4a", "alac.m4a", "opus.mp4", "vorbis.webm", "flac.mka"] {
        let whole = bytes(name);
        for at in (whole.len() / 3..whole.len() * 2 / 3).step_by(61) {
            let mut wild = whole.clone();
            for byte in &mut wild[at..at + 40] {
                *byte = !*byte;
            }
            let Ok(found) = decode_bytes(wild) else { continue };
            if let Some(damage) = found.damage.filter(|d| d.skipped_packets > 0) {
                assert!(damage.after_seconds < 1.0 && !damage.what.is_empty());
                assert!(!found.samples.is_empty());
                skipped += 1;
            }
        }
    }
    assert!(
        skipped > 10,
        "only {skipped} of the damaged files had a packet to skip"
    );
}

/// Changes to files on which symphonia panics, found by `tests/fuzz.rs` and by extremes in every field: overflowing
/// products, an assertion and a division by zero in Vorbis headers, and an overflow in ADPCM blocks. Some of them
/// happen in builds with overflow checks only.
#[test]
fn files_that_break_the_decoder_down_are_errors_or_damage() {
    let found: [(&str, &[(usize, u8)]); 4] = [
        (
            "stereo.ogg",
            &[(392, 0), (429, 123), (634, 59), (696, 198), (930, 0)],
        ),
        ("mono.ogg", &[(645, 255), (1938, 163)]),
        ("chained.ogg", &[(8584, 0)]),
        ("mono.ogg", &[(660, 152), (1633, 5), (4879, 255)]),
    ];
    // The hook's report with a backtrace takes more memory than the decoder.
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !hark_audio::in_decoder() {
            told(info);
        }
    }));
    for (name, changes) in found {
        let mut wild = bytes(name);
        for &(at, byte) in changes {
            wild[at] = byte;
        }
        support::mend_ogg(&mut wild);
        assert!(!matches!(run(wild), Ok((_, false))), "{name} {changes:?}");
    }
    // Predictor coefficients and steps of ADPCM blocks at their extremes.
    for name in ["adpcm-ms.wav", "adpcm-ima.wav"] {
        let whole = bytes(name);
        for at in 0..whole.len().min(400) {
            let mut wild = whole.clone();
            wild[at..at + 6].fill(0x7f);
            let _ = run(wild);
        }
    }
}

/// Ogg pages after whole sound, full of packets that no decoder takes: they announce a number of frames and
/// end.
#[test]
fn packets_that_cannot_be_decoded_do_not_go_on_for_ever() {
    let mut file = bytes("mono.opus");
    let whole = decode_bytes(file.clone()).unwrap().samples.len();
    let starts: Vec<usize> = (0..file.len())
        .filter(|&at| file[at..].starts_with(b"OggS"))
        .collect();
    let last = *starts.last().unwrap();
    file[last + 5] = 0;
    let (serial, position) = (
        file[last + 14..last + 18].to_vec(),
        file[last + 6..last + 14].to_vec(),
    );
    for number in 0..(MAX_EMPTY_PACKETS / 255 + 40) as u32 {
        file.extend(b"OggS\0\0");
        file.extend(&position);
        file.extend(&serial);
        file.extend((number + starts.len() as u32).to_le_bytes());
        file.extend([0, 0, 0, 0, 255]);
        file.extend([1; 255]);
        file.extend([3; 255]);
    }
    support::mend_ogg(&mut file);
    let found = decode_bytes(file).unwrap();
    assert!(found.samples.len() >= whole);
    let damage = found.damage.unwrap();
    assert_eq!(damage.skipped_packets, MAX_EMPTY_PACKETS);
}

/// Bytes in memory that cannot be read from some place on, as on a failing disk.
struct Failing {
    bytes: std::io::Cursor<Vec<u8>>,
    from: u64,
}

impl std::io::Read for Failing {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = self.from.saturating_sub(self.bytes.position());
        if left == 0 && self.bytes.position() < self.bytes.get_ref().len() as u64 {
            // EIO, the error of a disk that cannot be read.
            return Err(std::io::Error::from_raw_os_error(5));
        }
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        self.bytes.read(&mut buffer[..most])
    }
}

impl std::io::Seek for Failing {
    fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
        self.bytes.seek(to)
    }
}

/// What cannot be read is no damage to the file: another attempt may read it.
#[test]
fn a_source_that_fails_is_an_error_at_every_place() {
    for name in all_files() {
        let whole = bytes(&name);
        for part in 0..8 {
            let source = Failing {
                from: (whole.len() * part / 8) as u64,
                bytes: std::io::Cursor::new(whole.clone()),
            };
            let result =
                Decoder::from_source(Box::new(source), Path::new("failing")).and_then(support::drain);
            let Err(Error::Read { source, .. }) = result else {
                panic!("{name}, part {part}: {result:?}")
            };
            assert_eq!(source.raw_os_error(), Some(5));
        }
    }
}

/// `levels` boxes of one name, each with nothing in it but the next.
fn nested_boxes(name: [u8; 4], levels: usize) -> Vec<u8> {
    (1..=levels)
        .rev()
        .flat_map(|inner| [((8 * inner) as u32).to_be_bytes(), name].concat())
        .collect()
}

fn boxed(name: [u8; 4], body: &[u8]) -> Vec<u8> {
    [&((body.len() + 8) as u32).to_be_bytes(), &name, body].concat()
}

/// A reader that calls itself for every level leaves the stack here, and that ends the whole program.
#[test]
fn boxes_in_boxes_without_end_are_no_sound() {
    for name in [
        *b"mdia", *b"edts", *b"trak", *b"moov", *b"udta", *b"meta", *b"wave",
    ] {
        let nested = nested_boxes(name, 130_000);
        let track = boxed(*b"trak", &nested);
        for body in [&nested, &track] {
            let movie = boxed(*b"moov", body);
            let file = [boxed(*b"ftyp", b"M4A \0\0\0\0M4A "), movie].concat();
            assert!(run(file).is_err());
        }
    }
}

/// An EBML element with a length of eight bytes.
fn element(id: &[u8], length: usize) -> Vec<u8> {
    let mut bytes = id.to_vec();
    bytes.extend((length as u64 | 1 << 56).to_be_bytes());
    bytes
}

/// Chapters and tags are the elements of Matroska that may stand in themselves.
#[test]
fn elements_in_elements_without_end_are_no_sound() {
    let chapters: [&[u8]; 3] = [&[0x10, 0x43, 0xa7, 0x70], &[0x45, 0xb9], &[0xb6]];
    let tags: [&[u8]; 3] = [&[0x12, 0x54, 0xc3, 0x67], &[0x73, 0x73], &[0x67, 0xc8]];
    let segments: [&[u8]; 1] = [&[0x18, 0x53, 0x80, 0x67]];
    for path in [&chapters[..], &tags[..], &segments[..]] {
        let (last, before) = path.split_last().unwrap();
        let mut body = Vec::new();
        let levels = 130_000;
        for inner in (0..levels).rev() {
            body.extend(element(last, inner * (last.len() + 8)));
        }
        for id in before.iter().rev() {
            body = [element(id, body.len()), body].concat();
        }
        let head = [
            element(&[0x1a, 0x45, 0xdf, 0xa3], 11),
            b"\x42\x82\x88matroska".to_vec(),
        ]
        .concat();
        let segment = element(&[0x18, 0x53, 0x80, 0x67], body.len());
        assert!(run([head, segment, body].concat()).is_err());
    }
}

/// An ID3v2.3 frame.
fn frame(name: [u8; 4], body: &[u8]) -> Vec<u8> {
    [&name, &(body.len() as u32).to_be_bytes(), &[0, 0][..], body].concat()
}

/// An ID3v2.3 tag before a whole MP3 file.
fn tagged(frames: &[u8]) -> Vec<u8> {
    let size = frames.len() as u32;
    let size = [size >> 21, size >> 14 & 127, size >> 7 & 127, size & 127].map(|part| part as u8);
    [b"ID3\x03\0\0", &size[..], frames, &bytes("mono.mp3")].concat()
}

/// A chapter may hold frames, which may be chapters, and a table of contents may name another one. Neither is
/// wanted here, but the texts beside them are.
#[test]
fn chapters_in_chapters_without_end_leave_sound_and_texts() {
    let title = frame(*b"TIT2", b"\0CHAPTER of CHAPLIN");
    let levels = 60_000;
    let mut nested = Vec::new();
    for inner in (0..levels).rev() {
        let body = inner * 28 + 18;
        nested.extend(b"CHAP");
        nested.extend((body as u32).to_be_bytes());
        nested.extend(b"\0\0a\0");
        nested.extend([0; 16]);
    }
    let chain: Vec<u8> = (0..levels)
        .flat_map(|n| {
            let flags = if n == 0 { 2 } else { 0 };
            let body = format!("t{n:05}\0");
            let next = format!("t{:05}\0", n + 1);
            frame(
                *b"CTOC",
                &[body.as_bytes(), &[flags, 1], next.as_bytes()].concat(),
            )
        })
        .collect();
    let whole = decode_bytes(bytes("mono.mp3")).unwrap();
    for frames in [nested, chain] {
        let found = decode_bytes(tagged(&[title.clone(), frames].concat())).unwrap();
        assert_eq!(found.info.metadata.title.as_deref(), Some("CHAPTER of CHAPLIN"));
        assert_eq!((found.samples, found.damage), (whole.samples.clone(), None));
    }
}

#[test]
fn reading_a_part_takes_no_more_than_that() {
    let part = read(&file("mono-16.flac"), 32_000, Some(0.25)).unwrap();
    assert_eq!(part.samples.len(), 8_000);
    for none in [0.0, -1.0, f64::NAN] {
        assert_eq!(
            read(&file("mono-16.flac"), 32_000, Some(none)).unwrap().samples,
            []
        );
    }
    assert_eq!(
        read(&file("mono-16.flac"), 32_000, Some(f64::INFINITY))
            .unwrap()
            .samples
            .len(),
        32_000
    );
}
