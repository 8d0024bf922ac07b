//! The paper's tables from end to end: its recipes as they are, on miniatures of Clotho, AudioCaps and WavCaps.
//!
//! Layouts are those of the data sets. Captions and metadata are made up, and in `needs_data` the data sets' own (`HARK_DATA`, else
//! `shared/data` beside the repository). Recordings are tones. The towers are small ones that the reference software wrote, under
//! the names that the recipes ask for.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::place::{Place, wav};

const CLOTHO: [(&str, usize); 3] = [("development", 12), ("validation", 6), ("evaluation", 6)];
const AUDIOCAPS: [(&str, usize); 3] = [("train", 12), ("val", 6), ("test", 6)];

/// A recipe of the program, copied to where the miniatures are.
fn recipe(place: &Place, name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes");
    let file = format!("{name}.toml");
    fs_err::create_dir_all(place.path("recipes")).unwrap();
    fs_err::copy(folder.join(&file), place.path("recipes").join(&file)).unwrap();
    format!("recipes/{file}")
}

fn golden(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../encode/tests/golden/towers");
    folder.join(name).display().to_string()
}

/// A second of a tone with an overtone, as WAV.
fn tone(nth: usize) -> Vec<u8> {
    const RATE: u32 = 32_000;
    let pitch = 110.0 * 1.13_f64.powi(nth as i32 % 30);
    let sample = |time: u32| {
        let phase = std::f64::consts::TAU * pitch * f64::from(time) / f64::from(RATE);
        (9000.0 * (phase.sin() + 0.3 * (2.0 * phase + nth as f64).sin())) as i16
    };
    wav(RATE, &(0..RATE).map(sample).collect::<Vec<i16>>())
}

/// The header of a table and those of its rows that `keep` takes.
fn rows(table: &str, keep: &mut dyn FnMut(&csv::StringRecord) -> bool) -> (String, Vec<csv::StringRecord>) {
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(reader.headers().unwrap()).unwrap();
    let kept: Vec<csv::StringRecord> = reader
        .records()
        .map(Result::unwrap)
        .filter(|row| keep(row))
        .collect();
    for row in &kept {
        writer.write_record(row).unwrap();
    }
    (String::from_utf8(writer.into_inner().unwrap()).unwrap(), kept)
}

/// Whose captions and metadata the miniatures have.
trait Captions {
    /// Captions and metadata of a split of Clotho, with at least `count` clips.
    fn clotho(&self, split: &str, count: usize) -> (String, String);
    /// Captions of a split of AudioCaps, with at least `count` clips.
    fn audiocaps(&self, split: &str, count: usize) -> String;
}

/// The three data sets, under the names by which the recipes look for them.
fn miniatures(place: &Place, source: &dyn Captions) {
    let mut nth = 0;
    let mut put = |path: PathBuf| {
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, tone(nth)).unwrap();
        nth += 1;
    };
    let clotho = place.path("data/clotho");
    let mut ids = Vec::new();
    for (split, count) in CLOTHO {
        let (captions, metadata) = (
            format!("clotho_captions_{split}.csv"),
            format!("clotho_metadata_{split}.csv"),
        );
        let (table, about) = source.clotho(split, count);
        let mut left = count;
        let (table, kept) = rows(&table, &mut |_| {
            left > 0 && {
                left -= 1;
                true
            }
        });
        let names: Vec<String> = kept.iter().map(|row| row[0].to_owned()).collect();
        let (about, described) = rows(&about, &mut |row| names.contains(&row[0].to_owned()));
        ids.extend(described.iter().map(|row| row[2].to_owned()));
        for name in &names {
            put(clotho.join(split).join(name));
        }
        fs_err::write(clotho.join(captions), table).unwrap();
        fs_err::write(clotho.join(metadata), about).unwrap();
    }
    let audiocaps = place.path("data/audiocaps");
    for (split, count) in AUDIOCAPS {
        let table = source.audiocaps(split, count);
        // Validation and test clips have five captions, each in a row of its own.
        let mut videos: Vec<String> = Vec::new();
        let (table, _) = rows(&table, &mut |row| {
            let video = row[1].to_owned();
            if !videos.contains(&video) && videos.len() < count {
                videos.push(video.clone());
            }
            videos.contains(&video)
        });
        for video in &videos {
            put(audiocaps.join("audio").join(split).join(format!("{video}.wav")));
        }
        fs_err::write(audiocaps.join(format!("{split}.csv")), table).unwrap();
    }
    // WavCaps, one of whose recordings Clotho is made of.
    for (source, file, first) in [
        ("SoundBible", "sb_final.json", 1),
        ("FreeSound", "fsd_final.json", 501),
    ] {
        let mut list = Vec::new();
        for number in first..first + 4 {
            let id = if number == 501 {
                ids[0].clone()
            } else {
                number.to_string()
            };
            put(place.path(&format!("data/wavcaps/audio/{source}/{id}.flac")));
            list.push(serde_json::json!({"id": id, "caption": format!("A machine hums {number} times."), "duration": 1.0}));
        }
        let folder = place.path("data/wavcaps/json_files").join(source);
        fs_err::create_dir_all(&folder).unwrap();
        let json = serde_json::json!({"num_captions_per_audio": 1, "data": list});
        fs_err::write(folder.join(file), json.to_string()).unwrap();
    }
    for name in ["clotho", "audiocaps", "wavcaps"] {
        place.ok(&["data", "add", name, &format!("data/{name}")]);
    }
    let folder = golden("hf-roberta");
    place.ok(&["models", "pull", "roberta-large", "--from", &folder]);
    // A PaSST so small that the number of its heads cannot be told from its width, in the place of the published one.
    let file = golden("passt.pt");
    let sizes = ["--audio-heads", "2", "--segment-seconds", "1"];
    place.ok(&[&["models", "import", &file, "--name", "small"], &sizes[..]].concat());
    fs_err::rename(place.path("home/models/small"), place.path("home/models/passt-s")).unwrap();
}

struct MadeUp;

impl Captions for MadeUp {
    fn clotho(&self, split: &str, count: usize) -> (String, String) {
        let mut captions = String::from("file_name,caption_1,caption_2,caption_3,caption_4,caption_5\n");
        let mut metadata =
            String::from("file_name,keywords,sound_id,sound_link,start_end_samples,manufacturer,license\n");
        for nth in 0..count {
            captions.push_str(&format!("{split} {nth}.wav"));
            for (word, thing) in [
                ("loud", "bell"),
                ("soft", "horn"),
                ("low", "pipe"),
                ("high", "flute"),
                ("long", "drone"),
            ] {
                captions.push_str(&format!(",\"A {word} {thing}, {nth} times\""));
            }
            captions.push('\n');
            metadata.push_str(&format!("{split} {nth}.wav,tone,{},,,,\n", 70_000 + nth));
        }
        (captions, metadata)
    }

    fn audiocaps(&self, split: &str, count: usize) -> String {
        let mut table = String::from("audiocap_id,youtube_id,start_time,caption\n");
        for nth in 0..count {
            for caption in 0..if split == "train" { 1 } else { 5 } {
                table.push_str(&format!(
                    "{},{split}-{nth}_x,{},A bell rings {nth} times and a horn {caption}\n",
                    10 * nth + caption,
                    10 * nth
                ));
            }
        }
        table
    }
}

/// What makes the paper's recipes small: nothing else about them changes.
const SMALLER: [&str; 11] = [
    "audio.network={tower=\"passt\",mels=128,patch=16,stride=16,columns=7,width=16,hidden=64,layers=2,heads=2,epsilon=1e-6,patchout={time=1,frequency=1}}",
    "audio.projection=[16,8]",
    "audio.segment-seconds=1.0",
    "audio.clip={length=\"padded\",seconds=1.0}",
    "text.network={tower=\"roberta\",vocabulary=400,positions=40,width=16,hidden=32,layers=2,heads=2,epsilon=1e-5,types=1,dropout=0.2,attention-dropout=0.2}",
    "text.projection=[16,8]",
    "objective.sentence-encoder=\"caption-static\"",
    "training.batch=4",
    "training.epochs=1",
    "training.schedule={lr=1e-3,min-lr=1e-5,warmup-epochs=0.5,decay-epochs=1.0}",
    "data.cache-gigabytes=1.0",
];

fn smaller<'a>(first: &[&'a str]) -> Vec<&'a str> {
    let changes = SMALLER.iter().flat_map(|change| ["--set", change]);
    first.iter().copied().chain(changes).collect()
}

#[test]
fn the_recipes_of_tables_two_and_three_run_from_data_to_report() {
    run_the_recipes(&MadeUp);
}

mod needs_data {
    use super::{Captions, Path, PathBuf, run_the_recipes};

    /// The data sets' own files.
    struct Published;

    impl Published {
        fn read(name: &str) -> String {
            let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
            let path = std::env::var_os("HARK_DATA")
                .map_or(beside, PathBuf::from)
                .join(name);
            assert!(path.is_file(), "needs {}: set HARK_DATA", path.display());
            let bytes = fs_err::read(path).unwrap();
            // Clotho's metadata are Latin-1.
            String::from_utf8(bytes)
                .unwrap_or_else(|error| error.into_bytes().iter().map(|&byte| char::from(byte)).collect())
        }
    }

    impl Captions for Published {
        fn clotho(&self, split: &str, _: usize) -> (String, String) {
            let file = |kind: &str| Self::read(&format!("clotho/clotho_{kind}_{split}.csv"));
            (file("captions"), file("metadata"))
        }

        fn audiocaps(&self, split: &str, _: usize) -> String {
            Self::read(&format!("audiocaps/{split}.csv"))
        }
    }

    #[test]
    fn the_recipes_of_tables_two_and_three_run_on_published_captions() {
        run_the_recipes(&Published);
    }
}

fn run_the_recipes(captions: &dyn Captions) {
    let place = Place::new();
    miniatures(&place, captions);
    for name in [
        "clotho",
        "audiocaps",
        "pretrain",
        "clotho-finetune",
        "audiocaps-finetune",
    ] {
        let file = recipe(&place, name);
        let said = place.json(&["data", "check", "--recipe", &file, "--json"]);
        assert_eq!(said["complete"], Value::Bool(true), "{name}: {said:#}");
    }
    // Nothing is missing, and nothing is left behind.
    let file = recipe(&place, "clotho");
    let rehearsal = smaller(&["reproduce", &file, "--rehearse", "--threads", "2", "--json"]);
    let said = place.json(&rehearsal);
    assert_eq!(said["ready"], Value::Bool(true), "{said:#}");
    assert_eq!(
        (&said["trainings"], &said["splits"][0]["clips"]),
        (&20.into(), &12.into())
    );
    assert_eq!(said["steps"]["seconds"].as_array().unwrap().len(), 3);
    assert!(!place.path("studies").exists() && !place.path("runs").exists());
    // Table II: four methods.
    for (name, data, queries) in [("clotho", "Clotho", 30), ("audiocaps", "AudioCaps", 30)] {
        let file = recipe(&place, name);
        let said = place.json(&smaller(&[
            "reproduce",
            &file,
            "--seeds",
            "2",
            "--threads",
            "2",
            "--json",
        ]));
        let methods: Vec<&str> = said["methods"]
            .as_array()
            .unwrap()
            .iter()
            .map(|method| method["method"].as_str().unwrap())
            .collect();
        assert_eq!(
            methods,
            ["infonce", "listnet-audio", "listnet-text", "listnet-both"]
        );
        assert_eq!(said["data"], data);
        assert_eq!(said["comparisons"][0]["tests"][0]["pairs"], queries);
        let folder = Path::new("studies").join(name);
        let report = fs_err::read_to_string(place.path("").join(&folder).join("report.md")).unwrap();
        // The paper's own figures stand beside these.
        let published = if name == "clotho" {
            "30.4±0.1"
        } else {
            "55.0±0.3"
        };
        assert!(report.contains(published) && report.contains(" SD"), "{report}");
        let run = folder.join("listnet-audio/seed-1");
        let found = place.json(&["eval", run.to_str().unwrap(), "--json"]);
        // The same by name: both of its folder and of its kind.
        for named in [name.to_owned(), format!("{name}:{name}")] {
            let by_name = place.json(&["eval", run.to_str().unwrap(), "--data", &named, "--json"]);
            assert_eq!(by_name["judgements"], found["judgements"], "{named}");
        }
        let of_study = &said["methods"][1]["runs"][0];
        assert_eq!(
            found["judgements"][0]["mean"]["map"],
            of_study["text_to_audio"]["map_10"]
        );
    }
    // Table III: pretraining on the three sets, then each method from its own.
    let pretrain = recipe(&place, "pretrain");
    for method in ["infonce", "listnet-audio"] {
        let objective = format!("objective.name={method}");
        place.ok(&[
            &smaller(&["train", &pretrain, "--threads", "2"])[..],
            &["--set", &objective],
        ]
        .concat());
    }
    let left_out = fs_err::read_to_string(place.path("runs/pretrain-infonce-1/left-out.csv")).unwrap();
    assert_eq!(
        left_out.lines().filter(|line| line.contains("excluded")).count(),
        1,
        "{left_out}"
    );
    for (name, published) in [
        ("clotho-finetune", "36.2±0.3"),
        ("audiocaps-finetune", "56.5±0.4"),
    ] {
        let file = recipe(&place, name);
        let said = place.ok(&smaller(&["reproduce", &file, "--seeds", "2", "--threads", "2"]));
        assert!(said.contains(published), "{said}");
        let page = fs_err::read_to_string(place.path(&format!("studies/{name}/report.html"))).unwrap();
        assert!(
            page.contains("runs/pretrain-listnet-audio-1/best"),
            "its start is told"
        );
        let table = fs_err::read_to_string(place.path(&format!("studies/{name}/table.tex"))).unwrap();
        assert!(
            !table.contains("Audio-Based Text"),
            "Table III is of one direction"
        );
    }
}
