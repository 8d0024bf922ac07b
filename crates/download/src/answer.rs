//! An answer of a server, received on a thread of its own: the caller can cancel while nothing comes.
//!
//! In: a request. Out: its status and headers, then blocks of the body. A server that sends nothing for the client's idle
//! timeout ends the answer with an error; a transfer that goes on may take any time.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use hark_work::progress::Cancelled;
use ureq::http::HeaderMap;

use crate::Error;
use crate::token::Token;

/// Bytes of a block.
const BLOCK: usize = 1 << 17;
/// Blocks that are received ahead of the caller.
const AHEAD: usize = 4;
/// How often the caller is asked whether to go on.
pub(crate) const ASK_EVERY: Duration = Duration::from_millis(100);

/// Asked several times a second while a server is waited for; `Break` cancels the request.
pub type GoOn<'a> = &'a (dyn Fn() -> ControlFlow<()> + Sync);

/// What is asked for.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    /// Where, with the mirror in place.
    pub(crate) url: String,
    /// Only the headers.
    pub(crate) head: bool,
    /// Bytes at the start of the file that are not needed.
    pub(crate) from: u64,
    /// Whether the file may come compressed. Ranges and lengths count the bytes that are sent.
    pub(crate) compressed: bool,
    pub(crate) token: Option<Token>,
}

/// Status and headers that came, and the body to come.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// Length of the body, if it is told.
    pub(crate) length: Option<u64>,
    url: String,
    body: Receiver<Message>,
}

enum Message {
    Head(u16, HeaderMap, Option<u64>),
    /// Of the body; an empty one is its end.
    Block(Vec<u8>),
    Refused(ureq::Error),
    Broken(io::Error),
}

impl Ask {
    /// Sends the request and waits for the headers.
    pub(crate) fn send(self, agent: &ureq::Agent, idle: Duration, go_on: GoOn<'_>) -> Result<Answer, Error> {
        let (sender, body) = sync_channel(AHEAD);
        let (agent, url) = (agent.clone(), self.url.clone());
        // Not joined: after a cancellation it ends with the next byte, or with the idle timeout.
        std::thread::spawn(move || {
            if let Err(message) = exchange(&agent, &self, idle, &sender) {
                drop(sender.send(message));
            }
        });
        match receive(&body, go_on)? {
            Message::Head(status, headers, length) => Ok(Answer {
                status,
                headers,
                length,
                url,
                body,
            }),
            Message::Refused(source) => Err(Error::Request {
                url,
                source: Box::new(source),
            }),
            Message::Block(_) => Err(interrupted(url, io::ErrorKind::UnexpectedEof.into())),
            Message::Broken(source) => Err(interrupted(url, source)),
        }
    }
}

impl Answer {
    /// The next block of the body; empty at its end.
    pub(crate) fn block(&self, go_on: GoOn<'_>) -> Result<Vec<u8>, Error> {
        match receive(&self.body, go_on)? {
            Message::Block(bytes) => Ok(bytes),
            Message::Broken(source) => Err(interrupted(self.url.clone(), source)),
            Message::Head(..) | Message::Refused(_) => {
                Err(interrupted(self.url.clone(), io::ErrorKind::UnexpectedEof.into()))
            }
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok().map(str::trim)
    }

    /// An error for every answer but success.
    pub(crate) fn check_status(&self) -> Result<(), Error> {
        if (200..300).contains(&self.status) {
            return Ok(());
        }
        let wait = self.header("retry-after").and_then(|text| text.parse().ok());
        Err(Error::Status {
            url: self.url.clone(),
            status: self.status,
            wait: wait.map(Duration::from_secs),
        })
    }
}

fn interrupted(url: String, source: io::Error) -> Error {
    Error::Interrupted { url, source }
}

/// Sends the request and passes on what comes, until nobody takes it.
fn exchange(
    agent: &ureq::Agent,
    ask: &Ask,
    idle: Duration,
    sender: &SyncSender<Message>,
) -> Result<(), Message> {
    let request = if ask.head {
        agent.head(&ask.url)
    } else {
        agent.get(&ask.url)
    };
    let mut request = request.config().timeout_per_read(Some(idle)).build();
    if !ask.compressed {
        request = request.header("Accept-Encoding", "identity");
    }
    if ask.from > 0 {
        request = request.header("Range", format!("bytes={}-", ask.from));
    }
    if let Some(token) = &ask.token {
        request = request.header("Authorization", token.header());
    }
    let response = request.call().map_err(Message::Refused)?;
    let (parts, body) = response.into_parts();
    let length = if ask.head {
        // No body follows, and its length is that of the file.
        let told = parts.headers.get("content-length");
        told.and_then(|told| told.to_str().ok()?.trim().parse().ok())
    } else {
        body.content_length()
    };
    let head = Message::Head(parts.status.as_u16(), parts.headers, length);
    if sender.send(head).is_err() || ask.head {
        return Ok(());
    }
    let mut body = body.into_reader();
    loop {
        let mut bytes = vec![0; BLOCK];
        let count = match body.read(&mut bytes) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Message::Broken(named(error, idle))),
        };
        bytes.truncate(count);
        if sender.send(Message::Block(bytes)).is_err() || count == 0 {
            return Ok(());
        }
    }
}

/// The same error; a timeout says what it is.
fn named(error: io::Error, idle: Duration) -> io::Error {
    let is_timeout = error
        .get_ref()
        .is_some_and(|inner| matches!(inner.downcast_ref(), Some(ureq::Error::Timeout(_))));
    if is_timeout {
        let text = format!("the server sent nothing for {} s", idle.as_secs_f64());
        return io::Error::new(io::ErrorKind::TimedOut, text);
    }
    error
}

/// The next message, with questions to the caller until it comes.
fn receive(from: &Receiver<Message>, go_on: GoOn<'_>) -> Result<Message, Error> {
    loop {
        match from.recv_timeout(ASK_EVERY) {
            Ok(message) => return Ok(message),
            // The thread is gone without a word.
            Err(RecvTimeoutError::Disconnected) => {
                return Ok(Message::Broken(io::ErrorKind::UnexpectedEof.into()));
            }
            Err(RecvTimeoutError::Timeout) => {
                if go_on().is_break() {
                    return Err(Cancelled.into());
                }
            }
        }
    }
}
