//! Keys of a recipe as text: changes such as `training.epochs=3`, names that were changed, names that were mistyped.

use std::path::Path;

use strsim::levenshtein;

use super::paths::{folder_of, resolve};

/// Keys that had another name: where they stood, and what they are called there now.
pub(super) const RENAMED: [(&str, &str); 13] = [
    ("audio.front-end.n_fft", "n-fft"),
    ("audio.front-end.pre_emphasis", "pre-emphasis"),
    ("objective.function", "relevance-function"),
    ("objective.mass", "smoothing"),
    ("training.accumulate", "gradient-accumulation"),
    ("training.clip-norm", "max-grad-norm"),
    ("training.fresh", "reinitialize"),
    ("training.keep", "select-by"),
    ("training.rates", "lr-multipliers"),
    ("training.schedule.end", "decay-epochs"),
    ("training.schedule.floor", "min-lr"),
    ("training.schedule.peak", "lr"),
    ("training.schedule.warm-up", "warmup-epochs"),
];

/// The table that holds a dotted key, and the key's last part.
fn holder<'a, 'k>(table: &'a mut toml::Table, key: &'k str) -> Option<(&'a mut toml::Table, &'k str)> {
    match key.split_once('.') {
        None => Some((table, key)),
        Some((first, rest)) => holder(table.get_mut(first)?.as_table_mut()?, rest),
    }
}

pub(super) fn has(table: &mut toml::Table, key: &str) -> bool {
    holder(table, key).is_some_and(|(table, key)| table.contains_key(key))
}

pub(super) fn rename(table: &mut toml::Table, old: &str, new: &str) {
    if let Some((table, old)) = holder(table, old)
        && let Some(value) = table.remove(old)
    {
        table.insert(new.to_owned(), value);
    }
}

/// Applies `a.b.c=value` to a table. A value that is not TOML is taken as text.
pub(super) fn apply(table: &mut toml::Table, change: &str) -> Result<(), String> {
    let (key, value) = change
        .split_once('=')
        .ok_or_else(|| format!("--set {change}: expected KEY=VALUE, such as training.epochs=3"))?;
    let (key, value) = (key.trim(), value.trim());
    let parsed = toml::from_str::<toml::Table>(&format!("value = {value}"));
    let value = match parsed.ok().and_then(|mut table| table.remove("value")) {
        Some(value) => value,
        None => toml::Value::String(value.to_owned()),
    };
    // A path in a change is relative to the working directory. The change alone tells which of its values are paths.
    let mut alone = toml::Table::new();
    insert(&mut alone, key, value, change)?;
    resolve(&mut alone, &folder_of(Path::new("")));
    let value = holder(&mut alone, key).and_then(|(table, key)| table.remove(key));
    match value {
        Some(value) => insert(table, key, value, change),
        None => Err(format!("--set {change}: no key")),
    }
}

/// Inserts a value at a dotted key.
fn insert(table: &mut toml::Table, key: &str, value: toml::Value, change: &str) -> Result<(), String> {
    let mut at = table;
    let mut parts = key.split('.').peekable();
    while let Some(part) = parts.next() {
        if part.is_empty() {
            return Err(format!("--set {change}: `{key}` has an empty part"));
        }
        if parts.peek().is_none() {
            at.insert(part.to_owned(), value);
            return Ok(());
        }
        let next = at
            .entry(part.to_owned())
            .or_insert_with(|| toml::Value::Table(toml::Table::new()));
        at = next
            .as_table_mut()
            .ok_or_else(|| format!("--set {change}: `{part}` is not a table"))?;
    }
    Err(format!("--set {change}: no key"))
}

/// The parser's message, with the key that was probably meant beside one that is not known.
pub(super) fn explain(error: &toml::de::Error) -> String {
    let text = hark_work::files::explain(error);
    // Of a change by --set there is no line to show, but its key.
    let text = match text.trim_end().rsplit_once("\nin `") {
        Some((what, key)) => format!("{}: {what}", key.trim_end_matches('`')),
        None => text,
    };
    let message = error.message();
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let is_unknown = message.starts_with("unknown field") || message.starts_with("unknown variant");
    match quoted.split_first() {
        Some((unknown, known)) if is_unknown => {
            let nearest = known.iter().min_by_key(|name| levenshtein(unknown, name));
            match nearest.filter(|name| levenshtein(unknown, name) <= 1 + unknown.len() / 3) {
                Some(nearest) => format!("{}; did you mean `{nearest}`?", text.trim_end()),
                None => text.trim_end().to_owned(),
            }
        }
        _ => text.trim_end().to_owned(),
    }
}
