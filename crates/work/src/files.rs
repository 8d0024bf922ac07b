//! Files that are replaced as a whole: a crash or a full disk leaves the old one or the new one, never half of one.
//!
//! A file is written under a temporary name in its own folder, so that renaming it is one step of the file system, and
//! brought to disk before it takes its name. A process that is killed leaves the temporary file behind;
//! [`is_temporary`] tells such a file from others.

use std::error::Error;
use std::ffi::OsStr;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use tempfile::NamedTempFile;

/// How the names of temporary files begin.
const PREFIX: &str = ".hark-";

/// A file that does not have its name yet. `get_ref().path()` is where it is for now.
pub type NewFile<'a> = BufWriter<&'a mut NamedTempFile>;

/// Writes a file through a temporary one beside it, which takes the file's name once `write` has succeeded and the
/// bytes are on disk.
///
/// ```
/// use std::io::Write as _;
///
/// # let folder = tempfile::tempdir()?;
/// let path = folder.path().join("report.md");
/// hark_work::files::replace_file(&path, |file| writeln!(file, "# Report"))?;
/// assert_eq!(std::fs::read_to_string(&path)?, "# Report\n");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// What `write` returns, or the I/O error of creating, syncing or renaming the file, with its path. The old file is
/// then untouched, and the temporary one is gone.
pub fn replace_file<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut NewFile<'_>) -> Result<(), E>,
) -> Result<(), E> {
    replace(path, true, write)
}

/// As [`replace_file`], with the path in the errors of `write` too.
///
/// # Errors
/// Those of [`replace_file`].
pub fn write_with(path: &Path, write: impl FnOnce(&mut NewFile<'_>) -> io::Result<()>) -> io::Result<()> {
    replace_file(path, |file| {
        write(file).map_err(|error| cannot_write(path, &error))
    })
}

/// As [`replace_file`], without waiting for the disk: for a cache whose reader detects a damaged file.
///
/// # Errors
/// Those of [`replace_file`].
pub fn replace_cached<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut NewFile<'_>) -> Result<(), E>,
) -> Result<(), E> {
    replace(path, false, write)
}

/// Replaces a file by these bytes: [`std::fs::write`], but whole or not at all.
///
/// # Errors
/// Those of [`replace_file`].
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_with(path, |file| file.write_all(bytes))
}

fn replace<E: From<io::Error>>(
    path: &Path,
    sync: bool,
    write: impl FnOnce(&mut NewFile<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let named = |error: io::Error| cannot_write(path, &error);
    if path.exists() && !path.is_file() {
        return Err(named(io::Error::other("not a regular file")).into());
    }
    let folder = parent(path);
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX);
    // A temporary file is readable by its owner alone; a result gets the permissions of any new file, less the umask.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder).map_err(named)?;
    let mut buffer = BufWriter::with_capacity(1 << 16, &mut file);
    write(&mut buffer)?;
    buffer.flush().map_err(named)?;
    drop(buffer);
    if sync {
        file.as_file().sync_all().map_err(named)?;
    }
    file.persist(path).map_err(|error| named(error.error))?;
    // The name is kept by the folder, which not every system can bring to disk.
    if sync && let Ok(folder) = std::fs::File::open(folder) {
        let _ = folder.sync_all();
    }
    Ok(())
}

fn cannot_write(path: &Path, error: &io::Error) -> io::Error {
    // The error of a temporary file names that file, which nobody knows.
    let text = error.to_string();
    let reason = text.split(" at path \"").next().unwrap_or(&text);
    io::Error::new(error.kind(), format!("cannot write {}: {reason}", path.display()))
}

/// Whether a file of this name was left by a process that was killed while it wrote, or is being written now.
pub fn is_temporary(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
}

/// Checks that a file can be written there, before the work for it begins.
///
/// # Errors
/// The I/O error of creating a file in that folder, with the path of the file.
pub fn check_writable(path: &Path) -> io::Result<()> {
    tempfile::tempfile_in(parent(path))
        .map(drop)
        .map_err(|error| cannot_write(path, &error))
}

/// The folder that holds a file.
fn parent(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Bytes as lowercase hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An error and its causes in one line for people. No cause and no path comes twice; names of types and of system
/// calls are put into words.
///
/// ```
/// use hark_work::files::explain;
///
/// let error = std::fs::read("nowhere.wav").unwrap_err();
/// assert_eq!(explain(&error), "no such file or folder");
/// ```
pub fn explain(error: &(dyn Error + 'static)) -> String {
    let mut text = plain(&error.to_string());
    let mut cause = error.source();
    while let Some(error) = cause {
        let told = plain(&error.to_string());
        if !text.contains(&told) {
            text = format!("{text}: {told}");
        }
        cause = error.source();
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in text.split(": ") {
        let path = ["cannot read ", "cannot write "]
            .iter()
            .find_map(|verb| part.strip_prefix(verb));
        let path = path
            .filter(|path| !path.contains(char::is_whitespace))
            .unwrap_or(part);
        let named = |earlier: &&str| *earlier == path || earlier.ends_with(&format!(" {path}"));
        if !parts.iter().any(named) {
            parts.push(part);
        }
    }
    parts.join(": ")
}

/// What the system, fs-err and serde say, as people would.
fn plain(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some((start, end, said)) = file_call(&text) {
        text.replace_range(start..end, &said);
    }
    while let Some((start, end, said)) = wrong_type(&text) {
        text.replace_range(start..end, &said);
    }
    while let Some(start) = text.find(" (os error ")
        && let Some(length) = text[start..].find(')')
    {
        text.replace_range(start..=start + length, "");
    }
    for (system, said) in [
        ("No such file or directory", "no such file or folder"),
        ("Is a directory", "is a folder, not a file"),
        ("is a directory", "is a folder, not a file"),
        ("Not a directory", "a part of the path is a file, not a folder"),
        ("File exists", "a file of that name is in the way"),
        ("Permission denied", "permission denied"),
        ("Read-only file system", "the disk is read-only"),
        ("No space left on device", "the disk is full"),
        ("Connection refused", "connection refused"),
    ] {
        text = text.replace(system, said);
    }
    text
}

/// The first "failed to open file `X`", where it begins and ends, and what to say instead.
fn file_call(text: &str) -> Option<(usize, usize, String)> {
    let start = text.find("failed to ")?;
    let (call, rest) = text[start..].split_once('`')?;
    let (path, _) = rest.split_once('`')?;
    let writes = [
        "create", "write", "remove", "rename", "copy", "sync", "link", "set",
    ];
    let verb = if writes.iter().any(|verb| call.contains(verb)) {
        "write"
    } else {
        "read"
    };
    let end = start + call.len() + path.len() + 2;
    Some((start, end, format!("cannot {verb} {path}")))
}

/// The first "invalid type: string \"x\", expected u64", where it begins and ends, and what to say instead.
fn wrong_type(text: &str) -> Option<(usize, usize, String)> {
    let start = ["invalid type: ", "invalid value: "]
        .iter()
        .filter_map(|words| text.find(words))
        .min()?;
    let body = start + text[start..].find(": ")? + 2;
    let middle = body + text[body..].find(", expected ")?;
    let from = middle + ", expected ".len();
    let rest = &text[from..];
    let length = [rest.find('\n'), rest.find(" at line ")]
        .into_iter()
        .flatten()
        .min();
    let end = from + length.unwrap_or(rest.len());
    let got = text[body..middle].trim_matches('`');
    let got = ["string ", "integer `", "floating point `", "boolean `"]
        .iter()
        .find_map(|kind| got.strip_prefix(kind))
        .unwrap_or(got);
    let got = match got {
        "map" => "a table",
        "sequence" => "a list",
        got => got,
    };
    let wanted = text[from..end].trim();
    let expected = match wanted {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a string" | "a borrowed string" => "text in quotes",
        "a sequence" => "a list",
        "a map" => "a table",
        wanted if wanted.starts_with("a nonzero") => "a whole number, 1 or more",
        wanted if wanted.starts_with("struct ") || wanted.contains("enum ") => "a table",
        wanted if wanted.starts_with("tuple struct ") => "a list",
        wanted => wanted,
    };
    Some((start, end, format!("expected {expected}, got {got}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Told {
        text: String,
        source: Option<Box<Told>>,
    }

    /// What is said of an error with these causes.
    fn said(chain: &[&str]) -> String {
        let told = chain.iter().rev().fold(None, |source, text| {
            let text = (*text).to_owned();
            Some(Box::new(Told { text, source }))
        });
        explain(&*told.unwrap())
    }

    #[test]
    fn errors_say_each_path_and_each_cause_once() {
        let missing = "failed to open file `a/b c.csv`: No such file or directory (os error 2)";
        assert_eq!(said(&[missing]), "cannot read a/b c.csv: no such file or folder");
        let folder = "cannot read x: failed to read from file `x`: Is a directory (os error 21)";
        assert_eq!(said(&[folder]), "cannot read x: is a folder, not a file");
        let canonical = "failed to canonicalize path `nowhere`: No such file or directory (os error 2)";
        assert_eq!(said(&[canonical]), "cannot read nowhere: no such file or folder");
        let created = "failed to create directory `x`: File exists (os error 17)";
        assert_eq!(
            said(&[created]),
            "cannot write x: a file of that name is in the way"
        );
        let refused = "error connecting to server: Connection refused (os error 111)";
        let host = format!("127.0.0.1:1: {refused}");
        assert_eq!(
            said(&[&host, refused]),
            "127.0.0.1:1: error connecting to server: connection refused"
        );
        assert_eq!(
            said(&["cannot search by x.wav", "cannot read x.wav: no samples"]),
            "cannot search by x.wav: no samples"
        );
        assert_eq!(
            said(&["bad", "cannot read bad.csv: no captions"]),
            "bad: cannot read bad.csv: no captions"
        );
        assert_eq!(said(&["one", "cannot read one: no captions"]), "one: no captions");
    }

    #[test]
    fn errors_name_no_types_of_the_program() {
        for (serde, text) in [
            (
                "invalid type: string \"x\", expected u64",
                "expected a whole number, 0 or more, got \"x\"",
            ),
            (
                "invalid value: integer `-1`, expected usize",
                "expected a whole number, 0 or more, got -1",
            ),
            (
                "invalid type: boolean `true`, expected f64 at line 1",
                "expected a number, got true at line 1",
            ),
            (
                "invalid type: map, expected a string\nin `a`",
                "expected text in quotes, got a table\nin `a`",
            ),
            (
                "invalid type: integer `3`, expected struct Training",
                "expected a table, got 3",
            ),
            (
                "invalid value: integer `0`, expected a nonzero u64",
                "expected a whole number, 1 or more, got 0",
            ),
        ] {
            assert_eq!(said(&[serde]), text);
        }
        // Nothing is lost, and nothing loops, where a message is of another form.
        for other in [
            "failed to ",
            "failed to open `",
            "invalid type: ",
            " (os error ",
            "invalid value: x, expected ",
        ] {
            assert!(!said(&[other]).is_empty());
        }
    }

    #[test]
    fn a_failed_write_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.txt");
        fs_err::write(&path, "old").unwrap();
        let failed = replace_file(&path, |file| {
            file.write_all(b"new")?;
            Err(io::Error::other("no more space"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "no more space");
        assert_eq!(fs_err::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_written_file_replaces_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.txt");
        fs_err::write(&path, "old").unwrap();
        replace_file::<io::Error>(&path, |file| file.write_all(b"new")).unwrap();
        assert_eq!(fs_err::read_to_string(&path).unwrap(), "new");
        write(&path, b"newer").unwrap();
        assert_eq!(fs_err::read_to_string(&path).unwrap(), "newer");
        replace_cached::<io::Error>(&path, |file| file.write_all(b"newest")).unwrap();
        assert_eq!(fs_err::read_to_string(&path).unwrap(), "newest");
        assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn errors_name_the_file_once() {
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("absent/result.txt");
        let expected = format!("cannot write {}: No such file or directory", absent.display());
        for error in [
            write(&absent, b"").unwrap_err(),
            check_writable(&absent).unwrap_err(),
        ] {
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
            assert!(error.to_string().starts_with(&expected), "{error}");
            assert!(!error.to_string().contains(PREFIX), "{error}");
        }
        let error = write(folder.path(), b"").unwrap_err().to_string();
        let path = folder.path().display();
        assert_eq!(error, format!("cannot write {path}: not a regular file"));
    }

    #[test]
    fn a_file_under_way_is_known_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        replace_file::<io::Error>(&folder.path().join("result.txt"), |file| {
            assert!(is_temporary(file.get_ref().path().file_name().unwrap()));
            Ok(())
        })
        .unwrap();
        assert!(!is_temporary(OsStr::new("result.txt")));
    }

    #[cfg(unix)]
    #[test]
    fn a_result_is_readable_like_any_new_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (plain, whole) = (folder.path().join("plain"), folder.path().join("whole"));
        fs_err::write(&plain, "").unwrap();
        write(&whole, b"").unwrap();
        let mode = |path: &Path| fs_err::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&whole), mode(&plain));
    }

    #[test]
    fn hex_has_two_digits_for_each_byte() {
        assert_eq!(hex(&[0, 10, 255]), "000aff");
    }
}
