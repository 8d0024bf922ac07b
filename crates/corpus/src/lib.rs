//! Datasets on disk to clips and captions.
//!
//! In: caption files as datasets publish them (Clotho's and AudioCaps' CSV, WavCaps' JSON), any CSV, TSV or JSON Lines
//! table, or plain text with one caption per line; and Clotho's crowd ratings. Out: a [`CaptionSet`], or a list of
//! [`Rating`]s, in the order of the file.
//!
//! Datasets with their recordings become a [`Dataset`]: a [`DatasetConfig`] names Clotho, AudioCaps, WavCaps, a table or
//! a folder, and [`registry`] says where those are that have a name. [`AudioCache`] stores decoded recordings.
//!
//! Refused, always with the file's name and, where there is one, the line: bytes that are not UTF-8 text, rows of the
//! wrong length, quotes that never close, empty captions, missing columns, files without captions, and files over a
//! stated bound ([`MAX_FILE_BYTES`], [`MAX_RECORD_BYTES`], [`MAX_CAPTIONS`]). Files are read as a stream, and no input
//! makes a reader panic.
//!
//! ```
//! use std::path::Path;
//! use hark_corpus::{CaptionSet, Format};
//!
//! let file = "file_name,caption_1,caption_2\nrain.wav,Rain falls,Water drips on a roof\n";
//! let set = CaptionSet::read_from(file.as_bytes(), Path::new("captions.csv"), &Format::Auto)?;
//! assert_eq!(set.clips, ["rain.wav"]);
//! assert_eq!(set.texts(), ["Rain falls", "Water drips on a roof"]);
//! # Ok::<(), hark_corpus::Error>(())
//! ```

mod audiocaps;
mod cache;
mod captions;
mod clotho;
pub mod columns;
pub mod delimited;
mod error;
mod format;
mod input;
mod json;
mod ratings;
pub mod registry;
mod sets;
mod table;
mod text;
mod wavcaps;

pub use cache::{
    AudioCache, CacheFormat, CacheStats, Cached, Crop, DEFAULT_MAX_SECONDS, Reading, ReadingCost,
};
pub use captions::{Caption, CaptionSet};
pub use error::{Error, JsonError, Place, quoted};
pub use format::Format;
pub use input::{MAX_CAPTION_WORDS, MAX_CAPTIONS, MAX_FILE_BYTES, MAX_RECORD_BYTES};
pub use ratings::{Rating, rated_captions, read_ratings, read_ratings_from};
pub use registry::Registry;
pub use sets::{
    AUDIO_EXTENSIONS, AudioStats, Check, CheckedSet, Clip, Completeness, Dataset, DatasetConfig, ExcludedIds,
    Exclusion, MAX_DEPTH, MAX_FILES, Pair, Reason, Skipped, SkippedCounts, Spread, TextStats, WavcapsSource,
};
