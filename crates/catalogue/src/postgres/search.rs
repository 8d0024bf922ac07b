//! Searches.
//!
//! The nearest windows come from the index or from an exact scan of the files that pass the filter. The index also visits windows of
//! files that do not pass. So if few pass, they are scanned; otherwise the index is used, which since pgvector 0.8 continues until
//! enough have passed or its own limit is reached; if it returns too few, all that pass are scanned after all.

use postgres::types::ToSql;

use super::pool::{Failed, Session};
use super::rows::{self, Half};
use super::sql::{self, Way};
use super::write::tag_keys;
use crate::words::{QueryWords, Term};
use crate::{Filter, TextHit, WindowHit, prepare};

/// So many windows are compared rather than looked for by the index.
const FEW: i64 = 20_000;
/// The most that pgvector takes for `hnsw.ef_search`.
const WIDEST_SEARCH: usize = 1_000;
/// The day that a file was recorded on, or else last changed on.
const DAY: &str = "CASE f.date WHEN '' THEN to_char(timestamp 'epoch' + floor(f.modified / 1000000000.0) * interval '1 second', \
                   'YYYY-MM-DD') COLLATE \"C\" ELSE f.date END";
/// Candidates are kept for this many times the windows that are asked for: what the index finds is the better the more there are.
const CANDIDATES: usize = 4;
/// The fewest of them.
const FEWEST_CANDIDATES: usize = 200;
/// Nobody looks at more answers.
const MAX: usize = 100_000;

/// What a filter demands of a row `f` of `files`, as a clause with the numbers of its values from `first` on.
pub(super) struct Conditions {
    pub sql: String,
    pub values: Vec<Box<dyn ToSql + Sync>>,
}

impl Conditions {
    pub(super) fn new(filter: &Filter, first: usize) -> Self {
        let mut all = Conditions {
            sql: String::new(),
            values: Vec::new(),
        };
        let mut clauses = Vec::new();
        let folders: Vec<String> = filter
            .ranges()
            .into_iter()
            .map(|(from, to)| {
                format!(
                    "f.path >= ${} AND f.path < ${}",
                    all.bind(first, from),
                    all.bind(first, to)
                )
            })
            .collect();
        if !folders.is_empty() {
            clauses.push(format!("({})", folders.join(" OR ")));
        }
        if !filter.tags.is_empty() {
            let tags: Vec<String> = tag_keys(&filter.tags()).into_iter().map(str::to_owned).collect();
            clauses.push(format!("f.tags @> ${}::text[]", all.bind(first, tags)));
        }
        for (column, value) in [
            ("f.seconds >=", filter.min_seconds),
            ("f.seconds <=", filter.max_seconds),
        ] {
            clauses.extend(value.map(|value| format!("{column} ${}", all.bind(first, value))));
        }
        for (column, value) in [("f.rate >=", filter.min_rate), ("f.rate <=", filter.max_rate)] {
            clauses.extend(value.map(|value| format!("{column} ${}", all.bind(first, i64::from(value)))));
        }
        let mut of_sound = Vec::new();
        if !filter.formats.is_empty() {
            of_sound.push(sql::has_format(all.bind(first, filter.formats())));
        }
        if !filter.channels.is_empty() {
            let channels: Vec<i64> = filter.channels.iter().copied().map(i64::from).collect();
            of_sound.push(sql::has_channels(all.bind(first, channels)));
        }
        if !of_sound.is_empty() {
            clauses.push(sql::sound_is(&of_sound.join(" AND ")));
        }
        for (order, value) in [(">=", &filter.after), ("<=", &filter.before)] {
            clauses.extend(value.as_ref().map(|value| {
                let value = prepare::text(value).into_owned();
                format!("{DAY} {order} ${}", all.bind(first, value))
            }));
        }
        if !clauses.is_empty() {
            all.sql = format!("WHERE {}", clauses.join(" AND "));
        }
        all
    }

    /// Adds a value; gives its number.
    fn bind(&mut self, first: usize, value: impl ToSql + Sync + 'static) -> usize {
        self.values.push(Box::new(value));
        first + self.values.len() - 1
    }

    /// Values of a statement, followed by those of the conditions.
    fn after<'a>(&'a self, own: &[&'a (dyn ToSql + Sync)]) -> Vec<&'a (dyn ToSql + Sync)> {
        own.iter()
            .copied()
            .chain(self.values.iter().map(|value| &**value))
            .collect()
    }
}

/// What the server is told before a search by the index.
fn settings(k: usize, iterates: bool) -> String {
    let candidates = k
        .saturating_mul(CANDIDATES)
        .clamp(FEWEST_CANDIDATES, WIDEST_SEARCH);
    let iterate = if iterates {
        "SET LOCAL hnsw.iterative_scan = strict_order;"
    } else {
        ""
    };
    // Its planner takes the comparison of two vectors for as cheap as that of two numbers, and would compare them all.
    format!(
        "SET LOCAL enable_seqscan = off; SET LOCAL jit = off; SET LOCAL hnsw.ef_search = {candidates}; {iterate}"
    )
}

/// The nearest windows, best first. `question` has length 1.
pub(super) fn search_vector(
    session: &mut Session<'_>,
    question: Vec<f32>,
    k: usize,
    filter: &Filter,
    iterates: bool,
) -> Result<Vec<WindowHit>, Failed> {
    let k = k.min(MAX);
    let question = Half(question);
    let few = !filter.is_empty() && passing(session, filter)? <= FEW;
    let mut found = if few {
        Vec::new()
    } else {
        session.batch(&settings(k, iterates))?;
        look(session, Way::Index, &question, k, filter)?
    };
    if found.len() < k {
        session.batch("SET LOCAL enable_seqscan = on")?;
        found = look(session, Way::Exact, &question, k, filter)?;
    }
    found.sort_by(|a, b| {
        b.score
            .total_cmp(&a.score)
            .then(a.file.cmp(&b.file))
            .then(a.start.total_cmp(&b.start))
    });
    Ok(found)
}

/// How the server goes about finding the nearest windows by the index.
pub(super) fn plan(
    session: &mut Session<'_>,
    question: Vec<f32>,
    k: usize,
    filter: &Filter,
    iterates: bool,
) -> Result<Vec<String>, Failed> {
    session.batch(&settings(k, iterates))?;
    let conditions = Conditions::new(filter, 3);
    let sql = format!("EXPLAIN {}", sql::search_vector(Way::Index, &conditions.sql));
    let rows = session.query_once(&sql, &conditions.after(&[&Half(question), &(k.min(MAX) as i64)]))?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}

fn look(
    session: &mut Session<'_>,
    way: Way,
    question: &Half,
    k: usize,
    filter: &Filter,
) -> Result<Vec<WindowHit>, Failed> {
    let conditions = Conditions::new(filter, 3);
    let sql = sql::search_vector(way, &conditions.sql);
    let rows = session.query_once(&sql, &conditions.after(&[question, &(k as i64)]))?;
    Ok(rows.iter().map(rows::near).collect::<Result<_, _>>()?)
}

/// Windows of the files that pass; no fewer than [`FEW`] and one if these are more.
fn passing(session: &mut Session<'_>, filter: &Filter) -> Result<i64, Failed> {
    let conditions = Conditions::new(filter, 1);
    // Each file has one window at least.
    let sql = sql::count_passing(&conditions.sql, FEW as usize + 1);
    let rows = session.query_once(&sql, &conditions.after(&[]))?;
    Ok(rows
        .first()
        .map(|row| row.try_get(0))
        .transpose()?
        .unwrap_or_default())
}

/// Files with words of a text, best first.
pub(super) fn search_text(
    session: &mut Session<'_>,
    asked: &QueryWords,
    excluded: &QueryWords,
    k: usize,
    filter: &Filter,
) -> Result<Vec<TextHit>, Failed> {
    let (count, others) = (asked.terms.len(), excluded.terms.len());
    let clauses = |terms: &[Term], first: usize| -> Vec<String> {
        let term = |(at, term): (usize, &Term)| sql::term(first + at, term.words.len() > 1, term.prefix);
        terms.iter().enumerate().map(term).collect()
    };
    let words = clauses(&asked.terms, 2);
    let avoided = clauses(&excluded.terms, 2 + count);
    let texts: Vec<String> = asked
        .terms
        .iter()
        .chain(&excluded.terms)
        .map(|term| term.words.join(" "))
        .collect();
    let conditions = Conditions::new(filter, 2 + count + others);
    let sql = sql::search_text(&words, &avoided, &conditions.sql);
    let k = k.min(MAX) as i64;
    let mut own: Vec<&(dyn ToSql + Sync)> = vec![&k];
    own.extend(texts.iter().map(|text| text as &(dyn ToSql + Sync)));
    let rows = session.query_once(&sql, &conditions.after(&own))?;
    rows.iter()
        .map(|row| {
            Ok(TextHit {
                file: row.try_get(0)?,
                score: row.try_get(1)?,
                share: row.try_get(2)?,
            })
        })
        .collect()
}

/// Numbers of the files that pass, by path.
pub(super) fn browse(
    session: &mut Session<'_>,
    filter: &Filter,
    skip: usize,
    limit: usize,
) -> Result<Vec<i64>, Failed> {
    let conditions = Conditions::new(filter, 3);
    let bound = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let values = (bound(skip), bound(limit));
    let rows = session.query_once(
        &sql::browse(&conditions.sql),
        &conditions.after(&[&values.0, &values.1]),
    )?;
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbered_after_those_of_the_statement() {
        let filter = Filter {
            folders: vec!["/a".to_owned(), "/b/".to_owned()],
            tags: vec!["x".to_owned()],
            max_seconds: Some(2.0),
            before: Some("2026-11-15".to_owned()),
            ..Filter::default()
        };
        let conditions = Conditions::new(&filter, 3);
        assert_eq!(
            conditions.sql,
            "WHERE (f.path >= $3 AND f.path < $4 OR f.path >= $5 AND f.path < $6) AND f.tags @> $7::text[] \
             AND f.seconds <= $8 AND "
                .to_owned()
                + DAY
                + " <= $9"
        );
        assert_eq!(conditions.values.len(), 7);
        assert_eq!(Conditions::new(&Filter::default(), 3).sql, "");
    }

    #[test]
    fn candidates_stay_within_what_the_server_takes() {
        for (k, candidates) in [(1, 200), (100, 400), (5_000, 1_000)] {
            assert!(
                settings(k, false).contains(&format!("ef_search = {candidates};")),
                "{k}"
            );
        }
    }
}
