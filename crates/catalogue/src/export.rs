//! Hits as CSV for spreadsheets and as M3U for players.

use crate::{AudioInfo, Hit};

/// Between the values of one cell.
const BETWEEN: &str = "; ";

/// A table (RFC 4180), one row a hit.
pub fn csv(hits: &[Hit]) -> String {
    let mut out = "rank,score,path,start,end,seconds,rate,channels,date,tags,heard,captions\r\n".to_owned();
    let number = |n: Option<f64>| n.map_or_else(String::new, |n| n.to_string());
    for hit in hits {
        let sound = &hit.file.sound;
        let row = [
            hit.rank.to_string(),
            hit.score.to_string(),
            text(&hit.file.path),
            number(hit.start),
            number(hit.end),
            sound.seconds.to_string(),
            sound.rate.to_string(),
            sound.channels.to_string(),
            text(&hit.file.day()),
            text(&hit.file.notes.tags.join(BETWEEN)),
            text(&heard_names(&hit.file.sound).join(BETWEEN)),
            text(&hit.file.notes.captions.join(BETWEEN)),
        ];
        out.push_str(&row.join(","));
        out.push_str("\r\n");
    }
    out
}

fn heard_names(sound: &AudioInfo) -> Vec<&str> {
    sound.heard.iter().map(|heard| heard.name.as_str()).collect()
}

/// A cell of text. Spreadsheets run what begins like a formula, whoever wrote it: an apostrophe keeps it text.
fn text(value: &str) -> String {
    let risky = value.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let value = if risky {
        format!("'{value}")
    } else {
        value.to_owned()
    };
    if value.contains(['"', ',', '\r', '\n']) {
        format!("\"{}\"", value.replace('"', "\"\""))
    } else {
        value
    }
}

/// A list for players, in UTF-8. A hit within a recording begins at its time, for players that know how.
pub fn m3u(hits: &[Hit]) -> String {
    let mut out = "#EXTM3U\n".to_owned();
    for hit in hits {
        let path = &hit.file.path;
        let title: String = path
            .rsplit('/')
            .next()
            .unwrap_or(path)
            .chars()
            .filter(|c| !c.is_control())
            .collect();
        let seconds = hit.file.sound.seconds.round();
        out.push_str(&format!("#EXTINF:{seconds},{title}\n"));
        if let Some(start) = hit.start {
            out.push_str(&format!("#EXTVLCOPT:start-time={start}\n"));
        }
        out.push_str(&line(path));
        out.push('\n');
    }
    out
}

/// A path as a line. One that would break the line, or be taken for something else, is written as an address.
fn line(path: &str) -> String {
    if path.starts_with('/') && !path.chars().any(char::is_control) {
        return path.to_owned();
    }
    let coded: String = path
        .bytes()
        .map(|b| match b {
            b if b.is_ascii_alphanumeric() || b"-_.~/:".contains(&b) => char::from(b).to_string(),
            b => format!("%{b:02X}"),
        })
        .collect();
    let slash = if coded.starts_with('/') { "" } else { "/" };
    format!("file://{slash}{coded}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells() {
        for (value, cell) in [
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            ("=1+1", "'=1+1"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@x", "'@x"),
            ("\tx", "'\tx"),
            ("=HYPERLINK(\"x\",\"y\")", "\"'=HYPERLINK(\"\"x\"\",\"\"y\"\")\""),
            ("", ""),
        ] {
            assert_eq!(text(value), cell);
        }
    }

    #[test]
    fn lines_of_lists() {
        assert_eq!(line("/a/Rëgen 1.wav"), "/a/Rëgen 1.wav");
        assert_eq!(line("/a/two\nlines.wav"), "file:///a/two%0Alines.wav");
        assert_eq!(line("C:/a#b.wav"), "file:///C:/a%23b.wav");
    }
}
