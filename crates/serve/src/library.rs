//! The library's figures, one file, health, metrics and login.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, SET_COOKIE};
use axum::http::{HeaderValue, Response, StatusCode};
use hark_catalogue::Count;
use serde::{Deserialize, Serialize};

use crate::api_error::ApiError;
use crate::auth::{self, COOKIE_NAME, TokenCheck};
use crate::request::{MAX_HITS, MAX_QUERY_BYTES};
use crate::routes::{Call, content, json};
use crate::server::Server;
use crate::upload;
use crate::view::FileView;

/// How long the store may take to show that it is there.
const HEALTH_TIME: Duration = Duration::from_secs(5);

/// Longest body of a login.
const MAX_LOGIN_BYTES: u64 = 4096;

#[derive(Serialize)]
struct Health {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    windows: Option<u64>,
}

/// Whether the store answers. Those who do not show the token are told no more than that.
pub(crate) async fn health(server: Arc<Server>, call: Call) -> Result<Response<Body>, ApiError> {
    let trusted = match &server.options.token {
        Some(token) => auth::shown(&call.headers, token) == TokenCheck::Right,
        None => true,
    };
    let look = server.looking(move |server| {
        if trusted {
            let overview = server.store.overview()?;
            Ok(Some((overview.files, overview.windows)))
        } else {
            server.store.roots()?;
            Ok(None)
        }
    });
    match tokio::time::timeout(HEALTH_TIME, look).await {
        Ok(Ok(numbers)) => json(&Health {
            status: "ok",
            files: numbers.map(|n| n.0),
            windows: numbers.map(|n| n.1),
        }),
        _ => Err(ApiError::busy("the library does not respond")),
    }
}

pub(crate) async fn metrics(server: Arc<Server>) -> Result<Response<Body>, ApiError> {
    let overview = server.looking(|server| Ok(server.store.overview()?)).await?;
    let text = server.metrics.text((overview.files, overview.windows));
    Ok(content(
        Body::from(text),
        "text/plain; version=0.0.4; charset=utf-8",
    ))
}

#[derive(Serialize)]
struct Library<'a> {
    name: &'a str,
    model: &'a str,
    files: u64,
    windows: u64,
    seconds: f64,
    failures: u64,
    roots: &'a [String],
    folders: &'a [Count],
    tags: &'a [Count],
    rates: &'a [Count],
    formats: &'a [Count],
    channels: &'a [Count],
    window_seconds: f64,
    hop_seconds: f64,
    limits: Limits,
}

#[derive(Serialize)]
struct Limits {
    results: usize,
    upload_bytes: u64,
    query_bytes: usize,
}

pub(crate) async fn library(server: Arc<Server>) -> Result<Response<Body>, ApiError> {
    server
        .looking(|server| {
            let overview = server.store.overview()?;
            let settings = server.store.settings();
            json(&Library {
                name: &server.options.name,
                model: &settings.model,
                files: overview.files,
                windows: overview.windows,
                seconds: overview.seconds,
                failures: overview.failures,
                roots: &overview.roots,
                folders: &overview.folders,
                tags: &overview.tags,
                rates: &overview.rates,
                formats: &overview.formats,
                channels: &overview.channels,
                window_seconds: settings.window_seconds,
                hop_seconds: settings.hop_seconds,
                limits: Limits {
                    results: MAX_HITS,
                    upload_bytes: server.options.upload_bytes,
                    query_bytes: MAX_QUERY_BYTES,
                },
            })
        })
        .await
}

/// Most unreadable files that one answer lists.
const MAX_FAILURES: usize = 1000;

#[derive(Serialize)]
struct Failures<'a> {
    files: Vec<Unread<'a>>,
    left_out: usize,
}

#[derive(Serialize)]
struct Unread<'a> {
    path: &'a str,
    reason: String,
}

/// The files that could not be read, by path, each with the reason.
pub(crate) async fn failures(server: Arc<Server>) -> Result<Response<Body>, ApiError> {
    server
        .looking(|server| {
            let all = server.store.failures()?;
            let first = all.iter().take(MAX_FAILURES);
            json(&Failures {
                files: first
                    .map(|failure| Unread {
                        path: &failure.path,
                        // The path is beside it.
                        reason: failure.message.replace(&format!(" {}:", failure.path), ":"),
                    })
                    .collect(),
                left_out: all.len().saturating_sub(MAX_FAILURES),
            })
        })
        .await
}

#[derive(Serialize)]
struct OneFile<'a> {
    #[serde(flatten)]
    file: FileView<'a>,
    windows: Vec<Stretch>,
}

#[derive(Serialize)]
struct Stretch {
    start: f64,
    end: f64,
    whole: bool,
}

pub(crate) async fn file(server: Arc<Server>, call: Call) -> Result<Response<Body>, ApiError> {
    let id = call.file()?;
    server
        .looking(move |server| {
            let file = one(server, id)?;
            let roots = server.store.roots()?;
            let windows = server.store.windows(id)?;
            let stretch = |w: hark_catalogue::Window| Stretch {
                start: w.start,
                end: w.end,
                whole: w.whole,
            };
            json(&OneFile {
                file: FileView::new(&file, &roots),
                windows: windows.into_iter().map(stretch).collect(),
            })
        })
        .await
}

/// The file of a number.
pub(crate) fn one(server: &Server, id: i64) -> Result<hark_catalogue::File, ApiError> {
    let found = server.store.files(&[id])?;
    let missing = || ApiError::missing(format!("the library has no file {id}"));
    found.into_iter().next().ok_or_else(missing)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    token: String,
}

#[derive(Serialize)]
struct Nothing {}

/// Sets the cookie by which the page's requests are let through, recordings' addresses in players included.
pub(crate) async fn login(server: Arc<Server>, call: Call) -> Result<Response<Body>, ApiError> {
    // Another site's form can send text, but not with this type unless it asks first.
    let kind = call.header(&CONTENT_TYPE).unwrap_or_default();
    let bare = kind.split(';').next().unwrap_or_default().trim();
    if !bare.eq_ignore_ascii_case("application/json") {
        let message = "a login must have the content type application/json";
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    let body = upload::read(&server, &call.headers, call.body, MAX_LOGIN_BYTES).await?;
    let login: Login = serde_json::from_slice(&body)
        .map_err(|_| ApiError::bad("a login must be JSON of the form {\"token\": \"…\"}"))?;
    let mut response = json(&Nothing {})?;
    let Some(token) = &server.options.token else {
        return Ok(response);
    };
    if !auth::equal(&login.token, token) {
        return Err(auth::wrong(&server).await);
    }
    let cookie = format!("{COOKIE_NAME}={token}; HttpOnly; SameSite=Strict; Path=/");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    Ok(response)
}
