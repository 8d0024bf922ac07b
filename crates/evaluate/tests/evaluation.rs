//! Vectors → an evaluation → its folder, and back.

use std::num::NonZeroUsize;
use std::path::Path;

use hark_evaluate::report::{PREDICTIONS, REPORT};
use hark_evaluate::{
    CaptionOwners, Collection, Direction, Error, EvaluationReport, JudgeOptions, Method, ScoredQueries,
    Truth, TruthSource, judge, judge_run,
};
use hark_nearest::npy;

fn matrix(path: &Path, dim: usize, numbers: &[f32]) {
    npy::write(fs_err::File::create(path).unwrap(), dim, numbers).unwrap();
}

/// Four clips with two captions each; the captions of the last clip point at the first one.
fn collection(folder: &Path) -> Collection {
    let (clips, captions) = (folder.join("clips.npy"), folder.join("captions.npy"));
    let clip = |nth: usize| (0..4).map(move |axis| if axis == nth { 1.0 } else { 0.0 });
    matrix(&clips, 4, &(0..4).flat_map(clip).collect::<Vec<f32>>());
    let rows = [0, 0, 1, 1, 2, 2, 0, 0].into_iter().flat_map(clip);
    matrix(&captions, 4, &rows.collect::<Vec<f32>>());
    let two = NonZeroUsize::new(2).unwrap();
    Collection::read(&clips, &captions, CaptionOwners::PerClip(two)).unwrap()
}

#[test]
fn what_is_written_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let (collection, options) = (collection(folder.path()), JudgeOptions::default());
    let evaluation = judge(&collection, &[], &options).unwrap();
    let report = EvaluationReport {
        model: Some("m".into()),
        ..EvaluationReport::new(&evaluation, options.metrics.ties)
    };
    let results = folder.path().join("results");
    evaluation
        .write(&results, &report, Some((&collection, options.metrics)))
        .unwrap();
    assert_eq!(EvaluationReport::read(&results.join(REPORT)).unwrap(), report);
    assert!((report.judgements[0].mean.recall_1 - 0.75).abs() < 1e-12);

    // The same figures from the TREC files.
    for (direction, judged) in Direction::ALL.into_iter().zip(&evaluation.judgements) {
        let file = |what: &str| results.join(format!("{}.{what}.trec", direction.name()));
        let items = Some(if direction == Direction::TextToAudio { 4 } else { 8 });
        let again = judge_run(&file("run"), &file("qrels"), direction, items, &options).unwrap();
        assert_eq!(
            again.judgements[0].report.mean, judged.report.mean,
            "{direction:?}"
        );
        assert_eq!(
            again.judgements[0].report.chance, judged.report.chance,
            "{direction:?}"
        );
    }
    let predictions = fs_err::read_to_string(results.join(PREDICTIONS)).unwrap();
    assert_eq!(
        predictions.lines().next(),
        Some("caption,fname_1,fname_2,fname_3,fname_4")
    );
    assert_eq!(predictions.lines().count(), 9);
}

#[test]
fn a_report_with_other_keys_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let evaluation = judge(&collection(folder.path()), &[], &JudgeOptions::default()).unwrap();
    let report = EvaluationReport::new(&evaluation, JudgeOptions::default().metrics.ties);
    let path = folder.path().join(REPORT);
    let whole = serde_json::to_string(&report).unwrap();
    for (old, new, expected) in [
        ("\"recall_1\"", "\"r_1\"", "unknown field `r_1`"),
        ("evaluation 1", "evaluation 2", "the format is"),
        ("{", "[", "expected"),
    ] {
        fs_err::write(&path, whole.replacen(old, new, 1)).unwrap();
        let error = EvaluationReport::read(&path).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn queries_that_nothing_is_relevant_to_are_refused_or_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let collection = collection(folder.path());
    let source: TruthSource = "ratings.csv".parse().unwrap();
    let truth = Truth {
        captions: vec![0, 2, 4],
        gains: vec![vec![(0, 1.0), (1, 0.2)], vec![(1, 0.3)], vec![(2, 0.9)]],
    };
    let truths = [(source.clone(), truth.clone())];
    let error = judge(&collection, &truths, &JudgeOptions::default()).unwrap_err();
    assert!(
        matches!(&error, Error::NothingRelevant { id, .. } if id == "clip-1#1"),
        "{error}"
    );
    let options = JudgeOptions {
        skip_unjudged: true,
        ..JudgeOptions::default()
    };
    let judged = judge(&collection, &truths, &options).unwrap();
    let by_file = &judged.judgements[2];
    assert_eq!((by_file.left_out, by_file.scores.queries.len()), (1, 2));
    assert_eq!(by_file.file, "text-to-audio.ratings.csv");
    assert!((by_file.report.mean.recall[0] - 1.0).abs() < 1e-12);

    let only = JudgeOptions {
        judged_only: true,
        ..options
    };
    let judged = judge(&collection, &truths, &only).unwrap();
    assert_eq!(judged.judgements[2].file, "text-to-audio.ratings.judged.csv");
    let twice = [(source.clone(), truth.clone()), (source, truth)];
    assert!(matches!(
        judge(&collection, &twice, &options),
        Err(Error::SameName { .. })
    ));
}

#[test]
fn vectors_of_another_split_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    collection(folder.path());
    let (clips, captions) = (
        folder.path().join("clips.npy"),
        folder.path().join("captions.npy"),
    );
    for each in [1, 3, usize::MAX] {
        let owners = CaptionOwners::PerClip(NonZeroUsize::new(each).unwrap());
        let refused = Collection::read(&clips, &captions, owners);
        assert!(refused.is_err(), "{each}");
    }
    matrix(&captions, 2, &[0.0; 16]);
    let owners = CaptionOwners::PerClip(NonZeroUsize::new(2).unwrap());
    let error = Collection::read(&clips, &captions, owners)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("vectors of 4") && error.contains("of 2"),
        "{error}"
    );
}

#[test]
fn runs_are_found_in_the_order_of_their_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let evaluation = judge(&collection(folder.path()), &[], &JudgeOptions::default()).unwrap();
    let study = folder.path().join("study");
    let file = Direction::TextToAudio.file();
    for (method, seed) in [("infonce", 9), ("infonce", 10), ("smooth", 1)] {
        let run = study.join(method).join(format!("seed-{seed}"));
        fs_err::create_dir_all(&run).unwrap();
        evaluation.judgements[0].scores.write(&run.join(&file)).unwrap();
    }
    fs_err::create_dir_all(study.join("cache")).unwrap();
    let methods = Method::read_study(&study, Direction::TextToAudio).unwrap();
    let seeds = |runs: &[ScoredQueries]| runs.iter().map(|run| run.seed).collect::<Vec<_>>();
    assert_eq!(methods.len(), 2);
    assert_eq!(
        (methods[0].name.as_str(), seeds(&methods[0].runs)),
        ("infonce", vec![Some(9), Some(10)])
    );
    let read = |path: &Path, direction| Method::read("m".into(), &[path.to_owned()], direction);
    assert!(matches!(
        read(&study.join("cache"), Direction::TextToAudio),
        Err(Error::NoScoredQueries { .. })
    ));
    assert!(matches!(
        read(&study.join("none"), Direction::TextToAudio),
        Err(Error::NoRun { .. })
    ));
    let other = read(&study.join("smooth/seed-1").join(&file), Direction::AudioToText);
    assert!(matches!(other, Err(Error::OtherDirection { .. })));
}
