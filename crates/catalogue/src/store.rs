//! The interface of a database that keeps a library.
//!
//! Methods may be called from several threads at once. A change is applied completely or not at all, even if the process or the
//! machine crashes; once [`Store::apply`] returns, it is durable. Methods block: a server calls them from worker threads.

use hark_work::progress::Progress;
use std::io::Write;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use crate::{
    Entry, Error, Failure, File, Filter, Heard, IndexedFile, Notes, Settings, Stat, Window, prepare,
};

/// A change of the library.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A recording that is new, or takes the place of what was known of its path. It clears a failure of that path.
    Upsert(Box<Entry>),
    /// Another file with the bytes of a known one: it takes over everything but path, look and notes.
    Copy {
        /// The known file.
        of: i64,
        /// Where the copy is.
        path: String,
        /// Its look.
        stat: Stat,
        /// What people wrote about it.
        notes: Notes,
    },
    /// A known file that is now elsewhere, with everything that is known of it.
    Move {
        /// The file.
        id: i64,
        /// Where it is now.
        path: String,
        /// Its look there.
        stat: Stat,
    },
    /// A known file that looks different and has the same bytes.
    UpdateStat {
        /// The file.
        id: i64,
        /// Its look.
        stat: Stat,
    },
    /// Other notes for a known file.
    SetNotes {
        /// The file.
        id: i64,
        /// They replace those it had.
        notes: Notes,
    },
    /// Something else is heard in a known file.
    SetHeard {
        /// The file.
        id: i64,
        /// It replaces what was heard in it.
        heard: Vec<Heard>,
    },
    /// A file that is gone.
    Remove {
        /// The file.
        id: i64,
    },
    /// A file that cannot be read. What was known of its path is dropped.
    AddFailure(Failure),
    /// A path that could not be read and is gone.
    ClearFailure {
        /// The path of the failure.
        path: String,
    },
}

/// A window that is near to a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WindowHit {
    /// The file that it is a part of.
    pub file: i64,
    /// See [`Window::start`].
    pub start: f64,
    /// See [`Window::end`].
    pub end: f64,
    /// See [`Window::whole`].
    pub whole: bool,
    /// The cosine of its vector and the query's.
    pub score: f32,
}

/// Words to search for, see [`Store::search_text`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextQuery<'a> {
    /// Any of its words may match; `"several words"` match in this order, and `thund*` matches longer words that begin so.
    pub text: &'a str,
    /// Whether longer words that begin with the last word match too, unless something follows it, such as a space. Meant for
    /// searches while a person types.
    pub prefix: bool,
    /// Files with any word of these texts are left out.
    pub exclude: &'a [String],
}

impl<'a> TextQuery<'a> {
    /// Whole words, without exclusions.
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            ..Self::default()
        }
    }
}

/// A file with words of a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TextHit {
    /// The file.
    pub file: i64,
    /// How well it matches: higher is better, and numbers of different queries do not compare.
    pub score: f64,
    /// Which share of the query's words it has, from 0 to 1.
    pub share: f64,
}

/// A value and how many files have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// The value.
    pub value: String,
    /// Files.
    pub files: u64,
}

/// A library in numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Overview {
    /// Files.
    pub files: u64,
    /// Windows, whole recordings included.
    pub windows: u64,
    /// The sum of all lengths.
    pub seconds: f64,
    /// Files that could not be read.
    pub failures: u64,
    /// Folders that are indexed.
    pub roots: Vec<String>,
    /// All folders of the files, the roots included, at most 5,000: each before those in it.
    pub folders: Vec<Count>,
    /// Tags and names of what is heard, at most 500, the most frequent first.
    pub tags: Vec<Count>,
    /// Sampling rates, ascending.
    pub rates: Vec<Count>,
    /// Containers, codecs and families of codecs, by name: each is a value of [`Filter`]'s `formats`.
    pub formats: Vec<Count>,
    /// Numbers of channels, ascending.
    pub channels: Vec<Count>,
}

/// A place that keeps a library.
///
/// Every method fails if the place cannot be reached, read or written, or if what is kept there is damaged. What else one refuses
/// is said with it.
#[expect(
    clippy::missing_errors_doc,
    reason = "what all of them fail for is said once, with the trait"
)]
pub trait Store: Send + Sync {
    /// What its vectors are made by.
    fn settings(&self) -> &Settings;

    /// The words by which recordings are tagged as they are indexed; empty for the classes of the model, where it has such.
    fn vocabulary(&self) -> Result<Vec<String>, Error>;

    /// Replaces the vocabulary. What is known to be heard stays as it is.
    fn set_vocabulary(&self, words: &[String]) -> Result<(), Error>;

    /// Folders that are indexed: absolute paths, sorted.
    fn roots(&self) -> Result<Vec<String>, Error>;

    /// Adds a folder to those that are indexed, if it is not there already. A `/` at its end is not kept.
    fn add_root(&self, root: &str) -> Result<(), Error>;

    /// Takes a folder from those that are indexed. Its files and failures are dropped, unless they are in another such folder.
    /// Nothing happens if it is not one of them.
    fn remove_root(&self, root: &str) -> Result<(), Error>;

    /// All files, by path.
    fn known(&self) -> Result<Vec<IndexedFile>, Error>;

    /// All files that could not be read, by path.
    fn failures(&self) -> Result<Vec<Failure>, Error>;

    /// Makes changes, all or none, in their order.
    ///
    /// A file that is named by number and is gone, because another writer was quicker, is passed over. A path has one file: what
    /// is put, copied or moved to a path takes the place of what was known of it, a failure included. What is put or copied there
    /// keeps the number that the path had; what is moved there keeps its own. An entry that contradicts itself is refused
    /// ([`Error::Dimension`] and the like), and with it all changes. Tags are sorted, and a NUL in a text, which PostgreSQL could
    /// not keep, becomes U+FFFD.
    fn apply(&self, changes: &[Change]) -> Result<(), Error>;

    /// The `k` windows whose vectors are nearest to `query`, best first, among the files that pass. `query` has any length but
    /// zero; what counts is its direction. One of another dimension, without a direction or not finite is refused.
    fn search_vector(&self, query: &[f32], k: usize, filter: &Filter) -> Result<Vec<WindowHit>, Error>;

    /// At most `k` files that pass the filter and have words of the query in their name, folders, tags, captions or metadata,
    /// best first. Any text is allowed: nothing in it is syntax of the database's query language.
    ///
    /// Files with more of the words come first, then those with the higher score, then by path. Stop words such as `the` count
    /// only if there are no others.
    fn search_text(&self, query: &TextQuery<'_>, k: usize, filter: &Filter) -> Result<Vec<TextHit>, Error>;

    /// The numbers of the files that pass, by path: at most `limit` after the first `skip`.
    fn browse(&self, filter: &Filter, skip: usize, limit: usize) -> Result<Vec<i64>, Error>;

    /// Files by their numbers, in the order of these; numbers that no file has are passed over.
    fn files(&self, ids: &[i64]) -> Result<Vec<File>, Error>;

    /// The file of a path.
    fn find(&self, path: &str) -> Result<Option<File>, Error>;

    /// The windows of a file, the whole recording first, then in the order of time.
    fn windows(&self, file: i64) -> Result<Vec<Window>, Error>;

    /// The library in numbers.
    fn overview(&self) -> Result<Overview, Error>;

    /// Hands over all entries in the order of their paths, until `take` answers with `Break`.
    fn for_each_entry(&self, take: &mut dyn FnMut(Entry) -> ControlFlow<()>) -> Result<(), Error>;

    /// Hands over all files in the order of their paths, without vectors, until `take` answers with `Break`.
    fn for_each_file(&self, take: &mut dyn FnMut(File) -> ControlFlow<()>) -> Result<(), Error>;

    /// Makes searching fast after many changes: builds or extends what approximate search needs. Everything is found without it,
    /// more slowly. `progress` is told how many of how many vectors are in, and may ask to stop.
    fn optimize(&self, progress: Progress<'_>) -> Result<(), Error>;

    /// Looks for contradictions in what is kept; each is a sentence. An empty list means that all is well.
    fn check(&self) -> Result<Vec<String>, Error>;
}

/// The version of the text that [`dump`] makes.
const TEXT: u32 = 1;

/// Writes a library as text: one block of lines a file, in the order of paths. Two libraries that know the same give the same
/// text, whatever their history and kind of store: numbers of files and the time of indexing are not in it.
///
/// Texts stand in quotes as in JSON, so that a line is a line. Of vectors, waveforms and fingerprints there is a hash of their
/// bytes (FNV-1a of 64 bits; vectors as 16-bit numbers, the low byte first), after how many they are.
///
/// # Errors
/// If the store cannot be read or `out` not written.
pub fn dump(store: &dyn Store, out: &mut dyn Write) -> Result<(), Error> {
    let Settings {
        model,
        fingerprint,
        dim,
        window_seconds,
        hop_seconds,
    } = store.settings();
    let mut head = format!(
        "hark catalogue, text {TEXT}\nmodel {}\nfingerprint {}\ndim {dim}\nwindow {window_seconds}\nhop {hop_seconds}\n",
        quoted(model),
        quoted(fingerprint)
    );
    for root in store.roots()? {
        head += &format!("root {}\n", quoted(&root));
    }
    out.write_all(head.as_bytes()).map_err(Error::Dump)?;
    let mut outcome = Ok(());
    store.for_each_entry(&mut |entry| match out.write_all(block(&entry).as_bytes()) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            outcome = Err(Error::Dump(error));
            ControlFlow::Break(())
        }
    })?;
    outcome?;
    for Failure { path, stat, message } in store.failures()? {
        let text = format!(
            "failure {}\n  size {}\n  modified {}\n  message {}\n",
            quoted(&path),
            stat.size,
            stat.modified,
            quoted(&message)
        );
        out.write_all(text.as_bytes()).map_err(Error::Dump)?;
    }
    out.flush().map_err(Error::Dump)
}

/// The lines of a file.
fn block(entry: &Entry) -> String {
    let Entry {
        path,
        stat,
        content,
        sound,
        notes,
        windows,
    } = entry;
    let mut text = format!(
        "file {}\n  size {}\n  modified {}\n  content {}\n  seconds {}\n  rate {}\n  channels {}\n  container {}\n  codec {}\n  date {}\n",
        quoted(path),
        stat.size,
        stat.modified,
        quoted(content),
        sound.seconds,
        sound.rate,
        sound.channels,
        quoted(&sound.container),
        quoted(&sound.codec),
        quoted(&sound.date)
    );
    for (name, value) in &sound.metadata {
        text += &format!("  metadata {} {}\n", quoted(name), quoted(value));
    }
    if let Some(damage) = &sound.damage {
        text += &format!("  damage {}\n", quoted(damage));
    }
    text += &format!("  peaks {} {:016x}\n", sound.peaks.len(), fnv1a(&sound.peaks));
    text += &format!(
        "  sound {} {:016x}\n",
        sound.fingerprint.len(),
        fnv1a(&sound.fingerprint)
    );
    for caption in &notes.captions {
        text += &format!("  caption {}\n", quoted(caption));
    }
    for heard in &sound.heard {
        let starts: Vec<String> = heard.starts.iter().map(f64::to_string).collect();
        text += &format!(
            "  heard {} {} at {}\n",
            quoted(&heard.name),
            heard.score,
            starts.join(" ")
        );
    }
    for tag in &notes.tags {
        text += &format!("  tag {}\n", quoted(tag));
    }
    for window in windows {
        let part = if window.whole { "whole" } else { "part" };
        let hash = fnv1a(&prepare::bytes(&window.vector));
        text += &format!("  {part} {} {} {hash:016x}\n", window.start, window.end);
    }
    text
}

/// A text in quotes, on one line.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The 64-bit FNV-1a hash. It tells versions of data apart and protects against nobody.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the published values of the function.
    #[test]
    fn hashes() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
