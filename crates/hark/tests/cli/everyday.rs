//! The built-in model through the program: a fresh machine without a network indexes, searches, tags and classifies.

use serde_json::Value;

use crate::library::tone;
use crate::place::{Place, text};
use crate::towers::matrix;

/// A place without any model, and a folder `sounds` with white noise, a tone and a tone that turns into noise.
fn with_sounds() -> Place {
    let place = Place::new();
    fs_err::create_dir(place.path("sounds")).unwrap();
    let noise = |seconds: f64| {
        let mut wav = tone(440.0, seconds);
        let mut state = 1_u32;
        for sample in wav[44..].chunks_exact_mut(2) {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            sample.copy_from_slice(&((state >> 19) as i16 - 4096).to_le_bytes());
        }
        wav
    };
    place.write("sounds/noise.wav", noise(2.0));
    place.write("sounds/tone.wav", tone(440.0, 2.0));
    let mut both = tone(440.0, 12.0);
    let end = 44 + 6 * 64_000;
    both[end..].copy_from_slice(&noise(12.0)[end..]);
    place.write("sounds/both.wav", both);
    place
}

fn said(place: &Place, args: &[&str]) -> (String, String) {
    let output = place.run(args);
    let message = text(&output.stderr);
    assert!(output.status.success(), "{message}");
    (text(&output.stdout), message)
}

fn heard(hit: &Value) -> Vec<String> {
    let heard = hit["file"]["heard"].as_array().unwrap();
    heard
        .iter()
        .map(|heard| heard["name"].as_str().unwrap().to_owned())
        .collect()
}

fn hit<'a>(found: &'a Value, name: &str) -> &'a Value {
    let hits = found["hits"].as_array().unwrap();
    let is = |hit: &&Value| hit["file"]["path"].as_str().unwrap().ends_with(name);
    hits.iter().find(is).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn a_fresh_machine_indexes_and_searches() {
    let place = with_sounds();
    let (_, message) = said(&place, &["index", "sounds"]);
    assert!(message.contains("using the built-in model everyday"), "{message}");
    assert!(message.contains("hark models pull mn40-as-ext"), "{message}");
    assert!(message.contains("3 recordings"), "{message}");
    let (_, message) = said(&place, &["search", "white noise"]);
    assert!(message.contains("everyday"), "{message}");
    // Whoever names the model knows it.
    for args in [
        &["search", "noise", "--model", "everyday"][..],
        &["search", "noise", "--words"],
    ] {
        let (_, message) = said(&place, args);
        assert!(!message.contains("everyday"), "{message}");
    }
    let found = place.json(&["search", "--meaning", "static white noise", "--json"]);
    assert_ne!(
        found["hits"][0]["file"]["path"],
        hit(&found, "/tone.wav")["file"]["path"]
    );

    // What is heard is a tag, found by words and filters, in every format.
    let noise = heard(hit(&found, "/noise.wav"));
    assert!(!noise.is_empty());
    let name = noise[0].as_str();
    assert_eq!(name, name.to_lowercase());
    let filtered = place.json(&["search", "--meaning", "noise", "--tag", name, "--json"]);
    hit(&filtered, "/noise.wav");
    let named = place.json(&["search", "--words", name, "--json"]);
    hit(&named, "/noise.wav");
    let csv = place.ok(&["search", "--meaning", "noise", "--csv"]);
    assert!(csv.starts_with("rank,score,path,start,end,seconds,rate,channels,date,tags,heard,captions\r\n"));
    assert!(csv.contains(name), "{csv}");
    assert!(
        place
            .ok(&["index", "--dump"])
            .contains(&format!("  heard \"{name}\""))
    );
    // Of the recording that changes, each tag has its moments.
    let both = &hit(&found, "/both.wav")["file"]["heard"];
    for heard in both.as_array().unwrap() {
        let starts = heard["starts"].as_array().unwrap();
        assert!(!starts.is_empty() && starts.iter().all(|start| start.as_f64().unwrap() <= 10.0));
    }
    let list = place.ok(&["models", "list"]);
    assert!(list.contains("everyday"), "{list}");
    let info = place.json(&["models", "info", "everyday", "--json"]);
    assert!(info["card"]["licence"].is_string(), "{info}");
    assert_eq!(info["card"]["audio"]["labels"].as_array().unwrap().len(), 527);
    assert!(info["weights_bytes"].as_u64().unwrap() <= 2 << 20);
    place.ok(&["index", "--check"]);
    let message = place.fails(&["models", "import", "x.pt", "--name", "everyday"]);
    assert!(message.contains("everyday"), "{message}");
}

#[test]
fn a_vocabulary_replaces_the_classes() {
    let place = with_sounds();
    place.write("words.txt", "White noise\na violin\n\nengine\n");
    place.write("none.txt", "\n\n");
    place.write("twice.txt", "dog\nDog\n");
    for (file, what) in [
        ("none.txt", "no names"),
        ("twice.txt", "both called"),
        ("gone.txt", "gone.txt"),
    ] {
        let message = place.fails(&["index", "sounds", "--vocabulary", file]);
        assert!(message.contains(what), "{message}");
        assert!(!place.path("data/libraries/default/catalogue.sqlite").exists());
    }
    said(&place, &["index", "sounds"]);
    let before = place.json(&["search", "--meaning", "noise", "--json"]);
    let again = place.json(&["index", "--vocabulary", "words.txt", "--json"]);
    assert_eq!(
        (&again["outcome"]["retagged"], &again["outcome"]["unchanged"]),
        (&3.into(), &3.into())
    );
    let found = place.json(&["search", "--meaning", "noise", "--json"]);
    let words = ["white noise", "a violin", "engine"];
    for name in ["/noise.wav", "/tone.wav", "/both.wav"] {
        let heard = heard(hit(&found, name));
        assert!(
            !heard.is_empty() && heard.iter().all(|name| words.contains(&name.as_str())),
            "{heard:?}"
        );
        assert_ne!(heard, self::heard(hit(&before, name)));
    }
    // The library remembers it, and a rebuilt one has it from the start.
    let again = place.json(&["index", "--json"]);
    assert_eq!(again["outcome"]["retagged"], 0);
    let dumped = place.ok(&["index", "--dump"]);
    said(&place, &["index", "--rebuild"]);
    assert_eq!(place.ok(&["index", "--dump"]), dumped);
}

#[test]
fn recordings_are_classified_described_and_embedded() {
    let place = with_sounds();
    let (noise, tone) = (place.path("sounds/noise.wav"), place.path("sounds/tone.wav"));
    let (noise, tone) = (noise.to_str().unwrap(), tone.to_str().unwrap());
    place.write("labels.txt", "white noise\na musical tone\n");
    let (out, message) = said(&place, &["classify", noise, tone, "--labels", "labels.txt"]);
    assert!(message.contains("using the built-in model everyday"), "{message}");
    assert_eq!(out.lines().count(), 4, "{out}");
    place.write(
        "truth.csv",
        "filename,category\nnoise.wav,white_noise\ntone.wav,a_musical_tone\n",
    );
    let template = ["--template", "the sound of {}", "--template", "{} is heard"];
    let args = [
        &["classify", noise, tone, "--truth", "truth.csv", "--json"][..],
        &template,
    ]
    .concat();
    let report = place.json(&args);
    let accuracy = &report["accuracy"];
    assert_eq!(
        (&accuracy["recordings"], &accuracy["chance"]),
        (&2.into(), &0.5.into())
    );
    assert_eq!(accuracy["among_five"], 1.0);
    assert_eq!(report["recordings"][0]["truth"], "white_noise");
    for (args, what) in [
        (&["--labels", "labels.txt", "--template", "a sound"][..], "{}"),
        (
            &["--labels", "labels.txt", "--truth", "wrong.csv"],
            "none of the labels",
        ),
        (&["--labels", "empty.txt"], "no names"),
        (
            &["--labels", "labels.txt", "--model", "caption-static"],
            "caption-static",
        ),
    ] {
        place.write("wrong.csv", "file,category\nnoise.wav,thunder\n");
        place.write("empty.txt", "");
        let message = place.fails(&[&["classify", noise][..], args].concat());
        assert!(message.contains(what), "{message}");
    }
    place.write("broken.wav", "RIFF");
    let output = place.run(&["classify", "broken.wav", noise, "--labels", "labels.txt"]);
    assert!(!output.status.success() && text(&output.stdout).contains("noise.wav"));
    assert!(text(&output.stderr).contains("cannot read 1 of 2 recordings"));

    let described = place.json(&["describe", noise, "--captions", "labels.txt", "--json"]);
    assert_eq!(described[0]["captions"].as_array().unwrap().len(), 2);
    said(&place, &["embed", noise, tone, "-o", "clips.npy"]);
    let (rows, columns, _) = matrix(&place.path("clips.npy"));
    assert_eq!((rows, columns), (2, 256));
}
