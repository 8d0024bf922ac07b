//! Command line and server answer the same questions alike: same files, moments, ranks and scores.

use serde_json::Value;

use crate::library::{tone, with_sounds};
use crate::place::Place;
use crate::server::Server;

/// A library with tags and captions, and a recording outside of it.
fn with_notes() -> Place {
    let place = with_sounds();
    place.write("sounds/Rain/carpet steps.wav", tone(330.0, 0.7));
    place.write(
        "tags.csv",
        "file,tags\ngrowl.wav,animal;low\ndog_bark.wav,animal\nlong.wav,low\n",
    );
    place.write(
        "captions.csv",
        "file_name,caption_1\nlong.wav,a steady whistle in the wind\ngrowl.wav,a dog growls\n",
    );
    let notes = ["--tags", "tags.csv", "--captions", "captions.csv"];
    // It exits with 1, because one recording is broken.
    place.run(&[&["index", "sounds", "--model", "tiny"], &notes[..]].concat());
    place.write("outside.wav", tone(1500.0, 1.0));
    place
}

/// What an answer says of each hit, without what only one of the two tells.
fn hits(answer: &Value) -> Vec<Vec<Value>> {
    let hits = answer["hits"].as_array().unwrap();
    let keys = ["rank", "score", "meaning", "words", "start", "end"];
    hits.iter()
        .map(|hit| {
            let file = [&hit["file"]["id"], &hit["file"]["path"]];
            let own = keys.iter().map(|key| &hit[key]);
            file.into_iter().chain(own).cloned().collect()
        })
        .collect()
}

/// `name=value` pairs as the query of a URL.
fn target(parameters: &[(&str, &str)]) -> String {
    let coded = |text: &str| {
        text.bytes()
            .map(|byte| format!("%{byte:02X}"))
            .collect::<String>()
    };
    let pairs: Vec<String> = parameters
        .iter()
        .map(|(name, value)| format!("{name}={}", coded(value)))
        .collect();
    format!("/api/search?{}", pairs.join("&"))
}

/// Words of the command line, parameters of the server, and the fewest hits that make the comparison worth its while.
type Asked<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], usize);

#[allow(clippy::too_many_lines, reason = "the questions are a table")]
#[test]
fn command_line_and_server_give_the_same_answers() {
    let place = with_notes();
    let server = Server::start(&place, &[], &[]);
    let folder = fs_err::canonicalize(place.path("sounds/Rain")).unwrap();
    let folder = folder.to_str().unwrap();
    let library = place.json(&["search", "whistle", "--json"]);
    let long = library["hits"]
        .as_array()
        .unwrap()
        .iter()
        .find(|hit| hit["file"]["path"].as_str().unwrap().ends_with("/long.wav"));
    let long = long.unwrap()["file"]["id"].to_string();
    let like = ["--like", "sounds/long.wav"];

    // Arguments of the command line, parameters of the server, fewest hits.
    let questions: [Asked; 25] = [
        (&["heavy", "rain"], &[("q", "heavy rain")], 5),
        (&["dog"], &[("q", "  dog ")], 5),
        (&["--words", "dog"], &[("q", "dog"), ("mode", "words")], 2),
        (&["--meaning", "dog"], &[("q", "dog"), ("mode", "meaning")], 5),
        (&["dog -growl"], &[("q", "dog -growl")], 4),
        (
            &["dog", "--", "-growl", "-\"steady whistle\""],
            &[("q", "dog -growl -\"steady whistle\"")],
            3,
        ),
        (&["dog", "--not", "wind"], &[("q", "dog"), ("not", "wind")], 4),
        (
            &["dog -wind", "--not", " ", "--not", "", "--not", "animal"],
            &[("q", "dog"), ("not", "wind"), ("not", " "), ("not", "animal")],
            2,
        ),
        (&["--", "-dog"], &[("q", "-dog")], 3),
        (
            &["x", "--folder", "sounds/Rain"],
            &[("q", "x"), ("folder", folder)],
            2,
        ),
        (
            &["x", "--tag", "animal", "--tag", "low"],
            &[("q", "x"), ("tag", "animal"), ("tag", "low")],
            1,
        ),
        (
            &["x", "--min-seconds", "0.6", "--max-seconds", "1"],
            &[("q", "x"), ("min_seconds", "0.6"), ("max_seconds", "1")],
            3,
        ),
        (
            &["x", "--min-rate", "32000", "--max-rate", "32000"],
            &[("q", "x"), ("min_rate", "32000"), ("max_rate", "32000")],
            5,
        ),
        (
            &["x", "--format", "wav", "--format", "flac", "--channels", "1"],
            &[
                ("q", "x"),
                ("audio_format", "wav"),
                ("audio_format", "flac"),
                ("channels", "1"),
            ],
            5,
        ),
        (
            &["x", "--after", "2020-01-01", "--before", "2100-12-31"],
            &[("q", "x"), ("after", "2020-01-01"), ("before", "2100-12-31")],
            5,
        ),
        (&like, &[("like", &long)], 4),
        (
            &[&like[..], &["--at", "2.5"]].concat(),
            &[("like", &long), ("start", "2.5")],
            4,
        ),
        (
            &[&like[..], &["--at", "5", "--not", "growl"]].concat(),
            &[("like", &long), ("start", "5"), ("not", "growl")],
            3,
        ),
        (
            &[&like[..], &["dog"]].concat(),
            &[("like", &long), ("q", "dog")],
            4,
        ),
        (
            &["whistle", "--all-moments", "-n", "20"],
            &[("q", "whistle"), ("windows", "all"), ("limit", "20")],
            10,
        ),
        (
            &["whistle", "--offset", "2", "-n", "2"],
            &[("q", "whistle"), ("skip", "2"), ("limit", "2")],
            2,
        ),
        (
            &["--words", "whistle car"],
            &[("q", "whistle car"), ("mode", "words")],
            1,
        ),
        (&["the", "of"], &[("q", "the of")], 5),
        (&["--words", "whist*"], &[("q", "whist*"), ("mode", "words")], 1),
        (&["\"heavy rain\" do*"], &[("q", "\"heavy rain\" do*")], 5),
    ];
    for (arguments, parameters, least) in questions {
        // Options first: what follows `--` is all text.
        let mut command = vec!["search", "--json"];
        if !arguments.contains(&"-n") {
            command.extend(["-n", "20"]);
        }
        command.extend(arguments);
        let own = hits(&place.json(&command));
        let asked = target(parameters);
        assert_eq!(own, hits(&server.json(&asked)), "{arguments:?} and {asked}");
        assert!(own.len() >= least, "{arguments:?}: {} hits", own.len());
    }
    // "car" is a word, not the beginning of "carpet"; only who types asks for that.
    let words = |prefix: &str| server.json(&target(&[("q", "car"), ("mode", "words"), ("prefix", prefix)]));
    assert_eq!(hits(&words("false")).len(), 0);
    assert_eq!(hits(&words("true")).len(), 1);

    // A recording from outside, alone and with text.
    let recording = fs_err::read(place.path("outside.wav")).unwrap();
    for (arguments, parameters) in [
        (&[][..], &[][..]),
        (&["dog -growl"][..], &[("q", "dog -growl")][..]),
    ] {
        let own = place.json(
            &[
                &["search", "--json", "-n", "20", "--audio", "outside.wav"],
                arguments,
            ]
            .concat(),
        );
        let sent = server.post(&target(parameters), &recording);
        assert_eq!(hits(&own), hits(&sent), "{arguments:?}");
        assert!(hits(&own).len() >= 4);
    }
    assert_eq!(server.stop(), Some(0));
}
