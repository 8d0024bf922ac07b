//! Everything that this crate refuses, with the numbers that explain why.

use hark_work::progress::counted;
use std::path::PathBuf;

/// Why a ranking cannot be scored, or a test not be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Vectors cannot be compared.
    #[error(transparent)]
    Nearest(#[from] hark_nearest::Error),
    /// Reports with different cuts.
    #[error("reports with cuts of {first} and {second} cannot be joined")]
    CutsMismatch {
        /// The k of one.
        first: usize,
        /// The k of another.
        second: usize,
    },
    /// Nothing to take a mean of.
    #[error("no queries to evaluate")]
    NoQueries,
    /// The relevant items are those of other sets than the vectors.
    #[error(
        "relevance is given for {queries} queries and {items} items, the vectors are {query_rows} queries and \
         {item_rows} items"
    )]
    RelevantMismatch {
        /// Queries that relevance is given for.
        queries: usize,
        /// Items that relevance is given for.
        items: usize,
        /// Rows of the queries' vectors.
        query_rows: usize,
        /// Rows of the items' vectors.
        item_rows: usize,
    },
    /// A query for which no ranking is better than another.
    #[error("query {query} has no relevant item")]
    NoRelevant {
        /// The first such query.
        query: usize,
    },
    /// A relevant item that is not there.
    #[error("query {query} has the relevant item {item}, but there are only {items} items (numbered from 0)")]
    NoSuchItem {
        /// The query.
        query: usize,
        /// The item it names.
        item: u32,
        /// Items in all.
        items: usize,
    },
    /// A query names an item more than once.
    #[error("query {query} names item {item} twice")]
    DuplicateRelevant {
        /// The query.
        query: usize,
        /// The item.
        item: u32,
    },
    /// A gain outside [0, 1].
    #[error("query {query} gives item {item} the gain {gain}, which is not between 0 and 1")]
    BadGain {
        /// The query.
        query: usize,
        /// The item.
        item: u32,
        /// What was given.
        gain: f64,
    },
    /// Two series that must be paired have different lengths.
    #[error("the series have {first} and {second} values: a paired test needs the same number")]
    PairsMismatch {
        /// Length of the first series.
        first: usize,
        /// Length of the second.
        second: usize,
    },
    /// Too few values for a deviation.
    #[error("too few values ({got}): a standard deviation needs at least 2")]
    TooFewValues {
        /// Values given.
        got: usize,
    },
    /// A value that cannot be averaged.
    #[error("value {position} is {value}, not a finite number")]
    ValueNotFinite {
        /// Position in the series.
        position: usize,
        /// What was found.
        value: f64,
    },
    /// A pair whose difference cannot be averaged.
    #[error("pair {position} holds {first} and {second}: their difference is not a finite number")]
    PairNotFinite {
        /// Position in the series.
        position: usize,
        /// Value in the first series.
        first: f64,
        /// Value in the second.
        second: f64,
    },
    /// There must be one cluster number for each pair.
    #[error("{got} cluster numbers for {expected} pairs")]
    ClustersMismatch {
        /// Pairs given.
        expected: usize,
        /// Cluster numbers given.
        got: usize,
    },
    /// Too few independent units for a test.
    #[error("{got} cluster is too few: a test over clusters needs at least 2")]
    TooFewClusters {
        /// Different cluster numbers.
        got: usize,
    },
    /// No signs to draw.
    #[error("0 permutations were asked for: a permutation test needs at least 1")]
    NoPermutations,
    /// A p that is none.
    #[error("value {position} is {value}, which is not a probability between 0 and 1")]
    NotProbability {
        /// Position in the list.
        position: usize,
        /// What was found.
        value: f64,
    },
    /// Reading a file failed midway.
    #[error("{}: reading failed: {reason}", path.display())]
    FileRead {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// A run or a list of judgements without a line.
    #[error("{}: the file has no entries", path.display())]
    NoEntries {
        /// The file.
        path: PathBuf,
    },
    /// A line that no run or list of judgements has.
    #[error("{}: line {line} is longer than {limit} bytes", path.display())]
    LineTooLong {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The bound, in bytes.
        limit: usize,
    },
    /// Bytes that are not UTF-8 text.
    #[error("{}: line {line} is not UTF-8", path.display())]
    LineNotUtf8 {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
    },
    /// A line with too few or too many fields.
    #[error("{}: line {line} has {}, not {expected} ({fields})", path.display(), counted(*got, "field"))]
    LineFields {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Fields of the format.
        expected: usize,
        /// What they are.
        fields: &'static str,
        /// Fields of the line.
        got: usize,
    },
    /// A field that should be a number.
    #[error("{}: line {line}: the {what} {got:?} is not a finite number", path.display())]
    LineNumber {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What the number is.
        what: &'static str,
        /// The field as in the file.
        got: String,
    },
    /// A query that names an item on two lines.
    #[error("{}: line {line} names item {item} for query {query} a second time", path.display())]
    LineDuplicate {
        /// The file.
        path: PathBuf,
        /// The second such line, from 1.
        line: u64,
        /// The query's id.
        query: String,
        /// The item's id.
        item: String,
    },
    /// Judged queries that the run has no list for.
    #[error("{count} of the judged queries are missing in the run, the first is {first}")]
    QueriesNotRun {
        /// How many.
        count: usize,
        /// The first of them in the judgements.
        first: String,
    },
    /// Queries of the run that nothing is relevant to.
    #[error("{count} of the run's queries have no relevant item in the judgements, the first is {first}")]
    QueriesNotJudged {
        /// How many.
        count: usize,
        /// The first of them in the run.
        first: String,
    },
    /// A collection that cannot hold the items that are named.
    #[error("a collection of {items} items cannot hold the {named} that the run and the judgements name")]
    CollectionTooSmall {
        /// Size given.
        items: usize,
        /// Different items in both files.
        named: usize,
    },
}
