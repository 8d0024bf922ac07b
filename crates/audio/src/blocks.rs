//! The resampler's filter by Fourier transforms, for ratios of small numbers.
//!
//! In: samples in blocks of any size. Out: the same as from the inner products in `resample`, several times faster. A
//! block of K M input samples is transformed with as many zeros after it, multiplied by the low-pass, cut or filled
//! up to the spectrum of K L output samples, and transformed back; the second half is added to the next block
//! (overlap-add). The low-pass stands in the middle of its block, so that its delay is K M / 2 input samples, which
//! with an even K are K L / 2 output samples exactly; those are left out.

use std::sync::Arc;

use realfft::num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};

/// Blocks are at least this long, so that few of them overlap.
const LEAST_BLOCK: usize = 2048;

/// Transforms are not made longer than twice this; ratios that would need it are left to inner products.
const MAX_BLOCK_LENGTH: usize = 1 << 15;

pub(crate) struct Blocks {
    forward: Arc<dyn RealToComplex<f32>>,
    backward: Arc<dyn ComplexToReal<f32>>,
    /// The low-pass and the transforms' scale, for the bins that input and output share.
    response: Vec<Complex<f32>>,
    /// Input and output samples per block.
    from: usize,
    to: usize,
    input: Vec<f32>,
    filled: usize,
    spectrum: Vec<Complex<f32>>,
    shaped: Vec<Complex<f32>>,
    output: Vec<f32>,
    overlap: Vec<f32>,
    forward_scratch: Vec<Complex<f32>>,
    backward_scratch: Vec<Complex<f32>>,
    /// Output samples of the delay that are still to be left out.
    skip: usize,
}

/// The block sizes for `step` input samples per `denominator` output samples and a filter of `taps`; `None` if they
/// would be too long.
pub(crate) fn sizes(step: u64, denominator: u64, taps: usize) -> Option<(usize, usize)> {
    let (step, denominator) = (step as usize, denominator as usize);
    let for_length = |length: usize| {
        let count = length.div_ceil(step).next_multiple_of(2);
        Some((count * step, count * denominator)).filter(|&(from, to)| from.max(to) <= MAX_BLOCK_LENGTH)
    };
    for_length(taps.max(LEAST_BLOCK)).or_else(|| for_length(taps))
}

impl Blocks {
    /// `filter` has an odd number of taps around its middle, at most `from` + 1 of them.
    pub(crate) fn new(from: usize, to: usize, filter: &[f64]) -> Self {
        let mut planner = RealFftPlanner::<f32>::new();
        let (forward, backward) = (
            planner.plan_fft_forward(2 * from),
            planner.plan_fft_inverse(2 * to),
        );
        let (spectrum, output) = (forward.make_output_vec(), backward.make_output_vec());
        let (input, shaped) = (forward.make_input_vec(), backward.make_input_vec());
        let (forward_scratch, backward_scratch) = (forward.make_scratch_vec(), backward.make_scratch_vec());
        let response = response(from, to, filter);
        let overlap = vec![0.0; to];
        Self {
            forward,
            backward,
            response,
            from,
            to,
            input,
            filled: 0,
            spectrum,
            shaped,
            output,
            overlap,
            forward_scratch,
            backward_scratch,
            skip: to / 2,
        }
    }

    pub(crate) fn push(&mut self, mut block: &[f32], out: &mut Vec<f32>) {
        while !block.is_empty() {
            let (now, after) = block.split_at(block.len().min(self.from - self.filled));
            self.input[self.filled..self.filled + now.len()].copy_from_slice(now);
            self.filled += now.len();
            block = after;
            if self.filled == self.from {
                self.transform(out);
            }
        }
    }

    /// Completes the block with silence and gives what it holds.
    pub(crate) fn flush(&mut self, out: &mut Vec<f32>) {
        self.input[self.filled..self.from].fill(0.0);
        self.transform(out);
    }

    /// Back to the beginning of a signal.
    pub(crate) fn reset(&mut self) {
        self.filled = 0;
        self.skip = self.to / 2;
        self.overlap.fill(0.0);
    }

    fn transform(&mut self, out: &mut Vec<f32>) {
        self.filled = 0;
        self.input[self.from..].fill(0.0);
        // Both transforms fail only on buffers of the wrong length, and these are the planner's own.
        let done =
            self.forward
                .process_with_scratch(&mut self.input, &mut self.spectrum, &mut self.forward_scratch);
        debug_assert!(done.is_ok());
        self.shaped.fill(Complex::default());
        for ((shaped, bin), factor) in self.shaped.iter_mut().zip(&self.spectrum).zip(&self.response) {
            *shaped = bin * factor;
        }
        if let Some(constant) = self.shaped.first_mut() {
            constant.im = 0.0;
        }
        let done = self.backward.process_with_scratch(
            &mut self.shaped,
            &mut self.output,
            &mut self.backward_scratch,
        );
        debug_assert!(done.is_ok());
        let (now, later) = self.output.split_at(self.to);
        let skipped = self.skip.min(self.to);
        self.skip -= skipped;
        out.extend(now.iter().zip(&self.overlap).skip(skipped).map(|(a, b)| a + b));
        self.overlap.copy_from_slice(later);
    }
}

/// The filter's spectrum, computed in `f64`, with its middle at `from` / 2. The bin of the lower Nyquist frequency,
/// at which the stop band begins, is left out together with all above it.
fn response(from: usize, to: usize, filter: &[f64]) -> Vec<Complex<f32>> {
    let plan = RealFftPlanner::<f64>::new().plan_fft_forward(2 * from);
    let (mut taps, mut bins) = (plan.make_input_vec(), plan.make_output_vec());
    let first = from / 2 - filter.len() / 2;
    let scale = 1.0 / (2.0 * from as f64);
    for (tap, value) in taps[first..].iter_mut().zip(filter) {
        *tap = value * scale;
    }
    let done = plan.process(&mut taps, &mut bins);
    debug_assert!(done.is_ok());
    bins.iter()
        .take(from.min(to))
        .map(|bin| Complex::new(bin.re as f32, bin.im as f32))
        .collect()
}
