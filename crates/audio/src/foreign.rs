//! Formats that are known and not decoded here, by their first bytes.
//!
//! In: the beginning of a file. Out: the format's name, or `None`. Without this, a demuxer that searches for frames finds some in
//! any long run of bytes, and gives noise.

/// How many of a file's first bytes are looked at.
pub(crate) const HEAD: usize = 64;

/// Where a mark stands, the mark, and the format's name.
const MARKS: [(usize, &[u8], &str); 37] = [
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
    (0, b"RIFX", "RIFX"),
    (0, b".snd", "AU"),
    (0, b"\x00\x00\x01\xba", "MPEG program stream"),
    (0, b"\x89PNG", "PNG"),
    (0, b"%PDF", "PDF"),
];

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
