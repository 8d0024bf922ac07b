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
    /// A file is no matrix of floats in NumPy's form.
    #[error("cannot read {}: {reason}", path.display())]
    Npy {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There must be one id for each row.
    #[error("{got} ids for {expected} rows")]
    IdsMismatch {
        /// Rows in the set.
        expected: usize,
        /// Ids given.
        got: usize,
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
    #[error("rows {first} and {second} have the same key; every row needs a different id")]
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
    /// The one key that the index reserves.
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
    #[error("an index holds at most {limit} vectors, not {got}")]
    IndexFull {
        /// Vectors that there would be.
        got: usize,
        /// The most there can be.
        limit: usize,
    },
    /// An index that was opened for reading.
    #[error("the index was opened read-only; load it to change it")]
    IndexReadOnly,
    /// Adding was stopped by the progress callback.
    #[error("stopped after adding {added} of {total} vectors")]
    AddingStopped {
        /// Vectors that were added.
        added: u64,
        /// Vectors in all.
        total: u64,
    },
    /// usearch failed, usually for lack of memory.
    #[error("the index failed: {reason}")]
    Index {
        /// What it said.
        reason: String,
    },
    /// An index file cannot be opened or read.
    #[error("cannot read {}: {reason}", path.display())]
    IndexFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// An index file cannot be written.
    #[error("{reason}")]
    IndexNotWritten {
        /// What the system said, with the file's path.
        reason: String,
    },
    /// A path that the library behind the index cannot take.
    #[error("cannot use {}: the path of an index must be UTF-8", path.display())]
    PathNotUnicode {
        /// The path.
        path: PathBuf,
    },
    /// A file that is not an index.
    #[error("cannot read {}: not an index of vectors", path.display())]
    NotAnIndex {
        /// The file.
        path: PathBuf,
    },
    /// An index of another format.
    #[error("cannot read {}: index format {got}, expected {expected}", path.display())]
    IndexVersion {
        /// The file.
        path: PathBuf,
        /// The format that is read.
        expected: u32,
        /// That of the file.
        got: u32,
    },
    /// An index file that is damaged.
    #[error("cannot read {}: the index is damaged: {what}", path.display())]
    IndexDamaged {
        /// The file.
        path: PathBuf,
        /// How that was seen.
        what: &'static str,
    },
}

/// For [`hark_work::files::replace_file`], whose errors name the file.
impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::IndexNotWritten {
            reason: error.to_string(),
        }
    }
}
