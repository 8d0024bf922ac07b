//! Which words, pieces and pairs get a vector.
//!
//! In: the captions to fit on and the teacher's own vocabulary, in the order of its ids (frequent first). Out: units in
//! the order of the table: words of the captions, the teacher's other words until the table is full, pieces of words,
//! pairs. So a caption in other words than the ones that were fitted on still finds most of them.

use std::collections::{HashMap, HashSet};

use hark_encode::sentence::lexicon::{CONTINUES, for_each_pair, for_each_word};

/// Units by kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Units {
    /// Words and pieces, which the teacher can embed.
    pub(super) words: Vec<String>,
    /// Pairs of words, which begin at zero.
    pub(super) pairs: Vec<String>,
    /// How often each of `words` stands in the captions.
    pub(super) counts: Vec<u64>,
}

impl Units {
    pub(super) fn all(&self) -> impl Iterator<Item = &str> {
        self.words.iter().chain(&self.pairs).map(String::as_str)
    }
}

/// Chooses at most `rows` units, of which at most `pieces` are pieces and `pairs` pairs.
pub(super) fn choose(
    captions: &[&str],
    vocabulary: &[String],
    rows: usize,
    pieces: usize,
    pairs: usize,
) -> Units {
    let mut words: HashMap<String, u64> = HashMap::new();
    let mut pair_counts: HashMap<String, u64> = HashMap::new();
    for caption in captions {
        for_each_word(caption, |word| *words.entry(word.to_owned()).or_default() += 1);
        for_each_pair(caption, |pair| {
            *pair_counts.entry(pair.to_owned()).or_default() += 1;
        });
    }
    let pairs: Vec<String> = frequent(pair_counts)
        .into_iter()
        .take(pairs)
        .map(|(pair, _)| pair)
        .collect();
    let is_word = |text: &str| !text.is_empty() && text.chars().all(char::is_alphanumeric);
    // The shortest pieces first: with the single letters there, every word can be cut.
    let mut endings: Vec<&String> = vocabulary
        .iter()
        .filter(|token| token.strip_prefix(CONTINUES).is_some_and(is_word))
        .collect();
    endings.sort_by_key(|token| token.chars().count() > CONTINUES.len() + 1);
    endings.truncate(pieces);

    let room = rows.saturating_sub(pairs.len() + endings.len());
    // A word that stands once in the captions is as likely a slip as a word; the teacher's vocabulary decides.
    let known: HashSet<&str> = vocabulary.iter().map(String::as_str).collect();
    let mut chosen: Vec<String> = Vec::new();
    let mut counts = Vec::new();
    let mut taken: HashSet<String> = HashSet::new();
    for (word, count) in frequent(words.clone()) {
        if (count > 1 || known.contains(word.as_str())) && chosen.len() < room {
            taken.insert(word.clone());
            chosen.push(word);
            counts.push(count);
        }
    }
    let single = |token: &&String| token.chars().count() == 1;
    let others = vocabulary
        .iter()
        .filter(single)
        .chain(vocabulary.iter().filter(|token| !single(token)));
    for token in others.filter(|token| is_word(token)) {
        if chosen.len() >= room {
            break;
        }
        if taken.insert(token.clone()) {
            chosen.push(token.clone());
            counts.push(0);
        }
    }
    counts.extend(std::iter::repeat_n(0, endings.len()));
    chosen.extend(endings.into_iter().cloned());
    Units {
        words: chosen,
        pairs,
        counts,
    }
}

/// Most frequent first, then in alphabetical order: the same on every run.
fn frequent(counts: HashMap<String, u64>) -> Vec<(String, u64)> {
    let mut sorted: Vec<(String, u64)> = counts.into_iter().collect();
    sorted.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captions_come_first_then_the_vocabulary() {
        let vocabulary: Vec<String> = ["[PAD]", "rain", "q", "dog", "##s", "##ing", "whale", "!"]
            .iter()
            .map(|&t| t.to_owned())
            .collect();
        let captions = ["rain falls", "rain falls hard", "rain and dog"];
        let units = choose(&captions, &vocabulary, 9, 1, 2);
        // `hard` and `and` stand once and are not in the vocabulary; `dog` is.
        assert_eq!(units.words, ["rain", "falls", "dog", "q", "whale", "##s"]);
        assert_eq!(units.pairs, ["rain falls", "and dog"]);
        assert_eq!(units.counts, [3, 2, 1, 0, 0, 0]);
        assert_eq!(choose(&captions, &vocabulary, 5, 1, 1).all().count(), 5);
    }
}
