//! `hark-pull.json` in a dataset's folder: what was downloaded, from where, with which checksums.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hark_download::Fetched;
use hark_work::files;
use serde::{Deserialize, Serialize};

use crate::Error;

const FILE: &str = "hark-pull.json";
const VERSION: u32 = 1;

/// What was downloaded to a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Format version of the file.
    pub version: u32,
    /// Name of the dataset.
    pub dataset: String,
    /// Form of the recordings: `original`, or what they were converted to.
    pub form: String,
    /// By name.
    pub files: BTreeMap<String, RecordedFile>,
}

/// A downloaded file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedFile {
    /// Its published address.
    pub url: String,
    /// Its length.
    pub bytes: u64,
    /// SHA-256 of what was downloaded, in hexadecimal digits.
    pub sha256: String,
    /// The checksum that its publisher states, which it has; `None` if none is stated.
    pub stated: Option<String>,
}

impl RecordedFile {
    pub(crate) fn new(url: &str, fetched: &Fetched, stated: Option<String>) -> Self {
        Self {
            url: url.to_owned(),
            bytes: fetched.bytes,
            sha256: fetched.sha256.clone(),
            stated,
        }
    }
}

impl Record {
    pub(crate) fn path(folder: &Path) -> PathBuf {
        folder.join(FILE)
    }

    /// The record of a folder, or an empty one. Refused: a record of another dataset or form.
    pub(crate) fn open(folder: &Path, dataset: &str, form: &str) -> Result<Self, Error> {
        let path = Self::path(folder);
        if !path.is_file() {
            return Ok(Self {
                version: VERSION,
                dataset: dataset.to_owned(),
                form: form.to_owned(),
                files: BTreeMap::new(),
            });
        }
        let unreadable = |reason: String| Error::Record {
            path: path.clone(),
            reason,
        };
        let record: Self =
            serde_json::from_slice(&fs_err::read(&path)?).map_err(|error| unreadable(error.to_string()))?;
        if record.version != VERSION {
            return Err(unreadable(format!(
                "its version is {}, not {VERSION}",
                record.version
            )));
        }
        if record.dataset != dataset {
            return Err(Error::OtherDataset {
                folder: folder.to_owned(),
                found: record.dataset,
                asked: dataset.to_owned(),
            });
        }
        if record.form != form {
            return Err(Error::OtherForm {
                folder: folder.to_owned(),
                found: record.form,
                asked: form.to_owned(),
            });
        }
        Ok(record)
    }

    pub(crate) fn write(&self, folder: &Path) -> Result<(), Error> {
        let path = Self::path(folder);
        let mut text = serde_json::to_vec_pretty(self).map_err(|error| Error::Record {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        text.push(b'\n');
        files::write(&path, &text).map_err(|source| Error::writing(&path, source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_belongs_to_one_dataset_in_one_form() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let record = Record::open(folder, "clotho", "original").unwrap();
        record.write(folder).unwrap();
        assert_eq!(Record::open(folder, "clotho", "original").unwrap(), record);
        let error = Record::open(folder, "esc50", "original").unwrap_err().to_string();
        assert!(
            error.contains("holds clotho; pull esc50 to another folder"),
            "{error}"
        );
        let error = Record::open(folder, "clotho", "flac-32k 600")
            .unwrap_err()
            .to_string();
        assert!(error.contains("are original, not flac-32k 600"), "{error}");
        fs_err::write(Record::path(folder), "{}").unwrap();
        let error = Record::open(folder, "clotho", "original")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("hark-pull.json") && error.contains("remove it"),
            "{error}"
        );
    }
}
