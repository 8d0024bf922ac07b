//! How long a large library takes: to make, to optimize, and to answer the first question of a fresh process. The files
//! and their vectors are generated: one window each, of 1024 numbers or as many as a model gives.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use hark_catalogue::{
    AudioInfo, Change, Entry, Filter, Notes, Query, Settings, SqliteStore, Stat, Store, Window, duplicates,
    search,
};
use hark_encode::Compute;
use hark_encode::model::{EVERYDAY, ModelFiles, TextEncoder};
use hark_work::progress::no_progress;
use serde_json::{Value, json};

use crate::Measured;

const DIM: usize = 1024;
const WORDS: [&str; 12] = [
    "dog",
    "rain",
    "siren",
    "Thunder",
    "door",
    "Footsteps",
    "wind",
    "crowd",
    "engine",
    "bird",
    "Glass",
    "bell",
];

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Make a library of generated files
    #[command(after_help = "Example:\n  hark-bench library make /tmp/library --files 50000")]
    Make {
        /// A folder that does not exist yet
        folder: PathBuf,
        #[arg(long, default_value_t = 50_000)]
        files: u64,
        /// Make it a library of this model, everyday or a model folder, so that `hark search` can search it
        #[arg(long, value_name = "MODEL")]
        model: Option<String>,
    },
    /// Open a library that `make` wrote, and search it
    #[command(after_help = "Example:\n  hark-bench library ask /tmp/library")]
    Ask { folder: PathBuf },
}

pub(crate) fn run(command: &Command) -> Measured {
    match command {
        Command::Make { folder, files, model } => make(folder, *files, model.as_deref()),
        Command::Ask { folder } => ask(folder),
    }
}

/// Numbers that are as good as random, around one of a hundred centres, as recordings of a hundred kinds would be.
fn vector(seed: u64, dim: usize) -> Vec<f32> {
    let noise = |seed: u64, number: u64| {
        let mut bits = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number.wrapping_mul(0xd1b5_4a32_d192_ed03);
        bits ^= bits >> 29;
        bits = bits.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits ^= bits >> 32;
        (bits >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    };
    let kind = seed % 100 + 1_000_000_007;
    let raw: Vec<f32> = (0..dim as u64)
        .map(|number| noise(kind, number) + noise(seed, number))
        .collect();
    let norm = raw.iter().map(|value| value * value).sum::<f32>().sqrt();
    raw.iter().map(|value| value / norm).collect()
}

fn entry(number: u64, dim: usize) -> Entry {
    let word =
        |shift: u64| WORDS[((number.wrapping_mul(0x9e37_79b9) >> shift) % WORDS.len() as u64) as usize];
    let seconds = 1.0 + (number % 5000) as f64 * 0.01;
    Entry {
        path: format!(
            "/sounds/Volume{:02}/{}{}_{number:06}.wav",
            number % 40,
            word(3),
            word(9)
        ),
        stat: Stat {
            size: 100_000 + number,
            modified: 1_700_000_000_000_000_000 + number as i64,
        },
        content: format!("{number:064x}"),
        sound: AudioInfo {
            seconds,
            rate: 48_000,
            channels: 2,
            container: "wav".to_owned(),
            codec: "pcm_s24le".to_owned(),
            date: format!("2026-{:02}-{:02}", number % 12 + 1, number % 28 + 1),
            metadata: [(
                "description".to_owned(),
                format!("{} near a {}", word(5), word(12)),
            )]
            .into(),
            damage: None,
            heard: Vec::new(),
            peaks: vec![number as u8; 1600],
            fingerprint: number.to_le_bytes().repeat(32),
        },
        notes: Notes {
            captions: vec![format!("a {} and some {}", word(7), word(15))],
            tags: vec![word(11).to_owned()],
        },
        windows: vec![Window {
            start: 0.0,
            end: seconds,
            whole: true,
            vector: vector(number, dim),
        }],
    }
}

/// The settings of a library that this model made.
fn settings(model: Option<&str>) -> Result<Settings> {
    let (model, fingerprint, dim) = match model {
        None => ("generated".to_owned(), "generated".to_owned(), DIM),
        Some(name) => {
            let files = if name == EVERYDAY.name {
                ModelFiles::BuiltIn(&EVERYDAY)
            } else {
                ModelFiles::Folder(fs_err::canonicalize(name)?)
            };
            let name = files
                .folder()
                .map_or(name.to_owned(), |folder| folder.display().to_string());
            let dim = TextEncoder::open(&files, &Compute::cpu(1))?.dim();
            (name, files.fingerprint()?, dim)
        }
    };
    Ok(Settings {
        model,
        fingerprint,
        dim,
        window_seconds: 10.0,
        hop_seconds: 10.0,
    })
}

fn make(folder: &Path, files: u64, model: Option<&str>) -> Measured {
    let settings = settings(model)?;
    let store = SqliteStore::create(folder, &settings)?;
    store.add_root("/sounds")?;
    let mut spent = Duration::ZERO;
    for first in (0..files).step_by(100) {
        let changes: Vec<Change> = (first..files.min(first + 100))
            .map(|number| Change::Upsert(Box::new(entry(number, settings.dim))))
            .collect();
        let start = Instant::now();
        store.apply(&changes)?;
        spent += start.elapsed();
    }
    let start = Instant::now();
    store.optimize(&no_progress)?;
    let optimized = start.elapsed();
    let mut bytes = serde_json::Map::new();
    for file in fs_err::read_dir(folder)? {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        bytes.insert(name, file.metadata()?.len().into());
    }
    Ok(json!({
        "files": files, "seconds": spent.as_secs_f64(), "optimize_seconds": optimized.as_secs_f64(), "bytes": bytes,
    }))
}

fn ask(folder: &Path) -> Measured {
    let mut measured: Vec<Value> = Vec::new();
    let mut note = |what: &str, start: Instant, found: Option<usize>| {
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;
        measured.push(json!({"what": what, "milliseconds": milliseconds, "found": found}));
    };
    let start = Instant::now();
    let store = SqliteStore::open(folder)?;
    note("open", start, None);
    let question = |seed: u64| Query {
        vector: Some(vector(seed, DIM)),
        per_file: 1,
        limit: 20,
        ..Query::default()
    };
    let worded = |seed: u64| Query {
        words: Some("dog barking near a door".to_owned()),
        ..question(seed)
    };
    let some = Filter {
        folders: vec!["/sounds/Volume07".to_owned()],
        ..Filter::default()
    };
    let most = Filter {
        max_seconds: Some(45.0),
        ..Filter::default()
    };
    let plain = question(900_000_001);
    let asked = [
        ("by meaning", plain.clone()),
        ("by meaning and words", worded(900_000_002)),
        (
            "by meaning, in one folder of forty",
            Query {
                filter: some,
                ..question(900_000_003)
            },
        ),
        (
            "by meaning, among nine of ten",
            Query {
                filter: most,
                ..question(900_000_004)
            },
        ),
        (
            "by words",
            Query {
                vector: None,
                ..worded(0)
            },
        ),
        (
            "by path",
            Query {
                vector: None,
                ..plain
            },
        ),
    ];
    for (what, query) in &asked {
        let start = Instant::now();
        let hits = search(&store, query)?.len();
        note(&format!("first search {what}"), start, Some(hits));
    }
    let start = Instant::now();
    let known = store.known()?.len();
    note("all files, to see what has changed", start, Some(known));
    let start = Instant::now();
    let overview = store.overview()?;
    note("overview", start, Some(overview.files as usize));
    let start = Instant::now();
    let groups = duplicates(&store, &|sound| Some(sound.fingerprint.clone()), &|a, b| a == b)?;
    note("duplicates", start, Some(groups.len()));
    let start = Instant::now();
    let faults = store.check()?;
    note("check", start, Some(faults.len()));
    // The first search also reads what stays in memory; the fastest of several is what a search takes after that.
    let mut fastest = serde_json::Map::new();
    for (what, query) in &asked {
        let mut least = f64::INFINITY;
        for _ in 0..20 {
            let start = Instant::now();
            search(&store, query)?;
            least = least.min(start.elapsed().as_secs_f64());
        }
        fastest.insert((*what).to_owned(), json!(least * 1e3));
    }
    Ok(json!({"once": measured, "fastest_of_20_searches_milliseconds": fastest}))
}
