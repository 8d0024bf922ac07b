//! Training through the program: stopped and resumed at any moment, on any number of workers, with the same bytes; what it
//! leaves behind; what it refuses.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::place::{Place, text};

fn tiny() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recipes/tiny.toml");
    path.display().to_string()
}

/// The arguments of a training of the tiny recipe in a folder of the place.
fn train<'a>(recipe: &'a str, run: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["train", recipe, "--run", run, "--threads", "2"], more].concat()
}

/// What a safetensors file says and holds. The order of what it says of itself is not part of it.
fn tensors(path: &Path) -> (Value, Vec<u8>) {
    let bytes = fs_err::read(path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    (header, bytes[8 + length..].to_vec())
}

/// Everything about a finished training that must be the same.
fn result(run: &Path) -> Vec<(Value, Vec<u8>)> {
    [
        "checkpoint.safetensors",
        "best/model.safetensors",
        "last/model.safetensors",
    ]
    .map(|name| tensors(&run.join(name)))
    .to_vec()
}

fn lines(run: &Path) -> Vec<Value> {
    let text = fs_err::read_to_string(run.join("metrics.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The losses of all steps and epochs, without times.
fn losses(run: &Path) -> Vec<(String, Value, Value)> {
    let of = |line: &Value| {
        let kind = line["kind"].as_str().unwrap().to_owned();
        (kind, line["batches"].clone(), line["loss"].clone())
    };
    lines(run).iter().map(of).collect()
}

#[test]
fn a_rehearsal_says_that_all_is_there_or_what_is_missing() {
    let place = Place::new();
    let recipe = tiny();
    let said = place.ok(&train(&recipe, "run", &["--rehearse"]));
    assert!(
        said.starts_with("rehearsal of tiny on cpu") && said.ends_with("\nready\n"),
        "{said}"
    );
    let missing = [
        "--rehearse",
        "--json",
        "--set",
        "data.train=[{kind=\"clotho\",root=\"clotho\",split=\"development\"}]",
        "--set",
        "text.weights=roberta-large",
    ];
    let output = place.run(&train(&recipe, "run", &missing));
    assert_eq!(output.status.code(), Some(1));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&said["ready"], &said["findings"][0]["kind"]),
        (&false.into(), &"dataset".into())
    );
    assert!(
        text(&output.stderr).contains("not ready: 2 problems found"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(said["steps"]["pairs"], 4, "the steps are taken all the same");
    assert!(!place.path("run").exists() && !place.path("run.rehearsal").exists());
    place.misused(&train(&recipe, "run", &["--rehearse", "--resume"]));
}

/// The rehearsal of a study takes the options that decide what the study takes.
#[test]
fn a_rehearsed_study_counts_its_jobs_and_what_it_keeps() {
    let place = Place::new();
    let recipe = tiny();
    let said = |more: &[&str]| {
        let study = [
            "reproduce",
            &recipe,
            "--seeds",
            "2",
            "--threads",
            "2",
            "--rehearse",
            "--json",
        ];
        place.json(&[study.as_slice(), more].concat())
    };
    let bytes = |said: &Value| said["estimate"]["run_bytes"].as_u64().unwrap();
    let checkpoint = |said: &Value| said["steps"]["checkpoint_bytes"].as_u64().unwrap();
    let one = said(&["--jobs", "1", "--keep", "none"]);
    assert_eq!(
        (&one["trainings"], &one["at_a_time"], &one["threads"]),
        (&8.into(), &1.into(), &2.into())
    );
    let all = said(&["--jobs", "1", "--keep", "all"]);
    assert!(bytes(&all) > bytes(&one) + 7 * checkpoint(&one));
    // Both towers start untrained: by default one training on each thread.
    let two = said(&["--keep", "none"]);
    assert_eq!((&two["at_a_time"], &two["threads"]), (&2.into(), &1.into()));
    assert_eq!(bytes(&two), 2 * bytes(&one));
    assert!(!place.path("studies").exists());
}

#[test]
fn a_run_leaves_models_logs_and_a_report() {
    let place = Place::new();
    let recipe = tiny();
    let said = place.ok(&train(&recipe, "run", &[]));
    assert!(
        said.contains("Objective `listnet-both`, seed 3") && said.contains("| text to audio |"),
        "{said}"
    );
    let run = place.path("run");
    assert_eq!(fs_err::read_to_string(run.join("report.md")).unwrap(), said);
    // 24 clips of 5 captions in batches of 4, two batches a step, three epochs.
    let lines = lines(&run);
    let count = |kind: &str| lines.iter().filter(|line| line["kind"] == kind).count();
    assert_eq!((count("step"), count("epoch")), (45, 3));
    let events = fs_err::read_dir(&run).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with("events.out.tfevents.")
    });
    assert_eq!(events.count(), 1);
    // What was found out on the way stands in the recipe: the tokenizer has as many tokens as it was allowed.
    let resolved = fs_err::read_to_string(run.join("recipe.toml")).unwrap();
    assert!(
        resolved.contains("vocabulary = 300") && resolved.contains("kind = \"clotho\""),
        "{resolved}"
    );
    let info = place.ok(&["models", "info", run.join("best").to_str().unwrap()]);
    assert!(
        info.contains("convolutional") && info.contains("soundscape") | info.contains("tiny"),
        "{info}"
    );
    let best = run.join("best");
    place.ok(&[
        "embed",
        "--text",
        "a dog barks",
        "--model",
        best.to_str().unwrap(),
        "-o",
        "query.npy",
    ]);
}

/// kill -9 at five moments of a chain of resumptions, and one of them by Ctrl-C: nothing shows in the end.
#[test]
fn killed_and_resumed_it_ends_with_the_same_bytes() {
    let place = Place::new();
    let recipe = tiny();
    let since = Instant::now();
    place.ok(&train(&recipe, "whole", &[]));
    let whole = since.elapsed();
    let mut kills = 0;
    // On a machine that was busy during the whole training and is not now, the first parts may come too late: then earlier ones.
    let mut earlier = 1.0;
    // Parts of the time of a whole training, from a table of random digits; later ones begin where earlier ones ended.
    for (nth, part) in [0.31, 0.47, 0.22, 0.58, 0.39, 0.64, 0.27, 0.52]
        .into_iter()
        .enumerate()
    {
        let begun = place.path("stopped").join("recipe.toml").exists();
        let more: &[&str] = if begun { &["--resume"] } else { &[] };
        let mut child = place
            .command(&train(&recipe, "stopped", more))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let until = Instant::now() + whole.mul_f64(part * earlier);
        let mut ended = false;
        while Instant::now() < until && !ended {
            ended = child.try_wait().unwrap().is_some();
            std::thread::sleep(Duration::from_millis(2));
        }
        if ended {
            if kills == 0 {
                fs_err::remove_dir_all(place.path("stopped")).unwrap();
            }
            earlier /= 2.0;
            continue;
        }
        if nth == 2 {
            let pid = child.id().to_string();
            assert!(
                std::process::Command::new("kill")
                    .args(["-INT", &pid])
                    .status()
                    .unwrap()
                    .success()
            );
        } else {
            child.kill().unwrap();
            kills += 1;
        }
        child.wait().unwrap();
    }
    let begun = place.path("stopped").join("recipe.toml").exists();
    let more: &[&str] = if begun { &["--resume"] } else { &[] };
    place.ok(&train(&recipe, "stopped", more));
    assert!(kills >= 1, "the training was too short to be stopped");
    assert_eq!(result(&place.path("whole")), result(&place.path("stopped")));
    assert_eq!(losses(&place.path("whole")), losses(&place.path("stopped")));
}

#[test]
fn neither_workers_nor_a_second_time_change_a_byte() {
    let place = Place::new();
    let recipe = tiny();
    place.ok(&train(&recipe, "one", &["--workers", "1"]));
    place.ok(&train(&recipe, "two", &["--workers", "2"]));
    place.ok(&train(
        &recipe,
        "again",
        &["--workers", "2", "--set", "data.cache-gigabytes=0.0"],
    ));
    let one = result(&place.path("one"));
    assert_eq!(one, result(&place.path("two")));
    // Without the cache of decoded recordings the numbers are the same; what the run says of itself differs nowhere.
    assert_eq!(one, result(&place.path("again")));
    place.ok(&train(&recipe, "other", &["--set", "seed=4"]));
    assert_ne!(one[1].1, result(&place.path("other"))[1].1);
}

/// What `train` says of the test split is what `eval` says of the model that it leaves, to the last digit: with one
/// segment a clip and several, with towers that learn and frozen ones.
#[test]
fn train_and_eval_give_the_same_figures() {
    let place = Place::new();
    let recipe = tiny();
    let several = [
        "--set",
        "audio.clip={length=\"true\"}",
        "--set",
        "audio.segment-seconds=0.7",
    ];
    // A frozen tower sees clips without masks.
    let text = fs_err::read_to_string(&recipe).unwrap();
    let unmasked = text.lines().filter(|line| !line.starts_with("masking"));
    let unmasked = place.write("unmasked.toml", unmasked.collect::<Vec<_>>().join("\n"));
    let freeze = ["--set", "training.freeze=[\"audio.tower\",\"text.tower\"]"];
    for (run, recipe, more) in [
        ("plain", &recipe, vec![]),
        ("several", &recipe, several.to_vec()),
        ("frozen", &unmasked, [&several[..], &freeze].concat()),
    ] {
        let trained = place.json(&train(recipe, run, &[&more[..], &["--json"]].concat()));
        let evaluated = place.json(&["eval", run, "--json", "--threads", "1"]);
        let test = &trained["test"];
        assert_eq!(
            (&test["clips"], &test["captions"]),
            (&evaluated["clips"], &evaluated["captions"])
        );
        for (nth, direction) in ["text_to_audio", "audio_to_text"].into_iter().enumerate() {
            let judged = &evaluated["judgements"][nth];
            assert_eq!(judged["direction"], direction.replace('_', "-"));
            for (of_train, of_eval) in [
                (&test[direction], &judged["mean"]),
                (&test["chance"][direction], &judged["chance"]),
            ] {
                let figures = of_train.as_object().unwrap();
                assert_eq!(figures.len(), 8);
                assert!(figures["map_10"].as_f64().unwrap() > 0.0);
                for (name, figure) in figures {
                    let name = if name == "map_10" { "map" } else { name };
                    assert!(figure.is_number(), "{run} {name}");
                    assert_eq!(figure, &of_eval[name], "{run}, {direction}, {name}");
                }
            }
        }
    }
}

/// A run whose recipe was written before keys were renamed is resumed and evaluated; a recipe with such keys is refused.
#[test]
fn old_keys_are_read_in_runs_and_refused_in_recipes() {
    let place = Place::new();
    let recipe = tiny();
    let said = place.ok(&train(&recipe, "run", &[]));
    let old = |text: String| {
        let keys = [
            ("max-grad-norm", "clip-norm"),
            ("gradient-accumulation", "accumulate"),
            ("lr-multipliers", "rates"),
            ("pre-emphasis", "pre_emphasis"),
            ("decay-epochs", "end"),
        ];
        keys.into_iter().fold(text, |text, (new, old)| {
            assert!(text.contains(new), "{new}: {text}");
            text.replace(new, old)
        })
    };
    let resolved = place.path("run/recipe.toml");
    fs_err::write(&resolved, old(fs_err::read_to_string(&resolved).unwrap())).unwrap();
    assert_eq!(place.ok(&train(&recipe, "run", &["--resume"])), said);
    place.ok(&["eval", "run"]);
    let own = place.write("own.toml", old(fs_err::read_to_string(&recipe).unwrap()));
    let refused = place.fails(&train(&own, "other", &[]));
    assert!(
        refused.contains("`training.rates` is now `training.lr-multipliers`")
            && refused.contains("`audio.front-end.pre_emphasis` is now `audio.front-end.pre-emphasis`"),
        "{refused}"
    );
}

#[test]
fn frozen_towers_learn_from_features_and_stay_as_they_are() {
    let place = Place::new();
    let recipe = tiny();
    place.ok(&train(&recipe, "base", &[]));
    let from = format!("training.init-from={}", place.path("base/best").display());
    let own = place.path("own.toml");
    let table = place.path("pairs.csv");
    let sounds = soundscapes(&place);
    let captions = fs_err::read_to_string(sounds.join("clotho_captions_development.csv")).unwrap();
    let rows = captions.lines().skip(1).map(|line| {
        let mut fields = line.splitn(3, ',');
        format!("{},{}", fields.next().unwrap(), fields.next().unwrap())
    });
    let rows: Vec<String> = rows.collect();
    fs_err::write(&table, format!("path,caption\n{}\n", rows.join("\n"))).unwrap();
    let set = format!(
        "{{ kind = \"table\", file = {:?}, audio-folder = {:?} }}",
        table,
        sounds.join("development")
    );
    fs_err::write(
        &own,
        format!(
            "name = \"own\"\n[data]\ntrain = [{set}]\nvalidation = [{set}]\n[objective]\nname = \"infonce\"\n\
             [training]\nbatch = 8\nepochs = 4\nfreeze = [\"audio.tower\", \"text.tower\"]\nreinitialize = [\"audio.projection\", \"text.projection\"]\n\
             schedule = {{ lr = 1e-2, min-lr = 1e-3, warmup-epochs = 1.0, decay-epochs = 4.0 }}\n"
        ),
    )
    .unwrap();
    let own = own.display().to_string();
    place.ok(&train(&own, "heads", &["--set", &from]));
    let (_, base) = tensors(&place.path("base/best/model.safetensors"));
    let weights = |run: &str, part: &str| -> Vec<Vec<u8>> {
        let (header, bytes) = tensors(&place.path(run));
        let header = header.as_object().unwrap();
        let named = header.iter().filter(|(name, _)| name.contains(part));
        named
            .map(|(_, tensor)| {
                let at = |nth: usize| tensor["data_offsets"][nth].as_u64().unwrap() as usize;
                bytes[at(0)..at(1)].to_vec()
            })
            .collect()
    };
    assert!(!base.is_empty());
    for (part, same) in [(".tower.", true), (".projection.", false)] {
        let before = weights("base/best/model.safetensors", part);
        let after = weights("heads/last/model.safetensors", part);
        assert!(!before.is_empty());
        assert_eq!(before == after, same, "{part}");
    }
    let losses = lines(&place.path("heads"));
    let epochs: Vec<f64> = losses
        .iter()
        .filter(|line| line["kind"] == "epoch")
        .map(|line| line["loss"].as_f64().unwrap())
        .collect();
    assert!(epochs.last() < epochs.first(), "{epochs:?}");
    // A second training finds the features.
    let features = place.path("home/training/features");
    let count = || fs_err::read_dir(&features).unwrap().count();
    let before = count();
    place.ok(&train(&own, "again", &["--set", &from]));
    assert!(before >= 2 && count() == before);
    assert_eq!(result(&place.path("heads")), result(&place.path("again")));
}

#[test]
fn a_loss_that_is_no_number_stops_it_and_leaves_the_batch() {
    let place = Place::new();
    let recipe = tiny();
    // Steps so large that everything overflows.
    let change = [
        "--set",
        "training.schedule.lr=1e38",
        "--set",
        "training.schedule.warmup-epochs=0.0",
    ];
    let said = place.fails(&train(&recipe, "broken", &change));
    assert!(
        said.contains("broken-batch.json")
            && said.contains("the loss or its gradients are not finite (loss "),
        "{said}"
    );
    let saved = fs_err::read_to_string(place.path("broken/broken-batch.json")).unwrap();
    let saved: Value = serde_json::from_str(&saved).unwrap();
    let pairs = saved["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 4);
    assert!(
        pairs
            .iter()
            .all(|pair| pair["caption"].is_string() && pair["clip"].is_string())
    );
    // Nothing of it is taken for a model.
    assert!(!place.path("broken/best").exists() && !place.path("broken/report.md").exists());
}

/// The folder of soundscapes that the tiny recipe made.
fn soundscapes(place: &Place) -> PathBuf {
    let mut folders = fs_err::read_dir(place.path("home/soundscapes")).unwrap();
    folders.next().unwrap().unwrap().path()
}

#[test]
fn what_cannot_be_trained_is_refused() {
    let place = Place::new();
    let recipe = tiny();
    place.ok(&train(&recipe, "run", &["--set", "training.epochs=1"]));
    let check = |arguments: &[&str], expected: &[&str]| {
        let said = place.fails(arguments);
        for expected in expected {
            assert!(said.contains(expected), "{arguments:?}: {said}");
        }
    };
    let set = |change: &'static str| {
        [
            "train".to_owned(),
            recipe.clone(),
            "--run".into(),
            "new".into(),
            "--set".into(),
            change.into(),
        ]
    };
    for (change, expected) in [
        ("training.epoks=3", "did you mean `epochs`?"),
        ("training.batch=1", "at least 2"),
        ("training.batch=500", "fewer than the 1000"),
        ("training.freeze=[\"audio.towr\"]", "audio.towr"),
        ("objective.sentence-encoder=no-such-model", "no-such-model"),
        ("text.max-tokens=64", "at most 32"),
        ("audio.network.mels=64", "log-mels"),
        ("audio.segment-seconds=0.001", "audio.segment-seconds"),
        ("training.init-from=nowhere", "nowhere"),
        ("data.train=[{kind=\"folder\",root=\"missing\"}]", "missing"),
    ] {
        let arguments = set(change);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        check(&arguments, &[expected]);
        assert!(!place.path("new/checkpoint.safetensors").exists());
        let _ = fs_err::remove_dir_all(place.path("new"));
    }
    check(&train(&recipe, "run", &[]), &["--resume"]);
    check(
        &train(&recipe, "elsewhere", &["--resume"]),
        &["holds no training"],
    );
    let other = [
        "--resume",
        "--set",
        "audio.network.width=24",
        "--set",
        "training.epochs=1",
    ];
    check(
        &train(&recipe, "run", &other),
        &["audio.network.width was 16 and is 24"],
    );

    // The recipe says one thing, the checkpoint holds another.
    let before = tensors(&place.path("run/checkpoint.safetensors"));
    let resolved = fs_err::read_to_string(place.path("run/recipe.toml")).unwrap();
    fs_err::write(
        place.path("run/recipe.toml"),
        resolved.replace("width = 16", "width = 24"),
    )
    .unwrap();
    let wide = [
        "--resume",
        "--set",
        "training.epochs=1",
        "--set",
        "audio.network.width=24",
        "--set",
        "text.network.width=24",
    ];
    check(
        &train(&recipe, "run", &wide),
        &[
            "does not fit the recipe's network",
            "checkpoint.safetensors",
            "shape",
        ],
    );
    assert_eq!(before, tensors(&place.path("run/checkpoint.safetensors")));
}

#[test]
fn sets_without_captions_or_recordings_are_refused() {
    let place = Place::new();
    let recipe = tiny();
    place.ok(&train(&recipe, "run", &["--set", "training.epochs=1"]));
    let sounds = soundscapes(&place);
    let empty = place.path("empty");
    fs_err::create_dir_all(empty.join("development")).unwrap();
    fs_err::write(
        empty.join("clotho_captions_development.csv"),
        "file_name,caption_1\n",
    )
    .unwrap();
    let change = format!("data.train=[{{kind=\"clotho\",root={empty:?},split=\"development\"}}]");
    let said = place.fails(&train(&recipe, "none", &["--set", &change]));
    assert!(said.contains("clotho_captions_development.csv"), "{said}");

    let captions = fs_err::read_to_string(sounds.join("clotho_captions_development.csv")).unwrap();
    fs_err::write(empty.join("clotho_captions_development.csv"), &captions).unwrap();
    let said = place.fails(&train(&recipe, "none", &["--set", &change]));
    assert!(said.contains("24 missing"), "{said}");

    // Half of them there, one of these broken: the training goes on and names what it went on without.
    let names: Vec<&str> = captions
        .lines()
        .skip(1)
        .filter_map(|line| line.split(',').next())
        .collect();
    for name in &names[..12] {
        fs_err::copy(
            sounds.join("development").join(name),
            empty.join("development").join(name),
        )
        .unwrap();
    }
    fs_err::write(empty.join("development").join(names[3]), b"RIFF no sound").unwrap();
    place.ok(&train(&recipe, "some", &["--set", &change]));
    let left_out = fs_err::read_to_string(place.path("some/left-out.csv")).unwrap();
    assert_eq!(
        left_out.lines().filter(|line| line.ends_with(",missing")).count(),
        12,
        "{left_out}"
    );
    assert!(
        left_out
            .lines()
            .any(|line| line.contains(names[3]) && !line.contains("missing")),
        "{left_out}"
    );
    let said = place.fails(&train(
        &recipe,
        "strict",
        &["--set", &change, "--set", "data.strict=true"],
    ));
    assert!(said.contains("data.strict"), "{said}");
}

/// A limit on the size of files stands for a disk that fills while the checkpoint is written.
#[cfg(unix)]
#[test]
fn a_disk_that_fills_leaves_the_last_checkpoint() {
    let place = Place::new();
    let recipe = tiny();
    place.ok(&train(&recipe, "run", &["--set", "training.epochs=1"]));
    let before = tensors(&place.path("run/checkpoint.safetensors"));
    let size = fs_err::metadata(place.path("run/checkpoint.safetensors"))
        .unwrap()
        .len();
    // The same run, made to have more epochs to do.
    let resolved = fs_err::read_to_string(place.path("run/recipe.toml")).unwrap();
    fs_err::write(
        place.path("run/recipe.toml"),
        resolved.replace("\nepochs = 1\n", "\nepochs = 2\n"),
    )
    .unwrap();
    let program = place.command(&train(
        &recipe,
        "run",
        &["--resume", "--set", "training.epochs=2"],
    ));
    let mut shell = std::process::Command::new("bash");
    shell.args([
        "-c",
        &format!("trap '' XFSZ; ulimit -f {}; exec \"$0\" \"$@\"", size / 1024 / 2),
    ]);
    shell.arg(program.get_program()).args(program.get_args());
    shell.current_dir(program.get_current_dir().unwrap());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let output = shell.output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("checkpoint.safetensors"), "{said}");
    assert_eq!(before, tensors(&place.path("run/checkpoint.safetensors")));
    let left = fs_err::read_dir(place.path("run")).unwrap();
    let left = left.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with(".hark-")
    });
    assert_eq!(left.count(), 0);
    // With room again it goes on.
    place.ok(&train(
        &recipe,
        "run",
        &["--resume", "--set", "training.epochs=2"],
    ));
}

/// What was set when a training began is remembered when something else is set to resume it.
#[test]
fn a_resumed_training_keeps_its_changes() {
    let place = Place::new();
    let recipe = tiny();
    let changes = ["--set", "training.epochs=1", "--set", "objective.name=infonce"];
    let said = place.ok(&train(&recipe, "run", &changes));
    let chunk = ["--resume", "--set", "training.chunk=2"];
    assert_eq!(place.ok(&train(&recipe, "run", &chunk)), said);
    let error = place.fails(&train(
        &recipe,
        "run",
        &["--resume", "--set", "training.epochs=2"],
    ));
    assert!(error.contains("training.epochs was 1 and is 2"), "{error}");
}

/// The tiny soundscapes' clips, put where three data sets keep theirs, with captions in the files that these have.
fn three_sets(place: &Place) -> PathBuf {
    place.ok(&train(&tiny(), "made", &["--set", "training.epochs=1"]));
    let sounds = soundscapes(place);
    let captions = fs_err::read_to_string(sounds.join("clotho_captions_development.csv")).unwrap();
    let rows: Vec<(&str, &str)> = captions
        .lines()
        .skip(1)
        .map(|line| {
            let mut fields = line.split(',');
            (fields.next().unwrap(), fields.next().unwrap().trim_matches('"'))
        })
        .collect();
    let data = place.path("data");
    let put = |name: &str, to: PathBuf| {
        fs_err::create_dir_all(to.parent().unwrap()).unwrap();
        fs_err::copy(sounds.join("development").join(name), to).unwrap();
    };
    // Clotho, with two recordings of whose metadata WavCaps must leave one out.
    let mut table = String::from("file_name,caption_1\n");
    let mut metadata =
        String::from("file_name,keywords,sound_id,sound_link,start_end_samples,manufacturer,license\n");
    for (nth, (name, caption)) in rows[..8].iter().enumerate() {
        table.push_str(&format!("{name},{caption}\n"));
        metadata.push_str(&format!("{name},sound,{},,,,\n", 9000 + nth));
        put(name, data.join("clotho/development").join(name));
    }
    fs_err::write(data.join("clotho/clotho_captions_development.csv"), table).unwrap();
    fs_err::write(data.join("clotho/clotho_metadata_development.csv"), metadata).unwrap();
    let mut table = String::from("audiocap_id,youtube_id,start_time,caption\n");
    for (nth, (name, caption)) in rows[8..16].iter().enumerate() {
        table.push_str(&format!("{},video{nth}-_x,{},{caption}\n", 100 + nth, 10 * nth));
        // The last one is gone from its source.
        if nth < 7 {
            put(name, data.join(format!("audiocaps/train/Yvideo{nth}-_x.flac")));
        }
    }
    fs_err::write(data.join("audiocaps/train.csv"), table).unwrap();
    for (source, file, rows) in [
        ("SoundBible", "sb_final.json", &rows[16..20]),
        ("FreeSound", "fsd_final.json", &rows[20..24]),
    ] {
        let mut list = Vec::new();
        for (nth, (name, caption)) in rows.iter().enumerate() {
            let id = (9006 + nth).to_string();
            put(name, data.join(format!("wavcaps/audio/{source}/{id}.flac")));
            list.push(serde_json::json!({"id": id, "caption": caption, "duration": 1.0, "title": name}));
        }
        let folder = data.join("wavcaps/json_files").join(source);
        fs_err::create_dir_all(&folder).unwrap();
        let json = serde_json::json!({"num_captions_per_audio": 1, "data": list});
        fs_err::write(folder.join(file), json.to_string()).unwrap();
    }
    data
}

#[test]
fn pretraining_on_three_sets_and_fine_tuning_from_it() {
    let place = Place::new();
    let recipe = tiny();
    let data = three_sets(&place);
    let sets = format!(
        "data.train=[{{kind=\"clotho\",root={0:?},split=\"development\"}},{{kind=\"audiocaps\",root={1:?},split=\"train\"}},\
         {{kind=\"wavcaps\",root={2:?},exclude={{clotho={0:?}}}}}]",
        data.join("clotho"),
        data.join("audiocaps"),
        data.join("wavcaps"),
    );
    let pretrain = [
        "--set",
        &sets,
        "--set",
        "training.epochs=8",
        "--set",
        "training.schedule.decay-epochs=8.0",
    ];
    place.ok(&train(&recipe, "pretrain", &pretrain));
    // 8 of Clotho, 7 of AudioCaps, 4 of SoundBible, 2 of FreeSound: its ids 9006 and 9007 are Clotho's.
    let left_out = fs_err::read_to_string(place.path("pretrain/left-out.csv")).unwrap();
    assert!(
        left_out.contains("FreeSound/9006") && left_out.contains("FreeSound/9007"),
        "{left_out}"
    );
    assert_eq!(
        left_out.lines().filter(|line| line.contains("excluded")).count(),
        2,
        "{left_out}"
    );
    assert_eq!(
        left_out.lines().filter(|line| line.contains("missing")).count(),
        1,
        "{left_out}"
    );

    // Stopped once on the way, it ends with the same bytes.
    let arguments = train(&recipe, "stopped", &pretrain);
    let mut child = place
        .command(&arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !place.path("stopped/checkpoint.safetensors").exists() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    place.ok(&[&arguments[..], &["--resume"]].concat());
    assert_eq!(result(&place.path("pretrain")), result(&place.path("stopped")));

    let clotho = format!(
        "data.train=[{{kind=\"clotho\",root={:?},split=\"development\"}}]",
        data.join("clotho")
    );
    let from = format!("training.init-from={:?}", place.path("pretrain/best"));
    let tune = ["--set", &clotho, "--set", "training.epochs=2"];
    place.ok(&train(&recipe, "scratch", &tune));
    place.ok(&train(&recipe, "tuned", &[&tune[..], &["--set", &from]].concat()));
    // The tokenizer comes with the weights, though the recipe would train one.
    let tokenizer = |run: &str| fs_err::read(place.path(run).join("best/tokenizer.json")).unwrap();
    assert_eq!(tokenizer("tuned"), tokenizer("pretrain"));
    assert_ne!(tokenizer("scratch"), tokenizer("pretrain"));
    // Its card says what both trainings learned from.
    let card = fs_err::read(place.path("tuned/best/card.json")).unwrap();
    let card: Value = serde_json::from_slice(&card).unwrap();
    let data = card["training-data"].as_array().unwrap();
    assert!(
        data.len() == 2 && data[0].as_str().unwrap().contains("wavcaps"),
        "{data:?}"
    );
    let first = |run: &str| {
        let lines = lines(&place.path(run));
        let epoch = lines.iter().find(|line| line["kind"] == "epoch").unwrap();
        (
            epoch["loss"].as_f64().unwrap(),
            epoch["validation_loss"].as_f64().unwrap(),
        )
    };
    let (scratch, tuned, began) = (first("scratch"), first("tuned"), first("pretrain"));
    assert!(
        tuned.0 < scratch.0 && tuned.0 < began.0,
        "{tuned:?} {scratch:?} {began:?}"
    );
    assert!(tuned.1 < scratch.1, "{tuned:?} {scratch:?}");
}

/// On clips whose scenes were not trained on. How far every objective gets with a network of some size, `bench/objectives.py`
/// tells.
#[test]
fn it_learns_unless_captions_are_shuffled() {
    let place = Place::new();
    let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recipes/learns.toml");
    let recipe = recipe.display().to_string();
    let ratios = |run: &str, change: &str| {
        let said = place.json(&train(&recipe, run, &["--set", change, "--json"]));
        ["text_to_audio", "audio_to_text"].map(|direction| {
            let map = |means: &Value| means[direction]["map_10"].as_f64().unwrap();
            map(&said["test"]) / map(&said["test"]["chance"])
        })
    };
    for name in ["infonce", "listnet-audio"] {
        let ratios = ratios(name, &format!("objective.name={name}"));
        assert!(ratios.iter().all(|&ratio| ratio > 3.0), "{name}: {ratios:?}");
    }
    let ratios = ratios("shuffled", "data.shuffle-captions=true");
    assert!(ratios.iter().all(|&ratio| ratio < 2.0), "shuffled: {ratios:?}");
}
