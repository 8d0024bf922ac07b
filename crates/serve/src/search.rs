//! Searches: parameters become a question, the hits JSON.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::http::Response;
use hark_catalogue::{Answer, Hit, Mode, Note, ask};
use serde::Serialize;

use crate::api_error::ApiError;
use crate::request::SearchRequest;
use crate::routes::{Call, json};
use crate::server::Server;
use crate::view::HitView;

/// A request and its hits.
pub(crate) struct Found {
    request: SearchRequest,
    pub(crate) hits: Vec<Hit>,
    roots: Vec<String>,
    more: bool,
    notes: Vec<Note>,
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
struct SearchResponse<'a> {
    query: Echo<'a>,
    took_ms: f64,
    more: bool,
    notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    heard: Option<&'a Heard>,
    hits: Vec<HitView<'a>>,
}

/// The question as it was understood: `q` without its exclusions, which are in `not`.
#[derive(Serialize)]
struct Echo<'a> {
    q: &'a str,
    not: &'a [String],
    like: Option<i64>,
    mode: Mode,
}

impl Found {
    pub(crate) fn json(&self) -> Result<Response<Body>, ApiError> {
        let hits = self.hits.iter().map(|hit| HitView::new(hit, &self.roots));
        let SearchRequest { question, mode, like } = &self.request;
        json(&SearchResponse {
            query: Echo {
                q: question.wanted(),
                not: question.exclusions(),
                like: *like,
                mode: *mode,
            },
            took_ms: self.took_ms,
            more: self.more,
            notes: self.notes.iter().map(Note::to_string).collect(),
            heard: self.heard.as_ref(),
            hits: hits.collect(),
        })
    }
}

pub(crate) async fn search(server: Arc<Server>, call: Call) -> Result<Response<Body>, ApiError> {
    let request = SearchRequest::read(&call.parameters)?;
    server
        .searching(move |server| find(server, request, None)?.json())
        .await
}

/// Answers a request; `heard` describes the recording that came with it.
pub(crate) fn find(server: &Server, request: SearchRequest, heard: Option<Heard>) -> Result<Found, ApiError> {
    let begin = Instant::now();
    let Answer { hits, more, notes } = ask(server.store.as_ref(), &server.embedder, &request.question)?;
    let roots = server.store.roots()?;
    let took = begin.elapsed();
    server.metrics.search(took);
    Ok(Found {
        request,
        hits,
        roots,
        more,
        notes,
        took_ms: took.as_secs_f64() * 1e3,
        heard,
    })
}
