//! What a search asks for, read from parameters and checked before any work.

use hark_catalogue::Filter;
use serde::Serialize;

use crate::parameters::Parameters;
use crate::refusal::ApiError;

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

/// Parameters of a search by sound that is sent.
pub(crate) const UPLOAD_PARAMETERS: &[&str] = &[
    "not",
    "mode",
    "folder",
    "tag",
    "min_seconds",
    "max_seconds",
    "min_rate",
    "max_rate",
    "after",
    "before",
    "windows",
    "limit",
    "skip",
];

/// Parameters of a search.
pub(crate) const SEARCH_PARAMETERS: &[&str] = &[
    "q",
    "not",
    "like",
    "start",
    "mode",
    "folder",
    "tag",
    "min_seconds",
    "max_seconds",
    "min_rate",
    "max_rate",
    "after",
    "before",
    "windows",
    "limit",
    "skip",
];

/// Parameters of an export.
pub(crate) const EXPORT_PARAMETERS: &[&str] = &[
    "q",
    "not",
    "like",
    "start",
    "mode",
    "folder",
    "tag",
    "min_seconds",
    "max_seconds",
    "min_rate",
    "max_rate",
    "after",
    "before",
    "windows",
    "limit",
    "skip",
    "format",
];

/// What the words of a question are searched by. A sound is always searched by what is heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// Both.
    Fused,
    /// What they mean: whether it is heard.
    Meaning,
    /// The words themselves: whether they are written.
    Words,
}

/// A search.
#[derive(Debug)]
pub(crate) struct SearchRequest {
    pub(crate) q: String,
    pub(crate) not: Vec<String>,
    pub(crate) like: Option<i64>,
    pub(crate) start: Option<f64>,
    pub(crate) mode: Mode,
    pub(crate) filter: Filter,
    pub(crate) all_windows: bool,
    pub(crate) limit: usize,
    pub(crate) skip: usize,
}

impl SearchRequest {
    /// Reads a search; `sent` if a recording comes with it.
    pub(crate) fn read(parameters: &Parameters, sent: bool) -> Result<Self, ApiError> {
        let modes = [
            ("fused", Mode::Fused),
            ("meaning", Mode::Meaning),
            ("words", Mode::Words),
        ];
        let wish = Self {
            q: text("q", parameters.one("q")?.unwrap_or_default())?.to_owned(),
            not: parameters
                .all("not")
                .filter(|not| !not.trim().is_empty())
                .map(|not| text("not", not).map(|not| not.trim().to_owned()))
                .collect::<Result<_, _>>()?,
            like: parameters.whole("like")?,
            start: parameters.seconds("start")?,
            mode: parameters.choice("mode", &modes)?.unwrap_or(Mode::Fused),
            filter: filter(parameters)?,
            all_windows: parameters
                .choice("windows", &[("one", false), ("all", true)])?
                .unwrap_or(false),
            limit: parameters.whole("limit")?.unwrap_or(HITS),
            skip: parameters.whole("skip")?.unwrap_or(0),
        };
        wish.check(sent)?;
        Ok(wish)
    }

    fn check(&self, sent: bool) -> Result<(), ApiError> {
        let by_sound = sent || self.like.is_some();
        let fault = if self.not.len() > MAX_NOT {
            format!("`not` is given more than {MAX_NOT} times")
        } else if self.limit == 0 || self.limit > MAX_HITS {
            format!("`limit` is a number from 1 to {MAX_HITS}")
        } else if self.skip > MAX_SKIP && (by_sound || !self.q.is_empty()) {
            format!("`skip` is at most {MAX_SKIP}: say more exactly what you look for")
        } else if self.start.is_some() && self.like.is_none() {
            "`start` is a place in the recording that `like` names, which is missing".to_owned()
        } else {
            return Ok(());
        };
        Err(ApiError::bad(fault))
    }
}

/// Text to search for, if it is short enough. A space at its end stays: it tells that the last word is complete.
fn text<'a>(name: &str, value: &'a str) -> Result<&'a str, ApiError> {
    if value.len() > MAX_QUERY_BYTES {
        let got = value.len();
        return Err(ApiError::bad(format!(
            "`{name}` has {got} bytes; at most {MAX_QUERY_BYTES} are taken"
        )));
    }
    Ok(if value.trim().is_empty() {
        ""
    } else {
        value.trim_start()
    })
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
        after: parameters.day("after")?,
        before: parameters.day("before")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(query: &str) -> Result<SearchRequest, ApiError> {
        SearchRequest::read(&Parameters::parse(Some(query), SEARCH_PARAMETERS)?, false)
    }

    #[test]
    fn everything_at_once() {
        let all = "q=+rain+&not=wind&not=+&not=cars&like=7&start=2.5&mode=meaning&folder=/a&folder=/b&tag=x&min_seconds=1\
                   &max_seconds=2&min_rate=8000&max_rate=48000&after=2026-01-01&before=2026-12-31&windows=all&limit=5&skip=6";
        let wish = wish(all).unwrap();
        assert_eq!(
            (wish.q.as_str(), wish.like, wish.start),
            ("rain ", Some(7), Some(2.5))
        );
        assert_eq!(wish.not, ["wind", "cars"]);
        assert_eq!((wish.mode, wish.all_windows), (Mode::Meaning, true));
        assert_eq!((wish.limit, wish.skip), (5, 6));
        let filter = Filter {
            folders: vec!["/a".into(), "/b".into()],
            tags: vec!["x".into()],
            min_seconds: Some(1.0),
            max_seconds: Some(2.0),
            min_rate: Some(8000),
            max_rate: Some(48000),
            after: Some("2026-01-01".into()),
            before: Some("2026-12-31".into()),
        };
        assert_eq!(wish.filter, filter);
    }

    #[test]
    fn nothing_is_a_look_at_everything() {
        let wish = wish("").unwrap();
        assert!(wish.q.is_empty() && wish.filter.is_empty());
        assert!(self::wish("q=+++").unwrap().q.is_empty());
        assert_eq!((wish.limit, wish.skip, wish.mode), (20, 0, Mode::Fused));
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
            "like=abc",
            "q=a&q=b",
        ] {
            assert!(wish(query).is_err(), "{query}");
        }
        assert!(wish("skip=10001").is_ok());
        assert_eq!(wish("not=rain").unwrap().not, ["rain"]);
        let long = "x".repeat(MAX_QUERY_BYTES);
        assert!(wish(&format!("q={long}")).is_ok());
        assert!(wish(&format!("q={long}x")).is_err());
        assert!(wish(&format!("q=a{}", "&not=b".repeat(MAX_NOT + 1))).is_err());
        assert!(wish(&"tag=b&".repeat(MAX_VALUES + 1)).is_err());
    }
}
