//! The weights of a layer norm.

use burn::module::{Module, Param};
use burn::tensor::Tensor;

/// A layer norm. Burn's own does not give its epsilon away.
#[derive(Module, Debug)]
pub struct LayerNorm {
    /// `[width]`, what a normed number is multiplied by.
    pub gamma: Param<Tensor<1>>,
    /// `[width]`, what is added to it.
    pub beta: Param<Tensor<1>>,
    /// What is added to the variance.
    #[module(skip)]
    pub epsilon: f64,
}
