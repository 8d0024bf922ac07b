//! The resampler's filter by Fourier transforms, for ratios of small numbers.
//!
//! In: samples in blocks of any size. Out: the same as from the inner products in `resample`, several times faster.
//!
//! With M input samples for L output samples, P M samples are transformed, multiplied by the low-pass, cut or filled up to the
//! spectrum of P L samples, and transformed back (overlap-save). The low-pass is even around time 0, so its spectrum is
//! real and there is no delay; it reaches over both ends of the block, where the outputs of G L samples are left out. The next
//! block begins (P - G) M samples later. Two blocks at a time are the real and the imaginary part of one transform: the
//! low-pass is real, so they do not mix, and no real transform has to be made of a complex one.
//!
//! Filters and transforms for a ratio are kept for the next file with this ratio: to make them takes as long as to resample
//! seconds of sound. They are constants, so this changes no result.

use std::sync::{Arc, Mutex, PoisonError};

use realfft::RealFftPlanner;
use realfft::num_complex::Complex;
use rustfft::{Fft, FftPlanner};

/// Transforms are at least this long on their longer side, so that little of a block is left out.
const LEAST_LENGTH: usize = 4096;

/// Transforms are not made longer; ratios that would need it are left to inner products.
const MAX_LENGTH: usize = 1 << 16;

/// Ratios that are kept. Recordings of one collection have a few; files with rates of their own must not fill the memory.
const MAX_KEPT: usize = 16;

/// The filter for one ratio.
pub(crate) struct Filter {
    sizes: Sizes,
    forward: Arc<dyn Fft<f32>>,
    backward: Arc<dyn Fft<f32>>,
    /// The low-pass and the transforms' scale, for the bins below the lower Nyquist frequency.
    response: Vec<f32>,
}

/// How a signal is cut into blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sizes {
    /// Input samples and output samples per period of the ratio: M and L.
    step: usize,
    denominator: usize,
    /// Periods of a block, and those of them that are left out: P and G.
    periods: usize,
    guard: usize,
}

impl Sizes {
    /// For `step` input samples per `denominator` output samples and a filter that reaches over `half` input samples to
    /// either side; `None` if transforms would be too long.
    pub(crate) fn new(step: u64, denominator: u64, half: usize) -> Option<Self> {
        let (step, denominator) = (usize::try_from(step).ok()?, usize::try_from(denominator).ok()?);
        let most = MAX_LENGTH / step.max(denominator);
        // Outputs that are left out are split between the two ends, and each end has to be as long as the filter reaches.
        let guard = (1..=most).find(|guard| guard * denominator / 2 * step >= half * denominator)?;
        let least = LEAST_LENGTH.div_ceil(step.max(denominator));
        // Few small factors make fast transforms. A quarter left out is a fair price for shorter ones.
        let smooth = (0..)
            .map(|n| (2 + n % 2) << (n / 2))
            .take_while(|&periods| periods <= most);
        let mut enough = smooth.filter(|&periods| periods >= 2 * guard);
        let largest = enough.clone().last()?;
        let periods = enough
            .find(|&periods| periods >= least.max(4 * guard))
            .unwrap_or(largest);
        Some(Self {
            step,
            denominator,
            periods,
            guard,
        })
    }

    /// Lengths of the transforms.
    fn lengths(&self) -> (usize, usize) {
        (self.periods * self.step, self.periods * self.denominator)
    }

    /// Input and output samples from one block to the next.
    fn hops(&self) -> (usize, usize) {
        let kept = self.periods - self.guard;
        (kept * self.step, kept * self.denominator)
    }

    /// Outputs that are left out at the beginning of a block.
    fn first(&self) -> usize {
        self.guard * self.denominator / 2
    }
}

/// The filters of the ratios that were met last.
struct Kept(Mutex<Vec<Arc<Filter>>>);

impl Kept {
    fn get(&self, sizes: Sizes, taps: impl FnOnce() -> Vec<f64>) -> Arc<Filter> {
        // Nothing that may panic runs under the lock.
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(filter) = kept().iter().find(|filter| filter.sizes == sizes) {
            return Arc::clone(filter);
        }
        let filter = Arc::new(Filter::new(sizes, &taps()));
        let mut kept = kept();
        if kept.len() >= MAX_KEPT {
            kept.remove(0);
        }
        kept.push(Arc::clone(&filter));
        filter
    }
}

impl Filter {
    /// The filter for these sizes, of `taps` unless it is kept from an earlier call. There are an odd number of taps, even
    /// around their middle, which reach no farther than the sizes were made for. They must follow from the sizes.
    pub(crate) fn shared(sizes: Sizes, taps: impl FnOnce() -> Vec<f64>) -> Arc<Self> {
        static KEPT: Kept = Kept(Mutex::new(Vec::new()));
        KEPT.get(sizes, taps)
    }

    fn new(sizes: Sizes, taps: &[f64]) -> Self {
        let (from, to) = sizes.lengths();
        let mut planner = FftPlanner::new();
        Self {
            sizes,
            forward: planner.plan_fft_forward(from),
            backward: planner.plan_fft_inverse(to),
            response: response(from, to, taps),
        }
    }
}

/// The filter's spectrum, computed in `f64`. The bin of the lower Nyquist frequency, at which the stop band begins, is left
/// out together with all above it.
fn response(from: usize, to: usize, taps: &[f64]) -> Vec<f32> {
    let plan = RealFftPlanner::<f64>::new().plan_fft_forward(from);
    let (mut circle, mut bins) = (plan.make_input_vec(), plan.make_output_vec());
    let middle = taps.len() / 2;
    for (i, tap) in taps.iter().enumerate() {
        circle[(from + i - middle) % from] += tap / from as f64;
    }
    let done = plan.process(&mut circle, &mut bins);
    debug_assert!(done.is_ok());
    let below = from.min(to).div_ceil(2);
    bins.iter().take(below).map(|bin| bin.re as f32).collect()
}

/// One signal on its way through a filter.
pub(crate) struct Blocks {
    filter: Arc<Filter>,
    /// The input of two blocks, which overlap.
    input: Vec<f32>,
    filled: usize,
    samples: Vec<Complex<f32>>,
    spectrum: Vec<Complex<f32>>,
    shaped: Vec<Complex<f32>>,
    output: Vec<Complex<f32>>,
    scratch: Vec<Complex<f32>>,
    /// Output samples before the beginning of the signal that are still to be left out.
    skip: usize,
}

impl Blocks {
    pub(crate) fn new(filter: Arc<Filter>) -> Self {
        let (from, to) = filter.sizes.lengths();
        let scratch = filter
            .forward
            .get_outofplace_scratch_len()
            .max(filter.backward.get_outofplace_scratch_len());
        let zeros = |count: usize| vec![Complex::default(); count];
        let mut blocks = Self {
            input: vec![0.0; from + filter.sizes.hops().0],
            filled: 0,
            samples: zeros(from),
            spectrum: zeros(from),
            shaped: zeros(to),
            output: zeros(to),
            scratch: zeros(scratch),
            skip: 0,
            filter,
        };
        blocks.reset();
        blocks
    }

    /// Back to the beginning of a signal: the first output that is kept stands at time 0 or less than a period before it.
    pub(crate) fn reset(&mut self) {
        let sizes = &self.filter.sizes;
        let periods = sizes.first().div_ceil(sizes.denominator);
        self.filled = periods * sizes.step;
        self.skip = periods * sizes.denominator - sizes.first();
        self.input[..self.filled].fill(0.0);
    }

    /// Input and output samples from one pair of blocks to the next: pairs that begin at the same samples have the same bits.
    pub(crate) fn hops(&self) -> (usize, usize) {
        let (input, output) = self.filter.sizes.hops();
        (2 * input, 2 * output)
    }

    pub(crate) fn push(&mut self, mut block: &[f32], out: &mut Vec<f32>) {
        while !block.is_empty() {
            let (now, after) = block.split_at(block.len().min(self.input.len() - self.filled));
            self.input[self.filled..self.filled + now.len()].copy_from_slice(now);
            self.filled += now.len();
            block = after;
            if self.filled == self.input.len() {
                self.transform(out);
            }
        }
    }

    /// Completes the blocks with silence and gives what they hold.
    pub(crate) fn flush(&mut self, out: &mut Vec<f32>) {
        self.input[self.filled..].fill(0.0);
        self.transform(out);
    }

    fn transform(&mut self, out: &mut Vec<f32>) {
        let Filter {
            sizes,
            forward,
            backward,
            response,
        } = &*self.filter;
        let (hop, kept) = sizes.hops();
        let pairs = self.input.iter().zip(&self.input[hop..]);
        for (sample, (&one, &other)) in self.samples.iter_mut().zip(pairs) {
            *sample = Complex::new(one, other);
        }
        forward.process_outofplace_with_scratch(&mut self.samples, &mut self.spectrum, &mut self.scratch);
        self.shaped.fill(Complex::default());
        let shape = |shaped: &mut Complex<f32>, bin: &Complex<f32>, factor: f32| *shaped = bin * factor;
        for ((shaped, bin), &factor) in self.shaped.iter_mut().zip(&self.spectrum).zip(response) {
            shape(shaped, bin, factor);
        }
        // Frequencies below zero, from -1 downwards.
        let below_zero = self.shaped.iter_mut().rev().zip(self.spectrum.iter().rev());
        for ((shaped, bin), &factor) in below_zero.zip(&response[1..]) {
            shape(shaped, bin, factor);
        }
        backward.process_outofplace_with_scratch(&mut self.shaped, &mut self.output, &mut self.scratch);
        let output = &self.output[sizes.first()..][..kept];
        // No more than a period, so the second block has nothing to leave out.
        let heard = &output[std::mem::take(&mut self.skip)..];
        out.extend(heard.iter().map(|sample| sample.re));
        out.extend(output.iter().map(|sample| sample.im));
        self.input.copy_within(2 * hop.., 0);
        self.filled = self.input.len() - 2 * hop;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_cut_so_that_the_filter_reaches_over_no_end() {
        for (step, denominator, half) in [
            (441, 320, 144),
            (3, 2, 156),
            (441, 1280, 104),
            (320, 441, 104),
            (3, 1, 312),
            (1, 4, 104),
            (24, 1, 2496),
            (147, 160, 104),
        ] {
            let sizes = Sizes::new(step, denominator, half).unwrap();
            let (from, to) = sizes.lengths();
            assert!(
                from.max(to) <= MAX_LENGTH && sizes.guard * 2 <= sizes.periods,
                "{sizes:?}"
            );
            // In units of 1 / `denominator` input samples: the first output that is kept, and the last.
            let (step, denominator, reach) =
                (step as usize, denominator as usize, half * denominator as usize);
            let first = sizes.first() * step;
            let last = (sizes.first() + sizes.hops().1 - 1) * step;
            assert!(first >= reach, "{sizes:?}");
            assert!(last + reach <= from * denominator, "{sizes:?}");
        }
        assert_eq!(Sizes::new(44_101, 32_000, 144), None);
        assert_eq!(Sizes::new(767_999, 1_000, 100_000), None);
    }

    #[test]
    fn kept_filters_are_few() {
        let kept = Kept(Mutex::default());
        let filter = |n: u64| {
            let sizes = Sizes::new(100 + n, 101 + n, 32).unwrap();
            kept.get(sizes, || vec![0.0, 1.0, 0.0])
        };
        let first = filter(0);
        assert!(Arc::ptr_eq(&first, &filter(0)));
        for n in 1..=MAX_KEPT as u64 {
            assert!(Arc::ptr_eq(&filter(n), &filter(n)));
        }
        assert!(!Arc::ptr_eq(&first, &filter(0)));
    }
}
