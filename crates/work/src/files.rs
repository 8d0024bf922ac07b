//! Files that are replaced as a whole: a crash or a full disk leaves the old one or the new one, never half of one.
//!
//! A file is written under a temporary name in its own folder, so that renaming it is one step of the file system, and
//! brought to disk before it takes its name. A process that is killed leaves the temporary file behind;
//! [`is_temporary`] tells such a file from others.

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

#[cfg(test)]
mod tests {
    use super::*;

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
