//! Pieces of work side by side: handed over in their order ([`in_order`]), or as they are done ([`as_done`]).
//!
//! What a piece is depends on its number alone, so that neither the number of threads nor who was faster changes anything.
//! At most a few pieces wait to be taken: memory stays bounded however slow the trainer is.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::progress::{Cancelled, Progress};

struct State<T> {
    /// The next number that a worker takes.
    next: u64,
    /// The number that is handed over next.
    wanted: u64,
    made: BTreeMap<u64, T>,
    /// No more pieces are wanted, or a worker has broken down.
    stop: bool,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    /// Something changed that a worker or the taker may wait for.
    changed: Condvar,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells everyone to stop when a thread ends by a panic, which would otherwise leave the others waiting.
struct StopOnPanic<'a, T>(&'a Shared<T>);

impl<T> Drop for StopOnPanic<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().stop = true;
            self.0.changed.notify_all();
        }
    }
}

/// Makes the pieces of these numbers on `workers` threads, at most `ahead` of them before their turn, and hands each to `take`
/// on the calling thread, with the time that was spent waiting for it. Ends when `take` breaks, or with the last piece.
///
/// # Panics
/// If `make` panics.
pub fn in_order<T: Send, B>(
    numbers: Range<u64>,
    workers: usize,
    ahead: usize,
    make: &(dyn Fn(u64) -> T + Sync),
    take: &mut dyn FnMut(u64, T, Duration) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let shared = Shared {
        state: Mutex::new(State {
            next: numbers.start,
            wanted: numbers.start,
            made: BTreeMap::new(),
            stop: false,
        }),
        changed: Condvar::new(),
    };
    let ahead = ahead.max(1) as u64;
    std::thread::scope(|scope| {
        for _ in 0..workers.max(1) {
            scope.spawn(|| {
                let alarm = StopOnPanic(&shared);
                loop {
                    let mut state = shared.lock();
                    while !state.stop && state.next < numbers.end && state.next >= state.wanted + ahead {
                        state = shared.wait(state);
                    }
                    if state.stop || state.next >= numbers.end {
                        break;
                    }
                    let number = state.next;
                    state.next += 1;
                    drop(state);
                    let piece = make(number);
                    shared.lock().made.insert(number, piece);
                    shared.changed.notify_all();
                }
                drop(alarm);
            });
        }
        // If taking breaks down, the workers must not wait for it.
        let _alarm = StopOnPanic(&shared);
        let mut result = ControlFlow::Continue(());
        for number in numbers.clone() {
            let since = Instant::now();
            let mut state = shared.lock();
            let piece = loop {
                if let Some(piece) = state.made.remove(&number) {
                    break Some(piece);
                }
                if state.stop {
                    break None;
                }
                state = shared.wait(state);
            };
            state.wanted = number + 1;
            drop(state);
            shared.changed.notify_all();
            // A worker has broken down; leaving the scope passes its panic on.
            let Some(piece) = piece else { break };
            result = take(number, piece, since.elapsed());
            if result.is_break() {
                break;
            }
        }
        shared.lock().stop = true;
        shared.changed.notify_all();
        result
    })
}

/// Takes pieces from `next` until it has none, runs each on one of `workers` threads (whose matrix products share
/// `threads` in all), and hands results to `deliver` in the order in which they are done. An error from `deliver` ends the
/// work after the pieces at hand.
///
/// # Errors
/// What `deliver` returns, or if the threads cannot be started.
pub fn as_done<W: Send, R: Send, E: From<rayon::ThreadPoolBuildError>>(
    workers: usize,
    threads: usize,
    next: &(dyn Fn() -> Option<W> + Sync),
    run: &(dyn Fn(W) -> R + Sync),
    deliver: &mut dyn FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    let workers = workers.clamp(1, threads.max(1));
    // With fewer pieces than threads, the matrix products of a piece share what is left over.
    let pools = (0..workers)
        .map(|_| {
            rayon::ThreadPoolBuilder::new()
                .num_threads((threads / workers).max(1))
                .build()
        })
        .collect::<Result<Vec<_>, _>>()?;
    let stop = AtomicBool::new(false);
    let (sender, receiver) = mpsc::sync_channel(workers);
    std::thread::scope(|scope| {
        for pool in &pools {
            let (sender, stop) = (sender.clone(), &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let Some(piece) = next() else {
                        break;
                    };
                    let done = pool.install(|| run(piece));
                    if sender.send(done).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let result = receiver.iter().try_for_each(deliver);
        // Workers that wait to hand over their piece see the closed channel.
        stop.store(true, Ordering::Relaxed);
        drop(receiver);
        result
    })
}

/// One result for each item, in order, by several threads. `progress` is called on the calling thread.
///
/// # Errors
/// [`Cancelled`] if `progress` asks for it.
///
/// # Panics
/// If `work` panics.
pub fn map<I: Sync, T: Send>(
    items: &[I],
    threads: usize,
    progress: Progress<'_>,
    work: impl Fn(&I) -> T + Sync,
) -> Result<Vec<T>, Cancelled> {
    let mut results: Vec<Option<T>> = items.iter().map(|_| None).collect();
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut stopped = progress(0, items.len() as u64).is_break();
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..threads.clamp(1, items.len().max(1)) {
            let (sender, next, stop, work) = (sender.clone(), &next, &stop, &work);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    if sender.send((index, work(item))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        stop.store(stopped, Ordering::Relaxed);
        let mut done = 0;
        for (index, result) in receiver {
            if let Some(place) = results.get_mut(index) {
                *place = Some(result);
            }
            done += 1;
            if !stopped && progress(done, items.len() as u64).is_break() {
                stopped = true;
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
    if stopped {
        return Err(Cancelled);
    }
    // Every item has its result unless a thread was stopped.
    results.into_iter().collect::<Option<_>>().ok_or(Cancelled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn pieces_come_in_order_whatever_the_workers_do() {
        for workers in [1, 2, 5] {
            let mut taken = Vec::new();
            // Every third piece takes longer than its neighbours.
            let make = |number: u64| {
                let rounds = if number.is_multiple_of(3) { 50_000 } else { 10 };
                (0..rounds).fold(number, |hash, _| hash.wrapping_mul(31).wrapping_add(7)) % 2 + number * 2
            };
            let flow: ControlFlow<()> = in_order(3..60, workers, 4, &make, &mut |number, piece, _| {
                taken.push((number, piece));
                ControlFlow::Continue(())
            });
            assert!(flow.is_continue());
            let expected: Vec<(u64, u64)> = (3..60).map(|number| (number, make(number))).collect();
            assert_eq!(taken, expected);
        }
    }

    #[test]
    fn no_more_pieces_wait_than_were_allowed() {
        let (made, taken) = (AtomicU64::new(0), AtomicU64::new(0));
        let make = |_| {
            let ahead = made.fetch_add(1, Ordering::SeqCst) + 1 - taken.load(Ordering::SeqCst);
            // One more is counted as taken only after `wanted` has moved on.
            assert!(ahead <= 5, "{ahead}");
        };
        let _: ControlFlow<()> = in_order(0..200, 3, 4, &make, &mut |_, (), _| {
            taken.fetch_add(1, Ordering::SeqCst);
            ControlFlow::Continue(())
        });
        assert_eq!(made.into_inner(), 200);
    }

    #[test]
    fn breaking_ends_it() {
        let flow = in_order(0..1_000_000, 2, 3, &|number| number, &mut |number, _, _| {
            if number == 5 {
                ControlFlow::Break("enough")
            } else {
                ControlFlow::Continue(())
            }
        });
        assert_eq!(flow, ControlFlow::Break("enough"));
    }

    #[test]
    #[should_panic(expected = "enough")]
    fn a_panic_of_the_taker_ends_it() {
        let _: ControlFlow<()> = in_order(0..1000, 2, 2, &|number| number, &mut |number, _, _| {
            assert!(number < 3, "enough");
            ControlFlow::Continue(())
        });
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_is_passed_on() {
        let make = |number| assert!(number < 3);
        let _: ControlFlow<()> = in_order(0..10, 2, 2, &make, &mut |_, (), _| ControlFlow::Continue(()));
    }

    #[test]
    fn results_stand_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..100).collect();
        for threads in [0, 1, 3, 200] {
            let calls = Mutex::new(Vec::new());
            let progress = |done, all| {
                calls.lock().unwrap().push((done, all));
                ControlFlow::Continue(())
            };
            let results = map(&items, threads, &progress, |item| item * 2);
            let doubled: Vec<u64> = items.iter().map(|item| item * 2).collect();
            assert_eq!(results.unwrap(), doubled);
            assert_eq!(
                calls.into_inner().unwrap(),
                (0..=100).map(|done| (done, 100)).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn the_caller_can_stop() {
        let items: Vec<u64> = (0..1000).collect();
        for last in [0, 5] {
            let calls = AtomicU64::new(0);
            let progress = |done, _| {
                calls.fetch_add(1, Ordering::Relaxed);
                if done >= last {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            };
            let stopped = map(&items, 2, &progress, |_| ());
            assert_eq!(stopped, Err(Cancelled));
            assert_eq!(calls.into_inner(), last + 1);
        }
    }
}
