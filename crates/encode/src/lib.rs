//! Text or recordings in, vectors out.
//!
//! | module | in → out |
//! |---|---|
//! | [`towers`] | log-mels or tokens → one vector each; the registry of networks |
//! | [`dual`] | two towers and their projections → vectors in one space |
//! | [`model`], [`card`], [`weights_file`] | a model folder → encoders of recordings and of texts |
//! | [`embedding_file`] | recordings → a matrix of embeddings on disk |
//! | [`mod@bridge`] | a tagger and a sentence encoder → a dual encoder |
//! | [`mod@import`] | checkpoints of other programs → a model |
//! | [`weights`] | a checkpoint, a seed or nothing → the tensors of a network |
//! | [`checkpoint`] | a file of safetensors or PyTorch → named tensors, read one at a time |
//! | [`tokenize`] | text → token ids, by the model's own `tokenizer.json` |
//! | [`transformer`] | token features → token features; one implementation for every model family |
//! | [`sentence`] | a Sentence-Transformers folder → caption vectors |
//! | [`device`] | a name → a device of the tensor library |
//! | [`cache`] | caption text → a vector that was computed before |
//!
//! Vectors leave this crate as `Vec<f32>`, row-major; those of sentence encoders and of models with projections have
//! length 1 in the L2 norm. Nothing here prints, reads the environment or touches the network.

mod arithmetic;
mod breakdown;
pub mod bridge;
pub mod cache;
pub mod card;
pub mod checkpoint;
mod compute;
pub mod device;
pub mod dropout;
pub mod dual;
mod dual_model;
pub mod embedding_file;
mod error;
mod fault;
mod guard;
mod hugging_face;
pub mod import;
mod labels;
pub mod layer_norm;
pub mod linear;
pub mod model;
mod model_files;
pub mod model_key;
mod ops;
mod packed;
pub mod projection;
mod recompute;
mod recordings;
mod safetensors_file;
pub mod sentence;
mod tensors;
mod texts;

pub use recompute::Recompute;
pub use recordings::segment_ranges;
pub mod tokenize;
pub mod towers;
pub mod transformer;
pub mod weights;
pub mod weights_file;

pub use arithmetic::Arithmetic;
pub use breakdown::{Breakdown, is_expected};
pub use compute::Compute;
pub use device::DeviceName;
pub use dual_model::DualModel;
pub use error::{Error, name_list};
pub use fault::Fault;
pub use guard::guarded;
pub use hark_kernels::{Precision, keep_memory};
pub use hark_nearest::{Embeddings, Failure};
use hark_work::progress::Progress;
pub use import::import;
pub use labels::{ClassScore, read_labels, strongest};
pub use sentence::SentenceEncoder;
