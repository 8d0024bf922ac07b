//! What people wrote about their recordings: files of captions and of tags, matched to recordings by name.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use hark_catalogue::Notes;

use crate::commands::inputs::ColumnArgs;

/// Columns that name the file, and that hold tags, where nothing else is said.
const FILE_COLUMNS: [&str; 6] = ["file", "filename", "path", "filepath", "clip", "name"];
const TAG_COLUMNS: [&str; 9] = [
    "tag",
    "tags",
    "keyword",
    "keywords",
    "category",
    "categories",
    "label",
    "labels",
    "genre",
];

/// Files of notes.
#[derive(Debug, Args)]
pub struct NoteArgs {
    /// Captions of the recordings, in any form that hark reads, matched by file name; may be given several times
    #[arg(long = "captions", value_name = "FILE")]
    captions: Vec<PathBuf>,
    #[command(flatten)]
    columns: ColumnArgs,
    /// A CSV file with tags of the recordings: a column such as `file`, and one such as `tags` or `category`
    #[arg(long = "tags", value_name = "FILE.csv")]
    tags: Vec<PathBuf>,
    /// The column of the tags; may be given several times
    #[arg(long, value_name = "NAME", requires = "tags")]
    tag_column: Vec<String>,
}

/// Notes by what names a recording. Recordings that are not in it keep the notes that they have, and so do those in it of the kind
/// (captions, tags) that it does not have of them.
#[derive(Debug, Default)]
pub struct Annotations(HashMap<String, Notes>);

impl NoteArgs {
    /// Reads all files; none if there are none.
    pub fn read(&self) -> Result<Option<Annotations>> {
        if self.captions.is_empty() && self.tags.is_empty() {
            return Ok(None);
        }
        let mut book = Annotations::default();
        for path in &self.captions {
            let set = self.columns.read(path)?;
            for caption in &set.captions {
                let name = set.clips.get(caption.clip).map_or("", String::as_str);
                book.of(name).captions.push(caption.text.clone());
            }
        }
        for path in &self.tags {
            book.read_tags(path, &self.tag_column)?;
        }
        for notes in book.0.values_mut() {
            notes.tags.sort();
            notes.tags.dedup();
        }
        Ok(Some(book))
    }
}

impl Annotations {
    fn of(&mut self, name: &str) -> &mut Notes {
        self.0.entry(name.trim().replace('\\', "/")).or_default()
    }

    fn read_tags(&mut self, path: &Path, columns: &[String]) -> Result<()> {
        let mut table = csv::ReaderBuilder::new()
            .flexible(true)
            .from_path(path)
            .with_context(|| path.display().to_string())?;
        let headers = table
            .headers()
            .with_context(|| path.display().to_string())?
            .clone();
        let plain = |name: &str| name.to_lowercase().replace([' ', '_', '-', '\u{feff}'], "");
        let named = |names: &[&str]| -> Vec<usize> {
            (0..headers.len())
                .filter(|&nth| names.contains(&plain(&headers[nth]).as_str()))
                .collect()
        };
        let Some(&file) = named(&FILE_COLUMNS).first() else {
            bail!(
                "{}: no column names the file (such as {})",
                path.display(),
                FILE_COLUMNS.join(", ")
            );
        };
        let tags = if columns.is_empty() {
            named(&TAG_COLUMNS)
        } else {
            let place = |column: &String| {
                headers
                    .iter()
                    .position(|header| header == column)
                    .with_context(|| format!("{}: no column {column}", path.display()))
            };
            columns.iter().map(place).collect::<Result<_>>()?
        };
        if tags.is_empty() {
            bail!(
                "{}: no column of tags (such as {}); name it with --tag-column",
                path.display(),
                TAG_COLUMNS.join(", ")
            );
        }
        for row in table.records() {
            let row = row.with_context(|| path.display().to_string())?;
            let Some(name) = row.get(file).filter(|name| !name.trim().is_empty()) else {
                continue;
            };
            let found = tags.iter().filter_map(|&column| row.get(column));
            let found = found.flat_map(|cell| cell.split([',', ';', '|']));
            let found = found
                .map(|tag| tag.trim().to_owned())
                .filter(|tag| !tag.is_empty());
            self.of(name).tags.extend(found);
        }
        Ok(())
    }

    /// The notes of a recording that had these.
    pub fn over(&self, path: &str, before: Notes) -> Notes {
        let Some(found) = self.find(path) else {
            return before;
        };
        let either = |new: &Vec<String>, old: Vec<String>| if new.is_empty() { old } else { new.clone() };
        Notes {
            captions: either(&found.captions, before.captions),
            tags: either(&found.tags, before.tags),
        }
    }

    /// Notes of a recording: of its path, or of the longest end of its path that there are notes of (`takes/a.wav`, `a.wav`), or
    /// of its name without the ending.
    fn find(&self, path: &str) -> Option<&Notes> {
        let ends = path.match_indices('/').map(|(place, _)| &path[place + 1..]);
        let name = path.rsplit('/').next().unwrap_or(path);
        let stem = name.rsplit_once('.').map(|(stem, _)| stem);
        std::iter::once(path)
            .chain(ends)
            .chain(stem)
            .find_map(|name| self.0.get(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(text: &str, columns: &[&str]) -> Result<Annotations> {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("tags.csv");
        fs_err::write(&path, text).unwrap();
        let mut book = Annotations::default();
        let columns: Vec<String> = columns.iter().map(|&name| name.to_owned()).collect();
        book.read_tags(&path, &columns)?;
        Ok(book)
    }

    #[test]
    fn tags_are_found_by_the_usual_names_of_columns() {
        let text = "\u{feff}File Name,Category,mood\ntakes\\a.wav,dog; indoor,calm\nb,rain,wild\n,x,y\n";
        let book = tags(text, &[]).unwrap();
        assert_eq!(book.find("/x/takes/a.wav").unwrap().tags, ["dog", "indoor"]);
        assert_eq!(book.find("/x/b.flac").unwrap().tags, ["rain"]);
        assert!(book.find("/x/a.wav").is_none());
        let book = tags(text, &["mood"]).unwrap();
        assert_eq!(book.find("/x/b.flac").unwrap().tags, ["wild"]);
    }

    #[test]
    fn what_the_book_does_not_say_stays() {
        let book = tags("file,tags\na.wav,new\n", &[]).unwrap();
        let before = Notes {
            captions: vec!["a caption".to_owned()],
            tags: vec!["old".to_owned()],
        };
        assert_eq!(book.over("/x/b.wav", before.clone()), before);
        let after = book.over("/x/a.wav", before);
        assert_eq!(
            (after.captions[0].as_str(), after.tags),
            ("a caption", vec!["new".to_owned()])
        );
    }

    #[test]
    fn a_table_without_files_or_tags_is_refused() {
        assert!(
            tags("a,b\n1,2\n", &[])
                .unwrap_err()
                .to_string()
                .contains("names the file")
        );
        assert!(
            tags("file,b\n1,2\n", &[])
                .unwrap_err()
                .to_string()
                .contains("--tag-column")
        );
        assert!(
            tags("file,b\n1,2\n", &["c"])
                .unwrap_err()
                .to_string()
                .contains("no column c")
        );
    }
}
