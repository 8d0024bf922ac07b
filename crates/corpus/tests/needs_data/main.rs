//! The data sets' own files and real recordings, which are not part of the repository: `HARK_DATA` names their folder, else it is
//! `shared/data` beside the repository. These tests fail without it.

#![allow(unreachable_pub, reason = "modules that test binaries share")]

mod files;
mod sets;

use std::path::{Path, PathBuf};

/// A file or folder of the data.
fn data(name: &str) -> PathBuf {
    let folder = std::env::var_os("HARK_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let path = folder.join(name);
    assert!(path.exists(), "needs {}: set HARK_DATA", path.display());
    path
}
