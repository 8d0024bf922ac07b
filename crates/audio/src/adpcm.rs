//! ADPCM: four bits per sample, in blocks that begin with a state of their own.
//!
//! In: a source at the first block. Out: the mean of all channels of each frame. Three forms: Microsoft's (WAV tag 2, at most two
//! channels), IMA's as WAV files have it (tag 0x11), and Apple's `ima4` of AIFF-C and CAF, packets of 34 bytes and 64 samples per
//! channel. A last block that is cut short gives the frames that are there. A block whose state cannot be is passed over.
//!
//! Symphonia's decoder knows one or two channels, and its WAV reader refuses block sizes that do not fit the declared samples.

use std::io;

use crate::pcm::Step;
use crate::source::{Source, read_up_to};

/// As many frames are decoded in one step, if there are so many.
const STEP_FRAMES: usize = 4096;

/// Bytes and samples of one channel's packet in Apple's form.
const APPLE_BYTES: usize = 34;
const APPLE_SAMPLES: usize = 64;

/// The step sizes of IMA ADPCM (IMA Digital Audio Focus and Technical Working Group, 1992, table 2).
#[rustfmt::skip]
const STEPS: [i32; 89] = [
    7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 19, 21, 23, 25, 28, 31, 34, 37, 41, 45, 50, 55, 60, 66, 73, 80, 88, 97, 107, 118,
    130, 143, 157, 173, 190, 209, 230, 253, 279, 307, 337, 371, 408, 449, 494, 544, 598, 658, 724, 796, 876, 963, 1060,
    1166, 1282, 1411, 1552, 1707, 1878, 2066, 2272, 2499, 2749, 3024, 3327, 3660, 4026, 4428, 4871, 5358, 5894, 6484, 7132,
    7845, 8630, 9493, 10442, 11487, 12635, 13899, 15289, 16818, 18500, 20350, 22385, 24623, 27086, 29794, 32767,
];
const STEP_CHANGES: [i32; 8] = [-1, -1, -1, -1, 2, 4, 6, 8];

/// Microsoft's: how the step changes, and the seven pairs of predictor coefficients, in 256ths.
const ADAPTATION: [i32; 16] = [
    230, 230, 230, 230, 307, 409, 512, 614, 768, 614, 512, 409, 307, 230, 230, 230,
];
const COEFFICIENTS: [(i32, i32); 7] = [
    (256, 0),
    (512, -256),
    (0, 0),
    (192, 64),
    (240, 0),
    (460, -208),
    (392, -232),
];

/// Which ADPCM it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Microsoft,
    Ima,
    Apple,
}

/// How the blocks are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    form: Form,
    channels: usize,
    /// Bytes of one block.
    bytes: usize,
    /// Frames of one block.
    frames: usize,
}

impl Blocks {
    /// `bytes` and `frames` are what the header says of a block; frames of 0 are left to the block's size.
    pub(crate) fn new(form: Form, channels: usize, bytes: usize, frames: usize) -> Result<Self, String> {
        let bytes = match form {
            Form::Apple => APPLE_BYTES.saturating_mul(channels),
            _ => bytes,
        };
        let blocks = Self {
            form,
            channels,
            bytes,
            frames: usize::MAX,
        };
        let most = blocks.frames_in(bytes);
        if most == 0 {
            return Err(format!("ADPCM blocks of {bytes} bytes for {channels} channels"));
        }
        if form == Form::Microsoft && channels > 2 {
            return Err(format!("Microsoft ADPCM of {channels} channels"));
        }
        let frames = if frames == 0 { most } else { frames.min(most) };
        Ok(Self { frames, ..blocks })
    }

    /// How many frames a block holds of which so many bytes are there.
    fn frames_in(&self, bytes: usize) -> usize {
        let n = self.channels.max(1);
        let frames = match self.form {
            Form::Apple => bytes / (APPLE_BYTES * n) * APPLE_SAMPLES,
            Form::Microsoft => bytes.checked_sub(7 * n).map_or(0, |rest| 2 + rest * 2 / n),
            // Four bytes of each channel in turn, eight samples. One channel alone needs no turns.
            Form::Ima if n == 1 => bytes.checked_sub(4).map_or(0, |rest| 1 + rest * 2),
            Form::Ima => bytes.checked_sub(4 * n).map_or(0, |rest| 1 + rest / (4 * n) * 8),
        };
        frames.min(self.frames)
    }

    /// How many frames so many bytes of blocks hold.
    pub(crate) fn frames_of(&self, bytes: u64) -> u64 {
        let whole = (bytes / self.bytes as u64).saturating_mul(self.frames as u64);
        whole.saturating_add(self.frames_in((bytes % self.bytes as u64) as usize) as u64)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn frames(&self) -> usize {
        self.frames
    }

    pub(crate) fn name(&self) -> &'static str {
        match self.form {
            Form::Microsoft => "adpcm_ms",
            Form::Ima => "adpcm_ima_wav",
            Form::Apple => "adpcm_ima_qt",
        }
    }
}

/// What one channel's decoder remembers.
#[derive(Clone, Copy, Default)]
struct State {
    sample: i32,
    /// IMA: index of the step.
    index: i32,
    /// Microsoft: the sample before, the step and the coefficients.
    before: i32,
    step: i32,
    coefficients: (i32, i32),
}

impl State {
    /// Each part of the change is rounded down by itself, as in the standard's own program and in Apple's.
    fn apple(&mut self, nibble: u8) -> i32 {
        let step = STEPS[self.index as usize];
        let mut change = step >> 3;
        for (bit, part) in [(4, step), (2, step >> 1), (1, step >> 2)] {
            change += if nibble & bit != 0 { part } else { 0 };
        }
        self.change(nibble, change)
    }

    /// The change is rounded down once, as the encoders and decoders of WAV files do. Quiet sound is lost otherwise.
    fn ima(&mut self, nibble: u8) -> i32 {
        let step = STEPS[self.index as usize];
        self.change(nibble, ((2 * i32::from(nibble & 7) + 1) * step) >> 3)
    }

    fn change(&mut self, nibble: u8, change: i32) -> i32 {
        let sample = if nibble & 8 != 0 {
            self.sample - change
        } else {
            self.sample + change
        };
        self.sample = sample.clamp(-32768, 32767);
        self.index = (self.index + STEP_CHANGES[usize::from(nibble & 7)]).clamp(0, 88);
        self.sample
    }

    fn microsoft(&mut self, nibble: u8) -> i32 {
        let signed = i32::from(nibble & 15) - if nibble & 8 != 0 { 16 } else { 0 };
        let (first, second) = self.coefficients;
        let predicted = (self.sample * first + self.before * second) / 256;
        let sample = predicted + signed * self.step;
        self.before = self.sample;
        self.sample = sample.clamp(-32768, 32767);
        // The largest factor is three: held in bounds that no real step reaches, nothing overflows.
        self.step = (ADAPTATION[usize::from(nibble & 15)] * self.step / 256).clamp(16, 1 << 20);
        self.sample
    }
}

/// The blocks of one file, decoded one after the other.
pub(crate) struct Adpcm {
    source: Box<dyn Source>,
    blocks: Blocks,
    /// Bytes that the header still promises; `None` if it does not know.
    left: Option<u64>,
    /// Frames that may still be given, where the header counts them.
    keep: Option<u64>,
    buffer: Vec<u8>,
    states: Vec<State>,
    /// The sum of all channels of each frame of a block: 64 values of 16 bits are exact.
    sums: Vec<i32>,
}

impl Adpcm {
    /// The source stands at the first block; `bytes` is what the header says is there, `keep` how many frames are to be heard.
    pub(crate) fn new(
        source: Box<dyn Source>,
        blocks: Blocks,
        bytes: Option<u64>,
        keep: Option<u64>,
    ) -> Self {
        Self {
            source,
            blocks,
            left: bytes,
            keep,
            buffer: Vec::new(),
            states: vec![State::default(); blocks.channels],
            sums: Vec::new(),
        }
    }

    /// Appends the next blocks to `out`.
    pub(crate) fn next(&mut self, out: &mut Vec<f32>) -> io::Result<Step> {
        let before = out.len();
        while out.len() - before < STEP_FRAMES {
            let wish = self.blocks.bytes;
            let wish = self
                .left
                .map_or(wish, |left| wish.min(usize::try_from(left).unwrap_or(wish)));
            if wish == 0 || self.keep == Some(0) {
                break;
            }
            self.buffer.resize(wish, 0);
            let got = read_up_to(&mut self.source, &mut self.buffer)?;
            self.left = if got < wish {
                Some(0)
            } else {
                self.left.map(|left| left - got as u64)
            };
            let frames = self.blocks.frames_in(got);
            if frames == 0 {
                break;
            }
            self.sums.clear();
            self.sums.resize(frames, 0);
            self.buffer.truncate(got);
            if self.decode(frames).is_none() {
                return Ok(Step::Skipped(
                    "an ADPCM block begins with a state that cannot be".to_owned(),
                ));
            }
            if let Some(keep) = &mut self.keep {
                self.sums.truncate(usize::try_from(*keep).unwrap_or(usize::MAX));
                *keep -= self.sums.len() as u64;
            }
            let scale = self.blocks.channels as f32 * 32768.0;
            out.extend(self.sums.iter().map(|&sum| sum as f32 / scale));
        }
        Ok(if out.len() == before {
            Step::End
        } else {
            Step::Samples
        })
    }

    /// Adds every channel of the block in `buffer` to `sums`; `None` if its state cannot be.
    fn decode(&mut self, frames: usize) -> Option<()> {
        match self.blocks.form {
            Form::Apple => self.decode_apple(),
            Form::Ima => self.decode_ima(),
            Form::Microsoft => self.decode_microsoft(frames),
        }
    }

    fn decode_apple(&mut self) -> Option<()> {
        let packets = self.buffer.as_chunks::<APPLE_BYTES>().0;
        for (packet, state) in packets.iter().zip(&mut self.states) {
            let head = i16::from_be_bytes([packet[0], packet[1]]);
            let (sample, index) = (i32::from(head & -128), i32::from(head & 127));
            if index > 88 {
                return None;
            }
            // The head has the upper nine bits only: what the packet before led to is finer, if it agrees.
            if state.index != index || (state.sample - sample).abs() > 127 {
                (state.sample, state.index) = (sample, index);
            }
            let samples = packet[2..].iter().flat_map(|&b| [b & 15, b >> 4]);
            for (sum, nibble) in self.sums.iter_mut().zip(samples) {
                *sum += state.apple(nibble);
            }
        }
        Some(())
    }

    fn decode_ima(&mut self) -> Option<()> {
        let n = self.blocks.channels;
        let (heads, body) = self.buffer.split_at_checked(4 * n)?;
        for (channel, head) in heads.as_chunks::<4>().0.iter().enumerate() {
            let state = &mut self.states[channel];
            state.sample = i32::from(i16::from_le_bytes([head[0], head[1]]));
            state.index = i32::from(head[2]);
            if state.index > 88 {
                return None;
            }
            let (first, rest) = self.sums.split_first_mut()?;
            *first += state.sample;
            for (sums, groups) in rest.chunks_mut(8).zip(body.chunks(4 * n)) {
                let own = groups.get(4 * channel..).unwrap_or_default();
                for (pair, &byte) in sums.chunks_mut(2).zip(own) {
                    pair[0] += state.ima(byte & 15);
                    if let Some(second) = pair.get_mut(1) {
                        *second += state.ima(byte >> 4);
                    }
                }
            }
        }
        Some(())
    }

    fn decode_microsoft(&mut self, frames: usize) -> Option<()> {
        let n = self.blocks.channels;
        let (heads, body) = self.buffer.split_at_checked(7 * n)?;
        let (predictors, words) = heads.split_at(n);
        let words = words.as_chunks::<2>().0;
        let word = |kind: usize, channel: usize| i32::from(i16::from_le_bytes(words[kind * n + channel]));
        for (channel, &predictor) in predictors.iter().enumerate() {
            self.states[channel] = State {
                coefficients: *COEFFICIENTS.get(usize::from(predictor))?,
                step: word(0, channel),
                sample: word(1, channel),
                before: word(2, channel),
                index: 0,
            };
            self.sums[0] += word(2, channel);
            if frames > 1 {
                self.sums[1] += word(1, channel);
            }
        }
        let rest = self.sums.get_mut(2..).unwrap_or_default();
        match self.states.as_mut_slice() {
            [only] => {
                for (pair, &byte) in rest.chunks_mut(2).zip(body) {
                    pair[0] += only.microsoft(byte >> 4);
                    if let Some(second) = pair.get_mut(1) {
                        *second += only.microsoft(byte & 15);
                    }
                }
            }
            [left, right] => {
                for (sum, &byte) in rest.iter_mut().zip(body) {
                    *sum += left.microsoft(byte >> 4) + right.microsoft(byte & 15);
                }
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn decoded(form: Form, channels: usize, size: usize, bytes: &[u8]) -> Vec<f32> {
        let blocks = Blocks::new(form, channels, size, 0).unwrap();
        let mut adpcm = Adpcm::new(Box::new(Cursor::new(bytes.to_vec())), blocks, None, None);
        let mut out = Vec::new();
        while matches!(adpcm.next(&mut out).unwrap(), Step::Samples) {}
        assert_eq!(out.len() as u64, blocks.frames_of(bytes.len() as u64));
        out.iter().map(|s| s * 32768.0).collect()
    }

    /// By hand: step 7 at first; nibble 4 adds 7 + 7/8 and goes up two steps to 9, nibble 12 takes 9 + 9/8 away.
    #[test]
    fn ima_by_hand() {
        let block = [100, 0, 0, 0, 0xc4, 0, 0, 0];
        assert_eq!(decoded(Form::Ima, 1, 8, &block)[..3], [100.0, 107.0, 97.0]);
        // The same in both of two channels, and a second block that ends after its head.
        let both = [100, 0, 0, 0, 100, 0, 0, 0, 0xc4, 0, 0, 0, 0xc4, 0, 0, 0];
        let found = decoded(Form::Ima, 2, 16, &[&both[..], &both[..8]].concat());
        assert_eq!(
            (found.len(), &found[..3], found[9]),
            (10, &[100.0, 107.0, 97.0][..], 100.0)
        );
    }

    #[test]
    fn apple_by_hand() {
        let mut packet = [0; 34];
        // 128 and index 0.
        packet[2] = 0xc4;
        packet[..2].copy_from_slice(&128_i16.to_be_bytes());
        let found = decoded(Form::Apple, 1, 0, &packet);
        assert_eq!((found.len(), &found[..2]), (64, &[135.0, 125.0][..]));
        assert_eq!(decoded(Form::Apple, 2, 0, &[packet, packet].concat()), found);
        // A quarter of the step of 7 and an eighth, rounded each by itself and both at once.
        packet[2] = 1;
        assert_eq!(decoded(Form::Apple, 1, 0, &packet)[..1], [129.0]);
        let quiet = [128, 0, 0, 0, 1, 0, 0, 0];
        assert_eq!(decoded(Form::Ima, 1, 8, &quiet)[1..2], [130.0]);
    }

    /// Step 16, samples 10 and 20; the first coefficients repeat the sample, the nibble -1 takes one step away.
    #[test]
    fn microsoft_by_hand() {
        let block = [0, 16, 0, 20, 0, 10, 0, 0x1f];
        assert_eq!(decoded(Form::Microsoft, 1, 8, &block), [10.0, 20.0, 36.0, 20.0]);
    }

    #[test]
    fn blocks_that_cannot_be() {
        assert!(Blocks::new(Form::Ima, 2, 7, 0).is_err());
        assert!(Blocks::new(Form::Microsoft, 3, 4000, 0).is_err());
        assert!(Blocks::new(Form::Microsoft, 1, 0, 0).is_err());
        assert!(Blocks::new(Form::Apple, 0, 0, 0).is_err());
        let wild = Blocks::new(Form::Microsoft, 2, 40, 0).unwrap();
        let mut adpcm = Adpcm::new(Box::new(Cursor::new(vec![0x7f; 400])), wild, None, None);
        assert!(matches!(adpcm.next(&mut Vec::new()).unwrap(), Step::Skipped(_)));
    }
}
