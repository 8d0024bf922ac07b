//! Tensors to numbers.

use burn::tensor::Tensor;

/// A tensor's numbers, row after row.
pub(crate) fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    match tensor.into_data().try_into_vec::<f32>() {
        Ok(numbers) => numbers,
        Err(_) => unreachable!("networks compute in f32"),
    }
}
