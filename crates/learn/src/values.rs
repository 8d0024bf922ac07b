//! Numbers that belong to parameters, such as gradients and moments: in memory where hark's kernels compute, else on the device.
//!
//! What is on a device stays there during a step; [`Gradients::loss_and_norm`] reads back the loss and a sum for each parameter.

use std::collections::BTreeMap;

use burn::tensor::{Tensor, TensorData};
use hark_encode::{Compute, weights_file};
use hark_kernels::sum_of_squares;
use rayon::prelude::*;

/// Numbers that one thread takes at a time.
const PIECE: usize = 1 << 14;

/// The numbers of one parameter, row after row.
#[derive(Debug, Clone)]
#[allow(
    clippy::large_enum_variant,
    reason = "there are some hundreds, one for each parameter"
)]
pub enum Values {
    /// In memory.
    Memory(Vec<f32>),
    /// On a device.
    Device(Tensor<1>),
}

impl Values {
    /// So many zeros where the other numbers are.
    #[must_use]
    pub fn zeros_like(&self) -> Self {
        match self {
            Self::Memory(numbers) => Self::Memory(vec![0.0; numbers.len()]),
            Self::Device(tensor) => Self::Device(Tensor::zeros(tensor.dims(), &tensor.device())),
        }
    }

    /// Numbers for parameters on this device.
    pub fn on(numbers: Vec<f32>, compute: &Compute) -> Self {
        if compute.is_cpu() {
            return Self::Memory(numbers);
        }
        let count = numbers.len();
        Self::Device(Tensor::from_data(
            TensorData::new(numbers, [count]),
            compute.device(),
        ))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Memory(numbers) => numbers.len(),
            Self::Device(tensor) => tensor.dims()[0],
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy in memory.
    pub fn to_vec(&self) -> Vec<f32> {
        match self {
            Self::Memory(numbers) => numbers.clone(),
            Self::Device(tensor) => read(tensor.clone()),
        }
    }

    fn add(&mut self, more: Self) {
        match (self, more) {
            (Self::Memory(sum), Self::Memory(more)) => {
                sum.par_chunks_mut(PIECE)
                    .zip(more.par_chunks(PIECE))
                    .for_each(|(sum, more)| sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more));
            }
            (Self::Device(sum), Self::Device(more)) => *sum = sum.clone() + more,
            _ => unreachable!("a parameter's numbers are in one place"),
        }
    }
}

/// Equal to the last bit, wherever they are.
impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        let bits = |values: &Self| values.to_vec().into_iter().map(f32::to_bits).collect::<Vec<_>>();
        bits(self) == bits(other)
    }
}

impl From<Vec<f32>> for Values {
    fn from(numbers: Vec<f32>) -> Self {
        Self::Memory(numbers)
    }
}

/// A tensor's numbers.
fn read(tensor: Tensor<1>) -> Vec<f32> {
    match tensor.into_data().try_into_vec::<f32>() {
        Ok(numbers) => numbers,
        Err(_) => unreachable!("gradients and moments are in f32"),
    }
}

/// Gradients by the names of their parameters.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Gradients(BTreeMap<String, Values>);

impl Gradients {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether no parameter has one.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A parameter's gradient.
    pub fn get(&self, name: &str) -> Option<&Values> {
        self.0.get(name)
    }

    /// All of them, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Values)> {
        self.0.iter().map(|(name, values)| (name.as_str(), values))
    }

    /// Takes a parameter's gradient out.
    pub fn remove(&mut self, name: &str) -> Option<Values> {
        self.0.remove(name)
    }

    /// Adds the gradients of a network's parameters that a backward pass has given.
    pub fn take(&mut self, network: &impl burn::module::Module, gradients: burn::tensor::Gradients) {
        weights_file::gradients(network, gradients, &mut |name, gradient| {
            let values = if weights_file::in_memory(&gradient) {
                Values::Memory(read(gradient))
            } else {
                Values::Device(gradient)
            };
            self.insert(name, values);
        });
    }

    fn insert(&mut self, name: String, values: Values) {
        match self.0.get_mut(&name) {
            Some(sum) => sum.add(values),
            None => {
                self.0.insert(name, values);
            }
        }
    }

    /// Adds other gradients to these.
    pub fn add(&mut self, more: Self) {
        for (name, values) in more.0 {
            self.insert(name, values);
        }
    }

    /// The L2 norm over all of them together. It is not finite if and only if one of the numbers is not, but for squares on a
    /// device that are larger than 32 bits hold.
    pub fn norm(&self) -> f64 {
        self.read_norm(None).1
    }

    /// A loss and the norm, read from a device in one transfer.
    pub fn loss_and_norm(&self, loss: &Tensor<1>) -> (f32, f64) {
        self.read_norm(Some(loss))
    }

    /// The norm, and a loss if there is one.
    fn read_norm(&self, loss: Option<&Tensor<1>>) -> (f32, f64) {
        let (mut in_memory, mut on_device) = (0.0, Vec::from_iter(loss.cloned()));
        for values in self.0.values() {
            match values {
                Values::Memory(numbers) => in_memory += sum_of_squares(numbers),
                Values::Device(tensor) => on_device.push((tensor.clone() * tensor.clone()).sum()),
            }
        }
        let numbers = if on_device.is_empty() {
            Vec::new()
        } else {
            read(Tensor::cat(on_device, 0))
        };
        let (losses, sums) = numbers.split_at(loss.iter().len());
        let sums: f64 = sums.iter().copied().map(f64::from).sum();
        let loss = losses.first().copied().unwrap_or(f32::NAN);
        (loss, (in_memory + sums).sqrt())
    }
}

impl<V: Into<Values>> FromIterator<(String, V)> for Gradients {
    fn from_iter<I: IntoIterator<Item = (String, V)>>(pairs: I) -> Self {
        Self(
            pairs
                .into_iter()
                .map(|(name, values)| (name, values.into()))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    fn of(pairs: &[(&str, &[f32])]) -> Gradients {
        pairs
            .iter()
            .map(|(name, numbers)| ((*name).to_owned(), numbers.to_vec()))
            .collect()
    }

    #[test]
    fn gradients_add_up() {
        let mut sum = of(&[("a", &[1.0, 2.0]), ("b", &[3.0, 4.0])]);
        sum.add(of(&[("b", &[0.5, -4.0]), ("c", &[7.0, 8.0])]));
        assert_eq!(
            sum,
            of(&[("a", &[1.0, 2.0]), ("b", &[3.5, 0.0]), ("c", &[7.0, 8.0])])
        );
    }

    #[test]
    fn a_loss_is_read_with_the_norm() {
        let device = Device::flex();
        let loss = Tensor::from_data(TensorData::new(vec![7.5_f32], [1]), &device);
        let on_device = |numbers: Vec<f32>| {
            let count = numbers.len();
            Values::Device(Tensor::from_data(TensorData::new(numbers, [count]), &device))
        };
        let in_memory = of(&[("a", &[2.0, 3.0]), ("b", &[6.0])]);
        let elsewhere: Gradients = [("a", vec![2.0, 3.0]), ("b", vec![6.0])]
            .into_iter()
            .map(|(name, numbers)| (name.to_owned(), on_device(numbers)))
            .collect();
        for gradients in [in_memory, elsewhere] {
            assert_eq!(gradients.loss_and_norm(&loss), (7.5, 7.0));
            assert_eq!(gradients.norm().to_bits(), 7.0_f64.to_bits());
        }
        assert_eq!(Gradients::new().loss_and_norm(&loss), (7.5, 0.0));
    }

    #[test]
    fn the_norm_is_over_all_gradients_together() {
        let long = 2 * PIECE + 777;
        let gradients = of(&[("a", &[2.0, 3.0]), ("b", &vec![6.0; long])]);
        let exact = (4.0 + 9.0 + 36.0 * long as f64).sqrt();
        assert!((gradients.norm() - exact).abs() <= 1e-12 * exact);
        assert!(Gradients::new().norm().abs() < f64::MIN_POSITIVE);
        assert!(!of(&[("a", &[1.0, f32::NAN])]).norm().is_finite());
        assert!(!of(&[("a", &[1.0, f32::INFINITY])]).norm().is_finite());
    }
}
