//! Checksums of bytes as they come in.

use std::fmt;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;

use fs_err::File;
use hark_work::files::hex;
use hark_work::progress::Cancelled;
use md5::{Digest as _, Md5};
use sha2::{Digest as _, Sha256};

use crate::Error;

/// A checksum that a publisher states, in lowercase hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checksum {
    /// MD5, as Zenodo states it. It detects damage; it is no proof against forgery.
    Md5(String),
    /// SHA-256.
    Sha256(String),
}

impl Checksum {
    /// The digits alone.
    pub fn digits(&self) -> &str {
        match self {
            Self::Md5(digits) | Self::Sha256(digits) => digits,
        }
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Md5(digits) => write!(f, "md5 {digits}"),
            Self::Sha256(digits) => write!(f, "sha256 {digits}"),
        }
    }
}

/// What was downloaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Length of the file.
    pub bytes: u64,
    /// Its SHA-256, in lowercase hexadecimal digits.
    pub sha256: String,
    /// Its MD5, if the expected checksum is one.
    pub md5: Option<String>,
}

impl Fetched {
    /// Whether the file has this checksum.
    pub fn has(&self, expected: &Checksum) -> bool {
        self.differs(expected).is_none()
    }

    /// The checksum of the same kind as `expected`, if that is another one than expected.
    pub(crate) fn differs(&self, expected: &Checksum) -> Option<Checksum> {
        let got = match expected {
            Checksum::Md5(_) => Checksum::Md5(self.md5.clone().unwrap_or_default()),
            Checksum::Sha256(_) => Checksum::Sha256(self.sha256.clone()),
        };
        (got != *expected).then_some(got)
    }
}

/// Sums up bytes.
#[derive(Clone)]
pub(crate) struct Summing {
    bytes: u64,
    sha256: Sha256,
    md5: Option<Md5>,
}

impl Summing {
    pub(crate) fn new(expected: Option<&Checksum>) -> Self {
        Self {
            bytes: 0,
            sha256: Sha256::new(),
            md5: matches!(expected, Some(Checksum::Md5(_))).then(Md5::new),
        }
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.sha256.update(bytes);
        if let Some(md5) = &mut self.md5 {
            md5.update(bytes);
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn finish(self) -> Fetched {
        Fetched {
            bytes: self.bytes,
            sha256: hex(&self.sha256.finalize()),
            md5: self.md5.map(|md5| hex(&md5.finalize())),
        }
    }

    /// Adds all bytes of a file. `on_bytes` is told how many there were so far.
    pub(crate) fn add_file(
        &mut self,
        path: &Path,
        on_bytes: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let mut file = File::open(path)?;
        let mut buffer = vec![0; 1 << 18];
        loop {
            let count = file.read(&mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            self.add(&buffer[..count]);
            if on_bytes(self.bytes).is_break() {
                return Err(Cancelled.into());
            }
        }
    }
}

/// Length and SHA-256 of a file on disk, and its MD5 if `expected` is one.
///
/// # Errors
/// If the file cannot be read.
pub fn digest_file(path: &Path, expected: Option<&Checksum>) -> Result<Fetched, Error> {
    let mut sum = Summing::new(expected);
    sum.add_file(path, &mut |_| ControlFlow::Continue(()))?;
    Ok(sum.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test values of RFC 1321 and FIPS 180-2.
    #[test]
    fn sums_are_those_of_the_standards() {
        let md5 = Checksum::Md5("900150983cd24fb0d6963f7d28e17f72".to_owned());
        let mut sum = Summing::new(Some(&md5));
        sum.add(b"a");
        sum.add(b"bc");
        let got = sum.finish();
        assert_eq!(got.bytes, 3);
        assert_eq!(
            got.sha256,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(got.differs(&md5), None);
        let other = Checksum::Md5("0".repeat(32));
        assert_eq!(got.differs(&other), Some(md5));
        assert!(got.has(&Checksum::Sha256(got.sha256.clone())));
    }

    #[test]
    fn a_file_on_disk_has_the_same_sum() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let bytes = vec![7; 300_000];
        fs_err::write(&path, &bytes).unwrap();
        let mut sum = Summing::new(None);
        sum.add(&bytes);
        assert_eq!(digest_file(&path, None).unwrap(), sum.finish());
    }
}
