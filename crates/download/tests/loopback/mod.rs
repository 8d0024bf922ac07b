//! A web server on the loopback interface, with the faults that servers have. Tests of other crates include this file.

#![allow(dead_code, unreachable_pub)] // each test uses a part

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// What goes wrong with one answer.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The whole file comes, whatever was asked.
    NoRanges,
    /// The connection ends after so many bytes.
    Cut(usize),
    /// Both.
    NoRangesCut(usize),
    /// Another status, without a file.
    Status(u16),
    /// A web page comes, called one or not.
    Page { told: bool },
    /// Other bytes come.
    Other(Vec<u8>),
    /// The length is not told.
    NoLength,
    /// The file has this entity tag.
    Tag(&'static str),
    /// Nothing more comes after so many bytes, and the connection stays open.
    Stall(usize),
    /// Nothing comes at all, not even headers.
    Silent,
    /// The connection ends without an answer.
    Refuse,
    /// The file is at another path.
    Redirect(&'static str),
    /// The length is told wrong.
    Length(usize),
}

/// A request that was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub start: usize,
    pub authorized: bool,
}

#[derive(Default)]
struct State {
    files: BTreeMap<String, Vec<u8>>,
    /// One for each answer to come; the last one of a path that is always at fault stays.
    faults: BTreeMap<String, VecDeque<Fault>>,
    always: BTreeMap<String, Fault>,
    asked: Vec<Asked>,
    sent: u64,
    hold_at: Option<u64>,
    held: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    stop: AtomicBool,
}

impl Shared {
    /// Waits until the server is dropped.
    fn wait_for_the_end(&self) {
        let mut state = self.state.lock().unwrap();
        while !self.stop.load(Ordering::Relaxed) {
            let wait = std::time::Duration::from_millis(20);
            state = self.changed.wait_timeout(state, wait).unwrap().0;
        }
    }
}

pub struct Loopback {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Loopback {
    pub fn new(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                files: files.into_iter().collect(),
                ..State::default()
            }),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
        });
        let server = Self {
            address: listener.local_addr().unwrap(),
            shared: Arc::clone(&shared),
        };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.stop.load(Ordering::Relaxed) {
                    return;
                }
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || drop(stream.map(|stream| answer(stream, &shared))));
            }
        });
        server
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn put(&self, path: &str, bytes: Vec<u8>) {
        self.shared
            .state
            .lock()
            .unwrap()
            .files
            .insert(path.to_owned(), bytes);
    }

    /// The next answers for this path have these faults, in this order.
    pub fn faults(&self, path: &str, faults: impl IntoIterator<Item = Fault>) {
        let mut state = self.shared.state.lock().unwrap();
        state.faults.entry(path.to_owned()).or_default().extend(faults);
    }

    /// Every answer for this path has this fault.
    pub fn always(&self, path: &str, fault: Fault) {
        self.shared
            .state
            .lock()
            .unwrap()
            .always
            .insert(path.to_owned(), fault);
    }

    pub fn repair(&self) {
        let mut state = self.shared.state.lock().unwrap();
        state.faults.clear();
        state.always.clear();
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.shared.state.lock().unwrap().asked.clone()
    }

    pub fn forget(&self) {
        self.shared.state.lock().unwrap().asked.clear();
    }

    /// No more than so many bytes of files are sent from now on.
    pub fn hold_after(&self, bytes: u64) {
        let mut state = self.shared.state.lock().unwrap();
        state.hold_at = Some(state.sent + bytes);
        state.held = false;
    }

    /// Waits until a byte is held back; false if `is_over` says first that none will be.
    pub fn wait_until_held(&self, mut is_over: impl FnMut() -> bool) -> bool {
        let mut state = self.shared.state.lock().unwrap();
        while !state.held {
            if is_over() {
                return false;
            }
            let wait = std::time::Duration::from_millis(5);
            state = self.shared.changed.wait_timeout(state, wait).unwrap().0;
        }
        true
    }

    pub fn release(&self) {
        let mut state = self.shared.state.lock().unwrap();
        state.hold_at = None;
        state.held = false;
        self.shared.changed.notify_all();
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.release();
        self.shared.stop.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.address));
    }
}

/// What a client asks for.
fn read_request(stream: &TcpStream) -> std::io::Result<Asked> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    let mut words = first.split(' ');
    let mut asked = Asked {
        method: words.next().unwrap_or_default().to_owned(),
        path: words
            .next()
            .unwrap_or_default()
            .split('?')
            .next()
            .unwrap_or_default()
            .to_owned(),
        start: 0,
        authorized: false,
    };
    for line in lines {
        let line = line?.to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(range) = line.strip_prefix("range: bytes=") {
            asked.start = range.trim_end_matches('-').parse().unwrap();
        }
        asked.authorized |= line.starts_with("authorization: bearer ");
    }
    Ok(asked)
}

fn answer(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let asked = read_request(&stream)?;
    let Asked {
        method,
        path,
        mut start,
        ..
    } = asked.clone();
    let (bytes, fault) = {
        let mut state = shared.state.lock().unwrap();
        let fault = match method.as_str() {
            "GET" => state
                .faults
                .get_mut(&path)
                .and_then(VecDeque::pop_front)
                .or_else(|| state.always.get(&path).cloned()),
            // Of the lasting ones, these show without a file, too.
            _ => state
                .always
                .get(&path)
                .filter(|fault| matches!(fault, Fault::NoLength | Fault::Silent | Fault::Refuse))
                .cloned(),
        };
        state.asked.push(asked);
        (state.files.get(&path).cloned(), fault)
    };
    let Some(mut bytes) = bytes else {
        return send(&mut stream, "404 Not Found", "", b"no such file");
    };
    let mut kind = "application/octet-stream";
    let (mut cut, mut tag, mut told, mut stalls) = (usize::MAX, "\"one\"", true, false);
    let mut length = None;
    match fault {
        None => {}
        Some(Fault::NoRanges) => start = 0,
        Some(Fault::Cut(at)) => cut = at,
        Some(Fault::NoRangesCut(at)) => (start, cut) = (0, at),
        Some(Fault::Status(status)) => {
            return send(&mut stream, &format!("{status} Fault"), "Retry-After: 0\r\n", b"");
        }
        Some(Fault::Page { told }) => {
            bytes = b"\n<!DOCTYPE html><title>Log in</title>".repeat(50);
            start = 0;
            if told {
                kind = "text/html; charset=utf-8";
            }
        }
        Some(Fault::Other(other)) => bytes = other,
        Some(Fault::NoLength) => told = false,
        Some(Fault::Tag(other)) => tag = other,
        Some(Fault::Stall(at)) => (cut, stalls) = (at, true),
        Some(Fault::Silent) => {
            shared.wait_for_the_end();
            return Ok(());
        }
        Some(Fault::Refuse) => return Ok(()),
        Some(Fault::Redirect(to)) => {
            return send(&mut stream, "302 Found", &format!("Location: {to}\r\n"), b"moved");
        }
        Some(Fault::Length(other)) => length = Some(other),
    }
    let whole = bytes.len();
    if start > 0 && start >= whole {
        let range = format!("Content-Range: bytes */{whole}\r\nETag: {tag}\r\n");
        return send(&mut stream, "416 Range Not Satisfiable", &range, b"");
    }
    let mut head = format!("Connection: close\r\nContent-Type: {kind}\r\nETag: {tag}\r\n");
    if told {
        head += &format!("Content-Length: {}\r\n", length.unwrap_or(whole - start));
    }
    let status = if start > 0 {
        head += &format!("Content-Range: bytes {start}-{}/{whole}\r\n", whole - 1);
        "206 Partial Content"
    } else {
        "200 OK"
    };
    stream.write_all(format!("HTTP/1.1 {status}\r\n{head}\r\n").as_bytes())?;
    if method == "HEAD" {
        return Ok(());
    }
    let end = whole.min(start.saturating_add(cut));
    for chunk in bytes[start..end].chunks(1 << 12) {
        let mut state = shared.state.lock().unwrap();
        while state
            .hold_at
            .is_some_and(|at| state.sent + chunk.len() as u64 > at)
        {
            state.held = true;
            shared.changed.notify_all();
            state = shared.changed.wait(state).unwrap();
        }
        state.sent += chunk.len() as u64;
        drop(state);
        stream.write_all(chunk)?;
    }
    if stalls {
        shared.wait_for_the_end();
    }
    Ok(())
}

fn send(stream: &mut TcpStream, status: &str, head: &str, body: &[u8]) -> std::io::Result<()> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\n{head}Content-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)
}
