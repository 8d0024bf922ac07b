use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

use super::*;
use hark_corpus::{CaptionSet, Format};

fn small() -> Config {
    Config {
        train: 14,
        validation: 6,
        test: 10,
        seconds: 1.5,
        rate: 16_000,
        ..Config::default()
    }
}

fn run(config: &Config, folder: &Path, threads: usize) -> Result<Generated, Error> {
    generate(config, folder, threads, &hark_work::progress::no_progress)
}

#[test]
fn other_settings_have_another_folder() {
    let place = Path::new("soundscapes");
    let folder = folder_for(&small(), place).unwrap();
    assert_eq!(folder, folder_for(&small(), place).unwrap());
    assert_eq!(folder.parent(), Some(place));
    let other = Config { seed: 2, ..small() };
    assert_ne!(folder, folder_for(&other, place).unwrap());
}

/// Every file below a folder with its bytes.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut out = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs_err::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                out.insert(name, fs_err::read(&path).unwrap());
            }
        }
    }
    out
}

fn scenes(config: &Config) -> Scenes {
    Scenes::draw(&Studio::open(config).unwrap()).unwrap()
}

#[test]
fn the_same_settings_give_the_same_bytes_on_any_number_of_threads() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let made = run(&small(), one.path(), 1).unwrap();
    run(&small(), two.path(), 2).unwrap();
    let files = contents(one.path());
    assert!(files == contents(two.path()));
    // Thirty clips, three tables of each split, one manifest.
    assert_eq!(files.len(), 30 + 9 + 1);
    assert_eq!((made.clips, made.captions), ([14, 6, 10], [70, 30, 50]));
    assert!(!made.reused && made.rendered == 30);
    let other = tempfile::tempdir().unwrap();
    run(&Config { seed: 2, ..small() }, other.path(), 2).unwrap();
    let others = contents(other.path());
    assert!(
        files
            .iter()
            .filter(|(name, _)| name.ends_with("flac"))
            .all(|(name, bytes)| others[name] != *bytes)
    );
}

#[test]
fn a_split_does_not_change_with_the_size_of_another() {
    let of = |config: &Config| -> Vec<Vec<String>> {
        scenes(config)
            .of(Split::Train)
            .iter()
            .map(|clip| clip.captions.iter().map(|caption| caption.text.clone()).collect())
            .collect()
    };
    assert_eq!(of(&small()), of(&Config { test: 90, ..small() }));
}

#[test]
fn clips_have_their_length_do_not_clip_and_are_not_silent() {
    for format in [AudioFormat::Flac, AudioFormat::Wav] {
        let config = Config {
            format,
            seconds: 2.0,
            ..small()
        };
        let folder = tempfile::tempdir().unwrap();
        run(&config, folder.path(), 2).unwrap();
        let studio = Studio::open(&config).unwrap();
        for (split, clip) in Scenes::draw(&studio).unwrap().clips() {
            let path = folder.path().join(clip_path(split, &clip.name));
            let sound = hark_audio::read(&path, config.rate, None).unwrap();
            assert_eq!(sound.samples.len(), 32_000);
            assert_eq!(sound.info.rate, config.rate);
            let peak = sound.samples.iter().fold(0.0, |peak, x| f32::max(peak, x.abs()));
            let planned = clip
                .plan
                .events
                .iter()
                .map(|event| event.level)
                .fold(-99.0, f64::max);
            let level = 20.0 * f64::from(peak).log10();
            assert!(peak < 0.999, "{}: {peak}", clip.name);
            // The loudest event is heard at its level, more or less what stands beside it (or, of quiet ones, the
            // noise behind it).
            assert!(
                (planned - 6.1..planned + 6.1).contains(&level),
                "{}: {level}, planned {planned}",
                clip.name
            );
        }
    }
}

#[test]
fn lengths_are_drawn_between_both_bounds_and_metadata_tells_them() {
    let config = Config {
        max_seconds: Some(2.5),
        truth: false,
        metadata: true,
        ..small()
    };
    let folder = tempfile::tempdir().unwrap();
    run(&config, folder.path(), 2).unwrap();
    let files = contents(folder.path());
    assert!(
        !files.keys().any(|name| name.starts_with("truth")),
        "{:?}",
        files.keys()
    );
    let metadata = String::from_utf8(files["clotho_metadata_development.csv"].clone()).unwrap();
    let mut lengths = HashSet::new();
    for clip in scenes(&config).of(Split::Train) {
        let path = folder.path().join("development").join(&clip.name);
        let samples = hark_audio::read(&path, config.rate, None).unwrap().samples.len();
        assert!((24_000..=40_000).contains(&samples), "{samples}");
        assert!(
            metadata.contains(&format!("[0, {samples}]")),
            "{samples}: {metadata}"
        );
        assert!(clip.plan.events.iter().all(|event| event.end <= clip.seconds));
        lengths.insert(samples);
    }
    assert!(lengths.len() > 10, "{lengths:?}");
    let same = tempfile::tempdir().unwrap();
    run(&config, same.path(), 1).unwrap();
    assert!(files == contents(same.path()));
}

#[test]
fn no_scene_stands_in_two_splits() {
    for config in [
        Config::default(),
        Config {
            kinds: 5,
            max_events: 2,
            repeat: 0.6,
            ..Config::default()
        },
        Config {
            attributes: vec![],
            kinds: 6,
            max_events: 2,
            ..Config::default()
        },
    ] {
        let scenes = scenes(&config);
        let of = |split| {
            scenes
                .of(split)
                .iter()
                .map(|clip| clip.description.clone())
                .collect::<HashSet<_>>()
        };
        let [train, validation, test] = Split::ALL.map(of);
        assert!(train.is_disjoint(&validation) && train.is_disjoint(&test) && validation.is_disjoint(&test));
    }
}

#[test]
fn wordings_are_disjoint_on_request_and_not_otherwise() {
    let texts = |config: &Config| {
        let scenes = scenes(config);
        Split::ALL.map(|split| {
            scenes
                .of(split)
                .iter()
                .flat_map(|clip| clip.captions.iter().map(|caption| caption.text.clone()))
                .collect::<HashSet<String>>()
        })
    };
    let config = Config {
        max_events: 1,
        attributes: vec![Attribute::Loudness],
        kinds: 8,
        ..Config::default()
    };
    let [train, validation, test] = texts(&config);
    assert!(!train.is_disjoint(&test) && !train.is_disjoint(&validation));
    for config in [config, Config::default()] {
        let [train, validation, test] = texts(&Config {
            disjoint_wording: true,
            ..config
        });
        assert!(train.is_disjoint(&test) && train.is_disjoint(&validation));
    }
}

#[test]
fn relevance_is_a_share_and_1_for_own_captions() {
    let scenes = scenes(&Config::default());
    for split in Split::ALL {
        let truth = scenes.truth(split);
        let clips = scenes.of(split);
        let mut partial = 0;
        for caption in 0..truth.captions() {
            assert!(truth.fully_relevant(caption).any(|clip| clip == caption / 5));
            for relevance in truth.of_caption(caption) {
                assert!((0.0..=1.0).contains(&relevance));
                partial += usize::from(relevance > 0.0 && relevance < 1.0);
            }
        }
        assert!(partial > clips.len());
    }
}

/// Relevance is 1 exactly where a plain reading of the caption finds nothing wrong, and 0 exactly where it finds nothing
/// of it in the clip.
#[test]
fn relevance_is_1_where_all_is_true_and_0_where_no_kind_sounds() {
    let scenes = scenes(&Config {
        repeat: 0.5,
        kinds: 6,
        ..Config::default()
    });
    let clips = scenes.of(Split::Train);
    let mut found = [0; 3];
    for caption in clips.iter().flat_map(|clip| &clip.captions).step_by(7) {
        let said = &caption.said;
        for clip in clips {
            let event = |kind: usize| clip.description.events.iter().find(|event| event.kind == kind);
            let attributes = |said: Attributes, real: Attributes| {
                (said.loudness.is_none() || said.loudness == real.loudness)
                    && (said.pace.is_none() || said.pace == real.pace)
                    && (said.pitch.is_none() || said.pitch == real.pitch)
                    && (said.count.is_none() || said.count == real.count)
            };
            // Relations by the clock, not by the description.
            let time = |kind: usize| {
                let number = clip
                    .description
                    .events
                    .iter()
                    .position(|event| event.kind == kind)?;
                Some((clip.plan.events[number].start, clip.plan.events[number].end))
            };
            let stands = |relation: &SaidRelation| {
                let kinds = [relation.first, relation.second].map(|event| said.events[event].kind);
                match (time(kinds[0]), time(kinds[1])) {
                    (Some(first), Some(second)) => match relation.relation {
                        Relation::Before => first.1 < second.0,
                        Relation::After => second.1 < first.0,
                        Relation::Overlap => first.0 < second.1 && second.0 < first.1,
                    },
                    _ => false,
                }
            };
            let all = said.events.iter().all(|said| {
                event(said.kind).is_some_and(|real| attributes(said.attributes, real.attributes))
            }) && said.relations.iter().all(stands);
            let none = said.events.iter().all(|said| event(said.kind).is_none());
            let relevance = relevance::relevance(said, &clip.description);
            assert_eq!(
                (relevance > 1.0 - 1e-9, relevance < 1e-9),
                (all, none),
                "{}",
                caption.text
            );
            found[if all {
                0
            } else if none {
                1
            } else {
                2
            }] += 1;
        }
    }
    assert!(found.iter().all(|&count| count > 1000), "{found:?}");
}

/// Same description, same truth; another sound.
#[test]
fn repeat_makes_captions_fit_more_clips_and_no_sound_twice() {
    let shared = |repeat: f64| {
        let config = Config {
            repeat,
            ..Config::default()
        };
        let truth = scenes(&config).truth(Split::Train);
        let more = (0..truth.captions())
            .filter(|&caption| truth.fully_relevant(caption).nth(1).is_some())
            .count();
        more as f64 / truth.captions() as f64
    };
    let shares = [0.0, 0.3, 0.8].map(shared);
    println!("captions with more than one wholly relevant clip: {shares:?}");
    assert!(
        shares[0] + 0.1 < shares[1] && shares[1] + 0.1 < shares[2],
        "{shares:?}"
    );
    assert!(shares[2] > 0.9, "{shares:?}");

    let config = Config {
        repeat: 1.0,
        max_events: 1,
        ..small()
    };
    let studio = Studio::open(&config).unwrap();
    let scenes = Scenes::draw(&studio).unwrap();
    let clips = scenes.of(Split::Train);
    assert!(clips.iter().all(|clip| clip.description == clips[0].description));
    let sounds: HashSet<Vec<i16>> = clips
        .iter()
        .map(|clip| studio.samples(Split::Train, clip).unwrap())
        .collect();
    assert_eq!(sounds.len(), clips.len());
}

#[test]
fn truth_comes_back_from_the_disk_as_it_was_computed() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config {
        captions: 3,
        ..small()
    };
    run(&config, folder.path(), 2).unwrap();
    let scenes = scenes(&config);
    for split in Split::ALL {
        let set = CaptionSet::read(&folder.path().join(split.captions_file()), &Format::Clotho).unwrap();
        let names: Vec<&str> = scenes.of(split).iter().map(|clip| clip.name.as_str()).collect();
        let texts: Vec<&str> = scenes
            .of(split)
            .iter()
            .flat_map(|clip| clip.captions.iter().map(|caption| caption.text.as_str()))
            .collect();
        assert_eq!(
            (
                set.clips.iter().map(String::as_str).collect::<Vec<_>>(),
                set.texts()
            ),
            (names, texts)
        );
        assert_eq!(Truth::read(folder.path(), split).unwrap(), scenes.truth(split));
        let lines = fs_err::read_to_string(folder.path().join(split.scenes_file())).unwrap();
        assert_eq!(lines.lines().count(), scenes.of(split).len());
        for (line, clip) in lines.lines().zip(scenes.of(split)) {
            let told: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(told["file_name"], clip.name);
            assert_eq!(told["events"].as_array().unwrap().len(), clip.plan.events.len());
            assert_eq!(told["captions"][2]["text"], clip.captions[2].text);
        }
    }
}

#[test]
fn a_complete_folder_is_left_alone_and_a_half_made_one_completed() {
    let folder = tempfile::tempdir().unwrap();
    let whole = tempfile::tempdir().unwrap();
    run(&small(), whole.path(), 2).unwrap();

    // Broken off on the way: no manifest of a whole set.
    let stop = |done: u64, total: u64| {
        assert_eq!(total, 30);
        if done >= 16 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let error = generate(&small(), folder.path(), 2, &stop).unwrap_err();
    assert!(matches!(error, Error::Cancelled), "{error}");
    assert!(!folder.path().join("soundscape.json").exists());
    // A file that a crash left half-written is not taken for a clip.
    fs_err::write(folder.path().join("evaluation/.hark-a1b2c3"), b"fLaC").unwrap();
    let made = run(&small(), folder.path(), 2).unwrap();
    assert_eq!((made.reused, made.rendered), (false, 14));
    assert!(contents(folder.path()) == contents(whole.path()));

    let made = run(&small(), folder.path(), 1).unwrap();
    assert_eq!((made.reused, made.rendered), (true, 0));
    // What somebody took away is made again.
    fs_err::remove_file(folder.path().join("validation/validation_00003.flac")).unwrap();
    fs_err::remove_file(folder.path().join("truth_evaluation.csv")).unwrap();
    let made = run(&small(), folder.path(), 1).unwrap();
    assert_eq!((made.reused, made.rendered), (false, 1));
    assert!(contents(folder.path()) == contents(whole.path()));
}

#[test]
fn folders_of_something_else_are_refused_and_left_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    run(&small(), folder.path(), 2).unwrap();
    let before = contents(folder.path());
    let error = run(&Config { seed: 5, ..small() }, folder.path(), 2).unwrap_err();
    assert!(matches!(error, Error::OtherSettings { .. }), "{error}");
    assert!(contents(folder.path()) == before);

    for (text, expected) in [
        ("{", "unexpected JSON"),
        ("[]", "unexpected JSON"),
        (r#"{"format":"other","version":1,"hash":"x"}"#, "other 1"),
        (
            r#"{"format":"hark-soundscape","version":9,"hash":"x"}"#,
            "hark-soundscape 9",
        ),
        (
            r#"{"format":"hark-soundscape","version":1,"hash":"x"}"#,
            "other settings",
        ),
    ] {
        for name in ["soundscape.json", "soundscape.part.json"] {
            let folder = tempfile::tempdir().unwrap();
            fs_err::write(folder.path().join(name), text).unwrap();
            let error = run(&small(), folder.path(), 1).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    let folder = tempfile::tempdir().unwrap();
    fs_err::write(folder.path().join("notes.txt"), "mine").unwrap();
    let error = run(&small(), folder.path(), 1).unwrap_err();
    assert!(matches!(error, Error::FolderNotEmpty { .. }), "{error}");
    assert_eq!(contents(folder.path()).len(), 1);
    let file = folder.path().join("notes.txt");
    assert!(matches!(
        run(&small(), &file, 1).unwrap_err(),
        Error::Open(_) | Error::Write(_)
    ));
}

#[test]
fn hostile_settings_make_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for config in [
        Config { train: 0, ..small() },
        Config {
            kinds: 1000,
            ..small()
        },
        Config {
            seconds: f64::NAN,
            ..small()
        },
        Config {
            test: usize::MAX,
            ..small()
        },
    ] {
        let error = run(&config, folder.path(), 1).unwrap_err();
        assert!(matches!(error, Error::Setting { .. }), "{error}");
    }
    assert!(contents(folder.path()).is_empty());
}

/// The words of a seed are part of the generator: whoever changes them gives it another number.
#[test]
fn captions_of_a_seed_stay_the_same() {
    let text: String = scenes(&Config::default())
        .clips()
        .flat_map(|(_, clip)| clip.captions.iter().map(|caption| caption.text.clone() + "\n"))
        .collect();
    let hash: String = Sha256::digest(&text)
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!((GENERATOR, hash.as_str()), (1, "0fd78502140d75c6"));
}

/// With one kind and nothing to say of it there is one scene, and so two splits without any.
#[test]
fn too_few_scenes_are_refused() {
    let config = Config {
        kinds: 1,
        max_events: 1,
        attributes: vec![],
        ..small()
    };
    let folder = tempfile::tempdir().unwrap();
    let error = run(&config, folder.path(), 1).unwrap_err();
    assert!(matches!(error, Error::TooFewScenes { .. }), "{error}");
}

/// Tones of three categories, in the manner of ESC's names and table.
fn recordings(folder: &Path, folds: u32, header: &str) -> Recordings {
    let mut table = format!("{header}\n");
    for fold in 1..=folds {
        for (class, category) in ["dog", "glass_breaking", "rain"].iter().enumerate() {
            for take in ["A", "B"] {
                let name = format!("{fold}-{}{class}-{take}-{class}.wav", 100 * fold);
                // Half a second of tone between silences.
                let samples: Vec<i16> = (0..32_000)
                    .map(|at| {
                        let tone = (f64::from(at) * 0.05 * (class + 1) as f64).sin() * 9000.0;
                        if (12_000..20_000).contains(&at) {
                            tone as i16
                        } else {
                            0
                        }
                    })
                    .collect();
                fs_err::write(folder.join(&name), wav(&samples, 16_000)).unwrap();
                table.push_str(&format!("{name},{category}\n"));
            }
        }
    }
    fs_err::write(folder.join("table.csv"), table).unwrap();
    Recordings {
        folder: folder.to_owned(),
        table: "table.csv".into(),
        ..Recordings::default()
    }
}

/// The folds of the recordings that each split's scenes use.
fn folds_used(folder: &Path) -> [HashSet<String>; 3] {
    Split::ALL.map(|split| {
        let lines = fs_err::read_to_string(folder.join(split.scenes_file())).unwrap();
        lines
            .lines()
            .flat_map(|line| {
                let told: serde_json::Value = serde_json::from_str(line).unwrap();
                let events = told["events"].as_array().unwrap().clone();
                events.into_iter().map(|event| {
                    let name = event["recording"].as_str().unwrap().to_owned();
                    name.split('-').next().unwrap().to_owned()
                })
            })
            .collect()
    })
}

fn set(of: &[&str]) -> HashSet<String> {
    of.iter().map(|&fold| fold.to_owned()).collect()
}

#[test]
fn events_are_cut_from_recordings_and_folds_kept_apart() {
    for (folds, expected) in [
        (5, [set(&["1", "2", "3"]), set(&["4"]), set(&["5"])]),
        (3, [set(&["1", "2"]), set(&["1", "2"]), set(&["3"])]),
    ] {
        let source = tempfile::tempdir().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let config = Config {
            train: 40,
            validation: 30,
            test: 20,
            recordings: Some(recordings(source.path(), folds, "filename,category")),
            ..small()
        };
        run(&config, folder.path(), 2).unwrap();
        assert_eq!(folds_used(folder.path()), expected);
        Truth::read(folder.path(), Split::Test).unwrap();
        let sound = hark_audio::read(
            &folder.path().join("evaluation/evaluation_00000.flac"),
            16_000,
            None,
        )
        .unwrap();
        let peak = sound.samples.iter().fold(0.0, |peak, x| f32::max(peak, x.abs()));
        assert!((0.02..0.999).contains(&peak), "{peak}");
    }
}

#[test]
fn folds_can_be_named_and_recordings_without_folds_are_parted_by_name() {
    let source = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let wish = Recordings {
        train_folds: vec![3],
        validation_folds: vec![1],
        test_folds: vec![2],
        ..recordings(source.path(), 3, "file_name,category")
    };
    let config = Config {
        recordings: Some(wish.clone()),
        ..small()
    };
    run(&config, folder.path(), 2).unwrap();
    assert_eq!(folds_used(folder.path()), [set(&["3"]), set(&["1"]), set(&["2"])]);

    let missing = Recordings {
        test_folds: vec![7],
        ..wish.clone()
    };
    let other = tempfile::tempdir().unwrap();
    let error = run(
        &Config {
            recordings: Some(missing),
            ..small()
        },
        other.path(),
        1,
    )
    .unwrap_err();
    assert!(
        matches!(
            error,
            Error::NoRecording {
                split: "evaluation",
                ..
            }
        ),
        "{error}"
    );

    // Names without folds.
    let mut table = "filename,category\n".to_owned();
    for (number, entry) in fs_err::read_dir(source.path()).unwrap().enumerate() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "wav") {
            let name = format!("sound{number}.wav");
            fs_err::rename(&path, source.path().join(&name)).unwrap();
            table.push_str(&format!("{name},{}\n", ["one", "two"][number % 2]));
        }
    }
    fs_err::write(source.path().join("table.csv"), table).unwrap();
    let wish = Recordings {
        folder: source.path().to_owned(),
        table: "table.csv".into(),
        ..Recordings::default()
    };
    let config = Config {
        recordings: Some(wish),
        max_events: 2,
        ..small()
    };
    run(&config, other.path(), 2).unwrap();
    let [train, validation, test] = folds_used(other.path());
    assert!(train.is_disjoint(&test) && train.is_disjoint(&validation) && validation.is_disjoint(&test));
}

#[test]
fn recordings_that_cannot_serve_are_refused() {
    let refused = |change: &dyn Fn(&Path), expected: &str| {
        let source = tempfile::tempdir().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let wish = recordings(source.path(), 3, "filename,category");
        change(source.path());
        let config = Config {
            recordings: Some(wish),
            ..small()
        };
        let error = run(&config, &folder.path().join("out"), 1)
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!folder.path().join("out").exists());
    };
    let silent = |source: &Path| {
        fs_err::write(source.join("1-1000-A-0.wav"), wav(&[0; 4000], 16_000)).unwrap();
    };
    refused(&silent, "silent");
    refused(
        &|source| fs_err::remove_file(source.join("1-1000-A-0.wav")).unwrap(),
        "1-1000-A-0.wav",
    );
    refused(
        &|source| fs_err::write(source.join("1-1000-A-0.wav"), "text").unwrap(),
        "unknown format",
    );
    let table =
        |text: &'static str| move |source: &Path| fs_err::write(source.join("table.csv"), text).unwrap();
    refused(&table(""), "no captions");
    refused(&table("filename,category\n"), "no captions");
    refused(&table("filename,kind\na.wav,dog\n"), "category");
    refused(&table("filename,category\n,dog\n"), "empty");
    refused(&table("filename,category\n../a.wav,dog\n"), "within the folder");
    refused(&table("filename,category\n/a.wav,dog\n"), "within the folder");
    refused(&table("filename,category\na.wav,dog\na.wav,cat\n"), "once");
    refused(&table("filename,category\na.wav,dog\n"), "max-events");
}
