//! FLAC, Ogg and MP3 files with damage, and with changes in the middle: all sound that is left is given, and what is missing is said.

#![allow(unreachable_pub, reason = "modules that test binaries share")]

mod support;

use support::{bytes, decode, decode_bytes, expected, mend_ogg};

/// Where the frames of a FLAC file begin, by the sync code and the numbers, which count up from 0.
fn flac_frames(file: &[u8]) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::new();
    for at in 0..file.len() - 5 {
        if file[at] == 0xff && file[at + 1] == 0xf8 && usize::from(file[at + 4]) == found.len() {
            found.push(at);
        }
    }
    found
}

#[test]
fn flac_blocks_without_sound_may_be_wrong() {
    let file = bytes("mono-16.flac");
    // A cue sheet of zeros, a block of an unknown kind, and a table whose length is no multiple of its entries'.
    for (kind, length) in [(5, 396), (9, 10), (3, 7)] {
        let block = [
            &[kind, 0, (length >> 8) as u8, length as u8][..],
            &vec![0; length],
        ]
        .concat();
        let changed = [&file[..42], &block, &file[42..]].concat();
        let found = decode_bytes(changed).unwrap();
        assert!(found.samples == expected(16_000, 1, 16), "block {kind}");
        assert_eq!(found.damage, None, "block {kind}");
    }
}

#[test]
fn flac_without_metadata_is_read_from_its_first_frame() {
    let file = bytes("mono-16.flac");
    let frames = flac_frames(&file);
    let junk = [b"no sound".to_vec(), file[frames[0]..].to_vec()].concat();
    for bare in [file[frames[0]..].to_vec(), junk] {
        let found = decode_bytes(bare).unwrap();
        assert!(found.samples == expected(16_000, 1, 16));
        assert_eq!((found.info.seconds, found.damage), (None, None));
    }
}

#[test]
fn the_rate_of_flac_frames_wins_over_that_of_the_header() {
    let mut file = bytes("mono-16.flac");
    // 20 bits: 502,852 Hz, which nothing else in the file says.
    file[18..20].copy_from_slice(&[0x7a, 0xc4]);
    let found = decode_bytes(file).unwrap();
    assert_eq!(found.info.rate, 16_000);
    assert!(found.samples == expected(16_000, 1, 16));
}

#[test]
fn flac_goes_on_after_a_damaged_frame() {
    let whole = expected(16_000, 1, 16);
    let file = bytes("mono-16.flac");
    let frames = flac_frames(&file);
    assert!(frames.len() >= 3, "{frames:?}");
    let mut hurt = file.clone();
    hurt[frames[1].midpoint(frames[2])] ^= 0x10;
    let found = decode_bytes(hurt).unwrap();
    let damage = found.damage.unwrap();
    let size = whole.len() - found.samples.len();
    assert!(size >= whole.len() / frames.len(), "{size}");
    assert!(found.samples[..size] == whole[..size] && found.samples[size..] == whole[2 * size..]);
    assert!(
        damage
            .what
            .contains(&format!("{:.3} s of sound are missing", size as f64 / 16_000.0)),
        "{damage:?}"
    );
    assert!(
        (damage.after_seconds - size as f64 / 16_000.0).abs() < 1e-9,
        "{damage:?}"
    );
    // A frame that is left out as a whole is missed by its number.
    let without = [&file[..frames[1]], &file[frames[2]..]].concat();
    let found = decode_bytes(without).unwrap();
    assert!(found.samples[size..] == whole[2 * size..]);
    assert!(found.damage.unwrap().what.contains("are missing"));
}

#[test]
fn joined_flac_files_are_read_to_the_end() {
    let one = expected(16_000, 1, 16);
    let found = decode_bytes([bytes("mono-16.flac"), bytes("mono-16.flac")].concat()).unwrap();
    assert!(found.samples == [&one[..], &one[..]].concat());
    assert_eq!(found.damage, None);
    // The second has a quarter of the rate.
    let found = decode_bytes([bytes("mono-16.flac"), bytes("stereo-24.flac")].concat()).unwrap();
    assert_eq!((found.samples.len(), found.damage), (32_000, None));
}

/// A FLAC frame of verbatim samples. `kind`: channels less one, or 8 for left and side.
fn flac_frame(number: u8, rate: u8, kind: u8, bits: u8, width: u32, planes: &[Vec<i64>]) -> Vec<u8> {
    let mut frame = vec![0xff, 0xf8, 0x70 | rate, kind << 4 | bits << 1, number];
    frame.extend((planes[0].len() as u16 - 1).to_be_bytes());
    frame.push(frame.iter().fold(0, |sum, &byte| {
        (0..8).fold(sum ^ byte, |s: u8, _| s << 1 ^ if s >> 7 == 1 { 7 } else { 0 })
    }));
    let mut stream: Vec<bool> = Vec::new();
    for (channel, plane) in planes.iter().enumerate() {
        let width = width + u32::from(kind == 8 && channel == 1);
        stream.extend([false, false, false, false, false, false, true, false]);
        for sample in plane {
            stream.extend((0..width).rev().map(|bit| sample >> bit & 1 == 1));
        }
    }
    stream.resize(stream.len().next_multiple_of(8), false);
    frame.extend(
        stream
            .chunks(8)
            .map(|bits| bits.iter().fold(0_u8, |b, &bit| b << 1 | u8::from(bit))),
    );
    let sum = frame.iter().fold(0_u16, |sum, &byte| {
        (0..8).fold(sum ^ u16::from(byte) << 8, |s, _| {
            s << 1 ^ if s >> 15 == 1 { 0x8005 } else { 0 }
        })
    });
    frame.extend(sum.to_be_bytes());
    frame
}

#[test]
fn flac_frames_may_change_rate_channels_and_width() {
    let plane = |value: i64| vec![value; 4_000];
    // Half a second of 8 kHz, a quarter of 16 kHz, two channels, and 24 bits.
    let file = [
        flac_frame(0, 4, 0, 4, 16, &[plane(8192)]),
        flac_frame(1, 5, 0, 4, 16, &[plane(8192)]),
        flac_frame(2, 4, 1, 4, 16, &[plane(16384), plane(0)]),
        flac_frame(3, 4, 0, 6, 24, &[plane(1 << 21)]),
    ]
    .concat();
    let found = decode_bytes(file).unwrap();
    assert_eq!(
        (found.samples.len(), found.damage),
        (4_000 + 2_000 + 4_000 + 4_000, None)
    );
    assert_eq!(found.info.rate, 8_000);
    // Where the rate changes, the filter takes what lies beyond for silence.
    let far = |i: usize| !(3_990..4_100).contains(&i) && !(5_900..6_010).contains(&i);
    for (i, sample) in found.samples.iter().enumerate().filter(|&(i, _)| far(i)) {
        assert!((sample - 0.25).abs() < 1e-4, "{i}: {sample}");
    }
}

/// The difference of two channels of 32 bits has 33.
#[test]
fn flac_of_32_bits() {
    let left: Vec<i64> = (0..4_000).map(|n| (n - 2_000) * 1_000_003).collect();
    let side: Vec<i64> = left.iter().map(|l| 2 * l).collect();
    // The right channel is the left one's opposite: the mean is nothing.
    let cancelled = flac_frame(0, 4, 8, 7, 32, &[left.clone(), side]);
    let alike = flac_frame(1, 4, 8, 7, 32, &[left.clone(), vec![0; 4_000]]);
    let found = decode_bytes([cancelled, alike].concat()).unwrap();
    assert_eq!(found.damage, None);
    assert!(found.samples[..4_000].iter().all(|&sample| sample == 0.0));
    let wanted: Vec<f32> = left
        .iter()
        .map(|&l| (l as f64 / 2_147_483_648.0) as f32)
        .collect();
    assert!(found.samples[4_000..] == wanted);
}

/// The packets of an Ogg file of one stream, without its headers' pages, and where those end.
fn ogg_packets(file: &[u8], header_pages: usize) -> (usize, Vec<Vec<u8>>) {
    let (mut at, mut pages, mut headers) = (0, 0, 0);
    let mut packets = vec![Vec::new()];
    while at < file.len() {
        let table = &file[at + 27..at + 27 + usize::from(file[at + 26])];
        at += 27 + table.len();
        for &length in table {
            let part = &file[at..at + usize::from(length)];
            at += part.len();
            if pages >= header_pages {
                packets.last_mut().unwrap().extend_from_slice(part);
                if length < 255 {
                    packets.push(Vec::new());
                }
            }
        }
        pages += 1;
        if pages == header_pages {
            headers = at;
        }
    }
    packets.pop();
    (headers, packets)
}

/// `mono.opus` in pages of five packets of 20 ms; where the pages begin.
fn small_pages() -> (Vec<u8>, Vec<usize>) {
    let file = bytes("mono.opus");
    let (headers, packets) = ogg_packets(&file, 2);
    let (mut out, mut places) = (file[..headers].to_vec(), Vec::new());
    let count = packets.len().div_ceil(5);
    for (n, page) in packets.chunks(5).enumerate() {
        places.push(out.len());
        let last = n + 1 == count;
        let granule = if last { 48_312 } else { 960 * 5 * (n as u64 + 1) };
        out.extend(b"OggS\0");
        out.push(if last { 4 } else { 0 });
        out.extend(granule.to_le_bytes());
        out.extend(&file[14..18]);
        out.extend((n as u32 + 2).to_le_bytes());
        out.extend([0; 4]);
        let table: Vec<u8> = page
            .iter()
            .flat_map(|packet| [vec![255; packet.len() / 255], vec![(packet.len() % 255) as u8]].concat())
            .collect();
        out.push(table.len() as u8);
        out.extend(table);
        out.extend(page.concat());
    }
    mend_ogg(&mut out);
    (out, places)
}

#[test]
fn a_damaged_ogg_page_is_reported_with_its_time() {
    let (file, places) = small_pages();
    let whole = decode("mono.opus").unwrap();
    let found = decode_bytes(file.clone()).unwrap();
    assert_eq!(found.damage, None);
    assert!(found.samples == whole.samples);
    let mut hurt = file.clone();
    hurt[places[4] + 60] ^= 1;
    let missing = [&file[..places[4]], &file[places[5]..]].concat();
    for (file, word) in [(hurt, "damaged"), (missing, "missing")] {
        let found = decode_bytes(file).unwrap();
        let damage = found.damage.unwrap();
        assert!(
            damage.what.contains("an Ogg page is") && damage.what.contains(word),
            "{damage:?}"
        );
        // Four pages of 100 ms came before, less the run-up of 312 samples.
        assert!((damage.after_seconds - 0.3935).abs() < 1e-6, "{damage:?}");
        assert_eq!(found.samples.len(), whole.samples.len() - 4_800);
    }
    // The last page is the one that is damaged.
    let mut hurt = file;
    let last = hurt.len() - 5;
    hurt[last] ^= 1;
    let damage = decode_bytes(hurt).unwrap().damage.unwrap();
    assert!(damage.what.contains("ends before"), "{damage:?}");
}

/// A recording of a broadcast has the headers and then the pages of some hours later.
#[test]
fn ogg_recorded_from_the_middle_is_whole() {
    let (file, places) = small_pages();
    for (later, whole) in [(3_000_u32, true), (3, false)] {
        let mut pages = file[places[3]..].to_vec();
        for &place in &places[3..] {
            let at = place - places[3] + 18;
            let number = u32::from_le_bytes(*pages[at..].first_chunk().unwrap());
            pages[at..at + 4].copy_from_slice(&(number - 3 + later).to_le_bytes());
        }
        let mut joined = [&file[..places[0]], &pages].concat();
        mend_ogg(&mut joined);
        let found = decode_bytes(joined).unwrap();
        assert_eq!(found.damage.is_none(), whole, "{:?}", found.damage);
        assert_eq!(found.samples.len(), 48_000 - 3 * 4_800);
    }
}

/// Version 0 of the header, with numbers in the order of all others: the first 312 samples are the run-up, and not 14337.
#[test]
fn opus_of_version_0() {
    let mut file = bytes("mono.opus");
    let head = file.windows(8).position(|part| part == b"OpusHead").unwrap();
    file[head + 8] = 0;
    mend_ogg(&mut file);
    let found = decode_bytes(file).unwrap();
    assert!(found.samples == decode("mono.opus").unwrap().samples);
}

#[test]
fn ogg_flac_cut_short_gives_what_is_there() {
    let file = bytes("flac.oga");
    let whole = expected(16_000, 1, 16);
    for part in [5, 6, 7] {
        let found = decode_bytes(file[..file.len() * part / 8].to_vec()).unwrap();
        assert!(whole.starts_with(&found.samples), "{part}");
        assert!(found.damage.unwrap().what.contains("ends before"), "{part}");
    }
}

#[test]
fn mp3_may_change_channels_and_rate() {
    let (mono, stereo) = (decode("mono.mp3").unwrap(), decode("stereo.mp3").unwrap());
    let found = decode_bytes([bytes("mono.mp3"), bytes("stereo.mp3")].concat()).unwrap();
    assert_eq!(found.damage, None);
    let more = found.samples.len() - mono.samples.len() - stereo.samples.len();
    assert!((1..3 * 1152).contains(&more), "{more}");
    // Twenty silent frames of 48 kHz, and bytes that look like one frame of it.
    let mut silence = vec![0; 384];
    silence[..4].copy_from_slice(&[0xff, 0xfb, 0x94, 0xc4]);
    let found = decode_bytes([bytes("mono.mp3"), silence.repeat(20)].concat()).unwrap();
    assert_eq!(found.damage, None);
    let wanted = mono.samples.len() + 20 * 1152 * 147 / 160;
    assert!(
        found.samples.len().abs_diff(wanted) < 1152,
        "{} {wanted}",
        found.samples.len()
    );
    let found = decode_bytes([bytes("mono.mp3"), silence].concat()).unwrap();
    assert_eq!(found.samples.len(), mono.samples.len());
}

/// The gain of a frame is set to the highest.
#[test]
fn sound_far_above_full_scale_is_clipped_and_reported() {
    let mut file = bytes("mono.mp3");
    let tag = 10 + file[6..10].iter().fold(0, |size, &b| size << 7 | usize::from(b));
    let header = [file[tag], file[tag + 1]];
    let frames: Vec<usize> = (tag..file.len() - 40)
        .filter(|&at| file[at..at + 2] == header)
        .collect();
    for &at in &frames[10..20] {
        // After 18 bits, and 12 and 9 of the granule: eight bits of gain.
        for bit in 39..47 {
            file[at + 4 + bit / 8] |= 0x80 >> (bit % 8);
        }
    }
    let found = decode_bytes(file).unwrap();
    let damage = found.damage.unwrap();
    assert!(damage.what.contains("full scale"), "{damage:?}");
    assert!(found.samples.iter().all(|sample| sample.abs() <= 8.0));
}
