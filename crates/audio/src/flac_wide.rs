//! FLAC frames of more than 24 bits.
//!
//! In: one frame. Out: its samples, mixed to one channel, and the checksum of all of them. Frames follow RFC 9639, sections 9.2 and 9.3.
//! The difference of two channels of 32 bits has 33, for which symphonia's decoder has no room; here all sums have 64 bits. Samples of
//! this width are rare, so this is written for plainness and not for speed.

use symphonia::core::checksum::Md5;
use symphonia::core::io::Monitor as _;

use crate::flac_frame::Header;

/// The widest samples that symphonia's decoder has room for.
pub(crate) const WIDEST_OF_SYMPHONIA: u32 = 24;

/// No sample is larger: that of a difference of 32 bits, and a bit to spare.
const WIDEST: i64 = 1 << 33;

/// The decoder of one stream.
pub(crate) struct Wide {
    channels: usize,
    bits: u32,
    expected: [u8; 16],
    sum: Md5,
}

impl Wide {
    /// For a STREAMINFO of a stream that is too wide for symphonia.
    pub(crate) fn new(channels: usize, bits: u32, md5: [u8; 16]) -> Self {
        Self {
            channels,
            bits,
            expected: md5,
            sum: Md5::default(),
        }
    }

    pub(crate) fn channels(&self) -> usize {
        self.channels
    }

    /// Whether all samples so far are those that the file was made of; `None` if it does not tell.
    pub(crate) fn is_right(&mut self) -> Option<bool> {
        (self.expected != [0; 16]).then(|| self.sum.md5() == self.expected)
    }

    /// Appends the mean of all channels.
    pub(crate) fn decode(&mut self, frame: &[u8], out: &mut Vec<f32>) -> Result<(), String> {
        let planes = planes(frame, self.bits).ok_or("a FLAC frame cannot be decoded")?;
        let scale = 1.0 / ((1_u64 << (self.bits - 1)) as f64 * planes.len() as f64);
        let frames = planes.first().map_or(0, Vec::len);
        let mut bytes = Vec::with_capacity(frames * planes.len() * 4);
        for i in 0..frames {
            let sum: i64 = planes.iter().map(|plane| plane[i]).sum();
            out.push((sum as f64 * scale) as f32);
            for plane in &planes {
                bytes.extend((plane[i] as i32).to_le_bytes());
            }
        }
        self.sum.process_buf_bytes(&bytes);
        Ok(())
    }
}

/// The samples of every channel.
fn planes(frame: &[u8], stream_bits: u32) -> Option<Vec<Vec<i64>>> {
    let header = Header::parse(frame)?;
    let bits = header.bits.unwrap_or(stream_bits);
    let mut reader = Bits {
        bytes: frame,
        at: header.length * 8,
    };
    let kind = frame[3] >> 4;
    let mut planes = Vec::new();
    for channel in 0..header.channels {
        // Left and side, side and right, middle and side.
        let is_side = matches!((kind, channel), (8 | 10, 1) | (9, 0));
        planes.push(subframe(
            &mut reader,
            bits + u32::from(is_side),
            header.block as usize,
        )?);
    }
    if let [first, second] = planes.as_mut_slice() {
        for (a, b) in first.iter_mut().zip(second) {
            match kind {
                8 => *b = *a - *b,
                9 => *a += *b,
                10 => {
                    let (middle, side) = (*a << 1 | *b & 1, *b);
                    (*a, *b) = ((middle + side) >> 1, (middle - side) >> 1);
                }
                _ => {}
            }
        }
    }
    Some(planes)
}

fn subframe(reader: &mut Bits<'_>, bits: u32, block: usize) -> Option<Vec<i64>> {
    let kind = reader.take(8)?;
    let wasted = if kind & 1 == 1 { reader.zeros()? + 1 } else { 0 };
    let bits = bits.checked_sub(wasted).filter(|&bits| bits > 0)?;
    let mut samples = Vec::with_capacity(block);
    match kind >> 1 {
        0 => samples.resize(block, reader.signed(bits)?),
        1 => {
            for _ in 0..block {
                samples.push(reader.signed(bits)?);
            }
        }
        kind @ 8..=12 => {
            let coefficients: &[i64] =
                [&[][..], &[1], &[2, -1], &[3, -3, 1], &[4, -6, 4, -1]][kind as usize - 8];
            warm_up(reader, bits, coefficients.len(), block, &mut samples)?;
            predict(reader, coefficients, 0, block, &mut samples)?;
        }
        kind @ 32..=63 => {
            let order = kind as usize - 31;
            warm_up(reader, bits, order, block, &mut samples)?;
            let precision = reader.take(4)? as u32 + 1;
            let shift = reader.signed(5)?;
            let coefficients: Option<Vec<i64>> = (0..order).map(|_| reader.signed(precision)).collect();
            if precision > 15 || shift < 0 {
                return None;
            }
            predict(reader, &coefficients?, shift as u32, block, &mut samples)?;
        }
        _ => return None,
    }
    for sample in &mut samples {
        *sample = (*sample << wasted).clamp(-WIDEST, WIDEST);
    }
    Some(samples)
}

fn warm_up(reader: &mut Bits<'_>, bits: u32, order: usize, block: usize, out: &mut Vec<i64>) -> Option<()> {
    if order > block {
        return None;
    }
    for _ in 0..order {
        out.push(reader.signed(bits)?);
    }
    Some(())
}

/// Residuals in partitions, each added to what the samples before it predict.
fn predict(
    reader: &mut Bits<'_>,
    coefficients: &[i64],
    shift: u32,
    block: usize,
    out: &mut Vec<i64>,
) -> Option<()> {
    let wide = match reader.take(2)? {
        0 => 4,
        1 => 5,
        _ => return None,
    };
    let order = reader.take(4)?;
    let partition = block >> order;
    if partition << order != block || partition < coefficients.len() {
        return None;
    }
    for end in (1..=1_usize << order).map(|n| n * partition) {
        let parameter = reader.take(wide)? as u32;
        let escaped = parameter == (1 << wide) - 1;
        let raw = if escaped { reader.take(5)? as u32 } else { 0 };
        while out.len() < end {
            let residual = if escaped {
                reader.signed(raw)?
            } else {
                let code = u64::from(reader.zeros()?) << parameter | reader.take(parameter)?;
                (code >> 1).cast_signed() ^ -(code & 1).cast_signed()
            };
            let before = out.iter().rev();
            let predicted = coefficients.iter().zip(before).fold(0_i64, |sum, (&c, &sample)| {
                sum.wrapping_add(c.wrapping_mul(sample))
            });
            // Samples have 33 bits at most; wider ones are damage, and must only not overflow.
            let sample = residual.wrapping_add(predicted >> shift);
            out.push(sample.clamp(-WIDEST, WIDEST));
        }
    }
    Some(())
}

/// Bits from the highest of each byte on.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn take(&mut self, count: u32) -> Option<u64> {
        let mut value = 0;
        let mut left = count as usize;
        while left > 0 {
            let byte = u64::from(*self.bytes.get(self.at / 8)?);
            let there = 8 - self.at % 8;
            let taken = there.min(left);
            value = value << taken | byte >> (there - taken) & ((1 << taken) - 1);
            self.at += taken;
            left -= taken;
        }
        Some(value)
    }

    /// Two's complement.
    fn signed(&mut self, count: u32) -> Option<i64> {
        if count == 0 {
            return Some(0);
        }
        let value = self.take(count)?;
        Some((value << (64 - count)).cast_signed() >> (64 - count))
    }

    /// How many zeros come before the next one, which is passed over.
    fn zeros(&mut self) -> Option<u32> {
        let mut count = 0;
        while self.take(1)? == 0 {
            count += 1;
        }
        Some(count)
    }
}
