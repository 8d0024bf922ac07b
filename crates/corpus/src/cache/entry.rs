//! One clip on disk: written whole, read in blocks.
//!
//! All numbers are little-endian.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | `HARKPCM` and a zero |
//! | 8..12 | version of the format |
//! | 12..16 | rate in Hz |
//! | 16..24 | number of samples |
//! | 24..28 | 1 if the recording ends with them, 0 if it was cut |
//! | 28..32 | CRC-32 of the 28 bytes before and of the table |
//! | 32.. | the table: a CRC-32 for each block |
//! | then | the samples, 32-bit floats, in blocks of 16,384, the last one shorter |
//!
//! Each block has its own checksum, so that a part of a clip is checked without reading the rest. Refused, as
//! damaged: another version or rate, a length that does not fit the number of samples, a checksum that differs.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Mutex;

use hark_work::workers::lock;

/// Raised with every change of this layout, and of what the decoder or the resampler make of a recording: files of
/// another version are never read.
pub(super) const VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"HARKPCM\0";
const HEADER: usize = 32;
/// Samples in a block: 64 KiB of them.
const BLOCK: usize = 16_384;
const SAMPLE: usize = size_of::<f32>();

/// An open file of the cache.
#[derive(Debug)]
pub(super) struct Entry {
    file: Mutex<File>,
    samples: usize,
    whole: bool,
    table: Vec<u32>,
}

/// How many bytes a clip takes.
pub(super) fn bytes_for(samples: usize) -> u64 {
    (HEADER + 4 * samples.div_ceil(BLOCK)) as u64 + (samples * SAMPLE) as u64
}

pub(super) fn write(out: &mut impl Write, rate: u32, samples: &[f32], whole: bool) -> io::Result<()> {
    let mut block = Vec::with_capacity(BLOCK * SAMPLE);
    let fill = |samples: &[f32], block: &mut Vec<u8>| {
        block.clear();
        block.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
    };
    let mut table = Vec::with_capacity(4 * samples.len().div_ceil(BLOCK));
    for part in samples.chunks(BLOCK) {
        fill(part, &mut block);
        table.extend(crc32fast::hash(&block).to_le_bytes());
    }
    let mut header = Vec::with_capacity(HEADER);
    header.extend(MAGIC);
    header.extend(VERSION.to_le_bytes());
    header.extend(rate.to_le_bytes());
    header.extend((samples.len() as u64).to_le_bytes());
    header.extend(u32::from(whole).to_le_bytes());
    header.extend(checksum(&header, &table).to_le_bytes());
    out.write_all(&header)?;
    out.write_all(&table)?;
    for part in samples.chunks(BLOCK) {
        fill(part, &mut block);
        out.write_all(&block)?;
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
    pub(super) fn open(path: &Path, rate: u32) -> Opened {
        let Ok(file) = File::open(path) else {
            return Opened::Absent;
        };
        match Self::parse(file, rate) {
            Ok(Some(entry)) => Opened::Entry(entry),
            Ok(None) => Opened::Damaged,
            // Only a file that ends too early is damaged for sure.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Opened::Damaged,
            Err(_) => Opened::Absent,
        }
    }

    fn parse(mut file: File, rate: u32) -> io::Result<Option<Self>> {
        let length = file.metadata()?.len();
        let mut header = [0; HEADER];
        file.read_exact(&mut header)?;
        let word = |at: usize| {
            header
                .get(at..at + 4)
                .map_or(0, |bytes| little_endian(bytes) as u32)
        };
        let samples = little_endian(&header[16..24]);
        // The length bounds the number, so a damaged number cannot ask for memory that the file does not have.
        let Some(samples) = usize::try_from(samples)
            .ok()
            .filter(|&samples| samples as u64 <= length / SAMPLE as u64)
        else {
            return Ok(None);
        };
        let right =
            &header[..8] == MAGIC && word(8) == VERSION && word(12) == rate && length == bytes_for(samples);
        if !right {
            return Ok(None);
        }
        let mut table = vec![0; 4 * samples.div_ceil(BLOCK)];
        file.read_exact(&mut table)?;
        if checksum(&header[..28], &table) != word(28) {
            return Ok(None);
        }
        Ok(Some(Self {
            file: Mutex::new(file),
            samples,
            whole: word(24) == 1,
            table: table
                .chunks_exact(4)
                .map(|bytes| little_endian(bytes) as u32)
                .collect(),
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
        let (first, last) = (start / BLOCK, end.div_ceil(BLOCK));
        let stop = (last * BLOCK).min(self.samples);
        let mut bytes = vec![0; stop.checked_sub(first * BLOCK)? * SAMPLE];
        let offset = HEADER + 4 * self.table.len() + first * BLOCK * SAMPLE;
        {
            let mut file = lock(&self.file);
            file.seek(SeekFrom::Start(offset as u64)).ok()?;
            file.read_exact(&mut bytes).ok()?;
        }
        let sums = self.table.get(first..last)?;
        let sound = bytes
            .chunks(BLOCK * SAMPLE)
            .zip(sums)
            .all(|(block, &sum)| crc32fast::hash(block) == sum);
        let wanted = bytes.get((start - first * BLOCK) * SAMPLE..(end - first * BLOCK) * SAMPLE)?;
        let samples = wanted
            .chunks_exact(SAMPLE)
            .map(|bytes| f32::from_bits(little_endian(bytes) as u32));
        sound.then(|| samples.collect())
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

    fn file(samples: &[f32], whole: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes, 32_000, samples, whole).unwrap();
        bytes
    }

    fn open(bytes: &[u8]) -> Option<Entry> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs_err::write(&path, bytes).unwrap();
        match Entry::open(&path, 32_000) {
            Opened::Entry(entry) => Some(entry),
            Opened::Absent | Opened::Damaged => None,
        }
    }

    #[test]
    fn what_was_written_comes_back_to_the_bit_and_in_any_part() {
        for length in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5] {
            // Every bit pattern must survive, also those of numbers that no decoder gives.
            let samples: Vec<f32> = (0..length as u32)
                .map(|i| f32::from_bits(i.wrapping_mul(0x9e37_79b9)))
                .collect();
            let bytes = file(&samples, length % 2 == 0);
            assert_eq!(bytes.len() as u64, bytes_for(length));
            let entry = open(&bytes).unwrap();
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
    fn every_changed_byte_and_every_cut_is_noticed() {
        let samples: Vec<f32> = (0..40).map(|i| i as f32 / 40.0).collect();
        let good = file(&samples, true);
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 0x10;
            let read = open(&bytes).and_then(|entry| entry.read(0, entry.len()));
            assert!(read.is_none(), "byte {at}");
            assert!(open(&good[..at]).is_none(), "cut at {at}");
        }
        let mut longer = good.clone();
        longer.push(0);
        assert!(open(&longer).is_none());
        assert!(open(&good).is_some());
    }

    #[test]
    fn damage_outside_the_part_that_is_read_does_not_matter() {
        let samples = vec![0.25; 3 * BLOCK];
        let mut bytes = file(&samples, true);
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        let entry = open(&bytes).unwrap();
        assert_eq!(entry.read(5, 2 * BLOCK).unwrap().len(), 2 * BLOCK - 5);
        assert!(entry.read(5, 2 * BLOCK + 1).is_none());
    }
}
