//! The files by which a study is read: tables, tests, plots and pages, in its folder.

use std::path::Path;

use hark_evaluate::Direction;
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
