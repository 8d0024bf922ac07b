//! How long work reports where it is, and how its caller cancels it.

use std::ops::ControlFlow;

/// Called with the number of finished pieces and of all pieces, from any thread; `Break` cancels the work at the next
/// good place. Calls of one piece of work come one at a time.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) -> ControlFlow<()> + Sync);

/// For callers who neither show progress nor cancel.
///
/// # Errors
///
/// None: it never cancels.
pub fn no_progress(_done: u64, _total: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// The caller's [`Progress`] cancelled the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cancelled")]
pub struct Cancelled;

/// Reports progress.
///
/// # Errors
/// [`Cancelled`] if the caller wants the work to end.
pub fn report(progress: Progress<'_>, done: usize, total: usize) -> Result<(), Cancelled> {
    match progress(done as u64, total as u64) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Cancelled),
    }
}
