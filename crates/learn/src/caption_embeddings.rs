//! The sentence encoder's embeddings of all captions of a split, on disk.
//!
//! 400,000 captions of 768 numbers are 1.2 GB; as 16-bit numbers in a file they are half of that and take no memory: the
//! rows of a batch are read when the batch is made, from the page cache where there is room. Rounding to 16 bits moves a
//! similarity by less than 1e-4.

use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use half::f16;
use hark_work::files::replace_file;
use sha2::{Digest, Sha256};

use crate::Error;

const MAGIC: &[u8; 16] = b"hark captions 1\n";
/// Magic, hash, length of a row, number of rows.
const HEADER: u64 = 16 + 32 + 4 + 8;
/// Captions that are embedded at a time.
const BLOCK: usize = 4096;

/// Vectors of captions, from a file.
#[derive(Debug)]
pub struct CaptionEmbeddings {
    file: fs_err::File,
    dim: usize,
    rows: usize,
}

/// Embeds captions: unit vectors, one after the other. All calls give vectors of one length.
pub type Embed<'a> = &'a mut dyn FnMut(&[&str]) -> Result<Vec<f32>, Error>;

impl CaptionEmbeddings {
    /// Opens the file of these captions' vectors by the encoder of this name, or makes it.
    ///
    /// # Errors
    /// If the file cannot be written or the captions not embedded.
    pub fn open(path: &Path, captions: &[&str], encoder: &str, embed: Embed<'_>) -> Result<Self, Error> {
        let mut hash = Sha256::new();
        hash.update(encoder.as_bytes());
        for caption in captions {
            hash.update((caption.len() as u64).to_le_bytes());
            hash.update(caption.as_bytes());
        }
        let hash: [u8; 32] = hash.finalize().into();
        // One that cannot be read is made anew.
        if let Ok(Some(teacher)) = Self::existing(path, &hash, captions.len()) {
            return Ok(teacher);
        }
        replace_file(path, |out| {
            out.write_all(&[0; HEADER as usize])?;
            let mut dim = 0;
            for block in captions.chunks(BLOCK) {
                let vectors = embed(block)?;
                dim = vectors.len() / block.len();
                for number in vectors {
                    out.write_all(&f16::from_f32(number).to_le_bytes())?;
                }
            }
            // The header says how long rows are, which the first block has shown.
            out.seek(SeekFrom::Start(0))?;
            out.write_all(MAGIC)?;
            out.write_all(&hash)?;
            out.write_all(&(dim as u32).to_le_bytes())?;
            Ok::<_, Error>(out.write_all(&(captions.len() as u64).to_le_bytes())?)
        })?;
        Self::existing(path, &hash, captions.len())?.ok_or_else(|| Error::Damaged {
            path: path.to_owned(),
            what: "not what was just written".into(),
        })
    }

    fn existing(path: &Path, hash: &[u8; 32], rows: usize) -> Result<Option<Self>, Error> {
        if !path.is_file() {
            return Ok(None);
        }
        let mut file = fs_err::File::open(path)?;
        let mut header = [0; HEADER as usize];
        if file.read_exact(&mut header).is_err() || &header[..16] != MAGIC || &header[16..48] != hash {
            return Ok(None);
        }
        let dim = u32::from_le_bytes([header[48], header[49], header[50], header[51]]) as usize;
        let expected = HEADER + 2 * (rows as u64) * dim as u64;
        if file.metadata()?.len() != expected {
            return Ok(None);
        }
        Ok(Some(Self { file, dim, rows }))
    }

    /// Length of a vector.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Number of captions.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no captions.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The unit vectors of these captions, one after the other.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&mut self, captions: impl IntoIterator<Item = usize>) -> Result<Vec<f32>, Error> {
        let mut vectors = Vec::new();
        let mut bytes = vec![0; 2 * self.dim];
        for caption in captions {
            self.file
                .seek(SeekFrom::Start(HEADER + 2 * (caption * self.dim) as u64))?;
            self.file.read_exact(&mut bytes)?;
            let first = vectors.len();
            vectors.extend(
                bytes
                    .chunks_exact(2)
                    .map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()),
            );
            // Rounding has moved the length a little away from 1.
            let row = &mut vectors[first..];
            let length = row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
            for x in row {
                *x = (f64::from(*x) / length.max(f64::MIN_POSITIVE)) as f32;
            }
        }
        Ok(vectors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(caption: &str) -> [f32; 3] {
        let x = caption.len() as f32;
        let length = (x * x + 1.0 + 0.25_f32).sqrt();
        [x / length, -1.0 / length, 0.5 / length]
    }

    #[test]
    fn rows_are_the_vectors_of_their_captions_and_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("captions.f16");
        let captions: Vec<String> = (0..5000).map(|n| "a".repeat(n % 40 + 1)).collect();
        let captions: Vec<&str> = captions.iter().map(String::as_str).collect();
        let mut calls = 0;
        let mut open = |captions: &[&str], encoder: &str| {
            CaptionEmbeddings::open(&path, captions, encoder, &mut |block| {
                calls += 1;
                Ok(block.iter().flat_map(|caption| vector(caption)).collect())
            })
            .unwrap()
        };
        let mut teacher = open(&captions, "one");
        assert_eq!((teacher.dim(), teacher.len()), (3, 5000));
        let got = teacher.read([4999, 0, 7]).unwrap();
        let expected = [captions[4999], captions[0], captions[7]].map(vector).concat();
        for (got, expected) in got.iter().zip(expected) {
            // Half a last place of 16 bits at 1.
            assert!((got - expected).abs() < 5e-4, "{got} {expected}");
        }
        open(&captions, "one");
        open(&captions[..4000], "one");
        open(&captions[..4000], "two");
        // Two blocks, none, one, one.
        assert_eq!(calls, 4);
    }
}
