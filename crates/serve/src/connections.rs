//! Connections: how many there may be, how each begins and ends, and the headers of every response.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use hark_catalogue::{Embedder, Store};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::auth;
use crate::routes::{Label, router};
use crate::server::{LOOKS, Server};
use crate::timeouts::{ConnectionTimer, Phase, Timed, Wire};
use crate::{Error, Options};

/// Longest request line and headers together.
const MAX_HEADER_BYTES: usize = 16 << 10;

/// How often it is asked whether to stop.
const STOP_ASKED: Duration = Duration::from_millis(100);

/// Threads that move bytes; searches and disks have threads of their own.
const MOVERS: usize = 2;

/// Threads for disks, besides those for searches, looks and decoding.
const DISK_THREADS: usize = 16;

/// How long a client may still send after it was told that we do not listen any more. Without that, the system would take the
/// answer back together with the connection.
const LINGER: Duration = Duration::from_secs(2);

/// Bytes that are read and thrown away at most in that time.
const MAX_LINGER_BYTES: usize = 4 << 20;

/// Connections that are told at once that there are too many. Beyond them, connections are closed without a word.
const MAX_TURNED_AWAY: usize = 32;

/// Sent to a connection beyond the limit.
const TOO_MANY: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 55\r\n\
     Retry-After: 1\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n\
     {\"error\":\"too many connections; try again in a moment\"}";

/// Sent to a client that takes too long with its headers.
const TOO_SLOW: &str = "HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\nContent-Length: 49\r\n\
     X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n\
     {\"error\":\"timed out while receiving the request\"}";

type Router = TowerToHyperService<axum::Router>;

/// Answers requests until `stop` tells to end. `ready` is told the address, once connections are taken.
///
/// Requests at work when it is told to stop are answered, as long as [`Options::grace_time`] allows.
///
/// # Errors
/// If the options would leave the library open to all, or the address cannot be listened on.
pub fn serve(
    store: Arc<dyn Store>,
    embedder: Arc<dyn Embedder>,
    options: Options,
    ready: &mut dyn FnMut(SocketAddr),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(), Error> {
    options.check()?;
    let threads = options
        .searches
        .saturating_mul(2)
        .saturating_add(LOOKS + DISK_THREADS);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(MOVERS)
        .max_blocking_threads(threads)
        .thread_name("hark-serve")
        .enable_all()
        .build()
        .map_err(|source| Error::Threads { source })?;
    let grace = options.grace_time;
    let server = Arc::new(Server::new(store, embedder, options));
    let result = runtime.block_on(run(server, ready, stop));
    // A search that does not end is not waited for.
    runtime.shutdown_timeout(grace);
    result
}

async fn run(
    server: Arc<Server>,
    ready: &mut dyn FnMut(SocketAddr),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(), Error> {
    let address = server.options.address;
    let refused = |source| Error::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    ready(listener.local_addr().map_err(refused)?);
    let most = server.options.most_connections.min(Semaphore::MAX_PERMITS);
    let most = u32::try_from(most).unwrap_or(u32::MAX);
    let places = Arc::new(Semaphore::new(most as usize));
    let turned_away = Arc::new(Semaphore::new(MAX_TURNED_AWAY));
    let (stopping, stopped) = watch::channel(false);
    let router = TowerToHyperService::new(router(&server));
    let mut asking = tokio::time::interval(STOP_ASKED);
    while !stop() {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = asking.tick() => continue,
        };
        let Ok((stream, _)) = accepted else {
            // Mostly too many open files: others must end before one can begin.
            asking.tick().await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            server.metrics.turned_away.fetch_add(1, Ordering::Relaxed);
            if let Ok(place) = Arc::clone(&turned_away).try_acquire_owned() {
                tokio::spawn(async move {
                    let _place = place;
                    say(stream, TOO_MANY).await;
                });
            }
            continue;
        };
        let (server, router, stopped) = (Arc::clone(&server), router.clone(), stopped.clone());
        tokio::spawn(async move {
            let _place = place;
            server.metrics.connections.fetch_add(1, Ordering::Relaxed);
            attend(&server, router, stream, stopped).await;
            server.metrics.connections.fetch_sub(1, Ordering::Relaxed);
        });
    }
    drop(listener);
    // Nobody listens any more if all connections have ended.
    let _ = stopping.send(true);
    let _ = tokio::time::timeout(server.options.grace_time, places.acquire_many(most)).await;
    Ok(())
}

/// Serves one connection to its end.
async fn attend(server: &Arc<Server>, router: Router, stream: TcpStream, mut stopped: watch::Receiver<bool>) {
    // Answers go out at once: a player waits for the first bytes.
    let _ = stream.set_nodelay(true);
    let clock = Arc::new(ConnectionTimer::new());
    let wire = TokioIo::new(Wire {
        stream,
        clock: Arc::clone(&clock),
    });
    let service =
        service_fn(|request| answer(Arc::clone(server), router.clone(), Arc::clone(&clock), request));
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // The clock knows headers from pauses between requests.
        .header_read_timeout(None)
        .max_header_size(MAX_HEADER_BYTES)
        .serve_connection(wire, service);
    let mut leaving = false;
    let (expired, failed) = loop {
        tokio::select! {
            done = &mut connection => break (false, done.is_err()),
            () = clock.expired(&server.options) => break (true, false),
            () = told(&mut stopped), if !leaving => {
                leaving = true;
                std::pin::Pin::new(&mut connection).graceful_shutdown();
            }
        }
    };
    let stream = connection.into_parts().io.into_inner().stream;
    if expired && clock.phase() == Phase::Head {
        say(stream, TOO_SLOW).await;
    } else if failed || (!expired && clock.lingers()) {
        linger(stream).await;
    }
}

/// Returns when the server is told to stop.
async fn told(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stop| *stop).await;
}

/// Says something to a client that is not listened to any more.
async fn say(mut stream: TcpStream, what: &str) {
    let sent = tokio::time::timeout(LINGER, stream.write_all(what.as_bytes())).await;
    if matches!(sent, Ok(Ok(()))) {
        linger(stream).await;
    }
}

/// Closes our side and throws away what the client still sends, for a while.
async fn linger(mut stream: TcpStream) {
    let _ = stream.shutdown().await;
    let mut rest = vec![0; 16 << 10];
    let mut left = MAX_LINGER_BYTES;
    let reading = async {
        while let Ok(got @ 1..) = stream.read(&mut rest).await {
            left = left.saturating_sub(got);
            if left == 0 {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(LINGER, reading).await;
}

/// Answers one request.
async fn answer(
    server: Arc<Server>,
    router: Router,
    clock: Arc<ConnectionTimer>,
    request: Request<Incoming>,
) -> Result<Response<Timed>, Infallible> {
    clock.turn(Phase::Busy);
    let (parts, body) = request.into_parts();
    let sends = parts.method != Method::GET && parts.method != Method::HEAD;
    let mut response = match auth::check_site(&parts, server.options.token.is_some()) {
        Ok(()) => {
            let request = Request::from_parts(parts, Body::new(body));
            let Ok(response) = router.call(request).await;
            response
        }
        Err(refusal) => refusal.closing().response(),
    };
    let label = response
        .extensions()
        .get::<Label>()
        .map_or("other", |label| label.0);
    server.metrics.request(label, response.status().as_u16());
    protect(response.headers_mut());
    // What a refused request still sends is not read: the connection then ends after the answer.
    if sends && !response.status().is_success() {
        clock.set_linger();
    }
    Ok(response.map(|body| Timed::new(body, clock)))
}

/// What stands in every answer: nothing is guessed, framed, run, or told to other sites.
fn protect(headers: &mut HeaderMap) {
    let always = [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (X_FRAME_OPTIONS, "DENY"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in always {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let unless_said = [
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; sandbox; frame-ancestors 'none'",
        ),
        (CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in unless_said {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_at_the_door_has_the_length_it_says() {
        for said in [TOO_MANY, TOO_SLOW] {
            let (head, body) = said.split_once("\r\n\r\n").unwrap();
            assert!(
                head.contains(&format!("Content-Length: {}\r\n", body.len())),
                "{head}\n{}",
                body.len()
            );
            let value: serde_json::Value = serde_json::from_str(body).unwrap();
            assert!(value["error"].is_string());
        }
    }
}
