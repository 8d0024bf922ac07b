//! `hark data`: miniature sets of every kind, whole and with gaps, and soundscapes of one second.

use std::path::Path;

use serde_json::Value;

use crate::place::{Place, model, text, wav};

fn saw_tooth(rate: u32, samples: u32) -> Vec<u8> {
    let samples: Vec<i16> = (0..samples).map(|nth| nth.wrapping_mul(331) as i16).collect();
    wav(rate, &samples)
}

impl Place {
    /// Writes a file and the folders above it.
    fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, content).unwrap();
    }

    /// Stdout of a check that finds something wrong, and what it says on stderr.
    fn finds_fault(&self, args: &[&str]) -> (String, String) {
        let output = self.run(args);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {message}");
        assert!(
            message.starts_with("hark: ") && !message.contains("panicked"),
            "{message}"
        );
        (text(&output.stdout), message)
    }

    /// Stderr of a run that must be refused as wrong usage.
    pub(crate) fn misused(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
        text(&output.stderr)
    }
}

/// All three splits, each of two clips with two captions; one text stands with two clips.
fn clotho(place: &Place) {
    let splits = [
        ("development", "a", "b"),
        ("validation", "c", "d"),
        ("evaluation", "e", "f"),
    ];
    for (split, first, second) in splits {
        place.put(
            &format!("clotho/clotho_captions_{split}.csv"),
            format!(
                "file_name,caption_1,caption_2\n\
                 {first}.wav,Rain falls on a roof.,Water drips\n\
                 {second}.wav,A dog barks twice,Water drips\n"
            ),
        );
        place.put(&format!("clotho/{split}/{first}.wav"), saw_tooth(8000, 8000));
        place.put(&format!("clotho/{split}/{second}.wav"), saw_tooth(16_000, 8000));
    }
}

fn audiocaps(place: &Place) {
    place.put(
        "audiocaps/val.csv",
        "audiocap_id,youtube_id,start_time,caption\n\
         1,aaaaaaaaaaa,30,A man speaks\n\
         2,aaaaaaaaaaa,30,Someone talks\n\
         3,bbbbbbbbbbb,0,Birds sing\n",
    );
    place.put("audiocaps/audio/val/Yaaaaaaaaaaa.wav", saw_tooth(8000, 800));
}

fn wavcaps(place: &Place) {
    let entry = |id: u32| format!(r#"{{"id": "{id}", "caption": "Sound number {id}", "duration": 1.0}}"#);
    let data = [entry(11), entry(12), entry(13)].join(",");
    place.put(
        "wavcaps/json_files/FreeSound/fsd_final.json",
        format!(r#"{{"num_captions_per_audio": 1, "data": [{data}]}}"#),
    );
    for id in [11, 12, 13] {
        place.put(&format!("wavcaps/audio/FreeSound/{id}.wav"), saw_tooth(8000, 800));
    }
}

#[test]
fn a_whole_clotho_is_complete() {
    let place = Place::new();
    clotho(&place);
    insta::assert_snapshot!("check-complete", place.ok(&["data", "check", "clotho", "clotho"]));
    let found = place.json(&["data", "check", "clotho", "clotho", "--decode", "--json"]);
    assert_eq!(
        (&found["complete"], &found["check"]),
        (&true.into(), &"decodes".into())
    );
    let names: Vec<&Value> = found["sets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|set| &set["name"])
        .collect();
    assert_eq!(
        names,
        ["clotho-development", "clotho-validation", "clotho-evaluation"]
    );
}

#[test]
fn gaps_are_named_listed_and_told_by_the_exit_code() {
    let place = Place::new();
    clotho(&place);
    let whole = fs_err::read(place.path("clotho/development/b.wav")).unwrap();
    place.put("clotho/development/b.wav", "no sound at all");
    place.put("clotho/development/extra.wav", &whole);
    fs_err::remove_file(place.path("clotho/validation/c.wav")).unwrap();
    fs_err::rename(
        place.path("clotho/evaluation"),
        place.path("clotho/somewhere else"),
    )
    .unwrap();
    let args = ["data", "check", "clotho", "clotho", "--missing", "missing.txt"];
    let (report, message) = place.finds_fault(&args);
    insta::assert_snapshot!("check-gaps", report);
    assert_eq!(message, "hark: 3 of 3 datasets are not complete\n");
    let listed = fs_err::read_to_string(place.path("missing.txt")).unwrap();
    assert_eq!(
        listed,
        "clotho/validation/c.wav\nclotho/evaluation/e.wav\nclotho/evaluation/f.wav\n"
    );

    let (json, _) = place.finds_fault(&[&args[..4], &["--split", "development", "--json"]].concat());
    insta::assert_snapshot!("check-gaps-json", json);
}

#[test]
fn a_recording_that_breaks_off_is_found_by_decoding_it() {
    let place = Place::new();
    clotho(&place);
    let mut cut = saw_tooth(8000, 8000);
    cut.truncate(4000);
    place.put("clotho/development/a.wav", cut);
    let args = ["data", "check", "clotho", "clotho", "--split", "development"];
    place.ok(&args);
    let (report, message) = place.finds_fault(&[&args[..], &["--decode"]].concat());
    assert!(
        report.contains("  broken                      1 (a.wav)"),
        "{report}"
    );
    assert_eq!(message, "hark: clotho-development is not complete\n");
}

#[test]
fn a_set_of_broken_recordings_names_them_all() {
    let place = Place::new();
    clotho(&place);
    for name in ["a", "b"] {
        place.put(&format!("clotho/development/{name}.wav"), "silence");
    }
    let (report, _) = place.finds_fault(&["data", "check", "clotho", "clotho", "--split", "development"]);
    assert!(
        report.contains("  broken                      2 (a.wav, b.wav)"),
        "{report}"
    );
}

#[test]
fn every_kind_is_checked_in_its_own_layout() {
    let place = Place::new();
    audiocaps(&place);
    let args = ["data", "check", "audiocaps", "audiocaps", "--split", "val"];
    let (incomplete, _) = place.finds_fault(&args);
    place.put("elsewhere/bbbbbbbbbbb_0.wav", saw_tooth(8000, 800));
    place.put("elsewhere/aaaaaaaaaaa.wav", saw_tooth(8000, 800));
    let complete = place.ok(&[&args[..], &["--audio", "elsewhere"]].concat());
    insta::assert_snapshot!("check-audiocaps", format!("{incomplete}\n{complete}"));

    wavcaps(&place);
    place.put("exclude.csv", "id\n12\n");
    place.put(
        "clotho_metadata_development.csv",
        "file_name,sound_id\nx.wav,13\n",
    );
    let all = place.ok(&["data", "check", "wavcaps", "wavcaps"]);
    let listed = place.ok(&[
        "data",
        "check",
        "wavcaps",
        "wavcaps",
        "--source",
        "freesound",
        "--exclude",
        "exclude.csv",
    ]);
    insta::assert_snapshot!("check-wavcaps", format!("{all}\n{listed}"));
    let without_clotho = place.json(&[
        "data",
        "check",
        "wavcaps",
        "wavcaps",
        "--exclude-clotho",
        ".",
        "--json",
    ]);
    assert_eq!(without_clotho["sets"][0]["excluded"], 1);

    place.put(
        "pairs.tsv",
        "sound\twords\tmore\nrain.wav\tRain\tIt rains\ndog.wav\tA dog\tBarks\n",
    );
    place.put("sounds/rain.wav", saw_tooth(8000, 800));
    place.put("sounds/dog.wav", saw_tooth(8000, 800));
    let table = [
        "data",
        "check",
        "table",
        "pairs.tsv",
        "--path-column",
        "sound",
        "--caption-column",
        "words",
        "--caption-column",
        "more",
    ];
    let (incomplete, _) = place.finds_fault(&table);
    let complete = place.ok(&[&table[..], &["--audio", "sounds"]].concat());
    insta::assert_snapshot!("check-table", format!("{incomplete}\n{complete}"));

    place.put("sounds/rain.txt", "Rain falls\nIt rains\n");
    let folder = ["data", "check", "folder", "sounds"];
    let complete = place.ok(&folder);
    place.put("sounds/wind.txt", "Wind blows\n");
    let (incomplete, _) = place.finds_fault(&folder);
    insta::assert_snapshot!("check-folder", format!("{complete}\n{incomplete}"));
}

#[test]
fn statistics_stand_side_by_side() {
    let place = Place::new();
    clotho(&place);
    fs_err::remove_file(place.path("clotho/validation/c.wav")).unwrap();
    fs_err::remove_file(place.path("clotho/clotho_captions_evaluation.csv")).unwrap();
    let model = model();
    let args = [
        "data", "stats", "clotho", "clotho", "--batch", "3", "--model", &model,
    ];
    let output = place.run(&args);
    let message = text(&output.stderr);
    assert!(
        output.status.success() && message.contains("clotho_captions_evaluation.csv"),
        "{message}"
    );
    let report = text(&output.stdout).replace(&model, "MODEL");
    insta::assert_snapshot!("stats", report);
    let without = ["--no-audio", "--no-similarity", "--split", "development"];
    insta::assert_snapshot!("stats-captions-only", place.ok(&[&args[..4], &without].concat()));
}

/// The same text with two clips has similarity 1, and is the only pair at that threshold: of the 4 captions, 2 have a
/// partner among the 3 others, and a batch of 3 draws 2 of those. 2/4 * 2/3 = 1/3.
#[test]
fn statistics_as_json_count_what_can_be_counted_by_hand() {
    let place = Place::new();
    clotho(&place);
    place.put("clotho/development/b.wav", "no sound at all");
    let model = model();
    let found = place.json(&[
        "data",
        "stats",
        "clotho",
        "clotho",
        "--split",
        "development",
        "--batch",
        "3",
        "--threshold",
        "0.99999",
        "--model",
        &model,
        "--json",
    ]);
    let set = &found["sets"][0];
    assert_eq!(
        (&set["text"]["clips"], &set["text"]["pairs"]),
        (&2.into(), &4.into())
    );
    assert_eq!(
        (&set["text"]["repeated"], &set["text"]["vocabulary"]),
        (&1.into(), &10.into())
    );
    assert_eq!(set["text"]["most_shared"], serde_json::json!(["Water drips", 2]));
    assert_eq!(set["audio"]["rates"], serde_json::json!({"8000": 1}));
    assert_eq!(set["audio"]["seconds"]["mean"], 1.0);
    assert_eq!(set["unreadable"][0]["id"], "b.wav");
    let share = set["false_negatives"]["share_of_captions"].as_f64().unwrap();
    assert!((share - 1.0 / 3.0).abs() < 1e-12, "{share}");
    assert_eq!(set["false_negatives"]["ordered_pairs"], 2);
}

#[test]
fn captions_fewer_than_a_batch_are_counted_all_the_same() {
    let place = Place::new();
    clotho(&place);
    let found = place.json(&[
        "data",
        "stats",
        "clotho",
        "clotho",
        "--split",
        "evaluation",
        "--model",
        &model(),
        "--json",
    ]);
    assert_eq!(found["sets"][0]["false_negatives"], Value::Null);
    assert_eq!(found["sets"][0]["text"]["pairs"], 4);
}

const TINY: [&str; 12] = [
    "--train",
    "4",
    "--validation",
    "2",
    "--test",
    "2",
    "--seconds",
    "1",
    "--rate",
    "16000",
    "--format",
    "wav",
];

fn tree(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(tree(&path));
        } else {
            files.push((path.display().to_string(), fs_err::read(&path).unwrap()));
        }
    }
    files.sort();
    files
}

#[test]
fn soundscapes_are_made_once_and_completed_where_they_lack() {
    let place = Place::new();
    let args = [&["data", "make-soundscapes", "out"][..], &TINY].concat();
    let sized = |report: &str| {
        // The size follows the system's mathematics library in its last digits.
        let mut lines = report.lines();
        let first = lines.next().unwrap();
        let (before, _) = first.rsplit_once(", ").unwrap();
        [&[before], &lines.collect::<Vec<_>>()[..]].concat().join("\n")
    };
    insta::assert_snapshot!("soundscapes-made", sized(&place.ok(&args)));
    let made = tree(&place.path("out"));
    let again = place.ok(&args);
    assert!(
        again.starts_with("out: already complete; 8 clips of 1 s, 0.3 MB\n"),
        "{again}"
    );
    assert_eq!(tree(&place.path("out")), made);

    fs_err::remove_file(place.path("out/evaluation/evaluation_00001.wav")).unwrap();
    let json = [&args[..], &["--json"]].concat();
    let completed = place.json(&json);
    assert_eq!(
        (&completed["reused"], &completed["made_now"]),
        (&false.into(), &1.into())
    );
    assert_eq!(completed["captions"]["development"], 20);
    assert_eq!(completed["settings"]["format"], "wav");
    assert_eq!(tree(&place.path("out")), made);
    let bytes: usize = made.iter().map(|(_, content)| content.len()).sum();
    assert_eq!(completed["bytes"], bytes);

    // It is a data set like any other.
    place.ok(&["data", "check", "clotho", "out", "--decode"]);
    let stats = place.json(&[
        "data",
        "stats",
        "clotho",
        "out",
        "--split",
        "evaluation",
        "--no-similarity",
        "--json",
    ]);
    assert_eq!(stats["sets"][0]["text"]["pairs"], 10);
    assert_eq!(stats["sets"][0]["audio"]["seconds"]["max"], 1.0);
}

#[test]
fn datasets_have_names() {
    let place = Place::new();
    place.ok(&[&["data", "make-soundscapes", "out"][..], &TINY].concat());
    assert_eq!(place.ok(&["data", "list"]), "");
    let message = place.fails(&["data", "check", "clotho"]);
    assert!(
        message.contains("no dataset is called `clotho`") && message.contains("hark data add clotho"),
        "{message}"
    );
    place.ok(&["data", "add", "clotho", "out"]);
    let listed = place.ok(&["data", "list"]);
    assert!(
        listed.starts_with("clotho ") && listed.trim_end().ends_with("out"),
        "{listed}"
    );
    assert!(
        place.json(&["data", "list", "--json"])["clotho"]
            .as_str()
            .unwrap()
            .ends_with("out")
    );
    assert!(
        place
            .ok(&["data", "check", "clotho"])
            .contains("clotho-development: complete")
    );
    let message = place.fails(&["data", "add", "a/b", "out"]);
    assert!(message.contains("cannot be the name of a dataset"), "{message}");
    let message = place.fails(&["data", "add", "clotho", "nowhere"]);
    assert!(message.contains("nowhere"), "{message}");
    place.misused(&["data", "check", "table"]);
}

/// The layout, lengths and files of the stand-in, with few and short clips.
#[test]
fn a_stand_in_for_clotho_is_complete_and_has_no_truth() {
    let place = Place::new();
    let small = ["--train", "5", "--validation", "2", "--test", "3"];
    let short = [
        "--seconds",
        "1",
        "--max-seconds",
        "2",
        "--rate",
        "16000",
        "--json",
    ];
    let args = [
        &["data", "make-soundscapes", "out", "--like", "clotho"],
        &small[..],
        &short,
    ]
    .concat();
    let made = place.json(&args);
    assert_eq!(made["captions"]["development"], 25);
    assert_eq!(made["settings"]["truth"], false);
    place.ok(&["data", "check", "clotho", "out", "--decode"]);
    assert!(!place.path("out/truth_evaluation.csv").exists());
    let metadata = fs_err::read_to_string(place.path("out/clotho_metadata_development.csv")).unwrap();
    assert!(
        metadata
            .starts_with("file_name,keywords,sound_id,sound_link,start_end_samples,manufacturer,license\n"),
        "{metadata}"
    );
    assert_eq!(metadata.lines().count(), 6);
    let stats = place.json(&[
        "data",
        "stats",
        "clotho",
        "out",
        "--split",
        "development",
        "--no-similarity",
        "--json",
    ]);
    let seconds = &stats["sets"][0]["audio"]["seconds"];
    let bound = |name: &str| seconds[name].as_f64().unwrap();
    assert!(
        bound("min") >= 1.0 && bound("max") <= 2.0 && bound("max") > bound("min"),
        "{seconds}"
    );
    place.misused(&[
        "data",
        "make-soundscapes",
        "out",
        "--like",
        "clotho",
        "--recipe",
        "x.toml",
    ]);
}

#[test]
fn soundscapes_of_other_settings_and_other_folders_are_left_alone() {
    let place = Place::new();
    let args = [&["data", "make-soundscapes", "out"][..], &TINY].concat();
    place.ok(&args);
    let made = tree(&place.path("out"));
    let message = place.fails(&[&args[..], &["--seed", "2"]].concat());
    assert!(
        message.contains("out holds soundscapes with other settings"),
        "{message}"
    );
    assert_eq!(tree(&place.path("out")), made);
    place.put("mine/letter.txt", "dear");
    let message = place.fails(&["data", "make-soundscapes", "mine"]);
    assert!(message.contains("mine is not empty"), "{message}");
}

/// Two categories in three folds: enough for every split to have a recording of its own.
#[test]
fn soundscapes_are_cut_from_recordings() {
    let place = Place::new();
    let mut table = "filename,fold,category\n".to_owned();
    for (nth, category) in ["dog", "rain", "dog", "rain", "dog", "rain"].iter().enumerate() {
        table.push_str(&format!("{nth}.wav,{},{category}\n", nth / 2 + 1));
        place.put(&format!("sounds/{nth}.wav"), saw_tooth(16_000, 16_000));
    }
    place.put("sounds/table.csv", table);
    let recordings = [
        "--recordings",
        "sounds",
        "--recordings-table",
        "table.csv",
        "--train-folds",
        "2",
        "--validation-folds",
        "3",
        "--test-folds",
        "1",
        "--max-events",
        "2",
        "--json",
    ];
    let made = place.json(&[&["data", "make-soundscapes", "out"], &TINY[..], &recordings].concat());
    assert_eq!(
        made["settings"]["recordings"],
        serde_json::json!({
            "folder": "sounds", "table": "table.csv",
            "train-folds": [2], "validation-folds": [3], "test-folds": [1],
        })
    );
    let scenes = fs_err::read_to_string(place.path("out/scenes_evaluation.jsonl")).unwrap();
    assert!(
        scenes.contains("\"recording\"") && !scenes.contains("2.wav") && !scenes.contains("5.wav"),
        "{scenes}"
    );
}

/// A recipe that makes soundscapes, and nothing else of note.
const RECIPE: &str = r#"
name = "tiny"
[soundscapes]
train = 3
validation = 2
test = 2
seconds = 1.0
rate = 16000
[audio]
network = { tower = "cnn", mels = 64, channels = [4], width = 8 }
projection = [8]
clip = { length = "padded", seconds = 1.0 }
[text]
network = { tower = "roberta", vocabulary = 100, positions = 34, width = 8, hidden = 8, layers = 1, heads = 1, epsilon = 1e-5, types = 1, dropout = 0.1, attention-dropout = 0.1 }
projection = [8]
train-tokenizer = "words"
"#;

#[test]
fn a_recipe_names_soundscapes_and_sets() {
    let place = Place::new();
    place.put("r.toml", RECIPE);
    // Before a training there are none, and the report says who makes them.
    let (report, message) = place.finds_fault(&["data", "check", "--recipe", "r.toml"]);
    assert!(
        report.matches("generated when hark train r.toml starts").count() == 3
            && report.contains("data.validation: clotho-validation: not complete"),
        "{report}"
    );
    assert_eq!(message, "hark: 3 of 3 datasets are not complete\n");
    let message = place.fails(&["data", "stats", "--recipe", "r.toml"]);
    assert!(
        message.contains("generated when hark train r.toml starts"),
        "{message}"
    );

    // Options win over the recipe.
    let made = place.json(&[
        "data",
        "make-soundscapes",
        "out",
        "--recipe",
        "r.toml",
        "--train",
        "4",
        "--attributes",
        "none",
        "--json",
    ]);
    assert_eq!(
        made["clips"],
        serde_json::json!({"development": 4, "validation": 2, "evaluation": 2})
    );
    assert_eq!(made["settings"]["attributes"], serde_json::json!([]));
    assert_eq!(made["settings"]["rate"], 16_000);

    let named = format!(
        "{}\n[data]\ntrain = [{{ kind = \"clotho\", root = \"out\", split = \"development\" }}, \
         {{ kind = \"folder\", root = \"nowhere\" }}]\n",
        RECIPE.split("[soundscapes]").next().unwrap()
    );
    let rest = RECIPE.split("rate = 16000").nth(1).unwrap();
    place.put("named.toml", format!("{named}{rest}"));
    let (json, message) = place.finds_fault(&["data", "check", "--recipe", "named.toml", "--json"]);
    let found: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(message, "hark: 1 of 2 datasets are not complete\n");
    let complete = [&found["sets"][0]["complete"], &found["sets"][1]["complete"]];
    assert_eq!(complete, [true, false]);
    assert_eq!(found["sets"][1]["part"], "data.train");
    // Of those that are there: 1 s at 32 kHz in 32 bits each, with a header and the checksums of two blocks.
    let reading = &found["reading"];
    assert_eq!(
        (&reading["recordings"], &reading["sampled"]),
        (&4.into(), &4.into())
    );
    assert_eq!(reading["f32_bytes"], 4 * (32 + 2 * 4 + 4 * 32_000), "{reading}");
    let (report, _) = place.finds_fault(&["data", "check", "--recipe", "named.toml"]);
    assert!(
        report.contains("reading 4 recordings in training")
            && report.contains("CPU-minutes for the first epoch"),
        "{report}"
    );
    let message = place.fails(&["data", "make-soundscapes", "x", "--recipe", "named.toml"]);
    assert!(message.contains("no [soundscapes]"), "{message}");
    assert!(!place.path("x").exists());
}

#[test]
fn what_cannot_be_meant_is_wrong_usage() {
    let place = Place::new();
    clotho(&place);
    let message = place.misused(&["data", "check", "clothos", "clotho"]);
    assert!(
        message.contains("clotho, audiocaps, wavcaps, table, folder"),
        "{message}"
    );
    for (args, said) in [
        (
            &["folder", "clotho", "--split", "development"][..],
            "--split belongs to clotho and audiocaps, not to folder",
        ),
        (
            &["clotho", "clotho", "--audio", "x"],
            "--audio belongs to audiocaps and table, not to clotho",
        ),
        (
            &["audiocaps", "x", "--exclude-clotho", "clotho"],
            "--exclude-clotho belongs to wavcaps, not to audiocaps",
        ),
        (
            &["wavcaps", "x", "--caption-column", "text"],
            "--caption-column belongs to table, not to wavcaps",
        ),
        (&["wavcaps", "x", "--source", "youtube"], "BBC_Sound_Effects"),
        (
            &["wavcaps", "x", "--exclude", "a", "--exclude-clotho", "b"],
            "cannot be used",
        ),
        (&["clotho", "x", "--recipe", "r.toml"], "cannot be used"),
        (&["table"], "a table needs its PATH"),
        (&[], "<KIND>"),
    ] {
        for command in ["check", "stats"] {
            let message = place.misused(&[&["data", command], args].concat());
            assert!(message.contains(said), "{args:?}: {message}");
        }
    }
    let stats = ["data", "stats", "clotho", "clotho"];
    for more in [
        &["--threshold", "1.5"][..],
        &["--threshold", "nan"],
        &["--batch", "0"],
        &["--no-similarity", "--batch", "4"],
    ] {
        place.misused(&[&stats[..], more].concat());
    }
    let message = place.misused(&[
        "data",
        "make-soundscapes",
        "out",
        "--attributes",
        "loudness,volume",
    ]);
    assert!(
        message.contains("`volume` is none of loudness, pace, pitch, count"),
        "{message}"
    );
    place.misused(&["data", "make-soundscapes", "out", "--recordings", "x"]);
    place.misused(&["data", "make-soundscapes", "out", "--format", "mp3"]);
    place.misused(&["data", "make-soundscapes"]);
}

#[test]
fn sets_that_are_not_there_or_empty_say_what_is_wanted() {
    let place = Place::new();
    let nowhere = ["clotho", "nowhere"];
    let (report, _) = place.finds_fault(&[&["data", "check"], &nowhere[..]].concat());
    assert!(
        report.contains("nowhere: no such folder") && report.contains("clotho_captions_SPLIT.csv"),
        "{report}"
    );
    let message = place.fails(&[&["data", "stats"], &nowhere[..]].concat());
    assert!(message.contains("nowhere: no such folder"), "{message}");

    // A header and no captions; a folder of recordings without texts.
    place.put("empty/clotho_captions_development.csv", "file_name,caption_1\n");
    place.put("sounds/a.wav", saw_tooth(8000, 800));
    for set in [
        &["clotho", "empty", "--split", "development"][..],
        &["folder", "sounds"],
    ] {
        let (report, _) = place.finds_fault(&[&["data", "check"], set].concat());
        assert!(
            report.contains("not complete") && report.contains("no captions"),
            "{report}"
        );
        let message = place.fails(&[&["data", "stats"], set].concat());
        assert!(message.contains("no captions"), "{message}");
    }

    // Captions, and not one recording.
    clotho(&place);
    fs_err::remove_dir_all(place.path("clotho/development")).unwrap();
    let set = ["clotho", "clotho", "--split", "development"];
    let (report, _) = place.finds_fault(&[&["data", "check"], &set[..]].concat());
    assert!(
        report.contains("  missing                     2 (a.wav, b.wav)"),
        "{report}"
    );
    let message = place.fails(&[&["data", "stats"], &set[..]].concat());
    assert!(message.contains("no usable recordings: 2 missing"), "{message}");

    // One caption file with a fault does not keep the others from being looked at.
    place.put(
        "clotho/clotho_captions_development.csv",
        "file_name,caption_1\na.wav,b,c\n",
    );
    let (report, message) = place.finds_fault(&["data", "check", "clotho", "clotho"]);
    assert!(
        report.contains("line 2: 3 fields, expected 2") && report.contains("clotho-evaluation: complete"),
        "{report}"
    );
    assert_eq!(message, "hark: 1 of 3 datasets are not complete\n");
}

#[test]
fn soundscapes_that_cannot_be_are_refused_before_a_folder_is_made() {
    let place = Place::new();
    for (more, said) in [
        (&["--train", "0"][..], "`train` is 0"),
        (&["--test", "0"], "`test` is 0"),
        (&["--seconds", "0.5"], "`seconds` is 0.5"),
        (&["--kinds", "1000"], "`kinds` is 1000"),
        (&["--min-events", "3", "--max-events", "2"], "`min-events` is 3"),
        (
            &["--recordings", "nowhere", "--recordings-table", "t.csv"],
            "nowhere/t.csv",
        ),
    ] {
        let message = place.fails(&[&["data", "make-soundscapes", "out"], more].concat());
        assert!(message.contains(said), "{more:?}: {message}");
        assert!(!place.path("out").exists(), "{more:?}");
    }
}

#[test]
fn help_shows_the_defaults_and_examples() {
    let place = Place::new();
    insta::assert_snapshot!("help-data", place.ok(&["data", "--help"]));
    for command in ["pull", "check", "stats", "make-soundscapes"] {
        let help = place.ok(&["data", command, "--help"]);
        assert!(
            help.contains(&format!("Examples:\n  hark data {command}")),
            "{help}"
        );
        insta::assert_snapshot!(format!("help-data-{command}"), help);
    }
}
