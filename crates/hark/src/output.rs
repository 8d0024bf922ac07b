//! What leaves the program: text on stdout, files that are whole or absent.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use hark_work::files::{self, NewFile};
use serde::Serialize;

pub use hark_work::files::explain;
pub use hark_work::progress::{counted, group_digits};

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

/// Replaces a file as a whole; errors of `write` are shown with the file's path.
pub fn write_whole(path: &Path, write: impl FnOnce(&mut NewFile<'_>) -> Result<()>) -> Result<()> {
    files::replace_file(path, |file| {
        write(file).with_context(|| format!("cannot write {}", path.display()))
    })
}

/// Checks that a file can be written there, before the work for it begins.
pub fn check_writable(path: &Path) -> Result<()> {
    Ok(files::check_writable(path)?)
}

/// Tells of an error that ends nothing, on stderr.
pub fn tell(error: &(dyn std::error::Error + 'static)) {
    eprintln!("hark: {}", explain(error));
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

#[cfg(test)]
mod tests {
    use super::*;

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
