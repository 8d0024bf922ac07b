//! Random changes, after each of which a store must answer as the naive one does.

use hark_work::progress::no_progress;
use std::collections::BTreeMap;

use hark_catalogue::{Change, Filter, Heard, Notes, Store, TextQuery};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, RngSeed, TestRunner};

use super::naive::Naive;
use super::{Fresh, TOLERANCE, entry, failure, long_entry, put, sound_and_whole, stat, vector};

const PATHS: [&str; 8] = [
    "/lib/dog.wav",
    "/lib/rain/dog.wav",
    "/lib/rain/100%_siren.wav",
    "/lib/rain*/a.wav",
    "/lib/it's \"rain\".wav",
    "/library/drum.wav",
    "/LIB/dog.wav",
    "/lib/rain/犬 🐶.wav",
];
const WORDS: [&str; 6] = ["dog", "rain", "siren", "drum", "wind", "NEAR"];
const TAGS: [&str; 4] = ["field", "it's", "100%", "a_b"];

#[derive(Debug, Clone)]
enum Op {
    Put { path: usize, seed: u64, windows: usize },
    Copy { of: usize, path: usize, seed: u64 },
    Move { of: usize, path: usize, seed: u64 },
    Touch { of: usize, seed: u64 },
    Annotate { of: usize, seed: u64 },
    Hear { of: usize, seed: u64 },
    Remove { of: usize },
    Fail { path: usize },
    Forget { path: usize },
    Stale { number: i64 },
}

#[derive(Debug, Clone)]
struct Step {
    batch: Vec<Op>,
    reopen: bool,
    tidy: bool,
    question: u64,
    filter: Filter,
}

fn op() -> impl Strategy<Value = Op> {
    let path = 0..PATHS.len();
    let of = 0..PATHS.len();
    prop_oneof![
        5 => (path.clone(), any::<u64>(), 0..4_usize).prop_map(|(path, seed, windows)| Op::Put { path, seed, windows }),
        1 => (of.clone(), path.clone(), any::<u64>()).prop_map(|(of, path, seed)| Op::Copy { of, path, seed }),
        1 => (of.clone(), path.clone(), any::<u64>()).prop_map(|(of, path, seed)| Op::Move { of, path, seed }),
        1 => (of.clone(), any::<u64>()).prop_map(|(of, seed)| Op::Touch { of, seed }),
        1 => (of.clone(), any::<u64>()).prop_map(|(of, seed)| Op::Annotate { of, seed }),
        1 => (of.clone(), any::<u64>()).prop_map(|(of, seed)| Op::Hear { of, seed }),
        1 => of.prop_map(|of| Op::Remove { of }),
        1 => path.clone().prop_map(|path| Op::Fail { path }),
        1 => path.prop_map(|path| Op::Forget { path }),
        1 => (1000..2000_i64).prop_map(|number| Op::Stale { number }),
    ]
}

fn filter() -> impl Strategy<Value = Filter> {
    let folders = prop::collection::vec(
        prop::sample::select(vec![
            "/lib",
            "/lib/",
            "/lib/rain",
            "/",
            "/lib/rain*",
            "/li",
            "/lib/100%",
            "/nowhere",
        ]),
        0..3,
    );
    let tags = prop::collection::vec(prop::sample::select(TAGS.to_vec()), 0..3);
    let day = prop::option::of(prop::sample::select(vec![
        "2026-01-01",
        "2026-01-03",
        "2026-01-05",
    ]));
    let seconds = prop::option::of(prop::sample::select(vec![4.5, 10.0, 15.0, f64::INFINITY]));
    let rate = prop::option::of(prop::sample::select(vec![8000_u32, 44_100, 48_000]));
    let formats = prop::collection::vec(
        prop::sample::select(vec!["WAV", "pcm", "opus", "vorbis", "it's"]),
        0..3,
    );
    let channels = prop::collection::vec(1..4_u32, 0..2);
    (
        folders,
        tags,
        (day.clone(), day),
        (seconds.clone(), seconds),
        (rate.clone(), rate),
        (formats, channels),
    )
        .prop_map(|(folders, tags, days, seconds, rates, sound)| Filter {
            folders: folders.into_iter().map(str::to_owned).collect(),
            tags: tags.into_iter().map(str::to_owned).collect(),
            min_seconds: seconds.0,
            max_seconds: seconds.1,
            min_rate: rates.0,
            max_rate: rates.1,
            formats: sound.0.into_iter().map(str::to_owned).collect(),
            channels: sound.1,
            after: days.0.map(str::to_owned),
            before: days.1.map(str::to_owned),
        })
}

fn step() -> impl Strategy<Value = Step> {
    let filter = prop_oneof![1 => Just(Filter::default()), 2 => filter()];
    (
        prop::collection::vec(op(), 0..6),
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.2),
        any::<u64>(),
        filter,
    )
        .prop_map(|(batch, reopen, tidy, question, filter)| Step {
            batch,
            reopen,
            tidy,
            question,
            filter,
        })
}

fn some_notes(seed: u64) -> Notes {
    let captions = (0..seed % 3)
        .map(|n| format!("{} and {}", word(seed >> n), word(seed >> (n + 3))))
        .collect();
    let mut tags: Vec<String> = (0..seed % 4)
        .map(|n| TAGS[(seed >> (2 * n)) as usize % TAGS.len()].to_owned())
        .collect();
    tags.sort();
    tags.dedup();
    Notes { captions, tags }
}

/// Names that are words or tags, each once.
fn some_heard(seed: u64) -> Vec<Heard> {
    let names = (0..seed % 3).map(|n| match (seed >> n) % 2 {
        0 => word(seed >> (n + 2)),
        _ => TAGS[(seed >> (n + 4)) as usize % TAGS.len()],
    });
    let mut heard: Vec<Heard> = Vec::new();
    for name in names {
        if heard.iter().all(|other| other.name != name) {
            heard.push(Heard {
                name: name.to_owned(),
                score: (seed % 8) as f32 / 8.0,
                starts: vec![0.0, 5.0],
            });
        }
    }
    heard
}

fn word(seed: u64) -> &'static str {
    WORDS[seed as usize % WORDS.len()]
}

fn changes(batch: &[Op], numbers: &BTreeMap<i64, String>) -> Vec<Change> {
    let number = |of: usize| {
        numbers
            .keys()
            .copied()
            .nth(of % numbers.len().max(1))
            .unwrap_or(999)
    };
    batch
        .iter()
        .map(|op| match *op {
            Op::Put { path, seed, windows } => {
                let vectors: Vec<Vec<f32>> = (1..=windows as u64).map(|n| vector(seed ^ (n << 32))).collect();
                let path = PATHS[path];
                let mut entry = match windows {
                    0 => entry(path, vector(seed)),
                    _ => long_entry(path, vector(seed), vectors),
                };
                entry.stat = stat(seed % 1000);
                entry.content = format!("{seed:064x}");
                entry.sound.rate = [8000, 44_100, 48_000][seed as usize % 3];
                let (container, codec) =
                    [("wav", "pcm 16-bit"), ("ogg", "opus"), ("mkv", "opus")][(seed >> 3) as usize % 3];
                (entry.sound.container, entry.sound.codec) = (container.to_owned(), codec.to_owned());
                entry.sound.channels = 1 + (seed >> 5) as u32 % 2;
                entry.sound.date = match seed % 6 {
                    0 => String::new(),
                    day => format!("2026-01-0{day}"),
                };
                entry.sound.damage = (seed % 5 == 0).then(|| "cut short".to_owned());
                entry
                    .sound
                    .metadata
                    .insert("title".to_owned(), word(seed >> 9).to_owned());
                entry.notes = some_notes(seed >> 7);
                entry.sound.heard = some_heard(seed >> 11);
                put(entry)
            }
            Op::Copy { of, path, seed } => Change::Copy {
                of: number(of),
                path: PATHS[path].to_owned(),
                stat: stat(seed % 1000),
                notes: some_notes(seed),
            },
            Op::Move { of, path, seed } => Change::Move {
                id: number(of),
                path: PATHS[path].to_owned(),
                stat: stat(seed % 1000),
            },
            Op::Touch { of, seed } => Change::UpdateStat {
                id: number(of),
                stat: stat(seed % 1000),
            },
            Op::Annotate { of, seed } => Change::SetNotes {
                id: number(of),
                notes: some_notes(seed),
            },
            Op::Hear { of, seed } => Change::SetHeard {
                id: number(of),
                heard: some_heard(seed),
            },
            Op::Remove { of } => Change::Remove { id: number(of) },
            Op::Fail { path } => Change::AddFailure(failure(PATHS[path])),
            Op::Forget { path } => Change::ClearFailure {
                path: PATHS[path].to_owned(),
            },
            Op::Stale { number } => Change::Remove { id: number },
        })
        .collect()
}

pub fn random_changes_agree_with_the_naive_store(fresh: Fresh) {
    let config = Config {
        cases: 24,
        failure_persistence: None,
        rng_algorithm: RngAlgorithm::ChaCha,
        rng_seed: RngSeed::Fixed(20_261_116),
        max_shrink_iters: 200,
        ..Config::default()
    };
    let steps = prop::collection::vec(step(), 1..10);
    let outcome = TestRunner::new(config).run(&steps, |steps| {
        let place = fresh();
        let mut store = place.open();
        let mut naive = Naive::default();
        for step in &steps {
            // As `known` gives them by path, so do both sides count them in the same order.
            let numbers = store
                .known()
                .unwrap()
                .into_iter()
                .map(|known| (known.id, known.path))
                .collect();
            let changes = changes(&step.batch, &numbers);
            store.apply(&changes).unwrap();
            naive.apply(&changes, &numbers);
            if step.tidy {
                store.optimize(&no_progress).unwrap();
            }
            if step.reopen {
                drop(store);
                store = place.open();
            }
            agree(&*store, &naive, step);
        }
        sound_and_whole(&*store);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

fn agree(store: &dyn Store, naive: &Naive, step: &Step) {
    let known = store.known().unwrap();
    let by_id: BTreeMap<i64, &str> = known
        .iter()
        .map(|known| (known.id, known.path.as_str()))
        .collect();
    assert_eq!(
        known.iter().map(|known| &known.path).collect::<Vec<_>>(),
        naive.files.keys().collect::<Vec<_>>()
    );
    assert_eq!(
        store.failures().unwrap(),
        naive.failures.values().cloned().collect::<Vec<_>>()
    );
    for (known, kept) in known.iter().zip(naive.files.values()) {
        let mut file = store.find(&known.path).unwrap().unwrap();
        assert_eq!(
            (file.id, file.stat, &file.content),
            (known.id, known.stat, &known.content)
        );
        file.id = 0;
        assert_eq!(file, kept.file);
        let windows = store.windows(known.id).unwrap();
        assert_eq!(windows.len(), kept.windows.len());
        for (got, expected) in windows.iter().zip(&kept.windows) {
            assert_eq!(
                (got.start, got.end, got.whole),
                (expected.start, expected.end, expected.whole)
            );
            for (a, b) in got.vector.iter().zip(&expected.vector) {
                assert!((a - b).abs() <= 1e-3, "{a} for {b}: farther than 16 bits round");
            }
        }
    }
    let passing: Vec<&str> = naive
        .files
        .values()
        .filter(|kept| step.filter.matches(&kept.file))
        .map(|kept| kept.file.path.as_str())
        .collect();
    let browsed = store.browse(&step.filter, 0, 100).unwrap();
    assert_eq!(
        browsed.iter().map(|id| by_id[id]).collect::<Vec<_>>(),
        passing,
        "{:?}",
        step.filter
    );

    agree_on_meaning(store, naive, step, &by_id);
    agree_on_words(store, naive, step, &by_id);
}

fn agree_on_meaning(store: &dyn Store, naive: &Naive, step: &Step, by_id: &BTreeMap<i64, &str>) {
    let query: Vec<f32> = vector(step.question).iter().map(|value| value * 7.0).collect();
    for k in [1, 3, 100] {
        let expected = naive.search_vector(&query, &step.filter);
        let got = store.search_vector(&query, k, &step.filter).unwrap();
        assert_eq!(got.len(), k.min(expected.len()));
        let mut seen = Vec::new();
        for (near, best) in got.iter().zip(&expected) {
            assert!(
                (near.score - best.0).abs() < TOLERANCE,
                "{near:?} where {best:?} belongs"
            );
            let path = by_id[&near.file];
            let own = expected
                .iter()
                .find(|other| other.1 == path && other.2 == near.start && other.3 == near.whole)
                .unwrap_or_else(|| panic!("{near:?} of {path} does not exist or does not pass"));
            assert!(
                (near.score - own.0).abs() < TOLERANCE,
                "{near:?} has the cosine {}",
                own.0
            );
            assert!(
                !seen.contains(&(near.file, near.start.to_bits(), near.whole)),
                "{near:?} came twice"
            );
            seen.push((near.file, near.start.to_bits(), near.whole));
        }
    }
}

fn agree_on_words(store: &dyn Store, naive: &Naive, step: &Step, by_id: &BTreeMap<i64, &str>) {
    let asked = [word(step.question), word(step.question >> 5)];
    let asked: Vec<&str> = if asked[0] == asked[1] {
        vec![asked[0]]
    } else {
        asked.to_vec()
    };
    let asked: Vec<String> = asked.iter().map(|word| word.to_lowercase()).collect();
    let without = if step.question.is_multiple_of(3) {
        vec![word(step.question >> 11).to_lowercase()]
    } else {
        vec![]
    };
    let words: Vec<&str> = asked.iter().map(String::as_str).collect();
    let unwanted: Vec<&str> = without.iter().map(String::as_str).collect();
    let expected = naive.search_text(&words, &unwanted, &step.filter);
    let text = asked.join(" ");
    let query = TextQuery {
        exclude: &without,
        ..TextQuery::new(&text)
    };
    let got = store.search_text(&query, 100, &step.filter).unwrap();
    let shares: BTreeMap<String, f64> = got
        .iter()
        .map(|found| (by_id[&found.file].to_owned(), found.share))
        .collect();
    assert_eq!(
        shares, expected,
        "{asked:?} without {without:?} in {:?}",
        step.filter
    );
    assert!(
        got.is_sorted_by(|a, b| a.score >= b.score && a.share >= b.share),
        "{got:?}"
    );
}
