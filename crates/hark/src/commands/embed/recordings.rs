//! Recordings to a matrix of vectors and a table of what each row is.
//!
//! Both files are written every minute and at the end, the matrix first: whatever happens, the table's rows are all in the
//! matrix, and `--resume` goes on from them.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fs_err as fs;
use hark_encode::model::{AudioEncoder, ClipVector};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Args;
use crate::home::Home;
use crate::models::{self, Model};
use crate::{npy, output, progress};

/// How much work a kill can cost.
const FLUSH: Duration = Duration::from_mins(1);

/// A line of the table.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    row: usize,
    path: PathBuf,
    seconds: f64,
    segments: usize,
    damage: String,
}

/// What is done so far, by the recording's place among the arguments.
type Done = HashMap<usize, ClipVector>;

pub fn run(args: &Args) -> Result<()> {
    let Some(name) = &args.model.model else {
        bail!(
            "recordings need a model with an audio tower: give --model (see hark models list, hark models import)"
        );
    };
    let Model::Towers(folder) = models::open_any(&Home::find()?, name)? else {
        bail!("{name} is a sentence encoder: it reads captions, not recordings");
    };
    let encoder = AudioEncoder::open(&folder, args.model.threads.count().get())?.with_clip(args.clip);
    let table = args.output.with_extension("csv");
    let mut done = Done::new();
    if args.resume {
        done = read_done(args, &table, encoder.dim())?;
    }
    let left: Vec<usize> = (0..args.recordings.len())
        .filter(|nth| !done.contains_key(nth))
        .collect();
    let paths: Vec<PathBuf> = left.iter().map(|&nth| args.recordings[nth].clone()).collect();
    let mut failed: Vec<(PathBuf, String)> = Vec::new();
    let mut flushed = Instant::now();
    let mut broken = None;
    let bar = progress::items("embedding recordings");
    bar.set_length(args.recordings.len() as u64);
    let outcome = encoder.embed_files(&paths, &mut |nth, result| {
        match result {
            Ok(clip) => {
                if let Some(damage) = &clip.damage {
                    bar.suspend(|| eprintln!("hark: warning: {}: {damage}", paths[nth].display()));
                }
                done.insert(left[nth], clip);
            }
            Err(error) => {
                // Errors of the audio crate name the file themselves.
                bar.suspend(|| eprintln!("hark: {error}"));
                failed.push((paths[nth].clone(), error.to_string()));
            }
        }
        if flushed.elapsed() > FLUSH {
            flushed = Instant::now();
            if let Err(error) = write(args, &table, &done, encoder.dim()) {
                broken = Some(error);
                return ControlFlow::Break(());
            }
        }
        progress::show(
            &bar,
            (done.len() + failed.len()) as u64,
            args.recordings.len() as u64,
        )
    });
    bar.finish_and_clear();
    if let Some(error) = broken {
        return Err(error);
    }
    if !done.is_empty() {
        write(args, &table, &done, encoder.dim())?;
    }
    outcome?;
    if args.json {
        let failed: Vec<_> = failed
            .iter()
            .map(|(path, error)| json!({"path": path, "error": error}))
            .collect();
        output::print_json(&json!({
            "output": args.output, "table": table, "rows": done.len(), "dim": encoder.dim(), "model": name, "failed": failed,
        }))?;
    } else if !done.is_empty() {
        eprintln!(
            "{}: {} vectors of {}; {} says which row is which",
            args.output.display(),
            output::count(done.len()),
            encoder.dim(),
            table.display()
        );
    }
    if !failed.is_empty() {
        bail!(
            "{} of {} recordings could not be read",
            output::count(failed.len()),
            output::count(args.recordings.len())
        );
    }
    Ok(())
}

fn write(args: &Args, table: &Path, done: &Done, dim: usize) -> Result<()> {
    let mut order: Vec<usize> = done.keys().copied().collect();
    order.sort_unstable();
    output::write_whole(&args.output, |file| {
        npy::write_header::<f32>(file, &[order.len(), dim])?;
        order
            .iter()
            .try_for_each(|nth| npy::write_numbers(file, &done[nth].vector))
    })?;
    output::write_whole(table, |file| {
        let mut rows = csv::Writer::from_writer(file);
        for (row, nth) in order.iter().enumerate() {
            let clip = &done[nth];
            rows.serialize(Line {
                row,
                path: args.recordings[*nth].clone(),
                seconds: (clip.seconds * 1000.0).round() / 1000.0,
                segments: clip.segments,
                damage: clip.damage.clone().unwrap_or_default(),
            })?;
        }
        rows.flush()?;
        Ok(())
    })
}

/// What an earlier run has done of these recordings.
fn read_done(args: &Args, table: &Path, dim: usize) -> Result<Done> {
    if !args.output.exists() || !table.exists() {
        return Ok(Done::new());
    }
    let matrix = npy::read_matrix(&args.output)?;
    if matrix.columns != dim {
        bail!(
            "{}: vectors of {}, and this model's have {dim}: it is of another model; remove it, or leave out --resume",
            args.output.display(),
            matrix.columns
        );
    }
    let places: HashMap<&Path, usize> = args
        .recordings
        .iter()
        .enumerate()
        .map(|(nth, path)| (path.as_path(), nth))
        .collect();
    let mut done = Done::new();
    let rows = csv::Reader::from_reader(fs::File::open(table)?).into_deserialize::<Line>();
    for row in rows {
        let row = row.with_context(|| table.display().to_string())?;
        let Some(vector) = matrix.numbers.chunks_exact(dim).nth(row.row) else {
            bail!(
                "{}: row {} is not in {}",
                table.display(),
                row.row,
                args.output.display()
            );
        };
        if let Some(&nth) = places.get(row.path.as_path()) {
            let clip = ClipVector {
                vector: vector.to_vec(),
                seconds: row.seconds,
                segments: row.segments,
                damage: Some(row.damage).filter(|damage| !damage.is_empty()),
            };
            done.insert(nth, clip);
        }
    }
    Ok(done)
}
