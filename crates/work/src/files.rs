//! Files that are replaced as a whole: a crash or a full disk leaves the old one or the new one, never half of one.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use tempfile::NamedTempFile;

/// Writes a file through a temporary one beside it, which takes the file's name once `write` has succeeded and the
/// bytes are on disk.
///
/// # Errors
/// What `write` returns, or the I/O error of creating, syncing or renaming the file. The old file is then untouched.
pub fn replace_file<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&mut NamedTempFile>) -> Result<(), E>,
) -> Result<(), E> {
    if path.exists() && !path.is_file() {
        return Err(io::Error::other("not a regular file").into());
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(".hark-");
    // A temporary file is readable by its owner alone; a result gets the permissions of any new file, less the umask.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(parent(path))?;
    let mut buffer = BufWriter::with_capacity(1 << 20, &mut file);
    write(&mut buffer)?;
    buffer.flush()?;
    drop(buffer);
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Checks that a file can be written there, before the work for it begins.
///
/// # Errors
/// The I/O error of creating a file in that folder.
pub fn check_writable(path: &Path) -> io::Result<()> {
    tempfile::tempfile_in(parent(path)).map(drop)
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
        assert!(replace_file::<io::Error>(folder.path(), |_| Ok(())).is_err());
    }

    #[test]
    fn hex_has_two_digits_for_each_byte() {
        assert_eq!(hex(&[0, 10, 255]), "000aff");
    }
}
