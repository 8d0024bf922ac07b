//! Weights of linear layers in the order in which a device's products read them, for networks that only embed.
//!
//! On the CPU that is the order of [`hark_kernels::Packed`]. libtorch computes products of 32 bits with MKL, which on AMD processors
//! reaches a fraction of what oneDNN does; its convolutions run on oneDNN. There the weight becomes the kernel of a convolution over
//! one pixel, `[output, input, 1, 1]`, and the rows of `x` the pixels of a picture that keeps its channels last, so that neither `x`
//! nor the result is moved. libtorch on a GPU, and all other devices, keep the weight as it is.

use std::sync::Arc;

use burn::tensor::{Device, Tensor, TensorData};
use hark_kernels::{self as kernels, Matrix, Precision, Start};

use crate::tensors::numbers;

/// A weight in another order.
#[derive(Debug, Clone)]
pub(crate) enum Packed {
    /// For the products of [`hark_kernels`].
    Cpu(Arc<kernels::Packed>),
    /// `[output, input, 1, 1]`, for libtorch on the CPU.
    #[cfg(feature = "torch")]
    Torch(Tensor<4>),
}

impl Packed {
    /// Whether a device has an order of its own; others read a weight as it is.
    pub(crate) fn is_for(device: &Device) -> bool {
        #[cfg(feature = "torch")]
        if is_torch(device) {
            return true;
        }
        *device == Device::flex()
    }

    /// Packs a weight `[input, output]` on a device that [`Packed::is_for`].
    pub(crate) fn new(weight: Tensor<2>, precision: Precision) -> Self {
        let [input, output] = weight.dims();
        #[cfg(feature = "torch")]
        if is_torch(&weight.device()) {
            return Self::Torch(weight.transpose().reshape([output, input, 1, 1]));
        }
        let numbers = numbers(weight);
        let packed = kernels::Packed::new(Matrix::new(&numbers, input, output, output), precision);
        Self::Cpu(Arc::new(packed))
    }

    /// x W + b for every row of `[rows, input]`.
    pub(crate) fn product(&self, x: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<2> {
        match self {
            Self::Cpu(weight) => {
                let ([rows, input], device) = (x.dims(), x.device());
                let x = numbers(x);
                let bias = bias.map(numbers);
                let start = bias.as_deref().map_or(Start::Zero, Start::Row);
                let out = kernels::product_packed(Matrix::new(&x, rows, input, input), weight, start);
                Tensor::from_data(TensorData::new(out, [rows, weight.columns()]), &device)
            }
            #[cfg(feature = "torch")]
            Self::Torch(weight) => by_convolution(x, weight, bias),
        }
    }
}

#[cfg(feature = "torch")]
#[allow(deprecated, reason = "the surest way to CUDA there is")]
fn is_torch(device: &Device) -> bool {
    *device == Device::libtorch()
}

/// Rows from which on the convolution is the faster one: the weight is reordered each time.
#[cfg(feature = "torch")]
const ROWS: usize = 64;

#[cfg(feature = "torch")]
fn by_convolution(x: Tensor<2>, weight: &Tensor<4>, bias: Option<Tensor<1>>) -> Tensor<2> {
    use burn::tensor::module::conv2d;
    use burn::tensor::ops::ConvOptions;

    let ([rows, input], output) = (x.dims(), weight.dims()[0]);
    if rows < ROWS {
        let out = x.matmul(weight.clone().reshape([output, input]).transpose());
        return match bias {
            Some(bias) => out + bias.unsqueeze(),
            None => out,
        };
    }
    let pixels = x.reshape([1, 1, rows, input]).permute([0, 3, 1, 2]);
    let options = ConvOptions::new([1, 1], [0, 0], [1, 1], 1);
    let out = conv2d(pixels, weight.clone(), bias, options);
    out.permute([0, 2, 3, 1]).reshape([rows, output])
}

#[cfg(all(test, feature = "torch"))]
mod tests {
    use super::*;

    fn matrix(rows: usize, columns: usize, seed: u64, device: &Device) -> Tensor<2> {
        let mut random = hark_work::random::Random::new(seed);
        let numbers: Vec<f32> = (0..rows * columns).map(|_| random.signed() as f32).collect();
        Tensor::from_data(TensorData::new(numbers, [rows, columns]), device)
    }

    #[test]
    #[allow(deprecated, reason = "the surest way to CUDA there is")]
    fn a_convolution_over_single_pixels_is_the_product() {
        let device = Device::libtorch();
        // Few rows, which are multiplied as they are, and many, with few numbers and more than libtorch's own convolution takes.
        for (rows, input, output) in [(1, 7, 5), (63, 40, 24), (64, 3, 1), (65, 24, 40), (300, 96, 33)] {
            let (x, weight) = (matrix(rows, input, 1, &device), matrix(input, output, 2, &device));
            let bias = matrix(1, output, 3, &device).reshape([output]);
            let packed = Packed::new(weight.clone(), Precision::F32);
            assert!(matches!(packed, Packed::Torch(_)));
            for bias in [None, Some(bias)] {
                let product = x.clone().matmul(weight.clone());
                let product = match bias.clone() {
                    Some(bias) => product + bias.unsqueeze(),
                    None => product,
                };
                let ours = numbers(packed.product(x.clone(), bias));
                // Sums of up to 96 products of at most 1, each rounded.
                for (ours, product) in ours.iter().zip(numbers(product)) {
                    assert!((ours - product).abs() < 1e-5, "{ours} {product}");
                }
            }
        }
    }
}
