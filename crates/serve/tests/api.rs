//! What can be asked, and what comes back.

#![allow(unreachable_pub, reason = "modules that test binaries share")]

mod world;

use std::sync::atomic::Ordering;

use hark_serve::Options;
use serde_json::json;
use world::{World, coded, decoder_file, samples, wav};

#[test]
fn by_meaning_by_words_and_by_both() {
    let world = World::new(Options::default());
    assert_eq!(
        world.get("/api/search?q=dog&mode=meaning&limit=1").names(),
        ["dog.wav"]
    );
    let words = world.get("/api/search?q=dog&mode=words");
    assert_eq!(words.names(), ["dog.wav"]);
    let hit = &words.json()["hits"][0];
    assert_eq!(
        (&hit["meaning"], &hit["words"], &hit["rank"]),
        (&json!(null), &json!(1.0), &json!(1))
    );
    let fused = world.get("/api/search?q=dog").json();
    assert_eq!(
        fused["query"],
        json!({"q": "dog", "not": [], "like": null, "mode": "fused"})
    );
    assert_eq!(fused["hits"][0]["file"]["name"], "dog.wav");
    assert!(fused["hits"][0]["meaning"].is_f64() && fused["hits"][0]["words"].is_f64());
    assert_eq!(fused["more"], false);
    // Words alone need no vector.
    assert_eq!(*world.embedder.asked.lock().unwrap(), ["dog"]);
}

#[test]
fn without_a_question_files_come_by_path() {
    let world = World::new(Options::default());
    let all = [
        "=\"Vögel\", 1 & 2 <b>.wav",
        "dog.wav",
        "door.mp3",
        "rain.wav",
        "thunder.flac",
        "wind.aiff",
    ];
    assert_eq!(world.get("/api/search").names(), all);
    assert_eq!(world.get("/api/search?q=+&limit=2&skip=1").names(), all[1..3]);
    let folder = coded(world.path("weather").to_str().unwrap());
    assert_eq!(
        world.get(&format!("/api/search?folder={folder}")).names(),
        all[3..]
    );
    assert_eq!(
        world.get("/api/search?tag=weather&tag=water").names(),
        ["rain.wav"]
    );
    assert_eq!(world.get("/api/search?min_seconds=11").names(), ["rain.wav"]);
    assert_eq!(world.get("/api/search?after=2026-11-16").names().len(), 0);
    assert_eq!(world.get("/api/search?limit=5").json()["more"], true);
    assert_eq!(world.get("/api/search?limit=6").json()["more"], false);
    assert!(world.embedder.asked.lock().unwrap().is_empty());
}

#[test]
fn not_is_neither_heard_nor_named() {
    let world = World::new(Options::default());
    let first = |target: &str| world.get(target).names()[0].clone();
    assert_eq!(first("/api/search?q=thunder+rain&mode=meaning"), "thunder.flac");
    assert_eq!(
        first("/api/search?q=thunder+rain&not=thunder&mode=meaning"),
        "rain.wav"
    );
    let words = world.get("/api/search?q=rain&not=thunder&mode=words");
    assert_eq!(words.names(), ["rain.wav"]);
    assert_eq!(words.json()["query"]["not"], json!(["thunder"]));
    // A minus in the text says the same.
    let typed = world.get("/api/search?q=rain+-thunder&mode=words");
    assert_eq!(typed.names(), words.names());
    assert_eq!(typed.json()["query"], words.json()["query"]);
}

#[test]
fn like_a_file_or_a_moment_of_it() {
    let world = World::new(Options::default());
    let like = world.get("/api/search?like=1");
    assert_eq!(like.names()[0], "thunder.flac");
    assert!(!like.names().contains(&"rain.wav".to_owned()), "the file itself");
    assert_eq!(like.json()["query"]["like"], 1);
    // With words, both count; what they are searched by does not change how the sound is.
    assert_eq!(
        world.get("/api/search?like=2&q=door&mode=words&limit=1").names(),
        ["door.mp3"]
    );
    assert_eq!(world.get("/api/search?like=1&mode=words").names(), like.names());
    // Its second window sounds like rain, its first like a voice, as nothing else does.
    let at = |start: &str| {
        world.get(&format!("/api/search?like=1&start={start}")).json()["hits"][0]["meaning"]
            .as_f64()
            .unwrap()
    };
    // Both windows contain 5 and 9.5 s: the one whose centre is nearer counts.
    assert!(at("10") > 0.6 && at("9.5") > 0.6 && at("5") < 0.3 && at("0") < 0.3);
    assert!(world.get("/api/search?like=1&start=99").error().contains("99"));
    assert_eq!(world.get("/api/search?like=999").status, 404);
    assert_eq!(
        world.get("/api/search?like=999").error(),
        "the library has no file 999"
    );
}

#[test]
fn moments_have_places_and_files_one_hit() {
    let world = World::new(Options::default());
    let voices = world.get("/api/search?q=voice&mode=meaning").json();
    let hit = &voices["hits"][0];
    assert_eq!((&hit["start"], &hit["end"]), (&json!(0.0), &json!(10.0)));
    let count = |target: &str| {
        world
            .get(target)
            .names()
            .iter()
            .filter(|n| *n == "rain.wav")
            .count()
    };
    assert_eq!(count("/api/search?q=rain&mode=meaning"), 1);
    assert_eq!(count("/api/search?q=rain&mode=meaning&windows=all"), 2);
}

#[test]
fn a_text_is_embedded_once() {
    let world = World::new(Options::default());
    for target in [
        "q=rain",
        "q=rain&tag=weather",
        "q=rain+",
        "q=rain&not=dog",
        "q=dog",
        "q=rain&not=dog",
    ] {
        assert_eq!(world.get(&format!("/api/search?{target}")).status, 200);
    }
    assert_eq!(*world.embedder.asked.lock().unwrap(), ["rain", "dog"]);
}

#[test]
fn a_file_and_its_windows() {
    let world = World::new(Options::default());
    let file = world.get("/api/files/1").json();
    assert_eq!(file["name"], "rain.wav");
    assert_eq!(
        file["folder"].as_str().unwrap(),
        world.path("weather").to_str().unwrap()
    );
    assert_eq!(file["root"].as_str().unwrap(), world.store.roots[0]);
    assert_eq!(file["seconds"], 12.0);
    assert_eq!(file["peaks"], "gX8AAQ==");
    assert_eq!(file["playable"], true);
    assert_eq!(
        file["windows"][0],
        json!({"start": 0.0, "end": 12.0, "whole": true})
    );
    assert_eq!(
        file["windows"][2],
        json!({"start": 5.0, "end": 15.0, "whole": false})
    );
    assert_eq!(world.get("/api/files/5").json()["playable"], false);
    assert_eq!(world.get("/api/files/7").status, 404);
}

#[test]
fn the_library_and_its_health() {
    let options = Options {
        name: "Sounds".into(),
        upload_bytes: 12345,
        ..Options::default()
    };
    let world = World::new(options);
    let library = world.get("/api/library").json();
    assert_eq!(
        (&library["name"], &library["model"], &library["files"]),
        (&json!("Sounds"), &json!("test"), &json!(6))
    );
    assert_eq!(
        library["limits"],
        json!({"results": 1000, "upload_bytes": 12345, "query_bytes": 1000})
    );
    let failures = world.get("/api/failures").json();
    assert_eq!(
        (&library["failures"], &failures["left_out"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(failures["files"][0]["reason"], "unknown format");
    assert!(
        failures["files"][0]["path"]
            .as_str()
            .unwrap()
            .ends_with("/<b>.wav")
    );
    assert_eq!(
        world.get("/health").json(),
        json!({"status": "ok", "files": 6, "windows": 8})
    );
    world.store.broken.store(true, Ordering::SeqCst);
    let health = world.get("/health");
    assert_eq!((health.status, health.header("retry-after")), (503, Some("1")));
    let search = world.get("/api/search?q=rain");
    assert_eq!(search.status, 500);
    assert!(search.error().contains("it is broken"));
}

#[test]
fn a_model_that_fails_ends_one_search_alone() {
    let world = World::new(Options::default());
    let failed = world.get("/api/search?q=breakdown");
    assert_eq!(failed.status, 500);
    assert!(failed.error().contains("out of memory"));
    assert_eq!(world.get("/api/search?q=panic").status, 500);
    assert_eq!(world.get("/api/search?q=rain").status, 200);
}

#[test]
fn metrics_count() {
    let world = World::new(Options::default());
    world.get("/api/search?q=rain");
    world.get("/api/search?q=dog");
    world.get("/api/search?x=dog");
    world.get("/nothing/here");
    let audio = world.get("/api/files/2/audio").body.len();
    let answer = world.get("/metrics");
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let text = String::from_utf8(answer.body).unwrap();
    for line in [
        "hark_requests_total{route=\"/api/search\",status=\"200\"} 2".to_owned(),
        "hark_requests_total{route=\"/api/search\",status=\"400\"} 1".to_owned(),
        "hark_requests_total{route=\"/api/files/{id}/audio\",status=\"200\"} 1".to_owned(),
        "hark_requests_total{route=\"other\",status=\"404\"} 1".to_owned(),
        "hark_search_seconds_count 2".to_owned(),
        format!("hark_audio_bytes_total {audio}"),
        "hark_files 6".to_owned(),
        "hark_windows 8".to_owned(),
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
}

#[test]
fn a_recording_is_searched_by() {
    let world = World::new(Options::default());
    let sent = wav(&samples(4000));
    let answer = world.ask("POST", "/api/search?limit=2&mode=meaning", "", &sent);
    assert_eq!(answer.names(), ["rain.wav", "thunder.flac"]);
    let json = answer.json();
    assert_eq!(
        json["heard"],
        json!({"seconds": 0.5, "container": "wav", "codec": "pcm 16-bit", "rate": 8000, "damage": null})
    );
    assert_eq!(
        json["query"],
        json!({"q": "", "not": [], "like": null, "mode": "meaning"})
    );
    // Without what is not wanted.
    let answer = world.ask("POST", "/api/search?limit=1&not=rain&tag=animal", "", &sent);
    assert_eq!(answer.names(), ["dog.wav"]);
    // In pieces, of any kind, and on a connection that goes on.
    let flac = std::fs::read(decoder_file("stereo-24.flac")).unwrap();
    let mut client = world.connect();
    client.send_request("POST", "/api/search", "Transfer-Encoding: chunked\r\n", b"");
    for piece in flac.chunks(1000) {
        client.send(format!("{:x}\r\n", piece.len()).as_bytes());
        client.send(piece);
        client.send(b"\r\n");
    }
    client.send(b"0\r\n\r\n");
    assert_eq!(client.answer("POST").json()["heard"]["container"], "flac");
    assert_eq!(client.get("/health").status, 200);
    assert_eq!(world.embedder.sounds.load(Ordering::SeqCst), 3);
    assert_eq!(world.uploads(), 0);
}

#[test]
fn exports() {
    let world = World::new(Options::default());
    let csv = world.get("/api/export?format=csv");
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8"));
    assert!(
        csv.header("content-disposition")
            .unwrap()
            .starts_with("attachment; filename=\"hark.csv\"")
    );
    let text = String::from_utf8(csv.body).unwrap();
    let lines: Vec<&str> = text.split("\r\n").collect();
    assert_eq!(
        lines[0],
        "rank,score,path,start,end,seconds,rate,channels,date,tags,heard,captions"
    );
    assert_eq!(lines.len(), 8);
    let root = &world.store.roots[0];
    assert_eq!(
        lines[1],
        format!("1,0,\"{root}/=\"\"Vögel\"\", 1 & 2 <b>.wav\",,,0.1,8000,1,2026-11-15,'-animal,,bird")
    );
    assert!(lines[3].ends_with(",\"'=a door, \"\"shut\"\"\""), "{}", lines[3]);
    let m3u = world.get("/api/export?q=voice&mode=meaning&limit=1&format=m3u");
    let path = world.path("weather/rain.wav");
    let expected = format!(
        "#EXTM3U\n#EXTINF:12,rain.wav\n#EXTVLCOPT:start-time=0\n{}\n",
        path.display()
    );
    assert_eq!(String::from_utf8(m3u.body).unwrap(), expected);
    let json = world.get("/api/export?q=dog&mode=words&format=json");
    assert_eq!(json.names(), ["dog.wav"]);
    assert!(json.header("content-disposition").unwrap().contains("hark.json"));
    assert_eq!(world.get("/api/export?format=xls").status, 400);
}

#[test]
fn the_page_and_its_files() {
    let world = World::new(Options {
        token: Some("secret".into()),
        ..Options::default()
    });
    for (target, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/page.css", "text/css; charset=utf-8"),
        ("/page.js", "text/javascript; charset=utf-8"),
        ("/icon.svg", "image/svg+xml"),
        ("/openapi.json", "application/json"),
    ] {
        let answer = world.get(target);
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(kind)));
        let policy = answer.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'self'") && !policy.contains("unsafe"),
            "{policy}"
        );
        let tag = answer.header("etag").unwrap();
        let again = world.ask("GET", target, &format!("If-None-Match: {tag}\r\n"), b"");
        assert_eq!((again.status, again.header("etag")), (304, Some(tag)));
        let head = world.ask("HEAD", target, "", b"");
        assert_eq!(
            head.header("content-length").unwrap(),
            answer.body.len().to_string()
        );
    }
    // The page's address holds what is searched for, whatever it calls it.
    assert_eq!(world.get("/?q=rain&anything=1").body, world.get("/").body);
}

#[test]
fn every_answer_is_protected() {
    let world = World::new(Options::default());
    for target in [
        "/",
        "/health",
        "/api/search",
        "/api/files/1/audio",
        "/nothing",
        "/api/files/x",
    ] {
        let answer = world.get(target);
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("x-frame-options", "DENY"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{target}");
        }
        assert!(
            answer.header("content-security-policy").is_some() && answer.header("cache-control").is_some()
        );
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
}

#[test]
fn it_ends_when_it_is_told() {
    let mut world = World::new(Options::default());
    let mut idle = world.connect();
    assert_eq!(idle.get("/health").status, 200);
    // A search that is at work is still answered.
    world.embedder.hold();
    let mut busy = world.connect();
    busy.send_request("GET", "/api/search?q=rain", "", b"");
    let address = world.address;
    world.end().unwrap();
    assert!(idle.ends());
    if let Some(answer) = busy.next_answer("GET") {
        assert_eq!(answer.status, 200);
    }
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn a_port_that_is_taken() {
    let world = World::new(Options::default());
    let options = Options {
        address: world.address,
        ..Options::default()
    };
    let (store, embedder) = (world.store.clone(), world.embedder.clone());
    let error = hark_serve::serve(store, embedder, options, &mut |_| (), &|| true).unwrap_err();
    assert!(error.to_string().contains(&world.address.to_string()), "{error}");
}
