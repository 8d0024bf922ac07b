//! Devices that break down: what their libraries panic with becomes an error.
//!
//! In: work on a device. Out: its result, or [`Error::DeviceBroke`] with what the library says and what kind of breakdown that is.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{DeviceName, Error};

/// Characters of a library's message that are told.
const MAX_MESSAGE: usize = 300;

/// How much work on devices is under way.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);
/// How many are looking for devices.
static SEARCHES: AtomicUsize = AtomicUsize::new(0);

/// Whether a panic says that a device broke down, which becomes an error, or that there is no driver: a program need not tell it
/// on its own. Any other panic is a fault of a program.
pub fn is_expected(panic: &(dyn Any + Send)) -> bool {
    SEARCHES.load(Ordering::Relaxed) > 0
        || UNDER_WAY.load(Ordering::Relaxed) > 0
            && message(panic).is_some_and(|message| Breakdown::of(message) != Breakdown::Other)
}

fn message(panic: &(dyn Any + Send)) -> Option<&str> {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
}

/// Looks for devices. The libraries of drivers that are missing panic; nothing is found then.
pub(crate) fn search<T: Default>(work: impl FnOnce() -> T) -> T {
    SEARCHES.fetch_add(1, Ordering::Relaxed);
    let found = catch_unwind(AssertUnwindSafe(work));
    SEARCHES.fetch_sub(1, Ordering::Relaxed);
    found.unwrap_or_default()
}

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
            device,
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

/// How a device broke down, as far as its library's message tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breakdown {
    /// It has no memory left.
    Memory,
    /// It is gone: unplugged, reset, or its driver has failed.
    Lost,
    /// Anything else.
    Other,
}

impl Breakdown {
    /// By what libraries of devices say.
    fn of(message: &str) -> Self {
        let message = message.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
        if says(&[
            "out of memory",
            "out_of_memory",
            "outofmemory",
            "not enough memory",
            "buffertoobig",
        ]) {
            Self::Memory
        } else if says(&[
            "is lost",
            "device lost",
            "devicelost",
            "device_lost",
            "lost device",
            "launch_failed",
            "no longer available",
        ]) {
            Self::Lost
        } else {
            Self::Other
        }
    }
}

impl fmt::Display for Breakdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "ran out of memory",
            Self::Lost => "was lost",
            Self::Other => "failed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breakdowns_are_known_by_what_libraries_say() {
        for (message, breakdown) in [
            (
                "DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")",
                Breakdown::Memory,
            ),
            (
                "CUDA out of memory. Tried to allocate 2.00 GiB",
                Breakdown::Memory,
            ),
            ("wgpu error: Out of Memory", Breakdown::Memory),
            ("BufferTooBig(8589934592)", Breakdown::Memory),
            ("Parent device is lost", Breakdown::Lost),
            ("hipErrorLaunchFailure: VK_ERROR_DEVICE_LOST", Breakdown::Lost),
            ("index out of bounds: the len is 3", Breakdown::Other),
        ] {
            assert_eq!(Breakdown::of(message), breakdown, "{message}");
        }
    }

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
