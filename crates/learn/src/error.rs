//! The one error type of this crate.

/// What can go wrong while learning.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The teacher, or the encoder that was made, cannot be used.
    #[error(transparent)]
    Encode(#[from] hark_encode::Error),
    /// Vectors do not fit what is done with them.
    #[error(transparent)]
    Rank(#[from] hark_rank::Error),
    /// Too few different captions for a batch.
    #[error("{got} different captions; a batch of {needed} needs at least as many")]
    TooFew {
        /// How many there are.
        got: usize,
        /// How many are needed.
        needed: usize,
    },
    /// An option has a value that cannot be.
    #[error("{option} is {value}; it must be {allowed}")]
    Option {
        /// Its name.
        option: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        allowed: String,
    },
    /// The loss became infinite or not a number.
    #[error("the fit broke down in pass {epoch}: the loss is {loss}; a lower rate helps")]
    Diverged {
        /// The pass over the captions.
        epoch: usize,
        /// The loss.
        loss: f32,
    },
    /// The caller's callback asked to stop.
    #[error("cancelled")]
    Cancelled,
}
