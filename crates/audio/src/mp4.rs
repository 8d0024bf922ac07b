//! MP4 and QuickTime, whole or in fragments.
//!
//! In: a source whose first box is one of ISO/IEC 14496-12 or of the QuickTime File Format. Out: the samples of the
//! first audio track, with the run-up and the length that its edit list, its index or iTunes' gapless tag tell, and
//! the texts of `udta`. Samples come from the index in `moov` and then from the fragments (`moof`), so that files of
//! either kind and of both are read to their end. A file that is cut short after its index gives what is there.
//! Other tracks, whatever they hold, are not looked at. Refused are encrypted tracks, files without an index, and
//! codecs that nothing here decodes, by their names.
//!
//! This is written here because symphonia refuses files over tracks that are not wanted, takes the length of a
//! fragmented file from `moov`, which does not know it, and does not follow edit lists.

use std::io;

use crate::chunks::big;
use crate::metadata::{Metadata, clean, keep_first};
use crate::mp4_entry::Entry;
use crate::mp4_tables::{MAX_BOX, Part, Track, load, parts, read_part, within};
use crate::quicktime;
use crate::sound::Sound;
use crate::source::{Places, Source};
use crate::track::{CUT, Coded, Demux, Heard, Refusal, Unit, header_fault, mpeg_frame, parameters};

/// The longest sample. Uncompressed sound has one sample per frame, and many are read together.
const MAX_SAMPLE: u64 = 16 << 20;

/// Bytes of uncompressed sound that are handed out together.
const LINEAR_BYTES: u64 = 64 << 10;

pub(crate) fn is_mp4(head: &[u8]) -> bool {
    let first = head.get(4..8);
    let names = [
        b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot", b"styp", b"moof", b"sidx", b"emsg",
    ];
    let size = big(head, 0, 4).unwrap_or(0);
    first.is_some_and(|name| names.iter().any(|known| known.as_slice() == name)) && (size >= 8 || size <= 1)
}

/// What fragments do not say themselves.
#[derive(Clone, Copy, Default)]
struct Defaults {
    size: u64,
}

/// A stretch of samples that lie one behind the other.
struct Stretch {
    offset: u64,
    /// The sizes of a fragment's samples, or none if those of the index are to be used.
    sizes: Option<std::vec::IntoIter<u64>>,
    left: u64,
}

/// What a file has.
pub(crate) enum Opened {
    Packets(Box<Mp4>, Box<Heard>),
    /// Sound whose packets no table tells, and its length in frames.
    Sound(Box<dyn Source>, Box<Sound>, Option<u64>),
}

pub(crate) struct Mp4 {
    source: Places,
    track: Track,
    defaults: Defaults,
    /// Bytes per frame of uncompressed sound.
    frame: Option<u64>,
    stretch: Option<Stretch>,
    /// The next sample, chunk and run of chunks of the index.
    sample: u64,
    chunk: u64,
    run: usize,
    /// Where the next fragment is looked for.
    at: u64,
    foreign: bool,
    /// Bytes of samples so far. An index may name the same bytes again and again.
    given: u64,
}

impl Mp4 {
    pub(crate) fn open(mut source: Places) -> Result<Opened, Refusal> {
        let length = source.length();
        let moov = index(&mut source)?;
        let mut tracks = Vec::new();
        let mut metadata = Metadata::default();
        let mut gapless = None;
        let mut extends = Vec::new();
        let inner = parts(&mut source, moov.start, moov.end).map_err(Refusal::Read)?;
        for part in inner {
            match &part.name {
                b"trak" if tracks.len() < 64 => {
                    let track = Track::read(&mut source, part).map_err(Refusal::Read)?;
                    if track.is_sound && !track.descriptions.is_empty() {
                        tracks.push(track);
                    }
                }
                b"udta" | b"meta" => {
                    let body = load(&mut source, part, 8 * MAX_BOX).map_err(Refusal::Read)?;
                    let found = if &part.name == b"udta" {
                        take_user_data(&body, &mut metadata)
                    } else {
                        take_meta(&body, &mut metadata)
                    };
                    gapless = gapless.or(found);
                }
                b"mvex" => extends = load(&mut source, part, MAX_BOX).map_err(Refusal::Read)?,
                _ => {}
            }
        }
        if tracks.is_empty() {
            return Err(Refusal::NoAudio);
        }
        let track = tracks.swap_remove(0);
        let (entry, packing) = Entry::parse(&track.descriptions)?;
        if let Some(sound) = quicktime::sound(&track, &entry, packing, length, &metadata) {
            let frames = (track.timescale == u64::from(sound.rate)).then(|| track.ticks());
            return Ok(Opened::Sound(source.into_inner(), Box::new(sound), frames));
        }
        let defaults = within(&extends)
            .filter(|(name, body)| name == b"trex" && big(body, 4, 4) == Some(track.id))
            .map(|(_, body)| Defaults {
                size: big(body, 16, 4).unwrap_or(0),
            })
            .next()
            .unwrap_or_default();
        let frame = match &entry {
            Entry::Linear(layout, _) => Some(layout.frame_bytes() as u64).filter(|&bytes| bytes > 0),
            _ => None,
        };
        let fragmented = !extends.is_empty();
        let mut opened = Self {
            source,
            defaults,
            frame,
            stretch: None,
            sample: 0,
            chunk: 0,
            run: 0,
            at: 0,
            foreign: false,
            given: 0,
            track,
        };
        let (coding, rate) = opened.coding(entry)?;
        let track = &opened.track;
        let frames = |ticks: u64| {
            let frames = u128::from(ticks) * u128::from(rate) / u128::from(track.timescale.max(1));
            u64::try_from(frames).unwrap_or(u64::MAX)
        };
        let ticks = track.ticks();
        let exact = track.timescale == u64::from(rate) && !fragmented && ticks > 0;
        let start = track.edit.filter(|&start| start > 0).map(frames);
        let shown = frames(ticks).saturating_sub(start.unwrap_or(0));
        let gapless = gapless.filter(|_| exact && start.is_none());
        let heard = Heard {
            container: "mp4",
            coding,
            drop: start.or(gapless.map(|(delay, _)| delay)),
            keep: match gapless {
                Some((_, total)) if total > 0 && total <= shown => Some(total),
                _ => exact.then_some(shown).filter(|&shown| shown > 0),
            },
            seconds: (!fragmented && ticks > 0 && track.timescale > 0).then(|| {
                let start = track.edit.unwrap_or(0);
                ticks.saturating_sub(start) as f64 / track.timescale as f64
            }),
            metadata,
        };
        Ok(Opened::Packets(Box::new(opened), Box::new(heard)))
    }

    /// How to decode the track, and its rate. MPEG audio is described better by its first frame than by the container.
    fn coding(&mut self, entry: Entry) -> Result<(Coded, u32), Refusal> {
        match entry {
            Entry::Linear(layout, rate) => Ok((Coded::Linear(layout, rate), rate)),
            Entry::Coded(made) => {
                // Rates above 65535 Hz do not fit the field, and the track's own clock runs at them.
                let rate = made.sample_rate.unwrap_or(self.track.timescale as u32);
                Ok((Coded::Packets(made), rate))
            }
            Entry::Mpeg => {
                let first = self.next().map_err(Refusal::Read)?;
                let Unit::Packet { data, .. } = first else {
                    return Err(header_fault("mp4", "there is no sample"));
                };
                (self.sample, self.chunk, self.run, self.at) = (0, 0, 0, 0);
                self.stretch = None;
                let (codec, rate, channels) = mpeg_frame(&data)
                    .ok_or_else(|| header_fault("mp4", "no MPEG audio in an MPEG audio track"))?;
                Ok((
                    Coded::Packets(Box::new(parameters(codec, rate, channels, None))),
                    rate,
                ))
            }
            Entry::Adpcm(..) => Err(header_fault("mp4", "there is no sample")),
        }
    }

    /// Goes to the next stretch of samples: a chunk of the index, or a fragment. Returns what else there is to say.
    fn advance(&mut self) -> io::Result<Option<Unit>> {
        if let Some(offset) = self.track.offset(self.chunk) {
            while self
                .track
                .run(self.run + 1)
                .is_some_and(|(first, ..)| first <= self.chunk)
            {
                self.run += 1;
            }
            self.chunk += 1;
            let Some((_, count, description)) = self.track.run(self.run) else {
                self.chunk = u64::MAX;
                return Ok(None);
            };
            if self.track.size(self.sample).is_none() {
                self.chunk = u64::MAX;
                return Ok(None);
            }
            self.stretch = Some(Stretch {
                offset,
                sizes: None,
                left: count,
            });
            if description > 1 && !std::mem::replace(&mut self.foreign, true) {
                return Ok(Some(Unit::Gap("the coding changes within the track".to_owned())));
            }
            return Ok(None);
        }
        self.next_fragment()
    }

    fn next_fragment(&mut self) -> io::Result<Option<Unit>> {
        let length = self.source.length();
        loop {
            let Some(part) = read_part(&mut self.source, self.at, length)? else {
                return Ok(Some(Unit::End));
            };
            if part.end > length {
                self.at = length;
                return Ok(Some(Unit::Broken(CUT.to_owned())));
            }
            let start = self.at;
            self.at = part.end;
            if &part.name != b"moof" {
                continue;
            }
            let body = load(&mut self.source, part, MAX_SAMPLE)?;
            if let Some((offset, sizes)) = fragment(&body, start, self.track.id, self.defaults) {
                self.stretch = Some(Stretch {
                    offset,
                    left: sizes.len() as u64,
                    sizes: Some(sizes.into_iter()),
                });
                return Ok(None);
            }
        }
    }

    /// The size of the next sample of the stretch, or of several samples of uncompressed sound.
    fn step(&mut self) -> Option<u64> {
        let stretch = self.stretch.as_mut().filter(|stretch| stretch.left > 0)?;
        let mut total = 0;
        loop {
            let size = match &mut stretch.sizes {
                Some(sizes) => sizes.next(),
                None => self.track.size(self.sample).inspect(|_| self.sample += 1),
            };
            let Some(mut size) = size else {
                stretch.left = 0;
                break;
            };
            stretch.left -= 1;
            // QuickTime writes the bytes of one channel's sample where those of a frame belong.
            if let Some(frame) = self.frame
                && size < frame
            {
                size = frame;
            }
            total += size;
            if self.frame.is_none() || total >= LINEAR_BYTES || stretch.left == 0 {
                break;
            }
        }
        Some(total).filter(|&total| total > 0 || stretch.left > 0)
    }
}

impl Demux for Mp4 {
    fn next(&mut self) -> io::Result<Unit> {
        loop {
            let Some(size) = self.step() else {
                match self.advance()? {
                    Some(unit) => return Ok(unit),
                    None => continue,
                }
            };
            let Some(stretch) = &mut self.stretch else {
                continue;
            };
            let offset = stretch.offset;
            stretch.offset = offset.saturating_add(size);
            if size > MAX_SAMPLE {
                return Ok(Unit::Gap(format!("a sample of {size} bytes")));
            }
            if size == 0 {
                continue;
            }
            self.given += size;
            if self.given > self.source.length().saturating_mul(2) {
                self.stop();
                return Ok(Unit::Broken(
                    "the index names more sound than the file holds".to_owned(),
                ));
            }
            let data = self.source.read(offset, size as usize)?;
            if (data.len() as u64) < size {
                let whole = self.frame.map_or(0, |frame| data.len() as u64 / frame * frame);
                if whole == 0 {
                    self.stop();
                    return Ok(Unit::Broken(CUT.to_owned()));
                }
                let data = data[..whole as usize].to_vec();
                return Ok(Unit::Packet { data, trim: 0 });
            }
            return Ok(Unit::Packet { data, trim: 0 });
        }
    }
}

impl Mp4 {
    fn stop(&mut self) {
        self.stretch = None;
        self.chunk = u64::MAX;
        self.at = self.source.length();
    }
}

/// The index, in full.
fn index(source: &mut Places) -> Result<Part, Refusal> {
    let moov = match find_moov(source).map_err(Refusal::Read)? {
        Some(moov) => moov,
        None if is_segment(source).map_err(Refusal::Read)? => {
            return Err(header_fault(
                "mp4",
                "a media segment without its initialization segment",
            ));
        }
        None => return Err(header_fault("mp4", "the file has no index (`moov`)")),
    };
    if moov.end > source.length() {
        return Err(header_fault("mp4", "the file ends within its index (`moov`)"));
    }
    quicktime::expanded(source, moov)
}

fn find_moov(source: &mut Places) -> io::Result<Option<Part>> {
    let length = source.length();
    let mut at = 0;
    let mut free = None;
    for _ in 0..1_000_000 {
        let Some(part) = read_part(source, at, length)? else {
            break;
        };
        if &part.name == b"moov" {
            return Ok(Some(part));
        }
        // Writers that replace an index rename the old one, and may leave it the only one.
        if free.is_none() && matches!(&part.name, b"free" | b"skip") {
            let inner = read_part(source, part.start, part.end)?;
            free = inner
                .filter(|inner| matches!(&inner.name, b"mvhd" | b"cmov"))
                .map(|_| part);
        }
        at = part.end;
    }
    Ok(free)
}

/// True if fragments come without an index, as parts of a stream do.
fn is_segment(source: &mut Places) -> io::Result<bool> {
    let length = source.length();
    let first = parts(source, 0, length)?;
    Ok(first.iter().any(|part| &part.name == b"moof"))
}

/// Where the samples of a track begin in a fragment, and their sizes. Runs lie one behind the other.
fn fragment(moof: &[u8], start: u64, track: u64, defaults: Defaults) -> Option<(u64, Vec<u64>)> {
    let mut first = None;
    let mut sizes = Vec::new();
    for (_, traf) in within(moof).filter(|(name, _)| name == b"traf") {
        let Some((_, head)) = within(traf).find(|(name, _)| name == b"tfhd") else {
            continue;
        };
        if big(head, 4, 4) != Some(track) {
            continue;
        }
        let flags = big(head, 1, 3)?;
        let mut at = 8;
        let mut field = |flag: u64, size: usize| {
            let value = (flags & flag != 0).then(|| big(head, at, size)).flatten();
            at += if flags & flag != 0 { size } else { 0 };
            value
        };
        let base = field(1, 8).unwrap_or(start);
        let _description = field(2, 4);
        let _duration = field(8, 4);
        let usual = field(0x10, 4).unwrap_or(defaults.size);
        for (_, run) in within(traf).filter(|(name, _)| name == b"trun") {
            let (flags, count) = (big(run, 1, 3)?, big(run, 4, 4)? as usize);
            let mut at = 8;
            if flags & 1 != 0 {
                let offset = big(run, at, 4)? as u32;
                let place = base.saturating_add_signed(i64::from(offset.cast_signed()));
                first = first.or(Some(place));
                at += 4;
            }
            at += if flags & 4 != 0 { 4 } else { 0 };
            let before = if flags & 0x100 != 0 { 4 } else { 0 };
            let entry = [0x100, 0x200, 0x400, 0x800]
                .iter()
                .filter(|&flag| flags & flag != 0)
                .count()
                * 4;
            if flags & 0x200 == 0 {
                sizes.extend(std::iter::repeat_n(usual, count.min(1 << 20)));
            } else {
                sizes.extend((0..count).map_while(|i| big(run, at + entry * i + before, 4)));
            }
        }
        first = first.or(Some(base));
    }
    first.filter(|_| !sizes.is_empty()).map(|first| (first, sizes))
}

/// Texts in `udta`: QuickTime's own, and those of iTunes in `meta`. Returns the run-up and the length of the gapless
/// tag.
fn take_user_data(udta: &[u8], metadata: &mut Metadata) -> Option<(u64, u64)> {
    let mut gapless = None;
    for (name, body) in within(udta) {
        if &name == b"meta" {
            gapless = gapless.or(take_meta(body, metadata));
        } else if let Some(field) = field_of(name, metadata) {
            // The length of the text and its language stand before it.
            keep_first(field, body.get(4..).and_then(clean));
        }
    }
    gapless
}

/// A `meta` box is a full box in MP4 and a plain one in QuickTime.
fn take_meta(body: &[u8], metadata: &mut Metadata) -> Option<(u64, u64)> {
    let plain = body.get(4..8) == Some(b"hdlr");
    let body = if plain { body } else { body.get(4..)? };
    let (_, list) = within(body).find(|(name, _)| name == b"ilst")?;
    let mut gapless = None;
    for (name, item) in within(list) {
        let value = within(item)
            .find(|(name, _)| name == b"data")
            .and_then(|(_, data)| data.get(8..));
        if &name == b"----" {
            let title = within(item)
                .find(|(name, _)| name == b"name")
                .and_then(|(_, n)| n.get(4..));
            if title == Some(b"iTunSMPB") {
                gapless = value.and_then(parse_gapless);
            }
        } else if let Some(field) = field_of(name, metadata) {
            keep_first(field, value.and_then(clean));
        }
    }
    gapless
}

fn field_of(name: [u8; 4], metadata: &mut Metadata) -> Option<&mut Option<String>> {
    Some(match &name {
        b"\xa9nam" => &mut metadata.title,
        b"\xa9ART" => &mut metadata.artist,
        b"desc" | b"\xa9des" => &mut metadata.description,
        b"\xa9cmt" => &mut metadata.comment,
        b"\xa9day" => &mut metadata.date,
        _ => return None,
    })
}

/// ` 00000000 00000840 000001CA 00000000003F31F6 ...`: zero, run-up, padding, length.
fn parse_gapless(text: &[u8]) -> Option<(u64, u64)> {
    let text = std::str::from_utf8(text).ok()?;
    let mut numbers = text
        .split_ascii_whitespace()
        .map(|word| u64::from_str_radix(word, 16));
    let (_, delay, _, total) = (
        numbers.next()?,
        numbers.next()?.ok()?,
        numbers.next()?,
        numbers.next()?.ok()?,
    );
    (delay < 1 << 16).then_some((delay, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gapless_tag() {
        let text = b" 00000000 00000840 000001CA 00000000003F31F6 00000000 00000000";
        assert_eq!(parse_gapless(text), Some((0x840, 0x3f_31f6)));
        assert_eq!(parse_gapless(b"0 840"), None);
    }
}
