//! One batch through the network: its loss, and the gradients of every parameter that is learned.
//!
//! A batch goes through at once, or in chunks ("cached lists", after GradCache, Gao et al. 2021):
//!
//! ```text
//! for each chunk            embeddings, without a tape
//! for the whole batch       loss, and its gradient G by every embedding
//! for each chunk            embeddings again, with a tape, and the gradients of Σ embeddings ∘ G; sum over chunks
//! ```
//!
//! The lists are those of the whole batch, so the gradients are the same but for the order of sums, in the memory of a chunk.
//! Dropout is a function of the example and patchout one of the batch: both passes of a chunk, and any cut into chunks, see the
//! same masks.

use std::ops::Range;

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use hark_encode::dropout::Training;
use hark_encode::dual::{DualEncoder, Side, SideConfig};
use hark_encode::towers::{AudioConfig, AudioTower, MelBatch, TextConfig, TextTower, TokenBatch};
use hark_encode::weights::RandomInit;
use hark_encode::{Compute, Recompute};

use crate::Error;
use crate::objective::Objective;
use crate::split::{Features, numbers};
use crate::values::Gradients;

/// The clips of a batch.
#[derive(Debug)]
pub enum AudioInput<'a> {
    /// As log-mels, some segments for each clip.
    LogMels {
        /// All segments, clip after clip.
        mels: &'a MelBatch,
        /// How many of them each clip has.
        segments: &'a [usize],
    },
    /// As what a frozen tower gives for them.
    Features(Features),
}

/// The captions of a batch.
#[derive(Debug)]
pub enum TextInput {
    /// As tokens.
    Tokens(TokenBatch),
    /// As what a frozen tower gives for them.
    Features(Features),
}

/// How a batch is computed.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Pairs that go through the towers at a time; without it, all.
    pub chunk: Option<usize>,
    /// Whether blocks of transformers are computed again for the gradient, instead of being kept.
    pub gradient_checkpointing: bool,
    /// What the loss is multiplied by for the gradients; 1 unless numbers of 16 bits would lose them.
    pub loss_scale: Option<f32>,
}

/// What a batch gives.
#[derive(Debug)]
pub struct BatchGradients {
    loss: Tensor<1>,
    /// Of every parameter that is learned, by name, times the loss scale.
    pub gradients: Gradients,
}

impl BatchGradients {
    /// The loss, without its scale. It is read from the device now.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn loss(&self) -> Result<f32, Error> {
        let loss = numbers(self.loss.clone())?;
        Ok(loss.first().copied().unwrap_or(f32::NAN))
    }

    /// The loss, and the norm of the gradients. Both are read from the device now, in one transfer.
    pub fn loss_and_norm(&self) -> (f32, f64) {
        self.gradients.loss_and_norm(&self.loss)
    }
}

/// The loss of a batch and the gradients of the network's parameters, by name; parameters that are frozen have none.
///
/// The network stands on an autodiff device, as `Module::train` puts it there. `training` is where dropout and patchout
/// come from; without it there are none.
///
/// # Errors
/// [`Error::NoSide`] if a side is missing, or if an input does not fit its tower.
pub fn gradients(
    network: &DualEncoder,
    objective: &Objective,
    audio: &AudioInput<'_>,
    text: &TextInput,
    targets: &[f32],
    training: Option<&Training>,
    options: &Options,
) -> Result<BatchGradients, Error> {
    let pairs = Pairs {
        audio,
        text,
        training,
        gradient_checkpointing: options.gradient_checkpointing,
    };
    let scale = options.loss_scale.unwrap_or(1.0);
    let size = pairs.len();
    let mut gradients = Gradients::new();
    let Some(chunk) = options.chunk.filter(|&chunk| (1..size).contains(&chunk)) else {
        let pass = pairs.forward(network, 0..size)?;
        let loss = objective.loss(pass.text, pass.audio, targets, &pass.device);
        let scaled = loss.clone().mul_scalar(scale);
        take(network, scaled, pass.recompute, &mut gradients);
        return Ok(BatchGradients {
            loss: loss.inner(),
            gradients,
        });
    };
    let chunks: Vec<Range<usize>> = (0..size)
        .step_by(chunk)
        .map(|first| first..size.min(first + chunk))
        .collect();
    let plain = network.valid();
    let (mut texts, mut audios) = (Vec::new(), Vec::new());
    for range in &chunks {
        let pass = pairs.forward(&plain, range.clone())?;
        texts.push(pass.text);
        audios.push(pass.audio);
    }
    drop(plain);
    let leaf = |parts: Vec<Tensor<2>>| Tensor::from_inner(Tensor::cat(parts, 0)).require_grad();
    let (text, audio) = (leaf(texts), leaf(audios));
    let loss = objective.loss(text.clone(), audio.clone(), targets, &text.device());
    let mut by_embedding = loss.clone().mul_scalar(scale).backward();
    let (Some(by_text), Some(by_audio)) = (
        text.grad_remove(&mut by_embedding),
        audio.grad_remove(&mut by_embedding),
    ) else {
        unreachable!("the loss depends on every embedding");
    };
    for range in chunks {
        let (first, count) = (range.start, range.len());
        let pass = pairs.forward(network, range)?;
        let weighted = |x: Tensor<2>, gradient: &Tensor<2>| {
            (x * Tensor::from_inner(gradient.clone().narrow(0, first, count))).sum()
        };
        let sum = weighted(pass.text, &by_text) + weighted(pass.audio, &by_audio);
        take(network, sum, pass.recompute, &mut gradients);
    }
    Ok(BatchGradients {
        loss: loss.inner(),
        gradients,
    })
}

/// Adds the gradients of a loss.
fn take(network: &DualEncoder, loss: Tensor<1>, recompute: Option<Recompute>, gradients: &mut Gradients) {
    let found = loss.backward();
    // Its tape ends here, and what it holds of the forward pass is let go.
    drop(loss);
    match recompute {
        Some(recompute) => recompute.backward(found, &mut |found| gradients.take(network, found)),
        None => gradients.take(network, found),
    }
}

/// A batch.
struct Pairs<'a> {
    audio: &'a AudioInput<'a>,
    text: &'a TextInput,
    training: Option<&'a Training>,
    gradient_checkpointing: bool,
}

/// What some pairs of a batch give: unit vectors `[pairs, dim]`.
struct Pass {
    text: Tensor<2>,
    audio: Tensor<2>,
    recompute: Option<Recompute>,
    device: Device,
}

impl Pairs<'_> {
    fn len(&self) -> usize {
        match self.audio {
            AudioInput::LogMels { segments, .. } => segments.len(),
            AudioInput::Features(features) => features.values.len() / features.width.max(1),
        }
    }

    /// Some pairs through both sides.
    fn forward(&self, network: &DualEncoder, range: Range<usize>) -> Result<Pass, Error> {
        let (Some(audio_side), Some(text_side), Some(device)) =
            (&network.audio, &network.text, network.device())
        else {
            return Err(Error::NoSide);
        };
        let recompute = (self.gradient_checkpointing && device.is_autodiff()).then(Recompute::default);
        let training = self.training.map(|training| Training {
            seed: training.seed,
            examples: training.examples.get(range.clone()).unwrap_or_default().to_vec(),
            recompute: recompute.clone(),
        });
        // Without dropout and patchout there is no training to say that blocks are computed again: nothing is kept by it then.
        let training = training.as_ref();
        Ok(Pass {
            audio: self.embed_audio(audio_side, range.clone(), training, &device)?,
            text: self.embed_text(text_side, range, training, &device)?,
            recompute,
            device,
        })
    }

    fn embed_audio(
        &self,
        side: &Side<AudioTower>,
        range: Range<usize>,
        training: Option<&Training>,
        device: &Device,
    ) -> Result<Tensor<2>, Error> {
        match self.audio {
            AudioInput::LogMels { mels, segments } => {
                let first = segments[..range.start].iter().sum::<usize>();
                let own = &segments[range];
                let count = own.iter().sum::<usize>();
                if count == mels.len() {
                    return Ok(side.forward(mels, own, training)?);
                }
                Ok(side.forward(&mels.part(first..first + count)?, own, training)?)
            }
            AudioInput::Features(features) => Ok(side.project(rows(features, range, device))),
        }
    }

    fn embed_text(
        &self,
        side: &Side<TextTower>,
        range: Range<usize>,
        training: Option<&Training>,
        device: &Device,
    ) -> Result<Tensor<2>, Error> {
        match self.text {
            TextInput::Tokens(tokens) if range.len() == tokens.len() => Ok(side.forward(tokens, training)?),
            TextInput::Tokens(tokens) => Ok(side.forward(&tokens.part(range)?, training)?),
            TextInput::Features(features) => Ok(side.project(rows(features, range, device))),
        }
    }
}

/// Some rows of features as a tensor.
fn rows(features: &Features, range: Range<usize>, device: &Device) -> Tensor<2> {
    let (width, count) = (features.width, range.len());
    let values = features.values[range.start * width..range.end * width].to_vec();
    Tensor::from_data(TensorData::new(values, [count, width]), device)
}

/// A network with random weights that is ready to learn, for measuring time.
///
/// # Errors
/// If the sizes are impossible.
pub fn untrained(
    audio: &SideConfig<AudioConfig>,
    text: &SideConfig<TextConfig>,
    seed: u64,
    compute: &Compute,
) -> Result<DualEncoder, Error> {
    Ok(DualEncoder::build(Some(audio), Some(text), &RandomInit(seed), compute.device())?.train())
}
