//! Downloads from a server on loopback, with the faults that servers have.

mod loopback;

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use hark_download::{Checksum, Client, Error, Event, Remote, Token, digest_file};
use loopback::{Fault, Loopback};

const PATH: &str = "/data/file.7z";

/// Bytes that do not repeat within a block.
fn content(length: u32) -> Vec<u8> {
    (0..length)
        .flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect()
}

fn client() -> Client {
    Client::new().retries(0, Duration::ZERO)
}

fn go_on(_: Event<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// For requests without events.
fn on() -> ControlFlow<()> {
    ControlFlow::Continue(())
}

struct Case {
    server: Loopback,
    folder: tempfile::TempDir,
    bytes: Vec<u8>,
}

impl Case {
    fn new() -> Self {
        let bytes = content(100_000);
        Self {
            server: Loopback::new([(PATH.to_owned(), bytes.clone())]),
            folder: tempfile::tempdir().unwrap(),
            bytes,
        }
    }

    fn target(&self) -> PathBuf {
        self.folder.path().join("file.7z")
    }

    fn remote(&self) -> Remote {
        Remote {
            name: "file.7z".to_owned(),
            url: format!("{}{PATH}", self.server.url()),
            target: self.target(),
            bytes: None,
            checksum: None,
            token: None,
            replace: true,
        }
    }

    fn checked(&self) -> Remote {
        let whole = self.folder.path().join("whole");
        fs_err::write(&whole, &self.bytes).unwrap();
        let expected = Checksum::Md5(String::new());
        let md5 = digest_file(&whole, Some(&expected)).unwrap().md5.unwrap();
        fs_err::remove_file(whole).unwrap();
        Remote {
            checksum: Some(Checksum::Md5(md5)),
            ..self.remote()
        }
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs_err::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn check_complete(&self) {
        assert_eq!(fs_err::read(self.target()).unwrap(), self.bytes);
        assert_eq!(self.names(), ["file.7z"]);
    }

    fn starts(&self) -> Vec<usize> {
        self.server.asked().iter().map(|asked| asked.start).collect()
    }
}

#[test]
fn a_file_that_was_cut_off_is_resumed_at_every_place() {
    let case = Case::new();
    let cuts = [1, 4096, 100_000, 399_999].map(Fault::Cut);
    case.server.faults(PATH, cuts);
    let remote = case.checked();
    for _ in 0..3 {
        let error = client().fetch(&remote, &go_on).unwrap_err();
        assert!(
            error.to_string().contains("run the command again to resume"),
            "{error}"
        );
        assert_eq!(case.names(), ["file.7z.part", "file.7z.part.from"]);
    }
    // The last cut is longer than what is left.
    let fetched = client().fetch(&remote, &go_on).unwrap();
    assert_eq!(fetched.bytes, case.bytes.len() as u64);
    assert_eq!(case.starts(), [0, 1, 4097, 104_097]);
    case.check_complete();
    // Nothing is asked for a file that is there and right.
    assert_eq!(client().fetch(&remote, &go_on).unwrap(), fetched);
    assert_eq!(case.starts().len(), 4);
}

#[test]
fn attempts_repeat_as_long_as_bytes_come() {
    let case = Case::new();
    case.server.faults(PATH, (0..9).map(|_| Fault::Cut(40_000)));
    let retrying = Mutex::new(0);
    let on_event = |event: Event<'_>| {
        *retrying.lock().unwrap() += u32::from(matches!(event, Event::Retrying { .. }));
        ControlFlow::Continue(())
    };
    let client = Client::new().retries(1, Duration::ZERO);
    client.fetch(&case.remote(), &on_event).unwrap();
    case.check_complete();
    assert_eq!(*retrying.lock().unwrap(), 9);

    let case = Case::new();
    case.server.faults(PATH, [Fault::Status(503), Fault::Status(429)]);
    let error = client.fetch(&case.remote(), &go_on).unwrap_err().to_string();
    assert!(error.contains("429 (too many requests"), "{error}");
    client.fetch(&case.remote(), &go_on).unwrap();
    case.check_complete();
}

#[test]
fn a_server_without_ranges_sends_the_file_again() {
    let case = Case::new();
    case.server
        .faults(PATH, [Fault::NoRangesCut(50_000), Fault::NoRanges]);
    client().fetch(&case.checked(), &go_on).unwrap_err();
    client().fetch(&case.checked(), &go_on).unwrap();
    assert_eq!(case.starts(), [0, 50_000]);
    case.check_complete();
}

#[test]
fn a_file_whose_length_is_not_told_is_taken_whole() {
    let case = Case::new();
    case.server.always(PATH, Fault::NoLength);
    client().fetch(&case.remote(), &go_on).unwrap();
    case.check_complete();
    assert_eq!(client().length(&case.remote().url, None, &on).unwrap(), None);
    case.server.repair();
    assert_eq!(
        client().length(&case.remote().url, None, &on).unwrap(),
        Some(400_000)
    );
}

#[test]
fn a_wrong_checksum_leaves_nothing() {
    let case = Case::new();
    let mut other = case.bytes.clone();
    other[399_999] ^= 1;
    case.server.faults(PATH, [Fault::Other(other)]);
    let error = client().fetch(&case.checked(), &go_on).unwrap_err();
    assert!(matches!(error, Error::Checksum { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains(&format!(
            "checksum mismatch for {}{PATH}: got md5 ",
            case.server.url()
        )) && text.contains("The download was deleted"),
        "{text}"
    );
    assert_eq!(case.names(), [""; 0]);
    client().fetch(&case.checked(), &go_on).unwrap();
    case.check_complete();
}

#[test]
fn a_damaged_file_that_is_there_is_downloaded_again() {
    let case = Case::new();
    fs_err::write(case.target(), "something else").unwrap();
    client().fetch(&case.checked(), &go_on).unwrap();
    case.check_complete();
    // Without checksum or length there is nothing to tell it by.
    fs_err::write(case.target(), "something else").unwrap();
    client().fetch(&case.remote(), &go_on).unwrap();
    assert_eq!(fs_err::read(case.target()).unwrap(), b"something else");
    let stated = Remote {
        bytes: Some(400_000),
        ..case.remote()
    };
    client().fetch(&stated, &go_on).unwrap();
    case.check_complete();
}

#[test]
fn a_file_of_the_user_is_left_alone() {
    let case = Case::new();
    let remote = Remote {
        replace: false,
        ..case.checked()
    };
    fs_err::write(case.target(), "something else").unwrap();
    let error = client().fetch(&remote, &go_on).unwrap_err();
    assert!(matches!(error, Error::InTheWay { .. }), "{error}");
    assert_eq!(fs_err::read(case.target()).unwrap(), b"something else");
    fs_err::write(case.target(), &case.bytes).unwrap();
    client().fetch(&remote, &go_on).unwrap();
    assert!(case.starts().is_empty());
}

#[test]
fn a_web_page_is_refused_before_anything_is_written() {
    let case = Case::new();
    for told in [true, false] {
        case.server.faults(PATH, [Fault::Page { told }]);
        let error = client().fetch(&case.remote(), &go_on).unwrap_err();
        assert!(matches!(error, Error::WebPage { .. }), "{error}");
        assert_eq!(case.names(), [""; 0]);
    }
    // Nor does it take the place of a part.
    case.server
        .faults(PATH, [Fault::Cut(100_000), Fault::Page { told: false }]);
    client().fetch(&case.remote(), &go_on).unwrap_err();
    let error = client().fetch(&case.remote(), &go_on).unwrap_err();
    assert!(matches!(error, Error::WebPage { .. }), "{error}");
    client().fetch(&case.remote(), &go_on).unwrap();
    assert_eq!(case.starts().last(), Some(&100_000));
    case.check_complete();
}

#[test]
fn a_file_of_another_length_is_refused() {
    let case = Case::new();
    let stated = |bytes| Remote {
        bytes: Some(bytes),
        ..case.remote()
    };
    let error = client().fetch(&stated(7), &go_on).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Size {
                got: 400_000,
                expected: 7,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(case.names(), [""; 0]);
    // An endless file of unknown length ends where the stated one does.
    case.server.faults(PATH, [Fault::NoLength]);
    let error = client().fetch(&stated(300_000), &go_on).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Size {
                expected: 300_000,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(case.names(), [""; 0]);
    case.server.faults(PATH, [Fault::NoLength]);
    let error = client().fetch(&stated(400_001), &go_on).unwrap_err();
    assert!(matches!(error, Error::Truncated { .. }), "{error}");
}

#[test]
fn two_versions_of_a_file_are_never_put_together() {
    let case = Case::new();
    case.server.faults(PATH, [Fault::Cut(100_000)]);
    client().fetch(&case.remote(), &go_on).unwrap_err();
    // The server has another file since, of the same length.
    let newer: Vec<u8> = case.bytes.iter().map(|byte| !byte).collect();
    case.server.put(PATH, newer.clone());
    case.server.always(PATH, Fault::Tag("\"two\""));
    client().fetch(&case.remote(), &go_on).unwrap();
    assert_eq!(fs_err::read(case.target()).unwrap(), newer);
    assert_eq!(case.starts(), [0, 100_000, 0]);
}

#[test]
fn a_part_that_is_whole_takes_its_name() {
    let case = Case::new();
    let part = case.target().with_added_extension("part");
    fs_err::write(&part, &case.bytes).unwrap();
    client().fetch(&case.checked(), &go_on).unwrap();
    assert_eq!(case.starts(), [400_000]);
    case.check_complete();
    // One that is longer than the server's file is no part of it.
    fs_err::remove_file(case.target()).unwrap();
    fs_err::write(&part, [&case.bytes[..], b"more"].concat()).unwrap();
    client().fetch(&case.checked(), &go_on).unwrap();
    assert_eq!(case.starts(), [400_000, 400_004, 0]);
    case.check_complete();
}

#[test]
fn a_download_can_be_cancelled_and_resumed() {
    let case = Case::new();
    let stop = |event: Event<'_>| match event {
        Event::Downloading { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let error = client().fetch(&case.remote(), &stop).unwrap_err();
    assert!(matches!(error, Error::Cancelled), "{error}");
    let have = fs_err::metadata(case.target().with_added_extension("part"))
        .unwrap()
        .len() as usize;
    assert!(have > 0);
    let checked = Mutex::new(0);
    let on_event = |event: Event<'_>| {
        if let Event::Checking { done, .. } = event {
            *checked.lock().unwrap() = done as usize;
        }
        ControlFlow::Continue(())
    };
    client().fetch(&case.remote(), &on_event).unwrap();
    assert_eq!(*checked.lock().unwrap(), have);
    assert_eq!(case.starts(), [0, have]);
    case.check_complete();
}

#[test]
fn missing_and_restricted_files_are_told_apart() {
    let case = Case::new();
    let absent = Remote {
        url: format!("{}/absent", case.server.url()),
        ..case.remote()
    };
    let error = client().fetch(&absent, &go_on).unwrap_err().to_string();
    assert!(error.contains("404 (no such file)"), "{error}");
    case.server.faults(PATH, [Fault::Status(401)]);
    let error = client().fetch(&case.remote(), &go_on).unwrap_err().to_string();
    assert!(error.contains("401 (access is restricted)"), "{error}");
    let token = Remote {
        token: Some(Token::new("secret".to_owned())),
        ..case.remote()
    };
    client().fetch(&token, &go_on).unwrap();
    let authorized: Vec<bool> = case.server.asked().iter().map(|asked| asked.authorized).collect();
    assert_eq!(authorized, [false, false, true]);
}

#[test]
fn a_mirror_serves_every_host() {
    let case = Case::new();
    let remote = Remote {
        url: format!("https://published.invalid{PATH}"),
        ..case.remote()
    };
    client()
        .mirror(&case.server.url())
        .fetch(&remote, &go_on)
        .unwrap();
    case.check_complete();
    let server = Loopback::new([("/list".to_owned(), b"a\nb\n".to_vec())]);
    let client = client().mirror(&server.url());
    assert_eq!(
        client
            .text("https://published.invalid/list", None, 4, &on)
            .unwrap(),
        "a\nb\n"
    );
    let error = client
        .text("https://published.invalid/list", None, 3, &on)
        .unwrap_err();
    assert!(matches!(error, Error::TooLong { limit: 3, .. }), "{error}");
}

#[test]
fn a_server_that_stalls_is_asked_again() {
    let case = Case::new();
    case.server.faults(PATH, [Fault::Stall(100_000), Fault::Silent]);
    let idle = Duration::from_millis(400);
    let reasons = Mutex::new(Vec::new());
    let on_event = |event: Event<'_>| {
        if let Event::Retrying { error, .. } = event {
            reasons.lock().unwrap().push(error.to_string());
        }
        ControlFlow::Continue(())
    };
    let client = Client::new().retries(2, Duration::ZERO).idle_timeout(idle);
    client.fetch(&case.checked(), &on_event).unwrap();
    case.check_complete();
    assert_eq!(case.starts(), [0, 100_000, 100_000]);
    let reasons = reasons.into_inner().unwrap();
    assert!(
        reasons[0].contains("the server sent nothing for 0.4 s"),
        "{reasons:?}"
    );
}

/// The default timeout is half a minute: whoever ends sooner was cancelled.
#[test]
fn a_stalled_server_does_not_keep_a_caller_from_cancelling() {
    let case = Case::new();
    let began = Instant::now();
    for fault in [Fault::Stall(100_000), Fault::Stall(0), Fault::Silent] {
        case.server.faults(PATH, [fault]);
        let stop = |event: Event<'_>| match event {
            Event::Waiting { file: "file.7z" } => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        };
        let error = client().fetch(&case.remote(), &stop).unwrap_err();
        assert!(matches!(error, Error::Cancelled), "{error}");
    }
    let stop = || ControlFlow::Break(());
    case.server.always(PATH, Fault::Silent);
    let url = case.remote().url;
    let error = client().length(&url, None, &stop).unwrap_err();
    assert!(matches!(error, Error::Cancelled), "{error}");
    let error = client().text(&url, None, 1 << 20, &stop).unwrap_err();
    assert!(matches!(error, Error::Cancelled), "{error}");
    // So it is between attempts, too.
    case.server.repair();
    case.server.always(PATH, Fault::Status(503));
    let patient = Client::new().retries(1, Duration::from_mins(1));
    let error = patient.text(&url, None, 1 << 20, &stop).unwrap_err();
    assert!(matches!(error, Error::Cancelled), "{error}");
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
    case.server.repair();
    client().fetch(&case.remote(), &go_on).unwrap();
    case.check_complete();
}

#[test]
fn a_file_that_has_moved_is_followed_and_resumed() {
    let case = Case::new();
    case.server.put("/other/file.7z", case.bytes.clone());
    case.server.always(PATH, Fault::Redirect("/other/file.7z"));
    case.server.faults("/other/file.7z", [Fault::Cut(100_000)]);
    let remote = Remote {
        token: Some(Token::new("secret".to_owned())),
        ..case.checked()
    };
    client().fetch(&remote, &go_on).unwrap_err();
    client().fetch(&remote, &go_on).unwrap();
    case.check_complete();
    let asked = case.server.asked();
    let other: Vec<_> = asked
        .iter()
        .filter(|asked| asked.path == "/other/file.7z")
        .collect();
    assert_eq!(
        other.iter().map(|asked| asked.start).collect::<Vec<_>>(),
        [0, 100_000]
    );
    assert!(
        other.iter().all(|asked| !asked.authorized),
        "the token is not for the other place"
    );
    // A circle ends.
    case.server.always("/other/file.7z", Fault::Redirect(PATH));
    fs_err::remove_file(case.target()).unwrap();
    let error = client().fetch(&remote, &go_on).unwrap_err();
    assert!(matches!(error, Error::Request { .. }), "{error}");
}

#[test]
fn a_false_length_is_noticed() {
    let case = Case::new();
    // More is told than comes: the part is kept, and the next attempt continues it.
    case.server.faults(PATH, [Fault::Length(500_000)]);
    let error = client().fetch(&case.checked(), &go_on).unwrap_err();
    assert!(
        error.to_string().contains("run the command again to resume"),
        "{error}"
    );
    assert_eq!(case.names(), ["file.7z.part", "file.7z.part.from"]);
    client().fetch(&case.checked(), &go_on).unwrap();
    case.check_complete();
    // Less is told than comes.
    fs_err::remove_file(case.target()).unwrap();
    case.server.faults(PATH, [Fault::Length(300_000)]);
    let error = client().fetch(&case.checked(), &go_on).unwrap_err();
    assert!(matches!(error, Error::Checksum { .. }), "{error}");
    assert_eq!(case.names(), [""; 0]);
}

/// A kill between the two steps that begin a part is played by a note that cannot be written.
#[test]
fn a_part_never_has_the_note_of_another_file() {
    let case = Case::new();
    let part = case.target().with_added_extension("part");
    fs_err::write(&part, &case.bytes[..1000]).unwrap();
    fs_err::create_dir(case.target().with_added_extension("part.from")).unwrap();
    case.server.faults(PATH, [Fault::NoRanges]);
    client().fetch(&case.remote(), &go_on).unwrap_err();
    assert_eq!(fs_err::metadata(&part).unwrap().len(), 0);
}

#[test]
fn attempts_are_counted_anew_for_a_file_that_has_changed() {
    let case = Case::new();
    case.server.faults(PATH, [Fault::Cut(300_000)]);
    client().fetch(&case.remote(), &go_on).unwrap_err();
    let newer = content(90_000);
    case.server.put(PATH, newer.clone());
    let same = Fault::Tag("\"one\"");
    let cuts = (0..8).map(|_| Fault::Cut(40_000));
    case.server.faults(PATH, std::iter::once(same).chain(cuts));
    let client = Client::new().retries(1, Duration::ZERO);
    client.fetch(&case.remote(), &go_on).unwrap();
    assert_eq!(fs_err::read(case.target()).unwrap(), newer);
}

#[test]
fn an_empty_file_is_a_file() {
    let server = Loopback::new([(PATH.to_owned(), Vec::new())]);
    let case = Case {
        server,
        bytes: Vec::new(),
        ..Case::new()
    };
    client().fetch(&case.checked(), &go_on).unwrap();
    case.check_complete();
}

fn several(folder: &Path, server: &Loopback) -> Vec<Remote> {
    (0..8)
        .map(|number| Remote {
            name: format!("{number}"),
            url: format!("{}/{number}", server.url()),
            target: folder.join(format!("{number}")),
            bytes: None,
            checksum: None,
            token: None,
            replace: true,
        })
        .collect()
}

#[test]
fn several_files_come_at_a_time_and_stop_together() {
    let files = (0..8_u32).map(|number| (format!("/{number}"), content(30_000 + number)));
    let server = Loopback::new(files);
    let folder = tempfile::tempdir().unwrap();
    let remotes = several(folder.path(), &server);
    let three = NonZeroUsize::new(3).unwrap();
    server.faults("/4", [Fault::Status(404)]);
    let error = client().fetch_all(&remotes, three, &go_on).unwrap_err();
    assert!(matches!(error, Error::Status { status: 404, .. }), "{error}");
    assert!(
        !server.asked().iter().any(|asked| asked.path == "/7"),
        "begun after the failure"
    );
    let fetched = client().fetch_all(&remotes, three, &go_on).unwrap();
    for (number, fetched) in (0..8_u32).zip(&fetched) {
        let bytes = content(30_000 + number);
        assert_eq!(fs_err::read(&remotes[number as usize].target).unwrap(), bytes);
        assert_eq!(fetched.bytes, bytes.len() as u64);
    }
    let stop = |_: Event<'_>| ControlFlow::Break(());
    let other = tempfile::tempdir().unwrap();
    let error = client()
        .fetch_all(&several(other.path(), &server), three, &stop)
        .unwrap_err();
    assert!(matches!(error, Error::Cancelled), "{error}");
    assert_eq!(client().fetch_all(&[], three, &stop).unwrap(), []);
}

/// A small disk that is really full.
mod needs_mount {
    use super::*;

    #[test]
    fn a_full_disk_is_named_and_the_part_is_kept() {
        let case = Case::new();
        let disk = tempfile::tempdir().unwrap();
        let run = |program: &str, arguments: &[&str]| {
            let mut command = std::process::Command::new(program);
            let output = command.args(arguments).arg(disk.path()).output().unwrap();
            assert!(output.status.success(), "{output:?}");
        };
        run("mount", &["-t", "tmpfs", "-o", "size=128k", "tmpfs"]);
        let remote = Remote {
            target: disk.path().join("file.7z"),
            ..case.checked()
        };
        let error = client().fetch(&remote, &go_on).unwrap_err();
        let (kept, whole) = (disk.path().join("file.7z.part").is_file(), remote.target.exists());
        run("umount", &[]);
        assert!(matches!(error, Error::DiskFull { .. }), "{error}");
        assert!(
            error.to_string().contains("the disk is full; free some space"),
            "{error}"
        );
        assert!(kept && !whole);
    }
}
