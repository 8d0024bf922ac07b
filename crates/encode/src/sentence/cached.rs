//! Captions to embeddings through the cache.
//!
//! The model is loaded when the first caption is not in the cache, and not at all where every caption is.

use std::collections::HashMap;
use std::path::Path;

use super::{SentenceModel, TransformerEncoder};
use crate::cache::EmbeddingCache;
use crate::{Compute, Embeddings, Error, Progress};

/// Vectors are written to the cache this many at a time: what a kill can cost.
const FLUSH: usize = 128;

/// A sentence encoder behind the embedding cache. Static encoders are faster than any cache and use none.
#[derive(Debug)]
pub struct CachedSentenceEncoder {
    model: SentenceModel,
    compute: Compute,
    cache: Option<EmbeddingCache>,
    /// Why there is no cache although there should be one, until it has been told.
    unusable: Option<Error>,
    encoder: Option<TransformerEncoder>,
}

/// What [`CachedSentenceEncoder::embed`] gives.
#[derive(Debug)]
pub struct CachedEmbeddings {
    /// Row i belongs to caption i. Only captions that had to be computed are counted as truncated.
    pub embeddings: Embeddings,
    /// How many different captions the model had to compute; the rest were in the cache.
    pub computed: usize,
    /// Why computed embeddings could not be stored, if they could not; the embeddings themselves are complete.
    pub not_cached: Option<Error>,
}

impl CachedSentenceEncoder {
    /// A model, and the directory of the cache if there is to be one.
    ///
    /// # Errors
    /// If the model cannot be read, or the cache file is of another version. A cache that cannot be opened at all is no
    /// error, see [`CachedEmbeddings::not_cached`].
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
    /// by then is in the cache. A cache that cannot be *written* is no error, see [`CachedEmbeddings::not_cached`].
    pub fn embed(&mut self, captions: &[&str], progress: Progress<'_>) -> Result<CachedEmbeddings, Error> {
        let folder = match &self.model {
            SentenceModel::Transformer(folder) => folder,
            SentenceModel::Static(encoder) => {
                return Ok(CachedEmbeddings {
                    embeddings: encoder.embed_on(self.compute.threads(), captions, progress)?,
                    computed: captions.len(),
                    not_cached: None,
                });
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
        let not_cached = self.unusable.take();
        let computed = missing.len();
        hark_work::progress::report(progress, done, captions.len())?;
        if missing.is_empty() {
            return Ok(CachedEmbeddings {
                embeddings: Embeddings::new(vectors, dim)?,
                computed,
                not_cached,
            });
        }

        let encoder = match &mut self.encoder {
            Some(encoder) => encoder,
            none => none.insert(TransformerEncoder::load(folder, &self.compute)?),
        };
        let mut store = Store {
            cache: self.cache.as_mut(),
            captions: Vec::new(),
            vectors: Vec::new(),
            failed: None,
        };
        let mut truncated = 0;
        let outcome = encoder.embed_batches(&missing, &mut |batch| {
            truncated += batch.cut;
            for (&nth, vector) in batch.captions.iter().zip(batch.vectors.chunks_exact(dim)) {
                let at = &places[missing[nth]];
                fill(&mut vectors, vector, at);
                done += at.len();
                store.add(missing[nth], vector);
            }
            Ok(hark_work::progress::report(progress, done, captions.len())?)
        });
        store.flush();
        let not_cached = not_cached.or(store.failed);
        outcome?;
        Ok(CachedEmbeddings {
            embeddings: Embeddings::new(vectors, dim)?.with_truncated(truncated),
            computed,
            not_cached,
        })
    }
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
