//! Approximate and exact search over vectors in files (`bench/rows/search.py`).
//!
//! Files are raw and little-endian: `rows.f16` holds rows of 16-bit floats `[n, dim]`, `queries.f32` queries of 32-bit
//! floats `[m, dim]`, and `truth.u32` the rows that are truly nearest to each query, 32-bit whole numbers `[m, 10]`.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use clap::ValueEnum;
use half::f16;
use hark_nearest::HnswIndex;
use hark_nearest::approximate::{Options, Quantization};
use hark_nearest::{Vectors, scan};
use serde_json::json;

use crate::Measured;

const K: usize = 10;
/// Rows that are widened to 32 bits and added at a time.
const BATCH: usize = 4096;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Build an HNSW index, and search it with growing effort until the recall is reached
    Index(IndexArgs),
    /// Scan all rows for every query
    Exact(ExactArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct InputArgs {
    /// Where rows.f16, queries.f32 and truth.u32 are
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
    /// Numbers in a vector
    #[arg(long)]
    dim: usize,
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    threads: u16,
    /// Times to repeat a measurement
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    repeat: u16,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Numbers {
    I8,
    F16,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  hark-bench search index --folder vectors --dim 1024 --numbers i8 --efforts 16,24,32 --again 30"
)]
pub(crate) struct IndexArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Precision of the vectors in the index
    #[arg(long)]
    numbers: Numbers,
    /// Links of a vector in the graph
    #[arg(long, default_value_t = 16)]
    links: usize,
    /// Candidates while adding (ef_construction)
    #[arg(long, default_value_t = 128)]
    effort_adding: usize,
    /// Candidates while searching (ef_search) to try, ascending
    #[arg(long, value_delimiter = ',', required = true)]
    efforts: Vec<usize>,
    /// Candidates to rank again by the full rows; 0 takes the ten hits of the index
    #[arg(long, default_value_t = 0)]
    again: usize,
    /// Recall@10 at which to stop
    #[arg(long, default_value_t = 0.99)]
    target: f64,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  hark-bench search exact --folder vectors --dim 1024 --rows 50000")]
pub(crate) struct ExactArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Search the first N rows
    #[arg(long, value_name = "N")]
    rows: usize,
}

pub(crate) fn run(command: &Command) -> Measured {
    match command {
        Command::Index(args) => index(args),
        Command::Exact(args) => exact(args),
    }
}

fn floats(path: &Path) -> Result<Vec<f32>> {
    let bytes = fs_err::read(path)?;
    Ok(bytes
        .as_chunks()
        .0
        .iter()
        .map(|&bytes| f32::from_le_bytes(bytes))
        .collect())
}

fn halves(path: &Path, most: usize) -> Result<Vec<f16>> {
    use std::io::Read;
    let mut file = fs_err::File::open(path)?;
    let len = (file.metadata()?.len() as usize / 2).min(most);
    let mut rows = Vec::with_capacity(len);
    let mut buffer = vec![0; 1 << 20];
    while rows.len() < len {
        let take = buffer.len().min(2 * (len - rows.len()));
        file.read_exact(&mut buffer[..take])?;
        rows.extend(
            buffer[..take]
                .as_chunks()
                .0
                .iter()
                .map(|&bytes| f16::from_le_bytes(bytes)),
        );
    }
    Ok(rows)
}

fn truth(path: &Path) -> Result<Vec<u64>> {
    let bytes = fs_err::read(path)?;
    Ok(bytes
        .as_chunks()
        .0
        .iter()
        .map(|&bytes| u64::from(u32::from_le_bytes(bytes)))
        .collect())
}

struct Searcher<'a> {
    index: &'a HnswIndex,
    rows: &'a [f16],
    dim: usize,
    again: usize,
}

impl Searcher<'_> {
    fn find(&self, query: &[f32]) -> Result<Vec<u64>> {
        let mut found = self.index.search(query, self.again.max(K), None)?;
        if self.again > 0 {
            for (key, score) in &mut found {
                let row = *key as usize;
                *score = scan::dot(&self.rows[row * self.dim..(row + 1) * self.dim], query);
            }
            found.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        }
        Ok(found.into_iter().take(K).map(|(key, _)| key).collect())
    }

    fn recall(&self, queries: &[f32], truth: &[u64]) -> Result<f64> {
        let mut hits = 0;
        for (query, truth) in queries.chunks_exact(self.dim).zip(truth.chunks_exact(K)) {
            hits += self.find(query)?.iter().filter(|key| truth.contains(key)).count();
        }
        Ok(hits as f64 / truth.len() as f64)
    }

    /// Seconds that all queries take, for each repetition.
    fn seconds(&self, queries: &[f32], threads: usize, repeat: usize) -> Vec<f64> {
        let count = queries.len() / self.dim;
        let share = count.div_ceil(threads) * self.dim;
        (0..repeat)
            .map(|_| {
                let start = Instant::now();
                std::thread::scope(|scope| {
                    for queries in queries.chunks(share) {
                        scope.spawn(move || {
                            for query in queries.chunks_exact(self.dim) {
                                let _ = std::hint::black_box(self.find(query));
                            }
                        });
                    }
                });
                start.elapsed().as_secs_f64()
            })
            .collect()
    }
}

fn index(args: &IndexArgs) -> Measured {
    let InputArgs {
        folder,
        dim,
        threads,
        repeat,
    } = &args.input;
    let (dim, threads, repeat) = (*dim, usize::from(*threads), usize::from(*repeat));
    let options = Options {
        quantization: match args.numbers {
            Numbers::I8 => Quantization::I8,
            Numbers::F16 => Quantization::F16,
        },
        links: args.links,
        ef_construction: args.effort_adding,
        ..Options::default()
    };
    let queries = floats(&folder.join("queries.f32"))?;
    let truth = truth(&folder.join("truth.u32"))?;
    let rows = halves(&folder.join("rows.f16"), usize::MAX)?;

    let mut index = HnswIndex::new(dim, options)?;
    let start = Instant::now();
    for (batch, rows) in rows.chunks(BATCH * dim).enumerate() {
        let wide: Vec<f32> = rows.iter().map(|number| number.to_f32()).collect();
        let first = (batch * BATCH) as u64;
        let keys: Vec<u64> = (first..first + (rows.len() / dim) as u64).collect();
        index.add(&keys, Vectors::new(&wide, dim)?, threads, &mut |_, _| {
            ControlFlow::Continue(())
        })?;
    }
    let build_seconds = start.elapsed().as_secs_f64();

    let saved = folder.join(format!("hark-{:?}.index", args.numbers));
    index.save(&saved)?;
    let bytes = fs_err::metadata(&saved)?.len();
    fs_err::remove_file(&saved)?;

    let again = args.again;
    let (mut recall, mut reached) = (0.0, 0);
    for &effort in &args.efforts {
        index.set_effort_searching(effort)?;
        let searcher = Searcher {
            index: &index,
            rows: &rows,
            dim,
            again,
        };
        (recall, reached) = (searcher.recall(&queries, &truth)?, effort);
        if recall >= args.target {
            break;
        }
    }
    let searcher = Searcher {
        index: &index,
        rows: &rows,
        dim,
        again,
    };
    let one = searcher.seconds(&queries, 1, repeat);
    let several = searcher.seconds(&queries, threads, repeat);
    Ok(json!({
        "seconds": several,
        "parts": { "one thread": one, "build": [build_seconds] },
        "count": queries.len() / dim,
        "recall": recall,
        "effort": reached,
        "bytes_per_vector": bytes as f64 / index.len() as f64,
    }))
}

/// Seconds that all queries take, `batch` at a time.
fn exact_seconds(rows: &[f16], dim: usize, queries: &[f32], batch: usize, threads: usize) -> Result<f64> {
    let start = Instant::now();
    for queries in queries.chunks(batch * dim) {
        if batch == 1 {
            std::hint::black_box(scan::nearest(rows, dim, queries, K, threads, None)?);
        } else {
            std::hint::black_box(scan::nearest_many(
                rows,
                dim,
                Vectors::new(queries, dim)?,
                K,
                threads,
                None,
            )?);
        }
    }
    Ok(start.elapsed().as_secs_f64())
}

fn exact(args: &ExactArgs) -> Measured {
    let InputArgs {
        folder,
        dim,
        threads,
        repeat,
    } = &args.input;
    let (dim, threads, repeat) = (*dim, usize::from(*threads), usize::from(*repeat));
    let queries = floats(&folder.join("queries.f32"))?;
    let rows = halves(&folder.join("rows.f16"), args.rows * dim)?;
    let count = (queries.len() / dim).min(96);
    let queries = &queries[..count * dim];
    let time = |batch| -> Result<Vec<f64>> {
        (0..repeat)
            .map(|_| exact_seconds(&rows, dim, queries, batch, threads))
            .collect()
    };
    let nearest = queries
        .chunks_exact(dim)
        .map(|query| {
            let found = scan::nearest(&rows, dim, query, 1, threads, None)?;
            Ok(found.first().map(|&(row, _)| row))
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(json!({
        "seconds": time(1)?,
        "parts": { "16 at a time": time(16)? },
        "count": count,
        "nearest": nearest,
    }))
}
