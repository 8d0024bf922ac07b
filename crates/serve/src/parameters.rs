//! The parameters of a URL, in the URL standard's form encoding: `a=1&b=two+words&b=%C3%BC`.
//!
//! Unknown names, values given twice where one is allowed, text that is not UTF-8, and zero bytes, which databases refuse, are
//! errors. Empty values count as absent. Pairs are split here and decoded by `percent-encoding`, not by `form_urlencoded`, which
//! replaces invalid UTF-8 silently.

use std::str::FromStr;

use hark_catalogue::parse_day;
use percent_encoding::percent_decode_str;

use crate::api_error::ApiError;

/// Most parameters of a request.
const MAX: usize = 200;

/// What stands behind the `?` of a URL.
#[derive(Debug, Default)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Reads them; `known` are the names that may be there.
    pub(crate) fn parse(query: Option<&str>, known: &[&str]) -> Result<Self, ApiError> {
        let mut all = Vec::new();
        for pair in query.unwrap_or_default().split('&').filter(|p| !p.is_empty()) {
            if all.len() == MAX {
                return Err(ApiError::bad(format!("more than {MAX} parameters")));
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            all.push((decode(name)?, decode(value)?));
        }
        let mut unknown: Vec<String> = all
            .iter()
            .filter(|(name, _)| !known.contains(&name.as_str()))
            .map(|(name, _)| format!("`{}`", shorten(name)))
            .collect();
        unknown.dedup();
        if !unknown.is_empty() {
            let here = if known.is_empty() {
                "this path takes none".to_owned()
            } else {
                format!("known parameters: {}", known.join(", "))
            };
            let unknown = unknown.join(", ");
            return Err(ApiError::bad(format!("unknown parameter {unknown}; {here}")));
        }
        all.retain(|(_, value)| !value.is_empty());
        Ok(Self(all))
    }

    /// All values of a name that may be repeated.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let of_name = self.0.iter().filter(move |(n, _)| n == name);
        of_name.map(|(_, value)| value.as_str())
    }

    /// The value of a name that may be given once.
    pub(crate) fn one(&self, name: &str) -> Result<Option<&str>, ApiError> {
        let mut values = self.all(name);
        let first = values.next();
        match values.next() {
            Some(_) => Err(ApiError::bad(format!(
                "`{name}` is given more than once; it takes one value"
            ))),
            None => Ok(first),
        }
    }

    /// A value that must be one of a few words.
    pub(crate) fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Result<Option<T>, ApiError> {
        let Some(value) = self.one(name)? else {
            return Ok(None);
        };
        if let Some((_, meaning)) = choices.iter().find(|(word, _)| *word == value) {
            return Ok(Some(*meaning));
        }
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        let (value, words) = (shorten(value), words.join(", "));
        Err(ApiError::bad(format!(
            "`{name}` must be one of {words}, not `{value}`"
        )))
    }

    /// A whole number.
    pub(crate) fn whole<T: FromStr>(&self, name: &str) -> Result<Option<T>, ApiError> {
        self.read(name, INTEGER, integer)
    }

    /// Whole numbers, at most `most`.
    pub(crate) fn wholes<T: FromStr>(&self, name: &str, most: usize) -> Result<Vec<T>, ApiError> {
        if self.all(name).count() > most {
            return Err(ApiError::bad(format!("`{name}` is given at most {most} times")));
        }
        let each = |value| integer(value).ok_or_else(|| refusal(name, INTEGER, value));
        self.all(name).map(each).collect()
    }

    /// A number of seconds.
    pub(crate) fn seconds(&self, name: &str) -> Result<Option<f64>, ApiError> {
        self.read(name, "a number of seconds, 0 or more", |value| {
            value.parse().ok().filter(|s: &f64| s.is_finite() && *s >= 0.0)
        })
    }

    /// A day, as `2026-11-15`.
    pub(crate) fn day(&self, name: &str) -> Result<Option<String>, ApiError> {
        self.read(name, "a day such as 2026-11-15", |value| parse_day(value).ok())
    }

    fn read<T>(
        &self,
        name: &str,
        what: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, ApiError> {
        let Some(value) = self.one(name)? else {
            return Ok(None);
        };
        read(value).map(Some).ok_or_else(|| refusal(name, what, value))
    }
}

/// What a whole number must be.
const INTEGER: &str = "an integer in range";

/// Digits, with or without a minus.
fn integer<T: FromStr>(value: &str) -> Option<T> {
    let digits = value.strip_prefix('-').unwrap_or(value);
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    value.parse().ok().filter(|_| plain)
}

fn refusal(name: &str, what: &str, value: &str) -> ApiError {
    ApiError::bad(format!("`{name}` must be {what}, not `{}`", shorten(value)))
}

/// What a client sent, short enough to be told back.
pub(crate) fn shorten(text: &str) -> String {
    const MAX: usize = 40;
    let short: String = text.chars().take(MAX).collect();
    if short.len() < text.len() {
        format!("{short}…")
    } else {
        short
    }
}

fn decode(text: &str) -> Result<String, ApiError> {
    let spaced = text.replace('+', " ");
    match percent_decode_str(&spaced).decode_utf8() {
        Ok(text) if !text.contains('\0') => Ok(text.into_owned()),
        Ok(_) => Err(ApiError::bad("a parameter has a zero byte")),
        Err(_) => Err(ApiError::bad("a parameter is not UTF-8")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(query: &str) -> Result<Parameters, ApiError> {
        Parameters::parse(Some(query), &["a", "b", "ü"])
    }

    fn refused(query: &str) -> String {
        format!("{:?}", parse(query).unwrap_err())
    }

    #[test]
    fn forms() {
        let parameters = parse("a=1&b=two+words&&b=%C3%BC%26&%C3%BC=100%&a").unwrap();
        assert_eq!(parameters.one("a").unwrap(), Some("1"));
        assert_eq!(parameters.all("b").collect::<Vec<_>>(), ["two words", "ü&"]);
        assert_eq!(parameters.one("ü").unwrap(), Some("100%"));
        assert!(parameters.one("b").is_err());
        assert_eq!(parse("a=%2+%zz").unwrap().one("a").unwrap(), Some("%2 %zz"));
        assert_eq!(parse("a=%+1").unwrap().one("a").unwrap(), Some("% 1"));
    }

    #[test]
    fn refusals() {
        assert!(refused("c=1").contains("`c`"));
        assert!(refused("a=%ff").contains("UTF-8"));
        assert!(refused("a=%00").contains("zero"));
        assert!(refused(&"a=1&".repeat(MAX + 1)).contains("200"));
        let long = refused(&"x".repeat(1000));
        assert!(long.len() < 300, "{long}");
    }

    #[test]
    fn values() {
        let ok = |query: &str| parse(query).unwrap();
        assert_eq!(ok("a=12").whole::<u32>("a").unwrap(), Some(12));
        assert_eq!(ok("a=-12").whole::<i64>("a").unwrap(), Some(-12));
        assert_eq!(ok("a=").whole::<u32>("a").unwrap(), None);
        for bad in [
            "-1",
            "%2B1",
            "1.5",
            "1e3",
            "99999999999999999999",
            "0x1",
            "-",
            "٣",
        ] {
            assert!(ok(&format!("a={bad}")).whole::<u32>("a").is_err(), "{bad}");
        }
        assert_eq!(ok("a=1.5").seconds("a").unwrap(), Some(1.5));
        for bad in ["-1", "inf", "NaN", "1e999", "one"] {
            assert!(ok(&format!("a={bad}")).seconds("a").is_err(), "{bad}");
        }
        assert!(ok("a=2026-11-15").day("a").unwrap().is_some());
        for bad in [
            "2026-13-01",
            "2026-00-01",
            "2026-02-31",
            "26-1-1",
            "2026-11-32",
            "today",
            "2026-11-15-1",
        ] {
            assert!(ok(&format!("a={bad}")).day("a").is_err(), "{bad}");
        }
    }

    proptest! {
        /// What is coded by the rule comes back; any other bytes give text or a refusal.
        #[test]
        fn round_trip(text in "[^\\x00]{0,20}") {
            let coded: String = text.bytes().map(|b| format!("%{b:02X}")).collect();
            let parameters = Parameters::parse(Some(&format!("a={coded}")), &["a"]).unwrap();
            let expected = (!text.is_empty()).then_some(text.as_str());
            prop_assert_eq!(parameters.one("a").unwrap(), expected);
        }

        #[test]
        fn any_text(text in "\\PC{0,40}") {
            let _ = Parameters::parse(Some(&text), &["a"]);
        }
    }
}
