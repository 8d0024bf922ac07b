//! JSON objects as rows: what JSON Lines and WavCaps have in common.
//!
//! In: one JSON object. Out: its fields, of which only text, whole numbers and lists of text are kept; the rest is
//! read past, so that a row takes no more memory than its text.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::Error;
use crate::error::Place;

/// The fields of one JSON object.
pub(crate) type Fields = BTreeMap<String, Field>;

/// The value of a field.
#[derive(Debug, PartialEq)]
pub(crate) enum Field {
    Text(String),
    Whole(String),
    Texts(Vec<String>),
    /// Anything else, in words.
    Other(&'static str),
}

impl Field {
    fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Whole(_) => "a number",
            Self::Texts(_) => "a list of text",
            Self::Other(kind) => kind,
        }
    }
}

/// A JSON object and its position.
pub(crate) struct Object<'f> {
    pub(crate) fields: &'f Fields,
    pub(crate) path: &'f Arc<Path>,
    pub(crate) place: Place,
}

impl Object<'_> {
    /// The captions of a field: text, or a list of text with at least one element.
    pub(crate) fn captions(&self, column: &str) -> Result<&[String], Error> {
        match self.field(column)? {
            Field::Text(text) => Ok(std::slice::from_ref(text)),
            Field::Texts(texts) if texts.is_empty() => Err(Error::Empty {
                path: Arc::clone(self.path),
                place: self.place,
                column: column.to_owned(),
            }),
            Field::Texts(texts) => Ok(texts),
            other => Err(self.wrong_type(column, "text or a list of text", other.kind())),
        }
    }

    /// An id: text, or a whole number as it is written.
    pub(crate) fn id(&self, column: &str) -> Result<&str, Error> {
        match self.field(column)? {
            Field::Text(id) | Field::Whole(id) => Ok(id),
            other => Err(self.wrong_type(column, "text or a whole number", other.kind())),
        }
    }

    fn field(&self, column: &str) -> Result<&Field, Error> {
        self.fields.get(column).ok_or_else(|| Error::MissingColumn {
            path: Arc::clone(self.path),
            place: self.place,
            column: column.to_owned(),
            found: self.fields.keys().cloned().collect(),
        })
    }

    fn wrong_type(&self, column: &str, expected: &'static str, got: &'static str) -> Error {
        let (path, column) = (Arc::clone(self.path), column.to_owned());
        Error::WrongType {
            path,
            place: self.place,
            column,
            expected,
            got,
        }
    }
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldVisitor)
    }
}

struct FieldVisitor;

impl<'de> Visitor<'de> for FieldVisitor {
    type Value = Field;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Field, E> {
        Ok(Field::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Field, E> {
        Ok(Field::Text(text))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Field, E> {
        Ok(Field::Whole(number.to_string()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Field, E> {
        Ok(Field::Whole(number.to_string()))
    }

    /// Numbers of more than 64 bits come as floats too: two ids could become one.
    fn visit_f64<E>(self, _: f64) -> Result<Field, E> {
        Ok(Field::Other("a number with a fraction, or too large"))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Field, E> {
        Ok(Field::Other("true or false"))
    }

    fn visit_unit<E>(self) -> Result<Field, E> {
        Ok(Field::Other("null"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Field, A::Error> {
        let mut texts = Vec::new();
        let mut all_text = true;
        while let Some(element) = list.next_element::<Field>()? {
            match element {
                Field::Text(text) if all_text => texts.push(text),
                _ => all_text = false,
            }
        }
        Ok(if all_text {
            Field::Texts(texts)
        } else {
            Field::Other("a list of other things than text")
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Field, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Field::Other("an object"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_value_is_read() {
        let line = r#"{"text": "é\n", "whole": 18446744073709551615, "below": -7, "half": 0.5, "large": 1e300,
            "texts": ["a", "b"], "none": [], "mixed": ["a", 1, {"b": [null]}], "object": {"a": {}}, "null": null,
            "true": true}"#;
        let fields: Fields = serde_json::from_str(line).unwrap();
        assert_eq!(fields["text"], Field::Text("é\n".into()));
        assert_eq!(fields["whole"], Field::Whole("18446744073709551615".into()));
        assert_eq!(fields["below"], Field::Whole("-7".into()));
        assert_eq!(fields["texts"], Field::Texts(vec!["a".into(), "b".into()]));
        assert_eq!(fields["none"], Field::Texts(Vec::new()));
        for name in ["half", "large", "mixed", "object", "null", "true"] {
            assert!(
                matches!(fields[name], Field::Other(_)),
                "{name}: {:?}",
                fields[name]
            );
        }
    }
}
