//! The numbers that matrix products are made of on devices beside the CPU.
//!
//! Weights, norms, softmax, sums and losses are in 32 bits; operands of products are rounded to 16 bits before, and their result is
//! taken in 32 bits again, as PyTorch's autocast does. Gradients pass through the same products.

use burn::tensor::{Device, FloatDType, Tensor};

/// A number type of matrix products.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Arithmetic {
    /// 32 bits.
    #[default]
    F32,
    /// 16 bits, 8 of them of the exponent: the range of 32 bits.
    Bf16,
    /// 16 bits, 5 of them of the exponent: small gradients need a loss that is scaled.
    F16,
}

impl Arithmetic {
    /// Whether a device computes with these numbers.
    pub fn is_on(self, device: &Device) -> bool {
        // hark's own kernels compute in 32 bits.
        self.kind()
            .is_none_or(|kind| *device != Device::flex() && device.supports_dtype(kind))
    }

    fn kind(self) -> Option<FloatDType> {
        match self {
            Self::F32 => None,
            Self::Bf16 => Some(FloatDType::BF16),
            Self::F16 => Some(FloatDType::F16),
        }
    }

    /// The product of two matrices, or of stacks of them, in 32 bits.
    pub(crate) fn product<const D: usize>(self, left: Tensor<D>, right: Tensor<D>) -> Tensor<D> {
        match self.kind() {
            None => left.matmul(right),
            Some(kind) => left.cast(kind).matmul(right.cast(kind)).cast(FloatDType::F32),
        }
    }
}

impl std::fmt::Display for Arithmetic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        })
    }
}
