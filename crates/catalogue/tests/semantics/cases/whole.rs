//! The library as a whole: numbers, order, text, other connections.

use hark_work::progress::no_progress;
use std::ops::ControlFlow;

use hark_catalogue::{Change, Entry, Filter, Store, TextQuery, duplicates};

use crate::semantics::{
    Fresh, axis, dumped, entry, failure, id, long_entry, notes, paths, put, slanted, sound_and_whole, stat,
    vector,
};

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
            Change::AddFailure(failure("/lib/5.wav")),
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
        expected(&[("/empty", 0), ("/lib", 3), ("/lib/x", 2), ("/lib/x/y", 1)])
    );
    assert_eq!(counts(&overview.tags), expected(&[("b", 2), ("a", 1), ("c", 1)]));
    assert_eq!(
        counts(&overview.rates),
        expected(&[("8000", 1), ("44100", 2), ("192000", 1)])
    );
    assert_eq!(
        counts(&overview.formats),
        expected(&[("pcm", 4), ("pcm_s16le", 4), ("wav", 4)])
    );
    assert_eq!(counts(&overview.channels), expected(&[("2", 4)]));
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
        .for_each_entry(&mut |entry| {
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
        .for_each_file(&mut |file| {
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
        .for_each_entry(&mut |entry| {
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
        let near = store.search_vector(&axis(0), 3, &Filter::default()).unwrap();
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
    let go_on = &no_progress;
    store.optimize(go_on).unwrap();
    let many: Vec<Change> = (0..300)
        .map(|number| put(entry(&format!("/{number}.wav"), vector(number))))
        .collect();
    store.apply(&many).unwrap();
    let before = store
        .search_vector(&vector(1000), 20, &Filter::default())
        .unwrap();
    let text = dumped(&*store);
    store.optimize(go_on).unwrap();
    store.optimize(go_on).unwrap();
    let after = store
        .search_vector(&vector(1000), 20, &Filter::default())
        .unwrap();
    assert_eq!(before, after);
    assert_eq!(dumped(&*store), text);
    for number in 0..100 {
        let number = id(&*store, &format!("/{number}.wav"));
        store.apply(&[Change::Remove { id: number }]).unwrap();
    }
    let expected: Vec<_> = store
        .search_vector(&vector(1000), 500, &Filter::default())
        .unwrap();
    assert_eq!(expected.len(), 200);
    store.optimize(go_on).unwrap();
    assert_eq!(
        place
            .open()
            .search_vector(&vector(1000), 500, &Filter::default())
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
        Change::AddFailure(failure("/lib/f.wav")),
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
        Change::AddFailure(failure("/lib/f.wav")),
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
                    let near = store
                        .search_vector(&vector(seed), 1000, &Filter::default())
                        .unwrap();
                    assert_eq!(near.len() % 2, 0, "half of a change was seen");
                    let files = store
                        .search_text(&TextQuery::new("twin"), 1000, &Filter::default())
                        .unwrap();
                    let wanted: Vec<i64> = files.iter().map(|found| found.file).collect();
                    assert_eq!(store.files(&wanted).unwrap().len(), wanted.len());
                }
            });
        }
    });
    for store in [&one, &two] {
        assert_eq!(store.known().unwrap().len(), 80);
        assert_eq!(
            store
                .search_vector(&vector(1), 1000, &Filter::default())
                .unwrap()
                .len(),
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
