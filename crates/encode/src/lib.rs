//! Text in, unit vectors out.
//!
//! | module | in → out |
//! |---|---|
//! | [`checkpoint`] | `model.safetensors` → named tensors, read one at a time |
//! | [`tokenize`] | text → token ids, by the model's own `tokenizer.json` |
//! | [`transformer`] | token features → token features; one implementation for every model family |
//! | [`sentence`] | a Sentence-Transformers folder → caption vectors |
//! | [`cache`] | caption text → a vector that was computed before |
//!
//! Vectors leave this crate as `Vec<f32>`, row-major, each row of length 1 in the L2 norm. Nothing here prints,
//! reads the environment or touches the network.

pub mod cache;
pub mod checkpoint;
mod error;
mod kernels;
pub mod sentence;
pub mod tokenize;
pub mod transformer;

pub use error::Error;

/// What a long-running call tells its caller, and what the caller may answer.
///
/// The callback gets the number of items done and the number of all items, and answers whether to go on;
/// [`ControlFlow::Break`](std::ops::ControlFlow::Break) ends the call with [`Error::Cancelled`].
pub type Progress<'a> = &'a mut dyn FnMut(usize, usize) -> std::ops::ControlFlow<()>;
