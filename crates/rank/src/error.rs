//! Everything that this crate refuses, with the numbers that explain why.

use std::path::PathBuf;

/// Why a ranking could not be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Vectors without a dimension cannot be told apart.
    #[error("the vectors have dimension 0")]
    ZeroDimension,
    /// The flat slice does not hold a whole number of rows.
    #[error("{len} numbers do not divide into rows of {dim}")]
    RaggedRows {
        /// Length of the flat slice.
        len: usize,
        /// Numbers in each row.
        dim: usize,
    },
    /// Ids are 32 bits wide.
    #[error("{rows} rows are more than the {limit} that 32-bit ids can name")]
    TooManyRows {
        /// Rows in the set.
        rows: usize,
        /// The most that can be named.
        limit: usize,
    },
    /// A row holds NaN or an infinity.
    #[error("row {row} holds {value} at position {column}")]
    NotFinite {
        /// The first such row.
        row: usize,
        /// Position within the row.
        column: usize,
        /// What was found.
        value: f32,
    },
    /// A row is so long that an inner product could overflow.
    #[error("row {row} has norm {norm:e}, beyond {limit:e}: its inner products could overflow")]
    TooLong {
        /// The first such row.
        row: usize,
        /// Its Euclidean norm.
        norm: f64,
        /// The largest norm accepted.
        limit: f64,
    },
    /// A row that must be a unit vector is not one.
    #[error("row {row} has norm {norm}, not 1: normalise the vectors first")]
    NotUnit {
        /// The first such row.
        row: usize,
        /// Its Euclidean norm.
        norm: f64,
    },
    /// A query holds NaN or an infinity.
    #[error("the query holds {value} at position {position}")]
    QueryNotFinite {
        /// Position within the query.
        position: usize,
        /// What was found.
        value: f32,
    },
    /// A vector without a direction.
    #[error("row {row} is zero: it has no direction")]
    ZeroVector {
        /// The first such row.
        row: usize,
    },
    /// A query without a direction.
    #[error("the query is zero: it has no direction")]
    ZeroQuery,
    /// Two sets of vectors that must share a dimension do not.
    #[error("vectors of dimension {got} where {expected} was expected")]
    DimensionMismatch {
        /// Dimension of the reference.
        expected: usize,
        /// Dimension of the other set.
        got: usize,
    },
    /// There must be one group number for each row.
    #[error("{got} group numbers for {expected} rows")]
    GroupsMismatch {
        /// Rows in the set.
        expected: usize,
        /// Group numbers given.
        got: usize,
    },
    /// A list of no neighbours was asked for.
    #[error("k is 0: ask for at least one neighbour")]
    ZeroK,
    /// No thresholds to count against.
    #[error("no threshold was given")]
    NoThresholds,
    /// A threshold is NaN or infinite.
    #[error("threshold {position} is {value}, not a finite number")]
    BadThreshold {
        /// Position in the list of thresholds.
        position: usize,
        /// What was found.
        value: f32,
    },
    /// The result would not fit in the address space or in memory.
    #[error("a result of {rows} rows of {width} does not fit in memory")]
    TooLarge {
        /// Rows of the result.
        rows: usize,
        /// Entries in each row.
        width: usize,
    },
    /// The threads could not be started.
    #[error("could not start {threads} threads: {reason}")]
    Threads {
        /// Threads asked for.
        threads: usize,
        /// What the system said.
        reason: String,
    },
    /// The progress callback asked to stop.
    #[error("cancelled after {done} of {total} blocks")]
    Cancelled {
        /// Blocks finished.
        done: u64,
        /// Blocks in all.
        total: u64,
    },
    /// There must be one key for each row.
    #[error("{got} keys for {expected} rows")]
    KeysMismatch {
        /// Rows in the set.
        expected: usize,
        /// Keys given.
        got: usize,
    },
    /// Two rows with the same key could not be told apart where their scores are equal.
    #[error("rows {first} and {second} have the same key: every row needs an id of its own")]
    DuplicateKey {
        /// The lower row.
        first: usize,
        /// The higher row.
        second: usize,
    },
    /// A key that is in the index already.
    #[error("row {row} has the key {key}, which is in the index already")]
    KeyTaken {
        /// The first such row.
        row: usize,
        /// Its key.
        key: u64,
    },
    /// The one key that an index has a use of its own for.
    #[error("row {row} has the key {key}, which no vector can have")]
    KeyReserved {
        /// The first such row.
        row: usize,
        /// The key.
        key: u64,
    },
    /// An option of an index that is out of bounds.
    #[error("{what} is {got}, but must be between {least} and {most}")]
    IndexOption {
        /// Which.
        what: &'static str,
        /// What was given.
        got: usize,
        /// The smallest allowed.
        least: usize,
        /// The largest allowed.
        most: usize,
    },
    /// The index cannot hold more.
    #[error("an index of {got} vectors is larger than the {limit} that it can hold")]
    IndexFull {
        /// Vectors that there would be.
        got: usize,
        /// The most there can be.
        limit: usize,
    },
    /// An index that was opened for reading.
    #[error("the index was opened for reading and cannot be changed: load it instead")]
    IndexReadOnly,
    /// Adding was stopped by the progress callback.
    #[error("stopped after adding {added} of {total} vectors")]
    AddingStopped {
        /// Vectors that were added.
        added: u64,
        /// Vectors in all.
        total: u64,
    },
    /// The library behind the index refused, for a reason that is not the caller's: memory, as a rule.
    #[error("the index failed: {reason}")]
    Index {
        /// What it said.
        reason: String,
    },
    /// A file cannot be opened, read or written.
    #[error("{}: {reason}", path.display())]
    IndexFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// A path that the library behind the index cannot take.
    #[error("{}: the path is not Unicode, which files of an index need", path.display())]
    PathNotUnicode {
        /// The path.
        path: PathBuf,
    },
    /// A file that is no index.
    #[error("{}: this is no index of vectors", path.display())]
    NotAnIndex {
        /// The file.
        path: PathBuf,
    },
    /// An index of another format.
    #[error("{}: the index has format {got}, this program reads format {expected}", path.display())]
    IndexVersion {
        /// The file.
        path: PathBuf,
        /// The format that is read.
        expected: u32,
        /// That of the file.
        got: u32,
    },
    /// An index file that is damaged.
    #[error("{}: the index is damaged: {what}", path.display())]
    IndexDamaged {
        /// The file.
        path: PathBuf,
        /// How that was seen.
        what: &'static str,
    },
    /// Reports that are no reports of one thing.
    #[error("reports with cuts of {first} and {second} cannot be joined")]
    CutsMismatch {
        /// The k of one.
        first: usize,
        /// The k of another.
        second: usize,
    },
    /// Nothing to take a mean of.
    #[error("there are no queries to evaluate")]
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
    #[error("{got} values are too few: a standard deviation needs at least 2")]
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
    /// Reading a file failed on the way.
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
    /// Bytes that are no text.
    #[error("{}: line {line} is not UTF-8", path.display())]
    LineNotUtf8 {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
    },
    /// A line with too few or too many fields.
    #[error("{}: line {line} has {got} fields, not {expected} ({fields})", path.display())]
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
        /// What stands there.
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
