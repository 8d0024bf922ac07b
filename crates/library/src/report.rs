//! What an indexing did, as JSON and as text.

use hark_work::progress::{counted, group_digits};
use serde::Serialize;

use crate::error::Error;
use crate::indexing::Outcome;
use crate::library::Library;
use crate::location::length;
use crate::scan::SkipReason;

/// An indexing and the library after it. Serializes to what `hark index --json` prints.
#[derive(Debug, Serialize)]
pub struct IndexReport<'a> {
    /// The library's name.
    pub library: &'a str,
    /// The library's model.
    pub model: String,
    /// Recordings in the library.
    pub recordings: u64,
    /// Vectors in the library.
    pub windows: u64,
    /// Length of all recordings.
    pub seconds: f64,
    /// Its folders.
    pub folders: Vec<String>,
    /// What the indexing did.
    pub outcome: &'a Outcome,
    /// Recordings that the library has more than once. They are looked for if something is new.
    pub duplicates: usize,
}

impl<'a> IndexReport<'a> {
    /// Looks at a library after an indexing. `goes_on` is asked while duplicates are looked for.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn new(
        name: &'a str,
        library: &Library,
        outcome: &'a Outcome,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Self, Error> {
        let seen = library.store().overview()?;
        // All recordings are compared with all: only if there are new ones.
        let duplicates = if outcome.new + outcome.changed > 0 {
            library.duplicates(goes_on)?.len()
        } else {
            0
        };
        Ok(Self {
            library: name,
            model: library.store().settings().model.clone(),
            recordings: seen.files,
            windows: seen.windows,
            seconds: seen.seconds,
            folders: seen.roots,
            outcome,
            duplicates,
        })
    }

    /// Files that could not be read, in this run or since an earlier one.
    pub fn unreadable(&self) -> usize {
        self.outcome.failed.len() + self.outcome.still_failing.len()
    }

    /// What went wrong, a line each. Names of files are in them as they are.
    pub fn warnings(&self) -> Vec<String> {
        let Outcome {
            unreadable,
            damaged,
            changed_while_reading,
            skipped,
            failed,
            still_failing,
            ..
        } = self.outcome;
        let mut lines = Vec::new();
        for (path, why) in unreadable {
            lines.push(format!(
                "hark: warning: cannot read {path}: {why} (index entry kept)"
            ));
        }
        for (path, why) in damaged {
            lines.push(format!(
                "hark: warning: {path} is damaged, indexed in part: {why}"
            ));
        }
        for path in changed_while_reading {
            lines.push(format!(
                "hark: warning: {path} changed while it was read; run hark index again"
            ));
        }
        for reason in SkipReason::ALL {
            let mut paths = skipped.iter().filter(|(_, why)| *why == reason);
            if let Some((first, _)) = paths.next() {
                let count = paths.count() + 1;
                let such = if count == 1 { ":" } else { ", such as" };
                lines.push(format!(
                    "skipped {}{such} {first}",
                    counted(count, reason.about())
                ));
            }
        }
        let failures = failed.iter().chain(still_failing);
        lines.extend(failures.map(|failure| format!("hark: {}", failure.message)));
        lines
    }

    /// The library in one line, and what is to be known of tables and duplicates.
    pub fn summary(&self) -> Vec<String> {
        let outcome = self.outcome;
        let parts = [
            ("new", outcome.new),
            ("changed", outcome.changed),
            ("moved", outcome.moved),
            ("removed", outcome.removed),
            ("unchanged", outcome.unchanged),
            ("with new notes", outcome.annotated),
            ("tagged again", outcome.retagged),
            ("unreadable", self.unreadable()),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(what, count)| format!("{} {what}", group_digits(*count)))
            .collect();
        let mut lines = vec![format!(
            "{}: {}, {}, {}; {}",
            self.library,
            counted(self.recordings, "recording"),
            length(self.seconds),
            counted(self.windows, "window"),
            if parts.is_empty() {
                "no recordings found".to_owned()
            } else {
                parts.join(", ")
            }
        )];
        if let Some(notes) = &outcome.notes {
            let unmatched = if notes.unmatched.is_empty() {
                String::new()
            } else {
                format!("; not found: {}", notes.unmatched.join(", "))
            };
            lines.push(format!(
                "{} of {} in the tables {} a recording{unmatched}",
                group_digits(notes.matched),
                counted(notes.names, "name"),
                if notes.matched == 1 { "matches" } else { "match" }
            ));
        }
        if self.duplicates > 0 {
            lines.push(format!(
                "{}; list with hark index --duplicates",
                more_than_once(self.duplicates)
            ));
        }
        lines
    }
}

/// `3 recordings exist more than once`.
pub fn more_than_once(count: usize) -> String {
    let exist = if count == 1 { "exists" } else { "exist" };
    format!("{} {exist} more than once", counted(count, "recording"))
}
