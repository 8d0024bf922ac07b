//! Crowd ratings of how well a clip fits a query: `query,query_file,candidate_file,group,rating`.
//!
//! In: the CSV form of the TAU Audio-Text Graded Relevances. Out: its rows in order. Refused: a rating that is no
//! number from 0 to 100, an empty field, a file without rows.

use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;

use crate::Error;
use crate::captions::open;
use crate::delimited::Rows;
use crate::input::{Input, Limits};

const COLUMNS: [&str; 5] = ["query", "query_file", "candidate_file", "group", "rating"];

/// How well one clip fits one query, as people judged it.
#[derive(Debug, Clone, PartialEq)]
pub struct Rating {
    /// The caption that served as query, without white space around it.
    pub query: String,
    /// The id of the clip that the query was written for.
    pub query_clip: String,
    /// The id of the clip that was rated.
    pub candidate_clip: String,
    /// How the candidate was chosen: `C15` by its captions, `TP` as the query's own clip, `TN` at random.
    pub group: String,
    /// The rating, from 0 (does not fit) to 100 (fits).
    pub rating: f64,
    /// The line of the file, from 1.
    pub line: u64,
}

/// Read a CSV file of ratings.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("ratings.csv");
/// fs_err::write(&path, "query,query_file,candidate_file,group,rating\nRain falls,a.wav,b.wav,C15,62\n")?;
/// let ratings = hark_corpus::read_ratings(&path)?;
/// assert_eq!((ratings[0].candidate_clip.as_str(), ratings[0].rating), ("b.wav", 62.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Rating`], [`Error::Empty`], [`Error::NoRatings`], and what can be wrong with any CSV file.
pub fn read_ratings(path: &Path) -> Result<Vec<Rating>, Error> {
    read_ratings_from(&mut open(path)?, path)
}

/// Read ratings from any reader, such as standard input; `name` stands for the file in errors.
///
/// # Errors
/// As [`read_ratings`].
pub fn read_ratings_from(mut reader: impl BufRead, name: &Path) -> Result<Vec<Rating>, Error> {
    read(&mut reader, name, Limits::STATED)
}

fn read(reader: &mut dyn BufRead, name: &Path, limits: Limits) -> Result<Vec<Rating>, Error> {
    let path: Arc<Path> = name.into();
    let Some(mut rows) = Rows::open(Input::new(reader, Arc::clone(&path), limits), b',')? else {
        return Err(Error::NoRatings { path });
    };
    let mut columns = [0; COLUMNS.len()];
    for (column, name) in columns.iter_mut().zip(COLUMNS) {
        *column = rows.column(name)?;
    }
    let mut ratings = Vec::new();
    while let Some(row) = rows.next()? {
        for (column, name) in columns.into_iter().zip(COLUMNS) {
            if row.get(column).trim().is_empty() {
                return Err(Error::Empty {
                    path,
                    place: row.place(),
                    column: name.to_owned(),
                });
            }
        }
        let [query, query_clip, candidate_clip, group, rating] = columns.map(|column| row.get(column));
        let got = || Error::Rating {
            path: Arc::clone(&path),
            line: row.line,
            got: rating.to_owned(),
        };
        let value: f64 = rating.trim().parse().map_err(|_| got())?;
        if !(0.0..=100.0).contains(&value) {
            return Err(got());
        }
        ratings.push(Rating {
            query: query.trim().to_owned(),
            query_clip: query_clip.to_owned(),
            candidate_clip: candidate_clip.to_owned(),
            group: group.trim().to_owned(),
            rating: value,
            line: row.line,
        });
    }
    if ratings.is_empty() {
        return Err(Error::NoRatings { path });
    }
    Ok(ratings)
}
