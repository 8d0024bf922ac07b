//! Objectives: what a batch's scores should be, and how far they are from it.
//!
//! A batch is B pairs of a caption x_i and a clip y_i. In: scores S `[B, B]`, S\[i\]\[j\] = cosine(text_i, audio_j), which
//! clip each pair is of, and the teacher's vectors of the captions. Every row of the target P is a distribution
//! over the batch, and the loss is the mean cross-entropy of lists,
//!
//! ```text
//! lists over clips    (text to audio):  mean_i  -Σ_j P[i][j] log softmax_j(S[i][·] / τ)
//! lists over captions (audio to text):  mean_i  -Σ_j P[i][j] log softmax_j(S[·][i] / τ)
//! ```
//!
//! or the mean of both. An objective is thus a kind of target and a direction:
//!
//! | name | P | lists over |
//! |---|---|---|
//! | `infonce`, `infonce-audio`, `infonce-text` | pairs of the same clip share the mass equally | both, clips, captions |
//! | `listnet-both`, `listnet-audio`, `listnet-text` | from G = f(h), h the similarity of captions | both, clips, captions |
//! | `smooth` | as InfoNCE, but a mass ε lies evenly on the other clips | as the recipe says; clips |
//!
//! The loss is linear in P: a weighted sum of a binary and a graded loss is the loss of the weighted sum of their
//! targets, which is how `binary-weight` mixes them.

use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Tensor, TensorData};
use hark_nearest::Vectors;
use hark_relevance::function::Normalisation;
use hark_relevance::{RelevanceFunction, batch};
use serde::{Deserialize, Serialize};

use crate::Error;

/// The objectives by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectiveKind {
    /// Binary targets, both directions.
    Infonce,
    /// Binary targets, each caption a list over clips.
    InfonceAudio,
    /// Binary targets, each clip a list over captions.
    InfonceText,
    /// Graded targets, each caption a list over clips.
    ListnetAudio,
    /// Graded targets, each clip a list over captions.
    ListnetText,
    /// Graded targets, both directions.
    ListnetBoth,
    /// Binary targets with some mass spread evenly: the control that knows nothing of captions.
    Smooth,
}

impl ObjectiveKind {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 7] = [
        Self::Infonce,
        Self::ListnetAudio,
        Self::ListnetText,
        Self::ListnetBoth,
        Self::InfonceAudio,
        Self::InfonceText,
        Self::Smooth,
    ];
}

impl ObjectiveKind {
    /// As tables have it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Infonce => "InfoNCE",
            Self::InfonceAudio => "InfoNCE audio",
            Self::InfonceText => "InfoNCE text",
            Self::ListnetAudio => "ListNet audio",
            Self::ListnetText => "ListNet text",
            Self::ListnetBoth => "ListNet audio+text",
            Self::Smooth => "smoothing",
        }
    }

    /// Whether its targets are graded relevances.
    pub fn is_graded(self) -> bool {
        matches!(self, Self::ListnetAudio | Self::ListnetText | Self::ListnetBoth)
    }
}

impl std::str::FromStr for ObjectiveKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|name| name.to_string() == text);
        named.ok_or_else(|| {
            let all = Self::ALL.map(|name| name.to_string()).join(", ");
            format!("no objective is called {text:?}; there are {all}")
        })
    }
}

impl std::fmt::Display for ObjectiveKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Infonce => "infonce",
            Self::InfonceAudio => "infonce-audio",
            Self::InfonceText => "infonce-text",
            Self::ListnetAudio => "listnet-audio",
            Self::ListnetText => "listnet-text",
            Self::ListnetBoth => "listnet-both",
            Self::Smooth => "smooth",
        })
    }
}

/// What the lists are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Each caption is a list over clips.
    Audio,
    /// Each clip is a list over captions.
    Text,
    /// The mean of the two.
    Both,
}

/// Where P comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    /// The clip that a caption was written for.
    Binary,
    /// How relevant the other captions' clips are.
    Graded {
        /// Similarity to relevance.
        function: RelevanceFunction,
        /// The temperature of the softmax over relevances, where the function has one.
        omega: f32,
        /// The share of binary targets in the mixture, 0 to 1.
        binary_weight: f32,
    },
    /// Binary, with some of the mass elsewhere.
    Smooth {
        /// The share that other clips get.
        smoothing: f32,
    },
}

/// An objective, complete.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Objective {
    /// Where P comes from.
    pub target: Target,
    /// What the lists are of.
    pub direction: Direction,
    /// The temperature of the softmax over scores.
    pub tau: f32,
}

impl Objective {
    /// Whether the teacher's vectors are needed.
    pub fn is_graded(&self) -> bool {
        matches!(self.target, Target::Graded { .. })
    }

    /// P `[B, B]` for pairs of these clips. `captions` are the teacher's unit vectors, one for each pair; only graded targets
    /// look at them.
    ///
    /// # Errors
    /// If vectors are missing, or are no unit vectors.
    pub fn targets(&self, clips: &[u32], captions: Option<Vectors<'_>>) -> Result<Vec<f32>, Error> {
        let size = clips.len();
        let binary = || {
            let same = batch::same_clip(clips);
            // The temperature plays no part where rows are divided by their sums.
            batch::targets(Normalisation::RowSum, &same, size, 1.0)
        };
        match self.target {
            Target::Binary => Ok(binary()?),
            Target::Graded {
                function,
                omega,
                binary_weight,
            } => {
                let captions = captions.ok_or(Error::NoTeacher)?;
                let relevance = batch::relevance(&function, captions, clips)?;
                let graded = batch::targets(function.normalisation(), &relevance, size, omega)?;
                if binary_weight <= 0.0 {
                    return Ok(graded);
                }
                let mixed = binary()?.into_iter().zip(graded);
                Ok(mixed
                    .map(|(binary, graded)| binary_weight * binary + (1.0 - binary_weight) * graded)
                    .collect())
            }
            Target::Smooth { smoothing } => {
                let mut smooth = binary()?;
                for (list, &clip) in smooth.chunks_exact_mut(size.max(1)).zip(clips) {
                    let others = clips.iter().filter(|&&other| other != clip).count();
                    if others == 0 {
                        continue;
                    }
                    for (p, &other) in list.iter_mut().zip(clips) {
                        *p = if other == clip {
                            (1.0 - smoothing) * *p
                        } else {
                            smoothing / others as f32
                        };
                    }
                }
                Ok(smooth)
            }
        }
    }

    /// The loss of a batch, with its gradients: `text` and `audio` are unit vectors `[B, dim]`.
    pub fn loss(&self, text: Tensor<2>, audio: Tensor<2>, targets: &[f32], device: &Device) -> Tensor<1> {
        let size = text.dims()[0];
        let scores = text.matmul(audio.transpose()).div_scalar(self.tau);
        let targets = Tensor::<2>::from_data(TensorData::new(targets.to_vec(), [size, size]), device);
        let lists = |scores: Tensor<2>| {
            let entropy = (targets.clone() * log_softmax(scores, 1)).sum();
            entropy.div_scalar(-(size as f32))
        };
        match self.direction {
            Direction::Audio => lists(scores),
            Direction::Text => lists(scores.transpose()),
            Direction::Both => (lists(scores.clone()) + lists(scores.transpose())).div_scalar(2.0),
        }
    }

    /// The same value from vectors that are plain numbers, in 64 bits: for validation.
    pub fn value(&self, text: &[f32], audio: &[f32], dim: usize, targets: &[f32]) -> f64 {
        let size = text.len() / dim.max(1);
        let scores: Vec<f64> = text
            .chunks_exact(dim.max(1))
            .flat_map(|x| {
                audio.chunks_exact(dim.max(1)).map(move |y| {
                    let dot: f64 = x.iter().zip(y).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                    dot / f64::from(self.tau)
                })
            })
            .collect();
        let lists = |score: &dyn Fn(usize, usize) -> f64| {
            let mut sum = 0.0;
            for i in 0..size {
                let largest = (0..size).map(|j| score(i, j)).fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = (0..size).map(|j| (score(i, j) - largest).exp()).sum();
                let log_total = largest + total.ln();
                for j in 0..size {
                    sum -= f64::from(targets[i * size + j]) * (score(i, j) - log_total);
                }
            }
            sum / size.max(1) as f64
        };
        let over_clips = || lists(&|i, j| scores[i * size + j]);
        let over_captions = || lists(&|i, j| scores[j * size + i]);
        match self.direction {
            Direction::Audio => over_clips(),
            Direction::Text => over_captions(),
            Direction::Both => f64::midpoint(over_clips(), over_captions()),
        }
    }
}
