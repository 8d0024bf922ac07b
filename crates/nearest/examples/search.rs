//! Measures approximate and exact search over vectors in files; `bench/search.py` drives it and runs other libraries
//! beside it.
//!
//! Files are raw and little-endian: rows of 16-bit numbers `[n, dim]`, queries of 32-bit numbers `[m, dim]`, and the
//! rows that are truly nearest to each query, as 32-bit whole numbers `[m, 10]`. What was measured is printed as
//! JSON.
//!
//! ```text
//! search index --folder F --dim D --numbers i8|f16 --links L --effort-adding E --efforts 16,24,32 --again 30 --target 0.99
//!              --threads T --repeat R [--exact-too]
//! search exact --folder F --dim D --rows N --threads T --repeat R
//! ```
//!
//! `--again A` asks for A candidates, which are ranked again by the rows; 0 takes the ten that the index gives.

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use half::f16;
use hark_nearest::approximate::{Index, Options, Quantization};
use hark_nearest::{Vectors, scan};
use serde_json::{Value, json};

const K: usize = 10;
/// Rows that are made 32 bits wide and added at a time.
const BATCH: usize = 4096;

type Outcome<T> = Result<T, Box<dyn Error>>;

struct Arguments(HashMap<String, String>);

impl Arguments {
    fn read(words: impl Iterator<Item = String>) -> Outcome<Self> {
        let mut found = HashMap::new();
        let mut words = words.peekable();
        while let Some(word) = words.next() {
            let name = word.strip_prefix("--").ok_or(format!("{word}: not an option"))?;
            let value = words.next_if(|next| !next.starts_with("--")).unwrap_or_default();
            found.insert(name.to_owned(), value);
        }
        Ok(Self(found))
    }

    fn text(&self, name: &str) -> Outcome<&str> {
        Ok(self.0.get(name).ok_or(format!("--{name} is missing"))?)
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Outcome<T> {
        let text = self.text(name)?;
        text.parse()
            .map_err(|_| format!("--{name}: {text} is no number").into())
    }
}

fn main() -> Outcome<()> {
    let mut words = std::env::args().skip(1);
    let what = words.next().unwrap_or_default();
    let arguments = Arguments::read(words)?;
    let measured = match what.as_str() {
        "index" => index(&arguments)?,
        "exact" => exact(&arguments)?,
        _ => return Err("search index .. or search exact ..".into()),
    };
    println!("{measured}");
    Ok(())
}

fn floats(path: &Path) -> Outcome<Vec<f32>> {
    let bytes = fs::read(path)?;
    Ok(bytes
        .as_chunks()
        .0
        .iter()
        .map(|&bytes| f32::from_le_bytes(bytes))
        .collect())
}

fn halves(path: &Path, most: usize) -> Outcome<Vec<f16>> {
    use std::io::Read;
    let mut file = fs::File::open(path)?;
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

fn truth(path: &Path) -> Outcome<Vec<u64>> {
    let bytes = fs::read(path)?;
    Ok(bytes
        .as_chunks()
        .0
        .iter()
        .map(|&bytes| u64::from(u32::from_le_bytes(bytes)))
        .collect())
}

fn middle(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// What the system counts as this process's memory, in bytes; nothing where it does not say.
fn resident() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

struct Searcher<'a> {
    index: &'a Index,
    rows: &'a [f16],
    dim: usize,
    again: usize,
}

impl Searcher<'_> {
    fn find(&self, query: &[f32]) -> Outcome<Vec<u64>> {
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

    fn recall(&self, queries: &[f32], truth: &[u64]) -> Outcome<f64> {
        let mut hits = 0;
        for (query, truth) in queries.chunks_exact(self.dim).zip(truth.chunks_exact(K)) {
            hits += self.find(query)?.iter().filter(|key| truth.contains(key)).count();
        }
        Ok(hits as f64 / truth.len() as f64)
    }

    /// Queries a second.
    fn speed(&self, queries: &[f32], threads: usize, repeat: usize) -> f64 {
        let count = queries.len() / self.dim;
        let share = count.div_ceil(threads) * self.dim;
        let seconds = (0..repeat)
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
            .collect();
        count as f64 / middle(seconds)
    }
}

fn index(arguments: &Arguments) -> Outcome<Value> {
    let folder = Path::new(arguments.text("folder")?);
    let dim: usize = arguments.number("dim")?;
    let (threads, repeat): (usize, usize) = (arguments.number("threads")?, arguments.number("repeat")?);
    let numbers = match arguments.text("numbers")? {
        "i8" => Quantization::I8,
        "f16" => Quantization::F16,
        other => return Err(format!("--numbers {other}: i8 or f16").into()),
    };
    let options = Options {
        numbers,
        links: arguments.number("links")?,
        ef_construction: arguments.number("effort-adding")?,
        ..Options::default()
    };
    let queries = floats(&folder.join("queries.f32"))?;
    let truth = truth(&folder.join("truth.u32"))?;
    let before = resident();
    let rows = halves(&folder.join("rows.f16"), usize::MAX)?;

    let mut index = Index::new(dim, options)?;
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

    let saved = folder.join(format!("hark-{}.index", arguments.text("numbers")?));
    index.save(&saved)?;
    let bytes = fs::metadata(&saved)?.len();
    fs::remove_file(&saved)?;

    let target: f64 = arguments.number("target")?;
    let again: usize = arguments.number("again")?;
    let mut sweep = Vec::new();
    for effort in arguments.text("efforts")?.split(',') {
        let effort: usize = effort.parse()?;
        index.set_effort_searching(effort)?;
        let searcher = Searcher {
            index: &index,
            rows: &rows,
            dim,
            again,
        };
        let recall = searcher.recall(&queries, &truth)?;
        sweep.push(json!({ "effort": effort, "recall": recall }));
        if recall >= target {
            break;
        }
    }
    let searcher = Searcher {
        index: &index,
        rows: &rows,
        dim,
        again,
    };
    let one = searcher.speed(&queries, 1, repeat);
    let several = searcher.speed(&queries, threads, repeat);
    let mut measured = json!({
        "build_seconds": build_seconds,
        "bytes_per_vector": bytes as f64 / index.len() as f64,
        "resident_before": before,
        "sweep": sweep,
        "queries_per_second": { "1": one, threads.to_string(): several },
    });
    if arguments.0.contains_key("exact-too") {
        let count = 50.min(queries.len() / dim);
        let seconds = (0..repeat)
            .map(|_| exact_seconds(&rows, dim, &queries[..count * dim], 1, threads))
            .collect::<Outcome<Vec<f64>>>()?;
        measured["exact_queries_per_second"] = json!(count as f64 / middle(seconds));
    }
    Ok(measured)
}

/// Seconds that all queries take, `batch` at a time.
fn exact_seconds(rows: &[f16], dim: usize, queries: &[f32], batch: usize, threads: usize) -> Outcome<f64> {
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

fn exact(arguments: &Arguments) -> Outcome<Value> {
    let folder = Path::new(arguments.text("folder")?);
    let dim: usize = arguments.number("dim")?;
    let (threads, repeat): (usize, usize) = (arguments.number("threads")?, arguments.number("repeat")?);
    let queries = floats(&folder.join("queries.f32"))?;
    let before = resident();
    let rows = halves(&folder.join("rows.f16"), arguments.number::<usize>("rows")? * dim)?;
    let mut measured = json!({ "rows": rows.len() / dim, "resident_before": before });
    for batch in [1, 16] {
        let count = (queries.len() / dim).min(96);
        let seconds = (0..repeat)
            .map(|_| exact_seconds(&rows, dim, &queries[..count * dim], batch, threads))
            .collect::<Outcome<Vec<f64>>>()?;
        measured[format!("milliseconds_in_batches_of_{batch}")] = json!(middle(seconds) * 1e3 / count as f64);
    }
    let first: Vec<usize> = scan::nearest(&rows, dim, &queries[..dim], K, threads, None)?
        .into_iter()
        .map(|(row, _)| row)
        .collect();
    measured["first"] = json!(first);
    Ok(measured)
}
