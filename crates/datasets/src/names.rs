//! Names inside archives. They come from outside and decide where something is written, so each is checked before the
//! first byte is: one that leads out of the folder ends the unpacking of the whole archive.

/// The parts of a name, without those that mean nothing; `None` for a name that is absolute, climbs, or could not be shown.
pub(crate) fn parts(name: &str) -> Option<Vec<&str>> {
    let is_separator = |letter| letter == '/' || letter == '\\';
    let has_drive = name.as_bytes().get(1) == Some(&b':') && name.as_bytes()[0].is_ascii_alphabetic();
    if name.starts_with(is_separator) || has_drive || name.chars().any(char::is_control) {
        return None;
    }
    let parts: Vec<&str> = name
        .split(is_separator)
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    (!parts.is_empty() && !parts.contains(&"..")).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_out_of_the_folder_are_refused() {
        for name in [
            "/etc/passwd",
            "\\x",
            "../x.wav",
            "a/../../x.wav",
            "a\\..\\x.wav",
            "..",
            "C:\\x.wav",
            "c:x.wav",
            "",
            ".",
            "a\nb.wav",
            "a\0.wav",
        ] {
            assert_eq!(parts(name), None, "{name:?}");
        }
    }

    #[test]
    fn other_names_are_taken_apart() {
        assert_eq!(parts("development/a b.wav"), Some(vec!["development", "a b.wav"]));
        assert_eq!(parts("./a//b\\c.wav"), Some(vec!["a", "b", "c.wav"]));
        assert_eq!(parts("rain: roof..wav"), Some(vec!["rain: roof..wav"]));
    }
}
