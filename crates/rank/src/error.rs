//! Everything that this crate refuses, with the numbers that explain why.

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
}
