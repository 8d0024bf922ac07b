//! What a newcomer stumbled over, each as it was found.

use crate::library::{tone, with_sounds};
use crate::place::{Place, text};

fn indexed() -> Place {
    let place = with_sounds();
    place.run(&["index", "sounds", "--model", "tiny"]);
    place
}

#[test]
fn the_moment_of_a_search_is_obeyed_or_refused() {
    let place = indexed();
    let like = |at: &str| place.json(&["search", "--json", "--like", "sounds/long.wav", "--at", at]);
    assert_eq!(like("3"), like("0:03"));
    assert_ne!(like("0:03")["hits"][0]["score"], like("0:01")["hits"][0]["score"]);
    for other in [&["--audio", "sounds/long.wav"][..], &["rain"]] {
        let refused = place.run(&[&["search", "--at", "3"], other].concat());
        assert_eq!(refused.status.code(), Some(2), "{other:?}");
        assert!(text(&refused.stderr).contains("--like"), "{other:?}");
    }
    let refused = place.run(&["search", "--like", "sounds/long.wav", "--at", "1:75"]);
    assert!(
        text(&refused.stderr).contains("1:30"),
        "says how times are written"
    );
}

#[test]
fn one_rule_for_the_exit_code_of_index() {
    let place = with_sounds();
    for run in ["first", "second"] {
        let output = place.run(&["index", "sounds", "--model", "tiny"]);
        assert_eq!(output.status.code(), Some(1), "{run}");
        let message = text(&output.stderr);
        assert!(
            message.contains("broken.flac") && message.contains("cannot read 1 file;"),
            "{message}"
        );
    }
    fs_err::remove_file(place.path("sounds/broken.flac")).unwrap();
    place.ok(&["index"]);
}

#[cfg(unix)]
#[test]
fn linked_and_unnamed_recordings_are_indexed_and_the_rest_is_counted() {
    let place = with_sounds();
    fs_err::remove_file(place.path("sounds/broken.flac")).unwrap();
    fs_err::create_dir(place.path("elsewhere")).unwrap();
    place.write("elsewhere/siren.wav", tone(990.0, 0.4));
    place.write("sounds/take 7", tone(500.0, 0.4));
    place.write("sounds/old.wma", "ASF");
    std::os::unix::fs::symlink(place.path("elsewhere"), place.path("sounds/more")).unwrap();
    std::os::unix::fs::symlink(place.path(""), place.path("sounds/up")).unwrap();
    let output = place.run(&["index", "sounds", "--model", "tiny"]);
    let message = text(&output.stderr);
    assert!(message.contains("6 recordings"), "{message}");
    assert!(
        message.contains("skipped 1 file in a format that hark reads only if ffmpeg is installed: ")
            && message.contains("old.wma"),
        "{message}"
    );
    assert!(
        message.contains("skipped 1 link to a folder around it: "),
        "{message}"
    );
    let found = place.json(&["search", "--json", "--words", "siren"]);
    assert!(
        found["hits"][0]["file"]["path"]
            .as_str()
            .unwrap()
            .ends_with("sounds/more/siren.wav")
    );
}

#[cfg(unix)]
#[test]
fn a_library_that_cannot_be_written_is_searched() {
    use std::os::unix::fs::PermissionsExt;
    let place = indexed();
    let before = place.json(&["search", "--json", "dog"]);
    let library = place.path("home/libraries/default");
    let mode = |mode: u32| {
        for entry in fs_err::read_dir(&library).unwrap() {
            fs_err::set_permissions(entry.unwrap().path(), PermissionsExt::from_mode(mode & 0o666)).unwrap();
        }
        fs_err::set_permissions(&library, PermissionsExt::from_mode(mode)).unwrap();
    };
    let names = || {
        let mut names: Vec<_> = fs_err::read_dir(&library)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    let files = names();
    mode(0o555);
    let output = place.run_bound_by_permissions(&["search", "--json", "dog"]);
    let after = names();
    mode(0o755);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found, before);
    assert_eq!(after, files, "nothing is written");
}

#[test]
fn tables_of_captions_are_recognised_everywhere() {
    let place = with_sounds();
    place.write("one.csv", "file_name,caption\nDOG_BARK.wav,a dog barks\n");
    place.write(
        "two.csv",
        "caption;File Name\na low growl;growl.wav\nnothing;absent.wav\n",
    );
    let output = place.run(&[
        "index",
        "sounds",
        "--model",
        "tiny",
        "--captions",
        "one.csv",
        "--captions",
        "two.csv",
    ]);
    let message = text(&output.stderr);
    assert!(
        message.contains("2 of 3 names in the tables match a recording; not found: absent.wav"),
        "{message}"
    );
    for (words, file) in [("a dog barks", "dog_bark.wav"), ("low growl", "growl.wav")] {
        let found = place.json(&["search", "--json", "--words", words]);
        assert!(
            found["hits"][0]["file"]["path"].as_str().unwrap().ends_with(file),
            "{found}"
        );
    }
    place.write(
        "three.tsv",
        "file\tcaption_1\tcaption_2\na.wav\train falls\tit rains\n",
    );
    for (table, rows) in [("one.csv", 1), ("two.csv", 2), ("three.tsv", 2)] {
        let told = place.json(&["embed", "--captions", table, "-o", "captions.npy", "--json"]);
        assert_eq!(told["rows"], rows, "{table}");
    }
    place.ok(&[
        "relevance",
        "neighbours",
        "--captions",
        "three.tsv",
        "--batch",
        "2",
    ]);
}

#[test]
fn embed_hears_all_of_a_recording_as_index_does() {
    let place = indexed();
    place.ok(&["embed", "sounds/long.wav", "--model", "tiny", "-o", "long.npy"]);
    let rows = fs_err::read_to_string(place.path("long.rows.csv")).unwrap();
    assert!(rows.lines().nth(1).unwrap().contains(",5.5,5.5,6,"), "{rows}");
    place.ok(&[
        "embed",
        "sounds/long.wav",
        "--model",
        "tiny",
        "--clip-seconds",
        "2",
        "-o",
        "two.npy",
    ]);
    let rows = fs_err::read_to_string(place.path("two.rows.csv")).unwrap();
    assert!(rows.lines().nth(1).unwrap().contains(",5.5,2.0,2,"), "{rows}");
    // The vector is that of the library, but for the 16 bits that it keeps.
    let dump = place.ok(&["index", "--dump"]);
    let vectors = fs_err::read(place.path("long.npy")).unwrap();
    let numbers = vectors[vectors.len() - 4 * 4..].chunks_exact(4);
    assert_eq!(numbers.count(), 4);
    assert!(dump.contains("long.wav"));
}

#[test]
fn signs_alone_find_nothing_and_every_hit_has_its_day() {
    let place = indexed();
    assert_eq!(
        place.json(&["search", "--json", "--words", "\""])["hits"],
        serde_json::json!([])
    );
    let found = place.json(&["search", "--json", "dog"]);
    let day = found["hits"][0]["file"]["date"].as_str().unwrap().to_owned();
    assert_eq!(day.len(), 10, "{day:?}");
    assert!(place.ok(&["search", "--csv", "dog"]).contains(&day));
}

#[cfg(unix)]
#[test]
fn a_model_of_ones_own_goes_into_the_store() {
    use std::os::unix::fs::PermissionsExt;
    let place = crate::towers::with_model();
    // A run as hark train leaves it: its best model in a folder of its own.
    fs_err::create_dir_all(place.path("run")).unwrap();
    fs_err::rename(place.path("home/models/tiny"), place.path("run/best")).unwrap();
    place.ok(&["models", "import", "run", "--name", "big"]);
    let listed = place.ok(&["models", "list"]);
    let line = listed.lines().find(|line| line.starts_with("big")).unwrap();
    assert!(line.contains("hears and reads"), "{listed}");
    for model in ["big", "run", "run/best"] {
        place.ok(&["embed", "--text", "rain", "--model", model, "-o", "text.npy"]);
    }
    for file in ["model.safetensors", "card.json", "tokenizer.json"] {
        let mode = fs_err::metadata(place.path("home/models/big").join(file))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o044, 0o044, "{file}: {mode:o}");
    }
}

#[test]
fn libraries_are_listed_and_deleted() {
    let place = indexed();
    place.run(&["index", "sounds", "--model", "tiny", "--name", "other"]);
    let listed = place.ok(&["index", "--list"]);
    assert!(
        listed.contains("default: 4 recordings")
            && listed.contains("other: 4 recordings")
            && listed.contains("model tiny"),
        "{listed}"
    );
    place.ok(&["index", "--delete", "other"]);
    assert!(!place.path("home/libraries/other").exists());
    let listed = place.json(&["index", "--list", "--json"]);
    assert_eq!(listed["libraries"].as_array().unwrap().len(), 1);
    assert!(
        place
            .fails(&["index", "--delete", "other"])
            .contains("other does not exist")
    );
    assert!(place.path("sounds/long.wav").exists());
}

#[test]
fn hints_name_options_that_the_command_has() {
    let place = Place::new();
    place.write(
        "captions.csv",
        "file_name,caption_1,caption_2\na.wav,a dog barks,a dog\nb.wav,rain falls,it rains\n",
    );
    place.ok(&["embed", "--captions", "captions.csv", "-o", "captions.npy"]);
    place.ok(&["embed", "--text", "a dog", "--text", "rain", "-o", "clips.npy"]);
    let output = place.run(&[
        "eval",
        "--vectors",
        "clips.npy",
        "captions.npy",
        "--captions",
        "captions.csv",
        "--truth",
        "computed",
        "-o",
        "results",
    ]);
    let message = text(&output.stderr);
    assert!(output.status.success(), "{message}");
    assert!(
        message.contains("--sentence-encoder all-mpnet-base-v2") && !message.contains("--model"),
        "{message}"
    );
    // No figure is a negative zero.
    for file in [
        "text-to-audio.csv",
        "audio-to-text.csv",
        "text-to-audio.computed-logistic.csv",
    ] {
        let scored = fs_err::read_to_string(place.path("results").join(file)).unwrap();
        assert!(!scored.contains("-0"), "{file}: {scored}");
    }
}

#[test]
fn searches_are_restricted_by_format_and_channels() {
    let place = indexed();
    let found = |options: &[&str]| {
        let found = place.json(&[&["search", "--json", "dog"], options].concat());
        found["hits"].as_array().unwrap().len()
    };
    let all = found(&[]);
    assert!(all > 1);
    assert_eq!(found(&["--format", ".WAV"]), all);
    assert_eq!(found(&["--format", "pcm", "--channels", "1"]), all);
    assert_eq!(found(&["--format", "flac"]), 0);
    assert_eq!(found(&["--channels", "2"]), 0);
    assert_eq!(found(&["--channels", "2", "--channels", "1"]), all);
}

#[test]
fn words_take_prefixes_and_phrases() {
    let place = indexed();
    let found = |text: &str| {
        let found = place.json(&["search", "--json", "--words", text]);
        found["hits"].as_array().unwrap().len()
    };
    assert_eq!(found("hea*"), 1);
    assert_eq!(found("hea"), 0);
    assert_eq!(found("\"heavy rain\""), 1);
    assert_eq!(found("\"rain heavy\""), 0);
    assert_eq!(found("rain heavy"), 1);
    assert_eq!(found("\"rain -heavy\""), 0, "a minus in quotes excludes nothing");
    assert_eq!(found("\"rain"), 1, "a quote that is not closed is ignored");
    assert_eq!(found("\" * \"\""), 0);
}

#[test]
fn a_mistyped_filter_is_told_from_an_empty_answer() {
    let place = indexed();
    let notes = |options: &[&str]| {
        let found = place.json(&[&["search", "--json", "running"], options].concat());
        let notes = found["notes"].as_array().unwrap();
        notes
            .iter()
            .map(|note| note.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
            .join("; ")
    };
    let folder = notes(&["--folder", "sounds/Rian"]);
    assert!(
        folder.starts_with("the library has no recordings in /"),
        "{folder}"
    );
    assert!(folder.ends_with("/sounds/Rain?"), "{folder}");
    let both = notes(&["--folder", "sounds/Rian", "--folder", "sounds/Dogs"]);
    assert!(both.contains("Rian"), "even if others are there: {both}");
    assert_eq!(
        notes(&["--tag", "weather"]),
        "no recording of the library has the tag weather"
    );
    assert_eq!(
        notes(&["--format", "wva"]),
        "no recording of the library has the format wva; did you mean wav?"
    );
    assert_eq!(
        notes(&["--channels", "2"]),
        "no recording of the library has 2 channels"
    );
    assert_eq!(
        notes(&["--folder", "sounds/Rain", "--words"]),
        "",
        "no match is no mistake"
    );
    let said = place.run(&["search", "running", "--format", "wva"]);
    assert!(said.status.success());
    assert!(text(&said.stderr).contains("hark: note: no recording of the library has the format wva"));
}

#[test]
fn words_that_the_model_does_not_know_are_told() {
    let place = indexed();
    let notes = |options: &[&str]| {
        let found = place.json(&[&["search", "--json"], options].concat());
        found["notes"].clone()
    };
    assert_eq!(
        notes(&["zzxqy -running"]),
        serde_json::json!(["the model knows none of these words: zzxqy"])
    );
    assert_eq!(
        notes(&["--meaning", "?!"]),
        serde_json::json!(["the model knows none of these words: ?!"])
    );
    assert_eq!(notes(&["zzxqy running"]), serde_json::json!([]));
    assert_eq!(
        notes(&["--words", "zzxqy"]),
        serde_json::json!([]),
        "words need no model"
    );
    assert_eq!(notes(&["--like", "sounds/long.wav"]), serde_json::json!([]));
}

#[test]
fn paths_in_a_recipe_are_relative_to_it() {
    let place = with_sounds();
    place.write(
        "sounds/pairs.csv",
        "path,caption\nDogs/growl.wav,a dog growls\nlong.wav,a horn\n",
    );
    fs_err::create_dir_all(place.path("mine/recipes")).unwrap();
    let own = place.write(
        "mine/recipes/own.toml",
        "name = \"own\"\n[data]\n\
         train = [{ kind = \"table\", file = \"../../sounds/pairs.csv\" }]\n\
         validation = [{ kind = \"table\", file = \"../../sounds/pairs.csv\" }]\n\
         [training]\ninit-from = \"tiny\"\n",
    );
    let said = place.json(&["data", "check", "--recipe", &own, "--json"]);
    assert_eq!(said["complete"], true, "{said:#}");
    // Those of --set are relative to the working directory, and the run's own recipe leads to the same files from everywhere.
    let table = "data.validation=[{kind=\"table\",file=\"sounds/pairs.csv\"}]";
    let small = [
        "--set",
        "training.epochs=1",
        "--set",
        "training.batch=2",
        "--threads",
        "1",
    ];
    let sentences = "objective.sentence-encoder=caption-static";
    place.ok(&[
        &["train", &own, "--run", "run", "--set", table, "--set", sentences],
        &small[..],
    ]
    .concat());
    let kept = fs_err::read_to_string(place.path("run/recipe.toml")).unwrap();
    let pairs = fs_err::canonicalize(place.path("sounds/pairs.csv")).unwrap();
    assert_eq!(kept.matches(pairs.to_str().unwrap()).count(), 2, "{kept}");
    assert!(
        kept.contains("\"tiny\""),
        "the name of a model is no path: {kept}"
    );
    let elsewhere = place
        .command(&["train", "recipes/own.toml", "--run", "../run", "--resume"])
        .current_dir(place.path("mine"))
        .output()
        .unwrap();
    assert!(elsewhere.status.success(), "{}", text(&elsewhere.stderr));
}

#[test]
fn epochs_that_leave_the_schedule_behind_are_told() {
    let place = Place::new();
    let own = place.write(
        "own.toml",
        "name = \"own\"\n[data]\ntrain = [{ kind = \"folder\", root = \"none\" }]\n\
         validation = [{ kind = \"folder\", root = \"none\" }]\n\
         [training]\ninit-from = \"tiny\"\nepochs = 25\nschedule = { decay-epochs = 20.0 }\n",
    );
    let warned = |changes: &[&str]| {
        let set = changes.iter().flat_map(|change| ["--set", change]);
        let failed = place.fails(&["train", &own].into_iter().chain(set).collect::<Vec<_>>());
        failed.contains("warning: training.epochs is 3 instead of 25") && failed.contains("until epoch 20")
    };
    assert!(warned(&["training.epochs=3"]));
    assert!(!warned(&["training.epochs=25"]), "as in the recipe");
    assert!(!warned(&[
        "training.epochs=3",
        "training.schedule.decay-epochs=3.0"
    ]));
}

#[test]
fn all_faults_of_a_table_are_told_at_once() {
    let place = Place::new();
    let mut table = String::from("path,caption\na.wav,\nb.wav,rain,wind\n,dogs bark\n");
    place.write("pairs.csv", &table);
    let check = |file: &str| {
        let output = place.run(&["data", "check", "table", file, "--json"]);
        assert_eq!(output.status.code(), Some(1));
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let advice = said["sets"][0]["advice"].as_array().unwrap();
        advice
            .iter()
            .map(|one| one.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let told = check("pairs.csv");
    assert_eq!(told.len(), 3, "{told:?}");
    for (told, expected) in told.iter().zip([
        "line 2: \"caption\" is empty",
        "line 3: 3 fields, expected 2",
        "line 4: \"path\" is empty",
    ]) {
        assert!(told.contains(expected), "{told}");
    }
    table.push_str(&"x.wav,\n".repeat(20));
    place.write("pairs.csv", &table);
    let told = check("pairs.csv");
    assert_eq!(told.len(), 21, "{told:?}");
    assert!(told[20].ends_with("3 faults more"), "{told:?}");
    place.write(
        "pairs.jsonl",
        "{\"path\": \"a.wav\", \"caption\": 3}\n{\"path\"\n{\"caption\": \"rain\"}\n",
    );
    assert_eq!(check("pairs.jsonl").len(), 3);
    let others = place.fails(&["embed", "--captions", "pairs.csv", "-o", "out.npy"]);
    assert!(
        others.contains("23 faults:\n  line 2: \"caption\" is empty\n"),
        "{others}"
    );
}

/// The commands below one, as its help lists them.
fn subcommands(help: &str) -> Vec<String> {
    let Some((_, listed)) = help.split_once("\nCommands:\n") else {
        return Vec::new();
    };
    let names = listed.lines().take_while(|line| !line.is_empty());
    let names = names.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// The lines of a help text that end although the next word would have fitted, and examples that do not fit.
fn ragged(help: &str, width: usize) -> Vec<String> {
    let lines: Vec<&str> = help.lines().collect();
    let long = lines.iter().filter(|line| line.chars().count() > width);
    // A synopsis is one line to clap, and the longest examples stand on two.
    let long = long.filter(|line| !line.starts_with("Usage"));
    let mut faults: Vec<String> = long.map(|line| format!("too long: {line}")).collect();
    for pair in lines.windows(2) {
        let (line, next) = (pair[0], pair[1].trim_start());
        let indent = pair[1].len() - next.len();
        // Where the text of a line begins: at its first letter, or behind the name of an option.
        let aligned = line.get(..indent).is_some_and(|before| {
            before.trim().is_empty() || before.ends_with("  ") || before.ends_with('\n')
        }) && line[indent..].starts_with(|letter: char| letter != ' ');
        let listed = next.starts_with("- ") || next.starts_with("--") || (2..8).contains(&indent);
        let heading = line.ends_with(':') || line.starts_with("Usage") || next.is_empty() || line.is_empty();
        if !aligned || listed || heading {
            continue;
        }
        let word = next.split(' ').next().unwrap().chars().count();
        if line.chars().count() + 1 + word <= width {
            faults.push(format!("{line}\n{}", pair[1]));
        }
    }
    faults
}

#[test]
fn help_texts_are_wrapped_once() {
    let place = Place::new();
    let mut waiting: Vec<Vec<String>> = vec![Vec::new()];
    let mut seen = 0;
    while let Some(command) = waiting.pop() {
        let mut arguments: Vec<&str> = command.iter().map(String::as_str).collect();
        arguments.push("--help");
        for width in [80, 100] {
            let output = place
                .command(&arguments)
                .env("COLUMNS", width.to_string())
                .output()
                .unwrap();
            let help = text(&output.stdout);
            assert_eq!(ragged(&help, width), [""; 0], "{command:?} in {width} columns");
            if width == 80 {
                let below = subcommands(&help).into_iter();
                waiting.extend(below.map(|name| [&command[..], &[name]].concat()));
            }
        }
        seen += 1;
    }
    assert!(seen > 25, "{seen} commands");
    assert_eq!(ragged("A sentence that\nends early.\n", 80).len(), 1);
    assert_eq!(
        ragged(
            "  -n, --number <N>  How many\n                    there are\n",
            80
        )
        .len(),
        1
    );
}

/// Command lines that fail, RECIPE being the tiny one, and what each says.
#[rustfmt::skip]
const REFUSED: [(&str, &str); 27] = [
    ("index nowhere", "cannot read nowhere: no such folder"),
    ("index sounds/long.wav", "long.wav is not a folder; name the folder that holds the recordings"),
    ("index sounds --tags no.csv", "cannot read no.csv: no such file or folder"),
    ("index sounds --captions empty", "cannot read empty: is a folder, not a file"),
    ("index --delete none", "library none does not exist"),
    ("search --audio no.wav", "cannot search by no.wav: cannot read the recording: no such file or folder"),
    ("search --audio text.txt", "cannot search by text.txt: cannot decode the recording: unknown format"),
    ("search rain --model none", "cannot open the library's model tiny: no model none"),
    ("describe no.wav --captions text.txt --model tiny", "cannot read 1 of 1 recording"),
    ("embed no.wav --model tiny -o x.npy", "cannot read no.wav: no such file or folder"),
    ("embed sounds/long.wav --model tiny -o no/x.npy", "cannot write no/x.npy: no such file or folder"),
    ("train no.toml", "cannot read no.toml: no such file or folder"),
    ("train empty", "cannot read empty: is a folder, not a file"),
    ("train bad.toml", "expected a whole number, 0 or more, got \"x\""),
    ("train RECIPE --set training.epochs=x", "tiny.toml: training.epochs: expected a whole number, 0 or more, got \"x\""),
    ("train RECIPE --set training.epochs=-1", "training.epochs: expected a whole number, 0 or more, got -1"),
    ("train RECIPE --set training=3", "training: expected a table, got 3"),
    ("train RECIPE --set audio.projection=3", "audio.projection: expected a list, got 3"),
    ("reproduce RECIPE --folder text.txt", "cannot write text.txt: a file of that name is in the way"),
    ("compare --study empty --baseline x", "empty holds no finished run of hark reproduce"),
    ("models import no.pt --name x", "cannot read no.pt: no such file or folder"),
    ("data stats folder empty", "empty: no captions"),
    ("data make-soundscapes text.txt", "text.txt"),
    ("relevance neighbours --captions text.txt", "cannot draw a batch of 32 from 1 caption; lower --batch"),
    ("relevance fit --captions text.txt --ratings no.csv", "cannot read no.csv: no such file or folder"),
    ("eval --run text.txt --qrels text.txt", "text.txt: line 1 has 1 field, not 6"),
    ("serve --address 0.0.0.0 --port 0", "set the variable HARK_TOKEN"),
];

#[test]
fn errors_say_what_is_wrong_once_and_in_plain_words() {
    let place = indexed();
    place.write("text.txt", "x\n");
    place.write("bad.toml", "name = \"x\"\nseed = \"x\"\n");
    fs_err::create_dir(place.path("empty")).unwrap();
    for (line, expected) in REFUSED {
        let recipe = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recipes/tiny.toml");
        let line = line.replace("RECIPE", recipe);
        let arguments: Vec<&str> = line.split(' ').collect();
        let message = place.fails(&arguments);
        assert!(message.contains(expected), "{arguments:?}: {message}");
        for jargon in [
            "failed to ",
            "os error",
            "expected u",
            "struct ",
            "No such",
            "invalid type",
        ] {
            assert!(!message.contains(jargon), "{arguments:?}: {message}");
        }
        // No path and no cause twice in a line.
        for line in message.lines() {
            let parts: Vec<&str> = line.split(": ").collect();
            for (nth, part) in parts.iter().enumerate() {
                assert!(!parts[..nth].contains(part), "{arguments:?}: {line}");
            }
            for path in ["no.csv", "no.wav", "no.toml", "empty", "text.txt", "nowhere"] {
                assert!(line.matches(path).count() < 2, "{arguments:?}: {line}");
            }
        }
    }
}

#[test]
fn numbers_on_the_command_line_are_refused_in_words() {
    let place = Place::new();
    for (arguments, expected) in [
        (&["search", "rain", "--limit", "0"][..], "must be 1 or more"),
        (
            &["search", "rain", "--limit", "-3"],
            "must be a whole number, 0 or more",
        ),
        (
            &["search", "rain", "--min-seconds", "-3"],
            "invalid value '-3' for '--min-seconds <TIME>'",
        ),
        (
            &["serve", "--connections", "many"],
            "must be a whole number, 0 or more",
        ),
        (
            &["data", "make-soundscapes", "out", "--seconds", "x"],
            "must be a number",
        ),
    ] {
        let output = place.run(arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(expected), "{arguments:?}: {message}");
        assert!(!message.contains("tip:"), "{arguments:?}: {message}");
    }
}

/// One of everything: whatever is counted is counted in the singular.
#[test]
fn one_of_anything_is_singular() {
    let place = crate::towers::with_model();
    fs_err::create_dir(place.path("one")).unwrap();
    place.write("one/a.wav", tone(440.0, 0.5));
    place.write("captions.csv", "file_name,caption\na.wav,a tone\n");
    place.write("text.txt", "a tone\n");
    let mut said = String::new();
    for arguments in [
        &["index", "one", "--model", "tiny", "--captions", "captions.csv"][..],
        &["index", "--check"],
        &["index", "--list"],
        &["index", "--duplicates"],
        &["embed", "--captions", "text.txt", "-o", "text.npy"],
        &["embed", "one/a.wav", "--model", "tiny", "-o", "clip.npy"],
        &["embed", "--text", "a", "--model", "tiny", "-o", "t.npy"],
        &["relevance", "compute", "--captions", "text.txt", "-o", "r.npy"],
        &[
            "describe",
            "none.wav",
            "--captions",
            "text.txt",
            "--model",
            "tiny",
        ],
        &["eval", "--vectors", "t.npy", "t.npy", "--captions", "text.txt"],
        &["data", "check", "table", "captions.csv", "--audio", "one"],
        &["data", "check", "table", "captions.csv", "--audio", "nowhere"],
        &["data", "stats", "table", "captions.csv", "--audio", "one"],
    ] {
        let output = place.run(arguments);
        said += &format!("{arguments:?}\n{}{}", text(&output.stdout), text(&output.stderr));
    }
    for line in said.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        for pair in words.windows(2) {
            let noun = pair[1].trim_end_matches([',', ';', ':', '.', ')']);
            let plural = noun.len() > 3 && noun.ends_with('s') && !noun.ends_with("ss");
            assert!(pair[0] != "1" || !plural, "{line} in:\n{said}");
        }
    }
    for right in [
        "1 recording, ",
        "1 window;",
        "1 of 1 name in the tables matches",
        "1 embedding of",
        "1 caption of 1 clip",
    ] {
        assert!(said.contains(right), "{right}:\n{said}");
    }
}
