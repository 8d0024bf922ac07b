//! The boxes of MP4 and QuickTime files, and the tables of a track.
//!
//! In: the place of a box, or its body. Out: the boxes within; of a track, its times, sizes and places of samples, read when they
//! are asked for.

use std::io;

use crate::chunks::big;
use crate::source::Places;

/// More boxes than this at one level are not looked at. Fragments are walked one at a time and do not count.
const MAX_BOXES: usize = 4096;

/// The longest table of an index: sixteen million samples.
const MAX_TABLE: u64 = 64 << 20;

/// The longest box of other kinds that is read as a whole.
pub(crate) const MAX_BOX: u64 = 1 << 20;

/// A box: its name and where its body is.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub name: [u8; 4],
    pub start: u64,
    pub end: u64,
}

/// The box at a place; its end may lie beyond the file's. `None` if none begins there.
pub(crate) fn read_part(source: &mut Places, at: u64, limit: u64) -> io::Result<Option<Part>> {
    if limit.saturating_sub(at) < 8 {
        return Ok(None);
    }
    let head = source.read(at, 16)?;
    let (Some(size), Some(&name)) = (
        big(&head, 0, 4),
        head.get(4..8).and_then(|n| n.first_chunk::<4>()),
    ) else {
        return Ok(None);
    };
    let (size, header) = match size {
        0 => (limit - at, 8),
        1 => (big(&head, 8, 8).unwrap_or(0), 16),
        size => (size, 8),
    };
    let end = at.checked_add(size).filter(|_| size >= header);
    Ok(end.map(|end| Part {
        name,
        start: at + header,
        end,
    }))
}

/// All boxes of one level. One that goes beyond its parent ends the list.
pub(crate) fn parts(source: &mut Places, start: u64, end: u64) -> io::Result<Vec<Part>> {
    let mut found = Vec::new();
    let mut at = start;
    while found.len() < MAX_BOXES {
        let Some(part) = read_part(source, at, end)? else {
            break;
        };
        if part.end > end {
            break;
        }
        at = part.end;
        found.push(part);
    }
    Ok(found)
}

/// The boxes within one that is in memory.
pub(crate) fn within(mut body: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    std::iter::from_fn(move || {
        let size = usize::try_from(big(body, 0, 4)?).ok()?;
        let name = *body.get(4..8)?.first_chunk::<4>()?;
        let size = if size == 0 { body.len() } else { size };
        let inner = body.get(8..size.min(body.len()))?;
        body = &body[size.min(body.len())..];
        Some((name, inner))
    })
}

pub(crate) fn load(source: &mut Places, part: Part, most: u64) -> io::Result<Vec<u8>> {
    source.read(part.start, (part.end - part.start).min(most) as usize)
}

/// One track as `moov` describes it.
#[derive(Default)]
pub(crate) struct Track {
    pub id: u64,
    pub is_sound: bool,
    pub timescale: u64,
    /// Media time of the first edit that shows something.
    pub edit: Option<u64>,
    pub descriptions: Vec<u8>,
    pub times: Vec<u8>,
    pub chunks: Vec<u8>,
    pub sizes: Vec<u8>,
    pub small_sizes: bool,
    pub offsets: Vec<u8>,
    pub wide_offsets: bool,
}

impl Track {
    /// Looks for the boxes that are needed, level by level and no deeper: a file may nest boxes without end.
    pub(crate) fn read(source: &mut Places, trak: Part) -> io::Result<Self> {
        let mut track = Self::default();
        for part in parts(source, trak.start, trak.end)? {
            match &part.name {
                b"tkhd" => {
                    let body = load(source, part, MAX_BOX)?;
                    let wide = body.first() == Some(&1);
                    track.id = big(&body, if wide { 20 } else { 12 }, 4).unwrap_or(0);
                }
                b"edts" => {
                    for inner in parts(source, part.start, part.end)? {
                        if &inner.name == b"elst" {
                            track.edit = first_edit(&load(source, inner, MAX_BOX)?);
                        }
                    }
                }
                b"mdia" => track.read_media(source, part)?,
                _ => {}
            }
        }
        Ok(track)
    }

    pub(crate) fn read_media(&mut self, source: &mut Places, mdia: Part) -> io::Result<()> {
        let inner = parts(source, mdia.start, mdia.end)?;
        for part in &inner {
            match &part.name {
                b"mdhd" => {
                    let body = load(source, *part, MAX_BOX)?;
                    let wide = body.first() == Some(&1);
                    self.timescale = big(&body, if wide { 20 } else { 12 }, 4).unwrap_or(0);
                }
                b"hdlr" => self.is_sound = load(source, *part, 64)?.get(8..12) == Some(b"soun"),
                _ => {}
            }
        }
        if !self.is_sound {
            return Ok(());
        }
        for part in inner.iter().filter(|part| &part.name == b"minf") {
            for part in parts(source, part.start, part.end)? {
                if &part.name == b"stbl" {
                    self.read_tables(source, part)?;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn read_tables(&mut self, source: &mut Places, stbl: Part) -> io::Result<()> {
        for part in parts(source, stbl.start, stbl.end)? {
            let table = match &part.name {
                b"stsd" => {
                    self.descriptions = load(source, part, MAX_BOX)?;
                    continue;
                }
                b"stts" => &mut self.times,
                b"stsc" => &mut self.chunks,
                b"stsz" | b"stz2" => {
                    self.small_sizes = &part.name == b"stz2";
                    &mut self.sizes
                }
                b"stco" | b"co64" => {
                    self.wide_offsets = &part.name == b"co64";
                    &mut self.offsets
                }
                _ => continue,
            };
            *table = load(source, part, MAX_TABLE)?;
        }
        Ok(())
    }

    /// The size of sample `n`; `None` after the last.
    pub(crate) fn size(&self, n: u64) -> Option<u64> {
        let n = usize::try_from(n).ok()?;
        let (same, count) = (big(&self.sizes, 4, 4)?, big(&self.sizes, 8, 4)?);
        if n as u64 >= count {
            return None;
        }
        if !self.small_sizes {
            return if same > 0 {
                Some(same)
            } else {
                big(&self.sizes, 12 + 4 * n, 4)
            };
        }
        match same & 0xff {
            4 => big(&self.sizes, 12 + n / 2, 1).map(|pair| if n % 2 == 0 { pair >> 4 } else { pair & 15 }),
            8 => big(&self.sizes, 12 + n, 1),
            _ => big(&self.sizes, 12 + 2 * n, 2),
        }
    }

    pub(crate) fn samples(&self) -> u64 {
        big(&self.sizes, 8, 4).unwrap_or(0)
    }

    /// The size that all samples have, if it is one.
    pub(crate) fn same_size(&self) -> Option<u64> {
        big(&self.sizes, 4, 4).filter(|&same| same > 0 && !self.small_sizes)
    }

    pub(crate) fn offset(&self, chunk: u64) -> Option<u64> {
        let chunk = usize::try_from(chunk)
            .ok()
            .filter(|_| chunk < u64::from(u32::MAX))?;
        if self.wide_offsets {
            big(&self.offsets, 8 + 8 * chunk, 8)
        } else {
            big(&self.offsets, 8 + 4 * chunk, 4)
        }
    }

    /// First chunk counted from 0, samples per chunk and description of the run of chunks `n`.
    pub(crate) fn run(&self, n: usize) -> Option<(u64, u64, u64)> {
        let field = |i: usize| big(&self.chunks, 8 + 12 * n + 4 * i, 4);
        (n < big(&self.chunks, 4, 4)? as usize)
            .then(|| Some((field(0)?.saturating_sub(1), field(1)?, field(2)?)))?
    }

    /// The length of all samples of the index in ticks.
    pub(crate) fn ticks(&self) -> u64 {
        let count = big(&self.times, 4, 4).unwrap_or(0) as usize;
        let entry =
            |i: usize| Some(big(&self.times, 8 + 8 * i, 4)?.saturating_mul(big(&self.times, 12 + 8 * i, 4)?));
        (0..count).map_while(entry).fold(0, u64::saturating_add)
    }
}

/// The media time of the first edit that is not empty; an empty one has the time -1.
fn first_edit(body: &[u8]) -> Option<u64> {
    let wide = body.first() == Some(&1);
    let (entry, size) = if wide { (20, 8) } else { (12, 4) };
    let count = big(body, 4, 4)? as usize;
    let times = (0..count.min(MAX_BOXES)).map_while(|i| big(body, 8 + entry * i + size, size));
    let highest = if wide { i64::MAX as u64 } else { i32::MAX as u64 };
    times.into_iter().find(|&time| time <= highest)
}
