//! Queries by what they say: how long they are, how many sounds they name, whether they negate, whether they order in time.
//!
//! These are counts of words, not a grammar: a sound is what stands between commas and words such as `and`, `while` and `followed
//! by`; a negation is a word such as `no` and `without`; an order in time is a word such as `then` and `after`. They are the same
//! for every model, which is what slices are for.

/// A set of queries that have something in common.
#[derive(Debug, Clone, Copy)]
pub struct Slice {
    /// What it is by, such as `length`.
    pub by: &'static str,
    /// Which of them, such as `up to 7 words`.
    pub name: &'static str,
    belongs: fn(&Traits) -> bool,
}

impl Slice {
    /// Whether a query belongs.
    pub fn has(&self, text: &str) -> bool {
        (self.belongs)(&Traits::of(text))
    }
}

/// All slices, in the order of reports. A query is in one of each kind.
pub const SLICES: [Slice; 10] = [
    slice("length", "up to 7 words", |traits| traits.words <= 7),
    slice("length", "8 to 12 words", |traits| {
        (8..=12).contains(&traits.words)
    }),
    slice("length", "13 words and more", |traits| traits.words >= 13),
    slice("sounds named", "one", |traits| traits.sounds <= 1),
    slice("sounds named", "two", |traits| traits.sounds == 2),
    slice("sounds named", "three and more", |traits| traits.sounds >= 3),
    slice("negation", "with", |traits| traits.negated),
    slice("negation", "without", |traits| !traits.negated),
    slice("order in time", "with", |traits| traits.ordered),
    slice("order in time", "without", |traits| !traits.ordered),
];

const fn slice(by: &'static str, name: &'static str, belongs: fn(&Traits) -> bool) -> Slice {
    Slice { by, name, belongs }
}

/// Words that stand between two sounds.
const JOINS: [&str; 15] = [
    "and",
    "while",
    "then",
    "followed",
    "with",
    "as",
    "before",
    "after",
    "over",
    "together",
    "during",
    "when",
    "but",
    "plus",
    "alongside",
];
const NEGATIONS: [&str; 10] = [
    "no", "not", "without", "never", "none", "nothing", "nobody", "neither", "nor", "hardly",
];
const ORDERS: [&str; 20] = [
    "then",
    "after",
    "afterwards",
    "before",
    "followed",
    "follows",
    "following",
    "while",
    "during",
    "until",
    "finally",
    "first",
    "next",
    "later",
    "meanwhile",
    "simultaneously",
    "when",
    "once",
    "subsequently",
    "throughout",
];
/// Words that make no sound by themselves: a part that has only these names none.
const SILENT: [&str; 17] = [
    "a",
    "an",
    "the",
    "by",
    "and",
    "then",
    "is",
    "are",
    "of",
    "in",
    "on",
    "at",
    "all",
    "finally",
    "afterwards",
    "it",
    "that",
];

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Traits {
    words: usize,
    sounds: usize,
    negated: bool,
    ordered: bool,
}

impl Traits {
    fn of(text: &str) -> Self {
        let lower = text.to_lowercase();
        let is_part =
            |letter: char| letter.is_alphanumeric() || letter == '\'' || letter == '-' || letter == '’';
        let (mut words, mut sounds, mut negated, mut ordered) = (0, 0, false, false);
        for clause in lower.split([',', ';', ':', '.']) {
            let mut names_one = false;
            for word in clause
                .split(|letter| !is_part(letter))
                .filter(|word| !word.is_empty())
            {
                words += 1;
                negated |= NEGATIONS.contains(&word) || word.ends_with("n't") || word.ends_with("n’t");
                ordered |= ORDERS.contains(&word);
                if JOINS.contains(&word) {
                    sounds += usize::from(names_one);
                    names_one = false;
                } else {
                    names_one |= !SILENT.contains(&word);
                }
            }
            sounds += usize::from(names_one);
        }
        Self {
            words,
            sounds: sounds.max(1),
            negated,
            ordered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captions_are_taken_apart() {
        for (text, words, sounds, negated, ordered) in [
            ("A dog barks", 3, 1, false, false),
            ("A dog barks and rain falls", 6, 2, false, false),
            ("Rain falls, and then a man speaks", 7, 2, false, true),
            (
                "A drill whirs, then water drips, all while a motor hums.",
                11,
                3,
                false,
                true,
            ),
            ("Wind blows without any birds", 5, 1, true, false),
            ("A crowd doesn't cheer", 4, 1, true, false),
            ("", 0, 1, false, false),
            ("A bell rings followed by footsteps", 6, 2, false, true),
        ] {
            let expected = Traits {
                words,
                sounds,
                negated,
                ordered,
            };
            assert_eq!(Traits::of(text), expected, "{text}");
        }
    }

    #[test]
    fn every_query_is_in_one_slice_of_each_kind() {
        for text in [
            "A dog barks",
            "",
            "no, no, no and then some more of it until nothing is left of the dog",
            "x y z",
        ] {
            for by in ["length", "sounds named", "negation", "order in time"] {
                let slices = SLICES.iter().filter(|slice| slice.by == by && slice.has(text));
                assert_eq!(slices.count(), 1, "{text} {by}");
            }
        }
    }
}
