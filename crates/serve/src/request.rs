//! Reads the parameters of a search and checks them before any work.

use hark_catalogue::{Filter, Mode, Question};

use crate::api_error::ApiError;
use crate::parameters::Parameters;

/// Most hits of an answer.
pub(crate) const MAX_HITS: usize = 1000;

/// Longest query.
pub(crate) const MAX_QUERY_BYTES: usize = 1000;

/// Hits of an answer, if nothing is said.
const HITS: usize = 20;

/// Most hits that a search leaves out at the beginning: the further down, the more must be ranked. Browsing has no such bound.
const MAX_SKIP: usize = 10_000;

/// Most things not to be heard: each is a text to embed.
const MAX_NOT: usize = 16;

/// Most folders and tags.
const MAX_VALUES: usize = 100;

/// Longest folder or tag: the longest path of common systems.
const MAX_VALUE_BYTES: usize = 4096;

/// Parameters of an export; the other routes take a part of them.
pub(crate) const EXPORT_PARAMETERS: &[&str] = &[
    "like",
    "start",
    "q",
    "prefix",
    "not",
    "mode",
    "folder",
    "tag",
    "min_seconds",
    "max_seconds",
    "min_rate",
    "max_rate",
    "audio_format",
    "channels",
    "after",
    "before",
    "windows",
    "limit",
    "skip",
    "format",
];

/// Parameters of a search: all but the format.
pub(crate) const SEARCH_PARAMETERS: &[&str] = EXPORT_PARAMETERS.split_at(EXPORT_PARAMETERS.len() - 1).0;

/// Parameters of a search by an uploaded recording: also without `like` and `start`.
pub(crate) const UPLOAD_PARAMETERS: &[&str] = SEARCH_PARAMETERS.split_at(2).1;

/// Values of a parameter that is on or off.
const SWITCH: [(&str, bool); 2] = [("true", true), ("false", false)];

/// A search.
#[derive(Debug)]
pub(crate) struct SearchRequest {
    pub(crate) question: Question,
    pub(crate) mode: Mode,
    pub(crate) like: Option<i64>,
}

impl SearchRequest {
    pub(crate) fn read(parameters: &Parameters) -> Result<Self, ApiError> {
        let modes = [
            ("fused", Mode::Fused),
            ("meaning", Mode::Meaning),
            ("words", Mode::Words),
        ];
        let mode = parameters.choice("mode", &modes)?.unwrap_or_default();
        let like: Option<i64> = parameters.whole("like")?;
        let start = parameters.seconds("start")?;
        let limit = parameters.whole("limit")?.unwrap_or(HITS);
        let skip = parameters.whole("skip")?.unwrap_or(0);
        let mut question = Question::text(text("q", parameters.one("q")?.unwrap_or_default())?)
            .prefix(parameters.choice("prefix", &SWITCH)?.unwrap_or(false))
            .mode(mode)
            .filter(filter(parameters)?)
            .all_moments(
                parameters
                    .choice("windows", &[("one", false), ("all", true)])?
                    .unwrap_or(false),
            )
            .limit(limit)
            .offset(skip);
        for not in parameters.all("not") {
            question = question.without(text("not", not)?);
        }
        if let Some(id) = like {
            question = question.like(id, start);
        }
        let fault = if question.exclusions().len() > MAX_NOT {
            format!("a search has at most {MAX_NOT} exclusions")
        } else if limit == 0 || limit > MAX_HITS {
            format!("`limit` must be from 1 to {MAX_HITS}")
        } else if skip > MAX_SKIP && question.ranks() {
            format!("`skip` must be at most {MAX_SKIP}; use a narrower search")
        } else if start.is_some() && like.is_none() {
            "`start` is a moment of the recording in `like`, which is missing".to_owned()
        } else {
            return Ok(Self { question, mode, like });
        };
        Err(ApiError::bad(fault))
    }

    /// Searches for what is like a recording that came with the request.
    pub(crate) fn with_sound(mut self, vector: Vec<f32>) -> Self {
        self.question = self.question.sound(vector);
        self
    }
}

/// Text to search for, if it is short enough.
fn text<'a>(name: &str, value: &'a str) -> Result<&'a str, ApiError> {
    if value.len() > MAX_QUERY_BYTES {
        let got = value.len();
        return Err(ApiError::bad(format!(
            "`{name}` has {got} bytes; the limit is {MAX_QUERY_BYTES}"
        )));
    }
    Ok(value)
}

fn filter(parameters: &Parameters) -> Result<Filter, ApiError> {
    let values = |name: &str| {
        let values: Vec<String> = parameters.all(name).map(str::to_owned).collect();
        if values.len() > MAX_VALUES || values.iter().any(|v| v.len() > MAX_VALUE_BYTES) {
            let message =
                format!("`{name}` is given at most {MAX_VALUES} times, with at most {MAX_VALUE_BYTES} bytes");
            return Err(ApiError::bad(message));
        }
        Ok(values)
    };
    Ok(Filter {
        folders: values("folder")?,
        tags: values("tag")?,
        min_seconds: parameters.seconds("min_seconds")?,
        max_seconds: parameters.seconds("max_seconds")?,
        min_rate: parameters.whole("min_rate")?,
        max_rate: parameters.whole("max_rate")?,
        formats: values("audio_format")?,
        channels: parameters.wholes("channels", MAX_VALUES)?,
        after: parameters.day("after")?,
        before: parameters.day("before")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<SearchRequest, ApiError> {
        SearchRequest::read(&Parameters::parse(Some(query), SEARCH_PARAMETERS)?)
    }

    #[test]
    fn everything_at_once() {
        let all = "q=+rain+-wind&prefix=true&not=cars&not=+&like=7&start=2.5&mode=meaning&folder=/a&folder=/b&tag=x&min_seconds=1\
                   &max_seconds=2&min_rate=8000&max_rate=48000&audio_format=wav&audio_format=flac&channels=1&channels=2&after=2026-01-01&before=2026-12-31&windows=all&limit=5&skip=6";
        let request = read(all).unwrap();
        let filter = Filter {
            folders: vec!["/a".into(), "/b".into()],
            tags: vec!["x".into()],
            min_seconds: Some(1.0),
            max_seconds: Some(2.0),
            min_rate: Some(8000),
            max_rate: Some(48000),
            formats: vec!["wav".into(), "flac".into()],
            channels: vec![1, 2],
            after: Some("2026-01-01".into()),
            before: Some("2026-12-31".into()),
        };
        let expected = Question::text("rain -wind")
            .without("cars")
            .prefix(true)
            .mode(Mode::Meaning)
            .like(7, Some(2.5))
            .filter(filter)
            .all_moments(true)
            .limit(5)
            .offset(6);
        assert_eq!(request.question, expected);
        assert_eq!((request.mode, request.like), (Mode::Meaning, Some(7)));
    }

    #[test]
    fn nothing_lists_the_first_twenty_files() {
        let expected = Question::default().limit(20);
        assert_eq!(read("").unwrap().question, expected);
        assert_eq!(read("q=+++&not=+").unwrap().question, expected);
    }

    #[test]
    fn contradictions_are_refused() {
        for query in [
            "start=1",
            "limit=0",
            "limit=1001",
            "q=a&skip=10001",
            "mode=loud",
            "windows=2",
            "prefix=1",
            "like=abc",
            "channels=two",
            "channels=1&channels=-1",
            "q=a&q=b",
        ] {
            assert!(read(query).is_err(), "{query}");
        }
        assert!(read("skip=10001").is_ok());
        assert_eq!(read("not=rain").unwrap().question.exclusions(), ["rain"]);
        let long = "x".repeat(MAX_QUERY_BYTES);
        assert!(read(&format!("q={long}")).is_ok());
        assert!(read(&format!("q={long}x")).is_err());
        assert!(read(&format!("q=a{}", "&not=b".repeat(MAX_NOT + 1))).is_err());
        assert!(read(&format!("q=a{}", "+-b".repeat(MAX_NOT + 1))).is_err());
        assert!(read(&"channels=1&".repeat(MAX_VALUES + 1)).is_err());
        assert!(read(&"tag=b&".repeat(MAX_VALUES + 1)).is_err());
    }
}
