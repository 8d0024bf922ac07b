//! Runs and judgements in TREC's text formats: reading, writing, and the metrics of a run.
//!
//! In: run files (`query Q0 item rank score tag`) and qrels files (`query 0 item gain`), one entry in a line, fields
//! separated by ASCII white space; or ids, scores and gains to write as such. Out: the metrics of
//! [`evaluate`](crate::evaluate()), which are those of trec_eval, for every query.
//!
//! As in trec_eval the score decides and the rank column is ignored. A score is read as a 64-bit number and kept in
//! 32 bits, as trec_eval 9 keeps it, on which pytrec_eval is built: two scores that are equal in 32 bits are tied.
//! With [`Ties::Keys`](crate::retrieval::Ties::Keys) ties are in trec_eval's order, by the bytes of their ids,
//! highest first, and then every number is trec_eval's. A negative gain means not relevant, there as here.
//!
//! Refused, with file and line: a wrong number of fields, scores that are not finite in 32 bits, gains that are not
//! finite, an item named twice for a query, text that is not UTF-8, a line of more than 64 KiB; and files without
//! an entry. Every id is kept once and an entry takes 24 bytes while a file is read, 16 at most afterwards.

mod evaluate;
mod read;
mod write;

pub use evaluate::{Options, Scored, evaluate};
pub use read::{Qrels, Run};
pub use write::{escape, unescape, write_qrels, write_run};

#[cfg(test)]
mod tests;
