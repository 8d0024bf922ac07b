use std::sync::atomic::{AtomicUsize, Ordering};

use hark_encode::sentence::StaticEncoder;
use hark_soundscape as soundscape;
use hark_work::progress::no_progress;

use super::*;

const GB: u64 = 1_000_000_000;

/// A folder with Clotho's layout and a recipe of small towers that trains on it.
struct Place {
    folder: tempfile::TempDir,
    recipe: Recipe,
    trainings: Trainings,
}

/// Twenty, one after the other.
const TWENTY: Trainings = Trainings {
    count: 20,
    at_a_time: 1,
    kept: Kept::Model,
    allow_missing: false,
};

impl Place {
    fn new(set: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hark/tests/recipes/tiny.toml");
        let set: Vec<String> = set.iter().map(ToString::to_string).collect();
        let mut recipe = Recipe::read(&path, &set).unwrap();
        let config = recipe.soundscapes.take().unwrap();
        let sounds = folder.path().join("sounds");
        soundscape::generate(&config, &sounds, 2, &no_progress).unwrap();
        let recipe = recipe.with_soundscapes_at(&sounds);
        Self {
            folder,
            recipe,
            trainings: TWENTY,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn names(&self) -> Vec<std::ffi::OsString> {
        let entries = fs_err::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    fn clip(&self, split: &str, name: &str) -> PathBuf {
        self.path("sounds").join(split).join(name)
    }

    fn run(&self) -> PathBuf {
        self.folder.path().join("runs/tiny")
    }

    fn rehearse(&self, machine: Machine<'_>) -> Result<Rehearsed, Error> {
        self.rehearse_with(machine, &|_| ControlFlow::Continue(()))
    }

    fn rehearse_with(&self, machine: Machine<'_>, on_event: OnEvent<'_>) -> Result<Rehearsed, Error> {
        let compute = Compute::cpu(1);
        // A model is named by its folder.
        let model = |name: &str| match Path::new(name) {
            folder if folder.is_dir() => Ok(folder.to_owned()),
            _ => Err(Error::Model {
                what: format!("no model {name}"),
            }),
        };
        let sentence_encoder = |name: &str| match name {
            BUILT_IN => Ok(SentenceModel::Static(Box::new(
                StaticEncoder::built_in().unwrap(),
            ))),
            folder if Path::new(folder).is_dir() => {
                SentenceModel::open(Path::new(folder)).map_err(Error::from)
            }
            other => Err(Error::Model {
                what: format!("no encoder {other}"),
            }),
        };
        let cache = self.folder.path().join("cache");
        let run = self.run();
        let training = Training {
            recipe: self.recipe.clone(),
            run: &run,
            resume: false,
            workers: 2,
            compute: &compute,
            models: Models {
                folder: &model,
                sentence_encoder: &sentence_encoder,
            },
            tokenizer: None,
            cache: Some(&cache),
            embeddings: None,
            written_by: "a test",
            unchecked: false,
        };
        let rehearsal = Rehearsal {
            training,
            trainings: self.trainings,
            device: None,
            machine,
        };
        let before = self.names();
        let rehearsed = rehearse(rehearsal, on_event);
        assert_eq!(self.names(), before, "a rehearsal leaves nothing behind");
        rehearsed
    }
}

/// More than enough of everything.
fn ample() -> Machine<'static> {
    Machine {
        free_memory: &|| Some(100 * GB),
        used_memory: &|| Some(GB),
        free_disk: &|_| Some(1000 * GB),
    }
}

fn kinds(rehearsed: &Rehearsed) -> Vec<Kind> {
    rehearsed.findings.iter().map(|finding| finding.kind).collect()
}

#[test]
fn a_training_that_lacks_nothing_is_ready() {
    let place = Place::new(&[]);
    let rehearsed = place.rehearse(ample()).unwrap();
    assert!(rehearsed.is_ready(), "{:?}", rehearsed.findings);
    let steps = rehearsed.steps.as_ref().unwrap();
    assert_eq!((steps.seconds.len(), steps.pairs, steps.chunk), (3, 4, 4));
    assert!(steps.checkpoint_bytes > steps.model_bytes && steps.cache_bytes > 0);
    assert!(steps.resume_seconds > 0.0 && steps.validation_seconds > 0.0);
    let estimate = rehearsed.estimate.as_ref().unwrap();
    // 120 pairs in batches of four, two of which make a step; three epochs.
    assert_eq!(estimate.steps, 45);
    assert!(estimate.all_hours > 10.0 * estimate.hours);
    assert_eq!(rehearsed.teacher.as_ref().unwrap().captions, 120);
    let text = rehearsed.to_string();
    assert!(
        text.ends_with("\nready\n") && text.contains("24 clips, 120 captions"),
        "{text}"
    );
    assert!(text.contains("20 trainings one after the other"), "{text}");
}

/// All that is missing is told at once, and the steps are taken all the same.
#[test]
fn a_missing_folder_and_missing_models_are_all_found() {
    let mut place = Place::new(&["objective.sentence-encoder=all-mpnet-base-v2"]);
    let gone = place.folder.path().join("gone");
    place.recipe.data.train = vec![DatasetConfig::Clotho {
        root: gone.clone(),
        split: "development".into(),
    }];
    place.recipe.data.validation = vec![DatasetConfig::Clotho {
        root: "clotho".into(),
        split: "validation".into(),
    }];
    place.recipe.audio.as_mut().unwrap().weights = Some("passt-s".into());
    place.recipe.text.as_mut().unwrap().weights = Some("roberta-large".into());
    let rehearsed = place.rehearse(ample()).unwrap();
    let expected = [
        Kind::Dataset,
        Kind::Dataset,
        Kind::Weights,
        Kind::Weights,
        Kind::SentenceEncoder,
    ];
    assert_eq!(kinds(&rehearsed), expected, "{:?}", rehearsed.findings);
    let found = |nth: usize| &rehearsed.findings[nth];
    assert!(
        found(0).what.contains(&gone.display().to_string()),
        "{:?}",
        found(0)
    );
    assert!(found(1).remedy.contains("hark data add clotho"), "{:?}", found(1));
    assert!(
        found(2).remedy.contains("hark models pull passt-s"),
        "{:?}",
        found(2)
    );
    assert_eq!(rehearsed.random_weights, ["passt-s", "roberta-large"]);
    assert!(rehearsed.teacher.as_ref().unwrap().stands_in);
    // Generated clips as long as Clotho's, and as many as it has.
    let train = &rehearsed.splits[0];
    assert!(train.generated && train.mean_seconds > 15.0 && train.mean_seconds < 30.0);
    assert_eq!((train.clips, train.captions), (Some(3839), Some(19_195)));
    assert_eq!(rehearsed.steps.as_ref().unwrap().seconds.len(), 3);
    assert!(rehearsed.estimate.is_some());
    let text = rehearsed.to_string();
    assert!(!text.contains("\nready") && text.contains("  5. "), "{text}");
    assert!(
        text.contains("\nweights           random, in place of passt-s\n"),
        "{text}"
    );
    assert!(
        text.contains("\nsentence encoder  caption-static (stands in): "),
        "{text}"
    );
}

#[test]
fn a_broken_clip_and_a_missing_one_are_found() {
    let place = Place::new(&[]);
    let clip = |name: &str| place.folder.path().join("sounds/development").join(name);
    let bytes = fs_err::read(clip("development_00003.flac")).unwrap();
    fs_err::write(clip("development_00003.flac"), &bytes[..bytes.len() / 2]).unwrap();
    fs_err::remove_file(clip("development_00005.flac")).unwrap();
    let rehearsed = place.rehearse(ample()).unwrap();
    assert_eq!(kinds(&rehearsed), [Kind::Recording, Kind::Recording]);
    let found = [&rehearsed.findings[0].what, &rehearsed.findings[1].what];
    assert!(
        found[0].contains("1 of 24 recordings missing") && found[0].contains("development_00005"),
        "{found:?}"
    );
    assert!(
        found[1].contains("1 of 23") && found[1].contains("development_00003"),
        "{found:?}"
    );
    assert!(rehearsed.steps.is_some());
}

#[test]
fn too_little_memory_for_the_parameters_is_found_before_a_step() {
    let place = Place::new(&[]);
    let little = Machine {
        free_memory: &|| Some(1000),
        ..ample()
    };
    let rehearsed = place.rehearse(little).unwrap();
    assert_eq!(kinds(&rehearsed), [Kind::Memory]);
    assert!(
        rehearsed.findings[0].what.contains("no step was tried"),
        "{:?}",
        rehearsed.findings
    );
    assert!(rehearsed.steps.is_none());
}

/// Every look at the memory of the process sees a gigabyte more: far more than is free, by the second look.
#[test]
fn too_little_memory_for_the_recipes_chunk_is_found_and_a_smaller_one_named() {
    let place = Place::new(&["training.batch=8"]);
    let looks = AtomicUsize::new(0);
    let little = Machine {
        free_memory: &|| Some(GB / 2),
        used_memory: &|| Some(looks.fetch_add(1, Ordering::Relaxed) as u64 * GB),
        ..ample()
    };
    let rehearsed = place.rehearse(little).unwrap();
    assert_eq!(kinds(&rehearsed), [Kind::Memory]);
    let found = &rehearsed.findings[0];
    assert!(found.what.contains("chunks of 8 pairs"), "{found:?}");
    assert!(found.remedy.contains("gradient-checkpointing"), "{found:?}");
    // The recipe's own chunk was not tried.
    assert_eq!(rehearsed.steps.as_ref().unwrap().chunk, 2);
}

#[test]
fn too_little_disk_is_found_before_and_after_the_steps() {
    let place = Place::new(&[]);
    let full = Machine {
        free_disk: &|_| Some(1000),
        ..ample()
    };
    let rehearsed = place.rehearse(full).unwrap();
    assert_eq!(kinds(&rehearsed), [Kind::Disk]);
    assert!(rehearsed.steps.is_none() && rehearsed.findings[0].what.contains("no step was tried"));
    // Enough for a checkpoint, and not for the models of twenty trainings.
    let small = Machine {
        free_disk: &|_| Some(1 << 20),
        ..ample()
    };
    let rehearsed = place.rehearse(small).unwrap();
    assert_eq!(kinds(&rehearsed), [Kind::Disk], "{:?}", rehearsed.findings);
    assert!(rehearsed.steps.is_some() && rehearsed.findings[0].what.starts_with("runs will need"));
    // The cache on a disk of its own.
    let cache_is_full = Machine {
        free_disk: &|folder| Some(if folder.ends_with("cache") { 1 } else { GB }),
        ..ample()
    };
    let rehearsed = place.rehearse(cache_is_full).unwrap();
    assert!(
        rehearsed.findings[0].what.starts_with("cache will need"),
        "{:?}",
        rehearsed.findings
    );
}

#[test]
fn a_set_that_is_smaller_than_a_step_is_found() {
    let place = Place::new(&["training.batch=100"]);
    let rehearsed = place.rehearse(ample()).unwrap();
    assert_eq!(kinds(&rehearsed), [Kind::Training], "{:?}", rehearsed.findings);
    assert!(
        rehearsed.findings[0].what.contains("fewer than the 200"),
        "{:?}",
        rehearsed.findings
    );
}

#[test]
fn a_rehearsal_can_be_cancelled_at_any_event() {
    let place = Place::new(&[]);
    let count = AtomicUsize::new(0);
    let counting = |_: TrainEvent<'_>| {
        count.fetch_add(1, Ordering::Relaxed);
        ControlFlow::Continue(())
    };
    place.rehearse_with(ample(), &counting).unwrap();
    let all = count.into_inner();
    for stop in (0..all * 3 / 4).step_by((all / 12).max(1)) {
        let left = AtomicUsize::new(stop);
        let stopping =
            |_: TrainEvent<'_>| match left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
            {
                Ok(_) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            };
        let stopped = place.rehearse_with(ample(), &stopping);
        assert!(
            matches!(stopped, Err(Error::Cancelled)),
            "event {stop} of {all}: {stopped:?}"
        );
    }
}

#[test]
fn what_a_killed_rehearsal_left_is_replaced_and_other_folders_are_not() {
    let place = Place::new(&[]);
    let left = place.path("runs/tiny.rehearsal");
    fs_err::create_dir_all(left.join("run")).unwrap();
    fs_err::write(left.join("mine"), "x").unwrap();
    let run = place.run();
    assert!(matches!(Scratch::beside(&run), Err(Error::NotARehearsal { .. })));
    fs_err::write(left.join(MARK), "").unwrap();
    let scratch = Scratch::beside(&run).unwrap();
    assert!(!left.join("mine").exists() && !left.join("run").exists());
    drop(scratch);
    assert!(!left.exists() && left.parent().unwrap().exists());
    fs_err::remove_dir(left.parent().unwrap()).unwrap();
    drop(Scratch::beside(&run).unwrap());
    assert!(
        !left.parent().unwrap().exists(),
        "folders that it made are removed as well"
    );
}

#[test]
fn a_second_rehearsal_of_a_run_is_refused_and_harms_nothing() {
    let place = Place::new(&[]);
    let run = place.run();
    let first = Scratch::beside(&run).unwrap();
    fs_err::write(first.folder.join("checkpoint"), "x").unwrap();
    // A slash at the end means the same run.
    for run in [run.clone(), run.join("")] {
        match Scratch::beside(&run) {
            Err(Error::InUse { path }) => assert_eq!(path, place.path("runs/tiny.rehearsal")),
            other => panic!("{other:?}"),
        }
    }
    assert!(first.folder.join("checkpoint").exists() && !run.exists());
    drop(first);
    drop(Scratch::beside(&run).unwrap());
}

/// Nothing is ready that has not taken a step.
#[test]
fn a_model_that_a_training_cannot_start_from_is_found() {
    let mut place = Place::new(&[]);
    let start = place.path("start");
    fs_err::create_dir(&start).unwrap();
    (place.recipe.audio, place.recipe.text) = (None, None);
    place.recipe.training.init_from = Some(start.display().to_string());
    let found = |place: &Place| {
        let rehearsed = place.rehearse(ample()).unwrap();
        assert!(rehearsed.steps.is_none() && !rehearsed.is_ready());
        assert_eq!(rehearsed.findings.len(), 1, "{:?}", rehearsed.findings);
        rehearsed.findings[0].clone()
    };
    let finding = found(&place);
    assert!(
        finding.kind == Kind::Weights && finding.what.contains("card.json"),
        "{finding:?}"
    );
    let whole = network::tests::tiny_card(&network::tests::recipe(&[]));
    let write = |card: &hark_encode::card::Card| {
        fs_err::write(start.join("card.json"), serde_json::to_vec(card).unwrap()).unwrap();
    };
    let mut audio_only = whole.clone();
    audio_only.text = None;
    write(&audio_only);
    let finding = found(&place);
    assert!(
        finding.kind == Kind::Weights && finding.what.contains("no text tower"),
        "{finding:?}"
    );
    // Its norms take the statistics of the batch, which chunks have not.
    let mut mn = whole;
    if let Some(audio) = &mut mn.audio {
        let tower = serde_json::json!({ "tower": "mn", "width": 0.1, "mels": 32, "statistics": "batch" });
        audio.side.network = serde_json::from_value(tower).unwrap();
    }
    write(&mn);
    place.recipe.training.chunk = Some(2);
    let finding = found(&place);
    assert!(
        finding.kind == Kind::Training && finding.what.contains("training.chunk"),
        "{finding:?}"
    );
}

/// AudioCaps with ten recordings of two captions, of which so many are there.
fn audiocaps(place: &Place, there: usize) -> DatasetConfig {
    let root = place.path("audiocaps");
    let audio = root.join("train");
    fs_err::create_dir_all(&audio).unwrap();
    let mut table = "audiocap_id,youtube_id,start_time,caption\n".to_owned();
    for nth in 0..20 {
        let clip = nth / 2;
        table += &format!("{nth},video{clip},0,sound {nth} of a clip\n");
        let path = audio.join(format!("video{clip}_0.flac"));
        if clip < there {
            let from = place.clip("development", &format!("development_{:05}.flac", clip + 1));
            fs_err::copy(from, path).unwrap();
        } else if path.exists() {
            fs_err::remove_file(path).unwrap();
        }
    }
    fs_err::write(root.join("train.csv"), table).unwrap();
    DatasetConfig::Audiocaps {
        root,
        split: "train".into(),
        audio: None,
    }
}

#[test]
fn some_recordings_of_audiocaps_may_have_disappeared_and_not_most() {
    let mut place = Place::new(&["training.gradient-accumulation=1"]);
    place.recipe.data.train = vec![audiocaps(&place, 8)];
    let rehearsed = place.rehearse(ample()).unwrap();
    assert!(rehearsed.is_ready(), "{:?}", rehearsed.findings);
    audiocaps(&place, 7);
    let rehearsed = place.rehearse(ample()).unwrap();
    assert_eq!(kinds(&rehearsed), [Kind::Recording]);
    let what = &rehearsed.findings[0].what;
    assert!(what.contains("3 of 10 recordings missing"), "{what}");
    // A strict training refuses a single one.
    audiocaps(&place, 9);
    place.recipe.data.strict = true;
    let rehearsed = place.rehearse(ample()).unwrap();
    assert_eq!(kinds(&rehearsed), [Kind::Recording]);
    let what = &rehearsed.findings[0].what;
    assert!(what.contains("1 of 10 recordings missing"), "{what}");
}

#[test]
fn test_recordings_may_be_missing_where_that_is_allowed_and_the_training_not_strict() {
    let mut place = Place::new(&[]);
    fs_err::remove_file(place.clip("evaluation", "evaluation_00003.flac")).unwrap();
    assert_eq!(kinds(&place.rehearse(ample()).unwrap()), [Kind::Recording]);
    place.trainings.allow_missing = true;
    let rehearsed = place.rehearse(ample()).unwrap();
    assert!(rehearsed.is_ready(), "{:?}", rehearsed.findings);
    place.recipe.data.strict = true;
    assert_eq!(kinds(&place.rehearse(ample()).unwrap()), [Kind::Recording]);
    (place.recipe.data.strict, place.trainings.allow_missing) = (false, false);
    place.recipe.data.max_missing_test = 1;
    assert!(place.rehearse(ample()).unwrap().is_ready());
}

#[test]
fn a_sentence_encoder_that_fails_is_found_and_another_stands_in() {
    let mut place = Place::new(&[]);
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../encode/tests/golden/bert-tiny");
    let cut = place.path("cut-short");
    fs_err::create_dir_all(cut.join("1_Pooling")).unwrap();
    for name in [
        "config.json",
        "modules.json",
        "sentence_bert_config.json",
        "1_Pooling/config.json",
        "model.safetensors",
        "tokenizer.json",
    ] {
        let bytes = fs_err::read(golden.join(name)).unwrap();
        let length = if name == "tokenizer.json" {
            bytes.len() / 2
        } else {
            bytes.len()
        };
        fs_err::write(cut.join(name), &bytes[..length]).unwrap();
    }
    place.recipe.objective.sentence_encoder = cut.display().to_string();
    let rehearsed = place.rehearse(ample()).unwrap();
    assert_eq!(
        kinds(&rehearsed),
        [Kind::SentenceEncoder],
        "{:?}",
        rehearsed.findings
    );
    assert!(
        rehearsed.findings[0].what.contains("tokenizer.json"),
        "{:?}",
        rehearsed.findings
    );
    let teacher = rehearsed.teacher.as_ref().unwrap();
    assert!(teacher.stands_in && teacher.name == BUILT_IN && rehearsed.steps.is_some());
}

#[test]
fn soundscapes_that_cannot_be_made_are_found_and_others_stand_in() {
    let mut place = Place::new(&[]);
    let recordings = soundscape::Recordings {
        folder: place.path("gone"),
        table: "table.csv".into(),
        train_folds: Vec::new(),
        validation_folds: Vec::new(),
        test_folds: Vec::new(),
    };
    place.recipe.soundscapes = Some(soundscape::Config {
        train: 24,
        validation: 8,
        test: 8,
        seconds: 1.0,
        recordings: Some(recordings),
        ..soundscape::Config::default()
    });
    let data = &mut place.recipe.data;
    (data.train, data.validation, data.test) = (Vec::new(), Vec::new(), Vec::new());
    let rehearsed = place.rehearse(ample()).unwrap();
    assert_eq!(kinds(&rehearsed), [Kind::Dataset], "{:?}", rehearsed.findings);
    let what = &rehearsed.findings[0].what;
    assert!(
        what.starts_with("soundscapes: ") && what.contains("gone"),
        "{what}"
    );
    let train = &rehearsed.splits[0];
    assert!(train.generated && (train.mean_seconds - 1.0).abs() < 0.01);
    assert_eq!((train.clips, train.captions), (Some(24), Some(120)));
    assert!(rehearsed.steps.is_some());
}

/// Steps of chunks of 2 and 4 are all that 16 pairs give to batches of 8.
#[test]
fn a_chunk_that_was_never_tried_is_not_called_measured() {
    let mut place = Place::new(&["training.batch=8", "training.gradient-accumulation=1"]);
    let mut table = "path,caption\n".to_owned();
    for nth in 1..=16 {
        let clip = place.clip("development", &format!("development_{nth:05}.flac"));
        table += &format!("{},sound number {nth}\n", clip.display());
    }
    let file = place.path("few.csv");
    fs_err::write(&file, table).unwrap();
    place.recipe.data.train = vec![DatasetConfig::Table {
        file,
        audio_folder: None,
        path_column: None,
        caption_columns: Vec::new(),
    }];
    let rehearsed = place.rehearse(ample()).unwrap();
    let steps = rehearsed.steps.as_ref().unwrap();
    assert_eq!((steps.seconds.len(), steps.chunk, steps.recipe_chunk), (2, 4, 8));
    assert!(!steps.memory_is_measured);
    let text = rehearsed.to_string();
    assert!(text.contains("chunks of 8 pairs need about"), "{text}");
    let enough = Place::new(&["training.batch=8", "training.gradient-accumulation=1"]);
    let rehearsed = enough.rehearse(ample()).unwrap();
    let steps = rehearsed.steps.as_ref().unwrap();
    assert!(steps.memory_is_measured && steps.chunk == 8);
}

/// What several trainings take: of those at work, and of those that are done.
#[test]
fn trainings_at_a_time_and_what_they_keep_are_counted() {
    let mut place = Place::new(&[]);
    for (at_a_time, kept) in [
        (1, Kept::Model),
        (4, Kept::All),
        (3, Kept::Nothing),
        (50, Kept::All),
    ] {
        place.trainings = Trainings {
            at_a_time,
            kept,
            ..TWENTY
        };
        let rehearsed = place.rehearse(ample()).unwrap();
        let (steps, estimate) = (
            rehearsed.steps.as_ref().unwrap(),
            rehearsed.estimate.as_ref().unwrap(),
        );
        let (checkpoint, model) = (steps.checkpoint_bytes, steps.model_bytes);
        let captions = 160 * rehearsed.teacher.as_ref().unwrap().dim as u64 * 2;
        let left = match kept {
            Kept::All => checkpoint + 2 * model + captions,
            Kept::Model => model,
            Kept::Nothing => 0,
        };
        let at_work = at_a_time.min(20);
        let expected = at_work * (2 * checkpoint + 3 * model + captions) + (20 - at_work) * left;
        assert_eq!(estimate.run_bytes, expected, "{kept:?}");
        // Captions, which are embedded once, take little of it.
        let rounds = estimate.all_hours / estimate.hours;
        let most = 20_u64.div_ceil(at_work) as f64;
        assert!(
            (0.8 * most..=most).contains(&rounds),
            "{rounds} rounds of {at_a_time} at a time"
        );
        let how = format!("20 trainings {at_a_time} at a time");
        let text = rehearsed.to_string();
        assert!(at_a_time == 1 || text.contains(&how), "{text}");
    }
    // Memory for one of the four, and not for all.
    place.trainings.at_a_time = 4;
    let parameters = place.rehearse(ample()).unwrap().steps.unwrap().parameters as u64;
    let little = Machine {
        free_memory: &|| Some(parameters * 16 * 2),
        ..ample()
    };
    let rehearsed = place.rehearse(little).unwrap();
    assert_eq!(kinds(&rehearsed), [Kind::Memory]);
    let what = &rehearsed.findings[0].what;
    assert!(what.contains("for each of 4 trainings at a time"), "{what}");
}

/// What the rehearsal itself has written is not missing, and what the cache holds is not needed again.
#[test]
fn nothing_is_counted_twice_on_a_disk() {
    let place = Place::new(&[]);
    let rehearsed = place.rehearse(ample()).unwrap();
    let (estimate, steps) = (rehearsed.estimate.unwrap(), rehearsed.steps.unwrap());
    let parameters = steps.parameters as u64;
    assert_eq!(estimate.cached_bytes, 0);
    let all = estimate.run_bytes + estimate.cache_bytes;
    let with = |free: u64| {
        let machine = Machine {
            free_disk: &|_| Some(free),
            ..ample()
        };
        place.rehearse(machine).unwrap()
    };
    let nearly = with(all - 1000);
    assert!(nearly.is_ready(), "{:?}", nearly.findings);
    // What one run alone needs, and no more.
    let short = with(28 * parameters);
    assert_eq!(kinds(&short), [Kind::Disk], "{:?}", short.findings);
    fs_err::create_dir(place.path("cache")).unwrap();
    fs_err::write(place.path("cache/clip"), vec![0; 1000]).unwrap();
    let cached = place.rehearse(ample()).unwrap();
    assert_eq!(cached.estimate.as_ref().unwrap().cached_bytes, 1000);
    let text = cached.to_string();
    assert!(text.contains(" (0.0 MB of it exists)\n"), "{text}");
    let machine = Machine {
        free_disk: &|folder| {
            Some(if folder.ends_with("cache") {
                estimate.cache_bytes - 1000
            } else {
                GB
            })
        },
        ..ample()
    };
    let rehearsed = place.rehearse(machine).unwrap();
    assert!(rehearsed.is_ready(), "{:?}", rehearsed.findings);
}
