//! A filter as a condition on the table `files`.
//!
//! No part of a filter becomes SQL: each list is passed as one JSON parameter, so its length is not limited by what a statement may
//! hold.

use rusqlite::{Connection, Statement};

use crate::Filter;

/// The day that a file was recorded on, or else last changed on; seconds are rounded down, before 1970 too.
macro_rules! day {
    () => {
        "CASE files.date WHEN '' THEN date((files.modified - (files.modified % 1000000000 + 1000000000) % 1000000000) \
         / 1000000000, 'unixepoch') ELSE files.date END"
    };
}

/// The condition of a filter and what is bound to it.
pub(super) struct Passing<'a> {
    filter: &'a Filter,
    tags: Vec<String>,
    /// True for the files that pass.
    pub(super) condition: String,
}

impl<'a> Passing<'a> {
    pub(super) fn new(filter: &'a Filter) -> Self {
        let tags = filter.tags();
        // Paths of a folder are a stretch of the index on paths; the cross join keeps the folders in front of it.
        let conditions = [
            (
                !filter.folders.is_empty(),
                "files.id IN (SELECT within.id FROM json_each(:folders) AS folder CROSS JOIN files AS within \
                 ON within.path >= folder.value ->> 0 AND within.path < folder.value ->> 1)",
            ),
            (
                !tags.is_empty(),
                "files.id IN (SELECT tags.file FROM json_each(:tags) AS wanted CROSS JOIN tags ON tags.tag = wanted.value \
                 GROUP BY tags.file HAVING count(*) = json_array_length(:tags))",
            ),
            (filter.min_seconds.is_some(), "files.seconds >= :min_seconds"),
            (filter.max_seconds.is_some(), "files.seconds <= :max_seconds"),
            (filter.min_rate.is_some(), "files.rate >= :min_rate"),
            (filter.max_rate.is_some(), "files.rate <= :max_rate"),
            (
                !filter.formats.is_empty(),
                "EXISTS (SELECT 1 FROM json_each(:formats) WHERE value IN (files.container, files.codec, \
                 substr(files.codec, 1, instr(replace(files.codec, '_', ' ') || ' ', ' ') - 1)))",
            ),
            (
                !filter.channels.is_empty(),
                "files.channels IN (SELECT value FROM json_each(:channels))",
            ),
            (filter.after.is_some(), concat!(day!(), " >= :after")),
            (filter.before.is_some(), concat!(day!(), " <= :before")),
        ];
        let used: Vec<&str> = conditions
            .into_iter()
            .filter_map(|(is_used, condition)| is_used.then_some(condition))
            .collect();
        let condition = if used.is_empty() {
            "true".to_owned()
        } else {
            used.join(" AND ")
        };
        Self {
            filter,
            tags,
            condition,
        }
    }

    /// Binds what the condition asks for.
    pub(super) fn bind(&self, statement: &mut Statement<'_>) -> Result<(), rusqlite::Error> {
        let Filter {
            min_seconds,
            max_seconds,
            min_rate,
            max_rate,
            after,
            before,
            ..
        } = self.filter;
        if !self.filter.folders.is_empty() {
            statement.raw_bind_parameter(":folders", serde_json::json!(self.filter.ranges()).to_string())?;
        }
        if !self.tags.is_empty() {
            statement.raw_bind_parameter(":tags", serde_json::json!(self.tags).to_string())?;
        }
        if !self.filter.formats.is_empty() {
            statement.raw_bind_parameter(":formats", serde_json::json!(self.filter.formats()).to_string())?;
        }
        if !self.filter.channels.is_empty() {
            statement.raw_bind_parameter(":channels", serde_json::json!(self.filter.channels).to_string())?;
        }
        for (name, seconds) in [(":min_seconds", min_seconds), (":max_seconds", max_seconds)] {
            if let Some(seconds) = seconds {
                statement.raw_bind_parameter(name, seconds)?;
            }
        }
        for (name, rate) in [(":min_rate", min_rate), (":max_rate", max_rate)] {
            if let Some(rate) = rate {
                statement.raw_bind_parameter(name, rate)?;
            }
        }
        for (name, day) in [(":after", after), (":before", before)] {
            if let Some(day) = day {
                statement.raw_bind_parameter(name, day)?;
            }
        }
        Ok(())
    }
}

/// The files that pass a filter, ascending; none if all do.
pub(super) fn passing(connection: &Connection, filter: &Filter) -> Result<Option<Vec<i64>>, rusqlite::Error> {
    if filter.is_empty() {
        return Ok(None);
    }
    if filter.matches_nothing() {
        return Ok(Some(Vec::new()));
    }
    let passing = Passing::new(filter);
    let mut find = connection.prepare_cached(&format!("SELECT id FROM files WHERE {}", passing.condition))?;
    passing.bind(&mut find)?;
    let mut files: Vec<i64> = find
        .raw_query()
        .mapped(|row| row.get(0))
        .collect::<Result<_, _>>()?;
    files.sort_unstable();
    Ok(Some(files))
}
