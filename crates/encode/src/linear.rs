//! The weights of a linear layer.

use burn::module::{Module, Param};
use burn::tensor::{Tensor, TensorData};
use hark_kernels::Precision;

use crate::arithmetic::Arithmetic;
use crate::packed::Packed;

/// A linear layer: x W + b.
#[derive(Module, Debug)]
pub struct Linear {
    /// `[input, output]`; of no size if the layer is packed.
    pub weight: Param<Tensor<2>>,
    /// `[output]`.
    pub bias: Option<Param<Tensor<1>>>,
    #[module(skip)]
    packed: Option<Packed>,
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

    /// Brings the weight into the order in which the device's products read it: the layer then computes faster and cannot learn.
    /// Does nothing on devices that read it as it is.
    pub(crate) fn pack(&mut self, precision: Precision) {
        let ([_, output], device) = (self.weight.dims(), self.weight.device());
        if self.packed.is_some() || !Packed::is_for(&device) {
            return;
        }
        let nothing = TensorData::new(Vec::<f32>::new(), [0, output]);
        let nothing = Param::from_tensor(Tensor::from_data(nothing, &device));
        // Taken out, so that its numbers need not be copied.
        let (_, weight, _) = std::mem::replace(&mut self.weight, nothing).consume();
        self.packed = Some(Packed::new(weight.inner(), precision));
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
        self.packed.as_ref()
    }
}
