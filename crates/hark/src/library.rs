//! Arguments that commands on a library share: which library, which notes.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use clap::Args;
use hark_library::{Annotations, Error, Library, LibraryLocation, OpenOptions};

use hark_models::EVERYDAY;

use crate::commands::inputs::ColumnArgs;
use crate::home::Home;

/// The variable that names a server, so that its password need not be an argument, which others can see.
const STORE: &str = "HARK_STORE";

/// A published tagger that hears better than the built-in one.
const BETTER: &str = "mn40-as-ext";

/// Which library.
#[derive(Debug, Args)]
pub struct LibraryArgs {
    /// Name of the library
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub name: String,
    /// Address of a PostgreSQL server with pgvector that keeps the library [default: HARK_STORE if set, else a folder on this machine]
    #[arg(long, value_name = "postgres://…")]
    pub store: Option<String>,
}

impl LibraryArgs {
    /// Where the library is, or would be.
    pub fn location(&self, home: &Home) -> Result<LibraryLocation> {
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        ensure!(
            !self.name.is_empty() && self.name.len() <= 40 && self.name.chars().all(allowed),
            "a library's name has up to 40 letters, digits, - and _"
        );
        let store = self
            .store
            .clone()
            .or_else(|| std::env::var(STORE).ok().filter(|url| !url.is_empty()));
        Ok(match store {
            Some(url) if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                LibraryLocation::Server {
                    url,
                    name: self.name.clone(),
                }
            }
            Some(_) => {
                bail!("--store takes the address of a PostgreSQL server: postgres://user@host/database")
            }
            None => LibraryLocation::Folder(home.libraries().join(&self.name)),
        })
    }

    /// Opens the library, which must exist.
    pub fn open(&self, home: &Home, options: &OpenOptions) -> Result<Library> {
        let location = self.location(home)?;
        let others = match &location {
            LibraryLocation::Folder(_) => LibraryLocation::names_in(&home.libraries()),
            LibraryLocation::Server { .. } => Vec::new(),
        };
        match Library::open_with(location, &home.models(), options) {
            Err(Error::Missing { .. }) => {
                let others = if others.is_empty() {
                    String::new()
                } else {
                    format!(" (libraries: {})", others.join(", "))
                };
                bail!(
                    "library {} does not exist{others}; create it with: hark index FOLDER",
                    self.name
                )
            }
            opened => Ok(opened?),
        }
    }
}

/// Says that a library's model is the built-in one, unless it was asked for, and what is better.
pub fn tell_of_everyday(unnamed: bool, library: &Library) {
    if unnamed && library.store().settings().model == EVERYDAY {
        tell_of_default();
    }
}

/// Says that the built-in model is used, and what is better.
pub fn tell_of_default() {
    eprintln!(
        "hark: using the built-in model {EVERYDAY}; for better results: hark models pull {BETTER}, then hark models bridge --audio {BETTER} --name better, then --model better"
    );
}

/// Captions and tags of the recordings.
#[derive(Debug, Args)]
pub struct NoteArgs {
    /// File of captions, in any format that hark reads, matched by file name (repeatable)
    #[arg(long = "captions", value_name = "FILE")]
    captions: Vec<PathBuf>,
    #[command(flatten)]
    columns: ColumnArgs,
    /// CSV file of tags: a column such as `file`, and one such as `tags` or `category` (repeatable)
    #[arg(long = "tags", value_name = "FILE.csv")]
    tags: Vec<PathBuf>,
    /// Column of the tags (repeatable)
    #[arg(long, value_name = "NAME", requires = "tags")]
    tag_column: Vec<String>,
}

impl NoteArgs {
    /// Reads all files; `None` if there are none.
    pub fn read(&self) -> Result<Option<Annotations>> {
        if self.captions.is_empty() && self.tags.is_empty() {
            return Ok(None);
        }
        let mut annotations = Annotations::default();
        for path in &self.captions {
            let set = self.columns.read(path)?;
            for caption in &set.captions {
                let name = set.clips.get(caption.clip).map_or("", String::as_str);
                annotations.add_caption(name, &caption.text);
            }
        }
        for path in &self.tags {
            annotations.read_tags(path, &self.tag_column)?;
        }
        Ok(Some(annotations))
    }
}
