//! The folder of models: find, open, list, import.

use std::path::{Path, PathBuf};

use fs_err as fs;
use hark_encode::Compute;
use hark_encode::bridge::{Bridge, bridge};
use hark_encode::card::Card;
use hark_encode::import::{self, Options};
use hark_encode::model::{self, ModelFiles};
use hark_encode::sentence::{SentenceModel, StaticEncoder};
use serde::Serialize;

use crate::error::Error;
use crate::info::ModelInfo;
use crate::plan::PullPlan;
use crate::published::{PUBLISHED, Published, PublishedModel};
use crate::pull::{self, OnPullEvent, Pulled, Sources};

/// The name of the encoder that is part of the program.
pub const BUILT_IN: &str = "caption-static";

/// The name of the dual encoder that is part of the program.
pub const EVERYDAY: &str = hark_encode::model::EVERYDAY.name;

/// The model in the folder of a run.
const OF_RUN: &str = "best";

/// Models, one folder each, under a folder of the caller's choice.
#[derive(Debug, Clone)]
pub struct ModelStore {
    models: PathBuf,
    partial: PathBuf,
}

/// What a name of a model stands for.
#[derive(Debug)]
pub enum Model {
    /// Embeds captions, to compare them.
    Sentence(SentenceModel),
    /// A model with an audio tower, a text tower or both.
    Towers(ModelFiles),
}

/// One row of [`ModelStore::list`].
#[derive(Debug, Serialize)]
pub struct Listed {
    /// What [`ModelStore::open`] takes.
    pub name: String,
    /// Whether it can be opened now.
    pub state: State,
    /// What it can do; `None` if the folder holds no model that can be read.
    pub can: Option<Ability>,
    /// One line on what it is.
    pub about: String,
}

/// Where a listed model is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum State {
    /// Part of the program.
    #[serde(rename = "built in")]
    BuiltIn,
    /// In the store.
    #[serde(rename = "here")]
    Installed,
    /// Published, and not downloaded yet.
    #[serde(rename = "can be pulled")]
    Available,
}

/// What [`ModelStore::import`] made.
#[derive(Debug)]
pub struct Imported {
    /// The new model's folder.
    pub path: PathBuf,
    /// The model's card.
    pub card: Card,
    /// Tensors of the checkpoint that belong to no tower and were left out.
    pub unused: Vec<String>,
}

impl ModelStore {
    /// The store below `folder`, which need not exist yet: models in `models`, downloads and imports at work in `partial`.
    pub fn at(folder: &Path) -> Self {
        Self {
            models: folder.join("models"),
            partial: folder.join("partial"),
        }
    }

    /// The folder that holds one folder for each model.
    pub fn folder(&self) -> &Path {
        &self.models
    }

    pub(crate) fn partial(&self) -> &Path {
        &self.partial
    }

    /// The folder of a model: a name in the store, the path of a model's folder, or that of a run, whose best model it is.
    ///
    /// # Errors
    /// [`Error::NotInstalled`] for a published model that was not pulled, [`Error::Unknown`] otherwise.
    pub fn find(&self, name: &str) -> Result<PathBuf, Error> {
        if !name.contains(['/', '\\']) && name != "." && name != ".." {
            // Names of published models are in lower case; people write all-MiniLM-L6-v2.
            for stored in [name, &name.to_ascii_lowercase()].map(|name| self.models.join(name)) {
                if stored.is_dir() {
                    return Ok(stored);
                }
            }
        }
        let path = Path::new(name);
        if path.is_dir() {
            let best = path.join(OF_RUN);
            let is_run = !model::is_model(path) && model::is_model(&best);
            return Ok(if is_run { best } else { path.to_owned() });
        }
        Err(match PublishedModel::find(name) {
            Some(model) => Error::NotInstalled { name: model.name },
            None => Error::Unknown {
                name: name.to_owned(),
                store: self.models.clone(),
            },
        })
    }

    /// Opens a model: [`BUILT_IN`], [`EVERYDAY`], a name in the store, or a path.
    ///
    /// # Errors
    /// As [`ModelStore::find`], or if the folder holds no model.
    pub fn open(&self, name: &str) -> Result<Model, Error> {
        if name == BUILT_IN {
            let encoder = StaticEncoder::built_in()?;
            return Ok(Model::Sentence(SentenceModel::Static(Box::new(encoder))));
        }
        if name == EVERYDAY {
            return Ok(Model::Towers(ModelFiles::BuiltIn(&model::EVERYDAY)));
        }
        let folder = self.find(name)?;
        if model::is_model(&folder) {
            return Ok(Model::Towers(ModelFiles::Folder(folder)));
        }
        Ok(Model::Sentence(SentenceModel::open(&folder)?))
    }

    /// Opens a model that embeds captions.
    ///
    /// # Errors
    /// As [`ModelStore::open`], or [`Error::NotSentenceEncoder`].
    pub fn open_sentence_encoder(&self, name: &str) -> Result<SentenceModel, Error> {
        match self.open(name)? {
            Model::Sentence(model) => Ok(model),
            Model::Towers(_) => Err(Error::NotSentenceEncoder {
                name: name.to_owned(),
            }),
        }
    }

    /// The files of a model with towers.
    ///
    /// # Errors
    /// As [`ModelStore::open`], or [`Error::NotDualEncoder`].
    pub fn find_dual_encoder(&self, name: &str) -> Result<ModelFiles, Error> {
        match self.open(name)? {
            Model::Towers(files) => Ok(files),
            Model::Sentence(_) => Err(Error::NotDualEncoder {
                name: name.to_owned(),
            }),
        }
    }

    /// Size, layout and origin of a model.
    ///
    /// # Errors
    /// As [`ModelStore::open`], or if its files cannot be read.
    pub fn info(&self, name: &str) -> Result<ModelInfo, Error> {
        ModelInfo::of(&self.open(name)?)
    }

    /// The built-in models, the published ones, then all others in the store by name.
    ///
    /// # Errors
    /// If the store's folder cannot be read.
    pub fn list(&self) -> Result<Vec<Listed>, Error> {
        let built_in = |name: &str, can, about: &str| Listed {
            name: name.to_owned(),
            state: State::BuiltIn,
            can: Some(can),
            about: about.to_owned(),
        };
        let mut rows = vec![
            built_in(
                BUILT_IN,
                Ability::ComparesCaptions,
                "static vectors, 256 dimensions: no download, fastest",
            ),
            built_in(
                EVERYDAY,
                Ability::HearsAndReads,
                "everyday sounds: no download, the default of libraries",
            ),
        ];
        rows.extend(PUBLISHED.iter().map(|model| Listed {
            name: model.name.to_owned(),
            state: if self.models.join(model.name).is_dir() {
                State::Installed
            } else {
                State::Available
            },
            can: Some(match model.kind {
                Published::Sentence { .. } => Ability::ComparesCaptions,
                Published::Towers { can, .. } => can,
            }),
            about: model.about.to_owned(),
        }));
        if self.models.is_dir() {
            let mut others = Vec::new();
            for entry in fs::read_dir(&self.models)? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                if entry.path().is_dir() && PublishedModel::find(&name).is_none() {
                    let (can, about) = about(&entry.path());
                    others.push(Listed {
                        name,
                        state: State::Installed,
                        can,
                        about,
                    });
                }
            }
            others.sort_by(|a, b| a.name.cmp(&b.name));
            rows.extend(others);
        }
        Ok(rows)
    }

    /// What [`ModelStore::pull`] will take. Servers are asked for the lengths of files; nothing is downloaded. While they are
    /// waited for, `go_on` is asked.
    ///
    /// # Errors
    /// If no model of this name is published, or if `go_on` cancels.
    pub fn plan(
        &self,
        name: &str,
        sources: &Sources,
        go_on: hark_download::GoOn<'_>,
    ) -> Result<PullPlan, Error> {
        PullPlan::of(self, PublishedModel::named(name)?, sources, go_on)
    }

    /// Whether a published model is installed, with all its files.
    pub(crate) fn is_complete(&self, model: &PublishedModel) -> bool {
        pull::is_complete(&self.models.join(model.name))
    }

    /// Downloads a published model, if it is not installed yet. An interrupted download is resumed.
    ///
    /// # Errors
    /// If no model of this name is published, if no source has it, or if `on_event` cancels.
    pub fn pull(&self, name: &str, sources: &Sources, on_event: OnPullEvent<'_>) -> Result<Pulled, Error> {
        pull::pull(self, PublishedModel::named(name)?, sources, on_event)
    }

    /// Reads a checkpoint of another program, or takes a model's or a run's folder, and stores it as the model `name`; `replace`
    /// allows overwriting one.
    ///
    /// # Errors
    /// If the name is invalid or taken, or for a checkpoint that [`import`](import::import) refuses. Nothing is then written,
    /// and a model of this name stays as it was.
    pub fn import(
        &self,
        name: &str,
        checkpoint: &Path,
        tokenizer: Option<&Path>,
        options: &Options,
        replace: bool,
    ) -> Result<Imported, Error> {
        self.check_name(name, replace)?;
        let own = checkpoint.to_str().and_then(|name| self.find(name).ok());
        if let Some(own) = own.filter(|own| model::is_model(own)) {
            let card = Card::read(&own.join(model::CARD))?;
            let copy = |fresh: &Path| {
                for file in [model::CARD, model::WEIGHTS, model::TOKENIZER] {
                    if own.join(file).is_file() {
                        fs::copy(own.join(file), fresh.join(file))?;
                    }
                }
                if own.join(model::SENTENCE).is_dir() {
                    copy_folder(&own.join(model::SENTENCE), &fresh.join(model::SENTENCE))?;
                }
                Ok(())
            };
            return Ok(Imported {
                path: self.install(name, copy)?,
                card,
                unused: Vec::new(),
            });
        }
        let imported = import::import(checkpoint, tokenizer, options, &Compute::cpu(1))?;
        let save = |fresh: &Path| {
            let tokenizer = imported.tokenizer.as_deref();
            Ok(model::save(fresh, &imported.card, &imported.network, tokenizer)?)
        };
        Ok(Imported {
            path: self.install(name, save)?,
            card: imported.card,
            unused: imported.unused,
        })
    }

    /// Makes a dual encoder of the tagger and the sentence encoder of these names, and stores it as the model `name`; `replace`
    /// allows overwriting one.
    ///
    /// # Errors
    /// If the name is invalid or taken, a part is not there, or [`bridge`] refuses it. Nothing is
    /// then written.
    pub fn bridge(&self, name: &str, asked: &BridgeOptions<'_>, replace: bool) -> Result<Imported, Error> {
        self.check_name(name, replace)?;
        let tagger = self.find_dual_encoder(asked.tagger)?;
        let labels = match asked.labels {
            Some(labels) => labels.to_vec(),
            None => known_labels(&tagger)?,
        };
        let sentence = self.open_sentence_encoder(asked.sentence)?;
        let folder = match asked.sentence {
            BUILT_IN => None,
            other => Some(self.find(other)?),
        };
        let parts = Bridge {
            tagger: &tagger,
            sentence,
            labels: &labels,
            centred: asked.centred,
            segment_seconds: asked.segment_seconds,
        };
        let bridged = bridge(parts, asked.compute)?;
        let save = |fresh: &Path| {
            let sentence = fresh.join(model::SENTENCE);
            if let Some(folder) = &folder {
                copy_folder(folder, &sentence)?;
            } else {
                fs::create_dir(&sentence)?;
                fs::write(sentence.join(model::WEIGHTS), StaticEncoder::built_in_bytes())?;
            }
            Ok(model::save(fresh, &bridged.card, &bridged.network, None)?)
        };
        Ok(Imported {
            path: self.install(name, save)?,
            card: bridged.card,
            unused: Vec::new(),
        })
    }

    /// That a model may be stored under this name.
    fn check_name(&self, name: &str, replace: bool) -> Result<(), Error> {
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', ':']) {
            return Err(Error::InvalidName {
                name: name.to_owned(),
            });
        }
        if PublishedModel::find(name).is_some() || [BUILT_IN, EVERYDAY].contains(&name) {
            return Err(Error::ReservedName {
                name: name.to_owned(),
            });
        }
        if self.models.join(name).exists() && !replace {
            return Err(Error::NameTaken {
                name: name.to_owned(),
                folder: self.models.clone(),
            });
        }
        Ok(())
    }

    /// Fills a folder and puts it in the place of the model `name`.
    fn install(&self, name: &str, fill: impl FnOnce(&Path) -> Result<(), Error>) -> Result<PathBuf, Error> {
        let path = self.models.join(name);
        fs::create_dir_all(&self.partial)?;
        fs::create_dir_all(&self.models)?;
        let aside = tempfile::Builder::new()
            .prefix("import-")
            .tempdir_in(&self.partial)?;
        let fresh = aside.path().join("new");
        fs::create_dir(&fresh)?;
        fill(&fresh)?;
        let old = aside.path().join("old");
        if path.exists() {
            fs::rename(&path, &old)?;
        }
        if let Err(error) = fs::rename(&fresh, &path) {
            // The folder aside is removed with all that is in it: the old model must not be.
            if old.exists() {
                fs::rename(&old, &path)?;
            }
            return Err(error.into());
        }
        Ok(path)
    }
}

/// What [`ModelStore::bridge`] makes a dual encoder of.
#[derive(Debug)]
pub struct BridgeOptions<'a> {
    /// The name of a model whose audio tower has classes.
    pub tagger: &'a str,
    /// The name of a sentence encoder.
    pub sentence: &'a str,
    /// The names of the tagger's classes, in their order.
    pub labels: Option<&'a [String]>,
    /// Whether the mean of the names' vectors is subtracted from all vectors of texts.
    pub centred: bool,
    /// Length of a segment; by default the tagger's.
    pub segment_seconds: Option<f64>,
    /// Where the names are embedded.
    pub compute: &'a Compute,
}

/// The names that a tagger's card has, or else those of `AudioSet`, which the built-in model has.
fn known_labels(tagger: &ModelFiles) -> Result<Vec<String>, Error> {
    let labels = |files: &ModelFiles| {
        let card = files.card()?;
        Ok::<_, Error>(card.audio.map(|audio| audio.labels).unwrap_or_default())
    };
    let own = labels(tagger)?;
    if own.is_empty() {
        labels(&ModelFiles::BuiltIn(&model::EVERYDAY))
    } else {
        Ok(own)
    }
}

/// Copies the files of a folder and of the folders in it.
fn copy_folder(from: &Path, to: &Path) -> Result<(), Error> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy_folder(&from, &to)?;
        } else {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

/// What a model can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ability {
    /// It embeds recordings and texts in one space: it can be searched with.
    HearsAndReads,
    /// It embeds recordings.
    Hears,
    /// It embeds texts, beside an audio tower.
    Reads,
    /// It compares captions with captions.
    ComparesCaptions,
}

/// What the model of a folder can do, and one line on it.
fn about(folder: &Path) -> (Option<Ability>, String) {
    let Ok(card) = Card::read(&folder.join(model::CARD)) else {
        return match SentenceModel::open(folder) {
            Ok(model) => {
                let about = format!("sentence encoder, {} dimensions", model.dim());
                (Some(Ability::ComparesCaptions), about)
            }
            Err(error) => (None, format!("cannot be read: {error}")),
        };
    };
    let dim = card
        .audio
        .as_ref()
        .and_then(|audio| audio.side.projection.last())
        .or_else(|| card.text.as_ref().and_then(|text| text.side.projection.last()));
    let reads = card.text.is_some() || card.sentence.is_some();
    let (can, towers) = match (&card.audio, reads) {
        (Some(_), true) => (Ability::HearsAndReads, "dual encoder"),
        (Some(_), false) => (Ability::Hears, "audio tower"),
        (None, _) => (Ability::Reads, "text tower"),
    };
    let about = match dim {
        Some(dim) => format!("{towers}, {dim} dimensions"),
        None => towers.to_owned(),
    };
    (Some(can), about)
}
