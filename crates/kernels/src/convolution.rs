//! A convolution with ReLU behind it, and its gradient.
//!
//! In: maps `[items, inputs, height, width]`. Out: `[items, outputs, height, width]` of the output. The patches under the kernel
//! become the columns of a matrix, and the convolution a product with the weights `[outputs, inputs * kernel²]`:
//!
//! ```text
//! out = relu(W patches + b)          g ← g where out > 0
//! db = Σ g     dW = Σ g patchesᵀ     d patches = Wᵀ g
//! ```
//!
//! Items whose maps are small share a matrix, their patches beside each other. The patches are made again for the gradient. Sums
//! over items are made of the sums over such groups, whose size depends on the maps alone: the number of threads changes no bit.

// Outputs that several threads write.
#![allow(unsafe_code)]
// The loops must be inlined into the function that is compiled for the vector unit.
#![allow(clippy::inline_always)]

use std::mem::MaybeUninit;

use rayon::prelude::*;

use crate::lanes::sum;
use crate::matrix::Matrix;
use crate::product::serial;
use crate::raw::{Isa, Output, Start, Work, written};

/// Columns that a matrix of patches should have at least.
const COLUMNS: usize = 800;
/// The most items that share one.
const MAX_GROUP: usize = 8;

/// The sizes of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Convolution {
    /// Channels of the input.
    pub inputs: usize,
    /// Channels of the output.
    pub outputs: usize,
    /// Height and width of the input.
    pub size: [usize; 2],
    /// Side of the kernel.
    pub kernel: usize,
    /// From one patch to the next.
    pub stride: usize,
    /// Zeros around the input; fewer than the kernel's side.
    pub padding: usize,
}

/// What a convolution's gradient is by.
#[derive(Debug, Clone, PartialEq)]
pub struct ConvolutionGradient {
    /// By the input, if it was asked for.
    pub input: Option<Vec<f32>>,
    /// By the weights.
    pub weight: Vec<f32>,
    /// By the bias.
    pub bias: Vec<f32>,
}

impl Convolution {
    /// Height and width of the output.
    pub fn output(&self) -> [usize; 2] {
        self.size
            .map(|size| (size + 2 * self.padding).saturating_sub(self.kernel) / self.stride + 1)
    }

    /// Numbers of an item's input, places of its output, and numbers of a patch.
    fn counts(&self) -> (usize, usize, usize) {
        let [height, width] = self.output();
        (
            self.inputs * self.size[0] * self.size[1],
            height * width,
            self.inputs * self.kernel * self.kernel,
        )
    }

    fn check(&self, x: &[f32], weight: &[f32], bias: &[f32]) -> usize {
        let (input, _, patch) = self.counts();
        assert!(
            self.stride > 0 && self.padding < self.kernel,
            "a stride, and padding within the kernel"
        );
        let least = self.kernel.saturating_sub(2 * self.padding).max(1);
        assert!(
            self.size.iter().all(|&size| size >= least),
            "an input that a kernel fits in"
        );
        assert!(input > 0 && x.len().is_multiple_of(input), "whole items");
        assert_eq!(weight.len(), self.outputs * patch, "the weights' size");
        assert_eq!(bias.len(), self.outputs, "the bias's size");
        x.len() / input
    }

    /// The range of output places along a side whose kernel row or column `nth` lies within the input.
    fn within(&self, nth: usize, size: usize, places: usize) -> std::ops::Range<usize> {
        // place * stride + nth - padding must be from 0 to size - 1.
        let first = self.padding.saturating_sub(nth).div_ceil(self.stride);
        let last = (size + self.padding).saturating_sub(nth).div_ceil(self.stride);
        first.min(places)..last.min(places)
    }

    /// Items that share a matrix of patches.
    fn group(&self) -> usize {
        let (_, places, _) = self.counts();
        COLUMNS.div_ceil(places.max(1)).clamp(1, MAX_GROUP)
    }

    /// Calls `visit` with every stretch of patches that lies within the input: where it begins in a matrix of patches whose rows are
    /// `columns` long, where in the input, and its length. Steps are 1 in the matrix and the stride in the input.
    #[inline(always)]
    fn stretches(&self, columns: usize, mut visit: impl FnMut(usize, usize, usize)) {
        let [height, width] = self.output();
        let kernel = self.kernel;
        for row in 0..self.inputs * kernel * kernel {
            let (channel, down, across) = (row / (kernel * kernel), row / kernel % kernel, row % kernel);
            let inside = self.within(across, self.size[1], width);
            if inside.is_empty() {
                continue;
            }
            for y in self.within(down, self.size[0], height) {
                let line = channel * self.size[0] + y * self.stride + down - self.padding;
                let from = line * self.size[1] + inside.start * self.stride + across - self.padding;
                visit(row * columns + y * width + inside.start, from, inside.len());
            }
        }
    }

    /// The maps behind convolution and ReLU.
    ///
    /// # Panics
    /// If the sizes do not fit together.
    pub fn forward(&self, x: &[f32], weight: &[f32], bias: &[f32]) -> Vec<f32> {
        let items = self.check(x, weight, bias);
        let (input, places, patch) = self.counts();
        let weight = Matrix::new(weight, self.outputs, patch, patch);
        let group = self.group().min(items.max(1));
        let columns = group * places;
        let isa = Isa::here();
        // SAFETY: the rows of an item are written by the task of its group alone.
        unsafe {
            written(items * self.outputs, places, |out| {
                x.par_chunks(group * input).enumerate().for_each_init(
                    || (vec![0.0; patch * columns], vec![0.0; self.outputs * columns]),
                    |(patches, products), (nth, x)| {
                        let own = x.len() / input;
                        isa.run(Gather {
                            shape: self,
                            x,
                            patches,
                            columns,
                        });
                        let matrix = Matrix::new(patches, patch, own * places, columns);
                        let product = Output::new(products, self.outputs, own * places, columns);
                        serial(weight, matrix, Start::Zero, &product);
                        for (item, channel) in
                            (0..own).flat_map(|item| (0..self.outputs).map(move |channel| (item, channel)))
                        {
                            isa.run(Relu {
                                x: &products[channel * columns + item * places..][..places],
                                bias: bias[channel],
                                out: out.fresh_row((nth * group + item) * self.outputs + channel),
                            });
                        }
                    },
                );
            })
        }
    }

    /// The gradients, given what the forward pass gave and the gradient by it.
    ///
    /// # Panics
    /// If the sizes do not fit together.
    pub fn gradient(
        &self,
        x: &[f32],
        weight: &[f32],
        out: &[f32],
        grad: &[f32],
        by_input: bool,
    ) -> ConvolutionGradient {
        let items = self.check(x, weight, &vec![0.0; self.outputs]);
        let (input, places, patch) = self.counts();
        let size = self.outputs * places;
        assert!(
            out.len() == items * size && grad.len() == items * size,
            "output and gradient"
        );
        let group = self.group().min(items.max(1));
        let columns = group * places;
        let isa = Isa::here();
        let right = Matrix::new(weight, self.outputs, patch, patch);
        let mut by_x = vec![0.0; if by_input { x.len() } else { 0 }];
        let buffers = || {
            (
                vec![0.0; patch * columns],
                vec![0.0; if by_input { patch * columns } else { 0 }],
                vec![0.0; self.outputs * columns],
            )
        };
        let of_group = |(patches, by_patches, grads): &mut (Vec<f32>, Vec<f32>, Vec<f32>),
                        nth: usize,
                        by_x: &mut [f32]| {
            let first = nth * group;
            let own = group.min(items - first);
            let (mut by_weight, mut by_bias) = (vec![0.0; self.outputs * patch], vec![0.0; self.outputs]);
            for (channel, by_bias) in by_bias.iter_mut().enumerate() {
                for item in 0..own {
                    let place = (first + item) * size + channel * places;
                    *by_bias += isa.run(Open {
                        out: &out[place..][..places],
                        grad: &grad[place..][..places],
                        own: &mut grads[channel * columns + item * places..][..places],
                    });
                }
            }
            isa.run(Gather {
                shape: self,
                x: &x[first * input..][..own * input],
                patches,
                columns,
            });
            let grads = Matrix::new(grads, self.outputs, own * places, columns);
            let matrix = Matrix::new(patches, patch, own * places, columns);
            let sums = Output::new(&mut by_weight, self.outputs, patch, patch);
            serial(grads, matrix.transposed(), Start::Zero, &sums);
            if by_input {
                let output = Output::new(by_patches, patch, own * places, columns);
                serial(right.transposed(), grads, Start::Zero, &output);
                isa.run(Scatter {
                    shape: self,
                    patches: by_patches,
                    x: by_x,
                    columns,
                });
            }
            (by_weight, by_bias)
        };
        let parts: Vec<(Vec<f32>, Vec<f32>)> = if by_input {
            let chunks = by_x.par_chunks_mut(group * input).enumerate();
            chunks
                .map_init(buffers, |buffers, (nth, by_x)| of_group(buffers, nth, by_x))
                .collect()
        } else {
            (0..items.div_ceil(group))
                .into_par_iter()
                .map_init(buffers, |buffers, nth| of_group(buffers, nth, &mut []))
                .collect()
        };
        let (mut by_weight, mut by_bias) = (vec![0.0; self.outputs * patch], vec![0.0; self.outputs]);
        for (part_weight, part_bias) in parts {
            by_weight
                .iter_mut()
                .zip(part_weight)
                .for_each(|(sum, x)| *sum += x);
            by_bias.iter_mut().zip(part_bias).for_each(|(sum, x)| *sum += x);
        }
        ConvolutionGradient {
            input: by_input.then_some(by_x),
            weight: by_weight,
            bias: by_bias,
        }
    }
}

/// Makes the patches of some items, `[inputs * kernel², items, places]`; what is outside of the input must be 0 already.
struct Gather<'a> {
    shape: &'a Convolution,
    x: &'a [f32],
    patches: &'a mut [f32],
    /// The length of a row.
    columns: usize,
}

impl Work for Gather<'_> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        let (input, places, _) = self.shape.counts();
        for (item, x) in self.x.chunks_exact(input).enumerate() {
            let patches = &mut self.patches[item * places..];
            self.shape.stretches(self.columns, |to, from, count| {
                let to = &mut patches[to..][..count];
                match self.shape.stride {
                    1 => to.copy_from_slice(&x[from..][..count]),
                    2 => every::<2>(&x[from..], to),
                    stride => {
                        for (to, from) in to.iter_mut().zip(x[from..].iter().step_by(stride)) {
                            *to = *from;
                        }
                    }
                }
            });
        }
    }
}

/// Copies every number that is `S` behind the one before it. With a step that is known, this is compiled to vector instructions.
#[inline(always)]
fn every<const S: usize>(from: &[f32], to: &mut [f32]) {
    let Some((last, most)) = to.split_last_mut() else {
        return;
    };
    *last = from[most.len() * S];
    for (to, from) in most.iter_mut().zip(from.as_chunks::<S>().0) {
        *to = from[0];
    }
}

/// Adds what belongs to the patches of some items to where they came from.
struct Scatter<'a> {
    shape: &'a Convolution,
    patches: &'a [f32],
    x: &'a mut [f32],
    /// The length of a row.
    columns: usize,
}

impl Work for Scatter<'_> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        let (input, places, _) = self.shape.counts();
        for (item, x) in self.x.chunks_exact_mut(input).enumerate() {
            let patches = &self.patches[item * places..];
            self.shape.stretches(self.columns, |from, to, count| {
                let from = &patches[from..][..count];
                match self.shape.stride {
                    1 => add(from, &mut x[to..][..count]),
                    2 => add_every_second(from, &mut x[to..]),
                    stride => {
                        for (to, from) in x[to..].iter_mut().step_by(stride).zip(from) {
                            *to += *from;
                        }
                    }
                }
            });
        }
    }
}

#[inline(always)]
fn add(from: &[f32], to: &mut [f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += *from;
    }
}

#[inline(always)]
fn add_every_second(from: &[f32], to: &mut [f32]) {
    let Some((last, most)) = from.split_last() else {
        return;
    };
    to[most.len() * 2] += *last;
    for (to, from) in to.as_chunks_mut::<2>().0.iter_mut().zip(most) {
        // Both are written, so that this is compiled to whole vectors.
        *to = [to[0] + *from, to[1]];
    }
}

/// ReLU of a row and its bias.
struct Relu<'a> {
    x: &'a [f32],
    bias: f32,
    out: &'a mut [MaybeUninit<f32>],
}

impl Work for Relu<'_> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        for (out, x) in self.out.iter_mut().zip(self.x) {
            let x = *x + self.bias;
            out.write(if x > 0.0 { x } else { 0.0 });
        }
    }
}

/// The gradient where the unit was open, and its sum.
struct Open<'a> {
    out: &'a [f32],
    grad: &'a [f32],
    own: &'a mut [f32],
}

impl Work for Open<'_> {
    type Result = f32;

    #[inline(always)]
    fn run(self) -> f32 {
        for ((own, out), grad) in self.own.iter_mut().zip(self.out).zip(self.grad) {
            *own = if *out > 0.0 { *grad } else { 0.0 };
        }
        sum(self.own, |x| x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbers(count: usize, seed: u32) -> Vec<f32> {
        (0..count as u32)
            .map(|nth| {
                let bits = (nth ^ seed.rotate_left(9)).wrapping_mul(2_654_435_761);
                ((bits ^ (bits >> 15)).wrapping_mul(2_246_822_519) >> 8) as f32 / (1 << 23) as f32 - 1.0
            })
            .collect()
    }

    /// The definition in 64 bits, before ReLU.
    fn exact(shape: &Convolution, items: usize, x: &[f64], weight: &[f64], bias: &[f64]) -> Vec<f64> {
        let [height, width] = shape.output();
        let (k, [h, w]) = (shape.kernel, shape.size);
        let mut out = Vec::new();
        for item in 0..items {
            for channel in 0..shape.outputs {
                for y in 0..height {
                    for x_place in 0..width {
                        let mut sum = bias[channel];
                        for input in 0..shape.inputs {
                            for down in 0..k {
                                for across in 0..k {
                                    let row = y * shape.stride + down;
                                    let column = x_place * shape.stride + across;
                                    let (Some(row), Some(column)) =
                                        (row.checked_sub(shape.padding), column.checked_sub(shape.padding))
                                    else {
                                        continue;
                                    };
                                    if row < h && column < w {
                                        sum += x[((item * shape.inputs + input) * h + row) * w + column]
                                            * weight
                                                [((channel * shape.inputs + input) * k + down) * k + across];
                                    }
                                }
                            }
                        }
                        out.push(sum);
                    }
                }
            }
        }
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// Values against the definition, gradients against differences of it.
        #[test]
        fn convolutions_equal_the_definition(
            items in 1_usize..7, inputs in 1_usize..4, outputs in 1_usize..5, height in 3_usize..12, width in 3_usize..12,
            kernel in 1_usize..4, stride in 1_usize..4, padding in 0_usize..3, seed in any::<u32>(),
        ) {
            prop_assume!(padding < kernel);
            let shape = Convolution { inputs, outputs, size: [height, width], kernel, stride, padding };
            let x = numbers(items * inputs * height * width, seed);
            let weight = numbers(outputs * inputs * kernel * kernel, seed ^ 1);
            let bias = numbers(outputs, seed ^ 2);
            let wide = |numbers: &[f32]| numbers.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
            let (x64, weight64, bias64) = (wide(&x), wide(&weight), wide(&bias));
            let before = exact(&shape, items, &x64, &weight64, &bias64);
            let out = shape.forward(&x, &weight, &bias);
            prop_assert_eq!(out.len(), before.len());
            for (ours, exact) in out.iter().zip(&before) {
                prop_assert!((f64::from(*ours) - exact.max(0.0)).abs() < 1e-5, "{ours} {exact}");
            }
            let grad = numbers(out.len(), seed ^ 3);
            let gradient = shape.gradient(&x, &weight, &out, &grad, true);
            // Whether a unit is shut is taken from the forward pass: it may change at a difference.
            let loss = |x: &[f64], weight: &[f64], bias: &[f64]| -> f64 {
                let open = exact(&shape, items, x, weight, bias);
                open.iter().zip(&out).zip(&grad).map(|((x, out), g)| if *out > 0.0 { x * f64::from(*g) } else { 0.0 }).sum()
            };
            let difference = |numbers: &[f64], at: usize, loss: &dyn Fn(&[f64]) -> f64| {
                let (mut less, mut more) = (numbers.to_vec(), numbers.to_vec());
                less[at] -= 1e-3;
                more[at] += 1e-3;
                (loss(&more) - loss(&less)) / 2e-3
            };
            for nth in 0..6_usize {
                let at = (nth * 7919 + seed as usize) % x.len();
                let exact = difference(&x64, at, &|x| loss(x, &weight64, &bias64));
                let ours = f64::from(gradient.input.as_ref().unwrap()[at]);
                prop_assert!((ours - exact).abs() < 1e-4 * exact.abs().max(1.0), "{ours} {exact}");
                let at = (nth * 7919 + seed as usize) % weight.len();
                let exact = difference(&weight64, at, &|weight| loss(&x64, weight, &bias64));
                let ours = f64::from(gradient.weight[at]);
                prop_assert!((ours - exact).abs() < 1e-4 * exact.abs().max(1.0), "{ours} {exact}");
            }
            for at in 0..outputs {
                let exact = difference(&bias64, at, &|bias| loss(&x64, &weight64, bias));
                prop_assert!((f64::from(gradient.bias[at]) - exact).abs() < 1e-4 * exact.abs().max(1.0));
            }
            let without = shape.gradient(&x, &weight, &out, &grad, false);
            prop_assert!(without.input.is_none() && without.weight == gradient.weight && without.bias == gradient.bias);
            let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
            prop_assert!(alone.install(|| shape.gradient(&x, &weight, &out, &grad, true)) == gradient);
        }
    }
}
