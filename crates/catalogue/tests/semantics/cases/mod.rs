//! What stores have in common, one thing at a time.

mod answers;
mod changes;
mod near;
mod whole;
mod words;

pub use answers::*;
pub use changes::*;
pub use near::*;
pub use whole::*;
pub use words::*;

use hark_catalogue::{Query, Store, search};

/// A question for ten files, one hit of each.
fn one() -> Query {
    Query {
        per_file: 1,
        limit: 10,
        ..Query::default()
    }
}

/// The paths of what was found.
fn hits(store: &dyn Store, query: &Query) -> Vec<String> {
    search(store, query)
        .unwrap()
        .into_iter()
        .map(|hit| hit.file.path)
        .collect()
}
