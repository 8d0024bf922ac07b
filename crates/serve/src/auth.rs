//! Authorization.
//!
//! With a token, clients must send it in `Authorization: Bearer …` or in the cookie that `/api/login` sets. Without one, only this
//! machine may connect, and `Host` must be one of its names: a page of another site whose name was made to point here (DNS
//! rebinding) sends its own name and is refused. Requests by pages of other sites carry an `Origin`; a POST with a foreign one is
//! refused.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::api_error::ApiError;
use crate::server::Server;

/// The cookie that holds the token.
pub(crate) const COOKIE_NAME: &str = "hark_token";

/// Wrong tokens that are answered at once. A person who mistypes does not feel a bound; a program that tries all words does.
const FREE_WRONG_TOKENS: f64 = 5.0;

/// Time after which one wrong token is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);

/// What a request shows of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenCheck {
    Right,
    Wrong,
    Nothing,
}

/// Refuses requests that a page of another site has made.
pub(crate) fn check_site(parts: &Parts, has_token: bool) -> Result<(), ApiError> {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let (Some(Ok(host)), None) = (hosts.next().map(HeaderValue::to_str), hosts.next()) else {
        return Err(ApiError::bad("a request must have exactly one `Host` header"));
    };
    let authority = parts.uri.authority().map(axum::http::uri::Authority::as_str);
    let own = is_own(host) && authority.is_none_or(is_own);
    if !has_token && !own {
        let message = "without a token, this server answers to localhost, 127.0.0.1 and [::1] alone";
        return Err(ApiError::new(StatusCode::FORBIDDEN, message));
    }
    if parts.method != Method::GET && parts.method != Method::HEAD {
        let foreign = |origin: &str| !same_host(origin, authority.unwrap_or(host));
        let mut origins = parts.headers.get_all(ORIGIN).iter();
        if origins.any(|origin| origin.to_str().map_or(true, foreign)) {
            let message = "a page of another site may not do this";
            return Err(ApiError::new(StatusCode::FORBIDDEN, message));
        }
    }
    Ok(())
}

/// Whether `name:port` is this machine's own.
fn is_own(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, port)) => (name, port.strip_prefix(':').or(port.is_empty().then_some(""))),
            None => return false,
        },
        None => match host.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (host, Some("")),
        },
    };
    if !port.is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()) && port.len() <= 5) {
        return false;
    }
    if host.starts_with('[') {
        return name
            .parse::<Ipv6Addr>()
            .is_ok_and(|ip| ip.to_canonical().is_loopback());
    }
    name.eq_ignore_ascii_case("localhost") || name.parse::<Ipv4Addr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether an origin, `scheme://name:port`, is the host that was asked. A proxy that encrypts makes `https` of what is `http`
/// here, so that the scheme does not count.
fn same_host(origin: &str, host: &str) -> bool {
    let web = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    web.is_some_and(|of| of.eq_ignore_ascii_case(host))
}

/// What a request shows of the token.
pub(crate) fn shown(headers: &HeaderMap, token: &str) -> TokenCheck {
    let bearer = headers.get_all(AUTHORIZATION).iter().filter_map(|value| {
        let (scheme, given) = value.to_str().ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(given.trim())
    });
    let cookies = headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let cookie = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| {
        let (name, given) = pair.split_once('=')?;
        (name.trim() == COOKIE_NAME).then_some(given.trim())
    });
    let mut seen = TokenCheck::Nothing;
    for given in bearer.chain(cookie) {
        if equal(given, token) {
            return TokenCheck::Right;
        }
        seen = TokenCheck::Wrong;
    }
    seen
}

/// Compares in a time that depends on the length of `token` alone, and not on how much of it is right.
pub(crate) fn equal(given: &str, token: &str) -> bool {
    let given = given.as_bytes();
    let mut difference = u8::from(given.len() != token.len());
    for (i, &byte) in token.as_bytes().iter().enumerate() {
        let other = given.get(i).copied().unwrap_or(!byte);
        difference = std::hint::black_box(difference | (byte ^ other));
    }
    std::hint::black_box(difference) == 0
}

/// Counts wrong tokens and forgets them with time.
#[derive(Default)]
pub(crate) struct WrongTokens(Mutex<Option<(f64, Instant)>>);

impl WrongTokens {
    /// Notes one more, and tells whether there are too many by now.
    fn note(&self, now: Instant) -> bool {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = kept.map_or(0.0, |(count, since)| {
            let forgotten =
                now.saturating_duration_since(since).as_secs_f64() / FORGOTTEN_AFTER.as_secs_f64();
            (count - forgotten).max(0.0)
        });
        *kept = Some((before + 1.0, now));
        before + 1.0 > FREE_WRONG_TOKENS
    }
}

/// The answer to a wrong token, late if there have been several. The right one is never made to wait.
pub(crate) async fn wrong(server: &Server) -> ApiError {
    if server.wrong_tokens.note(Instant::now()) {
        tokio::time::sleep(server.options.wrong_token_time).await;
    }
    ApiError::token("wrong token; the right one is the value of HARK_TOKEN that the server was started with")
}

/// Lets through who shows the token, if there is one.
pub(crate) async fn check_token(server: &Server, headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(token) = &server.options.token else {
        return Ok(());
    };
    match shown(headers, token) {
        TokenCheck::Right => Ok(()),
        TokenCheck::Wrong => Err(wrong(server).await),
        TokenCheck::Nothing => Err(ApiError::token(
            "this library requires a token; send the value of HARK_TOKEN that the server was started with, as `Authorization: Bearer TOKEN`",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_hosts() {
        for own in [
            "localhost",
            "LocalHost:8080",
            "127.0.0.1",
            "127.0.0.1:7878",
            "127.255.3.4:1",
            "[::1]",
            "[::1]:80",
            "[::ffff:127.0.0.1]:80",
            "localhost:",
        ] {
            assert!(is_own(own), "{own}");
        }
        for other in [
            "",
            "example.com",
            "localhost.example.com",
            "127.0.0.1.example.com",
            "127.0.0.1@example.com",
            "localhost:80@example.com",
            "0.0.0.0",
            "128.0.0.1",
            "[::2]",
            "[::1",
            "::1",
            "[::1]x",
            "[127.0.0.1]",
            "127.1",
            "2130706433",
            "localhost:123456",
            "localhost:-1",
            "local host",
        ] {
            assert!(!is_own(other), "{other}");
        }
    }

    #[test]
    fn origins() {
        assert!(same_host("http://localhost:7878", "localhost:7878"));
        assert!(same_host("https://Sounds.example", "sounds.example"));
        for foreign in [
            "null",
            "",
            "http://evil.example",
            "http://localhost:1",
            "ftp://localhost:7878",
            "localhost:7878",
        ] {
            assert!(!same_host(foreign, "localhost:7878"), "{foreign}");
        }
    }

    fn headers(pairs: &[(axum::http::HeaderName, &str)]) -> HeaderMap {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()));
        pairs.collect()
    }

    #[test]
    fn tokens() {
        let of = |pairs: &[(axum::http::HeaderName, &str)]| shown(&headers(pairs), "secret");
        assert_eq!(of(&[]), TokenCheck::Nothing);
        assert_eq!(of(&[(AUTHORIZATION, "Bearer secret")]), TokenCheck::Right);
        assert_eq!(of(&[(AUTHORIZATION, "bearer  secret")]), TokenCheck::Right);
        assert_eq!(of(&[(AUTHORIZATION, "Basic secret")]), TokenCheck::Nothing);
        assert_eq!(of(&[(COOKIE, "a=b; hark_token=secret; c")]), TokenCheck::Right);
        assert_eq!(of(&[(COOKIE, "xhark_token=secret")]), TokenCheck::Nothing);
        for wrong in ["", "secre", "secret2", "Secret", "secreT", &"secret".repeat(1000)] {
            let cookie = format!("hark_token={wrong}");
            assert_eq!(of(&[(COOKIE, &cookie)]), TokenCheck::Wrong, "{wrong}");
            assert!(!equal(wrong, "secret"));
        }
        assert!(equal("secret", "secret"));
    }

    #[test]
    fn wrong_tokens_add_up_and_are_forgotten() {
        let wrong = WrongTokens::default();
        let begin = Instant::now();
        let late: Vec<bool> = (0..7).map(|_| wrong.note(begin)).collect();
        assert_eq!(late, [false, false, false, false, false, true, true]);
        assert!(!wrong.note(begin + 3 * FORGOTTEN_AFTER));
        assert!(wrong.note(begin + 3 * FORGOTTEN_AFTER));
    }
}
