//! Any CSV, TSV or JSON Lines table with a column of paths and one or more of captions.
//!
//! A clip's id is its path as the table writes it; rows with the same path are captions of one recording. Paths are
//! relative to the table's folder, or to the one that is named, or absolute. A path without extension, or with one of
//! another format than the file has, is found as well.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::listing::Listing;
use super::{Audio, Gathered, Wanted, need_folder, parent_of};
use crate::captions::open;
use crate::error::Place;
use crate::{CaptionSet, Error, Format, columns, format};

pub(super) fn gather(
    file: &Path,
    audio_folder: Option<&Path>,
    path_column: Option<&str>,
    caption_columns: &[String],
) -> Result<Gathered, Error> {
    if let Some(folder) = audio_folder {
        need_folder(
            folder,
            "this is the folder that was named for the recordings of a table",
        )?;
    }
    let base = audio_folder.unwrap_or_else(|| parent_of(file));
    let format = format_of(file, path_column, caption_columns)?;
    let set = CaptionSet::read(file, &format)?;
    let mut folders: HashMap<PathBuf, Listing> = HashMap::new();
    let mut wanted = Vec::with_capacity(set.clips.len());
    for id in set.clips {
        let path = base.join(id.trim_end());
        let folder = parent_of(&path);
        if !folders.contains_key(folder) {
            folders.insert(folder.to_owned(), Listing::everything(folder)?);
        }
        let name = path.file_name().and_then(|name| name.to_str());
        let found = name.and_then(|name| folders.get(folder)?.find(name));
        let audio = found.map_or(Audio::Missing(path), Audio::Found);
        wanted.push(Wanted { id, audio });
    }
    Ok(Gathered {
        wanted,
        captions: set.captions.into_iter().map(|c| (c.clip, c.text)).collect(),
        caption_files: vec![file.to_owned()],
        searched: vec![base.to_owned()],
        listing: Listing::join(folders.into_values()),
        ..Gathered::default()
    })
}

/// Which columns to read: those named, and the usual ones for what is not.
fn format_of(file: &Path, path: Option<&str>, captions: &[String]) -> Result<Format, Error> {
    if let (Some(path), false) = (path, captions.is_empty()) {
        return Ok(Format::Table {
            captions: captions.to_vec(),
            id: Some(path.to_owned()),
        });
    }
    let found = format::column_names(&mut open(file)?, file)?;
    let missing = |column: &str| Error::MissingColumn {
        path: file.into(),
        place: Place::line(1),
        column: column.to_owned(),
        found: found.clone(),
    };
    let usual = || columns::file_column(&found).map(|place| found[place].clone());
    let id = path
        .map(str::to_owned)
        .or_else(usual)
        .ok_or_else(|| missing("path"))?;
    let mut captions = captions.to_vec();
    if captions.is_empty() {
        captions.extend(
            columns::caption_columns(&found)
                .iter()
                .map(|&place| found[place].clone()),
        );
    }
    if captions.is_empty() {
        return Err(missing("caption"));
    }
    Ok(Format::Table {
        captions,
        id: Some(id),
    })
}
