//! Folders of recordings → a library that can be searched.
//!
//! [`Library`] is the facade for programs:
//!
//! ```no_run
//! use std::path::Path;
//!
//! use hark_library::{Library, LibraryLocation, Question};
//! use hark_models::ModelStore;
//!
//! # fn main() -> Result<(), hark_library::Error> {
//! let models = ModelStore::at(Path::new("/home/me/.local/share/hark"));
//! let location = LibraryLocation::Folder("/home/me/.local/share/hark/libraries/default".into());
//! let library = Library::open(location, &models)?;
//! let hits = library.search(&Question::text("rain").without("speech").limit(10))?;
//! # Ok(())
//! # }
//! ```
//!
//! | module | in → out |
//! |---|---|
//! | `location` | a folder or a PostgreSQL server → an open catalogue |
//! | `model` | the model that a library was made with → vectors of texts and recordings |
//! | `scan` | a folder → the audio files in it |
//! | `plan` | audio files and index entries → what is new, changed, gone |
//! | `indexing` | a plan → index entries |
//! | `hearing` | vectors and classes of windows → names of what is heard |
//! | `classify` | recordings and texts → the texts that fit best |
//! | `report` | what an indexing did → lines of text |
//! | `watch` | folders → a signal when something changes in them |
//! | `annotations` | files of captions and tags → notes by file name |
//!
//! Nothing here prints, reads the environment or keeps global state: progress and cancellation are an [`IndexEvent`]
//! callback, the device and its threads a [`Compute`].

mod annotations;
mod classify;
mod error;
mod hearing;
mod indexing;
mod library;
mod location;
mod model;
mod plan;
mod report;
mod scan;
mod watch;

pub use annotations::{Annotations, Matched};
pub use classify::{
    Accuracy, Classified, ClassifiedRecording, Classify, ClassifyEvent, ScoredText, classify,
};
pub use error::Error;
pub use hark_catalogue::{Hit, Question};
pub use hark_encode::Compute;
pub use indexing::{IndexEvent, OnIndexEvent, Outcome};
pub use library::{IndexOptions, Library, OpenOptions, Setup};
pub use location::{LibraryContent, LibraryLocation, ListedLibrary};
pub use model::{LibraryModel, ModelEmbedder};
pub use plan::Shard;
pub use report::{IndexReport, more_than_once};
pub use scan::SkipReason;
