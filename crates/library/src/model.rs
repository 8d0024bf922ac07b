//! The model of a library: it embeds recordings when they are indexed, and questions when they are asked.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use hark_catalogue::{EmbedError, Embedder, Settings};
use hark_encode::Compute;
use hark_encode::model::{AudioEncoder, EmbedEvent, ModelFiles, TextEncoder};
use hark_models::ModelStore;

use crate::error::Error;

/// A model with an audio and a text tower, by name and fingerprint.
#[derive(Debug, Clone)]
pub struct LibraryModel {
    /// As the user named it; a path is made absolute, so that it works from every folder.
    pub name: String,
    /// The model's files.
    pub files: ModelFiles,
    /// Tells two models apart, see [`ModelFiles::fingerprint`].
    pub fingerprint: String,
}

impl LibraryModel {
    /// Finds a model by its name in the store, or by its folder.
    ///
    /// # Errors
    /// If there is no such model, or it embeds captions alone.
    pub fn find(models: &ModelStore, name: &str) -> Result<Self, hark_models::Error> {
        let files = models.find_dual_encoder(name)?;
        let path = Path::new(name);
        let name = if files.folder() == Some(path) {
            let folder = fs_err::canonicalize(path)?;
            folder.to_string_lossy().into_owned()
        } else {
            name.to_owned()
        };
        Ok(Self {
            name,
            fingerprint: files.fingerprint()?,
            files,
        })
    }

    /// The model that a library was made with; `moved_to` is its name or folder, if that is another one now.
    ///
    /// # Errors
    /// [`Error::ModelGone`] if it is not there, [`Error::OtherModel`] if its fingerprint differs.
    pub fn of(models: &ModelStore, settings: &Settings, moved_to: Option<&str>) -> Result<Self, Error> {
        let model =
            Self::find(models, moved_to.unwrap_or(&settings.model)).map_err(|source| Error::ModelGone {
                model: settings.model.clone(),
                source: Box::new(source),
            })?;
        if model.fingerprint != settings.fingerprint {
            return Err(Error::OtherModel {
                settings: Box::new(settings.clone()),
                model: model.name,
                fingerprint: model.fingerprint,
            });
        }
        Ok(model)
    }

    pub(crate) fn settings(&self, encoder: &AudioEncoder, hop_seconds: f64) -> Settings {
        Settings {
            model: self.name.clone(),
            fingerprint: self.fingerprint.clone(),
            dim: encoder.dim(),
            window_seconds: encoder.segment_seconds(),
            hop_seconds,
        }
    }
}

/// Embeds texts and recordings with a library's model. Each tower is loaded when it is first needed.
pub struct ModelEmbedder {
    model: LibraryModel,
    compute: Compute,
    text: OnceLock<TextEncoder>,
    audio: OnceLock<AudioEncoder>,
    /// Held while a tower is loaded, so that two threads do not load it twice.
    loading: Mutex<()>,
    cancelled: Option<fn() -> bool>,
}

impl ModelEmbedder {
    /// Embeds on this device, with this many threads for each call.
    pub fn new(model: LibraryModel, compute: Compute) -> Self {
        Self {
            model,
            compute,
            text: OnceLock::new(),
            audio: OnceLock::new(),
            loading: Mutex::new(()),
            cancelled: None,
        }
    }

    /// Ends a call with an error once `cancelled` says so; it is asked after every segment and every text.
    #[must_use]
    pub fn cancelled_by(mut self, cancelled: Option<fn() -> bool>) -> Self {
        self.cancelled = cancelled;
        self
    }

    /// The model that embeds.
    pub fn model(&self) -> &LibraryModel {
        &self.model
    }

    /// The text tower.
    ///
    /// # Errors
    /// If it cannot be loaded.
    pub fn text_encoder(&self) -> Result<&TextEncoder, Error> {
        self.load(&self.text, || {
            Ok(TextEncoder::open(&self.model.files, &self.compute)?)
        })
    }

    /// The audio tower.
    ///
    /// # Errors
    /// If it cannot be loaded, or its vectors are not in one space with those of texts.
    pub fn audio_encoder(&self) -> Result<&AudioEncoder, Error> {
        self.load(&self.audio, || {
            let encoder = AudioEncoder::open(&self.model.files, &self.compute)?;
            if encoder.is_projected() {
                Ok(encoder)
            } else {
                Err(Error::NoProjection {
                    name: self.model.name.clone(),
                })
            }
        })
    }

    fn load<'a, T>(
        &'a self,
        tower: &'a OnceLock<T>,
        open: impl FnOnce() -> Result<T, Error>,
    ) -> Result<&'a T, Error> {
        if let Some(tower) = tower.get() {
            return Ok(tower);
        }
        let _loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tower) = tower.get() {
            return Ok(tower);
        }
        let loaded = open()?;
        Ok(tower.get_or_init(|| loaded))
    }

    /// One vector for each text.
    ///
    /// # Errors
    /// If the model cannot be loaded or has no vector for a text, or the caller cancels.
    pub fn embed_text(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, Error> {
        let embedded = self.text_encoder()?.embed(texts, &|_, _| self.flow())?;
        Ok(embedded.rows().map(<[f32]>::to_vec).collect())
    }

    /// The vector of a whole recording.
    ///
    /// # Errors
    /// If the model cannot be loaded, the recording cannot be decoded, or the caller cancels.
    pub fn embed_audio(&self, path: &Path) -> Result<Vec<f32>, Error> {
        let encoder = self.audio_encoder()?;
        let mut vector = None;
        // As recordings are indexed: padded as the model was trained, and not cropped.
        let hop = encoder.segment_seconds();
        encoder.embed_windows(&[path.to_owned()], hop, &mut |event| {
            if let EmbedEvent::Recording { result, .. } = event {
                vector = Some(result.map(|clip| clip.vector));
            }
            self.flow()
        })?;
        match vector {
            Some(vector) => Ok(vector?),
            None => Err(Error::Empty {
                path: path.to_owned(),
            }),
        }
    }

    fn flow(&self) -> ControlFlow<()> {
        if self.cancelled.is_some_and(|cancelled| cancelled()) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

impl std::fmt::Debug for ModelEmbedder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelEmbedder")
            .field("model", &self.model)
            .field("compute", &self.compute)
            .finish_non_exhaustive()
    }
}

impl Embedder for ModelEmbedder {
    fn embed_text(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.embed_text(texts).map_err(model_failed)
    }

    fn knows(&self, text: &str) -> Result<bool, EmbedError> {
        let knows = || Ok(self.text_encoder()?.knows(text)?);
        knows().map_err(model_failed)
    }

    fn embed_audio(&self, recording: &Path) -> Result<Vec<f32>, EmbedError> {
        self.audio_encoder().map_err(model_failed)?;
        // The model takes whatever can be decoded, so an error is the recording's fault. The message leaves out its path: a
        // server sends it to strangers.
        let path = recording.display().to_string();
        self.embed_audio(recording).map_err(|error| {
            if matches!(error, Error::Encode(hark_encode::Error::DeviceBroke { .. })) {
                return model_failed(error);
            }
            let what = hark_work::files::explain(&error).replace(&path, "the recording");
            EmbedError::Recording { what }
        })
    }
}

pub(crate) fn model_failed(error: Error) -> EmbedError {
    EmbedError::Model {
        source: Box::new(error),
    }
}
