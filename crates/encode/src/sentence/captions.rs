//! Captions to vectors through the cache: what a command uses.
//!
//! The model is loaded when the first caption is not in the cache, and not at all where every caption is.

use std::collections::HashMap;
use std::path::Path;

use super::{SentenceEncoder, SentenceFolder, StaticEncoder};
use crate::cache::EmbeddingCache;
use crate::{Compute, Error, Progress};

/// Vectors are written to the cache this many at a time: what a kill can cost.
const FLUSH: usize = 128;

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

/// A sentence encoder behind the embedding cache. Static encoders are faster than any cache and use none.
#[derive(Debug)]
pub struct CachedSentenceEncoder {
    model: SentenceModel,
    compute: Compute,
    cache: Option<EmbeddingCache>,
    /// Why there is no cache although there should be one, until it has been told.
    unusable: Option<Error>,
    encoder: Option<SentenceEncoder>,
}

/// What [`CachedSentenceEncoder::embed`] gives.
#[derive(Debug)]
pub struct Embedded {
    /// `[captions, dim]`, in the captions' order, each row of length 1.
    pub vectors: Vec<f32>,
    /// Length of a row.
    pub dim: usize,
    /// How many different captions the model had to compute; the rest were in the cache.
    pub computed: usize,
    /// How many of these were longer than the model reads, so that their ends were left out.
    pub cut: usize,
    /// Why computed vectors could not be stored, if they could not; the vectors themselves are whole.
    pub not_cached: Option<Error>,
}

impl CachedSentenceEncoder {
    /// A model, and the directory of the cache if there is to be one.
    ///
    /// # Errors
    /// If the model cannot be read, or the cache file is of another version. A cache that cannot be opened at all is no
    /// error, see [`Embedded::not_cached`].
    pub fn open(model: SentenceModel, cache: Option<&Path>, compute: &Compute) -> Result<Self, Error> {
        let mut unusable = None;
        let cache = match (cache, &model) {
            (Some(directory), SentenceModel::Transformer(folder)) => {
                match EmbeddingCache::open(directory, &folder.fingerprint()?, folder.dim()) {
                    Ok(cache) => Some(cache),
                    // A home that cannot be written to is no reason not to compute.
                    Err(error @ Error::Io(_)) => {
                        unusable = Some(error);
                        None
                    }
                    Err(error) => return Err(error),
                }
            }
            _ => None,
        };
        Ok(Self {
            model,
            compute: compute.clone(),
            cache,
            unusable,
            encoder: None,
        })
    }

    /// The model.
    pub fn model(&self) -> &SentenceModel {
        &self.model
    }

    /// Vectors of all captions. Each different caption is computed once, and stored as soon as some are done.
    ///
    /// # Errors
    /// If the model cannot be loaded or run, the cache cannot be read, or `progress` asks to stop: what was computed
    /// by then is in the cache. A cache that cannot be *written* is no error, see [`Embedded::not_cached`].
    pub fn embed(&mut self, captions: &[&str], progress: Progress<'_>) -> Result<Embedded, Error> {
        let folder = match &self.model {
            SentenceModel::Transformer(folder) => folder,
            SentenceModel::Static(encoder) => {
                return embed_static(encoder, captions, self.compute.threads(), progress);
            }
        };
        let dim = folder.dim();
        let mut vectors = vec![0.0; captions.len() * dim];
        // Each different caption, and all places where it stands.
        let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
        for (place, caption) in captions.iter().enumerate() {
            places.entry(caption.trim()).or_default().push(place);
        }
        let mut missing: Vec<&str> = Vec::new();
        let mut done = 0;
        let mut vector = vec![0.0; dim];
        for (&caption, at) in &places {
            let found = match &mut self.cache {
                Some(cache) => cache.get(caption, &mut vector)?,
                None => false,
            };
            if found {
                fill(&mut vectors, &vector, at);
                done += at.len();
            } else {
                missing.push(caption);
            }
        }
        // A hash map's order differs from run to run; the batches, and so the cache's bytes, must not.
        missing.sort_unstable();
        let mut result = Embedded {
            vectors,
            dim,
            computed: missing.len(),
            cut: 0,
            not_cached: self.unusable.take(),
        };
        hark_work::progress::report(progress, done, captions.len())?;
        if missing.is_empty() {
            return Ok(result);
        }

        let encoder = match &mut self.encoder {
            Some(encoder) => encoder,
            none => none.insert(SentenceEncoder::load(folder, &self.compute)?),
        };
        let mut store = Store {
            cache: self.cache.as_mut(),
            captions: Vec::new(),
            vectors: Vec::new(),
            failed: None,
        };
        let outcome = encoder.embed_batches(&missing, &mut |batch| {
            result.cut += batch.cut;
            for (&nth, vector) in batch.captions.iter().zip(batch.vectors.chunks_exact(dim)) {
                let at = &places[missing[nth]];
                fill(&mut result.vectors, vector, at);
                done += at.len();
                store.add(missing[nth], vector);
            }
            Ok(hark_work::progress::report(progress, done, captions.len())?)
        });
        store.flush();
        result.not_cached = result.not_cached.or(store.failed);
        outcome?;
        Ok(result)
    }
}

fn embed_static(
    encoder: &StaticEncoder,
    captions: &[&str],
    threads: usize,
    progress: Progress<'_>,
) -> Result<Embedded, Error> {
    hark_work::progress::report(progress, 0, captions.len())?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let vectors = pool.install(|| encoder.embed(captions))?;
    hark_work::progress::report(progress, captions.len(), captions.len())?;
    Ok(Embedded {
        vectors,
        dim: encoder.dim(),
        computed: captions.len(),
        cut: 0,
        not_cached: None,
    })
}

/// Vectors on their way into the cache.
struct Store<'a> {
    cache: Option<&'a mut EmbeddingCache>,
    captions: Vec<&'a str>,
    vectors: Vec<f32>,
    failed: Option<Error>,
}

impl<'a> Store<'a> {
    fn add(&mut self, caption: &'a str, vector: &[f32]) {
        if self.cache.is_some() {
            self.captions.push(caption);
            self.vectors.extend_from_slice(vector);
            if self.captions.len() >= FLUSH {
                self.flush();
            }
        }
    }

    /// Writes what has gathered; after a failure nothing more is tried.
    fn flush(&mut self) {
        if let Some(cache) = self.cache.as_mut().filter(|_| !self.captions.is_empty()) {
            if let Err(error) = cache.append(&self.captions, &self.vectors) {
                self.failed = Some(error);
                self.cache = None;
            }
            self.captions.clear();
            self.vectors.clear();
        }
    }
}

fn fill(vectors: &mut [f32], vector: &[f32], places: &[usize]) {
    for &place in places {
        vectors[place * vector.len()..][..vector.len()].copy_from_slice(vector);
    }
}
