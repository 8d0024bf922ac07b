//! Files from the Hugging Face hub over HTTPS, resumed where they were left.
//!
//! The hub serves a file at `ENDPOINT/REPOSITORY/resolve/REVISION/PATH` and honours ranges. That is all this needs, so
//! that a small HTTP client takes the place of the hub's own.

use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fs_err::{File, OpenOptions};

use crate::progress;

/// The public hub.
const ENDPOINT: &str = "https://huggingface.co";

/// A hub and how to reach it.
#[derive(Debug, Clone)]
pub struct Hub {
    agent: ureq::Agent,
    endpoint: String,
    token: Option<String>,
}

impl Hub {
    /// The hub of the environment: `HF_ENDPOINT` names a mirror, `HF_TOKEN` is for one that asks for it.
    pub fn from_environment() -> Self {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self::new(
            &set("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.to_owned()),
            set("HF_TOKEN"),
        )
    }

    /// A hub at an address.
    pub fn new(endpoint: &str, token: Option<String>) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_connect(Some(Duration::from_secs(15)))
            .timeout_recv_response(Some(Duration::from_mins(1)))
            .timeout_recv_body(Some(Duration::from_hours(2)))
            .http_status_as_error(false)
            .build();
        Self {
            agent: config.into(),
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            token,
        }
    }

    /// Fetches a file to `target`, going on from what an earlier attempt left at `target` with `.part` behind it.
    pub fn fetch(&self, repository: &str, file: &str, target: &Path) -> Result<()> {
        let url = format!("{}/{repository}/resolve/main/{file}", self.endpoint);
        let part = target.with_added_extension("part");
        let have = fs_err::metadata(&part).map_or(0, |metadata| metadata.len());
        // Ranges count the bytes that are sent: they must be the file's own, not compressed ones.
        let mut request = self.agent.get(&url).header("Accept-Encoding", "identity");
        if have > 0 {
            request = request.header("Range", format!("bytes={have}-"));
        }
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let mut response = request.call().with_context(|| url.clone())?;
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
                bail!("{url}: what was there of the file is of no use; run the command again to start anew");
            }
            status => bail!("{url}: the server answers {status}"),
        };
        let length = response.body().content_length();
        let bar = progress::bytes(file);
        bar.set_length(start + length.unwrap_or(0));
        bar.set_position(start);
        let mut body = response.body_mut().as_reader();
        let mut buffer = vec![0; 1 << 16];
        let mut got = 0;
        loop {
            let count = body
                .read(&mut buffer)
                .with_context(|| format!("{url}: the connection broke; run the command again to go on"))?;
            if count == 0 {
                break;
            }
            if progress::stopped() {
                bail!("{url}: stopped; run the command again to go on");
            }
            output.write_all(&buffer[..count])?;
            got += count as u64;
            bar.inc(count as u64);
        }
        bar.finish_and_clear();
        if let Some(length) = length.filter(|&length| length != got) {
            bail!("{url}: {got} of {length} bytes came; run the command again to go on");
        }
        output.flush()?;
        output.sync_all()?;
        fs_err::rename(&part, target)?;
        Ok(())
    }
}
