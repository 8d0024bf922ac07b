//! How long work reports its progress, and how the caller cancels it.
//!
//! One callback does both: it is told how much is done, and answers whether to go on. What counts as a piece (a clip, a
//! block, a byte) is for the function that takes the callback to say.

use std::fmt;
use std::ops::ControlFlow;

/// Called with the number of finished pieces and the number of all pieces. It may be called from any thread, but never
/// from two at once. `Break` cancels the work at the next point where it can stop cleanly.
///
/// ```
/// use std::ops::ControlFlow;
/// use std::time::{Duration, Instant};
/// use hark_work::workers::map;
///
/// let start = Instant::now();
/// let time_limit = |_done, _total| match start.elapsed() < Duration::from_secs(60) {
///     true => ControlFlow::Continue(()),
///     false => ControlFlow::Break(()),
/// };
/// let squares = map(&[1, 2, 3], 2, &time_limit, |number| number * number)?;
/// assert_eq!(squares, [1, 4, 9]);
/// # Ok::<(), hark_work::progress::Cancelled>(())
/// ```
pub type Progress<'a> = &'a (dyn Fn(u64, u64) -> ControlFlow<()> + Sync);

/// For callers who neither show progress nor cancel.
pub fn no_progress(_done: u64, _total: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// The caller's [`Progress`] cancelled the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cancelled")]
pub struct Cancelled;

/// Calls `progress`, in a form that `?` takes.
///
/// # Errors
/// [`Cancelled`] if the callback breaks.
pub fn report(progress: Progress<'_>, done: usize, total: usize) -> Result<(), Cancelled> {
    match progress(done as u64, total as u64) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Cancelled),
    }
}

/// A thousand and more with separators: 49,838.
pub fn group_digits(number: impl TryInto<u64>) -> String {
    let digits = number
        .try_into()
        .map_or_else(|_| "?".to_owned(), |number: u64| number.to_string());
    let mut text = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number and what is counted, in the right form: `1 file`, `2,500 files`, `0 queries`. The first word of `one` is
/// the noun: `link to a folder` becomes `3 links to a folder`.
pub fn counted(number: impl TryInto<u64>, one: &str) -> String {
    let number = group_digits(number);
    let (noun, rest) = one.split_once(' ').map_or((one, ""), |(noun, rest)| (noun, rest));
    let mut text = format!("{number} {noun}");
    if number != "1" {
        let consonant = |letter: char| !"aeiou".contains(letter);
        if let Some(stem) = text.strip_suffix('y')
            && stem.ends_with(consonant)
        {
            text = format!("{stem}ies");
        } else if text.ends_with("epoch") {
            // Its `ch` is spoken as k.
            text.push('s');
        } else if ["ch", "sh", "s", "x"].iter().any(|end| text.ends_with(end)) {
            text.push_str("es");
        } else {
            text.push('s');
        }
    }
    if !rest.is_empty() {
        text.push(' ');
        text.push_str(rest);
    }
    text
}

/// A number of bytes: `7.6 GB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut amount = self.0 as f64;
        let mut units = ["bytes", "kB", "MB", "GB", "TB"].into_iter();
        let mut unit = units.next().unwrap_or_default();
        for next in units {
            if amount < 1000.0 {
                break;
            }
            (amount, unit) = (amount / 1000.0, next);
        }
        if unit == "bytes" {
            write!(f, "{amount} {unit}")
        } else {
            write!(f, "{amount:.1} {unit}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_in_units() {
        let told = [0, 999, 1000, 7_600_000_000, 1_400_000_000_000_000].map(|bytes| Bytes(bytes).to_string());
        assert_eq!(told, ["0 bytes", "999 bytes", "1.0 kB", "7.6 GB", "1400.0 TB"]);
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!(group_digits(7_usize), "7");
        assert_eq!(group_digits(999_usize), "999");
        assert_eq!(group_digits(49_838_usize), "49,838");
        assert_eq!(group_digits(1_000_000_usize), "1,000,000");
    }

    #[test]
    fn counts_agree_with_what_is_counted() {
        for (number, one, text) in [
            (1, "file", "1 file"),
            (0, "file", "0 files"),
            (2500, "query", "2,500 queries"),
            (2, "batch", "2 batches"),
            (2, "day", "2 days"),
            (1, "link to a folder", "1 link to a folder"),
            (3, "link to a folder", "3 links to a folder"),
            (30, "epoch", "30 epochs"),
        ] {
            assert_eq!(counted(number, one), text);
        }
        assert_eq!(counted(-1, "file"), "? files");
    }

    #[test]
    fn a_callback_that_breaks_cancels() {
        let until_two = |done, _| {
            if done < 2 {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        assert_eq!(report(&until_two, 1, 3), Ok(()));
        assert_eq!(report(&until_two, 2, 3), Err(Cancelled));
        assert_eq!(report(&no_progress, 3, 3), Ok(()));
    }
}
