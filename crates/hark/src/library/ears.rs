//! What turns the questions of a library's users into vectors: its model.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};
use hark_catalogue::{EmbedError, Embedder};
use hark_encode::Compute;
use hark_encode::model::{AudioEncoder, EmbedEvent, TextEncoder};

use super::LibraryModel;
use crate::progress;

/// A library's model. Each side is loaded when it is first needed.
pub struct ModelEmbedder {
    model: LibraryModel,
    compute: Compute,
    text: OnceLock<Result<TextEncoder, String>>,
    audio: OnceLock<Result<AudioEncoder, String>>,
}

impl ModelEmbedder {
    /// Ears that compute a question on this device.
    pub fn new(model: LibraryModel, compute: Compute) -> Self {
        Self {
            model,
            compute,
            text: OnceLock::new(),
            audio: OnceLock::new(),
        }
    }

    /// The text side.
    pub fn reader(&self) -> Result<&TextEncoder> {
        let open = || {
            self.model
                .text(&self.compute)
                .map_err(|error| format!("{error:#}"))
        };
        loaded(self.text.get_or_init(open))
    }

    /// The audio side.
    pub fn listener(&self) -> Result<&AudioEncoder> {
        let open = || {
            self.model
                .audio(&self.compute)
                .map_err(|error| format!("{error:#}"))
        };
        loaded(self.audio.get_or_init(open))
    }

    /// Vectors of texts.
    pub fn read(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let embedded = self.reader()?.embed(texts, &mut |_, _| stop())?;
        let rows = embedded.rows();
        Ok(rows.map(<[f32]>::to_vec).collect())
    }

    /// The vector of a recording as a whole.
    pub fn hear(&self, path: &Path) -> Result<Vec<f32>> {
        let encoder = self.listener()?;
        let mut vector = None;
        // As in the library: padded as the model was trained, and not cropped.
        let hop = encoder.segment_seconds();
        encoder.embed_windows(&[path.to_owned()], hop, &mut |told| {
            if let EmbedEvent::Recording { result, .. } = told {
                vector = Some(result.map(|clip| clip.vector));
            }
            stop()
        })?;
        match vector {
            Some(vector) => Ok(vector.with_context(|| path.display().to_string())?),
            None => bail!("{}: nothing to hear", path.display()),
        }
    }
}

fn loaded<T>(side: &Result<T, String>) -> Result<&T> {
    side.as_ref().map_err(|error| anyhow::anyhow!("{error}"))
}

fn stop() -> ControlFlow<()> {
    if progress::stopped() {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

impl Embedder for ModelEmbedder {
    fn embed_text(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.read(texts)
            .map_err(|error| EmbedError::Model { source: error.into() })
    }

    fn embed_audio(&self, recording: &Path) -> Result<Vec<f32>, EmbedError> {
        self.listener()
            .map_err(|error| EmbedError::Model { source: error.into() })?;
        // The model takes whatever can be decoded: what it refuses is the recording's fault. Its path is not part of the message,
        // which a server sends to strangers.
        let path = recording.display().to_string();
        self.hear(recording).map_err(|error| EmbedError::Recording {
            what: format!("{error:#}")
                .replace(&format!("{path}: "), "")
                .replace(&path, "the recording"),
        })
    }
}
