//! QuickTime files that are built here, byte by byte: compressed indexes, and tables that count single frames.

#![allow(unreachable_pub, reason = "modules that test binaries share")]

mod support;

use support::{bytes, decode, decode_bytes};

fn boxed(name: [u8; 4], body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32 + 8).to_be_bytes()[..], &name, body].concat()
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_be_bytes()).collect()
}

/// One sound track: how its frames are coded and packed, how many a chunk has, and the bytes of all chunks.
struct Movie {
    coding: [u8; 4],
    channels: u8,
    rate: u32,
    /// Version 1 of the description: frames and bytes of a packet.
    packing: Option<(u32, u32)>,
    /// The copy of the WAV header.
    wave: Vec<u8>,
    /// Other boxes of the description.
    more: Vec<u8>,
    /// What all samples have in the table of sizes.
    size: u32,
    samples: u32,
    per_chunk: u32,
    chunks: Vec<Vec<u8>>,
}

impl Movie {
    fn description(&self) -> Vec<u8> {
        let mut entry = [&[0; 6][..], &[0, 1]].concat();
        entry.extend(if self.packing.is_some() { [0, 1] } else { [0, 0] });
        entry.extend([0, 0, 0, 0, 0, 0, 0, self.channels, 0, 16, 0xff, 0xff, 0, 0]);
        entry.extend((self.rate << 16).to_be_bytes());
        if let Some((frames, bytes)) = self.packing {
            entry.extend(words(&[frames, bytes, bytes, 2]));
        }
        if !self.wave.is_empty() {
            entry.extend(boxed(*b"wave", &boxed(self.coding, &self.wave)));
        }
        entry.extend(&self.more);
        [words(&[0, 1]), boxed(self.coding, &entry)].concat()
    }

    /// The index, for chunks that begin at `first` with ten bytes of something else between them.
    fn index(&self, first: u32) -> Vec<u8> {
        let mut places = vec![0, self.chunks.len() as u32];
        let mut at = first;
        for chunk in &self.chunks {
            places.push(at);
            at += chunk.len() as u32 + 10;
        }
        let tables = [
            boxed(*b"stsd", &self.description()),
            boxed(*b"stts", &words(&[0, 1, self.samples, 1])),
            boxed(*b"stsc", &words(&[0, 1, 1, self.per_chunk, 1])),
            boxed(*b"stsz", &words(&[0, self.size, self.samples])),
            boxed(*b"stco", &words(&places)),
        ];
        let media = [
            boxed(*b"mdhd", &words(&[0, 0, 0, self.rate, self.samples, 0])),
            boxed(*b"hdlr", b"\0\0\0\0mhlrsoun\0\0\0\0\0\0\0\0\0\0\0\0"),
            boxed(*b"minf", &boxed(*b"stbl", &tables.concat())),
        ];
        let track = [
            boxed(*b"tkhd", &words(&[0, 0, 0, 1, 0, 0])),
            boxed(*b"mdia", &media.concat()),
        ];
        [boxed(*b"mvhd", &[0; 100]), boxed(*b"trak", &track.concat())].concat()
    }

    fn data(&self) -> Vec<u8> {
        let other = [0xff; 10];
        let body: Vec<u8> = self
            .chunks
            .iter()
            .flat_map(|chunk| [chunk, &other[..]].concat())
            .collect();
        boxed(*b"mdat", &body)
    }

    fn file(&self) -> Vec<u8> {
        [self.data(), boxed(*b"moov", &self.index(8))].concat()
    }
}

/// The blocks of a WAV file of ADPCM and its format.
fn blocks(name: &str) -> (Vec<u8>, Vec<u8>, usize) {
    let file = bytes(name);
    let part = |wanted: &[u8; 4]| {
        let at = file.windows(4).position(|part| part == wanted).unwrap();
        let size = u32::from_le_bytes(*file[at + 4..].first_chunk().unwrap()) as usize;
        file[at + 8..at + 8 + size].to_vec()
    };
    let format = part(b"fmt ");
    let align = usize::from(u16::from_le_bytes([format[12], format[13]]));
    (format, part(b"data"), align)
}

fn adpcm(name: &str, coding: [u8; 4]) -> Movie {
    let (wave, mut data, align) = blocks(name);
    data.truncate(data.len() / align * align);
    let frames = u32::from(u16::from_le_bytes([wave[18], wave[19]]));
    let rate = u32::from_le_bytes(*wave[4..].first_chunk().unwrap());
    let chunks: Vec<Vec<u8>> = data.chunks(3 * align).map(<[u8]>::to_vec).collect();
    assert!(chunks.len() > 1, "{name}");
    Movie {
        coding,
        channels: wave[2],
        rate,
        packing: Some((frames, align as u32)),
        wave,
        more: Vec::new(),
        size: 1,
        samples: frames * (data.len() / align) as u32,
        per_chunk: 3 * frames,
        chunks,
    }
}

#[test]
fn adpcm_whose_table_counts_frames() {
    for (name, coding) in [("adpcm-ms.wav", *b"ms\0\x02"), ("adpcm-ima.wav", *b"ms\0\x11")] {
        let movie = adpcm(name, coding);
        let found = decode_bytes(movie.file()).unwrap();
        let wanted = decode(name).unwrap();
        let both = found.samples.len().min(wanted.samples.len());
        assert!(found.samples[..both] == wanted.samples[..both], "{name}");
        assert_eq!(found.samples.len(), movie.samples as usize, "{name}");
        assert_eq!((found.info.container.as_str(), found.damage), ("mp4", None));
        assert_eq!(found.info.codec, wanted.info.codec);
        // The fields of QuickTime are enough, and the copy of the WAV header is.
        for without in [
            Movie {
                wave: Vec::new(),
                ..adpcm(name, coding)
            },
            Movie {
                packing: None,
                ..adpcm(name, coding)
            },
        ] {
            assert!(
                decode_bytes(without.file()).unwrap().samples == found.samples,
                "{name}"
            );
        }
        let size = movie.index(0).len() as u32 + 16;
        let mut file = [boxed(*b"moov", &movie.index(size)), movie.data()].concat();
        assert!(decode_bytes(file.clone()).unwrap().samples == found.samples);
        file.truncate(usize::midpoint(size as usize, file.len()));
        let cut = decode_bytes(file).unwrap();
        assert!(
            found.samples.starts_with(&cut.samples) && cut.damage.is_some(),
            "{name}"
        );
    }
}

#[test]
fn mp3_whose_frames_do_not_end_with_chunks() {
    let mp3 = bytes("mono.mp3");
    let tag = mp3[6..10].iter().fold(0, |size, &b| size << 7 | usize::from(b));
    let frames = &mp3[10 + tag..];
    let chunks: Vec<Vec<u8>> = frames.chunks(1_000).map(<[u8]>::to_vec).collect();
    let movie = Movie {
        coding: *b"ms\0\x55",
        channels: 1,
        rate: 44_100,
        packing: Some((1_152, 1_000)),
        wave: Vec::new(),
        more: Vec::new(),
        size: 1,
        samples: 1_152 * chunks.len() as u32,
        per_chunk: 1_152,
        chunks,
    };
    let found = decode_bytes(movie.file()).unwrap();
    assert!(found.samples == decode("mono.mp3").unwrap().samples);
    assert_eq!(found.info.container, "mp4");
}

#[test]
fn a_compressed_index() {
    let movie = adpcm("adpcm-ima.wav", *b"ms\0\x11");
    let plain = decode_bytes(movie.file()).unwrap();
    let moov = boxed(*b"moov", &movie.index(8));
    // zlib with one stored block, whose sum stands at its end.
    let (mut a, mut b) = (1_u32, 0_u32);
    for &byte in &moov {
        a = (a + u32::from(byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    let size = moov.len() as u16;
    let mut packed = vec![0x78, 0x01, 1];
    packed.extend(size.to_le_bytes());
    packed.extend((!size).to_le_bytes());
    packed.extend(&moov);
    packed.extend((b << 16 | a).to_be_bytes());
    let compressed = |method: &[u8], data: &[u8]| {
        let claimed = words(&[moov.len() as u32]);
        let inner = [
            boxed(*b"dcom", method),
            boxed(*b"cmvd", &[&claimed, data].concat()),
        ]
        .concat();
        [movie.data(), boxed(*b"moov", &boxed(*b"cmov", &inner))].concat()
    };
    let found = decode_bytes(compressed(b"zlib", &packed)).unwrap();
    assert!(found.samples == plain.samples && found.damage.is_none());
    let refused = |file: Vec<u8>| decode_bytes(file).unwrap_err().to_string();
    assert!(refused(compressed(b"adec", &packed)).contains("unknown way"));
    for length in 0..packed.len() {
        assert!(
            refused(compressed(b"zlib", &packed[..length])).contains("damaged"),
            "{length}"
        );
    }
}

/// Packets with a lower band of silence and an upper band that makes no sense: the lower band is heard, and what is missing is said.
#[test]
fn aac_without_its_upper_band() {
    // A single channel without one band, a filling of four bytes with the mark of the upper band, and the end.
    let bits = "000 0000 00000000 0 00 0 000000 0 0 0 0 110 0100 1101 1111 11111111 11111111 11111111 111";
    let bits: Vec<u8> = bits
        .bytes()
        .filter(|&bit| bit != b' ')
        .map(|bit| bit & 1)
        .collect();
    let packet: Vec<u8> = bits
        .chunks(8)
        .map(|byte| byte.iter().fold(0, |sum, bit| sum << 1 | bit) << (8 - byte.len()))
        .collect();
    let config = [
        4, 19, 0x40, 0x15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 4, 0x2b, 0x8a, 0x08, 0,
    ];
    let esds = [&[0, 0, 0, 0, 3, 24, 0, 1, 0][..], &config].concat();
    let movie = Movie {
        coding: *b"mp4a",
        channels: 1,
        rate: 44_100,
        packing: None,
        wave: Vec::new(),
        more: boxed(*b"esds", &esds),
        size: packet.len() as u32,
        samples: 20,
        per_chunk: 20,
        chunks: vec![packet.repeat(20)],
    };
    let found = decode_bytes(movie.file()).unwrap();
    assert!(found.damage.unwrap().what.contains("upper band"));
    assert!(found.samples.iter().all(|&sample| sample == 0.0));
}

/// A mark that says that a number follows, at the end of a configuration where none does.
#[test]
fn aac_whose_configuration_is_too_short() {
    let mut file = bytes("stereo.m4a");
    let plain = decode_bytes(file.clone()).unwrap();
    let esds = file.windows(4).position(|name| name == b"esds").unwrap();
    let tag = file[esds..].windows(2).position(|two| two == [5, 0x80]).unwrap();
    let config = esds + tag + 5;
    assert_eq!(file[config - 1], 5, "an extension follows");
    file[config - 1] = 2;
    file[config + 1] |= 2;
    assert!(decode_bytes(file).unwrap().samples == plain.samples);
}

/// A writer that puts the index elsewhere renames the old one.
#[test]
fn an_index_that_is_named_free() {
    let movie = adpcm("adpcm-ima.wav", *b"ms\0\x11");
    let plain = decode_bytes(movie.file()).unwrap();
    let renamed = [movie.data(), boxed(*b"free", &movie.index(8))].concat();
    assert!(decode_bytes(renamed).unwrap().samples == plain.samples);
}

#[test]
fn wild_tables_give_an_error_or_sound() {
    for (size, samples, per_chunk) in [
        (1, u32::MAX, u32::MAX),
        (0, u32::MAX, 1),
        (u32::MAX, u32::MAX, u32::MAX),
        (1, 0, 0),
    ] {
        for packing in [None, Some((1, u32::MAX)), Some((u32::MAX, 1)), Some((0, 0))] {
            let movie = Movie {
                packing,
                size,
                samples,
                per_chunk,
                ..adpcm("adpcm-ima.wav", *b"ms\0\x11")
            };
            let _ = decode_bytes(movie.file());
            let mp3 = Movie {
                coding: *b"ms\0\x55",
                wave: Vec::new(),
                ..movie
            };
            let _ = decode_bytes(mp3.file());
        }
    }
}
