//! Opus packets to samples.
//!
//! In: the identification header (RFC 7845, section 5.1, or made of the `dOps` box of MP4) and packets. Out: interleaved
//! 16-bit samples at 48 kHz, mixed to one channel. The output gain of the header is applied here and not in the
//! decoder, which would clip. Channel mapping families 0, 1 and 255 are known; the ambisonic families 2 and 3 are
//! refused, because the mean of their channels is not a downmix.

use ropus::OpusMSDecoder;

/// Opus always decodes to this rate here, whatever the encoder was fed.
pub(crate) const RATE: u32 = 48_000;

/// The longest packet: 120 ms.
const MAX_FRAMES: usize = 5760;

/// What the identification header says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Head {
    pub channels: usize,
    pub pre_skip: u64,
    /// The factor of the output gain.
    gain: f32,
    streams: u8,
    coupled: u8,
    mapping: Vec<u8>,
}

impl Head {
    /// The lowest byte comes first, in files of version 0 too: some old Ogg and WebM files have it.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let short = || "the Opus header is too short".to_owned();
        let body = bytes
            .strip_prefix(b"OpusHead")
            .ok_or("the Opus header is missing")?;
        let (fixed, rest) = body.split_first_chunk::<11>().ok_or_else(short)?;
        let [version, channels, skip0, skip1, _, _, _, _, gain0, gain1, family] = *fixed;
        let pre_skip = u64::from(u16::from_le_bytes([skip0, skip1]));
        let decibels = f32::from(i16::from_le_bytes([gain0, gain1])) / 256.0;
        if version > 15 {
            return Err(format!("version {version} of the Opus header"));
        }
        let (streams, coupled, mapping) = match (family, channels) {
            (0, 1 | 2) => (1, channels - 1, vec![0, 1]),
            (1, 1..=8) | (255, 1..) => {
                let (&[streams, coupled], rest) = rest.split_first_chunk::<2>().ok_or_else(short)?;
                (
                    streams,
                    coupled,
                    rest.get(..usize::from(channels)).ok_or_else(short)?.to_vec(),
                )
            }
            _ => return Err(format!("{channels} channels in the mapping family {family}")),
        };
        let gain = 10_f32.powf(decibels / 20.0);
        Ok(Self {
            channels: usize::from(channels),
            pre_skip,
            gain,
            streams,
            coupled,
            mapping,
        })
    }
}

/// The header that a `dOps` box of MP4 stands for. The box has the highest byte of numbers first.
pub(crate) fn head_of_mp4(dops: &[u8]) -> Vec<u8> {
    let mut head = [b"OpusHead", dops].concat();
    let numbers = [(8 + 2, 2), (8 + 4, 4), (8 + 8, 2)];
    for (at, size) in numbers {
        if let Some(number) = head.get_mut(at..at + size) {
            number.reverse();
        }
    }
    head
}

/// The decoder of one stream.
pub(crate) struct Opus {
    head: Head,
    decoder: OpusMSDecoder,
    buffer: Vec<i16>,
}

impl Opus {
    pub(crate) fn new(head: Head) -> Result<Self, String> {
        let (streams, coupled) = (i32::from(head.streams), i32::from(head.coupled));
        let decoder = OpusMSDecoder::new(RATE as i32, head.channels as i32, streams, coupled, &head.mapping)
            .map_err(|_| {
                format!(
                    "{streams} streams, {coupled} of them coupled, for {} channels",
                    head.channels
                )
            })?;
        let buffer = vec![0; MAX_FRAMES * head.channels];
        Ok(Self {
            head,
            decoder,
            buffer,
        })
    }

    pub(crate) fn channels(&self) -> usize {
        self.head.channels
    }

    pub(crate) fn pre_skip(&self) -> u64 {
        self.head.pre_skip
    }

    /// Appends the packet's samples, the mean of all channels. An error leaves `out` as it was.
    pub(crate) fn decode(&mut self, packet: &[u8], out: &mut Vec<f32>) -> Result<(), String> {
        let length = i32::try_from(packet.len()).map_err(|_| "an Opus packet is too long".to_owned())?;
        if packet.is_empty() {
            return Err("an Opus packet is empty".to_owned());
        }
        let frames = self
            .decoder
            .decode(Some(packet), length, &mut self.buffer, MAX_FRAMES as i32, false)
            .map_err(|code| format!("an Opus packet cannot be decoded (code {code})"))?;
        let channels = self.head.channels;
        let scale = self.head.gain / (channels as f32 * 32768.0);
        let samples = self
            .buffer
            .get(..frames.max(0) as usize * channels)
            .unwrap_or_default();
        for frame in samples.chunks_exact(channels) {
            // The sum of 255 values of 16 bits is exact in 32 bits.
            out.push(frame.iter().map(|&s| i32::from(s)).sum::<i32>() as f32 * scale);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(version: u8, channels: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let mut bytes = b"OpusHead".to_vec();
        bytes.extend([
            version, channels, 0x38, 0x01, 0x80, 0xbb, 0, 0, 0x00, 0xfa, family,
        ]);
        bytes.extend(rest);
        bytes
    }

    #[test]
    fn the_header_in_both_byte_orders() {
        let ogg = Head::parse(&head(1, 2, 0, &[])).unwrap();
        assert_eq!((ogg.channels, ogg.pre_skip, ogg.coupled), (2, 0x138, 1));
        // 0xfa00 is -1536, that is -6 dB.
        assert!((ogg.gain - 0.501_187).abs() < 1e-6, "{}", ogg.gain);
        // Some old files have the version 0 and the same order.
        let old = Head::parse(&head(0, 1, 0, &[])).unwrap();
        assert_eq!((old.channels, old.pre_skip, old.coupled), (1, 0x138, 0));
        let mp4 = Head::parse(&head_of_mp4(&head(0, 1, 0, &[])[8..])).unwrap();
        assert_eq!((mp4.channels, mp4.pre_skip), (1, 0x3801));
        assert!(Head::parse(&head_of_mp4(&[0, 2, 1])).is_err());
    }

    #[test]
    fn families_and_short_headers() {
        let surround = Head::parse(&head(1, 6, 1, &[4, 2, 0, 4, 1, 2, 3, 5])).unwrap();
        assert_eq!((surround.streams, surround.mapping.len()), (4, 6));
        assert!(Opus::new(surround).is_ok());
        assert!(Head::parse(&head(1, 6, 1, &[4, 2, 0, 4, 1])).is_err());
        assert!(Head::parse(&head(1, 3, 0, &[])).is_err());
        assert!(Head::parse(&head(1, 4, 2, &[4, 0, 0, 1, 2, 3])).is_err());
        assert!(Head::parse(&head(1, 0, 255, &[])).is_err());
        for length in 0..18 {
            assert!(Head::parse(&head(1, 1, 0, &[])[..length]).is_err());
        }
        let wild = Head::parse(&head(1, 2, 1, &[1, 200, 0, 1])).unwrap();
        assert!(Opus::new(wild).is_err());
        let wild = Head::parse(&head(1, 2, 1, &[1, 0, 7, 9])).unwrap();
        assert!(Opus::new(wild).is_err());
    }
}
