//! The weights of a linear layer.

use std::sync::Arc;

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use hark_kernels::{Matrix, Packed, Precision};

use crate::arithmetic::Arithmetic;

/// A linear layer: x W + b.
#[derive(Module, Debug)]
pub struct Linear {
    /// `[input, output]`; of no size if the layer is packed.
    pub weight: Param<Tensor<2>>,
    /// `[output]`.
    pub bias: Option<Param<Tensor<1>>>,
    #[module(skip)]
    packed: Option<Arc<Packed>>,
    #[module(skip)]
    arithmetic: Arithmetic,
}

impl Linear {
    /// A layer of these weights.
    pub fn new(weight: Param<Tensor<2>>, bias: Option<Param<Tensor<1>>>) -> Self {
        Self {
            weight,
            bias,
            packed: None,
            arithmetic: Arithmetic::F32,
        }
    }

    /// Brings the weight into the order in which the CPU's products read it: the layer then computes faster and cannot learn.
    /// Does nothing on other devices.
    pub(crate) fn pack(&mut self, precision: Precision) {
        let [input, output] = self.weight.dims();
        if self.weight.device() != Device::flex() || self.packed.is_some() {
            return;
        }
        let nothing = TensorData::new(Vec::<f32>::new(), [0, output]);
        let nothing = Param::from_tensor(Tensor::from_data(nothing, &Device::flex()));
        // Taken out, so that its numbers need not be copied.
        let (_, weight, _) = std::mem::replace(&mut self.weight, nothing).consume();
        let numbers = crate::tensors::numbers(weight.inner());
        let packed = Packed::new(Matrix::new(&numbers, input, output, output), precision);
        self.packed = Some(Arc::new(packed));
    }

    /// Sets the numbers that the product is made of, on devices beside the CPU.
    pub(crate) fn set_arithmetic(&mut self, arithmetic: Arithmetic) {
        self.arithmetic = arithmetic;
    }

    /// The numbers that the product is made of.
    pub(crate) fn arithmetic(&self) -> Arithmetic {
        self.arithmetic
    }

    /// The packed weight, if the layer is packed.
    pub(crate) fn packed(&self) -> Option<&Packed> {
        self.packed.as_deref()
    }
}
