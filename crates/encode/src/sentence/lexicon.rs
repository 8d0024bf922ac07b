//! Text to the units that a static encoder has vectors for: words, pieces of words, pairs of words.
//!
//! Text is lower-cased and stripped of accents; anything that is neither a letter nor a digit separates words. A word
//! of the lexicon is one unit. Any other word is split from the left into the longest pieces of the lexicon, as
//! WordPiece does: the first piece as it is, the others prefixed with `##`; a letter without a piece is skipped. Two
//! neighbouring words, articles left out, are a unit too if the lexicon has the pair: this is all that a sum of vectors
//! can know of word order.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// What stands before a piece that continues a word.
pub const CONTINUES: &str = "##";
/// Words that say nothing about what comes after what.
const ARTICLES: [&str; 3] = ["a", "an", "the"];
/// A longer word is cut into pieces without looking it up whole; nobody's lexicon has it.
const MAX_LENGTH: usize = 64;

/// Units and their numbers.
#[derive(Debug, Clone, Default)]
pub struct Lexicon {
    numbers: HashMap<Box<str>, u32, FixedState>,
}

impl Lexicon {
    /// Numbers the units in their order: words, pieces (`##ing`), pairs (`dog barks`). The first of equal ones counts.
    pub fn new<'a>(units: impl IntoIterator<Item = &'a str>) -> Self {
        let units: Vec<&str> = units.into_iter().collect();
        let mut numbers = HashMap::with_capacity_and_hasher(units.len(), FixedState::default());
        for (number, unit) in units.into_iter().enumerate() {
            numbers.entry(unit.into()).or_insert(number as u32);
        }
        Self { numbers }
    }

    /// The number of different units.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// The units of a text, in order: each word's, and after each word the pair that it ends.
    pub fn units(&self, text: &str) -> Vec<u32> {
        let mut units = Vec::new();
        let mut pair = String::new();
        for_each_word(text, |word| {
            self.push_word(word, &mut units);
            push_pair(&mut pair, word, |pair| units.extend(self.numbers.get(pair)));
        });
        units
    }

    /// Whether a word of a text is a unit, or begins with one of at least three letters.
    pub fn knows(&self, text: &str) -> bool {
        /// A shorter piece begins too many words to tell anything.
        const MIN_LETTERS: usize = 3;
        let mut known = false;
        for_each_word(text, |word| {
            let ends = word.char_indices().map(|(at, c)| at + c.len_utf8());
            let starts = ends.skip(MIN_LETTERS - 1).take(MAX_LENGTH);
            known |= self.numbers.contains_key(word)
                || starts
                    .into_iter()
                    .any(|end| self.numbers.contains_key(&word[..end]));
        });
        known
    }

    fn push_word(&self, word: &str, units: &mut Vec<u32>) {
        if word.len() <= MAX_LENGTH
            && let Some(&number) = self.numbers.get(word)
        {
            units.push(number);
            return;
        }
        let mut piece = String::new();
        let mut rest = word;
        while let Some(first) = rest.chars().next() {
            let continues = rest.len() < word.len();
            let ends = rest
                .char_indices()
                .map(|(at, c)| at + c.len_utf8())
                .take(MAX_LENGTH);
            let ends: Vec<usize> = ends.collect();
            let found = ends.iter().rev().find_map(|&end| {
                piece.clear();
                if continues {
                    piece.push_str(CONTINUES);
                }
                piece.push_str(&rest[..end]);
                self.numbers.get(piece.as_str()).map(|&number| (number, end))
            });
            let end = match found {
                Some((number, end)) => {
                    units.push(number);
                    end
                }
                None => first.len_utf8(),
            };
            rest = &rest[end..];
        }
    }
}

/// Hands over the words of a text, normalised.
pub fn for_each_word(text: &str, mut take: impl FnMut(&str)) {
    let mut word = String::new();
    let mut push = |c: char| {
        if c.is_alphanumeric() {
            word.push(c);
        } else if !word.is_empty() {
            take(&word);
            word.clear();
        }
    };
    if text.is_ascii() {
        text.chars().for_each(|c| push(c.to_ascii_lowercase()));
    } else {
        text.chars()
            .flat_map(char::to_lowercase)
            .nfkd()
            .filter(|c| !is_combining_mark(*c))
            .for_each(&mut push);
    }
    push(' ');
}

/// Hands over the pairs of neighbouring words of a text, articles left out.
pub fn for_each_pair(text: &str, mut take: impl FnMut(&str)) {
    let mut pair = String::new();
    for_each_word(text, |word| push_pair(&mut pair, word, &mut take));
}

/// `pair` holds the last word that was no article; the pair that `word` ends is handed over.
fn push_pair(pair: &mut String, word: &str, mut take: impl FnMut(&str)) {
    if ARTICLES.contains(&word) {
        return;
    }
    let before = pair.len();
    if before > 0 {
        pair.push(' ');
        pair.push_str(word);
        take(pair);
    }
    pair.clear();
    pair.push_str(word);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        for_each_word(text, |word| words.push(word.to_owned()));
        words
    }

    fn pairs(text: &str) -> Vec<String> {
        let mut pairs = Vec::new();
        for_each_pair(text, |pair| pairs.push(pair.to_owned()));
        pairs
    }

    #[test]
    fn a_word_is_known_by_itself_or_by_its_beginning() {
        let lexicon = Lexicon::new(["dog", "ra", "##in", "x"]);
        for (text, known) in [
            ("a dog", true),
            ("Dogs!", true),
            ("rain", false),
            ("x", true),
            ("zzxqy", false),
            ("?!", false),
        ] {
            assert_eq!(lexicon.knows(text), known, "{text}");
        }
    }

    #[test]
    fn words_are_normalised() {
        assert_eq!(
            words("A dog's BARK, then--rain!"),
            ["a", "dog", "s", "bark", "then", "rain"]
        );
        assert_eq!(words("Un café à Zürich"), ["un", "cafe", "a", "zurich"]);
        assert_eq!(words("雨 falls"), ["雨", "falls"]);
        assert!(words(" ,. ").is_empty() && words("").is_empty());
    }

    #[test]
    fn pairs_tell_order() {
        assert_eq!(
            pairs("A dog barks then a car passes"),
            ["dog barks", "barks then", "then car", "car passes"]
        );
        assert!(pairs("the rain").is_empty());
    }

    #[test]
    fn unknown_words_are_cut_into_pieces() {
        let lexicon = Lexicon::new(["rain", "bark", "##ing", "##s", "r", "##a", "dog barking"]);
        assert_eq!(lexicon.units("rain"), [0]);
        assert_eq!(lexicon.units("Barking barks"), [1, 2, 1, 3]);
        // `##i` and `##n` are not there: passed over.
        assert_eq!(lexicon.units("rai"), [4, 5]);
        assert_eq!(lexicon.units("dog barking"), [1, 2, 6]);
        assert!(lexicon.units("").is_empty());
    }

    proptest::proptest! {
        #[test]
        fn any_text_has_units_of_the_lexicon(text in ".{0,300}") {
            let lexicon = Lexicon::new(["rain", "a", "##b"]);
            proptest::prop_assert!(lexicon.units(&text).iter().all(|&unit| unit < 3));
        }
    }
}
