use super::*;
use burn::backend::GradientCheckpointingStrategy;
use burn::module::Param;

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
    kernels::gelu_gradient(&mut gradient, &[0.0, 1.0]);
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
    let twice =
        |f: fn(Tensor<1>) -> Tensor<1>| move |x: Tensor<1>| f(x.clone()) * x.clone() + f(f(x.clone())) - x;
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

/// Numbers of a tensor that look random.
fn matrix_of(rows: usize, columns: usize, seed: u64, device: &Device) -> Tensor<2> {
    let mut random = hark_work::random::Random::new(seed);
    let numbers: Vec<f32> = (0..rows * columns).map(|_| random.signed() as f32).collect();
    Tensor::from_data(TensorData::new(numbers, [rows, columns]), device)
}

fn vector_of(count: usize, seed: u64, device: &Device) -> Param<Tensor<1>> {
    Param::from_tensor(matrix_of(1, count, seed, device).reshape([count]))
}

/// The values of two ways to compute the same, and the gradients by all `inputs` of a weighted sum of them.
fn assert_same(
    inputs: &[Tensor<2>],
    ours: impl Fn(&[Tensor<2>]) -> Tensor<2>,
    theirs: impl Fn(&[Tensor<2>]) -> Tensor<2>,
    allowed: f32,
) {
    let of = |f: &dyn Fn(&[Tensor<2>]) -> Tensor<2>| {
        let inputs: Vec<Tensor<2>> = inputs.iter().map(|x| x.clone().require_grad()).collect();
        let out = f(&inputs);
        let [rows, columns] = out.dims();
        let weights = matrix_of(rows, columns, 99, &out.device());
        let grads = (out.clone() * weights).sum().backward();
        let mut all = vec![numbers(out.inner())];
        all.extend(
            inputs
                .iter()
                .map(|x| x.grad(&grads).map(numbers).unwrap_or_default()),
        );
        all
    };
    for (ours, theirs) in of(&ours).iter().zip(of(&theirs)) {
        assert_close(ours, &theirs, allowed);
    }
}

#[test]
fn a_linear_layer_equals_burns() {
    let device = Device::flex().autodiff();
    for (rows, input, output) in [(1, 1, 1), (5, 7, 3), (70, 130, 45), (40, 400, 20)] {
        let inputs = [
            matrix_of(rows, input, 1, &device),
            matrix_of(input, output, 2, &device),
            matrix_of(1, output, 3, &device),
        ];
        let layer = |x: &[Tensor<2>]| {
            let bias = Param::from_tensor(x[2].clone().reshape([output]));
            Linear::new(Param::from_tensor(x[1].clone()), Some(bias))
        };
        // Sums of up to 400 products of at most 1, each rounded.
        let composed = |x: &[Tensor<2>]| x[0].clone().matmul(x[1].clone()) + x[2].clone();
        let fused = |x: &[Tensor<2>]| {
            Tensor::from_dispatch(<Dispatch as Fused>::fused_linear(
                x[0].clone().into_dispatch(),
                x[1].clone().into_dispatch(),
                x[2].clone().reshape([output]).into_dispatch(),
            ))
        };
        assert_same(&inputs, fused, composed, 3e-5);
        // And through the layer, as the towers call it, packed and not.
        let plain = [
            inputs[0].clone().inner(),
            inputs[1].clone().inner(),
            inputs[2].clone().inner(),
        ];
        let mut layer = layer(&plain);
        let whole = numbers(linear(plain[0].clone(), &layer));
        assert_close(&whole, &numbers(composed(&plain)), 3e-5);
        layer.pack(kernels::Precision::F32);
        assert_eq!(numbers(linear(plain[0].clone(), &layer)), whole);
    }
}

#[test]
fn a_frozen_layer_gets_no_gradient() {
    let device = Device::flex().autodiff();
    let weight = Param::from_tensor(matrix_of(4, 3, 1, &device)).set_require_grad(false);
    let layer = Linear::new(weight, Some(vector_of(3, 2, &device)));
    let x = matrix_of(5, 4, 3, &device).require_grad();
    let grads = linear(x.clone(), &layer).sum().backward();
    assert!(layer.weight.val().grad(&grads).is_none());
    assert_eq!(numbers(layer.bias.unwrap().val().grad(&grads).unwrap()), [5.0; 3]);
    assert!(x.grad(&grads).is_some());
}

#[test]
fn a_norm_equals_its_composed_form() {
    let device = Device::flex().autodiff();
    for (rows, width) in [(1, 2), (7, 33), (90, 128)] {
        let inputs = [
            matrix_of(rows, width, 1, &device),
            matrix_of(1, width, 2, &device),
            matrix_of(1, width, 3, &device),
        ];
        let epsilon = 1e-5;
        let fused = |x: &[Tensor<2>]| {
            Tensor::from_dispatch(<Dispatch as Fused>::fused_norm(
                x[0].clone().into_dispatch(),
                x[1].clone().reshape([width]).into_dispatch(),
                x[2].clone().reshape([width]).into_dispatch(),
                epsilon as f32,
            ))
        };
        let composed = |x: &[Tensor<2>]| {
            let centred = x[0].clone() - x[0].clone().mean_dim(1);
            let variance = centred.clone().powi_scalar(2).mean_dim(1);
            centred / variance.add_scalar(epsilon).sqrt() * x[1].clone() + x[2].clone()
        };
        assert_same(&inputs, fused, composed, 1e-4);
    }
}

#[test]
fn a_residual_sum_equals_its_composed_form() {
    use crate::dropout::{Dropout, Site, Training};
    let device = Device::flex().autodiff();
    let rows: Arc<[usize]> = vec![3, 1, 5].into();
    let training = Training::new(4, vec![8, 2, 5]);
    let dropout = Dropout {
        training: &training,
        hidden: 0.3,
        attention: 0.0,
        sent: None,
    };
    let inputs = [matrix_of(9, 40, 1, &device), matrix_of(9, 40, 2, &device)];
    let mask = dropout.hidden(2, Site::FeedForward, &rows).unwrap();
    let fused = |x: &[Tensor<2>]| residual(x[0].clone(), x[1].clone(), Some(mask.clone()));
    assert_same(&inputs, fused, |x| x[0].clone() + mask.drop(x[1].clone()), 1e-6);
    let plain = |x: &[Tensor<2>]| residual(x[0].clone(), x[1].clone(), None);
    assert_same(&inputs, plain, |x| x[0].clone() + x[1].clone(), 1e-6);
    // A tensor that is added to itself.
    let twice = |x: &[Tensor<2>]| residual(x[0].clone(), x[0].clone(), None) + x[1].clone();
    assert_same(&inputs, twice, |x| x[0].clone() * 2.0 + x[1].clone(), 1e-6);
}

#[test]
fn a_convolution_equals_burns() {
    let device = Device::flex().autodiff();
    for (items, inputs, outputs, height, width) in [(1, 1, 1, 3, 3), (5, 3, 4, 9, 14), (9, 16, 20, 8, 21)] {
        let sizes = [inputs * height * width, inputs * 9, outputs];
        let all = [
            matrix_of(items, sizes[0], 1, &device),
            matrix_of(outputs, sizes[1], 2, &device),
            matrix_of(1, outputs, 3, &device),
        ];
        let parts = |x: &[Tensor<2>]| {
            (
                x[0].clone().reshape([items, inputs, height, width]),
                x[1].clone().reshape([outputs, inputs, 3, 3]),
                x[2].clone().reshape([outputs]),
            )
        };
        let flat = |x: Tensor<4>| {
            let count = x.dims().iter().skip(1).product();
            x.reshape([items, count])
        };
        let fused = |x: &[Tensor<2>]| {
            let (x, weight, bias) = parts(x);
            flat(convolution(x, weight, bias, 2, 1))
        };
        let composed = |x: &[Tensor<2>]| {
            let (x, weight, bias) = parts(x);
            let options = ConvOptions::new([2, 2], [1, 1], [1, 1], 1);
            flat(activation::relu(conv2d(x, weight, Some(bias), options)))
        };
        // Sums of up to 16 * 9 products, and for the weights over all places of 9 items.
        assert_same(&all, fused, composed, 3e-4);
    }
}

#[test]
fn no_numbers_are_no_trouble() {
    let device = Device::flex().autodiff();
    assert!(numbers(gelu(vector(&[], &Device::flex()))).is_empty());
    assert!(gradient_of(gelu, vector(&[], &device), vector(&[], &device)).is_empty());
}
