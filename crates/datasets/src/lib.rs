//! A dataset's name → its folder: [`Request::plan`] says what a pull takes, [`Plan::run`] downloads, unpacks and converts,
//! [`check()`] opens what is there.
//!
//! The folder has the layout that [`hark_corpus::DatasetConfig`] reads. Where the files are published, and with which checksums,
//! is the list [`DATASETS`].
//!
//! - [`hark_download`] downloads; nothing else here uses the network. The recordings of AudioCaps come through programs of the
//!   user.
//! - A pull that was killed at any moment goes on when it is called again, and ends with the same files.
//! - Names and sizes in archives come from outside: all are checked before the first byte is written.
//! - No checksum is made up: where none is stated, the record of the pull has the SHA-256 of what came.
//!
//! Nothing here prints or reads environment variables.

mod check;
mod convert;
mod error;
mod form;
mod journal;
mod names;
mod parts;
mod published;
mod pull;
mod record;
mod report;
mod sevenz;
mod space;
#[cfg(test)]
mod tests;
mod unpack;
mod videos;
mod zip;

pub use check::check;
pub use error::Error;
pub use form::Form;
pub use published::{DATASETS, Published};
pub use pull::{Event, OnEvent, Plan, PlannedFile, Pulled, Request};
pub use record::{Record, RecordedFile};
pub use videos::{Programs, Unavailable};
