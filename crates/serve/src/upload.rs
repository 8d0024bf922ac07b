//! Request bodies: a recording to search with, streamed to a temporary file, and the few bytes of a login.
//!
//! A body whose declared length exceeds the limit is refused before it is read; one that grows beyond it, at that moment. In
//! both cases the connection is closed and the temporary file removed.

use std::future::poll_fn;
use std::io::Write as _;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use axum::http::{HeaderMap, Response, StatusCode};
use hark_audio::{Decoder, Fallback};
use hark_catalogue::Embedder as _;
use hyper::body::Body as _;
use tempfile::NamedTempFile;

use crate::api_error::ApiError;
use crate::request::SearchRequest;
use crate::routes::Call;
use crate::search::{Heard, find};
use crate::server::Server;

/// Bytes that are gathered before they are written.
const BLOCK: usize = 256 << 10;

/// A search by a recording that is sent.
pub(crate) async fn search(server: Arc<Server>, call: Call) -> Result<Response<Body>, ApiError> {
    let request = SearchRequest::read(&call.parameters).map_err(ApiError::closing)?;
    if call.headers.contains_key(CONTENT_ENCODING) {
        let message = "`Content-Encoding` is not supported; send the recording as it is";
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message).closing());
    }
    check_length(&call.headers, server.options.upload_bytes)?;
    let Ok(_place) = Arc::clone(&server.uploads).try_acquire_owned() else {
        return Err(server.busy("too many uploads; try again in a moment").closing());
    };
    let file = receive(&server, call.body).await?;
    server
        .searching(move |server| {
            let heard = inspect(file.path(), server.options.upload_seconds)?;
            let vector = server.embedder.embed_audio(file.path())?;
            find(server, request.with_sound(vector), Some(heard))?.json()
        })
        .await
}

fn too_long(most: u64) -> ApiError {
    let message = format!("the body is larger than the limit of {most} bytes");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message).closing()
}

fn too_slow() -> ApiError {
    ApiError::new(StatusCode::REQUEST_TIMEOUT, "timed out while receiving the body").closing()
}

/// Refuses a body that says that it is too long.
fn check_length(headers: &HeaderMap, most: u64) -> Result<(), ApiError> {
    let length = headers
        .get(CONTENT_LENGTH)
        .and_then(|l| l.to_str().ok()?.parse::<u64>().ok());
    match length {
        Some(length) if length > most => Err(too_long(most)),
        _ => Ok(()),
    }
}

/// The next bytes of a body.
async fn next(body: &mut Body) -> Option<Result<Bytes, ApiError>> {
    loop {
        let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await?;
        match frame.map(hyper::body::Frame::into_data) {
            Ok(Ok(bytes)) => return Some(Ok(bytes)),
            // Trailers say nothing here.
            Ok(Err(_)) => {}
            Err(_) => {
                return Some(Err(ApiError::bad(
                    "the connection closed before the end of the body",
                )
                .closing()));
            }
        }
    }
}

/// A short body, as a whole.
pub(crate) async fn read(
    server: &Server,
    headers: &HeaderMap,
    mut body: Body,
    most: u64,
) -> Result<Vec<u8>, ApiError> {
    check_length(headers, most)?;
    let all = async {
        let mut all = Vec::new();
        while let Some(bytes) = next(&mut body).await {
            all.extend_from_slice(&bytes?);
            if all.len() as u64 > most {
                return Err(too_long(most));
            }
        }
        Ok(all)
    };
    let done = tokio::time::timeout(server.options.upload_time, all).await;
    done.unwrap_or_else(|_| Err(too_slow()))
}

/// A long body, as a file that is removed when it is dropped.
async fn receive(server: &Arc<Server>, mut body: Body) -> Result<NamedTempFile, ApiError> {
    let most = server.options.upload_bytes;
    let writing = async {
        let folder = server.options.temporary.clone();
        let mut file = on_disk(move || match folder {
            Some(folder) => NamedTempFile::new_in(folder),
            None => NamedTempFile::new(),
        })
        .await?;
        let mut block = Vec::new();
        let mut received = 0_u64;
        while let Some(bytes) = next(&mut body).await {
            let bytes = bytes?;
            received += bytes.len() as u64;
            if received > most {
                return Err(too_long(most));
            }
            block.extend_from_slice(&bytes);
            if block.len() >= BLOCK {
                (file, block) = write(file, block).await?;
            }
        }
        (file, _) = write(file, block).await?;
        Ok(file)
    };
    let done = tokio::time::timeout(server.options.upload_time, writing).await;
    done.unwrap_or_else(|_| Err(too_slow()))
}

async fn write(mut file: NamedTempFile, mut block: Vec<u8>) -> Result<(NamedTempFile, Vec<u8>), ApiError> {
    on_disk(move || {
        file.write_all(&block)?;
        block.clear();
        Ok((file, block))
    })
    .await
}

async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, ApiError> {
    let refuse = || {
        let message = "cannot store the recording: the server's disk is full or not writable";
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, message).closing()
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(done)) => Ok(done),
        _ => Err(refuse()),
    }
}

/// Decodes an upload from beginning to end: a small file can stand for days of silence. Messages do not name the temporary file.
fn inspect(path: &Path, most_seconds: f64) -> Result<Heard, ApiError> {
    let unreadable = |error: &hark_audio::Error| {
        let whole = error.to_string();
        let name = path.display().to_string();
        ApiError::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            format!(
                "cannot decode the recording: {}",
                whole
                    .replace(&format!("{name}: "), "")
                    .replace(&name, "the recording")
            ),
        )
    };
    // No other program gets to see what a stranger sends.
    let mut decoder = Decoder::open_with(path, &Fallback::Refuse).map_err(|e| unreadable(&e))?;
    let rate = decoder.info().rate;
    while decoder.next_block().map_err(|e| unreadable(&e))?.is_some() {
        if decoder.samples_so_far() as f64 > most_seconds * f64::from(rate) {
            return Err(ApiError::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                format!("the recording is longer than the limit of {most_seconds} seconds"),
            ));
        }
    }
    let info = decoder.info();
    Ok(Heard {
        seconds: decoder.samples_so_far() as f64 / f64::from(rate),
        container: info.container.clone(),
        codec: info.codec.clone(),
        rate,
        damage: decoder.damage().map(ToString::to_string),
    })
}
