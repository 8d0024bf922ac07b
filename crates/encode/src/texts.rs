//! Many texts through a text network.
//!
//! Texts are sorted by their number of tokens, so that a device that pads them pads little; the CPU computes no padding. A
//! text's vector does not depend on what else is embedded, on the order or on the number of threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use burn::tensor::{Tensor, TensorData};

use crate::dual::Side;
use crate::tokenize::{Tokenizer, Tokens};
use crate::towers::{TextTower, TokenBatch, Tower};
use hark_work::workers;

use crate::tensors::numbers;
use crate::{Compute, Error, Progress};

/// Tokens in a batch: enough for the matrix products to run at full speed, few enough for the cache.
const BATCH_TOKENS: usize = 512;
/// Tokens below which a batch is not cut into one for each thread: the threads share its products instead.
const FEW_TOKENS: usize = 64;

/// Vectors that have been computed.
#[derive(Debug)]
pub struct Batch {
    /// Which of the texts these are.
    pub captions: Vec<usize>,
    /// Their vectors, one after the other.
    pub vectors: Vec<f32>,
    /// How many of the texts were longer than the model reads.
    pub cut: usize,
}

/// Computes vectors batch by batch and hands each batch to `deliver` on the calling thread; an error from it ends the
/// work. Longest texts come first, so that memory peaks at the beginning and not at the end.
pub(crate) fn embed(
    texts: &[&str],
    tokenizer: &Tokenizer,
    compute: &Compute,
    forward: &(dyn Fn(&TokenBatch) -> Result<Tensor<2>, Error> + Sync),
    deliver: &mut dyn FnMut(Batch) -> Result<(), Error>,
) -> Result<(), Error> {
    embed_tokens(&tokenizer.encode(texts)?, compute, forward, deliver)
}

/// As [`embed`], of texts that are tokens already.
fn embed_tokens(
    tokens: &[Tokens],
    compute: &Compute,
    forward: &(dyn Fn(&TokenBatch) -> Result<Tensor<2>, Error> + Sync),
    deliver: &mut dyn FnMut(Batch) -> Result<(), Error>,
) -> Result<(), Error> {
    let plan = plan(tokens, compute.threads());
    if plan.is_empty() {
        return Ok(());
    }
    let next = AtomicUsize::new(0);
    workers::as_done(
        plan.len(),
        compute.threads(),
        &|| plan.get(next.fetch_add(1, Ordering::Relaxed)),
        &|captions| {
            let batch = TokenBatch::new(captions.iter().map(|&caption| tokens[caption].ids.as_slice()))?;
            Ok(Batch {
                vectors: compute.guard(|| forward(&batch).map(numbers))??,
                cut: captions.iter().filter(|&&caption| tokens[caption].cut).count(),
                captions: captions.clone(),
            })
        },
        &mut |batch: Result<Batch, Error>| deliver(batch?),
    )
}

impl Side<TextTower> {
    /// Unit vectors `[texts, dim]` of texts that are tokens already.
    ///
    /// # Errors
    /// If the tower cannot take a text, a vector has no direction, or `progress` asks to stop.
    pub fn embed_tokens(
        &self,
        tokens: &[Tokens],
        compute: &Compute,
        progress: Progress<'_>,
    ) -> Result<Vec<f32>, Error> {
        let forward = |batch: &TokenBatch| Ok(self.projection.forward(self.tower.forward(batch, None)?));
        let mut rows = rows(tokens, compute, &forward, progress)?;
        let dim = rows.len() / tokens.len().max(1);
        for (nth, row) in rows.chunks_exact_mut(dim.max(1)).enumerate() {
            normalise(row, &format!("text {nth}"))?;
        }
        Ok(rows)
    }

    /// The tower's features `[texts, width]` of texts that are tokens already.
    ///
    /// # Errors
    /// As [`Side::embed_tokens`].
    pub fn token_features(
        &self,
        tokens: &[Tokens],
        compute: &Compute,
        progress: Progress<'_>,
    ) -> Result<Vec<f32>, Error> {
        rows(
            tokens,
            compute,
            &|batch| self.tower.forward(batch, None),
            progress,
        )
    }

    /// Unit vectors of the tower's features, `[texts, width]`: those that [`Side::embed_tokens`] gives.
    ///
    /// # Errors
    /// If a vector has no direction.
    pub fn embed_features(&self, features: &[f32], compute: &Compute) -> Result<Vec<f32>, Error> {
        let width = self.tower.width();
        let mut vectors = Vec::new();
        for (nth, row) in features.chunks_exact(width).enumerate() {
            let mut vector = compute.guard(|| {
                let row = Tensor::from_data(TensorData::new(row.to_vec(), [1, width]), compute.device());
                numbers(self.projection.forward(row))
            })?;
            normalise(&mut vector, &format!("text {nth}"))?;
            vectors.extend(vector);
        }
        Ok(vectors)
    }
}

/// A row for each text, in the texts' order.
fn rows(
    tokens: &[Tokens],
    compute: &Compute,
    forward: &(dyn Fn(&TokenBatch) -> Result<Tensor<2>, Error> + Sync),
    progress: Progress<'_>,
) -> Result<Vec<f32>, Error> {
    let mut rows = Vec::new();
    let mut done = 0;
    embed_tokens(tokens, compute, forward, &mut |batch| {
        let width = batch.vectors.len() / batch.captions.len();
        rows.resize(tokens.len() * width, 0.0);
        for (&nth, vector) in batch.captions.iter().zip(batch.vectors.chunks_exact(width)) {
            rows[nth * width..][..width].copy_from_slice(vector);
        }
        done += batch.captions.len();
        Ok(hark_work::progress::report(progress, done, tokens.len())?)
    })?;
    Ok(rows)
}

/// Batches of about as many tokens each, longest texts first; at least one for each thread if there is that much to do.
fn plan(tokens: &[Tokens], threads: usize) -> Vec<Vec<usize>> {
    let length = |caption: usize| tokens[caption].ids.len();
    let mut order: Vec<usize> = (0..tokens.len()).collect();
    order.sort_by_key(|&caption| (std::cmp::Reverse(length(caption)), caption));
    let total: usize = order.iter().map(|&caption| length(caption)).sum();
    let most = BATCH_TOKENS.min(total.div_ceil(threads.max(1)).max(FEW_TOKENS));
    let mut plan: Vec<Vec<usize>> = Vec::new();
    let mut filled = 0;
    for caption in order {
        match plan.last_mut() {
            Some(batch) if filled + length(caption) <= most => batch.push(caption),
            _ => {
                plan.push(vec![caption]);
                filled = 0;
            }
        }
        filled += length(caption);
    }
    plan
}

/// Divides a vector by its L2 norm, in 64 bits inside. `of` says whose vector it is, for the error.
pub(crate) fn normalise(vector: &mut [f32], of: &str) -> Result<(), Error> {
    let norm = vector
        .iter()
        .map(|x| f64::from(*x) * f64::from(*x))
        .sum::<f64>()
        .sqrt();
    if !(norm.is_finite() && norm > 0.0) {
        return Err(Error::NoDirection {
            of: of.chars().take(60).collect(),
        });
    }
    for x in vector {
        *x = (f64::from(*x) / norm) as f32;
    }
    Ok(())
}
