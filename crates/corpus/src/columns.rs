//! Which columns of a table name the recording, and which hold captions or tags: one rule for every command that reads tables.
//!
//! Names are compared without case, blanks, dashes and underscores, so that `File Name`, `file_name` and `filename` are one.

/// Names of the column of recordings, best first.
pub const FILE: [&str; 10] = [
    "path",
    "file",
    "filename",
    "filepath",
    "audio",
    "audiopath",
    "audiofile",
    "audiofilename",
    "clip",
    "name",
];
/// Names of the column of captions, best first. Without any of them, all columns `caption_1`, `caption_2` and so on.
pub const CAPTION: [&str; 5] = ["caption", "captions", "text", "description", "sentence"];
/// Names of columns of tags.
pub const TAG: [&str; 9] = [
    "tag",
    "tags",
    "keyword",
    "keywords",
    "category",
    "categories",
    "label",
    "labels",
    "genre",
];
const NUMBERED: &str = "caption";

/// The place of the column that names the recording.
pub fn file_column<S: AsRef<str>>(columns: &[S]) -> Option<usize> {
    best(columns, &FILE)
}

/// The places of the columns that hold captions.
pub fn caption_columns<S: AsRef<str>>(columns: &[S]) -> Vec<usize> {
    if let Some(column) = best(columns, &CAPTION) {
        return vec![column];
    }
    let is_numbered = |name: &S| {
        let name = plain(name.as_ref());
        let number = name.strip_prefix(NUMBERED);
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    (0..columns.len())
        .filter(|&nth| is_numbered(&columns[nth]))
        .collect()
}

/// The places of the columns that hold tags.
pub fn tag_columns<S: AsRef<str>>(columns: &[S]) -> Vec<usize> {
    let is_tag = |nth: &usize| TAG.contains(&plain(columns[*nth].as_ref()).as_str());
    (0..columns.len()).filter(is_tag).collect()
}

fn best<S: AsRef<str>>(columns: &[S], names: &[&str]) -> Option<usize> {
    let place = |wanted: &&str| columns.iter().position(|name| plain(name.as_ref()) == *wanted);
    names.iter().find_map(place)
}

fn plain(name: &str) -> String {
    let letters = name
        .chars()
        .filter(|letter| !letter.is_whitespace() && !"-_\u{feff}".contains(*letter));
    letters.flat_map(char::to_lowercase).collect()
}

/// What separates the columns of a header line: the one of comma, semicolon and tab that it has most of, outside of quotes;
/// `default` if it has none.
pub fn delimiter(header: &str, default: u8) -> u8 {
    let header = header.lines().next().unwrap_or_default();
    let mut counts = [(default, 0), (b',', 0), (b';', 0), (b'\t', 0)];
    let mut is_quoted = false;
    for byte in header.bytes() {
        is_quoted ^= byte == b'"';
        if !is_quoted && let Some((_, count)) = counts.iter_mut().find(|(delimiter, _)| *delimiter == byte) {
            *count += 1;
        }
    }
    // The first of those that are equally frequent, which is the default if it is among them.
    let most = counts.iter().map(|(_, count)| *count).max().unwrap_or(0);
    counts
        .iter()
        .find(|(_, count)| *count == most)
        .map_or(default, |(delimiter, _)| *delimiter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_known_by_their_usual_names() {
        assert_eq!(file_column(&["caption", "File Name"]), Some(1));
        assert_eq!(
            file_column(&["name", "audio-path", "x"]),
            Some(1),
            "the best of two"
        );
        assert_eq!(file_column(&["a", "b"]), None);
        assert_eq!(caption_columns(&["file", "Caption"]), [1]);
        assert_eq!(
            caption_columns(&["caption_1", "id", "caption_2", "caption_x"]),
            [0, 2]
        );
        assert_eq!(caption_columns(&["caption_1", "text"]), [1]);
        assert_eq!(tag_columns(&["file", "Category", "tags", "text"]), [1, 2]);
    }

    #[test]
    fn delimiters_are_counted_outside_of_quotes() {
        assert_eq!(delimiter("file_name,caption\nx;y;z\n", b','), b',');
        assert_eq!(delimiter("file_name;caption", b','), b';');
        assert_eq!(delimiter("file_name\tcaption", b','), b'\t');
        assert_eq!(delimiter("\"a,b,c\";caption", b','), b';');
        assert_eq!(delimiter("caption", b'\t'), b'\t');
        assert_eq!(delimiter("a,b;c", b';'), b';');
        assert_eq!(delimiter("", b','), b',');
    }
}
