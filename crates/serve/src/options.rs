//! Where the server listens, and its limits.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::Error;

/// The longest token.
pub(crate) const MAX_TOKEN: usize = 512;

/// Where the server listens, and the bounds it keeps to. What is not set has the value of [`Options::default`].
#[derive(Debug, Clone)]
pub struct Options {
    /// Where to listen; port 0 takes a free one. Anything but this machine's own addresses needs a token.
    pub address: SocketAddr,
    /// What clients must show. Without one, everybody on this machine may ask.
    pub token: Option<String>,
    /// The library's name, as the page shows it.
    pub name: String,
    /// Most connections at once; one more is answered with 503 and closed.
    pub most_connections: usize,
    /// Most searches at work at once.
    pub searches: usize,
    /// Most searches that wait for others to end; one more is answered with 503.
    pub waiting: usize,
    /// Most bytes of an upload.
    pub upload_bytes: u64,
    /// Most seconds of sound in an upload. A few bytes of a compressed file can stand for hours of silence.
    pub upload_seconds: f64,
    /// Most uploads at once: each takes space on disk.
    pub uploads: usize,
    /// Where uploads are kept while they are listened to; without it, the system's folder for temporary files.
    pub temporary: Option<PathBuf>,
    /// How long a client may take to send a request's headers.
    pub header_time: Duration,
    /// How long a connection may stay open between two requests.
    pub idle_time: Duration,
    /// How long a client may take without reading anything of an answer.
    pub stall_time: Duration,
    /// How long a client may take to send a request's body.
    pub upload_time: Duration,
    /// How long the answer to a wrong token waits, after several wrong ones.
    pub wrong_token_time: Duration,
    /// How long requests at work may go on after the server was told to stop.
    pub grace_time: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7878),
            token: None,
            name: "hark".to_owned(),
            most_connections: 256,
            searches: std::thread::available_parallelism().map_or(1, usize::from),
            waiting: 64,
            upload_bytes: 64 << 20,
            upload_seconds: 3600.0,
            uploads: 8,
            temporary: None,
            header_time: Duration::from_secs(10),
            idle_time: Duration::from_mins(1),
            stall_time: Duration::from_mins(1),
            upload_time: Duration::from_mins(2),
            wrong_token_time: Duration::from_secs(1),
            grace_time: Duration::from_secs(10),
        }
    }
}

impl Options {
    /// Refuses what would be open to all, or would let nothing through.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let bounds = [
            ("most_connections", self.most_connections),
            ("searches", self.searches),
            ("uploads", self.uploads),
        ];
        if let Some(&(option, _)) = bounds.iter().find(|(_, value)| *value == 0) {
            return Err(Error::Bound { option });
        }
        match &self.token {
            None if !self.address.ip().to_canonical().is_loopback() => Err(Error::Exposed {
                address: self.address,
            }),
            // These stand in headers and cookies as they are.
            Some(token)
                if token.is_empty()
                    || token.len() > MAX_TOKEN
                    || !token
                        .bytes()
                        .all(|b| b.is_ascii_alphanumeric() || b"-._~+/=".contains(&b)) =>
            {
                Err(Error::Token { most: MAX_TOKEN })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str, token: Option<&str>) -> Result<(), Error> {
        let options = Options {
            address: address.parse().unwrap(),
            token: token.map(str::to_owned),
            ..Options::default()
        };
        options.check()
    }

    #[test]
    fn what_others_can_reach_needs_a_token() {
        for own in ["127.0.0.1:0", "127.9.8.7:1", "[::1]:80", "[::ffff:127.0.0.1]:80"] {
            assert!(at(own, None).is_ok(), "{own}");
        }
        for open in ["0.0.0.0:80", "[::]:80", "192.168.1.2:80", "[::ffff:10.0.0.1]:80"] {
            assert!(matches!(at(open, None), Err(Error::Exposed { .. })), "{open}");
            assert!(at(open, Some("secret")).is_ok(), "{open}");
        }
        let message = at("0.0.0.0:80", None).unwrap_err().to_string();
        assert!(
            message.contains("token") && message.contains("127.0.0.1"),
            "{message}"
        );
    }

    #[test]
    fn a_token_fits_a_header_and_a_cookie() {
        let long = "x".repeat(MAX_TOKEN + 1);
        for bad in ["", "a b", "a;b", "a\r\nb", "ü", "\"", &long] {
            assert!(
                matches!(at("127.0.0.1:0", Some(bad)), Err(Error::Token { .. })),
                "{bad}"
            );
        }
    }

    #[test]
    fn bounds_of_zero_are_refused() {
        let options = Options {
            searches: 0,
            ..Options::default()
        };
        assert!(matches!(
            options.check(),
            Err(Error::Bound { option: "searches" })
        ));
    }
}
