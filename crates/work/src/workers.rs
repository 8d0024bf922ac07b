//! Pieces of work on several threads.
//!
//! | function | results |
//! |---|---|
//! | [`map`] | all at once, in the order of the items |
//! | [`in_order`] | one by one, in order, at most a few ahead of the caller |
//! | [`as_done`] | one by one, as they are finished |
//!
//! A piece depends on its number alone, so neither the number of threads nor their speed changes a result. The last two
//! keep a bounded number of finished pieces: memory stays small however slowly the caller takes them.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::progress::{Cancelled, Progress};

/// Locks a mutex whether or not a thread panicked while it held it: for data that every line of code leaves whole, or
/// that nobody looks at once the panic is passed on.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct State<T> {
    /// The next number that a worker takes.
    next: u64,
    /// The number that is handed over next.
    wanted: u64,
    made: BTreeMap<u64, T>,
    /// No more pieces are wanted, or a worker has panicked.
    stop: bool,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    /// Something changed that a worker or the taker may wait for.
    changed: Condvar,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        lock(&self.state)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stops all threads when one panics; the others would wait for it forever.
struct StopOnPanic<'a, T>(&'a Shared<T>);

impl<T> Drop for StopOnPanic<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().stop = true;
            self.0.changed.notify_all();
        }
    }
}

/// Makes the pieces with these numbers on `workers` threads and hands each, in order, to `take` on the calling thread,
/// with the time that the caller spent waiting for it. At most `ahead` pieces are begun before their turn. Ends when
/// `take` breaks, or after the last piece.
///
/// ```
/// use std::ops::ControlFlow;
/// use hark_work::workers::in_order;
///
/// let mut taken = Vec::new();
/// let flow = in_order(0..100, 4, 8, &|number| number * number, &mut |_, square, _waited| {
///     taken.push(square);
///     if square < 9 { ControlFlow::Continue(()) } else { ControlFlow::Break("enough") }
/// });
/// assert_eq!((taken, flow), (vec![0, 1, 4, 9], ControlFlow::Break("enough")));
/// ```
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
        // If `take` panics, the workers must not wait for it.
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
            // A worker has panicked; leaving the scope passes the panic on.
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

/// Takes pieces from `next` until it has none, runs each on one of `workers` threads, and hands the results to `deliver`
/// on the calling thread, in the order in which they are finished. Each worker has a rayon pool; together the pools have
/// `threads` threads. An error from `deliver` ends the work after the pieces that are under way.
///
/// # Errors
/// What `deliver` returns, or the error of starting the threads.
pub fn as_done<W: Send, R: Send, E: From<rayon::ThreadPoolBuildError>>(
    workers: usize,
    threads: usize,
    next: &(dyn Fn() -> Option<W> + Sync),
    run: &(dyn Fn(W) -> R + Sync),
    deliver: &mut dyn FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    let workers = workers.clamp(1, threads.max(1));
    // With fewer workers than threads, the matrix products of a piece share the rest.
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
        // Workers that wait to hand over a piece see the closed channel.
        stop.store(true, Ordering::Relaxed);
        drop(receiver);
        result
    })
}

/// Runs `work` on every item, on several threads, and returns the results in the order of the items. `progress` is
/// called on the calling thread, first with 0 items done.
///
/// # Errors
/// [`Cancelled`] if `progress` breaks.
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
