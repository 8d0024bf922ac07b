//! What stores have in common, one thing at a time.

use std::ops::ControlFlow;

use hark_catalogue::{Change, Entry, Error, Filter, Hit, Query, Stat, Store, duplicates, search};

use super::{
    DIM, Fresh, TOLERANCE, axis, dumped, entry, failure, found, id, long_entry, matching, notes, paths, put,
    slanted, sound_and_whole, stat, vector,
};

fn one() -> Query {
    Query {
        per_file: 1,
        limit: 10,
        ..Query::default()
    }
}

fn hits(store: &dyn Store, query: &Query) -> Vec<String> {
    search(store, query)
        .unwrap()
        .into_iter()
        .map(|hit| hit.file.path)
        .collect()
}

pub fn a_put_entry_comes_back_whole(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    let mut put_in = long_entry("/lib/Storm.wav", vector(1), vec![vector(2), vector(3)]);
    put_in.sound.damage = Some("cut short after 15 s".to_owned());
    put_in
        .sound
        .metadata
        .insert("bext.originator".to_owned(), "Zoom H6".to_owned());
    put_in.sound.peaks = (0..=255).collect();
    put_in.notes = notes(&["thunder, then rain"], &["weather", "field"]);
    store.apply(&[put(put_in.clone())]).unwrap();
    for store in [store, place.open()] {
        let file = store.find("/lib/Storm.wav").unwrap().unwrap();
        assert_eq!(file.stat, put_in.stat);
        assert_eq!(file.content, put_in.content);
        assert_eq!(file.sound, put_in.sound);
        assert_eq!(
            file.notes,
            notes(&["thunder, then rain"], &["field", "weather"]),
            "tags are sorted"
        );
        assert_eq!(
            store.files(&[99, file.id, -1, file.id]).unwrap(),
            [file.clone(), file.clone()]
        );
        let windows = store.windows(file.id).unwrap();
        let times: Vec<_> = windows
            .iter()
            .map(|window| (window.start, window.end, window.whole))
            .collect();
        assert_eq!(times, [(0.0, 15.0, true), (0.0, 10.0, false), (5.0, 15.0, false)]);
        for (got, given) in windows.iter().zip(&put_in.windows) {
            assert_eq!(got.vector.len(), DIM);
            assert!(
                got.vector
                    .iter()
                    .zip(&given.vector)
                    .all(|(a, b)| (a - b).abs() <= 1e-3),
                "16 bits are kept"
            );
        }
        assert_eq!(
            store.find("/lib/storm.wav").unwrap(),
            None,
            "letters are not folded in paths"
        );
        assert!(store.windows(file.id + 1).unwrap().is_empty());
        assert_eq!(store.settings(), &super::settings());
        sound_and_whole(&*store);
    }
}

pub fn a_path_has_one_file_and_keeps_its_number(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    store
        .apply(&[
            put(long_entry("/a.wav", vector(1), vec![vector(2)])),
            put(entry("/b.wav", vector(3))),
        ])
        .unwrap();
    let number = id(&*store, "/a.wav");
    let mut other = entry("/a.wav", axis(4));
    other.content = "f".repeat(64);
    other.notes = notes(&["a gong"], &["metal"]);
    store.apply(&[put(other)]).unwrap();
    let file = store.find("/a.wav").unwrap().unwrap();
    assert_eq!((file.id, file.content), (number, "f".repeat(64)));
    assert_eq!(store.windows(number).unwrap().len(), 1);
    assert_eq!(store.known().unwrap().len(), 2);
    assert_eq!(store.overview().unwrap().windows, 2);
    let near = store.nearest(&axis(4), 1, &Filter::default()).unwrap();
    assert_eq!(near[0].file, number);
    assert!((near[0].score - 1.0).abs() < TOLERANCE);
    assert_eq!(found(&*store, "gong"), ["/a.wav"]);
    sound_and_whole(&*store);
}

pub fn a_copy_takes_over_all_but_path_look_and_notes(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    let mut original = long_entry("/a.wav", vector(1), vec![vector(2)]);
    original.notes = notes(&["a gong"], &["metal"]);
    original
        .sound
        .metadata
        .insert("title".to_owned(), "Temple".to_owned());
    store
        .apply(&[put(original), Change::Fail(failure("/copy.wav"))])
        .unwrap();
    let of = id(&*store, "/a.wav");
    let copy = |of| Change::Copy {
        of,
        path: "/copy.wav".to_owned(),
        stat: stat(9),
        notes: notes(&[], &["twin"]),
    };
    store.apply(&[copy(of), copy(12345)]).unwrap();
    let (a, b) = (
        store.find("/a.wav").unwrap().unwrap(),
        store.find("/copy.wav").unwrap().unwrap(),
    );
    assert_ne!(a.id, b.id);
    assert_eq!((&a.content, &a.sound), (&b.content, &b.sound));
    assert_eq!((b.stat, b.notes), (stat(9), notes(&[], &["twin"])));
    assert_eq!(store.windows(a.id).unwrap(), store.windows(b.id).unwrap());
    assert!(
        store.failures().unwrap().is_empty(),
        "what can be read is no failure"
    );
    assert_eq!(found(&*store, "temple"), ["/a.wav", "/copy.wav"]);
    assert_eq!(found(&*store, "gong"), ["/a.wav"]);
    // A copy of itself is itself, with other notes.
    let onto = Change::Copy {
        of,
        path: "/a.wav".to_owned(),
        stat: stat(10),
        notes: notes(&["bell"], &[]),
    };
    store.apply(&[onto]).unwrap();
    let again = store.find("/a.wav").unwrap().unwrap();
    assert_eq!((again.id, again.stat, &again.sound), (of, stat(10), &a.sound));
    assert_eq!(store.windows(of).unwrap(), store.windows(b.id).unwrap());
    // A copy onto a known file replaces it, under the number of its path.
    store.apply(&[put(entry("/c.wav", vector(7)))]).unwrap();
    let number = id(&*store, "/c.wav");
    store
        .apply(&[Change::Copy {
            of,
            path: "/c.wav".to_owned(),
            stat: stat(1),
            notes: notes(&[], &[]),
        }])
        .unwrap();
    assert_eq!(id(&*store, "/c.wav"), number);
    assert_eq!(store.windows(number).unwrap(), store.windows(of).unwrap());
    sound_and_whole(&*store);
}

pub fn a_move_takes_the_place_of_what_was_there(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    let mut gong = entry("/in/gong.wav", axis(0));
    gong.notes = notes(&["a temple"], &["metal"]);
    store
        .apply(&[
            put(gong),
            put(entry("/out/drum.wav", axis(1))),
            Change::Fail(failure("/out/x.wav")),
        ])
        .unwrap();
    let number = id(&*store, "/in/gong.wav");
    let to = |path: &str| Change::Move {
        id: number,
        path: path.to_owned(),
        stat: stat(5),
    };
    store.apply(&[to("/out/x.wav")]).unwrap();
    assert!(store.failures().unwrap().is_empty());
    assert_eq!(
        found(&*store, "gong"),
        Vec::<String>::new(),
        "the old name is gone"
    );
    assert_eq!(found(&*store, "temple"), ["/out/x.wav"], "notes go with it");
    store.apply(&[to("/out/drum.wav")]).unwrap();
    let file = store.find("/out/drum.wav").unwrap().unwrap();
    assert_eq!((file.id, file.stat), (number, stat(5)));
    assert_eq!(file.notes, notes(&["a temple"], &["metal"]));
    assert_eq!(store.known().unwrap().len(), 1);
    let near = store.nearest(&axis(1), 5, &Filter::default()).unwrap();
    assert_eq!(near.len(), 1, "the vector of what was there is gone");
    store.apply(&[to("/out/drum.wav")]).unwrap();
    assert_eq!(id(&*store, "/out/drum.wav"), number);
    // Of a move that cannot be made, because the file is gone, nothing is done.
    store
        .apply(&[Change::Move {
            id: 777,
            path: "/out/drum.wav".to_owned(),
            stat: stat(6),
        }])
        .unwrap();
    assert_eq!(id(&*store, "/out/drum.wav"), number);
    sound_and_whole(&*store);
}

pub fn touch_annotate_and_remove(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    store
        .apply(&[put(entry("/a.wav", vector(1))), put(entry("/b.wav", vector(2)))])
        .unwrap();
    let (a, b) = (id(&*store, "/a.wav"), id(&*store, "/b.wav"));
    let look = Stat {
        size: u64::from(u32::MAX) * 8,
        modified: -5,
    };
    store
        .apply(&[
            Change::Touch { id: a, stat: look },
            Change::Annotate {
                id: a,
                notes: notes(&["whale", "song"], &["z", "sea", "z"]),
            },
        ])
        .unwrap();
    let file = store.find("/a.wav").unwrap().unwrap();
    assert_eq!(
        (file.id, file.stat, file.notes),
        (a, look, notes(&["whale", "song"], &["sea", "z"]))
    );
    assert_eq!(found(&*store, "whales"), ["/a.wav"]);
    store
        .apply(&[Change::Annotate {
            id: a,
            notes: notes(&[], &["sea"]),
        }])
        .unwrap();
    assert_eq!(found(&*store, "whales"), Vec::<String>::new());
    store.apply(&[Change::Remove { id: b }]).unwrap();
    assert_eq!(store.known().unwrap().len(), 1);
    assert!(store.windows(b).unwrap().is_empty());
    assert_eq!(store.overview().unwrap().windows, 1);
    sound_and_whole(&*store);
}

pub fn failures_and_files_exclude_each_other(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    store
        .apply(&[put(entry("/a.wav", vector(1))), Change::Fail(failure("/b.wav"))])
        .unwrap();
    store
        .apply(&[Change::Fail(failure("/a.wav")), put(entry("/b.wav", vector(2)))])
        .unwrap();
    assert_eq!(store.failures().unwrap(), [failure("/a.wav")]);
    assert_eq!(
        store
            .known()
            .unwrap()
            .iter()
            .map(|known| known.path.as_str())
            .collect::<Vec<_>>(),
        ["/b.wav"]
    );
    let mut other = failure("/a.wav");
    "another reason".clone_into(&mut other.message);
    store
        .apply(&[Change::Fail(other.clone()), Change::Fail(failure("/A.wav"))])
        .unwrap();
    assert_eq!(store.failures().unwrap(), [failure("/A.wav"), other]);
    let forget = |path: &str| Change::Forget {
        path: path.to_owned(),
    };
    store
        .apply(&[forget("/a.wav"), forget("/never.wav"), forget("/b.wav")])
        .unwrap();
    assert_eq!(store.failures().unwrap(), [failure("/A.wav")]);
    assert_eq!(store.known().unwrap().len(), 1, "forgetting is for failures");
    sound_and_whole(&*store);
}

pub fn numbers_of_gone_files_are_passed_over(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    store.apply(&[put(entry("/a.wav", vector(1)))]).unwrap();
    let gone = 4242;
    store
        .apply(&[
            Change::Touch {
                id: gone,
                stat: stat(1),
            },
            Change::Annotate {
                id: gone,
                notes: notes(&["x"], &["y"]),
            },
            Change::Remove { id: gone },
            Change::Move {
                id: gone,
                path: "/c.wav".to_owned(),
                stat: stat(2),
            },
            Change::Copy {
                of: gone,
                path: "/d.wav".to_owned(),
                stat: stat(2),
                notes: notes(&[], &[]),
            },
            put(entry("/b.wav", vector(2))),
        ])
        .unwrap();
    assert_eq!(store.known().unwrap().len(), 2);
    sound_and_whole(&*store);
}

pub fn numbers_are_never_given_again(fresh: Fresh) {
    let place = fresh();
    let mut store = place.open();
    let mut highest = 0;
    for _ in 0..3 {
        store.apply(&[put(entry("/a.wav", vector(1)))]).unwrap();
        let number = id(&*store, "/a.wav");
        assert!(number > highest);
        highest = number;
        store.apply(&[Change::Remove { id: number }]).unwrap();
        drop(store);
        store = place.open();
    }
}

pub fn changes_are_kept_all_or_none(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    store.apply(&[put(entry("/a.wav", vector(1)))]).unwrap();
    let before = dumped(&*store);
    let a = id(&*store, "/a.wav");
    let outcome = store.apply(&[
        put(entry("/b.wav", vector(2))),
        Change::Annotate {
            id: a,
            notes: notes(&["changed"], &[]),
        },
        Change::Remove { id: a },
        put(entry("/c.wav", vec![1.0; DIM + 1])),
    ]);
    assert!(
        matches!(outcome, Err(Error::Dimension { expected: DIM, got }) if got == DIM + 1),
        "{outcome:?}"
    );
    assert_eq!(dumped(&*store), before);
    assert_eq!(dumped(&*place.open()), before);
    assert_eq!(found(&*store, "changed"), Vec::<String>::new());
    sound_and_whole(&*store);
}

pub fn entries_that_contradict_themselves_are_refused(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    let good = || long_entry("/a.wav", vector(1), vec![vector(2), vector(3)]);
    let refusal = |spoil: &dyn Fn(&mut Entry)| {
        let mut entry = good();
        spoil(&mut entry);
        store.apply(&[put(entry)]).unwrap_err()
    };
    assert!(matches!(
        refusal(&|e| e.windows[1].vector[0] += 0.5),
        Error::NotUnit { .. }
    ));
    assert!(matches!(
        refusal(&|e| e.windows[1].vector[0] = f32::NAN),
        Error::NotUnit { .. }
    ));
    assert!(matches!(
        refusal(&|e| e.windows[0].vector.clear()),
        Error::Dimension { got: 0, .. }
    ));
    assert!(matches!(
        refusal(&|e| e.windows.clear()),
        Error::NotOneWhole { got: 0, .. }
    ));
    assert!(matches!(
        refusal(&|e| e.windows[1].whole = true),
        Error::NotOneWhole { got: 2, .. }
    ));
    assert!(matches!(
        refusal(&|e| e.windows[2].end = 15.1),
        Error::WindowOutside { .. }
    ));
    assert!(matches!(
        refusal(&|e| e.windows[2].start = -1.0),
        Error::WindowOutside { .. }
    ));
    assert!(matches!(
        refusal(&|e| e.windows[2].end = f64::NAN),
        Error::WindowOutside { .. }
    ));
    assert!(matches!(
        refusal(&|e| e.windows.swap(1, 2)),
        Error::WindowsOutOfOrder { .. }
    ));
    assert!(matches!(
        refusal(&|e| e.sound.seconds = f64::NAN),
        Error::BadLength { .. }
    ));
    assert!(matches!(
        refusal(&|e| e.sound.seconds = f64::INFINITY),
        Error::BadLength { .. }
    ));
    assert!(matches!(
        refusal(&|e| e.sound.seconds = -1.0),
        Error::BadLength { .. }
    ));
    assert!(store.known().unwrap().is_empty());
    store.apply(&[put(good())]).unwrap();
}

pub fn roots_are_folders_by_their_parts(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    for root in ["/b/", "/a", "/b", "/a/sub", "/a%"] {
        store.add_root(root).unwrap();
    }
    assert_eq!(place.open().roots().unwrap(), ["/a", "/a%", "/a/sub", "/b"]);
    let all = [
        "/a/1.wav",
        "/a/sub/2.wav",
        "/a/sub2/3.wav",
        "/ab/4.wav",
        "/a%/5.wav",
        "/a",
        "/b/6.wav",
    ];
    store.apply(&all.map(|path| put(entry(path, vector(1))))).unwrap();
    store
        .apply(&[
            Change::Fail(failure("/a/f.wav")),
            Change::Fail(failure("/a/sub/g.wav")),
        ])
        .unwrap();
    store.remove_root("/nowhere").unwrap();
    store.remove_root("/a/sub2").unwrap();
    assert_eq!(
        store.known().unwrap().len(),
        all.len(),
        "what is no root takes nothing with it"
    );
    store.remove_root("/a/").unwrap();
    let known: Vec<String> = store
        .known()
        .unwrap()
        .into_iter()
        .map(|known| known.path)
        .collect();
    assert_eq!(
        known,
        ["/a", "/a%/5.wav", "/a/sub/2.wav", "/ab/4.wav", "/b/6.wav"]
    );
    assert_eq!(store.failures().unwrap(), [failure("/a/sub/g.wav")]);
    assert_eq!(store.roots().unwrap(), ["/a%", "/a/sub", "/b"]);
    assert_eq!(
        store.nearest(&vector(1), 100, &Filter::default()).unwrap().len(),
        known.len()
    );
    store.add_root("/").unwrap();
    store.remove_root("/b").unwrap();
    assert_eq!(
        store.known().unwrap().len(),
        known.len(),
        "all of it is in the root of all"
    );
    store.remove_root("/").unwrap();
    let known: Vec<String> = store
        .known()
        .unwrap()
        .into_iter()
        .map(|known| known.path)
        .collect();
    assert_eq!(known, ["/a%/5.wav", "/a/sub/2.wav"]);
    sound_and_whole(&*store);
}

/// Filters, and the numbers of the files that pass each.
fn filters_and_what_passes() -> Vec<(Filter, &'static [usize])> {
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    let day = |day: &str| Some(day.to_owned());
    let with = |set: &dyn Fn(&mut Filter)| {
        let mut filter = Filter::default();
        set(&mut filter);
        filter
    };
    let folders = |folders: &[&str]| with(&|filter| filter.folders = texts(folders));
    let tags = |tags: &[&str]| with(&|filter| filter.tags = texts(tags));
    let numbered = |prefix: &str| {
        (0..5000)
            .map(|number| format!("{prefix}{number}"))
            .collect::<Vec<_>>()
    };
    vec![
        (Filter::default(), &[1, 2, 4, 3]),
        (folders(&["/a"]), &[1, 2]),
        (folders(&["/a/", "/a/b", "/a//"]), &[1, 2]),
        (folders(&["/a/b"]), &[2]),
        (folders(&["/a_"]), &[4]),
        (folders(&["/a%"]), &[]),
        (folders(&["/a/1.wav"]), &[]),
        (folders(&["/"]), &[1, 2, 4, 3]),
        (folders(&["/ab", "/a/b"]), &[2, 3]),
        (
            with(&|f| f.folders = [numbered("/nowhere/"), texts(&["/ab"])].concat()),
            &[3],
        ),
        (tags(&["x"]), &[1, 2]),
        (tags(&["x", "y", "x"]), &[1]),
        (tags(&["%"]), &[4]),
        (tags(&["X", "x"]), &[]),
        (with(&|f| f.tags = numbered("")), &[]),
        (with(&|f| f.min_seconds = Some(2.0)), &[2, 4, 3]),
        (with(&|f| f.max_seconds = Some(2.0)), &[1, 2]),
        (with(&|f| f.min_seconds = Some(f64::NAN)), &[]),
        (with(&|f| f.max_seconds = Some(f64::NAN)), &[]),
        (with(&|f| f.max_seconds = Some(f64::INFINITY)), &[1, 2, 4, 3]),
        (
            with(&|f| (f.min_rate, f.max_rate) = (Some(44_100), Some(48_000))),
            &[2, 3],
        ),
        (with(&|f| f.max_rate = Some(u32::MAX)), &[1, 2, 4, 3]),
        // The fourth does not say when it was recorded, and was last changed long ago.
        (with(&|f| f.after = day("2026-01-02")), &[2, 3]),
        (with(&|f| f.before = day("2026-01-02")), &[1, 2, 4]),
        (
            with(&|f| (f.before, f.min_seconds, f.tags) = (day("2026-12-31"), Some(1.5), texts(&["x"]))),
            &[2],
        ),
        (with(&|f| f.before = day("' OR 1=1 --")), &[]),
    ]
}

pub fn each_filter_holds(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    let make = |path: &str, seconds: f64, rate: u32, date: &str, tags: &[&str]| {
        let mut entry = entry(path, vector(1));
        (entry.sound.seconds, entry.sound.rate, entry.sound.date) = (seconds, rate, date.to_owned());
        (entry.windows[0].end, entry.notes.tags) = (seconds, notes(&[], tags).tags);
        put(entry)
    };
    store
        .apply(&[
            make("/a/1.wav", 1.0, 8000, "2026-01-01", &["x", "y"]),
            make("/a/b/2.wav", 2.0, 44_100, "2026-01-02", &["x"]),
            make("/ab/3.wav", 3.0, 48_000, "2026-01-03", &["y"]),
            make("/a_/4.wav", 4.0, 96_000, "", &["X", "%"]),
        ])
        .unwrap();
    let cases = filters_and_what_passes();
    for (filter, expected) in cases {
        let browsed = paths(&*store, &store.browse(&filter, 0, 100).unwrap());
        let expected: Vec<String> = store
            .known()
            .unwrap()
            .into_iter()
            .map(|known| known.path)
            .filter(|path| {
                expected
                    .iter()
                    .any(|number| path.ends_with(&format!("/{number}.wav")))
            })
            .collect();
        let told = format!(
            "{:?}",
            Filter {
                folders: filter.folders.iter().take(3).cloned().collect(),
                ..filter.clone()
            }
        );
        assert_eq!(browsed, expected, "{told:.300}");
        let near = store.nearest(&vector(1), 100, &filter).unwrap();
        let mut near = paths(&*store, &near.iter().map(|near| near.file).collect::<Vec<_>>());
        near.sort();
        assert_eq!(near, expected, "{told:.300}");
        // Every name has the word `wav` left out and its number as a word.
        let words = store.matching("1 2 3 4 ", &[], 100, &filter).unwrap();
        let mut words = paths(&*store, &words.iter().map(|found| found.file).collect::<Vec<_>>());
        words.sort();
        assert_eq!(words, expected, "{told:.300}");
    }
    assert_eq!(
        paths(&*store, &store.browse(&Filter::default(), 1, 2).unwrap()),
        ["/a/b/2.wav", "/a_/4.wav"]
    );
    assert!(
        store
            .browse(&Filter::default(), 4, usize::MAX)
            .unwrap()
            .is_empty()
    );
    assert!(
        store
            .browse(&Filter::default(), usize::MAX, usize::MAX)
            .unwrap()
            .is_empty()
    );
}

pub fn nearest_windows_come_best_first(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    assert!(store.nearest(&axis(0), 5, &Filter::default()).unwrap().is_empty());
    let long = long_entry("/long.wav", slanted(0.5), vec![slanted(0.9), slanted(0.1)]);
    store
        .apply(&[
            put(long),
            put(entry("/short.wav", slanted(0.7))),
            put(entry("/far.wav", slanted(-0.4))),
        ])
        .unwrap();
    let mut question = axis(0);
    for scale in [1.0, 1e-6, 1e6] {
        question[0] = scale;
        let near = store.nearest(&question, 100, &Filter::default()).unwrap();
        for (near, (cosine, start, end, whole)) in near.iter().zip([
            (0.9, 0.0, 10.0, false),
            (0.7, 0.0, 4.5, true),
            (0.5, 0.0, 15.0, true),
            (0.1, 5.0, 15.0, false),
            (-0.4, 0.0, 4.5, true),
        ]) {
            assert!((near.score - cosine).abs() < TOLERANCE, "{near:?}");
            assert_eq!((near.start, near.end, near.whole), (start, end, whole));
        }
        assert_eq!(near.len(), 5);
        assert_eq!(
            store.nearest(&question, 2, &Filter::default()).unwrap(),
            near[..2]
        );
        assert!(
            store
                .nearest(&question, 0, &Filter::default())
                .unwrap()
                .is_empty()
        );
        assert_eq!(
            store
                .nearest(&question, usize::MAX, &Filter::default())
                .unwrap()
                .len(),
            5
        );
    }
}

pub fn questions_without_a_direction_are_refused(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    let ask = |question: &[f32]| store.nearest(question, 5, &Filter::default());
    for _ in 0..2 {
        assert!(matches!(ask(&[0.0; DIM]), Err(Error::NoDirection)));
        assert!(matches!(ask(&[f32::NAN; DIM]), Err(Error::NoDirection)));
        assert!(matches!(ask(&[f32::INFINITY; DIM]), Err(Error::NoDirection)));
        assert!(matches!(
            ask(&[]),
            Err(Error::Dimension {
                expected: DIM,
                got: 0
            })
        ));
        assert!(matches!(ask(&[1.0; DIM + 1]), Err(Error::Dimension { .. })));
        assert!(ask(&[f32::MAX; DIM]).is_ok());
        store.apply(&[put(entry("/a.wav", vector(1)))]).unwrap();
    }
}

pub fn words_are_found_in_all_places(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    let mut full = entry("/fold/DogBark_03-close.WAV", vector(1));
    full.notes = notes(&["someone is whistling"], &["alarm-clock"]);
    full.sound
        .metadata
        .insert("artist".to_owned(), "Zoë Müller".to_owned());
    store
        .apply(&[put(full), put(entry("/other/thing.wav", vector(2)))])
        .unwrap();
    let there = ["/fold/DogBark_03-close.WAV"];
    for word in [
        "dog",
        "Bark",
        "BARK ",
        "03 ",
        "close",
        "fold",
        "whistling",
        "alarm",
        "clock",
        "zoe",
        "Zoë",
        "muller",
        "dogbark",
    ] {
        assert_eq!(found(&*store, word), there, "{word}");
    }
    for word in ["title", "artist", "wav", "xyz", "ark", "", " ", "🐶"] {
        assert_eq!(found(&*store, word), Vec::<String>::new(), "{word}");
    }
}

pub fn words_are_found_by_their_stems_and_beginnings(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    let mut barks = entry("/1.wav", vector(1));
    barks.notes = notes(&["a dog barks"], &[]);
    let mut barking = entry("/2.wav", vector(1));
    barking.notes = notes(&["dogs barking on the street"], &[]);
    store.apply(&[put(barks), put(barking)]).unwrap();
    for word in ["bark", "barks ", "Barking", "dogs ", "dog"] {
        assert_eq!(found(&*store, word), ["/1.wav", "/2.wav"], "{word}");
    }
    assert_eq!(
        found(&*store, "str"),
        ["/2.wav"],
        "a last word may be a beginning"
    );
    assert_eq!(
        matching(&*store, "dog str"),
        [("/2.wav".to_owned(), 1.0), ("/1.wav".to_owned(), 0.5)]
    );
    assert!(
        found(&*store, "str ").is_empty(),
        "one with something after it is finished"
    );
    assert!(
        found(&*store, "str xyz").is_empty(),
        "and so is one before others"
    );
}

pub fn the_share_of_words_decides_first(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    let noted = |path: &str, captions: &[&str]| {
        let mut entry = entry(path, vector(1));
        entry.notes = notes(captions, &[]);
        put(entry)
    };
    store
        .apply(&[
            noted("/1.wav", &["heavy rain on a tin roof"]),
            noted("/2.wav", &["rain rain rain rain rain", "more rain"]),
            noted("/3.wav", &["heavy rain"]),
            noted("/4.wav", &["a the on"]),
        ])
        .unwrap();
    let shares = matching(&*store, "the heavy rain on the roof ");
    let by_path: Vec<(&str, f64)> = shares
        .iter()
        .map(|(path, share)| (path.as_str(), *share))
        .collect();
    assert_eq!(by_path[0], ("/1.wav", 1.0));
    assert_eq!(by_path[1], ("/3.wav", 2.0 / 3.0));
    assert_eq!(by_path[2], ("/2.wav", 1.0 / 3.0));
    assert_eq!(by_path.len(), 3, "words such as `the` do not count");
    assert_eq!(
        store
            .matching("heavy rain roof ", &[], 1, &Filter::default())
            .unwrap()
            .len(),
        1
    );
    assert!(
        store
            .matching("rain", &[], 0, &Filter::default())
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        store
            .matching("rain", &[], usize::MAX, &Filter::default())
            .unwrap()
            .len(),
        3
    );
}

pub fn unwanted_words_keep_files_away(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    let noted = |path: &str, captions: &[&str], vector: Vec<f32>| {
        let mut entry = entry(path, vector);
        entry.notes = notes(captions, &[]);
        put(entry)
    };
    store
        .apply(&[
            noted("/1.wav", &["dog and cats"], slanted(0.9)),
            noted("/2.wav", &["dog and rainbow"], slanted(0.8)),
            noted("/3.wav", &["dog"], slanted(0.7)),
        ])
        .unwrap();
    let ask = |without: &[&str]| {
        let without: Vec<String> = without.iter().map(|&word| word.to_owned()).collect();
        let found = store.matching("dog", &without, 10, &Filter::default()).unwrap();
        let mut found = paths(&*store, &found.iter().map(|found| found.file).collect::<Vec<_>>());
        found.sort();
        let by_meaning = hits(
            &*store,
            &Query {
                vector: Some(axis(0)),
                without: without.clone(),
                ..one()
            },
        );
        assert_eq!(by_meaning, found, "by meaning");
        assert_eq!(
            hits(
                &*store,
                &Query {
                    without: without.clone(),
                    ..one()
                }
            ),
            found,
            "by path"
        );
        found
    };
    assert_eq!(ask(&["cat"]), ["/2.wav", "/3.wav"], "by its stem");
    assert_eq!(
        ask(&["rain"]),
        ["/1.wav", "/2.wav", "/3.wav"],
        "beginnings do not count"
    );
    assert_eq!(ask(&["cat", "the rainbows"]), ["/3.wav"]);
    assert_eq!(ask(&["", "🐶", "\"", "*"]), ["/1.wav", "/2.wav", "/3.wav"]);
    assert_eq!(ask(&["dogs"]), Vec::<String>::new());
}

pub fn nothing_in_a_text_is_syntax(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    let mut dog = entry("/dog.wav", vector(1));
    dog.notes = notes(&["near the NOT door"], &[]);
    store
        .apply(&[put(dog), put(entry("/cat.wav", vector(2)))])
        .unwrap();
    for text in [
        "dog\"",
        "\"dog",
        "dog*",
        "(dog",
        "dog)",
        "dog AND",
        "dog NOT",
        "NEAR(dog",
        "name:dog",
        "{name}:dog",
        "-dog",
        "^dog",
        "dog;--",
        "dog'",
        "%dog%",
        "dog\0",
        "\0dog",
        "dog & | ! :*",
        "dog <-> ",
        "dog\\",
        "+dog",
        "🐶dog🐶",
        "dog\u{202e}",
    ] {
        assert!(found(&*store, text).contains(&"/dog.wav".to_owned()), "{text:?}");
        assert!(!found(&*store, text).contains(&"/cat.wav".to_owned()), "{text:?}");
        store
            .matching("dog", &[text.to_owned()], 10, &Filter::default())
            .unwrap();
    }
    assert_eq!(found(&*store, "NEAR"), ["/dog.wav"], "it is a word like others");
    assert_eq!(found(&*store, "OR"), Vec::<String>::new());
    for text in ["%", "_", "*", "\"\"", "()", "\0", "'", "&", "\u{feff}"] {
        assert_eq!(found(&*store, text), Vec::<String>::new(), "{text:?}");
    }
}

pub fn any_text_is_kept(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    let strange = [
        "it's",
        "\"quoted\"",
        "100%",
        "a_b",
        "*",
        "\\",
        "; DROP TABLE files; --",
        "🐶\u{200d}🦺",
        "line\nbreak\ttab\r",
        "$1 ?1 :x",
    ];
    let mut entries = Vec::new();
    for (number, text) in strange.iter().enumerate() {
        let mut entry = entry(&format!("/lib/{text}/{text}.wav"), vector(number as u64));
        entry.notes = notes(&[text], &[text]);
        entry
            .sound
            .metadata
            .insert((*text).to_owned(), (*text).to_owned());
        entry.sound.damage = Some((*text).to_owned());
        (*text).clone_into(&mut entry.sound.container);
        entries.push(entry);
    }
    store
        .apply(&entries.iter().cloned().map(put).collect::<Vec<_>>())
        .unwrap();
    let store = place.open();
    for (text, entry) in strange.iter().zip(&entries) {
        let file = store.find(&entry.path).unwrap().unwrap();
        assert_eq!((&file.sound, &file.notes), (&entry.sound, &entry.notes));
        let by_tag = Filter {
            tags: vec![(*text).to_owned()],
            ..Filter::default()
        };
        assert_eq!(store.browse(&by_tag, 0, 100).unwrap(), [file.id], "{text}");
        let by_folder = Filter {
            folders: vec![format!("/lib/{text}")],
            ..Filter::default()
        };
        assert_eq!(store.browse(&by_folder, 0, 100).unwrap(), [file.id], "{text}");
        store.add_root(&format!("/lib/{text}")).unwrap();
    }
    let mut with_nul = entry("/nul\0/a\0b.wav", vector(1));
    with_nul.notes = notes(&["dog\0bark"], &["t\0"]);
    with_nul.sound.metadata.insert("k\0".to_owned(), "v\0".to_owned());
    store
        .apply(&[put(with_nul), Change::Fail(failure("/f\0.wav"))])
        .unwrap();
    let file = store.find("/nul\0/a\0b.wav").unwrap().unwrap();
    assert_eq!(file.path, "/nul\u{fffd}/a\u{fffd}b.wav");
    assert_eq!(file.notes, notes(&["dog\u{fffd}bark"], &["t\u{fffd}"]));
    assert_eq!(file.sound.metadata["k\u{fffd}"], "v\u{fffd}");
    assert_eq!(store.failures().unwrap()[0].path, "/f\u{fffd}.wav");
    let filter = Filter {
        folders: vec!["/nul\0".to_owned()],
        tags: vec!["t\0".to_owned()],
        ..Filter::default()
    };
    assert_eq!(store.browse(&filter, 0, 10).unwrap(), [file.id]);
    assert_eq!(found(&*store, "bark"), ["/nul\u{fffd}/a\u{fffd}b.wav"]);
    store
        .apply(&[Change::Forget {
            path: "/f\0.wav".to_owned(),
        }])
        .unwrap();
    assert!(store.failures().unwrap().is_empty());
    store.remove_root("/lib/100%").unwrap();
    assert_eq!(store.known().unwrap().len(), strange.len());
    sound_and_whole(&*store);
}

pub fn long_texts_are_kept_and_bounded(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    let word = "x".repeat(1 << 20);
    let sentence = "wind and rain ".repeat(1 << 16);
    let mut long = entry("/long.wav", vector(1));
    long.notes = notes(&[&word, &sentence], &["tag"]);
    long.sound.metadata.insert("comment".to_owned(), sentence.clone());
    store
        .apply(&[put(long.clone()), put(entry("/other.wav", vector(2)))])
        .unwrap();
    assert_eq!(store.find("/long.wav").unwrap().unwrap().notes, long.notes);
    assert_eq!(
        found(&*store, &word),
        ["/long.wav"],
        "the beginning of a word counts"
    );
    assert_eq!(found(&*store, &sentence), ["/long.wav"]);
    assert_eq!(found(&*store, &format!("other {word}")).len(), 2);
    let many: String = (0..100_000).map(|number| format!("w{number} ")).collect();
    assert!(found(&*store, &many).is_empty());
    sound_and_whole(&*store);
}

fn library_with_a_long_recording(store: &dyn Store) {
    let hours: Vec<Vec<f32>> = (0..2000)
        .map(|number| slanted(0.99 - 1e-5 * number as f32))
        .collect();
    let mut changes = vec![put(long_entry("/a/ten-hours.wav", slanted(0.98), hours))];
    for number in 0..10 {
        changes.push(put(entry(
            &format!("/b/{number}.wav"),
            slanted(0.8 - 0.05 * number as f32),
        )));
    }
    store.apply(&changes).unwrap();
}

pub fn a_long_recording_does_not_fill_the_list(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    library_with_a_long_recording(&*store);
    let query = Query {
        vector: Some(axis(0)),
        limit: 5,
        ..one()
    };
    let answer = search(&*store, &query).unwrap();
    let got: Vec<&str> = answer.iter().map(|hit| hit.file.path.as_str()).collect();
    assert_eq!(
        got,
        ["/a/ten-hours.wav", "/b/0.wav", "/b/1.wav", "/b/2.wav", "/b/3.wav"]
    );
    assert_eq!(
        answer.iter().map(|hit| hit.rank).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5]
    );
    assert!(
        answer[0].start.is_some() && answer[0].end.is_some(),
        "the moment is given"
    );
    assert_eq!(
        (answer[1].start, answer[1].end),
        (None, None),
        "a whole recording is no moment"
    );
    for hit in &answer {
        assert_eq!(
            hit.score,
            f64::from(hit.meaning.unwrap()),
            "meaning alone is scored by the cosine"
        );
        assert_eq!(hit.words, None);
    }
    let all = search(
        &*store,
        &Query {
            limit: 100,
            ..query.clone()
        },
    )
    .unwrap();
    assert_eq!(all.len(), 11, "every file, once");
    let except = Some(id(&*store, "/a/ten-hours.wav"));
    assert_eq!(
        hits(
            &*store,
            &Query {
                except,
                limit: 2,
                ..query.clone()
            }
        ),
        ["/b/0.wav", "/b/1.wav"]
    );
    assert!(search(&*store, &Query { limit: 0, ..query }).unwrap().is_empty());
}

pub fn a_file_may_have_several_hits(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    let long = long_entry(
        "/long.wav",
        slanted(0.5),
        vec![slanted(0.9), slanted(0.85), slanted(0.1)],
    );
    store
        .apply(&[put(long), put(entry("/short.wav", slanted(0.7)))])
        .unwrap();
    let query = Query {
        vector: Some(axis(0)),
        ..one()
    };
    let show = |hits: Vec<Hit>| {
        hits.into_iter()
            .map(|hit| (hit.file.path, hit.start))
            .collect::<Vec<_>>()
    };
    let long = |start| ("/long.wav".to_owned(), start);
    let short = ("/short.wav".to_owned(), None);
    assert_eq!(
        show(search(&*store, &query).unwrap()),
        [long(Some(0.0)), short.clone()]
    );
    let two = show(
        search(
            &*store,
            &Query {
                per_file: 2,
                ..query.clone()
            },
        )
        .unwrap(),
    );
    assert_eq!(two, [long(Some(0.0)), long(Some(5.0)), short.clone()]);
    let all = show(
        search(
            &*store,
            &Query {
                per_file: usize::MAX,
                ..query.clone()
            },
        )
        .unwrap(),
    );
    assert_eq!(
        all,
        [
            long(Some(0.0)),
            long(Some(5.0)),
            short.clone(),
            long(None),
            long(Some(10.0))
        ]
    );
    let none = show(search(&*store, &Query { per_file: 0, ..query }).unwrap());
    assert_eq!(none.len(), 2, "no hits of a file is no question: one is meant");
}

pub fn words_and_meaning_are_fused(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    let noted = |path: &str, caption: &str, cosine: f32| {
        let mut entry = entry(path, slanted(cosine));
        entry.notes = notes(&[caption], &[]);
        put(entry)
    };
    store
        .apply(&[
            noted("/1.wav", "thunder", 0.9),
            noted("/2.wav", "heavy rain", 0.8),
            noted("/3.wav", "heavy traffic", 0.7),
            noted("/4.wav", "birds", 0.6),
        ])
        .unwrap();
    let query = Query {
        vector: Some(axis(0)),
        words: Some("heavy rain".to_owned()),
        ..one()
    };
    let answer = search(&*store, &query).unwrap();
    let got: Vec<&str> = answer.iter().map(|hit| hit.file.path.as_str()).collect();
    assert_eq!(got, ["/2.wav", "/3.wav", "/1.wav", "/4.wav"]);
    let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
    assert!(
        close(answer[0].score, 1.0 / 62.0 + 1.0 / 61.0),
        "second by meaning, first by words, all of the words"
    );
    assert!(
        close(answer[1].score, 1.0 / 63.0 + 0.5 / 62.0),
        "half of the words count half"
    );
    assert!(close(answer[2].score, 1.0 / 61.0));
    assert_eq!(
        (answer[0].words, answer[1].words, answer[2].words),
        (Some(1.0), Some(0.5), None)
    );
    assert!(answer.iter().all(|hit| hit.meaning.is_some()));
    let words = search(
        &*store,
        &Query {
            vector: None,
            ..query.clone()
        },
    )
    .unwrap();
    assert_eq!(
        words.iter().map(|hit| hit.file.path.as_str()).collect::<Vec<_>>(),
        ["/2.wav", "/3.wav"]
    );
    assert!(
        words
            .iter()
            .all(|hit| hit.meaning.is_none() && hit.words.is_some() && hit.start.is_none())
    );
    assert!(words[0].score > words[1].score);
    // Words that nothing is named by leave the order to the meaning.
    let strange = Query {
        words: Some("xyzzy".to_owned()),
        ..query.clone()
    };
    assert_eq!(hits(&*store, &strange), ["/1.wav", "/2.wav", "/3.wav", "/4.wav"]);
    let filtered = Query {
        filter: Filter {
            folders: vec!["/x".to_owned()],
            ..Filter::default()
        },
        ..query
    };
    assert!(search(&*store, &filtered).unwrap().is_empty());
}

pub fn pages_follow_each_other(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    let mut changes = Vec::new();
    for number in 0..60 {
        // In groups of three the same vectors and words: ties are broken by path, whatever the order of putting.
        let number = (number * 37) % 60;
        let mut entry = entry(
            &format!("/{number:02}.wav"),
            slanted(0.9 - 0.04 * (number / 3) as f32),
        );
        entry.notes = notes(&[if number % 6 < 3 { "wind" } else { "rain" }], &[]);
        changes.push(put(entry));
    }
    store.apply(&changes).unwrap();
    let vector = Some(axis(0));
    let words = Some("wind".to_owned());
    for query in [
        Query {
            vector: vector.clone(),
            limit: 60,
            ..one()
        },
        Query {
            words: words.clone(),
            limit: 60,
            ..one()
        },
        Query {
            vector: vector.clone(),
            words: words.clone(),
            limit: 60,
            ..one()
        },
        Query { limit: 60, ..one() },
    ] {
        let whole = search(&*store, &query).unwrap();
        assert!(whole.len() >= 30);
        for pair in whole.windows(2) {
            let (a, b) = (&pair[0], &pair[1]);
            assert!(
                a.score > b.score || (a.score == b.score && a.file.path < b.file.path),
                "{a:?} {b:?}"
            );
        }
        let mut paged: Vec<Hit> = Vec::new();
        for skip in (0..70).step_by(7) {
            paged.extend(
                search(
                    &*store,
                    &Query {
                        skip,
                        limit: 7,
                        ..query.clone()
                    },
                )
                .unwrap(),
            );
        }
        assert_eq!(paged, whole);
    }
}

pub fn without_a_question_files_come_by_path(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    store
        .apply(&["/b.wav", "/a/z.wav", "/a.wav", "/B.wav"].map(|path| put(entry(path, vector(1)))))
        .unwrap();
    let query = one();
    assert_eq!(hits(&*store, &query), ["/B.wav", "/a.wav", "/a/z.wav", "/b.wav"]);
    assert_eq!(
        hits(
            &*store,
            &Query {
                skip: 1,
                limit: 2,
                ..query.clone()
            }
        ),
        ["/a.wav", "/a/z.wav"]
    );
    let except = Some(id(&*store, "/a.wav"));
    assert_eq!(
        hits(
            &*store,
            &Query {
                except,
                skip: 1,
                ..query.clone()
            }
        ),
        ["/a/z.wav", "/b.wav"]
    );
    let answer = search(
        &*store,
        &Query {
            skip: 2,
            ..query.clone()
        },
    )
    .unwrap();
    assert_eq!(
        (
            answer[0].rank,
            answer[0].meaning,
            answer[0].words,
            answer[0].start
        ),
        (3, None, None, None)
    );
    // Words of which nothing remains are no question either.
    let blank = Query {
        words: Some(" \t".to_owned()),
        ..query
    };
    assert_eq!(hits(&*store, &blank).len(), 4);
}

pub fn the_overview_counts(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    let empty = store.overview().unwrap();
    assert_eq!(
        (empty.files, empty.windows, empty.seconds, empty.failures),
        (0, 0, 0.0, 0)
    );
    store.add_root("/lib").unwrap();
    store.add_root("/empty").unwrap();
    let tagged = |path: &str, tags: &[&str], rate: u32| {
        let mut entry = entry(path, vector(1));
        (entry.notes.tags, entry.sound.rate) = (notes(&[], tags).tags, rate);
        put(entry)
    };
    store
        .apply(&[
            tagged("/lib/1.wav", &["b"], 8000),
            tagged("/lib/x/2.wav", &["b", "a"], 192_000),
            tagged("/lib/x/y/3.wav", &["c"], 44_100),
            put(long_entry("/out/4.wav", vector(2), vec![vector(3), vector(4)])),
            Change::Fail(failure("/lib/5.wav")),
        ])
        .unwrap();
    let overview = store.overview().unwrap();
    assert_eq!((overview.files, overview.windows, overview.failures), (4, 6, 1));
    assert!((overview.seconds - (3.0 * 4.5 + 15.0)).abs() < 1e-9);
    let counts = |counts: &[hark_catalogue::Count]| -> Vec<(String, u64)> {
        counts
            .iter()
            .map(|count| (count.value.clone(), count.files))
            .collect()
    };
    let expected = |pairs: &[(&str, u64)]| -> Vec<(String, u64)> {
        pairs
            .iter()
            .map(|&(value, files)| (value.to_owned(), files))
            .collect()
    };
    assert_eq!(overview.roots, ["/empty", "/lib"]);
    assert_eq!(
        counts(&overview.folders),
        expected(&[("/empty", 0), ("/lib", 3), ("/lib/x", 2)])
    );
    assert_eq!(counts(&overview.tags), expected(&[("b", 2), ("a", 1), ("c", 1)]));
    assert_eq!(
        counts(&overview.rates),
        expected(&[("8000", 1), ("44100", 2), ("192000", 1)])
    );
}

pub fn all_entries_come_by_path(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    let given = [
        long_entry("/b.wav", vector(1), vec![vector(2), vector(3)]),
        entry("/a.wav", vector(4)),
        entry("/a/é.wav", vector(5)),
    ];
    store.apply(&given.clone().map(put)).unwrap();
    let mut entries = Vec::new();
    store
        .each(&mut |entry| {
            entries.push(entry);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(
        entries
            .iter()
            .map(|entry| entry.path.as_str())
            .collect::<Vec<_>>(),
        ["/a.wav", "/a/é.wav", "/b.wav"]
    );
    assert_eq!(
        (&entries[2].sound, &entries[2].notes, entries[2].windows.len()),
        (&given[0].sound, &given[0].notes, 3)
    );
    assert_eq!(entries[2].windows, store.windows(id(&*store, "/b.wav")).unwrap());
    let mut files = Vec::new();
    store
        .each_file(&mut |file| {
            files.push(file.path);
            if files.len() == 2 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
        .unwrap();
    assert_eq!(files, ["/a.wav", "/a/é.wav"]);
    let mut taken = 0;
    store
        .each(&mut |entry| {
            taken += 1;
            assert!(
                store.find(&entry.path).unwrap().is_some(),
                "a store may be asked meanwhile"
            );
            ControlFlow::Break(())
        })
        .unwrap();
    assert_eq!(taken, 1);
    // What leaves one store comes out of another the same.
    let other = fresh();
    let other = other.open();
    other
        .apply(&entries.into_iter().map(put).collect::<Vec<_>>())
        .unwrap();
    assert_eq!(dumped(&*other), dumped(&*store));
}

pub fn other_connections_see_changes(fresh: Fresh) {
    let place = fresh();
    let (one, two) = (place.open(), place.open());
    let nearest = |store: &dyn Store| {
        let near = store.nearest(&axis(0), 3, &Filter::default()).unwrap();
        paths(store, &near.iter().map(|near| near.file).collect::<Vec<_>>())
    };
    assert!(nearest(&*two).is_empty());
    one.apply(&[put(entry("/a.wav", slanted(0.5)))]).unwrap();
    assert_eq!(nearest(&*two), ["/a.wav"]);
    two.apply(&[put(entry("/b.wav", slanted(0.9)))]).unwrap();
    assert_eq!(nearest(&*one), ["/b.wav", "/a.wav"]);
    one.apply(&[put(entry("/a.wav", slanted(0.99)))]).unwrap();
    assert_eq!(nearest(&*two), ["/a.wav", "/b.wav"]);
    two.apply(&[Change::Move {
        id: id(&*two, "/a.wav"),
        path: "/c.wav".to_owned(),
        stat: stat(1),
    }])
    .unwrap();
    assert_eq!(nearest(&*one), ["/c.wav", "/b.wav"]);
    one.add_root("/").unwrap();
    two.remove_root("/").unwrap();
    assert!(nearest(&*one).is_empty());
    sound_and_whole(&*one);
}

pub fn tidying_changes_no_answer(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    let go_on = &mut |_, _| ControlFlow::Continue(());
    store.tidy(go_on).unwrap();
    let many: Vec<Change> = (0..300)
        .map(|number| put(entry(&format!("/{number}.wav"), vector(number))))
        .collect();
    store.apply(&many).unwrap();
    let before = store.nearest(&vector(1000), 20, &Filter::default()).unwrap();
    let text = dumped(&*store);
    store.tidy(go_on).unwrap();
    store.tidy(go_on).unwrap();
    let after = store.nearest(&vector(1000), 20, &Filter::default()).unwrap();
    assert_eq!(before, after);
    assert_eq!(dumped(&*store), text);
    for number in 0..100 {
        let number = id(&*store, &format!("/{number}.wav"));
        store.apply(&[Change::Remove { id: number }]).unwrap();
    }
    let expected: Vec<_> = store.nearest(&vector(1000), 500, &Filter::default()).unwrap();
    assert_eq!(expected.len(), 200);
    store.tidy(go_on).unwrap();
    assert_eq!(
        place
            .open()
            .nearest(&vector(1000), 500, &Filter::default())
            .unwrap(),
        expected
    );
    sound_and_whole(&*store);
}

pub fn the_text_does_not_tell_the_history(fresh: Fresh) {
    let (first, second) = (fresh(), fresh());
    let (one, two) = (first.open(), second.open());
    let mut a = long_entry("/lib/a.wav", vector(1), vec![vector(2)]);
    a.notes = notes(&["line\nbreak \"quoted\""], &["b", "a"]);
    a.sound.metadata.insert("title".to_owned(), "T".to_owned());
    let b = entry("/lib/b.wav", vector(3));
    one.apply(&[
        put(a.clone()),
        put(b.clone()),
        Change::Fail(failure("/lib/f.wav")),
    ])
    .unwrap();
    one.add_root("/lib").unwrap();
    two.add_root("/lib/").unwrap();
    let mut moved = a.clone();
    "/elsewhere.wav".clone_into(&mut moved.path);
    two.apply(&[
        put(entry("/lib/b.wav", vector(9))),
        put(moved),
        put(entry("/lib/f.wav", vector(8))),
    ])
    .unwrap();
    let number = id(&*two, "/elsewhere.wav");
    two.apply(&[
        Change::Fail(failure("/lib/f.wav")),
        put(b),
        Change::Move {
            id: number,
            path: "/lib/a.wav".to_owned(),
            stat: a.stat,
        },
    ])
    .unwrap();
    let text = dumped(&*one);
    assert_eq!(dumped(&*two), text);
    assert_eq!(dumped(&*first.open()), text);
    for part in [
        "/lib/a.wav",
        "/lib/b.wav",
        "/lib/f.wav",
        "line\\nbreak",
        "tiny",
        "0123abcd",
        "no sound",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    // Whatever differs shows.
    for spoil in [
        &|entry: &mut Entry| entry.windows[1].vector = vector(77),
        &|entry: &mut Entry| entry.windows[1].end = 9.0,
        &|entry: &mut Entry| entry.stat.modified += 1,
        &|entry: &mut Entry| entry.sound.peaks[0] ^= 1,
        &|entry: &mut Entry| entry.sound.fingerprint[0] ^= 1,
        &|entry: &mut Entry| entry.sound.damage = Some("x".to_owned()),
        &|entry: &mut Entry| entry.sound.channels += 1,
        &|entry: &mut Entry| entry.notes.captions.clear(),
        &|entry: &mut Entry| _ = entry.sound.metadata.remove("title"),
    ] as [&dyn Fn(&mut Entry); 9]
    {
        let mut other = a.clone();
        spoil(&mut other);
        two.apply(&[put(other)]).unwrap();
        assert_ne!(dumped(&*two), text);
        two.apply(&[put(a.clone())]).unwrap();
        assert_eq!(dumped(&*two), text);
    }
}

pub fn threads_read_and_write_at_once(fresh: Fresh) {
    let place = fresh();
    let (one, two) = (place.open(), place.open());
    std::thread::scope(|scope| {
        for (writer, store) in [&*one, &*two].into_iter().enumerate() {
            scope.spawn(move || {
                for number in 0..20 {
                    // Two windows at a time: no reader may ever see one of them alone.
                    let seed = (100 * writer + number) as u64;
                    let path = format!("/{writer}/{number}.wav");
                    store
                        .apply(&[
                            put(entry(&path, vector(seed))),
                            put(entry(&format!("{path}.twin"), vector(seed))),
                        ])
                        .unwrap();
                }
            });
        }
        for store in [&*one, &*two, &*one] {
            scope.spawn(move || {
                for seed in 0..30 {
                    let near = store.nearest(&vector(seed), 1000, &Filter::default()).unwrap();
                    assert_eq!(near.len() % 2, 0, "half of a change was seen");
                    let files = store.matching("twin", &[], 1000, &Filter::default()).unwrap();
                    let wanted: Vec<i64> = files.iter().map(|found| found.file).collect();
                    assert_eq!(store.files(&wanted).unwrap().len(), wanted.len());
                }
            });
        }
    });
    for store in [&one, &two] {
        assert_eq!(store.known().unwrap().len(), 80);
        assert_eq!(
            store.nearest(&vector(1), 1000, &Filter::default()).unwrap().len(),
            80
        );
        sound_and_whole(&**store);
    }
}

pub fn duplicates_are_grouped(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    let make = |path: &str, content: &str, seconds: f64, fingerprint: u8| {
        let mut entry = entry(path, vector(1));
        (entry.content, entry.sound.seconds, entry.sound.fingerprint) =
            (content.to_owned(), seconds, vec![fingerprint]);
        entry.windows[0].end = seconds;
        put(entry)
    };
    store
        .apply(&[
            make("/same-2.wav", "aa", 5.0, 1),
            make("/same-1.wav", "aa", 5.0, 1),
            make("/alike.mp3", "bb", 5.15, 1),
            make("/alike-further.mp3", "cc", 5.3, 1),
            make("/too-far.mp3", "dd", 5.6, 1),
            make("/other.wav", "ee", 5.0, 2),
            make("/other.flac", "ff", 5.1, 2),
            make("/alone.wav", "gg", 5.0, 3),
        ])
        .unwrap();
    let groups = duplicates(&*store, &|sound| Some(sound.fingerprint.clone()), &|a, b| a == b).unwrap();
    assert_eq!(
        groups,
        [
            vec!["/alike-further.mp3", "/alike.mp3", "/same-1.wav", "/same-2.wav"],
            vec!["/other.flac", "/other.wav"]
        ]
    );
    let by_bytes = duplicates(&*store, &|_| None::<()>, &|(), ()| true).unwrap();
    assert_eq!(by_bytes, [vec!["/same-1.wav", "/same-2.wav"]]);
}
