//! Clients that mean no good, or break down.

#![allow(unreachable_pub, reason = "modules that test binaries share")]

mod world;

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::sync::mpsc;
use std::time::Duration;

use hark_serve::Options;
use world::{Client, World, coded, decoder_file, samples, wav};

/// Waits until something is so. It takes as long as it takes; a test that never gets there fails.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if is_so() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    panic!("{what} never came to be");
}

#[test]
fn no_path_leads_anywhere() {
    let world = World::new(Options::default());
    let secret = world.folder.path().join("secret");
    std::fs::write(&secret, "very secret").unwrap();
    for target in [
        "/../secret",
        "/../../../../../../etc/passwd",
        "/%2e%2e/secret",
        "/%2e%2e%2fsecret",
        "/..%5csecret",
        "/\\..\\secret",
        "//secret",
        "//etc/passwd",
        "/./secret",
        "/%00",
        "/api/files/..%2fsecret",
        "/api/files/..%2f..%2fsecret/audio",
        "/api/files/../secret",
        "/api/files/%2e%2e/audio",
        "/api/files/1%00/audio",
        "/api/files/1/../2/audio",
        "/api/files//audio",
        "/api/files/1/audio/",
        "/api/files/1/audio/..",
        "/api/files/%2fetc%2fpasswd/audio",
        "/api/files/%ff/audio",
        "/api/files/%c0%ae%c0%ae/audio",
        "/api/files/1;id=2/audio",
        "/page.html",
        "/page/page.html",
        "/src/page/page.js",
        "/.git/config",
        "/openapi.json/",
        "/API/LIBRARY",
    ] {
        let answer = world.get(target);
        assert!([400, 404].contains(&answer.status), "{target}: {}", answer.status);
        assert!(!answer.error().is_empty());
        assert!(!String::from_utf8_lossy(&answer.body).contains("very secret"));
    }
    // Bytes that cannot stand in a request line end the connection; so does a target without a slash.
    for target in ["/a\0b", "/a b", "secret", "../secret", "/\u{e9}\u{0}", ""] {
        let mut client = world.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
        if let Some(answer) = client.next_answer("GET") {
            assert!(
                [400, 403, 404].contains(&answer.status),
                "{target:?}: {}",
                answer.status
            );
        }
    }
    // No parameter is a path to a file.
    assert_eq!(world.get("/api/files/1/audio?path=/etc/passwd").status, 400);
    assert!(world.get("/api/search?folder=/etc/../etc").names().is_empty());
}

#[test]
fn numbers_that_are_none() {
    let world = World::new(Options::default());
    for (id, status) in [
        ("0", 404),
        ("-1", 404),
        ("7", 404),
        ("9223372036854775807", 404),
        ("-9223372036854775808", 404),
        ("9223372036854775808", 404),
        ("99999999999999999999999999999999", 404),
        ("abc", 400),
        ("1.0", 400),
        ("0x1", 400),
        ("1e0", 400),
        ("%31%20", 400),
        ("+1", 400),
        ("1'--", 400),
        ("NaN", 400),
    ] {
        for rest in ["", "/audio", "/audio?as=wav"] {
            let answer = world.get(&format!("/api/files/{id}{rest}"));
            assert_eq!(answer.status, status, "{id}{rest}");
            assert!(!answer.error().is_empty());
        }
    }
    assert_eq!(world.get(&format!("/api/files/{}", "9".repeat(5000))).status, 404);
    // A number may be written in any way that URLs allow.
    assert_eq!(world.get("/api/files/%31").status, 200);
    for like in ["-1", "0", "99"] {
        assert_eq!(world.get(&format!("/api/search?like={like}")).status, 404);
    }
    for bad in [
        "like=x",
        "like=99999999999999999999",
        "limit=-1",
        "limit=99999999999999999999",
        "skip=-1",
        "skip=1e9",
    ] {
        assert_eq!(world.get(&format!("/api/search?{bad}")).status, 400, "{bad}");
    }
}

#[test]
fn text_is_text() {
    let world = World::new(Options::default());
    for q in [
        "%",
        "_",
        "*",
        "'",
        "\"",
        "''; DROP TABLE files; --",
        "\" OR 1=1 --",
        "rain*",
        "rain AND NOT dog",
        "NEAR(rain dog)",
        "path:rain",
        "^rain",
        "{a b}: c",
        "(",
        ")",
        "-rain",
        "\"rain",
        "rain' OR 'a'='a",
        "<script>alert(1)</script>",
        "\u{202e}niar",
        "🌧️",
        "\r\nSet-Cookie: a=b",
        "%s%n",
        "rain\ndog",
        "\u{1}\u{2}",
        "NULL",
        "\\",
        "$1",
        "{{7*7}}",
        "../../etc/passwd",
    ] {
        for mode in ["fused", "meaning", "words"] {
            let answer = world.get(&format!(
                "/api/search?mode={mode}&q={}&not={}",
                coded(q),
                coded(q)
            ));
            // A question minus itself may leave nothing.
            assert!([200, 422].contains(&answer.status), "{q}: {answer:?}");
            if answer.status == 200 {
                // Terms with a minus are exclusions, and white space is one blank.
                let terms: Vec<&str> = q
                    .split_whitespace()
                    .filter(|term| !term.starts_with('-'))
                    .collect();
                assert_eq!(answer.json()["query"]["q"].as_str().unwrap(), terms.join(" "));
            }
            assert_eq!(answer.header("set-cookie"), None);
        }
    }
    for bad in ["q=%00", "q=%ff", "tag=%00", "folder=%00", "not=%c3%28"] {
        assert_eq!(world.get(&format!("/api/search?{bad}")).status, 400, "{bad}");
    }
    assert_eq!(world.get("/api/search").names().len(), 6);
}

#[test]
fn long_questions() {
    let world = World::new(Options::default());
    assert_eq!(
        world.get(&format!("/api/search?q={}", "a".repeat(1000))).status,
        200
    );
    let answer = world.get(&format!("/api/search?q={}", "a".repeat(1001)));
    assert_eq!(answer.status, 400);
    assert!(answer.error().contains("1001"));
    // Counted in bytes.
    assert_eq!(
        world
            .get(&format!("/api/search?q={}", "%C3%BC".repeat(501)))
            .status,
        400
    );
    // A megabyte is not even read to its end.
    let mut client = world.connect();
    let _ = client.try_send(
        format!(
            "GET /api/search?q={} HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "a".repeat(1 << 20)
        )
        .as_bytes(),
    );
    if let Some(answer) = read_status(&mut client) {
        assert!([414, 431].contains(&answer), "{answer}");
    }
    assert_eq!(world.get("/health").status, 200);
    assert!(
        world
            .embedder
            .asked
            .lock()
            .unwrap()
            .iter()
            .all(|text| text.len() <= 1000)
    );
}

/// The status of an answer that may have no length.
fn read_status(client: &mut Client) -> Option<u16> {
    let mut head = [0; 12];
    client.stream.read_exact(&mut head).ok()?;
    std::str::from_utf8(&head[9..12]).ok()?.parse().ok()
}

#[test]
fn headers_that_are_too_long_or_wrong() {
    let world = World::new(Options::default());
    let long = "x".repeat(20_000);
    let many: String = (0..500).map(|i| format!("X-{i}: y\r\n")).collect();
    for headers in [format!("X-Long: {long}\r\n"), format!("Cookie: {long}\r\n"), many] {
        let mut client = world.connect();
        let _ =
            client.try_send(format!("GET /health HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").as_bytes());
        let status = read_status(&mut client);
        assert!(matches!(status, Some(431) | None), "{status:?}");
    }
    for request in [
        "\r\n\r\n\r\n\u{1}\u{2}\u{3}\r\n\r\n",
        "HELLO\r\n\r\n",
        "GET /health\r\n\r\n",
        "GET /health HTTP/9.9\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost localhost\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost: localhost\r\nX\0: y\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "POST /api/search HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "POST /api/search HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut client = world.connect();
        client.send(request.as_bytes());
        let status = read_status(&mut client);
        assert!(!matches!(status, Some(200)), "{request:?}: {status:?}");
    }
    assert_eq!(world.get("/health").status, 200);
}

#[test]
fn other_methods() {
    let world = World::new(Options::default());
    for (method, target) in [
        ("PUT", "/api/search"),
        ("DELETE", "/api/files/1"),
        ("POST", "/api/files/1/audio"),
        ("OPTIONS", "/api/search"),
        ("TRACE", "/"),
        ("PATCH", "/health"),
        ("GET", "/api/login"),
        ("BREW", "/"),
    ] {
        let answer = world.ask(method, target, "", b"");
        assert_eq!(answer.status, 405, "{method} {target}");
        assert!(!answer.error().is_empty());
        assert!(answer.header("allow").is_some(), "{method} {target}");
    }
}

#[test]
fn other_sites() {
    let world = World::new(Options::default());
    let port = world.address.port();
    for host in [
        "localhost",
        "localhost:1",
        "127.0.0.1",
        "127.4.5.6:80",
        "[::1]",
        "[::1]:9",
    ] {
        assert_eq!(
            world
                .ask("GET", "/api/library", &format!("Host: {host}\r\n"), b"")
                .status,
            200,
            "{host}"
        );
    }
    for host in [
        "evil.example",
        &format!("evil.example:{port}"),
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "0.0.0.0",
        "192.168.0.1",
        "[::2]",
        "a@localhost",
    ] {
        for target in ["/api/library", "/", "/health", "/nothing"] {
            let answer = world.ask("GET", target, &format!("Host: {host}\r\n"), b"");
            assert_eq!(answer.status, 403, "{host} {target}");
            assert!(answer.error().contains("localhost"));
        }
    }
    assert_eq!(
        world
            .ask("GET", "http://evil.example/api/library", "", b"")
            .status,
        403
    );
    for headers in ["Host: \u{e9}\r\n", "Host: localhost\r\nHost: evil.example\r\n"] {
        assert_eq!(world.ask("GET", "/health", headers, b"").status, 400, "{headers}");
    }
    let mut client = world.connect();
    client.send(b"GET /health HTTP/1.1\r\n\r\n");
    assert_eq!(client.answer("GET").status, 400);
    let sent = wav(&samples(800));
    let from = |origin: &str| {
        world
            .ask("POST", "/api/search", &format!("Origin: {origin}\r\n"), &sent)
            .status
    };
    for origin in [
        "http://evil.example",
        "null",
        "https://evil.example:443",
        "http://localhost:1",
        "file://",
        "",
        "http://localhost.evil.example",
    ] {
        assert_eq!(from(origin), 403, "{origin}");
    }
    assert_eq!(from(&format!("http://localhost:{port}")), 200);
    assert_eq!(world.embedder.sounds.load(std::sync::atomic::Ordering::SeqCst), 1);
    // No other site is told that it may read anything.
    let answer = world.ask("GET", "/api/library", "Origin: http://evil.example\r\n", b"");
    assert_eq!(answer.header("access-control-allow-origin"), None);
}

#[test]
fn tokens() {
    let options = Options {
        token: Some("a-long-secret".into()),
        wrong_token_time: Duration::from_millis(1),
        ..Options::default()
    };
    let world = World::new(options);
    let with = |headers: &str| world.ask("GET", "/api/library", headers, b"").status;
    assert_eq!(with("Authorization: Bearer a-long-secret\r\n"), 200);
    assert_eq!(with("Cookie: theme=dark; hark_token=a-long-secret\r\n"), 200);
    assert_eq!(
        with("Cookie: hark_token=a-long-secret\r\nAuthorization: Bearer wrong\r\n"),
        200
    );
    // With a token, the name of the host does not matter.
    assert_eq!(
        with("Host: sounds.example\r\nAuthorization: Bearer a-long-secret\r\n"),
        200
    );
    for wrong in [
        String::new(),
        "Authorization: Bearer\r\n".into(),
        "Authorization: Bearer \r\n".into(),
        "Authorization: Bearer wrong\r\n".into(),
        "Authorization: Bearer a-long-secre\r\n".into(),
        "Authorization: Bearer a-long-secrets\r\n".into(),
        "Authorization: Bearer A-LONG-SECRET\r\n".into(),
        "Authorization: Basic a-long-secret\r\n".into(),
        "Authorization: a-long-secret\r\n".into(),
        "Authorization: Bearer \u{e9}\r\n".into(),
        format!("Authorization: Bearer {}\r\n", "a-long-secret".repeat(1000)),
        "Cookie: hark_token=wrong\r\n".into(),
        "Cookie: hark_token\r\n".into(),
        "Cookie: hark_token=\"a-long-secret\"\r\n".into(),
        "Cookie: other=a-long-secret\r\n".into(),
        "X-Token: a-long-secret\r\n".into(),
    ] {
        let answer = world.ask("GET", "/api/library", &wrong, b"");
        assert_eq!(answer.status, 401, "{wrong:?}");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        assert!(!answer.error().contains("secret"));
        assert!(answer.error().contains("HARK_TOKEN"), "{}", answer.error());
    }
    for target in [
        "/api/search",
        "/api/search?bad=1",
        "/api/export",
        "/api/files/1",
        "/api/files/x",
        "/api/files/1/audio",
        "/metrics",
    ] {
        assert_eq!(world.get(target).status, 401, "{target}");
    }
    assert_eq!(world.get("/api/library?token=a-long-secret").status, 401);
    assert_eq!(world.get("/health").json(), serde_json::json!({"status": "ok"}));
    let health = world.ask("GET", "/health", "Authorization: Bearer a-long-secret\r\n", b"");
    assert_eq!(health.json()["files"], 6);
    // An upload is refused before it is read.
    assert_eq!(
        world.ask("POST", "/api/search", "", &wav(&samples(800))).status,
        401
    );
    assert_eq!(world.embedder.sounds.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[test]
fn logins() {
    let options = Options {
        token: Some("a-long-secret".into()),
        wrong_token_time: Duration::from_millis(1),
        ..Options::default()
    };
    let world = World::new(options);
    let json = "Content-Type: application/json\r\n";
    let login = |headers: &str, body: &str| world.ask("POST", "/api/login", headers, body.as_bytes());
    let right = login(json, "{\"token\":\"a-long-secret\"}");
    assert_eq!(right.status, 200);
    let cookie = right.header("set-cookie").unwrap();
    assert_eq!(
        cookie,
        "hark_token=a-long-secret; HttpOnly; SameSite=Strict; Path=/"
    );
    let pair = cookie.split(';').next().unwrap();
    assert_eq!(
        world
            .ask("GET", "/api/library", &format!("Cookie: {pair}\r\n"), b"")
            .status,
        200
    );
    for (headers, body, status) in [
        (json, "{\"token\":\"wrong\"}", 401),
        (json, "{\"token\":\"\"}", 401),
        (json, "{\"token\":1}", 400),
        (json, "{\"token\":\"a-long-secret\",\"more\":1}", 400),
        (json, "{", 400),
        (json, "", 400),
        (json, "[]", 400),
        (json, "\u{0}", 400),
        ("", "{\"token\":\"a-long-secret\"}", 415),
        (
            "Content-Type: text/plain\r\n",
            "{\"token\":\"a-long-secret\"}",
            415,
        ),
        (
            "Content-Type: application/json\r\nOrigin: http://evil.example\r\n",
            "{\"token\":\"a-long-secret\"}",
            403,
        ),
    ] {
        let answer = login(headers, body);
        assert_eq!(answer.status, status, "{headers} {body}");
        assert_eq!(answer.header("set-cookie"), None);
    }
    assert_eq!(
        login(json, &format!("{{\"token\":\"{}\"}}", "x".repeat(10_000))).status,
        413
    );
    // However many wrong ones there were, the right one is let in.
    for _ in 0..20 {
        assert_eq!(login(json, "{\"token\":\"wrong\"}").status, 401);
    }
    assert_eq!(login(json, "{\"token\":\"a-long-secret\"}").status, 200);
}

#[test]
fn uploads_that_are_too_long() {
    let options = Options {
        upload_bytes: 100_000,
        ..Options::default()
    };
    let world = World::new(options);
    // It says so: refused before it is read.
    let mut client = world.connect();
    client.send_request("POST", "/api/search", "Content-Length: 100001\r\n", b"");
    let answer = client.answer("POST");
    assert_eq!((answer.status, answer.header("connection")), (413, Some("close")));
    assert!(answer.error().contains("100000"));
    assert!(client.ends());
    // It waits to be told to go on, and is not.
    let mut client = world.connect();
    client.send_request(
        "POST",
        "/api/search",
        "Content-Length: 99999999999\r\nExpect: 100-continue\r\n",
        b"",
    );
    assert_eq!(client.answer("POST").status, 413);
    // It does not say: refused when the bound is passed, though the client goes on sending.
    let mut client = world.connect();
    client.send_request("POST", "/api/search", "Transfer-Encoding: chunked\r\n", b"");
    let piece = vec![b'x'; 10_000];
    for _ in 0..50 {
        let mut chunk = b"2710\r\n".to_vec();
        chunk.extend(&piece);
        chunk.extend(b"\r\n");
        if client.try_send(&chunk).is_err() {
            break;
        }
    }
    let answer = client.answer("POST");
    assert_eq!((answer.status, answer.header("connection")), (413, Some("close")));
    assert!(client.ends());
    until("an empty folder of uploads", || world.uploads() == 0);
    // One byte less is taken.
    assert_eq!(
        world
            .ask("POST", "/api/search", "", &wav(&samples(49_978)))
            .status,
        200
    );
    assert_eq!(world.uploads(), 0);
    // A number that no machine can count to.
    let mut client = world.connect();
    client.send_request(
        "POST",
        "/api/search",
        "Content-Length: 99999999999999999999999999\r\n",
        b"",
    );
    assert!(matches!(read_status(&mut client), Some(400 | 413) | None));
}

#[test]
fn uploads_that_are_no_recordings() {
    let world = World::new(Options {
        upload_seconds: 10.0,
        ..Options::default()
    });
    let flac = std::fs::read(decoder_file("mono-16.flac")).unwrap();
    let mut silent_bomb = wav(&samples(10));
    silent_bomb.truncate(40);
    let mut nan =
        b"RIFF\x30\0\0\0WAVEfmt \x10\0\0\0\x03\0\x01\0\x40\x1f\0\0\0\x7d\0\0\x04\0\x20\0data\x04\0\0\0"
            .to_vec();
    nan.extend(f32::NAN.to_le_bytes());
    let sixty_four: Vec<u8> = (0..64_000_u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    for (what, bytes) in [
        ("nothing", Vec::new()),
        ("one byte", vec![0]),
        ("text", b"this is no recording".to_vec()),
        ("noise", sixty_four),
        ("zeros", vec![0; 10_000]),
        ("a header alone", wav(&[])),
        ("half a header", silent_bomb),
        ("not a number", nan),
        ("a page", b"<html><script>alert(1)</script></html>".to_vec()),
        (
            "a FLAC file that breaks off in its first frame",
            flac[..100.min(flac.len())].to_vec(),
        ),
        ("a recording that is too long", wav(&samples(80_001))),
    ] {
        let answer = world.ask("POST", "/api/search", "", &bytes);
        assert_eq!(answer.status, 422, "{what}: {answer:?}");
        let sentence = answer.error();
        assert!(
            !sentence.contains("uploads") && !sentence.contains(world.folder.path().to_str().unwrap()),
            "{sentence}"
        );
        assert_eq!(world.uploads(), 0, "{what}");
    }
    assert_eq!(world.embedder.sounds.load(std::sync::atomic::Ordering::SeqCst), 0);
    // What breaks off later is heard as far as it goes, and said to be damaged.
    let half = world.ask("POST", "/api/search", "", &flac[..flac.len() * 2 / 3]);
    assert_eq!(half.status, 200);
    assert!(
        half.json()["heard"]["damage"].is_string(),
        "{}",
        half.json()["heard"]
    );
    for (query, status) in [
        ("?mode=words", 200),
        ("?mode=loud", 400),
        ("?q=rain", 200),
        ("?like=1", 400),
        ("?limit=0", 400),
    ] {
        assert_eq!(
            world
                .ask("POST", &format!("/api/search{query}"), "", &wav(&samples(10)))
                .status,
            status
        );
    }
}

#[test]
fn clients_that_disappear() {
    let world = World::new(Options::default());
    world.add_long(20_000_000);
    for target in [
        "/api/files/7/audio",
        "/api/files/7/audio?as=wav",
        "/api/files/7/audio?as=wav&download=1",
    ] {
        for _ in 0..5 {
            let mut client = world.connect();
            client.send_request("GET", target, "", b"");
            let mut some = [0; 2000];
            client.stream.read_exact(&mut some).unwrap();
            drop(client);
        }
    }
    for _ in 0..5 {
        let mut client = world.connect();
        client.send_request("POST", "/api/search", "Content-Length: 1000000\r\n", b"");
        client.send(&vec![1; 400_000]);
        until("an upload", || world.uploads() > 0);
        client.stream.shutdown(Shutdown::Both).unwrap();
        drop(client);
        until("an empty folder of uploads", || world.uploads() == 0);
    }
    // In the midst of a search.
    world.embedder.hold();
    for _ in 0..3 {
        let mut client = world.connect();
        client.send_request("GET", "/api/search?q=rain", "", b"");
        drop(client);
    }
    world.embedder.free();
    assert_eq!(world.get("/api/search?q=dog").status, 200);
    until("connections that are gone", || connections(&world) == 1);
}

/// Connections that the server has, this one included.
fn connections(world: &World) -> usize {
    let text = String::from_utf8(world.get("/metrics").body).unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix("hark_connections "));
    line.unwrap().parse().unwrap()
}

#[test]
fn slow_clients_do_not_hold_others_up() {
    let world = World::new(Options {
        header_time: Duration::from_hours(1),
        ..Options::default()
    });
    let mut slow: Vec<Client> = (0..50).map(|_| world.connect()).collect();
    for client in &mut slow {
        client.send(b"GET /health HTT");
    }
    assert_eq!(world.get("/api/search?q=rain").status, 200);
    for client in &mut slow {
        client.send(b"P/1.1\r\nHost: localhost\r\n\r\n");
    }
    for client in &mut slow {
        assert_eq!(client.answer("GET").status, 200);
    }
}

#[test]
fn headers_that_do_not_come() {
    let options = Options {
        header_time: Duration::from_millis(50),
        idle_time: Duration::from_hours(1),
        ..Options::default()
    };
    let world = World::new(options);
    let mut silent = world.connect();
    assert!(silent.ends(), "who said nothing is told nothing");
    // A machine that is busy may be slower than the server waits for: then the client was silent, and tries again.
    for requests in 0..2 {
        let mut last = None;
        until("an answer to half a request", || {
            let mut client = world.connect();
            for _ in 0..requests {
                let _ = client.try_send(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
                let Some(answer) = client.next_answer("GET") else {
                    return false;
                };
                assert_eq!(answer.status, 200);
            }
            let _ = client.try_send(b"GET /health HTTP/1.1\r\nHost: local");
            last = client.next_answer("GET");
            last.is_some() && client.ends()
        });
        let answer = last.unwrap();
        assert_eq!((answer.status, answer.header("connection")), (408, Some("close")));
        assert!(!answer.error().is_empty());
    }
}

#[test]
fn connections_without_requests() {
    let options = Options {
        idle_time: Duration::from_millis(50),
        header_time: Duration::from_hours(1),
        ..Options::default()
    };
    let world = World::new(options);
    let mut client = world.connect();
    assert_eq!(client.get("/health").status, 200);
    assert!(client.ends(), "it is closed without a word");
}

#[test]
fn bodies_that_do_not_come() {
    let options = Options {
        upload_time: Duration::from_millis(50),
        ..Options::default()
    };
    let world = World::new(options);
    for target in ["/api/search", "/api/login"] {
        let mut client = world.connect();
        client.send_request(
            "POST",
            target,
            "Content-Type: application/json\r\nContent-Length: 1000\r\n",
            b"",
        );
        let _ = client.try_send(b"{");
        let answer = client.answer("POST");
        assert_eq!(
            (answer.status, answer.header("connection")),
            (408, Some("close")),
            "{target}"
        );
        assert!(client.ends());
    }
    until("an empty folder of uploads", || world.uploads() == 0);
}

#[test]
fn answers_that_are_not_taken() {
    let options = Options {
        stall_time: Duration::from_millis(50),
        ..Options::default()
    };
    let world = World::new(options);
    world.add_long(30_000_000);
    let mut client = world.connect();
    client.send_request("GET", "/api/files/7/audio", "", b"");
    client.stream.read_exact(&mut [0; 1000]).unwrap();
    until("a connection that is given up", || connections(&world) == 1);
    let mut rest = Vec::new();
    let _ = client.stream.read_to_end(&mut rest);
    assert!(rest.len() < 60_000_000);
}

#[test]
fn several_requests_at_once_on_one_connection() {
    let world = World::new(Options::default());
    let mut client = world.connect();
    let requests: String = [
        "/api/files/2",
        "/nothing",
        "/api/search?q=rain",
        "/api/files/x",
        "/health",
        "/api/files/2/audio",
    ]
    .iter()
    .map(|target| format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    .collect();
    client.send(requests.as_bytes());
    let statuses: Vec<u16> = (0..6).map(|_| client.answer("GET").status).collect();
    assert_eq!(statuses, [200, 404, 200, 400, 200, 200]);
    // A request hidden in another's body is not one.
    let hidden = "GET /api/library HTTP/1.1\r\nHost: localhost\r\n\r\n";
    client.send_request(
        "GET",
        "/health",
        &format!("Content-Length: {}\r\n", hidden.len()),
        b"",
    );
    client.send(hidden.as_bytes());
    let answer = client.answer("GET");
    assert_eq!(answer.json()["status"], "ok");
    let _ = client.try_send(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n");
    if let Some(next) = client.next_answer("GET") {
        assert_eq!(next.status, 404, "and not the library");
    }
}

/// One search works and two wait; all others are told so, and those three are answered.
#[test]
fn more_searches_than_can_be() {
    const ALL: usize = 64;
    let options = Options {
        searches: 1,
        waiting: 2,
        ..Options::default()
    };
    let world = World::new(options);
    world.embedder.hold();
    let (told, answers) = mpsc::channel();
    std::thread::scope(|scope| {
        for i in 0..ALL {
            let (told, world) = (told.clone(), &world);
            scope.spawn(move || told.send(world.get(&format!("/api/search?q=rain+{i}"))).unwrap());
        }
        for _ in 0..ALL - 3 {
            let answer = answers.recv().unwrap();
            assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
            assert!(answer.error().contains("too many searches"));
        }
        // What is no search goes on meanwhile.
        assert_eq!(world.get("/health").status, 200);
        assert_eq!(world.get("/api/files/1").status, 200);
        assert_eq!(world.get("/api/files/4/audio?as=wav").status, 200);
        world.embedder.free();
        for _ in 0..3 {
            let answer = answers.recv().unwrap();
            assert!(answer.names().contains(&"rain.wav".to_owned()));
        }
    });
    assert_eq!(world.embedder.asked.lock().unwrap().len(), 3);
    assert_eq!(world.get("/api/search?q=rain").status, 200);
    let text = String::from_utf8(world.get("/metrics").body).unwrap();
    assert!(
        text.contains(&format!("hark_busy_refusals_total {}\n", ALL - 3)),
        "{text}"
    );
}

#[test]
fn more_uploads_than_can_be() {
    let world = World::new(Options {
        uploads: 2,
        ..Options::default()
    });
    let sent = wav(&samples(200_000));
    let mut first: Vec<Client> = (0..2).map(|_| world.connect()).collect();
    for client in &mut first {
        client.send_request(
            "POST",
            "/api/search",
            &format!("Content-Length: {}\r\n", sent.len()),
            b"",
        );
        client.send(&sent[..sent.len() - 1]);
    }
    until("two uploads", || world.uploads() == 2);
    let third = world.ask("POST", "/api/search", "", &sent);
    assert_eq!((third.status, third.header("retry-after")), (503, Some("1")));
    for client in &mut first {
        client.stream.write_all(&sent[sent.len() - 1..]).unwrap();
        assert_eq!(client.answer("POST").status, 200);
    }
    assert_eq!(world.ask("POST", "/api/search", "", &sent).status, 200);
}
