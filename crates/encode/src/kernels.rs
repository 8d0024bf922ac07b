//! Elementwise kernels that are slow in the CPU backend, written for SIMD, and the allocator's settings; this crate's one place
//! with `unsafe` beside `towers/mn/kernels.rs`.
//!
//! Burn's CPU backend computes GELU one number at a time through a scalar error function: a quarter of the time of a
//! sentence encoder, and as much again for its gradient in training. [`gelu`] does both for whole vectors and on all
//! threads. Other devices and other number types than f32 go to Burn.
//!
//! ```text
//! gelu(x)         = x Φ(x)               Φ(-y) = exp(-y² / 2) M(y), Φ(y) = 1 - Φ(-y), y ≥ 0
//! gradient(g, x)  = g (Φ(x) + x φ(x))    φ(x) = exp(-x² / 2) / √(2π)
//! ```
//!
//! M is A / B with polynomials of degree 4 and 5, fitted to y ≤ 15 by iteratively reweighted least squares
//! (`golden/tail_fit.py`); beyond that the tail's f32 value is 0. The fit is within 7e-9 and 32-bit rounding within 5e-7,
//! relative: unlike 1 + erf(x / √2), the tail keeps its leading digits, and with it the gradients of weights behind
//! units that are nearly shut, which Adam makes as large as all others.
//!
//! The exponential is 2ⁿ exp(r) with n the nearest whole number to t / ln 2 and |r| ≤ ln 2 / 2, where Taylor's
//! polynomial of degree 7 is within 6e-9 of exp(r), relative; with 32-bit rounding the whole is within 2.5e-7 on
//! [-88, 0].
//!
//! NaN stays NaN in both. gelu(+∞) is +∞ and gelu(-∞) is NaN, as in Burn. The gradient at ±∞ is its
//! limit, 1 or 0 times g, where Burn's is NaN.
//!
//! No product and sum is contracted, so that every processor and every number of threads gives the same bits.

#![allow(unsafe_code)]
// The loops must be inlined into the function that is compiled for the vector unit: that is their whole point.
#![allow(clippy::inline_always)]

use burn::backend::autodiff::{
    NodeId,
    checkpoint::{
        base::Checkpointer, retro_forward::RetroForward, state::BackwardStates, strategy::CheckpointStrategy,
    },
    grads::Gradients,
    ops::{Backward, Ops, OpsKind, unary},
};
use burn::backend::{
    Autodiff, Backend, Dispatch, Flex, TensorMetadata, backend_extension, ops::FloatTensorOps,
    tensor::FloatTensor,
};
use burn::tensor::{DType, Device, Tensor, TensorData, activation};
use rayon::prelude::*;

/// Where the tail is 0 in 32 bits.
const REACH: f32 = 15.0;
/// A and B, constant terms first.
const A: [f32; 5] = [0.5, 0.439_279_02, 0.183_965_64, 0.040_879_883, 0.004_153_026_7];
const B: [f32; 6] = [
    1.0,
    1.676_443_1,
    1.205_534_2,
    0.471_399_4,
    0.102_476_78,
    0.010_409_983,
];
/// Taylor's coefficients of the exponential.
const TAYLOR: [f32; 8] = [
    1.0,
    1.0,
    1.0 / 2.0,
    1.0 / 6.0,
    1.0 / 24.0,
    1.0 / 120.0,
    1.0 / 720.0,
    1.0 / 5040.0,
];
/// ln 2 as a number of nine bits, whose product with n is exact, and the rest.
const LN_2_HIGH: f32 = 355.0 / 512.0;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// 1.5 · 2²³: between 2²³ and 2²⁴ the numbers of 32 bits are the whole ones.
const WHOLE: f32 = 12_582_912.0;
/// The exponent of 2⁶⁴, and 2⁻⁶⁴.
const LIFT: i32 = 64;
const LOWER: f32 = 5.421_011e-20;
/// 1 / √(2π)
const DENSITY_PEAK: f32 = 0.398_942_3;

/// Numbers that one thread does at a time, and how many there must be before there is more than one thread.
const PIECE: usize = 1 << 14;
const SPLIT_FROM: usize = 1 << 16;

/// Keeps memory that was freed, for the rest of the process, instead of giving it back to the system.
///
/// A training step frees what the next one allocates again. The system's allocator takes large blocks from the kernel one by
/// one, gives them back when they are freed, and the kernel clears every page anew: more than a third of the CPU time of a step
/// at full size. For programs that compute and end; a server that idles would hold its peak for ever. It has an effect with
/// glibc's allocator only, and should come before there are other threads.
pub fn keep_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: `mallopt` changes numbers of the allocator and may be called at any time. A setting that is turned down changes
    // nothing.
    unsafe {
        // No block from the kernel on its own; never give back; grow by much at a time.
        libc::mallopt(libc::M_MMAP_MAX, 0);
        libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
        libc::mallopt(libc::M_TOP_PAD, 64 << 20);
    }
}

/// x Φ(x), the exact GELU, with its gradient.
pub(crate) fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    // Devices are equal whether or not they record gradients.
    if x.device() != Device::flex() || x.dtype() != DType::F32 {
        return activation::gelu(x);
    }
    Tensor::from_dispatch(<Dispatch as VectorGelu>::vector_gelu(x.into_dispatch()))
}

/// Burn's backends that have the operation: the CPU one, alone and where it records gradients.
#[backend_extension(Flex, Autodiff)]
trait VectorGelu: Backend {
    fn vector_gelu(x: FloatTensor<Self>) -> FloatTensor<Self>;
}

impl VectorGelu for Flex {
    fn vector_gelu(x: FloatTensor<Self>) -> FloatTensor<Self> {
        if let (false, Some(numbers)) = (x.is_unique(), x.as_slice::<f32>()) {
            // Others hold these numbers, as the backward pass does in training: the results go to a place of their own.
            let mut out = vec![0.0; numbers.len()];
            Work::Forward(numbers, &mut out).run();
            return Flex::float_from_data(TensorData::new(out, x.shape()), &x.device());
        }
        change(x, |numbers| Work::ForwardInPlace(numbers).run())
    }
}

impl<C: CheckpointStrategy> VectorGelu for Autodiff<Flex, C> {
    fn vector_gelu(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let prepared = GeluBackward
            .prepare::<C>([x.node()])
            .memory_bound()
            .retro_forward(Again { input: x.id() })
            .parents([&x])
            .stateful();
        match prepared {
            OpsKind::Tracked(mut prepared) => {
                let input = prepared.checkpoint(&x);
                prepared.finish(input, Flex::vector_gelu(x.into_primitive()))
            }
            OpsKind::UnTracked(prepared) => prepared.finish(Flex::vector_gelu(x.into_primitive())),
        }
    }
}

#[derive(Debug)]
struct GeluBackward;

impl Backward<Flex, 1> for GeluBackward {
    /// The node whose output is x.
    type State = NodeId;

    fn backward(self, ops: Ops<NodeId, 1>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let x = checkpointer.retrieve_node_output::<FloatTensor<Flex>>(ops.state);
        unary::<Flex, _>(ops.parents, ops.node, grads, |grad| gradient(grad, &x));
    }
}

/// The forward pass once more, for a backward pass that recomputes instead of keeping.
#[derive(Debug)]
struct Again {
    input: NodeId,
}

impl RetroForward for Again {
    fn forward(&self, states: &mut BackwardStates, out_node: NodeId) {
        let x = states.get_state::<FloatTensor<Flex>>(&self.input);
        states.save(out_node, Flex::vector_gelu(x));
    }
}

fn gradient(grad: FloatTensor<Flex>, x: &FloatTensor<Flex>) -> FloatTensor<Flex> {
    let ordered;
    let x: &[f32] = if let Some(x) = x.as_slice() {
        x
    } else {
        ordered = x.to_contiguous();
        ordered.storage()
    };
    change(grad, |grad| Work::Gradient(grad, x).run())
}

/// Changes the numbers of a tensor where they are; they are copied only if others hold them or they are out of order.
fn change(mut tensor: FloatTensor<Flex>, work: impl FnOnce(&mut [f32])) -> FloatTensor<Flex> {
    if !tensor.is_contiguous() || !tensor.is_unique() {
        tensor = tensor.to_contiguous();
    }
    let start = tensor.layout().start_offset();
    let count = tensor.layout().num_elements();
    work(&mut tensor.storage_mut()[start..start + count]);
    tensor
}

/// One pass over numbers. The slices of a pass are of the same length.
enum Work<'a> {
    /// x becomes gelu(x).
    ForwardInPlace(&'a mut [f32]),
    /// gelu(x) goes to the second slice.
    Forward(&'a [f32], &'a mut [f32]),
    /// The gradient by gelu(x), the first slice, becomes that by x, the second.
    Gradient(&'a mut [f32], &'a [f32]),
}

impl Work<'_> {
    /// All of the work: on all threads if it is long, in pieces of a fixed length.
    fn run(self) {
        if self.len() < SPLIT_FROM {
            return self.run_piece();
        }
        match self {
            Work::ForwardInPlace(x) => {
                x.par_chunks_mut(PIECE)
                    .for_each(|x| Work::ForwardInPlace(x).run_piece());
            }
            Work::Forward(x, out) => x
                .par_chunks(PIECE)
                .zip(out.par_chunks_mut(PIECE))
                .for_each(|(x, out)| Work::Forward(x, out).run_piece()),
            Work::Gradient(grad, x) => grad
                .par_chunks_mut(PIECE)
                .zip(x.par_chunks(PIECE))
                .for_each(|(grad, x)| Work::Gradient(grad, x).run_piece()),
        }
    }

    fn len(&self) -> usize {
        match self {
            Work::ForwardInPlace(x) => x.len(),
            Work::Forward(x, _) | Work::Gradient(_, x) => x.len(),
        }
    }

    fn run_piece(self) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            // SAFETY: the two features that the function is compiled for have just been detected.
            return unsafe { self.run_avx2() };
        }
        self.run_loop();
    }

    /// The same loops, compiled for eight numbers at a time.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn run_avx2(self) {
        self.run_loop();
    }

    #[inline(always)]
    fn run_loop(self) {
        match self {
            Work::ForwardInPlace(numbers) => {
                for x in numbers {
                    *x *= normal(*x).0;
                }
            }
            Work::Forward(numbers, out) => {
                for (x, out) in numbers.iter().zip(out) {
                    *out = x * normal(*x).0;
                }
            }
            Work::Gradient(grad, numbers) => {
                for (grad, x) in grad.iter_mut().zip(numbers) {
                    let (cumulative, density_term) = normal(*x);
                    *grad *= cumulative + density_term;
                }
            }
        }
    }
}

/// Φ(x) and x φ(x).
#[inline(always)]
fn normal(x: f32) -> (f32, f32) {
    let x = x.clamp(-REACH, REACH);
    let y = x.abs();
    let bell = exp(-0.5 * x * x);
    let tail = bell * (polynomial(&A, y) / polynomial(&B, y));
    let cumulative = if x > 0.0 { 1.0 - tail } else { tail };
    (cumulative, x * (DENSITY_PEAK * bell))
}

/// The exponential of t in [-130, 0].
#[inline(always)]
fn exp(t: f32) -> f32 {
    // The sum is rounded to a whole number, which its lowest bits then are: no conversion is needed.
    let shifted = t * std::f32::consts::LOG2_E + WHOLE;
    let n = shifted - WHOLE;
    let r = (t - n * LN_2_HIGH) - n * LN_2_LOW;
    // 2ⁿ may be too small for the bits of an exponent, so that it is made 2⁶⁴ too large and rounded once, at the end.
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(((127 + LIFT) as u32) << 23));
    polynomial(&TAYLOR, r) * power * LOWER
}

/// The polynomial with these coefficients, constant term first.
#[inline(always)]
fn polynomial<const N: usize>(coefficients: &[f32; N], x: f32) -> f32 {
    let mut sum = coefficients[N - 1];
    for nth in (0..N - 1).rev() {
        // Not `mul_add`, which is a function call where the processor has no such instruction.
        sum = sum * x + coefficients[nth];
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::backend::GradientCheckpointingStrategy;

    /// -12 to 12; long enough that the work is split over threads, and not into equal pieces.
    fn grid() -> Vec<f32> {
        (-120_000..=120_000).map(|n| n as f32 * 1e-4).collect()
    }

    fn vector(numbers: &[f32], device: &Device) -> Tensor<1> {
        Tensor::from_data(TensorData::new(numbers.to_vec(), [numbers.len()]), device)
    }

    fn numbers<const D: usize>(x: Tensor<D>) -> Vec<f32> {
        x.into_data().try_into_vec().unwrap()
    }

    /// The gradient by x of the sum of weights times f(x).
    fn gradient_of<const D: usize>(
        f: impl Fn(Tensor<D>) -> Tensor<D>,
        x: Tensor<D>,
        weights: Tensor<D>,
    ) -> Vec<f32> {
        let x = x.require_grad();
        let grads = (f(x.clone()) * weights).sum().backward();
        numbers(x.grad(&grads).unwrap())
    }

    fn assert_close(got: &[f32], expected: &[f32], allowed: f32) {
        assert_eq!(got.len(), expected.len());
        for (nth, (got, expected)) in got.iter().zip(expected).enumerate() {
            assert!(
                (got - expected).abs() <= allowed,
                "number {nth} is {got}, not {expected}"
            );
        }
    }

    /// Against Burn's own GELU, which calls a scalar error function that is right to the last place.
    #[test]
    fn gelu_equals_the_scalar_one() {
        for device in [Device::flex(), Device::flex().autodiff()] {
            let ours = numbers(gelu(vector(&grid(), &device)));
            let theirs = numbers(activation::gelu(vector(&grid(), &device)));
            for ((x, ours), theirs) in grid().iter().zip(&ours).zip(&theirs) {
                // The rounding of 1 + erf in theirs and of the tail in ours, each a last place of 1 at most, times x.
                let allowed = 1.5e-7 * x.abs().max(0.5);
                assert!(
                    (ours - theirs).abs() <= allowed,
                    "gelu({x}) is {theirs}, not {ours}"
                );
            }
        }
    }

    #[test]
    fn the_gradient_equals_the_scalar_one() {
        let device = Device::flex().autodiff();
        let x = || vector(&grid(), &device);
        let weights = || x().cos();
        let ours = gradient_of(gelu, x(), weights());
        let theirs = gradient_of(activation::gelu, x(), weights());
        // Last places of 1 for Φ, x φ(x) and their sum, in ours and in theirs.
        assert_close(&ours, &theirs, 3e-7);
    }

    /// Against (f(x + h) - f(x - h)) / 2h of Burn's GELU in 64 bits.
    #[test]
    fn the_gradient_equals_differences() {
        let device = Device::flex();
        let x: Vec<f32> = (-1200..=1200).map(|n| n as f32 * 1e-2).collect();
        let h = 1e-4;
        let double = |shift: f64| -> Vec<f64> {
            let shifted: Vec<f64> = x.iter().map(|x| f64::from(*x) + shift).collect();
            let shifted = TensorData::new(shifted, [x.len()]);
            let shifted = Tensor::<1>::from_data(shifted, (&device, DType::F64));
            gelu(shifted).into_data().try_into_vec().unwrap()
        };
        let differences: Vec<f32> = double(h)
            .iter()
            .zip(double(-h))
            .map(|(above, below)| ((above - below) / (2.0 * h)) as f32)
            .collect();
        let device = device.autodiff();
        let ones = Tensor::ones([x.len()], &device);
        // As above; what the differences leave out, h²/6 of the third derivative, is a hundredth of it.
        assert_close(&gradient_of(gelu, vector(&x, &device), ones), &differences, 3e-7);
    }

    /// Where little of x is left, that little is right: against Burn's GELU in 64 bits.
    #[test]
    fn the_tail_keeps_its_digits() {
        let device = Device::flex();
        let x: Vec<f32> = (1..=6000).map(|n| n as f32 * -1e-3).collect();
        let double: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        let double = Tensor::<1>::from_data(TensorData::new(double, [x.len()]), (&device, DType::F64));
        let expected: Vec<f64> = activation::gelu(double).into_data().try_into_vec().unwrap();
        for ((x, got), expected) in x.iter().zip(numbers(gelu(vector(&x, &device)))).zip(expected) {
            let error = (f64::from(got) / expected - 1.0).abs();
            // The tail's and the exponential's own, and the rounding of x² / 2, which the exponential takes as it is.
            let allowed = 7e-7 + 6e-8 * f64::from(0.5 * x * x);
            assert!(error <= allowed, "gelu({x}) is off by {error} of it");
        }
    }

    #[test]
    fn the_exponential_is_right() {
        for nth in 0..=880_000 {
            let t = -1e-4 * nth as f32;
            let expected = f64::from(t).exp();
            let error = (f64::from(exp(t)) - expected).abs() / expected;
            // What Taylor's polynomial leaves out and the rounding of eight sums, as the header says. The last of these
            // numbers are so small that they have a bit less than the others.
            assert!(error <= 2.5e-7, "exp({t}) is off by {error}");
        }
        assert_eq!(exp(0.0).to_bits(), 1_f32.to_bits());
        assert_eq!(exp(-0.5 * REACH * REACH).to_bits(), 0);
    }

    #[test]
    fn the_vector_unit_changes_no_bit() {
        let x = grid();
        let weights: Vec<f32> = x.iter().map(|x| x.cos()).collect();
        let mut plain = x.clone();
        Work::ForwardInPlace(&mut plain).run_loop();
        let mut in_place = x.clone();
        Work::ForwardInPlace(&mut in_place).run();
        let mut apart = vec![0.0; x.len()];
        Work::Forward(&x, &mut apart).run();
        let mut plain_gradient = weights.clone();
        Work::Gradient(&mut plain_gradient, &x).run_loop();
        let mut gradient = weights;
        Work::Gradient(&mut gradient, &x).run();
        let bits = |numbers: &[f32]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert!(bits(&in_place) == bits(&plain));
        assert!(bits(&apart) == bits(&plain));
        assert!(bits(&gradient) == bits(&plain_gradient));
    }

    #[test]
    fn not_a_number_stays_so() {
        let x = [
            f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            0.0,
            f32::MAX,
            f32::MIN,
        ];
        for device in [Device::flex(), Device::flex().autodiff()] {
            let out = numbers(gelu(vector(&x, &device)));
            assert!(out[0].is_nan());
            assert!(out[1] == f32::INFINITY && out[3].to_bits() == 0, "{out:?}");
            assert_eq!(out[4..], [f32::MAX, 0.0]);
            // -infinity times zero: not a number, as in the reference, and never +infinity.
            assert!(out[2].is_nan(), "{out:?}");
        }
        // Burn's gradient is not a number at the infinities, which shows that this one was not called.
        let device = Device::flex().autodiff();
        let gradient = gradient_of(gelu, vector(&x, &device), Tensor::ones([x.len()], &device));
        assert!(gradient[0].is_nan());
        assert_eq!(gradient[1..], [1.0, 0.0, 0.5, 1.0, 0.0]);
        let mut gradient = [f32::NAN, f32::INFINITY];
        Work::Gradient(&mut gradient, &[0.0, 1.0]).run();
        assert!(gradient[0].is_nan() && gradient[1] == f32::INFINITY);
    }

    /// Views of a larger tensor: out of order, out of the middle, in order but not whole, repeated.
    #[test]
    fn views_are_right() {
        type View = fn(Tensor<2>) -> Tensor<2>;
        let views: [View; 5] = [
            |x| x.swap_dims(0, 1),
            |x| x.narrow(1, 2, 3),
            |x| x.narrow(0, 3, 5),
            |x| x.narrow(0, 0, 2),
            |x| x.narrow(0, 4, 1).expand([6, 7]),
        ];
        let device = Device::flex().autodiff();
        let spread: Vec<f32> = grid().into_iter().step_by(3700).take(63).collect();
        let whole = |device: &Device| vector(&spread, device).reshape([9, 7]);
        // The largest |x|, 12, times 1.5e-7.
        let allowed = 1.8e-6;
        for view in views {
            for device in [Device::flex(), device.clone()] {
                let expected = numbers(activation::gelu(view(whole(&device))));
                let kept = whole(&device);
                assert_close(&numbers(gelu(view(kept.clone()))), &expected, allowed);
                // A view must not have changed what it looks at.
                assert_eq!(numbers(kept), numbers(whole(&device)));
                assert_close(&numbers(gelu(view(whole(&device)))), &expected, allowed);
            }
            let shape = view(whole(&device)).shape();
            let weights = view(whole(&device)).sin().into_data();
            let gradient = |f: fn(Tensor<2>) -> Tensor<2>| {
                let x = whole(&device).require_grad();
                let weights = Tensor::<2>::from_data(weights.clone(), &device).reshape(shape.clone());
                let grads = (f(view(x.clone())) * weights).sum().backward();
                numbers(x.grad(&grads).unwrap())
            };
            // Six gradients, each within 3e-7, are summed where the view repeats.
            assert_close(&gradient(gelu), &gradient(activation::gelu), 1.8e-6);
            // A gradient that is itself out of order. The exponential of up to 12 makes it large and multiplies its
            // relative error by as much.
            let turned = |f: fn(Tensor<2>) -> Tensor<2>| {
                let x = whole(&device).require_grad();
                let y = f(view(x.clone()));
                let grads = (y.clone().swap_dims(0, 1).exp().sum() + y.sum()).backward();
                numbers(x.grad(&grads).unwrap())
            };
            let (ours, theirs) = (turned(gelu), turned(activation::gelu));
            for (ours, theirs) in ours.iter().zip(&theirs) {
                assert!(
                    (ours - theirs).abs() <= 1e-5 * theirs.abs().max(1.0),
                    "{ours} {theirs}"
                );
            }
        }
    }

    #[test]
    fn a_tensor_used_twice_sums_its_gradients() {
        let device = Device::flex().autodiff();
        let x = || vector(&grid()[60_000..180_000], &device);
        let twice = |f: fn(Tensor<1>) -> Tensor<1>| {
            move |x: Tensor<1>| f(x.clone()) * x.clone() + f(f(x.clone())) - x
        };
        let ours = gradient_of(twice(gelu), x(), x().cos());
        let theirs = gradient_of(twice(activation::gelu), x(), x().cos());
        // Three gradients, one of which is multiplied by an x of up to 6.
        assert_close(&ours, &theirs, 5e-6);
    }

    /// A backward pass that recomputes what it did not keep.
    #[test]
    fn recomputing_gives_the_same_bits() {
        let gradient = |strategy| {
            let device = Device::flex().autodiff();
            let x = vector(&grid()[100_000..101_000], &device).with_gradient_checkpointing_strategy(strategy);
            let x = x.require_grad();
            let grads = gelu(gelu(x.clone() * 2.0)).exp().sum().backward();
            numbers(x.grad(&grads).unwrap())
        };
        let kept = gradient(GradientCheckpointingStrategy::Disabled);
        assert_eq!(kept, gradient(GradientCheckpointingStrategy::Balanced));
        assert!(kept.iter().all(|x| *x != 0.0));
    }

    #[test]
    fn no_numbers_are_no_trouble() {
        let device = Device::flex().autodiff();
        assert!(numbers(gelu(vector(&[], &Device::flex()))).is_empty());
        assert!(gradient_of(gelu, vector(&[], &device), vector(&[], &device)).is_empty());
    }
}
