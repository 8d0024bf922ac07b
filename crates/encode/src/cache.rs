//! The embedding cache: vectors that were computed before, found by model and caption.
//!
//! One file per model, named by the model's fingerprint; every command that embeds captions shares it. The file only
//! grows:
//!
//! ```text
//! header  magic "HARKEMB\n" | version u32 | dim u32 | fingerprint [32]
//! block   magic "BLK\n" | count u32 | crc32 of the table u32 | table | vectors
//! table   count × (key [16], crc32 of the vector u32)
//! vectors count × dim × f32
//! ```
//!
//! All numbers are little-endian; a key is the first 16 bytes of the SHA-256 of the caption. A crash can leave a block
//! that is cut short: the next writer drops it. A vector whose checksum fails counts as absent and is computed again.
//! Writers take turns by a lock on the file; readers need none, as what is complete never changes.

use std::collections::HashMap;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use fs_err::{File, OpenOptions};
use hark_work::files::hex;
use sha2::{Digest, Sha256};

use crate::Error;

const MAGIC: &[u8; 8] = b"HARKEMB\n";
const VERSION: u32 = 1;
const HEADER: u64 = 8 + 4 + 4 + 32;
const BLOCK_MAGIC: &[u8; 4] = b"BLK\n";
const BLOCK_HEADER: u64 = 12;
const ENTRY: u64 = 20;
/// More entries than this in a block can only be damage: writers make blocks of a few hundred.
const MAX_BLOCK: u32 = 1 << 20;

type Key = [u8; 16];

/// An open cache file of one model.
#[derive(Debug)]
pub struct EmbeddingCache {
    path: PathBuf,
    file: File,
    dim: usize,
    index: HashMap<Key, Entry>,
    /// Everything before this offset has been read into the index.
    end: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    offset: u64,
    checksum: u32,
}

impl EmbeddingCache {
    /// Opens the cache of the model with this fingerprint in `directory`, and makes both where they do not exist.
    ///
    /// # Errors
    /// [`Error::Cache`] if the file is not a cache, is of another version, or belongs to another model;
    /// [`Error::Io`] if it cannot be read or made.
    pub fn open(directory: &Path, fingerprint: &[u8; 32], dim: usize) -> Result<Self, Error> {
        fs_err::create_dir_all(directory)?;
        let path = directory.join(format!("{}.embeddings", hex(&fingerprint[..12])));
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)?;
        let mut expected = Vec::with_capacity(HEADER as usize);
        expected.extend_from_slice(MAGIC);
        expected.extend_from_slice(&VERSION.to_le_bytes());
        expected.extend_from_slice(&(dim as u32).to_le_bytes());
        expected.extend_from_slice(fingerprint);
        let lock = Lock::take(&file)?;
        if file.metadata()?.len() < HEADER {
            // New, or its maker crashed before the first vector: nothing can be lost.
            file.file().set_len(0)?;
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&expected)?;
        }
        drop(lock);
        let mut header = vec![0; HEADER as usize];
        file.seek(SeekFrom::Start(0))?;
        file.read_exact(&mut header)?;
        if header != expected {
            let version = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
            let what = if &header[..8] != MAGIC {
                "not an embedding cache".to_owned()
            } else if version != VERSION {
                format!("an embedding cache of version {version}, this program reads version {VERSION}")
            } else {
                "an embedding cache of another model".to_owned()
            };
            return Err(Error::Cache { path, what });
        }
        let mut cache = Self {
            path,
            file,
            dim,
            index: HashMap::new(),
            end: HEADER,
        };
        cache.read_new_blocks()?;
        Ok(cache)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of captions whose vectors are stored.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether nothing is stored yet.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Reads a caption's vector into `vector` (of length `dim`), and says whether there was one.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read.
    ///
    /// # Panics
    /// If `vector` is not of the cache's dimension.
    pub fn get(&mut self, caption: &str, vector: &mut [f32]) -> Result<bool, Error> {
        assert_eq!(vector.len(), self.dim, "vector length");
        let Some(entry) = self.index.get(&key(caption)) else {
            return Ok(false);
        };
        let mut bytes = vec![0; self.dim * 4];
        self.file.seek(SeekFrom::Start(entry.offset))?;
        match self.file.read_exact(&mut bytes) {
            // Another process has dropped a damaged block, and what stood behind it.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            other => other?,
        }
        if crc32fast::hash(&bytes) != entry.checksum {
            return Ok(false);
        }
        for (x, bytes) in vector.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *x = f32::from_le_bytes(*bytes);
        }
        Ok(true)
    }

    /// Adds the vectors of some captions, `[captions, dim]`, as one block: all of them are stored, or none.
    ///
    /// # Errors
    /// [`Error::Io`], for example when the disk is full; the file is then as it was.
    ///
    /// # Panics
    /// If `vectors` does not hold one vector for each caption.
    pub fn append(&mut self, captions: &[&str], vectors: &[f32]) -> Result<(), Error> {
        assert_eq!(vectors.len(), captions.len() * self.dim, "vectors");
        for (captions, vectors) in captions
            .chunks(MAX_BLOCK as usize)
            .zip(vectors.chunks(MAX_BLOCK as usize * self.dim))
        {
            self.append_block(captions, vectors)?;
        }
        Ok(())
    }

    fn append_block(&mut self, captions: &[&str], vectors: &[f32]) -> Result<(), Error> {
        let data: Vec<u8> = vectors.iter().flat_map(|x| x.to_le_bytes()).collect();
        let mut table = Vec::with_capacity(captions.len() * ENTRY as usize);
        for (caption, vector) in captions.iter().zip(data.chunks_exact(self.dim * 4)) {
            table.extend_from_slice(&key(caption));
            table.extend_from_slice(&crc32fast::hash(vector).to_le_bytes());
        }
        let mut block = Vec::with_capacity(BLOCK_HEADER as usize + table.len() + data.len());
        block.extend_from_slice(BLOCK_MAGIC);
        block.extend_from_slice(&(captions.len() as u32).to_le_bytes());
        block.extend_from_slice(&crc32fast::hash(&table).to_le_bytes());
        block.extend_from_slice(&table);
        block.extend_from_slice(&data);

        let _lock = Lock::take(&self.file)?;
        // Other processes may have written since; what they left whole is kept, what they left torn is dropped.
        self.read_new_blocks()?;
        let start = self.end;
        self.file.file().set_len(start)?;
        self.file.seek(SeekFrom::Start(start))?;
        let written = self.file.write_all(&block).and_then(|()| self.file.flush());
        if let Err(error) = written {
            // If even this fails, the torn block is dropped by the next writer.
            let _ = self.file.file().set_len(start);
            return Err(error.into());
        }
        self.read_new_blocks()
    }

    /// Reads the tables of all whole blocks behind `end`, and moves `end` behind them.
    fn read_new_blocks(&mut self) -> Result<(), Error> {
        let length = self.file.metadata()?.len();
        if length < self.end {
            // Another process has dropped a damaged block, and what stood behind it: begin again.
            self.index.clear();
            self.end = HEADER;
        }
        let vector = self.dim as u64 * 4;
        while self.end + BLOCK_HEADER <= length {
            self.file.seek(SeekFrom::Start(self.end))?;
            let mut header = [0; BLOCK_HEADER as usize];
            self.file.read_exact(&mut header)?;
            let word =
                |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
            let (count, checksum) = (word(4), word(8));
            let table_length = u64::from(count) * ENTRY;
            let block_end = self.end + BLOCK_HEADER + table_length + u64::from(count) * vector;
            if &header[..4] != BLOCK_MAGIC || count == 0 || count > MAX_BLOCK || block_end > length {
                break;
            }
            let mut table = vec![0; table_length as usize];
            self.file.read_exact(&mut table)?;
            if crc32fast::hash(&table) != checksum {
                break;
            }
            let first = self.end + BLOCK_HEADER + table_length;
            for (nth, entry) in table.as_chunks::<{ ENTRY as usize }>().0.iter().enumerate() {
                let mut key = Key::default();
                key.copy_from_slice(&entry[..16]);
                let checksum = u32::from_le_bytes([entry[16], entry[17], entry[18], entry[19]]);
                self.index.insert(
                    key,
                    Entry {
                        offset: first + nth as u64 * vector,
                        checksum,
                    },
                );
            }
            self.end = block_end;
        }
        Ok(())
    }
}

fn key(caption: &str) -> Key {
    let mut key = Key::default();
    key.copy_from_slice(&Sha256::digest(caption.as_bytes())[..16]);
    key
}

/// An exclusive lock on the file between processes, held until dropped.
struct Lock(std::fs::File);

impl Lock {
    fn take(file: &File) -> io::Result<Self> {
        let handle = file.file().try_clone()?;
        handle.lock()?;
        Ok(Self(handle))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The lock also ends when the file is closed, so that a failure here has no lasting effect.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: [u8; 32] = [7; 32];

    fn cache(directory: &Path) -> EmbeddingCache {
        EmbeddingCache::open(directory, &MODEL, 3).unwrap()
    }

    fn get(cache: &mut EmbeddingCache, caption: &str) -> Option<[f32; 3]> {
        let mut vector = [0.0; 3];
        cache.get(caption, &mut vector).unwrap().then_some(vector)
    }

    #[test]
    fn what_was_stored_is_found_again() {
        let directory = tempfile::tempdir().unwrap();
        let mut first = cache(directory.path());
        first
            .append(&["rain", "wind"], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
            .unwrap();
        assert_eq!(get(&mut first, "wind"), Some([4.0, 5.0, 6.0]));
        let mut second = cache(directory.path());
        assert_eq!(get(&mut second, "rain"), Some([1.0, 2.0, 3.0]));
        assert_eq!(get(&mut second, "hail"), None);
    }

    #[test]
    fn a_block_cut_short_anywhere_loses_only_itself() {
        let directory = tempfile::tempdir().unwrap();
        let mut whole = cache(directory.path());
        whole.append(&["rain"], &[1.0, 2.0, 3.0]).unwrap();
        let kept = whole.end;
        whole
            .append(&["wind", "hail"], &[4.0, 5.0, 6.0, 7.0, 8.0, 9.0])
            .unwrap();
        let bytes = fs_err::read(whole.path()).unwrap();
        for length in kept..bytes.len() as u64 {
            fs_err::write(whole.path(), &bytes[..length as usize]).unwrap();
            let mut torn = cache(directory.path());
            assert_eq!(torn.len(), 1, "cut at {length}");
            torn.append(&["snow"], &[0.5, 0.5, 0.5]).unwrap();
            let mut mended = cache(directory.path());
            assert_eq!(get(&mut mended, "rain"), Some([1.0, 2.0, 3.0]));
            assert_eq!(get(&mut mended, "snow"), Some([0.5, 0.5, 0.5]));
            assert_eq!(get(&mut mended, "wind"), None);
        }
    }

    #[test]
    fn a_damaged_vector_counts_as_absent() {
        let directory = tempfile::tempdir().unwrap();
        let mut written = cache(directory.path());
        written
            .append(&["rain", "wind"], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
            .unwrap();
        let mut bytes = fs_err::read(written.path()).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs_err::write(written.path(), bytes).unwrap();
        let mut damaged = cache(directory.path());
        assert_eq!(get(&mut damaged, "rain"), Some([1.0, 2.0, 3.0]));
        assert_eq!(get(&mut damaged, "wind"), None);
    }

    #[test]
    fn two_writers_see_each_other() {
        let directory = tempfile::tempdir().unwrap();
        let (mut a, mut b) = (cache(directory.path()), cache(directory.path()));
        a.append(&["rain"], &[1.0, 2.0, 3.0]).unwrap();
        b.append(&["wind"], &[4.0, 5.0, 6.0]).unwrap();
        a.append(&["hail"], &[7.0, 8.0, 9.0]).unwrap();
        assert_eq!(get(&mut b, "rain"), Some([1.0, 2.0, 3.0]));
        assert_eq!(get(&mut a, "wind"), Some([4.0, 5.0, 6.0]));
        assert_eq!(cache(directory.path()).len(), 3);
    }

    /// A block damaged in the middle of the file costs what stands behind it, and nothing more.
    #[test]
    fn damage_in_the_middle_leaves_no_hole() {
        let directory = tempfile::tempdir().unwrap();
        let mut open_before = cache(directory.path());
        open_before.append(&["rain"], &[1.0, 2.0, 3.0]).unwrap();
        let second = open_before.end;
        open_before.append(&["wind"], &[4.0, 5.0, 6.0]).unwrap();
        open_before.append(&["hail"], &[7.0, 8.0, 9.0]).unwrap();
        let mut bytes = fs_err::read(open_before.path()).unwrap();
        bytes[second as usize] ^= 1;
        fs_err::write(open_before.path(), bytes).unwrap();
        let mut mender = cache(directory.path());
        mender.append(&["snow"], &[0.5, 0.5, 0.5]).unwrap();
        assert_eq!(get(&mut open_before, "hail"), None);
        open_before.append(&["wind"], &[4.0, 5.0, 6.0]).unwrap();
        let mut fresh = cache(directory.path());
        assert_eq!(get(&mut fresh, "rain"), Some([1.0, 2.0, 3.0]));
        assert_eq!(get(&mut fresh, "snow"), Some([0.5, 0.5, 0.5]));
        assert_eq!(get(&mut fresh, "wind"), Some([4.0, 5.0, 6.0]));
        assert_eq!(fresh.len(), 3);
    }

    #[test]
    fn another_version_or_model_is_refused_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = cache(directory.path()).path().to_owned();
        let open = || {
            EmbeddingCache::open(directory.path(), &MODEL, 3)
                .unwrap_err()
                .to_string()
        };
        let good = fs_err::read(&path).unwrap();
        for (at, said) in [
            (0, "not an embedding cache"),
            (8, "version"),
            (20, "another model"),
        ] {
            let mut bytes = good.clone();
            bytes[at] ^= 0xff;
            fs_err::write(&path, &bytes).unwrap();
            assert!(open().contains(said), "{}", open());
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_behind_the_header_never_panic(tail in proptest::collection::vec(0_u8..=255, 0..200)) {
            let directory = tempfile::tempdir().unwrap();
            let path = cache(directory.path()).path().to_owned();
            let mut bytes = fs_err::read(&path).unwrap();
            bytes.extend(tail);
            fs_err::write(&path, bytes).unwrap();
            let mut opened = cache(directory.path());
            opened.append(&["rain"], &[1.0, 2.0, 3.0]).unwrap();
            proptest::prop_assert_eq!(get(&mut opened, "rain"), Some([1.0, 2.0, 3.0]));
        }
    }
}
