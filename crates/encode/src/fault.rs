//! A wrong gradient on demand, so that tests can see the check of devices find one. Not part of any build that users have.

use std::sync::atomic::{AtomicBool, Ordering};

static BROKEN: AtomicBool = AtomicBool::new(false);

/// Whether layer norms outside of the CPU lose a part of their gradient, as a faulty kernel would; their output stays right.
pub(crate) fn set(broken: bool) {
    BROKEN.store(broken, Ordering::Relaxed);
}

pub(crate) fn is_set() -> bool {
    BROKEN.load(Ordering::Relaxed)
}
