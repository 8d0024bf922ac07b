//! The one error type of this crate.

use hark_work::progress::counted;
use std::path::PathBuf;

use hark_encode::{Breakdown, DeviceName};

use crate::advice::advice;

/// What can go wrong while learning.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be opened, read or written; the source names the path.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The teacher, or the encoder that was made, cannot be used.
    #[error(transparent)]
    Encode(#[from] hark_encode::Error),
    /// Vectors do not fit what is done with them.
    #[error(transparent)]
    Nearest(#[from] hark_nearest::Error),
    /// A split cannot be evaluated.
    #[error(transparent)]
    Evaluate(hark_evaluate::Error),
    /// Soundscapes cannot be made.
    #[error(transparent)]
    Soundscape(#[from] hark_soundscape::Error),
    /// Relevances cannot be computed.
    #[error(transparent)]
    Relevance(#[from] hark_relevance::Error),
    /// A data set cannot be read.
    #[error(transparent)]
    Corpus(#[from] hark_corpus::Error),
    /// Too few different captions for a batch.
    #[error("only {got} different captions for a batch of {needed}")]
    TooFew {
        /// How many there are.
        got: usize,
        /// How many are needed.
        needed: usize,
    },
    /// A folder with the name of a rehearsal's, and something else in it.
    #[error("{} exists and was not created by a rehearsal; rename or move it", path.display())]
    NotARehearsal {
        /// The folder.
        path: PathBuf,
    },
    /// A training set is smaller than a batch.
    #[error(
        "{got} {what} to learn from, fewer than the {needed} that one step takes; lower training.batch or add data"
    )]
    SmallSet {
        /// Pairs or clips.
        what: &'static str,
        /// How many there are.
        got: usize,
        /// How many are needed.
        needed: u64,
    },
    /// A recipe names no data for something that needs it.
    #[error("the recipe has no datasets in data.{split}; add some, or a [soundscapes] section")]
    NoData {
        /// Which of the splits.
        split: &'static str,
    },
    /// A model that is no run's, and no dataset to evaluate it on.
    #[error("{} is not part of a run, so no dataset is known for it", model.display())]
    NoDataNamed {
        /// The model's folder.
        model: PathBuf,
    },
    /// A recording is missing or broken, and the recipe is strict.
    #[error(
        "data.{split} lacks {}, missing or broken, and data.strict is set; the first: {first}",
        counted(*count, "recording")
    )]
    Strict {
        /// Which of the splits.
        split: &'static str,
        /// How many.
        count: usize,
        /// One of them.
        first: String,
    },
    /// No batch of an epoch had two clips that could be read.
    #[error(
        "epoch {epoch}: no batch has two clips that can be read; hark data check --decode names what is wrong with them"
    )]
    NothingRead {
        /// From 1.
        epoch: u64,
    },
    /// A recording holds no sound.
    #[error("the recording is empty")]
    EmptyClip,
    /// An option has a value that cannot be.
    #[error("{option} is {value}; it must be {allowed}")]
    Option {
        /// Its name.
        option: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        allowed: String,
    },
    /// A recipe does not say what it must.
    #[error("{}: {what}", path.display())]
    Recipe {
        /// The recipe.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Keys of a recipe that have another name now.
    #[error("{}: {}; rename {}", path.display(), renamed(keys), if keys.len() == 1 { "it" } else { "them" })]
    RenamedKeys {
        /// The recipe.
        path: PathBuf,
        /// The old keys, and the new names of their last parts.
        keys: Vec<(&'static str, &'static str)>,
    },
    /// A key that the other objectives have no use for.
    #[error("{option} applies only to `smooth`; remove it")]
    OnlyForSmooth {
        /// The key.
        option: &'static str,
    },
    /// A file of a run does not hold what it must.
    #[error("{}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A folder holds a training already.
    #[error("{} already holds a training; continue it with --resume, or choose another folder with --run", path.display())]
    RunExists {
        /// The folder.
        path: PathBuf,
    },
    /// Another process trains in the folder.
    #[error("another process is training in {}; wait until it is done", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// There is no training to go on with.
    #[error("{} holds no training to resume", path.display())]
    NoRun {
        /// The folder.
        path: PathBuf,
    },
    /// The recipe is not the one that the run began with.
    #[error("{}: the run began with another recipe: {}; resume with the same one, or begin a new run", path.display(), differences.join("; "))]
    OtherRecipe {
        /// The run's recipe.
        path: PathBuf,
        /// Keys that differ, with both values.
        differences: Vec<String>,
    },
    /// The data is not what the run began with.
    #[error("{}: the training data has changed since the run began (other pairs, or another order); restore it, or begin a new run", path.display())]
    OtherData {
        /// The checkpoint.
        path: PathBuf,
    },
    /// A checkpoint belongs to another network.
    #[error("{}: the checkpoint does not fit the recipe's network: {cause}", path.display())]
    OtherNetwork {
        /// The checkpoint.
        path: PathBuf,
        /// What does not fit.
        cause: Box<hark_encode::Error>,
    },
    /// A model that a recipe names cannot be found.
    #[error("{what}")]
    Model {
        /// What the finder says, with the name.
        what: String,
    },
    /// A network has only one side.
    #[error("the network has only one side; learning needs audio and text")]
    NoSide,
    /// Graded targets were asked for without the teacher's vectors.
    #[error("graded targets need the sentence encoder's embeddings")]
    NoTeacher,
    /// A text side has no tokenizer.
    #[error(
        "the text side has no tokenizer: set text.train-tokenizer, or text.weights to a model that has one"
    )]
    NoTokenizer,
    /// The loss became infinite or not a number.
    #[error("the loss is {loss} in epoch {epoch}; lower the learning rate")]
    Diverged {
        /// The pass over the captions.
        epoch: usize,
        /// The loss.
        loss: f32,
    },
    /// The loss of a training became infinite or not a number.
    #[error("batch {batch}: the loss or its gradients are not finite (loss {loss}). The batch is saved in {}; the last checkpoint is older and intact. Lower training.schedule.lr or training.max-grad-norm", saved.display())]
    NotFinite {
        /// The batch's number.
        batch: u64,
        /// Its loss.
        loss: f32,
        /// Where the batch is.
        saved: PathBuf,
    },
    /// A device gave other numbers than the CPU.
    #[error(
        "{device} gives wrong results: {what} differs from the CPU by {difference:.1e} (tolerance {allowed:.0e}). Details: hark devices check {device}. Train anyway: --unchecked"
    )]
    DeviceFailed {
        /// The device.
        device: DeviceName,
        /// What was compared.
        what: String,
        /// How far it is from the CPU.
        difference: f64,
        /// How far it may be.
        allowed: f64,
    },
    /// A device, or the library that drives it, broke down.
    #[error("{device} {breakdown}: {what}{}", advice(*device, *breakdown, *saved))]
    DeviceBroke {
        /// The device.
        device: DeviceName,
        /// How, as far as its library tells.
        breakdown: Breakdown,
        /// What its library says.
        what: String,
        /// Batches of the last checkpoint, 0 without one; `None` if it was no training.
        saved: Option<u64>,
    },
    /// The caller's callback asked to stop.
    #[error("cancelled")]
    Cancelled,
}

fn renamed(keys: &[(&str, &str)]) -> String {
    let keys = keys.iter().map(|(old, new)| {
        let section = old.rsplit_once('.').map_or("", |(section, _)| section);
        format!("`{old}` is now `{section}.{new}`")
    });
    keys.collect::<Vec<_>>().join("; ")
}

impl From<hark_evaluate::Error> for Error {
    fn from(error: hark_evaluate::Error) -> Self {
        match error {
            hark_evaluate::Error::Cancelled => Self::Cancelled,
            hark_evaluate::Error::Encode(error) => Self::Encode(error),
            other => Self::Evaluate(other),
        }
    }
}

impl From<hark_work::progress::Cancelled> for Error {
    fn from(_: hark_work::progress::Cancelled) -> Self {
        Self::Cancelled
    }
}
