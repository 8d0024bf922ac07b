//! Searches by words. A query for each word gives the share of words that a file has; one for all of them gives the BM25 scores.
//! Both use the index's own stemming.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, params};

use crate::sqlite::passing::passing;
use crate::words::{QueryWords, Term, WEIGHTS};
use crate::{Filter, TextHit, TextQuery};

type Done<T> = Result<T, rusqlite::Error>;

pub(super) fn search_text(
    connection: &Connection,
    query: &TextQuery<'_>,
    k: usize,
    filter: &Filter,
) -> Done<Vec<TextHit>> {
    let asked = QueryWords::new(query.text, query.prefix);
    if asked.is_empty() || k == 0 || filter.matches_nothing() {
        return Ok(Vec::new());
    }
    let passing = passing(connection, filter)?;
    let unwanted: HashSet<i64> = match any(&terms(&QueryWords::all(query.exclude))) {
        Some(expression) => having(connection, &expression)?.into_iter().collect(),
        None => HashSet::new(),
    };
    let matches = |file: i64| {
        passing
            .as_ref()
            .is_none_or(|passing| passing.binary_search(&file).is_ok())
            && !unwanted.contains(&file)
    };
    let terms = terms(&asked);
    let files: i64 = connection.query_row("SELECT count(*) FROM files", [], |row| row.get(0))?;
    let mut found: HashMap<i64, Found> = HashMap::new();
    let mut rare: Vec<String> = Vec::new();
    for term in &terms {
        let having = having(connection, term)?;
        if having.len() as i64 * 2 <= files {
            rare.push(term.clone());
        }
        for file in having.into_iter().filter(|&file| matches(file)) {
            found.entry(file).or_default().words += 1;
        }
    }
    leave_contenders(&mut found, k);
    // A word that is in more than half of the files tells nothing, and BM25 gives it next to nothing. It counts only if there are
    // no others.
    if let Some(expression) = any(if rare.is_empty() { &terms } else { &rare }) {
        score(connection, &expression, &mut found)?;
    }
    let all = terms.len() as f64;
    let mut matches: Vec<TextHit> = found
        .into_iter()
        .map(|(file, Found { words, score })| {
            // The score moves a file between those with one word less and one word more.
            let score = (f64::from(words) + score / (1.0 + score)) / all;
            TextHit {
                file,
                score,
                share: f64::from(words) / all,
            }
        })
        .collect();
    best(connection, &mut matches, k)?;
    Ok(matches)
}

/// What a file has of a question.
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    words: u32,
    /// Not negative.
    score: f64,
}

/// A word or phrase as the full-text index takes it: in quotes, where nothing is syntax.
fn term(term: &Term) -> String {
    let quoted = format!("\"{}\"", term.words.join(" ").replace('"', "\"\""));
    if term.prefix {
        format!("({quoted} OR {quoted} *)")
    } else {
        quoted
    }
}

/// A question's terms, each as the full-text index takes it.
fn terms(asked: &QueryWords) -> Vec<String> {
    asked.terms.iter().map(term).collect()
}

/// Any of some words, if there are any.
fn any(terms: &[String]) -> Option<String> {
    (!terms.is_empty()).then(|| terms.join(" OR "))
}

/// Leaves those that can be among the `k` best: whoever has fewer words than `k` others cannot. Scores take most of the time.
fn leave_contenders(found: &mut HashMap<i64, Found>, k: usize) {
    let mut words: Vec<u32> = found.values().map(|found| found.words).collect();
    if let Some(last) = k.checked_sub(1).filter(|&last| last < words.len()) {
        let (_, &mut least, _) = words.select_nth_unstable_by(last, |a, b| b.cmp(a));
        found.retain(|_, found| found.words >= least);
    }
}

/// Sets the scores of files.
fn score(connection: &Connection, expression: &str, found: &mut HashMap<i64, Found>) -> Done<()> {
    let weights = WEIGHTS.map(|weight| weight.to_string()).join(", ");
    // The plus keeps the full-text index from being asked for one file after the other.
    let sql = format!(
        "SELECT rowid, bm25(words, {weights}) FROM words WHERE words MATCH ?1 AND +rowid IN (SELECT value FROM json_each(?2))"
    );
    let files: Vec<i64> = found.keys().copied().collect();
    let mut find = connection.prepare_cached(&sql)?;
    let mut rows = find.query(params![expression, serde_json::json!(files).to_string()])?;
    while let Some(row) = rows.next()? {
        if let Some(found) = found.get_mut(&row.get(0)?) {
            // The best are the lowest there.
            found.score = (-row.get::<_, f64>(1)?).max(0.0);
        }
    }
    Ok(())
}

/// Files with a word.
fn having(connection: &Connection, expression: &str) -> Done<Vec<i64>> {
    let mut find = connection.prepare_cached("SELECT rowid FROM words WHERE words MATCH ?1")?;
    find.query_map([expression], |row| row.get(0))?.collect()
}

/// Leaves the `k` best, in order. Only where scores are equal does a path decide, and only then is it looked up.
fn best(connection: &Connection, matches: &mut Vec<TextHit>, k: usize) -> Done<()> {
    matches.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then(a.file.cmp(&b.file)));
    if let Some(last) = k
        .checked_sub(1)
        .and_then(|last| matches.get(last))
        .map(|last| last.score)
    {
        matches.retain(|found| found.score >= last);
    }
    let tied: HashSet<i64> = matches
        .windows(2)
        .filter(|pair| matches!(pair, [a, b] if a.score.total_cmp(&b.score).is_eq()))
        .flatten()
        .map(|found| found.file)
        .collect();
    let mut paths: HashMap<i64, String> = HashMap::with_capacity(tied.len());
    let mut find = connection.prepare_cached("SELECT path FROM files WHERE id = ?1")?;
    for file in tied {
        paths.insert(file, find.query_row(params![file], |row| row.get(0))?);
    }
    matches.sort_by(|a, b| {
        b.score
            .total_cmp(&a.score)
            .then_with(|| paths.get(&a.file).cmp(&paths.get(&b.file)))
    });
    matches.truncate(k);
    Ok(())
}
