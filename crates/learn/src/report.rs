//! What came out of a training, for people: `report.md`.

use hark_metrics::{MeanMetrics, Report};

use crate::recipe::Recipe;
use crate::run::Best;
use crate::trainer::SplitResult;

/// The report of one run.
pub fn markdown(recipe: &Recipe, best: &Best, test: Option<&SplitResult>) -> String {
    let mut text = format!(
        "# {}\n\nObjective `{}`, seed {}. Best epoch: {} of {} (validation loss {:.4}, mAP@10 text to audio {:.4}).\n",
        recipe.name,
        recipe.objective.name,
        recipe.seed,
        best.epoch + 1,
        recipe.training.epochs,
        best.loss,
        best.map,
    );
    if let Some(test) = test {
        text.push_str(&format!(
            "\n{} clips and {} captions of the test split, in percent:\n\n{}",
            test.data.clips.len(),
            test.data.pairs.len(),
            table(&[
                ("text to audio", &test.retrieval.text_to_audio),
                ("audio to text", &test.retrieval.audio_to_text),
            ]),
        ));
    }
    text
}

/// Rows of metrics with chance beside them.
fn table(rows: &[(&str, &Report)]) -> String {
    let mut text = String::from(
        "| direction | mAP@10 | R@1 | R@5 | R@10 | chance mAP@10 |\n|---|---|---|---|---|---|\n",
    );
    for (name, report) in rows {
        let mean = &report.mean;
        text.push_str(&format!(
            "| {name} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} |\n",
            100.0 * mean.average_precision,
            100.0 * mean.recall[0],
            100.0 * mean.recall[1],
            100.0 * mean.recall[2],
            100.0 * report.chance.average_precision,
        ));
    }
    text
}

/// Means as JSON.
pub fn json(means: &MeanMetrics) -> serde_json::Value {
    serde_json::json!({
        "map_10": means.average_precision,
        "recall_1": means.recall[0], "recall_5": means.recall[1], "recall_10": means.recall[2],
        "hit_1": means.hit[0], "hit_5": means.hit[1], "hit_10": means.hit[2],
        "mrr": means.reciprocal_rank,
    })
}
