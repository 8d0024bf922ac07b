//! A long response, produced piece by piece as the client reads it.
//!
//! Each piece is produced in a blocking thread, which is free again before the piece is sent: a slow client holds memory for one
//! piece and no thread. The length is declared in advance and kept.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use axum::body::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::Semaphore;

use crate::server::Server;

/// Bytes of a piece, at most.
pub(crate) const PIECE: usize = 128 << 10;

/// Something that gives bytes.
pub(crate) trait ChunkSource: Send {
    /// The next bytes, at most `most`. None at all means that there are none yet: it is asked again, so that a long way to the first
    /// byte is interrupted when the client goes away.
    fn next(&mut self, most: usize) -> io::Result<Vec<u8>>;
}

/// A spring that comes back with what it gave.
type Step = Pin<Box<dyn Future<Output = io::Result<(Box<dyn ChunkSource>, Vec<u8>)>> + Send>>;

enum State {
    Resting(Box<dyn ChunkSource>),
    Working(Step),
    Ended,
}

/// The body of a long answer.
pub(crate) struct StreamBody {
    state: State,
    left: u64,
    /// How many may make a piece at once, if it is hard work.
    workers: Option<Arc<Semaphore>>,
    server: Arc<Server>,
}

impl StreamBody {
    /// A body of exactly `length` bytes.
    pub(crate) fn new(
        spring: Box<dyn ChunkSource>,
        length: u64,
        workers: Option<Arc<Semaphore>>,
        server: Arc<Server>,
    ) -> Self {
        Self {
            state: State::Resting(spring),
            left: length,
            workers,
            server,
        }
    }
}

async fn step(
    mut spring: Box<dyn ChunkSource>,
    most: usize,
    workers: Option<Arc<Semaphore>>,
) -> io::Result<(Box<dyn ChunkSource>, Vec<u8>)> {
    let permit = match workers {
        Some(workers) => workers.acquire_owned().await.ok(),
        None => None,
    };
    let work = move || {
        let _permit = permit;
        let bytes = spring.next(most)?;
        Ok((spring, bytes))
    };
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)?
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        loop {
            if self.left == 0 {
                self.state = State::Ended;
            }
            match std::mem::replace(&mut self.state, State::Ended) {
                State::Ended => return Poll::Ready(None),
                State::Resting(spring) => {
                    let most = usize::try_from(self.left).unwrap_or(PIECE).min(PIECE);
                    self.state = State::Working(Box::pin(step(spring, most, self.workers.clone())));
                }
                State::Working(mut work) => {
                    let polled = work.as_mut().poll(context);
                    if polled.is_pending() {
                        self.state = State::Working(work);
                    }
                    let (spring, bytes) = match ready!(polled) {
                        Ok(done) => done,
                        Err(error) => return Poll::Ready(Some(Err(error))),
                    };
                    self.state = State::Resting(spring);
                    if bytes.is_empty() {
                        continue;
                    }
                    let count = bytes.len() as u64;
                    self.left = self.left.saturating_sub(count);
                    self.server
                        .metrics
                        .audio_bytes
                        .fetch_add(count, Ordering::Relaxed);
                    return Poll::Ready(Some(Ok(Frame::data(Bytes::from(bytes)))));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
