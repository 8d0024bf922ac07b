//! How long work reports its progress, and how the caller cancels it.
//!
//! One callback does both: it is told how much is done, and answers whether to go on. What counts as a piece (a clip, a
//! block, a byte) is for the function that takes the callback to say.

use std::ops::ControlFlow;

/// Called with the number of finished pieces and the number of all pieces. It may be called from any thread, but never
/// from two at once. `Break` cancels the work at the next point where it can stop cleanly.
///
/// ```
/// use std::ops::ControlFlow;
/// use std::time::{Duration, Instant};
/// use hark_work::workers::map;
///
/// let start = Instant::now();
/// let time_limit = |_done, _total| match start.elapsed() < Duration::from_secs(60) {
///     true => ControlFlow::Continue(()),
///     false => ControlFlow::Break(()),
/// };
/// let squares = map(&[1, 2, 3], 2, &time_limit, |number| number * number)?;
/// assert_eq!(squares, [1, 4, 9]);
/// # Ok::<(), hark_work::progress::Cancelled>(())
/// ```
pub type Progress<'a> = &'a (dyn Fn(u64, u64) -> ControlFlow<()> + Sync);

/// For callers who neither show progress nor cancel.
pub fn no_progress(_done: u64, _total: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// The caller's [`Progress`] cancelled the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cancelled")]
pub struct Cancelled;

/// Calls `progress`, in a form that `?` takes.
///
/// # Errors
/// [`Cancelled`] if the callback breaks.
pub fn report(progress: Progress<'_>, done: usize, total: usize) -> Result<(), Cancelled> {
    match progress(done as u64, total as u64) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Cancelled),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callback_that_breaks_cancels() {
        let until_two = |done, _| {
            if done < 2 {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        assert_eq!(report(&until_two, 1, 3), Ok(()));
        assert_eq!(report(&until_two, 2, 3), Err(Cancelled));
        assert_eq!(report(&no_progress, 3, 3), Ok(()));
    }
}
