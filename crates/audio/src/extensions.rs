//! The extensions by which audio files are recognised when folders are listed.

use std::path::Path;

/// In lower case. Where a dataset has a recording in several formats, the first of these is read.
pub const AUDIO_EXTENSIONS: [&str; 22] = [
    "wav", "flac", "aiff", "aif", "aifc", "caf", "wave", "bwf", "rf64", "w64", "ogg", "oga", "opus", "mp3",
    "m4a", "m4b", "mp4", "aac", "mka", "mkv", "weba", "webm",
];

/// Whether a file is an audio file by its extension, in any case.
pub fn has_audio_extension(name: &Path) -> bool {
    let extension = name.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| {
        AUDIO_EXTENSIONS
            .iter()
            .any(|known| known.eq_ignore_ascii_case(extension))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_compared_without_case() {
        assert!(has_audio_extension(Path::new("a/B.WAV")));
        assert!(has_audio_extension(Path::new("x.y.Mp3")));
        for other in ["wav", ".wav", "a.txt", "a.wav.part", ""] {
            assert!(!has_audio_extension(Path::new(other)), "{other}");
        }
    }
}
