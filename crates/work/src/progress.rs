//! How long work tells its caller where it is, and how the caller stops it.

use std::ops::ControlFlow;

/// How far a pass has come, in blocks of equal cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Blocks finished.
    pub done: u64,
    /// Blocks in all.
    pub total: u64,
}

/// Told of progress after every block, one call at a time, from any thread; `Break` cancels the pass.
/// The threads stop after the block that each has in hand.
pub type Watch<'a> = &'a (dyn Fn(Progress) -> ControlFlow<()> + Sync);

/// For callers who neither show progress nor cancel.
///
/// # Errors
///
/// None: it never asks to stop.
pub fn unwatched(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}
