//! Text as it must be written inside each of the formats, so that a name can never become markup.
//!
//! Control characters have no place in any of them, XML and LaTeX refuse some: they become spaces.

/// For the text and for the quoted attributes of HTML and SVG.
pub(super) fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in lines_kept(text) {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// For a paragraph or a table cell of Markdown (CommonMark with tables). A `<` that cannot begin a tag stays
/// as it is: `p < 0.05` should be read in the source too.
pub(super) fn markdown(text: &str) -> String {
    let text = one_line(text);
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let begins_tag = |next: Option<&char>| next.is_none_or(|c| c.is_alphabetic() || "/!?".contains(*c));
        match c {
            '&' => out.push_str("&amp;"),
            '<' if begins_tag(chars.peek()) => out.push_str("&lt;"),
            '>' if out.is_empty() => out.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' => out.extend(['\\', c]),
            other => out.push(other),
        }
    }
    out
}

/// For the text of a LaTeX document.
pub(super) fn latex(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in one_line(text).chars() {
        match c {
            '\\' => out.push_str(r"\textbackslash{}"),
            '~' => out.push_str(r"\textasciitilde{}"),
            '^' => out.push_str(r"\textasciicircum{}"),
            '<' => out.push_str(r"\textless{}"),
            '>' => out.push_str(r"\textgreater{}"),
            '±' => out.push_str(r"$\pm$"),
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', c]),
            other => out.push(other),
        }
    }
    out
}

/// A field of a CSV file (RFC 4180): in quotes only where it needs them.
pub(super) fn csv(field: &str) -> String {
    if field.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// On one line, and without control characters.
pub(super) fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// Without control characters other than the ends of lines and tabs.
fn lines_kept(text: &str) -> impl Iterator<Item = char> + '_ {
    text.chars().map(|c| {
        if c.is_control() && !matches!(c, '\n' | '\t') {
            ' '
        } else {
            c
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_every_special_character_stays_a_name() {
        let name = "<b>\"&'|_%$#{}\\~^*`[x]\n\u{0}";
        assert_eq!(html(name), "&lt;b&gt;&quot;&amp;&#39;|_%$#{}\\~^*`[x]\n ");
        assert_eq!(
            markdown(name),
            "&lt;b>\"&amp;'\\|\\_%$\\#{}\\\\\\~^\\*\\`\\[x\\]  "
        );
        assert_eq!(
            latex(name),
            r#"\textless{}b\textgreater{}"\&'|\_\%\$\#\{\}\textbackslash{}\textasciitilde{}\textasciicircum{}*`[x]  "#
        );
    }

    #[test]
    fn comparisons_stay_readable_in_markdown() {
        assert_eq!(markdown("p <1e-300, p < 0.05 > 0"), "p <1e-300, p < 0.05 > 0");
        assert_eq!(markdown("> x </b> <"), "&gt; x &lt;/b> &lt;");
    }

    #[test]
    fn csv_quotes_only_what_needs_it() {
        assert_eq!(csv("listnet-audio"), "listnet-audio");
        assert_eq!(csv("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(csv("two\nlines"), "\"two\nlines\"");
    }
}
