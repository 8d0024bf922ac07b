//! The bytes that a decoder reads from, and how many of them it may read in one go.
//!
//! A header can claim that the next packet is four gigabytes long. The demuxer's buffers grow with the bytes that
//! really arrive, so a bound on the bytes per step bounds the memory, whatever the header says.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use symphonia::core::io::MediaSource;

/// Anything that can be read and moved about in: a file, or `Cursor<Vec<u8>>` for bytes in memory.
pub trait Source: Read + Seek + Send + Sync {}
impl<T: Read + Seek + Send + Sync> Source for T {}

/// The most bytes that finding the format and reading the header may take: 256 MiB. Tables of MP4 files of many
/// hours and embedded pictures stay far below.
pub const MAX_BYTES_TO_OPEN: u64 = 256 << 20;

/// The most bytes that the demuxer may read to get at one packet: 64 MiB. The longest packet of any audio codec
/// here has less than 1 MiB; the rest leaves room for pictures and video that lie between.
pub const MAX_BYTES_PER_PACKET: u64 = 64 << 20;

/// How many bytes may still be read, and what the system said if it could not read them. Shared by the
/// source, which the demuxer owns, and the one who sets it.
#[derive(Clone, Default)]
pub(crate) struct Budget {
    left: Arc<AtomicU64>,
    fault: Arc<Mutex<Option<io::Error>>>,
}

impl Budget {
    pub(crate) fn set(&self, bytes: u64) {
        self.left.store(bytes, Ordering::Relaxed);
    }

    /// The first error of the source itself. The end of the file and a budget used up are none.
    pub(crate) fn take_fault(&self) -> Option<io::Error> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Keeps the error and returns one of the same kind for the demuxer.
    fn note(&self, error: io::Error) -> io::Error {
        let kind = error.kind();
        self.fault
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(error);
        kind.into()
    }
}

/// A source that stops with an error when its budget is used up.
pub(crate) struct Metered {
    inner: Box<dyn Source>,
    length: u64,
    budget: Budget,
}

impl Metered {
    pub(crate) fn new(inner: Box<dyn Source>, length: u64, budget: Budget) -> Self {
        Self {
            inner,
            length,
            budget,
        }
    }
}

impl Read for Metered {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.budget.left.load(Ordering::Relaxed);
        if left == 0 && !buffer.is_empty() {
            return Err(io::Error::other(
                "a single packet or header is larger than any real one",
            ));
        }
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let got = loop {
            match self.inner.read(&mut buffer[..most]) {
                Ok(got) => break got,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.budget.note(e)),
            }
        };
        self.budget.left.store(left - got as u64, Ordering::Relaxed);
        Ok(got)
    }
}

impl Seek for Metered {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

impl MediaSource for Metered {
    fn is_seekable(&self) -> bool {
        true
    }

    fn byte_len(&self) -> Option<u64> {
        Some(self.length)
    }
}

/// Reads until the buffer is full or the source ends; returns how many bytes there were.
pub(crate) fn read_up_to(source: &mut dyn Source, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

/// The body of a chunk, no more than `most` bytes of it and no more than the source has.
pub(crate) fn read_bounded(source: &mut dyn Source, length: u64, most: usize) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    source.take(length.min(most as u64)).read_to_end(&mut body)?;
    Ok(body)
}

/// How much [`Places`] reads at once.
const AHEAD: usize = 64 << 10;

/// A source that is read at places. Neighbouring places are read from the system at once: a seek in a
/// [`std::io::BufReader`] would throw its buffer away for every packet.
pub(crate) struct Places {
    inner: Box<dyn Source>,
    length: u64,
    buffer: Vec<u8>,
    /// The place of the buffer's first byte.
    start: u64,
    /// What is read at [`BESIDE`] and after it.
    beside: Vec<u8>,
}

/// A place that no file reaches.
const BESIDE: u64 = 1 << 62;

impl Places {
    pub(crate) fn new(inner: Box<dyn Source>, length: u64) -> Self {
        Self {
            inner,
            length,
            buffer: Vec::new(),
            start: 0,
            beside: Vec::new(),
        }
    }

    pub(crate) fn into_inner(self) -> Box<dyn Source> {
        self.inner
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Makes bytes that are not in the source as they are readable; returns their place.
    pub(crate) fn put_beside(&mut self, bytes: Vec<u8>) -> Range<u64> {
        self.beside = bytes;
        BESIDE..BESIDE + self.beside.len() as u64
    }

    /// Up to `count` bytes from `place` on: fewer only where the source ends. Space grows with what is there, not with
    /// what is asked for.
    pub(crate) fn read(&mut self, place: u64, count: usize) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        while out.len() < count {
            let part = self.part(place.saturating_add(out.len() as u64))?;
            if part.is_empty() {
                break;
            }
            let wanted = (count - out.len()).min(part.len());
            out.extend_from_slice(&part[..wanted]);
        }
        Ok(out)
    }

    /// Some bytes from `place` on, none at the end.
    fn part(&mut self, place: u64) -> io::Result<&[u8]> {
        if let Some(at) = place.checked_sub(BESIDE) {
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            return Ok(self.beside.get(at..).unwrap_or_default());
        }
        let inside = |start: u64, held: usize| {
            let offset = usize::try_from(place.checked_sub(start)?).ok()?;
            (offset < held).then_some(offset)
        };
        if let Some(offset) = inside(self.start, self.buffer.len()) {
            return Ok(&self.buffer[offset..]);
        }
        self.buffer.clear();
        if place >= self.length {
            return Ok(&[]);
        }
        self.inner.seek(SeekFrom::Start(place))?;
        self.start = place;
        self.buffer.resize(AHEAD, 0);
        let got = read_up_to(&mut self.inner, &mut self.buffer);
        self.buffer.truncate(*got.as_ref().unwrap_or(&0));
        got?;
        Ok(&self.buffer)
    }
}
