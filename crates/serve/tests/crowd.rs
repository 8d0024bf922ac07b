//! A thousand connections. In a file of its own, since it counts the open files of its process.

#![allow(unreachable_pub, reason = "modules that test binaries share")]

mod world;

use std::time::Duration;

use hark_serve::Options;
use world::{Client, World};

#[cfg(target_os = "linux")]
fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[cfg(not(target_os = "linux"))]
fn open_files() -> usize {
    0
}

#[test]
fn a_thousand_connections() {
    const MAX: usize = 256;
    let mut world = World::new(Options {
        most_connections: MAX,
        idle_time: Duration::from_hours(1),
        ..Options::default()
    });
    assert_eq!(world.get("/health").status, 200);
    let before = open_files();
    for round in 0..2 {
        // Those that get a place say nothing; those that do not are told, and closed.
        let mut idle: Vec<Client> = Vec::new();
        while idle.len() < MAX {
            let mut client = world.connect();
            // A connection that has just ended may still have its place: those that are refused try again.
            client.send_request("GET", "/health", "", b"");
            match client.answer("GET").status {
                200 => idle.push(client),
                503 => {}
                other => panic!("{other}"),
            }
        }
        for i in MAX..1000 {
            let mut client = world.connect();
            let answer = client.answer("GET");
            assert_eq!(answer.status, 503, "{round} {i}");
            assert_eq!(
                (answer.header("retry-after"), answer.header("connection")),
                (Some("1"), Some("close"))
            );
            assert!(answer.error().contains("too many connections"));
            assert!(client.ends());
        }
        // Those that have a place are still served.
        for client in &mut idle {
            assert_eq!(client.get("/health").status, 200);
        }
        drop(idle);
        // When they are gone, there is room again.
        let mut status = 503;
        while status == 503 {
            let mut client = world.connect();
            client.send_request("GET", "/health", "", b"");
            status = client.answer("GET").status;
        }
        assert_eq!(status, 200);
    }
    world.end().unwrap();
    // The server's own files are closed too: there are fewer than at the beginning.
    assert!(
        open_files() <= before,
        "{} open files, {before} before",
        open_files()
    );
}
