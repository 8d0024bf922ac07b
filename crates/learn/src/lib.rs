//! Learning: from captions and what is known about them to models.
//!
//! | module | in → out |
//! |---|---|
//! | [`recipe`] | a TOML file → everything about a training |
//! | [`sets`] | a name, a recipe or a run → datasets |
//! | [`train()`] | a recipe, and where its models and caches are → a run |
//! | [`mod@rehearse`] | a training, and what the machine has left → what is missing, and what it will take |
//! | [`trainer`] | a recipe and data → a run's folder with models |
//! | [`objective`], [`step`] | scores and relevances of a batch → a loss, gradients |
//! | [`device_check`] | a device → how far it is from the CPU |
//! | [`optimizer`], [`schedule`] | gradients → new weights |
//! | [`split`], [`clips`] | clips and captions → what the network reads, ahead of the trainer |
//! | [`caption_embeddings`] | captions → the sentence encoder's embeddings, on disk |
//! | [`metrics_log`] | a step or an epoch ↔ a line of `metrics.jsonl` |
//! | [`run`], [`tensorboard`], [`report`] | a training → files |
//! | [`distil`] | a sentence encoder → a static one that fits into the program |
//!
//! Nothing here prints or reads the environment. Seeds and progress are arguments, and the same seed gives the same
//! bytes.

mod advice;
pub mod caption_embeddings;
pub mod clips;
pub mod device_check;
pub mod distil;
mod error;
mod guard;
pub mod loss_scale;
pub mod metrics_log;
pub mod network;
pub mod objective;
pub mod optimizer;
pub mod recipe;
pub mod rehearse;
pub mod report;
pub mod run;
pub mod schedule;
pub mod sets;
pub mod split;
pub mod step;
pub mod tensorboard;
pub mod train;
pub mod trainer;
mod values;

pub use error::Error;
pub use recipe::Recipe;
pub use rehearse::{Machine, Rehearsal, Rehearsed, rehearse};
pub use run::Run;
pub use train::{Models, Training, train};
pub use trainer::{TrainEvent, TrainResult};
