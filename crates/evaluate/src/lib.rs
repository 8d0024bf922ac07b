//! A split, its embeddings and a truth in; scored queries and comparisons out.
//!
//! | module | in → out |
//! |---|---|
//! | [`embed`] | a model and a split → embeddings |
//! | [`retrieval`] | embeddings of a split → the metrics of both directions |
//! | [`scored`] | metrics → one row for each query, as a CSV file |
//! | [`truth`] | ratings, annotations, scenes or caption similarities → graded relevance |
//! | [`mod@compare`] | scored queries of two methods → paired tests |
//! | [`slices`] | a caption → the groups of queries it belongs to |
//!
//! Nothing here trains, and all but [`embed`] does without a model: embeddings of another system are scored by the same
//! code.

pub mod compare;
pub mod embed;
mod error;
pub mod retrieval;
pub mod scored;
pub mod slices;
pub mod truth;

pub use compare::{Comparison, Method, Paired, Test, compare};
pub use embed::{CaptionInput, ClipInput, FoundEmbeddings, SplitEvent, embed_split};
pub use error::Error;
pub use retrieval::{DirectionMetrics, Retrieval, SplitEmbeddings};
pub use scored::{Direction, Kind, Metric, ScoredQueries, ScoredQuery};
pub use truth::{Truth, TruthSource};
