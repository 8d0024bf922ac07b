//! The readers on the datasets' own files.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hark_corpus::{CaptionSet, Error, Format, read_ratings};

use crate::data;

/// Clips, captions, and how many clips have each number of captions.
fn counts(set: &CaptionSet) -> (usize, usize, BTreeMap<usize, usize>) {
    let mut clips_with = BTreeMap::new();
    for captions in set.captions_by_clip() {
        *clips_with.entry(captions.len()).or_default() += 1;
    }
    (set.clips.len(), set.captions.len(), clips_with)
}

#[test]
fn clotho_captions() {
    for (split, clips) in [("development", 3839), ("validation", 1045), ("evaluation", 1045)] {
        let path = data(&format!("clotho/clotho_captions_{split}.csv"));
        let set = CaptionSet::read(&path, &Format::Auto).unwrap();
        assert_eq!(
            counts(&set),
            (clips, 5 * clips, BTreeMap::from([(5, clips)])),
            "{split}"
        );
        assert_eq!(set, CaptionSet::read(&path, &Format::Clotho).unwrap(), "{split}");
        // One row a line, after the header.
        for caption in &set.captions {
            assert_eq!(caption.line, caption.clip as u64 + 2);
            assert_eq!(caption.text, caption.text.trim());
        }
    }
}

#[test]
fn clotho_file_names_keep_their_leading_space() {
    let path = data("clotho/clotho_captions_development.csv");
    let set = CaptionSet::read(&path, &Format::Auto).unwrap();
    assert!(set.clip_by_id(" typical neighborhood in Porto.wav").is_some());
    assert_eq!(set.clip_by_id("typical neighborhood in Porto.wav"), None);
}

#[test]
fn clotho_splits_share_file_names_and_merge_all_the_same() {
    let mut paths = Vec::new();
    for split in ["development", "validation", "evaluation"] {
        let path = data(&format!("clotho/clotho_captions_{split}.csv"));
        paths.push(path);
    }
    let read = |path: &PathBuf| CaptionSet::read(path, &Format::Auto).unwrap();
    let merged = CaptionSet::merge(paths.iter().map(read)).unwrap();
    let clips = 3839 + 2 * 1045;
    assert_eq!(counts(&merged), (clips, 5 * clips, BTreeMap::from([(5, clips)])));
    // Four names, each in two splits.
    let renamed = merged
        .clips
        .iter()
        .filter(|id| paths.iter().any(|path| id.starts_with(path.to_str().unwrap())));
    assert_eq!(renamed.count(), 8);
    let shared = format!("{}:FREEZER_DOOR_OPEN_CLOSE.wav", paths[2].display());
    let clip = merged.clip_by_id(&shared).unwrap();
    assert!(merged.captions_of(clip).all(|caption| *caption.path == *paths[2]));
}

#[test]
fn audiocaps_captions() {
    for (split, clips, each) in [("train", 49_838, 1), ("val", 495, 5), ("test", 975, 5)] {
        let path = data(&format!("audiocaps/{split}.csv"));
        let set = CaptionSet::read(&path, &Format::Auto).unwrap();
        assert_eq!(
            counts(&set),
            (clips, each * clips, BTreeMap::from([(each, clips)])),
            "{split}"
        );
        assert_eq!(
            set,
            CaptionSet::read(&path, &Format::AudioCaps).unwrap(),
            "{split}"
        );
        let lines: Vec<u64> = set.captions.iter().map(|caption| caption.line).collect();
        assert_eq!(lines, (2..=1 + lines.len() as u64).collect::<Vec<_>>(), "{split}");
    }
    let path = data("audiocaps/test.csv");
    let set = CaptionSet::read(&path, &Format::Auto).unwrap();
    assert_eq!(set.clips[0], "7fmOlUlwoNg_20");
    assert_eq!(
        set.captions[0].text,
        "Constant rattling noise and sharp vibrations"
    );
}

#[test]
fn wavcaps_captions() {
    let path = data("wavcaps/sb_final.json");
    let set = CaptionSet::read(&path, &Format::Auto).unwrap();
    // An independent count: the file as a whole, as untyped JSON.
    let document: serde_json::Value = serde_json::from_slice(&fs_err::read(&path).unwrap()).unwrap();
    let entries = document["data"].as_array().unwrap();
    assert_eq!(entries.len(), 1232);
    assert_eq!(counts(&set), (1232, 1232, BTreeMap::from([(1, 1232)])));
    for (entry, caption) in entries.iter().zip(&set.captions) {
        assert_eq!(entry["id"], *set.clips[caption.clip]);
        assert_eq!(entry["caption"], *caption.text);
    }
}

#[test]
fn clotho_ratings() {
    for split in ["development", "validation"] {
        let path = data(&format!("clotho/clotho_ratings_{split}.csv"));
        let captions = data(&format!("clotho/clotho_captions_{split}.csv"));
        let ratings = read_ratings(&path).unwrap();
        let set = CaptionSet::read(&captions, &Format::Auto).unwrap();
        let (clips, by_clip) = (set.clip_index(), set.captions_by_clip());
        assert_eq!(ratings.len(), 3400, "{split}");
        for (row, rating) in ratings.iter().enumerate() {
            assert_eq!(rating.line, row as u64 + 2);
            assert!(
                clips.contains_key(&*rating.candidate_clip),
                "{split}: line {}",
                rating.line
            );
            let own = &by_clip[clips[&*rating.query_clip]];
            assert!(
                own.iter()
                    .any(|&caption| set.captions[caption].text == rating.query),
                "{split}: line {}: the query is no caption of its clip",
                rating.line
            );
            assert_eq!(rating.group == "TP", rating.query_clip == rating.candidate_clip);
        }
        let of_group = |group| ratings.iter().filter(|rating| rating.group == group).count();
        assert_eq!(
            (of_group("C15"), of_group("TP"), of_group("TN")),
            (3000, 200, 200),
            "{split}"
        );
    }
}

#[test]
fn a_table_without_captions_says_what_it_has() {
    let path = data("esc10/esc10.csv");
    match CaptionSet::read(&path, &Format::Auto).unwrap_err() {
        Error::UnknownColumns { found, .. } => {
            assert_eq!(found, ["file_name", "category", "fold", "source_id", "take"]);
        }
        other => panic!("{other}"),
    }
    let format = Format::Table {
        captions: vec!["category".into()],
        id: Some("file_name".into()),
    };
    let set = CaptionSet::read(&path, &format).unwrap();
    assert_eq!((set.clips.len(), set.captions.len()), (240, 240));
}

#[test]
fn a_recording_is_no_caption_file() {
    let path = data("esc10/1-100032-A-0.flac");
    let error = CaptionSet::read(&path, &Format::Auto).unwrap_err();
    assert!(matches!(error, Error::Binary { line: 1, .. }), "{error}");
}
