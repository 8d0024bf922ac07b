//! The leaves of an `iXML` document, by flat names.
//!
//! In: the text of an `iXML` chunk (iXML specification 3.01), whoever wrote it. Out: for each element that holds text and
//! no other element, its path below the root in lower case with dots between, such as `scene` or `location.location_name`,
//! and its text. The block `USER`, in which programs for sound libraries write what they like, is left out of the path:
//! its `KEYWORDS` are `keywords`. Texts of one name, such as the names of all tracks, are joined by `; `, each once. Left out
//! is what describes the file and not the sound: counts, identifiers, timecode.
//!
//! `quick-xml` finds the markup. It expands no entities: the five predefined ones and references to characters are
//! replaced here, others stay as they are written. A document type is where entities are declared that grow without end;
//! no recorder writes one, and a document that has one gives nothing. Where a document breaks off or is not well formed,
//! reading stops, and every element that ended before is kept.

use std::collections::BTreeMap;

use quick_xml::errors::SyntaxError;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, Event};
use quick_xml::{Error, Reader};

use crate::metadata::{MAX_TEXT_BYTES, clean};

/// Elements deeper than this below the root are passed over: real ones are four deep.
const MAX_DEPTH: usize = 8;

/// No more names than this are kept. Real documents have some dozens.
const MAX_NAMES: usize = 256;

/// An element with a longer name than this, in bytes, is passed over.
const MAX_NAME: usize = 64;

/// Texts of one name are joined up to this length, in bytes; one alone may be as long as any text.
const MAX_JOINED: usize = 4 << 10;

/// Blocks and leaves that say nothing about the sound, by their paths.
const TECHNICAL: [&str; 17] = [
    "file_set",
    "file_uid",
    "history",
    "ixml_version",
    "loudness",
    "speed.audio_bit_depth",
    "speed.current_speed",
    "speed.digitizer_sample_rate",
    "speed.file_sample_rate",
    "speed.master_speed",
    "speed.timecode_flag",
    "speed.timecode_rate",
    "speed.timestamp_sample_rate",
    "speed.timestamp_samples_since_midnight",
    "steinberg.attr_list.attr.type",
    "sync_point_list",
    "ubits",
];

/// Leaves that only count, wherever they stand.
const COUNTS: [&str; 4] = [
    "channel_index",
    "interleave_index",
    "track_count",
    "sync_point_count",
];

/// The leaves of a document.
pub(crate) fn leaves(document: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open: Vec<Element> = Vec::new();
    let mut reader = Reader::from_str(document);
    // Recorders write `wind & rain` as it is.
    reader.config_mut().allow_dangling_amp = true;
    loop {
        match reader.read_event() {
            Ok(Event::Text(text)) => add_text(&mut open, &text.into_inner()),
            Ok(Event::CData(text)) => add_text(&mut open, &text.into_inner()),
            Ok(Event::GeneralRef(reference)) => match character(&reference) {
                Some(c) => add_text(&mut open, c.encode_utf8(&mut [0; 4])),
                None => add_text(&mut open, &format!("&{};", &*reference)),
            },
            Ok(Event::Start(start)) => {
                if start.name().into_inner().is_empty() {
                    break;
                }
                note_child(&mut open);
                open.push(Element::new(start.name().into_inner()));
            }
            Ok(Event::Empty(_)) => note_child(&mut open),
            // The reader has checked that the names of start and end are the same.
            Ok(Event::End(_)) => match open.pop() {
                Some(element) => keep(&open, &element, &mut found),
                None => break,
            },
            Ok(Event::Comment(_) | Event::Decl(_) | Event::PI(_)) => {}
            Ok(Event::DocType(_))
            | Err(Error::Syntax(SyntaxError::UnclosedDoctype | SyntaxError::InvalidBangMarkup)) => {
                return BTreeMap::new();
            }
            Ok(Event::Eof) | Err(_) => break,
        }
    }
    found
}

/// An element whose end has not come yet.
struct Element {
    name: String,
    text: String,
    has_children: bool,
}

impl Element {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            text: String::new(),
            has_children: false,
        }
    }
}

/// The innermost element is no leaf.
fn note_child(open: &mut [Element]) {
    if let Some(parent) = open.last_mut() {
        parent.has_children = true;
    }
}

/// Text of the innermost element, up to [`MAX_TEXT_BYTES`].
fn add_text(open: &mut [Element], text: &str) {
    if let Some(element) = open.last_mut() {
        element
            .text
            .push_str(cut(text, MAX_TEXT_BYTES - element.text.len().min(MAX_TEXT_BYTES)));
    }
}

/// Keeps an ended element, which stood within `parents`, if it is a leaf that says something.
fn keep(parents: &[Element], element: &Element, found: &mut BTreeMap<String, String>) {
    let Some(text) = clean(element.text.as_bytes()).filter(|_| !element.has_children) else {
        return;
    };
    // The root itself has no name in a path; without one there is no document.
    let Some(blocks) = parents.get(1..).filter(|blocks| blocks.len() < MAX_DEPTH) else {
        return;
    };
    let names = blocks.iter().chain([element]).map(|e| e.name.as_str());
    if names.clone().any(|name| name.len() > MAX_NAME) {
        return;
    }
    let mut parts: Vec<String> = names.map(plain).collect();
    if parts.len() > 1 && parts[0] == "user" {
        parts.remove(0);
    }
    let path = parts.join(".");
    let within = |block: &str| {
        path.strip_prefix(block)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let counts = parts.last().is_some_and(|leaf| COUNTS.contains(&leaf.as_str()));
    if counts || TECHNICAL.iter().any(|block| within(block)) {
        return;
    }
    if found.len() < MAX_NAMES || found.contains_key(&path) {
        join(found.entry(path).or_default(), &text);
    }
}

/// A name in lower case, without the name of its vocabulary.
fn plain(name: &str) -> String {
    name.rsplit(':').next().unwrap_or(name).to_lowercase()
}

/// Appends a text that is not there yet, as long as there is room.
fn join(texts: &mut String, text: &str) {
    if texts.is_empty() {
        text.clone_into(texts);
    } else if texts.len() + 2 + text.len() <= MAX_JOINED && texts.split("; ").all(|each| each != text) {
        texts.push_str("; ");
        texts.push_str(text);
    }
}

/// What stands between `&` and `;`, if it is known. Characters that XML does not allow, such as zero bytes, are not.
fn character(reference: &BytesRef) -> Option<char> {
    match reference.resolve_char_ref() {
        Ok(Some(c)) => (!c.is_control() || matches!(c, '\t' | '\n' | '\r')).then_some(c),
        Ok(None) => resolve_xml_entity(reference)?.chars().next(),
        Err(_) => None,
    }
}

/// The beginning of a text, at most so many bytes, without half a character.
fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len()))
        .rev()
        .find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(document: &str, expected: &[(&str, &str)]) {
        let found = leaves(document);
        let found: Vec<_> = found
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
            .collect();
        assert_eq!(found, expected, "{document}");
    }

    #[test]
    fn what_a_recorder_writes() {
        check(
            r#"<?xml version="1.0" encoding="UTF-8"?>
            <BWFXML>
              <IXML_VERSION>2.10</IXML_VERSION><PROJECT>The &quot;River&quot; &amp; I</PROJECT>
              <SCENE> 12A </SCENE><TAKE>3</TAKE><TAPE/><CIRCLED></CIRCLED>
              <!-- <NOTE>not this</NOTE> -->
              <NOTE><![CDATA[wind > 3 & rain]]></NOTE>
              <FILE_UID>XYZ</FILE_UID><UBITS>00000000</UBITS>
              <SPEED><NOTE>pilot</NOTE><MASTER_SPEED>25/1</MASTER_SPEED></SPEED>
              <TRACK_LIST><TRACK_COUNT>3</TRACK_COUNT>
                <TRACK><CHANNEL_INDEX>1</CHANNEL_INDEX><NAME>Boom</NAME></TRACK>
                <TRACK><CHANNEL_INDEX>2</CHANNEL_INDEX><NAME>Lav</NAME></TRACK>
                <TRACK><CHANNEL_INDEX>3</CHANNEL_INDEX><NAME>Boom</NAME></TRACK></TRACK_LIST>
              <USER><KEYWORDS>rain, drizzle</KEYWORDS><FXNAME a="x > y">Caf&#xE9; &#9731;</FXNAME></USER>
            </BWFXML>"#,
            &[
                ("fxname", "Caf\u{e9} \u{2603}"),
                ("keywords", "rain, drizzle"),
                ("note", "wind > 3 & rain"),
                ("project", "The \"River\" & I"),
                ("scene", "12A"),
                ("speed.note", "pilot"),
                ("take", "3"),
                ("track_list.track.name", "Boom; Lav"),
            ],
        );
    }

    #[test]
    fn free_text_of_the_user_and_names_of_vocabularies() {
        check(
            "<BWFXML><USER>made at dawn</USER></BWFXML>",
            &[("user", "made at dawn")],
        );
        check("<x:BWFXML><x:Scene\n>1</x:Scene ></x:BWFXML>", &[("scene", "1")]);
        // Text beside elements has no name of its own.
        check(
            "<BWFXML><USER>stray<CATEGORY>AMB</CATEGORY></USER></BWFXML>",
            &[("category", "AMB")],
        );
    }

    #[test]
    fn a_document_type_gives_nothing() {
        check(
            "<!DOCTYPE a [<!ENTITY b \"cc\"><!ENTITY d \"&b;&b;\">]><BWFXML><NOTE>&d;</NOTE></BWFXML>",
            &[],
        );
        check("<BWFXML><NOTE>x</NOTE><!ELEMENT y></BWFXML>", &[]);
    }

    #[test]
    fn what_is_not_well_formed_ends_the_reading() {
        for tail in [
            "<TAKE>4",
            "</SCENE>",
            "<TAKE>4</TAPE></BWFXML>",
            "<TAKE",
            "<TAKE a=\"><NOTE>x</NOTE>",
            "<>4</>",
            "<!-- no end",
            "<![CDATA[ no end",
            "<? no end",
        ] {
            check(&format!("<BWFXML><SCENE>12</SCENE>{tail}"), &[("scene", "12")]);
        }
        check("no document", &[]);
        check("<NOTE>no root above it</NOTE>", &[]);
    }

    #[test]
    fn references_that_are_none_stay() {
        let text = "&b; &#0; &#x7; &#xD800; &#-5; &#+65; &#; &; & &#99999999999; &\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}; &#65;";
        let document = format!("<R><NOTE>{text}</NOTE></R>");
        check(&document, &[("note", &text.replace("&#65;", "A"))]);
        // What a reference gives is not read again.
        check("<R><NOTE>&amp;lt;</NOTE></R>", &[("note", "&lt;")]);
    }

    #[test]
    fn depth_names_and_lengths_are_bounded() {
        let deep = format!("{}x{}", "<A>".repeat(100_000), "</A>".repeat(100_000));
        check(&deep, &[]);
        let many: String = (0..1000).map(|i| format!("<N{i}>x</N{i}>")).collect();
        assert_eq!(leaves(&format!("<R>{many}</R>")).len(), MAX_NAMES);
        let long = "\u{e9}".repeat(MAX_TEXT_BYTES);
        let found = leaves(&format!("<R><NOTE>{long}</NOTE><{long}>x</{long}></R>"));
        assert_eq!(found.len(), 1);
        assert_eq!(found["note"].len(), MAX_TEXT_BYTES);
        let often: String = (0..20_000).map(|i| format!("<NOTE>text {i}</NOTE>")).collect();
        let joined = &leaves(&format!("<R>{often}</R>"))["note"];
        assert!(joined.starts_with("text 0; text 1; ") && joined.len() <= MAX_JOINED);
        assert!(joined.len() > MAX_JOINED - 20);
    }

    proptest! {
        /// Nothing that looks nearly like a document makes it stop or run on.
        #[test]
        fn never_panics(pieces in prop::collection::vec(prop::sample::select(vec![
            "<", ">", "/", "&", ";", "#", "x", "<A>", "</A>", "<USER>", "</USER>", "<!--", "-->", "<![CDATA[", "]]>",
            "<?", "?>", "\"", "'", "\u{e9}", "&amp;", "&#x", "\0", " ", "=", "<B/>", ":",
        ]), 0..60)) {
            let document = pieces.concat();
            for (name, text) in leaves(&document) {
                prop_assert!(!name.is_empty() && !text.is_empty() && !text.contains('\0'));
            }
        }

        #[test]
        fn never_panics_on_any_text(document in ".*") {
            leaves(&document);
        }

        /// Any text that is written with references comes back as it was, but for white space around it.
        #[test]
        fn texts_come_back(text in "[^\\p{C}]{0,40}") {
            let written = text.replace('&', "&amp;").replace('<', "&lt;");
            let found = leaves(&format!("<R><NOTE>{written}</NOTE></R>"));
            prop_assert_eq!(found.get("note").map(String::as_str).unwrap_or_default(), text.trim());
        }
    }
}
