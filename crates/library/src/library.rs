//! The facade: open a library, index its folders, watch them, search.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use hark_audio::Fingerprint;
use hark_catalogue::{
    Answer, AudioInfo, EmbedError, Embedder, Hit, Question, Settings, Store, ask, duplicates, sqlite,
};
use hark_encode::Compute;
use hark_models::{EVERYDAY, ModelStore};

use crate::annotations::Annotations;
use crate::error::Error;
use crate::indexing::{Control, IndexEvent, Indexing, OnIndexEvent, Outcome};
use crate::location::LibraryLocation;
use crate::model::{LibraryModel, ModelEmbedder, model_failed};
use crate::plan::Shard;
use crate::watch::Watch;

/// How a library is opened.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Name or folder of the library's model, if it has moved since the library was made.
    pub model: Option<String>,
    /// Where the model runs. Its threads search the catalogue too.
    pub compute: Compute,
    /// Asked while a question is embedded; `true` ends the search with an error.
    pub cancelled: Option<fn() -> bool>,
}

impl Default for OpenOptions {
    /// The CPU with all its cores.
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            model: None,
            compute: Compute::cpu(threads),
            cancelled: None,
        }
    }
}

/// What a library is to be before it is indexed.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// How it is opened. A new library without a model gets [`EVERYDAY`]; one that exists refuses another than its own, unless
    /// it is rebuilt.
    pub open: OpenOptions,
    /// Seconds from one window of a long recording to the next. By default the library's own, and for a new library the
    /// length of a window.
    pub hop_seconds: Option<f64>,
    /// Folders to add.
    pub folders: Vec<PathBuf>,
    /// Folders to remove, with their recordings. They need not exist any more.
    pub remove_folders: Vec<PathBuf>,
    /// Whether to drop everything but the folders, so that all is indexed again.
    pub rebuild: bool,
}

/// How folders are indexed.
#[derive(Debug, Clone, Copy, Default)]
pub struct IndexOptions<'a> {
    /// Captions and tags. Recordings that they do not name keep those that they have.
    pub notes: Option<&'a Annotations>,
    /// Which of all files this process indexes.
    pub shard: Shard,
    /// Words to tag recordings by, now and from now on; the library's own by default. Words of a first vocabulary replace the
    /// classes of the model.
    pub vocabulary: Option<&'a [String]>,
}

/// A library of recordings: a catalogue and the model that its vectors come from.
pub struct Library {
    location: LibraryLocation,
    store: Arc<dyn Store>,
    embedder: LazyEmbedder,
    /// Held by the process that indexes a library in a folder.
    _lock: Option<sqlite::Lock>,
    unreadable: Option<hark_catalogue::Error>,
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Library")
            .field("location", &self.location)
            .field("settings", self.store.settings())
            .finish_non_exhaustive()
    }
}

impl Library {
    /// Opens a library that exists and finds its model, on the CPU with all its cores.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is none, [`Error::ModelGone`] or [`Error::OtherModel`] if the model that it was made with
    /// is not there.
    pub fn open(location: impl Into<LibraryLocation>, models: &ModelStore) -> Result<Self, Error> {
        let library = Self::open_with(location, models, &OpenOptions::default())?;
        library.embedder.get()?;
        Ok(library)
    }

    /// Opens a library that exists. Its model is looked for when it is first needed: a search by words needs none.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is none, or if the catalogue cannot be read.
    pub fn open_with(
        location: impl Into<LibraryLocation>,
        models: &ModelStore,
        options: &OpenOptions,
    ) -> Result<Self, Error> {
        let location = location.into();
        let store = location
            .open(options.compute.threads())?
            .ok_or_else(|| Error::Missing {
                location: location.to_string(),
            })?;
        let embedder = LazyEmbedder {
            models: models.clone(),
            settings: store.settings().clone(),
            options: options.clone(),
            embedder: OnceLock::new(),
        };
        Ok(Self {
            location,
            store,
            embedder,
            _lock: None,
            unreadable: None,
        })
    }

    /// Opens a library to index it, and creates it if there is none. In a folder, one process at a time can do so.
    ///
    /// # Errors
    /// If the model cannot be opened or differs from the library's, a folder is missing, the catalogue cannot be read and is
    /// not rebuilt, or another process indexes the library.
    pub fn open_to_index(
        location: impl Into<LibraryLocation>,
        models: &ModelStore,
        setup: &Setup,
    ) -> Result<Self, Error> {
        let location = location.into();
        let compute = &setup.open.compute;
        let (mut unreadable, mut vocabulary) = (None, Vec::new());
        let before = match location.open(compute.threads()) {
            Err(error) if setup.rebuild && error.is_of_library() => {
                unreadable = Some(error);
                None
            }
            opened => match opened? {
                Some(store) => {
                    vocabulary = store.vocabulary()?;
                    Some(store.settings().clone())
                }
                None => None,
            },
        };
        let folders = setup
            .folders
            .iter()
            .map(|folder| existing_folder(folder))
            .collect::<Result<Vec<_>, _>>()?;
        let model = match (&setup.open.model, &before) {
            (Some(name), _) => LibraryModel::find(models, name)?,
            (None, Some(settings)) => LibraryModel::of(models, settings, None)?,
            (None, None) => LibraryModel::find(models, EVERYDAY)?,
        };
        if before.is_none() && folders.is_empty() {
            return Err(Error::NoFolders {
                location: location.to_string(),
            });
        }
        let embedder = ModelEmbedder::new(model, compute.clone());
        let settings = settings_for(&embedder, before, setup.hop_seconds)?;
        if setup.rebuild {
            location.reset(&settings)?;
        }
        let (store, lock) = location.open_or_create(&settings, compute.threads())?;
        if setup.rebuild && !vocabulary.is_empty() {
            store.set_vocabulary(&vocabulary)?;
        }
        for folder in &folders {
            store.add_root(folder)?;
        }
        for folder in &setup.remove_folders {
            let folder = removed_folder(folder)?;
            let folders = store.roots()?;
            if !folders.contains(&folder) {
                return Err(Error::NotInLibrary { folder, folders });
            }
            store.remove_root(&folder)?;
        }
        Ok(Self {
            location,
            store,
            embedder: LazyEmbedder {
                models: models.clone(),
                settings,
                options: setup.open.clone(),
                embedder: OnceLock::from(embedder),
            },
            _lock: lock,
            unreadable,
        })
    }

    /// The library's catalogue.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Why the library that [`Library::open_to_index`] replaced could not be read.
    pub fn unreadable(&self) -> Option<&hark_catalogue::Error> {
        self.unreadable.as_ref()
    }

    /// The library's model.
    ///
    /// # Errors
    /// [`Error::ModelGone`] or [`Error::OtherModel`] if the model that the library was made with is not there.
    pub fn embedder(&self) -> Result<&ModelEmbedder, Error> {
        self.embedder.get()
    }

    /// Brings the index up to date with the folders, and the catalogue into a form that is fast to search. Only files whose
    /// size or modification time changed are read, and only new content is decoded.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if `on_event` asks for it; finished work is stored then. Files that cannot be read are no error:
    /// [`Outcome`] lists them.
    pub fn index(&self, options: &IndexOptions<'_>, on_event: OnIndexEvent<'_>) -> Result<Outcome, Error> {
        let control = Control::new(on_event);
        let indexing = self.indexing(options)?;
        let retagged = if indexing.words == self.store.vocabulary()? {
            0
        } else {
            indexing.retag(&control)?
        };
        let outcome = Outcome {
            retagged,
            ..indexing.run(&control)?
        };
        let optimized = self.store.optimize(&|done, total| {
            control.tell(IndexEvent::Optimizing { done, total });
            control.flow()
        });
        match optimized {
            Err(_) if control.flow().is_break() => Err(Error::Cancelled),
            optimized => Ok(optimized.map(|()| outcome)?),
        }
    }

    fn indexing<'a>(&'a self, options: &IndexOptions<'a>) -> Result<Indexing<'a>, Error> {
        Ok(Indexing {
            store: &*self.store,
            embedder: self.embedder.get()?,
            threads: self.embedder.options.compute.threads(),
            notes: options.notes,
            // Where others write too, the file may be another one by the time that its entry is copied.
            reuse_duplicates: self.location.has_one_writer(),
            shard: options.shard,
            words: match options.vocabulary {
                Some(words) => words.to_vec(),
                None => self.store.vocabulary()?,
            },
            vocabulary: OnceLock::new(),
        })
    }

    /// Indexes the folders, again and again as something changes in them, until `on_event` cancels. The result of each pass
    /// is an [`IndexEvent::Indexed`].
    ///
    /// # Errors
    /// If the system cannot watch for changes. [`Error::Cancelled`] if a pass was cancelled; between two passes,
    /// cancelling is the normal end.
    pub fn watch(&self, options: &IndexOptions<'_>, on_event: OnIndexEvent<'_>) -> Result<(), Error> {
        let control = Control::new(on_event);
        let folders = self.store.roots()?;
        // Before the first pass: what changes during it is indexed by the second.
        let watch = Watch::new(&folders, &mut |folder, error| {
            let reason = error.to_string();
            control.tell(IndexEvent::NotWatched {
                folder,
                reason: &reason,
            });
        })?;
        loop {
            let outcome = self.index(options, on_event);
            if let Err(Error::Cancelled) = outcome {
                return Err(Error::Cancelled);
            }
            // A pass that fails, or files that cannot be read, do not end the watch.
            control.tell(IndexEvent::Indexed {
                outcome: outcome.as_ref(),
            });
            control.tell(IndexEvent::Watching { folders: &folders });
            if !watch.wait(&|| control.goes_on()) {
                return Ok(());
            }
        }
    }

    /// The recordings that answer a question best.
    ///
    /// # Errors
    /// If the catalogue cannot be read, the question's text or recording cannot be embedded, or nothing is left to search
    /// for.
    pub fn search(&self, question: &Question) -> Result<Vec<Hit>, Error> {
        Ok(self.ask(question)?.hits)
    }

    /// As [`Library::search`], with notes on the answer: a folder that the library does not have, and the like.
    ///
    /// # Errors
    /// As [`Library::search`].
    pub fn ask(&self, question: &Question) -> Result<Answer, Error> {
        Ok(ask(&*self.store, &self.embedder, question)?)
    }

    /// Groups of files that are the same recording, in whatever format, as paths. `goes_on` is asked before every comparison;
    /// once it says no, the groups are incomplete.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn duplicates(&self, goes_on: &dyn Fn() -> bool) -> Result<Vec<Vec<String>>, Error> {
        let fingerprint = |sound: &AudioInfo| Fingerprint::from_bytes(&sound.fingerprint).ok();
        let same = |a: &Fingerprint, b: &Fingerprint| goes_on() && hark_audio::same_recording(a, b);
        Ok(duplicates(&*self.store, &fingerprint, &same)?)
    }
}

/// The settings of the library: its own if they fit what is asked for, else those of the model.
fn settings_for(
    embedder: &ModelEmbedder,
    before: Option<Settings>,
    hop_seconds: Option<f64>,
) -> Result<Settings, Error> {
    let model = embedder.model();
    let fits = |settings: &Settings| {
        let same_hop = |hop: f64| (hop - settings.hop_seconds).abs() < 1e-9;
        settings.fingerprint == model.fingerprint && hop_seconds.is_none_or(same_hop)
    };
    if let Some(settings) = before.filter(fits) {
        return Ok(settings);
    }
    // The length of a window is the model's input, which the model itself tells.
    let encoder = embedder.audio_encoder()?;
    let window = encoder.segment_seconds();
    let (hop, least) = (hop_seconds.unwrap_or(window), window / 10.0);
    if !(least..=window).contains(&hop) {
        return Err(Error::Hop { least, window });
    }
    Ok(model.settings(encoder, hop))
}

/// The folder as the library stores it.
fn existing_folder(folder: &Path) -> Result<String, Error> {
    let path = fs_err::canonicalize(folder).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::NoFolder {
            path: folder.to_owned(),
        },
        _ => error.into(),
    })?;
    if !path.is_dir() {
        return Err(Error::NotAFolder { path });
    }
    match path.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(Error::NotUnicode { path }),
    }
}

/// A folder that may be gone from the disk, as the library stores it.
fn removed_folder(folder: &Path) -> Result<String, Error> {
    let folder = fs_err::canonicalize(folder).or_else(|_| std::path::absolute(folder))?;
    Ok(folder.to_string_lossy().trim_end_matches('/').to_owned())
}

/// The library's model, looked for when it is first needed.
struct LazyEmbedder {
    models: ModelStore,
    settings: Settings,
    options: OpenOptions,
    embedder: OnceLock<ModelEmbedder>,
}

impl LazyEmbedder {
    fn get(&self) -> Result<&ModelEmbedder, Error> {
        if let Some(embedder) = self.embedder.get() {
            return Ok(embedder);
        }
        let model = LibraryModel::of(&self.models, &self.settings, self.options.model.as_deref())?;
        let (compute, cancelled) = (self.options.compute.clone(), self.options.cancelled);
        Ok(self
            .embedder
            .get_or_init(|| ModelEmbedder::new(model, compute).cancelled_by(cancelled)))
    }
}

impl Embedder for LazyEmbedder {
    fn embed_text(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        Embedder::embed_text(self.get().map_err(model_failed)?, texts)
    }

    fn knows(&self, text: &str) -> Result<bool, EmbedError> {
        Embedder::knows(self.get().map_err(model_failed)?, text)
    }

    fn embed_audio(&self, recording: &Path) -> Result<Vec<f32>, EmbedError> {
        Embedder::embed_audio(self.get().map_err(model_failed)?, recording)
    }
}
