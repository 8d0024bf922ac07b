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
    /// Form of the recordings out of archives: `original`, or what they were converted to. `None` as long as there are none.
    #[serde(default)]
    pub form: Option<String>,
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

    /// The record of a folder, or an empty one. Refused: a record of another dataset, or of recordings in another form, if one
    /// is asked for.
    pub(crate) fn open(folder: &Path, dataset: &str, form: Option<&str>) -> Result<Self, Error> {
        let path = Self::path(folder);
        if !path.is_file() {
            return Ok(Self {
                version: VERSION,
                dataset: dataset.to_owned(),
                form: None,
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
        if let (Some(found), Some(asked)) = (&record.form, form)
            && found != asked
        {
            return Err(Error::OtherForm {
                folder: folder.to_owned(),
                found: found.clone(),
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
        let (original, flac) = (Some("original"), Some("flac-32k 600"));
        let mut record = Record::open(folder, "clotho", original).unwrap();
        record.write(folder).unwrap();
        // Captions alone have no form.
        assert_eq!(Record::open(folder, "clotho", flac).unwrap(), record);
        let error = |dataset: &str, form| Record::open(folder, dataset, form).unwrap_err().to_string();
        let text = error("esc50", None);
        assert!(
            text.contains("holds clotho; pull esc50 to another folder"),
            "{text}"
        );
        record.form = original.map(str::to_owned);
        record.write(folder).unwrap();
        assert_eq!(Record::open(folder, "clotho", original).unwrap(), record);
        assert_eq!(Record::open(folder, "clotho", None).unwrap(), record);
        let text = error("clotho", flac);
        assert!(
            text.ends_with(
                "already holds recordings as they are published; leave out --as, or pull to another folder"
            ),
            "{text}"
        );
        record.form = flac.map(str::to_owned);
        record.write(folder).unwrap();
        let text = error("clotho", original);
        assert!(
            text.ends_with(
                "already holds recordings as flac-32k (first 600 s); add --as flac-32k --seconds 600, or pull to \
                 another folder"
            ),
            "{text}"
        );
        fs_err::write(Record::path(folder), "{}").unwrap();
        let text = error("clotho", None);
        assert!(
            text.contains("hark-pull.json") && text.contains("remove it"),
            "{text}"
        );
    }
}
