//! Free disk.

use std::path::Path;

use hark_download::free_disk;

use crate::Error;

/// That so many bytes are free.
pub(crate) fn need(folder: &Path, needed: u64, what: String) -> Result<(), Error> {
    match free_disk(folder) {
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
        need(&absent, 1, String::new()).unwrap();
        let error = need(&absent, u64::MAX, "the download".to_owned()).unwrap_err();
        assert!(error.to_string().contains("the download needs"), "{error}");
    }
}
