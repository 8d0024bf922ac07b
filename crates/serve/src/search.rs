//! Searches: parameters become a [`Query`], the hits JSON.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use hark_catalogue::{Hit, NEGATIVE_WEIGHT, Query, Window, combine_queries};
use serde::Serialize;

use crate::refusal::ApiError;
use crate::routes::{Call, json};
use crate::server::Server;
use crate::view::HitView;
use crate::wish::{MAX_HITS, Mode, SearchRequest};

/// Hits of one file, if all its windows may be shown.
const ALL_WINDOWS: usize = MAX_HITS;

/// How far a place in a recording may be from a window's beginning by rounding, in seconds.
const ROUNDING: f64 = 1e-3;

/// What was found.
pub(crate) struct Found {
    pub(crate) wish: SearchRequest,
    pub(crate) hits: Vec<Hit>,
    roots: Vec<String>,
    more: bool,
    took_ms: f64,
    heard: Option<Heard>,
}

/// What an upload is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Heard {
    pub(crate) seconds: f64,
    pub(crate) container: String,
    pub(crate) codec: String,
    pub(crate) rate: u32,
    pub(crate) damage: Option<String>,
}

#[derive(Serialize)]
struct Answer<'a> {
    query: Asked<'a>,
    took_ms: f64,
    more: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    heard: Option<&'a Heard>,
    hits: Vec<HitView<'a>>,
}

#[derive(Serialize)]
struct Asked<'a> {
    q: &'a str,
    not: &'a [String],
    like: Option<i64>,
    mode: Mode,
}

impl Found {
    pub(crate) fn json(&self) -> Result<Response<Body>, ApiError> {
        let hits = self.hits.iter().map(|hit| HitView::new(hit, &self.roots));
        json(&Answer {
            query: Asked {
                q: &self.wish.q,
                not: &self.wish.not,
                like: self.wish.like,
                mode: self.wish.mode,
            },
            took_ms: self.took_ms,
            more: self.more,
            heard: self.heard.as_ref(),
            hits: hits.collect(),
        })
    }
}

pub(crate) async fn search(server: Arc<Server>, call: Call) -> Result<Response<Body>, ApiError> {
    let wish = SearchRequest::read(&call.parameters, false)?;
    server
        .searching(move |server| find(server, wish, None)?.json())
        .await
}

/// Answers a wish; `sent` is the vector of a recording that came with it.
pub(crate) fn find(
    server: &Server,
    wish: SearchRequest,
    sent: Option<(Heard, Vec<f32>)>,
) -> Result<Found, ApiError> {
    let begin = Instant::now();
    let (heard, sent) = sent.unzip();
    let query = Query {
        vector: vector(server, &wish, sent)?,
        words: (wish.mode != Mode::Meaning && !wish.q.is_empty()).then(|| wish.q.clone()),
        without: wish.not.clone(),
        filter: wish.filter.clone(),
        per_file: if wish.all_windows { ALL_WINDOWS } else { 1 },
        except: wish.like,
        skip: wish.skip,
        // One more than is shown tells whether there are more.
        limit: wish.limit + 1,
    };
    let mut hits = hark_catalogue::search(server.store.as_ref(), &query)?;
    let more = hits.len() > wish.limit;
    hits.truncate(wish.limit);
    let roots = server.store.roots()?;
    let took = begin.elapsed();
    server.metrics.search(took);
    Ok(Found {
        wish,
        hits,
        roots,
        more,
        took_ms: took.as_secs_f64() * 1e3,
        heard,
    })
}

/// The direction of what is looked for, if it is looked for by meaning.
fn vector(
    server: &Server,
    wish: &SearchRequest,
    sent: Option<Vec<f32>>,
) -> Result<Option<Vec<f32>>, ApiError> {
    let mut wanted: Vec<Vec<f32>> = sent.into_iter().collect();
    if let Some(id) = wish.like {
        wanted.push(like(server, id, wish.start)?);
    }
    let said = (wish.mode != Mode::Words && !wish.q.is_empty()).then_some(wish.q.trim());
    if wanted.is_empty() && said.is_none() {
        return Ok(None);
    }
    let mut texts: Vec<&str> = wish.not.iter().map(String::as_str).collect();
    texts.extend(said);
    let mut avoided = server.vectors.of(server.ears.as_ref(), &texts)?;
    wanted.extend(avoided.drain(wish.not.len().min(avoided.len())..));
    let nothing = || {
        let message =
            "nothing is left of what to look for when the rest is taken away: ask for something else";
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, message)
    };
    combine_queries(&wanted, &avoided, NEGATIVE_WEIGHT)
        .map(Some)
        .ok_or_else(nothing)
}

/// The vector of a known recording, or of its window at a place.
fn like(server: &Server, id: i64, start: Option<f64>) -> Result<Vec<f32>, ApiError> {
    let windows = server.store.windows(id)?;
    if windows.is_empty() {
        let file = crate::library::one(server, id)?;
        let message = format!("{} has no vector", file.path);
        return Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, message));
    }
    let found = match start {
        None => windows.iter().find(|w| w.whole).or(windows.first()),
        Some(place) => at(&windows, place),
    };
    let outside = || ApiError::bad(format!("file {id} has no window at {} s", start.unwrap_or(0.0)));
    found.map(|window| window.vector.clone()).ok_or_else(outside)
}

/// The window that begins last before a place and still holds it; a recording of one window has the whole alone.
fn at(windows: &[Window], place: f64) -> Option<&Window> {
    let holds = |w: &&Window| w.start <= place + ROUNDING && place < w.end + ROUNDING;
    let parts = windows.iter().filter(|w| !w.whole).filter(holds);
    let last = parts.max_by(|a, b| a.start.total_cmp(&b.start));
    last.or_else(|| windows.iter().filter(|w| w.whole).find(holds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_the_window_that_begins_last() {
        let window = |start: f64, end: f64, whole: bool| Window {
            start,
            end,
            whole,
            vector: vec![start as f32],
        };
        let windows = [
            window(0.0, 25.0, true),
            window(0.0, 10.0, false),
            window(5.0, 15.0, false),
            window(15.0, 25.0, false),
        ];
        let start = |place| at(&windows, place).map(|w| (w.start, w.whole));
        assert_eq!(start(0.0), Some((0.0, false)));
        assert_eq!(start(4.9), Some((0.0, false)));
        assert_eq!(start(5.0), Some((5.0, false)));
        assert_eq!(start(4.9999), Some((5.0, false)));
        assert_eq!(start(24.0), Some((15.0, false)));
        assert_eq!(start(26.0), None);
        assert_eq!(at(&windows[..1], 3.0).map(|w| w.whole), Some(true));
    }
}
