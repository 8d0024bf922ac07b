//! A library on a PostgreSQL server: `scripts/tests.py -p hark-catalogue` runs these tests beside one. They fail without it.

#![allow(unreachable_pub, reason = "modules that test binaries share")]

mod semantics;

use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, mpsc};

use hark_catalogue::{Change, Entry, Error, Filter, PostgresStore, Settings, Store, TextQuery};
use postgres::{Client, NoTls};
use semantics::{Place, axis, entry, failure, long_entry, notes, put, settings, sound_and_whole, vector};

/// What the environment says about the server.
fn given(variable: &str) -> String {
    std::env::var(variable)
        .unwrap_or_else(|_| panic!("needs a PostgreSQL server ({variable} is not set): run scripts/tests.py"))
}

/// The server's address.
fn server() -> String {
    given("HARK_TEST_POSTGRES")
}

/// A library that is dropped at the end of its test.
struct Library {
    url: String,
    name: String,
}

impl Library {
    fn at(url: String) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!(
            "Test-{}_{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        Self { url, name }
    }

    fn store(&self) -> PostgresStore {
        self.store_with(&settings())
    }

    fn store_with(&self, settings: &Settings) -> PostgresStore {
        PostgresStore::open_or_create(&self.url, &self.name, settings).unwrap()
    }

    /// Statements on the library's tables.
    fn sql(&self, statements: &str) {
        let mut client = Client::connect(&self.url, NoTls).unwrap();
        client
            .batch_execute(&format!(
                "SET search_path = \"hark_{}\", public; {statements}",
                self.name
            ))
            .unwrap();
    }
}

impl Place for Library {
    fn open(&self) -> Box<dyn Store> {
        Box::new(self.store())
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // A test that has failed already is not to be hidden behind a second failure.
        if let Ok(mut client) = Client::connect(&self.url, NoTls) {
            _ = client.batch_execute(&format!("DROP SCHEMA IF EXISTS \"hark_{}\" CASCADE", self.name));
        }
    }
}

fn fresh() -> Box<dyn Place> {
    Box::new(Library::at(server()))
}

semantics!(fresh);

fn go_on(_: u64, _: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

// ------------------------------------------------------------------------------------------------ opening

#[test]
fn what_does_not_fit_is_refused() {
    let url = server();
    let library = Library::at(url.clone());
    let missing = PostgresStore::open(&url, &library.name).err().unwrap();
    assert!(matches!(missing, Error::Missing { .. }), "{missing}");
    drop(library.store());
    assert_eq!(
        PostgresStore::open(&url, &library.name).unwrap().settings(),
        &settings()
    );
    let refusal = |settings: &Settings| {
        PostgresStore::open_or_create(&url, &library.name, settings)
            .err()
            .unwrap()
    };
    let model = refusal(&Settings {
        fingerprint: "other".to_owned(),
        ..settings()
    });
    assert!(matches!(model, Error::OtherModel { .. }), "{model}");
    let dim = refusal(&Settings { dim: 9, ..settings() });
    assert!(matches!(dim, Error::Dimension { expected: 8, got: 9 }), "{dim}");
    let windows = refusal(&Settings {
        hop_seconds: 2.0,
        ..settings()
    });
    assert!(matches!(windows, Error::OtherWindows { .. }), "{windows}");
    let wide = refusal(&Settings {
        dim: 16_001,
        ..settings()
    });
    assert!(matches!(wide, Error::TooWide { dim: 16_001, .. }), "{wide}");
    library.sql("UPDATE meta SET value = '2' WHERE key = 'format'");
    let newer = PostgresStore::open(&url, &library.name).err().unwrap();
    assert!(
        matches!(
            newer,
            Error::NewerFormat {
                found: 2,
                known: 1,
                ..
            }
        ),
        "{newer}"
    );
    library.sql("DELETE FROM meta WHERE key = 'format'");
    let none = PostgresStore::open(&url, &library.name).err().unwrap();
    assert!(matches!(none, Error::NotCatalogue { .. }), "{none}");
    let name = PostgresStore::open(&url, "a\"; DROP SCHEMA public; --")
        .err()
        .unwrap();
    assert!(matches!(name, Error::LibraryName { .. }), "{name}");
}

#[test]
fn many_may_make_a_library_at_once() {
    let library = Library::at(server());
    let together = Barrier::new(8);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (library, together) = (&library, &together);
            scope.spawn(move || {
                together.wait();
                library
                    .store()
                    .apply(&[put(entry(&format!("/{number}.wav"), axis(number)))])
                    .unwrap();
            });
        }
    });
    assert_eq!(library.store().known().unwrap().len(), 8);
}

#[test]
fn whoever_may_only_read_can_search() {
    let url = server();
    let library = Library::at(url.clone());
    library
        .store()
        .apply(&[put(entry("/rain.wav", axis(1)))])
        .unwrap();
    let role = format!("reader_{}", library.name);
    let schema = format!("\"hark_{}\"", library.name);
    library.sql(&format!(
        "CREATE ROLE \"{role}\" LOGIN; GRANT USAGE ON SCHEMA {schema} TO \"{role}\"; \
         GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO \"{role}\""
    ));
    let url = url.replace("hark@", &format!("{role}@"));
    let reader = PostgresStore::open_or_create(&url, &library.name, &settings()).unwrap();
    let near = reader.search_vector(&axis(1), 1, &Filter::default()).unwrap();
    assert!((near[0].score - 1.0).abs() < semantics::TOLERANCE);
    assert_eq!(
        reader
            .search_text(&TextQuery::new("rain"), 1, &Filter::default())
            .unwrap()
            .len(),
        1
    );
    let refused = reader
        .apply(&[put(entry("/b.wav", axis(1)))])
        .unwrap_err()
        .to_string();
    assert!(refused.contains("permission denied"), "{refused}");
    library.sql(&format!("DROP OWNED BY \"{role}\"; DROP ROLE \"{role}\""));
}

/// Where there is `openssl`, the server can be reached over TLS, too.
mod needs_openssl {
    use super::*;

    #[test]
    fn a_certificate_counts_where_tls_is_required() {
        let (url, roots) = (given("HARK_TEST_POSTGRES_TLS"), given("HARK_TEST_POSTGRES_CA"));
        let plain = server();
        let library = Library::at(plain.clone());
        let with = |options: &str| {
            PostgresStore::open_or_create(&format!("{url}?{options}"), &library.name, &settings())
        };
        let trusted = format!("sslmode=require&sslrootcert={roots}");
        with(&trusted)
            .unwrap()
            .apply(&[put(long_entry(
                "/a.wav",
                vector(1),
                (0..3_000).map(vector).collect(),
            ))])
            .unwrap();
        with("sslmode=prefer").unwrap().optimize(&go_on).unwrap();
        assert_eq!(
            with(&format!("sslmode=verify-full&sslrootcert={roots}"))
                .unwrap()
                .known()
                .unwrap()
                .len(),
            1
        );
        // Nobody whom browsers trust vouches for it, and it does not speak without TLS.
        let unknown = with("sslmode=require").err().unwrap().to_string();
        assert!(unknown.contains("certificate"), "{unknown}");
        assert!(with("sslmode=disable").is_err());
        // The other server has no TLS.
        let refused = PostgresStore::open(&format!("{plain}?{trusted}"), &library.name)
            .err()
            .unwrap()
            .to_string();
        assert!(refused.contains("TLS"), "{refused}");
        // A name that the certificate does not have.
        let elsewhere = url.replace("localhost", "127.0.0.1");
        let other = PostgresStore::open(&format!("{elsewhere}?{trusted}"), &library.name)
            .err()
            .unwrap()
            .to_string();
        assert!(other.contains("certificate"), "{other}");
    }
}

// ------------------------------------------------------------------------------------------------ several writers

/// What one of several writers puts at a path: everything in it tells who it was.
fn signed(path: &str, writer: usize) -> Entry {
    let windows = (0..writer).map(|_| axis(writer)).collect();
    let mut entry = long_entry(path, axis(writer), windows);
    entry.content = format!("{writer:064}");
    entry.notes = notes(
        &[&format!(
            "writer{}",
            ["a", "b", "c", "d", "e", "f", "g", "h"][writer]
        )],
        &[&writer.to_string()],
    );
    entry
}

/// Each file is wholly of the writer that its content names.
fn assert_signed(store: &dyn Store) {
    store
        .for_each_entry(&mut |entry| {
            let writer: usize = entry.content.parse().unwrap();
            assert_eq!(entry, signed(&entry.path, writer));
            ControlFlow::Continue(())
        })
        .unwrap();
    sound_and_whole(store);
}

#[test]
fn eight_writers_of_the_same_paths_leave_one_of_each() {
    let library = Library::at(server());
    let together = Barrier::new(8);
    std::thread::scope(|scope| {
        for writer in 0..8_usize {
            let (library, together) = (&library, &together);
            scope.spawn(move || {
                let store = library.store();
                together.wait();
                for round in 0..12_usize {
                    let mut changes: Vec<Change> = (0..10)
                        .map(|at| {
                            put(signed(
                                &format!("/{}.wav", (at * 7 + round * 5 + writer) % 30),
                                writer,
                            ))
                        })
                        .collect();
                    // Moves, copies, failures and removals among them take hold of rows out of the order of paths.
                    let known = store.known().unwrap();
                    if let (Some(first), Some(last)) = (known.first(), known.last()) {
                        let path = format!("/{}.wav", (round * 11 + writer) % 30);
                        match round % 4 {
                            0 => changes.insert(
                                3,
                                Change::Move {
                                    id: last.id,
                                    path,
                                    stat: last.stat,
                                },
                            ),
                            1 => changes.push(Change::Remove { id: first.id }),
                            2 => changes.insert(5, Change::AddFailure(failure(&path))),
                            _ => changes.reverse(),
                        }
                    }
                    store.apply(&changes).unwrap();
                }
            });
        }
    });
    let store = library.store();
    let known = store.known().unwrap();
    assert!(known.len() + store.failures().unwrap().len() <= 30 && !known.is_empty());
    let mut numbers: Vec<i64> = known.iter().map(|known| known.id).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), known.len());
    // A moved file has the path of another time: everything else must be of one hand.
    assert_signed(&store);
}

// ------------------------------------------------------------------------------------------------ a server that dies

/// A server of its own, which is killed.
struct Victim {
    process: Child,
    answers: BufReader<ChildStdout>,
    url: String,
}

impl Victim {
    fn new() -> Self {
        let control = given("HARK_TEST_POSTGRES_CONTROL");
        let mut process = Command::new("sh")
            .args(["-c", &format!("exec {control}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        let mut victim = Self {
            process,
            answers,
            url: String::new(),
        };
        victim.url = victim.answer();
        victim
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn crash(&mut self) {
        self.process
            .stdin
            .as_mut()
            .unwrap()
            .write_all(b"crash\n")
            .unwrap();
        assert_eq!(self.answer(), "ready");
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // The end of its input is the end of the server.
        drop(self.process.stdin.take());
        _ = self.process.wait();
    }
}

#[test]
fn a_killed_server_loses_nothing_and_stores_go_on() {
    let mut victim = Victim::new();
    let library = Library::at(victim.url.clone());
    let reader = library.store();
    let (applied, progress) = mpsc::channel();
    let last = AtomicUsize::new(usize::MAX);
    let batch = |writer: usize, round: usize| -> Vec<Change> {
        (0..20)
            .map(|at| put(signed(&format!("/{writer}/{round:04}/{at:02}.wav"), writer)))
            .collect()
    };
    let counts: Vec<usize> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3_usize)
            .map(|writer| {
                let (applied, last, batch) = (applied.clone(), &last, &batch);
                // Opened before the first kill: what must survive is a store that is in use.
                let store = library.store();
                scope.spawn(move || {
                    let mut round = 0;
                    while round < last.load(Ordering::SeqCst) {
                        store.apply(&batch(writer, round)).unwrap();
                        round += 1;
                        applied.send(round).unwrap();
                    }
                    round
                })
            })
            .collect();
        // Three kills, each in the midst of what the writers do.
        let mut furthest = 0;
        for _ in 0..3 {
            for round in progress.iter().take(7) {
                furthest = furthest.max(round);
            }
            victim.crash();
            // A store that had been idle goes on, too.
            let files = reader.overview().unwrap().files;
            assert_eq!(files % 20, 0, "batches are there whole or not at all");
        }
        last.store(furthest + 3, Ordering::SeqCst);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let store = library.store();
    assert_eq!(
        store.known().unwrap().len(),
        20 * counts.iter().sum::<usize>(),
        "whatever was applied is there"
    );
    assert_signed(&store);
}

#[test]
fn a_batch_that_is_cut_off_leaves_nothing() {
    let mut victim = Victim::new();
    let library = Library::at(victim.url.clone());
    let store = library.store();
    store.apply(&[put(signed("/kept.wav", 1))]).unwrap();
    // A batch that waits for a row which another transaction holds is surely under way when the server dies.
    let mut other = Client::connect(&library.url, NoTls).unwrap();
    other
        .batch_execute(&format!(
            "BEGIN; LOCK TABLE \"hark_{}\".windows IN EXCLUSIVE MODE",
            library.name
        ))
        .unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| store.apply(&[put(signed("/kept.wav", 2)), put(signed("/new.wav", 2))]));
        let mut looking = Client::connect(&library.url, NoTls).unwrap();
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        while looking.query_one(waiting, &[]).unwrap().get::<_, i64>(0) == 0 {
            std::thread::yield_now();
        }
        let before = library.store();
        assert_eq!(before.known().unwrap().len(), 1, "nothing of it is seen");
        victim.crash();
        assert!(looking.query_one(waiting, &[]).is_err(), "the server was killed");
        writer.join().unwrap().unwrap();
    });
    let store = library.store();
    assert_eq!(store.known().unwrap().len(), 2, "it was made again as a whole");
    assert_signed(&store);
}

// ------------------------------------------------------------------------------------------------ searching

/// As good as random and normal: the sum of four uniform numbers, from the state of a generator.
fn normal(state: &mut u64) -> f32 {
    (0..4)
        .map(|_| {
            *state ^= *state << 13;
            *state ^= *state >> 7;
            *state ^= *state << 17;
            (*state >> 40) as f32 / (1_u64 << 24) as f32 - 0.5
        })
        .sum()
}

/// Unit vectors around a hundred centres.
fn clustered(count: usize, dim: usize, state: &mut u64) -> Vec<Vec<f32>> {
    let centres: Vec<Vec<f32>> = (0..100)
        .map(|_| (0..dim).map(|_| normal(state)).collect())
        .collect();
    (0..count)
        .map(|at| {
            let raw: Vec<f32> = centres[at % 100]
                .iter()
                .map(|value| value + 0.5 * normal(state))
                .collect();
            semantics::unit(&raw)
        })
        .collect()
}

#[test]
fn the_index_is_used_and_finds_what_comparing_all_finds() {
    let library = Library::at(server());
    let settings = Settings {
        dim: 64,
        ..settings()
    };
    let store = library.store_with(&settings);
    let mut state = 7;
    let vectors = clustered(5_000, 64, &mut state);
    for (block, part) in vectors.chunks(500).enumerate() {
        let changes: Vec<Change> = part
            .iter()
            .enumerate()
            .map(|(at, vector)| put(entry(&format!("/{block}/{at}.wav"), vector.clone())))
            .collect();
        store.apply(&changes).unwrap();
    }
    let questions = clustered(100, 64, &mut state);
    let all = Filter::default();
    let exact: Vec<_> = questions
        .iter()
        .map(|question| store.search_vector(question, 10, &all).unwrap())
        .collect();
    assert!(
        !store
            .plan(&questions[0], 10, &all)
            .unwrap()
            .concat()
            .contains("windows_vector")
    );
    // The best of all windows is the one that a look at each gives.
    for (question, near) in questions.iter().zip(&exact) {
        let best = vectors
            .iter()
            .map(|vector| semantics::dot(vector, question))
            .fold(f32::MIN, f32::max);
        assert!(
            (near[0].score - best).abs() < semantics::TOLERANCE,
            "{} and {best}",
            near[0].score
        );
    }
    let told = std::sync::Mutex::new(Vec::new());
    store
        .optimize(&|done, total| {
            told.lock().unwrap().push((done, total));
            ControlFlow::Continue(())
        })
        .unwrap();
    let told = told.into_inner().unwrap();
    assert_eq!(
        (told.first(), told.last()),
        (Some(&(0, 5_000)), Some(&(5_000, 5_000)))
    );
    let plan = store.plan(&questions[0], 10, &all).unwrap().join("\n");
    assert!(plan.contains("Index Scan using windows_vector"), "{plan}");
    let mut found = 0;
    for (question, exact) in questions.iter().zip(&exact) {
        let near = store.search_vector(question, 10, &all).unwrap();
        assert!(near.is_sorted_by(|a, b| a.score >= b.score));
        found += near
            .iter()
            .filter(|near| exact.iter().any(|exact| exact.file == near.file))
            .count();
    }
    // Nearly all, and not by definition: the index is approximate.
    assert!(found >= 980, "{found} of 1000");
    // More than pgvector keeps candidates for.
    assert_eq!(
        store.search_vector(&questions[0], 3_000, &all).unwrap().len(),
        3_000
    );
    assert_eq!(
        store.search_vector(&questions[0], 6_000, &all).unwrap().len(),
        5_000
    );
    // A folder of a tenth.
    let folder = Filter {
        folders: vec!["/3".to_owned()],
        ..Filter::default()
    };
    let near = store.search_vector(&questions[0], 600, &folder).unwrap();
    assert_eq!(near.len(), 500);
    // Changes after tidying are found at once.
    store
        .apply(&[put(entry("/new.wav", questions[0].clone()))])
        .unwrap();
    let first = store.search_vector(&questions[0], 1, &all).unwrap()[0];
    assert_eq!(store.files(&[first.file]).unwrap()[0].path, "/new.wav");
    sound_and_whole(&store);
}

#[test]
fn a_filter_that_keeps_the_nearest_away_still_finds_enough() {
    let library = Library::at(server());
    let store = library.store();
    // Each file has 2,000 windows. Those that do not pass are all nearer to the question than those that do, of which there are
    // more than are compared one by one.
    for file in 0..14_u64 {
        let near = file < 3;
        let mut vectors = (file * 10_000..).map(|seed| {
            let towards = if near { 10.0 } else { 0.0 };
            let vector = vector(seed)
                .iter()
                .zip(axis(0))
                .map(|(value, axis)| value + towards * axis)
                .collect::<Vec<_>>();
            semantics::unit(&vector)
        });
        let mut next = || vectors.find(|vector| near || vector[0] < 0.9).unwrap();
        let whole = next();
        let windows = (1..2_000).map(|_| next()).collect();
        let mut entry = long_entry(&format!("/{file:02}.wav"), whole, windows);
        entry.notes = notes(&[], &[if near { "near" } else { "far" }]);
        store.apply(&[put(entry)]).unwrap();
    }
    let far = Filter {
        tags: vec!["far".to_owned()],
        ..Filter::default()
    };
    let exact = store.search_vector(&axis(0), 50, &far).unwrap();
    store.optimize(&go_on).unwrap();
    let plan = store.plan(&axis(0), 50, &far).unwrap().join("\n");
    assert!(plan.contains("windows_vector"), "{plan}");
    let found = store.search_vector(&axis(0), 50, &far).unwrap();
    assert_eq!(found.len(), 50);
    assert!(found.iter().all(|near| near.score < 0.91), "{found:?}");
    // Nearly all, and not by definition: the index is approximate.
    let same = found.iter().filter(|near| exact.contains(near)).count();
    assert!(same >= 45, "{same} of 50");
    let all = store.search_vector(&axis(0), 50, &Filter::default()).unwrap();
    assert!(all.iter().all(|near| near.score > 0.97), "{all:?}");
}

#[test]
fn vectors_too_wide_for_an_index_are_compared() {
    let library = Library::at(server());
    let settings = Settings {
        dim: 5_000,
        ..settings()
    };
    let store = library.store_with(&settings);
    let along = |axis: usize| {
        (0..5_000)
            .map(|at| f32::from(u8::from(at == axis)))
            .collect::<Vec<f32>>()
    };
    let windows = (0..2_100).map(|at| along(at + 1)).collect();
    store
        .apply(&[put(long_entry("/wide.wav", along(0), windows))])
        .unwrap();
    store.optimize(&go_on).unwrap();
    let near = store.search_vector(&along(1_234), 1, &Filter::default()).unwrap();
    assert!((near[0].start - 5.0 * 1_233.0).abs() < 1e-9);
    assert_eq!(store.windows(near[0].file).unwrap().len(), 2_101);
    sound_and_whole(&store);
}

// ------------------------------------------------------------------------------------------------ texts and upkeep

#[test]
fn texts_that_an_index_cannot_hold_are_refused_or_kept() {
    let library = Library::at(server());
    let store = library.store();
    // Letters that do not compress: each path and tag is longer than a page's third.
    let mut state = 3;
    let mut noise = |length: usize| -> String {
        (0..length)
            .map(|_| char::from(b'a' + (normal(&mut state).abs() * 1e6) as u8 % 26))
            .collect()
    };
    let long = format!("/{}.wav", noise(3_000));
    let refused = store.apply(&[put(entry(&long, vector(1)))]).unwrap_err();
    assert!(matches!(refused, Error::LongPath { got: 3_005, .. }), "{refused}");
    let path = format!("/{}.wav", noise(2_500));
    let (tag, other) = (noise(4_000), noise(4_000));
    let mut many = entry(&path, vector(2));
    many.notes = notes(
        &[&(0..60_000).map(|_| noise(5) + " ").collect::<String>()],
        &[&tag],
    );
    many.sound.metadata.insert(
        "comment".to_owned(),
        (0..60_000).map(|_| noise(4) + " ").collect(),
    );
    store.apply(&[put(many.clone())]).unwrap();
    let kept = store.find(&path).unwrap().unwrap();
    assert_eq!((kept.notes, kept.sound), (many.notes, many.sound));
    let by = |tag: &str| {
        store
            .browse(
                &Filter {
                    tags: vec![tag.to_owned()],
                    ..Filter::default()
                },
                0,
                9,
            )
            .unwrap()
            .len()
    };
    assert_eq!((by(&tag), by(&other)), (1, 0));
}

#[test]
fn contradictions_are_found() {
    let library = Library::at(server());
    let store = library.store();
    for name in ["a", "b", "c", "d", "e"] {
        store
            .apply(&[put(long_entry(
                &format!("/{name}.wav"),
                vector(1),
                vec![vector(2), vector(3)],
            ))])
            .unwrap();
    }
    sound_and_whole(&store);
    for (damage, says) in [
        (
            "DELETE FROM windows WHERE n = 1 AND file = (SELECT id FROM files WHERE path = '/a.wav')",
            "/a.wav should have 3 windows and has 2",
        ),
        (
            "UPDATE windows SET whole = true WHERE n = 2 AND file = (SELECT id FROM files WHERE path = '/b.wav')",
            "/b.wav has 2 vectors of the whole",
        ),
        (
            "UPDATE windows SET vector = '[1,1,0,0,0,0,0,0]' WHERE n = 1 AND file = (SELECT id FROM files WHERE path = '/c.wav')",
            "/c.wav has a vector of length 1.4142",
        ),
        (
            "DELETE FROM sounds WHERE file = (SELECT id FROM files WHERE path = '/d.wav')",
            "/d.wav has no description",
        ),
        ("DELETE FROM files WHERE path = '/e.wav'", "windows of file"),
        ("UPDATE windows SET end_s = 99 WHERE n = 0", "to 99 s"),
        (
            "INSERT INTO failures VALUES ('/a.wav', 1, 1, 'x')",
            "/a.wav is both known and",
        ),
    ] {
        library.sql(damage);
        let faults = store.check().unwrap();
        assert!(
            faults.iter().any(|fault| fault.contains(says)),
            "{says}: {faults:?}"
        );
    }
}

#[test]
fn an_index_that_was_not_finished_is_built_anew() {
    let library = Library::at(server());
    let settings = Settings {
        dim: 64,
        ..settings()
    };
    let store = library.store_with(&settings);
    let vectors = clustered(3_000, 64, &mut 5);
    let windows = vectors[1..].to_vec();
    store
        .apply(&[put(long_entry("/a.wav", vectors[0].clone(), windows))])
        .unwrap();
    let stopped = store.optimize(&|_, _| ControlFlow::Break(())).unwrap_err();
    assert!(
        matches!(
            stopped,
            Error::Stopped {
                done: 0,
                total: 3_000
            }
        ),
        "{stopped}"
    );
    // What a build leaves that dies on its way.
    library.sql("CREATE INDEX windows_vector ON windows (n)");
    library.sql("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'windows_vector'::regclass");
    assert!(store.check().unwrap()[0].contains("not finished"));
    store.optimize(&go_on).unwrap();
    sound_and_whole(&store);
    let plan = store.plan(&vectors[9], 10, &Filter::default()).unwrap().concat();
    assert!(plan.contains("windows_vector"), "{plan}");
    // Asked to stop in the midst of it, a build is given up, or else it was quicker.
    library.sql("DROP INDEX windows_vector");
    let calls = std::sync::atomic::AtomicU64::new(0);
    let outcome = store.optimize(&|_, _| {
        if calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    assert!(
        matches!(outcome, Ok(()) | Err(Error::Stopped { total: 3_000, .. })),
        "{outcome:?}"
    );
    sound_and_whole(&store);
}

#[test]
fn tidying_twice_at_once_does_no_harm() {
    let library = Library::at(server());
    let store = library.store();
    let windows = (0..3_000).map(vector).collect();
    store
        .apply(&[put(long_entry("/a.wav", vector(1), windows))])
        .unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| library.store().optimize(&go_on).unwrap());
        }
    });
    store.optimize(&go_on).unwrap();
    sound_and_whole(&store);
    assert!(
        store
            .plan(&vector(5), 5, &Filter::default())
            .unwrap()
            .concat()
            .contains("windows_vector")
    );
}
