//! The one error type of this crate.

use hark_work::progress::counted;
use std::path::PathBuf;

/// Why a split could not be evaluated, or two methods not compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be opened, read or written; the source names the path.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Embeddings are not vectors that can be ranked.
    #[error(transparent)]
    Nearest(#[from] hark_nearest::Error),
    /// A ranking cannot be scored, or two methods not tested.
    #[error(transparent)]
    Metrics(#[from] hark_metrics::Error),
    /// Relevance cannot be computed.
    #[error(transparent)]
    Relevance(#[from] hark_relevance::Error),
    /// A dataset or a file of ratings cannot be read.
    #[error(transparent)]
    Corpus(#[from] hark_corpus::Error),
    /// A model cannot be used, or a clip or caption has no embedding.
    #[error(transparent)]
    Encode(hark_encode::Error),
    /// The log-mels of a clip cannot be had.
    #[error(transparent)]
    Recording(Box<dyn std::error::Error + Send + Sync>),
    /// Figures over fewer clips are not those of the split.
    #[error("cannot read {count} of {}, the first is {}: figures over fewer clips are not comparable", counted(*total, "recording"), first.display())]
    Unreadable {
        /// How many cannot be read.
        count: usize,
        /// Recordings of the split.
        total: usize,
        /// The first of them.
        first: PathBuf,
    },
    /// Recordings of a split are missing or broken.
    #[error(
        "cannot use {count} of {} of {name}, the first is {first} ({reason}): figures over fewer clips are not comparable",
        counted(*total, "recording")
    )]
    NotComplete {
        /// The split.
        name: String,
        /// How many cannot be used.
        count: usize,
        /// Recordings of the split.
        total: usize,
        /// The id of the first of them.
        first: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Vectors of two models.
    #[error("{} has vectors of {}, {} of {}: both must come from one model", clips.0.display(), clips.1, captions.0.display(), captions.1)]
    OtherDim {
        /// The file of clips and its dimension.
        clips: (PathBuf, usize),
        /// The file of captions and its dimension.
        captions: (PathBuf, usize),
    },
    /// Two truths whose scored queries would be one file.
    #[error("two truths are called {name}: their scored queries would be one file")]
    SameName {
        /// Their name.
        name: String,
    },
    /// A judged query that no clip is relevant to.
    #[error("{truth}: the query {id:?} ({text:?}) has no clip with a gain of {threshold} or more")]
    NothingRelevant {
        /// The truth.
        truth: String,
        /// The query's id.
        id: String,
        /// What it says.
        text: String,
        /// The least gain of a relevant clip.
        threshold: f64,
    },
    /// A truth that has no relevant clip at all.
    #[error("{truth}: no query has a relevant clip")]
    NoQueries {
        /// The truth.
        truth: String,
    },
    /// Ranking judged clips alone says nothing where all of them are relevant.
    #[error("{truth}: to rank judged clips only, some must have been judged and found not relevant")]
    NothingIrrelevant {
        /// The truth.
        truth: String,
    },
    /// Another system's run cannot be judged.
    #[error("{} against {}", run.display(), qrels.display())]
    Run {
        /// The run.
        run: PathBuf,
        /// Its judgements.
        qrels: PathBuf,
        /// Why not.
        source: Box<hark_metrics::Error>,
    },
    /// The split is not one of soundscapes, or its scenes cannot be read.
    #[error("these clips have no scenes; only soundscapes do")]
    NoScenes {
        /// What the soundscapes' reader says, where the split looks like soundscapes.
        #[source]
        source: Option<hark_soundscape::Error>,
    },
    /// A file does not hold what it should.
    #[error("{}: {}{what}", path.display(), at(*line))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1, where one is to blame.
        line: Option<u64>,
        /// What is wrong.
        what: String,
    },
    /// Scenes or embeddings that belong to another split.
    #[error(
        "the {what} are of {got_clips} clips and {got_captions} captions, the split has {clips} and {captions}"
    )]
    OtherSplit {
        /// `scenes` or `vectors`.
        what: &'static str,
        /// Captions that they are of.
        got_captions: usize,
        /// Clips that they are of.
        got_clips: usize,
        /// Captions of the split.
        captions: usize,
        /// Clips of the split.
        clips: usize,
    },
    /// Relevance of every pair would take too much memory.
    #[error("{captions} captions by {clips} clips are too many to judge every pair")]
    TooManyPairs {
        /// Captions of the split.
        captions: usize,
        /// Clips of the split.
        clips: usize,
    },
    /// nDCG over a whole split needs gains of every caption.
    #[error("judgements for only {judged} of {}", counted(*captions, "caption"))]
    PartlyJudged {
        /// Captions that have gains.
        judged: usize,
        /// Captions of the split.
        captions: usize,
    },
    /// nDCG was asked of queries that have none.
    #[error("these queries have no nDCG: their relevance is not graded")]
    NotGraded,
    /// A path of a run that is not there.
    #[error("{}: no such run", path.display())]
    NoRun {
        /// The path.
        path: PathBuf,
    },
    /// A folder without scored queries.
    #[error("{}: no scored queries ({file})", path.display())]
    NoScoredQueries {
        /// The folder.
        path: PathBuf,
        /// The file that was looked for.
        file: String,
    },
    /// Scored queries of the other direction.
    #[error("{} is not {asked}", path.display())]
    OtherDirection {
        /// The file.
        path: PathBuf,
        /// The direction that was asked for.
        asked: &'static str,
    },
    /// A method has no runs.
    #[error("a method without runs cannot be compared")]
    NoRuns,
    /// Runs were cut at different ranks.
    #[error("runs with cutoffs of {first} and {second} cannot be compared")]
    OtherCutoff {
        /// Of one run.
        first: usize,
        /// Of another.
        second: usize,
    },
    /// Figures of different meaning.
    #[error("runs that were judged by different truths cannot be compared: {first} and {second}")]
    OtherTruth {
        /// Direction and truth of one run.
        first: String,
        /// Direction and truth of another.
        second: String,
    },
    /// A query with two truths.
    #[error("query {query:?} has {first} relevant items in one run and {second} in another")]
    OtherRelevant {
        /// The query's id.
        query: String,
        /// Relevant items in one run.
        first: usize,
        /// Relevant items in another.
        second: usize,
    },
    /// Runs over different queries.
    #[error(
        "the runs have different queries: {count} of one method are missing from the other, such as {id:?} ({text:?}); evaluate both on the same split"
    )]
    OtherQueries {
        /// How many queries only one method has.
        count: usize,
        /// The first of them.
        id: String,
        /// What it says.
        text: String,
    },
    /// Two methods cannot be compared.
    #[error("{first} against {second}")]
    Methods {
        /// Name of the first.
        first: String,
        /// Name of the second.
        second: String,
        /// Why not.
        source: Box<Error>,
    },
    /// The caller cancelled the work.
    #[error("cancelled")]
    Cancelled,
}

fn at(line: Option<u64>) -> String {
    line.map_or_else(String::new, |line| format!("line {line}: "))
}

impl From<hark_encode::Error> for Error {
    fn from(error: hark_encode::Error) -> Self {
        match error {
            hark_encode::Error::Cancelled => Self::Cancelled,
            other => Self::Encode(other),
        }
    }
}

impl From<hark_work::progress::Cancelled> for Error {
    fn from(_: hark_work::progress::Cancelled) -> Self {
        Self::Cancelled
    }
}
