//! The published winner of the 2024 challenge by name: pulled in its five parts from a server on loopback, imported, and evaluated
//! on a dataset in Clotho's layout, to the scores and metrics that the reference computes (`golden/winner.py`).

use std::path::Path;

use hark_work::random::mix;
use serde_json::Value;

use crate::loopback::{Fault, Loopback};
use crate::place::{Place, text, wav};

const PARTS: [&str; 5] = [
    "pMWRbJzXqFPPzgD/download/passt_roberta.1.ckpt",
    "aMDLmLTZH4jCHwq/download/passt_roberta.2.ckpt",
    "3kKiQJFk45R7S5k/download/passt_roberta.3.ckpt",
    "ijLwzPAQrqKRf5P/download/passt_roberta.4.ckpt",
    "Np4A5nobAkaSGpY/download/passt_roberta.5.ckpt",
];

fn golden(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/winner");
    fs_err::read(folder.join(name)).unwrap()
}

fn part(nth: usize) -> String {
    format!("/index.php/s/{}", PARTS[nth])
}

/// The hosts that have the checkpoint, cut at uneven places, and the tokenizer.
fn published() -> Loopback {
    let checkpoint = golden("winner.ckpt");
    let cuts = [0, 1, 5, 6, 9, 10].map(|tenth| checkpoint.len() * tenth / 10);
    let parts = cuts.windows(2).map(|cut| checkpoint[cut[0]..cut[1]].to_vec());
    let server = Loopback::new((0..PARTS.len()).map(part).zip(parts));
    let tokenizer = "../encode/tests/golden/towers/tokenizer-json/tokenizer.json";
    server.put(
        "/FacebookAI/roberta-large/resolve/main/tokenizer.json",
        fs_err::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(tokenizer)).unwrap(),
    );
    server
}

/// The samples of a clip by the formula of `golden/winner.py`: a triangle that rises, and noise.
fn samples(nth: u64, clip: &Value) -> Vec<i16> {
    let [thousandths, pitch, slowness, noise] =
        ["thousandths", "pitch", "slowness", "noise"].map(|key| clip[key].as_u64().unwrap());
    let share = noise as i64;
    (0..thousandths * 32)
        .map(|t| {
            let phase = (t * pitch + t * t / slowness) & 0xffff;
            let tone = (phase as i64 - 32_768).abs() - 16_384;
            let hiss = (mix(t + (nth << 40)) >> 50) as i64 - 8_192;
            // Rounded downwards, as in Python.
            ((tone * (16 - share)).div_euclid(16) + (hiss * share).div_euclid(16)) as i16
        })
        .collect()
}

/// The evaluation split, in `data`.
fn dataset(place: &Place, expected: &Value) {
    let captions: Vec<&str> = expected["captions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|caption| caption.as_str().unwrap())
        .collect();
    fs_err::create_dir_all(place.path("data/evaluation")).unwrap();
    let mut table = csv::Writer::from_path(place.path("data/clotho_captions_evaluation.csv")).unwrap();
    let header = [
        "file_name",
        "caption_1",
        "caption_2",
        "caption_3",
        "caption_4",
        "caption_5",
    ];
    table.write_record(header).unwrap();
    for (nth, clip) in expected["clips"].as_array().unwrap().iter().enumerate() {
        let name = format!("clip {nth}.wav");
        let file = place.path("data/evaluation").join(&name);
        fs_err::write(file, wav(32_000, &samples(nth as u64, clip))).unwrap();
        table
            .write_record([&[name.as_str()], &captions[5 * nth..][..5]].concat())
            .unwrap();
    }
    table.flush().unwrap();
}

#[test]
fn the_winner_is_pulled_in_parts_and_evaluated_as_the_reference() {
    let place = Place::new();
    let expected: Value = serde_json::from_slice(&golden("expected.json")).unwrap();
    let server = published();
    let url = server.url();
    let pull = ["models", "pull", "winner-2024", "--mirror", &url];

    // Killed within the third part; then one part is a web page, as a cloud that has removed a file gives.
    server.hold_after(golden("winner.ckpt").len() as u64 * 55 / 100);
    let mut running = place.command(&pull).spawn().unwrap();
    assert!(server.wait_until_held(|| running.try_wait().unwrap().is_some()));
    running.kill().unwrap();
    running.wait().unwrap();
    server.release();
    assert!(!place.path("home/models/winner-2024").exists());
    server.always(&part(3), Fault::Page { told: true });
    let message = place.fails(&pull);
    assert!(
        message.contains("passt_roberta.4.ckpt") && message.contains("a web page instead of the file"),
        "{message}"
    );
    assert!(!place.path("home/models/winner-2024").exists());
    server.repair();

    let output = place.run(&pull);
    let message = text(&output.stderr);
    assert!(output.status.success(), "{message}");
    for words in ["licence: none stated", "\ndownload: 6 files, ", "\ndisk space: "] {
        assert!(message.contains(words), "{message}");
    }
    assert!(
        server.asked().iter().any(|asked| asked.start > 0),
        "what was there was downloaded again"
    );

    dataset(&place, &expected);
    let found = place.json(&[
        "eval",
        "winner-2024",
        "--data",
        "clotho:data",
        "--json",
        "-o",
        "results",
    ]);
    for (nth, direction) in ["text_to_audio", "audio_to_text"].into_iter().enumerate() {
        for metric in ["map", "recall_1", "recall_5", "recall_10"] {
            let ours = found["judgements"][nth]["mean"][metric].as_f64().unwrap();
            let theirs = expected[direction][metric].as_f64().unwrap();
            assert!(
                (ours - theirs).abs() < 1e-9,
                "{direction} {metric}: {ours}, not {theirs}"
            );
        }
    }
    // The scores themselves, in a run file that holds all twelve clips of each caption.
    let run = fs_err::read_to_string(place.path("results/text-to-audio.run.trec")).unwrap();
    let mut compared = 0;
    for line in run.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let number = |text: &str| text.parse::<usize>().unwrap();
        // "clip%207.wav#3" and "clip%207.wav".
        let (file, caption) = fields[0].rsplit_once('#').unwrap();
        let clip = |file: &str| number(file.trim_start_matches("clip%20").trim_end_matches(".wav"));
        let row = 5 * clip(file) + number(caption) - 1;
        let theirs = expected["scores"][row][clip(fields[2])].as_f64().unwrap();
        let ours: f64 = fields[4].parse().unwrap();
        // Embeddings are computed in 32 bits, log-mels too, and processors round differently: 5.6e-6 has been seen.
        assert!((ours - theirs).abs() < 2e-5, "{line}: {theirs}");
        compared += 1;
    }
    assert_eq!(compared, 60 * 12);
}
