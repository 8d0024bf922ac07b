//! What a study found: methods, their runs, and the tests between them. Everything that a report shows is
//! made from this.

pub use hark_evaluate::{Comparison, DirectionMetrics, Test};

/// An epoch of a training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// From 1.
    pub epoch: u64,
    /// Mean loss of its batches.
    pub loss: f64,
    /// Loss on the validation split.
    pub validation_loss: f64,
    /// mAP@10, text to audio, on the validation split.
    pub map: f64,
}

/// One training and its evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct RunFigures {
    /// The seed of the soundscapes, where the data are made; all runs of a real data set have none.
    pub corpus: Option<u64>,
    /// The seed of the training.
    pub seed: u64,
    /// The epoch that was kept, from 1.
    pub best_epoch: u64,
    /// Text to audio.
    pub text_to_audio: DirectionMetrics,
    /// Audio to text.
    pub audio_to_text: DirectionMetrics,
    /// nDCG@10, text to audio, against graded truth, where there is one.
    pub ndcg: Option<f64>,
    /// What chance reaches of it: other scenes, another chance.
    pub ndcg_chance: Option<f64>,
    /// Every epoch.
    pub curve: Vec<Point>,
}

/// One method, or one variant of it, with its runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Method {
    /// As in the recipe and in folders: `listnet-audio`.
    pub name: String,
    /// As in tables: `ListNet audio`.
    pub title: String,
    /// In the order of corpora, then of seeds.
    pub runs: Vec<RunFigures>,
}

/// Which of the paper's tables a study repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// Of which data set.
    pub data: PublishedData,
    /// Whether the models were pretrained (Table III) or not (Table II).
    pub pretrained: bool,
}

/// The data sets of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishedData {
    /// Clotho v2.
    Clotho,
    /// AudioCaps.
    AudioCaps,
}

/// A whole study.
#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    /// The recipe's name.
    pub name: String,
    /// The data set as tables name it: `Clotho`, `soundscape-full`.
    pub data: String,
    /// The paper's table with figures of the same data, if there is one.
    pub published: Option<Published>,
    /// Whether only text to audio is shown, as in the paper's Table III.
    pub one_direction: bool,
    /// In the order of the table.
    pub methods: Vec<Method>,
    /// What chance reaches: text to audio, audio to text, nDCG@10.
    pub chance: (DirectionMetrics, DirectionMetrics, Option<f64>),
    /// What a reader must know before the figures, in sentences.
    pub remarks: Vec<String>,
    /// The tests.
    pub comparisons: Vec<Comparison>,
    /// Versions and hashes of program, data and weights: what, and its value.
    pub provenance: Vec<(String, String)>,
    /// The recipe, resolved, as TOML.
    pub recipe: String,
}
