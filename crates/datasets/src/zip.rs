//! ZIP archives, whole or cut into parts (`NAME.z01`, `NAME.z02`, ..., `NAME.zip`), read in place.
//!
//! The directory at the end names for each entry the part and the offset in it where the entry begins (APPNOTE 4.4), so an
//! entry is read from the parts as they are, also across a border: nothing is joined, which for the largest dataset would
//! take the disk twice. ZIP64 entries (APPNOTE 4.5.3) have 64-bit sizes and offsets and 32-bit parts. The crate `zip` refuses
//! archives of several parts.
//!
//! Sizes, names and places are checked against the archive before an entry is read. Refused: encryption, and compression
//! other than deflate.

use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::PathBuf;

use flate2::read::DeflateDecoder;

use crate::Error;
use crate::parts::{PartList, Parts};

const END: u32 = 0x0605_4b50;
const END64: u32 = 0x0606_4b50;
const LOCATOR64: u32 = 0x0706_4b50;
const ENTRY: u32 = 0x0201_4b50;
const LOCAL: u32 = 0x0403_4b50;
/// Length of the end record without its comment.
const END_BYTES: usize = 22;
/// The most bytes of a directory that are taken into memory: 512 MiB, of which the largest real one needs a tenth.
const MAX_DIRECTORY: u64 = 512 << 20;

/// An archive whose directory was read.
#[derive(Debug)]
pub(crate) struct Zip {
    parts: PartList,
    pub(crate) entries: Vec<Entry>,
}

/// What the directory says of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) packed: u64,
    crc: u32,
    method: u16,
    encrypted: bool,
    /// Where its local header begins in the whole.
    at: u64,
}

impl Entry {
    /// Whether it begins before a position and ends behind it.
    #[cfg(test)]
    pub(crate) fn crosses(&self, position: u64) -> bool {
        self.at + 46 < position && self.at + self.packed > position
    }
}

impl Zip {
    /// Reads the directory of an archive, whose last part is named last.
    pub(crate) fn open(paths: &[PathBuf]) -> Result<Self, Error> {
        let last = paths.last().cloned().unwrap_or_default();
        let fault = |reason: String| Error::Archive {
            archive: last.clone(),
            reason,
        };
        let parts = PartList::new(paths)?;
        let mut file = parts.open();
        let end = find_end(&mut file, &parts)
            .map_err(|source| read_fault(source).map_or_else(Error::Io, &fault))?
            .ok_or_else(|| fault("it is not a ZIP archive, or its end is missing".to_owned()))?;
        if end.last_part + 1 != parts.count() as u64 {
            return Err(fault(format!(
                "it has {} parts, and {} are here",
                end.last_part + 1,
                parts.count()
            )));
        }
        let start = parts
            .position(end.part, end.offset)
            .filter(|start| start.checked_add(end.bytes).is_some_and(|to| to <= parts.bytes()))
            .ok_or_else(|| fault("its directory lies outside the archive".to_owned()))?;
        if end.bytes > MAX_DIRECTORY {
            return Err(fault(format!("its directory has {} bytes", end.bytes)));
        }
        let mut directory = Vec::new();
        file.seek(SeekFrom::Start(start))?;
        let read = file.by_ref().take(end.bytes).read_to_end(&mut directory)?;
        if read as u64 != end.bytes {
            return Err(fault("its directory is cut off".to_owned()));
        }
        let entries =
            read_directory(&directory, &parts).ok_or_else(|| fault("its directory is damaged".to_owned()))?;
        if entries.len() as u64 != end.entries {
            return Err(fault(format!(
                "its directory has {} entries instead of {}",
                entries.len(),
                end.entries
            )));
        }
        Ok(Self { parts, entries })
    }

    /// The part in which an entry begins.
    pub(crate) fn path_of(&self, entry: &Entry) -> &PathBuf {
        self.parts.path_at(entry.at)
    }

    /// The contents of an entry, which end with an error if their checksum or length is not the stated one. The reason of a
    /// refusal is in words.
    pub(crate) fn read(&self, entry: &Entry) -> Result<Box<dyn Read>, String> {
        if entry.encrypted {
            return Err("it is encrypted".to_owned());
        }
        let mut file = self.parts.open();
        let mut header = [0; 30];
        file.seek(SeekFrom::Start(entry.at))
            .and_then(|_| file.read_exact(&mut header))
            .map_err(|error| error.to_string())?;
        let name = u16::from_le_bytes([header[26], header[27]]);
        let extra = u16::from_le_bytes([header[28], header[29]]);
        if header[..4] != LOCAL.to_le_bytes() {
            return Err("there is no entry where the directory says".to_owned());
        }
        let start = entry.at + 30 + u64::from(name) + u64::from(extra);
        if start
            .checked_add(entry.packed)
            .is_none_or(|end| end > self.parts.bytes())
        {
            return Err("it is longer than the archive".to_owned());
        }
        file.seek(SeekFrom::Start(start))
            .map_err(|error| error.to_string())?;
        let packed: io::Take<BufReader<Parts>> = BufReader::with_capacity(1 << 16, file).take(entry.packed);
        let plain: Box<dyn Read> = match entry.method {
            0 if entry.packed == entry.size => Box::new(packed),
            0 => return Err("it is stored, and its two sizes differ".to_owned()),
            8 => Box::new(DeflateDecoder::new(packed)),
            other => {
                return Err(format!(
                    "it is compressed by method {other}, which hark does not know"
                ));
            }
        };
        Ok(Box::new(Checked {
            plain,
            left: entry.size,
            crc: entry.crc,
            hash: crc32fast::Hasher::new(),
        }))
    }
}

/// Contents that must have the stated length and checksum.
struct Checked {
    plain: Box<dyn Read>,
    left: u64,
    crc: u32,
    hash: crc32fast::Hasher,
}

impl Read for Checked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let count = self.plain.read(buffer)?;
        let invalid = |reason: &str| Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        if count as u64 > self.left {
            return invalid("it is longer than the archive states");
        }
        self.left -= count as u64;
        self.hash.update(&buffer[..count]);
        if count == 0 {
            if self.left > 0 {
                return invalid("it is shorter than the archive states");
            }
            if self.hash.clone().finalize() != self.crc {
                return invalid("its checksum is wrong");
            }
        }
        Ok(count)
    }
}

/// What the record at the end says of the directory.
struct End {
    last_part: u64,
    part: u64,
    entries: u64,
    bytes: u64,
    offset: u64,
}

/// A fault of the file itself goes on; one of its contents becomes words.
fn read_fault(source: io::Error) -> Result<String, io::Error> {
    match source.kind() {
        io::ErrorKind::UnexpectedEof => Ok("it is cut off".to_owned()),
        _ => Err(source),
    }
}

fn find_end(file: &mut Parts, parts: &PartList) -> io::Result<Option<End>> {
    let tail_bytes = parts.bytes().min(END_BYTES as u64 + u64::from(u16::MAX));
    let tail_at = parts.bytes() - tail_bytes;
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(tail_at))?;
    file.by_ref().take(tail_bytes).read_to_end(&mut tail)?;
    // The record ends with a comment of stated length, and the file with it.
    let is_end = |at: &usize| {
        let record = Fields(&tail[*at..]);
        record.u32(0) == Some(END) && record.u16(20).map(usize::from) == Some(tail.len() - at - END_BYTES)
    };
    let Some(at) = (0..(tail.len() + 1).saturating_sub(END_BYTES)).rev().find(is_end) else {
        return Ok(None);
    };
    let record = Fields(&tail[at..]);
    let short = || {
        Some(End {
            last_part: record.u16(4)?.into(),
            part: record.u16(6)?.into(),
            entries: record.u16(10)?.into(),
            bytes: record.u32(12)?.into(),
            offset: record.u32(16)?.into(),
        })
    };
    let Some(locator) = at.checked_sub(20).map(|at| Fields(&tail[at..])) else {
        return Ok(short());
    };
    if locator.u32(0) != Some(LOCATOR64) {
        return Ok(short());
    }
    let place = || parts.position(locator.u32(4)?.into(), locator.u64(8)?);
    let Some(at) = place() else { return Ok(None) };
    let mut record = [0; 56];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut record)?;
    let record = Fields(&record);
    if record.u32(0) != Some(END64) {
        return Ok(None);
    }
    let long = || {
        Some(End {
            last_part: record.u32(16)?.into(),
            part: record.u32(20)?.into(),
            entries: record.u64(32)?,
            bytes: record.u64(40)?,
            offset: record.u64(48)?,
        })
    };
    Ok(long())
}

fn read_directory(mut bytes: &[u8], parts: &PartList) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        let fixed = Fields(bytes);
        if fixed.u32(0)? != ENTRY {
            return None;
        }
        let [name, extra, comment] = [fixed.u16(28)?, fixed.u16(30)?, fixed.u16(32)?].map(usize::from);
        let rest = bytes.get(46..)?;
        let (name_bytes, rest) = rest.split_at_checked(name)?;
        let (extra, rest) = rest.split_at_checked(extra)?;
        bytes = rest.get(comment..)?;
        // What does not fit is in the field of ZIP64, in this order.
        let mut wide = Fields(field_of_zip64(extra).unwrap_or_default());
        let mut or_wide = |value: u32| {
            if value == u32::MAX {
                wide.take_u64()
            } else {
                Some(u64::from(value))
            }
        };
        let size = or_wide(fixed.u32(24)?)?;
        let packed = or_wide(fixed.u32(20)?)?;
        let offset = or_wide(fixed.u32(42)?)?;
        let part = match fixed.u16(34)? {
            u16::MAX => u64::from(wide.u32(0)?),
            part => part.into(),
        };
        entries.push(Entry {
            name: String::from_utf8_lossy(name_bytes).into_owned(),
            size,
            packed,
            crc: fixed.u32(16)?,
            method: fixed.u16(10)?,
            encrypted: fixed.u16(8)? & 1 != 0,
            at: parts.position(part, offset)?,
        });
    }
    Some(entries)
}

/// The field with number 1 among the extra ones.
fn field_of_zip64(mut extra: &[u8]) -> Option<&[u8]> {
    loop {
        let head = Fields(extra);
        let (number, length) = (head.u16(0)?, head.u16(2)?);
        let (field, rest) = extra.get(4..)?.split_at_checked(length.into())?;
        if number == 1 {
            return Some(field);
        }
        extra = rest;
    }
}

/// Little-endian numbers at offsets; `None` beyond the end.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u16(&self, at: usize) -> Option<u16> {
        Some(u16::from_le_bytes(*self.0.get(at..)?.first_chunk()?))
    }

    fn u32(&self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(*self.0.get(at..)?.first_chunk()?))
    }

    fn u64(&self, at: usize) -> Option<u64> {
        Some(u64::from_le_bytes(*self.0.get(at..)?.first_chunk()?))
    }

    fn take_u64(&mut self) -> Option<u64> {
        let number = self.u64(0)?;
        self.0 = &self.0[8..];
        Some(number)
    }
}
