//! Recordings to a matrix of vectors and a table of what each row is.
//!
//! Both files are written every minute and at the end, each whole or not at all. `--resume` goes on from the rows whose
//! checksums in the table are those of the matrix.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fs_err as fs;
use hark_encode::Error;
use hark_encode::model::{AudioEncoder, ClipVector, EmbedEvent, fingerprint};
use hark_models::Model;
use hark_nearest::npy;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Args;
use crate::home::Home;
use crate::{output, progress};

/// How much work a kill can cost.
const FLUSH: Duration = Duration::from_mins(1);

/// A line of the table.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    row: usize,
    path: String,
    seconds: f64,
    segments: usize,
    damage: String,
    /// What made the vector: model and length of clips.
    made_by: String,
    /// Of the row's bytes: a table that is older than its matrix is found out.
    crc32: u32,
}

/// What is done so far.
#[derive(Default)]
struct Done {
    /// By the recording's place among the arguments.
    clips: BTreeMap<usize, ClipVector>,
    /// Rows of an earlier run that are none of these recordings; they stand behind.
    others: Vec<(String, ClipVector)>,
}

pub fn run(args: &Args) -> Result<()> {
    let Some(name) = &args.model.model else {
        bail!(
            "recordings need a model with an audio tower: give --model (see hark models list, hark models import)"
        );
    };
    let Model::Towers(folder) = Home::find()?.models().open(name)? else {
        bail!("{name} is a sentence encoder: it reads captions, not recordings");
    };
    let encoder = AudioEncoder::open(&folder, &args.model.threads.compute())?.with_clip(args.clip_seconds);
    let made_by = format!("{}, {}", fingerprint(&folder)?, encoder.clip());
    let table = args.output.with_extension("rows.csv");
    let mut done = Done::default();
    if args.resume {
        done = read_done(args, &table, encoder.dim(), &made_by)?;
    }
    let left: Vec<usize> = (0..args.recordings.len())
        .filter(|nth| !done.clips.contains_key(nth))
        .collect();
    let paths: Vec<PathBuf> = left.iter().map(|&nth| args.recordings[nth].clone()).collect();
    let mut fresh = false;
    let mut failed: Vec<(String, String)> = Vec::new();
    let mut flushed = Instant::now();
    let mut broken = None;
    let total = args.recordings.len() as u64;
    let mut bar = progress::Recordings::new("embedding");
    let outcome = encoder.embed_files(&paths, &mut |told| {
        match told {
            EmbedEvent::Segment { seconds } => {
                bar.heard(seconds);
            }
            EmbedEvent::Recording {
                file,
                result: Ok(clip),
            } => {
                if let Some(damage) = &clip.damage {
                    bar.print(&format!("hark: warning: {}: {damage}", paths[file].display()));
                }
                done.clips.insert(left[file], clip);
                fresh = true;
            }
            EmbedEvent::Recording {
                file,
                result: Err(error),
            } => {
                let path = paths[file].display().to_string();
                // Errors of the audio crate name the file themselves.
                let message = match error {
                    Error::Audio(error) => error.to_string(),
                    other => format!("{path}: {other}"),
                };
                bar.print(&format!("hark: {message}"));
                failed.push((path, message));
            }
        }
        if fresh && flushed.elapsed() > FLUSH {
            (flushed, fresh) = (Instant::now(), false);
            if let Err(error) = write(args, &table, &done, &made_by) {
                broken = Some(error);
                return ControlFlow::Break(());
            }
        }
        bar.show((done.clips.len() + failed.len()) as u64, total)
    });
    bar.clear();
    if let Some(error) = broken {
        return Err(error);
    }
    let rows = done.clips.len() + done.others.len();
    if rows > 0 {
        write(args, &table, &done, &made_by)?;
    }
    outcome?;
    if args.json {
        let failed: Vec<_> = failed
            .iter()
            .map(|(path, error)| json!({"path": path, "error": error}))
            .collect();
        output::print_json(&json!({
            "output": args.output.display().to_string(), "table": table.display().to_string(), "rows": rows, "dim": encoder.dim(), "model": name, "failed": failed,
        }))?;
    } else if rows > 0 {
        eprintln!(
            "{}: {} vectors of {}; {} says which row is which",
            args.output.display(),
            output::group_digits(rows),
            encoder.dim(),
            table.display()
        );
    }
    if !failed.is_empty() {
        bail!(
            "{} of {} recordings could not be read",
            output::group_digits(failed.len()),
            output::group_digits(args.recordings.len())
        );
    }
    Ok(())
}

fn write(args: &Args, table: &Path, done: &Done, made_by: &str) -> Result<()> {
    let own = done
        .clips
        .iter()
        .map(|(&nth, clip)| (args.recordings[nth].display().to_string(), clip));
    let others = done.others.iter().map(|(path, clip)| (path.clone(), clip));
    let rows: Vec<(String, &ClipVector)> = own.chain(others).collect();
    let dim = rows.first().map_or(0, |(_, clip)| clip.vector.len());
    output::write_whole(&args.output, |file| {
        let vectors: Vec<&[f32]> = rows.iter().map(|(_, clip)| clip.vector.as_slice()).collect();
        Ok(npy::write(file, dim, &vectors.concat())?)
    })?;
    output::write_whole(table, |file| {
        let mut lines = csv::Writer::from_writer(file);
        for (row, (path, clip)) in rows.iter().enumerate() {
            lines.serialize(Line {
                row,
                path: path.clone(),
                seconds: (clip.seconds * 1000.0).round() / 1000.0,
                segments: clip.segments,
                damage: clip.damage.clone().unwrap_or_default(),
                made_by: made_by.to_owned(),
                crc32: checksum(&clip.vector),
            })?;
        }
        lines.flush()?;
        Ok(())
    })
}

fn checksum(vector: &[f32]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for number in vector {
        hasher.update(&number.to_le_bytes());
    }
    hasher.finalize()
}

/// What an earlier run has done.
fn read_done(args: &Args, table: &Path, dim: usize, made_by: &str) -> Result<Done> {
    let mut done = Done::default();
    if !args.output.exists() || !table.exists() {
        return Ok(done);
    }
    let matrix = npy::read(&args.output)?;
    let places: HashMap<String, usize> = args
        .recordings
        .iter()
        .enumerate()
        .map(|(nth, path)| (path.display().to_string(), nth))
        .collect();
    for line in csv::Reader::from_reader(fs::File::open(table)?).into_deserialize::<Line>() {
        let line = line.with_context(|| format!("{}: not a table of hark's", table.display()))?;
        if line.made_by != made_by || matrix.dim() != dim {
            bail!(
                "{}: its rows are of another model or length of clips ({}; now {made_by}); remove it, or leave out --resume",
                args.output.display(),
                line.made_by
            );
        }
        // A kill between the two files leaves a table that is older than its matrix: rows that moved are done anew.
        let vector = matrix.rows().nth(line.row);
        let Some(vector) = vector.filter(|vector| checksum(vector) == line.crc32) else {
            continue;
        };
        let clip = ClipVector {
            vector: vector.to_vec(),
            windows: Vec::new(),
            seconds: line.seconds,
            segments: line.segments,
            damage: Some(line.damage).filter(|damage| !damage.is_empty()),
            summary: None,
        };
        match places.get(&line.path) {
            Some(&nth) => {
                done.clips.insert(nth, clip);
            }
            None => done.others.push((line.path, clip)),
        }
    }
    Ok(done)
}
