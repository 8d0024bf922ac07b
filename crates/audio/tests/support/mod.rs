//! What the tests share: the formula of the files in `tests/files`, and a writer of WAV files.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::f64::consts::PI;
use std::io::Cursor;
use std::ops::Range;
use std::path::{Path, PathBuf};

use hark_audio::{Damage, Decoder, Error, Info};

/// Where the committed files are.
pub fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/files")
        .join(name)
}

pub fn bytes(name: &str) -> Vec<u8> {
    fs_err::read(file(name)).unwrap()
}

/// All committed files, sorted by name.
pub fn all_files() -> Vec<String> {
    let entries = fs_err::read_dir(file("")).unwrap();
    let mut names: Vec<_> = entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The formula of `golden/audio_files.py`: a rising tone, different in each channel.
pub fn formula(t: f64, channel: usize) -> f64 {
    let c = channel as f64;
    0.6 / (1.0 + c) * (2.0 * PI * (200.0 + 150.0 * c + 200.0 * t) * t).sin()
}

/// One frame of the formula, rounded to `bits`, as integers.
pub fn quantised(n: usize, rate: u32, channels: usize, bits: u32) -> Vec<i32> {
    let full = f64::from(1_u32 << (bits - 1));
    let t = n as f64 / f64::from(rate);
    (0..channels)
        .map(|c| (formula(t, c) * full + 0.5).floor() as i32)
        .collect()
}

/// One second of the mean of all channels, rounded to `bits` before.
pub fn expected(rate: u32, channels: usize, bits: u32) -> Vec<f32> {
    let full = f64::from(1_u32 << (bits - 1));
    let mean = |n| {
        let sum: f64 = quantised(n, rate, channels, bits)
            .iter()
            .map(|&v| f64::from(v) / full)
            .sum();
        (sum / channels as f64) as f32
    };
    (0..rate as usize).map(mean).collect()
}

/// All that a decoder gives.
#[derive(Debug)]
pub struct Whole {
    pub samples: Vec<f32>,
    pub info: Info,
    pub damage: Option<Damage>,
}

pub fn drain(mut decoder: Decoder) -> Result<Whole, Error> {
    let mut samples = Vec::new();
    while let Some(block) = decoder.next_block()? {
        assert!(!block.is_empty());
        samples.extend_from_slice(block);
    }
    assert!(decoder.next_block()?.is_none(), "the end is the end");
    assert_eq!(decoder.samples_so_far(), samples.len() as u64);
    Ok(Whole {
        samples,
        info: decoder.info().clone(),
        damage: decoder.damage().cloned(),
    })
}

pub fn decode_bytes(bytes: Vec<u8>) -> Result<Whole, Error> {
    drain(Decoder::from_source(
        Box::new(Cursor::new(bytes)),
        Path::new("in memory"),
    )?)
}

pub fn decode(name: &str) -> Result<Whole, Error> {
    drain(Decoder::open(&file(name))?)
}

/// A WAV file, chunk by chunk.
pub struct Wav {
    pub outer: [u8; 4],
    pub chunks: Vec<([u8; 4], Vec<u8>)>,
}

impl Wav {
    /// Plain format chunk and samples.
    pub fn new(tag: u16, channels: u16, rate: u32, bits: u16, samples: Vec<u8>) -> Self {
        let format = Self::format(tag, channels, rate, bits);
        Self {
            outer: *b"RIFF",
            chunks: vec![(*b"fmt ", format), (*b"data", samples)],
        }
    }

    pub fn format(tag: u16, channels: u16, rate: u32, bits: u16) -> Vec<u8> {
        let align = channels.wrapping_mul(bits.div_ceil(8));
        let mut body = Vec::new();
        body.extend(tag.to_le_bytes());
        body.extend(channels.to_le_bytes());
        body.extend(rate.to_le_bytes());
        body.extend(rate.wrapping_mul(u32::from(align)).to_le_bytes());
        body.extend(align.to_le_bytes());
        body.extend(bits.to_le_bytes());
        body
    }

    /// Adds a chunk before the samples.
    pub fn with(mut self, name: [u8; 4], body: &[u8]) -> Self {
        self.chunks.insert(1, (name, body.to_vec()));
        self
    }

    /// Adds a chunk after the samples.
    pub fn with_last(mut self, name: [u8; 4], body: &[u8]) -> Self {
        self.chunks.push((name, body.to_vec()));
        self
    }

    /// The file's bytes, chunks of odd size padded.
    pub fn bytes(&self) -> Vec<u8> {
        let mut body = b"WAVE".to_vec();
        for (name, chunk) in &self.chunks {
            body.extend(name);
            body.extend((chunk.len() as u32).to_le_bytes());
            body.extend(chunk);
            body.resize(body.len().next_multiple_of(2), 0);
        }
        let mut all = self.outer.to_vec();
        all.extend((body.len() as u32).to_le_bytes());
        all.extend(body);
        all
    }
}

/// The formula's samples as little-endian bytes of `bits`; 8-bit ones are unsigned.
pub fn samples(rate: u32, channels: usize, bits: u32) -> Vec<u8> {
    let size = bits as usize / 8;
    let frames = (0..rate as usize).flat_map(|n| quantised(n, rate, channels, bits));
    if bits == 8 {
        return frames.map(|v| (v + 128) as u8).collect();
    }
    frames
        .flat_map(|v| v.to_le_bytes().into_iter().take(size))
        .collect()
}

/// The lag in `-most..=most` at which `found` fits the `part` of `wanted` best, and the correlation there.
pub fn best_lag(found: &[f32], wanted: &[f32], part: Range<usize>, most: i64) -> (i64, f64) {
    let correlation = |lag: i64| {
        let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
        for n in part.clone() {
            let at = usize::try_from(n as i64 + lag).ok().and_then(|i| found.get(i));
            let (f, w) = (at.map_or(0.0, |&f| f64::from(f)), f64::from(wanted[n]));
            ab += f * w;
            aa += f * f;
            bb += w * w;
        }
        ab / (aa * bb).sqrt().max(1e-30)
    };
    (-most..=most)
        .map(|lag| (lag, correlation(lag)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .unwrap()
}

/// Sets the checksums of all Ogg pages anew, so that damage within them reaches the decoder.
pub fn mend_ogg(bytes: &mut [u8]) {
    let mut at = 0;
    while bytes.get(at..at + 4) == Some(b"OggS") {
        let Some(&segments) = bytes.get(at + 26) else {
            break;
        };
        let table = at + 27..at + 27 + usize::from(segments);
        let Some(lengths) = bytes.get(table.clone()) else {
            break;
        };
        let end = table.end + lengths.iter().map(|&l| usize::from(l)).sum::<usize>();
        let Some(page) = bytes.get_mut(at..end) else { break };
        page[22..26].fill(0);
        let sum = page.iter().fold(0_u32, |sum, &byte| {
            (0..8).fold(sum ^ u32::from(byte) << 24, |s, _| {
                s << 1 ^ if s >> 31 == 1 { 0x04c1_1db7 } else { 0 }
            })
        });
        page[22..26].copy_from_slice(&sum.to_le_bytes());
        at = end;
    }
}

/// A FLAC file of 16-bit samples, uncompressed within its frames. With several block sizes, taken in turns, frames count
/// samples; with one, they count frames.
pub struct PlainFlac<'b> {
    pub rate: u32,
    pub channels: u8,
    pub blocks: &'b [usize],
    /// The length that STREAMINFO states.
    pub total: u64,
}

impl PlainFlac<'_> {
    /// The header, then the frames.
    pub fn parts(&self, interleaved: &[i16]) -> Vec<Vec<u8>> {
        let channels = usize::from(self.channels);
        let (least, most) = (
            self.blocks.iter().min().unwrap(),
            self.blocks.iter().max().unwrap(),
        );
        let mut head = b"fLaC\x80\0\0\x22".to_vec();
        head.extend((*least as u16).to_be_bytes());
        head.extend((*most as u16).to_be_bytes());
        head.extend([0; 6]);
        let shape = u64::from(self.rate) << 44 | u64::from(self.channels - 1) << 41 | 15 << 36;
        head.extend((shape | self.total).to_be_bytes());
        head.extend([0; 16]);
        let mut parts = vec![head];
        let (mut at, mut nth) = (0, 0);
        while at < interleaved.len() / channels {
            let block = self.blocks[nth % self.blocks.len()].min(interleaved.len() / channels - at);
            let number = if self.blocks.len() > 1 { at } else { nth };
            let samples = &interleaved[at * channels..(at + block) * channels];
            parts.push(self.frame(samples, number as u32));
            at += block;
            nth += 1;
        }
        parts
    }

    fn frame(&self, samples: &[i16], number: u32) -> Vec<u8> {
        let channels = usize::from(self.channels);
        let variable = u8::from(self.blocks.len() > 1);
        let mut frame = vec![0xff, 0xf8 | variable, 0x70, (self.channels - 1) << 4 | 4 << 1];
        // Numbers are written as UTF-8 writes them, and go on where it ends.
        match number {
            0..0x80 => frame.push(number as u8),
            0x80..0x800 => frame.extend([0xc0 | (number >> 6) as u8, 0x80 | (number & 63) as u8]),
            _ => {
                let low = |shift: u32| 0x80 | (number >> shift & 63) as u8;
                frame.extend([0xf0 | (number >> 18) as u8, low(12), low(6), low(0)]);
            }
        }
        frame.extend((samples.len() as u16 / u16::from(self.channels) - 1).to_be_bytes());
        let sum = frame.iter().fold(0_u8, |sum, &byte| {
            (0..8).fold(sum ^ byte, |s, _| s << 1 ^ if s >> 7 == 1 { 7 } else { 0 })
        });
        frame.push(sum);
        for channel in 0..channels {
            frame.push(1 << 1);
            let plane = samples.iter().skip(channel).step_by(channels);
            frame.extend(plane.flat_map(|sample| sample.to_be_bytes()));
        }
        let sum = frame.iter().fold(0_u16, |sum, &byte| {
            (0..8).fold(sum ^ u16::from(byte) << 8, |s, _| {
                s << 1 ^ if s >> 15 == 1 { 0x8005 } else { 0 }
            })
        });
        frame.extend(sum.to_be_bytes());
        frame
    }
}

/// Noise of 16 bits; the same for the same seed.
pub fn noise(count: usize, seed: u64) -> Vec<i16> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 48) as i16 / 2
    };
    (0..count).map(|_| next()).collect()
}
