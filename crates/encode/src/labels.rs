//! Names of classes: a list that people write, or a table that comes with a tagger.

use std::collections::HashMap;
use std::path::Path;

use crate::Error;
use crate::hugging_face::read_file;

/// How strongly a class is heard.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassScore {
    /// Its place among the classes.
    pub class: usize,
    /// A probability, or a cosine.
    pub score: f32,
}

/// At most `count` classes with scores of at least `least`, the strongest first; of equal ones the first comes first.
pub fn strongest(scores: &[f32], count: usize, least: f32) -> Vec<ClassScore> {
    let mut best: Vec<ClassScore> = Vec::new();
    for (class, &score) in scores.iter().enumerate() {
        let place = best.iter().take_while(|other| other.score >= score).count();
        // Whatever is not a number fails the comparison.
        if place < count && score >= least {
            best.insert(place, ClassScore { class, score });
            best.truncate(count);
        }
    }
    best
}

/// The largest file of names that is read.
const MAX_BYTES: usize = 16 << 20;

/// Reads names of classes, in order: one a line, or the column `display_name`, `name`, `label` or `category` of a CSV file
/// with a header. A column `index` must count from 0.
///
/// # Errors
/// [`Error::Labels`] if there are none, a name is empty or stands there twice, or an index is out of order.
pub fn read_labels(path: &Path) -> Result<Vec<String>, Error> {
    let wrong = |what: String| Error::Labels {
        path: path.to_owned(),
        what,
    };
    let bytes = read_file(path)?;
    if bytes.len() > MAX_BYTES {
        return Err(wrong(format!(
            "{} bytes; a list of names is smaller",
            bytes.len()
        )));
    }
    let text = String::from_utf8(bytes).map_err(|_| wrong("not UTF-8 text".to_owned()))?;
    let text = text.trim_start_matches('\u{feff}');
    let names = match table(text).map_err(&wrong)? {
        Some(names) => names,
        None => text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .map(ToOwned::to_owned)
            .collect(),
    };
    check(&names).map_err(wrong)?;
    Ok(names)
}

/// That there are names, and no two are the same.
fn check(names: &[String]) -> Result<(), String> {
    if names.is_empty() {
        return Err("no names of classes in it".to_owned());
    }
    let mut seen = HashMap::new();
    for (nth, name) in names.iter().enumerate() {
        if name.is_empty() {
            return Err(format!("class {nth} has no name"));
        }
        if let Some(first) = seen.insert(name.to_lowercase(), nth) {
            return Err(format!("classes {first} and {nth} are both called {name:?}"));
        }
    }
    Ok(())
}

/// The names of a CSV table; `None` if the first line is no header that has them.
fn table(text: &str) -> Result<Option<Vec<String>>, String> {
    const COLUMNS: [&str; 4] = ["display_name", "name", "label", "category"];
    let mut reader = csv::ReaderBuilder::new().from_reader(text.as_bytes());
    let header = reader.headers().map_err(|e| e.to_string())?.clone();
    let column = |wanted: &str| {
        header
            .iter()
            .position(|name| name.trim().eq_ignore_ascii_case(wanted))
    };
    let Some(name) = COLUMNS.iter().find_map(|wanted| column(wanted)) else {
        return Ok(None);
    };
    let index = column("index");
    let mut names = Vec::new();
    for row in reader.records() {
        let row = row.map_err(|e| e.to_string())?;
        if let Some(stated) = index.and_then(|index| row.get(index))
            && stated.trim().parse() != Ok(names.len())
        {
            return Err(format!(
                "the class after {} others has index {stated:?}",
                names.len()
            ));
        }
        names.push(row.get(name).unwrap_or_default().trim().to_owned());
    }
    Ok(Some(names))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<String>, Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("labels.csv");
        fs_err::write(&path, text).unwrap();
        read_labels(&path)
    }

    #[test]
    fn the_strongest_come_first() {
        let found = |scores: &[f32]| -> Vec<usize> {
            strongest(scores, 2, 0.1)
                .iter()
                .map(|heard| heard.class)
                .collect()
        };
        assert_eq!(found(&[0.1, 0.9, 0.5, 0.9]), [1, 3]);
        assert_eq!(found(&[0.05, 0.2, f32::NAN]), [1]);
        assert!(found(&[]).is_empty());
    }

    #[test]
    fn lists_and_tables_are_read() {
        assert_eq!(read("dog\n\n rain \n").unwrap(), ["dog", "rain"]);
        assert_eq!(
            read("index,mid,display_name\n0,/m/1,\"Dog, barking\"\n1,/m/2,Rain\n").unwrap(),
            ["Dog, barking", "Rain"]
        );
        assert_eq!(read("name\ndog\n").unwrap(), ["dog"]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, what) in [
            ("", "no names"),
            ("index,name\n", "no names"),
            ("dog\nDog\n", "classes 0 and 1 are both called"),
            ("index,name\n1,dog\n", "has index \"1\""),
            ("index,name\n0,dog\n1,\n", "class 1 has no name"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains("labels.csv"), "{error}");
        }
    }
}
