//! Where the parts of a PyTorch file lie: its pickle, and the storages that hold the tensors' bytes.
//!
//! In: a path. Out: the pickle's values, the place of a storage by its key, and the bytes there. Two layouts are read:
//!
//! - the zip archive of `torch.save` since version 1.6: `NAME/data.pkl`, `NAME/data/KEY` for each storage, and
//!   `NAME/byteorder`, where NAME is any one folder. PyTorch never compresses; an archive that was packed anew with
//!   the usual method is read too, within limits, since such an entry may be far longer than the file.
//! - the stream that `torch.save` wrote before ([`super::legacy`]).
//!
//! Refused: a file that is cut short, an archive with two entries of one name, an entry that is not as long as its
//! storage or fails its checksum, numbers with their highest byte first, TorchScript, and the tar files of PyTorch's
//! first releases. Names of entries are only compared, and never become paths.

use std::collections::HashMap;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fs_err::File;
use zip::read::{ArchiveOffset, Config, ZipArchiveMetadata};
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive, ZipReadOptions};

use super::pickle::{self, PickleError};
use super::value::{Pickle, Storage, shortened};
use super::{damaged, legacy, unsupported};
use crate::Error;

/// The most bytes of an archive that are read to find its entries; an entry takes about a hundred.
const MAX_DIRECTORY: u64 = 64 << 20;
/// The longest storage that is kept in compressed form, as it is when unpacked.
const MAX_UNPACKED: u64 = 1 << 30;
/// Bytes are handed on in blocks of this size, which every element's size divides.
const BLOCK: usize = 1 << 16;

/// An open file whose storages can be read.
#[derive(Debug)]
pub(super) struct Container {
    path: PathBuf,
    file: BufReader<File>,
    length: u64,
    layout: Layout,
}

#[derive(Debug)]
enum Layout {
    Zip(Archive),
    /// The older stream: where each storage begins, by its key.
    Stream(HashMap<String, u64>),
}

/// The entries of a zip archive by their names.
#[derive(Debug)]
struct Archive {
    metadata: Arc<ZipArchiveMetadata>,
    entries: HashMap<Vec<u8>, usize>,
    /// The name of the folder that everything is in.
    folder: Vec<u8>,
}

/// Where the bytes of a storage are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    source: Source,
    /// How many bytes the storage has.
    bytes: u64,
    /// The checksum of all of them, if the file has one.
    checksum: Option<u32>,
}

#[derive(Debug, Clone, Copy)]
enum Source {
    /// As they are, from this byte of the file on.
    At(u64),
    /// Compressed, in this entry of the archive.
    Packed(usize),
}

impl Container {
    /// Opens the file and reads its pickle; no storage is read yet.
    pub(super) fn open(path: &Path) -> Result<(Self, Pickle), Error> {
        let mut file = BufReader::new(File::open(path)?);
        let length = file.seek(SeekFrom::End(0))?;
        file.rewind()?;
        let mut start = Vec::new();
        file.by_ref().take(512).read_to_end(&mut start)?;
        file.rewind()?;
        // A tar archive has the name of its format in the header of its first file.
        if start.get(257..262) == Some(b"ustar") {
            return Err(unsupported(
                path,
                "a tar file, which PyTorch wrote before 2017,".into(),
            ));
        }
        let layout = if start.starts_with(b"PK") {
            Layout::Zip(Archive::open(path, &mut file)?)
        } else {
            let (places, pickle) = legacy::read(path, &mut file, length)?;
            let layout = Layout::Stream(places);
            return Ok((Self::new(path, file, length, layout), pickle));
        };
        let mut container = Self::new(path, file, length, layout);
        container.check_byte_order()?;
        let Some(bytes) = container.whole_entry("data.pkl", pickle::MAX_BYTES)? else {
            return Err(damaged(path, "it has no data.pkl".into()));
        };
        let pickle = pickle::read(&mut Cursor::new(bytes)).map_err(|e| pickle_error(path, e))?;
        Ok((container, pickle))
    }

    fn new(path: &Path, file: BufReader<File>, length: u64, layout: Layout) -> Self {
        Self {
            path: path.to_owned(),
            file,
            length,
            layout,
        }
    }

    /// Finds a storage, and checks that it is there as a whole.
    pub(super) fn place(&mut self, storage: &Storage, key: &str) -> Result<Place, Error> {
        let missing = || {
            damaged(
                &self.path,
                format!("the storage `{}` is not there", shortened(key)),
            )
        };
        let Some(bytes) = storage.count.checked_mul(storage.dtype.size()) else {
            return Err(missing());
        };
        match &self.layout {
            Layout::Stream(places) => Ok(Place {
                source: Source::At(*places.get(key).ok_or_else(missing)?),
                bytes,
                checksum: None,
            }),
            Layout::Zip(archive) => {
                let index = archive.find(&format!("data/{key}")).ok_or_else(missing)?;
                let place = self.entry(index, MAX_UNPACKED)?;
                if place.bytes != bytes {
                    return Err(damaged(
                        &self.path,
                        format!(
                            "the storage `{}` has {} bytes, its pickle says {bytes}",
                            shortened(key),
                            place.bytes
                        ),
                    ));
                }
                Ok(place)
            }
        }
    }

    /// Hands a part of a storage to `sink`, block by block; only the last block may be shorter than the others.
    pub(super) fn read(
        &mut self,
        place: Place,
        from: u64,
        length: u64,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Error> {
        let mut checksum = crc32fast::Hasher::new();
        let mut sink = |block: &[u8]| {
            checksum.update(block);
            sink(block);
        };
        let done = match (place.source, &self.layout) {
            (Source::Packed(index), Layout::Zip(archive)) => {
                let options = ZipReadOptions::new().ignore_crc32(true);
                let entry = archive.metadata.entry(index);
                entry
                    .and_then(|entry| entry.with_reader(&mut self.file, options))
                    .map_err(into_io)
                    .and_then(|mut entry| {
                        io::copy(&mut entry.by_ref().take(from), &mut io::sink())?;
                        in_blocks(&mut entry, length, &mut sink)
                    })
            }
            (Source::Packed(_), Layout::Stream(_)) => Err(io::ErrorKind::UnexpectedEof.into()),
            (Source::At(start), _) => self
                .file
                .seek(SeekFrom::Start(start.saturating_add(from)))
                .and_then(|_| in_blocks(&mut self.file, length, &mut sink)),
        };
        done.map_err(|error| read_error(&self.path, error))?;
        // A part has no checksum of its own.
        let whole = from == 0 && length == place.bytes;
        if whole
            && place
                .checksum
                .is_some_and(|expected| expected != checksum.finalize())
        {
            return Err(damaged(&self.path, "the checksum of a storage is wrong".into()));
        }
        Ok(())
    }

    /// That the numbers have their lowest byte first; older files do not say.
    fn check_byte_order(&mut self) -> Result<(), Error> {
        match self.whole_entry("byteorder", 16)?.as_deref() {
            None | Some(b"little") => Ok(()),
            Some(_) => Err(unsupported(
                &self.path,
                "a file of a machine with another byte order".into(),
            )),
        }
    }

    /// An entry of the archive as it is, if it is there.
    fn whole_entry(&mut self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, Error> {
        let Layout::Zip(archive) = &self.layout else {
            return Ok(None);
        };
        let Some(index) = archive.find(name) else {
            return Ok(None);
        };
        let place = self.entry(index, limit)?;
        if place.bytes > limit {
            return Err(unsupported(
                &self.path,
                format!("an entry `{name}` of {} bytes", place.bytes),
            ));
        }
        let mut bytes = Vec::new();
        self.read(place, 0, place.bytes, &mut |block| bytes.extend_from_slice(block))?;
        Ok(Some(bytes))
    }

    /// Where an entry of the archive is. One that is compressed may have `limit` bytes when unpacked.
    fn entry(&mut self, index: usize, limit: u64) -> Result<Place, Error> {
        let path = &self.path;
        let Layout::Zip(archive) = &self.layout else {
            return Err(damaged(path, "it is no archive".into()));
        };
        let zip_error = |error| read_error(path, into_io(error));
        let entry = archive.metadata.entry(index).map_err(zip_error)?;
        let (method, bytes, packed_bytes) = (entry.compression(), entry.size(), entry.compressed_size());
        let name = shortened(&String::from_utf8_lossy(entry.name_raw()));
        if entry.encrypted() {
            return Err(unsupported(path, format!("the encrypted entry `{name}`")));
        }
        // The archive can be saved without checksums, which are then 0.
        let checksum = Some(entry.crc32()).filter(|crc| *crc != 0);
        let opened = entry.with_reader(&mut self.file, ZipReadOptions::new().ignore_crc32(true));
        let start = opened.map_err(zip_error)?.data_start().unwrap_or(u64::MAX);
        if start
            .checked_add(packed_bytes)
            .is_none_or(|end| end > self.length)
        {
            return Err(damaged(path, format!("the entry `{name}` is cut short")));
        }
        let source = match method {
            CompressionMethod::Stored if packed_bytes == bytes => Source::At(start),
            CompressionMethod::Stored => {
                return Err(damaged(path, format!("the entry `{name}` has two lengths")));
            }
            CompressionMethod::Deflated if bytes <= limit => Source::Packed(index),
            CompressionMethod::Deflated => {
                return Err(unsupported(
                    path,
                    format!("the compressed entry `{name}` of {bytes} bytes"),
                ));
            }
            other => {
                return Err(unsupported(
                    path,
                    format!("the entry `{name}` with the compression {other}"),
                ));
            }
        };
        Ok(Place {
            source,
            bytes,
            checksum,
        })
    }
}

impl Archive {
    fn open(path: &Path, file: &mut BufReader<File>) -> Result<Self, Error> {
        let limited = Limited {
            inner: file,
            left: MAX_DIRECTORY,
        };
        let config = Config {
            archive_offset: ArchiveOffset::Known(0),
        };
        let archive =
            ZipArchive::with_config(config, limited).map_err(|error| read_error(path, into_io(error)))?;
        let metadata = archive.metadata();
        if metadata.has_duplicate_names() {
            return Err(damaged(path, "two of its entries have the same name".into()));
        }
        let mut entries = HashMap::with_capacity(metadata.len());
        for (index, name) in archive.file_names_raw().enumerate() {
            entries.insert(name.to_vec(), index);
        }
        let folder = only_folder(path, &entries)?;
        let archive = Self {
            metadata,
            entries,
            folder,
        };
        if archive.find("constants.pkl").is_some() {
            return Err(unsupported(
                path,
                "a TorchScript archive (made by torch.jit.save)".into(),
            ));
        }
        Ok(archive)
    }

    /// The entry of this name in the archive's folder.
    fn find(&self, name: &str) -> Option<usize> {
        let whole = [self.folder.as_slice(), b"/", name.as_bytes()].concat();
        self.entries.get(&whole).copied()
    }
}

/// The one folder of the archive that has a pickle directly in it.
fn only_folder(path: &Path, entries: &HashMap<Vec<u8>, usize>) -> Result<Vec<u8>, Error> {
    let mut folders = entries
        .keys()
        .filter_map(|name| name.strip_suffix(b"/data.pkl"))
        .filter(|folder| !folder.contains(&b'/'));
    match (folders.next(), folders.next()) {
        (Some(folder), None) => Ok(folder.to_vec()),
        (None, _) => Err(damaged(
            path,
            "a zip archive without a data.pkl in its folder".into(),
        )),
        (Some(_), Some(_)) => Err(damaged(path, "a zip archive with more than one data.pkl".into())),
    }
}

fn in_blocks(input: &mut impl Read, length: u64, sink: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    let mut block = vec![0_u8; length.min(BLOCK as u64) as usize];
    let mut left = length;
    while left > 0 {
        let part = left.min(BLOCK as u64);
        let part_of_block = block.get_mut(..part as usize).unwrap_or_default();
        input.read_exact(part_of_block)?;
        sink(part_of_block);
        left -= part;
    }
    Ok(())
}

/// What a pickle's error means for its file.
pub(super) fn pickle_error(path: &Path, error: PickleError) -> Error {
    match error {
        PickleError::Io(error) => Error::Io(error),
        too_much @ PickleError::TooMuch { .. } => unsupported(path, too_much.to_string()),
        other => damaged(path, other.to_string()),
    }
}

/// What an error in the middle of a file that was opened means: it is at fault, or the disk is.
pub(super) fn read_error(path: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged(path, "it is cut short".into()),
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported => {
            damaged(path, error.to_string())
        }
        _ => Error::Io(error),
    }
}

fn into_io(error: ZipError) -> io::Error {
    match error {
        ZipError::Io(error) => error,
        other => io::Error::new(io::ErrorKind::InvalidData, other),
    }
}

/// A reader that fails once it has given so many bytes.
struct Limited<'a> {
    inner: &'a mut BufReader<File>,
    left: u64,
}

impl Read for Limited<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "the directory of its archive is too long",
            )
        })?;
        Ok(read)
    }
}

impl Seek for Limited<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}
