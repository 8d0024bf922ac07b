//! How choices are written: `name`, or `name:parameter=value,parameter=value`.
//!
//! One parser for every choice of this crate, so that all of them report unknown names and parameters in the same way.

use crate::Error;

/// A choice as written, taken apart.
pub(crate) struct Spec<'a> {
    text: &'a str,
    pub(crate) name: &'a str,
    /// Parameters with the value after the equals sign, or none for a bare word.
    parameters: Vec<(&'a str, Option<&'a str>)>,
}

impl<'a> Spec<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, Error> {
        let (name, rest) = match text.split_once(':') {
            Some((name, rest)) => (name, Some(rest)),
            None => (text, None),
        };
        let mut parameters: Vec<(&str, Option<&str>)> = Vec::new();
        for part in rest.into_iter().flat_map(|rest| rest.split(',')) {
            let (parameter, value) = match part.split_once('=') {
                Some((parameter, value)) => (parameter.trim(), Some(value.trim())),
                None => (part.trim(), None),
            };
            if parameter.is_empty() {
                return Err(Error::Syntax {
                    text: text.into(),
                    reason: "a parameter has no name",
                });
            }
            if parameters.iter().any(|&(known, _)| known == parameter) {
                return Err(Error::Syntax {
                    text: text.into(),
                    reason: "a parameter is given twice",
                });
            }
            parameters.push((parameter, value));
        }
        Ok(Self {
            text,
            name: name.trim(),
            parameters,
        })
    }

    /// Takes a number out of the parameters.
    pub(crate) fn number(&mut self, parameter: &str) -> Result<Option<f64>, Error> {
        let Some(position) = self.parameters.iter().position(|&(name, _)| name == parameter) else {
            return Ok(None);
        };
        let (_, value) = self.parameters.swap_remove(position);
        let value = value.ok_or_else(|| self.syntax("a parameter has no value"))?;
        value
            .parse()
            .map(Some)
            .map_err(|_| self.syntax("a value is not a number"))
    }

    /// Takes a bare word out of the parameters.
    pub(crate) fn word(&mut self, word: &str) -> Result<bool, Error> {
        let Some(position) = self.parameters.iter().position(|&(name, _)| name == word) else {
            return Ok(false);
        };
        let (_, value) = self.parameters.swap_remove(position);
        if value.is_some() {
            Err(self.syntax("this parameter takes no value"))
        } else {
            Ok(true)
        }
    }

    pub(crate) fn syntax(&self, reason: &'static str) -> Error {
        Error::Syntax {
            text: self.text.into(),
            reason,
        }
    }

    /// Refuses what has not been taken. `known` are the parameters that `owner` has.
    pub(crate) fn finish(&self, owner: &'static str, known: &[&'static str]) -> Result<(), Error> {
        let Some(&(parameter, _)) = self.parameters.first() else {
            return Ok(());
        };
        let list = match known {
            [] => "it has none".to_owned(),
            _ => format!("it has: {}", known.join(", ")),
        };
        let nearest = nearest(parameter, known);
        Err(Error::UnknownParameter {
            owner,
            parameter: parameter.into(),
            nearest,
            known: list,
        })
    }
}

/// The error for a name that does not exist.
pub(crate) fn unknown(what: &'static str, name: &str, known: &[&'static str]) -> Error {
    Error::UnknownName {
        what,
        name: name.into(),
        nearest: nearest(name, known),
        known: known.join(", "),
    }
}

/// The known name that was most likely meant, if any is close enough to be worth suggesting.
fn nearest(name: &str, known: &[&'static str]) -> Option<&'static str> {
    let score = |known: &str| strsim::jaro_winkler(&name.to_lowercase(), known);
    known
        .iter()
        .copied()
        .filter(|known| score(known) > 0.75)
        .max_by(|a, b| score(a).total_cmp(&score(b)))
}
