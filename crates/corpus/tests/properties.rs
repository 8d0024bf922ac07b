//! Properties of the readers over generated files.

use std::path::Path;

use hark_corpus::{CaptionSet, Error, Format, read_ratings_from};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const NAMES: [&str; 6] = ["x", "x.csv", "x.tsv", "x.txt", "x.json", "x.jsonl"];

fn formats() -> Vec<Format> {
    let table = Format::Table {
        captions: vec!["caption".into()],
        id: Some("id".into()),
    };
    vec![
        Format::Auto,
        Format::Clotho,
        Format::AudioCaps,
        Format::WavCaps,
        Format::Text,
        table,
    ]
}

/// Whether a message names the file, where readers look for it.
fn names(message: &str, file: &str) -> bool {
    message
        .strip_prefix("cannot read ")
        .unwrap_or(message)
        .starts_with(file)
}

/// Every reader, on any bytes: captions that keep the promises of [`CaptionSet`], or an error that names the file.
fn check_any(bytes: &[u8]) {
    for name in NAMES {
        for format in formats() {
            match CaptionSet::read_from(bytes, Path::new(name), &format) {
                Ok(set) => {
                    assert!(set.captions_by_clip().iter().all(|captions| !captions.is_empty()));
                    assert_eq!(set.clip_index().len(), set.clips.len());
                    let lines = bytes.split(|&byte| byte == b'\n').count() as u64;
                    for caption in &set.captions {
                        assert!(!caption.text.is_empty() && caption.text == caption.text.trim());
                        assert!((1..=lines).contains(&caption.line));
                    }
                }
                Err(error) => assert!(names(&error.to_string(), name), "{error}"),
            }
        }
    }
    match read_ratings_from(bytes, Path::new("r.csv")) {
        Ok(ratings) => assert!(
            ratings
                .iter()
                .all(|rating| (0.0..=100.0).contains(&rating.rating))
        ),
        Err(error) => assert!(names(&error.to_string(), "r.csv"), "{error}"),
    }
}

/// Pieces of real files, so that generated ones get past the first check.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "file_name,caption_1,caption_2\n",
        "audiocap_id,youtube_id,start_time,caption\n",
        "query,query_file,candidate_file,group,rating\n",
        "id,caption\n",
        "{\"data\": [",
        "{\"id\": 1, \"caption\": \"Rain\"}",
        "\"caption\"",
        "\u{feff}",
        "]}",
        "a,b,c\n",
        "a,b,c,d,50\r\n",
        "\"",
        ",",
        "\t",
        "\n",
        "\r",
        "é",
    ]);
    prop_oneof![
        8 => known.prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..8),
    ]
}

/// Captions with quotes, commas, line ends, any script; never blank, since blank ones are refused.
fn caption() -> impl Strategy<Value = String> {
    prop_oneof!["\\PC{1,40}", "[a-z\", \t\r\n;é雨]{1,20}"]
        .prop_filter("a caption says something", |text| !text.trim().is_empty())
}

/// Clips of two captions each.
fn clips() -> impl Strategy<Value = Vec<[String; 2]>> {
    prop::collection::vec([caption(), caption()], 1..12)
}

fn trimmed(clips: &[[String; 2]]) -> Vec<&str> {
    clips.iter().flatten().map(|text| text.trim()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(20),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check_any(&bytes);
    }

    #[test]
    fn any_fragments_are_read_or_refused(fragments in prop::collection::vec(fragment(), 0..12)) {
        check_any(&fragments.concat());
    }

    #[test]
    fn a_written_csv_reads_back_equal(clips in clips(), crlf: bool, mark: bool, tabs: bool) {
        let terminator = if crlf { csv::Terminator::CRLF } else { csv::Terminator::Any(b'\n') };
        let delimiter = if tabs { b'\t' } else { b',' };
        let start = if mark { "\u{feff}" } else { "" };
        let mut writer = csv::WriterBuilder::new()
            .terminator(terminator)
            .delimiter(delimiter)
            .from_writer(start.as_bytes().to_vec());
        writer.write_record(["file_name", "caption_1", "caption_2"]).unwrap();
        // The line at which each row begins: line feeds within fields count.
        let mut line = 2;
        let mut lines = Vec::new();
        for (number, [first, second]) in clips.iter().enumerate() {
            writer.write_record([&format!("{number}.wav"), first, second]).unwrap();
            lines.extend([line, line]);
            line += 1 + (first.matches('\n').count() + second.matches('\n').count()) as u64;
        }
        let file = writer.into_inner().unwrap();

        let name = if tabs { "x.tsv" } else { "x.csv" };
        let set = CaptionSet::read_from(&*file, Path::new(name), &Format::Auto).unwrap();
        prop_assert_eq!(set.texts(), trimmed(&clips));
        prop_assert_eq!(set.captions.iter().map(|caption| caption.line).collect::<Vec<_>>(), lines);
        let ids: Vec<String> = (0..clips.len()).map(|number| format!("{number}.wav")).collect();
        prop_assert_eq!(&set.clips, &ids);
    }

    #[test]
    fn written_json_reads_back_equal(clips in clips(), pretty: bool) {
        let rows: Vec<_> = clips.iter().enumerate()
            .map(|(id, texts)| serde_json::json!({"id": id, "caption": texts, "more": {"x": [null, 1.5]}}))
            .collect();
        let lines = rows.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        let format = Format::Table { captions: vec!["caption".into()], id: Some("id".into()) };
        let from_lines = CaptionSet::read_from(lines.as_bytes(), Path::new("x.jsonl"), &format).unwrap();
        prop_assert_eq!(from_lines.texts(), trimmed(&clips));

        let document = serde_json::json!({"data": rows, "after": [[]]});
        let document = if pretty { format!("{document:#}") } else { document.to_string() };
        let from_document = CaptionSet::read_from(document.as_bytes(), Path::new("x.json"), &Format::Auto).unwrap();
        prop_assert_eq!(from_document.texts(), trimmed(&clips));
        prop_assert_eq!(from_document.clips, from_lines.clips);
    }

    #[test]
    fn a_cut_file_never_gives_other_captions(mut clips in clips(), cut in 0.0..1.0) {
        // A cut between the two halves of a doubled quote leaves a whole field: nothing can tell.
        clips.iter_mut().flatten().for_each(|text| *text = text.replace('"', "'"));
        let mut writer = csv::WriterBuilder::new().quote_style(csv::QuoteStyle::Always).from_writer(Vec::new());
        writer.write_record(["file_name", "caption_1", "caption_2"]).unwrap();
        for (number, [first, second]) in clips.iter().enumerate() {
            writer.write_record([&format!("{number}.wav"), first, second]).unwrap();
        }
        let file = writer.into_inner().unwrap();
        let end = (file.len() as f64 * cut) as usize;
        match CaptionSet::read_from(&file[..end], Path::new("x.csv"), &Format::Auto) {
            // Whole rows are left, since every field is quoted.
            Ok(set) => prop_assert_eq!(set.texts(), &trimmed(&clips)[..set.captions.len()]),
            Err(error) => prop_assert!(
                matches!(
                    error,
                    Error::NoCaptions { .. }
                        | Error::Empty { .. }
                        | Error::UnclosedQuote { .. }
                        | Error::Ragged { .. }
                        | Error::InvalidUtf8 { .. }
                        | Error::UnknownColumns { .. }
                ),
                "{}", error
            ),
        }
    }
}
