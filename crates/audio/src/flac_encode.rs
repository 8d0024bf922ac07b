//! 16-bit mono samples in, a FLAC stream (RFC 9639) out.
//!
//! Blocks of 4096 samples, the last one shorter. Each is stored as a constant where all samples are equal, else with
//! the fixed predictor of order 0 to 4 that leaves the smallest residual, coded by Rice with up to 2^8 partitions, and
//! verbatim where that is shorter. The checksum of the whole is left at 0, which the standard gives the meaning
//! "unknown"; each frame carries its own two. There is no search for linear predictors: on synthetic sound they save
//! a few percent and cost most of an encoder's code.
//!
//! It is written here because symphonia has no encoder, and this much of one suffices.
//!
//! Refused (`None`): rates above 65,535 Hz or of 0, and 2^31 samples or more.

/// Samples of a block.
const BLOCK: usize = 4096;
/// The highest order of the fixed predictors.
const MAX_ORDER: usize = 4;
/// The highest partition order that is tried.
const MAX_PARTITION: u32 = 8;
/// Rice parameters are written in four bits, of which 15 means something else.
const MAX_RICE: u32 = 14;

/// A whole FLAC file of one channel; `None` if it cannot be written: for a rate of 0 or above 65,535 Hz, or 2^31 samples or more.
///
/// ```
/// use hark_audio::{Decoder, encode_flac};
///
/// let file = encode_flac(&[0, 16_384, -16_384], 32_000).expect("a rate that can be written");
/// let mut decoder = Decoder::from_source(Box::new(std::io::Cursor::new(file)), "a sound".as_ref())?;
/// assert_eq!(decoder.next_block()?, Some([0.0, 0.5, -0.5].as_slice()));
/// # Ok::<(), hark_audio::Error>(())
/// ```
pub fn encode_flac(samples: &[i16], rate: u32) -> Option<Vec<u8>> {
    let rate = u16::try_from(rate).ok().filter(|&rate| rate > 0)?;
    let total = u64::try_from(samples.len())
        .ok()
        .filter(|&total| total < 1 << 31)?;
    let frames: Vec<Vec<u8>> = samples
        .chunks(BLOCK)
        .zip(0_u32..)
        .map(|(block, number)| frame(block, number, rate))
        .collect();
    let sizes = frames.iter().map(Vec::len);
    let (least, most) = (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0));

    let mut bits = Bits::default();
    bits.bytes.extend_from_slice(b"fLaC");
    bits.put(0x80, 8); // The last metadata block, of the kind STREAMINFO.
    bits.put(34, 24);
    bits.put(BLOCK as u64, 16);
    bits.put(BLOCK as u64, 16);
    bits.put(least as u64, 24);
    bits.put(most as u64, 24);
    bits.put(u64::from(rate), 20);
    bits.put(0, 3); // One channel.
    bits.put(15, 5); // 16 bits a sample.
    bits.put(total, 36);
    let mut out = bits.bytes;
    out.extend_from_slice(&[0; 16]);
    for frame in frames {
        out.extend_from_slice(&frame);
    }
    Some(out)
}

fn frame(block: &[i16], number: u32, rate: u16) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.put(0b1111_1111_1111_1000, 16); // Blocks of one size, the last excepted.
    bits.put(0b0111, 4); // The block's length follows, in 16 bits.
    bits.put(0b1101, 4); // The rate follows, in hertz.
    bits.put(0, 4); // One channel.
    bits.put(0b1000, 4); // 16 bits a sample, and a reserved zero.
    for byte in coded_number(number) {
        bits.put(u64::from(byte), 8);
    }
    bits.put(block.len() as u64 - 1, 16);
    bits.put(u64::from(rate), 16);
    let check = crc8(&bits.bytes);
    bits.put(u64::from(check), 8);
    subframe(block, &mut bits);
    bits.align();
    let check = crc16(&bits.bytes);
    bits.put(u64::from(check), 16);
    bits.bytes
}

fn subframe(block: &[i16], bits: &mut Bits) {
    let first = block.first().copied().unwrap_or(0);
    if block.iter().all(|&sample| sample == first) {
        bits.put(0b0000_0000, 8);
        bits.put(u64::from(first as u16), 16);
        return;
    }
    let (order, residual) = best_predictor(block);
    let warm_up = 16 * order as u64;
    match best_coding(&residual, order) {
        Some(coding) if coding.bits + warm_up < 16 * block.len() as u64 => {
            bits.put(0b0001_0000 | (order as u64) << 1, 8);
            put_samples(&block[..order], bits);
            put_residual(&residual, &coding, order, bits);
        }
        _ => {
            bits.put(0b0000_0010, 8);
            put_samples(block, bits);
        }
    }
}

fn put_samples(samples: &[i16], bits: &mut Bits) {
    for &sample in samples {
        bits.put(u64::from(sample as u16), 16);
    }
}

/// The order whose residual has the smallest sum of magnitudes, and that residual with its warm-up samples: the
/// difference of order k is the difference of that of order k - 1.
fn best_predictor(block: &[i16]) -> (usize, Vec<i32>) {
    let mut difference: Vec<i32> = block.iter().map(|&sample| i32::from(sample)).collect();
    let mut best = (sum(&difference), 0, difference.clone());
    for order in 1..=MAX_ORDER.min(block.len() - 1) {
        for at in (order..block.len()).rev() {
            difference[at] -= difference[at - 1];
        }
        let sum = sum(&difference[order..]);
        if sum < best.0 {
            best = (sum, order, difference.clone());
        }
    }
    (best.1, best.2)
}

fn sum(numbers: &[i32]) -> u64 {
    numbers
        .iter()
        .map(|&number| u64::from(number.unsigned_abs()))
        .sum()
}

/// How a residual is parted, the Rice parameter of each part, and the bits that all takes.
struct Coding {
    partition_order: u32,
    parameters: Vec<u32>,
    bits: u64,
}

fn best_coding(residual: &[i32], order: usize) -> Option<Coding> {
    let is_valid = |partition_order: &u32| {
        let part = residual.len() >> partition_order;
        part << partition_order == residual.len() && part > order
    };
    // A part of a coarser partition is two of a finer one, and so are its bits: samples are looked at once.
    let finest = (0..=MAX_PARTITION).filter(is_valid).max()?;
    let mut sums: Vec<Quotients> = parts(residual, order, finest).map(quotients).collect();
    let mut codings = Vec::new();
    for partition_order in (0..=finest).rev() {
        codings.push(coding(&sums, partition_order));
        sums = sums.chunks_exact(2).map(|two| two[0].with(&two[1])).collect();
    }
    codings.into_iter().rev().min_by_key(|coding| coding.bits)
}

/// The samples of a part, and the sum of their quotients for each parameter.
struct Quotients {
    samples: u64,
    sums: [u64; MAX_RICE as usize + 1],
}

impl Quotients {
    fn with(&self, next: &Self) -> Self {
        Self {
            samples: self.samples + next.samples,
            sums: std::array::from_fn(|parameter| self.sums[parameter] + next.sums[parameter]),
        }
    }
}

fn quotients(part: &[i32]) -> Quotients {
    let mut sums = [0; MAX_RICE as usize + 1];
    // Sixteen residuals of 16-bit samples, folded, stay below 2^32.
    for few in part.chunks(16) {
        let mut of_few = [0_u32; MAX_RICE as usize + 1];
        for &number in few {
            let folded = folded(number);
            for (parameter, sum) in (0..).zip(&mut of_few) {
                *sum += folded >> parameter;
            }
        }
        for (sum, few) in sums.iter_mut().zip(of_few) {
            *sum += u64::from(few);
        }
    }
    Quotients {
        samples: part.len() as u64,
        sums,
    }
}

fn coding(parts: &[Quotients], partition_order: u32) -> Coding {
    let mut bits = 6;
    let parameters = parts
        .iter()
        .map(|part| {
            let costs = part.sums.iter().zip(0..).map(|(sum, parameter)| {
                let parameter: u32 = parameter;
                (sum + part.samples * u64::from(parameter + 1), parameter)
            });
            let (cost, parameter) = costs.min().unwrap_or((0, 0));
            bits += 4 + cost;
            parameter
        })
        .collect();
    Coding {
        partition_order,
        parameters,
        bits,
    }
}

/// The parts of a residual; the first is shorter by the warm-up samples.
fn parts(residual: &[i32], order: usize, partition_order: u32) -> impl Iterator<Item = &[i32]> {
    let length = residual.len() >> partition_order;
    residual
        .chunks(length.max(1))
        .enumerate()
        .map(move |(number, part)| if number == 0 { &part[order..] } else { part })
}

/// Small magnitudes become small numbers: 0, -1, 1, -2 ... to 0, 1, 2, 3 ...
fn folded(number: i32) -> u32 {
    ((number << 1) ^ (number >> 31)) as u32
}

fn put_residual(residual: &[i32], coding: &Coding, order: usize, bits: &mut Bits) {
    bits.put(0, 2); // Parameters of four bits.
    bits.put(u64::from(coding.partition_order), 4);
    let parts = parts(residual, order, coding.partition_order);
    for (part, &parameter) in parts.zip(&coding.parameters) {
        bits.put(u64::from(parameter), 4);
        for &number in part {
            let folded = folded(number);
            bits.put_unary(folded >> parameter);
            bits.put(u64::from(folded) & ((1 << parameter) - 1), parameter);
        }
    }
}

/// The number of a frame in the coding of UTF-8, stretched to 31 bits.
fn coded_number(number: u32) -> Vec<u8> {
    if number < 0x80 {
        return vec![number as u8];
    }
    // A sequence of `tails` continuation bytes holds 6 bits in each of them and 6 - tails in the first byte.
    let tails = (1..=5)
        .find(|&tails| u64::from(number) < 1 << (5 * tails + 6))
        .unwrap_or(5);
    let mark = 0xff_u8 << (7 - tails);
    let mut out = vec![mark | (number >> (6 * tails)) as u8];
    for tail in (0..tails).rev() {
        out.push(0x80 | ((number >> (6 * tail)) & 0x3f) as u8);
    }
    out
}

/// Bits, the most significant first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    held: u64,
    count: u32,
}

impl Bits {
    /// At most 40 bits at a time.
    fn put(&mut self, value: u64, count: u32) {
        self.held = self.held << count | value;
        self.count += count;
        while self.count >= 8 {
            self.count -= 8;
            self.bytes.push((self.held >> self.count) as u8);
        }
        self.held &= (1 << self.count) - 1;
    }

    /// Zeros and a one.
    fn put_unary(&mut self, mut zeros: u32) {
        while zeros >= 32 {
            self.put(0, 32);
            zeros -= 32;
        }
        self.put(1, zeros + 1);
    }

    fn align(&mut self) {
        if self.count > 0 {
            self.put(0, 8 - self.count);
        }
    }
}

/// x^8 + x^2 + x + 1.
fn crc8(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ byte, |crc: u8, _| {
            (crc << 1) ^ if crc & 0x80 == 0 { 0 } else { 0x07 }
        })
    })
}

/// x^16 + x^15 + x^2 + 1.
fn crc16(bytes: &[u8]) -> u16 {
    const TABLE: [u16; 256] = crc16_table();
    bytes.iter().fold(0, |crc, &byte| {
        (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)]
    })
}

const fn crc16_table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x8005 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What the decoder makes of the stream, as 16-bit samples.
    fn decoded(bytes: &[u8], rate: u32) -> Vec<i16> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.flac");
        fs_err::write(&path, bytes).unwrap();
        let sound = crate::read(&path, rate, None).unwrap();
        assert!(sound.damage.is_none(), "{:?}", sound.damage);
        sound
            .samples
            .iter()
            .map(|&sample| {
                let scaled = sample * 32768.0;
                assert!(
                    (scaled - scaled.round()).abs() < 1e-6,
                    "{sample} is no 16-bit sample"
                );
                scaled as i16
            })
            .collect()
    }

    fn check(samples: &[i16], rate: u32) -> Vec<u8> {
        let bytes = encode_flac(samples, rate).unwrap();
        assert!(
            decoded(&bytes, rate) == samples,
            "{} samples come back changed",
            samples.len()
        );
        bytes
    }

    #[test]
    fn silence_and_constants_take_a_few_bytes() {
        for value in [0, 1, -1, i16::MIN, i16::MAX] {
            let bytes = check(&vec![value; 10_000], 32_000);
            assert!(bytes.len() < 120, "{}", bytes.len());
        }
    }

    #[test]
    fn extremes_come_back() {
        let square: Vec<i16> = (0..9_001)
            .map(|at| if at % 2 == 0 { i16::MIN } else { i16::MAX })
            .collect();
        check(&square, 44_100);
        let slow: Vec<i16> = (0..8_192)
            .map(|at| if at / 100 % 2 == 0 { i16::MIN } else { i16::MAX })
            .collect();
        check(&slow, 8_000);
    }

    #[test]
    fn a_slow_tone_takes_less_than_half() {
        let tone: Vec<i16> = (0..64_000)
            .map(|at| (f64::from(at) * 0.02).sin().mul_add(12_000.0, 0.5) as i16)
            .collect();
        let bytes = check(&tone, 32_000);
        assert!(bytes.len() < tone.len(), "{} bytes", bytes.len());
    }

    #[test]
    fn lengths_around_a_block_come_back() {
        let mut random = hark_work::random::Random::new(3);
        for length in [1, 2, 3, 4, 5, 6, 17, 4095, 4096, 4097, 4100, 8191, 8192, 8193] {
            let samples: Vec<i16> = (0..length).map(|_| random.next() as i16).collect();
            check(&samples, 48_000);
        }
    }

    /// Frames from the 128th on have numbers of two bytes, from the 2048th of three.
    #[test]
    fn many_frames_come_back() {
        let samples: Vec<i16> = (0..2_050 * BLOCK).map(|at| (at / BLOCK) as i16).collect();
        check(&samples, 16_000);
    }

    #[test]
    fn numbers_are_coded_as_utf8_codes_characters() {
        for number in [0, 0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xffff, 0x10000, 0x10_ffff] {
            let text = char::from_u32(number).unwrap().to_string();
            assert_eq!(coded_number(number), text.as_bytes(), "{number:#x}");
        }
    }

    #[test]
    fn checksums_are_the_published_ones() {
        // The check values of CRC-8 (also called SMBUS) and CRC-16/UMTS for the digits 1 to 9.
        assert_eq!(crc8(b"123456789"), 0xf4);
        assert_eq!(crc16(b"123456789"), 0xfee8);
    }

    #[test]
    fn rates_that_cannot_be_written_are_refused() {
        assert!(encode_flac(&[1, 2], 0).is_none());
        assert!(encode_flac(&[1, 2], 65_536).is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn any_samples_come_back(
            length in 1_usize..10_000,
            seed: u64,
            size in 0_u32..16,
            step in 0_u32..3,
            rate in 8_000_u32..48_001,
        ) {
            // Noise of every size, once as it is, once added up (which the higher orders predict).
            let mut random = hark_work::random::Random::new(seed);
            let mut level = 0_i16;
            let samples: Vec<i16> = (0..length)
                .map(|_| {
                    let noise = (random.next() as i16) >> size;
                    level = level.wrapping_add(noise);
                    if step == 0 { noise } else { level }
                })
                .collect();
            check(&samples, rate);
        }
    }
}
