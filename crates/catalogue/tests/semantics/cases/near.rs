//! Filters, and windows that are near to a question.

use hark_catalogue::{Error, Filter, TextQuery};

use crate::semantics::{DIM, Fresh, TOLERANCE, axis, entry, long_entry, notes, paths, put, slanted, vector};

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
    let formats = |formats: &[&str]| with(&|filter| filter.formats = texts(formats));
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
        (formats(&["wav"]), &[1, 2]),
        (formats(&[".WAV"]), &[1, 2]),
        (formats(&["pcm", "opus"]), &[1, 2, 3]),
        (formats(&["pcm 24-bit"]), &[2]),
        (formats(&["adpcm"]), &[4]),
        (formats(&["m4a"]), &[4]),
        (formats(&["%"]), &[]),
        (formats(&["pcm 24", "wa"]), &[]),
        (formats(&["wav\0", ""]), &[]),
        (with(&|f| f.channels = vec![2]), &[2, 4]),
        (with(&|f| f.channels = vec![1, 6]), &[1, 3]),
        (
            with(&|f| (f.channels, f.formats) = (vec![2], texts(&["wav"]))),
            &[2],
        ),
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
        let (container, codec, channels) = match rate {
            8000 => ("wav", "pcm 16-bit", 1),
            44_100 => ("wav", "pcm 24-bit", 2),
            48_000 => ("ogg", "opus", 6),
            _ => ("mp4", "adpcm_ms", 2),
        };
        (entry.sound.container, entry.sound.codec) = (container.to_owned(), codec.to_owned());
        entry.sound.channels = channels;
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
        let near = store.search_vector(&vector(1), 100, &filter).unwrap();
        let mut near = paths(&*store, &near.iter().map(|near| near.file).collect::<Vec<_>>());
        near.sort();
        assert_eq!(near, expected, "{told:.300}");
        // Every name has the word `wav` left out and its number as a word.
        let words = store
            .search_text(&TextQuery::new("1 2 3 4"), 100, &filter)
            .unwrap();
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
    assert!(
        store
            .search_vector(&axis(0), 5, &Filter::default())
            .unwrap()
            .is_empty()
    );
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
        let near = store.search_vector(&question, 100, &Filter::default()).unwrap();
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
            store.search_vector(&question, 2, &Filter::default()).unwrap(),
            near[..2]
        );
        assert!(
            store
                .search_vector(&question, 0, &Filter::default())
                .unwrap()
                .is_empty()
        );
        assert_eq!(
            store
                .search_vector(&question, usize::MAX, &Filter::default())
                .unwrap()
                .len(),
            5
        );
    }
}

pub fn questions_without_a_direction_are_refused(fresh: Fresh) {
    let place = fresh();
    let store = place.open();
    let ask = |question: &[f32]| store.search_vector(question, 5, &Filter::default());
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
