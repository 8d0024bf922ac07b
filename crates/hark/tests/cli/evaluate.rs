//! Evaluation, comparison and studies through the program: the same figures by every way, the same tables after every stop.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::place::Place;

fn tiny() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recipes/tiny.toml");
    path.display().to_string()
}

/// A place with the tiny recipe's training of one epoch, in `run`.
fn trained() -> Place {
    let place = Place::new();
    let recipe = tiny();
    let few = ["--threads", "2", "--set", "training.epochs=1"];
    place.ok(&[&["train", &recipe, "--run", "run"][..], &few].concat());
    place
}

/// A study of two methods by two seeds on two corpora, of one epoch each.
fn study<'a>(recipe: &'a str, folder: &'a str) -> Vec<&'a str> {
    vec![
        "reproduce",
        recipe,
        "--folder",
        folder,
        "--methods",
        "infonce,listnet-both",
        "--seeds",
        "2",
        "--corpora",
        "2",
        "--threads",
        "2",
        "--set",
        "training.epochs=2",
    ]
}

const REPORTS: [&str; 10] = [
    "report.html",
    "report.md",
    "table.md",
    "table.tex",
    "table.csv",
    "runs.csv",
    "tests.md",
    "curves.svg",
    "text-to-audio.svg",
    "audio-to-text.svg",
];

fn reports(folder: &Path) -> Vec<String> {
    REPORTS
        .map(|name| fs_err::read_to_string(folder.join(name)).unwrap())
        .to_vec()
}

/// How many files of this name there are below a folder.
fn files(folder: &Path, name: &str) -> usize {
    let Ok(entries) = fs_err::read_dir(folder) else {
        return 0;
    };
    let count = |path: &Path| {
        if path.is_dir() {
            files(path, name)
        } else {
            usize::from(path.ends_with(name))
        }
    };
    entries
        .filter_map(Result::ok)
        .map(|entry| count(&entry.path()))
        .sum()
}

/// kill -9 and Ctrl-C at any moment: the same command goes on, and every table, test, curve and page has the same bytes.
#[test]
fn a_study_that_is_stopped_ends_with_the_same_reports() {
    let place = Place::new();
    let recipe = tiny();
    let said = place.ok(&study(&recipe, "whole"));
    assert!(
        said.contains("| InfoNCE |") && said.contains("ListNet audio+text"),
        "{said}"
    );
    // Stopped when the first training has saved itself, and when one, three and six have ended; by Ctrl-C once.
    let mut stops = 0;
    for (nth, (name, enough)) in [
        ("checkpoint.safetensors", 1),
        ("result.json", 1),
        ("result.json", 3),
        ("result.json", 6),
    ]
    .into_iter()
    .enumerate()
    {
        let mut child = place
            .command(&study(&recipe, "stopped"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while files(&place.path("stopped"), name) < enough && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(2));
        }
        if nth == 1 {
            let pid = child.id().to_string();
            let _ = std::process::Command::new("kill").args(["-INT", &pid]).status();
        } else {
            child.kill().unwrap();
        }
        stops += usize::from(!child.wait().unwrap().success());
    }
    // The last one may have ended by itself before it was stopped.
    assert!(stops >= 2, "the study was stopped {stops} times");
    assert_eq!(place.ok(&study(&recipe, "stopped")), said);
    assert_eq!(reports(&place.path("whole")), reports(&place.path("stopped")));
    // What is done is not done again, and more seeds train only what is new.
    let result = place.path("whole/infonce/corpus-2/seed-1/result.json");
    let before = fs_err::metadata(&result).unwrap().modified().unwrap();
    let more = [&study(&recipe, "whole")[..], &["--methods", "smooth"]].concat();
    assert!(place.ok(&more).contains("| smoothing |"));
    assert_eq!(fs_err::metadata(&result).unwrap().modified().unwrap(), before);
}

#[test]
fn a_study_can_be_read_and_compared() {
    let place = Place::new();
    let recipe = tiny();
    let said = place.json(&[&study(&recipe, "study")[..], &["--json"]].concat());
    let methods = said["methods"].as_array().unwrap();
    assert_eq!(methods.len(), 2);
    assert_eq!(methods[0]["runs"].as_array().unwrap().len(), 4);
    let comparisons = said["comparisons"].as_array().unwrap();
    // Text to audio by mAP@10 and by nDCG@10, audio to text by mAP@10.
    assert_eq!(comparisons.len(), 3);
    let over: Vec<&str> = comparisons[0]["tests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|test| test["over"].as_str().unwrap())
        .collect();
    assert_eq!(over, ["queries", "clips", "permutation over clips", "seeds"]);
    assert_eq!(comparisons[0]["tests"][0]["pairs"], 80);
    assert_eq!(comparisons[0]["tests"][1]["pairs"], 16);
    assert_eq!(comparisons[0]["tests"][3]["pairs"], 4);
    // hark compare finds the same from the files.
    let compared = place.json(&[
        "compare",
        "--a",
        "study/listnet-both",
        "--b",
        "study/infonce",
        "--json",
    ]);
    assert_eq!(compared["comparisons"][0]["tests"], comparisons[0]["tests"]);
    let by_study = place.json(&[
        "compare",
        "--study",
        "study",
        "--baseline",
        "infonce",
        "--metric",
        "ndcg",
        "--json",
    ]);
    assert_eq!(by_study["comparisons"][0]["tests"], comparisons[1]["tests"]);
    let by_first = place.json(&["compare", "--study", "study", "--metric", "ndcg", "--json"]);
    assert_eq!(by_first, by_study, "the study's first method is the baseline");
    let shown = place.ok(&[
        "compare",
        "--a",
        "study/listnet-both",
        "--b",
        "study/infonce",
        "--show",
        "2",
    ]);
    assert!(
        shown.contains("4 and 4 runs on 2 corpora") && shown.contains("is better by most for"),
        "{shown}"
    );
    // A training's own report and the study agree.
    let run = "study/infonce/corpus-1/seed-2";
    let found = place.json(&["eval", run, "--truth", "scenes", "--json"]);
    let of_run = methods[0]["runs"]
        .as_array()
        .unwrap()
        .iter()
        .find(|run| run["corpus"] == 1 && run["seed"] == 2);
    let of_run = of_run.unwrap();
    for (nth, direction) in ["text_to_audio", "audio_to_text"].into_iter().enumerate() {
        assert_eq!(
            found["judgements"][nth]["mean"]["map"], of_run[direction]["map_10"],
            "{direction}"
        );
    }
    assert_eq!(found["judgements"][2]["mean"]["ndcg"], of_run["ndcg_10"]);
    let html = fs_err::read_to_string(place.path("study/report.html")).unwrap();
    assert!(html.contains("<svg") && html.contains("caption-static") && html.contains("SHA-256"));
    assert!(
        !html.contains("http://") || !html.contains("<script"),
        "the page needs no network"
    );
}

#[test]
fn functions_and_omegas_are_studied() {
    let place = Place::new();
    let recipe = tiny();
    let few = ["--seeds", "2", "--threads", "2", "--set", "training.epochs=1"];
    let functions = place.ok(&[
        &["reproduce", &recipe, "--functions", "logistic,minmax"][..],
        &few,
    ]
    .concat());
    assert!(
        functions.contains("ListNet audio+text, f = minmax"),
        "{functions}"
    );
    assert!(
        place
            .path("studies/tiny-functions/listnet-both-minmax/corpus-1/seed-2/result.json")
            .exists()
    );
    let omegas = place.ok(&[&["reproduce", &recipe, "--omega", "0.05,0.1"][..], &few].concat());
    assert!(omegas.contains("omega = 0.1"), "{omegas}");
}

/// From results in `results`, as `hark eval -o` wrote them.
fn compared_as_a_foreign_run_with_itself(place: &Place) {
    place.ok(&[
        "eval",
        "--run",
        "results/audio-to-text.run.trec",
        "--qrels",
        "results/audio-to-text.qrels.trec",
        "--direction",
        "audio-to-text",
        "-o",
        "foreign",
    ]);
    let itself = [
        "compare",
        "--a",
        "results",
        "--b",
        "foreign",
        "--direction",
        "audio-to-text",
        "--json",
    ];
    let found = place.json(&itself);
    assert_eq!(found["comparisons"][0]["tests"][0]["difference"], 0.0);
    assert_eq!(found["comparisons"][0]["queries"], 8);
    let refused = place.fails(&[
        "compare",
        "--a",
        "results/audio-to-text.csv",
        "--b",
        "foreign/audio-to-text.csv",
    ]);
    assert!(refused.contains("--direction"), "{refused}");
}

/// Everything that `hark eval` can start from leads to the same figures.
#[test]
fn a_model_its_vectors_and_its_run_file_are_judged_alike() {
    let place = trained();
    let of_model = place.json(&["eval", "run", "-o", "results", "--json"]);
    let map = |value: &Value, nth: usize| value["judgements"][nth]["mean"]["map"].clone();
    assert_eq!(of_model["judgements"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&of_model["clips"], &of_model["captions"]),
        (&8.into(), &40.into())
    );
    for direction in ["text-to-audio", "audio-to-text"] {
        assert!(place.path(&format!("results/{direction}.csv")).exists());
    }
    // The second time the vectors are there; without them it is the same.
    let kept = fs_err::read_dir(place.path("home/evaluations")).unwrap().count();
    assert_eq!(kept, 2);
    assert_eq!(place.json(&["eval", "run", "--json"]), of_model);
    assert_eq!(place.json(&["eval", "run", "--no-cache", "--json"]), of_model);
    // Its own results as those of a foreign system, by both orders of ties: no two scores are equal here.
    for (nth, direction) in ["text-to-audio", "audio-to-text"].into_iter().enumerate() {
        let (run, qrels) = (
            format!("results/{direction}.run.trec"),
            format!("results/{direction}.qrels.trec"),
        );
        for ties in ["hash", "trec"] {
            let of_run = place.json(&["eval", "--run", &run, "--qrels", &qrels, "--ties", ties, "--json"]);
            assert_eq!(map(&of_run, 0), map(&of_model, nth), "{direction} {ties}");
        }
    }
    compared_as_a_foreign_run_with_itself(&place);
    // Its vectors, stored.
    let home = place.path("home/evaluations");
    let file = |what: &str| {
        let all = fs_err::read_dir(&home)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        all.into_iter()
            .find(|path| path.to_string_lossy().ends_with(&format!("-{what}.npy")))
            .unwrap()
    };
    let (clips, captions) = (file("clips"), file("captions"));
    let vectors = [
        "eval",
        "--vectors",
        clips.to_str().unwrap(),
        captions.to_str().unwrap(),
    ];
    let of_vectors = place.json(&[&vectors[..], &["--captions-per-clip", "5", "--json"]].concat());
    assert_eq!(
        (map(&of_vectors, 0), map(&of_vectors, 1)),
        (map(&of_model, 0), map(&of_model, 1))
    );
    let refused = place.fails(&[&vectors[..], &["--captions-per-clip", "4"]].concat());
    assert!(refused.contains("8 clips and 40 captions"), "{refused}");
    let predictions = fs_err::read_to_string(place.path("results/predictions.csv")).unwrap();
    assert!(
        predictions.starts_with("caption,fname_1,") && predictions.lines().count() == 41,
        "{predictions}"
    );
    let table = place.ok(&[
        "eval",
        "run",
        "--cutoff",
        "16",
        "--truth",
        "scenes",
        "--truth",
        "computed:minmax",
    ]);
    for expected in [
        "mAP@16",
        "nDCG@16",
        "by the scenes, relevant from 0.5",
        "by computed relevance",
        "chance",
        "median rank",
        "negation: without",
    ] {
        assert!(table.contains(expected), "{expected}: {table}");
    }
}

/// Ratings and annotations of some queries; what the split does not have; clips that are judged alone.
#[test]
fn other_truths_are_read_from_files() {
    let place = trained();
    place.ok(&["eval", "run", "-o", "results"]);
    let queries = fs_err::read_to_string(place.path("results/text-to-audio.csv")).unwrap();
    let mut reader = csv::Reader::from_reader(queries.as_bytes());
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let (own, other) = (rows[0][4].to_owned(), rows[10][4].to_owned());
    let words = rows[0][16].to_owned();
    assert_ne!(own, other);
    let ratings = place.write(
        "ratings.csv",
        format!(
            "query,query_file,candidate_file,group,rating\n{words:?},{own},{own},TP,90\n{words:?},{own},{other},C15,20\n"
        ),
    );
    let of_all = place.json(&["eval", "run", "--truth", &ratings, "--json"]);
    assert_eq!(of_all["judgements"][2]["queries"], 1);
    // Of one relevant clip among 8, and among the 2 that were judged.
    let chance = |value: &Value| value["judgements"][2]["chance"]["recall_1"].as_f64().unwrap();
    assert!((chance(&of_all) - 1.0 / 8.0).abs() < 1e-12);
    let of_judged = place.json(&["eval", "run", "--truth", &ratings, "--judged-only", "--json"]);
    assert!((chance(&of_judged) - 0.5).abs() < 1e-12);
    let refused = place.fails(&["eval", "run", "--truth", "scenes", "--judged-only"]);
    assert!(
        refused.contains("found not relevant; omit --judged-only"),
        "{refused}"
    );
    // Each truth leaves its own scored queries, and figures by different ones are not compared.
    place.ok(&[
        "eval", "run", "--truth", &ratings, "--truth", "scenes", "-o", "judged",
    ]);
    assert!(place.path("judged/text-to-audio.ratings.csv").exists());
    assert!(place.path("judged/audio-to-text.scenes.csv").exists());
    let (pairs, scenes) = ("judged/text-to-audio.csv", "judged/text-to-audio.scenes.csv");
    let refused = place.fails(&["compare", "--a", pairs, "--b", scenes]);
    assert!(refused.contains("different truths"), "{refused}");
    let refused = place.fails(&["eval", "run", "--truth", &ratings, "--truth", &ratings]);
    assert!(refused.contains("two truths are called ratings"), "{refused}");
    let several = place.write(
        "several.csv",
        format!("query,clip\n{own}#1,{own}\n{own}#1,{other}\n"),
    );
    let of_several = place.json(&["eval", "run", "--truth", &several, "--cutoff", "16", "--json"]);
    assert_eq!(of_several["judgements"][2]["cut"], 16);
    for (content, expected) in [
        (
            format!("query,clip\n{own}#1,nowhere.wav\n"),
            "no clip \"nowhere.wav\"",
        ),
        (
            format!("query,clip,relevance\n{own}#1,{other},0.2\n"),
            "--skip-unjudged",
        ),
    ] {
        let file = place.write("bad.csv", content);
        let refused = place.fails(&["eval", "run", "--truth", &file]);
        assert!(refused.contains(expected), "{refused}");
    }
}

#[test]
fn old_options_are_refused_with_their_new_names() {
    let place = Place::new();
    for (old, new) in [
        (&["--at", "5"][..], "--at was renamed to --cutoff"),
        (
            &["--relevant-from=0.3"],
            "--relevant-from was renamed to --relevance-threshold",
        ),
        (&["--partial"], "--partial was renamed to --skip-unjudged"),
    ] {
        let output = place.command(&[&["eval", "run"], old].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{old:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(new), "{said}");
    }
    let help = place.ok(&["eval", "--help"]);
    assert!(
        !help.contains("--partial") && help.contains("--skip-unjudged"),
        "{help}"
    );
}

#[test]
fn what_cannot_be_judged_is_refused() {
    let place = Place::new();
    let qrels = place.write("qrels.trec", "q1 0 a 1\nq2 0 b 1\n");
    for (run, expected) in [
        (
            "q1 Q0 a 1 NaN x\nq2 Q0 b 1 0.5 x\n",
            "\"NaN\" is not a finite number",
        ),
        (
            "q1 Q0 a 1 0.9 x\nq1 Q0 a 2 0.8 x\nq2 Q0 b 1 0.5 x\n",
            "item a for query q1 a second time",
        ),
        ("q1 Q0 a 1 0.9 x\n", "missing in the run, the first is q2"),
        (
            "q1 Q0 a 1 0.9 x\nq2 Q0 b 1 0.5 x\nq3 Q0 b 1 0.5 x\n",
            "no relevant item in the judgements, the first is q3",
        ),
        ("q1 Q0 a 1\n", "has 4 fields, not 6"),
        ("", "run.trec: the file has no entries"),
    ] {
        let file = place.write("run.trec", run);
        let refused = place.fails(&["eval", "--run", &file, "--qrels", &qrels]);
        assert!(refused.contains(expected), "{run:?}: {refused}");
    }
    let partial = place.write("run.trec", "q1 Q0 a 1 0.9 x\nq3 Q0 b 1 0.5 x\n");
    let found = place.json(&[
        "eval",
        "--run",
        &partial,
        "--qrels",
        &qrels,
        "--skip-unjudged",
        "--json",
    ]);
    assert_eq!(found["captions"], 1);
    // Runs over different queries.
    for (name, query) in [("a.csv", "q1"), ("b.csv", "q2")] {
        place.write(
            name,
            format!(
                "direction,by,graded_by,query,clip,relevant,rank,ap_10,r_1,r_5,r_10,hit_1,hit_5,hit_10,rr,ndcg_10,text\n\
                 text-to-audio,pairs,,{query},c,1,1,1,1,1,1,1,1,1,1,,rain\ntext-to-audio,pairs,,q9,c,1,1,1,1,1,1,1,1,1,1,,wind\n"
            ),
        );
    }
    let refused = place.fails(&["compare", "--a", "a.csv", "--b", "b.csv"]);
    assert!(
        refused.contains("different queries") && refused.contains("\"q1\"") | refused.contains("\"q2\""),
        "{refused}"
    );
    let refused = place.fails(&["compare", "--a", "a.csv", "--b", "nowhere"]);
    assert!(refused.contains("nowhere"), "{refused}");
    fs_err::create_dir(place.path("empty")).unwrap();
    let refused = place.fails(&["compare", "--a", "a.csv", "--b", "empty"]);
    assert!(refused.contains("hark eval -o"), "{refused}");
}

#[test]
fn missing_and_doubled_clips_are_refused() {
    let place = trained();
    let home = place.path("home/soundscapes");
    let sounds = fs_err::read_dir(&home).unwrap().next().unwrap().unwrap().path();
    let clips = sounds.join("evaluation");
    let first = fs_err::read_dir(&clips)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .min()
        .unwrap();
    fs_err::rename(&first, place.path("away")).unwrap();
    let refused = place.fails(&["eval", "run"]);
    assert!(
        refused.contains("1 of 8 recordings") && refused.contains("--allow-missing"),
        "{refused}"
    );
    let found = place.json(&["eval", "run", "--allow-missing", "--json"]);
    assert_eq!((&found["clips"], &found["captions"]), (&7.into(), &35.into()));
    fs_err::rename(place.path("away"), &first).unwrap();
    let captions = sounds.join("clotho_captions_evaluation.csv");
    let text = fs_err::read_to_string(&captions).unwrap();
    let second = text.lines().nth(1).unwrap();
    fs_err::write(&captions, format!("{text}{second}\n")).unwrap();
    let refused = place.fails(&["eval", "run"]);
    assert!(refused.contains(second.split(',').next().unwrap()), "{refused}");
}

#[test]
fn what_makes_no_study_is_refused() {
    let place = Place::new();
    let recipe = tiny();
    for (more, expected) in [
        (&["--set", "seed=2"][..], "--seeds"),
        (&["--functions", "logistic,steeep"], "steeep"),
        (&["--omega", "0"], "objective.omega"),
        (&["--baseline", "smooth"], "--baseline smooth"),
    ] {
        let refused = place.fails(&[&["reproduce", &recipe, "--folder", "study"][..], more].concat());
        assert!(refused.contains(expected), "{refused}");
        assert!(
            !place.path("study/infonce").exists(),
            "nothing was trained before it was refused"
        );
    }
    let few = [
        "reproduce",
        &recipe,
        "--folder",
        "study",
        "--methods",
        "infonce",
        "--seeds",
        "1",
        "--set",
    ];
    place.ok(&[&few[..], &["training.epochs=1"]].concat());
    let refused = place.fails(&[&few[..], &["training.epochs=2"]].concat());
    assert!(refused.contains("another recipe"), "{refused}");
    // In what pieces it is computed changes no study.
    place.ok(&[&few[..], &["training.epochs=1", "--set", "training.chunk=2"]].concat());
    // Data that change under a study are found out before they are put into one table.
    let result = place.path("study/infonce/corpus-1/seed-1/result.json");
    let whole = fs_err::read_to_string(&result).unwrap();
    let value: Value = serde_json::from_str(&whole).unwrap();
    let data = value["test_data"].as_str().unwrap();
    fs_err::write(&result, whole.replace(data, &"0".repeat(64))).unwrap();
    let more = [&few[..7], &["2", "--set", "training.epochs=1"]].concat();
    let refused = place.fails(&more);
    assert!(refused.contains("not trained with the same data"), "{refused}");
    fs_err::write(&result, whole).unwrap();
    place.ok(&more);
    let broken = place.path("study/infonce/corpus-1/seed-1/result.json");
    fs_err::write(&broken, "{").unwrap();
    let refused = place.fails(&[&few[..], &["training.epochs=1"]].concat());
    assert!(refused.contains("result.json"), "{refused}");
}
