//! Models with towers through the program: importing, looking inside, embedding recordings and texts. The checkpoints are
//! small ones that the reference software wrote (`golden/towers_tiny.py`).

use std::path::Path;

use crate::place::{Place, text};

pub fn golden(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../encode/tests/golden/towers");
    folder.join(name).display().to_string()
}

pub fn recording(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../audio/tests/files");
    folder.join(name).display().to_string()
}

/// A place that has the authors' small checkpoint as the model `tiny`.
pub fn with_model() -> Place {
    let place = Place::new();
    place.ok(&import_arguments(
        &golden("authors.pt"),
        &golden("tokenizer-json"),
    ));
    place
}

pub fn import_arguments<'a>(file: &'a str, tokenizer: &'a str) -> Vec<&'a str> {
    vec![
        "models",
        "import",
        file,
        "--name",
        "tiny",
        "--tokenizer",
        tokenizer,
        "--audio-heads",
        "2",
        "--text-heads",
        "2",
        "--segment-seconds",
        "1",
        "--clip-seconds",
        "full",
    ]
}

/// Rows and columns of a NumPy file, and its numbers.
pub fn matrix(path: &Path) -> (usize, usize, Vec<f32>) {
    let bytes = fs_err::read(path).unwrap();
    let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = text(&bytes[10..10 + length]);
    let shape = header
        .split_once("'shape': (")
        .unwrap()
        .1
        .split_once(')')
        .unwrap()
        .0;
    let sizes: Vec<usize> = shape.split(',').filter_map(|n| n.trim().parse().ok()).collect();
    let numbers = bytes[10 + length..]
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect();
    (sizes[0], sizes[1], numbers)
}

#[test]
fn an_imported_model_is_listed_and_described() {
    let place = with_model();
    let listed = place.ok(&["models", "list"]);
    assert!(
        listed.contains("tiny") && listed.contains("hears and reads    dual encoder, 12 dimensions"),
        "{listed}"
    );
    let info = place.ok(&["models", "info", "tiny"]);
    for said in [
        "PaSST, 16 wide, 2 blocks, 2 heads, patches of 16 every 16",
        "32,000 Hz, 128 mel bands from 0 to 15000 Hz",
        "RoBERTa, 16 wide",
        "to 24, then 12, length 1",
        "the authors' training checkpoint",
        "not stated",
    ] {
        assert!(info.contains(said), "{said:?} is not in: {info}");
    }
    let info = place.json(&["models", "info", "tiny", "--json"]);
    let parts = ["audio_parameters", "text_parameters"].map(|part| info[part].as_u64().unwrap());
    assert_eq!(parts[0] + parts[1], info["parameters"].as_u64().unwrap());
    assert_eq!(info["card"]["text"]["max-tokens"], 32);
}

#[test]
fn a_model_is_not_replaced_unless_asked() {
    let place = with_model();
    let (file, tokenizer) = (golden("authors.pt"), golden("tokenizer-json"));
    let mut arguments = import_arguments(&file, &tokenizer);
    let message = place.fails(&arguments);
    assert!(message.contains("--force"), "{message}");
    arguments.push("--force");
    place.ok(&arguments);
    let left: Vec<_> = fs_err::read_dir(place.path("home/partial")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    // A failed import leaves the model that is there, and nothing else.
    let broken = place.write("broken.pt", &fs_err::read(&file).unwrap()[..5000]);
    let mut arguments = import_arguments(&broken, &tokenizer);
    arguments.push("--force");
    let message = place.fails(&arguments);
    assert!(message.contains("broken.pt"), "{message}");
    place.ok(&["models", "info", "tiny"]);
    for name in ["../up", "", ".hidden", "all-mpnet-base-v2", "caption-static"] {
        let message = place.fails(&["models", "import", &file, "--name", name]);
        assert!(message.contains("name"), "{message}");
    }
}

#[test]
fn recordings_of_every_kind_become_rows() {
    let place = with_model();
    let (wav, caf, opus) = (
        recording("mono-16.wav"),
        recording("mono-16.caf"),
        recording("mono.opus"),
    );
    place.write("words.wav", "these are words");
    let output = place.run(&[
        "embed",
        &wav,
        "words.wav",
        &caf,
        "gone.mp3",
        &opus,
        "--model",
        "tiny",
        "-o",
        "clips.npy",
        "--json",
    ]);
    // Two cannot be read: they are named, the others are done, and the exit code tells.
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    for said in ["words.wav", "gone.mp3", "cannot read 2 of 5 recordings"] {
        assert!(message.contains(said), "{said:?} is not in: {message}");
    }
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["rows"], &report["dim"]), (&3.into(), &12.into()));
    assert_eq!(report["failed"].as_array().unwrap().len(), 2);
    let (rows, columns, numbers) = matrix(&place.path("clips.npy"));
    assert_eq!((rows, columns, numbers.len()), (3, 12, 36));
    let table = fs_err::read_to_string(place.path("clips.rows.csv")).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(
        lines[0],
        "row,path,seconds,used_seconds,segments,damage,made_by,crc32"
    );
    assert!(
        lines[1].contains("mono-16.wav") && lines[3].contains("mono.opus"),
        "{table}"
    );
    // Two lossless files of one recording.
    for (a, b) in numbers[..12].iter().zip(&numbers[12..24]) {
        assert!((a - b).abs() < 1e-5, "{a} is not {b}");
    }
    // Again, with the rows that are there: nothing is read twice, and the two are tried again.
    let output = place.run(&[
        "embed",
        &wav,
        &caf,
        &opus,
        "words.wav",
        "--model",
        "tiny",
        "-o",
        "clips.npy",
        "--resume",
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(matrix(&place.path("clips.npy")).2, numbers);
    // A table that is older than its matrix: the row that is not what it says is computed anew.
    let path = place.path("clips.rows.csv");
    let table = fs_err::read_to_string(&path).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    let checks: Vec<&str> = lines
        .iter()
        .map(|line| line.rsplit(',').next().unwrap())
        .collect();
    fs_err::write(&path, table.replace(checks[2], "1")).unwrap();
    place.ok(&[
        "embed",
        &wav,
        &caf,
        &opus,
        "--model",
        "tiny",
        "-o",
        "clips.npy",
        "--resume",
    ]);
    assert_eq!(matrix(&place.path("clips.npy")).2, numbers);
    assert_eq!(fs_err::read_to_string(&path).unwrap(), table);
    // Rows of other recordings stay, behind.
    place.ok(&["embed", &opus, "--model", "tiny", "-o", "clips.npy", "--resume"]);
    let (rows, _, kept) = matrix(&place.path("clips.npy"));
    assert_eq!((rows, &kept[..12]), (3, &numbers[24..]));
    // Another length of clips is another kind of vector.
    let message = place.fails(&[
        "embed",
        &wav,
        "--model",
        "tiny",
        "-o",
        "clips.npy",
        "--resume",
        "--clip-seconds",
        "2",
    ]);
    assert!(
        message.contains("another clip length") && message.contains("omit --resume"),
        "{message}"
    );
    let message = place.fails(&["embed", &wav, "--model", "tiny", "-o", "none/clips.npy"]);
    assert!(message.contains("cannot write"), "{message}");
}

#[test]
fn texts_and_recordings_meet_in_one_space() {
    let place = with_model();
    place.ok(&[
        "embed",
        "--text",
        "A dog barks",
        "--text",
        "Rain is falling on a tin roof.",
        "--model",
        "tiny",
        "-o",
        "t.npy",
    ]);
    let (rows, columns, numbers) = matrix(&place.path("t.npy"));
    assert_eq!((rows, columns), (2, 12));
    for row in numbers.chunks_exact(12) {
        let norm: f32 = row.iter().map(|x| x * x).sum();
        assert!((norm - 1.0).abs() < 1e-5);
    }
    // The file of captions in the same order gives the same rows.
    place.write("captions.txt", "A dog barks\nRain is falling on a tin roof.\n");
    place.ok(&[
        "embed",
        "--captions",
        "captions.txt",
        "--model",
        "tiny",
        "-o",
        "c.npy",
    ]);
    assert_eq!(matrix(&place.path("c.npy")).2, numbers);
}

#[test]
fn the_wrong_kind_of_model_is_said() {
    let place = with_model();
    let wav = recording("mono-16.wav");
    let message = place.fails(&["embed", &wav, "--model", "caption-static", "-o", "x.npy"]);
    assert!(message.contains("embeds captions, not recordings"), "{message}");
    let message = place.fails(&["relevance", "similarity", "a", "b", "--model", "tiny"]);
    assert!(message.contains("a sentence encoder is needed here"), "{message}");
    place.ok(&["models", "import", &golden("hf-roberta"), "--name", "reader"]);
    let message = place.fails(&["embed", &wav, "--model", "reader", "-o", "x.npy"]);
    assert!(message.contains("no audio tower"), "{message}");
    assert!(!place.path("x.npy").exists());
}
