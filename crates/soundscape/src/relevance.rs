//! How true a caption is of a clip.
//!
//! In: what a caption says ([`Claims`]) and a clip's description. Out: a number from 0 to 1, the share of the caption's
//! claims that hold, each with its weight:
//!
//! ```text
//!              sum over said events e in the clip of (2 + sum over said attributes a of agree(a, e)) + held relations
//! relevance = ----------------------------------------------------------------------------------------------------
//!              sum over said events e of (2 + number of said attributes of e)                        + said relations
//! ```
//!
//! An event is in the clip if an event of its kind is (kinds of a clip differ, so there is one at most). An attribute
//! agrees by its distance on its scale: `1 - |said - true| / length`, with quiet, neither, loud (slow, neither, fast;
//! low, neither, high) at 0, 1, 2 and the counts once, twice, three times, more at 0, 1, 2, 3. A relation holds if
//! both its events are in the clip in that order. Hence 1 exactly if all that is said is true, 0 exactly if
//! no kind that is said sounds; and a caption that says less is entirely true of more clips.

use serde::{Deserialize, Serialize};

use super::scene::{Attributes, Description, Relation};

/// An event that a caption mentions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SaidEvent {
    pub(super) kind: usize,
    /// What is said of it.
    pub(super) attributes: Attributes,
}

/// What a caption says about the order of two events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaidRelation {
    /// The one, by its place among the mentioned events.
    pub first: usize,
    /// The other.
    pub second: usize,
    /// The order of the first and the second.
    pub relation: Relation,
}

/// What a caption says: a part of a scene.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Claims {
    pub(super) events: Vec<SaidEvent>,
    pub(super) relations: Vec<SaidRelation>,
}

/// The weight of a kind; that of an attribute and of a relation is 1.
const KIND: f64 = 2.0;

/// The relevance of a caption to a clip.
pub(super) fn relevance(said: &Claims, clip: &Description) -> f64 {
    let place = |kind: usize| clip.events.iter().position(|event| event.kind == kind);
    let (mut claimed, mut held) = (0.0, 0.0);
    for event in &said.events {
        let agreements = place(event.kind)
            .and_then(|at| clip.events.get(at))
            .map(|found| agreements(event.attributes, found.attributes));
        claimed += KIND + number(event.attributes);
        held += agreements.map_or(0.0, |sum| KIND + sum);
    }
    for relation in &said.relations {
        let place = |event: usize| said.events.get(event).and_then(|event| place(event.kind));
        claimed += 1.0;
        if let (Some(first), Some(second)) = (place(relation.first), place(relation.second))
            && clip.relation(first, second) == relation.relation
        {
            held += 1.0;
        }
    }
    if claimed > 0.0 { held / claimed } else { 0.0 }
}

fn number(said: Attributes) -> f64 {
    f64::from(u8::from(said.loudness.is_some()))
        + f64::from(u8::from(said.pace.is_some()))
        + f64::from(u8::from(said.pitch.is_some()))
        + f64::from(u8::from(said.count.is_some()))
}

/// The sum of the agreements of all attributes that are said.
fn agreements(said: Attributes, truth: Attributes) -> f64 {
    // The two marked values of an attribute are the ends of its scale.
    let scale = |value: Option<bool>| value.map_or(1.0, |high| if high { 2.0 } else { 0.0 });
    let two = |said: Option<bool>, truth: Option<bool>| match said {
        Some(_) => 1.0 - f64::abs(scale(said) - scale(truth)) / 2.0,
        None => 0.0,
    };
    let count = match (said.count, truth.count) {
        (Some(said), Some(truth)) => 1.0 - f64::from((said as u8).abs_diff(truth as u8)) / 3.0,
        _ => 0.0,
    };
    two(
        said.loudness.map(|value| value as u8 == 1),
        truth.loudness.map(|value| value as u8 == 1),
    ) + two(
        said.pace.map(|value| value as u8 == 1),
        truth.pace.map(|value| value as u8 == 1),
    ) + two(
        said.pitch.map(|value| value as u8 == 1),
        truth.pitch.map(|value| value as u8 == 1),
    ) + count
}

#[cfg(test)]
mod tests {
    use super::super::scene::{Count, Described, Loudness};
    use super::*;

    fn event(kind: usize, first: usize, slots: usize, attributes: Attributes) -> Described {
        Described {
            first,
            left: slots - 1 - first,
            kind,
            attributes,
        }
    }

    fn loudness(loudness: Loudness) -> Attributes {
        Attributes {
            loudness: Some(loudness),
            ..Attributes::default()
        }
    }

    fn count(count: Count) -> Attributes {
        Attributes {
            count: Some(count),
            ..Attributes::default()
        }
    }

    fn said(events: &[(usize, Attributes)], relations: &[(usize, usize, Relation)]) -> Claims {
        Claims {
            events: events
                .iter()
                .map(|&(kind, attributes)| SaidEvent { kind, attributes })
                .collect(),
            relations: relations
                .iter()
                .map(|&(first, second, relation)| SaidRelation {
                    first,
                    second,
                    relation,
                })
                .collect(),
        }
    }

    /// Kind 3, loud, and then kind 5, twice.
    fn clip() -> Description {
        Description {
            slots: 2,
            events: vec![
                event(3, 0, 2, loudness(Loudness::Loud)),
                event(5, 1, 2, count(Count::Twice)),
            ],
        }
    }

    #[track_caller]
    fn check(said: &Claims, expected: f64) {
        let got = relevance(said, &clip());
        assert!((got - expected).abs() < 1e-12, "{got}, expected {expected}");
    }

    #[test]
    fn values_by_hand() {
        let nothing = Attributes::default();
        let loud = loudness(Loudness::Loud);
        let quiet = loudness(Loudness::Quiet);
        check(&said(&[(3, nothing)], &[]), 1.0);
        check(&said(&[(4, nothing)], &[]), 0.0);
        check(&said(&[(4, loud)], &[]), 0.0);
        check(&said(&[(3, loud)], &[]), 1.0);
        // The kind is right and the loudness the opposite; or said where there is none to speak of.
        check(&said(&[(3, quiet)], &[]), 2.0 / 3.0);
        check(&said(&[(5, quiet)], &[]), 2.5 / 3.0);
        check(&said(&[(5, count(Count::Many))], &[]), (2.0 + 1.0 / 3.0) / 3.0);
        check(
            &said(&[(3, nothing), (5, nothing)], &[(0, 1, Relation::Before)]),
            1.0,
        );
        check(
            &said(&[(5, nothing), (3, nothing)], &[(0, 1, Relation::After)]),
            1.0,
        );
        check(
            &said(&[(3, nothing), (5, nothing)], &[(0, 1, Relation::Overlap)]),
            0.8,
        );
        check(
            &said(&[(3, nothing), (5, nothing)], &[(0, 1, Relation::After)]),
            0.8,
        );
        // One of two events, and so no relation.
        check(
            &said(&[(3, loud), (4, nothing)], &[(0, 1, Relation::Before)]),
            0.5,
        );
        check(&Claims::default(), 0.0);
    }
}
