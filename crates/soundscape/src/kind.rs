//! The kinds of events: what each is called, how it comes (without end, at a pace, or counted), what can be said of it.
//!
//! In: the number of kinds, or the categories of recordings. Out: [`Kind`]s. A phrase is a subject and its verb in two
//! forms; the most common wording comes first. The first twenty synthesised kinds are those that differ most.

/// How a kind comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Goes on for as long as it is let.
    Sustained,
    /// Repeats itself at a pace.
    Paced,
    /// Single sounds that can be counted.
    Counted,
}

/// The synthesis of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub(super) enum Sound {
    Rain,
    Bell,
    Engine,
    Bark,
    Siren,
    Clock,
    Footsteps,
    Birds,
    Wind,
    Thunder,
    Drip,
    Phone,
    Knock,
    Drum,
    Whistle,
    Cricket,
    Drill,
    Applause,
    Frog,
    Horn,
    Typing,
    Waves,
    Cat,
    Fire,
    Helicopter,
}

/// What is fixed about a synthesised kind.
#[derive(Debug)]
pub(super) struct Synthesis {
    pub(super) name: &'static str,
    pub(super) sound: Sound,
    pub(super) style: Style,
    /// Whether it has a tone that can be low or high.
    pub(super) pitched: bool,
    /// Seconds of one sound, shortest and longest; of paced kinds, how long one stroke rings.
    pub(super) unit: (f64, f64),
    /// Seconds from one sound's end to the next one's start (counted), or from start to start (paced).
    pub(super) gap: (f64, f64),
    words: &'static [Words],
}

/// Article, noun, verb that agrees with it, and its form in -ing; whether the subject is plural; whether it is a thing
/// or a sound, so that it can be loud or low itself.
type Words = (&'static str, &'static str, &'static str, &'static str, bool, bool);

/// A subject and what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Phrase {
    /// `a` stands for `a` or `an`, whichever the next word needs.
    pub(super) article: &'static str,
    pub(super) noun: String,
    pub(super) verb: &'static str,
    pub(super) gerund: &'static str,
    pub(super) plural: bool,
    pub(super) takes_adjective: bool,
}

/// A kind of event.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) name: String,
    pub(super) phrases: Vec<Phrase>,
    /// `None` for a category of recordings.
    pub(super) synthesis: Option<&'static Synthesis>,
}

impl Kind {
    pub(super) fn has(&self, style: Style) -> bool {
        self.synthesis.is_some_and(|synthesis| synthesis.style == style)
    }

    pub(super) fn pitched(&self) -> bool {
        self.synthesis.is_some_and(|synthesis| synthesis.pitched)
    }
}

/// The first `count` synthesised kinds.
pub(super) fn synthesised(count: usize) -> Vec<Kind> {
    SYNTHESISED
        .iter()
        .take(count)
        .map(|synthesis| Kind {
            name: synthesis.name.to_owned(),
            phrases: phrases(synthesis.words),
            synthesis: Some(synthesis),
        })
        .collect()
}

/// The kind of a category of recordings. Categories that are not known are described by their name.
pub(super) fn recorded(category: &str) -> Kind {
    let synthesised = |name: &str| {
        SYNTHESISED
            .iter()
            .find(|synthesis| synthesis.name == name)
            .map(|synthesis| synthesis.words)
    };
    let phrases = match category {
        "crying_baby" => phrases(BABY),
        "rooster" => phrases(ROOSTER),
        "sneezing" => phrases(SNEEZE),
        "chainsaw" => phrases(CHAINSAW),
        "dog" => phrases(BARK),
        "clock_tick" => phrases(CLOCK),
        "sea_waves" => phrases(WAVES),
        "crackling_fire" => phrases(FIRE),
        "thunderstorm" => phrases(THUNDER),
        "church_bells" => phrases(BELL),
        "chirping_birds" => phrases(BIRDS),
        "crickets" => phrases(CRICKET),
        "water_drops" => phrases(DRIP),
        "door_wood_knock" => phrases(KNOCK),
        "car_horn" => phrases(HORN),
        "keyboard_typing" => phrases(TYPING),
        "clapping" => phrases(APPLAUSE),
        other => synthesised(other).map_or_else(|| by_name(other), phrases),
    };
    Kind {
        name: category.to_owned(),
        phrases,
        synthesis: None,
    }
}

fn phrases(words: &[Words]) -> Vec<Phrase> {
    words
        .iter()
        .map(|&(article, noun, verb, gerund, plural, takes_adjective)| Phrase {
            article,
            noun: noun.to_owned(),
            verb,
            gerund,
            plural,
            takes_adjective,
        })
        .collect()
}

fn by_name(category: &str) -> Vec<Phrase> {
    // A name of many words would break the bound on a caption's length.
    let name: Vec<&str> = category
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .take(2)
        .collect();
    let name = if name.is_empty() {
        "something".to_owned()
    } else {
        name.join(" ")
    };
    [
        ("sound of", "continues", "continuing"),
        ("noise of", "continues", "continuing"),
        ("sound of", "persists", "persisting"),
        ("noise of", "persists", "persisting"),
    ]
    .map(|(what, verb, gerund)| Phrase {
        article: "the",
        noun: format!("{what} {name}"),
        verb,
        gerund,
        plural: false,
        takes_adjective: true,
    })
    .to_vec()
}

const fn kind(
    name: &'static str,
    sound: Sound,
    (style, pitched): (Style, bool),
    unit: (f64, f64),
    gap: (f64, f64),
    words: &'static [Words],
) -> Synthesis {
    Synthesis {
        name,
        sound,
        style,
        pitched,
        unit,
        gap,
        words,
    }
}

const SUSTAINED: (Style, bool) = (Style::Sustained, false);
const PITCHED: (Style, bool) = (Style::Sustained, true);
const PACED: (Style, bool) = (Style::Paced, false);
const COUNTED: (Style, bool) = (Style::Counted, false);
const TONES: (Style, bool) = (Style::Counted, true);
const NONE: (f64, f64) = (0.0, 0.0);

/// All synthesised kinds.
#[rustfmt::skip]
pub(super) static SYNTHESISED: [Synthesis; 25] = [
    kind("rain", Sound::Rain, SUSTAINED, NONE, NONE, RAIN),
    kind("bell", Sound::Bell, TONES, (0.7, 1.2), (0.0, 0.1), BELL),
    kind("engine", Sound::Engine, PITCHED, NONE, NONE, ENGINE),
    kind("dog", Sound::Bark, TONES, (0.16, 0.26), (0.12, 0.3), BARK),
    kind("siren", Sound::Siren, PACED, (0.5, 0.8), (0.8, 1.0), SIREN),
    kind("clock", Sound::Clock, PACED, (0.04, 0.06), (0.42, 0.5), CLOCK),
    kind("footsteps", Sound::Footsteps, PACED, (0.1, 0.16), (0.42, 0.52), FOOTSTEPS),
    kind("birds", Sound::Birds, PACED, (0.08, 0.16), (0.26, 0.34), BIRDS),
    kind("wind", Sound::Wind, SUSTAINED, NONE, NONE, WIND),
    kind("thunder", Sound::Thunder, SUSTAINED, NONE, NONE, THUNDER),
    kind("drip", Sound::Drip, PACED, (0.07, 0.11), (0.38, 0.48), DRIP),
    kind("phone", Sound::Phone, COUNTED, (0.4, 0.6), (0.2, 0.35), PHONE),
    kind("knock", Sound::Knock, COUNTED, (0.09, 0.13), (0.12, 0.22), KNOCK),
    kind("drum", Sound::Drum, PACED, (0.2, 0.3), (0.34, 0.42), DRUM),
    kind("whistle", Sound::Whistle, TONES, (0.35, 0.6), (0.15, 0.3), WHISTLE),
    kind("cricket", Sound::Cricket, PACED, (0.12, 0.16), (0.28, 0.34), CRICKET),
    kind("drill", Sound::Drill, PITCHED, NONE, NONE, DRILL),
    kind("applause", Sound::Applause, SUSTAINED, NONE, NONE, APPLAUSE),
    kind("frog", Sound::Frog, COUNTED, (0.25, 0.4), (0.12, 0.25), FROG),
    kind("horn", Sound::Horn, TONES, (0.35, 0.6), (0.12, 0.25), HORN),
    kind("typing", Sound::Typing, PACED, (0.03, 0.05), (0.15, 0.19), TYPING),
    kind("waves", Sound::Waves, SUSTAINED, NONE, NONE, WAVES),
    kind("cat", Sound::Cat, TONES, (0.45, 0.7), (0.15, 0.3), CAT),
    kind("fire", Sound::Fire, SUSTAINED, NONE, NONE, FIRE),
    kind("helicopter", Sound::Helicopter, PACED, (0.04, 0.06), (0.085, 0.1), HELICOPTER),
];

#[rustfmt::skip]
mod words {
    use super::Words;

    pub(super) const RAIN: &[Words] = &[
        ("", "rain", "falls", "falling", false, true),
        ("", "rain", "pours down", "pouring down", false, true),
        ("", "raindrops", "patter on the ground", "pattering on the ground", true, true),
        ("", "rain", "comes down", "coming down", false, true),
        ("a", "shower of rain", "falls", "falling", false, true),
    ];
    pub(super) const BELL: &[Words] = &[
        ("a", "bell", "rings", "ringing", false, true),
        ("a", "bell", "chimes", "chiming", false, true),
        ("a", "church bell", "tolls", "tolling", false, true),
        ("a", "bell", "is struck", "being struck", false, true),
    ];
    pub(super) const ENGINE: &[Words] = &[
        ("a", "engine", "idles", "idling", false, true),
        ("a", "engine", "runs", "running", false, true),
        ("a", "motor", "hums", "humming", false, true),
        ("a", "car engine", "rumbles", "rumbling", false, true),
        ("a", "vehicle", "idles", "idling", false, false),
    ];
    pub(super) const BARK: &[Words] = &[
        ("a", "dog", "barks", "barking", false, false),
        ("a", "dog", "yaps", "yapping", false, false),
        ("a", "hound", "woofs", "woofing", false, false),
        ("a", "puppy", "barks", "barking", false, false),
    ];
    pub(super) const SIREN: &[Words] = &[
        ("a", "siren", "wails", "wailing", false, true),
        ("a", "siren", "sounds", "sounding", false, true),
        ("a", "emergency vehicle", "blares", "blaring", false, true),
        ("a", "ambulance siren", "howls", "howling", false, true),
    ];
    pub(super) const CLOCK: &[Words] = &[
        ("a", "clock", "ticks", "ticking", false, true),
        ("a", "clock", "ticks away", "ticking away", false, true),
        ("a", "timepiece", "clicks", "clicking", false, true),
        ("a", "old clock", "ticks", "ticking", false, true),
    ];
    pub(super) const FOOTSTEPS: &[Words] = &[
        ("a", "person", "walks", "walking", false, false),
        ("", "footsteps", "echo", "echoing", true, true),
        ("", "heavy boots", "tread on a floor", "treading on a floor", true, false),
        ("", "footsteps", "pass by", "passing by", true, true),
        ("", "somebody", "steps along a corridor", "stepping along a corridor", false, false),
    ];
    pub(super) const BIRDS: &[Words] = &[
        ("", "birds", "chirp", "chirping", true, false),
        ("", "birds", "sing", "singing", true, false),
        ("", "songbirds", "tweet", "tweeting", true, false),
        ("a", "bird", "chirps", "chirping", false, false),
    ];
    pub(super) const WIND: &[Words] = &[
        ("the", "wind", "blows", "blowing", false, true),
        ("the", "wind", "howls", "howling", false, true),
        ("a", "breeze", "gusts", "gusting", false, true),
        ("", "wind", "rushes by", "rushing by", false, true),
    ];
    pub(super) const THUNDER: &[Words] = &[
        ("", "thunder", "rumbles", "rumbling", false, true),
        ("", "thunder", "rolls", "rolling", false, true),
        ("a", "thunderstorm", "booms", "booming", false, false),
        ("", "thunder", "roars", "roaring", false, true),
    ];
    pub(super) const DRIP: &[Words] = &[
        ("", "water", "drips", "dripping", false, false),
        ("", "water drops", "fall", "falling", true, false),
        ("a", "leaking tap", "drips", "dripping", false, false),
        ("", "drops of water", "plop down", "plopping down", true, false),
    ];
    pub(super) const PHONE: &[Words] = &[
        ("a", "phone", "rings", "ringing", false, true),
        ("a", "telephone", "rings", "ringing", false, true),
        ("a", "landline phone", "jingles", "jingling", false, true),
        ("a", "old telephone", "rings", "ringing", false, true),
    ];
    pub(super) const KNOCK: &[Words] = &[
        ("", "someone", "knocks on a door", "knocking on a door", false, false),
        ("a", "person", "knocks", "knocking", false, false),
        ("a", "fist", "raps on wood", "rapping on wood", false, false),
        ("", "somebody", "knocks on wood", "knocking on wood", false, false),
    ];
    pub(super) const DRUM: &[Words] = &[
        ("a", "drum", "beats", "beating", false, true),
        ("a", "drum", "is played", "being played", false, true),
        ("a", "drummer", "pounds away", "pounding away", false, false),
        ("a", "bass drum", "thumps", "thumping", false, true),
    ];
    pub(super) const WHISTLE: &[Words] = &[
        ("a", "person", "whistles", "whistling", false, false),
        ("", "someone", "whistles", "whistling", false, false),
        ("a", "whistle", "is blown", "being blown", false, true),
        ("a", "man", "whistles a note", "whistling a note", false, false),
    ];
    pub(super) const CRICKET: &[Words] = &[
        ("a", "cricket", "chirps", "chirping", false, false),
        ("", "crickets", "chirp", "chirping", true, false),
        ("a", "insect", "stridulates", "stridulating", false, false),
        ("a", "cricket", "trills", "trilling", false, false),
    ];
    pub(super) const DRILL: &[Words] = &[
        ("a", "drill", "whirs", "whirring", false, true),
        ("a", "power tool", "buzzes", "buzzing", false, true),
        ("a", "electric saw", "grinds", "grinding", false, true),
        ("a", "drill", "bores into a wall", "boring into a wall", false, true),
    ];
    pub(super) const APPLAUSE: &[Words] = &[
        ("", "people", "applaud", "applauding", true, false),
        ("a", "audience", "claps", "clapping", false, false),
        ("a", "crowd", "applauds", "applauding", false, false),
        ("a", "crowd", "claps its hands", "clapping its hands", false, false),
    ];
    pub(super) const FROG: &[Words] = &[
        ("a", "frog", "croaks", "croaking", false, false),
        ("a", "toad", "croaks", "croaking", false, false),
        ("a", "frog", "ribbits", "ribbiting", false, false),
        ("a", "frog", "calls", "calling", false, false),
    ];
    pub(super) const HORN: &[Words] = &[
        ("a", "car", "honks", "honking", false, false),
        ("a", "horn", "honks", "honking", false, true),
        ("a", "driver", "beeps a horn", "beeping a horn", false, false),
        ("a", "car horn", "sounds", "sounding", false, true),
    ];
    pub(super) const TYPING: &[Words] = &[
        ("a", "person", "types on a keyboard", "typing on a keyboard", false, false),
        ("", "someone", "types", "typing", false, false),
        ("", "keys", "clatter", "clattering", true, false),
        ("a", "keyboard", "clicks", "clicking", false, true),
    ];
    pub(super) const WAVES: &[Words] = &[
        ("", "waves", "wash ashore", "washing ashore", true, false),
        ("", "waves", "roll in", "rolling in", true, false),
        ("the", "surf", "breaks on a beach", "breaking on a beach", false, true),
        ("", "ocean waves", "break", "breaking", true, false),
    ];
    pub(super) const CAT: &[Words] = &[
        ("a", "cat", "meows", "meowing", false, false),
        ("a", "cat", "mews", "mewing", false, false),
        ("a", "kitten", "cries", "crying", false, false),
        ("a", "tomcat", "meows", "meowing", false, false),
    ];
    pub(super) const FIRE: &[Words] = &[
        ("a", "fire", "crackles", "crackling", false, true),
        ("a", "fire", "burns", "burning", false, false),
        ("", "logs", "pop in a fireplace", "popping in a fireplace", true, false),
        ("a", "campfire", "crackles", "crackling", false, true),
    ];
    pub(super) const HELICOPTER: &[Words] = &[
        ("a", "helicopter", "flies", "flying", false, true),
        ("a", "helicopter", "hovers", "hovering", false, true),
        ("", "rotor blades", "chop the air", "chopping the air", true, false),
        ("a", "helicopter", "passes by", "passing by", false, true),
    ];
    pub(super) const BABY: &[Words] = &[
        ("a", "baby", "cries", "crying", false, false),
        ("a", "baby", "wails", "wailing", false, false),
        ("a", "infant", "sobs", "sobbing", false, false),
        ("a", "baby", "bawls", "bawling", false, false),
    ];
    pub(super) const ROOSTER: &[Words] = &[
        ("a", "rooster", "crows", "crowing", false, false),
        ("a", "rooster", "calls", "calling", false, false),
        ("a", "cockerel", "crows", "crowing", false, false),
        ("a", "cock", "crows", "crowing", false, false),
    ];
    pub(super) const SNEEZE: &[Words] = &[
        ("a", "person", "sneezes", "sneezing", false, false),
        ("", "someone", "sneezes", "sneezing", false, false),
        ("a", "man", "lets out a sneeze", "letting out a sneeze", false, false),
        ("", "somebody", "sneezes", "sneezing", false, false),
    ];
    pub(super) const CHAINSAW: &[Words] = &[
        ("a", "chainsaw", "runs", "running", false, true),
        ("a", "chainsaw", "buzzes", "buzzing", false, true),
        ("a", "motor saw", "cuts wood", "cutting wood", false, true),
        ("a", "chainsaw", "roars", "roaring", false, true),
    ];
}
use words::{
    APPLAUSE, BABY, BARK, BELL, BIRDS, CAT, CHAINSAW, CLOCK, CRICKET, DRILL, DRIP, DRUM, ENGINE, FIRE,
    FOOTSTEPS, FROG, HELICOPTER, HORN, KNOCK, PHONE, RAIN, ROOSTER, SIREN, SNEEZE, THUNDER, TYPING, WAVES,
    WHISTLE, WIND,
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn phrases_are_short_told_apart_and_at_least_four() {
        let recorded = [
            "crying_baby",
            "rooster",
            "sneezing",
            "chainsaw",
            "a_b_c_d_e",
            "__",
        ]
        .map(recorded);
        for kind in synthesised(usize::MAX).iter().chain(&recorded) {
            assert!(kind.phrases.len() >= 4, "{}", kind.name);
            let mut seen = HashSet::new();
            for phrase in &kind.phrases {
                let text = format!("{} {} {}", phrase.article, phrase.noun, phrase.verb);
                let words = text.split_whitespace().count();
                // Three of them, each with "is", and six words between are 24.
                assert!(words <= 6, "{text}");
                assert!(seen.insert(text.clone()), "{text} stands twice");
                assert!(
                    seen.insert(format!("{} {}", phrase.noun, phrase.gerund)),
                    "{text}"
                );
            }
        }
    }

    /// No two kinds may be described alike: the words would be true of a clip that has only the other.
    #[test]
    fn no_two_kinds_share_a_phrase() {
        let mut seen = HashSet::new();
        for kind in synthesised(usize::MAX) {
            let own: HashSet<String> = kind
                .phrases
                .iter()
                .flat_map(|phrase| {
                    [
                        format!("{} {}", phrase.noun, phrase.verb),
                        format!("{} {}", phrase.noun, phrase.gerund),
                    ]
                })
                .collect();
            for text in own {
                assert!(seen.insert(text.clone()), "{text} describes two kinds");
            }
        }
    }

    #[test]
    fn verbs_agree_with_their_subjects() {
        for kind in synthesised(usize::MAX) {
            for phrase in kind.phrases {
                let singular = phrase
                    .verb
                    .split(' ')
                    .next()
                    .is_some_and(|verb| verb.ends_with('s') && !verb.ends_with("ss"));
                assert_eq!(singular, !phrase.plural, "{} {}", phrase.noun, phrase.verb);
                assert!(phrase.gerund.contains("ing"), "{}", phrase.gerund);
            }
        }
    }
}
