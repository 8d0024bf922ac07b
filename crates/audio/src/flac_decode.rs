//! FLAC frames to samples.
//!
//! In: one frame. Out: its samples, mixed to one channel, and the checksum of all of them. Frames follow RFC 9639, sections 9.2 and 9.3.
//!
//! Written here because symphonia's decoder has no room for samples of more than 24 bits and takes twice the time. Here residuals are
//! decoded and added to their predictions in one loop: each is a chain of results that wait for one another, and the processor
//! works on both chains at the same time. Samples are 32-bit integers up to a width of 24 bits, 64-bit ones above: the difference of two channels of 32 bits has 33.
//! Sums have 64 bits and wrap around, which only damaged frames make them do.

// The loops must be inlined into the function that is compiled for the processor's bit instructions.
#![allow(clippy::inline_always)]

use md5::{Digest as _, Md5};

use crate::flac_frame::Header;
use crate::kernels::{self, Vector, Work};

/// The widest samples whose differences have room in 32 bits, and to spare.
const WIDEST_OF_32_BITS: u32 = 24;

/// Zeros before the first sample of a plane, so that a predictor need not count how many samples there are.
const BEFORE: usize = 32;

/// The decoder of one stream.
pub(crate) struct FlacDecoder {
    rate: u32,
    channels: usize,
    bits: u32,
    expected: Option<[u8; 16]>,
    sum: Md5,
    planes: Planes,
    /// The samples of a frame as the checksum counts them.
    bytes: Vec<u8>,
}

/// The samples of a frame's channels; kept for the next frame.
enum Planes {
    Narrow(Vec<Vec<i32>>),
    Wide(Vec<Vec<i64>>),
}

impl FlacDecoder {
    /// For a stream of this shape. `md5` is that of STREAMINFO: zeros stand for none.
    pub(crate) fn new(rate: u32, channels: usize, bits: u32, md5: [u8; 16]) -> Self {
        Self {
            rate,
            channels,
            bits,
            expected: (md5 != [0; 16]).then_some(md5),
            sum: Md5::new(),
            planes: if bits <= WIDEST_OF_32_BITS {
                Planes::Narrow(Vec::new())
            } else {
                Planes::Wide(Vec::new())
            },
            bytes: Vec::new(),
        }
    }

    pub(crate) fn rate(&self) -> u32 {
        self.rate
    }

    pub(crate) fn channels(&self) -> usize {
        self.channels
    }

    /// Whether all samples so far are those that the file was made of; `None` if it does not tell.
    pub(crate) fn is_right(&self) -> Option<bool> {
        Some(<[u8; 16]>::from(self.sum.clone().finalize()) == self.expected?)
    }

    /// Appends the mean of all channels.
    pub(crate) fn decode(&mut self, frame: &[u8], out: &mut Vec<f32>) -> Result<(), String> {
        let header = Header::parse(frame).ok_or("a FLAC frame has no header")?;
        let bits = header.bits.unwrap_or(self.bits);
        if (bits <= WIDEST_OF_32_BITS) != matches!(self.planes, Planes::Narrow(_)) {
            return Err("a FLAC frame has another width than the stream".to_owned());
        }
        let bytes = self.expected.is_some().then_some(&mut self.bytes);
        let decoded = match &mut self.planes {
            Planes::Narrow(planes) => decode(frame, &header, bits, planes, bytes, out),
            Planes::Wide(planes) => decode(frame, &header, bits, planes, bytes, out),
        };
        decoded.ok_or("a FLAC frame cannot be decoded")?;
        if self.expected.is_some() {
            self.sum.update(&self.bytes);
        }
        Ok(())
    }
}

/// An integer with room for a sample.
trait Sample: Copy {
    /// Without the bits that there is no room for.
    fn of(wide: i64) -> Self;
    fn wide(self) -> i64;
    fn float(self) -> f64;
}

impl Sample for i32 {
    #[inline(always)]
    fn of(wide: i64) -> Self {
        wide as Self
    }
    #[inline(always)]
    fn wide(self) -> i64 {
        i64::from(self)
    }
    #[inline(always)]
    fn float(self) -> f64 {
        f64::from(self)
    }
}

impl Sample for i64 {
    #[inline(always)]
    fn of(wide: i64) -> Self {
        wide
    }
    #[inline(always)]
    fn wide(self) -> i64 {
        self
    }
    #[inline(always)]
    fn float(self) -> f64 {
        self as f64
    }
}

/// Decodes a frame: the mean of its channels to `out`, its samples to `bytes` if there are any.
fn decode<S: Sample>(
    frame: &[u8],
    header: &Header,
    bits: u32,
    planes: &mut Vec<Vec<S>>,
    bytes: Option<&mut Vec<u8>>,
    out: &mut Vec<f32>,
) -> Option<()> {
    let (count, block) = (header.channels as usize, header.block as usize);
    planes.resize_with(count, Vec::new);
    for plane in &mut *planes {
        // The zeros before the samples stay from the first time on; samples are all written anew.
        plane.resize(BEFORE + block, S::of(0));
    }
    kernels::run_bits(Subframes {
        frame,
        header,
        bits,
        planes,
    })?;
    let kind = frame[3] >> 4;
    if let [first, second] = planes.as_mut_slice() {
        join(kind, &mut first[BEFORE..], &mut second[BEFORE..]);
    }
    if let Some(bytes) = bytes {
        bytes.clear();
        match bits.div_ceil(8) {
            1 => interleave::<S, 1>(planes, bytes),
            2 => interleave::<S, 2>(planes, bytes),
            3 => interleave::<S, 3>(planes, bytes),
            _ => interleave::<S, 4>(planes, bytes),
        }
    }
    // A power of two: the product is exact.
    let scale = 1.0 / (1_u64 << (bits - 1)) as f64;
    match planes.as_slice() {
        [only] => out.extend(only[BEFORE..].iter().map(|s| (s.float() * scale) as f32)),
        [left, right] => {
            let pairs = left[BEFORE..].iter().zip(&right[BEFORE..]);
            out.extend(pairs.map(|(l, r)| ((l.float() + r.float()) * (0.5 * scale)) as f32));
        }
        planes => out.extend((BEFORE..BEFORE + block).map(|i| {
            let sum: f64 = planes.iter().map(|plane| plane[i].float() * scale).sum();
            (sum / count as f64) as f32
        })),
    }
    Some(())
}

/// Left and right of two channels that were coded as left and side, side and right, or middle and side.
fn join<S: Sample>(kind: u8, first: &mut [S], second: &mut [S]) {
    for (a, b) in first.iter_mut().zip(second) {
        let (x, y) = (a.wide(), b.wide());
        match kind {
            8 => *b = S::of(x.wrapping_sub(y)),
            9 => *a = S::of(x.wrapping_add(y)),
            10 => {
                let middle = x << 1 | y & 1;
                *a = S::of(middle.wrapping_add(y) >> 1);
                *b = S::of(middle.wrapping_sub(y) >> 1);
            }
            _ => return,
        }
    }
}

/// Little-endian numbers of `N` bytes, channel after channel of each sample.
fn interleave<S: Sample, const N: usize>(planes: &[Vec<S>], bytes: &mut Vec<u8>) {
    let low = |sample: &S| -> [u8; N] {
        let all = sample.wide().to_le_bytes();
        std::array::from_fn(|i| all[i])
    };
    let block = planes.first().map_or(0, |plane| plane.len() - BEFORE);
    bytes.resize(block * planes.len() * N, 0);
    let places = bytes.as_chunks_mut::<N>().0;
    // One channel and two are done by loops over neighbours.
    match planes {
        [only] => {
            for (place, sample) in places.iter_mut().zip(&only[BEFORE..]) {
                *place = low(sample);
            }
        }
        [left, right] => {
            let pairs = left[BEFORE..].iter().zip(&right[BEFORE..]);
            for (places, (l, r)) in places.as_chunks_mut::<2>().0.iter_mut().zip(pairs) {
                *places = [low(l), low(r)];
            }
        }
        planes => {
            for (nth, plane) in planes.iter().enumerate() {
                let places = places.iter_mut().skip(nth).step_by(planes.len());
                for (place, sample) in places.zip(&plane[BEFORE..]) {
                    *place = low(sample);
                }
            }
        }
    }
}

/// The channels of a frame as they are coded.
struct Subframes<'a, S> {
    frame: &'a [u8],
    header: &'a Header,
    bits: u32,
    planes: &'a mut [Vec<S>],
}

impl<S: Sample> Work for Subframes<'_, S> {
    type Output = Option<()>;

    #[inline(always)]
    fn run<V: Vector>(self) -> Option<()> {
        let mut reader = Bits::new(self.frame.get(self.header.length..)?);
        let kind = self.frame[3] >> 4;
        for (channel, plane) in self.planes.iter_mut().enumerate() {
            let is_side = matches!((kind, channel), (8 | 10, 1) | (9, 0));
            subframe(&mut reader, self.bits + u32::from(is_side), plane)?;
        }
        Some(())
    }
}

/// `plane` has its samples after [`BEFORE`] zeros.
#[inline(always)]
fn subframe<S: Sample>(reader: &mut Bits<'_>, bits: u32, plane: &mut [S]) -> Option<()> {
    let kind = reader.take(8)?;
    let wasted = if kind & 1 == 1 {
        reader.zeros()?.checked_add(1)?
    } else {
        0
    };
    let bits = bits.checked_sub(wasted).filter(|&bits| bits > 0)?;
    match kind >> 1 {
        0 => plane[BEFORE..].fill(S::of(reader.signed(bits)?)),
        1 => {
            for sample in &mut plane[BEFORE..] {
                *sample = S::of(reader.signed(bits)?);
            }
        }
        kind @ 8..=12 => {
            let order = kind as usize - 8;
            warm_up(reader, bits, order, plane)?;
            match order {
                0 => residuals(reader, &[], 0, order, plane)?,
                1 => residuals(reader, &[1], 0, order, plane)?,
                2 => residuals(reader, &[2, -1], 0, order, plane)?,
                3 => residuals(reader, &[3, -3, 1], 0, order, plane)?,
                _ => residuals(reader, &[4, -6, 4, -1], 0, order, plane)?,
            }
        }
        kind @ 32..=63 => {
            let order = kind as usize - 31;
            warm_up(reader, bits, order, plane)?;
            let precision = reader.take(4)? as u32 + 1;
            let shift = reader.signed(5)?;
            if precision > 15 || shift < 0 {
                return None;
            }
            let mut coefficients = [0; BEFORE];
            for coefficient in &mut coefficients[..order] {
                *coefficient = reader.signed(precision)?;
            }
            predict(reader, &coefficients, shift as u32, order, plane)?;
        }
        _ => return None,
    }
    if wasted > 0 {
        for sample in &mut plane[BEFORE..] {
            *sample = S::of(sample.wide() << wasted);
        }
    }
    Some(())
}

#[inline(always)]
fn warm_up<S: Sample>(reader: &mut Bits<'_>, bits: u32, order: usize, plane: &mut [S]) -> Option<()> {
    for sample in plane[BEFORE..].get_mut(..order)? {
        *sample = S::of(reader.signed(bits)?);
    }
    Some(())
}

/// As [`residuals`], with a loop for the orders that encoders use: up to 8 by default, 12 at most in ordinary files.
#[inline(always)]
fn predict<S: Sample>(
    reader: &mut Bits<'_>,
    coefficients: &[i64; BEFORE],
    shift: u32,
    order: usize,
    plane: &mut [S],
) -> Option<()> {
    macro_rules! by_order {
        ($($count:literal)*) => {
            $(if order <= $count {
                let first: &[i64; $count] = coefficients.first_chunk()?;
                return residuals(reader, first, shift, order, plane);
            })*
        };
    }
    by_order!(2 4 6 8 10 12);
    residuals(reader, coefficients, shift, order, plane)
}

/// Residuals in partitions, each added to what the samples before it predict. The first coefficient belongs to the sample just
/// before; those after the `order`th are zero.
#[inline(always)]
fn residuals<S: Sample, const N: usize>(
    reader: &mut Bits<'_>,
    coefficients: &[i64; N],
    shift: u32,
    order: usize,
    plane: &mut [S],
) -> Option<()> {
    let block = plane.len() - BEFORE;
    let wide = match reader.take(2)? {
        0 => 4,
        1 => 5,
        _ => return None,
    };
    let partitions = 1_usize << reader.take(4)?;
    let partition = block / partitions;
    if partition * partitions != block || partition < order {
        return None;
    }
    let mut from = BEFORE + order;
    let mut predictor = Predictor::new(coefficients, shift, plane, from);
    for end in (1..=partitions).map(|n| BEFORE + n * partition) {
        let parameter = reader.take(wide)? as u32;
        if parameter == (1 << wide) - 1 {
            let raw = reader.take(5)? as u32;
            for at in from..end {
                predictor.add(plane, at, reader.signed(raw)?);
            }
        } else {
            // Kept apart from `reader`, whose address is known elsewhere, these stay in registers.
            let mut bits = *reader;
            let mut at = from;
            // A code waits for the bits that were filled in, so bits are filled in for some codes together: for three, which
            // have room for 18 bits each.
            while at + 3 <= end {
                bits.fill();
                for at in at..at + 3 {
                    predictor.add(plane, at, bits.rice(parameter)?);
                }
                at += 3;
            }
            for at in at..end {
                predictor.add(plane, at, bits.rice(parameter)?);
            }
            *reader = bits;
        }
        from = end;
    }
    Some(())
}

/// Adds predictions to residuals, one after the other.
///
/// A sample waits for the one before it. To make that short, all products with earlier samples are summed one step ahead, and
/// the last sample is not read from where it was just written.
struct Predictor<'a, const N: usize> {
    coefficients: &'a [i64; N],
    shift: u32,
    /// The products with all samples but the last one.
    sum: i64,
    last: i64,
}

impl<'a, const N: usize> Predictor<'a, N> {
    /// For the sample at `at` of a plane and those after it.
    #[inline(always)]
    fn new<S: Sample>(coefficients: &'a [i64; N], shift: u32, plane: &[S], at: usize) -> Self {
        Self {
            coefficients,
            shift,
            sum: earlier(coefficients, plane, at),
            last: plane[at - 1].wide(),
        }
    }

    /// Writes the sample at `at`, which must follow the one before.
    #[inline(always)]
    fn add<S: Sample>(&mut self, plane: &mut [S], at: usize, residual: i64) {
        let next = earlier(self.coefficients, plane, at + 1);
        let nearest = self
            .coefficients
            .first()
            .map_or(0, |first| first.wrapping_mul(self.last));
        let predicted = self.sum.wrapping_add(nearest) >> self.shift;
        let sample = S::of(residual.wrapping_add(predicted));
        plane[at] = sample;
        (self.sum, self.last) = (next, sample.wide());
    }
}

/// What all samples but the last one contribute to the prediction of that at `at`.
#[inline(always)]
fn earlier<S: Sample, const N: usize>(coefficients: &[i64; N], plane: &[S], at: usize) -> i64 {
    let before = &plane[at - N.max(1)..at - 1];
    let mut sum = 0_i64;
    for i in 1..N {
        sum = sum.wrapping_add(coefficients[i].wrapping_mul(before[N - 1 - i].wide()));
    }
    sum
}

/// Bits from the highest of each byte on.
#[derive(Clone, Copy)]
struct Bits<'a> {
    bytes: &'a [u8],
    /// The next bits, from the highest on; those after the `count`th are right or zero.
    held: u64,
    count: u32,
}

impl<'a> Bits<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            held: 0,
            count: 0,
        }
    }

    /// Holds at least 56 bits, or all that are left.
    #[inline(always)]
    fn fill(&mut self) {
        if let Some(next) = self.bytes.first_chunk() {
            // The whole bytes of what fits are taken; the bits beyond them are read again.
            self.held |= u64::from_be_bytes(*next) >> self.count;
            self.bytes = &self.bytes[((63 - self.count) / 8) as usize..];
            // 56 to 63, with the low bits as they were.
            self.count |= 0b11_1000;
        } else {
            *self = self.filled_at_the_end();
        }
    }

    /// As [`Bits::fill`], for the last bytes. It takes and gives values: whoever calls it keeps them in registers.
    #[cold]
    fn filled_at_the_end(mut self) -> Self {
        while self.count <= 56
            && let Some((&next, rest)) = self.bytes.split_first()
        {
            self.held |= u64::from(next) << (56 - self.count);
            self.bytes = rest;
            self.count += 8;
        }
        self
    }

    /// A number of up to 56 bits.
    #[inline(always)]
    fn take(&mut self, count: u32) -> Option<u64> {
        self.fill();
        self.count = self.count.checked_sub(count)?;
        // In two steps, since `count` may be zero.
        let value = self.held >> 1 >> (63 - count);
        self.held <<= count;
        Some(value)
    }

    /// Two's complement.
    #[inline(always)]
    fn signed(&mut self, count: u32) -> Option<i64> {
        if count == 0 {
            return Some(0);
        }
        let value = self.take(count)?;
        Some((value << (64 - count)).cast_signed() >> (64 - count))
    }

    /// How many zeros come before the next one, which is passed over.
    #[inline(always)]
    fn zeros(&mut self) -> Option<u32> {
        let mut before = 0_u32;
        loop {
            self.fill();
            let zeros = self.held.leading_zeros();
            if zeros < self.count {
                self.held = self.held << zeros << 1;
                self.count -= zeros + 1;
                return Some(before + zeros);
            }
            if self.count == 0 {
                return None;
            }
            before = before.checked_add(self.count)?;
            (self.held, self.count) = (0, 0);
        }
    }

    /// A residual as a Rice code: the part above `parameter` bits as zeros before a one, then these bits; even codes are not
    /// negative. Fills bits in only if those that are held are too few.
    #[inline(always)]
    fn rice(&mut self, parameter: u32) -> Option<i64> {
        let zeros = self.held.leading_zeros();
        let code = if let Some(count) = self.count.checked_sub(zeros + 1 + parameter) {
            let rest = self.held << zeros << 1;
            self.held = rest << parameter;
            self.count = count;
            u64::from(zeros) << parameter | rest >> 1 >> (63 - parameter)
        } else {
            let code;
            (code, *self) = self.rice_of_more(parameter)?;
            code
        };
        Some((code >> 1).cast_signed() ^ -(code & 1).cast_signed())
    }

    /// A code that is longer than what is held.
    #[cold]
    fn rice_of_more(mut self, parameter: u32) -> Option<(u64, Self)> {
        let code = u64::from(self.zeros()?) << parameter | self.take(parameter)?;
        Some((code, self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes bits, the highest first.
    #[derive(Default)]
    struct Writer {
        bits: Vec<bool>,
    }

    impl Writer {
        fn put(&mut self, value: u64, count: u32) {
            self.bits.extend((0..count).rev().map(|n| value >> n & 1 == 1));
        }

        fn put_rice(&mut self, residual: i64, parameter: u32) {
            let code = (residual << 1 ^ residual >> 63).cast_unsigned();
            for _ in 0..code >> parameter {
                self.put(0, 1);
            }
            self.put(1, 1);
            self.put(code & ((1 << parameter) - 1), parameter);
        }

        fn bytes(mut self) -> Vec<u8> {
            self.bits.resize(self.bits.len().next_multiple_of(8), false);
            let byte = |bits: &[bool]| bits.iter().fold(0, |byte, &bit| byte << 1 | u8::from(bit));
            self.bits.chunks(8).map(byte).collect()
        }
    }

    fn hash(n: u64) -> u64 {
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    /// Residuals whose codes have one bit to some hundreds.
    fn residuals_of(count: usize, parameter: u32) -> Vec<i64> {
        let most = |n: u64| 1 << (hash(n) % u64::from(parameter + 9));
        (0..count as u64)
            .map(|n| (hash(n + 1000) % most(n)).cast_signed() - (most(n) / 2).cast_signed())
            .collect()
    }

    /// Every length of what is held before a code, and of what is left after it.
    #[test]
    fn codes_and_numbers_are_read_as_they_were_written() {
        for parameter in [0, 1, 4, 13, 14, 30] {
            let residuals = residuals_of(500, parameter);
            let mut writer = Writer::default();
            for (n, &residual) in residuals.iter().enumerate() {
                writer.put_rice(residual, parameter);
                writer.put(hash(n as u64) & 0x1f_ffff, (n % 21) as u32);
            }
            let bytes = writer.bytes();
            let mut bits = Bits::new(&bytes);
            for (n, &residual) in residuals.iter().enumerate() {
                if n % 3 == 0 {
                    bits.fill();
                }
                assert_eq!(bits.rice(parameter), Some(residual), "{n}, parameter {parameter}");
                let count = (n % 21) as u32;
                assert_eq!(bits.take(count), Some(hash(n as u64) & ((1 << count) - 1)), "{n}");
            }
            assert!(bits.take(8).is_none());
        }
        assert_eq!(Bits::new(&[0; 40]).zeros(), None);
        assert_eq!(Bits::new(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10]).zeros(), Some(75));
    }

    /// The samples of a subframe, by the formula of section 9.2.6 of the standard.
    fn naive(warm_up: &[i64], coefficients: &[i64], shift: u32, residuals: &[i64]) -> Vec<i64> {
        let mut samples = warm_up.to_vec();
        for residual in residuals {
            let before = samples.iter().rev();
            let sum: i64 = coefficients.iter().zip(before).map(|(c, s)| c * s).sum();
            samples.push(residual + (sum >> shift));
        }
        samples
    }

    /// All orders, in both widths of integers, in partitions.
    #[test]
    fn samples_follow_the_definition() {
        for order in 1..=32 {
            let (block, partitions, shift, parameter) = (192, 4_usize, 9, 7);
            let signed = |n: u64, bits: u32| (hash(n) >> (64 - bits)).cast_signed() - (1 << (bits - 1));
            let warm_up: Vec<i64> = (0..order).map(|n| signed(n, 16)).collect();
            // Small enough for samples that do not grow.
            let coefficients: Vec<i64> = (0..order)
                .map(|n| signed(77 * n + 5, 9) / order.cast_signed())
                .collect();
            let residuals = residuals_of(block - order as usize, parameter);
            let mut writer = Writer::default();
            writer.put((31 + order) << 1, 8);
            for &sample in &warm_up {
                writer.put(sample.cast_unsigned() & 0xffff, 16);
            }
            writer.put(9, 4);
            writer.put(u64::from(shift), 5);
            for &coefficient in &coefficients {
                writer.put(coefficient.cast_unsigned() & 0x3ff, 10);
            }
            writer.put(0, 2);
            writer.put(2, 4);
            let mut rest = &residuals[..];
            for nth in 0..partitions {
                let count = block / partitions - if nth == 0 { order as usize } else { 0 };
                let (these, after) = rest.split_at(count);
                rest = after;
                // One partition without codes.
                if nth == 2 {
                    writer.put(15, 4);
                    writer.put(20, 5);
                    for r in these {
                        writer.put(r.cast_unsigned() & 0xf_ffff, 20);
                    }
                } else {
                    writer.put(u64::from(parameter), 4);
                    for &r in these {
                        writer.put_rice(r, parameter);
                    }
                }
            }
            let bytes = writer.bytes();
            let expected = naive(&warm_up, &coefficients, shift, &residuals);
            let mut narrow = vec![0_i32; BEFORE + block];
            subframe(&mut Bits::new(&bytes), 16, &mut narrow).unwrap();
            assert!(
                narrow[BEFORE..]
                    .iter()
                    .map(|&s| i64::from(s))
                    .eq(expected.iter().copied()),
                "order {order}"
            );
            let mut wide = vec![0_i64; BEFORE + block];
            subframe(&mut Bits::new(&bytes), 16, &mut wide).unwrap();
            assert_eq!(wide[BEFORE..], expected, "order {order}");
            // Cut anywhere, it is refused.
            for length in (0..bytes.len()).step_by(37) {
                assert_eq!(
                    subframe(&mut Bits::new(&bytes[..length]), 16, &mut wide),
                    None,
                    "{length} bytes"
                );
            }
        }
    }

    #[test]
    fn channels_are_joined_as_they_were_parted() {
        for (left, right) in [(5, -3), (-32_768, 32_767), (0, 1), (-7, -8)] {
            for (kind, first, second) in [
                (1, left, right),
                (8, left, left - right),
                (9, left - right, right),
                (10, (left + right) >> 1, left - right),
            ] {
                let (mut a, mut b) = ([first], [second]);
                join::<i32>(kind, &mut a, &mut b);
                assert_eq!((a, b), ([left], [right]), "kind {kind}");
            }
        }
    }

    #[test]
    fn the_checksum_counts_samples_of_all_channels_in_turn() {
        let plane = |samples: &[i32]| [&[0; BEFORE][..], samples].concat();
        let (one, two, three) = (plane(&[1, -2]), plane(&[0x1234, 5]), plane(&[-1, 6]));
        let mut bytes = Vec::new();
        interleave::<_, 2>(std::slice::from_ref(&one), &mut bytes);
        assert_eq!(bytes, [1, 0, 0xfe, 0xff]);
        bytes.clear();
        interleave::<_, 2>(&[one.clone(), two.clone()], &mut bytes);
        assert_eq!(bytes, [1, 0, 0x34, 0x12, 0xfe, 0xff, 5, 0]);
        bytes.clear();
        interleave::<_, 3>(&[one, two, three], &mut bytes);
        let expected = [
            1, 0, 0, 0x34, 0x12, 0, 255, 255, 255, 254, 255, 255, 5, 0, 0, 6, 0, 0,
        ];
        assert_eq!(bytes, expected);
    }
}
