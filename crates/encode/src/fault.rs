//! Faults of a device on demand, so that tests can see them found and told. Not part of any build that users have.

/// What is wrong with the device for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// `ndarray:broken`: a gradient.
    Gradient,
    /// `ndarray:memory:N`: it runs out of memory after so many layer norms.
    Memory {
        /// How many.
        after: u64,
    },
    /// `ndarray:lost:N`: it is lost after so many layer norms.
    Lost {
        /// How many.
        after: u64,
    },
}

#[cfg(feature = "ndarray")]
pub(crate) use on_demand::{set, strikes};

#[cfg(feature = "ndarray")]
mod on_demand {
    use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

    use super::Fault;

    static KIND: AtomicU8 = AtomicU8::new(NONE);
    static LEFT: AtomicU64 = AtomicU64::new(0);

    const NONE: u8 = 0;
    const GRADIENT: u8 = 1;
    const MEMORY: u8 = 2;
    const LOST: u8 = 3;

    /// What happens from now on to layer norms outside of the CPU.
    pub(crate) fn set(fault: Fault) {
        let (kind, left) = match fault {
            Fault::None => (NONE, 0),
            Fault::Gradient => (GRADIENT, 0),
            Fault::Memory { after } => (MEMORY, after),
            Fault::Lost { after } => (LOST, after),
        };
        LEFT.store(left, Ordering::Relaxed);
        KIND.store(kind, Ordering::Relaxed);
    }

    /// Called by every layer norm. Tells whether its gradient is to lose a part, as in a faulty kernel whose output is right; or breaks
    /// down as the libraries of GPUs do, with a panic.
    pub(crate) fn strikes() -> bool {
        let kind = KIND.load(Ordering::Relaxed);
        let what = match kind {
            MEMORY => "CUDA_ERROR_OUT_OF_MEMORY: out of memory",
            LOST => "Parent device is lost",
            _ => return kind == GRADIENT,
        };
        let one_less = LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if one_less.is_err() {
            std::panic::panic_any(what);
        }
        false
    }
}
