//! Captions and tags that people wrote about their recordings, matched by file name.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use hark_catalogue::Notes;
use hark_corpus::columns;
use serde::Serialize;

use crate::error::Error;

/// Unmatched names that [`Matched`] lists.
const LISTED: usize = 5;

/// How many of the annotated names are names of recordings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Matched {
    /// Names that have captions or tags.
    pub names: usize,
    /// Of them, names of recordings of the library.
    pub matched: usize,
    /// The first few of the others.
    pub unmatched: Vec<String>,
}

/// Captions and tags by the name of the recording, in lower case: tables are often made on another system, whose names differ
/// in case.
#[derive(Debug, Default)]
pub struct Annotations(BTreeMap<String, Notes>);

impl Annotations {
    fn of(&mut self, name: &str) -> &mut Notes {
        let name = name.trim().replace('\\', "/").to_lowercase();
        self.0.entry(name).or_default()
    }

    /// Adds a caption. `name` is a path, the end of one (`takes/a.wav`, `a.wav`), or a file name without its extension.
    pub fn add_caption(&mut self, name: &str, caption: &str) {
        self.of(name).captions.push(caption.to_owned());
    }

    /// Adds the tags of a CSV file, which has one column that names the file and others with tags, separated by commas,
    /// semicolons or bars. Without `tag_columns`, columns of tags are found by their names.
    ///
    /// # Errors
    /// If the file cannot be read or has no such columns.
    pub fn read_tags(&mut self, path: &Path, tag_columns: &[String]) -> Result<(), Error> {
        let bad = |source| Error::Csv {
            path: path.to_owned(),
            source,
        };
        let text = fs_err::read_to_string(path)?;
        let text = text.trim_start_matches('\u{feff}');
        let mut table = csv::ReaderBuilder::new()
            .flexible(true)
            .delimiter(columns::delimiter(text, b','))
            .from_reader(text.as_bytes());
        let headers: Vec<String> = table.headers().map_err(bad)?.iter().map(str::to_owned).collect();
        let Some(file) = columns::file_column(&headers) else {
            return Err(Error::NoFileColumn {
                path: path.to_owned(),
                expected: columns::FILE.join(", "),
            });
        };
        let tags = if tag_columns.is_empty() {
            columns::tag_columns(&headers)
        } else {
            let place = |column: &String| {
                let place = headers.iter().position(|header| header == column);
                place.ok_or_else(|| Error::NoColumn {
                    path: path.to_owned(),
                    column: column.clone(),
                })
            };
            tag_columns.iter().map(place).collect::<Result<_, _>>()?
        };
        if tags.is_empty() {
            return Err(Error::NoTagColumn {
                path: path.to_owned(),
                expected: columns::TAG.join(", "),
            });
        }
        for row in table.records() {
            let row = row.map_err(bad)?;
            let Some(name) = row.get(file).filter(|name| !name.trim().is_empty()) else {
                continue;
            };
            let found = tags.iter().filter_map(|&column| row.get(column));
            let found = found.flat_map(|cell| cell.split([',', ';', '|']));
            let found = found
                .map(|tag| tag.trim().to_owned())
                .filter(|tag| !tag.is_empty());
            let tags = &mut self.of(name).tags;
            tags.extend(found);
            tags.sort();
            tags.dedup();
        }
        Ok(())
    }

    /// The notes of a recording that had these before. Captions replace captions and tags replace tags; what is not
    /// annotated here stays.
    pub(crate) fn merged_with(&self, path: &str, before: Notes) -> Notes {
        let Some(found) = self.find(path) else {
            return before;
        };
        let either = |new: &Vec<String>, old: Vec<String>| if new.is_empty() { old } else { new.clone() };
        Notes {
            captions: either(&found.captions, before.captions),
            tags: either(&found.tags, before.tags),
        }
    }

    /// All tags, sorted, each once.
    pub fn tags(&self) -> Vec<String> {
        let mut tags: Vec<String> = self.0.values().flat_map(|notes| notes.tags.clone()).collect();
        tags.sort_unstable();
        tags.dedup();
        tags
    }

    /// How many of the names belong to one of these recordings.
    pub(crate) fn matched<'a>(&self, paths: impl Iterator<Item = &'a str>) -> Matched {
        let mut found: HashSet<&str> = HashSet::new();
        for path in paths {
            found.extend(self.entry(path).map(|(name, _)| name.as_str()));
        }
        let unmatched = self.0.keys().filter(|name| !found.contains(name.as_str()));
        Matched {
            names: self.0.len(),
            matched: found.len(),
            unmatched: unmatched.take(LISTED).cloned().collect(),
        }
    }

    pub(crate) fn find(&self, path: &str) -> Option<&Notes> {
        self.entry(path).map(|(_, notes)| notes)
    }

    /// The notes of a recording's path, else of the longest end of its path (`takes/a.wav`, `a.wav`), else of its name
    /// without the extension.
    fn entry(&self, path: &str) -> Option<(&String, &Notes)> {
        let path = path.to_lowercase();
        let ends = path.match_indices('/').map(|(place, _)| &path[place + 1..]);
        let name = path.rsplit('/').next().unwrap_or(&path);
        let stem = name.rsplit_once('.').map(|(stem, _)| stem);
        let mut names = std::iter::once(path.as_str()).chain(ends).chain(stem);
        names.find_map(|name| self.0.get_key_value(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(text: &str, columns: &[&str]) -> Result<Annotations, Error> {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("tags.csv");
        fs_err::write(&path, text).unwrap();
        let mut annotations = Annotations::default();
        let columns: Vec<String> = columns.iter().map(|&name| name.to_owned()).collect();
        annotations.read_tags(&path, &columns)?;
        Ok(annotations)
    }

    #[test]
    fn tags_are_found_by_the_usual_names_of_columns() {
        let text = "\u{feff}File Name,Category,mood\ntakes\\a.wav,dog; indoor,calm\nb,rain,wild\n,x,y\n";
        let annotations = tags(text, &[]).unwrap();
        assert_eq!(
            annotations.find("/x/takes/a.wav").unwrap().tags,
            ["dog", "indoor"]
        );
        assert_eq!(annotations.find("/x/b.flac").unwrap().tags, ["rain"]);
        assert!(annotations.find("/x/a.wav").is_none());
        let annotations = tags(text, &["mood"]).unwrap();
        assert_eq!(annotations.find("/x/b.flac").unwrap().tags, ["wild"]);
    }

    #[test]
    fn names_match_without_case_and_are_counted() {
        let annotations = tags("FILE;Tags\nTakes/A.WAV;dog\nb.wav;rain\nnone.wav;x\n", &[]).unwrap();
        assert_eq!(annotations.find("/x/takes/a.wav").unwrap().tags, ["dog"]);
        let matched = annotations.matched(["/x/takes/a.wav", "/y/B.wav", "/z/b.wav", "/c.wav"].into_iter());
        assert_eq!(
            matched,
            Matched {
                names: 3,
                matched: 2,
                unmatched: vec!["none.wav".to_owned()]
            }
        );
    }

    #[test]
    fn what_is_not_annotated_stays() {
        let annotations = tags("file,tags\na.wav,new\n", &[]).unwrap();
        let before = Notes {
            captions: vec!["a caption".to_owned()],
            tags: vec!["old".to_owned()],
        };
        assert_eq!(annotations.merged_with("/x/b.wav", before.clone()), before);
        let after = annotations.merged_with("/x/a.wav", before);
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
