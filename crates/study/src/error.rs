//! The one error type of this crate.

use hark_work::progress::counted;
use std::error::Error as StdError;
use std::path::PathBuf;

/// Why a study could not be planned, run or reported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be opened, read or written; the source names the path.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A recipe is wrong, or a training failed.
    #[error(transparent)]
    Learn(#[from] hark_learn::Error),
    /// A model that a recipe names cannot be found.
    #[error(transparent)]
    Models(#[from] hark_models::Error),
    /// A model that a recipe names cannot be read.
    #[error(transparent)]
    Encode(#[from] hark_encode::Error),
    /// The library of the demo cannot be made or searched.
    #[error(transparent)]
    Library(#[from] hark_library::Error),
    /// A test split could not be scored, or two methods not compared.
    #[error(transparent)]
    Evaluate(#[from] hark_evaluate::Error),
    /// A test set cannot be read.
    #[error(transparent)]
    Corpus(#[from] hark_corpus::Error),
    /// Soundscapes cannot be generated.
    #[error(transparent)]
    Soundscape(#[from] hark_soundscape::Error),
    /// A key of the recipe was set that the study itself varies.
    #[error("{key} is varied by the study; use --methods, --seeds and --corpora")]
    VariedKey {
        /// Such as `seed`.
        key: &'static str,
    },
    /// Several corpora were asked of a recipe that cannot have them.
    #[error("{}: --corpora needs a recipe whose data are all soundscapes", recipe.display())]
    Corpora {
        /// The recipe's file.
        recipe: PathBuf,
    },
    /// Relevance functions and omegas were asked for together.
    #[error("--functions and --omega are two studies; run them one after the other")]
    TwoStudies,
    /// A study of graded targets names an objective without them.
    #[error("{method} has no graded targets; --functions and --omega do not apply to it")]
    NotGraded {
        /// The objective.
        method: String,
    },
    /// A row of the table was asked for twice.
    #[error("{name} is named twice")]
    Twice {
        /// The variant.
        name: String,
    },
    /// The baseline is no method of the study.
    #[error("--baseline {name}: the study has no such method; it has {}", known.join(", "))]
    UnknownBaseline {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// Test recordings are missing.
    #[error(
        "{set} lacks {missing} of {}, and the recipe allows {allowed} (data.max-missing-test): figures over fewer clips are not comparable. Run hark data check for details, or continue without them with --allow-missing",
        counted(*expected, "recording")
    )]
    MissingRecordings {
        /// How many.
        missing: usize,
        /// Recordings that the set lists.
        expected: usize,
        /// The set's name.
        set: String,
        /// How many the recipe allows.
        allowed: usize,
    },
    /// The folder holds a study of another recipe.
    #[error(
        "{} is a study of another recipe (its {file} differs from {recipe} with these changes); choose another --folder",
        folder.display()
    )]
    OtherRecipe {
        /// The study's folder.
        folder: PathBuf,
        /// The file that differs.
        file: &'static str,
        /// The recipe's name.
        recipe: String,
    },
    /// The demo's recipe must generate its data.
    #[error("the demo needs a recipe with a [soundscapes] section")]
    NoSoundscapes,
    /// Two methods cannot be tested against each other.
    #[error(transparent)]
    Metrics(#[from] hark_metrics::Error),
    /// The recipe has no test split.
    #[error("a study needs a test split; add data.test to the recipe")]
    NoTestSplit,
    /// A training left no checkpoint.
    #[error("{}: the run has no checkpoint", run.display())]
    NoCheckpoint {
        /// The run.
        run: PathBuf,
    },
    /// A run is not finished.
    #[error("{}: the run has no result; run the study again to finish it", run.display())]
    NoResult {
        /// The run.
        run: PathBuf,
    },
    /// A result file cannot be read.
    #[error("{}: not the result of a training of a study", path.display())]
    Result {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A result file has another format.
    #[error("{}: format {found:?} is not supported; this version reads {expected:?}", path.display())]
    ResultFormat {
        /// The file.
        path: PathBuf,
        /// What it says.
        found: String,
        /// What is read.
        expected: &'static str,
    },
    /// Two runs of one table were made from different data or models.
    #[error(
        "{} and {} were not trained with the same {what}; remove the older one and run the study again",
        first.display(),
        second.display()
    )]
    Mixed {
        /// One run.
        first: PathBuf,
        /// The other.
        second: PathBuf,
        /// `data` or `models`.
        what: &'static str,
    },
    /// A training failed.
    #[error("{}", run.display())]
    Run {
        /// Its run.
        run: PathBuf,
        /// Why.
        source: Box<Error>,
    },
    /// A thread of the study panicked.
    #[error("a training panicked")]
    Panicked,
    /// The plotting library gave up.
    #[error("cannot draw {plot}")]
    Plot {
        /// Which plot.
        plot: &'static str,
        /// What the library says.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The caller cancelled the work.
    #[error("cancelled")]
    Cancelled,
}
