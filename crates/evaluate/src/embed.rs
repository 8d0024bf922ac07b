//! The embeddings of a split: the one path for training's validation, for `train`'s and `reproduce`'s test figures, and
//! for `eval`.
//!
//! Captions go through the text tower in batches of one length, without padding; clips go through the audio tower segment
//! by segment, and their features are averaged in 64 bits. An embedding therefore depends on nothing but the model and the
//! clip or caption: not on its neighbours in the split, nor on the number of threads.
//!
//! What training keeps between epochs (decoded audio, log-mels, tokens, the features of frozen towers) enters behind the
//! step that it saves: [`ClipInput`] and [`CaptionInput`] say where.

use std::ops::ControlFlow;
use std::path::PathBuf;

use hark_corpus::{Clip, Dataset, Pair};
use hark_encode::Compute;
use hark_encode::dual::Side;
use hark_encode::model::{AudioEncoder, EmbedEvent, TextEncoder};
use hark_encode::tokenize::Tokens;
use hark_encode::towers::{MelBatch, TextTower};

use crate::Error;
use crate::retrieval::SplitEmbeddings;

/// The log-mels of a clip's segments, by the clip's place in the split.
pub type LogMels<'a> =
    &'a (dyn Fn(usize) -> Result<Vec<MelBatch>, Box<dyn std::error::Error + Send + Sync>> + Sync);

/// What is known of the clips.
#[derive(Clone, Copy)]
pub enum ClipInput<'a> {
    /// Their files, which are decoded as a stream.
    Files,
    /// Their log-mels.
    LogMels(LogMels<'a>),
    /// The features that the audio tower gives, `[clips, width]`.
    Features(&'a [f32]),
}

/// What is known of the captions.
#[derive(Clone, Copy)]
pub enum CaptionInput<'a> {
    /// Their words.
    Words(&'a TextEncoder),
    /// Their tokens.
    Tokens(&'a Side<TextTower>, &'a [Tokens], &'a Compute),
    /// The features that the text tower gives, `[captions, width]`.
    Features(&'a Side<TextTower>, &'a [f32], &'a Compute),
}

/// What [`embed_split`] and [`Collection::embed`](crate::Collection::embed) report.
#[derive(Debug)]
pub enum SplitEvent<'a> {
    /// Recordings are opened, to see whether they are there.
    Opened {
        /// How many so far.
        done: u64,
        /// Recordings of the split.
        total: u64,
    },
    /// Captions are embedded.
    Captions {
        /// How many so far.
        done: u64,
        /// Captions of the split.
        total: u64,
    },
    /// A segment of a recording has gone through the network.
    Segment {
        /// Its length.
        seconds: f64,
    },
    /// A clip is embedded, or cannot be.
    Clip {
        /// How many so far.
        done: u64,
        /// Clips of the split.
        total: u64,
        /// A recording that cannot be read, and why.
        failed: Option<(&'a Clip, &'a hark_encode::Error)>,
    },
    /// The embeddings could not be kept for the next time.
    NotCached(&'a Error),
}

/// Called with each event; `Break` cancels the work.
pub type OnSplitEvent<'a> = &'a (dyn Fn(SplitEvent<'_>) -> ControlFlow<()> + Sync);

pub(crate) fn go_on(flow: ControlFlow<()>) -> Result<(), Error> {
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::Cancelled),
    }
}

/// Embeds a split. Recordings that cannot be read have no embedding: [`FoundEmbeddings`] says what to do about them.
///
/// # Errors
/// If the model cannot take a caption, or a clip's log-mels cannot be had; [`Error::Cancelled`].
pub fn embed_split(
    audio: &AudioEncoder,
    clips: ClipInput<'_>,
    captions: CaptionInput<'_>,
    data: &Dataset,
    on_event: OnSplitEvent<'_>,
) -> Result<FoundEmbeddings, Error> {
    Ok(FoundEmbeddings {
        captions: embed_captions(captions, data, on_event)?,
        clips: embed_clips(audio, clips, data, on_event)?,
        dim: audio.dim(),
    })
}

/// The embeddings of a split of which some recordings may not have been read.
#[derive(Debug)]
pub struct FoundEmbeddings {
    captions: Vec<f32>,
    clips: Vec<Option<Vec<f32>>>,
    dim: usize,
}

impl FoundEmbeddings {
    /// Whether every recording was read.
    pub fn is_complete(&self) -> bool {
        self.clips.iter().all(Option::is_some)
    }

    /// The embeddings of the whole split.
    ///
    /// # Errors
    /// [`Error::Unreadable`] if a recording could not be read.
    pub fn complete(self, data: &Dataset) -> Result<SplitEmbeddings, Error> {
        if let Some(first) = self.clips.iter().position(Option::is_none) {
            return Err(self.unreadable(data, first));
        }
        Ok(self.rows())
    }

    /// The embeddings of what was read; the rest is taken out of the split, with its captions.
    ///
    /// # Errors
    /// [`Error::Unreadable`] if no recording could be read.
    pub fn take_found(mut self, data: &mut Dataset) -> Result<SplitEmbeddings, Error> {
        if self.clips.iter().all(Option::is_none) {
            return Err(self.unreadable(data, 0));
        }
        if !self.is_complete() {
            self.keep_found(data);
        }
        Ok(self.rows())
    }

    fn rows(self) -> SplitEmbeddings {
        SplitEmbeddings {
            clips: self.clips.into_iter().flatten().flatten().collect(),
            captions: self.captions,
            dim: self.dim,
        }
    }

    fn unreadable(&self, data: &Dataset, first: usize) -> Error {
        Error::Unreadable {
            count: self.clips.iter().filter(|row| row.is_none()).count(),
            total: self.clips.len(),
            first: data
                .clips
                .get(first)
                .map(|clip| clip.path.clone())
                .unwrap_or_default(),
        }
    }

    /// Takes recordings that could not be read out of the split, with their captions.
    fn keep_found(&mut self, data: &mut Dataset) {
        let mut place = Vec::with_capacity(self.clips.len());
        let mut clips = Vec::new();
        for (clip, row) in std::mem::take(&mut data.clips).into_iter().zip(&self.clips) {
            place.push(row.as_ref().map(|_| clips.len()));
            if row.is_some() {
                clips.push(clip);
            }
        }
        data.clips = clips;
        let pairs = std::mem::take(&mut data.pairs);
        let captions = std::mem::take(&mut self.captions);
        for (pair, row) in pairs.into_iter().zip(captions.chunks_exact(self.dim)) {
            if let Some(clip) = place[pair.clip] {
                data.pairs.push(Pair { clip, ..pair });
                self.captions.extend_from_slice(row);
            }
        }
    }
}

fn embed_captions(
    captions: CaptionInput<'_>,
    data: &Dataset,
    on_event: OnSplitEvent<'_>,
) -> Result<Vec<f32>, Error> {
    let progress = |done, total| on_event(SplitEvent::Captions { done, total });
    Ok(match captions {
        CaptionInput::Words(encoder) => {
            let texts: Vec<&str> = data.pairs.iter().map(|pair| pair.caption.as_str()).collect();
            encoder.embed(&texts, &progress)?.into_vec()
        }
        CaptionInput::Tokens(side, tokens, compute) => side.embed_tokens(tokens, compute, &progress)?,
        CaptionInput::Features(side, features, compute) => side.embed_features(features, compute)?,
    })
}

/// A row for each clip; none for one that cannot be read.
fn embed_clips(
    audio: &AudioEncoder,
    clips: ClipInput<'_>,
    data: &Dataset,
    on_event: OnSplitEvent<'_>,
) -> Result<Vec<Option<Vec<f32>>>, Error> {
    let total = data.clips.len() as u64;
    let mut rows = vec![None; data.clips.len()];
    let mut done = 0;
    match clips {
        ClipInput::Files => {
            let paths: Vec<PathBuf> = data.clips.iter().map(|clip| clip.path.clone()).collect();
            audio.embed_files(&paths, &mut |event| match event {
                EmbedEvent::Segment { seconds } => on_event(SplitEvent::Segment { seconds }),
                EmbedEvent::Recording { file, result } => {
                    done += 1;
                    let mut failed = None;
                    match &result {
                        Ok(clip) => rows[file] = Some(clip.vector.clone()),
                        Err(error) => failed = Some((&data.clips[file], error)),
                    }
                    on_event(SplitEvent::Clip { done, total, failed })
                }
            })?;
        }
        ClipInput::LogMels(log_mels) => {
            let log_mels = |clip: usize| log_mels(clip).map_err(Error::Recording);
            audio.clip_features(rows.len(), &log_mels, &mut |clip, features| {
                rows[clip] = Some(audio.embed_features(features, &data.clips[clip].id)?);
                done += 1;
                let failed = None;
                go_on(on_event(SplitEvent::Clip { done, total, failed }))
            })?;
        }
        ClipInput::Features(features) => {
            let width = features.len() / rows.len().max(1);
            let features = features.chunks_exact(width.max(1));
            for ((row, features), clip) in rows.iter_mut().zip(features).zip(&data.clips) {
                *row = Some(audio.embed_features(features.to_vec(), &clip.id)?);
            }
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clips_that_cannot_be_read_leave_with_their_captions() {
        let clip = |id: &str| Clip {
            id: id.into(),
            path: id.into(),
            set: 0,
        };
        let pair = |clip, caption: &str| Pair {
            clip,
            caption: caption.into(),
        };
        let mut data = Dataset {
            name: "three".into(),
            clips: vec![clip("a"), clip("b"), clip("c")],
            pairs: vec![pair(2, "x"), pair(1, "y"), pair(0, "z")],
            left_out: Vec::new(),
        };
        let found = |clips: [Option<Vec<f32>>; 3]| FoundEmbeddings {
            captions: vec![1.0, 2.0, 3.0],
            clips: clips.to_vec(),
            dim: 1,
        };
        let some = || found([Some(vec![0.5]), None, Some(vec![0.7])]);
        let error = some().complete(&data).unwrap_err().to_string();
        assert!(error.contains("1 of 3 recordings, the first is b"), "{error}");
        let embedded = some().take_found(&mut data).unwrap();
        assert_eq!(data.clips, [clip("a"), clip("c")]);
        assert_eq!(data.pairs, [pair(1, "x"), pair(0, "z")]);
        assert_eq!(
            (embedded.clips, embedded.captions),
            (vec![0.5, 0.7], vec![1.0, 3.0])
        );
        assert!(found([None, None, None]).take_found(&mut data).is_err());
    }
}
