//! What came out of a training, for people: `report.md`.

use hark_metrics::Report;

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
