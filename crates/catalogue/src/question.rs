//! A question as people ask it, and the one rule by which it is answered.
//!
//! A [`Question`] combines text, a recording, exclusions and a filter. [`ask`] embeds it, makes one [`Query`] and searches a
//! [`Store`]. The command line, the server and programs all call it, so that the same question has the same answer everywhere:
//!
//! - A word or quoted phrase with a minus in front is an exclusion: `rain -wind -"human voice"`. Blank exclusions are ignored.
//! - A phrase in quotes matches these words in this order, and `thund*` longer words that begin so. Both are for the search by
//!   words; the embedding is that of the text without quotes and stars. A quote that is not closed is punctuation.
//! - The text is searched by words (names, folders, tags, captions, metadata) and by meaning (its embedding); [`Mode`] can
//!   choose one of the two.
//! - A recording is always searched by its embedding. With text beside it, both embeddings are added.
//! - Exclusions leave out files that have any of their words, and their embeddings are subtracted from the query's.
//! - A moment of a recording stands for the window around it: of the windows that contain it, the one whose centre is nearest.
//! - A question without text and recording lists files by path.

use std::path::PathBuf;

use serde::Serialize;

use crate::search::DEFAULT_LIMIT;
use crate::words::{phrase, plain};
use crate::{
    EmbedError, Embedder, Error, File, Filter, Hit, NEGATIVE_WEIGHT, Note, Query, Settings, Store, Window,
    combine_queries, note, prepare, search,
};

/// How far after its end a window still contains a moment, in seconds: times are rounded when they are shown and typed.
const ROUNDING: f64 = 1e-3;

/// What the text of a question is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Both, merged by rank.
    #[default]
    Fused,
    /// The sound: the embedding of the text against those of the recordings.
    Meaning,
    /// Names, folders, tags, captions and metadata. Text alone then needs no model.
    Words,
}

/// A recording of the library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recording {
    /// By [`File::id`].
    Id(i64),
    /// By its absolute path, as in [`File::path`].
    Path(String),
}

impl From<i64> for Recording {
    fn from(id: i64) -> Self {
        Self::Id(id)
    }
}

impl From<&str> for Recording {
    fn from(path: &str) -> Self {
        Self::Path(path.to_owned())
    }
}

impl From<String> for Recording {
    fn from(path: String) -> Self {
        Self::Path(path)
    }
}

/// A sound that need not be in the library.
#[derive(Debug, Clone, PartialEq)]
enum Sound {
    Vector(Vec<f32>),
    File(PathBuf),
}

/// What to search a library for. The default lists the first 10 files.
///
/// ```
/// use hark_catalogue::Question;
///
/// let question = Question::text("rain on a roof -wind").without("speech").limit(20);
/// assert_eq!(question.wanted(), "rain on a roof");
/// assert_eq!(question.exclusions(), ["wind", "speech"]);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    wanted: String,
    /// Whether the text ends in a word that is wanted, so that more of it may follow.
    ends_in_word: bool,
    exclusions: Vec<String>,
    sound: Option<Sound>,
    like: Option<(Recording, Option<f64>)>,
    filter: Filter,
    mode: Mode,
    prefix: bool,
    all_moments: bool,
    offset: usize,
    limit: usize,
}

impl Default for Question {
    fn default() -> Self {
        Self {
            wanted: String::new(),
            ends_in_word: false,
            exclusions: Vec::new(),
            sound: None,
            like: None,
            filter: Filter::default(),
            mode: Mode::default(),
            prefix: false,
            all_moments: false,
            offset: 0,
            limit: DEFAULT_LIMIT,
        }
    }
}

impl Question {
    /// A question as it is typed. Terms with a minus in front become exclusions.
    pub fn text(text: &str) -> Self {
        let Terms {
            wanted,
            excluded,
            ends_in_word,
        } = Terms::parse(text);
        Self {
            wanted,
            ends_in_word,
            exclusions: excluded,
            ..Self::default()
        }
    }

    /// Excludes a sound or words. The text is taken as it is: a minus in it means nothing.
    #[must_use]
    pub fn without(mut self, text: &str) -> Self {
        let text = text.trim();
        if !text.is_empty() {
            self.exclusions.push(text.to_owned());
        }
        self
    }

    /// Searches for what is like a recording of the library, which is left out itself; with `moment`, like the window around
    /// that second.
    #[must_use]
    pub fn like(mut self, recording: impl Into<Recording>, moment: Option<f64>) -> Self {
        self.like = Some((recording.into(), moment));
        self
    }

    /// Searches for what is like a sound, given by its embedding.
    #[must_use]
    pub fn sound(mut self, vector: Vec<f32>) -> Self {
        self.sound = Some(Sound::Vector(vector));
        self
    }

    /// Searches for what is like a recording that need not be in the library.
    #[must_use]
    pub fn audio(mut self, recording: impl Into<PathBuf>) -> Self {
        self.sound = Some(Sound::File(recording.into()));
        self
    }

    /// Restricts which files are searched.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// What the text is compared with.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Whether longer words that begin with the last word match too, for searches while a person types. A last word that is
    /// followed by a space or an exclusion is complete and matches as it is.
    #[must_use]
    pub fn prefix(mut self, prefix: bool) -> Self {
        self.prefix = prefix;
        self
    }

    /// Whether a recording may have several hits, one for each window, instead of its best alone.
    #[must_use]
    pub fn all_moments(mut self, all: bool) -> Self {
        self.all_moments = all;
        self
    }

    /// Skips the first hits.
    #[must_use]
    pub fn offset(mut self, offset: usize) -> Self {
        self.offset = offset;
        self
    }

    /// Most hits; 10 if it is not called.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// The text without its exclusions.
    pub fn wanted(&self) -> &str {
        &self.wanted
    }

    /// All exclusions: those of the text, then those of [`Self::without`].
    pub fn exclusions(&self) -> &[String] {
        &self.exclusions
    }

    /// Whether there is text or a recording to rank files by. If not, files are listed by path.
    pub fn ranks(&self) -> bool {
        !self.wanted.is_empty() || self.sound.is_some() || self.like.is_some()
    }

    /// Embeds what is asked for.
    fn query(&self, store: &dyn Store, embedder: &dyn Embedder) -> Result<Query, Error> {
        let mut wanted = Vec::new();
        match &self.sound {
            Some(Sound::Vector(vector)) => wanted.push(vector.clone()),
            Some(Sound::File(path)) => {
                let embedded = embedder.embed_audio(path);
                wanted.push(embedded.map_err(|source| Error::Recording {
                    path: path.clone(),
                    source,
                })?);
            }
            None => {}
        }
        let mut exclude_file = None;
        if let Some((recording, moment)) = &self.like {
            let file = find(store, recording)?;
            wanted.push(vector_of(store, &file, *moment)?);
            exclude_file = Some(file.id);
        }
        let plain = plain(&self.wanted);
        let text = (self.mode != Mode::Words && !plain.is_empty()).then_some(plain.as_str());
        let vector = if wanted.is_empty() && text.is_none() {
            None
        } else {
            Some(self.vector(wanted, text, store.settings(), embedder)?)
        };
        Ok(Query {
            vector,
            words: (self.mode != Mode::Meaning && !self.wanted.is_empty()).then(|| self.wanted.clone()),
            prefix: self.prefix && self.ends_in_word,
            exclude_words: self.exclusions.clone(),
            exclude_file,
            filter: self.filter.clone(),
            per_file: if self.all_moments { usize::MAX } else { 1 },
            offset: self.offset,
            // One more than is shown tells whether there are more.
            limit: self.limit.saturating_add(1),
        })
    }

    /// The direction of sounds and text, away from the exclusions.
    fn vector(
        &self,
        mut wanted: Vec<Vec<f32>>,
        text: Option<&str>,
        settings: &Settings,
        embedder: &dyn Embedder,
    ) -> Result<Vec<f32>, Error> {
        let mut texts: Vec<&str> = self.exclusions.iter().map(String::as_str).collect();
        texts.extend(text);
        let mut excluded = Vec::new();
        if !texts.is_empty() {
            excluded = embedder.embed_text(&texts)?;
            if excluded.len() != texts.len() {
                let count = format!("{} vectors for {} texts", excluded.len(), texts.len());
                return Err(EmbedError::Model { source: count.into() }.into());
            }
            wanted.extend(excluded.drain(self.exclusions.len()..));
        }
        for vector in wanted.iter().chain(&excluded) {
            prepare::question(vector, settings)?;
        }
        combine_queries(&wanted, &excluded, NEGATIVE_WEIGHT).ok_or(Error::CancelsOut)
    }
}

/// The hits of a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Best first.
    pub hits: Vec<Hit>,
    /// Whether there are further hits after these.
    pub more: bool,
    /// What to know about it, such as a folder in the filter that has no recordings.
    pub notes: Vec<Note>,
}

/// Answers a question.
///
/// # Errors
/// If the store cannot be read, a recording is not there or cannot be embedded, or nothing is left to search for:
/// [`Error::CancelsOut`].
pub fn ask(store: &dyn Store, embedder: &dyn Embedder, question: &Question) -> Result<Answer, Error> {
    let mut hits = search(store, &question.query(store, embedder)?)?;
    let more = hits.len() > question.limit;
    hits.truncate(question.limit);
    let mut notes = note::absent(store, &question.filter, hits.is_empty())?;
    let text = plain(&question.wanted);
    if question.mode != Mode::Words && !text.is_empty() && !embedder.knows(&text)? {
        notes.push(Note::UnknownWords { text });
    }
    Ok(Answer { hits, more, notes })
}

fn find(store: &dyn Store, recording: &Recording) -> Result<File, Error> {
    match recording {
        Recording::Id(id) => store.files(&[*id])?.pop().ok_or(Error::NoFile { id: *id }),
        Recording::Path(path) => store
            .find(path)?
            .ok_or_else(|| Error::NotIndexed { path: path.clone() }),
    }
}

/// The vector of a whole recording, or of its window at a moment.
fn vector_of(store: &dyn Store, file: &File, moment: Option<f64>) -> Result<Vec<f32>, Error> {
    let windows = store.windows(file.id)?;
    let whole = windows.iter().find(|window| window.whole);
    let Some(whole) = whole else {
        return Err(Error::NoVector {
            path: file.path.clone(),
        });
    };
    let window = match moment {
        None => whole,
        Some(at) => window_at(&windows, at).ok_or_else(|| Error::NoMoment {
            path: file.path.clone(),
            at,
            seconds: file.sound.seconds,
        })?,
    };
    Ok(window.vector.clone())
}

/// Of the windows that contain a moment, the one whose centre is nearest, and of two that are equally near the first. A
/// recording of one window has the whole alone.
fn window_at(windows: &[Window], at: f64) -> Option<&Window> {
    let contains = |window: &&Window| window.start <= at && at < window.end + ROUNDING;
    let off = |window: &Window| (f64::midpoint(window.start, window.end) - at).abs();
    windows
        .iter()
        .filter(|window| !window.whole)
        .filter(contains)
        .min_by(|a, b| off(a).total_cmp(&off(b)))
        .or_else(|| windows.iter().filter(|window| window.whole).find(contains))
}

/// A typed text, taken apart.
#[derive(Debug, PartialEq, Default)]
struct Terms {
    wanted: String,
    excluded: Vec<String>,
    ends_in_word: bool,
}

impl Terms {
    /// Reads `rain -wind -"human voice"`. A minus counts only at the beginning of a word, and not in a phrase. A quote that is not
    /// closed is punctuation; after a minus, it reaches to the end.
    fn parse(text: &str) -> Self {
        let mut terms = Self::default();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (term, after) = match rest.strip_prefix("-\"") {
                Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
                None => match phrase(rest) {
                    // With its quotes.
                    Some((phrase, _)) => rest.split_at(phrase.len() + 2),
                    None => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
                },
            };
            if rest.starts_with('-') {
                let term = term
                    .trim_start_matches(|letter: char| letter.is_whitespace() || "-\"".contains(letter))
                    .trim_end();
                if !term.is_empty() {
                    terms.excluded.push(term.to_owned());
                }
                terms.ends_in_word = false;
            } else {
                if !terms.wanted.is_empty() {
                    terms.wanted.push(' ');
                }
                terms.wanted.push_str(term);
                terms.ends_in_word = after.is_empty();
            }
            rest = after.trim_start();
        }
        terms
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_minus_excludes() {
        let read = |text: &str| {
            let Terms { wanted, excluded, .. } = Terms::parse(text);
            (wanted, excluded.join("|"))
        };
        let expect = |wanted: &str, excluded: &str| (wanted.to_owned(), excluded.to_owned());
        assert_eq!(read("rain -wind"), expect("rain", "wind"));
        assert_eq!(
            read("-wind  rain \t on -\"human  voice\" a roof"),
            expect("rain on a roof", "wind|human  voice")
        );
        assert_eq!(read("rain -\"open end"), expect("rain", "open end"));
        assert_eq!(read("-\"one\"-two three"), expect("three", "one|two"));
        assert_eq!(read("rain-soaked --storm"), expect("rain-soaked", "storm"));
        assert_eq!(read("a - b -\"\" -\" \" --"), expect("a b", ""));
        assert_eq!(read(" \t"), expect("", ""));
        assert_eq!(
            read("\"rain -wind  on\" roo* -\"a b\""),
            expect("\"rain -wind  on\" roo*", "a b"),
            "a phrase stays as it is"
        );
        assert_eq!(read("\"rain -wind 12\" \""), expect("\"rain -wind 12\" \"", ""));
        assert_eq!(read("\"rain -wind"), expect("\"rain", "wind"));
        assert_eq!(read("12\" rain \""), expect("12\" rain \"", ""));
    }

    #[test]
    fn a_last_word_is_open_until_something_follows() {
        for (text, open) in [
            ("rain", true),
            ("rain wi", true),
            ("-wind rain", true),
            ("rain ", false),
            ("rain -wi", false),
            ("", false),
        ] {
            assert_eq!(Terms::parse(text).ends_in_word, open, "{text:?}");
        }
    }

    #[test]
    fn blank_exclusions_are_ignored() {
        let question = Question::text("rain -")
            .without("")
            .without(" \t")
            .without(" wind ");
        assert_eq!(question.exclusions(), ["wind"]);
        assert_eq!(question.wanted(), "rain");
        assert!(question.ranks() && !Question::text("-wind").ranks());
    }

    #[test]
    fn a_moment_has_the_window_whose_centre_is_nearest() {
        let window = |start: f64, end: f64, whole: bool| Window {
            start,
            end,
            whole,
            vector: vec![start as f32],
        };
        let windows = [
            window(0.0, 25.0, true),
            window(0.0, 10.0, false),
            window(5.0, 15.0, false),
            window(15.0, 25.0, false),
        ];
        let start = |at| window_at(&windows, at).map(|window| (window.start, window.whole));
        assert_eq!(start(0.0), Some((0.0, false)));
        assert_eq!(start(5.0), Some((0.0, false)), "the middle of the first");
        assert_eq!(start(7.4), Some((0.0, false)));
        assert_eq!(start(7.5), Some((0.0, false)), "equally near: the first");
        assert_eq!(start(7.6), Some((5.0, false)));
        assert_eq!(start(15.0), Some((5.0, false)), "within rounding of its end");
        assert_eq!(start(24.0), Some((15.0, false)));
        assert_eq!(start(26.0), None);
        assert_eq!(start(-1.0), None);
        assert_eq!(start(f64::NAN), None);
        assert_eq!(
            window_at(&windows[..1], 3.0).map(|window| window.whole),
            Some(true)
        );
    }

    proptest! {
        #[test]
        fn every_term_is_read(text in "[a-z\"\\- ]{0,40}") {
            let terms = Terms::parse(&text);
            let letters = |text: &str| text.chars().filter(char::is_ascii_alphabetic).collect::<String>();
            let mut read = letters(&terms.wanted) + &letters(&terms.excluded.concat());
            let mut given = letters(&text);
            for text in [&mut read, &mut given] {
                let mut sorted: Vec<char> = text.chars().collect();
                sorted.sort_unstable();
                *text = sorted.into_iter().collect();
            }
            prop_assert_eq!(read, given, "no letter is lost");
            prop_assert!(terms.excluded.iter().all(|term| !term.is_empty()));
            // What is written again in the same way is read in the same way; a quote that is not closed must not find its end.
            let quoted = terms.excluded.iter().map(|term| if term.contains(' ') { format!("-\"{term}\"") } else { format!("-{term}") });
            let again = quoted.chain([terms.wanted.clone()]).collect::<Vec<_>>().join(" ");
            let again = Terms::parse(&again);
            prop_assert_eq!((again.wanted, again.excluded), (terms.wanted, terms.excluded));
        }
    }
}
