//! Whole pulls from a server on loopback, and what is refused.

#[path = "../../download/tests/loopback/mod.rs"]
mod loopback;
#[path = "../tests/site/mod.rs"]
mod site;

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hark_download::{Checksum, Client, digest_file};
use hark_work::progress::no_progress;
use loopback::{Fault, Loopback};
use site::{Site, tree};

use crate::published::{Kind, Listed, Published};
use crate::{Error, Event, Form, Programs, Request};

/// The dataset as it is published, with the checksums of what a server of the test has.
fn with_sums_of(name: &str, site: &Site) -> &'static Published {
    let published = Published::find(name).unwrap();
    let relist = |files: &'static [Listed]| {
        let files = files.iter().map(|file| {
            let path = file.url.splitn(4, '/').nth(3).unwrap();
            let md5 = file.md5.and_then(|_| md5(site.get(&format!("/{path}"))?));
            Listed { md5, ..*file }
        });
        &*Box::leak(files.collect::<Vec<_>>().into_boxed_slice())
    };
    Box::leak(Box::new(Published {
        kind: match published.kind {
            Kind::Files(files) => Kind::Files(relist(files)),
            Kind::AudioCaps(files) => Kind::AudioCaps(relist(files)),
            Kind::WavCaps => Kind::WavCaps,
        },
        ..*published
    }))
}

fn md5(bytes: &[u8]) -> Option<&'static str> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    fs_err::write(&path, bytes).unwrap();
    let fetched = digest_file(&path, Some(&Checksum::Md5(String::new()))).unwrap();
    fetched.md5.map(|digits| &*digits.leak())
}

fn client(address: &str) -> Client {
    Client::new().mirror(address).retries(0, Duration::ZERO)
}

fn request(dataset: &'static Published, folder: &Path) -> Request {
    Request {
        dataset,
        folder: folder.to_owned(),
        splits: Vec::new(),
        captions_only: false,
        keep_archives: false,
        form: Form::Original,
        parallel: NonZeroUsize::new(2).unwrap(),
        threads: NonZeroUsize::new(2).unwrap(),
        programs: Programs::default(),
    }
}

fn go_on(_: Event<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// While a plan is made.
fn on() -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn pull(request: &Request, server: &Loopback) -> Result<crate::Pulled, Error> {
    let client = client(&server.url());
    request.plan(&client, &on)?.run(&go_on)
}

fn is_recording(name: &str) -> bool {
    hark_audio::has_audio_extension(Path::new(name))
}

/// Half a minute would pass until the server's silence is an error.
#[test]
fn a_plan_can_be_cancelled_while_a_server_is_silent() {
    let server = Loopback::new([]);
    let folder = tempfile::tempdir().unwrap();
    let listing = format!(
        "/api/datasets/cvssp/WavCaps/tree/{}/json_files/SoundBible",
        site::REVISION
    );
    for (dataset, path) in [
        ("esc50", "/karolpiczak/ESC-50/archive/master.zip"),
        ("wavcaps", listing.as_str()),
    ] {
        server.always(path, Fault::Silent);
        server.put(path, Vec::new());
        let mut request = request(Published::find(dataset).unwrap(), folder.path());
        if dataset == "wavcaps" {
            request.splits = vec!["SoundBible".to_owned()];
        }
        let began = std::time::Instant::now();
        let stop = || {
            if began.elapsed() < Duration::from_millis(200) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        let error = request.plan(&client(&server.url()), &stop).unwrap_err();
        assert!(error.is_cancelled(), "{dataset}: {error}");
        assert!(began.elapsed() < Duration::from_secs(25), "{dataset}");
    }
}

/// ZIP archives that no program writes.
mod hostile {
    use super::*;
    use std::io::Write as _;

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    const PATH: &str = "/karolpiczak/ESC-50/archive/master.zip";

    fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (name, bytes) in entries {
            zip.start_file(*name, SimpleFileOptions::default()).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }

    /// What is said of an ESC-50 with this archive, which must leave nothing but the table.
    fn refused(archive: Vec<u8>) -> String {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("in/esc50");
        let server = Loopback::new([
            (PATH.to_owned(), archive),
            (
                "/karolpiczak/ESC-50/raw/master/meta/esc50.csv".to_owned(),
                b"filename,category\n".to_vec(),
            ),
        ]);
        let error = pull(&request(Published::find("esc50").unwrap(), &folder), &server).unwrap_err();
        let names: Vec<String> = tree(place.path()).into_keys().collect();
        assert_eq!(
            names,
            ["in/esc50/hark-pull.json", "in/esc50/meta/esc50.csv"],
            "{error}"
        );
        error.to_string()
    }

    #[test]
    fn names_that_lead_out_of_the_folder_end_the_unpacking() {
        for name in [
            "../../outside.wav",
            "/tmp/outside.wav",
            "a/../../../outside.wav",
            "..\\outside.wav",
            "C:\\x.wav",
        ] {
            let text = refused(archive(&[
                ("ESC-50-master/audio/a.wav", b"first"),
                (name, b"second"),
            ]));
            assert!(
                text.contains("would be written outside the folder; nothing was unpacked"),
                "{name}: {text}"
            );
        }
    }

    #[test]
    fn bombs_are_refused() {
        let zeros = vec![0; 100 << 20];
        let text = refused(archive(&[("audio/a.wav", &zeros)]));
        assert!(
            text.contains("refusing to unpack")
                && text.contains("would expand to 104,857,600. Nothing was unpacked"),
            "{text}"
        );
        // One that states little and gives much.
        let mut lying = archive(&[("audio/a.wav", &zeros[..1 << 20])]);
        let directory = lying
            .windows(4)
            .rposition(|bytes| bytes == 0x0201_4b50_u32.to_le_bytes())
            .unwrap();
        lying[directory + 24..directory + 28].copy_from_slice(&7_u32.to_le_bytes());
        let text = refused(lying);
        assert!(
            text.contains("is damaged: it is longer than the archive states"),
            "{text}"
        );
    }

    #[test]
    fn damaged_archives_are_refused() {
        let noise = site::noise(1, 44_100, 3000);
        let good = archive(&[("audio/a.wav", &noise)]);
        let mut flipped = good.clone();
        flipped[2000] ^= 1;
        assert!(refused(flipped).contains("is damaged"));
        assert!(
            refused(good[..good.len() - 1].to_vec())
                .contains("it is not a ZIP archive, or its end is missing")
        );
        assert!(refused(good[500..].to_vec()).contains("cannot unpack"));
        assert!(refused(Vec::new()).contains("it is not a ZIP archive"));
        assert!(
            refused(b"no archive at all".to_vec()).contains("delete the archive and run the command again")
        );
        let mut encrypted = good;
        let directory = encrypted
            .windows(4)
            .rposition(|bytes| bytes == 0x0201_4b50_u32.to_le_bytes())
            .unwrap();
        encrypted[directory + 8] |= 1;
        assert!(refused(encrypted).contains("it is encrypted"));
        assert!(refused(archive(&[("audio/readme.txt", b"x")])).contains("it has no recording"));
    }

    /// Whatever its bytes, an archive gives an error or its files; nothing outside the folder, and no panic.
    #[test]
    fn archives_with_any_byte_changed_do_no_harm() {
        let good = archive(&[("audio/a.wav", b"some sound"), ("audio/b.wav", &[7; 300])]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.zip");
        for at in 0..good.len() {
            for value in [0x00, 0xff, good[at] ^ 0x10] {
                let mut changed = good.clone();
                changed[at] = value;
                fs_err::write(&path, &changed).unwrap();
                let Ok(zip) = crate::zip::Zip::open(std::slice::from_ref(&path)) else {
                    continue;
                };
                for entry in &zip.entries {
                    let Ok(mut reader) = zip.read(entry) else { continue };
                    let mut bytes = Vec::new();
                    if std::io::copy(&mut std::io::Read::take(&mut reader, 1 << 20), &mut bytes).is_ok() {
                        assert_eq!(bytes.len() as u64, entry.size, "byte {at}");
                    }
                }
            }
        }
    }
}

/// With archives as `7z` and `zip` write them.
mod needs_archivers {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::process::{Command, Stdio};

    use hark_work::random::Random;

    use super::*;

    const CHILD: &str = "HARK_DATASETS_TEST_CHILD";
    const ALL: [&str; 5] = ["clotho", "clotho-retrieval-2022", "esc50", "audiocaps", "wavcaps"];

    struct Case {
        name: &'static str,
        site: Site,
        server: Loopback,
        place: tempfile::TempDir,
    }

    impl Case {
        fn new(name: &'static str) -> Self {
            let place = tempfile::tempdir().unwrap();
            let work = place.path().join("made");
            fs_err::create_dir(&work).unwrap();
            let site = site::site(name, &work);
            fs_err::remove_dir_all(work).unwrap();
            site::programs(&place.path().join("programs"));
            Self {
                name,
                server: Loopback::new(site.clone()),
                site,
                place,
            }
        }

        fn dataset(&self) -> &'static Published {
            with_sums_of(self.name, &self.site)
        }

        fn folder(&self, name: &str) -> PathBuf {
            self.place.path().join(name)
        }

        fn request(&self, folder: &str) -> Request {
            let programs = self.place.path().join("programs");
            Request {
                programs: Programs {
                    yt_dlp: programs.join("yt-dlp").into(),
                    ffmpeg: programs.join("ffmpeg").into(),
                },
                ..request(self.dataset(), &self.folder(folder))
            }
        }

        fn whole(&self) -> std::collections::BTreeMap<String, Vec<u8>> {
            pull(&self.request("whole"), &self.server).unwrap();
            tree(&self.folder("whole"))
        }
    }

    #[test]
    fn all_five_are_pulled_and_complete() {
        for name in ALL {
            let case = Case::new(name);
            let request = case.request("whole");
            let client = client(&case.server.url());
            let plan = request.plan(&client, &on).unwrap();
            let files: u64 = plan.files.iter().map(|file| file.bytes.unwrap()).sum();
            assert_eq!(plan.bytes_left(), files, "{name}");
            assert!(
                plan.free.unwrap() > 0 && plan.done == 0 && !case.folder("whole").exists(),
                "{name}"
            );
            let pulled = plan.run(&go_on).unwrap();
            assert_eq!(pulled.remarks, [""; 0], "{name}");
            let sets = crate::check(case.dataset(), &request.folder, &[], 2, &no_progress).unwrap();
            for set in &sets {
                let gone = usize::from(name == "audiocaps");
                assert_eq!(
                    (set.state.missing.len(), set.broken.len()),
                    (gone, 0),
                    "{name}: {set:?}"
                );
                assert!(set.state.found > 0);
            }
            // Again: nothing is left to do, and no file is asked for.
            case.server.forget();
            let plan = request.plan(&client, &on).unwrap();
            assert!(plan.files.is_empty() && plan.done > 0, "{name}: {:?}", plan.files);
            plan.run(&go_on).unwrap();
            let asked = case.server.asked();
            assert!(
                asked.iter().all(|asked| asked.path.starts_with("/api/")),
                "{name}: {asked:?}"
            );
            // A recording that was lost comes back.
            let before = tree(&request.folder);
            let lost = before.keys().find(|path| is_recording(path)).unwrap();
            fs_err::remove_file(request.folder.join(lost)).unwrap();
            pull(&request, &case.server).unwrap();
            assert_eq!(tree(&request.folder), before, "{name}");
        }
    }

    #[test]
    fn what_is_recorded_are_the_sums_of_what_came() {
        let case = Case::new("esc50");
        let whole = case.whole();
        let record: crate::Record = serde_json::from_slice(&whole["hark-pull.json"]).unwrap();
        assert_eq!(record.files.len(), 2);
        let archive = &record.files["master.zip"];
        let path = case.folder("x");
        fs_err::write(&path, &case.site["/karolpiczak/ESC-50/archive/master.zip"]).unwrap();
        assert_eq!(archive.sha256, digest_file(&path, None).unwrap().sha256);
        assert_eq!(archive.stated, None);
        assert_eq!(
            archive.url,
            "https://github.com/karolpiczak/ESC-50/archive/master.zip"
        );
        let case = Case::new("clotho");
        let record: crate::Record = serde_json::from_slice(&case.whole()["hark-pull.json"]).unwrap();
        assert!(
            record
                .files
                .values()
                .all(|file| file.stated.as_ref().unwrap().starts_with("md5 "))
        );
    }

    #[test]
    fn captions_and_splits_can_be_pulled_alone() {
        let case = Case::new("clotho");
        let captions = Request {
            captions_only: true,
            splits: vec!["evaluation".to_owned()],
            ..case.request("some")
        };
        pull(&captions, &case.server).unwrap();
        let expected = [
            "clotho_captions_evaluation.csv",
            "clotho_metadata_evaluation.csv",
            "hark-pull.json",
        ];
        assert_eq!(tree(&captions.folder).into_keys().collect::<Vec<_>>(), expected);
        let kept = Request {
            captions_only: false,
            keep_archives: true,
            ..captions
        };
        pull(&kept, &case.server).unwrap();
        let files = tree(&kept.folder);
        let archive = &case.site["/records/4783391/files/clotho_audio_evaluation.7z"];
        assert_eq!(&files["archives/clotho_audio_evaluation.7z"], archive);
        assert_eq!(
            files
                .keys()
                .filter(|name| name.starts_with("evaluation/"))
                .count(),
            12
        );
        // The rest, later.
        pull(&case.request("some"), &case.server).unwrap();
        let mut files = tree(&kept.folder);
        files.remove("archives/clotho_audio_evaluation.7z");
        assert_eq!(files, case.whole());
    }

    #[test]
    fn files_that_are_there_are_used_and_never_replaced() {
        let case = Case::new("clotho");
        let whole = case.whole();
        let request = case.request("own");
        let path = |name: &str| request.folder.join(name);
        let captions = "clotho_captions_validation.csv";
        site::write(&path(captions), &whole[captions]);
        // An archive that was downloaded by other means.
        let archive = "clotho_audio_validation.7z";
        let bytes = &case.site[&format!("/records/4783391/files/{archive}")];
        site::write(&path("archives").join(archive), bytes);
        case.server.forget();
        pull(&request, &case.server).unwrap();
        let asked = case.server.asked();
        let is_got = |name: &str| {
            asked
                .iter()
                .any(|asked| asked.method == "GET" && asked.path.ends_with(name))
        };
        assert!(!is_got(captions) && !is_got(archive) && is_got("clotho_captions_evaluation.csv"));
        let mut files = tree(&request.folder);
        assert_eq!(&files.remove(&format!("archives/{archive}")).unwrap(), bytes);
        assert!(files == whole);

        let other = case.request("other");
        let own = other.folder.join(captions);
        site::write(&own, "my own captions");
        let error = pull(&other, &case.server).unwrap_err().to_string();
        assert!(
            error.contains(captions) && error.contains("differs from the published file; move it"),
            "{error}"
        );
        assert_eq!(fs_err::read(own).unwrap(), b"my own captions");
    }

    #[test]
    fn what_the_user_changed_is_neither_removed_nor_replaced() {
        let case = Case::new("clotho");
        let request = Request {
            splits: vec!["validation".to_owned()],
            ..case.request("own")
        };
        let archive = request.folder.join("archives/clotho_audio_validation.7z");
        site::write(&archive, "an archive of my own");
        let error = pull(&request, &case.server).unwrap_err().to_string();
        assert!(
            error.contains("clotho_audio_validation.7z differs from the published file; move it"),
            "{error}"
        );
        assert_eq!(fs_err::read(&archive).unwrap(), b"an archive of my own");
        fs_err::remove_file(&archive).unwrap();
        pull(&request, &case.server).unwrap();
        let captions = request.folder.join("clotho_captions_validation.csv");
        let edited = [&fs_err::read(&captions).unwrap()[..], b"one more line\n"].concat();
        fs_err::write(&captions, &edited).unwrap();
        let error = pull(&request, &case.server).unwrap_err().to_string();
        assert!(
            error.contains("clotho_captions_validation.csv has changed since it was pulled; move it"),
            "{error}"
        );
        assert_eq!(fs_err::read(&captions).unwrap(), edited);
        fs_err::remove_file(&captions).unwrap();
        pull(&request, &case.server).unwrap();
        assert!(captions.is_file());
    }

    #[test]
    fn without_a_published_checksum_a_file_is_compared_with_what_comes() {
        let case = Case::new("audiocaps");
        let request = Request {
            captions_only: true,
            ..case.request("own")
        };
        let captions = request.folder.join("train.csv");
        site::write(&captions, "my own captions");
        for _ in 0..2 {
            let error = pull(&request, &case.server).unwrap_err().to_string();
            assert!(
                error.contains("train.csv differs from the published file; move it"),
                "{error}"
            );
            assert_eq!(fs_err::read(&captions).unwrap(), b"my own captions");
        }
        fs_err::write(
            &captions,
            &case.site["/cdjkim/audiocaps/master/dataset/train.csv"],
        )
        .unwrap();
        let pulled = pull(&request, &case.server).unwrap();
        assert_eq!(pulled.files.len(), 3);
        case.server.forget();
        pull(&request, &case.server).unwrap();
        assert_eq!(case.server.asked(), []);
    }

    #[test]
    fn captions_go_with_recordings_in_any_form() {
        let case = Case::new("clotho");
        let captions = Request {
            captions_only: true,
            splits: vec!["evaluation".to_owned()],
            ..case.request("some")
        };
        let flac = Request {
            captions_only: false,
            form: Form::Flac32k { seconds: 600.0 },
            ..captions.clone()
        };
        pull(&captions, &case.server).unwrap();
        pull(&flac, &case.server).unwrap();
        pull(&captions, &case.server).unwrap();
        let original = Request {
            form: Form::Original,
            ..flac
        };
        let error = pull(&original, &case.server).unwrap_err().to_string();
        assert!(
            error.contains(
                "already holds recordings as flac-32k (first 600 s); add --as flac-32k --seconds 600"
            ),
            "{error}"
        );
    }

    #[test]
    fn archives_are_kept_or_not_without_another_download() {
        let case = Case::new("clotho");
        let name = "clotho_audio_evaluation.7z";
        for keep_archives in [true, false] {
            let first = Request {
                keep_archives: !keep_archives,
                splits: vec!["evaluation".to_owned()],
                ..case.request(&format!("kept {keep_archives}"))
            };
            let stop = |event: Event<'_>| match event {
                Event::Unpacking { done: 3.., .. } => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            };
            let client = client(&case.server.url());
            let error = first.plan(&client, &on).unwrap().run(&stop).unwrap_err();
            assert!(error.is_cancelled(), "{error}");
            case.server.forget();
            let second = Request {
                keep_archives,
                ..first
            };
            pull(&second, &case.server).unwrap();
            let asked = case.server.asked();
            assert!(
                !asked
                    .iter()
                    .any(|asked| asked.method == "GET" && asked.path.ends_with(name)),
                "{asked:?}"
            );
            for (folder, is_there) in [("archives", keep_archives), (".hark-pull", false)] {
                let path = second.folder.join(folder).join(name);
                assert_eq!(path.exists(), is_there, "{}", path.display());
            }
        }
    }

    #[test]
    fn a_host_of_optional_files_that_cannot_be_reached_ends_no_pull() {
        let case = Case::new("wavcaps");
        let lists = ["blacklist_clotho.full.v2.csv", "blacklist_audiocaps.full.csv"];
        for (name, fault) in lists.into_iter().zip([Fault::Refuse, Fault::Status(503)]) {
            let path = format!("/Labbeti/aac-datasets/main/data/wavcaps/{name}");
            case.server.always(&path, fault);
        }
        let request = Request {
            splits: vec!["SoundBible".to_owned()],
            ..case.request("some")
        };
        let pulled = pull(&request, &case.server).unwrap();
        assert_eq!(pulled.remarks.len(), 2, "{:?}", pulled.remarks);
        for (remark, name) in pulled.remarks.iter().zip(lists) {
            assert!(
                remark.contains(name) && remark.ends_with("(optional file; the dataset does not need it)"),
                "{remark}"
            );
        }
        // Cancelling is no fault of the host.
        let stop = |event: Event<'_>| match event {
            Event::Download(hark_download::Event::Retrying { .. }) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        };
        let client = client(&case.server.url()).retries(1, Duration::ZERO);
        let error = request.plan(&client, &on).unwrap().run(&stop).unwrap_err();
        assert!(error.is_cancelled(), "{error}");
    }

    #[test]
    fn a_folder_that_another_process_pulls_to_is_left_to_it() {
        let case = Case::new("audiocaps");
        let request = Request {
            captions_only: true,
            ..case.request("busy")
        };
        let work = request.folder.join(".hark-pull");
        fs_err::create_dir_all(&work).unwrap();
        let other = std::fs::File::create(work.join("lock")).unwrap();
        other.lock().unwrap();
        let error = pull(&request, &case.server).unwrap_err();
        assert!(matches!(error, Error::InUse { .. }), "{error}");
        drop(other);
        pull(&request, &case.server).unwrap();
    }

    #[test]
    fn options_that_would_do_nothing_for_audiocaps_are_refused() {
        let case = Case::new("audiocaps");
        let converted = Request {
            form: Form::Flac32k { seconds: 600.0 },
            ..case.request("videos")
        };
        let kept = Request {
            keep_archives: true,
            ..case.request("videos")
        };
        for (request, option) in [(converted, "--as"), (kept, "--keep-archives")] {
            let error = pull(&request, &case.server).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("{option} does not apply to audiocaps: ")),
                "{error}"
            );
        }
        assert!(!case.folder("videos").exists() && case.server.asked().is_empty());
    }

    /// Run as a process of its own by [`killed_at_random_moments_and_resumed_they_end_with_the_same_bytes`].
    #[test]
    fn child() {
        let Ok(told) = std::env::var(CHILD) else { return };
        let [name, url, folder, programs, sums]: [&str; 5] =
            told.split('\n').collect::<Vec<_>>().try_into().unwrap();
        let site: Site = serde_json::from_str(&fs_err::read_to_string(sums).unwrap()).unwrap();
        let request = Request {
            programs: Programs {
                yt_dlp: Path::new(programs).join("yt-dlp").into(),
                ffmpeg: Path::new(programs).join("ffmpeg").into(),
            },
            ..request(with_sums_of(Box::leak(name.into()), &site), Path::new(folder))
        };
        let client = client(url);
        let told = |event: Event<'_>| {
            if !matches!(event, Event::Download(_)) {
                let mut out = std::io::stderr().lock();
                writeln!(out, "event").unwrap();
            }
            ControlFlow::Continue(())
        };
        request.plan(&client, &on).unwrap().run(&told).unwrap();
    }

    #[test]
    fn killed_at_random_moments_and_resumed_they_end_with_the_same_bytes() {
        let mut random = Random::new(5);
        for name in ALL {
            let case = Case::new(name);
            let whole = case.whole();
            let sums = case.folder("sums.json");
            fs_err::write(&sums, serde_json::to_vec(&case.site).unwrap()).unwrap();
            let told = [
                name,
                &case.server.url(),
                &case.folder("killed").display().to_string(),
                &case.folder("programs").display().to_string(),
                &sums.display().to_string(),
            ]
            .join("\n");
            let mut child = Command::new(std::env::current_exe().unwrap());
            child
                .args(["--exact", "tests::needs_archivers::child", "--nocapture"])
                .env(CHILD, &told)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped());
            let mut kills = 0;
            // While bytes come in: the server holds one back, and the process is killed there.
            let bytes: u64 = case.site.values().map(|bytes| bytes.len() as u64).sum();
            for _ in 0..6 {
                case.server.hold_after(random.next() % (bytes / 4));
                let mut running = child.spawn().unwrap();
                let held = case
                    .server
                    .wait_until_held(|| running.try_wait().unwrap().is_some());
                running.kill().unwrap();
                running.wait().unwrap();
                case.server.release();
                kills += u32::from(held);
            }
            // While archives are unpacked or videos come in: after so many events.
            for _ in 0..6 {
                let after = 1 + random.next() % 4;
                let mut running = child.spawn().unwrap();
                let mut lines = BufReader::new(running.stderr.take().unwrap()).lines();
                let (mut events, mut told) = (0, Vec::new());
                while events < after
                    && let Some(line) = lines.next()
                {
                    let line = line.unwrap();
                    events += u64::from(line == "event");
                    told.push(line);
                }
                let is_killed = events == after;
                let is_over = told.iter().any(|line| line.contains("panicked"));
                assert!(!is_over, "{name}: {told:?}");
                running.kill().unwrap();
                running.wait().unwrap();
                kills += u32::from(is_killed);
            }
            assert!(kills >= 4, "{name} was too quick to be killed: {kills}");
            let mut running = child.spawn().unwrap();
            let mut errors = String::new();
            running
                .stderr
                .take()
                .unwrap()
                .read_to_string(&mut errors)
                .unwrap();
            assert!(running.wait().unwrap().success(), "{name}: {errors}");
            let killed = tree(&case.folder("killed"));
            assert_eq!(
                killed.keys().collect::<Vec<_>>(),
                whole.keys().collect::<Vec<_>>(),
                "{name}"
            );
            assert!(killed == whole, "{name} differs");
        }
    }

    #[test]
    fn servers_with_faults_give_errors_and_no_half_of_a_file() {
        let case = Case::new("clotho");
        let whole = case.whole();
        let path = "/records/4783391/files/clotho_audio_validation.7z";
        let mut wrong = case.site[path].clone();
        *wrong.last_mut().unwrap() ^= 1;
        let faults = [
            (Fault::Cut(9000), "run the command again to resume"),
            (Fault::NoRangesCut(9000), "run the command again to resume"),
            (Fault::Page { told: true }, "sent a web page instead of the file"),
            (Fault::Page { told: false }, "sent a web page instead of the file"),
            (Fault::Other(wrong), "checksum mismatch for"),
            (Fault::Status(404), "404 (no such file)"),
        ];
        for (nth, (fault, words)) in faults.into_iter().enumerate() {
            let request = case.request(&format!("fault {nth}"));
            case.server.always(path, fault);
            let error = pull(&request, &case.server).unwrap_err().to_string();
            assert!(
                error.contains(words) && error.contains("clotho_audio_validation.7z"),
                "{error}"
            );
            // What is there is whole.
            for (name, bytes) in tree(&request.folder) {
                assert!(name == "hark-pull.json" || whole[&name] == bytes, "{name}");
            }
            case.server.repair();
            case.server.always(path, Fault::NoRanges);
            pull(&request, &case.server).unwrap();
            assert!(tree(&request.folder) == whole, "fault {nth}");
            case.server.repair();
        }
    }

    #[test]
    fn seven_z_archives_are_distrusted_too() {
        let work = tempfile::tempdir().unwrap();
        let work = work.path();
        let path = work.join("x.7z");
        let refused = || {
            let folder = work.join("in/folder");
            fs_err::create_dir_all(&folder).unwrap();
            let job = crate::unpack::Job {
                format: crate::unpack::Format::SevenZ,
                parts: std::slice::from_ref(&path),
                layout: crate::unpack::Layout::Into("audio"),
                folder: &folder,
                journal: &work.join("journal"),
                form: Form::Original,
                threads: 1,
            };
            let error = job
                .run(&|_, _| ControlFlow::Continue(()))
                .unwrap_err()
                .to_string();
            assert_eq!(tree(&work.join("in")).len(), 0, "{error}");
            fs_err::remove_file(&path).unwrap();
            error
        };
        site::write(&work.join("a.wav"), site::noise(1, 44_100, 3000));
        site::write(&work.join("b.wav"), site::noise(2, 44_100, 3000));
        for name in ["../a.wav", "../../a.wav", "/tmp/a.wav"] {
            site::run(work, "7z", &["a", "-bd", "x.7z", "a.wav", "b.wav"]);
            site::run(work, "7z", &["rn", "-bd", "x.7z", "a.wav", name]);
            let error = refused();
            assert!(
                error.contains("outside the folder; nothing was unpacked"),
                "{name}: {error}"
            );
        }
        site::write(&work.join("zeros.wav"), vec![0; 200 << 20]);
        site::run(work, "7z", &["a", "-bd", "-mx1", "x.7z", "zeros.wav"]);
        assert!(refused().contains("refusing to unpack"));
        site::run(work, "7z", &["a", "-bd", "x.7z", "a.wav", "b.wav"]);
        let whole = fs_err::read(&path).unwrap();
        fs_err::write(&path, &whole[..whole.len() - 10]).unwrap();
        assert!(refused().contains("cannot unpack"));
        let mut flipped = whole.clone();
        flipped[1000] ^= 1;
        fs_err::write(&path, &flipped).unwrap();
        let error = refused();
        assert!(
            error.contains("is damaged") || error.contains("cannot unpack"),
            "{error}"
        );
        fs_err::write(&path, "<html>").unwrap();
        assert!(refused().contains("cannot unpack"));
    }

    /// What `zip -s` cuts, 7-Zip and `zip` put together; here it is read as it is.
    #[test]
    fn a_split_zip_gives_the_bytes_that_other_programs_give() {
        for (method, frames, stored) in [("-6", 25_000, false), ("-0", 25_000, true)] {
            let work = tempfile::tempdir().unwrap();
            let work = work.path();
            for nth in 0..3_u64 {
                site::write(
                    &work.join(format!("in/{nth}.wav")),
                    site::noise(nth, 44_100, frames),
                );
            }
            // One that becomes smaller.
            site::write(&work.join("in/small.wav"), vec![7; 20_000]);
            site::run(work, "zip", &["-q", "-r", method, "-s", "64k", "x.zip", "in"]);
            let parts = ["x.z01", "x.z02", "x.zip"].map(|name| work.join(name));
            assert!(!work.join("x.z03").exists() && parts.iter().all(|part| part.exists()));
            let zip = crate::zip::Zip::open(&parts).unwrap();
            let border = fs_err::metadata(&parts[0]).unwrap().len();
            let recordings: Vec<_> = zip
                .entries
                .iter()
                .filter(|entry| is_recording(&entry.name))
                .collect();
            assert_eq!(recordings.len(), 4);
            assert!(
                recordings.iter().any(|entry| entry.crosses(border)),
                "no entry across the border"
            );
            site::run(work, "7z", &["x", "-bd", "-oseven", "x.zip"]);
            site::run(work, "zip", &["-q", "-s", "0", "x.zip", "--out", "joined.zip"]);
            site::run(work, "unzip", &["-q", "joined.zip", "-d", "joined"]);
            for entry in recordings {
                let mut bytes = Vec::new();
                zip.read(entry).unwrap().read_to_end(&mut bytes).unwrap();
                for other in ["seven", "joined", "."] {
                    assert!(
                        bytes == fs_err::read(work.join(other).join(&entry.name)).unwrap(),
                        "{} {other}",
                        entry.name
                    );
                }
                let is_smaller = entry.packed < entry.size;
                assert_eq!(is_smaller, !stored && entry.name.contains("small"), "{entry:?}");
            }
            // A part is missing, or in another's place.
            let text = |paths: &[PathBuf]| crate::zip::Zip::open(paths).map(drop).unwrap_err().to_string();
            assert!(text(&parts[1..]).contains("it has 3 parts, and 2 are here"));
            let swapped = [parts[1].clone(), parts[0].clone(), parts[2].clone()];
            let zip = crate::zip::Zip::open(&swapped).unwrap();
            let read = |entry| {
                zip.read(entry).and_then(|mut reader| {
                    reader
                        .read_to_end(&mut Vec::new())
                        .map_err(|error| error.to_string())
                })
            };
            assert!(zip.entries.iter().any(|entry| read(entry).is_err()));
        }
    }

    /// With `-fz`, `zip` writes every entry's sizes and place as ZIP64 does.
    #[test]
    fn zip64_entries_are_read() {
        let work = tempfile::tempdir().unwrap();
        let work = work.path();
        for nth in 0..3_u64 {
            site::write(
                &work.join(format!("in/{nth}.wav")),
                site::noise(nth, 44_100, 25_000),
            );
        }
        for split in [&["-s", "64k"][..], &[]] {
            site::run(
                work,
                "zip",
                &[&["-q", "-r", "-fz"], split, &["x.zip", "in"]].concat(),
            );
            let names: &[&str] = if split.is_empty() {
                &["x.zip"]
            } else {
                &["x.z01", "x.z02", "x.zip"]
            };
            let parts: Vec<PathBuf> = names.iter().map(|name| work.join(name)).collect();
            let last = fs_err::read(work.join("x.zip")).unwrap();
            assert!(
                last.windows(4)
                    .any(|bytes| bytes == 0x0606_4b50_u32.to_le_bytes()),
                "no ZIP64"
            );
            let zip = crate::zip::Zip::open(&parts).unwrap();
            for entry in zip.entries.iter().filter(|entry| is_recording(&entry.name)) {
                let mut bytes = Vec::new();
                zip.read(entry).unwrap().read_to_end(&mut bytes).unwrap();
                assert!(bytes == fs_err::read(work.join(&entry.name)).unwrap());
            }
            for part in parts {
                fs_err::remove_file(part).unwrap();
            }
        }
    }

    #[test]
    fn recordings_can_be_converted_while_they_are_unpacked() {
        for name in ["clotho", "esc50"] {
            let case = Case::new(name);
            // Noise becomes no smaller at the same rate, but at 32 kHz.
            let request = Request {
                form: Form::Flac32k { seconds: 600.0 },
                ..case.request("flac")
            };
            let pulled = pull(&request, &case.server).unwrap();
            assert!(
                pulled.recordings >= 20 && pulled.written_bytes < pulled.original_bytes * 3 / 4,
                "{pulled:?}"
            );
            let files = tree(&request.folder);
            assert!(
                files
                    .keys()
                    .all(|name| !is_recording(name) || files[name].starts_with(b"fLaC")),
                "{:?}",
                files.keys()
            );
            let sets = crate::check(case.dataset(), &request.folder, &[], 2, &no_progress).unwrap();
            assert!(sets.iter().all(hark_corpus::CheckedSet::is_complete), "{sets:?}");
            let first = files.keys().find(|name| is_recording(name)).unwrap();
            let info = hark_audio::probe(&request.folder.join(first)).unwrap();
            assert_eq!((info.rate, info.channels), (32_000, 1));
            // Not the other form on top.
            let error = pull(&case.request("flac"), &case.server).unwrap_err().to_string();
            assert!(error.contains("as flac-32k (first 600 s); add --as"), "{error}");
            // Cancelled on the way, it ends with the same bytes.
            let other = Request {
                folder: case.folder("cancelled"),
                ..request
            };
            let client = client(&case.server.url());
            for after in [1, 5, 9] {
                let stop = |event: Event<'_>| match event {
                    Event::Unpacking { done, .. } if done >= after => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                };
                let error = other.plan(&client, &on).unwrap().run(&stop).unwrap_err();
                assert!(error.is_cancelled(), "{error}");
            }
            pull(&other, &case.server).unwrap();
            assert!(tree(&other.folder) == files, "{name}");
        }
        // What is FLAC at 32 kHz already is cut to the length, or stays as it is.
        let case = Case::new("wavcaps");
        let some = |seconds, folder: &str| Request {
            form: Form::Flac32k { seconds },
            splits: vec!["FreeSound".to_owned()],
            ..case.request(folder)
        };
        let same = pull(&some(600.0, "same"), &case.server).unwrap();
        assert_eq!(same.written_bytes, same.original_bytes);
        let cut = pull(&some(0.1, "cut"), &case.server).unwrap();
        assert!(cut.written_bytes < cut.original_bytes / 3, "{cut:?}");
    }

    #[test]
    fn videos_that_are_gone_are_listed_and_not_asked_for_again() {
        let case = Case::new("audiocaps");
        let request = Request {
            splits: vec!["train".to_owned()],
            ..case.request("videos")
        };
        let pulled = pull(&request, &case.server).unwrap();
        let [split] = &pulled.unavailable[..] else {
            panic!("{pulled:?}")
        };
        assert_eq!((split.clips, split.gone, split.failed), (9, 1, 0));
        let list = fs_err::read_to_string(&split.list).unwrap();
        assert_eq!(
            list,
            "youtube_id,start_time,status,reason\n\
             gone_train1,10,gone,\"ERROR: [youtube] x: Video unavailable. It is gone, \"\"really\"\"\"\n"
        );
        let asked = || {
            fs_err::read_to_string(case.folder("programs/asked"))
                .unwrap()
                .lines()
                .count()
        };
        assert_eq!(asked(), 8);
        fs_err::remove_file(request.folder.join("audio/train/good_train3_30.flac")).unwrap();
        pull(&request, &case.server).unwrap();
        assert_eq!(asked(), 9);
        assert_eq!(fs_err::read_to_string(&split.list).unwrap(), list);
        // Clips that are there are no longer listed, although the pull that fetched them was killed before it could say so.
        let rows = "gone_train1,10,gone,x\ngood_train3,30,failed,x\ngood_train4,40,gone,x\n";
        fs_err::write(
            &split.list,
            format!("youtube_id,start_time,status,reason\n{rows}"),
        )
        .unwrap();
        let stop = |event: Event<'_>| match event {
            Event::Videos { .. } => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        };
        let client = client(&case.server.url());
        let error = request.plan(&client, &on).unwrap().run(&stop).unwrap_err();
        assert!(error.is_cancelled(), "{error}");
        assert_eq!(
            fs_err::read_to_string(&split.list).unwrap(),
            "youtube_id,start_time,status,reason\ngone_train1,10,gone,x\n"
        );
        // No program: said before anything is downloaded.
        let without = Request {
            folder: case.folder("without"),
            programs: Programs {
                yt_dlp: case.folder("no-such-program").into(),
                ..Programs::default()
            },
            ..request
        };
        let error = pull(&without, &case.server).unwrap_err().to_string();
        assert!(
            error.contains("no-such-program") && error.contains("install it"),
            "{error}"
        );
        assert!(!without.folder.exists());
    }

    #[test]
    fn a_program_that_always_fails_ends_the_pull() {
        let case = Case::new("audiocaps");
        let clips = (0..40).map(|nth| format!("{nth},fail_abcd{nth:02},0,rain\n"));
        let captions = format!(
            "audiocap_id,youtube_id,start_time,caption\n{}",
            clips.collect::<String>()
        );
        case.server
            .put("/cdjkim/audiocaps/master/dataset/val.csv", captions.into_bytes());
        let request = Request {
            splits: vec!["val".to_owned()],
            // What the server has now is not what it had.
            dataset: Published::find("audiocaps").unwrap(),
            ..case.request("videos")
        };
        let error = pull(&request, &case.server).unwrap_err().to_string();
        assert!(
            error.contains("failed on 10 clips in a row") && error.contains("429"),
            "{error}"
        );
        let list = fs_err::read_to_string(request.folder.join("unavailable_val.csv")).unwrap();
        assert_eq!(
            list.lines().filter(|line| line.contains(",failed,")).count(),
            10,
            "{list}"
        );
    }
}

/// On a small disk that is really full.
mod needs_mount {
    use super::*;

    #[test]
    fn a_full_disk_is_told_and_leaves_no_half_of_a_file() {
        let disk = tempfile::tempdir().unwrap();
        let run = |program: &str, arguments: &[&str]| {
            let mut command = std::process::Command::new(program);
            let output = command.args(arguments).arg(disk.path()).output().unwrap();
            assert!(output.status.success(), "{output:?}");
        };
        run("mount", &["-t", "tmpfs", "-o", "size=512k", "tmpfs"]);
        // An archive that finds room, and does not unpack in what is left; one that finds none; one whose length is not told.
        let zip = |bytes: &[u8]| {
            use std::io::Write as _;
            let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
            for name in ["audio/a.wav", "audio/b.wav"] {
                zip.start_file(name, zip::write::SimpleFileOptions::default())
                    .unwrap();
                zip.write_all(bytes).unwrap();
            }
            zip.finish().unwrap().into_inner()
        };
        let path = "/karolpiczak/ESC-50/archive/master.zip";
        let big = zip(&site::noise(1, 44_100, 200_000));
        let outcome = [
            (zip(&vec![0; 1 << 20]), false, "unpacking"),
            (big.clone(), false, "the download needs"),
            (big, true, "the disk is full; free some space"),
        ]
        .map(|(archive, untold, words)| {
            let server = Loopback::new([
                (path.to_owned(), archive),
                (
                    "/karolpiczak/ESC-50/raw/master/meta/esc50.csv".to_owned(),
                    b"filename,category\n".to_vec(),
                ),
            ]);
            if untold {
                server.always(path, Fault::NoLength);
            }
            let folder = disk.path().join("esc50");
            let error = pull(&request(Published::find("esc50").unwrap(), &folder), &server)
                .unwrap_err()
                .to_string();
            let names: Vec<String> = tree(&folder).into_keys().collect();
            fs_err::remove_dir_all(folder).unwrap();
            (words, error, names)
        });
        run("umount", &[]);
        for (words, error, names) in outcome {
            assert!(error.contains(words), "{error}");
            assert_eq!(names, ["hark-pull.json", "meta/esc50.csv"], "{error}");
        }
    }
}
