//! A projection: linear layers with ReLU between them, from a tower's width to the width that both towers share.

use burn::module::{Module, Param};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor, TensorData};

use crate::Error;
use crate::linear::Linear;
use crate::ops::linear;
use crate::weights::{LinearInit, TensorSource};

/// The layers; none of them where a tower stands alone.
#[derive(Module, Debug)]
pub struct Projection {
    layers: Vec<Linear>,
}

impl Projection {
    /// Builds a projection from `input` to `widths`, one after the other, from tensors named as PyTorch names a sequence of
    /// linear layers with an activation between each: `0`, `2`, `4`.
    ///
    /// # Errors
    /// [`Error::Sizes`], or as [`TensorSource::numbers`].
    pub fn build(input: usize, widths: &[usize], source: &TensorSource<'_>) -> Result<Self, Error> {
        if let Some(wrong) = widths.iter().find(|&&width| width == 0 || width > 1 << 20) {
            return Err(Error::Sizes {
                tower: "projection",
                what: format!("a layer is {wrong} wide"),
            });
        }
        let inputs = std::iter::once(&input).chain(widths);
        let layers = inputs.zip(widths).enumerate().map(|(nth, (&input, &output))| {
            let name = (2 * nth).to_string();
            source.linear(&[&name], input, output, LinearInit::Plain)
        });
        Ok(Self {
            layers: layers.collect::<Result<_, _>>()?,
        })
    }

    /// One layer without a bias from its matrix `[input, output]`.
    pub(crate) fn of_matrix(matrix: TensorData, device: &Device) -> Self {
        let weight = Tensor::<2>::from_data(matrix, device);
        let [_, output] = weight.dims();
        let bias = Param::from_tensor(Tensor::zeros([output], device));
        let layer = Linear::new(Param::from_tensor(weight), Some(bias));
        Self { layers: vec![layer] }
    }

    /// `[items, input]` to `[items, output]`.
    pub fn forward(&self, mut x: Tensor<2>) -> Tensor<2> {
        for (nth, layer) in self.layers.iter().enumerate() {
            if nth > 0 {
                x = relu(x);
            }
            x = linear(x, layer);
        }
        x
    }
}
