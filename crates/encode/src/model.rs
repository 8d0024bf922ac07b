//! A model on disk and in memory: recordings or texts in, vectors out.
//!
//! ```text
//! card.json           architecture, front end, how texts are prepared, where the model comes from
//! model.safetensors   tensors
//! tokenizer.json      text to ids, where there is a text tower
//! sentence            the folder of a sentence encoder, where that embeds texts
//! ```
//!
//! A model with projections gives vectors of length 1; a tower that was imported alone gives its features as they are.
//! Segments are computed one at a time, so that a recording's vector depends on nothing but the recording.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use burn::tensor::{Device, Tensor, TensorData};
use hark_audio::{MelConfig, MelSpectrogram};

use crate::card::{AudioCard, Card, ClipLength, TextCard};
use crate::dual::{DualEncoder, Side, SideConfig};
use crate::labels::{ClassScore, strongest};
pub use crate::model_files::{BuiltIn, CARD, EVERYDAY, ModelFiles, SENTENCE, TOKENIZER, WEIGHTS};
pub use crate::model_key::fingerprint;
use crate::recordings::{ClipMean, Segments};
use crate::sentence::SentenceEncoder;
use crate::tensors::numbers;
use crate::texts::{self, normalise};
use crate::tokenize::Tokenizer;
use crate::towers::{AudioConfig, AudioTower, Inference, MelBatch, TextTower, TokenBatch, Tower};
use crate::weights::{RandomInit, TensorSource, ZeroInit};
use crate::weights_file::{self, FilePart};
use crate::{Compute, Embeddings, Error, Failure, Progress};
use hark_work::workers;

/// Segments that are not padded have at least this part of a second.
const SHORTEST: usize = 2;

/// Classes of a tagger that are told of a segment, and how probable each is at least.
const MAX_CLASSES: usize = 3;
const LEAST_PROBABILITY: f32 = 0.1;

/// Whether a folder holds a model of this form.
pub fn is_model(folder: &Path) -> bool {
    folder.join(CARD).is_file()
}

/// Writes a model into an empty folder.
///
/// # Errors
/// If a file cannot be written.
pub fn save(folder: &Path, card: &Card, network: &DualEncoder, tokenizer: Option<&str>) -> Result<(), Error> {
    weights_file::save(network, &folder.join(WEIGHTS))?;
    if let Some(tokenizer) = tokenizer {
        fs_err::write(folder.join(TOKENIZER), tokenizer)?;
    }
    // Last: a folder without a card is no model.
    let card = serde_json::to_string_pretty(card).map_err(|source| Error::Json {
        path: folder.join(CARD),
        source,
    })?;
    fs_err::write(folder.join(CARD), card + "\n")?;
    Ok(())
}

/// Which side of a network is read from a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Audio,
    Text,
}

/// What stays in the file when a network is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    /// Blocks of transformers, which are read when they are packed.
    Blocks,
    /// Tables of a text tower, too: all of this is read whenever it runs.
    BlocksAndTables,
}

/// Reads one side of a folder's network.
fn load(
    files: &ModelFiles,
    card: &Card,
    part: Part,
    left: Left,
    device: &Device,
) -> Result<DualEncoder, Error> {
    let (audio, text) = (part == Part::Audio, part == Part::Text);
    let audio = card.audio.as_ref().filter(|_| audio).map(|card| &card.side);
    let text = card.text.as_ref().filter(|_| text).map(|card| &card.side);
    let mut elsewhere = Vec::new();
    if audio.is_none() && card.audio.is_some() {
        elsewhere.push("audio.");
    }
    if text.is_none() && card.text.is_some() {
        elsewhere.push("text.");
    }
    let file = files.weights()?;
    let (key, format) = weights_file::FORMAT;
    if file.header(key) != Some(format) {
        return Err(Error::Unsupported {
            path: file.path().to_owned(),
            what: format!("a file of weights that says {key} {:?}", file.header(key)),
            supported: format,
        });
    }
    let mut blank = DualEncoder::build(audio, text, &ZeroInit::within(file.parameters()), device)?;
    let mut stays = Vec::new();
    if let (Some(file), true) = (file.safetensors(), left != Left::Nothing) {
        let tables = left == Left::BlocksAndTables;
        if let Some(side) = &mut blank.audio {
            stays = side.tower.leave_in(&FilePart::new(file, "audio.tower"), tables);
        } else if let Some(side) = &mut blank.text {
            stays = side.tower.leave_in(&FilePart::new(file, "text.tower"), tables);
        }
    }
    weights_file::load_but(blank, file, &elsewhere, &stays)
}

/// The audio side's network.
pub(crate) fn load_audio(
    files: &ModelFiles,
    card: &Card,
    device: &Device,
) -> Result<Option<Side<AudioTower>>, Error> {
    Ok(load(files, card, Part::Audio, Left::Nothing, device)?.audio)
}

/// The text side of a model, loaded.
#[derive(Debug)]
pub struct TextEncoder {
    kind: TextKind,
    compute: Compute,
}

#[derive(Debug)]
enum TextKind {
    Tower(Box<TowerEncoder>),
    Sentence {
        encoder: SentenceEncoder,
        /// Subtracted from its vectors; empty for nothing.
        centre: Vec<f32>,
    },
}

/// A text tower with its tokenizer.
#[derive(Debug)]
struct TowerEncoder {
    side: Side<TextTower>,
    card: TextCard,
    tokenizer: Tokenizer,
}

impl TextEncoder {
    /// Loads the text side of a model.
    ///
    /// # Errors
    /// [`Error::NoTower`], or if a file is missing, damaged, or does not fit the others.
    pub fn open(model: impl Into<ModelFiles>, compute: &Compute) -> Result<Self, Error> {
        let files = model.into();
        let card = files.card()?;
        let kind = match &card.sentence {
            Some(sentence) => {
                let encoder = SentenceEncoder::load(files.sentence()?, compute)?;
                if !sentence.centre.is_empty() && sentence.centre.len() != encoder.dim() {
                    return Err(Error::Config {
                        path: files.path(CARD),
                        what: format!(
                            "a centre of {} numbers for a sentence encoder of {} dimensions",
                            sentence.centre.len(),
                            encoder.dim()
                        ),
                    });
                }
                TextKind::Sentence {
                    encoder,
                    centre: sentence.centre.clone(),
                }
            }
            None => TextKind::Tower(Box::new(TowerEncoder::open(&files, card, compute)?)),
        };
        Ok(Self {
            kind,
            compute: compute.clone(),
        })
    }

    /// Length of a vector.
    pub fn dim(&self) -> usize {
        match &self.kind {
            TextKind::Tower(tower) => tower.dim(),
            TextKind::Sentence { encoder, .. } => encoder.dim(),
        }
    }

    /// Whether the model's vocabulary has a word of a text, see [`Tokenizer::knows`]. If not, the text's embedding means nothing.
    ///
    /// # Errors
    /// If the tokenizer cannot take the text.
    pub fn knows(&self, text: &str) -> Result<bool, Error> {
        match &self.kind {
            TextKind::Tower(tower) => tower.tokenizer.knows(&tower.card.prepare(text)),
            TextKind::Sentence { encoder, .. } => encoder.knows(text),
        }
    }

    /// Embeds texts; row i belongs to text i.
    ///
    /// # Errors
    /// If the tokenizer or the model cannot take a text, or `progress` asks to stop.
    pub fn embed(&self, texts: &[&str], progress: Progress<'_>) -> Result<Embeddings, Error> {
        match &self.kind {
            TextKind::Tower(tower) => tower.embed(texts, &self.compute, progress),
            TextKind::Sentence { encoder, centre } => {
                let embedded = encoder.embed_with(texts, progress)?;
                if centre.is_empty() {
                    return Ok(embedded);
                }
                let (dim, truncated) = (embedded.dim(), embedded.truncated());
                let mut rows = embedded.as_slice().to_vec();
                for (row, text) in rows.chunks_exact_mut(dim).zip(texts) {
                    for (x, centre) in row.iter_mut().zip(centre) {
                        *x -= centre;
                    }
                    normalise(row, text)?;
                }
                Ok(Embeddings::new(rows, dim)?.with_truncated(truncated))
            }
        }
    }
}

impl TowerEncoder {
    fn open(files: &ModelFiles, card: Card, compute: &Compute) -> Result<Self, Error> {
        let left = match compute.is_cpu() {
            true if compute.leaves_weights_on_disk() => Left::BlocksAndTables,
            true => Left::Blocks,
            false => Left::Nothing,
        };
        let network = compute.guard(|| load(files, &card, Part::Text, left, compute.device()))??;
        let (Some(mut side), Some(card)) = (network.text, card.text) else {
            return Err(Error::NoTower {
                path: files.path(""),
                what: "text",
            });
        };
        if left != Left::BlocksAndTables {
            side.tower.pack(compute.precision())?;
        }
        let [vocabulary, tokens] = side.tower.max_input();
        if card.max_tokens > tokens {
            return Err(Error::Config {
                path: files.path(CARD),
                what: format!(
                    "texts of {} tokens for a tower that reads {tokens}",
                    card.max_tokens
                ),
            });
        }
        let tokenizer = Tokenizer::open(&files.path(TOKENIZER), card.max_tokens, vocabulary)?;
        Ok(Self {
            side,
            card,
            tokenizer,
        })
    }

    fn dim(&self) -> usize {
        let width = || self.side.tower.width();
        self.card.side.projection.last().copied().unwrap_or_else(width)
    }

    fn embed(&self, texts: &[&str], compute: &Compute, progress: Progress<'_>) -> Result<Embeddings, Error> {
        let dim = self.dim();
        let prepared: Vec<String> = texts.iter().map(|text| self.card.prepare(text)).collect();
        let prepared: Vec<&str> = prepared.iter().map(String::as_str).collect();
        let mut rows = vec![0.0; texts.len() * dim];
        let (mut done, mut truncated) = (0, 0);
        let projected = !self.card.side.projection.is_empty();
        let forward = |batch: &TokenBatch| {
            let features = self.side.tower.forward(batch, None)?;
            Ok(self.side.projection.forward(features))
        };
        texts::embed(&prepared, &self.tokenizer, compute, &forward, &mut |batch| {
            truncated += batch.cut;
            done += batch.captions.len();
            for (&nth, vector) in batch.captions.iter().zip(batch.vectors.chunks_exact(dim)) {
                let place = &mut rows[nth * dim..][..dim];
                place.copy_from_slice(vector);
                if projected {
                    normalise(place, texts[nth])?;
                }
            }
            Ok(hark_work::progress::report(progress, done, texts.len())?)
        })?;
        Ok(Embeddings::new(rows, dim)?.with_truncated(truncated))
    }
}

/// The audio side of a model, loaded.
pub struct AudioEncoder {
    side: Side<AudioTower>,
    card: AudioCard,
    mel: MelSpectrogram,
    compute: Compute,
    /// A faster form of the tower, where it runs on the CPU and has one.
    inference: Option<Box<dyn Inference<MelBatch>>>,
}

/// A recording's vector.
#[derive(Debug, Clone, PartialEq)]
pub struct ClipVector {
    /// The vector.
    pub vector: Vec<f32>,
    /// The strongest classes of a tagger, see [`AudioEncoder::labels`].
    pub classes: Vec<ClassScore>,
    /// Vectors of its windows in the order of time, if they were asked for and there is more than one.
    pub windows: Vec<WindowVector>,
    /// Length of what was read of the recording.
    pub seconds: f64,
    /// Length of the recording; where it was not read to the end, as its header states it.
    pub total_seconds: f64,
    /// How many segments were averaged.
    pub segments: usize,
    /// What was wrong with the recording, if its sound could be read only in part.
    pub damage: Option<String>,
    /// Waveform, fingerprint and metadata, from [`AudioEncoder::embed_and_summarize`] alone.
    pub summary: Option<Box<hark_audio::AudioSummary>>,
}

/// The vector of a stretch of a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowVector {
    /// Where it begins, in seconds.
    pub start: f64,
    /// Where it ends.
    pub end: f64,
    /// The vector.
    pub vector: Vec<f32>,
    /// The strongest classes of a tagger, see [`AudioEncoder::labels`].
    pub classes: Vec<ClassScore>,
}

/// What [`AudioEncoder::embed_files`] tells while it works.
#[derive(Debug)]
pub enum EmbedEvent {
    /// A segment of some recording has gone through the network.
    Segment {
        /// Its length.
        seconds: f64,
    },
    /// A recording is done, or cannot be.
    Recording {
        /// Its place among the paths.
        file: usize,
        /// Its vector, or what is wrong with it.
        result: Result<ClipVector, Error>,
    },
}

impl AudioEncoder {
    /// Loads the audio side of a model.
    ///
    /// # Errors
    /// [`Error::NoTower`], or if a file is missing, damaged, or does not fit the others.
    pub fn open(model: impl Into<ModelFiles>, compute: &Compute) -> Result<Self, Error> {
        let files = model.into();
        let card = files.card()?;
        let left = if compute.is_cpu() {
            Left::Blocks
        } else {
            Left::Nothing
        };
        let network = compute.guard(|| load(&files, &card, Part::Audio, left, compute.device()))??;
        let (Some(mut side), Some(card)) = (network.audio, card.audio) else {
            return Err(Error::NoTower {
                path: files.path(""),
                what: "audio",
            });
        };
        side.tower.pack(compute.precision())?;
        Self::new(side, card, compute).map_err(|error| match error {
            Error::InputShape { expected, got, .. } => Error::Config {
                path: files.path(CARD),
                what: format!(
                    "the front end gives log-mels of shape {got:?}, the tower takes at most {expected:?}"
                ),
            },
            other => other,
        })
    }

    /// An audio side that is already in memory, on the device of `compute`.
    ///
    /// # Errors
    /// [`Error::Mel`] if the front end is impossible, [`Error::InputShape`] if its segments do not fit the tower.
    pub fn new(side: Side<AudioTower>, card: AudioCard, compute: &Compute) -> Result<Self, Error> {
        let mel = MelSpectrogram::new(card.front_end.clone())?;
        let on_cpu = compute.is_cpu();
        let encoder = Self {
            inference: side.tower.inference(compute.precision()).filter(|_| on_cpu),
            side,
            card,
            mel,
            compute: compute.clone(),
        };
        let [mels, frames] = encoder.side.tower.max_input();
        let got = [
            encoder.card.front_end.mels,
            encoder.mel.frames(encoder.segment_samples()),
        ];
        if got[0] != mels || got[1] > frames {
            return Err(Error::InputShape {
                what: "log-mels",
                expected: vec![mels, frames],
                got: got.to_vec(),
            });
        }
        Ok(encoder)
    }

    /// A tower of this configuration with random numbers in it, behind the front end of PaSST: for measuring time.
    ///
    /// # Errors
    /// As [`AudioEncoder::new`].
    pub fn untrained(network: AudioConfig, seed: u64, compute: &Compute) -> Result<Self, Error> {
        let side = SideConfig {
            network,
            projection: Vec::new(),
        };
        let weights = RandomInit(seed);
        let source = TensorSource::new(&weights, "", compute.device());
        let card = AudioCard {
            front_end: MelConfig::default(),
            segment_seconds: 10.0,
            clip: ClipLength::Full,
            labels: Vec::new(),
            side,
        };
        let mut side: Side<AudioTower> = Side::build(&card.side, &source, &source)?;
        side.tower.pack(compute.precision())?;
        Self::new(side, card, compute)
    }

    /// Reads clips in another way than the card says.
    #[must_use]
    pub fn with_clip(mut self, clip: Option<ClipLength>) -> Self {
        self.card.clip = clip.unwrap_or(self.card.clip);
        self
    }

    /// Which segments of a clip count.
    pub fn clip(&self) -> ClipLength {
        self.card.clip
    }

    /// Length of a vector.
    pub fn dim(&self) -> usize {
        let width = || self.side.tower.width();
        self.card.side.projection.last().copied().unwrap_or_else(width)
    }

    /// Whether vectors have length 1, so that those of texts and of recordings can be compared.
    pub fn is_projected(&self) -> bool {
        !self.card.side.projection.is_empty()
    }

    /// Names of the classes of [`ClipVector::classes`]; empty if the model is no tagger with named classes.
    pub fn labels(&self) -> &[String] {
        &self.card.labels
    }

    /// Length of a segment, and of a window.
    pub fn segment_seconds(&self) -> f64 {
        self.card.segment_seconds
    }

    /// Samples of a segment.
    pub fn segment_samples(&self) -> usize {
        (self.card.segment_seconds * f64::from(self.card.front_end.rate)).round() as usize
    }

    /// Sampling rate that the front end works at.
    pub fn rate(&self) -> u32 {
        self.card.front_end.rate
    }

    /// Vectors of recordings, handed to `deliver` by their number as they are done; an answer of `Break` ends the work,
    /// in the midst of a recording if need be. What is wrong with a recording is delivered in its place, and the others
    /// go on.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if `deliver` asked to stop, or if threads cannot be started.
    pub fn embed_files(
        &self,
        paths: &[PathBuf],
        deliver: &mut dyn FnMut(EmbedEvent) -> std::ops::ControlFlow<()>,
    ) -> Result<(), Error> {
        let segments = Segments::new(paths, self.rate(), self.segment_samples(), self.card.clip);
        self.embed_segments(segments, deliver)
    }

    /// As [`AudioEncoder::embed_files`], with a vector for each window besides: segments that begin at every `hop_seconds`.
    /// Recordings are padded as the card says and not cropped, so that all of a long one is heard.
    ///
    /// # Errors
    /// As [`AudioEncoder::embed_files`].
    pub fn embed_windows(
        &self,
        paths: &[PathBuf],
        hop_seconds: f64,
        deliver: &mut dyn FnMut(EmbedEvent) -> std::ops::ControlFlow<()>,
    ) -> Result<(), Error> {
        self.embed_segments(self.windows(paths, hop_seconds), deliver)
    }

    /// As [`AudioEncoder::embed_windows`], with a [summary](ClipVector::summary) of each recording. Each is decoded once.
    ///
    /// # Errors
    /// As [`AudioEncoder::embed_files`].
    pub fn embed_and_summarize(
        &self,
        paths: &[PathBuf],
        hop_seconds: f64,
        deliver: &mut dyn FnMut(EmbedEvent) -> std::ops::ControlFlow<()>,
    ) -> Result<(), Error> {
        self.embed_segments(self.windows(paths, hop_seconds).summarized(), deliver)
    }

    fn windows<'a>(&self, paths: &'a [PathBuf], hop_seconds: f64) -> Segments<'a> {
        let hop = (hop_seconds * f64::from(self.rate())).round() as usize;
        let size = self.segment_samples();
        Segments::with_windows(paths, self.rate(), size, self.card.clip, hop)
    }

    /// Embeds recordings. Rows are in the order of the paths and have them as ids; a recording that cannot be read has no
    /// row but a [`Failure`], and the others go on. Progress counts recordings and is reported for every segment, so that
    /// a long recording can be cancelled.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if `progress` asks to stop, or if threads cannot be started.
    pub fn embed(&self, paths: &[PathBuf], progress: Progress<'_>) -> Result<Embeddings, Error> {
        let mut results: Vec<Option<Result<ClipVector, Error>>> = Vec::new();
        results.resize_with(paths.len(), || None);
        let mut done = 0;
        self.embed_files(paths, &mut |event| {
            if let EmbedEvent::Recording { file, result } = event {
                results[file] = Some(result);
                done += 1;
            }
            progress(done, paths.len() as u64)
        })?;
        let (mut rows, mut ids, mut failures) = (Vec::new(), Vec::new(), Vec::new());
        for (path, result) in paths.iter().zip(results) {
            let id = path.display().to_string();
            match result {
                Some(Ok(clip)) => {
                    rows.extend(clip.vector);
                    ids.push(id);
                }
                Some(Err(error)) => failures.push(Failure {
                    id,
                    error: Arc::new(error),
                }),
                // Every path is told of, unless the work was cancelled, which is an error above.
                None => unreachable!("{id} has neither an embedding nor an error"),
            }
        }
        Ok(Embeddings::new(rows, self.dim())?
            .with_ids(ids)?
            .with_failures(failures))
    }

    fn embed_segments(
        &self,
        segments: Segments<'_>,
        deliver: &mut dyn FnMut(EmbedEvent) -> std::ops::ControlFlow<()>,
    ) -> Result<(), Error> {
        crate::recordings::embed(
            segments,
            self.compute.threads(),
            &|samples| self.segment_features(samples),
            &|mean| {
                let classes = strongest(
                    &mean[..self.labels().len().min(mean.len())],
                    MAX_CLASSES,
                    LEAST_PROBABILITY,
                );
                Ok(self.project(mean)?.map(|vector| (vector, classes)))
            },
            deliver,
        )
    }

    /// Features of one segment: of samples at [`AudioEncoder::rate`], padded with silence to a segment's length if the card
    /// says so.
    ///
    /// # Errors
    /// If there are more samples than a segment has, or they are not finite.
    pub fn segment_features(&self, mut samples: Vec<f32>) -> Result<Vec<f32>, Error> {
        let size = self.segment_samples();
        if samples.len() > size {
            return Err(Error::InputShape {
                what: "samples of a segment",
                expected: vec![size],
                got: vec![samples.len()],
            });
        }
        let filled = match self.card.clip {
            ClipLength::Unpadded => (self.rate() as usize).div_ceil(SHORTEST).min(size),
            ClipLength::Full | ClipLength::Begun | ClipLength::Fixed { .. } => size,
        };
        samples.resize(filled.max(samples.len()), 0.0);
        self.features(&self.log_mel(&samples)?)
    }

    /// The log-mel of samples at [`AudioEncoder::rate`].
    ///
    /// # Errors
    /// If there are too few samples, or they are not finite.
    pub fn log_mel(&self, samples: &[f32]) -> Result<MelBatch, Error> {
        let mel = self.mel.compute(samples)?;
        MelBatch::new(mel.values, mel.mels, mel.frames)
    }

    /// The tower's features of log-mels, `[segments, width]`.
    ///
    /// # Errors
    /// If the log-mels do not fit the tower.
    pub fn features(&self, batch: &MelBatch) -> Result<Vec<f32>, Error> {
        match &self.inference {
            Some(network) => network.forward(batch),
            None => self
                .compute
                .guard(|| self.side.tower.forward(batch, None).map(numbers))?,
        }
    }

    /// Features of many batches, one batch a thread, in the batches' order.
    ///
    /// # Errors
    /// As [`AudioEncoder::features`].
    pub fn features_of_all(&self, batches: &[MelBatch]) -> Result<Vec<Vec<f32>>, Error> {
        let next = AtomicUsize::new(0);
        let mut all = vec![Vec::new(); batches.len()];
        workers::as_done(
            batches.len(),
            self.compute.threads(),
            &|| {
                let nth = next.fetch_add(1, Ordering::Relaxed);
                batches.get(nth).map(|batch| (nth, batch))
            },
            &|(nth, batch)| (nth, self.features(batch)),
            &mut |(nth, features)| {
                all[nth] = features?;
                Ok::<(), Error>(())
            },
        )?;
        Ok(all)
    }

    /// The features of clips whose log-mels the caller has: `log_mels` gives a clip's segments, and `deliver` takes the
    /// mean of their features, in the order in which clips are done. Segments are computed one at a time, as
    /// [`AudioEncoder::embed_files`] does.
    ///
    /// # Errors
    /// The first error of `log_mels` or `deliver`; if the log-mels do not fit the tower.
    pub fn clip_features<E: From<Error> + Send>(
        &self,
        clips: usize,
        log_mels: &(dyn Fn(usize) -> Result<Vec<MelBatch>, E> + Sync),
        deliver: &mut dyn FnMut(usize, Vec<f32>) -> Result<(), E>,
    ) -> Result<(), E> {
        let next = AtomicUsize::new(0);
        let mut failed = None;
        let done = workers::as_done(
            clips,
            self.compute.threads(),
            &|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&clip| clip < clips),
            &|clip| {
                let mut mean = ClipMean::default();
                for segment in log_mels(clip)? {
                    let weight = if self.card.clip == ClipLength::Unpadded {
                        segment.frames() as f64
                    } else {
                        1.0
                    };
                    mean.add(&self.features(&segment)?, weight);
                }
                Ok((clip, mean.mean()))
            },
            &mut |features: Result<(usize, Vec<f32>), E>| {
                let taken = features.and_then(|(clip, features)| deliver(clip, features));
                taken.map_err(|error| {
                    failed = Some(error);
                    Error::Cancelled
                })
            },
        );
        match (done, failed) {
            (_, Some(error)) => Err(error),
            (done, None) => Ok(done?),
        }
    }

    /// The vector of a clip from [`AudioEncoder::clip_features`]. `of` names the clip in the error.
    ///
    /// # Errors
    /// [`Error::NoDirection`] if it has no direction.
    pub fn embed_features(&self, features: Vec<f32>, of: &str) -> Result<Vec<f32>, Error> {
        self.project(features)?
            .ok_or_else(|| Error::NoDirection { of: of.to_owned() })
    }

    /// The vector of a clip from the mean of its segments' features. `None` if it has no direction.
    fn project(&self, mean: Vec<f32>) -> Result<Option<Vec<f32>>, Error> {
        if self.card.side.projection.is_empty() {
            return Ok(mean.iter().all(|x| x.is_finite()).then_some(mean));
        }
        let width = mean.len();
        let mut vector = self.compute.guard(|| {
            let mean = Tensor::from_data(TensorData::new(mean, [1, width]), self.compute.device());
            numbers(self.side.projection.forward(mean))
        })?;
        Ok(normalise(&mut vector, "").is_ok().then_some(vector))
    }
}
