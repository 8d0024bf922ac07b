//! Files and hits as the API presents them.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hark_catalogue::{File, Heard, Hit};
use serde::Serialize;

/// A file as the API shows it.
#[derive(Serialize)]
pub(crate) struct FileView<'a> {
    id: i64,
    path: &'a str,
    name: &'a str,
    folder: &'a str,
    root: Option<&'a str>,
    size: u64,
    modified: i64,
    content: &'a str,
    seconds: f64,
    rate: u32,
    channels: u32,
    container: &'a str,
    codec: &'a str,
    date: String,
    metadata: &'a BTreeMap<String, String>,
    damage: Option<&'a str>,
    captions: &'a [String],
    tags: &'a [String],
    heard: &'a [Heard],
    peaks: String,
    playable: bool,
}

impl<'a> FileView<'a> {
    pub(crate) fn new(file: &'a File, roots: &'a [String]) -> Self {
        let sound = &file.sound;
        let (folder, name) = split(&file.path);
        Self {
            id: file.id,
            path: &file.path,
            name,
            folder,
            root: root_of(&file.path, roots),
            size: file.stat.size,
            modified: file.stat.modified,
            content: &file.content,
            seconds: sound.seconds,
            rate: sound.rate,
            channels: sound.channels,
            container: &sound.container,
            codec: &sound.codec,
            date: file.day(),
            metadata: &sound.metadata,
            damage: sound.damage.as_deref(),
            captions: &file.notes.captions,
            tags: &file.notes.tags,
            heard: &sound.heard,
            peaks: STANDARD.encode(&sound.peaks),
            playable: playable(&file.path, &sound.container, &sound.codec),
        }
    }
}

/// A hit as the API shows it.
#[derive(Serialize)]
pub(crate) struct HitView<'a> {
    rank: usize,
    score: f64,
    meaning: Option<f32>,
    words: Option<f64>,
    start: Option<f64>,
    end: Option<f64>,
    file: FileView<'a>,
}

impl<'a> HitView<'a> {
    pub(crate) fn new(hit: &'a Hit, roots: &'a [String]) -> Self {
        Self {
            rank: hit.rank,
            score: hit.score,
            meaning: hit.similarity,
            words: hit.word_coverage,
            start: hit.start,
            end: hit.end,
            file: FileView::new(&hit.file, roots),
        }
    }
}

/// A path's folder and name.
pub(crate) fn split(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some(parts) => parts,
        None => ("", path),
    }
}

/// The innermost of the library's folders that a path lies in.
fn root_of<'a>(path: &str, roots: &'a [String]) -> Option<&'a str> {
    let holds = |root: &&String| {
        let bare = root.trim_end_matches('/');
        path.strip_prefix(bare).is_some_and(|rest| rest.starts_with('/'))
    };
    let inner = roots.iter().filter(holds).max_by_key(|root| root.len());
    inner.map(String::as_str)
}

/// The end of a file's name, in lower case.
fn extension(path: &str) -> String {
    let (_, name) = split(path);
    name.rsplit_once('.')
        .map_or_else(String::new, |(_, e)| e.to_ascii_lowercase())
}

/// Whether browsers decode it themselves. Matroska is told from WebM, its subset that browsers take, by the name alone.
pub(crate) fn playable(path: &str, container: &str, codec: &str) -> bool {
    match container {
        "wav" => codec.starts_with("pcm"),
        "mp3" => matches!(codec, "mp3" | "mp1" | "mp2"),
        "flac" => codec == "flac",
        "ogg" => matches!(codec, "vorbis" | "opus"),
        "mp4" | "aac" | "adts" => matches!(codec, "aac" | "he-aac" | "he-aac v2"),
        "matroska" | "mkv" | "webm" => matches!(codec, "vorbis" | "opus") && extension(path) == "webm",
        _ => false,
    }
}

/// The type of a file's bytes. It is never one that a browser would run.
pub(crate) fn content_type(path: &str, container: &str) -> &'static str {
    match container {
        "wav" | "rf64" | "rifx" => "audio/wav",
        "w64" => "audio/x-w64",
        "au" => "audio/basic",
        "mp3" => "audio/mpeg",
        "flac" => "audio/flac",
        "ogg" => "audio/ogg",
        "mp4" => "audio/mp4",
        "aac" | "adts" => "audio/aac",
        "aiff" => "audio/aiff",
        "caf" => "audio/x-caf",
        "matroska" | "mkv" | "webm" if extension(path) == "webm" => "audio/webm",
        "matroska" | "mkv" | "webm" => "audio/x-matroska",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_folders_and_roots() {
        assert_eq!(split("/a/b/c.wav"), ("/a/b", "c.wav"));
        assert_eq!(split("/c.wav"), ("/", "c.wav"));
        assert_eq!(split("c.wav"), ("", "c.wav"));
        let roots = ["/a".to_owned(), "/a/b/".to_owned(), "/x".to_owned()];
        assert_eq!(root_of("/a/b/c.wav", &roots), Some("/a/b/"));
        assert_eq!(root_of("/a/bc/c.wav", &roots), Some("/a"));
        assert_eq!(root_of("/ab/c.wav", &roots), None);
        assert_eq!(root_of("/c.wav", &["/".to_owned()]), Some("/"));
    }

    /// Every file of the decoder's own tests has a type, and those that browsers play are these.
    #[test]
    fn what_browsers_play() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../audio/tests/files");
        let mut played = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let info = hark_audio::probe(&path).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let kind = content_type(&name, &info.container);
            assert!(kind.starts_with("audio/"), "{name}: {} is {kind}", info.container);
            if playable(&name, &info.container, &info.codec) {
                played.push(name);
            }
        }
        played.sort();
        let expected = [
            "chained.ogg",
            "chained.opus",
            "faststart.m4a",
            "fragmented.mp4",
            "mono-16.flac",
            "mono-16.wav",
            "mono.aac",
            "mono.m4a",
            "mono.mp3",
            "mono.ogg",
            "mono.opus",
            "opus.webm",
            "stereo-24.flac",
            "stereo-24.wav",
            "stereo.m4a",
            "stereo.mp3",
            "stereo.ogg",
            "stereo.opus",
            "surround.m4a",
            "surround.ogg",
            "surround.opus",
            "vorbis.webm",
        ];
        assert_eq!(played, expected);
    }
}
