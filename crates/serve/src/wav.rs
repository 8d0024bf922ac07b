//! A recording as 16-bit mono WAV at the file's own sample rate, from any byte on.
//!
//! The number of samples is declared in advance from the library's record and kept: if the decoder gives fewer, silence follows; if
//! it gives more, the rest is cut. A range in the middle is reached by decoding from the beginning.

use std::io;

use hark_audio::Decoder;

use crate::stream_body::ChunkSource;

/// Bytes before the first sample.
pub(crate) const HEADER: u64 = 44;

/// Samples that are decoded in one go on the way to the first one that is wanted: some tens of milliseconds of work.
const STRIDE: u64 = 4 << 20;

/// The bytes of a WAV file with this many samples.
pub(crate) fn length(samples: u64) -> u64 {
    HEADER + 2 * samples
}

/// The header. Sizes that do not fit into 32 bits are written as the largest number, which players take for "to the end".
pub(crate) fn header(rate: u32, samples: u64) -> Vec<u8> {
    let size = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes();
    let mut bytes = Vec::with_capacity(HEADER as usize);
    bytes.extend_from_slice(b"RIFF");
    bytes.extend_from_slice(&size(HEADER - 8 + 2 * samples));
    bytes.extend_from_slice(b"WAVEfmt ");
    bytes.extend_from_slice(&16_u32.to_le_bytes());
    // PCM, one channel.
    bytes.extend_from_slice(&[1, 0, 1, 0]);
    bytes.extend_from_slice(&rate.to_le_bytes());
    bytes.extend_from_slice(&rate.saturating_mul(2).to_le_bytes());
    // Two bytes a frame, 16 bits a sample.
    bytes.extend_from_slice(&[2, 0, 16, 0]);
    bytes.extend_from_slice(b"data");
    bytes.extend_from_slice(&size(2 * samples));
    bytes
}

/// Gives the bytes of the WAV file from a place on, without end: whoever asks knows how many there are.
pub(crate) struct Wav {
    decoder: Decoder,
    /// Bytes that are made and not yet given.
    ready: Vec<u8>,
    /// Bytes to leave out before the first one that is given.
    skip: u64,
    ended: bool,
}

impl Wav {
    pub(crate) fn new(decoder: Decoder, samples: u64, skip: u64) -> Self {
        let ready = header(decoder.info().rate, samples);
        Self {
            decoder,
            ready,
            skip,
            ended: false,
        }
    }

    /// Decodes until there is something to give, or for a stride.
    fn fill(&mut self, most: usize) {
        let stop = self.decoder.samples_so_far() + STRIDE;
        while !self.ended && self.ready.len() < most && self.decoder.samples_so_far() < stop {
            match self.decoder.next_block() {
                Ok(Some(samples)) => {
                    let bytes = 2 * samples.len() as u64;
                    if self.ready.is_empty() && self.skip >= bytes {
                        self.skip -= bytes;
                    } else {
                        self.ready
                            .extend(samples.iter().flat_map(|s| sixteen(*s).to_le_bytes()));
                        self.drop_skipped();
                    }
                }
                // What cannot be decoded is silence: the length has been promised.
                Ok(None) | Err(_) => self.ended = true,
            }
        }
    }

    fn drop_skipped(&mut self) {
        let gone = self.skip.min(self.ready.len() as u64);
        self.ready.drain(..gone as usize);
        self.skip -= gone;
    }
}

impl ChunkSource for Wav {
    fn next(&mut self, most: usize) -> io::Result<Vec<u8>> {
        self.drop_skipped();
        self.fill(most);
        if self.ended && self.ready.len() < most {
            self.skip = 0;
            self.ready.resize(most, 0);
        }
        let rest = self.ready.split_off(self.ready.len().min(most));
        Ok(std::mem::replace(&mut self.ready, rest))
    }
}

/// A sample of 16 bits. A file of 16 bits gives its own numbers again.
fn sixteen(sample: f32) -> i16 {
    (sample * 32768.0).round().clamp(-32768.0, 32767.0) as i16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;
    use std::path::Path;

    fn whole(samples: &[i16]) -> Vec<u8> {
        let mut bytes = header(8000, samples.len() as u64);
        bytes.extend(samples.iter().flat_map(|s| s.to_le_bytes()));
        bytes
    }

    fn from(bytes: &[u8], samples: u64, skip: u64, piece: usize) -> Vec<u8> {
        let decoder = Decoder::from_source(Box::new(Cursor::new(bytes.to_vec())), Path::new("x")).unwrap();
        let mut wav = Wav::new(decoder, samples, skip);
        let wanted = (length(samples) - skip) as usize;
        let mut all = Vec::new();
        while all.len() < wanted {
            all.extend(wav.next(piece.min(wanted - all.len())).unwrap());
        }
        all
    }

    proptest! {
        /// A WAV file of the same kind comes out as it went in, from any byte on and in pieces of any size.
        #[test]
        fn the_same_bytes(
            samples in prop::collection::vec(any::<i16>(), 1..3000),
            skip in 0.0..1.0_f64,
            piece in 1_usize..5000,
        ) {
            let bytes = whole(&samples);
            let skip = (skip * bytes.len() as f64) as usize;
            let got = from(&bytes, samples.len() as u64, skip as u64, piece);
            prop_assert_eq!(&got, &bytes[skip..]);
        }
    }

    #[test]
    fn more_and_less_than_promised() {
        let bytes = whole(&[1, 2, 3]);
        assert_eq!(from(&bytes, 5, 44, 100), [1, 0, 2, 0, 3, 0, 0, 0, 0, 0]);
        assert_eq!(from(&bytes, 2, 44, 100), [1, 0, 2, 0]);
        assert_eq!(from(&bytes, 5, 52, 1), [0, 0]);
    }

    #[test]
    fn samples_keep_their_numbers() {
        for number in [i16::MIN, -1, 0, 1, 12345, i16::MAX] {
            assert_eq!(sixteen(f32::from(number) / 32768.0), number);
        }
        assert_eq!((sixteen(1.0), sixteen(-1.5)), (i16::MAX, i16::MIN));
    }

    #[test]
    fn a_header_for_more_than_fits() {
        let header = header(48000, u64::from(u32::MAX));
        assert_eq!(header.len() as u64, HEADER);
        assert_eq!(header[4..8], [0xff; 4]);
        assert_eq!(header[40..44], [0xff; 4]);
    }
}
