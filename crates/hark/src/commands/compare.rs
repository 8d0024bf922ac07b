//! `hark compare`: the scored queries of two methods in, whether they differ out.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args as ClapArgs;
use hark_evaluate::compare::BY_PERMUTATION;
use hark_evaluate::{Comparison, Direction, Method, Metric, Paired, ScoredQueries, Test, compare};
use hark_study::comparisons::{p_value, verdict};
use serde_json::json;

use super::inputs::{direction, metric};
use crate::output;

const EXAMPLES: &str = "Examples:
  hark compare --a runs/listnet/results --b runs/infonce/results
  hark compare --a studies/clotho/listnet-audio --b studies/clotho/infonce
  hark compare --a a1.csv a2.csv --b b1.csv b2.csv --metric r10 --direction audio-to-text
  hark compare --study studies/soundscape-full --baseline smooth --metric ndcg

RUN is a folder written by hark eval -o or hark reproduce, a file of scored queries, or a folder of such runs.
Figures are averaged over a method's runs query by query, then paired. The paper tests over queries; captions of
one clip are not independent, so the verdict uses the test over clips. With several runs on each side, runs are
also paired by seed. With --study, every method is compared with the baseline and p is corrected with Holm's
method.";

#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Runs of the first method
    #[arg(long, value_name = "RUN", num_args = 1.., required_unless_present = "study", conflicts_with = "study")]
    a: Vec<PathBuf>,
    /// Runs of the second method
    #[arg(long, value_name = "RUN", num_args = 1.., required_unless_present = "study", conflicts_with = "study")]
    b: Vec<PathBuf>,
    /// Compare all methods of a folder written by hark reproduce
    #[arg(long, value_name = "DIR", requires = "baseline")]
    study: Option<PathBuf>,
    /// Method that the others are compared with
    #[arg(long, value_name = "NAME", requires = "study")]
    baseline: Option<String>,
    /// Direction of the search
    #[arg(long, value_name = "WAY", default_value = "text-to-audio", value_parser = direction())]
    direction: Direction,
    /// Figure to compare
    #[arg(long, value_name = "METRIC", default_value = "ap", value_parser = metric())]
    metric: Metric,
    /// Number of largest wins and losses to show
    #[arg(long, value_name = "N", default_value_t = 5)]
    show: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<()> {
    let (methods, pairs) = if let (Some(study), Some(baseline)) = (&args.study, &args.baseline) {
        of_study(study, baseline, args.direction)?
    } else {
        (of_two(args)?, vec![(0, 1)])
    };
    let compared = compare(&methods, &pairs, args.metric)?;
    if args.json {
        let all = compared
            .iter()
            .map(|(comparison, paired)| as_json(comparison, paired, args.show));
        return output::print_json(&json!({"comparisons": all.collect::<Vec<_>>()}));
    }
    let mut text = String::new();
    for (comparison, paired) in &compared {
        text.push_str(&shown(comparison, paired, args.show));
    }
    output::print(&text)
}

fn of_two(args: &Args) -> Result<Vec<Method>> {
    let (a, b) = (name(&args.a, "A"), name(&args.b, "B"));
    let (a, b) = if a == b {
        ("A".to_owned(), "B".to_owned())
    } else {
        (a, b)
    };
    [(a, &args.a), (b, &args.b)]
        .into_iter()
        .map(|(name, paths)| {
            let runs = read_all(paths, args.direction)?;
            Ok(Method { name, runs })
        })
        .collect()
}

/// A method's name: the last part of its path, if it has only one.
fn name(paths: &[PathBuf], otherwise: &str) -> String {
    match paths {
        [one] => one.file_stem().map_or_else(
            || otherwise.to_owned(),
            |name| name.to_string_lossy().into_owned(),
        ),
        _ => otherwise.to_owned(),
    }
}

/// Which methods are compared.
type Pairs = Vec<(usize, usize)>;

/// The methods of a study, and each with the baseline.
fn of_study(study: &Path, baseline: &str, direction: Direction) -> Result<(Vec<Method>, Pairs)> {
    let mut methods = Vec::new();
    for folder in folders(study)? {
        let mut files = Vec::new();
        collect(&folder, direction, 1, &mut files)?;
        if files.is_empty() {
            continue;
        }
        let runs = files
            .iter()
            .map(|path| ScoredQueries::read(path))
            .collect::<Result<Vec<_>, _>>()?;
        let name = folder
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        methods.push(Method { name, runs });
    }
    let names: Vec<&str> = methods.iter().map(|method| method.name.as_str()).collect();
    let base = names.iter().position(|name| *name == baseline);
    let base = base.with_context(|| {
        format!(
            "--baseline {baseline}: {} has the methods {}",
            study.display(),
            names.join(", ")
        )
    })?;
    let pairs = (0..methods.len())
        .filter(|&nth| nth != base)
        .map(|nth| (nth, base))
        .collect();
    Ok((methods, pairs))
}

fn folders(path: &Path) -> Result<Vec<PathBuf>> {
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

fn read_all(paths: &[PathBuf], direction: Direction) -> Result<Vec<ScoredQueries>> {
    let mut files = Vec::new();
    for path in paths {
        let before = files.len();
        collect(path, direction, 0, &mut files)?;
        ensure!(
            files.len() > before,
            "{}: no scored queries ({}); write them with: hark eval -o DIR",
            path.display(),
            direction.file()
        );
    }
    let runs = files
        .iter()
        .map(|path| ScoredQueries::read(path))
        .collect::<Result<Vec<_>, _>>()?;
    if let Some((path, _)) = files
        .iter()
        .zip(&runs)
        .find(|(_, run)| run.kind.direction != direction)
    {
        bail!(
            "{} is not {}; change --direction",
            path.display(),
            direction.title()
        );
    }
    Ok(runs)
}

/// How deep runs are nested: study, method, corpus, seed.
const MAX_DEPTH: usize = 4;

/// Files of scored queries: the one that is named, that of a folder, or those of the folders in it, in the order of their names.
fn collect(path: &Path, direction: Direction, depth: usize, files: &mut Vec<PathBuf>) -> Result<()> {
    if path.is_file() {
        files.push(path.to_owned());
        return Ok(());
    }
    if !path.is_dir() {
        bail!("{}: no such run", path.display());
    }
    let own = path.join(direction.file());
    if own.is_file() {
        files.push(own);
        return Ok(());
    }
    if depth < MAX_DEPTH {
        let mut inner = folders(path)?;
        // seed-10 after seed-9.
        inner.sort_by_key(|path| {
            let name = path
                .file_name()
                .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
            let number = name
                .rsplit('-')
                .next()
                .and_then(|number| number.parse::<u64>().ok());
            (number, name)
        });
        for folder in inner {
            collect(&folder, direction, depth + 1, files)?;
        }
    }
    Ok(())
}

fn shown(comparison: &Comparison, paired: &Paired<'_>, show: usize) -> String {
    let mut text = format!("{}\n\n", verdict(comparison));
    text.push_str(&format!(
        "{}, {}: {} queries, {} and {} runs{}\n",
        comparison.direction,
        comparison.metric,
        output::group_digits(paired.queries.len()),
        paired.runs.0,
        paired.runs.1,
        if paired.corpora > 1 {
            format!(" on {} corpora", paired.corpora)
        } else {
            String::new()
        }
    ));
    for test in &comparison.tests {
        text.push_str(&line(test));
    }
    let (won, lost) = paired.extremes(show);
    for (better, queries) in [(&comparison.first, won), (&comparison.second, lost)] {
        text.push_str(&answers(
            &format!("{better} is better by most for"),
            &queries,
            paired,
        ));
    }
    text.push('\n');
    text
}

fn answers(title: &str, queries: &[usize], paired: &Paired<'_>) -> String {
    let mut text = String::new();
    for &query in queries {
        if text.is_empty() {
            text = format!("\n{title}\n");
        }
        let named = paired.queries[query];
        let words = if named.text.is_empty() {
            &named.id
        } else {
            &named.text
        };
        text.push_str(&format!(
            "  {:.3} against {:.3}  {} ({})\n",
            paired.first[query],
            paired.second[query],
            output::sanitize(words),
            output::sanitize(&named.id)
        ));
    }
    text
}

fn line(test: &Test) -> String {
    let over = if test.over == BY_PERMUTATION {
        format!("by permutation of {} clips", output::group_digits(test.pairs))
    } else {
        format!("over {} {}", output::group_digits(test.pairs), test.over)
    };
    let mut text = format!("  {over:<32}{:+.2} points", 100.0 * test.difference);
    if let Some((low, high)) = test.interval {
        text.push_str(&format!(
            " (95% interval {:+.2} to {:+.2})",
            100.0 * low,
            100.0 * high
        ));
    }
    if let Some((t, freedom)) = test.t {
        text.push_str(&format!(", t({freedom}) = {t:.3}"));
    }
    text.push_str(&format!(", p = {}", p_value(test.p)));
    if test.holm.to_bits() != test.p.to_bits() {
        text.push_str(&format!(", {} after Holm", p_value(test.holm)));
    }
    if let Some(effect) = test.effect {
        text.push_str(&format!(", d = {effect:.3}"));
    }
    text.push('\n');
    text
}

fn as_json(comparison: &Comparison, paired: &Paired<'_>, show: usize) -> serde_json::Value {
    let (won, lost) = paired.extremes(show);
    let answer = |&query: &usize| {
        let named = paired.queries[query];
        json!({"query": named.id, "text": named.text, "first": paired.first[query], "second": paired.second[query]})
    };
    json!({
        "first": comparison.first, "second": comparison.second, "direction": comparison.direction,
        "metric": comparison.metric, "verdict": verdict(comparison), "queries": paired.queries.len(),
        "runs": [paired.runs.0, paired.runs.1], "corpora": paired.corpora, "tests": comparison.tests,
        "won": won.iter().map(answer).collect::<Vec<_>>(), "lost": lost.iter().map(answer).collect::<Vec<_>>(),
    })
}
