//! Where a network's numbers come from: a checkpoint, a seed, or nowhere yet.
//!
//! A network is built by asking a [`TensorSource`] for its tensors by name and shape. The same code therefore reads a checkpoint,
//! starts a training from a seed, and makes the empty network that a checkpoint of our own is read into.

use std::cell::Cell;

use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData};
use rayon::prelude::*;

use crate::Error;
use crate::layer_norm::LayerNorm;
use crate::linear::Linear;
use hark_work::random::{Random, key, mix};

/// What a tensor holds where no checkpoint says otherwise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Init {
    /// Zeros.
    Zeros,
    /// Ones.
    Ones,
    /// Normal, of this standard deviation, around zero.
    Normal(f32),
    /// Uniform, from minus to plus this number.
    Uniform(f32),
}

/// A giver of tensors.
pub trait Weights {
    /// The tensor's numbers, row-major.
    ///
    /// # Errors
    /// If there is no such tensor, or it has another shape.
    fn numbers(&self, name: &str, shape: &[usize], init: Init) -> Result<Vec<f32>, Error>;

    /// Whether the tensor's numbers come later, so that it needs no memory now.
    ///
    /// # Errors
    /// As [`Weights::numbers`].
    fn is_blank(&self, _name: &str, _shape: &[usize]) -> Result<bool, Error> {
        Ok(false)
    }
}

/// Zeros for every tensor: the form of a network without its content. Large tensors take no memory.
///
/// A card may claim any sizes; what is made of them is bounded by how many numbers there are to fill it with.
#[derive(Debug)]
pub struct ZeroInit {
    left: Cell<usize>,
}

impl ZeroInit {
    /// Zeros for tensors of at most `elements` numbers in all.
    pub fn within(elements: usize) -> Self {
        Self {
            left: Cell::new(elements),
        }
    }
}

impl ZeroInit {
    /// Takes a tensor's numbers from those that are left; how many these are.
    fn take(&self, name: &str, shape: &[usize]) -> Result<usize, Error> {
        let count = shape
            .iter()
            .try_fold(1_usize, |product, &n| product.checked_mul(n));
        let left = count.and_then(|count| self.left.get().checked_sub(count));
        let (Some(count), Some(left)) = (count, left) else {
            return Err(Error::Sizes {
                tower: "network",
                what: format!(
                    "larger than its weights: no numbers are left for tensor `{name}` of shape {shape:?}"
                ),
            });
        };
        self.left.set(left);
        Ok(count)
    }
}

impl Weights for ZeroInit {
    fn numbers(&self, name: &str, shape: &[usize], _: Init) -> Result<Vec<f32>, Error> {
        Ok(vec![0.0; self.take(name, shape)?])
    }

    fn is_blank(&self, name: &str, shape: &[usize]) -> Result<bool, Error> {
        self.take(name, shape)?;
        Ok(true)
    }
}

/// Random numbers from a seed. What a tensor gets depends on the seed and on its name, not on the order of asking.
#[derive(Debug, Clone, Copy)]
pub struct RandomInit(pub u64);

impl Weights for RandomInit {
    fn numbers(&self, name: &str, shape: &[usize], init: Init) -> Result<Vec<f32>, Error> {
        let count = shape.iter().product();
        let name = name
            .bytes()
            .fold(name.len() as u64, |hash, byte| mix(hash ^ u64::from(byte)));
        let random = Random::new(key(&[self.0, name]));
        Ok(match init {
            Init::Zeros => vec![0.0; count],
            Init::Ones => vec![1.0; count],
            Init::Normal(deviation) => drawn(count, &random, 2, |random| random.normal() as f32 * deviation),
            Init::Uniform(bound) => drawn(count, &random, 1, |random| random.signed() as f32 * bound),
        })
    }
}

/// Numbers of a sequence, of which `draw` takes `each` numbers of 64 bits at a time; on all threads.
fn drawn(count: usize, random: &Random, each: u64, draw: impl Fn(&mut Random) -> f32 + Sync) -> Vec<f32> {
    const PIECE: usize = 1 << 14;
    let mut numbers = vec![0.0; count];
    numbers
        .par_chunks_mut(PIECE)
        .enumerate()
        .for_each(|(nth, piece)| {
            let mut random = random.ahead((nth * PIECE) as u64 * each);
            for x in piece {
                *x = draw(&mut random);
            }
        });
    numbers
}

/// A place in a giver of tensors: all names are looked up behind a prefix.
#[derive(Clone)]
pub struct TensorSource<'a> {
    weights: &'a dyn Weights,
    prefix: String,
    device: &'a Device,
}

impl<'a> TensorSource<'a> {
    /// The tensors whose names begin with `prefix` (which ends with its own dot, or is empty).
    pub fn new(weights: &'a dyn Weights, prefix: &str, device: &'a Device) -> Self {
        Self {
            weights,
            prefix: prefix.to_owned(),
            device,
        }
    }

    /// The tensors of a part, `PREFIX PART . NAME`.
    #[must_use]
    pub fn at(&self, part: &str) -> Self {
        Self {
            prefix: format!("{}{part}.", self.prefix),
            ..self.clone()
        }
    }

    /// The device that tensors are put on.
    pub fn device(&self) -> &'a Device {
        self.device
    }

    /// A tensor's numbers.
    ///
    /// # Errors
    /// As [`Weights::numbers`].
    pub fn numbers(&self, name: &str, shape: &[usize], init: Init) -> Result<Vec<f32>, Error> {
        self.weights
            .numbers(&format!("{}{name}", self.prefix), shape, init)
    }

    /// A tensor as a parameter.
    ///
    /// # Errors
    /// As [`Weights::numbers`].
    pub fn parameter<const D: usize>(
        &self,
        name: &str,
        shape: [usize; D],
        init: Init,
    ) -> Result<Param<Tensor<D>>, Error> {
        if self.is_blank(name, &shape)? {
            return Ok(blank(shape, self.device));
        }
        Ok(parameter(self.numbers(name, &shape, init)?, shape, self.device))
    }

    fn is_blank(&self, name: &str, shape: &[usize]) -> Result<bool, Error> {
        self.weights.is_blank(&format!("{}{name}", self.prefix), shape)
    }

    /// `NAME.weight` (`[output, input]`, as PyTorch stores it) and `NAME.bias` of one or more linear layers with the same
    /// input, stacked along the output: three projections become one matrix product.
    ///
    /// # Errors
    /// As [`Weights::numbers`].
    pub fn linear(
        &self,
        names: &[&str],
        input: usize,
        output: usize,
        init: LinearInit,
    ) -> Result<Linear, Error> {
        let (weight_init, bias_init) = init.of(input);
        let mut rows = Vec::new();
        let mut bias = Vec::new();
        let mut blanks = 0;
        for name in names {
            let (weight_name, bias_name) = (format!("{name}.weight"), format!("{name}.bias"));
            if self.is_blank(&weight_name, &[output, input])? && self.is_blank(&bias_name, &[output])? {
                blanks += output;
                continue;
            }
            let part = self.numbers(&weight_name, &[output, input], weight_init)?;
            if rows.is_empty() {
                rows = part;
            } else {
                rows.extend(part);
            }
            bias.extend(self.numbers(&bias_name, &[output], bias_init)?);
        }
        if blanks > 0 {
            let bias = blank([blanks], self.device);
            return Ok(Linear::new(blank([input, blanks], self.device), Some(bias)));
        }
        Ok(linear_of_rows(&rows, bias, input, self.device))
    }

    /// `NAME.weight` and `NAME.bias` of a layer norm.
    ///
    /// # Errors
    /// As [`Weights::numbers`].
    pub fn layer_norm(&self, name: &str, width: usize, epsilon: f64) -> Result<LayerNorm, Error> {
        Ok(LayerNorm {
            gamma: self.parameter(&format!("{name}.weight"), [width], Init::Ones)?,
            beta: self.parameter(&format!("{name}.bias"), [width], Init::Zeros)?,
            epsilon,
        })
    }
}

/// How linear layers begin where no checkpoint says otherwise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LinearInit {
    /// As in BERT and in PaSST: weights normal with deviation 0.02, biases zero.
    Transformer,
    /// As PyTorch's `Linear`: weights and biases uniform within ±1/√input.
    Plain,
}

impl LinearInit {
    fn of(self, input: usize) -> (Init, Init) {
        match self {
            Self::Transformer => (Init::Normal(0.02), Init::Zeros),
            Self::Plain => {
                let bound = 1.0 / (input as f32).sqrt();
                (Init::Uniform(bound), Init::Uniform(bound))
            }
        }
    }
}

/// Numbers as a parameter of this shape.
pub(crate) fn parameter<const D: usize>(
    numbers: Vec<f32>,
    shape: [usize; D],
    device: &Device,
) -> Param<Tensor<D>> {
    Param::from_tensor(Tensor::from_data(TensorData::new(numbers, shape), device))
}

/// Zeros as a parameter of this shape: one number, repeated.
fn blank<const D: usize>(shape: [usize; D], device: &Device) -> Param<Tensor<D>> {
    Param::from_tensor(Tensor::<D>::zeros([1; D], device).expand(shape))
}

/// A linear layer from its weights `[outputs, input]`, as PyTorch stores them.
pub(crate) fn linear_of_rows(rows: &[f32], bias: Vec<f32>, input: usize, device: &Device) -> Linear {
    let outputs = bias.len();
    Linear::new(
        // Stored as [input, output]: the layout that the matrix product reads along its rows.
        parameter(transposed(rows, input), [input, outputs], device),
        Some(parameter(bias, [outputs], device)),
    )
}

/// `[rows, columns]` to `[columns, rows]`.
pub(crate) fn transposed(numbers: &[f32], columns: usize) -> Vec<f32> {
    /// Side of the squares that are turned one at a time: both of its sides stay in the first-level cache.
    const SIDE: usize = 32;
    let columns = columns.max(1);
    let rows = numbers.len() / columns;
    let mut turned = vec![0.0; rows * columns];
    turned
        .par_chunks_mut((SIDE * rows).max(1))
        .enumerate()
        .for_each(|(nth, turned)| {
            for first in (0..rows).step_by(SIDE) {
                let last = rows.min(first + SIDE);
                for (line, turned) in turned.chunks_exact_mut(rows).enumerate() {
                    let column = nth * SIDE + line;
                    for row in first..last {
                        turned[row] = numbers[row * columns + column];
                    }
                }
            }
        });
    turned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeded_tensors_depend_on_seed_and_name_alone() {
        let ask = |seed, name| {
            RandomInit(seed)
                .numbers(name, &[4, 3], Init::Normal(0.5))
                .unwrap()
        };
        assert_eq!(ask(1, "a"), ask(1, "a"));
        assert_ne!(ask(1, "a"), ask(2, "a"));
        assert_ne!(ask(1, "a"), ask(1, "b"));
        // Numbers beyond the first piece go on with the sequence.
        let long = RandomInit(1).numbers("a", &[40_000], Init::Normal(0.5)).unwrap();
        assert_eq!(long[..12], ask(1, "a"));
        let mut random = Random::new(key(&[1, mix(1 ^ u64::from(b'a'))]));
        for x in long {
            assert_eq!(x.to_bits(), (random.normal() as f32 * 0.5).to_bits());
        }
    }

    #[test]
    fn a_blank_network_is_bounded() {
        let blank = ZeroInit::within(10);
        assert_eq!(blank.numbers("a", &[2, 3], Init::Ones).unwrap(), [0.0; 6]);
        for shape in [&[5][..], &[usize::MAX, 2], &[1 << 40]] {
            let error = blank.numbers("b", shape, Init::Zeros).unwrap_err().to_string();
            assert!(error.contains("`b`"), "{error}");
        }
        blank.numbers("c", &[4], Init::Zeros).unwrap();
    }

    #[test]
    fn transposing_moves_rows_to_columns() {
        let turned = transposed(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3);
        assert_eq!(turned, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        // Sizes that are no multiples of a square's side.
        let (rows, columns) = (70, 45);
        let numbers: Vec<f32> = (0..rows * columns).map(|nth| nth as f32).collect();
        let turned = transposed(&numbers, columns);
        for (nth, x) in turned.iter().enumerate() {
            assert_eq!(x.to_bits(), numbers[nth % rows * columns + nth / rows].to_bits());
        }
        assert!(transposed(&[], 3).is_empty());
    }
}
