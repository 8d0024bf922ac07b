//! Which epoch each method's runs kept, and what the validation split says of it beside the last one.
//!
//! Where the loss chooses the epoch, objectives differ in more than what they teach: one whose validation loss turns up early is
//! judged by an earlier epoch. In: a study. Out: one row for each method, means over its runs that have a curve.

use super::escape;
use super::results::{Method, RunFigures, Study};
use super::tables::fixed;

/// What the columns of [`rows`] hold.
pub const HEADER: [&str; 4] = [
    "Method",
    "Epoch kept",
    "Validation mAP@10 at it",
    "At the last epoch",
];

/// What the table is.
pub const CAPTION: &str = "The epoch that was kept, and mAP@10, text to audio, in percent on the validation split, there and at the last \
epoch: means over runs.";

/// A row for each method that has curves.
pub fn rows(study: &Study) -> Vec<[String; HEADER.len()]> {
    study.methods.iter().filter_map(row).collect()
}

fn row(method: &Method) -> Option<[String; HEADER.len()]> {
    let runs: Vec<[f64; 3]> = method.runs.iter().filter_map(of_run).collect();
    if runs.is_empty() {
        return None;
    }
    let mean = |at: usize| runs.iter().map(|run| run[at]).sum::<f64>() / runs.len() as f64;
    Some([
        method.title.clone(),
        fixed(mean(0), 1),
        fixed(100.0 * mean(1), 1),
        fixed(100.0 * mean(2), 1),
    ])
}

/// The epoch that was kept, and mAP@10 at it and at the last.
fn of_run(run: &RunFigures) -> Option<[f64; 3]> {
    let kept = run.curve.iter().find(|point| point.epoch == run.best_epoch)?;
    let last = run.curve.last()?;
    Some([run.best_epoch as f64, kept.map, last.map])
}

/// The table in Markdown; nothing where no run has a curve.
pub fn markdown(study: &Study) -> String {
    let rows = rows(study);
    if rows.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "{CAPTION}\n\n| {} |\n|---|{}\n",
        HEADER.join(" | "),
        "--:|".repeat(HEADER.len() - 1)
    );
    for row in rows {
        out += &format!("| {} |\n", row.map(|cell| escape::markdown(&cell)).join(" | "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::examples::{empty, method, run};
    use super::super::results::Point;
    use super::*;

    #[test]
    fn epochs_and_figures_are_averaged_over_runs() {
        let point = |epoch, map| Point {
            epoch,
            loss: 1.0,
            validation_loss: 1.0,
            map,
        };
        let with = |best_epoch, maps: [f64; 3]| {
            let mut run = run(None, 1, 0.2);
            run.best_epoch = best_epoch;
            run.curve = (1..).zip(maps).map(|(epoch, map)| point(epoch, map)).collect();
            run
        };
        let mut study = empty();
        study.methods = vec![
            method(
                "infonce",
                vec![with(1, [0.1, 0.2, 0.3]), with(2, [0.1, 0.2, 0.5])],
            ),
            method("smooth", vec![run(None, 1, 0.2)]),
        ];
        study.methods[1].runs[0].curve.clear();
        let rows = rows(&study);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0][1..], ["1.5", "15.0", "40.0"]);
        assert!(markdown(&study).contains("| 1.5 | 15.0 | 40.0 |"));
        assert_eq!(markdown(&empty()), "");
    }
}
