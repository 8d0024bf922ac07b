//! The page, driven by a real browser (`tests/page/browser.mjs`): typing, playing, more like this, a dropped file.
//! `scripts/setup` installs one; this fails without it.

use std::path::Path;
use std::process::Command;

use crate::library::tone;
use crate::place::{Place, text};
use crate::server::Server;
use crate::towers::with_model;

/// Forty recordings with names, tags and captions, a long one, and two files that cannot be read; and an empty library.
fn with_many_sounds() -> Place {
    let place = with_model();
    let kinds = ["rain", "dog", "engine", "whistle"];
    let mut tags = String::from("file,tags\n");
    for (nth, kind) in kinds.iter().cycle().take(40).enumerate() {
        // Some are a folder deeper.
        let folder = place
            .path("sounds")
            .join(kind)
            .join(if nth % 8 == 1 { "close" } else { "" });
        fs_err::create_dir_all(&folder).unwrap();
        let seconds = 1.0 + (nth % 5) as f64;
        let name = format!("{kind}_{nth:02}.wav");
        fs_err::write(folder.join(&name), tone(100.0 + 40.0 * nth as f64, seconds)).unwrap();
        tags.push_str(&format!(
            "{name},{kind};{}\n",
            if nth % 2 == 0 { "indoor" } else { "outdoor" }
        ));
    }
    fs_err::write(place.path("sounds/a long walk.wav"), tone(300.0, 30.0)).unwrap();
    // A name that would be a page of its own if it were taken for one.
    fs_err::write(
        place.path("sounds/<img src=x onerror=alert(1)>.wav"),
        tone(320.0, 1.0),
    )
    .unwrap();
    place.write("sounds/broken.flac", "fLaC and nothing more");
    place.write("sounds/<b>cut.wav", "RIFF");
    place.write("tags.csv", tags);
    place.write("words.txt", "hum\nwhine\n");
    let indexed = place.run(&[
        "index",
        "sounds",
        "--model",
        "tiny",
        "--tags",
        "tags.csv",
        "--vocabulary",
        "words.txt",
    ]);
    assert_eq!(indexed.status.code(), Some(1), "{}", text(&indexed.stderr));
    fs_err::create_dir(place.path("nothing")).unwrap();
    place.ok(&["index", "nothing", "--model", "tiny", "--name", "empty"]);
    place
}

#[test]
fn the_page_works_in_a_real_browser() {
    let place = with_many_sounds();
    let server = Server::start(&place, &[], &[]);
    let empty = Server::start(&place, &["--name", "empty"], &[]);
    place.write("drop.wav", tone(500.0, 2.0));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let recipe = root.join("crates/hark/tests/recipes/tiny.toml");
    let name = format!("name={}", "x".repeat(200));
    place.ok(&[
        "reproduce",
        recipe.to_str().unwrap(),
        "--folder",
        "study",
        "--seeds",
        "2",
        "--set",
        "training.epochs=1",
        "--set",
        &name,
    ]);
    let shots = std::env::var_os("HARK_SHOTS").map_or_else(|| place.path("shots"), Into::into);
    let output = Command::new(root.join("scripts/browser"))
        .current_dir(&root)
        .env("HARK_URL", format!("http://{}", server.address))
        .env("HARK_EMPTY_URL", format!("http://{}", empty.address))
        .env("HARK_QUERY", "dog")
        .env("HARK_DROP", place.path("drop.wav"))
        .env("HARK_REPORT", place.path("study/report.html"))
        .env("HARK_SHOTS", shots)
        .output()
        .unwrap();
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    eprintln!("{said}");
    assert!(output.status.success(), "{said}");
    assert_eq!((server.stop(), empty.stop()), (Some(0), Some(0)));
}
