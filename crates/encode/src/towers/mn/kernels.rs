//! The loops of a folded MN for the vector unit; this folder's one place with `unsafe`.
//!
//! Maps are `[height, width, channels]`. Every loop is over channels, in blocks of as many as a register or two hold. There
//! are versions for AVX-512, for AVX2 with FMA and for all others; with FMA products and sums round once.

#![allow(unsafe_code)]
// The loops must be inlined into the function that is compiled for the vector unit: that is their whole point.
#![allow(clippy::inline_always)]

/// Places of a row that a depthwise convolution computes at a time: their sums share the weights that are loaded.
const PLACES: usize = 4;

/// What follows a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activation {
    None,
    Relu,
    HardSwish,
}

impl Activation {
    #[inline(always)]
    fn of(self, x: f32) -> f32 {
        match self {
            Self::None => x,
            Self::Relu => x.max(0.0),
            Self::HardSwish => x * ((x + 3.0).clamp(0.0, 6.0) * (1.0 / 6.0)),
        }
    }
}

/// A convolution with a kernel for each channel, or of one channel to many. It is padded with zeros by half a kernel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Convolution {
    /// Size of the input.
    pub(super) height: usize,
    pub(super) width: usize,
    /// Channels of the output.
    pub(super) channels: usize,
    /// Whether the input has one channel, which goes into all of the output.
    pub(super) spread: bool,
    pub(super) kernel: usize,
    pub(super) stride: usize,
}

impl Convolution {
    /// Height and width of the output.
    pub(super) fn output(&self) -> [usize; 2] {
        [self.height, self.width].map(|size| (size - 1) / self.stride + 1)
    }

    /// The map behind the convolution. `weight` is `[kernel², channels]`.
    ///
    /// # Panics
    /// If a slice is not of the length that the sizes say.
    pub(super) fn forward(
        &self,
        input: &[f32],
        weight: &[f32],
        bias: &[f32],
        activation: Activation,
    ) -> Vec<f32> {
        let inputs = if self.spread { 1 } else { self.channels };
        assert_eq!(input.len(), self.height * self.width * inputs, "the input's size");
        assert_eq!(
            weight.len(),
            self.kernel * self.kernel * self.channels,
            "the weights' size"
        );
        assert_eq!(bias.len(), self.channels, "the bias's size");
        let [height, width] = self.output();
        let mut out = vec![0.0; height * width * self.channels];
        Work::Convolve(self, input, weight, bias, activation, &mut out).run();
        out
    }

    #[inline(always)]
    fn run<const FMA: bool>(
        &self,
        input: &[f32],
        weight: &[f32],
        bias: &[f32],
        activation: Activation,
        out: &mut [f32],
    ) {
        let mut channel = 0;
        while channel < self.channels {
            let left = self.channels - channel;
            if left >= 16 {
                self.block::<16, FMA>(channel, input, weight, bias, activation, out);
                channel += 16;
            } else if left >= 8 {
                self.block::<8, FMA>(channel, input, weight, bias, activation, out);
                channel += 8;
            } else {
                self.block::<1, FMA>(channel, input, weight, bias, activation, out);
                channel += 1;
            }
        }
    }

    /// All places of `N` channels.
    #[inline(always)]
    fn block<const N: usize, const FMA: bool>(
        &self,
        channel: usize,
        input: &[f32],
        weight: &[f32],
        bias: &[f32],
        activation: Activation,
        out: &mut [f32],
    ) {
        let [height, width] = self.output();
        let padding = self.kernel / 2;
        // The places whose kernels lie within a row.
        let inner_from = padding.div_ceil(self.stride).min(width);
        let reach = self.width + padding;
        let inner_to = if reach >= self.kernel {
            ((reach - self.kernel) / self.stride + 1).clamp(inner_from, width)
        } else {
            inner_from
        };
        for y in 0..height {
            let row = &mut out[y * width * self.channels..][..width * self.channels];
            let mut x = 0;
            while x < width {
                if x >= inner_from && x + PLACES <= inner_to {
                    let sums = self.sums::<N, PLACES, FMA>(channel, [y, x], input, weight, bias);
                    for (nth, sums) in sums.iter().enumerate() {
                        store(
                            &mut row[(x + nth) * self.channels + channel..][..N],
                            sums,
                            activation,
                        );
                    }
                    x += PLACES;
                } else {
                    let [sums] = self.sums::<N, 1, FMA>(channel, [y, x], input, weight, bias);
                    store(&mut row[x * self.channels + channel..][..N], &sums, activation);
                    x += 1;
                }
            }
        }
    }

    /// `N` channels of `P` places from `[y, x]` on. With more than one place, their kernels must lie within the row.
    #[inline(always)]
    fn sums<const N: usize, const P: usize, const FMA: bool>(
        &self,
        channel: usize,
        [y, x]: [usize; 2],
        input: &[f32],
        weight: &[f32],
        bias: &[f32],
    ) -> [[f32; N]; P] {
        let padding = self.kernel / 2;
        let mut sums = [[0.0; N]; P];
        for sums in &mut sums {
            sums.copy_from_slice(&bias[channel..][..N]);
        }
        for ky in 0..self.kernel {
            let Some(in_y) = (y * self.stride + ky)
                .checked_sub(padding)
                .filter(|&y| y < self.height)
            else {
                continue;
            };
            for kx in 0..self.kernel {
                let Some(in_x) = (x * self.stride + kx)
                    .checked_sub(padding)
                    .filter(|&x| x < self.width)
                else {
                    continue;
                };
                let weight = &weight[(ky * self.kernel + kx) * self.channels + channel..][..N];
                let place = in_y * self.width + in_x;
                for (nth, sums) in sums.iter_mut().enumerate() {
                    let place = place + nth * self.stride;
                    if self.spread {
                        let input = input[place];
                        for (sum, weight) in sums.iter_mut().zip(weight) {
                            *sum = add::<FMA>(input, *weight, *sum);
                        }
                    } else {
                        let input = &input[place * self.channels + channel..][..N];
                        for ((sum, weight), input) in sums.iter_mut().zip(weight).zip(input) {
                            *sum = add::<FMA>(*input, *weight, *sum);
                        }
                    }
                }
            }
        }
        sums
    }
}

#[inline(always)]
fn store<const N: usize>(out: &mut [f32], sums: &[f32; N], activation: Activation) {
    for (out, &sum) in out.iter_mut().zip(sums) {
        *out = activation.of(sum);
    }
}

#[inline(always)]
fn add<const FMA: bool>(a: f32, b: f32, sum: f32) -> f32 {
    if FMA { a.mul_add(b, sum) } else { a * b + sum }
}

/// Applies the activation.
pub(super) fn activate(numbers: &mut [f32], activation: Activation) {
    if activation != Activation::None {
        Work::Activate(numbers, activation).run();
    }
}

/// Multiplies each row by factors, one for each channel.
pub(super) fn multiply(rows: &mut [f32], factors: &[f32]) {
    Work::Multiply(rows, factors).run();
}

/// One pass.
enum Work<'a> {
    Convolve(
        &'a Convolution,
        &'a [f32],
        &'a [f32],
        &'a [f32],
        Activation,
        &'a mut [f32],
    ),
    Activate(&'a mut [f32], Activation),
    Multiply(&'a mut [f32], &'a [f32]),
}

impl Work<'_> {
    fn run(self) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            if has!("avx512f") && has!("avx512vl") && has!("avx512dq") && has!("fma") {
                // SAFETY: the features that the function is compiled for have just been detected.
                return unsafe { self.run_avx512() };
            }
            if has!("avx2") && has!("fma") {
                // SAFETY: as above.
                return unsafe { self.run_avx2() };
            }
        }
        self.run_loop::<false>();
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,fma")]
    fn run_avx512(self) {
        self.run_loop::<true>();
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn run_avx2(self) {
        self.run_loop::<true>();
    }

    #[inline(always)]
    fn run_loop<const FMA: bool>(self) {
        match self {
            Self::Convolve(convolution, input, weight, bias, activation, out) => match activation {
                // Each activation has loops of its own.
                Activation::None => convolution.run::<FMA>(input, weight, bias, Activation::None, out),
                Activation::Relu => convolution.run::<FMA>(input, weight, bias, Activation::Relu, out),
                Activation::HardSwish => {
                    convolution.run::<FMA>(input, weight, bias, Activation::HardSwish, out);
                }
            },
            Self::Activate(numbers, activation) => match activation {
                Activation::None => {}
                Activation::Relu => activation_loop(numbers, Activation::Relu),
                Activation::HardSwish => activation_loop(numbers, Activation::HardSwish),
            },
            Self::Multiply(rows, factors) => {
                for row in rows.chunks_exact_mut(factors.len()) {
                    for (x, factor) in row.iter_mut().zip(factors) {
                        *x *= factor;
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn activation_loop(numbers: &mut [f32], activation: Activation) {
    for x in numbers {
        *x = activation.of(*x);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize, seed: u64) -> Vec<f32> {
        let mut random = hark_work::random::Random::new(seed);
        (0..count).map(|_| random.signed() as f32).collect()
    }

    /// Place by place, channel by channel, in 64 bits.
    fn plain(c: &Convolution, input: &[f32], weight: &[f32], bias: &[f32]) -> Vec<f32> {
        let [height, width] = c.output();
        let mut out = Vec::new();
        for y in 0..height {
            for x in 0..width {
                for channel in 0..c.channels {
                    let mut sum = f64::from(bias[channel]);
                    for ky in 0..c.kernel {
                        for kx in 0..c.kernel {
                            let at =
                                |place: usize, k: usize| (place * c.stride + k).wrapping_sub(c.kernel / 2);
                            let (iy, ix) = (at(y, ky), at(x, kx));
                            if iy < c.height && ix < c.width {
                                let place = iy * c.width + ix;
                                let x = if c.spread {
                                    input[place]
                                } else {
                                    input[place * c.channels + channel]
                                };
                                let w = weight[(ky * c.kernel + kx) * c.channels + channel];
                                sum += f64::from(x) * f64::from(w);
                            }
                        }
                    }
                    out.push((sum as f32).max(0.0));
                }
            }
        }
        out
    }

    #[test]
    fn a_convolution_equals_the_plain_one() {
        for (height, width) in [(1, 1), (4, 3), (7, 23), (16, 9)] {
            for channels in [1, 8, 24, 45] {
                for kernel in [3, 5] {
                    for (stride, spread) in [(1, false), (2, false), (2, true)] {
                        let c = Convolution {
                            height,
                            width,
                            channels,
                            spread,
                            kernel,
                            stride,
                        };
                        let input = numbers(height * width * if spread { 1 } else { channels }, 1);
                        let weight = numbers(kernel * kernel * channels, 2);
                        let bias = numbers(channels, 3);
                        let got = c.forward(&input, &weight, &bias, Activation::Relu);
                        let expected = plain(&c, &input, &weight, &bias);
                        assert_eq!(got.len(), expected.len());
                        for (got, expected) in got.iter().zip(&expected) {
                            assert!((got - expected).abs() < 1e-5, "{c:?}: {got}, not {expected}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn rows_get_activation_and_factors() {
        let mut rows = vec![-4.0, 3.0, 3.0, 1.0];
        activate(&mut rows, Activation::HardSwish);
        assert_eq!(rows, [0.0, 3.0, 3.0, 1.0 * (4.0 / 6.0)]);
        multiply(&mut rows, &[2.0, -1.0]);
        assert_eq!(rows[..3], [0.0, -3.0, 6.0]);
    }
}
