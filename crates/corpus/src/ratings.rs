//! Crowd ratings of how well a clip fits a query: `query,query_file,candidate_file,group,rating`.
//!
//! In: the CSV form of the TAU Audio-Text Graded Relevances. Out: its rows in order. Refused: a rating that is not a
//! number from 0 to 100, an empty field, a file without rows.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::captions::open;
use crate::delimited::Rows;
use crate::input::{Input, Limits};
use crate::{CaptionSet, Error};

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

/// Reads a CSV file of ratings.
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

/// Reads ratings from any reader, such as standard input; errors call it `name`.
///
/// # Errors
/// As [`read_ratings`].
pub fn read_ratings_from(mut reader: impl BufRead, name: &Path) -> Result<Vec<Rating>, Error> {
    read(&mut reader, name, Limits::STATED)
}

/// The captions of each rated clip, in the order of the ratings, which come from the file `name`.
///
/// They are taken from the one set that has all the rated clips. Splits of a dataset share some clip names, so two
/// sets that both have them all and disagree leave no honest choice.
///
/// # Errors
/// [`Error::RatedClipMissing`], [`Error::RatedClipAmbiguous`].
pub fn rated_captions<'a>(
    ratings: &[Rating],
    name: &Path,
    sets: &'a [CaptionSet],
) -> Result<Vec<Vec<&'a str>>, Error> {
    let mut missing = None;
    let mut found: Option<(Vec<Vec<&str>>, &CaptionSet)> = None;
    for set in sets {
        let index = set.clip_index();
        let unknown = |rating: &&Rating| !index.contains_key(rating.candidate_clip.as_str());
        if let Some(rating) = ratings.iter().find(unknown) {
            missing = missing.or(Some(rating));
            continue;
        }
        let captions = set.captions_by_clip();
        let texts = |rating: &Rating| -> Vec<&str> {
            let clip = index[rating.candidate_clip.as_str()];
            captions[clip]
                .iter()
                .map(|&caption| set.captions[caption].text.as_str())
                .collect()
        };
        let rated: Vec<Vec<&str>> = ratings.iter().map(texts).collect();
        let Some((first, other)) = &found else {
            found = Some((rated, set));
            continue;
        };
        if let Some(nth) = (0..rated.len()).find(|&nth| rated[nth] != first[nth]) {
            return Err(Error::RatedClipAmbiguous {
                path: name.into(),
                line: ratings[nth].line,
                clip: ratings[nth].candidate_clip.clone(),
                files: Box::new((file(other), file(set))),
            });
        }
    }
    match (found, missing) {
        (Some((captions, _)), _) => Ok(captions),
        (None, Some(rating)) => Err(Error::RatedClipMissing {
            path: name.into(),
            line: rating.line,
            clip: rating.candidate_clip.clone(),
        }),
        (None, None) => Err(Error::NoSets),
    }
}

/// The file that a set was read from.
fn file(set: &CaptionSet) -> PathBuf {
    set.captions
        .first()
        .map_or_else(PathBuf::new, |caption| caption.path.to_path_buf())
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
    while let Some(row) = rows.next_row()? {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

    fn set(name: &str, content: &str) -> CaptionSet {
        CaptionSet::read_from(content.as_bytes(), Path::new(name), &Format::Auto).unwrap()
    }

    #[test]
    fn captions_come_from_the_one_set_that_has_all_rated_clips() {
        let rows =
            "query,query_file,candidate_file,group,rating\nRain,a.wav,b.wav,C15,62\nRain,a.wav,a.wav,TP,99\n";
        let ratings = read_ratings_from(rows.as_bytes(), Path::new("r.csv")).unwrap();
        let name = Path::new("r.csv");
        let find = |sets: &[CaptionSet]| {
            let found = rated_captions(&ratings, name, sets).map_err(|error| error.to_string())?;
            Ok::<_, String>(found.iter().map(|texts| texts.join("; ")).collect::<Vec<_>>())
        };
        let both = set(
            "both.csv",
            "file_name,caption_1,caption_2\na.wav,Rain,Water\nb.wav,Dogs,Barks\n",
        );
        let one = set("one.csv", "file_name,caption_1,caption_2\na.wav,Rain,Water\n");
        assert_eq!(
            find(&[one.clone(), both.clone()]).unwrap(),
            ["Dogs; Barks", "Rain; Water"]
        );
        // The same captions twice are no contradiction.
        assert!(find(&[both.clone(), both.clone()]).is_ok());
        assert_eq!(
            find(&[one]).unwrap_err(),
            "r.csv: line 2: no caption file has all the rated clips; the first one missing is \"b.wav\""
        );
        let other = set(
            "other.csv",
            "file_name,caption_1,caption_2\na.wav,Rain,Wind\nb.wav,Dogs,Barks\n",
        );
        assert_eq!(
            find(&[both, other]).unwrap_err(),
            "r.csv: line 3: both.csv and other.csv have different captions for \"a.wav\"; give the file that belongs to these ratings"
        );
    }
}
