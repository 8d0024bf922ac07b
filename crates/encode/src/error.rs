//! The one error type of this crate.

use hark_work::progress::counted;
use std::path::PathBuf;

use crate::breakdown::Breakdown;

/// Why a model cannot be read, run or imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be opened, read or written; the source names the path.
    #[error(transparent)]
    Io(#[from] std::io::Error),

    /// A device of a kind that the program was built without.
    #[error(
        "this program was built without support for {device}; build it with: cargo build --release --features {feature}. Devices here: {there}"
    )]
    DeviceNotBuilt {
        /// The device.
        device: String,
        /// The cargo feature that it takes.
        feature: &'static str,
        /// The devices that are there.
        there: String,
    },

    /// A device that the machine does not have.
    #[error("there is no device {device}; devices here: {there}")]
    DeviceAbsent {
        /// The device.
        device: String,
        /// The devices that are there.
        there: String,
    },

    /// A device, or the library that drives it, broke down.
    #[error("{device} {breakdown}: {what}")]
    DeviceBroke {
        /// The device.
        device: String,
        /// How, as far as its library tells.
        breakdown: Breakdown,
        /// What its library says.
        what: String,
    },

    /// A file that is no table of a matrix of embeddings.
    #[error("{}: not a table of embeddings: {what}", path.display())]
    EmbeddingTable {
        /// The table.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },

    /// A matrix that another model, or the same with another length of clips, has begun.
    #[error("{} was made with another model or another clip length ({there}; now {now})", path.display())]
    OtherEmbeddings {
        /// The matrix.
        path: PathBuf,
        /// The model that made it.
        there: String,
        /// The model that would go on with it.
        now: String,
    },

    /// A file of a model folder is missing.
    #[error("cannot find {path}: a model folder needs it")]
    MissingFile {
        /// The file that was looked for.
        path: PathBuf,
    },

    /// A JSON file does not say what it must.
    #[error("{path}: {source}")]
    Json {
        /// The file.
        path: PathBuf,
        /// What the parser says, with line and column.
        source: serde_json::Error,
    },

    /// The model is well formed, and of a kind that hark does not run.
    #[error("{path}: {what} is not supported (supported: {supported})")]
    Unsupported {
        /// The file that says so.
        path: PathBuf,
        /// What is not supported, by name.
        what: String,
        /// What is.
        supported: &'static str,
    },

    /// A configuration holds a value that no model can have.
    #[error("{path}: {what}")]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },

    /// A weights file is damaged, or not a safetensors file at all.
    #[error("{path}: truncated or damaged safetensors file: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },

    /// A file of PyTorch cannot be read.
    #[error(transparent)]
    Torch(#[from] hark_torchfile::Error),

    /// A checkpoint of another program does not have the tensors of the network that it seems to be.
    #[error("{path}: {}", faults(missing, misshapen, unexpected))]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// Tensors that the network needs and the file does not have.
        missing: Vec<String>,
        /// Tensors of another shape, with both shapes.
        misshapen: Vec<String>,
        /// Tensors that the network does not use.
        unexpected: Vec<String>,
    },

    /// A checkpoint with a text tower needs a tokenizer, which it does not hold.
    #[error(
        "{path}: a text tower needs a tokenizer, which this file does not hold; give the folder that has tokenizer.json, or vocab.json and merges.txt (for roberta-large: the files of that name of its published folder)"
    )]
    NoTokenizer {
        /// The checkpoint.
        path: PathBuf,
    },

    /// The model needs a tensor that the file does not have.
    #[error("{path}: tensor `{name}` is missing; the file has {nearest}")]
    MissingTensor {
        /// The file.
        path: PathBuf,
        /// The tensor's name.
        name: String,
        /// The name in the file that is most like it.
        nearest: String,
    },

    /// A tensor's shape is not the one that the configuration asks for.
    #[error("{path}: tensor `{name}` has shape {got:?}, expected {expected:?}")]
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor's name.
        name: String,
        /// As the configuration says.
        expected: Vec<usize>,
        /// What the file has.
        got: Vec<usize>,
    },

    /// Tensors that no part of the model uses: the file is of another architecture than its configuration says.
    #[error("{path}: {} that the model does not use: {}", counted(names.len(), "tensor"), name_list(names))]
    UnexpectedTensors {
        /// The file.
        path: PathBuf,
        /// Their names.
        names: Vec<String>,
    },

    /// A network of these sizes cannot be built.
    #[error("{tower}: {what}")]
    Sizes {
        /// Which network.
        tower: &'static str,
        /// What is wrong with it.
        what: String,
    },

    /// An input does not fit the network.
    #[error("{what} of shape {got:?}, the network takes at most {expected:?}")]
    InputShape {
        /// What the input is.
        what: &'static str,
        /// The shape that fits.
        expected: Vec<usize>,
        /// The shape that was given.
        got: Vec<usize>,
    },
    /// A list of class names is not usable.
    #[error("{}: {what}", path.display())]
    Labels {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A model whose audio tower has no classes was given as a tagger.
    #[error("{} is no tagger: its audio tower has no classes (an MN of hark models pull has them)", path.display())]
    NoClasses {
        /// The model.
        path: PathBuf,
    },
    /// A tagger has another number of classes than there are names.
    #[error("{} has {classes} classes, and there are {labels} names", path.display())]
    ClassCount {
        /// The model.
        path: PathBuf,
        /// Its classes.
        classes: usize,
        /// The names.
        labels: usize,
    },

    /// A recording cannot be read.
    #[error(transparent)]
    Audio(#[from] hark_audio::Error),

    /// A log-mel cannot be computed.
    #[error(transparent)]
    Mel(#[from] hark_audio::MelError),

    /// The model lacks the tower that is needed.
    #[error("{path}: this model has no {what} tower")]
    NoTower {
        /// The model.
        path: PathBuf,
        /// `audio` or `text`.
        what: &'static str,
    },

    /// The tokenizer file cannot be used.
    #[error("{path}: {what}")]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// What the tokenizer library says.
        what: String,
    },

    /// The tokenizer makes ids that the model has no vector for.
    #[error(
        "{path}: the tokenizer has ids up to {largest}, the model has vectors for {rows} tokens: they do not belong together"
    )]
    TokenizerMismatch {
        /// The tokenizer file.
        path: PathBuf,
        /// The largest id.
        largest: u32,
        /// Rows of the embedding table.
        rows: usize,
    },

    /// The model gave an embedding that cannot be normalised: zero, infinite or NaN.
    #[error("the model gives a zero or non-finite embedding for {of:?}: its weights may be damaged")]
    NoDirection {
        /// The caption, cut to its first words, or the recording.
        of: String,
    },

    /// The embedding cache is of another version or for another model.
    #[error("{path}: {what}; delete the file and run again")]
    Cache {
        /// The cache file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },

    /// Rows that no embedding can have: not finite, or of impossible length.
    #[error("the model gives unusable embeddings: {0}")]
    Embeddings(#[from] hark_nearest::Error),

    /// The caller's progress callback asked to stop.
    #[error("cancelled")]
    Cancelled,

    /// The thread pool could not be made.
    #[error("cannot start worker threads: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

impl From<hark_work::progress::Cancelled> for Error {
    fn from(_: hark_work::progress::Cancelled) -> Self {
        Self::Cancelled
    }
}

fn faults(missing: &[String], misshapen: &[String], unexpected: &[String]) -> String {
    let parts = [
        (missing, "missing"),
        (misshapen, "of another shape"),
        (unexpected, "that no part of the model uses"),
    ];
    let told = parts
        .into_iter()
        .filter(|(names, _)| !names.is_empty())
        .map(|(names, what)| {
            let one = if names.len() == 1 { "tensor" } else { "tensors" };
            format!("{} {one} {what}: {}", names.len(), all(names))
        });
    told.collect::<Vec<_>>().join("; ")
}

/// Every name: a list that leaves some out cannot be acted on.
fn all(names: &[String]) -> String {
    names
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The first few names, and how many more there are.
pub fn name_list(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let mut text = names
        .iter()
        .take(SHOWN)
        .map(|n| format!("`{n}`"))
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    text
}
