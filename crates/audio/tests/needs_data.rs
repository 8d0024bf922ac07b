//! Real recordings, which are not part of the repository: `HARK_DATA` names their folder, else it is `shared/data` beside the
//! repository. This fails without it.

use std::path::{Path, PathBuf};

use hark_audio::Decoder;

#[test]
fn recordings_of_esc_10() {
    let data = std::env::var_os("HARK_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let folder = data.join("esc10");
    assert!(folder.is_dir(), "needs {}: set HARK_DATA", folder.display());
    let mut count = 0;
    let mut folders = vec![fs_err::read_dir(&folder).unwrap()];
    while let Some(folder) = folders.pop() {
        for entry in folder {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(fs_err::read_dir(&path).unwrap());
            } else if path.extension().is_some_and(|e| e == "flac") {
                let mut decoder = Decoder::open(&path).unwrap();
                assert_eq!(decoder.info().seconds, Some(5.0), "{}", path.display());
                while decoder.next_block().unwrap().is_some() {}
                assert_eq!(
                    decoder.samples_so_far(),
                    5 * u64::from(decoder.info().rate),
                    "{}",
                    path.display()
                );
                assert_eq!(decoder.damage(), None, "{}", path.display());
                count += 1;
            }
        }
    }
    assert_eq!(count, 240);
}
