//! Tokenizes text for the full-text index: file names and queries become lists of plain words by the same rules.
//!
//! A text is normalized (Unicode NFKD without accents), then split wherever letters end: at spaces, underscores and punctuation,
//! between letters and digits, and where a lower-case letter is followed by an upper-case one. `DogBark_03-close.WAV` gives `dog bark
//! 03 close`. Words are lower-cased. Queries are split the same way, so nothing in them is syntax: the output has only letters,
//! digits and combining marks of Indic scripts. Both stores use this; stemming is up to them.

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
    /// Of the values of its metadata.
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
                &sound
                    .metadata
                    .values()
                    .map(String::as_str)
                    .collect::<Vec<_>>()
                    .join("\n"),
            ),
        }
    }
}

/// The words to search for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct QueryWords {
    /// Without repetitions, in the order of the text.
    pub words: Vec<String>,
    /// Whether longer words that begin with the last one match too.
    pub prefix: bool,
}

impl QueryWords {
    /// The words of a text. Stop words count only if there are no others. With `prefix`, the last word also matches as the
    /// beginning of a longer one, unless something follows it in the text, such as a space.
    pub(crate) fn new(text: &str, prefix: bool) -> Self {
        let cut = cut(text);
        let all: Vec<String> = cut.iter().map(|word| word.text.clone()).collect();
        let telling = |word: &String| !STOP.contains(&word.as_str());
        let only_stops = !all.iter().any(telling);
        let ends_in_word = cut.last().is_some_and(|word| word.at_end);
        let last = all.last().cloned();
        let mut seen = HashSet::new();
        let mut words: Vec<String> = all
            .into_iter()
            .filter(|word| only_stops || telling(word))
            .filter(|word| seen.insert(word.clone()))
            .collect();
        words.truncate(MAX);
        // A last word that came before, or was left out, is not the last of those that count.
        let prefix = prefix && ends_in_word && words.last() == last.as_ref() && !words.is_empty();
        Self { words, prefix }
    }

    /// Whether all of them are words of a file's name.
    pub(crate) fn are_in_name(&self, path: &str) -> bool {
        let name = stem(path.rsplit('/').next().unwrap_or(path));
        let name = indexed(name);
        let has = |nth: usize, word: &str| {
            let is_prefix = self.prefix && nth + 1 == self.words.len();
            let mut words = name.split(' ');
            words.any(|own| own == word || is_prefix && own.starts_with(word))
        };
        !self.words.is_empty() && self.words.iter().enumerate().all(|(nth, word)| has(nth, word))
    }

    /// The words of several texts, none of them a prefix.
    pub(crate) fn all(texts: &[String]) -> Self {
        let mut words: Vec<String> = texts
            .iter()
            .flat_map(|text| Self::new(text, false).words)
            .collect();
        let mut seen = HashSet::new();
        words.retain(|word| seen.insert(word.clone()));
        Self { words, prefix: false }
    }
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
        QueryWords::new(text, false).words
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
        let prefix = |text| QueryWords::new(text, true).prefix;
        assert!(prefix("dog ba"));
        assert!(!prefix("dog ba "));
        assert!(!prefix("dog barks on"), "a stop word is not searched for");
        assert!(!prefix("dog bark dog"));
        assert!(!prefix(""));
        assert!(!QueryWords::new("dog ba", false).prefix);
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
