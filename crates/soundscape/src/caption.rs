//! Captions: what a listener might say of a scene, and in which words.
//!
//! In: a description and random numbers. Out: English sentences of at most [`MAX_WORDS`] words, and what each says
//! ([`Claims`]). Listeners leave things out: each event now and then (a quiet one more often), attributes, and the order
//! of events, which a mere "and" does not tell. A sentence is a pattern with a clause for every event; every list of
//! words begins with the most common one.

use hark_work::random::Random;

use super::kind::{Kind, Phrase};
use super::relevance::{Claims, SaidEvent, SaidRelation};
use super::scene::{Attributes, Count, Described, Description, Loudness, Pace, Pitch, Relation};

/// The longest caption.
pub(super) const MAX_WORDS: usize = 25;

/// Which part of every list of words is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wording {
    /// All of it.
    All,
    /// What training may use where wordings are kept apart: the first, the third and so on.
    Open,
    /// What validation and test may use then: the second, the fourth and so on.
    Held,
}

/// How words are chosen.
#[derive(Debug, Clone, Copy)]
pub(super) struct CaptionWriter {
    pub(super) wording: Wording,
    /// From 0, mostly the most common, to 1, all equally often.
    pub(super) rarity: f64,
}

impl CaptionWriter {
    /// One of a list: the weight of the i-th that may be used is `(1 - rarity) / 4^i + rarity`.
    fn choose<'a, T>(self, list: &'a [T], random: &mut Random) -> Option<&'a T> {
        let usable: Vec<&T> = list
            .iter()
            .enumerate()
            .filter(|&(number, _)| self.may_use(number))
            .map(|(_, item)| item)
            .collect();
        let weight = |place: usize| (1.0 - self.rarity) * 0.25_f64.powi(place as i32) + self.rarity;
        let total: f64 = (0..usable.len()).map(weight).sum();
        let mut drawn = random.unit() * total;
        for (place, item) in usable.iter().enumerate() {
            drawn -= weight(place);
            if drawn < 0.0 {
                return Some(item);
            }
        }
        usable.last().copied()
    }

    fn may_use(self, number: usize) -> bool {
        let held = number % 2 == 1;
        match self.wording {
            Wording::All => true,
            Wording::Open => !held,
            Wording::Held => held,
        }
    }
}

// Patterns: `{0c}` is a clause of the event 0 with a finite verb, simple or progressive, `{0f}` a simple one, `{0g}`
// the event as a noun with a verb in -ing.
const SINGLE: &[&str] = &[
    "{0c}",
    "{0g}",
    "the sound of {0g}",
    "{0g} can be heard",
    "a recording of {0g}",
    "one can hear {0g}",
];
const BEFORE: &[&str] = &[
    "{0c}, then {1c}",
    "{0f} before {1f}",
    "{0g}, followed by {1g}",
    "after {0f}, {1f}",
    "{0f} and then {1f}",
    "{1f} after {0f}",
    "first {0f}, then {1f}",
    "{0g} and afterwards {1g}",
];
const OVERLAP: &[&str] = &[
    "{0f} while {1c}",
    "{0f} as {1f}",
    "{0g} with {1g} in the background",
    "while {0c}, {1f}",
    "{0f} at the same time as {1f}",
    "{0g} together with {1g}",
    "as {0f}, {1f}",
];
const BOTH: &[&str] = &[
    "{0f} and {1f}",
    "{0g} and {1g}",
    "the sounds of {0g} and of {1g}",
    "{0c}, and {1c}",
    "one can hear {0g} and {1g}",
];
const IN_TURN: &[&str] = &[
    "{0c}, then {1c}, and finally {2c}",
    "{0f}, then {1f}, then {2f}",
    "{0g}, followed by {1g} and then {2g}",
    "{0f} before {1f}, and then {2f}",
    "after {0f}, {1f}, and then {2f}",
    "first {0f}, then {1f}, and lastly {2f}",
];
const ONE_BEFORE_TWO: &[&str] = &[
    "{0f}, then {1f} while {2c}",
    "after {0f}, {1f} while {2c}",
    "{0g}, followed by {1g} together with {2g}",
    "{0f}, and then {1f} as {2f}",
    "{0f} before {1f} as {2f}",
];
const TWO_BEFORE_ONE: &[&str] = &[
    "{0f} while {1c}, and then {2f}",
    "{0f} as {1f}, then {2f}",
    "{0g} together with {1g}, followed by {2g}",
    "{0g} along with {1g}, and afterwards {2g}",
];
const BEHIND_TWO: &[&str] = &[
    "while {0c}, {1f} and then {2f}",
    "as {0f}, {1f} and then {2f}",
    "{1g}, followed by {2g}, with {0g} throughout",
    "{1f}, then {2f}, all while {0c}",
];
const TOGETHER: &[&str] = &[
    "{0f} while {1c} and {2c}",
    "{0f} as {1f} and {2f}",
    "{0g} together with {1g} and {2g}",
    "while {0c}, {1f} and {2f}",
    "{0g}, {1g} and {2g} at the same time",
];
const ALL_THREE: &[&str] = &[
    "{0f}, {1f} and {2f}",
    "{0g}, {1g} and {2g}",
    "the sounds of {0g}, {1g} and {2g}",
    "one can hear {0g}, {1g} and {2g}",
];

const QUIETLY: &[&str] = &["quietly", "softly", "faintly", "gently"];
const LOUDLY: &[&str] = &["loudly", "very loudly", "noisily"];
const QUIET: &[&str] = &["quiet", "soft", "faint"];
const LOUD: &[&str] = &["loud", "very loud", "noisy"];
const SLOWLY: &[&str] = &["slowly", "at a slow pace", "unhurriedly", "at a leisurely pace"];
const FAST: &[&str] = &["quickly", "rapidly", "at a fast pace", "at high speed"];
const LOW: &[&str] = &["at a low pitch", "in a low tone", "in a deep tone"];
const HIGH: &[&str] = &["at a high pitch", "in a high tone", "in a shrill tone"];
const LOW_ADJECTIVE: &[&str] = &["low-pitched", "deep", "low-toned"];
const HIGH_ADJECTIVE: &[&str] = &["high-pitched", "shrill", "high-toned"];
const ONCE: &[&str] = &["once", "one time", "just once", "a single time"];
const TWICE: &[&str] = &["twice", "two times", "a couple of times", "2 times"];
const THRICE: &[&str] = &["three times", "thrice", "3 times", "three times in a row"];
const OFTEN: &[&str] = &["several times", "repeatedly", "over and over", "many times"];

/// A caption and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Caption {
    pub(super) text: String,
    pub(super) said: Claims,
}

/// One caption. Where attributes would make it too long, some are left out.
pub(super) fn caption(
    description: &Description,
    kinds: &[Kind],
    speaker: CaptionWriter,
    random: &mut Random,
) -> Caption {
    let mut talkative = 0.7;
    loop {
        let caption = attempt(description, kinds, speaker, talkative, random);
        if talkative < 0.0 || caption.text.split_whitespace().count() <= MAX_WORDS {
            return caption;
        }
        talkative -= 0.1;
    }
}

fn attempt(
    description: &Description,
    kinds: &[Kind],
    speaker: CaptionWriter,
    talkative: f64,
    random: &mut Random,
) -> Caption {
    let mut mentioned = mentioned(description, random);
    let (patterns, related) = patterns(description, &mentioned, random);
    if patterns == OVERLAP || patterns == TOGETHER || patterns == BOTH || patterns == ALL_THREE {
        random.shuffle(&mut mentioned);
    }
    let mut said = Claims::default();
    let mut text = speaker
        .choose(patterns, random)
        .copied()
        .unwrap_or("{0f}")
        .to_owned();
    for (slot, &event) in mentioned.iter().enumerate() {
        let Some(described) = description.events.get(event) else {
            continue;
        };
        let attributes = told(described.attributes, talkative, random);
        said.events.push(SaidEvent {
            kind: described.kind,
            attributes,
        });
        for (form, mark) in [(Form::Clause, 'c'), (Form::Simple, 'f'), (Form::Noun, 'g')] {
            let place = format!("{{{slot}{mark}}}");
            if text.contains(&place) {
                let clause = clause(described, attributes, kinds, speaker, form, random);
                text = text.replace(&place, &clause);
            }
        }
    }
    if related {
        for first in 0..mentioned.len() {
            for second in first + 1..mentioned.len() {
                said.relations.push(SaidRelation {
                    first,
                    second,
                    relation: description.relation(mentioned[first], mentioned[second]),
                });
            }
        }
    }
    Caption {
        text: sentence(&text),
        said,
    }
}

/// The events that are not left out, in the order of the description; at least one.
fn mentioned(description: &Description, random: &mut Random) -> Vec<usize> {
    let everything = 0..description.events.len();
    let kept: Vec<usize> = everything
        .clone()
        .filter(|&event| {
            let quiet = description
                .events
                .get(event)
                .is_some_and(|event| event.attributes.loudness == Some(Loudness::Quiet));
            random.unit() >= if quiet { 0.25 } else { 0.06 }
        })
        .collect();
    if kept.is_empty() {
        everything.collect()
    } else {
        kept
    }
}

/// The patterns that fit the events in time, and whether they say in which order the events occur.
fn patterns(
    description: &Description,
    mentioned: &[usize],
    random: &mut Random,
) -> (&'static [&'static str], bool) {
    use Relation::{Before, Overlap};
    let relation = |one: usize, other: usize| match (mentioned.get(one), mentioned.get(other)) {
        (Some(&one), Some(&other)) => description.relation(one, other),
        _ => Overlap,
    };
    let order_untold = random.unit() < 0.15;
    match mentioned.len() {
        0 | 1 => (SINGLE, false),
        2 if order_untold => (BOTH, false),
        2 if relation(0, 1) == Before => (BEFORE, true),
        2 => (OVERLAP, true),
        _ if order_untold => (ALL_THREE, false),
        _ => match (relation(0, 1), relation(0, 2), relation(1, 2)) {
            (Before, Before, Before) => (IN_TURN, true),
            (Before, Before, _) => (ONE_BEFORE_TWO, true),
            (Overlap, Before, Before) => (TWO_BEFORE_ONE, true),
            (Overlap, Overlap, Before) => (BEHIND_TWO, true),
            (Overlap, Overlap, Overlap) => (TOGETHER, true),
            _ => (ALL_THREE, false),
        },
    }
}

/// The attributes that are mentioned.
fn told(attributes: Attributes, talkative: f64, random: &mut Random) -> Attributes {
    let mut tells = || random.unit() < talkative;
    Attributes {
        loudness: attributes.loudness.filter(|_| tells()),
        pace: attributes.pace.filter(|_| tells()),
        pitch: attributes.pitch.filter(|_| tells()),
        count: attributes.count.filter(|_| tells()),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// "a dog barks" or "a dog is barking".
    Clause,
    /// "a dog barks".
    Simple,
    /// "a dog barking".
    Noun,
}

fn clause(
    event: &Described,
    said: Attributes,
    kinds: &[Kind],
    speaker: CaptionWriter,
    form: Form,
    random: &mut Random,
) -> String {
    let phrases = kinds
        .get(event.kind)
        .map(|kind| kind.phrases.as_slice())
        .unwrap_or_default();
    let Some(phrase) = speaker.choose(phrases, random) else {
        return String::new();
    };
    let mut adjectives: Vec<&str> = Vec::new();
    let mut manners: Vec<&str> = Vec::new();
    let mut say =
        |adjective: Option<&'static [&'static str]>, adverb: &'static [&'static str]| match adjective {
            Some(list) if phrase.takes_adjective && random.unit() < 0.45 => {
                adjectives.extend(speaker.choose(list, random));
            }
            _ => manners.extend(speaker.choose(adverb, random)),
        };
    match said.loudness {
        Some(Loudness::Quiet) => say(Some(QUIET), QUIETLY),
        Some(Loudness::Loud) => say(Some(LOUD), LOUDLY),
        None => {}
    }
    match said.pace {
        Some(Pace::Slow) => say(None, SLOWLY),
        Some(Pace::Fast) => say(None, FAST),
        None => {}
    }
    match said.count {
        Some(Count::Once) => say(None, ONCE),
        Some(Count::Twice) => say(None, TWICE),
        Some(Count::Thrice) => say(None, THRICE),
        Some(Count::Many) => say(None, OFTEN),
        None => {}
    }
    match said.pitch {
        Some(Pitch::Low) => say(Some(LOW_ADJECTIVE), LOW),
        Some(Pitch::High) => say(Some(HIGH_ADJECTIVE), HIGH),
        None => {}
    }
    let verb = match form {
        Form::Noun => phrase.gerund.to_owned(),
        Form::Clause if random.unit() < 0.4 => {
            format!("{} {}", if phrase.plural { "are" } else { "is" }, phrase.gerund)
        }
        _ => phrase.verb.to_owned(),
    };
    [subject(phrase, &adjectives), verb, joined(&manners)]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

fn subject(phrase: &Phrase, adjectives: &[&str]) -> String {
    let mut words = adjectives.join(", ");
    if !words.is_empty() {
        words.push(' ');
    }
    words.push_str(&phrase.noun);
    match phrase.article {
        "" => words,
        "a" if words.starts_with(['a', 'e', 'i', 'o', 'u']) => format!("an {words}"),
        article => format!("{article} {words}"),
    }
}

/// Two adverbs in -ly that follow each other are joined by "and".
fn joined(manners: &[&str]) -> String {
    let mut text = String::new();
    for (place, manner) in manners.iter().enumerate() {
        if place > 0 {
            let both = manner.ends_with("ly") && manners[place - 1].ends_with("ly");
            text.push_str(if both { " and " } else { " " });
        }
        text.push_str(manner);
    }
    text
}

/// A capital at the beginning and a full stop at the end.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::super::config::Config;
    use super::super::relevance::relevance;
    use super::super::{kind, scene};
    use super::*;
    use std::collections::HashSet;

    fn captions(number: usize, speaker: CaptionWriter, seed: u64) -> Vec<(Description, Caption)> {
        let config = Config {
            kinds: 25,
            ..Config::default()
        };
        let kinds = kind::synthesised(config.kinds);
        let mut random = Random::new(seed);
        (0..number)
            .map(|_| {
                let description = scene::draw(&config, &kinds, &mut random);
                let caption = caption(&description, &kinds, speaker, &mut random);
                (description, caption)
            })
            .collect()
    }

    const ANY: CaptionWriter = CaptionWriter {
        wording: Wording::All,
        rarity: 1.0,
    };

    #[test]
    fn captions_are_true_of_their_scene_and_short() {
        for (description, caption) in captions(5000, ANY, 4) {
            let text = &caption.text;
            assert!(
                (relevance(&caption.said, &description) - 1.0).abs() < 1e-12,
                "{text}"
            );
            assert!(text.split_whitespace().count() <= MAX_WORDS, "{text}");
            assert!(
                !text.contains(['{', '}']) && !text.contains("  ") && !text.contains(" ,"),
                "{text}"
            );
            assert!(
                text.ends_with('.') && text.starts_with(char::is_uppercase),
                "{text}"
            );
        }
    }

    #[test]
    fn articles_fit_the_next_word() {
        for (_, caption) in captions(3000, ANY, 5) {
            let text = caption.text.to_lowercase();
            let words: Vec<&str> = text.split_whitespace().collect();
            for pair in words.windows(2) {
                let vowel = pair[1].starts_with(['a', 'e', 'i', 'o', 'u']);
                assert!(!(pair[0] == "a" && vowel || pair[0] == "an" && !vowel), "{text}");
            }
        }
    }

    #[test]
    fn some_captions_leave_things_out_and_most_do_not() {
        let captions = captions(4000, ANY, 6);
        let omitting = captions
            .iter()
            .filter(|(description, caption)| caption.said.events.len() < description.events.len())
            .count();
        assert!((200..1600).contains(&omitting), "{omitting}");
        let untold = captions
            .iter()
            .filter(|(_, caption)| caption.said.events.len() > 1 && caption.said.relations.is_empty())
            .count();
        assert!((150..1000).contains(&untold), "{untold}");
    }

    #[test]
    fn rarity_makes_more_different_captions() {
        let different = |rarity: f64| {
            let speaker = CaptionWriter { rarity, ..ANY };
            let kinds = kind::synthesised(20);
            let description = Description {
                slots: 1,
                events: vec![Described {
                    first: 0,
                    left: 0,
                    kind: 0,
                    attributes: Attributes::default(),
                }],
            };
            let mut random = Random::new(8);
            let texts: HashSet<String> = (0..60)
                .map(|_| caption(&description, &kinds, speaker, &mut random).text)
                .collect();
            texts.len()
        };
        assert!(
            different(0.0) + 5 < different(1.0),
            "{} {}",
            different(0.0),
            different(1.0)
        );
    }

    /// Every phrase, pattern and attribute's word that held captions use is one that open captions never use.
    #[test]
    fn held_and_open_wordings_share_nothing() {
        let open = CaptionWriter {
            wording: Wording::Open,
            rarity: 1.0,
        };
        let held = CaptionWriter {
            wording: Wording::Held,
            rarity: 1.0,
        };
        let lists: Vec<&[&str]> = vec![
            SINGLE,
            BEFORE,
            OVERLAP,
            BOTH,
            IN_TURN,
            ONE_BEFORE_TWO,
            TWO_BEFORE_ONE,
            BEHIND_TWO,
            TOGETHER,
            ALL_THREE,
            QUIETLY,
            LOUDLY,
            QUIET,
            LOUD,
            SLOWLY,
            FAST,
            LOW,
            HIGH,
            LOW_ADJECTIVE,
            HIGH_ADJECTIVE,
            ONCE,
            TWICE,
            THRICE,
            OFTEN,
        ];
        for list in lists {
            let used = |speaker: CaptionWriter| {
                let mut random = Random::new(9);
                (0..200)
                    .filter_map(|_| speaker.choose(list, &mut random).copied())
                    .collect::<HashSet<&str>>()
            };
            let (open, held) = (used(open), used(held));
            assert!(
                !open.is_empty() && !held.is_empty() && open.is_disjoint(&held),
                "{list:?}"
            );
        }
        let texts = |speaker| {
            captions(4000, speaker, 10)
                .into_iter()
                .map(|(_, caption)| caption.text)
                .collect::<HashSet<String>>()
        };
        assert!(texts(open).is_disjoint(&texts(held)));
    }
}
