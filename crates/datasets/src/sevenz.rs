//! 7z archives, by the crate `sevenz-rust2` with LZMA and LZMA2 alone. Many entries are compressed together, so they are read in
//! their order; those that are not needed are decoded and dropped.

use std::io::Read;
use std::path::Path;

use fs_err::File;
use sevenz_rust2::{Archive, ArchiveReader, Password};

use crate::Error;

fn fault(path: &Path, error: &sevenz_rust2::Error) -> Error {
    Error::Archive {
        archive: path.to_owned(),
        reason: error.to_string(),
    }
}

/// Reads the directory of an archive.
pub(crate) fn open(path: &Path) -> Result<Archive, Error> {
    let mut file = File::open(path)?;
    Archive::read(&mut file, &Password::empty()).map_err(|error| fault(path, &error))
}

/// Hands the entries over one by one, by name.
pub(crate) fn read(
    archive: &Archive,
    path: &Path,
    threads: usize,
    take: &mut dyn FnMut(&str, &mut dyn Read) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut reader = ArchiveReader::from_archive(archive.clone(), File::open(path)?, Password::empty());
    reader.set_thread_count(threads as u32);
    let mut failure = None;
    let read = reader.for_each_entries(|entry, contents| {
        // Each block of entries asks again.
        if failure.is_none() && !entry.is_directory() {
            failure = take(entry.name(), contents).err();
        }
        Ok(failure.is_none())
    });
    match (failure, read) {
        (Some(failure), _) => Err(failure),
        (None, Err(error)) => Err(fault(path, &error)),
        (None, Ok(())) => Ok(()),
    }
}
