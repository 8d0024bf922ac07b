//! What a pull takes, before it begins: files, disk, licence.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hark_download::{GoOn, free_disk};
use hark_work::progress::{Bytes, counted};
use hark_work::workers::map;

use crate::error::Error;
use crate::hub::Network;
use crate::published::{Published, PublishedModel};
use crate::pull::{PARALLEL, Sources, downloads};
use crate::store::ModelStore;

/// What [`ModelStore::pull`] will take.
#[derive(Debug)]
pub struct PullPlan {
    /// The model.
    pub model: &'static PublishedModel,
    /// Every file that will be downloaded; none of a model that is installed or comes from a folder.
    pub files: Vec<PlannedFile>,
    /// Bytes of disk that are needed beyond what is here already, of files whose length is known.
    pub needed: u64,
    /// Free bytes of the store's disk, where the system says it.
    pub free: Option<u64>,
    /// The store.
    pub folder: PathBuf,
}

/// A file that will be downloaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFile {
    /// Its name.
    pub name: String,
    /// Its length, if the server says it.
    pub bytes: Option<u64>,
    /// Bytes of it that an earlier pull has left.
    pub here: u64,
}

impl PullPlan {
    /// Asks the servers for the lengths of files. One that does not answer is not asked again: the pull may have another source.
    pub(crate) fn of(
        store: &ModelStore,
        model: &'static PublishedModel,
        sources: &Sources,
        go_on: GoOn<'_>,
    ) -> Result<Self, Error> {
        let network = match (&sources.from, &sources.network) {
            (None, Some(network)) if !store.is_complete(model) => Some(network),
            _ => None,
        };
        let files = match network {
            Some(network) => planned(store, model, network, go_on)?,
            None => Vec::new(),
        };
        Ok(Self {
            model,
            needed: needed(model, &files),
            files,
            free: free_disk(store.folder()),
            folder: store.folder().to_owned(),
        })
    }

    /// That the disk has room for it.
    ///
    /// # Errors
    /// [`Error::NoRoom`].
    pub fn check_room(&self) -> Result<(), Error> {
        match self.free {
            Some(free) if free < self.needed => Err(Error::NoRoom {
                name: self.model.name,
                folder: self.folder.clone(),
                needed: self.needed,
                free,
            }),
            _ => Ok(()),
        }
    }
}

fn planned(
    store: &ModelStore,
    model: &'static PublishedModel,
    network: &Network,
    go_on: GoOn<'_>,
) -> Result<Vec<PlannedFile>, Error> {
    let remotes = downloads(model, network, &store.partial().join(model.name).join("files"));
    let client = network.client().clone().retries(0, Duration::ZERO);
    let silent = AtomicBool::new(false);
    let ask = |remote: &hark_download::Remote| {
        if silent.load(Ordering::Relaxed) {
            return Ok(None);
        }
        match client.length(&remote.url, remote.token.as_ref(), go_on) {
            Err(error) if error.is_remote() => {
                let answered = matches!(error, hark_download::Error::Status { .. });
                silent.fetch_or(!answered, Ordering::Relaxed);
                Ok(None)
            }
            Err(hark_download::Error::Cancelled) => Err(Error::Cancelled),
            other => other.map_err(Error::from),
        }
    };
    let lengths = map(&remotes, PARALLEL.get(), &|_, _| go_on(), ask)?;
    let size = |path: PathBuf| fs_err::metadata(path).map_or(0, |metadata| metadata.len());
    let files = remotes.into_iter().zip(lengths).map(|(remote, bytes)| {
        let part = remote.target.with_added_extension("part");
        Ok(PlannedFile {
            bytes: bytes?,
            here: size(remote.target).max(size(part)),
            name: remote.name,
        })
    });
    files.collect()
}

/// The most disk that is used at a time, without what is here. Of towers, everything is there twice: pieces and the file that they
/// are joined to, then what was downloaded and what is imported from it.
fn needed(model: &PublishedModel, files: &[PlannedFile]) -> u64 {
    let all: u64 = files.iter().filter_map(|file| file.bytes).sum();
    let here: u64 = files
        .iter()
        .filter_map(|file| Some(file.here.min(file.bytes?)))
        .sum();
    let copies = match model.kind {
        Published::Sentence { .. } => 1,
        Published::Towers { .. } => 2,
    };
    (copies * all).saturating_sub(here)
}

impl fmt::Display for PullPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.model.name, self.model.about)?;
        writeln!(f, "licence: {}", self.model.licence.unwrap_or("none stated"))?;
        let left = self
            .files
            .iter()
            .filter_map(|file| Some((file.bytes?, file.here)));
        let left: u64 = left.map(|(bytes, here)| bytes.saturating_sub(here)).sum();
        let all = counted(self.files.len(), "file");
        match self.files.iter().filter(|file| file.bytes.is_none()).count() {
            0 => writeln!(f, "download: {all}, {}", Bytes(left))?,
            unknown if unknown == self.files.len() => writeln!(f, "download: {all} of unknown length")?,
            unknown => {
                let unknown = counted(unknown, "file");
                writeln!(
                    f,
                    "download: {all}, {} and {unknown} of unknown length",
                    Bytes(left)
                )?;
            }
        }
        for file in &self.files {
            let bytes = file
                .bytes
                .map_or("unknown length".to_owned(), |bytes| Bytes(bytes).to_string());
            write!(f, "  {}: {bytes}", file.name)?;
            if file.here > 0 {
                write!(f, ", {} already here", Bytes(file.here))?;
            }
            writeln!(f)?;
        }
        let free = self
            .free
            .map_or("unknown".to_owned(), |free| Bytes(free).to_string());
        writeln!(
            f,
            "disk space: {} needed, {free} free in {}",
            Bytes(self.needed),
            self.folder.display()
        )
    }
}
