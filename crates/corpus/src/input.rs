//! Bytes to checked text. Every format reads through this module.
//!
//! In: any reader. Out: the same bytes, without a byte order mark, known to be UTF-8 and free of NUL, with a count of
//! lines. Refused: other bytes, files over [`MAX_FILE_BYTES`], records over [`MAX_RECORD_BYTES`].
//!
//! The parsers of CSV and JSON read through [`io::Read`], so our errors travel through them inside an
//! [`io::Error`] and are taken out again by [`Error::from_io`]. The [`Meter`] is shared: the parser owns the input,
//! while the format's code asks for the position and marks where a record begins.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, BufRead, Read};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use crate::Error;

/// The largest caption or rating file that is read, in bytes: 4 GiB.
pub const MAX_FILE_BYTES: u64 = 4 << 30;
/// The longest line, row or JSON entry that is read, in bytes: 16 MiB.
pub const MAX_RECORD_BYTES: u64 = 16 << 20;
/// The most captions in one file: 33,554,432. Four gigabytes of one-letter lines would otherwise take two hundred of
/// memory.
pub const MAX_CAPTIONS: usize = 1 << 25;
/// The longest caption, in words: 2,000. Sentence encoders read some 300; a longer text is a column taken by mistake.
pub const MAX_CAPTION_WORDS: usize = 2_000;

/// The bounds as a value, so that tests can reach them with small files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) file_bytes: u64,
    pub(crate) record_bytes: u64,
    pub(crate) captions: usize,
}

impl Limits {
    pub(crate) const STATED: Self = Self {
        file_bytes: MAX_FILE_BYTES,
        record_bytes: MAX_RECORD_BYTES,
        captions: MAX_CAPTIONS,
    };
}

/// At most this much is checked and handed on at a time. A line is longer only in JSON documents.
const PIECE_BYTES: u64 = 64 << 10;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The position of an [`Input`].
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// The line of the piece that was read last, from 1.
    line: Cell<u64>,
    /// Bytes read since the record began.
    record_bytes: Cell<u64>,
    /// For every piece since the record began: the offset at which its text ends, before the line's end, and its
    /// line. Blank lines have none. Kept only if asked for.
    text_ends: RefCell<Option<VecDeque<(u64, u64)>>>,
}

impl Meter {
    /// The line of the byte that was handed out last.
    pub(crate) fn line(&self) -> u64 {
        self.line.get()
    }

    /// A new record begins: its length counts from here.
    pub(crate) fn begin_record(&self) {
        self.record_bytes.set(0);
    }

    /// From here on, remember lines for [`Meter::line_of_text_at`].
    fn keep_lines(&self) {
        *self.text_ends.borrow_mut() = Some(VecDeque::new());
    }

    /// The line of the first text at or after a byte offset. Offsets must not decrease from call to call.
    pub(crate) fn line_of_text_at(&self, offset: u64) -> u64 {
        let mut ends = self.text_ends.borrow_mut();
        let Some(ends) = ends.as_mut() else {
            return self.line();
        };
        while ends.front().is_some_and(|&(end, _)| end <= offset) {
            ends.pop_front();
        }
        ends.front().map_or(self.line(), |&(_, line)| line)
    }
}

/// A reader of checked text.
pub(crate) struct Input<'a> {
    reader: &'a mut dyn BufRead,
    path: Arc<Path>,
    limits: Limits,
    meter: Rc<Meter>,
    /// Checked text; the bytes before `at` have been handed out.
    piece: String,
    at: usize,
    /// The first bytes of a character that the last piece cut in two.
    cut: Vec<u8>,
    /// Bytes read, the byte order mark included.
    total: u64,
    /// The offset of `piece` in what is handed out.
    offset: u64,
}

impl<'a> Input<'a> {
    pub(crate) fn new(reader: &'a mut dyn BufRead, path: Arc<Path>, limits: Limits) -> Self {
        Self {
            reader,
            path,
            limits,
            meter: Rc::default(),
            piece: String::new(),
            at: 0,
            cut: Vec::new(),
            total: 0,
            offset: 0,
        }
    }

    pub(crate) fn path(&self) -> &Arc<Path> {
        &self.path
    }

    pub(crate) fn meter(&self) -> Rc<Meter> {
        Rc::clone(&self.meter)
    }

    /// Have the meter remember lines by offset. To be called before anything is read.
    pub(crate) fn keep_lines(&self) {
        self.meter.keep_lines();
        self.note_text_end();
    }

    /// The text that comes next, without taking it: a line, or a part of a long one. Empty at the end. To be called
    /// at a line's start: [`Read`] may have stopped within a character.
    pub(crate) fn peek(&mut self) -> Result<&str, Error> {
        self.fill()?;
        Ok(self.piece.get(self.at..).unwrap_or_default())
    }

    /// Have something to hand out, unless the file is at its end.
    fn fill(&mut self) -> Result<(), Error> {
        if self.at == self.piece.len() {
            self.read_piece()
        } else {
            Ok(())
        }
    }

    /// Replace `line` by the next line, its end included. Gives its number, or `None` at the end.
    pub(crate) fn next_line(&mut self, line: &mut String) -> Result<Option<u64>, Error> {
        line.clear();
        // A piece that was peeked at belongs to this record.
        self.meter.record_bytes.set((self.piece.len() - self.at) as u64);
        while !line.ends_with('\n') {
            let text = self.peek()?;
            if text.is_empty() {
                break;
            }
            line.push_str(text);
            self.at = self.piece.len();
        }
        Ok((!line.is_empty()).then(|| self.meter.line()))
    }

    /// Read up to the end of the line, or a part of a long line. Leaves `piece` empty at the end of the file.
    fn read_piece(&mut self) -> Result<(), Error> {
        if self.piece.ends_with('\n') || self.meter.line() == 0 {
            self.meter.line.set(self.meter.line() + 1);
        }
        self.offset += self.piece.len() as u64;
        self.piece.clear();
        self.at = 0;

        while self.piece.is_empty() {
            let mut bytes = std::mem::take(&mut self.cut);
            let read = (&mut *self.reader)
                .take(PIECE_BYTES)
                .read_until(b'\n', &mut bytes)
                .map_err(|source| Error::Read {
                    path: Arc::clone(&self.path),
                    source,
                })?;
            if read == 0 && bytes.is_empty() {
                return Ok(());
            }
            self.count(read as u64)?;
            let first = self.total == read as u64;
            let text = if first {
                bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&bytes)
            } else {
                &bytes
            };
            if text.contains(&0) {
                return Err(Error::Binary {
                    path: Arc::clone(&self.path),
                    line: self.meter.line(),
                });
            }
            match std::str::from_utf8(text) {
                Ok(text) => self.piece.push_str(text),
                // The piece ends within a character: the rest comes with the next one, unless the file ends.
                Err(error) if error.error_len().is_none() && read > 0 => {
                    let (whole, cut) = text.split_at(error.valid_up_to());
                    self.cut.extend_from_slice(cut);
                    self.piece.push_str(&String::from_utf8_lossy(whole));
                }
                Err(_) => {
                    return Err(Error::InvalidUtf8 {
                        path: Arc::clone(&self.path),
                        line: self.meter.line(),
                    });
                }
            }
            if read == 0 {
                break;
            }
        }
        self.note_text_end();
        Ok(())
    }

    fn count(&mut self, read: u64) -> Result<(), Error> {
        self.total += read;
        if self.total > self.limits.file_bytes {
            return Err(Error::TooLarge {
                path: Arc::clone(&self.path),
                limit: self.limits.file_bytes,
            });
        }
        let record_bytes = self.meter.record_bytes.get() + read;
        self.meter.record_bytes.set(record_bytes);
        if record_bytes > self.limits.record_bytes {
            return Err(Error::RecordTooLong {
                path: Arc::clone(&self.path),
                line: self.meter.line(),
                limit: self.limits.record_bytes,
            });
        }
        Ok(())
    }

    fn note_text_end(&self) {
        if let Some(ends) = self.meter.text_ends.borrow_mut().as_mut() {
            let text = self.piece.trim_end_matches(['\r', '\n']);
            if !text.is_empty() {
                ends.push_back((self.offset + text.len() as u64, self.meter.line()));
            }
        }
    }
}

impl Read for Input<'_> {
    /// Hands out at most the rest of one line.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.fill().map_err(io::Error::other)?;
        let text = &self.piece.as_bytes()[self.at..];
        let length = text.len().min(buffer.len());
        buffer[..length].copy_from_slice(&text[..length]);
        self.at += length;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(reader: &mut dyn BufRead, limits: Limits) -> Input<'_> {
        Input::new(reader, Path::new("x").into(), limits)
    }

    #[test]
    fn characters_that_a_piece_cuts_are_joined() {
        // Three bytes a character: 64 KiB is no multiple of it, so every boundary cuts one.
        let text = "\u{feff}".to_owned() + &"€".repeat(100_000) + "\nend";
        let mut bytes = text.as_bytes();
        let mut out = String::new();
        input(&mut bytes, Limits::STATED)
            .read_to_string(&mut out)
            .unwrap();
        assert!(out == text.trim_start_matches('\u{feff}'));
    }

    #[test]
    fn a_character_that_the_file_cuts_is_refused() {
        let bytes = b"one\ntwo\xe2\x82";
        let error = input(&mut bytes.as_slice(), Limits::STATED)
            .read_to_end(&mut Vec::new())
            .unwrap_err();
        let error = Error::from_io(&Path::new("x").into(), error);
        assert!(matches!(error, Error::InvalidUtf8 { line: 2, .. }), "{error}");
    }

    #[test]
    fn lines_are_numbered() {
        let mut bytes = "a\n\nb\r\nc".as_bytes();
        let mut input = input(&mut bytes, Limits::STATED);
        let mut line = String::new();
        let mut lines = Vec::new();
        while let Some(number) = input.next_line(&mut line).unwrap() {
            lines.push((number, line.clone()));
        }
        let expected = [(1, "a\n"), (2, "\n"), (3, "b\r\n"), (4, "c")].map(|(n, text)| (n, text.to_owned()));
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_file_over_the_bound_is_refused_and_one_at_it_is_not() {
        let limits = Limits {
            file_bytes: 8,
            ..Limits::STATED
        };
        let mut out = Vec::new();
        input(&mut b"abc\nabc\n".as_slice(), limits)
            .read_to_end(&mut out)
            .unwrap();
        assert_eq!(out, b"abc\nabc\n");
        let error = input(&mut b"abc\nabc\n\n".as_slice(), limits)
            .read_to_end(&mut out)
            .unwrap_err();
        assert!(matches!(
            error.downcast::<Error>(),
            Ok(Error::TooLarge { limit: 8, .. })
        ));
    }

    #[test]
    fn a_line_over_the_bound_is_refused_without_being_read_whole() {
        // Endless input: the test ends only if the bound is kept.
        let mut endless = io::BufReader::new(io::repeat(b'x'));
        let mut line = String::new();
        let error = input(&mut endless, Limits::STATED)
            .next_line(&mut line)
            .unwrap_err();
        assert!(
            matches!(
                error,
                Error::RecordTooLong {
                    line: 1,
                    limit: MAX_RECORD_BYTES,
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn the_record_bound_counts_from_the_record() {
        let limits = Limits {
            record_bytes: 4,
            ..Limits::STATED
        };
        let mut bytes = b"abc\nabc\nabcd\n".as_slice();
        let mut input = input(&mut bytes, limits);
        let mut line = String::new();
        assert_eq!(input.peek().unwrap(), "abc\n");
        assert_eq!(input.next_line(&mut line).unwrap(), Some(1));
        assert_eq!(input.next_line(&mut line).unwrap(), Some(2));
        let error = input.next_line(&mut line).unwrap_err();
        assert!(
            matches!(
                error,
                Error::RecordTooLong {
                    line: 3,
                    limit: 4,
                    ..
                }
            ),
            "{error}"
        );
    }
}
