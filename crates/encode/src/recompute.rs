//! Gradient checkpointing: blocks that keep their input alone and are computed again for the gradient.
//!
//! In the forward pass a block runs without a tape, and its output begins a new one. The backward pass goes through the blocks from
//! the last to the first: a block is computed again, with a tape, and
//!
//! ```text
//! d loss / d (input, parameters) = d Σ (block(input) ∘ G) / d (input, parameters),   G = d loss / d output
//! ```
//!
//! is taken from it. The gradients are the same to the last bit on the CPU; the price is one more forward pass, and what is kept
//! is one tensor of token features a block.

use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::{Gradients, Tensor};

/// A block as a function of its input.
type Run = Box<dyn Fn(Tensor<2>) -> Tensor<2> + Send>;

/// Blocks of a forward pass that are to be computed again. Clones share them.
#[derive(Clone, Default)]
pub struct Recompute(Arc<Mutex<Vec<Chain>>>);

/// Blocks that follow each other.
struct Chain {
    /// What goes into the first block, with the tape that leads to it.
    start: Tensor<2>,
    /// What goes into each block, without a tape, and the block.
    blocks: Vec<(Tensor<2>, Run)>,
    /// What comes out of the last block and begins a new tape.
    end: Tensor<2>,
}

impl std::fmt::Debug for Recompute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Recompute")
    }
}

impl Recompute {
    /// Runs blocks without a tape. Each comes twice, as it runs without a tape and as it runs with one.
    pub(crate) fn forward(
        &self,
        start: Tensor<2>,
        blocks: impl IntoIterator<Item = (Run, Run)>,
    ) -> Tensor<2> {
        let mut x = start.clone().inner();
        let mut kept = Vec::new();
        for (without, with) in blocks {
            let input = x.clone();
            x = without(x);
            kept.push((input, with));
        }
        let end = Tensor::from_inner(x).require_grad();
        let mut chains = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        chains.push(Chain {
            start,
            blocks: kept,
            end: end.clone(),
        });
        end
    }

    /// The rest of a backward pass that has come to the ends of the chains. `take` is called with the gradients of every part
    /// of it; a parameter has its gradient in one of them.
    pub fn backward(self, mut gradients: Gradients, take: &mut dyn FnMut(Gradients)) {
        let chains = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let ends: Vec<Option<Tensor<2>>> = chains
            .iter()
            .map(|chain| chain.end.grad_remove(&mut gradients))
            .collect();
        take(gradients);
        for (chain, end) in chains.into_iter().zip(ends) {
            // Without a gradient nothing behind the chain has reached the loss.
            let Some(mut gradient) = end else { continue };
            for (input, run) in chain.blocks.into_iter().rev() {
                let input = Tensor::from_inner(input).require_grad();
                let mut gradients = weighted(run(input.clone()), gradient).backward();
                let Some(next) = input.grad_remove(&mut gradients) else {
                    unreachable!("a block's output depends on its input");
                };
                gradient = next;
                take(gradients);
            }
            take(weighted(chain.start, gradient).backward());
        }
    }
}

/// Σ x ∘ gradient, whose gradient by x is that gradient.
fn weighted(x: Tensor<2>, gradient: Tensor<2>) -> Tensor<1> {
    (x * Tensor::from_inner(gradient)).sum()
}
