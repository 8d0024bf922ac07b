//! Sentence encoders: captions to vectors of length 1.
//!
//! In: captions. Out: `[captions, dim]`, each row divided by its L2 norm, so that the dot product of two rows is
//! their cosine similarity, the h of the paper. A [`SentenceModel`] is either a transformer of the BERT or MPNet family
//! in a folder of Sentence-Transformers' form ([`SentenceFolder`], [`SentenceEncoder`]) or a [`StaticEncoder`].
//!
//! For the transformers, captions are sorted by their number of tokens, and a batch holds captions of one length: no padding is computed.
//! Batches run side by side, one thread each. What a caption's vector is does not depend on what else is embedded,
//! on the order or on the number of threads.

mod captions;
mod fixed;
mod folder;
pub mod lexicon;
mod model;
mod mpnet;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

use burn::tensor::Device;

pub use captions::{CaptionEncoder, Embedded, SentenceModel};
pub use fixed::{Card, CardCaptions, Parts, StaticEncoder};
pub use folder::{Family, Pooling, SentenceFolder};
use model::Model;

use crate::tokenize::Tokenizer;
use crate::{Error, Progress};

/// Tokens in a batch: enough for the matrix products to run at full speed, few enough for the cache.
const BATCH_TOKENS: usize = 512;

/// A loaded sentence encoder.
#[derive(Debug)]
pub struct SentenceEncoder {
    model: Model,
    tokenizer: Tokenizer,
    lower_case: bool,
    dim: usize,
    threads: usize,
    device: Device,
}

/// Vectors that have been computed, as [`SentenceEncoder::embed_batches`] hands them out.
#[derive(Debug)]
pub struct Batch {
    /// Which of the captions these are.
    pub captions: Vec<usize>,
    /// Their vectors, `[captions.len(), dim]`.
    pub vectors: Vec<f32>,
    /// How many of the captions were longer than the model reads.
    pub cut: usize,
}

/// Captions of one length, and their token ids one after the other.
struct Work {
    captions: Vec<usize>,
    tokens: usize,
    ids: Vec<i32>,
    cut: usize,
}

impl SentenceEncoder {
    /// Loads weights and tokenizer of a folder, to run on `threads` threads of the CPU.
    ///
    /// # Errors
    /// If a file is missing, damaged, or does not fit the others.
    pub fn load(folder: &SentenceFolder, threads: usize) -> Result<Self, Error> {
        let device = Device::flex();
        let tokenizer = folder.tokenizer()?;
        let model = Model::load(folder, &device)?;
        let (lower_case, dim) = (folder.lower_case(), folder.dim());
        Ok(Self {
            model,
            tokenizer,
            lower_case,
            dim,
            threads: threads.max(1),
            device,
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

    /// Vectors of all captions, `[captions, dim]` in their order.
    ///
    /// # Errors
    /// As [`SentenceEncoder::embed_batches`].
    pub fn embed(&self, captions: &[&str], progress: Progress<'_>) -> Result<Vec<f32>, Error> {
        let mut vectors = vec![0.0; captions.len() * self.dim];
        let mut done = 0;
        self.embed_batches(captions, &mut |batch| {
            for (&caption, vector) in batch.captions.iter().zip(batch.vectors.chunks_exact(self.dim)) {
                vectors[caption * self.dim..][..self.dim].copy_from_slice(vector);
            }
            done += batch.captions.len();
            match progress(done, captions.len()) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(Error::Cancelled),
            }
        })?;
        Ok(vectors)
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
        let work = self.plan(captions)?;
        let workers = self.threads.min(work.len());
        if workers == 0 {
            return Ok(());
        }
        // One batch a thread beats all threads on one batch: the elementwise operations run on one thread anyway.
        // With fewer batches than threads, the matrix products of a batch share what is left over.
        let pools = (0..workers)
            .map(|_| {
                rayon::ThreadPoolBuilder::new()
                    .num_threads(self.threads / workers)
                    .build()
            })
            .collect::<Result<Vec<_>, _>>()?;
        let next = AtomicUsize::new(0);
        let stop = AtomicBool::new(false);
        let (sender, receiver) = mpsc::sync_channel(workers);
        std::thread::scope(|scope| {
            for pool in &pools {
                let (sender, next, stop, work) = (sender.clone(), &next, &stop, &work);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let Some(work) = work.get(next.fetch_add(1, Ordering::Relaxed)) else {
                            break;
                        };
                        let batch = pool.install(|| self.run(work, captions));
                        if sender.send(batch).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(sender);
            let result = receiver.iter().try_for_each(|batch| deliver(batch?));
            // Workers that wait to hand over their batch see the closed channel.
            stop.store(true, Ordering::Relaxed);
            drop(receiver);
            result
        })
    }

    /// Batches of captions of equal length, longest first.
    fn plan(&self, captions: &[&str]) -> Result<Vec<Work>, Error> {
        let lowered: Vec<String>;
        let mut texts: Vec<&str> = captions.iter().map(|text| text.trim()).collect();
        if self.lower_case {
            lowered = texts.iter().map(|text| text.to_lowercase()).collect();
            texts = lowered.iter().map(String::as_str).collect();
        }
        let tokens = self.tokenizer.encode(&texts)?;
        let mut order: Vec<usize> = (0..tokens.len()).collect();
        order.sort_by_key(|&caption| (std::cmp::Reverse(tokens[caption].ids.len()), caption));
        let mut plan: Vec<Work> = Vec::new();
        for caption in order {
            let ids = &tokens[caption].ids;
            let fits = |work: &Work| work.tokens == ids.len() && work.ids.len() + ids.len() <= BATCH_TOKENS;
            if !plan.last().is_some_and(fits) {
                plan.push(Work {
                    captions: Vec::new(),
                    tokens: ids.len(),
                    ids: Vec::new(),
                    cut: 0,
                });
            }
            if let Some(work) = plan.last_mut() {
                work.captions.push(caption);
                work.cut += usize::from(tokens[caption].cut);
                work.ids.extend(ids.iter().map(|&id| id as i32));
            }
        }
        Ok(plan)
    }

    fn run(&self, work: &Work, captions: &[&str]) -> Result<Batch, Error> {
        let output = self.model.forward(work.ids.clone(), work.tokens, &self.device);
        let mut vectors = output
            .into_data()
            .try_into_vec::<f32>()
            .map_err(|e| Error::Unsupported {
                path: std::path::PathBuf::new(),
                what: format!("{e:?}"),
                supported: "f32",
            })?;
        for (&caption, vector) in work.captions.iter().zip(vectors.chunks_exact_mut(self.dim)) {
            normalise(vector, captions[caption])?;
        }
        Ok(Batch {
            captions: work.captions.clone(),
            vectors,
            cut: work.cut,
        })
    }
}

/// Divides a vector by its L2 norm, in 64 bits inside.
fn normalise(vector: &mut [f32], caption: &str) -> Result<(), Error> {
    let norm = vector
        .iter()
        .map(|x| f64::from(*x) * f64::from(*x))
        .sum::<f64>()
        .sqrt();
    if !(norm.is_finite() && norm > 0.0) {
        return Err(Error::NoDirection {
            caption: caption.chars().take(60).collect(),
        });
    }
    for x in vector {
        *x = (f64::from(*x) / norm) as f32;
    }
    Ok(())
}
