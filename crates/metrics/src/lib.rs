//! Rankings in, figures and tests out.
//!
//! - [`evaluate`] ranks one set of vectors by another and measures how high the relevant rows rank, beside what chance
//!   would give; [`evaluate_graded`] does the same with gains, [`lists`] returns the rankings themselves;
//! - [`significance`] tests whether two methods differ over the same queries;
//! - [`trec`] reads, writes and scores rankings stored as files, by this program or another.
//!
//! The definitions are those of trec_eval, k being the cut:
//!
//! - AP@k: the sum of the precisions at the ranks of the relevant items among the first k, divided by the number of
//!   *all* relevant items (`map_cut_k`). With one relevant item this is 1/rank within the first k, else 0.
//! - R@k: the share of the relevant items that rank among the first k (`recall_k`). With five relevant items R@1 is at
//!   most 0.2.
//! - hit@k: whether any relevant item ranks among the first k (`success_k`). Much of the field calls this recall; with
//!   one relevant item the two are the same.
//! - reciprocal rank: 1/rank of the first relevant item, without a cut (`recip_rank`).
//! - nDCG@k: with linear gains and a discount of log2(rank + 1) (`ndcg_cut_k`).
//!
//! Where scores are equal, a fixed hash of both keys orders the items, never their position: related items are
//! neighbours in most lists, and an order by position would favour or punish all of them at once. [`Ties`] has the
//! choice.

#![cfg_attr(
    test,
    allow(clippy::float_cmp, reason = "tests of exact results compare them exactly")
)]

mod error;
mod retrieval;
pub mod significance;
pub mod trec;

pub use error::Error;
pub use retrieval::{
    Gains, GradedReport, Lists, MeanMetrics, Options, QueryMetrics, RECALL_CUTS, Relevant, Report, Ties,
    WithIds, chance, evaluate, evaluate_graded, lists, name_keys, tie_key,
};
