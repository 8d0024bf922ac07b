//! Recordings → a matrix of embeddings (`FILE.npy`) and a table of its rows (`FILE.rows.csv`), which can be resumed.
//!
//! Both files are replaced as a whole every minute and at the end. A row counts as done if its checksum in the table
//! matches the matrix: a crash between the two files leaves a table that is older than its matrix.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hark_nearest::npy;
use hark_work::files::{explain, write_with};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::model::{AudioEncoder, ClipVector, EmbedEvent, ModelFiles};

/// The most work that a crash can lose.
const FLUSH: Duration = Duration::from_mins(1);

/// A line of the table.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    row: usize,
    path: String,
    /// Of the recording.
    seconds: f64,
    /// Of the part of it that was embedded.
    used_seconds: f64,
    segments: usize,
    damage: String,
    /// The model's fingerprint and the length of clips.
    made_by: String,
    /// Of the row's bytes.
    crc32: u32,
}

/// The table that belongs to a matrix.
pub fn table_of(matrix: &Path) -> PathBuf {
    matrix.with_extension("rows.csv")
}

/// What happens while recordings are embedded.
#[derive(Debug)]
pub enum FileEvent<'a> {
    /// A segment has gone through the network.
    Segment {
        /// Its length.
        seconds: f64,
    },
    /// A recording is embedded, though parts of it could not be decoded.
    Damaged {
        /// The recording.
        path: &'a Path,
        /// What is wrong with it.
        damage: &'a str,
    },
    /// A recording cannot be read.
    Failed {
        /// What is wrong, with its path.
        message: &'a str,
    },
    /// So many recordings are done.
    Done {
        /// With those of an earlier run, and those that cannot be read.
        done: usize,
        /// All recordings.
        total: usize,
    },
}

/// What [`embed_to_file`] wrote.
#[derive(Debug)]
pub struct EmbeddedFile {
    /// Rows of the matrix; none were written if there are 0.
    pub rows: usize,
    /// The recordings that cannot be read, with what is wrong.
    pub failed: Vec<(PathBuf, String)>,
}

/// Which recordings go through which model, and where to.
#[derive(Clone, Copy)]
pub struct EmbedToFile<'a> {
    /// The model.
    pub encoder: &'a AudioEncoder,
    /// The folder that it was opened from.
    pub model: &'a ModelFiles,
    /// The recordings.
    pub recordings: &'a [PathBuf],
    /// Use all of a recording that is longer than the model's clips, as a library does, instead of cropping it.
    pub whole: bool,
    /// The file to write.
    pub matrix: &'a Path,
    /// Keep the rows of an earlier call.
    pub resume: bool,
}

/// Embeds recordings to a file. What was finished is written even if the work is cancelled.
///
/// # Errors
/// [`Error::OtherEmbeddings`] if the rows of an earlier call are of another model; if the files cannot be read or
/// written; [`Error::Cancelled`].
pub fn embed_to_file(
    asked: &EmbedToFile<'_>,
    on_event: &mut dyn FnMut(FileEvent<'_>) -> ControlFlow<()>,
) -> Result<EmbeddedFile, Error> {
    let &EmbedToFile {
        encoder,
        model,
        recordings,
        whole,
        matrix,
        resume,
    } = asked;
    let cropped = if whole { ", not cropped" } else { "" };
    let mut file = Rows {
        matrix,
        table: table_of(matrix),
        dim: encoder.dim(),
        made_by: format!("{}, {}{cropped}", model.fingerprint()?, encoder.clip()),
        recordings,
        done: BTreeMap::new(),
        others: Vec::new(),
    };
    if resume {
        file.read()?;
    }
    let left = (0..recordings.len()).filter(|nth| !file.done.contains_key(nth));
    let left: Vec<usize> = left.collect();
    let paths: Vec<PathBuf> = left.iter().map(|&nth| recordings[nth].clone()).collect();
    let (mut is_new, mut flushed, mut broken) = (false, Instant::now(), None);
    let mut failed: Vec<(PathBuf, String)> = Vec::new();
    let mut deliver = |event: EmbedEvent| {
        let flow = match event {
            EmbedEvent::Segment { seconds } => on_event(FileEvent::Segment { seconds }),
            EmbedEvent::Recording {
                file: nth,
                result: Ok(clip),
            } => {
                let damage = clip.damage.clone();
                file.done.insert(
                    left[nth],
                    ClipVector {
                        windows: Vec::new(),
                        ..clip
                    },
                );
                is_new = true;
                match &damage {
                    Some(damage) => on_event(FileEvent::Damaged {
                        path: &paths[nth],
                        damage,
                    }),
                    None => ControlFlow::Continue(()),
                }
            }
            EmbedEvent::Recording {
                file: nth,
                result: Err(error),
            } => {
                let path = paths[nth].clone();
                let message = match error {
                    // These name the file themselves.
                    Error::Audio(error) => explain(&error),
                    other => format!("{}: {}", path.display(), explain(&other)),
                };
                let flow = on_event(FileEvent::Failed { message: &message });
                failed.push((path, message));
                flow
            }
        };
        if is_new && flushed.elapsed() > FLUSH {
            (flushed, is_new) = (Instant::now(), false);
            if let Err(error) = file.write() {
                broken = Some(error);
                return ControlFlow::Break(());
            }
        }
        flow?;
        on_event(FileEvent::Done {
            done: file.done.len() + failed.len(),
            total: recordings.len(),
        })
    };
    let outcome = if whole {
        // With windows of one segment after the other, as these are the parts of the whole, nothing is computed twice.
        encoder.embed_windows(&paths, encoder.segment_seconds(), &mut deliver)
    } else {
        encoder.embed_files(&paths, &mut deliver)
    };
    if let Some(error) = broken {
        return Err(error);
    }
    let rows = file.done.len() + file.others.len();
    if rows > 0 {
        file.write()?;
    }
    outcome?;
    Ok(EmbeddedFile { rows, failed })
}

/// The rows of a matrix, in the order of the recordings.
struct Rows<'a> {
    matrix: &'a Path,
    table: PathBuf,
    dim: usize,
    made_by: String,
    recordings: &'a [PathBuf],
    /// By the recording's place.
    done: BTreeMap<usize, ClipVector>,
    /// Rows of an earlier call for other recordings; they come last.
    others: Vec<(String, ClipVector)>,
}

impl Rows<'_> {
    fn write(&self) -> Result<(), Error> {
        let own = self.done.iter();
        let own = own.map(|(&nth, clip)| (self.recordings[nth].display().to_string(), clip));
        let others = self.others.iter().map(|(path, clip)| (path.clone(), clip));
        let rows: Vec<(String, &ClipVector)> = own.chain(others).collect();
        let vectors: Vec<&[f32]> = rows.iter().map(|(_, clip)| clip.vector.as_slice()).collect();
        write_with(self.matrix, |file| npy::write(file, self.dim, &vectors.concat()))?;
        write_with(&self.table, |file| {
            let mut lines = csv::Writer::from_writer(file);
            for (row, (path, clip)) in rows.iter().enumerate() {
                lines.serialize(Line {
                    row,
                    path: path.clone(),
                    seconds: milliseconds(clip.total_seconds),
                    used_seconds: milliseconds(clip.seconds),
                    segments: clip.segments,
                    damage: clip.damage.clone().unwrap_or_default(),
                    made_by: self.made_by.clone(),
                    crc32: checksum(&clip.vector),
                })?;
            }
            lines.flush()
        })?;
        Ok(())
    }

    /// Reads the rows of an earlier call.
    fn read(&mut self) -> Result<(), Error> {
        if !self.matrix.exists() || !self.table.exists() {
            return Ok(());
        }
        let matrix = npy::read(self.matrix)?;
        let places = self.recordings.iter().enumerate();
        let places: HashMap<String, usize> = places
            .map(|(nth, path)| (path.display().to_string(), nth))
            .collect();
        let lines = csv::Reader::from_reader(fs_err::File::open(&self.table)?);
        for line in lines.into_deserialize::<Line>() {
            let line = line.map_err(|error| Error::EmbeddingTable {
                path: self.table.clone(),
                what: error.to_string(),
            })?;
            if line.made_by != self.made_by || matrix.dim() != self.dim {
                return Err(Error::OtherEmbeddings {
                    path: self.matrix.to_owned(),
                    there: line.made_by,
                    now: self.made_by.clone(),
                });
            }
            // Rows that moved since the table was written are embedded again.
            let vector = matrix.rows().nth(line.row);
            let Some(vector) = vector.filter(|vector| checksum(vector) == line.crc32) else {
                continue;
            };
            let clip = ClipVector {
                vector: vector.to_vec(),
                classes: Vec::new(),
                windows: Vec::new(),
                seconds: line.used_seconds,
                total_seconds: line.seconds,
                segments: line.segments,
                damage: Some(line.damage).filter(|damage| !damage.is_empty()),
                summary: None,
            };
            match places.get(&line.path) {
                Some(&nth) => {
                    self.done.insert(nth, clip);
                }
                None => self.others.push((line.path, clip)),
            }
        }
        Ok(())
    }
}

fn milliseconds(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

fn checksum(vector: &[f32]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for number in vector {
        hasher.update(&number.to_le_bytes());
    }
    hasher.finalize()
}
