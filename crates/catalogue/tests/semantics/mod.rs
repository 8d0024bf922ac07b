//! What every store must do, whatever it keeps a library in.
//!
//! A store's own test file says how to get a [`Place`] that nothing was ever kept in, and writes
//! `semantics!(fresh);`, which makes a test of each function in [`cases`] and [`oracle`].

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::float_cmp, reason = "what is kept exactly is compared exactly")]

pub mod cases;
pub mod naive;
pub mod oracle;

use std::collections::BTreeMap;

use hark_catalogue::{
    AudioInfo, Change, Entry, Failure, Filter, Notes, Settings, Stat, Store, TextQuery, Window,
};

/// Numbers in the vectors of these tests.
pub const DIM: usize = 8;

/// How far a cosine may be from that of the 32-bit vectors. Stores keep 16 bits of a number, of which eleven are digits, and may
/// round the question likewise: each product is off by at most 2^-10 of itself, and their sum by 2^-10 of at most 1.
pub const TOLERANCE: f32 = 2e-3;

/// Where a library is kept. It is removed with everything in it when this is dropped.
pub trait Place {
    /// Opens the library, which is made with [`settings`] at the first call. Further calls are further processes, as it were.
    fn open(&self) -> Box<dyn Store>;
}

/// Gives a place that nothing was ever kept in.
pub type Fresh = fn() -> Box<dyn Place>;

/// What the libraries of these tests are made with.
pub fn settings() -> Settings {
    Settings {
        model: "tiny".to_owned(),
        fingerprint: "0123abcd".to_owned(),
        dim: DIM,
        window_seconds: 10.0,
        hop_seconds: 5.0,
    }
}

/// A unit vector that is as good as random.
pub fn vector(seed: u64) -> Vec<f32> {
    let mut state = seed
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(0x1234_5678_9abc_def1);
    let raw: Vec<f32> = (0..DIM)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
        })
        .collect();
    unit(&raw)
}

/// A vector divided by its length.
pub fn unit(raw: &[f32]) -> Vec<f32> {
    let norm = raw.iter().map(|value| value * value).sum::<f32>().sqrt();
    raw.iter().map(|value| value / norm).collect()
}

/// The unit vector along one axis.
pub fn axis(number: usize) -> Vec<f32> {
    (0..DIM)
        .map(|place| f32::from(u8::from(place == number)))
        .collect()
}

/// A unit vector in the plane of the first two axes whose cosine with the first one is `cosine`.
pub fn slanted(cosine: f32) -> Vec<f32> {
    let mut vector = vec![0.0; DIM];
    vector[0] = cosine;
    vector[1] = (1.0 - cosine * cosine).sqrt();
    vector
}

/// The inner product.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The look of a file.
pub fn stat(seed: u64) -> Stat {
    Stat {
        size: 1000 + seed,
        modified: 1_700_000_000_000_000_001 + seed as i64,
    }
}

/// Notes of captions and tags.
pub fn notes(captions: &[&str], tags: &[&str]) -> Notes {
    let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    Notes {
        captions: owned(captions),
        tags: owned(tags),
    }
}

/// A recording of one window.
pub fn entry(path: &str, vector: Vec<f32>) -> Entry {
    Entry {
        path: path.to_owned(),
        stat: stat(1),
        content: format!("{:064x}", path.len()),
        sound: AudioInfo {
            seconds: 4.5,
            rate: 44_100,
            channels: 2,
            container: "wav".to_owned(),
            codec: "pcm_s16le".to_owned(),
            date: "2026-11-15".to_owned(),
            metadata: BTreeMap::new(),
            damage: None,
            heard: Vec::new(),
            peaks: vec![0, 255, 128, 127],
            fingerprint: vec![1, 2, 3],
        },
        notes: Notes::default(),
        windows: vec![Window {
            start: 0.0,
            end: 4.5,
            whole: true,
            vector,
        }],
    }
}

/// A recording with windows of its own beside the whole, five seconds apart.
pub fn long_entry(path: &str, whole: Vec<f32>, windows: Vec<Vec<f32>>) -> Entry {
    let mut entry = entry(path, whole);
    entry.sound.seconds = 5.0 * windows.len() as f64 + 5.0;
    entry.windows[0].end = entry.sound.seconds;
    for (number, vector) in windows.into_iter().enumerate() {
        let start = 5.0 * number as f64;
        entry.windows.push(Window {
            start,
            end: start + 10.0,
            whole: false,
            vector,
        });
    }
    entry
}

/// A change that puts an entry.
pub fn put(entry: Entry) -> Change {
    Change::Upsert(Box::new(entry))
}

/// A file that cannot be read.
pub fn failure(path: &str) -> Failure {
    Failure {
        path: path.to_owned(),
        stat: stat(3),
        message: format!("{path} is no sound"),
    }
}

/// The number of a path.
pub fn id(store: &dyn Store, path: &str) -> i64 {
    store
        .find(path)
        .unwrap()
        .unwrap_or_else(|| panic!("{path} is not known"))
        .id
}

/// The paths of numbers.
pub fn paths(store: &dyn Store, ids: &[i64]) -> Vec<String> {
    store
        .files(ids)
        .unwrap()
        .into_iter()
        .map(|file| file.path)
        .collect()
}

/// The paths that words find, best first, and their shares.
pub fn search_text(store: &dyn Store, text: &str) -> Vec<(String, f64)> {
    shares(store, &TextQuery::new(text))
}

/// The paths that a query by words finds, best first, and their shares.
pub fn shares(store: &dyn Store, query: &TextQuery<'_>) -> Vec<(String, f64)> {
    let found = store.search_text(query, 1000, &Filter::default()).unwrap();
    let ids: Vec<i64> = found.iter().map(|found| found.file).collect();
    paths(store, &ids)
        .into_iter()
        .zip(found.iter().map(|found| found.share))
        .collect()
}

/// The paths that words find, sorted.
pub fn found(store: &dyn Store, text: &str) -> Vec<String> {
    let mut paths: Vec<String> = search_text(store, text)
        .into_iter()
        .map(|(path, _)| path)
        .collect();
    paths.sort();
    paths
}

/// The text of a library.
pub fn dumped(store: &dyn Store) -> String {
    let mut text = Vec::new();
    hark_catalogue::dump(store, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// Nothing contradicts anything.
pub fn sound_and_whole(store: &dyn Store) {
    assert_eq!(store.check().unwrap(), Vec::<String>::new());
}

/// Makes a test of everything that stores have in common.
#[macro_export]
macro_rules! semantics {
    ($fresh:expr) => {
        $crate::semantics!(@ $fresh, cases:
            a_put_entry_comes_back_whole,
            a_path_has_one_file_and_keeps_its_number,
            a_copy_takes_over_all_but_path_look_and_notes,
            a_move_takes_the_place_of_what_was_there,
            touch_annotate_and_remove,
            what_is_heard_is_a_tag_that_nobody_wrote,
            failures_and_files_exclude_each_other,
            numbers_of_gone_files_are_passed_over,
            numbers_are_never_given_again,
            changes_are_kept_all_or_none,
            entries_that_contradict_themselves_are_refused,
            roots_are_folders_by_their_parts,
            each_filter_holds,
            nearest_windows_come_best_first,
            questions_without_a_direction_are_refused,
            words_are_found_in_all_places,
            words_are_found_by_their_stems_and_beginnings,
            phrases_and_prefixes_are_found,
            the_share_of_words_decides_first,
            unwanted_words_keep_files_away,
            nothing_in_a_text_is_syntax,
            any_text_is_kept,
            long_texts_are_kept_and_bounded,
            a_long_recording_does_not_fill_the_list,
            a_file_may_have_several_hits,
            a_long_recording_is_ranked_by_its_best_window,
            a_name_with_all_words_comes_first,
            words_and_meaning_are_fused,
            pages_follow_each_other,
            without_a_question_files_come_by_path,
            the_overview_counts,
            all_entries_come_by_path,
            other_connections_see_changes,
            tidying_changes_no_answer,
            the_text_does_not_tell_the_history,
            threads_read_and_write_at_once,
            duplicates_are_grouped,
        );
        $crate::semantics!(@ $fresh, oracle:
            random_changes_agree_with_the_naive_store,
        );
    };
    (@ $fresh:expr, $module:ident: $($name:ident,)*) => {
        $(
            #[test]
            fn $name() {
                $crate::semantics::$module::$name($fresh);
            }
        )*
    };
}
