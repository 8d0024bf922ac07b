//! Free disk.

use std::path::{Path, PathBuf};

use crate::Error;

/// The free bytes of the disk that a folder is on, or will be; `None` where the system does not say.
pub(crate) fn free(folder: &Path) -> Option<u64> {
    let mut at: PathBuf = std::path::absolute(folder).ok()?;
    while !at.exists() {
        at = at.parent()?.to_owned();
    }
    fs4::available_space(&at).ok()
}

/// That so many bytes are free.
pub(crate) fn need(folder: &Path, needed: u64, what: String) -> Result<(), Error> {
    match free(folder) {
        Some(free) if free < needed => Err(Error::NoRoom {
            folder: folder.to_owned(),
            what,
            needed,
            free,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_room_is_told_before_it_is_used_up() {
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("not/yet/there");
        assert!(free(&absent).is_some_and(|free| free > 0));
        need(&absent, 1, String::new()).unwrap();
        let error = need(&absent, u64::MAX, "the download".to_owned()).unwrap_err();
        assert!(error.to_string().contains("the download needs"), "{error}");
    }
}
