//! Uncompressed samples of WAV, AIFF, AU and CAF files, mixed to one channel.
//!
//! In: a source at the first sample and the layout of a frame. Out: the mean of all channels of each frame, summed
//! in `f64`. Integers of b bits become v / 2^(b-1), so that 16-bit and 24-bit samples are exact in `f32`. A-law and
//! mu-law follow ITU-T G.711.

use std::io::{self, SeekFrom};

use crate::source::{Source, read_up_to};

/// The lowest rate, in Hz. Below it lie sensor logs, not sound that could be told by words.
pub const LOWEST_RATE: u32 = 1_000;

/// The highest rate, in Hz. Recorders for bats reach 500 kHz; converters end at 768 kHz.
pub const HIGHEST_RATE: u32 = 768_000;

/// The most channels. The largest microphone arrays that write one file have 64.
pub const MAX_CHANNELS: usize = 64;

/// Frames of one block: small enough to stay in the cache, large enough that the calls do not count.
const BLOCK: usize = 8192;

/// How one sample is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    /// 8 bits, 128 is silence.
    Unsigned8,
    /// Two's complement in 1 to 8 bytes.
    Integer(usize),
    Float32,
    Float64,
    ALaw,
    MuLaw,
}

/// How a frame is laid out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub coding: Coding,
    pub big_endian: bool,
    pub channels: usize,
}

impl Coding {
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Unsigned8 | Self::ALaw | Self::MuLaw => 1,
            Self::Integer(bytes) => bytes,
            Self::Float32 => 4,
            Self::Float64 => 8,
        }
    }

    pub(crate) fn is_float(self) -> bool {
        matches!(self, Self::Float32 | Self::Float64)
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::Unsigned8 => "pcm 8-bit".into(),
            Self::Integer(bytes) => format!("pcm {}-bit", 8 * bytes),
            Self::Float32 => "pcm float 32-bit".into(),
            Self::Float64 => "pcm float 64-bit".into(),
            Self::ALaw => "a-law".into(),
            Self::MuLaw => "mu-law".into(),
        }
    }
}

impl Layout {
    pub(crate) fn frame_bytes(&self) -> usize {
        self.coding.bytes() * self.channels
    }

    /// Appends one mean per whole frame of `bytes`.
    pub(crate) fn mix(&self, bytes: &[u8], out: &mut Vec<f32>) {
        let n = self.channels;
        let big = self.big_endian;
        match self.coding {
            Coding::Unsigned8 => mean(bytes, n, out, |[b]| (f64::from(b) - 128.0) / 128.0),
            Coding::ALaw => mean(bytes, n, out, |[b]| a_law(b)),
            Coding::MuLaw => mean(bytes, n, out, |[b]| mu_law(b)),
            Coding::Integer(1) => mean(bytes, n, out, |[b]| integer([b, 0, 0, 0])),
            Coding::Integer(2) if big => mean(bytes, n, out, |[a, b]| integer([a, b, 0, 0])),
            Coding::Integer(2) => mean(bytes, n, out, |[a, b]| integer([b, a, 0, 0])),
            Coding::Integer(3) if big => mean(bytes, n, out, |[a, b, c]| integer([a, b, c, 0])),
            Coding::Integer(3) => mean(bytes, n, out, |[a, b, c]| integer([c, b, a, 0])),
            Coding::Integer(4) if big => mean(bytes, n, out, integer),
            Coding::Integer(4) => mean(bytes, n, out, |[a, b, c, d]| integer([d, c, b, a])),
            Coding::Integer(5) => mean::<5>(bytes, n, out, |b| wide(b, big)),
            Coding::Integer(6) => mean::<6>(bytes, n, out, |b| wide(b, big)),
            Coding::Integer(7) => mean::<7>(bytes, n, out, |b| wide(b, big)),
            Coding::Integer(_) => mean::<8>(bytes, n, out, |b| wide(b, big)),
            Coding::Float32 if big => mean(bytes, n, out, |b| f64::from(f32::from_be_bytes(b))),
            Coding::Float32 => mean(bytes, n, out, |b| f64::from(f32::from_le_bytes(b))),
            Coding::Float64 if big => mean(bytes, n, out, f64::from_be_bytes),
            Coding::Float64 => mean(bytes, n, out, f64::from_le_bytes),
        }
    }
}

fn mean<const N: usize>(bytes: &[u8], channels: usize, out: &mut Vec<f32>, sample: impl Fn([u8; N]) -> f64) {
    if channels == 1 {
        out.extend(bytes.as_chunks::<N>().0.iter().map(|&b| sample(b) as f32));
        return;
    }
    for frame in bytes.chunks_exact(N * channels) {
        let sum: f64 = frame.as_chunks::<N>().0.iter().map(|&b| sample(b)).sum();
        out.push((sum / channels as f64) as f32);
    }
}

/// The most significant byte first; shorter samples are filled with zeros below, which scales them rightly.
fn integer(bytes: [u8; 4]) -> f64 {
    f64::from(i32::from_be_bytes(bytes)) / f64::from(1_u32 << 31)
}

/// Integers of more than 4 bytes.
fn wide<const N: usize>(bytes: [u8; N], big_endian: bool) -> f64 {
    let add = |value: u64, &b: &u8| value << 8 | u64::from(b);
    let value = if big_endian {
        bytes.iter().fold(0, add)
    } else {
        bytes.iter().rev().fold(0, add)
    };
    // The highest bit goes to the top, where it is the sign.
    (value << (64 - 8 * N)) as i64 as f64 / (1_u64 << 63) as f64
}

/// G.711 A-law: 13 bits, every second bit inverted, a segment of eight steps of doubling size.
fn a_law(byte: u8) -> f64 {
    let bits = byte ^ 0x55;
    let segment = (bits >> 4) & 7;
    let steps = i32::from(bits & 15) * 2 + 1;
    let size = if segment == 0 {
        steps
    } else {
        (steps + 32) << (segment - 1)
    };
    f64::from(if bits & 0x80 == 0 { -size } else { size }) / 4096.0
}

/// G.711 mu-law: 14 bits, all bits inverted, a bias of 33 that makes the segments join.
fn mu_law(byte: u8) -> f64 {
    let bits = !byte;
    let size = ((i32::from(bits & 15) * 2 + 33) << ((bits >> 4) & 7)) - 33;
    f64::from(if bits & 0x80 == 0 { size } else { -size }) / 8192.0
}

/// What one step of reading brought.
pub(crate) enum Step {
    /// Samples were appended.
    Samples,
    /// Samples were appended that are not what they should be.
    Flawed(String),
    /// One packet could not be decoded; the next may.
    Skipped(String),
    /// Nothing more can be read, and that is a fault.
    Broken(String),
    /// The decoder itself broke down, and must not be called again.
    BrokeDown,
    /// The regular end.
    End,
}

/// The samples of one file, block after block.
pub(crate) struct Pcm {
    source: Box<dyn Source>,
    layout: Layout,
    /// Bytes that the header still promises; `None` if it does not know.
    left: Option<u64>,
    /// Whether the sound lies in the file without anything between.
    in_one_piece: bool,
    buffer: Vec<u8>,
}

impl Pcm {
    /// The source stands at the first sample; `bytes` is what the header says is there.
    pub(crate) fn new(
        source: Box<dyn Source>,
        layout: Layout,
        bytes: Option<u64>,
        in_one_piece: bool,
    ) -> Self {
        Self {
            source,
            layout,
            left: bytes,
            in_one_piece,
            buffer: Vec::new(),
        }
    }

    pub(crate) fn is_float(&self) -> bool {
        self.layout.coding.is_float()
    }

    /// How many frames follow; `None` if only reading them tells.
    pub(crate) fn frames_left(&mut self) -> io::Result<Option<u64>> {
        let at = self.source.stream_position()?;
        let end = self.source.seek(SeekFrom::End(0))?;
        self.source.seek(SeekFrom::Start(at))?;
        let there = end.saturating_sub(at);
        let bytes = self.left.map_or(there, |left| left.min(there));
        Ok(self
            .in_one_piece
            .then(|| bytes / self.layout.frame_bytes() as u64))
    }

    /// Passes over frames; those that are not there end the sound.
    pub(crate) fn skip(&mut self, frames: u64) -> io::Result<()> {
        let bytes = frames.saturating_mul(self.layout.frame_bytes() as u64);
        let at = self.source.stream_position()?;
        self.source.seek(SeekFrom::Start(at.saturating_add(bytes)))?;
        self.left = self.left.map(|left| left.saturating_sub(bytes));
        Ok(())
    }

    /// Appends the next block to `out`.
    pub(crate) fn next(&mut self, out: &mut Vec<f32>) -> io::Result<Step> {
        let frame = self.layout.frame_bytes();
        let wish = (frame * BLOCK) as u64;
        let wish = self.left.map_or(wish, |left| left.min(wish)) as usize;
        if wish < frame {
            return Ok(Step::End);
        }
        self.buffer.resize(wish, 0);
        let got = read_up_to(&mut self.source, &mut self.buffer)?;
        self.left = self
            .left
            .map(|left| if got < wish { 0 } else { left - got as u64 });
        if got < frame {
            return Ok(Step::End);
        }
        self.layout.mix(&self.buffer[..got], out);
        Ok(Step::Samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(coding: Coding, big_endian: bool, channels: usize, bytes: &[u8]) -> Vec<f32> {
        let mut out = Vec::new();
        Layout {
            coding,
            big_endian,
            channels,
        }
        .mix(bytes, &mut out);
        out
    }

    #[test]
    fn integers_of_every_width_and_order() {
        assert_eq!(
            one(Coding::Unsigned8, false, 1, &[0, 128, 255]),
            [-1.0, 0.0, 127.0 / 128.0]
        );
        assert_eq!(
            one(Coding::Integer(1), true, 1, &[0x80, 0x7f]),
            [-1.0, 127.0 / 128.0]
        );
        assert_eq!(
            one(Coding::Integer(2), false, 1, &[0x34, 0x12]),
            [4660.0 / 32768.0]
        );
        assert_eq!(
            one(Coding::Integer(2), true, 1, &[0x12, 0x34]),
            [4660.0 / 32768.0]
        );
        let exact = f64::from(0x0012_3456) / f64::from(1 << 23);
        assert_eq!(
            one(Coding::Integer(3), false, 1, &[0x56, 0x34, 0x12]),
            [exact as f32]
        );
        assert_eq!(
            one(Coding::Integer(3), true, 1, &[0x12, 0x34, 0x56]),
            [exact as f32]
        );
        assert_eq!(one(Coding::Integer(4), false, 1, &[0, 0, 0, 0xc0]), [-0.5]);
        assert_eq!(one(Coding::Integer(4), true, 1, &[0xc0, 0, 0, 0]), [-0.5]);
        for width in 5..=8 {
            let mut bytes = vec![0; width];
            (bytes[0], bytes[width - 1]) = (0xc0, 0x20);
            let low = f64::from(0x20) / ((8 * width - 1) as f64).exp2();
            assert_eq!(one(Coding::Integer(width), true, 1, &bytes), [(low - 0.5) as f32]);
            bytes.reverse();
            assert_eq!(
                one(Coding::Integer(width), false, 1, &bytes),
                [(low - 0.5) as f32]
            );
        }
    }

    #[test]
    fn the_mean_is_of_all_channels_and_half_frames_are_left_out() {
        let bytes: Vec<u8> = [0.5_f32, 0.25, -0.25, 9.0]
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect();
        assert_eq!(one(Coding::Float32, false, 3, &bytes), [0.5 / 3.0]);
    }

    /// The end points and the quietest steps of G.711, table 1a and 2a.
    #[test]
    fn g711_by_its_tables() {
        assert_eq!(
            one(Coding::ALaw, false, 1, &[0xd5, 0x55, 0xaa, 0x2a]),
            [1.0 / 4096.0, -1.0 / 4096.0, 4032.0 / 4096.0, -4032.0 / 4096.0]
        );
        assert_eq!(
            one(Coding::MuLaw, false, 1, &[0xff, 0x80, 0x00]),
            [0.0, 8031.0 / 8192.0, -8031.0 / 8192.0]
        );
    }
}
