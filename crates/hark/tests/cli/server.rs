//! `hark serve` through the program: it begins, answers, sees what is indexed meanwhile, and ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::library::{tone, with_sounds};
use crate::place::Place;

/// A running server.
pub struct Server {
    child: Child,
    /// Such as `127.0.0.1:4321`.
    pub address: String,
}

impl Server {
    /// Serves a library of the place at a free port.
    pub fn start(place: &Place, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut child = place
            .command(&[&["serve", "--port", "0"], args].concat())
            .envs(variables.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut server = Self {
            child,
            address: String::new(),
        };
        let mut said = String::new();
        for line in lines {
            let line = line.unwrap();
            if let Some(rest) = line.strip_prefix("http://") {
                rest.split('/').next().unwrap().clone_into(&mut server.address);
                return server;
            }
            said.push_str(&line);
        }
        panic!("the server did not begin: {said}");
    }

    /// The status and the body of an answer.
    pub fn get(&self, target: &str) -> (u16, Vec<u8>) {
        self.ask("GET", target, &[])
    }

    /// The JSON that answers a recording.
    pub fn post(&self, target: &str, body: &[u8]) -> Value {
        let (status, answer) = self.ask("POST", target, body);
        assert_eq!(status, 200, "{target}: {}", String::from_utf8_lossy(&answer));
        serde_json::from_slice(&answer).unwrap()
    }

    fn ask(&self, method: &str, target: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let (address, length) = (&self.address, body.len());
        write!(
            stream,
            "{method} {target} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        stream.write_all(body).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let head = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let status = std::str::from_utf8(&answer[9..12]).unwrap().parse().unwrap();
        (status, answer.split_off(head + 4))
    }

    pub fn json(&self, target: &str) -> Value {
        let (status, body) = self.get(target);
        assert_eq!(status, 200, "{target}: {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).unwrap()
    }

    /// Ends it with Ctrl-C; its exit code.
    pub fn stop(mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        std::process::Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn names(found: &Value) -> Vec<String> {
    let hits = found["hits"].as_array().unwrap();
    hits.iter()
        .map(|hit| hit["file"]["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_library_is_served_and_what_is_indexed_meanwhile_is_seen() {
    let place = with_sounds();
    place.run(&["index", "sounds", "--model", "tiny"]);
    let server = Server::start(&place, &[], &[]);
    assert_eq!(server.json("/health")["status"], "ok");
    assert_eq!(server.json("/api/library")["files"], 4);
    let found = server.json("/api/search?q=dog%20bark");
    assert_eq!(names(&found)[0], "dog_bark.wav");
    // The program's own search gives the same order and scores.
    let own = place.json(&["search", "dog", "bark", "--json"]);
    for (there, here) in found["hits"]
        .as_array()
        .unwrap()
        .iter()
        .zip(own["hits"].as_array().unwrap())
    {
        for key in ["score", "meaning", "words", "start", "end"] {
            assert_eq!(there[key], here[key], "{key}");
        }
        assert_eq!(there["file"]["path"], here["file"]["path"]);
    }
    let id = found["hits"][0]["file"]["id"].as_i64().unwrap();
    let (status, bytes) = server.get(&format!("/api/files/{id}/audio"));
    assert_eq!(status, 200);
    assert_eq!(
        bytes,
        fs_err::read(place.path("sounds/Dogs/dog_bark.wav")).unwrap()
    );
    let like = server.json(&format!("/api/search?like={id}"));
    assert!(!names(&like).contains(&"dog_bark.wav".to_owned()));

    place.write("sounds/quokka.wav", tone(777.0, 0.4));
    place.run(&["index"]);
    assert_eq!(
        names(&server.json("/api/search?q=quokka&mode=words")),
        ["quokka.wav"]
    );
    assert!(names(&server.json("/api/search?q=anything")).contains(&"quokka.wav".to_owned()));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn other_machines_need_a_token() {
    let place = with_sounds();
    place.run(&["index", "sounds", "--model", "tiny"]);
    let message = place.fails(&["serve", "--address", "0.0.0.0", "--port", "0"]);
    assert!(message.contains("token"), "{message}");
    let server = Server::start(&place, &[], &[("HARK_TOKEN", "abc123")]);
    assert_eq!(server.get("/api/search?q=dog").0, 401);
    assert_eq!(server.get("/health").0, 200);
    assert_eq!(server.stop(), Some(0));
}
