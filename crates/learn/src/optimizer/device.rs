//! AdamW's step by the operations of a device.

use burn::tensor::Tensor;
use hark_kernels::AdamStep;

/// A parameter and its moments, row after row.
pub(super) struct State {
    pub(super) numbers: Tensor<1>,
    pub(super) first: Tensor<1>,
    pub(super) second: Tensor<1>,
}

/// One step; [`AdamStep`] says what its fields are. Every operation is a pass over memory, so factors are drawn together:
///
/// ```text
/// step m / (√v / root + ε) = step root m / (√v + root ε)
/// ```
pub(super) fn run(step: &AdamStep, state: State, gradient: Tensor<1>) -> State {
    let State {
        numbers,
        first,
        second,
    } = state;
    let first = first.mul_scalar(step.beta_1) + gradient.clone().mul_scalar((1.0 - step.beta_1) * step.scale);
    let square = (gradient.clone() * gradient).mul_scalar((1.0 - step.beta_2) * step.scale * step.scale);
    let second = second.mul_scalar(step.beta_2) + square;
    let size = second.clone().sqrt().add_scalar(step.root * step.epsilon);
    let change = (first.clone() / size).mul_scalar(step.step * step.root);
    // Without decay, which is the paper's, nothing is multiplied by 1.
    let kept = if step.kept < 1.0 {
        numbers.mul_scalar(step.kept)
    } else {
        numbers
    };
    let numbers = kept - change;
    State {
        numbers,
        first,
        second,
    }
}
