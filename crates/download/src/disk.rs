//! Free disk, which a download needs.

use std::path::{Path, PathBuf};

/// The free bytes of the disk that a folder is on, or will be; `None` where the system does not say.
pub fn free_disk(folder: &Path) -> Option<u64> {
    let mut at: PathBuf = std::path::absolute(folder).ok()?;
    while !at.exists() {
        at = at.parent()?.to_owned();
    }
    fs4::available_space(&at).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_yet_has_the_disk_of_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free_disk(&folder.path().join("not/yet/there")).is_some_and(|free| free > 0));
    }
}
