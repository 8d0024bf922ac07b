//! Attention over sequences of several lengths, and its gradient, without a matrix of weights that is kept.
//!
//! In: query, key and value of every token beside each other, `[tokens of all sequences, 3, heads, head width]`. Out: `[queries of
//! all sequences, heads, head width]`,
//!
//! ```text
//! out = (softmax(s) ∘ m) v      s = q kᵀ / √d + bias
//! ```
//!
//! for each sequence and head, with factors m where weights are dropped. The weights of a block of queries are computed,
//! used and forgotten; what is kept for the gradient is the logarithm of every row's sum. With g the gradient by `out`,
//!
//! ```text
//! p = exp(s - logarithm)     dv = (p ∘ m)ᵀ g      ds = p ∘ (m ∘ g vᵀ - Σ g out)
//! dq = ds k / √d             dk = dsᵀ q / √d
//! ```

// Inlined into functions that are compiled for the vector unit.
#![allow(clippy::inline_always, unsafe_code)]

use rayon::prelude::*;

use crate::gelu::exp;
use crate::lanes::{largest, sum, sum2};
use crate::matrix::Matrix;
use crate::product::serial;
use crate::raw::{Isa, Output, Start, Work, written};

/// Weights that a task holds at a time: they should stay in the second-level cache.
const WEIGHTS: usize = 1 << 15;

/// What the scores of all sequences are added to: number (sequence, head, query, key) is at `sequence * strides[0] + head *
/// strides[1] + query * strides[2] + key`.
#[derive(Debug, Clone, Copy)]
pub struct Bias<'a> {
    /// The numbers.
    pub numbers: &'a [f32],
    /// From one sequence, head and query to the next; 0 where all share one.
    pub strides: [usize; 3],
}

/// Multiplies the weights of a query, given by sequence, head and its place, by 0 or by what keeps their expected value.
pub type Drop<'a> = &'a (dyn Fn(usize, usize, usize, &mut [f32]) + Sync);

/// The sizes and terms of an attention.
#[derive(Clone, Copy)]
pub struct Attention<'a> {
    /// Number of heads.
    pub heads: usize,
    /// Numbers of a head's query, key and value.
    pub head_width: usize,
    /// Tokens of each sequence.
    pub lengths: &'a [usize],
    /// If set, only so many tokens at the beginning of a sequence are queries.
    pub queries: Option<usize>,
    /// Added to the scores.
    pub bias: Option<Bias<'a>>,
    /// Drops weights.
    pub drop: Option<Drop<'a>>,
}

impl std::fmt::Debug for Attention<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attention")
            .field("heads", &self.heads)
            .field("lengths", &self.lengths)
            .finish_non_exhaustive()
    }
}

/// What the forward pass gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Attended {
    /// `[queries of all sequences, heads * head width]`.
    pub out: Vec<f32>,
    /// Logarithm of the sum of exponentials, `[heads, queries of all sequences]`.
    pub logarithms: Vec<f32>,
}

/// One sequence and head.
struct Place {
    sequence: usize,
    head: usize,
    /// The sequence's first token and its first query, among all.
    token: usize,
    query: usize,
    tokens: usize,
    queries: usize,
}

impl Attention<'_> {
    fn width(&self) -> usize {
        self.heads * self.head_width
    }

    fn queries_of(&self, length: usize) -> usize {
        self.queries.map_or(length, |most| length.min(most))
    }

    /// Tokens and queries of all sequences.
    pub fn rows(&self) -> (usize, usize) {
        let queries = self.lengths.iter().map(|&length| self.queries_of(length)).sum();
        (self.lengths.iter().sum(), queries)
    }

    /// Every sequence and head, the heads of a sequence after each other.
    fn places(&self) -> Vec<Place> {
        let (mut token, mut query) = (0, 0);
        let mut places = Vec::with_capacity(self.heads * self.lengths.len());
        for (sequence, &tokens) in self.lengths.iter().enumerate() {
            let queries = self.queries_of(tokens);
            places.extend((0..self.heads).map(|head| Place {
                sequence,
                head,
                token,
                query,
                tokens,
                queries,
            }));
            token += tokens;
            query += queries;
        }
        places
    }

    /// Query (0), key (1) or value (2) of some tokens of a place.
    fn part<'a>(
        &self,
        numbers: &'a [f32],
        part: usize,
        place: &Place,
        tokens: std::ops::Range<usize>,
    ) -> Matrix<'a> {
        let stride = 3 * self.width();
        let first =
            (place.token + tokens.start) * stride + part * self.width() + place.head * self.head_width;
        Matrix::new(&numbers[first..], tokens.len(), self.head_width, stride)
    }

    fn scale(&self) -> f32 {
        1.0 / (self.head_width as f32).sqrt()
    }

    fn bias_row(&self, place: &Place, query: usize) -> Option<&[f32]> {
        self.bias.map(|Bias { numbers, strides }| {
            let first = place.sequence * strides[0] + place.head * strides[1] + query * strides[2];
            &numbers[first..first + place.tokens]
        })
    }

    /// The blocks of queries of a place.
    fn blocks(place: &Place) -> impl Iterator<Item = std::ops::Range<usize>> {
        let (count, rows) = (place.queries, (WEIGHTS / place.tokens.max(1)).max(8));
        (0..count)
            .step_by(rows)
            .map(move |first| first..count.min(first + rows))
    }

    /// The scores of a block of queries without bias and scale.
    fn scores(&self, numbers: &[f32], place: &Place, block: &std::ops::Range<usize>, scores: &mut [f32]) {
        let query = self.part(numbers, 0, place, block.clone());
        let key = self.part(numbers, 1, place, 0..place.tokens);
        let out = Output::new(scores, block.len(), place.tokens, place.tokens);
        serial(query, key.transposed(), Start::Zero, &out);
    }

    /// Attends.
    ///
    /// # Panics
    /// If `numbers` is not query, key and value of all tokens.
    pub fn forward(&self, numbers: &[f32]) -> Attended {
        let (rows, queries) = self.rows();
        let width = self.width();
        assert_eq!(
            numbers.len(),
            rows * 3 * width,
            "query, key and value of all tokens"
        );
        let isa = Isa::here();
        let places = self.places();
        let mut logarithms = vec![0.0; self.heads * queries];
        let logs = Output::new(&mut logarithms, self.heads, queries, queries);
        // SAFETY: every query of every head is written, each by the one task of its sequence and head.
        let out = unsafe {
            written(queries, width, |out| {
                places.par_iter().for_each(|place| {
                    let mut weights = Vec::new();
                    for block in Self::blocks(place) {
                        weights.resize(block.len() * place.tokens, 0.0);
                        self.scores(numbers, place, &block, &mut weights);
                        for (query, row) in block.clone().zip(weights.chunks_exact_mut(place.tokens)) {
                            let bias = self.bias_row(place, query);
                            let log = isa.run(Softmax {
                                row,
                                scale: self.scale(),
                                bias,
                            });
                            logs.part(place.head, 1, place.query + query, 1).row(0)[0] = log;
                            if let Some(drop) = self.drop {
                                drop(place.sequence, place.head, query, row);
                            }
                        }
                        let weights = Matrix::new(&weights, block.len(), place.tokens, place.tokens);
                        let value = self.part(numbers, 2, place, 0..place.tokens);
                        let column = place.head * self.head_width;
                        let out = out.part(place.query + block.start, block.len(), column, self.head_width);
                        serial(weights, value, Start::Zero, &out);
                    }
                });
            })
        };
        Attended { out, logarithms }
    }

    /// The gradient by query, key and value, given what the forward pass gave and the gradient by its output.
    ///
    /// # Panics
    /// If the sizes do not fit together.
    pub fn gradient(&self, numbers: &[f32], out: &[f32], logarithms: &[f32], grad: &[f32]) -> Vec<f32> {
        let (rows, queries) = self.rows();
        let width = self.width();
        assert_eq!(
            numbers.len(),
            rows * 3 * width,
            "query, key and value of all tokens"
        );
        assert_eq!(
            logarithms.len(),
            queries * self.heads,
            "logarithms of all queries"
        );
        assert!(
            out.len() == queries * width && grad.len() == queries * width,
            "output and gradient"
        );
        let isa = Isa::here();
        let places = self.places();
        // Tokens that are no queries get no gradient by their query.
        let mut by_numbers = vec![0.0; numbers.len()];
        let by = Output::new(&mut by_numbers, rows, 3 * width, 3 * width);
        places.par_iter().for_each(|place| {
            let (mut weights, mut by_weights) = (Vec::new(), Vec::new());
            let column = place.head * self.head_width;
            let by_part = |part: usize, tokens: std::ops::Range<usize>| {
                by.part(
                    place.token + tokens.start,
                    tokens.len(),
                    part * width + column,
                    self.head_width,
                )
            };
            let rows_of = |numbers, block: &std::ops::Range<usize>| {
                let first = (place.query + block.start) * width + column;
                let numbers: &[f32] = numbers;
                Matrix::new(&numbers[first..], block.len(), self.head_width, width)
            };
            let row_of = |numbers, query: usize| {
                let first = (place.query + query) * width + column;
                let numbers: &[f32] = numbers;
                &numbers[first..first + self.head_width]
            };
            let value = self.part(numbers, 2, place, 0..place.tokens);
            let key = self.part(numbers, 1, place, 0..place.tokens);
            for block in Self::blocks(place) {
                let size = block.len() * place.tokens;
                weights.resize(size, 0.0);
                by_weights.resize(size, 0.0);
                self.scores(numbers, place, &block, &mut weights);
                let by_block = rows_of(grad, &block);
                let place_of = Output::new(&mut by_weights, block.len(), place.tokens, place.tokens);
                serial(by_block, value.transposed(), Start::Zero, &place_of);
                let lines = weights
                    .chunks_exact_mut(place.tokens)
                    .zip(by_weights.chunks_exact_mut(place.tokens));
                for (query, (row, by_row)) in block.clone().zip(lines) {
                    let log = logarithms[place.head * queries + place.query + query];
                    let bias = self.bias_row(place, query);
                    isa.run(Again {
                        row,
                        scale: self.scale(),
                        bias,
                        log,
                    });
                    if let Some(drop) = self.drop {
                        drop(place.sequence, place.head, query, by_row);
                    }
                    let dot = isa.run(Dot {
                        a: row_of(grad, query),
                        b: row_of(out, query),
                    });
                    isa.run(ByScores {
                        row,
                        by_row,
                        dot,
                        scale: self.scale(),
                    });
                    if let Some(drop) = self.drop {
                        drop(place.sequence, place.head, query, row);
                    }
                }
                let weights = Matrix::new(&weights, block.len(), place.tokens, place.tokens);
                let by_scores = Matrix::new(&by_weights, block.len(), place.tokens, place.tokens);
                let query = self.part(numbers, 0, place, block.clone());
                // The first block finds zeros.
                serial(
                    weights.transposed(),
                    by_block,
                    Start::Keep,
                    &by_part(2, 0..place.tokens),
                );
                serial(
                    by_scores.transposed(),
                    query,
                    Start::Keep,
                    &by_part(1, 0..place.tokens),
                );
                serial(by_scores, key, Start::Zero, &by_part(0, block.clone()));
            }
        });
        by_numbers
    }
}

/// Scores become weights; the logarithm of the sum of their exponentials.
struct Softmax<'a> {
    row: &'a mut [f32],
    scale: f32,
    bias: Option<&'a [f32]>,
}

/// Where the exponential is 0.
const LOWEST: f32 = -120.0;

#[inline(always)]
fn biased(row: &mut [f32], scale: f32, bias: Option<&[f32]>) {
    match bias {
        Some(bias) => row
            .iter_mut()
            .zip(bias)
            .for_each(|(x, bias)| *x = *x * scale + bias),
        None => row.iter_mut().for_each(|x| *x *= scale),
    }
}

impl Work for Softmax<'_> {
    type Result = f32;

    #[inline(always)]
    fn run(self) -> f32 {
        let row = self.row;
        biased(row, self.scale, self.bias);
        let most = largest(row);
        for x in row.iter_mut() {
            *x = exp((*x - most).max(LOWEST));
        }
        let total = sum(row, |x| x);
        let share = 1.0 / total;
        for x in row.iter_mut() {
            *x *= share;
        }
        most + total.ln()
    }
}

/// Scores become weights once more.
struct Again<'a> {
    row: &'a mut [f32],
    scale: f32,
    bias: Option<&'a [f32]>,
    log: f32,
}

impl Work for Again<'_> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        biased(self.row, self.scale, self.bias);
        for x in self.row.iter_mut() {
            *x = exp((*x - self.log).clamp(LOWEST, 0.0));
        }
    }
}

struct Dot<'a> {
    a: &'a [f32],
    b: &'a [f32],
}

impl Work for Dot<'_> {
    type Result = f32;

    #[inline(always)]
    fn run(self) -> f32 {
        sum2(self.a, self.b, |a, b| a * b)
    }
}

/// The gradient by weights becomes that by unscaled scores.
struct ByScores<'a> {
    row: &'a [f32],
    by_row: &'a mut [f32],
    dot: f32,
    scale: f32,
}

impl Work for ByScores<'_> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        for (by, weight) in self.by_row.iter_mut().zip(self.row) {
            *by = self.scale * weight * (*by - self.dot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn random(count: usize, seed: u32) -> Vec<f32> {
        (0..count as u32)
            .map(|nth| {
                let bits = (nth ^ seed.rotate_left(9)).wrapping_mul(2_654_435_761);
                ((bits ^ (bits >> 15)).wrapping_mul(2_246_822_519) >> 8) as f32 / (1 << 23) as f32 - 1.0
            })
            .collect()
    }

    /// Drops every fifth weight.
    fn dropped(sequence: usize, head: usize, query: usize, key: usize) -> f32 {
        if (sequence + 3 * head + 7 * query + 2 * key).is_multiple_of(5) {
            0.0
        } else {
            1.25
        }
    }

    fn drop_row(sequence: usize, head: usize, query: usize, row: &mut [f32]) {
        for (key, x) in row.iter_mut().enumerate() {
            *x *= dropped(sequence, head, query, key);
        }
    }

    /// The definition in 64 bits.
    fn exact(attention: &Attention<'_>, numbers: &[f64]) -> Vec<f64> {
        let width = attention.width();
        let mut out = vec![0.0; attention.rows().1 * width];
        for place in attention.places() {
            let at = |part: usize, token: usize, nth: usize| {
                numbers[(place.token + token) * 3 * width
                    + part * width
                    + place.head * attention.head_width
                    + nth]
            };
            for query in 0..place.queries {
                let bias = attention.bias_row(&place, query);
                let scores: Vec<f64> = (0..place.tokens)
                    .map(|key| {
                        let dot: f64 = (0..attention.head_width)
                            .map(|nth| at(0, query, nth) * at(1, key, nth))
                            .sum();
                        dot / (attention.head_width as f64).sqrt()
                            + bias.map_or(0.0, |bias| f64::from(bias[key]))
                    })
                    .collect();
                let total: f64 = scores.iter().map(|score| score.exp()).sum();
                for nth in 0..attention.head_width {
                    let mixed: f64 = (0..place.tokens)
                        .map(|key| {
                            let kept = attention
                                .drop
                                .map_or(1.0, |_| dropped(place.sequence, place.head, query, key));
                            scores[key].exp() / total * f64::from(kept) * at(2, key, nth)
                        })
                        .sum();
                    out[(place.query + query) * width + place.head * attention.head_width + nth] = mixed;
                }
            }
        }
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// Values against the definition, gradients against differences of it, over lengths, heads, biases and dropped weights.
        #[test]
        fn attention_equals_the_definition(
            lengths in prop::collection::vec(1_usize..30, 1..4), heads in 1_usize..4, head_width in 1_usize..20,
            queries in prop::option::of(1_usize..5), kind in 0..4, drop in any::<bool>(), seed in any::<u32>(),
        ) {
            let longest = *lengths.iter().max().unwrap();
            let (h, l, n) = (heads, longest, lengths.len());
            // None; for all; for each head and query, as relative positions; for each sequence, as padding.
            let (strides, count) = match kind {
                0 | 1 => ([0, 0, 0], l),
                2 => ([0, l * l, l], h * l * l),
                _ => ([h * l * l, l * l, l], n * h * l * l),
            };
            let bias = random(count, seed ^ 1);
            let attention = Attention {
                heads, head_width, lengths: &lengths, queries,
                bias: (kind > 0).then_some(Bias { numbers: &bias, strides }),
                drop: drop.then_some(&drop_row),
            };
            let (rows, asked) = attention.rows();
            let width = heads * head_width;
            let numbers = random(rows * 3 * width, seed);
            let wide: Vec<f64> = numbers.iter().map(|&x| f64::from(x)).collect();
            let ours = attention.forward(&numbers);
            for (ours, exact) in ours.out.iter().zip(exact(&attention, &wide)) {
                prop_assert!((f64::from(*ours) - exact).abs() < 3e-6, "{ours} {exact}");
            }
            let grad = random(asked * width, seed ^ 2);
            let gradient = attention.gradient(&numbers, &ours.out, &ours.logarithms, &grad);
            let loss = |numbers: &[f64]| -> f64 {
                exact(&attention, numbers).iter().zip(&grad).map(|(x, &g)| x * f64::from(g)).sum()
            };
            for nth in 0..12 {
                let at = (nth * 7919 + seed as usize) % numbers.len();
                let (mut less, mut more) = (wide.clone(), wide.clone());
                less[at] -= 1e-4;
                more[at] += 1e-4;
                let exact = (loss(&more) - loss(&less)) / 2e-4;
                let ours = f64::from(gradient[at]);
                prop_assert!((ours - exact).abs() < 1e-5 * exact.abs().max(1.0), "{at}: {ours} {exact}");
            }
        }
    }

    /// More than one block of queries, on several threads.
    #[test]
    fn long_sequences_are_done_in_blocks() {
        let lengths = [600, 3, 250];
        let attention = Attention {
            heads: 2,
            head_width: 8,
            lengths: &lengths,
            queries: None,
            bias: None,
            drop: Some(&drop_row),
        };
        let numbers = random(853 * 48, 5);
        let wide: Vec<f64> = numbers.iter().map(|&x| f64::from(x)).collect();
        let ours = attention.forward(&numbers);
        for (ours, exact) in ours.out.iter().zip(exact(&attention, &wide)) {
            assert!((f64::from(*ours) - exact).abs() < 3e-6, "{ours} {exact}");
        }
        let grad = random(853 * 16, 6);
        let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let two = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let gradient = alone.install(|| attention.gradient(&numbers, &ours.out, &ours.logarithms, &grad));
        assert!(two.install(|| attention.gradient(&numbers, &ours.out, &ours.logarithms, &grad)) == gradient);
        let loss = |numbers: &[f64]| -> f64 {
            exact(&attention, numbers)
                .iter()
                .zip(&grad)
                .map(|(x, &g)| x * f64::from(g))
                .sum()
        };
        for at in [0, 20 * 48 + 17, 500 * 48 + 33, 601 * 48 + 20, 852 * 48 + 47] {
            let (mut less, mut more) = (wide.clone(), wide.clone());
            less[at] -= 1e-4;
            more[at] += 1e-4;
            let exact = (loss(&more) - loss(&less)) / 2e-4;
            assert!(
                (f64::from(gradient[at]) - exact).abs() < 1e-5,
                "{at}: {} {exact}",
                gradient[at]
            );
        }
    }

    /// A score so low that its weight is 0, and scores that are all very large.
    #[test]
    fn extreme_scores_neither_overflow_nor_leak() {
        let bias = [0.0, -1e9, 0.0, 3e4, 3e4, 3e4];
        let numbers = vec![1.0, 1.0, 1.0, 1.0, 1.0, 500.0, 1.0, 1.0, 3.0];
        let attention = |row: usize| Attention {
            heads: 1,
            head_width: 1,
            lengths: &[3],
            queries: None,
            bias: Some(Bias {
                numbers: &bias[3 * row..],
                strides: [0, 0, 0],
            }),
            drop: None,
        };
        assert_eq!(attention(0).forward(&numbers).out, [2.0; 3]);
        assert_eq!(attention(1).forward(&numbers).out, [168.0; 3]);
    }
}
