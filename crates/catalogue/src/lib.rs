//! A library of recordings: what is known of each file, the vectors of its windows, and the words that name it, kept so that
//! they can be searched.
//!
//! In come [`Change`]s: recordings that somebody else has decoded and embedded, moves, removals. Out come [`Hit`]s: the files
//! and moments that answer a [`Query`] best. Between the two stands a [`Store`], of which there are two kinds: [`sqlite`], a folder
//! on this machine, and [`postgres`], a server that several machines share. Both keep the same [`Entry`]s, and the text that
//! [`dump`] makes of one is the same as that of the other.
//!
//! Nothing here decodes sound or knows a model: vectors come in as `&[f32]`, of one length and made by one model
//! ([`Settings`]), which is checked. Nothing prints or reads the environment.

mod duplicates;
mod entry;
mod error;
pub mod export;
mod filter;
mod overview;
pub mod postgres;
mod prepare;
mod search;
pub mod sqlite;
mod store;
mod words;

pub use duplicates::duplicates;
pub use entry::{AudioInfo, Entry, Failure, File, IndexedFile, Notes, Settings, Stat, Window};
pub use error::Error;
pub use filter::Filter;
pub use postgres::PostgresStore;
pub use search::{Hit, NEGATIVE_WEIGHT, Query, combine_queries, search};
pub use sqlite::SqliteStore;
pub use store::{Change, Count, Overview, Store, TextHit, WindowHit, dump};
