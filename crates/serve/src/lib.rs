//! A library of recordings over HTTP: an API, and a page to search and listen.
//!
//! In come a [`Store`](hark_catalogue::Store), an [`Embedder`](hark_catalogue::Embedder) and [`Options`]. [`serve`] answers requests
//! until it is told to stop. `openapi.json`, which the server publishes, describes the API; `routes.rs` is the table of routes.
//!
//! Everything that a client can make grow is bounded: connections, headers, parameters, uploads, running and queued searches, seconds
//! without progress. Clients name files by id, never by path; a file is sent only if it is inside the library's folders after all
//! links are resolved, and it is streamed, never held in memory.
//!
//! The server speaks HTTP/1.1 without encryption; put a TLS proxy in front of it. Beyond this machine it requires a token.
//!
//! This crate does not depend on any model, prints nothing and does not read the environment.

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
