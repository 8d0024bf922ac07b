//! An evaluation for people and for machines.

use anyhow::Result;
use hark_evaluate::slices::SLICES;
use hark_evaluate::{Direction, ScoredQuery};
use hark_metrics::{MeanMetrics, RECALL_CUTS};
use serde_json::{Value, json};

use super::{Args, Evaluation, Judgement, TieOrder};
use crate::output;

pub(super) fn print(args: &Args, evaluation: &Evaluation) -> Result<()> {
    if args.json {
        return output::print_json(&as_json(args, evaluation));
    }
    output::print(&table(evaluation))
}

fn table(evaluation: &Evaluation) -> String {
    let mut text = format!("{}\n", evaluation.title);
    if evaluation.clips > 0 {
        text.push_str(&format!(
            "{} clips, {} captions; in percent\n",
            output::group_digits(evaluation.clips),
            output::group_digits(evaluation.captions)
        ));
    } else {
        text.push_str(&format!(
            "{} queries; in percent\n",
            output::group_digits(evaluation.captions)
        ));
    }
    let cut = evaluation.judgements.first().map_or(10, |first| first.report.cut);
    let mut by = "";
    for judgement in &evaluation.judgements {
        if judgement.scores.kind.relevance != by {
            by = &judgement.scores.kind.relevance;
            text.push_str(&format!("\nby {by}\n{:24}{:>9}", "", format!("mAP@{cut}")));
            for name in ["R@1", "R@5", "R@10", "hit@1", "hit@5", "hit@10", "MRR"] {
                text.push_str(&format!("{name:>8}"));
            }
            if judgement.graded.is_some() {
                text.push_str(&format!("{:>9}", format!("nDCG@{cut}")));
            }
            text.push_str(&format!("{:>13}\n", "median rank"));
        }
        let graded = judgement.graded.as_ref();
        let median = format!("{:.1}", judgement.report.median_rank);
        text.push_str(&row(
            judgement.scores.kind.direction.title(),
            &judgement.report.mean,
            graded.map(|graded| graded.mean),
            &median,
        ));
        text.push_str(&row(
            "  chance",
            &judgement.report.chance,
            graded.map(|graded| graded.chance),
            "",
        ));
        if judgement.left_out > 0 {
            text.push_str(&format!(
                "  {} queries have no relevant item and are left out\n",
                output::group_digits(judgement.left_out)
            ));
        }
    }
    let first = evaluation.judgements.first();
    if let Some(judgement) = first.filter(|judgement| has_words(judgement)) {
        text.push_str(&format!(
            "\n{:<40}{:>9}{:>9}{:>8}\n",
            "text to audio by what queries say:",
            "queries",
            format!("mAP@{cut}"),
            "R@10"
        ));
        for slice in sliced(judgement) {
            text.push_str(&format!(
                "  {:<38}{:>9}{:>9}{:>8}\n",
                format!("{}: {}", slice.by, slice.name),
                output::group_digits(slice.queries),
                percent(slice.map),
                percent(slice.recall)
            ));
        }
    }
    text
}

fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{:.1}", 100.0 * value))
}

fn row(name: &str, means: &MeanMetrics, ndcg: Option<f64>, median: &str) -> String {
    let mut text = format!("{name:<24}{:>9.1}", 100.0 * means.average_precision);
    for value in means
        .recall
        .iter()
        .chain(&means.hit)
        .chain([&means.reciprocal_rank])
    {
        text.push_str(&format!("{:>8.1}", 100.0 * value));
    }
    if let Some(ndcg) = ndcg {
        text.push_str(&format!("{:>9.1}", 100.0 * ndcg));
    }
    text.push_str(&format!("{median:>13}"));
    format!("{}\n", text.trim_end())
}

/// Queries of stored vectors and foreign runs may be without words.
fn has_words(judgement: &Judgement) -> bool {
    judgement.scores.kind.direction == Direction::TextToAudio
        && judgement
            .scores
            .queries
            .iter()
            .any(|query| !query.text.is_empty())
}

/// The figures of one slice.
struct Sliced {
    by: &'static str,
    name: &'static str,
    queries: usize,
    map: Option<f64>,
    recall: Option<f64>,
}

fn sliced(judgement: &Judgement) -> Vec<Sliced> {
    let slices = SLICES.iter().map(|slice| {
        let queries: Vec<&ScoredQuery> = judgement
            .scores
            .queries
            .iter()
            .filter(|query| slice.has(&query.text))
            .collect();
        let mean = |value: fn(&ScoredQuery) -> f64| {
            let sum: f64 = queries.iter().map(|query| value(query)).sum();
            (!queries.is_empty()).then(|| sum / queries.len() as f64)
        };
        Sliced {
            by: slice.by,
            name: slice.name,
            queries: queries.len(),
            map: mean(|query| query.found.average_precision),
            recall: mean(|query| query.found.recall[2]),
        }
    });
    slices.collect()
}

pub(super) fn as_json(args: &Args, evaluation: &Evaluation) -> Value {
    let judgements = evaluation.judgements.iter().map(|judgement| {
        let graded = judgement.graded.as_ref();
        let mut value = json!({
            "direction": judgement.scores.kind.direction.name(), "by": judgement.scores.kind.relevance, "cut": judgement.report.cut,
            "queries": judgement.scores.queries.len(), "left_out": judgement.left_out,
            "mean": means(&judgement.report.mean, graded.map(|graded| graded.mean)),
            "chance": means(&judgement.report.chance, graded.map(|graded| graded.chance)),
            // JSON has no infinity: of a run that found nothing for half of the queries there is no median.
            "median_rank": Some(judgement.report.median_rank).filter(|rank| rank.is_finite()),
        });
        if has_words(judgement) {
            let slices = sliced(judgement).into_iter().map(|slice| {
                json!({"by": slice.by, "name": slice.name, "queries": slice.queries, "map": slice.map, "recall_10": slice.recall})
            });
            value["slices"] = slices.collect();
        }
        value
    });
    json!({
        "format": "hark evaluation 1", "of": evaluation.title, "clips": evaluation.clips, "captions": evaluation.captions,
        "ties": if args.ties == TieOrder::Hash { "hash" } else { "trec" }, "model": args.model, "data": args.data, "split": args.split,
        "judgements": judgements.collect::<Vec<_>>(),
    })
}

fn means(means: &MeanMetrics, ndcg: Option<f64>) -> Value {
    let mut value = json!({"map": means.average_precision, "mrr": means.reciprocal_rank, "ndcg": ndcg});
    for (nth, cut) in RECALL_CUTS.iter().enumerate() {
        value[format!("recall_{cut}")] = means.recall[nth].into();
        value[format!("hit_{cut}")] = means.hit[nth].into();
    }
    value
}
