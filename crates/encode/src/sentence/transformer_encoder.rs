//! A sentence encoder that is a network: the transformer of a Sentence-Transformers folder, loaded.

use super::SentenceFolder;
use crate::texts::Batch;
use crate::tokenize::Tokenizer;
use crate::towers::bert::Bert;
use crate::towers::{TokenBatch, Tower};
use crate::{Compute, Embeddings, Error, Progress, hugging_face, texts};

/// A transformer whose token features are pooled into one embedding of length 1.
#[derive(Debug)]
pub struct TransformerEncoder {
    model: Bert,
    tokenizer: Tokenizer,
    lower_case: bool,
    dim: usize,
    compute: Compute,
}

impl TransformerEncoder {
    /// Loads weights and tokenizer of a folder.
    ///
    /// # Errors
    /// If a file is missing, damaged, or does not fit the others.
    pub fn load(folder: &SentenceFolder, compute: &Compute) -> Result<Self, Error> {
        let tokenizer = folder.tokenizer()?;
        let weights = folder.weights_path();
        let mut model = compute.guard(|| {
            hugging_face::load(&weights, compute.device(), |source| {
                Bert::build(folder.config(), source)
            })
        })??;
        model.pack(compute.precision())?;
        let (lower_case, dim) = (folder.lower_case(), folder.dim());
        Ok(Self {
            model,
            tokenizer,
            lower_case,
            dim,
            compute: compute.clone(),
        })
    }

    /// Length of a vector.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Embeds all captions; rows are in the captions' order.
    ///
    /// # Errors
    /// As [`TransformerEncoder::embed_batches`].
    pub fn embed(&self, captions: &[&str], progress: Progress<'_>) -> Result<Embeddings, Error> {
        let mut vectors = vec![0.0; captions.len() * self.dim];
        let (mut done, mut truncated) = (0, 0);
        self.embed_batches(captions, &mut |batch| {
            for (&caption, vector) in batch.captions.iter().zip(batch.vectors.chunks_exact(self.dim)) {
                vectors[caption * self.dim..][..self.dim].copy_from_slice(vector);
            }
            done += batch.captions.len();
            truncated += batch.cut;
            Ok(hark_work::progress::report(progress, done, captions.len())?)
        })?;
        Ok(Embeddings::new(vectors, self.dim)?.with_truncated(truncated))
    }

    /// Computes vectors batch by batch and hands each batch to `deliver` on the calling thread; an error from it ends
    /// the work. Longest captions come first, so that memory peaks at the beginning and not at the end.
    ///
    /// # Errors
    /// [`Error::Tokenizer`], [`Error::NoDirection`] if weights are damaged, or what `deliver` returns.
    pub fn embed_batches(
        &self,
        captions: &[&str],
        deliver: &mut dyn FnMut(Batch) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let lowered: Vec<String>;
        let mut texts: Vec<&str> = captions.iter().map(|text| text.trim()).collect();
        if self.lower_case {
            lowered = texts.iter().map(|text| text.to_lowercase()).collect();
            texts = lowered.iter().map(String::as_str).collect();
        }
        let forward = |batch: &TokenBatch| self.model.forward(batch, None);
        texts::embed(
            &texts,
            &self.tokenizer,
            &self.compute,
            &forward,
            &mut |mut batch| {
                for (&caption, vector) in batch
                    .captions
                    .iter()
                    .zip(batch.vectors.chunks_exact_mut(self.dim))
                {
                    texts::normalise(vector, captions[caption])?;
                }
                deliver(batch)
            },
        )
    }
}
