//! Libraries on a real PostgreSQL server through the program. `scripts/tests.py` brings one;
//! these tests fail without it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use crate::library::{kill_while_indexing, thousand_files, with_sounds};
use crate::place::{Place, text};
use crate::towers::with_model;

/// What the environment says about the server.
fn given(variable: &str) -> String {
    std::env::var(variable)
        .unwrap_or_else(|_| panic!("needs a PostgreSQL server ({variable} is not set): run scripts/tests.py"))
}

/// A name of a library that no other test has.
fn name(what: &str) -> String {
    format!("cli-{what}-{}", std::process::id())
}

/// The text of a library, less the lines that say which library it is.
fn dump(place: &Place, args: &[&str]) -> String {
    place.ok(&[&["index", "--dump"], args].concat())
}

#[test]
fn a_library_on_a_server_is_the_one_in_a_folder() {
    let url = given("HARK_TEST_POSTGRES");
    let place = with_sounds();
    let name = name("same");
    let there = ["--name", &name, "--store", &url];
    place.run(&["index", "sounds", "--model", "tiny"]);
    let indexed = place.run(&[&["index", "sounds", "--model", "tiny"], &there[..]].concat());
    assert!(
        text(&indexed.stderr).contains("4 recordings"),
        "{}",
        text(&indexed.stderr)
    );
    assert_eq!(dump(&place, &there), dump(&place, &[]));
    place.ok(&[&["index", "--check"], &there[..]].concat());
    // The same questions have the same answers.
    for question in [
        &["search", "--words", "heavy rain"][..],
        &["search", "dog", "bark", "--meaning", "-n", "3"],
        &[
            "search",
            "--audio",
            "sounds/Dogs/growl.wav",
            "--folder",
            "sounds/Dogs",
        ],
        &["search", "x", "--min-seconds", "2", "--after", "2020-01-01"],
    ] {
        let ask = |more: &[&str]| {
            let found = place.json(&[question, &["--json"], more].concat());
            let hits = found["hits"].as_array().unwrap().clone();
            hits.iter()
                .map(|hit| {
                    // Sums in another order differ in the last digits.
                    let meaning = hit["meaning"]
                        .as_f64()
                        .map(|cosine| (cosine * 100.0).round() as i64);
                    (hit["file"]["path"].clone(), hit["start"].clone(), meaning)
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(ask(&there), ask(&[]), "{question:?}");
        assert!(!ask(&there).is_empty(), "{question:?}");
    }
    // Two machines that each take a part make the whole.
    let parts = crate::needs_postgres::name("parts");
    let shared = ["--name", &parts, "--store", &url];
    for part in ["1/2", "2/2"] {
        place.run(
            &[
                &["index", "sounds", "--model", "tiny", "--shard", part],
                &shared[..],
            ]
            .concat(),
        );
    }
    assert_eq!(dump(&place, &shared), dump(&place, &[]));
    // Made anew with another hop, and gone with its last folder.
    let rebuilt = place.run(&[&["index", "--rebuild", "--hop", "0.5"], &there[..]].concat());
    assert!(
        text(&rebuilt.stderr).contains("4 recordings"),
        "{}",
        text(&rebuilt.stderr)
    );
    let message = place.fails(&["search", "x", "--name", "none", "--store", &url]);
    assert!(message.contains("library none does not exist"), "{message}");
}

/// A server that is killed and started anew.
struct Victim {
    process: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<std::process::ChildStdout>,
    url: String,
}

impl Victim {
    fn new() -> Self {
        let control = given("HARK_TEST_POSTGRES_CONTROL");
        let mut process = Command::new("sh")
            .args(["-c", &format!("exec {control}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut answers = BufReader::new(process.stdout.take().unwrap());
        let mut url = String::new();
        answers.read_line(&mut url).unwrap();
        Self {
            commands: process.stdin.take(),
            process,
            answers,
            url: url.trim().to_owned(),
        }
    }

    fn crash(&mut self) {
        self.commands.as_mut().unwrap().write_all(b"crash\n").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "ready");
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // The end of its input is the end of the server.
        drop(self.commands.take());
        let _ = self.process.wait();
    }
}

/// The program is killed, then the server, again and again: the library is that of an undisturbed run.
#[test]
fn killed_on_either_side_nothing_is_lost_or_doubled() {
    let mut victim = Victim::new();
    let place = with_model();
    thousand_files(&place);
    let begun = Instant::now();
    place.run(&["index", "sounds", "--model", "tiny"]);
    let whole = begun.elapsed();
    let url = victim.url.clone();
    let there = ["--store", url.as_str()];
    let begin = [&["sounds", "--model", "tiny"], &there[..]].concat();
    // Connecting and making the library take their time, too.
    let kills = kill_while_indexing(&place, whole / 4, &begin);
    assert!(kills >= 5, "indexing was too quick to be killed: {kills}");
    place.ok(&[&["index", "--check"], &there[..]].concat());
    // From nothing again, and now it is the server that dies, five times, in the midst of it.
    let mut child = place
        .command(&[&["index", "--rebuild"], &begin[..]].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut crashes = 0;
    while crashes < 5 {
        let until = Instant::now() + whole.mul_f64(0.1);
        while Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        if child.try_wait().unwrap().is_some() {
            // It gave up, or was ready: the next run goes on.
            child = place
                .command(&[&["index"], &begin[..]].concat())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
        }
        victim.crash();
        crashes += 1;
    }
    child.wait().unwrap();
    place.run(&[&["index"], &begin[..]].concat());
    assert_eq!(dump(&place, &there), dump(&place, &[]));
    place.ok(&[&["index", "--check"], &there[..]].concat());
}
