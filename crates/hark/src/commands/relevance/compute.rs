//! `hark relevance compute`: the relevances of a data set as a file.
//!
//! Dense for small sets (`.npy`, `.safetensors`), written row by row so that memory holds the vectors and a few rows;
//! the nearest captions alone for large ones (`.npz`, the form of `scipy.sparse.load_npz`).

use std::collections::HashMap;
use std::io::{Seek, Write};
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use hark_corpus::CaptionSet;
use hark_nearest::{Vectors, exact};
use hark_relevance::RelevanceFunction;
use serde_json::json;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::commands::inputs::{CaptionArgs, ModelArgs};
use crate::{npy, output, progress};

const EXAMPLES: &str = "Examples:
  hark relevance compute --captions clotho_captions_evaluation.csv -o relevance.npy
  hark relevance compute --captions train.csv --top-k 100 -o relevance.npz
  hark relevance compute --captions coco.jsonl --caption-column caption --id-column image -o coco.npz

Rows and columns are the captions in the order of the input. Entry (i, j) is the relevance of
caption j's clip to caption i. FILE.npy: numpy.load. FILE.safetensors: tensors `relevance` and
`clip` (the clip's number for each caption). FILE.npz: scipy.sparse.load_npz; each row holds the
caption itself and its --top-k nearest others.";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    captions: CaptionArgs,
    /// The relevance function: logistic, minmax, binary, threshold, steep, with parameters as in threshold:at=0.6
    #[arg(long, short, value_name = "FUNCTION", default_value = "logistic")]
    function: RelevanceFunction,
    /// Write the similarity h itself instead of the relevance
    #[arg(long, conflicts_with = "function")]
    similarity: bool,
    /// Nearest captions kept in each row of a sparse file [default: 100]
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    #[command(flatten)]
    model: ModelArgs,
    /// Where the relevances go: .npy or .safetensors (dense), .npz (sparse)
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Above this many captions a dense file is refused: 20,000 are 1.6 GB.
const MAX_DENSE: usize = 20_000;
const BLOCK: usize = 256;

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Npy,
    Safetensors,
    Npz,
}

pub fn run(args: &Args) -> Result<()> {
    let form = match args.output.extension().and_then(|extension| extension.to_str()) {
        Some("npy") => Form::Npy,
        Some("safetensors") => Form::Safetensors,
        Some("npz") => Form::Npz,
        _ => bail!(
            "{}: the ending must be .npy, .safetensors or .npz",
            args.output.display()
        ),
    };
    if form != Form::Npz && args.top_k.is_some() {
        bail!("--top-k is for .npz; {} holds every pair", args.output.display());
    }
    if !args.function.needs_range() {
        // Fails for a function that only a training batch can have.
        args.function.apply(0.0, false)?;
    }
    let set = args.captions.read()?;
    let count = set.captions.len();
    if form != Form::Npz && count > MAX_DENSE {
        bail!(
            "{} captions make a dense file of {:.1} GB; above {} write .npz, which keeps the --top-k nearest",
            output::group_digits(count),
            (count * count * 4) as f64 / 1e9,
            output::group_digits(MAX_DENSE)
        );
    }
    let vectors = args.model.embed(&set.texts())?;
    let table = Table::new(args, &set, vectors.view()?)?;
    match form {
        Form::Npy => output::write_whole(&args.output, |file| {
            npy::write_header::<f32>(file, &[count, count])?;
            table.each_row(|row| npy::write_numbers(file, row))
        })?,
        Form::Safetensors => output::write_whole(&args.output, |file| table.write_safetensors(file))?,
        Form::Npz => {
            let (starts, columns, numbers) = table.sparse(args.top_k.unwrap_or(100))?;
            output::write_whole(&args.output, |file| {
                write_csr(file, count, &starts, &columns, &numbers)
            })?;
        }
    }
    if args.json {
        return output::print_json(&json!({
            "output": args.output,
            "captions": count,
            "clips": set.clips.len(),
            "model": args.model.name(),
            "function": table.function.map_or_else(|| "similarity".to_owned(), |function| function.to_string()),
        }));
    }
    eprintln!(
        "{}: {} captions of {} clips",
        args.output.display(),
        output::group_digits(count),
        output::group_digits(set.clips.len())
    );
    Ok(())
}

/// What the numbers of the file are made from.
struct Table<'a> {
    vectors: Vectors<'a>,
    clips: Vec<u32>,
    /// `None` for the similarity itself.
    function: Option<RelevanceFunction>,
    args: &'a Args,
}

impl<'a> Table<'a> {
    fn new(args: &'a Args, set: &CaptionSet, vectors: Vectors<'a>) -> Result<Self> {
        let threads = Some(args.model.threads.count());
        let bar = progress::items("range of similarities");
        let function = args
            .function
            .resolved(vectors, &set.texts(), threads, &|done, total| {
                progress::show(&bar, done, total)
            })?;
        bar.finish_and_clear();
        if args.function.needs_range() {
            eprintln!("function: {function}");
        }
        let clips = set.captions.iter().map(|caption| caption.clip as u32).collect();
        Ok(Self {
            vectors,
            clips,
            function: (!args.similarity).then_some(function),
            args,
        })
    }

    /// The number at row `i`, column `j`, whose similarity is `h`.
    fn number(&self, i: usize, j: usize, h: f32) -> Result<f32> {
        let h = if i == j { 1.0 } else { h.clamp(-1.0, 1.0) };
        match &self.function {
            None => Ok(h),
            Some(function) => Ok(function.apply(f64::from(h), self.clips[i] == self.clips[j])? as f32),
        }
    }

    fn each_row(&self, mut write: impl FnMut(&[f32]) -> Result<()>) -> Result<()> {
        let (rows, dim) = (self.vectors.rows(), self.vectors.dim());
        let bar = progress::items("relevance rows");
        for (nth, block) in self.vectors.as_slice().chunks(BLOCK * dim).enumerate() {
            let mut numbers = exact::products(Vectors::new(block, dim)?, self.vectors)?;
            for (row, numbers) in numbers.chunks_exact_mut(rows).enumerate() {
                for (j, number) in numbers.iter_mut().enumerate() {
                    *number = self.number(nth * BLOCK + row, j, *number)?;
                }
                write(numbers)?;
            }
            if progress::show(&bar, ((nth + 1) * BLOCK).min(rows) as u64, rows as u64).is_break() {
                bail!("stopped");
            }
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// The header of a safetensors file is its length and a JSON object; the numbers follow in the order it gives.
    fn write_safetensors(&self, file: &mut impl Write) -> Result<()> {
        let rows = self.vectors.rows();
        let split = rows * rows * 4;
        let name = if self.function.is_some() {
            "relevance"
        } else {
            "similarity"
        };
        let function = self
            .function
            .map_or_else(|| "similarity".to_owned(), |function| function.to_string());
        let header = json!({
            "__metadata__": {"hark_format": "1", "function": function, "model": self.args.model.name()},
            name: {"dtype": "F32", "shape": [rows, rows], "data_offsets": [0, split]},
            "clip": {"dtype": "U32", "shape": [rows], "data_offsets": [split, split + rows * 4]},
        });
        let mut header = header.to_string().into_bytes();
        header.resize(header.len().next_multiple_of(8), b' ');
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(&header)?;
        self.each_row(|row| npy::write_numbers(file, row))?;
        npy::write_numbers(file, &self.clips)
    }

    /// Compressed rows: where each begins, its columns in ascending order, its numbers.
    fn sparse(&self, k: usize) -> Result<(Vec<i64>, Vec<i32>, Vec<f32>)> {
        let (mut starts, mut columns, mut numbers) = (vec![0], Vec::new(), Vec::new());
        let mut push = |mut row: Vec<(i32, f32)>| {
            row.sort_unstable_by_key(|&(column, _)| column);
            columns.extend(row.iter().map(|&(column, _)| column));
            numbers.extend(row.iter().map(|&(_, number)| number));
            starts.push(columns.len() as i64);
        };
        if self.function == Some(RelevanceFunction::Binary) {
            // All captions of the clip, however unlike: similarity has no say.
            let mut by_clip: HashMap<u32, Vec<i32>> = HashMap::new();
            for (caption, &clip) in self.clips.iter().enumerate() {
                by_clip.entry(clip).or_default().push(caption as i32);
            }
            for clip in &self.clips {
                push(by_clip[clip].iter().map(|&caption| (caption, 1.0)).collect());
            }
            return Ok((starts, columns, numbers));
        }
        let bar = progress::items("nearest captions");
        let options = exact::Options {
            groups: None,
            threads: Some(self.args.model.threads.count()),
        };
        let watch = |done, total| progress::show(&bar, done, total);
        let found = exact::neighbours(self.vectors, k, options, &watch)?;
        bar.finish_and_clear();
        for (i, (ids, scores)) in found.iter().enumerate() {
            let mut row = vec![(i as i32, self.number(i, i, 1.0)?)];
            for (&j, &h) in ids.iter().zip(scores) {
                row.push((j as i32, self.number(i, j as usize, h)?));
            }
            push(row);
        }
        Ok((starts, columns, numbers))
    }
}

/// The members that `scipy.sparse.save_npz` writes.
fn write_csr(
    file: &mut (impl Write + Seek),
    rows: usize,
    starts: &[i64],
    columns: &[i32],
    numbers: &[f32],
) -> Result<()> {
    let mut archive = ZipWriter::new(file);
    archive.start_file("format.npy", SimpleFileOptions::default())?;
    npy::write(&mut archive, &[], &[Csr])?;
    npy::write_member(&mut archive, "shape", &[2], &[rows as i64, rows as i64])?;
    npy::write_member(&mut archive, "indptr", &[starts.len()], starts)?;
    npy::write_member(&mut archive, "indices", &[columns.len()], columns)?;
    npy::write_member(&mut archive, "data", &[numbers.len()], numbers)?;
    archive.finish()?;
    Ok(())
}

/// NumPy's type of the three bytes that say `csr`.
#[derive(Clone, Copy)]
struct Csr;

impl npy::Number for Csr {
    const DTYPE: &'static str = "|S3";
    fn append(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(b"csr");
    }
}
