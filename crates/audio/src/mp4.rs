//! The edit lists of MP4 files: how much of a track's beginning is not to be played.
//!
//! AAC encoders need a run-up, and the edit list says how long it is. Symphonia reads edit lists but does not follow
//! them. In: a source whose first box is `ftyp`. Out: for every track the media time at which its first edit begins.
//! Only the first edit that shows media is looked at: sound files have one. Boxes follow ISO/IEC 14496-12.

use std::io::{self, SeekFrom};

use crate::aiff::big;
use crate::source::{Source, read_bounded, read_up_to};

/// More boxes than this at one level are not looked at.
const MAX_BOXES: usize = 4096;

/// The beginning of one track: `start` of `timescale` ticks per second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Edit {
    pub track: u32,
    pub start: u64,
    pub timescale: u64,
}

impl Edit {
    /// How many frames at `rate` stand before the beginning.
    pub(crate) fn frames(&self, rate: u32) -> u64 {
        let frames = u128::from(self.start) * u128::from(rate) / u128::from(self.timescale.max(1));
        u64::try_from(frames).unwrap_or(u64::MAX)
    }
}

pub(crate) fn is_mp4(head: &[u8]) -> bool {
    head.get(4..8) == Some(b"ftyp")
}

/// The edits of all tracks that have any. A file that makes no sense here has none; symphonia will say why.
pub(crate) fn edits(source: &mut dyn Source, length: u64) -> io::Result<Vec<Edit>> {
    let mut found = Vec::new();
    for_each_box(source, 0, length, &mut |source, name, start, end| {
        if &name != b"moov" {
            return Ok(());
        }
        for_each_box(source, start, end, &mut |source, name, start, end| {
            if &name == b"trak" {
                let mut edit = Edit::default();
                read_track(source, start, end, &mut edit)?;
                if edit.start > 0 && edit.timescale > 0 {
                    found.push(edit);
                }
            }
            Ok(())
        })
    })?;
    Ok(found)
}

type Visit<'a> = dyn FnMut(&mut dyn Source, [u8; 4], u64, u64) -> io::Result<()> + 'a;

/// Calls `visit` with the name and the body of every box between `start` and `end`.
fn for_each_box(source: &mut dyn Source, start: u64, end: u64, visit: &mut Visit) -> io::Result<()> {
    let mut at = start;
    for _ in 0..MAX_BOXES {
        if end.saturating_sub(at) < 8 {
            break;
        }
        source.seek(SeekFrom::Start(at))?;
        let mut head = [0; 16];
        let got = read_up_to(source, &mut head)?;
        let (Some(size), Some(name)) = (big(&head[..got], 0, 4), head[..got].get(4..8)) else {
            break;
        };
        let name = [name[0], name[1], name[2], name[3]];
        let (size, header) = match size {
            0 => (end - at, 8),
            1 => (big(&head[..got], 8, 8).unwrap_or(0), 16),
            size => (size, 8),
        };
        let Some(next) = at.checked_add(size).filter(|&next| next <= end && size >= header) else {
            break;
        };
        visit(source, name, at + header, next)?;
        at = next;
    }
    Ok(())
}

/// Looks for `tkhd`, and for `mdhd` and `elst` in the boxes that hold them. It goes one level down and no
/// further: a file may nest boxes in one another as deep as it is long.
fn read_track(source: &mut dyn Source, start: u64, end: u64, edit: &mut Edit) -> io::Result<()> {
    for_each_box(source, start, end, &mut |source, name, start, end| match &name {
        b"mdia" | b"edts" => for_each_box(source, start, end, &mut |source, name, start, end| {
            read_field(source, name, start, end, edit)
        }),
        _ => read_field(source, name, start, end, edit),
    })
}

/// Takes over what `tkhd`, `mdhd` or `elst` says; other boxes are passed over.
fn read_field(
    source: &mut dyn Source,
    name: [u8; 4],
    start: u64,
    end: u64,
    edit: &mut Edit,
) -> io::Result<()> {
    if ![b"tkhd", b"mdhd", b"elst"].contains(&&name) {
        return Ok(());
    }
    source.seek(SeekFrom::Start(start))?;
    let body = read_bounded(source, end - start, 4096)?;
    let wide = body.first() == Some(&1);
    match &name {
        b"tkhd" => edit.track = big(&body, if wide { 20 } else { 12 }, 4).unwrap_or(0) as u32,
        b"mdhd" => edit.timescale = big(&body, if wide { 20 } else { 12 }, 4).unwrap_or(0),
        _ => edit.start = first_edit(&body, wide).unwrap_or(0),
    }
    Ok(())
}

/// The media time of the first edit that is not empty; an empty one has the time -1.
fn first_edit(body: &[u8], wide: bool) -> Option<u64> {
    let (entry, size) = if wide { (20, 8) } else { (12, 4) };
    let count = big(body, 4, 4)? as usize;
    let times = (0..count.min(MAX_BOXES)).map_while(|i| big(body, 8 + entry * i + size, size));
    let highest = if wide { i64::MAX as u64 } else { i32::MAX as u64 };
    times.into_iter().find(|&time| time <= highest)
}
