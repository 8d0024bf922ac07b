//! Devices that break down: what their libraries panic with becomes an error.
//!
//! In: work on a device. Out: its result, or [`Error::DeviceBroke`] with what the library says, what kind of breakdown that is, and
//! where the training stood when it last saved itself. A checkpoint is replaced as a whole, so a breakdown at any moment leaves
//! the one before.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use hark_encode::DeviceName;

use crate::Error;
use crate::breakdown::Breakdown;
use crate::run::Run;

/// Characters of a library's message that are told.
const MAX_MESSAGE: usize = 300;

/// How much work on devices is under way.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// Whether work on a device is under way, whose panics become errors: a program need not tell them on their own.
pub fn is_guarded() -> bool {
    UNDER_WAY.load(Ordering::Relaxed) > 0
}

/// Runs work on a device whose library panics where it cannot go on; `run` is the folder of the training, if it is one.
///
/// # Errors
/// [`Error::DeviceBroke`].
pub(crate) fn guarded<T>(
    device: DeviceName,
    run: Option<&Path>,
    work: impl FnOnce() -> T,
) -> Result<T, Error> {
    UNDER_WAY.fetch_add(1, Ordering::Relaxed);
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
    done.map_err(|panic| {
        let what = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        let what = what.unwrap_or_else(|| "no reason given".to_owned());
        let saved = run.map(|folder| {
            let state = Run::at(folder).and_then(|run| run.state());
            state.ok().flatten().map_or(0, |state| state.batches)
        });
        Error::DeviceBroke {
            device,
            breakdown: Breakdown::of(&what),
            what: first_line(&what),
            saved,
        }
    })
}

/// Libraries tell pages, of which the first line names the fault.
fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    line.unwrap_or_default()
        .trim_end_matches('.')
        .chars()
        .take(MAX_MESSAGE)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_that_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let device = DeviceName::Cuda(1);
        assert_eq!(guarded(device, None, || 5).unwrap(), 5);
        let error = |run, what: &'static str| {
            let broke: Result<(), crate::Error> = guarded(device, run, || {
                assert!(is_guarded());
                // Without the hook, which would tell it on stderr.
                std::panic::resume_unwind(Box::new(what))
            });
            broke.unwrap_err().to_string()
        };
        let message = error(Some(folder.path()), "\n  out of memory.\nbacktrace of pages");
        assert_eq!(
            message,
            "cuda:1 ran out of memory: out of memory. No checkpoint was saved yet, so --resume starts from the beginning. Set a \
             smaller training.chunk, or training.gradient-checkpointing=true"
        );
        let message = error(None, "device lost");
        assert_eq!(message, "cuda:1 was lost: device lost");
    }
}
