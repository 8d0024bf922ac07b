//! A model with both sides, loaded: recordings and texts in, embeddings that can be compared out.

use std::path::{Path, PathBuf};

use hark_work::progress::no_progress;

use crate::model::{AudioEncoder, CARD, ModelFiles, TextEncoder};
use crate::{Compute, Embeddings, Error, Progress};

/// Both encoders of a model folder. Their embeddings have length 1 and lie in one space: the inner product of a text and
/// a recording is their cosine similarity.
///
/// ```no_run
/// use hark_encode::{Compute, DualModel};
/// use std::path::Path;
///
/// let model = DualModel::open(Path::new("my-model"), &Compute::cpu(2))?;
/// let clips = model.embed_files(&["dog.wav", "rain.wav"])?;
/// let hits = hark_nearest::top_k(model.embed_text("rain")?.row(0), clips.view(), 10)?;
/// println!("{:?}", clips.id(hits[0].row));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DualModel {
    audio: AudioEncoder,
    text: TextEncoder,
}

impl DualModel {
    /// Loads both sides of a model.
    ///
    /// # Errors
    /// [`Error::NoTower`] if a side is missing, [`Error::Config`] if the towers have no projections into one space, and
    /// as [`AudioEncoder::open`] and [`TextEncoder::open`].
    pub fn open(model: impl Into<ModelFiles>, compute: &Compute) -> Result<Self, Error> {
        let files = model.into();
        let audio = AudioEncoder::open(&files, compute)?;
        let text = TextEncoder::open(&files, compute)?;
        if !audio.is_projected() || audio.dim() != text.dim() {
            return Err(Error::Config {
                path: files.path(CARD),
                what: "the towers have no projections into a common space".to_owned(),
            });
        }
        Ok(Self { audio, text })
    }

    /// Length of an embedding.
    pub fn dim(&self) -> usize {
        self.audio.dim()
    }

    /// The audio side.
    pub fn audio(&self) -> &AudioEncoder {
        &self.audio
    }

    /// The text side.
    pub fn text(&self) -> &TextEncoder {
        &self.text
    }

    /// Embeds recordings. Rows are in the order of the paths and have them as ids; a recording that cannot be read has no
    /// row but a [`Failure`](crate::Failure), and the others go on.
    ///
    /// # Errors
    /// If threads cannot be started.
    pub fn embed_files(&self, paths: &[impl AsRef<Path>]) -> Result<Embeddings, Error> {
        self.embed_files_with(paths, &no_progress)
    }

    /// As [`DualModel::embed_files`], and reports finished recordings, once for each segment.
    ///
    /// # Errors
    /// [`Error::Cancelled`], or if threads cannot be started.
    pub fn embed_files_with(
        &self,
        paths: &[impl AsRef<Path>],
        progress: Progress<'_>,
    ) -> Result<Embeddings, Error> {
        let paths: Vec<PathBuf> = paths.iter().map(|path| path.as_ref().to_owned()).collect();
        self.audio.embed(&paths, progress)
    }

    /// Embeds one text, as row 0.
    ///
    /// # Errors
    /// If the tokenizer or the model cannot take it.
    pub fn embed_text(&self, text: &str) -> Result<Embeddings, Error> {
        self.embed_texts(&[text])
    }

    /// Embeds texts; row i belongs to text i.
    ///
    /// # Errors
    /// If the tokenizer or the model cannot take a text.
    pub fn embed_texts(&self, texts: &[&str]) -> Result<Embeddings, Error> {
        self.embed_texts_with(texts, &no_progress)
    }

    /// As [`DualModel::embed_texts`], and reports finished texts.
    ///
    /// # Errors
    /// Those of [`DualModel::embed_texts`], and [`Error::Cancelled`].
    pub fn embed_texts_with(&self, texts: &[&str], progress: Progress<'_>) -> Result<Embeddings, Error> {
        self.text.embed(texts, progress)
    }
}
