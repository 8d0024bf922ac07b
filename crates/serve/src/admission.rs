//! Limits how many requests work at once, and how many may queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Lets a number of callers work, a number wait, and turns the others away.
pub(crate) struct Admission {
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
    most_waiting: usize,
}

/// A place among those that wait; it is given back even if the client goes away while waiting.
struct Place<'a>(&'a AtomicUsize);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Admission {
    pub(crate) fn new(working: usize, most_waiting: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(working.min(Semaphore::MAX_PERMITS))),
            waiting: AtomicUsize::new(0),
            most_waiting,
        }
    }

    /// A permit to work, after waiting if need be; `None` if too many wait already. Whoever works keeps the permit until the
    /// work is done, also if nobody wants its result any more.
    pub(crate) async fn enter(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Some(permit);
        }
        let place = Place(&self.waiting);
        if self.waiting.fetch_add(1, Ordering::AcqRel) >= self.most_waiting {
            return None;
        }
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        drop(place);
        permit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn some_work_some_wait_the_rest_goes() {
        let gate = Admission::new(1, 2);
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(Some(first)) = pin!(gate.enter()).poll(&mut context) else {
            panic!("nobody works yet");
        };
        let mut second = Box::pin(gate.enter());
        let mut third = Box::pin(gate.enter());
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert!(third.as_mut().poll(&mut context).is_pending());
        assert!(matches!(pin!(gate.enter()).poll(&mut context), Poll::Ready(None)));
        // One that waits gives up: its place is free again.
        drop(second);
        let mut fourth = Box::pin(gate.enter());
        assert!(fourth.as_mut().poll(&mut context).is_pending());
        drop(first);
        assert!(matches!(third.as_mut().poll(&mut context), Poll::Ready(Some(_))));
        assert!(matches!(fourth.as_mut().poll(&mut context), Poll::Ready(Some(_))));
        assert_eq!(gate.waiting.load(Ordering::Acquire), 0);
    }
}
