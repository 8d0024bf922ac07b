//! `hark data pull` from a server on loopback that has small datasets in the layouts of the published ones.

#[path = "../../../datasets/tests/site/mod.rs"]
mod site;

use crate::loopback::{Fault, Loopback};
use crate::place::{Place, text};

#[test]
fn a_dataset_that_nobody_publishes_is_bad_usage() {
    let place = Place::new();
    let output = place.run(&["data", "pull", "clothes", "data"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("clotho-retrieval-2022"));
    let message = place.fails(&["data", "pull", "clotho", "data", "--splits", "test"]);
    assert!(
        message.contains("clotho has no split test (known: development"),
        "{message}"
    );
}

#[test]
fn options_that_do_not_fit_are_bad_usage() {
    let place = Place::new();
    let pull = ["data", "pull", "clotho", "data"];
    for seconds in ["0", "-5", "nan", "inf", "x"] {
        let output = place.run(&[&pull[..], &["--as", "flac-32k", "--seconds", seconds]].concat());
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{seconds}: {message}");
        assert!(message.contains("it must be a number above 0"), "{message}");
    }
    for options in [&["--keep-archives"][..], &["--as", "flac-32k"]] {
        let output = place.run(&[&pull[..], &["--only", "captions"], options].concat());
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        let message = place.fails(&[&["data", "pull", "audiocaps", "data"], options].concat());
        assert!(message.contains("does not apply to audiocaps"), "{message}");
    }
    let model = ["models", "pull", "passt-s", "--from", "x"];
    let output = place.run(&[&model[..], &["--mirror", "http://127.0.0.1:9"]].concat());
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn captions_that_are_not_the_published_ones_are_refused() {
    let place = Place::new();
    let path = |name: &str| format!("/records/4783391/files/{name}");
    let server = Loopback::new(
        ["clotho_captions_evaluation.csv", "clotho_metadata_evaluation.csv"]
            .map(|name| (path(name), b"file_name,caption_1\n".to_vec())),
    );
    let url = server.url();
    let pull = [
        "data",
        "pull",
        "clotho",
        "data",
        "--only",
        "captions",
        "--splits",
        "evaluation",
        "--mirror",
        &url,
    ];
    let message = place.fails(&pull);
    assert!(
        message.contains("checksum mismatch for") && message.contains("licence: captions: Tampere"),
        "{message}"
    );
    server.always(
        &path("clotho_captions_evaluation.csv"),
        Fault::Page { told: false },
    );
    let message = place.fails(&pull);
    assert!(message.contains("a web page instead of the file"), "{message}");
    assert_eq!(site::tree(&place.path("data")).len(), 0);
}

/// Programs of tests are scripts, found on the PATH.
#[cfg(unix)]
#[test]
fn clips_of_audiocaps_come_through_programs_of_the_user() {
    let place = Place::new();
    let programs = place.path("programs");
    site::programs(&programs);
    let server = Loopback::new(site::site("audiocaps", &place.path("")));
    let url = server.url();
    let mut pull = place.command(&[
        "data",
        "pull",
        "audiocaps",
        "data",
        "--mirror",
        &url,
        "--splits",
        "train,test",
    ]);
    let path = std::env::join_paths(
        std::iter::once(programs.clone()).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let output = pull.env("PATH", path.unwrap()).output().unwrap();
    let message = text(&output.stderr);
    assert!(output.status.success(), "{message}");
    assert!(
        message
            .contains("train: of 9 clips, 1 no longer on YouTube, 0 failed (see data/unavailable_train.csv)"),
        "{message}"
    );
    assert!(
        message.ends_with("next: hark reproduce recipes/audiocaps.toml --rehearse\n"),
        "{message}"
    );
    assert!(text(&output.stdout).contains("audiocaps-train: not complete"));
    let check = place.run(&["data", "check", "audiocaps", "data", "--split", "test"]);
    assert!(text(&check.stdout).contains("missing"), "{}", text(&check.stdout));

    // A clip that failed may be had later: the pull is not done.
    let captions = "audiocap_id,youtube_id,start_time,caption\n1,fail_abcd01,0,rain\n2,good_abcd02,0,rain\n";
    server.put(
        "/cdjkim/audiocaps/master/dataset/val.csv",
        captions.as_bytes().to_vec(),
    );
    let mut failing = place.command(&[
        "data",
        "pull",
        "audiocaps",
        "failing",
        "--mirror",
        &url,
        "--splits",
        "val",
    ]);
    let path = std::env::join_paths(
        std::iter::once(programs).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let output = failing.env("PATH", path.unwrap()).output().unwrap();
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        message.contains("1 clip failed; run the command again to retry"),
        "{message}"
    );

    let mut without = place.command(&["data", "pull", "audiocaps", "other", "--mirror", &url]);
    let output = without.env("PATH", place.path("nothing")).output().unwrap();
    assert!(
        text(&output.stderr).contains("cannot run yt-dlp"),
        "{}",
        text(&output.stderr)
    );
}

/// With archives as `zip` writes them.
mod needs_archivers {
    use super::*;

    fn serve(place: &Place, dataset: &str) -> Loopback {
        let work = place.path("made");
        fs_err::create_dir(&work).unwrap();
        Loopback::new(site::site(dataset, &work))
    }

    #[test]
    fn esc50_is_announced_pulled_checked_and_killed_on_the_way() {
        let place = Place::new();
        let server = serve(&place, "esc50");
        let url = server.url();
        let dry = place.run(&["data", "pull", "esc50", "data", "--mirror", &url, "--dry-run"]);
        let message = text(&dry.stderr);
        assert!(dry.status.success() && !place.path("data").exists(), "{message}");
        for words in [
            "ESC-50",
            "licence: Creative Commons",
            "download: 2 files, ",
            "kB",
            "free disk space in data: ",
            "; 2 files have no published checksum",
        ] {
            assert!(message.contains(words), "{message}");
        }
        let told = place.json(&[
            "data",
            "pull",
            "esc50",
            "data",
            "--mirror",
            &url,
            "--dry-run",
            "--json",
        ]);
        assert_eq!(told["files"][0]["name"], "esc50.csv");
        let bytes = |nth: usize| told["files"][nth]["bytes"].as_u64().unwrap();
        assert_eq!(told["bytes_left"], bytes(0) + bytes(1));
        assert!(!place.path("data").exists());
        let captions = [
            "data", "pull", "esc50", "captions", "--only", "captions", "--mirror", &url,
        ];
        let told = place.json(&[&captions[..], &["--json"]].concat());
        assert!(told["complete"].is_null(), "{told}");
        let whole = place.run(&["data", "pull", "esc50", "data", "--mirror", &url]);
        let message = text(&whole.stderr);
        assert!(whole.status.success(), "{message}");
        assert!(
            message.contains("master.zip: no published checksum; sha256 "),
            "{message}"
        );
        assert!(message.ends_with("next: hark index data/audio\n"), "{message}");
        assert!(
            text(&whole.stdout).contains("esc50: complete"),
            "{}",
            text(&whole.stdout)
        );

        for at in [20_000, 60_000, 90_000] {
            server.hold_after(at);
            let mut running = place
                .command(&["data", "pull", "esc50", "killed", "--mirror", &url])
                .spawn()
                .unwrap();
            assert!(server.wait_until_held(|| running.try_wait().unwrap().is_some()));
            running.kill().unwrap();
            running.wait().unwrap();
            server.release();
        }
        let told = place.json(&["data", "pull", "esc50", "killed", "--mirror", &url, "--json"]);
        assert_eq!(
            (&told["complete"], &told["sets"][0]["found"]),
            (&true.into(), &20.into())
        );
        assert!(site::tree(&place.path("killed")) == site::tree(&place.path("data")));
    }

    #[test]
    fn a_source_of_wavcaps_is_pulled_from_the_parts_of_its_archive() {
        let place = Place::new();
        let server = serve(&place, "wavcaps");
        let url = server.url();
        let pull = [
            "data",
            "pull",
            "wavcaps",
            "data",
            "--mirror",
            &url,
            "--splits",
            "FreeSound,SoundBible",
        ];
        let output = place.run(&[&pull[..], &["--as", "flac-32k", "--seconds", "0.1"]].concat());
        let message = text(&output.stderr);
        assert!(output.status.success(), "{message}");
        assert!(
            message.contains("download: 8 files") && message.contains(" saved\n"),
            "{message}"
        );
        let check = place.ok(&["data", "check", "wavcaps", "data"]);
        assert!(check.contains("wavcaps: complete"), "{check}");
        let names: Vec<String> = site::tree(&place.path("data")).into_keys().collect();
        assert_eq!(
            names
                .iter()
                .filter(|name| name.starts_with("audio/FreeSound/"))
                .count(),
            8
        );
        assert!(!names.iter().any(|name| name.contains(".z")), "{names:?}");
        let message = place.fails(&pull);
        assert!(
            message.contains(
                "data already holds recordings as flac-32k (first 0.1 s); add --as flac-32k --seconds 0.1"
            ),
            "{message}"
        );
    }
}
