//! Work that runs side by side, one piece a thread, and is handed over on the calling thread.
//!
//! One piece a thread beats all threads on one piece: the CPU backend's elementwise operations run on one thread anyway.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use crate::Error;

/// Takes pieces from `next` until it has none, runs each on one of `workers` threads (whose matrix products share
/// `threads` in all), and hands results to `deliver` in the order in which they are done. An error from `deliver` ends the
/// work after the pieces at hand.
pub(crate) fn run<W: Send, R: Send>(
    workers: usize,
    threads: usize,
    next: &(dyn Fn() -> Option<W> + Sync),
    run: &(dyn Fn(W) -> R + Sync),
    deliver: &mut dyn FnMut(R) -> Result<(), Error>,
) -> Result<(), Error> {
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
