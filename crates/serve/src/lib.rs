//! A library of recordings over HTTP: an API, and a page to search and listen.
//!
//! In come a [`Store`](hark_catalogue::Store), an [`Embedder`](hark_catalogue::Embedder) and [`Options`]. [`serve`] answers requests until it is told to stop. What can be asked is in `openapi.json`, which the server
//! hands out itself; `routes.rs` is the table of it all.
//!
//! Everything that a client can make grow has a bound: connections, headers, parameters, uploads, searches at work and
//! waiting, seconds without progress. Files are named by their numbers, never by a path; what is sent lies inside the
//! library's folders after all links are followed, and is streamed, never held in memory.
//!
//! It speaks HTTP/1.1 without encryption. Beyond this machine it asks for a token; for encryption, put a proxy in front.
//!
//! No model is known here, nothing is printed, and the environment is not read.

mod admission;
mod api_error;
mod audio;
mod auth;
mod connections;
mod error;
mod export;
mod library;
mod metrics;
mod options;
mod page;
mod parameters;
mod range;
mod request;
mod routes;
mod search;
mod server;
mod stream_body;
mod text_cache;
mod timeouts;
mod upload;
mod view;
mod wav;

pub use connections::serve;
pub use error::Error;
pub use options::Options;
