//! The store in a folder.

#![allow(unreachable_pub, reason = "modules that test binaries share")]
#![allow(clippy::float_cmp, reason = "what is exact is compared exactly")]

mod semantics;

use hark_catalogue::{SqliteStore, Store};
use semantics::{Place, settings};

struct Folder(tempfile::TempDir);

impl Place for Folder {
    fn open(&self) -> Box<dyn Store> {
        Box::new(SqliteStore::open_or_create(self.0.path(), &settings()).unwrap())
    }
}

fn fresh() -> Box<dyn Place> {
    Box::new(Folder(tempfile::tempdir().unwrap()))
}

semantics!(fresh);

/// The same with an index as soon as there is a window: whatever a question finds, it may come from the file.
mod with_index {
    use super::{Folder, Place, SqliteStore, Store, settings};

    struct Indexed(Folder);

    impl Place for Indexed {
        fn open(&self) -> Box<dyn Store> {
            let store = SqliteStore::open_or_create(self.0.0.path(), &settings()).unwrap();
            Box::new(store.with_index_from(1).with_threads(1))
        }
    }

    fn fresh() -> Box<dyn Place> {
        Box::new(Indexed(Folder(tempfile::tempdir().unwrap())))
    }

    crate::semantics!(fresh);
}

/// Files that are no library, or not one for us.
mod opening {
    use super::{SqliteStore, Store, settings};
    use crate::semantics::{dumped, entry, notes, put, sound_and_whole, vector};
    use hark_catalogue::{Error, Settings};

    #[test]
    fn a_library_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("a/b");
        assert!(matches!(SqliteStore::open(&place), Err(Error::Missing { .. })));
        assert!(!place.exists(), "looking makes nothing");
        let store = SqliteStore::create(&place, &settings()).unwrap();
        store.apply(&[put(entry("/a.wav", vector(1)))]).unwrap();
        assert!(matches!(
            SqliteStore::create(&place, &settings()),
            Err(Error::Exists { .. })
        ));
        assert_eq!(SqliteStore::open(&place).unwrap().settings(), &settings());
        assert_eq!(
            SqliteStore::open_or_create(&place, &settings())
                .unwrap()
                .known()
                .unwrap()
                .len(),
            1
        );
    }

    #[test]
    fn many_may_make_it_at_once() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for number in 0..6 {
                let path = folder.path();
                scope.spawn(move || {
                    let store = SqliteStore::open_or_create(path, &settings()).unwrap();
                    store
                        .apply(&[put(entry(&format!("/{number}.wav"), vector(number)))])
                        .unwrap();
                });
            }
        });
        assert_eq!(
            SqliteStore::open(folder.path()).unwrap().known().unwrap().len(),
            6
        );
    }

    #[test]
    fn other_settings_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        drop(SqliteStore::create(folder.path(), &settings()).unwrap());
        let open = |change: &dyn Fn(&mut Settings)| {
            let mut settings = settings();
            change(&mut settings);
            SqliteStore::open_or_create(folder.path(), &settings).unwrap_err()
        };
        let error = open(&|settings| settings.fingerprint = "ffff".to_owned());
        assert!(
            matches!(&error, Error::OtherModel { ours_fingerprint, .. } if ours_fingerprint == "0123abcd"),
            "{error}"
        );
        assert!(matches!(
            open(&|settings| settings.dim = 9),
            Error::Dimension { expected: 8, got: 9 }
        ));
        assert!(matches!(
            open(&|settings| settings.window_seconds = 9.0),
            Error::OtherWindows { .. }
        ));
        assert!(matches!(
            open(&|settings| settings.hop_seconds = 2.5),
            Error::OtherWindows { .. }
        ));
        let mut renamed = settings();
        renamed.model = "another name for it".to_owned();
        assert!(
            SqliteStore::open_or_create(folder.path(), &renamed).is_ok(),
            "names may change"
        );
        let elsewhere = tempfile::tempdir().unwrap();
        for (dim, window, hop) in [
            (0, 10.0, 5.0),
            (8, 0.0, 5.0),
            (8, f64::NAN, 5.0),
            (8, 10.0, f64::INFINITY),
        ] {
            let bad = Settings {
                dim,
                window_seconds: window,
                hop_seconds: hop,
                ..settings()
            };
            assert!(matches!(
                SqliteStore::create(elsewhere.path(), &bad),
                Err(Error::BadSettings { .. })
            ));
        }
    }

    #[test]
    fn an_older_format_is_brought_up_to_date() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::create(folder.path(), &settings()).unwrap();
        let mut tagged = entry("/a.wav", vector(1));
        tagged.notes = notes(&["a caption"], &["sea"]);
        store.apply(&[put(tagged)]).unwrap();
        let before = dumped(&store);
        drop(store);
        let raw = rusqlite::Connection::open(folder.path().join("catalogue.sqlite")).unwrap();
        raw.execute_batch(
            "ALTER TABLE details DROP COLUMN heard; ALTER TABLE tags DROP COLUMN heard; PRAGMA user_version = 1;",
        )
        .unwrap();
        drop(raw);
        let store = SqliteStore::open(folder.path()).unwrap();
        assert_eq!(dumped(&store), before);
        sound_and_whole(&store);
        assert!(store.vocabulary().unwrap().is_empty());
    }

    #[test]
    fn a_newer_format_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        drop(SqliteStore::create(folder.path(), &settings()).unwrap());
        let raw = rusqlite::Connection::open(folder.path().join("catalogue.sqlite")).unwrap();
        raw.pragma_update(None, "user_version", 3).unwrap();
        drop(raw);
        for outcome in [
            SqliteStore::open(folder.path()),
            SqliteStore::open_or_create(folder.path(), &settings()),
        ] {
            let error = outcome.unwrap_err();
            assert!(
                matches!(
                    error,
                    Error::NewerFormat {
                        found: 3,
                        known: 2,
                        ..
                    }
                ),
                "{error}"
            );
            assert!(error.to_string().contains("use a newer hark"), "{error}");
        }
    }

    #[test]
    fn files_of_others_are_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("catalogue.sqlite");
        let refused = |content: &[u8]| {
            for outcome in [
                SqliteStore::open(folder.path()),
                SqliteStore::open_or_create(folder.path(), &settings()),
                SqliteStore::create(folder.path(), &settings()),
            ] {
                assert!(matches!(outcome, Err(Error::NotCatalogue { .. })), "{outcome:?}");
            }
            assert_eq!(std::fs::read(&file).unwrap(), content);
        };
        let text =
            b"this is a diary, not a database, and it is longer than a page of SQLite's head ".repeat(20);
        std::fs::write(&file, &text).unwrap();
        refused(&text);
        std::fs::remove_file(&file).unwrap();
        let raw = rusqlite::Connection::open(&file).unwrap();
        raw.execute_batch("CREATE TABLE diary (day TEXT); INSERT INTO diary VALUES ('monday')")
            .unwrap();
        drop(raw);
        refused(&std::fs::read(&file).unwrap());
        // A file that nothing was ever written to is what a killed maker leaves.
        std::fs::write(&file, b"").unwrap();
        assert!(matches!(
            SqliteStore::open(folder.path()),
            Err(Error::Missing { .. })
        ));
        assert!(SqliteStore::open_or_create(folder.path(), &settings()).is_ok());
    }

    #[test]
    fn a_damaged_file_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("catalogue.sqlite");
        let store = SqliteStore::create(folder.path(), &settings()).unwrap();
        let changes: Vec<_> = (0..200)
            .map(|number| put(entry(&format!("/{number}.wav"), vector(number))))
            .collect();
        store.apply(&changes).unwrap();
        drop(store);
        let whole = std::fs::read(&file).unwrap();
        assert!(whole.len() > 100_000);
        // Cut off in the midst, or with pages of rubbish: whatever is asked, an answer or an error comes, and the check finds it.
        for spoil in [
            &|bytes: &mut Vec<u8>| bytes.truncate(bytes.len() / 2),
            &|bytes: &mut Vec<u8>| bytes[8192..40_960].fill(0xa5),
            &|bytes: &mut Vec<u8>| bytes[4096..8192].fill(0),
        ] as [&dyn Fn(&mut Vec<u8>); 3]
        {
            let mut bytes = whole.clone();
            spoil(&mut bytes);
            std::fs::write(&file, &bytes).unwrap();
            match SqliteStore::open(folder.path()) {
                Err(error) => assert!(
                    matches!(error, Error::Damaged { .. } | Error::Sqlite { .. }),
                    "{error:?}"
                ),
                Ok(store) => {
                    let _ = (
                        store.known(),
                        store.search_vector(&vector(1), 5, &hark_catalogue::Filter::default()),
                    );
                    let _ = (
                        store.search_text(
                            &hark_catalogue::TextQuery::new("1"),
                            5,
                            &hark_catalogue::Filter::default(),
                        ),
                        store.overview(),
                    );
                    match store.check() {
                        Ok(faults) => assert!(!faults.is_empty()),
                        Err(error) => assert!(
                            matches!(error, Error::Damaged { .. } | Error::Sqlite { .. }),
                            "{error:?}"
                        ),
                    }
                }
            }
            let _ = (
                std::fs::remove_file(file.with_extension("sqlite-wal")),
                std::fs::remove_file(file.with_extension("sqlite-shm")),
            );
        }
    }

    #[test]
    fn one_indexes_and_others_read() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (
            SqliteStore::create(folder.path(), &settings()).unwrap(),
            SqliteStore::open(folder.path()).unwrap(),
        );
        let lock = one.lock().unwrap();
        assert!(matches!(two.lock(), Err(Error::Locked { .. })));
        assert!(matches!(one.lock(), Err(Error::Locked { .. })));
        one.apply(&[put(entry("/a.wav", vector(1)))]).unwrap();
        assert_eq!(two.known().unwrap().len(), 1);
        drop(lock);
        assert!(two.lock().is_ok());
    }
}

/// What a power cut or a kill leaves.
mod dying {
    use std::path::Path;

    use super::{SqliteStore, Store, settings};
    use crate::semantics::{dumped, entry, long_entry, put, sound_and_whole, vector};
    use hark_catalogue::Change;

    /// What the disk has at this moment, as if the machine had died.
    fn copied(from: &Path, to: &Path, wal: usize) {
        std::fs::copy(from.join("catalogue.sqlite"), to.join("catalogue.sqlite")).unwrap();
        let journal = std::fs::read(from.join("catalogue.sqlite-wal")).unwrap();
        std::fs::write(
            to.join("catalogue.sqlite-wal"),
            &journal[..wal.min(journal.len())],
        )
        .unwrap();
        let _ = std::fs::remove_file(to.join("catalogue.sqlite-shm"));
    }

    #[test]
    fn the_journal_cut_anywhere_gives_a_state_between_changes() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::create(folder.path(), &settings()).unwrap();
        let mut states = vec![dumped(&store)];
        for number in 0..6 {
            let changes = [
                put(long_entry(
                    &format!("/{number}.wav"),
                    vector(number),
                    vec![vector(number + 50), vector(number + 60)],
                )),
                Change::AddFailure(crate::semantics::failure(&format!("/failed/{number}.wav"))),
                put(entry("/again.wav", vector(100 + number))),
            ];
            store.apply(&changes).unwrap();
            states.push(dumped(&store));
        }
        let length = std::fs::metadata(folder.path().join("catalogue.sqlite-wal"))
            .unwrap()
            .len() as usize;
        assert!(length > 50_000, "all of it is in the journal");
        let mut seen = std::collections::BTreeSet::new();
        for cut in (0..=40).map(|part| length * part / 40) {
            let other = tempfile::tempdir().unwrap();
            copied(folder.path(), other.path(), cut);
            match SqliteStore::open(other.path()) {
                Ok(cut_off) => {
                    let text = dumped(&cut_off);
                    seen.insert(
                        states
                            .iter()
                            .position(|state| *state == text)
                            .expect("half of a change was kept"),
                    );
                    sound_and_whole(&cut_off);
                }
                Err(error) => {
                    assert!(matches!(error, hark_catalogue::Error::Missing { .. }), "{error}");
                    assert!(
                        SqliteStore::open_or_create(other.path(), &settings()).is_ok(),
                        "a killed maker is no obstacle"
                    );
                }
            }
        }
        assert!(seen.len() >= 5, "cuts fell into {seen:?}");
    }

    #[test]
    fn a_writer_that_dies_leaves_what_was_before() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::create(folder.path(), &settings()).unwrap();
        store.apply(&[put(entry("/a.wav", vector(1)))]).unwrap();
        let before = dumped(&store);
        let other = tempfile::tempdir().unwrap();
        {
            // So little room that what is not committed goes to the disk.
            let raw = rusqlite::Connection::open(folder.path().join("catalogue.sqlite")).unwrap();
            raw.execute_batch(
                "PRAGMA cache_size = 1; BEGIN IMMEDIATE; DELETE FROM windows; DELETE FROM words",
            )
            .unwrap();
            for number in 0..2000 {
                let sql = "INSERT INTO failures VALUES (?1, 1, 1, ?2)";
                raw.execute(sql, rusqlite::params![format!("/{number}"), "x".repeat(500)])
                    .unwrap();
            }
            assert_eq!(dumped(&store), before, "a reader goes on meanwhile");
            copied(folder.path(), other.path(), usize::MAX);
        }
        for folder in [folder.path(), other.path()] {
            let store = SqliteStore::open(folder).unwrap();
            assert_eq!(dumped(&store), before);
            sound_and_whole(&store);
            store.apply(&[put(entry("/b.wav", vector(2)))]).unwrap();
            assert_eq!(store.known().unwrap().len(), 2);
        }
    }
}

/// The index file, whatever becomes of it.
mod index {
    use std::collections::{BTreeSet, HashMap};
    use std::ops::ControlFlow;
    use std::path::Path;

    use super::{SqliteStore, Store, settings};
    use crate::semantics::naive::Naive;
    use crate::semantics::{TOLERANCE, entry, id, put, sound_and_whole, vector};
    use hark_catalogue::{Change, Error, Filter};

    const FROM: usize = 100;

    fn open(folder: &Path) -> SqliteStore {
        SqliteStore::open_or_create(folder, &settings())
            .unwrap()
            .with_index_from(FROM)
            .with_threads(2)
    }

    fn add(store: &SqliteStore, naive: &mut Naive, numbers: std::ops::Range<u64>) {
        let changes: Vec<Change> = numbers
            .map(|number| {
                let mut entry = entry(&format!("/{}/{number}.wav", number % 4), vector(number));
                entry.sound.rate = 8000 + (number % 1000) as u32;
                put(entry)
            })
            .collect();
        store.apply(&changes).unwrap();
        naive.apply(&changes, &std::collections::BTreeMap::new());
    }

    fn optimize(store: &SqliteStore) {
        store.optimize(&hark_work::progress::no_progress).unwrap();
    }

    fn filters() -> Vec<Filter> {
        let folders = |folders: &[&str]| Filter {
            folders: folders.iter().map(|&folder| folder.to_owned()).collect(),
            ..Filter::default()
        };
        vec![
            Filter::default(),
            // Many pass, few, very few, none.
            folders(&["/1", "/2", "/3"]),
            Filter {
                max_rate: Some(8050),
                ..Filter::default()
            },
            Filter {
                max_rate: Some(8001),
                ..Filter::default()
            },
            folders(&["/9"]),
        ]
    }

    /// Compares answers with those of the naive store; which share of the windows that belong there is there.
    fn recall(store: &SqliteStore, naive: &Naive) -> f64 {
        let (mut there, mut all) = (0, 0);
        let known = store.known().unwrap();
        let paths: HashMap<i64, &str> = known
            .iter()
            .map(|known| (known.id, known.path.as_str()))
            .collect();
        for filter in filters() {
            for question in 0..6 {
                let query = vector(1_000_000 + question);
                let expected = naive.search_vector(&query, &filter);
                for k in [1, 10, 50, 10_000] {
                    let got = store.search_vector(&query, k, &filter).unwrap();
                    assert_eq!(
                        got.len(),
                        k.min(expected.len()),
                        "as many as there are: {k} of {filter:?}"
                    );
                    assert!(got.is_sorted_by(|a, b| a.score >= b.score));
                    let worst = expected.get(got.len().wrapping_sub(1)).map_or(0.0, |last| last.0);
                    let mut seen = BTreeSet::new();
                    for near in &got {
                        let path = *paths.get(&near.file).expect("a file that is gone");
                        let kept = &naive.files[path];
                        assert!(filter.matches(&kept.file), "{path} does not pass");
                        assert!(seen.insert(near.file), "{path} came twice");
                        let own = crate::semantics::dot(&query, &kept.windows[0].vector);
                        assert!((near.score - own).abs() < TOLERANCE, "scores are exact");
                        there += usize::from(near.score >= worst - TOLERANCE);
                    }
                    all += got.len();
                }
            }
        }
        there as f64 / all as f64
    }

    /// An index overlooks little: of small sets like these, next to nothing.
    const NEARLY_ALL: f64 = 0.995;

    #[test]
    fn old_missing_and_damaged_files_make_no_wrong_answer() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("windows.usearch");
        let mut naive = Naive::default();
        let store = open(folder.path());
        add(&store, &mut naive, 0..2000);
        assert_eq!(recall(&store, &naive), 1.0, "without an index all is compared");
        optimize(&store);
        assert!(file.exists());
        assert!(recall(&store, &naive) > NEARLY_ALL);
        assert!(recall(&open(folder.path()), &naive) > NEARLY_ALL);
        sound_and_whole(&store);
        let old = std::fs::read(&file).unwrap();

        // Newer windows than the index has, and windows that it has and that are gone.
        add(&store, &mut naive, 2000..2300);
        add(&store, &mut naive, 0..50);
        let gone: Vec<String> = (100..300)
            .map(|number| format!("/{}/{number}.wav", number % 4))
            .collect();
        let removals: Vec<Change> = gone
            .iter()
            .map(|path| Change::Remove { id: id(&store, path) })
            .collect();
        store.apply(&removals).unwrap();
        naive.files.retain(|path, _| !gone.contains(path));
        assert!(recall(&store, &naive) > NEARLY_ALL);
        assert!(recall(&open(folder.path()), &naive) > NEARLY_ALL);
        sound_and_whole(&store);
        let other = open(folder.path());
        assert!(recall(&other, &naive) > NEARLY_ALL);
        optimize(&store);
        let new = std::fs::read(&file).unwrap();
        assert_ne!(old, new);
        for store in [&store, &other, &open(folder.path())] {
            assert!(recall(store, &naive) > NEARLY_ALL);
            sound_and_whole(store);
        }

        let mut flipped = new.clone();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 0x10;
        let spoilt: [Option<&[u8]>; 5] = [
            None,
            Some(&old),
            Some(&flipped),
            Some(&new[..new.len() / 3]),
            Some(b"rubbish"),
        ];
        for spoilt in spoilt {
            match spoilt {
                None => std::fs::remove_file(&file).unwrap(),
                // As a restored backup would: another file of that name, not other bytes in a file that somebody reads.
                Some(bytes) => {
                    let beside = folder.path().join("beside");
                    std::fs::write(&beside, bytes).unwrap();
                    std::fs::rename(&beside, &file).unwrap();
                }
            }
            let store = open(folder.path());
            assert_eq!(recall(&store, &naive), 1.0, "as without an index");
            let faults = store.check().unwrap();
            assert!(faults.len() == 1 && faults[0].contains("tidied"), "{faults:?}");
            optimize(&store);
            assert!(recall(&store, &naive) > NEARLY_ALL);
            sound_and_whole(&store);
        }
    }

    #[test]
    fn a_library_that_shrinks_has_its_index_made_anew_and_then_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("windows.usearch");
        let mut naive = Naive::default();
        let store = open(folder.path());
        add(&store, &mut naive, 0..1000);
        optimize(&store);
        let size = std::fs::metadata(&file).unwrap().len();
        let drop_files = |naive: &mut Naive, from: usize| {
            let known = store.known().unwrap();
            let gone = known.iter().skip(from);
            store
                .apply(
                    &gone
                        .clone()
                        .map(|known| Change::Remove { id: known.id })
                        .collect::<Vec<_>>(),
                )
                .unwrap();
            naive
                .files
                .retain(|path, _| !gone.clone().any(|known| known.path == *path));
        };
        drop_files(&mut naive, 300);
        assert!(recall(&store, &naive) > NEARLY_ALL);
        optimize(&store);
        assert!(std::fs::metadata(&file).unwrap().len() < size / 2, "made anew");
        assert!(recall(&store, &naive) > NEARLY_ALL);
        drop_files(&mut naive, 50);
        optimize(&store);
        assert!(!file.exists());
        assert_eq!(recall(&store, &naive), 1.0);
        sound_and_whole(&store);
    }

    #[test]
    fn tidying_can_be_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let mut naive = Naive::default();
        let store = open(folder.path());
        add(&store, &mut naive, 0..1000);
        let told = std::sync::Mutex::new(Vec::new());
        let outcome = store.optimize(&|done, total| {
            told.lock().unwrap().push((done, total));
            if done > 200 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        assert!(
            matches!(outcome, Err(Error::Stopped { total: 1000, .. })),
            "{outcome:?}"
        );
        let told = told.into_inner().unwrap();
        assert!(told.is_sorted() && told.len() > 1);
        assert!(!folder.path().join("windows.usearch").exists());
        assert_eq!(recall(&store, &naive), 1.0);
        optimize(&store);
        let again = std::sync::atomic::AtomicU64::new(0);
        store
            .optimize(&|_, _| {
                again.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(again.into_inner(), 0, "what is tidy needs nothing");
    }
}

/// Contradictions are found, each by what it is.
mod checking {
    use super::{SqliteStore, Store, settings};
    use crate::semantics::{entry, long_entry, put, sound_and_whole, vector};

    #[test]
    fn each_contradiction_is_found() {
        for (spoil, told) in [
            ("UPDATE windows SET vector = zeroblob(16) WHERE whole", "length 0"),
            ("UPDATE windows SET vector = zeroblob(15) WHERE whole", "15 bytes"),
            ("DELETE FROM windows WHERE whole", "exactly one vector"),
            ("UPDATE windows SET whole = 1", "exactly one vector"),
            ("UPDATE windows SET \"end\" = 99 WHERE start = 5", "ends at 99 s"),
            ("UPDATE windows SET start = 0 WHERE start = 5", "was kept after"),
            ("DELETE FROM words WHERE rowid = 1", "cannot be found by words"),
            (
                "INSERT INTO words (rowid, name) VALUES (77, 'ghost')",
                "a file that is gone",
            ),
            ("DELETE FROM words_data WHERE id > 10", "index of words"),
            (
                "PRAGMA foreign_keys = OFF; INSERT INTO tags (file, tag) VALUES (99, 'x')",
                "belongs to nothing",
            ),
            ("DELETE FROM details WHERE file = 1", "details"),
            (
                "INSERT INTO failures VALUES ('/a.wav', 1, 1, 'x')",
                "could not be read",
            ),
            ("DELETE FROM meta WHERE key = 'removals'", "number of changes"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let store = SqliteStore::create(folder.path(), &settings()).unwrap();
            store
                .apply(&[
                    put(entry("/a.wav", vector(1))),
                    put(long_entry("/b.wav", vector(2), vec![vector(3), vector(4)])),
                ])
                .unwrap();
            sound_and_whole(&store);
            let raw = rusqlite::Connection::open(folder.path().join("catalogue.sqlite")).unwrap();
            raw.execute_batch(spoil).unwrap();
            let faults = store.check().unwrap();
            assert!(
                faults.iter().any(|fault| fault.contains(told)),
                "{spoil}: {faults:?}"
            );
        }
    }

    #[test]
    fn the_text_of_a_library_is_this() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::create(folder.path(), &settings()).unwrap();
        let mut one = long_entry(
            "/lib/a \"b\".wav",
            crate::semantics::axis(0),
            vec![crate::semantics::axis(1)],
        );
        one.content = "c0ffee".to_owned();
        one.notes = crate::semantics::notes(&["rain\nand wind"], &["wet"]);
        one.sound.metadata.insert("title".to_owned(), "Ré".to_owned());
        store
            .apply(&[
                put(one),
                hark_catalogue::Change::AddFailure(crate::semantics::failure("/lib/x")),
            ])
            .unwrap();
        store.add_root("/lib").unwrap();
        let text = crate::semantics::dumped(&store);
        let expected = r#"hark catalogue, text 1
model "tiny"
fingerprint "0123abcd"
dim 8
window 10
hop 5
root "/lib"
file "/lib/a \"b\".wav"
  size 1001
  modified 1700000000000000002
  content "c0ffee"
  seconds 10
  rate 44100
  channels 2
  container "wav"
  codec "pcm_s16le"
  date "2026-11-15"
  metadata "title" "Ré"
  peaks 4 HASH
  sound 3 HASH
  caption "rain\nand wind"
  tag "wet"
  whole 0 10 HASH
  part 0 10 HASH
failure "/lib/x"
  size 1003
  modified 1700000000000000004
  message "/lib/x is no sound"
"#;
        let hash = |bytes: &[u8]| {
            // The formula, written out: each byte is mixed in, then multiplied by the prime of FNV.
            let mut hash: u64 = 14_695_981_039_346_656_037;
            for &byte in bytes {
                hash = (hash ^ u64::from(byte)).wrapping_mul(1_099_511_628_211);
            }
            format!("{hash:016x}")
        };
        // A 1 is the 16 bits 0x3c00.
        let axis = |number: usize| {
            (0..8)
                .flat_map(|place| if place == number { [0x00, 0x3c] } else { [0, 0] })
                .collect::<Vec<u8>>()
        };
        let mut expected = expected.to_owned();
        for bytes in [vec![0, 255, 128, 127], vec![1, 2, 3], axis(0), axis(1)] {
            expected = expected.replacen("HASH", &hash(&bytes), 1);
        }
        assert_eq!(text, expected);
    }
}
