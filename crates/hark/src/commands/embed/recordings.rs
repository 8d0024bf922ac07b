//! Recordings to a matrix of embeddings and a table that describes its rows.
//!
//! Both files are replaced as a whole every minute and at the end. `--resume` keeps the rows whose checksums in the table
//! match the matrix.

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

/// The most work that a crash can lose.
const FLUSH: Duration = Duration::from_mins(1);

/// A line of the table.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    row: usize,
    path: String,
    seconds: f64,
    segments: usize,
    damage: String,
    /// The model's fingerprint and the length of clips.
    made_by: String,
    /// Of the row's bytes: reveals a table that is older than its matrix.
    crc32: u32,
}

/// Finished rows.
#[derive(Default)]
struct Done {
    /// By the recording's position in the arguments.
    clips: BTreeMap<usize, ClipVector>,
    /// Rows of an earlier run for other recordings; they come last.
    others: Vec<(String, ClipVector)>,
}

pub fn run(args: &Args) -> Result<()> {
    let Some(name) = &args.model.model else {
        bail!(
            "embedding recordings needs a model with an audio tower: pass --model (see hark models list, hark models import)"
        );
    };
    let Model::Towers(folder) = Home::find()?.models().open(name)? else {
        bail!("{name} is a sentence encoder: it embeds captions, not recordings");
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
            "{}: {} embeddings of dimension {}; rows are listed in {}",
            args.output.display(),
            output::group_digits(rows),
            encoder.dim(),
            table.display()
        );
    }
    if !failed.is_empty() {
        bail!(
            "cannot read {} of {} recordings",
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

/// The rows of an earlier run.
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
        let line = line.with_context(|| format!("{}: not a table that hark embed wrote", table.display()))?;
        if line.made_by != made_by || matrix.dim() != dim {
            bail!(
                "{} was made with another model or --clip-seconds ({}; now {made_by}); delete it, or omit --resume",
                args.output.display(),
                line.made_by
            );
        }
        // A crash between the two files leaves a table that is older than its matrix: rows that moved are embedded again.
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
