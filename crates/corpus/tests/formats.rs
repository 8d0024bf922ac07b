//! Each format as it should be, and each way in which it can be wrong. Errors are compared by their whole message,
//! causes included, since the message is what a person gets.

use std::io::{self, BufReader, Read};
use std::path::Path;

use hark_corpus::{
    CaptionSet, Error, Format, MAX_FILE_BYTES, MAX_RECORD_BYTES, Rating, read_ratings, read_ratings_from,
};

const CLOTHO: &str = "file_name,caption_1,caption_2\n";
const AUDIOCAPS: &str = "audiocap_id,youtube_id,start_time,caption\n";
const RATINGS: &str = "query,query_file,candidate_file,group,rating\n";

fn read(name: &str, bytes: impl AsRef<[u8]>, format: &Format) -> Result<CaptionSet, Error> {
    CaptionSet::read_from(bytes.as_ref(), Path::new(name), format)
}

fn auto(name: &str, bytes: impl AsRef<[u8]>) -> Result<CaptionSet, Error> {
    read(name, bytes, &Format::Auto)
}

fn table(captions: &[&str], id: Option<&str>) -> Format {
    let captions = captions.iter().map(|&name| name.to_owned()).collect();
    Format::Table {
        captions,
        id: id.map(str::to_owned),
    }
}

/// Id of the clip, text and line of every caption.
fn rows(set: &CaptionSet) -> Vec<(&str, &str, u64)> {
    set.captions
        .iter()
        .map(|caption| (&*set.clips[caption.clip], &*caption.text, caption.line))
        .collect()
}

/// The message with its causes.
fn message(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

fn refused<T: std::fmt::Debug>(result: Result<T, Error>, expected: &str) {
    assert_eq!(message(&result.unwrap_err()), expected);
}

#[test]
fn clotho() {
    let file = format!("{CLOTHO}a.wav, Rain ,\"Wind, and rain\"\n b.wav,\"Two\nlines\",Birds\nc.wav,x,y");
    let set = auto("c.csv", &file).unwrap();
    assert_eq!(set.clips, ["a.wav", " b.wav", "c.wav"]);
    assert_eq!(
        rows(&set),
        [
            ("a.wav", "Rain", 2),
            ("a.wav", "Wind, and rain", 2),
            (" b.wav", "Two\nlines", 3),
            (" b.wav", "Birds", 3),
            ("c.wav", "x", 5),
            ("c.wav", "y", 5),
        ]
    );
    assert_eq!(*set.captions[0].path, *Path::new("c.csv"));
    assert_eq!(set, read("c.csv", &file, &Format::Clotho).unwrap());
    // The same rows with tabs.
    let tabs = auto("c.tsv", "file_name\tcaption_1\na.wav\tRain, \"heavy\"\n").unwrap();
    assert_eq!(rows(&tabs), [("a.wav", "Rain, \"heavy\"", 2)]);
}

#[test]
fn byte_order_marks_and_crlf_change_nothing() {
    let plain = format!("{CLOTHO}a.wav,Rain,Wind\n\nb.wav,Birds,Crows\n");
    let expected = auto("c.csv", &plain).unwrap();
    assert_eq!(auto("c.csv", plain.replace('\n', "\r\n")).unwrap(), expected);
    assert_eq!(auto("c.csv", format!("\u{feff}{plain}")).unwrap(), expected);

    let text = auto("c.txt", "\u{feff}Rain\r\n\r\nWind").unwrap();
    assert_eq!(rows(&text), [("1", "Rain", 1), ("3", "Wind", 3)]);
    let json = auto(
        "c.json",
        "\u{feff}{\"data\": [\r\n{\"id\": \"a\", \"caption\": \"Rain\"}]}\r\n",
    )
    .unwrap();
    assert_eq!(rows(&json), [("a", "Rain", 2)]);
    let lines = read("c.jsonl", "\u{feff}{\"t\": \"Rain\"}\r\n", &table(&["t"], None)).unwrap();
    assert_eq!(rows(&lines), [("1", "Rain", 1)]);
}

#[test]
fn audiocaps_rows_of_one_clip_need_not_stand_together() {
    let file = format!("{AUDIOCAPS}1,abc,30,Rain\n2,abc,40,Wind\n3,abc,30,A downpour\n");
    let set = auto("test.csv", &file).unwrap();
    assert_eq!(set.clips, ["abc_30", "abc_40"]);
    assert_eq!(
        rows(&set),
        [
            ("abc_30", "Rain", 2),
            ("abc_40", "Wind", 3),
            ("abc_30", "A downpour", 4)
        ]
    );
    assert_eq!(set.captions_by_clip(), [vec![0, 2], vec![1]]);
    assert_eq!(
        set.captions_of(0).map(|caption| caption.line).collect::<Vec<_>>(),
        [2, 4]
    );
    assert_eq!(set.clip_by_id("abc_40"), Some(1));
    assert_eq!(set.clip_index()["abc_40"], 1);
    assert_eq!(set.clip_by_id("abc"), None);
}

#[test]
fn wavcaps() {
    let file = r#"{"num": 1, "data": [
        {"title": {"a": [1]}, "id": "2219", "caption": " Rain "}, {"caption": "Wind", "id": 7},
        {"id": 7, "caption": ["A breeze", "A gust"]}
    ], "more": null}"#;
    let set = auto("sb.json", file).unwrap();
    assert_eq!(
        rows(&set),
        [
            ("2219", "Rain", 2),
            ("7", "Wind", 2),
            ("7", "A breeze", 3),
            ("7", "A gust", 3)
        ]
    );
    assert_eq!(set, read("sb.json", file, &Format::WavCaps).unwrap());
}

#[test]
fn tables() {
    let csv = "sound,first,second\nx,Rain,Wind\ny,Birds,Crows\nx,Hail,Snow\n";
    let both = read("t.csv", csv, &table(&["first", "second"], Some("sound"))).unwrap();
    assert_eq!(both.clips, ["x", "y"]);
    assert_eq!(both.texts(), ["Rain", "Wind", "Birds", "Crows", "Hail", "Snow"]);
    let numbered = read("t.csv", csv, &table(&["second"], None)).unwrap();
    assert_eq!(
        rows(&numbered),
        [("1", "Wind", 2), ("2", "Crows", 3), ("3", "Snow", 4)]
    );
    let tsv = read("t.TSV", csv.replace(',', "\t"), &table(&["second"], None)).unwrap();
    assert_eq!(rows(&tsv), rows(&numbered));

    let lines = "{\"n\": -3, \"t\": [\"Rain\", \"Wind\"]}\n\n{\"n\": \"b\", \"t\": \"Birds\", \"x\": {}}\n";
    let set = read("t.jsonl", lines, &table(&["t"], Some("n"))).unwrap();
    assert_eq!(
        rows(&set),
        [("-3", "Rain", 1), ("-3", "Wind", 1), ("b", "Birds", 3)]
    );
    let set = read("t.ndjson", lines, &table(&["t"], None)).unwrap();
    assert_eq!(set.clips, ["1", "2"]);
}

#[test]
fn a_name_without_an_extension_is_judged_by_its_first_line() {
    let clips = |file: &str| auto("standard input", file).unwrap().clips;
    assert_eq!(clips(&format!("{CLOTHO}a.wav,Rain,Wind\n")), ["a.wav"]);
    assert_eq!(
        clips(&format!("{AUDIOCAPS}1,abc,30,Rain\n").replace(',', "\t")),
        ["abc_30"]
    );
    assert_eq!(clips(r#"{"data": [{"id": "s", "caption": "Rain"}]}"#), ["s"]);
    assert_eq!(clips("Rain, and a file_name\nWind\n"), ["1", "2"]);

    let ids = |file: &str| read("-", file, &table(&["t"], Some("n"))).unwrap().clips;
    assert_eq!(ids("n,t\na,Rain\n"), ["a"]);
    assert_eq!(ids("n\tt\na\tRain, Wind\n"), ["a"]);
    assert_eq!(ids(r#"{"n": "a", "t": "Rain"}"#), ["a"]);

    // A text file is text, whatever its first line is.
    assert_eq!(auto("x.txt", "{\"a\n").unwrap().texts(), ["{\"a"]);
}

#[test]
fn readers_that_give_one_byte_at_a_time_change_nothing() {
    struct Slow<'a>(&'a [u8]);
    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let end = buffer.len().min(1);
            self.0.read(&mut buffer[..end])
        }
    }
    let file = format!("\u{feff}{CLOTHO}a.wav,Pluie d'été,\"Two\r\nlines\"\r\nb.wav,Rain,Wind");
    let slow = BufReader::with_capacity(1, Slow(file.as_bytes()));
    let set = CaptionSet::read_from(slow, Path::new("-"), &Format::Auto).unwrap();
    assert_eq!(set, auto("-", &file).unwrap());
    assert_eq!(set.captions[0].text, "Pluie d'été");
    assert_eq!(set.captions[2].line, 4);
}

#[test]
fn nothing_to_read() {
    let formats = [
        Format::Auto,
        Format::Clotho,
        Format::AudioCaps,
        Format::WavCaps,
        Format::Text,
    ];
    for format in formats.iter().chain([&table(&["t"], None)]) {
        for name in ["x", "x.csv", "x.tsv", "x.txt", "x.json", "x.jsonl"] {
            for file in ["", "\u{feff}"] {
                refused(
                    read(name, file, format),
                    &format!("cannot read {name}: no captions"),
                );
            }
        }
    }
    refused(auto("x.csv", CLOTHO), "cannot read x.csv: no captions");
    refused(
        auto("x.csv", AUDIOCAPS.trim_end()),
        "cannot read x.csv: no captions",
    );
    refused(auto("x.txt", "\n \r\n\t"), "cannot read x.txt: no captions");
    refused(
        auto("x.json", r#"{"data": []}"#),
        "cannot read x.json: no captions",
    );
    refused(
        read("x.jsonl", "\n\n", &table(&["t"], None)),
        "cannot read x.jsonl: no captions",
    );
    refused(
        read_ratings_from("".as_bytes(), Path::new("r.csv")),
        "cannot read r.csv: no ratings",
    );
    refused(
        read_ratings_from(RATINGS.as_bytes(), Path::new("r.csv")),
        "cannot read r.csv: no ratings",
    );
}

#[test]
fn empty_captions_and_ids() {
    refused(
        auto("x.csv", format!("{CLOTHO}a.wav,Rain,Wind\nb.wav,Rain, \n")),
        r#"x.csv: line 3: "caption_2" is empty"#,
    );
    refused(
        auto("x.csv", format!("{CLOTHO} ,Rain,Wind\n")),
        r#"x.csv: line 2: "file_name" is empty"#,
    );
    refused(
        auto("x.csv", format!("{AUDIOCAPS}1,a,0,\n")),
        r#"x.csv: line 2: "caption" is empty"#,
    );
    refused(
        auto("x.csv", format!("{AUDIOCAPS}1,,0,Rain\n")),
        r#"x.csv: line 2: "youtube_id" is empty"#,
    );
    refused(
        auto("x.csv", format!("{AUDIOCAPS}1,a,,Rain\n")),
        r#"x.csv: line 2: "start_time" is empty"#,
    );
    refused(
        auto(
            "x.json",
            r#"{"data": [{"id": 1, "caption": "Rain"}, {"id": 2, "caption": ""}]}"#,
        ),
        r#"x.json: line 1, entry 2 of the list: "caption" is empty"#,
    );
    refused(
        auto("x.json", r#"{"data": [{"id": "", "caption": "Rain"}]}"#),
        r#"x.json: line 1, entry 1 of the list: "id" is empty"#,
    );
    let format = table(&["t"], None);
    refused(
        read("x.csv", "n,t\n1,\n", &format),
        r#"x.csv: line 2: "t" is empty"#,
    );
    for value in [r#""""#, "[]", r#"["Rain", " "]"#] {
        refused(
            read("x.jsonl", format!("\n{{\"t\": {value}}}\n"), &format),
            r#"x.jsonl: line 2: "t" is empty"#,
        );
    }
}

#[test]
fn columns_that_are_not_there() {
    refused(
        auto("x.csv", "file_name,category\na.wav,dog\n"),
        "cannot read x.csv: unknown columns \"file_name\", \"category\"; name the one that holds captions with \
         --caption-column",
    );
    for name in ["x.jsonl", "x.json", "-"] {
        refused(
            auto(
                name,
                "{\"id\": 1, \"words\": \"Rain\"}\n{\"id\": 2, \"words\": \"Wind\"}\n",
            ),
            &format!(
                "cannot read {name}: unknown columns \"id\", \"words\"; name the one that holds captions with \
                 --caption-column"
            ),
        );
    }
    refused(
        read("x.csv", "\n\nname,caption_1\na.wav,Rain\n", &Format::Clotho),
        r#"x.csv: line 3: no column "file_name"; the columns are "name", "caption_1""#,
    );
    refused(
        read("x.csv", "file_name,caption_x\na.wav,Rain\n", &Format::Clotho),
        r#"x.csv: line 1: no column "caption_1"; the columns are "file_name", "caption_x""#,
    );
    refused(
        read("x.csv", CLOTHO, &Format::AudioCaps),
        r#"x.csv: line 1: no column "youtube_id"; the columns are "file_name", "caption_1", "caption_2""#,
    );
    refused(
        read("x.json", r#"{"items": []}"#, &Format::WavCaps),
        r#"x.json: line 1: no column "data"; the columns are "items""#,
    );
    refused(
        auto("x.json", r#"{"data": [{"id": 1, "text": "Rain"}]}"#),
        r#"x.json: line 1, entry 1 of the list: no column "caption"; the columns are "id", "text""#,
    );
    refused(
        read("x.csv", "n,t\n1,Rain\n", &table(&["t"], Some("id"))),
        r#"x.csv: line 1: no column "id"; the columns are "n", "t""#,
    );
    refused(
        read(
            "x.jsonl",
            "{\"t\": \"Rain\"}\n{\"u\": \"Wind\"}\n",
            &table(&["t"], None),
        ),
        r#"x.jsonl: line 2: no column "t"; the columns are "u""#,
    );
    refused(
        read("x.csv", "t,t\n1,Rain\n", &table(&["t"], None)),
        r#"cannot read x.csv: two columns are named "t"; rename one"#,
    );
    // A table with no column named is a table that nobody has described.
    let error = read("x.csv", "n,t\n1,Rain\n", &table(&[], None)).unwrap_err();
    assert!(matches!(error, Error::UnknownColumns { .. }), "{error}");
}

#[test]
fn rows_of_the_wrong_length() {
    let file = format!("{CLOTHO}a.wav,\"Two\r\nlines\",Wind\r\nb.wav,Rain\r\n");
    refused(
        auto("x.csv", file),
        "x.csv: line 4: 2 fields, expected 3 as in the header",
    );
    let file = format!("{AUDIOCAPS}1,a,0,Rain, and wind\n");
    refused(
        auto("x.csv", file),
        "x.csv: line 2: 5 fields, expected 4 as in the header",
    );
    let file = format!("{RATINGS}Rain,a,b,C15\n");
    refused(
        read_ratings_from(file.as_bytes(), Path::new("r.csv")),
        "r.csv: line 2: 4 fields, expected 5 as in the header",
    );
}

#[test]
fn an_open_quote_does_not_swallow_the_rows_after_it() {
    refused(
        auto(
            "x.csv",
            format!("{AUDIOCAPS}1,a,0,Rain\n2,b,0,\"Wind\n3,c,0,Birds\n"),
        ),
        "x.csv: line 3: unclosed quote",
    );
    refused(
        auto("x.csv", "file_name,\"caption_1\n"),
        "x.csv: line 1: unclosed quote",
    );
}

#[test]
fn bytes_that_are_not_text() {
    let names = ["x.csv", "x.tsv", "x.txt", "x.json", "x.jsonl", "x"];
    for name in names {
        refused(
            auto(name, b"RIFF\x24\x00\x00\x00WAVEfmt "),
            &format!("{name}: line 1: NUL byte; the file is binary, or not UTF-8"),
        );
        refused(
            auto(name, b"caf\xe9\n"),
            &format!("{name}: line 1: not valid UTF-8; save the file as UTF-8"),
        );
    }
    let latin_1 = [
        CLOTHO.as_bytes(),
        b"a.wav,\"Two\nlines\",Wind\nb.wav,Caf\xe9,Rain\n",
    ]
    .concat();
    refused(
        auto("x.csv", latin_1),
        "x.csv: line 4: not valid UTF-8; save the file as UTF-8",
    );
    refused(
        auto("x.txt", b"Rain\nWind\0\n"),
        "x.txt: line 2: NUL byte; the file is binary, or not UTF-8",
    );
    // As some editors write it: UTF-16 with its byte order mark.
    let utf_16: Vec<u8> = "\u{feff}Rain\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let error = auto("x.txt", utf_16).unwrap_err();
    assert!(matches!(error, Error::Binary { line: 1, .. }), "{error}");
}

#[test]
fn malformed_json() {
    refused(
        auto(
            "x.json",
            "{\"data\": [\n{\"id\": 1, \"caption\": \"Rain\"},\n{\"id\": ?}]}",
        ),
        "x.json: line 3, column 8: unexpected JSON: expected value",
    );
    refused(
        auto("x.json", "{\"data\": ["),
        "x.json: line 1, column 10: unexpected JSON: EOF while parsing a list",
    );
    refused(
        auto("x.json", "{\"data\": [{\"id\": 1, \"caption\": \"Rain\"}]}\n]"),
        "x.json: line 2, column 1: unexpected JSON: trailing characters",
    );
    refused(
        auto("x.json", "[1]"),
        "x.json: line 1, column 1: unexpected JSON: invalid type: sequence, expected an object with \
         a list called `data`",
    );
    refused(
        auto("x.json", "{\"data\": {}}"),
        "x.json: line 1, column 10: unexpected JSON: invalid type: map, expected a list of objects \
         with `id` and `caption`",
    );
    refused(
        read("x.jsonl", "{\"t\": \"Rain\"}\n{\"t\": }\n", &table(&["t"], None)),
        "x.jsonl: line 2, column 7: unexpected JSON: expected value",
    );
    refused(
        read("x.jsonl", "{\"t\": \"Rain\"} {}\n", &table(&["t"], None)),
        "x.jsonl: line 1, column 15: unexpected JSON: trailing characters",
    );
    let deep = format!("{{\"t\": {}", "[".repeat(100_000));
    let error = read("x.jsonl", deep, &table(&["t"], None)).unwrap_err();
    assert!(
        message(&error).ends_with("recursion limit exceeded"),
        "{}",
        message(&error)
    );
    let twice = r#"{"data": [{"id": 1, "caption": "Rain"}], "data": []}"#;
    let error = auto("x.json", twice).unwrap_err();
    assert!(
        message(&error).ends_with("duplicate field `data`"),
        "{}",
        message(&error)
    );
}

#[test]
fn json_of_the_wrong_type() {
    let format = table(&["t"], Some("n"));
    for (value, kind) in [
        ("5", "a number"),
        ("null", "null"),
        ("true", "true or false"),
        ("{}", "an object"),
        ("[\"Rain\", 5]", "a list of other things than text"),
    ] {
        refused(
            read("x.jsonl", format!("{{\"n\": 1, \"t\": {value}}}"), &format),
            &format!("x.jsonl: line 1: \"t\" is {kind}, expected text or a list of text"),
        );
    }
    refused(
        read("x.jsonl", r#"{"n": 1.5, "t": "Rain"}"#, &format),
        r#"x.jsonl: line 1: "n" is a number with a fraction, or too large, expected text or a whole number"#,
    );
    refused(
        auto("x.json", r#"{"data": [{"id": ["a"], "caption": "Rain"}]}"#),
        r#"x.json: line 1, entry 1 of the list: "id" is a list of text, expected text or a whole number"#,
    );
}

#[test]
fn a_clotho_clip_stands_once() {
    let file = format!("{CLOTHO}a.wav,Rain,Wind\nb.wav,Rain,Wind\na.wav,Hail,Snow\n");
    refused(
        auto("x.csv", file),
        r#"x.csv: line 4: clip "a.wav" is already on line 2"#,
    );
}

/// A reader that fails.
struct Broken;

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the cable was pulled"))
    }
}

#[test]
fn files_that_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.csv");
    for error in [
        CaptionSet::read(&missing, &Format::Auto).unwrap_err(),
        read_ratings(&missing).unwrap_err(),
    ] {
        let text = message(&error);
        assert!(matches!(error, Error::Open(_)), "{text}");
        assert!(
            text.contains("missing.csv") && text.contains("No such file"),
            "{text}"
        );
    }
    let error = CaptionSet::read(folder.path(), &Format::Text).unwrap_err();
    assert!(
        message(&error).contains(folder.path().to_str().unwrap()),
        "{}",
        message(&error)
    );

    for name in ["x.csv", "x.json", "x.txt", "x.jsonl"] {
        let result = CaptionSet::read_from(BufReader::new(Broken), Path::new(name), &Format::Auto);
        refused(result, &format!("cannot read {name}: the cable was pulled"));
    }
    // The same in the middle of a file, where the parsers are in charge.
    for (name, start) in [("x.csv", CLOTHO), ("x.json", "{\"data\": [")] {
        let reader = BufReader::new(start.as_bytes().chain(Broken));
        let result = CaptionSet::read_from(reader, Path::new(name), &Format::Auto);
        refused(result, &format!("cannot read {name}: the cable was pulled"));
    }
}

#[test]
fn files_over_the_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.csv");
    // A sparse file: it takes no space, and would take long to read.
    fs_err::File::create(&path)
        .unwrap()
        .set_len(MAX_FILE_BYTES + 1)
        .unwrap();
    for error in [
        CaptionSet::read(&path, &Format::Auto).unwrap_err(),
        read_ratings(&path).unwrap_err(),
    ] {
        assert!(
            matches!(
                error,
                Error::TooLarge {
                    limit: MAX_FILE_BYTES,
                    ..
                }
            ),
            "{error}"
        );
    }

    let start = format!("{CLOTHO}a.wav,Rain,\"");
    let endless = BufReader::new(start.as_bytes().chain(io::repeat(b'x')));
    let error = CaptionSet::read_from(endless, Path::new("x.csv"), &Format::Auto).unwrap_err();
    assert!(
        matches!(
            error,
            Error::RecordTooLong {
                limit: MAX_RECORD_BYTES,
                ..
            }
        ),
        "{error}"
    );
    let endless = BufReader::new(&b"{\"data\": [{\"id\": \""[..]).chain(BufReader::new(io::repeat(b'x')));
    let error = CaptionSet::read_from(endless, Path::new("x.json"), &Format::Auto).unwrap_err();
    assert!(
        matches!(
            error,
            Error::RecordTooLong {
                line: 1,
                limit: MAX_RECORD_BYTES,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn merging() {
    let a = auto("a.txt", "Rain\nWind\n").unwrap();
    let b = auto("b.txt", "Birds\n").unwrap();
    let c = auto("c.csv", format!("{CLOTHO}c.wav,Hail,Snow\n")).unwrap();
    let merged = CaptionSet::merge([a.clone(), b, c.clone()]).unwrap();
    assert_eq!(
        rows(&merged),
        [
            ("a.txt:1", "Rain", 1),
            ("2", "Wind", 2),
            ("b.txt:1", "Birds", 1),
            ("c.wav", "Hail", 2),
            ("c.wav", "Snow", 2)
        ]
    );
    assert_eq!(*merged.captions[2].path, *Path::new("b.txt"));
    assert_eq!(CaptionSet::merge([c.clone()]).unwrap(), c);
    assert_eq!(CaptionSet::merge([]).unwrap(), CaptionSet::default());
    refused(
        CaptionSet::merge([a.clone(), a]),
        r#"clip "a.txt:1" of a.txt is given twice"#,
    );
}

#[test]
fn ratings() {
    let file = "\u{feff}rating,query,query_file,extra,candidate_file,group\r\n\
                62.5,\" Rain,\r\nheavy \", a.wav,x,b.wav,C15\r\n0,Wind,c.wav,x,c.wav,TP\r\n100,Wind,c.wav,x,d.wav,TN";
    let ratings = read_ratings_from(file.as_bytes(), Path::new("r.csv")).unwrap();
    let rating = |query: &str, query_clip: &str, candidate_clip: &str, group: &str, rating, line| Rating {
        query: query.into(),
        query_clip: query_clip.into(),
        candidate_clip: candidate_clip.into(),
        group: group.into(),
        rating,
        line,
    };
    assert_eq!(
        ratings,
        [
            rating("Rain,\r\nheavy", " a.wav", "b.wav", "C15", 62.5, 2),
            rating("Wind", "c.wav", "c.wav", "TP", 0.0, 4),
            rating("Wind", "c.wav", "d.wav", "TN", 100.0, 5),
        ]
    );
}

#[test]
fn ratings_that_are_none() {
    let read = |file: String| read_ratings_from(file.as_bytes(), Path::new("r.csv"));
    for value in [
        "-1", "100.5", "NaN", "inf", "-inf", "1e400", "many", "0x10", "5 0",
    ] {
        refused(
            read(format!("{RATINGS}Rain,a,b,C15,50\nRain,a,b,C15,{value}\n")),
            &format!("r.csv: line 3: rating {value:?}, expected a number from 0 to 100"),
        );
    }
    refused(
        read(format!("{RATINGS}Rain,a,b,C15,\n")),
        r#"r.csv: line 2: "rating" is empty"#,
    );
    refused(
        read(format!("{RATINGS}Rain,a,,C15,50\n")),
        r#"r.csv: line 2: "candidate_file" is empty"#,
    );
    refused(
        read("query,query_file,candidate_file,rating\n".to_owned()),
        r#"r.csv: line 1: no column "group"; the columns are "query", "query_file", "candidate_file", "rating""#,
    );
}
