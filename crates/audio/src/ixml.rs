//! The leaves of an `iXML` document, by flat names.
//!
//! In: the text of an `iXML` chunk (iXML specification 3.01), whoever wrote it. Out: for each element that holds text and
//! no other element, its path below the root in lower case with dots between, such as `scene` or `location.location_name`,
//! and its text. The block `USER`, in which programs for sound libraries write what they like, is left out of the path:
//! its `KEYWORDS` are `keywords`. Texts of one name, such as the names of all tracks, are joined by `; `, each once. Left out
//! is what describes the file and not the sound: counts, identifiers, timecode.
//!
//! This reads as much of XML as such chunks use: elements, text, `CDATA`, comments, processing instructions, the five
//! predefined entities and references to characters. Other entities stay as they are written. A document type is where
//! entities are declared that grow without end; no recorder writes one, and a document that has one gives nothing. Where a
//! document breaks off or is not well formed, reading stops, and what was whole before that is kept.

use std::collections::BTreeMap;

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
    let mut rest = document;
    while let Some((piece, after)) = next_piece(rest) {
        rest = after;
        match piece {
            Piece::Text(text) => add_text(&mut open, &resolved(text)),
            Piece::Verbatim(text) => add_text(&mut open, text),
            Piece::Start { name, empty } => {
                if let Some(parent) = open.last_mut() {
                    parent.has_children = true;
                }
                if !empty {
                    open.push(Element::new(name));
                }
            }
            Piece::End(name) => match open.pop() {
                Some(element) if element.name == name => keep(&open, &element, &mut found),
                _ => break,
            },
            Piece::Nothing => {}
            Piece::DocumentType => return BTreeMap::new(),
        }
    }
    found
}

/// An element whose end has not come yet.
struct Element<'a> {
    name: &'a str,
    text: String,
    has_children: bool,
}

impl<'a> Element<'a> {
    fn new(name: &'a str) -> Self {
        Self {
            name,
            text: String::new(),
            has_children: false,
        }
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
fn keep<'a>(parents: &[Element<'a>], element: &Element<'a>, found: &mut BTreeMap<String, String>) {
    let Some(text) = clean(element.text.as_bytes()).filter(|_| !element.has_children) else {
        return;
    };
    // The root itself has no name in a path; without one there is no document.
    let Some(blocks) = parents.get(1..).filter(|blocks| blocks.len() < MAX_DEPTH) else {
        return;
    };
    let names = blocks.iter().chain([element]).map(|e| e.name);
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

/// What a document is made of.
enum Piece<'a> {
    Text(&'a str),
    /// Text in which `&` is just itself.
    Verbatim(&'a str),
    Start {
        name: &'a str,
        empty: bool,
    },
    End(&'a str),
    /// Comments and instructions.
    Nothing,
    DocumentType,
}

/// The next piece and what follows it; `None` at the end, and where the document is not well formed.
fn next_piece(document: &str) -> Option<(Piece<'_>, &str)> {
    let Some(markup) = document.strip_prefix('<') else {
        let end = document.find('<').unwrap_or(document.len());
        let (text, rest) = document.split_at(end);
        return (!text.is_empty()).then_some((Piece::Text(text), rest));
    };
    if let Some(comment) = markup.strip_prefix("!--") {
        return comment.split_once("-->").map(|(_, rest)| (Piece::Nothing, rest));
    }
    if let Some(text) = markup.strip_prefix("![CDATA[") {
        return text
            .split_once("]]>")
            .map(|(text, rest)| (Piece::Verbatim(text), rest));
    }
    if let Some(instruction) = markup.strip_prefix('?') {
        return instruction
            .split_once("?>")
            .map(|(_, rest)| (Piece::Nothing, rest));
    }
    if markup.starts_with('!') {
        return Some((Piece::DocumentType, ""));
    }
    let (tag, rest) = markup.split_at(end_of_tag(markup)?);
    let rest = &rest[1..];
    if let Some(name) = tag.strip_prefix('/') {
        return Some((Piece::End(name.trim_end()), rest));
    }
    let (tag, empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
    let name = tag.split(char::is_whitespace).next().unwrap_or_default();
    (!name.is_empty()).then_some((Piece::Start { name, empty }, rest))
}

/// Where the `>` of a tag is: not one within the quotes of an attribute. A `<` there means that it was never closed.
fn end_of_tag(markup: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in markup.char_indices() {
        match (quote, c) {
            (None, '>') => return Some(at),
            (_, '<') => return None,
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    None
}

/// Text with its references replaced by what they stand for; those that are not known stay.
fn resolved(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        // The longest reference that can be right is `&#1114111;`; what ends further on is none.
        let end = after.bytes().take(9).position(|b| b == b';');
        let reference = end.and_then(|end| Some((character(after.get(..end)?)?, after.get(end + 1..)?)));
        let (c, after) = reference.unwrap_or(('&', after));
        out.push(c);
        rest = after;
    }
    out.push_str(rest);
    out
}

/// What stands between `&` and `;`. Characters that XML does not allow, such as zero bytes, are not known.
fn character(reference: &str) -> Option<char> {
    let number = match reference {
        "amp" => return Some('&'),
        "lt" => return Some('<'),
        "gt" => return Some('>'),
        "quot" => return Some('"'),
        "apos" => return Some('\''),
        _ => reference.strip_prefix('#')?,
    };
    let (digits, base) = number.strip_prefix('x').map_or((number, 10), |hex| (hex, 16));
    // A sign would be taken for a part of the number.
    if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let c = char::from_u32(u32::from_str_radix(digits, base).ok()?)?;
    (!c.is_control() || matches!(c, '\t' | '\n' | '\r')).then_some(c)
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
        assert_eq!(resolved(text), text.replace("&#65;", "A"));
        // What a reference gives is not read again.
        assert_eq!(resolved("&amp;lt;"), "&lt;");
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
