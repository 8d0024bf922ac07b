//! How the network is reached.

use std::time::{Duration, Instant};

use hark_work::progress::Cancelled;

use crate::Error;
use crate::answer::{ASK_EVERY, Answer, Ask, GoOn};
use crate::token::Token;

/// How the network is reached, and how often an attempt is repeated.
#[derive(Debug, Clone)]
pub struct Client {
    agent: ureq::Agent,
    idle: Duration,
    mirror: Option<String>,
    pub(crate) retries: u32,
    pub(crate) pause: Duration,
}

impl Default for Client {
    fn default() -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_connect(Some(Duration::from_secs(15)))
            .timeout_recv_response(Some(Duration::from_mins(1)))
            .http_status_as_error(false)
            .build();
        Self {
            agent: config.into(),
            idle: Duration::from_secs(30),
            mirror: None,
            retries: 4,
            pause: Duration::from_secs(1),
        }
    }
}

impl Client {
    /// The published hosts themselves, and four more attempts after a failure that may pass.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes this address in place of the scheme and host of every other: with `http://127.0.0.1:80/zenodo`,
    /// `https://example.org/a.7z` becomes `http://127.0.0.1:80/zenodo/a.7z`.
    #[must_use]
    pub fn mirror(mut self, address: &str) -> Self {
        self.mirror = Some(address.trim_end_matches('/').to_owned());
        self
    }

    /// How many attempts in a row may bring no byte before an error is returned, and how long the first pause between
    /// two is. Each pause is twice the one before, at most half a minute.
    #[must_use]
    pub fn retries(mut self, retries: u32, pause: Duration) -> Self {
        self.retries = retries;
        self.pause = pause;
        self
    }

    /// How long a server may send nothing before the attempt counts as interrupted. A transfer that goes on has no limit.
    #[must_use]
    pub fn idle_timeout(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }

    /// The address that is asked for another.
    pub fn locate(&self, url: &str) -> String {
        let Some(mirror) = &self.mirror else {
            return url.to_owned();
        };
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        let path = rest.find('/').map_or("", |at| &rest[at..]);
        format!("{mirror}{path}")
    }

    /// The length of a file, if the server says it; nothing is downloaded.
    ///
    /// # Errors
    /// [`Error::Request`], [`Error::Cancelled`], and [`Error::Status`] for any answer but success.
    pub fn length(&self, url: &str, token: Option<&Token>, go_on: GoOn<'_>) -> Result<Option<u64>, Error> {
        let ask = Ask {
            url: self.locate(url),
            head: true,
            from: 0,
            compressed: false,
            token: token.cloned(),
        };
        self.repeat(go_on, || {
            let answer = self.ask(ask.clone(), go_on)?;
            answer.check_status()?;
            Ok(answer.length)
        })
    }

    /// A small text, such as a list of files.
    ///
    /// # Errors
    /// [`Error::Request`], [`Error::Status`], [`Error::Interrupted`], [`Error::Cancelled`], [`Error::TooLong`] beyond
    /// `limit` bytes, [`Error::NotText`].
    pub fn text(
        &self,
        url: &str,
        token: Option<&Token>,
        limit: u64,
        go_on: GoOn<'_>,
    ) -> Result<String, Error> {
        let url = self.locate(url);
        let ask = Ask {
            url: url.clone(),
            head: false,
            from: 0,
            compressed: true,
            token: token.cloned(),
        };
        self.repeat(go_on, || {
            let answer = self.ask(ask.clone(), go_on)?;
            answer.check_status()?;
            let mut bytes = Vec::new();
            loop {
                let block = answer.block(go_on)?;
                if block.is_empty() {
                    break;
                }
                bytes.extend(block);
                if bytes.len() as u64 > limit {
                    return Err(Error::TooLong {
                        url: url.clone(),
                        limit,
                    });
                }
            }
            String::from_utf8(bytes).map_err(|_| Error::NotText { url: url.clone() })
        })
    }

    /// Sends a request and waits for the headers.
    pub(crate) fn ask(&self, ask: Ask, go_on: GoOn<'_>) -> Result<Answer, Error> {
        ask.send(&self.agent, self.idle, go_on)
    }

    /// Asks again after an error that may pass.
    fn repeat<T>(&self, go_on: GoOn<'_>, ask: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
        let mut failures = 0;
        loop {
            match ask() {
                Err(error) if error.is_passing() && failures < self.retries => {
                    pause(self.wait(&error, failures), go_on)?;
                    failures += 1;
                }
                answer => return answer,
            }
        }
    }

    /// How long to wait after so many failures before this one.
    pub(crate) fn wait(&self, error: &Error, failures: u32) -> Duration {
        let limit = Duration::from_secs(30);
        if let Error::Status { wait: Some(wait), .. } = error {
            return (*wait).min(2 * limit);
        }
        (self.pause * 2_u32.saturating_pow(failures)).min(limit)
    }
}

/// Waits, and asks every now and then whether to go on.
pub(crate) fn pause(wait: Duration, go_on: GoOn<'_>) -> Result<(), Error> {
    let end = Instant::now() + wait;
    loop {
        if go_on().is_break() {
            return Err(Cancelled.into());
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(ASK_EVERY));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_takes_the_place_of_every_host() {
        let client = Client::new();
        assert_eq!(
            client.locate("https://example.org/a/b.7z"),
            "https://example.org/a/b.7z"
        );
        let client = client.mirror("http://127.0.0.1:80/m/");
        for (url, located) in [
            ("https://example.org/a/b.7z", "http://127.0.0.1:80/m/a/b.7z"),
            ("http://example.org:8080/a?b=c", "http://127.0.0.1:80/m/a?b=c"),
            ("https://example.org", "http://127.0.0.1:80/m"),
        ] {
            assert_eq!(client.locate(url), located);
        }
    }

    #[test]
    fn pauses_grow_to_half_a_minute_or_are_what_the_server_asks() {
        let client = Client::new();
        let cut = Error::Truncated {
            url: String::new(),
            got: 0,
            expected: 1,
        };
        let waits = [0, 1, 4, 5, 40].map(|failures| client.wait(&cut, failures).as_secs());
        assert_eq!(waits, [1, 2, 16, 30, 30]);
        let asked = |seconds| Error::Status {
            url: String::new(),
            status: 429,
            wait: Some(Duration::from_secs(seconds)),
        };
        assert_eq!(client.wait(&asked(7), 0).as_secs(), 7);
        assert_eq!(client.wait(&asked(7000), 0).as_secs(), 60);
    }
}
