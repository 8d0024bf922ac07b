//! Hits as a file: CSV (RFC 4180), JSON, or M3U in UTF-8.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::CONTENT_DISPOSITION;
use axum::http::{HeaderValue, Response};
use hark_catalogue::export::{csv, m3u};

use crate::api_error::ApiError;
use crate::audio::attachment;
use crate::request::SearchRequest;
use crate::routes::{Call, content};
use crate::search::{Found, find};
use crate::server::Server;

#[derive(Clone, Copy)]
enum Format {
    Csv,
    Json,
    M3u,
}

pub(crate) async fn export(server: Arc<Server>, call: Call) -> Result<Response<Body>, ApiError> {
    let formats = [("csv", Format::Csv), ("json", Format::Json), ("m3u", Format::M3u)];
    let format = call.parameters.choice("format", &formats)?.unwrap_or(Format::Csv);
    let request = SearchRequest::read(&call.parameters)?;
    server
        .searching(move |server| write(&find(server, request, None)?, format))
        .await
}

fn write(found: &Found, format: Format) -> Result<Response<Body>, ApiError> {
    let (mut response, name) = match format {
        Format::Csv => (
            content(Body::from(csv(&found.hits)), "text/csv; charset=utf-8"),
            "hark.csv",
        ),
        Format::Json => (found.json()?, "hark.json"),
        Format::M3u => (
            content(Body::from(m3u(&found.hits)), "audio/x-mpegurl; charset=utf-8"),
            "hark.m3u8",
        ),
    };
    if let Ok(disposition) = HeaderValue::from_str(&attachment(name)) {
        response.headers_mut().insert(CONTENT_DISPOSITION, disposition);
    }
    Ok(response)
}
