//! `hark compare`: the scored queries of two methods in, whether they differ out.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args as ClapArgs;
use hark_evaluate::compare::BY_PERMUTATION;
use hark_evaluate::{Comparison, Direction, Error, Method, Metric, Paired, Test, compare};
use hark_learn::Recipe;
use hark_study::comparisons::{p_value, verdict};
use hark_study::runner::STUDY;
use serde_json::json;

use super::inputs::{direction, metric};
use crate::output;

const EXAMPLES: &str = "Examples:
  hark compare --a runs/listnet/results --b runs/infonce/results
  hark compare --a studies/clotho/listnet-audio --b studies/clotho/infonce
  hark compare --a a1.csv a2.csv --b b1.csv b2.csv --direction audio-to-text
  hark compare --study studies/soundscape-full --baseline smooth --metric ndcg

RUN is a folder written by hark eval -o or hark reproduce, a file of scored queries, or a folder of such runs. \
Figures are averaged over a method's runs query by query, then paired. The paper tests over queries; captions of \
one clip are not independent, so the verdict uses the test over clips. With several runs on each side, runs are \
also paired by seed. With --study, every method is compared with the baseline and p is corrected with Holm's \
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
    #[arg(long, value_name = "DIR")]
    study: Option<PathBuf>,
    /// Method that the others are compared with [default: the study's first]
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
    let (methods, pairs) = if let Some(study) = &args.study {
        let methods = Method::read_study(study, args.direction)?;
        let base = baseline(args, study, &methods)?;
        let others = (0..methods.len()).filter(|&nth| nth != base);
        let pairs = others.map(|nth| (nth, base)).collect();
        (methods, pairs)
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

/// The place of the method that the others are compared with.
fn baseline(args: &Args, study: &Path, methods: &[Method]) -> Result<usize> {
    let place = |name: &str| methods.iter().position(|method| method.name == name);
    if let Some(name) = &args.baseline {
        ensure!(
            !methods.is_empty(),
            "{} holds no finished run of hark reproduce",
            study.display()
        );
        return place(name).with_context(|| {
            let names: Vec<&str> = methods.iter().map(|method| method.name.as_str()).collect();
            format!(
                "--baseline: no method {name} in {}, which has {}",
                study.display(),
                names.join(", ")
            )
        });
    }
    // A study of functions or temperatures has other names than objectives: then the first folder.
    let first = Recipe::read_resolved(&study.join(STUDY), &[])
        .ok()
        .and_then(|recipe| {
            let method = recipe.study?.methods.first()?.to_string();
            place(&method)
        });
    ensure!(
        !methods.is_empty(),
        "{}: no scored queries in it; it is not a study",
        study.display()
    );
    Ok(first.unwrap_or(0))
}

fn of_two(args: &Args) -> Result<Vec<Method>> {
    let (a, b) = (name(&args.a, "A"), name(&args.b, "B"));
    let (a, b) = if a == b {
        ("A".to_owned(), "B".to_owned())
    } else {
        (a, b)
    };
    let methods = [(a, &args.a), (b, &args.b)].into_iter();
    let methods = methods.map(|(name, paths)| match Method::read(name, paths, args.direction) {
        Err(error @ Error::NoScoredQueries { .. }) => bail!("{error}; write them with: hark eval -o DIR"),
        Err(error @ Error::OtherDirection { .. }) => bail!("{error}; change --direction"),
        method => Ok(method?),
    });
    methods.collect()
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

fn shown(comparison: &Comparison, paired: &Paired<'_>, show: usize) -> String {
    let mut text = format!("{}\n\n", verdict(comparison));
    text.push_str(&format!(
        "{}, {}: {}, {} and {}{}\n",
        comparison.direction,
        comparison.metric,
        output::counted(paired.queries.len(), "query"),
        paired.runs.0,
        output::counted(paired.runs.1, "run"),
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
