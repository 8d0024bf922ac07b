//! Waits until something changes in the folders of a library.
//!
//! The operating system reports changes where it can. It often does not for network drives, so a wait ends after a minute
//! at the latest.

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};

/// The longest wait.
const SCAN_EVERY: Duration = Duration::from_mins(1);
/// How long nothing must change before a wait ends: files are copied in many steps.
const QUIET: Duration = Duration::from_secs(1);
/// How soon a cancellation is noticed.
const TICK: Duration = Duration::from_millis(100);

/// Folders that are watched.
pub(crate) struct Watch {
    events: mpsc::Receiver<()>,
    _watcher: RecommendedWatcher,
}

impl Watch {
    /// Starts to watch. A folder that cannot be watched is given to `unwatched` with the reason.
    pub(crate) fn new(
        folders: &[String],
        unwatched: &mut dyn FnMut(&str, notify::Error),
    ) -> Result<Self, notify::Error> {
        let (sender, events) = mpsc::channel();
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading a file does not change it.
            if !event.is_ok_and(|event| matches!(event.kind, EventKind::Access(_))) {
                let _ = sender.send(());
            }
        })?;
        for folder in folders {
            if let Err(error) = watcher.watch(Path::new(folder), RecursiveMode::Recursive) {
                unwatched(folder, error);
            }
        }
        Ok(Self {
            events,
            _watcher: watcher,
        })
    }

    /// Waits for changes, or for the minute to pass. `false` if `goes_on` ended the wait.
    pub(crate) fn wait(&self, goes_on: &dyn Fn() -> bool) -> bool {
        let begun = Instant::now();
        let mut last_event = None;
        while goes_on() {
            match self.events.recv_timeout(TICK) {
                Ok(()) => last_event = Some(Instant::now()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(TICK),
            }
            let is_quiet = last_event.is_some_and(|event| event.elapsed() >= QUIET);
            if is_quiet || begun.elapsed() >= SCAN_EVERY {
                return true;
            }
        }
        false
    }
}
