//! The header of a FLAC frame, as RFC 9639 has it.

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Header {
    pub length: usize,
    /// Samples per channel.
    pub block: u32,
    /// `None` where STREAMINFO says it.
    pub rate: Option<u32>,
    pub channels: u32,
    pub bits: Option<u32>,
    pub variable: bool,
    /// The first sample's number if `variable`, the frame's otherwise.
    pub number: u64,
}

impl Header {
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (&[a, b, c, d], rest) = bytes.split_first_chunk::<4>()?;
        if a != 0xff || b & 0xfe != 0xf8 || d & 1 != 0 {
            return None;
        }
        let mut rest = rest;
        let number = coded_number(&mut rest)?;
        let mut take = |count: usize| {
            let (number, after) = rest.split_at_checked(count)?;
            rest = after;
            Some(
                number
                    .iter()
                    .fold(0_u32, |value, &byte| value << 8 | u32::from(byte)),
            )
        };
        let block = match c >> 4 {
            0 => return None,
            1 => 192,
            n @ 2..=5 => 576 << (n - 2),
            6 => take(1)? + 1,
            7 => take(2)? + 1,
            n => 256 << (n - 8),
        };
        let rate = match c & 15 {
            0 => None,
            12 => Some(take(1)? * 1000),
            13 => Some(take(2)?),
            14 => Some(take(2)? * 10),
            15 => return None,
            n => Some(
                [
                    88_200, 176_400, 192_000, 8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000,
                ][usize::from(n) - 1],
            ),
        };
        let channels = match d >> 4 {
            n @ 0..=7 => u32::from(n) + 1,
            8..=10 => 2,
            _ => return None,
        };
        let bits = match d >> 1 & 7 {
            0 => None,
            3 => return None,
            n => Some([8, 12, 0, 16, 20, 24, 32][usize::from(n) - 1]),
        };
        let length = bytes.len() - rest.len();
        if rate == Some(0) || crc8(&bytes[..length]) != *rest.first()? {
            return None;
        }
        Some(Self {
            length: length + 1,
            block,
            rate,
            channels,
            bits,
            variable: b & 1 == 1,
            number,
        })
    }
}

/// A number in UTF-8's way, of up to 36 bits.
fn coded_number(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, mut rest) = bytes.split_first()?;
    let more = match first.leading_ones() {
        0 => 0,
        n @ 2..=7 => n - 1,
        _ => return None,
    };
    let mut number = u64::from(first) & (0x7f >> more);
    for _ in 0..more {
        let (&byte, after) = rest.split_first()?;
        if byte & 0xc0 != 0x80 {
            return None;
        }
        number = number << 6 | u64::from(byte & 0x3f);
        rest = after;
    }
    *bytes = rest;
    Some(number)
}

fn crc8(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, &byte| {
        (0..8).fold(sum ^ byte, |sum, _| {
            sum << 1 ^ if sum >> 7 == 1 { 0x07 } else { 0 }
        })
    })
}
