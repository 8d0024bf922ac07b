//! Which FreeSound recordings to exclude from WavCaps: those in Clotho would be trained on before they are tested on.
//!
//! In: a CSV list of FreeSound ids, or Clotho's own metadata, whose `sound_id` is the FreeSound id. The published
//! metadata is Latin-1 text: a file that is not UTF-8 is read as that. Out: a set of ids. Refused: a list with
//! something else than a number in it, and files that give no id at all.

use std::collections::HashSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::delimited::Rows;
use crate::input::{Input, Limits};

/// The largest list or metadata file, in bytes: 64 MiB. Clotho's have less than 1 MiB.
const MAX_LIST_BYTES: u64 = 64 << 20;

/// The columns of a list that hold the ids, best first.
const ID_COLUMNS: [&str; 5] = ["id", "sound_id", "freesound_id", "file_name", "filename"];
const SOUND_ID: &str = "sound_id";

/// Where the FreeSound ids to exclude are listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exclusion {
    /// A CSV file of ids: the column `id`, `sound_id` or `freesound_id`, or else the first one, with or without a
    /// header.
    List(PathBuf),
    /// Clotho's metadata: one file, or a folder with `clotho_metadata_*.csv`, all of which are read.
    Clotho(PathBuf),
}

/// The ids of an [`Exclusion`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExcludedIds {
    /// FreeSound ids, without zeros before them.
    pub ids: HashSet<String>,
    /// Recordings of Clotho whose metadata gives no id: of some it says `Not found`.
    pub unknown: usize,
}

impl Exclusion {
    /// The ids.
    ///
    /// # Errors
    /// [`Error::NotAnId`], [`Error::NoIds`], [`Error::NoCaptionFile`], and what can be wrong with any CSV file.
    pub fn ids(&self) -> Result<ExcludedIds, Error> {
        match self {
            Self::List(file) => Ok(ExcludedIds {
                ids: list(file)?,
                unknown: 0,
            }),
            Self::Clotho(path) => {
                let mut all = ExcludedIds::default();
                for file in metadata_files(path)? {
                    all.ids.extend(sound_ids(&file, &mut all.unknown)?);
                }
                Ok(all)
            }
        }
    }
}

/// YouTube ids of a CSV list: the column `youtube_id`, `ytid`, `id` or `file_name`, or else the first one, with or without a
/// header. An id may have a `Y` before it and an extension after it, as the names of files do.
pub(super) fn youtube_ids(file: &Path) -> Result<HashSet<String>, Error> {
    read_ids(file, |rows, ids| {
        let header = rows.columns();
        let names = ["youtube_id", "ytid", "id", "file_name", "filename"];
        let named = names
            .iter()
            .find_map(|wanted| header.iter().position(|name| name.eq_ignore_ascii_case(wanted)));
        if named.is_none() {
            ids.extend(header.first().and_then(|name| youtube_id(name)));
        }
        let column = named.unwrap_or(0);
        while let Some(row) = rows.next_row()? {
            ids.extend(youtube_id(row.get(column)));
        }
        Ok(())
    })
}

/// The eleven characters of a YouTube id.
fn youtube_id(field: &str) -> Option<String> {
    let name = super::listing::stem_of(field.trim());
    let id = match name.len() {
        12 => name.strip_prefix('Y')?,
        _ => name,
    };
    let is_id = id.len() == 11
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    is_id.then(|| id.to_owned())
}

fn metadata_files(path: &Path) -> Result<Vec<PathBuf>, Error> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let names = super::listing::caption_files_in(path);
    let is_metadata = |name: &&String| {
        let split = name.strip_prefix("clotho_metadata_");
        split.is_some_and(|split| split.to_ascii_lowercase().ends_with(".csv"))
    };
    let files: Vec<PathBuf> = names
        .iter()
        .filter(is_metadata)
        .map(|name| path.join(name))
        .collect();
    if files.is_empty() {
        return Err(Error::NoCaptionFile {
            path: path.join("clotho_metadata_development.csv"),
            found: names,
            layout: "Clotho's clotho_metadata_SPLIT.csv lists the FreeSound ids to exclude",
        });
    }
    Ok(files)
}

/// The ids of Clotho's metadata. Of some recordings it says only that they were not found.
fn sound_ids(file: &Path, unknown: &mut usize) -> Result<HashSet<String>, Error> {
    read_ids(file, |rows, ids| {
        let column = rows.column(SOUND_ID)?;
        while let Some(row) = rows.next_row()? {
            match number(row.get(column)) {
                Some(id) => _ = ids.insert(id),
                None => *unknown += 1,
            }
        }
        Ok(())
    })
}

fn list(file: &Path) -> Result<HashSet<String>, Error> {
    read_ids(file, |rows, ids| {
        let header = rows.columns();
        let named = ID_COLUMNS
            .iter()
            .find_map(|wanted| header.iter().position(|name| name.eq_ignore_ascii_case(wanted)));
        if named.is_none() {
            // Without a header the first row is an id already.
            ids.extend(header.first().and_then(|name| number(name)));
        }
        let column = named.unwrap_or(0);
        while let Some(row) = rows.next_row()? {
            let id = number(row.get(column)).ok_or_else(|| Error::NotAnId {
                path: file.into(),
                line: row.line,
                got: row.get(column).to_owned(),
            })?;
            ids.insert(id);
        }
        Ok(())
    })
}

/// The ids that `collect` finds in the rows of a file, at least one.
fn read_ids(
    file: &Path,
    collect: impl FnOnce(&mut Rows<'_>, &mut HashSet<String>) -> Result<(), Error>,
) -> Result<HashSet<String>, Error> {
    let text = text_of(file)?;
    let no_ids = || Error::NoIds { path: file.into() };
    let mut bytes = text.as_bytes();
    let input = Input::new(&mut bytes, file.into(), Limits::STATED);
    let mut rows = Rows::open(input, b',')?.ok_or_else(no_ids)?;
    let mut ids = HashSet::new();
    collect(&mut rows, &mut ids)?;
    if ids.is_empty() { Err(no_ids()) } else { Ok(ids) }
}

/// A FreeSound id without the zeros before it, the extension of a file name, or the `.0` of programs that take ids
/// for fractions.
fn number(field: &str) -> Option<String> {
    let field = super::listing::stem_of(field.trim());
    let field = field.strip_suffix(".0").unwrap_or(field);
    let digits = !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| match field.trim_start_matches('0') {
        "" => "0".to_owned(),
        id => id.to_owned(),
    })
}

/// The text of a file: UTF-8, or else Latin-1, in which every byte is the character of that number.
fn text_of(file: &Path) -> Result<String, Error> {
    let opened = fs_err::File::open(file).map_err(Error::Open)?;
    let mut bytes = Vec::new();
    let read = |source| Error::Read {
        path: file.into(),
        source,
    };
    opened
        .take(MAX_LIST_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(read)?;
    if bytes.len() as u64 > MAX_LIST_BYTES {
        return Err(Error::TooLarge {
            path: file.into(),
            limit: MAX_LIST_BYTES,
        });
    }
    let text = String::from_utf8(bytes);
    Ok(text.unwrap_or_else(|error| error.as_bytes().iter().map(|&byte| char::from(byte)).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(make: fn(PathBuf) -> Exclusion, name: &str, bytes: &[u8]) -> Result<Vec<String>, Error> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(name);
        fs_err::write(&file, bytes).unwrap();
        let mut ids: Vec<String> = make(file).ids()?.ids.into_iter().collect();
        ids.sort();
        Ok(ids)
    }

    #[test]
    fn lists_with_and_without_header() {
        for text in [
            "12\n007\n",
            "id\n12\n7\n",
            "freesound\n7\n12\n",
            "name,sound_id\na,7.0\nb,12\n",
            "file_name\n7.wav\n12.flac\n",
            "\u{feff}ID,title\r\n12,rain\r\n7,\"a, b\"\r\n",
        ] {
            assert_eq!(
                ids(Exclusion::List, "x.csv", text.as_bytes()).unwrap(),
                ["12", "7"],
                "{text:?}"
            );
        }
        let error = ids(Exclusion::List, "x.csv", b"id\n12\nrain\n").unwrap_err();
        assert!(matches!(error, Error::NotAnId { line: 3, .. }), "{error}");
        for text in ["", "id\n", "\n"] {
            let error = ids(Exclusion::List, "x.csv", text.as_bytes()).unwrap_err();
            assert!(matches!(error, Error::NoIds { .. }), "{text:?}: {error}");
        }
    }

    #[test]
    fn metadata_in_latin_1_and_in_utf_8() {
        let text = "file_name,keywords,sound_id,manufacturer\na.wav,caf\u{e9},12,Jos\u{e9}\nb.wav,x,Not found,y\nc.wav,x,7,y\n";
        let latin: Vec<u8> = text.chars().map(|letter| letter as u8).collect();
        assert!(std::str::from_utf8(&latin).is_err());
        for bytes in [text.as_bytes(), &latin] {
            assert_eq!(
                ids(Exclusion::Clotho, "clotho_metadata_development.csv", bytes).unwrap(),
                ["12", "7"]
            );
        }
        let error = ids(Exclusion::Clotho, "m.csv", b"file_name,caption_1\na,b\n").unwrap_err();
        assert!(matches!(error, Error::MissingColumn { .. }), "{error}");
    }

    #[test]
    fn a_folder_of_metadata_is_read_whole() {
        let folder = tempfile::tempdir().unwrap();
        let error = Exclusion::Clotho(folder.path().to_owned()).ids().unwrap_err();
        assert!(matches!(error, Error::NoCaptionFile { .. }), "{error}");
        for (split, id) in [("development", 1), ("validation", 2), ("evaluation", 3)] {
            let file = folder.path().join(format!("clotho_metadata_{split}.csv"));
            fs_err::write(file, format!("file_name,sound_id\nx.wav,{id}\n")).unwrap();
        }
        let ids = Exclusion::Clotho(folder.path().to_owned()).ids().unwrap();
        assert_eq!(ids.ids, ["1", "2", "3"].map(str::to_owned).into());
    }
}
