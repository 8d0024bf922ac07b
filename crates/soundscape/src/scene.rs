//! Scenes: what sounds, how, and in which order; and one realisation of it in time.
//!
//! In: the kinds, the settings and random numbers. Out: a [`Description`], which is all that words can speak of, and
//! from it, as often as wished, a [`Plan`] of [`Sounding`] events with their times and levels.
//!
//! The clip is parted into one to three slots. Every event fills one slot, or the first two: events of one slot all
//! sound at the middle of it, and so overlap; an event of an earlier slot ends before one of a later slot begins.

use hark_work::random::{Random, key};
use serde::{Deserialize, Serialize};

use super::Split;
use super::config::{Attribute, Config};
use super::kind::{Kind, Style};
use super::recordings::Library;

/// How loud.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loudness {
    /// A peak of -30 to -26 dBFS.
    Quiet,
    /// A peak of -6 to -3 dBFS.
    Loud,
}

/// How fast.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// Nearly twice the usual time from one sound to the next.
    Slow,
    /// Half the usual time.
    Fast,
}

/// How high.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pitch {
    /// About nine semitones below the usual.
    Low,
    /// About nine semitones above.
    High,
}

/// How often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Count {
    /// One sound.
    Once,
    /// Two.
    Twice,
    /// Three.
    Thrice,
    /// Four or five.
    Many,
}

/// What there is to say of an event beside its kind. `None` is neither of the two, or, of counts, not controlled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Attributes {
    /// Quiet or loud.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loudness: Option<Loudness>,
    /// Slow or fast.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
    /// Low or high.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pitch: Option<Pitch>,
    /// How often.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<Count>,
}

/// The order of two events in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// The first ends before the second begins.
    Before,
    /// The second ends before the first begins.
    After,
    /// There is a time at which both sound.
    Overlap,
}

/// An event of a description.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Described {
    /// The first slot that it fills. The order of these fields is the order of events.
    pub(super) first: usize,
    /// How many slots before the last one it ends, so that an event of two slots stands before those of one.
    pub(super) left: usize,
    pub(super) kind: usize,
    pub(super) attributes: Attributes,
}

/// All that words can speak of in a scene. The kinds of its events differ.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Description {
    pub(super) slots: usize,
    /// Sorted, so that equal scenes are equal values.
    pub(super) events: Vec<Described>,
}

impl Description {
    pub(super) fn relation(&self, one: usize, other: usize) -> Relation {
        let span = |event: usize| {
            self.events.get(event).map_or((0, 0), |event| {
                (event.first, self.slots.saturating_sub(1 + event.left))
            })
        };
        let (one, other) = (span(one), span(other));
        if one.1 < other.0 {
            Relation::Before
        } else if other.1 < one.0 {
            Relation::After
        } else {
            Relation::Overlap
        }
    }

    /// The split that this description belongs to: three fifths of all are for training, one fifth each for validation
    /// and test, whatever the numbers of clips are, so that a split does not change with the size of another.
    pub(super) fn split(&self, seed: u64) -> Split {
        let mut parts = vec![seed, 0x0073_706c_6974, self.slots as u64];
        for event in &self.events {
            let attributes = event.attributes;
            parts.extend([
                event.first as u64,
                event.left as u64,
                event.kind as u64,
                attributes.loudness.map_or(0, |value| 1 + value as u64),
                attributes.pace.map_or(0, |value| 1 + value as u64),
                attributes.pitch.map_or(0, |value| 1 + value as u64),
                attributes.count.map_or(0, |value| 1 + value as u64),
            ]);
        }
        match key(&parts) % 5 {
            0..=2 => Split::Train,
            3 => Split::Validation,
            _ => Split::Test,
        }
    }
}

/// The slots of an event: the first and the last.
type Span = (usize, usize);
/// One event; two, one after the other or together.
const ONE: &[Span] = &[(0, 0)];
const IN_TURN: &[Span] = &[(0, 0), (1, 1)];
const TOGETHER: &[Span] = &[(0, 0), (0, 0)];
/// Three: in turn, one before two, two before one, one behind two that come in turn, all together.
const THREE: [&[Span]; 5] = [
    &[(0, 0), (1, 1), (2, 2)],
    &[(0, 0), (1, 1), (1, 1)],
    &[(0, 0), (0, 0), (1, 1)],
    &[(0, 1), (0, 0), (1, 1)],
    &[(0, 0), (0, 0), (0, 0)],
];
/// The layout of [`THREE`] whose first event must be able to go on.
const BACKGROUND: usize = 3;

/// A description, of any split.
pub(super) fn draw(config: &Config, kinds: &[Kind], random: &mut Random) -> Description {
    let number = config.min_events + random.below(config.max_events - config.min_events + 1);
    let mut order: Vec<usize> = (0..kinds.len()).collect();
    random.shuffle(&mut order);
    let layout = match number {
        1 => ONE,
        2 => [IN_TURN, TOGETHER][random.below(2)],
        _ => {
            let lasting = order
                .iter()
                .position(|&kind| kinds.get(kind).is_some_and(|kind| kind.has(Style::Sustained)));
            let mut layout = random.below(THREE.len());
            if layout == BACKGROUND {
                match lasting {
                    Some(at) => order.swap(0, at),
                    None => layout = 0,
                }
            }
            THREE[layout]
        }
    };
    let slots = 1 + layout.iter().map(|span| span.1).max().unwrap_or(0);
    let mut events: Vec<Described> = layout
        .iter()
        .zip(order)
        .filter_map(|(span, kind)| {
            Some(Described {
                first: span.0,
                left: slots - 1 - span.1,
                kind,
                attributes: attributes(config, kinds.get(kind)?, random),
            })
        })
        .collect();
    events.sort_unstable();
    Description { slots, events }
}

fn attributes(config: &Config, kind: &Kind, random: &mut Random) -> Attributes {
    let mut one_of_two = |asked: bool, marked: f64| {
        let drawn = random.unit();
        (asked && drawn < marked).then_some(drawn < marked / 2.0)
    };
    let loudness = one_of_two(config.uses(Attribute::Loudness), 0.5);
    let pace = one_of_two(config.uses(Attribute::Pace) && kind.has(Style::Paced), 0.65);
    let pitch = one_of_two(config.uses(Attribute::Pitch) && kind.pitched(), 0.65);
    let count = [Count::Once, Count::Twice, Count::Thrice, Count::Many][random.below(4)];
    Attributes {
        loudness: loudness.map(|low| if low { Loudness::Quiet } else { Loudness::Loud }),
        pace: pace.map(|low| if low { Pace::Slow } else { Pace::Fast }),
        pitch: pitch.map(|low| if low { Pitch::Low } else { Pitch::High }),
        count: (config.uses(Attribute::Count) && kind.has(Style::Counted)).then_some(count),
    }
}

/// One event as it will sound.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sounding {
    pub(super) start: f64,
    pub(super) end: f64,
    /// The peak, in dB below full scale.
    pub(super) level: f64,
    /// What the tone's frequencies are multiplied by.
    pub(super) pitch: f64,
    /// When its single sounds begin, from the event's start.
    pub(super) strikes: Vec<f64>,
    /// How long a single sound takes.
    pub(super) unit: f64,
    /// The recording it is cut from, and where the cut begins, in seconds.
    pub(super) cut: Option<(usize, f64)>,
}

/// One realisation of a description.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    /// In the order of the description's events.
    pub(super) events: Vec<Sounding>,
    /// The effective level of the noise behind everything, in dB below full scale.
    pub(super) floor: f64,
}

/// No realisation comes nearer to full scale than this.
const MAX_PEAK: f64 = 0.97;

/// Realise a description: times, levels and what else the description leaves open.
pub(super) fn plan(
    description: &Description,
    seconds: f64,
    kinds: &[Kind],
    library: Option<(&Library, Split)>,
    random: &mut Random,
) -> Plan {
    let bounds = slots(description.slots, seconds, random);
    let floor = between(random, (-72.0, -56.0));
    let mut events: Vec<Sounding> = description
        .events
        .iter()
        .enumerate()
        .filter_map(|(number, event)| {
            let last = description.slots.saturating_sub(1 + event.left);
            let slot = (bounds.get(event.first)?.0, bounds.get(last)?.1);
            let kind = kinds.get(event.kind)?;
            let mut sounding = match (kind.synthesis, library) {
                (None, Some((library, split))) => {
                    recorded(library, split, event.kind, slot.1 - slot.0, random)
                }
                _ => synthesised(
                    kind,
                    event.attributes,
                    slot.1 - slot.0,
                    last > event.first,
                    random,
                ),
            };
            let shared = (0..description.events.len())
                .any(|other| other != number && description.relation(number, other) == Relation::Overlap);
            let start = placed(slot, sounding.end, shared, random);
            sounding.start = start;
            sounding.end += start;
            sounding.level = level(event.attributes.loudness, random);
            Some(sounding)
        })
        .collect();
    keep_below_full_scale(&mut events);
    Plan { events, floor }
}

pub(super) fn between(random: &mut Random, (low, high): (f64, f64)) -> f64 {
    low + (high - low) * random.unit()
}

/// The slots of a clip, start and end in seconds.
fn slots(number: usize, seconds: f64, random: &mut Random) -> Vec<(f64, f64)> {
    let widths: Vec<f64> = (0..number).map(|_| between(random, (0.85, 1.15))).collect();
    let total: f64 = widths.iter().sum();
    let (lead, gap) = (0.02 * seconds, 0.03 * seconds);
    let room = seconds - 2.0 * lead - gap * number.saturating_sub(1) as f64;
    let mut start = lead;
    widths
        .iter()
        .map(|width| {
            let end = start + room * width / total;
            let slot = (start, end);
            start = end + gap;
            slot
        })
        .collect()
}

/// Where an event of this length begins within its slot. Events that may share the slot must contain its middle.
fn placed(slot: (f64, f64), length: f64, shared: bool, random: &mut Random) -> f64 {
    let (mut earliest, mut latest) = (slot.0, (slot.1 - length).max(slot.0));
    if shared {
        let middle = f64::midpoint(slot.0, slot.1);
        // A margin, so that the overlap is one that can be heard.
        earliest = earliest.max(middle - 0.6 * length);
        latest = latest.min(middle - 0.4 * length).max(earliest);
    }
    between(random, (earliest, latest))
}

fn level(loudness: Option<Loudness>, random: &mut Random) -> f64 {
    let range = match loudness {
        Some(Loudness::Quiet) => (-30.0, -26.0),
        None => (-18.0, -13.0),
        Some(Loudness::Loud) => (-6.0, -3.0),
    };
    between(random, range)
}

/// The peaks of events that overlap might fall together: then their sum must still be below full scale. Three of the
/// loudest are lowered by 7 dB, which keeps them above every event that is not called loud.
fn keep_below_full_scale(events: &mut [Sounding]) {
    let amplitude = |level: f64| 10_f64.powf(level / 20.0);
    let highest = events
        .iter()
        .map(|one| {
            events
                .iter()
                .filter(|other| other.start < one.end && one.start < other.end)
                .map(|other| amplitude(other.level))
                .sum::<f64>()
        })
        .fold(0.0, f64::max);
    if highest > MAX_PEAK {
        let lowered = 20.0 * (MAX_PEAK / highest).log10();
        for event in events {
            event.level += lowered;
        }
    }
}

/// An event at time 0 that fits `room` seconds.
fn synthesised(kind: &Kind, attributes: Attributes, room: f64, whole: bool, random: &mut Random) -> Sounding {
    let length = if whole {
        room
    } else {
        room * between(random, (0.75, 1.0))
    };
    let factor = match attributes.pitch {
        Some(Pitch::Low) => 0.6,
        None => 1.0,
        Some(Pitch::High) => 1.65,
    };
    let mut sounding = Sounding {
        start: 0.0,
        end: length,
        level: 0.0,
        pitch: factor * between(random, (0.93, 1.07)),
        strikes: Vec::new(),
        unit: length,
        cut: None,
    };
    let Some(synthesis) = kind.synthesis else {
        return sounding;
    };
    let unit = between(random, synthesis.unit);
    let gap = between(random, synthesis.gap);
    match synthesis.style {
        Style::Sustained => {}
        Style::Paced => {
            let factor = match attributes.pace {
                Some(Pace::Slow) => 1.9,
                None => 1.0,
                Some(Pace::Fast) => 0.5,
            };
            let period = gap * factor;
            sounding.unit = unit.min(period);
            let mut at = 0.0;
            while at + 0.5 * sounding.unit < length {
                sounding.strikes.push(at);
                at += period * between(random, (0.96, 1.04));
            }
        }
        Style::Counted => {
            let number = match attributes.count {
                Some(Count::Once) => 1,
                Some(Count::Twice) => 2,
                Some(Count::Thrice) => 3,
                Some(Count::Many) => 4 + random.below(2),
                None => 1 + random.below(4),
            };
            let natural = number as f64 * unit + (number - 1) as f64 * gap;
            let shrink = (room / natural).min(1.0);
            sounding.unit = unit * shrink;
            sounding.end = natural * shrink;
            sounding.strikes = (0..number)
                .map(|strike| strike as f64 * (unit + gap) * shrink)
                .collect();
        }
    }
    sounding
}

/// A cut of a recording that contains its loudest moment and fits `room` seconds.
fn recorded(library: &Library, split: Split, kind: usize, room: f64, random: &mut Random) -> Sounding {
    let choices = library.of(split, kind);
    let number = choices
        .get(random.below(choices.len().max(1)))
        .copied()
        .unwrap_or(0);
    let (from, length, loudest) = library.extent(number);
    let taken = length.min(room * between(random, (0.75, 1.0)));
    let earliest = (loudest - taken).max(0.0);
    let latest = loudest.min(length - taken).max(earliest);
    Sounding {
        start: 0.0,
        end: taken,
        level: 0.0,
        pitch: 1.0,
        strikes: Vec::new(),
        unit: taken,
        cut: Some((number, from + between(random, (earliest, latest)))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::kind;
    use super::*;

    fn drawn(number: usize) -> (Config, Vec<Kind>, Vec<Description>) {
        let config = Config {
            kinds: 25,
            ..Config::default()
        };
        let kinds = kind::synthesised(config.kinds);
        let mut random = Random::new(11);
        let descriptions = (0..number).map(|_| draw(&config, &kinds, &mut random)).collect();
        (config, kinds, descriptions)
    }

    #[test]
    fn times_keep_what_the_description_says() {
        let (mut config, kinds, descriptions) = drawn(1500);
        for (number, description) in descriptions.iter().enumerate() {
            config.seconds = [1.0, 4.0, 11.0][number % 3];
            let plan = plan(
                description,
                config.seconds,
                &kinds,
                None,
                &mut Random::new(number as u64),
            );
            assert_eq!(plan.events.len(), description.events.len());
            for (one, event) in plan.events.iter().enumerate() {
                assert!(event.start >= 0.0 && event.end > event.start + 0.02 && event.end <= config.seconds);
                for (other, second) in plan.events.iter().enumerate().skip(one + 1) {
                    let held = match description.relation(one, other) {
                        Relation::Before => event.end < second.start,
                        Relation::After => second.end < event.start,
                        Relation::Overlap => event.start < second.end && second.start < event.end,
                    };
                    assert!(held, "{description:?}\n{plan:?}");
                }
            }
        }
    }

    #[test]
    fn levels_keep_what_the_description_says_and_never_reach_full_scale() {
        let (config, kinds, descriptions) = drawn(1500);
        for (number, description) in descriptions.iter().enumerate() {
            let plan = plan(
                description,
                config.seconds,
                &kinds,
                None,
                &mut Random::new(number as u64),
            );
            let together: f64 = plan
                .events
                .iter()
                .map(|event| 10_f64.powf(event.level / 20.0))
                .sum();
            if description.slots == 1 {
                assert!(together <= MAX_PEAK + 1e-9);
            }
            for (event, described) in plan.events.iter().zip(&description.events) {
                let range = match described.attributes.loudness {
                    Some(Loudness::Quiet) => -37.0..=-26.0,
                    None => -25.0..=-13.0,
                    Some(Loudness::Loud) => -12.99..=-3.0,
                };
                assert!(range.contains(&event.level), "{described:?} {event:?}");
            }
        }
    }

    #[test]
    fn counts_and_paces_are_kept() {
        let (config, kinds, descriptions) = drawn(800);
        for (number, description) in descriptions.iter().enumerate() {
            let plan = plan(
                description,
                config.seconds,
                &kinds,
                None,
                &mut Random::new(number as u64),
            );
            for (event, described) in plan.events.iter().zip(&description.events) {
                let strikes = event.strikes.len();
                match described.attributes.count {
                    Some(Count::Once) => assert_eq!(strikes, 1),
                    Some(Count::Twice) => assert_eq!(strikes, 2),
                    Some(Count::Thrice) => assert_eq!(strikes, 3),
                    Some(Count::Many) => assert!(strikes >= 4),
                    None => {}
                }
                if let (Some(pace), Some(synthesis)) =
                    (described.attributes.pace, kinds[described.kind].synthesis)
                {
                    for pair in event.strikes.windows(2) {
                        let usual = pair[1] - pair[0];
                        match pace {
                            Pace::Slow => assert!(usual > 1.15 * synthesis.gap.1),
                            Pace::Fast => assert!(usual < 0.85 * synthesis.gap.0),
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_layout_and_attribute_occurs() {
        let (_, _, descriptions) = drawn(1500);
        let shapes: std::collections::HashSet<Vec<(usize, usize)>> = descriptions
            .iter()
            .map(|description| {
                description
                    .events
                    .iter()
                    .map(|event| (event.first, event.left))
                    .collect()
            })
            .collect();
        assert_eq!(shapes.len(), 8);
        let all: Vec<Attributes> = descriptions
            .iter()
            .flat_map(|description| description.events.iter().map(|event| event.attributes))
            .collect();
        for (name, share) in [
            (
                "quiet",
                all.iter().filter(|a| a.loudness == Some(Loudness::Quiet)).count(),
            ),
            ("slow", all.iter().filter(|a| a.pace == Some(Pace::Slow)).count()),
            (
                "high",
                all.iter().filter(|a| a.pitch == Some(Pitch::High)).count(),
            ),
            (
                "thrice",
                all.iter().filter(|a| a.count == Some(Count::Thrice)).count(),
            ),
        ] {
            assert!(share * 20 > all.len(), "{name}: {share} of {}", all.len());
        }
    }
}
