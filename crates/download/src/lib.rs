//! An address → a checked file on disk. The only code of hark that opens a connection to another machine on its own.
//!
//! In: a [`Remote`], which says where a file is, where it shall be, and what is known of it. Out: the file, and its
//! length and checksums ([`Fetched`]). A [`Client`] is how the network is reached: through a mirror or not, and how often
//! it tries again.
//!
//! - Until a file is complete and its checksum is right, it is called `NAME.part`. An attempt that was killed, cut off or
//!   cancelled is resumed by a range request; a server that does not know ranges sends the file again.
//! - The checksum is computed while the bytes come in. What an earlier attempt left is read again for it.
//! - A resumed file is never put together from two: length and entity tag of the file that was begun are kept beside it
//!   (`NAME.part.from`) and compared.
//! - A server that sends nothing for a while is asked again; a transfer that goes on has no time limit. While a server is
//!   waited for, the caller is asked several times a second whether to go on.
//! - A web page where a file should be (a login, a notice of maintenance) is refused before anything is written.
//!
//! A wrong checksum removes the file: [`Error::Checksum`] says which was expected and which came.

mod answer;
mod checksum;
mod client;
mod disk;
mod error;
mod fetch;
mod many;
mod part;
mod token;

pub use answer::GoOn;
pub use checksum::{Checksum, Fetched, digest_file};
pub use client::Client;
pub use disk::free_disk;
pub use error::Error;
pub use fetch::{Event, OnEvent, Remote};
pub use token::Token;
