//! One clip on disk: written whole, read in blocks.
//!
//! All numbers are little-endian.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | `HARKPCM` and a zero for 32-bit floats, `HARKFLC` and a zero for FLAC |
//! | 8..12 | version of the format |
//! | 12..16 | rate in Hz |
//! | 16..24 | number of samples |
//! | 24..28 | 1 if the recording ends with them, 0 if it was cut |
//! | 28..32 | CRC-32 of the 28 bytes before and of the table |
//! | 32.. | the table: for each block a CRC-32; with FLAC, also its length in bytes |
//! | then | the blocks, the last one shorter: of 16,384 floats, or a FLAC file each of 65,536 samples of 16 bits |
//!
//! Each block has its own checksum, so that a part of a clip is checked without reading the rest. Refused, as
//! damaged: another version or rate, a length that does not fit the number of samples, a checksum that differs.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Mutex;

use hark_audio::{Decoder, encode_flac};
use hark_work::workers::lock;

use super::CacheFormat;

/// Raised with every change of this layout, and of what the decoder or the resampler make of a recording: files of
/// another version are never read.
pub(super) const VERSION: u32 = 1;

const HEADER: usize = 32;
const SAMPLE: usize = size_of::<f32>();
/// The rate that blocks of FLAC name. That of the samples is in the header; not every one can be written into FLAC.
const NOMINAL: u32 = 32_000;
/// What FLAC adds at most to the samples, for each block and for each frame of 4096 samples.
const FLAC_PER_BLOCK: usize = 64;
const FLAC_PER_FRAME: usize = 24;

impl CacheFormat {
    fn magic(self) -> &'static [u8; 8] {
        match self {
            Self::F32 => b"HARKPCM\0",
            Self::Flac => b"HARKFLC\0",
        }
    }

    /// How names of files end.
    pub(super) fn ending(self) -> &'static str {
        match self {
            Self::F32 => "pcm",
            Self::Flac => "flc",
        }
    }

    /// Samples in a block.
    fn block(self) -> usize {
        match self {
            Self::F32 => 16_384,
            Self::Flac => 65_536,
        }
    }

    /// Bytes of the table for a block.
    fn row(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Flac => 8,
        }
    }

    /// The bytes of some samples.
    fn pack(self, samples: &[f32]) -> io::Result<Vec<u8>> {
        match self {
            Self::F32 => Ok(samples.iter().flat_map(|sample| sample.to_le_bytes()).collect()),
            Self::Flac => {
                let samples: Vec<i16> = samples
                    .iter()
                    .map(|&sample| super::sixteen_bits(sample))
                    .collect();
                encode_flac(&samples, NOMINAL).ok_or_else(|| io::Error::other("too long for FLAC"))
            }
        }
    }

    /// The samples of a block, `count` of them; `None` if it does not hold them.
    fn unpack(self, bytes: Vec<u8>, count: usize) -> Option<Vec<f32>> {
        let samples = match self {
            Self::F32 => {
                let numbers = bytes.chunks_exact(SAMPLE);
                numbers
                    .map(|bytes| f32::from_bits(little_endian(bytes) as u32))
                    .collect()
            }
            Self::Flac => {
                let source = Box::new(Cursor::new(bytes));
                let mut decoder = Decoder::from_source(source, Path::new("block of FLAC")).ok()?;
                let mut samples = Vec::with_capacity(count);
                while let Some(block) = decoder.next_block().ok()? {
                    samples.extend_from_slice(block);
                }
                samples
            }
        };
        (samples.len() == count).then_some(samples)
    }
}

/// An open file of the cache.
#[derive(Debug)]
pub(super) struct Entry {
    file: Mutex<File>,
    format: CacheFormat,
    samples: usize,
    whole: bool,
    blocks: Vec<Block>,
}

/// Where a block is, and what it must be.
#[derive(Debug)]
struct Block {
    offset: u64,
    length: usize,
    sum: u32,
}

/// How many bytes a clip takes at most; 32-bit floats take exactly as many.
pub(super) fn most_bytes(format: CacheFormat, samples: usize) -> u64 {
    let blocks = samples.div_ceil(format.block());
    let packed = match format {
        CacheFormat::F32 => samples * SAMPLE,
        CacheFormat::Flac => {
            2 * samples + FLAC_PER_BLOCK * blocks + FLAC_PER_FRAME * (samples / 4096 + blocks)
        }
    };
    (HEADER + format.row() * blocks + packed) as u64
}

pub(super) fn write(
    out: &mut impl Write,
    format: CacheFormat,
    rate: u32,
    samples: &[f32],
    whole: bool,
) -> io::Result<()> {
    let parts = || samples.chunks(format.block());
    // What takes time to pack is packed once; floats are copied twice, and a clip is not in memory twice.
    let packed: Vec<Vec<u8>> = match format {
        CacheFormat::F32 => Vec::new(),
        CacheFormat::Flac => parts().map(|part| format.pack(part)).collect::<Result<_, _>>()?,
    };
    let mut table = Vec::with_capacity(format.row() * samples.len().div_ceil(format.block()));
    match format {
        CacheFormat::F32 => {
            for part in parts() {
                table.extend(crc32fast::hash(&format.pack(part)?).to_le_bytes());
            }
        }
        CacheFormat::Flac => {
            for block in &packed {
                table.extend(crc32fast::hash(block).to_le_bytes());
                table.extend((block.len() as u32).to_le_bytes());
            }
        }
    }
    let mut header = Vec::with_capacity(HEADER);
    header.extend(format.magic());
    header.extend(VERSION.to_le_bytes());
    header.extend(rate.to_le_bytes());
    header.extend((samples.len() as u64).to_le_bytes());
    header.extend(u32::from(whole).to_le_bytes());
    header.extend(checksum(&header, &table).to_le_bytes());
    out.write_all(&header)?;
    out.write_all(&table)?;
    match format {
        CacheFormat::F32 => {
            for part in parts() {
                out.write_all(&format.pack(part)?)?;
            }
        }
        CacheFormat::Flac => {
            for block in &packed {
                out.write_all(block)?;
            }
        }
    }
    out.flush()
}

fn checksum(header: &[u8], table: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header);
    hasher.update(table);
    hasher.finalize()
}

/// What opening a file of the cache can give.
pub(super) enum Opened {
    Entry(Entry),
    Absent,
    Damaged,
}

impl Entry {
    pub(super) fn open(path: &Path, format: CacheFormat, rate: u32) -> Opened {
        let Ok(file) = File::open(path) else {
            return Opened::Absent;
        };
        match Self::parse(file, format, rate) {
            Ok(Some(entry)) => Opened::Entry(entry),
            Ok(None) => Opened::Damaged,
            // Only a file that ends too early is damaged for sure.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Opened::Damaged,
            Err(_) => Opened::Absent,
        }
    }

    fn parse(mut file: File, format: CacheFormat, rate: u32) -> io::Result<Option<Self>> {
        let length = file.metadata()?.len();
        let mut header = [0; HEADER];
        file.read_exact(&mut header)?;
        let word = |at: usize| {
            header
                .get(at..at + 4)
                .map_or(0, |bytes| little_endian(bytes) as u32)
        };
        let (samples, row) = (little_endian(&header[16..24]), format.row());
        // The length bounds the table, so a damaged number cannot ask for memory that the file does not have.
        let Some(samples) = usize::try_from(samples)
            .ok()
            .filter(|&samples| (samples.div_ceil(format.block()) as u64) <= length / row as u64)
        else {
            return Ok(None);
        };
        if &header[..8] != format.magic() || word(8) != VERSION || word(12) != rate {
            return Ok(None);
        }
        let mut table = vec![0; row * samples.div_ceil(format.block())];
        file.read_exact(&mut table)?;
        if checksum(&header[..28], &table) != word(28) {
            return Ok(None);
        }
        let mut offset = (HEADER + table.len()) as u64;
        let mut blocks = Vec::with_capacity(table.len() / row);
        for (nth, row) in table.chunks_exact(row).enumerate() {
            let count = format.block().min(samples - nth * format.block());
            let block_length = match format {
                CacheFormat::F32 => count * SAMPLE,
                CacheFormat::Flac => little_endian(&row[4..]) as usize,
            };
            blocks.push(Block {
                offset,
                length: block_length,
                sum: little_endian(&row[..4]) as u32,
            });
            offset += block_length as u64;
        }
        Ok((offset == length).then(|| Self {
            file: Mutex::new(file),
            format,
            samples,
            whole: word(24) == 1,
            blocks,
        }))
    }

    pub(super) fn len(&self) -> usize {
        self.samples
    }

    /// Whether the recording ends with the last sample.
    pub(super) fn is_whole(&self) -> bool {
        self.whole
    }

    /// The samples from `start` to before `end`, both within the clip; `None` if the file is damaged there.
    pub(super) fn read(&self, start: usize, end: usize) -> Option<Vec<f32>> {
        if start >= end {
            return Some(Vec::new());
        }
        let size = self.format.block();
        let first = start / size;
        let mut samples = Vec::with_capacity(end - start);
        for (nth, block) in self.blocks.get(first..end.div_ceil(size))?.iter().enumerate() {
            let before = (first + nth) * size;
            let mut bytes = vec![0; block.length];
            {
                let mut file = lock(&self.file);
                file.seek(SeekFrom::Start(block.offset)).ok()?;
                file.read_exact(&mut bytes).ok()?;
            }
            if crc32fast::hash(&bytes) != block.sum {
                return None;
            }
            let count = size.min(self.samples.checked_sub(before)?);
            let block = self.format.unpack(bytes, count)?;
            samples.extend_from_slice(block.get(start.saturating_sub(before)..count.min(end - before))?);
        }
        Some(samples)
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, &byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 16_384;
    const FORMATS: [CacheFormat; 2] = [CacheFormat::F32, CacheFormat::Flac];

    fn file(format: CacheFormat, samples: &[f32], whole: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes, format, 32_000, samples, whole).unwrap();
        bytes
    }

    fn open(format: CacheFormat, bytes: &[u8]) -> Option<Entry> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs_err::write(&path, bytes).unwrap();
        match Entry::open(&path, format, 32_000) {
            Opened::Entry(entry) => Some(entry),
            Opened::Absent | Opened::Damaged => None,
        }
    }

    /// Noise of 16 bits, which FLAC cannot make smaller.
    fn noise(length: usize) -> Vec<f32> {
        let numbers = (0..length as u32).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 16) as i16);
        numbers.map(|number| f32::from(number) / 32_768.0).collect()
    }

    #[test]
    fn what_was_written_comes_back_to_the_bit_and_in_any_part() {
        for length in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5] {
            // Every bit pattern must survive, also those of numbers that no decoder gives.
            let samples: Vec<f32> = (0..length as u32)
                .map(|i| f32::from_bits(i.wrapping_mul(0x9e37_79b9)))
                .collect();
            let bytes = file(CacheFormat::F32, &samples, length % 2 == 0);
            assert_eq!(bytes.len() as u64, most_bytes(CacheFormat::F32, length));
            let entry = open(CacheFormat::F32, &bytes).unwrap();
            assert_eq!((entry.len(), entry.is_whole()), (length, length % 2 == 0));
            for (start, end) in [
                (0, length),
                (length / 3, length / 2),
                (length.saturating_sub(2), length),
                (0, 1),
            ] {
                let end = end.min(length);
                let bits = |samples: &[f32]| samples.iter().map(|s| s.to_bits()).collect::<Vec<_>>();
                let read = entry.read(start, end).unwrap();
                assert_eq!(
                    bits(&read),
                    bits(&samples[start..end]),
                    "{start}..{end} of {length}"
                );
            }
        }
    }

    #[test]
    fn flac_gives_back_samples_of_16_bits_in_any_part() {
        const FLAC_BLOCK: usize = 65_536;
        for length in [0, 1, FLAC_BLOCK - 1, FLAC_BLOCK, 2 * FLAC_BLOCK + 4097] {
            for samples in [noise(length), vec![0.5; length]] {
                let bytes = file(CacheFormat::Flac, &samples, true);
                assert!(
                    bytes.len() as u64 <= most_bytes(CacheFormat::Flac, length),
                    "{length}"
                );
                let entry = open(CacheFormat::Flac, &bytes).unwrap();
                assert_eq!((entry.len(), entry.is_whole()), (length, true));
                for (start, end) in [
                    (0, length),
                    (length / 3, length / 2),
                    (length.saturating_sub(2), length),
                ] {
                    let read = entry.read(start, end).unwrap();
                    assert!(read == samples[start..end], "{start}..{end} of {length}");
                }
            }
        }
    }

    #[test]
    fn a_file_of_the_other_format_is_no_entry() {
        for (format, other) in [(FORMATS[0], FORMATS[1]), (FORMATS[1], FORMATS[0])] {
            assert!(open(other, &file(format, &noise(100), true)).is_none());
        }
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_noticed() {
        for format in FORMATS {
            let good = file(format, &noise(40), true);
            for at in 0..good.len() {
                let mut bytes = good.clone();
                bytes[at] ^= 0x10;
                let read = open(format, &bytes).and_then(|entry| entry.read(0, entry.len()));
                assert!(read.is_none(), "byte {at}");
                assert!(open(format, &good[..at]).is_none(), "cut at {at}");
            }
            let mut longer = good.clone();
            longer.push(0);
            assert!(open(format, &longer).is_none());
            assert!(open(format, &good).is_some());
        }
    }

    #[test]
    fn damage_outside_the_part_that_is_read_does_not_matter() {
        let samples = vec![0.25; 3 * BLOCK];
        let mut bytes = file(CacheFormat::F32, &samples, true);
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        let entry = open(CacheFormat::F32, &bytes).unwrap();
        assert_eq!(entry.read(5, 2 * BLOCK).unwrap().len(), 2 * BLOCK - 5);
        assert!(entry.read(5, 2 * BLOCK + 1).is_none());
    }
}
