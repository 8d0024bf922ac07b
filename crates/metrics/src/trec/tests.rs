//! Reading, writing and scoring: against the metrics by vectors, by hand, and with hostile input.

use std::io::{self, BufReader, Read};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;
use crate::{self as metrics, Relevant, Ties, WithIds, lists, tie_key};
use hark_nearest::Vectors;
use hark_work::progress::no_progress;

use crate::Error;

fn run(text: &str) -> Result<Run, Error> {
    Run::read(text.as_bytes(), Path::new("run.txt"))
}

fn qrels(text: &str) -> Result<Qrels, Error> {
    Qrels::read(text.as_bytes(), Path::new("qrels.txt"))
}

fn score(run_text: &str, qrels_text: &str, options: Options) -> Result<Scored, Error> {
    evaluate(&run(run_text).unwrap(), &qrels(qrels_text).unwrap(), options)
}

fn by_id() -> Options {
    Options {
        ties: Ties::Keys,
        ..Options::default()
    }
}

fn path(name: &str) -> PathBuf {
    name.into()
}

#[test]
fn the_score_decides_and_other_fields_do_not_count() {
    let text = "\n q1\tQ0 a 1 0.5 x\r\nq2 ? a 99 -1e0 y z\n";
    assert_eq!(
        run(text).unwrap_err(),
        Error::LineFields {
            path: path("run.txt"),
            line: 3,
            expected: 6,
            fields: "query, Q0, item, rank, score, tag",
            got: 7
        }
    );
    // The ranks say the opposite of the scores, the lines of a query do not stand together, and the last line has
    // no end.
    let text = "q1 Q0 a 1 0.5 x\n\nq2 Q0 b 1 1 x\n \t \nq1 Q0 b 2 +.75e0 x\nq2 Q0 a 1 2 x";
    let scored = score(text, "q2 0 a 1\nq1 0 b 1\nq1 0 c 0", by_id()).unwrap();
    assert_eq!(scored.queries, ["q2", "q1"], "in the order of the judgements");
    assert_eq!(scored.report.mean.average_precision, 1.0);
    assert_eq!(scored.graded.mean, 1.0);
}

#[test]
fn faults_are_named_with_file_and_line() {
    let number = |got: &str, what, name| Error::LineNumber {
        path: path(name),
        line: 2,
        what,
        got: got.into(),
    };
    for bad in ["NaN", "inf", "-infinity", "x", "1e39", "1,5", "0x1"] {
        assert_eq!(
            run(&format!("q Q0 a 1 1 t\nq Q0 b 2 {bad} t\n")).unwrap_err(),
            number(bad, "score", "run.txt")
        );
    }
    for bad in ["NaN", "inf", "1e309", "-"] {
        assert_eq!(
            qrels(&format!("q 0 a 1\nq 0 b {bad}\n")).unwrap_err(),
            number(bad, "gain", "qrels.txt")
        );
    }
    assert!(matches!(
        qrels("q 0 a 1\nq 0 b\n"),
        Err(Error::LineFields {
            line: 2,
            expected: 4,
            got: 3,
            ..
        })
    ));
    // Of several duplicates the first line is named.
    let text = "q 0 b 1\np 0 a 1\nq 0 a 1\np 0 a 2\nq 0 b 1\n";
    assert_eq!(
        qrels(text).unwrap_err(),
        Error::LineDuplicate {
            path: path("qrels.txt"),
            line: 4,
            query: "p".into(),
            item: "a".into()
        }
    );
    for empty in ["", "\n \n\t\r\n"] {
        let path = path("run.txt");
        assert_eq!(run(empty).unwrap_err(), Error::NoEntries { path });
    }
    let error = Run::read(&b"q Q0 a 1 1 t\nq Q0 \xff 2 1 t\n"[..], Path::new("r")).unwrap_err();
    assert_eq!(error.to_string(), "r: line 2 is not UTF-8");
}

#[test]
fn long_lines_are_refused_without_reading_them_whole() {
    let line = |length: usize| format!("q 0 {} 1", "a".repeat(length - 6));
    assert!(qrels(&line(64 << 10)).is_ok());
    assert!(qrels(&format!("{}\n", line(64 << 10))).is_ok());
    let too_long = Error::LineTooLong {
        path: path("qrels.txt"),
        line: 2,
        limit: 64 << 10,
    };
    let text = format!("q 0 b 1\n{}\n", line((64 << 10) + 1));
    assert_eq!(qrels(&text).unwrap_err(), too_long);
    // A stream without an end and without a line.
    let endless = BufReader::new(io::repeat(b'a'));
    assert!(matches!(
        Run::read(endless, Path::new("r")),
        Err(Error::LineTooLong { line: 1, .. })
    ));
}

#[test]
fn a_reader_that_fails_is_reported() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let reader = BufReader::new((&b"q 0 a 1\n"[..]).chain(Broken));
    let error = Qrels::read(reader, Path::new("q.txt")).unwrap_err();
    assert_eq!(error.to_string(), "q.txt: reading failed: the disk is gone");
}

#[test]
fn ids_survive_as_fields() {
    assert_eq!(escape("plain-id_é.wav"), "plain-id_é.wav");
    assert_eq!(escape("a b\t\u{b}\u{3000}\0%"), "a%20b%09%0B%E3%80%80%00%25");
    for kept in ["%", "%2", "%zz", "100%!", "%FF", "%+1"] {
        assert_eq!(unescape(kept), kept);
    }
    assert_eq!(unescape("%e3%80%80"), "\u{3000}");
}

#[test]
fn gains_and_scores_are_written_plainly() {
    let mut out = Vec::new();
    let gains = [("a", 2.0), ("b", 0.25), ("c", -1.0), ("d", -0.0), ("e", 1e-7)];
    write_qrels(&mut out, "q 1", gains.into_iter()).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "q%201 0 a 2\nq%201 0 b 0.25\nq%201 0 c -1\nq%201 0 d 0\nq%201 0 e 0.0000001\n"
    );
    let mut out = Vec::new();
    write_run(&mut out, "q", [("a", 0.1), ("b c", -2.0)].into_iter(), "my tag").unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "q Q0 a 1 0.1 my%20tag\nq Q0 b%20c 2 -2.0 my%20tag\n"
    );
    let refused = |query: &str, item: &str, score: f32, tag: &str| {
        write_run(&mut Vec::new(), query, [(item, score)].into_iter(), tag).map_err(|error| error.kind())
    };
    for result in [
        refused("", "a", 1.0, "t"),
        refused("q", "", 1.0, "t"),
        refused("q", "a", f32::NAN, "t"),
        refused("q", "a", 1.0, ""),
    ] {
        assert_eq!(result, Err(io::ErrorKind::InvalidInput));
    }
    assert!(write_qrels(&mut Vec::new(), "q", [("a", f64::INFINITY)].into_iter()).is_err());
}

/// The scores are one number in 32 bits, so the ids decide: as trec_eval has it, the higher one stands first.
#[test]
fn scores_are_compared_in_32_bits() {
    let text = "q Q0 a 1 1.000000001 t\nq Q0 b 2 1.0 t\nq Q0 é 3 1 t\n";
    let rank = |item: &str| {
        let scored = score(text, &format!("q 0 {item} 1"), by_id()).unwrap();
        scored.report.queries[0].first_rank
    };
    assert_eq!((rank("é"), rank("b"), rank("a")), (1, 2, 3));
    // Just above the middle between 1 and the next number. Through 64 bits it is the middle, and then 1.
    let twice = "q Q0 a 1 1.000000059604644775390626 t\nq Q0 b 2 1 t\n";
    let scored = score(twice, "q 0 b 1", by_id()).unwrap();
    assert_eq!(scored.report.queries[0].first_rank, 1);
}

/// Relevant are b (gain 3), d (gain 1) and x, which is not listed (gain 2): found at the ranks 2 and 4.
#[test]
fn what_is_not_listed_is_not_found() {
    let text = "q Q0 a 1 9 t\nq Q0 b 2 8 t\nq Q0 c 3 7 t\nq Q0 d 4 6 t\n";
    let scored = score(text, "q 0 b 3\nq 0 d 1\nq 0 x 2\nq 0 a -1\nq 0 c 0\n", by_id()).unwrap();
    let query = scored.report.queries[0];
    assert_eq!((query.first_rank, query.reciprocal_rank), (2, 0.5));
    assert_eq!(query.average_precision, (1.0 / 2.0 + 2.0 / 4.0) / 3.0);
    assert_eq!(query.recall, [0.0, 2.0 / 3.0, 2.0 / 3.0]);
    assert_eq!(query.hit, [false, true, true]);
    let dcg = 3.0 / 3_f64.log2() + 1.0 / 5_f64.log2();
    let ideal = 3.0 + 2.0 / 3_f64.log2() + 1.0 / 2.0;
    assert!((scored.graded.mean - dcg / ideal).abs() < 1e-15);
    // Five items are named, three of them relevant.
    let chance = metrics::chance(5, 3, 10).unwrap();
    assert_eq!(scored.report.chance, chance);
}

#[test]
fn a_list_without_a_relevant_item_counts_as_nothing() {
    let text = "p Q0 a 1 1 t\nq Q0 a 1 1 t\nr Q0 a 1 1 t\n";
    let scored = score(text, "p 0 b 1\nq 0 a 1\nr 0 c 1\n", by_id()).unwrap();
    let lost = scored.report.queries[0];
    assert_eq!(lost, metrics::QueryMetrics::default());
    assert_eq!(scored.report.mean.reciprocal_rank, 1.0 / 3.0);
    assert_eq!(scored.graded.queries, [0.0, 1.0, 0.0]);
    // Two of three ranks are infinitely far.
    assert_eq!(scored.report.median_rank, f64::INFINITY);
    let scored = score(text, "p 0 b 1\nq 0 a 1\nr 0 a 1\n", by_id()).unwrap();
    assert_eq!(scored.report.median_rank, 1.0);
    let two = score("p Q0 a 1 1 t\nq Q0 a 1 1 t\n", "p 0 b 1\nq 0 a 1\n", by_id()).unwrap();
    assert_eq!(two.report.median_rank, f64::INFINITY);
}

#[test]
fn queries_must_match_unless_told_otherwise() {
    let text = "p Q0 a 1 1 t\nq Q0 a 1 1 t\nr Q0 a 1 1 t\n";
    let partial = Options {
        partial: true,
        ..by_id()
    };
    let judged = "p 0 a 1\nx 0 a 1\nq 0 a 1\ny 0 a 1\nr 0 a 1\n";
    assert_eq!(
        score(text, judged, by_id()),
        Err(Error::QueriesNotRun {
            count: 2,
            first: "x".into()
        })
    );
    assert_eq!(score(text, judged, partial).unwrap().queries, ["p", "q", "r"]);
    // q has judgements, but nothing relevant.
    let judged = "p 0 a 1\nq 0 a 0\nq 0 b -2\n";
    assert_eq!(
        score(text, judged, by_id()),
        Err(Error::QueriesNotJudged {
            count: 2,
            first: "q".into()
        })
    );
    assert_eq!(score(text, judged, partial).unwrap().queries, ["p"]);
    for options in [partial, by_id()] {
        assert!(score(text, "x 0 a 1\n", options).is_err());
    }
    assert_eq!(score(text, "x 0 a 1\n", partial), Err(Error::NoQueries));
    assert_eq!(score(text, "p 0 a 0\n", partial), Err(Error::NoQueries));
}

#[test]
fn chance_takes_the_collection() {
    let with = |items| {
        let options = Options { items, ..by_id() };
        score("q Q0 a 1 1 t\nq Q0 b 2 1 t\n", "q 0 c 1\nq 0 a 0\n", options)
    };
    assert_eq!(with(None), with(Some(3)));
    let of_many = with(Some(1000)).unwrap();
    assert_eq!(of_many.report.chance, metrics::chance(1000, 1, 10).unwrap());
    assert!(of_many.graded.chance > 0.0 && of_many.graded.chance < 0.01);
    assert_eq!(
        with(Some(2)),
        Err(Error::CollectionTooSmall { items: 2, named: 3 })
    );
    assert!(matches!(
        with(Some(usize::MAX)),
        Err(Error::Nearest(hark_nearest::Error::TooManyRows { .. }))
    ));
}

/// Whole lists of a set of vectors with frequent ties and ids full of blanks, written, read and scored: the same
/// bits as without the files, for every order of ties.
#[test]
fn written_runs_score_as_the_vectors_do() {
    let (captions, clips, dim) = (40, 8, 3);
    let numbers = |len: usize, seed: usize| -> Vec<f32> {
        (0..len)
            .map(|i| ((i * 7 + seed * 13 + i * i % 11) % 3) as f32 / 3.0)
            .collect()
    };
    let (left, right) = (numbers(captions * dim, 1), numbers(clips * dim, 2));
    let mut caption_ids: Vec<_> = (0..captions).map(|i| format!("a dog {i}% of the time")).collect();
    let mut clip_ids: Vec<_> = (0..clips).map(|i| format!("Dog bark {i}.wav")).collect();
    // Numbered in the order of their fields, for the order by keys.
    caption_ids.sort_by_key(|id| escape(id).into_owned());
    clip_ids.sort_by_key(|id| escape(id).into_owned());
    let relevant = Relevant::new((0..captions as u32).map(|i| [i / 5]), clips).unwrap();
    for ties in [Ties::default(), Ties::Hashed { seed: 9 }, Ties::Keys] {
        let key = |(place, id): (u64, &String)| if ties == Ties::Keys { place } else { tie_key(id) };
        let query_keys: Vec<_> = (0..).zip(&caption_ids).map(key).collect();
        let item_keys: Vec<_> = (0..).zip(&clip_ids).map(key).collect();
        let queries = WithIds::new(Vectors::new(&left, dim).unwrap(), &query_keys).unwrap();
        let items = WithIds::new(Vectors::new(&right, dim).unwrap(), &item_keys).unwrap();
        let options = metrics::Options {
            ties,
            ..metrics::Options::default()
        };
        let expected = metrics::evaluate(queries, items, &relevant, options, &no_progress).unwrap();
        let all = NonZeroUsize::new(clips).unwrap();
        let ranked = lists(queries, items, all, options, &no_progress).unwrap();
        let (mut written, mut judged) = (Vec::new(), Vec::new());
        for (query, id) in caption_ids.iter().enumerate() {
            let list = ranked
                .of(query)
                .map(|(item, score)| (&*clip_ids[item as usize], score));
            write_run(&mut written, id, list, "hark").unwrap();
            let clip = &*clip_ids[query / 5];
            write_qrels(&mut judged, id, [(clip, 1.0)].into_iter()).unwrap();
        }
        let run = Run::read(&*written, Path::new("run.txt")).unwrap();
        let qrels = Qrels::read(&*judged, Path::new("qrels.txt")).unwrap();
        assert_eq!((run.queries(), run.items()), (captions, clips));
        assert_eq!((qrels.queries(), qrels.items()), (captions, clips));
        let scored = evaluate(
            &run,
            &qrels,
            Options {
                ties,
                ..Options::default()
            },
        )
        .unwrap();
        assert_eq!(scored.report, expected, "{ties:?}");
    }
}

/// Ids of others that happen to look like escaped ones stay what they are, and different.
#[test]
fn other_ids_with_percent_signs_stay_apart() {
    let text = "q Q0 %41 1 1 t\nq Q0 A 2 1 t\nq Q0 %2541 3 1 t\n";
    let ranks: Vec<_> = ["%41", "A", "%2541"]
        .iter()
        .map(|item| {
            let scored = score(text, &format!("q 0 {item} 1"), Options::default()).unwrap();
            scored.report.queries[0].first_rank
        })
        .collect();
    let mut sorted = ranks.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [1, 2, 3], "{ranks:?}");
}

/// Lines that are nearly right: that finds more than arbitrary bytes do.
fn nearly_lines() -> impl Strategy<Value = Vec<u8>> {
    let field = prop_oneof![
        Just("q".to_owned()),
        Just("1".to_owned()),
        Just("-1".to_owned()),
        Just("NaN".to_owned()),
        Just("1e999".to_owned()),
        "[ab%]{1,3}",
        "\\PC{0,4}",
    ];
    let line = prop::collection::vec(field, 3..8).prop_map(|fields| fields.join(" "));
    prop::collection::vec(line, 0..12).prop_map(|lines| lines.join("\n").into_bytes())
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        bytes in prop_oneof![prop::collection::vec(any::<u8>(), 0..400), nearly_lines()],
        other in prop_oneof![prop::collection::vec(any::<u8>(), 0..100), nearly_lines()],
        partial in any::<bool>(),
        items in prop::option::of(0..40_usize),
        seed in prop::option::of(any::<u64>()),
    ) {
        let run = Run::read(&*bytes, Path::new("r"));
        let qrels = Qrels::read(&*other, Path::new("q"));
        if let (Ok(run), Ok(qrels)) = (run, qrels) {
            let ties = seed.map_or(Ties::Keys, |seed| Ties::Hashed { seed });
            let options = Options { ties, items, partial, ..Options::default() };
            if let Ok(scored) = evaluate(&run, &qrels, options) {
                prop_assert_eq!(scored.queries.len(), scored.report.queries.len());
                prop_assert!((0.0..=1.0).contains(&scored.report.mean.average_precision));
            }
        }
    }

    /// Small files that are right, scored in every way: never a panic, and metrics are shares.
    #[test]
    fn metrics_of_any_run_are_shares(
        listed in prop::collection::btree_map((0..4_u8, 0..9_u8), -2..3_i8, 1..30),
        judged in prop::collection::btree_map((0..4_u8, 0..9_u8), -1..4_i8, 1..30),
        keys in any::<bool>(),
        cut in 1..12_usize,
    ) {
        let lines = |((query, item), score): (&(u8, u8), &i8)| format!("{query} Q0 {item} 1 {score} t\n");
        let run = run(&listed.iter().map(lines).collect::<String>()).unwrap();
        let lines = |((query, item), gain): (&(u8, u8), &i8)| format!("{query} 0 {item} {gain}\n");
        let qrels = qrels(&judged.iter().map(lines).collect::<String>()).unwrap();
        let ties = if keys { Ties::Keys } else { Ties::default() };
        let cut = NonZeroUsize::new(cut).unwrap();
        let scored = evaluate(&run, &qrels, Options { cut, ties, items: None, partial: true });
        let both = judged
            .iter()
            .any(|((query, _), gain)| *gain > 0 && listed.keys().any(|(other, _)| other == query));
        prop_assert_eq!(scored.is_ok(), both);
        if let Ok(scored) = scored {
            for (query, ndcg) in scored.report.queries.iter().zip(&scored.graded.queries) {
                let share = 0.0..=1.0 + 1e-12;
                prop_assert!(share.contains(ndcg) && share.contains(&query.average_precision));
                prop_assert_eq!(query.first_rank == 0, query.reciprocal_rank == 0.0);
                prop_assert!(query.recall.iter().all(|recall| share.contains(recall)));
            }
        }
    }

    /// Any finite score reads back as it was, also through 64 bits as other readers do.
    #[test]
    fn scores_read_back_the_same(bits in any::<u32>(), id in "\\PC{1,8}") {
        let score = f32::from_bits(bits);
        prop_assume!(score.is_finite());
        let mut out = Vec::new();
        write_run(&mut out, &id, [(&*id, score)].into_iter(), "t").unwrap();
        let read = Run::read(&*out, Path::new("r")).unwrap();
        prop_assert_eq!(read.0.lists[0][0].1.to_bits(), score.to_bits());
        prop_assert_eq!(unescape(&read.0.items.list[0]), id);
    }
}
