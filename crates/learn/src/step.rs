//! One batch through the network: its loss, and the gradients of every parameter that is learned.

use burn::module::Module;
use burn::tensor::{Tensor, TensorData};
use hark_encode::Compute;
use hark_encode::dropout::Training;
use hark_encode::dual::{DualEncoder, SideConfig};
use hark_encode::towers::{AudioConfig, MelBatch, TextConfig, TokenBatch};
use hark_encode::weights::RandomInit;
use hark_encode::weights_file;

use crate::Error;
use crate::objective::Objective;
use crate::optimizer::Gradients;
use crate::split::{Features, numbers};

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
) -> Result<(f32, Gradients), Error> {
    let (Some(audio_side), Some(text_side), Some(device)) = (&network.audio, &network.text, network.device())
    else {
        return Err(Error::NoSide);
    };
    let device = device.autodiff();
    let rows = |features: &Features| {
        let shape = [features.values.len() / features.width.max(1), features.width];
        Tensor::<2>::from_data(TensorData::new(features.values.clone(), shape), &device)
    };
    let audio = match audio {
        AudioInput::LogMels { mels, segments } => audio_side.forward(mels, segments, training)?,
        AudioInput::Features(features) => audio_side.project(rows(features)),
    };
    let text = match text {
        TextInput::Tokens(tokens) => text_side.forward(tokens, training)?,
        TextInput::Features(features) => text_side.project(rows(features)),
    };
    let loss = objective.loss(text, audio, targets, &device);
    let value = numbers(loss.clone().inner())?
        .first()
        .copied()
        .unwrap_or(f32::NAN);
    // There is nothing to learn from a loss that is not finite, and the caller says so.
    if !value.is_finite() {
        return Ok((value, Gradients::new()));
    }
    Ok((value, weights_file::gradients(network, loss.backward())))
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
