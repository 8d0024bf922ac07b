//! Writing runs and judgements.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

/// An id as one field of a line: white space, control characters and `%` become `%` and two hexadecimal digits for
/// each byte, as in addresses. Other ids stay as they are.
///
/// ```
/// use hark_metrics::trec::{escape, unescape};
///
/// assert_eq!(escape("rain on tin.wav"), "rain%20on%20tin.wav");
/// assert_eq!(unescape("rain%20on%20tin.wav"), "rain on tin.wav");
/// assert_eq!(escape("100%"), "100%25");
/// ```
pub fn escape(id: &str) -> Cow<'_, str> {
    // White space beyond ASCII is a separator for some of the programs that read such files.
    let special = |character: char| character.is_whitespace() || character.is_control() || character == '%';
    if !id.contains(special) {
        return Cow::Borrowed(id);
    }
    let mut escaped = String::with_capacity(id.len() + 16);
    for character in id.chars() {
        if special(character) {
            for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                // Writing to a string cannot fail.
                let _ = write!(escaped, "%{byte:02X}");
            }
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

/// The id that [`escape`] made this field of. A `%` without two hexadecimal digits stays as it is, and so does the
/// whole field where the bytes would not be UTF-8.
pub fn unescape(field: &str) -> Cow<'_, str> {
    if !field.contains('%') {
        return Cow::Borrowed(field);
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        bytes.push(byte);
        if let (b'%', [high, low, after @ ..]) = (byte, after)
            && let (Some(high), Some(low)) = (digit(*high), digit(*low))
        {
            bytes.pop();
            bytes.push(high << 4 | low);
            rest = after;
        }
    }
    String::from_utf8(bytes).map_or(Cow::Borrowed(field), Cow::Owned)
}

/// Writes the lines of one query of a run, best first, with ranks from 1. Ids and the tag are [escaped](escape).
/// Scores have as many digits as it takes to read the same 32-bit number back.
///
/// ```
/// let mut out = Vec::new();
/// hark_metrics::trec::write_run(&mut out, "a dog", [("bark.wav", 0.5_f32)].into_iter(), "hark")?;
/// assert_eq!(out, b"a%20dog Q0 bark.wav 1 0.5 hark\n");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// What `out` says, and [`io::ErrorKind::InvalidInput`] for an empty id or tag, or a score that is not finite.
pub fn write_run<'a>(
    out: &mut dyn Write,
    query: &str,
    list: impl Iterator<Item = (&'a str, f32)>,
    tag: &str,
) -> io::Result<()> {
    let (query, tag) = (field(query, "query")?, field(tag, "tag")?);
    for (rank, (item, score)) in (1_u64..).zip(list) {
        let (item, score) = (field(item, "item")?, score_text(score)?);
        writeln!(out, "{query} Q0 {item} {rank} {score} {tag}")?;
    }
    Ok(())
}

/// Writes the lines of one query of a qrels file. Ids are [escaped](escape). Whole gains are written as whole
/// numbers, others as the shortest decimal that reads back the same; trec_eval itself takes whole numbers only.
///
/// # Errors
///
/// What `out` says, and [`io::ErrorKind::InvalidInput`] for an empty id or a gain that is not finite.
pub fn write_qrels<'a>(
    out: &mut dyn Write,
    query: &str,
    list: impl Iterator<Item = (&'a str, f64)>,
) -> io::Result<()> {
    let query = field(query, "query")?;
    for (item, gain) in list {
        let item = field(item, "item")?;
        if !gain.is_finite() {
            return Err(invalid(format!("the gain {gain} is not a finite number")));
        }
        // Rust writes whole numbers without a point. Adding zero takes the sign off -0.
        writeln!(out, "{query} 0 {item} {}", gain + 0.0)?;
    }
    Ok(())
}

fn field<'a>(id: &'a str, what: &str) -> io::Result<Cow<'a, str>> {
    if id.is_empty() {
        return Err(invalid(format!(
            "an empty {what} cannot be a field of a TREC file"
        )));
    }
    Ok(escape(id))
}

fn score_text(score: f32) -> io::Result<String> {
    if !score.is_finite() {
        return Err(invalid(format!("the score {score} is not a finite number")));
    }
    let shortest = format!("{score:?}");
    // Readers go through 64 bits, and being rounded twice a number may end beside the one that was meant.
    let back = shortest.parse::<f64>().map(|value| (value as f32).to_bits());
    if back == Ok(score.to_bits()) {
        Ok(shortest)
    } else {
        Ok(format!("{:?}", f64::from(score)))
    }
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}
