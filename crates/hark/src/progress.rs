//! Progress for people: a bar on a terminal, nothing where the output goes elsewhere.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hark_download::Event;
use hark_work::files::explain;
use hark_work::workers::lock;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// A bar that counts items: `embedding captions ━━━━ 1200/5000, 40/s, 95s left`.
pub fn items(what: &str) -> ProgressBar {
    bar(ITEMS, what)
}

const ITEMS: &str = "{prefix} {bar:30} {human_pos}/{human_len}, {per_sec}{left}";
const BYTES: &str = "{prefix} {bar:30} {bytes}/{total_bytes}, {bytes_per_sec}{left}";

/// A bar that counts recordings, with a message that says how many times faster than they play.
pub fn recordings(what: &str) -> ProgressBar {
    bar(
        "{prefix} {bar:30} {human_pos}/{human_len} recordings{msg}{left}",
        what,
    )
}

/// Recordings on their way through a model: how many are done, and how much sound a second takes.
pub struct Recordings {
    bar: ProgressBar,
    began: Instant,
    heard: f64,
}

impl Recordings {
    /// A bar that begins now.
    pub fn new(what: &str) -> Self {
        Self {
            bar: recordings(what),
            began: Instant::now(),
            heard: 0.0,
        }
    }

    /// So many seconds of sound more are done.
    pub fn heard(&mut self, seconds: f64) {
        self.heard += seconds;
        let rate = self.heard / self.began.elapsed().as_secs_f64().max(1e-3);
        self.bar.set_message(speed(rate));
    }

    /// So many recordings are done; `Break` if the user wants to stop.
    pub fn show(&self, done: u64, total: u64) -> ControlFlow<()> {
        show(&self.bar, done, total)
    }

    /// Prints a line on stderr above the bar.
    pub fn print(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }

    /// Removes the bar.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// A bar that counts batches of a training, with a message that says how it goes.
pub fn training(what: &str) -> ProgressBar {
    bar("{prefix} {bar:20} {human_pos}/{human_len}, {msg}{left}", what)
}

/// A bar for many pieces of work side by side, with a message that says how many are done.
pub fn share(what: &str) -> ProgressBar {
    bar("{prefix} {bar:30} {percent}%, {msg}{left}", what)
}

/// Files on their way here, and what is made of them: one bar for all that is under way.
pub struct Downloads {
    bar: ProgressBar,
    /// Bytes of each file that are done, and all of them.
    files: Mutex<BTreeMap<String, (u64, u64)>>,
}

impl Downloads {
    /// A bar that begins now.
    pub fn new() -> Self {
        Self {
            bar: bar(BYTES, ""),
            files: Mutex::default(),
        }
    }

    /// Shows what happens; `Break` if the user wants to stop.
    pub fn show(&self, event: Event<'_>) -> ControlFlow<()> {
        let (file, done, total) = match event {
            Event::Checking { file, done, total } => (file, done, total),
            Event::Downloading { file, done, total } => (file, done, total.unwrap_or(done)),
            Event::Waiting { .. } => return go_on(),
            Event::Finished { file, fetched } => (file, fetched.bytes, fetched.bytes),
            Event::Retrying { file, error } => {
                return self.say(format!("{file}: {}; trying again", explain(error)));
            }
        };
        let mut files = lock(&self.files);
        files.insert(file.to_owned(), (done, total));
        let under_way = files.values().filter(|(done, total)| done < total).count();
        self.bar.set_prefix(match (event, under_way) {
            (Event::Checking { .. }, _) => format!("checking {file}"),
            (_, 0 | 1) => file.to_owned(),
            (_, others) => format!("{file} and {} more", others - 1),
        });
        set_style(&self.bar, BYTES);
        let sum = |of: fn(&(u64, u64)) -> u64| files.values().map(of).sum();
        show(&self.bar, sum(|file| file.0), sum(|file| file.1))
    }

    /// Shows pieces of other work; `Break` if the user wants to stop.
    pub fn count(&self, what: String, done: u64, total: u64) -> ControlFlow<()> {
        self.bar.set_prefix(what);
        set_style(&self.bar, ITEMS);
        show(&self.bar, done, total)
    }

    /// Shows a line of text instead of bytes; `Break` if the user wants to stop.
    pub fn say(&self, text: String) -> ControlFlow<()> {
        self.bar.set_prefix(text);
        show(
            &self.bar,
            self.bar.position(),
            self.bar.length().unwrap_or_default(),
        )
    }

    /// Removes the bar.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// A turning wheel, for work of unknown length.
pub fn spinner(what: &str) -> ProgressBar {
    let bar = bar("{spinner} {prefix} {msg}", what);
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

fn bar(template: &str, what: &str) -> ProgressBar {
    // Drawn on stderr; indicatif draws nothing where that is not a terminal.
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(8));
    set_style(&bar, template);
    bar.set_prefix(what.to_owned());
    bar
}

fn set_style(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        let left = |state: &ProgressState, out: &mut dyn fmt::Write| {
            let _ = out.write_str(&time_left(state.pos(), state.eta()));
        };
        bar.set_style(style.with_key("left", left).progress_chars("━╸─"));
    }
}

/// `, 95s left`; nothing before a piece is done or as long as there is no estimate, which is then zero.
fn time_left(done: u64, left: Duration) -> String {
    if done == 0 || left.as_secs() == 0 {
        return String::new();
    }
    format!(", {:#} left", HumanDuration(left))
}

/// How fast recordings are heard, as a bar's message.
pub fn speed(seconds_per_second: f64) -> String {
    format!(", {seconds_per_second:.0} s of sound each second")
}

/// Whether the user has asked to stop.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Takes Ctrl-C as a wish to stop at the next good place; a second one ends the program at once.
pub fn stop_on_interrupt() -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(|| {
        if STOPPED.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
    })
}

/// The exit code of a program that was interrupted, as shells have it.
pub const INTERRUPTED: u8 = 130;

/// Whether the user has asked to stop.
pub fn stopped() -> bool {
    STOPPED.load(Ordering::Relaxed)
}

/// The libraries' form of a progress callback, showing on a bar.
pub fn show(bar: &ProgressBar, done: u64, total: u64) -> ControlFlow<()> {
    bar.set_length(total);
    bar.set_position(done);
    go_on()
}

/// `Break` if the user has asked to stop.
pub fn go_on() -> ControlFlow<()> {
    if stopped() {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_left_before_there_is_an_estimate() {
        assert_eq!(time_left(0, Duration::from_secs(9)), "");
        assert_eq!(time_left(3, Duration::ZERO), "");
        assert_eq!(time_left(3, Duration::from_millis(400)), "");
        assert_eq!(time_left(3, Duration::from_secs(9)), ", 9s left");
    }
}
