//! Devices that break down: what their libraries panic with becomes an error.
//!
//! In: work on a device. Out: its result, or [`Error::DeviceBroke`] with what the library says and what kind of breakdown that is.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use crate::Error;
use crate::breakdown::{Breakdown, UNDER_WAY, message};
use crate::device::DeviceName;

/// Characters of a library's message that are told.
const MAX_MESSAGE: usize = 300;

/// Runs work on a device whose library panics where it cannot go on. The CPU has no such library: a panic there is a fault of
/// hark, and goes on.
///
/// # Errors
/// [`Error::DeviceBroke`].
pub fn guarded<T>(device: DeviceName, work: impl FnOnce() -> T) -> Result<T, Error> {
    if device == DeviceName::Cpu {
        return Ok(work());
    }
    UNDER_WAY.fetch_add(1, Ordering::Relaxed);
    let done = catch_unwind(AssertUnwindSafe(work));
    UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
    done.map_err(|panic| {
        let what = message(&*panic).unwrap_or("no reason given");
        Error::DeviceBroke {
            device: device.to_string(),
            breakdown: Breakdown::of(what),
            what: first_line(what),
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
    use crate::breakdown::is_expected;

    #[test]
    fn a_panic_becomes_an_error_that_names_the_device() {
        let device = DeviceName::Cuda(1);
        assert_eq!(guarded(device, || 5).unwrap(), 5);
        let error = |what: &'static str| {
            let broke: Result<(), Error> = guarded(device, || {
                assert!(is_expected(&what.to_owned()));
                // Without the hook, which would tell it on stderr.
                std::panic::resume_unwind(Box::new(what))
            });
            broke.unwrap_err().to_string()
        };
        assert_eq!(
            error("\n  out of memory.\nbacktrace of pages"),
            "cuda:1 ran out of memory: out of memory"
        );
        assert_eq!(error("device lost"), "cuda:1 was lost: device lost");
        let other = guarded(device, || is_expected(&"index out of bounds".to_owned()));
        assert!(!other.unwrap(), "a fault of the program is told");
    }
}
