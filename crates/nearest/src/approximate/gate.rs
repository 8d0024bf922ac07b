//! Who may be at an index: many that search, or one that changes it.
//!
//! The graph is walked without locks, so that nothing may change while somebody searches. A long change is made in
//! pieces; those who came to search during a piece go before the next one, and those who come while a change waits go
//! after it, so that neither side waits for ever. There is room for a fixed number of searches at a time, as each
//! needs memory that the index has set aside; further searches wait.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// See the module.
#[derive(Debug)]
pub(super) struct Gate {
    room: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    searching: usize,
    changing: bool,
    searches_waiting: usize,
    changes_waiting: usize,
    /// Searches that go before the next change: they waited when the last one ended. Never more than wait.
    first: usize,
}

impl Gate {
    pub(super) fn new(room: usize) -> Self {
        Self {
            room,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Waits until a search may begin; it ends with the guard.
    pub(super) fn search(&self) -> Search<'_> {
        let mut state = self.lock();
        state.searches_waiting += 1;
        let mut state = self.wait(state, |state| {
            !state.changing && state.searching < self.room && (state.changes_waiting == 0 || state.first > 0)
        });
        state.searches_waiting -= 1;
        state.first = state.first.saturating_sub(1);
        state.searching += 1;
        Search(self)
    }

    /// Waits until nobody else is here; the change ends with the guard.
    pub(super) fn change(&self) -> Change<'_> {
        let mut state = self.lock();
        state.changes_waiting += 1;
        let mut state = self.wait(state, |state| {
            !state.changing && state.searching == 0 && state.first == 0
        });
        state.changes_waiting -= 1;
        state.changing = true;
        Change(self)
    }

    /// Nothing that holds the lock can panic half-way.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, free: impl Fn(&State) -> bool) -> MutexGuard<'a, State> {
        self.changed
            .wait_while(state, |state| !free(state))
            .unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Search<'a>(&'a Gate);

impl Drop for Search<'_> {
    fn drop(&mut self) {
        self.0.lock().searching -= 1;
        self.0.changed.notify_all();
    }
}

pub(super) struct Change<'a>(&'a Gate);

impl Drop for Change<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.changing = false;
        state.first = state.searches_waiting;
        drop(state);
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// More threads than there is room for search and change; at no time are there too many, or both.
    #[test]
    fn never_more_than_there_is_room_for_and_never_both() {
        let gate = Gate::new(3);
        let (searching, changing, most) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (gate, searching, changing, most) = (&gate, &searching, &changing, &most);
                scope.spawn(move || {
                    for _ in 0..200 {
                        if thread < 6 {
                            let _here = gate.search();
                            let now = searching.fetch_add(1, Ordering::SeqCst) + 1;
                            most.fetch_max(now, Ordering::SeqCst);
                            assert_eq!(changing.load(Ordering::SeqCst), 0);
                            std::thread::yield_now();
                            searching.fetch_sub(1, Ordering::SeqCst);
                        } else {
                            let _here = gate.change();
                            assert_eq!(changing.fetch_add(1, Ordering::SeqCst), 0);
                            assert_eq!(searching.load(Ordering::SeqCst), 0);
                            std::thread::yield_now();
                            changing.fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                });
            }
        });
        assert!(most.load(Ordering::SeqCst) <= 3);
        assert_eq!(gate.lock().first, 0);
    }

    /// Whoever waits when a change ends goes before the next change, even if that is asked for at once.
    #[test]
    fn a_waiting_search_goes_before_the_next_change() {
        let gate = Gate::new(2);
        let searched = AtomicUsize::new(0);
        let first = gate.change();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _here = gate.search();
                searched.fetch_add(1, Ordering::SeqCst);
            });
            while gate.lock().searches_waiting == 0 {
                std::thread::yield_now();
            }
            drop(first);
            let _second = gate.change();
            assert_eq!(searched.load(Ordering::SeqCst), 1);
        });
    }
}
