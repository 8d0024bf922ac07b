//! Libraries through the program: indexing, searching, describing; what changes on disk; kills at any moment. The model is the
//! small golden one, whose windows are 1 s long.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::place::{Place, text};
use crate::towers::{golden, import_arguments, recording, with_model};

/// Tones of a pitch: 16-bit mono WAV.
pub fn tone(pitch: f64, seconds: f64) -> Vec<u8> {
    const RATE: u32 = 32_000;
    let samples = (f64::from(RATE) * seconds) as u32;
    let sample = |time: u32| {
        let phase = std::f64::consts::TAU * pitch * f64::from(time) / f64::from(RATE);
        (9000.0 * (phase.sin() + 0.3 * (2.0 * phase).sin() * (phase / 97.0).cos())) as i16
    };
    let mut wav = b"RIFF".to_vec();
    wav.extend((36 + 2 * samples).to_le_bytes());
    wav.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    wav.extend(RATE.to_le_bytes());
    wav.extend((2 * RATE).to_le_bytes());
    wav.extend(b"\x02\0\x10\0data");
    wav.extend((2 * samples).to_le_bytes());
    wav.extend((0..samples).flat_map(|time| sample(time).to_le_bytes()));
    wav
}

/// A place with the model `tiny` and a folder `sounds`: three short recordings, a long one, and one that is broken.
pub fn with_sounds() -> Place {
    let place = with_model();
    for folder in ["sounds", "sounds/Rain", "sounds/Dogs"] {
        fs_err::create_dir(place.path(folder)).unwrap();
    }
    place.write("sounds/Rain/HeavyRain_roof-01.WAV", tone(220.0, 0.8));
    place.write("sounds/Dogs/dog_bark.wav", tone(660.0, 1.0));
    place.write("sounds/Dogs/growl.wav", tone(90.0, 0.5));
    let mut long = tone(440.0, 5.5);
    let other = tone(1500.0, 5.5);
    // From 2 to 4 s it is another sound.
    long[44 + 128_000..44 + 256_000].copy_from_slice(&other[44 + 128_000..44 + 256_000]);
    place.write("sounds/long.wav", long);
    place.write("sounds/broken.flac", "fLaC and then nothing that makes sense");
    place.write("sounds/notes.txt", "no recording");
    place
}

/// An indexing that finds the broken recording, and says so: what it prints.
fn index(place: &Place, args: &[&str]) -> Value {
    outcome_of(&place.run(&[&["index", "--json"], args].concat()))
}

fn outcome_of(output: &Output) -> Value {
    let message = text(&output.stderr);
    assert!(!message.contains("panicked"), "{message}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {message}"))
}

fn counts(outcome: &Value) -> [u64; 5] {
    ["new", "changed", "moved", "removed", "unchanged"].map(|what| outcome["outcome"][what].as_u64().unwrap())
}

fn dump(place: &Place, name: &str) -> String {
    place.ok(&["index", "--dump", "--name", name])
}

fn paths(found: &Value) -> Vec<String> {
    let hits = found["hits"].as_array().unwrap();
    hits.iter()
        .map(|hit| {
            let path = hit["file"]["path"].as_str().unwrap();
            path.rsplit('/').next().unwrap().to_owned()
        })
        .collect()
}

#[test]
fn a_library_follows_its_folders() {
    let place = with_sounds();
    let first = index(&place, &["sounds", "--model", "tiny"]);
    assert_eq!(counts(&first), [4, 0, 0, 0, 0]);
    assert_eq!(first["recordings"], 4);
    // Three whole recordings; the long one as a whole and six windows.
    assert_eq!(first["windows"], 10);
    let failed = first["outcome"]["failed"].as_array().unwrap();
    assert_eq!(failed.len(), 1);
    assert!(failed[0]["path"].as_str().unwrap().ends_with("broken.flac"));

    // Nothing changed: no file is read, and what is broken is not tried again.
    let again = index(&place, &[]);
    assert_eq!(counts(&again), [0, 0, 0, 0, 4]);
    assert_eq!(again["outcome"]["failed"].as_array().unwrap().len(), 0);
    assert_eq!(again["outcome"]["still_failing"].as_array().unwrap().len(), 1);
    place.ok(&["index", "--check"]);

    // Renamed, copied, touched, changed, mended, removed.
    let at = |name: &str| place.path("sounds").join(name);
    fs_err::rename(at("Dogs/dog_bark.wav"), at("Dogs/Rex.wav")).unwrap();
    fs_err::copy(at("long.wav"), at("Rain/copy of long.wav")).unwrap();
    let bytes = fs_err::read(at("Rain/HeavyRain_roof-01.WAV")).unwrap();
    fs_err::write(at("Rain/HeavyRain_roof-01.WAV"), bytes).unwrap();
    fs_err::write(at("Dogs/growl.wav"), tone(95.0, 0.5)).unwrap();
    fs_err::write(at("broken.flac"), tone(300.0, 0.3)).unwrap();
    let changed = index(&place, &[]);
    assert_eq!(counts(&changed), [2, 1, 1, 0, 2]);
    assert_eq!(changed["duplicates"], 1);
    assert_eq!(changed["outcome"]["failed"].as_array().unwrap().len(), 0);
    let twice = place.ok(&["index", "--duplicates"]);
    assert!(
        twice.contains("copy of long.wav") && twice.contains("sounds/long.wav"),
        "{twice}"
    );
    fs_err::remove_file(at("long.wav")).unwrap();
    assert_eq!(counts(&index(&place, &[])), [0, 0, 0, 1, 5]);

    // However it came about, the library is the one that a fresh look makes.
    assert_eq!(
        counts(&index(&place, &["sounds", "--model", "tiny", "--name", "fresh"])),
        [5, 0, 0, 0, 0]
    );
    assert_eq!(dump(&place, "default"), dump(&place, "fresh"));
    place.ok(&["index", "--check"]);

    // A folder that cannot be reached is not a folder whose recordings are gone.
    fs_err::rename(place.path("sounds"), place.path("unplugged")).unwrap();
    let away = index(&place, &[]);
    assert_eq!((counts(&away)[3], away["recordings"].as_u64()), (0, Some(5)));
    assert_eq!(away["outcome"]["unseen"].as_array().unwrap().len(), 1);
    // Nor is one that is empty, as a drive that is not mounted leaves it.
    fs_err::create_dir(place.path("sounds")).unwrap();
    let away = index(&place, &[]);
    assert_eq!((counts(&away)[3], away["recordings"].as_u64()), (0, Some(5)));
    assert_eq!(away["outcome"]["unseen"].as_array().unwrap().len(), 1);
    let sounds = format!("{}/", place.path("sounds").display());
    let forgotten = index(&place, &["--remove-folder", &sounds]);
    assert_eq!(forgotten["recordings"], 0);
}

/// Names that change hands: what is kept of a path is what is there, with the path's own notes.
#[test]
fn swapped_and_rotated_names_are_told_apart() {
    let place = with_model();
    fs_err::create_dir(place.path("sounds")).unwrap();
    // Enough files between the two that they are not taken together.
    for nth in 0..80 {
        place.write(
            &format!("sounds/{nth:02}.wav"),
            tone(100.0 + 20.0 * f64::from(nth), 0.2 + 0.001 * f64::from(nth)),
        );
    }
    place.write(
        "tags.csv",
        "file,tags\n00.wav,first\n79.wav,last\n40.wav,middle\n",
    );
    index(&place, &["sounds", "--model", "tiny", "--tags", "tags.csv"]);
    let at = |name: &str| place.path("sounds").join(name);
    let rename = |from: &str, to: &str| fs_err::rename(at(from), at(to)).unwrap();
    // A swap, a rotation (a take is put aside and made anew), and a chain.
    rename("00.wav", "x");
    rename("79.wav", "00.wav");
    rename("x", "79.wav");
    rename("01.wav", "78 old.wav");
    place.write("sounds/01.wav", tone(3000.0, 0.2));
    rename("03.wav", "zz.wav");
    rename("02.wav", "03.wav");
    // Other bytes of a path leave its notes as they are.
    place.write("sounds/40.wav", tone(3100.0, 0.3));
    index(&place, &[]);
    index(
        &place,
        &[
            "sounds", "--model", "tiny", "--name", "fresh", "--tags", "tags.csv",
        ],
    );
    assert_eq!(dump(&place, "default"), dump(&place, "fresh"));
    // Notes of some files say nothing of others.
    place.write("more.csv", "file,tags\n05.wav,fifth\n");
    let outcome = index(&place, &["--tags", "more.csv"]);
    assert_eq!(outcome["outcome"]["annotated"], 1);
    let middle = place.json(&["search", "--words", "middle", "--json"]);
    assert_eq!(paths(&middle), ["40.wav"]);
    // Notes wait for a recording that is renamed to the name that they are of.
    place.write("later.csv", "file,tags\nrenamed.wav,later\n");
    rename("06.wav", "renamed.wav");
    let outcome = index(&place, &["--tags", "later.csv"]);
    assert_eq!(counts(&outcome)[2], 1);
    let later = place.json(&["search", "--words", "later", "--json"]);
    assert_eq!(paths(&later), ["renamed.wav"]);
}

/// What cannot be read from the disk now stays as it was, and is tried again.
#[cfg(unix)]
#[test]
fn a_file_that_may_not_be_read_is_not_gone() {
    use std::os::unix::fs::PermissionsExt;
    let place = with_sounds();
    index(&place, &["sounds", "--model", "tiny"]);
    let path = place.path("sounds/Dogs/growl.wav");
    fs_err::write(&path, tone(95.0, 0.5)).unwrap();
    fs_err::set_permissions(&path, PermissionsExt::from_mode(0o000)).unwrap();
    let outcome = outcome_of(&place.run_bound_by_permissions(&["index", "--json"]));
    assert_eq!(outcome["recordings"], 4);
    assert_eq!(outcome["outcome"]["unseen"].as_array().unwrap().len(), 1);
    fs_err::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    assert_eq!(counts(&index(&place, &[]))[1], 1);
}

#[test]
fn recordings_are_found_by_meaning_words_and_likeness() {
    let place = with_sounds();
    place.write(
        "tags.csv",
        "file,tags\ngrowl.wav,animal;low\ndog_bark.wav,animal\n",
    );
    place.write("captions.csv", "file_name,caption_1\nlong.wav,a steady whistle\n");
    index(
        &place,
        &[
            "sounds",
            "--model",
            "tiny",
            "--tags",
            "tags.csv",
            "--captions",
            "captions.csv",
        ],
    );
    let search = |args: &[&str]| place.json(&[&["search", "--json"], args].concat());
    // Words: parts of names, tags, captions.
    assert_eq!(
        paths(&search(&["--words", "heavy rain"])),
        ["HeavyRain_roof-01.WAV"]
    );
    assert_eq!(paths(&search(&["--words", "whistles"])), ["long.wav"]);
    assert_eq!(
        paths(&search(&["--words", "animal", "--not", "low"])),
        ["dog_bark.wav"]
    );
    // Meaning: everything is ranked, the words' file first, one hit a file.
    let fused = search(&["dog", "bark"]);
    assert_eq!(paths(&fused).len(), 4);
    assert_eq!(paths(&fused)[0], "dog_bark.wav");
    assert_eq!(paths(&search(&["dog bark", "--meaning", "-n", "2"])).len(), 2);
    let moments = search(&["whistle", "--all-moments", "-n", "20"]);
    assert!(paths(&moments).len() > 4);
    // Like a recording, and like a moment of one.
    let like = search(&["--audio", "sounds/Dogs/growl.wav"]);
    assert_eq!(paths(&like)[0], "growl.wav");
    assert!(like["hits"][0]["meaning"].as_f64().unwrap() > 0.999);
    place.write("whistle.wav", tone(1500.0, 1.0));
    let moment = search(&["--audio", "whistle.wav", "--folder", "sounds"]);
    let hits = moment["hits"].as_array().unwrap();
    let long = hits
        .iter()
        .find(|hit| hit["file"]["path"].as_str().unwrap().ends_with("long.wav"));
    let start = long.unwrap()["start"].as_f64().unwrap();
    assert!((2.0..4.0).contains(&start), "{start}");
    let like = search(&["--like", "sounds/long.wav", "--at", "2.5"]);
    assert!(!paths(&like).contains(&"long.wav".to_owned()));
    // Filters.
    assert_eq!(paths(&search(&["x", "--folder", "sounds/Dogs"])).len(), 2);
    assert_eq!(
        paths(&search(&["x", "--tag", "animal", "--tag", "low"])),
        ["growl.wav"]
    );
    assert_eq!(paths(&search(&["x", "--min-seconds", "2"])), ["long.wav"]);
    assert_eq!(paths(&search(&["x", "--min-rate", "44100"])).len(), 0);
    assert_eq!(paths(&search(&["x", "--after", "2020-01-01"])).len(), 4);
    assert_eq!(paths(&search(&["x", "--before", "2020-01-01"])).len(), 0);
    // Forms.
    let table = place.ok(&["search", "dog", "--csv", "-n", "2"]);
    assert_eq!(table.lines().count(), 3);
    assert!(table.starts_with("rank,score,path,"), "{table}");
    let list = place.ok(&["search", "--audio", "whistle.wav", "--m3u"]);
    assert!(
        list.starts_with("#EXTM3U\n") && list.contains("/sounds/long.wav\n"),
        "{list}"
    );
    let shown = place.ok(&["search", "dog", "bark"]);
    assert!(shown.lines().next().unwrap().ends_with("dog_bark.wav"), "{shown}");
    // Nothing in a question is syntax.
    for hostile in [
        "\"",
        "a AND (",
        "NEAR(",
        "%_%",
        "*",
        "'; DROP TABLE files; --",
        "col:x",
        "\u{1F409}",
    ] {
        search(&[hostile]);
        search(&["--words", "--", hostile]);
    }
    for blank in ["", " ", "-"] {
        let message = place.fails(&["search", blank]);
        assert!(message.contains("the query is empty"), "{message}");
    }
}

#[test]
fn captions_are_ranked_for_a_recording() {
    let place = with_sounds();
    place.write("captions.txt", "a dog barks\nrain falls\nrain falls\na whistle\n");
    let args = [
        "describe",
        "sounds/long.wav",
        "--captions",
        "captions.txt",
        "--model",
        "tiny",
    ];
    let described = place.json(&[&args[..], &["--json"]].concat());
    let captions = described[0]["captions"].as_array().unwrap();
    assert_eq!(captions.len(), 3);
    // The order is that of products of the vectors that `hark embed` gives.
    place.ok(&["embed", "sounds/long.wav", "--model", "tiny", "-o", "clip.npy"]);
    place.ok(&[
        "embed",
        "--captions",
        "captions.txt",
        "--model",
        "tiny",
        "-o",
        "texts.npy",
    ]);
    let numbers = |name: &str| -> Vec<f32> {
        let bytes = fs_err::read(place.path(name)).unwrap();
        let data = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        let numbers = bytes[data..].chunks_exact(4);
        numbers
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect()
    };
    let clip = numbers("clip.npy");
    let texts = numbers("texts.npy");
    let product = |row: usize| -> f32 {
        clip.iter()
            .zip(&texts[row * clip.len()..])
            .map(|(a, b)| a * b)
            .sum()
    };
    let mut expected = [
        ("a dog barks", product(0)),
        ("rain falls", product(1)),
        ("a whistle", product(3)),
    ];
    expected.sort_by(|a, b| b.1.total_cmp(&a.1));
    for (found, (caption, score)) in captions.iter().zip(expected) {
        assert_eq!(found["caption"], caption);
        assert!((found["score"].as_f64().unwrap() - f64::from(score)).abs() < 1e-5);
    }
    let message = place.fails(&[
        "describe",
        "sounds/broken.flac",
        "--captions",
        "captions.txt",
        "--model",
        "tiny",
    ]);
    assert!(message.contains("broken.flac"), "{message}");
}

#[test]
fn what_makes_no_library_is_refused() {
    let place = with_sounds();
    let message = place.fails(&["search", "dog"]);
    assert!(message.contains("hark index"), "{message}");
    let message = place.fails(&["index", "nowhere", "--model", "tiny"]);
    assert!(message.contains("nowhere"), "{message}");
    let message = place.fails(&["index", "sounds", "--model", "tiny", "--name", "../up"]);
    assert!(message.contains("name"), "{message}");
    let message = place.fails(&["index", "sounds", "--model", "tiny", "--hop", "7"]);
    assert!(message.contains("--hop"), "{message}");
    let message = place.fails(&["index", "sounds", "--model", "tiny", "--store", "mysql://x"]);
    assert!(message.contains("postgres://"), "{message}");
    index(&place, &["sounds", "--model", "tiny"]);

    // Another model of whatever name: refused, with the way out.
    let file = golden("authors.pt");
    let tokenizer = golden("tokenizer-json");
    let mut other = import_arguments(&file, &tokenizer);
    other[4] = "other";
    let clip = other.len() - 1;
    other[clip] = "2";
    place.ok(&other);
    let message = place.fails(&["index", "sounds", "--model", "other"]);
    assert!(
        message.contains("tiny") && message.contains("--rebuild"),
        "{message}"
    );
    let message = place.fails(&["search", "dog", "--model", "other"]);
    assert!(
        message.contains("tiny") && message.contains("--rebuild"),
        "{message}"
    );
    let message = place.fails(&["index", "--hop", "0.5"]);
    assert!(message.contains("--rebuild"), "{message}");
    // The way out works, and keeps the folders.
    let rebuilt = index(&place, &["--rebuild", "--model", "other", "--hop", "0.5"]);
    assert_eq!(counts(&rebuilt), [4, 0, 0, 0, 0]);
    assert!(rebuilt["windows"].as_u64().unwrap() > 10);
    place.ok(&["index", "--check"]);
}

/// Sounds of every kind that the decoder reads, as they are in its own tests: the same sound in other formats is found.
#[test]
fn the_same_sound_in_other_formats_is_reported() {
    let place = with_model();
    let files = Path::new(&recording("")).to_owned();
    let outcome = index(&place, &[files.to_str().unwrap(), "--model", "tiny"]);
    assert!(outcome["recordings"].as_u64().unwrap() > 10, "{outcome}");
    assert!(outcome["duplicates"].as_u64().unwrap() >= 1, "{outcome}");
    place.ok(&["index", "--check"]);
}

/// Twenty kills at random moments of an indexing of a thousand files: the library is that of an undisturbed run.
#[test]
fn killed_at_any_moment_nothing_is_lost_or_doubled() {
    let place = with_model();
    thousand_files(&place);
    let begun = Instant::now();
    index(&place, &["sounds", "--model", "tiny", "--name", "whole"]);
    let whole = begun.elapsed();
    let kills = kill_while_indexing(
        &place,
        whole / 20,
        &["sounds", "--model", "tiny", "--name", "killed"],
    );
    assert_eq!(kills, 20, "indexing was too quick to be killed");
    let outcome = index(&place, &["--name", "killed"]);
    assert_eq!(outcome["recordings"], 999);
    assert_eq!(dump(&place, "killed"), dump(&place, "whole"));
    place.ok(&["index", "--check", "--name", "killed"]);

    // And over a library that is there: names change hands, files come, change and go, and there are tags.
    let mut tags = String::from("file,tags\n");
    for nth in 0..1000_usize {
        let path = |nth: usize| place.path(&format!("sounds/folder {}/{nth:03}.wav", nth / 100));
        match nth % 10 {
            0 => fs_err::rename(path(nth), place.path(&format!("sounds/moved {nth}.wav"))).unwrap(),
            1 => {
                fs_err::rename(path(nth), place.path("sounds/x")).unwrap();
                fs_err::rename(path(nth + 1), path(nth)).unwrap();
                fs_err::rename(place.path("sounds/x"), path(nth + 1)).unwrap();
            }
            3 => fs_err::remove_file(path(nth)).unwrap(),
            4 => fs_err::write(path(nth), tone(5000.0 + nth as f64, 0.1)).unwrap(),
            _ => {}
        }
        tags.push_str(&format!("{nth:03}.wav,tag{}\nmoved {nth}.wav,moved\n", nth % 7));
    }
    place.write("tags.csv", tags);
    let again = ["--name", "killed", "--tags", "tags.csv"];
    let kills = kill_while_indexing(&place, whole / 20, &again);
    assert!(kills >= 2, "indexing was too quick to be killed: {kills}");
    index(&place, &again);
    index(
        &place,
        &[
            "sounds", "--model", "tiny", "--name", "fresh", "--tags", "tags.csv",
        ],
    );
    assert_eq!(dump(&place, "killed"), dump(&place, "fresh"));
    place.ok(&["index", "--check", "--name", "killed"]);
}

/// A thousand files, some of them alike, in folders, and one that is broken.
pub fn thousand_files(place: &Place) {
    fs_err::create_dir(place.path("sounds")).unwrap();
    for nth in 0..1000_usize {
        let folder = place.path("sounds").join(format!("folder {}", nth / 100));
        fs_err::create_dir_all(&folder).unwrap();
        let bytes = match nth {
            500 => b"RIFF and nothing else".to_vec(),
            // Files of one length that are written in the same moment look the same: neighbours have other lengths.
            _ => tone(100.0 + (nth % 250) as f64 * 7.0, 0.1 + 0.001 * (nth % 2) as f64),
        };
        fs_err::write(folder.join(format!("{nth:03}.wav")), bytes).unwrap();
    }
}

/// Begins an indexing twenty times and kills it after a random part of `longest`.
pub fn kill_while_indexing(place: &Place, longest: Duration, args: &[&str]) -> usize {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut kills = 0;
    for _ in 0..20 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let part = (random >> 40) as f64 / f64::from(1 << 24);
        let mut child = place
            .command(&[&["index"], args].concat())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let until = Instant::now() + longest.mul_f64(0.1 + 0.9 * part);
        while Instant::now() < until && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        if child.try_wait().unwrap().is_none() {
            child.kill().unwrap();
            kills += 1;
        }
        child.wait().unwrap();
    }
    kills
}

/// What is put into a watched folder is found soon after.
#[cfg(target_os = "linux")]
#[test]
fn a_watched_folder_is_indexed_by_itself() {
    let place = with_sounds();
    // One that is broken is told, and does not end it.
    let mut child = place
        .command(&["index", "sounds", "--model", "tiny", "--watch"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It says when it has begun to watch.
    let mut said = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
    assert!(said.any(|line| line.unwrap().starts_with("watching")));
    place.write("sounds/quokka.wav", tone(777.0, 0.4));
    let mut found = Vec::new();
    // Far longer than it takes: a bound, so that a fault ends the test.
    let until = Instant::now() + Duration::from_mins(3);
    while found.is_empty() && child.try_wait().unwrap().is_none() && Instant::now() < until {
        found = paths(&place.json(&["search", "--words", "quokka", "--json"]));
        std::thread::sleep(Duration::from_millis(50));
    }
    let pid = child.id().to_string();
    std::process::Command::new("kill")
        .args(["-INT", &pid])
        .status()
        .unwrap();
    child.wait().unwrap();
    assert_eq!(found, ["quokka.wav"]);
}

#[test]
fn old_names_are_refused_with_the_new_ones() {
    let place = Place::new();
    let cases: [(&[&str], &str); 6] = [
        (&["index", "--part", "1/2"], "--shard"),
        (&["index", "--anew"], "--rebuild"),
        (&["index", "--forget", "sounds"], "--remove-folder"),
        (
            &["embed", "a.wav", "--clip", "true", "-o", "a.npy"],
            "--clip-seconds",
        ),
        (
            &["models", "import", "a.pt", "--name", "a", "--clip", "2"],
            "--clip-seconds",
        ),
        (&["relevance", "distil", "--teacher", "x"], "hark models distil"),
    ];
    for (arguments, new) in cases {
        let output = place.run(arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(new), "{arguments:?}: {message}");
    }
}
