//! How long a large library takes: making it, tidying it, and answering the first question of a fresh process.
//!
//! ```sh
//! cargo run --release -p hark-catalogue --example large -- make FOLDER 50000   # generated files, one window of 1024 numbers each
//! cargo run --release -p hark-catalogue --example large -- ask FOLDER          # a fresh process: open, then ask
//! ```

use hark_work::progress::no_progress;
use std::path::Path;
use std::time::Instant;

use hark_catalogue::{
    AudioInfo, Change, Entry, Filter, Notes, Query, Settings, SqliteStore, Stat, Store, Window, duplicates,
    search,
};

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

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["make", folder, files] => make(Path::new(folder), files.parse()?),
        ["ask", folder] => ask(Path::new(folder)),
        _ => Err("usage: large make FOLDER FILES | large ask FOLDER".into()),
    }
}

/// Numbers that are as good as random, around one of a hundred centres, as recordings of a hundred kinds would be.
fn vector(seed: u64) -> Vec<f32> {
    let noise = |seed: u64, number: u64| {
        let mut bits = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number.wrapping_mul(0xd1b5_4a32_d192_ed03);
        bits ^= bits >> 29;
        bits = bits.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits ^= bits >> 32;
        (bits >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    };
    let kind = seed % 100 + 1_000_000_007;
    let raw: Vec<f32> = (0..DIM as u64)
        .map(|number| noise(kind, number) + noise(seed, number))
        .collect();
    let norm = raw.iter().map(|value| value * value).sum::<f32>().sqrt();
    raw.iter().map(|value| value / norm).collect()
}

fn entry(number: u64) -> Entry {
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
            vector: vector(number),
        }],
    }
}

fn make(folder: &Path, files: u64) -> Result<(), Box<dyn std::error::Error>> {
    let settings = Settings {
        model: "generated".to_owned(),
        fingerprint: "generated".to_owned(),
        dim: DIM,
        window_seconds: 10.0,
        hop_seconds: 10.0,
    };
    let store = SqliteStore::create(folder, &settings)?;
    store.add_root("/sounds")?;
    let mut spent = std::time::Duration::ZERO;
    for first in (0..files).step_by(100) {
        let changes: Vec<Change> = (first..files.min(first + 100))
            .map(|number| Change::Upsert(Box::new(entry(number))))
            .collect();
        let start = Instant::now();
        store.apply(&changes)?;
        spent += start.elapsed();
    }
    println!("{files} files in batches of 100: {:.1} s", spent.as_secs_f64());
    let start = Instant::now();
    store.optimize(&no_progress)?;
    println!("tidied: {:.1} s", start.elapsed().as_secs_f64());
    for file in std::fs::read_dir(folder)? {
        let file = file?;
        println!(
            "{:>8.1} MB  {}",
            file.metadata()?.len() as f64 / 1e6,
            file.file_name().display()
        );
    }
    Ok(())
}

fn ask(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let told =
        |what: &str, start: Instant| println!("{:>8.1} ms  {what}", start.elapsed().as_secs_f64() * 1e3);
    let start = Instant::now();
    let store = SqliteStore::open(folder)?;
    told("open", start);
    let question = |seed: u64| Query {
        vector: Some(vector(seed)),
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
    // The first of all reads what is kept in memory; the least of several is what a question takes when nothing else runs.
    for (what, query) in &asked {
        let begin = Instant::now();
        let hits = search(&store, query)?.len();
        told(&format!("first search {what}: {hits} hits"), begin);
    }
    for (what, query) in &asked {
        let mut least = f64::INFINITY;
        for _ in 0..20 {
            let begin = Instant::now();
            search(&store, query)?;
            least = least.min(begin.elapsed().as_secs_f64());
        }
        println!("{:>8.1} ms  least of 20 searches {what}", least * 1e3);
    }
    let begin = Instant::now();
    let known = store.known()?;
    told(
        &format!("all {} files, to see what has changed", known.len()),
        begin,
    );
    let begin = Instant::now();
    let overview = store.overview()?;
    told(&format!("overview of {} files", overview.files), begin);
    let begin = Instant::now();
    let groups = duplicates(&store, &|sound| Some(sound.fingerprint.clone()), &|a, b| a == b)?;
    told(&format!("duplicates: {} groups", groups.len()), begin);
    let begin = Instant::now();
    let faults = store.check()?;
    told(&format!("check: {} faults", faults.len()), begin);
    Ok(())
}
