//! How long a connection may wait for its client: for the headers of a request, between two requests, and for an answer to be
//! taken. Bodies of requests have a bound of their own (`upload.rs`).
//!
//! hyper's `header_read_timeout` does not replace this. It has one bound for the headers and for the pause between two requests,
//! where a browser's idle connection may stay open much longer than a slow header; it closes the connection without the 408
//! that says why; and hyper has no bound for a client that stops reading an answer.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::Options;

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The first byte of all.
    New,
    /// The rest of the headers of a request.
    Head,
    /// The first byte of a request after another one.
    Idle,
    /// Our own answer.
    Busy,
}

struct State {
    phase: Phase,
    since: Instant,
    /// Since when the client takes nothing of what there is to send.
    stalled: Option<Instant>,
    linger: bool,
}

/// Watches one connection.
pub(crate) struct ConnectionTimer {
    state: Mutex<State>,
    changed: Notify,
}

impl ConnectionTimer {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                phase: Phase::New,
                since: Instant::now(),
                stalled: None,
                linger: false,
            }),
            changed: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request has come, or its answer has been made.
    pub(crate) fn turn(&self, phase: Phase) {
        let mut state = self.state();
        state.phase = phase;
        state.since = Instant::now();
        drop(state);
        self.changed.notify_one();
    }

    /// The client may still be sending when we close the connection.
    pub(crate) fn set_linger(&self) {
        self.state().linger = true;
    }

    pub(crate) fn lingers(&self) -> bool {
        self.state().linger
    }

    pub(crate) fn phase(&self) -> Phase {
        self.state().phase
    }

    fn received(&self) {
        if matches!(self.phase(), Phase::New | Phase::Idle) {
            self.turn(Phase::Head);
        }
    }

    fn sent(&self, progress: bool) {
        let mut state = self.state();
        let was = state.stalled;
        state.stalled = if progress {
            None
        } else {
            was.or_else(|| Some(Instant::now()))
        };
        let changed = was.is_some() != state.stalled.is_some();
        drop(state);
        if changed {
            self.changed.notify_one();
        }
    }

    fn deadline(&self, options: &Options) -> Option<Instant> {
        let state = self.state();
        let wait = match state.phase {
            Phase::New | Phase::Head => Some(state.since + options.header_time),
            Phase::Idle => Some(state.since + options.idle_time),
            Phase::Busy => None,
        };
        let stall = state.stalled.map(|since| since + options.stall_time);
        // While an answer is being sent the client need not ask for anything else.
        stall.or(wait)
    }

    /// Returns when the client has taken too long.
    pub(crate) async fn expired(&self, options: &Options) {
        loop {
            match self.deadline(options) {
                Some(deadline) if deadline <= Instant::now() => return,
                Some(deadline) => {
                    let _ = tokio::time::timeout_at(deadline, self.changed.notified()).await;
                }
                None => self.changed.notified().await,
            }
        }
    }
}

/// A connection that tells its clock what comes and goes.
pub(crate) struct Wire {
    pub(crate) stream: TcpStream,
    pub(crate) clock: Arc<ConnectionTimer>,
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.clock.received();
        }
        polled
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.clock.sent(polled.is_ready());
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.clock.sent(polled.is_ready());
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// A body that tells the clock when it is at its end.
pub(crate) struct Timed {
    body: Body,
    clock: Arc<ConnectionTimer>,
}

impl Timed {
    pub(crate) fn new(body: Body, clock: Arc<ConnectionTimer>) -> Self {
        Self { body, clock }
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        self.clock.turn(Phase::Idle);
    }
}

impl hyper::body::Body for Timed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
