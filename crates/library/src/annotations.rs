//! Captions and tags that people wrote about their recordings, matched by file name.

use std::collections::HashMap;
use std::path::Path;

use hark_catalogue::Notes;

use crate::error::Error;

/// Names of the columns that hold file names and tags, compared without case, blanks, dashes and underscores.
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

/// Captions and tags by the name of the recording.
#[derive(Debug, Default)]
pub struct Annotations(HashMap<String, Notes>);

impl Annotations {
    fn of(&mut self, name: &str) -> &mut Notes {
        self.0.entry(name.trim().replace('\\', "/")).or_default()
    }

    /// Adds a caption. `name` is a path, the end of one (`takes/a.wav`, `a.wav`), or a file name without its extension.
    pub fn add_caption(&mut self, name: &str, caption: &str) {
        self.of(name).captions.push(caption.to_owned());
    }

    /// Adds the tags of a CSV file, which has one column that names the file and others with tags, separated by commas,
    /// semicolons or bars. Without `columns`, columns of tags are found by their names.
    ///
    /// # Errors
    /// If the file cannot be read or has no such columns.
    pub fn read_tags(&mut self, path: &Path, columns: &[String]) -> Result<(), Error> {
        let bad = |source| Error::Csv {
            path: path.to_owned(),
            source,
        };
        let mut table = csv::ReaderBuilder::new()
            .flexible(true)
            .from_path(path)
            .map_err(bad)?;
        let headers = table.headers().map_err(bad)?.clone();
        let plain = |name: &str| name.to_lowercase().replace([' ', '_', '-', '\u{feff}'], "");
        let named = |names: &[&str]| -> Vec<usize> {
            (0..headers.len())
                .filter(|&nth| names.contains(&plain(&headers[nth]).as_str()))
                .collect()
        };
        let Some(&file) = named(&FILE_COLUMNS).first() else {
            return Err(Error::NoFileColumn {
                path: path.to_owned(),
                expected: FILE_COLUMNS.join(", "),
            });
        };
        let tags = if columns.is_empty() {
            named(&TAG_COLUMNS)
        } else {
            let place = |column: &String| {
                headers
                    .iter()
                    .position(|header| header == column)
                    .ok_or_else(|| Error::NoColumn {
                        path: path.to_owned(),
                        column: column.clone(),
                    })
            };
            columns.iter().map(place).collect::<Result<_, _>>()?
        };
        if tags.is_empty() {
            return Err(Error::NoTagColumn {
                path: path.to_owned(),
                expected: TAG_COLUMNS.join(", "),
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

    /// The notes of a recording's path, else of the longest end of its path (`takes/a.wav`, `a.wav`), else of its name
    /// without the extension.
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
