//! Trainings on devices that break down: an error that says where the training stood, and what to do.
//!
//! In: work on a device. Out: its result, or [`Error::DeviceBroke`] with the last checkpoint. A checkpoint is replaced as a whole,
//! so a breakdown at any moment leaves the one before.

use std::path::Path;

use hark_encode::DeviceName;

use crate::Error;
use crate::run::Run;

/// Runs work on a device whose library may break down; `run` is the folder of the training, if it is one.
///
/// # Errors
/// [`Error::DeviceBroke`], or what the work returns.
pub(crate) fn guarded<T>(
    device: DeviceName,
    run: Option<&Path>,
    work: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    let done = hark_encode::guarded(device, work);
    // What only embeds, such as a validation, has a guard of its own.
    match done.unwrap_or_else(|broke| Err(broke.into())) {
        Err(Error::Encode(hark_encode::Error::DeviceBroke { breakdown, what, .. })) => {
            Err(Error::DeviceBroke {
                device,
                breakdown,
                what,
                saved: run.and_then(saved),
            })
        }
        done => done,
    }
}

/// Batches of a training's last checkpoint, 0 without one; `None` if the training has not begun, so that it cannot be resumed.
fn saved(folder: &Path) -> Option<u64> {
    let run = Run::at(folder).ok().filter(Run::has_begun)?;
    let state = run.state().ok().flatten();
    Some(state.map_or(0, |state| state.batches))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::RECIPE;
    use hark_encode::Breakdown;

    /// The folder of a training that has no checkpoint yet.
    fn begun() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs_err::write(folder.path().join(RECIPE), "").unwrap();
        folder
    }

    #[test]
    fn a_panic_becomes_an_error_that_says_what_to_do() {
        let folder = begun();
        let error = |run, what: &'static str| {
            let broke: Result<(), Error> = guarded(DeviceName::Cuda(1), run, || {
                // Without the hook, which would tell it on stderr.
                std::panic::resume_unwind(Box::new(what))
            });
            broke.unwrap_err().to_string()
        };
        let message = error(Some(folder.path()), "out of memory");
        assert_eq!(
            message,
            "cuda:1 ran out of memory: out of memory. No checkpoint was saved yet, so --resume starts from the beginning. Set a \
             smaller training.chunk, or training.gradient-checkpointing=true"
        );
        // Before anything is written there is nothing to resume.
        let nowhere = tempfile::tempdir().unwrap();
        let message = error(Some(nowhere.path()), "device lost");
        assert_eq!(message, "cuda:1 was lost: device lost");
        let message = error(None, "device lost");
        assert_eq!(message, "cuda:1 was lost: device lost");
    }

    #[test]
    fn a_breakdown_that_has_become_an_error_gets_the_same_advice() {
        let folder = begun();
        let broke: Result<(), Error> = guarded(DeviceName::Cuda(1), Some(folder.path()), || {
            Err(hark_encode::Error::DeviceBroke {
                device: "cuda:1".into(),
                breakdown: Breakdown::Lost,
                what: "device lost".into(),
            }
            .into())
        });
        let message = broke.unwrap_err().to_string();
        assert!(
            message.contains("--resume") && message.contains("hark devices"),
            "{message}"
        );
    }
}
