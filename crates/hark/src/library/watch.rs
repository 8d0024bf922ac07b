//! Waits until something happens in the folders of a library.
//!
//! The system tells of changes where it can. Network drives often do not, so that there is a look every minute besides.

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};

/// A look without being told.
const LOOK_EVERY: Duration = Duration::from_mins(1);
/// How long nothing must happen before a look: files are copied in many steps.
const QUIET: Duration = Duration::from_secs(1);
/// How soon a wish to stop is seen.
const TICK: Duration = Duration::from_millis(100);

/// Folders that are watched.
pub struct Watch {
    events: mpsc::Receiver<()>,
    _watcher: RecommendedWatcher,
}

impl Watch {
    /// Begins to watch. What cannot be watched is told to `tell`, and is still looked at every minute.
    pub fn new(roots: &[String], tell: &dyn Fn(&str)) -> Result<Self> {
        let (sender, events) = mpsc::channel();
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading a file is no change of it.
            if !event.is_ok_and(|event| matches!(event.kind, EventKind::Access(_))) {
                let _ = sender.send(());
            }
        })
        .context("changes of files cannot be watched on this system")?;
        for root in roots {
            if let Err(error) = watcher.watch(Path::new(root), RecursiveMode::Recursive) {
                tell(&format!("{root}: changes are seen once a minute only: {error}"));
            }
        }
        Ok(Self {
            events,
            _watcher: watcher,
        })
    }

    /// Waits for changes, or for the minute to pass. `false` if the wait was ended by `stopped`.
    pub fn wait(&self, stopped: &dyn Fn() -> bool) -> bool {
        let begun = Instant::now();
        let mut last_event = None;
        while !stopped() {
            match self.events.recv_timeout(TICK) {
                Ok(()) => last_event = Some(Instant::now()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(TICK),
            }
            let is_quiet = last_event.is_some_and(|event| event.elapsed() >= QUIET);
            if is_quiet || begun.elapsed() >= LOOK_EVERY {
                return true;
            }
        }
        false
    }
}
