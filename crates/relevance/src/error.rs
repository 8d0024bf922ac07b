//! Everything that this crate refuses, with the numbers that explain why.

use hark_work::progress::counted;
use std::io;
use std::path::{Path, PathBuf};

/// Why a relevance, a fit or a statistic could not be computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The vectors were refused.
    #[error(transparent)]
    Nearest(hark_nearest::Error),
    /// The caller's progress callback cancelled the work.
    #[error("cancelled")]
    Cancelled,
    /// A table's file has none of the extensions that tables are written with.
    #[error("cannot write {}: the extension must be .npy, .safetensors or .npz", path.display())]
    UnknownExtension {
        /// The file.
        path: PathBuf,
    },
    /// A table that would take too much room on disk.
    #[error(
        "{captions} captions make a dense table of {:.1} GB; above {limit}, write .npz, which keeps the nearest captions alone",
        (*captions as f64).powi(2) * 4e-9
    )]
    TooManyForDense {
        /// Captions given.
        captions: usize,
        /// The most for a dense file.
        limit: usize,
    },
    /// A file cannot be written.
    #[error("{reason}")]
    NotWritten {
        /// What the system said, with the file's path.
        reason: String,
    },
    /// Two slices that describe the same things differ in length.
    #[error("{got} {what} where {expected} were expected")]
    LengthMismatch {
        /// What was counted.
        what: &'static str,
        /// How many there should be.
        expected: usize,
        /// How many there are.
        got: usize,
    },
    /// A number is NaN or infinite.
    #[error("{what} {position} is {value}, not a finite number")]
    NotFinite {
        /// What the number is.
        what: &'static str,
        /// Its position in the input.
        position: usize,
        /// The number.
        value: f64,
    },
    /// A number lies outside its range.
    #[error("{what} {position} is {value}, outside {low} to {high}")]
    OutOfRange {
        /// What the number is.
        what: &'static str,
        /// Its position in the input.
        position: usize,
        /// The number.
        value: f64,
        /// The least that is accepted.
        low: f64,
        /// The most that is accepted.
        high: f64,
    },
    /// A vector of zeros has no direction.
    #[error("a vector of zeros has no cosine with any other")]
    ZeroVector,
    /// No relevance function, aggregate or bound has this name.
    #[error("no {what} is called `{name}`{}; there are: {known}", did_you_mean(*.nearest))]
    UnknownName {
        /// What was to be named.
        what: &'static str,
        /// The name given.
        name: String,
        /// The known name that is nearest, if any is near.
        nearest: Option<&'static str>,
        /// All names, separated by commas.
        known: String,
    },
    /// The function exists, the parameter does not.
    #[error("`{owner}` has no parameter `{parameter}`{}; {known}", did_you_mean(*.nearest))]
    UnknownParameter {
        /// What the parameter was given to.
        owner: &'static str,
        /// The parameter given.
        parameter: String,
        /// The known parameter that is nearest, if any is near.
        nearest: Option<&'static str>,
        /// A sentence that lists the parameters.
        known: String,
    },
    /// A parameter was given twice, or without a value, or beside one that excludes it.
    #[error("`{text}`: {reason}")]
    Syntax {
        /// The text as given.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A parameter has a value that makes no function.
    #[error("`{owner}`: {parameter} is {value}, but {reason}")]
    BadParameter {
        /// The function, aggregate or bound.
        owner: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// Its value.
        value: f64,
        /// What it must be.
        reason: &'static str,
    },
    /// `minmax` was applied before its range was known.
    #[error("`minmax` needs its range: {reason}")]
    RangeUnknown {
        /// Where the range comes from.
        reason: &'static str,
    },
    /// `binary` where only similarities are known.
    #[error("`binary` depends on the clip, not on similarity; choose another function")]
    NeedsClips,
    /// No two different captions exist.
    #[error("no two different captions among {captions}: similarities have no range")]
    NoDifferentCaptions {
        /// Captions given.
        captions: usize,
    },
    /// A list has no relevant item at all, so it has no target.
    #[error("list {list} has no relevance above 0: no target can be made")]
    EmptyList {
        /// The list.
        list: usize,
    },
    /// A batch cannot be drawn.
    #[error("cannot draw a batch of {batch} from {}", counted(*captions, "caption"))]
    BadBatch {
        /// Size of the batch.
        batch: usize,
        /// Captions to draw from.
        captions: usize,
    },
    /// Too few observations for what was asked.
    #[error("too few: {}, at least {needed} are needed", counted(*got, "observation"))]
    TooFew {
        /// The least number.
        needed: usize,
        /// How many there are.
        got: usize,
    },
    /// A variable that never changes explains nothing.
    #[error("every {what} is {value}: it explains nothing")]
    Constant {
        /// The variable.
        what: &'static str,
        /// Its one value.
        value: f64,
    },
    /// The ratings follow the similarities without any spread, so the precision has no finite estimate.
    #[error("the ratings follow the similarities exactly: the precision has no finite estimate")]
    PerfectFit,
    /// The likelihood has no maximum that could be found.
    #[error("no maximum after {iterations} iterations: gradient norm {gradient_norm:e}")]
    NoConvergence {
        /// Iterations made.
        iterations: usize,
        /// Euclidean norm of the gradient at the end.
        gradient_norm: f64,
    },
}

impl Error {
    /// Names the file in an error of writing it.
    pub(crate) fn while_writing(self, path: &Path) -> Self {
        match self {
            Self::NotWritten { reason } => Self::NotWritten {
                reason: format!("cannot write {}: {reason}", path.display()),
            },
            other => other,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::NotWritten {
            reason: error.to_string(),
        }
    }
}

impl From<hark_nearest::Error> for Error {
    fn from(error: hark_nearest::Error) -> Self {
        match error {
            hark_nearest::Error::Cancelled { .. } => Self::Cancelled,
            other => Self::Nearest(other),
        }
    }
}

impl From<hark_work::progress::Cancelled> for Error {
    fn from(_: hark_work::progress::Cancelled) -> Self {
        Self::Cancelled
    }
}

fn did_you_mean(nearest: Option<&'static str>) -> String {
    nearest
        .map(|name| format!(" (did you mean `{name}`?)"))
        .unwrap_or_default()
}
