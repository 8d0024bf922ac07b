//! A program's view of a library: made from a folder, brought up to date, searched; cancelled, and refused with another
//! model. The model is a small checkpoint that the reference software wrote (`golden/towers_tiny.py`).

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use hark_encode::card::ClipLength;
use hark_encode::import::Options;
use hark_library::{Compute, Error, IndexEvent, IndexOptions, Library, OpenOptions, Question, Setup};
use hark_models::ModelStore;
use tempfile::TempDir;

fn crates(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn import(models: &ModelStore, name: &str, clip: ClipLength) {
    let options = Options {
        audio_heads: Some(2),
        text_heads: Some(2),
        segment_seconds: Some(1.0),
        clip: Some(clip),
        ..Options::default()
    };
    let golden = crates("encode/tests/golden/towers");
    let tokenizer = golden.join("tokenizer-json");
    models
        .import(
            name,
            &golden.join("authors.pt"),
            Some(&tokenizer),
            &options,
            false,
        )
        .unwrap();
}

/// A folder with three recordings, and a store with the model `tiny`.
fn place() -> (TempDir, ModelStore, Setup) {
    let place = tempfile::tempdir().unwrap();
    let models = ModelStore::at(place.path());
    import(&models, "tiny", ClipLength::Full);
    let sounds = place.path().join("sounds");
    fs_err::create_dir(&sounds).unwrap();
    for name in ["mono-16.wav", "stereo.mp3", "mono.opus"] {
        fs_err::copy(crates("audio/tests/files").join(name), sounds.join(name)).unwrap();
    }
    let setup = Setup {
        open: OpenOptions {
            model: Some("tiny".to_owned()),
            compute: Compute::cpu(2),
            cancelled: None,
        },
        folders: vec![sounds],
        ..Setup::default()
    };
    (place, models, setup)
}

fn ignore(_: IndexEvent<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn a_folder_becomes_a_library_that_answers() {
    let (place, models, setup) = place();
    let folder = place.path().join("library");
    let library = Library::open_to_index(folder.as_path(), &models, &setup).unwrap();
    let files = AtomicUsize::new(0);
    let outcome = library
        .index(&IndexOptions::default(), &|event| {
            if let IndexEvent::Indexing { done, total, .. } = event {
                assert!(done <= total && total == 3);
                files.fetch_max(done, Ordering::Relaxed);
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!((outcome.new, outcome.failed.len(), files.into_inner()), (3, 0, 3));
    let again = library.index(&IndexOptions::default(), &ignore).unwrap();
    assert_eq!((again.new, again.unchanged), (0, 3));
    drop(library);

    let library = Library::open(folder, &models).unwrap();
    let hits = library
        .search(&Question::text("rain").without("speech").limit(2))
        .unwrap();
    assert_eq!(hits.len(), 2);
    let all = library.search(&Question::text("mono").limit(10)).unwrap();
    assert_eq!(all.len(), 3);
    // The two that have the word in their names come first.
    assert!(
        all[..2].iter().all(|hit| hit.file.path.contains("/mono")),
        "{all:?}"
    );
}

#[test]
fn an_indexing_can_be_cancelled_and_continued() {
    let (place, models, setup) = place();
    let folder = place.path().join("library");
    let library = Library::open_to_index(folder.as_path(), &models, &setup).unwrap();
    let cancelled = library.index(&IndexOptions::default(), &|event| match event {
        IndexEvent::Indexing { done: 1.., .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    assert!(matches!(cancelled, Err(Error::Cancelled)), "{cancelled:?}");
    // What was finished is kept.
    let before = library.store().overview().unwrap().files;
    assert!((1..3).contains(&before), "{before}");
    let outcome = library.index(&IndexOptions::default(), &ignore).unwrap();
    assert_eq!(outcome.new as u64 + before, 3);
}

#[test]
fn a_missing_library_or_another_model_is_refused() {
    let (place, models, setup) = place();
    let folder = place.path().join("library");
    let missing = Library::open(folder.as_path(), &models);
    assert!(matches!(missing, Err(Error::Missing { .. })), "{missing:?}");
    drop(Library::open_to_index(folder.as_path(), &models, &setup).unwrap());

    fs_err::rename(models.folder().join("tiny"), models.folder().join("away")).unwrap();
    let gone = Library::open(folder.as_path(), &models);
    assert!(matches!(gone, Err(Error::ModelGone { .. })), "{gone:?}");
    import(&models, "tiny", ClipLength::Fixed { seconds: 2.0 });
    let other = Library::open(folder.as_path(), &models);
    assert!(matches!(other, Err(Error::OtherModel { .. })), "{other:?}");
    // Without a model, words still find files.
    let library = Library::open_with(folder, &models, &OpenOptions::default()).unwrap();
    let words = Question::text("mono").mode(hark_catalogue::Mode::Words);
    assert_eq!(library.search(&words).unwrap().len(), 0);
}
