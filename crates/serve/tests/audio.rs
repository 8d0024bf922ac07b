//! Recordings as they are and as WAV, whole and in parts.

#![allow(unreachable_pub, reason = "modules that test binaries share")]

mod world;

use std::fs;
use std::io::Read as _;
use std::time::Duration;

use hark_serve::Options;
use world::{World, decoder_file, samples, wav};

const ALL: [(i64, &str, &str); 6] = [
    (1, "weather/rain.wav", "audio/wav"),
    (2, "dog.wav", "audio/wav"),
    (3, "weather/thunder.flac", "audio/flac"),
    (4, "door.mp3", "audio/mpeg"),
    (5, "weather/wind.aiff", "audio/aiff"),
    (6, "=\"Vögel\", 1 & 2 <b>.wav", "audio/wav"),
];

#[test]
fn bytes_as_they_are() {
    let world = World::new(Options::default());
    for (id, name, kind) in ALL {
        let bytes = fs::read(world.path(name)).unwrap();
        let target = format!("/api/files/{id}/audio");
        let answer = world.get(&target);
        assert_eq!(answer.status, 200);
        assert!(answer.body == bytes, "{name}");
        assert_eq!(answer.header("content-type"), Some(kind));
        assert_eq!(answer.header("accept-ranges"), Some("bytes"));
        let tag = format!("\"{}\"", world.store.entries.lock().unwrap()[&id].content);
        assert_eq!(answer.header("etag"), Some(tag.as_str()));
        let head = world.ask("HEAD", &target, "", b"");
        assert_eq!(head.status, 200);
        assert_eq!(head.header("content-length").unwrap(), bytes.len().to_string());
        assert_eq!(head.header("etag"), Some(tag.as_str()));
        let known = world.ask("GET", &target, &format!("If-None-Match: W/\"x\", {tag}\r\n"), b"");
        assert_eq!((known.status, known.header("etag")), (304, Some(tag.as_str())));
    }
}

/// The bytes of a range are those of the file, for the file itself and for the WAV that is made of it.
#[test]
fn ranges_are_parts_of_the_whole() {
    let world = World::new(Options::default());
    for target in [
        "/api/files/2/audio",
        "/api/files/2/audio?as=wav",
        "/api/files/3/audio?as=wav",
        "/api/files/4/audio?as=wav",
    ] {
        let whole = world.get(target).body;
        let n = whole.len();
        let mut client = world.connect();
        for (range, first, last) in [
            ("bytes=0-0".to_owned(), 0, 0),
            ("bytes=0-43".to_owned(), 0, 43),
            ("bytes=40-47".to_owned(), 40, 47),
            ("bytes=45-45".to_owned(), 45, 45),
            ("bytes=1001-30000".to_owned(), 1001, 30_000.min(n - 1)),
            ("bytes=44-".to_owned(), 44, n - 1),
            (format!("bytes={}-", n - 1), n - 1, n - 1),
            ("bytes=-500".to_owned(), n - 500, n - 1),
            (format!("bytes=-{}", 10 * n), 0, n - 1),
            (format!("bytes=7-{}", 10 * n), 7, n - 1),
        ] {
            client.send_request("GET", target, &format!("Range: {range}\r\n"), b"");
            let answer = client.answer("GET");
            assert_eq!(answer.status, 206, "{target} {range}");
            assert_eq!(
                answer.header("content-range").unwrap(),
                format!("bytes {first}-{last}/{n}")
            );
            assert!(answer.body == whole[first..=last], "{target} {range}");
        }
        for range in [
            format!("bytes={n}-"),
            format!("bytes={}-{}", n + 5, n + 9),
            "bytes=-0".to_owned(),
        ] {
            client.send_request("GET", target, &format!("Range: {range}\r\n"), b"");
            let answer = client.answer("GET");
            assert_eq!(answer.status, 416, "{range}");
            assert_eq!(answer.header("content-range").unwrap(), format!("bytes */{n}"));
            assert!(answer.error().contains(&n.to_string()));
        }
        for range in [
            "bytes=0-1,4-5",
            "bytes=",
            "bytes=-",
            "bytes=9-3",
            "bytes=x-y",
            "bytes",
            "seconds=0-1",
            "bytes=0-1, 2-3",
            "bytes=0--1",
            "bytes=1.5-3",
            "bytes=\u{e9}",
        ] {
            client.send_request("GET", target, &format!("Range: {range}\r\n"), b"");
            let answer = client.answer("GET");
            assert_eq!(answer.status, 200, "{range}");
            assert!(answer.body == whole, "{range}");
        }
        client.send_request("HEAD", target, "Range: bytes=10-19\r\n", b"");
        let head = client.answer("HEAD");
        assert_eq!((head.status, head.header("content-length")), (206, Some("10")));
    }
}

#[test]
fn a_range_of_what_has_changed_is_the_whole() {
    let world = World::new(Options::default());
    let whole = world.get("/api/files/2/audio");
    let tag = whole.header("etag").unwrap().to_owned();
    let with = |tag: &str| {
        world.ask(
            "GET",
            "/api/files/2/audio",
            &format!("Range: bytes=0-9\r\nIf-Range: {tag}\r\n"),
            b"",
        )
    };
    assert_eq!(with(&tag).status, 206);
    for other in [
        "\"old\"".to_owned(),
        format!("W/{tag}"),
        "Sat, 14 Nov 2026 10:00:00 GMT".to_owned(),
    ] {
        let answer = with(&other);
        assert_eq!((answer.status, answer.body.len()), (200, whole.body.len()));
    }
}

#[test]
fn as_wav() {
    let world = World::new(Options::default());
    // A file that is already of that kind comes out as it is.
    let dog = world.get("/api/files/2/audio?as=wav");
    assert!(dog.body == wav(&samples(20_001)));
    for (id, name, _) in ALL {
        let mut decoder = hark_audio::Decoder::open(&world.path(name)).unwrap();
        let mut expected = Vec::new();
        while let Some(block) = decoder.next_block().unwrap() {
            let bytes = block
                .iter()
                .map(|s| (s * 32768.0).round().clamp(-32768.0, 32767.0) as i16);
            expected.extend(bytes.flat_map(i16::to_le_bytes));
        }
        let target = format!("/api/files/{id}/audio?as=wav");
        let answer = world.get(&target);
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some("audio/wav"))
        );
        assert!(answer.body[44..] == expected, "{name}");
        // The header says what follows.
        let number = |at: usize| u32::from_le_bytes(answer.body[at..at + 4].try_into().unwrap());
        assert_eq!(
            (number(4), number(40)),
            (answer.body.len() as u32 - 8, expected.len() as u32)
        );
        assert_eq!(number(24), decoder.info().rate);
        let head = world.ask("HEAD", &target, "", b"");
        assert_eq!(
            head.header("content-length").unwrap(),
            answer.body.len().to_string()
        );
        assert_ne!(
            answer.header("etag"),
            world.get(&format!("/api/files/{id}/audio")).header("etag")
        );
    }
}

/// A library may be wrong about a length, and a file may end in the middle. What was announced is sent.
#[test]
fn the_announced_length_is_kept() {
    let world = World::new(Options::default());
    let whole = wav(&samples(20_001));
    for seconds in [1.0, 2.500_125, 4.0] {
        world
            .store
            .entries
            .lock()
            .unwrap()
            .get_mut(&2)
            .unwrap()
            .sound
            .seconds = seconds;
        let answer = world.get("/api/files/2/audio?as=wav");
        let count = (seconds * 8000.0_f64).round() as usize;
        assert_eq!(answer.body.len(), 44 + 2 * count);
        let heard = count.min(20_001);
        assert!(answer.body[44..44 + 2 * heard] == whole[44..44 + 2 * heard]);
        assert!(answer.body[44 + 2 * heard..].iter().all(|b| *b == 0));
    }
    // Half of a FLAC file.
    let path = world.path("weather/thunder.flac");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    world.store.entries.lock().unwrap().get_mut(&3).unwrap().stat.size = bytes.len() as u64 / 2;
    let mut decoder = hark_audio::Decoder::open(&decoder_file("mono-16.flac")).unwrap();
    while decoder.next_block().unwrap().is_some() {}
    assert_eq!(
        world.get("/api/files/3/audio?as=wav").body.len() as u64,
        44 + 2 * decoder.samples_so_far()
    );
}

#[test]
fn downloads_have_names() {
    let world = World::new(Options::default());
    assert_eq!(
        world.get("/api/files/6/audio").header("content-disposition"),
        None
    );
    assert_eq!(
        world
            .get("/api/files/6/audio?download=1")
            .header("content-disposition"),
        Some(
            "attachment; filename=\"__V_gel__ 1 _ 2 _b_.wav\"; filename*=UTF-8''%3D%22V%C3%B6gel%22%2C%201%20%26%202%20%3Cb%3E.wav"
        )
    );
    let wav = world.get("/api/files/3/audio?download=1&as=wav");
    assert!(
        wav.header("content-disposition")
            .unwrap()
            .contains("\"thunder.wav\"")
    );
    assert_eq!(world.get("/api/files/3/audio?as=mp3").status, 400);
    assert_eq!(world.get("/api/files/3/audio?download=yes").status, 400);
}

#[test]
fn what_has_changed_is_not_sent() {
    let world = World::new(Options::default());
    fs::write(world.path("dog.wav"), wav(&samples(100))).unwrap();
    for target in ["/api/files/2/audio", "/api/files/2/audio?as=wav"] {
        let answer = world.get(target);
        assert_eq!(answer.status, 409);
        assert!(answer.error().contains("has changed since it was indexed"));
    }
    fs::remove_file(world.path("dog.wav")).unwrap();
    assert_eq!(world.get("/api/files/2/audio").status, 404);
    fs::create_dir(world.path("dog.wav")).unwrap();
    assert_eq!(world.get("/api/files/2/audio").status, 403);
    // Of the right length, but no recording any more.
    let length = fs::metadata(world.path("door.mp3")).unwrap().len();
    fs::write(world.path("door.mp3"), vec![b'?'; length as usize]).unwrap();
    assert_eq!(world.get("/api/files/4/audio?as=wav").status, 422);
}

#[cfg(unix)]
#[test]
fn what_leads_out_of_the_library_is_not_sent() {
    use std::os::unix::fs::symlink;
    let world = World::new(Options::default());
    let bytes = fs::read(world.path("dog.wav")).unwrap();
    let outside = world.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("dog.wav"), &bytes).unwrap();
    // The file is a link to one outside.
    fs::remove_file(world.path("dog.wav")).unwrap();
    symlink(outside.join("dog.wav"), world.path("dog.wav")).unwrap();
    for target in ["/api/files/2/audio", "/api/files/2/audio?as=wav"] {
        let answer = world.get(target);
        assert_eq!(answer.status, 403);
        assert!(answer.error().contains("out of the library's folders"));
    }
    // Its folder is.
    symlink(&outside, world.path("way")).unwrap();
    let to = |path: &std::path::Path| {
        world.store.entries.lock().unwrap().get_mut(&2).unwrap().path = path.to_str().unwrap().to_owned();
        world.get("/api/files/2/audio").status
    };
    assert_eq!(to(&world.path("way/dog.wav")), 403);
    // The path goes up, or was never inside; a folder whose name begins alike is another one.
    assert_eq!(to(&world.path("../outside/dog.wav")), 403);
    assert_eq!(to(&outside.join("dog.wav")), 403);
    let beside = world.folder.path().join("library-2");
    fs::create_dir(&beside).unwrap();
    fs::write(beside.join("dog.wav"), &bytes).unwrap();
    assert_eq!(to(&beside.join("dog.wav")), 403);
    assert_eq!(to(std::path::Path::new("/dev/zero")), 403);
    // A link to the very file that was indexed is followed, wherever that is.
    let stat = hark_catalogue::Stat::of(&fs::metadata(outside.join("dog.wav")).unwrap()).unwrap();
    let before = std::mem::replace(
        &mut world.store.entries.lock().unwrap().get_mut(&2).unwrap().stat,
        stat,
    );
    assert_eq!(to(&world.path("way/dog.wav")), 200);
    world.store.entries.lock().unwrap().get_mut(&2).unwrap().stat = before;
    // A link that stays inside is followed.
    fs::write(world.path("weather/dog.wav"), &bytes).unwrap();
    symlink(world.path("weather/dog.wav"), world.path("inside.wav")).unwrap();
    assert_eq!(to(&world.path("inside.wav")), 200);
}

/// A long recording is sent piece by piece: a client that reads nothing for a while loses nothing.
#[test]
fn a_long_recording() {
    let world = World::new(Options {
        stall_time: Duration::from_hours(1),
        ..Options::default()
    });
    let long = world.add_long(3_000_000);
    for target in ["/api/files/7/audio", "/api/files/7/audio?as=wav"] {
        let mut slow = world.connect();
        slow.send_request("GET", target, "", b"");
        let others: Vec<usize> = (0..2).map(|_| world.get(target).body.len()).collect();
        assert_eq!(others, [long.len(); 2]);
        assert!(slow.answer("GET").body == long);
        // From far behind.
        let end = world.ask("GET", target, "Range: bytes=-1000\r\n", b"");
        assert!(end.body == long[long.len() - 1000..]);
    }
}

/// A file that becomes shorter while it is sent ends the connection: nobody takes a part for the whole.
#[test]
fn a_file_that_shrinks() {
    let world = World::new(Options::default());
    let long = world.add_long(20_000_000);
    let mut client = world.connect();
    client.send_request("GET", "/api/files/7/audio", "", b"");
    let mut first = [0; 1000];
    client.stream.read_exact(&mut first).unwrap();
    fs::write(world.path("long.wav"), b"short").unwrap();
    let mut rest = Vec::new();
    let _ = client.stream.read_to_end(&mut rest);
    assert!(rest.len() < long.len());
}
