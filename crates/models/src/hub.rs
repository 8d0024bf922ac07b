//! Files from the Hugging Face hub and from releases on GitHub over HTTPS, resumed where an earlier attempt ended.
//!
//! The hub serves a file at `ENDPOINT/REPOSITORY/resolve/REVISION/PATH` and honours ranges. Nothing more is needed, so a
//! small HTTP client replaces the hub's own, which brings hundreds of crates.

use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use fs_err::{File, OpenOptions};
use hark_work::progress::Cancelled;

use crate::error::Error;
use crate::pull::{OnPullEvent, PullEvent};

/// A hub and how to reach it.
#[derive(Debug, Clone)]
pub struct Hub {
    agent: ureq::Agent,
    endpoint: String,
    token: Option<String>,
}

impl Hub {
    /// The address of the public hub.
    pub const PUBLIC: &str = "https://huggingface.co";

    /// The hub at an address ([`Hub::PUBLIC`] or a mirror), with a token where it asks for one.
    pub fn new(endpoint: &str, token: Option<String>) -> Self {
        Self {
            agent: agent(),
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            token,
        }
    }

    /// Downloads a file to `target`. Until it is complete it is called `target` with `.part` appended; what an earlier
    /// attempt left there is not downloaded again.
    pub(crate) fn fetch(
        &self,
        repository: &str,
        file: &str,
        target: &Path,
        on_event: OnPullEvent<'_>,
    ) -> Result<(), Error> {
        let url = format!("{}/{repository}/resolve/main/{file}", self.endpoint);
        fetch(&self.agent, &url, self.token.as_deref(), file, target, on_event)
    }
}

/// Releases on GitHub.
#[derive(Debug, Clone)]
pub struct Releases {
    agent: ureq::Agent,
    endpoint: String,
}

impl Releases {
    /// The address of GitHub.
    pub const PUBLIC: &str = "https://github.com";

    /// Releases at an address ([`Releases::PUBLIC`] or a mirror).
    pub fn new(endpoint: &str) -> Self {
        Self {
            agent: agent(),
            endpoint: endpoint.trim_end_matches('/').to_owned(),
        }
    }

    /// Downloads a file of a release to `target`, as [`Hub::fetch`] does.
    pub(crate) fn fetch(
        &self,
        release: &str,
        file: &str,
        target: &Path,
        on_event: OnPullEvent<'_>,
    ) -> Result<(), Error> {
        let url = format!("{}/{release}/{file}", self.endpoint);
        fetch(&self.agent, &url, None, file, target, on_event)
    }
}

fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder()
        .timeout_connect(Some(Duration::from_secs(15)))
        .timeout_recv_response(Some(Duration::from_mins(1)))
        .timeout_recv_body(Some(Duration::from_hours(2)))
        .http_status_as_error(false)
        .build();
    config.into()
}

fn fetch(
    agent: &ureq::Agent,
    url: &str,
    token: Option<&str>,
    file: &str,
    target: &Path,
    on_event: OnPullEvent<'_>,
) -> Result<(), Error> {
    let url = url.to_owned();
    let part = target.with_added_extension("part");
    let have = fs_err::metadata(&part).map_or(0, |metadata| metadata.len());
    // Ranges count the bytes that are sent: they must be the file's own, not compressed ones.
    let mut request = agent.get(&url).header("Accept-Encoding", "identity");
    if have > 0 {
        request = request.header("Range", format!("bytes={have}-"));
    }
    if let Some(token) = token {
        request = request.header("Authorization", format!("Bearer {token}"));
    }
    let mut response = request.call().map_err(|source| Error::Request {
        url: url.clone(),
        source: Box::new(source),
    })?;
    let range = response
        .headers()
        .get("content-range")
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let (mut output, start) = match response.status().as_u16() {
        206 if range.starts_with(&format!("bytes {have}-")) => {
            (OpenOptions::new().append(true).open(&part)?, have)
        }
        200 => (File::create(&part)?, 0),
        // Nothing is left to send: the part is the whole file, and an earlier attempt ended before the rename.
        416 if range == format!("bytes */{have}") => {
            fs_err::rename(&part, target)?;
            return Ok(());
        }
        206 | 416 => {
            fs_err::remove_file(&part)?;
            return Err(Error::StalePart { url });
        }
        status => return Err(Error::Status { url, status }),
    };
    let length = response.body().content_length();
    let mut body = response.body_mut().as_reader();
    let mut buffer = vec![0; 1 << 16];
    let mut got = 0;
    loop {
        let event = PullEvent::Downloading {
            file,
            done: start + got,
            total: length.map(|length| start + length),
        };
        if on_event(event).is_break() {
            return Err(Cancelled.into());
        }
        let count = body.read(&mut buffer).map_err(|source| Error::Interrupted {
            url: url.clone(),
            source,
        })?;
        if count == 0 {
            break;
        }
        output.write_all(&buffer[..count])?;
        got += count as u64;
    }
    if let Some(expected) = length.filter(|&length| length != got) {
        return Err(Error::Truncated { url, got, expected });
    }
    output.flush()?;
    output.sync_all()?;
    fs_err::rename(&part, target)?;
    Ok(())
}
