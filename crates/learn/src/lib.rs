//! Learning: from captions and what is known about them to models.
//!
//! - [`distil`]: a sentence encoder to a static one that fits into the program.
//!
//! Nothing here prints or reads the environment. Seeds and progress are arguments, and the same seed gives the same
//! bytes.

pub mod distil;
mod error;

pub use error::Error;
