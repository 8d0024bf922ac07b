//! Everything that can be wrong with caption files, ratings and datasets.
//!
//! Each message names the file, the place in it, what was expected and what was found. Text from the file is quoted,
//! escaped and truncated, so that a hostile file can neither flood nor control a terminal.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::sets::SkippedCounts;

/// A position in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The line, from 1.
    pub line: u64,
    /// The entry of a JSON list, from 1. JSON files often hold thousands of entries on one line.
    pub entry: Option<u64>,
}

impl Place {
    pub(crate) fn line(line: u64) -> Self {
        Self { line, entry: None }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.entry {
            Some(entry) => write!(f, "line {}, entry {entry} of the list", self.line),
            None => write!(f, "line {}", self.line),
        }
    }
}

/// The JSON reader's error without its position: in JSON Lines it counts from the start of the line and would always
/// say "line 1".
#[derive(Debug)]
pub struct JsonError(serde_json::Error);

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let full = self.0.to_string();
        let position = format!(" at line {} column {}", self.0.line(), self.0.column());
        f.write_str(full.strip_suffix(&position).unwrap_or(&full))
    }
}

impl std::error::Error for JsonError {}

/// Why captions or ratings could not be read.
///
/// Every variant means that the file as a whole is refused: a dataset with rows left out would change results
/// silently.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A dataset of a kind that hark does not know by name.
    #[error("unknown kind of dataset `{kind}`; expected clotho:DIR, audiocaps:DIR, table:FILE or folder:DIR")]
    UnknownKind {
        /// What was given.
        kind: String,
    },
    /// A split was asked of a dataset that has none.
    #[error("a {kind} dataset has no splits")]
    NoSplits {
        /// The dataset's kind.
        kind: String,
    },
    /// The file cannot be opened. The message of the source names the path.
    #[error(transparent)]
    Open(io::Error),

    /// Reading failed midway.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: Arc<Path>,
        /// What the system says.
        source: io::Error,
    },

    /// The file is larger than any caption file should be.
    #[error("cannot read {}: larger than {limit} bytes; split the file", path.display())]
    TooLarge {
        /// The file.
        path: Arc<Path>,
        /// The bound, in bytes.
        limit: u64,
    },

    /// One line, row or entry is longer than any caption should be.
    #[error("{}: line {line}: a record of more than {limit} bytes; is this a caption file?", path.display())]
    RecordTooLong {
        /// The file.
        path: Arc<Path>,
        /// The line at which the bound was passed.
        line: u64,
        /// The bound, in bytes.
        limit: u64,
    },

    /// The file holds more captions than can be kept in memory.
    #[error("cannot read {}: more than {limit} captions; split the file", path.display())]
    TooManyCaptions {
        /// The file.
        path: Arc<Path>,
        /// The bound.
        limit: usize,
    },

    /// A NUL byte: the file is not text.
    #[error("{}: line {line}: NUL byte; the file is binary, or not UTF-8", path.display())]
    Binary {
        /// The file.
        path: Arc<Path>,
        /// The line of the byte.
        line: u64,
    },

    /// Bytes that are not UTF-8.
    #[error("{}: line {line}: not valid UTF-8; save the file as UTF-8", path.display())]
    InvalidUtf8 {
        /// The file.
        path: Arc<Path>,
        /// The line of the first bad byte.
        line: u64,
    },

    /// A quoted field that the file ends in.
    #[error("{}: line {line}: unclosed quote", path.display())]
    UnclosedQuote {
        /// The file.
        path: Arc<Path>,
        /// The line at which the row begins.
        line: u64,
    },

    /// A row with more or fewer fields than the header.
    #[error("{}: line {line}: {got} fields, expected {expected} as in the header", path.display())]
    Ragged {
        /// The file.
        path: Arc<Path>,
        /// The line at which the row begins.
        line: u64,
        /// The number of columns in the header.
        expected: usize,
        /// The number of fields in the row.
        got: usize,
    },

    /// JSON that is malformed, or of another shape than the format has.
    #[error("{}: line {line}, column {column}: unexpected JSON", path.display())]
    Json {
        /// The file.
        path: Arc<Path>,
        /// The line, from 1.
        line: u64,
        /// The byte within the line, from 1; 0 if the text ends before the line.
        column: u64,
        /// What is wrong there.
        source: JsonError,
    },

    /// A column (or JSON field) that the format needs is not there.
    #[error("{}: {place}: no column {}; the columns are {}", path.display(), quoted(column), listed(found))]
    MissingColumn {
        /// The file.
        path: Arc<Path>,
        /// The header, or the JSON object.
        place: Place,
        /// The column that was looked for.
        column: String,
        /// The columns that are there.
        found: Vec<String>,
    },

    /// Two columns bear the name that is wanted.
    #[error("cannot read {}: two columns are named {}; rename one", path.display(), quoted(column))]
    AmbiguousColumn {
        /// The file.
        path: Arc<Path>,
        /// The name.
        column: String,
    },

    /// A table of no known dataset, and no column was named.
    #[error(
        "cannot read {}: unknown columns {}; name the one that holds captions with --caption-column",
        path.display(),
        listed(found)
    )]
    UnknownColumns {
        /// The file.
        path: Arc<Path>,
        /// The columns that are there.
        found: Vec<String>,
    },

    /// A JSON field that holds something else than its column should.
    #[error("{}: {place}: {} is {got}, expected {expected}", path.display(), quoted(column))]
    WrongType {
        /// The file.
        path: Arc<Path>,
        /// The JSON object.
        place: Place,
        /// The field.
        column: String,
        /// What it should hold.
        expected: &'static str,
        /// What it holds.
        got: &'static str,
    },

    /// A caption has more words than any caption has.
    #[error("{}: {place}: a caption of {words} words exceeds the limit of {limit}; is this the right column?", path.display())]
    CaptionTooLong {
        /// The file.
        path: Arc<Path>,
        /// The row or entry.
        place: Place,
        /// Its words.
        words: usize,
        /// How many a caption may have.
        limit: usize,
    },

    /// An empty caption, or an empty id.
    #[error("{}: {place}: {} is empty", path.display(), quoted(column))]
    Empty {
        /// The file.
        path: Arc<Path>,
        /// The row or entry.
        place: Place,
        /// The column.
        column: String,
    },

    /// Several rows of a table are wrong.
    #[error("cannot read {}: {} faults:\n{}", path.display(), faults.len() + more, fault_lines(path, faults, *more))]
    Faults {
        /// The file.
        path: Arc<Path>,
        /// The first of them, in the order of the file.
        faults: Vec<Error>,
        /// How many there are after these.
        more: usize,
    },

    /// A clip that a format with one row per clip names twice.
    #[error("{}: line {second}: clip {} is already on line {first}", path.display(), quoted(id))]
    DuplicateClip {
        /// The file.
        path: Arc<Path>,
        /// The clip.
        id: String,
        /// The line of its first row.
        first: u64,
        /// The line of its second row.
        second: u64,
    },

    /// Two merged sets hold the same clip of the same file.
    #[error("clip {} of {} is given twice", quoted(id), path.display())]
    MergedTwice {
        /// The second file.
        path: Arc<Path>,
        /// The clip.
        id: String,
    },

    /// Nothing to read, or a header only.
    #[error("cannot read {}: no captions", path.display())]
    NoCaptions {
        /// The file.
        path: Arc<Path>,
    },

    /// Nothing to read, or a header only.
    #[error("cannot read {}: no ratings", path.display())]
    NoRatings {
        /// The file.
        path: Arc<Path>,
    },

    /// A rating that is not a number from 0 to 100.
    #[error("{}: line {line}: rating {}, expected a number from 0 to 100", path.display(), quoted(got))]
    Rating {
        /// The file.
        path: Arc<Path>,
        /// The line.
        line: u64,
        /// The field as in the file.
        got: String,
    },

    /// No caption file has all the clips that were rated.
    #[error("{}: line {line}: no caption file has all the rated clips; the first one missing is {}", path.display(), quoted(clip))]
    RatedClipMissing {
        /// The ratings file.
        path: Arc<Path>,
        /// The line.
        line: u64,
        /// The first rated clip that is missing from the first caption file.
        clip: String,
    },

    /// Two caption files both have all the rated clips and say different things of one.
    #[error(
        "{}: line {line}: {} and {} have different captions for {}; give the file that belongs to these ratings",
        path.display(),
        files.0.display(),
        files.1.display(),
        quoted(clip)
    )]
    RatedClipAmbiguous {
        /// The ratings file.
        path: Arc<Path>,
        /// The line.
        line: u64,
        /// The rated clip.
        clip: String,
        /// The two caption files.
        files: Box<(PathBuf, PathBuf)>,
    },

    /// A format name that is not known.
    #[error(
        "unknown caption format {}; use auto, clotho, audiocaps, wavcaps or text (for any other table, name the caption \
         column with --caption-column)",
        quoted(got)
    )]
    UnknownFormat {
        /// The name.
        got: String,
    },

    // Datasets with their recordings, and the cache of decoded audio.
    /// The folder of a dataset, or of its recordings, is not there.
    #[error("cannot read {}: no such folder; {layout}", path.display())]
    NoSetFolder {
        /// The folder.
        path: PathBuf,
        /// What should be there.
        layout: &'static str,
    },

    /// A dataset that is named and not registered.
    #[error(
        "no dataset is called `{name}`; get it with hark data pull {name} FOLDER, name a folder that is there with hark data \
         add {name} FOLDER, or write the folder's path"
    )]
    NotRegistered {
        /// The name.
        name: String,
    },

    /// A name that no dataset can have.
    #[error("`{name}` cannot be the name of a dataset; use letters, digits, `-` and `_`")]
    DatasetName {
        /// The name.
        name: String,
    },

    /// The registry of datasets was written by something else.
    #[error("cannot read {}: {got}, expected {expected}; move the file away and add the datasets again", path.display())]
    Registry {
        /// The file.
        path: PathBuf,
        /// Its format and version.
        got: String,
        /// What this program reads.
        expected: String,
    },

    /// A registered folder without the files of a known dataset.
    #[error("{} has no caption files of Clotho, AudioCaps or WavCaps; name `{name}` as table:FILE or folder:DIR", path.display())]
    UnknownLayout {
        /// The name.
        name: String,
        /// The folder.
        path: PathBuf,
    },

    /// A dataset's caption or metadata file is not there.
    #[error("cannot read {}: no such file; {layout}; found {}", path.display(), listed(found))]
    NoCaptionFile {
        /// The file.
        path: PathBuf,
        /// Files of the folder that hold tables.
        found: Vec<String>,
        /// What should be there.
        layout: &'static str,
    },

    /// Not one recording of a dataset can be used.
    #[error(
        "{set}: no usable recordings: {} missing, {} broken, {} excluded{}",
        counts.missing,
        counts.broken,
        counts.excluded,
        searched_in(searched, example.as_deref())
    )]
    NoClips {
        /// The dataset.
        set: String,
        /// Why they are left out.
        counts: SkippedCounts,
        /// The folders in which recordings were looked for.
        searched: Vec<PathBuf>,
        /// One of the files that were expected.
        example: Option<PathBuf>,
    },

    /// A folder holds more files than any dataset.
    #[error("cannot read {}: more than {limit} files; is this the folder of a dataset?", path.display())]
    TooManyFiles {
        /// The folder at which the bound was passed.
        path: PathBuf,
        /// The bound.
        limit: usize,
    },

    /// Something else than a FreeSound id in a list of them.
    #[error("{}: line {line}: {} is not a FreeSound id; expected a number", path.display(), quoted(got))]
    NotAnId {
        /// The file.
        path: PathBuf,
        /// The line.
        line: u64,
        /// The field as in the file.
        got: String,
    },

    /// A list of ids without one.
    #[error("cannot read {}: no FreeSound ids", path.display())]
    NoIds {
        /// The file.
        path: PathBuf,
    },

    /// An empty list of datasets.
    #[error("no datasets given")]
    NoSets,

    /// A rate at which no audio can be had.
    #[error("cannot cache audio at {rate} Hz; the sample rate must be from 1000 to 768000 Hz")]
    CacheRate {
        /// The rate.
        rate: u32,
    },

    /// A recording gives no samples.
    #[error(transparent)]
    Audio(#[from] hark_audio::Error),

    /// A file or folder cannot be written. The message of the source names the path.
    #[error(transparent)]
    Write(io::Error),

    /// The threads cannot be started.
    #[error("cannot start threads")]
    Threads(#[source] rayon::ThreadPoolBuildError),

    /// The caller cancelled the work.
    #[error("cancelled")]
    Cancelled,
}

impl From<hark_work::progress::Cancelled> for Error {
    fn from(_: hark_work::progress::Cancelled) -> Self {
        Self::Cancelled
    }
}

impl Error {
    /// The message, followed by those of its sources.
    pub(crate) fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            text.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        text
    }

    /// Readers of other crates hand our own errors back wrapped as I/O errors; this takes them out again.
    pub(crate) fn from_io(path: &Arc<Path>, error: io::Error) -> Self {
        error.downcast::<Self>().unwrap_or_else(|source| Self::Read {
            path: Arc::clone(path),
            source,
        })
    }

    /// The CSV parser is given checked text and told to take rows of any length, so what it reports is a failure to
    /// read.
    pub(crate) fn from_csv(path: &Arc<Path>, error: csv::Error) -> Self {
        if !error.is_io_error() {
            return Self::Read {
                path: Arc::clone(path),
                source: error.into(),
            };
        }
        match error.into_kind() {
            csv::ErrorKind::Io(error) => Self::from_io(path, error),
            other => Self::Read {
                path: Arc::clone(path),
                source: io::Error::other(format!("{other:?}")),
            },
        }
    }

    /// A parse error, with its position in the file. `lines_before`: the lines of the file before the first that the
    /// JSON reader was given.
    pub fn from_json(path: &Arc<Path>, lines_before: u64, error: serde_json::Error) -> Self {
        if error.is_io() {
            return Self::from_io(path, error.into());
        }
        Self::Json {
            path: Arc::clone(path),
            line: lines_before + error.line() as u64,
            column: error.column() as u64,
            source: JsonError(error),
        }
    }
}

/// Faults of one file, one on each line, without its path.
fn fault_lines(path: &Path, faults: &[Error], more: usize) -> String {
    let before = format!("{}: ", path.display());
    let mut lines: Vec<String> = faults
        .iter()
        .map(|fault| {
            let text = fault.with_causes();
            format!("  {}", text.strip_prefix(&before).unwrap_or(&text))
        })
        .collect();
    if more > 0 {
        lines.push(format!("  and {more} more"));
    }
    lines.join("\n")
}

/// Longer text from a file is cut in messages.
const SHOWN_CHARS: usize = 60;
/// Further names are counted in messages, not listed.
const SHOWN_NAMES: usize = 20;

/// Text from a file for a message: escaped, and cut where it is long.
pub fn quoted(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

fn listed(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(SHOWN_NAMES).map(|name| quoted(name)).collect();
    match names.len().saturating_sub(SHOWN_NAMES) {
        0 if names.is_empty() => "none".to_owned(),
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn searched_in(folders: &[PathBuf], example: Option<&Path>) -> String {
    let names: Vec<String> = folders
        .iter()
        .map(|folder| folder.display().to_string())
        .collect();
    let looked = match names.as_slice() {
        [] => String::new(),
        names => format!("; looked in {}", listed(names)),
    };
    example.map_or_else(
        || looked.clone(),
        |path| format!("{looked}; expected, for example, {}", path.display()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_a_file_is_escaped_and_cut() {
        assert_eq!(quoted("a\u{1b}[2J"), r#""a\u{1b}[2J""#);
        assert_eq!(quoted(&"é".repeat(61)), format!("\"{}\"...", "é".repeat(60)));
        assert_eq!(quoted(&"é".repeat(60)), format!("\"{}\"", "é".repeat(60)));
    }

    #[test]
    fn long_lists_of_names_are_counted() {
        let names: Vec<String> = (0..22).map(|n| n.to_string()).collect();
        assert!(
            listed(&names).ends_with(r#""19" and 2 more"#),
            "{}",
            listed(&names)
        );
        assert_eq!(listed(&names[..2]), r#""0", "1""#);
        assert_eq!(listed(&[]), "none");
    }

    #[test]
    fn a_json_error_does_not_repeat_its_position() {
        let error = serde_json::from_str::<u8>("x").unwrap_err();
        assert_eq!(JsonError(error).to_string(), "expected value");
    }
}
