//! Whether recordings can be used: several at a time, each as thoroughly as asked.
//!
//! In: paths. Out: for each, in order, nothing or what is wrong with it. A recording that fails fails alone.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use serde::{Deserialize, Serialize};

use super::Progress;
use crate::Error;

/// How thoroughly recordings are looked at before they count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// The file is there.
    #[default]
    Presence,
    /// It opens as audio and its first block decodes.
    Opens,
    /// It decodes to its end, without a fault on the way.
    Decodes,
}

/// What is wrong with each recording. `progress` is called on the calling thread.
pub(super) fn run(
    check: Check,
    paths: &[&Path],
    threads: usize,
    progress: Progress<'_>,
) -> Result<Vec<Option<String>>, Error> {
    if check == Check::Presence {
        // The lists of the folders have told already.
        return match progress(paths.len(), paths.len()) {
            ControlFlow::Continue(()) => Ok(vec![None; paths.len()]),
            ControlFlow::Break(()) => Err(Error::Cancelled),
        };
    }
    for_each(paths, threads, progress, |path| fault_of(path, check))
}

/// One result for each path, in order, by several threads.
pub(super) fn for_each<T: Send>(
    paths: &[&Path],
    threads: usize,
    progress: Progress<'_>,
    work: impl Fn(&Path) -> T + Sync,
) -> Result<Vec<T>, Error> {
    let mut results: Vec<Option<T>> = paths.iter().map(|_| None).collect();
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut stopped = progress(0, paths.len()).is_break();
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..threads.clamp(1, paths.len().max(1)) {
            let (sender, next, stop, work) = (sender.clone(), &next, &stop, &work);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(path) = paths.get(index) else { break };
                    if sender.send((index, work(path))).is_err() {
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
            if !stopped && progress(done, paths.len()).is_break() {
                stopped = true;
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
    if stopped {
        return Err(Error::Cancelled);
    }
    // Every path has its result unless a thread was stopped.
    results.into_iter().collect::<Option<_>>().ok_or(Error::Cancelled)
}

fn fault_of(path: &Path, check: Check) -> Option<String> {
    let fault = |error: hark_audio::Error| Some(error.to_string());
    let mut decoder = match hark_audio::Decoder::open(path) {
        Ok(decoder) => decoder,
        Err(error) => return fault(error),
    };
    loop {
        match decoder.next_block() {
            Err(error) => return fault(error),
            Ok(Some(_)) if check == Check::Decodes => {}
            Ok(_) => break,
        }
    }
    match check {
        Check::Decodes => decoder.damage().map(ToString::to_string),
        Check::Presence | Check::Opens => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_stand_in_the_order_of_the_paths() {
        let names: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        let paths: Vec<&Path> = names.iter().map(Path::new).collect();
        for threads in [0, 1, 3, 200] {
            let mut calls = Vec::new();
            let mut progress = |done, all| {
                calls.push((done, all));
                ControlFlow::Continue(())
            };
            let results = for_each(&paths, threads, &mut progress, |path| path.display().to_string());
            assert_eq!(results.unwrap(), names);
            assert_eq!(calls, (0..=100).map(|done| (done, 100)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_caller_can_stop() {
        let names: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
        let paths: Vec<&Path> = names.iter().map(Path::new).collect();
        for last in [0, 5] {
            let mut calls = 0;
            let mut progress = |done, _| {
                calls += 1;
                if done >= last {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            };
            let stopped = for_each(&paths, 2, &mut progress, |_| ());
            assert!(matches!(stopped, Err(Error::Cancelled)));
            assert_eq!(calls, last + 1);
        }
        let stopped = run(Check::Presence, &paths, 1, &mut |_, _| ControlFlow::Break(()));
        assert!(matches!(stopped, Err(Error::Cancelled)));
    }
}
