//! Several files at a time.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hark_work::workers::lock;

use crate::{Client, Error, Event, Fetched, OnEvent, Remote};

impl Client {
    /// Downloads files, `parallel` at a time, in the order in which they are listed. After an error no other file is
    /// begun; those under way stop where they are, and the next call resumes them.
    ///
    /// # Errors
    /// The first of [`Client::fetch`].
    ///
    /// # Panics
    /// If `on_event` panics.
    pub fn fetch_all(
        &self,
        remotes: &[Remote],
        parallel: NonZeroUsize,
        on_event: OnEvent<'_>,
    ) -> Result<Vec<Fetched>, Error> {
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let failure = Mutex::new(None);
        let fetched: Mutex<Vec<Option<Fetched>>> = Mutex::new(vec![None; remotes.len()]);
        let turn = Mutex::new(());
        let one_at_a_time = |event: Event<'_>| {
            let _turn = lock(&turn);
            if stop.load(Ordering::Relaxed) {
                return ControlFlow::Break(());
            }
            on_event(event)
        };
        std::thread::scope(|scope| {
            for _ in 0..parallel.get().min(remotes.len()) {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(remote) = remotes.get(number) else { break };
                        match self.fetch(remote, &one_at_a_time) {
                            Ok(file) => lock(&fetched)[number] = Some(file),
                            // The first failure counts: it has stopped the others.
                            Err(error) => {
                                if !stop.swap(true, Ordering::Relaxed) {
                                    *lock(&failure) = Some(error);
                                }
                            }
                        }
                    }
                });
            }
        });
        if let Some(error) = lock(&failure).take() {
            return Err(error);
        }
        let fetched = std::mem::take(&mut *lock(&fetched));
        // Every file has its result unless a thread was stopped.
        fetched.into_iter().collect::<Option<_>>().ok_or(Error::Cancelled)
    }
}
