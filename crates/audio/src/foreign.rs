//! Formats that are known and not decoded here, by their first bytes.
//!
//! In: the beginning of a file, behind its tags. Out: the format's name, or `None`. Without this, a demuxer that searches for frames finds some in
//! any long run of bytes, and gives noise.

use std::io::{self, SeekFrom};

use crate::source::{Source, read_bounded};

/// How many of a file's first bytes are looked at.
pub(crate) const HEAD: usize = 64;

/// Where a mark stands, the mark, and the format's name.
const MARKS: [(usize, &[u8], &str); 35] = [
    (0, b"MAC ", "Monkey's Audio"),
    (0, b"wvpk", "WavPack"),
    (0, b"tBaK", "TAK"),
    (0, b"TTA1", "True Audio"),
    (0, b"TTA2", "True Audio"),
    (0, b"MPCK", "Musepack"),
    (0, b"MP+", "Musepack"),
    (0, b"OFR ", "OptimFROG"),
    (0, b"LPAC", "LPAC"),
    (0, b"ajkg", "Shorten"),
    (0, b"DSD ", "DSF"),
    (0, b"FRM8", "DSDIFF"),
    (8, b"AVI ", "AVI"),
    (0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "ASF (WMA)"),
    (0, b"#!AMR-WB", "AMR-WB"),
    (0, b"#!AMR", "AMR"),
    (0, b"\x0b\x77", "AC-3"),
    (0, b"\x7f\xfe\x80\x01", "DTS"),
    (0, b"\xfe\x7f\x01\x80", "DTS"),
    (0, b"\x1f\xff\xe8\x00", "DTS"),
    (0, b"\xff\x1f\x00\xe8", "DTS"),
    (0, b"DTSHDHDR", "DTS-HD"),
    (0, b"MThd", "MIDI"),
    (8, b"RMID", "MIDI"),
    (0, b".RMF", "RealMedia"),
    (0, b".ra\xfd", "RealAudio"),
    (0, b"FLV\x01", "Flash video"),
    (28, b"Speex   ", "Speex"),
    (0, b"Creative Voice File", "VOC"),
    (0, b"Extended Module: ", "XM"),
    (0, b"IMPM", "Impulse Tracker"),
    (44, b"SCRM", "Scream Tracker"),
    (0, b"\x00\x00\x01\xba", "MPEG program stream"),
    (0, b"\x89PNG", "PNG"),
    (0, b"%PDF", "PDF"),
];

/// Tags that stand before the sound: more are not passed over.
const MAX_TAGS: usize = 16;

/// Where the file itself begins that has this beginning, behind tags of ID3v2 and APEv2.
pub(crate) fn behind_tags(head: &[u8], source: &mut dyn Source) -> io::Result<u64> {
    let mut place = tag_size(head).unwrap_or(0);
    if place == 0 {
        return Ok(0);
    }
    for _ in 0..MAX_TAGS {
        source.seek(SeekFrom::Start(place))?;
        let Some(size) = tag_size(&read_bounded(source, 32, 32)?) else {
            break;
        };
        place += size;
    }
    Ok(place)
}

/// The bytes of the tag that begins so, its head included.
fn tag_size(head: &[u8]) -> Option<u64> {
    if head.starts_with(b"APETAGEX") {
        let size = head.get(12..16)?.iter().rev();
        return Some(32 + size.fold(0, |size, &b| size << 8 | u64::from(b)));
    }
    let (b"ID3", rest) = head.split_first_chunk::<3>()? else {
        return None;
    };
    let &[_, _, flags, size @ ..] = rest.first_chunk::<7>()?;
    // Seven bits a byte. A footer repeats the head.
    let footer = if flags & 0x10 != 0 { 10 } else { 0 };
    let size = size.iter().fold(0, |size, &b| size << 7 | u64::from(b & 127));
    Some(10 + size + footer)
}

/// How many bytes of linear samples [`hidden`] needs, and within how many the first mark must stand.
pub(crate) const HIDDEN: usize = 64 << 10;
const FIRST_MARK: usize = 16 << 10;

/// Compressed sound that goes by the name of 16-bit samples, so that it passes through players to a receiver: DTS as it is on
/// compact discs, and bursts of IEC 61937. The same mark stands at three places of equal distance.
pub(crate) fn hidden(samples: &[u8]) -> Option<&'static str> {
    const MARKS: [(&[u8; 4], &str); 6] = [
        (b"\xff\x1f\x00\xe8", "DTS"),
        (b"\xfe\x7f\x01\x80", "DTS"),
        (b"\x1f\xff\xe8\x00", "DTS"),
        (b"\x7f\xfe\x80\x01", "DTS"),
        (b"\x72\xf8\x1f\x4e", "Sound over S/PDIF (IEC 61937)"),
        (b"\xf8\x72\x4e\x1f", "Sound over S/PDIF (IEC 61937)"),
    ];
    let head = &samples[..samples.len().min(FIRST_MARK)];
    let words = head.windows(4).step_by(2);
    let (first, (mark, name)) = words.enumerate().find_map(|(n, word)| {
        let mark = MARKS.iter().find(|(mark, _)| word == *mark)?;
        Some((2 * n, mark))
    })?;
    let next = |after: usize| {
        let rest = samples.get(after + 2..)?;
        rest.windows(4)
            .step_by(2)
            .position(|word| word == *mark)
            .map(|n| after + 2 + 2 * n)
    };
    let second = next(first)?;
    (next(second)? - second == second - first).then_some(name)
}

pub(crate) fn name(head: &[u8]) -> Option<&'static str> {
    let at = |place: usize, mark: &[u8]| head.get(place..place + mark.len()) == Some(mark);
    let riff = at(0, b"RIFF");
    let found = MARKS.iter().find(|&&(place, mark, _)| {
        // What stands at eight is a form of RIFF only behind its name.
        at(place, mark) && (place != 8 || riff) && (place != 28 || at(0, b"OggS"))
    });
    found.map(|&(_, _, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn tags_are_passed_over() {
        let id3 = b"ID3\x04\0\x10\0\0\0\x03abc0123456789";
        let ape = [&b"APETAGEX\xd0\x07\0\0\x02\0\0\0"[..], &[0; 16], b"xy"].concat();
        let file = [&id3[..], &ape, &id3[..], b"wvpk"].concat();
        let behind = |file: &[u8]| behind_tags(file, &mut Cursor::new(file.to_vec())).unwrap();
        let place = behind(&file);
        assert_eq!(&file[place as usize..], b"wvpk");
        assert_eq!((behind(b"wvpk"), behind(b"ID3\x04")), (0, 0));
        // A tag that claims more than there is.
        assert!(behind(b"ID3\x04\0\0\x7f\x7f\x7f\x7f") > 1 << 20);
    }

    #[test]
    fn marks_are_found_at_their_places() {
        assert_eq!(name(b"MAC \x96\x0f"), Some("Monkey's Audio"));
        assert_eq!(name(b"RIFF\x24\0\0\0AVI LIST"), Some("AVI"));
        assert_eq!(name(b"xxxx\x24\0\0\0AVI LIST"), None);
        assert_eq!(name(b"RIFF\x24\0\0\0WAVEfmt "), None);
        assert_eq!(name(b"fLaC"), None);
        assert_eq!(name(b""), None);
        assert!(MARKS.iter().all(|(place, mark, _)| place + mark.len() <= HEAD));
    }
}
