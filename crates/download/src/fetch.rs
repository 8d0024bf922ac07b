//! One file: attempts, each of which begins where the one before ended.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fs_err::{File, OpenOptions};
use hark_work::progress::Cancelled;

use crate::answer::{Answer, Ask, GoOn};
use crate::checksum::Summing;
use crate::client::pause;
use crate::part::{Origin, Part};
use crate::{Checksum, Client, Error, Fetched, Token};

/// A file to download.
#[derive(Debug, Clone)]
pub struct Remote {
    /// What progress calls it.
    pub name: String,
    /// Its published address.
    pub url: String,
    /// Where it shall be. The folder must exist.
    pub target: PathBuf,
    /// Its length, if the publisher states it.
    pub bytes: Option<u64>,
    /// Its checksum, if the publisher states one.
    pub checksum: Option<Checksum>,
    /// For servers that restrict access.
    pub token: Option<Token>,
    /// Whether a file that is there and is not this one is replaced; if not, it stays and the download is refused.
    pub replace: bool,
}

/// What a download is doing.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// Bytes of an earlier attempt are read for the checksum.
    Checking {
        /// Name of the file.
        file: &'a str,
        /// Bytes that were read.
        done: u64,
        /// Bytes that are there.
        total: u64,
    },
    /// Bytes come in.
    Downloading {
        /// Name of the file.
        file: &'a str,
        /// Bytes that are on disk, including those of an earlier attempt.
        done: u64,
        /// Size of the file, if the server says it.
        total: Option<u64>,
    },
    /// Nothing has come for a moment; sent several times a second until something does.
    Waiting {
        /// Name of the file.
        file: &'a str,
    },
    /// The file is there, complete and checked.
    Finished {
        /// Name of the file.
        file: &'a str,
        /// Its length and checksums.
        fetched: &'a Fetched,
    },
    /// An attempt failed, and another follows.
    Retrying {
        /// Name of the file.
        file: &'a str,
        /// Why.
        error: &'a Error,
    },
}

/// Called for every [`Event`], from any thread but never from two at once; `Break` cancels the download, which a later
/// one resumes.
pub type OnEvent<'a> = &'a (dyn Fn(Event<'_>) -> ControlFlow<()> + Sync);

fn report(on_event: OnEvent<'_>, event: Event<'_>) -> Result<(), Error> {
    match on_event(event) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Cancelled.into()),
    }
}

impl Client {
    /// Downloads a file, or what is left of it. A file that is there already is checked and not downloaded again; one
    /// without a stated length or checksum is taken as it is.
    ///
    /// # Errors
    /// Any [`Error`] but those of [`Client::text`]. After [`Error::Interrupted`], [`Error::Truncated`],
    /// [`Error::DiskFull`] and [`Error::Cancelled`] a part of the file is left, which the next call continues.
    pub fn fetch(&self, remote: &Remote, on_event: OnEvent<'_>) -> Result<Fetched, Error> {
        let part = Part::of(&remote.target);
        if remote.target.is_file() {
            let fetched = Self::sum(remote, &remote.target.clone(), on_event)?.finish();
            let is_other_size = remote.bytes.is_some_and(|bytes| bytes != fetched.bytes);
            let differs = remote
                .checksum
                .as_ref()
                .and_then(|expected| fetched.differs(expected));
            if !is_other_size && differs.is_none() {
                return finished(remote, fetched, on_event);
            }
            if !remote.replace {
                return Err(Error::InTheWay {
                    path: remote.target.clone(),
                });
            }
            fs_err::remove_file(&remote.target)?;
        }
        let mut sum = Self::sum(remote, &part.path, on_event)?;
        let (mut failures, mut most, mut stale) = (0, sum.bytes(), false);
        loop {
            let error = match self.attempt(remote, &part, &mut sum, on_event) {
                Ok(()) => return finished(remote, finish(self, remote, &part, sum)?, on_event),
                Err(error) => error,
            };
            if matches!(error, Error::StalePart { .. }) && !stale {
                // From the start, at once; but a server that says so again is broken.
                stale = true;
                sum = Summing::new(remote.checksum.as_ref());
                (failures, most) = (0, 0);
                continue;
            }
            if sum.bytes() > most {
                (failures, most) = (0, sum.bytes());
            }
            if !error.is_passing() || failures == self.retries {
                return Err(error);
            }
            pause(self.wait(&error, failures), &|| {
                on_event(Event::Retrying {
                    file: &remote.name,
                    error: &error,
                })
            })?;
            failures += 1;
        }
    }

    /// The sums of what is on disk.
    fn sum(remote: &Remote, path: &std::path::Path, on_event: OnEvent<'_>) -> Result<Summing, Error> {
        let mut sum = Summing::new(remote.checksum.as_ref());
        if !path.exists() {
            return Ok(sum);
        }
        let total = fs_err::metadata(path)?.len();
        sum.add_file(path, &mut |done| {
            on_event(Event::Checking {
                file: &remote.name,
                done,
                total,
            })
        })?;
        Ok(sum)
    }

    /// Asks once for what is missing and takes what comes.
    fn attempt(
        &self,
        remote: &Remote,
        part: &Part,
        sum: &mut Summing,
        on_event: OnEvent<'_>,
    ) -> Result<(), Error> {
        let url = self.locate(&remote.url);
        let have = sum.bytes();
        let ask = Ask {
            url: url.clone(),
            head: false,
            from: have,
            compressed: false,
            token: remote.token.clone(),
        };
        let go_on = || on_event(Event::Waiting { file: &remote.name });
        let answer = self.ask(ask, &go_on)?;
        let status = answer.status;
        let range = answer.header("content-range").unwrap_or_default();
        let (sent, of) = range.rsplit_once('/').unwrap_or_default();
        let now = Origin {
            length: match status {
                206 | 416 => of.parse().ok(),
                _ => answer.length,
            },
            tag: answer.header("etag").map(str::to_owned),
        };
        let is_same = part.origin().may_be(&now, remote.checksum.is_some());
        let stale = || {
            part.remove()?;
            Err(Error::StalePart { url: url.clone() })
        };
        let start = match status {
            206 if is_same && sent.starts_with(&format!("bytes {have}-")) => have,
            200 => 0,
            // Nothing is left to send: an earlier attempt ended before the rename.
            416 if now.length == Some(have) && is_same => return Ok(()),
            206 | 416 if have > 0 => return stale(),
            _ => {
                answer.check_status()?;
                return Err(Error::Status {
                    url,
                    status,
                    wait: None,
                });
            }
        };
        if let (Some(expected), Some(got)) = (remote.bytes, now.length)
            && expected != got
        {
            return Err(Error::Size { url, got, expected });
        }
        let is_page = answer
            .header("content-type")
            .is_some_and(|kind| kind.starts_with("text/html"));
        // What is no such file is noticed before a byte of it is written.
        let block = answer.block(&go_on)?;
        if is_page || (start == 0 && is_web_page(&block)) {
            return Err(Error::WebPage { url });
        }
        let mut output = if start == 0 {
            *sum = Summing::new(remote.checksum.as_ref());
            // First the part is emptied, then the note replaced: bytes of one file with the note of another would be resumed.
            let output = File::create(&part.path).map_err(|source| Error::writing(&part.path, source))?;
            part.begin(&now)?;
            output
        } else {
            OpenOptions::new().append(true).open(&part.path)?
        };
        let receiving = Receiving {
            remote,
            part,
            url,
            total: now.length.or(remote.bytes),
        };
        receiving.run((&answer, &go_on, block), &mut output, sum, on_event)
    }
}

/// An answer that is taken in.
struct Receiving<'a> {
    remote: &'a Remote,
    part: &'a Part,
    url: String,
    total: Option<u64>,
}

impl Receiving<'_> {
    /// Writes the first block, and all that follow.
    fn run(
        self,
        (answer, go_on, mut block): (&Answer, GoOn<'_>, Vec<u8>),
        output: &mut File,
        sum: &mut Summing,
        on_event: OnEvent<'_>,
    ) -> Result<(), Error> {
        let told = |done, total| {
            let file = &self.remote.name;
            report(on_event, Event::Downloading { file, done, total })
        };
        let failed = |source| Error::writing(&self.part.path, source);
        let mut shown: Option<Instant> = None;
        while !block.is_empty() {
            output.write_all(&block).map_err(failed)?;
            sum.add(&block);
            if let Some(expected) = self.remote.bytes.filter(|&bytes| sum.bytes() > bytes) {
                self.part.remove()?;
                return Err(Error::Size {
                    url: self.url,
                    got: sum.bytes(),
                    expected,
                });
            }
            if shown.is_none_or(|shown| shown.elapsed() > Duration::from_millis(50)) {
                shown = Some(Instant::now());
                told(sum.bytes(), self.total)?;
            }
            block = answer.block(go_on)?;
        }
        if let Some(expected) = self.total.filter(|&total| total != sum.bytes()) {
            return Err(Error::Truncated {
                url: self.url,
                got: sum.bytes(),
                expected,
            });
        }
        output.sync_all().map_err(failed)?;
        told(sum.bytes(), Some(sum.bytes()))
    }
}

fn finished(remote: &Remote, fetched: Fetched, on_event: OnEvent<'_>) -> Result<Fetched, Error> {
    report(
        on_event,
        Event::Finished {
            file: &remote.name,
            fetched: &fetched,
        },
    )?;
    Ok(fetched)
}

/// Checks a complete part, which then takes its name.
fn finish(client: &Client, remote: &Remote, part: &Part, sum: Summing) -> Result<Fetched, Error> {
    let fetched = sum.finish();
    let url = client.locate(&remote.url);
    if let Some(expected) = remote.bytes.filter(|&bytes| bytes != fetched.bytes) {
        part.remove()?;
        let got = fetched.bytes;
        return Err(Error::Size { url, got, expected });
    }
    if let Some(expected) = remote.checksum.clone()
        && let Some(got) = fetched.differs(&expected)
    {
        // A wrong file must not be taken for a finished one, nor resumed, by the next attempt.
        part.remove()?;
        return Err(Error::Checksum { url, expected, got });
    }
    if !part.path.exists() {
        // An empty file: no byte has opened it.
        File::create(&part.path)?;
    }
    part.finish(&remote.target)?;
    Ok(fetched)
}

/// Whether a file begins as web pages do. No file that is downloaded here does.
fn is_web_page(start: &[u8]) -> bool {
    let start = start
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(start)
        .trim_ascii_start();
    let begins = |tag: &[u8]| {
        start
            .get(..tag.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(tag))
    };
    begins(b"<!doctype html") || begins(b"<html")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_pages_are_known_by_their_first_bytes() {
        for page in [
            "<!DOCTYPE html>",
            "<html lang=en>",
            "\n  <!doctype HTML x",
            "\u{feff}<HTML>",
        ] {
            assert!(is_web_page(page.as_bytes()), "{page}");
        }
        for file in ["PK\u{3}\u{4}", "file_name,caption_1", "<?xml?>", "", "<"] {
            assert!(!is_web_page(file.as_bytes()), "{file}");
        }
    }
}
