//! What leaves the program: text on stdout, files that are whole or absent.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use tempfile::NamedTempFile;

/// Writes text to stdout, as it is.
pub fn print(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

/// Writes a value to stdout as JSON.
pub fn print_json(value: &impl Serialize) -> Result<()> {
    print(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Writes a file through a temporary one beside it, which takes the file's name when `write` has succeeded: a crash or
/// a full disk leaves what was there before.
pub fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&mut NamedTempFile>) -> Result<()>,
) -> Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let named = || format!("{}: cannot be written", path.display());
    if path.exists() && !path.is_file() {
        bail!("{}: not a regular file", path.display());
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(".hark-");
    // A temporary file is for its owner alone; a result has the permissions of any new file, less the umask.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder).with_context(named)?;
    let mut buffer = BufWriter::with_capacity(1 << 20, &mut file);
    write(&mut buffer).with_context(named)?;
    buffer.flush().with_context(named)?;
    drop(buffer);
    file.as_file().sync_all().with_context(named)?;
    file.persist(path).with_context(named)?;
    Ok(())
}

/// That a file can be written there, before the work for it begins.
pub fn check_place(path: &Path) -> Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    tempfile::tempfile_in(folder).with_context(|| format!("{}: cannot be written", path.display()))?;
    Ok(())
}

/// Text from files, with no control characters that would steer a terminal.
pub fn sanitize(text: &str) -> String {
    let shown = |letter: char| {
        if letter.is_control() {
            char::REPLACEMENT_CHARACTER
        } else {
            letter
        }
    };
    text.chars().map(shown).collect()
}

/// A thousand and more with separators: 49,838.
pub fn group_digits(number: impl TryInto<u64>) -> String {
    let digits = number
        .try_into()
        .map_or_else(|_| "?".to_owned(), |number: u64| number.to_string());
    let mut text = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        assert_eq!(group_digits(7_usize), "7");
        assert_eq!(group_digits(999_usize), "999");
        assert_eq!(group_digits(49_838_usize), "49,838");
        assert_eq!(group_digits(1_000_000_usize), "1,000,000");
    }

    #[test]
    fn text_of_files_steers_no_terminal() {
        assert_eq!(sanitize("caf\u{e9}\u{1b}[31m\n"), "caf\u{e9}\u{fffd}[31m\u{fffd}");
    }

    #[test]
    fn a_failed_write_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.txt");
        fs_err::write(&path, "old").unwrap();
        let failed = write_whole(&path, |file| {
            file.write_all(b"new")?;
            anyhow::bail!("no more space")
        });
        assert!(format!("{:#}", failed.unwrap_err()).contains("result.txt"));
        assert_eq!(fs_err::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 1);
    }
}
