//! A split, its embeddings and a truth in; scored queries and comparisons out.
//!
//! | module | in → out |
//! |---|---|
//! | [`embed`] | a model and a split → embeddings |
//! | [`collection`] | the same, kept for the next evaluation; or stored vectors |
//! | [`judge`](mod@judge) | a collection and truths, or a run → an evaluation |
//! | [`report`] | an evaluation → a report, TREC files, predictions |
//! | [`retrieval`] | embeddings of a split → the metrics of both directions |
//! | [`scored`] | metrics → one row for each query, as a CSV file |
//! | [`truth`] | ratings, annotations, scenes or caption similarities → graded relevance |
//! | [`Method::read`] | folders of runs → scored queries of a method |
//! | [`mod@compare`] | scored queries of two methods → paired tests |
//! | [`slices`] | a caption → the groups of queries it belongs to |
//!
//! Nothing here trains, and all but [`embed`] does without a model: embeddings of another system are scored by the same
//! code.

pub mod collection;
pub mod compare;
pub mod embed;
mod error;
pub mod judge;
pub mod report;
pub mod retrieval;
mod runs;
pub mod scored;
pub mod slices;
pub mod truth;

pub use collection::{CaptionOwners, Collection, ModelOnSplit};
pub use compare::{Comparison, Method, Paired, Test, compare};
pub use embed::{CaptionInput, ClipInput, FoundEmbeddings, SplitEvent, embed_split};
pub use error::Error;
pub use judge::{Evaluation, JudgeOptions, Judgement, judge, judge_run};
pub use report::EvaluationReport;
pub use retrieval::{DirectionMetrics, Retrieval, SplitEmbeddings};
pub use scored::{Direction, Kind, Metric, ScoredQueries, ScoredQuery};
pub use truth::{Truth, TruthSource};
