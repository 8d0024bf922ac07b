//! A recipe: everything about a training but where it runs, as one TOML file.
//!
//! Paths in the file are relative to its folder (a dataset's folder may also be the name of a registered one), those of changes (`--set`) to the working directory; a recipe that was read has
//! absolute ones, and so has the copy that a run keeps.
//!
//! Keys that a recipe leaves out have the paper's values. An unknown key is refused, with the closest known one; a key that
//! was renamed, with its new name. Before a training begins the recipe is *resolved*: what is found out on the way (the
//! size of a vocabulary, the range of similarities, the smoothing of `smooth`) is written into it, and the resolved recipe
//! into the run.

mod keys;
mod paths;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hark_audio::MelConfig;
use hark_audio::augment::Masking;
use hark_corpus::{CacheFormat, Check, DatasetConfig, Registry};
use hark_encode::card::ClipLength;
use hark_encode::tokenize::Kind;
use hark_encode::towers::mn::Statistics;
use hark_encode::towers::{AudioConfig, TextConfig};
use hark_encode::{Arithmetic, Compute, DeviceName};
use hark_relevance::RelevanceFunction;
use hark_soundscape as soundscape;
use hark_work::progress::Progress;
use serde::{Deserialize, Serialize};

use self::keys::{RENAMED, apply, explain, has, rename};
use self::paths::{folder_of, resolve};
use crate::Error;
use crate::network::is_part;
use crate::objective::{Direction, Objective, ObjectiveKind, Target};
use crate::optimizer::AdamWConfig;
use crate::schedule::Schedule;

/// A recipe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Recipe {
    /// What it is called in reports.
    pub name: String,
    /// Everything random in a training follows from it.
    #[serde(default = "one")]
    pub seed: u64,
    /// What is learned from.
    #[serde(default)]
    pub data: Data,
    /// Soundscapes that are made before the training, and learned from where `data` names no sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soundscapes: Option<soundscape::Config>,
    /// The audio side; without it, that of the model that the training starts from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audio: Option<Audio>,
    /// The text side; without it, that of the model that the training starts from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Text>,
    /// What is learned.
    #[serde(default)]
    pub objective: ObjectiveRecipe,
    /// How it is learned.
    #[serde(default)]
    pub training: Training,
    /// What `hark reproduce` repeats it with. A single training takes no notice of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub study: Option<Study>,
}

fn one() -> u64 {
    1
}

/// A recipe repeated: methods by seeds, on several corpora where these are made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Study {
    /// The objectives, in the order of tables.
    pub methods: Vec<ObjectiveKind>,
    /// Trainings of each, with the seeds 1, 2 and so on.
    pub seeds: u64,
    /// Soundscapes of so many seeds: 1, 2 and so on. Real data sets are one corpus.
    pub corpora: u64,
}

impl Default for Study {
    /// The paper's four methods and five seeds.
    fn default() -> Self {
        Self {
            methods: vec![
                ObjectiveKind::Infonce,
                ObjectiveKind::ListnetAudio,
                ObjectiveKind::ListnetText,
                ObjectiveKind::ListnetBoth,
            ],
            seeds: 5,
            corpora: 1,
        }
    }
}

/// The data sets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Data {
    /// Learned from; several are merged.
    pub train: Vec<DatasetConfig>,
    /// Tells which epoch is the best.
    pub validation: Vec<DatasetConfig>,
    /// Judged by at the end.
    pub test: Vec<DatasetConfig>,
    /// How closely training recordings are looked at before the training; those of the other splits are decoded.
    pub check: Check,
    /// Whether a missing or broken recording ends the training instead of being left out.
    pub strict: bool,
    /// Recordings of the test split that may be missing in a study. Of AudioCaps, clips disappear from YouTube.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_missing_test: usize,
    /// Only so much of a recording's beginning is ever read.
    pub longest_seconds: f64,
    /// Decoded recordings are kept on disk up to this size, shared between runs; 0 keeps neither them nor features.
    pub cache_gigabytes: f64,
    /// How decoded recordings are kept. FLAC rounds samples to 16 bits, also of what is not kept: what is learned does not depend
    /// on the cache's size.
    #[serde(skip_serializing_if = "is_default")]
    pub cache: CacheFormat,
    /// Captions are given to other clips at random: a control in which there is nothing to learn.
    pub shuffle_captions: bool,
}

impl Default for Data {
    fn default() -> Self {
        Self {
            train: Vec::new(),
            validation: Vec::new(),
            test: Vec::new(),
            check: Check::Opens,
            strict: false,
            max_missing_test: 0,
            longest_seconds: 600.0,
            cache_gigabytes: 50.0,
            cache: CacheFormat::F32,
            shuffle_captions: false,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_default(format: &CacheFormat) -> bool {
    *format == CacheFormat::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The audio side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Audio {
    /// A model to take the tower's weights from, by name or folder; without it they are random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<String>,
    /// The tower, by name, with its sizes.
    pub network: AudioConfig,
    /// Widths of the projection's layers.
    #[serde(default = "shared_space")]
    pub projection: Vec<usize>,
    /// Waveform to log-mel.
    #[serde(default, with = "FrontEnd")]
    pub front_end: MelConfig,
    /// A clip is cut into segments of this length.
    #[serde(default = "ten")]
    pub segment_seconds: f64,
    /// Which of its segments count.
    pub clip: ClipLength,
    /// Whether training moves the edges of the mel bands at random. A frozen tower sees clips as they are: without this, without
    /// masks, from their start and without patchout.
    #[serde(default)]
    pub jitter: bool,
    /// How much of the log-mel training masks at random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub masking: Option<Masking>,
}

/// [`MelConfig`] with the keys of recipes. Those of model cards are in snake case, and stay so.
#[derive(Serialize, Deserialize)]
#[serde(remote = "MelConfig", deny_unknown_fields, rename_all = "kebab-case")]
struct FrontEnd {
    rate: u32,
    n_fft: usize,
    window: usize,
    hop: usize,
    mels: usize,
    low: f64,
    high: f64,
    pre_emphasis: f64,
}

fn shared_space() -> Vec<usize> {
    vec![1024, 1024]
}

fn ten() -> f64 {
    10.0
}

/// The text side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Text {
    /// A model to take the tower's weights from, by name or folder; without it they are random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<String>,
    /// The tower, by name, with its sizes. With a tokenizer that is trained, `vocabulary` is a bound.
    pub network: TextConfig,
    /// Widths of the projection's layers.
    #[serde(default = "shared_space")]
    pub projection: Vec<usize>,
    /// At how many tokens a caption is cut.
    #[serde(default = "thirty_two")]
    pub max_tokens: usize,
    /// Whether ASCII punctuation is taken out of a caption.
    #[serde(default)]
    pub strip_punctuation: bool,
    /// Whether a caption is turned to lower case.
    #[serde(default)]
    pub lower_case: bool,
    /// Trains a tokenizer on the training captions, unless the tower's weights come from a model, with its tokenizer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train_tokenizer: Option<Kind>,
}

fn thirty_two() -> usize {
    32
}

/// What is learned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ObjectiveRecipe {
    /// Which objective.
    pub name: ObjectiveKind,
    /// Temperature of the softmax over scores.
    pub tau: f32,
    /// Temperature of the softmax over relevances.
    pub omega: f32,
    /// Caption similarity to relevance, as `--function` takes it.
    #[serde(deserialize_with = "function_text")]
    pub relevance_function: String,
    /// The sentence encoder behind graded targets, by name or folder.
    pub sentence_encoder: String,
    /// The share of binary targets beside graded ones, 0 to 1.
    pub binary_weight: f32,
    /// The share of a target that `smooth` spreads evenly over the other clips; without it, the share that ListNet's
    /// targets give to other clips on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smoothing: Option<f32>,
    /// What the lists of `smooth` are of; without it, of clips.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
}

impl Default for ObjectiveRecipe {
    fn default() -> Self {
        Self {
            name: ObjectiveKind::ListnetAudio,
            tau: 0.05,
            omega: 0.05,
            relevance_function: "logistic".into(),
            sentence_encoder: "all-mpnet-base-v2".into(),
            binary_weight: 0.0,
            smoothing: None,
            direction: None,
        }
    }
}

/// How it is learned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Training {
    /// Where the network computes, such as `cpu`, `cuda:0` or `torch`.
    pub device: DeviceName,
    /// The numbers that the towers' products are made of.
    pub precision: TrainPrecision,
    /// Pairs that go through the towers at a time; without it, the whole batch. The lists stay those of the batch, in the memory
    /// of a chunk, for one more forward pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<usize>,
    /// Whether blocks of transformers keep only their input and are computed again for the gradient: less memory, for one more
    /// forward pass.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub gradient_checkpointing: bool,
    /// Pairs in a batch.
    pub batch: usize,
    /// Passes over the training set.
    pub epochs: u64,
    /// What a pass goes over.
    pub epoch_over: EpochOver,
    /// The learning rate of each step.
    pub schedule: Schedule,
    /// What turns gradients into steps.
    pub optimizer: AdamWConfig,
    /// Factors on the learning rate of parts, by the beginning of their parameters' names, such as `text.tower`.
    pub lr_multipliers: BTreeMap<String, f64>,
    /// Parts that stay as they are, by the beginning of their parameters' names.
    pub freeze: Vec<String>,
    /// The largest norm of all gradients together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_grad_norm: Option<f64>,
    /// Batches whose gradients are averaged for one step.
    pub gradient_accumulation: u64,
    /// A model or a run's model to start from, with a fresh optimizer and schedule. `{objective}` stands for the name of the
    /// objective, so that each method goes on from its own pretraining.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_from: Option<String>,
    /// Parts that begin with random weights although the training starts from a model.
    pub reinitialize: Vec<String>,
    /// How the best epoch is chosen.
    pub select_by: SelectBy,
    /// At the latest after so many minutes, the state of the training is saved.
    pub checkpoint_minutes: f64,
    /// And after every so many steps; the end of an epoch always saves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_steps: Option<u64>,
}

impl Default for Training {
    fn default() -> Self {
        Self {
            device: DeviceName::Cpu,
            precision: TrainPrecision::F32,
            chunk: None,
            gradient_checkpointing: false,
            batch: 32,
            epochs: 25,
            epoch_over: EpochOver::Pairs,
            schedule: Schedule::default(),
            optimizer: AdamWConfig::default(),
            lr_multipliers: BTreeMap::new(),
            freeze: Vec::new(),
            max_grad_norm: None,
            gradient_accumulation: 1,
            init_from: None,
            reinitialize: Vec::new(),
            select_by: SelectBy::Loss,
            checkpoint_minutes: 10.0,
            checkpoint_steps: None,
        }
    }
}

/// The numbers that the towers' products are made of. Weights, moments, norms, softmax and the loss are in 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrainPrecision {
    /// 32 bits.
    #[default]
    F32,
    /// bf16.
    Bf16,
    /// bf16 where the device has it, else f16 with a scaled loss.
    Mixed,
}

impl std::str::FromStr for TrainPrecision {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "f32" => Ok(Self::F32),
            "bf16" => Ok(Self::Bf16),
            "mixed" => Ok(Self::Mixed),
            _ => Err("expected f32, bf16 or mixed".to_owned()),
        }
    }
}

impl TrainPrecision {
    /// The numbers on a device.
    ///
    /// # Errors
    /// [`Error::Option`] if the device does not compute with them.
    pub fn on(self, device: DeviceName, compute: &Compute) -> Result<Arithmetic, Error> {
        let wanted: &[Arithmetic] = match self {
            Self::F32 => &[Arithmetic::F32],
            Self::Bf16 => &[Arithmetic::Bf16],
            Self::Mixed => &[Arithmetic::Bf16, Arithmetic::F16],
        };
        let found = wanted
            .iter()
            .find(|arithmetic| arithmetic.is_on(compute.device()));
        found.copied().ok_or_else(|| Error::Option {
            option: "training.precision",
            value: if self == Self::Bf16 { "bf16" } else { "mixed" }.to_owned(),
            allowed: format!("f32 on {device}, which does not compute with 16-bit numbers"),
        })
    }
}

/// What an epoch goes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EpochOver {
    /// Every pair of a clip and a caption: a clip with five captions appears five times.
    Pairs,
    /// Every clip once, with one of its captions chosen at random.
    Clips,
}

/// How the best epoch is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SelectBy {
    /// The lowest validation loss, as in the paper; the later epoch wins ties.
    Loss,
    /// The highest mAP@10 on the validation set, text to audio.
    Map,
    /// The last epoch.
    Last,
}

impl Recipe {
    /// Reads a recipe and applies changes of the form `key=value`.
    ///
    /// # Errors
    /// [`Error::Recipe`] with the line and, for an unknown key, the closest known one; [`Error::RenamedKeys`].
    pub fn read(path: &Path, set: &[String]) -> Result<Self, Error> {
        Self::parse(&fs_err::read_to_string(path)?, path, set)
    }

    /// Reads the resolved recipe of a run and applies changes to it, as `--set` does. Keys that were renamed since it was written are
    /// accepted.
    ///
    /// # Errors
    /// As [`Recipe::read`].
    pub fn read_resolved(path: &Path, set: &[String]) -> Result<Self, Error> {
        let text = fs_err::read_to_string(path)?;
        let mut table: toml::Table = toml::from_str(&text).map_err(|e| Error::Recipe {
            path: path.to_owned(),
            what: explain(&e),
        })?;
        for (old, new) in RENAMED {
            rename(&mut table, old, new);
        }
        // Of runs before paths were kept as absolute ones, they are relative to the directory that the run was started in.
        resolve(&mut table, &folder_of(Path::new("")));
        Self::parse(&table.to_string(), path, set)
    }

    /// What a training is known by: the recipe without the keys that may change while it goes on. These are where the training
    /// computes and in what pieces, which changes roundings alone, how often it saves itself, and the size of the cache.
    #[must_use]
    pub fn identity(&self) -> Self {
        let mut recipe = self.clone();
        let training = Training::default();
        recipe.training = Training {
            device: training.device,
            precision: training.precision,
            chunk: training.chunk,
            gradient_checkpointing: training.gradient_checkpointing,
            checkpoint_minutes: training.checkpoint_minutes,
            checkpoint_steps: training.checkpoint_steps,
            ..recipe.training
        };
        recipe.data.cache_gigabytes = 0.0;
        recipe
    }

    /// As [`Recipe::read`], from text; `path` is what errors call it, and paths are relative to its folder.
    ///
    /// # Errors
    /// As [`Recipe::read`].
    pub fn parse(text: &str, path: &Path, set: &[String]) -> Result<Self, Error> {
        let fail = |what: String| Error::Recipe {
            path: path.to_owned(),
            what,
        };
        let mut table: toml::Table = toml::from_str(text).map_err(|e| fail(explain(&e)))?;
        resolve(&mut table, &folder_of(path));
        for change in set {
            apply(&mut table, change).map_err(&fail)?;
        }
        let keys: Vec<_> = RENAMED
            .into_iter()
            .filter(|(old, _)| has(&mut table, old))
            .collect();
        if !keys.is_empty() {
            return Err(Error::RenamedKeys {
                path: path.to_owned(),
                keys,
            });
        }
        // Without changes the parser's own error shows the line.
        if set.is_empty() {
            toml::from_str::<Self>(text).map_err(|e| fail(explain(&e)))?;
        }
        let mut recipe = table.try_into::<Self>().map_err(|e| fail(explain(&e)))?;
        if let Some(model) = &mut recipe.training.init_from {
            *model = model.replace("{objective}", &recipe.objective.name.to_string());
        }
        recipe.check()?;
        Ok(recipe)
    }

    /// A warning if changes set how long a training is and leave the learning rate's decay where it was.
    ///
    /// # Errors
    /// As [`Recipe::read`], for the recipe with the changes. Without them it may be anything.
    pub fn epochs_warning(path: &Path, set: &[String]) -> Result<Option<String>, Error> {
        let now = Self::read(path, set)?.training;
        let Ok(Self { training: before, .. }) = Self::read(path, &[]) else {
            return Ok(None);
        };
        let (epochs, decay) = (now.epochs, now.schedule.decay_epochs);
        let is_kept = decay.to_bits() == before.schedule.decay_epochs.to_bits();
        let fits = epochs == before.epochs || (epochs as f64 - decay).abs() < 1e-9;
        Ok((is_kept && !fits).then(|| {
            format!(
                "training.epochs is {epochs} instead of {}, but the learning rate still decays until epoch {decay} \
                 (training.schedule.decay-epochs); set both to change the length of the schedule",
                before.epochs
            )
        }))
    }

    /// The recipe as TOML.
    ///
    /// # Errors
    /// [`Error::Recipe`] if a number has no form in TOML, such as a seed beyond 63 bits.
    pub fn to_toml(&self) -> Result<String, Error> {
        toml::to_string(self).map_err(|e| Error::Recipe {
            path: PathBuf::from(&self.name),
            what: e.to_string(),
        })
    }

    /// That nothing impossible is asked for.
    ///
    /// # Errors
    /// [`Error::Option`] with what is wrong and what is allowed.
    pub fn check(&self) -> Result<(), Error> {
        self.check_sides()?;
        self.data.check()?;
        self.training.check()?;
        if let Some(study) = &self.study {
            study.check()?;
        }
        self.objective.check()
    }

    fn check_sides(&self) -> Result<(), Error> {
        let (audio, text) = match (&self.audio, &self.text) {
            (Some(audio), Some(text)) => (audio, text),
            (None, None) if self.training.init_from.is_some() => return Ok(()),
            (None, None) => {
                return wrong(
                    "audio",
                    "not there",
                    "there, unless training.init-from names a model",
                );
            }
            (audio, _) => {
                let missing = if audio.is_none() { "audio" } else { "text" };
                return wrong(
                    missing,
                    "not there",
                    "there if the other side is, or both absent to take them from training.init-from",
                );
            }
        };
        let dims = (audio.projection.last(), text.projection.last());
        if dims.0.is_none() || dims.0 != dims.1 {
            return wrong(
                "text.projection",
                format!(
                    "{:?} beside audio.projection {:?}",
                    text.projection, audio.projection
                ),
                "of the same last width: vectors of both sides meet in one space",
            );
        }
        let is_frozen = is_part("audio.tower", &self.training.freeze);
        if is_frozen && (audio.jitter || audio.masking.is_some()) {
            return wrong(
                "audio.jitter or audio.masking",
                "set",
                "absent: a frozen tower sees clips as they are",
            );
        }
        if let (AudioConfig::Mn(config), Some(chunk), false) =
            (&audio.network, self.training.chunk, is_frozen)
            && config.statistics == Statistics::Batch
        {
            return wrong(
                "training.chunk",
                chunk,
                "absent where norms take the statistics of the batch; or set audio.network.statistics to \"frozen\"",
            );
        }
        check_seconds("audio.segment-seconds", audio.segment_seconds)?;
        match audio.clip {
            ClipLength::Full | ClipLength::Begun => Ok(()),
            ClipLength::Unpadded => wrong(
                "audio.clip.length",
                "\"unpadded\"",
                "\"true\", \"begun\" or \"padded\": the segments of a batch have one length",
            ),
            ClipLength::Fixed { seconds } => check_seconds("audio.clip.seconds", seconds),
        }
    }

    /// Generates the soundscapes that the recipe asks for, in a folder of their own below `place`, and names them
    /// as its data. A recipe without soundscapes is returned unchanged.
    ///
    /// # Errors
    /// [`Error::Soundscape`], [`Error::Cancelled`].
    pub fn with_generated_soundscapes(
        self,
        place: &Path,
        threads: usize,
        progress: Progress<'_>,
    ) -> Result<Self, Error> {
        let Some(config) = &self.soundscapes else {
            return Ok(self);
        };
        let folder = soundscape::folder_for(config, place)?;
        match soundscape::generate(config, &folder, threads, progress) {
            Ok(_) => Ok(self.with_soundscapes_at(&folder)),
            Err(soundscape::Error::Cancelled) => Err(Error::Cancelled),
            Err(other) => Err(other.into()),
        }
    }

    /// With the folders of the datasets that it names. Names that are not registered stay, and a training refuses them.
    #[must_use]
    pub fn with_datasets(mut self, registry: &Registry) -> Self {
        let data = &mut self.data;
        for sets in [&mut data.train, &mut data.validation, &mut data.test] {
            for set in sets {
                *set = set.clone().located(registry);
            }
        }
        self
    }

    /// The data sets, with soundscapes in `folder` where the recipe names no sets.
    #[must_use]
    pub fn with_soundscapes_at(mut self, folder: &Path) -> Self {
        let split = |split: &str| {
            vec![DatasetConfig::Clotho {
                root: folder.to_owned(),
                split: split.to_owned(),
            }]
        };
        for (sets, name) in [
            (&mut self.data.train, "development"),
            (&mut self.data.validation, "validation"),
            (&mut self.data.test, "evaluation"),
        ] {
            if sets.is_empty() {
                *sets = split(name);
            }
        }
        self
    }
}

/// A relevance function as text, or as the table that `hark relevance fit --json` prints.
fn function_text<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    use serde::de::Error as _;
    match toml::Value::deserialize(from)? {
        toml::Value::String(text) => Ok(text),
        table @ toml::Value::Table(_) => {
            let function = table.try_into::<RelevanceFunction>();
            function
                .map(|function| function.to_string())
                .map_err(D::Error::custom)
        }
        other => Err(D::Error::custom(format!(
            "a relevance function is text such as \"logistic\" or a table with a name, not {}",
            other.type_str()
        ))),
    }
}

/// The error for a value that cannot be.
#[allow(clippy::needless_pass_by_value)] // a value reads better than a borrow of one at every call
pub(crate) fn wrong<T>(option: &'static str, value: impl ToString, allowed: &str) -> Result<T, Error> {
    Err(Error::Option {
        option,
        value: value.to_string(),
        allowed: allowed.to_owned(),
    })
}

fn check_seconds(option: &'static str, seconds: f64) -> Result<(), Error> {
    if seconds > 0.0 && seconds <= 86_400.0 {
        return Ok(());
    }
    wrong(option, seconds, "above 0 and at most a day")
}

impl Study {
    /// That there is something to repeat.
    ///
    /// # Errors
    /// [`Error::Option`] with what is wrong and what is allowed.
    pub fn check(&self) -> Result<(), Error> {
        if self.methods.is_empty() {
            return wrong("study.methods", "an empty list", "at least one objective");
        }
        let repeated = |(nth, name): (usize, &ObjectiveKind)| self.methods[..nth].contains(name);
        if let Some((_, name)) = self.methods.iter().enumerate().find(|&each| repeated(each)) {
            return wrong("study.methods", format!("{name} twice"), "each objective once");
        }
        for (option, number) in [("study.seeds", self.seeds), ("study.corpora", self.corpora)] {
            if number == 0 || number > 1000 {
                return wrong(option, number, "from 1 to 1000");
            }
        }
        Ok(())
    }
}

impl Data {
    /// Its splits, each with its key.
    pub fn parts(&self) -> [(&'static str, &[DatasetConfig]); 3] {
        [
            ("data.train", &self.train),
            ("data.validation", &self.validation),
            ("data.test", &self.test),
        ]
    }

    fn check(&self) -> Result<(), Error> {
        check_seconds("data.longest-seconds", self.longest_seconds)?;
        if self.cache_gigabytes >= 0.0 {
            return Ok(());
        }
        wrong("data.cache-gigabytes", self.cache_gigabytes, "a number from 0")
    }
}

impl Training {
    fn check(&self) -> Result<(), Error> {
        if self.batch < 2 {
            return wrong(
                "training.batch",
                self.batch,
                "at least 2: an objective compares the pairs of a batch with each other",
            );
        }
        if self.chunk == Some(0) {
            return wrong("training.chunk", 0, "at least 1");
        }
        if self.batch > 1 << 16 {
            return wrong("training.batch", self.batch, "at most 65536");
        }
        if self.epochs == 0 || self.epochs > 1_000_000 {
            return wrong("training.epochs", self.epochs, "from 1 to 1000000");
        }
        if self.gradient_accumulation == 0 || self.gradient_accumulation > 1 << 20 {
            return wrong(
                "training.gradient-accumulation",
                self.gradient_accumulation,
                "from 1 to 2^20",
            );
        }
        if let Some(norm) = self
            .max_grad_norm
            .filter(|norm| !(norm.is_finite() && *norm > 0.0))
        {
            return wrong("training.max-grad-norm", norm, "above 0");
        }
        if self.checkpoint_steps == Some(0) {
            return wrong("training.checkpoint-steps", 0, "at least 1");
        }
        if self.checkpoint_minutes.is_nan() || self.checkpoint_minutes <= 0.0 {
            return wrong("training.checkpoint-minutes", self.checkpoint_minutes, "above 0");
        }
        let impossible = |rate: &f64| !(rate.is_finite() && *rate >= 0.0);
        if let Some((name, rate)) = self.lr_multipliers.iter().find(|(_, rate)| impossible(rate)) {
            return wrong(
                "training.lr-multipliers",
                format!("{rate} for {name}"),
                "a number from 0",
            );
        }
        self.schedule.check()?;
        self.optimizer.check()
    }
}

impl ObjectiveRecipe {
    fn check(&self) -> Result<(), Error> {
        if !(self.tau.is_finite() && self.tau > 0.0) {
            return wrong("objective.tau", self.tau, "above 0");
        }
        if !(self.omega.is_finite() && self.omega > 0.0) {
            return wrong("objective.omega", self.omega, "above 0");
        }
        if !(0.0..=1.0).contains(&self.binary_weight) {
            return wrong("objective.binary-weight", self.binary_weight, "from 0 to 1");
        }
        let is_graded = self.name.is_graded();
        if self.binary_weight > 0.0 && !is_graded {
            return wrong(
                "objective.binary-weight",
                self.binary_weight,
                "0: only ListNet mixes targets",
            );
        }
        let is_smooth = self.name == ObjectiveKind::Smooth;
        for (option, is_set) in [
            ("objective.direction", self.direction.is_some()),
            ("objective.smoothing", self.smoothing.is_some()),
        ] {
            if is_set && !is_smooth {
                return Err(Error::OnlyForSmooth { option });
            }
        }
        if let Some(share) = self.smoothing.filter(|share| !(0.0..=1.0).contains(share)) {
            return wrong("objective.smoothing", share, "from 0 to 1");
        }
        self.relevance_function().map(|_| ())
    }

    /// Takes over what an earlier start of the same training found out.
    pub(crate) fn take_resolved(&mut self, began: &Self) {
        if self
            .relevance_function()
            .is_ok_and(|function| function.needs_range())
        {
            self.relevance_function.clone_from(&began.relevance_function);
        }
        if self.name == ObjectiveKind::Smooth && self.smoothing.is_none() {
            self.smoothing = began.smoothing;
        }
    }

    /// Whether the sentence encoder is asked for anything: by graded targets, or by `smooth` for its share.
    pub fn needs_teacher(&self) -> bool {
        match self.name {
            ObjectiveKind::Infonce | ObjectiveKind::InfonceAudio | ObjectiveKind::InfonceText => false,
            ObjectiveKind::ListnetAudio | ObjectiveKind::ListnetText | ObjectiveKind::ListnetBoth => true,
            ObjectiveKind::Smooth => self.smoothing.is_none(),
        }
    }

    /// The relevance function that the recipe names.
    ///
    /// # Errors
    /// If there is none of that name, or its parameters cannot be.
    pub fn relevance_function(&self) -> Result<RelevanceFunction, Error> {
        Ok(self.relevance_function.parse()?)
    }

    /// The objective. `function` has its range, and `smoothing` is the share that `smooth` spreads.
    pub fn objective(&self, function: RelevanceFunction, smoothing: f32) -> Objective {
        let graded = Target::Graded {
            function,
            omega: self.omega,
            binary_weight: self.binary_weight,
        };
        let (target, direction) = match self.name {
            ObjectiveKind::Infonce => (Target::Binary, Direction::Both),
            ObjectiveKind::InfonceAudio => (Target::Binary, Direction::Audio),
            ObjectiveKind::InfonceText => (Target::Binary, Direction::Text),
            ObjectiveKind::ListnetAudio => (graded, Direction::Audio),
            ObjectiveKind::ListnetText => (graded, Direction::Text),
            ObjectiveKind::ListnetBoth => (graded, Direction::Both),
            ObjectiveKind::Smooth => (
                Target::Smooth { smoothing },
                self.direction.unwrap_or(Direction::Audio),
            ),
        };
        Objective {
            target,
            direction,
            tau: self.tau,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
name = "small"
[audio]
network = { tower = "cnn", mels = 64, channels = [16, 32], width = 32 }
projection = [16]
clip = { length = "padded", seconds = 4 }
[text]
network = { tower = "roberta", vocabulary = 500, positions = 34, width = 32, hidden = 64, layers = 1, heads = 2, epsilon = 1e-5, types = 1, dropout = 0.1, attention-dropout = 0.1 }
projection = [16]
train-tokenizer = "words"
[training]
batch = 8
"#;

    fn parse(text: &str, set: &[&str]) -> Result<Recipe, String> {
        let set: Vec<String> = set.iter().map(ToString::to_string).collect();
        Recipe::parse(text, Path::new("small.toml"), &set).map_err(|e| e.to_string())
    }

    #[test]
    fn what_is_not_said_has_the_papers_value() {
        let recipe = parse(SMALL, &[]).unwrap();
        assert_eq!((recipe.training.batch, recipe.training.epochs), (8, 25));
        assert_eq!(recipe.training.schedule, Schedule::default());
        assert_eq!(recipe.objective.name, ObjectiveKind::ListnetAudio);
        assert!((recipe.objective.omega - 0.05).abs() < f32::EPSILON);
    }

    #[test]
    fn a_recipe_survives_being_written() {
        let recipe = parse(
            SMALL,
            &["training.lr-multipliers.text=0.5", "objective.name=smooth"],
        )
        .unwrap();
        let again = parse(&recipe.to_toml().unwrap(), &[]).unwrap();
        assert_eq!(recipe, again);
    }

    #[test]
    fn set_changes_and_adds_keys() {
        let set = [
            "training.epochs=3",
            "objective.sentence-encoder=caption-static",
            "training.freeze=[\"text\"]",
        ];
        let recipe = parse(SMALL, &set).unwrap();
        assert_eq!(recipe.training.epochs, 3);
        assert_eq!(recipe.objective.sentence_encoder, "caption-static");
        assert_eq!(recipe.training.freeze, ["text"]);
        for (set, expected) in [
            ("training.epocs=3", "did you mean `epochs`?"),
            ("objective.name=listnet-audo", "did you mean `listnet-audio`?"),
            ("training", "expected KEY=VALUE"),
            ("name.x=1", "`name` is not a table"),
            ("training..x=1", "empty part"),
        ] {
            let error = parse(SMALL, &[set]).unwrap_err();
            assert!(error.contains(expected), "{set}: {error}");
        }
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line_and_the_likely_one() {
        let error = parse(&SMALL.replace("batch = 8", "bach = 8"), &[]).unwrap_err();
        assert!(
            error.contains("did you mean `batch`?") && error.contains("line 12"),
            "{error}"
        );
        let error = parse(&SMALL.replace("batch = 8", "zzzzzzz = 8"), &[]).unwrap_err();
        assert!(
            error.contains("unknown field") && !error.contains("did you mean"),
            "{error}"
        );
    }

    #[test]
    fn impossible_values_are_refused() {
        for (set, expected) in [
            ("training.batch=1", "at least 2"),
            ("training.epochs=0", "training.epochs"),
            ("objective.tau=0.0", "objective.tau"),
            ("objective.omega=-1.0", "objective.omega"),
            ("objective.relevance-function=logistik", "logistik"),
            ("objective.binary-weight=2.0", "objective.binary-weight"),
            (
                "training.gradient-accumulation=0",
                "training.gradient-accumulation",
            ),
            (
                "training.schedule.decay-epochs=0.5",
                "training.schedule.decay-epochs",
            ),
            ("training.optimizer.beta-1=1.0", "beta-1"),
            ("audio.projection=[8]", "projection"),
            ("audio.segment-seconds=0.0", "segment-seconds"),
            (
                "objective.direction=text",
                "objective.direction applies only to `smooth`",
            ),
            (
                "objective.smoothing=0.1",
                "objective.smoothing applies only to `smooth`",
            ),
        ] {
            let error = parse(SMALL, &[set]).unwrap_err();
            assert!(error.contains(expected), "{set}: {error}");
        }
    }

    /// An old key is refused in a recipe and in `--set`, with the new one; in a run's own recipe it is understood.
    #[test]
    fn a_relevance_function_is_text_or_a_table() {
        let read = |function: &str| {
            let set = format!("objective.relevance-function={function}");
            parse(SMALL, &[&set]).map(|recipe| recipe.objective.relevance_function)
        };
        let text = read("\"logistic:intercept=-2.5,slope=5\"").unwrap();
        let table = read("{ name = \"logistic\", intercept = -2.5, slope = 5 }").unwrap();
        assert_eq!(
            text.parse::<RelevanceFunction>().unwrap(),
            table.parse::<RelevanceFunction>().unwrap()
        );
        for wrong in [
            "3",
            "{ name = \"logistics\" }",
            "{ name = \"logistic\", slop = 5 }",
        ] {
            let error = read(wrong).unwrap_err();
            assert!(
                error.contains("small.toml") || error.contains("relevance"),
                "{error}"
            );
        }
    }

    #[test]
    fn renamed_keys_are_refused_with_their_new_names() {
        let old = SMALL.replace(
            "batch = 8",
            "batch = 8\nclip-norm = 1.0\nkeep = \"last\"\nschedule = { peak = 1e-3, warm-up = 2.0 }",
        );
        let error = parse(&old, &[]).unwrap_err();
        for expected in [
            "`training.clip-norm` is now `training.max-grad-norm`",
            "`training.keep` is now `training.select-by`",
            "`training.schedule.peak` is now `training.schedule.lr`",
            "`training.schedule.warm-up` is now `training.schedule.warmup-epochs`",
        ] {
            assert!(error.contains(expected), "{error}");
        }
        for (old, new) in RENAMED {
            let error = parse(SMALL, &[&format!("{old}=1")]).unwrap_err();
            let (section, _) = old.rsplit_once('.').unwrap();
            assert!(
                error.contains(&format!("`{old}` is now `{section}.{new}`")),
                "{error}"
            );
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recipe.toml");
        fs_err::write(&path, old).unwrap();
        let set = [
            "training.max-grad-norm=1.0",
            "training.select-by=last",
            "training.schedule={lr=1e-3,warmup-epochs=2.0}",
        ];
        assert_eq!(
            Recipe::read_resolved(&path, &[]).unwrap(),
            parse(SMALL, &set).unwrap()
        );
    }
}
