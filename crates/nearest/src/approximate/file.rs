//! The file of an index: what usearch writes, then a record by which hark recognizes and checks the file.
//!
//! ```text
//! payload   vectors, header, graph: the format of usearch 2, empty if the index never held a vector
//! 0..8      "harknear"
//! 8..12     version of this format, 1
//! 12..16    numbers: 1 = 16 bits, 2 = 8 bits
//! 16..24    numbers in a vector
//! 24..32    vectors that can be found
//! 32..40    places for vectors, those of removed ones included
//! 40..52    links, effort of adding, effort of searching: 4 bytes each
//! 52..56    CRC-32 of the payload
//! 56..60    zero
//! 60..64    CRC-32 of the 60 bytes before
//! ```
//!
//! All numbers are little-endian. The record is at the end because the library maps a file from its beginning.
//!
//! A file is read and checked before the library sees it. Its checksum must be right, and everything that the library
//! would follow unchecked must point inside the file: sizes, levels and the numbers of neighbours. A file of another
//! program, a truncated one or a changed one is refused and cannot crash the program.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use half::f16;
use hark_work::files::replace_file;

use super::{Options, Quantization, words};
use crate::Error;

const MAGIC: [u8; 8] = *b"harknear";
const VERSION: u32 = 1;
const RECORD: usize = 64;
/// Sizes of the library's parts: rows and columns of vectors, its two headers, a level, and the key and level of a
/// node.
const SHAPE: usize = 8;
const HEAD: usize = 64;
const GRAPH_HEAD: usize = 40;
const NODE_HEAD: usize = 10;
/// Where the library's header says how many numbers a vector has.
const HEAD_WORDS: usize = 33;

/// What the record says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Record {
    pub(super) dim: usize,
    pub(super) options: Options,
    pub(super) count: usize,
    pub(super) slots: usize,
}

impl Record {
    fn to_bytes(self, crc: u32) -> [u8; RECORD] {
        let mut out = Vec::with_capacity(RECORD);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        let numbers: u32 = match self.options.quantization {
            Quantization::F16 => 1,
            Quantization::I8 => 2,
        };
        out.extend(numbers.to_le_bytes());
        for number in [self.dim, self.count, self.slots] {
            out.extend((number as u64).to_le_bytes());
        }
        let Options {
            links,
            ef_construction,
            ef_search,
            ..
        } = self.options;
        for number in [links, ef_construction, ef_search] {
            out.extend((number as u32).to_le_bytes());
        }
        out.extend(crc.to_le_bytes());
        out.extend([0; 4]);
        out.extend(crc32fast::hash(&out).to_le_bytes());
        let mut record = [0; RECORD];
        record.copy_from_slice(&out);
        record
    }

    /// The record and the checksum of the payload.
    fn from_bytes(bytes: &[u8; RECORD], path: &Path) -> Result<(Self, u32), Error> {
        let short = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| (u64::from(short(at)) | u64::from(short(at + 4)) << 32) as usize;
        if bytes[..8] != MAGIC {
            return Err(Error::NotAnIndex {
                path: path.to_owned(),
            });
        }
        if short(60) != crc32fast::hash(&bytes[..60]) {
            return Err(damaged(path, "its record has another checksum"));
        }
        if short(8) != VERSION {
            return Err(Error::IndexVersion {
                path: path.to_owned(),
                expected: VERSION,
                got: short(8),
            });
        }
        let quantization = match short(12) {
            1 => Quantization::F16,
            2 => Quantization::I8,
            _ => return Err(damaged(path, "it holds an unknown kind of numbers")),
        };
        let options = Options {
            quantization,
            links: short(40) as usize,
            ef_construction: short(44) as usize,
            ef_search: short(48) as usize,
        };
        let record = Self {
            dim: long(16),
            options,
            count: long(24),
            slots: long(32),
        };
        if super::check(record.dim, &options).is_err()
            || record.slots > super::MAX
            || record.count > record.slots
        {
            return Err(damaged(path, "its record holds impossible sizes"));
        }
        Ok((record, short(52)))
    }
}

fn damaged(path: &Path, what: &'static str) -> Error {
    Error::IndexDamaged {
        path: path.to_owned(),
        what,
    }
}

fn io(path: &Path, reason: impl std::fmt::Display) -> Error {
    Error::IndexFile {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

pub(super) fn not_written(path: &Path, reason: impl std::fmt::Display) -> Error {
    Error::IndexNotWritten {
        reason: format!("cannot write {}: {reason}", path.display()),
    }
}

pub(super) fn text_of(path: &Path) -> Result<&str, Error> {
    path.to_str().ok_or_else(|| Error::PathNotUnicode {
        path: path.to_owned(),
    })
}

/// Puts a file in place of `path`, or leaves what was there. `payload` writes to the path that it is given, and says
/// how long it is.
pub(super) fn write(
    path: &Path,
    record: Record,
    payload: impl FnOnce(&str) -> Result<usize, Error>,
) -> Result<(), Error> {
    let fault = |reason: std::io::Error| not_written(path, reason);
    replace_file(path, |file| {
        let length = payload(text_of(file.get_ref().path())?)?;
        let file = file.get_mut().as_file_mut();
        // The library does not look whether its last bytes were written.
        if file.metadata().map_err(fault)?.len() != length as u64 {
            return Err(not_written(path, "not all of it was written; is the disk full?"));
        }
        let mut crc = crc32fast::Hasher::new();
        let mut buffer = vec![0; 1 << 20];
        loop {
            match file.read(&mut buffer).map_err(fault)? {
                0 => break,
                read => crc.update(&buffer[..read]),
            }
        }
        file.write_all(&record.to_bytes(crc.finalize())).map_err(fault)?;
        Ok(())
    })
}

/// Reads and checks all of a file.
pub(super) fn read(path: &Path) -> Result<Record, Error> {
    let mut file = File::open(path).map_err(|reason| io(path, reason))?;
    let length = file.metadata().map_err(|reason| io(path, reason))?.len();
    if length < RECORD as u64 {
        return Err(Error::NotAnIndex {
            path: path.to_owned(),
        });
    }
    let fault = |reason: std::io::Error| io(path, reason);
    let mut bytes = [0; RECORD];
    file.seek(SeekFrom::End(-(RECORD as i64))).map_err(fault)?;
    file.read_exact(&mut bytes).map_err(fault)?;
    let (record, crc) = Record::from_bytes(&bytes, path)?;
    file.seek(SeekFrom::Start(0)).map_err(fault)?;
    let mut payload = Payload {
        source: BufReader::with_capacity(1 << 20, file),
        crc: crc32fast::Hasher::new(),
        left: length - RECORD as u64,
        path,
    };
    // The checksum decides first: after a changed bit, nothing that follows makes sense.
    let sound = payload.check(&record);
    if payload.finish()? != crc {
        return Err(damaged(path, "its content has another checksum"));
    }
    sound?;
    Ok(record)
}

/// What the library wrote, read once from beginning to end.
struct Payload<'a> {
    source: BufReader<File>,
    crc: crc32fast::Hasher,
    left: u64,
    path: &'a Path,
}

impl Payload<'_> {
    fn take(&mut self, out: &mut [u8]) -> Result<(), Error> {
        if self.left < out.len() as u64 {
            return Err(damaged(self.path, "it ends too early"));
        }
        self.source
            .read_exact(out)
            .map_err(|reason| io(self.path, reason))?;
        self.crc.update(out);
        self.left -= out.len() as u64;
        Ok(())
    }

    /// The checksum over everything, once the rest is read.
    fn finish(&mut self) -> Result<u32, Error> {
        let mut buffer = vec![0; 1 << 16];
        while self.left > 0 {
            let length = buffer.len().min(self.left as usize);
            self.take(&mut buffer[..length])?;
        }
        Ok(self.crc.clone().finalize())
    }

    fn check(&mut self, record: &Record) -> Result<(), Error> {
        if record.slots == 0 {
            return self.ensure(self.left == 0, "it holds vectors that it does not count");
        }
        self.check_vectors(record)?;
        let mut head = [0; HEAD];
        self.take(&mut head)?;
        let words = words(record.options.quantization, record.dim) as u64;
        self.ensure(
            head[HEAD_WORDS..HEAD_WORDS + 8] == words.to_le_bytes(),
            "its vectors have another length",
        )?;
        self.check_graph(record)?;
        self.ensure(self.left == 0, "it goes on after its end")
    }

    fn check_vectors(&mut self, record: &Record) -> Result<(), Error> {
        let Record {
            dim, options, slots, ..
        } = *record;
        let width = match options.quantization {
            Quantization::F16 => 2,
            Quantization::I8 => 1,
        };
        let bytes = words(options.quantization, dim) * width;
        let mut shape = [0; SHAPE];
        self.take(&mut shape)?;
        let expected = slots as u64 | (bytes as u64) << 32;
        self.ensure(shape == expected.to_le_bytes(), "its vectors have another shape")?;
        let mut vector = vec![0; bytes];
        for _ in 0..slots {
            self.take(&mut vector)?;
            let finite = match options.quantization {
                Quantization::F16 => vector.as_chunks::<2>().0.iter().fold(true, |finite, &bits| {
                    finite & f16::from_le_bytes(bits).is_finite()
                }),
                // The largest number of a vector is 127, so that it is at least as long as that before it is scaled.
                Quantization::I8 => vector.last_chunk().is_some_and(|&factor| {
                    let factor = f32::from_le_bytes(factor);
                    factor > 0.0 && factor < 1.0 / 126.0
                }),
            };
            self.ensure(finite, "a vector holds NaN or an infinity")?;
        }
        Ok(())
    }

    fn check_graph(&mut self, record: &Record) -> Result<(), Error> {
        let Record { options, slots, .. } = *record;
        let mut head = [0; GRAPH_HEAD];
        self.take(&mut head)?;
        let expected = [slots, options.links, 2 * options.links];
        for (got, expected) in head.as_chunks::<8>().0.iter().zip(expected) {
            self.ensure(
                *got == (expected as u64).to_le_bytes(),
                "its graph has another shape",
            )?;
        }
        let mut levels = vec![[0; 2]; slots];
        self.take(levels.as_flattened_mut())?;
        let levels: Vec<i16> = levels.into_iter().map(i16::from_le_bytes).collect();
        self.ensure(levels.iter().all(|&level| level >= 0), "a level is negative")?;

        let mut found = 0;
        let mut neighbours = vec![[0; 4]; 2 * options.links];
        for &level in &levels {
            let mut node = [0; NODE_HEAD];
            self.take(&mut node)?;
            found += usize::from(node[..8] != [0xff; 8]);
            self.ensure(node[8..] == level.to_le_bytes(), "a vector has two levels")?;
            for level in 0..=level {
                let room = if level == 0 {
                    2 * options.links
                } else {
                    options.links
                };
                let mut count = [0; 4];
                self.take(&mut count)?;
                let count = u32::from_le_bytes(count) as usize;
                self.ensure(count <= room, "a vector has too many neighbours")?;
                self.take(neighbours[..room].as_flattened_mut())?;
                let inside = neighbours[..count].iter().all(|&slot| {
                    let of_neighbour = levels.get(u32::from_le_bytes(slot) as usize);
                    of_neighbour.is_some_and(|&of_neighbour| of_neighbour >= level)
                });
                self.ensure(inside, "a vector has a neighbour that is not there")?;
            }
        }
        self.ensure(found == record.count, "it counts its vectors wrongly")
    }

    fn ensure(&self, holds: bool, what: &'static str) -> Result<(), Error> {
        if holds {
            Ok(())
        } else {
            Err(damaged(self.path, what))
        }
    }
}
