//! Soundscapes cut from real recordings, which are not part of the repository: `HARK_DATA` names their folder, else
//! it is `shared/data` beside the repository. This fails without it.

use std::path::{Path, PathBuf};

use hark_soundscape::{Config, Recordings, Split, Truth, generate};

#[test]
fn scenes_of_esc10() {
    let data = std::env::var_os("HARK_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let folder = data.join("esc10");
    assert!(folder.is_dir(), "needs {}: set HARK_DATA", folder.display());
    let config = Config {
        train: 12,
        validation: 4,
        test: 8,
        recordings: Some(Recordings {
            folder,
            table: "esc10.csv".into(),
            ..Recordings::default()
        }),
        ..Config::default()
    };
    let out = tempfile::tempdir().unwrap();
    let made = generate(&config, out.path(), 2, &hark_work::progress::no_progress).unwrap();
    assert_eq!(made.clips, [12, 4, 8]);
    let truth = Truth::read(out.path(), Split::Test).unwrap();
    assert_eq!((truth.captions(), truth.clips()), (40, 8));
    for clip in 0..8 {
        let path = out.path().join(format!("evaluation/evaluation_{clip:05}.flac"));
        let sound = hark_audio::read(&path, 32_000, None).unwrap();
        assert_eq!(sound.samples.len(), 128_000);
        let peak = sound.samples.iter().fold(0.0, |peak, x| f32::max(peak, x.abs()));
        assert!((0.01..0.999).contains(&peak), "{peak}");
    }
    let again = generate(&config, out.path(), 1, &hark_work::progress::no_progress).unwrap();
    assert!(again.reused);
}
