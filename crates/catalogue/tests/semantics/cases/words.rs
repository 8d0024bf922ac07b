//! Words, and texts that nobody should write.

use hark_catalogue::{Change, Filter, Query, TextQuery};

use super::{hits, one};
use crate::semantics::{
    Fresh, axis, entry, failure, found, notes, paths, put, search_text, shares, slanted, sound_and_whole,
    vector,
};

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
        "BARK",
        "03",
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
    for word in ["bark", "barks", "Barking", "dogs", "dog"] {
        assert_eq!(found(&*store, word), ["/1.wav", "/2.wav"], "{word}");
    }
    let typed = |text: &str| {
        let query = TextQuery {
            prefix: true,
            ..TextQuery::new(text)
        };
        shares(&*store, &query)
    };
    assert_eq!(
        typed("str"),
        [("/2.wav".to_owned(), 1.0)],
        "a last word may be a prefix"
    );
    assert_eq!(
        typed("dog str"),
        [("/2.wav".to_owned(), 1.0), ("/1.wav".to_owned(), 0.5)]
    );
    assert!(
        typed("str ").is_empty(),
        "a word with something after it is complete"
    );
    assert!(typed("str xyz").is_empty(), "and so is one before others");
    assert!(
        found(&*store, "str").is_empty(),
        "without the wish, no word is a prefix"
    );
}

pub fn phrases_and_prefixes_are_found(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    let noted = |path: &str, captions: &[&str], tags: &[&str]| {
        let mut entry = entry(path, vector(1));
        entry.notes = notes(captions, tags);
        put(entry)
    };
    store
        .apply(&[
            noted("/1.wav", &["heavy rain on a tin roof", "thunder"], &[]),
            noted("/2.wav", &["rain under a tin roof", "a thundering herd"], &[]),
            noted(
                "/3.wav",
                &["dogs barking at a roof on a rainy day"],
                &["tin roof"],
            ),
            noted("/Roof Rain.wav", &[], &[]),
        ])
        .unwrap();
    for (text, expected) in [
        ("\"rain on a tin roof\"", &["/1.wav"][..]),
        ("\"tin roof\"", &["/1.wav", "/2.wav", "/3.wav"]),
        ("\"dog barks\"", &["/3.wav"]),
        ("\"barks dog\"", &[]),
        ("\"roof rain\"", &["/Roof Rain.wav"]),
        ("\"rain roof\"", &[]),
        ("thund*", &["/1.wav", "/2.wav"]),
        ("thund", &[]),
        ("THUND*", &["/1.wav", "/2.wav"]),
        ("\"thund*\"", &[]),
        ("\"rain on", &["/1.wav", "/2.wav", "/Roof Rain.wav"]),
        ("\"heavy rain\" herd", &["/1.wav", "/2.wav"]),
    ] {
        let mut found = found(&*store, text);
        found.sort();
        assert_eq!(found, expected, "{text}");
    }
    let both = search_text(&*store, "\"tin roof\" her*");
    assert_eq!(both[0], ("/2.wav".to_owned(), 1.0));
    assert_eq!(both[1].1, 0.5);
    assert_eq!(both.len(), 3);
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
    let found = search_text(&*store, "the heavy rain on the roof");
    let by_path: Vec<(&str, f64)> = found
        .iter()
        .map(|(path, share)| (path.as_str(), *share))
        .collect();
    assert_eq!(by_path[0], ("/1.wav", 1.0));
    assert_eq!(by_path[1], ("/3.wav", 2.0 / 3.0));
    assert_eq!(by_path[2], ("/2.wav", 1.0 / 3.0));
    assert_eq!(by_path.len(), 3, "words such as `the` do not count");
    assert_eq!(
        store
            .search_text(&TextQuery::new("heavy rain roof"), 1, &Filter::default())
            .unwrap()
            .len(),
        1
    );
    assert!(
        store
            .search_text(&TextQuery::new("rain"), 0, &Filter::default())
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        store
            .search_text(&TextQuery::new("rain"), usize::MAX, &Filter::default())
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
        let dog = TextQuery {
            exclude: &without,
            ..TextQuery::new("dog")
        };
        let found = store.search_text(&dog, 10, &Filter::default()).unwrap();
        let mut found = paths(&*store, &found.iter().map(|found| found.file).collect::<Vec<_>>());
        found.sort();
        let by_meaning = hits(
            &*store,
            &Query {
                vector: Some(axis(0)),
                exclude_words: without.clone(),
                ..one()
            },
        );
        assert_eq!(by_meaning, found, "by meaning");
        assert_eq!(
            hits(
                &*store,
                &Query {
                    exclude_words: without.clone(),
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
        let dog = TextQuery {
            exclude: &[text.to_owned()],
            ..TextQuery::new("dog")
        };
        store.search_text(&dog, 10, &Filter::default()).unwrap();
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
        .apply(&[put(with_nul), Change::AddFailure(failure("/f\0.wav"))])
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
        .apply(&[Change::ClearFailure {
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
