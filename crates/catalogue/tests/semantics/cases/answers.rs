//! Questions and pages of their answers.

use hark_catalogue::{Filter, Hit, Query, Store, search};

use super::{hits, one};
use crate::semantics::{Fresh, axis, entry, id, long_entry, notes, put, slanted, vector};

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
            f64::from(hit.similarity.unwrap()),
            "meaning alone is scored by the cosine"
        );
        assert_eq!(hit.word_coverage, None);
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
    let exclude_file = Some(id(&*store, "/a/ten-hours.wav"));
    assert_eq!(
        hits(
            &*store,
            &Query {
                exclude_file,
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
        [long(Some(0.0)), long(Some(5.0)), short.clone(), long(Some(10.0))]
    );
    let none = show(search(&*store, &Query { per_file: 0, ..query }).unwrap());
    assert_eq!(none.len(), 2, "no hits of a file is no question: one is meant");
}

/// The vector of a whole long recording is a mean of many windows, which is near to every query.
pub fn a_long_recording_is_ranked_by_its_best_window(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    let long = long_entry(
        "/long.wav",
        slanted(0.95),
        vec![slanted(0.2), slanted(0.3), slanted(0.1)],
    );
    let just_over = {
        let mut entry = entry("/just-over.wav", slanted(0.5));
        (entry.sound.seconds, entry.windows[0].end) = (10.4, 10.4);
        entry
    };
    let changes = [put(long), put(just_over), put(entry("/short.wav", slanted(0.6)))];
    store.apply(&changes).unwrap();
    for per_file in [1, usize::MAX] {
        let query = Query {
            vector: Some(axis(0)),
            per_file,
            ..one()
        };
        let found = search(&*store, &query).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|hit| (hit.file.path.as_str(), hit.start))
            .collect();
        assert_eq!(
            found[..3],
            [
                ("/short.wav", None),
                ("/just-over.wav", None),
                ("/long.wav", Some(5.0))
            ],
            "a rest that is too short for a window leaves the whole as the only vector"
        );
    }
}

pub fn a_name_with_all_words_comes_first(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    let noted = |path: &str, caption: &str, cosine: f32| {
        let mut entry = entry(path, slanted(cosine));
        entry.notes = notes(&[caption], &[]);
        put(entry)
    };
    store
        .apply(&[
            noted("/1/thunder.wav", "close thunder over a lake", 0.9),
            noted("/2/Thunder_close-03.wav", "", 0.1),
            noted("/close/thunder/4.wav", "", 0.8),
        ])
        .unwrap();
    for (words, first) in [
        ("thunder close", "/2/Thunder_close-03.wav"),
        ("the thunder, close!", "/2/Thunder_close-03.wav"),
        ("close thunder 03", "/2/Thunder_close-03.wav"),
    ] {
        for vector in [Some(axis(0)), None] {
            let query = Query {
                vector,
                words: Some(words.to_owned()),
                ..one()
            };
            assert_eq!(hits(&*store, &query)[0], first, "{words}");
        }
    }
    // While a person types, the last word may be a beginning.
    let query = Query {
        vector: Some(axis(0)),
        words: Some("thunder clo".to_owned()),
        prefix: true,
        ..one()
    };
    assert_eq!(hits(&*store, &query)[0], "/2/Thunder_close-03.wav");
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
        (
            answer[0].word_coverage,
            answer[1].word_coverage,
            answer[2].word_coverage
        ),
        (Some(1.0), Some(0.5), None)
    );
    assert!(answer.iter().all(|hit| hit.similarity.is_some()));
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
            .all(|hit| hit.similarity.is_none() && hit.word_coverage.is_some() && hit.start.is_none())
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
        for offset in (0..70).step_by(7) {
            paged.extend(
                search(
                    &*store,
                    &Query {
                        offset,
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
                offset: 1,
                limit: 2,
                ..query.clone()
            }
        ),
        ["/a.wav", "/a/z.wav"]
    );
    let exclude_file = Some(id(&*store, "/a.wav"));
    assert_eq!(
        hits(
            &*store,
            &Query {
                exclude_file,
                offset: 1,
                ..query.clone()
            }
        ),
        ["/a/z.wav", "/b.wav"]
    );
    let answer = search(
        &*store,
        &Query {
            offset: 2,
            ..query.clone()
        },
    )
    .unwrap();
    assert_eq!(
        (
            answer[0].rank,
            answer[0].similarity,
            answer[0].word_coverage,
            answer[0].start
        ),
        (3, None, None, None)
    );
    // Blanks are no question either; signs without a letter or digit are one that nothing answers.
    for (text, count) in [(" \t", 4), ("\"", 0), ("- !", 0)] {
        let query = Query {
            words: Some(text.to_owned()),
            ..query.clone()
        };
        assert_eq!(hits(&*store, &query).len(), count, "{text:?}");
    }
}
