//! What changes do, and which are refused.

use hark_catalogue::{Change, Entry, Error, Filter, Heard, Stat, Store};

use crate::semantics::{
    DIM, Fresh, TOLERANCE, axis, dumped, entry, failure, found, id, long_entry, notes, paths, put,
    sound_and_whole, stat, vector,
};

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
        assert_eq!(store.settings(), &super::super::settings());
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
    let near = store.search_vector(&axis(4), 1, &Filter::default()).unwrap();
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
        .apply(&[put(original), Change::AddFailure(failure("/copy.wav"))])
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
            Change::AddFailure(failure("/out/x.wav")),
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
    let near = store.search_vector(&axis(1), 5, &Filter::default()).unwrap();
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
            Change::UpdateStat { id: a, stat: look },
            Change::SetNotes {
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
        .apply(&[Change::SetNotes {
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

pub fn what_is_heard_is_a_tag_that_nobody_wrote(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    let heard = |name: &str, score| Heard {
        name: name.to_owned(),
        score,
        starts: vec![0.0],
    };
    let mut dog = entry("/a.wav", vector(1));
    dog.sound.heard = vec![heard("dog", 0.75), heard("sea", 0.5), heard("dog", 0.25)];
    dog.notes = notes(&[], &["sea", "trip"]);
    store.apply(&[put(dog), put(entry("/b.wav", vector(2)))]).unwrap();
    let tagged = |tags: &[&str]| {
        let tags = tags.iter().map(|&tag| tag.to_owned()).collect();
        let filter = Filter {
            tags,
            ..Filter::default()
        };
        let ids = store.browse(&filter, 0, 10).unwrap();
        paths(&*store, &ids)
    };
    let file = store.find("/a.wav").unwrap().unwrap();
    assert_eq!(file.notes.tags, ["sea", "trip"]);
    assert_eq!(file.sound.heard, [heard("dog", 0.75), heard("sea", 0.5)]);
    assert_eq!(tagged(&["dog", "trip"]), ["/a.wav"]);
    assert_eq!(found(&*store, "dogs"), ["/a.wav"]);
    let count = |tag: &str| {
        let tags = store.overview().unwrap().tags;
        tags.iter()
            .find(|count| count.value == tag)
            .map(|count| count.files)
    };
    assert_eq!((count("dog"), count("sea")), (Some(1), Some(1)));

    // Other notes leave what is heard as it is, and the other way round.
    let id = file.id;
    store
        .apply(&[
            Change::SetNotes {
                id,
                notes: notes(&[], &["trip"]),
            },
            Change::Move {
                id,
                path: "/c.wav".to_owned(),
                stat: stat(3),
            },
            Change::Copy {
                of: id,
                path: "/d.wav".to_owned(),
                stat: stat(4),
                notes: notes(&[], &[]),
            },
        ])
        .unwrap();
    assert_eq!(tagged(&["sea"]), ["/c.wav", "/d.wav"]);
    assert_eq!(tagged(&["trip", "dog"]), ["/c.wav"]);
    store
        .apply(&[Change::SetHeard {
            id,
            heard: vec![heard("cat", 0.5)],
        }])
        .unwrap();
    assert_eq!(tagged(&["cat", "trip"]), ["/c.wav"]);
    assert_eq!(tagged(&["dog"]), ["/d.wav"]);
    assert_eq!(found(&*store, "cat"), ["/c.wav"]);
    assert_eq!(store.find("/c.wav").unwrap().unwrap().sound.heard.len(), 1);

    assert!(store.vocabulary().unwrap().is_empty());
    for words in [&["rain", "a \"dog\""][..], &["rain"], &[]] {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        store.set_vocabulary(&words).unwrap();
        assert_eq!(place.open().vocabulary().unwrap(), words);
    }
    sound_and_whole(&*store);
}

pub fn failures_and_files_exclude_each_other(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    store
        .apply(&[
            put(entry("/a.wav", vector(1))),
            Change::AddFailure(failure("/b.wav")),
        ])
        .unwrap();
    store
        .apply(&[
            Change::AddFailure(failure("/a.wav")),
            put(entry("/b.wav", vector(2))),
        ])
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
        .apply(&[
            Change::AddFailure(other.clone()),
            Change::AddFailure(failure("/A.wav")),
        ])
        .unwrap();
    assert_eq!(store.failures().unwrap(), [failure("/A.wav"), other]);
    let forget = |path: &str| Change::ClearFailure {
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
            Change::UpdateStat {
                id: gone,
                stat: stat(1),
            },
            Change::SetNotes {
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
        Change::SetNotes {
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
            Change::AddFailure(failure("/a/f.wav")),
            Change::AddFailure(failure("/a/sub/g.wav")),
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
    let known = known_paths(&*store);
    assert_eq!(
        known,
        ["/a", "/a%/5.wav", "/a/sub/2.wav", "/ab/4.wav", "/b/6.wav"]
    );
    assert_eq!(store.failures().unwrap(), [failure("/a/sub/g.wav")]);
    assert_eq!(store.roots().unwrap(), ["/a%", "/a/sub", "/b"]);
    assert_eq!(
        store
            .search_vector(&vector(1), 100, &Filter::default())
            .unwrap()
            .len(),
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
    let known = known_paths(&*store);
    assert_eq!(known, ["/a%/5.wav", "/a/sub/2.wav"]);
    sound_and_whole(&*store);
}

/// The paths of all files.
fn known_paths(store: &dyn Store) -> Vec<String> {
    let known = store.known().unwrap().into_iter();
    known.map(|known| known.path).collect()
}
