//! Which format a file has, and the way to its reader.
//!
//! The extension says what kind of file it is (comma or tab separated, JSON, JSON Lines, text); the header says which
//! dataset it is. A name without a known extension, such as standard input, is judged by its first line.

use std::fmt;
use std::io::BufRead;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use crate::captions::{CaptionSet, Filling};
use crate::columns;
use crate::delimited::Rows;
use crate::input::{Input, Limits};
use crate::json::Fields;
use crate::{Error, audiocaps, clotho, table, text, wavcaps};

/// The form of a caption file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Format {
    /// Found out from the file's extension and first line. A table of no known dataset is refused: its caption
    /// column has to be named ([`Format::Table`]).
    #[default]
    Auto,
    /// Clotho's CSV: `file_name,caption_1,caption_2,...`. The clip's id is the file name.
    Clotho,
    /// AudioCaps' CSV: `audiocap_id,youtube_id,start_time,caption`. The clip's id is `YOUTUBE-ID_START-TIME`.
    AudioCaps,
    /// WavCaps' JSON: an object whose `data` is a list of objects with `id` and `caption`.
    WavCaps,
    /// One caption a line. The clip's id is the number of the line; blank lines are skipped.
    Text,
    /// A CSV, TSV or JSON Lines file with columns of other names.
    Table {
        /// The columns that hold captions, at least one.
        captions: Vec<String>,
        /// The column that holds the clip's id; without it, the id is the number of the row.
        id: Option<String>,
    },
}

impl Format {
    /// The formats that have a name, and their names.
    const NAMED: [(&'static str, Self); 5] = [
        ("auto", Self::Auto),
        ("clotho", Self::Clotho),
        ("audiocaps", Self::AudioCaps),
        ("wavcaps", Self::WavCaps),
        ("text", Self::Text),
    ];

    /// The names that can be parsed into a format.
    pub const NAMES: [&'static str; 5] = {
        let mut names = [""; 5];
        let mut at = 0;
        while at < names.len() {
            names[at] = Self::NAMED[at].0;
            at += 1;
        }
        names
    };
}

/// ```
/// use hark_corpus::Format;
///
/// assert_eq!("audiocaps".parse::<Format>()?, Format::AudioCaps);
/// assert!("flickr".parse::<Format>().unwrap_err().to_string().contains("use auto, clotho, audiocaps"));
/// # Ok::<(), hark_corpus::Error>(())
/// ```
impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let named = Self::NAMED
            .into_iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        named
            .map(|(_, format)| format)
            .ok_or_else(|| Error::UnknownFormat { got: name.to_owned() })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Self::NAMED.iter().find(|(_, format)| format == self);
        f.write_str(named.map_or("table", |(name, _)| name))
    }
}

/// What a file is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Delimited(u8),
    Json,
    JsonLines,
    Text,
}

impl Kind {
    /// What the extension says.
    fn of_name(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        Some(match extension.as_str() {
            "csv" => Self::Delimited(b','),
            "tsv" | "tab" => Self::Delimited(b'\t'),
            "json" => Self::Json,
            "jsonl" | "ndjson" => Self::JsonLines,
            "txt" => Self::Text,
            _ => return None,
        })
    }

    /// What the extension says and, of a table, what its header is separated by.
    fn of_file(path: &Path, input: &mut Input<'_>) -> Result<Option<Self>, Error> {
        Ok(match Self::of_name(path) {
            Some(Self::Delimited(usual)) => Some(Self::Delimited(columns::delimiter(input.peek()?, usual))),
            other => other,
        })
    }

    /// What the first line says, if nothing is known. One column of captions alone may be the first of many captions.
    fn of_unnamed(first_line: &str) -> Self {
        if first_line.trim_start().starts_with('{') {
            return Self::Json;
        }
        let of_data_set = |delimiter: char| {
            let columns: Vec<&str> = first_line
                .split(delimiter)
                .map(|name| name.trim().trim_matches('"'))
                .collect();
            let is_table = || columns.len() > 1 && !columns::caption_columns(&columns).is_empty();
            clotho::matches(&columns) || audiocaps::matches(&columns) || is_table()
        };
        match [',', ';', '\t']
            .into_iter()
            .find(|&delimiter| of_data_set(delimiter))
        {
            Some(delimiter) => Self::Delimited(delimiter as u8),
            None => Self::Text,
        }
    }

    /// What the first line says, if it is known to be that of a table.
    fn of_table(first_line: &str) -> Self {
        if first_line.trim_start().starts_with('{') {
            Self::JsonLines
        } else {
            Self::Delimited(columns::delimiter(first_line, b','))
        }
    }
}

pub(crate) fn read(
    reader: &mut dyn BufRead,
    name: &Path,
    format: &Format,
    limits: Limits,
) -> Result<CaptionSet, Error> {
    let path: Arc<Path> = name.into();
    let mut input = Input::new(reader, Arc::clone(&path), limits);
    let mut set = Filling::new(Arc::clone(&path), limits);
    let named = Kind::of_file(name, &mut input)?;
    let delimiter = if let Some(Kind::Delimited(delimiter)) = named {
        delimiter
    } else {
        b','
    };
    let no_captions = || Error::NoCaptions {
        path: Arc::clone(&path),
    };

    match format {
        Format::Text => text::read(input, &mut set)?,
        Format::WavCaps => wavcaps::read(input, &mut set)?,
        Format::Clotho => clotho::read(Rows::open(input, delimiter)?.ok_or_else(no_captions)?, &mut set)?,
        Format::AudioCaps => {
            audiocaps::read(Rows::open(input, delimiter)?.ok_or_else(no_captions)?, &mut set)?;
        }
        Format::Table { captions, id } => {
            let kind = match named {
                Some(kind @ (Kind::Delimited(_) | Kind::JsonLines)) => kind,
                Some(Kind::Json) => Kind::JsonLines,
                Some(Kind::Text) | None => Kind::of_table(input.peek()?),
            };
            if let Kind::Delimited(delimiter) = kind {
                let rows = Rows::open(input, delimiter)?.ok_or_else(no_captions)?;
                table::read_rows(rows, captions, id.as_deref(), &mut set)?;
            } else {
                table::read_json_lines(input, captions, id.as_deref(), &mut set)?;
            }
        }
        Format::Auto => {
            let kind = match named {
                Some(kind) => kind,
                None => Kind::of_unnamed(input.peek()?),
            };
            match kind {
                Kind::Text => text::read(input, &mut set)?,
                Kind::JsonLines => table::read_json_lines(input, &[], None, &mut set)?,
                Kind::Json => {
                    let outcome = wavcaps::read_any(input, &mut set)?;
                    if !outcome.has_data {
                        return Err(Error::UnknownColumns {
                            path,
                            found: outcome.fields,
                        });
                    }
                }
                Kind::Delimited(delimiter) => {
                    let rows = Rows::open(input, delimiter)?.ok_or_else(no_captions)?;
                    if clotho::matches(rows.columns()) {
                        clotho::read(rows, &mut set)?;
                    } else if audiocaps::matches(rows.columns()) {
                        audiocaps::read(rows, &mut set)?;
                    } else {
                        table::read_rows(rows, &[], None, &mut set)?;
                    }
                }
            }
        }
    }
    set.finish()
}

/// The columns of a table: those of its header, or the fields of its first JSON object.
pub(crate) fn column_names(reader: &mut dyn BufRead, name: &Path) -> Result<Vec<String>, Error> {
    let path: Arc<Path> = name.into();
    let mut input = Input::new(reader, Arc::clone(&path), Limits::STATED);
    let kind = match Kind::of_file(name, &mut input)? {
        Some(kind @ Kind::Delimited(_)) => kind,
        Some(Kind::Json | Kind::JsonLines) => Kind::JsonLines,
        Some(Kind::Text) | None => Kind::of_table(input.peek()?),
    };
    if let Kind::Delimited(delimiter) = kind {
        let rows = Rows::open(input, delimiter)?.ok_or(Error::NoCaptions { path })?;
        return Ok(rows.columns().to_vec());
    }
    let mut text = String::new();
    while let Some(line) = input.next_line(&mut text)? {
        if !text.trim().is_empty() {
            let fields: Fields =
                serde_json::from_str(&text).map_err(|error| Error::from_json(&path, line - 1, error))?;
            return Ok(fields.into_keys().collect());
        }
    }
    Err(Error::NoCaptions { path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_and_print() {
        for name in Format::NAMES {
            assert_eq!(name.parse::<Format>().unwrap().to_string(), name);
        }
        assert_eq!("Clotho".parse::<Format>().unwrap(), Format::Clotho);
        let error = "clothos".parse::<Format>().unwrap_err().to_string();
        for name in Format::NAMES {
            assert!(error.contains(name), "{error}");
        }
        assert!(error.contains("\"clothos\""), "{error}");
    }

    #[test]
    fn the_number_of_captions_is_bounded() {
        let limits = Limits {
            captions: 2,
            ..Limits::STATED
        };
        let read = |text: &str| read(&mut text.as_bytes(), Path::new("x.txt"), &Format::Text, limits);
        assert_eq!(read("a\nb\n").unwrap().captions.len(), 2);
        let error = read("a\nb\nc\n").unwrap_err();
        assert!(
            matches!(error, Error::TooManyCaptions { limit: 2, .. }),
            "{error}"
        );
    }

    #[test]
    fn the_bound_on_records_holds_for_json_entries_and_not_for_their_line() {
        let limits = Limits {
            record_bytes: 64 << 10,
            ..Limits::STATED
        };
        let read = |text: &str| read(&mut text.as_bytes(), Path::new("x.json"), &Format::Auto, limits);
        // Two hundred kilobytes on one line, but in short entries.
        let entries: Vec<String> = (0..6000)
            .map(|n| format!(r#"{{"id": {n}, "caption": "Rain falls"}}"#))
            .collect();
        let document = format!(r#"{{"data": [{}]}}"#, entries.join(", "));
        assert!(document.len() > 3 * (64 << 10));
        assert_eq!(read(&document).unwrap().captions.len(), 6000);
        let long = format!(
            r#"{{"data": [{{"id": 1, "caption": "{}"}}]}}"#,
            "x".repeat(200_000)
        );
        let error = read(&long).unwrap_err();
        assert!(matches!(error, Error::RecordTooLong { line: 1, .. }), "{error}");
    }
}
