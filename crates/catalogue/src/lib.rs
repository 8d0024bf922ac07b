//! A library of recordings: what is known of each file, the vectors of its windows, and the words that name it, kept so that
//! they can be searched.
//!
//! In come [`Change`]s: recordings that the caller has decoded and embedded, moves, removals. Out come [`Hit`]s: [`ask`] answers
//! a [`Question`] with the files and moments that fit it best, by one rule for the command line, the server and programs. The
//! data is in a [`Store`]: [`sqlite`], a folder on this machine, or [`postgres`], a server that several machines share. Both keep
//! the same [`Entry`]s, and [`dump`] writes the same text for both.
//!
//! This crate does not decode audio and does not depend on any model: vectors come in as `&[f32]`, of one dimension and from one
//! model ([`Settings`]), which is checked, and an [`Embedder`] turns questions into vectors. Nothing prints or reads the
//! environment.

mod day;
mod duplicates;
mod embedder;
mod entry;
mod error;
pub mod export;
mod filter;
mod note;
mod overview;
pub mod postgres;
mod prepare;
mod question;
mod search;
pub mod sqlite;
mod store;
mod words;

pub use day::{parse_day, parse_time};
pub use duplicates::duplicates;
pub use embedder::{EmbedError, Embedder};
pub use entry::{AudioInfo, Entry, Failure, File, Heard, IndexedFile, Notes, Settings, Stat, Window};
pub use error::Error;
pub use filter::{Filter, folder_contains};
pub use note::Note;
pub use postgres::PostgresStore;
pub use question::{Answer, Mode, Question, Recording, ask};
pub use search::{Hit, NEGATIVE_WEIGHT, Query, combine_queries, search};
pub use sqlite::SqliteStore;
pub use store::{Change, Count, Overview, Store, TextHit, TextQuery, WindowHit, dump, fnv1a};
