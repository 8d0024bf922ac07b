//! A split and its embeddings: from a model, kept for the next evaluation, or from files of vectors.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use hark_corpus::{CaptionSet, Check, Clip, Dataset, DatasetConfig, Pair};
use hark_encode::Compute;
use hark_encode::model::{AudioEncoder, ModelFiles, TextEncoder};
use hark_nearest::npy;
use hark_work::files::{self, hex};
use sha2::{Digest, Sha256};

use crate::embed::{OnSplitEvent, go_on};
use crate::{CaptionInput, ClipInput, Error, SplitEmbeddings, SplitEvent, embed_split};

/// What is evaluated.
#[derive(Debug, Clone)]
pub struct Collection {
    /// What reports call it.
    pub title: String,
    /// Where the split is; nowhere for vectors alone.
    pub sets: Vec<DatasetConfig>,
    /// Clips and captions.
    pub data: Dataset,
    /// Their embeddings.
    pub embedded: SplitEmbeddings,
}

/// A model, and the split that it embeds.
#[derive(Debug, Clone, Copy)]
pub struct ModelOnSplit<'a> {
    /// What reports call the model.
    pub name: &'a str,
    /// Its folder.
    pub model: &'a ModelFiles,
    /// The split.
    pub sets: &'a [DatasetConfig],
    /// Evaluate the recordings that can be read instead of refusing a split that is not complete.
    pub allow_missing: bool,
    /// Where embeddings are kept for the next evaluation; nowhere if `None`.
    pub cache: Option<&'a Path>,
    /// The device and its threads.
    pub compute: &'a Compute,
}

/// Whose captions the vectors of a file are.
#[derive(Debug, Clone)]
pub enum CaptionOwners {
    /// Those of a caption file, in its order; clips in the order of their first captions.
    File(CaptionSet, PathBuf),
    /// So many of each clip, one clip after the other.
    PerClip(NonZeroUsize),
}

impl Collection {
    /// Embeds a split, or takes the embeddings of an earlier call if neither the model nor the split has changed.
    ///
    /// # Errors
    /// [`Error::NotComplete`] and [`Error::Unreadable`] unless missing recordings are allowed; if the model or the split
    /// cannot be read; [`Error::Cancelled`]. A cache that cannot be written is only reported.
    pub fn embed(asked: &ModelOnSplit<'_>, on_event: OnSplitEvent<'_>) -> Result<Self, Error> {
        let looking = |done, total| on_event(SplitEvent::Opened { done, total });
        let mut data = Dataset::load_all(asked.sets, Check::Opens, asked.compute.threads(), &looking)?;
        if let Some(first) = data.left_out.first().filter(|_| !asked.allow_missing) {
            return Err(Error::NotComplete {
                name: data.name.clone(),
                count: data.left_out.len(),
                total: data.left_out.len() + data.clips.len(),
                first: first.id.clone(),
                reason: first.reason.to_string(),
            });
        }
        let embedded = embed(asked, &mut data, on_event)?;
        Ok(Self {
            title: format!("{} on {}", asked.name, data.name),
            sets: asked.sets.to_vec(),
            data,
            embedded,
        })
    }

    /// Reads vectors of clips and captions (NumPy matrices).
    ///
    /// # Errors
    /// If a file cannot be read, [`Error::OtherDim`], or [`Error::OtherSplit`].
    pub fn read(clips: &Path, captions: &Path, owners: CaptionOwners) -> Result<Self, Error> {
        let (clip_rows, caption_rows) = (npy::read(clips)?, npy::read(captions)?);
        if clip_rows.dim() != caption_rows.dim() {
            return Err(Error::OtherDim {
                clips: (clips.to_owned(), clip_rows.dim()),
                captions: (captions.to_owned(), caption_rows.dim()),
            });
        }
        let other_split = |clips, captions| Error::OtherSplit {
            what: "vectors",
            got_captions: caption_rows.len(),
            got_clips: clip_rows.len(),
            captions,
            clips,
        };
        let data = match owners {
            CaptionOwners::File(set, path) => {
                let pairs = set.captions.into_iter();
                Dataset {
                    name: path.display().to_string(),
                    clips: set.clips.into_iter().map(unlocated).collect(),
                    pairs: pairs
                        .map(|caption| Pair {
                            clip: caption.clip,
                            caption: caption.text,
                        })
                        .collect(),
                    left_out: Vec::new(),
                }
            }
            CaptionOwners::PerClip(each) => {
                let count = clip_rows.len().saturating_mul(each.get());
                if count != caption_rows.len() {
                    return Err(other_split(clip_rows.len(), count));
                }
                let pair = |nth| Pair {
                    clip: nth / each,
                    caption: String::new(),
                };
                Dataset {
                    name: "vectors".into(),
                    clips: (0..clip_rows.len())
                        .map(|nth| unlocated(format!("clip-{nth}")))
                        .collect(),
                    pairs: (0..count).map(pair).collect(),
                    left_out: Vec::new(),
                }
            }
        };
        if (clip_rows.len(), caption_rows.len()) != (data.clips.len(), data.pairs.len()) {
            return Err(other_split(data.clips.len(), data.pairs.len()));
        }
        Ok(Self {
            title: format!("{} and {}", clips.display(), captions.display()),
            sets: Vec::new(),
            data,
            embedded: SplitEmbeddings {
                dim: clip_rows.dim(),
                clips: clip_rows.into_vec(),
                captions: caption_rows.into_vec(),
            },
        })
    }
}

/// A clip that is known by its name alone.
fn unlocated(id: String) -> Clip {
    Clip {
        id,
        path: PathBuf::new(),
        set: 0,
    }
}

fn embed(
    asked: &ModelOnSplit<'_>,
    data: &mut Dataset,
    on_event: OnSplitEvent<'_>,
) -> Result<SplitEmbeddings, Error> {
    let cached = match asked.cache {
        Some(cache) => Some((cache, Cached::of(cache, &key(asked.model, data)?))),
        None => None,
    };
    if let Some(found) = cached
        .as_ref()
        .map(|(_, cached)| cached.read(data))
        .transpose()?
        .flatten()
    {
        return Ok(found);
    }
    let audio = AudioEncoder::open(asked.model, asked.compute)?;
    let text = TextEncoder::open(asked.model, asked.compute)?;
    let captions = CaptionInput::Words(&text);
    let found = embed_split(&audio, ClipInput::Files, captions, data, on_event)?;
    let is_complete = found.is_complete();
    let embedded = if asked.allow_missing {
        found.take_found(data)?
    } else {
        found.complete(data)?
    };
    if let Some((folder, cached)) = cached.filter(|_| is_complete) {
        // A cache that cannot be written costs time, not results.
        let written = fs_err::create_dir_all(folder).map_err(Error::from);
        if let Err(error) = written.and_then(|()| cached.write(&embedded)) {
            go_on(on_event(SplitEvent::NotCached(&error)))?;
        }
    }
    Ok(embedded)
}

/// The two files of a split's embeddings.
struct Cached {
    clips: PathBuf,
    captions: PathBuf,
}

impl Cached {
    fn of(folder: &Path, key: &str) -> Self {
        let file = |what: &str| folder.join(format!("{key}-{what}.npy"));
        Self {
            clips: file("clips"),
            captions: file("captions"),
        }
    }

    fn read(&self, data: &Dataset) -> Result<Option<SplitEmbeddings>, Error> {
        if !self.clips.exists() || !self.captions.exists() {
            return Ok(None);
        }
        let (clips, captions) = (npy::read(&self.clips)?, npy::read(&self.captions)?);
        if (clips.len(), captions.len()) != (data.clips.len(), data.pairs.len()) {
            return Ok(None);
        }
        Ok(Some(SplitEmbeddings {
            dim: clips.dim(),
            clips: clips.into_vec(),
            captions: captions.into_vec(),
        }))
    }

    fn write(&self, embedded: &SplitEmbeddings) -> Result<(), Error> {
        for (path, rows) in [
            (&self.clips, &embedded.clips),
            (&self.captions, &embedded.captions),
        ] {
            files::write_with(path, |file| npy::write(file, embedded.dim, rows))?;
        }
        Ok(())
    }
}

/// A name that changes with the model and with anything about the split.
fn key(model: &ModelFiles, data: &Dataset) -> Result<String, Error> {
    let mut hash = Sha256::new();
    hash.update(concat!("hark evaluation 1, ", env!("CARGO_PKG_VERSION"), "\0"));
    hash.update(model.hash()?);
    for clip in &data.clips {
        let file = fs_err::metadata(&clip.path)?;
        hash.update(clip.path.as_os_str().as_encoded_bytes());
        hash.update(format!("\0{} {:?}\0", file.len(), file.modified().ok()));
    }
    for pair in &data.pairs {
        hash.update(format!("{}\0{}\0", pair.clip, pair.caption));
    }
    Ok(hex(&hash.finalize()[..16]))
}
