//! Sentence encoders: captions to embeddings of length 1.
//!
//! In: captions. Out: `[captions, dim]`, each row divided by its L2 norm, so that the inner product of two rows is
//! their cosine similarity, the h of the paper. A [`SentenceModel`] is either a transformer of the BERT family (BERT,
//! MPNet, RoBERTa) in a Sentence-Transformers folder ([`SentenceFolder`], [`TransformerEncoder`]) or a
//! [`StaticEncoder`]. [`SentenceEncoder`] is one of either kind, loaded; [`CachedSentenceEncoder`] asks a cache first.
//!
//! A caption's embedding does not depend on what else is embedded, on the order or on the number of threads.

mod cached;
mod folder;
pub mod lexicon;
mod static_encoder;
mod transformer_encoder;

use std::path::Path;

pub use cached::{CachedEmbeddings, CachedSentenceEncoder};
pub use folder::SentenceFolder;
pub use static_encoder::{Card, CardCaptions, Parts, StaticEncoder};
pub use transformer_encoder::TransformerEncoder;

pub use crate::texts::Batch;
pub use crate::towers::bert::{Family, Pooling};
use crate::{Compute, Embeddings, Error, Progress};
use hark_work::progress::no_progress;

/// A sentence encoder of either kind, opened but not necessarily loaded.
#[derive(Debug, Clone)]
pub enum SentenceModel {
    /// A transformer in a folder of Sentence-Transformers' form.
    Transformer(SentenceFolder),
    /// A table of vectors.
    Static(Box<StaticEncoder>),
}

impl SentenceModel {
    /// Opens a model folder of either kind: one without a `config.json` whose `model.safetensors` says that it is a
    /// static encoder is one.
    ///
    /// # Errors
    /// As [`SentenceFolder::open`] and [`StaticEncoder::open`].
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let file = folder.join("model.safetensors");
        if !folder.join("config.json").exists() && file.is_file() {
            return Ok(Self::Static(Box::new(StaticEncoder::open(&file)?)));
        }
        Ok(Self::Transformer(SentenceFolder::open(folder)?))
    }

    /// Length of a vector.
    pub fn dim(&self) -> usize {
        match self {
            Self::Transformer(folder) => folder.dim(),
            Self::Static(encoder) => encoder.dim(),
        }
    }

    /// A hash over everything that decides what vector a text gets.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn fingerprint(&self) -> Result<[u8; 32], Error> {
        match self {
            Self::Transformer(folder) => folder.fingerprint(),
            Self::Static(encoder) => Ok(encoder.fingerprint()),
        }
    }

    /// The number of tokens at which a caption is cut; a static encoder reads all of it.
    pub fn max_tokens(&self) -> Option<usize> {
        match self {
            Self::Transformer(folder) => Some(folder.max_tokens()),
            Self::Static(_) => None,
        }
    }
}

/// A loaded sentence encoder of either kind.
///
/// ```
/// use hark_encode::SentenceEncoder;
///
/// let captions = SentenceEncoder::built_in()?.embed(&["a dog barks", "a dog is barking", "rain falls"])?;
/// let h = |a, b| -> f32 { captions.row(a).iter().zip(captions.row(b)).map(|(x, y)| x * y).sum() };
/// assert!(h(0, 1) > 0.9 && h(0, 2) < 0.4);
/// # Ok::<(), hark_encode::Error>(())
/// ```
#[derive(Debug)]
pub struct SentenceEncoder {
    kind: Kind,
    threads: usize,
}

#[derive(Debug)]
enum Kind {
    Transformer(Box<TransformerEncoder>),
    Static(Box<StaticEncoder>),
}

impl SentenceEncoder {
    /// The small encoder that is part of the program: no model folder is needed.
    ///
    /// # Errors
    /// None that a user can meet: a test of this crate opens it.
    pub fn built_in() -> Result<Self, Error> {
        let model = SentenceModel::Static(Box::new(StaticEncoder::built_in()?));
        Self::load(model, &Compute::cpu(1))
    }

    /// Opens and loads a model folder of either kind.
    ///
    /// # Errors
    /// As [`SentenceModel::open`] and [`SentenceEncoder::load`].
    pub fn open(folder: &Path, compute: &Compute) -> Result<Self, Error> {
        Self::load(SentenceModel::open(folder)?, compute)
    }

    /// Loads a model that was opened.
    ///
    /// # Errors
    /// If a file is missing, damaged, or does not fit the others.
    pub fn load(model: SentenceModel, compute: &Compute) -> Result<Self, Error> {
        let kind = match model {
            SentenceModel::Transformer(folder) => {
                Kind::Transformer(Box::new(TransformerEncoder::load(&folder, compute)?))
            }
            SentenceModel::Static(encoder) => Kind::Static(encoder),
        };
        Ok(Self {
            kind,
            threads: compute.threads(),
        })
    }

    /// Length of an embedding.
    pub fn dim(&self) -> usize {
        match &self.kind {
            Kind::Transformer(encoder) => encoder.dim(),
            Kind::Static(encoder) => encoder.dim(),
        }
    }

    /// Whether the encoder's vocabulary has a word of a text, see [`Tokenizer::knows`](crate::tokenize::Tokenizer::knows).
    ///
    /// # Errors
    /// [`Error::Tokenizer`].
    pub fn knows(&self, text: &str) -> Result<bool, Error> {
        match &self.kind {
            Kind::Transformer(encoder) => encoder.tokenizer().knows(text),
            Kind::Static(encoder) => Ok(encoder.knows(text)),
        }
    }

    /// Embeds captions; row i belongs to caption i.
    ///
    /// # Errors
    /// [`Error::Tokenizer`], or [`Error::NoDirection`] if the weights are damaged.
    pub fn embed(&self, captions: &[&str]) -> Result<Embeddings, Error> {
        self.embed_with(captions, &no_progress)
    }

    /// As [`SentenceEncoder::embed`], and reports finished captions.
    ///
    /// # Errors
    /// Those of [`SentenceEncoder::embed`], and [`Error::Cancelled`].
    pub fn embed_with(&self, captions: &[&str], progress: Progress<'_>) -> Result<Embeddings, Error> {
        match &self.kind {
            Kind::Transformer(encoder) => encoder.embed(captions, progress),
            Kind::Static(encoder) => encoder.embed_on(self.threads, captions, progress),
        }
    }
}
