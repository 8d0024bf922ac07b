//! Tokenizes text for the full-text index: file names and queries become lists of plain words by the same rules.
//!
//! A text is normalized (Unicode NFKD without accents), then split wherever letters end: at spaces, underscores and punctuation,
//! between letters and digits, and where a lower-case letter is followed by an upper-case one. `DogBark_03-close.WAV` gives `dog bark
//! 03 close`. Words are lower-cased. Queries are split the same way, after phrases in quotes and stars at the end of words were
//! read ([`QueryWords::new`]). Nothing in them is syntax of a database: words have only letters, digits and combining marks of
//! Indic scripts. Both stores use this; stemming is up to them.

use std::collections::HashSet;

use unicode_normalization::UnicodeNormalization;

use crate::{AudioInfo, Notes};

/// Letters of a word that count. Nobody types more; a file may say anything of itself.
const MAX_LENGTH: usize = 64;
/// Words of a question that count.
const MAX: usize = 32;
/// Bytes of a text that are looked at: as much as a long book.
const FARTHEST: usize = 1 << 20;

/// Words that name no sound. They count only in a question that has no others.
const STOP: [&str; 54] = [
    "a", "about", "an", "and", "are", "as", "at", "be", "being", "but", "by", "can", "for", "from", "has",
    "have", "he", "her", "his", "i", "if", "in", "into", "is", "it", "its", "me", "my", "no", "not", "of",
    "on", "or", "our", "she", "so", "some", "such", "that", "the", "their", "then", "there", "these", "they",
    "this", "to", "was", "we", "were", "which", "while", "with", "you",
];

/// Ends of names that say what kind of file it is.
const KINDS: [&str; 34] = [
    "3gp", "aac", "aif", "aifc", "aiff", "alac", "amr", "ape", "au", "bwf", "caf", "flac", "m4a", "m4b",
    "mka", "mkv", "mov", "mp1", "mp2", "mp3", "mp4", "oga", "ogg", "opus", "rf64", "snd", "spx", "w64",
    "wav", "wave", "weba", "webm", "wma", "wv",
];

/// What a file is found by, in the columns of the full-text index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Columns {
    /// Of the last part of its path, without what says its kind.
    pub name: String,
    /// Of the rest of its path.
    pub folders: String,
    /// Of its tags.
    pub tags: String,
    /// Of its captions.
    pub captions: String,
    /// Of the values of its metadata, and the names of what is heard in it.
    pub metadata: String,
}

/// What a word counts in each of the columns, in the order of [`Columns`].
pub(crate) const WEIGHTS: [f64; 5] = [4.0, 1.0, 4.0, 3.0, 1.0];

impl Columns {
    /// The words of a file.
    pub(crate) fn new(path: &str, sound: &AudioInfo, notes: &Notes) -> Self {
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        Self {
            name: indexed(stem(name)),
            folders: indexed(folders),
            tags: indexed(&notes.tags.join("\n")),
            captions: indexed(&notes.captions.join("\n")),
            metadata: indexed(
                &(sound.metadata.values().map(String::as_str))
                    .chain(sound.heard.iter().map(|heard| heard.name.as_str()))
                    .collect::<Vec<_>>()
                    .join("\n"),
            ),
        }
    }
}

/// A word to search for, or several that must follow each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Term {
    /// At least one.
    pub words: Vec<String>,
    /// Whether longer words that begin with the last one match too.
    pub prefix: bool,
}

impl Term {
    /// Whether a text, given by its words, has it.
    fn is_in(&self, text: &[&str]) -> bool {
        let last = self.words.len().saturating_sub(1);
        text.windows(self.words.len().max(1)).any(|own| {
            let mut pairs = own.iter().zip(&self.words).enumerate();
            pairs.all(|(nth, (own, word))| {
                own == word || (self.prefix && nth == last && own.starts_with(word.as_str()))
            })
        })
    }
}

/// The terms to search for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct QueryWords {
    /// Without repetitions, in the order of the text.
    pub terms: Vec<Term>,
}

impl QueryWords {
    /// The terms of a text: `"rain on a roof"` is a phrase, `thund*` the beginning of a word, all else words. A quote counts at the
    /// beginning of a word and if it is closed, a star at the end of a word outside of quotes. Elsewhere they are punctuation.
    ///
    /// Stop words count only if there are no other terms, and in phrases. With `prefix`, the last word also matches as the
    /// beginning of a longer one, unless something follows it in the text, such as a space.
    pub(crate) fn new(text: &str, prefix: bool) -> Self {
        let mut all: Vec<(Term, bool)> = Vec::new();
        let mut open = false;
        for part in parts(text) {
            let (text, quoted) = match part {
                Part::Phrase(text) => (text, true),
                Part::Plain(text) => (text, false),
            };
            let star = !quoted && text.ends_with('*');
            let words = cut(text.trim_end_matches('*'));
            open = !quoted && words.last().is_some_and(|word| word.at_end) && !star;
            let mut words: Vec<String> = words.into_iter().map(|word| word.text).collect();
            words.truncate(MAX);
            if quoted && !words.is_empty() {
                let term = Term { words, prefix: false };
                all.push((term, true));
                continue;
            }
            let last = words.len();
            all.extend(words.into_iter().zip(1..).map(|(word, nth)| {
                let prefix = star && nth == last;
                let tells = prefix || !STOP.contains(&word.as_str());
                let words = vec![word];
                (Term { words, prefix }, tells)
            }));
        }
        open &= text.chars().next_back().is_some_and(|last| !last.is_whitespace());
        let only_stops = !all.iter().any(|(_, tells)| *tells);
        let last = all.last().map(|(term, _)| term.clone());
        let mut seen = HashSet::new();
        let mut terms: Vec<Term> = all
            .into_iter()
            .filter(|(_, tells)| only_stops || *tells)
            .map(|(term, _)| term)
            .filter(|term| seen.insert(term.clone()))
            .collect();
        terms.truncate(MAX);
        // A last word that came before, or was left out, is not the last of those that count.
        if let Some(own) = terms
            .last_mut()
            .filter(|own| prefix && open && Some(&**own) == last.as_ref())
        {
            own.prefix = true;
        }
        Self { terms }
    }

    /// Whether there is nothing to search for.
    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether all of them are in a file's name.
    pub(crate) fn are_in_name(&self, path: &str) -> bool {
        let name = indexed(stem(path.rsplit('/').next().unwrap_or(path)));
        let name: Vec<&str> = name.split(' ').collect();
        !self.is_empty() && self.terms.iter().all(|term| term.is_in(&name))
    }

    /// The terms of several texts.
    pub(crate) fn all(texts: &[String]) -> Self {
        let terms = texts.iter().flat_map(|text| Self::new(text, false).terms);
        let mut seen = HashSet::new();
        Self {
            terms: terms.filter(|term| seen.insert(term.clone())).collect(),
        }
    }
}

/// A part of a query.
enum Part<'a> {
    /// What is between two quotes.
    Phrase(&'a str),
    /// What is between spaces.
    Plain(&'a str),
}

/// Takes a query apart at spaces and quotes.
fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = text[..text.floor_char_boundary(FARTHEST)].trim_start();
    while !rest.is_empty() {
        let (part, after) = if let Some((phrase, after)) = phrase(rest) {
            (Part::Phrase(phrase), after)
        } else {
            let (plain, after) = rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len()));
            (Part::Plain(plain), after)
        };
        parts.push(part);
        rest = after.trim_start();
    }
    parts
}

/// The phrase that a text begins with, without its quotes, and what follows it.
pub(crate) fn phrase(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('"')?.split_once('"')
}

/// A query as text for a model: without the quotes and stars that only a search by words reads.
pub(crate) fn plain(text: &str) -> String {
    let parts = parts(text).into_iter().map(|part| match part {
        Part::Phrase(text) => text.trim(),
        Part::Plain(text) => text.trim_end_matches('*'),
    });
    parts
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// The name of a file without what says its kind.
fn stem(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((stem, kind)) if KINDS.contains(&kind.to_ascii_lowercase().as_str()) => stem,
        _ => name,
    }
}

/// The words of a text as the full-text index takes them, with a space between them. A word that is cut at a capital letter is
/// there as a whole, too: `YouTube` is found by `tube` and by `youtube`.
fn indexed(text: &str) -> String {
    let mut out = String::new();
    let mut joined = String::new();
    let mut parts = 0;
    let finish = |out: &mut String, joined: &mut String, parts: &mut usize| {
        if *parts > 1 {
            out.push(' ');
            out.extend(joined.chars().take(MAX_LENGTH));
        }
        joined.clear();
        *parts = 0;
    };
    for word in cut(text) {
        if !word.after_case {
            finish(&mut out, &mut joined, &mut parts);
        }
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&word.text);
        // Longer than the bound it is no word anybody types.
        if joined.len() <= 4 * MAX_LENGTH {
            joined.push_str(&word.text);
        }
        parts += 1;
    }
    finish(&mut out, &mut joined, &mut parts);
    out
}

/// A word of a text.
struct Word {
    text: String,
    /// It follows the word before without anything between, where a capital letter begins.
    after_case: bool,
    /// The text ends with it.
    at_end: bool,
}

/// What a character is to the cutting of words.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Small,
    Capital,
    Digit,
    /// Between words.
    Gap,
}

/// Accents, which are left out: a word is found with and without them.
fn is_accent(letter: char) -> bool {
    matches!(letter, '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}')
}

fn kind(letter: char) -> Kind {
    if letter.is_numeric() {
        Kind::Digit
    } else if letter.is_uppercase() && !letter.to_lowercase().eq([letter]) {
        // Letters in circles and squares are capital ones for ever: nothing begins with them.
        Kind::Capital
    } else if letter.is_alphabetic() || unicode_normalization::char::is_combining_mark(letter) {
        Kind::Small
    } else {
        Kind::Gap
    }
}

/// Cuts a text into words in small letters.
fn cut(text: &str) -> Vec<Word> {
    let text = &text[..text.floor_char_boundary(FARTHEST)];
    // Apostrophes are no gaps: a dog's bark is found by `dogs` and, through stemming, by `dog`.
    let mut letters = text
        .nfkd()
        .filter(|&letter| !is_accent(letter) && !matches!(letter, '\'' | '\u{2019}'))
        .peekable();
    let mut words: Vec<Word> = Vec::new();
    let mut word = String::new();
    let mut taken = 0;
    let mut after_case = false;
    let mut before = Kind::Gap;
    while let Some(letter) = letters.next() {
        let now = kind(letter);
        let next = letters.peek().map_or(Kind::Gap, |&letter| kind(letter));
        let at_case = now == Kind::Capital
            && (before == Kind::Small || (before == Kind::Capital && next == Kind::Small));
        let at_digit = before != Kind::Gap && (now == Kind::Digit) != (before == Kind::Digit);
        if (now == Kind::Gap || at_case || at_digit) && !word.is_empty() {
            words.push(Word {
                text: std::mem::take(&mut word),
                after_case,
                at_end: false,
            });
            taken = 0;
            after_case = at_case;
        }
        if now == Kind::Gap {
            after_case = false;
        } else if taken < MAX_LENGTH {
            word.extend(letter.to_lowercase().filter(|&letter| !is_accent(letter)));
            taken += 1;
        }
        before = now;
    }
    if !word.is_empty() {
        words.push(Word {
            text: word,
            after_case,
            at_end: true,
        });
    }
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        let terms = QueryWords::new(text, false).terms;
        terms.into_iter().flat_map(|term| term.words).collect()
    }

    /// Terms as they are written: phrases in quotes, prefixes with a star.
    fn written(text: &str, prefix: bool) -> Vec<String> {
        let terms = QueryWords::new(text, prefix).terms.into_iter();
        terms
            .map(|term| {
                let words = term.words.join(" ");
                let words = if term.words.len() > 1 {
                    format!("\"{words}\"")
                } else {
                    words
                };
                words + if term.prefix { "*" } else { "" }
            })
            .collect()
    }

    #[test]
    fn quotes_make_phrases_and_stars_prefixes() {
        let terms = |text: &str| written(text, false);
        assert_eq!(terms("\"Rain on a roof\" heavy"), ["\"rain on a roof\"", "heavy"]);
        assert_eq!(terms("thund* rain"), ["thund*", "rain"]);
        assert_eq!(terms("DogBa* the*"), ["dog", "ba*", "the*"]);
        assert_eq!(
            terms("\"the\" dog"),
            ["the", "dog"],
            "a quoted stop word is meant"
        );
        assert_eq!(
            terms("\"rain on"),
            ["rain"],
            "a quote that is not closed is punctuation"
        );
        assert_eq!(
            terms("12\" record \"a"),
            ["12", "record"],
            "so is one within a word"
        );
        assert_eq!(terms("th*der *storm * **"), ["th", "der", "storm"]);
        assert_eq!(terms("\"rain*\" \"\" \"*\""), ["rain"], "no stars in quotes");
        assert_eq!(terms("rain \"rain\" rain*"), ["rain", "rain*"]);
        assert_eq!(terms("\"a b\"\"c d\""), ["\"a b\"", "\"c d\""]);
        assert_eq!(written("\"rain on a ro", true), ["rain", "ro*"]);
        assert_eq!(written("\"rain on a roof\"", true), ["\"rain on a roof\""]);
        assert_eq!(plain(" \"rain  on\" a roo* 12\" "), "rain  on a roo 12\"");
        assert_eq!(plain("* \"\""), "");
    }

    #[test]
    fn phrases_and_prefixes_are_found_in_names() {
        let named = |text: &str, path: &str| QueryWords::new(text, false).are_in_name(path);
        assert!(named("\"heavy rain\" 0*", "/x/HeavyRain_03.wav"));
        assert!(!named("\"rain heavy\"", "/x/HeavyRain_03.wav"));
        assert!(named("hea* rain", "/x/heavy rain.wav"));
        assert!(!named("hea rain", "/x/heavy rain.wav"));
    }

    #[test]
    fn names_of_files_are_cut_into_words() {
        let columns = Columns::new(
            "/lib/FieldRecs 2024/DogBark_03-close.WAV",
            &AudioInfo::default(),
            &Notes::default(),
        );
        assert_eq!(columns.name, "dog bark dogbark 03 close");
        assert_eq!(columns.folders, "lib field recs fieldrecs 2024");
        assert_eq!(words("DogBark_03-close"), ["dog", "bark", "03", "close"]);
        assert_eq!(
            words("HTMLParser XMLHttp2Go"),
            ["html", "parser", "xml", "http", "2", "go"]
        );
        assert_eq!(stem("take.1.wav"), "take.1");
        assert_eq!(stem("Mr.Smith"), "Mr.Smith");
    }

    #[test]
    fn accents_case_and_forms_make_no_difference() {
        assert_eq!(words("Café"), ["cafe"]);
        assert_eq!(words("Cafe\u{301}"), ["cafe"]);
        assert_eq!(words("ﬁre"), ["fire"]);
        assert_eq!(words("İstanbul"), ["istanbul"]);
        assert_eq!(words("dog’s dog's"), ["dogs"]);
        assert_eq!(words("犬の声 собака"), ["犬の声", "собака"]);
    }

    #[test]
    fn stop_words_count_only_alone() {
        assert_eq!(words("the rain on a roof"), ["rain", "roof"]);
        assert_eq!(words("on the"), ["on", "the"]);
        assert!(words("  🐶 --- ").is_empty());
    }

    #[test]
    fn the_last_word_is_a_prefix_if_asked_for_and_nothing_follows() {
        let prefix = |text| written(text, true).iter().any(|term| term.ends_with('*'));
        assert!(prefix("dog ba"));
        assert!(!prefix("dog ba "));
        assert!(!prefix("dog barks on"), "a stop word is not searched for");
        assert!(!prefix("dog bark dog"));
        assert!(!prefix(""));
        assert_eq!(written("dog ba", false), ["dog", "ba"]);
    }

    #[test]
    fn long_texts_are_bounded() {
        let long = "x".repeat(3 << 20);
        assert_eq!(words(&long), ["x".repeat(MAX_LENGTH)]);
        let many: String = (0..1000)
            .map(|number| format!("w{} ", "a".repeat(number % 60)))
            .collect();
        assert_eq!(words(&many).len(), MAX);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, rng_seed: RngSeed::Fixed(20_261_116), failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn words_hold_no_syntax(text in "\\PC{0,60}|[\\x00-\\x7f]{0,60}") {
            for word in words(&text) {
                prop_assert!(!word.is_empty() && word.chars().all(|letter| kind(letter) != Kind::Gap));
            }
            let again = indexed(&indexed(&text));
            prop_assert_eq!(&indexed(&again), &again, "what is cut is not cut further");
        }
    }
}
