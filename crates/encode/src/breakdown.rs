//! How devices break down, by what their libraries panic with, and which panics a program expects.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How much work on devices is under way.
pub(crate) static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);
/// How many are looking for devices.
static SEARCHES: AtomicUsize = AtomicUsize::new(0);

/// Whether a panic says that a device broke down, which becomes an error, or that there is no driver: a program need not tell it
/// on its own. Any other panic is a fault of a program.
pub fn is_expected(panic: &(dyn Any + Send)) -> bool {
    SEARCHES.load(Ordering::Relaxed) > 0
        || UNDER_WAY.load(Ordering::Relaxed) > 0
            && message(panic).is_some_and(|message| Breakdown::of(message) != Breakdown::Other)
}

pub(crate) fn message(panic: &(dyn Any + Send)) -> Option<&str> {
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
    pub(crate) fn of(message: &str) -> Self {
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
}
