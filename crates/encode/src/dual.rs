//! The dual encoder: an audio tower and a text tower, a projection behind each, and unit vectors that meet in one space.
//!
//! A side may be absent: a tower that was imported alone, to be embedded with or to start a training from, is a dual
//! encoder with one side and no projection.

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::arithmetic::Arithmetic;
use crate::dropout::Training;
use crate::projection::Projection;
use crate::towers::{AudioConfig, AudioTower, MelBatch, TextConfig, TextTower, TokenBatch, Tower};
use crate::weights::{TensorSource, Weights};

/// What one side is built of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SideConfig<C> {
    /// The tower, by name, with its sizes.
    pub network: C,
    /// Widths of the projection's layers; empty for a tower alone.
    #[serde(default)]
    pub projection: Vec<usize>,
}

/// A tower and what stands behind it.
#[derive(Module, Debug)]
pub struct Side<T: Module> {
    /// The tower.
    pub tower: T,
    /// The projection.
    pub projection: Projection,
}

impl<T: Tower> Side<T> {
    /// Builds a side from where its tower's and where its projection's tensors are.
    ///
    /// # Errors
    /// As [`Tower::build`] and [`Projection::build`].
    pub fn build(
        config: &SideConfig<T::Config>,
        tower: &TensorSource<'_>,
        projection: &TensorSource<'_>,
    ) -> Result<Self, Error> {
        let tower = T::build(&config.network, tower)?;
        let projection = Projection::build(tower.width(), &config.projection, projection)?;
        Ok(Self { tower, projection })
    }
}

impl<T: Module> Side<T> {
    /// Unit vectors `[items, dim]` of the tower's features `[items, width]`.
    pub fn project(&self, features: Tensor<2>) -> Tensor<2> {
        unit(self.projection.forward(features))
    }
}

/// The network of a model.
#[derive(Module, Debug)]
pub struct DualEncoder {
    /// Log-mels to vectors.
    pub audio: Option<Side<AudioTower>>,
    /// Tokens to vectors.
    pub text: Option<Side<TextTower>>,
}

impl DualEncoder {
    /// Builds both sides from one giver of tensors under `audio.`, `audio-projection.`, `text.`, `text-projection.`.
    ///
    /// # Errors
    /// As [`Side::build`].
    pub fn build(
        audio: Option<&SideConfig<AudioConfig>>,
        text: Option<&SideConfig<TextConfig>>,
        weights: &dyn Weights,
        device: &Device,
    ) -> Result<Self, Error> {
        let at = |prefix| TensorSource::new(weights, prefix, device);
        Ok(Self {
            audio: audio
                .map(|config| Side::build(config, &at("audio."), &at("audio-projection.")))
                .transpose()?,
            text: text
                .map(|config| Side::build(config, &at("text."), &at("text-projection.")))
                .transpose()?,
        })
    }

    /// Sets the numbers that the products of both towers are made of, on devices beside the CPU.
    pub fn set_arithmetic(&mut self, arithmetic: Arithmetic) {
        if let Some(side) = &mut self.audio {
            side.tower.set_arithmetic(arithmetic);
        }
        if let Some(side) = &mut self.text {
            side.tower.set_arithmetic(arithmetic);
        }
    }

    /// The device that its parameters are on; `None` for a network without any.
    pub fn device(&self) -> Option<Device> {
        self.devices().first().cloned()
    }
}

impl Side<AudioTower> {
    /// Unit vectors `[clips, dim]`: segments through the tower, averaged clip by clip, projected.
    ///
    /// `segments` says how many of the batch's segments each clip has, in order.
    ///
    /// # Errors
    /// [`Error::InputShape`] if the counts do not add up to the batch, and as [`Tower::forward`].
    pub fn forward(
        &self,
        batch: &MelBatch,
        segments: &[usize],
        training: Option<&Training>,
    ) -> Result<Tensor<2>, Error> {
        Ok(self.project(self.features(batch, segments, training)?))
    }

    /// The tower's features `[clips, width]`: segments through the tower, averaged clip by clip.
    ///
    /// # Errors
    /// As [`Side::forward`].
    pub fn features(
        &self,
        batch: &MelBatch,
        segments: &[usize],
        training: Option<&Training>,
    ) -> Result<Tensor<2>, Error> {
        if segments.iter().sum::<usize>() != batch.len() || segments.contains(&0) {
            return Err(Error::InputShape {
                what: "segments of clips",
                expected: vec![batch.len()],
                got: segments.to_vec(),
            });
        }
        let features = self.tower.forward(batch, training)?;
        Ok(if segments.iter().all(|&count| count == 1) {
            features
        } else {
            mean_matrix(segments, &features.device()).matmul(features)
        })
    }
}

impl Side<TextTower> {
    /// Unit vectors `[texts, dim]`.
    ///
    /// # Errors
    /// As [`Tower::forward`].
    pub fn forward(&self, batch: &TokenBatch, training: Option<&Training>) -> Result<Tensor<2>, Error> {
        Ok(self.project(self.tower.forward(batch, training)?))
    }
}

/// `[clips, segments]`, whose product with segments' features is their mean for each clip.
fn mean_matrix(segments: &[usize], device: &Device) -> Tensor<2> {
    let total = segments.iter().sum::<usize>();
    let mut shares = vec![0.0_f32; segments.len() * total];
    let mut first = 0;
    for (clip, &count) in segments.iter().enumerate() {
        shares[clip * total + first..][..count].fill(1.0 / count as f32);
        first += count;
    }
    Tensor::from_data(TensorData::new(shares, [segments.len(), total]), device)
}

/// Rows divided by their L2 norms.
fn unit(x: Tensor<2>) -> Tensor<2> {
    // A row of zeros stays one, and has no gradient: the floor stands before the root, whose slope at zero is infinite.
    let norm = (x.clone() * x.clone()).sum_dim(1).clamp_min(1e-24).sqrt();
    x / norm
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensors::numbers;

    #[test]
    fn segments_are_averaged_clip_by_clip() {
        let device = Device::flex();
        let features = Tensor::<2>::from_data(TensorData::new(vec![1.0_f32, 2.0, 4.0, 8.0], [4, 1]), &device);
        let mean = mean_matrix(&[2, 1, 1], &device).matmul(features);
        assert_eq!(numbers(mean), [1.5, 4.0, 8.0]);
    }

    #[test]
    fn a_row_of_zeros_has_a_finite_gradient() {
        let device = Device::flex().autodiff();
        let x = Tensor::<2>::zeros([1, 3], &device).require_grad();
        let gradients = unit(x.clone()).sum().backward();
        let gradient = numbers(x.grad(&gradients).unwrap());
        assert!(gradient.iter().all(|x| x.is_finite()), "{gradient:?}");
    }
}
