//! Loops for the processor's vector unit: what the towers' time goes into, over plain numbers in memory.
//!
//! Everything here takes and gives slices of 32-bit numbers, checks their lengths, and knows nothing of networks or tensors.
//! Versions for AVX-512, for AVX2 with FMA and for all others are chosen at run time.

mod attention;
mod blocks;
mod convolution;
mod gelu;
mod lanes;
mod matrix;
mod norm;
mod optimize;
mod packed;
mod product;
mod raw;

pub use attention::{Attended, Attention, Bias, Drop};
pub use convolution::{Convolution, ConvolutionGradient};
pub use gelu::{gelu, gelu_gradient, gelu_in_place};
pub use matrix::Matrix;
pub use norm::{Norm, NormGradient, sum_of_rows};
pub use optimize::{AdamStep, sum_of_squares};
pub use packed::{Packed, Precision};
pub use product::{product, product_into, product_packed, product_packed_here};
pub use raw::{Start, keep_memory, release_memory};

/// Numbers that one thread does at a time, and how many there must be before there is more than one thread.
const PIECE: usize = 1 << 14;
const SPLIT_FROM: usize = 1 << 16;
