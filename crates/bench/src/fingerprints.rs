//! How far recordings are from each other by their fingerprints, driven by `bench/duplicates.py`.
//!
//! Each line of stdin is a recording and its variants, paths separated by tabs. A pair is `same` for a recording and one
//! of its variants, `other` for the first recordings of two lines. The speed is that of comparing all first recordings on
//! one thread.

use std::io::BufRead;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use hark_audio::{Fingerprint, distance, same_recording, summarize};
use serde_json::{Value, json};

use crate::Measured;

/// Rounds over all pairs for the speed.
const ROUNDS: usize = 20;

type Named = (String, Fingerprint);

pub(crate) fn compare() -> Measured {
    let mut recordings: Vec<Vec<Named>> = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let read = |path: &str| {
            let summary = summarize(Path::new(path), &|| true)?;
            Ok((path.to_owned(), summary.fingerprint))
        };
        recordings.push(line?.split('\t').map(read).collect::<Result<_>>()?);
    }
    let firsts: Vec<&Named> = recordings.iter().filter_map(|group| group.first()).collect();
    let mut pairs = Vec::new();
    for group in &recordings {
        pairs.extend(
            group
                .iter()
                .skip(1)
                .map(|variant| pair("same", &group[0], variant)),
        );
    }
    for (i, a) in firsts.iter().enumerate() {
        pairs.extend(firsts[i + 1..].iter().map(|b| pair("other", a, b)));
    }
    let bytes = firsts.iter().map(|(_, fingerprint)| fingerprint.to_bytes().len());
    Ok(json!({
        "pairs": pairs,
        "pairs_per_second": {
            "same_recording": speed(&firsts, same_recording),
            "distance": speed(&firsts, |a, b| distance(a, b) < 0.1),
        },
        "fingerprint_bytes": {"least": bytes.clone().min(), "most": bytes.max()},
    }))
}

fn pair(kind: &str, (a, x): &Named, (b, y): &Named) -> Value {
    json!({"kind": kind, "first": a, "second": b, "alike": same_recording(x, y), "distance": distance(x, y)})
}

fn speed(firsts: &[&Named], compare: impl Fn(&Fingerprint, &Fingerprint) -> bool) -> f64 {
    let start = Instant::now();
    for _ in 0..ROUNDS {
        for (i, (_, a)) in firsts.iter().enumerate() {
            for (_, b) in &firsts[i + 1..] {
                std::hint::black_box(compare(a, b));
            }
        }
    }
    let pairs = ROUNDS * firsts.len() * firsts.len().saturating_sub(1) / 2;
    pairs as f64 / start.elapsed().as_secs_f64()
}
