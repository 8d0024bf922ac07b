//! Labelled recordings that events are cut from.
//!
//! In: a folder and its table (see [`Recordings`]). Out: a [`Library`], which knows of every recording its category,
//! the splits it may serve, where its sound begins and ends and where it is loudest; never more than one recording's
//! samples are held per thread. Refused: a table that names no recordings, a split without a recording of some
//! category, a recording that cannot be read or is silent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hark_work::random::key;
use rayon::prelude::*;

use super::Split;
use super::config::{Config, Recordings};
use crate::Error;
use hark_corpus::delimited::{Rows, open};

/// No more of a recording is used.
const MAX_LENGTH: f64 = 30.0;
/// What is below this share of the peak at a recording's ends is taken for silence: 34 dB.
const SILENCE: f32 = 0.02;
/// The loudest moment is looked for in windows of this length.
const WINDOW: f64 = 0.1;

/// One recording.
#[derive(Debug)]
struct Recording {
    path: PathBuf,
    /// Where its sound begins, in seconds; how long it lasts; where, from its beginning, it is loudest. Zeros until it
    /// is measured.
    extent: (f64, f64, f64),
}

/// The recordings of one table.
#[derive(Debug)]
pub(super) struct Library {
    recordings: Vec<Recording>,
    /// For every split and category, the recordings.
    choices: BTreeMap<(Split, usize), Vec<usize>>,
    rate: u32,
    /// Names, categories, splits and sizes, as text: what tells this library from another.
    pub(super) identity: String,
}

/// A row of the table.
struct Row {
    name: String,
    category: String,
    fold: Option<u32>,
}

impl Library {
    /// Read the table. Gives the categories too, in the order of the alphabet.
    pub(super) fn read(wish: &Recordings, config: &Config) -> Result<(Self, Vec<String>), Error> {
        let table = wish.folder.join(&wish.table);
        let mut rows = rows(&table)?;
        let all: BTreeSet<&str> = rows.iter().map(|row| row.category.as_str()).collect();
        let categories: Vec<String> = all.into_iter().take(config.kinds).map(str::to_owned).collect();
        if categories.len() < config.max_events {
            return Err(Error::Setting {
                name: "max-events",
                got: config.max_events.to_string(),
                expected: format!("at most the {} categories of the recordings", categories.len()),
            });
        }
        rows.retain(|row| categories.binary_search(&row.category).is_ok());
        rows.sort_by(|one, other| one.name.cmp(&other.name));
        let splits = splits(&rows, wish);

        let mut choices: BTreeMap<(Split, usize), Vec<usize>> = BTreeMap::new();
        let mut chosen = Vec::new();
        let mut identity = String::new();
        for (row, splits) in rows.iter().zip(splits) {
            let Ok(category) = categories.binary_search(&row.category) else {
                continue;
            };
            for &split in &splits {
                choices.entry((split, category)).or_default().push(chosen.len());
            }
            let path = wish.folder.join(&row.name);
            let bytes = fs_err::metadata(&path).map_err(Error::Open)?.len();
            identity.push_str(&format!("{:?} {:?} {splits:?} {bytes}\n", row.name, row.category));
            chosen.push(Recording {
                path,
                extent: (0.0, 0.0, 0.0),
            });
        }
        for split in Split::ALL {
            for (number, category) in categories.iter().enumerate() {
                if !choices.contains_key(&(split, number)) {
                    return Err(Error::NoRecording {
                        path: table.into(),
                        category: category.clone(),
                        split: split.name(),
                    });
                }
            }
        }
        let library = Self {
            recordings: chosen,
            choices,
            rate: config.rate,
            identity,
        };
        Ok((library, categories))
    }

    /// Find the sound in every recording, on the threads of the pool that this is called in.
    pub(super) fn measure(&mut self) -> Result<(), Error> {
        let rate = self.rate;
        self.recordings.par_iter_mut().try_for_each(|recording| {
            recording.extent = extent(&recording.path, rate)?;
            Ok(())
        })
    }

    /// The recordings of a category that a split may use.
    pub(super) fn of(&self, split: Split, category: usize) -> &[usize] {
        self.choices
            .get(&(split, category))
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// Where a recording's sound begins, how long it lasts, and where from its beginning it is loudest, in seconds.
    pub(super) fn extent(&self, recording: usize) -> (f64, f64, f64) {
        self.recordings
            .get(recording)
            .map_or((0.0, 0.0, 0.0), |recording| recording.extent)
    }

    /// The file's name of a recording.
    pub(super) fn name(&self, recording: usize) -> Option<String> {
        let path = &self.recordings.get(recording)?.path;
        Some(path.file_name()?.to_string_lossy().into_owned())
    }

    /// So many samples from a time on.
    pub(super) fn cut(&self, recording: usize, start: f64, length: usize) -> Result<Vec<f64>, Error> {
        let Some(recording) = self.recordings.get(recording) else {
            return Ok(vec![0.0; length]);
        };
        let samples = read(&recording.path, self.rate)?;
        let start = (start * f64::from(self.rate)).round().max(0.0) as usize;
        let mut cut: Vec<f64> = samples
            .iter()
            .skip(start)
            .take(length)
            .map(|&x| f64::from(x))
            .collect();
        cut.resize(length, 0.0);
        Ok(cut)
    }
}

fn read(path: &Path, rate: u32) -> Result<Vec<f32>, Error> {
    Ok(hark_audio::read(path, rate, Some(MAX_LENGTH))
        .map_err(Error::Recording)?
        .samples)
}

fn rows(table: &Path) -> Result<Vec<Row>, Error> {
    let mut reader = open(table)?;
    let path: Arc<Path> = table.into();
    let Some(mut file) = Rows::read(&mut reader, &path, b',')? else {
        return Err(hark_corpus::Error::NoCaptions { path }.into());
    };
    let name = if file.columns().iter().any(|column| column == "file_name") {
        file.column("file_name")?
    } else {
        file.column("filename")?
    };
    let category = file.column("category")?;
    let fold = if file.columns().iter().any(|column| column == "fold") {
        Some(file.column("fold")?)
    } else {
        None
    };
    let mut rows = Vec::new();
    let mut seen = BTreeSet::new();
    while let Some(row) = file.next_row()? {
        for (column, field) in [("filename", row.get(name)), ("category", row.get(category))] {
            if field.trim().is_empty() {
                let (place, column) = (row.place(), column.to_owned());
                return Err(hark_corpus::Error::Empty { path, place, column }.into());
            }
        }
        let name = row.get(name);
        if !seen.insert(name.to_owned()) {
            return Err(Error::Row {
                path,
                line: row.line,
                column: "filename",
                got: name.to_owned(),
                expected: "a name that occurs once in the table",
            });
        }
        // A name is a file below the folder: no way out of it.
        let plain = Path::new(name)
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)));
        if !plain {
            return Err(Error::Row {
                path,
                line: row.line,
                column: "filename",
                got: name.to_owned(),
                expected: "a file within the folder of the recordings",
            });
        }
        let written = fold.map_or_else(
            || name.split('-').next().unwrap_or_default(),
            |fold| row.get(fold),
        );
        rows.push(Row {
            name: name.to_owned(),
            category: row.get(category).trim().to_owned(),
            fold: written.trim().parse().ok(),
        });
    }
    if rows.is_empty() {
        return Err(hark_corpus::Error::NoCaptions { path }.into());
    }
    Ok(rows)
}

/// For every row, the splits that may use it. Rows are sorted by name.
fn splits(rows: &[Row], wish: &Recordings) -> Vec<Vec<Split>> {
    let told: Option<Vec<u32>> = rows.iter().map(|row| row.fold).collect();
    let named =
        !wish.train_folds.is_empty() || !wish.validation_folds.is_empty() || !wish.test_folds.is_empty();
    let folds: BTreeSet<u32> = told.iter().flatten().copied().collect();
    match told {
        Some(told) if named => told
            .iter()
            .map(|fold| {
                [
                    (Split::Train, &wish.train_folds),
                    (Split::Validation, &wish.validation_folds),
                    (Split::Test, &wish.test_folds),
                ]
                .into_iter()
                .filter(|(_, folds)| folds.contains(fold))
                .map(|(split, _)| split)
                .collect()
            })
            .collect(),
        Some(told) if folds.len() > 1 => {
            let from_last = |fold: u32| folds.iter().rev().position(|&other| other == fold);
            told.iter()
                .map(|&fold| match (from_last(fold), folds.len()) {
                    (Some(0), _) => vec![Split::Test],
                    (Some(1), 4..) => vec![Split::Validation],
                    (_, 4..) => vec![Split::Train],
                    _ => vec![Split::Train, Split::Validation],
                })
                .collect()
        }
        _ => by_hash(rows),
    }
}

/// Within every category, in the order of a hash of the names: one fifth for test, one for validation, at least one
/// each, and the rest for training.
fn by_hash(rows: &[Row]) -> Vec<Vec<Split>> {
    let mut order: Vec<(usize, u64)> = rows
        .iter()
        .enumerate()
        .map(|(number, row)| {
            let letters: Vec<u64> = row.name.bytes().map(u64::from).collect();
            (number, key(&letters))
        })
        .collect();
    order.sort_by_key(|&(number, hash)| (rows.get(number).map(|row| row.category.as_str()), hash));
    let mut out = vec![Vec::new(); rows.len()];
    let same = |one: &(usize, u64), other: &(usize, u64)| {
        rows.get(one.0).map(|row| &row.category) == rows.get(other.0).map(|row| &row.category)
    };
    for group in order.chunk_by(same) {
        let fifth = group.len().div_ceil(5);
        for (place, &(number, _)) in group.iter().enumerate() {
            let split = match place / fifth {
                0 => Split::Test,
                1 => Split::Validation,
                _ => Split::Train,
            };
            if let Some(splits) = out.get_mut(number) {
                splits.push(split);
            }
        }
    }
    out
}

fn extent(path: &Path, rate: u32) -> Result<(f64, f64, f64), Error> {
    let samples = read(path, rate)?;
    let peak = samples
        .iter()
        .fold(0.0, |peak, sample| f32::max(peak, sample.abs()));
    let sounds = |sample: &f32| peak > 0.0 && sample.abs() >= SILENCE * peak;
    let (Some(first), Some(last)) = (samples.iter().position(sounds), samples.iter().rposition(sounds))
    else {
        return Err(Error::SilentRecording { path: path.into() });
    };
    let rate = f64::from(rate);
    let window = (WINDOW * rate) as usize;
    let energy = |part: &[f32]| part.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>();
    let sounding = samples.get(first..=last).unwrap_or_default();
    let loudest = sounding
        .chunks(window.max(1))
        .enumerate()
        .map(|(number, part)| (energy(part), number))
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map_or(0, |(_, number)| number);
    let length = sounding.len() as f64 / rate;
    // An event needs some length to be placed and faded.
    if length < 0.03 {
        return Err(Error::SilentRecording { path: path.into() });
    }
    let middle = ((loudest as f64 + 0.5) * WINDOW).min(length);
    Ok((first as f64 / rate, length, middle))
}
