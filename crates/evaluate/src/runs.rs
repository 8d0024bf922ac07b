//! Folders of runs → methods with their scored queries.

use std::path::{Path, PathBuf};

use crate::{Direction, Error, Method, ScoredQueries};

/// How deep runs are nested: study, method, corpus, seed.
const MAX_DEPTH: usize = 4;

impl Method {
    /// Reads the runs of a method: files of scored queries, folders that hold one, or folders of such folders.
    ///
    /// # Errors
    /// [`Error::NoScoredQueries`], [`Error::OtherDirection`], or if a file cannot be read.
    pub fn read(name: String, paths: &[PathBuf], direction: Direction) -> Result<Self, Error> {
        let mut files = Vec::new();
        for path in paths {
            let before = files.len();
            find(path, direction, 0, &mut files)?;
            if files.len() == before {
                return Err(Error::NoScoredQueries {
                    path: path.clone(),
                    file: direction.file(),
                });
            }
        }
        let runs = read_all(&files)?;
        if let Some(nth) = runs.iter().position(|run| run.kind.direction != direction) {
            return Err(Error::OtherDirection {
                path: files.swap_remove(nth),
                asked: direction.title(),
            });
        }
        Ok(Self { name, runs })
    }

    /// Reads all methods of a study: each of its folders that holds scored queries.
    ///
    /// # Errors
    /// If a folder or a file cannot be read.
    pub fn read_study(study: &Path, direction: Direction) -> Result<Vec<Self>, Error> {
        let mut methods = Vec::new();
        for folder in folders(study)? {
            let mut files = Vec::new();
            find(&folder, direction, 1, &mut files)?;
            if !files.is_empty() {
                methods.push(Self {
                    name: name(&folder),
                    runs: read_all(&files)?,
                });
            }
        }
        Ok(methods)
    }
}

fn read_all(files: &[PathBuf]) -> Result<Vec<ScoredQueries>, Error> {
    files.iter().map(|path| ScoredQueries::read(path)).collect()
}

/// The file that is named, that of a folder, or those of the folders in it, in the order of their names.
fn find(path: &Path, direction: Direction, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    if path.is_file() {
        files.push(path.to_owned());
        return Ok(());
    }
    if !path.is_dir() {
        return Err(Error::NoRun {
            path: path.to_owned(),
        });
    }
    let own = path.join(direction.file());
    if own.is_file() {
        files.push(own);
    } else if depth < MAX_DEPTH {
        let mut inner = folders(path)?;
        // seed-10 after seed-9.
        inner.sort_by_key(|path| {
            let name = name(path);
            let number = name
                .rsplit('-')
                .next()
                .and_then(|number| number.parse::<u64>().ok());
            (number, name)
        });
        for folder in inner {
            find(&folder, direction, depth + 1, files)?;
        }
    }
    Ok(())
}

fn folders(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(path)? {
        let path = entry?.path();
        if path.is_dir() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn name(path: &Path) -> String {
    path.file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}
