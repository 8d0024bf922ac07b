//! The files by which a study is read: tables, tests, plots and pages, in its folder.

use std::path::Path;

use hark_evaluate::{Direction, DirectionMetrics};
use hark_work::files;

use crate::{Error, Study, comparisons, page, plots, tables};

/// The page that holds everything.
pub const PAGE: &str = "report.html";

/// Writes all files of the report, each complete or not at all.
///
/// # Errors
/// [`Error::Io`]; [`Error::Plot`].
pub fn write(folder: &Path, study: &Study) -> Result<(), Error> {
    let contents = [
        ("table.md", tables::markdown(study)),
        ("table.tex", tables::latex(study)),
        ("table.csv", tables::csv(study)),
        ("runs.csv", tables::runs_csv(study)),
        ("tests.md", comparisons::tests_markdown(study)),
        ("curves.svg", plots::curves(study)?),
        (
            "text-to-audio.svg",
            plots::methods(study, Direction::TextToAudio)?,
        ),
        (
            "audio-to-text.svg",
            plots::methods(study, Direction::AudioToText)?,
        ),
        ("report.md", page::markdown_report(study)),
        (PAGE, page::html(study)?),
    ];
    for (name, content) in contents {
        files::write(&folder.join(name), content.as_bytes())?;
    }
    Ok(())
}

/// A study for programs: figures of every run, comparisons, and where everything comes from.
pub fn json(folder: &Path, study: &Study) -> serde_json::Value {
    use serde_json::json;
    let figures = |figures: &DirectionMetrics| json!({"map_10": figures.map, "recall_1": figures.recall[0], "recall_5": figures.recall[1], "recall_10": figures.recall[2]});
    let methods = study.methods.iter().map(|method| {
        let runs = method.runs.iter().map(|run| {
            json!({
                "corpus": run.corpus, "seed": run.seed, "best_epoch": run.best_epoch, "ndcg_10": run.ndcg,
                "text_to_audio": figures(&run.text_to_audio), "audio_to_text": figures(&run.audio_to_text),
            })
        });
        json!({"method": method.name, "title": method.title, "runs": runs.collect::<Vec<_>>()})
    });
    let comparisons = study.comparisons.iter().map(|comparison| {
        json!({
            "first": comparison.first, "second": comparison.second, "direction": comparison.direction,
            "metric": comparison.metric, "tests": comparison.tests,
        })
    });
    json!({
        "folder": folder, "report": folder.join(PAGE), "data": study.data,
        "methods": methods.collect::<Vec<_>>(), "comparisons": comparisons.collect::<Vec<_>>(),
        "provenance": study.provenance.iter().map(|(what, value)| json!({"what": what, "value": value})).collect::<Vec<_>>(),
    })
}
