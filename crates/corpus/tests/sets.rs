//! Datasets in miniature, in the layouts in which they come, with everything that is wrong with real ones.

#![allow(unreachable_pub, reason = "modules that test binaries share")]

mod wav;

use std::ops::ControlFlow;
use std::path::Path;

use hark_corpus::{
    Check, Dataset, DatasetConfig, Error, Exclusion, Reason, SkippedCounts, TextStats, WavcapsSource,
};
use wav::{put, wav};

fn sound() -> Vec<u8> {
    wav(8_000, 800, 1)
}

fn load(set: &DatasetConfig, check: Check) -> Result<Dataset, Error> {
    set.load(check, 2, &hark_work::progress::no_progress)
}

fn here(set: &DatasetConfig) -> Dataset {
    load(set, Check::Presence).unwrap()
}

fn ids(data: &Dataset) -> Vec<&str> {
    data.clips.iter().map(|clip| clip.id.as_str()).collect()
}

/// Id of the clip and caption of every pair.
fn pairs(data: &Dataset) -> Vec<(&str, &str)> {
    data.pairs
        .iter()
        .map(|pair| (data.clips[pair.clip].id.as_str(), pair.caption.as_str()))
        .collect()
}

/// Where a clip's file lies, from `root`.
fn place(data: &Dataset, root: &Path, id: &str) -> String {
    let clip = data.clips.iter().find(|clip| clip.id == id).unwrap();
    let below = clip.path.strip_prefix(root).unwrap();
    below.to_str().unwrap().to_owned()
}

fn left_out(data: &Dataset) -> Vec<(&str, &Reason, usize)> {
    data.left_out
        .iter()
        .map(|left| (left.id.as_str(), &left.reason, left.captions))
        .collect()
}

fn clotho(root: &Path, split: &str) -> DatasetConfig {
    DatasetConfig::Clotho {
        root: root.to_owned(),
        split: split.to_owned(),
    }
}

fn audiocaps(root: &Path, split: &str) -> DatasetConfig {
    DatasetConfig::Audiocaps {
        root: root.to_owned(),
        split: split.to_owned(),
        audio: None,
    }
}

fn wavcaps(root: &Path, exclude: Option<Exclusion>) -> DatasetConfig {
    DatasetConfig::Wavcaps {
        root: root.to_owned(),
        sources: Vec::new(),
        exclude,
        exclude_audioset: None,
    }
}

fn table(file: &Path) -> DatasetConfig {
    DatasetConfig::Table {
        file: file.to_owned(),
        audio_folder: None,
        path_column: None,
        caption_columns: Vec::new(),
    }
}

#[test]
fn clotho_in_each_of_its_folders() {
    for audio in [
        "development",
        "audio/development",
        "clotho_audio_development",
        "clotho_audio_development/development",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        put(
            &root.join("clotho_captions_development.csv"),
            "file_name,caption_1,caption_2\nrain.wav,Rain falls,Water drips\n dog.wav,A dog barks,Barking\ngone.wav,x,y\n",
        );
        put(&root.join(audio).join("rain.WAV"), sound());
        put(&root.join(audio).join(" dog.wav"), sound());
        put(&root.join(audio).join("unused.wav"), sound());
        let set = clotho(root, "development");
        let data = here(&set);
        assert_eq!(data.name, "clotho-development");
        assert_eq!(
            pairs(&data),
            [
                ("rain.wav", "Rain falls"),
                ("rain.wav", "Water drips"),
                (" dog.wav", "A dog barks"),
                (" dog.wav", "Barking")
            ],
            "{audio}"
        );
        assert_eq!(place(&data, root, "rain.wav"), format!("{audio}/rain.WAV"));
        assert_eq!(left_out(&data), [("gone.wav", &Reason::Missing, 2)]);
        assert_eq!(
            data.left_out[0].path.as_deref(),
            Some(&*root.join("development/gone.wav"))
        );
        assert_eq!(
            data.captions_of(1).collect::<Vec<_>>(),
            ["A dog barks", "Barking"]
        );
        assert_eq!(data.captions_by_clip(), [[0, 1], [2, 3]]);

        let report = set.completeness().unwrap();
        assert_eq!(
            (report.expected, report.found, report.extra, report.captions),
            (3, 2, 1, 6)
        );
        assert!(!report.is_complete());
        assert_eq!(report.missing, data.left_out);
        assert!(report.extra_examples[0].ends_with("unused.wav"));
        assert!(
            report.advice[0].starts_with("missing: 1 of 3 recordings; the first is ")
                && report.advice[0].ends_with("gone.wav"),
            "{:?}",
            report.advice
        );
    }
}

#[test]
fn clotho_names_that_lost_their_blank_or_changed_their_format() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    put(
        &root.join("clotho_captions_validation.csv"),
        "file_name,caption_1\n porto.wav,a\nroom.2.wav,b\n\"x, y.wav\",c\n",
    );
    for name in ["porto.flac", "room.2.Ogg", "x, y.wav"] {
        put(&root.join("validation").join(name), sound());
    }
    let data = here(&clotho(root, "validation"));
    assert_eq!(ids(&data), [" porto.wav", "room.2.wav", "x, y.wav"]);
    assert_eq!(place(&data, root, " porto.wav"), "validation/porto.flac");
    assert_eq!(place(&data, root, "room.2.wav"), "validation/room.2.Ogg");
    assert!(clotho(root, "validation").completeness().unwrap().is_complete());
}

#[test]
fn audiocaps_in_all_its_ways_of_naming() {
    let names = ["aB-1_x.wav", "101.m4a", "YcD_2y.FLAC", "-eF3z_30.opus", "204.mp3"];
    for audio in ["audio/test", "test", "audio", ""] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        put(
            &root.join("test.csv"),
            "audiocap_id,youtube_id,start_time,caption\n\
             100,aB-1_x,10,One\n101,bBBB,0,Two\n102,cD_2y,20,Three\n103,-eF3z,30,Four\n\
             104,aB-1_x,10,Five\n204,five,5,Six\n105,five,5,Seven\n106,Ab-1_x,10,Eight\n",
        );
        for name in names {
            put(&root.join(audio).join(name), sound());
        }
        let data = here(&audiocaps(root, "test"));
        assert_eq!(
            ids(&data),
            ["aB-1_x_10", "bBBB_0", "cD_2y_20", "-eF3z_30", "five_5"],
            "{audio:?}"
        );
        for (clip, name) in data.clips.iter().zip(names) {
            assert_eq!(clip.path, root.join(audio).join(name), "{audio:?}");
        }
        // In the order of the file, although the rows of a clip stand apart.
        let captions: Vec<&str> = data.pairs.iter().map(|pair| pair.caption.as_str()).collect();
        assert_eq!(captions, ["One", "Two", "Three", "Four", "Five", "Six", "Seven"]);
        // An id that differs by the case of its letters is another video.
        assert_eq!(left_out(&data), [("Ab-1_x_10", &Reason::Missing, 1)]);
        let advice = audiocaps(root, "test").completeness().unwrap().advice;
        assert!(
            advice.iter().any(|line| line.contains("training works without")),
            "{advice:?}"
        );
    }
}

#[test]
fn audiocaps_in_a_named_folder_and_without_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let [root, audio] = ["captions", "sounds"].map(|name| folder.path().join(name));
    put(
        &root.join("val.csv"),
        "youtube_id,start_time,caption\nabc,10,One\n",
    );
    put(&audio.join("val/abc.wav"), sound());
    let set = |audio: &Path| DatasetConfig::Audiocaps {
        root: root.clone(),
        split: "val".into(),
        audio: Some(audio.to_owned()),
    };
    assert_eq!(ids(&here(&set(&audio))), ["abc_10"]);
    assert_eq!(ids(&here(&set(&audio.join("val")))), ["abc_10"]);
    let error = load(&set(&audio.join("none")), Check::Presence).unwrap_err();
    assert!(matches!(error, Error::NoSetFolder { .. }), "{error}");
}

fn json(entries: &[(&str, &str)]) -> String {
    let entries: Vec<String> = entries
        .iter()
        .map(|(id, caption)| format!(r#"{{"id": "{id}", "caption": "{caption}", "duration": 1.5}}"#))
        .collect();
    format!(
        r#"{{"num_captions_per_audio": 1, "data": [{}]}}"#,
        entries.join(",")
    )
}

/// All four sources, with the recordings that are always left out, each of which is there.
fn wavcaps_folder(root: &Path) {
    let captions = root.join("json_files");
    let audioset = [
        ("Yabc.wav", "A"),
        ("Y06-g5jz-OGc.wav", "B"),
        ("Y3sSblRfEG2o.wav", "C"),
        ("YFli8wjBFV2M.wav", "D"),
        ("YVcu0pVF1npM.wav", "E"),
        ("YWudGD6ZHRoY.wav", "F"),
        ("YmW3S0u8bj58.wav", "G"),
    ];
    let freesound = [("7", "H"), ("592228", "I"), ("12", "J"), ("99", "K")];
    put(&captions.join("AudioSet_SL/as_final.json"), json(&audioset));
    put(
        &captions.join("BBC_Sound_Effects/bbc_final.json"),
        json(&[("NHU0501", "L")]),
    );
    put(&captions.join("FreeSound/fsd_final.json"), json(&freesound));
    put(
        &captions.join("FreeSound/fsd_final_2s.json"),
        json(&[("7", "not read")]),
    );
    put(
        &captions.join("SoundBible/other.json"),
        json(&[("7", "M"), ("592228", "N")]),
    );
    for (id, _) in audioset {
        put(
            &root.join("audio/AudioSet_SL").join(id.replace("wav", "flac")),
            sound(),
        );
    }
    for (id, _) in freesound {
        put(&root.join("audio/FreeSound").join(format!("{id}.flac")), sound());
    }
    put(
        &root.join("audio/BBC_Sound_Effects/deep/within/NHU0501.flac"),
        sound(),
    );
    put(&root.join("audio/SoundBible/7.flac"), sound());
    put(&root.join("audio/SoundBible/592228.flac"), sound());
}

#[test]
fn wavcaps_and_its_fixed_exclusions() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    wavcaps_folder(root);
    let data = here(&wavcaps(root, None));
    assert_eq!(
        pairs(&data),
        [
            ("AudioSet_SL/Yabc.wav", "A"),
            ("BBC_Sound_Effects/NHU0501", "L"),
            ("FreeSound/7", "H"),
            ("FreeSound/12", "J"),
            ("FreeSound/99", "K"),
            ("SoundBible/7", "M"),
            ("SoundBible/592228", "N"),
        ]
    );
    let counts = SkippedCounts {
        excluded: 7,
        ..SkippedCounts::default()
    };
    assert_eq!(data.left_out_counts(), counts);
    let report = wavcaps(root, None).completeness().unwrap();
    assert!(report.is_complete() && report.advice.is_empty());
    assert_eq!((report.expected, report.excluded, report.extra), (7, 7, 7));

    let one = DatasetConfig::Wavcaps {
        root: root.to_owned(),
        sources: vec![WavcapsSource::SoundBible],
        exclude: None,
        exclude_audioset: None,
    };
    assert_eq!(ids(&here(&one)), ["SoundBible/7", "SoundBible/592228"]);
}

#[test]
fn wavcaps_without_clotho_in_both_ways() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    wavcaps_folder(root);
    let list = folder.path().join("overlap.csv");
    put(&list, "id\n7\n99\n");
    // Clotho's own bytes: the e with an accent is one byte.
    let clotho = folder.path().join("clotho");
    put(
        &clotho.join("clotho_metadata_development.csv"),
        b"file_name,keywords,sound_id,manufacturer\na.wav,caf\xe9,7,Jos\xe9\nb.wav,x,Not found,y\n",
    );
    put(
        &clotho.join("clotho_metadata_validation.csv"),
        "file_name,keywords,sound_id,manufacturer\na.wav,x,99,y\n",
    );
    for exclusion in [Exclusion::List(list), Exclusion::Clotho(clotho)] {
        let data = here(&wavcaps(root, Some(exclusion.clone())));
        // SoundBible's recording of the same number stays.
        assert_eq!(
            ids(&data)[2..],
            ["FreeSound/12", "SoundBible/7", "SoundBible/592228"],
            "{exclusion:?}"
        );
        let excluded = data
            .left_out
            .iter()
            .filter(|left| left.reason == Reason::Excluded);
        assert_eq!(excluded.count(), 9);
    }
    let exclusion = Exclusion::Clotho(folder.path().join("clotho"));
    let advice = wavcaps(root, Some(exclusion)).completeness().unwrap().advice;
    assert!(
        advice[0].starts_with("1 of Clotho's recordings have no FreeSound id"),
        "{advice:?}"
    );
    let error = load(
        &wavcaps(root, Some(Exclusion::List(root.join("none.csv")))),
        Check::Presence,
    )
    .unwrap_err();
    assert!(matches!(error, Error::Open(_)), "{error}");
}

#[test]
fn wavcaps_without_clips_that_audiocaps_tests_on() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    put(
        &root.join("as_final.json"),
        json(&[
            ("Yabcdefghij0.wav", "A"),
            ("Y-bcdefghij1.wav", "B"),
            ("Yabcdefghij2.wav", "C"),
        ]),
    );
    for name in ["Yabcdefghij0", "Y-bcdefghij1", "Yabcdefghij2"] {
        put(&root.join(format!("AudioSet_SL/{name}.flac")), sound());
    }
    for list in [
        "audiocap_id,youtube_id,start_time,caption\n1,abcdefghij0,3,x\n2,-bcdefghij1,0,y\n",
        "Yabcdefghij0.wav\nY-bcdefghij1.wav\n",
    ] {
        put(&root.join("list.csv"), list);
        let set = DatasetConfig::Wavcaps {
            root: root.to_owned(),
            sources: Vec::new(),
            exclude: None,
            exclude_audioset: Some(root.join("list.csv")),
        };
        assert_eq!(ids(&here(&set)), ["AudioSet_SL/Yabcdefghij2.wav"], "{list}");
    }
}

#[test]
fn wavcaps_of_which_sources_are_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    put(&root.join("sb_final.json"), json(&[("1", "A")]));
    put(&root.join("SoundBible/1.wav"), sound());
    assert_eq!(ids(&here(&wavcaps(root, None))), ["SoundBible/1"]);
    let advice = wavcaps(root, None).completeness().unwrap().advice;
    assert_eq!(advice.len(), 3);
    assert!(
        advice[0].starts_with("no captions of AudioSet_SL: "),
        "{advice:?}"
    );
    let named = DatasetConfig::Wavcaps {
        root: root.to_owned(),
        sources: vec![WavcapsSource::Bbc],
        exclude: None,
        exclude_audioset: None,
    };
    let error = load(&named, Check::Presence).unwrap_err();
    assert!(
        matches!(&error, Error::NoCaptionFile { path, .. } if path.ends_with("bbc_final.json")),
        "{error}"
    );
}

#[test]
fn tables_of_ones_own() {
    for (name, text) in [
        (
            "a.csv",
            "path,caption\nsounds/a.wav,One\nb,Two\nsounds/a.wav,Three\n",
        ),
        (
            "a.tsv",
            "caption\tFile\nOne\tsounds/a.wav\nTwo\tb\nThree\tsounds/a.wav\n",
        ),
        (
            "a.csv",
            "file_name,id,caption_1\nsounds/a.wav,1,One\nb,2,Two\nsounds/a.wav,3,Three\n",
        ),
        (
            "a.jsonl",
            "{\"audio\": \"sounds/a.wav\", \"captions\": [\"One\"]}\n\n{\"audio\": \"b\", \"captions\": \"Two\"}\n\
             {\"audio\": \"sounds/a.wav\", \"captions\": \"Three\"}\n",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        put(&root.join(name), text);
        put(&root.join("sounds/a.wav"), sound());
        put(&root.join("b.Flac"), sound());
        let data = here(&table(&root.join(name)));
        let expected = [("sounds/a.wav", "One"), ("b", "Two"), ("sounds/a.wav", "Three")];
        assert_eq!(pairs(&data), expected, "{text}");
        assert_eq!((data.name.as_str(), data.clips.len()), ("a", 2));
        assert_eq!(place(&data, root, "b"), "b.Flac");
    }
}

#[test]
fn tables_with_named_columns_and_folder_and_captions_in_several_columns() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let absolute = root.join("elsewhere/c.wav");
    put(
        &root.join("t/list.csv"),
        format!(
            "wo,was,noch\na.wav,One,Two\n{},Three,Four\nno.wav,Five,Six\n",
            absolute.display()
        ),
    );
    put(&root.join("sounds/a.wav"), sound());
    put(&root.join("sounds/unnamed.wav"), sound());
    put(&absolute, sound());
    let set = DatasetConfig::Table {
        file: root.join("t/list.csv"),
        audio_folder: Some(root.join("sounds")),
        path_column: Some("wo".into()),
        caption_columns: vec!["was".into(), "noch".into()],
    };
    let data = here(&set);
    let captions: Vec<&str> = data.pairs.iter().map(|pair| pair.caption.as_str()).collect();
    assert_eq!(captions, ["One", "Two", "Three", "Four"]);
    assert_eq!(data.clips[1].path, absolute);
    assert_eq!(data.left_out[0].captions, 2);
    assert_eq!(set.completeness().unwrap().extra, 1);

    for (text, column) in [("x,caption\na,b\n", "path"), ("path,x\na,b\n", "caption")] {
        put(&root.join("bad.csv"), text);
        let error = load(&table(&root.join("bad.csv")), Check::Presence).unwrap_err();
        assert!(
            matches!(&error, Error::MissingColumn { column: c, .. } if c == column),
            "{error}"
        );
    }
}

#[test]
fn folders_of_recordings_with_texts_beside_them() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    put(&root.join("rain.txt"), "Rain falls\n\n  Water drips  \n");
    put(&root.join("rain.flac"), sound());
    put(&root.join("deep/er/dog.TXT"), "A dog barks\r\n");
    put(&root.join("deep/er/dog.WAV"), sound());
    put(&root.join("deep/rain.wav"), sound());
    put(&root.join("deep/rain.wav.txt"), "Named with its extension");
    put(&root.join("blank.txt"), "\n \n");
    put(&root.join("blank.wav"), sound());
    put(&root.join("alone.txt"), "No sound\nat all\n");
    let set = DatasetConfig::Folder {
        root: root.to_owned(),
    };
    let data = here(&set);
    assert_eq!(
        pairs(&data),
        [
            ("rain", "Rain falls"),
            ("rain", "Water drips"),
            ("deep/rain.wav", "Named with its extension"),
            ("deep/er/dog", "A dog barks"),
        ]
    );
    assert_eq!(left_out(&data), [("alone", &Reason::Missing, 2)]);
    let report = set.completeness().unwrap();
    assert_eq!((report.expected, report.found, report.extra), (4, 3, 1));
    assert!(report.extra_examples[0].ends_with("blank.wav"));
}

#[test]
fn broken_recordings_are_named_as_thoroughly_as_asked() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for name in ["a", "b", "c", "d", "e"] {
        put(&root.join(format!("{name}.txt")), "caption\nanother\n");
    }
    put(&root.join("a.wav"), sound());
    put(&root.join("b.wav"), "no sound at all");
    put(&root.join("c.wav"), &sound()[..900]);
    fs_err::create_dir(root.join("d.wav")).unwrap();
    put(&root.join("e.wav"), wav(8_000, 0, 1));
    let set = DatasetConfig::Folder {
        root: root.to_owned(),
    };
    for (check, left, broken) in [
        (Check::Presence, &["a", "b", "c", "e"][..], &[][..]),
        (Check::Opens, &["a", "c"], &["b", "e"]),
        (Check::Decodes, &["a"], &["b", "c", "e"]),
    ] {
        let data = load(&set, check).unwrap();
        assert_eq!(ids(&data), left, "{check:?}");
        assert_eq!(data.pairs.len(), 2 * left.len());
        let named: Vec<&str> = data
            .left_out
            .iter()
            .filter(|left| matches!(&left.reason, Reason::Broken(what) if !what.is_empty()))
            .map(|left| left.id.as_str())
            .collect();
        assert_eq!(named, broken, "{check:?}");
        // A folder is no recording, whatever its name.
        assert_eq!(data.left_out_counts().missing, 1);
        assert!(
            data.left_out
                .iter()
                .all(|left| left.captions == 2 && left.path.is_some())
        );
    }
    let stopped = set.load(Check::Decodes, 2, &|_, _| ControlFlow::Break(()));
    assert!(matches!(stopped, Err(Error::Cancelled)));
}

#[test]
fn merged_sets_have_ids_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for split in ["development", "validation"] {
        put(
            &root.join(format!("clotho_captions_{split}.csv")),
            format!("file_name,caption_1\na.wav,{split}\nb.wav,gone\n"),
        );
        put(&root.join(split).join("a.wav"), sound());
    }
    put(&root.join("mine/a.txt"), "mine");
    put(&root.join("mine/a.wav"), sound());
    let mine = DatasetConfig::Folder {
        root: root.join("mine"),
    };
    let sets = [
        clotho(root, "development"),
        clotho(root, "validation"),
        mine.clone(),
        mine,
    ];
    let go_on = |_, _| ControlFlow::Continue(());
    let data = Dataset::load_all(&sets, Check::Opens, 1, &go_on).unwrap();
    assert_eq!(
        pairs(&data),
        [
            ("clotho-development:a.wav", "development"),
            ("clotho-validation:a.wav", "validation"),
            ("mine:a", "mine"),
            ("mine#2:a", "mine"),
        ]
    );
    assert_eq!(
        data.clips.iter().map(|clip| clip.set).collect::<Vec<_>>(),
        [0, 1, 2, 3]
    );
    assert_eq!(data.name, "clotho-development+clotho-validation+mine+mine#2");
    assert_eq!(data.left_out[1].id, "clotho-validation:b.wav");

    let alone = Dataset::load_all(&sets[..1], Check::Opens, 1, &go_on).unwrap();
    assert_eq!(ids(&alone), ["a.wav"]);
    assert!(matches!(
        Dataset::load_all(&[], Check::Opens, 1, &go_on),
        Err(Error::NoSets)
    ));
}

#[test]
fn sets_without_anything_left_say_where_they_looked() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    put(
        &root.join("clotho_captions_evaluation.csv"),
        "file_name,caption_1\na.wav,One\nb.wav,Two\n",
    );
    let error = load(&clotho(root, "evaluation"), Check::Presence).unwrap_err();
    let message = error.to_string();
    assert!(
        message.starts_with("clotho-evaluation: no usable recordings: 2 missing, 0 broken, 0 excluded"),
        "{message}"
    );
    assert!(
        message.contains("looked in") && message.ends_with("a.wav"),
        "{message}"
    );

    let advice = clotho(root, "evaluation").completeness().unwrap().advice;
    assert!(
        advice[1].starts_with("no audio found; put it into "),
        "{advice:?}"
    );
    put(&root.join("downloads/x/b.wav"), sound());
    let advice = clotho(root, "evaluation").completeness().unwrap().advice;
    assert!(
        advice[1].starts_with("found 1 of the missing recordings in "),
        "{advice:?}"
    );
    fs_err::rename(root.join("downloads/x/b.wav"), root.join("downloads/x/other.wav")).unwrap();
    let advice = clotho(root, "evaluation").completeness().unwrap().advice;
    assert!(
        advice[1].contains("such as other.wav, but the captions name a.wav"),
        "{advice:?}"
    );

    // AudioCaps' recordings have several names elsewhere too.
    put(
        &root.join("val.csv"),
        "youtube_id,start_time,caption\na_b,10,One\n",
    );
    put(&root.join("downloads/x/Ya_b.wav"), sound());
    let advice = audiocaps(root, "val").completeness().unwrap().advice;
    assert!(
        advice[1].starts_with("found 1 of the missing recordings in "),
        "{advice:?}"
    );

    put(&root.join("empty.csv"), "path,caption\n");
    let error = load(&table(&root.join("empty.csv")), Check::Presence).unwrap_err();
    assert!(matches!(error, Error::NoCaptions { .. }), "{error}");
    let empty = root.join("empty");
    fs_err::create_dir(&empty).unwrap();
    let error = load(&DatasetConfig::Folder { root: empty.clone() }, Check::Presence).unwrap_err();
    assert!(matches!(error, Error::NoCaptions { .. }), "{error}");
    let report = DatasetConfig::Folder { root: empty }.completeness().unwrap();
    assert!(!report.is_complete() && report.advice.len() == 1);
}

#[test]
fn folders_and_caption_files_that_are_not_there_or_of_another_kind() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let none = root.join("none");
    for set in [
        clotho(&none, "development"),
        audiocaps(&none, "train"),
        wavcaps(&none, None),
        DatasetConfig::Folder { root: none.clone() },
    ] {
        let error = load(&set, Check::Presence).unwrap_err();
        assert!(matches!(error, Error::NoSetFolder { .. }), "{error}");
        let report = set.completeness().unwrap();
        assert_eq!((report.expected, report.advice), (0, vec![error.to_string()]));
    }
    put(
        &root.join("clotho_captions_development.csv"),
        "audiocap_id,youtube_id,start_time,caption\n1,a,0,x\n",
    );
    put(&root.join("train.csv"), "file_name,caption_1\na.wav,x\n");
    put(&root.join("sb_final.json"), "[1, 2]");
    for set in [
        clotho(root, "development"),
        audiocaps(root, "train"),
        wavcaps(root, None),
    ] {
        let error = load(&set, Check::Presence).unwrap_err();
        assert!(
            matches!(error, Error::MissingColumn { .. } | Error::Json { .. }),
            "{error}"
        );
        assert!(set.completeness().is_err());
    }
    let set = clotho(root, "validation");
    let error = load(&set, Check::Presence).unwrap_err().to_string();
    assert!(
        error.contains("clotho_captions_development.csv") && error.contains("no such file"),
        "{error}"
    );
    let advice = set.completeness().unwrap().advice;
    assert!(
        advice[0].starts_with("no clotho_captions_validation.csv in ")
            && advice[0].contains("; put it there. "),
        "{advice:?}"
    );
    let error = load(&table(&none), Check::Presence).unwrap_err();
    assert!(matches!(error, Error::Open(_)), "{error}");
    put(&root.join("latin.txt"), b"caf\xe9\n");
    let error = load(
        &DatasetConfig::Folder {
            root: root.to_owned(),
        },
        Check::Presence,
    )
    .unwrap_err();
    assert!(matches!(error, Error::InvalidUtf8 { .. }), "{error}");
}

#[test]
fn numbers_of_text_and_audio() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    put(&root.join("a.txt"), "Rain falls\nRain falls hard on tin\n");
    put(&root.join("b.txt"), "Rain falls\n");
    put(&root.join("c.txt"), "A broken one\n");
    put(&root.join("a.wav"), wav(8_000, 16_000, 1));
    put(&root.join("b.wav"), wav(16_000, 16_000, 1));
    put(&root.join("c.wav"), "nothing");
    let data = here(&DatasetConfig::Folder {
        root: root.to_owned(),
    });
    let TextStats {
        clips,
        pairs,
        vocabulary,
        repeated,
        shared_between_clips,
        ..
    } = data.text_stats();
    assert_eq!(
        (clips, pairs, vocabulary, repeated, shared_between_clips),
        (3, 4, 8, 1, 1)
    );
    let stats = data.audio_stats(2, &hark_work::progress::no_progress).unwrap();
    assert_eq!(
        (stats.seconds.min, stats.seconds.max, stats.seconds.median),
        (1.0, 2.0, 1.5)
    );
    assert!((stats.hours - 3.0 / 3600.0).abs() < 1e-12);
    assert_eq!(stats.rates, [(8_000, 1), (16_000, 1)].into());
    assert_eq!(stats.channels, [(1, 2)].into());
    assert_eq!(stats.formats, [("wav (pcm 16-bit)".to_owned(), 2)].into());
    assert_eq!(stats.unreadable.len(), 1);
    assert_eq!(
        (stats.unreadable[0].id.as_str(), stats.unreadable[0].captions),
        ("c", 1)
    );
}

#[test]
fn configurations_are_written_as_documented() {
    for (text, expected) in [
        (
            r#"{"kind": "clotho", "root": "c", "split": "development"}"#,
            clotho(Path::new("c"), "development"),
        ),
        (
            r#"{"kind": "audiocaps", "root": "a", "split": "train"}"#,
            audiocaps(Path::new("a"), "train"),
        ),
        (
            r#"{"kind": "wavcaps", "root": "w", "exclude": {"clotho": "c"}}"#,
            wavcaps(Path::new("w"), Some(Exclusion::Clotho("c".into()))),
        ),
        (
            r#"{"kind": "wavcaps", "root": "w", "exclude": {"list": "l.csv"}, "sources": []}"#,
            wavcaps(Path::new("w"), Some(Exclusion::List("l.csv".into()))),
        ),
        (
            r#"{"kind": "table", "file": "t.csv", "caption-columns": []}"#,
            table(Path::new("t.csv")),
        ),
    ] {
        let set: DatasetConfig = serde_json::from_str(text).unwrap();
        assert_eq!(set, expected);
        let again = serde_json::to_string(&set).unwrap();
        assert_eq!(
            serde_json::from_str::<DatasetConfig>(&again).unwrap(),
            expected,
            "{again}"
        );
    }
    let sources: DatasetConfig =
        serde_json::from_str(r#"{"kind": "wavcaps", "root": "w", "sources": ["AudioSet_SL", "FreeSound"]}"#)
            .unwrap();
    assert!(matches!(sources, DatasetConfig::Wavcaps { sources, .. }
        if sources == [WavcapsSource::AudioSet, WavcapsSource::FreeSound]));
    for text in [
        r#"{"kind": "clotho", "root": "c"}"#,
        r#"{"kind": "clotho", "root": "c", "split": "x", "splitt": "y"}"#,
        r#"{"kind": "other", "root": "c"}"#,
    ] {
        assert!(serde_json::from_str::<DatasetConfig>(text).is_err(), "{text}");
    }
}

#[cfg(unix)]
#[test]
fn a_recording_that_may_not_be_read_is_broken() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for name in ["a", "b"] {
        put(&root.join(format!("{name}.txt")), "caption");
        put(&root.join(format!("{name}.wav")), sound());
    }
    fs_err::set_permissions(root.join("b.wav"), std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::read(root.join("b.wav")).is_ok() {
        // Root is above permissions. Without that power, this test runs again, once, in a process of its own.
        assert!(
            std::env::var_os("HARK_TEST_AGAIN").is_none(),
            "still above permissions"
        );
        let again = std::process::Command::new("setpriv")
            .arg("--bounding-set=-dac_override,-dac_read_search")
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "a_recording_that_may_not_be_read_is_broken"])
            .env("HARK_TEST_AGAIN", "1")
            .output()
            .expect("run as root, this needs setpriv (util-linux)");
        let said = String::from_utf8_lossy(&again.stdout);
        assert!(again.status.success() && said.contains("1 passed"), "{again:?}");
        return;
    }
    let data = load(
        &DatasetConfig::Folder {
            root: root.to_owned(),
        },
        Check::Opens,
    )
    .unwrap();
    assert_eq!(ids(&data), ["a"]);
    assert!(matches!(data.left_out[0].reason, Reason::Broken(_)));
}
