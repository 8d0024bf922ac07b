//! By what audio files are recognised when folders are listed: their extensions or, without one, their first bytes.

use std::path::Path;

/// In lower case. Where a dataset has a recording in several formats, the first of these is read.
pub const AUDIO_EXTENSIONS: [&str; 29] = [
    "wav", "flac", "aiff", "aif", "aifc", "caf", "wave", "bwf", "rf64", "w64", "au", "snd", "ogg", "oga",
    "opus", "mp3", "mp2", "mpga", "m4a", "m4b", "mp4", "mov", "3gp", "aac", "adts", "mka", "mkv", "weba",
    "webm",
];

/// Whether a file is an audio file by its extension, in any case.
pub fn has_audio_extension(name: &Path) -> bool {
    has_extension(name, &AUDIO_EXTENSIONS)
}

/// Formats that are read where [`ffmpeg`](crate::Fallback) is there, by their extensions.
pub const FFMPEG_EXTENSIONS: [&str; 24] = [
    "wma", "asf", "ape", "wv", "tta", "tak", "mpc", "dsf", "dff", "amr", "awb", "ac3", "eac3", "dts", "ra",
    "rm", "ram", "spx", "shn", "voc", "gsm", "avi", "wmv", "flv",
];

/// Whether a file is a recording that only ffmpeg reads, by its extension.
pub fn has_ffmpeg_extension(name: &Path) -> bool {
    has_extension(name, &FFMPEG_EXTENSIONS)
}

fn has_extension(name: &Path, known: &[&str]) -> bool {
    let extension = name.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| known.iter().any(|known| known.eq_ignore_ascii_case(extension)))
}

/// How many of a file's first bytes [`looks_like_audio`] needs.
pub const HEADER_BYTES: usize = 12;

/// Whether a file begins as audio files of a known format do. It is strict, as it is asked of files that nothing else says to be
/// audio: of MP3 it takes only files with an ID3v2 tag.
pub fn looks_like_audio(header: &[u8]) -> bool {
    let at = |place: usize, magic: &[u8]| header.get(place..place + magic.len()) == Some(magic);
    let riff = (at(0, b"RIFF") || at(0, b"RF64") || at(0, b"RIFX") || at(0, b"BW64")) && at(8, b"WAVE");
    let aiff = at(0, b"FORM") && (at(8, b"AIFF") || at(8, b"AIFC"));
    let starts = [
        b"fLaC".as_slice(),
        b"OggS",
        b"ID3\x02",
        b"ID3\x03",
        b"ID3\x04",
        b"caff",
        b".snd\0\0",
        b"riff\x2e\x91\xcf\x11",
    ];
    riff || aiff || at(4, b"ftypM4A") || starts.iter().any(|magic| at(0, magic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_an_extension_are_known_by_their_first_bytes() {
        for header in [
            b"RIFF\x24\0\0\0WAVE".as_slice(),
            b"RF64\xff\xff\xff\xffWAVE",
            b"FORM\0\0\0\x2eAIFC",
            b"fLaC\0\0\0\x22....",
            b"OggS\0\x02......",
            b"ID3\x04\0\0......",
            b"\0\0\0\x20ftypM4A ",
        ] {
            assert!(looks_like_audio(header), "{header:?}");
        }
        for header in [
            b"RIFF\x24\0\0\0AVI ".as_slice(),
            b"#!/bin/sh",
            b"\0\0\0\x20ftypisom",
            b"\xff\xfb\x90\0",
            b"fL",
            b"",
        ] {
            assert!(!looks_like_audio(header), "{header:?}");
        }
        assert!(has_ffmpeg_extension(Path::new("a/Take.WMA")));
        assert!(!has_ffmpeg_extension(Path::new("a/wma")));
    }

    #[test]
    fn extensions_are_compared_without_case() {
        assert!(has_audio_extension(Path::new("a/B.WAV")));
        assert!(has_audio_extension(Path::new("x.y.Mp3")));
        for other in ["wav", ".wav", "a.txt", "a.wav.part", ""] {
            assert!(!has_audio_extension(Path::new(other)), "{other}");
        }
    }
}
