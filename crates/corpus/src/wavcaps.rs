//! WavCaps' captions: one JSON object whose `data` is a list of objects with `id`, `caption` and more.
//!
//! The list is read entry by entry: the files hold hundreds of thousands of entries, and SoundBible's holds all of
//! its own on one line. The clip's id is `id` as it is written. Refused: a document without `data`, an entry without one of the two fields, an empty
//! caption, anything after the document.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize as _;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::Error;
use crate::captions::Filling;
use crate::error::Place;
use crate::input::{Input, Meter};
use crate::json::{Fields, Object};

const DATA: &str = "data";
const ID: &str = "id";
const CAPTION: &str = "caption";

/// What the document held besides captions.
pub(crate) struct Outcome {
    /// The names of the document's fields.
    pub(crate) fields: Vec<String>,
    /// Whether `data` is among them.
    pub(crate) has_data: bool,
}

/// Read a document that must be WavCaps'.
pub(crate) fn read(input: Input<'_>, set: &mut Filling) -> Result<(), Error> {
    let path = Arc::clone(input.path());
    let Outcome { fields, has_data } = read_any(input, set)?;
    if has_data {
        return Ok(());
    }
    Err(Error::MissingColumn {
        path,
        place: Place::line(1),
        column: DATA.to_owned(),
        found: fields,
    })
}

/// Read a document that may be WavCaps'. One that does not begin with an object with `data` gives no captions.
pub(crate) fn read_any(mut input: Input<'_>, set: &mut Filling) -> Result<Outcome, Error> {
    let mut outcome = Outcome {
        fields: Vec::new(),
        has_data: false,
    };
    let (path, meter) = (Arc::clone(input.path()), input.meter());
    if input.peek()?.is_empty() {
        return Err(Error::NoCaptions { path });
    }
    let mut failure = None;
    let mut json = serde_json::Deserializer::from_reader(input);
    let reading = Reading {
        set,
        path: &path,
        meter: &meter,
        failure: &mut failure,
    };
    let mut read = Document {
        reading,
        outcome: &mut outcome,
    }
    .deserialize(&mut json);
    if outcome.has_data {
        read = read.and_then(|()| json.end());
    }
    match (failure, read) {
        (Some(failure), _) => Err(failure),
        (None, Err(error)) => Err(Error::from_json(&path, 0, error)),
        (None, Ok(())) => Ok(outcome),
    }
}

/// What the visitors share.
struct Reading<'r> {
    set: &'r mut Filling,
    path: &'r Arc<Path>,
    meter: &'r Meter,
    /// An error of ours, kept beside the JSON reader, which knows only its own.
    failure: &'r mut Option<Error>,
}

struct Document<'r, 'o> {
    reading: Reading<'r>,
    outcome: &'o mut Outcome,
}

impl<'de> DeserializeSeed<'de> for Document<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Document<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a list called `data`")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            if name == DATA {
                if self.outcome.has_data {
                    return Err(A::Error::duplicate_field(DATA));
                }
                self.outcome.has_data = true;
                map.next_value_seed(Entries(&mut self.reading))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
            self.outcome.fields.push(name);
        }
        Ok(())
    }
}

struct Entries<'e, 'r>(&'e mut Reading<'r>);

impl<'de> DeserializeSeed<'de> for Entries<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects with `id` and `caption`")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut number = 1;
        while list
            .next_element_seed(Entry {
                reading: self.0,
                number,
            })?
            .is_some()
        {
            number += 1;
        }
        self.0.meter.begin_record();
        Ok(())
    }
}

struct Entry<'e, 'r> {
    reading: &'e mut Reading<'r>,
    number: u64,
}

impl Entry<'_, '_> {
    fn add(&mut self, fields: &Fields, line: u64) -> Result<(), Error> {
        let place = Place {
            line,
            entry: Some(self.number),
        };
        let object = Object {
            fields,
            path: self.reading.path,
            place,
        };
        let set = &mut *self.reading.set;
        let clip = set.clip(object.id(ID)?, place, ID)?;
        object
            .captions(CAPTION)?
            .iter()
            .try_for_each(|caption| set.caption(clip, caption, place, CAPTION))
    }
}

impl<'de> DeserializeSeed<'de> for Entry<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(mut self, deserializer: D) -> Result<(), D::Error> {
        // The JSON reader has looked at the entry's first byte and at none after it.
        let line = self.reading.meter.line();
        self.reading.meter.begin_record();
        let fields = Fields::deserialize(deserializer)?;
        self.add(&fields, line).map_err(|error| {
            *self.reading.failure = Some(error);
            D::Error::custom("refused")
        })
    }
}
