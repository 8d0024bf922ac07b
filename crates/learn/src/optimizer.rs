//! AdamW (Loshchilov and Hutter 2019), as PyTorch computes it, and the clipping of gradients by their norm.
//!
//! ```text
//! θ ← θ - η λ θ
//! m ← β₁ m + (1 - β₁) g,   v ← β₂ v + (1 - β₂) g²
//! θ ← θ - η (m / (1 - β₁ᵗ)) / (√(v / (1 - β₂ᵗ)) + ε)
//! ```
//!
//! Moments are kept by the name of the parameter, so that they survive in a file: the library's own ids of parameters
//! are new in every process. On the CPU all of an element's work is done in one pass over the numbers; elsewhere the device
//! computes the same formula.

mod device;

use std::collections::BTreeMap;

use burn::module::Module;
use hark_encode::weights_file;
use hark_kernels::AdamStep;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::recipe::wrong;
pub use crate::values::{Gradients, Values};

/// The optimizer's settings; the default is the paper's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct AdamWConfig {
    /// How much of the first moment stays.
    pub beta_1: f32,
    /// How much of the second moment stays.
    pub beta_2: f32,
    /// Added to the root of the second moment.
    pub epsilon: f32,
    /// How much of a weight goes in a step, times the rate.
    pub weight_decay: f32,
}

impl Default for AdamWConfig {
    fn default() -> Self {
        Self {
            beta_1: 0.9,
            beta_2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.0,
        }
    }
}

impl AdamWConfig {
    /// That the numbers make an optimizer.
    ///
    /// # Errors
    /// Which of them does not, and what it may be.
    pub fn check(&self) -> Result<(), Error> {
        if !(0.0..1.0).contains(&self.beta_1) {
            return wrong("training.optimizer.beta-1", self.beta_1, "from 0 up to 1");
        }
        if !(0.0..1.0).contains(&self.beta_2) {
            return wrong("training.optimizer.beta-2", self.beta_2, "from 0 up to 1");
        }
        if !(self.epsilon > 0.0 && self.epsilon.is_finite()) {
            return wrong("training.optimizer.epsilon", self.epsilon, "above 0");
        }
        if !(self.weight_decay >= 0.0 && self.weight_decay.is_finite()) {
            return wrong(
                "training.optimizer.weight-decay",
                self.weight_decay,
                "a number from 0",
            );
        }
        Ok(())
    }
}

/// The two moments of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    /// Running mean of the gradient.
    pub first: Values,
    /// Running mean of its square.
    pub second: Values,
}

/// The optimizer and its state.
#[derive(Debug, Clone, PartialEq)]
pub struct AdamW {
    config: AdamWConfig,
    /// Steps done.
    pub steps: u64,
    /// By the name of the parameter.
    pub moments: BTreeMap<String, Moments>,
}

impl AdamW {
    /// An optimizer that has done no step.
    pub fn new(config: AdamWConfig) -> Self {
        Self {
            config,
            steps: 0,
            moments: BTreeMap::new(),
        }
    }

    /// One step with gradients times `scale`. `rate` gives the learning rate of a parameter by its name. Parameters without a
    /// gradient stay as they are. Everything stays where it is: in memory, or on the device.
    ///
    /// # Errors
    /// [`hark_encode::Error`] if a gradient does not have its parameter's size, which is a fault of the program.
    pub fn step<M: Module>(
        &mut self,
        network: M,
        gradients: &Gradients,
        scale: f32,
        rate: &dyn Fn(&str) -> f64,
    ) -> Result<M, Error> {
        self.steps += 1;
        let t = i32::try_from(self.steps).unwrap_or(i32::MAX);
        let config = self.config;
        let (beta_1, beta_2) = (f64::from(config.beta_1), f64::from(config.beta_2));
        let correction_1 = 1.0 - beta_1.powi(t);
        let correction_2 = (1.0 - beta_2.powi(t)).sqrt();
        let step_of = |name: &str| {
            let rate = rate(name);
            AdamStep {
                scale,
                beta_1: config.beta_1,
                beta_2: config.beta_2,
                epsilon: config.epsilon,
                kept: (1.0 - rate * f64::from(config.weight_decay)) as f32,
                step: (rate / correction_1) as f32,
                root: correction_2 as f32,
            }
        };
        let moments = &mut self.moments;
        let mut moments_of = |name: &str, gradient: &Values, shape: &[usize]| {
            if gradient.len() != shape.iter().product::<usize>() {
                return Err(hark_encode::Error::InputShape {
                    what: "gradient",
                    expected: shape.to_vec(),
                    got: vec![gradient.len()],
                });
            }
            let fresh = || Moments {
                first: gradient.zeros_like(),
                second: gradient.zeros_like(),
            };
            Ok(moments.remove(name).unwrap_or_else(fresh))
        };
        let mut after = Vec::new();
        let on_device = gradients
            .iter()
            .any(|(_, gradient)| matches!(gradient, Values::Device(_)));
        let network = if on_device {
            weights_file::update_tensors(network, &mut |name, tensor| {
                let Some(gradient) = gradients.get(name) else {
                    return Ok(tensor);
                };
                let shape = tensor.dims();
                let moments = moments_of(name, gradient, &shape)?;
                let (Values::Device(first), Values::Device(second), Values::Device(gradient)) =
                    (moments.first, moments.second, gradient)
                else {
                    unreachable!("a parameter's numbers are in one place");
                };
                let state = device::State {
                    numbers: tensor,
                    first,
                    second,
                };
                let state = device::run(&step_of(name), state, gradient.clone());
                let moments = Moments {
                    first: Values::Device(state.first),
                    second: Values::Device(state.second),
                };
                after.push((name.to_owned(), moments));
                Ok(state.numbers)
            })?
        } else {
            weights_file::update(network, &mut |name, shape, before| {
                let mut numbers = before();
                let Some(gradient) = gradients.get(name) else {
                    return Ok(numbers);
                };
                let mut moments = moments_of(name, gradient, shape)?;
                let (Values::Memory(first), Values::Memory(second), Values::Memory(gradient)) =
                    (&mut moments.first, &mut moments.second, gradient)
                else {
                    unreachable!("a parameter's numbers are in one place");
                };
                step_of(name).run(&mut numbers, first, second, gradient);
                after.push((name.to_owned(), moments));
                Ok(numbers)
            })?
        };
        self.moments.extend(after);
        Ok(network)
    }
}

/// What gradients of this norm are multiplied by so that it is at most `most`, as PyTorch's `clip_grad_norm_` does.
pub fn clip_factor(norm: f64, most: f64) -> f32 {
    let factor = most / (norm + 1e-6);
    if factor < 1.0 { factor as f32 } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::module::Param;
    use burn::tensor::{Tensor, TensorData};
    use hark_work::random::{Random, key};

    /// More than two pieces, the last of them not full.
    const LONG: usize = 2 * (1 << 14) + 777;

    #[derive(Module, Debug)]
    struct Two {
        long: Param<Tensor<1>>,
        table: Param<Tensor<2>>,
    }

    fn random(seed: u64, count: usize) -> Vec<f32> {
        let mut random = Random::new(key(&[seed]));
        (0..count).map(|_| random.normal() as f32).collect()
    }

    fn two() -> Two {
        let device = hark_encode::Compute::cpu(1).device().clone();
        let table = TensorData::new(random(2, 6), [2, 3]);
        Two {
            long: Param::from_tensor(Tensor::from_data(
                TensorData::new(random(1, LONG), [LONG]),
                &device,
            )),
            table: Param::from_tensor(Tensor::from_data(table, &device)),
        }
    }

    fn numbers(network: &Two, name: &str) -> Vec<f32> {
        let all = weights_file::parameters(network);
        (all.iter().find(|stored| stored.name == name).unwrap().numbers)()
    }

    /// Gradients of sizes from 1e-6 to 1e3, and some that are 0.
    fn gradients(step: u64) -> Gradients {
        let sized = |seed, count| {
            let mut numbers = random(seed, count);
            for (at, x) in numbers.iter_mut().enumerate() {
                *x *= 10_f32.powi(at as i32 % 10 - 6) * f32::from(u8::from(at % 11 != 3));
            }
            numbers
        };
        Gradients::from_iter([
            ("long".to_owned(), sized(10 + step, LONG)),
            ("table".to_owned(), sized(20 + step, 6)),
        ])
    }

    fn config() -> AdamWConfig {
        AdamWConfig {
            weight_decay: 0.1,
            ..AdamWConfig::default()
        }
    }

    /// Rates that differ between parameters and steps.
    fn rate(step: u64, name: &str) -> f64 {
        0.01 / (1 + step) as f64 * if name == "table" { 0.5 } else { 1.0 }
    }

    fn steps(count: u64) -> (Two, AdamW) {
        let (mut network, mut optimizer) = (two(), AdamW::new(config()));
        for step in 0..count {
            network = optimizer
                .step(network, &gradients(step), 1.0, &|name| rate(step, name))
                .unwrap();
        }
        (network, optimizer)
    }

    /// The module's formula, one number at a time, in 64 bits.
    #[test]
    fn steps_are_those_of_the_formula() {
        let (network, optimizer) = steps(6);
        assert_eq!(optimizer.steps, 6);
        let config = config();
        let (beta_1, beta_2) = (f64::from(config.beta_1), f64::from(config.beta_2));
        for name in ["long", "table"] {
            let (start, ours) = (numbers(&two(), name), numbers(&network, name));
            let all: Vec<Vec<f32>> = (0..6)
                .map(|step| gradients(step).get(name).unwrap().to_vec())
                .collect();
            let moments = &optimizer.moments[name];
            let (first, second) = (moments.first.to_vec(), moments.second.to_vec());
            for at in 0..start.len() {
                let (mut x, mut m, mut v) = (f64::from(start[at]), 0.0_f64, 0.0_f64);
                for (step, gradient) in all.iter().enumerate() {
                    let (g, rate) = (f64::from(gradient[at]), rate(step as u64, name));
                    let t = step as i32 + 1;
                    x -= rate * f64::from(config.weight_decay) * x;
                    m = beta_1 * m + (1.0 - beta_1) * g;
                    v = beta_2 * v + (1.0 - beta_2) * g * g;
                    let step = m / (1.0 - beta_1.powi(t));
                    let size = (v / (1.0 - beta_2.powi(t))).sqrt() + f64::from(config.epsilon);
                    x -= rate * step / size;
                }
                // Six steps of at most a few roundings each, of numbers up to 4.
                let near = |ours: f32, exact: f64, size: f64| (f64::from(ours) - exact).abs() <= 1e-6 * size;
                assert!(
                    near(ours[at], x, x.abs().max(1.0)),
                    "{name} {at}: {} {x}",
                    ours[at]
                );
                let largest = all.iter().map(|g| f64::from(g[at].abs())).fold(0.0, f64::max);
                assert!(near(first[at], m, largest), "{name} {at}");
                assert!(near(second[at], v, v), "{name} {at}");
            }
        }
    }

    #[test]
    fn the_number_of_threads_changes_no_bit() {
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            pool.install(|| {
                let (network, optimizer) = steps(2);
                (
                    numbers(&network, "long"),
                    optimizer,
                    gradients(0).norm().to_bits(),
                )
            })
        };
        let alone = on(1);
        for threads in [2, 5] {
            assert!(on(threads) == alone, "{threads} threads");
        }
    }

    #[test]
    fn a_parameter_without_a_gradient_stays() {
        let mut gradients = gradients(0);
        gradients.remove("table");
        let mut optimizer = AdamW::new(config());
        let network = optimizer.step(two(), &gradients, 1.0, &|_| 0.1).unwrap();
        assert_eq!(numbers(&network, "table"), numbers(&two(), "table"));
        assert_ne!(numbers(&network, "long"), numbers(&two(), "long"));
        assert_eq!(optimizer.moments.keys().collect::<Vec<_>>(), ["long"]);
    }

    #[test]
    fn a_gradient_of_another_size_is_refused() {
        let gradients = Gradients::from_iter([("table".to_owned(), vec![1.0; 5])]);
        let error = AdamW::new(config())
            .step(two(), &gradients, 1.0, &|_| 0.1)
            .unwrap_err()
            .to_string();
        assert!(error.contains("[5]") && error.contains("[2, 3]"), "{error}");
    }

    #[test]
    fn clipping_scales_as_pytorch_does_and_leaves_small_gradients_alone() {
        for most in [5.1, 5.000_001, 1e9] {
            assert!((clip_factor(5.0, most) - 1.0).abs() < f32::EPSILON, "{most}");
        }
        for most in [5.0, 4.0, 1e-3] {
            let factor = clip_factor(5.0, most);
            assert!((f64::from(factor) - most / (5.0 + 1e-6)).abs() < 1e-7);
            assert!(5.0 * f64::from(factor) < most);
        }
    }

    /// A step with gradients times a number is the step with gradients that were multiplied before.
    #[test]
    fn gradients_are_scaled_within_the_step() {
        let halved: Gradients = gradients(0)
            .iter()
            .map(|(name, values)| {
                (
                    name.to_owned(),
                    values.to_vec().into_iter().map(|x| 0.5 * x).collect::<Vec<_>>(),
                )
            })
            .collect();
        let mut within = AdamW::new(config());
        let mut before = within.clone();
        let ours = within.step(two(), &gradients(0), 0.5, &|_| 0.1).unwrap();
        let theirs = before.step(two(), &halved, 1.0, &|_| 0.1).unwrap();
        assert_eq!(numbers(&ours, "long"), numbers(&theirs, "long"));
        assert!(within == before);
    }

    #[test]
    fn settings_that_make_no_optimizer_are_refused() {
        assert!(AdamWConfig::default().check().is_ok());
        let refuse = |change: &dyn Fn(&mut AdamWConfig), option: &str| {
            let mut config = AdamWConfig::default();
            change(&mut config);
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(option), "{error}");
        };
        refuse(&|config| config.beta_1 = 1.0, "beta-1");
        refuse(&|config| config.beta_2 = f32::NAN, "beta-2");
        refuse(&|config| config.epsilon = 0.0, "epsilon");
        refuse(&|config| config.weight_decay = f32::INFINITY, "weight-decay");
    }
}
