//! How far recordings are from each other, for `bench/duplicates.py`.
//!
//! Each line of the input is a recording and its variants, paths with tabs between. Each line of the output is `same` for a
//! recording and one of its variants or `other` for two recordings, both paths, whether they are same_recording (1 or 0), and their
//! distance, with tabs between. How many pairs a second are compared goes to the error stream: pairs of the first recordings,
//! by `same_recording`, on one thread.

use std::error::Error;
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Instant;

use hark_audio::{Fingerprint, distance, same_recording, summarize};

/// Rounds over all pairs for the speed.
const ROUNDS: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let mut recordings: Vec<Vec<(String, Fingerprint)>> = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let read = |path: &str| {
            let outline = summarize(Path::new(path), &|| true)?;
            Ok::<_, hark_audio::Error>((path.to_owned(), outline.fingerprint))
        };
        recordings.push(line?.split('\t').map(read).collect::<Result<_, _>>()?);
    }
    let mut out = std::io::stdout().lock();
    let mut print = |kind: &str, (a, x): &(String, Fingerprint), (b, y): &(String, Fingerprint)| {
        let same_recording = u8::from(same_recording(x, y));
        writeln!(out, "{kind}\t{a}\t{b}\t{same_recording}\t{:.4}", distance(x, y))
    };
    let firsts: Vec<_> = recordings.iter().filter_map(|group| group.first()).collect();
    for group in &recordings {
        for variant in group.iter().skip(1) {
            print("same", &group[0], variant)?;
        }
    }
    for (i, a) in firsts.iter().enumerate() {
        for b in &firsts[i + 1..] {
            print("other", a, b)?;
        }
    }
    speed("same_recording", &firsts, same_recording);
    speed("distance", &firsts, |a, b| distance(a, b) < 0.1);
    let bytes: Vec<usize> = firsts.iter().map(|(_, f)| f.to_bytes().len()).collect();
    eprintln!(
        "bytes: {} to {}",
        bytes.iter().min().unwrap_or(&0),
        bytes.iter().max().unwrap_or(&0)
    );
    Ok(())
}

fn speed(
    name: &str,
    firsts: &[&(String, Fingerprint)],
    compare: impl Fn(&Fingerprint, &Fingerprint) -> bool,
) {
    let start = Instant::now();
    let mut found = 0;
    for _ in 0..ROUNDS {
        for (i, (_, a)) in firsts.iter().enumerate() {
            found += firsts[i + 1..]
                .iter()
                .filter(|(_, b)| std::hint::black_box(compare(a, b)))
                .count();
        }
    }
    let pairs = ROUNDS * firsts.len() * firsts.len().saturating_sub(1) / 2;
    let rate = pairs as f64 / start.elapsed().as_secs_f64();
    eprintln!(
        "{name}: {rate:.0} pairs a second, {} found a round",
        found / ROUNDS
    );
}
