//! Streams a recording, as it is or as WAV, whole or in part.
//!
//! Clients name a file by its id. Before it is opened, all links of its path are resolved: the result must be a regular file of
//! the size that the library recorded and, unless it is inside one of the library's folders, of the same modification time.

use std::fs;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, IF_RANGE, RANGE,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use hark_audio::Decoder;
use hark_catalogue::{File, Stat};

use crate::api_error::ApiError;
use crate::library::one;
use crate::range::{self, Wanted};
use crate::routes::Call;
use crate::server::Server;
use crate::stream_body::{ChunkSource, StreamBody};
use crate::view::{content_type, split};
use crate::wav::{self, Wav};

/// Parameters of a recording.
pub(crate) const PARAMETERS: &[&str] = &["as", "download"];

/// Longest recording that is sent as WAV: what 64 bits of a length can hold matters less than that a library may be wrong.
const MAX_SAMPLES: u64 = 1 << 40;

/// A file that may be sent.
struct Opened {
    file: File,
    path: PathBuf,
    handle: fs::File,
}

/// The recording's bytes; without them if `body` is not wanted.
pub(crate) async fn audio(server: Arc<Server>, call: Call, body: bool) -> Result<Response<Body>, ApiError> {
    let id = call.file()?;
    let as_wav = call.parameters.choice("as", &[("wav", true)])?.unwrap_or(false);
    let choices = [("1", true), ("0", false)];
    let download = call.parameters.choice("download", &choices)?.unwrap_or(false);
    let opened = server.looking(move |server| open(server, id)).await?;
    let sound = &opened.file.sound;
    let samples = samples(sound.seconds, sound.rate);
    let (length, tag, kind) = if as_wav {
        let tag = format!("\"{}-wav\"", opened.file.content);
        (wav::length(samples), tag, "audio/wav")
    } else {
        let tag = format!("\"{}\"", opened.file.content);
        let kind = content_type(&opened.file.path, &sound.container);
        (opened.file.stat.size, tag, kind)
    };
    let mut response = Response::new(Body::empty());
    let headers = response.headers_mut();
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    put(headers, ETAG, &tag);
    if range::known(call.header(&IF_NONE_MATCH), &tag) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok(response);
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if download {
        let disposition = attachment(&download_name(&opened.file.path, as_wav));
        put(headers, CONTENT_DISPOSITION, &disposition);
    }
    let asked = call.header(&RANGE);
    let asked = asked.filter(|_| range::range_holds(call.header(&IF_RANGE), &tag));
    let (first, count) = match range::wanted(asked, length) {
        Wanted::Whole => (0, length),
        Wanted::Part(first, last) => {
            put(headers, CONTENT_RANGE, &format!("bytes {first}-{last}/{length}"));
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            (first, last - first + 1)
        }
        Wanted::Nothing => {
            let range = HeaderValue::from_str(&format!("bytes */{length}"));
            let refusal = ApiError::new(
                StatusCode::RANGE_NOT_SATISFIABLE,
                format!("the range starts after the end of the file, which has {length} bytes"),
            );
            return Err(match range {
                Ok(range) => refusal.with(CONTENT_RANGE, range),
                Err(_) => refusal,
            });
        }
    };
    put(response.headers_mut(), CONTENT_LENGTH, &count.to_string());
    if body && count > 0 {
        let flow = if as_wav {
            let spring = server.looking(move |_| decoded(opened, samples, first)).await?;
            StreamBody::new(spring, count, Some(Arc::clone(&server.decodings)), server)
        } else {
            let spring = server.looking(move |_| bytes(opened.handle, first)).await?;
            StreamBody::new(spring, count, None, server)
        };
        *response.body_mut() = Body::new(flow);
    }
    Ok(response)
}

/// Sets a header, unless its value cannot stand in one.
fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// How many samples the library says that a recording has.
fn samples(seconds: f64, rate: u32) -> u64 {
    let samples = (seconds * f64::from(rate)).round();
    if samples > 0.0 {
        (samples as u64).min(MAX_SAMPLES)
    } else {
        0
    }
}

/// Opens a file of the library, if it is still what the library knows.
fn open(server: &Server, id: i64) -> Result<Opened, ApiError> {
    let file = one(server, id)?;
    let gone = |_: io::Error| {
        ApiError::missing(format!(
            "cannot read {}: it was moved, removed or made unreadable",
            file.path
        ))
    };
    let path = fs::canonicalize(&file.path).map_err(gone)?;
    let roots = server.store.roots()?;
    let mut folders = roots.iter().filter_map(|root| fs::canonicalize(root).ok());
    let is_inside = folders.any(|folder| path.starts_with(folder));
    // Asked before it is opened: opening a pipe would wait for its other end.
    let before = fs::metadata(&path).map_err(gone)?;
    if !before.is_file() {
        let message = format!("{} is no regular file", file.path);
        return Err(ApiError::new(StatusCode::FORBIDDEN, message));
    }
    let handle = fs::File::open(&path).map_err(gone)?;
    let now = handle.metadata().map_err(gone)?;
    // A link that was there when the library was indexed leads to the very file that was decoded then. One that was put
    // there since, to something else on this machine, cannot lead to a file of that size and time.
    if !is_inside && Stat::of(&now).map_err(gone)? != file.stat {
        let message = format!("{} leads out of the library's folders", file.path);
        return Err(ApiError::new(StatusCode::FORBIDDEN, message));
    }
    if !now.is_file() || now.len() != file.stat.size {
        let message = format!("{} has changed since it was indexed", file.path);
        return Err(ApiError::new(StatusCode::CONFLICT, message));
    }
    Ok(Opened { file, path, handle })
}

/// A file's bytes as they are.
struct Bytes(fs::File);

impl ChunkSource for Bytes {
    fn next(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(most);
        let got = self.0.by_ref().take(most as u64).read_to_end(&mut bytes)?;
        if got == 0 {
            // It has become shorter since it was opened: better no end than a wrong one.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(bytes)
    }
}

fn bytes(mut handle: fs::File, first: u64) -> Result<Box<dyn ChunkSource>, ApiError> {
    let unreadable = |_| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "cannot read the recording");
    handle.seek(SeekFrom::Start(first)).map_err(unreadable)?;
    Ok(Box::new(Bytes(handle)))
}

fn decoded(opened: Opened, samples: u64, first: u64) -> Result<Box<dyn ChunkSource>, ApiError> {
    let unreadable = |error: hark_audio::Error| {
        ApiError::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            format!("cannot decode the recording: {error}"),
        )
    };
    let source = Box::new(BufReader::with_capacity(64 << 10, opened.handle));
    let decoder = Decoder::from_source(source, Path::new(&opened.path)).map_err(unreadable)?;
    Ok(Box::new(Wav::new(decoder, samples, first)))
}

/// The name under which a browser keeps a recording.
fn download_name(path: &str, as_wav: bool) -> String {
    let (_, name) = split(path);
    match name.rsplit_once('.') {
        Some((stem, _)) if as_wav && !stem.is_empty() => format!("{stem}.wav"),
        _ if as_wav => format!("{name}.wav"),
        _ => name.to_owned(),
    }
}

/// A `Content-Disposition` with a name of any characters (RFC 6266, RFC 8187), and one of plain ones for old programs.
pub(crate) fn attachment(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "-_. ()".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect();
    let coded: String = name
        .bytes()
        .map(|b| match b {
            b if b.is_ascii_alphanumeric() || b"-_.~".contains(&b) => char::from(b).to_string(),
            b => format!("%{b:02X}"),
        })
        .collect();
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{coded}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_downloads() {
        assert_eq!(download_name("/a/b.FLAC", false), "b.FLAC");
        assert_eq!(download_name("/a/b.FLAC", true), "b.wav");
        assert_eq!(download_name("/a/.b", true), ".b.wav");
        assert_eq!(
            attachment("Rëgen \"1\".wav"),
            "attachment; filename=\"R_gen _1_.wav\"; filename*=UTF-8''R%C3%ABgen%20%221%22.wav"
        );
        assert!(HeaderValue::from_str(&attachment("a\r\nSet-Cookie: b\0")).is_ok());
    }

    #[test]
    fn lengths_of_any_library() {
        assert_eq!(samples(1.5, 8000), 12000);
        assert_eq!(samples(f64::NAN, 8000), 0);
        assert_eq!(samples(-1.0, 8000), 0);
        assert_eq!(samples(f64::INFINITY, 8000), MAX_SAMPLES);
    }
}
