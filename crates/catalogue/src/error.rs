//! Errors of libraries.

use std::path::PathBuf;

use crate::EmbedError;

/// What can go wrong with a library.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The library's vectors are of another model.
    #[error("the library uses the model {ours} ({ours_fingerprint}), not {theirs} ({theirs_fingerprint})")]
    OtherModel {
        /// The library's.
        ours: String,
        /// Its hash.
        ours_fingerprint: String,
        /// The one at hand.
        theirs: String,
        /// Its hash.
        theirs_fingerprint: String,
    },
    /// The library's windows are of another length or at other distances.
    #[error(
        "the library has windows of {ours_window} s every {ours_hop} s, not {theirs_window} s every {theirs_hop} s"
    )]
    OtherWindows {
        /// Length of the library's.
        ours_window: f64,
        /// Time between two of them.
        ours_hop: f64,
        /// Length of those at hand.
        theirs_window: f64,
        /// Time between two of them.
        theirs_hop: f64,
    },
    /// A vector that is not as long as those of the library.
    #[error("the vector has {got} dimensions, the library {expected}")]
    Dimension {
        /// Numbers in the library's vectors.
        expected: usize,
        /// Numbers in this one.
        got: usize,
    },
    /// Settings that no library can have.
    #[error("invalid settings: {dim} dimensions, windows of {window_seconds} s every {hop_seconds} s")]
    BadSettings {
        /// Numbers in a vector.
        dim: usize,
        /// Length of a window.
        window_seconds: f64,
        /// Time between two of them.
        hop_seconds: f64,
    },
    /// A query vector that is zero or not finite has no direction to search in.
    #[error("the query vector is zero or not finite")]
    NoDirection,
    /// A text that is not a day.
    #[error("`{text}` is not a day of the calendar; write it as 2026-11-15")]
    BadDay {
        /// Its beginning.
        text: String,
    },
    /// The embeddings of what is wanted and of what is excluded are the same.
    #[error("the query and its exclusions cancel out; change one of them")]
    CancelsOut,
    /// A question asks for what is like a file that the library does not have.
    #[error("the library has no file {id}")]
    NoFile {
        /// The id asked for.
        id: i64,
    },
    /// A question asks for what is like a recording that has not been indexed.
    #[error("{path} is not in the library; index its folder first, or search with the recording itself")]
    NotIndexed {
        /// The path asked for.
        path: String,
    },
    /// A question asks for what is like a recording whose vectors are missing.
    #[error("{path} has no vector in the library; run hark index --check")]
    NoVector {
        /// The recording.
        path: String,
    },
    /// A question asks for what is like a moment after the end of the recording.
    #[error("{path} has no moment at {at} s: it is {seconds:.1} s long")]
    NoMoment {
        /// The recording.
        path: String,
        /// The moment asked for, in seconds.
        at: f64,
        /// Length of the recording.
        seconds: f64,
    },
    /// The recording to search by cannot be embedded.
    #[error("cannot search by {path}", path = path.display())]
    Recording {
        /// The recording.
        path: PathBuf,
        /// Why not.
        source: EmbedError,
    },
    /// The text of a question cannot be embedded.
    #[error(transparent)]
    Embed(#[from] EmbedError),
    /// A window's vector is not of length 1.
    #[error("{path}: the vector of the window at {start} s has norm {norm}, not 1")]
    NotUnit {
        /// The recording.
        path: String,
        /// Where the window begins.
        start: f64,
        /// The length of the vector.
        norm: f64,
    },
    /// A recording must have exactly one vector of the whole.
    #[error("{path}: expected one vector for the whole recording, got {got}")]
    NotOneWhole {
        /// The recording.
        path: String,
        /// Windows that stand for the whole.
        got: usize,
    },
    /// A window that is not a part of its recording.
    #[error("{path}: the window from {start} to {end} s is outside of the recording, which has {seconds} s")]
    WindowOutside {
        /// The recording.
        path: String,
        /// Where the window begins.
        start: f64,
        /// Where it ends.
        end: f64,
        /// Length of the recording.
        seconds: f64,
    },
    /// Windows that do not follow each other.
    #[error("{path}: windows out of order: {start} s follows {before} s")]
    WindowsOutOfOrder {
        /// The recording.
        path: String,
        /// Where the window begins.
        start: f64,
        /// Where the one before it begins.
        before: f64,
    },
    /// A recording's length is no length.
    #[error("{path}: invalid length of {seconds} s")]
    BadLength {
        /// The recording.
        path: String,
        /// Its length.
        seconds: f64,
    },
    /// There is no library at this place.
    #[error("{place}: no library here; create it with: hark index FOLDER")]
    Missing {
        /// The folder or the database.
        place: String,
    },
    /// There is a library at this place already.
    #[error("{place}: a library already exists here")]
    Exists {
        /// The folder or the database.
        place: String,
    },
    /// What is at this place is something else.
    #[error("{place}: not a hark library")]
    NotCatalogue {
        /// The file or the database.
        place: String,
    },
    /// The library was written by a newer version of this program.
    #[error(
        "{place}: the library has format {found}, this version of hark reads up to {known}; use a newer hark"
    )]
    NewerFormat {
        /// The file or the database.
        place: String,
        /// Its format.
        found: i64,
        /// The newest format that is known here.
        known: i64,
    },
    /// What is kept contradicts itself or cannot be read.
    #[error("{place}: the library is damaged: {fault}")]
    Damaged {
        /// The file or the database.
        place: String,
        /// Which part of it.
        fault: String,
    },
    /// The library was made anew since it was opened.
    #[error("{place}: the library was rebuilt by another process; reopen it")]
    Renewed {
        /// The folder or the database.
        place: String,
    },
    /// Another process is indexing.
    #[error("{place}: another process is writing to this library; wait until it is done")]
    Locked {
        /// The file that is locked, or the database.
        place: String,
    },
    /// A caller asked to stop.
    #[error("interrupted after {done} of {total} vectors")]
    Stopped {
        /// Vectors that were in.
        done: u64,
        /// Vectors in all.
        total: u64,
    },
    /// SQLite refuses.
    #[error("{path}: {source}", path = path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
    /// The address of a server cannot be read. Nothing of it is repeated: it may hold a password.
    #[error(
        "invalid server address: {why}; expected postgres://user:password@host:port/database?sslmode=require, with special characters of the password as %XX"
    )]
    Address {
        /// What is wrong with it.
        why: &'static str,
    },
    /// A file that should hold certificates to trust does not.
    #[error("{path}: no readable PEM certificate", path = path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
    },
    /// A name that no library on a server can have.
    #[error("invalid library name {name:?}: use up to {most} ASCII letters, digits, _ and -")]
    LibraryName {
        /// The name.
        name: String,
        /// Characters that it may have.
        most: usize,
    },
    /// The server cannot keep vectors.
    #[error(
        "{server}: pgvector {needed} or later is required ({what}); ask an administrator to install it and run CREATE EXTENSION vector"
    )]
    NoVectors {
        /// Host and port.
        server: String,
        /// The lowest version that will do.
        needed: &'static str,
        /// What there is instead, or what the server says.
        what: String,
    },
    /// Vectors of more numbers than a server's column can hold.
    #[error("a library on PostgreSQL supports at most {most} dimensions, not {dim}")]
    TooWide {
        /// Numbers in a vector.
        dim: usize,
        /// The most that pgvector keeps.
        most: usize,
    },
    /// A path that is too long for the index of paths on a server.
    #[error("{path}: the path has {got} bytes, a library on PostgreSQL supports {most}")]
    LongPath {
        /// The path.
        path: String,
        /// Its bytes.
        got: usize,
        /// Bytes that it may have.
        most: usize,
    },
    /// The server was lost and could not be reached again.
    #[error("{server}: connection lost; {tries} attempts to continue failed: {what}")]
    Lost {
        /// Host and port.
        server: String,
        /// How often it was tried.
        tries: u32,
        /// What the last one failed of.
        what: String,
        /// As the client has it.
        source: Box<postgres::Error>,
    },
    /// All connections to the server are in use.
    #[error("{server}: no free connection within {seconds} s")]
    Busy {
        /// Host and port.
        server: String,
        /// How long was waited.
        seconds: u64,
    },
    /// The server did not answer a search in time.
    #[error("{server}: the search took longer than {seconds} s or was cancelled by an administrator")]
    Slow {
        /// Host and port.
        server: String,
        /// The longest time that a search may take.
        seconds: u32,
    },
    /// The server refuses.
    #[error("{server}: {what}")]
    Server {
        /// Host and port.
        server: String,
        /// What it says.
        what: String,
        /// As the client has it.
        source: Box<postgres::Error>,
    },
    /// Vectors could not be compared.
    #[error("cannot compare vectors: {0}")]
    Rank(#[from] hark_nearest::Error),
    /// The text of a library cannot be written.
    #[error("cannot write the dump: {0}")]
    Dump(std::io::Error),
    /// A file of the library cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl Error {
    /// Whether an entry was refused for what it is: others can go on without it.
    pub fn is_of_entry(&self) -> bool {
        matches!(
            self,
            Self::NotUnit { .. }
                | Self::NotOneWhole { .. }
                | Self::WindowOutside { .. }
                | Self::WindowsOutOfOrder { .. }
                | Self::BadLength { .. }
                | Self::LongPath { .. }
        )
    }

    /// Whether what is there cannot be used as a library, though it was one.
    pub fn is_of_library(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::NewerFormat { .. })
    }
}
